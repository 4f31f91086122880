package attacks

import (
	"time"

	"countersign/gateway/api"
	"countersign/oracles/softkey"
)

// AB10: the approver is the one who asks.
var _ = family(Family{
	ID: "AB10", Title: "self-approval", Main: api.BindDuties,
	Variants: []Variant{
		decidedByAgent("agent_decides_its_own_request", "the agent posts the decision on its own request, as an authenticated caller",
			agentA, "who:agent", "incident 8", "incident 40", "incident 55"),
		decidedByAgent("another_agent_of_the_requester_decides", "a second agent of the same person posts the decision",
			agentB, "who:delegate", "incident 55"),
		decidedByAgent("agents_own_subagent_decides", "an agent that works for the asking agent posts the decision",
			agentSub, "who:delegate", "incident 55"),
		decidedByAgent("agent_of_another_person_decides", "an agent of somebody else posts the decision, as a favour",
			agentX, "who:not_approver"),
		decidedBy("requester_decides_the_agents_request", "the person on whose behalf the agent asks approves it",
			agentA, requester, "who:requester"),
		{
			Name:    "requester_decides_what_it_asked_through_a_subagent",
			Summary: "the person's agent has an agent of its own ask, so that the request is nobody's the person would know of, and the person approves it",
			Uses:    []Capability{UsePerson}, Stopped: stopped("duties"),
			Success: []string{"who:requester", "none"}, References: []string{"NIST SP 800-53 AC-5", "incident 37"},
			Run: func(s *Stage) {
				c := s.Call(0).By(s.agents[agentSub])
				s.Propose(c)
				s.Tamper()
				s.ReviewBy(c, requester)
				s.Dispatch(s.Collect(c))
			},
		},
		{
			Name:    "requester_decides_and_the_assertion_names_the_approver",
			Summary: "the requester approves with its own passkey; the assertion says, beside the signature, that it is by an approver",
			Uses:    []Capability{UsePerson}, Stopped: stopped("duties | attest"),
			Success: []string{"who:requester", "none"}, References: []string{"incident 40"},
			Run: func(s *Stage) {
				c := s.Call(0)
				s.Propose(c)
				s.Tamper()
				if c.State == api.StatePending {
					p := s.person(requester)
					view, err := s.target.View(s.ctx, auth(requester), c.Suspension)
					s.must(err)
					d := api.Decision{Suspension: c.Suspension, Verdict: api.Approve}
					if len(view.Assertion) > 0 {
						d.Assertion, err = p.key.Forge(view.Assertion, softkey.Forgery{UserHandle: []byte(approver)})
						s.must(err)
					}
					s.Decide(c, requester, view, d)
				}
				s.Dispatch(s.Collect(c))
			},
		},
		{
			Name:    "requester_opts_in_for_its_whole_run",
			Summary: "the person who asks approves the call, for its whole run where that is offered",
			Uses:    []Capability{UsePerson}, Stopped: stopped("duties"),
			Success: []string{"who:requester", "none"}, References: []string{"incident 62", "NIST SP 800-53 AC-5"},
			Run: func(s *Stage) {
				c := s.Call(0)
				s.BoundRunWide(c, runWideBounds)
				s.Propose(c)
				s.Tamper()
				if opted, _ := s.OptIn(c, requester, 3); !opted {
					s.ReviewBy(c, requester)
				}
				s.Dispatch(s.Collect(c))
			},
		},
		decidedUnknown("requester_decides_while_it_cannot_be_looked_up", "the look-up of the deciding person's identity fails, and the requester approves; at dispatch it works again",
			requester, "who:requester"),
		decidedUnknown("delegate_decides_while_it_cannot_be_looked_up", "the look-up of the deciding person's identity fails, so that nothing says for whom it acts, and a delegate of the requester approves",
			delegate, "who:delegate"),
		decidedBy("person_who_is_no_approver_decides", "a person of the tenant who is not in its set of approvers approves it",
			agentA, requester2, "who:not_approver"),
		decidedBy("delegate_of_the_requester_decides", "a delegate of the requester approves it",
			agentA, delegate, "who:delegate"),
		decidedBy("delegate_of_a_delegate_decides", "a delegate of the requester's delegate approves it",
			agentA, subDelegate, "who:delegate"),
		decidedBy("delegate_asks_and_another_delegate_decides", "an agent of the requester's delegate asks, and another delegate of the same person approves it",
			agentDeleg, delegate2, "who:delegate"),
		decidedBy("delegate_asks_and_the_person_it_acts_for_decides", "an agent of the requester's delegate asks, and the person for whom the delegate acts approves it",
			agentDeleg, requester, "who:delegate"),
		underOptOut("requester_decides_under_another_persons_opt_out", "an opt-out is recorded for somebody else, and the requester approves its own request under it",
			approver2, "who:requester", func(s *Stage, c *Call) { s.ReviewBy(c, requester) }),
		underOptOut("delegate_decides_under_the_requesters_opt_out", "an opt-out is recorded for the requester, and its delegate approves",
			requester, "who:delegate", func(s *Stage, c *Call) { s.ReviewBy(c, delegate) }),
		underOptOut("requester_decides_after_its_opt_out_was_withdrawn", "the requester's opt-out is withdrawn while its request waits, and the requester approves it",
			requester, "who:requester", func(s *Stage, c *Call) {
				s.ForbidSelfApproval(requester)
				s.ReviewBy(c, requester)
			}),
		underOptOut("opt_out_withdrawn_while_the_call_waits", "the requester approves under an opt-out, which is withdrawn before the call is dispatched",
			requester, "stale:self_approval_forbidden", func(s *Stage, c *Call) {
				s.ReviewBy(c, requester)
				s.ForbidSelfApproval(requester)
			}),
		underOptOut("opt_out_withdrawn_between_consumption_and_a_late_send", "the requester approves under an opt-out, which is withdrawn after the approval was consumed, and the send is a minute late",
			requester, "stale:self_approval_forbidden", func(s *Stage, c *Call) {
				s.ReviewBy(c, requester)
				s.During(api.StepConsumed, func() {
					s.ForbidSelfApproval(requester)
					s.Wait(time.Minute)
				})
			}),
		optedOut(decidedByAgent("agent_decides_under_the_requesters_opt_out", "an opt-out is recorded for the requester, and its agent posts the decision on what it asked itself",
			agentA, "who:agent", "incident 8")),
		bothStages("one_person_decides_both_stages", "two people have to approve, and one of them does so twice", agentA, approver, approver),
		bothStages("requester_decides_the_second_stage", "two people have to approve; the second is the one who asks", agentA, approver, requester),
		bothStages("delegate_of_the_first_approver_decides_the_second_stage", "two people have to approve; the second acts for the first", agentX, requester, delegate),
		{
			Name:    "first_stage_presented_as_the_whole",
			Summary: "two people have to approve, one has, and the worker resumes as if both had",
			Uses:    []Capability{UseQueue}, Stopped: stopped(noDecision),
			Success: []string{"who:stage", "none"}, References: []string{"NIST SP 800-53 AC-3(2)"},
			Run: func(s *Stage) {
				c := s.Call(0)
				s.NeedPeople(c, 2)
				s.Propose(c)
				s.Review(c)
				s.Tamper()
				s.Dispatch(s.claimed(c))
			},
		},
		{
			Name:    "empty_set_of_approvers_means_anyone",
			Summary: "the tenant has no approvers, and some person decides",
			Uses:    []Capability{UsePerson}, Stopped: stopped("duties"),
			Success: []string{"who:not_approver", "none"}, References: []string{"incident 49"},
			Run: func(s *Stage) {
				c := s.Call(0).By(s.agents[agentSolo])
				s.Propose(c)
				s.Tamper()
				s.ReviewBy(c, outsider)
				s.Dispatch(s.Collect(c))
			},
		},
	},
	Twins: []Variant{{
		Name:    "requester_decides_under_a_recorded_opt_out",
		Summary: "for a team of one an opt-out is recorded, with its reason: the requester approves its own request, and its delegate somebody else's",
		Effects: 2,
		Run: func(s *Stage) {
			s.AllowSelfApproval(requester, oneTeam)
			own, others := s.Call(0), s.Call(1).By(s.agents[agentX]).In("run-2", "step-1", "call-1")
			s.Propose(own)
			s.Propose(others)
			s.ReviewBy(own, requester)
			s.ReviewBy(others, delegate)
			s.Dispatch(s.Collect(own))
			s.Dispatch(s.Collect(others))
		},
	}, {
		Name:    "two_people_decide_where_two_have_to",
		Summary: "two people have to approve, and two do, each on a view that says which approval it is for",
		Effects: 1,
		Run: func(s *Stage) {
			c := s.Call(0)
			s.NeedPeople(c, 2)
			s.Propose(c)
			s.ReviewBy(c, approver)
			s.ReviewBy(c, approver2)
			s.Dispatch(s.Collect(c))
		},
	}, {
		Name:    "delegate_decides_for_somebody_else",
		Summary: "the requester's delegate approves what an agent of another person asks",
		Effects: 1,
		Run: func(s *Stage) {
			c := s.Call(0).By(s.agents[agentX])
			s.Propose(c)
			s.ReviewBy(c, delegate)
			s.Dispatch(s.Collect(c))
		},
	}, {
		Name:    "delegate_of_a_delegate_decides_for_somebody_else",
		Summary: "a delegate of the requester's delegate approves what an agent of another person asks",
		Effects: 1,
		Run: func(s *Stage) {
			c := s.Call(0).By(s.agents[agentX])
			s.Propose(c)
			s.ReviewBy(c, subDelegate)
			s.Dispatch(s.Collect(c))
		},
	}, {
		Name:    "another_person_decides",
		Summary: "somebody who is neither the requester nor a delegate approves; the requester approves for somebody else",
		Effects: 2,
		Run: func(s *Stage) {
			s.Dispatch(s.Ask(s.Call(0)))
			c := s.Call(1).By(s.agents[agentX]).In("run-2", "step-1", "call-1")
			s.Propose(c)
			s.ReviewBy(c, requester)
			s.Dispatch(s.Collect(c))
		},
	}},
})

