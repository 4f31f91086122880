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
)

// within returns for each mode beside the main table that is derived from another
// one the mode of which it blocks a superset.
func within(t *testing.T) map[string]modes.Mode {
	t.Helper()
	out := map[string]modes.Mode{}
	for _, m := range modes.Beside() {
		base := strings.TrimSuffix(strings.TrimSuffix(m.ID, "+"), ".whole")
		if base != m.ID {
			out[m.ID] = mode(t, base)
		}
	}
	if len(out) < 11 {
		t.Fatalf("%d modes are derived from others", len(out))
	}
	return out
}

// TestBesideIsPredictedToBlockMore: hygiene, and the wider reading of a text, stop
// whatever was stopped, and something more.
func TestBesideIsPredictedToBlockMore(t *testing.T) {
	for id, base := range within(t) {
		m, more := mode(t, id), 0
		for _, f := range attacks.All() {
			for _, v := range f.Variants {
				for _, g := range []api.Guarantee{api.GuaranteeIdempotent, api.GuaranteeLookup, api.GuaranteeNone} {
					is, was := v.Stopped.Holds(m.Bindings.List(), string(g)), v.Stopped.Holds(base.Bindings.List(), string(g))
					if was && !is {
						t.Errorf("%s/%s goes through %s and not through %s", f.ID, v.Name, id, base.ID)
					}
					if is && !was {
						more++
					}
				}
			}
		}
		if more == 0 {
			t.Errorf("%s stops nothing that %s does not stop", id, base.ID)
		}
	}
}

// TestHygieneThatIsLeftOut: where once or idem is no part of a design with hygiene,
// adding it keeps honest calls from being made, and what was added keeps none.
func TestHygieneThatIsLeftOut(t *testing.T) {
	var honest []attacks.Family
	for _, f := range attacks.All() {
		if slices.Contains([]string{"AB4", "AB5", "AB9"}, f.ID) {
			f.Variants = nil
			honest = append(honest, f)
		}
	}
	completed := func(m modes.Mode) (k, n int) {
		rs, _ := run(t, plan(t, []harness.Target{target(m)}, honest, scenario(t, "payments")))
		for _, r := range rs {
			if r.Observed == results.Completed {
				k++
			}
		}
		return k, len(rs)
	}
	left := 0
	for _, m := range modes.Beside() {
		if m.Group != modes.GroupHygiene {
			continue
		}
		if k, n := completed(m); k != n {
			t.Errorf("%s completes %d of %d honest calls", m.ID, k, n)
		}
		for _, b := range []api.Binding{api.BindOnce, api.BindIdem} {
			if m.Has(b) {
				continue
			}
			left++
			more := m
			more.ID += string(b)
			more.Bindings = modes.NewSet(append(m.Bindings.List(), b)...)
			if k, n := completed(more); k == n {
				t.Errorf("%s with %s completes every honest call, so why is it left out?", m.ID, b)
			}
		}
	}
	if left == 0 {
		t.Error("nothing is left out")
	}
}
