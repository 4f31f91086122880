package httpapi

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"countersign/audit"
	"countersign/gateway"
	"countersign/gateway/api"
	"countersign/gateway/store"
	"countersign/modes"
	"countersign/oracles/softkey"
	"countersign/scenarios/provider"
)

// A site is the reference gateway with people and agents of two tenants, behind the
// handler, and one action of agent-a in each state.
type site struct {
	t      testing.TB
	rows   *writes
	log    *writesLog
	world  *provider.World
	h      http.Handler
	logged bytes.Buffer
	seen   []Observed
	keys   map[string]*softkey.Key
	proofs int

	waits, approved string // suspensions
	permit          api.Carried
}

// writes counts what changes a store.
type writes struct {
	store.Store
	mu sync.Mutex
	n  int
}

func (w *writes) count() { w.mu.Lock(); w.n++; w.mu.Unlock() }

func (w *writes) Create(ctx context.Context, r store.Row) (store.Row, error) {
	w.count()
	return w.Store.Create(ctx, r)
}

func (w *writes) Update(ctx context.Context, r store.Row) (store.Row, error) {
	w.count()
	return w.Store.Update(ctx, r)
}

func (w *writes) Next(ctx context.Context, name string) (int64, error) {
	w.count()
	return w.Store.Next(ctx, name)
}

// writesLog counts what is appended.
type writesLog struct {
	audit.Log
	n int
}

func (w *writesLog) Append(ctx context.Context, e api.AuditEntry) (api.AuditEntry, error) {
	w.n++
	return w.Log.Append(ctx, e)
}

const siteOrigin = "https://approve.example"

var agentKey = sync.OnceValue(func() *ecdsa.PrivateKey {
	seed := make([]byte, 32)
	seed[0] = 1
	k, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), seed)
	if err != nil {
		panic(err)
	}
	return k
})

