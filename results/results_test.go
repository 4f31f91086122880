package results

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func attack(target, variant, scenario string, p Prediction, o Observation) Record {
	r := Record{
		Schema: Schema, Target: target, Attack: "AB1", Variant: variant, Kind: Attack,
		Scenario: scenario, Approver: "faithful", Seed: 1, Pair: "AB1/" + variant + "/" + scenario,
		Predicted: p, Observed: o, ExpectedEffects: 1,
	}
	switch o {
	case Executed:
		r.Effects, r.Reasons = 1, []string{"content"}
	case Refused:
		r.RefusedBy, r.RefusedCodes = []string{"args"}, []string{"args/digest"}
	case Error:
		r.Detail = "dialling: refused"
	}
	return r
}

func twin(target, variant, scenario string, o Observation) Record {
	r := attack(target, variant, scenario, PredictCompleted, o)
	r.Kind, r.Twin = Twin, true
	return r
}

func catalogue() Catalogue {
	c := Catalogue{
		Targets: []TargetInfo{{ID: "M0", Name: "none"}, {ID: "M7", Name: "hash"}, {ID: "M9", Name: "bound"}},
		Attacks: []AttackInfo{{ID: "AB1", Title: "argument substitution", MainBinding: "args"}},
	}
	for _, v := range []string{"amount", "currency", "payload"} {
		c.Attacks[0].Variants = append(c.Attacks[0].Variants,
			VariantInfo{Name: v, Condition: "args & (record | signed)", Kind: Attack})
	}
	c.Attacks[0].Variants = append(c.Attacks[0].Variants, VariantInfo{Name: "order", Kind: Twin}, VariantInfo{Name: "space", Kind: Twin})
	for _, s := range []string{"mail", "payments"} {
		c.Scenarios = append(c.Scenarios, ScenarioInfo{ID: s})
	}
	return c
}

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func manifest() Manifest { return NewManifest([]string{"countersign", "run"}, 7, start) }

func TestAgreement(t *testing.T) {
	for _, c := range []struct {
		r                          Record
		agrees, disagrees, certain bool
	}{
		{attack("M9", "amount", "mail", PredictExecuted, Executed), true, false, true},
		{attack("M9", "amount", "mail", PredictExecuted, Refused), false, true, true},
		{attack("M9", "amount", "mail", PredictBlocked, Executed), false, true, true},
		{attack("M9", "amount", "mail", PredictBlocked, Refused), true, false, true},
		{attack("M9", "amount", "mail", PredictBlocked, Held), true, false, true},
		{attack("M9", "amount", "mail", PredictBlocked, Reasked), true, false, true},
		{attack("M9", "amount", "mail", PredictBlocked, Absorbed), true, false, true},
		{attack("M9", "amount", "mail", PredictBlocked, Starved), false, true, true},
		{attack("M9", "amount", "mail", PredictBlocked, Error), false, false, false},
		{attack("M9", "amount", "mail", PredictBlocked, Unimplemented), false, false, true},
		{twin("M9", "order", "mail", Completed), true, false, true},
		{twin("M9", "order", "mail", Refused), false, true, true},
		{twin("M9", "order", "mail", Starved), false, true, true},
	} {
		if err := c.r.Validate(); err != nil {
			t.Fatal(err)
		}
		if c.r.Agrees() != c.agrees || c.r.Disagrees() != c.disagrees || c.r.Uncertain() == c.certain {
			t.Errorf("predicted %s, observed %s: agrees %t, disagrees %t, uncertain %t",
				c.r.Predicted, c.r.Observed, c.r.Agrees(), c.r.Disagrees(), c.r.Uncertain())
		}
	}
	race := attack("M9", "amount", "mail", PredictBlocked, Executed)
	race.Nondeterministic = true
	if race.Disagrees() {
		t.Error("an unscheduled race counts as a disagreement")
	}
}

func TestValidateNamesTheMember(t *testing.T) {
	ok := attack("M9", "amount", "mail", PredictBlocked, Refused)
	for member, change := range map[string]func(*Record){
		"schema":           func(r *Record) { r.Schema = 0 },
		"target":           func(r *Record) { r.Target = "" },
		"attack":           func(r *Record) { r.Attack = "" },
		"variant":          func(r *Record) { r.Variant = "\xff" },
		"kind":             func(r *Record) { r.Kind = "" },
		"twin":             func(r *Record) { r.Twin = true },
		"scenario":         func(r *Record) { r.Scenario = "" },
		"approver":         func(r *Record) { r.Approver = "" },
		"pair":             func(r *Record) { r.Pair = "" },
		"predicted":        func(r *Record) { r.Predicted = PredictCompleted },
		"observed":         func(r *Record) { r.Observed = "won" },
		"refused_by":       func(r *Record) { r.RefusedBy = []string{""} },
		"refused_codes":    func(r *Record) { r.RefusedCodes = []string{"args"} },
		"reasons":          func(r *Record) { r.Reasons = []string{"\xff"} },
		"expected_effects": func(r *Record) { r.ExpectedEffects = -1 },
		"effects":          func(r *Record) { r.Effects = -1 },
		"prompts":          func(r *Record) { r.Prompts = -1 },
		"detail":           func(r *Record) { r.Observed = Error },
	} {
		r := ok
		change(&r)
		if err := r.Validate(); err == nil || !strings.Contains(err.Error(), ": "+member+": ") {
			t.Errorf("%s: error %v does not name it", member, err)
		}
	}
	if err := (Record{}).Validate(); err == nil {
		t.Error("the zero record is valid")
	}
	honest := Record{Schema: Schema, Target: "M9", Kind: Honest, Scenario: "mail", Approver: "faithful", Pair: "x",
		Predicted: PredictCompleted, Observed: Completed}
	if err := honest.Validate(); err != nil {
		t.Errorf("an honest run without an attack: %v", err)
	}
}

