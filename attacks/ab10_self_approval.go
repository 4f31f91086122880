package attacks

import "countersign/gateway/api"

// AB10: the approver is the one who asks.
var _ = family(Family{
	ID: "AB10", Title: "self-approval", Main: api.BindDuties,
	Variants: []Variant{
		{
			Name:    "agent_decides_its_own_request",
			Summary: "the agent posts the decision on its own request, as an authenticated caller",
			Uses:    []Capability{UseClient}, Stopped: stopped("duties | attest | challenge"),
			Success: []string{"who:agent", "none"}, References: []string{"incident 8", "incident 40", "incident 55"},
			Run: func(s *Stage) {
				c := s.Call(0)
				s.Propose(c)
				s.Tamper()
				if c.State == api.StatePending {
					s.Decide(c, c.Agent.ID, api.View{}, api.Decision{Suspension: c.Suspension, Verdict: api.Approve})
				}
				s.Dispatch(s.Collect(c))
			},
		},
		decidedBy("requester_decides_the_agents_request", "the person on whose behalf the agent asks approves it", requester, "who:requester"),
		decidedBy("delegate_of_the_requester_decides", "a delegate of the requester approves it", delegate, "who:delegate"),
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

func decidedBy(name, summary, person, success string) Variant {
	return Variant{
		Name: name, Summary: summary, Uses: []Capability{UsePerson}, Stopped: stopped("duties"),
		Success: []string{success, "none"}, References: []string{"NIST SP 800-53 AC-5"},
		Run: func(s *Stage) {
			c := s.Call(0)
			s.Propose(c)
			s.Tamper()
			s.ReviewBy(c, person)
			s.Dispatch(s.Collect(c))
		},
	}
}
