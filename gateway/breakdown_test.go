package gateway_test

import (
	"context"
	"encoding/json"
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
	key                 string // of the rows to be found that are meant; empty: all
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
	if b.key == "" || b.key == key {
		if err := b.at("find", kind); err != nil {
			return nil, err
		}
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
	w.expect("at dispatch", w.collect(a, id), api.Refused, "duties/unknown online/unavailable", 0)
	s.fails = ""
	w.expect("found again", w.collect(a, id), api.Executed, "", 1)
}

// TestCredentialsCannotBeLookedUp: that is no answer to the person who asks, and not
// the answer that there is no passkey.
func TestCredentialsCannotBeLookedUp(t *testing.T) {
	s := &breaking{Store: store.NewMemory()}
	w := newWorldOn(t, "M9", s)
	id := w.pending(w.action("pay", 1))
	d := w.approval(id, "approver-p")
	s.fails = "get credential"
	if err := w.target.Decide(ctx, auth("approver-p"), d); !errors.Is(err, api.ErrUnavailable) {
		t.Errorf("a decision: %v", err)
	}
	s.fails, s.key = "find credential", "approver-2"
	if _, err := w.target.View(ctx, auth("approver-p"), id); !errors.Is(err, api.ErrUnavailable) {
		t.Errorf("a view for the approvers: %v", err)
	}
	s.fails = ""
	for _, p := range people() {
		if p.Role == api.RolePerson {
			w.removePasskeys(p.ID)
		}
	}
	w.enrol(api.Principal{ID: "person-q", Role: api.RolePerson, Tenant: "tenant-1"})
	s.fails, s.key = "find credential", "person-q"
	if _, err := w.target.View(ctx, auth("person-q"), id); !errors.Is(err, api.ErrUnavailable) {
		t.Errorf("a view for whoever asks: %v", err)
	}
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
	if _, err := w.target.Propose(ctx, auth("agent-1"), w.action("pay", 1)); refusedBy(err) != "online/delegation" {
		t.Errorf("agents that act for each other: %v", err)
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

// TestDuties: whoever acts for whom, one person is never at both ends, and where
// nobody can say who is at an end, nobody decides.
func TestDuties(t *testing.T) {
	for _, x := range []struct {
		name             string
		worksFor, people string // "person:acts for", separated by blanks
		decides, want    string
	}{
		{"a delegate", "alice", "alice: bob:alice", "bob", "delegate"},
		{"a delegate of a delegate", "alice", "alice: bob:alice carol:bob", "carol", "delegate"},
		{"two delegates of one person", "bob", "alice: bob:alice carol:alice", "carol", "delegate"},
		{"the person whose delegate asks", "bob", "alice: bob:alice", "alice", "delegate"},
		{"a delegate of an agent", "agent-a", "dan:agent-a", "dan", "delegate"},
		{"the requester in another case", "Alice", "alice:", "alice", "no_requester"},
		{"the requester with a blank", "alice ", "alice:", "alice", "no_requester"},
		{"no requester", "", "alice:", "alice", "no_requester"},
		{"a requester whom nobody knows", "nobody", "alice:", "alice", "no_requester"},
		{"a delegate of somebody in another case", "alice", "alice: bob:Alice", "bob", "unknown"},
		{"a delegate of somebody else", "alice", "alice: dave: bob:dave", "bob", ""},
		{"somebody else", "agent-a", "dan:", "dan", ""},
	} {
		w := newWorld(t, "M9")
		for _, p := range strings.Fields(x.people) {
			id, actsFor, _ := strings.Cut(p, ":")
			w.enrol(api.Principal{ID: id, Role: api.RolePerson, Tenant: "tenant-1", Approver: true, ActsFor: actsFor})
		}
		w.enrol(api.Principal{ID: "agent-z", Role: api.RoleAgent, Tenant: "tenant-1", ActsFor: x.worksFor, Key: people()[0].Key})
		p, err := w.target.Propose(ctx, auth("agent-z"), w.action("pay", 1))
		must(t, err)
		want := "<nil>"
		if x.want != "" {
			want = "duties/" + x.want
		}
		if got := refusedBy(w.decide(p.Suspension, x.decides, api.Approve)); got != want {
			t.Errorf("%s: %s, want %s", x.name, got, want)
		}
	}
}

// TestDisabledAgent: neither a disabled agent nor one that works for it asks,
// tries or reads anything, where the design asks whether authority holds.
func TestDisabledAgent(t *testing.T) {
	for _, mode := range []string{"M9", "M9-online"} {
		for _, agent := range []string{"agent-a", "agent-sub"} {
			w := newWorld(t, mode)
			w.enrol(api.Principal{ID: "agent-sub", Role: api.RoleAgent, Tenant: "tenant-1", ActsFor: "agent-a", Key: people()[0].Key})
			must(t, w.target.Admin(ctx, auth("admin"), api.Event{Kind: api.EventDisableAgent, Subject: "agent-a"}))
			_, proposed := w.target.Propose(ctx, auth(agent), w.action("pay", 1))
			_, tried := w.target.Preview(ctx, auth(agent), w.action("pay", 1))
			read, err := w.target.Dispatch(ctx, auth(agent), api.Dispatch{Action: w.action("read", 1), RequestID: "req-read"})
			must(t, err)
			want, status := "online/agent_disabled", api.Refused
			if mode != "M9" {
				want, status = "<nil>", api.Executed
			}
			if refusedBy(proposed) != want || refusedBy(tried) != want || read.Status != status {
				t.Errorf("%s, %s: proposed %v, tried %v, read %s", mode, agent, proposed, tried, read.Status)
			}
		}
	}
}

// TestWhoDeclines: a no is for good, so that it takes somebody whom the request
// concerns.
func TestWhoDeclines(t *testing.T) {
	for person, want := range map[string]error{"approver-p": nil, "requester-r": nil, "intern": api.ErrForbidden, "lead": nil} {
		w := newWorld(t, "M9")
		w.enrol(api.Principal{ID: "intern", Role: api.RolePerson, Tenant: "tenant-1"})
		w.enrol(api.Principal{ID: "lead", Role: api.RolePerson, Tenant: "tenant-1"})
		w.enrol(api.Principal{ID: "agent-l", Role: api.RoleAgent, Tenant: "tenant-1", ActsFor: "lead", Key: people()[0].Key})
		agent := "agent-a"
		if person == "lead" {
			agent = "agent-l"
		}
		p, err := w.target.Propose(ctx, auth(agent), w.action("pay", 1))
		must(t, err)
		if err := w.decide(p.Suspension, person, api.Decline); !errors.Is(err, want) {
			t.Errorf("%s declines: %v, want %v", person, err, want)
		}
		if want == nil {
			continue
		}
		if err := w.decide(p.Suspension, "approver-p", api.Approve); err != nil {
			t.Errorf("after %s: %v", person, err)
		}
	}
	w := newWorld(t, "M9-duties")
	w.enrol(api.Principal{ID: "intern", Role: api.RolePerson, Tenant: "tenant-1"})
	must(t, w.decide(w.pending(w.action("pay", 1)), "intern", api.Decline))
}

// TestApproverEnrolledLater: whoever became an approver after the request was made
// is not among those who were asked.
func TestApproverEnrolledLater(t *testing.T) {
	w := newWorld(t, "M9")
	id := w.pending(w.action("pay", 1))
	v, err := w.target.View(ctx, auth("approver-p"), id)
	must(t, err)
	w.enrol(api.Principal{ID: "approver-new", Role: api.RolePerson, Tenant: "tenant-1", Approver: true})
	var options map[string]map[string]json.RawMessage
	must(t, json.Unmarshal(v.Assertion, &options))
	delete(options["publicKey"], "allowCredentials")
	text, err := json.Marshal(options)
	must(t, err)
	assertion, err := w.keys["approver-new"].Assert(text)
	must(t, err)
	d := api.Decision{Suspension: id, Verdict: api.Approve, Assertion: assertion}
	if got := refusedBy(w.target.Decide(ctx, auth("approver-new"), d)); got != "duties/not_asked" {
		t.Errorf("the decision: %s", got)
	}
}

// TestPolicyChangedAndChangedBack: what counts is what is in force.
func TestPolicyChangedAndChangedBack(t *testing.T) {
	w := newWorld(t, "M9")
	d := w.approved(w.action("pay", 1))
	for _, e := range []api.Event{
		{Kind: api.EventPolicyChange, Value: "policy-2"}, {Kind: api.EventPolicyChange, Value: "policy-1"},
		{Kind: api.EventRiskLabel, Subject: "bank.example/pay", Value: "denied"}, {Kind: api.EventRiskLabel, Subject: "bank.example/pay", Value: "high"},
	} {
		must(t, w.target.Admin(ctx, auth("admin"), e))
	}
	w.expect("put back", d, api.Executed, "", 1)
}
