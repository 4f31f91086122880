package gateway_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"

	"countersign/audit"
	"countersign/gateway/api"
	"countersign/gateway/lab"
	"countersign/gateway/store"
	"countersign/modes"
	"countersign/oracles/softkey"
	"countersign/scenarios/provider"
)

const (
	issuer     = "https://gateway.example"
	origin     = "https://approve.example"
	credential = "credential-of-the-gateway"
	adminToken = "token-of-the-admin"
	auditToken = "token-of-the-auditor"
	ttl        = 15 * time.Minute
)

var (
	ctx   = context.Background()
	start = time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)
)

// tb is what tests, benchmarks and the tests of rapid have in common.
type tb interface {
	Helper()
	Error(...any)
	Errorf(string, ...any)
	Fatal(...any)
	Fatalf(string, ...any)
}

// tools is a small table with one tool of each guarantee and class.
func tools() []api.Tool {
	fields := []api.Field{
		{Name: "supplier", Label: "Supplier", Type: api.TypeString, Required: true, Material: true, Reference: "supplier"},
		{Name: "amount", Label: "Amount", Type: api.TypeInteger, Required: true, Material: true},
		{Name: "memo", Label: "Statement text", Type: api.TypeString, Material: true},
		{Name: "tags", Label: "Tags", Type: api.TypeStrings, Material: true},
		{Name: "check", Label: "Name check", Type: api.TypeString, Default: `"skip"`, Material: true},
	}
	tool := func(audience, name string, class api.ToolClass, g api.Guarantee) api.Tool {
		return api.Tool{Audience: audience, Name: name, Title: "Pay a supplier", Class: class, Fields: fields, Summary: []string{"supplier", "amount"}, Risk: "high", Guarantee: g}
	}
	change := api.Tool{
		Audience: "bank.example", Name: "set_supplier", Title: "Change a supplier", Class: api.ClassReference, Changes: "supplier", Risk: "high",
		Guarantee: api.GuaranteeIdempotent, Summary: []string{"id"}, Fields: []api.Field{
			{Name: "id", Label: "Supplier", Type: api.TypeString, Required: true, Material: true},
			{Name: "account", Label: "Account", Type: api.TypeString, Material: true},
		},
	}
	return []api.Tool{
		tool("bank.example", "pay", api.ClassConsequential, api.GuaranteeIdempotent),
		tool("bank.example", "wire", api.ClassConsequential, api.GuaranteeLookup),
		tool("bank.example", "fax", api.ClassConsequential, api.GuaranteeNone),
		tool("bank.example", "read", api.ClassRead, api.GuaranteeNone),
		tool("payroll.example", "pay", api.ClassConsequential, api.GuaranteeIdempotent),
		change,
	}
}

func records() provider.Records {
	record := func(name, account string) map[string]json.RawMessage {
		return map[string]json.RawMessage{"name": json.RawMessage(`"` + name + `"`), "account": json.RawMessage(`"` + account + `"`)}
	}
	return provider.Records{"supplier": {"s-1": record("Brightwater", "GB33BUKB20201555555555"), "s-2": record("Northgate", "GB94BARC10201530093459")}}
}

// testClock is moved by hand. When it is down, what it says with its error is ahead
// of the time.
type testClock struct {
	mu   sync.Mutex
	now  time.Time
	down bool
}

func (c *testClock) Now() (time.Time, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down {
		return c.now.Add(24 * time.Hour), errors.New("the clock is missing")
	}
	return c.now, nil
}

func (c *testClock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func (c *testClock) stop(down bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = down
}

// hooked is a provider that counts its effects, and on whose calls something else
// may happen.
type hooked struct {
	*provider.World
	effects   atomic.Int64
	body      atomic.Value // the newest, as it was sent
	onLookup  func()
	onExecute func(r api.ProviderRequest) error // an error is all that the caller gets
	behind    atomic.Int64                      // by how much the provider's clock is, in nanoseconds
}

// providersClock shows the time of a world's clock, which never stops here.
type providersClock struct {
	c *testClock
	h *hooked
}

func (p providersClock) Now() (time.Time, error) {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	return p.c.now.Add(-time.Duration(p.h.behind.Load())), nil
}

func (h *hooked) Execute(ctx context.Context, r api.ProviderRequest) (api.ProviderResult, error) {
	h.body.Store(string(r.Body))
	if f := h.onExecute; f != nil {
		h.onExecute = nil
		if err := f(r); err != nil {
			return api.ProviderResult{}, err
		}
	}
	res, err := h.World.Execute(ctx, r)
	if err == nil && res.Status < 400 && !res.Replayed {
		h.effects.Add(1)
	}
	return res, err
}

func (h *hooked) Lookup(ctx context.Context, q api.LookupQuery) (api.ProviderResult, bool, error) {
	res, found, err := h.World.Lookup(ctx, q)
	if f := h.onLookup; f != nil {
		h.onLookup = nil
		f()
	}
	return res, found, err
}

// world is a gateway with everything around it.
type world struct {
	t          tb
	clock      *testClock
	prov       *hooked
	target     api.Target
	lab        api.Lab
	deployment api.Deployment
	keys       map[string]*softkey.Key
	calls      int
	proofs     atomic.Int64
}

var agentKey = sync.OnceValue(func() *ecdsa.PrivateKey {
	seed := make([]byte, 32)
	seed[0] = 1
	k, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), seed)
	if err != nil {
		panic(err)
	}
	return k
})

