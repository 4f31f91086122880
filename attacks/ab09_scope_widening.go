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
			Name:    "used_for_a_parallel_call_with_its_payload",
			Summary: "three calls of one step with arguments of their own wait; the third is approved, and is dispatched with the first one's arguments",
			Uses:    []Capability{UseQueue}, Stopped: stopped("args"),
			Success: []string{"content", "none"}, References: []string{"incident 5", "incident 6"},
			Run: func(s *Stage) {
				var calls []*Call
				for n, id := range []string{"call-1", "call-2", "call-3"} {
					calls = append(calls, s.Call(n).In(firstRun, "step-1", id))
					s.Propose(calls[n])
				}
				s.Review(calls[2])
				m := s.Collect(calls[2])
				s.Tamper()
				s.Dispatch(m.With(func(d *api.Dispatch) { d.Action.Arguments = calls[0].Action.Arguments }))
			},
		},
		{
			Name:    "used_in_another_step_of_the_run",
			Summary: "another step of the run has an equal, undecided call with an equal id; the first step's approval is presented for it",
			Uses:    []Capability{UseQueue}, Stopped: stopped("suspension"), AlsoNamed: []api.Binding{api.BindRecord},
			Success: []string{"origin:step", "none"}, References: []string{"incident 4"},
			Run: func(s *Stage) {
				s.acrossCalls(s.Call(0), s.Call(0).In(firstRun, "step-2", "call-1"))
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
			Name:    "presented_by_a_subagent",
			Summary: "an agent that works for the asking agent presents its approved call, as if it had inherited the approval",
			Uses:    []Capability{UseQueue, UseClient}, Stopped: stopped("agent | sender"),
			Success: []string{"origin:agent", "none"}, References: []string{"incident 37"},
			Run: func(s *Stage) {
				m := s.Ask(s.Call(0))
				s.Tamper()
				m.Agent = s.agents[agentSub]
				s.Dispatch(m)
			},
		},
		standing("standing_approval_of_one_call_used_for_other_arguments",
			"f(a) was approved; the run goes on to f(b), which nobody decided, on the approval of f(a)",
			"args | call | suspension", "content", []string{"incident 51", "incident 62"}, func(*Stage, *api.Action) {}),
		standing("standing_approval_of_one_tool_used_for_another",
			"f was approved; the run goes on to g, reached through the same wrapper, on the approval of f",
			"connector | args | call | suspension", "content:tool", []string{"incident 51", "incident 62"},
			func(s *Stage, a *api.Action) { a.Tool = s.Scenario.SiblingTool }),
		standing("standing_approval_used_for_the_tool_of_the_same_name_at_another_server",
			"a tool was approved; the run goes on to the tool of the same name at another server, on that approval",
			"audience | args | call | suspension", "content:audience", []string{"incident 24"},
			func(s *Stage, a *api.Action) { a.Audience = s.Scenario.Sibling }),
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
		{
			Name:    "run_wide_approval_used_in_another_run",
			Summary: "a call is approved, for its whole run where that is offered; another run has an equal, undecided call with equal ids, and the approval is presented for it",
			Uses:    []Capability{UseQueue}, Stopped: stopped("run | suspension"), AlsoNamed: []api.Binding{api.BindRecord},
			Success: []string{"origin:run", "none"}, References: []string{"incident 51", "incident 62"},
			Run: func(s *Stage) {
				c := s.Call(0)
				s.ForTheRun(3, c)
				m := s.Collect(c)
				s.Tamper()
				other := s.Call(0).In("run-2", "step-1", "call-1")
				s.Propose(other)
				s.Dispatch(s.under(other, m))
			},
		},
		{
			Name:    "run_wide_approval_used_for_other_arguments",
			Summary: "two equal calls of a run are approved, at one opt-in where that is offered, and the arguments of the second are changed in the queue",
			Uses:    []Capability{UseQueue}, Stopped: stopped("args"),
			Success: []string{"content", "none"}, References: []string{"incident 51", "incident 62"},
			Run: func(s *Stage) {
				calls := s.equal(2)
				s.ForTheRun(3, calls...)
				m := s.Collect(calls[1])
				s.Tamper()
				s.Dispatch(m.With(func(d *api.Dispatch) { d.Action.Arguments = s.Call(1).Action.Arguments }))
			},
		},
		{
			Name:    "run_wide_approval_used_for_a_call_with_other_arguments",
			Summary: "a call is approved, for its whole run where that is offered; the run goes on to a call with other arguments, which nobody decides, on that approval",
			Uses:    []Capability{UseQueue, UseText}, Stopped: stopped("args | suspension"), AlsoNamed: []api.Binding{api.BindRecord},
			Success: []string{"content", "none"}, References: []string{"incident 51", "incident 62"},
			Run: func(s *Stage) {
				c := s.Call(0)
				s.ForTheRun(3, c)
				m := s.Collect(c)
				s.Tamper()
				other := s.Call(1).In(firstRun, "step-2", "call-1")
				s.Propose(other)
				s.Dispatch(s.under(other, m))
			},
		},
		{
			Name:    "run_wide_call_presented_by_another_agent",
			Summary: "two equal calls of a run are approved, at one opt-in where that is offered; another agent of the same person takes the second from the queue and presents it",
			Uses:    []Capability{UseQueue, UseClient}, Stopped: stopped("agent | sender"),
			Success: []string{"origin:agent", "none"}, References: []string{"incident 37", "incident 62"},
			Run: func(s *Stage) {
				calls := s.equal(2)
				s.ForTheRun(3, calls...)
				m := s.Collect(calls[1])
				s.Tamper()
				m.Agent = s.agents[agentB]
				s.Dispatch(m)
			},
		},
		{
			Name:    "approval_of_one_call_edited_to_cover_the_run",
			Summary: "one call is approved; its permit is edited in the queue to be for the whole run, until an end of its own, and presented for an equal call that waits undecided",
			Uses:    []Capability{UseQueue}, Stopped: stopped("suspension | signed | challenge | call & record"),
			Success: []string{"origin", "none"}, References: []string{"incident 62", "RFC 8725 section 3.1"},
			Run: func(s *Stage) {
				c, other := s.Call(0), s.Call(0).In(firstRun, "step-2", "call-2")
				s.BoundRunWide(c, runWideBounds)
				s.Propose(c)
				s.Propose(other)
				s.Review(c)
				m := s.Collect(c)
				s.Tamper()
				s.Dispatch(s.widened(s.under(other, m)))
			},
		},
	},
	Twins: []Variant{{
		Name:    "run_wide_approval_beside_a_call_that_is_asked_for_itself",
		Summary: "two equal calls of a run are approved, at one opt-in where that is offered; a third with other arguments is approved for itself; all are made",
		Effects: 3, References: []string{"incident 62"},
		Run: func(s *Stage) {
			calls, other := s.equal(2), s.Call(1).In(firstRun, "step-9", "call-9")
			s.Propose(other)
			s.ForTheRun(2, calls...)
			s.Review(other)
			for _, c := range append(calls, other) {
				s.Dispatch(s.Collect(c))
			}
		},
	}, {
		Name:    "equal_ids_in_two_runs_each_with_its_own_approval",
		Summary: "two runs have a call with the same ids; each is approved and executed",
		Effects: 2,
		Run: func(s *Stage) {
			first, second := s.Call(0), s.Call(1).In("run-2", "step-1", "call-1")
			s.Propose(first)
			s.Propose(second)
			s.Review(second)
			s.Review(first)
			s.Dispatch(s.Collect(first))
			s.Dispatch(s.Collect(second))
		},
	}, {
		Name:    "step_entered_again_and_the_newest_suspension_approved",
		Summary: "the first suspension is declined; the step is entered again, and its second suspension is approved and executed",
		Effects: 1, References: []string{"incident 4"},
		Run: func(s *Stage) {
			s.declined(s.Call(0))
			s.Dispatch(s.Ask(s.Call(0)))
		},
	}, {
		Name:    "subagent_asks_in_its_own_name",
		Summary: "an agent that works for another agent proposes its own call, which is approved and executed",
		Effects: 1, References: []string{"incident 37"},
		Run: func(s *Stage) { s.Dispatch(s.Ask(s.Call(0).By(s.agents[agentSub]))) },
	}, {
		Name:    "three_parallel_calls_decided_in_the_order_3_1_2",
		Summary: "three calls of one run wait; each is approved and executed with its own arguments",
		Effects: 3, References: []string{"incident 6", "incident 11"},
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

// standing has a call approved and goes on, in the same run, to another one that
// nobody decides, on the approval of the first.
func standing(name, summary, condition, success string, refs []string, other func(s *Stage, a *api.Action)) Variant {
	return Variant{
		Name: name, Summary: summary, Uses: []Capability{UseQueue, UseText}, Stopped: stopped(condition),
		AlsoNamed: []api.Binding{api.BindRecord}, Success: []string{success, "none"}, References: refs,
		Run: func(s *Stage) {
			m := s.Ask(s.Call(0))
			next := s.Call(1)
			other(s, &next.Action)
			s.Tamper()
			s.Propose(next)
			s.Dispatch(s.Collect(next).With(func(d *api.Dispatch) { d.Carried = m.Dispatch.Carried }))
		},
	}
}

// declined has the approver say no to a call.
func (s *Stage) declined(c *Call) {
	s.Propose(c)
	if c.State != api.StatePending {
		return
	}
	s.person(approver)
	view, err := s.target.View(s.ctx, auth(approver), c.Suspension)
	s.must(err)
	s.Decide(c, approver, view, api.Decision{Suspension: c.Suspension, Verdict: api.Decline})
}
