package harness_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"countersign/attacks"
	"countersign/attacks/harness"
	"countersign/gateway/api"
	"countersign/gateway/lab"
	"countersign/modes"
	"countersign/results"
	"countersign/scenarios"
)

// pick selects variants as AB1/NAME, or families.
func pick(t testing.TB, names ...string) []attacks.Family {
	t.Helper()
	var out []attacks.Family
	found := map[string]bool{}
	for _, f := range attacks.All() {
		all := f.Variants
		f.Variants = nil
		for _, v := range all {
			for _, name := range []string{f.ID, f.ID + "/" + v.Name} {
				if slices.Contains(names, name) {
					f.Variants, found[name] = append(f.Variants, v), true
				}
			}
		}
		if len(f.Variants) > 0 {
			out = append(out, f)
		}
	}
	if len(found) != len(names) {
		t.Fatalf("found %v of %v", found, names)
	}
	return out
}

func ablation(t testing.TB, id string, fs []attacks.Family, scs ...string) harness.Ablation {
	t.Helper()
	m := mode(t, id)
	a := harness.Ablation{
		ID: m.ID, Bindings: m.Bindings.List(), Families: fs, Seed: 1, Approver: faithful(t),
		Deploy: func(bs []api.Binding) api.Factory {
			part := m
			part.Bindings = modes.NewSet(bs...)
			return lab.Deploy(part)
		},
	}
	for _, sc := range scs {
		a.Scenarios = append(a.Scenarios, scenario(t, sc))
	}
	return a
}