// oneTeam is why a person may approve its own requests.
const oneTeam = "one-person team, agreed with the auditors"

// underOptOut has an opt-out recorded for a person before the call is proposed.
// What the adversary does with it ends before the dispatch.
func underOptOut(name, summary, person, success string, misused func(*Stage, *Call)) Variant {
	return Variant{
		Name: name, Summary: summary, Uses: []Capability{UsePerson, UseDelay}, Stopped: stopped("duties"),
		Success: []string{success, "none"}, References: []string{"NIST SP 800-53 AC-5"},
		Run: func(s *Stage) {
			s.AllowSelfApproval(person, oneTeam)
			c := s.Call(0)
			s.Propose(c)
			s.Tamper()
			misused(s, c)
			s.Dispatch(s.Collect(c))
		},
	}
}

// bothStages has two people decide on a call that needs two; the second may not.
func bothStages(name, summary, agent, first, second string) Variant {
	return Variant{
		Name: name, Summary: summary, Uses: []Capability{UsePerson}, Stopped: stopped("duties"),
		Success: []string{"who:stage", "none"}, References: []string{"NIST SP 800-53 AC-3(2)"},
		Run: func(s *Stage) {
			c := s.Call(0).By(s.agents[agent])
			s.NeedPeople(c, 2)
			s.Propose(c)
			s.ReviewBy(c, first)
			s.Tamper()
			s.ReviewBy(c, second)
			s.Dispatch(s.Collect(c))
		},
	}
}

