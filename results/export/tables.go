package export

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"countersign/results"
	"countersign/results/stats"
)

// Tables returns the tables of the text and Markdown forms, disagreements first.
func Tables(a *results.Analysis) []Table {
	tables := []Table{disagreements(a)}
	if len(a.Errors) > 0 {
		tables = append(tables, failures(a))
	}
	for _, g := range groups(a) {
		tables = append(tables, success(a, g))
	}
	for _, g := range groups(a) {
		tables = append(tables, benign(a, g))
	}
	tables = append(tables, comparisons(a))
	if len(a.Comparisons) > 0 {
		tables = append(tables, effects(a))
	}
	for _, g := range groups(a) {
		tables = append(tables, totals(a, g))
	}
	if len(a.WrongReasons) > 0 {
		tables = append(tables, wrongReasons(a))
	}
	if len(a.NotApplicable) > 0 {
		tables = append(tables, notApplicable(a))
	}
	if notes := remarks(a); len(notes) > 0 {
		tables = append(tables, Table{Name: "remarks", Title: "Remarks", Notes: notes})
	}
	return tables
}

const (
	listed   = 40 // rows of a list in the text form
	listFold = 20
	nameFold = 16
)

func trial(r results.Record) []string {
	return []string{r.Target, r.Attack + " " + r.Variant, r.Scenario, string(r.Kind)}
}

func disagreements(a *results.Analysis) Table {
	t := Table{Name: "disagreements", Names: 9, Fold: listFold, Most: listed,
		Header: []string{"target", "variant", "scenario", "kind", "predicted", "observed", "refused by", "reasons"}}
	for _, r := range a.Disagreements {
		t.Rows = append(t.Rows, append(trial(r), string(r.Predicted), string(r.Observed), list(r.RefusedBy), list(r.Reasons)))
	}
	t.Title = fmt.Sprintf("Disagreements between prediction and measurement: %d of %s", len(t.Rows), plural(a.Records, "trial"))
	return t
}

func failures(a *results.Analysis) Table {
	t := Table{Name: "errors", Names: 5, Fold: 44, Most: listed,
		Header: []string{"target", "variant", "scenario", "kind", "error"}}
	for _, r := range a.Errors {
		t.Rows = append(t.Rows, append(trial(r), r.Detail))
	}
	t.Title = fmt.Sprintf("Cannot tell: %s could not be carried out", plural(len(t.Rows), "trial"))
	return t
}

func wrongReasons(a *results.Analysis) Table {
	t := Table{Name: "wrong-reasons", Names: 6, Fold: 26, Most: listed,
		Header: []string{"target", "variant", "scenario", "kind", "refused by", "condition"}}
	for _, r := range a.WrongReasons {
		t.Rows = append(t.Rows, append(trial(r.Record), list(r.Record.RefusedBy), r.Condition))
	}
	t.Title = fmt.Sprintf("Blocked for another reason than the variant's condition: %s", plural(len(t.Rows), "trial"))
	return t
}

func notApplicable(a *results.Analysis) Table {
	t := Table{Name: "not-applicable", Names: 2, Fold: 46, Most: listed, Header: []string{"reason", "scenarios", "pairs", "variants"}}
	pairs := 0
	for _, u := range a.NotApplicable {
		pairs += u.Pairs
		t.Rows = append(t.Rows, []string{u.Reason, list(u.Scenarios), fmt.Sprint(u.Pairs), fmt.Sprint(len(u.Variants))})
	}
	t.Title = fmt.Sprintf("Not applicable: %s of variant and scenario", plural(pairs, "pair"))
	return t
}

// A group is the rows of one table. Those of the main table have no heading.
type group struct {
	heading string
	rows    []results.Row
}

// groups returns the main table's rows, then those of each other group in the order
// in which the groups appear.
func groups(a *results.Analysis) []group {
	var out []group
	for _, r := range a.Rows {
		i := slices.IndexFunc(out, func(g group) bool { return g.heading == r.Target.Group })
		if i < 0 {
			i = len(out)
			out = append(out, group{heading: r.Target.Group})
		}
		out[i].rows = append(out[i].rows, r)
	}
	slices.SortStableFunc(out, func(a, b group) int { return cmp.Compare(min(len(a.heading), 1), min(len(b.heading), 1)) })
	return out
}

// title adds the group's heading to a table's subject.
func (g group) title(subject string) string {
	if g.heading == "" {
		return subject
	}
	return subject + ", " + g.heading
}

// name is the heading as a part of a file's name.
func (g group) name() string {
	return strings.Trim(notName.ReplaceAllString(strings.ToLower(g.heading), "-"), "-")
}

var notName = regexp.MustCompile(`[^a-z0-9]+`)

