package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"countersign/gateway"
	"countersign/gateway/api"
	"countersign/gateway/lab"
	"countersign/gateway/store"
	"countersign/oracles/softkey"
	"countersign/scenarios/provider"
)

// scripted is a provider and a directory that answer what they are told to.
type scripted struct {
	api.Provider
	api.Directory
	execute, preview, lookup, resolve error
	members                           map[string]json.RawMessage // of every reference, in place of its own
	values                            api.Values                 // what previews say, in place of the provider's own
	onExecute                         func()
	calls                             int
}

func (s *scripted) Execute(ctx context.Context, r api.ProviderRequest) (api.ProviderResult, error) {
	s.calls++
	if s.onExecute != nil {
		s.onExecute()
	}
	if s.execute != nil {
		return api.ProviderResult{}, s.execute
	}
	return s.Provider.Execute(ctx, r)
}

func (s *scripted) Preview(ctx context.Context, r api.ProviderRequest) (api.Values, error) {
	if s.preview != nil {
		return nil, s.preview
	}
	if s.values != nil {
		return s.values, nil
	}
	return s.Provider.Preview(ctx, r)
}

func (s *scripted) Lookup(ctx context.Context, q api.LookupQuery) (api.ProviderResult, bool, error) {
	if s.lookup != nil {
		return api.ProviderResult{}, false, s.lookup
	}
	return s.Provider.Lookup(ctx, q)
}

func (s *scripted) Resolve(ctx context.Context, kind, id string) (api.Resolution, error) {
	if s.resolve != nil {
		return api.Resolution{}, s.resolve
	}
	r, err := s.Directory.Resolve(ctx, kind, id)
	if s.members != nil {
		r.Members = s.members
	}
	return r, err
}

func newScripted(t tb, mode string) (*world, *scripted) {
	t.Helper()
	s := &scripted{}
	w := newWorldWith(t, mode, store.NewMemory(), func(d *api.Deployment) {
		s.Provider, s.Directory = d.Provider, d.Directory
		d.Provider, d.Directory = s, s
	})
	return w, s
}

// TestSiblingsAreChecked: what cannot be a call of the step ends it before anything
// is done, and only a call that went through lets others run with it.
func TestSiblingsAreChecked(t *testing.T) {
	w := newWorld(t, "M9")
	reads := make([]api.Action, 33)
	for i := range reads {
		reads[i] = w.action("read", 1)
	}
	if _, err := w.present(w.target, "agent-a", api.Dispatch{Action: w.action("read", 1), Siblings: reads}); !errors.Is(err, api.ErrInvalid) {
		t.Errorf("33 siblings: %v", err)
	}
	if o := w.dispatch(api.Dispatch{Action: w.action("read", 1), Siblings: reads[1:]}); len(o.Siblings) != 32 {
		t.Errorf("32 siblings: %+v", o)
	}
	if o, err := w.present(w.target, "agent-a", api.Dispatch{Action: w.action("launch", 1)}); !errors.Is(err, api.ErrInvalid) {
		t.Errorf("what is no tool: %+v, %v", o, err)
	}
	d := w.approved(w.action("pay", 1))
	d.Siblings = []api.Action{w.action("launch", 1)}
	if _, err := w.present(w.target, "agent-a", d); !errors.Is(err, api.ErrInvalid) || len(w.prov.Ledger()) != 0 {
		t.Errorf("a sibling that is no tool: %v, %d effects", err, len(w.prov.Ledger()))
	}

	w = newWorld(t, "M9-percall")
	d = w.approved(w.action("pay", 1))
	d.Action.Arguments = []byte(`{"supplier":"s-1","amount":2,"memo":"invoice"}`)
	d.Siblings = []api.Action{w.action("pay", 3)}
	if o := w.dispatch(d); o.Status != api.Refused || o.Siblings[0].Status != api.Refused || len(w.prov.Ledger()) != 0 {
		t.Errorf("a sibling of a refused call: %+v", o)
	}
	d = w.approved(w.action("pay", 1))
	d.Siblings = []api.Action{w.action("pay", 3)}
	must(t, w.prov.Inject(provider.Fault{Kind: provider.FaultPass}, provider.Fault{Kind: provider.FaultError}))
	if o, err := w.present(w.target, "agent-a", d); !errors.Is(err, api.ErrUnavailable) {
		t.Errorf("a sibling at which the provider fails: %+v, %v", o, err)
	}
	d = w.approved(w.action("pay", 1))
	d.Siblings = []api.Action{w.action("pay", 3)}
	w.prov.onExecute = func(api.ProviderRequest) error {
		return w.target.Admin(ctx, auth("admin"), api.Event{Kind: api.EventDisableAgent, Subject: "agent-a"})
	}
	if o := w.dispatch(d); o.Status != api.Executed || codes(o.Siblings[0].Refusals) != "online/agent_disabled" {
		t.Errorf("a sibling of an agent that was disabled meanwhile: %+v", o)
	}
}

