package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"countersign/results"
)

// smallParts are parts of the kinds that the paper has, of few trials each.
func smallParts(t *testing.T) []paperPart {
	t.Helper()
	testdata, err := filepath.Abs(filepath.Join("..", "..", "agentdojo", "testdata"))
	if err != nil {
		t.Fatal(err)
	}
	in := func(names ...string) string { return filepath.Join(append([]string{testdata}, names...)...) }
	return []paperPart{
		{"matrix", "few trials", small(), "", readRun},
		{"ablation", "few bindings", []string{"run", "--ablate", "few", "--compose", "few=record,mediated,once", "--attacks", "AB4/presented_twice_in_a_row", "--scenarios", "payments"}, "", readRun},
		{"agentdojo", "few traces", []string{"agentdojo", "replay", in("runs"), "--catalogue", in("catalogue.json"), "--classes", in("classes.json"), "--modes", "M0,M9"}, "", readReplay},
	}
}

// makePaper runs the command with parts of a test.
func makePaper(t *testing.T, o paperOptions) (stdout, stderr string, err error) {
	t.Helper()
	var out, log bytes.Buffer
	cmd := &cobra.Command{}
	cmd.SetContext(t.Context())
	cmd.SetOut(&out)
	cmd.SetErr(&log)
	err = o.run(cmd)
	return out.String(), log.String(), err
}