// sources says what the rows beside the main table are modelled on.
func (g group) sources() (notes []string) {
	if g.heading == "" {
		return nil
	}
	for _, r := range g.rows {
		if r.Target.ModelledOn != "" {
			notes = append(notes, r.Target.ID+": "+r.Target.ModelledOn+".")
		}
	}
	return notes
}

func success(a *results.Analysis, g group) Table {
	t := Table{Name: "success", Group: g.name(), Title: g.title("Attack success") + ": variants executed in at least one scenario", Names: 1, Fold: nameFold, Stack: true,
		Header: []string{"target"}}
	var titles []string
	for _, k := range a.Attacks {
		t.Header = append(t.Header, k.ID)
		titles = append(titles, k.ID+" "+k.Title)
	}
	t.Header = append(t.Header, "benign")
	for _, r := range g.rows {
		row := []string{label(r.Target)}
		for _, c := range r.Cells {
			row = append(row, cell(c.Success))
		}
		t.Rows = append(t.Rows, append(row, cell(r.Benign)))
	}
	t.Notes = []string{
		"k/n: k of n attack variants made an unauthorised effect (lower is better); benign: twins completed in every scenario (higher is better).",
		legend, strings.Join(titles, "; ") + ".",
	}
	if g.heading != "" && len(groups(a)) > 1 { // the main table has said so
		t.Notes = nil
	}
	t.Notes = append(g.sources(), t.Notes...)
	return t
}

const legend = "Beside or below a count, variants with such a trial: ? cannot tell, with e errors; u not implemented by the target; " +
	"s starved (fewer effects than stated); ~ races that nobody scheduled. Errors and u are not in n. -: not tried."

func benign(a *results.Analysis, g group) Table {
	t := Table{Name: "benign", Group: g.name(), Title: g.title("Benign success") + ": twins completed in every scenario", Names: 1, Fold: nameFold, Stack: true, Header: []string{"target"}}
	for _, k := range a.Attacks {
		t.Header = append(t.Header, k.ID)
	}
	t.Header = append(t.Header, "honest")
	for _, r := range g.rows {
		row := []string{label(r.Target)}
		for _, c := range r.Cells {
			row = append(row, cell(c.Benign))
		}
		t.Rows = append(t.Rows, append(row, cell(r.Honest)))
	}
	t.Notes = []string{"honest: scenarios whose plain run, without any adversary, completed. Marks as above."}
	return t
}

func comparisons(a *results.Analysis) Table {
	t := Table{Name: "mcnemar", Title: "Paired comparison with the reference (McNemar over attack variants)", Names: 1, Fold: nameFold,
		Header: []string{"target", "variants", "both", "b", "c", "neither", "pairs", "unpaired", "exact p", "mid-p", "Holm exact", "Holm mid-p"}}
	if len(a.Comparisons) == 0 {
		t.Notes = []string{"None."}
		return t
	}
	warnings := map[string][]string{}
	var order []string
	for _, c := range a.Comparisons {
		row := []string{c.Target}
		for _, n := range []int{c.Variants, c.Both, c.B, c.C, c.Neither, c.Pairs, c.Unpaired} {
			row = append(row, strconv.Itoa(n))
		}
		for _, p := range []float64{c.Exact, c.MidP, c.HolmExact, c.HolmMidP} {
			row = append(row, pvalue(p))
		}
		t.Rows = append(t.Rows, row)
		for _, w := range c.Warnings {
			if warnings[w] == nil {
				order = append(order, w)
			}
			warnings[w] = append(warnings[w], c.Target)
		}
	}
	t.Notes = append(t.Notes, fmt.Sprintf("Reference %s. b: executed against the reference only; c: against the target only. Holm over %s.",
		a.Comparisons[0].Reference, plural(a.Comparisons[0].Family, "comparison")))
	for _, w := range order {
		who := strings.Join(warnings[w], ", ")
		if len(warnings[w]) == len(a.Comparisons) {
			who = "all"
		}
		t.Notes = append(t.Notes, "Warning ("+who+"): "+w+".")
	}
	return t
}

// effects says how large what [comparisons] tests is.
func effects(a *results.Analysis) Table {
	t := Table{Name: "effects", Title: "Effect sizes of the paired comparison", Names: 1, Fold: nameFold,
		Header: []string{"target", "target's", "reference", "difference", "95 % interval", "odds ratio", "95 % interval"}}
	for _, c := range a.Comparisons {
		row := []string{c.Target, "-", "-", "-", "-"}
		if c.Difference != nil {
			n := float64(c.Variants)
			row = []string{c.Target, fmt.Sprintf("%.2f", float64(c.Both+c.C)/n), fmt.Sprintf("%.2f", float64(c.Both+c.B)/n), number(c.Difference.Value), span(*c.Difference)}
		}
		t.Rows = append(t.Rows, append(row, number(c.Odds.Value), span(c.Odds)))
	}
	t.Notes = []string{fmt.Sprintf("Shares of the same variants that were executed, against the target and against %s. difference: the first less the second, with Newcombe's interval for pairs; "+
		"odds ratio: c to b, with the exact conditional interval. They describe these variants.", a.Comparisons[0].Reference)}
	return t
}