// TestAuditKey: the log names the provider's key where one was used, and there alone;
// it names a permit wherever one was presented.
func TestAuditKey(t *testing.T) {
	for _, tt := range []struct {
		mode, what string
		do         func(w *world)
		status     api.Status
		named      bool
	}{
		{"M9", "executed", func(w *world) { w.dispatch(w.approved(w.action("pay", 1))) }, api.Executed, true},
		{"M9", "absorbed", func(w *world) { d := w.approved(w.action("pay", 1)); w.dispatch(d); w.dispatch(d) }, api.Absorbed, true},
		{"M9", "open", func(w *world) {
			must(w.t, w.prov.Inject(provider.Fault{Kind: provider.FaultDropResponse}))
			w.dispatch(w.approved(w.action("fax", 1)))
		}, api.Held, true},
		{"M9", "refused", func(w *world) { w.dispatch(api.Dispatch{Action: w.action("pay", 1)}) }, api.Refused, false},
		{"M9-idem", "executed without keys", func(w *world) { w.dispatch(w.approved(w.action("pay", 1))) }, api.Executed, false},
	} {
		w := newWorld(t, tt.mode)
		tt.do(w)
		es := w.entries()
		if last := es[len(es)-1]; last.Status != tt.status || (last.Key != "") != tt.named || (last.Permit != "") != (tt.what != "refused") {
			t.Errorf("%s: %s, key %q, permit %q", tt.what, last.Status, last.Key, last.Permit)
		}
	}
}

// TestLogFails: only a design that is closed says that the log failed, and about an
// effect alone; only it refuses a decision for that.
func TestLogFails(t *testing.T) {
	w := newWorld(t, "M9-closed")
	d := w.approved(w.action("pay", 1))
	w.lab.At(api.StepSent, func(context.Context) error { w.lab.Fault(api.DepAudit, api.FaultDown); return nil })
	w.expect("lost after the effect, not closed", d, api.Executed, "", 1)
	if err := w.decide(w.pending(w.action("pay", 2)), "approver-p", api.Approve); err != nil {
		t.Errorf("a decision, not closed: %v", err)
	}

	w = newWorld(t, "M9")
	d = w.approved(w.action("pay", 1))
	w.lab.At(api.StepChecked, func(context.Context) error {
		w.lab.Fault(api.DepAudit, api.FaultDown)
		w.lab.Fault(api.DepPolicy, api.FaultDown)
		return nil
	})
	w.expect("lost before the effect", d, api.Held, "closed/unavailable", 0)
}

// TestSpentAgain: without idem there is no result to give back.
func TestSpentAgain(t *testing.T) {
	w := newWorld(t, "M9-idem")
	d := w.approved(w.action("pay", 1))
	w.expect("first", d, api.Executed, "", 1)
	w.expect("again", d, api.Refused, "seen/seen once/spent", 1)
}

