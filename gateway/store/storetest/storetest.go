// Package storetest is the conformance suite of gateway/store: what every
// implementation of store.Store must do, with the reason for each case.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"countersign/gateway/store"
)

// A Case is one requirement.
type Case struct {
	Name        string
	Explanation string // why a gateway needs it
	run         func(ctx context.Context, s, other store.Store) error
}

// Count is the number of cases. Run fails if it ran fewer.
const Count = 21

// Run runs every case, each against a fresh store. open opens it twice, as two
// processes would; a store that one process has to itself is returned twice. Run
// returns how many cases ran to their end, passed or not.
func Run(t *testing.T, open func(t *testing.T) (s, other store.Store)) (ran int) {
	t.Helper()
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			s, other := open(t)
			defer other.Close()
			defer s.Close()
			if err := c.run(t.Context(), s, other); err != nil {
				t.Errorf("%v\nrequired because: %s", err, c.Explanation)
			}
			ran++
		})
	}
	if n := len(Cases()); n != Count {
		t.Errorf("%d cases, want %d", n, Count)
	}
	return ran
}

// Cases returns the cases in a fixed order.
func Cases() []Case {
	return []Case{
		{"create and get", "what was approved is read back as it was stored", alone(createAndGet)},
		{"create twice", "an approval is spent by creating a row: the second attempt must fail, and must change nothing", alone(createTwice)},
		{"same id, other kind", "a suspension and a permit may share an id and are not the same row", alone(otherKind)},
		{"create without a name", "a row that nothing can find again was not stored", alone(createWithoutName)},
		{"any bytes", "identifiers come from other systems and may hold any character; equal ones only are equal", alone(anyBytes)},
		{"long names", "agents choose the names of their runs, and a name that is too long for an index must not stop the gate", alone(longNames)},
		{"update", "an update is seen by everyone, with the next revision", alone(update)},
		{"stale update", "two gateways that read the same state must not both change it", alone(staleUpdate)},
		{"update of nothing", "an update never creates, or a spent permit could appear from nowhere", alone(updateOfNothing)},
		{"bodies are copied", "a caller that reuses its buffer must not change what was approved", alone(bodiesAreCopied)},
		{"find newest first", "the newest suspension of a call is the one that counts", alone(findNewestFirst)},
		{"find follows the key", "a row is found under the key it has now, at its place in creation order", alone(findFollowsKey)},
		{"next", "suspended-at is unique and strictly increasing", alone(next)},
		{"cancelled", "a call given up changes nothing and is no answer", alone(cancelled)},
		{"closed", "a store that is gone is unavailable: it answers neither yes nor no", alone(closed)},
		{"seen by the other", "what one gateway has spent is spent for every other one, at once", seenByTheOther},
		{"order over both", "the newest suspension is the newest of all gateways", orderOverBoth},
		{"answers in company", "changes may be written together, and each caller is told about its own", answersInCompany},
		{"given up", "whoever gave up does not know; a yes that was given holds, and a no was true", givenUp},
		{"race to create", "of all workers that present a permit exactly one may go on", raceToCreate},
		{"race to update and count", "no update and no number is lost or given twice", raceToUpdate},
	}
}

// alone is a case that needs one handle.
func alone(run func(ctx context.Context, s store.Store) error) func(ctx context.Context, s, other store.Store) error {
	return func(ctx context.Context, s, _ store.Store) error { return run(ctx, s) }
}

func row(kind, id, key, body string) store.Row {
	return store.Row{Kind: kind, ID: id, Key: key, Body: []byte(body)}
}

// want compares a row, and the error that came with it.
func want(got store.Row, err error, kind, id, key string, rev int64, body string) error {
	if err != nil {
		return err
	}
	if got.Kind != kind || got.ID != id || got.Key != key || got.Rev != rev || string(got.Body) != body {
		return fmt.Errorf("got %+v, want {%q %q %q %d %q}", got, kind, id, key, rev, body)
	}
	return nil
}

// wantErr compares an error with an answer of the store.
func wantErr(doing string, err, target error) error {
	if !errors.Is(err, target) {
		return fmt.Errorf("%s: error %v, want %q", doing, err, target)
	}
	return nil
}

