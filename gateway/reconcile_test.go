package gateway_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"countersign/gateway"
	"countersign/gateway/api"
	"countersign/gateway/lab"
	"countersign/gateway/store"
	"countersign/scenarios/provider"
)

// TestLostAnswers: whatever gets lost between gateway and provider, one approval
// makes at most one effect, and what is not known is held with the reason.
func TestLostAnswers(t *testing.T) {
	const (
		lost     = provider.FaultDropResponse
		never    = provider.FaultDropRequest
		unsent   = provider.FaultNotSent
		failed   = provider.FaultError
		done     = "absorbed [once/spent seen/seen]"
		executed = "executed []"
	)
	// The answers are to the dispatch, to the same permit again at once, and once
	// more after the lease; "!" stands for an error of the call.
	tests := []struct {
		tool    string
		faults  []provider.FaultKind
		answers [3]string
		effects int
	}{
		{"pay", nil, [3]string{executed, done, done}, 1},
		{"pay", []provider.FaultKind{lost}, [3]string{"absorbed []", done, done}, 1},
		{"pay", []provider.FaultKind{never}, [3]string{executed, done, done}, 1},
		{"pay", []provider.FaultKind{unsent}, [3]string{executed, done, done}, 1},
		{"pay", []provider.FaultKind{unsent, unsent}, [3]string{executed, done, done}, 1},
		{"pay", []provider.FaultKind{unsent, unsent, unsent}, [3]string{"!", "refused [once/spent seen/seen]", "refused [once/spent seen/seen]"}, 0},
		{"pay", []provider.FaultKind{failed}, [3]string{"!", "refused [once/spent seen/seen]", "refused [once/spent seen/seen]"}, 0},
		{"pay", []provider.FaultKind{provider.FaultDuplicate}, [3]string{"absorbed []", done, done}, 1},
		{"pay", []provider.FaultKind{never, never}, [3]string{"held [idem/unreconciled]", "held [idem/in_progress]", executed}, 1},
		{"pay", []provider.FaultKind{never, lost}, [3]string{"held [idem/unreconciled]", "absorbed []", done}, 1},

		{"wire", nil, [3]string{executed, done, done}, 1},
		{"wire", []provider.FaultKind{lost}, [3]string{"absorbed []", done, done}, 1},
		{"wire", []provider.FaultKind{never}, [3]string{"held [idem/in_progress]", "held [idem/in_progress]", executed}, 1},
		{"wire", []provider.FaultKind{unsent}, [3]string{executed, done, done}, 1},
		{"wire", []provider.FaultKind{never, never}, [3]string{"held [idem/in_progress]", "held [idem/in_progress]", "held [idem/in_progress]"}, 0},
		{"wire", []provider.FaultKind{never, lost}, [3]string{"held [idem/in_progress]", "held [idem/in_progress]", "absorbed []"}, 1},
		{"wire", []provider.FaultKind{failed}, [3]string{"held [idem/in_progress]", "held [idem/in_progress]", executed}, 1},

		{"fax", nil, [3]string{executed, done, done}, 1},
		{"fax", []provider.FaultKind{lost}, [3]string{"held [idem/unreconciled]", "held [idem/unreconciled]", "held [idem/unreconciled]"}, 1},
		{"fax", []provider.FaultKind{never}, [3]string{"held [idem/unreconciled]", "held [idem/unreconciled]", "held [idem/unreconciled]"}, 0},
		{"fax", []provider.FaultKind{unsent}, [3]string{executed, done, done}, 1},
		{"fax", []provider.FaultKind{failed}, [3]string{"held [idem/unreconciled]", "held [idem/unreconciled]", "held [idem/unreconciled]"}, 0},
	}
	for _, tt := range tests {
		w := newWorld(t, "M9")
		d := w.approved(w.action(tt.tool, 1))
		for _, f := range tt.faults {
			must(t, w.prov.Inject(provider.Fault{Kind: f}))
		}
		for i, want := range tt.answers {
			if i == 2 {
				w.clock.add(gateway.SendLease)
			}
			if got := w.answer(w.target, d); got != want {
				t.Errorf("%s %v: answer %d is %s, want %s", tt.tool, tt.faults, i+1, got, want)
			}
		}
		if n := len(w.prov.Ledger()); n != tt.effects {
			t.Errorf("%s %v: %d effects, want %d", tt.tool, tt.faults, n, tt.effects)
		}
	}
}

