package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"countersign/gateway/api"
	"countersign/gateway/canonical"
	"countersign/modes"
	"countersign/modes/passkey"
)

// Propose implements api.Target: resolve references, preview, render the view,
// suspend.
func (g *Gateway) Propose(ctx context.Context, auth api.Auth, a api.Action) (api.Pending, error) {
	caller, err := g.authenticate(ctx, auth, api.RoleAgent)
	if err != nil {
		return api.Pending{}, err
	}
	t, err := g.tool(a)
	if err != nil {
		return api.Pending{}, err
	}
	if !g.gated(t.Tool, a) {
		return api.Pending{State: api.StateExempt}, nil
	}
	if err := g.mayAct(ctx, caller); err != nil {
		return api.Pending{}, err
	}
	s := g.situate(ctx, caller, auth, a, api.Carried{}, t)
	if r, ok := modes.Recheck(s, api.BindStrict); !ok {
		return api.Pending{}, &api.RefusedError{Refusals: []api.Refusal{r}}
	}
	digest, kept := g.keepAction(ctx, s)
	s.AuditErr = errors.Join(kept, g.log(ctx, api.AuditEntry{
		Event: "propose", Principal: caller.ID, Audience: a.Audience, Tool: a.Tool, ArgsDigest: s.ArgsDigest, ActionDigest: digest, Policy: s.Policy.Version,
	}))
	if r, ok := modes.Recheck(s, api.BindClosed); !ok {
		return api.Pending{}, &api.RefusedError{Refusals: []api.Refusal{r}}
	}
	if s.ReadErr != nil {
		return api.Pending{}, fmt.Errorf("%w: the arguments cannot be read: %w", api.ErrInvalid, s.ReadErr)
	}
	if g.mode.Covered(ctx, s) {
		return api.Pending{State: api.StateGranted}, nil
	}
	if g.mode.Has(api.BindIdem) {
		first, open, err := g.unreconciled(ctx, g.actionDigest(s), "")
		if err != nil {
			return api.Pending{}, err
		}
		if open {
			return api.Pending{State: api.StateHeld, First: first.Suspension}, nil
		}
	}
	if p, ok, err := g.granted(ctx, s, t); ok || err != nil {
		return p, err
	}
	return g.suspend(ctx, s, t)
}

// disabled says that an agent was disabled, or one that it works for, or that this
// is not known, where the design asks whether authority still holds.
func (g *Gateway) disabled(ctx context.Context, caller api.Principal) (code, detail string) {
	if !g.mode.Has(api.BindOnline) {
		return "", ""
	}
	return modes.Disabled(ctx, g.registry, caller.ID)
}

// mayAct refuses such an agent.
func (g *Gateway) mayAct(ctx context.Context, caller api.Principal) error {
	if code, detail := g.disabled(ctx, caller); code != "" {
		return api.Refuse(api.BindOnline, code, detail)
	}
	return nil
}

