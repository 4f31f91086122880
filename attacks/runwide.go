package attacks

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"countersign/attacks/referee"
	"countersign/gateway/api"
)

// This file is what scripts say about approvals for a whole run. A target may offer
// them in a view, to the approver alone; where it does not, the approver decides on
// each call.

const (
	// runWideBounds are what the policy allows, and runWideTime is what approvers ask for.
	runWideBounds = "9 1h"
	runWideTime   = 10 * time.Minute
)

// equal returns equal calls of a run, each in a step of its own. Their ids are one,
// as where an agent's framework counts calls from the beginning in each step.
func (s *Stage) equal(n int) []*Call {
	out := make([]*Call, n)
	for i := range out {
		out[i] = s.Call(0).In(firstRun, "step-"+strconv.Itoa(i+1), "call-1")
	}
	return out
}

// ForTheRun is the honest way to equal calls of one run, of which the person wants so
// many, the first of them: where the target offers it the approver opts in to as many,
// and the others are proposed under that; elsewhere all wait, and the approver decides
// on each. It returns when what was approved ends.
func (s *Stage) ForTheRun(uses int, calls ...*Call) time.Time {
	s.BoundRunWide(calls[0], runWideBounds)
	s.Propose(calls[0])
	opted, end := s.OptIn(calls[0], approver, uses)
	for _, c := range calls[1:] {
		s.Propose(c)
		if opted && c.State == api.StateGranted {
			c.under = calls[0]
		}
	}
	for i, c := range calls[:min(uses, len(calls))] {
		if i > 0 || !opted {
			s.Review(c)
		}
	}
	return end
}

// secondOf has two equal calls of a run approved, for so many uses, and the first of
// them made. It returns the second as it waits then, and when its approval ends.
func (s *Stage) secondOf(uses int) (c *Call, m Message, end time.Time) {
	calls := s.equal(2)
	end = s.ForTheRun(uses, calls...)
	s.Dispatch(s.Collect(calls[0]))
	return calls[1], s.Collect(calls[1]), end
}

// OptIn has a person ask for the view of the whole run, if the target offers one, and
// decide on that. It says whether it did, and when the call's approval ends.
func (s *Stage) OptIn(c *Call, id string, uses int) (opted bool, end time.Time) {
	if !s.offered(c, id) {
		return false, c.proposed.Add(ApprovalTTL)
	}
	terms := s.terms(uses)
	view, err := s.target.RunWideView(s.ctx, auth(id), c.Suspension, terms)
	if err != nil {
		s.refused(err)
	}
	in := c.intent()
	in.Wants = slices.Clone(in.Wants)
	for i, w := range in.Wants {
		in.Wants[i].Values = maps.Clone(w.Values)
		in.Wants[i].Values["#uses"] = strconv.FormatInt(terms.Uses, 10)
		in.Wants[i].Values["#until"] = terms.Until.Format(time.RFC3339)
	}
	o := s.consider(c, id, view, "", in)
	s.decide(c, id, o.view, o.decision, o.why)
	s.goOnIf(o)
	return true, terms.Until
}

func (s *Stage) terms(uses int) api.RunWide {
	return api.RunWide{Uses: int64(uses), Until: s.now().Add(runWideTime)}
}

// offered reports whether a person may ask for the view of the whole run. Looking
// there is part of being asked, and no prompt of its own.
func (s *Stage) offered(c *Call, id string) bool {
	if c.State != api.StatePending {
		return false
	}
	return s.view(c, id).Offer != nil
}

// BoundRunWide has the policy allow approvals of a call's tool for a whole run.
func (s *Stage) BoundRunWide(c *Call, bounds string) {
	name := c.Action.Audience + "/" + c.Action.Tool
	s.admin(api.Event{Kind: api.EventAllowRunWide, Subject: name, Value: bounds})
	s.change(referee.RunWideBounded, name, bounds)
}

// under is a call's message with what another one carries.
func (s *Stage) under(c *Call, m Message) Message {
	return s.Collect(c).With(func(d *api.Dispatch) { d.Carried = m.Dispatch.Carried })
}

// widened is a message whose permit was edited to cover the whole run, with an end of
// its own.
func (s *Stage) widened(m Message) Message {
	return s.edited(m, map[string]any{
		"scope": "run", "uses": 9, "step": "", "call": "", "exp": s.now().Add(runWideTime).Unix(),
	})
}

// inTheRun has two calls of a run approved, the second of which waits while something
// happens; end is that of what was approved.
func inTheRun(name, summary, condition string, happens func(s *Stage, second *Call, end time.Time)) Variant {
	return Variant{
		Name: name, Summary: summary, Uses: []Capability{UseDelay}, Stopped: stopped(condition),
		Success: []string{"stale", "none"}, Effects: 1, References: []string{"incident 29", "incident 62"},
		Run: func(s *Stage) {
			second, m, end := s.secondOf(3)
			s.Tamper()
			happens(s, second, end)
			s.Dispatch(m)
		},
	}
}
