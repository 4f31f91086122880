package gateway_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"countersign/gateway"
	"countersign/gateway/api"
	"countersign/gateway/store"
)

// A breaking store panics, fails, or does what it is asked and fails all the same,
// when an operation ("get", "find", "create") meets a kind of row.
type breaking struct {
	store.Store
	panics, fails, lies string // operation and kind, as in "get use"
}

var errBroken = errors.New("no answer")

func (b *breaking) at(op, kind string) error {
	switch op + " " + kind {
	case b.panics:
		panic("the store broke down")
	case b.fails, b.lies:
		return errBroken
	}
	return nil
}

func (b *breaking) Get(ctx context.Context, kind, id string) (store.Row, error) {
	if err := b.at("get", kind); err != nil {
		return store.Row{}, err
	}
	return b.Store.Get(ctx, kind, id)
}

func (b *breaking) Find(ctx context.Context, kind, key string) ([]store.Row, error) {
	if err := b.at("find", kind); err != nil {
		return nil, err
	}
	return b.Store.Find(ctx, kind, key)
}

func (b *breaking) Create(ctx context.Context, r store.Row) (store.Row, error) {
	row, err := b.Store.Create(ctx, r)
	if lied := b.at("create", r.Kind); err == nil && lied != nil {
		return store.Row{}, lied
	}
	return row, err
}

// TestCheckThatPanics: whatever breaks down while a dispatch is checked, the
// dispatch is refused and nothing is spent: afterwards the same approval executes,
// once.
func TestCheckThatPanics(t *testing.T) {
	for at, refused := range map[string]string{
		"get policy":      "online/unavailable closed/unavailable", // an answer that did not come
		"get suspension":  "closed/panic",
		"get approval":    "closed/panic",
		"find credential": "closed/panic",
		"find approver":   "closed/panic",
		"get place":       "closed/panic",
		"get disabled":    "closed/panic",
		"get revocation":  "closed/panic",
		"get use":         "closed/panic",
	} {
		s := &breaking{Store: store.NewMemory()}
		w := newWorldOn(t, "M9", s)
		d := w.approved(w.action("pay", 1))
		s.panics = at
		status := api.Refused
		if strings.HasSuffix(refused, "unavailable") {
			status = api.Held
		}
		w.expect(at+" panics", d, status, refused, 0)
		s.panics = ""
		w.expect(at+" works again", d, api.Executed, "", 1)
	}
}

// TestDecisionThatPanics: a decision whose check breaks down is not recorded.
func TestDecisionThatPanics(t *testing.T) {
	s := &breaking{Store: store.NewMemory()}
	w := newWorldOn(t, "M9", s)
	a := w.action("pay", 1)
	id := w.pending(a)
	assertion := w.assertion(id, "approver-p")
	s.panics = "find approver"
	err := w.target.Decide(ctx, auth("approver-p"), api.Decision{Suspension: id, Verdict: api.Approve, Assertion: assertion})
	if got := refusedBy(err); got != "closed/panic" {
		t.Errorf("the decision: %s", got)
	}
	s.panics = ""
	if st, err := w.target.Status(ctx, auth("agent-a"), id); err != nil || st.Decided {
		t.Errorf("the suspension: %+v, %v, want it undecided", st, err)
	}
	must(t, w.decide(id, "approver-p", api.Approve))
	w.expect("decided", w.collect(a, id), api.Executed, "", 1)
}

// TestApproverWhoCannotBeLookedUp: the caller is found and, a moment later, the
// approver is not. An unknown approver is not somebody other than the requester.
func TestApproverWhoCannotBeLookedUp(t *testing.T) {
	s := &breaking{Store: store.NewMemory()}
	w := newWorldOn(t, "M9", s)
	a := w.action("pay", 1)
	id := w.pending(a)
	d := api.Decision{Suspension: id, Verdict: api.Approve, Assertion: w.assertion(id, "requester-r")}
	s.fails = "get principal"
	if got := refusedBy(w.target.Decide(ctx, auth("requester-r"), d)); got != "duties/unknown" {
		t.Errorf("the decision: %s", got)
	}
	s.fails = ""
	must(t, w.decide(id, "approver-p", api.Approve))
	s.fails = "get principal"
	w.expect("at dispatch", w.collect(a, id), api.Refused, "duties/unknown", 0)
	s.fails = ""
	w.expect("found again", w.collect(a, id), api.Executed, "", 1)
}

