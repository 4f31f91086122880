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

// Whatever the bytes of a log: what is read are its lines one after the other, with
// nothing between them, before or behind but what a crash cut off; entries are
// numbered from 1; and reading needs no more memory than the longest line may have.
func FuzzScan(f *testing.F) {
	var log []byte
	for i := range int64(2) {
		line, err := Encode(api.AuditEntry{Seq: i + 1, Event: "decided", Permit: "p"})
		if err != nil {
			f.Fatal(err)
		}
		log = append(append(log, line...), '\n')
	}
	f.Add(log)
	f.Add(log[:len(log)-1])
	f.Add(log[:len(log)/2+20])
	f.Add(append(log[:len(log)/2:len(log)/2], 0, 0, 0))
	f.Add(append(log[:len(log):len(log)], log...))
	f.Fuzz(func(t *testing.T, data []byte) {
		var read []byte
		n := int64(0)
		cut, err := scan(bytes.NewReader(data), "log", func(line []byte, e api.AuditEntry) error {
			if n++; e.Seq != n {
				t.Fatalf("entry %d has the number %d", n, e.Seq)
			}
			if len(line) > maxLine || bytes.IndexByte(line, '\n') >= 0 {
				t.Fatalf("a line of %d bytes", len(line))
			}
			read = append(append(read, line...), '\n')
			return nil
		})
		if !bytes.HasPrefix(data, read) {
			t.Fatalf("%q was read of %q", read, data)
		}
		if err != nil {
			if cut != nil {
				t.Error("a cut line beside an error")
			}
			return
		}
		if rest := data[len(read):]; !bytes.Equal(cut, rest) || len(rest) > 0 && !isCut(rest, n+1) {
			t.Fatalf("%q was taken for the cut line, and %q is left", cut, rest)
		}
	})
}