func newSite(t testing.TB) *site {
	t.Helper()
	ctx := context.Background()
	fields := []api.Field{
		{Name: "to", Label: "To", Type: api.TypeString, Required: true, Material: true},
		{Name: "amount", Label: "Amount", Type: api.TypeInteger, Required: true, Material: true},
	}
	tools := []api.Tool{{Audience: "bank.example", Name: "pay", Title: "Pay", Class: api.ClassConsequential, Fields: fields, Summary: []string{"to"}, Risk: "high", Guarantee: api.GuaranteeIdempotent}}
	w, err := provider.New(provider.Config{Tools: tools, Records: provider.Records{}, Reader: "struct", Clock: stopped{}})
	must(t, err)
	mode, err := modes.Get("M9")
	must(t, err)
	keys, err := modes.NewKeys("https://gateway.example")
	must(t, err)
	s := &site{t: t, rows: &writes{Store: store.NewMemory()}, log: &writesLog{Log: audit.NewMemory()}, world: w, keys: map[string]*softkey.Key{}}
	g, err := gateway.New(ctx, gateway.Config{Mode: mode, Approvals: s.rows, Registry: s.rows, Audit: s.log, Keys: keys, Deployment: api.Deployment{
		Issuer: "https://gateway.example", Tools: tools, Provider: w, Directory: w, Clock: stopped{}, ApprovalTTL: time.Minute,
		AdminToken: tokenOf("admin"), AuditorToken: tokenOf("auditor"), Origin: siteOrigin, ProviderCredential: "credential", DispatchURI: "https://gate.example/v1/dispatch",
	}})
	must(t, err)
	s.h = handlerOf(t, Config{Target: g, Clock: stopped{}, Log: slog.New(slog.NewJSONHandler(&s.logged, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Observe: func(o Observed) { s.seen = append(s.seen, o) }})

	jwk, err := jose.JSONWebKey{Key: &agentKey().PublicKey}.MarshalJSON()
	must(t, err)
	for _, p := range []api.Principal{
		{ID: "agent-a", Role: api.RoleAgent, Tenant: "tenant-1", ActsFor: "requester", Key: jwk},
		{ID: "agent-b", Role: api.RoleAgent, Tenant: "tenant-1", ActsFor: "requester", Key: jwk},
		{ID: "agent-x", Role: api.RoleAgent, Tenant: "tenant-2", ActsFor: "requester-x", Key: jwk},
		{ID: "requester", Role: api.RolePerson, Tenant: "tenant-1"},
		{ID: "approver", Role: api.RolePerson, Tenant: "tenant-1", Approver: true},
		{ID: "person", Role: api.RolePerson, Tenant: "tenant-1"},
		{ID: "newcomer", Role: api.RolePerson, Tenant: "tenant-1", Approver: true},
		{ID: "approver-x", Role: api.RolePerson, Tenant: "tenant-2", Approver: true},
	} {
		p.Token = tokenOf(p.ID)
		s.must(s.post("admin", "/v1/admin/events", api.Event{Kind: api.EventEnrol, Principal: &p}))
		if p.Role == api.RolePerson && p.ID != "newcomer" {
			key := softkey.New(siteOrigin)
			response, err := key.Register(s.must(s.post(p.ID, "/v1/enrolment/begin", nil)).Body.Bytes())
			must(t, err)
			s.must(s.post(p.ID, "/v1/enrolment/finish", json.RawMessage(response)))
			s.keys[p.ID] = key
		}
	}
	s.must(s.post("admin", "/v1/admin/events", api.Event{Kind: api.EventAllowRunWide, Subject: "bank.example/pay", Value: "3 30s"}))
	s.waits, s.approved = s.propose("waits"), s.propose("approved")
	s.must(s.decide("approver", s.approved))
	var status api.SuspensionStatus
	must(t, json.Unmarshal(s.must(s.send("GET", "agent-a", "/v1/suspensions/"+s.approved, nil)).Body.Bytes(), &status))
	s.permit = status.Carried
	return s
}

func tokenOf(id string) string { return "the-token-of-" + id }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s *site) must(w *httptest.ResponseRecorder) *httptest.ResponseRecorder {
	s.t.Helper()
	if w.Code >= 300 {
		s.t.Fatalf("%d %s", w.Code, w.Body)
	}
	return w
}

func siteAction(call string) api.Action {
	return api.Action{Audience: "bank.example", Tool: "pay", Arguments: []byte(`{"to":"Brightwater","amount":1250}`), Run: "run-1", Step: "step-1", Call: call}
}

func (s *site) propose(call string) string {
	s.t.Helper()
	var p api.Pending
	must(s.t, json.Unmarshal(s.must(s.post("agent-a", "/v1/proposals", siteAction(call))).Body.Bytes(), &p))
	return p.Suspension
}

// yes is an honest approval by a person who has looked.
func (s *site) yes(person, suspension string) api.Decision {
	s.t.Helper()
	var v api.View
	must(s.t, json.Unmarshal(s.must(s.send("GET", "approver", "/v1/suspensions/"+suspension+"/view", nil)).Body.Bytes(), &v))
	d := api.Decision{Suspension: suspension, Verdict: api.Approve}
	if key := s.keys[person]; key != nil {
		d.Assertion, _ = key.Assert(v.Assertion) // none where the view asks for another's
	}
	return d
}

func (s *site) decide(person, suspension string) *httptest.ResponseRecorder {
	s.t.Helper()
	return s.post(person, "/v1/suspensions/"+suspension+"/decision", s.yes(person, suspension))
}

// proof is one by the agents' key.
func (s *site) proof(permit string) string {
	s.t.Helper()
	s.proofs++
	now, _ := stopped{}.Now()
	claims, err := json.Marshal(map[string]any{"jti": strconv.Itoa(s.proofs), "htm": "POST", "htu": "https://gate.example/v1/dispatch", "iat": now.Unix(), "ath": modes.AccessTokenHash(permit)})
	must(s.t, err)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: agentKey()}, (&jose.SignerOptions{EmbedJWK: true}).WithType("dpop+jwt"))
	must(s.t, err)
	j, err := signer.Sign(claims)
	must(s.t, err)
	text, err := j.CompactSerialize()
	must(s.t, err)
	return text
}

