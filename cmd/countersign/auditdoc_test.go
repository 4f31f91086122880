package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// auditFiles copies the log of a gateway that served one payment twice, an altered one and
// another after a restart.
func auditFiles(t testing.TB, to string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "audit", "*"))
	if err != nil || len(files) != 4 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(filepath.Join(to, filepath.Base(file)), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestAuditDoc: the commands of docs/audit.md, one after the other, print what stands
// below them. With -update that is written.
func TestAuditDoc(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the commands are for a POSIX shell")
	}
	path := filepath.Join("..", "..", "docs", "audit.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	auditFiles(t, dir)
	blocks := 0
	want := regexp.MustCompile("(?s)```console\n.*?```\n").ReplaceAllStringFunc(string(text), func(block string) string {
		blocks++
		out := "```console\n"
		for line := range strings.Lines(block) {
			script, ok := strings.CutPrefix(line, "$ ")
			if !ok {
				continue
			}
			sh := exec.CommandContext(t.Context(), "sh", "-c", script)
			sh.Dir = dir
			printed, err := sh.CombinedOutput()
			if code := sh.ProcessState.ExitCode(); err != nil && code != 1 {
				t.Errorf("%s%v: %s", line, err, printed)
			}
			out += line + string(printed)
		}
		return out + "```\n"
	})
	if blocks == 0 {
		t.Fatal("no commands")
	}
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("docs/audit.md is out of date (write it with go test ./cmd/countersign -run AuditDoc -update):\n%s", diff)
	}
}
