package harness_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"countersign/attacks"
	"countersign/attacks/harness"
	"countersign/gateway/api"
	"countersign/results"
	"countersign/scenarios"
)

// family returns one family of the catalogue.
func family(t testing.TB, id string) attacks.Family {
	t.Helper()
	for _, f := range attacks.All() {
		if f.ID == id {
			return f
		}
	}
	t.Fatalf("there is no family %s", id)
	return attacks.Family{}
}

// lines are the records of a plan as they are written to disk.
func lines(t *testing.T, p harness.Plan) []byte {
	t.Helper()
	if err := p.Prepare(context.Background()); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	if err := p.Run(context.Background(), func(r results.Record) error { return e.Encode(r) }); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestRecordsAreAFunctionOfThePlan: workers, runs and fresh keys change no byte.
func TestRecordsAreAFunctionOfThePlan(t *testing.T) {
	p := plan(t, builtIn(), attacks.All(), scenario(t, "payments"))
	if raced {
		p.Targets, p.Families = p.Targets[len(p.Targets)-1:], p.Families[3:7]
	}
	p.Seeds = []uint64{7}
	p.Parallel = 1
	first := lines(t, p)
	for _, parallel := range []int{1, 8} {
		p.Parallel = parallel
		again := lines(t, p)
		if bytes.Equal(again, first) {
			continue
		}
		a, b := bytes.Split(first, []byte("\n")), bytes.Split(again, []byte("\n"))
		for i := range min(len(a), len(b)) {
			if !bytes.Equal(a[i], b[i]) {
				t.Fatalf("with %d workers line %d is\n%s\nand was\n%s", parallel, i+1, b[i], a[i])
			}
		}
		t.Fatalf("with %d workers there are %d lines, and were %d", parallel, len(b), len(a))
	}
}

// TestSeedsMatter: another seed gives other calls, and the outcome is the same.
func TestSeedsMatter(t *testing.T) {
	p := plan(t, []harness.Target{target(mode(t, "M0")), target(mode(t, "M3")), target(mode(t, "M9"))},
		[]attacks.Family{family(t, "AB1"), family(t, "AB4")}, scenario(t, "payments"))
	p.Seeds = []uint64{1, 2, 3}
	rs, a := run(t, p)
	for _, r := range a.Disagreements {
		t.Error(describe(r))
	}
	outcome := map[string]map[results.Observation]bool{}
	pairs := map[string]int{}
	for _, r := range rs {
		k := r.Target + " " + r.Variant
		if outcome[k] == nil {
			outcome[k] = map[results.Observation]bool{}
		}
		outcome[k][r.Observed] = true
		pairs[r.Pair]++
	}
	for k, os := range outcome {
		if len(os) != 1 {
			t.Errorf("%s depends on the seed: %v", k, os)
		}
	}
	for k, n := range pairs {
		if n != len(p.Targets) {
			t.Errorf("the pair %s has %d trials, want one a target", k, n)
		}
	}
}

// TestNothingSelectedIsAnError: an empty matrix must not look like a good one.
func TestNothingSelectedIsAnError(t *testing.T) {
	for _, tt := range []struct {
		change func(*harness.Plan)
		want   string
	}{
		{func(p *harness.Plan) { *p = harness.Plan{} }, "no target"},
		{func(p *harness.Plan) { p.Targets = nil }, "no target"},
		{func(p *harness.Plan) { p.Families = nil }, "no attack"},
		{func(p *harness.Plan) { p.Scenarios = []*scenarios.Scenario{} }, "no scenario"},
		{func(p *harness.Plan) { p.Seeds = nil }, "no seed"},
		{func(p *harness.Plan) { p.Approver = nil }, "no approver"},
		{func(p *harness.Plan) { p.Targets = append(p.Targets, p.Targets[0]) }, "target M9 is selected twice"},
		{func(p *harness.Plan) {
			p.Targets[0].Deploy = func(context.Context, api.Deployment) (api.Bench, error) {
				return api.Bench{}, errors.New("no such host")
			}
		}, "target M9: deploying the target: no such host"},
	} {
		p := plan(t, []harness.Target{target(mode(t, "M9"))}, attacks.All(), scenario(t, "payments"))
		tt.change(&p)
		if err := p.Prepare(context.Background()); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("the error is %v, want %q", err, tt.want)
		}
	}
}

