package audit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	signednote "golang.org/x/mod/sumdb/note"
	"pgregory.net/rapid"

	"countersign/audit"
	"countersign/gateway/api"
)

func newKey(t rapid.TB, origin string) (audit.Key, signednote.Verifier) {
	t.Helper()
	k, err := audit.NewKey(origin)
	if err != nil {
		t.Fatal(err)
	}
	v, err := signednote.NewVerifier(k.Public())
	if err != nil {
		t.Fatal(err)
	}
	return k, v
}

// A signedLog is what the files of a log hold.
type signedLog struct {
	lines [][]byte // each with its line feed
	notes []string
	sizes []int // entries under each note
}

// signed makes a log that is signed after each of the given numbers of further entries, and
// has some behind the last checkpoint. The first checkpoint is of no entries.
func signed(t rapid.TB, dir, name string, key audit.Key, steps []int, behind int) signedLog {
	t.Helper()
	path := filepath.Join(dir, name)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	l, err := audit.OpenFile(path)
	must(err)
	at := start
	must(l.SignWith(audit.Signing{Path: path + ".checkpoints", Key: key, Every: 1 << 40, Now: func() (time.Time, error) { at = at.Add(time.Minute); return at, nil }}))
	n, out := 0, signedLog{sizes: []int{0}}
	add := func(more int) {
		for range more {
			e := entry(n)
			e.RequestID = fmt.Sprint(name, n)
			_, err := l.Append(context.Background(), e)
			must(err)
			n++
		}
	}
	for _, more := range steps {
		add(more)
		must(l.Checkpoint())
		out.sizes = append(out.sizes, n)
	}
	add(behind)
	text, err := os.ReadFile(path)
	must(err)
	out.lines = slices.Collect(bytes.Lines(text))
	cs, rest, err := audit.ReadCheckpoints(path + ".checkpoints")
	must(err)
	if len(rest) > 0 || len(cs) != len(out.sizes) {
		t.Fatalf("%d checkpoints and %q, want %d", len(cs), rest, len(out.sizes))
	}
	for _, c := range cs {
		out.notes = append(out.notes, c.Note)
	}
	must(l.Close())
	return out
}

