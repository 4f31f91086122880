package results

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"

	"countersign/results/stats"
)

// Confidence is the nominal coverage of every interval of an [Analysis].
const Confidence = 0.95

// An Analysis is everything that tables and figures show of a run.
type Analysis struct {
	Schema  int          `json:"schema"`
	Records int          `json:"records"`
	Attacks []AttackInfo `json:"attacks"` // columns: those with a record
	Rows    []Row        `json:"rows"`    // targets with a record
	// Disagreements are the trials that contradict their prediction.
	Disagreements []Record `json:"disagreements"`
	// Errors are the trials that could not be carried out.
	Errors []Record `json:"errors"`
	// WrongReasons are attacks that were blocked by something else than their
	// condition names.
	WrongReasons []WrongReason `json:"wrong_reasons"`
	Comparisons  []Comparison  `json:"comparisons"`
	// Identical lists groups of targets with the same outcome in every attack variant.
	Identical [][]string `json:"identical"`
	// NotApplicable says why pairs of variant and scenario were not tried, the
	// commonest reason first.
	NotApplicable []Unfit  `json:"not_applicable"`
	Warnings      []string `json:"warnings"`
}

// Unfit are the pairs of variant and scenario that do not fit for one reason.
type Unfit struct {
	Reason    string   `json:"reason"`
	Pairs     int      `json:"pairs"`
	Variants  []string `json:"variants"`  // AB1/name, sorted
	Scenarios []string `json:"scenarios"` // sorted
}

// A Row is one target.
type Row struct {
	Target  TargetInfo `json:"target"`
	Cells   []Cell     `json:"cells"`   // in the order of Analysis.Attacks
	Success Tally      `json:"success"` // over all attack variants
	Benign  Tally      `json:"benign"`  // over all twins
	Honest  Tally      `json:"honest"`  // plain runs; the unit is the scenario
	Burden  Burden     `json:"burden"`
}

// A Burden is how often approvers were asked in benign trials, which are twins and
// plain runs with an outcome.
type Burden struct {
	Prompts int `json:"prompts"`
	Trials  int `json:"trials"`
}

// A Cell is one family of attacks against one target.
type Cell struct {
	Attack  string `json:"attack"`
	Success Tally  `json:"success"` // K attack variants executed in some or every scenario
	Benign  Tally  `json:"benign"`  // K twins completed in every scenario
}

// A Tally counts variants. A variant without a conclusive trial, or one that an
// error leaves open, is in none of N, Every, Some and None.
type Tally struct {
	Rate
	Every int `json:"every"` // executed (completed) in every scenario
	Some  int `json:"some"`
	None  int `json:"none"`
	// The counts below are of variants with at least one such trial, and may
	// overlap with those above.
	Errors           int `json:"errors"`
	Unimplemented    int `json:"unimplemented"`
	Starved          int `json:"starved"`
	Held             int `json:"held"`
	Nondeterministic int `json:"nondeterministic"`
}

// CannotTell reports whether an error leaves the tally open.
func (t Tally) CannotTell() bool { return t.Errors > 0 }

// A Rate is K of N with the Wilson interval at [Confidence].
type Rate struct {
	K        int             `json:"k"`
	N        int             `json:"n"`
	Interval *stats.Interval `json:"interval"` // nil when N is 0
	// Descriptive says that the interval describes these variants and infers
	// nothing. It is so for every count of deterministic trials.
	Descriptive bool `json:"descriptive"`
}

// A WrongReason is a blocked attack whose refusal names nothing of its condition.
type WrongReason struct {
	Record    Record `json:"record"`
	Condition string `json:"condition"`
}

// A Comparison is a paired comparison of two targets over attack variants. Only
// pair keys with a conclusive trial of both count; a variant is executed when it
// was in any of them.
type Comparison struct {
	Reference string `json:"reference"`
	Target    string `json:"target"`
	Pairs     int    `json:"pairs"`    // pair keys used, counted for each approver
	Unpaired  int    `json:"unpaired"` // pair keys of either side left out
	Variants  int    `json:"variants"` // the unit
	Both      int    `json:"both"`     // executed against both
	B         int    `json:"b"`        // executed against the reference only
	C         int    `json:"c"`        // executed against the target only
	Neither   int    `json:"neither"`
	// Exact and MidP are McNemar's p values, Holm… the same adjusted for the family.
	Exact       float64  `json:"exact_p"`
	MidP        float64  `json:"mid_p"`
	HolmExact   float64  `json:"holm_exact_p"`
	HolmMidP    float64  `json:"holm_mid_p"`
	Family      int      `json:"family"`      // number of comparisons adjusted for
	Descriptive bool     `json:"descriptive"` // as in [Rate]
	Warnings    []string `json:"warnings"`
}

