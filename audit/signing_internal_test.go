package audit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	signednote "golang.org/x/mod/sumdb/note"

	"countersign/gateway/api"
)

func wall() (time.Time, error) { return time.Date(2026, 5, 3, 10, 0, 0, 0, time.UTC), nil }

func signedFile(t testing.TB, path string, key Key, every int64, warn func(error)) (*File, error) {
	t.Helper()
	l, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.SignWith(Signing{Path: path + ".checkpoints", Key: key, Every: every, Now: wall, Warn: warn}); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	t.Cleanup(func() { l.Close() })
	return l, nil
}

func aKey(t testing.TB, origin string) Key {
	t.Helper()
	k, err := NewKey(origin)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestNothingSignsNothing: the zero values of key and signing refuse.
func TestNothingSignsNothing(t *testing.T) {
	if _, err := (Key{}).Sign(Checkpoint{Number: 1}); err == nil {
		t.Error("the zero key signed")
	}
	l, err := OpenFile(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	whole := Signing{Path: l.path + ".checkpoints", Key: aKey(t, "log"), Every: 1, Now: wall}
	for name, take := range map[string]func(*Signing){
		"path": func(s *Signing) { s.Path = "" }, "key": func(s *Signing) { s.Key = Key{} }, "every": func(s *Signing) { s.Every = 0 }, "clock": func(s *Signing) { s.Now = nil },
	} {
		s := whole
		take(&s)
		if err := l.SignWith(s); err == nil {
			t.Errorf("signing without its %s", name)
		}
	}
	for _, secret := range []string{"", "PRIVATE+KEY+log+00000000+AQ==", aKey(t, "log").Public()} {
		if _, err := ParseKey(secret); err == nil || secret != "" && strings.Contains(err.Error(), secret) {
			t.Errorf("key %q: %v", secret, err)
		}
	}
}

// TestSigningGoesOn: a log that is opened again signs on where it was, and refuses to
// where the log contradicts what was signed, or another key signed it.
func TestSigningGoesOn(t *testing.T) {
	path, key := filepath.Join(t.TempDir(), "log"), aKey(t, "log")
	write := func(n int) {
		t.Helper()
		l, err := signedFile(t, path, key, 2, nil)
		if err != nil {
			t.Fatal(err)
		}
		for range n {
			if _, err := l.Append(t.Context(), api.AuditEntry{Event: "e"}); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	write(3)
	write(2)
	known := signednote.VerifierList(key.verifier)
	if r, err := Verify(path, path+".checkpoints", known); err != nil || !r.OK() || r.Covered != 5 {
		t.Fatalf("%+v, %v", r, err)
	}
	log, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	notes, err := os.ReadFile(path + ".checkpoints")
	if err != nil {
		t.Fatal(err)
	}
	again := func(log, notes []byte, key Key) error {
		t.Helper()
		other := filepath.Join(t.TempDir(), "log")
		if err := errors.Join(os.WriteFile(other, log, 0o600), os.WriteFile(other+".checkpoints", notes, 0o600)); err != nil {
			t.Fatal(err)
		}
		l, err := signedFile(t, other, key, 2, nil)
		if err != nil {
			return err
		}
		if err := l.Close(); err != nil {
			return err
		}
		r, err := Verify(other, other+".checkpoints", known)
		if err == nil && !r.OK() {
			t.Errorf("signed on: %+v", r)
		}
		return err
	}
	if err := again(log, append(bytes.Clone(notes), "\nlog\n7"...), key); err != nil {
		t.Errorf("behind an unfinished checkpoint: %v", err)
	}
	lines := bytes.SplitAfter(log, []byte("\n"))
	for name, err := range map[string]error{
		"a shorter log":   again(bytes.Join(lines[:4], nil), notes, key),
		"an altered one":  again(bytes.Replace(log, []byte(`"event":"e"`), []byte(`"event":"f"`), 1), notes, key),
		"another key":     again(log, notes, aKey(t, "log")),
		"another name":    again(log, notes, aKey(t, "other")),
		"damage":          again(log, append(bytes.Clone(notes), "\nother\n7"...), key),
		"a missing first": again(log, notes[bytes.Index(notes, []byte("\n\nlog\n"))+2:], key),
	} {
		if err == nil {
			t.Errorf("%s: signed on", name)
		}
	}
}

// TestCheckpointsFail: where no checkpoint can be written decisions go on for a while,
// with a warning, and then none does; once one can be written, all goes on.
func TestCheckpointsFail(t *testing.T) {
	path, key := filepath.Join(t.TempDir(), "log"), aKey(t, "log")
	warned := make(chan error, 1000)
	l, err := signedFile(t, path, key, 2, func(err error) { warned <- err })
	if err != nil {
		t.Fatal(err)
	}
	<-l.signing.turn
	good := l.signing.f
	if l.signing.f, err = os.Open(path); err != nil { // cannot be written
		t.Fatal(err)
	}
	l.signing.turn <- struct{}{}
	if err := l.Checkpoint(); err != nil {
		t.Fatalf("there is nothing new: %v", err)
	}
	appended := 0
	for range 3 * tooFar {
		if _, err := l.Append(t.Context(), api.AuditEntry{Event: "e"}); err != nil {
			break
		}
		appended++
		if err := l.Checkpoint(); err == nil {
			t.Fatal("a checkpoint was written to a file that cannot be")
		}
	}
	if appended != 2*tooFar {
		t.Errorf("%d entries were taken, want %d", appended, 2*tooFar)
	}
	if err := <-warned; err == nil {
		t.Error("no warning")
	}
	<-l.signing.turn
	_ = l.signing.f.Close()
	l.signing.f = good
	l.signing.turn <- struct{}{}
	if err := l.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(t.Context(), api.AuditEntry{Event: "e"}); err != nil {
		t.Errorf("when it can be written again: %v", err)
	}
}

// TestValuesFile: values are kept once, over restarts and after what a crash left; others
// may not read them; and erased, they are gone while the log verifies as before.
func TestValuesFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "values")
	value := func(text string) Value { return Value{digestOf(text), "arguments", text} }
	read := func() (texts []string) {
		t.Helper()
		if err := ReadValues(path, func(v Value) error { texts = append(texts, v.Text); return nil }); err != nil {
			t.Fatal(err)
		}
		return texts
	}
	open := func() *Values {
		t.Helper()
		v, err := OpenValues(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { v.Close() })
		return v
	}
	keep := func(v *Values, texts ...string) {
		t.Helper()
		for _, text := range texts {
			if err := v.Keep(t.Context(), value(text)); err != nil {
				t.Fatal(err)
			}
		}
	}
	v := open()
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if _, err := OpenValues(path); err == nil {
		t.Error("two have it open")
	}
	keep(v, "one\n", "two", "one\n")
	for name, bad := range map[string]Value{
		"another digest": {digestOf("one"), "arguments", "two"}, "no kind": {digestOf("x"), "", "x"}, "no UTF-8": {digestOf("\xff"), "arguments", "\xff"},
	} {
		if err := v.Keep(t.Context(), bad); err == nil {
			t.Errorf("%s was kept", name)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := v.Keep(ended, value("late")); !errors.Is(err, context.Canceled) {
		t.Errorf("kept after the end: %v", err)
	}
	_ = v.Close()
	if err := v.Keep(t.Context(), value("closed")); err == nil {
		t.Error("kept in a closed file")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(text, `{"digest":"`...), 0o600); err != nil {
		t.Fatal(err)
	}
	v = open()
	keep(v, "one\n", "three")
	_ = v.Close()
	if got := strings.Join(read(), "|"); got != "one\n|two|three" {
		t.Errorf("kept %q", got)
	}
	if n, err := Erase(path, []string{digestOf("two"), digestOf("nothing")}); n != 1 || err != nil {
		t.Errorf("erased %d, %v", n, err)
	}
	if got := strings.Join(read(), "|"); got != "one\n|three" {
		t.Errorf("kept %q", got)
	}
	if _, err := Erase(path+".none", nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("erased from no file: %v", err)
	}
	if text, err := os.ReadFile(path); err != nil || bytes.Contains(text, []byte("two")) {
		t.Errorf("erased, and still there: %s, %v", text, err)
	}
	keep(open(), "two") // whoever sees it again keeps it again
	if runtime.GOOS != "windows" {
		open := path + ".open"
		if err := os.WriteFile(open, text, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenValues(open); err == nil || !strings.Contains(err.Error(), "others may read it") {
			t.Errorf("a file that others may read: %v", err)
		}
	}
	if err := os.WriteFile(path+".bad", bytes.Replace(text, []byte(`"two"`), []byte(`"too"`), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenValues(path + ".bad"); err == nil {
		t.Error("a value with another digest was read")
	}
}

// TestValuesOfLongAgo: what is no longer remembered is stored once more, read as what it
// is, and erased wherever it stands.
func TestValuesOfLongAgo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "values")
	v, err := OpenValues(path)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	v.have.Resize(2)
	for _, text := range []string{"one", "two", "one", "three", "one", "two", "four", "five", "one"} {
		if err := v.Keep(t.Context(), Value{digestOf(text), "arguments", text}); err != nil {
			t.Fatal(err)
		}
	}
	if n := v.have.Len(); n != 2 {
		t.Errorf("%d digests are remembered, want 2", n)
	}
	_ = v.Close()
	read := func() (texts []string) {
		t.Helper()
		if err := ReadValues(path, func(v Value) error { texts = append(texts, v.Text); return nil }); err != nil {
			t.Fatal(err)
		}
		return texts
	}
	if got := strings.Join(read(), " "); got != "one two three two four five one" {
		t.Errorf("kept %s", got)
	}
	if n, err := Erase(path, []string{digestOf("one"), digestOf("four")}); n != 2 || err != nil {
		t.Errorf("erased %d values, %v, want 2", n, err)
	}
	if got := strings.Join(read(), " "); got != "two three two five" {
		t.Errorf("kept %s", got)
	}
}

// TestValuesAfterFailedWrite: what got through of a value that could not be written is
// no value, and the next one is.
func TestValuesAfterFailedWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "values")
	v, err := OpenValues(path)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	one := Value{digestOf("one"), "view", "one"}
	good := v.f
	if v.f, err = os.Open(path); err != nil { // cannot be written
		t.Fatal(err)
	}
	if err := v.Keep(t.Context(), one); err == nil {
		t.Fatal("kept in a file that cannot be written")
	}
	if _, err := good.WriteString(`{"dig`); err != nil {
		t.Fatal(err)
	}
	_ = v.f.Close()
	v.f = good
	if err := v.Keep(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	n := 0
	if err := ReadValues(path, func(got Value) error { n++; return nil }); n != 1 || err != nil {
		t.Errorf("%d values, %v", n, err)
	}
}

// Whatever the bytes of a file of checkpoints: what is read are notes one after the other
// with nothing between them but blank lines, and each says what it is read as.
func FuzzCheckpoints(f *testing.F) {
	key := aKey(f, "log")
	at, _ := wall()
	var notes []string
	for i, c := range []Checkpoint{{Root: emptyRoot}, {Size: 3, Time: at}, {Size: 9}} {
		c.Number = int64(i + 1)
		signed, err := key.Sign(c)
		if err != nil {
			f.Fatal(err)
		}
		notes = append(notes, signed.Note)
	}
	whole := strings.Join(notes, "\n")
	for _, seed := range []string{"", whole, whole[:len(whole)-3], notes[0] + notes[1], "\n" + notes[0], strings.ReplaceAll(whole, "3", "03")} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		cs, rest, err := parseCheckpoints(text)
		var back []string
		for _, c := range cs {
			back = append(back, c.Note)
			if !strings.HasPrefix(c.Note, c.text()+"\n— "+c.Origin+" ") {
				t.Errorf("%q is read as %+v", c.Note, c.Checkpoint)
			}
		}
		joined := strings.Join(back, "\n")
		if err == nil && joined+string(rest) != string(text) || !bytes.HasPrefix(text, []byte(joined)) {
			t.Errorf("%q is read as %q and %q", text, back, rest)
		}
	})
}

// Whatever the bytes of a proof: if it is verified, its entries are those of the log.
func FuzzProof(f *testing.F) {
	dir := f.TempDir()
	path, key := filepath.Join(dir, "log"), aKey(f, "log")
	l, err := signedFile(f, path, key, 3, nil)
	if err != nil {
		f.Fatal(err)
	}
	for range 7 {
		if _, err := l.Append(f.Context(), api.AuditEntry{Event: "e", Permit: "p"}); err != nil {
			f.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		f.Fatal(err)
	}
	entries, err := ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	one, err := ProveEntries(path, path+".checkpoints", "5")
	if err != nil {
		f.Fatal(err)
	}
	both, err := ProveConsistency(path, path+".checkpoints", 1, 2)
	if err != nil {
		f.Fatal(err)
	}
	for _, p := range []ProofFile{one, both} {
		f.Add(marshal(f, p))
	}
	f.Add([]byte(`{"type":"countersign/audit-inclusion/v1"}`))
	known := signednote.VerifierList(key.verifier)
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := ParseProof(text)
		if err != nil {
			return
		}
		proved, err := p.Check(known)
		if err != nil {
			if !errors.Is(err, ErrNotProved) {
				t.Errorf("%v is no %v", err, ErrNotProved)
			}
			return
		}
		for _, e := range proved.Entries {
			got, err := Encode(e)
			if err != nil || e.Seq < 1 || e.Seq > int64(len(entries)) {
				t.Fatalf("proved %+v, %v", e, err)
			}
			if want, err := Encode(entries[e.Seq-1]); err != nil || !bytes.Equal(got, want) {
				t.Errorf("proved %s, want %s", got, want)
			}
		}
	})
}

// Whatever the bytes of a file of values: each value that is read has its digest, and
// written again is one line that is read as the same.
func FuzzValues(f *testing.F) {
	for _, text := range []string{"", "one", "\u2028\x00\n", `{"a":1}`} {
		line, err := encodeValue(Value{digestOf(text), "arguments", text})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(append(line, '\n'))
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		whole, _ := scanValues(bytes.NewReader(text), "values", func(v Value) error {
			line, err := encodeValue(v)
			if err != nil || bytes.ContainsAny(line, "\r\n") {
				t.Fatalf("%+v is written as %q, %v", v, line, err)
			}
			if again, err := decodeValue(line); err != nil || again != v || digestOf(v.Text) != v.Digest {
				t.Errorf("%+v is read as %+v, %v", v, again, err)
			}
			return nil
		})
		if whole < 0 || whole > int64(len(text)) || whole > 0 && text[whole-1] != '\n' {
			t.Errorf("%d of %d bytes are whole lines", whole, len(text))
		}
	})
}

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func marshal(t testing.TB, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
