package gateway_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"countersign/gateway"
	"countersign/gateway/api"
	"countersign/gateway/lab"
	"countersign/gateway/store"
	"countersign/scenarios/provider"
)

// TestRequestStillUnderWay: the network keeps a request and tells the gate nothing.
// Whenever the request arrives after all, and whatever the gate did meanwhile, one
// approval makes one effect.
func TestRequestStillUnderWay(t *testing.T) {
	for tool, want := range map[string][2]string{ // at once, and after the lease
		"pay":  {"executed []", "absorbed [once/spent seen/seen]"},
		"wire": {"held [idem/in_progress]", "executed []"},
		"fax":  {"held [idem/unreconciled]", "held [idem/unreconciled]"},
	} {
		for _, arrives := range []string{"at once", "after the lease", "when it was sent again"} {
			w := newWorld(t, "M9")
			d := w.approved(w.action(tool, 1))
			var kept api.ProviderRequest
			w.prov.onExecute = func(r api.ProviderRequest) error { kept = r; return api.ErrNoAnswer }
			arrive := func(when string) {
				if when == arrives {
					_, _ = w.prov.Execute(ctx, kept)
				}
			}
			if got := w.answer(w.target, d); got != want[0] {
				t.Errorf("%s: %s, want %s", tool, got, want[0])
			}
			arrive("at once")
			w.clock.add(gateway.SendLease)
			arrive("after the lease")
			got := w.answer(w.target, d)
			if arrives == "when it was sent again" && got != want[1] {
				t.Errorf("%s: after the lease %s, want %s", tool, got, want[1])
			}
			arrive("when it was sent again")
			if n := len(w.prov.Ledger()); n != 1 {
				t.Errorf("%s, the request arrives %s: %d effects, the last answer %s", tool, arrives, n, got)
			}
		}
	}
}

// TestProvidersClockIsBehind: the two clocks may differ by almost ClockSkew, and the
// provider still refuses before anybody sends again.
func TestProvidersClockIsBehind(t *testing.T) {
	w := newWorld(t, "M9")
	w.prov.behind.Store(int64(gateway.ClockSkew))
	d := w.approved(w.action("wire", 1))
	var kept api.ProviderRequest
	w.prov.onExecute = func(r api.ProviderRequest) error { kept = r; return api.ErrNoAnswer }
	w.expect("kept by the network", d, api.Held, "idem/in_progress", 0)
	w.clock.add(gateway.SendLease)
	w.expect("sent again", d, api.Executed, "", 1)
	if _, err := w.prov.Execute(ctx, kept); err == nil || !strings.Contains(err.Error(), "late") || len(w.prov.Ledger()) != 1 {
		t.Errorf("the first request arrives: %v, %d effects", err, len(w.prov.Ledger()))
	}
}

// TestDeadline: the provider is asked to refuse before the lease ends, and when the
// approval does; each send has its own; a design that does not reconcile asks for none.
func TestDeadline(t *testing.T) {
	at := func(w *world, d api.Dispatch) (deadline time.Time) {
		w.prov.onExecute = func(r api.ProviderRequest) error { deadline = r.Deadline; return api.ErrNoAnswer }
		w.answer(w.target, d)
		return deadline
	}
	const life = gateway.SendLease - gateway.ClockSkew
	w := newWorld(t, "M9")
	d := w.approved(w.action("wire", 1))
	if got := at(w, d); !got.Equal(start.Add(life)) {
		t.Errorf("the first send ends at %s", got)
	}
	w.clock.add(gateway.SendLease)
	if got := at(w, d); !got.Equal(start.Add(gateway.SendLease + life)) {
		t.Errorf("the second send ends at %s", got)
	}
	for _, mode := range []string{"M9", "M9-expiry"} {
		w = newWorld(t, mode)
		d = w.approved(w.action("wire", 1))
		w.clock.add(ttl - time.Minute)
		want := start.Add(ttl)
		if mode != "M9" { // no end of the authority that this design would know
			want = start.Add(ttl - time.Minute + life)
		}
		if got := at(w, d); !got.Equal(want) {
			t.Errorf("%s: a send before the end of the approval ends at %s, want %s", mode, got, want)
		}
	}
	w = newWorld(t, "M9-idem")
	if got := at(w, w.approved(w.action("wire", 1))); !got.IsZero() {
		t.Errorf("without idem the send ends at %s", got)
	}
}