// TestReaskShowsWhatIsNow: what a person is asked about anew is the reference as it
// is by then; where it is gone there is nothing to ask.
func TestReaskShowsWhatIsNow(t *testing.T) {
	w := newWorld(t, "M9")
	a := w.action("pay", 1)
	d := w.approved(a)
	w.lab.At(api.StepConsumed, func(context.Context) error {
		return w.prov.SetRecord("supplier", "s-1", records()["supplier"]["s-2"])
	})
	o := w.dispatch(d)
	must(t, w.decide(o.Suspension, "approver-p", api.Approve))
	w.expect("approved anew", w.collect(a, o.Suspension), api.Executed, "", 1)

	w, s := newScripted(t, "M9")
	d = w.approved(w.action("pay", 1))
	s.resolve = api.ErrNotFound
	if o := w.dispatch(d); o.Status != api.Refused || o.Suspension != "" || codes(o.Refusals) != "refs/drift" {
		t.Errorf("reference gone: %+v", o)
	}
}

// TestIdemWithoutOnce: an open send is reconciled, a settled one is no obstacle.
func TestIdemWithoutOnce(t *testing.T) {
	w := newWorld(t, "M9-once")
	d := w.approved(w.action("wire", 1))
	w.lab.At(api.StepSent, func(context.Context) error { return lab.ErrCrash })
	w.answer(w.target, d)
	must(t, w.lab.Restart(ctx))
	w.expect("open", d, api.Absorbed, "", 1)
	must(t, w.lab.Restart(ctx))
	w.expect("settled", d, api.Executed, "", 2)

	for mode, want := range map[string]string{"M9-once-closed": "idem/unavailable", "M9-closed": "once/unavailable"} {
		w := newWorld(t, mode)
		d := w.approved(w.action("wire", 1))
		w.lab.At(api.StepChecked, func(context.Context) error { w.lab.Fault(api.DepStore, api.FaultDown); return nil })
		w.expect(mode+", store lost before the spend", d, api.Held, want, 0)
	}
}

// TestReferencesWithDefaults: a reference that is left out is its default, one that
// is given is itself, and an optional one without either is none.
func TestReferencesWithDefaults(t *testing.T) {
	tool := tools()[0]
	tool.Name, tool.Summary = "order", nil
	tool.Fields = []api.Field{
		{Name: "from", Label: "From", Type: api.TypeString, Reference: "supplier", Default: `"s-2"`, Material: true},
		{Name: "via", Label: "Via", Type: api.TypeString, Reference: "supplier", Material: true},
	}
	for _, tt := range []struct {
		arguments, changed string
		want               api.Status
	}{
		{`{}`, "s-2", api.Reasked}, {`{}`, "s-1", api.Executed},
		{`{"from":"s-1"}`, "s-1", api.Reasked}, {`{"from":"s-1"}`, "s-2", api.Executed},
		{`{"via":"s-1"}`, "s-1", api.Reasked},
	} {
		for _, mode := range []string{"M9", "M9-strict"} {
			var p *provider.World
			w := newWorldWith(t, mode, store.NewMemory(), func(d *api.Deployment) {
				d.Tools = append(tools(), tool)
				var err error
				p, err = provider.New(provider.Config{Tools: d.Tools, Records: records(), Reader: "struct", Clock: d.Clock})
				must(t, err)
				d.Provider, d.Directory = p, p
			})
			a := w.action("order", 1)
			a.Arguments = []byte(tt.arguments)
			d := w.approved(a)
			must(t, p.SetRecord("supplier", tt.changed, map[string]json.RawMessage{"name": json.RawMessage(`"Other"`)}))
			if o := w.dispatch(d); o.Status != tt.want {
				t.Errorf("%s: %s, then %s changes: %s [%s], want %s", mode, tt.arguments, tt.changed, o.Status, codes(o.Refusals), tt.want)
			}
		}
	}
}

