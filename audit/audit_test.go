package audit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/mod/sumdb/tlog"
	"pgregory.net/rapid"

	"countersign/audit"
	"countersign/gateway/api"
)

func openFile(t testing.TB, path string) *audit.File {
	t.Helper()
	l, err := audit.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

var logs = map[string]func(t testing.TB) audit.Log{
	"memory": func(testing.TB) audit.Log { return audit.NewMemory() },
	"file":   func(t testing.TB) audit.Log { return openFile(t, filepath.Join(t.TempDir(), "audit.jsonl")) },
}

var start = time.Date(2026, 5, 3, 10, 0, 0, 123456789, time.FixedZone("", 3600))

// entry is an entry as a gateway writes it.
func entry(n int) api.AuditEntry {
	return api.AuditEntry{
		Time: start.Add(time.Duration(n) * time.Second), Event: "dispatch", Suspension: fmt.Sprint("susp-", n), Permit: "8f2a6f0d",
		Principal: "agent-1", Audience: "payments", Tool: "pay", ArgsDigest: strings.Repeat("ab", 32), ViewDigest: strings.Repeat("cd", 32),
		Policy: "v1", RequestID: fmt.Sprint("req-", n), Key: "k", Status: api.Refused,
		Refusals: []api.Refusal{{Binding: api.BindExpiry, Code: "expired"}, {Binding: api.BindOnce, Code: "spent", Detail: "used before"}},
		Alert:    "presented after consumption",
	}
}

func TestLog(t *testing.T) {
	for name, open := range logs {
		t.Run(name, func(t *testing.T) {
			l := open(t)
			if got, err := l.Read(t.Context(), 0); err != nil || len(got) != 0 {
				t.Errorf("an empty log has %v, %v", got, err)
			}
			var want []api.AuditEntry
			for i := range 5 {
				e := entry(i)
				e.Seq = 77 // the log's business
				got, err := l.Append(t.Context(), e)
				if err != nil {
					t.Fatal(err)
				}
				e.Seq, e.Time = int64(i+1), e.Time.UTC()
				if !reflect.DeepEqual(got, e) {
					t.Errorf("Append returned %+v, want %+v", got, e)
				}
				want = append(want, e)
			}
			for after, n := range map[int64]int{-1: 5, 0: 5, 1: 4, 4: 1, 5: 0, 6: 0, 1 << 62: 0} {
				got, err := l.Read(t.Context(), after)
				if err != nil || len(got) != n || n > 0 && !reflect.DeepEqual(got, want[5-n:]) {
					t.Errorf("Read after %d = %+v, %v, want the last %d", after, got, err, n)
				}
			}
			gone, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := l.Append(gone, entry(9)); !errors.Is(err, context.Canceled) {
				t.Errorf("Append when cancelled: %v", err)
			}
			if _, err := l.Read(gone, 0); !errors.Is(err, context.Canceled) {
				t.Errorf("Read when cancelled: %v", err)
			}
			if es, err := l.Read(t.Context(), 0); err != nil || len(es) != 5 {
				t.Errorf("%d entries, %v, want 5: a cancelled call left one", len(es), err)
			}
			// An entry that cannot be written leaves no gap.
			for _, e := range []api.AuditEntry{{Event: strings.Repeat("x", 1<<20)}, {Time: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}} {
				if _, err := l.Append(t.Context(), e); err == nil {
					t.Error("an entry that cannot be written was appended")
				}
			}
			if e, err := l.Append(t.Context(), entry(5)); err != nil || e.Seq != 6 {
				t.Errorf("the next entry has number %d, %v, want 6", e.Seq, err)
			}
		})
	}
}

// A log that is longer than a reader gets at once is read in parts, from wherever one
// begins, and from a file that was opened again.
func TestReadInParts(t *testing.T) {
	const n = 2*audit.MaxRead + 100
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	var text []byte
	memory := audit.NewMemory()
	for i := range n {
		e, err := memory.Append(t.Context(), entry(i))
		if err != nil {
			t.Fatal(err)
		}
		line, err := audit.Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		text = append(append(text, line...), '\n')
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	file := openFile(t, path)
	if _, err := file.Append(t.Context(), entry(n)); err != nil {
		t.Fatal(err)
	}
	if _, err := memory.Append(t.Context(), entry(n)); err != nil {
		t.Fatal(err)
	}
	for name, l := range map[string]audit.Log{"memory": memory, "file": file} {
		for _, after := range []int64{0, 1, 23, 24, 25, 999, 1000, 1023, 1024, 1025, 2047, 2048, 2049, n - 1, n, n + 1} {
			got, err := l.Read(t.Context(), after)
			if want := min(max(n+1-after, 0), audit.MaxRead); err != nil || int64(len(got)) != want {
				t.Fatalf("%s: after %d there are %d entries, %v, want %d", name, after, len(got), err, want)
			}
			for i, e := range got {
				if e.Seq != after+int64(i)+1 || e.RequestID != fmt.Sprint("req-", e.Seq-1) {
					t.Fatalf("%s: entry %d after %d is %+v", name, i+1, after, e)
				}
			}
		}
	}
}

func TestConcurrentAppend(t *testing.T) {
	const workers, each = 8, 20
	for name, open := range logs {
		t.Run(name, func(t *testing.T) {
			l := open(t)
			seqs := make([][]int64, workers)
			var wg sync.WaitGroup
			for w := range workers {
				wg.Go(func() {
					for range each {
						e, err := l.Append(t.Context(), api.AuditEntry{Principal: fmt.Sprint(w)})
						if err != nil {
							t.Error(err)
							return
						}
						seqs[w] = append(seqs[w], e.Seq)
						if _, err := l.Read(t.Context(), e.Seq-1); err != nil {
							t.Error(err)
						}
						if f, ok := l.(*audit.File); ok {
							f.Root()
						}
					}
				})
			}
			wg.Wait()
			got, err := l.Read(t.Context(), 0)
			if err != nil || len(got) != workers*each {
				t.Fatalf("%d entries, %v, want %d", len(got), err, workers*each)
			}
			for i, e := range got {
				if e.Seq != int64(i+1) {
					t.Errorf("entry %d has the number %d", i+1, e.Seq)
				}
			}
			for w := range workers {
				for _, seq := range seqs[w] {
					if got[seq-1].Principal != fmt.Sprint(w) {
						t.Errorf("number %d was given to %d and to %s", seq, w, got[seq-1].Principal)
					}
				}
			}
		})
	}
}

// hostile draws what an attacker may get into a name.
var hostile = rapid.OneOf(
	rapid.String(),
	rapid.SampledFrom([]string{
		"a\n{\"seq\":2}", "\r\n", "\x00", "\x1b[2J", "\u009b31m", "\x7f", "\u0085", "\u2028\u2029", "\u202egpj", "\u200b", "\ufeff", "\ufffe",
		"\U000e0041", "\U0001f600", "\xff\xfe", "é", "</script>", "\\u000a", `","event":"approve`,
	}),
)

// One entry is one line of printable characters, whatever its names are, and the
// entry comes back from it.
func TestOneEntryOneLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var e api.AuditEntry
		v := reflect.ValueOf(&e).Elem()
		for i := range v.NumField() {
			if v.Field(i).Kind() == reflect.String {
				v.Field(i).SetString(hostile.Draw(t, v.Type().Field(i).Name))
			}
		}
		e.Refusals = []api.Refusal{{Binding: api.Binding(hostile.Draw(t, "binding")), Code: hostile.Draw(t, "code"), Detail: hostile.Draw(t, "detail")}}
		line, err := audit.Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range string(line) {
			if !unicode.IsPrint(r) && r != utf8.RuneError {
				t.Fatalf("the line %q has the character %U", line, r)
			}
		}
		got, err := audit.Decode(line)
		if err != nil {
			t.Fatal(err)
		}
		if want := valid(e); !reflect.DeepEqual(got, want) {
			t.Fatalf("the line %s is read as %+v, want %+v", line, got, want)
		}
	})
}