// unavailable wants an error that is none of the answers.
func unavailable(doing string, err error) error {
	if err == nil || errors.Is(err, store.ErrExists) || errors.Is(err, store.ErrStale) || errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("%s: error %v, want one that is no answer", doing, err)
	}
	return nil
}

func createAndGet(ctx context.Context, s store.Store) error {
	r := row("permit", "p1", "run1", "body")
	r.Rev = 99 // the store's business
	got, err := s.Create(ctx, r)
	if err := want(got, err, "permit", "p1", "run1", 1, "body"); err != nil {
		return err
	}
	got, err = s.Get(ctx, "permit", "p1")
	if err := want(got, err, "permit", "p1", "run1", 1, "body"); err != nil {
		return err
	}
	for _, body := range [][]byte{nil, {}} {
		id := fmt.Sprint(body == nil)
		if _, err := s.Create(ctx, store.Row{Kind: "permit", ID: id, Body: body}); err != nil {
			return fmt.Errorf("empty body: %w", err)
		}
		got, err := s.Get(ctx, "permit", id)
		if err := want(got, err, "permit", id, "", 1, ""); err != nil {
			return err
		}
	}
	_, err = s.Get(ctx, "permit", "p2")
	return wantErr("getting what is not there", err, store.ErrNotFound)
}

func createTwice(ctx context.Context, s store.Store) error {
	if _, err := s.Create(ctx, row("permit", "p1", "a", "first")); err != nil {
		return err
	}
	for _, r := range []store.Row{row("permit", "p1", "b", "second"), row("permit", "p1", "a", "first")} {
		_, err := s.Create(ctx, r)
		if err := wantErr("creating again", err, store.ErrExists); err != nil {
			return err
		}
	}
	got, err := s.Get(ctx, "permit", "p1")
	return want(got, err, "permit", "p1", "a", 1, "first")
}

func otherKind(ctx context.Context, s store.Store) error {
	_, err1 := s.Create(ctx, row("permit", "x", "k", "p"))
	_, err2 := s.Create(ctx, row("suspension", "x", "k", "s"))
	// Joined without a boundary, these two would be the first one.
	_, err3 := s.Create(ctx, row("permi", "tx", "k", "3"))
	_, err4 := s.Create(ctx, row("permit\x00", "x", "k", "4"))
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	got, err := s.Get(ctx, "permit", "x")
	if err := want(got, err, "permit", "x", "k", 1, "p"); err != nil {
		return err
	}
	found, err := s.Find(ctx, "permit", "k")
	if err != nil || len(found) != 1 {
		return fmt.Errorf("found %v, %v, want one row of the kind", found, err)
	}
	return nil
}

func createWithoutName(ctx context.Context, s store.Store) error {
	for _, r := range []store.Row{row("", "x", "", ""), row("permit", "", "", "")} {
		if _, err := s.Create(ctx, r); unavailable("", err) != nil {
			return fmt.Errorf("creating %+v: error %v, want one", r, err)
		}
	}
	return nil
}

func anyBytes(ctx context.Context, s store.Store) error {
	ids := []string{"a", "A", "a ", " a", "a\x00", "a\x00b", "\x00", "é", "e\u0301", "\xff", "\xfe", "?", "%", "'; DROP TABLE rows; --", "a\n", "1", "01", "1.0"}
	for _, id := range ids {
		if _, err := s.Create(ctx, row("permit", id, id, id)); err != nil {
			return err
		}
	}
	for _, id := range ids {
		got, err := s.Get(ctx, "permit", id)
		if err := want(got, err, "permit", id, id, 1, id); err != nil {
			return err
		}
		found, err := s.Find(ctx, "permit", id)
		if err != nil || len(found) != 1 || found[0].ID != id {
			return fmt.Errorf("found %+v, %v under %q, want one row", found, err, id)
		}
	}
	return nil
}