// suspend makes the envelope and the view, and stores the suspension.
func (g *Gateway) suspend(ctx context.Context, s *modes.Situation, t toolRow) (api.Pending, error) {
	if s.PolicyErr != nil {
		return api.Pending{}, fmt.Errorf("%w: how many people have to approve is not known", api.ErrUnavailable)
	}
	if s.ResolveErr != nil {
		return api.Pending{}, fmt.Errorf("resolving the references of %s/%s: %w", t.Audience, t.Name, s.ResolveErr)
	}
	requester, err := g.requester(ctx, s.Caller)
	if err != nil {
		return api.Pending{}, err
	}
	at, err := g.records.s.Next(ctx, "suspended-at")
	if err != nil {
		return api.Pending{}, answered(err)
	}
	approvers, err := g.registry.Approvers(ctx, s.Caller.Tenant)
	if err != nil {
		return api.Pending{}, err
	}
	sus := suspension{
		ID: suspensionID(at), At: at, Permit: hex.EncodeToString(randomBytes(16)),
		Agent: s.Caller.ID, Action: s.Action, ArgsDigest: s.ArgsDigest, Digest: g.actionDigest(s),
		Policy: s.Policy.Version,
	}
	e := modes.Envelope{
		Type: modes.EnvelopeType, Permit: sus.Permit, Decision: api.Approve, Issuer: g.d.Issuer, Tenant: s.Caller.Tenant,
		Agent: s.Caller.ID, Requester: requester, Run: s.Action.Run, Step: s.Action.Step, Call: s.Action.Call, SuspendedAt: at,
		Audience: t.Audience, Tool: t.Name, ToolDigest: t.digest, Arguments: string(s.Canonical), ArgsDigest: s.ArgsDigest,
		Resolved: s.Resolved, Policy: s.Policy.Version, Risk: s.Policy.Label(t.Tool), Approvers: approvers,
		Stage: 1, Stages: s.Policy.Needed(t.Tool), Earlier: []string{},
		AgentKey: thumbprint(s.Caller.Key), Guarantee: t.Guarantee, Uses: 1,
	}
	if g.mode.Has(api.BindDuties) {
		e.SelfApproval, err = g.registry.OptOut(ctx, e.Tenant, requester)
		if err != nil && !errors.Is(err, api.ErrNotFound) {
			return api.Pending{}, err
		}
	}
	if s.NowErr == nil {
		sus.Since = s.Now
		e.NotBefore, e.ExpiresAt = s.Now.Unix(), s.Now.Add(g.d.ApprovalTTL).Unix()
	}
	sus.View, err = g.render(ctx, s, t, e)
	if err != nil {
		return api.Pending{}, err
	}
	sus.View = staged(sus.View, e)
	sus.View.Suspension = sus.ID
	if err := g.seal(&sus, e); err != nil {
		return api.Pending{}, err
	}
	if err := g.records.suspend(ctx, g.mode.PlaceOf(e.Tenant, e.Agent, s.Action), sus); err != nil {
		return api.Pending{}, err
	}
	return api.Pending{Suspension: sus.ID, State: api.StatePending, SuspendedAt: at}, nil
}

// seal fixes what is asked in a stage of a suspension: the digest of its view, its
// envelope and its challenge.
func (g *Gateway) seal(sus *suspension, e modes.Envelope) (err error) {
	if g.mode.Has(api.BindRender) {
		if sus.View.Digest, err = viewDigest(sus.View); err != nil {
			return err
		}
		e.ViewDigest = sus.View.Digest
	}
	if sus.Envelope, err = e.Bound(g.mode).Text(); err != nil {
		return fmt.Errorf("making the approval envelope: %w", err)
	}
	sus.Challenge = randomBytes(challengeBytes)
	if g.mode.Has(api.BindChallenge) {
		h := sha256.Sum256(sus.Envelope)
		sus.Challenge = h[:]
	}
	return nil
}

// nextStage records an approval that others have to follow, and asks for the next.
func (g *Gateway) nextStage(ctx context.Context, sus suspension, e modes.Envelope, a modes.Approval) error {
	switch _, err := g.records.Approval(ctx, a.ID); { // a no stands
	case err == nil:
		return decidedAlready(sus.ID)
	case !errors.Is(err, api.ErrNotFound):
		return err
	}
	e.Stage, e.Earlier = e.Stage+1, append(e.Earlier, a.Approver)
	sus.View = staged(sus.View, e)
	if err := g.seal(&sus, e); err != nil {
		return err
	}
	_, err := create(ctx, g.records.s, kindStage, stageID(sus.ID, sus.View.Stage), "", stage{After: a, Opened: sus})
	return err
}

func decidedAlready(suspension string) error {
	return fmt.Errorf("%w: suspension %s is decided already", api.ErrConflict, suspension)
}

