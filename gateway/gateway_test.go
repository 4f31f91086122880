package gateway_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/audit"
	"countersign/gateway"
	"countersign/gateway/api"
	"countersign/gateway/store"
	"countersign/modes"
	"countersign/oracles/softkey"
)

func TestNewRefusesWhatIsMissing(t *testing.T) {
	d, _, _ := deployment(t)
	keys, err := modes.NewKeys(issuer)
	must(t, err)
	m, err := modes.Get("M9")
	must(t, err)
	full := func() gateway.Config {
		return gateway.Config{Mode: m, Deployment: d, Approvals: store.NewMemory(), Registry: store.NewMemory(), Audit: audit.NewMemory(), Keys: keys}
	}
	if _, err := gateway.New(ctx, full()); err != nil {
		t.Fatal(err)
	}
	if _, err := gateway.New(ctx, gateway.Config{}); err == nil {
		t.Error("the zero configuration is accepted")
	}
	for name, drop := range map[string]func(*gateway.Config){
		"mode":                func(c *gateway.Config) { c.Mode = modes.Mode{} },
		"approval store":      func(c *gateway.Config) { c.Approvals = nil },
		"registry":            func(c *gateway.Config) { c.Registry = nil },
		"audit log":           func(c *gateway.Config) { c.Audit = nil },
		"keys":                func(c *gateway.Config) { c.Keys = nil },
		"issuer":              func(c *gateway.Config) { c.Deployment.Issuer = "" },
		"tool table":          func(c *gateway.Config) { c.Deployment.Tools = nil },
		"provider":            func(c *gateway.Config) { c.Deployment.Provider = nil },
		"directory":           func(c *gateway.Config) { c.Deployment.Directory = nil },
		"clock":               func(c *gateway.Config) { c.Deployment.Clock = nil },
		"approval lifetime":   func(c *gateway.Config) { c.Deployment.ApprovalTTL = 0 },
		"admin token":         func(c *gateway.Config) { c.Deployment.AdminToken = "" },
		"auditor token":       func(c *gateway.Config) { c.Deployment.AuditorToken = "" },
		"provider credential": func(c *gateway.Config) { c.Deployment.ProviderCredential = "" },
		"origin":              func(c *gateway.Config) { c.Deployment.Origin = "http://approve.example" },
		"issuer \"":           func(c *gateway.Config) { c.Deployment.Issuer = "https://other.example" },
		"twice":               func(c *gateway.Config) { c.Deployment.Tools = append(tools(), tools()[0]) },
		"credential":          func(c *gateway.Config) { c.Deployment.ProviderCredential = "another" }, // claimed already
	} {
		c := full()
		drop(&c)
		if _, err := gateway.New(ctx, c); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

// TestRoles: every call is for one role, whoever else asks is told so, and
// nobody is known by an empty or made-up token.
func TestRoles(t *testing.T) {
	w := newWorld(t, "M9")
	a := w.action("pay", 1)
	id := w.pending(a)
	w.removePasskeys("approver-p") // who has one may not begin to enrol another
	calls := map[string]func(api.Auth) error{
		"agent: propose":  func(x api.Auth) error { _, err := w.target.Propose(ctx, x, a); return err },
		"agent: preview":  func(x api.Auth) error { _, err := w.target.Preview(ctx, x, a); return err },
		"agent: status":   func(x api.Auth) error { _, err := w.target.Status(ctx, x, id); return err },
		"agent: dispatch": func(x api.Auth) error { _, err := w.target.Dispatch(ctx, x, api.Dispatch{Action: a}); return err },
		"person: view":    func(x api.Auth) error { _, err := w.target.View(ctx, x, id); return err },
		"person: begin":   func(x api.Auth) error { _, err := w.target.BeginEnrolment(ctx, x); return err },
		"person: finish":  func(x api.Auth) error { return w.target.FinishEnrolment(ctx, x, json.RawMessage(`{}`)) },
		"agent person: decide": func(x api.Auth) error {
			return w.target.Decide(ctx, x, api.Decision{Suspension: id, Verdict: api.Approve})
		},
		"admin: admin": func(x api.Auth) error {
			return w.target.Admin(ctx, x, api.Event{Kind: api.EventPolicyChange, Value: "policy-1"})
		},
		"auditor: audit": func(x api.Auth) error { _, err := w.target.Audit(ctx, x, 0); return err },
	}
	callers := map[string]string{"agent": "agent-a", "person": "approver-p", "admin": "admin", "auditor": "auditor"}
	for name, call := range calls {
		roles, _, _ := strings.Cut(name, ":")
		for role, id := range callers {
			err := call(auth(id))
			if may := slices.Contains(strings.Fields(roles), role); errors.Is(err, api.ErrForbidden) == may {
				t.Errorf("%s by a caller with role %s: %v", name, role, err)
			}
		}
		for _, token := range []string{"", "the-token-of-nobody", adminToken + "x", "agent-a"} {
			if err := call(api.Auth{Token: token}); !errors.Is(err, api.ErrUnauthenticated) {
				t.Errorf("%s with the token %q: %v", name, token, err)
			}
		}
	}
	if len(w.prov.Ledger()) != 0 {
		t.Error("an effect was made")
	}
}

// TestOwnership: a suspension is its agent's and its tenant's; for anybody else
// it does not exist.
func TestOwnership(t *testing.T) {
	w := newWorld(t, "M9")
	id := w.pending(w.action("pay", 1))
	for name, err := range map[string]error{
		"another agent's status":   errOf(w.target.Status(ctx, auth("agent-b"), id)),
		"another tenant's status":  errOf(w.target.Status(ctx, auth("agent-x"), id)),
		"another tenant's view":    errOf(w.target.View(ctx, auth("approver-x"), id)),
		"another tenant's approve": w.target.Decide(ctx, auth("approver-x"), api.Decision{Suspension: id, Verdict: api.Approve}),
		"another tenant's decline": w.target.Decide(ctx, auth("approver-x"), api.Decision{Suspension: id, Verdict: api.Decline}),
		"unknown suspension":       errOf(w.target.View(ctx, auth("approver-p"), "s-999999")),
		"status of an unknown":     errOf(w.target.Status(ctx, auth("agent-a"), "")),
		"revoking an unknown":      w.target.Admin(ctx, auth("admin"), api.Event{Kind: api.EventRevoke, Subject: "s-999999"}),
		"disabling an unknown":     w.target.Admin(ctx, auth("admin"), api.Event{Kind: api.EventDisableAgent, Subject: "agent-z"}),
	} {
		if !errors.Is(err, api.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := w.target.Decide(ctx, auth("agent-b"), api.Decision{Suspension: id, Verdict: api.Decline}); !errors.Is(err, api.ErrForbidden) {
		t.Errorf("another agent declines: %v", err)
	}
	if err := w.target.Decide(ctx, auth("agent-a"), api.Decision{Suspension: id, Verdict: api.Decline}); err != nil {
		t.Errorf("an agent withdraws its own request: %v", err)
	}
}

func (w *world) removePasskeys(person string) {
	w.t.Helper()
	must(w.t, w.target.Admin(ctx, auth("admin"), api.Event{Kind: api.EventRemoveCredential, Subject: person}))
}

func errOf[T any](_ T, err error) error { return err }

// TestPlacesOfOthers: an agent names its runs and calls as it likes, and ends no
// approval but its own by doing so.
func TestPlacesOfOthers(t *testing.T) {
	for _, who := range []string{"agent-b", "agent-x"} {
		w := newWorld(t, "M9")
		d := w.approved(w.action("pay", 1))
		if _, err := w.target.Propose(ctx, auth(who), d.Action); err != nil {
			t.Errorf("%s proposes in a run of the same name: %v", who, err)
		}
		w.expect("after a proposal by "+who, d, api.Executed, "", 1)
	}
	w := newWorld(t, "M9")
	d := w.approved(w.action("pay", 1))
	w.pending(d.Action)
	w.expect("after a proposal of its own", d, api.Refused, "suspension/differs", 0)
}

// sized counts the bytes of the rows that a store hands out.
type sized struct {
	store.Store
	read int
}

func (s *sized) Get(ctx context.Context, kind, id string) (store.Row, error) {
	r, err := s.Store.Get(ctx, kind, id)
	s.read += len(r.Body)
	return r, err
}

func (s *sized) Find(ctx context.Context, kind, key string) ([]store.Row, error) {
	rows, err := s.Store.Find(ctx, kind, key)
	for _, r := range rows {
		s.read += len(r.Body)
	}
	return rows, err
}

// TestManySuspensionsOfOnePlace: what a dispatch reads does not grow with the
// number of times that its call was proposed.
func TestManySuspensionsOfOnePlace(t *testing.T) {
	s := &sized{Store: store.NewMemory()}
	w := newWorldOn(t, "M9", s)
	a := w.action("pay", 1)
	var read [2]int
	for i := range read {
		for range 10 * i {
			w.pending(a)
		}
		d := w.approved(a)
		s.read = 0
		w.dispatch(d)
		read[i] = s.read
	}
	if read[1] > read[0]*11/10 {
		t.Errorf("a dispatch reads %d bytes, and %d after ten more proposals", read[0], read[1])
	}
}

func TestAdminRefuses(t *testing.T) {
	w := newWorld(t, "M9")
	for name, e := range map[string]api.Event{
		"unknown kind":     {Kind: "promote"},
		"enrol nobody":     {Kind: api.EventEnrol},
		"no id":            {Kind: api.EventEnrol, Principal: &api.Principal{Role: api.RoleAgent, Token: "a-token-of-its-own"}},
		"label of no tool": {Kind: api.EventRiskLabel, Subject: "bank.example/Pay", Value: "denied"},
		"no token":         {Kind: api.EventEnrol, Principal: &api.Principal{ID: "n", Role: api.RoleAgent}},
		"no role":          {Kind: api.EventEnrol, Principal: &api.Principal{ID: "n", Token: "a-token-of-its-own"}},
		"control in id":    {Kind: api.EventEnrol, Principal: &api.Principal{ID: "n\n", Role: api.RoleAgent, Token: "a-token-of-its-own"}},
		"key no JWK":       {Kind: api.EventEnrol, Principal: &api.Principal{ID: "n", Role: api.RoleAgent, Token: "a-token-of-its-own", Key: []byte("{}")}},
		"no policy":        {Kind: api.EventPolicyChange},
		"no label":         {Kind: api.EventRiskLabel, Subject: "bank.example/pay"},
		"no tool to label": {Kind: api.EventRiskLabel, Value: "low"},
		"nobody needed":    {Kind: api.EventApprovals, Subject: "bank.example/pay", Value: "0"},
		"no number":        {Kind: api.EventApprovals, Subject: "bank.example/pay", Value: ":"},
		"too many needed":  {Kind: api.EventApprovals, Subject: "bank.example/pay", Value: "10"},
		"needed for what":  {Kind: api.EventApprovals, Subject: "bank.example/launch", Value: "2"},
		"no bounds":        {Kind: api.EventAllowRunWide, Subject: "bank.example/pay"},
		"no time":          {Kind: api.EventAllowRunWide, Subject: "bank.example/pay", Value: "3"},
		"no calls":         {Kind: api.EventAllowRunWide, Subject: "bank.example/pay", Value: "10m"},
		"one call":         {Kind: api.EventAllowRunWide, Subject: "bank.example/pay", Value: "1 10m"},
		"far too many":     {Kind: api.EventAllowRunWide, Subject: "bank.example/pay", Value: "99999999999999999999 10m"},
		"too many calls":   {Kind: api.EventAllowRunWide, Subject: "bank.example/pay", Value: "100 10m"},
		"too long":         {Kind: api.EventAllowRunWide, Subject: "bank.example/pay", Value: "3 24h1s"},
		"too short":        {Kind: api.EventAllowRunWide, Subject: "bank.example/pay", Value: "3 0s"},
		"part of a second": {Kind: api.EventAllowRunWide, Subject: "bank.example/pay", Value: "3 1500ms"},
		"bounds of what":   {Kind: api.EventAllowRunWide, Subject: "bank.example/launch", Value: "3 10m"},
		"forbidden what":   {Kind: api.EventForbidRunWide, Subject: "bank.example/launch"},
		"no reason":        {Kind: api.EventAllowSelfApproval, Subject: "requester-r", Value: " "},
		"agent opts out":   {Kind: api.EventAllowSelfApproval, Subject: "agent-a", Value: "one-person team"},
	} {
		if err := w.target.Admin(ctx, auth("admin"), e); !errors.Is(err, api.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, p := range map[string]api.Principal{
		"same id":    {ID: "agent-a", Role: api.RoleAgent, Token: "a-token-of-its-own"},
		"same token": {ID: "agent-n", Role: api.RoleAgent, Token: token("agent-a")},
	} {
		if err := w.target.Admin(ctx, auth("admin"), api.Event{Kind: api.EventEnrol, Principal: &p}); !errors.Is(err, api.ErrConflict) || strings.Contains(err.Error(), "row") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for range 2 { // a repeated event is harmless
		must(t, w.target.Admin(ctx, auth("admin"), api.Event{Kind: api.EventDisableAgent, Subject: "agent-b"}))
	}
}

// TestOneEnrolment: an enrolment begun before the owner's adds nothing after it.
func TestOneEnrolment(t *testing.T) {
	w := newWorld(t, "M9")
	w.removePasskeys("approver-p")
	var responses []json.RawMessage
	for range 2 {
		options, err := w.target.BeginEnrolment(ctx, auth("approver-p"))
		must(t, err)
		response, err := softkey.New(origin).Register(options)
		must(t, err)
		responses = append(responses, response)
	}
	must(t, w.target.FinishEnrolment(ctx, auth("approver-p"), responses[1]))
	if err := w.target.FinishEnrolment(ctx, auth("approver-p"), responses[0]); !errors.Is(err, api.ErrForbidden) {
		t.Errorf("the older enrolment is finished, too: %v", err)
	}
}

// TestEnrolment: a challenge is good for one passkey of the person it was made for.
func TestEnrolment(t *testing.T) {
	w := newWorld(t, "M9")
	if _, err := w.target.BeginEnrolment(ctx, auth("approver-p")); !errors.Is(err, api.ErrForbidden) {
		t.Errorf("a second passkey beside the first: %v", err)
	}
	w.removePasskeys("approver-p")
	options, err := w.target.BeginEnrolment(ctx, auth("approver-p"))
	must(t, err)
	response, err := softkey.New(origin).Register(options)
	must(t, err)
	if err := w.target.FinishEnrolment(ctx, auth("approver-2"), response); err == nil {
		t.Error("another person finishes the enrolment")
	}
	must(t, w.target.FinishEnrolment(ctx, auth("approver-p"), response))
	w.removePasskeys("approver-p")
	if err := w.target.FinishEnrolment(ctx, auth("approver-p"), response); !errors.Is(err, api.ErrConflict) {
		t.Errorf("the same challenge again: %v", err)
	}
	if _, err := w.target.BeginEnrolment(ctx, auth("approver-p")); err != nil {
		t.Error(err)
	}
	if err := w.target.FinishEnrolment(ctx, auth("approver-p"), json.RawMessage(`{`)); !errors.Is(err, api.ErrInvalid) {
		t.Errorf("nonsense: %v", err)
	}
}

func TestDecide(t *testing.T) {
	tests := []struct {
		name string
		do   func(w *world, id string) error
		want string // refusals, or part of the error
	}{
		{"honest", func(w *world, id string) error { return w.decide(id, "approver-p", api.Approve) }, "<nil>"},
		{"no verdict", func(w *world, id string) error {
			return w.target.Decide(ctx, auth("approver-p"), api.Decision{Suspension: id})
		}, "invalid"},
		{"no assertion", func(w *world, id string) error {
			return w.target.Decide(ctx, auth("approver-p"), api.Decision{Suspension: id, Verdict: api.Approve})
		}, "attest/absent"},
		{"unreadable assertion", func(w *world, id string) error {
			return w.target.Decide(ctx, auth("approver-p"), api.Decision{Suspension: id, Verdict: api.Approve, Assertion: []byte(`{`)})
		}, "attest/malformed"},
		{"assertion of another suspension", func(w *world, id string) error {
			other := w.pending(w.action("pay", 2))
			return w.target.Decide(ctx, auth("approver-p"), api.Decision{Suspension: id, Verdict: api.Approve, Assertion: w.assertion(other, "approver-p")})
		}, "attest/challenge"},
		{"passkey that nobody enrolled", func(w *world, id string) error {
			return w.forged(id, softkey.Forgery{UnregisteredKey: true})
		}, "attest/credential"},
		{"counter that went back", func(w *world, id string) error {
			must(w.t, w.decide(w.pending(w.action("pay", 2)), "approver-p", api.Approve))
			zero := uint32(1)
			return w.forged(id, softkey.Forgery{Counter: &zero})
		}, "attest/counter"},
		{"the requester", func(w *world, id string) error { return w.decide(id, "requester-r", api.Approve) }, "duties/requester"},
		{"the agent", func(w *world, id string) error {
			return w.target.Decide(ctx, auth("agent-a"), api.Decision{Suspension: id, Verdict: api.Approve})
		}, "attest/absent duties/self"},
		{"too late", func(w *world, id string) error { w.clock.add(ttl); return w.decide(id, "approver-p", api.Approve) }, "expiry/expired"},
		{"in time", func(w *world, id string) error {
			w.clock.add(ttl - time.Second)
			return w.decide(id, "approver-p", api.Approve)
		}, "<nil>"},
		{"no is never too late", func(w *world, id string) error { w.clock.add(ttl); return w.decide(id, "approver-p", api.Decline) }, "<nil>"},
		{"no needs no passkey", func(w *world, id string) error { return w.decide(id, "requester-r", api.Decline) }, "<nil>"},
		{"clock ran back", func(w *world, id string) error {
			w.clock.add(-time.Second)
			return w.decide(id, "approver-p", api.Approve)
		}, "expiry/clock"},
		{"suspended again", func(w *world, id string) error {
			a := w.action("pay", 2)
			first := w.pending(a)
			w.pending(a)
			return w.decide(first, "approver-p", api.Approve)
		}, "suspension/differs"},
		{"removed passkey", func(w *world, id string) error {
			assertion := w.assertion(id, "approver-p")
			w.removePasskeys("approver-p")
			return w.target.Decide(ctx, auth("approver-p"), api.Decision{Suspension: id, Verdict: api.Approve, Assertion: assertion})
		}, "attest/credential"},
		{"no audit", func(w *world, id string) error {
			a := w.assertion(id, "approver-p")
			w.lab.Fault(api.DepAudit, api.FaultDown)
			return w.target.Decide(ctx, auth("approver-p"), api.Decision{Suspension: id, Verdict: api.Approve, Assertion: a})
		}, "closed/unavailable"},
		{"no store", func(w *world, id string) error {
			a := w.assertion(id, "approver-p")
			w.lab.Fault(api.DepStore, api.FaultDown)
			return w.target.Decide(ctx, auth("approver-p"), api.Decision{Suspension: id, Verdict: api.Approve, Assertion: a})
		}, "unavailable"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, "M9")
			a := w.action("pay", 1)
			id := w.pending(a)
			err := tt.do(w, id)
			if got := refusedBy(err); got != tt.want && !strings.Contains(got, tt.want) {
				t.Errorf("%s, want %s", got, tt.want)
			}
			w.lab.Fault(api.DepAudit, api.FaultNone)
			w.lab.Fault(api.DepStore, api.FaultNone)
			st, serr := w.target.Status(ctx, auth("agent-a"), id)
			must(t, serr)
			if err != nil && st.Decided {
				t.Error("a refused decision was recorded")
			}
		})
	}
}

func (w *world) forged(suspension string, f softkey.Forgery) error {
	w.t.Helper()
	v, err := w.target.View(ctx, auth("approver-p"), suspension)
	must(w.t, err)
	a, err := w.keys["approver-p"].Forge(v.Assertion, f)
	must(w.t, err)
	return w.target.Decide(ctx, auth("approver-p"), api.Decision{Suspension: suspension, Verdict: api.Approve, Assertion: a})
}

// TestOneDecision: what is decided stays decided, either way.
func TestOneDecision(t *testing.T) {
	for _, first := range []api.Verdict{api.Approve, api.Decline} {
		w := newWorld(t, "M9")
		a := w.action("pay", 1)
		id := w.pending(a)
		must(t, w.decide(id, "approver-p", first))
		for _, again := range []api.Verdict{api.Approve, api.Decline} {
			for _, person := range []string{"approver-p", "approver-2"} {
				if err := w.decide(id, person, again); !errors.Is(err, api.ErrConflict) {
					t.Errorf("%s after %s by %s: %v", again, first, person, err)
				}
			}
		}
		st, err := w.target.Status(ctx, auth("agent-a"), id)
		must(t, err)
		if st.Verdict != first || (first == api.Decline) != (st.Carried.Permit == "") {
			t.Errorf("after %s: %+v", first, st)
		}
	}
}

// TestDeclined: after a no there is nothing to dispatch, whatever is carried.
func TestDeclined(t *testing.T) {
	w := newWorld(t, "M9")
	a := w.action("pay", 1)
	id := w.pending(a)
	must(t, w.decide(id, "approver-p", api.Decline))
	d := w.collect(a, id)
	honest := w.approved(w.action("pay", 1))
	for name, carried := range map[string]api.Carried{
		"nothing": {}, "what is offered": d.Carried, "a flag": {Approved: true}, "another's": honest.Carried,
	} {
		if o := w.dispatch(api.Dispatch{Action: a, Carried: carried}); o.Status != api.Refused {
			t.Errorf("with %s: %s", name, o.Status)
		}
	}
	if n := len(w.prov.Ledger()); n != 0 {
		t.Errorf("%d effects", n)
	}
}

// TestStrictBeforeSuspension: what has two readings is refused before anybody is
// asked, in a design that binds the reading, and asked about in one that does not.
func TestStrictBeforeSuspension(t *testing.T) {
	for name, text := range map[string]string{
		"duplicate_key":  `{"supplier":"s-1","amount":1,"amount":2}`,
		"case_variant":   `{"supplier":"s-1","amount":1,"Amount":2}`,
		"unknown_field":  `{"supplier":"s-1","amount":1,"to":"me"}`,
		"number_range":   `{"supplier":"s-1","amount":9007199254740993}`,
		"lone_surrogate": `{"supplier":"s-1","amount":1,"memo":"\ud800"}`,
		"missing_field":  `{"supplier":"s-1"}`,
		"null":           `{"supplier":"s-1","amount":1,"memo":null}`,
		"type":           `{"supplier":"s-1","amount":"1"}`,
		"syntax":         `{"supplier"`,
		"trailing":       `{"supplier":"s-1","amount":1}{}`,
	} {
		w := newWorld(t, "M9")
		a := w.action("pay", 1)
		honest := w.approved(a)
		a.Arguments = []byte(text)
		_, err := w.target.Propose(ctx, auth("agent-a"), a)
		if got := refusedBy(err); got != "strict/"+name {
			t.Errorf("%s: proposing: %s", name, got)
		}
		if _, err := w.target.Preview(ctx, auth("agent-a"), a); refusedBy(err) != "strict/"+name {
			t.Errorf("%s: previewing: %v", name, err)
		}
		honest.Action.Arguments = a.Arguments
		if o := w.dispatch(honest); o.Status != api.Refused || !strings.Contains(codes(o.Refusals), "strict/"+name) {
			t.Errorf("%s: dispatching: %s %s", name, o.Status, codes(o.Refusals))
		}
		if n := len(w.entries()); n == 0 {
			t.Error("no audit")
		}
	}
	w := newWorld(t, "M3")
	a := w.action("pay", 1)
	a.Arguments = []byte(`{"supplier":"s-1","amount":1,"amount":2}`)
	w.pending(a)
}

// TestGating: what needs approval is read from the tool table.
func TestGating(t *testing.T) {
	w := newWorld(t, "M9")
	read, change := w.action("read", 1), w.action("set_supplier", 1)
	change.Arguments = []byte(`{"id":"s-1","account":"LT1"}`)
	hinted := w.action("pay", 1)
	hinted.Hints = api.Hints{ReadOnly: true, DryRun: true}
	for name, tt := range map[string]struct {
		a    api.Action
		want api.PendingState
	}{"read": {read, api.StateExempt}, "reference": {change, api.StatePending}, "hinted": {hinted, api.StatePending}} {
		p, err := w.target.Propose(ctx, auth("agent-a"), tt.a)
		if err != nil || p.State != tt.want || (p.Suspension != "") != (tt.want == api.StatePending) {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	w.expect("a hint", api.Dispatch{Action: hinted}, api.Refused, codes(w.dispatch(api.Dispatch{Action: hinted}).Refusals), 0)
	w.expect("reading", api.Dispatch{Action: read}, api.Executed, "", 0)
	unknown := w.action("launch", 1)
	if _, err := w.target.Propose(ctx, auth("agent-a"), unknown); !errors.Is(err, api.ErrInvalid) {
		t.Errorf("unknown tool: %v", err)
	}
	if _, err := w.present(w.target, "agent-a", api.Dispatch{Action: read, Siblings: []api.Action{unknown}}); !errors.Is(err, api.ErrInvalid) {
		t.Errorf("unknown tool as a sibling: %v", err)
	}
	if _, err := w.present(w.target, "agent-a", api.Dispatch{Action: read, Siblings: make([]api.Action, 1000)}); !errors.Is(err, api.ErrInvalid) {
		t.Errorf("a thousand siblings: %v", err)
	}
	// Without mediated or steer the same calls go through.
	w = newWorld(t, "M9-mediated-steer")
	w.expect("a hint believed", api.Dispatch{Action: hinted}, api.Executed, "", 1)
	w.expect("reference data", api.Dispatch{Action: change}, api.Executed, "", 2)
}

// TestSiblings: each call is asked for by itself with percall, and lets the rest
// of the step run without.
func TestSiblings(t *testing.T) {
	for mode, want := range map[string]api.Status{"M9": api.Refused, "M9-percall": api.Executed} {
		w := newWorld(t, mode)
		d := w.approved(w.action("pay", 1))
		d.Siblings = []api.Action{w.action("pay", 2)}
		o := w.dispatch(d)
		if o.Status != api.Executed || len(o.Siblings) != 1 || o.Siblings[0].Status != want {
			t.Errorf("%s: %+v", mode, o)
		}
	}
}

// TestDependenciesDown: with one of them down nothing is executed and the dispatch
// waits; once it is back, the same approval does.
func TestDependenciesDown(t *testing.T) {
	for _, dep := range []api.Dependency{api.DepStore, api.DepPolicy, api.DepAudit, api.DepClock, api.DepIdentity} {
		w := newWorld(t, "M9")
		d := w.approved(w.action("pay", 1))
		down := func(is bool) {
			w.lab.Fault(dep, map[bool]api.Fault{true: api.FaultDown}[is])
			if dep == api.DepClock {
				w.clock.stop(is)
			}
		}
		down(true)
		o := w.dispatch(d)
		if o.Status != api.Held && (dep != api.DepStore && dep != api.DepIdentity || o.Status != api.Refused) || len(w.prov.Ledger()) != 0 {
			t.Errorf("%s down: %s [%s], %d effects", dep, o.Status, codes(o.Refusals), len(w.prov.Ledger()))
		}
		if _, err := w.target.Propose(ctx, auth("agent-a"), w.action("pay", 2)); err == nil {
			t.Errorf("%s down: a proposal is accepted", dep)
		}
		down(false)
		w.expect(string(dep)+" up again", d, api.Executed, "", 1)
	}
}

func TestDescribe(t *testing.T) {
	for _, m := range modes.All() {
		w := newWorld(t, m.ID)
		about, err := w.target.Describe(ctx)
		if err != nil || about.Name != m.ID || about.Origin != origin || !slices.Equal(about.Claims, m.Bindings.List()) {
			t.Errorf("%s: %+v, %v", m.ID, about, err)
		}
		block, rest := pem.Decode([]byte(about.PermitKey))
		if block == nil || len(rest) > 0 || block.Type != "PUBLIC KEY" {
			t.Fatalf("%s: the key is published as %q", m.ID, about.PermitKey)
		}
		if _, err := x509.ParsePKIXPublicKey(block.Bytes); err != nil {
			t.Errorf("%s: %v", m.ID, err)
		}
	}
}

// TestHonestFlow: every mode executes what was approved, once.
func TestHonestFlow(t *testing.T) {
	for _, m := range modes.All() {
		w := newWorld(t, m.ID)
		for _, tool := range []string{"pay", "wire", "fax"} {
			a := w.action(tool, 1)
			p, err := w.target.Propose(ctx, auth("agent-a"), a)
			must(t, err)
			d := api.Dispatch{Action: a}
			if p.State == api.StatePending {
				must(t, w.decide(p.Suspension, "approver-p", api.Approve))
				d = w.collect(a, p.Suspension)
			}
			if o := w.dispatch(d); o.Status != api.Executed {
				t.Errorf("%s: %s: %s [%s]", m.ID, tool, o.Status, codes(o.Refusals))
			}
		}
		if n := len(w.prov.Ledger()); n != 3 {
			t.Errorf("%s: %d effects, want 3", m.ID, n)
		}
	}
}

func TestCancelled(t *testing.T) {
	w := newWorld(t, "M9")
	d := w.approved(w.action("pay", 1))
	proof, err := w.proof(d, 1)
	must(t, err)
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if o, err := w.target.Dispatch(gone, api.Auth{Token: token("agent-a"), Proof: proof}, d); err == nil && o.Status == api.Executed {
		t.Errorf("a cancelled call is executed: %+v", o)
	}
	if n := len(w.prov.Ledger()); n != 0 {
		t.Errorf("%d effects", n)
	}
}

// between is a store in which something happens once, before a row of a kind is
// read or made.
type between struct {
	store.Store
	op, kind string
	do       func()
}

func (b *between) at(op, kind string) {
	if f := b.do; f != nil && b.op == op && b.kind == kind {
		b.do = nil
		f()
	}
}

func (b *between) Get(ctx context.Context, kind, id string) (store.Row, error) {
	b.at("get", kind)
	return b.Store.Get(ctx, kind, id)
}

func (b *between) Create(ctx context.Context, r store.Row) (store.Row, error) {
	b.at("create", r.Kind)
	return b.Store.Create(ctx, r)
}

func (b *between) Update(ctx context.Context, r store.Row) (store.Row, error) {
	b.at("update", r.Kind)
	return b.Store.Update(ctx, r)
}

// TestTwoProposalsOfOneCall: of two that are stored at the same time the one
// suspended last counts, whichever is stored last.
func TestTwoProposalsOfOneCall(t *testing.T) {
	for _, op := range []string{"get", "create", "update"} {
		s := &between{Store: store.NewMemory(), op: op, kind: "place"}
		w := newWorldOn(t, "M9", s)
		a := w.action("pay", 1)
		if op == "update" {
			w.pending(a)
		}
		var newer string
		s.do = func() { newer = w.pending(a) }
		older := w.pending(a)
		for _, id := range []string{newer, older} {
			err := w.decide(id, "approver-p", api.Approve)
			if id == older {
				if refusedBy(err) != "suspension/differs" {
					t.Errorf("%s: the older is decided: %v", op, err)
				}
				continue
			}
			must(t, err)
		}
		w.expect(op+": the newer", w.collect(a, newer), api.Executed, "", 1)
	}
}

// TestNames: what is enrolled can be told from everything else that is, by whoever
// reads it.
func TestNames(t *testing.T) {
	w := newWorld(t, "M9")
	enrol := func(id, token string) error {
		return w.target.Admin(ctx, auth("admin"), api.Event{Kind: api.EventEnrol, Principal: &api.Principal{
			ID: id, Role: api.RolePerson, Tenant: "tenant-1", Approver: true, Token: token,
		}})
	}
	must(t, enrol("jos\u00e9", "a-token-of-its-own"))
	for i, id := range []string{"Approver-P", "\uff41pprover-p", "APPROVER-P", "Jose\u0301", "jose\u0301"} {
		if err := enrol(id, strings.Repeat("x", 20+i)); !errors.Is(err, api.ErrConflict) {
			t.Errorf("%q: %v, want a conflict", id, err)
		}
	}
	for i, id := range []string{
		" alice", "alice ", "ali\u00a0ce", "ali\u200bce", "\u202eecila", "ali\ufe0fce", "ali\u3164ce", "ali\xffce", "ali\x7fce", strings.Repeat("a", 129),
	} {
		if err := enrol(id, strings.Repeat("y", 20+i)); !errors.Is(err, api.ErrInvalid) {
			t.Errorf("%q: %v, want it invalid", id, err)
		}
	}
	if err := enrol("alice", strings.Repeat("z", 15)); !errors.Is(err, api.ErrInvalid) {
		t.Errorf("a token of 15 bytes: %v", err)
	}
	for i, id := range []string{"alice", "Anne Marie", "山田太郎", strings.Repeat("a", 128)} {
		if err := enrol(id, strings.Repeat("z", 16+i)); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
	if err := enrol("alice", "another-token-of-its-own"); !errors.Is(err, api.ErrConflict) {
		t.Errorf("alice once more: %v", err)
	}
}

// TestEnrolmentAgain: one that failed after the name was taken can be repeated.
func TestEnrolmentAgain(t *testing.T) {
	s := store.NewMemory()
	w := newWorldOn(t, "M9", s)
	p := api.Principal{ID: "alice", Role: api.RolePerson, Tenant: "tenant-1", Token: "a-token-of-its-own"}
	if _, err := s.Create(ctx, store.Row{Kind: "name", ID: "alice", Body: []byte(`"alice"`)}); err != nil {
		t.Fatal(err)
	}
	must(t, w.target.Admin(ctx, auth("admin"), api.Event{Kind: api.EventEnrol, Principal: &p}))
}
