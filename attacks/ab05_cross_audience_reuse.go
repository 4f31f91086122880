package attacks

import "countersign/gateway/api"

// AB5: an approval for one service, or for one tenant's, is used at another that
// shares key material.
var _ = family(Family{
	ID: "AB5", Title: "cross-audience reuse", Main: api.BindAudience,
	Variants: []Variant{
		{
			Name:    "presented_at_a_sibling_service_with_the_same_key",
			Summary: "the approved call is dispatched to a sibling service that offers the same tool",
			Uses:    []Capability{UseQueue, UsePeer}, Stopped: stopped("audience"),
			Success: []string{"content:audience", "none"}, References: []string{"RFC 8725 section 3.9"},
			Run: func(s *Stage) { s.Dispatch(s.atSibling(s.Ask(s.Call(0)))) },
		},
		{
			Name:    "presented_at_a_sibling_service_with_the_audience_claim_edited",
			Summary: "the approved call is dispatched to a sibling service, and the permit is edited to name it",
			Uses:    []Capability{UseQueue, UsePeer}, Stopped: stopped("audience & (record | signed | challenge)"),
			Success: []string{"content:audience", "none"}, References: []string{"RFC 8725 section 3.9"},
			Run: func(s *Stage) {
				m := s.atSibling(s.Ask(s.Call(0)))
				s.Dispatch(s.edited(m, map[string]any{"aud": m.Dispatch.Action.Audience}))
			},
		},
		{
			Name:    "approval_for_staging_presented_in_production",
			Summary: "the call was approved for the service where things are tried out, and is dispatched to the one that counts",
			Uses:    []Capability{UseQueue}, Stopped: stopped("audience"),
			Success: []string{"content:audience", "none"}, References: []string{"RFC 8725 section 3.9"},
			Run: func(s *Stage) {
				m := s.Ask(s.inStaging(s.Call(0)))
				s.Tamper()
				s.Dispatch(m.With(func(d *api.Dispatch) { d.Action.Audience = s.Scenario.Audience }))
			},
		},
		{
			Name:    "presented_in_another_tenant_with_services_of_the_same_names",
			Summary: "an agent of the same person in another tenant, where the services have the same names, presents the approved call",
			Uses:    []Capability{UseQueue, UseClient}, Stopped: stopped("audience | agent | sender"),
			Success: []string{"origin:agent", "none"},
			Run: func(s *Stage) {
				m := s.Ask(s.Call(0))
				s.Tamper()
				m.Agent = s.agents[agentTwin]
				s.Dispatch(m)
			},
		},
		{
			Name:    "tool_of_the_same_name_at_another_server_inherits_the_approval",
			Summary: "a second server has a tool of the same name; the run's next call goes there, under the approval for the first",
			Uses:    []Capability{UseText, UsePeer}, Stopped: stopped("audience | call | suspension | seen | once | idem & @idempotent"),
			AlsoNamed: []api.Binding{api.BindRecord},
			Success:   []string{"content:audience", "none"}, Effects: 1, References: []string{"incident 24"},
			Run: func(s *Stage) {
				first := s.Ask(s.Call(0))
				s.Dispatch(first)
				next := s.Call(0).In(firstRun, "step-2", "call-2")
				next.Action.Audience = s.Scenario.Sibling
				s.Tamper()
				s.Propose(next)
				s.Dispatch(s.Collect(next).With(func(d *api.Dispatch) { d.Carried = first.Dispatch.Carried }))
			},
		},
		{
			Name:    "decided_by_a_user_to_whom_the_run_does_not_belong",
			Summary: "a person who can sign in, but approves for nobody, decides on somebody else's run",
			Uses:    []Capability{UsePerson}, Stopped: stopped("duties"),
			Success: []string{"who:not_approver", "none"}, References: []string{"incident 8"},
			Run: func(s *Stage) {
				c := s.Call(0)
				s.Propose(c)
				s.Tamper()
				s.ReviewBy(c, requester2)
				s.Dispatch(s.Collect(c))
			},
		},
	},
	Twins: []Variant{
		{
			Name:    "presented_at_its_own_service_beside_a_sibling_call",
			Summary: "a call to each of two sibling services, each with its own approval",
			Effects: 2,
			Run: func(s *Stage) {
				first, second := s.Call(0), s.Call(1)
				second.Action.Audience = s.Scenario.Sibling
				second.Want.Audience = s.Scenario.Sibling
				s.Propose(first)
				s.Propose(second)
				s.Review(first)
				s.Review(second)
				s.Dispatch(s.Collect(first))
				s.Dispatch(s.Collect(second))
			},
		},
		{
			Name:    "tried_out_in_staging_then_done_in_production",
			Summary: "the call is approved and made in staging, then approved on its own and made in production",
			Effects: 2,
			Run: func(s *Stage) {
				first, second := s.inStaging(s.Call(0)), s.Call(0).In(firstRun, "step-2", "call-2")
				s.Propose(first)
				s.Propose(second)
				s.Review(first)
				s.Dispatch(s.Collect(first))
				s.Review(second)
				s.Dispatch(s.Collect(second))
			},
		},
		{
			Name:    "equal_calls_of_two_tenants_each_approved_by_its_own_people",
			Summary: "agents of two tenants make equal calls; each tenant's approver approves its own",
			Effects: 2,
			Run: func(s *Stage) {
				first, second := s.Call(0), s.Call(0).By(s.agents[agentTwin]).In("run-2", "step-1", "call-1")
				s.Propose(first)
				s.Propose(second)
				s.Review(first)
				s.ReviewBy(second, twinsPerson)
				s.Dispatch(s.Collect(first))
				s.Dispatch(s.Collect(second))
			},
		},
	},
})

// atSibling sends a message to the scenario's sibling service.
func (s *Stage) atSibling(m Message) Message {
	s.Tamper()
	return m.With(func(d *api.Dispatch) { d.Action.Audience = s.Scenario.Sibling })
}

// inStaging makes a call one for the staging service, where it is meant to go.
func (s *Stage) inStaging(c *Call) *Call {
	c.Action.Audience = staging(s.Scenario)
	c.Want.Audience = c.Action.Audience
	return c
}