// AnalyseRun analyses a run with the family fixed in its manifest.
func AnalyseRun(r *Run) (*Analysis, error) {
	return Analyse(r.Records(), r.Catalogue, r.Manifest.Family)
}

// Analyse counts records as they come and keeps only those that it lists. Errors:
// no records, an error of the sequence, a record that is
// invalid, that names something the catalogue does not have, or that is there
// twice.
func Analyse(records iter.Seq2[Record, error], c Catalogue, f Family) (*Analysis, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("analysing records: %w", err)
	}
	f.Reference = cmp.Or(f.Reference, DefaultReference)
	k := newCollector(c)
	for r, err := range records {
		if err == nil {
			err = k.add(r)
		}
		if err != nil {
			return nil, fmt.Errorf("analysing records: %w", err)
		}
	}
	if k.a.Records == 0 {
		return nil, errors.New("analysing records: there are none")
	}
	k.rows()
	k.a.Identical = k.identical()
	if err := k.compare(f); err != nil {
		return nil, fmt.Errorf("analysing records: %w", err)
	}
	k.warn()
	return k.a, nil
}

// ExitCode is 1 when a trial contradicts its prediction, else 2 when a trial
// could not be carried out (so nobody can tell), else 0. A declared
// unimplemented is 0.
func ExitCode(a *Analysis) int {
	switch {
	case a == nil:
		return 2
	case len(a.Disagreements) > 0:
		return 1
	case len(a.Errors) > 0:
		return 2
	}
	return 0
}

// outcomes are the trials of one variant (or pair key) against one target.
type outcomes struct {
	yes, no                             int // executed or completed; anything else conclusive
	errors, unimplemented               int
	starved, held, nondeterministic, of int
}

func (o *outcomes) add(r Record) {
	o.of++
	switch {
	case r.Observed == Error:
		o.errors++
	case r.Observed == Unimplemented:
		o.unimplemented++
	case r.Observed == Executed && r.Kind == Attack || r.Observed == Completed:
		o.yes++
	default:
		o.no++
	}
	if r.Observed == Starved {
		o.starved++
	}
	if r.Observed == Held {
		o.held++
	}
	if r.Nondeterministic {
		o.nondeterministic++
	}
}

// A unit is what is counted: a variant, or for honest runs a scenario.
type unit struct {
	kind         Kind
	attack, name string
	pair         string // pair key and approver, used by the comparison only
}

type collector struct {
	c         Catalogue
	a         *Analysis
	targets   map[string]map[unit]*outcomes // by target, then variant
	pairs     map[string]map[unit]*outcomes // by target, then variant and pair key
	seen      map[string]struct{}
	burden    map[string]Burden // by target
	approvers map[string]bool
	known     map[string]bool
}

func newCollector(c Catalogue) *collector {
	k := &collector{
		c: c,
		a: &Analysis{Schema: Schema, Attacks: []AttackInfo{}, Rows: []Row{}, Disagreements: []Record{}, Errors: []Record{},
			WrongReasons: []WrongReason{}, Comparisons: []Comparison{}, Identical: [][]string{},
			NotApplicable: c.unfit(), Warnings: []string{}},
		targets: map[string]map[unit]*outcomes{}, pairs: map[string]map[unit]*outcomes{},
		seen: map[string]struct{}{}, burden: map[string]Burden{}, approvers: map[string]bool{}, known: map[string]bool{},
	}
	for _, t := range c.Targets {
		k.known["target "+t.ID] = true
	}
	for _, s := range c.Scenarios {
		k.known["scenario "+s.ID] = true
	}
	return k
}

