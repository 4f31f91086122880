package modes

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"countersign/gateway/api"
	"countersign/modes/passkey"
)

// A check enforces one binding at the enforcement point. It returns an empty
// code when the binding holds. It reads only; it cannot see other checks. What
// it needs and does not have makes it refuse.
//
// Four bindings act elsewhere: render where the view is made (its check here
// holds the envelope against the view that was kept), mediated and steer where the gateway
// decides what is consequential, percall where it decides how often to verify,
// idem where it sends.
var checks = []struct {
	binding api.Binding
	check   func(s *Situation) (code, detail string)
}{
	{api.BindArgs, checkArgs},
	{api.BindRefs, checkRefs},
	{api.BindRender, checkRender},
	{api.BindStrict, checkStrict},
	{api.BindRecord, checkRecord},
	{api.BindSigned, checkSigned},
	{api.BindSender, checkSender},
	{api.BindAttest, checkAttest},
	{api.BindChallenge, checkChallenge},
	{api.BindAgent, checkAgent},
	{api.BindDuties, checkDuties},
	{api.BindAudience, checkAudience},
	{api.BindConnector, checkConnector},
	{api.BindRun, checkRun},
	{api.BindCall, checkCall},
	{api.BindSuspension, checkSuspension},
	{api.BindExpiry, checkExpiry},
	{api.BindOnline, checkOnline},
	{api.BindSeen, checkSeen},
	{api.BindOnce, checkOnce},
	{api.BindClosed, checkClosed},
}

func checkArgs(s *Situation) (string, string) {
	switch {
	case s.ReadErr != nil:
		return "unreadable", s.ReadErr.Error()
	case s.Evidence.Envelope.ArgsDigest == "":
		return "absent", "the approval names no arguments"
	case s.ArgsDigest != s.Evidence.Envelope.ArgsDigest:
		return "differs", "the arguments are not those that were approved"
	}
	return "", ""
}

func checkRefs(s *Situation) (string, string) {
	if s.ResolveErr != nil {
		if unavailable(s.ResolveErr) {
			return CodeUnavailable, "references cannot be resolved now"
		}
		return "drift", "a reference does not exist any more"
	}
	if !sameResolved(s.Resolved, s.Evidence.Envelope.Resolved) {
		return "drift", "a reference means something else than at review"
	}
	return "", ""
}

func sameResolved(a, b []api.Resolved) bool {
	return slices.EqualFunc(a, b, func(x, y api.Resolved) bool {
		if x.Path != y.Path || x.Kind != y.Kind || x.ID != y.ID || x.Version != y.Version || len(x.Members) != len(y.Members) {
			return false
		}
		for k, v := range x.Members {
			w, ok := y.Members[k]
			if !ok || !bytes.Equal(v, w) {
				return false
			}
		}
		return true
	})
}

func checkRender(s *Situation) (string, string) {
	switch d := s.Evidence.Envelope.ViewDigest; {
	case d == "":
		return "absent", "the approval names no view"
	case s.Evidence.ViewDigest != "" && d != s.Evidence.ViewDigest:
		return "differs", "the approval is for another view than the one kept"
	}
	return "", ""
}

func checkStrict(s *Situation) (string, string) {
	if s.StrictErr != nil {
		return strictCode(s.StrictErr), s.StrictErr.Error()
	}
	return "", ""
}

func checkRecord(s *Situation) (string, string) {
	err := s.Evidence.RecordErr
	switch {
	case err == nil:
		return "", ""
	case unavailable(err):
		return CodeUnavailable, "the approval store does not answer"
	case errors.Is(err, errTooFew):
		return "too_few", "fewer people approved this than the policy asks for"
	}
	return "no_approval", "the approval store holds no approval for this"
}

func checkSigned(s *Situation) (string, string) {
	payload, err := s.Keys.verifyPermit(s.Mode.Carrier, s.Carried.Permit)
	if err != nil {
		return permitCode(err), err.Error()
	}
	if s.Evidence.Text != nil && !bytes.Equal(payload, s.Evidence.Text) {
		return "differs", "the permit is not the one that belongs to the approval"
	}
	if s.Evidence.Envelope.Issuer != s.Keys.Issuer {
		return "issuer", "the permit has another issuer"
	}
	return "", ""
}

func checkSender(s *Situation) (string, string) {
	if s.NowErr != nil {
		return CodeClock, "a proof's age cannot be told without a clock"
	}
	p, err := VerifyProof(s.Proof, s.Method, s.URI, s.Carried.Permit, s.Now)
	switch {
	case err != nil:
		return "proof", err.Error()
	case s.SeenProof(p.ID):
		return "proof_replayed", "the proof was used before"
	case s.Evidence.Envelope.AgentKey == "":
		return "absent", "the approval names no key"
	case p.Thumbprint != s.Evidence.Envelope.AgentKey:
		return "key", "the presenter does not hold the key the approval names"
	}
	s.ProofID = p.ID
	return "", ""
}

