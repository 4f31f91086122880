package attacks

import (
	"context"
	"errors"
	"slices"
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
				s.Crash(api.StepSent, m)
				s.Wait(5 * time.Minute)
				s.Dispatch(m)
			},
		},
		{
			Name:    "request_delivered_twice_by_the_network",
			Summary: "the network delivers the one request twice",
			Uses:    []Capability{UseNet}, Stopped: stopped("idem"),
			Success: []string{"spent", "none"}, Effects: 1,
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
		{
			Name:    "gates_answer_lost_and_dispatched_again_with_a_fresh_request_id",
			Summary: "the call is made, the gate's answer is lost on its way to the worker, and the worker dispatches again, with a request id made for the attempt",
			Uses:    []Capability{UseNet}, Stopped: stopped("seen | once | idem & @idempotent"),
			Success: []string{"spent", "none"}, Effects: 1, References: []string{"incident 78", "incident 80"},
			Run: func(s *Stage) {
				m := s.Ask(s.Call(0))
				s.Tamper()
				s.DispatchInto(m)
				s.Dispatch(m)
			},
		},
		{
			Name:    "same_decision_sent_twice_and_dispatched_for_each",
			Summary: "the approver's client sends the decision a second time, and a worker is sent off for each",
			Uses:    []Capability{UseNet}, Stopped: stopped("seen | once | idem & @idempotent"),
			Success: []string{"spent", "none"}, Effects: 1, References: []string{"incident 32"},
			Run: func(s *Stage) {
				c := s.Call(0)
				s.Propose(c)
				s.Tamper()
				s.ReviewTwice(c)
				m := s.Collect(c)
				s.Dispatch(m)
				s.Dispatch(m)
			},
		},
		{
			Name:    "crash_before_the_send_and_two_workers_dispatch_again",
			Summary: "the gateway crashes after it spent the approval and before the send; later two workers dispatch again, and both pass the checks before either consumes",
			Uses:    []Capability{UseFault, UseDelay}, Stopped: stopped("once | idem & @idempotent"),
			Success: []string{"spent", "none"}, References: []string{"incident 80"},
			Run: func(s *Stage) {
				m := s.Ask(s.Call(0))
				s.Tamper()
				s.Crash(api.StepConsumed, m)
				s.Wait(5 * time.Minute)
				s.Race(m, 2)
			},
		},
		{
			Name:    "crash_after_the_send_and_dispatched_again_when_keys_are_forgotten",
			Summary: "the gateway crashes after the send and before it records the outcome; the worker dispatches again when the provider keeps the key no more",
			Uses:    []Capability{UseFault, UseDelay}, Stopped: stopped("expiry | once | idem"),
			Success: []string{"spent", "none"}, Effects: 1, References: []string{"incident 21", keysForgotten},
			Run: func(s *Stage) {
				m := s.Ask(s.Call(0))
				s.Tamper()
				s.Crash(api.StepSent, m)
				s.Wait(25 * time.Hour)
				s.Dispatch(m)
			},
		},
		{
			Name:    "gates_answer_lost_and_dispatched_again_when_keys_are_forgotten",
			Summary: "the gate's answer is lost on its way to the worker, and the worker dispatches again when the provider keeps the key no more",
			Uses:    []Capability{UseNet, UseDelay}, Stopped: stopped("expiry | seen | once"),
			Success: []string{"spent", "none"}, Effects: 1, References: []string{keysForgotten},
			Run: func(s *Stage) {
				m := s.Ask(s.Call(0))
				s.Tamper()
				s.DispatchInto(m)
				s.Wait(25 * time.Hour)
				s.Dispatch(m)
			},
		},
		{
			Name:    "proposed_again_because_it_probably_failed",
			Summary: "the gateway crashes after the send and before it records the outcome; the agent takes the call for failed, makes it again in its next step, and presents the approval it has",
			Uses:    []Capability{UseFault, UseText}, Stopped: stopped("call | suspension | once | idem & (@idempotent | @none)"),
			AlsoNamed: []api.Binding{api.BindRecord},
			Success:   []string{"spent", "none"}, Effects: 1,
			Run: func(s *Stage) {
				first := s.Ask(s.Call(0))
				s.Tamper()
				s.Crash(api.StepSent, first)
				next := s.Call(0).In(firstRun, "step-2", "call-2")
				s.Propose(next)
				s.Dispatch(s.Collect(next).With(func(d *api.Dispatch) { d.Carried = first.Dispatch.Carried }))
			},
		},
		{
			Name:    "finished_call_runs_again_when_its_step_is_resumed",
			Summary: "a step has made one call and waits for the approval of a second; when it is resumed it runs from its beginning and makes the first again",
			Uses:    []Capability{UseQueue}, Stopped: stopped("percall & (args | call | suspension | seen | once | sender | idem & @idempotent)"),
			AlsoNamed: []api.Binding{api.BindRecord},
			Success:   []string{"spent", "none"}, Effects: 2, References: []string{"incident 14"},
			Run: func(s *Stage) {
				first, second := s.Call(0), s.Call(1).In(firstRun, "step-1", "call-2")
				s.Propose(first)
				s.Propose(second)
				s.Review(first)
				s.Dispatch(s.Collect(first))
				s.Review(second)
				s.Tamper()
				s.Dispatch(s.Collect(second).With(func(d *api.Dispatch) { d.Siblings = []api.Action{first.Action} }))
			},
		},
		{
			Name:    "request_still_under_way_when_it_is_looked_up_and_sent_again",
			Summary: "the network keeps the request and breaks the connection; the call is sent again, by the executor or by the worker when it may be, and then the first request arrives",
			Uses:    []Capability{UseNet}, Stopped: stopped("idem"),
			Success: []string{"spent", "none"}, Effects: 1,
			Run: func(s *Stage) {
				m := s.Ask(s.Call(0))
				s.Tamper()
				s.KeepRequest()
				s.DispatchUntilDone(m)
				s.DeliverKept()
			},
		},
		{
			Name:    "owner_pauses_past_its_lease_and_sends_after_another_did",
			Summary: "the gateway spends the approval and stands still for longer than it may; another instance takes the call over and makes it; then the first goes on",
			Uses:    []Capability{UseDelay}, Stopped: stopped("once | idem"),
			Success: []string{"spent", "none"}, Effects: 1,
			Run: func(s *Stage) {
				m := s.Ask(s.Call(0))
				other := s.Second()
				s.Tamper()
				s.During(api.StepConsumed, func() {
					s.Wait(longerThanAnyLease)
					s.DispatchAt(other, m)
				})
				s.Dispatch(m)
			},
		},
		{
			Name:    "run_wide_call_dispatched_again_after_a_crash_behind_the_send",
			Summary: "two equal calls of a run are approved, with a use to spare where that is one opt-in; the gateway crashes after the send of the second and before it records the outcome, and the worker dispatches again",
			Uses:    []Capability{UseFault}, Stopped: stopped("once | idem"),
			Success: []string{"spent", "none"}, Effects: 2, References: []string{"incident 21", "incident 62"},
			Run: func(s *Stage) {
				_, m, _ := s.secondOf(3)
				s.Tamper()
				s.Crash(api.StepSent, m)
				s.Wait(5 * time.Minute)
				s.Dispatch(m)
			},
		},
	},
	Twins: []Variant{
		{
			Name:    "run_wide_call_sent_again_after_a_refused_connection",
			Summary: "two equal calls of a run are approved, at one opt-in where that is offered; the connection of the second is refused, and the retry makes its effect",
			Effects: 2, References: []string{"incident 62"},
			Run: func(s *Stage) {
				_, m, _ := s.secondOf(2)
				s.Lose(provider.FaultNotSent)
				s.Dispatch(m)
			},
		},
		{
			Name:    "sent_again_after_a_refused_connection",
			Summary: "the first connection is refused, so nothing was sent; the retry makes the one effect",
			Effects: 1,
			Run: func(s *Stage) {
				m := s.Ask(s.Call(0))
				s.Lose(provider.FaultNotSent)
				s.Dispatch(m)
			},
		},
		{
			Name:    "sent_again_after_a_lost_request",
			Summary: "the request is lost on its way to the provider; the retry makes the one effect, at once or when the first can arrive no more",
			Effects: 1,
			Unless: func(sc *scenarios.Scenario) string {
				if t, _ := sc.Tool(sc.HonestTool); t.Guarantee == api.GuaranteeNone {
					return "nobody can tell a lost request from a lost answer: the provider's guarantee is " + string(t.Guarantee)
				}
				return ""
			},
			Run: func(s *Stage) {
				m := s.Ask(s.Call(0))
				s.Lose(provider.FaultDropRequest)
				s.DispatchUntilDone(m)
			},
		},
		{
			Name:    "provider_slow_but_alive",
			Summary: "the provider takes four seconds, and answers",
			Effects: 1,
			Run: func(s *Stage) {
				m := s.Ask(s.Call(0))
				s.Slow(4 * time.Second)
				s.Dispatch(m)
			},
		},
	},
})