// answer presents a permit and says what came of it; refusals in alphabetical order
// of this pair only, "once" and "seen".
func (w *world) answer(t api.Target, d api.Dispatch) string {
	w.t.Helper()
	o, err := w.present(t, "agent-a", d)
	if err != nil {
		return "!"
	}
	c := codes(o.Refusals)
	if c == "seen/seen once/spent" || c == "once/spent" {
		c = "once/spent seen/seen" // an instance that did not spend it has not seen it
	}
	return string(o.Status) + " [" + c + "]"
}

// TestCrashes stops the gateway at each step of a dispatch and starts it again:
// never two effects, and what was lost is held with a reason or proceeds.
func TestCrashes(t *testing.T) {
	tests := []struct {
		tool           string
		step           api.Step
		again, later   string // at once after the restart, and after the lease
		effects, after int    // at the crash, and at the end
	}{
		{"pay", api.StepChecked, "executed []", "absorbed [once/spent seen/seen]", 0, 1},
		{"pay", api.StepConsumed, "held [idem/in_progress]", "executed []", 0, 1},
		{"pay", api.StepSent, "absorbed []", "absorbed [once/spent seen/seen]", 1, 1},
		{"wire", api.StepChecked, "executed []", "absorbed [once/spent seen/seen]", 0, 1},
		{"wire", api.StepConsumed, "held [idem/in_progress]", "executed []", 0, 1},
		{"wire", api.StepSent, "absorbed []", "absorbed [once/spent seen/seen]", 1, 1},
		{"fax", api.StepChecked, "executed []", "absorbed [once/spent seen/seen]", 0, 1},
		{"fax", api.StepConsumed, "held [idem/in_progress]", "executed []", 0, 1},
		{"fax", api.StepSent, "held [idem/unreconciled]", "held [idem/unreconciled]", 1, 1},
	}
	for _, tt := range tests {
		name := tt.tool + " at " + string(tt.step)
		w := newWorld(t, "M9")
		d := w.approved(w.action(tt.tool, 1))
		w.lab.At(tt.step, func(context.Context) error { return lab.ErrCrash })
		if got := w.answer(w.target, d); got != "!" {
			t.Errorf("%s: the crash is answered with %s", name, got)
		}
		if n := len(w.prov.Ledger()); n != tt.effects {
			t.Errorf("%s: %d effects at the crash, want %d", name, n, tt.effects)
		}
		must(t, w.lab.Restart(ctx))
		if got := w.answer(w.target, d); got != tt.again {
			t.Errorf("%s: again: %s, want %s", name, got, tt.again)
		}
		w.clock.add(gateway.SendLease)
		if got := w.answer(w.target, d); got != tt.later {
			t.Errorf("%s: after the lease: %s, want %s", name, got, tt.later)
		}
		if n := len(w.prov.Ledger()); n != tt.after {
			t.Errorf("%s: %d effects, want %d", name, n, tt.after)
		}
	}
}

// TestLease: while the instance that spent an approval may still send, no other does.
func TestLease(t *testing.T) {
	w := newWorld(t, "M9")
	second, err := w.lab.Second(ctx)
	must(t, err)
	d := w.approved(w.action("pay", 1))
	var other string
	w.lab.At(api.StepConsumed, func(context.Context) error { other = w.answer(second, d); return nil })
	w.expect("the owner", d, api.Executed, "", 1)
	if other != "held [idem/in_progress]" {
		t.Errorf("another instance meanwhile: %s", other)
	}
	// One nanosecond before the end of the lease it is still the owner's.
	d = w.approved(w.action("pay", 2))
	w.lab.At(api.StepConsumed, func(context.Context) error { return lab.ErrCrash })
	w.answer(w.target, d)
	w.clock.add(gateway.SendLease - 1)
	if got := w.answer(second, d); got != "held [idem/in_progress]" {
		t.Errorf("before the end of the lease: %s", got)
	}
	w.clock.add(1)
	if got := w.answer(second, d); got != "executed []" {
		t.Errorf("at its end: %s", got)
	}
	if n := len(w.prov.Ledger()); n != 2 {
		t.Errorf("%d effects, want 2", n)
	}
}