func checkAttest(s *Situation) (string, string) {
	if len(s.Evidence.Assertion) == 0 {
		return "absent", "there is no assertion by an approver"
	}
	creds, err := assertingCredentials(s)
	if err != nil {
		if unavailable(err) {
			return CodeUnavailable, "the register of credentials does not answer"
		}
		return "credential", "the asserting credential is not enrolled"
	}
	// What was signed is the business of the challenge binding; without it, the
	// challenge is the random one that the store remembers, if it does. The
	// counter was compared and stored when the decision was made.
	_, err = s.RP.VerifyAssertion(passkey.Assertion{
		Response: s.Evidence.Assertion, Credentials: creds, Challenge: s.Evidence.Challenge,
		AnyChallenge: s.Mode.Has(api.BindChallenge) || len(s.Evidence.Challenge) == 0,
	})
	return passkeyRefusal(err)
}

func assertingCredentials(s *Situation) ([]passkey.Credential, error) {
	if s.Evidence.Approver != "" {
		creds, err := s.Identities.Credentials(s.ctx, s.Evidence.Approver)
		if err == nil && len(creds) == 0 {
			err = api.ErrNotFound
		}
		return creds, err
	}
	id, err := UnverifiedCredentialID(s.Evidence.Assertion)
	if err != nil {
		return nil, api.ErrNotFound
	}
	c, err := s.Identities.Credential(s.ctx, id)
	return []passkey.Credential{c}, err
}

func passkeyRefusal(err error) (string, string) {
	if err == nil {
		return "", ""
	}
	var e *passkey.Error
	if errors.As(err, &e) {
		return string(e.Code), e.Detail
	}
	return "malformed", err.Error()
}

func checkChallenge(s *Situation) (string, string) {
	if len(s.Evidence.Assertion) == 0 || s.Evidence.Text == nil {
		return "absent", "there is no assertion over an envelope"
	}
	_, got, err := unverifiedAssertion(s.Evidence.Assertion)
	if err != nil {
		return "malformed", "the assertion cannot be read"
	}
	for _, text := range [][]byte{s.Evidence.Text, s.Evidence.Presented} {
		if want := sha256.Sum256(text); !bytes.Equal(got, want[:]) {
			return "differs", "the passkey did not sign this envelope"
		}
	}
	return "", ""
}

// UnverifiedCredentialID reads the credential id of an assertion, to look the
// credential up; the assertion is not verified.
func UnverifiedCredentialID(response []byte) ([]byte, error) {
	id, _, err := unverifiedAssertion(response)
	return id, err
}

// unverifiedAssertion reads the credential id and the challenge of an assertion
// without verifying anything.
func unverifiedAssertion(response []byte) (id, challenge []byte, err error) {
	var a struct {
		RawID    base64url `json:"rawId"`
		Response struct {
			ClientDataJSON base64url `json:"clientDataJSON"`
		} `json:"response"`
	}
	if err := jsonv2.Unmarshal(response, &a); err != nil {
		return nil, nil, err
	}
	var cd struct {
		Challenge base64url `json:"challenge"`
	}
	if err := jsonv2.Unmarshal(a.Response.ClientDataJSON, &cd); err != nil {
		return nil, nil, err
	}
	return a.RawID, cd.Challenge, nil
}

func checkAgent(s *Situation) (string, string) {
	switch {
	case s.Evidence.Envelope.Agent == "":
		return "absent", "the approval names no agent"
	case s.Evidence.Envelope.Agent != s.Caller.ID:
		return "differs", "the caller is not the agent that asked"
	}
	return "", ""
}

func checkDuties(s *Situation) (string, string) {
	e := s.Evidence.Envelope
	if code, detail := Duties(s, s.Evidence.Approver, e); code != "" {
		return code, detail
	}
	if e.Stage != e.Stages || len(e.Earlier) != e.Stages-1 {
		return "stage", "this is not the last of the approvals that are needed"
	}
	return "", ""
}

// MaxDelegation is how many may stand between somebody who acts for another and
// the one at the end.
const MaxDelegation = 8

var errDelegation = errors.New("everybody in this line acts for somebody else")

// line returns a principal and, one after the other, those it acts for. A name in
// it that is not known is api.ErrNotFound.
func (s *Situation) line(id string) ([]api.Principal, error) {
	var out []api.Principal
	for range MaxDelegation + 2 {
		p, err := s.Identities.Principal(s.context(), id)
		if err != nil {
			return out, err
		}
		out = append(out, p)
		if p.ActsFor == "" {
			return out, nil
		}
		id = p.ActsFor
	}
	return out, errDelegation
}

