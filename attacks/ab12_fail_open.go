package attacks

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"countersign/gateway/api"
	"countersign/scenarios"
)

// AB12: something the gate depends on does not answer, and the gate goes on.
var _ = family(Family{
	ID: "AB12", Title: "fail-open", Main: api.BindClosed,
	Variants: []Variant{
		outage("approval_store_down_at_dispatch", "the approval store does not answer when the call is dispatched", api.DepStore,
			"closed | record | suspension | once | online | idem"),
		outage("audit_log_unwritable_at_dispatch", "the audit log cannot be written when the call is dispatched", api.DepAudit, "closed"),
		outage("policy_unreachable_at_dispatch", "the policy does not answer when the call is dispatched", api.DepPolicy, "closed | online"),
		lost("policy_lost_between_check_and_consume", "the policy stops answering after the checks and before the consumption",
			api.StepChecked, api.DepPolicy, "closed | online"),
		lost("clock_lost_between_check_and_consume", "the clock stops after the checks and before the consumption",
			api.StepChecked, api.DepClock, "closed | expiry"),
		lost("approval_store_lost_between_consume_and_send", "the approval store stops answering after the consumption and before the send",
			api.StepConsumed, api.DepStore, "online | idem"),
		lost("policy_lost_between_consume_and_send", "the policy stops answering after the consumption and before the send",
			api.StepConsumed, api.DepPolicy, "online"),
		lost("clock_lost_between_consume_and_send", "the clock stops after the consumption and before the send",
			api.StepConsumed, api.DepClock, "expiry"),
		resumedAnyway("declined_and_resumed_as_if_approved", "the approver declines, and the worker resumes as if it had not",
			[]string{"incident 7"}, func(s *Stage, c *Call) { s.declined(c) }),
		resumedAnyway("nobody_decided_in_time_and_resumed_as_if_approved", "nobody decides until the approval would have ended, and the worker takes silence for a yes",
			nil, func(s *Stage, c *Call) {
				s.Propose(c)
				s.Wait(ApprovalTTL + time.Minute)
			}),
		resumedAnyway("decision_lost_with_the_store_and_resumed_as_if_approved", "the approver says yes while the approval store is down; the store comes back, and the worker takes the word for the record",
			nil, func(s *Stage, c *Call) {
				s.Propose(c)
				s.decideWhileTheStoreIsDown(c)
			}),
		outage("clock_missing_at_dispatch", "the deployment's clock does not answer when the call is dispatched", api.DepClock,
			"closed | expiry | sender"),
		lost("approval_store_lost_between_check_and_consume", "the approval store stops answering after the checks and before the consumption",
			api.StepChecked, api.DepStore, "closed | once | idem | online"),
		broken("policy_times_out_at_dispatch", "the policy service takes the question and never answers, until its client gives up",
			api.DepPolicy, api.FaultTimeout, "closed | online"),
		broken("policy_check_panics_at_dispatch", "the client of the policy service panics inside the check",
			api.DepPolicy, api.FaultPanic, "closed | online"),
		broken("consumption_written_and_answered_with_an_error", "the store takes the row of the consumption and says that it did not",
			api.DepStore, api.FaultPartial, "once | idem"),
		broken("audit_line_written_and_answered_with_an_error", "the audit log takes the line and says that it did not",
			api.DepAudit, api.FaultPartial, "closed"),
	},
	Twins: []Variant{{
		Name:    "decided_again_after_the_store_came_back",
		Summary: "the approver's yes is lost with the approval store; the store comes back, the approver says it again, and the call is executed once",
		Effects: 1,
		Run: func(s *Stage) {
			c := s.Call(0)
			s.Propose(c)
			s.decideWhileTheStoreIsDown(c)
			s.Review(c)
			s.Dispatch(s.Collect(c))
		},
	}, {
		Name:    "declined_and_another_call_approved",
		Summary: "the approver declines one call and approves the next: the no stands for its own call alone",
		Effects: 1, References: []string{"incident 7"},
		Run: func(s *Stage) {
			s.declined(s.Call(0))
			s.Dispatch(s.Ask(s.Call(1)))
		},
	}, {
		Name:    "call_of_a_megabyte_approved_at_once",
		Summary: "a call with a text of more than a million characters is approved the moment it is asked about",
		Effects: 1, References: []string{"incident 10"}, Needs: []scenarios.Role{scenarios.RoleText},
		Unless: func(sc *scenarios.Scenario) string {
			if sc.ID != "mail" {
				return "one scenario shows it, mail, and each trial takes as long as a hundred others"
			}
			return ""
		},
		Run: func(s *Stage) {
			c := s.Call(0)
			name := s.Field(scenarios.RoleText)
			large := textOf(c.Args().Get(name)) + strings.Repeat(", and as agreed", 1<<16)
			c.Action.Arguments = c.Args().With(name, quoted(large)).Text()
			c.Want.Values["/"+name] = large
			s.Dispatch(s.Ask(c))
		},
	}, {
		Name:    "dispatched_after_the_outage",
		Summary: "store, policy and audit were down while the call waited, and are back when it is dispatched",
		Effects: 1,
		Run: func(s *Stage) {
			m := s.Ask(s.Call(0))
			for _, dep := range []api.Dependency{api.DepStore, api.DepPolicy, api.DepAudit, api.DepClock} {
				s.Down(dep)
			}
			for _, dep := range []api.Dependency{api.DepStore, api.DepPolicy, api.DepAudit, api.DepClock} {
				s.Up(dep)
			}
			s.Dispatch(m)
		},
	}},
})