// TestProposalsThatCannotBeShown are refused with the reason and suspend nothing.
func TestProposalsThatCannotBeShown(t *testing.T) {
	for _, tt := range []struct {
		name, mode, arguments string
		preview               error
		want                  error
	}{
		{"no reading", "M3", `{`, nil, api.ErrInvalid},
		{"no reading, not strict", "M9-strict", `{`, nil, api.ErrInvalid},
		{"a reference that is no text", "M9-strict", `{"supplier":7,"amount":1}`, nil, api.ErrInvalid},
		{"a reference to nothing", "M9", `{"supplier":"s-9","amount":1}`, nil, api.ErrNotFound},
		{"no dry run", "M9", `{"supplier":"s-1","amount":1}`, errors.New("no dry run"), api.ErrUnavailable},
	} {
		w, s := newScripted(t, tt.mode)
		s.preview = tt.preview
		a := w.action("pay", 1)
		a.Arguments = []byte(tt.arguments)
		if p, err := w.target.Propose(ctx, auth("agent-a"), a); !errors.Is(err, tt.want) || p.Suspension != "" {
			t.Errorf("%s: %+v, %v", tt.name, p, err)
		}
	}
	for _, mode := range []string{"M9", "M9-render"} {
		w, s := newScripted(t, mode)
		s.members = map[string]json.RawMessage{"account": json.RawMessage("{")}
		if p, err := w.target.Propose(ctx, auth("agent-a"), w.action("pay", 1)); err == nil {
			t.Errorf("%s, a directory whose answer is no JSON: %+v", mode, p)
		}
	}
	w := newWorld(t, "M9")
	if _, err := w.target.Preview(ctx, auth("agent-a"), w.action("launch", 1)); !errors.Is(err, api.ErrInvalid) {
		t.Errorf("previewing what is no tool: %v", err)
	}
}

// TestCoveredIsNotAsked: an approved run and an open window cover what follows.
func TestCoveredIsNotAsked(t *testing.T) {
	for _, mode := range []string{"M2", "M6"} {
		w := newWorld(t, mode)
		w.approved(w.action("pay", 1))
		p, err := w.target.Propose(ctx, auth("agent-a"), w.action("pay", 2))
		if err != nil || p.State != api.StateGranted {
			t.Errorf("%s: %+v, %v", mode, p, err)
		}
		a := w.action("pay", 3)
		a.Arguments = []byte("{")
		if p, err := w.target.Propose(ctx, auth("agent-a"), a); !errors.Is(err, api.ErrInvalid) {
			t.Errorf("%s, no reading: %+v, %v", mode, p, err)
		}
	}
}

// TestNotSentAgainAfterTheCaller: nothing is sent again for a caller who has gone.
func TestNotSentAgainAfterTheCaller(t *testing.T) {
	for _, tt := range []struct {
		mode         string
		err          error
		calls, after int // with the caller there, and without
	}{{"M9", api.ErrNotSent, 3, 1}, {"M9-idem", api.ErrNoAnswer, 2, 1}} {
		for _, gone := range []bool{false, true} {
			w, s := newScripted(t, tt.mode)
			d := w.approved(w.action("wire", 1))
			d.RequestID = "req"
			proof, err := w.proof(d, 1)
			must(t, err)
			within, cancel := context.WithCancel(ctx)
			s.execute = tt.err
			want := tt.calls
			if gone {
				s.onExecute, want = cancel, tt.after
			}
			if o, err := w.target.Dispatch(within, api.Auth{Token: token("agent-a"), Proof: proof}, d); err == nil {
				t.Errorf("%s, %v: %+v", tt.mode, tt.err, o)
			}
			cancel()
			if s.calls != want {
				t.Errorf("%s, %v, caller gone %v: sent %d times, want %d", tt.mode, tt.err, gone, s.calls, want)
			}
		}
	}
}

// TestProviderRefuses: an answer of the provider is an answer: nothing is open
// afterwards, and only what a person can judge anew is asked about.
func TestProviderRefuses(t *testing.T) {
	for code, want := range map[string]string{
		"key_reuse": "refused [idem/key_reuse]", "precondition": "reasked [refs/precondition]", "limit": "!",
	} {
		w, s := newScripted(t, "M9")
		d := w.approved(w.action("wire", 1))
		s.execute = &api.ProviderError{Status: 409, Code: code}
		if got := w.answer(w.target, d); got != want {
			t.Errorf("%s: %s, want %s", code, got, want)
		}
		if p, err := w.target.Propose(ctx, auth("agent-a"), w.action("wire", 1)); err != nil || p.State != api.StatePending {
			t.Errorf("%s: an equal proposal: %+v, %v", code, p, err)
		}
	}
}