func longNames(ctx context.Context, s store.Store) error {
	// Without a pattern that compression could make short.
	text := make([]byte, 20000)
	for i := range text {
		text[i] = byte((i*i*31 + i*7 + i>>3) * 2654435761 >> 11)
	}
	for _, last := range []string{"a", "b"} {
		name := string(text) + last
		r, err := s.Create(ctx, row(name, name, name, last))
		if err := want(r, err, name, name, name, 1, last); err != nil {
			return fmt.Errorf("creating: %.200w", err)
		}
		if _, err := s.Create(ctx, r); !errors.Is(err, store.ErrExists) {
			return fmt.Errorf("creating again: %.200w", err)
		}
		if _, err := s.Update(ctx, r); err != nil {
			return fmt.Errorf("updating: %.200w", err)
		}
		if n, err := s.Next(ctx, name); err != nil || n != 1 {
			return fmt.Errorf("the first number is %d, %.200w", n, err)
		}
	}
	for _, last := range []string{"a", "b"} {
		name := string(text) + last
		found, err := s.Find(ctx, name, name)
		if err != nil || len(found) != 1 || string(found[0].Body) != last {
			return fmt.Errorf("found %d rows, %.200v, want one", len(found), err)
		}
	}
	return nil
}

func update(ctx context.Context, s store.Store) error {
	r, err := s.Create(ctx, row("permit", "p1", "a", "1"))
	if err != nil {
		return err
	}
	for i := int64(2); i <= 4; i++ {
		r.Body, r.Key = fmt.Append(nil, i), fmt.Sprint("k", i)
		r, err = s.Update(ctx, r)
		if err := want(r, err, "permit", "p1", fmt.Sprint("k", i), i, fmt.Sprint(i)); err != nil {
			return err
		}
		got, err := s.Get(ctx, "permit", "p1")
		if err := want(got, err, "permit", "p1", fmt.Sprint("k", i), i, fmt.Sprint(i)); err != nil {
			return err
		}
	}
	return nil
}

func staleUpdate(ctx context.Context, s store.Store) error {
	r, err := s.Create(ctx, row("permit", "p1", "a", "1"))
	if err != nil {
		return err
	}
	if _, err := s.Update(ctx, r); err != nil {
		return err
	}
	for _, rev := range []int64{1, 0, 3, -1} {
		stale := row("permit", "p1", "b", "lost")
		stale.Rev = rev
		_, err := s.Update(ctx, stale)
		if err := wantErr(fmt.Sprintf("updating revision %d of 2", rev), err, store.ErrStale); err != nil {
			return err
		}
	}
	got, err := s.Get(ctx, "permit", "p1")
	return want(got, err, "permit", "p1", "a", 2, "1")
}

func updateOfNothing(ctx context.Context, s store.Store) error {
	for _, rev := range []int64{0, 1} {
		r := row("permit", "p1", "a", "1")
		r.Rev = rev
		_, err := s.Update(ctx, r)
		if err := wantErr("updating what is not there", err, store.ErrNotFound); err != nil {
			return err
		}
	}
	_, err := s.Get(ctx, "permit", "p1")
	return wantErr("getting it afterwards", err, store.ErrNotFound)
}

func bodiesAreCopied(ctx context.Context, s store.Store) error {
	given := row("permit", "p1", "a", "body")
	created, err := s.Create(ctx, given)
	if err != nil {
		return err
	}
	spoil := func(b []byte) {
		for i := range b {
			b[i] = 'X'
		}
	}
	spoil(given.Body)
	spoil(created.Body)
	for range 2 {
		got, err := s.Get(ctx, "permit", "p1")
		if err := want(got, err, "permit", "p1", "a", 1, "body"); err != nil {
			return err
		}
		spoil(got.Body)
		found, err := s.Find(ctx, "permit", "a")
		if err != nil || len(found) != 1 {
			return fmt.Errorf("found %v, %v", found, err)
		}
		if err := want(found[0], nil, "permit", "p1", "a", 1, "body"); err != nil {
			return err
		}
		spoil(found[0].Body)
	}
	given = row("permit", "p1", "a", "next")
	given.Rev = 1
	updated, err := s.Update(ctx, given)
	if err != nil {
		return err
	}
	spoil(given.Body)
	spoil(updated.Body)
	got, err := s.Get(ctx, "permit", "p1")
	return want(got, err, "permit", "p1", "a", 2, "next")
}

