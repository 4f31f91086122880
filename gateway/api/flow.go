package api

import (
	"encoding/json"
	"time"
)

// Auth is how a caller proves who it is.
type Auth struct {
	// Token is the caller's access token. Who it belongs to is looked up; a body
	// never says who is calling.
	Token string `json:"-"`
	// Proof is a DPoP proof (RFC 9449) by the caller's key for this call, needed
	// by Dispatch in modes that bind the sender.
	Proof string `json:"-"`
	// Key is the RFC 7638 SHA-256 thumbprint, base64url, of the key that the caller's
	// connection proved (a client certificate of TLS); empty where it proved none. The
	// server sets it, never a request.
	Key string `json:"-"`
}

// PendingState says what becomes of a proposal.
type PendingState string

const (
	StatePending PendingState = "pending" // suspended until someone decides
	StateGranted PendingState = "granted" // earlier authority covers it: nobody is asked
	StateExempt  PendingState = "exempt"  // the tool needs no approval
	StateHeld    PendingState = "held"    // an equal action is not reconciled yet
)

// Pending answers a proposal.
type Pending struct {
	// Suspension is empty unless the proposal is pending, or granted under a run-wide
	// approval, to which the suspension is then bound.
	Suspension string       `json:"suspension,omitempty"`
	State      PendingState `json:"state"`
	// SuspendedAt orders suspensions: unique and strictly increasing over all
	// instances that share the store. Zero where there is no suspension.
	SuspendedAt int64 `json:"suspended_at,omitempty"`
	// First is, for a held proposal, the suspension of the equal action that is not
	// reconciled, where the design knows it.
	First string `json:"first,omitempty"`
}

// A View is exactly what the approver is shown.
type View struct {
	Suspension string      `json:"suspension"`
	Title      string      `json:"title"`
	Fields     []ViewField `json:"fields"`
	Notes      []string    `json:"notes,omitempty"`
	// Stage says which approval this view is for where the action needs several, one
	// after the other; zero where it needs one.
	Stage int64 `json:"stage,omitempty"`
	// RunWide are the terms of a view from RunWideView; nil in one for a single call.
	RunWide *RunWide `json:"run_wide,omitempty"`
	// Offer is the most that the approver may ask RunWideView for, at this moment; nil
	// where the design has no such approvals or the policy allows none.
	Offer *RunWide `json:"offer,omitempty"`
	// Digest is the hex SHA-256 of the view without this member, Offer, Assertion and
	// Rendered; empty where the design does not bind the view.
	Digest string `json:"digest,omitempty"`
	// Assertion holds the PublicKeyCredentialRequestOptions (WebAuthn Level 3,
	// section 5.5) for the approver's authenticator; absent where the design asks
	// for none.
	Assertion json.RawMessage `json:"assertion,omitempty"`
	// Rendered is the view as the design prints it in each medium that it has for
	// approvers: lines for the title, for each field ("Label: text") and for notes.
	// It is made from the other members and is not part of the digest.
	Rendered map[Medium]string `json:"rendered,omitempty"`
}

// A Medium is where an approver reads a view.
type Medium string

const (
	MediumText     Medium = "text"     // a plain message, as in a chat or a mail
	MediumTerminal Medium = "terminal" // which obeys control sequences (ECMA-48)
	MediumMarkdown Medium = "markdown" // CommonMark with HTML, as in a comment
	MediumPage     Medium = "page"     // a fragment of HTML
)

// RunWide are the terms of a run-wide approval: of calls of one run that equal the
// one which was asked for (service, tool, arguments, what references mean), in
// whatever step.
type RunWide struct {
	Uses  int64     `json:"uses"`  // how many calls at most, two or more
	Until time.Time `json:"until"` // its own end, in whole seconds: the first instant at which it is over
}