// TestWithoutIdemNothingIsReconciled: two lost answers are two sends and an error.
func TestWithoutIdemNothingIsReconciled(t *testing.T) {
	w := newWorld(t, "M9-idem")
	d := w.approved(w.action("wire", 1))
	must(t, w.prov.Inject(provider.Fault{Kind: provider.FaultDropResponse}, provider.Fault{Kind: provider.FaultDropResponse}))
	if got := w.answer(w.target, d); got != "!" || len(w.prov.Ledger()) != 2 {
		t.Errorf("%s, %d effects", got, len(w.prov.Ledger()))
	}
}

// TestReconcilingFails: without an answer to the look-up, without a clock, or while
// another instance sends, nothing is sent again.
func TestReconcilingFails(t *testing.T) {
	w, s := newScripted(t, "M9")
	d := w.approved(w.action("wire", 1))
	w.lab.At(api.StepSent, func(context.Context) error { return lab.ErrCrash })
	w.answer(w.target, d)
	w.clock.add(gateway.SendLease)
	s.lookup = errors.New("no answer")
	if got := w.answer(w.target, d); got != "held [idem/unavailable]" || s.calls != 1 {
		t.Errorf("look-up down: %s, sent %d times", got, s.calls)
	}

	w = newWorld(t, "M9")
	d = w.approved(w.action("wire", 1))
	must(t, w.prov.Inject(provider.Fault{Kind: provider.FaultDropRequest}))
	w.lab.At(api.StepSent, func(context.Context) error { w.clock.stop(true); return nil })
	w.expect("clock down", d, api.Held, "idem/in_progress", 0)

	w = newWorld(t, "M9")
	second, err := w.lab.Second(ctx)
	must(t, err)
	d = w.approved(w.action("wire", 1))
	must(t, w.prov.Inject(provider.Fault{Kind: provider.FaultDropRequest}))
	w.answer(w.target, d)
	w.clock.add(gateway.SendLease)
	var other string
	w.prov.onLookup = func() { other = w.answer(second, d) }
	w.expect("another took it over", d, api.Absorbed, "", 1)
	if other != "executed []" {
		t.Errorf("the other instance: %s", other)
	}
}

// TestViewAsksForAnAssertion wherever one is needed, and says so where nobody can
// make one.
func TestViewAsksForAnAssertion(t *testing.T) {
	for mode, want := range map[string]bool{"M9": true, "M9-attest": true, "M9-challenge": true, "M9-attest-challenge": false} {
		w := newWorld(t, mode)
		v, err := w.target.View(ctx, auth("approver-p"), w.pending(w.action("pay", 1)))
		if err != nil || (len(v.Assertion) > 0) != want {
			t.Errorf("%s: %v, %s", mode, err, v.Assertion)
		}
	}
	w := newWorld(t, "M9")
	id := w.pending(w.action("pay", 1))
	for _, p := range people() {
		if p.Role == api.RolePerson {
			w.removePasskeys(p.ID)
		}
	}
	if _, err := w.target.View(ctx, auth("approver-p"), id); refusedBy(err) != "attest/credential" {
		t.Errorf("nobody has a passkey: %v", err)
	}
}

// TestDecisionIsStored with its time, where there is one, and for good.
func TestDecisionIsStored(t *testing.T) {
	for _, clock := range []bool{true, false} {
		s := store.NewMemory()
		w := newWorldOn(t, "M9-closed", s)
		a := w.action("pay", 1)
		id := w.pending(a)
		w.clock.stop(!clock)
		must(t, w.decide(id, "approver-p", api.Decline))
		w.clock.stop(false)
		rows, err := s.Find(ctx, "approval", a.Run)
		must(t, err)
		if len(rows) != 1 {
			t.Fatalf("%d approvals", len(rows))
		}
		if got := strings.Contains(string(rows[0].Body), fmt.Sprintf(`"decided_at":"%d-`, start.Year())); got != clock {
			t.Errorf("with a clock %v: %s", clock, rows[0].Body)
		}
		if err := w.decide(id, "approver-p", api.Approve); err == nil || !strings.Contains(err.Error(), "decided already") {
			t.Errorf("again: %v", err)
		}
	}
}

