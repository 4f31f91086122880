package attacks

import (
	"encoding/json"
	"fmt"
	"slices"

	"countersign/gateway/api"
	"countersign/oracles/softkey"
)

// AB8: nobody approved, and the request says somebody did.
var _ = family(Family{
	ID: "AB8", Title: "forged resume", Main: api.BindRecord,
	Variants: slices.Concat([]Variant{
		undecided("resume_body_says_approved",
			"the worker resumes an undecided call with a flag, a guessed approval id and an unsigned permit",
			"", []string{"incident 1", "incident 42", "RFC 8725 section 2.1"},
			func(s *Stage, c *Call) { s.Dispatch(s.claimed(c)) }),
		{
			Name:    "history_holds_a_request_and_an_approval_that_never_were",
			Summary: "the resume body brings the request and its approval along, for a call that the gate never suspended",
			Uses:    []Capability{UseQueue}, Stopped: stopped(noDecision + " | suspension"),
			Success: []string{"none"}, References: []string{"incident 1"},
			Run: func(s *Stage) {
				s.Tamper()
				s.Dispatch(s.claimed(s.Call(0)))
			},
		},
		undecided("forged_resume_at_every_entry",
			"the same forged body is presented at the instance that was asked, at a second instance, and after a restart",
			"", []string{"incident 2"},
			func(s *Stage, c *Call) {
				m := s.claimed(c)
				s.Dispatch(m)
				s.DispatchAt(s.Second(), m)
				s.Restart()
				s.Dispatch(m)
			}),
		undecided("forged_resume_beside_a_read",
			"the undecided call rides on a call that only reads and needs no approval, so that another path executes it",
			"", []string{"incident 2", "incident 9"},
			func(s *Stage, c *Call) {
				m := s.claimed(c)
				s.Dispatch(m.With(func(d *api.Dispatch) {
					d.Action.Tool, d.Siblings = s.readTool(), []api.Action{c.Action}
				}))
			}),
		undecided("approval_id_is_the_suspensions_own",
			"the forged body names as its approval the one thing that the worker knows of it: the suspension",
			"", nil,
			func(s *Stage, c *Call) {
				s.Dispatch(s.claimed(c).With(func(d *api.Dispatch) { d.Carried.Approval = c.Suspension }))
			}),
		undecided("approved_flag_among_the_arguments",
			"the arguments themselves say human_approved, and so does the resume body",
			" | strict", []string{"incident 42"},
			func(s *Stage, c *Call) {
				c.Action.Arguments = c.Args().With("human_approved", json.RawMessage("true")).Text()
				s.Dispatch(s.claimed(c))
			}),
		undecided("run_wide_approval_claimed_by_call_and_body",
			"the arguments say that the call is one of many which are approved for the run, and the resume body brings a permit for the run along",
			" | strict | suspension", []string{"incident 42", "incident 62"},
			func(s *Stage, c *Call) {
				s.BoundRunWide(c, runWideBounds)
				c.Action.Arguments = c.Args().With("run_wide", json.RawMessage(`{"uses":9}`)).Text()
				s.Dispatch(s.widened(s.claimed(c)))
			}),
		undecided("looked_at_and_never_decided",
			"every address that only reads is called for an undecided call, as a scanner of mails does, and the worker resumes it",
			"", []string{"incident 38"},
			func(s *Stage, c *Call) {
				s.lookAround(c)
				s.Dispatch(s.claimed(c))
			}),
		stolen("unsigned_permit_with_another_calls_assertion", "an unsigned permit",
			[]string{"incident 73", "RFC 8725 section 2.1"},
			func(s *Stage, c *Call, _ Message) string { return s.forgedPermit(c, unsigned) }),
		stolen("permit_signed_with_the_forgers_key", "a permit under the forger's own key",
			[]string{"incident 25"},
			func(s *Stage, c *Call, _ Message) string { return s.forgedPermit(c, forgersKey) }),
		stolen("permit_that_brings_the_forgers_key", "a permit under the forger's own key, which is in its header",
			[]string{"RFC 7515 section 4.1.3", "RFC 8725 section 3.10"},
			func(s *Stage, c *Call, _ Message) string { return s.forgedPermit(c, embeddedKey) }),
		stolen("permit_under_another_algorithm_and_a_secret_of_zeros", "a permit under HMAC, keyed with zeros, as where a key was never set",
			[]string{"RFC 8725 section 2.1", "RFC 8725 section 3.1"},
			func(s *Stage, c *Call, _ Message) string { return s.forgedPermit(c, knownSecret) }),
		stolen("permit_under_hmac_keyed_with_the_published_public_key", "a permit under HMAC, keyed with the text of the public key that verifies genuine ones",
			[]string{"RFC 8725 section 2.1", "RFC 8725 section 3.1"},
			func(s *Stage, c *Call, _ Message) string { return s.forgedPermit(c, confusedKey) }),
		stolen("genuine_permit_with_every_claim_edited", "that call's genuine permit, its claims edited and its signature kept",
			[]string{"RFC 8725 section 3.1"},
			func(s *Stage, c *Call, other Message) string {
				edited, err := editPermit(other.Dispatch.Carried.Permit, s.forgedClaims(c))
				s.must(err)
				return edited
			}),
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
	}, forgedAssertions(), reusedAssertions()),
	Twins: []Variant{{
		Name:    "honest_resume_after_a_restart",
		Summary: "the gateway is restarted between approval and dispatch",
		Effects: 1,
		Run: func(s *Stage) {
			m := s.Ask(s.Call(0))
			s.Restart()
			s.Dispatch(m)
		},
	}, {
		Name:    "carried_object_rebuilt_from_its_known_members",
		Summary: "the client keeps what it carries as it knows it: decoded, its documented members copied, and written anew",
		Effects: 1, References: []string{"incident 3"},
		Run: func(s *Stage) {
			m := s.Ask(s.Call(0))
			s.Dispatch(m.With(func(d *api.Dispatch) { d.Carried = s.rebuilt(d.Carried) }))
		},
	}, {
		Name:    "looked_at_many_times_before_the_decision",
		Summary: "every address that only reads is called before and after the decision, and the decision stands",
		Effects: 1, References: []string{"incident 38"},
		Run: func(s *Stage) {
			c := s.Call(0)
			s.Propose(c)
			s.lookAround(c)
			s.Review(c)
			s.lookAround(c)
			s.Dispatch(s.Collect(c))
		},
	}},
})

