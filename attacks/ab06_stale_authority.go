package attacks

import (
	"time"

	"countersign/gateway/api"
)

// AB6: the approval was good, and is not any more.
var _ = family(Family{
	ID: "AB6", Title: "stale authority", Main: api.BindOnline,
	Variants: []Variant{
		queued("agent_disabled_while_the_call_waits", "the agent is disabled between approval and dispatch",
			"online", []string{"incident 29"}, func(s *Stage, c *Call) { s.Disable(c.Agent) }),
		{
			Name:    "asking_agents_parent_disabled_while_the_call_waits",
			Summary: "the agent for which the asking agent works is disabled between approval and dispatch",
			Uses:    []Capability{UseDelay}, Stopped: stopped("online"),
			Success: []string{"stale", "none"}, References: []string{"incident 29"},
			Run: func(s *Stage) {
				m := s.Ask(s.Call(0).By(s.agents[agentSub]))
				s.Tamper()
				s.Disable(s.agents[agentA])
				s.Dispatch(m)
			},
		},
		queued("approval_withdrawn_while_the_call_waits", "the approval is withdrawn between approval and dispatch",
			"online", []string{"incident 29"}, func(s *Stage, c *Call) { s.Revoke(c) }),
		queued("policy_changed_while_the_call_waits", "the policy is tightened between approval and dispatch",
			"online", []string{"incident 19"}, func(s *Stage, _ *Call) { s.ChangePolicy("policy-2") }),
		queued("risk_label_raised_while_the_call_waits", "the tool's risk label rises between approval and dispatch",
			"online", []string{"incident 23"}, func(s *Stage, c *Call) { s.RaiseRisk(c, "critical") }),
		queued("tool_put_on_the_denied_list_while_the_call_waits", "what the call does is put on the list of what is denied, between approval and dispatch",
			"online", []string{"incident 29"}, func(s *Stage, c *Call) { s.RaiseRisk(c, "denied") }),
		queued("second_approval_asked_for_while_the_call_waits", "the policy asks for two people to approve, after one has",
			"record | online", nil, func(s *Stage, c *Call) { s.NeedPeople(c, 2) }),
		{
			Name:    "first_approvers_passkey_removed_while_the_call_waits",
			Summary: "two people approve, and the credentials of the first are removed between approval and dispatch",
			Uses:    []Capability{UseDelay}, Stopped: stopped("online"),
			Success: []string{"who:stage", "none"}, References: []string{"incident 29"},
			Run: func(s *Stage) {
				c := s.Call(0)
				s.NeedPeople(c, 2)
				s.Propose(c)
				s.ReviewBy(c, approver)
				s.ReviewBy(c, approver2)
				m := s.Collect(c)
				s.Tamper()
				s.RemoveCredentials(approver)
				s.Dispatch(m)
			},
		},
		queued("approvers_passkey_removed_while_the_call_waits", "the approver's credentials are removed between approval and dispatch",
			"attest | online & (record | challenge)", []string{"incident 29"}, func(s *Stage, _ *Call) { s.RemoveCredentials(approver) }),
		queued("expired_while_the_call_waits", "the approval's end passes in the queue",
			"expiry", nil, func(s *Stage, _ *Call) { s.Wait(ApprovalTTL + time.Minute) }),
		queued("deployments_clock_set_back_after_the_end", "the approval's end passes, the gate sees that time, and its clock is set back",
			"expiry | idem & (@idempotent | @lookup-only)", nil, func(s *Stage, _ *Call) {
				s.Wait(ApprovalTTL + time.Minute)
				s.Propose(s.Call(1).In("run-2", "step-1", "call-1")) // any call lets the gate see the time
				s.ClockBack(ApprovalTTL)
			}, UseClock),
		queued("deployments_clock_set_back_across_a_restart", "the approval's end passes, the gate sees that time, and it is restarted with its clock set back",
			"expiry | idem & (@idempotent | @lookup-only)", nil, func(s *Stage, _ *Call) {
				s.Wait(ApprovalTTL + time.Minute)
				s.Propose(s.Call(1).In("run-2", "step-1", "call-1")) // any call lets the gate see the time
				s.ClockBack(ApprovalTTL)
				s.Restart()
			}, UseClock, UseFault),
		{
			Name:    "expired_and_the_permit_edited_to_last",
			Summary: "the approval's end passes in the queue, and the permit is edited to name a later one",
			Uses:    []Capability{UseQueue, UseDelay}, Stopped: stopped("expiry & (record | signed | challenge)"),
			Success: []string{"stale", "none"},
			Run: func(s *Stage) {
				m := s.Ask(s.Call(0))
				s.Tamper()
				s.Wait(ApprovalTTL + time.Minute)
				s.Dispatch(s.edited(m, map[string]any{"exp": s.now().Add(ApprovalTTL).Unix()}))
			},
		},
		{
			Name:    "approved_late_after_a_restart",
			Summary: "the gate is restarted, the proposal's end passes, and then it is approved and dispatched",
			Uses:    []Capability{UseDelay, UseFault}, Stopped: stopped("expiry"),
			Success: []string{"stale", "none"}, References: []string{"incident 26"},
			Run: func(s *Stage) {
				c := s.Call(0)
				s.Propose(c)
				s.Tamper()
				s.Restart()
				s.Wait(ApprovalTTL + time.Minute)
				s.Review(c)
				s.Dispatch(s.Collect(c))
			},
		},
		{
			Name:    "decision_made_in_time_arrives_after_the_proposals_end",
			Summary: "the approver decides in time, the decision hangs in the network until the proposal's end has passed, and then the call is dispatched",
			Uses:    []Capability{UseDelay, UseNet}, Stopped: stopped("expiry"),
			Success: []string{"stale", "none"}, References: []string{"incident 77"},
			Run: func(s *Stage) {
				c := s.Call(0)
				s.Propose(c)
				s.Tamper()
				if c.State == api.StatePending {
					o := s.look(c, approver, "")
					s.Wait(ApprovalTTL + time.Minute)
					s.decide(c, approver, o.view, o.decision, o.why)
				}
				s.Dispatch(s.Collect(c))
			},
		},
		{
			Name:    "decision_posted_again_after_the_approvals_end",
			Summary: "the approval ends in the queue, and the approver's decision, assertion and all, is posted a second time to begin it anew",
			Uses:    []Capability{UseDelay, UseNet}, Stopped: stopped("expiry"),
			Success: []string{"stale", "none"}, References: []string{"incident 77"},
			Run: func(s *Stage) {
				c := s.Call(0)
				s.Propose(c)
				var o opinion
				asked := c.State == api.StatePending
				if asked {
					o = s.look(c, approver, "")
					s.decide(c, approver, o.view, o.decision, o.why)
				}
				s.Tamper()
				s.Wait(ApprovalTTL + time.Minute)
				if asked {
					s.decideAgain(c, approver, o)
				}
				s.Dispatch(s.Collect(c))
			},
		},
		late("withdrawn_between_consumption_and_a_late_send", "the approval is withdrawn after it was consumed, and the send is a minute late",
			"online", func(s *Stage, c *Call) { s.Revoke(c) }),
		late("agent_disabled_between_consumption_and_a_late_send", "the agent is disabled after the approval was consumed, and the send is a minute late",
			"online", func(s *Stage, c *Call) { s.Disable(c.Agent) }),
		late("policy_changed_between_consumption_and_a_late_send", "the policy is tightened after the approval was consumed, and the send is a minute late",
			"online", func(s *Stage, _ *Call) { s.ChangePolicy("policy-2") }),
		late("risk_label_raised_between_consumption_and_a_late_send", "the tool's risk label rises after the approval was consumed, and the send is a minute late",
			"online", func(s *Stage, c *Call) { s.RaiseRisk(c, "critical") }),
		late("approvers_passkey_removed_between_consumption_and_a_late_send", "the approver's credentials are removed after the approval was consumed, and the send is a minute late",
			"online & (record | attest | challenge)", func(s *Stage, _ *Call) { s.RemoveCredentials(approver) }),
		inTheRun("run_wide_approval_over_while_a_call_waits", "two equal calls of a run are approved, at one opt-in where that is offered; what was approved comes to its own end while the second waits",
			"expiry", func(s *Stage, _ *Call, end time.Time) { s.Wait(end.Sub(s.now()) + time.Minute) }),
		inTheRun("run_wide_approval_withdrawn_while_a_call_waits", "two equal calls of a run are approved, at one opt-in where that is offered; the approval of the second is withdrawn while it waits",
			"online", func(s *Stage, second *Call, _ time.Time) { s.Revoke(second) }),
		inTheRun("run_wide_approval_and_the_policy_changed_while_a_call_waits", "two equal calls of a run are approved, at one opt-in where that is offered; the policy is tightened while the second waits",
			"online", func(s *Stage, _ *Call, _ time.Time) { s.ChangePolicy("policy-2") }),
		inTheRun("run_wide_approval_and_the_agent_disabled_while_a_call_waits", "two equal calls of a run are approved, at one opt-in where that is offered; the agent is disabled while the second waits",
			"online", func(s *Stage, second *Call, _ time.Time) { s.Disable(second.Agent) }),
		inTheRun("run_wide_approval_withdrawn_between_consumption_and_a_late_send", "two equal calls of a run are approved, at one opt-in where that is offered; the approval of the second is withdrawn after it was consumed, and the send is a minute late",
			"online", func(s *Stage, second *Call, _ time.Time) {
				s.During(api.StepConsumed, func() {
					s.Revoke(second)
					s.Wait(time.Minute)
				})
			}),
		late("expired_between_consumption_and_a_late_send", "the approval's end passes after it was consumed, and the send comes after it",
			"expiry", func(s *Stage, _ *Call) { s.Wait(ApprovalTTL) }),
	},
	Twins: []Variant{
		{
			Name:    "run_wide_call_dispatched_just_before_the_end",
			Summary: "two equal calls of a run are approved, at one opt-in where that is offered; the second waits until a second before the end of what was approved",
			Effects: 2, References: []string{"incident 62"},
			Run: func(s *Stage) {
				calls := s.equal(2)
				end := s.ForTheRun(2, calls...)
				s.Dispatch(s.Collect(calls[0]))
				m := s.Collect(calls[1])
				s.Wait(end.Sub(s.now()) - time.Second)
				s.Dispatch(m)
			},
		},
		unmoved("dispatched_just_before_the_end", "the call waits until a second before the approval's end",
			func(s *Stage, _ *Call) { s.Wait(ApprovalTTL - time.Second) }),
		unmoved("another_tools_risk_label_raised_while_the_call_waits", "the risk label of another tool rises; this one's is what it was",
			func(s *Stage, c *Call) {
				other := *c
				other.Action.Tool = s.Scenario.SiblingTool
				s.RaiseRisk(&other, "critical")
			}),
		unmoved("policy_changed_and_changed_back_while_the_call_waits", "the policy is tightened and put back, so that what is in force at dispatch is what was approved under",
			func(s *Stage, _ *Call) {
				s.ChangePolicy("policy-2")
				s.ChangePolicy(firstPolicy)
			}),
		unmoved("second_approval_asked_for_another_tool_while_the_call_waits", "the policy asks for two people to approve another tool; this one needs one",
			func(s *Stage, c *Call) {
				other := *c
				other.Action.Tool = s.Scenario.SiblingTool
				s.NeedPeople(&other, 2)
			}),
		unmoved("another_agent_disabled_while_the_call_waits", "another agent of the same person is disabled",
			func(s *Stage, _ *Call) { s.Disable(s.agents[agentB]) }),
		unmoved("another_approvers_passkey_removed_while_the_call_waits", "the credentials of an approver who did not decide this are removed",
			func(s *Stage, _ *Call) { s.RemoveCredentials(approver2) }),
		{
			Name:    "another_calls_approval_withdrawn_while_the_call_waits",
			Summary: "of two approved calls one is withdrawn; the other proceeds",
			Effects: 1,
			Run: func(s *Stage) {
				first, second := s.Call(0), s.Call(1)
				s.Propose(first)
				s.Propose(second)
				s.Review(second)
				s.Review(first)
				s.Revoke(second)
				s.Dispatch(s.Collect(first))
			},
		},
	},
})

