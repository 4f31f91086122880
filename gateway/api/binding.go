package api

// A Binding names one independent check that ties an execution to an approval.
// An approval design is a set of bindings.
type Binding string

// The bindings, by family. The comment states the check at the enforcement
// point.
const (
	// Meaning: what is executed is what was reviewed.

	// BindArgs compares SHA-256 over the RFC 8785 canonical arguments of the
	// request that goes out with the digest fixed at review.
	BindArgs Binding = "args"
	// BindRefs resolves references before review, shows and hashes the resolved
	// values, resolves again at dispatch and makes the provider enforce them.
	BindRefs Binding = "refs"
	// BindRender derives the view from the very bytes that are hashed, whole and
	// with deceptive characters made visible.
	BindRender Binding = "render"
	// BindStrict admits one reading of the JSON only, before review and at
	// dispatch, and sends the canonical bytes.
	BindStrict Binding = "strict"

	// Authority: the decision is genuine, and it is for this.

	// BindRecord reads the decision from the approval store, and wants one by as many
	// people as the policy asks for.
	BindRecord Binding = "record"
	// BindSigned verifies a permit's signature, algorithm and key.
	BindSigned Binding = "signed"
	// BindSender wants proof of possession of the agent's key (RFC 9449).
	BindSender Binding = "sender"
	// BindAttest verifies a WebAuthn assertion by an enrolled approver.
	BindAttest Binding = "attest"
	// BindChallenge wants that assertion's challenge to be the digest of the
	// approval envelope, not a random number.
	BindChallenge Binding = "challenge"
	// BindAgent compares the authenticated caller with the agent that asked.
	BindAgent Binding = "agent"
	// BindDuties wants an approver who is neither the agent, the requester nor a
	// delegate of either, and denies an unknown identity or an empty approver set. A
	// requester with a recorded opt-out may approve, under the same conditions else.
	// Where several people have to approve, it wants as many people.
	BindDuties Binding = "duties"
	// BindAudience compares the service called with the service approved.
	BindAudience Binding = "audience"
	// BindConnector compares the tool called, and its schema, with the tool approved.
	BindConnector Binding = "connector"
	// BindRun compares the run.
	BindRun Binding = "run"
	// BindCall compares the call identifier, unless the approval is run-wide.
	BindCall Binding = "call"
	// BindSuspension wants the approval to be for the newest suspension of
	// (run, step, call), or that suspension to be bound to it where it is run-wide; it
	// implies BindRun and BindCall.
	BindSuspension Binding = "suspension"
	// BindExpiry checks not-before and not-after against one clock, which must
	// not have run back.
	BindExpiry Binding = "expiry"
	// BindOnline wants the agent enabled, the approval not revoked, the approver
	// still enrolled, policy version and risk label unchanged, no more approvals
	// asked for and no fewer run-wide uses allowed, at dispatch.
	BindOnline Binding = "online"
	// BindSeen looks an identifier up and marks it in one live instance.
	BindSeen Binding = "seen"
	// BindOnce spends an approval, or one use of a run-wide one, by one atomic
	// compare-and-set in shared, durable state scoped to issuer and audience; it
	// implies BindSeen.
	BindOnce Binding = "once"
	// BindClosed holds when store, policy, audit or clock does not answer.
	BindClosed Binding = "closed"
	// BindMediated lets the provider accept effects over the gateway's credential
	// alone, and decides what needs approval from the tool table, never from the request.
	BindMediated Binding = "mediated"
	// BindPerCall evaluates the gate for each call, not once for a resume.
	BindPerCall Binding = "percall"
	// BindSteer gates changes of reference data that steers later actions.
	BindSteer Binding = "steer"

	// Effect: once, even when the network is not.

	// BindIdem derives the provider's idempotency key from the permit and
	// reconciles an ambiguous outcome before anything is sent again.
	BindIdem Binding = "idem"
)

// Bindings returns every binding in the order of the documentation.
func Bindings() []Binding {
	return []Binding{
		BindArgs, BindRefs, BindRender, BindStrict,
		BindRecord, BindSigned, BindSender, BindAttest, BindChallenge, BindAgent, BindDuties,
		BindAudience, BindConnector, BindRun, BindCall, BindSuspension,
		BindExpiry, BindOnline, BindSeen, BindOnce, BindClosed,
		BindMediated, BindPerCall, BindSteer,
		BindIdem,
	}
}

// Enforces reports whether a set of claimed bindings enforces b, directly or
// because a stronger binding implies it: once implies seen, suspension implies
// run and call.
func Enforces(claims []Binding, b Binding) bool {
	for _, c := range claims {
		switch {
		case c == b,
			c == BindOnce && b == BindSeen,
			c == BindSuspension && (b == BindRun || b == BindCall):
			return true
		}
	}
	return false
}