// requester finds on whose behalf an agent asks: for an agent of an agent, the
// person at the end. Otherwise that person could decide a request of its own, made
// through a second agent.
func (g *Gateway) requester(ctx context.Context, agent api.Principal) (string, error) {
	for range modes.MaxDelegation + 1 {
		next, err := g.registry.Principal(ctx, agent.ActsFor)
		switch {
		case errors.Is(err, api.ErrNotFound):
			return agent.ActsFor, nil // a person who has nothing to do with the gateway
		case err != nil:
			return "", err
		case next.Role != api.RoleAgent:
			return next.ID, nil
		}
		agent = next
	}
	return "", fmt.Errorf("%w: %s acts for more than %d agents in a row", api.ErrForbidden, agent.ID, modes.MaxDelegation)
}

// viewDigest is the SHA-256 of the canonical view without its digest, without
// the assertion options, which hold the digest's own consequence, without what is
// offered beside it, and without the renderings, which are made of the rest.
func viewDigest(v api.View) (string, error) {
	text, err := viewText(v)
	if err != nil {
		return "", err
	}
	return canonical.Digest(text), nil
}

// viewText is what the digest of a view is of.
func viewText(v api.View) ([]byte, error) {
	v.Digest, v.Offer, v.Assertion, v.Rendered = "", nil, nil, nil
	text, err := canonical.Canonical(v)
	if err != nil {
		return nil, fmt.Errorf("digesting the view: %w", err)
	}
	return text, nil
}

// Preview implements api.Target. It is a dry run because of the method called;
// nothing in a request makes a call one.
func (g *Gateway) Preview(ctx context.Context, auth api.Auth, a api.Action) (api.Values, error) {
	caller, err := g.authenticate(ctx, auth, api.RoleAgent)
	if err != nil {
		return nil, err
	}
	t, err := g.tool(a)
	if err != nil {
		return nil, err
	}
	if err := g.mayAct(ctx, caller); err != nil {
		return nil, err
	}
	s := g.situate(ctx, caller, auth, a, api.Carried{}, t)
	if r, ok := modes.Recheck(s, api.BindStrict); !ok {
		return nil, &api.RefusedError{Refusals: []api.Refusal{r}}
	}
	return g.d.Provider.Preview(ctx, g.request(s, ""))
}

// View implements api.Target.
func (g *Gateway) View(ctx context.Context, auth api.Auth, id string) (api.View, error) {
	caller, sus, e, err := g.open(ctx, auth, id)
	if err != nil {
		return api.View{}, err
	}
	v, err := g.shown(ctx, sus, e, caller)
	if err != nil {
		return api.View{}, err
	}
	// What cannot be found out now is not offered.
	v.Offer, _, _ = g.offer(ctx, sus, e)
	return v, nil
}

// open reads a suspension for a person.
func (g *Gateway) open(ctx context.Context, auth api.Auth, id string) (caller api.Principal, sus suspension, e modes.Envelope, err error) {
	if caller, err = g.authenticate(ctx, auth, api.RolePerson); err != nil {
		return caller, sus, e, err
	}
	if sus, err = g.records.suspension(ctx, id); err != nil {
		return caller, sus, e, err
	}
	e, err = g.ownedBy(sus, caller)
	return caller, sus, e, err
}

// shown is the view of a suspension as a person gets it.
func (g *Gateway) shown(ctx context.Context, sus suspension, e modes.Envelope, caller api.Principal) (v api.View, err error) {
	v = sus.View
	v.Rendered = g.channels(v)
	if g.mode.Has(api.BindAttest) || g.mode.Has(api.BindChallenge) {
		var allowed []passkey.Credential
		for _, approver := range e.Approvers {
			creds, err := g.registry.Credentials(ctx, approver)
			if err != nil {
				return api.View{}, err
			}
			allowed = append(allowed, creds...)
		}
		if len(allowed) == 0 {
			// Whether the caller may decide is the business of duties.
			if allowed, err = g.registry.Credentials(ctx, caller.ID); err != nil {
				return api.View{}, err
			}
		}
		if len(allowed) == 0 {
			return api.View{}, api.Refuse(api.BindAttest, "credential", "nobody who could decide this has a passkey")
		}
		if v.Assertion, err = g.rp.RequestOptions(sus.Challenge, allowed); err != nil {
			return api.View{}, fmt.Errorf("asking for an assertion: %w", err)
		}
	}
	return v, nil
}

