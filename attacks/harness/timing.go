package harness

import (
	"context"
	"fmt"
	"time"

	"countersign/results"
)

// Time makes the plain run of every scenario against every target, one at a time, and
// tells took how long each dispatch was, by the wall clock: from the arrival of the
// approved call at the tool boundary to its answer, the work of the provider, which is
// the same for all, included. It does so in rounds after one that is not told, and
// takes the targets in turn, so that what slows the machine slows all alike. Trials
// are of the first seed. Nothing of it is in records. A plain run that is not
// completed is an error.
func (p Plan) Time(ctx context.Context, rounds int, took func(target string, d time.Duration) error) error {
	done := 0
	for round := range rounds + 1 {
		for _, scenario := range p.Scenarios {
			for i, target := range p.Targets {
				t := trial{target: i, attack: HonestAttack, variant: honest, kind: results.Honest, scenario: scenario, seed: p.Seeds[0]}
				var all []time.Duration
				p.timed = func(call string, d time.Duration) {
					if call == "Dispatch" {
						all = append(all, d)
					}
				}
				r := p.play(ctx, target, t).judge().record(results.Record{
					Schema: results.Schema, Target: target.ID, Attack: t.attack, Variant: t.variant.Name, Kind: t.kind,
					Scenario: scenario.ID, Approver: p.Approver.Name(), Seed: t.seed, Pair: "timing", Predicted: results.PredictCompleted,
				}, criterionOf(t), nil)
				if err := ctx.Err(); err != nil {
					return err
				}
				if r.Observed != results.Completed {
					return fmt.Errorf("timing %s in %s: the plain run is %s (%s), and only completed ones are timed", target.ID, scenario.ID, r.Observed, r.Detail)
				}
				if round == 0 {
					continue
				}
				for _, d := range all {
					if err := took(target.ID, d); err != nil {
						return err
					}
				}
				if done++; p.Progress != nil {
					p.Progress(done, rounds*len(p.Scenarios)*len(p.Targets))
				}
			}
		}
	}
	return nil
}
