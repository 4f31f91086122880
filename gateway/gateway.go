package gateway

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"countersign/audit"
	"countersign/gateway/api"
	"countersign/gateway/canonical"
	"countersign/gateway/store"
	"countersign/modes"
	"countersign/modes/passkey"
)

const (
	// SendLease is how long the instance that consumed an approval owns the send;
	// until then nobody else sends again. It is longer than any provider time-out.
	SendLease = 2 * time.Minute
	// ClockSkew is by how much the provider's clock may be behind the gateway's: the
	// provider is asked to refuse a request that much before the lease ends.
	ClockSkew = 30 * time.Second
	// SummaryLimit is the number of characters per field of a product's summary.
	SummaryLimit = 60
	// challengeBytes is the length of a random WebAuthn challenge; section 13.4.3
	// of WebAuthn Level 3 asks for at least 16.
	challengeBytes = 32
)

// Config assembles a gateway. Every member without a comment that says otherwise
// is required; the zero value is refused by New.
type Config struct {
	Mode       modes.Mode
	Deployment api.Deployment
	Approvals  store.Store // suspensions, approvals, spent state
	Registry   store.Store // principals, credentials, policy; may be the same store
	Audit      audit.Log
	Values     audit.Keeper // optional: what the digests in the log stand for; nobody keeps it if nil
	Keys       *modes.Keys
	Version    string // optional
	// ProvenKeys, optional, makes an agent that is enrolled with a key known only over
	// a connection that proved this key ([api.Auth].Key), beside its token.
	ProvenKeys bool
	// Reach, optional, is called at the named steps of a dispatch. An error from
	// it ends the dispatch there, as a crash would. It serves the lab; a
	// production gateway leaves it nil.
	Reach func(ctx context.Context, step api.Step) error
}

// A Gateway implements api.Target.
type Gateway struct {
	mode      modes.Mode
	d         api.Deployment
	records   records
	registry  registry
	audit     audit.Log
	values    audit.Keeper
	keys      *modes.Keys
	rp        *passkey.RelyingParty
	version   string
	proven    bool
	reachStep func(ctx context.Context, step api.Step) error
	tools     map[toolName]toolRow

	mu        sync.Mutex
	seen      map[string]sighting // by permit
	sweepSeen int                 // how many there are when those that are over are forgotten
	proofs    [2]map[string]bool  // identifiers of proofs, this period's and the last one's
	proofsOf  time.Time           // when this period began
	highWater time.Time
}

type toolName struct{ audience, name string }

type toolRow struct {
	api.Tool
	digest string
}

var (
	_ api.Target   = (*Gateway)(nil)
	_ api.Admitter = (*Gateway)(nil)
	_ api.Readier  = (*Gateway)(nil)
)

// New checks the configuration, enrols the deployment's operators, and, where
// the mode is mediated, makes the provider accept the gateway's credential alone.
func New(ctx context.Context, c Config) (*Gateway, error) {
	d := c.Deployment
	for name, missing := range map[string]bool{
		"mode": c.Mode.ID == "", "approval store": c.Approvals == nil, "registry": c.Registry == nil,
		"audit log": c.Audit == nil, "keys": c.Keys == nil, "issuer": d.Issuer == "", "tool table": len(d.Tools) == 0,
		"provider": d.Provider == nil, "directory": d.Directory == nil, "clock": d.Clock == nil,
		"approval lifetime": d.ApprovalTTL <= 0, "admin token": d.AdminToken == "", "auditor token": d.AuditorToken == "",
		"provider credential": d.ProviderCredential == "",
	} {
		if missing {
			return nil, fmt.Errorf("configuring the gateway: no %s is given", name)
		}
	}
	if d.DispatchURI == "" {
		d.DispatchURI = dispatchURI
	}
	if c.Keys.Issuer != d.Issuer {
		return nil, fmt.Errorf("configuring the gateway: the keys are those of issuer %q, the deployment's is %q", c.Keys.Issuer, d.Issuer)
	}
	rp, err := passkey.New(d.Origin)
	if err != nil {
		return nil, fmt.Errorf("configuring the gateway: %w", err)
	}
	g := &Gateway{
		mode: c.Mode, d: d, records: records{c.Approvals}, registry: registry{c.Registry}, audit: c.Audit, values: c.Values, keys: c.Keys, rp: rp,
		version: c.Version, proven: c.ProvenKeys, reachStep: c.Reach, tools: map[toolName]toolRow{},
		seen: map[string]sighting{}, sweepSeen: firstSweep, proofs: [2]map[string]bool{{}, {}},
	}
	for _, t := range d.Tools {
		described := t
		described.Audience = "" // the audience is a binding of its own
		text, err := canonical.Canonical(described)
		if err != nil {
			return nil, fmt.Errorf("configuring the gateway: tool %s/%s: %w", t.Audience, t.Name, err)
		}
		name := toolName{t.Audience, t.Name}
		if _, twice := g.tools[name]; twice {
			return nil, fmt.Errorf("configuring the gateway: tool %s/%s is in the table twice", t.Audience, t.Name)
		}
		g.tools[name] = toolRow{t, canonical.Digest(text)}
	}
	for _, p := range []api.Principal{
		{ID: "operator:admin", Role: api.RoleAdmin, Token: d.AdminToken},
		{ID: "operator:auditor", Role: api.RoleAuditor, Token: d.AuditorToken},
	} {
		if err := g.registry.enrol(ctx, p); err != nil && !errors.Is(err, api.ErrConflict) {
			return nil, fmt.Errorf("enrolling the operators: %w", err)
		}
	}
	if g.mode.Has(api.BindMediated) {
		if err := d.Provider.Claim(ctx, d.ProviderCredential); err != nil {
			return nil, fmt.Errorf("claiming the provider's credential: %w", err)
		}
	}
	return g, nil
}

