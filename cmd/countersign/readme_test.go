package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"countersign/agentdojo"
	"countersign/attacks"
	"countersign/attacks/harness"
	"countersign/modes"
	"countersign/results"
)

// TestReadme: the session and the table in the README are what the commands print
// and what the reference baseline counts. With -update they are written.
func TestReadme(t *testing.T) {
	path := filepath.Join("..", "..", "README.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b := readReference(t, "matrix")
	want := string(text)
	blocks := map[string]func(*testing.T, *results.Baseline) string{"session": readmeSession, "results": readmeResults, "ablation": readmeAblation, "overlay": readmeOverlay}
	if !raced { // it takes the race detector a minute; .ci/run runs this test without
		blocks["agentdojo"] = readmeReplay
	}
	for name, generate := range blocks {
		block := regexp.MustCompile(`(?s)(<!-- ` + name + `:begin[^>]*-->\n).*?(<!-- ` + name + `:end -->)`)
		if len(block.FindAllString(want, -1)) != 1 {
			t.Fatalf("README.md has no block %q, or several", name)
		}
		parts := block.FindStringSubmatchIndex(want)
		want = want[:parts[3]] + generate(t, b) + want[parts[4]:]
	}
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("README.md is out of date (write it with go test ./cmd/countersign -run Readme -update):\n%s", diff)
	}
}

// readmeSession shows three commands and the end of what each prints.
func readmeSession(t *testing.T, b *results.Baseline) string {
	trials := 0
	for _, e := range b.Entries {
		for _, n := range e.Observed {
			trials += n
		}
	}
	const story = "explain M7 AB4/presented_twice_in_a_row"
	code, told, stderr := command(t, t.Context(), strings.Fields(story)...)
	if code != 0 {
		t.Fatalf("%s: exit code %d: %s", story, code, stderr)
	}
	const heading = "WHAT CAME OF IT"
	lines := strings.Split(told, "\n")
	at := slices.Index(lines, heading)
	if at < 0 || at+3 > len(lines) {
		t.Fatalf("%s does not say what came of it: %s", story, told)
	}
	var s strings.Builder
	fmt.Fprintf(&s, "```\n$ git clone URL countersign && cd countersign && ./run.sh | grep Disagreements\n")
	fmt.Fprintf(&s, "Disagreements between prediction and measurement: 0 of %d trials\n", trials)
	fmt.Fprintf(&s, "$ bin/countersign check --baseline results/reference/matrix | tail -n 1\n")
	fmt.Fprintf(&s, "Against the baseline: 0 regressions, 0 improvements, 0 changed, 0 new, 0 missing, %d the same; 0 with errors.\n", len(b.Entries))
	fmt.Fprintf(&s, "$ bin/countersign %s | grep -A 2 \"%s\"\n", story, heading)
	fmt.Fprintf(&s, "%s\n```\n", strings.Join(lines[at:at+3], "\n"))
	return s.String()
}

// readmeResults counts, as the matrix does, the variants that made an unauthorised
// effect in at least one scenario, and the twins that completed in all.
func readmeResults(t *testing.T, b *results.Baseline) string {
	var s strings.Builder
	columns := []string{}
	var titles []string
	variants, twins := 0, 0
	for _, f := range attacks.All() {
		variants, twins = variants+len(f.Variants), twins+len(f.Twins)
		columns = append(columns, f.ID)
		titles = append(titles, f.ID+" "+f.Title)
	}
	columns = append(columns, "benign")
	fmt.Fprintf(&s, "| | %s |\n|%s\n", strings.Join(columns, " | "), strings.Repeat(" --- |", len(columns)+1))
	for _, m := range modes.All() {
		fmt.Fprintf(&s, "| **%s** %s |", m.ID, m.Name)
		for i, c := range columns {
			k, n := b.Count(m.ID, c, results.Attack)
			if i == len(columns)-1 {
				k, n = b.Count(m.ID, "", results.Twin)
			}
			if n == 0 {
				t.Errorf("the baseline has nothing for %s and %s", m.ID, c)
			}
			fmt.Fprintf(&s, " %d/%d |", k, n)
		}
		s.WriteString("\n")
	}
	fmt.Fprintf(&s, "\n%s.\n", strings.Join(titles, ", "))
	fmt.Fprintf(&s, "\n%d variants and %d twins in %d scenarios.\n", variants, twins, len(b.Scenarios))
	return s.String()
}

