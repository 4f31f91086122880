package results

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"
)

// BaselineSchema is the version of the baseline file.
const BaselineSchema = 1

// A Baseline is what is known and accepted of a set of targets: one line for each
// target and variant, fit for review and version control. It has no clock and no
// names of machines, so equal runs give equal bytes.
type Baseline struct {
	Schema int `json:"schema"` // [BaselineSchema]
	// Counts are over these, so only runs over the same ones can be compared.
	Scenarios []string        `json:"scenarios"`
	Seeds     []uint64        `json:"seeds"`
	Approvers []string        `json:"approvers"`
	Entries   []BaselineEntry `json:"entries"`
	// ofRun says that it was counted, so that no entry stands on a line of a file.
	ofRun bool
}

// A BaselineEntry counts the trials of one variant against one target.
type BaselineEntry struct {
	Target  string `json:"target"`
	Attack  string `json:"attack"`
	Variant string `json:"variant"`
	Kind    Kind   `json:"kind"`
	// Observed are the trials by outcome.
	Observed map[Observation]int `json:"observed"`
	// RefusedBy names every binding that refused in some trial.
	RefusedBy []string `json:"refused_by"`
	// Disagrees counts trials that contradict their prediction, WrongReason those
	// that were blocked by something else than the variant's condition names,
	// Nondeterministic races that nobody scheduled.
	Disagrees        int `json:"disagrees,omitempty"`
	WrongReason      int `json:"wrong_reason,omitempty"`
	Nondeterministic int `json:"nondeterministic,omitempty"`
}

// Name is "target attack/variant", with the kind where it is no attack.
func (e BaselineEntry) Name() string {
	s := e.Target + " " + e.Attack + "/" + e.Variant
	if e.Kind != Attack {
		s += " (" + string(e.Kind) + ")"
	}
	return s
}

// Outcomes writes the counts, such as "refused 6, held 1".
func (e BaselineEntry) Outcomes() string {
	var parts []string
	for _, o := range Observations() {
		if n := e.Observed[o]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", o, n))
		}
	}
	return strings.Join(parts, ", ")
}

// good counts the trials that went as they should whatever was predicted: an
// attack was blocked, a benign flow completed.
func (e BaselineEntry) good() int {
	if e.Kind != Attack {
		return e.Observed[Completed]
	}
	return e.Observed[Refused] + e.Observed[Held] + e.Observed[Reasked] + e.Observed[Absorbed]
}

func (e BaselineEntry) trials() (n int) {
	for _, m := range e.Observed {
		n += m
	}
	return n
}

type entryKey struct {
	target, attack, variant string
	kind                    Kind
}

func (e BaselineEntry) key() entryKey { return entryKey{e.Target, e.Attack, e.Variant, e.Kind} }

func compareEntries(a, b BaselineEntry) int {
	return cmp.Or(
		strings.Compare(a.Target, b.Target),
		cmp.Compare(len(a.Attack), len(b.Attack)), // AB2 before AB10
		strings.Compare(a.Attack, b.Attack),
		strings.Compare(string(a.Kind), string(b.Kind)),
		strings.Compare(a.Variant, b.Variant),
	)
}

