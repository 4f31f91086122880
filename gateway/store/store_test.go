package store_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"countersign/gateway/store"
	"countersign/gateway/store/pgtest"
	"countersign/gateway/store/storetest"
)

func openSQLite(t testing.TB, path string) *store.SQLite {
	t.Helper()
	s, err := store.OpenSQLite(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestConformance(t *testing.T) {
	var database string
	for name, open := range map[string]func(t *testing.T) (s, other store.Store){
		"memory": func(*testing.T) (s, other store.Store) {
			m := store.NewMemory()
			return m, m
		},
		"sqlite": func(t *testing.T) (s, other store.Store) {
			path := filepath.Join(t.TempDir(), "store.db")
			return openSQLite(t, path), openSQLite(t, path)
		},
		"part of a memory": func(t *testing.T) (s, other store.Store) {
			m := store.NewMemory()
			return within(t, m, "part"), within(t, m, "part")
		},
		"postgres": func(t *testing.T) (s, other store.Store) {
			pgtest.Do(t, database, "DROP SCHEMA IF EXISTS countersign CASCADE") // faster than another database
			return openPostgres(t, database), openPostgres(t, database)
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "postgres" {
				database = pgtest.Database(t)
			}
			if ran := storetest.Run(t, open); ran != storetest.Count {
				t.Errorf("%d cases ran, want %d", ran, storetest.Count)
			}
		})
	}
}

func within(t *testing.T, s store.Store, name string) store.Store {
	t.Helper()
	p, err := store.Within(s, name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestWithin: parts of a store know nothing of each other, and closing one closes
// neither the others nor the whole.
func TestWithin(t *testing.T) {
	ctx := t.Context()
	whole := store.NewMemory()
	a, b := within(t, whole, "a"), within(t, whole, "b")
	for i, s := range []store.Store{a, b, whole} {
		body := []byte{byte(i)}
		if _, err := s.Create(ctx, store.Row{Kind: "k", ID: "i", Key: "key", Body: body}); err != nil {
			t.Fatal(err)
		}
		if n, err := s.Next(ctx, "n"); n != 1 || err != nil {
			t.Errorf("the first number is %d, %v", n, err)
		}
		rows, err := s.Find(ctx, "k", "key")
		if err != nil || len(rows) != 1 || rows[0].Kind != "k" || !bytes.Equal(rows[0].Body, body) {
			t.Errorf("found %+v, %v", rows, err)
		}
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Get(ctx, "k", "i"); err == nil || errors.Is(err, store.ErrNotFound) {
		t.Errorf("a closed part answers %v", err)
	}
	for _, s := range []store.Store{b, whole} {
		if _, err := s.Get(ctx, "k", "i"); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"", "a/b"} {
		if _, err := store.Within(whole, name); err == nil {
			t.Errorf("there is a part %q", name)
		}
	}
	if _, err := store.Within(nil, "a"); err == nil {
		t.Error("there is a part of nothing")
	}
}

func TestZeroValueRefuses(t *testing.T) {
	for _, s := range []store.Store{new(store.Memory), new(store.SQLite), new(store.Postgres)} {
		if _, err := s.Create(t.Context(), store.Row{Kind: "k", ID: "i"}); err == nil {
			t.Errorf("%T: Create on the zero value succeeded", s)
		}
		if _, err := s.Get(t.Context(), "k", "i"); err == nil || errors.Is(err, store.ErrNotFound) {
			t.Errorf("%T: Get on the zero value answered %v", s, err)
		}
		if _, err := s.Update(t.Context(), store.Row{Kind: "k", ID: "i"}); err == nil || errors.Is(err, store.ErrNotFound) {
			t.Errorf("%T: Update on the zero value answered %v", s, err)
		}
		if _, err := s.Find(t.Context(), "k", ""); err == nil {
			t.Errorf("%T: Find on the zero value succeeded", s)
		}
		if _, err := s.Next(t.Context(), "n"); err == nil {
			t.Errorf("%T: Next on the zero value succeeded", s)
		}
	}
}

// All stores answer any history of calls alike: memory and SQLite here, PostgreSQL
// in TestPostgresAgrees.
func TestStoresAgree(t *testing.T) {
	dir := t.TempDir()
	runs := 0
	agree(t, func(t *rapid.T) store.Store {
		runs++
		s, err := store.OpenSQLite(filepath.Join(dir, fmt.Sprint(runs, " ?#%.db"))) // a name that needs escaping
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

// agree compares new stores from open with stores in memory.
func agree(t *testing.T, open func(t *rapid.T) store.Store) {
	rapid.Check(t, func(t *rapid.T) {
		durable := open(t)
		defer durable.Close()
		stores := []store.Store{store.NewMemory(), durable}
		name := rapid.SampledFrom([]string{"a", "b", "a\x00", "\xff", "é"})
		for range rapid.IntRange(1, 12).Draw(t, "calls") {
			call := rapid.SampledFrom([]string{"create", "update", "get", "find", "next"}).Draw(t, "call")
			r := store.Row{Kind: name.Draw(t, "kind"), ID: name.Draw(t, "id"), Key: name.Draw(t, "key"),
				Rev: rapid.Int64Range(0, 3).Draw(t, "rev"), Body: rapid.SliceOf(rapid.Byte()).Draw(t, "body")}
			var answers [2]string
			for i, s := range stores {
				var rows []store.Row
				var n int64
				var err error
				switch call {
				case "create":
					r, err := s.Create(context.Background(), r)
					answers[i] = answer([]store.Row{r}, 0, err)
					continue
				case "update":
					r, err := s.Update(context.Background(), r)
					answers[i] = answer([]store.Row{r}, 0, err)
					continue
				case "get":
					var r2 store.Row
					r2, err = s.Get(context.Background(), r.Kind, r.ID)
					rows = []store.Row{r2}
				case "find":
					rows, err = s.Find(context.Background(), r.Kind, r.Key)
				case "next":
					n, err = s.Next(context.Background(), r.Key)
				}
				answers[i] = answer(rows, n, err)
			}
			if answers[0] != answers[1] {
				t.Fatalf("%s %+v:\nmemory %s\n%T %s", call, r, answers[0], durable, answers[1])
			}
		}
	})
}

func answer(rows []store.Row, n int64, err error) string {
	for _, answer := range []error{store.ErrExists, store.ErrStale, store.ErrNotFound} {
		if errors.Is(err, answer) {
			return answer.Error()
		}
	}
	return fmt.Sprintf("%+v %d %v", rows, n, err)
}

// What was stored is there after the process is gone.
func TestSQLiteKeeps(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := openSQLite(t, path)
	want, err := s.Create(t.Context(), store.Row{Kind: "permit", ID: "p", Key: "k", Body: []byte("b")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Next(t.Context(), "n"); err != nil {
		t.Fatal(err)
	}
	// Also while it is open elsewhere, without any checkpoint.
	for range 2 {
		other := openSQLite(t, path)
		if got, err := other.Get(t.Context(), "permit", "p"); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
		if _, err := other.Create(t.Context(), want); !errors.Is(err, store.ErrExists) {
			t.Errorf("creating again: %v, want ErrExists", err)
		}
		other.Close()
		s.Close()
	}
	if n, err := openSQLite(t, path).Next(t.Context(), "n"); err != nil || n != 2 {
		t.Errorf("the next number is %d, %v, want 2", n, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v, want 0600", info.Mode(), err)
	}
}

// Gateways that start together on no file all get the same store.
func TestSQLiteOpenedTogether(t *testing.T) {
	for range 40 {
		path := filepath.Join(t.TempDir(), "store.db")
		var wg sync.WaitGroup
		for i := range 6 {
			wg.Go(func() {
				s, err := store.OpenSQLite(path)
				if err != nil {
					t.Error(err)
					return
				}
				defer s.Close()
				if _, err := s.Create(t.Context(), store.Row{Kind: "k", ID: fmt.Sprint(i)}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if found, err := openSQLite(t, path).Find(t.Context(), "k", ""); err != nil || len(found) != 6 {
			t.Fatalf("found %d rows, %v, want 6", len(found), err)
		}
	}
}

// A file that is no sound store of this version is refused with its reason, and
// left as it is.
func TestSQLiteRefuses(t *testing.T) {
	sound := filepath.Join(t.TempDir(), "sound.db")
	s := openSQLite(t, sound)
	for i := range 200 {
		if _, err := s.Create(t.Context(), store.Row{Kind: "k", ID: fmt.Sprint(i), Body: make([]byte, 100)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	image, err := os.ReadFile(sound)
	if err != nil {
		t.Fatal(err)
	}
	patched := func(at int, with ...byte) func(string) error {
		return func(path string) error {
			b := bytes.Clone(image)
			copy(b[at:], with)
			return os.WriteFile(path, b, 0o600)
		}
	}
	written := func(text string) func(string) error {
		return func(path string) error { return os.WriteFile(path, []byte(text), 0o600) }
	}
	statements := func(from []byte, statements ...string) func(string) error {
		return func(path string) error {
			if err := os.WriteFile(path, from, 0o600); err != nil {
				return err
			}
			db, err := sql.Open("sqlite", path)
			if err != nil {
				return err
			}
			defer db.Close()
			for _, s := range statements {
				if _, err := db.Exec(s); err != nil {
					return err
				}
			}
			return nil
		}
	}
	page := int(binary.BigEndian.Uint16(image[16:]))
	garbage := bytes.Repeat([]byte{0xa5}, page)
	for _, c := range []struct {
		name string
		make func(path string) error
		want string
	}{
		{"text", written("this is not a database, and long enough not to be mistaken for the head of one: " + strings.Repeat("x", 200)), "is not a Countersign store"},
		{"short text", written("hello\n"), "is not a Countersign store"},
		{"database of someone else", statements(nil, "CREATE TABLE people (name TEXT)"), "is not a Countersign store: it belongs to another application"},
		{"empty database of someone else", statements(nil, "PRAGMA application_id = 7"), "is not a Countersign store: it belongs to another application"},
		{"empty database with a version", statements(nil, "PRAGMA user_version = 2"), "is not a Countersign store: it belongs to another application"},
		{"other application id", patched(68, 1, 2, 3, 4), "is not a Countersign store: it belongs to another application"},
		{"newer schema", patched(60, 0, 0, 0, 3), "has schema 3, this program knows up to 2"},
		{"older schema", patched(60, 0, 0, 0, 1), "is not a Countersign store: its tables are not those of schema 2"},
		{"added trigger", statements(image, "CREATE TRIGGER forget AFTER INSERT ON rows BEGIN DELETE FROM rows; END"), "its tables are not those of schema 2"},
		{"missing index", statements(image, "DROP INDEX rows_by_id"), "its tables are not those of schema 2"},
		{"overwritten page", patched(3*page, garbage...), "damaged"},
		{"overwritten schema", patched(100, garbage[:page-100]...), "damaged"},
		{"cut", func(path string) error { return os.WriteFile(path, image[:len(image)/2], 0o600) }, "damaged"},
		{"directory", func(path string) error { return os.Mkdir(path, 0o700) }, "is a directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "store.db")
			if err := c.make(path); err != nil {
				t.Fatal(err)
			}
			before, _ := os.ReadFile(path)
			s, err := store.OpenSQLite(path)
			if err == nil {
				s.Close()
				t.Fatal("opened")
			}
			if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("error %q, want it to name the file and to contain %q", err, c.want)
			}
			if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
				t.Error("the file was changed")
			}
		})
	}
	t.Run("no folder", func(t *testing.T) {
		if _, err := store.OpenSQLite(filepath.Join(t.TempDir(), "none", "store.db")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("error %v, want %v", err, os.ErrNotExist)
		}
	})
	t.Run("no path", func(t *testing.T) {
		if _, err := store.OpenSQLite(""); err == nil {
			t.Error("opened")
		}
	})
}

const (
	processes = 4
	permits   = 1000
	pathEnv   = "COUNTERSIGN_STORE_WORKER" // "process:file or address to work on", in a worker process
)

func TestMain(m *testing.M) {
	if process, path, ok := strings.Cut(os.Getenv(pathEnv), ":"); ok {
		if err := worker(process, path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// open opens the store in a file, or at an address.
func open(path string) (store.Store, error) {
	if strings.HasPrefix(path, "postgres:") {
		return store.OpenPostgres(context.Background(), path)
	}
	return store.OpenSQLite(path)
}

// worker opens the store at the first line on its input, spends one permit at the
// second, and at the third one every permit it can. It prints what it spent, with a
// number for some.
func worker(process, path string) error {
	in, out := bufio.NewReader(os.Stdin), bufio.NewWriter(os.Stdout)
	if _, err := in.ReadString('\n'); err != nil {
		return err
	}
	s, err := open(path)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "open")
	if err := out.Flush(); err != nil {
		return err
	}
	if _, err := in.ReadString('\n'); err != nil {
		return err
	}
	first, err := strconv.Atoi(process)
	if err != nil {
		return err
	}
	for n := range permits {
		if n == 1 { // the others have one as well, whoever was scheduled first
			if err := out.Flush(); err != nil {
				return err
			}
			if _, err := in.ReadString('\n'); err != nil {
				return err
			}
		}
		// Each process has its own way through the permits, so that all of them win
		// some; steps of 1, 3, 7 and 9 visit every one of 1,000.
		i := (first*permits/processes + n*[]int{1, 3, 7, 9}[first]) % permits
		_, err := s.Create(context.Background(), store.Row{Kind: "spent", ID: fmt.Sprint(i)})
		if errors.Is(err, store.ErrExists) {
			continue
		}
		if err != nil {
			return err
		}
		var n int64
		if i%10 == 0 { // a sample: every number costs a synchronisation
			if n, err = s.Next(context.Background(), "n"); err != nil {
				return err
			}
		}
		fmt.Fprintln(out, i, n)
	}
	return errors.Join(out.Flush(), s.Close())
}

// Several processes on one new store: each permit is spent by exactly one.
func TestSQLiteProcesses(t *testing.T)   { spendInProcesses(t, filepath.Join(t.TempDir(), "store.db")) }
func TestPostgresProcesses(t *testing.T) { spendInProcesses(t, pgtest.Database(t)) }

func spendInProcesses(t *testing.T, path string) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	type process struct {
		*exec.Cmd
		in  io.WriteCloser
		out *bufio.Reader
	}
	var all []process
	for i := range processes {
		c := exec.CommandContext(t.Context(), exe)
		c.Env = append(os.Environ(), fmt.Sprintf("%s=%d:%s", pathEnv, i, path))
		c.Stderr = os.Stderr
		in, err1 := c.StdinPipe()
		out, err2 := c.StdoutPipe()
		if err := errors.Join(err1, err2, c.Start()); err != nil {
			t.Fatal(err)
		}
		all = append(all, process{c, in, bufio.NewReader(out)})
	}
	tell := func() {
		for i, p := range all {
			if _, err := fmt.Fprintln(p.in); err != nil {
				t.Fatalf("process %d: %v", i, err)
			}
		}
	}
	tell() // they create the store at the same moment …
	for i, p := range all {
		if line, err := p.out.ReadString('\n'); err != nil || line != "open\n" {
			t.Fatalf("process %d did not open the store: %q, %v", i, line, err)
		}
	}
	tell() // … each of them spends …
	firsts := make([]string, processes)
	for i, p := range all {
		if firsts[i], err = p.out.ReadString('\n'); err != nil {
			t.Fatalf("process %d spent nothing: %v", i, err)
		}
	}
	tell() // … and goes on at the same moment
	spent, numbers := map[string]int{}, map[string]int{}
	for i, p := range all {
		output, err := io.ReadAll(p.out)
		if err := errors.Join(err, p.Wait()); err != nil {
			t.Errorf("process %d: %v", i, err)
		}
		output = append([]byte(firsts[i]), output...)
		for line := range strings.Lines(string(output)) {
			permit, number, _ := strings.Cut(strings.TrimSpace(line), " ")
			spent[permit]++
			numbers[number]++
		}
	}
	for i := range permits {
		if n := spent[fmt.Sprint(i)]; n != 1 {
			t.Errorf("permit %d was spent %d times", i, n)
		}
	}
	for n := range permits / 10 {
		if numbers[fmt.Sprint(n+1)] != 1 {
			t.Errorf("the number %d was given %d times", n+1, numbers[fmt.Sprint(n+1)])
		}
	}
}

// BenchmarkStore creates rows from so many goroutines at once, beside a loop that
// inserts the same rows into the same table with the same durability and with
// nothing around it, on as many connections as the store has.
func BenchmarkStore(b *testing.B) {
	body := make([]byte, 512)
	for _, callers := range []int{1, 8, 64} {
		for _, s := range []struct {
			name string
			open func(b *testing.B) store.Store
		}{
			{"memory", func(*testing.B) store.Store { return store.NewMemory() }},
			{"sqlite", func(b *testing.B) store.Store { return openSQLite(b, filepath.Join(b.TempDir(), "store.db")) }},
			{"postgres", func(b *testing.B) store.Store { return openPostgres(b, pgtest.Database(b)) }},
		} {
			b.Run(fmt.Sprintf("%s/callers=%d", s.name, callers), func(b *testing.B) {
				s := s.open(b)
				rate(b, callers, func(i int) error {
					_, err := s.Create(b.Context(), store.Row{Kind: "spent", ID: fmt.Sprint(i), Key: "k", Body: body})
					return err
				})
			})
		}
		b.Run(fmt.Sprintf("sqlite-bare/callers=%d", callers), func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "store.db")
			openSQLite(b, path).Close()
			db, err := sql.Open("sqlite", path+"?_pragma=synchronous(FULL)&_pragma=journal_mode(WAL)")
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			db.SetMaxOpenConns(1)
			insert, err := db.Prepare("INSERT INTO rows (kind, id, key, rev, body, sum) VALUES ('spent', ?, 'k', 1, ?, zeroblob(32))")
			if err != nil {
				b.Fatal(err)
			}
			rate(b, callers, func(i int) error {
				_, err := insert.Exec(fmt.Sprint(i), body)
				return err
			})
		})
		b.Run(fmt.Sprintf("postgres-bare/callers=%d", callers), func(b *testing.B) {
			address := pgtest.Database(b)
			openPostgres(b, address).Close()
			pool, err := pgxpool.New(b.Context(), with(b, address, "pool_max_conns", "16"))
			if err != nil {
				b.Fatal(err)
			}
			defer pool.Close()
			rate(b, callers, func(i int) error {
				name := sha256.Sum256(fmt.Append(nil, i))
				_, err := pool.Exec(b.Context(), `INSERT INTO countersign.rows (name, place, kind, id, key, rev, body, sum)
					VALUES ($1, $1, 'spent', $1, 'k', 1, $2, $1)`, name[:], body)
				return err
			})
		})
	}
}

// rate calls f from so many goroutines and reports how often it returned.
func rate(b *testing.B, callers int, f func(i int) error) {
	if err := f(0); err != nil { // connects, and prepares its statement
		b.Fatal(err)
	}
	var n atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range callers {
		wg.Go(func() {
			for i := n.Add(1); i <= int64(b.N); i = n.Add(1) {
				if err := f(int(i)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
}
