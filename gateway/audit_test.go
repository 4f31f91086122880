package gateway_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"countersign/gateway"
	"countersign/gateway/api"
	"countersign/gateway/lab"
	"countersign/gateway/store"
	"countersign/scenarios/provider"
)

func unbase64(t tb, s string) []byte {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(s)
	must(t, err)
	return b
}

// TestAlerts: each alert is raised by its case and not by the honest twin.
func TestAlerts(t *testing.T) {
	tests := []struct {
		name        string
		mode        string
		alert       api.Alert
		case_, twin func(w *world, d api.Dispatch)
	}{
		{
			"changed arguments", "M9", api.AlertHash,
			func(w *world, d api.Dispatch) {
				d.Action.Arguments = []byte(`{"supplier":"s-1","amount":2,"memo":"invoice"}`)
				w.dispatch(d)
			},
			func(w *world, d api.Dispatch) { // the same, written differently
				d.Action.Arguments = []byte(` { "memo": "\u0069nvoice", "amount": 1e0, "supplier":"s-1" } `)
				w.dispatch(d)
			},
		},
		{
			"sibling service", "M9", api.AlertAudience,
			func(w *world, d api.Dispatch) { d.Action.Audience = "payroll.example"; w.dispatch(d) },
			func(w *world, d api.Dispatch) { // the sibling's own call
				a := w.action("pay", 1)
				a.Audience = "payroll.example"
				w.dispatch(w.approved(a))
			},
		},
		{
			"presented again", "M9", api.AlertSpent,
			func(w *world, d api.Dispatch) { w.dispatch(d); w.dispatch(d) },
			func(w *world, d api.Dispatch) { // a second payment that was approved for itself
				w.dispatch(d)
				w.dispatch(w.approved(w.action("pay", 1)))
			},
		},
		{
			"presented again elsewhere", "M9", api.AlertSpent,
			func(w *world, d api.Dispatch) {
				w.dispatch(d)
				must(w.t, w.lab.Restart(ctx))
				w.dispatch(d)
			},
			func(w *world, d api.Dispatch) { must(w.t, w.lab.Restart(ctx)); w.dispatch(d) },
		},
		{
			"the answer is lost and the request sent again", "M8", api.AlertTwice,
			func(w *world, d api.Dispatch) {
				must(w.t, w.prov.Inject(provider.Fault{Kind: provider.FaultDropResponse}))
				w.dispatch(d)
			},
			func(w *world, d api.Dispatch) { // the request itself is lost
				must(w.t, w.prov.Inject(provider.Fault{Kind: provider.FaultDropRequest}))
				w.dispatch(d)
			},
		},
		{
			"a crash after the effect, before a line about it", "M4", api.AlertTwice,
			func(w *world, d api.Dispatch) {
				w.lab.At(api.StepSent, func(context.Context) error { return lab.ErrCrash })
				w.answer(w.target, d)
				must(w.t, w.lab.Restart(ctx))
				w.dispatch(d)
			},
			func(w *world, d api.Dispatch) { // before the effect
				w.lab.At(api.StepChecked, func(context.Context) error { return lab.ErrCrash })
				w.answer(w.target, d)
				must(w.t, w.lab.Restart(ctx))
				w.dispatch(d)
			},
		},
	}
	raised := map[api.Alert]bool{}
	for _, tt := range tests {
		raised[tt.alert] = true
		for what, do := range map[string]func(*world, api.Dispatch){"case": tt.case_, "twin": tt.twin} {
			w := newWorld(t, tt.mode)
			do(w, w.approved(w.action("pay", 1)))
			var want []api.Alert
			if what == "case" {
				want = []api.Alert{tt.alert}
			}
			if got := w.alerts(); !slices.Equal(got, want) {
				t.Errorf("%s, %s: alerts %q, want %q", tt.name, what, got, want)
			}
		}
	}
	for _, a := range api.Alerts() {
		if !raised[a] {
			t.Errorf("nothing raises %q", a)
		}
	}
}