// A ViewField is one line of a view.
type ViewField struct {
	// Path says which value the line claims to show, as a key of [Values];
	// "#audience", "#tool", "#agent" and the like for what is not an argument. A
	// run-wide view, and no other, has the lines "#uses", a decimal number, and
	// "#until", a time as of RFC 3339.
	Path  string `json:"path"`
	Label string `json:"label"`
	// Text is the value as displayed. A string is shown without quotes. In a view
	// that is bound (BindRender) every character that a reader could not see or
	// could mistake is written ⟨U+XXXX⟩, with ⟨ itself written ⟨U+27E8⟩, so that
	// the text determines the value; a secret may be shown as [SecretText]. An
	// ellipsis "…" at the end says that the value goes on, and "… and 2 more" that a
	// list does.
	Text string `json:"text"`
}

// A Verdict is an approver's decision.
type Verdict string

const (
	Approve Verdict = "approve"
	Decline Verdict = "decline"
)

// A Decision is posted by an approver. Who decides is the authenticated caller
// or the owner of the asserting credential.
type Decision struct {
	Suspension string          `json:"suspension"`
	Verdict    Verdict         `json:"verdict"`
	Stage      int64           `json:"stage,omitempty"`     // of the view that was decided on
	RunWide    *RunWide        `json:"run_wide,omitempty"`  // of the view that was decided on
	Assertion  json.RawMessage `json:"assertion,omitempty"` // WebAuthn assertion response
}

// SuspensionStatus is the worker's view of a suspension.
type SuspensionStatus struct {
	Suspension string  `json:"suspension"`
	Decided    bool    `json:"decided"`
	Verdict    Verdict `json:"verdict,omitempty"`
	Carried    Carried `json:"carried"`
}

// Carried is whatever a design transports from approval to dispatch. It passes
// through the queue, so a gate trusts no member of it without a check.
type Carried struct {
	Approved  bool            `json:"approved,omitempty"`  // a flag stapled to the run state
	Approval  string          `json:"approval,omitempty"`  // an approval id
	Permit    string          `json:"permit,omitempty"`    // a JWS in compact form (RFC 7515)
	Assertion json.RawMessage `json:"assertion,omitempty"` // the approver's WebAuthn assertion
}

// A Dispatch asks the enforcement point to execute an action.
type Dispatch struct {
	Action  Action  `json:"action"`
	Carried Carried `json:"carried"`
	// Siblings are further calls of the same step that the resumed run carries.
	// A gate with BindPerCall asks for the authority of each of them.
	Siblings []Action `json:"siblings,omitempty"`
	// RequestID correlates the effects with this dispatch. It is copied into the
	// provider request and decides nothing.
	RequestID string `json:"request_id"`
}

// A Status is what became of a dispatch.
type Status string

const (
	Executed Status = "executed" // an effect was made
	Refused  Status = "refused"  // a binding failed
	Held     Status = "held"     // waits for a dependency or for reconciliation
	Reasked  Status = "reasked"  // a new suspension was opened
	Absorbed Status = "absorbed" // an earlier result was returned, no new effect
)

// An Outcome is the gate's answer to a dispatch.
type Outcome struct {
	Status Status `json:"status"`
	// Refusals holds every binding that failed, in the order of [Bindings]. For a
	// held or reasked dispatch it says what is being waited for.
	Refusals   []Refusal       `json:"refusals,omitempty"`
	Suspension string          `json:"suspension,omitempty"` // the new one, when reasked
	Result     json.RawMessage `json:"result,omitempty"`     // the provider's, when executed or absorbed
	// Siblings answers Dispatch.Siblings, in their order.
	Siblings []Outcome `json:"siblings,omitempty"`
}

// A Description is what a target says of itself.
type Description struct {
	Name    string    `json:"name"`
	Version string    `json:"version"`
	Claims  []Binding `json:"claims"` // the bindings the target says it enforces
	Origin  string    `json:"origin"` // the approver page's web origin
	// DispatchURI is the address of the enforcement point for DPoP proofs, with
	// "{audience}" to be replaced by the audience called.
	DispatchURI string `json:"dispatch_uri"`
	// PermitKey is the public key under which the issuer's permits verify, as PEM
	// (RFC 7468, section 13); empty where the target publishes none.
	PermitKey string `json:"permit_key,omitempty"`
}

