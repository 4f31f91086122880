// Package store holds the rows of an approval gateway: suspensions, approvals,
// spent permits, recorded results. Its one promise that others build on is
// [Store].Create: of any number of callers, in any number of processes that
// share the store, exactly one creates a row, which is what "spent once" means.
//
// Rows are opaque: the store compares identifiers, keys and revisions, and never
// reads a body. It keeps every row; nothing is deleted, because a forgotten
// spent permit could be spent again.
package store

import (
	"context"
	"errors"
	"fmt"
)

// A Row is one stored record.
type Row struct {
	Kind string // what the row is, such as "suspension"; not empty
	ID   string // unique within the kind; not empty
	Key  string // optional secondary index within the kind, for Find
	// Rev is the revision: 1 when created, one more with every update. The store
	// sets it.
	Rev  int64
	Body []byte // opaque; nil and empty are the same
}

// A Store keeps rows. All methods may be called concurrently, and bodies are
// copied on the way in and on the way out.
//
// ErrExists, ErrStale and ErrNotFound are answers. Any other error, the
// context's included, means that the store is unavailable: it says nothing about
// the state, and whoever asked must not proceed as if it did. A Create or an
// Update that failed in this way may have been stored nonetheless.
type Store interface {
	// Create stores a row that does not exist yet and returns it with Rev 1; the
	// Rev given is ignored. ErrExists if the kind has a row with this id. It is
	// one atomic step: the compare-and-set by which an approval is spent.
	Create(ctx context.Context, r Row) (Row, error)
	// Update replaces key and body of the row whose revision is r.Rev, and
	// returns it with the next one. ErrStale if it has another revision,
	// ErrNotFound if there is no such row.
	Update(ctx context.Context, r Row) (Row, error)
	// Get returns a row, or ErrNotFound.
	Get(ctx context.Context, kind, id string) (Row, error)
	// Find returns the rows of a kind that have this key now, the one created
	// last first; none is no error. The empty key finds the rows without one.
	Find(ctx context.Context, kind, key string) ([]Row, error)
	// Next returns a number that is larger than every number returned for this
	// name before, by any instance that shares the store; the first is 1.
	Next(ctx context.Context, name string) (int64, error)
	// Close releases the store; later calls fail.
	Close() error
}

var (
	// ErrExists: the row is there already.
	ErrExists = errors.New("row exists")
	// ErrStale: the row was changed since it was read.
	ErrStale = errors.New("row was changed since it was read")
	// ErrNotFound: there is no such row.
	ErrNotFound = errors.New("row not found")
)

// isAnswer tells an answer of a store from an error of one that is unavailable.
func isAnswer(err error) bool {
	return errors.Is(err, ErrExists) || errors.Is(err, ErrStale) || errors.Is(err, ErrNotFound)
}

var errClosed = errors.New("the store is closed")

func checkNames(kind, id string) error {
	if kind == "" || id == "" {
		return errors.New("a row needs a kind and an id")
	}
	return nil
}

// fail wraps err with what was being done. Names are quoted, because they may
// come from a request.
func fail(doing, kind, id string, err error) error {
	return &opError{doing, kind, id, err}
}

// An opError is written out only when someone reads it: "not found" is an
// everyday answer.
type opError struct {
	doing, kind, id string
	err             error
}

func (e *opError) Error() string { return fmt.Sprintf("%s %q %q: %v", e.doing, e.kind, e.id, e.err) }
func (e *opError) Unwrap() error { return e.err }
