package audit

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"countersign/gateway/api"
)

// A write that fails half-way is no entry, and the log goes on when the disk
// does.
func TestFileAfterFailedWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := l.Append(t.Context(), api.AuditEntry{Event: "first"}); err != nil {
		t.Fatal(err)
	}
	good := l.f
	if l.f, err = os.Open(path); err != nil { // cannot be written
		t.Fatal(err)
	}
	for range 2 {
		if _, err := l.Append(t.Context(), api.AuditEntry{Event: "lost"}); err == nil {
			t.Fatal("appended to a file that cannot be written")
		}
		if _, err := good.WriteString(`{"seq":2,"ti`); err != nil { // what got through
			t.Fatal(err)
		}
	}
	if got, err := l.Read(t.Context(), 0); err != nil || len(got) != 1 {
		t.Errorf("read %v, %v, want the first entry only", got, err)
	}
	if err := l.f.Close(); err != nil {
		t.Fatal(err)
	}
	l.f = good
	if e, err := l.Append(t.Context(), api.AuditEntry{Event: "second"}); err != nil || e.Seq != 2 {
		t.Fatalf("the next entry is %d, %v, want 2", e.Seq, err)
	}
	if got, err := l.Read(t.Context(), 0); err != nil || len(got) != 2 || got[1].Event != "second" {
		t.Errorf("read %v, %v, want both entries", got, err)
	}
	text, err := os.ReadFile(path)
	if err != nil || bytes.Count(text, []byte("\n")) != 2 || bytes.Contains(text, []byte("lost")) {
		t.Errorf("%v, the file is\n%s", err, text)
	}
	if size, _ := l.Root(); size != 2 {
		t.Errorf("the tree has %d entries, want 2", size)
	}
}