// TestWindowsAreOpenedByApprovals: by those of a design with windows alone, and a
// later no closes none.
func TestWindowsAreOpenedByApprovals(t *testing.T) {
	s := store.NewMemory()
	w := newWorldOn(t, "M9", s)
	w.approved(w.action("pay", 1))
	if rows, err := s.Find(ctx, "window", "requester-r"); err != nil || len(rows) != 0 {
		t.Errorf("M9 opens windows: %v, %v", rows, err)
	}
	w = newWorld(t, "M6")
	first, second := w.pending(w.action("pay", 1)), w.pending(w.action("pay", 2))
	must(t, w.decide(first, "approver-p", api.Approve))
	must(t, w.decide(second, "approver-p", api.Decline))
	if p, err := w.target.Propose(ctx, auth("agent-a"), w.action("pay", 3)); err != nil || p.State != api.StateGranted {
		t.Errorf("after a yes and a no: %+v, %v", p, err)
	}
}

// altered changes one member of the newest row that a store finds.
func altered(t tb, s store.Store, kind, key string, change func(map[string]any)) {
	t.Helper()
	rows, err := s.Find(ctx, kind, key)
	must(t, err)
	var body map[string]any
	must(t, json.Unmarshal(rows[0].Body, &body))
	change(body)
	rows[0].Body, err = json.Marshal(body)
	must(t, err)
	_, err = s.Update(ctx, rows[0])
	must(t, err)
}

// TestDamagedEnvelope: one that cannot be read is an error, neither somebody else's
// nor an approval that carries nothing.
func TestDamagedEnvelope(t *testing.T) {
	s := store.NewMemory()
	w := newWorldOn(t, "M9", s)
	a := w.action("pay", 1)
	id := w.pending(a)
	must(t, w.decide(id, "approver-p", api.Approve))
	damage := func(body map[string]any) { body["envelope"] = []byte("{") }
	altered(t, s, "approval", a.Run, damage)
	if st, err := w.target.Status(ctx, auth("agent-a"), id); err == nil {
		t.Errorf("status: %+v", st)
	}
	altered(t, s, "suspension", "over", damage)
	if _, err := w.target.View(ctx, auth("approver-p"), id); err == nil || errors.Is(err, api.ErrNotFound) {
		t.Errorf("view: %v", err)
	}
}

// TestDamagedUse: nothing is sent for a permit whose use cannot be read, and no result
// that is half read is given back for it.
func TestDamagedUse(t *testing.T) {
	for mode, want := range map[string]string{"M9": "refused [once/spent seen/seen]", "M9-once-seen": "held [idem/unavailable]"} {
		s := store.NewMemory()
		w := newWorldOn(t, mode, s)
		d := w.approved(w.action("pay", 1))
		w.expect(mode+", first", d, api.Executed, "", 1)
		rows, err := s.Find(ctx, "use", "done")
		must(t, err)
		rows[0].Body = damaged(rows[0].Body)
		_, err = s.Update(ctx, rows[0])
		must(t, err)
		if got := w.answer(w.target, d); got != want || len(w.prov.Ledger()) != 1 {
			t.Errorf("%s, again: %s and %d effects, want %s and one", mode, got, len(w.prov.Ledger()), want)
		}
	}
}

// TestDamagedChallenge: a view that is to be decided with a passkey is not shown
// without what the passkey signs.
func TestDamagedChallenge(t *testing.T) {
	s := store.NewMemory()
	w := newWorldOn(t, "M9", s)
	id := w.pending(w.action("pay", 1))
	altered(t, s, "suspension", "waiting", func(body map[string]any) { body["challenge"] = []byte("short") })
	if v, err := w.target.View(ctx, auth("approver-p"), id); err == nil {
		t.Errorf("%+v", v)
	}
}

