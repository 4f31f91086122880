package lab_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"countersign/gateway/api"
	"countersign/gateway/lab"
	"countersign/modes"
	"countersign/scenarios/provider"
)

var ctx = context.Background()

type clock struct{ now time.Time }

func (c *clock) Now() (time.Time, error) { return c.now, nil }

// A world is a target of a mode that needs neither passkeys nor proofs.
type world struct {
	api.Bench
	deployment api.Deployment
	prov       *provider.World
	clock      *clock
	calls      int
}

type tb interface {
	Helper()
	Fatal(...any)
}

func must(t tb, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func deploy(t tb, mode string) *world {
	t.Helper()
	m, err := modes.Get(mode)
	must(t, err)
	tools := []api.Tool{{
		Audience: "bank.example", Name: "pay", Title: "Pay", Class: api.ClassConsequential, Risk: "high", Guarantee: api.GuaranteeLookup,
		Fields: []api.Field{{Name: "amount", Label: "Amount", Type: api.TypeInteger, Required: true, Material: true}}, Summary: []string{"amount"},
	}}
	w := &world{clock: &clock{time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)}}
	w.prov, err = provider.New(provider.Config{Tools: tools, Reader: "struct", Clock: w.clock})
	must(t, err)
	w.deployment = api.Deployment{
		Issuer: "https://gateway.example", Tools: tools, Provider: w.prov, Directory: w.prov, Clock: w.clock, ApprovalTTL: time.Hour,
		AdminToken: "admin", AuditorToken: "auditor", Origin: "https://approve.example", ProviderCredential: "credential",
	}
	w.Bench, err = lab.Deploy(m)(ctx, w.deployment)
	must(t, err)
	w.enrol(t)
	return w
}

// enrol enrols an agent and two people.
func (w *world) enrol(t tb) {
	t.Helper()
	for _, p := range []api.Principal{
		{ID: "agent", Role: api.RoleAgent, ActsFor: "requester", Token: "token-of-the-agent"}, {ID: "approver", Role: api.RolePerson, Approver: true, Token: "token-of-the-approver"},
		{ID: "requester", Role: api.RolePerson, Token: "token-of-the-requester"},
	} {
		must(t, w.Target.Admin(ctx, api.Auth{Token: "admin"}, api.Event{Kind: api.EventEnrol, Principal: &p}))
	}
}

// approved is the honest way to a dispatch.
func (w *world) approved(t tb) api.Dispatch {
	t.Helper()
	w.calls++
	id := fmt.Sprint(w.calls)
	a := api.Action{Audience: "bank.example", Tool: "pay", Arguments: fmt.Appendf(nil, `{"amount":%d}`, w.calls), Run: "run", Step: id, Call: id}
	p, err := w.Target.Propose(ctx, api.Auth{Token: "token-of-the-agent"}, a)
	must(t, err)
	must(t, w.Target.Decide(ctx, api.Auth{Token: "token-of-the-approver"}, api.Decision{Suspension: p.Suspension, Verdict: api.Approve}))
	st, err := w.Target.Status(ctx, api.Auth{Token: "token-of-the-agent"}, p.Suspension)
	must(t, err)
	return api.Dispatch{Action: a, Carried: st.Carried, RequestID: id}
}

func dispatch(ctx context.Context, target api.Target, d api.Dispatch) (api.Status, error) {
	o, err := target.Dispatch(ctx, api.Auth{Token: "token-of-the-agent"}, d)
	return o.Status, err
}

// TestRace: every caller passes the checks before any consumes, and they go on in
// the order given. So a design that marks what it has seen executes for all of
// them, in that order, and one that spends atomically for the first alone.
func TestRace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "workers")
		order := make([]int, n)
		for i := range order {
			order[i] = i
		}
		order = rapid.Permutation(order).Draw(t, "order")
		for mode, effects := range map[string]int{"M3": n, "M8": 1} {
			w := deploy(t, mode)
			d := w.approved(t)
			given := slices.Clone(order)
			statuses := make([]api.Status, n)
			w.Lab.Race(ctx, order, func(ctx context.Context, i int) {
				d := d
				d.RequestID = fmt.Sprint("worker-", i)
				statuses[i], _ = dispatch(ctx, w.Target, d)
			})
			if !slices.Equal(order, given) {
				t.Fatal("the order given was changed")
			}
			l := w.prov.Ledger()
			if len(l) != effects {
				t.Fatalf("%s: %d effects of %d workers, want %d; %v", mode, len(l), n, effects, statuses)
			}
			for i, e := range l {
				if want := fmt.Sprint("worker-", order[i]); e.RequestID != want {
					t.Fatalf("%s: effect %d is of %s, want %s in the order %v", mode, i, e.RequestID, want, order)
				}
			}
		}
	})
}

// TestRaceWithoutConsuming: callers that return before they consume end the race.
func TestRaceWithoutConsuming(t *testing.T) {
	w := deploy(t, "M8")
	d := w.approved(t)
	d.Action.Tool = "launch"
	n := 0
	w.Lab.Race(ctx, []int{1, 0, 2}, func(ctx context.Context, i int) {
		if _, err := dispatch(ctx, w.Target, d); err != nil {
			n++
		}
	})
	if n != 3 || len(w.prov.Ledger()) != 0 {
		t.Errorf("%d callers returned an error", n)
	}
}