// What was made becomes the reference; made again it is the same; and whatever is
// not the same is named, with the record that differs.
func TestPaper(t *testing.T) {
	parts := smallParts(t)
	t.Chdir(t.TempDir())
	const reference = "reference"
	if _, stderr, err := makePaper(t, paperOptions{parts: parts, reference: reference, out: "one", update: true}); err != nil {
		t.Fatalf("%v\n%s", err, stderr)
	}
	stdout, stderr, err := makePaper(t, paperOptions{parts: parts, reference: reference, out: "two"})
	if err != nil {
		t.Fatalf("made again: %v\n%s\n%s", err, stdout, stderr)
	}
	for _, part := range []string{"matrix", "ablation", "agentdojo"} {
		if !regexp.MustCompile(`(?m)^ *` + part + ` +[0-9]+ +0 +0 +0\b`).MatchString(stdout) {
			t.Errorf("%s is not the same:\n%s", part, stdout)
		}
	}
	for _, path := range []string{
		"two/matrix/records.jsonl", "two/tables/matrix/success.tex", "two/tables/ablation/ablation-cuts.csv", "two/" + results.SumsFile,
		"figures/out/two/matrix/attack-success.svg", "figures/out/two/ablation/ablation.pdf", "figures/out/two/agentdojo/agentdojo.png", "figures/out/two/report.html",
	} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
	sums, err := results.ReadSums(reference)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"runs/matrix/records.jsonl", "runs/ablation/ablation.json", "tables/matrix/cells.csv", "figures/agentdojo/agentdojo.svg"} {
		if sums[name] == "" {
			t.Errorf("%s is not held", name)
		}
	}
	for name := range sums {
		if strings.HasSuffix(name, ".pdf") || strings.HasSuffix(name, "manifest.json") {
			t.Errorf("%s is held, and is not the same everywhere", name)
		}
	}
	// Each folder of the reference is a run to the other commands, and says how to make it.
	code, packed, stderr := command(t, t.Context(), "analyze", "reference/ablation")
	_, whole, _ := command(t, t.Context(), "analyze", "two/ablation")
	if code != 0 || packed != whole || !strings.Contains(packed, "Minimal cuts") {
		t.Errorf("analysis of the packed run: exit code %d, %s\n%s\nwant\n%s", code, stderr, packed, whole)
	}
	if manifest, err := os.ReadFile("reference/matrix/manifest.json"); err != nil || !regexp.MustCompile(`"argv": \[\s*"countersign",\s*"paper",\s*"--only",\s*"matrix"\s*\]`).Match(manifest) {
		t.Errorf("%v\n%s", err, manifest)
	}

	// Another run in place of one of the reference.
	if _, stderr, err := makePaper(t, paperOptions{parts: []paperPart{{"matrix", "", append(small(), "--seed", "2"), "", readRun}}, out: "three"}); err != nil {
		t.Fatalf("%v\n%s", err, stderr)
	}
	other, err := results.ReadSums("three")
	if err != nil {
		t.Fatal(err)
	}
	if err := results.Pack("three/matrix", "reference/matrix"); err != nil {
		t.Fatal(err)
	}
	delete(sums, "tables/matrix/success.csv")
	sums["tables/matrix/gone.csv"] = sums["tables/matrix/cells.csv"]
	sums["runs/matrix/records.jsonl"] = other["runs/matrix/records.jsonl"]
	if err := os.WriteFile(filepath.Join(reference, results.SumsFile), []byte(sums.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	parts[2].unable = "there are no logs"
	stdout, _, err = makePaper(t, paperOptions{parts: parts, reference: reference, out: "four"})
	if err != error(exitCode(1)) {
		t.Errorf("another reference: %v", err)
	}
	for _, want := range []string{
		"runs/matrix/records.jsonl  *different", "tables/matrix/success.csv  *new", "tables/matrix/gone.csv  *missing",
		"The first record of matrix that differs: M8 honest/plain payments, seed 1:", "seed: the reference says 2, this run says 1",
		"Left out: agentdojo: there are no logs.", "Not made, so not compared: agentdojo.",
	} {
		if !regexp.MustCompile(want).MatchString(stdout) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
}

// A part that was not made keeps its place in the reference, and a run that
// contradicts its predictions is none.
func TestPaperUpdate(t *testing.T) {
	parts := smallParts(t)
	t.Chdir(t.TempDir())
	const reference = "reference"
	if _, stderr, err := makePaper(t, paperOptions{parts: parts[:2], reference: reference, out: "one", update: true}); err != nil {
		t.Fatalf("%v\n%s", err, stderr)
	}
	before, err := results.ReadSums(reference)
	if err != nil {
		t.Fatal(err)
	}
	if _, stderr, err := makePaper(t, paperOptions{parts: parts, only: []string{"agentdojo"}, reference: reference, out: "two", update: true}); err != nil {
		t.Fatalf("%v\n%s", err, stderr)
	}
	after, err := results.ReadSums(reference)
	if err != nil {
		t.Fatal(err)
	}
	for name, sum := range before {
		if after[name] != sum {
			t.Errorf("%s changed", name)
		}
	}
	if after["runs/agentdojo/summary.json"] == "" || len(partsOf(after)) != 3 {
		t.Errorf("the new part is not there: %v", partsOf(after))
	}
}

func TestPaperRefuses(t *testing.T) {
	parts := smallParts(t)
	t.Chdir(t.TempDir())
	if err := os.Mkdir("there", 0o755); err != nil {
		t.Fatal(err)
	}
	unable := []paperPart{{"agentdojo", "", nil, "there are no logs", readReplay}}
	for name, c := range map[string]struct {
		o    paperOptions
		want string
	}{
		"no reference":    {paperOptions{parts: parts, reference: "nowhere"}, "no such file"},
		"unknown part":    {paperOptions{parts: parts, only: []string{"matrx"}}, `no part "matrx"`},
		"folder is there": {paperOptions{parts: parts, out: "there"}, "exists already"},
		"nothing to make": {paperOptions{parts: unable, out: "x"}, "nothing could be made: there are no logs"},
		"update of none":  {paperOptions{parts: parts, update: true}, "--reference is empty"},
		"a part that cannot be made": {paperOptions{parts: []paperPart{{"matrix", "", []string{"run", "--modes", "M77"}, "", readRun}}, out: "y"},
			"making matrix: exit code 2"},
	} {
		if stdout, _, err := makePaper(t, c.o); err == nil || !strings.Contains(err.Error(), c.want) || stdout != "" {
			t.Errorf("%s: %v, want %q; printed %q", name, err, c.want, stdout)
		}
	}
}
