package modes

import (
	"context"
	"fmt"

	jsonv2 "github.com/go-json-experiment/json"

	"countersign/gateway/api"
)

// A CarrierName says how an approval travels from the decision to the dispatch.
type CarrierName string

const (
	CarryNothing CarrierName = "nothing" // no approval at all
	CarryFlag    CarrierName = "flag"    // a boolean in the resume body
	CarryGrant   CarrierName = "grant"   // nothing travels: the store is asked for the run
	CarryTicket  CarrierName = "ticket"  // an approval id
	CarryJWT     CarrierName = "jwt"     // a signed permit with registered claims
	CarryWindow  CarrierName = "window"  // nothing travels: the store is asked for an open window
	CarryMAC     CarrierName = "mac"     // a permit under a shared secret
	CarryDerived CarrierName = "derived" // nothing travels: recomputed from the suspension
	CarryBound   CarrierName = "bound"   // id, signed envelope and assertion
)

// A carrier issues what is transported and finds the evidence for a dispatch.
// Find is honest about what it was given: members taken from the request stay
// unverified until a check has passed.
type carrier interface {
	Issue(m Mode, k *Keys, a Approval, e Envelope) (api.Carried, error)
	Find(s *Situation) Evidence
}

var carriers = map[CarrierName]carrier{
	CarryNothing: nothing{},
	CarryFlag:    flag{},
	CarryGrant: stored{func(s *Situation) (Approval, error) {
		return s.Records.ApprovalOfRun(s.context(), s.Action.Run)
	}},
	CarryWindow: stored{func(s *Situation) (Approval, error) {
		return s.Records.Window(s.context(), s.Caller.ActsFor)
	}},
	CarryDerived: stored{func(s *Situation) (Approval, error) {
		latest, err := s.Records.Latest(s.context(), s.Mode.PlaceOf(s.Caller.Tenant, s.Caller.ID, s.Action))
		if err != nil {
			return Approval{}, err
		}
		permit, err := s.Records.Permit(s.context(), latest.ID)
		if err != nil {
			return Approval{}, err
		}
		return s.Records.Approval(s.context(), permit)
	}},
	CarryTicket: ticket{},
	CarryJWT:    permit{issue: (*Keys).issueJWT},
	CarryMAC:    permit{issue: (*Keys).issueMAC},
	CarryBound:  bound{},
}

// Issue makes what the mode transports for an approval.
func Issue(m Mode, k *Keys, a Approval) (api.Carried, error) {
	c, ok := carriers[m.Carrier]
	if !ok {
		return api.Carried{}, fmt.Errorf("issuing for mode %q: no carrier %q", m.ID, m.Carrier)
	}
	e, err := ParseEnvelope(a.EnvelopeText)
	if err != nil {
		return api.Carried{}, fmt.Errorf("issuing for mode %s: %w", m.ID, err)
	}
	return c.Issue(m, k, a, e)
}

// Covered reports whether earlier authority already covers a proposal, so that
// nobody is asked: an approved run, an open window. Other designs always ask.
func (m Mode) Covered(ctx context.Context, s *Situation) bool {
	if m.Carrier != CarryGrant && m.Carrier != CarryWindow {
		return false
	}
	return len(Verify(ctx, s)) == 0
}

// Covers evaluates what has to hold of a run-wide approval for a proposal to be
// granted under it: that it is for this action, that it is in force, and that a use
// is left. What is carried, and what belongs to one call, is for the dispatch.
func Covers(ctx context.Context, s *Situation, a Approval) []api.Refusal {
	s.ctx, s.Evidence, s.Call = ctx, fromStore(s, a, nil), ""
	if a.RunWide == nil || !s.Evidence.Envelope.RunWide() {
		return []api.Refusal{{Binding: api.BindRecord, Code: "no_approval", Detail: "the approval is for one call"}}
	}
	var out []api.Refusal
	for _, b := range []api.Binding{
		api.BindArgs, api.BindRefs, api.BindRecord, api.BindAgent, api.BindDuties, api.BindAudience, api.BindConnector,
		api.BindRun, api.BindExpiry, api.BindOnline, api.BindSeen, api.BindOnce,
	} {
		if r, ok := Recheck(s, b); !ok {
			out = append(out, r)
		}
	}
	return out
}

var (
	errNotApproved = fmt.Errorf("not approved: %w", api.ErrNotFound)
	errTooFew      = fmt.Errorf("approved by too few: %w", api.ErrNotFound)
)

// fromStore turns a stored approval into evidence. One that covers more than the
// call it was given for covers nothing for which more people have to approve.
func fromStore(s *Situation, a Approval, err error) Evidence {
	if err != nil {
		return Evidence{RecordErr: err}
	}
	if a.Verdict != api.Approve {
		return Evidence{RecordErr: errNotApproved}
	}
	var e Envelope
	if err := jsonv2.Unmarshal(a.EnvelopeText, &e); err != nil {
		return Evidence{RecordErr: err}
	}
	out := Evidence{
		Envelope: e, Text: a.EnvelopeText, Approver: a.Approver,
		Assertion: a.Assertion, Challenge: a.Challenge, ViewDigest: a.ViewDigest,
	}
	if e.Stages < s.Policy.Needed(s.Tool) {
		out.RecordErr = errTooFew
	}
	return out
}

