package store_test

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"countersign/gateway/store"
)

// Whichever byte of the file is another one: opening or asking fails, or nothing
// has happened. No spent permit can be spent again, no row reads otherwise, and no
// number is given twice.
func TestSQLiteDamage(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	s := openSQLite(t, path)
	var want []store.Row
	for i := range 6 {
		r, err := s.Create(t.Context(), store.Row{Kind: "use", ID: fmt.Sprintf(`["issuer","bank.example","permit-%d"]`, i), Key: "open", Body: []byte(`{"state":"sent"}`)})
		if err != nil {
			t.Fatal(err)
		}
		r.Key, r.Body = "", []byte(`{"state":"done"}`)
		if r, err = s.Update(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		want = append([]store.Row{r}, want...)
	}
	if _, err := s.Next(t.Context(), "n"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	image, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// try says what was wrong that nobody noticed.
	try := func(path string) string {
		s, err := store.OpenSQLite(path)
		if err != nil {
			return ""
		}
		defer s.Close()
		if found, err := s.Find(t.Context(), "use", ""); err == nil && !reflect.DeepEqual(found, want) {
			return fmt.Sprintf("found %v", found)
		}
		if n, err := s.Next(t.Context(), "n"); err == nil && n != 2 {
			return fmt.Sprintf("the number %d", n)
		}
		for _, r := range want {
			switch got, err := s.Get(t.Context(), r.Kind, r.ID); {
			case errors.Is(err, store.ErrNotFound):
				return "not found: " + r.ID
			case err == nil && !reflect.DeepEqual(got, r):
				return fmt.Sprintf("read %v", got)
			}
			if _, err := s.Create(t.Context(), r); err == nil {
				return "spent again: " + r.ID
			}
		}
		return ""
	}
	if wrong := try(path); wrong != "" {
		t.Fatal(wrong)
	}
	if err := os.WriteFile(path, image, 0o600); err != nil {
		t.Fatal(err)
	}
	work, tried := filepath.Join(t.TempDir(), "store.db"), 0
	for at, b := range image {
		if at%2 == 1 || b == 0 && at%64 != 0 { // most of the file is unused
			continue
		}
		if testing.Short() && at%8 != 0 {
			continue
		}
		tried++
		damaged := bytes.Clone(image)
		damaged[at] ^= 1 << (at % 8)
		for _, name := range []string{work + "-wal", work + "-shm"} {
			_ = os.Remove(name) // there is none where opening failed early
		}
		if err := os.WriteFile(work, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if wrong := try(work); wrong != "" {
			t.Errorf("byte %d, %#02x instead of %#02x: %s", at, damaged[at], b, wrong)
		}
	}
	t.Logf("%d of %d bytes", tried, len(image))
}

// A row that changes while the store is open is noticed by whoever reads it.
func TestSQLiteChecksRowsWhenReading(t *testing.T) {
	for _, change := range []string{
		"UPDATE rows SET body = x'00'", "UPDATE rows SET rev = 7", "UPDATE rows SET kind = 'l'", "UPDATE rows SET id = 'j'",
		"UPDATE rows SET key = 'm'", "UPDATE rows SET sum = x''", "UPDATE counters SET value = 0", "UPDATE counters SET name = 'o'",
	} {
		path := filepath.Join(t.TempDir(), "store.db")
		s := openSQLite(t, path)
		for _, err := range []error{
			func() error {
				_, err := s.Create(t.Context(), store.Row{Kind: "k", ID: "i", Key: "l", Body: []byte("b")})
				return err
			}(),
			func() error { _, err := s.Next(t.Context(), "n"); return err }(),
			alter(path, change),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		want := store.Row{Kind: "k", ID: "i", Key: "l", Rev: 1, Body: []byte("b")}
		refused := 0
		answered := func(by string, err error, rows ...store.Row) {
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				refused++
			}
			for _, r := range rows {
				if err == nil && !reflect.DeepEqual(r, want) {
					t.Errorf("%s: %s answers %+v", change, by, r)
				}
			}
		}
		for _, kind := range []string{"k", "l"} {
			for _, id := range []string{"i", "j"} {
				got, err := s.Get(t.Context(), kind, id)
				answered("Get", err, got)
			}
			for _, key := range []string{"l", "m"} {
				got, err := s.Find(t.Context(), kind, key)
				answered("Find", err, got...)
			}
		}
		for _, name := range []string{"n", "o"} {
			_, err := s.Next(t.Context(), name)
			answered("Next", err)
		}
		if refused == 0 {
			t.Errorf("%s: nobody notices", change)
		}
		s.Close()
		if again, err := store.OpenSQLite(path); err == nil {
			again.Close()
			t.Errorf("%s: opened", change)
		}
	}
}

// A write that fails is no answer: neither that a row is there, nor that it has
// changed, nor a number.
func TestSQLiteWriteFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := openSQLite(t, path)
	r, err := s.Create(t.Context(), store.Row{Kind: "k", ID: "i"})
	if err != nil {
		t.Fatal(err)
	}
	for name, on := range map[string]string{"a": "INSERT ON rows", "b": "UPDATE ON rows", "c": "INSERT ON counters"} {
		if err := alter(path, "CREATE TRIGGER "+name+" BEFORE "+on+" BEGIN SELECT RAISE(ABORT, 'no room'); END"); err != nil {
			t.Fatal(err)
		}
	}
	_, created := s.Create(t.Context(), store.Row{Kind: "k", ID: "j"})
	_, updated := s.Update(t.Context(), r)
	_, counted := s.Next(t.Context(), "n")
	for name, err := range map[string]error{"Create": created, "Update": updated, "Next": counted} {
		if err == nil || errors.Is(err, store.ErrExists) || errors.Is(err, store.ErrStale) || errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got, err := s.Get(t.Context(), "k", "i"); err != nil || got.Rev != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func alter(path, statement string) error {
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return err
	}
	_, err = db.Exec(statement)
	return errors.Join(err, db.Close())
}