func (k *collector) add(r Record) error {
	if err := r.Validate(); err != nil {
		return err
	}
	variant, ok := k.c.Variant(r.Attack, r.Variant, r.Kind)
	if !k.known["target "+r.Target] || !k.known["scenario "+r.Scenario] || !ok && r.Kind != Honest {
		return fmt.Errorf("record %q: its target, scenario or %s variant is not in the catalogue", r.Name(), r.Kind)
	}
	key := strings.Join([]string{r.Target, string(r.Kind), r.Attack, r.Variant, r.Scenario, r.Approver, fmt.Sprint(r.Seed), r.Pair}, "\x00")
	if _, twice := k.seen[key]; twice {
		return fmt.Errorf("record %q (%s, seed %d) is there twice", r.Name(), r.Kind, r.Seed)
	}
	k.seen[key] = struct{}{}
	k.approvers[r.Approver] = true
	k.a.Records++

	u := unit{kind: r.Kind, attack: r.Attack, name: r.Variant}
	if r.Kind == Honest {
		u = unit{kind: Honest, name: r.Scenario}
	}
	note(k.targets, r.Target, u, r)
	if r.Kind != Attack && r.Conclusive() {
		b := k.burden[r.Target]
		k.burden[r.Target] = Burden{b.Prompts + r.Prompts, b.Trials + 1}
	}
	if r.Kind == Attack {
		// Two approvers of one trial are two pairs: neither stands in for the other.
		u.pair = r.Pair + "\x00" + r.Approver
		note(k.pairs, r.Target, u, r)
		if r.Blocked() && !rightReason(r, strings.Join(append([]string{variant.Condition}, variant.AlsoNamed...), " "), k.c.Implies) {
			k.a.WrongReasons = append(k.a.WrongReasons, WrongReason{r, variant.Condition})
		}
	}
	if r.Disagrees() {
		k.a.Disagreements = append(k.a.Disagreements, r)
	}
	if r.Uncertain() {
		k.a.Errors = append(k.a.Errors, r)
	}
	return nil
}

func note(m map[string]map[unit]*outcomes, target string, u unit, r Record) {
	if m[target] == nil {
		m[target] = map[unit]*outcomes{}
	}
	if m[target][u] == nil {
		m[target][u] = &outcomes{}
	}
	m[target][u].add(r)
}

var word = regexp.MustCompile(`[A-Za-z_]+`)

// rightReason reports whether the refusal names something of the condition.
func rightReason(r Record, condition string, implies map[string][]string) bool {
	names := word.FindAllString(condition, -1)
	for _, by := range r.RefusedBy {
		if slices.Contains(names, by) || slices.ContainsFunc(implies[by], func(s string) bool { return slices.Contains(names, s) }) {
			return true
		}
		// A view that tells the truth stops an attack by making the person decline,
		// and so does asking about a change that steers.
		if by == "approver" && (slices.Contains(names, "render") || slices.Contains(names, "steer")) {
			return true
		}
		// A service refuses by itself what arrives after the end that the gate gave it.
		if by == "provider" && slices.Contains(names, "idem") {
			return true
		}
	}
	// Mediation refuses nothing itself: it makes a call meet the design's checks,
	// so a refusal by any of them is its doing.
	if slices.Contains(names, "mediated") && len(r.RefusedBy) > 0 {
		return true
	}
	// Nothing refuses where an earlier result is returned: that is single use or
	// the provider's idempotency at work.
	return r.Observed == Absorbed && len(r.RefusedBy) == 0 &&
		slices.ContainsFunc(names, func(s string) bool { return s == "once" || s == "seen" || s == "idem" })
}

// add counts one variant. For attacks the worst scenario decides, so a variant
// that executed anywhere counts; for twins the worst one is a scenario in which it
// did not complete.
func (t *Tally) add(o *outcomes, worst bool) {
	open := o.errors > 0
	if worst {
		open = open && o.yes == 0 // an execution is certain whatever the rest
	} else {
		open = open && o.no == 0 // and so is a failure to complete
	}
	if o.yes+o.no > 0 && !open {
		t.N++
		switch {
		case o.no == 0:
			t.Every++
		case o.yes == 0:
			t.None++
		default:
			t.Some++
		}
	}
	t.K = t.Every
	if worst {
		t.K += t.Some
	}
	for _, c := range []struct{ to, from *int }{
		{&t.Errors, &o.errors}, {&t.Unimplemented, &o.unimplemented}, {&t.Starved, &o.starved},
		{&t.Held, &o.held}, {&t.Nondeterministic, &o.nondeterministic},
	} {
		if *c.from > 0 {
			*c.to++
		}
	}
}