// noDecision stops a resume for which nobody decided anything, when everything in
// it is forged as well as it can be: what wants a genuine decision refuses.
const noDecision = "record | signed | attest | challenge | duties"

// undecided is a call that was proposed and on which nobody decided. also is what
// stops this variant beside noDecision.
func undecided(name, summary, also string, refs []string, resume func(s *Stage, c *Call)) Variant {
	return Variant{
		Name: name, Summary: summary, Uses: []Capability{UseQueue, UseClient}, Stopped: stopped(noDecision + also),
		Success: []string{"none"}, References: refs,
		Run: func(s *Stage) {
			c := s.Call(0)
			s.Propose(c)
			s.Tamper()
			resume(s, c)
		},
	}
}

// claimed is a message that claims everything a gate could ask for, all of it
// made up.
func (s *Stage) claimed(c *Call) Message {
	return Message{Agent: c.Agent, Dispatch: api.Dispatch{Action: c.Action, Carried: api.Carried{
		Approved: true, Approval: guessedApproval, Permit: s.forgedPermit(c, unsigned),
	}}}
}

const guessedApproval = "00000000000000000000000000000001"

// readTool is a tool of the scenario that changes nothing.
func (s *Stage) readTool() string {
	for _, t := range s.History.Tools {
		if t.Audience == s.Scenario.Audience && t.Class == api.ClassRead {
			return t.Name
		}
	}
	panic(stop{fmt.Errorf("scenario %s has no tool that only reads", s.Scenario.ID)})
}

