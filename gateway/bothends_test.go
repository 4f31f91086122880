package gateway_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"countersign/audit"
	"countersign/gateway"
	"countersign/gateway/api"
	"countersign/gateway/lab"
	"countersign/gateway/store"
	"countersign/modes"
	"countersign/oracles/softkey"
	"countersign/scenarios/provider"
)

// linesOf returns the lines about one permit: that of the newest decision.
func (w *world) linesOf() (decided api.AuditEntry, after []api.AuditEntry) {
	w.t.Helper()
	for _, e := range w.entries() {
		switch {
		case e.Event == "decide:approve":
			decided, after = e, nil
		case decided.Permit != "" && e.Permit == decided.Permit:
			after = append(after, e)
		}
	}
	if decided.Event == "" {
		w.t.Fatal("nothing was decided")
	}
	return decided, after
}

// TestBothEnds: of an approved action the log holds what was shown and what was
// dispatched, the policy at both ends, the spend, the request and its key, what was
// found out and who refused; of a refused one nothing that did not happen.
func TestBothEnds(t *testing.T) {
	hash := func(text string) string { h := sha256.Sum256([]byte(text)); return hex.EncodeToString(h[:]) }
	const arguments = `{"amount":1,"memo":"invoice","supplier":"s-1"}`

	w := newWorld(t, "M9")
	d := w.approved(w.action("pay", 1))
	w.clock.add(ttl / 2)
	d.RequestID = "first"
	w.dispatch(d)
	decided, after := w.linesOf()
	view, err := w.target.View(ctx, auth("approver-p"), decided.Suspension)
	must(t, err)
	if decided.ArgsDigest != hash(arguments) || decided.ViewDigest != view.Digest || decided.Policy != "policy-1" || decided.Principal != "approver-p" ||
		decided.Audience != "bank.example" || decided.Tool != "pay" || !decided.Time.Equal(start) || !decided.ConsumedAt.IsZero() {
		t.Errorf("decided: %+v", decided)
	}
	effect := w.prov.Ledger()[0]
	if len(after) != 2 || after[0].Event != "dispatch" || after[1].Event != "outcome" {
		t.Fatalf("lines %+v", after)
	}
	for _, e := range after {
		if e.ArgsDigest != decided.ArgsDigest || e.ActionDigest != decided.ActionDigest || e.ActionDigest == "" || e.Policy != "policy-1" || e.RequestID != "first" {
			t.Errorf("%s: %+v", e.Event, e)
		}
	}
	if e := after[0]; !e.ConsumedAt.IsZero() || e.ProviderRequest != "" || e.Key != "" {
		t.Errorf("before the effect: %+v", e)
	}
	if e := after[1]; !e.ConsumedAt.Equal(start.Add(ttl/2)) || e.ProviderRequest != effect.RequestID || e.Key != effect.IdempotencyKey || e.Key == "" ||
		e.Status != api.Executed || e.Reconciled != "" || e.Refusals != nil {
		t.Errorf("completed: %+v", e)
	}

	// Again: nothing is sent, and the line has the spend and the request of the first.
	w.clock.add(ttl / 4)
	d.RequestID = "second"
	w.dispatch(d)
	_, after = w.linesOf()
	if e := after[3]; e.Status != api.Absorbed || !e.ConsumedAt.Equal(start.Add(ttl/2)) || e.ProviderRequest != "first" || e.RequestID != "second" ||
		e.Key != effect.IdempotencyKey || e.Alert != api.AlertSpent {
		t.Errorf("absorbed: %+v", e)
	}

	// Refused: the digests differ, and nothing was spent or sent.
	w = newWorld(t, "M9")
	d = w.approved(w.action("pay", 1))
	d.Action.Arguments = []byte(strings.Replace(arguments, "1", "2", 1))
	w.dispatch(d)
	decided, after = w.linesOf()
	if e := after[1]; e.Status != api.Refused || codes(e.Refusals) != "args/differs" || e.Alert != api.AlertHash || e.ArgsDigest == decided.ArgsDigest ||
		e.ArgsDigest != hash(string(d.Action.Arguments)) || !e.ConsumedAt.IsZero() || e.ProviderRequest != "" || e.Key != "" || e.Reconciled != "" {
		t.Errorf("refused: %+v", e)
	}

	// The arguments are equal and what they refer to is not.
	w = newWorld(t, "M9")
	d = w.approved(w.action("pay", 1))
	must(t, w.prov.SetRecord("supplier", "s-1", map[string]json.RawMessage{"account": json.RawMessage(`"elsewhere"`)}))
	w.dispatch(d)
	decided, after = w.linesOf()
	if e := after[1]; e.ArgsDigest != decided.ArgsDigest || e.ActionDigest == decided.ActionDigest || codes(e.Refusals) != "refs/drift" {
		t.Errorf("drifted: %+v", e)
	}

	// Ambiguous, then reconciled.
	w = newWorld(t, "M9")
	d = w.approved(w.action("wire", 1))
	must(t, w.prov.Inject(provider.Fault{Kind: provider.FaultDropRequest}))
	d.RequestID = "first"
	w.dispatch(d)
	w.clock.add(gateway.SendLease)
	d.RequestID = "second"
	w.dispatch(d)
	_, after = w.linesOf()
	key := w.prov.Ledger()[0].IdempotencyKey
	for i, want := range []struct {
		status api.Status
		found  api.Reconciliation
	}{{api.Held, api.StillOpen}, {api.Executed, api.FoundNotExecuted}} {
		e := after[2*i+1]
		if e.Status != want.status || e.Reconciled != want.found || !e.ConsumedAt.Equal(start) || e.ProviderRequest != "first" || e.Key != key {
			t.Errorf("ambiguous, outcome %d: %+v", i+1, e)
		}
	}

	// The policy in force at each end, in a design that does not ask for it.
	w = newWorld(t, "M4")
	d = w.approved(w.action("pay", 1))
	must(t, w.target.Admin(ctx, auth("admin"), api.Event{Kind: api.EventPolicyChange, Value: "policy-2"}))
	w.dispatch(d)
	decided, after = w.linesOf()
	if decided.Policy != "policy-1" || after[1].Policy != "policy-2" {
		t.Errorf("policy %s when it was asked for, %s at dispatch", decided.Policy, after[1].Policy)
	}
	// It may change while the call is under way.
	w = newWorld(t, "M4")
	d = w.approved(w.action("pay", 1))
	w.lab.At(api.StepChecked, func(context.Context) error {
		return w.target.Admin(ctx, auth("admin"), api.Event{Kind: api.EventPolicyChange, Value: "policy-2"})
	})
	w.dispatch(d)
	if _, after = w.linesOf(); after[0].Policy != "policy-1" || after[1].Policy != "policy-2" {
		t.Errorf("policy %s before, %s at the spend", after[0].Policy, after[1].Policy)
	}
}