// ownedBy opens a suspension for a caller of the same tenant. Another tenant's
// suspension does not exist for it.
func (g *Gateway) ownedBy(sus suspension, caller api.Principal) (modes.Envelope, error) {
	var e modes.Envelope
	if err := json.Unmarshal(sus.Envelope, &e); err != nil {
		return e, fmt.Errorf("reading suspension %s: %w", sus.ID, err)
	}
	if e.Tenant != caller.Tenant {
		return e, api.ErrNotFound
	}
	return e, nil
}

// Decide implements api.Target. Who decides is the owner of the asserting
// credential where the design attests, and the authenticated caller otherwise.
func (g *Gateway) Decide(ctx context.Context, auth api.Auth, d api.Decision) error {
	caller, err := g.authenticate(ctx, auth, api.RolePerson, api.RoleAgent)
	if err != nil {
		return err
	}
	if d.Verdict != api.Approve && d.Verdict != api.Decline {
		return fmt.Errorf("%w: a decision is %q or %q", api.ErrInvalid, api.Approve, api.Decline)
	}
	sus, err := g.records.suspension(ctx, d.Suspension)
	if err != nil {
		return err
	}
	e, err := g.ownedBy(sus, caller)
	if err != nil {
		return err
	}
	if d.Verdict == api.Decline && caller.Role == api.RoleAgent && caller.ID != sus.Agent {
		return fmt.Errorf("%w: an agent may withdraw its own request and no other", api.ErrForbidden)
	}
	if d.Verdict == api.Decline && caller.Role == api.RolePerson && g.mode.Has(api.BindDuties) {
		if err := g.mayDecline(ctx, caller.ID, e); err != nil {
			return err
		}
	}
	if d.Verdict == api.Approve && d.Stage != sus.View.Stage {
		return fmt.Errorf("%w: the decision is on another stage than the one that waits", api.ErrConflict)
	}
	if d.RunWide != nil && d.Verdict == api.Approve {
		if sus, err = g.widened(ctx, sus, e, *d.RunWide); err != nil {
			return err
		}
	}
	a := modes.Approval{
		ID: sus.Permit, Suspension: sus.ID, Verdict: d.Verdict, Approver: caller.ID,
		EnvelopeText: sus.Envelope, Challenge: sus.Challenge, ViewDigest: sus.View.Digest, Assertion: slices.Clone(d.Assertion),
	}
	var refusals []api.Refusal
	var use func() error
	if broken := guarded(func() { refusals, use, err = g.judgeDecision(ctx, &a, e, sus, d) }); broken != nil {
		refusals = broken
	}
	if err != nil {
		return err
	}
	// The log says what was posted before anything is on record, and what is on record
	// once it is: no line says that a suspension was approved which was not.
	shown, kept := g.keepView(ctx, sus.View)
	entry := api.AuditEntry{
		Event: "posted:" + string(d.Verdict), Suspension: sus.ID, Permit: permitDigest(sus.Permit), Principal: a.Approver,
		Audience: sus.Action.Audience, Tool: sus.Action.Tool,
		ArgsDigest: sus.ArgsDigest, ActionDigest: sus.Digest, ViewDigest: shown, Policy: sus.Policy,
	}
	var notes []string
	if e.Stages > 1 {
		notes = append(notes, fmt.Sprintf("approval %d of %d", e.Stage, e.Stages))
	}
	if a.Verdict == api.Approve && a.Approver == e.Requester && e.SelfApproval != "" {
		a.SelfApproval = e.SelfApproval
		notes = append(notes, optOutText(e.SelfApproval))
	}
	if d.RunWide != nil && a.Verdict == api.Approve {
		a.RunWide = sus.View.RunWide
		notes = append(notes, "run-wide: up to "+termsText(*sus.View.RunWide))
	}
	entry.Note = strings.Join(notes, "; ")
	if logErr := errors.Join(kept, g.log(ctx, entry)); logErr != nil && g.mode.Has(api.BindClosed) {
		refusals = append(refusals, api.Refusal{Binding: api.BindClosed, Code: modes.CodeUnavailable, Detail: "the audit log cannot be written"})
	}
	entry.Event = "decide:" + string(d.Verdict)
	if len(refusals) > 0 {
		entry.Refusals = refusals
		_ = g.log(ctx, entry) // the refusal stands whether or not it is logged
		return &api.RefusedError{Refusals: refusals}
	}
	if err := g.recordDecision(ctx, a, e, sus, use); err != nil {
		code := modes.CodeUnavailable
		if errors.Is(err, api.ErrConflict) {
			code = "decided"
		}
		entry.Refusals = []api.Refusal{{Binding: api.BindRecord, Code: code}}
		_ = g.log(ctx, entry)
		return err
	}
	if a.RunWide != nil { // no line says this of an approval that is none
		entry.Uses = a.RunWide.Uses
	}
	_ = g.log(ctx, entry) // the decision is on record, and that it was posted is in the log
	return nil
}