func ablate(t testing.TB, a harness.Ablation) *harness.AblationReport {
	t.Helper()
	r, err := a.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func cutsOf(r *harness.AblationReport, variant, sc string) (cuts string, found bool) {
	for _, v := range r.Variants {
		for _, p := range v.Places {
			if v.Variant == variant && slices.Contains(p.Scenarios, sc) {
				var out []string
				for _, c := range p.Cuts {
					out = append(out, loss(c).String())
				}
				return strings.Join(out, " "), true
			}
		}
	}
	return "", false
}

// TestAblationFindsTheCuts: for a part of the catalogue, what is measured is what
// is predicted, and it is known by heart here.
func TestAblationFindsTheCuts(t *testing.T) {
	fs := pick(t, "AB4/presented_twice_in_a_row", "AB5", "AB9", "AB1/text_changed_and_the_permit_edited_to_match", "AB7/answer_lost_and_sent_again_below_the_gate",
		"AB10/requester_decides_the_agents_request", "AB12/clock_missing_at_dispatch")
	scs := []string{"payments", "dns"}
	if raced {
		fs = pick(t, "AB4/presented_twice_in_a_row")
	}
	r := ablate(t, ablation(t, "M9", fs, scs...))
	for _, f := range slices.Concat(r.Disagreements, r.Errors) {
		t.Error(f)
	}
	if code := r.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	for _, tt := range []struct{ variant, scenario, cuts string }{
		{"presented_twice_in_a_row", "payments", "seen-once-idem"}, // an idempotent provider doubles it
		{"presented_twice_in_a_row", "dns", "seen-once"},
		{"presented_at_a_sibling_service_with_the_same_key", "dns", "audience"},
		{"presented_by_another_agent", "payments", "sender-agent"},
		{"text_changed_and_the_permit_edited_to_match", "payments", "args record-signed-challenge"},
		{"clock_missing_at_dispatch", "dns", "sender-expiry-closed"},
	} {
		got, ok := cutsOf(r, tt.variant, tt.scenario)
		if !ok && raced {
			continue
		}
		if got != tt.cuts {
			t.Errorf("%s in %s: the cuts are %q, want %q", tt.variant, tt.scenario, got, tt.cuts)
		}
	}
	if raced {
		return
	}
	for _, s := range r.Singles {
		if want := s.Binding == api.BindAudience; want != slices.Contains(s.Opened, "AB5/presented_at_a_sibling_service_with_the_same_key") {
			t.Errorf("without %s: %v", s.Binding, s.Opened)
		}
	}
	// Each sufficient set, run as a design, blocks all and completes every twin; with
	// one binding less, it does not.
	if len(r.Sufficient) < 2 {
		t.Fatalf("%d sufficient sets", len(r.Sufficient))
	}
	passes := func(bs []api.Binding) bool {
		m, err := modes.Compose("part", bs...)
		if err != nil {
			t.Fatal(err)
		}
		p := plan(t, []harness.Target{target(m)}, fs, scenario(t, scs[0]), scenario(t, scs[1]))
		rs, _ := run(t, p)
		ok := p.CheckDesign(t.Context(), "part") == nil
		for _, r := range rs {
			ok = ok && (r.Kind == results.Attack && r.Blocked() || r.Kind != results.Attack && r.Observed == results.Completed)
		}
		return ok
	}
	for _, set := range r.Sufficient[:2] {
		if !passes(set) {
			t.Errorf("%v is no sufficient set", set)
		}
		for i := range set {
			if less := slices.Delete(slices.Clone(set), i, i+1); passes(less) {
				t.Errorf("%v is not minimal: %v is enough", set, less)
			}
		}
	}
}

// TestAblationIsAFunction: the order in which trials end decides nothing.
func TestAblationIsAFunction(t *testing.T) {
	a := ablation(t, "M4", pick(t, "AB4", "AB5"), "payments")
	a.Parallel = 1
	one := ablate(t, a)
	a.Parallel = 5
	if many := ablate(t, a); !reflect.DeepEqual(one, many) {
		t.Errorf("one at a time: %+v\nfive at a time: %+v", one, many)
	}
}

// TestAblationOfAnOpenDesign: what is open already needs no cut, and a smaller
// design owes no more than the whole one.
func TestAblationOfAnOpenDesign(t *testing.T) {
	r := ablate(t, ablation(t, "M4", pick(t, "AB1/text_changed_in_the_queue", "AB5/presented_at_a_sibling_service_with_the_same_key"), "payments"))
	if r.ExitCode() != 0 || len(r.Variants) != 2 || !r.Variants[0].Places[0].Open || r.Variants[1].Places[0].Open {
		t.Errorf("%+v", r)
	}
	if len(r.Sufficient) == 0 || slices.ContainsFunc(r.Sufficient, func(s []api.Binding) bool { return !slices.Contains(s, api.BindAudience) }) {
		t.Errorf("sufficient sets: %v", r.Sufficient)
	}
}

// TestAblationFindings: a wrong condition, an idle binding, a trial that fails and
// a binding that helps an attack are all noticed.
func TestAblationFindings(t *testing.T) {
	fs := func() []attacks.Family { return pick(t, "AB5/presented_at_a_sibling_service_with_the_same_key") }
	condition := func(text string) attacks.Condition {
		c, err := attacks.ParseCondition(text)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for name, tt := range map[string]struct {
		change func(a *harness.Ablation)
		code   int
		want   string // in a finding
	}{
		"as it is": {func(*harness.Ablation) {}, 0, ""},
		"a condition that asks too much": {func(a *harness.Ablation) {
			a.Families[0].Variants[0].Stopped = condition("audience & args")
		}, 1, "the measured minimal cuts are audience; \"audience & args\" predicts args, audience"},
		"a condition that asks too little": {func(a *harness.Ablation) {
			a.Families[0].Variants[0].Stopped = condition("audience | args")
		}, 1, "the measured minimal cuts are audience; \"audience | args\" predicts args+audience"},
		"idle in the whole": {func(a *harness.Ablation) { a.Whole = true }, 1, ""},
		"a trial that fails": {func(a *harness.Ablation) {
			a.Families[0].Variants[0].Run = func(*attacks.Stage) { panic("a defect of the script") }
		}, 2, "a defect of the script"},
		"a binding that helps the attack": {func(a *harness.Ablation) {
			deploy := a.Deploy
			a.Deploy = func(bs []api.Binding) api.Factory {
				if slices.Contains(bs, api.BindSteer) {
					bs = slices.DeleteFunc(slices.Clone(bs), func(b api.Binding) bool { return b == api.BindAudience })
				}
				return deploy(bs)
			}
		}, 1, "not monotone"},
	} {
		a := ablation(t, "M9", fs(), "payments")
		tt.change(&a)
		r := ablate(t, a)
		if code := r.ExitCode(); code != tt.code {
			t.Errorf("%s: exit code %d, want %d: %v, %v, %v", name, code, tt.code, r.Disagreements, r.Errors, r.Idle)
		}
		found := tt.want == ""
		for _, f := range slices.Concat(r.Disagreements, r.Errors) {
			found = found || strings.Contains(f.String(), tt.want)
			if f.Attack != "AB5" || f.Scenario != "payments" {
				t.Errorf("%s: %+v", name, f)
			}
		}
		if !found {
			t.Errorf("%s: no finding says %q: %v, %v", name, tt.want, r.Disagreements, r.Errors)
		}
	}
	if (*harness.AblationReport)(nil).ExitCode() != 2 {
		t.Error("no report is a success")
	}
}

// TestAblationNeedsADesign: nothing to leave out, nothing selected, no gate.
func TestAblationNeedsADesign(t *testing.T) {
	fs := pick(t, "AB5")
	for name, tt := range map[string]struct {
		change func(a *harness.Ablation)
		want   string
	}{
		"no binding":  {func(a *harness.Ablation) { a.Bindings = nil }, "nothing"},
		"no deploy":   {func(a *harness.Ablation) { a.Deploy = nil }, "selected"},
		"no attack":   {func(a *harness.Ablation) { a.Families = nil }, "selected"},
		"no scenario": {func(a *harness.Ablation) { a.Scenarios = nil }, "selected"},
		"no approver": {func(a *harness.Ablation) { a.Approver = nil }, "selected"},
		"no gate": {func(a *harness.Ablation) {
			a.Deploy = func([]api.Binding) api.Factory { return lab.Deploy(mode(t, "M0")) }
		}, "no gate"},
		"too many": {func(a *harness.Ablation) { a.Bindings = make([]api.Binding, 64) }, "more than 63"},
	} {
		a := ablation(t, "M9", fs, "payments")
		tt.change(&a)
		if name == "no binding" {
			tt.want = "no binding"
		}
		if r, err := a.Run(t.Context()); err == nil || r != nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ablation(t, "M9", fs, "payments").Run(ctx); err == nil {
		t.Error("an ablation that was cancelled has a report")
	}
}

// TestCheckDesign: what lets nothing through and what lets everything through is
// no design.
func TestCheckDesign(t *testing.T) {
	for text, want := range map[string]string{
		"x=record":            "",
		"x=signed":            "",
		"x=duties":            "does not complete",
		"x=closed":            "although nobody has decided",
		"x=mediated,percall":  "although nobody has decided",
		"x=duties,args,steer": "does not complete",
	} {
		m, err := modes.ParseComposed(text)
		if err != nil {
			t.Fatal(err)
		}
		p := plan(t, []harness.Target{target(m)}, pick(t, "AB5"), scenario(t, "payments"))
		err = p.CheckDesign(t.Context(), "x")
		if (err == nil) != (want == "") || err != nil && (!errors.Is(err, harness.ErrNoDesign) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if err := (harness.Plan{}).CheckDesign(t.Context(), "x"); err == nil || errors.Is(err, harness.ErrNoDesign) {
		t.Errorf("no such target: %v", err)
	}
}

// TestBindingsAreMonotone takes bindings from M9 in random orders: once an attack
// goes through, it goes through with every smaller design.
func TestBindingsAreMonotone(t *testing.T) {
	chains := 16
	if raced {
		chains = 2
	}
	rng := rand.New(rand.NewPCG(1, 2))
	m9 := mode(t, "M9")
	var all []attacks.Family
	for _, f := range attacks.All() {
		for _, v := range f.Variants {
			one := f
			one.Variants, one.Twins = []attacks.Variant{v}, nil
			all = append(all, one)
		}
	}
	scs := scenarios.All()
	for range chains {
		f, sc := all[rng.IntN(len(all))], scs[rng.IntN(len(scs))]
		for f.Variants[0].NotApplicable(sc) != "" {
			f, sc = all[rng.IntN(len(all))], scs[rng.IntN(len(scs))]
		}
		order := api.Bindings()
		rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		var targets []harness.Target
		for i := range order {
			m := m9.Without(order[:i]...)
			m.ID = fmt.Sprintf("%d", i)
			targets = append(targets, target(m))
		}
		p := plan(t, targets, []attacks.Family{f}, sc)
		rs, _ := run(t, p)
		opened := ""
		for _, r := range rs {
			if r.Kind != results.Attack || p.CheckDesign(t.Context(), r.Target) != nil {
				continue
			}
			switch {
			case r.Observed == results.Executed:
				opened = r.Target
			case r.Blocked() && opened != "":
				t.Errorf("%s/%s in %s goes through without the first %s of %v, and not without the first %s", f.ID, r.Variant, sc.ID, opened, order, r.Target)
			case !r.Blocked():
				t.Errorf("without %v: %s", order, describe(r))
			}
		}
	}
}