// BaselineOf summarises records. Errors are those of [Analyse].
func BaselineOf(records iter.Seq2[Record, error], c Catalogue) (*Baseline, error) {
	fail := func(err error) (*Baseline, error) { return nil, fmt.Errorf("making a baseline: %w", err) }
	if err := c.Validate(); err != nil {
		return fail(err)
	}
	k := newCollector(c)
	entries := map[entryKey]*BaselineEntry{}
	of := func(r Record) *BaselineEntry {
		key := entryKey{r.Target, r.Attack, r.Variant, r.Kind}
		if entries[key] == nil {
			entries[key] = &BaselineEntry{Target: r.Target, Attack: r.Attack, Variant: r.Variant, Kind: r.Kind,
				Observed: map[Observation]int{}, RefusedBy: []string{}}
		}
		return entries[key]
	}
	scenarios, seeds := map[string]bool{}, map[uint64]bool{}
	for r, err := range records {
		if err == nil {
			err = k.add(r)
		}
		if err != nil {
			return fail(err)
		}
		scenarios[r.Scenario], seeds[r.Seed] = true, true
		e := of(r)
		e.Observed[r.Observed]++
		for _, by := range r.RefusedBy {
			if !slices.Contains(e.RefusedBy, by) {
				e.RefusedBy = append(e.RefusedBy, by)
			}
		}
		if r.Nondeterministic {
			e.Nondeterministic++
		}
	}
	if len(entries) == 0 {
		return fail(errors.New("there are no records"))
	}
	for _, r := range k.a.Disagreements {
		of(r).Disagrees++
	}
	for _, w := range k.a.WrongReasons {
		of(w.Record).WrongReason++
	}
	b := &Baseline{Schema: BaselineSchema, Scenarios: sortedKeys(scenarios), Seeds: slices.Sorted(maps.Keys(seeds)), Approvers: sortedKeys(k.approvers)}
	for _, e := range entries {
		slices.Sort(e.RefusedBy)
		b.Entries = append(b.Entries, *e)
	}
	slices.SortFunc(b.Entries, compareEntries)
	return b, nil
}

// Count counts the variants of one kind of a target, of one attack or, for an empty
// one, of all: of n, k executed in some scenario, or, where the kind is benign,
// completed in every one.
func (b *Baseline) Count(target, attack string, kind Kind) (k, n int) {
	for _, e := range b.Entries {
		if e.Target != target || e.Kind != kind || attack != "" && e.Attack != attack {
			continue
		}
		n++
		if kind == Attack && e.Observed[Executed] > 0 || kind != Attack && e.good() == e.trials() {
			k++
		}
	}
	return k, n
}

// firstEntryLine is the line of the first entry in the file.
const firstEntryLine = 7

// Encode writes the baseline, one entry a line.
func (b *Baseline) Encode() ([]byte, error) {
	var out bytes.Buffer
	out.WriteString("{\n")
	for _, m := range []struct {
		name string
		v    any
	}{{"schema", b.Schema}, {"scenarios", b.Scenarios}, {"seeds", b.Seeds}, {"approvers", b.Approvers}} {
		line, err := encodeLine(m.v)
		if err != nil {
			return nil, fmt.Errorf("writing a baseline: %w", err)
		}
		fmt.Fprintf(&out, "  %q: %s,\n", m.name, EscapeJSON(string(bytes.TrimSpace(line))))
	}
	out.WriteString("  \"entries\": [\n")
	for i, e := range b.Entries {
		line, err := encodeLine(e)
		if err != nil {
			return nil, fmt.Errorf("writing a baseline: %w", err)
		}
		separator := ","
		if i == len(b.Entries)-1 {
			separator = ""
		}
		fmt.Fprintf(&out, "    %s%s\n", EscapeJSON(string(bytes.TrimSpace(line))), separator)
	}
	out.WriteString("  ]\n}\n")
	return out.Bytes(), nil
}

// ReadBaseline reads a file of a baseline, which is compressed if its name ends in
// .gz (RFC 1952), or counts a run in a folder.
func ReadBaseline(path string) (*Baseline, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		r, err := Open(path)
		if err != nil {
			return nil, fmt.Errorf("reading the baseline: %w", err)
		}
		b, err := BaselineOf(r.Records(), r.Catalogue)
		if err != nil {
			return nil, err
		}
		b.ofRun = true
		return b, nil
	}
	data, err := readText(path)
	if err != nil {
		return nil, fmt.Errorf("reading the baseline: %w", err)
	}
	b, err := ParseBaseline(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return b, nil
}