func (t *Tally) close() {
	t.Descriptive = true
	if t.N > 0 {
		iv, err := stats.Wilson(t.K, t.N, Confidence)
		if err != nil {
			panic(err) // K counts a subset of N
		}
		t.Interval = &iv
	}
}

func (k *collector) rows() {
	for _, a := range k.c.Attacks {
		for _, units := range k.targets {
			if slices.ContainsFunc(unitsOf(units), func(u unit) bool { return u.attack == a.ID }) {
				k.a.Attacks = append(k.a.Attacks, a)
				break
			}
		}
	}
	for _, t := range k.c.Targets {
		units := k.targets[t.ID]
		if units == nil {
			continue
		}
		row := Row{Target: t, Cells: []Cell{}, Burden: k.burden[t.ID]}
		for _, a := range k.a.Attacks {
			cell := Cell{Attack: a.ID}
			for _, v := range a.Variants {
				o := units[unit{kind: v.Kind, attack: a.ID, name: v.Name}]
				if o == nil {
					continue
				}
				if v.Kind == Attack {
					cell.Success.add(o, true)
					row.Success.add(o, true)
				} else {
					cell.Benign.add(o, false)
					row.Benign.add(o, false)
				}
			}
			cell.Success.close()
			cell.Benign.close()
			row.Cells = append(row.Cells, cell)
		}
		for u, o := range units {
			if u.kind == Honest {
				row.Honest.add(o, false)
			}
		}
		row.Success.close()
		row.Benign.close()
		row.Honest.close()
		k.a.Rows = append(k.a.Rows, row)
	}
}

func unitsOf(m map[unit]*outcomes) []unit {
	units := make([]unit, 0, len(m))
	for u := range m {
		units = append(units, u)
	}
	return units
}

// summary is one word for an attack variant, the worst trial first.
func (o *outcomes) summary() string {
	switch {
	case o == nil:
		return "not tried"
	case o.yes > 0:
		return "executed"
	case o.errors > 0:
		return "error"
	case o.starved > 0:
		return "starved"
	case o.no > 0:
		return "blocked"
	}
	return "unimplemented"
}

// signature is what a target's row looks like, variant by variant. ok is false
// where an error, or having no conclusive trial at all, leaves that open.
func (k *collector) signature(target string) (sig string, ok bool) {
	var b strings.Builder
	for _, a := range k.a.Attacks {
		for _, v := range a.Variants {
			if v.Kind != Attack {
				continue
			}
			o := k.targets[target][unit{kind: Attack, attack: a.ID, name: v.Name}]
			if o != nil && o.errors > 0 {
				return "", false
			}
			ok = ok || o != nil && o.yes+o.no > 0
			b.WriteString(o.summary() + ";")
		}
	}
	return b.String(), ok
}

func (k *collector) identical() [][]string {
	var order []string
	groups := map[string][]string{}
	for _, r := range k.a.Rows {
		sig, ok := k.signature(r.Target.ID)
		if !ok {
			continue
		}
		if groups[sig] == nil {
			order = append(order, sig)
		}
		groups[sig] = append(groups[sig], r.Target.ID)
	}
	out := [][]string{}
	for _, sig := range order {
		if len(groups[sig]) > 1 {
			out = append(out, groups[sig])
		}
	}
	return out
}

