package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"countersign/attacks"
	"countersign/gateway/api"
	"countersign/oracles"
	"countersign/results"
	"countersign/scenarios"
)

// AblationSchema is the version of [AblationReport] as JSON.
const AblationSchema = 1

// MaxCut is how many bindings a cut may have to count as a use of each of them.
// A binding whose loss shows only beside three or more others has no use that
// anybody could point at. Larger cuts are found and listed all the same.
const MaxCut = 3

// An Ablation measures what each binding of a design is for. It deploys the
// design with parts of its bindings and finds, for every attack variant in every
// scenario, the minimal cuts (the smallest sets of bindings whose loss lets the
// attack through), and for all of them together the minimal sufficient sets (the
// smallest designs that still block whatever the whole one blocks, and let every
// honest flow through).
//
// The search assumes that bindings are monotone: a further one never helps an
// attack. It checks the assumption by trials that it does not need (see
// [AblationReport].Disagreements). Nothing in it reads a stopping condition; the
// cuts that the conditions predict are computed apart and compared at the end.
//
// Not every set of bindings is a design. Without anything that says who approved,
// for example, a check of who it was refuses everybody; without any check of an
// approval, everything is executed. So a set is a design in a scenario if the
// plain run completes and the same call, presented while nobody has decided on
// it, is not executed; both are measured. Whether another set blocks an attack is
// not asked of it but of the smallest larger sets that are designs: it counts as
// blocked if all of those block. Measurement and prediction are treated alike in
// this.
type Ablation struct {
	ID       string        // of the design
	Bindings []api.Binding // all it has, in the order of [api.Bindings]
	// Deploy returns the design with a part of its bindings.
	Deploy    func([]api.Binding) api.Factory
	Families  []attacks.Family
	Scenarios []*scenarios.Scenario
	Seed      uint64
	Approver  oracles.Approver
	Parallel  int // variants at a time; 0: one for each processor
	// TrialTimeout is that of the trials; see [Plan].
	TrialTimeout time.Duration
	// Whole says that families and scenarios are all there are. Only then is a
	// binding without a use an error.
	Whole bool
	// Progress, if set, is called after each variant.
	Progress func(done, total int)
}

// An AblationReport is what an ablation found.
type AblationReport struct {
	Schema   int           `json:"schema"`
	Target   string        `json:"target"`
	Bindings []api.Binding `json:"bindings"`
	MaxCut   int           `json:"max_cut"`
	Whole    bool          `json:"whole"`  // the whole catalogue in every scenario
	Trials   int           `json:"trials"` // how many the search made
	// Disagreements say where prediction and measurement differ; Errors what could
	// not be told.
	Disagreements []AblationFinding `json:"disagreements"`
	Errors        []AblationFinding `json:"errors"`
	// Singles lists what each binding alone keeps out, and Variants the cuts.
	Singles  []AblationSingle  `json:"singles"`
	Variants []AblationVariant `json:"variants"`
	// Sufficient are the minimal sufficient sets, smallest first.
	Sufficient [][]api.Binding `json:"sufficient"`
	// Essential are the bindings without which the rest is no design anywhere. Idle
	// are the others that are in no minimal cut of at most MaxCut.
	Essential []api.Binding `json:"essential"`
	Idle      []api.Binding `json:"idle"`
}

// An AblationFinding is a disagreement or an error, about a variant or, where
// Variant is empty, about the design.
type AblationFinding struct {
	Attack   string `json:"attack,omitempty"`
	Variant  string `json:"variant,omitempty"`
	Scenario string `json:"scenario,omitempty"`
	Detail   string `json:"detail"`
}

func (f AblationFinding) String() string {
	if f.Variant == "" {
		return f.Detail
	}
	return fmt.Sprintf("%s/%s in %s: %s", f.Attack, f.Variant, f.Scenario, f.Detail)
}

// An AblationSingle says which variants the design loses with one binding.
type AblationSingle struct {
	Binding api.Binding `json:"binding"`
	Opened  []string    `json:"opened"` // as AB1/NAME
}

// An AblationVariant has the cuts of one variant, once for each group of
// scenarios in which they are the same.
type AblationVariant struct {
	Attack    string          `json:"attack"`
	Variant   string          `json:"variant"`
	Condition string          `json:"condition"`
	Places    []AblationPlace `json:"places"`
}