func (s *site) post(who, path string, body any) *httptest.ResponseRecorder {
	return s.send("POST", who, path, body)
}

func (s *site) send(method, who, path string, body any) *httptest.ResponseRecorder {
	s.t.Helper()
	return serveOne(s.h, s.request(method, path, body, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+tokenOf(who)) }))
}

func (s *site) request(method, path string, body any, change func(*http.Request)) *http.Request {
	s.t.Helper()
	var text []byte
	if body != nil {
		var err error
		text, err = encode(body)
		must(s.t, err)
	}
	r := httptest.NewRequest(method, path, bytes.NewReader(text))
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	change(r)
	return r
}

// callers are those who try every route: who they are and how they say so.
var callers = []struct {
	name   string
	header func() http.Header
}{
	{"nobody", func() http.Header { return http.Header{} }},
	{"malformed", func() http.Header { return http.Header{"Authorization": {"Bearer"}} }},
	{"other scheme", func() http.Header { return http.Header{"Authorization": {"Basic " + tokenOf("approver")}} }},
	{"unknown token", func() http.Header { return http.Header{"Authorization": {"Bearer nobody-has-this-token"}} }},
	{"agent-a", nil},    // it proposed
	{"agent-b", nil},    // of the same tenant, for the same person
	{"agent-x", nil},    // of another tenant
	{"requester", nil},  // on whose behalf
	{"approver", nil},   // who may decide
	{"person", nil},     // of the same tenant, who approves for nobody
	{"newcomer", nil},   // an approver without a passkey yet
	{"approver-x", nil}, // of another tenant
	{"admin", nil},
	{"auditor", nil},
}

// access has, for each operation, the status that each caller gets, in the order of
// callers: those without credentials first. Every agent and every person that is let
// in posts what the owner would, so that a status below 300 says that it may.
var access = map[string][]int{
	//                 no bad schm unkn | a    b    x   | req  appr pers new  x   | adm  aud
	"describe":        {200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200},
	"health":          {200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200},
	"ready":           {200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200},
	"document":        {200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200},
	"propose":         {401, 401, 401, 401, 200, 200, 200, 403, 403, 403, 403, 403, 403, 403},
	"preview":         {401, 401, 401, 401, 200, 200, 200, 403, 403, 403, 403, 403, 403, 403},
	"status":          {401, 401, 401, 401, 200, 404, 404, 403, 403, 403, 403, 403, 403, 403},
	"view":            {401, 401, 401, 401, 403, 403, 403, 200, 200, 200, 200, 404, 403, 403}, // a tenant's people read what waits in it
	"runWideView":     {401, 401, 401, 401, 403, 403, 403, 200, 200, 200, 200, 404, 403, 403},
	"decide":          {401, 401, 401, 401, 403, 403, 404, 403, 204, 403, 403, 404, 403, 403},
	"dispatch":        {401, 401, 401, 401, 200, 403, 403, 403, 403, 403, 403, 403, 403, 403}, // 403: an outcome, see below
	"beginEnrolment":  {401, 401, 401, 401, 403, 403, 403, 403, 403, 403, 200, 403, 403, 403}, // who has a passkey adds none
	"finishEnrolment": {401, 401, 401, 401, 403, 403, 403, 403, 403, 403, 204, 403, 403, 403},
	"admin":           {401, 401, 401, 401, 403, 403, 403, 403, 403, 403, 403, 403, 204, 403},
	"audit":           {401, 401, 401, 401, 403, 403, 403, 403, 403, 403, 403, 403, 403, 200},
}