// TestSentWithoutTheTime: a request that was sent when nobody knew the time has no
// end, so nobody sends it again and nothing is concluded from its absence.
func TestSentWithoutTheTime(t *testing.T) {
	w := newWorld(t, "M9-closed-expiry-sender")
	d := w.approved(w.action("wire", 1))
	w.clock.stop(true)
	w.prov.onExecute = func(r api.ProviderRequest) error {
		if !r.Deadline.IsZero() {
			t.Errorf("the deadline is %s", r.Deadline)
		}
		return api.ErrNoAnswer
	}
	w.expect("without a clock", d, api.Held, "idem/in_progress", 0)
	w.clock.stop(false)
	w.clock.add(24 * time.Hour)
	w.expect("a day later", d, api.Held, "idem/in_progress", 0)
	if p, err := w.target.Propose(ctx, auth("agent-a"), w.action("wire", 1)); err != nil || p.State != api.StateHeld {
		t.Errorf("an equal proposal: %+v, %v", p, err)
	}
}

// TestOwnerPauses past its lease, and another instance sends meanwhile: before the
// owner takes the send its step fails, and after it the provider refuses.
func TestOwnerPauses(t *testing.T) {
	for _, tool := range []string{"pay", "wire", "fax"} {
		w := newWorld(t, "M9")
		second, err := w.lab.Second(ctx)
		must(t, err)
		d := w.approved(w.action(tool, 1))
		var other string
		w.lab.At(api.StepConsumed, func(context.Context) error {
			w.clock.add(gateway.SendLease)
			other = w.answer(second, d)
			return nil
		})
		w.expect(tool+" before the send", d, api.Absorbed, "", 1)
		if other != "executed []" {
			t.Errorf("%s: the other instance: %s", tool, other)
		}
	}
	for tool, want := range map[string][2]string{
		"pay":  {"executed []", "absorbed []"},
		"wire": {"executed []", "absorbed []"},
		"fax":  {"held [idem/unreconciled]", "executed []"}, // here nobody else may send
	} {
		w := newWorld(t, "M9")
		second, err := w.lab.Second(ctx)
		must(t, err)
		d := w.approved(w.action(tool, 1))
		var other string
		w.prov.onExecute = func(api.ProviderRequest) error {
			w.clock.add(gateway.SendLease)
			other = w.answer(second, d)
			return nil
		}
		owner := w.answer(w.target, d)
		if n := len(w.prov.Ledger()); n != 1 || other != want[0] || owner != want[1] {
			t.Errorf("%s on the wire: the other %s, the owner %s, %d effects; want %v", tool, other, owner, n, want)
		}
	}
}

// TestOwnerPausesAlone: a request that arrives late and was not sent by anybody else
// is not lost: it is held, and proceeds once.
func TestOwnerPausesAlone(t *testing.T) {
	w := newWorld(t, "M9")
	d := w.approved(w.action("wire", 1))
	w.prov.onExecute = func(api.ProviderRequest) error { w.clock.add(gateway.SendLease - gateway.ClockSkew); return nil }
	w.expect("late", d, api.Held, "idem/in_progress", 0)
	w.clock.add(gateway.ClockSkew)
	w.expect("after the lease", d, api.Executed, "", 1)
	w.expect("again", d, api.Absorbed, "seen/seen once/spent", 1)
}

// TestSettledIsNotSent: what was recorded as not executed stays so, when its owner
// wakes up after an equal action was approved and made.
func TestSettledIsNotSent(t *testing.T) {
	for _, tool := range []string{"pay", "wire", "fax"} {
		w := newWorld(t, "M9")
		d := w.approved(w.action(tool, 1))
		var second string
		w.lab.At(api.StepConsumed, func(context.Context) error {
			w.clock.add(gateway.SendLease)
			second = w.answer(w.target, w.approved(w.action(tool, 1)))
			return nil
		})
		w.expect(tool, d, api.Refused, "once/spent", 1)
		if second != "executed []" {
			t.Errorf("%s: the second approval: %s", tool, second)
		}
	}
}