// Describe implements api.Target.
func (g *Gateway) Describe(context.Context) (api.Description, error) {
	return api.Description{
		Name: g.mode.ID, Version: g.version, Claims: g.mode.Bindings.List(),
		Origin: g.d.Origin, DispatchURI: g.d.DispatchURI, PermitKey: g.keys.PublicPEM(),
	}, nil
}

// dispatchURI is the address of an audience's enforcement point where the
// deployment names none.
const dispatchURI = "https://{audience}.gateway.example/v1/dispatch"

// Admit implements api.Admitter.
func (g *Gateway) Admit(ctx context.Context, auth api.Auth) (api.Principal, error) {
	return g.authenticate(ctx, auth)
}

// authenticate finds the caller of a token and wants one of the roles (none
// given: any).
func (g *Gateway) authenticate(ctx context.Context, auth api.Auth, roles ...api.Role) (api.Principal, error) {
	p, err := g.registry.byToken(ctx, auth.Token)
	if err != nil {
		return api.Principal{}, err
	}
	if g.proven && len(p.Key) > 0 && auth.Key != thumbprint(p.Key) {
		return api.Principal{}, fmt.Errorf("%w: the connection does not prove the agent's key", api.ErrUnauthenticated)
	}
	for _, r := range roles {
		if p.Role == r {
			return p, nil
		}
	}
	if len(roles) > 0 {
		return api.Principal{}, fmt.Errorf("%w: a principal with role %s may not do this", api.ErrForbidden, p.Role)
	}
	return p, nil
}

func (g *Gateway) tool(a api.Action) (toolRow, error) {
	t, ok := g.tools[toolName{a.Audience, a.Tool}]
	if !ok {
		return toolRow{}, fmt.Errorf("%w: there is no tool %q at %q", api.ErrInvalid, a.Tool, a.Audience)
	}
	return t, nil
}

// gated decides whether a call needs approval. Only a design that is not
// mediated believes what the call says of itself.
func (g *Gateway) gated(t api.Tool, a api.Action) bool {
	if !g.mode.Gated() {
		return false
	}
	if !g.mode.Has(api.BindMediated) && (a.Hints.ReadOnly || a.Hints.DryRun) {
		return false
	}
	switch t.Class {
	case api.ClassRead:
		return false
	case api.ClassReference:
		return g.mode.Has(api.BindSteer)
	}
	return true
}

// now reads the clock and keeps the latest time ever seen.
func (g *Gateway) now() (now, highWater time.Time, err error) {
	// Read under the lock: of two callers the one that read first could otherwise find
	// the other's later time here, and take its clock for one that ran back.
	g.mu.Lock()
	defer g.mu.Unlock()
	now, err = g.d.Clock.Now()
	if err != nil { // what comes with it is no time
		return time.Time{}, g.highWater, err
	}
	if now.After(g.highWater) {
		g.highWater = now
	}
	return now, g.highWater, nil
}

// clockGrain is how far the time has to move before it is stored again. A clock
// that is set back by less goes unnoticed after a restart, and the clocks of instances
// may differ by as much.
const clockGrain = time.Second

// keepTime makes the latest time ever seen survive a restart and known to every
// instance, so that a clock set back while a gateway is down, or before another
// one has seen the time, is noticed like any other. A clock that once ran far
// ahead therefore stops approvals until an operator deletes the row.
func (g *Gateway) keepTime(ctx context.Context) {
	now, err := g.d.Clock.Now()
	if err != nil || !g.mode.Has(api.BindExpiry) {
		return
	}
	latest, row, err := get[time.Time](ctx, g.records.s, kindClock, "latest")
	// Failing to store the time ends nothing: either another instance has just
	// done so, or the store is down, which is the business of closed.
	switch {
	case errors.Is(err, api.ErrNotFound):
		_, _ = create(ctx, g.records.s, kindClock, "latest", "", now)
	case err != nil:
	case latest.Sub(now) >= clockGrain:
		g.mu.Lock()
		if latest.After(g.highWater) {
			g.highWater = latest
		}
		g.mu.Unlock()
	case now.Sub(latest) >= clockGrain:
		_, _ = update(ctx, g.records.s, row, now)
	}
}

