package modes

import (
	"strings"

	"countersign/gateway/api"
)

// A Set is a set of bindings. The zero value is empty.
type Set map[api.Binding]bool

// NewSet returns the set of the given bindings.
func NewSet(bs ...api.Binding) Set {
	s := Set{}
	for _, b := range bs {
		s[b] = true
	}
	return s
}

// Has reports whether the set enforces b (api.Enforces, for a set).
func (s Set) Has(b api.Binding) bool {
	return s[b] || b == api.BindSeen && s[api.BindOnce] || (b == api.BindRun || b == api.BindCall) && s[api.BindSuspension]
}

// List returns the members in the order of api.Bindings.
func (s Set) List() []api.Binding {
	var out []api.Binding
	for _, b := range api.Bindings() {
		if s[b] {
			out = append(out, b)
		}
	}
	return out
}

func (s Set) String() string {
	var parts []string
	for _, b := range s.List() {
		parts = append(parts, string(b))
	}
	return strings.Join(parts, ",")
}

// A Mode is one complete approval design: a set of bindings and a way in which
// the approval travels from decision to dispatch. The zero value refuses.
type Mode struct {
	ID   string // M0 … M9, one of Beside, or a composed name
	Name string
	// Title says in a sentence what the design does.
	Title string
	// ModelledOn names the published description that the row models.
	ModelledOn string
	Carrier    CarrierName
	Bindings   Set
	// Note says what a reader would otherwise take for an oversight.
	Note string
	// Group is the table in which the mode is reported.
	Group Group
	// Clauses say for each binding where a published text requires it; nil unless the
	// mode is made of one.
	Clauses []Clause
}

// Has reports whether the mode enforces b.
func (m Mode) Has(b api.Binding) bool { return m.Bindings.Has(b) }

// Gated reports whether the mode asks for approval at all.
func (m Mode) Gated() bool { return m.Carrier != CarryNothing }

// Without returns the mode minus the given bindings, for ablation.
func (m Mode) Without(bs ...api.Binding) Mode {
	out := m
	out.Bindings = NewSet(m.Bindings.List()...)
	for _, b := range bs {
		delete(out.Bindings, b)
		out.ID += "-" + string(b)
	}
	out.Name = out.ID
	if len(bs) > 0 {
		out.Title += "; here without " + strings.TrimPrefix(out.ID, m.ID+"-")
	}
	return out
}

// Get returns the mode of [Named] with the given id or name, and accepts the
// ablation form "M9-args-once".
func Get(id string) (Mode, error) { return Named().Get(id) }

// All returns the table of the modes: the control M0 and the nine designs.
func All() []Mode {
	return []Mode{
		{
			ID: "M0", Name: "none", Carrier: CarryNothing,
			Title:      "no gate: the control",
			ModelledOn: "an agent that calls its tools",
		},
		{
			ID: "M1", Name: "flag", Carrier: CarryFlag,
			Title:      "a boolean stapled to the request or run state",
			ModelledOn: "approval state kept in client messages or a serialised run (vercel/ai #15947)",
			Bindings:   NewSet(api.BindMediated),
			Note:       "checks the flag when the run resumes, once for whatever the resumed step executes",
		},
		{
			ID: "M2", Name: "session", Carrier: CarryGrant,
			Title:      "approve for this run: a run-scoped grant in the store",
			ModelledOn: "\"allow for this session\" of coding agents (codex #22181)",
			Bindings:   NewSet(api.BindRecord, api.BindRun, api.BindMediated, api.BindPerCall),
			Note:       "asks once a run; every later call of the run is covered by intention",
		},
		{
			ID: "M3", Name: "ticket", Carrier: CarryTicket,
			Title:      "an approval id that must be valid, unexpired and unused",
			ModelledOn: "approval-id endpoints of human-in-the-loop services (cadis #852)",
			Bindings:   NewSet(api.BindRecord, api.BindExpiry, api.BindSeen, api.BindMediated),
			Note:       "the used mark is looked up, then set, in the live instance; checked when the run resumes",
		},
		{
			ID: "M4", Name: "bearer", Carrier: CarryJWT,
			Title:      "a signed permit for one audience with an expiry and an identifier",
			ModelledOn: "RFC 7519 (iss, sub, aud, exp, jti)",
			Bindings:   NewSet(api.BindSigned, api.BindAudience, api.BindExpiry, api.BindSeen, api.BindMediated, api.BindPerCall),
			Note:       "the jti cache is read, then written, in the live instance, as such caches commonly are",
		},
		{
			ID: "M5", Name: "dpop", Carrier: CarryJWT,
			Title:      "M4 plus proof of possession of the agent's key",
			ModelledOn: "RFC 9449 (DPoP), RFC 7800 (cnf)",
			Bindings:   NewSet(api.BindSigned, api.BindAudience, api.BindExpiry, api.BindSeen, api.BindSender, api.BindMediated, api.BindPerCall),
			Note:       "the proof covers method and URI: the address being called, which is not the tool that was approved",
		},
		{
			ID: "M6", Name: "stepup", Carrier: CarryWindow,
			Title:      "a passkey step-up opens a short window for the requester's agents",
			ModelledOn: "RFC 9470 (step-up authentication), WebAuthn Level 3",
			Bindings:   NewSet(api.BindRecord, api.BindAttest, api.BindExpiry, api.BindMediated),
			Note:       "the challenge is random: the assertion says that someone was there, not what for",
		},
		{
			ID: "M7", Name: "hash", Carrier: CarryMAC,
			Title:      "a MAC over call id, tool, canonical arguments, principal and expiry",
			ModelledOn: "signed tool-call approvals (vercel/ai tool-approval secret)",
			Bindings:   NewSet(api.BindSigned, api.BindArgs, api.BindConnector, api.BindAgent, api.BindExpiry, api.BindCall, api.BindMediated, api.BindPerCall),
		},
		{
			ID: "M8", Name: "derived", Carrier: CarryDerived,
			Title:      "a capability recomputed from the approval store, keyed to the suspension and spent once",
			ModelledOn: "Anchorage on Mastra",
			Bindings: NewSet(api.BindRecord, api.BindConnector, api.BindAudience, api.BindSuspension, api.BindOnce,
				api.BindDuties, api.BindClosed, api.BindMediated, api.BindPerCall),
		},
		{
			ID: "M9", Name: "bound", Carrier: CarryBound,
			Title:      "the reference design: the passkey signs the digest of the whole envelope, every binding is checked",
			ModelledOn: "this project; PSD2 dynamic linking (RTS art. 5) for what the approver signs",
			Bindings:   NewSet(api.Bindings()...),
			Note:       "asks for each call; where the policy has bounds for it, an approver may opt in to so many equal calls of a run, on a view that says so",
		},
	}
}