// An AuditEntry is one line of the decision log. It holds digests and names,
// never argument values.
type AuditEntry struct {
	Seq        int64     `json:"seq"`
	Time       time.Time `json:"time"`
	Event      string    `json:"event"`
	Suspension string    `json:"suspension,omitempty"`
	Permit     string    `json:"permit,omitempty"`
	Principal  string    `json:"principal,omitempty"`
	Audience   string    `json:"audience,omitempty"`
	Tool       string    `json:"tool,omitempty"`
	ArgsDigest string    `json:"args_digest,omitempty"` // hex SHA-256 of the canonical arguments
	// ActionDigest is the hex SHA-256 of tenant, service, tool, ArgsDigest and what the
	// references resolve to, where the design resolves them: of a decision as shown, of a
	// dispatch as sent.
	ActionDigest string `json:"action_digest,omitempty"`
	ViewDigest   string `json:"view_digest,omitempty"` // of what the approver was shown; see [View].Digest
	Policy       string `json:"policy,omitempty"`      // version: of a decision that under which it was asked for
	RequestID    string `json:"request_id,omitempty"`
	// ConsumedAt is when the approval was spent, by this dispatch or the one that it
	// repeats.
	ConsumedAt time.Time `json:"consumed_at,omitzero"`
	// ProviderRequest is the id of the request that was sent to the provider, which is
	// that of an earlier dispatch where this one repeats it.
	ProviderRequest string `json:"provider_request_id,omitempty"`
	Key             string `json:"key,omitempty"` // provider idempotency key
	// Reconciled is what was found out about a call whose outcome was not known.
	Reconciled Reconciliation `json:"reconciled,omitempty"`
	Status     Status         `json:"status,omitempty"`
	Refusals   []Refusal      `json:"refusals,omitempty"`
	Alert      Alert          `json:"alert,omitempty"`
	// Uses is how many calls the approval is for, where that is more than one.
	Uses int64 `json:"uses,omitempty"`
	// Note is what else an auditor has to know: the value of an administrative
	// event, the stage that was decided, the opt-out under which somebody did, the
	// terms of a run-wide approval, and which of its uses a call was.
	Note string `json:"note,omitempty"`
}

// A Reconciliation is what a gate found out about a call of which it was not known
// whether it was executed.
type Reconciliation string

const (
	FoundExecuted    Reconciliation = "executed"     // the provider has it on record
	FoundFailed      Reconciliation = "failed"       // the provider has on record that it failed, without an effect
	FoundNothing     Reconciliation = "nothing"      // nothing is on record yet: it was sent again under the same key
	FoundNotSent     Reconciliation = "not sent"     // whoever spent the approval sent nothing
	FoundNotExecuted Reconciliation = "not executed" // it was not, and cannot be any more
	StillOpen        Reconciliation = "in progress"  // it may still be on its way
	NoLookup         Reconciliation = "no look-up"   // the provider offers none: a person has to find out
	LookupFailed     Reconciliation = "unavailable"  // the provider does not answer look-ups
)

// Reconciliations returns every reconciliation.
func Reconciliations() []Reconciliation {
	return []Reconciliation{FoundExecuted, FoundFailed, FoundNothing, FoundNotSent, FoundNotExecuted, StillOpen, NoLookup, LookupFailed}
}

// An Alert is something in the decision log that an operator has to look at.
type Alert string

const (
	AlertHash     Alert = "hash differs"                // the arguments at dispatch are not those that were approved
	AlertSpent    Alert = "presented after consumption" // an approval was presented that had been spent
	AlertAudience Alert = "audience mismatch"           // an approval was presented for a call to another service
	// AlertTwice: more effects came of one permit than it is for. The gate cannot see it, or
	// it would not happen: the comparison of the log with the provider's ledger does.
	AlertTwice Alert = "two effects for one permit"
)

// Alerts returns every alert.
func Alerts() []Alert { return []Alert{AlertHash, AlertSpent, AlertAudience, AlertTwice} }
