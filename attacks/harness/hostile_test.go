package harness_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"countersign/attacks"
	"countersign/attacks/harness"
	"countersign/gateway/api"
	"countersign/gateway/lab"
	"countersign/modes"
	"countersign/results"
)

// A hostile target is a built-in one that misbehaves in one call, and claims every
// binding whatever is underneath.
type hostile struct {
	api.Target
	dispatch func(ctx context.Context, inner api.Target, auth api.Auth, d api.Dispatch) (api.Outcome, error)
	propose  func(ctx context.Context, inner api.Target, auth api.Auth, a api.Action) (api.Pending, error)
}

func (h hostile) Describe(ctx context.Context) (api.Description, error) {
	d, err := h.Target.Describe(ctx)
	d.Name, d.Claims = "hostile", api.Bindings()
	return d, err
}

func (h hostile) Dispatch(ctx context.Context, auth api.Auth, d api.Dispatch) (api.Outcome, error) {
	if h.dispatch == nil {
		return h.Target.Dispatch(ctx, auth, d)
	}
	return h.dispatch(ctx, h.Target, auth, d)
}

func (h hostile) Propose(ctx context.Context, auth api.Auth, a api.Action) (api.Pending, error) {
	if h.propose == nil {
		return h.Target.Propose(ctx, auth, a)
	}
	return h.propose(ctx, h.Target, auth, a)
}

// over wraps the targets of a mode, second instances included.
func over(m modes.Mode, h hostile) api.Factory {
	wrap := func(inner api.Target) api.Target {
		w := h
		w.Target = inner
		return w
	}
	return func(ctx context.Context, d api.Deployment) (api.Bench, error) {
		b, err := lab.Deploy(m)(ctx, d)
		if err != nil {
			return b, err
		}
		return api.Bench{Target: wrap(b.Target), Lab: hostileLab{b.Lab, wrap}}, nil
	}
}

type hostileLab struct {
	api.Lab
	wrap func(api.Target) api.Target
}

func (l hostileLab) Second(ctx context.Context) (api.Target, error) {
	t, err := l.Lab.Second(ctx)
	if err != nil {
		return nil, err
	}
	return l.wrap(t), nil
}

// reaching is the catalogue without the one attack that never calls the target.
func reaching() []attacks.Family {
	fs := attacks.All()
	if raced {
		fs = fs[3:7]
	}
	for i := range fs {
		fs[i].Variants = slices.DeleteFunc(slices.Clone(fs[i].Variants), func(v attacks.Variant) bool { return v.Name == "executor_called_directly" })
	}
	return fs
}