// ids returns the identifiers that Find returns.
func ids(ctx context.Context, s store.Store, kind, key string) ([]string, error) {
	found, err := s.Find(ctx, kind, key)
	var all []string
	for _, r := range found {
		if r.Kind != kind || r.Key != key || string(r.Body) != r.ID {
			return nil, fmt.Errorf("found %+v under %q %q", r, kind, key)
		}
		all = append(all, r.ID)
	}
	return all, err
}

func wantIDs(ctx context.Context, s store.Store, kind, key string, want ...string) error {
	if got, err := ids(ctx, s, kind, key); err != nil || !slices.Equal(got, want) {
		return fmt.Errorf("found %q, %v under %q %q, want %q", got, err, kind, key, want)
	}
	return nil
}

func findNewestFirst(ctx context.Context, s store.Store) error {
	// Neither alphabetical nor by update: by creation.
	for _, id := range []string{"m", "z", "a", "k"} {
		if _, err := s.Create(ctx, row("suspension", id, "run1", id)); err != nil {
			return err
		}
		if _, err := s.Create(ctx, row("suspension", id+"'", "", id+"'")); err != nil {
			return err
		}
	}
	r := row("suspension", "z", "run1", "z")
	r.Rev = 1
	if _, err := s.Update(ctx, r); err != nil {
		return err
	}
	return errors.Join(
		wantIDs(ctx, s, "suspension", "run1", "k", "a", "z", "m"),
		wantIDs(ctx, s, "suspension", "", "k'", "a'", "z'", "m'"),
		wantIDs(ctx, s, "suspension", "run"),
		wantIDs(ctx, s, "permit", "run1"),
	)
}

func findFollowsKey(ctx context.Context, s store.Store) error {
	for i, id := range []string{"1", "2", "3", "4"} {
		if _, err := s.Create(ctx, row("s", id, []string{"even", "odd"}[(i+1)%2], id)); err != nil {
			return err
		}
	}
	r := row("s", "2", "odd", "2")
	r.Rev = 1
	r, err := s.Update(ctx, r)
	if err != nil {
		return err
	}
	if err := errors.Join(wantIDs(ctx, s, "s", "odd", "3", "2", "1"), wantIDs(ctx, s, "s", "even", "4")); err != nil {
		return err
	}
	r.Key = "even"
	if _, err := s.Update(ctx, r); err != nil {
		return err
	}
	return errors.Join(wantIDs(ctx, s, "s", "odd", "3", "1"), wantIDs(ctx, s, "s", "even", "4", "2"))
}

func next(ctx context.Context, s store.Store) error {
	for i := int64(1); i <= 5; i++ {
		for _, name := range []string{"a", "b", ""} {
			if got, err := s.Next(ctx, name); err != nil || got != i {
				return fmt.Errorf("number %d of %q is %d, %v", i, name, got, err)
			}
		}
	}
	return nil
}