// queued is an approved call that waits while something happens.
func queued(name, summary, condition string, refs []string, happens func(*Stage, *Call), uses ...Capability) Variant {
	return Variant{
		Name: name, Summary: summary, Uses: append([]Capability{UseDelay}, uses...), Stopped: stopped(condition),
		Success: []string{"stale", "none"}, References: refs,
		Run: func(s *Stage) {
			c := s.Call(0)
			m := s.Ask(c)
			s.Tamper()
			happens(s, c)
			s.Dispatch(m)
		},
	}
}

// late is a call whose approval is consumed in time and sent late: in between
// something happens and at least a minute passes.
func late(name, summary, condition string, happens func(*Stage, *Call)) Variant {
	return Variant{
		Name: name, Summary: summary, Uses: []Capability{UseDelay}, Stopped: stopped(condition),
		Success: []string{"stale", "none"}, References: []string{"incident 29"},
		Run: func(s *Stage) {
			c := s.Call(0)
			m := s.Ask(c)
			s.Tamper()
			s.During(api.StepConsumed, func() {
				happens(s, c)
				s.Wait(time.Minute)
			})
			s.Dispatch(m)
		},
	}
}

// unmoved is an approved call that waits while something happens that does not
// concern it.
func unmoved(name, summary string, happens func(*Stage, *Call)) Variant {
	return Variant{
		Name: name, Summary: summary, Effects: 1,
		Run: func(s *Stage) {
			c := s.Call(0)
			m := s.Ask(c)
			happens(s, c)
			s.Dispatch(m)
		},
	}
}