// prover signs proofs; all agents of these tests share the key, so that only the
// caller's identity tells them apart.
var prover = sync.OnceValue(func() jose.Signer {
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: agentKey()}, (&jose.SignerOptions{EmbedJWK: true}).WithType("dpop+jwt"))
	if err != nil {
		panic(err)
	}
	return s
})

func people() []api.Principal {
	jwk, err := jose.JSONWebKey{Key: &agentKey().PublicKey}.MarshalJSON()
	if err != nil {
		panic(err)
	}
	return []api.Principal{
		{ID: "agent-a", Role: api.RoleAgent, Tenant: "tenant-1", ActsFor: "requester-r", Key: jwk},
		{ID: "agent-b", Role: api.RoleAgent, Tenant: "tenant-1", ActsFor: "requester-r", Key: jwk},
		{ID: "agent-x", Role: api.RoleAgent, Tenant: "tenant-2", ActsFor: "requester-x", Key: jwk},
		{ID: "requester-r", Role: api.RolePerson, Tenant: "tenant-1", Approver: true},
		{ID: "approver-p", Role: api.RolePerson, Tenant: "tenant-1", Approver: true},
		{ID: "approver-2", Role: api.RolePerson, Tenant: "tenant-1", Approver: true},
		{ID: "approver-x", Role: api.RolePerson, Tenant: "tenant-2", Approver: true},
	}
}

func token(id string) string { return "the-token-of-" + id }

func auth(id string) api.Auth {
	switch id {
	case "admin":
		return api.Auth{Token: adminToken}
	case "auditor":
		return api.Auth{Token: auditToken}
	}
	return api.Auth{Token: token(id)}
}

// deployment is a fresh world without a gateway in it.
func deployment(t tb) (api.Deployment, *testClock, *hooked) {
	t.Helper()
	clock := &testClock{now: start}
	p := &hooked{}
	w, err := provider.New(provider.Config{
		Tools: tools(), Records: records(), Reader: "struct", Clock: providersClock{clock, p},
		Delay: func(_ context.Context, d time.Duration) { clock.add(d) },
	})
	must(t, err)
	p.World = w
	return api.Deployment{
		Issuer: issuer, Tools: tools(), Provider: p, Directory: p, Clock: clock, ApprovalTTL: ttl,
		AdminToken: adminToken, AuditorToken: auditToken, Origin: origin, ProviderCredential: credential,
	}, clock, p
}

func newWorld(t tb, mode string) *world { return newWorldOn(t, mode, store.NewMemory()) }

func newWorldOn(t tb, mode string, s store.Store) *world {
	t.Helper()
	return newWorldWith(t, mode, s, func(*api.Deployment) {})
}

func newWorldWith(t tb, mode string, s store.Store, change func(*api.Deployment)) *world {
	t.Helper()
	m, err := modes.Get(mode)
	must(t, err)
	w := &world{t: t, keys: map[string]*softkey.Key{}}
	w.deployment, w.clock, w.prov = deployment(t)
	change(&w.deployment)
	bench, err := lab.DeployOn(m, s)(ctx, w.deployment)
	must(t, err)
	w.target, w.lab = bench.Target, bench.Lab
	for _, p := range people() {
		w.enrol(p)
	}
	return w
}

func (w *world) enrol(p api.Principal) {
	w.t.Helper()
	p.Token = token(p.ID)
	must(w.t, w.target.Admin(ctx, auth("admin"), api.Event{Kind: api.EventEnrol, Principal: &p}))
	if p.Role == api.RolePerson {
		key := softkey.New(origin)
		options, err := w.target.BeginEnrolment(ctx, auth(p.ID))
		must(w.t, err)
		response, err := key.Register(options)
		must(w.t, err)
		must(w.t, w.target.FinishEnrolment(ctx, auth(p.ID), response))
		w.keys[p.ID] = key
	}
}

