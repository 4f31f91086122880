package attacks

import (
	"encoding/json"

	"countersign/gateway/api"
	"countersign/oracles/softkey"
)

// AB8: nobody approved, and the request says somebody did.
var _ = family(Family{
	ID: "AB8", Title: "forged resume", Main: api.BindRecord,
	Variants: append([]Variant{
		{
			Name:    "resume_body_says_approved",
			Summary: "the worker resumes an undecided call with a flag, a guessed approval id and an unsigned permit",
			Uses:    []Capability{UseQueue}, Stopped: stopped("record | signed | attest | challenge | duties"),
			Success: []string{"none"}, References: []string{"incident 1", "incident 2", "incident 42", "RFC 8725 section 2.1"},
			Run: func(s *Stage) {
				c := s.Call(0)
				s.Propose(c)
				s.Tamper()
				s.Dispatch(s.Collect(c).With(func(d *api.Dispatch) {
					d.Carried = api.Carried{Approved: true, Approval: "00000000000000000000000000000001", Permit: s.forgedPermit(c, false)}
				}))
			},
		},
		{
			Name:    "unsigned_permit_with_another_calls_assertion",
			Summary: "an undecided call is resumed with an unsigned permit and the genuine assertion for another agent's call",
			Uses:    []Capability{UseQueue}, Stopped: stopped("record | signed | challenge"),
			Success: []string{"none", "content", "origin"}, References: []string{"incident 73", "RFC 8725 section 2.1"},
			Run: func(s *Stage) { s.resumeWithStolenAssertion(false) },
		},
		{
			Name:    "permit_signed_with_the_forgers_key",
			Summary: "an undecided call is resumed with a permit under the forger's own key and the genuine assertion for another agent's call",
			Uses:    []Capability{UseQueue}, Stopped: stopped("record | signed | challenge"),
			Success: []string{"none", "content", "origin"}, References: []string{"incident 25"},
			Run: func(s *Stage) { s.resumeWithStolenAssertion(true) },
		},
		{
			Name:    "executor_called_directly",
			Summary: "the agent calls the provider itself, with the credential it was given",
			Uses:    []Capability{UseClient}, Stopped: stopped("mediated"),
			Success: []string{"none"}, References: []string{"incident 25", "incident 9"},
			Run: func(s *Stage) {
				s.Tamper()
				s.Direct(s.Call(0))
			},
		},
		{
			Name:    "real_call_declared_a_dry_run",
			Summary: "a real call says of itself that it is a dry run, and the provider executes it",
			Uses:    []Capability{UseClient}, Stopped: stopped("mediated"),
			Success: []string{"none"},
			Run:     func(s *Stage) { s.declared(api.Hints{DryRun: true}) },
		},
		{
			Name:    "consequential_call_declared_read_only",
			Summary: "a consequential call says of itself that it only reads",
			Uses:    []Capability{UseClient}, Stopped: stopped("mediated"),
			Success: []string{"none"}, References: []string{"incident 9"},
			Run: func(s *Stage) { s.declared(api.Hints{ReadOnly: true}) },
		},
	}, forgedAssertions()...),
	Twins: []Variant{{
		Name:    "honest_resume_after_a_restart",
		Summary: "the gateway is restarted between approval and dispatch",
		Effects: 1,
		Run: func(s *Stage) {
			m := s.Ask(s.Call(0))
			s.Restart()
			s.Dispatch(m)
		},
	}},
})

// resumeWithStolenAssertion takes what another agent's approved call carries and
// replaces the permit.
func (s *Stage) resumeWithStolenAssertion(signed bool) {
	other := s.Call(1).By(s.agents[agentX]).In("run-2", "step-1", "call-1")
	stolen := s.Ask(other)
	c := s.Call(0)
	s.Propose(c)
	s.Tamper()
	s.Dispatch(s.Collect(c).With(func(d *api.Dispatch) {
		d.Carried = api.Carried{
			Approved: true, Approval: "00000000000000000000000000000001",
			Permit: s.forgedPermit(c, signed), Assertion: stolen.Dispatch.Carried.Assertion,
		}
	}))
}

func (s *Stage) declared(h api.Hints) {
	c := s.Call(0)
	s.Tamper()
	c.Action.Hints = h
	s.Dispatch(Message{Agent: c.Agent, Dispatch: api.Dispatch{Action: c.Action}})
}