func cancelled(ctx context.Context, s store.Store) error {
	if _, err := s.Create(ctx, row("permit", "p1", "a", "1")); err != nil {
		return err
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	for doing, err := range everyCall(gone, s) {
		if err := errors.Join(unavailable(doing, err), wantErr(doing, err, context.Canceled)); err != nil {
			return err
		}
	}
	got, err := s.Get(ctx, "permit", "p1")
	if err := want(got, err, "permit", "p1", "a", 1, "1"); err != nil {
		return err
	}
	_, err = s.Get(ctx, "permit", "new")
	if err := wantErr("getting what a cancelled call created", err, store.ErrNotFound); err != nil {
		return err
	}
	if n, err := s.Next(ctx, "n"); err != nil || n != 1 {
		return fmt.Errorf("the first number is %d, %v after a cancelled call", n, err)
	}
	return nil
}

// everyCall makes each call of a store that holds permit p1 and returns the
// errors.
func everyCall(ctx context.Context, s store.Store) map[string]error {
	change := row("permit", "p1", "b", "2")
	change.Rev = 1
	errs := map[string]error{}
	_, errs["Create"] = s.Create(ctx, row("permit", "new", "", ""))
	_, errs["Create of what exists"] = s.Create(ctx, row("permit", "p1", "", ""))
	_, errs["Update"] = s.Update(ctx, change)
	_, errs["Get"] = s.Get(ctx, "permit", "p1")
	_, errs["Get of nothing"] = s.Get(ctx, "permit", "none")
	_, errs["Find"] = s.Find(ctx, "permit", "a")
	_, errs["Next"] = s.Next(ctx, "n")
	return errs
}

func closed(ctx context.Context, s store.Store) error {
	if _, err := s.Create(ctx, row("permit", "p1", "a", "1")); err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	for doing, err := range everyCall(ctx, s) {
		if err := unavailable(doing, err); err != nil {
			return err
		}
	}
	return s.Close()
}

func seenByTheOther(ctx context.Context, s, other store.Store) error {
	for i := range int64(20) {
		id := fmt.Sprint(i)
		r, err := s.Create(ctx, row("permit", id, "a", "1"))
		if err != nil {
			return err
		}
		got, err := other.Get(ctx, "permit", id)
		if err := want(got, err, "permit", id, "a", 1, "1"); err != nil {
			return err
		}
		_, err = other.Create(ctx, r)
		if err := wantErr("creating what the other created", err, store.ErrExists); err != nil {
			return err
		}
		if _, err := other.Update(ctx, r); err != nil {
			return err
		}
		_, err = s.Update(ctx, r)
		if err := wantErr("updating what the other updated", err, store.ErrStale); err != nil {
			return err
		}
		for j, h := range []store.Store{s, other} {
			if n, err := h.Next(ctx, "n"); err != nil || n != 2*i+int64(j)+1 {
				return fmt.Errorf("the number %d, %v, want %d", n, err, 2*i+int64(j)+1)
			}
		}
		s, other = other, s
	}
	return nil
}

func orderOverBoth(ctx context.Context, s, other store.Store) error {
	var all []string
	for i := range 12 {
		id := fmt.Sprint((i * 5) % 12)
		if _, err := s.Create(ctx, row("suspension", id, "run1", id)); err != nil {
			return err
		}
		all = append([]string{id}, all...)
		s, other = other, s
	}
	return errors.Join(wantIDs(ctx, s, "suspension", "run1", all...), wantIDs(ctx, other, "suspension", "run1", all...))
}

// answersInCompany makes many calls at once that succeed, fail and are given up.
func answersInCompany(ctx context.Context, s, _ store.Store) error {
	const rounds, each = 10, 60
	gone, cancel := context.WithCancel(ctx)
	cancel()
	for round := range rounds {
		old := fmt.Sprint("old ", round)
		if _, err := s.Create(ctx, row("permit", old, "", "old")); err != nil {
			return err
		}
		err := concurrently(each, func(i int) error {
			id := fmt.Sprint(round, " ", i)
			switch i % 6 {
			case 0:
				_, err := s.Create(ctx, row("permit", old, "", "new"))
				return wantErr("creating what is there", err, store.ErrExists)
			case 1:
				_, err := s.Create(gone, row("permit", id, "", ""))
				return unavailable("creating, given up", err)
			case 2:
				r := row("permit", old, "", "new")
				r.Rev = 7
				_, err := s.Update(ctx, r)
				return wantErr("updating another revision", err, store.ErrStale)
			case 3:
				r := row("permit", id, "", "new")
				r.Rev = 1
				_, err := s.Update(ctx, r)
				return wantErr("updating nothing", err, store.ErrNotFound)
			case 4:
				_, err := s.Create(ctx, row("permit", "", "", ""))
				return unavailable("creating without an id", err)
			}
			got, err := s.Create(ctx, row("permit", id, "", id))
			return want(got, err, "permit", id, "", 1, id)
		})
		if err != nil {
			return err
		}
		got, err := s.Get(ctx, "permit", old)
		if err := want(got, err, "permit", old, "", 1, "old"); err != nil {
			return err
		}
		for i := range each {
			_, err := s.Get(ctx, "permit", fmt.Sprint(round, " ", i))
			if there := err == nil; there != (i%6 == 5) || !there && !errors.Is(err, store.ErrNotFound) {
				return fmt.Errorf("row %d of a round afterwards: %w", i, err)
			}
		}
	}
	return nil
}

// givenUp cancels calls while they are made. They may have been stored or not;
// asking again tells, and those beside them are not disturbed.
func givenUp(ctx context.Context, s, other store.Store) error {
	const calls = 300
	answers := make([]error, calls)
	err := concurrently(calls, func(i int) error {
		mine := ctx
		if i%2 == 0 {
			var cancel context.CancelFunc
			mine, cancel = context.WithTimeout(ctx, time.Duration(i)*20*time.Microsecond)
			defer cancel()
		}
		_, answers[i] = s.Create(mine, row("permit", fmt.Sprint(i), "", "first"))
		if i%2 == 1 {
			return answers[i]
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("a caller that did not give up: %w", err)
	}
	for i, answer := range answers {
		id := fmt.Sprint(i)
		_, err := other.Create(ctx, row("permit", id, "", "second"))
		winner := "first"
		switch {
		case err == nil && answer != nil:
			winner = "second"
		case err == nil:
			return fmt.Errorf("permit %d was spent twice", i)
		case !errors.Is(err, store.ErrExists):
			return err
		case errors.Is(answer, store.ErrExists):
			return fmt.Errorf("permit %d existed before anybody created it", i)
		}
		got, err := s.Get(ctx, "permit", id)
		if err := want(got, err, "permit", id, "", 1, winner); err != nil {
			return err
		}
	}
	return nil
}

const workers = 8

// together runs f as concurrent workers and joins their errors.
func together(f func(worker int) error) error { return concurrently(workers, f) }

func concurrently(n int, f func(i int) error) error {
	errs := make([]error, n)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			errs[i] = f(i)
		})
	}
	close(start)
	wg.Wait()
	return errors.Join(errs...)
}

