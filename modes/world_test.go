package modes

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"countersign/gateway/api"
	"countersign/modes/passkey"
	"countersign/oracles/softkey"
)

const (
	testIssuer   = "https://gateway.example"
	testOrigin   = "https://approve.example"
	testAudience = "bank.example"
	testAgent    = "agent-a"
	testApprover = "approver-p"
	testURI      = "https://bank.example.gateway.example/v1/dispatch"
)

var (
	testNow = time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)
	errDown = errors.New("no answer")
)

// cast is who takes part: the gateway's keys, an agent, another agent and an
// approver. It is made once, because keys are costly.
type cast struct {
	priv            *ecdsa.PrivateKey
	secret          []byte
	keys, otherKeys *Keys
	agent, stranger holder
	rp              *passkey.RelyingParty
	key             *softkey.Key
	cred            passkey.Credential
}

// A holder holds a key for proofs of possession.
type holder struct {
	signer     jose.Signer
	thumbprint string
}

var theCast = sync.OnceValue(func() *cast {
	c := &cast{priv: fixedKey(1), secret: []byte(strings.Repeat("s", 32)), agent: newHolder(fixedKey(2)), stranger: newHolder(fixedKey(3))}
	c.keys = must(KeysFrom(testIssuer, c.priv, c.secret))
	c.otherKeys = must(KeysFrom(testIssuer, fixedKey(4), []byte(strings.Repeat("x", 32))))
	c.rp = must(passkey.New(testOrigin))
	c.key = softkey.New(testOrigin)
	challenge := make([]byte, 32)
	c.cred = must(c.rp.VerifyRegistration(testApprover, challenge, must(c.key.Register(must(c.rp.CreationOptions(testApprover, challenge))))))
	return c
})

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// fixedKey is the same in every process, as the corpus of a fuzz target needs it.
func fixedKey(n byte) *ecdsa.PrivateKey {
	seed := make([]byte, 32)
	seed[31] = n
	return must(ecdsa.ParseRawPrivateKey(elliptic.P256(), seed))
}

func newHolder(key *ecdsa.PrivateKey) holder {
	public := jose.JSONWebKey{Key: &key.PublicKey}
	return holder{
		signer: must(jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key},
			(&jose.SignerOptions{EmbedJWK: true}).WithType("dpop+jwt"))),
		thumbprint: base64.RawURLEncoding.EncodeToString(must(public.Thumbprint(crypto.SHA256))),
	}
}

func (h holder) proof(claims map[string]any) string {
	return must(must(h.signer.Sign(must(json.Marshal(claims)))).CompactSerialize())
}

// envelope is an honest one for a payment.
func (c *cast) envelope() Envelope {
	return Envelope{
		Type: EnvelopeType, Permit: "00112233445566778899aabbccddeeff", Decision: api.Approve, Issuer: testIssuer, Tenant: "tenant-1",
		Agent: testAgent, Requester: "requester-r", Run: "run-1", Step: "step-1", Call: "call-1", SuspendedAt: 7,
		Audience: testAudience, Tool: "pay", ToolDigest: "digest-of-the-tool", Arguments: `{"amount":1}`, ArgsDigest: "digest-of-the-arguments",
		Resolved: c.resolved(), Policy: "policy-1", Risk: "high", Approvers: []string{testApprover}, Stage: 1, Stages: 1, Earlier: []string{},
		AgentKey: c.agent.thumbprint, Guarantee: api.GuaranteeIdempotent, Uses: 1,
		NotBefore: testNow.Add(-time.Minute).Unix(), ExpiresAt: testNow.Add(time.Minute).Unix(), ViewDigest: "digest-of-the-view",
	}
}

func (c *cast) resolved() []api.Resolved {
	return []api.Resolved{{Path: "/supplier", Kind: "supplier", ID: "s-1", Version: 1, Members: map[string]json.RawMessage{"account": json.RawMessage(`"GB1"`)}}}
}

// A row is an honest dispatch in which one thing is different; everything that
// comes after that thing is signed and made anew, so that only the check it is
// meant for has a reason to refuse.
type row struct {
	name     string
	mode     Mode                         // zero: M9
	envelope func(*Envelope)              // what is approved
	forge    softkey.Forgery              // how the approver's assertion differs
	approval func(*Approval)              // what is stored of it
	carried  func(*cast, *api.Carried)    // what travels
	claims   func(map[string]any)         // of the agent's proof
	prover   func(*cast) holder           // who makes it
	change   func(*Situation, *fakeWorld) // the request and the world at dispatch
	want     string                       // refusals as "binding/code", separated by blanks; empty: none
}

