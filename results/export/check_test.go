package export

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"

	"countersign/results"
)

// hostile would end an element, start a formula, colour a terminal, or turn text.
const hostileTarget = "M9<\x1b[31m]]>\u202e|`x`"

// checked has every change and every outcome at least once: each entry is named
// after what it shows.
func checked(t *testing.T) (*results.Check, results.Catalogue) {
	t.Helper()
	type counts = map[results.Observation]int
	e := func(target, variant string, kind results.Kind, observed counts, by ...string) results.BaselineEntry {
		if by == nil {
			by = []string{}
		}
		return results.BaselineEntry{Target: target, Attack: "AB1", Variant: variant, Kind: kind, Observed: observed, RefusedBy: by}
	}
	honest := func(observed counts) results.BaselineEntry {
		h := e("M9", "plain", results.Honest, observed)
		h.Attack = "honest"
		return h
	}
	var before, after []results.BaselineEntry
	for _, x := range []struct {
		name     string
		kind     results.Kind
		was, is  counts
		by, then []string
	}{
		{"absorbed_as_ever", results.Attack, counts{results.Absorbed: 2}, counts{results.Absorbed: 2}, nil, nil},
		{"executed_as_ever", results.Attack, counts{results.Executed: 2}, counts{results.Executed: 2}, nil, nil},
		{"from_error_to_error", results.Attack, counts{results.Error: 2}, counts{results.Error: 2}, nil, nil},
		{"from_executed_to_held", results.Attack, counts{results.Executed: 2}, counts{results.Held: 2}, nil, []string{"idem"}},
		{"from_held_to_refused", results.Attack, counts{results.Held: 2}, counts{results.Refused: 2}, []string{"idem"}, []string{"idem"}},
		{"from_reasked_to_starved", results.Attack, counts{results.Reasked: 2}, counts{results.Starved: 2}, []string{"refs"}, nil},
		{"from_refused_to_error", results.Attack, counts{results.Refused: 2}, counts{results.Error: 2}, []string{"args"}, nil},
		{"from_refused_to_executed_once", results.Attack, counts{results.Refused: 2}, counts{results.Refused: 1, results.Executed: 1}, []string{"args"}, []string{"args"}},
		{"from_refused_to_unimplemented", results.Attack, counts{results.Refused: 2}, counts{results.Unimplemented: 2}, []string{"args"}, nil},
		{"refused_by_another_binding", results.Attack, counts{results.Refused: 2}, counts{results.Refused: 2}, []string{"args"}, []string{"once"}},
		{"unimplemented_as_ever", results.Attack, counts{results.Unimplemented: 2}, counts{results.Unimplemented: 2}, nil, nil},
		{"twin_as_ever", results.Twin, counts{results.Completed: 2}, counts{results.Completed: 2}, nil, nil},
		{"twin_refused", results.Twin, counts{results.Completed: 2}, counts{results.Completed: 1, results.Refused: 1}, nil, []string{"strict"}},
	} {
		before = append(before, e("M9", x.name, x.kind, x.was, x.by...))
		now := e("M9", x.name, x.kind, x.is, x.then...)
		if x.name == "refused_by_another_binding" {
			now.WrongReason = 2
		}
		after = append(after, now)
	}
	before = append(before, honest(counts{results.Completed: 2}), e("M9", "missing_from_the_run", results.Attack, counts{results.Refused: 2}, "args"),
		e("M8", "of_a_target_that_was_not_selected", results.Attack, counts{results.Refused: 2}, "args"))
	after = append(after, honest(counts{results.Starved: 2}), e(hostileTarget, "new_in_the_run", results.Attack, counts{results.Executed: 2}))
	contradicted := e(hostileTarget, "new_and_contradicted", results.Attack, counts{results.Executed: 2})
	contradicted.Disagrees = 2
	after = append(after, contradicted)

	file := func(entries []results.BaselineEntry) *results.Baseline {
		return &results.Baseline{Schema: results.BaselineSchema, Scenarios: []string{"mail", "payments"}, Seeds: []uint64{1}, Approvers: []string{"faithful"}, Entries: entries}
	}
	k, err := file(before).Against(file(after))
	if err != nil {
		t.Fatal(err)
	}
	c := results.Catalogue{Attacks: []results.AttackInfo{{ID: "AB1", Title: "argument substitution", MainBinding: "args"}}}
	for _, x := range after {
		if x.Attack == "AB1" {
			v := results.VariantInfo{Name: x.Variant, Summary: "the amount is <b>raised</b> while the call waits", Kind: x.Kind}
			if x.Kind == results.Attack {
				v.Condition, v.Capabilities, v.References = "args & (record | signed)", []string{"queue"}, []string{"incident 46", "CWE-345"}
			}
			c.Attacks[0].Variants = append(c.Attacks[0].Variants, v)
		}
	}
	return k, c
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (rewrite it with go test ./results/export -update):\n%s", name, diff)
	}
}