// Duties decides whether approver may approve what an envelope asks for
// (segregation of duties: NIST SP 800-53 AC-5), and those who approved the stages
// before it still may. It returns an empty code when they may, and are as many
// people.
func Duties(s *Situation, approver string, e Envelope) (string, string) {
	eligible, err := s.Identities.Approvers(s.context(), e.Tenant)
	if err != nil {
		return CodeUnavailable, "the set of approvers cannot be read"
	}
	if len(eligible) == 0 {
		return "no_approvers", "nobody may approve for this tenant"
	}
	people := map[string]bool{}
	for _, id := range append([]string{approver}, e.Earlier...) {
		deciding, err := s.line(id)
		if err != nil {
			return "unknown", "the approver's identity cannot be established"
		}
		person := deciding[len(deciding)-1].ID
		if code, detail := checkApprover(s, id, person, e, eligible); code != "" {
			return code, detail
		}
		if people[person] {
			return "same_person", "one person approved more than one stage"
		}
		people[person] = true
	}
	return "", ""
}

// checkApprover decides about one approver, who acts for a person in the end. Both
// sides are followed to the person at the end, however many act for one another on
// the way: one person is never at both ends. An opt-out waives this and nothing
// else, for the requester alone, while it is in force and where the envelope, which
// is what is signed, names it.
func checkApprover(s *Situation, approver, person string, e Envelope, eligible []string) (string, string) {
	own := approver == e.Requester
	switch {
	case approver == e.Agent:
		return "self", "the agent decided its own request"
	case own && e.SelfApproval == "":
		return "requester", "the requester decided its own request"
	}
	for _, id := range []string{e.Requester, e.Agent} {
		asking, err := s.line(id)
		if err != nil || asking[len(asking)-1].Role != api.RolePerson {
			return "no_requester", "the person on whose behalf the agent asks cannot be established"
		}
		if !own && asking[len(asking)-1].ID == person {
			return "delegate", "the approver and the requester act for one person"
		}
	}
	switch {
	case !slices.Contains(eligible, approver):
		return "not_eligible", "the approver is not in the set of approvers"
	case !slices.Contains(e.Approvers, approver):
		return "not_asked", "the approver was not in the set of approvers when this was asked"
	case !own:
		return "", ""
	}
	switch reason, err := s.Identities.OptOut(s.context(), e.Tenant, approver); {
	case unavailable(err):
		return CodeUnavailable, "opt-outs cannot be read now"
	case reason != e.SelfApproval:
		return "opt_out", "the opt-out under which the requester decided is not in force"
	}
	return "", ""
}

func checkAudience(s *Situation) (string, string) {
	switch e := s.Evidence.Envelope; {
	case e.Audience == "":
		return "absent", "the approval names no audience"
	case e.Audience != s.Action.Audience:
		return "differs", "the approval is for another service"
	case e.Tenant != s.Caller.Tenant:
		return "tenant", "the approval is for another tenant"
	}
	return "", ""
}

func checkConnector(s *Situation) (string, string) {
	switch e := s.Evidence.Envelope; {
	case e.Tool == "":
		return "absent", "the approval names no tool"
	case e.Tool != s.Action.Tool:
		return "differs", "the approval is for another tool"
	case e.ToolDigest != "" && e.ToolDigest != s.ToolDigest:
		return "schema", "the tool is not described as it was at review"
	}
	return "", ""
}

func checkRun(s *Situation) (string, string) {
	switch e := s.Evidence.Envelope; {
	case e.Run == "":
		return "absent", "the approval names no run"
	case e.Run != s.Action.Run:
		return "differs", "the approval is for another run"
	}
	return "", ""
}

func checkCall(s *Situation) (string, string) {
	switch e := s.Evidence.Envelope; {
	case e.RunWide():
		return "", ""
	case e.Call == "":
		return "absent", "the approval names no call"
	case e.Call != s.Action.Call:
		return "differs", "the approval is for another call"
	}
	return "", ""
}

func checkSuspension(s *Situation) (string, string) {
	e := s.Evidence.Envelope
	latest, err := s.Records.Latest(s.context(), s.Mode.PlaceOf(e.Tenant, e.Agent, s.Action))
	switch {
	case unavailable(err):
		return CodeUnavailable, "suspensions cannot be read now"
	case err != nil:
		return "none", "this call was never suspended"
	case e.RunWide():
		return checkBoundTo(s, latest)
	case e.SuspendedAt == 0:
		return "absent", "the approval names no suspension"
	case e.SuspendedAt != latest.At:
		return "differs", "the approval is for another suspension of this call"
	}
	return "", ""
}

