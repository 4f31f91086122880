package harness_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"countersign/attacks"
	"countersign/attacks/harness"
	"countersign/gateway/api"
	"countersign/gateway/lab"
	"countersign/modes"
	"countersign/oracles"
	"countersign/scenarios"
)

// slow is a target whose dispatches take a while.
type slow struct {
	api.Target
	by time.Duration
}

func (s slow) Dispatch(ctx context.Context, auth api.Auth, d api.Dispatch) (api.Outcome, error) {
	time.Sleep(s.by)
	return s.Target.Dispatch(ctx, auth, d)
}

// Every target is timed as often as another, by its dispatches alone, and one that
// takes longer is seen to.
func TestTime(t *testing.T) {
	approver, _ := oracles.Named("faithful")
	m9, err := modes.Get("M9")
	if err != nil {
		t.Fatal(err)
	}
	const by = 20 * time.Millisecond
	slowed := func(ctx context.Context, d api.Deployment) (api.Bench, error) {
		b, err := lab.Deploy(m9)(ctx, d)
		b.Target = slow{b.Target, by}
		return b, err
	}
	p := harness.Plan{
		Targets:  []harness.Target{{ID: "M9", Deploy: lab.Deploy(m9)}, {ID: "slow", Deploy: slowed}},
		Families: attacks.All()[:1], Scenarios: scenarios.All()[:2], Seeds: []uint64{1}, Approver: approver,
	}
	if err := p.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	took := map[string][]time.Duration{}
	const rounds = 3
	if err := p.Time(t.Context(), rounds, func(target string, d time.Duration) error {
		took[target] = append(took[target], d)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, target := range p.Targets {
		all := took[target.ID]
		if len(all) != rounds*len(p.Scenarios) {
			t.Errorf("%s was timed %d times, want %d", target.ID, len(all), rounds*len(p.Scenarios))
		}
		for _, d := range all {
			if d <= 0 || target.ID == "slow" && d < by {
				t.Errorf("a dispatch of %s took %s", target.ID, d)
			}
		}
	}
	stop := errors.New("the disk is full")
	if err := p.Time(t.Context(), 1, func(string, time.Duration) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("what takes the times fails: %v", err)
	}
	p.Targets[1].Deploy = func(context.Context, api.Deployment) (api.Bench, error) {
		return api.Bench{}, errors.New("no such host")
	}
	if err := p.Time(t.Context(), 1, func(string, time.Duration) error { return nil }); err == nil || !strings.Contains(err.Error(), "timing slow in") {
		t.Errorf("a target that cannot be deployed: %v", err)
	}
}