// TestDamagedEnrolment: that is the gateway's fault, and not the person's.
func TestDamagedEnrolment(t *testing.T) {
	s := store.NewMemory()
	w := newWorldOn(t, "M9", s)
	w.removePasskeys("approver-p")
	options, err := w.target.BeginEnrolment(ctx, auth("approver-p"))
	must(t, err)
	_, err = s.Create(ctx, store.Row{Kind: "enrolment", ID: "no base64url!", Key: "approver-p", Body: []byte("{}")})
	must(t, err)
	response, err := softkey.New(origin).Register(options)
	must(t, err)
	if err := w.target.FinishEnrolment(ctx, auth("approver-p"), response); err == nil || errors.Is(err, api.ErrInvalid) {
		t.Errorf("%v, want an error that is not about the response", err)
	}
}

// TestUntracked: a design that spends nothing in the store has no use to settle there.
func TestUntracked(t *testing.T) {
	s := &updated{Store: store.NewMemory()}
	w := newWorldOn(t, "M4", s)
	d := w.approved(w.action("pay", 1))
	s.rows = nil
	w.expect("dispatched", d, api.Executed, "", 1)
	for _, r := range s.rows {
		if r.Kind != "clock" {
			t.Errorf("it updates %+v", r)
		}
	}
}

// updated is a store that notes what it is asked to update.
type updated struct {
	store.Store
	rows []store.Row
}

func (u *updated) Update(ctx context.Context, r store.Row) (store.Row, error) {
	u.rows = append(u.rows, r)
	return u.Store.Update(ctx, r)
}

// meanwhile is a store in which something happens before the second look at a
// credential within one call.
type meanwhile struct {
	store.Store
	looks int
	do    func()
}

func (m *meanwhile) Get(ctx context.Context, kind, id string) (store.Row, error) {
	if m.do != nil && kind == "credential" {
		if m.looks++; m.looks == 2 {
			m.do()
		}
	}
	return m.Store.Get(ctx, kind, id)
}

// TestPasskeyUsedElsewhere: a counter that moved while a decision was judged is a
// conflict, and the decision is not taken.
func TestPasskeyUsedElsewhere(t *testing.T) {
	s := &meanwhile{Store: store.NewMemory()}
	w := newWorldOn(t, "M9", s)
	id := w.pending(w.action("pay", 1))
	d := api.Decision{Suspension: id, Verdict: api.Approve, Assertion: w.assertion(id, "approver-p")}
	s.do = func() {
		altered(t, s.Store, "credential", "approver-p", func(body map[string]any) {
			body["credential"].(map[string]any)["sign_count"] = 99
		})
	}
	if err := w.target.Decide(ctx, auth("approver-p"), d); !errors.Is(err, api.ErrConflict) || s.looks < 2 {
		t.Errorf("%v, after %d looks", err, s.looks)
	}
	st, err := w.target.Status(ctx, auth("agent-a"), id)
	if err != nil || st.Decided {
		t.Errorf("%+v, %v", st, err)
	}
}

// TestAdminIsLogged: who was enrolled and what else was done; where the log fails, a
// closed design does nothing.
func TestAdminIsLogged(t *testing.T) {
	w := newWorld(t, "M9")
	must(t, w.target.Admin(ctx, auth("admin"), api.Event{Kind: api.EventDisableAgent, Subject: "agent-b", Principal: &api.Principal{ID: "another"}}))
	logged := map[string]bool{}
	for _, e := range w.entries() {
		logged[e.Event] = true
	}
	for _, want := range []string{"admin:enrol:approver-p", "admin:disable_agent:agent-b"} {
		if !logged[want] {
			t.Errorf("the log lacks %s: %v", want, logged)
		}
	}
	for mode, closed := range map[string]bool{"M9": true, "M9-closed": false} {
		w := newWorld(t, mode)
		a := w.action("pay", 1)
		d := w.approved(a)
		w.lab.Fault(api.DepAudit, api.FaultDown)
		err := w.target.Admin(ctx, auth("admin"), api.Event{Kind: api.EventDisableAgent, Subject: "agent-a"})
		w.lab.Fault(api.DepAudit, api.FaultNone)
		if errors.Is(err, api.ErrUnavailable) != closed {
			t.Errorf("%s: %v", mode, err)
		}
		if o := w.dispatch(d); (o.Status == api.Executed) != closed {
			t.Errorf("%s: afterwards %s [%s]", mode, o.Status, codes(o.Refusals))
		}
	}
}

