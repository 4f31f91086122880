package agentdojo

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWalk(t *testing.T) {
	// Overlapping paths in any order: each log once, in the order of the names.
	var got []string
	for tr, err := range Walk([]string{"testdata/runs/beta", "testdata/runs", benignLog, "./" + benignLog}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, filepath.ToSlash(tr.Path))
	}
	if diff := cmp.Diff([]string{asUserLog, attackedLog, benignLog, errorLog, formatBLog}, got); diff != "" {
		t.Errorf("walked (-want +got):\n%s", diff)
	}
	for range Walk([]string{"testdata/runs"}) {
		break // stopping early must not panic
	}
}

// A file that cannot be read is named, and the others are read all the same.
func TestWalkGoesOn(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("a.json", "{")
	write("b.json", minimal)
	write("c.txt", "not a log, and not called one")
	write("d.json", "{}")
	if err := os.Symlink(t.TempDir(), filepath.Join(dir, "e")); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(dir, "missing")
	var good, bad []string
	for tr, err := range Walk([]string{dir, missing}) {
		if err == nil {
			good = append(good, filepath.Base(tr.Path))
			continue
		}
		fe, ok := errors.AsType[*FileError](err)
		if !ok || tr != nil {
			t.Fatalf("trace %v, error %v", tr, err)
		}
		bad = append(bad, filepath.Base(fe.Path))
	}
	slices.Sort(bad)
	if !slices.Equal(good, []string{"b.json"}) || !slices.Equal(bad, []string{"a.json", "d.json", "e", "missing"}) {
		t.Errorf("read %v, could not read %v", good, bad)
	}
}

func TestWalkFollowsItsRoot(t *testing.T) {
	abs, err := filepath.Abs("testdata/runs")
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(abs, link); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err := range Walk([]string{link}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 5 {
		t.Errorf("%d logs behind a link, want 5", n)
	}
}

func TestWalkFindsNothing(t *testing.T) {
	for _, paths := range [][]string{nil, {t.TempDir()}} {
		var last error
		for _, err := range Walk(paths) {
			last = err
		}
		if !errors.Is(last, ErrNoLogs) {
			t.Errorf("%v: error %v, want %v", paths, last, ErrNoLogs)
		}
	}
}

// The name of a trace is its path in the benchmark's layout, wherever the log lies.
func TestID(t *testing.T) {
	for tr, err := range Walk([]string{"testdata/runs"}) {
		if err != nil {
			t.Fatal(err)
		}
		path, _ := strings.CutPrefix(filepath.ToSlash(tr.Path), "testdata/runs/")
		if want := strings.TrimSuffix(path, ".json"); tr.ID() != want {
			t.Errorf("%s is called %s", tr.Path, tr.ID())
		}
	}
}