// TestAuthorityEndsBeforeTheSend: between consumption and send the world may have
// moved; then nothing is sent, and nothing is owed to reconciliation.
func TestAuthorityEndsBeforeTheSend(t *testing.T) {
	for name, tt := range map[string]struct {
		happens func(w *world, suspension string)
		want    string
	}{
		"nothing":  {func(*world, string) {}, ""},
		"a moment": {func(w *world, _ string) { w.clock.add(time.Second) }, ""},
		"expiry":   {func(w *world, _ string) { w.clock.add(ttl) }, "expiry/expired"},
		"disabled": {func(w *world, _ string) {
			must(w.t, w.target.Admin(ctx, auth("admin"), api.Event{Kind: api.EventDisableAgent, Subject: "agent-a"}))
		}, "online/agent_disabled"},
		"revoked": {func(w *world, id string) {
			must(w.t, w.target.Admin(ctx, auth("admin"), api.Event{Kind: api.EventRevoke, Subject: id}))
		}, "online/revoked"},
		"policy": {func(w *world, _ string) {
			must(w.t, w.target.Admin(ctx, auth("admin"), api.Event{Kind: api.EventPolicyChange, Value: "policy-2"}))
		}, "online/policy"},
		"clock back": {func(w *world, _ string) { w.clock.add(-time.Second) }, "expiry/clock"},
	} {
		w := newWorld(t, "M9")
		a := w.action("wire", 1)
		id := w.pending(a)
		must(t, w.decide(id, "approver-p", api.Approve))
		w.lab.At(api.StepConsumed, func(context.Context) error { tt.happens(w, id); return nil })
		status, effects := api.Refused, 0
		switch tt.want {
		case "":
			status, effects = api.Executed, 1
		case "expiry/clock": // what is not known now may be later
			status = api.Held
		}
		w.expect(name, w.collect(a, id), status, tt.want, effects)
		if name == "policy" || name == "expiry" {
			// The same may be asked for at once: what was refused is known not to have been sent.
			w.pending(w.action("wire", 1))
		}
	}
}

// TestReconcilesOnlyWithAuthority: an open send is not sent again once authority
// has ended, but it is still found out what became of it.
func TestReconcilesOnlyWithAuthority(t *testing.T) {
	for step, want := range map[api.Step]string{api.StepConsumed: "refused [expiry/expired]", api.StepSent: "absorbed []"} {
		w := newWorld(t, "M9")
		d := w.approved(w.action("pay", 1))
		w.lab.At(step, func(context.Context) error { return lab.ErrCrash })
		w.answer(w.target, d)
		before := len(w.prov.Ledger())
		w.clock.add(ttl)
		o := w.dispatch(d)
		if got := string(o.Status) + " [" + codes(o.Refusals) + "]"; got != want {
			t.Errorf("crash at %s, then expiry: %s, want %s", step, got, want)
		}
		if n := len(w.prov.Ledger()); n != before {
			t.Errorf("crash at %s: %d effects, %d before", step, n, before)
		}
	}
}

// TestEqualProposals: a proposal equal to one whose outcome is not known is held;
// one that differs is not; once it is known, a new approval may proceed.
func TestEqualProposals(t *testing.T) {
	state := func(w *world, tool string, amount int) api.PendingState {
		w.t.Helper()
		p, err := w.target.Propose(ctx, auth("agent-a"), w.action(tool, amount))
		must(w.t, err)
		return p.State
	}
	for _, step := range []api.Step{api.StepConsumed, api.StepSent} {
		w := newWorld(t, "M9")
		first := w.approved(w.action("pay", 1))
		w.lab.At(step, func(context.Context) error { return lab.ErrCrash })
		w.answer(w.target, first)
		if step == api.StepConsumed {
			if got := state(w, "pay", 1); got != api.StateHeld {
				t.Errorf("crash at %s: an equal proposal is %s, want held", step, got)
			}
			w.clock.add(gateway.SendLease)
		}
		if got := state(w, "pay", 2); got != api.StatePending {
			t.Errorf("crash at %s: another amount is %s", step, got)
		}
		if got := state(w, "wire", 1); got != api.StatePending {
			t.Errorf("crash at %s: another tool is %s", step, got)
		}
		// A look-up settles it: the second payment is a legitimate one.
		before := len(w.prov.Ledger())
		second := w.approved(w.action("pay", 1))
		w.expect("the second payment", second, api.Executed, "", before+1)
		if got := w.answer(w.target, first); strings.HasPrefix(got, "executed") || len(w.prov.Ledger()) != before+1 {
			t.Errorf("crash at %s: the first permit after the second payment: %s", step, got)
		}
	}
	w := newWorld(t, "M9")
	d := w.approved(w.action("fax", 1))
	must(t, w.prov.Inject(provider.Fault{Kind: provider.FaultDropResponse}))
	w.expect("lost", d, api.Held, "idem/unreconciled", 1)
	w.clock.add(24 * time.Hour)
	if got := state(w, "fax", 1); got != api.StateHeld {
		t.Errorf("a provider without look-up: an equal proposal is %s after a day, want held for a person", got)
	}
}