// An AblationPlace is what holds in a group of scenarios.
type AblationPlace struct {
	Scenarios  []string        `json:"scenarios"`
	Guarantees []api.Guarantee `json:"guarantees"` // of the honest tool, in these scenarios
	// Open: the attack goes through although nothing was left out.
	Open bool `json:"open,omitempty"`
	// Cuts are all minimal cuts, smallest first. Sufficient are the smallest sets
	// of bindings that block the variant.
	Cuts       [][]api.Binding `json:"cuts"`
	Sufficient [][]api.Binding `json:"sufficient"`
}

// ExitCode is 1 for a disagreement or a binding without a use in the whole
// catalogue, else 2 if something could not be told, else 0.
func (r *AblationReport) ExitCode() int {
	switch {
	case r == nil:
		return 2
	case len(r.Disagreements) > 0 || r.Whole && len(r.Idle) > 0:
		return 1
	case len(r.Errors) > 0:
		return 2
	}
	return 0
}

// Run performs the ablation. Its report is a function of the ablation alone,
// whatever Parallel is. An error means that there is no report: the design has
// nothing to leave out, its own plain run does not complete, or ctx ended.
func (a Ablation) Run(ctx context.Context) (*AblationReport, error) {
	s, err := a.search(ctx)
	if err != nil {
		return nil, fmt.Errorf("ablating %s: %w", a.ID, err)
	}
	var work []variantOf
	for _, f := range a.Families {
		for _, v := range f.Variants {
			work = append(work, variantOf{f.ID, v})
		}
	}
	found := make([]*finding, len(work))
	err = s.each(len(work), func(i int) (err error) {
		found[i], err = s.variant(ctx, work[i])
		return err
	}, a.Progress)
	if err != nil {
		return nil, fmt.Errorf("ablating %s: %w", a.ID, err)
	}
	r := &AblationReport{
		Schema: AblationSchema, Target: a.ID, Bindings: a.Bindings, MaxCut: MaxCut, Whole: a.Whole,
		Disagreements: []AblationFinding{}, Errors: []AblationFinding{}, Variants: []AblationVariant{},
		Sufficient: [][]api.Binding{}, Essential: []api.Binding{}, Idle: []api.Binding{},
	}
	used, alone, open := subset(0), map[int][]string{}, map[string]bool{}
	var cuts []subset
	for i, f := range found {
		r.Disagreements = append(r.Disagreements, f.disagreements...)
		r.Errors = append(r.Errors, f.errors...)
		if len(f.places) == 0 {
			continue
		}
		w, opened := work[i], subset(0)
		v := AblationVariant{Attack: w.family, Variant: w.Name, Condition: w.Stopped.String()}
		for _, p := range f.places {
			v.Places = append(v.Places, s.place(p))
			for _, c := range p.cuts {
				if c == 0 { // open in the whole design: the smaller ones owe nothing
					for _, sc := range p.scenarios {
						open[placeKey(w.family, w.Name, sc.ID)] = true
					}
					continue
				}
				cuts = append(cuts, c)
				if c.size() == 1 {
					opened |= c
				}
				if c.size() <= MaxCut {
					used |= c
				}
			}
		}
		r.Variants = append(r.Variants, v)
		for b := range a.Bindings {
			if opened.has(b) {
				alone[b] = append(alone[b], w.family+"/"+w.Name)
			}
		}
	}
	for i, b := range a.Bindings {
		r.Singles = append(r.Singles, AblationSingle{b, append([]string{}, alone[i]...)})
		if used.has(i) {
			continue
		}
		switch needed, err := s.essential(ctx, i); {
		case err != nil:
			return nil, fmt.Errorf("ablating %s: leaving out %s: %w", a.ID, b, err)
		case needed:
			r.Essential = append(r.Essential, b)
		default:
			r.Idle = append(r.Idle, b)
		}
	}
	sufficient, wrong, unknown, err := s.sufficient(ctx, transversals(minimal(cuts)), open)
	if err != nil {
		return nil, fmt.Errorf("ablating %s: the sufficient sets: %w", a.ID, err)
	}
	r.Disagreements = append(r.Disagreements, wrong...)
	r.Errors = append(r.Errors, unknown...)
	for _, set := range sufficient {
		r.Sufficient = append(r.Sufficient, s.list(set))
	}
	r.Trials = s.trials
	return r, nil
}

