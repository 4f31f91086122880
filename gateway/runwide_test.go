package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"countersign/gateway"
	"countersign/gateway/api"
	"countersign/gateway/lab"
	"countersign/gateway/store"
	"countersign/modes"
)

// allowRunWide sets the bounds of run-wide approvals of a tool of the bank, or
// without any withdraws them.
func (w *world) allowRunWide(tool, bounds string) {
	w.t.Helper()
	e := api.Event{Kind: api.EventAllowRunWide, Subject: "bank.example/" + tool, Value: bounds}
	if bounds == "" {
		e.Kind = api.EventForbidRunWide
	}
	must(w.t, w.target.Admin(ctx, auth("admin"), e))
}

func (w *world) terms(uses int64, d time.Duration) api.RunWide {
	now, err := w.clock.Now()
	must(w.t, err)
	return api.RunWide{Uses: uses, Until: now.Add(d)}
}

// optIn is a person's yes to the run-wide view that it asked for.
func (w *world) optIn(id, person string, terms api.RunWide) api.Decision {
	w.t.Helper()
	v, err := w.target.RunWideView(ctx, auth(person), id, terms)
	must(w.t, err)
	d := api.Decision{Suspension: id, Verdict: api.Approve, RunWide: v.RunWide}
	if len(v.Assertion) > 0 {
		d.Assertion, err = w.keys[person].Assert(v.Assertion)
		must(w.t, err)
	}
	return d
}

// runWide has a fresh call of a tool approved for so many calls within ten minutes,
// of fifteen that the policy allows.
func (w *world) runWide(tool string, uses int64) api.Dispatch {
	w.t.Helper()
	w.allowRunWide(tool, "9 15m")
	a := w.action(tool, 1)
	id := w.pending(a)
	must(w.t, w.target.Decide(ctx, auth("approver-p"), w.optIn(id, "approver-p", w.terms(uses, 10*time.Minute))))
	return w.collect(a, id)
}

// granted proposes and wants nobody to be asked.
func (w *world) granted(a api.Action) api.Dispatch {
	w.t.Helper()
	p, err := w.target.Propose(ctx, auth("agent-a"), a)
	must(w.t, err)
	if p.State != api.StateGranted || p.Suspension == "" || p.SuspendedAt == 0 {
		w.t.Fatalf("the proposal of %s in %s: %+v, want it granted", a.Call, a.Run, p)
	}
	return w.collect(a, p.Suspension)
}

// asked proposes and wants somebody to be asked.
func (w *world) asked(what string, agent string, a api.Action) {
	w.t.Helper()
	if p, err := w.target.Propose(ctx, auth(agent), a); err != nil || p.State != api.StatePending {
		w.t.Errorf("%s: %+v, %v; want it asked", what, p, err)
	}
}

func line(v api.View, path string) string {
	var out []string
	for _, f := range v.Fields {
		if f.Path == path {
			out = append(out, f.Label+": "+f.Text)
		}
	}
	return strings.Join(out, " | ")
}