// lookAround calls everything that is only there to be read.
func (s *Stage) lookAround(c *Call) {
	_, err := s.target.Describe(s.ctx)
	s.must(err)
	_, err = s.target.Preview(s.ctx, api.Auth{Token: c.Agent.token}, c.Action)
	s.must(err)
	_, err = s.target.Audit(s.ctx, api.Auth{Token: auditorToken}, 0)
	s.must(err)
	if c.State == api.StatePending {
		s.person(approver)
		for range 3 {
			_, err = s.target.View(s.ctx, auth(approver), c.Suspension)
			s.must(err)
			_, err = s.target.Status(s.ctx, api.Auth{Token: c.Agent.token}, c.Suspension)
			s.must(err)
		}
	}
	s.happened(theNetwork, "fetches every address that only reads")
}

// rebuilt is an object as a client writes it that knows the documented members:
// other order, other white space, the same members.
func (s *Stage) rebuilt(c api.Carried) (out api.Carried) {
	text, err := json.Marshal(c)
	s.must(err)
	var members map[string]any
	s.must(json.Unmarshal(text, &members))
	copied := map[string]any{}
	for _, name := range []string{"permit", "assertion", "approved", "approval"} {
		if v, ok := members[name]; ok {
			copied[name] = v
		}
	}
	text, err = json.MarshalIndent(copied, "", "    ")
	s.must(err)
	s.must(json.Unmarshal(text, &out))
	return out
}

