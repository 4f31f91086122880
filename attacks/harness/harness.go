// Package harness runs trials: it performs scripts against targets, lets the
// referee judge what came of them, and turns verdicts into records. It knows a
// target's public interface and what the target claims, and nothing else.
package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"countersign/attacks"
	"countersign/attacks/referee"
	"countersign/gateway/api"
	"countersign/oracles"
	"countersign/results"
	"countersign/scenarios"
)

// A Target is something to be tried.
type Target struct {
	ID         string
	Name       string
	ModelledOn string
	Group      string // results.TargetInfo.Group
	Deploy     api.Factory
	// Claims are the bindings the target says it enforces. Nil: ask the target.
	Claims []api.Binding
}

// A Plan is a set of trials. Its records are a function of the plan alone,
// whatever Parallel is.
type Plan struct {
	Targets   []Target
	Families  []attacks.Family
	Scenarios []*scenarios.Scenario
	Seeds     []uint64
	Approver  oracles.Approver
	Parallel  int // trials at a time; 0: one for each processor
	// TrialTimeout is how long a trial, or asking a target what it claims, may take
	// by the wall clock; 0: [DefaultTrialTimeout]. A trial that takes longer is
	// recorded as an error, and the plan goes on.
	TrialTimeout time.Duration
	// Races is how often a race is run whose order the target's lab cannot keep; 0:
	// [DefaultRaces].
	Races int
	// Progress, if set, is called after each trial, in order.
	Progress func(done, total int)
	// Events, if set, is given what each trial left behind, before its record.
	Events func(Events) error

	timed func(call string, took time.Duration) // see Time
}

// A trial is one line of the plan.
type trial struct {
	target   int
	attack   string
	variant  attacks.Variant
	kind     results.Kind
	scenario *scenarios.Scenario
	seed     uint64
}

// HonestAttack and HonestVariant name the plain run of a scenario in records.
const (
	HonestAttack  = "honest"
	HonestVariant = "plain"
)

// honest is the plain run, without an adversary and without a twist.
var honest = attacks.Variant{Name: HonestVariant, Summary: "one call, approved and executed", Effects: 1, Run: attacks.Honest}

// Prepare fills in what the targets claim, and checks that the plan selects
// something.
func (p *Plan) Prepare(ctx context.Context) error {
	switch {
	case len(p.Targets) == 0:
		return errors.New("planning: no target is selected")
	case len(p.Families) == 0:
		return errors.New("planning: no attack is selected")
	case len(p.Scenarios) == 0:
		return errors.New("planning: no scenario is selected")
	case len(p.Seeds) == 0:
		return errors.New("planning: no seed is selected")
	case p.Approver == nil:
		return errors.New("planning: no approver is selected")
	case p.TrialTimeout < 0:
		return fmt.Errorf("planning: the limit for a trial is %s, want more than nothing", p.TrialTimeout)
	}
	p.Targets = slices.Clone(p.Targets)
	ids := map[string]bool{}
	for i := range p.Targets {
		t := &p.Targets[i]
		if ids[t.ID] {
			return fmt.Errorf("planning: target %s is selected twice", t.ID)
		}
		ids[t.ID] = true
		if t.Claims != nil {
			continue
		}
		type answer struct {
			claims []api.Binding
			err    error
		}
		a, err := guard(ctx, p.limit(), func(ctx context.Context, n *note) (a answer) {
			a.claims, a.err = attacks.ClaimsOf(ctx, n.noting(t.Deploy), p.Scenarios[0])
			return a
		})
		if err = cmp.Or(err, a.err); err != nil {
			return fmt.Errorf("planning: target %s: %w", t.ID, err)
		}
		t.Claims = a.claims
	}
	return nil
}

// each yields the trials in the order of the plan: by target, then by seed, so
// that nothing has to be remembered for longer than that.
func (p Plan) each() iter.Seq[trial] {
	applicable := p.applicable()
	return func(yield func(trial) bool) {
		for ti := range p.Targets {
			for _, seed := range p.Seeds {
				for _, sc := range p.Scenarios {
					if !yield(trial{ti, HonestAttack, honest, results.Honest, sc, seed}) {
						return
					}
				}
				for _, t := range applicable {
					t.target, t.seed = ti, seed
					if !yield(t) {
						return
					}
				}
			}
		}
	}
}

// applicable lists what is tried against each target with each seed.
func (p Plan) applicable() (out []trial) {
	p.pairs(func(attack string, kind results.Kind, v attacks.Variant, sc *scenarios.Scenario) {
		if v.NotApplicable(sc) == "" {
			out = append(out, trial{attack: attack, variant: v, kind: kind, scenario: sc})
		}
	})
	return out
}