func (k *collector) compare(f Family) error {
	ref := k.pairs[f.Reference]
	if ref == nil {
		k.a.Warnings = append(k.a.Warnings, fmt.Sprintf("no comparisons: the reference %s has no attack trials here", f.Reference))
		return nil
	}
	targets := f.Targets
	if len(targets) == 0 {
		for _, r := range k.a.Rows {
			targets = append(targets, r.Target.ID)
		}
	}
	// A planned comparison that cannot be made stays in the family with p = 1: the
	// adjustment is for what was planned, not for what worked out.
	var exact, midp []float64
	var place []int
	for _, t := range targets {
		if t == f.Reference {
			continue
		}
		if k.pairs[t] == nil {
			if len(f.Targets) > 0 {
				k.a.Warnings = append(k.a.Warnings, fmt.Sprintf("no comparison of %s with %s: it has no attack trials here", t, f.Reference))
				exact, midp = append(exact, 1), append(midp, 1)
			}
			continue
		}
		c, err := pair(ref, k.pairs[t])
		if err != nil {
			return err
		}
		c.Reference, c.Target = f.Reference, t
		place = append(place, len(exact))
		k.a.Comparisons = append(k.a.Comparisons, c)
		exact, midp = append(exact, c.Exact), append(midp, c.MidP)
	}
	adjustedExact, err := stats.Holm(exact)
	if err != nil {
		return err
	}
	adjustedMidP, err := stats.Holm(midp)
	if err != nil {
		return err
	}
	for i := range k.a.Comparisons {
		c := &k.a.Comparisons[i]
		c.HolmExact, c.HolmMidP, c.Family = adjustedExact[place[i]], adjustedMidP[place[i]], len(exact)
	}
	return nil
}

// pair compares two targets over the pair keys that both have.
func pair(ref, other map[unit]*outcomes) (Comparison, error) {
	c := Comparison{Descriptive: true, Warnings: []string{}}
	conclusive := func(o *outcomes) bool { return o != nil && o.yes+o.no > 0 && o.errors == 0 }
	type sides struct{ ref, other bool }
	variants := map[unit]sides{}
	for u, o := range ref {
		p := other[u]
		if !conclusive(o) || !conclusive(p) {
			c.Unpaired++
			continue
		}
		c.Pairs++
		u.pair = ""
		s := variants[u]
		variants[u] = sides{s.ref || o.yes > 0, s.other || p.yes > 0}
	}
	for u := range other {
		if ref[u] == nil {
			c.Unpaired++
		}
	}
	for _, s := range variants {
		c.Variants++
		switch {
		case s.ref && s.other:
			c.Both++
		case s.ref:
			c.B++
		case s.other:
			c.C++
		default:
			c.Neither++
		}
	}
	exact, err := stats.McNemarExact(c.B, c.C)
	if err != nil {
		return c, err
	}
	midp, err := stats.McNemarMidP(c.B, c.C)
	if err != nil {
		return c, err
	}
	c.Exact, c.MidP = exact.P, midp.P
	c.Warnings = append(c.Warnings, exact.Warnings...)
	if c.Variants < stats.SmallN {
		c.Warnings = append(c.Warnings, fmt.Sprintf("small sample: %d variants, fewer than %d", c.Variants, stats.SmallN))
	}
	if c.Unpaired > 0 {
		c.Warnings = append(c.Warnings, fmt.Sprintf("%d pair keys have no conclusive counterpart and are left out", c.Unpaired))
	}
	c.Warnings = append(c.Warnings, "p describes these variants, it is no inference about others")
	return c, nil
}

// warn says what the tables cannot show.
func (k *collector) warn() {
	warn := func(format string, args ...any) {
		k.a.Warnings = append(k.a.Warnings, fmt.Sprintf(format, args...))
	}
	if n := len(k.approvers); n > 1 {
		warn("trials of %d approvers are merged (%s): a variant counts as executed when it was with any of them, and a twin as completed when it was with all",
			n, strings.Join(sortedKeys(k.approvers), ", "))
	}
	var missing []string
	for _, a := range k.c.Attacks {
		if !slices.ContainsFunc(k.a.Attacks, func(b AttackInfo) bool { return b.ID == a.ID }) {
			missing = append(missing, a.ID)
		}
	}
	for _, t := range k.c.Targets {
		if k.targets[t.ID] == nil {
			missing = append(missing, t.ID)
		}
	}
	if len(missing) > 0 {
		warn("in the catalogue, but without a record: %s", strings.Join(missing, ", "))
	}
	for _, r := range k.a.Rows {
		if r.Benign.N == 0 {
			warn("%s: no conclusive benign twin: what it blocks says nothing without what it lets through", r.Target.ID)
		}
	}
}