// readmeAblation says what the reference ablation found.
func readmeAblation(t *testing.T, _ *results.Baseline) string {
	of, err := results.Open(filepath.Join(reference, "ablation"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := readAblation(of)
	if err != nil {
		t.Fatal(err)
	}
	if r.ExitCode() != 0 || !r.Whole {
		t.Errorf("the ablation is of a part of the catalogue, or has findings: %v, %v, %v", r.Disagreements, r.Errors, r.Idle)
	}
	conditions := map[string]string{}
	for _, v := range r.Variants {
		conditions[v.Attack+"/"+v.Variant] = v.Condition
	}
	for _, f := range attacks.All() {
		for _, v := range f.Variants {
			if is, ok := conditions[f.ID+"/"+v.Name]; !ok || is != v.Stopped.String() {
				t.Errorf("the ablation has %s/%s with %q, the catalogue with %q; %s", f.ID, v.Name, is, v.Stopped, howToUpdate)
			}
			delete(conditions, f.ID+"/"+v.Name)
		}
	}
	for name := range conditions {
		t.Errorf("the ablation has %s, and the catalogue has not", name)
	}
	alone, least, most := 0, len(r.Bindings), 0
	for _, b := range r.Singles {
		if len(b.Opened) > 0 {
			alone++
		}
	}
	for _, set := range r.Sufficient {
		least, most = min(least, len(set)), max(most, len(set))
	}
	if len(r.Essential) > 0 || len(r.Idle) > 0 {
		t.Errorf("the sentence below does not hold: essential are %v, in no cut %v", r.Essential, r.Idle)
	}
	return fmt.Sprintf("In %d trials the cuts found are the cuts predicted, for all variants in all scenarios. Of M9's %d bindings, %d let something\n"+
		"through when lost alone; the others are doubled, and each is in a cut of two or three. The smallest designs that block\n"+
		"as much, %d of them, have %d to %d bindings. [docs/ablation.md](docs/ablation.md) lists the cuts.\n",
		r.Trials, len(r.Bindings), alone, len(r.Sufficient), least, most)
}

// readmeOverlay is the reference's table of attacked pairs.
func readmeOverlay(t *testing.T, _ *results.Baseline) string {
	r, err := results.Open(filepath.Join(reference, "overlay"))
	if err != nil {
		t.Fatal(err)
	}
	tables, err := overlayTables(r)
	if err != nil || len(tables) != 1 {
		t.Fatalf("%d tables of the overlay, %v", len(tables), err)
	}
	var s strings.Builder
	for i, row := range append([][]string{tables[0].Header}, tables[0].Rows...) {
		if i == 0 {
			row = append([]string{""}, row[1:]...)
		} else {
			id, name, _ := strings.Cut(row[0], " ")
			row = append([]string{"**" + id + "** " + name}, row[1:]...)
		}
		fmt.Fprintf(&s, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintf(&s, "|%s\n", strings.Repeat(" --- |", len(row)))
		}
	}
	trials := r.Manifest.Records
	fmt.Fprintf(&s, "\n%d of 629 pairs make a scenario (in the others the user's task, or the injection, needs no call with a side effect,\nor a call does not fit its schema); %d trials, with %d twins completed of %d.\n",
		len(r.Catalogue.Scenarios), trials, r.Manifest.Observed[string(results.Completed)]-r.Manifest.Kinds[string(results.Honest)], r.Manifest.Kinds[string(results.Twin)])
	return s.String()
}

// readmeReplay counts what became of the calls in recorded traces.
func readmeReplay(t *testing.T, _ *results.Baseline) string {
	const pipeline = "gpt-4o-2024-05-13"
	code, text, stderr := command(t, t.Context(), "agentdojo", "replay", agentdojo.Require(t, "agentdojo", "runs", pipeline), "--json", "--quiet")
	if code != 0 {
		t.Fatalf("replaying: exit code %d: %s", code, stderr)
	}
	var sum harness.ReplaySummary
	if err := json.Unmarshal([]byte(text), &sum); err != nil {
		t.Fatal(err)
	}
	p := sum.Pipelines[0]
	var s strings.Builder
	fmt.Fprintf(&s, "Of %d recorded runs of %s, %d are replayed: %d undisturbed and %d under attack.\n\n", sum.Files, pipeline, sum.Replayed, p.Benign, p.Attacked)
	s.WriteString("| | injected calls executed | user calls executed | benign utility kept | prompts a task |\n| --- | --- | --- | --- | --- |\n")
	of := func(c harness.Count) string { return fmt.Sprintf("%d/%d", c.K, c.N) }
	for _, m := range p.Targets {
		fmt.Fprintf(&s, "| **%s** %s | %s | %s | %s | %.2f |\n", m.Target, m.Name, of(m.Executed[agentdojo.OwnerInjected]), of(m.Executed[agentdojo.OwnerUser]),
			of(m.Benign), float64(m.Prompts)/float64(m.Traces))
	}
	return s.String()
}
