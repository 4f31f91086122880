package attacks

import (
	"countersign/gateway/api"
	"countersign/scenarios"
)

// AB1: between approval and dispatch the arguments change.
var _ = family(Family{
	ID: "AB1", Title: "argument substitution", Main: api.BindArgs,
	Variants: []Variant{
		replaced("quantity_raised_in_the_queue", "the amount is raised while the approved call waits", scenarios.RoleQuantity),
		replaced("unit_changed_in_the_queue", "the currency or unit is changed while the approved call waits", scenarios.RoleUnit),
		replaced("destination_changed_in_the_queue", "the destination is changed while the approved call waits", scenarios.RoleDestination),
		replaced("text_changed_in_the_queue", "the payload text is changed while the approved call waits", scenarios.RoleText),
		{
			Name:    "field_added_in_the_queue",
			Summary: "a material field that was absent at review is added while the approved call waits",
			Uses:    []Capability{UseQueue}, Stopped: stopped("args"), Needs: []scenarios.Role{scenarios.RoleHidden},
			Success: []string{"content:{hidden}", "none"}, References: []string{"incident 46"},
			Run: func(s *Stage) {
				s.Dispatch(s.substitute(s.Ask(s.Call(0)), func(a Arguments) Arguments {
					return a.With(s.Field(scenarios.RoleHidden), s.Scenario.Hostile(scenarios.RoleHidden))
				}))
			},
		},
		{
			Name:    "field_dropped_so_that_the_default_applies",
			Summary: "a field is dropped while the approved call waits, and the service applies its default",
			Uses:    []Capability{UseQueue}, Stopped: stopped("args"), Needs: []scenarios.Role{scenarios.RoleDefaulted},
			Success: []string{"content:{defaulted}", "none"}, References: []string{"incident 46"},
			Run: func(s *Stage) {
				s.Dispatch(s.substitute(s.Ask(s.Call(0)), func(a Arguments) Arguments {
					return a.Without(s.Field(scenarios.RoleDefaulted))
				}))
			},
		},
		{
			Name:    "reference_pointed_at_another_record_in_the_queue",
			Summary: "the call is pointed at another supplier, list or tag while it waits",
			Uses:    []Capability{UseQueue}, Stopped: stopped("args | refs"), Needs: []scenarios.Role{scenarios.RoleReference},
			Success: []string{"content:{reference}", "none"},
			Run: func(s *Stage) {
				s.Dispatch(s.substitute(s.Ask(s.Call(0)), hostile(s, scenarios.RoleReference)))
			},
		},
		{
			Name:    "text_changed_and_the_permit_edited_to_match",
			Summary: "the payload text is changed in the queue, and so are the claims of the permit",
			Uses:    []Capability{UseQueue}, Stopped: stopped("args & (record | signed | challenge)"), Needs: []scenarios.Role{scenarios.RoleText},
			Success: []string{"content:{text}", "none"}, References: []string{"incident 25", "RFC 8725 section 2.1"},
			Run: func(s *Stage) {
				m := s.substitute(s.Ask(s.Call(0)), hostile(s, scenarios.RoleText))
				s.Dispatch(s.editedToMatch(m))
			},
		},
		{
			Name:    "text_changed_and_permit_and_assertion_edited_to_match",
			Summary: "the payload text, the claims of the permit and the challenge in the client data are changed in the queue",
			Uses:    []Capability{UseQueue}, Stopped: stopped("args & (record | signed | attest)"), Needs: []scenarios.Role{scenarios.RoleText},
			Success: []string{"content:{text}", "none"}, References: []string{"incident 73"},
			Run: func(s *Stage) {
				m := s.editedToMatch(s.substitute(s.Ask(s.Call(0)), hostile(s, scenarios.RoleText)))
				s.Dispatch(m.With(func(d *api.Dispatch) {
					a, err := editAssertion(d.Carried.Assertion, d.Carried.Permit)
					s.must(err)
					d.Carried.Assertion = a
				}))
			},
		},
	},
	Twins: []Variant{{
		Name:    "same_arguments_in_another_order_and_with_white_space",
		Summary: "the queue re-encodes the arguments: members reordered, white space added",
		Effects: 1,
		Run: func(s *Stage) {
			c := s.Call(0)
			m := s.Ask(c)
			s.Dispatch(m.With(func(d *api.Dispatch) { d.Action.Arguments = c.Args().Reordered() }))
		},
	}},
})

func replaced(name, summary string, role scenarios.Role) Variant {
	return Variant{
		Name: name, Summary: summary, Uses: []Capability{UseQueue}, Stopped: stopped("args"),
		Needs: []scenarios.Role{role}, Success: []string{"content:{" + string(role) + "}", "none"},
		Run: func(s *Stage) { s.Dispatch(s.substitute(s.Ask(s.Call(0)), hostile(s, role))) },
	}
}

// hostile puts the scenario's hostile value into the field of a role.
func hostile(s *Stage, role scenarios.Role) func(Arguments) Arguments {
	return func(a Arguments) Arguments { return a.With(s.Field(role), s.Scenario.Hostile(role)) }
}

// substitute changes the arguments of a message in the queue.
func (s *Stage) substitute(m Message, change func(Arguments) Arguments) Message {
	s.Tamper()
	return m.With(func(d *api.Dispatch) {
		a, err := ParseArguments(d.Action.Arguments)
		s.must(err)
		d.Action.Arguments = change(a).Text()
	})
}

// editedToMatch makes the claims of a message's permit name its arguments.
func (s *Stage) editedToMatch(m Message) Message {
	claims, err := argumentClaims(m.Dispatch.Action.Arguments)
	s.must(err)
	return s.edited(m, claims)
}

func (s *Stage) edited(m Message, claims map[string]any) Message {
	return m.With(func(d *api.Dispatch) {
		p, err := editPermit(d.Carried.Permit, claims)
		s.must(err)
		d.Carried.Permit = p
	})
}