// TestBothEndsOfEveryDesign: the digests and the policy are in the lines of every
// design that asks somebody, whatever it binds; the spend in those of every design that
// spends.
func TestBothEndsOfEveryDesign(t *testing.T) {
	for _, m := range modes.Named() {
		if !m.Gated() {
			continue
		}
		w := newWorld(t, m.ID)
		w.dispatch(w.approved(w.action("pay", 1)))
		var decided, outcome api.AuditEntry
		for _, e := range w.entries() {
			switch e.Event {
			case "decide:approve":
				decided = e
			case "outcome":
				outcome = e
			}
		}
		for _, e := range []api.AuditEntry{decided, outcome} {
			if len(e.ArgsDigest) != 64 || len(e.ActionDigest) != 64 || e.Policy == "" || e.Audience != "bank.example" || e.Tool != "pay" {
				t.Errorf("%s: %+v", m.ID, e)
			}
		}
		if decided.ArgsDigest != outcome.ArgsDigest || decided.ActionDigest != outcome.ActionDigest || len(decided.ViewDigest) != 64 || decided.Suspension == "" {
			t.Errorf("%s: decided %+v, outcome %+v", m.ID, decided, outcome)
		}
		spends := m.Has(api.BindSeen) || m.Has(api.BindIdem)
		if outcome.Status != api.Executed || outcome.ProviderRequest != w.prov.Ledger()[0].RequestID || outcome.ConsumedAt.IsZero() == spends ||
			outcome.Key != w.prov.Ledger()[0].IdempotencyKey {
			t.Errorf("%s: outcome %+v", m.ID, outcome)
		}
		// What a design carries from the decision is what the lines are joined by.
		if outcome.Permit != "" && outcome.Permit != decided.Permit {
			t.Errorf("%s: permit %s was approved and %s presented", m.ID, decided.Permit, outcome.Permit)
		}
	}
}

