package agentdojo

import (
	"os"
	"path/filepath"
	"testing"
)

func TestSharedDir(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("COUNTERSIGN_SHARED", dir)
	if got, err := SharedDir(); err != nil || got != dir {
		t.Errorf("%q, error %v, want %q", got, err, dir)
	}
	t.Setenv("COUNTERSIGN_SHARED", filepath.Join(dir, "none"))
	if got, err := SharedDir(); err == nil {
		t.Errorf("a folder that does not exist: %q", got)
	}
	// Without the variable: beside the root of the module.
	t.Setenv("COUNTERSIGN_SHARED", "")
	for _, name := range []string{"module/deep/down", "shared"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "module", "go.mod"), []byte("module m\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join(dir, "module", "deep", "down"))
	got, err := SharedDir()
	if err != nil || filepath.Base(got) != "shared" {
		t.Errorf("%q, error %v", got, err)
	}
}

type fakeTB struct{ skipped, failed bool }

func (f *fakeTB) Helper()               {}
func (f *fakeTB) Skipf(string, ...any)  { f.skipped = true }
func (f *fakeTB) Fatalf(string, ...any) { f.failed = true }

// Missing data is a skip, and a failure where it is required.
func TestRequire(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("COUNTERSIGN_SHARED", dir)
	for _, tt := range []struct {
		require, elem   string
		skipped, failed bool
	}{
		{"", "", false, false},
		{"", "none", true, false},
		{"postgres", "none", true, false},
		{"postgres, shared", "none", true, true}, // a real Fatalf does not return
		{"shared", "", false, false},
	} {
		t.Setenv("COUNTERSIGN_REQUIRE", tt.require)
		f := &fakeTB{}
		Require(f, tt.elem)
		if f.skipped != tt.skipped || f.failed != tt.failed {
			t.Errorf("require %q, %q: skipped %v, failed %v", tt.require, tt.elem, f.skipped, f.failed)
		}
	}
}