// TestSettlingLosesToSending: while a proposal asks what became of an equal one,
// another instance takes that one over and sends it; the proposal is held.
func TestSettlingLosesToSending(t *testing.T) {
	w := newWorld(t, "M9")
	second, err := w.lab.Second(ctx)
	must(t, err)
	d := w.approved(w.action("wire", 1))
	must(t, w.prov.Inject(provider.Fault{Kind: provider.FaultDropRequest}, provider.Fault{Kind: provider.FaultDropRequest}))
	w.answer(w.target, d)
	w.clock.add(gateway.SendLease)
	var other string
	w.prov.onLookup = func() { other = w.answer(second, d) }
	p, err := w.target.Propose(ctx, auth("agent-a"), w.action("wire", 1))
	must(t, err)
	if other != "held [idem/in_progress]" || p.State != api.StateHeld {
		t.Errorf("the other instance: %s; the proposal is %s, want held", other, p.State)
	}
}

// unsettled is a store that does not take what became of a call.
type unsettled struct{ store.Store }

func (u unsettled) Update(ctx context.Context, r store.Row) (store.Row, error) {
	if r.Kind == "use" && r.Key == "done" {
		return store.Row{}, errDisk
	}
	return u.Store.Update(ctx, r)
}

// TestSettlingIsRecorded: where what an equal proposal finds out cannot be recorded, the
// proposal is held, as long as that lasts.
func TestSettlingIsRecorded(t *testing.T) {
	w := newWorldOn(t, "M9", unsettled{store.NewMemory()})
	d := w.approved(w.action("wire", 1))
	w.lab.At(api.StepSent, func(context.Context) error { return lab.ErrCrash })
	w.answer(w.target, d)
	w.clock.add(gateway.SendLease)
	p, err := w.target.Propose(ctx, auth("agent-a"), w.action("wire", 1))
	must(t, err)
	if p.State != api.StateHeld || len(w.prov.Ledger()) != 1 {
		t.Errorf("what was found out cannot be recorded, and the proposal is %s, want held; %d effects", p.State, len(w.prov.Ledger()))
	}
}

// TestFailedAndPresentedAgain: a call that the provider refused is not taken for an
// executed one when it comes again: the refusal says what to do.
func TestFailedAndPresentedAgain(t *testing.T) {
	w, s := newScripted(t, "M9")
	d := w.approved(w.action("pay", 1))
	s.execute = &api.ProviderError{Status: 409, Code: "limit"}
	if got := w.answer(w.target, d); got != "!" {
		t.Errorf("the provider refuses: %s", got)
	}
	s.execute = nil
	o := w.dispatch(d)
	if o.Status != api.Refused || codes(o.Refusals) != "seen/seen once/spent" || len(w.prov.Ledger()) != 0 {
		t.Fatalf("presented again: %+v", o)
	}
	for _, r := range o.Refusals {
		if said := strings.HasSuffix(r.Detail, ", and the call was certainly not executed: it has to be proposed again"); said != (r.Binding == api.BindOnce) {
			t.Errorf("%s says %q", r.Binding, r.Detail)
		}
	}
}

// TestWithoutIdem: a design that does not reconcile sends again, and pays twice
// where the provider does not help.
func TestWithoutIdem(t *testing.T) {
	w := newWorld(t, "M9-idem")
	d := w.approved(w.action("wire", 1))
	must(t, w.prov.Inject(provider.Fault{Kind: provider.FaultDropResponse}))
	w.expect("sent again", d, api.Executed, "", 2)
}