// ParseBaseline reads what [Baseline.Encode] writes, and nothing else: a line of
// the file is then the entry that a report points at. Line ends may be CR LF.
func ParseBaseline(data []byte) (*Baseline, error) {
	fail := func(format string, args ...any) (*Baseline, error) {
		return nil, fmt.Errorf("reading a baseline: "+format, args...)
	}
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	b := &Baseline{}
	if err := decodeStrict(data, b); err != nil {
		return fail("%w", err)
	}
	if b.Schema != BaselineSchema {
		return fail("schema is %d, this program reads %d", b.Schema, BaselineSchema)
	}
	if len(b.Entries) == 0 || len(b.Scenarios) == 0 || len(b.Seeds) == 0 || len(b.Approvers) == 0 {
		return fail("it has no entries, scenarios, seeds or approvers")
	}
	for i, e := range b.Entries {
		if i > 0 && compareEntries(b.Entries[i-1], e) >= 0 {
			return fail("%s is not in its place or there twice", e.Name())
		}
		if e.Target == "" || e.Kind != Honest && (e.Attack == "" || e.Variant == "") || !slices.Contains([]Kind{Attack, Twin, Honest}, e.Kind) {
			return fail("entry %d lacks a target, attack, variant or kind", i+1)
		}
		for o, n := range e.Observed {
			if !slices.Contains(Observations(), o) || n < 1 || n > maxCount {
				return fail("%s: %d trials observed as %q", e.Name(), n, o)
			}
		}
		if e.trials() == 0 {
			return fail("%s: no trials", e.Name())
		}
		for _, n := range []int{e.Disagrees, e.WrongReason, e.Nondeterministic} {
			if n < 0 || n > maxCount {
				return fail("%s: a count of %d", e.Name(), n)
			}
		}
	}
	if again, err := b.Encode(); err != nil || !bytes.Equal(again, data) {
		return fail("it is not written as countersign baseline writes it: one entry a line, in order, no member missing")
	}
	return b, nil
}

// A Change is what became of an entry since the baseline.
type Change string

const (
	Same        Change = "same"
	Regression  Change = "regression"  // less is blocked or completed, more is executed, or a prediction is contradicted that was not
	Improvement Change = "improvement" // more is blocked, or completed
	Changed     Change = "changed"     // another outcome or refusal, neither better nor worse
	Added       Change = "new"         // not in the baseline
	Missing     Change = "missing"     // not in the run
)

// Changes lists every change, what matters most first.
func Changes() []Change { return []Change{Regression, Improvement, Changed, Added, Missing, Same} }

// A Case is one entry of a baseline, of a run or of both.
type Case struct {
	Before, After *BaselineEntry // nil where new, nil where missing
	Change        Change
	Why           string // one sentence; empty for Same
	// Line is where the entry stands in the baseline file, 1 where it does not.
	Line int
}

// Entry is the case's entry in the run, or else in the baseline.
func (c Case) Entry() BaselineEntry {
	if c.After != nil {
		return *c.After
	}
	return *c.Before
}

// Errors is how many trials could not be carried out.
func (c Case) Errors() int {
	if c.After == nil {
		return 0
	}
	return c.After.Observed[Error]
}

// WrongReasons is how many trials were blocked by something else than predicted.
func (c Case) WrongReasons() int {
	if c.After == nil {
		return 0
	}
	return c.After.WrongReason
}

// A Check is a run held against a baseline, in the order of the baseline file.
type Check struct {
	Cases []Case
	// Elsewhere counts the entries of the baseline that are of targets or attacks of
	// which the run has nothing. They were not selected, so none of them is missing.
	Elsewhere int
}

// Count returns how many cases end in a change.
func (k *Check) Count(c Change) (n int) {
	for _, x := range k.Cases {
		if x.Change == c {
			n++
		}
	}
	return n
}

// ExitCode is 1 with a regression (or, if strict, with a trial blocked for another
// reason than predicted), else 2 with a trial that could not be carried out, else 0.
func (k *Check) ExitCode(strict bool) int {
	code := 0
	for _, x := range k.Cases {
		switch {
		case x.Change == Regression, strict && x.WrongReasons() > 0:
			return 1
		case x.Errors() > 0:
			code = 2
		}
	}
	return code
}