const line = `{"schema":1,"target":"M9","attack":"AB1","variant":"amount","kind":"attack","twin":false,"scenario":"mail",` +
	`"approver":"faithful","seed":1,"pair":"AB1/amount/mail","predicted":"blocked","observed":"refused","refused_by":["args"],` +
	`"refused_codes":["args/digest"],"reasons":[],"expected_effects":1,"effects":0,"prompts":0,"nondeterministic":false}`

// A twin that made an effect too many, or one that nobody approved, is a finding
// and never counts as completed.
func TestTwinThatExecuted(t *testing.T) {
	r := twin("M9", "order", "mail", Executed)
	if err := r.Validate(); err != nil {
		t.Fatal(err)
	}
	a, err := Analyse(func(yield func(Record, error) bool) { yield(r, nil) }, catalogue(), Family{})
	if err != nil {
		t.Fatal(err)
	}
	if !r.Disagrees() || ExitCode(a) != 1 || a.Rows[0].Benign.K != 0 || a.Rows[0].Benign.N != 1 {
		t.Errorf("disagrees %t, exit code %d, benign %+v", r.Disagrees(), ExitCode(a), a.Rows[0].Benign)
	}
}

func TestRecordFormIsFixed(t *testing.T) {
	got, err := attack("M9", "amount", "mail", PredictBlocked, Refused).encode()
	if err != nil || string(got) != line+"\n" {
		t.Fatalf("got  %s\nwant %s", got, line)
	}
	for name, bad := range map[string]string{
		"unknown member":     strings.Replace(line, `"seed":1`, `"seed":1,"clock":3`, 1),
		"repeated member":    strings.Replace(line, `"seed":1`, `"seed":2,"seed":1`, 1),
		"missing member":     strings.Replace(line, `"prompts":0,`, ``, 1),
		"other letter case":  strings.Replace(line, `"seed"`, `"Seed"`, 1),
		"null list":          strings.Replace(line, `"reasons":[]`, `"reasons":null`, 1),
		"unknown outcome":    strings.Replace(line, `"refused"`, `"won"`, 1),
		"trailing text":      line + "{}",
		"white space":        " " + line,
		"empty":              "",
		"another schema":     strings.Replace(line, `"schema":1`, `"schema":2`, 1),
		"other member order": strings.Replace(line, `"schema":1,"target":"M9"`, `"target":"M9","schema":1`, 1),
	} {
		if _, err := decodeRecord([]byte(bad)); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

func anyRecord() *rapid.Generator[Record] {
	return rapid.Custom(func(t *rapid.T) Record {
		name := rapid.StringN(1, 8, -1)
		list := func(l string) []string { return rapid.SliceOfN(name, 0, 3).Draw(t, l) }
		r := attack(name.Draw(t, "target"), name.Draw(t, "variant"), name.Draw(t, "scenario"), PredictBlocked,
			rapid.SampledFrom([]Observation{Executed, Refused, Held, Reasked, Absorbed, Starved, Unimplemented, Error}).Draw(t, "observed"))
		r.Seed = rapid.Uint64().Draw(t, "seed")
		r.RefusedBy, r.Reasons = list("refused_by"), list("reasons")
		r.Detail += string(rapid.SliceOf(rapid.Byte()).Draw(t, "detail"))
		return r
	})
}

// What is written can be read, and reading is the inverse of writing, whatever
// bytes an error quotes.
func TestRecordRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRecord().Draw(t, "record")
		data, err := r.encode()
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Count(data, []byte("\n")) != 1 {
			t.Fatalf("not one line: %q", data)
		}
		back, err := decodeRecord(bytes.TrimSuffix(data, []byte("\n")))
		if err != nil {
			t.Fatal(err)
		}
		again, _ := back.encode()
		if !bytes.Equal(data, again) || back.Seed != r.Seed {
			t.Fatalf("%q became %q", data, again)
		}
	})
}

func FuzzReadRecords(f *testing.F) {
	f.Add([]byte(line + "\n"))
	f.Add([]byte(line + "\n" + strings.Replace(line, "M9", "M0", 1) + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var out []byte
		for r, err := range readRecords(bytes.NewReader(data)) {
			if err != nil {
				return
			}
			b, err := r.encode()
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, b...)
		}
		if !bytes.Equal(out, data) {
			t.Fatalf("accepted %q, which is written %q", data, out)
		}
	})
}

func FuzzParseSums(f *testing.F) {
	f.Add([]byte(strings.Repeat("a", 64) + "  records.jsonl\n" + strings.Repeat("0", 64) + "  manifest.json\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		sums, err := parseSums(data)
		if err != nil {
			return
		}
		again, err := parseSums([]byte(sums.String()))
		if err != nil || !reflect.DeepEqual(sums, again) {
			t.Fatalf("%v became %v, %v", sums, again, err)
		}
	})
}