// recordDecision stores a decision that passed.
func (g *Gateway) recordDecision(ctx context.Context, a modes.Approval, e modes.Envelope, sus suspension, use func() error) (err error) {
	if use != nil {
		if err := use(); err != nil {
			return err
		}
	}
	if now, err := g.d.Clock.Now(); err == nil {
		a.DecidedAt = now
	}
	if a.Verdict == api.Approve && e.Stage < e.Stages {
		return g.nextStage(ctx, sus, e, a)
	}
	if a.RunWide != nil {
		// First, so that no approval is on record which covers less than it says. The row
		// means nothing without one.
		if err := once(create(ctx, g.records.s, kindRunWide, a.ID, runWideKey(e.Tenant, e.Agent, sus.Action.Run, sus.Digest), struct{}{})); err != nil {
			return err
		}
	}
	// One row per permit: the second decision finds it there.
	if _, err := create(ctx, g.records.s, kindApproval, a.ID, sus.Action.Run, a); err != nil {
		if errors.Is(err, api.ErrConflict) {
			return decidedAlready(sus.ID)
		}
		return err
	}
	g.records.waitsNoMore(ctx, sus.row)
	if g.mode.Carrier == modes.CarryWindow && a.Verdict == api.Approve {
		_, err = create(ctx, g.records.s, kindWindow, a.ID, e.Requester, struct{}{})
	}
	return err
}

// mayDecline refuses a person who neither asks nor may approve: saying no ends the
// request for everybody.
func (g *Gateway) mayDecline(ctx context.Context, person string, e modes.Envelope) error {
	eligible, err := g.registry.Approvers(ctx, e.Tenant)
	if err != nil {
		return err
	}
	if person != e.Requester && !slices.Contains(eligible, person) {
		return fmt.Errorf("%w: %s is neither the requester nor an approver", api.ErrForbidden, person)
	}
	return nil
}

// judgeDecision evaluates the bindings that speak about a decision. use, when
// not nil, stores the authenticator's counter once everything has passed.
func (g *Gateway) judgeDecision(ctx context.Context, a *modes.Approval, e modes.Envelope, sus suspension, d api.Decision) (out []api.Refusal, use func() error, err error) {
	g.keepTime(ctx)
	now, high, nowErr := g.now()
	s := &modes.Situation{
		Mode: g.mode, Action: sus.Action, Now: now, HighWater: high, NowErr: nowErr, Records: g.records, Identities: g.registry,
		StoreErr: g.records.ping(ctx), Evidence: modes.Evidence{Envelope: e},
	}
	_, s.PolicyErr = g.registry.policy(ctx)
	if a.Verdict == api.Decline {
		// Saying no needs no passkey, and it is never too late for it.
		return nil, nil, nil
	}
	if g.mode.Has(api.BindAttest) {
		var r api.Refusal
		r, use, err = g.judgeAssertion(ctx, a, sus, d.Assertion)
		if err != nil {
			return nil, nil, err
		}
		if r.Code != "" {
			out = append(out, r)
		}
	}
	if g.mode.Has(api.BindDuties) {
		if code, detail := modes.Duties(s, a.Approver, e); code != "" {
			out = append(out, api.Refusal{Binding: api.BindDuties, Code: code, Detail: detail})
		}
	}
	for _, b := range []api.Binding{api.BindSuspension, api.BindExpiry, api.BindClosed} {
		if r, ok := modes.Recheck(s, b); !ok {
			out = append(out, r)
		}
	}
	return out, use, nil
}