// TestSettlingWaitsForTheDeadline: before it, a look-up that finds nothing settles
// nothing.
func TestSettlingWaitsForTheDeadline(t *testing.T) {
	for wait, want := range map[time.Duration]api.PendingState{gateway.SendLease - 1: api.StateHeld, gateway.SendLease: api.StatePending} {
		w := newWorld(t, "M9")
		w.prov.onExecute = func(api.ProviderRequest) error { return api.ErrNoAnswer }
		w.expect("lost", w.approved(w.action("wire", 1)), api.Held, "idem/in_progress", 0)
		w.clock.add(wait)
		if p, err := w.target.Propose(ctx, auth("agent-a"), w.action("wire", 1)); err != nil || p.State != want {
			t.Errorf("after %s an equal proposal is %+v, %v; want %s", wait, p, err, want)
		}
	}
}

// answering executes and answers with another status, as a server or a gateway on the
// way does that fails after the effect.
type answering struct {
	*hooked
	status int
}

func (a *answering) Execute(ctx context.Context, r api.ProviderRequest) (api.ProviderResult, error) {
	res, err := a.hooked.Execute(ctx, r)
	res.Status = a.status
	return res, err
}

// TestStatusAfterTheEffect: an answer that is also given after the effect was made is
// not taken for a refusal.
func TestStatusAfterTheEffect(t *testing.T) {
	for tool, want := range map[string]string{"pay": "absorbed []", "wire": "absorbed []", "fax": "held [idem/unreconciled]"} {
		for _, status := range []int{408, 425, 429, 499, 500, 502, 503, 504} {
			w := newWorldWith(t, "M9", store.NewMemory(), func(d *api.Deployment) { d.Provider = &answering{d.Provider.(*hooked), status} })
			d := w.approved(w.action(tool, 1))
			if got := w.answer(w.target, d); got != want || len(w.prov.Ledger()) != 1 {
				t.Errorf("%s, status %d: %s, %d effects; want %s", tool, status, got, len(w.prov.Ledger()), want)
			}
		}
	}
}

// TestEqualActionsOfTwoApprovals: both were approved before the first was sent; while
// nobody knows what became of that one, the second is held, and it is not spent for it.
func TestEqualActionsOfTwoApprovals(t *testing.T) {
	for tool, want := range map[string]string{"pay": "executed []", "wire": "executed []", "fax": "held [idem/unreconciled]"} {
		w := newWorld(t, "M9")
		first, second := w.approved(w.action(tool, 1)), w.approved(w.action(tool, 1))
		w.lab.At(api.StepSent, func(context.Context) error { return lab.ErrCrash })
		w.answer(w.target, first)
		if got := w.answer(w.target, second); got != want { // a look-up settles the first
			t.Errorf("%s: %s, want %s", tool, got, want)
		}
	}
	w := newWorld(t, "M9")
	first, second := w.approved(w.action("wire", 1)), w.approved(w.action("wire", 1))
	w.prov.onExecute = func(api.ProviderRequest) error { return api.ErrNoAnswer }
	w.expect("the first", first, api.Held, "idem/in_progress", 0)
	o := w.dispatch(second)
	if o.Status != api.Held || codes(o.Refusals) != "idem/unreconciled" || !strings.Contains(o.Refusals[0].Detail, "s-000001") {
		t.Errorf("the second: %+v, want it held for the first, which it names", o)
	}
	w.expect("another amount", w.approved(w.action("wire", 2)), api.Executed, "", 1)
	if p, err := w.target.Propose(ctx, auth("agent-a"), w.action("wire", 1)); err != nil || p.State != api.StateHeld || p.First == "" {
		t.Errorf("a third: %+v, %v; want it held for one that it names", p, err)
	}
	w.clock.add(gateway.SendLease)
	w.expect("the first, sent again", first, api.Executed, "", 2)
	w.expect("the second", second, api.Executed, "", 3)
	w.expect("the second again", second, api.Absorbed, "seen/seen once/spent", 3)
}

// TestEqualActionsAtTheSameMoment: both are spent before either is sent, and exactly
// the one that was spent first goes; the other goes after it.
func TestEqualActionsAtTheSameMoment(t *testing.T) {
	w := newWorld(t, "M9")
	first, second := w.approved(w.action("wire", 1)), w.approved(w.action("wire", 1))
	var other string
	w.lab.At(api.StepConsumed, func(context.Context) error { other = w.answer(w.target, second); return nil })
	w.expect("the first", first, api.Executed, "", 1)
	if other != "held [idem/unreconciled]" {
		t.Errorf("the second meanwhile: %s", other)
	}
	w.expect("the second", second, api.Executed, "", 2)
}