// TestAuditHoldsNoValues: names and digests only, in whatever happens.
func TestAuditHoldsNoValues(t *testing.T) {
	w := newWorld(t, "M9")
	const memo, amount, supplier = "zqx-memo-of-the-payment", "73910482655", "s-1"
	action := func(tool string) api.Action {
		a := w.action(tool, 1)
		a.Arguments = []byte(`{"supplier":"` + supplier + `","amount":` + amount + `,"memo":"` + memo + `"}`)
		return a
	}
	d := w.approved(action("pay"))
	w.dispatch(d)
	w.dispatch(d)
	for _, text := range []string{
		`{"supplier":"s-1","amount":` + amount + `,"memo":"` + memo + `","memo":"` + memo + `"}`,
		`{"supplier":"s-1","amount":"` + memo + `"}`, `{"supplier":"s-1","amount":` + amount + `e99}`, `{"memo":"` + memo, memo, `["` + memo + `"]`,
		`{"supplier":"` + memo + `","amount":1}`, `{"supplier":"s-1","amount":1,"memo":"` + memo + `\ud800"}`,
	} {
		x := w.approved(action("pay"))
		x.Action.Arguments = []byte(text)
		w.dispatch(x)
		_, _ = w.target.Propose(ctx, auth("agent-a"), x.Action)
	}
	for _, tool := range []string{"fax", "wire"} {
		x := w.approved(action(tool))
		must(t, w.prov.Inject(provider.Fault{Kind: provider.FaultDropResponse}))
		w.dispatch(x)
	}
	declined := w.pending(action("wire"))
	must(t, w.decide(declined, "approver-p", api.Decline))
	drifting := w.approved(action("pay"))
	must(t, w.prov.SetRecord("supplier", "s-1", map[string]json.RawMessage{"account": json.RawMessage(`"zqx-account"`)}))
	w.dispatch(drifting)
	entries := w.entries()
	if len(entries) < 40 {
		t.Fatalf("only %d entries", len(entries))
	}
	for _, e := range entries {
		text, err := json.Marshal(e)
		must(t, err)
		for _, value := range []string{"zqx", amount, "GB33", `"s-1"`, d.Carried.Approval, d.Carried.Permit} {
			if strings.Contains(string(text), value) {
				t.Errorf("entry %d holds the value %q: %s", e.Seq, value, text)
			}
		}
	}
}

// TestAuditSaysWhatHappened: the log of one approved action, with the digest of
// what was shown and of what was dispatched, and who.
func TestAuditSaysWhatHappened(t *testing.T) {
	w := newWorld(t, "M9")
	before := len(w.entries())
	a := w.action("pay", 1)
	w.dispatch(w.approved(a))
	var events []string
	entries := w.entries()[before:]
	for _, e := range entries {
		events = append(events, e.Event)
		if e.ArgsDigest != entries[0].ArgsDigest || e.ArgsDigest == "" || e.Policy != "policy-1" || e.Audience != "bank.example" || e.Tool != "pay" {
			t.Errorf("%s: %+v", e.Event, e)
		}
	}
	if want := []string{"propose", "posted:approve", "decide:approve", "dispatch", "outcome"}; !slices.Equal(events, want) {
		t.Fatalf("events %q, want %q", events, want)
	}
	decided, outcome := entries[2], entries[4]
	if decided.Principal != "approver-p" || decided.ViewDigest == "" || decided.Permit != outcome.Permit || outcome.Permit == "" ||
		outcome.Principal != "agent-a" || outcome.Status != api.Executed || outcome.RequestID != w.prov.Ledger()[0].RequestID || outcome.Key != w.prov.Ledger()[0].IdempotencyKey {
		t.Errorf("decided %+v, outcome %+v", decided, outcome)
	}
	// A refusal is recorded, too.
	w.dispatch(api.Dispatch{Action: a})
	last := w.entries()[len(w.entries())-1]
	if last.Event != "outcome" || last.Status != api.Refused || len(last.Refusals) == 0 {
		t.Errorf("a refusal: %+v", last)
	}
}

// TestAuditOfAdministration: the log tells what was applied from what failed.
func TestAuditOfAdministration(t *testing.T) {
	w := newWorld(t, "M9")
	for _, tt := range []struct {
		event api.Event
		want  string
		fails bool
	}{
		{api.Event{Kind: api.EventDisableAgent, Subject: "agent-b"}, "admin-applied:disable_agent:agent-b", false},
		{api.Event{Kind: api.EventRevoke, Subject: "nope"}, "admin-failed:revoke:nope", true},
		{api.Event{Kind: api.EventPolicyChange}, "admin-failed:policy_change:", true},
	} {
		before := len(w.entries())
		if err := w.target.Admin(ctx, auth("admin"), tt.event); (err != nil) != tt.fails {
			t.Errorf("%+v: %v", tt.event, err)
		}
		entries := w.entries()[before:]
		if len(entries) != 2 || entries[0].Event != strings.NewReplacer("-applied", "", "-failed", "").Replace(tt.want) || entries[1].Event != tt.want || entries[1].Principal != "operator:admin" {
			t.Errorf("%+v is logged as %+v", tt.event, entries)
		}
	}
}