// TestAccess tries every route as everybody. A route without a row fails, and so does
// a call that is refused and changes anything but the log.
func TestAccess(t *testing.T) {
	tried := 0
	for i := range routes {
		rt := &routes[i]
		row, ok := access[rt.operation]
		if !ok || len(row) != len(callers) {
			t.Errorf("%s %s has no row that says who may call it", rt.method, rt.path)
			continue
		}
		for n, caller := range callers {
			t.Run(rt.operation+"/"+caller.name, func(t *testing.T) {
				s := newSite(t)
				who := caller.name
				if caller.header != nil {
					who = "agent-a" // whose body it would be
				}
				body, proof := s.body(rt.operation, who)
				path := strings.Replace(rt.path, "{id}", s.waits, 1)
				if rt.operation == "status" {
					path = strings.Replace(rt.path, "{id}", s.approved, 1)
				}
				before, effects := s.rows.n, len(s.world.Ledger())
				w := serveOne(s.h, s.request(rt.method, path, body, func(r *http.Request) {
					if caller.header != nil {
						for name, values := range caller.header() {
							r.Header[name] = values
						}
						return
					}
					r.Header.Set("Authorization", "Bearer "+tokenOf(who))
					if proof != "" {
						r.Header.Set("DPoP", proof)
					}
				}))
				status := w.Code
				if rt.operation == "dispatch" && status == http.StatusOK {
					var o api.Outcome
					must(t, json.Unmarshal(w.Body.Bytes(), &o))
					if o.Status == api.Refused { // a refusal of a dispatch is its outcome
						status = http.StatusForbidden
					}
				}
				if status != row[n] {
					t.Errorf("%d %s, want %d", w.Code, w.Body, row[n])
				}
				made := len(s.world.Ledger()) - effects
				if want := rt.operation == "dispatch" && row[n] == 200; (made == 1) != want || made > 1 {
					t.Errorf("%d effects", made)
				}
				if changed := s.rows.n - before; row[n] >= 400 && changed != 0 && !keepsTime(rt.operation, row[n]) {
					t.Errorf("%d writes to the store, and it is refused", changed)
				}
				if named := s.seen[len(s.seen)-1].Principal; (named != "") != (!rt.open && caller.header == nil) {
					t.Errorf("the log names %q", named)
				}
				if strings.Contains(w.Body.String(), "Brightwater") && row[n] >= 300 {
					t.Errorf("a refusal says what is asked for: %s", w.Body)
				}
			})
			tried++
		}
	}
	for operation := range access {
		if !slices.ContainsFunc(routes, func(r route) bool { return r.operation == operation }) {
			t.Errorf("there is a row for %s, and no such route", operation)
		}
	}
	if want := 14 * len(routes); tried != want {
		t.Errorf("%d of %d cells were tried", tried, want)
	}
}

// keepsTime: judging a decision or a dispatch stores how late it is.
func keepsTime(operation string, status int) bool {
	return status == http.StatusForbidden && (operation == "decide" || operation == "dispatch")
}

// body is what a caller posts to an operation, as good as it can be made, and the
// proof that goes with it.
func (s *site) body(operation, who string) (body any, proof string) {
	s.t.Helper()
	switch operation {
	case "propose", "preview":
		return siteAction("another"), ""
	case "runWideView":
		now, _ := stopped{}.Now()
		return api.RunWide{Uses: 2, Until: now.Add(20 * time.Second)}, ""
	case "decide":
		return s.yes(who, s.waits), ""
	case "dispatch":
		return api.Dispatch{Action: siteAction("approved"), Carried: s.permit, RequestID: "request"}, s.proof(s.permit.Permit)
	case "finishEnrolment":
		if who != "newcomer" {
			return json.RawMessage(`{}`), ""
		}
		response, err := softkey.New(siteOrigin).Register(s.must(s.post(who, "/v1/enrolment/begin", nil)).Body.Bytes())
		must(s.t, err)
		return json.RawMessage(response), ""
	case "admin":
		return api.Event{Kind: api.EventPolicyChange, Value: "policy-2"}, ""
	}
	return nil, ""
}

