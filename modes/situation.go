package modes

import (
	"context"
	"errors"
	"slices"
	"time"

	"countersign/gateway/api"
	"countersign/gateway/canonical"
	"countersign/modes/passkey"
)

// A Situation is everything a check may read at the enforcement point. Checks
// do not change anything; the gateway assembles the situation and spends the
// approval only after every check has passed.
type Situation struct {
	Mode Mode

	// The request, as the worker now has it.
	Action  api.Action
	Carried api.Carried
	Proof   string // DPoP proof
	Method  string // of the call, for the proof
	URI     string // of the enforcement point for the audience called
	Caller  api.Principal

	// What the gateway reads from the request.
	Tool       api.Tool // row of the tool table
	ToolDigest string
	Canonical  []byte // canonical arguments; empty when they could not be read
	ArgsDigest string // hex SHA-256 of Canonical
	ReadErr    error  // the arguments have no reading at all
	StrictErr  error  // the arguments have more than one reading, or not the tool's shape

	// The world now. An error means that this is not known.
	Now       time.Time
	NowErr    error
	HighWater time.Time // the latest time ever seen
	Policy    Policy
	PolicyErr error
	StoreErr  error
	AuditErr  error

	Resolved   []api.Resolved // references of the request, resolved now
	ResolveErr error

	Records    Records
	Identities Identities
	Seen       func(id string) []string // the calls for which the live instance saw a permit
	SeenProof  func(jti string) bool
	Keys       *Keys
	RP         *passkey.RelyingParty

	Evidence Evidence
	// Call identifies the call at hand among those under a run-wide approval: by the
	// newest suspension of its place, so that entering a step again is another call.
	Call    string
	CallErr error
	// Use is which use of a run-wide approval the call spends or has spent, from 1;
	// zero while that is not known.
	Use int
	// Line is what the decision log says of the call, as far as that is known. The gateway
	// fills it in, and no check reads it.
	Line api.AuditEntry
	// ProofID is the identifier of the proof that the sender binding verified, to
	// be remembered when the approval is spent.
	ProofID string
	ctx     context.Context
}

// Records reads the approval store. Any error but api.ErrNotFound means that the
// store did not answer.
type Records interface {
	Approval(ctx context.Context, permit string) (Approval, error)
	// ApprovalOfRun returns the newest approval given in the run.
	ApprovalOfRun(ctx context.Context, run string) (Approval, error)
	// Window returns the newest step-up of a requester.
	Window(ctx context.Context, requester string) (Approval, error)
	// Latest returns the newest suspension of a place.
	Latest(ctx context.Context, p Place) (Suspended, error)
	// Permit returns the permit id that an approval of a suspension has.
	Permit(ctx context.Context, suspension string) (string, error)
	Spent(ctx context.Context, issuer, audience, permit string) (bool, error)
	// Use returns the number of the use of a run-wide approval that a call has spent,
	// else of the first that no call has. With spent and a use that is another call's,
	// none is left, and it is the last.
	Use(ctx context.Context, issuer string, e Envelope, call string) (n int, spent bool, err error)
	Revoked(ctx context.Context, permit string) (bool, error)
}

// A Place is where suspensions follow each other: the newest ends the others.
type Place struct{ Tenant, Agent, Run, Step, Call string }

// PlaceOf returns the place of an agent's call. Runs, steps and calls are named by
// agents, so that a design that binds the agent keeps those of each apart: nobody
// else's proposal ends its approvals. Any other design has one place for all.
func (m Mode) PlaceOf(tenant, agent string, a api.Action) Place {
	if !m.Has(api.BindAgent) {
		tenant, agent = "", ""
	}
	return Place{tenant, agent, a.Run, a.Step, a.Call}
}

// Suspended identifies a suspension.
type Suspended struct {
	ID string
	At int64
}

// Identities reads the register of principals and credentials.
type Identities interface {
	Principal(ctx context.Context, id string) (api.Principal, error)
	Disabled(ctx context.Context, agent string) (bool, error)
	// Approvers returns the ids of a tenant's eligible approvers.
	Approvers(ctx context.Context, tenant string) ([]string, error)
	// OptOut returns the reason for which a person may approve what it requests
	// itself; api.ErrNotFound: it may not.
	OptOut(ctx context.Context, tenant, person string) (string, error)
	Credentials(ctx context.Context, owner string) ([]passkey.Credential, error)
	// Unenrolled reports whether a person's passkeys were removed and none is left.
	Unenrolled(ctx context.Context, person string) (bool, error)
	// Owner returns who enrolled a credential, whether or not it was removed since.
	Owner(ctx context.Context, id []byte) (string, error)
	// Credential finds an enrolled credential by its raw id.
	Credential(ctx context.Context, id []byte) (passkey.Credential, error)
}

