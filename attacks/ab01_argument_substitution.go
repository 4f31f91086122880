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
		replaced("unit_changed_in_the_queue", "the currency, unit or environment is changed while the approved call waits", scenarios.RoleUnit, "incident 46"),
		replaced("destination_changed_in_the_queue", "the recipient, account, cluster or working directory is changed while the approved call waits", scenarios.RoleDestination, "incident 46"),
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
			Name:    "destination_extended_in_the_queue",
			Summary: "another recipient is put behind the approved one, so that the old value is the beginning of the new",
			Uses:    []Capability{UseQueue}, Stopped: stopped("args"), Needs: []scenarios.Role{scenarios.RoleDestination},
			Success: []string{"content:{destination}", "none"},
			Run: func(s *Stage) {
				s.Dispatch(s.substitute(s.Ask(s.Call(0)), func(a Arguments) Arguments {
					f := s.Field(scenarios.RoleDestination)
					return a.With(f, quoted(textOf(a.Get(f))+","+textOf(s.Scenario.Hostile(scenarios.RoleDestination))))
				}))
			},
		},
		{
			Name:    "values_of_two_fields_exchanged_in_the_queue",
			Summary: "text and destination change places while the approved call waits: every value was approved, for another field",
			Uses:    []Capability{UseQueue}, Stopped: stopped("args"), Needs: []scenarios.Role{scenarios.RoleText, scenarios.RoleDestination},
			Success: []string{"content:{text}", "content:{destination}", "none"},
			Run: func(s *Stage) {
				text, to := s.Field(scenarios.RoleText), s.Field(scenarios.RoleDestination)
				s.Dispatch(s.substitute(s.Ask(s.Call(0)), func(a Arguments) Arguments {
					return a.With(text, a.Get(to)).With(to, a.Get(text))
				}))
			},
		},
		{
			Name:    "arguments_of_two_approved_calls_exchanged_in_the_queue",
			Summary: "two calls of a run are approved, and each is dispatched with the other's arguments",
			Uses:    []Capability{UseQueue}, Stopped: stopped("args"),
			Success: []string{"content", "origin", "none"}, References: []string{"incident 6"},
			Run: func(s *Stage) {
				a, b := s.Ask(s.Call(0)), s.Ask(s.Call(1))
				s.Tamper()
				text := a.Dispatch.Action.Arguments
				s.Dispatch(a.With(func(d *api.Dispatch) { d.Action.Arguments = b.Dispatch.Action.Arguments }))
				s.Dispatch(b.With(func(d *api.Dispatch) { d.Action.Arguments = text }))
			},
		},
		{
			// What rewrites a call behind the enforcement point holds the gateway's
			// own credential for the service, and no binding of a gate reaches it.
			Name:    "field_rewritten_by_a_step_between_approval_and_enforcement",
			Summary: "a step of the worker's pipeline that runs after the approval writes the service's default into every call",
			Uses:    []Capability{UseQueue}, Stopped: stopped("args"), Needs: []scenarios.Role{scenarios.RoleDefaulted},
			Success: []string{"content:{defaulted}", "none"}, References: []string{"incident 26"},
			Run: func(s *Stage) { s.Dispatch(s.substitute(s.Ask(s.Call(0)), hostile(s, scenarios.RoleDefaulted))) },
		},
		{
			Name:    "approvers_edit_of_tool_and_text_applied_without_a_new_request",
			Summary: "the approver approves and asks for another tool and text instead; the worker edits the approved call, whose own gate is never asked",
			Uses:    []Capability{UseQueue}, Stopped: stopped("args | connector"), Needs: []scenarios.Role{scenarios.RoleText},
			Success: []string{"content:tool", "none"}, References: []string{"incident 15"},
			Run: func(s *Stage) {
				m := s.substitute(s.Ask(s.Call(0)), hostile(s, scenarios.RoleText))
				s.Dispatch(m.With(func(d *api.Dispatch) { d.Action.Tool = s.Scenario.SiblingTool }))
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
				substituted := s.substitute(s.Ask(s.Call(0)), hostile(s, scenarios.RoleText))
				m := s.editedToMatch(substituted)
				s.Dispatch(m.With(func(d *api.Dispatch) {
					if d.Carried.Permit == substituted.Dispatch.Carried.Permit {
						return // it names no arguments: the assertion fits as it is
					}
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
	}, {
		Name:    "approvers_edit_of_tool_and_text_made_as_a_new_request",
		Summary: "the approver declines and asks for another tool and text; the agent proposes that call, and it is approved and executed",
		Effects: 1, Needs: []scenarios.Role{scenarios.RoleText}, References: []string{"incident 15"},
		Run: func(s *Stage) {
			first, edited := s.Call(0), s.Call(1)
			s.Propose(first)
			if first.State == api.StatePending {
				s.Decide(first, approver, api.View{}, api.Decision{Suspension: first.Suspension, Verdict: api.Decline})
			}
			text := s.Scenario.Hostile(scenarios.RoleText) // here it is what the person wants
			edited.Action.Tool, edited.Action.Arguments = s.Scenario.SiblingTool, hostile(s, scenarios.RoleText)(edited.Args()).Text()
			edited.Want.Tool, edited.Want.Title = s.Scenario.SiblingTool, s.tool(edited.Action).Title
			edited.Want.Values["/"+s.Field(scenarios.RoleText)] = textOf(text)
			s.Dispatch(s.Ask(edited))
		},
	}},
})

func replaced(name, summary string, role scenarios.Role, references ...string) Variant {
	return Variant{
		Name: name, Summary: summary, Uses: []Capability{UseQueue}, Stopped: stopped("args"),
		Needs: []scenarios.Role{role}, Success: []string{"content:{" + string(role) + "}", "none"}, References: references,
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
