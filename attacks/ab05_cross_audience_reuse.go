package attacks

import "countersign/gateway/api"

// AB5: a permit for one service is used at another that shares key material.
var _ = family(Family{
	ID: "AB5", Title: "cross-audience reuse", Main: api.BindAudience,
	Variants: []Variant{
		{
			Name:    "presented_at_a_sibling_service_with_the_same_key",
			Summary: "the approved call is dispatched to a sibling service that offers the same tool",
			Uses:    []Capability{UseQueue, UsePeer}, Stopped: stopped("audience"),
			Success: []string{"content:audience", "none"}, References: []string{"incident 24", "RFC 8725 section 3.9"},
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
	},
	Twins: []Variant{{
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
	}},
})

// atSibling sends a message to the scenario's sibling service.
func (s *Stage) atSibling(m Message) Message {
	s.Tamper()
	return m.With(func(d *api.Dispatch) { d.Action.Audience = s.Scenario.Sibling })
}
