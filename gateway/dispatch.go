package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"countersign/gateway/api"
	"countersign/modes"
)

// Dispatch implements api.Target: verify every binding, consume once, execute,
// record.
func (g *Gateway) Dispatch(ctx context.Context, auth api.Auth, d api.Dispatch) (api.Outcome, error) {
	caller, err := g.authenticate(ctx, auth, api.RoleAgent)
	if err != nil {
		return api.Outcome{}, err
	}
	if len(d.Siblings) > maxSiblings {
		return api.Outcome{}, fmt.Errorf("%w: a dispatch carries at most %d siblings", api.ErrInvalid, maxSiblings)
	}
	asked, err := g.tool(d.Action)
	if err != nil {
		return api.Outcome{}, err
	}
	tools := make([]toolRow, len(d.Siblings))
	for i, a := range d.Siblings {
		if tools[i], err = g.tool(a); err != nil {
			return api.Outcome{}, err
		}
	}
	outcome, err := g.dispatch(ctx, caller, auth, d.Action, asked, d.Carried, d.RequestID, false)
	if err != nil {
		return api.Outcome{}, err
	}
	for i, a := range d.Siblings {
		// A design that checks once a resume lets the rest of the step run with it. A
		// call that needs no approval was no check.
		covered := !g.mode.Has(api.BindPerCall) && outcome.Status == api.Executed && g.gated(asked.Tool, d.Action)
		o, err := g.dispatch(ctx, caller, auth, a, tools[i], d.Carried, fmt.Sprintf("%s/%d", d.RequestID, i+1), covered)
		if err != nil {
			return api.Outcome{}, err
		}
		outcome.Siblings = append(outcome.Siblings, o)
	}
	return outcome, nil
}

const maxSiblings = 32

// dispatch handles one call. covered: the gate was asked for the resume already.
func (g *Gateway) dispatch(ctx context.Context, caller api.Principal, auth api.Auth, a api.Action, t toolRow, carried api.Carried, requestID string, covered bool) (api.Outcome, error) {
	var s *modes.Situation
	if broken := guarded(func() { s = g.situate(ctx, caller, auth, a, carried, t) }); broken != nil {
		// What the call is cannot be told, and no values of it are in the line.
		_ = g.log(ctx, api.AuditEntry{
			Event: "outcome", Principal: caller.ID, Audience: a.Audience, Tool: a.Tool, RequestID: requestID, Status: api.Refused, Refusals: broken,
		})
		return api.Outcome{Status: api.Refused, Refusals: broken}, nil
	}
	if gated := g.gated(t.Tool, a); covered || !gated {
		if code, detail := g.disabled(ctx, caller); code != "" {
			return refusedBy(api.BindOnline, code, detail), nil
		}
		if gated {
			return g.ride(ctx, s, requestID)
		}
		return g.send(ctx, s, requestID)
	}
	refusals := guarded(func() { modes.Open(ctx, s) })
	digest, kept := g.keepAction(ctx, s)
	entry := &s.Line
	*entry = api.AuditEntry{
		Event: "dispatch", Principal: caller.ID, Audience: a.Audience, Tool: a.Tool, ArgsDigest: s.ArgsDigest, ActionDigest: digest,
		// Before the effect, so that a crash leaves no effect without its permit.
		Permit: permitDigest(s.Evidence.Envelope.Permit), Policy: s.Policy.Version, RequestID: requestID,
		Suspension: s.Call, // which of its calls, where the permit is for several
	}
	s.AuditErr = errors.Join(kept, g.log(ctx, *entry))
	if refusals == nil {
		if broken := guarded(func() { refusals = modes.Evaluate(s) }); broken != nil {
			refusals = broken
		}
	}
	outcome, err := g.decide(ctx, s, t, requestID, refusals)
	if errors.As(err, new(stopped)) {
		return api.Outcome{}, err
	}
	entry.Event, entry.Status, entry.Refusals = "outcome", outcome.Status, outcome.Refusals
	entry.Policy = cmp.Or(s.Policy.Version, entry.Policy) // read again before the approval was spent
	entry.Alert = alert(outcome)
	if err != nil { // the permit may be spent for it
		entry.Event = "outcome:error"
	}
	// The key was used where the call is absorbed, whatever else is said of that, where
	// idem alone refuses, and where nothing does: it is executed, or ends in an error.
	known := s.Use > 0 || !s.Evidence.Envelope.RunWide()
	if g.mode.Has(api.BindIdem) && known && (outcome.Status == api.Absorbed || only(outcome.Refusals, api.BindIdem)) {
		entry.Key = g.key(s)
	}
	if s.Use > 0 {
		entry.Note = fmt.Sprintf("use %d of %d", s.Use, s.Evidence.Envelope.Uses)
	}
	logErr := g.log(ctx, *entry)
	if err != nil {
		return api.Outcome{}, err
	}
	if logErr != nil && g.mode.Has(api.BindClosed) && outcome.Status == api.Executed {
		// The effect is made and its intent is logged; the missing line is what
		// the comparison of log and ledger is for.
		outcome.Refusals = append(outcome.Refusals, api.Refusal{Binding: api.BindClosed, Code: modes.CodeUnavailable, Detail: "the outcome could not be logged"})
	}
	return outcome, nil
}