// situation makes the dispatch of a row.
func (r row) situation() (*Situation, error) {
	c, m := theCast(), r.mode
	if m.ID == "" {
		m = m9()
	}
	e := c.envelope()
	if r.envelope != nil {
		r.envelope(&e)
	}
	text, err := e.Bound(m).Text()
	if err != nil {
		return nil, err
	}
	challenge := make([]byte, 32)
	if m.Has(api.BindChallenge) {
		h := sha256.Sum256(text)
		challenge = h[:]
	}
	options, err := c.rp.RequestOptions(challenge, []passkey.Credential{c.cred})
	if err != nil {
		return nil, err
	}
	assertion, err := c.key.Forge(options, r.forge)
	if err != nil {
		return nil, err
	}
	a := Approval{
		ID: "00112233445566778899aabbccddeeff", Suspension: "s-1", Verdict: api.Approve, Approver: testApprover, DecidedAt: testNow,
		EnvelopeText: text, Challenge: challenge, Assertion: assertion, ViewDigest: "digest-of-the-view",
	}
	carried, err := Issue(m, c.keys, a)
	if err != nil && m.Carrier != "" {
		return nil, err
	}
	if r.approval != nil {
		r.approval(&a)
	}
	if r.carried != nil {
		r.carried(c, &carried)
	}
	claims := map[string]any{"jti": "proof-1", "htm": "POST", "htu": testURI, "iat": testNow.Unix(), "ath": AccessTokenHash(carried.Permit)}
	if r.claims != nil {
		r.claims(claims)
	}
	prover := c.agent
	if r.prover != nil {
		prover = r.prover(c)
	}
	w := &fakeWorld{
		down:      map[string]bool{},
		approvals: map[string]Approval{a.ID: a},
		ofRun:     map[string]Approval{"run-1": a},
		windows:   map[string]Approval{"requester-r": a},
		latest:    Suspended{ID: "s-1", At: 7},
		permit:    a.ID,
		place:     [3]string{"run-1", "step-1", "call-1"},
		owner:     [2]string{"tenant-1", testAgent},
		people: map[string]api.Principal{
			testApprover:  {ID: testApprover, Role: api.RolePerson, Tenant: "tenant-1"},
			testAgent:     {ID: testAgent, Role: api.RoleAgent, Tenant: "tenant-1", ActsFor: "requester-r"},
			"agent-2":     {ID: "agent-2", Role: api.RoleAgent, Tenant: "tenant-1", ActsFor: "requester-2"},
			"requester-r": {ID: "requester-r", Role: api.RolePerson, Tenant: "tenant-1"},
			"requester-2": {ID: "requester-2", Role: api.RolePerson, Tenant: "tenant-1"},
			"deputy-r":    {ID: "deputy-r", Role: api.RolePerson, Tenant: "tenant-1", ActsFor: "requester-r"},
		},
		approvers: []string{testApprover},
		creds:     []passkey.Credential{c.cred},
	}
	s := &Situation{
		Mode:    m,
		Action:  api.Action{Audience: testAudience, Tool: "pay", Arguments: []byte(`{"amount":1}`), Run: "run-1", Step: "step-1", Call: "call-1"},
		Carried: carried, Proof: prover.proof(claims), Method: "POST", URI: testURI,
		Caller: api.Principal{ID: testAgent, Role: api.RoleAgent, Tenant: "tenant-1", ActsFor: "requester-r"},
		Tool:   api.Tool{Audience: testAudience, Name: "pay", Risk: "high"}, ToolDigest: "digest-of-the-tool",
		Canonical: []byte(`{"amount":1}`), ArgsDigest: "digest-of-the-arguments",
		Now: testNow, HighWater: testNow, Policy: Policy{Version: "policy-1"}, Resolved: c.resolved(),
		Records: w, Identities: w, Keys: c.keys, RP: c.rp,
		Seen: seen(""), SeenProof: func(string) bool { return false },
	}
	if r.change != nil {
		r.change(s, w)
	}
	return s, nil
}

// seen is an instance that has seen a permit for some calls.
func seen(permit string, calls ...string) func(string) []string {
	return func(id string) []string {
		if id != permit {
			return nil
		}
		return calls
	}
}

// fakeWorld is an approval store and a register of identities that answer what
// they are told to; a method named in down does not answer.
type fakeWorld struct {
	down                      map[string]bool
	approvals, ofRun, windows map[string]Approval
	latest                    Suspended
	permit                    string // of the latest suspension
	place                     [3]string
	owner                     [2]string // of the place: tenant, agent
	spent, revoked            string    // a permit
	uses                      []string  // the calls that have spent one of its uses, of a run-wide approval
	people                    map[string]api.Principal
	disabled                  string // an agent
	approvers                 []string
	creds                     []passkey.Credential
	unenrolled                string            // a person
	optOuts                   map[string]string // tenant and person → reason
}

