package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	signednote "golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"countersign/gateway/api"
)

// A Report is what a log, its checkpoints and the verifier keys say together, and
// nothing but these was asked.
type Report struct {
	Log         string `json:"log"`         // the file
	Origin      string `json:"origin"`      // the log's name, in its checkpoints; empty where there are none
	Entries     int64  `json:"entries"`     // whole ones, up to what is damaged
	Unfinished  int    `json:"unfinished"`  // bytes of a last line that a crash cut off
	Checkpoints int64  `json:"checkpoints"` // good ones
	// Covered is the number of entries under the last good checkpoint, which is of the
	// time Since. Entries behind it are there, and those that may have been removed from
	// behind it are missed by nobody.
	Covered int64     `json:"covered"`
	Since   time.Time `json:"since,omitzero"`
	// Tampering is what nobody who keeps the log honestly brings about.
	Tampering []Tampering `json:"tampering"`
	// Unknown says why the rest cannot be told.
	Unknown []string `json:"unknown"`
}

// A Tampering is an alteration that was found, as exactly as it can be found.
type Tampering struct {
	// From and To are the entries among which it is; both zero where it concerns no
	// entry.
	From int64 `json:"from,omitempty"`
	To   int64 `json:"to,omitempty"`
	// After and Before are the checkpoints between which it is: the last that is good and
	// the first that is not. Zero for none.
	After  int64  `json:"after,omitempty"`
	Before int64  `json:"before,omitempty"`
	What   string `json:"what"`
}

func (t *Tampering) String() string {
	text := t.What
	switch {
	case t.From == 0:
	case t.From == t.To:
		text += fmt.Sprintf(", entry %d", t.From)
	default:
		text += fmt.Sprintf(", entries %d to %d", t.From, t.To)
	}
	switch {
	case t.After > 0 && t.Before > 0:
		text += fmt.Sprintf(", between checkpoints %d and %d", t.After, t.Before)
	case t.Before > 0:
		text += fmt.Sprintf(", before checkpoint %d", t.Before)
	case t.After > 0:
		text += fmt.Sprintf(", behind checkpoint %d", t.After)
	}
	return text
}

// OK reports whether everything that a checkpoint covers was verified.
func (r Report) OK() bool { return len(r.Tampering) == 0 && len(r.Unknown) == 0 }

// A history is what the file of a log holds, read once.
type history struct {
	tree
	path string
	cut  []byte
	bad  *Damage // why reading ended before the end
}

// read reads a log without changing it, and calls each for every entry. An error is
// of the file, not of what it says.
func read(path string, each func(line []byte, e api.AuditEntry)) (*history, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening the audit log: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	h := &history{path: path}
	h.cut, err = scan(f, path, func(line []byte, e api.AuditEntry) error {
		if own, err := Encode(e); err != nil || !bytes.Equal(own, line) {
			return &Damage{path, e.Seq, " is not written as entries are"}
		}
		if each != nil {
			each(line, e)
		}
		return h.add(line)
	})
	if errors.As(err, &h.bad) {
		err = nil
	}
	return h, err
}

