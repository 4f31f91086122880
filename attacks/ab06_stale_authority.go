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
			"online", nil, func(s *Stage, c *Call) { s.Disable(c.Agent) }),
		queued("approval_withdrawn_while_the_call_waits", "the approval is withdrawn between approval and dispatch",
			"online", []string{"incident 29"}, func(s *Stage, c *Call) { s.Revoke(c) }),
		queued("policy_changed_while_the_call_waits", "the policy is tightened between approval and dispatch",
			"online", []string{"incident 19"}, func(s *Stage, _ *Call) { s.ChangePolicy("policy-2") }),
		queued("risk_label_raised_while_the_call_waits", "the tool's risk label rises between approval and dispatch",
			"online", []string{"incident 23"}, func(s *Stage, c *Call) { s.RaiseRisk(c, "critical") }),
		queued("approvers_passkey_removed_while_the_call_waits", "the approver's credentials are removed between approval and dispatch",
			"attest | online & (record | challenge)", []string{"incident 29"}, func(s *Stage, _ *Call) { s.RemoveCredentials(approver) }),
		queued("expired_while_the_call_waits", "the approval's end passes in the queue",
			"expiry", []string{"incident 26"}, func(s *Stage, _ *Call) { s.Wait(ApprovalTTL + time.Minute) }),
		queued("deployments_clock_set_back_after_the_end", "the approval's end passes, the gate sees that time, and its clock is set back",
			"expiry", nil, func(s *Stage, _ *Call) {
				s.Wait(ApprovalTTL + time.Minute)
				s.Propose(s.Call(1).In("run-2", "step-1", "call-1")) // any call lets the gate see the time
				s.ClockBack(ApprovalTTL)
			}, UseClock),
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
			Name:    "withdrawn_between_consumption_and_a_late_send",
			Summary: "the approval is withdrawn after it was consumed, and the send is a minute late",
			Uses:    []Capability{UseDelay}, Stopped: stopped("online"),
			Success: []string{"stale", "none"}, References: []string{"incident 29"},
			Run: func(s *Stage) {
				c := s.Call(0)
				m := s.Ask(c)
				s.Tamper()
				s.During(api.StepConsumed, func() {
					s.Revoke(c)
					s.Wait(time.Minute)
				})
				s.Dispatch(m)
			},
		},
	},
	Twins: []Variant{{
		Name:    "dispatched_just_before_the_end",
		Summary: "the call waits until a second before the approval's end",
		Effects: 1,
		Run: func(s *Stage) {
			m := s.Ask(s.Call(0))
			s.Wait(ApprovalTTL - time.Second)
			s.Dispatch(m)
		},
	}},
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
