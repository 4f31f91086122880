package results

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadRegular: what is no file, may never end or is too large is an error in a
// line, and is not read.
func TestReadRegular(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "large")
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, maxFile+1); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		dir: "not a regular file", os.DevNull: "not a regular file", large: "larger than 64 MiB", filepath.Join(dir, "none"): "no such file",
	} {
		if data, err := ReadRegular(path); err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), path) != 1 {
			t.Errorf("%s: %d bytes, %v, want an error with %q", path, len(data), err, want)
		}
	}
	if err := os.Truncate(large, 3); err != nil {
		t.Fatal(err)
	}
	if data, err := ReadRegular(large); err != nil || len(data) != 3 {
		t.Errorf("%d bytes, %v", len(data), err)
	}
}

// TestCompressedFiles: a compressed file gives the text that was compressed, and what only
// has the name of one, or holds more than a file may, is an error.
func TestCompressedFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	small, err := Compress([]byte("text"))
	if err != nil {
		t.Fatal(err)
	}
	large, err := Compress(make([]byte, maxFile+1))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{write("plain", []byte("text")), write("small.gz", small)} {
		if data, err := readText(path); err != nil || string(data) != "text" {
			t.Errorf("%s: %q, %v", path, data, err)
		}
	}
	for path, want := range map[string]string{
		write("plain.gz", []byte("text")): "reading ", write("cut.gz", small[:len(small)-1]): "unexpected EOF",
		write("large.gz", large): "larger than 64 MiB", filepath.Join(dir, "none.gz"): "no such file",
	} {
		if data, err := readText(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %d bytes, %v, want an error with %q", path, len(data), err, want)
		}
	}
}

// TestCountsHaveAPlace: counts that no trial has would overflow sums.
func TestCountsHaveAPlace(t *testing.T) {
	for _, n := range []int{-1, maxCount + 1, math.MaxInt} {
		for name, set := range map[string]func(*Record){
			"effects": func(r *Record) { r.Effects = n }, "expected_effects": func(r *Record) { r.ExpectedEffects = n }, "prompts": func(r *Record) { r.Prompts = n },
		} {
			r := Record{Schema: Schema, Target: "T", Attack: "AB1", Variant: "v", Kind: Attack, Scenario: "mail", Approver: "faithful", Pair: "p",
				Predicted: PredictBlocked, Observed: Refused}
			if err := r.Validate(); err != nil {
				t.Fatal(err)
			}
			if set(&r); r.Validate() == nil {
				t.Errorf("%s is %d: no error", name, n)
			}
		}
	}
}

// TestBaselinesShowWhatTheyHold: a name that would turn or hide text when the file
// is printed or reviewed is written with escapes, and means the same.
func TestBaselinesShowWhatTheyHold(t *testing.T) {
	const name = "M9\u202eabc\U000e0041"
	b := &Baseline{Schema: BaselineSchema, Scenarios: []string{"mail\u202e"}, Seeds: []uint64{1}, Approvers: []string{"faithful"},
		Entries: []BaselineEntry{{Target: name, Attack: "AB1", Variant: "v", Kind: Attack, Observed: map[Observation]int{Refused: 1}, RefusedBy: []string{}}}}
	data, err := b.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if strings.ContainsFunc(string(data), func(r rune) bool { return r != '\n' && Unseen(r) }) || !json.Valid(data) {
		t.Errorf("it holds what cannot be seen, or is no JSON: %+q", data)
	}
	again, err := ParseBaseline(data)
	if err != nil || again.Entries[0].Target != name || again.Scenarios[0] != "mail\u202e" {
		t.Errorf("it reads back as %+v, %v", again, err)
	}
}
