package harness_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"countersign/attacks"
	"countersign/attacks/harness"
	"countersign/gateway/api"
	"countersign/modes"
	"countersign/scenarios"
)

func tearDown(t *testing.T, parallel int, targets ...harness.Target) []harness.TeardownReport {
	t.Helper()
	scs := scenarios.All()
	if raced {
		scs = []*scenarios.Scenario{scenario(t, "payments"), scenario(t, "dns")}
	}
	p := plan(t, targets, attacks.All(), scs...)
	p.Parallel = parallel
	if err := p.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	reports, err := p.Teardown(t.Context(), attacks.Teardown())
	if err != nil {
		t.Fatal(err)
	}
	return reports
}

func passing(r harness.TeardownReport) string {
	var out []int
	for _, c := range r.Cases {
		if c.Result == harness.CasePasses {
			out = append(out, c.Number)
		}
	}
	return fmt.Sprint(out)
}

// TestTeardown: which cases each design passes is known by heart here, and is what
// its bindings predict; where a case passes, the ledger has exactly the effects
// that were due.
func TestTeardown(t *testing.T) {
	want := map[string]string{
		"M0": "[9]", "M1": "[9]", "M2": "[9]", "M3": "[9]", "M4": "[5 9]", "M5": "[5 9]", "M6": "[9]", "M7": "[9]", "M8": "[4 5 7 9]",
		"M9": "[1 2 3 4 5 6 7 8 9]", "M9-refs": "[1 3 4 5 6 7 8 9]", "M9-args": "[2 3 4 5 6 7 8 9]",
		"M4+": "[4 5 7 8 9]", "M8+": "[4 5 7 8 9]", "RAR": "[5 9]", "PSD2.whole": "[3 4 6 7 9]", "SPC": "[9]",
	}
	var targets []harness.Target
	for _, m := range modes.All() {
		targets = append(targets, target(m))
	}
	for _, id := range []string{"M9-refs", "M9-args", "M4+", "M8+", "RAR", "PSD2.whole", "SPC"} {
		targets = append(targets, target(mode(t, id)))
	}
	for _, r := range tearDown(t, 0, targets...) {
		if got := passing(r); got != want[r.Target] {
			t.Errorf("%s passes %s, want %s", r.Target, got, want[r.Target])
		}
		if code, all := r.ExitCode(), r.Passed() == 9; code != 0 != !all {
			t.Errorf("%s passes %d cases, and the exit code is %d", r.Target, r.Passed(), code)
		}
		for _, c := range r.Cases {
			if c.Result != c.Predicted {
				t.Errorf("%s case %d %s, predicted %s", r.Target, c.Number, c.Result, c.Predicted)
			}
			for _, v := range c.Variants {
				if v.Result == harness.CasePasses && v.Made != v.Due || (v.Result == harness.CaseFails) != (v.Why != "") {
					t.Errorf("%s case %d %s/%s %s: %d effects made, %d due: %s", r.Target, c.Number, v.Attack, v.Variant, v.Result, v.Made, v.Due, v.Why)
				}
			}
		}
	}
}

// TestTeardownIsAFunction: the order in which trials end decides nothing.
func TestTeardownIsAFunction(t *testing.T) {
	if one, many := tearDown(t, 1, target(mode(t, "M8"))), tearDown(t, 5, target(mode(t, "M8"))); !reflect.DeepEqual(one, many) {
		t.Errorf("one at a time %+v\nfive at a time %+v", one, many)
	}
}

// TestTeardownOfOthers: a target that has no clockwork to be disturbed is told so
// and fails nothing by it; one that refuses everything fails the honest calls; one
// that answers errors cannot be told.
func TestTeardownOfOthers(t *testing.T) {
	results := func(r harness.TeardownReport) (out []harness.CaseResult) {
		for _, c := range r.Cases {
			out = append(out, c.Result)
		}
		return out
	}
	m9 := mode(t, "M9")
	broken := over(m9, hostile{dispatch: func(context.Context, api.Target, api.Auth, api.Dispatch) (api.Outcome, error) {
		return api.Outcome{}, errors.New("internal error")
	}})
	refusing := over(m9, hostile{dispatch: func(context.Context, api.Target, api.Auth, api.Dispatch) (api.Outcome, error) {
		return api.Outcome{Status: api.Refused, Refusals: []api.Refusal{{Binding: api.BindClosed, Code: "no"}}}, nil
	}})
	rs := tearDown(t, 0, harness.Target{ID: "desk", Deploy: deployDesk}, harness.Target{ID: "broken", Deploy: broken}, harness.Target{ID: "refusing", Deploy: refusing})
	// It forgets a ticket that was presented and not executed, so an honest retry fails.
	f, u := harness.CaseFails, harness.CaseUnimplemented
	if got := results(rs[0]); !slices.Equal(got[:7], []harness.CaseResult{f, f, f, u, f, u, u}) || got[8] != f {
		t.Errorf("desk: %v", got)
	}
	if got := results(rs[1]); slices.Contains(got, harness.CasePasses) || rs[1].ExitCode() == 0 {
		t.Errorf("broken: %v, exit code %d", got, rs[1].ExitCode())
	}
	if got := results(rs[2]); got[8] != harness.CaseFails || rs[2].ExitCode() != 1 {
		t.Errorf("refusing: %v, exit code %d", got, rs[2].ExitCode())
	}
}