// TestRunWide: where the policy has bounds for it, an approver who asks for the view
// of the whole run is shown how many calls and until when, and what it signs says so.
// Equal calls of the run are then granted, each makes one effect under a key of its
// own, and the one after the last use is asked anew.
func TestRunWide(t *testing.T) {
	for _, mode := range []string{"M9", "M9-record", "M9-challenge-record", "M9-once"} {
		s := store.NewMemory()
		w := newWorldOn(t, mode, s)
		w.allowRunWide("wire", "5 15m")
		a := w.action("wire", 1)
		id := w.pending(a)
		one := w.viewed(id, "approver-p")
		if want := w.terms(5, 15*time.Minute); one.Offer == nil || *one.Offer != want || one.RunWide != nil {
			t.Fatalf("%s: offered %+v, want %+v", mode, one.Offer, want)
		}
		terms := w.terms(3, 10*time.Minute)
		v, err := w.target.RunWideView(ctx, auth("approver-p"), id, terms)
		must(t, err)
		const until = "2026-01-05T09:10:00Z"
		if line(v, "#uses") != "Calls in this run, at most: 3" || line(v, "#until") != "Until: "+until || v.RunWide == nil || *v.RunWide != terms || v.Offer != nil || v.Title != one.Title {
			t.Errorf("%s: the view for the run is %+v", mode, v)
		}
		for _, f := range one.Fields {
			ofOneCall := f.Path == "#step" || f.Path == "#call" || f.Path == "#expires"
			if shown := line(v, f.Path) == f.Label+": "+f.Text; shown == ofOneCall {
				t.Errorf("%s: %s is shown for the run: %v", mode, f.Path, shown)
			}
		}
		for medium, text := range v.Rendered {
			text = strings.ReplaceAll(text, `\`, "")
			if !strings.Contains(text, "not for one call") || !strings.Contains(text, until) || !strings.Contains(text, "3 calls") {
				t.Errorf("%s: as %s the view does not say so:\n%s", mode, medium, text)
			}
		}
		if again := w.viewed(id, "approver-p"); again.Digest != one.Digest || again.Digest == v.Digest || !reflect.DeepEqual(again.Fields, one.Fields) {
			t.Errorf("%s: having asked changes the view of the call to %+v", mode, again)
		}
		must(t, w.target.Decide(ctx, auth("approver-p"), w.optIn(id, "approver-p", terms)))
		w.expect(mode+", the call that waited", w.collect(a, id), api.Executed, "", 1)
		for n := 2; n <= 3; n++ {
			w.expect(fmt.Sprint(mode, ", call ", n), w.granted(w.action("wire", 1)), api.Executed, "", n)
		}
		w.asked(mode+", after the last use", "agent-a", w.action("wire", 1))

		var approval modes.Approval
		var e modes.Envelope
		w.stored(s, "approval", a.Run, &approval)
		must(t, json.Unmarshal(approval.EnvelopeText, &e))
		if !e.RunWide() || e.Uses != 3 || e.ExpiresAt != terms.Until.Unix() || e.Step != "" || e.Call != "" || e.ViewDigest != v.Digest || approval.RunWide == nil || *approval.RunWide != terms {
			t.Errorf("%s: on record %+v, envelope %+v", mode, approval.RunWide, e)
		}
		if got, want := w.notes("decide:approve"), []string{"run-wide: up to 3 calls until " + until}; !slices.Equal(got, want) {
			t.Errorf("%s: the log notes of the decision %q, want %q", mode, got, want)
		}
		if got, want := w.notes("granted"), slices.Repeat([]string{"run-wide approval of " + id}, 2); !slices.Equal(got, want) {
			t.Errorf("%s: the log notes of the grants %q, want %q", mode, got, want)
		}
		keys, calls := map[string]bool{}, map[string]bool{}
		for _, entry := range w.entries() {
			if entry.Event == "outcome" {
				keys[entry.Key], calls[entry.Suspension] = true, true
			}
			if want := int64(3); entry.Event == "decide:approve" && entry.Uses != want || entry.Event != "decide:approve" && entry.Uses != 0 {
				t.Errorf("%s: the line %s says %d uses", mode, entry.Event, entry.Uses)
			}
		}
		if len(calls) != 3 || calls[""] {
			t.Errorf("%s: the log names the calls %v", mode, slices.Collect(maps.Keys(calls)))
		}
		if got := w.notes("outcome"); !slices.Equal(got, []string{"use 1 of 3", "use 2 of 3", "use 3 of 3"}) || len(keys) != 3 {
			t.Errorf("%s: the log notes of the calls %q, under the keys %v", mode, got, slices.Collect(maps.Keys(keys)))
		}
	}
}

// oneCallOnly is a store that knows nothing of run-wide approvals.
type oneCallOnly struct{ store.Store }

func (s oneCallOnly) Find(ctx context.Context, kind, key string) ([]store.Row, error) {
	if kind == "run_wide" {
		return nil, errDisk
	}
	return s.Store.Find(ctx, kind, key)
}

// TestRunWideIsNotLookedFor: without bounds in the policy, no proposal depends on
// what a store knows of run-wide approvals.
func TestRunWideIsNotLookedFor(t *testing.T) {
	w := newWorldOn(t, "M9", oneCallOnly{store.NewMemory()})
	w.expect("one call", w.approved(w.action("pay", 1)), api.Executed, "", 1)
	w.allowRunWide("pay", "3 10m")
	if _, err := w.target.Propose(ctx, auth("agent-a"), w.action("pay", 1)); !errors.Is(err, api.ErrUnavailable) {
		t.Errorf("with bounds: %v", err)
	}
}

// undecided is a store that takes no approvals.
type undecided struct{ store.Store }

func (s undecided) Create(ctx context.Context, r store.Row) (store.Row, error) {
	if r.Kind == "approval" {
		return store.Row{}, errDisk
	}
	return s.Store.Create(ctx, r)
}

// TestRunWideHalfDecided: an opt-in that did not come on record covers nothing,
// whatever else of it was stored, and the call still waits for a decision.
func TestRunWideHalfDecided(t *testing.T) {
	s := store.NewMemory()
	w := newWorldOn(t, "M9", undecided{s})
	w.allowRunWide("pay", "9 15m")
	a := w.action("pay", 1)
	id := w.pending(a)
	if err := w.target.Decide(ctx, auth("approver-p"), w.optIn(id, "approver-p", w.terms(3, time.Minute))); !errors.Is(err, api.ErrUnavailable) {
		t.Fatalf("the opt-in: %v", err)
	}
	if rows, err := s.Find(ctx, "approval", a.Run); err != nil || len(rows) != 0 {
		t.Fatalf("%d approvals, %v", len(rows), err)
	}
	w.asked("an equal call", "agent-a", w.action("pay", 1))
	m, err := modes.Get("M9")
	must(t, err)
	bench, err := lab.DeployOn(m, s)(ctx, w.deployment)
	must(t, err)
	w.target = bench.Target
	must(t, w.decide(id, "approver-2", api.Approve))
	w.asked("after a decision on the one call", "agent-a", w.action("pay", 1))
	w.expect("the one call", w.collect(a, id), api.Executed, "", 1)
}

// TestRunWideOnlyByOptIn: bounds in the policy alone change nothing, and neither does
// anything that the agent says.
func TestRunWideOnlyByOptIn(t *testing.T) {
	plain, bounded := newWorld(t, "M9"), newWorld(t, "M9")
	bounded.allowRunWide("pay", "9 15m")
	for _, w := range []*world{plain, bounded} {
		a := w.action("pay", 1)
		d := w.approved(a)
		w.expect("the one call", d, api.Executed, "", 1)
		w.asked("an equal call", "agent-a", w.action("pay", 1))
		d.Action = w.action("pay", 1)
		w.expect("an equal call that was not proposed", d, api.Refused, "call/differs suspension/none seen/seen once/spent", 1)
	}
	if a, b := plain.viewed("s-000001", "approver-p"), bounded.viewed("s-000001", "approver-p"); a.Digest != b.Digest || a.Offer != nil || b.Offer == nil {
		t.Errorf("the views are %+v and %+v", a, b)
	}
	w := bounded
	terms := w.terms(3, time.Minute)
	id := w.pending(w.action("pay", 2))
	for _, caller := range []string{"agent-a", "admin", "auditor"} {
		if _, err := w.target.RunWideView(ctx, auth(caller), id, terms); !errors.Is(err, api.ErrForbidden) {
			t.Errorf("%s asks for the view of the run: %v", caller, err)
		}
	}
	if got := refusedBy(w.target.Decide(ctx, auth("agent-a"), api.Decision{Suspension: id, Verdict: api.Approve, RunWide: &terms})); !strings.HasPrefix(got, "attest/absent duties/self") {
		t.Errorf("the agent opts in: %s", got)
	}
	if got := refusedBy(w.target.Decide(ctx, auth("requester-r"), w.optIn(id, "requester-r", terms))); got != "duties/requester" {
		t.Errorf("the requester opts in: %s", got)
	}
}

// TestRunWideDecision: what is signed is the view that was decided on, with its
// terms and no others.
func TestRunWideDecision(t *testing.T) {
	w := newWorld(t, "M9")
	w.allowRunWide("pay", "9 15m")
	a := w.action("pay", 1)
	id := w.pending(a)
	terms := w.terms(3, 10*time.Minute)
	more, longer := w.terms(4, 10*time.Minute), w.terms(3, 11*time.Minute)
	for name, d := range map[string]api.Decision{
		"signed for one call":           {RunWide: &terms, Assertion: w.assertion(id, "approver-p")},
		"signed for the run":            {Assertion: w.optIn(id, "approver-p", terms).Assertion},
		"signed for fewer calls":        {RunWide: &more, Assertion: w.optIn(id, "approver-p", terms).Assertion},
		"signed for a shorter time":     {RunWide: &longer, Assertion: w.optIn(id, "approver-p", terms).Assertion},
		"signed for another suspension": {RunWide: &terms, Assertion: w.optIn(w.pending(w.action("pay", 1)), "approver-p", terms).Assertion},
	} {
		d.Suspension, d.Verdict = id, api.Approve
		if got := refusedBy(w.target.Decide(ctx, auth("approver-p"), d)); got != "attest/challenge" {
			t.Errorf("%s: %s", name, got)
		}
	}
	for _, entry := range w.entries() {
		if entry.Uses != 0 {
			t.Errorf("the line %s of an opt-in that was refused says %d uses", entry.Event, entry.Uses)
		}
	}
	elsewhere := terms
	elsewhere.Until = terms.Until.In(time.FixedZone("", 3600))
	must(t, w.target.Decide(ctx, auth("approver-p"), w.optIn(id, "approver-p", elsewhere)))
	if err := w.target.Decide(ctx, auth("approver-2"), w.optIn(id, "approver-2", more)); !errors.Is(err, api.ErrConflict) {
		t.Errorf("a second opt-in: %v", err)
	}
	bound := w.granted(w.action("pay", 1))
	p, err := w.target.Propose(ctx, auth("agent-a"), bound.Action)
	must(t, err)
	v := w.viewed(p.Suspension, "approver-p")
	if v.Offer != nil || v.RunWide == nil || *v.RunWide != terms || line(v, "#uses") != "Calls in this run, at most: 3" {
		t.Errorf("the view of a granted call is %+v", v)
	}
	if _, err := w.target.RunWideView(ctx, auth("approver-p"), p.Suspension, terms); !errors.Is(err, api.ErrForbidden) {
		t.Errorf("the view for the run of a granted call: %v", err)
	}
	for _, verdict := range []api.Verdict{api.Approve, api.Decline} {
		if err := w.decide(p.Suspension, "approver-p", verdict); !errors.Is(err, api.ErrConflict) {
			t.Errorf("%s of a granted call: %v", verdict, err)
		}
	}

	// A no is one, whatever it names.
	id = w.pending(w.action("pay", 2))
	beyond := w.terms(99, time.Hour)
	must(t, w.target.Decide(ctx, auth("approver-p"), api.Decision{Suspension: id, Verdict: api.Decline, RunWide: &beyond}))
	w.asked("after a no", "agent-a", w.action("pay", 2))
	if got := w.notes("decide:decline"); got[len(got)-1] != "" {
		t.Errorf("the log notes of a no %q", got)
	}
	// It comes as late as any other.
	id = w.pending(w.action("pay", 3))
	w.clock.add(ttl)
	if got := refusedBy(w.target.Decide(ctx, auth("approver-p"), w.optIn(id, "approver-p", w.terms(3, time.Minute)))); got != "expiry/expired" {
		t.Errorf("too late: %s", got)
	}
}

// TestRunWideRefused: nothing wider than the policy allows is shown or taken, and
// nothing that is no run-wide approval.
func TestRunWideRefused(t *testing.T) {
	refused := func(w *world, what, id string, terms api.RunWide, want error) {
		t.Helper()
		if _, err := w.target.RunWideView(ctx, auth("approver-p"), id, terms); !errors.Is(err, want) {
			t.Errorf("%s, the view: %v, want %v", what, err, want)
		}
		if err := w.target.Decide(ctx, auth("approver-p"), api.Decision{Suspension: id, Verdict: api.Approve, RunWide: &terms}); !errors.Is(err, want) {
			t.Errorf("%s, the decision: %v, want %v", what, err, want)
		}
	}
	w := newWorld(t, "M9-attest-challenge") // where nothing but the terms stands in the way
	id := w.pending(w.action("pay", 1))
	fine := w.terms(3, 10*time.Minute)
	refused(w, "no bounds", id, fine, api.ErrForbidden)
	w.allowRunWide("wire", "9 15m")
	refused(w, "another tool's bounds", id, fine, api.ErrForbidden)
	w.allowRunWide("pay", "3 10m")
	for name, terms := range map[string]api.RunWide{
		"no call": w.terms(0, time.Minute), "one call": w.terms(1, time.Minute), "fewer than none": w.terms(-2, time.Minute),
		"no end": {Uses: 3}, "over": w.terms(3, -time.Second), "at once": w.terms(3, 0), "a part of a second": w.terms(3, time.Second+1),
	} {
		refused(w, name, id, terms, api.ErrInvalid)
	}
	refused(w, "one call too many", id, w.terms(4, 10*time.Minute), api.ErrForbidden)
	refused(w, "a second too long", id, w.terms(3, 10*time.Minute+time.Second), api.ErrForbidden)
	refused(w, "an unknown suspension", "s-999999", fine, api.ErrNotFound)
	if _, err := w.target.RunWideView(ctx, auth("approver-x"), id, fine); !errors.Is(err, api.ErrNotFound) {
		t.Errorf("another tenant's view: %v", err)
	}
	w.needPeople("pay", 2)
	refused(w, "two people needed now", id, fine, api.ErrForbidden)
	two := w.pending(w.action("pay", 1))
	w.needPeople("pay", 1)
	if _, err := w.target.RunWideView(ctx, auth("approver-p"), two, fine); !errors.Is(err, api.ErrForbidden) {
		t.Errorf("two people needed when it was asked: %v", err)
	}
	w.clock.stop(true)
	refused(w, "no clock", id, fine, api.ErrUnavailable)
	if v := w.viewed(id, "approver-p"); v.Offer != nil {
		t.Errorf("offered without a clock: %+v", v.Offer)
	}
	w.clock.stop(false)
	w.lab.Fault(api.DepPolicy, api.FaultDown)
	refused(w, "no policy", id, fine, api.ErrUnavailable)
	if v := w.viewed(id, "approver-p"); v.Offer != nil {
		t.Errorf("offered without a policy: %+v", v.Offer)
	}
	w.lab.Fault(api.DepPolicy, api.FaultNone)
	w.allowRunWide("pay", "")
	refused(w, "bounds withdrawn", id, fine, api.ErrForbidden)
	w.allowRunWide("pay", "3 10m")
	must(t, w.target.Decide(ctx, auth("approver-p"), w.optIn(id, "approver-p", w.terms(3, 10*time.Minute))))

	for _, m := range modes.All() {
		if m.ID == "M0" || m.ID == "M9" {
			continue
		}
		w := newWorld(t, m.ID)
		w.allowRunWide("pay", "3 10m")
		id := w.pending(w.action("pay", 1))
		if v := w.viewed(id, "approver-p"); v.Offer != nil {
			t.Errorf("%s offers %+v", m.ID, v.Offer)
		}
		terms := w.terms(3, 10*time.Minute)
		_, err := w.target.RunWideView(ctx, auth("approver-p"), id, terms)
		for _, err := range []error{err, w.target.Decide(ctx, auth("approver-p"), api.Decision{Suspension: id, Verdict: api.Approve, RunWide: &terms})} {
			if !errors.As(err, new(*api.UnimplementedError)) {
				t.Errorf("%s: %v", m.ID, err)
			}
		}
	}
}

// TestRunWideIsForEqualCalls: another agent, run, tool, service or value, or another
// meaning of a reference, is asked anew; and what was granted covers nothing else.
func TestRunWideIsForEqualCalls(t *testing.T) {
	w := newWorld(t, "M9")
	w.enrol(api.Principal{ID: "agent-t", Role: api.RoleAgent, Tenant: "tenant-2", ActsFor: "requester-r", Key: people()[0].Key})
	w.allowRunWide("wire", "9 15m")
	w.expect("the call that waited", w.runWide("pay", 5), api.Executed, "", 1)
	other := func(change func(*api.Action)) api.Action {
		a := w.action("pay", 1)
		change(&a)
		return a
	}
	same := func(*api.Action) {}
	w.asked("another agent", "agent-b", other(same))
	w.asked("an agent of another tenant", "agent-t", other(same))
	for name, change := range map[string]func(*api.Action){
		"run": func(a *api.Action) { a.Run = "run-2" }, "tool": func(a *api.Action) { a.Tool = "wire" }, "service": func(a *api.Action) { a.Audience = "payroll.example" },
		"values": func(a *api.Action) { a.Arguments = []byte(`{"supplier":"s-1","amount":2,"memo":"invoice"}`) },
	} {
		w.asked("another "+name, "agent-a", other(change))
	}
	w.expect("the values in another order", w.granted(other(func(a *api.Action) { a.Arguments = []byte(`{"memo":"invoice", "amount":1.0,"supplier":"s-1"}`) })), api.Executed, "", 2)

	d := w.granted(other(same))
	changed := d
	changed.Action.Arguments = []byte(`{"supplier":"s-1","amount":2,"memo":"invoice"}`)
	w.expect("other values in the queue", changed, api.Refused, "args/differs", 2)
	changed = d
	changed.Action.Run = "run-2"
	w.expect("another run", changed, api.Refused, "run/differs suspension/none", 2)
	changed = d
	changed.Action.Step = "step-99"
	w.expect("a call that was not proposed", changed, api.Refused, "suspension/none", 2)
	if o, err := w.present(w.target, "agent-b", d); err != nil || codes(o.Refusals) != "agent/differs" {
		t.Errorf("another agent: %+v, %v", o, err)
	}
	pending := other(same)
	pending.Arguments = []byte(`{"supplier":"s-1","amount":2,"memo":"invoice"}`)
	w.asked("other values", "agent-a", pending)
	d.Action.Step, d.Action.Call = pending.Step, pending.Call
	w.expect("a call that waits for another decision", d, api.Refused, "suspension/differs", 2)

	record := maps.Clone(records()["supplier"]["s-1"])
	record["account"] = json.RawMessage(`"GB94BARC10201530093459"`)
	d = w.granted(other(same))
	must(t, w.prov.SetRecord("supplier", "s-1", record))
	w.asked("another meaning", "agent-a", other(same))
	w.expect("granted before that", d, api.Reasked, "refs/drift", 2)
}

// TestRunWideEnds: what ends an approval ends one for the run: nothing further is
// granted under it, and what was granted is not made.
func TestRunWideEnds(t *testing.T) {
	event := func(kind api.EventKind, subject, value string) func(*world, string) {
		return func(w *world, _ string) {
			must(w.t, w.target.Admin(ctx, auth("admin"), api.Event{Kind: kind, Subject: subject, Value: value}))
		}
	}
	for name, tt := range map[string]struct {
		happens func(w *world, suspension string)
		outcome string // of a granted call
		propose string // empty: it is asked
	}{
		"withdrawn":         {func(w *world, id string) { event(api.EventRevoke, id, "")(w, "") }, "refused online/revoked", ""},
		"policy changed":    {event(api.EventPolicyChange, "", "policy-2"), "reasked online/policy", ""},
		"risk raised":       {event(api.EventRiskLabel, "bank.example/pay", "severe"), "reasked online/risk", ""},
		"agent disabled":    {event(api.EventDisableAgent, "agent-a", ""), "refused online/agent_disabled", "online/agent_disabled"},
		"approver removed":  {event(api.EventRemoveCredential, "approver-p", ""), "refused attest/credential online/approver_removed", ""},
		"two people needed": {event(api.EventApprovals, "bank.example/pay", "2"), "reasked record/too_few online/approvals", ""},
		"forbidden":         {event(api.EventForbidRunWide, "bank.example/pay", ""), "reasked online/run_wide", ""},
		"fewer allowed":     {event(api.EventAllowRunWide, "bank.example/pay", "2 15m"), "reasked online/run_wide", ""},
		"its own end":       {func(w *world, _ string) { w.clock.add(10 * time.Minute) }, "refused expiry/expired", ""},
	} {
		w := newWorld(t, "M9")
		w.expect(name+", before", w.runWide("pay", 3), api.Executed, "", 1)
		a := w.action("pay", 1)
		p, err := w.target.Propose(ctx, auth("agent-a"), a)
		must(t, err)
		d := w.collect(a, p.Suspension)
		tt.happens(w, p.Suspension)
		o := w.dispatch(d)
		if got := string(o.Status) + " " + codes(o.Refusals); got != tt.outcome || len(w.prov.Ledger()) != 1 {
			t.Errorf("%s: a granted call: %s, %d effects; want %s", name, got, len(w.prov.Ledger()), tt.outcome)
		}
		switch p, err := w.target.Propose(ctx, auth("agent-a"), w.action("pay", 1)); {
		case tt.propose == "" && (err != nil || p.State != api.StatePending):
			t.Errorf("%s: the next proposal is %+v, %v; want it asked", name, p, err)
		case tt.propose != "" && refusedBy(err) != tt.propose:
			t.Errorf("%s: the next proposal: %v, want %s", name, err, tt.propose)
		}
		// And right before the send.
		w = newWorld(t, "M9")
		w.runWide("pay", 3)
		late := w.granted(w.action("pay", 1))
		w.lab.At(api.StepConsumed, func(context.Context) error { tt.happens(w, "s-000002"); return nil })
		if o := w.dispatch(late); o.Status == api.Executed || len(w.prov.Ledger()) != 0 {
			t.Errorf("%s, right before the send: %s [%s], %d effects", name, o.Status, codes(o.Refusals), len(w.prov.Ledger()))
		}
	}
	// Longer is for approvals to come, as its documentation says.
	w := newWorld(t, "M9")
	w.runWide("pay", 3)
	w.allowRunWide("pay", "9 1m")
	w.expect("a shorter time allowed", w.granted(w.action("pay", 1)), api.Executed, "", 1)
}

// TestRunWideRetries: a call that is presented again makes no second effect, takes no
// second use and gets its own result; entering its step again is another call.
func TestRunWideRetries(t *testing.T) {
	w := newWorld(t, "M9")
	first := w.runWide("wire", 3)
	w.expect("first", first, api.Executed, "", 1)
	d := w.granted(w.action("wire", 1))
	one := w.dispatch(d)
	for range 3 {
		if o := w.dispatch(d); o.Status != api.Absorbed || string(o.Result) != string(one.Result) || codes(o.Refusals) != "seen/seen once/spent" {
			t.Errorf("again: %s [%s] %s, want the result %s", o.Status, codes(o.Refusals), o.Result, one.Result)
		}
	}
	w.expect("the first again", first, api.Absorbed, "seen/seen once/spent", 2)
	must(t, w.lab.Restart(ctx))
	w.expect("after a restart", d, api.Absorbed, "once/spent", 2)

	again := w.granted(d.Action)
	w.lab.At(api.StepSent, func(context.Context) error { return lab.ErrCrash })
	w.answer(w.target, again)
	must(t, w.lab.Restart(ctx))
	if p, err := w.target.Propose(ctx, auth("agent-a"), w.action("wire", 1)); err != nil || p.State != api.StatePending {
		t.Errorf("every use spent, the last of them looked up: %+v, %v", p, err)
	}
	w.expect("crashed after the send", again, api.Absorbed, "once/spent", 3)

	// Granted while a use was left, and presented when none is.
	w = newWorld(t, "M9")
	ds := []api.Dispatch{w.runWide("wire", 2), w.granted(w.action("wire", 1)), w.granted(w.action("wire", 1))}
	w.expect("1 of 2", ds[0], api.Executed, "", 1)
	w.expect("2 of 2", ds[1], api.Executed, "", 2)
	w.expect("3 of 2", ds[2], api.Refused, "seen/seen once/spent", 2)
	if e := last(w.entries()); !e.ConsumedAt.IsZero() || e.ProviderRequest != "" || e.Key != "" {
		t.Errorf("the line of a call that has spent nothing says what others have: %+v", e)
	}
	w.expect("1 of 2 again", ds[0], api.Absorbed, "seen/seen once/spent", 2)
	if e := last(w.entries()); !e.ConsumedAt.Equal(start) || e.Key == "" {
		t.Errorf("the line of a call that has spent a use does not say so: %+v", e)
	}
	if got := w.alerts(); !slices.Equal(got, []api.Alert{"presented after consumption", "presented after consumption"}) {
		t.Errorf("alerts %q", got)
	}

	// Which use it is, and so the key, is not known where the uses cannot be read.
	uses := &unreadUses{Store: store.NewMemory()}
	w = newWorldOn(t, "M9-once", uses)
	d = w.runWide("wire", 2)
	uses.down = true
	w.expect("the uses cannot be read", d, api.Held, "idem/unavailable", 0)
	if e := last(w.entries()); e.Event != "outcome" || e.Key != "" {
		t.Errorf("the line of a call whose use is not known has a key: %+v", e)
	}
	uses.down = false
	w.expect("the uses can be read", d, api.Executed, "", 1)

	// Spent and not sent: the use is the call's, and it proceeds later.
	w = newWorld(t, "M9")
	d = w.runWide("wire", 2)
	w.lab.At(api.StepConsumed, func(context.Context) error { return lab.ErrCrash })
	w.answer(w.target, d)
	must(t, w.lab.Restart(ctx))
	if p, err := w.target.Propose(ctx, auth("agent-a"), w.action("wire", 1)); err != nil || p.State != api.StateHeld {
		t.Errorf("an equal call while the first may be about to be sent: %+v, %v", p, err)
	}
	w.clock.add(gateway.SendLease)
	w.expect("spent before the crash", d, api.Executed, "", 1)
	w.expect("the last", w.granted(w.action("wire", 1)), api.Executed, "", 2)
	w.asked("one too many", "agent-a", w.action("wire", 1))
}

// unreadUses is a store whose uses cannot be read while it is down.
type unreadUses struct {
	store.Store
	down bool
}

func (u *unreadUses) Get(ctx context.Context, kind, id string) (store.Row, error) {
	if u.down && kind == "use" {
		return store.Row{}, errDisk
	}
	return u.Store.Get(ctx, kind, id)
}

func last(entries []api.AuditEntry) api.AuditEntry { return entries[len(entries)-1] }

// TestRunWideWorkers: eight workers at two gateways over one SQLite file, each with a
// granted call of its own or all with one, and fewer uses than calls: as many effects
// as uses, at a provider that executes whatever arrives.
func TestRunWideWorkers(t *testing.T) {
	rounds := 5
	if testing.Short() {
		rounds = 1
	}
	s, err := store.OpenSQLite(filepath.Join(t.TempDir(), "approvals.db"))
	must(t, err)
	defer s.Close()
	w := newWorldOn(t, "M9", s)
	second, err := w.lab.Second(ctx)
	must(t, err)
	gateways := []api.Target{w.target, second}
	effects := 0
	for round := range rounds {
		for _, tt := range []struct {
			uses  int64
			calls int // how many the workers have between them
			want  int
		}{{5, workers, 5}, {2, workers, 2}, {5, 1, 1}, {5, 2, 2}} {
			w.calls = 0
			run := fmt.Sprintf("run-%d-%d-%d", round, tt.uses, tt.calls)
			in := func(a api.Action) api.Action { a.Run = run; return a }
			w.allowRunWide("wire", "9 15m")
			id := w.pending(in(w.action("wire", round+1)))
			must(t, w.target.Decide(ctx, auth("approver-p"), w.optIn(id, "approver-p", w.terms(tt.uses, 10*time.Minute))))
			calls := make([]api.Dispatch, tt.calls)
			for i := range calls {
				calls[i] = w.granted(in(w.action("wire", round+1)))
			}
			var gate, done sync.WaitGroup
			gate.Add(1)
			errs, held := make([]error, workers), make([]bool, workers)
			for i := range workers {
				done.Go(func() {
					gate.Wait()
					var o api.Outcome
					o, errs[i] = w.present(gateways[i%2], "agent-a", calls[i%tt.calls])
					held[i] = o.Status == api.Held
				})
			}
			gate.Done()
			done.Wait()
			must(t, errors.Join(errs...))
			// Equal calls wait for one another; what was held is presented again.
			for range workers {
				for i := range held {
					if held[i] {
						o, err := w.present(gateways[i%2], "agent-a", calls[i%tt.calls])
						must(t, err)
						held[i] = o.Status == api.Held
					}
				}
			}
			if slices.Contains(held, true) {
				t.Errorf("round %d, %+v: held for ever: %v", round, tt, held)
			}
			effects += tt.want
			if n := len(w.prov.Ledger()); n != effects {
				t.Fatalf("round %d, %+v: %d effects, want %d", round, tt, n, effects)
			}
		}
	}
}

// TestRunWideRace: eight calls have passed every check before any of them spends the
// last use.
func TestRunWideRace(t *testing.T) {
	for mode, lost := range map[string]string{"M9": "refused [once/spent]", "M9-idem": "refused [once/spent]", "M9-once": "executed []", "M9-once-idem": "executed []"} {
		w := newWorld(t, mode)
		d := w.runWide("wire", 2)
		calls := make([]api.Dispatch, workers)
		for i := range calls {
			calls[i] = w.granted(w.action("wire", 1))
		}
		w.expect(mode+", the first use", d, api.Executed, "", 1)
		var answers [workers]string
		w.lab.Race(ctx, []int{3, 0, 1, 2, 4, 5, 6, 7}, func(ctx context.Context, i int) {
			calls[i].RequestID = fmt.Sprint("race-", i)
			proof, err := w.proof(calls[i], int64(100+i))
			if err != nil {
				t.Error(err)
			}
			o, err := w.target.Dispatch(ctx, api.Auth{Token: token("agent-a"), Proof: proof}, calls[i])
			if err != nil {
				t.Error(err)
			}
			answers[i] = string(o.Status) + " [" + codes(o.Refusals) + "]"
		})
		for i, got := range answers {
			want := lost
			if i == 3 {
				want = "executed []"
			}
			if got != want {
				t.Errorf("%s: worker %d: %s, want %s", mode, i, got, want)
			}
		}
	}
}

// runWideMachine is the reference design beside a model of run-wide approvals.
type runWideMachine struct {
	w         *world
	now       time.Time
	policy    int
	bound     int
	approvals []*modelRun
	calls     []*modelRunCall
	effects   int
}

type modelRun struct {
	run, suspension string
	amount          int
	uses, used      int
	until           time.Time
	policy          int
	revoked         bool
}

type modelRunCall struct {
	of       *modelRun
	dispatch api.Dispatch
	spent    bool
	replaced bool // its place was suspended again
}

// inForce says whether an approval is, apart from its uses.
func (m *runWideMachine) inForce(r *modelRun) bool {
	return !r.revoked && r.policy == m.policy && m.now.Before(r.until) && r.uses <= m.bound
}

// covering is the approval that a proposal is granted under: the newest that is in
// force and has a use left.
func (m *runWideMachine) covering(run string, amount int) *modelRun {
	for _, r := range slices.Backward(m.approvals) {
		if r.run == run && r.amount == amount && r.used < r.uses && m.inForce(r) {
			return r
		}
	}
	return nil
}

func (m *runWideMachine) propose(t *rapid.T) {
	run, amount := rapid.SampledFrom([]string{"run-1", "run-2"}).Draw(t, "run"), rapid.IntRange(1, 2).Draw(t, "amount")
	a := m.w.action("wire", amount)
	a.Run = run
	p, err := m.w.target.Propose(ctx, auth("agent-a"), a)
	if err != nil {
		t.Fatal(err)
	}
	of := m.covering(run, amount)
	if granted := p.State == api.StateGranted; granted != (of != nil) {
		t.Fatalf("proposed in %s: %s, covered: %v", run, p.State, of != nil)
	}
	if of == nil {
		if m.bound == 0 || !rapid.Bool().Draw(t, "opts in") {
			return
		}
		uses, minutes := rapid.IntRange(2, m.bound).Draw(t, "uses"), rapid.IntRange(1, 10).Draw(t, "minutes")
		of = &modelRun{run: run, suspension: p.Suspension, amount: amount, uses: uses, until: m.now.Add(time.Duration(minutes) * time.Minute), policy: m.policy}
		if err := m.w.target.Decide(ctx, auth("approver-p"), m.w.optIn(p.Suspension, "approver-p", api.RunWide{Uses: int64(uses), Until: of.until})); err != nil {
			t.Fatal(err)
		}
		m.approvals = append(m.approvals, of)
	}
	m.calls = append(m.calls, &modelRunCall{of: of, dispatch: m.w.collect(a, p.Suspension)})
}

func (m *runWideMachine) present(t *rapid.T, target api.Target) {
	if len(m.calls) == 0 {
		t.Skip("nothing was asked yet")
	}
	c := rapid.SampledFrom(m.calls).Draw(t, "call")
	o, err := m.w.present(target, "agent-a", c.dispatch)
	if err != nil {
		t.Fatal(err)
	}
	left := c.of.used < c.of.uses
	if want := !c.spent && !c.replaced && left && m.inForce(c.of); want != (o.Status == api.Executed) {
		t.Fatalf("%s of %s: %s [%s], want it executed: %v", c.dispatch.Action.Call, c.dispatch.Action.Run, o.Status, codes(o.Refusals), want)
	}
	switch o.Status {
	case api.Executed:
		c.spent = true
		c.of.used++
		m.effects++
	case api.Absorbed:
		if !c.spent {
			t.Fatalf("%s: absorbed, although nothing was executed for it", c.dispatch.Action.Call)
		}
	case api.Reasked:
		c.replaced = true
	}
}

// TestRunWideMachine: random histories make at most as many effects as there are uses,
// each for a call of its own, and none when the approval is not in force.
func TestRunWideMachine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, "M9")
		second, err := w.lab.Second(ctx)
		if err != nil {
			t.Fatal(err)
		}
		m := &runWideMachine{w: w, now: start}
		w.allowRunWide("wire", "4 15m")
		m.bound = 4
		rarely := func(t *rapid.T) bool { return rapid.IntRange(0, 3).Draw(t, "rarely") == 0 }
		t.Repeat(map[string]func(*rapid.T){
			"propose":              m.propose,
			"propose again":        m.propose,
			"dispatch":             func(t *rapid.T) { m.present(t, w.target) },
			"dispatch at a second": func(t *rapid.T) { m.present(t, second) },
			"restart": func(t *rapid.T) {
				if err := w.lab.Restart(ctx); err != nil {
					t.Fatal(err)
				}
			},
			"wait": func(t *rapid.T) {
				d := time.Duration(rapid.IntRange(1, 4).Draw(t, "minutes")) * time.Minute
				w.clock.add(d)
				m.now = m.now.Add(d)
			},
			"revoke": func(t *rapid.T) {
				if len(m.approvals) == 0 || !rarely(t) {
					return
				}
				r := rapid.SampledFrom(m.approvals).Draw(t, "approval")
				must(t, w.target.Admin(ctx, auth("admin"), api.Event{Kind: api.EventRevoke, Subject: r.suspension}))
				r.revoked = true
			},
			"change policy": func(t *rapid.T) {
				if rarely(t) {
					m.policy++
					must(t, w.target.Admin(ctx, auth("admin"), api.Event{Kind: api.EventPolicyChange, Value: fmt.Sprint("policy-", m.policy+1)}))
				}
			},
			"change bounds": func(t *rapid.T) {
				if rarely(t) {
					m.bound = rapid.SampledFrom([]int{0, 2, 3, 4}).Draw(t, "uses")
					bounds := ""
					if m.bound > 0 {
						bounds = fmt.Sprint(m.bound, " 15m")
					}
					w.allowRunWide("wire", bounds)
				}
			},
			"": func(t *rapid.T) {
				if n := len(w.prov.Ledger()); n != m.effects {
					t.Fatalf("%d effects, the model has %d", n, m.effects)
				}
				for _, r := range m.approvals {
					if r.used > r.uses {
						t.Fatalf("%d effects under an approval of %d", r.used, r.uses)
					}
				}
			},
		})
	})
}