// TestReconciliations: each is logged by a case of its own, and no other is.
func TestReconciliations(t *testing.T) {
	inject := func(kinds ...provider.FaultKind) func(*world, *scripted) {
		return func(w *world, _ *scripted) {
			for _, k := range kinds {
				must(t, w.prov.Inject(provider.Fault{Kind: k}))
			}
		}
	}
	crash := func(w *world, _ *scripted) {
		w.lab.At(api.StepConsumed, func(context.Context) error { return lab.ErrCrash })
	}
	seen := map[api.Reconciliation]bool{}
	for _, tt := range []struct {
		name, tool string
		prepare    func(*world, *scripted)
		later      bool // presented again after the lease
		want       []api.Reconciliation
		sent       bool
	}{
		{"nothing is lost", "pay", inject(), true, []api.Reconciliation{"", ""}, true},
		{"the answer", "pay", inject(provider.FaultDropResponse), false, []api.Reconciliation{api.FoundExecuted}, true},
		{"the provider failed", "pay", inject(provider.FaultError), false, []api.Reconciliation{api.FoundFailed}, true},
		{"the request, where it can be repeated", "pay", inject(provider.FaultDropRequest), false, []api.Reconciliation{api.FoundNothing}, true},
		{"the request, where it cannot", "wire", inject(provider.FaultDropRequest), true, []api.Reconciliation{api.StillOpen, api.FoundNotExecuted}, true},
		{"no look-up", "fax", inject(provider.FaultDropResponse), true, []api.Reconciliation{api.NoLookup, api.NoLookup}, true},
		{"no answer to the look-up", "wire", func(w *world, s *scripted) { s.execute, s.lookup = api.ErrNoAnswer, api.ErrNoAnswer }, false,
			[]api.Reconciliation{api.LookupFailed}, true},
		{"a crash before the send", "pay", crash, true, []api.Reconciliation{api.FoundNotSent}, true},
	} {
		w, s := newScripted(t, "M9")
		d := w.approved(w.action(tt.tool, 1))
		tt.prepare(w, s)
		w.answer(w.target, d)
		if tt.later {
			w.clock.add(gateway.SendLease)
			w.answer(w.target, d)
		}
		var got []api.Reconciliation
		_, after := w.linesOf()
		for _, e := range after {
			if strings.HasPrefix(e.Event, "outcome") {
				got = append(got, e.Reconciled)
				seen[e.Reconciled] = true
				if e.ConsumedAt.IsZero() || (e.ProviderRequest != "") != tt.sent {
					t.Errorf("%s: %+v", tt.name, e)
				}
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: reconciled %q, want %q", tt.name, got, tt.want)
		}
	}
	for _, r := range api.Reconciliations() {
		if !seen[r] {
			t.Errorf("no case ends as %q", r)
		}
	}
	// Spent and not sent: while it may yet be, there is no request at the provider.
	w := newWorld(t, "M9")
	d := w.approved(w.action("pay", 1))
	crash(w, nil)
	w.answer(w.target, d)
	w.answer(w.target, d)
	_, after := w.linesOf()
	if e := after[len(after)-1]; e.Reconciled != api.StillOpen || e.ProviderRequest != "" || e.ConsumedAt.IsZero() {
		t.Errorf("spent and not sent: %+v", e)
	}
}

// TestSettlingIsLogged: what an equal proposal finds out about an open call is in the
// log, under that call's permit; where it cannot be logged, the proposal is held.
func TestSettlingIsLogged(t *testing.T) {
	for _, tt := range []struct {
		tool    string
		fault   provider.FaultKind
		step    api.Step
		want    api.Reconciliation
		request string // that is on record at the provider
	}{
		{"wire", provider.FaultDropResponse, "", api.FoundExecuted, "first"},
		{"pay", provider.FaultError, "", api.FoundFailed, "first"},
		{"wire", provider.FaultDropRequest, "", api.FoundNotExecuted, ""},
		{"wire", "", api.StepConsumed, api.FoundNotSent, ""},
	} {
		w, s := newScripted(t, "M9")
		d := w.approved(w.action(tt.tool, 1))
		s.lookup = api.ErrNoAnswer // not at once
		if tt.fault != "" {
			must(t, w.prov.Inject(provider.Fault{Kind: tt.fault}))
		}
		if tt.step != "" {
			w.lab.At(tt.step, func(context.Context) error { return lab.ErrCrash })
		}
		d.RequestID = "first"
		w.answer(w.target, d)
		s.lookup = nil
		w.clock.add(gateway.SendLease)
		w.pending(w.action(tt.tool, 1))
		decided, after := w.linesOf()
		e := after[len(after)-1]
		if e.Event != "reconcile" || e.Reconciled != tt.want || !e.ConsumedAt.Equal(start) || e.Suspension != decided.Suspension || e.Key == "" ||
			e.ActionDigest != decided.ActionDigest || e.ProviderRequest != tt.request {
			t.Errorf("%s: the last line is %+v", tt.want, e)
		}
	}
	for mode, want := range map[string]api.PendingState{"M9": api.StateHeld, "M9-closed": api.StatePending} {
		for _, fault := range []provider.FaultKind{provider.FaultDropResponse, provider.FaultDropRequest} {
			w, s := newScripted(t, mode)
			d := w.approved(w.action("wire", 1))
			s.lookup = api.ErrNoAnswer
			must(t, w.prov.Inject(provider.Fault{Kind: fault}))
			w.answer(w.target, d)
			w.clock.add(gateway.SendLease)
			s.lookup = nil
			// The proposal itself is logged; the log is down from the look-up on.
			w.prov.onLookup = func() { w.lab.Fault(api.DepAudit, api.FaultDown) }
			p, err := w.target.Propose(ctx, auth("agent-a"), w.action("wire", 1))
			must(t, err)
			if p.State != want {
				t.Errorf("%s, %s: the log is down for what was found out: %s, want %s", mode, fault, p.State, want)
			}
		}
	}
}

// TestRidersAreLogged: a call that runs with the approval of its step is in the log
// before it is sent, and held in a design that fails closed when it cannot be.
func TestRidersAreLogged(t *testing.T) {
	w := newWorld(t, "M9-percall")
	d := w.approved(w.action("pay", 1))
	d.Siblings, d.RequestID = []api.Action{w.action("wire", 2), w.action("read", 3)}, "r"
	if o := w.dispatch(d); o.Siblings[0].Status != api.Executed || o.Siblings[1].Status != api.Executed {
		t.Fatalf("%+v", o)
	}
	entries := w.entries()
	for i, want := range []string{"dispatch", "outcome"} {
		e := entries[len(entries)-2+i]
		if e.Event != want || e.Tool != "wire" || e.Permit != "" || e.RequestID != "r/1" || len(e.ActionDigest) != 64 || e.Note == "" ||
			want == "outcome" && (e.Status != api.Executed || e.ProviderRequest != "r/1") {
			t.Errorf("line %+v", e)
		}
	}
	for mode, want := range map[string]api.Status{"M9-percall": api.Held, "M9-percall-closed": api.Executed} {
		w := newWorld(t, mode)
		d := w.approved(w.action("pay", 1))
		d.Siblings = []api.Action{w.action("wire", 2)}
		w.lab.At(api.StepSent, func(context.Context) error { w.lab.Fault(api.DepAudit, api.FaultDown); return nil })
		o := w.dispatch(d)
		if o.Siblings[0].Status != want || (len(w.prov.Ledger()) == 2) != (want == api.Executed) {
			t.Errorf("%s: the log is down for a sibling: %+v, want %s", mode, o, want)
		}
	}
}

// TestBrokenCallsAreLogged: a call that nothing can be said of is refused, and in the log.
func TestBrokenCallsAreLogged(t *testing.T) {
	s := &panicking{}
	w := newWorldWith(t, "M9", store.NewMemory(), func(d *api.Deployment) { s.Directory = d.Directory; d.Directory = s })
	d := w.approved(w.action("pay", 1))
	s.now = true
	if o := w.dispatch(d); o.Status != api.Refused || codes(o.Refusals) != "closed/panic" {
		t.Fatalf("%+v", o)
	}
	entries := w.entries()
	if e := entries[len(entries)-1]; e.Event != "outcome" || e.Status != api.Refused || codes(e.Refusals) != "closed/panic" || e.Principal != "agent-a" || e.Tool != "pay" {
		t.Errorf("the last line is %+v", e)
	}
}

type panicking struct {
	api.Directory
	now bool
}

func (p *panicking) Resolve(ctx context.Context, kind, id string) (api.Resolution, error) {
	if p.now {
		panic("the directory broke down")
	}
	return p.Directory.Resolve(ctx, kind, id)
}

// kept is a keeper of values that can fail.
type kept struct {
	values []audit.Value
	err    error
	after  int // so many are still kept
}

func (k *kept) Keep(_ context.Context, v audit.Value) error {
	if k.err != nil {
		if k.after == 0 {
			return k.err
		}
		k.after--
	}
	if h := sha256.Sum256([]byte(v.Text)); hex.EncodeToString(h[:]) != v.Digest {
		return errors.New("another digest")
	}
	k.values = append(k.values, v)
	return nil
}

// newWorldOf is a world whose gateway is assembled as a deployment would.
func newWorldOf(t tb, mode string, log audit.Log, values audit.Keeper) *world {
	t.Helper()
	m, err := modes.Get(mode)
	must(t, err)
	w := &world{t: t, keys: map[string]*softkey.Key{}}
	w.deployment, w.clock, w.prov = deployment(t)
	keys, err := modes.NewKeys(issuer)
	must(t, err)
	s := store.NewMemory()
	w.target, err = gateway.New(ctx, gateway.Config{
		Mode: m, Deployment: w.deployment, Approvals: s, Registry: s, Audit: log, Values: values, Keys: keys,
	})
	must(t, err)
	for _, p := range people() {
		w.enrol(p)
	}
	return w
}

// TestValuesAreKept: every digest of what was proposed, shown and dispatched has its
// value in the keeper, and the values are nowhere in the log.
func TestValuesAreKept(t *testing.T) {
	k := &kept{}
	w := newWorldOf(t, "M9", audit.NewMemory(), k)
	d := w.approved(w.action("pay", 73910))
	w.dispatch(d)
	d = w.approved(w.action("pay", 1))
	d.Action.Arguments = []byte(`{"supplier":"s-1","amount":73911,"memo":"changed"}`)
	w.dispatch(d)
	text := map[string]audit.Value{}
	for _, v := range k.values {
		text[v.Digest] = v
	}
	n := 0
	for _, e := range w.entries() {
		for kind, digest := range map[string]string{"arguments": e.ArgsDigest, "action": e.ActionDigest, "view": e.ViewDigest} {
			if digest == "" {
				continue
			}
			n++
			if text[digest].Kind != kind {
				t.Errorf("%s: the value of its %s is %+v", e.Event, kind, text[digest])
			}
		}
		line, err := audit.Encode(e)
		must(t, err)
		if strings.Contains(string(line), "7391") {
			t.Errorf("the log has a value: %s", line)
		}
	}
	if n < 10 {
		t.Errorf("%d digests", n)
	}
	for value, kind := range map[string]string{`"amount":73911`: "arguments", "GB33BUKB20201555555555": "action", "73910": "view"} {
		if !slices.ContainsFunc(k.values, func(v audit.Value) bool { return v.Kind == kind && strings.Contains(v.Text, value) }) {
			t.Errorf("no %s holds %s", kind, value)
		}
	}
	// Arguments without a reading have no digest, and nothing is kept of them.
	before := len(k.values)
	d = w.approved(w.action("pay", 2))
	before += 3
	d.Action.Arguments = []byte(`{"amount":`)
	w.dispatch(d)
	if len(k.values) != before {
		t.Errorf("%d values, want %d: %+v", len(k.values), before, k.values[before:])
	}
}

// TestValuesFailClosed: what cannot be kept is held before the effect and not decided,
// in a design that fails closed, and goes on when it can be kept.
func TestValuesFailClosed(t *testing.T) {
	down := errors.New("no space left on device")
	for _, mode := range []string{"M9", "M9-closed"} {
		closed := mode == "M9"
		for after := range 2 { // the arguments cannot be kept, or the action
			k := &kept{}
			w := newWorldOf(t, mode, audit.NewMemory(), k)
			k.err, k.after = down, after
			p, err := w.target.Propose(ctx, auth("agent-a"), w.action("pay", 1))
			if closed != (refusedBy(err) == "closed/unavailable") || !closed && p.State != api.StatePending {
				t.Errorf("%s: proposed: %+v, %v", mode, p, err)
			}
			k.err = nil
			a := w.action("pay", 2)
			id := w.pending(a)
			k.err, k.after = down, 0
			if err := w.decide(id, "approver-p", api.Approve); closed != (refusedBy(err) == "closed/unavailable") {
				t.Errorf("%s: decided: %v", mode, err)
			}
			k.err = nil
			if closed {
				must(t, w.decide(id, "approver-p", api.Approve))
			}
			d := w.collect(a, id)
			k.err, k.after = down, after
			o := w.dispatch(d)
			if closed {
				if o.Status != api.Held || codes(o.Refusals) != "closed/unavailable" || len(w.prov.Ledger()) != 0 {
					t.Errorf("%s: dispatched: %+v, %d effects", mode, o, len(w.prov.Ledger()))
				}
				k.err = nil
				o = w.dispatch(d)
			}
			if o.Status != api.Executed || len(w.prov.Ledger()) != 1 {
				t.Errorf("%s: at last: %+v, %d effects", mode, o, len(w.prov.Ledger()))
			}
		}
	}
}