func must(t tb, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// action is a fresh call of a tool at the bank.
func (w *world) action(tool string, amount int) api.Action {
	w.calls++
	id := fmt.Sprint(w.calls)
	return api.Action{
		Audience: "bank.example", Tool: tool, Arguments: fmt.Appendf(nil, `{"supplier":"s-1","amount":%d,"memo":"invoice"}`, amount),
		Run: "run-1", Step: "step-" + id, Call: "call-" + id,
	}
}

// pending is a proposal that waits for a decision.
func (w *world) pending(a api.Action) string {
	w.t.Helper()
	p, err := w.target.Propose(ctx, auth("agent-a"), a)
	must(w.t, err)
	if p.State != api.StatePending {
		w.t.Fatalf("the proposal is %s, want it pending", p.State)
	}
	return p.Suspension
}

// assertion is an honest one by a person, for what the gateway asks.
func (w *world) assertion(suspension, person string) json.RawMessage {
	w.t.Helper()
	return w.approval(suspension, person).Assertion
}

// approval is an honest yes of a person to what it is shown.
func (w *world) approval(suspension, person string) api.Decision {
	w.t.Helper()
	v, err := w.target.View(ctx, auth(person), suspension)
	must(w.t, err)
	d := api.Decision{Suspension: suspension, Verdict: api.Approve, Stage: v.Stage}
	if len(v.Assertion) > 0 {
		d.Assertion, err = w.keys[person].Assert(v.Assertion)
		must(w.t, err)
	}
	return d
}

func (w *world) decide(suspension, person string, v api.Verdict) error {
	w.t.Helper()
	d := api.Decision{Suspension: suspension, Verdict: v}
	if v == api.Approve {
		d = w.approval(suspension, person)
	}
	return w.target.Decide(ctx, auth(person), d)
}

// approved is the honest way to a dispatch.
func (w *world) approved(a api.Action) api.Dispatch {
	w.t.Helper()
	id := w.pending(a)
	must(w.t, w.decide(id, "approver-p", api.Approve))
	return w.collect(a, id)
}

func (w *world) collect(a api.Action, suspension string) api.Dispatch {
	w.t.Helper()
	st, err := w.target.Status(ctx, auth("agent-a"), suspension)
	must(w.t, err)
	return api.Dispatch{Action: a, Carried: st.Carried}
}

// present makes a fresh proof and dispatches, as an agent at a target.
func (w *world) present(t api.Target, agent string, d api.Dispatch) (api.Outcome, error) {
	n := w.proofs.Add(1)
	if d.RequestID == "" {
		d.RequestID = fmt.Sprint("req-", n)
	}
	proof, err := w.proof(d, n)
	if err != nil {
		return api.Outcome{}, err
	}
	return t.Dispatch(ctx, api.Auth{Token: token(agent), Proof: proof}, d)
}

func (w *world) proof(d api.Dispatch, n int64) (string, error) {
	w.clock.mu.Lock()
	now := w.clock.now
	w.clock.mu.Unlock()
	return proofAt(d, fmt.Sprint("proof-", n), now)
}

func proofAt(d api.Dispatch, id string, now time.Time) (string, error) {
	claims, err := json.Marshal(map[string]any{
		"jti": id, "htm": "POST", "htu": "https://" + d.Action.Audience + ".gateway.example/v1/dispatch",
		"iat": now.Unix(), "ath": modes.AccessTokenHash(d.Carried.Permit),
	})
	if err != nil {
		return "", err
	}
	j, err := prover().Sign(claims)
	if err != nil {
		return "", err
	}
	return j.CompactSerialize()
}

func (w *world) dispatch(d api.Dispatch) api.Outcome {
	w.t.Helper()
	o, err := w.present(w.target, "agent-a", d)
	must(w.t, err)
	return o
}

// expect dispatches and wants a status, refusals ("binding/code …") and a number
// of effects so far.
func (w *world) expect(what string, d api.Dispatch, want api.Status, refusals string, effects int) {
	w.t.Helper()
	o := w.dispatch(d)
	if o.Status != want || codes(o.Refusals) != refusals {
		w.t.Errorf("%s: %s [%s], want %s [%s]", what, o.Status, codes(o.Refusals), want, refusals)
	}
	if n := len(w.prov.Ledger()); n != effects {
		w.t.Errorf("%s: %d effects, want %d", what, n, effects)
	}
}

func codes(rs []api.Refusal) string {
	out := make([]string, len(rs))
	for i, r := range rs {
		out[i] = string(r.Binding) + "/" + r.Code
	}
	return strings.Join(out, " ")
}

// refusedBy returns the refusals of a *api.RefusedError, or the error itself.
func refusedBy(err error) string {
	var r *api.RefusedError
	if errors.As(err, &r) {
		return codes(r.Refusals)
	}
	return fmt.Sprint(err)
}

func (w *world) entries() []api.AuditEntry {
	w.t.Helper()
	es, err := w.target.Audit(ctx, auth("auditor"), 0)
	must(w.t, err)
	return es
}

// alerts lists those of the log, and what it shows beside the ledger.
func (w *world) alerts() (out []api.Alert) {
	w.t.Helper()
	entries := w.entries()
	for _, e := range entries {
		if e.Alert != "" {
			out = append(out, e.Alert)
		}
	}
	var ledger []audit.Effect
	for _, e := range w.prov.Ledger() {
		ledger = append(ledger, audit.Effect{Seq: e.Seq, Audience: e.Audience, Tool: e.Tool, RequestID: e.RequestID, IdempotencyKey: e.IdempotencyKey})
	}
	for _, f := range audit.Compare(entries, ledger) {
		out = append(out, f.Alert)
	}
	return out
}