// TestReadingChangesNothing: no address that answers to GET changes anything in the
// store, the log or the world, for whoever calls it, before and after the decision.
func TestReadingChangesNothing(t *testing.T) {
	s := newSite(t)
	read := 0
	for i := range routes {
		rt := &routes[i]
		if rt.method != "GET" {
			continue
		}
		for _, id := range []string{s.waits, s.approved, "s-999999"} {
			for _, who := range []string{"agent-a", "agent-b", "approver", "requester", "admin", "auditor"} {
				for _, method := range []string{"GET", "HEAD"} {
					rows, log, effects := s.rows.n, s.log.n, len(s.world.Ledger())
					w := s.send(method, who, strings.Replace(rt.path, "{id}", id, 1), nil)
					if s.rows.n != rows || s.log.n != log || len(s.world.Ledger()) != effects {
						t.Errorf("%s %s as %s (%d): %d writes to the store, %d to the log", method, rt.path, who, w.Code, s.rows.n-rows, s.log.n-log)
					}
					if w.Code == 200 {
						read++
					}
				}
			}
		}
	}
	if read < 50 {
		t.Errorf("%d reads were answered", read)
	}
	if got := s.send("GET", "approver", "/v1/suspensions/"+s.waits+"/decision", nil).Code; got != http.StatusMethodNotAllowed {
		t.Errorf("a decision by GET: %d", got)
	}
	s.must(s.decide("approver", s.waits)) // it still waits
}

// TestWhoMayDecline: a request is ended by who may approve it, by whom it is made for,
// and by the agent that made it; by a person without a passkey too.
func TestWhoMayDecline(t *testing.T) {
	want := []int{401, 401, 401, 401, 204, 403, 404, 204, 204, 403, 204, 404, 403, 403}
	for n, caller := range callers {
		s := newSite(t)
		before := s.rows.n
		w := serveOne(s.h, s.request("POST", "/v1/suspensions/"+s.waits+"/decision", api.Decision{Suspension: s.waits, Verdict: api.Decline}, func(r *http.Request) {
			r.Header.Set("Authorization", "Bearer "+tokenOf(caller.name))
			if caller.header != nil {
				r.Header = caller.header()
				r.Header.Set("Content-Type", "application/json")
			}
		}))
		if w.Code != want[n] {
			t.Errorf("%s: %d %s, want %d", caller.name, w.Code, w.Body, want[n])
		}
		if changed := s.rows.n != before; changed && want[n] >= 400 {
			t.Errorf("%s: refused, and the store is written", caller.name)
		}
		if got := s.decide("approver", s.waits).Code; (got == http.StatusNoContent) != (want[n] >= 400) {
			t.Errorf("%s: an approval afterwards: %d", caller.name, got)
		}
	}
}

// TestReadiness: what does not answer is named, and no more is said of it.
func TestReadiness(t *testing.T) {
	for _, tt := range []struct {
		failing []api.Dependency
		status  int
		body    string
	}{
		{nil, 200, `{"status":"ok"}`},
		{[]api.Dependency{api.DepStore, api.DepClock}, 503, `{"status":"unavailable","failing":["store","clock"]}`},
	} {
		h := handlerOf(t, Config{Target: &dependent{failing: tt.failing}})
		w := serveOne(h, httptest.NewRequest("GET", "/readyz", nil))
		if w.Code != tt.status || strings.TrimSpace(w.Body.String()) != tt.body {
			t.Errorf("failing %v: %d %s, want %d %s", tt.failing, w.Code, w.Body, tt.status, tt.body)
		}
		if w := serveOne(h, httptest.NewRequest("GET", "/healthz", nil)); w.Code != 200 {
			t.Errorf("failing %v: the process does not answer: %d", tt.failing, w.Code)
		}
	}
	// A target that cannot tell is asked what it is.
	w := serveOne(handlerOf(t, Config{Target: &fake{err: errors.New("pq: password of user gate is wrong")}}), httptest.NewRequest("GET", "/readyz", nil))
	if w.Code != 503 || strings.TrimSpace(w.Body.String()) != `{"status":"unavailable"}` {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// dependent is a target that knows what it depends on.
type dependent struct {
	fake
	failing []api.Dependency
}

func (d *dependent) Ready(context.Context) []api.Dependency { return d.failing }