// situate assembles what the checks of one call may read.
func (g *Gateway) situate(ctx context.Context, caller api.Principal, auth api.Auth, a api.Action, carried api.Carried, t toolRow) *modes.Situation {
	if g.mode.Carrier == modes.CarryWindow { // which is the requester's
		caller.ActsFor, _ = g.requester(ctx, caller) // nobody, if it cannot be told
	}
	s := &modes.Situation{
		Mode: g.mode, Action: a, Carried: carried, Proof: auth.Proof, Method: "POST",
		URI: strings.ReplaceAll(g.d.DispatchURI, "{audience}", a.Audience), Caller: caller,
		Tool: t.Tool, ToolDigest: t.digest,
		Records: g.records, Identities: g.registry, Keys: g.keys, RP: g.rp,
		Seen: g.hasSeen, SeenProof: g.hasSeenProof,
	}
	var values fields
	s.Canonical, values, s.ReadErr, s.StrictErr = g.read(a, t.Tool)
	if s.ReadErr == nil {
		s.ArgsDigest = canonical.Digest(s.Canonical)
	}
	g.keepTime(ctx)
	s.Now, s.HighWater, s.NowErr = g.now()
	s.Policy, s.PolicyErr = g.registry.policy(ctx)
	s.StoreErr = g.records.ping(ctx)
	if g.mode.Has(api.BindRefs) {
		s.Resolved, s.ResolveErr = g.resolve(ctx, t.Tool, values)
	}
	return s
}

// fields are the arguments of a call, by name.
type fields = map[string]jsonText

// read gives the canonical arguments and their members. A strict mode reads
// strictly; every mode also has the plain reading, so that each check sees what
// a design without strict would see.
func (g *Gateway) read(a api.Action, t api.Tool) (text []byte, values fields, readErr, strictErr error) {
	if g.mode.Has(api.BindStrict) {
		text, values, strictErr = canonical.Strict(a.Arguments, t.Fields)
		if strictErr == nil {
			return text, values, nil, nil
		}
	}
	text, values, readErr = canonical.Lenient(a.Arguments)
	return text, values, readErr, strictErr
}

// body is what is sent to the provider: the canonical bytes where there is one
// reading only, the agent's text otherwise.
func (g *Gateway) body(s *modes.Situation) []byte {
	if g.mode.Has(api.BindStrict) && s.StrictErr == nil {
		return s.Canonical
	}
	return s.Action.Arguments
}

func (g *Gateway) reach(ctx context.Context, step api.Step) error {
	if g.reachStep == nil {
		return nil
	}
	if err := g.reachStep(ctx, step); err != nil {
		return stopped{err}
	}
	return nil
}

// stopped is the end of a dispatch where the process would have ended: nothing is
// recorded or logged after it.
type stopped struct{ error }

func (s stopped) Unwrap() error { return s.error }

func (g *Gateway) hasSeen(id string) []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.seen[id].calls)
}

// A sighting is what this instance has seen of a permit.
type sighting struct {
	calls []string
	until int64 // Unix seconds, from which on expiry refuses it; 0 for never
}

// firstSweep is how many permits are remembered before any is forgotten.
const firstSweep = 4096

// markSeen remembers a permit for as long as expiry would let it pass.
func (g *Gateway) markSeen(s *modes.Situation) {
	e := s.Evidence.Envelope
	g.mu.Lock()
	defer g.mu.Unlock()
	was := g.seen[e.Permit]
	if slices.Contains(was.calls, s.Call) {
		return
	}
	was.calls = append(was.calls, s.Call)
	if g.mode.Has(api.BindExpiry) {
		was.until = e.ExpiresAt
	}
	g.seen[e.Permit] = was
	if len(g.seen) < g.sweepSeen {
		return
	}
	// By the latest time, to which expiry holds a clock that runs back.
	now := g.highWater.Unix()
	maps.DeleteFunc(g.seen, func(_ string, of sighting) bool { return of.until > 0 && of.until <= now })
	g.sweepSeen = max(firstSweep, 2*len(g.seen))
}

func (g *Gateway) hasSeenProof(id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.proofs[0][id] || g.proofs[1][id]
}

// markProof remembers a proof for as long as it would be accepted.
func (g *Gateway) markProof(id string, now time.Time) (fresh bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.proofs[0][id] || g.proofs[1][id] {
		return false
	}
	// A proof used now was made at most a window ahead, so that it is acceptable
	// for two windows at most; it is forgotten after two to four.
	if now.Sub(g.proofsOf) > 2*modes.ProofWindow {
		g.proofs, g.proofsOf = [2]map[string]bool{{}, g.proofs[0]}, now
	}
	g.proofs[0][id] = true
	return true
}

// log appends an audit entry. The caller decides what a failure means.
func (g *Gateway) log(ctx context.Context, e api.AuditEntry) error {
	if now, err := g.d.Clock.Now(); err == nil {
		e.Time = now
	}
	_, err := g.audit.Append(ctx, e)
	return err
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return b
}

func tokenDigest(token string) string {
	h := sha256.Sum256([]byte("countersign/token/v1\x00" + token))
	return hex.EncodeToString(h[:])
}
