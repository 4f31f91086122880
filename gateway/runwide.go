package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"countersign/gateway/api"
	"countersign/modes"
)

// A run-wide approval is one on a view that an approver asked for, where the policy
// has bounds for it: for a number of calls of the run that equal the one which
// waited, until an end of its own. Proposals of equal calls are bound to it instead
// of being asked, and each call is dispatched through the same checks and spends one
// of the uses.

const (
	// MaxRunWideUses and MaxRunWideTime bound what a policy may allow.
	MaxRunWideUses = 99
	MaxRunWideTime = 24 * time.Hour
)

// offer is the most that an approver may ask for now of what waits; nil for nothing.
// Where several people have to approve, each call is theirs to see.
func (g *Gateway) offer(ctx context.Context, sus suspension, e modes.Envelope) (most *api.RunWide, now time.Time, err error) {
	if g.mode.Carrier != modes.CarryBound || e.RunWide() || e.Stages > 1 {
		return nil, now, nil
	}
	p, err := g.registry.policy(ctx)
	if err != nil {
		return nil, now, err
	}
	t := g.tools[toolName{sus.Action.Audience, sus.Action.Tool}]
	bounds := p.RunWideOf(t.Tool)
	if bounds.Uses == 0 || p.Needed(t.Tool) > 1 {
		return nil, now, nil
	}
	if now, _, err = g.now(); err != nil {
		return nil, now, fmt.Errorf("%w: the time is not known", api.ErrUnavailable)
	}
	end := now.Add(time.Duration(bounds.Seconds) * time.Second).Truncate(time.Second).UTC()
	return &api.RunWide{Uses: int64(bounds.Uses), Until: end}, now, nil
}

// RunWideView implements api.Target.
func (g *Gateway) RunWideView(ctx context.Context, auth api.Auth, id string, terms api.RunWide) (api.View, error) {
	caller, sus, e, err := g.open(ctx, auth, id)
	if err != nil {
		return api.View{}, err
	}
	if sus, err = g.widened(ctx, sus, e, terms); err != nil {
		return api.View{}, err
	}
	return g.shown(ctx, sus, e, caller)
}

// widened makes of what waits the same for its whole run.
func (g *Gateway) widened(ctx context.Context, sus suspension, e modes.Envelope, terms api.RunWide) (suspension, error) {
	if g.mode.Carrier != modes.CarryBound {
		return sus, &api.UnimplementedError{Feature: "run-wide approvals", Reason: "mode " + g.mode.ID + " has none by opt-in"}
	}
	most, now, err := g.offer(ctx, sus, e)
	switch {
	case err != nil:
		return sus, err
	case most == nil:
		return sus, fmt.Errorf("%w: no run-wide approval is offered of %s", api.ErrForbidden, sus.ID)
	case terms.Uses < 2 || !terms.Until.After(now) || terms.Until.Nanosecond() != 0:
		return sus, fmt.Errorf("%w: a run-wide approval is for two calls or more, until a whole second that is to come", api.ErrInvalid)
	case terms.Uses > most.Uses || terms.Until.After(most.Until):
		return sus, fmt.Errorf("%w: a run-wide approval is for %s at most", api.ErrForbidden, termsText(*most))
	}
	terms.Until = terms.Until.UTC()
	sus.View = runWideView(sus, terms)
	// A challenge that is no digest is the suspension's, whatever it is asked for.
	challenge := sus.Challenge
	if err := g.seal(&sus, e.On(terms)); err != nil {
		return sus, err
	}
	if !g.mode.Has(api.BindChallenge) {
		sus.Challenge = challenge
	}
	return sus, nil
}

// termsText is how notes and the log speak of terms.
func termsText(terms api.RunWide) string {
	return fmt.Sprintf("%d calls until %s", terms.Uses, terms.Until.Format(time.RFC3339))
}

// runWideView says in a view that it is for the whole run, in the place of what it
// says of the one call.
func runWideView(sus suspension, terms api.RunWide) api.View {
	v, run := sus.View, Visible(sus.Action.Run)
	v.RunWide = &terms
	ofOneCall := []string{"#step", "#call", "#expires"}
	v.Fields = slices.Concat([]api.ViewField{
		{Path: "#uses", Label: "Calls in this run, at most", Text: strconv.FormatInt(terms.Uses, 10)},
		{Path: "#until", Label: "Until", Text: terms.Until.Format(time.RFC3339)},
	}, slices.DeleteFunc(slices.Clone(v.Fields), func(f api.ViewField) bool { return slices.Contains(ofOneCall, f.Path) }))
	v.Notes = append(slices.Clone(v.Notes), fmt.Sprintf(
		"This is not for one call: at most %s, with exactly these values, are made in whatever step of run %s without asking again.", termsText(terms), run))
	return v
}

// runWideKey finds the run-wide approvals of an agent for equal actions of a run.
func runWideKey(tenant, agent, run, digest string) string { return joined(tenant, agent, run, digest) }

