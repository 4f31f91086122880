package results

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const packedRecordsFile = recordsFile + deltaEnding

// What a delta says of JSON lines is what they say, whatever their shape.
func TestLinesDelta(t *testing.T) {
	lines := []string{
		`{"a":1,"b":[{"x":1,"y":2},{"x":3,"y":4}],"c":"d"}`,
		`{"a":1,"b":[{"x":1,"y":2},{"x":3,"y":5}],"c":"d"}`,
		`{"a":1,"b":[{"x":1,"y":2}],"c":"d"}`,
		`{"a":1,"b":[],"c":"d"}`,
		`{"a":1,"b":[{}],"c":"d"}`,
		`{"a":1,"b":[{"z":9}],"c":{"":1}}`,
		`{"a":1,"b":[{"z":9}],"c":{"":2}}`,
		`{"":{"a":1}}`,
		`{"":{"a":1}}`,
		`{}`,
		`{}`,
		`null`,
		`{"a":null}`,
		`[{"a":1},{"a":2}]`,
		`[{"a":1},{"b":2}]`,
		`[{"a":1},2]`,
		`[{"a":1},{"b":2}]`,
		`"text"`,
	}
	want := strings.Join(lines, "\n") + "\n"
	var delta bytes.Buffer
	if err := linesDelta(&delta, completeLines(strings.NewReader(want))); err != nil {
		t.Fatal(err)
	}
	if first, _, _ := strings.Cut(delta.String(), "}\n"); !strings.Contains(delta.String(), `{"b":[{},{"y":5}]}`) {
		t.Errorf("what is the same is written again: %s", first)
	}
	var got []byte
	for line, err := range readLinesDelta(&delta) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, line...)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
	for text, want := range map[string]string{
		`{"a":1}`: "no object before", `{"":{"a":1}}` + "\n" + `{"b":1}`: `"b" is not there`, "{": "EOF", `1 2`: "more than one value",
	} {
		var err error
		for _, e := range readLinesDelta(strings.NewReader(text + "\n")) {
			err = e
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func FuzzLinesDelta(f *testing.F) {
	f.Add([]byte(`{"a":1,"b":[{"x":1}]}`), []byte(`{"a":1,"b":[{"x":2}]}`))
	f.Add([]byte(`{"":1}`), []byte(`[{"a":1},{}]`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		var one, other bytes.Buffer
		for _, line := range [][]byte{a, b} {
			n, err := parseLine(line)
			if err != nil {
				return
			}
			n.write(&one)
			one.WriteByte('\n')
		}
		var delta bytes.Buffer
		if err := linesDelta(&delta, completeLines(bytes.NewReader(one.Bytes()))); err != nil {
			t.Fatal(err)
		}
		for line, err := range readLinesDelta(&delta) {
			if err != nil {
				t.Fatal(err)
			}
			other.Write(line)
		}
		if one.String() != other.String() {
			t.Fatalf("%s became %s", one.String(), other.String())
		}
	})
}

// What a delta says of records is what they say.
func TestDeltaRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		records := rapid.SliceOf(anyRecord()).Draw(t, "records")
		for i := range records {
			if rapid.Bool().Draw(t, "usual pair") {
				records[i].Pair = usualPair(records[i])
			}
			if i > 0 && rapid.Bool().Draw(t, "as before") {
				records[i] = records[i-1]
				if records[i].Detail = ""; records[i].Observed == Error {
					records[i].Observed = Held // a detail that goes away
				}
			}
		}
		var want, delta bytes.Buffer
		for _, r := range records {
			line, err := r.encode()
			if err != nil {
				t.Fatal(err)
			}
			want.Write(line)
		}
		if err := linesDelta(&delta, packedRecords(Sequence(records))); err != nil {
			t.Fatal(err)
		}
		var got []byte
		all, err := collect(unpackedRecords(readLinesDelta(&delta)))
		for _, r := range all {
			line, bad := r.encode()
			err = errors.Join(err, bad)
			got = append(got, line...)
		}
		if diff := cmp.Diff(want.String(), string(got)); err != nil || diff != "" {
			t.Fatalf("%v\n%s", err, diff)
		}
	})
}