type variantOf struct {
	family string
	attacks.Variant
}

// A finding is what was found about one variant.
type finding struct {
	places                []place
	disagreements, errors []AblationFinding
}

type place struct {
	scenarios        []*scenarios.Scenario
	cuts, sufficient []subset
}

// search is an ablation at work.
type search struct {
	Ablation
	full subset

	mu     sync.Mutex
	trials int
	known  map[string]func() (bool, error) // scenario and set → it is a design
}

func (a Ablation) search(ctx context.Context) (*search, error) {
	switch n := len(a.Bindings); {
	case n == 0:
		return nil, errors.New("it has no binding that could be left out")
	case n > maxBindings:
		return nil, fmt.Errorf("it has %d bindings, which is more than %d", n, maxBindings)
	case a.Deploy == nil || len(a.Families) == 0 || len(a.Scenarios) == 0 || a.Approver == nil:
		return nil, errors.New("no design, no attack, no scenario or no approver is selected")
	}
	if a.Parallel <= 0 {
		a.Parallel = runtime.GOMAXPROCS(0)
	}
	s := &search{Ablation: a, full: all(len(a.Bindings)), known: map[string]func() (bool, error){}}
	for _, sc := range a.Scenarios {
		if is, err := s.isDesign(ctx, sc, s.full); err != nil || !is {
			return nil, cmp.Or(err, fmt.Errorf("in %s the plain run does not complete, or is executed before anybody decided: there is no gate", sc.ID))
		}
	}
	return s, ctx.Err()
}