func raceToCreate(ctx context.Context, s, other store.Store) error {
	handles := []store.Store{s, other}
	const permits = 1000
	var mu sync.Mutex
	winners := map[string][]int{}
	err := together(func(worker int) error {
		for i := range permits {
			id := fmt.Sprint(i)
			_, err := handles[worker%2].Create(ctx, row("spent", id, "", fmt.Sprint(worker)))
			switch {
			case err == nil:
				mu.Lock()
				winners[id] = append(winners[id], worker)
				mu.Unlock()
			case !errors.Is(err, store.ErrExists):
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := range permits {
		id := fmt.Sprint(i)
		if len(winners[id]) != 1 {
			return fmt.Errorf("permit %s was spent by the workers %v, want exactly one", id, winners[id])
		}
		got, err := s.Get(ctx, "spent", id)
		if err := want(got, err, "spent", id, "", 1, fmt.Sprint(winners[id][0])); err != nil {
			return fmt.Errorf("the winner is not the one stored: %w", err)
		}
	}
	return nil
}

func raceToUpdate(ctx context.Context, s, other store.Store) error {
	handles := []store.Store{s, other}
	const each = 25
	if _, err := s.Create(ctx, row("sum", "x", "", "")); err != nil {
		return err
	}
	numbers := make([][]int64, workers)
	err := together(func(worker int) error {
		s := handles[worker%2]
		for i := 0; i < each; {
			r, err := s.Get(ctx, "sum", "x")
			if err != nil {
				return err
			}
			r.Body = append(r.Body, byte('a'+worker))
			_, err = s.Update(ctx, r)
			if errors.Is(err, store.ErrStale) {
				continue
			}
			if err != nil {
				return err
			}
			i++
			n, err := s.Next(ctx, "n")
			if err != nil {
				return err
			}
			numbers[worker] = append(numbers[worker], n)
		}
		return nil
	})
	if err != nil {
		return err
	}
	got, err := s.Get(ctx, "sum", "x")
	if err != nil {
		return err
	}
	for w := range workers {
		if n := bytes.Count(got.Body, []byte{byte('a' + w)}); n != each {
			return fmt.Errorf("%d of the %d updates of worker %d are there", n, each, w)
		}
		if !slices.IsSorted(numbers[w]) {
			return fmt.Errorf("worker %d was given the numbers %v, want them increasing", w, numbers[w])
		}
	}
	all := slices.Concat(numbers...)
	slices.Sort(all)
	if all = slices.Compact(all); len(all) != workers*each || all[len(all)-1] != workers*each {
		return fmt.Errorf("%d different numbers up to %d, want 1 to %d", len(all), all[len(all)-1], workers*each)
	}
	return nil
}