// TestAllPasskeysAreRemoved, however they came to be several.
func TestAllPasskeysAreRemoved(t *testing.T) {
	s := store.NewMemory()
	w := newWorldOn(t, "M9", s)
	rows, err := s.Find(ctx, "credential", "approver-p")
	must(t, err)
	_, err = s.Create(ctx, store.Row{Kind: "credential", ID: "c-another", Key: "approver-p", Body: rows[0].Body})
	must(t, err)
	w.removePasskeys("approver-p")
	if _, err := w.target.BeginEnrolment(ctx, auth("approver-p")); err != nil {
		t.Errorf("a passkey is left: %v", err)
	}
}

// TestUngated: a design without a gate asks nobody, and a call that needs no
// approval is sent as it was written where it has more than one reading.
func TestUngated(t *testing.T) {
	w := newWorld(t, "M0")
	if p, err := w.target.Propose(ctx, auth("agent-a"), w.action("pay", 1)); err != nil || p.State != api.StateExempt {
		t.Errorf("M0: %+v, %v", p, err)
	}
	w = newWorld(t, "M9")
	a := w.action("read", 1)
	a.Arguments = []byte(`{"supplier":"s-1","amount":1,"amount":2}`)
	_, _ = w.present(w.target, "agent-a", api.Dispatch{Action: a})
	if got := w.prov.body.Load(); got != string(a.Arguments) {
		t.Errorf("sent %q", got)
	}
}

// TestProofReplayIsNamed among whatever else a second presentation is refused for.
func TestProofReplayIsNamed(t *testing.T) {
	w := newWorld(t, "M9-idem")
	d := w.approved(w.action("pay", 1))
	d.RequestID = "req"
	proof, err := w.proof(d, 1)
	must(t, err)
	for _, want := range []string{"", "sender/proof_replayed seen/seen once/spent"} {
		o, err := w.target.Dispatch(ctx, api.Auth{Token: token("agent-a"), Proof: proof}, d)
		if err != nil || codes(o.Refusals) != want {
			t.Errorf("%s [%s], %v, want %q", o.Status, codes(o.Refusals), err, want)
		}
	}
}

// TestLatestTimeIsKept: a clock set back while the gateway was down, or before
// another instance looked at it, is noticed; one that moved on is not.
func TestLatestTimeIsKept(t *testing.T) {
	for _, tt := range []struct {
		ahead, back time.Duration
		want        string
	}{
		{time.Minute, time.Minute - 1, "held [expiry/clock]"},
		{time.Minute, 0, "executed []"},
		{time.Second, time.Second, "held [expiry/clock]"},
		{time.Second - 1, time.Second - 1, "executed []"},
	} {
		w := newWorld(t, "M9")
		d := w.approved(w.action("pay", 1))
		w.clock.add(tt.ahead)
		w.pending(w.action("pay", 2)) // the time is seen
		w.clock.add(-tt.back)
		must(t, w.lab.Restart(ctx))
		if got := w.answer(w.target, d); got != tt.want {
			t.Errorf("%s ahead and %s back: %s, want %s", tt.ahead, tt.back, got, tt.want)
		}
	}
	s := store.NewMemory()
	newWorldOn(t, "M9-expiry", s).approved(api.Action{
		Audience: "bank.example", Tool: "pay", Arguments: []byte(`{"supplier":"s-1","amount":1}`), Run: "r", Step: "s", Call: "c",
	})
	if rows, err := s.Find(ctx, "clock", ""); err != nil || len(rows) != 0 {
		t.Errorf("a design that binds no time keeps one: %v, %v", rows, err)
	}
}