// verify writes the files and verifies them.
func (s signedLog) verify(t rapid.TB, dir string, known ...signednote.Verifier) audit.Report {
	t.Helper()
	path := filepath.Join(dir, "held")
	err := errors.Join(os.WriteFile(path, bytes.Join(s.lines, nil), 0o600),
		os.WriteFile(path+".checkpoints", []byte(strings.Join(s.notes, "\n")), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	r, err := audit.Verify(path, path+".checkpoints", signednote.VerifierList(known...))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// renumber gives lines the numbers that their places ask for, as a forger would.
func renumber(t rapid.TB, lines [][]byte) [][]byte {
	t.Helper()
	var out [][]byte
	for i, line := range lines {
		e, err := audit.Decode(bytes.TrimSuffix(line, []byte("\n")))
		if err != nil {
			t.Fatal(err)
		}
		e.Seq = int64(i + 1)
		text, err := audit.Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, append(text, '\n'))
	}
	return out
}

func flip(t *rapid.T, b []byte) []byte {
	b = bytes.Clone(b)
	b[rapid.IntRange(0, len(b)-1).Draw(t, "at")] ^= byte(rapid.IntRange(1, 255).Draw(t, "by"))
	return b
}

// TestEveryAlterationIsDetected: whatever single thing is done to a log that checkpoints
// cover, or to checkpoints before the last, Verify finds it. Behind the last checkpoint
// it finds what is no entry or has another number; that entries were added to or are
// missing from the end there, and that the last checkpoint is missing, nobody can find,
// and then the report says that no more, or less, is covered.
func TestEveryAlterationIsDetected(t *testing.T) {
	dir := t.TempDir()
	key, known := newKey(t, "gateway.example/log")
	other, otherKnown := newKey(t, "gateway.example/other")
	namesake, _ := newKey(t, "gateway.example/log")
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		at := filepath.Join(dir, fmt.Sprint(runs))
		if err := os.Mkdir(at, 0o700); err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(at)
		steps := rapid.SliceOfN(rapid.IntRange(1, 4), 2, 4).Draw(t, "steps")
		behind := rapid.IntRange(0, 3).Draw(t, "behind")
		whole := signed(t, at, "log", key, steps, behind)
		n, last := len(whole.lines), len(whole.notes)-1
		covered := whole.sizes[last]
		if r := whole.verify(t, at, known); !r.OK() || r.Covered != int64(covered) || r.Entries != int64(n) || r.Checkpoints != int64(last+1) || r.Origin != key.Origin() {
			t.Fatalf("as it is: %+v", r)
		}
		got := signedLog{lines: slices.Clone(whole.lines), notes: slices.Clone(whole.notes)}
		under := func(what string) int { return rapid.IntRange(0, covered-1).Draw(t, what) } // an entry that is covered
		early := func(what string) int { return rapid.IntRange(0, last-1).Draw(t, what) }    // a checkpoint before the last
		what := rapid.SampledFrom([]string{
			"a byte", "a member", "drop", "drop and renumber", "swap", "swap and renumber", "duplicate", "duplicate and renumber",
			"truncate", "truncate within a line", "behind: a number", "behind: no entry", "behind: drop within", "behind: drop the last",
			"a byte of a checkpoint", "drop a checkpoint", "drop the last checkpoint", "swap checkpoints", "duplicate a checkpoint",
			"a checkpoint of another log", "a checkpoint by another key of that name", "a checkpoint of another history", "the log of another key", "unsigned",
		}).Draw(t, "what")
		keys, unfound := []signednote.Verifier{known}, int64(-1)
		switch what {
		case "a byte":
			i := under("entry")
			got.lines[i] = flip(t, got.lines[i])
		case "a member":
			i := under("entry")
			got.lines[i] = bytes.Replace(got.lines[i], []byte(`"principal":"agent-1"`), []byte(`"principal":"agent-2"`), 1)
		case "drop":
			i := under("entry")
			got.lines = slices.Delete(got.lines, i, i+1)
		case "drop and renumber":
			i := under("entry")
			got.lines = renumber(t, slices.Delete(got.lines, i, i+1))
		case "swap", "swap and renumber":
			i, j := under("one"), rapid.IntRange(0, n-1).Draw(t, "other")
			if i == j {
				t.Skip()
			}
			got.lines[i], got.lines[j] = got.lines[j], got.lines[i]
			if what != "swap" {
				got.lines = renumber(t, got.lines)
			}
		case "duplicate":
			i := rapid.IntRange(0, n-1).Draw(t, "entry")
			got.lines = slices.Insert(got.lines, rapid.IntRange(0, n).Draw(t, "place"), got.lines[i])
		case "duplicate and renumber":
			i := rapid.IntRange(0, n-1).Draw(t, "entry")
			got.lines = renumber(t, slices.Insert(got.lines, under("place"), got.lines[i]))
			if slices.EqualFunc(got.lines[:covered], whole.lines[:covered], bytes.Equal) {
				unfound = int64(covered) // of the last one that is covered, put before it: one more entry behind
			}
		case "truncate":
			got.lines = got.lines[:under("entries")]
		case "truncate within a line":
			i := under("entry")
			got.lines = append(got.lines[:i:i], got.lines[i][:rapid.IntRange(0, len(got.lines[i])-1).Draw(t, "bytes")])
		case "behind: a number", "behind: no entry", "behind: drop within", "behind: drop the last":
			if behind < 2 {
				t.Skip()
			}
			i := rapid.IntRange(covered, n-2).Draw(t, "entry")
			switch what {
			case "behind: a number":
				got.lines[i] = bytes.Replace(got.lines[i], fmt.Appendf(nil, `{"seq":%d,`, i+1), fmt.Appendf(nil, `{"seq":%d,`, i+2), 1)
			case "behind: no entry":
				got.lines[i] = bytes.Replace(got.lines[i], []byte(`"event"`), []byte(`"events"`), 1)
			case "behind: drop within":
				got.lines = slices.Delete(got.lines, i, i+1)
			default:
				got.lines, unfound = got.lines[:i], int64(covered)
			}
		case "a byte of a checkpoint":
			i := early("checkpoint")
			got.notes[i] = string(flip(t, []byte(got.notes[i])))
		case "drop a checkpoint":
			i := early("checkpoint")
			got.notes = slices.Delete(got.notes, i, i+1)
		case "drop the last checkpoint":
			got.notes, unfound = got.notes[:last], int64(whole.sizes[last-1])
		case "swap checkpoints":
			i := early("one")
			j := rapid.IntRange(i+1, last).Draw(t, "other")
			got.notes[i], got.notes[j] = got.notes[j], got.notes[i]
		case "duplicate a checkpoint":
			i := rapid.IntRange(0, last).Draw(t, "checkpoint")
			got.notes = slices.Insert(got.notes, rapid.IntRange(0, last+1).Draw(t, "place"), got.notes[i])
		case "a checkpoint of another log", "a checkpoint by another key of that name", "a checkpoint of another history":
			by := map[string]audit.Key{"a checkpoint of another log": other, "a checkpoint by another key of that name": namesake, "a checkpoint of another history": key}[what]
			keys = append(keys, otherKnown)
			i := rapid.IntRange(1, last).Draw(t, "checkpoint")
			got.notes[i] = signed(t, at, "another", by, steps, behind).notes[i]
		case "the log of another key":
			got = signed(t, at, "another", namesake, steps, behind)
		case "unsigned":
			keys = []signednote.Verifier{otherKnown}
		}
		r := got.verify(t, at, keys...)
		switch {
		case unfound >= 0:
			if !r.OK() || r.Covered != unfound {
				t.Errorf("%s: %+v, want no more than %d covered", what, r, unfound)
			}
		case len(r.Tampering) == 0:
			t.Errorf("%s: nothing was found: %+v", what, r)
		}
	})
}

