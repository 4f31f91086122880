package modes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"countersign/gateway/api"
	"countersign/gateway/canonical"
)

// EnvelopeType separates the digest of an approval envelope from that of
// anything else that might be signed.
const EnvelopeType = "countersign/approval/v1"

// An Envelope is everything an approval is tied to. Its RFC 8785 form is what
// the permit carries, and the SHA-256 of that form is the WebAuthn challenge of
// the reference design. Members that JWT defines carry the JWT names.
type Envelope struct {
	Type        string      `json:"type"`
	Permit      string      `json:"jti"` // 128 random bits in hex
	Decision    api.Verdict `json:"decision"`
	Issuer      string      `json:"iss"`
	Tenant      string      `json:"tenant"`
	Agent       string      `json:"sub"`
	Requester   string      `json:"requester"`
	Run         string      `json:"run"`
	Step        string      `json:"step"`
	Call        string      `json:"call"`
	SuspendedAt int64       `json:"suspended_at"`
	Audience    string      `json:"aud"`
	Tool        string      `json:"tool"`
	ToolDigest  string      `json:"tool_sha256"` // over the canonical tool row
	// Arguments is the canonical JSON text, as a string so that it stays that text.
	Arguments  string         `json:"arguments"`
	ArgsDigest string         `json:"args_sha256"`
	Resolved   []api.Resolved `json:"resolved"`
	Policy     string         `json:"policy"`
	Risk       string         `json:"risk"`
	Approvers  []string       `json:"approvers"` // eligible, sorted
	// Stage is the approval that this envelope is for, of Stages that are needed;
	// Earlier are those who gave the ones before it.
	Stage   int      `json:"stage"`
	Stages  int      `json:"stages"`
	Earlier []string `json:"earlier"`
	// SelfApproval is the reason of the opt-out under which the requester may be
	// the approver; empty: it may not.
	SelfApproval string        `json:"self_approval"`
	AgentKey     string        `json:"jkt"` // RFC 7638 thumbprint, base64url
	Guarantee    api.Guarantee `json:"guarantee"`
	// Scope is ScopeRun where the approver opted in to more than the one call; then
	// Step and Call are empty, Uses counts calls, and ExpiresAt is the approval's own end.
	Scope      string `json:"scope,omitempty"`
	Uses       int    `json:"uses"`
	NotBefore  int64  `json:"nbf"` // Unix seconds
	ExpiresAt  int64  `json:"exp"` // Unix seconds
	ViewDigest string `json:"view_sha256"`
}

// ScopeRun is the scope of an approval for equal calls of a run.
const ScopeRun = "run"

// RunWide reports whether the envelope is for equal calls of a run.
func (e Envelope) RunWide() bool { return e.Scope == ScopeRun }

// On returns the envelope of the same action for its whole run, on terms.
func (e Envelope) On(terms api.RunWide) Envelope {
	e.Scope, e.Step, e.Call = ScopeRun, "", ""
	e.Uses, e.ExpiresAt = int(terms.Uses), terms.Until.Unix()
	return e
}

// Bound returns the envelope with the members that the mode binds, and without
// those that it would carry and never compare.
func (e Envelope) Bound(m Mode) Envelope {
	if !m.Has(api.BindArgs) {
		e.Arguments, e.ArgsDigest = "", ""
	}
	if !m.Has(api.BindRefs) {
		e.Resolved = nil
	}
	if !m.Has(api.BindAudience) {
		e.Audience = ""
	}
	if !m.Has(api.BindConnector) {
		e.Tool, e.ToolDigest = "", ""
	}
	if !m.Has(api.BindRun) {
		e.Run = ""
	}
	if !m.Has(api.BindCall) {
		e.Call = ""
	}
	if !m.Has(api.BindSuspension) {
		e.SuspendedAt = 0
	}
	if !m.Has(api.BindExpiry) {
		e.NotBefore, e.ExpiresAt = 0, 0
	}
	if !m.Has(api.BindOnline) {
		e.Policy, e.Risk = "", ""
	}
	if !m.Has(api.BindSender) {
		e.AgentKey = ""
	}
	return e
}

// Text returns the canonical form.
func (e Envelope) Text() ([]byte, error) { return canonical.Canonical(e) }

// ParseEnvelope reads an envelope from the payload of a permit. A text with more
// than one reading, a member too many, too few or spelt in another case is
// refused: the text says all that the envelope says, and nothing else.
func ParseEnvelope(text []byte) (Envelope, error) {
	given, err := canonical.StrictJSON(text)
	if err != nil {
		return Envelope{}, err
	}
	var e Envelope
	if err := decodeExact(text, &e); err != nil {
		return Envelope{}, err
	}
	// encoding/json finds a member whatever its case, and does without it.
	if own, err := e.Text(); err != nil || !bytes.Equal(own, given) {
		return Envelope{}, fmt.Errorf("%w: the envelope's members are not exactly those of %s", api.ErrInvalid, EnvelopeType)
	}
	return e, nil
}

// An Approval is the durable record of a decision.
type Approval struct {
	ID           string          `json:"id"` // the permit id
	Suspension   string          `json:"suspension"`
	Verdict      api.Verdict     `json:"verdict"`
	Approver     string          `json:"approver"`
	DecidedAt    time.Time       `json:"decided_at"`
	EnvelopeText []byte          `json:"envelope"` // canonical
	Challenge    []byte          `json:"challenge,omitempty"`
	Assertion    json.RawMessage `json:"assertion,omitempty"`
	ViewDigest   string          `json:"view_digest,omitempty"`
	// SelfApproval is the reason why the requester could be the approver, where it was.
	SelfApproval string `json:"self_approval,omitempty"`
	// RunWide are the terms that the approver opted in to, where it did.
	RunWide *api.RunWide `json:"run_wide,omitempty"`
}

// A Policy is the version of the rules in force, and what differs for a tool.
type Policy struct {
	Version string            `json:"version"`
	Risk    map[string]string `json:"risk,omitempty"` // audience/tool → label
	// Approvals says for which tools how many people have to approve, if not one.
	Approvals map[string]int `json:"approvals,omitempty"` // audience/tool → number
	// RunWide says for which tools an approver may opt in to how much.
	RunWide map[string]RunWideBounds `json:"run_wide,omitempty"` // audience/tool → bounds
}

// RunWideBounds are the most that a run-wide approval may be for. Zero allows none.
type RunWideBounds struct {
	Uses    int   `json:"uses"`
	Seconds int64 `json:"seconds"` // from the decision on
}

// RunWideOf returns the bounds of run-wide approvals of a tool.
func (p Policy) RunWideOf(t api.Tool) RunWideBounds { return p.RunWide[t.Audience+"/"+t.Name] }

// Needed returns how many people have to approve a call of a tool.
func (p Policy) Needed(t api.Tool) int { return max(1, p.Approvals[t.Audience+"/"+t.Name]) }

// Label returns the risk label of a tool under the policy.
func (p Policy) Label(t api.Tool) string {
	if l, ok := p.Risk[t.Audience+"/"+t.Name]; ok {
		return l
	}
	return t.Risk
}
