// Package docs holds no code: the tests of this folder write its generated pages
// from the tables of the code, and fail when a page is out of date.
//
//	go test ./docs -update
package docs

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"countersign/attacks"
	"countersign/attacks/harness"
	"countersign/gateway/api"
	"countersign/modes"
	"countersign/results"
	"countersign/scenarios"
)

var update = flag.Bool("update", false, "write the generated pages")

// TestGeneratedPages holds each page against the code.
func TestGeneratedPages(t *testing.T) {
	for name, generate := range map[string]func(*testing.T, *page){
		"modes.md": modesPage, "attacks.md": attacksPage, "bindings.md": bindingsPage, "ablation.md": ablationPage, "traceability.md": traceabilityPage,
		"comparison.md": comparisonPage,
	} {
		t.Run(name, func(t *testing.T) {
			var p page
			generate(t, &p)
			if *update {
				if err := os.WriteFile(name, p.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Equal(text, p.Bytes()) {
				return
			}
			is, want := strings.Split(string(text), "\n"), strings.Split(p.String(), "\n")
			for i := range want {
				if i >= len(is) || is[i] != want[i] {
					t.Fatalf("%s is out of date from line %d on; write it with: go test ./docs -update\nwant %s", name, i+1, want[i])
				}
			}
			t.Fatalf("%s has lines too many; write it with: go test ./docs -update", name)
		})
	}
}

// TestScenarioTable holds the table in the scenarios' own page against the data.
func TestScenarioTable(t *testing.T) {
	path := filepath.Join("..", "scenarios", "README.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for _, s := range scenarios.All() {
		honest, _ := s.Tool(s.HonestTool)
		sibling, _ := s.Tool(s.SiblingTool)
		reference := "none"
		if f, ok := s.Field(scenarios.RoleReference); ok {
			reference = f.Reference
		}
		rows = append(rows, []string{code(s.ID), honest.Title, sibling.Title, reference, string(honest.Guarantee), s.Reader})
	}
	var p page
	p.table([]string{"id", "honest tool", "sibling tool", "reference", "guarantee", "reader"}, rows)
	block := regexp.MustCompile(`(?s)(<!-- table:begin[^>]*-->\n).*?(<!-- table:end -->)`)
	parts := block.FindSubmatchIndex(text)
	if parts == nil {
		t.Fatal("scenarios/README.md has no table")
	}
	want := slices.Concat(text[:parts[3]], p.Bytes(), text[parts[4]:])
	switch {
	case *update:
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	case !bytes.Equal(text, want):
		t.Error("the table in scenarios/README.md is out of date; write it with: go test ./docs -update")
	}
}

// A page is Markdown in the making.
type page struct{ bytes.Buffer }

func (p *page) line(format string, args ...any) { fmt.Fprintf(&p.Buffer, format+"\n", args...) }

func (p *page) head(title, source string) {
	p.line("<!-- Written from %s. Do not edit; run: go test ./docs -update -->", source)
	p.line("# %s\n", title)
}

// table writes a table. Cells keep no character that would end one.
func (p *page) table(header []string, rows [][]string) {
	p.row(header)
	p.row(slices.Repeat([]string{"---"}, len(header)))
	for _, r := range rows {
		p.row(r)
	}
	p.line("")
}

func (p *page) row(cells []string) {
	for i, c := range cells {
		cells[i] = strings.ReplaceAll(strings.Join(strings.Fields(c), " "), "|", "\\|")
	}
	p.line("| %s |", strings.Join(cells, " | "))
}

func code(names ...string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = "`" + n + "`"
	}
	return strings.Join(out, ", ")
}

func texts[T ~string](list []T) []string {
	out := make([]string, len(list))
	for i, x := range list {
		out[i] = string(x)
	}
	return out
}

func orDash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

// reference is a run of the committed reference.
func reference(t *testing.T, part string) *results.Run {
	t.Helper()
	r, err := results.Open(filepath.Join("..", "results", "reference", part))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// ablationPage writes the reference ablation, which a test of the command holds
// against the catalogue.
func ablationPage(t *testing.T, p *page) {
	data, err := reference(t, "ablation").ReadFile("ablation.json")
	if err != nil {
		t.Fatal(err)
	}
	var r harness.AblationReport
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	set := func(bs []api.Binding) string { return "`" + strings.Join(texts(bs), "`+`") + "`" }
	sets := func(list [][]api.Binding) string {
		var out []string
		for _, bs := range list {
			out = append(out, set(bs))
		}
		return orDash(strings.Join(out, ", "))
	}
	p.head("What each binding of M9 is for", "results/reference/ablation")
	p.line("M9 is deployed without parts of its bindings, and trials find for each variant the *minimal cuts*: the smallest sets of bindings whose")
	p.line("loss lets it through. `a`+`b` are both lost; the loss of either alone opens nothing. `countersign run --ablate M9` repeats it in five")
	p.line("minutes and holds the cuts against those that the stopping conditions predict. This page is from %d trials, with %d disagreements.\n", r.Trials, len(r.Disagreements))

	p.line("## The loss of one binding\n")
	var rows [][]string
	for _, s := range r.Singles {
		rows = append(rows, []string{code(string(s.Binding)), strconv.Itoa(len(s.Opened)), orDash(strings.Join(s.Opened, ", "))})
	}
	p.table([]string{"without", "variants", "that go through"}, rows)

	p.line("## Minimal cuts\n")
	rows = nil
	for _, v := range r.Variants {
		for _, place := range v.Places {
			where := "everywhere"
			if len(v.Places) > 1 {
				where = strings.Join(place.Scenarios, ", ")
			}
			rows = append(rows, []string{v.Attack + "/" + v.Variant, where, sets(place.Cuts)})
		}
	}
	p.table([]string{"variant", "scenarios", "cuts"}, rows)

	p.line("## Smallest designs that block as much\n")
	rows = nil
	for _, s := range r.Sufficient {
		lost := slices.DeleteFunc(slices.Clone(r.Bindings), func(b api.Binding) bool { return slices.Contains(s, b) })
		rows = append(rows, []string{strconv.Itoa(len(s)), code(texts(lost)...)})
	}
	p.table([]string{"bindings", "M9 without"}, rows)
}

// comparisonPage writes the modes beside the main table, and what the reference runs
// observed of them; a test of the command holds those runs against the modes.
func comparisonPage(t *testing.T, p *page) {
	observed := func(part string) *results.Baseline {
		r := reference(t, part)
		b, err := results.BaselineOf(r.Records(), r.Catalogue)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	main, beside := observed("matrix"), observed("beside")
	header := []string{""}
	for _, f := range attacks.All() {
		header = append(header, f.ID)
	}
	header = append(header, "all", "benign")
	counts := func(b *results.Baseline, id string) []string {
		row := []string{"**" + id + "**"}
		add := func(attack string, kind results.Kind) {
			k, n := b.Count(id, attack, kind)
			if n == 0 {
				t.Errorf("the reference run has nothing for %s and %s", id, attack)
			}
			row = append(row, fmt.Sprintf("%d/%d", k, n))
		}
		for _, f := range attacks.All() {
			add(f.ID, results.Attack)
		}
		add("", results.Attack)
		add("", results.Twin)
		return row
	}
	in := func(g modes.Group) []modes.Mode {
		return slices.DeleteFunc(modes.Beside(), func(m modes.Mode) bool { return m.Group != g })
	}
	trials, disagree := 0, 0
	for _, e := range beside.Entries {
		disagree += e.Disagrees
		for _, n := range e.Observed {
			trials += n
		}
	}

	p.head("Beside the nine designs", "package modes and the runs in results/reference")
	p.line("The [nine designs](modes.md) are the main table. So that it is no comparison with straw men, the same designs are also tried with")
	p.line("hygiene added, and so is what published texts require. `countersign run --beside` runs all of it and prints tables of their own;")
	p.line("`--modes M4+,RAR` runs some, and `countersign teardown`, `explain` and the other commands know the names too.\n")
	p.line("Modes model a published description, cited per binding; nothing is said about a product unless it ran as a target.\n")
	p.line("The counts are of %d trials in %d scenarios, of which %d contradict their prediction. As in the main table, k/n says that k of", trials, len(beside.Scenarios), disagree)
	p.line("n attack variants succeeded in some scenario, and, under *benign*, that k of n honest flows completed in every one.\n")

	p.line("## With hygiene\n")
	p.line("M1+ to M8+ are the designs with `strict`, `once`, `closed` and `idem` as far as they stay the same designs. Where a design has one")
	p.line("approval for many calls, or none that has a name, `once` and `idem` are no hygiene: with either of them honest calls that the design")
	p.line("is there for are not made, which a test shows by trials.\n")
	var rows, table [][]string
	for _, m := range in(modes.GroupHygiene) {
		base, err := modes.Get(strings.TrimSuffix(m.ID, "+"))
		if err != nil {
			t.Fatal(err)
		}
		added := slices.DeleteFunc(m.Bindings.List(), func(b api.Binding) bool { return base.Bindings[b] })
		rows = append(rows, []string{"**" + m.ID + "**", code(texts(added)...), base.ModelledOn, orDash(m.Note)})
		table = append(table, counts(main, base.ID), counts(beside, m.ID))
	}
	p.table([]string{"id", "adds", "the design is modelled on", "note"}, rows)
	p.table(header, table)

	p.line("## Published descriptions\n")
	p.line("A text often requires a part of what a binding checks, such as two of the arguments, and a mode has a binding or has it not. So each")
	p.line("text is read twice. The mode with the plain name has what the text requires whole; the one that ends in `.whole` has, as if it were")
	p.line("required whole, also what is required in part. More bindings never stop less, so **what the text itself stops is between the two")
	p.line("rows**. What a deployment does beyond the text is in neither.\n")
	table = nil
	for _, m := range in(modes.GroupPublished) {
		table = append(table, counts(beside, m.ID))
	}
	p.table(header, table)
	for _, m := range in(modes.GroupPublished) {
		whole, err := modes.Get(m.ID + ".whole")
		if err != nil {
			continue // it is one
		}
		p.line("### %s: %s\n", m.ID, m.Title)
		p.line("Modelled on %s. It carries `%s`: %s.\n", m.ModelledOn, m.Carrier, constants("../modes/carrier.go", "CarrierName")[string(m.Carrier)])
		rows = nil
		for _, c := range m.Clauses {
			required := "whole"
			if c.Part {
				required = "in part"
			}
			rows = append(rows, []string{code(string(c.Binding)), required, c.Source, c.Says})
		}
		p.table([]string{"binding", "required", "source", "what it says"}, rows)
		note := []rune(m.Note)
		p.line("%s%s.\n", strings.ToUpper(string(note[:1])), string(note[1:]))
		p.line("What is between the two rows, and so is stopped only as far as the part that is required reaches:\n")
		rows = nil
		for _, f := range attacks.All() {
			var names []string
			for _, v := range f.Variants {
				if executed(beside, m.ID, f.ID, v.Name) > executed(beside, whole.ID, f.ID, v.Name) {
					names = append(names, v.Name)
				}
			}
			if len(names) > 0 {
				rows = append(rows, []string{f.ID, strconv.Itoa(len(names)), code(names...)})
			}
		}
		p.table([]string{"attack", "variants", ""}, rows)
	}
}

// executed counts the scenarios in which a variant succeeded.
func executed(b *results.Baseline, target, attack, variant string) int {
	for _, e := range b.Entries {
		if e.Target == target && e.Attack == attack && e.Variant == variant && e.Kind == results.Attack {
			return e.Observed[results.Executed]
		}
	}
	return 0
}

func modesPage(_ *testing.T, p *page) {
	p.head("The approval designs", "the table in package modes")
	p.line("A mode is a set of [bindings](bindings.md) and a way in which the approval travels from the decision to the dispatch.")
	p.line("Each is what a competent engineer who chose that design would write; no line exists so that an attack works.")
	p.line("M0 is the control. `countersign run --modes M9-args-once` runs M9 without the bindings named. [comparison.md](comparison.md) has the")
	p.line("same designs with hygiene, and modes made of published texts.\n")
	all := modes.All()
	var rows [][]string
	for _, m := range all {
		rows = append(rows, []string{"**" + m.ID + "**", code(m.Name), m.Title, code(string(m.Carrier)), m.ModelledOn, orDash(m.Note)})
	}
	p.table([]string{"id", "name", "what the design does", "carries", "modelled on", "note"}, rows)

	p.line("## Modes × bindings\n")
	p.line("● is enforced; ○ comes with a stronger binding (`once` for `seen`, `suspension` for `run` and `call`).\n")
	header := []string{"binding"}
	for _, m := range all {
		header = append(header, m.ID)
	}
	rows = nil
	for _, b := range api.Bindings() {
		row := []string{code(string(b))}
		for _, m := range all {
			switch {
			case m.Bindings[b]:
				row = append(row, "●")
			case m.Has(b):
				row = append(row, "○")
			default:
				row = append(row, "")
			}
		}
		rows = append(rows, row)
	}
	p.table(header, rows)

	p.line("## What a design carries\n")
	docs := constants("../modes/carrier.go", "CarrierName")
	rows = nil
	for _, m := range all {
		if d := docs[string(m.Carrier)]; d != "" && !slices.ContainsFunc(rows, func(r []string) bool { return r[0] == code(string(m.Carrier)) }) {
			rows = append(rows, []string{code(string(m.Carrier)), d})
		}
	}
	p.table([]string{"name", "meaning"}, rows)
}

func bindingsPage(t *testing.T, p *page) {
	p.head("The bindings", "package api, the modes and the conditions of the attacks")
	p.line("A binding is one independent check that ties an execution to an approval. Checks read and change nothing; the approval is")
	p.line("spent after all of them have passed. A binding that compares is worth nothing unless what it compares with is authentic:")
	p.line("`record`, or `signed`, or `attest` with `challenge`. `once` does what `seen` does, `suspension` what `run` and `call` do.\n")
	docs := constants("../gateway/api/binding.go", "Binding")
	var rows [][]string
	for _, b := range api.Bindings() {
		d := docs[string(b)]
		if d == "" {
			t.Errorf("the constant of %s has no comment", b)
		}
		var in []string
		for _, m := range modes.All() {
			if m.Has(b) {
				in = append(in, m.ID)
			}
		}
		var stops []string
		for _, f := range attacks.All() {
			if slices.ContainsFunc(f.Variants, func(v attacks.Variant) bool { return slices.Contains(v.Stopped.Bindings(), b) }) {
				stops = append(stops, f.ID)
			}
		}
		rows = append(rows, []string{code(string(b)), d, strings.Join(in, " "), strings.Join(stops, " ")})
	}
	p.table([]string{"binding", "the check", "in", "has a part in stopping"}, rows)

	p.line("## What is lost without it\n")
	p.line("The smallest group of bindings, this one among them, without which M9 lets an attack through that it stops as long as any of")
	p.line("the group is there. Bindings that appear in groups only double each other. The groups are computed from the conditions")
	p.line("(for a provider that answers look-ups) and measured by the ablation test of attacks/harness.\n")
	rows = nil
	for _, b := range api.Bindings() {
		group, variant := smallestLoss(b)
		if group == nil {
			t.Errorf("no loss of %s opens anything", b)
		}
		rows = append(rows, []string{code(string(b)), code(texts(group)...), variant})
	}
	p.table([]string{"binding", "smallest loss", "lets through, for one"}, rows)
}

// smallestLoss finds the first smallest minimal cut that has b.
func smallestLoss(b api.Binding) (group []api.Binding, variant string) {
	for _, f := range attacks.All() {
		for _, v := range f.Variants {
			opens := func(lost []api.Binding) bool {
				left := slices.DeleteFunc(api.Bindings(), func(x api.Binding) bool { return slices.Contains(lost, x) })
				return !v.Stopped.Holds(left, string(api.GuaranteeLookup))
			}
			lost := api.Bindings()
			for _, x := range api.Bindings() {
				rest := slices.DeleteFunc(slices.Clone(lost), func(y api.Binding) bool { return y == x })
				if x != b && opens(rest) {
					lost = rest
				}
			}
			rest := slices.DeleteFunc(slices.Clone(lost), func(y api.Binding) bool { return y == b })
			if !opens(rest) && (group == nil || len(lost) < len(group)) {
				group, variant = lost, f.ID+" "+code(v.Name)
			}
		}
	}
	return group, variant
}

func attacksPage(_ *testing.T, p *page) {
	p.head("The attacks", "the catalogue in package attacks")
	variants, twins := 0, 0
	for _, f := range attacks.All() {
		variants += len(f.Variants)
		twins += len(f.Twins)
	}
	p.line("Twelve families, %d variants, %d benign twins, over %d scenarios. A variant is an honest flow with one hostile step.", variants, twins, len(scenarios.All()))
	p.line("*Stopped by* is its stopping condition over [bindings](bindings.md): a mode is predicted to block it iff its bindings satisfy")
	p.line("the condition; `@idempotent` and its like are facts about the provider. *Counts if* lists the referee's reasons that make it a")
	p.line("success, where {role} stands for the field that plays a role in the scenario. A twin must complete in every mode.\n")

	p.line("## Capabilities of the adversary\n")
	docs := constants("../attacks/attacks.go", "Capability")
	used := map[string]int{}
	for _, f := range attacks.All() {
		for _, v := range f.Variants {
			for _, u := range v.Uses {
				used[string(u)]++
			}
		}
	}
	var rows [][]string
	for _, c := range slices.Sorted(maps.Keys(docs)) {
		rows = append(rows, []string{code(c), docs[c], strconv.Itoa(used[c])})
	}
	p.table([]string{"name", "the adversary can", "variants"}, rows)
	p.line("Never: forge a signature, hold the agent's or the approver's key, write the approval store but through its decision address,")
	p.line("read or change the gateway's memory, control the approver's browser.\n")

	incidents := map[int][]string{}
	for _, f := range attacks.All() {
		p.line("## %s %s\n", f.ID, f.Title)
		p.line("Mainly stopped by `%s`.\n", f.Main)
		rows = nil
		for _, v := range f.Variants {
			also := ""
			if len(v.AlsoNamed) > 0 {
				also = " (a look-up may name " + code(texts(v.AlsoNamed)...) + ")"
			}
			rows = append(rows, []string{code(v.Name) + ": " + v.Summary, code(texts(v.Uses)...), code(v.Stopped.String()) + also,
				code(v.Success...), orDash(strings.Join(v.References, ", "))})
		}
		p.table([]string{"variant", "uses", "stopped by", "counts if", "references"}, rows)
		for _, v := range f.Twins {
			p.line("Twin `%s`: %s. Effects: %d.\n", v.Name, v.Summary, v.Effects)
		}
		for _, v := range slices.Concat(f.Variants, f.Twins) {
			for _, r := range v.References {
				if n, err := strconv.Atoi(strings.TrimPrefix(r, "incident ")); err == nil {
					incidents[n] = append(incidents[n], f.ID+" "+code(v.Name))
				}
			}
		}
		notApplicable(p, f)
	}

	p.line("## Field incidents reproduced\n")
	p.line("Public reports in which an approval gate failed. `test` names a test of what lies below the public interface.\n")
	rows = nil
	for _, r := range attacks.Reproductions(attacks.All()) {
		by := incidents[r.Number]
		for _, name := range r.Tests {
			by = append(by, "test "+code(name))
		}
		rows = append(rows, []string{strconv.Itoa(r.Number), r.Source, r.Title, orDash(strings.Join(by, ", ") + r.Why)})
	}
	p.table([]string{"incident", "report", "what went wrong", "reproduced by"}, rows)
}

// traceabilityPage writes the table of claims, after its check.
func traceabilityPage(t *testing.T, p *page) {
	var designs []attacks.Design
	for _, m := range modes.All() {
		designs = append(designs, attacks.Design{ID: m.ID, Bindings: m.Bindings.List()})
	}
	rows, err := attacks.Trace(attacks.All(), designs)
	if err != nil {
		t.Fatal(err)
	}
	p.head("Traceability", "the claims, the catalogue and the modes")
	p.line("What Countersign is to show, and by which variants, designs, incidents, tests and alerts: the cases of `countersign teardown`,")
	p.line("the gaps between an approval and its execution, the checklist of a gate, and public incidents. A row is a claim and a selection")
	p.line("of variants; everything else follows. A test fails if a cell is empty without a reason, if a variant, a twin, an incident, a case or an alert")
	p.line("is in no row, or if a test that is named does not exist. `countersign attacks --trace` prints the table, with `--json` in full.\n")
	p.line("*Blocked* and *let through* are predictions: a design blocks a row iff it blocks each of its attacks in each scenario; k/n says how")
	p.line("many it lets through in some scenario. `TestMatrix` tries every variant and twin against every design and holds the ledger against this.\n")

	for _, x := range []struct {
		kind  attacks.Kind
		title string
	}{{attacks.KindCase, "Cases of the teardown"}, {attacks.KindGap, "Gaps"}, {attacks.KindItem, "Checklist"}} {
		p.line("## %s\n", x.title)
		var overview [][]string
		var of []attacks.Row
		for _, r := range rows {
			if r.Kind != x.kind {
				continue
			}
			of = append(of, r)
			line := []string{r.Name, r.Text}
			for _, c := range r.Kind.Columns() {
				text := strings.Join(r.Cells[c], ", ")
				if c == attacks.ColAttacks || c == attacks.ColTwins || c == attacks.ColTests {
					text = strconv.Itoa(len(r.Cells[c]))
				}
				line = append(line, orDash(text))
			}
			overview = append(overview, line)
		}
		header := []string{string(x.kind), "what it says"}
		for _, c := range x.kind.Columns() {
			header = append(header, columnTitles[c])
		}
		p.table(header, overview)
		for _, r := range of {
			p.line("**%s**\n", r.Name)
			for _, c := range []attacks.Column{attacks.ColAttacks, attacks.ColTwins, attacks.ColTests} {
				if len(r.Cells[c]) > 0 {
					p.line("- %s: %s", columnTitles[c], code(r.Cells[c]...))
				}
			}
			for _, c := range x.kind.Columns() {
				if why := r.None[c]; why != "" {
					p.line("- nothing under *%s*: %s", columnTitles[c], why)
				}
			}
			p.line("")
		}
	}

	p.line("## Incidents\n")
	p.line("[What each is and where it was reported](attacks.md#field-incidents-reproduced).\n")
	var table [][]string
	for _, r := range rows {
		if r.Kind != attacks.KindIncident {
			continue
		}
		line := []string{r.Name, r.Text}
		for _, c := range r.Kind.Columns() {
			text := strings.Join(r.Cells[c], ", ")
			if c == attacks.ColAttacks || c == attacks.ColTwins || c == attacks.ColTests {
				text = code(r.Cells[c]...)
			}
			if why := r.None[c]; why != "" {
				text = "none: " + why
			}
			line = append(line, text)
		}
		table = append(table, line)
	}
	header := []string{"incident", "what went wrong"}
	for _, c := range attacks.KindIncident.Columns() {
		header = append(header, columnTitles[c])
	}
	p.table(header, table)

	p.line("## Alerts\n")
	p.line("What an operator is called for. The last one is no line of the log: `countersign audit alerts` finds it where the log is held against the")
	p.line("provider's ledger, in designs that let the attack through; M9 refuses what raises the others. No twin raises any.\n")
	table = nil
	for _, a := range attacks.Alarms() {
		table = append(table, []string{string(a.Alert), code(a.Attacks...), code(a.Twins...)})
	}
	p.table([]string{"alert", "has to be raised by", "and not by, for one"}, table)
}

var columnTitles = map[attacks.Column]string{
	attacks.ColAttacks: "attacks", attacks.ColTwins: "twins", attacks.ColBlocked: "blocked by", attacks.ColThrough: "let through by",
	attacks.ColIncidents: "incidents", attacks.ColTests: "tests", attacks.ColAlerts: "alerts", attacks.ColClaims: "claims",
}

// notApplicable lists where variants of a family are not tried, and why.
func notApplicable(p *page, f attacks.Family) {
	type cell struct{ variant, reason string }
	var order []cell
	where := map[cell][]string{}
	for _, v := range slices.Concat(f.Variants, f.Twins) {
		for _, sc := range scenarios.All() {
			if why := v.NotApplicable(sc); why != "" {
				c := cell{v.Name, why}
				if where[c] == nil {
					order = append(order, c)
				}
				where[c] = append(where[c], sc.ID)
			}
		}
	}
	if len(order) == 0 {
		return
	}
	p.line("Not applicable:\n")
	for _, c := range order {
		p.line("- `%s` in %s: %s.", c.variant, strings.Join(where[c], ", "), strings.TrimSuffix(c.reason, "."))
	}
	p.line("")
}

// constants returns the comments of the string constants of a type, by value.
func constants(file, typ string) map[string]string {
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		panic(err)
	}
	out, names := map[string]string{}, map[string]string{}
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			v := s.(*ast.ValueSpec)
			if id, ok := v.Type.(*ast.Ident); !ok || id.Name != typ || len(v.Values) != 1 {
				continue
			}
			value, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				panic(err)
			}
			names[v.Names[0].Name] = value
			text := v.Doc.Text() + v.Comment.Text()
			out[value] = strings.TrimSuffix(strings.TrimSpace(strings.TrimPrefix(text, v.Names[0].Name+" ")), ".")
		}
	}
	for value, text := range out { // a page knows the values and not their names in Go
		out[value] = regexp.MustCompile(`\b[A-Z]\w+\b`).ReplaceAllStringFunc(text, func(word string) string {
			if v, ok := names[word]; ok {
				return code(v)
			}
			return word
		})
	}
	return out
}

// TestArchitecturePage: the hand-written page names every package, and no other.
func TestArchitecturePage(t *testing.T) {
	text, err := os.ReadFile("architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z/]+)` \\|").FindAllStringSubmatch(string(text), -1) {
		named[m[1]] = true
	}
	there := map[string]bool{}
	err = filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || len(d.Name()) > 2 && d.Name()[0] == '.') {
			return filepath.SkipDir
		}
		if strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			there[strings.TrimPrefix(filepath.ToSlash(filepath.Dir(name)), "../")] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	delete(there, "..")
	if a, b := slices.Sorted(maps.Keys(named)), slices.Sorted(maps.Keys(there)); !slices.Equal(a, b) {
		t.Errorf("architecture.md has a row for\n%v, and the packages are\n%v", a, b)
	}
	for _, m := range regexp.MustCompile(`\]\(([^)#]+)\)`).FindAllStringSubmatch(string(text), -1) {
		if _, err := os.Stat(m[1]); err != nil {
			t.Errorf("architecture.md links to %s: %v", m[1], err)
		}
	}
}