// TestWhereItWasAltered: the report names the entries and the checkpoints between which
// an alteration is.
func TestWhereItWasAltered(t *testing.T) {
	key, known := newKey(t, "log")
	whole := signed(t, t.TempDir(), "log", key, []int{2, 3, 2}, 1)
	at := func(change func(*signedLog)) string {
		t.Helper()
		s := signedLog{lines: slices.Clone(whole.lines), notes: slices.Clone(whole.notes)}
		change(&s)
		r := s.verify(t, t.TempDir(), known)
		if len(r.Tampering) == 0 {
			t.Fatalf("nothing was found: %+v", r)
		}
		return r.Tampering[0].String()
	}
	for want, change := range map[string]func(*signedLog){
		"altered, replaced or put in another order, entries 3 to 5, between checkpoints 2 and 3": func(s *signedLog) {
			s.lines[3] = bytes.Replace(s.lines[3], []byte("agent-1"), []byte("agent-2"), 1)
		},
		"missing, entry 5, between checkpoints 2 and 3":                              func(s *signedLog) { s.lines = s.lines[:4] },
		"line 4 holds entry 5, entry 4, between checkpoints 2 and 3":                 func(s *signedLog) { s.lines = slices.Delete(s.lines, 3, 4) },
		"checkpoint 3 stands where checkpoint 2 should, between checkpoints 1 and 3": func(s *signedLog) { s.notes = slices.Delete(s.notes, 1, 2) },
	} {
		if got := at(change); got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
	}
}

