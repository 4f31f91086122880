package attacks

import (
	"time"

	"countersign/gateway/api"
	"countersign/scenarios"
	"countersign/scenarios/provider"
)

// AB7: one approval, one request, several effects, because something on the way
// tried again.
var _ = family(Family{
	ID: "AB7", Title: "retry duplication", Main: api.BindIdem,
	Variants: []Variant{
		{
			Name:    "answer_lost_and_sent_again_below_the_gate",
			Summary: "the provider's answer is lost after the effect, and the executor's retry policy sends the call again",
			Uses:    []Capability{UseNet}, Stopped: stopped("idem"),
			Success: []string{"spent", "none"}, Effects: 1, References: []string{"incident 80"},
			Run: func(s *Stage) {
				m := s.Ask(s.Call(0))
				s.Tamper()
				s.Lose(provider.FaultDropResponse)
				s.Dispatch(m)
			},
		},
		{
			Name:    "crash_after_the_send_and_dispatched_again",
			Summary: "the gateway crashes after the send and before it records the outcome; the worker dispatches again",
			Uses:    []Capability{UseFault}, Stopped: stopped("once | idem"),
			Success: []string{"spent", "none"}, Effects: 1, References: []string{"incident 21"},
			Run: func(s *Stage) {
				m := s.Ask(s.Call(0))
				s.Tamper()
				s.CrashAt(api.StepSent)
				s.DispatchInto(m)
				s.Restart()
				s.Wait(5 * time.Minute)
				s.Dispatch(m)
			},
		},
		{
			Name:    "request_delivered_twice_by_the_network",
			Summary: "the network delivers the one request twice",
			Uses:    []Capability{UseNet}, Stopped: stopped("idem"),
			Success: []string{"spent", "none"}, Effects: 1, References: []string{"incident 78"},
			Unless: func(sc *scenarios.Scenario) string {
				if t, _ := sc.Tool(sc.HonestTool); t.Guarantee != api.GuaranteeIdempotent {
					return "no gate can stop it: the provider's guarantee is " + string(t.Guarantee)
				}
				return ""
			},
			Run: func(s *Stage) {
				m := s.Ask(s.Call(0))
				s.Tamper()
				s.Lose(provider.FaultDuplicate)
				s.Dispatch(m)
			},
		},
	},
	Twins: []Variant{{
		Name:    "sent_again_after_a_refused_connection",
		Summary: "the first connection is refused, so nothing was sent; the retry makes the one effect",
		Effects: 1,
		Run: func(s *Stage) {
			m := s.Ask(s.Call(0))
			s.Lose(provider.FaultNotSent)
			s.Dispatch(m)
		},
	}},
})