// stolen is an undecided call, resumed with a permit that the forger made and the
// genuine assertion for another agent's call.
func stolen(name, permit string, refs []string, forge func(s *Stage, c *Call, other Message) string) Variant {
	return Variant{
		Name: name, Summary: "an undecided call is resumed with the genuine assertion for another agent's call and " + permit,
		Uses: []Capability{UseQueue}, Stopped: stopped("record | signed | challenge"),
		Success: []string{"none", "content", "origin"}, References: refs,
		Run: func(s *Stage) {
			other := s.Ask(s.Call(1).By(s.agents[agentX]).In("run-2", "step-1", "call-1"))
			c := s.Call(0)
			s.Propose(c)
			s.Tamper()
			s.Dispatch(s.Collect(c).With(func(d *api.Dispatch) {
				d.Carried = api.Carried{
					Approved: true, Approval: guessedApproval, Permit: forge(s, c, other), Assertion: other.Dispatch.Carried.Assertion,
				}
			}))
		},
	}
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
		{"origin_has_a_user_part", "an assertion from an address in which the host follows a user", "attest | duties",
			softkey.Forgery{Origin: "https://user@approve.example"}, []string{"incident 72"}},
		{"origin_has_the_host_as_its_user_part", "an assertion from another host, behind a user that reads like the right one", "attest | duties",
			softkey.Forgery{Origin: "https://approve.example@evil.example"}, []string{"incident 72"}},
		{"origin_is_in_capitals", "an assertion from an origin that no browser writes, in capitals", "attest | duties",
			softkey.Forgery{Origin: "https://APPROVE.example"}, []string{"incident 72"}},
		{"ceremony_was_a_registration", "client data of type webauthn.create", "attest | duties", softkey.Forgery{Type: "webauthn.create"}, nil},
		{"page_was_framed_by_another_origin", "client data that say cross-origin", "attest | duties", softkey.Forgery{CrossOrigin: true}, nil},
		{"page_names_a_top_origin", "client data that name the origin of a framing page", "attest | duties",
			softkey.Forgery{TopOrigin: "https://evil.example"}, nil},
		{"user_handle_is_another_persons", "an assertion that says it is by another person", "attest | duties",
			softkey.Forgery{UserHandle: []byte(requester)}, []string{"incident 40"}},
		{"backed_up_without_being_eligible", "an assertion whose backup flags contradict each other", "attest | duties",
			softkey.Forgery{BackupState: true}, nil},
		{"authenticator_data_too_long", "an assertion whose authenticator data go on after their end", "attest | duties",
			softkey.Forgery{ExtraAuthData: []byte{0}}, nil},
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

// decideWithForgery posts a decision with an assertion that f spoils.
func (s *Stage) decideWithForgery(f softkey.Forgery) {
	// The approver's passkey has been in use, so that its counter is not zero.
	for n := 1; n <= 2; n++ {
		s.reviewedAssertion(n)
	}
	s.decideInTheApproversName(func(view api.View) json.RawMessage {
		forged, err := s.person(approver).key.Forge(view.Assertion, f)
		s.must(err)
		return forged
	})
}

// reviewedAssertion has another agent's call approved, and returns the approver's
// assertion.
func (s *Stage) reviewedAssertion(n int) json.RawMessage {
	earlier := s.Call(n).In(fmt.Sprintf("run-0%c", 'a'+n), "step-1", "call-1").By(s.agents[agentX])
	s.Propose(earlier)
	s.Review(earlier)
	return s.asserted
}

// decideInTheApproversName has the agent approve its own call, with an assertion
// where the view asks for one.
func (s *Stage) decideInTheApproversName(assertion func(view api.View) json.RawMessage) {
	c := s.Call(0)
	s.Propose(c)
	s.Tamper()
	if c.State == api.StatePending {
		view, err := s.target.View(s.ctx, auth(approver), c.Suspension)
		s.must(err)
		d := api.Decision{Suspension: c.Suspension, Verdict: api.Approve}
		if len(view.Assertion) > 0 {
			d.Assertion = assertion(view)
		}
		s.Decide(c, c.Agent.ID, api.View{}, d)
	}
	s.Dispatch(s.Collect(c))
}

// reusedAssertions are decisions that an agent posts with an assertion which the
// approver gave for something else.
func reusedAssertions() []Variant {
	variant := func(name, summary string, refs []string, change func(s *Stage, old json.RawMessage, view api.View) json.RawMessage) Variant {
		return Variant{
			Name: name, Summary: summary, Uses: []Capability{UseClient}, Stopped: stopped("attest | duties | challenge"),
			Success: []string{"who", "none"}, References: refs,
			Run: func(s *Stage) {
				old := s.reviewedAssertion(1)
				s.decideInTheApproversName(func(view api.View) json.RawMessage { return change(s, old, view) })
			},
		}
	}
	return []Variant{
		{
			Name:    "run_wide_opt_in_posted_with_the_assertion_for_one_call",
			Summary: "an agent posts a decision for its whole run, where that is offered, with the assertion that the approver gave for one call",
			Uses:    []Capability{UseClient}, Stopped: stopped("attest | duties | challenge"),
			Success: []string{"who", "none"}, References: []string{"incident 62", "incident 77"},
			Run: func(s *Stage) {
				old := s.reviewedAssertion(1)
				c := s.Call(0)
				s.BoundRunWide(c, runWideBounds)
				s.Propose(c)
				d := api.Decision{Suspension: c.Suspension, Verdict: api.Approve, Assertion: old}
				if s.offered(c, approver) {
					terms := s.terms(9)
					d.RunWide = &terms
				}
				s.Tamper()
				if c.State == api.StatePending {
					s.Decide(c, c.Agent.ID, api.View{}, d)
				}
				s.Dispatch(s.Collect(c))
			},
		},
		variant("assertion_was_given_for_another_call", "an agent posts a decision with the assertion that the approver gave for another call",
			[]string{"incident 77"}, func(_ *Stage, old json.RawMessage, _ api.View) json.RawMessage { return old }),
		variant("assertion_for_another_call_beside_the_challenge_asked_for",
			"an agent posts the assertion that the approver gave for another call, with the challenge of this one as a further member",
			[]string{"incident 73"}, func(s *Stage, old json.RawMessage, view api.View) json.RawMessage {
				var options struct {
					PublicKey struct {
						Challenge json.RawMessage `json:"challenge"`
					} `json:"publicKey"`
				}
				s.must(json.Unmarshal(view.Assertion, &options))
				var a map[string]json.RawMessage
				s.must(json.Unmarshal(old, &a))
				a["challenge"] = options.PublicKey.Challenge
				text, err := json.Marshal(a)
				s.must(err)
				return text
			}),
	}
}