// Evidence is what a design has to hold the request against.
type Evidence struct {
	Envelope Envelope // zero members where the design carries none
	Text     []byte   // the canonical envelope that the approver's passkey should have signed
	// Presented is the envelope of the permit that was carried. It is unverified.
	Presented []byte
	Approver  string
	// Assertion is the approver's, from the store or from what was carried.
	Assertion []byte
	// Challenge is the one the gateway issued, where the store tells it.
	Challenge []byte
	// ViewDigest is that of the view kept at review, where the store tells it.
	ViewDigest string
	// RecordErr says why the store holds no approval for this.
	RecordErr error
}

// none reports whether there is no approval: every one names the agent that asked,
// however it is carried. Not every one has an id; a permit under a MAC may have none.
func (e Evidence) none() bool { return e.Envelope.Agent == "" }

// compares lists the refusals that say how an approval differs from what holds
// now. Where there is no approval they would mislead.
var compares = map[api.Binding][]string{
	api.BindRefs:   {"drift"},
	api.BindDuties: {"no_approvers"},
	api.BindOnline: {"policy", "risk"},
}

// Verify opens the evidence and evaluates every binding of the mode. It returns
// all refusals, in the order of api.Bindings.
func Verify(ctx context.Context, s *Situation) []api.Refusal {
	Open(ctx, s)
	return Evaluate(s)
}

// Open finds the evidence: what was approved, as far as the design can tell. None
// of it is verified.
func Open(ctx context.Context, s *Situation) {
	s.ctx = ctx
	if carrier, ok := carriers[s.Mode.Carrier]; ok {
		s.Evidence = carrier.Find(s)
	}
	if s.Evidence.Envelope.RunWide() {
		s.Call, s.CallErr = s.call()
	}
}

// Evaluate is Verify for a situation that was opened.
func Evaluate(s *Situation) []api.Refusal {
	if _, ok := carriers[s.Mode.Carrier]; !ok {
		return []api.Refusal{{Binding: api.BindRecord, Code: "no_mode", Detail: "no approval mode is configured"}}
	}
	var out []api.Refusal
	for _, c := range checks {
		if !s.Mode.Has(c.binding) {
			continue
		}
		if code, detail := c.check(s); code != "" {
			if s.Evidence.none() && slices.Contains(compares[c.binding], code) {
				code, detail = "absent", "no approval is there"
			}
			out = append(out, api.Refusal{Binding: c.binding, Code: code, Detail: detail})
		}
	}
	if s.Mode.Carrier == CarryFlag && !s.Carried.Approved {
		// The flag is the whole of this design; no binding names it.
		out = append(out, api.Refusal{Binding: api.BindMediated, Code: "flag", Detail: "the resume body does not say approved"})
	}
	return out
}

func (s *Situation) call() (string, error) {
	e := s.Evidence.Envelope
	latest, err := s.Records.Latest(s.context(), s.Mode.PlaceOf(e.Tenant, e.Agent, s.Action))
	if errors.Is(err, api.ErrNotFound) { // which only suspension minds
		return s.Action.Step + "\x00" + s.Action.Call, nil
	}
	return latest.ID, err
}

// Standing are the bindings that say whether authority still holds, rather than
// what it is for. They are verified again before a late send, and a spent permit
// presented again is exempt from them.
func Standing() []api.Binding {
	return []api.Binding{api.BindExpiry, api.BindOnline, api.BindSeen, api.BindOnce}
}

// Recheck evaluates one binding again in a situation that Verify has seen.
func Recheck(s *Situation, b api.Binding) (api.Refusal, bool) {
	for _, c := range checks {
		if c.binding == b && s.Mode.Has(b) {
			if code, detail := c.check(s); code != "" {
				return api.Refusal{Binding: b, Code: code, Detail: detail}, false
			}
		}
	}
	return api.Refusal{}, true
}

// CodeUnavailable and its like say that the gate waits rather than refuses.
const (
	CodeUnavailable = "unavailable" // a dependency did not answer
	CodeClock       = "clock"       // the time is unknown or ran back
)

func unavailable(err error) bool { return err != nil && !errors.Is(err, api.ErrNotFound) }

func strictCode(err error) string {
	var e *canonical.Error
	if errors.As(err, &e) {
		return string(e.Code)
	}
	return "unreadable"
}
