package api

import (
	"context"
	"encoding/json"
	"time"
)

// A Target is an approval system under test: one of the built-in modes, or
// someone else's. All methods may be called concurrently.
type Target interface {
	Describe(ctx context.Context) (Description, error)

	// Propose asks for approval of an action. The caller is an agent.
	Propose(ctx context.Context, auth Auth, a Action) (Pending, error)
	// Preview is a dry run: what the call would do, resolved now. It executes
	// nothing and needs no approval.
	Preview(ctx context.Context, auth Auth, a Action) (Values, error)
	// Status gives the worker what the design transports. The caller is the agent
	// that proposed.
	Status(ctx context.Context, auth Auth, suspension string) (SuspensionStatus, error)
	// Dispatch is the enforcement point. The caller is an agent.
	Dispatch(ctx context.Context, auth Auth, d Dispatch) (Outcome, error)

	// View returns what the approver is shown. The caller is a person.
	View(ctx context.Context, auth Auth, suspension string) (View, error)
	// RunWideView returns what the approver is shown who asks to approve the action
	// for its whole run, on terms within the view's Offer. A decision on it names
	// them. It changes nothing, and the caller is a person. ErrInvalid for terms that
	// are none, ErrForbidden for those that the policy does not allow.
	RunWideView(ctx context.Context, auth Auth, suspension string, terms RunWide) (View, error)
	// Decide records a decision.
	Decide(ctx context.Context, auth Auth, d Decision) error
	// BeginEnrolment and FinishEnrolment register a passkey for the calling person
	// (WebAuthn Level 3, section 7.1).
	BeginEnrolment(ctx context.Context, auth Auth) (json.RawMessage, error)
	FinishEnrolment(ctx context.Context, auth Auth, response json.RawMessage) error

	// Admin applies an administrative event. The caller is an admin.
	Admin(ctx context.Context, auth Auth, e Event) error
	// Audit returns the entries with Seq > after, oldest first, and not more of them at
	// once than the target likes: who wants all asks again, after the last one, until
	// there are none. The caller is an auditor.
	Audit(ctx context.Context, auth Auth, after int64) ([]AuditEntry, error)
}

// An Admitter is a target that can tell whether it knows a caller before it is
// asked anything. A server asks it first, so that whoever holds no token cannot
// make it read and keep a body.
type Admitter interface {
	// Admit returns the caller, or [ErrUnauthenticated] for a token that belongs to
	// nobody. What a caller may do is decided by the call.
	Admit(ctx context.Context, auth Auth) (Principal, error)
}

// A Readier is a target that can tell which of its dependencies do not answer.
type Readier interface {
	// Ready lists the dependencies that do not answer now; none means that calls can
	// be served. It changes nothing.
	Ready(ctx context.Context) []Dependency
}

// A Clock is the one authoritative clock. An error means that the time is not
// known.
type Clock interface {
	Now() (time.Time, error)
}

// A Deployment is the world a target is put into: what a platform team would
// configure, the same for every target.
type Deployment struct {
	Issuer    string // the gateway's own name
	Tools     []Tool
	Provider  Provider
	Directory Directory
	Clock     Clock
	// ApprovalTTL is how long after the suspension its approval may be used.
	ApprovalTTL time.Duration
	// AdminToken and AuditorToken authenticate the deployment's own operators.
	AdminToken, AuditorToken string
	// DispatchURI is the address of the enforcement point as DPoP proofs name it
	// (RFC 9449, section 4.2), with "{audience}" in the place of the audience called,
	// if each has an address of its own. Empty means that of a lab, in which no
	// address is served. It is never taken from a request.
	DispatchURI string
	// Origin is the web origin of the approver's page, such as
	// "https://approve.example"; its host is the relying party id.
	Origin string
	// ProviderCredential is what the gateway presents to the provider.
	ProviderCredential string
	// SecretKey is for [SecretText]. The deployment shares it with the pages on
	// which people enter secrets, where they learn what a view will show. Without
	// one, a bound view shows secrets whole: masked otherwise, two would look alike.
	SecretKey []byte
}

// A Bench is a deployed target with the handles the lab has on it.
type Bench struct {
	Target Target
	Lab    Lab // nil where the target offers none
	// Unscheduled says that the lab cannot keep the order of a race: its callers set
	// out together, and what comes of that may differ from one time to the next.
	Unscheduled bool
}

// A Dependency is something outside the gate that can fail.
type Dependency string

const (
	DepStore  Dependency = "store"  // approvals and spent state
	DepPolicy Dependency = "policy" // policy version and risk labels
	DepAudit  Dependency = "audit"
	DepClock  Dependency = "clock" // the deployment's, so the lab stops it without the target
	// DepIdentity is the look-up of people and agents by name. Authenticating a
	// caller is no part of it.
	DepIdentity Dependency = "identity"
)

// A Step is a point in the handling of a dispatch.
type Step string

const (
	StepChecked  Step = "checked"  // all checks passed, nothing is spent
	StepConsumed Step = "consumed" // spent, nothing is sent
	StepSent     Step = "sent"     // the provider was called, nothing is recorded
)

// A Fault is the way in which a dependency fails.
type Fault string

const (
	FaultNone    Fault = ""        // it works
	FaultDown    Fault = "down"    // every call is answered with an error and does nothing
	FaultPanic   Fault = "panic"   // every call breaks down inside the client's code
	FaultPartial Fault = "partial" // a write is made and answered with an error; reads work
	FaultTimeout Fault = "timeout" // no call is answered: the client gives it up (context.DeadlineExceeded)
)

// A Lab moves the world around a built-in target: faults, crashes and the order
// of concurrent work. It never reaches into a decision. Methods are called from
// one goroutine at a time.
type Lab interface {
	// Fault makes a dependency fail in some way, or work again.
	Fault(dep Dependency, f Fault)
	// Restart replaces the process: what was in memory only is lost, the store
	// is kept.
	Restart(ctx context.Context) error
	// Second returns another instance that shares the store.
	Second(ctx context.Context) (Target, error)
	// At runs f once, when the next dispatch reaches the step. An error from f
	// is a crash of the gateway at that point.
	At(step Step, f func(ctx context.Context) error)
	// Race runs work(0) … work(n-1) as concurrent callers with a fixed schedule:
	// each runs until it is about to consume (or returns), then they are let go
	// one after the other in the given order.
	Race(ctx context.Context, order []int, work func(ctx context.Context, i int))
}

// A Factory deploys a fresh target.
type Factory func(ctx context.Context, d Deployment) (Bench, error)