const keysForgotten = "docs.stripe.com/api/idempotent_requests: keys may be removed after 24 hours"

// longerThanAnyLease is how long a worker waits that is told that its call may still
// be on its way.
const longerThanAnyLease = 5 * time.Minute

// DispatchUntilDone presents a message, and once more, later, when it is held.
func (s *Stage) DispatchUntilDone(m Message) {
	if o := s.Dispatch(m); o.Status == api.Held {
		s.Wait(longerThanAnyLease)
		s.Dispatch(m)
	}
}

// A network may keep requests on their way to the service.
type network struct {
	keep int
	kept []api.ProviderRequest
}

func (n *network) keeps(r api.ProviderRequest) bool {
	if n.keep == 0 {
		return false
	}
	n.keep--
	n.kept = append(n.kept, r)
	return true
}

// KeepRequest lets the next request to the service hang in the network; whoever sent
// it gets no answer.
func (s *Stage) KeepRequest() {
	s.network.keep++
	s.happened(theNetwork, "will keep the next request on its way to the service")
}

// DeliverKept lets what hangs in the network arrive. Nobody waits for the answers;
// what the service made of it is the answer to the adversary's step.
func (s *Stage) DeliverKept() {
	kept := slices.Clone(s.network.kept)
	s.network.kept = nil
	s.happened(theNetwork, "delivers what it kept")
	for _, r := range kept {
		res, err := watched{s.world, s}.Execute(context.WithoutCancel(s.ctx), r)
		var pe *api.ProviderError
		switch {
		case err == nil && res.Replayed:
			s.answer(Answer{Status: api.Absorbed, Provider: "replayed"})
		case err == nil:
			s.answer(Answer{Status: api.Executed, Provider: "done"})
		case errors.As(err, &pe) && pe.Code == "late":
			s.answer(Answer{Status: api.Refused, Provider: pe.Code})
		default:
			panic(stop{err})
		}
	}
}

// Slow makes the next call of the provider take its time.
func (s *Stage) Slow(d time.Duration) {
	s.must(s.world.Inject(provider.Fault{Kind: provider.FaultDelay, Delay: d}))
	s.happened(theNetwork, "will delay the next call by %s", duration(d))
}
