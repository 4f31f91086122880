package harness_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"countersign/attacks"
	"countersign/attacks/harness"
	"countersign/gateway/api"
	"countersign/gateway/lab"
	"countersign/modes"
	"countersign/oracles"
	"countersign/results"
	"countersign/scenarios"
)

func faithful(t testing.TB) oracles.Approver {
	t.Helper()
	a, ok := oracles.Named("faithful")
	if !ok {
		t.Fatal("there is no faithful reader")
	}
	return a
}

func target(m modes.Mode) harness.Target {
	return harness.Target{ID: m.ID, Name: m.Name, ModelledOn: m.ModelledOn, Deploy: lab.Deploy(m)}
}

func mode(t testing.TB, id string) modes.Mode {
	t.Helper()
	m, err := modes.Get(id)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func builtIn() []harness.Target {
	var out []harness.Target
	for _, m := range modes.All() {
		out = append(out, target(m))
	}
	return out
}

func scenario(t testing.TB, id string) *scenarios.Scenario {
	t.Helper()
	for _, s := range scenarios.All() {
		if s.ID == id {
			return s
		}
	}
	t.Fatalf("there is no scenario %s", id)
	return nil
}

func plan(t testing.TB, targets []harness.Target, fs []attacks.Family, scs ...*scenarios.Scenario) harness.Plan {
	t.Helper()
	return harness.Plan{Targets: targets, Families: fs, Scenarios: scs, Seeds: []uint64{1}, Approver: faithful(t)}
}

// run performs a plan and analyses its records.
func run(t testing.TB, p harness.Plan) ([]results.Record, *results.Analysis) {
	t.Helper()
	if err := p.Prepare(context.Background()); err != nil {
		t.Fatal(err)
	}
	var rs []results.Record
	if err := p.Run(context.Background(), func(r results.Record) error { rs = append(rs, r); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(rs) != p.Total() {
		t.Fatalf("%d records, want %d", len(rs), p.Total())
	}
	a, err := results.Analyse(func(yield func(results.Record, error) bool) {
		for _, r := range rs {
			if !yield(r, nil) {
				return
			}
		}
	}, p.Catalogue(), results.Family{})
	if err != nil {
		t.Fatal(err)
	}
	return rs, a
}

func describe(r results.Record) string {
	return fmt.Sprintf("%s: predicted %s, observed %s; refused by %v, reasons %v, %d effects; %s",
		r.Name(), r.Predicted, r.Observed, r.RefusedCodes, r.Reasons, r.Effects, r.Detail)
}

// TestMatrix runs every mode against every attack in every scenario: what was
// predicted from the bindings is what the ledger shows, M9 lets every benign flow
// through and nothing else, M0 stops nothing, and no two designs look alike.
func TestMatrix(t *testing.T) {
	scs, targets := scenarios.All(), builtIn()
	if raced {
		scs = []*scenarios.Scenario{scenario(t, "payments")}
		targets = []harness.Target{target(mode(t, "M0")), target(mode(t, "M5")), target(mode(t, "M9"))}
	}
	rs, a := run(t, plan(t, targets, attacks.All(), scs...))
	for _, r := range slices.Concat(a.Disagreements, a.Errors) {
		t.Error(describe(r))
	}
	for _, w := range a.WrongReasons {
		t.Errorf("blocked for another reason than %q: %s", w.Condition, describe(w.Record))
	}
	for _, group := range a.Identical {
		t.Errorf("%v have the same outcome in every variant", group)
	}
	if code := results.ExitCode(a); code != 0 {
		t.Errorf("the exit code is %d", code)
	}
	tried := map[string]bool{}
	for _, r := range rs {
		tried[r.Attack+"/"+r.Variant] = true
		switch {
		case r.Target == "M0" && r.Kind == results.Attack && r.Observed != results.Executed,
			r.Target == "M9" && r.Kind == results.Attack && !r.Blocked(),
			r.Kind != results.Attack && r.Observed != results.Completed,
			r.Nondeterministic:
			t.Error(describe(r))
		}
		if r.Kind != results.Attack && r.Effects != r.ExpectedEffects {
			t.Errorf("%d effects were due: %s", r.ExpectedEffects, describe(r))
		}
		// The reference design leaves the referee nothing to object to.
		if r.Target == "M9" && len(r.Reasons) > 0 {
			t.Error(describe(r))
		}
	}
	for _, row := range a.Rows {
		if row.Honest.K != len(scs) {
			t.Errorf("%s: %d of %d plain runs completed", row.Target.ID, row.Honest.K, len(scs))
		}
		if row.Benign.N == 0 || row.Benign.K != row.Benign.N {
			t.Errorf("%s: %d of %d twins completed", row.Target.ID, row.Benign.K, row.Benign.N)
		}
	}
	if raced {
		return
	}
	for _, f := range attacks.All() {
		for _, v := range slices.Concat(f.Variants, f.Twins) {
			if !tried[f.ID+"/"+v.Name] {
				t.Errorf("%s/%s was not tried", f.ID, v.Name)
			}
		}
	}
}

// TestDesignsDifferByPrediction: before anything runs, any two modes differ in
// some variant, and M9 and M0 are the extremes.
func TestDesignsDifferByPrediction(t *testing.T) {
	guarantees := []api.Guarantee{api.GuaranteeIdempotent, api.GuaranteeLookup, api.GuaranteeNone}
	rows := map[string]string{}
	for _, m := range modes.All() {
		row := ""
		for _, f := range attacks.All() {
			for _, v := range f.Variants {
				for _, g := range guarantees {
					holds := v.Stopped.Holds(m.Bindings.List(), string(g))
					row += map[bool]string{true: "-", false: "x"}[holds]
					if m.ID == "M9" && !holds || m.ID == "M0" && holds {
						t.Errorf("%s/%s at a provider that is %s: the prediction for %s is blocked: %t", f.ID, v.Name, g, m.ID, holds)
					}
				}
			}
		}
		if other, twice := rows[row]; twice {
			t.Errorf("%s and %s have the same predictions", m.ID, other)
		}
		rows[row] = m.ID
	}
}