// TestReask: what changed for a reason that a person can judge is asked about anew,
// and the old permit is worth nothing.
func TestReask(t *testing.T) {
	for name, happens := range map[string]func(w *world){
		"reference": func(w *world) {
			must(w.t, w.prov.SetRecord("supplier", "s-1", records()["supplier"]["s-2"]))
		},
		"policy": func(w *world) {
			must(w.t, w.target.Admin(ctx, auth("admin"), api.Event{Kind: api.EventPolicyChange, Value: "policy-2"}))
		},
		"risk": func(w *world) {
			must(w.t, w.target.Admin(ctx, auth("admin"), api.Event{Kind: api.EventRiskLabel, Subject: "bank.example/pay", Value: "severe"}))
		},
	} {
		w := newWorld(t, "M9")
		a := w.action("pay", 1)
		d := w.approved(a)
		happens(w)
		o := w.dispatch(d)
		if o.Status != api.Reasked || o.Suspension == "" || len(w.prov.Ledger()) != 0 {
			t.Fatalf("%s: %+v", name, o)
		}
		if again := w.dispatch(d); again.Status == api.Executed {
			t.Errorf("%s: the old permit is good again", name)
		} else if again.Suspension != "" {
			o.Suspension = again.Suspension
		}
		must(t, w.decide(o.Suspension, "approver-p", api.Approve))
		w.expect(name+": approved anew", w.collect(a, o.Suspension), api.Executed, "", 1)
	}
	// On the way to the provider: nothing is resolved after the check.
	w := newWorld(t, "M9")
	d := w.approved(w.action("pay", 1))
	w.lab.At(api.StepConsumed, func(context.Context) error {
		return w.prov.SetRecord("supplier", "s-1", records()["supplier"]["s-2"])
	})
	w.expect("changed on the way", d, api.Reasked, "refs/precondition", 0)
}

// TestFailsAfterTheSpend: a dependency that fails once the approval is spent holds
// the call; it proceeds when the dependency is back and nobody can be sending.
func TestFailsAfterTheSpend(t *testing.T) {
	w := newWorld(t, "M9")
	d := w.approved(w.action("wire", 1))
	w.lab.At(api.StepChecked, func(context.Context) error { w.lab.Fault(api.DepPolicy, api.FaultDown); return nil })
	w.expect("policy lost after the checks", d, api.Held, "closed/unavailable", 0)
	w.lab.Fault(api.DepPolicy, api.FaultNone)
	w.expect("policy back", d, api.Executed, "", 1)

	for _, tt := range []struct {
		dep  api.Dependency
		want string
		wait time.Duration
	}{
		{api.DepPolicy, "online/unavailable", 0},
		{api.DepClock, "expiry/clock", 0},
		{api.DepStore, "online/unavailable", gateway.SendLease}, // which cannot take either that nothing is being sent
	} {
		for _, tool := range []string{"pay", "wire", "fax"} {
			w := newWorld(t, "M9")
			fault := func(f api.Fault) {
				if tt.dep == api.DepClock {
					w.clock.stop(f != api.FaultNone)
				} else {
					w.lab.Fault(tt.dep, f)
				}
			}
			d := w.approved(w.action(tool, 1))
			w.lab.At(api.StepConsumed, func(context.Context) error { fault(api.FaultDown); return nil })
			w.expect(tool+": lost after the spend: "+string(tt.dep), d, api.Held, tt.want, 0)
			fault(api.FaultNone)
			w.clock.add(tt.wait)
			w.expect(tool+": back: "+string(tt.dep), d, api.Executed, "", 1)
			w.expect(tool+": again: "+string(tt.dep), d, api.Absorbed, "seen/seen once/spent", 1)
		}
	}
}

// TestSendsCanonical: what goes out are the bytes that were hashed and shown.
func TestSendsCanonical(t *testing.T) {
	const written = ` { "supplier":"s-1", "memo":"\u0069nvoice", "amount":1e0 } `
	for mode, want := range map[string]string{"M9": `{"amount":1,"memo":"invoice","supplier":"s-1"}`, "M9-strict": written} {
		w := newWorld(t, mode)
		a := w.action("pay", 1)
		a.Arguments = []byte(written)
		w.dispatch(w.approved(a))
		if got := w.prov.body.Load(); got != want {
			t.Errorf("%s sends %q, want %q", mode, got, want)
		}
	}
}