// skipped lists what makes no sense, with the reasons.
func (p Plan) skipped() (out []results.Skip) {
	p.pairs(func(attack string, _ results.Kind, v attacks.Variant, sc *scenarios.Scenario) {
		if why := v.NotApplicable(sc); why != "" {
			out = append(out, results.Skip{Attack: attack, Variant: v.Name, Scenario: sc.ID, Reason: why})
		}
	})
	return out
}

func (p Plan) pairs(f func(attack string, kind results.Kind, v attacks.Variant, sc *scenarios.Scenario)) {
	for _, fam := range p.Families {
		for _, x := range []struct {
			kind     results.Kind
			variants []attacks.Variant
		}{{results.Attack, fam.Variants}, {results.Twin, fam.Twins}} {
			for _, v := range x.variants {
				for _, sc := range p.Scenarios {
					f(fam.ID, x.kind, v, sc)
				}
			}
		}
	}
}

// Total is the number of trials.
func (p Plan) Total() int {
	return len(p.Targets) * len(p.Seeds) * (len(p.Scenarios) + len(p.applicable()))
}

// Catalogue describes the plan for the results.
func (p Plan) Catalogue() results.Catalogue {
	c := results.Catalogue{Implies: map[string][]string{}}
	for _, b := range api.Bindings() {
		for _, weaker := range api.Bindings() {
			if b != weaker && api.Enforces([]api.Binding{b}, weaker) {
				c.Implies[string(b)] = append(c.Implies[string(b)], string(weaker))
			}
		}
	}
	for _, t := range p.Targets {
		c.Targets = append(c.Targets, results.TargetInfo{ID: t.ID, Name: t.Name, ModelledOn: t.ModelledOn, Group: t.Group, Bindings: names(t.Claims)})
	}
	for _, f := range p.Families {
		info := results.AttackInfo{ID: f.ID, Title: f.Title, MainBinding: string(f.Main)}
		for _, v := range f.Variants {
			info.Variants = append(info.Variants, describe(v, results.Attack))
		}
		for _, v := range f.Twins {
			info.Variants = append(info.Variants, describe(v, results.Twin))
		}
		c.Attacks = append(c.Attacks, info)
	}
	for _, s := range p.Scenarios {
		c.Scenarios = append(c.Scenarios, describeScenario(s))
	}
	c.NotApplicable = p.skipped()
	return c
}

func describe(v attacks.Variant, k results.Kind) results.VariantInfo {
	info := results.VariantInfo{
		Name: v.Name, Summary: v.Summary, Condition: v.Stopped.String(), Kind: k,
		References: v.References, AlsoNamed: names(v.AlsoNamed), Effects: v.Effects,
	}
	if k == results.Attack {
		info.Success, info.SuccessOn = v.Success, string(cmp.Or(v.SuccessOn, api.ClassConsequential))
	}
	for _, u := range v.Uses {
		info.Capabilities = append(info.Capabilities, string(u))
	}
	return info
}

func describeScenario(s *scenarios.Scenario) results.ScenarioInfo {
	t, _ := s.Tool(s.HonestTool)
	info := results.ScenarioInfo{ID: s.ID, Title: s.Title, Fields: map[string]string{}, Guarantee: string(t.Guarantee)}
	for _, role := range scenarios.Roles() {
		if f, ok := s.Field(role); ok {
			info.Fields[string(role)] = f.Name
		}
	}
	return info
}

func names(bs []api.Binding) []string {
	var out []string
	for _, b := range bs {
		out = append(out, string(b))
	}
	return out
}

// Run performs the trials and hands their records to emit in the order of the
// plan. It stops at the first error of emit and when ctx ends; trials that fail
// are records, not errors.
func (p Plan) Run(ctx context.Context, emit func(results.Record) error) error {
	if p.Parallel <= 0 {
		p.Parallel = runtime.GOMAXPROCS(0)
	}
	total := p.Total()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type job struct {
		trial trial
		out   chan made
	}
	work := make(chan job)
	order := make(chan job, 4*p.Parallel) // bounds what waits for its turn
	var baselines baselines
	var workers sync.WaitGroup
	for range p.Parallel {
		workers.Go(func() {
			for j := range work {
				j.out <- p.perform(ctx, j.trial, &baselines)
			}
		})
	}
	go func() {
		defer close(order)
		defer close(work)
		for t := range p.each() {
			j := job{t, make(chan made, 1)}
			select {
			case order <- j:
			case <-ctx.Done():
				return
			}
			select {
			case work <- j:
			case <-ctx.Done():
				close(j.out)
				return
			}
		}
	}()
	done := 0
	var failed error
	for j := range order {
		r, ok := <-j.out
		switch {
		case failed != nil || !ok || ctx.Err() != nil:
			continue
		}
		if p.Events != nil {
			failed = p.Events(r.events)
		}
		if failed == nil {
			failed = emit(r.record)
		}
		if failed != nil {
			cancel()
			continue
		}
		done++
		if p.Progress != nil {
			p.Progress(done, total)
		}
	}
	workers.Wait()
	if failed == nil {
		failed = context.Cause(ctx)
	}
	return failed
}