// Against compares a run with a baseline. Errors: the two were made over different
// scenarios, seeds or approvers, so that counts say nothing, or have no entry in
// common.
func (b *Baseline) Against(run *Baseline) (*Check, error) {
	for _, x := range []struct {
		what        string
		before, now any
	}{{"scenarios", b.Scenarios, run.Scenarios}, {"seeds", b.Seeds, run.Seeds}, {"approvers", b.Approvers, run.Approvers}} {
		if fmt.Sprint(x.before) != fmt.Sprint(x.now) {
			return nil, fmt.Errorf("comparing with the baseline: it was made with the %s %v, and the run with %v", x.what, x.before, x.now)
		}
	}
	after := map[entryKey]*BaselineEntry{}
	targets, attacks := map[string]bool{}, map[string]bool{}
	for i := range run.Entries {
		e := &run.Entries[i]
		after[e.key()], targets[e.Target], attacks[e.Attack] = e, true, true
	}
	k := &Check{}
	common := 0
	for i := range b.Entries {
		c := Case{Before: &b.Entries[i], After: after[b.Entries[i].key()], Line: firstEntryLine + i}
		if b.ofRun {
			c.Line = 1
		}
		if c.After == nil {
			if !targets[c.Before.Target] || !attacks[c.Before.Attack] {
				k.Elsewhere++
				continue
			}
			c.Change, c.Why = Missing, "the run has no such trial"
		} else {
			common++
			c.Change, c.Why = change(*c.Before, *c.After)
			delete(after, c.After.key())
		}
		k.Cases = append(k.Cases, c)
	}
	if common == 0 {
		return nil, errors.New("comparing with the baseline: it and the run have no target and variant in common")
	}
	for i := range run.Entries {
		e := &run.Entries[i]
		if after[e.key()] == nil {
			continue
		}
		c := Case{After: e, Change: Added, Why: "not in the baseline: " + e.Outcomes(), Line: 1}
		if e.Disagrees > 0 {
			c.Change, c.Why = Regression, fmt.Sprintf("new, and %d of %d trials contradict their prediction: %s", e.Disagrees, e.trials(), e.Outcomes())
		}
		k.Cases = append(k.Cases, c)
	}
	return k, nil
}

// change says what became of an entry.
func change(before, after BaselineEntry) (Change, string) {
	outcomes := "it was " + before.Outcomes() + " and is " + after.Outcomes()
	bad := func(e BaselineEntry) int { return e.trials() - e.good() }
	executed := func(e BaselineEntry) int { return e.Observed[Executed] }
	worse := bad(after) > bad(before) || executed(after) > executed(before)
	if before.Nondeterministic+after.Nondeterministic > 0 {
		// Counts of a race vary. That it can be lost at all, or never won, does not.
		worse = executed(before) == 0 && executed(after) > 0 || before.good() > 0 && after.good() == 0
	}
	switch {
	case worse:
		return Regression, outcomes
	case after.Disagrees > before.Disagrees:
		return Regression, fmt.Sprintf("%d of %d trials contradict their prediction: %s", after.Disagrees, after.trials(), outcomes)
	case after.good() > before.good():
		return Improvement, outcomes
	case !maps.Equal(before.Observed, after.Observed):
		return Changed, outcomes
	case !slices.Equal(before.RefusedBy, after.RefusedBy):
		return Changed, fmt.Sprintf("it was refused by %s and is by %s", orNothing(before.RefusedBy), orNothing(after.RefusedBy))
	case before.Disagrees != after.Disagrees || before.WrongReason != after.WrongReason:
		return Changed, fmt.Sprintf("trials that contradict their prediction: %d, then %d; blocked for another reason than predicted: %d, then %d",
			before.Disagrees, after.Disagrees, before.WrongReason, after.WrongReason)
	}
	return Same, ""
}

func orNothing(names []string) string {
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}
