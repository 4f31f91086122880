package attacks

import (
	"strconv"
	"time"

	"countersign/gateway/api"
)

// AB4: one approval, several executions.
var _ = family(Family{
	ID: "AB4", Title: "replay", Main: api.BindOnce,
	Variants: []Variant{
		{
			Name:    "presented_twice_in_a_row",
			Summary: "the same message is dispatched a second time",
			Uses:    []Capability{UseQueue}, Stopped: stopped("seen | once | idem & @idempotent"),
			Success: []string{"spent", "none"}, Effects: 1,
			Run: func(s *Stage) {
				m := s.Ask(s.Call(0))
				s.Dispatch(m)
				s.Tamper()
				s.Dispatch(m)
			},
		},
		{
			Name:    "presented_by_eight_workers_at_once",
			Summary: "eight workers present the same message; all pass the checks before any of them consumes",
			Uses:    []Capability{UseQueue, UseDelay}, Stopped: stopped("once | idem & @idempotent"),
			Success: []string{"spent", "none"}, Effects: 1, References: []string{"incident 28", "CWE-367"},
			Run: func(s *Stage) {
				m := s.Ask(s.Call(0))
				s.Tamper()
				s.Race(m, 8)
			},
		},
		{
			Name:    "presented_to_two_instances_over_one_store",
			Summary: "the same message is dispatched to a second instance of the gateway",
			Uses:    []Capability{UseQueue}, Stopped: stopped("once | idem & @idempotent"),
			Success: []string{"spent", "none"}, Effects: 1,
			Run: func(s *Stage) {
				m := s.Ask(s.Call(0))
				s.Dispatch(m)
				s.Tamper()
				s.DispatchAt(s.Second(), m)
			},
		},
		{
			Name:    "presented_again_after_a_restart",
			Summary: "the gateway is restarted, and the same message is dispatched again",
			Uses:    []Capability{UseQueue, UseFault}, Stopped: stopped("once | idem & @idempotent"),
			Success: []string{"spent", "none"}, Effects: 1,
			Run: func(s *Stage) {
				m := s.Ask(s.Call(0))
				s.Dispatch(m)
				s.Tamper()
				s.Restart()
				s.Dispatch(m)
			},
		},
		{
			Name:    "presented_again_while_the_effect_is_made_and_nothing_recorded",
			Summary: "the same message comes in after the effect and before the first dispatch is answered: a gate that writes its mark after the effect has none yet",
			Uses:    []Capability{UseQueue, UseDelay}, Stopped: stopped("seen | once | idem"),
			Success: []string{"spent", "none"}, Effects: 1, References: []string{"incident 30"},
			Run: func(s *Stage) {
				m := s.Ask(s.Call(0))
				s.Tamper()
				s.During(api.StepSent, func() { s.Dispatch(m) })
				s.Dispatch(m)
			},
		},
		{
			Name:    "approved_by_two_people_at_once_and_dispatched_for_each",
			Summary: "two people have the call before them, both approve, and a worker is sent off for each decision; all pass the checks before any of them consumes",
			Uses:    []Capability{UseQueue, UseDelay}, Stopped: stopped("once | idem & @idempotent"),
			Success: []string{"spent", "none"}, Effects: 1, References: []string{"incident 28"},
			Run: func(s *Stage) {
				c := s.Call(0)
				s.Propose(c)
				s.Tamper()
				s.ReviewTogether(c, approver, approver2)
				s.Race(s.Collect(c), 2)
			},
		},
		{
			Name:    "five_identical_calls_at_once_and_one_approval",
			Summary: "five equal calls of one step wait, one is approved, and five workers present its approval, each for its own call",
			Uses:    []Capability{UseQueue, UseDelay}, Stopped: stopped("call | suspension | once | idem & @idempotent"),
			AlsoNamed: []api.Binding{api.BindRecord},
			Success:   []string{"spent", "none"}, Effects: 1,
			Run: func(s *Stage) {
				calls := s.identical(5)
				for _, c := range calls {
					s.Propose(c)
				}
				s.Review(calls[0])
				carried := s.Collect(calls[0]).Dispatch.Carried
				s.Tamper()
				ms := make([]Message, len(calls))
				for i, c := range calls {
					ms[i] = s.Collect(c).With(func(d *api.Dispatch) { d.Carried = carried })
				}
				s.RaceOf(ms...)
			},
		},
		{
			Name:    "answers_the_next_gate_of_the_run_too",
			Summary: "the run comes to a second gate, for an equal call, and the answer to the first is presented there",
			Uses:    []Capability{UseQueue}, Stopped: stopped("call | suspension | seen | once | idem & @idempotent"),
			AlsoNamed: []api.Binding{api.BindRecord},
			Success:   []string{"spent", "none"}, Effects: 1, References: []string{"incident 13"},
			Run: func(s *Stage) {
				first := s.Ask(s.Call(0))
				s.Dispatch(first)
				next := s.Call(0).In(firstRun, "step-2", "call-2")
				s.Tamper()
				s.Propose(next)
				s.Dispatch(s.Collect(next).With(func(d *api.Dispatch) { d.Carried = first.Dispatch.Carried }))
			},
		},
		{
			Name:    "run_wide_approval_used_once_more_than_it_is_for",
			Summary: "two equal calls of a run are approved and made, at one opt-in where there is such a thing; a third, proposed while uses were left, is presented on the approval of the second",
			Uses:    []Capability{UseQueue}, Stopped: stopped("seen | once | idem & @idempotent"), AlsoNamed: []api.Binding{api.BindRecord},
			Success: []string{"spent", "none"}, Effects: 2, References: []string{"incident 62"},
			Run: func(s *Stage) { s.onceMore(func(m Message) { s.Dispatch(m) }) },
		},
		{
			Name:    "run_wide_approval_used_once_more_at_another_instance",
			Summary: "two equal calls of a run are approved and made; a third is presented on the approval of the second to another instance of the gateway",
			Uses:    []Capability{UseQueue}, Stopped: stopped("once | idem & @idempotent"), AlsoNamed: []api.Binding{api.BindRecord},
			Success: []string{"spent", "none"}, Effects: 2, References: []string{"incident 62"},
			Run: func(s *Stage) { s.onceMore(func(m Message) { s.DispatchAt(s.Second(), m) }) },
		},
		{
			Name:    "run_wide_approvals_last_use_raced_for_by_eight_workers",
			Summary: "two equal calls of a run are approved and one is made; eight workers, each with a call of the run, present the approval of the second, and all pass the checks before any of them consumes",
			Uses:    []Capability{UseQueue, UseDelay}, Stopped: stopped("once | idem & @idempotent"), AlsoNamed: []api.Binding{api.BindRecord},
			Success: []string{"spent", "none"}, Effects: 2, References: []string{"incident 28", "incident 62", "CWE-367"},
			Run: func(s *Stage) {
				calls := s.equal(9)
				s.ForTheRun(2, calls...)
				s.Dispatch(s.Collect(calls[0]))
				m := s.Collect(calls[1])
				s.Tamper()
				var ms []Message
				for _, c := range calls[1:] {
					ms = append(ms, s.under(c, m))
				}
				s.RaceOf(ms...)
			},
		},
		{
			Name:    "run_wide_call_presented_twice",
			Summary: "two equal calls of a run are approved, with a use to spare where they are approved at one opt-in, and the second is presented twice",
			Uses:    []Capability{UseQueue}, Stopped: stopped("seen | once | idem & @idempotent"),
			Success: []string{"spent", "none"}, Effects: 2, References: []string{"incident 62"},
			Run: func(s *Stage) {
				_, m, _ := s.secondOf(3)
				s.Dispatch(m)
				s.Tamper()
				s.Dispatch(m)
			},
		},
	},
	Twins: []Variant{
		{
			Name:    "second_call_with_an_approval_of_its_own",
			Summary: "the next day the agent makes another call, and it is approved on its own",
			Effects: 2,
			Run: func(s *Stage) {
				s.Dispatch(s.Ask(s.Call(0)))
				s.Wait(24 * time.Hour)
				s.Dispatch(s.Ask(s.Call(1).In("run-2", "step-1", "call-2")))
			},
		},
		{
			Name:    "five_identical_calls_each_with_its_own_approval",
			Summary: "five equal calls of one step wait; each is approved, and each is executed",
			Effects: 5,
			Run: func(s *Stage) {
				calls := s.identical(5)
				for _, c := range calls {
					s.Propose(c)
				}
				for _, c := range calls {
					s.Review(c)
				}
				for _, c := range calls {
					s.Dispatch(s.Collect(c))
				}
			},
		},
		{
			Name:    "run_wide_three_equal_calls_under_one_opt_in",
			Summary: "the person wants three equal calls of one run; the approver opts in to three where that is offered, and decides on each otherwise; all three are made",
			Effects: 3, References: []string{"incident 62"},
			Run: func(s *Stage) {
				calls := []*Call{s.Call(0), s.Call(0).In(firstRun, "step-2", "call-2"), s.Call(0).In(firstRun, "step-3", "call-3")}
				s.ForTheRun(3, calls...)
				for _, c := range calls {
					s.Dispatch(s.Collect(c))
				}
			},
		},
	},
})

// onceMore has two equal calls of a run made, and presents a third.
func (s *Stage) onceMore(present func(Message)) {
	calls := s.equal(3)
	s.ForTheRun(2, calls...)
	s.Dispatch(s.Collect(calls[0]))
	m := s.Collect(calls[1])
	s.Dispatch(m)
	s.Tamper()
	present(s.under(calls[2], m))
}

// identical returns equal calls of one step.
func (s *Stage) identical(n int) []*Call {
	out := make([]*Call, n)
	for i := range out {
		out[i] = s.Call(0).In(firstRun, "step-1", "call-"+strconv.Itoa(i+1))
	}
	return out
}