// made is what perform makes of a trial.
type made struct {
	record results.Record
	events Events // filled if the plan wants events
}

// perform makes one trial.
func (p Plan) perform(ctx context.Context, t trial, b *baselines) made {
	target := p.Targets[t.target]
	r := results.Record{
		Schema: results.Schema, Target: target.ID, Attack: t.attack, Variant: t.variant.Name, Kind: t.kind, Twin: t.kind == results.Twin,
		Scenario: t.scenario.ID, Approver: p.Approver.Name(), Seed: t.seed,
		Pair:      fmt.Sprintf("%s/%s/%s/%d", t.attack, t.variant.Name, t.scenario.ID, t.seed),
		Predicted: results.PredictCompleted, RefusedBy: []string{}, RefusedCodes: []string{}, Reasons: []string{},
		ExpectedEffects: t.variant.Effects,
	}
	if t.kind == results.Attack {
		r.Predicted = results.PredictExecuted
		if t.variant.StoppedBy(target.Claims, t.scenario) {
			r.Predicted = results.PredictBlocked
		}
	}
	once := func() made {
		events := p.play(ctx, target, t)
		return made{events.judge().record(r, criterionOf(t), func() map[referee.Kind]bool { return p.baseline(ctx, t, b) }), events}
	}
	m := once()
	if m.record.Nondeterministic {
		m = worst(m, cmp.Or(p.Races, DefaultRaces), once)
	}
	if p.Events != nil {
		m.events = m.events.masked()
	}
	return m
}

// DefaultRaces is how often a race is run whose order nobody keeps.
const DefaultRaces = 10

// worst runs a race again, n times in all, and keeps the first of those that went most
// wrong: an attack that made an effect, or an honest use that did not end well, before
// one that could not be carried out. The record says how often there was no effect,
// one, or more.
func worst(first made, n int, again func() made) made {
	wrong := func(r results.Record) int {
		switch {
		case !r.Conclusive():
			return 1
		case r.Kind == results.Attack && r.Observed == results.Executed, r.Kind != results.Attack && r.Observed != results.Completed:
			return 2
		}
		return 0
	}
	kept, unclear, none, one := first, 0, 0, 0
	for i, m := 0, first; ; m = again() {
		switch {
		case !m.record.Conclusive():
			unclear++
		case m.record.Effects == 0:
			none++
		case m.record.Effects == 1:
			one++
		}
		if wrong(m.record) > wrong(kept.record) {
			kept = m
		}
		if i++; i >= n {
			break
		}
	}
	counts := fmt.Sprintf("%d races: no effect in %d, one in %d, more in %d", n, none, one, n-none-one-unclear)
	if unclear > 0 {
		counts += fmt.Sprintf(", %d that cannot be told", unclear)
	}
	kept.record.Nondeterministic = true // also where the trial ended before the race
	kept.record.Detail = strings.TrimPrefix(kept.record.Detail+"; "+counts, "; ")
	return kept
}

// baselines keeps which kinds of reasons a target's plain run has: a design that
// shows a summary always hides something, and that alone fails no twin. Only the
// newest groups of trials are kept; what was dropped is measured again.
type baselines struct {
	mu     sync.Mutex
	groups []baselineGroup
}

// A baselineGroup holds the plain runs of one target with one seed, by scenario.
type baselineGroup struct {
	target int
	seed   uint64
	kinds  map[string]func() map[referee.Kind]bool
}

const keptBaselines = 4

func (b *baselines) group(target int, seed uint64) baselineGroup {
	for _, g := range b.groups {
		if g.target == target && g.seed == seed {
			return g
		}
	}
	g := baselineGroup{target, seed, map[string]func() map[referee.Kind]bool{}}
	b.groups = append(b.groups, g)
	if len(b.groups) > keptBaselines {
		b.groups = slices.Delete(b.groups, 0, 1)
	}
	return g
}