// TestVerifyCannotTell: without checkpoints, and without keys, nothing is verified, and
// the report says why; a log of nobody is no error of anybody.
func TestVerifyCannotTell(t *testing.T) {
	dir := t.TempDir()
	key, known := newKey(t, "log")
	signed(t, dir, "log", key, []int{2}, 0)
	path := filepath.Join(dir, "log")
	for name, found := range map[string]func() (audit.Report, error){
		"no checkpoints": func() (audit.Report, error) {
			return audit.Verify(path, path+".none", signednote.VerifierList(known))
		},
		"no key": func() (audit.Report, error) { return audit.Verify(path, path+".checkpoints", nil) },
	} {
		if r, err := found(); err != nil || r.OK() || len(r.Unknown) != 1 || len(r.Tampering) != 0 {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	if _, err := audit.Verify(path+".none", path, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no log: %v", err)
	}
}

// TestProofFiles: a proof is verified from itself and the key alone, and any change to it
// either leaves what it proves or is noticed.
func TestProofFiles(t *testing.T) {
	dir := t.TempDir()
	key, known := newKey(t, "log")
	_, stranger := newKey(t, "log")
	whole := signed(t, dir, "log", key, []int{2, 3, 2}, 1)
	log := filepath.Join(dir, "log")
	if err := os.WriteFile(log+".upto", []byte(strings.Join(whole.notes, "\n")), 0o600); err != nil { // closing signed the last entry
		t.Fatal(err)
	}
	entries, err := audit.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	list := signednote.VerifierList(known)
	proof := func(p audit.ProofFile, err error) audit.ProofFile {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if p, err = audit.ParseProof(text); err != nil {
			t.Fatal(err)
		}
		return p
	}
	for id, want := range map[string][]int64{"3": {3}, "susp-4": {5}, "8f2a6f0d": {1, 2, 3, 4, 5, 6, 7, 8}} {
		p := proof(audit.ProveEntries(log, log+".checkpoints", id))
		proved, err := p.Check(list)
		var got []int64
		for _, e := range proved.Entries {
			got = append(got, e.Seq)
			if a, b := mustEncode(t, e), mustEncode(t, entries[e.Seq-1]); !bytes.Equal(a, b) {
				t.Errorf("%s: proved %s, want %s", id, a, b)
			}
		}
		if err != nil || !slices.Equal(got, want) || proved.Checkpoint.Size != 8 {
			t.Errorf("%s: proved %v of %d, %v, want %v", id, got, proved.Checkpoint.Size, err, want)
		}
		if _, err := p.Check(signednote.VerifierList(stranger)); !errors.Is(err, audit.ErrNotProved) || !errors.Is(err, audit.ErrUnsigned) {
			t.Errorf("%s by another key of that name: %v", id, err)
		}
		altered := p
		altered.Entries = slices.Clone(p.Entries)
		altered.Entries[0].Line = strings.Replace(altered.Entries[0].Line, "agent-1", "agent-2", 1)
		if _, err := altered.Check(list); !errors.Is(err, audit.ErrNotProved) {
			t.Errorf("%s altered: %v", id, err)
		}
	}
	if _, err := audit.ProveEntries(log, log+".upto", "8"); !errors.Is(err, audit.ErrNotCovered) {
		t.Errorf("behind the last checkpoint: %v", err)
	}
	if _, err := audit.ProveEntries(log, log+".checkpoints", "9"); err == nil {
		t.Error("an entry was proved that there is not")
	}
	for older := range 5 {
		for newer := range 6 {
			p, err := audit.ProveConsistency(log, log+".checkpoints", int64(older), int64(newer))
			if valid := 1 <= older && older <= newer && newer <= 5; valid != (err == nil) {
				t.Fatalf("from %d to %d: %v", older, newer, err)
			} else if !valid {
				continue
			}
			p = proof(p, err)
			proved, err := p.Check(list)
			if err != nil || proved.Older == nil || proved.Older.Number != int64(older) || proved.Checkpoint.Number != int64(newer) {
				t.Errorf("from %d to %d: %+v, %v", older, newer, proved, err)
			}
			fork := signed(t, t.TempDir(), "fork", key, []int{2, 3, 2, 1}, 0)
			if p.Older = fork.notes[older-1]; older > 1 {
				if _, err := p.Check(list); !errors.Is(err, audit.ErrNotProved) {
					t.Errorf("from %d of another history to %d: %v", older, newer, err)
				}
			}
		}
	}
}

func mustEncode(t testing.TB, e api.AuditEntry) []byte {
	t.Helper()
	line, err := audit.Encode(e)
	if err != nil {
		t.Fatal(err)
	}
	return line
}