// each does n things, some at a time, and stops at the first error.
func (s *search) each(n int, do func(i int) error, progress func(done, total int)) error {
	var workers sync.WaitGroup
	var mu sync.Mutex
	var failed error
	next, done := 0, 0
	for range s.Parallel {
		workers.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				stop := i >= n || failed != nil
				mu.Unlock()
				if stop {
					return
				}
				err := do(i)
				mu.Lock()
				failed = cmp.Or(failed, err)
				done++
				if progress != nil && failed == nil {
					progress(done, n)
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	return failed
}

// list names the members of a set.
func (s *search) list(set subset) []api.Binding {
	out := []api.Binding{}
	for i, b := range s.Bindings {
		if set.has(i) {
			out = append(out, b)
		}
	}
	return out
}

func (s *search) lists(sets []subset) [][]api.Binding {
	out := [][]api.Binding{}
	for _, set := range sets {
		out = append(out, s.list(set))
	}
	return out
}

func (s *search) place(p place) AblationPlace {
	out := AblationPlace{Cuts: s.lists(p.cuts), Sufficient: s.lists(p.sufficient)}
	if len(p.cuts) == 1 && p.cuts[0] == 0 {
		out.Open, out.Cuts = true, [][]api.Binding{}
	}
	for _, sc := range p.scenarios {
		out.Scenarios = append(out.Scenarios, sc.ID)
		if g := guaranteeOf(sc); !slices.Contains(out.Guarantees, g) {
			out.Guarantees = append(out.Guarantees, g)
		}
	}
	slices.Sort(out.Guarantees)
	return out
}

func guaranteeOf(sc *scenarios.Scenario) api.Guarantee {
	t, _ := sc.Tool(sc.HonestTool)
	return t.Guarantee
}

// try makes one trial against the design with a part of its bindings.
func (s *search) try(ctx context.Context, set subset, t trial) results.Record {
	s.mu.Lock()
	s.trials++
	s.mu.Unlock()
	return s.plan(set).perform(ctx, t, new(baselines)).record
}

// plan is for trials of the design with a part of its bindings.
func (s *search) plan(set subset) Plan {
	return Plan{Targets: []Target{s.target(set)}, Approver: s.Approver, TrialTimeout: s.TrialTimeout}
}

func (s *search) target(set subset) Target {
	kept := s.list(set)
	return Target{ID: fmt.Sprintf("%s of %d", s.ID, set), Deploy: s.Deploy(kept), Claims: kept}
}

// undecided says that a trial gave no answer.
type undecided struct{ detail string }

func (u undecided) Error() string { return u.detail }

// undecidedCall is the plain run that nobody approved.
var undecidedCall = attacks.Variant{Name: "undecided", Summary: "the plain run without its approval", Success: []string{"none"}, Run: attacks.Undecided}

// isDesign reports whether a set of bindings is a design in a scenario.
func (s *search) isDesign(ctx context.Context, sc *scenarios.Scenario, set subset) (bool, error) {
	key := fmt.Sprintf("%s %d", sc.ID, set)
	s.mu.Lock()
	once := s.known[key]
	if once == nil {
		once = sync.OnceValues(func() (bool, error) {
			trials, why, err := s.plan(set).noDesign(ctx, 0, sc, s.Seed)
			s.mu.Lock()
			s.trials += trials
			s.mu.Unlock()
			if err != nil {
				err = undecided{fmt.Sprintf("with %s: %v", s.name(set), err)}
			}
			return why == "", err
		})
		s.known[key] = once
	}
	s.mu.Unlock()
	return once()
}

// noDesign says why a target is no design in a scenario, or nothing. An error
// means that it cannot be told.
func (p Plan) noDesign(ctx context.Context, target int, sc *scenarios.Scenario, seed uint64) (trials int, why string, err error) {
	try := func(v attacks.Variant, kind results.Kind) results.Record {
		trials++
		return p.perform(ctx, trial{target, HonestAttack, v, kind, sc, seed}, new(baselines)).record
	}
	r := try(honest, results.Honest)
	switch r.Observed {
	case results.Completed:
	case results.Error, results.Unimplemented:
		return trials, "", fmt.Errorf("the plain run of %s: %s: %s", sc.ID, r.Observed, r.Detail)
	default:
		return trials, fmt.Sprintf("the plain run of %s does not complete (%s: %s)", sc.ID, r.Observed, r.Detail), nil
	}
	r = try(undecidedCall, results.Attack)
	switch {
	case r.Blocked():
		return trials, "", nil
	case r.Observed == results.Executed:
		return trials, fmt.Sprintf("it executes the call of %s although nobody has decided on it", sc.ID), nil
	}
	return trials, "", fmt.Errorf("the call of %s that nobody decided on: %s: %s", sc.ID, r.Observed, r.Detail)
}

// CheckDesign reports why a target of the plan is no design: somewhere its plain
// run does not complete, or is executed although nobody has decided.
func (p Plan) CheckDesign(ctx context.Context, id string) error {
	i := slices.IndexFunc(p.Targets, func(t Target) bool { return t.ID == id })
	if i < 0 || len(p.Seeds) == 0 {
		return fmt.Errorf("checking %s: the plan has no such target or no seed", id)
	}
	for _, sc := range p.Scenarios {
		_, why, err := p.noDesign(ctx, i, sc, p.Seeds[0])
		switch {
		case err != nil:
			return fmt.Errorf("checking %s: %w", id, err)
		case why != "":
			return fmt.Errorf("%w: %s: %s", ErrNoDesign, id, why)
		}
	}
	return nil
}

// ErrNoDesign: a set of bindings lets no honest call through, or everything.
var ErrNoDesign = errors.New("this is no design")

// essential reports whether the whole without one binding is a design in no
// scenario.
func (s *search) essential(ctx context.Context, binding int) (bool, error) {
	for _, sc := range s.Scenarios {
		if is, err := s.isDesign(ctx, sc, s.full&^subset(0).with(binding)); err != nil || is {
			return false, err
		}
	}
	return true, nil
}

// maxRepair is how many bindings are given back to make a set a design; where
// that is not enough, the whole design takes its place.
const maxRepair = 3

// designs returns a set if ok says that it is a design, and otherwise the sets
// that are, with the fewest bindings more.
func (s *search) designs(set subset, ok func(subset) (bool, error)) ([]subset, error) {
	for more := 0; more <= maxRepair; more++ {
		var out []subset
		for _, extra := range choose(s.full&^set, more) {
			is, err := ok(set | extra)
			if err != nil {
				return nil, err
			}
			if is {
				out = append(out, set|extra)
			}
		}
		if len(out) > 0 {
			return out, nil
		}
	}
	return []subset{s.full}, nil
}

// choose returns the subsets of a set that have k members.
func choose(from subset, k int) []subset {
	if k == 0 {
		return []subset{0}
	}
	var out []subset
	for i := range maxBindings {
		if from.has(i) {
			from &^= subset(0).with(i)
			for _, rest := range choose(from, k-1) {
				out = append(out, rest.with(i))
			}
		}
	}
	return out
}

// blocks turns an answer about designs into one about all sets, in a scenario.
func (s *search) blocks(ctx context.Context, sc *scenarios.Scenario, blocked func(subset) (bool, error)) func(subset) (bool, error) {
	known := map[subset]bool{}
	return func(set subset) (bool, error) {
		if b, ok := known[set]; ok {
			return b, nil
		}
		designs, err := s.designs(set, func(set subset) (bool, error) { return s.isDesign(ctx, sc, set) })
		if err != nil {
			return false, err
		}
		for _, d := range designs {
			if b, err := blocked(d); err != nil || !b {
				known[set] = false
				return false, err
			}
		}
		known[set] = true
		return true, nil
	}
}

// measured says by a trial whether a variant is blocked.
func (s *search) measured(ctx context.Context, v variantOf, sc *scenarios.Scenario) func(subset) (bool, error) {
	return s.blocks(ctx, sc, func(set subset) (bool, error) {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		r := s.try(ctx, set, trial{attack: v.family, variant: v.Variant, kind: results.Attack, scenario: sc, seed: s.Seed})
		switch {
		case r.Observed == results.Executed:
			return false, nil
		case r.Blocked():
			return true, nil
		}
		return false, undecided{fmt.Sprintf("with %s: %s: %s", s.name(set), r.Observed, r.Detail)}
	})
}

// predicted says by its condition whether a variant is blocked.
func (s *search) predicted(ctx context.Context, v variantOf, sc *scenarios.Scenario) func(subset) (bool, error) {
	fact := string(guaranteeOf(sc))
	return s.blocks(ctx, sc, func(set subset) (bool, error) { return v.Stopped.Holds(s.list(set), fact), nil })
}

// variant finds the cuts of a variant in every scenario to which it applies. What
// was found in one scenario is only a hint in the next.
func (s *search) variant(ctx context.Context, v variantOf) (*finding, error) {
	f := &finding{}
	var hints []subset
	for _, sc := range s.Scenarios {
		if v.NotApplicable(sc) != "" {
			continue
		}
		about := AblationFinding{Attack: v.family, Variant: v.Name, Scenario: sc.ID}
		measured := s.measured(ctx, v, sc)
		cuts, sufficient, err := dualise(len(s.Bindings), measured, hints)
		var predicted []subset
		if err == nil {
			predicted, _, err = dualise(len(s.Bindings), s.predicted(ctx, v, sc), cuts)
		}
		if err == nil && len(f.places) == 0 {
			about.Detail, err = s.sample(v, measured, cuts, sufficient)
			if about.Detail != "" {
				f.disagreements = append(f.disagreements, about)
			}
		}
		var u undecided
		switch {
		case errors.As(err, &u):
			about.Detail = u.detail
			f.errors = append(f.errors, about)
			continue
		case err != nil:
			return nil, err
		case !slices.Equal(cuts, predicted):
			about.Detail = fmt.Sprintf("the measured minimal cuts are %s; %q predicts %s", s.names(cuts), v.Stopped, s.names(predicted))
			f.disagreements = append(f.disagreements, about)
		}
		for _, c := range cuts {
			if !slices.Contains(hints, c) {
				hints = append(hints, c)
			}
		}
		i := slices.IndexFunc(f.places, func(p place) bool { return slices.Equal(p.cuts, cuts) })
		if i < 0 {
			i = len(f.places)
			f.places = append(f.places, place{cuts: cuts, sufficient: sufficient})
		}
		f.places[i].scenarios = append(f.places[i].scenarios, sc)
	}
	return f, nil
}

// samples is how many sets beyond a cut, and how many beyond a sufficient set, are
// tried for each variant to check that bindings are monotone.
const samples = 3

// sample tries sets that need no trial if bindings are monotone. It describes the
// first that contradicts it.
func (s *search) sample(v variantOf, blocked func(subset) (bool, error), cuts, sufficient []subset) (string, error) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(v.family + "/" + v.Name)) // never fails (package hash)
	rng := rand.New(rand.NewPCG(s.Seed, h.Sum64()))
	for range samples {
		for _, x := range []struct {
			of   []subset
			want bool
			kept func(known, more subset) subset
		}{
			{cuts, false, func(known, more subset) subset { return s.full &^ (known | more) }},
			{sufficient, true, func(known, more subset) subset { return known | more }},
		} {
			if len(x.of) == 0 {
				continue
			}
			known, more := x.of[rng.IntN(len(x.of))], subset(rng.Uint64())&s.full
			set := x.kept(known, more)
			got, err := blocked(set)
			if err != nil {
				return "", err
			}
			if got != x.want {
				return fmt.Sprintf("bindings are not monotone: blocked is %t with %s, which follows from no smaller loss", got, s.name(set)), nil
			}
		}
	}
	return "", nil
}

