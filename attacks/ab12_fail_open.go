package attacks

import "countersign/gateway/api"

// AB12: something the gate depends on does not answer, and the gate goes on.
var _ = family(Family{
	ID: "AB12", Title: "fail-open", Main: api.BindClosed,
	Variants: []Variant{
		outage("approval_store_down_at_dispatch", "the approval store does not answer when the call is dispatched", api.DepStore,
			"closed | record | suspension | once | online | idem"),
		outage("audit_log_unwritable_at_dispatch", "the audit log cannot be written when the call is dispatched", api.DepAudit, "closed"),
		outage("policy_unreachable_at_dispatch", "the policy does not answer when the call is dispatched", api.DepPolicy, "closed | online"),
		outage("clock_missing_at_dispatch", "the deployment's clock does not answer when the call is dispatched", api.DepClock,
			"closed | expiry | sender"),
		{
			Name:    "approval_store_lost_between_check_and_consume",
			Summary: "the approval store stops answering after the checks and before the consumption",
			Uses:    []Capability{UseFault}, Stopped: stopped("closed | once | idem | online"),
			Success: []string{"unverifiable:store", "none"},
			Run: func(s *Stage) {
				m := s.Ask(s.Call(0))
				s.Tamper()
				s.During(api.StepChecked, func() { s.Down(api.DepStore) })
				s.Dispatch(m)
			},
		},
	},
	Twins: []Variant{{
		Name:    "dispatched_after_the_outage",
		Summary: "store, policy and audit were down while the call waited, and are back when it is dispatched",
		Effects: 1,
		Run: func(s *Stage) {
			m := s.Ask(s.Call(0))
			for _, dep := range []api.Dependency{api.DepStore, api.DepPolicy, api.DepAudit, api.DepClock} {
				s.Down(dep)
			}
			for _, dep := range []api.Dependency{api.DepStore, api.DepPolicy, api.DepAudit, api.DepClock} {
				s.Up(dep)
			}
			s.Dispatch(m)
		},
	}},
})

func outage(name, summary string, dep api.Dependency, condition string) Variant {
	uses := UseFault
	if dep == api.DepClock {
		uses = UseClock
	}
	return Variant{
		Name: name, Summary: summary, Uses: []Capability{uses}, Stopped: stopped(condition),
		Success: []string{"unverifiable:" + string(dep), "none"},
		Run: func(s *Stage) {
			m := s.Ask(s.Call(0))
			s.Tamper()
			s.Down(dep)
			s.Dispatch(m)
		},
	}
}