// ride sends a call that needs approval and runs with another call's. The log has it
// like any other, and has no permit for it.
func (g *Gateway) ride(ctx context.Context, s *modes.Situation, requestID string) (api.Outcome, error) {
	digest, kept := g.keepAction(ctx, s)
	entry := &s.Line
	*entry = api.AuditEntry{
		Event: "dispatch", Principal: s.Caller.ID, Audience: s.Action.Audience, Tool: s.Action.Tool, ArgsDigest: s.ArgsDigest, ActionDigest: digest,
		Policy: s.Policy.Version, RequestID: requestID, Note: "runs with the approval of its step",
	}
	s.AuditErr = errors.Join(kept, g.log(ctx, *entry))
	if r, ok := modes.Recheck(s, api.BindClosed); !ok {
		return api.Outcome{Status: api.Held, Refusals: []api.Refusal{r}}, nil
	}
	outcome, err := g.send(ctx, s, requestID)
	entry.Event, entry.Status, entry.Refusals, entry.ProviderRequest = "outcome", outcome.Status, outcome.Refusals, requestID
	_ = g.log(ctx, *entry) // the effect is made or not, and its intent is logged
	return outcome, err
}

// guarded runs a part of the decision that changes nothing. If it panics, nothing
// was decided, and that is a refusal in every design.
func guarded(f func()) (broken []api.Refusal) {
	defer func() {
		if recover() != nil {
			broken = []api.Refusal{{Binding: api.BindClosed, Code: "panic", Detail: "a check broke down"}}
		}
	}()
	f()
	return nil
}

func alert(o api.Outcome) api.Alert {
	for _, r := range o.Refusals {
		switch {
		case r.Binding == api.BindArgs && r.Code == "differs":
			return api.AlertHash
		case r.Binding == api.BindAudience && r.Code == "differs":
			return api.AlertAudience
		case r.Binding == api.BindOnce && r.Code == "spent", r.Binding == api.BindSeen && r.Code == "seen":
			return api.AlertSpent
		}
	}
	if o.Status == api.Absorbed {
		return api.AlertSpent
	}
	return ""
}

// decide turns the verdict of the checks into an outcome.
func (g *Gateway) decide(ctx context.Context, s *modes.Situation, t toolRow, requestID string, refusals []api.Refusal) (api.Outcome, error) {
	switch {
	case len(refusals) == 0:
		return g.consume(ctx, s, requestID)
	case g.mode.Has(api.BindIdem) && only(refusals, modes.Standing()...) && spent(refusals):
		return g.absorb(ctx, s, refusals)
	case allWait(refusals):
		return api.Outcome{Status: api.Held, Refusals: refusals}, nil
	case asksAgain(refusals):
		return g.reask(ctx, s, t, refusals)
	}
	return api.Outcome{Status: api.Refused, Refusals: refusals}, nil
}

func only(refusals []api.Refusal, bs ...api.Binding) bool {
	return !slices.ContainsFunc(refusals, func(r api.Refusal) bool { return !slices.Contains(bs, r.Binding) })
}

func spent(refusals []api.Refusal) bool {
	return slices.ContainsFunc(refusals, func(r api.Refusal) bool {
		return r.Binding == api.BindOnce && r.Code == "spent" || r.Binding == api.BindSeen && r.Code == "seen"
	})
}

func allWait(refusals []api.Refusal) bool {
	return !slices.ContainsFunc(refusals, func(r api.Refusal) bool {
		return r.Code != modes.CodeUnavailable && r.Code != modes.CodeClock
	})
}

// asksAgain: what was approved is not what it was, for a reason that a person
// can judge anew.
func asksAgain(refusals []api.Refusal) bool {
	return !slices.ContainsFunc(refusals, func(r api.Refusal) bool {
		return !(r.Binding == api.BindRefs && (r.Code == "drift" || r.Code == "precondition") ||
			r.Binding == api.BindOnline && (r.Code == "policy" || r.Code == "risk" || r.Code == "approvals" || r.Code == "run_wide") ||
			r.Binding == api.BindRecord && r.Code == "too_few")
	})
}

func (g *Gateway) reask(ctx context.Context, s *modes.Situation, t toolRow, refusals []api.Refusal) (api.Outcome, error) {
	if g.mode.Has(api.BindRefs) {
		_, values, _, _ := g.read(s.Action, t.Tool)
		s.Resolved, s.ResolveErr = g.resolve(ctx, t.Tool, values)
	}
	p, err := g.suspend(ctx, s, t)
	if err != nil {
		return api.Outcome{Status: api.Refused, Refusals: refusals}, nil
	}
	return api.Outcome{Status: api.Reasked, Refusals: refusals, Suspension: p.Suspension}, nil
}

