package attacks

import "countersign/gateway/api"

// AB9: an approval is stretched over something beside what it was for.
var _ = family(Family{
	ID: "AB9", Title: "scope widening", Main: api.BindSuspension,
	Variants: []Variant{
		{
			Name:    "used_for_another_tool_with_the_same_arguments",
			Summary: "the approved arguments are dispatched to a sibling tool that means something else",
			Uses:    []Capability{UseQueue}, Stopped: stopped("connector"),
			Success: []string{"content:tool", "none"}, References: []string{"incident 15", "incident 51"},
			Run: func(s *Stage) {
				m := s.Ask(s.Call(0))
				s.Tamper()
				s.Dispatch(m.With(func(d *api.Dispatch) { d.Action.Tool = s.Scenario.SiblingTool }))
			},
		},
		{
			Name:    "used_in_another_run_with_an_equal_call_id",
			Summary: "another run has an equal, undecided call with equal ids; the first run's approval is presented for it",
			Uses:    []Capability{UseQueue}, Stopped: stopped("run | suspension"), AlsoNamed: []api.Binding{api.BindRecord},
			Success: []string{"origin:run", "none"}, References: []string{"incident 4", "incident 51"},
			Run: func(s *Stage) {
				s.acrossCalls(s.Call(0), s.Call(0).In("run-2", "step-1", "call-1"))
			},
		},
		{
			Name:    "used_for_a_parallel_call_of_the_same_step",
			Summary: "two equal calls of one step wait; the approval of one is presented for the other",
			Uses:    []Capability{UseQueue}, Stopped: stopped("call | suspension"), AlsoNamed: []api.Binding{api.BindRecord},
			Success: []string{"origin:call", "none"}, References: []string{"incident 5", "incident 6", "incident 11"},
			Run: func(s *Stage) {
				s.acrossCalls(s.Call(0), s.Call(0).In(firstRun, "step-1", "call-2"))
			},
		},
		{
			Name:    "late_decision_for_an_earlier_suspension_of_the_step",
			Summary: "the step is entered again and suspends anew; the decision for the first suspension arrives, and its approval is used",
			Uses:    []Capability{UseQueue, UseDelay}, Stopped: stopped("suspension"), AlsoNamed: []api.Binding{api.BindRecord},
			Success: []string{"origin:suspension", "none"}, References: []string{"incident 4"},
			Run: func(s *Stage) {
				first, second := s.Call(0), s.Call(0)
				s.Propose(first)
				s.Propose(second)
				s.Tamper()
				s.Review(first)
				s.Dispatch(s.Collect(first))
			},
		},
		{
			Name:    "presented_by_another_agent",
			Summary: "another agent of the same person takes the approved call from the queue and presents it",
			Uses:    []Capability{UseQueue, UseClient}, Stopped: stopped("agent | sender"),
			Success: []string{"origin:agent", "none"}, References: []string{"incident 37", "RFC 9449 section 1"},
			Run: func(s *Stage) {
				m := s.Ask(s.Call(0))
				s.Tamper()
				m.Agent = s.agents[agentB]
				s.Dispatch(m)
			},
		},
		{
			Name:    "sibling_call_rides_on_the_resume",
			Summary: "the resumed step carries a second call that nobody was asked about",
			Uses:    []Capability{UseQueue}, Stopped: stopped("percall & (args | call | suspension | sender | seen | once | idem & @idempotent)"),
			AlsoNamed: []api.Binding{api.BindRecord},
			Success:   []string{"content", "none"}, Effects: 1, References: []string{"incident 9", "incident 14"},
			Run: func(s *Stage) {
				m := s.Ask(s.Call(0))
				s.Tamper()
				s.Dispatch(m.With(func(d *api.Dispatch) { d.Siblings = []api.Action{s.Call(1).Action} }))
			},
		},
	},
	Twins: []Variant{{
		Name:    "three_parallel_calls_decided_in_the_order_3_1_2",
		Summary: "three calls of one run wait; each is approved and executed with its own arguments",
		Effects: 3, References: []string{"incident 6"},
		Run: func(s *Stage) {
			calls := []*Call{s.Call(0), s.Call(1), s.Call(2)}
			for _, c := range calls {
				s.Propose(c)
			}
			for _, i := range []int{2, 0, 1} {
				s.Review(calls[i])
			}
			for _, c := range calls {
				s.Dispatch(s.Collect(c))
			}
		},
	}},
})

// acrossCalls has one call approved and presents its approval for an equal one
// that waits undecided.
func (s *Stage) acrossCalls(approved, other *Call) {
	s.Propose(approved)
	s.Propose(other)
	s.Review(approved)
	carried := s.Collect(approved).Dispatch.Carried
	s.Tamper()
	s.Dispatch(s.Collect(other).With(func(d *api.Dispatch) { d.Carried = carried }))
}