// placeKey names a variant in a scenario.
func placeKey(family, variant, scenario string) string {
	return family + "/" + variant + " in " + scenario
}

// sufficient turns the smallest sets that meet every cut into designs that pass
// the whole catalogue, by running it: every plain run and every twin completes,
// and every attack is blocked that is not open in the whole design. What is not
// blocked is wrong; what gave no answer is unknown.
func (s *search) sufficient(ctx context.Context, candidates []subset, open map[string]bool) (out []subset, wrong, unknown []AblationFinding, err error) {
	for _, c := range candidates {
		designs, err := s.designs(c, func(set subset) (bool, error) {
			for _, sc := range s.Scenarios {
				if is, err := s.isDesign(ctx, sc, set); err != nil || !is {
					return false, err
				}
			}
			failed, err := s.failures(ctx, set, results.Twin, open)
			return len(failed) == 0, err
		})
		if err != nil {
			return nil, nil, nil, err
		}
		out = append(out, designs...)
	}
	out = minimal(out)
	for _, set := range out {
		failed, err := s.failures(ctx, set, results.Attack, open)
		if err != nil {
			return nil, nil, nil, err
		}
		for _, r := range failed {
			f := AblationFinding{Attack: r.Attack, Variant: r.Variant, Scenario: r.Scenario}
			if r.Observed != results.Executed {
				f.Detail = fmt.Sprintf("with %s: %s: %s", s.name(set), r.Observed, r.Detail)
				unknown = append(unknown, f)
				continue
			}
			f.Detail = fmt.Sprintf("the cuts say that it is blocked with %s, and it is executed", s.name(set))
			wrong = append(wrong, f)
		}
	}
	return out, wrong, unknown, nil
}