// complete is the manifest of a run of so many records, as it is written.
func complete(tb testing.TB, n int) []byte {
	tb.Helper()
	m := manifest()
	m.Status, m.Finished, m.Records = StatusComplete, start.Add(time.Second), n
	m.Observed, m.Kinds = map[string]int{string(Refused): n}, map[string]int{string(Attack): n}
	m.Inputs = map[string]string{"scenario payments": strings.Repeat("0a", 32)}
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

func TestParseManifestRefuses(t *testing.T) {
	whole := string(complete(t, 3))
	if _, err := parseManifest([]byte(whole)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ old, new, says string }{
		"member twice":           {`"seed":`, `"seed": 1, "seed":`, "duplicate"},
		"member in another case": {`"seed":`, `"Seed":`, "Seed"},
		"counts below":           {`"records": 3`, `"records": 4`, "by_observed: the counts do not add up to 4"},
		"counts above":           {`"attack": 3`, `"attack": 4`, "by_kind"},
		"negative count":         {`"attack": 3`, `"attack": 4, "twin": -1`, "by_kind"},
		"complete without end":   {`"finished": "2026-01-02T03:04:06Z",`, ``, "finished"},
		"text behind":            {"\n}", "\n}{}", "after"},
	} {
		text := strings.Replace(whole, c.old, c.new, 1)
		if _, err := parseManifest([]byte(text)); text == whole || err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

// Whatever the bytes: a manifest that is accepted is of a complete run, counts all of
// its records, and is read again alike when it is written.
func FuzzParseManifest(f *testing.F) {
	f.Add(complete(f, 3))
	f.Add(bytes.Replace(complete(f, 3), []byte(`"seed": 7`), []byte(`"seed": 7, "seed": 8`), 1))
	f.Add([]byte(`{"schema":1,"status":"complete","started":"2026-01-02T03:04:05+01:00","finished":"2026-01-02T03:04:05Z","records":0}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := parseManifest(data)
		if err != nil {
			return
		}
		observed, kinds := 0, 0
		for _, n := range m.Observed {
			observed += n
		}
		for _, n := range m.Kinds {
			kinds += n
		}
		if m.Schema != Schema || m.Status != StatusComplete || m.Started.IsZero() || m.Finished.IsZero() || m.Records < 0 ||
			observed != m.Records || kinds != m.Records {
			t.Fatalf("accepted %+v", m)
		}
		sameWhenWritten(t, m, parseManifest)
	})
}

// Whatever the bytes: in a catalogue that is accepted every variant is found by its
// name, nothing is left out of it without a reason, and it is read again alike when it
// is written.
func FuzzParseCatalogue(f *testing.F) {
	c := catalogue()
	c.Targets[2].Bindings, c.Targets[1].Group = []string{"args", "once"}, "beside"
	c.Scenarios[0].Fields, c.Scenarios[0].Guarantee = map[string]string{"quantity": "amount"}, "lookup"
	c.Implies = map[string][]string{"once": {"seen"}}
	c.Attacks[0].Variants[0].Success, c.Attacks[0].Variants[0].Effects = []string{"content:{quantity}"}, 1
	c.NotApplicable = []Skip{{"AB1", "amount", "mail", "it has no quantity"}}
	data, err := json.Marshal(c)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	// Names with the separators of messages in them.
	f.Add([]byte(`{"targets":[{"id":"t"}],"scenarios":[{"id":"s"}],"attacks":[{"id":"a","variants":[{"name":"b/c","kind":"attack"}]},` +
		`{"id":"a/b","variants":[{"name":"d (twin)","kind":"attack"},{"name":"d","kind":"twin"}]}],"not_applicable":[{"attack":"a/b","variant":"c","scenario":"s","reason":"r"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parseCatalogue(data)
		if err != nil {
			return
		}
		named := func(attack, variant string) bool {
			_, isAttack := c.Variant(attack, variant, Attack)
			_, isTwin := c.Variant(attack, variant, Twin)
			return isAttack || isTwin
		}
		for _, a := range c.Attacks {
			for _, v := range a.Variants {
				if got, ok := c.Variant(a.ID, v.Name, v.Kind); !ok || !reflect.DeepEqual(got, v) || v.Name == "" || a.ID == "" || v.Effects < 0 {
					t.Fatalf("%s/%s (%s) is found as %+v", a.ID, v.Name, v.Kind, got)
				}
			}
		}
		for _, s := range c.NotApplicable {
			if !named(s.Attack, s.Variant) || s.Reason == "" || !slices.ContainsFunc(c.Scenarios, func(i ScenarioInfo) bool { return i.ID == s.Scenario }) {
				t.Fatalf("accepted %+v", s)
			}
		}
		pairs := 0
		for _, u := range c.unfit() {
			pairs += u.Pairs
		}
		if pairs != len(c.NotApplicable) {
			t.Fatalf("%d of %d pairs that are not tried are listed", pairs, len(c.NotApplicable))
		}
		sameWhenWritten(t, c, parseCatalogue)
	})
}

// sameWhenWritten: what was read, written and read again is written the same.
func sameWhenWritten[T any](t *testing.T, v T, parse func([]byte) (T, error)) {
	t.Helper()
	written, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("writing what was read: %v", err)
	}
	again, err := parse(written)
	if err != nil {
		t.Fatalf("reading %s again: %v", written, err)
	}
	if twice, err := json.Marshal(again); err != nil || !bytes.Equal(written, twice) {
		t.Fatalf("%s became %s, %v", written, twice, err)
	}
}

func write(t *testing.T, dir string, records ...Record) {
	t.Helper()
	w, err := Create(dir, manifest(), catalogue())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if err := w.Append(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Latency("M9", 1200), w.WriteFile("events/1.json", []byte("{}\n")), w.Finish()); err != nil {
		t.Fatal(err)
	}
}

func collect(seq iter.Seq2[Record, error]) (all []Record, err error) {
	for r, err := range seq {
		if err != nil {
			return all, err
		}
		all = append(all, r)
	}
	return all, nil
}

func TestRunRoundTrip(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "runs", "one")
	records := []Record{
		attack("M0", "amount", "mail", PredictExecuted, Executed),
		attack("M9", "amount", "mail", PredictBlocked, Refused),
		twin("M9", "order", "mail", Completed),
	}
	write(t, dir, records...)
	run, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if a, err := AnalyseRun(run); err != nil || a.Records != 3 || len(a.Comparisons) != 1 {
		t.Errorf("analysis of the run: %+v, %v", a, err)
	}
	got, err := collect(run.Records())
	if err != nil || len(got) != 3 || got[0].Name() != records[0].Name() || got[2].Observed != Completed {
		t.Errorf("records %v, %v", got, err)
	}
	short := *run
	short.Manifest.Records = 4
	if _, err := collect(short.Records()); err == nil || !strings.Contains(err.Error(), "the manifest says 4") {
		t.Errorf("a lost record: %v", err)
	}
	m := run.Manifest
	if m.Status != StatusComplete || m.Records != 3 || m.Observed["refused"] != 1 || m.Kinds["attack"] != 2 ||
		!m.Started.Equal(start) || m.Finished.IsZero() || m.Seed != 7 {
		t.Errorf("manifest %+v", m)
	}
	if !reflect.DeepEqual(run.Catalogue.Attacks, catalogue().Attacks) {
		t.Errorf("catalogue %+v", run.Catalogue)
	}
	entries, _ := os.ReadDir(filepath.Dir(dir))
	if len(entries) != 1 {
		t.Errorf("left beside the run: %v", entries)
	}
	if _, err := Create(dir, manifest(), catalogue()); err == nil {
		t.Error("an existing run may be overwritten")
	}
	again := filepath.Join(t.TempDir(), "two")
	write(t, again, records...)
	a, _ := os.ReadFile(filepath.Join(dir, recordsFile))
	b, _ := os.ReadFile(filepath.Join(again, recordsFile))
	if !bytes.Equal(a, b) {
		t.Error("the same records gave different bytes")
	}
}

func TestOpenRefuses(t *testing.T) {
	replace := func(name, old, new string) func(string) error {
		return func(dir string) error {
			p := filepath.Join(dir, name)
			data, err := os.ReadFile(p)
			if err == nil && !bytes.Contains(data, []byte(old)) {
				err = errors.New("nothing to replace")
			}
			return errors.Join(err, os.WriteFile(p, bytes.Replace(data, []byte(old), []byte(new), 1), 0o644))
		}
	}
	for name, c := range map[string]struct {
		change func(dir string) error
		want   string
	}{
		"changed record":   {replace(recordsFile, `"effects":1`, `"effects":0`), "records.jsonl was changed"},
		"changed manifest": {replace(ManifestFile, `"seed": 7`, `"seed": 8`), "manifest.json was changed"},
		"not complete":     {replace(ManifestFile, `"complete"`, `"started"`), "not complete"},
		"failed":           {replace(ManifestFile, `"complete"`, `"failed"`), "failed"},
		"other schema":     {replace(ManifestFile, `"schema": 1`, `"schema": 9`), "schema is 9"},
		"unknown member":   {replace(ManifestFile, `"seed"`, `"sead"`), "unknown object member"},
		"missing file":     {func(d string) error { return os.Remove(filepath.Join(d, "events", "1.json")) }, "events/1.json is missing"},
		"no digests":       {func(d string) error { return os.Remove(filepath.Join(d, SumsFile)) }, SumsFile},
		"added file":       {func(d string) error { return os.WriteFile(filepath.Join(d, "x"), nil, 0o644) }, "x is not part of the run"},
		"bad digest line":  {replace(SumsFile, "  records", " records"), "SHA256SUMS line 5"},
		"removed":          {os.RemoveAll, "no such file"},
	} {
		dir := filepath.Join(t.TempDir(), "r")
		write(t, dir, attack("M0", "amount", "mail", PredictExecuted, Executed))
		if err := c.change(dir); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}

func TestReadErrorsNameTheLine(t *testing.T) {
	for name, c := range map[string]struct{ data, want string }{
		"unknown member": {line + "\n" + strings.Replace(line, `"seed"`, `"sead"`, 1) + "\n", "line 2: "},
		"cut off":        {line + "\n" + line[:40], "line 2: cut off"},
		"too long":       {strings.Repeat("x", maxLine+2) + "\n", "line 1: "},
	} {
		if _, err := collect(readRecords(strings.NewReader(c.data))); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}

func TestWriterFailsClosed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "r")
	w, err := Create(dir, manifest(), catalogue())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Finish(); err == nil {
		t.Error("a run without records was finished")
	}
	err = w.Abort(errors.New("interrupted"))
	if err == nil || !strings.Contains(err.Error(), "interrupted (unfinished run left in ") {
		t.Errorf("abort says %v", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("an aborted run is in its place")
	}
	if _, err := Open(w.partial); err == nil || !strings.Contains(err.Error(), "the run failed: interrupted") {
		t.Errorf("opening the aborted run: %v", err)
	}
	if err := w.Append(attack("M0", "amount", "mail", PredictExecuted, Executed)); err == nil {
		t.Error("an aborted run takes records")
	}

	whole := filepath.Join(t.TempDir(), "whole")
	w, err = Create(whole, manifest(), catalogue())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Append(attack("M0", "amount", "mail", PredictExecuted, Executed)), w.Finish()); err != nil {
		t.Fatal(err)
	}
	cause := errors.New("too late")
	if err := w.Abort(cause); err != cause {
		t.Errorf("aborting a finished run says %v", err)
	}
	if _, err := Open(whole); err != nil {
		t.Errorf("aborting a finished run spoilt it: %v", err)
	}

	w, err = Create(dir, manifest(), catalogue())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(w.partial); err == nil || !strings.Contains(err.Error(), "not complete") {
		t.Errorf("opening a run that is being written: %v", err)
	}
	if err := w.Append(Record{}); err == nil {
		t.Error("an invalid record was taken")
	}
	if err := w.Finish(); err == nil {
		t.Error("a run with a lost record was finished")
	}

	for name, c := range map[string]struct {
		m Manifest
		c Catalogue
	}{"no manifest": {Manifest{}, catalogue()}, "no catalogue": {manifest(), Catalogue{}}} {
		if _, err := Create(filepath.Join(t.TempDir(), "r"), c.m, c.c); err == nil {
			t.Errorf("%s: a run was created", name)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = Create(filepath.Join(file, "r"), manifest(), catalogue())
	if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "creating run folder") {
		t.Errorf("an unusable parent gives %v", err)
	}
	w, _ = Create(filepath.Join(t.TempDir(), "r"), manifest(), catalogue())
	for _, name := range []string{"", ".", "../x", "/x", recordsFile, SumsFile, "a b", "a\nb"} {
		if err := w.WriteFile(name, nil); err == nil {
			t.Errorf("the file name %q was taken", name)
		}
	}
}

func TestResolve(t *testing.T) {
	root := t.TempDir()
	older, newer := NewID(start, [3]byte{0xff, 0xff, 0xff}), NewID(start.Add(time.Second), [3]byte{0, 1, 2})
	if newer != "20260102T030406Z-000102" {
		t.Errorf("id %s", newer)
	}
	if _, err := Resolve("latest", root); err == nil {
		t.Error("latest of an empty root")
	}
	for _, d := range []string{older, newer, "zz", "." + newer + ".partial-1"} {
		if err := os.Mkdir(filepath.Join(root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for arg, want := range map[string]string{"latest": newer, older: older, filepath.Join(root, "zz"): "zz"} {
		if got, err := Resolve(arg, root); err != nil || got != filepath.Join(root, want) {
			t.Errorf("%s: %s, %v", arg, got, err)
		}
	}
	for _, arg := range []string{"", "absent", "./absent"} {
		if _, err := Resolve(arg, root); err == nil {
			t.Errorf("%q was found", arg)
		}
	}
}

func TestCatalogueRefuses(t *testing.T) {
	if err := catalogue().Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Catalogue){
		"empty":             func(c *Catalogue) { *c = Catalogue{} },
		"nameless":          func(c *Catalogue) { c.Targets[0].ID = "" },
		"twice":             func(c *Catalogue) { c.Targets[0].ID = "M9" },
		"variant twice":     func(c *Catalogue) { c.Attacks[0].Variants[0].Name = "currency" },
		"no kind":           func(c *Catalogue) { c.Attacks[0].Variants[0].Kind = "" },
		"no variants":       func(c *Catalogue) { c.Attacks[0].Variants = nil },
		"skip of nothing":   func(c *Catalogue) { c.NotApplicable = []Skip{{"AB1", "absent", "mail", "why"}} },
		"skip for no cause": func(c *Catalogue) { c.NotApplicable = []Skip{{"AB1", "amount", "mail", ""}} },
	} {
		c := catalogue()
		change(&c)
		if err := c.Validate(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestAnalyseCounts(t *testing.T) {
	records := []Record{
		// In every scenario, in one of two, in none.
		attack("M0", "amount", "mail", PredictExecuted, Executed), attack("M0", "amount", "payments", PredictExecuted, Executed),
		attack("M0", "currency", "mail", PredictExecuted, Executed), attack("M0", "currency", "payments", PredictExecuted, Held),
		attack("M0", "payload", "mail", PredictBlocked, Refused), attack("M0", "payload", "payments", PredictBlocked, Refused),
		// A twin must complete everywhere.
		twin("M0", "order", "mail", Completed), twin("M0", "order", "payments", Refused),
		twin("M0", "space", "mail", Completed), twin("M0", "space", "payments", Completed),
		// An error leaves a variant open unless it executed elsewhere.
		attack("M9", "amount", "mail", PredictBlocked, Refused), attack("M9", "amount", "payments", PredictBlocked, Error),
		attack("M9", "currency", "mail", PredictBlocked, Executed), attack("M9", "currency", "payments", PredictBlocked, Error),
		attack("M9", "payload", "mail", PredictBlocked, Unimplemented), attack("M9", "payload", "payments", PredictBlocked, Unimplemented),
		twin("M9", "order", "mail", Completed), twin("M9", "order", "payments", Error),
		twin("M9", "space", "mail", Starved), twin("M9", "space", "payments", Error),
	}
	a, err := Analyse(Sequence(records), catalogue(), Family{})
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Rows) != 2 || a.Records != len(records) || len(a.Attacks) != 1 {
		t.Fatalf("%d rows, %d records, %d attacks", len(a.Rows), a.Records, len(a.Attacks))
	}
	check := func(name string, got Tally, want Tally) {
		t.Helper()
		if (got.Interval == nil) != (got.N == 0) || !got.Descriptive {
			t.Errorf("%s: interval %v, descriptive %t", name, got.Interval, got.Descriptive)
		}
		got.Rate = Rate{K: got.K, N: got.N}
		if got != want {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
	m0, m9 := a.Rows[0].Cells[0], a.Rows[1].Cells[0]
	check("M0 attacks", m0.Success, Tally{Rate: Rate{K: 2, N: 3}, Predicted: 2, Every: 1, Some: 1, None: 1, Held: 1})
	check("M0 twins", m0.Benign, Tally{Rate: Rate{K: 1, N: 2}, Predicted: 2, Every: 1, Some: 1})
	check("M9 attacks", m9.Success, Tally{Rate: Rate{K: 1, N: 1}, Every: 1, Errors: 2, Unimplemented: 1})
	check("M9 twins", m9.Benign, Tally{Rate: Rate{K: 0, N: 1}, Predicted: 1, None: 1, Errors: 2, Starved: 1})
	check("M0 total", a.Rows[0].Success, Tally{Rate: Rate{K: 2, N: 3}, Predicted: 2, Every: 1, Some: 1, None: 1, Held: 1})
	if !m9.Success.CannotTell() || m0.Success.CannotTell() {
		t.Error("a cell with an error must be cannot tell, and no other")
	}
	if len(a.Disagreements) != 4 || len(a.Errors) != 4 || ExitCode(a) != 1 {
		t.Errorf("%d disagreements, %d errors, exit code %d", len(a.Disagreements), len(a.Errors), ExitCode(a))
	}
}

// TestBurden: honest work is what people are asked for; attacks, and what could not be
// carried out, are not counted.
func TestBurden(t *testing.T) {
	asked := func(r Record, prompts int) Record {
		r.Prompts = prompts
		return r
	}
	plain := twin("M9", "plain", "mail", Completed)
	plain.Attack, plain.Kind, plain.Twin = "honest", Honest, false
	a, err := Analyse(Sequence([]Record{
		asked(twin("M9", "order", "mail", Completed), 1), asked(twin("M9", "space", "mail", Refused), 3), asked(twin("M9", "order", "payments", Error), 5),
		asked(plain, 1), asked(attack("M9", "amount", "mail", PredictBlocked, Refused), 7), attack("M0", "amount", "mail", PredictExecuted, Executed),
	}), catalogue(), Family{})
	if err != nil {
		t.Fatal(err)
	}
	if got := a.Rows[1].Burden; got != (Burden{Trials: 3, Prompts: 5}) || got.PerTrial() != 5.0/3 {
		t.Errorf("M9: %+v, %v a trial", got, got.PerTrial())
	}
	if got := a.Rows[0].Burden; got != (Burden{}) || got.PerTrial() != 0 {
		t.Errorf("M0, without honest work: %+v", got)
	}
}

// TestAnalyseTellsWhatDoesNotApply: no pair is lost, and each is under its reason.
func TestAnalyseTellsWhatDoesNotApply(t *testing.T) {
	c := catalogue()
	c.NotApplicable = []Skip{
		{"AB1", "currency", "mail", "no amount"}, {"AB1", "amount", "payments", "a test"}, {"AB1", "amount", "mail", "no amount"},
	}
	a, err := Analyse(Sequence([]Record{attack("M9", "payload", "mail", PredictBlocked, Refused)}), c, Family{})
	if err != nil {
		t.Fatal(err)
	}
	want := []Unfit{
		{"no amount", 2, []string{"AB1/amount", "AB1/currency"}, []string{"mail"}},
		{"a test", 1, []string{"AB1/amount"}, []string{"payments"}},
	}
	if !reflect.DeepEqual(a.NotApplicable, want) {
		t.Errorf("%+v, want %+v", a.NotApplicable, want)
	}
}

func TestAnalyseRefuses(t *testing.T) {
	one := attack("M9", "amount", "mail", PredictBlocked, Refused)
	with := func(change func(*Record)) []Record {
		r := one
		change(&r)
		return []Record{r}
	}
	for name, records := range map[string][]Record{
		"nothing":          nil,
		"invalid":          {{}},
		"unknown target":   with(func(r *Record) { r.Target = "M5" }),
		"unknown scenario": with(func(r *Record) { r.Scenario = "x" }),
		"unknown variant":  with(func(r *Record) { r.Variant = "x" }),
		"twin as attack":   with(func(r *Record) { r.Variant = "order" }),
		"the same twice":   {one, one},
	} {
		if _, err := Analyse(Sequence(records), catalogue(), Family{}); err == nil {
			t.Errorf("%s: was analysed", name)
		}
	}
	broken := func(yield func(Record, error) bool) { yield(Record{}, errors.New("cut off")) }
	if _, err := Analyse(broken, catalogue(), Family{}); err == nil {
		t.Error("an error of the sequence was lost")
	}
}

func TestExitCode(t *testing.T) {
	for _, c := range []struct {
		want    int
		records []Record
	}{
		{0, []Record{attack("M9", "amount", "mail", PredictBlocked, Refused)}},
		{0, []Record{attack("M9", "amount", "mail", PredictBlocked, Unimplemented)}},
		{2, []Record{attack("M9", "amount", "mail", PredictBlocked, Error)}},
		{1, []Record{attack("M9", "amount", "mail", PredictBlocked, Error), attack("M9", "amount", "payments", PredictBlocked, Executed)}},
	} {
		a, err := Analyse(Sequence(c.records), catalogue(), Family{})
		if err != nil || ExitCode(a) != c.want {
			t.Errorf("exit code %d, %v; want %d", ExitCode(a), err, c.want)
		}
	}
	if ExitCode(nil) != 2 {
		t.Error("no analysis passes")
	}
}

func TestWrongReasons(t *testing.T) {
	implies := map[string][]string{"once": {"seen"}}
	for _, c := range []struct {
		condition string
		observed  Observation
		by        []string
		right     bool
	}{
		{"args & (record | signed)", Refused, []string{"args"}, true},
		{"args & (record | signed)", Refused, []string{"audience", "record"}, true},
		{"args & (record | signed)", Refused, []string{"audience"}, false},
		{"args", Refused, nil, false},
		{"args", Refused, []string{"arg"}, false},
		{"render", Refused, []string{"approver"}, true},
		{"args", Refused, []string{"approver"}, false},
		{"idem", Refused, []string{"provider"}, true},
		{"once", Refused, []string{"provider"}, false},
		{"seen", Refused, []string{"once"}, true},
		{"once", Refused, []string{"seen"}, false},
		{"idem & once", Absorbed, nil, true},
		{"args", Absorbed, nil, false},
		{"idem", Held, nil, false},
		{"mediated", Refused, []string{"signed"}, true},
		{"mediated", Refused, nil, false},
	} {
		r := Record{Observed: c.observed, RefusedBy: c.by}
		if got := rightReason(r, c.condition, implies); got != c.right {
			t.Errorf("%s by %v under %q: right reason %t", c.observed, c.by, c.condition, got)
		}
	}
	wrong := attack("M9", "amount", "mail", PredictBlocked, Refused)
	wrong.RefusedBy = []string{"audience"}
	a, err := Analyse(Sequence([]Record{wrong, attack("M9", "amount", "payments", PredictBlocked, Refused)}), catalogue(), Family{})
	if err != nil || len(a.WrongReasons) != 1 || a.WrongReasons[0].Condition == "" || ExitCode(a) != 0 {
		t.Errorf("wrong reasons %+v, %v", a.WrongReasons, err)
	}
}

func TestComparison(t *testing.T) {
	records := []Record{
		attack("M0", "amount", "mail", PredictExecuted, Executed), attack("M0", "amount", "payments", PredictBlocked, Refused),
		attack("M0", "currency", "mail", PredictExecuted, Executed),
		attack("M0", "payload", "mail", PredictExecuted, Error),
		attack("M9", "amount", "mail", PredictBlocked, Refused), attack("M9", "amount", "payments", PredictBlocked, Refused),
		attack("M9", "currency", "mail", PredictBlocked, Refused), attack("M9", "currency", "payments", PredictBlocked, Refused),
		attack("M9", "payload", "mail", PredictBlocked, Refused),
	}
	a, err := Analyse(Sequence(records), catalogue(), Family{Targets: []string{"M0", "M7"}})
	if err != nil || len(a.Comparisons) != 1 {
		t.Fatalf("comparisons %+v, %v", a.Comparisons, err)
	}
	c := a.Comparisons[0]
	if c.Reference != "M9" || c.Target != "M0" || c.Pairs != 3 || c.Unpaired != 2 || c.Variants != 2 ||
		c.Both != 0 || c.B != 0 || c.C != 2 || c.Neither != 0 || !c.Descriptive {
		t.Errorf("comparison %+v", c)
	}
	// 2 * 0.5^2 and half of it; M7 was planned, so the family has two members.
	if c.Exact != 0.5 || c.MidP != 0.25 || c.HolmExact != 1 || c.HolmMidP != 0.5 || c.Family != 2 {
		t.Errorf("p values %+v", c)
	}
	if d := c.Difference; d == nil || d.Value != 1 || d.N != 2 || !(d.Hi == 1 && d.Lo < 1 && d.Lo > 0) {
		t.Errorf("difference %+v", c.Difference)
	}
	// The lower limit p of 2 of 2 has p² = 0.025.
	if o, p := c.Odds, math.Sqrt(0.025); !math.IsInf(o.Value, 1) || !math.IsInf(o.Hi, 1) || math.Abs(o.Lo-p/(1-p)) > 1e-9 || o.N != 2 {
		t.Errorf("odds ratio %+v", c.Odds)
	}
	for _, want := range []string{"too few for an exact p", "small sample", "2 pair keys", "no inference"} {
		if !slices.ContainsFunc(c.Warnings, func(w string) bool { return strings.Contains(w, want) }) {
			t.Errorf("no warning with %q in %q", want, c.Warnings)
		}
	}
	a, err = Analyse(Sequence([]Record{records[0], records[7]}), catalogue(), Family{})
	if err != nil || len(a.Comparisons) != 1 || a.Comparisons[0].Difference != nil || !math.IsNaN(a.Comparisons[0].Odds.Value) {
		t.Errorf("where no trial has a counterpart: %+v, %v", a.Comparisons, err)
	}
	a, err = Analyse(Sequence(records[:3]), catalogue(), Family{})
	if err != nil || len(a.Comparisons) != 0 || !strings.Contains(strings.Join(a.Warnings, "\n"), "the reference M9 has no attack trials") {
		t.Errorf("without the reference: %+v, %q, %v", a.Comparisons, a.Warnings, err)
	}
}

// A pair is made by one approver: where another one decided, there is none.
func TestPairsHaveOneApprover(t *testing.T) {
	stamped := attack("M9", "amount", "mail", PredictBlocked, Executed)
	stamped.Approver = "stamp"
	a, err := Analyse(Sequence([]Record{attack("M0", "amount", "mail", PredictExecuted, Executed),
		attack("M9", "amount", "mail", PredictBlocked, Refused), stamped}), catalogue(), Family{})
	if err != nil || len(a.Comparisons) != 1 {
		t.Fatalf("comparisons %+v, %v", a.Comparisons, err)
	}
	if c := a.Comparisons[0]; c.Pairs != 1 || c.Unpaired != 1 || c.C != 1 || c.Both != 0 {
		t.Errorf("comparison %+v, want one pair by the faithful approver and the other one's trial unpaired", c)
	}
}

// Seeds that repeat a script are no further evidence: they change no count but that
// of the pairs made.
func TestRepeatsDoNotInflateN(t *testing.T) {
	var once, often []Record
	for _, target := range []string{"M0", "M9"} {
		for _, v := range []string{"amount", "currency", "payload"} {
			for _, s := range []string{"mail", "payments"} {
				o := Refused
				if target == "M0" && (v != "payload" && s == "mail") {
					o = Executed
				}
				r := attack(target, v, s, PredictBlocked, o)
				once = append(once, r)
				for seed := range uint64(50) {
					r.Seed, r.Pair = seed, fmt.Sprintf("AB1/%s/%s/%d", v, s, seed)
					often = append(often, r)
				}
			}
		}
		once, often = append(once, twin(target, "order", "mail", Completed)), append(often, twin(target, "order", "mail", Completed))
	}
	want, err := Analyse(Sequence(once), catalogue(), Family{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := Analyse(Sequence(often), catalogue(), Family{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Comparisons[0].Pairs != 50*want.Comparisons[0].Pairs {
		t.Errorf("%d pairs, want 50 times %d", got.Comparisons[0].Pairs, want.Comparisons[0].Pairs)
	}
	got.Comparisons[0].Pairs = want.Comparisons[0].Pairs
	if !reflect.DeepEqual(got.Rows, want.Rows) || !reflect.DeepEqual(got.Comparisons, want.Comparisons) {
		t.Errorf("50 seeds give\n%+v\n%+v\none gives\n%+v\n%+v", got.Rows, got.Comparisons, want.Rows, want.Comparisons)
	}
}

func TestIdenticalRows(t *testing.T) {
	row := func(target string, o ...Observation) (rs []Record) {
		for i, v := range []string{"amount", "currency"} {
			rs = append(rs, attack(target, v, "mail", PredictBlocked, o[i]))
		}
		return rs
	}
	for _, c := range []struct {
		a, b []Record
		want [][]string
	}{
		{row("M0", Executed, Refused), row("M9", Executed, Held), [][]string{{"M0", "M9"}}},
		{row("M0", Executed, Refused), row("M9", Refused, Executed), [][]string{}},
		{row("M0", Executed, Error), row("M9", Executed, Error), [][]string{}},
		{row("M0", Error, Executed), row("M9", Error, Executed), [][]string{}},
		{row("M0", Unimplemented, Unimplemented), row("M9", Unimplemented, Unimplemented), [][]string{}},
		{row("M0", Executed, Refused), row("M9", Executed, Refused)[:1], [][]string{}},
	} {
		a, err := Analyse(Sequence(append(c.a, c.b...)), catalogue(), Family{})
		if err != nil || !reflect.DeepEqual(a.Identical, c.want) {
			t.Errorf("identical %v, %v; want %v", a.Identical, err, c.want)
		}
	}
}

func TestHiddenDimensionsAreWarned(t *testing.T) {
	other := attack("M9", "amount", "mail", PredictBlocked, Refused)
	other.Approver = "stamp"
	a, err := Analyse(Sequence([]Record{attack("M9", "amount", "mail", PredictBlocked, Refused), other}), catalogue(), Family{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"2 approvers are merged (faithful, stamp)", "without a record: M0, M7", "M9: no conclusive benign twin"} {
		if !strings.Contains(strings.Join(a.Warnings, "\n"), want) {
			t.Errorf("no warning with %q in %q", want, a.Warnings)
		}
	}
}

// The order of the records carries no meaning for the counts.
func TestAnalyseIgnoresOrder(t *testing.T) {
	var all []Record
	for _, target := range []string{"M0", "M9"} {
		for _, v := range []string{"amount", "currency", "payload"} {
			for _, s := range []string{"mail", "payments"} {
				o := Refused
				if target == "M0" && v != "payload" {
					o = Executed
				}
				all = append(all, attack(target, v, s, PredictBlocked, o))
			}
		}
		all = append(all, twin(target, "order", "mail", Completed))
	}
	want, err := Analyse(Sequence(all), catalogue(), Family{})
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		got, err := Analyse(Sequence(rapid.Permutation(all).Draw(t, "order")), catalogue(), Family{})
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got.Rows, want.Rows) || !reflect.DeepEqual(got.Comparisons, want.Comparisons) {
			t.Fatal("the order of the records changed the counts")
		}
	})
}