// TestAt: a hook runs once, at its step, and its error ends the dispatch there.
func TestAt(t *testing.T) {
	for step, effects := range map[api.Step]int{api.StepChecked: 0, api.StepConsumed: 0, api.StepSent: 1} {
		w := deploy(t, "M8")
		d := w.approved(t)
		n := 0
		w.Lab.At(step, func(context.Context) error { n++; return lab.ErrCrash })
		if _, err := dispatch(ctx, w.Target, d); !errors.Is(err, lab.ErrCrash) || len(w.prov.Ledger()) != effects {
			t.Errorf("%s: %v, %d effects, want %d", step, err, len(w.prov.Ledger()), effects)
		}
		must(t, w.Lab.Restart(ctx))
		status, err := dispatch(ctx, w.Target, d)
		must(t, err)
		spent := step != api.StepChecked
		if n != 1 || (status == api.Executed) == spent {
			t.Errorf("%s: the hook ran %d times; afterwards %s", step, n, status)
		}
	}
}

// TestRestart: the store is kept, and what was in memory only is lost: a design
// that remembers what it has seen takes a permit again.
func TestRestart(t *testing.T) {
	for mode, again := range map[string]api.Status{"M3": api.Executed, "M8": api.Refused} {
		w := deploy(t, mode)
		d := w.approved(t)
		for range 2 {
			_, err := dispatch(ctx, w.Target, d)
			must(t, err)
		}
		if n := len(w.prov.Ledger()); n != 1 {
			t.Errorf("%s: %d effects before the restart", mode, n)
		}
		must(t, w.Lab.Restart(ctx))
		if status, err := dispatch(ctx, w.Target, d); err != nil || status != again {
			t.Errorf("%s: after the restart: %s, %v, want %s", mode, status, err, again)
		}
	}
}

// TestSecond: another instance has the same store and a memory of its own.
func TestSecond(t *testing.T) {
	for mode, again := range map[string]api.Status{"M3": api.Executed, "M8": api.Refused} {
		w := deploy(t, mode)
		second, err := w.Lab.Second(ctx)
		must(t, err)
		d := w.approved(t)
		_, err = dispatch(ctx, w.Target, d)
		must(t, err)
		if status, err := dispatch(ctx, second, d); err != nil || status != again {
			t.Errorf("%s: at another instance: %s, %v, want %s", mode, status, err, again)
		}
	}
}

// TestFault: a dependency that is down fails closed where the design says so, and
// works again afterwards.
func TestFault(t *testing.T) {
	for _, dep := range []api.Dependency{api.DepStore, api.DepPolicy, api.DepAudit, api.DepIdentity} {
		w := deploy(t, "M8")
		d := w.approved(t)
		w.Lab.Fault(dep, api.FaultDown)
		if status, err := dispatch(ctx, w.Target, d); status == api.Executed || err == nil && status == "" || len(w.prov.Ledger()) != 0 {
			t.Errorf("%s down: %s, %v", dep, status, err)
		}
		w.Lab.Fault(dep, api.FaultNone)
		if status, err := dispatch(ctx, w.Target, d); err != nil || status != api.Executed {
			t.Errorf("%s up again: %s, %v", dep, status, err)
		}
	}
	// A panic is an answer that did not come; a write that was made and answered with
	// an error counts as not made, and is there.
	w := deploy(t, "M8")
	d := w.approved(t)
	w.Lab.Fault(api.DepPolicy, api.FaultPanic)
	if status, err := dispatch(ctx, w.Target, d); err != nil || status != api.Held {
		t.Errorf("the policy panics: %s, %v", status, err)
	}
	w.Lab.Fault(api.DepPolicy, api.FaultNone)
	w.Lab.Fault(api.DepStore, api.FaultPartial)
	for _, want := range []api.Status{api.Held, api.Refused} {
		if status, err := dispatch(ctx, w.Target, d); err != nil || status != want || len(w.prov.Ledger()) != 0 {
			t.Errorf("the consumption is written and answered with an error: %s, %v, want %s", status, err, want)
		}
	}
	// A caller is found without a look-up by name; the person behind it is not.
	w = deploy(t, "M3")
	d = w.approved(t)
	w.Lab.Fault(api.DepIdentity, api.FaultDown)
	if _, err := w.Target.Propose(ctx, api.Auth{Token: "token-of-the-agent"}, d.Action); !errors.Is(err, api.ErrUnavailable) {
		t.Errorf("M3, a proposal without names: %v", err)
	}
	if status, err := dispatch(ctx, w.Target, d); err != nil || status != api.Executed {
		t.Errorf("M3 without names: %s, %v", status, err)
	}
	// What a design does not look at does not stop it.
	w = deploy(t, "M3")
	d = w.approved(t)
	w.Lab.Fault(api.DepAudit, api.FaultDown)
	if status, err := dispatch(ctx, w.Target, d); err != nil || status != api.Executed {
		t.Errorf("M3 without a log: %s, %v", status, err)
	}
}

// TestDeployRefuses: a world that lacks something is no target.
func TestDeployRefuses(t *testing.T) {
	m, err := modes.Get("M9")
	must(t, err)
	if _, err := lab.Deploy(m)(ctx, api.Deployment{}); err == nil {
		t.Error("an empty deployment is accepted")
	}
	if _, err := lab.Deploy(modes.Mode{})(ctx, api.Deployment{Issuer: "i"}); err == nil {
		t.Error("no mode is accepted")
	}
}