func (p Plan) baseline(ctx context.Context, t trial, b *baselines) map[referee.Kind]bool {
	b.mu.Lock()
	g := b.group(t.target, t.seed)
	once := g.kinds[t.scenario.ID]
	if once == nil {
		once = sync.OnceValue(func() map[referee.Kind]bool {
			plain := t
			plain.attack, plain.variant, plain.kind = HonestAttack, honest, results.Honest
			return p.play(ctx, p.Targets[t.target], plain).judge().kinds()
		})
		g.kinds[t.scenario.ID] = once
	}
	b.mu.Unlock()
	return once()
}

// limit is how long a trial may take.
func (p Plan) limit() time.Duration { return cmp.Or(p.TrialTimeout, DefaultTrialTimeout) }

// play performs a script on a fresh stage, within the limit.
func (p Plan) play(ctx context.Context, target Target, t trial) Events {
	blank := Events{
		Schema: EventsSchema, Target: target.ID, Attack: t.attack, Variant: t.variant.Name, Kind: t.kind,
		Scenario: t.scenario.ID, Approver: p.Approver.Name(), Seed: t.seed,
	}
	e, err := guard(ctx, p.limit(), func(ctx context.Context, n *note) Events {
		e := blank
		n.timed = p.timed
		s, err := attacks.NewStage(ctx, n.noting(target.Deploy), t.scenario, t.seed, p.Approver)
		if err != nil {
			e.fail(err)
			return e
		}
		err = s.Perform(t.variant.Run)
		e.Nondeterministic = s.Nondeterministic()
		e.Tampered, e.Prompts, e.Answers, e.Steps, e.History = s.Tampered(), s.Prompts, s.Answers, s.Events, s.History
		e.fail(cmp.Or(err, badName(s.Answers)))
		return e
	})
	if err != nil {
		blank.fail(err)
		return blank
	}
	return e
}

func (e *Events) fail(err error) {
	var unimplemented *api.UnimplementedError
	switch {
	case errors.As(err, &unimplemented):
		e.Unimplemented = oneLine(unimplemented)
	case err != nil:
		e.Error = oneLine(err)
	}
}

// An outcome is what a trial left behind, judged.
type outcome struct {
	Events
	verdicts []referee.Verdict
}

// judge has the referee look at a trial. What it cannot judge is an error.
func (e Events) judge() outcome {
	verdicts, err := referee.Judge(e.History)
	if err != nil && e.Error == "" && e.Unimplemented == "" {
		e.Error = oneLine(err)
	}
	return outcome{e, verdicts}
}

// A criterion is what a trial is measured by.
type criterion struct {
	kind    results.Kind
	wanted  []string      // reasons that make an attack a success
	class   api.ToolClass // of the tools whose effects count
	effects int
}

func criterionOf(t trial) criterion {
	return criterion{t.kind, t.variant.Successes(t.scenario), cmp.Or(t.variant.SuccessOn, api.ClassConsequential), t.variant.Effects}
}

// record fills in what was measured. baseline is called for twins alone.
func (o outcome) record(r results.Record, c criterion, baseline func() map[referee.Kind]bool) results.Record {
	r.Nondeterministic = o.Nondeterministic
	r.Reasons, r.Effects, r.Prompts, r.ExpectedEffects = o.reasons(), len(o.verdicts), o.Prompts, c.effects
	r.RefusedBy, r.RefusedCodes = o.refusals()
	r.Observed, r.Detail = o.observe(c, baseline)
	if err := r.Validate(); err != nil {
		// One record that cannot be kept is no reason to lose the run.
		r.RefusedBy, r.RefusedCodes, r.Reasons = []string{}, []string{}, []string{}
		r.Observed, r.Detail = results.Error, oneLine(err)
	}
	return r
}

func (o outcome) kinds() map[referee.Kind]bool {
	out := map[referee.Kind]bool{}
	for _, v := range o.verdicts {
		for _, r := range v.Reasons {
			out[r.Kind] = true
		}
	}
	return out
}

func (o outcome) reasons() []string {
	set := map[string]bool{}
	for _, v := range o.verdicts {
		for _, r := range v.Reasons {
			set[r.String()] = true
		}
	}
	out := slices.Sorted(maps.Keys(set))
	if out == nil {
		out = []string{}
	}
	return out
}