// TestPartialWrites: the store takes a row and says that it did not. Nobody is
// told yes for it, nothing is sent for it at once, and nothing is sent twice.
func TestPartialWrites(t *testing.T) {
	s := &breaking{Store: store.NewMemory()}
	w := newWorldOn(t, "M9", s)
	a := w.action("pay", 1)
	id := w.pending(a)
	s.lies = "create approval"
	if err := w.decide(id, "approver-p", api.Approve); !errors.Is(err, api.ErrUnavailable) {
		t.Errorf("the decision: %v, want it unavailable", err)
	}
	s.lies = ""
	if err := w.decide(id, "approver-p", api.Approve); !errors.Is(err, api.ErrConflict) {
		t.Errorf("the decision again: %v, want a conflict: it is there", err)
	}
	d := w.collect(a, id)
	s.lies = "create use"
	w.expect("spent, and said not to be", d, api.Held, "once/unavailable", 0)
	s.lies = ""
	w.expect("presented again", d, api.Held, "idem/in_progress", 0)
	w.clock.add(gateway.SendLease)
	w.expect("after the lease", d, api.Executed, "", 1)
	w.expect("and again", d, api.Absorbed, "once/spent", 1)
}

// TestSubagents: the requester of what an agent's agent asks is the person at the
// end, who may not decide it.
func TestSubagents(t *testing.T) {
	for mode, refused := range map[string]string{"M9": "duties/requester", "M9-duties": "<nil>"} {
		w := newWorld(t, mode)
		jwk := people()[0].Key
		for _, p := range [][2]string{{"agent-sub", "agent-a"}, {"agent-sub-sub", "agent-sub"}} {
			w.enrol(api.Principal{ID: p[0], Role: api.RoleAgent, Tenant: "tenant-1", ActsFor: p[1], Key: jwk})
		}
		p, err := w.target.Propose(ctx, auth("agent-sub-sub"), w.action("pay", 1))
		must(t, err)
		if got := refusedBy(w.decide(p.Suspension, "requester-r", api.Approve)); got != refused {
			t.Errorf("%s: the requester decides: %s, want %s", mode, got, refused)
		}
	}
	w := newWorld(t, "M9")
	for _, p := range [][2]string{{"agent-1", "agent-2"}, {"agent-2", "agent-1"}} {
		w.enrol(api.Principal{ID: p[0], Role: api.RoleAgent, Tenant: "tenant-1", ActsFor: p[1], Key: people()[0].Key})
	}
	if _, err := w.target.Propose(ctx, auth("agent-1"), w.action("pay", 1)); !errors.Is(err, api.ErrForbidden) {
		t.Errorf("agents that act for each other: %v, want it forbidden", err)
	}
}

// TestReadCoversNothing: a call that needs no approval was no check, so that what
// rides on it is asked for, once a resume or not.
func TestReadCoversNothing(t *testing.T) {
	for _, mode := range []string{"M1", "M3", "M6", "M9", "M9-percall"} {
		w := newWorld(t, mode)
		o := w.dispatch(api.Dispatch{Action: w.action("read", 1), Siblings: []api.Action{w.action("pay", 1)}})
		if len(o.Siblings) != 1 || o.Siblings[0].Status != api.Refused {
			t.Errorf("%s: %+v", mode, o)
		}
	}
}

// TestWindowOfNobody: agents that act for nobody share no step-up window.
func TestWindowOfNobody(t *testing.T) {
	w := newWorld(t, "M6")
	for _, id := range []string{"agent-1", "agent-2"} {
		w.enrol(api.Principal{ID: id, Role: api.RoleAgent, Tenant: "tenant-1", Key: people()[0].Key})
	}
	p, err := w.target.Propose(ctx, auth("agent-1"), w.action("pay", 1))
	must(t, err)
	must(t, w.decide(p.Suspension, "approver-p", api.Approve))
	if p, err = w.target.Propose(ctx, auth("agent-2"), w.action("pay", 2)); err != nil || p.State != api.StatePending {
		t.Errorf("another agent's proposal: %s, %v", p.State, err)
	}
}
