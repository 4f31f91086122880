package attacks

import (
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
			Success: []string{"spent", "none"}, Effects: 1, References: []string{"incident 13"},
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
			Success: []string{"spent", "none"}, Effects: 1, References: []string{"incident 28", "incident 30", "CWE-367"},
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
	},
	Twins: []Variant{{
		Name:    "second_call_with_an_approval_of_its_own",
		Summary: "the next day the agent makes another call, and it is approved on its own",
		Effects: 2,
		Run: func(s *Stage) {
			s.Dispatch(s.Ask(s.Call(0)))
			s.Wait(24 * time.Hour)
			s.Dispatch(s.Ask(s.Call(1).In("run-2", "step-1", "call-2")))
		},
	}},
})