func TestCheckGolden(t *testing.T) {
	k, c := checked(t)
	for name, write := range map[string]func(*bytes.Buffer) error{
		"check.text":     func(b *bytes.Buffer) error { return WriteCheck(b, k, Text, true) },
		"check.markdown": func(b *bytes.Buffer) error { return WriteCheck(b, k, Markdown, false) },
		"check.xml":      func(b *bytes.Buffer) error { return JUnit(b, k, true) },
		"check.json":     func(b *bytes.Buffer) error { return WriteCheck(b, k, JSON, true) },
		"check.sarif":    func(b *bytes.Buffer) error { return SARIF(b, k, c, "lab/base line.json", true) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		golden(t, name, b.Bytes())
	}
	if err := WriteCheck(&bytes.Buffer{}, k, CSV, false); err == nil {
		t.Error("a form that there is none of: no error")
	}
	for name, err := range map[string]error{
		"text": WriteCheck(failing{}, k, Text, false), "junit": JUnit(failing{}, k, false), "sarif": SARIF(failing{}, k, c, "b.json", false),
	} {
		if err == nil {
			t.Errorf("%s: nothing could be written, and there was no error", name)
		}
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, os.ErrClosed }

// TestJUnitSaysWhatTheCheckSays reads the XML back: every case is there once, as
// failure, error, skipped or passed, and the totals are those of the cases.
func TestJUnitSaysWhatTheCheckSays(t *testing.T) {
	k, _ := checked(t)
	for _, strict := range []bool{false, true} {
		var b bytes.Buffer
		if err := JUnit(&b, k, strict); err != nil {
			t.Fatal(err)
		}
		type outcome struct {
			Type string `xml:"type,attr"`
		}
		var doc struct {
			Tests    int `xml:"tests,attr"`
			Failures int `xml:"failures,attr"`
			Errors   int `xml:"errors,attr"`
			Skipped  int `xml:"skipped,attr"`
			Suites   []struct {
				Cases []struct {
					Name    string   `xml:"name,attr"`
					Failure *outcome `xml:"failure"`
					Error   *outcome `xml:"error"`
					Skipped *outcome `xml:"skipped"`
				} `xml:"testcase"`
			} `xml:"testsuite"`
		}
		if err := xml.Unmarshal(b.Bytes(), &doc); err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, s := range doc.Suites {
			for _, c := range s.Cases {
				result := "passed"
				for word, o := range map[string]*outcome{"failure": c.Failure, "error": c.Error, "skipped": c.Skipped} {
					if o != nil {
						result = word + " " + o.Type
					}
				}
				got[strings.TrimPrefix(c.Name, "AB1/")] = result
			}
		}
		wrong := "passed"
		if strict {
			wrong = "failure wrong-reason"
		}
		want := map[string]string{
			"absorbed_as_ever": "passed", "executed_as_ever": "passed", "from_error_to_error": "error cannot-tell",
			"from_executed_to_held": "passed", "from_held_to_refused": "passed", "from_reasked_to_starved": "failure regression",
			"from_refused_to_error": "failure regression", "from_refused_to_executed_once": "failure regression",
			"from_refused_to_unimplemented": "failure regression", "refused_by_another_binding": wrong,
			"unimplemented_as_ever": "skipped unimplemented", "twin_as_ever (twin)": "passed", "twin_refused (twin)": "failure regression",
			"honest/plain (honest)": "failure regression", "missing_from_the_run": "skipped missing",
			"new_in_the_run": "passed", "new_and_contradicted": "failure regression",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		count := func(prefix string) (n int) {
			for _, r := range want {
				if strings.HasPrefix(r, prefix) {
					n++
				}
			}
			return n
		}
		if doc.Tests != len(want) || doc.Failures != count("failure") || doc.Errors != count("error") || doc.Skipped != count("skipped") {
			t.Errorf("totals: %d tests, %d failures, %d errors, %d skipped", doc.Tests, doc.Failures, doc.Errors, doc.Skipped)
		}
	}
}

// TestSARIFIsWhatCodeScanningNeeds: the document is valid by the schema of SARIF
// 2.1.0, and has what GitHub documents beyond it: rules with descriptions and help,
// for each result its rule, a message, one location with a relative path and a line,
// and a fingerprint of its own.
func TestSARIFIsWhatCodeScanningNeeds(t *testing.T) {
	k, c := checked(t)
	for strict, want := range map[bool]int{false: 8, true: 9} {
		var b bytes.Buffer
		if err := SARIF(&b, k, c, "lab/base line.json", strict); err != nil {
			t.Fatal(err)
		}
		doc, err := sarif.FromBytes(b.Bytes(), sarif.WithStrictValidation())
		if err != nil {
			t.Fatal(err)
		}
		if err := doc.Validate(); err != nil {
			t.Error(err)
		}
		if doc.Version != "2.1.0" || len(doc.Runs) != 1 || *doc.Runs[0].Tool.Driver.Name != "countersign" {
			t.Fatal("not one run of SARIF 2.1.0 by countersign")
		}
		rules := doc.Runs[0].Tool.Driver.Rules
		if len(rules) != len(c.Attacks[0].Variants)+1 {
			t.Errorf("%d rules for %d variants", len(rules), len(c.Attacks[0].Variants))
		}
		for _, r := range rules {
			if *r.ID == "" || *r.ShortDescription.Text == "" || *r.FullDescription.Text == "" || *r.Help.Text == "" || *r.Help.Markdown == "" ||
				len(r.Properties.Tags) == 0 || strings.Contains(*r.Help.Markdown, "<b>") && !strings.Contains(*r.Help.Markdown, `\<b`) {
				t.Errorf("rule %s lacks something, or its help is markup from the catalogue", *r.ID)
			}
		}
		prints := map[string]bool{}
		levels := map[string]int{}
		for _, r := range doc.Runs[0].Results {
			levels[r.Level]++
			if *rules[r.RuleIndex].ID != *r.RuleID {
				t.Errorf("result of rule %s points at rule %s", *r.RuleID, *rules[r.RuleIndex].ID)
			}
			p := r.Locations[0].PhysicalLocation
			if len(r.Locations) != 1 || *p.ArtifactLocation.URI != "lab/base%20line.json" || *p.Region.StartLine < 1 {
				t.Errorf("%s is located at %v", *r.RuleID, p)
			}
			if *r.Message.Text == "" || strings.ContainsAny(*r.Message.Text, "\x1b\u202e") {
				t.Errorf("message %q", *r.Message.Text)
			}
			prints[r.PartialFingerprints["primaryLocationLineHash"]] = true
		}
		if n := len(doc.Runs[0].Results); n != want || len(prints) != n || levels["warning"] != 1 || levels["error"] != n-1 {
			t.Errorf("%d results, %d fingerprints, levels %v; want %d", n, len(prints), levels, want)
		}
	}
	// Nothing to report is an empty list, which says that it was looked at.
	var b bytes.Buffer
	quiet := &results.Check{Cases: slices.DeleteFunc(slices.Clone(k.Cases), func(c results.Case) bool { return c.Change != results.Same || c.Errors() > 0 })}
	if err := SARIF(&b, quiet, c, "b.json", true); err != nil {
		t.Fatal(err)
	}
	var raw struct{ Runs []map[string]json.RawMessage }
	if err := json.Unmarshal(b.Bytes(), &raw); err != nil {
		t.Fatal(err)
	}
	if got := string(raw.Runs[0]["results"]); got != "[]" {
		t.Errorf("without a finding, results is %s (%v)", got, slices.Collect(maps.Keys(raw.Runs[0])))
	}
	if err := SARIF(&b, k, results.Catalogue{}, "b.json", true); err == nil {
		t.Error("a finding without a rule: no error")
	}
}

// TestRegressionsAreNeverCutOff: other lists may be, and say so.
func TestRegressionsAreNeverCutOff(t *testing.T) {
	k := &results.Check{}
	for i := range listed + 5 {
		e := &results.BaselineEntry{Target: "M9", Attack: "AB1", Variant: fmt.Sprintf("worse_%d", i), Kind: results.Attack, Observed: map[results.Observation]int{results.Executed: 1}}
		f := *e
		f.Variant = fmt.Sprintf("better_%d", i)
		k.Cases = append(k.Cases, results.Case{Before: e, After: e, Change: results.Regression, Why: "worse"}, results.Case{Before: &f, After: &f, Change: results.Improvement, Why: "better"})
	}
	var b bytes.Buffer
	if err := WriteCheck(&b, k, Text, false); err != nil {
		t.Fatal(err)
	}
	if worse, better := strings.Count(b.String(), "AB1/worse_"), strings.Count(b.String(), "AB1/better_"); worse != listed+5 || better != listed {
		t.Errorf("%d regressions and %d improvements are listed", worse, better)
	}
	if !strings.Contains(b.String(), "... and 5 more; the JSON form has all") {
		t.Error("what is cut off is not said")
	}
}