// refusals collects who refused the adversary's steps (or, in a trial without
// one, any step).
func (o outcome) refusals() (by, codes []string) {
	names, pairs := map[string]bool{}, map[string]bool{}
	for _, a := range o.Answers {
		if o.Tampered && !a.Hostile {
			continue
		}
		if a.Approver {
			names["approver"], pairs["approver/declined"] = true, true
		}
		if a.Provider != "" && a.Status == api.Refused {
			names["provider"], pairs["provider/"+a.Provider] = true, true
		}
		for _, r := range a.Refusals {
			if !goodName(string(r.Binding)) || !goodName(r.Code) {
				continue // the trial is an error, which quotes it
			}
			names[string(r.Binding)], pairs[string(r.Binding)+"/"+r.Code] = true, true
		}
	}
	by, codes = slices.Sorted(maps.Keys(names)), slices.Sorted(maps.Keys(pairs))
	if by == nil {
		by, codes = []string{}, []string{}
	}
	return by, codes
}

// observe says what came of a trial.
func (o outcome) observe(c criterion, baseline func() map[referee.Kind]bool) (results.Observation, string) {
	switch {
	case o.Unimplemented != "":
		return results.Unimplemented, o.Unimplemented
	case o.Error != "":
		return results.Error, o.Error
	case c.kind == results.Attack:
		return o.observeAttack(c)
	}
	return o.observeBenign(c, baseline)
}

// observeAttack: success is an effect with a reason that the variant counts.
func (o outcome) observeAttack(c criterion) (results.Observation, string) {
	sound := 0
	for _, v := range o.verdicts {
		if o.class(v.Effect) != c.class {
			continue
		}
		if slices.ContainsFunc(v.Reasons, func(r referee.Reason) bool {
			return slices.Contains(c.wanted, string(r.Kind)) || slices.Contains(c.wanted, r.String())
		}) {
			return results.Executed, ""
		}
		sound++
	}
	if sound < c.effects {
		return results.Starved, fmt.Sprintf("%d of %d effects of the honest part were made", sound, c.effects)
	}
	if !o.Tampered {
		return results.Error, "the adversary's step was not reached: " + o.last()
	}
	status := map[api.Status]bool{}
	for _, a := range o.Answers {
		if a.Hostile {
			status[a.Status] = true
		}
	}
	for _, s := range []api.Status{api.Refused, api.Reasked, api.Held, api.Absorbed} {
		if status[s] {
			return results.Observation(s), ""
		}
	}
	return results.Error, "the adversary's step was answered with success and had no effect that counts"
}

func (o outcome) class(effect int) api.ToolClass {
	e := o.History.Effects[effect]
	for _, t := range o.History.Tools {
		if t.Audience == e.Audience && t.Name == e.Tool {
			return t.Class
		}
	}
	return ""
}

// observeBenign: exactly the intended effects, and no kind of reason that the
// target's plain run does not have. The plain run itself has to make its effect.
func (o outcome) observeBenign(c criterion, baseline func() map[referee.Kind]bool) (results.Observation, string) {
	if len(o.verdicts) < c.effects {
		return results.Starved, fmt.Sprintf("%d of %d effects were made: %s", len(o.verdicts), c.effects, o.last())
	}
	if len(o.verdicts) > c.effects {
		return results.Executed, fmt.Sprintf("%d effects were made, and %d were due", len(o.verdicts), c.effects)
	}
	if c.kind == results.Twin {
		usual := baseline()
		for _, k := range slices.Sorted(maps.Keys(o.kinds())) {
			if !usual[k] {
				return results.Executed, "an effect has a reason that the plain run has not: " + string(k)
			}
		}
	}
	return results.Completed, ""
}

// last describes the last answer.
func (o outcome) last() string {
	if len(o.Answers) == 0 {
		return "nothing was answered"
	}
	a := o.Answers[len(o.Answers)-1]
	switch {
	case a.Approver:
		return "the approver declined"
	case a.Provider != "":
		return fmt.Sprintf("the service: %s (%s)", a.Status, a.Provider)
	}
	status := string(a.Status)
	if !goodName(status) {
		status = quoted(status)
	}
	parts := []string{status}
	for _, r := range a.Refusals {
		parts = append(parts, r.String())
	}
	return oneLine(errors.New(strings.Join(parts, "; ")))
}

// maxDetail bounds what a record says about an error: a target chooses its text.
const maxDetail = 2000

func oneLine(err error) string {
	s := strings.Join(strings.Fields(strings.ToValidUTF8(err.Error(), "\uFFFD")), " ")
	if runes := []rune(s); len(runes) > maxDetail {
		s = fmt.Sprintf("%s… and %d more characters", string(runes[:maxDetail]), len(runes)-maxDetail)
	}
	return cmp.Or(s, "an error without a text")
}