// TestTenantsHoldNothingBack: an open send of one tenant says nothing to another.
func TestTenantsHoldNothingBack(t *testing.T) {
	w := newWorld(t, "M9")
	w.prov.onExecute = func(api.ProviderRequest) error { return api.ErrNoAnswer }
	w.expect("lost", w.approved(w.action("fax", 1)), api.Held, "idem/unreconciled", 0)
	a := w.action("fax", 1)
	if p, err := w.target.Propose(ctx, auth("agent-x"), a); err != nil || p.State != api.StatePending {
		t.Errorf("another tenant's proposal: %+v, %v", p, err)
	}
	if p, err := w.target.Propose(ctx, auth("agent-b"), a); err != nil || p.State != api.StateHeld {
		t.Errorf("another agent's of the tenant: %+v, %v", p, err)
	}
}

// overtaken is a store in which something happens to a use just before the next
// update of it.
type overtaken struct {
	store.Store
	do func(store.Row) error
}

func (o *overtaken) Update(ctx context.Context, r store.Row) (store.Row, error) {
	if do := o.do; do != nil && r.Kind == "use" {
		o.do = nil
		if err := do(r); err != nil {
			return store.Row{}, err
		}
	}
	return o.Store.Update(ctx, r)
}

// TestTakenOver: whoever cannot note that it is about to send does not send, and
// answers with what became of the call meanwhile, if that can be read.
func TestTakenOver(t *testing.T) {
	for _, tt := range []struct {
		what, state string
		damaged     bool
		want        string
	}{
		{"another instance was done", "done", false, "absorbed []"},
		{"another instance gave up", "failed", false, "refused [once/spent seen/seen]"},
		{"another instance sends", "sending", false, "held [idem/in_progress]"},
		{"done, and damaged", "done", true, "held [idem/in_progress]"},
		{"given up, and damaged", "failed", true, "held [idem/in_progress]"},
		{"the store fails", "", false, "held [idem/unavailable]"},
	} {
		s := &overtaken{Store: store.NewMemory()}
		w := newWorldOn(t, "M9", s)
		d := w.approved(w.action("wire", 1))
		s.do = func(r store.Row) error {
			if tt.state == "" {
				return errBroken
			}
			var body map[string]any
			must(t, json.Unmarshal(r.Body, &body))
			body["state"] = tt.state
			var err error
			r.Body, err = json.Marshal(body)
			must(t, err)
			if tt.damaged {
				r.Body = damaged(r.Body)
			}
			_, err = s.Store.Update(ctx, r)
			must(t, err)
			return nil
		}
		if got := w.answer(w.target, d); got != tt.want || len(w.prov.Ledger()) != 0 {
			t.Errorf("%s: %s and %d effects, want %s and none", tt.what, got, len(w.prov.Ledger()), tt.want)
		}
	}
}

// TestWhatWaits: a use says that nobody is sending it only while nothing was sent,
// and says it once.
func TestWhatWaits(t *testing.T) {
	s := &updated{Store: store.NewMemory()}
	w := newWorldOn(t, "M9", s)
	d := w.approved(w.action("wire", 1))
	must(t, w.prov.Inject(provider.Fault{Kind: provider.FaultDropRequest}))
	w.answer(w.target, d)
	w.clock.add(gateway.SendLease)
	w.prov.onLookup = func() { w.lab.Fault(api.DepPolicy, api.FaultDown) }
	if got := w.answer(w.target, d); got != "held [online/unavailable]" {
		t.Error(got)
	}
	for _, r := range s.rows {
		if strings.Contains(string(r.Body), `"state":"sending"`) && strings.Contains(string(r.Body), `"waits"`) {
			t.Errorf("what was sent waits: %s", r.Body)
		}
	}

	b := &breaking{Store: store.NewMemory()}
	s = &updated{Store: b}
	w = newWorldOn(t, "M9", s)
	d = w.approved(w.action("wire", 1))
	s.rows = nil
	w.lab.At(api.StepConsumed, func(context.Context) error { b.fails = "get revocation"; return nil })
	for range 2 {
		if got := w.answer(w.target, d); got != "held [online/unavailable]" {
			t.Error(got)
		}
	}
	if len(s.rows) != 1 || !strings.Contains(string(s.rows[0].Body), `"waits":true`) {
		t.Errorf("what waits was updated %d times: %+v", len(s.rows), s.rows)
	}
}