func (w *fakeWorld) fails(method string) error {
	if w.down[method] {
		return fmt.Errorf("%s: %w", method, errDown)
	}
	return nil
}

func find[T any](w *fakeWorld, method string, m map[string]T, k string) (T, error) {
	v, ok := m[k]
	err := w.fails(method)
	if err == nil && !ok {
		err = api.ErrNotFound
	}
	return v, err
}

func (w *fakeWorld) Approval(_ context.Context, permit string) (Approval, error) {
	return find(w, "Approval", w.approvals, permit)
}

func (w *fakeWorld) ApprovalOfRun(_ context.Context, run string) (Approval, error) {
	return find(w, "ApprovalOfRun", w.ofRun, run)
}

func (w *fakeWorld) Window(_ context.Context, requester string) (Approval, error) {
	return find(w, "Window", w.windows, requester)
}

func (w *fakeWorld) Latest(_ context.Context, p Place) (Suspended, error) {
	if err := w.fails("Latest"); err != nil {
		return Suspended{}, err
	}
	if w.place != [3]string{p.Run, p.Step, p.Call} || p.Agent != "" && [2]string{p.Tenant, p.Agent} != w.owner {
		return Suspended{}, api.ErrNotFound
	}
	return w.latest, nil
}

func (w *fakeWorld) Permit(context.Context, string) (string, error) {
	return w.permit, w.fails("Permit")
}

func (w *fakeWorld) Spent(_ context.Context, issuer, audience, permit string) (bool, error) {
	return issuer == testIssuer && permit == w.spent && permit != "", w.fails("Spent")
}

func (w *fakeWorld) Use(_ context.Context, issuer string, e Envelope, call string) (int, bool, error) {
	if err := w.fails("Use"); err != nil || issuer != testIssuer || e.Permit != w.permit {
		return 1, false, err
	}
	if i := slices.Index(w.uses, call); i >= 0 {
		return i + 1, true, nil
	}
	return min(len(w.uses)+1, e.Uses), len(w.uses) >= e.Uses, nil
}

func (w *fakeWorld) Revoked(_ context.Context, permit string) (bool, error) {
	return permit == w.revoked && permit != "", w.fails("Revoked")
}

func (w *fakeWorld) Principal(_ context.Context, id string) (api.Principal, error) {
	return find(w, "Principal", w.people, id)
}

func (w *fakeWorld) Disabled(_ context.Context, agent string) (bool, error) {
	return agent == w.disabled && agent != "", w.fails("Disabled")
}

func (w *fakeWorld) Approvers(context.Context, string) ([]string, error) {
	return w.approvers, w.fails("Approvers")
}

func (w *fakeWorld) OptOut(_ context.Context, tenant, person string) (string, error) {
	return find(w, "OptOut", w.optOuts, tenant+"/"+person)
}

func (w *fakeWorld) Credentials(_ context.Context, owner string) (out []passkey.Credential, err error) {
	if err := w.fails("Credentials"); err != nil {
		return nil, err
	}
	for _, c := range w.creds {
		if c.Owner == owner {
			out = append(out, c)
		}
	}
	return out, nil
}

func (w *fakeWorld) Unenrolled(_ context.Context, person string) (bool, error) {
	return person == w.unenrolled && person != "", w.fails("Unenrolled")
}

func (w *fakeWorld) Owner(ctx context.Context, id []byte) (string, error) {
	if err := w.fails("Owner"); err != nil {
		return "", err
	}
	c, err := w.Credential(ctx, id)
	return c.Owner, err
}

func (w *fakeWorld) Credential(_ context.Context, id []byte) (passkey.Credential, error) {
	if err := w.fails("Credential"); err != nil {
		return passkey.Credential{}, err
	}
	for _, c := range w.creds {
		if string(c.ID) == string(id) {
			return c, nil
		}
	}
	return passkey.Credential{}, api.ErrNotFound
}

func m9() Mode { return mode("M9") }

func mode(id string) Mode { return must(Get(id)) }

// macWith is a design whose permits are under a MAC and have no id.
func macWith(b api.Binding) Mode {
	m := mode("M7")
	m.Bindings = NewSet(b)
	return m
}

// only is the reference design's carrier with these bindings alone.
func only(bs ...api.Binding) Mode { return must(Compose("only", bs...)) }

// printed writes refusals as rows expect them.
func printed(rs []api.Refusal) string {
	out := make([]string, len(rs))
	for i, r := range rs {
		out[i] = string(r.Binding) + "/" + r.Code
	}
	return strings.Join(out, " ")
}

func verify(t testing.TB, s *Situation) string {
	t.Helper()
	c := *s
	return printed(Verify(context.Background(), &c))
}
