package attacks

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"countersign/attacks/referee"
	"countersign/gateway/api"
	"countersign/oracles/softkey"
)

// The cast of every trial.
const (
	agentA      = "agent-a"     // asks on behalf of requester
	agentB      = "agent-b"     // another agent of the same requester
	agentX      = "agent-x"     // an agent of somebody else
	agentSub    = "agent-sub"   // an agent that works for agent-a
	agentSolo   = "agent-solo"  // an agent of a tenant without approvers
	agentTwin   = "agent-twin"  // an agent of requester in a tenant that has the same services
	requester   = "requester-r" // may approve other people's requests
	requester2  = "requester-2"
	approver    = "approver-p"
	approver2   = "approver-2"
	delegate    = "delegate-d" // acts for the requester; may approve other people's requests
	delegate2   = "delegate-2" // another delegate of the requester
	subDelegate = "delegate-of-a-delegate"
	agentDeleg  = "agent-deputy" // an agent of the requester's delegate
	outsider    = "person-q"     // enrolled in the tenant without approvers
	tenant      = "tenant-1"
	soloTenant  = "tenant-2"
	twinTenant  = "tenant-3"
	twinsPerson = "approver-t" // may approve in the twin tenant
)

var cast = []api.Principal{
	{ID: agentA, Role: api.RoleAgent, Tenant: tenant, ActsFor: requester},
	{ID: agentB, Role: api.RoleAgent, Tenant: tenant, ActsFor: requester},
	{ID: agentX, Role: api.RoleAgent, Tenant: tenant, ActsFor: requester2},
	{ID: agentSub, Role: api.RoleAgent, Tenant: tenant, ActsFor: agentA},
	{ID: agentTwin, Role: api.RoleAgent, Tenant: twinTenant, ActsFor: requester},
	{ID: agentSolo, Role: api.RoleAgent, Tenant: soloTenant, ActsFor: "requester-solo"},
	{ID: requester, Role: api.RolePerson, Tenant: tenant, Approver: true},
	{ID: requester2, Role: api.RolePerson, Tenant: tenant},
	{ID: approver, Role: api.RolePerson, Tenant: tenant, Approver: true},
	{ID: approver2, Role: api.RolePerson, Tenant: tenant, Approver: true},
	{ID: twinsPerson, Role: api.RolePerson, Tenant: twinTenant, Approver: true},
	{ID: delegate, Role: api.RolePerson, Tenant: tenant, ActsFor: requester, Approver: true},
	{ID: delegate2, Role: api.RolePerson, Tenant: tenant, ActsFor: requester, Approver: true},
	{ID: subDelegate, Role: api.RolePerson, Tenant: tenant, ActsFor: delegate, Approver: true},
	{ID: agentDeleg, Role: api.RoleAgent, Tenant: tenant, ActsFor: delegate},
	{ID: outsider, Role: api.RolePerson, Tenant: soloTenant},
}

func people() map[string]referee.Person {
	out := map[string]referee.Person{}
	for _, p := range cast {
		out[p.ID] = referee.Person{ActsFor: p.ActsFor, Approver: p.Role == api.RolePerson && p.Approver}
	}
	return out
}

// actsFor returns the person for whom somebody of the cast acts.
func actsFor(id string) string {
	for _, p := range cast {
		if p.ID == id {
			return p.ActsFor
		}
	}
	return ""
}

// requesterOf returns the person for whom an agent works in the end.
func requesterOf(id string) string {
	for {
		id = actsFor(id)
		if !slices.ContainsFunc(cast, func(p api.Principal) bool { return p.ID == id && p.Role == api.RoleAgent }) {
			return id
		}
	}
}

// An Agent is an agent's process: its token and its key.
type Agent struct {
	ID         string
	token      string
	jwk        []byte
	thumbprint string
	signer     jose.Signer
}

// NewAgent returns an agent with a fresh key and the token that a cast of its own gets.
func NewAgent(id string) (*Agent, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the key of %s: %w", id, err)
	}
	public := jose.JSONWebKey{Key: &key.PublicKey, Algorithm: string(jose.ES256), Use: "sig"}
	jwk, err := public.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("making the key of %s: %w", id, err)
	}
	tp, err := public.Thumbprint(crypto.SHA256)
	if err != nil {
		return nil, fmt.Errorf("making the key of %s: %w", id, err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key},
		(&jose.SignerOptions{EmbedJWK: true}).WithType("dpop+jwt"))
	if err != nil {
		return nil, fmt.Errorf("making the key of %s: %w", id, err)
	}
	return &Agent{ID: id, token: token(id), jwk: jwk, thumbprint: base64.RawURLEncoding.EncodeToString(tp), signer: signer}, nil
}

func token(id string) string { return "token-of-" + id }

// Principal is the agent as it is enrolled.
func (a *Agent) Principal(tenant, actsFor string) api.Principal {
	return api.Principal{ID: a.ID, Role: api.RoleAgent, Tenant: tenant, ActsFor: actsFor, Token: a.token, Key: a.jwk}
}

// Proof makes a DPoP proof (RFC 9449) for a call that presents a permit.
func (a *Agent) Proof(method, uri, permit, id string, now time.Time) (string, error) {
	claims := map[string]any{"jti": id, "htm": method, "htu": uri, "iat": now.Unix()}
	if permit != "" {
		claims["ath"] = sha256Text([]byte(permit))
	}
	text, err := json.Marshal(claims)
	if err != nil {
		return "", fmt.Errorf("making a proof: %w", err)
	}
	j, err := a.signer.Sign(text)
	if err != nil {
		return "", fmt.Errorf("making a proof: %w", err)
	}
	return j.CompactSerialize()
}

// A Person has a token and a passkey.
type Person struct {
	ID  string
	key *softkey.Key
}

func auth(id string) api.Auth { return api.Auth{Token: token(id)} }

// DispatchURI is the address that a proof names, of the [api.Description] of a target
// and the audience that is called.
func DispatchURI(template, audience string) string {
	return strings.ReplaceAll(template, "{audience}", audience)
}