// TestNotSentAgainWithoutAuthority: a lost request may be repeated where the
// provider makes one effect of both, and only while authority holds.
func TestNotSentAgainWithoutAuthority(t *testing.T) {
	w := newWorld(t, "M9")
	d := w.approved(w.action("pay", 1))
	must(t, w.prov.Inject(provider.Fault{Kind: provider.FaultDropRequest}))
	w.prov.onLookup = func() {
		must(t, w.target.Admin(ctx, auth("admin"), api.Event{Kind: api.EventDisableAgent, Subject: "agent-a"}))
	}
	w.expect("disabled meanwhile", d, api.Held, "online/agent_disabled", 0)
}

// TestFailureOnRecord: what the provider has on record as failed made no effect: the
// caller is told so, and an equal call may be asked for.
func TestFailureOnRecord(t *testing.T) {
	for _, crash := range []bool{false, true} {
		w := newWorld(t, "M9")
		d := w.approved(w.action("pay", 1))
		must(t, w.prov.Inject(provider.Fault{Kind: provider.FaultError}))
		if crash {
			w.lab.At(api.StepSent, func(context.Context) error { return lab.ErrCrash })
		}
		if _, err := w.present(w.target, "agent-a", d); err == nil || !crash && !strings.Contains(err.Error(), "made no effect") {
			t.Errorf("crash %v: %v", crash, err)
		}
		w.pending(w.action("pay", 1))
	}
}

// TestUnknownIsNotRecorded: a design that does not reconcile still notes nothing that
// it does not know.
func TestUnknownIsNotRecorded(t *testing.T) {
	s := &updated{Store: store.NewMemory()}
	w := newWorldOn(t, "M9-idem", s)
	d := w.approved(w.action("wire", 1))
	s.rows = nil
	must(t, w.prov.Inject(provider.Fault{Kind: provider.FaultDropResponse}, provider.Fault{Kind: provider.FaultDropResponse}))
	if got := w.answer(w.target, d); got != "!" || len(s.rows) != 0 {
		t.Errorf("%s, and the store is told %+v", got, s.rows)
	}
}

// TestWithheld: what was spent and is not sent is held where it can still proceed,
// and refused otherwise; whoever cannot note that it ended leaves it open.
func TestWithheld(t *testing.T) {
	ended := func(w *world) { w.clock.add(ttl) }
	unknown := func(w *world) { w.clock.stop(true) }
	for _, tt := range []struct {
		mode  string
		what  func(w *world)
		fails bool // the store, to note it
		want  string
	}{
		{"M9", unknown, false, "held [expiry/clock]"},
		{"M9-idem", unknown, false, "refused [expiry/clock]"}, // spent, and nothing finds out what became of it
		{"M9-once", unknown, false, "held [expiry/clock]"},
		{"M9-once-idem", unknown, false, "held [expiry/clock]"}, // nothing is spent
		{"M9", ended, false, "refused [expiry/expired]"},
		{"M9", ended, true, "held [expiry/expired]"},
		{"M9-once-idem", ended, false, "refused [expiry/expired]"},
	} {
		s := &overtaken{Store: store.NewMemory()}
		w := newWorldOn(t, tt.mode, s)
		d := w.approved(w.action("wire", 1))
		w.lab.At(api.StepConsumed, func(context.Context) error {
			tt.what(w)
			if tt.fails {
				s.do = func(store.Row) error { return errBroken }
			}
			return nil
		})
		if got := w.answer(w.target, d); got != tt.want || len(w.prov.Ledger()) != 0 {
			t.Errorf("%s: %s and %d effects, want %s and none", tt.mode, got, len(w.prov.Ledger()), tt.want)
		}
	}
}

// TestDoneStaysDone: a later presentation that is withheld says nothing of an earlier
// one that was executed.
func TestDoneStaysDone(t *testing.T) {
	s := store.NewMemory()
	w := newWorldOn(t, "M9-once-seen", s)
	d := w.approved(w.action("wire", 1))
	w.expect("first", d, api.Executed, "", 1)
	w.lab.At(api.StepConsumed, func(context.Context) error { w.clock.add(ttl); return nil })
	w.expect("withheld", d, api.Refused, "expiry/expired", 1)
	if rows, err := s.Find(ctx, "use", "done"); err != nil || len(rows) != 1 {
		t.Errorf("%d uses are done, %v", len(rows), err)
	}
}