func outage(name, summary string, dep api.Dependency, condition string) Variant {
	return broken(name, summary, dep, api.FaultDown, condition)
}

// broken has a dependency fail in a certain way when the call is dispatched.
func broken(name, summary string, dep api.Dependency, f api.Fault, condition string) Variant {
	uses := UseFault
	if dep == api.DepClock {
		uses = UseClock
	}
	return Variant{
		Name: name, Summary: summary, Uses: []Capability{uses}, Stopped: stopped(condition),
		Success: []string{"unverifiable:" + string(dep), "none"},
		Run: func(s *Stage) {
			m := s.Ask(s.Call(0))
			s.Tamper()
			s.Break(dep, f)
			s.Dispatch(m)
		},
	}
}

// lost takes a dependency away in the middle of a dispatch.
func lost(name, summary string, step api.Step, dep api.Dependency, condition string) Variant {
	v := outage(name, summary, dep, condition)
	v.Run = func(s *Stage) {
		m := s.Ask(s.Call(0))
		s.Tamper()
		s.During(step, func() { s.Down(dep) })
		s.Dispatch(m)
	}
	return v
}

// resumedAnyway is a call on which no yes was recorded, resumed with everything
// that a worker could make up.
func resumedAnyway(name, summary string, refs []string, undecided func(s *Stage, c *Call)) Variant {
	return Variant{
		Name: name, Summary: summary, Uses: []Capability{UseQueue}, Stopped: stopped(noDecision),
		Success: []string{"none"}, References: refs,
		Run: func(s *Stage) {
			c := s.Call(0)
			undecided(s, c)
			s.Tamper()
			s.Dispatch(s.claimed(c))
		},
	}
}

// decideWhileTheStoreIsDown has the approver approve, which the store does not
// take; afterwards the store is back.
func (s *Stage) decideWhileTheStoreIsDown(c *Call) {
	if c.State != api.StatePending {
		return
	}
	p := s.person(approver)
	view, err := s.target.View(s.ctx, auth(approver), c.Suspension)
	s.must(err)
	d := api.Decision{Suspension: c.Suspension, Verdict: api.Approve}
	if len(view.Assertion) > 0 {
		d.Assertion, err = p.key.Assert(view.Assertion)
		s.must(err)
	}
	s.Down(api.DepStore)
	if err := s.target.Decide(s.ctx, auth(approver), d); !errors.Is(err, api.ErrUnavailable) {
		panic(stop{fmt.Errorf("a decision without the approval store: %v, want it unavailable", err)})
	}
	s.Up(api.DepStore)
	s.happened(approver, "said yes, and was told that it could not be recorded")
}
