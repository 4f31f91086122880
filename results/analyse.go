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

// A Burden is what honest work costs the approvers: how often they are asked in plain
// runs and twins, of which those that could not be carried out are left out.
type Burden struct {
	Trials  int `json:"trials"`
	Prompts int `json:"prompts"`
}

// PerTrial is how often a person is asked in a trial; 0 where there is none.
func (b Burden) PerTrial() float64 {
	if b.Trials == 0 {
		return 0
	}
	return float64(b.Prompts) / float64(b.Trials)
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
	// Predicted is K as the predictions have it, of the same N.
	Predicted int `json:"predicted"`
	Every     int `json:"every"` // executed (completed) in every scenario
	Some      int `json:"some"`
	None      int `json:"none"`
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
	due, undue                          int // conclusive trials that were predicted to be, and not to be
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
	if r.Conclusive() {
		if r.Predicted == PredictBlocked {
			o.undue++
		} else {
			o.due++
		}
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
	burdens   map[string]Burden             // by target
	pairs     map[string]map[unit]*outcomes // by target, then variant and pair key
	seen      map[string]struct{}
	approvers map[string]bool
	known     map[string]bool
}

func newCollector(c Catalogue) *collector {
	k := &collector{
		c: c,
		a: &Analysis{Schema: Schema, Attacks: []AttackInfo{}, Rows: []Row{}, Disagreements: []Record{}, Errors: []Record{},
			WrongReasons: []WrongReason{}, Comparisons: []Comparison{}, Identical: [][]string{},
			NotApplicable: c.unfit(), Warnings: []string{}},
		targets: map[string]map[unit]*outcomes{}, pairs: map[string]map[unit]*outcomes{}, burdens: map[string]Burden{},
		seen: map[string]struct{}{}, approvers: map[string]bool{}, known: map[string]bool{},
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
		b := k.burdens[r.Target]
		k.burdens[r.Target] = Burden{b.Trials + 1, b.Prompts + r.Prompts}
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
		if o.undue == 0 || worst && o.due > 0 {
			t.Predicted++
		}
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
		row := Row{Target: t, Cells: []Cell{}, Burden: k.burdens[t.ID]}
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
