package harness_test

import (
	"slices"
	"strings"
	"testing"

	"countersign/attacks"
	"countersign/attacks/harness"
	"countersign/gateway/api"
	"countersign/modes"
	"countersign/results"
	"countersign/scenarios"
)

// A loss is a set of bindings that M9 is run without.
type loss []api.Binding

func (l loss) String() string {
	var parts []string
	for _, b := range l {
		parts = append(parts, string(b))
	}
	return strings.Join(parts, "-")
}

func (l loss) without(i int) loss { return slices.Delete(slices.Clone(l), i, i+1) }

// opens reports whether a variant is predicted to go through when M9 loses l.
func (l loss) opens(v attacks.Variant, g api.Guarantee) bool {
	left := slices.DeleteFunc(api.Bindings(), func(b api.Binding) bool { return slices.Contains(l, b) })
	return !v.Stopped.Holds(left, string(g))
}

// cut is a smallest set of bindings without which a variant goes through, found by
// giving back, one after the other, whatever the variant does not need to be lost.
// Which one is found depends on the order in which they are given back.
func cut(v attacks.Variant, g api.Guarantee, order []api.Binding) loss {
	lost := loss(api.Bindings())
	for _, b := range order {
		i := slices.Index(lost, b)
		if smaller := lost.without(i); smaller.opens(v, g) {
			lost = smaller
		}
	}
	return lost
}

// coherent reports whether what is left of M9 is a design at all: who approved is
// known from the record or from the assertion, and without both a check that wants
// to know who it was refuses everybody.
func (l loss) coherent() bool {
	return slices.Contains(l, api.BindDuties) ||
		!slices.Contains(l, api.BindRecord) || !slices.Contains(l, api.BindAttest) || !slices.Contains(l, api.BindChallenge)
}

// losses are the sets that the ablation runs: each binding alone, a minimal cut for
// each variant and binding where there is one, and every set that is one binding
// short of such a cut.
func losses() []loss {
	seen := map[string]bool{"": true}
	var out []loss
	add := func(l loss) {
		if !seen[l.String()] && l.coherent() {
			seen[l.String()] = true
			out = append(out, l)
		}
	}
	for _, b := range api.Bindings() {
		add(loss{b})
	}
	for _, f := range attacks.All() {
		for _, v := range f.Variants {
			for i := range api.Bindings() { // the i-th is given back last, so it stays in the cut where it can
				order := append(slices.Delete(api.Bindings(), i, i+1), api.Bindings()[i])
				c := cut(v, api.GuaranteeLookup, order)
				add(c)
				for j := range c {
					add(c.without(j))
				}
			}
		}
	}
	return out
}

// places assigns every variant to the first scenario to which it applies, or, where
// its condition depends on the provider, to one of each guarantee.
func places(t *testing.T) map[*scenarios.Scenario][]attacks.Family {
	t.Helper()
	out := map[*scenarios.Scenario][]attacks.Family{}
	for _, f := range attacks.All() {
		here := map[*scenarios.Scenario][]attacks.Variant{}
		for _, v := range f.Variants {
			taken := map[api.Guarantee]bool{}
			for _, sc := range scenarios.All() {
				g := guarantee(sc)
				if v.NotApplicable(sc) != "" || taken[g] || len(taken) > 0 && !strings.Contains(v.Stopped.String(), "@") {
					continue
				}
				taken[g] = true
				here[sc] = append(here[sc], v)
			}
		}
		for sc, vs := range here {
			out[sc] = append(out[sc], attacks.Family{ID: f.ID, Title: f.Title, Main: f.Main, Variants: vs})
		}
	}
	return out
}

func guarantee(sc *scenarios.Scenario) api.Guarantee {
	t, _ := sc.Tool(sc.HonestTool)
	return t.Guarantee
}