func (g *Gateway) judgeAssertion(ctx context.Context, a *modes.Approval, sus suspension, response json.RawMessage) (api.Refusal, func() error, error) {
	refusal := func(code, detail string) (api.Refusal, func() error, error) {
		return api.Refusal{Binding: api.BindAttest, Code: code, Detail: detail}, nil, nil
	}
	if len(response) == 0 {
		return refusal("absent", "a decision needs an assertion by an approver's passkey")
	}
	id, err := modes.UnverifiedCredentialID(response)
	if err != nil {
		return refusal(string(passkey.CodeMalformed), "the assertion cannot be read")
	}
	cred, err := g.registry.Credential(ctx, id)
	switch {
	case errors.Is(err, api.ErrNotFound):
		return refusal(string(passkey.CodeCredential), "the asserting credential is not enrolled")
	case err != nil:
		return api.Refusal{}, nil, err
	}
	verified, err := g.rp.VerifyAssertion(passkey.Assertion{
		Response: response, Challenge: sus.Challenge, Credentials: []passkey.Credential{cred}, CheckCounter: true,
	})
	if err != nil {
		var pe *passkey.Error
		if errors.As(err, &pe) {
			return refusal(string(pe.Code), pe.Detail)
		}
		return api.Refusal{}, nil, err
	}
	a.Approver = cred.Owner
	return api.Refusal{}, func() error {
		row, rev, err := get[credentialRow](ctx, g.registry.s, kindCredential, credentialID(id))
		if err != nil {
			return err
		}
		if row.Credential.SignCount != cred.SignCount {
			return fmt.Errorf("%w: the passkey was used elsewhere meanwhile", api.ErrConflict)
		}
		row.Credential.SignCount = verified.SignCount
		_, err = update(ctx, g.registry.s, rev, row)
		return err
	}, nil
}

// Status implements api.Target.
func (g *Gateway) Status(ctx context.Context, auth api.Auth, id string) (api.SuspensionStatus, error) {
	caller, err := g.authenticate(ctx, auth, api.RoleAgent)
	if err != nil {
		return api.SuspensionStatus{}, err
	}
	sus, err := g.records.suspension(ctx, id)
	if err != nil {
		return api.SuspensionStatus{}, err
	}
	if sus.Agent != caller.ID {
		return api.SuspensionStatus{}, api.ErrNotFound
	}
	a, err := g.records.Approval(ctx, sus.Permit)
	switch {
	case errors.Is(err, api.ErrNotFound):
		return api.SuspensionStatus{Suspension: id}, nil
	case err != nil:
		return api.SuspensionStatus{}, err
	case a.Verdict != api.Approve:
		return api.SuspensionStatus{Suspension: id, Decided: true, Verdict: a.Verdict}, nil
	}
	carried, err := modes.Issue(g.mode, g.keys, a)
	if err != nil {
		return api.SuspensionStatus{}, err
	}
	return api.SuspensionStatus{Suspension: id, Decided: true, Verdict: a.Verdict, Carried: carried}, nil
}

// permitDigest stands for a permit id in the log: the id itself is a secret
// until it is spent. Nothing stands for no permit.
func permitDigest(id string) string {
	if id == "" {
		return ""
	}
	h := sha256.Sum256([]byte("countersign/permit/v1\x00" + id))
	return hex.EncodeToString(h[:8])
}