// granted binds a proposal to a run-wide approval that covers it, if there is one:
// it is suspended like any other, and what it waits for is decided.
func (g *Gateway) granted(ctx context.Context, s *modes.Situation, t toolRow) (p api.Pending, ok bool, err error) {
	if s.Policy.RunWideOf(t.Tool).Uses == 0 { // nothing is looked for that could not be there
		return p, false, nil
	}
	digest := g.actionDigest(s)
	rows, err := g.records.s.Find(ctx, kindRunWide, runWideKey(s.Caller.Tenant, s.Caller.ID, s.Action.Run, digest))
	if err != nil {
		return p, false, answered(err)
	}
	for _, row := range rows {
		a, err := g.records.Approval(ctx, row.ID)
		at := *s
		if err != nil || len(modes.Covers(ctx, &at, a)) > 0 {
			continue // a person is asked, also where this cannot be known now
		}
		sus := suspension{Permit: a.ID, Agent: s.Caller.ID, Action: s.Action, ArgsDigest: s.ArgsDigest, Digest: digest,
			Policy: s.Policy.Version, Envelope: a.EnvelopeText, Challenge: a.Challenge}
		asked, err := g.records.suspension(ctx, a.Suspension)
		if err != nil {
			return p, false, err
		}
		asked.View.Digest = a.ViewDigest
		sus.View = runWideView(asked, *a.RunWide)
		if sus.At, err = g.records.s.Next(ctx, "suspended-at"); err != nil {
			return p, false, answered(err)
		}
		sus.ID = suspensionID(sus.At)
		if err := g.records.suspend(ctx, g.mode.PlaceOf(s.Caller.Tenant, s.Caller.ID, s.Action), sus); err != nil {
			return p, false, err
		}
		_ = g.log(ctx, api.AuditEntry{ // that it was proposed is in the log, and before an effect its dispatch will be
			Event: "granted", Suspension: sus.ID, Permit: permitDigest(a.ID), Principal: s.Caller.ID, Audience: t.Audience, Tool: t.Name,
			ArgsDigest: s.ArgsDigest, ActionDigest: digest, ViewDigest: a.ViewDigest, Policy: s.Policy.Version, Note: "run-wide approval of " + a.Suspension,
		})
		return api.Pending{Suspension: sus.ID, State: api.StateGranted, SuspendedAt: sus.At}, true, nil
	}
	return p, false, nil
}

// spend takes the approval, or of a run-wide one the first use that is left, by one
// compare-and-set. A conflict says that the approval, the call's use or every use is
// spent. Uses are taken in their order, so that of workers with one call each finds
// the use that another has taken for it.
func (g *Gateway) spend(ctx context.Context, s *modes.Situation, u *use) error {
	e := s.Evidence.Envelope
	for range e.Uses + 1 { // each conflict is a use that another call has taken
		if e.RunWide() {
			n, spent, err := g.records.Use(ctx, g.d.Issuer, e, s.Call)
			if err != nil {
				return err
			}
			if s.Use = n; spent {
				return fmt.Errorf("%w: use %d of the approval is spent", api.ErrConflict, n)
			}
			u.Suspension = s.Call
		}
		if g.mode.Has(api.BindIdem) {
			u.Key = g.key(s)
		}
		row, err := create(ctx, g.records.s, kindUse, g.useRow(s), u.Digest, *u)
		switch {
		case err == nil:
			u.row = row
			return nil
		case !e.RunWide() || !errors.Is(err, api.ErrConflict):
			return err
		}
	}
	return fmt.Errorf("%w: every use of the approval is spent", api.ErrConflict)
}

// useRow names the row of what a call spends, or has spent.
func (g *Gateway) useRow(s *modes.Situation) string {
	e := s.Evidence.Envelope
	return useID(g.d.Issuer, e.Audience, e.Permit, s.Use)
}

// key is the provider's idempotency key of a call.
func (g *Gateway) key(s *modes.Situation) string { return idempotencyKey(g.useRow(s)) }

// useID names a use: of an approval for one call there is one, without a number.
func useID(issuer, audience, permit string, n int) string {
	if n == 0 {
		return joined(issuer, audience, permit)
	}
	return joined(issuer, audience, permit, strconv.Itoa(n))
}

// useOf reads the uses of a run-wide approval in their order, up to the call's own or
// to one that is left (api.ErrNotFound); with neither it ends at the last.
func (r records) useOf(ctx context.Context, issuer string, e modes.Envelope, call string) (n int, u use, err error) {
	for n < e.Uses {
		n++
		u, u.row, err = get[use](ctx, r.s, kindUse, useID(issuer, e.Audience, e.Permit, n))
		if err != nil || u.Suspension == call {
			break
		}
	}
	return n, u, err
}

// Use implements modes.Records.
func (r records) Use(ctx context.Context, issuer string, e modes.Envelope, call string) (n int, spent bool, err error) {
	n, _, err = r.useOf(ctx, issuer, e, call)
	if errors.Is(err, api.ErrNotFound) {
		return n, false, nil
	}
	return n, err == nil, err
}