// TestHostileTargets tries targets that an honest-looking score would flatter.
// Whatever they do instead of gating is named, counts as no success, and (but for
// a declared lack) is told by the exit code. Underneath is the ungated control, so
// that nothing but the misbehaviour stops anything.
func TestHostileTargets(t *testing.T) {
	type dispatch = func(context.Context, api.Target, api.Auth, api.Dispatch) (api.Outcome, error)
	type propose = func(context.Context, api.Target, api.Auth, api.Action) (api.Pending, error)
	answer := func(o api.Outcome, err error) dispatch {
		return func(context.Context, api.Target, api.Auth, api.Dispatch) (api.Outcome, error) { return o, err }
	}
	pending := func(p api.Pending, err error) propose {
		return func(context.Context, api.Target, api.Auth, api.Action) (api.Pending, error) { return p, err }
	}
	type set = []results.Observation
	refusal := []api.Refusal{{Binding: api.BindArgs, Code: "differs"}}
	for _, tt := range []struct {
		name    string
		hostile hostile
		exit    int
		attack  set // what attacks are recorded as
		benign  set // and plain runs and twins
	}{
		{
			"refuses every dispatch", hostile{dispatch: answer(api.Outcome{Status: api.Refused, Refusals: refusal}, nil)},
			1, set{results.Refused, results.Starved}, set{results.Starved},
		},
		{
			"refuses every proposal", hostile{propose: pending(api.Pending{}, &api.RefusedError{Refusals: refusal})},
			1, set{results.Refused, results.Starved, results.Error, results.Executed}, set{results.Starved}, // two attacks propose nothing
		},
		{
			"holds every dispatch", hostile{dispatch: answer(api.Outcome{Status: api.Held}, nil)},
			1, set{results.Held, results.Starved}, set{results.Starved},
		},
		{
			"says that it executed and does nothing", hostile{dispatch: answer(api.Outcome{Status: api.Executed, Result: json.RawMessage(`{}`)}, nil)},
			1, set{results.Error, results.Starved}, set{results.Starved},
		},
		{
			"answers with an error", hostile{dispatch: answer(api.Outcome{}, errors.New("500\ninternal error"))},
			2, set{results.Error}, set{results.Error},
		},
		{
			"is out of service", hostile{propose: pending(api.Pending{}, api.ErrUnavailable), dispatch: answer(api.Outcome{}, api.ErrUnavailable)},
			2, set{results.Error}, set{results.Error},
		},
		{
			"panics", hostile{dispatch: func(context.Context, api.Target, api.Auth, api.Dispatch) (api.Outcome, error) { panic("out of order") }},
			2, set{results.Error}, set{results.Error},
		},
		{
			"executes everything", hostile{},
			1, set{results.Executed}, set{results.Completed},
		},
		{
			"executes everything and says that it refused", hostile{dispatch: func(ctx context.Context, inner api.Target, auth api.Auth, d api.Dispatch) (api.Outcome, error) {
				_, err := inner.Dispatch(ctx, auth, d)
				return api.Outcome{Status: api.Refused, Refusals: refusal}, err
			}},
			1, set{results.Executed}, set{results.Completed},
		},
		{
			"executes everything twice", hostile{dispatch: func(ctx context.Context, inner api.Target, auth api.Auth, d api.Dispatch) (api.Outcome, error) {
				if o, err := inner.Dispatch(ctx, auth, d); err != nil {
					return o, err
				}
				return inner.Dispatch(ctx, auth, d)
			}},
			1, set{results.Executed}, set{results.Executed},
		},
		{
			"has no dispatch", hostile{dispatch: answer(api.Outcome{}, &api.UnimplementedError{Feature: "dispatch", Reason: "read only"})},
			0, set{results.Unimplemented}, set{results.Unimplemented}, // declared, and nothing is counted
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := harness.Target{ID: "X", Name: "hostile", Deploy: over(mode(t, "M0"), tt.hostile)} // asked for its claims
			rs, a := run(t, plan(t, []harness.Target{target(mode(t, "M9")), x}, reaching(), scenario(t, "payments")))
			if code := results.ExitCode(a); code != tt.exit {
				t.Errorf("the exit code is %d, want %d", code, tt.exit)
			}
			seen := map[results.Observation]bool{}
			for _, r := range rs {
				if r.Target != "X" {
					continue
				}
				want := tt.benign
				if r.Kind == results.Attack {
					want = tt.attack
					if r.Predicted != results.PredictBlocked {
						t.Errorf("a target that claims everything is predicted to stop it: %s", describe(r))
					}
				}
				if seen[r.Observed] = true; !slices.Contains(want, r.Observed) {
					t.Error(describe(r))
				}
				if err := r.Validate(); err != nil {
					t.Error(err)
				}
				if strings.Contains(r.Detail, "\n") {
					t.Errorf("more than a line: %q", r.Detail)
				}
			}
			for _, o := range slices.Concat(tt.attack, tt.benign) {
				if !seen[o] && !raced {
					t.Errorf("nothing is recorded as %s", o)
				}
			}
			for _, row := range a.Rows {
				perfect := row.Success.N > 0 && row.Success.K == 0 && row.Benign.N > 0 && row.Benign.K == row.Benign.N && !row.Success.CannotTell()
				if perfect != (row.Target.ID == "M9") {
					t.Errorf("%s looks perfect: %t (success %+v, benign %+v)", row.Target.ID, perfect, row.Success, row.Benign)
				}
			}
		})
	}
}

// TestTargetWithoutALab: what needs the lab's hand on the target is declared as
// not implemented, and never counts as blocked.
func TestTargetWithoutALab(t *testing.T) {
	m9 := target(mode(t, "M9"))
	deploy := m9.Deploy
	m9.Deploy = func(ctx context.Context, d api.Deployment) (api.Bench, error) {
		b, err := deploy(ctx, d)
		b.Lab = nil
		return b, err
	}
	rs, a := run(t, plan(t, []harness.Target{m9}, attacks.All(), scenario(t, "payments")))
	without := map[string]bool{}
	for _, r := range rs {
		switch r.Observed {
		case results.Unimplemented:
			without[r.Variant] = true
			if r.Detail == "" {
				t.Errorf("it is not said what is missing: %s", describe(r))
			}
		default:
			if !r.Agrees() {
				t.Error(describe(r))
			}
		}
	}
	for _, name := range []string{
		"presented_by_eight_workers_at_once", "presented_to_two_instances_over_one_store", "presented_again_after_a_restart",
		"crash_after_the_send_and_dispatched_again", "approval_store_down_at_dispatch", "referenced_record_changed_on_the_way_to_the_provider",
		"honest_resume_after_a_restart",
	} {
		if !without[name] {
			t.Errorf("%s was tried without a lab", name)
		}
	}
	if results.ExitCode(a) != 0 || without["clock_missing_at_dispatch"] || without["presented_twice_in_a_row"] {
		t.Errorf("exit code %d, not implemented: %v", results.ExitCode(a), without)
	}
}