// TestClaimsThatAreGivenAreKept: a target whose claims are known is not asked.
func TestClaimsThatAreGivenAreKept(t *testing.T) {
	x := target(mode(t, "M9"))
	x.Claims = []api.Binding{api.BindArgs}
	p := plan(t, []harness.Target{x, target(mode(t, "M0"))}, []attacks.Family{family(t, "AB1")}, scenario(t, "payments"))
	targets := p.Targets
	if err := p.Prepare(context.Background()); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(p.Targets[0].Claims, x.Claims) || len(p.Targets[1].Claims) != 0 {
		t.Errorf("the claims are %v and %v", p.Targets[0].Claims, p.Targets[1].Claims)
	}
	if targets[1].Claims != nil {
		t.Error("the caller's targets were changed")
	}
}

var errFull = errors.New("no space left")

// TestRunStopsWhereRecordsCannotBeKept: the first error of emit ends the run, and
// what came before is the beginning of the whole.
func TestRunStopsWhereRecordsCannotBeKept(t *testing.T) {
	p := plan(t, []harness.Target{target(mode(t, "M0"))}, []attacks.Family{family(t, "AB1")}, scenario(t, "payments"))
	p.Parallel = 4
	whole, _ := run(t, p)
	if err := p.Prepare(context.Background()); err != nil {
		t.Fatal(err)
	}
	var got []results.Record
	progress := 0
	p.Progress = func(int, int) { progress++ }
	err := p.Run(context.Background(), func(r results.Record) error {
		if len(got) == 3 {
			return errFull
		}
		got = append(got, r)
		return nil
	})
	if !errors.Is(err, errFull) {
		t.Errorf("the error is %v", err)
	}
	if progress != 3 || len(got) != 3 {
		t.Fatalf("%d records were kept and %d reported", len(got), progress)
	}
	for i, r := range got {
		if r.Name() != whole[i].Name() {
			t.Errorf("record %d is %s, want %s", i+1, r.Name(), whole[i].Name())
		}
	}
}

// TestRunStopsWhenItIsCancelled: an interrupted run is an error, and emits nothing
// after it was told.
func TestRunStopsWhenItIsCancelled(t *testing.T) {
	p := plan(t, []harness.Target{target(mode(t, "M0"))}, []attacks.Family{family(t, "AB1")}, scenario(t, "payments"))
	if err := p.Prepare(context.Background()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	n := 0
	err := p.Run(ctx, func(results.Record) error {
		if n++; n == 2 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || n != 2 {
		t.Errorf("after %d records the error is %v, want the cancellation after 2", n, err)
	}
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	if err := p.Run(cancelled, func(results.Record) error { t.Error("a record of a run that was cancelled before"); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}

func TestProgressCountsEveryTrialInOrder(t *testing.T) {
	p := plan(t, []harness.Target{target(mode(t, "M0"))}, []attacks.Family{family(t, "AB10")}, scenario(t, "payments"), scenario(t, "mail"))
	p.Parallel = 3
	next, last := 1, 0
	p.Progress = func(done, total int) {
		if done != next {
			t.Errorf("trial %d is reported as %d", next, done)
		}
		next, last = next+1, total
	}
	rs, _ := run(t, p)
	if last != len(rs) || next != len(rs)+1 {
		t.Errorf("%d of %d are reported, and there are %d records", next-1, last, len(rs))
	}
}

// TestCatalogueOfAPlan: every variant that does not apply to a scenario is listed
// with the reason, and what is tried and what is listed are the whole.
func TestCatalogueOfAPlan(t *testing.T) {
	p := plan(t, []harness.Target{target(mode(t, "M9")), target(mode(t, "M0"))}, attacks.All(), scenarios.All()...)
	if err := p.Prepare(context.Background()); err != nil {
		t.Fatal(err)
	}
	c := p.Catalogue()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	variants := 0
	for _, a := range c.Attacks {
		variants += len(a.Variants)
		for _, v := range a.Variants {
			if v.Kind == results.Attack && (v.Condition == "" || len(v.Capabilities) == 0) {
				t.Errorf("%s/%s has no condition or no capability in the catalogue", a.ID, v.Name)
			}
		}
	}
	n := len(p.Scenarios)
	if want := 2 * (n + variants*n - len(c.NotApplicable)); p.Total() != want {
		t.Errorf("%d trials and %d left out for each of 2 targets, want %d trials", p.Total(), len(c.NotApplicable), want)
	}
	for _, s := range c.NotApplicable {
		if s.Reason == "" {
			t.Errorf("%s/%s is left out in %s without a reason", s.Attack, s.Variant, s.Scenario)
		}
	}
	if !slices.Equal(c.Implies["once"], []string{"seen"}) || !slices.Equal(c.Implies["suspension"], []string{"run", "call"}) || len(c.Implies) != 2 {
		t.Errorf("the stronger bindings are %v", c.Implies)
	}
}
