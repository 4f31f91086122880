package store_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"countersign/gateway/store"
)

// unavailable reports whether an error says nothing about the state of a store.
func unavailable(err error) bool {
	return err != nil && !errors.Is(err, store.ErrExists) && !errors.Is(err, store.ErrStale) && !errors.Is(err, store.ErrNotFound)
}

// A full disk is no answer and loses none: what was created is there, what was not
// can be created when there is room again.
func TestSQLiteFull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := openSQLite(t, path)
	ctx := t.Context()
	if err := store.LimitPages(s, 30); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var yes, no []string
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 60 {
				id := fmt.Sprint(w, " ", i)
				_, err := s.Create(ctx, store.Row{Kind: "spent", ID: id, Body: make([]byte, 1000)})
				mu.Lock()
				switch {
				case err == nil:
					yes = append(yes, id)
				case unavailable(err):
					no = append(no, id)
				default:
					t.Errorf("creating %s: %v", id, err)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(yes) == 0 || len(no) == 0 {
		t.Fatalf("%d rows were created and %d were not, want some of both", len(yes), len(no))
	}
	if _, err := s.Create(ctx, store.Row{Kind: "spent", ID: yes[0]}); !errors.Is(err, store.ErrExists) {
		t.Errorf("creating again what was created: %v", err)
	}
	s.Close()
	s = openSQLite(t, path) // it checks everything, and has room
	for _, id := range yes {
		if _, err := s.Create(ctx, store.Row{Kind: "spent", ID: id}); !errors.Is(err, store.ErrExists) {
			t.Fatalf("%s was created and is lost: %v", id, err)
		}
	}
	for _, id := range no {
		if _, err := s.Create(ctx, store.Row{Kind: "spent", ID: id}); err != nil {
			t.Fatalf("%s was not created, and now: %v", id, err)
		}
	}
}

// A row that has no room fails alone, whoever is written together with it.
func TestSQLiteFailsAlone(t *testing.T) {
	s := openSQLite(t, filepath.Join(t.TempDir(), "store.db"))
	if err := store.LimitPages(s, 100); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			big := i%10 == 0
			body := make([]byte, 100)
			if big {
				body = make([]byte, 1<<20)
			}
			_, err := s.Create(t.Context(), store.Row{Kind: "spent", ID: fmt.Sprint(i), Body: body})
			if big != unavailable(err) || !big && err != nil {
				t.Errorf("creating a row of %d bytes: %v", len(body), err)
			}
		})
	}
	wg.Wait()
}

// A commit that fails has failed for everyone in it, and leaves nothing.
func TestSQLiteFailedCommit(t *testing.T) {
	s := openSQLite(t, filepath.Join(t.TempDir(), "store.db"))
	var fail atomic.Bool
	if err := store.FailCommits(s, &fail); err != nil {
		t.Fatal(err)
	}
	first, err := s.Create(t.Context(), store.Row{Kind: "spent", ID: "first"})
	if err != nil {
		t.Fatal(err)
	}
	for _, failing := range []bool{true, false} {
		fail.Store(failing)
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				var err error
				switch {
				case i == 0:
					_, err = s.Update(t.Context(), first)
				case i == 1:
					_, err = s.Next(t.Context(), "n")
				default:
					_, err = s.Create(t.Context(), store.Row{Kind: "spent", ID: fmt.Sprint(i)})
				}
				if failing != unavailable(err) || !failing && err != nil {
					t.Errorf("commits fail: %v; call %d: %v", failing, i, err)
				}
			})
		}
		wg.Wait()
	}
	if n, err := s.Next(t.Context(), "n"); err != nil || n != 2 {
		t.Errorf("the next number is %d, %v, want 2", n, err)
	}
}