type nothing struct{}

func (nothing) Issue(Mode, *Keys, Approval, Envelope) (api.Carried, error) { return api.Carried{}, nil }
func (nothing) Find(*Situation) Evidence                                   { return Evidence{RecordErr: api.ErrNotFound} }

// flag: the worker is told yes, and says so when it resumes.
type flag struct{}

func (flag) Issue(_ Mode, _ *Keys, a Approval, _ Envelope) (api.Carried, error) {
	return api.Carried{Approved: a.Verdict == api.Approve}, nil
}
func (flag) Find(*Situation) Evidence { return Evidence{RecordErr: api.ErrNotFound} }

// stored: nothing is transported; the approval is looked up by what the request is.
type stored struct {
	find func(*Situation) (Approval, error)
}

func (stored) Issue(Mode, *Keys, Approval, Envelope) (api.Carried, error) { return api.Carried{}, nil }

func (c stored) Find(s *Situation) Evidence {
	if !s.Mode.Has(api.BindRecord) {
		return Evidence{RecordErr: api.ErrNotFound}
	}
	a, err := c.find(s)
	return fromStore(s, a, err)
}

// ticket: the id of the approval is transported and looked up.
type ticket struct{}

func (ticket) Issue(_ Mode, _ *Keys, a Approval, _ Envelope) (api.Carried, error) {
	return api.Carried{Approval: a.ID}, nil
}

func (ticket) Find(s *Situation) Evidence {
	if !s.Mode.Has(api.BindRecord) {
		return Evidence{Envelope: Envelope{Permit: s.Carried.Approval}, RecordErr: api.ErrNotFound}
	}
	if s.Carried.Approval == "" {
		return Evidence{RecordErr: api.ErrNotFound}
	}
	a, err := s.Records.Approval(s.context(), s.Carried.Approval)
	return fromStore(s, a, err)
}

// permit: a token carries its own claims.
type permit struct {
	issue func(*Keys, Mode, Envelope) (string, error)
}

func (c permit) Issue(m Mode, k *Keys, _ Approval, e Envelope) (api.Carried, error) {
	p, err := c.issue(k, m, e)
	return api.Carried{Permit: p}, err
}

func (c permit) Find(s *Situation) Evidence {
	var cl claims
	if payload, err := UnverifiedPayload(s.Carried.Permit); err != nil || jsonv2.Unmarshal(payload, &cl) != nil {
		return Evidence{RecordErr: api.ErrNotFound}
	}
	e := Envelope{
		Permit: cl.ID, Issuer: cl.Issuer, Agent: cl.Subject, Audience: cl.Audience, Tenant: cl.Tenant, Tool: cl.Tool, Call: cl.Call,
		ArgsDigest: cl.Args, NotBefore: cl.NotBefore, ExpiresAt: cl.Expiry,
	}
	if cl.Confirm != nil {
		e.AgentKey = cl.Confirm.Thumbprint
	}
	return Evidence{Envelope: e, RecordErr: api.ErrNotFound}
}

// bound: the approval id, the signed envelope and the assertion are transported.
// The store's own copy counts where the mode reads the record; otherwise the
// envelope is the one carried, worth as much as the checks make it.
type bound struct{}

func (bound) Issue(_ Mode, k *Keys, a Approval, _ Envelope) (api.Carried, error) {
	p, err := k.signES256(a.EnvelopeText, permitType)
	return api.Carried{Approval: a.ID, Permit: p, Assertion: a.Assertion}, err
}

func (bound) Find(s *Situation) Evidence {
	if s.Mode.Has(api.BindRecord) {
		if s.Carried.Approval == "" {
			return Evidence{RecordErr: api.ErrNotFound}
		}
		a, err := s.Records.Approval(s.context(), s.Carried.Approval)
		out := fromStore(s, a, err)
		out.Presented, _ = UnverifiedPayload(s.Carried.Permit)
		return out
	}
	out := Evidence{Assertion: s.Carried.Assertion, RecordErr: api.ErrNotFound}
	payload, err := UnverifiedPayload(s.Carried.Permit)
	if err != nil {
		return out
	}
	e, err := ParseEnvelope(payload)
	if err != nil || e.Type != EnvelopeType || e.Decision != api.Approve {
		return out
	}
	out.Envelope, out.Text, out.Presented = e, payload, payload
	if id, err := UnverifiedCredentialID(out.Assertion); err == nil {
		if owner, err := s.Identities.Owner(s.context(), id); err == nil {
			out.Approver = owner
		}
	}
	return out
}

func (s *Situation) context() context.Context {
	if s.ctx == nil {
		return context.Background()
	}
	return s.ctx
}