// number writes a number that may be none or without a bound.
func number(x float64) string {
	switch {
	case math.IsNaN(x):
		return "-"
	case math.IsInf(x, 1):
		return "unbounded"
	case x != 0 && math.Abs(x) < 0.005:
		return fmt.Sprintf("%.4f", x)
	}
	return fmt.Sprintf("%.2f", x+0) // no negative naught
}

func span(e stats.Estimate) string { return number(e.Lo) + " to " + number(e.Hi) }

func totals(a *results.Analysis, g group) Table {
	t := Table{Name: "totals", Group: g.name(), Title: g.title("Over all families"), Names: 1, Fold: nameFold,
		Header: []string{"target", "predicted", "executed", "share", "95 % interval", "benign", "share", "95 % interval", "asked"}}
	for _, r := range g.rows {
		row := []string{label(r.Target), "-"}
		if r.Success.N > 0 {
			row[1] = fmt.Sprintf("%d/%d", r.Success.Predicted, r.Success.N)
		}
		for _, y := range []results.Tally{r.Success, r.Benign} {
			share, interval := "-", "-"
			if y.Interval != nil {
				share = fmt.Sprintf("%.2f", y.Interval.Estimate)
				interval = fmt.Sprintf("%.2f to %.2f", y.Interval.Lo, y.Interval.Hi)
			}
			row = append(row, cell(y), share, interval)
		}
		asked := "-"
		if r.Burden.Trials > 0 {
			asked = fmt.Sprintf("%.2f", r.Burden.PerTrial())
		}
		t.Rows = append(t.Rows, append(row, asked))
	}
	t.Notes = []string{
		"Wilson intervals, descriptive: the unit is the variant, and variants are no random sample. Marks as above.",
		"predicted: variants that the design's bindings let one expect to be executed, of the same n. asked: how often a person is asked in a plain run or twin.",
	}
	return t
}

func remarks(a *results.Analysis) []string {
	var notes []string
	for _, group := range a.Identical {
		notes = append(notes, strings.Join(group, ", ")+" have the same outcome in every attack variant.")
	}
	for _, w := range a.Warnings {
		notes = append(notes, "Warning: "+w+".")
	}
	return notes
}

const cellsName = "cells"

// Cells returns the counts of every target and attack, one row each; the form
// for further computation.
func Cells(a *results.Analysis) Table {
	t := Table{Name: cellsName, Title: "Counts by target and attack", Names: 4,
		Header: []string{"target", "target_name", "attack", "kind", "predicted", "k", "n", "lo95", "hi95", "every", "some", "none",
			"errors", "unimplemented", "starved", "held", "nondeterministic", "cannot_tell"}}
	for _, r := range a.Rows {
		for _, c := range r.Cells {
			for _, y := range []struct {
				kind results.Kind
				results.Tally
			}{{results.Attack, c.Success}, {results.Twin, c.Benign}} {
				lo, hi := "", ""
				if y.Interval != nil {
					lo, hi = fmt.Sprintf("%.6f", y.Interval.Lo), fmt.Sprintf("%.6f", y.Interval.Hi)
				}
				row := []string{r.Target.ID, r.Target.Name, c.Attack, string(y.kind), strconv.Itoa(y.Predicted), strconv.Itoa(y.K), strconv.Itoa(y.N), lo, hi}
				for _, n := range []int{y.Every, y.Some, y.None, y.Errors, y.Unimplemented, y.Starved, y.Held, y.Nondeterministic} {
					row = append(row, strconv.Itoa(n))
				}
				t.Rows = append(t.Rows, append(row, strconv.FormatBool(y.CannotTell())))
			}
		}
	}
	return t
}

// cell writes k/n and what is not in it.
func cell(y results.Tally) string {
	words := []string{fmt.Sprintf("%d/%d", y.K, y.N)}
	if y.N == 0 {
		words[0] = "-"
	}
	mark := func(prefix string, n int) {
		if n > 0 {
			words = append(words, prefix+strconv.Itoa(n))
		}
	}
	mark("?e", y.Errors)
	mark("u", y.Unimplemented)
	mark("s", y.Starved)
	mark("~", y.Nondeterministic)
	return strings.Join(words, " ")
}

func label(t results.TargetInfo) string {
	if t.Name == "" || t.Name == t.ID {
		return t.ID
	}
	return t.ID + " " + t.Name
}

func list(s []string) string {
	if len(s) == 0 {
		return "-"
	}
	return strings.Join(s, ", ")
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

func pvalue(p float64) string {
	if p < 0.0001 {
		return "< 0.0001"
	}
	return fmt.Sprintf("%.4f", p)
}