// failures runs the attacks or the twins of the catalogue with a set, and returns
// those that are not blocked or do not complete.
func (s *search) failures(ctx context.Context, set subset, kind results.Kind, open map[string]bool) (out []results.Record, err error) {
	p := s.plan(set)
	p.Scenarios, p.Seeds, p.Parallel = s.Scenarios, []uint64{s.Seed}, s.Parallel
	for _, f := range s.Families {
		if kind == results.Attack {
			f.Twins = nil
		} else {
			f.Variants = nil
		}
		p.Families = append(p.Families, f)
	}
	err = p.Run(ctx, func(r results.Record) error {
		s.trials++
		switch {
		case r.Kind == results.Attack && (r.Blocked() || r.Observed == results.Unimplemented || open[placeKey(r.Attack, r.Variant, r.Scenario)]):
		case r.Kind != results.Attack && (r.Observed == results.Completed || r.Observed == results.Unimplemented):
		default:
			out = append(out, r)
		}
		return nil
	})
	return out, err
}

// name describes a set by what it keeps or by what it lacks, whichever is shorter.
func (s *search) name(set subset) string {
	lost := s.full &^ set
	switch {
	case lost == 0:
		return "all bindings"
	case set == 0:
		return "no binding"
	case set.size() < lost.size():
		return "only " + join(s.list(set))
	}
	return "all but " + join(s.list(lost))
}

func (s *search) names(sets []subset) string {
	var out []string
	for _, set := range sets {
		out = append(out, cmp.Or(join(s.list(set)), "nothing (open already)"))
	}
	return cmp.Or(strings.Join(out, ", "), "none")
}

func join(bs []api.Binding) string { return strings.Join(names(bs), "+") }