// checkBoundTo: a call under a run-wide approval was proposed, and bound to it then.
func checkBoundTo(s *Situation, latest Suspended) (string, string) {
	switch permit, err := s.Records.Permit(s.context(), latest.ID); {
	case err != nil:
		return CodeUnavailable, "suspensions cannot be read now"
	case permit != s.Evidence.Envelope.Permit:
		return "differs", "this call waits for another approval"
	}
	return "", ""
}

func checkExpiry(s *Situation) (string, string) {
	e := s.Evidence.Envelope
	switch {
	case s.NowErr != nil:
		return CodeClock, "the time is not known"
	case s.Now.Before(s.HighWater):
		return CodeClock, "the clock ran back"
	case e.ExpiresAt == 0:
		return "absent", "the approval has no end"
	case s.Now.Before(time.Unix(e.NotBefore, 0)):
		return "not_yet", "the approval is not valid yet"
	case !s.Now.Before(time.Unix(e.ExpiresAt, 0)):
		return "expired", "the approval has expired"
	}
	return "", ""
}

func checkOnline(s *Situation) (string, string) {
	e := s.Evidence.Envelope
	if s.PolicyErr != nil {
		return CodeUnavailable, "the policy cannot be read now"
	}
	for _, agent := range []string{e.Agent, s.Caller.ID} {
		if code, detail := Disabled(s.context(), s.Identities, agent); code != "" {
			return code, detail
		}
	}
	revoked, err := s.Records.Revoked(s.context(), e.Permit)
	switch {
	case err != nil:
		return CodeUnavailable, "withdrawals cannot be read now"
	case revoked:
		return "revoked", "the approval was withdrawn"
	}
	for _, approver := range append([]string{s.Evidence.Approver}, e.Earlier...) {
		gone, err := s.Identities.Unenrolled(s.context(), approver)
		switch {
		case err != nil:
			return CodeUnavailable, "the register of credentials cannot be read now"
		case gone:
			return "approver_removed", "the approver is not enrolled any more"
		}
	}
	switch {
	case e.Policy != s.Policy.Version:
		return "policy", "the policy changed since the approval"
	case e.Risk != s.Policy.Label(s.Tool):
		return "risk", "the risk label changed since the approval"
	case e.Stages < s.Policy.Needed(s.Tool):
		return "approvals", "more people have to approve this than did"
	case e.RunWide() && e.Uses > s.Policy.RunWideOf(s.Tool).Uses:
		return "run_wide", "fewer calls may be approved at once than were"
	}
	return "", ""
}

// Disabled says whether an agent, or one that it works for, was disabled, or that
// this is not known. It returns an empty code when none was.
func Disabled(ctx context.Context, r Identities, agent string) (string, string) {
	for range MaxDelegation + 2 {
		off, err := r.Disabled(ctx, agent)
		switch {
		case err != nil:
			return CodeUnavailable, "the register of agents cannot be read now"
		case off:
			return "agent_disabled", "the agent was disabled"
		}
		switch p, err := r.Principal(ctx, agent); {
		case unavailable(err):
			return CodeUnavailable, "the register of agents cannot be read now"
		case p.Role != api.RoleAgent: // nobody whom anyone could disable, or nobody at all
			return "", ""
		default:
			agent = p.ActsFor
		}
	}
	return "delegation", "too many agents act for one another"
}

func checkSeen(s *Situation) (string, string) {
	e := s.Evidence.Envelope
	if e.Permit == "" {
		return "absent", "the approval has no identifier"
	}
	calls, uses := s.Seen(e.Permit), 1
	if e.RunWide() {
		if s.CallErr != nil {
			return CodeUnavailable, "suspensions cannot be read now"
		}
		uses = e.Uses
	}
	if len(calls) >= uses || slices.Contains(calls, s.Call) {
		return "seen", "the approval was presented before"
	}
	return "", ""
}

func checkOnce(s *Situation) (string, string) {
	e := s.Evidence.Envelope
	if e.Permit == "" {
		return "absent", "the approval has no identifier"
	}
	spent, err := false, s.CallErr
	switch {
	case !e.RunWide():
		spent, err = s.Records.Spent(s.context(), s.Keys.Issuer, e.Audience, e.Permit)
	case err == nil:
		_, spent, err = s.Records.Use(s.context(), s.Keys.Issuer, e, s.Call)
	}
	switch {
	case err != nil:
		return CodeUnavailable, "spent approvals cannot be read now"
	case spent:
		return "spent", "the approval is spent"
	}
	return "", ""
}

func checkClosed(s *Situation) (string, string) {
	switch {
	case s.StoreErr != nil:
		return CodeUnavailable, "the approval store does not answer"
	case s.PolicyErr != nil:
		return CodeUnavailable, "the policy does not answer"
	case s.AuditErr != nil:
		return CodeUnavailable, "the audit log cannot be written"
	case s.NowErr != nil:
		return CodeUnavailable, "the clock does not answer"
	}
	return "", ""
}
