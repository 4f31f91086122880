package api

// A Role is what a principal may do.
type Role string

const (
	RoleAgent   Role = "agent"   // propose, read its own suspensions, dispatch
	RolePerson  Role = "person"  // requester or approver
	RoleAdmin   Role = "admin"   // administrative events
	RoleAuditor Role = "auditor" // read the audit log
)

// A Principal is an identity known to the gateway.
type Principal struct {
	ID     string `json:"id"`
	Role   Role   `json:"role"`
	Tenant string `json:"tenant"`
	// ActsFor is the person on whose behalf an agent asks (the requester), or the
	// person of whom a person is a delegate.
	ActsFor string `json:"acts_for,omitempty"`
	// Approver marks a person who is in the set of eligible approvers.
	Approver bool `json:"approver,omitempty"`
	// Token is the access token, chosen by whoever enrols the principal; only
	// its digest is stored.
	Token string `json:"token,omitempty"`
	// Key is the agent's public key as a JWK (RFC 7517), for proofs of possession.
	Key []byte `json:"key,omitempty"`
}

// An EventKind names an administrative event.
type EventKind string

const (
	EventEnrol            EventKind = "enrol"             // Principal
	EventDisableAgent     EventKind = "disable_agent"     // Subject: agent id
	EventRevoke           EventKind = "revoke"            // Subject: suspension whose approval is withdrawn
	EventPolicyChange     EventKind = "policy_change"     // Value: the new policy version
	EventRiskLabel        EventKind = "risk_label"        // Subject: audience + "/" + tool; Value: the new label
	EventApprovals        EventKind = "approvals"         // Subject: audience + "/" + tool; Value: how many people have to approve, 1 to 9
	EventRemoveCredential EventKind = "remove_credential" // Subject: person whose passkeys are removed

	// The opt-out from segregation of duties for a team of one: a person may
	// approve what is asked on that person's own behalf, until it is forbidden again.
	EventAllowSelfApproval  EventKind = "allow_self_approval"  // Subject: person; Value: the reason
	EventForbidSelfApproval EventKind = "forbid_self_approval" // Subject: person

	// The bounds of run-wide approvals of a tool, which is allowed none unless they
	// are set: how many calls, 2 to 99, and how long from the decision on, whole seconds
	// up to 24 hours as of time.ParseDuration, as in "3 10m". What is changed later also
	// ends approvals of more calls than are allowed then, and not those that last
	// longer.
	EventAllowRunWide  EventKind = "allow_run_wide"  // Subject: audience + "/" + tool; Value: the bounds
	EventForbidRunWide EventKind = "forbid_run_wide" // Subject: audience + "/" + tool
)

// An Event is an administrative event. It comes from the environment, never from
// the adversary.
type Event struct {
	Kind      EventKind  `json:"kind"`
	Principal *Principal `json:"principal,omitempty"`
	Subject   string     `json:"subject,omitempty"`
	Value     string     `json:"value,omitempty"`
}