// TestAblation takes bindings from M9: one at a time, and in the smallest groups
// that open something. Each loss opens exactly the variants that are predicted, and
// every binding is in a group whose loss opens a variant that the loss of none of
// the group's proper subsets opens. So no binding is idle, and those that double
// each other are shown to.
func TestAblation(t *testing.T) {
	all := losses()
	if raced {
		all = all[:1]
	}
	m9 := mode(t, "M9")
	var targets []harness.Target
	opened := map[string]map[string]bool{} // loss → variant and scenario
	for _, l := range all {
		m := m9.Without(l...)
		m.ID = l.String()
		targets = append(targets, target(m))
		opened[m.ID] = map[string]bool{}
	}
	trials := 0
	for sc, fs := range places(t) {
		rs, a := run(t, plan(t, targets, fs, sc))
		trials += len(rs)
		for _, r := range slices.Concat(a.Disagreements, a.Errors) {
			t.Errorf("M9 without %s", describe(r))
		}
		for _, r := range rs {
			if r.Kind == results.Attack && r.Observed == results.Executed {
				opened[r.Target][r.Variant+" in "+r.Scenario] = true
			}
		}
	}
	t.Logf("%d losses, %d trials", len(all), trials)
	if raced {
		return
	}
	needed := map[api.Binding]loss{}
	for _, l := range all {
		for variant := range opened[l.String()] {
			minimal := true
			for i := range l { // by monotony it is enough to give one binding back
				smaller := l.without(i)
				if len(smaller) == 0 {
					continue // M9 itself; the matrix shows that nothing goes through
				}
				was, ran := opened[smaller.String()]
				minimal = minimal && ran && !was[variant]
			}
			if !minimal {
				continue
			}
			for _, b := range l {
				if k := needed[b]; k == nil || len(l) < len(k) {
					needed[b] = l
				}
			}
		}
	}
	for _, b := range api.Bindings() {
		if needed[b] == nil {
			t.Errorf("%s is in no group whose loss opens a variant that no smaller loss opens: it is idle or never tried", b)
		} else {
			t.Logf("%-10s is needed: without %s an attack goes through that no smaller loss lets through", b, needed[b])
		}
	}
}

// TestDoubledBindings names the groups that the design says double each other: M9
// loses none of its protection until all of a group are gone.
func TestDoubledBindings(t *testing.T) {
	for _, tt := range []struct {
		group  loss
		opens  string
		single bool // one member alone opens nothing of this variant
	}{
		{loss{"record", "signed", "challenge"}, "unsigned_permit_with_another_calls_assertion", true},
		{loss{"record", "signed", "attest"}, "text_changed_and_permit_and_assertion_edited_to_match", true},
		{loss{"sender", "agent"}, "presented_by_another_agent", true},
		{loss{"seen", "once", "idem"}, "presented_twice_in_a_row", true},
		{loss{"run", "suspension"}, "used_in_another_run_with_an_equal_call_id", true},
		{loss{"call", "suspension"}, "used_for_a_parallel_call_of_the_same_step", true},
		{loss{"attest", "duties"}, "assertion_user_was_not_verified", true},
		{loss{"closed", "online"}, "policy_unreachable_at_dispatch", true},
		{loss{"closed", "expiry", "sender"}, "clock_missing_at_dispatch", true},
		{loss{"strict", "render"}, "duplicate_key_at_review", true},
		{loss{"args"}, "text_changed_in_the_queue", false},
		{loss{"closed"}, "audit_log_unwritable_at_dispatch", false},
	} {
		found := false
		for _, f := range attacks.All() {
			for _, v := range f.Variants {
				if v.Name != tt.opens {
					continue
				}
				found = true
				if !tt.group.opens(v, api.GuaranteeIdempotent) {
					t.Errorf("%s stays blocked without %s", v.Name, tt.group)
				}
				for i := range tt.group {
					if smaller := tt.group.without(i); tt.single && smaller.opens(v, api.GuaranteeIdempotent) {
						t.Errorf("%s goes through without %s already", v.Name, smaller)
					}
				}
			}
		}
		if !found {
			t.Errorf("there is no variant %s", tt.opens)
		}
	}
	if _, err := modes.Get("M9-sender-agent"); err != nil {
		t.Error(err)
	}
}
