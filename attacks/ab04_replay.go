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
	},
})

// identical returns equal calls of one step.
func (s *Stage) identical(n int) []*Call {
	out := make([]*Call, n)
	for i := range out {
		out[i] = s.Call(0).In(firstRun, "step-1", "call-"+strconv.Itoa(i+1))
	}
	return out
}