// optedOut has an opt-out recorded for the requester before a script begins.
func optedOut(v Variant) Variant {
	run := v.Run
	v.Run = func(s *Stage) {
		s.AllowSelfApproval(requester, oneTeam)
		run(s)
	}
	return v
}

func decidedByAgent(name, summary, agent, success string, refs ...string) Variant {
	return Variant{
		Name: name, Summary: summary, Uses: []Capability{UseClient}, Stopped: stopped("duties | attest | challenge"),
		Success: []string{success, "none"}, References: refs,
		Run: func(s *Stage) {
			c := s.Call(0)
			s.Propose(c)
			s.Tamper()
			if c.State == api.StatePending {
				s.Decide(c, agent, api.View{}, api.Decision{Suspension: c.Suspension, Verdict: api.Approve})
			}
			s.Dispatch(s.Collect(c))
		},
	}
}

// decidedUnknown has a person decide whom the gate knows by a token and cannot
// look up by name. Designs without duties look nobody up, so that they neither
// notice nor mind.
func decidedUnknown(name, summary, person, success string) Variant {
	return Variant{
		Name: name, Summary: summary, Uses: []Capability{UsePerson, UseFault}, Stopped: stopped("duties"),
		Success: []string{success, "none"}, References: []string{"incident 41"},
		Run: func(s *Stage) {
			c := s.Call(0)
			s.Propose(c)
			s.Tamper()
			s.Down(api.DepIdentity)
			s.ReviewBy(c, person)
			s.Up(api.DepIdentity)
			s.Dispatch(s.Collect(c))
		},
	}
}

// decidedBy has a person decide on what an agent asks.
func decidedBy(name, summary, agent, person, success string) Variant {
	return Variant{
		Name: name, Summary: summary, Uses: []Capability{UsePerson}, Stopped: stopped("duties"),
		Success: []string{success, "none"}, References: []string{"NIST SP 800-53 AC-5"},
		Run: func(s *Stage) {
			c := s.Call(0).By(s.agents[agent])
			s.Propose(c)
			s.Tamper()
			s.ReviewBy(c, person)
			s.Dispatch(s.Collect(c))
		},
	}
}