// consume spends the approval and executes. Everything before it only read.
func (g *Gateway) consume(ctx context.Context, s *modes.Situation, requestID string) (api.Outcome, error) {
	if err := g.reach(ctx, api.StepChecked); err != nil {
		return api.Outcome{}, err
	}
	s.StoreErr = g.records.ping(ctx)
	s.Policy, s.PolicyErr = g.registry.policy(ctx)
	s.Now, s.HighWater, s.NowErr = g.now()
	if r, ok := modes.Recheck(s, api.BindClosed); !ok { // nothing is spent for it
		return api.Outcome{Status: api.Held, Refusals: []api.Refusal{r}}, nil
	}
	u := use{
		RequestID: requestID, State: useSpent, At: s.Now, Digest: g.actionDigest(s), Audience: s.Action.Audience, Tool: s.Action.Tool,
		ConsumedAt: s.Now, Permit: s.Line.Permit,
		Suspension: suspensionID(s.Evidence.Envelope.SuspendedAt),
	}
	if g.mode.Has(api.BindSender) {
		if !g.markProof(s.ProofID, s.Now) {
			return proofReplayed(), nil
		}
		if outcome, ok := g.shareProof(ctx, s); !ok {
			return outcome, nil
		}
		u.Proof = proofRow(s)
	}
	tracked := g.mode.Bindings.Has(api.BindOnce) || g.mode.Has(api.BindIdem)
	if tracked {
		err := g.spend(ctx, s, &u)
		switch {
		case errors.Is(err, api.ErrConflict) && g.mode.Has(api.BindOnce):
			refusals := []api.Refusal{{Binding: api.BindOnce, Code: "spent", Detail: "the approval was spent meanwhile"}}
			if g.mode.Has(api.BindIdem) {
				return g.absorb(ctx, s, refusals)
			}
			return api.Outcome{Status: api.Refused, Refusals: refusals}, nil
		case errors.Is(err, api.ErrConflict):
			// Without once an earlier use is no obstacle, but an ambiguous one is
			// reconciled before anything is sent again.
			if u, err = g.earlierUse(ctx, s); err != nil {
				return heldBy(api.BindIdem, modes.CodeUnavailable, "the earlier send cannot be read"), nil
			}
			if u.open() {
				return g.reconcile(ctx, s, u, false)
			}
		case err != nil:
			b := api.BindOnce
			if !g.mode.Has(b) {
				b = api.BindIdem
			}
			return heldBy(b, modes.CodeUnavailable, "the approval cannot be spent now"), nil
		default:
			s.Line.ConsumedAt = u.ConsumedAt
		}
	}
	if g.mode.Has(api.BindSeen) { // after the spend, so that a held call can still proceed
		g.markSeen(s)
		s.Line.ConsumedAt = u.ConsumedAt
	}
	if err := g.reach(ctx, api.StepConsumed); err != nil {
		return api.Outcome{}, err
	}
	if refusals := g.standing(ctx, s); len(refusals) > 0 {
		return g.withhold(ctx, u, refusals), nil
	}
	return g.execute(ctx, s, requestID, u)
}

// standing verifies again, after consumption and right before a send, that
// authority holds: it must hold at the instant of consumption, and what ended it
// between the checks and that instant, or before a late send, is seen here.
func (g *Gateway) standing(ctx context.Context, s *modes.Situation) []api.Refusal {
	s.Now, s.HighWater, s.NowErr = g.now()
	s.Policy, s.PolicyErr = g.registry.policy(ctx)
	var out []api.Refusal
	// Duties for the sake of an opt-out, which may be withdrawn like an approval.
	for _, b := range []api.Binding{api.BindDuties, api.BindExpiry, api.BindOnline} {
		if r, ok := modes.Recheck(s, b); !ok {
			out = append(out, r)
		}
	}
	return out
}

func refusedBy(b api.Binding, code, detail string) api.Outcome {
	return api.Outcome{Status: api.Refused, Refusals: []api.Refusal{{Binding: b, Code: code, Detail: detail}}}
}

func heldBy(b api.Binding, code, detail string) api.Outcome {
	return api.Outcome{Status: api.Held, Refusals: []api.Refusal{{Binding: b, Code: code, Detail: detail}}}
}

// resolve looks up every reference of the arguments, in the order of the tool's
// fields.
func (g *Gateway) resolve(ctx context.Context, t api.Tool, values fields) ([]api.Resolved, error) {
	out := []api.Resolved{}
	for _, f := range t.Fields {
		v, ok := values[f.Name]
		if !ok && f.Default != "" {
			v, ok = jsonText(f.Default), true
		}
		if f.Reference == "" || !ok {
			continue
		}
		var id string
		if err := json.Unmarshal(v, &id); err != nil {
			return nil, fmt.Errorf("%w: %s is not a reference", api.ErrInvalid, f.Name)
		}
		r, err := g.d.Directory.Resolve(ctx, f.Reference, id)
		if err != nil {
			return nil, err
		}
		out = append(out, api.Resolved{Path: "/" + f.Name, Kind: f.Reference, ID: id, Members: r.Members, Version: r.Version})
	}
	return out, nil
}