// valid is e as JSON can hold it: bytes that are not UTF-8 become U+FFFD.
func valid(e api.AuditEntry) api.AuditEntry {
	var fix func(v reflect.Value)
	fix = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.String:
			v.SetString(string([]rune(v.String())))
		case reflect.Struct:
			if v.Type() != reflect.TypeFor[time.Time]() {
				for i := range v.NumField() {
					fix(v.Field(i))
				}
			}
		case reflect.Slice:
			for i := range v.Len() {
				fix(v.Index(i))
			}
		}
	}
	e.Refusals = slices.Clone(e.Refusals)
	fix(reflect.ValueOf(&e).Elem())
	return e
}

// written returns the content of a log of n entries.
func written(t *testing.T, n int) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l := openFile(t, path)
	for i := range n {
		if _, err := l.Append(t.Context(), api.AuditEntry{Event: "e", Principal: fmt.Sprint("p\n", i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Count(text, []byte("\n")) != n {
		t.Fatalf("%d entries are in the lines\n%s", n, text)
	}
	return text
}

func TestFileKeeps(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	memory := audit.NewMemory()
	var noted tlog.Hash
	for i := range 6 {
		l := openFile(t, path)
		if _, err := audit.OpenFile(path); err == nil || !strings.Contains(err.Error(), "another process") {
			t.Errorf("opened twice: %v", err)
		}
		for range i % 3 {
			_, err1 := l.Append(t.Context(), entry(i))
			_, err2 := memory.Append(t.Context(), entry(i))
			if err := errors.Join(err1, err2); err != nil {
				t.Fatal(err)
			}
		}
		got, err1 := l.Read(t.Context(), 0)
		want, err2 := memory.Read(t.Context(), 0)
		if err := errors.Join(err1, err2); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("after %d openings: %+v, %v, want %+v", i+1, got, err, want)
		}
		size, root := l.Root()
		if size != int64(len(want)) || i%3 == 0 && i > 0 && root != noted {
			t.Errorf("after %d openings the root of %d entries is %v, want the %v of %d", i+1, size, root, noted, len(want))
		}
		noted = root
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Append(t.Context(), entry(0)); err == nil {
			t.Error("appended to a closed log")
		}
		if _, err := l.Read(t.Context(), 0); err == nil {
			t.Error("read from a closed log")
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v, want 0600", info.Mode(), err)
	}
}

// Wherever a crash cuts the file, the whole entries stay and the log goes on.
func TestFileCutAnywhere(t *testing.T) {
	text := written(t, 3)
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	for n := range len(text) {
		if err := os.WriteFile(path, text[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		whole := bytes.LastIndexByte(text[:n], '\n') + 1
		if es, err := audit.ReadFile(path); err != nil || len(es) != bytes.Count(text[:whole], []byte("\n")) {
			t.Errorf("cut at byte %d: %d entries are read, %v", n, len(es), err)
		}
		if after, err := os.ReadFile(path); err != nil || len(after) != n {
			t.Errorf("cut at byte %d: reading made %d bytes of it, %v", n, len(after), err)
		}
		l, err := audit.OpenFile(path)
		if err != nil {
			t.Fatalf("cut at byte %d: %v", n, err)
		}
		if got := l.Truncated(); string(got) != string(text[whole:n]) {
			t.Errorf("cut at byte %d: truncated %q, want %q", n, got, text[whole:n])
		}
		size := bytes.Count(text[:whole], []byte("\n"))
		if e, err := l.Append(t.Context(), entry(0)); err != nil || e.Seq != int64(size+1) {
			t.Errorf("cut at byte %d: the next entry is %d, %v, want %d", n, e.Seq, err, size+1)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		after, err := os.ReadFile(path)
		if err != nil || !bytes.HasPrefix(after, text[:whole]) || bytes.Count(after, []byte("\n")) != size+1 {
			t.Fatalf("cut at byte %d: %v, the file is\n%s", n, err, after)
		}
	}
}

// A damaged file is refused with the line, and left as it is.
func TestFileRefuses(t *testing.T) {
	lines := bytes.SplitAfter(written(t, 3), []byte("\n"))[:3]
	join := func(lines ...[]byte) []byte { return slices.Concat(lines...) }
	for _, c := range []struct {
		name string
		text []byte
		want string
	}{
		{"line missing", join(lines[0], lines[2]), "line 2 holds entry 3"},
		{"first line missing", join(lines[1:]...), "line 1 holds entry 2"},
		{"line twice", join(lines[0], lines[0], lines[1]), "line 2 holds entry 1"},
		{"lines exchanged", join(lines[1], lines[0]), "line 1 holds entry 2"},
		{"empty line", join(lines[0], []byte("\n"), lines[1]), "line 2: decoding"},
		{"no JSON", join(lines[0], []byte("hello\n")), "line 2: decoding"},
		{"cut inside", join(lines[0][:20], []byte("\n"), lines[1]), "line 1: decoding"},
		{"two entries in a line", join(lines[0], lines[1][:len(lines[1])-1], lines[2]), "line 2: decoding audit entry: text after the entry"},
		{"unknown member", join(lines[0], bytes.Replace(lines[1], []byte(`"event"`), []byte(`"evil"`), 1)), `unknown field "evil"`},
		{"zeros inside", join(make([]byte, 10), []byte("\n"), lines[0]), "line 1: decoding"},
		{"endless line", join(lines[0], bytes.Repeat([]byte("x"), 1<<20), []byte("yy\n")), "line 2 has more than"},
		{"someone else's file without a line feed", []byte("dear diary"), "line 1 has no line feed and is not the start of entry 1"},
		{"the start of another entry", join(lines[0], lines[2][:20]), "line 2 has no line feed and is not the start of entry 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "audit.jsonl")
			if err := os.WriteFile(path, c.text, 0o600); err != nil {
				t.Fatal(err)
			}
			l, err := audit.OpenFile(path)
			if err == nil {
				l.Close()
				t.Fatal("opened")
			}
			if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("error %q, want it to name the file and to contain %q", err, c.want)
			}
			if es, readErr := audit.ReadFile(path); es != nil || fmt.Sprint(readErr) != err.Error() {
				t.Errorf("reading: %v, %v, want the error %v", es, readErr, err)
			}
			if after, _ := os.ReadFile(path); !bytes.Equal(after, c.text) {
				t.Error("the file was changed")
			}
		})
	}
	t.Run("zeros at the end", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "audit.jsonl")
		if err := os.WriteFile(path, join(lines[0], make([]byte, 4096)), 0o600); err != nil {
			t.Fatal(err)
		}
		if size, _ := openFile(t, path).Root(); size != 1 {
			t.Errorf("%d entries, want 1", size)
		}
	})
	t.Run("no folder", func(t *testing.T) {
		if _, err := audit.OpenFile(filepath.Join(t.TempDir(), "none", "audit.jsonl")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("error %v, want %v", err, os.ErrNotExist)
		}
	})
}

// What is decoded can be written again, and means the same.
func FuzzDecode(f *testing.F) {
	for i := range 3 {
		line, err := audit.Encode(entry(i))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(line)
	}
	f.Add([]byte(`{"seq":1,"time":"2026-05-03T10:00:00Z","event":"\u009b\ud83d\ude00"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		e, err := audit.Decode(line)
		if err != nil {
			return
		}
		if y := e.Time.UTC().Year(); y < 0 || y > 9999 {
			return // a zone can move a year out of RFC 3339
		}
		again, err := audit.Encode(e)
		if err != nil {
			if len(line) > 1<<17 {
				return // escapes may make it too long
			}
			t.Fatal(err)
		}
		if bytes.ContainsAny(again, "\n\r\x1b") {
			t.Fatalf("%q is written as %q", line, again)
		}
		got, err := audit.Decode(again)
		if err != nil || !got.Time.Equal(e.Time) {
			t.Fatalf("%q is read from %q: %v", got.Time, again, err)
		}
		got.Time = e.Time
		if len(e.Refusals) == 0 {
			e.Refusals = nil // [] and nothing are the same
		}
		if !reflect.DeepEqual(got, e) {
			t.Fatalf("%q is read as %+v, and its copy %q as %+v", line, e, again, got)
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	plain := entry(0)
	plain.Refusals, plain.Status, plain.Alert = nil, api.Executed, ""
	for _, e := range []struct {
		name string
		api.AuditEntry
	}{{"executed", plain}, {"refused", entry(0)}} {
		for _, name := range []string{"memory", "file"} {
			b.Run(name+"/"+e.name, func(b *testing.B) {
				l := logs[name](b)
				for b.Loop() {
					if _, err := l.Append(b.Context(), e.AuditEntry); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