// forgedAssertions are decisions that an agent posts in an approver's name, with
// an assertion that is valid except for one thing.
func forgedAssertions() []Variant {
	one, zero := uint32(1), uint32(0)
	var out []Variant
	for _, f := range []struct {
		name, summary, condition string
		forgery                  softkey.Forgery
		refs                     []string
	}{
		{"challenge_is_another_one", "an assertion over another challenge", "attest | duties | challenge",
			softkey.Forgery{Challenge: []byte("another challenge of thirty-two b")}, []string{"incident 76"}},
		{"origin_has_another_scheme", "an assertion from the http page of the same host", "attest | duties",
			softkey.Forgery{Origin: "http://approve.example"}, []string{"incident 72"}},
		{"origin_has_another_port", "an assertion from another port of the same host", "attest | duties",
			softkey.Forgery{Origin: "https://approve.example:8443"}, []string{"incident 72"}},
		{"origin_is_a_subdomain", "an assertion from a subdomain", "attest | duties",
			softkey.Forgery{Origin: "https://evil.approve.example"}, []string{"incident 72"}},
		{"origin_ends_in_a_dot", "an assertion from the host with a trailing dot", "attest | duties",
			softkey.Forgery{Origin: "https://approve.example."}, []string{"incident 72"}},
		{"relying_party_is_another_one", "an assertion for another relying party id", "attest | duties",
			softkey.Forgery{RPID: "other.example"}, []string{"incident 73"}},
		{"user_was_not_present", "an assertion with the UP flag clear", "attest | duties", softkey.Forgery{ClearUP: true}, nil},
		{"user_was_not_verified", "an assertion with the UV flag clear", "attest | duties", softkey.Forgery{ClearUV: true}, []string{"incident 77"}},
		{"ceremony_was_a_registration", "client data of type webauthn.create", "attest | duties", softkey.Forgery{Type: "webauthn.create"}, nil},
		{"page_was_framed_by_another_origin", "client data that say cross-origin", "attest | duties", softkey.Forgery{CrossOrigin: true}, nil},
		{"credential_was_never_registered", "an assertion by a credential that nobody enrolled", "attest | duties", softkey.Forgery{UnregisteredKey: true}, nil},
		{"signed_with_another_key", "an assertion of an enrolled credential, signed with another key", "attest | duties", softkey.Forgery{OtherKey: true}, nil},
		{"authenticator_data_altered_after_signing", "an assertion whose authenticator data were changed afterwards", "attest | duties", softkey.Forgery{AlterAfterSigning: true}, nil},
		{"counter_went_backwards", "an assertion whose counter is lower than the last one", "attest | duties", softkey.Forgery{Counter: &one}, []string{"incident 75", "incident 77"}},
		{"counter_fell_to_zero", "an assertion whose counter is zero after it was not", "attest | duties", softkey.Forgery{Counter: &zero}, []string{"incident 75"}},
	} {
		out = append(out, Variant{
			Name: "assertion_" + f.name, Summary: "an agent posts a decision with " + f.summary,
			Uses: []Capability{UseClient}, Stopped: stopped(f.condition),
			Success: []string{"who", "none"}, References: f.refs,
			Run: func(s *Stage) { s.decideWithForgery(f.forgery) },
		})
	}
	return out
}

func (s *Stage) decideWithForgery(f softkey.Forgery) {
	// The approver's passkey has been in use, so that its counter is not zero.
	for n := 1; n <= 2; n++ {
		earlier := s.Call(n).In("run-0", "step-1", "call-1").By(s.agents[agentX])
		earlier.Action.Run += string(rune('a' + n))
		s.Propose(earlier)
		s.Review(earlier)
	}
	c := s.Call(0)
	s.Propose(c)
	s.Tamper()
	if c.State == api.StatePending {
		view, err := s.target.View(s.ctx, auth(approver), c.Suspension)
		s.must(err)
		d := api.Decision{Suspension: c.Suspension, Verdict: api.Approve}
		if len(view.Assertion) > 0 {
			d.Assertion, err = s.person(approver).key.Forge(json.RawMessage(view.Assertion), f)
			s.must(err)
		}
		s.Decide(c, c.Agent.ID, api.View{}, d)
	}
	s.Dispatch(s.Collect(c))
}