// TestOutcomeNotLogged: when the log fails after the effect the answer says so, and
// the intent is in the log.
func TestOutcomeNotLogged(t *testing.T) {
	w := newWorld(t, "M9")
	d := w.approved(w.action("pay", 1))
	w.lab.At(api.StepSent, func(context.Context) error { w.lab.Fault(api.DepAudit, api.FaultDown); return nil })
	w.expect("log lost after the effect", d, api.Executed, "closed/unavailable", 1)
	w.lab.Fault(api.DepAudit, api.FaultNone)
	last := w.entries()[len(w.entries())-1]
	if last.Event != "dispatch" || last.ArgsDigest == "" {
		t.Errorf("the last entry is %+v", last)
	}
}

// TestKeysAreDerived: the provider's idempotency key depends on the permit alone,
// so a retry has the same and another approval another.
func TestKeysAreDerived(t *testing.T) {
	w := newWorld(t, "M9")
	d := w.approved(w.action("wire", 1))
	d.RequestID = "first"
	w.lab.At(api.StepConsumed, func(context.Context) error { return lab.ErrCrash })
	w.answer(w.target, d)
	w.clock.add(gateway.SendLease)
	must(t, w.prov.Inject(provider.Fault{Kind: provider.FaultDropRequest}))
	d.RequestID = "second"
	w.answer(w.target, d)
	w.clock.add(gateway.SendLease)
	w.expect("third", d, api.Executed, "", 1)
	w.dispatch(w.approved(w.action("pay", 2)))
	l := w.prov.Ledger()
	if l[0].IdempotencyKey == "" || l[0].IdempotencyKey == l[1].IdempotencyKey || l[0].RequestID != "first" {
		t.Errorf("ledger %+v", l)
	}
}

// TestLogOfDecisions: a line "decide" without a refusal is there for exactly what is
// on record; a decision that came second, or could not be stored, has its reason.
func TestLogOfDecisions(t *testing.T) {
	lines := func(w *world, id string) (out []string) {
		for _, e := range w.entries() {
			if e.Suspension == id {
				out = append(out, strings.TrimSpace(e.Event+" "+codes(e.Refusals)))
			}
		}
		return out
	}
	w := newWorld(t, "M9")
	id := w.pending(w.action("pay", 1))
	late := api.Decision{Suspension: id, Verdict: api.Approve, Assertion: w.assertion(id, "approver-p")}
	must(t, w.decide(id, "approver-2", api.Decline))
	if err := w.target.Decide(ctx, auth("approver-p"), late); !errors.Is(err, api.ErrConflict) {
		t.Errorf("the second decision: %v", err)
	}
	if got, want := lines(w, id), []string{"posted:decline", "decide:decline", "posted:approve", "decide:approve record/decided"}; !slices.Equal(got, want) {
		t.Errorf("logged %q, want %q", got, want)
	}
	s := &breaking{Store: store.NewMemory()}
	w = newWorldOn(t, "M9", s)
	id = w.pending(w.action("pay", 1))
	s.lies = "create approval"
	err := w.decide(id, "approver-p", api.Approve)
	if got, want := lines(w, id), []string{"posted:approve", "decide:approve record/unavailable"}; !errors.Is(err, api.ErrUnavailable) || !slices.Equal(got, want) {
		t.Errorf("stored or not: %v, logged %q, want %q", err, got, want)
	}
	w = newWorld(t, "M9")
	id = w.pending(w.action("pay", 1))
	if err := w.decide(id, "requester-r", api.Approve); err == nil {
		t.Error("the requester decides")
	}
	if got, want := lines(w, id), []string{"posted:approve", "decide:approve duties/requester"}; !slices.Equal(got, want) {
		t.Errorf("refused: logged %q, want %q", got, want)
	}
}

// TestLogOfErrors: a dispatch that ends with an error of the provider has an outcome
// too, with the permit and the key that may be spent for it; a crash has none.
func TestLogOfErrors(t *testing.T) {
	w := newWorld(t, "M9")
	d := w.approved(w.action("pay", 1))
	must(t, w.prov.Inject(provider.Fault{Kind: provider.FaultError}))
	if got := w.answer(w.target, d); got != "!" {
		t.Errorf("the provider fails: %s", got)
	}
	if last := w.entries()[len(w.entries())-1]; last.Event != "outcome:error" || last.Permit == "" || last.Key == "" {
		t.Errorf("the last line is %+v", last)
	}
	d = w.approved(w.action("pay", 2))
	w.lab.At(api.StepSent, func(context.Context) error { return lab.ErrCrash })
	w.answer(w.target, d)
	if last := w.entries()[len(w.entries())-1]; last.Event != "dispatch" {
		t.Errorf("after a crash the last line is %+v", last)
	}
}