// ReadCheckpoints returns the checkpoints of a file, in their order, and what follows
// the last whole one. Nothing is verified.
func ReadCheckpoints(path string) (cs []SignedCheckpoint, rest []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("opening the checkpoints: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(f, maxCheckpoints+1))
	if err != nil {
		return nil, nil, fmt.Errorf("reading the checkpoints %s: %w", path, err)
	}
	if len(text) > maxCheckpoints {
		return nil, nil, fmt.Errorf("reading the checkpoints %s: the limit is %d MiB", path, maxCheckpoints>>20)
	}
	if cs, rest, err = parseCheckpoints(text); err != nil {
		err = &Damage{path, int64(len(cs) + 1), err.Error()}
	}
	return cs, rest, err
}

// against holds checkpoints, from the first on, against the known keys and a log with
// that many entries, whose root over the first n of them rootOf tells, for one n after
// the other. It returns how many are as they should be and what the next one shows; nil
// where that is all. Without known keys, which is nil, no signature is verified.
func against(cs []SignedCheckpoint, known signednote.Verifiers, size int64, rootOf func(n int64) (tlog.Hash, error)) (good int, found *Tampering, err error) {
	var last SignedCheckpoint
	for good, c := range cs {
		found := func(from, to int64, format string, args ...any) (int, *Tampering, error) {
			return good, &Tampering{from, to, last.Number, c.Number, fmt.Sprintf(format, args...)}, nil
		}
		switch {
		case c.Number != last.Number+1:
			return found(0, 0, "checkpoint %d stands where checkpoint %d should", c.Number, last.Number+1)
		case last.Number > 0 && c.Origin != last.Origin:
			return found(0, 0, "checkpoint %d is of the log %s, not of %s", c.Number, c.Origin, last.Origin)
		case last.Number > 0 && c.Size <= last.Size:
			return found(0, 0, "checkpoint %d covers %d entries, and the one before it %d", c.Number, c.Size, last.Size)
		}
		if known != nil {
			if err := c.Verify(known); err != nil {
				return found(0, 0, "%v", err)
			}
		}
		if c.Size > size {
			return found(size+1, c.Size, "missing")
		}
		root, err := rootOf(c.Size)
		switch {
		case err != nil:
			return good, nil, err
		case c.Root != root:
			return found(last.Size+1, c.Size, "altered, replaced or put in another order")
		}
		last = c
	}
	return len(cs), nil, nil
}

// Verify reads the log and the checkpoints at the paths and holds them against each
// other and the known keys: every entry is written as entries are and numbered without
// a gap, the root is that of each checkpoint, each checkpoint is signed, and none is
// missing before the last. It says nothing of what an entry means. With known nil no
// signature is verified, and the report says so.
//
// An error is of a file that cannot be read; that there is no file of checkpoints is
// none, and the report says so.
func Verify(log, checkpoints string, known signednote.Verifiers) (Report, error) {
	h, err := read(log, nil)
	if err != nil {
		return Report{}, err
	}
	r := Report{Log: log, Entries: h.size, Unfinished: len(h.cut), Tampering: []Tampering{}, Unknown: []string{}}
	cs, rest, err := ReadCheckpoints(checkpoints)
	var malformed *Damage
	switch {
	case errors.Is(err, os.ErrNotExist):
		r.Unknown = append(r.Unknown, fmt.Sprintf("there are no checkpoints at %s", checkpoints))
	case errors.As(err, &malformed):
	case err != nil:
		return Report{}, err
	case len(cs) == 0:
		r.Unknown = append(r.Unknown, fmt.Sprintf("%s holds no checkpoint", checkpoints))
	case len(rest) > 0 && !startsNote(rest, cs[0].Origin, true):
		malformed = &Damage{checkpoints, int64(len(cs) + 1), "what follows the last checkpoint is none"}
	}
	good, found, err := against(cs, known, h.size, func(n int64) (tlog.Hash, error) { return h.root(n), nil })
	if err != nil {
		return Report{}, err
	}
	if good > 0 {
		last := cs[good-1]
		r.Origin, r.Checkpoints, r.Covered, r.Since = last.Origin, int64(good), last.Size, last.Time
		if known == nil {
			r.Unknown = append(r.Unknown, "no verifier key is given, so that anybody may have written the checkpoints")
		}
	}
	if h.bad != nil {
		// What is missing from there on is missing because reading ended.
		t := Tampering{From: h.bad.Line, To: h.bad.Line, After: r.Checkpoints, What: fmt.Sprintf("line %d%s", h.bad.Line, h.bad.What)}
		if r.Checkpoints < int64(len(cs)) {
			t.Before = r.Checkpoints + 1
		}
		r.Tampering = append(r.Tampering, t)
		if found != nil && found.What == "missing" {
			found = nil
		}
	}
	if found != nil {
		r.Tampering = append(r.Tampering, *found)
	}
	if malformed != nil {
		r.Tampering = append(r.Tampering, Tampering{After: malformed.Line - 1, What: malformed.What})
	}
	return r, nil
}