func FuzzReadDelta(f *testing.F) {
	f.Add([]byte(`{"":` + line + "}\n" + `{"target":"M0","effects":0}` + "\n{}\n"))
	f.Add([]byte(`{"schema":1}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		records, err := collect(unpackedRecords(readLinesDelta(bytes.NewReader(data))))
		if err != nil {
			return
		}
		var delta bytes.Buffer
		if err := linesDelta(&delta, packedRecords(Sequence(records))); err != nil {
			t.Fatal(err)
		}
		again, err := collect(unpackedRecords(readLinesDelta(&delta)))
		if err != nil || len(again) != len(records) {
			t.Fatalf("%d records became %d, %v", len(records), len(again), err)
		}
		for i, r := range again {
			if cmp.Diff(r, records[i]) != "" {
				// An encoded record has no null list and no broken text.
				a, _ := r.encode()
				b, _ := records[i].encode()
				if !bytes.Equal(a, b) {
					t.Fatalf("%s became %s", b, a)
				}
			}
		}
	})
}

func packedRun(t *testing.T) (whole, packed string) {
	t.Helper()
	dir := t.TempDir()
	whole, packed = filepath.Join(dir, "run"), filepath.Join(dir, "packed")
	write(t, whole, attack("M0", "amount", "mail", PredictExecuted, Executed), attack("M9", "amount", "mail", PredictBlocked, Refused))
	if err := Pack(whole, packed); err != nil {
		t.Fatal(err)
	}
	return whole, packed
}

// A packed run is the run, to every reader.
func TestPack(t *testing.T) {
	whole, packed := packedRun(t)
	a, err := Open(whole)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Open(packed)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]any{a.Manifest, a.Catalogue}, []any{b.Manifest, b.Catalogue}); diff != "" {
		t.Error(diff)
	}
	want, err := collect(a.Records())
	if err != nil {
		t.Fatal(err)
	}
	got, err := collect(b.Records())
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	for _, name := range []string{"events/1.json", LatencyFile, catalogueFile, recordsFile} {
		one, err1 := a.ReadFile(name)
		other, err2 := b.ReadFile(name)
		if err := errors.Join(err1, err2); err != nil || !bytes.Equal(one, other) {
			t.Errorf("%s: %q and %q, %v", name, one, other, err)
		}
	}
	var one, other bytes.Buffer
	if err := errors.Join(a.WriteRecords(&one), b.WriteRecords(&other)); err != nil || one.Len() == 0 || one.String() != other.String() {
		t.Errorf("records %q and %q, %v", one.String(), other.String(), err)
	}
	if _, err := b.ReadFile("ablation.json"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	// Again over what is there, and from what is packed.
	before, _ := os.ReadFile(filepath.Join(packed, packedRecordsFile))
	for _, from := range []string{whole, packed} {
		if err := Pack(from, packed); err != nil {
			t.Fatal(err)
		}
		if after, _ := os.ReadFile(filepath.Join(packed, packedRecordsFile)); !bytes.Equal(before, after) {
			t.Errorf("packing %s again gives other bytes", from)
		}
	}
	if entries, _ := os.ReadDir(filepath.Dir(packed)); len(entries) != 2 {
		t.Errorf("left beside the folder: %v", entries)
	}
}

func TestOpenRefusesPacked(t *testing.T) {
	put := func(dir, name string, text string) error {
		data, err := Compress([]byte(text))
		return errors.Join(err, os.WriteFile(filepath.Join(dir, name), data, 0o644))
	}
	for name, c := range map[string]struct {
		change func(dir string) error
		want   string
	}{
		"another record":  {func(d string) error { return put(d, packedRecordsFile, `{"":`+line+"}\n") }, "records.jsonl was changed"},
		"no record":       {func(d string) error { return put(d, packedRecordsFile, `{"":{}}`+"\n") }, "line 1"},
		"cut off":         {func(d string) error { return os.Truncate(filepath.Join(d, packedRecordsFile), 40) }, "unexpected EOF"},
		"not compressed":  {func(d string) error { return os.WriteFile(filepath.Join(d, packedRecordsFile), []byte(line), 0o644) }, "gzip"},
		"another text":    {func(d string) error { return put(d, "events/1.json.gz", "[]") }, "events/1.json was changed"},
		"there twice":     {func(d string) error { return os.WriteFile(filepath.Join(d, "events", "1.json"), nil, 0o644) }, "there twice"},
		"missing":         {func(d string) error { return os.Remove(filepath.Join(d, packedRecordsFile)) }, "records.jsonl is missing"},
		"added":           {func(d string) error { return put(d, "x.gz", "x") }, "x is not part of the run"},
		"changed digests": {func(d string) error { return os.WriteFile(filepath.Join(d, SumsFile), nil, 0o644) }, "does not list manifest.json"},
	} {
		_, dir := packedRun(t)
		if err := c.change(dir); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}

// What is no run is not packed, and what was there stays.
func TestPackRefuses(t *testing.T) {
	whole, packed := packedRun(t)
	if err := os.WriteFile(filepath.Join(whole, recordsFile), []byte(line+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Pack(whole, packed); err == nil || !strings.Contains(err.Error(), "records.jsonl was changed") {
		t.Errorf("packing a run that was changed: %v", err)
	}
	if _, err := Open(packed); err != nil {
		t.Errorf("the folder before: %v", err)
	}
}
