package referee_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/attacks/referee"
	"countersign/gateway/api"
)

var start = time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)

func raw(s string) json.RawMessage { return json.RawMessage(s) }

// history is the smallest story with an authorised effect: an agent asks for a
// payment on behalf of a person, somebody else approves what a view shows, and
// the payment is made a second later.
func history() referee.History {
	pay := api.Tool{
		Audience: "bank", Name: "pay", Title: "Pay", Class: api.ClassConsequential,
		Fields: []api.Field{
			{Name: "amount", Type: api.TypeInteger, Material: true},
			{Name: "supplier", Type: api.TypeString, Material: true, Reference: "supplier"},
			{Name: "colour", Type: api.TypeString},
		},
	}
	other, read, sibling := pay, pay, pay
	other.Name = "refund"
	read.Name, read.Class = "balance", api.ClassRead
	sibling.Audience = "bank-test"
	values := api.Values{
		"/amount": raw("1200"), "/supplier": raw(`"sup-1"`), "/supplier>account": raw(`"DE02"`), "/colour": raw(`"red"`),
	}
	return referee.History{
		Tools: []api.Tool{pay, other, read, sibling},
		People: map[string]referee.Person{
			"agent": {ActsFor: "asker"}, "asker": {Approver: true}, "approver": {Approver: true},
			"deputy": {ActsFor: "asker", Approver: true}, "guest": {}, "helper": {ActsFor: "approver", Approver: true},
		},
		Reviews: []referee.Review{{
			Tick: 10, Time: start, Approver: "approver", Verdict: api.Approve, Suspension: "sus-1",
			View: api.View{Fields: []api.ViewField{
				{Path: "#audience", Text: "bank"},
				{Path: "/amount", Text: "1200"}, {Path: "/supplier", Text: "sup-1"}, {Path: "/supplier>account", Text: "DE02"},
			}},
			Agent: "agent", Requester: "asker", Run: "run-1", Step: "step-1", Call: "call-1",
			Audience: "bank", Tool: "pay", Values: values, Expires: start.Add(15 * time.Minute), Policy: "policy-1", Risk: "high",
		}},
		Dispatches: []referee.Dispatch{{
			RequestID: "req-1", Entered: 20, Time: start.Add(time.Second), Agent: "agent", Run: "run-1", Step: "step-1", Call: "call-1", Suspension: "sus-1",
		}},
		Effects: []referee.Effect{{
			Tick: 30, Time: start.Add(time.Second), RequestID: "req-1", Audience: "bank", Tool: "pay", Values: maps.Clone(values),
		}},
	}
}

// again adds a second dispatch with an equal effect.
func again(h *referee.History) {
	d, e := h.Dispatches[0], h.Effects[0]
	d.RequestID, d.Entered = "req-2", 40
	e.RequestID, e.Tick = "req-2", 50
	h.Dispatches, h.Effects = append(h.Dispatches, d), append(h.Effects, e)
}

// also has somebody else approve the same suspension before.
func also(h *referee.History, approver string) {
	if _, known := h.People[approver]; !known {
		h.People[approver] = referee.Person{Approver: true}
	}
	r := h.Reviews[0]
	r.Approver, r.Tick = approver, 8
	h.Reviews = slices.Insert(h.Reviews, 0, r)
}

func change(h *referee.History, tick referee.Tick, after time.Duration, kind referee.ChangeKind, subject, value string) {
	h.Changes = append(h.Changes, referee.Change{Tick: tick, Time: start.Add(after), Kind: kind, Subject: subject, Value: value})
}

// TestReasons has one small history a reason, each beside a neighbour that differs
// in one thing and has none.
func TestReasons(t *testing.T) {
	for _, tt := range []struct {
		name      string
		with      func(*referee.History)
		want      string // reasons of the last effect
		neighbour func(*referee.History)
		rests     string // reasons of the neighbour's last effect
	}{
		{
			"another amount was executed", func(h *referee.History) { h.Effects[0].Values["/amount"] = raw("9900") }, "content:/amount shown:/amount",
			func(h *referee.History) { h.Effects[0].Values["/colour"] = raw(`"blue"`) }, "", // not material
		},
		{
			"a material value is missing", func(h *referee.History) { delete(h.Effects[0].Values, "/amount") }, "content:/amount",
			func(h *referee.History) { delete(h.Effects[0].Values, "/colour") }, "",
		},
		{
			"a reference came to mean something else", func(h *referee.History) { h.Effects[0].Values["/supplier>account"] = raw(`"GB99"`) },
			"content:/supplier>account shown:/supplier>account",
			func(h *referee.History) { h.Effects[0].Values["/supplie>account"] = raw(`"GB99"`) }, "", // of no field
		},
		{
			"another service executed it", func(h *referee.History) { h.Effects[0].Audience = "bank-test" }, "content:audience",
			func(h *referee.History) { h.Effects[0].Audience, h.Reviews[0].Audience = "bank-test", "bank-test" }, "",
		},
		{
			"another tool executed it", func(h *referee.History) { h.Effects[0].Tool = "refund" }, "content:tool",
			func(h *referee.History) { h.Effects[0].Tool, h.Reviews[0].Tool = "refund", "refund" }, "",
		},
		{
			"the view left a material value out", func(h *referee.History) { h.Reviews[0].View.Fields = h.Reviews[0].View.Fields[:3] }, "shown:/supplier>account",
			func(h *referee.History) { h.Reviews[0].View.Fields = h.Reviews[0].View.Fields[1:] }, "", // the service's line decides nothing
		},
		{
			"the view showed another value", func(h *referee.History) { h.Reviews[0].View.Fields[1].Text = "120" }, "shown:/amount",
			func(h *referee.History) { h.Reviews[0].View.Fields[1].Label = "Total" }, "",
		},
		{
			"the view showed two values for one", func(h *referee.History) {
				h.Reviews[0].View.Fields = append(h.Reviews[0].View.Fields, api.ViewField{Path: "/amount", Text: "1"})
			}, "shown:/amount",
			func(h *referee.History) {
				h.Reviews[0].View.Fields = append(h.Reviews[0].View.Fields, api.ViewField{Path: "/amount", Text: "1200"})
			}, "",
		},
		{
			"the agent approved", func(h *referee.History) { h.Reviews[0].Approver = "agent" }, "who:agent",
			func(h *referee.History) { h.Reviews[0].Approver = "helper" }, "", // delegate of somebody else
		},
		{
			"the requester approved", func(h *referee.History) { h.Reviews[0].Approver = "asker" }, "who:requester",
			func(h *referee.History) {
				h.Reviews[0].Approver, h.Reviews[0].Requester = "asker", "somebody"
				h.People["agent"] = referee.Person{ActsFor: "somebody"}
			}, "",
		},
		{
			"a delegate of a delegate approved", func(h *referee.History) {
				h.Reviews[0].Approver = "deputy-2"
				h.People["deputy-2"] = referee.Person{ActsFor: "deputy", Approver: true}
			}, "who:delegate",
			func(h *referee.History) {
				h.Reviews[0].Approver = "deputy-2"
				h.People["deputy-2"] = referee.Person{ActsFor: "helper", Approver: true}
			}, "",
		},
		{
			"the person approved whose delegate asked", func(h *referee.History) {
				h.Reviews[0].Approver, h.Reviews[0].Requester = "asker", "deputy"
				h.People["agent"] = referee.Person{ActsFor: "deputy"}
			}, "who:delegate",
			func(h *referee.History) {
				h.Reviews[0].Approver, h.Reviews[0].Requester = "asker", "helper"
				h.People["agent"] = referee.Person{ActsFor: "helper"}
			}, "",
		},
		{
			"a delegate of the requester approved", func(h *referee.History) { h.Reviews[0].Approver = "deputy" }, "who:delegate",
			func(h *referee.History) {
				h.Reviews[0].Approver = "deputy"
				h.People["deputy"] = referee.Person{ActsFor: "somebody", Approver: true}
			}, "",
		},
		{
			"a delegate of the agent approved", func(h *referee.History) {
				h.Reviews[0].Approver = "bot"
				h.People["bot"] = referee.Person{ActsFor: "agent", Approver: true}
			}, "who:delegate",
			func(h *referee.History) {
				h.Reviews[0].Approver = "bot"
				h.People["bot"] = referee.Person{ActsFor: "agent-2", Approver: true}
			}, "",
		},
		{
			"somebody approved who is in no set of approvers", func(h *referee.History) { h.Reviews[0].Approver = "guest" }, "who:not_approver",
			func(h *referee.History) {
				h.Reviews[0].Approver = "guest"
				h.People["guest"] = referee.Person{Approver: true}
			}, "",
		},
		{
			"somebody unknown approved", func(h *referee.History) { h.Reviews[0].Approver = "nobody" }, "who:unknown",
			func(h *referee.History) {
				h.Reviews[0].Approver = "nobody"
				h.People["nobody"] = referee.Person{Approver: true}
			}, "",
		},
		{
			"another agent dispatched", func(h *referee.History) { h.Dispatches[0].Agent = "agent-2" }, "origin:agent",
			func(h *referee.History) { h.Dispatches[0].Agent, h.Reviews[0].Agent = "agent-2", "agent-2" }, "",
		},
		{
			"another run, step and call", func(h *referee.History) {
				h.Dispatches[0].Run, h.Dispatches[0].Step, h.Dispatches[0].Call = "run-2", "step-2", "call-2"
			}, "origin:call origin:run origin:step",
			func(h *referee.History) { h.Dispatches[0].RequestID, h.Effects[0].RequestID = "req-9", "req-9" }, "",
		},
		{
			"the step was suspended anew", func(h *referee.History) { h.Dispatches[0].Suspension = "sus-2" }, "origin:suspension",
			func(h *referee.History) { h.Dispatches[0].Suspension, h.Reviews[0].Suspension = "sus-2", "sus-2" }, "",
		},
		{
			"one approval, two effects", again, "spent",
			func(h *referee.History) {
				again(h)
				r := h.Reviews[0]
				r.Tick, r.Suspension = 35, "sus-2"
				h.Reviews = append(h.Reviews, r)
				h.Dispatches[1].Suspension = "sus-2"
			}, "",
		},
		{
			"two people approved one suspension", func(h *referee.History) {
				again(h)
				r := h.Reviews[0]
				r.Tick = 35
				h.Reviews = append(h.Reviews, r)
			}, "spent",
			func(*referee.History) {}, "",
		},
		{
			"dispatched when it had expired", func(h *referee.History) {
				h.Dispatches[0].Time = h.Reviews[0].Expires
				h.Effects[0].Time = h.Dispatches[0].Time
			}, "stale:expired",
			func(h *referee.History) {
				h.Dispatches[0].Time = h.Reviews[0].Expires.Add(-time.Second)
				h.Effects[0].Time = h.Dispatches[0].Time
			}, "",
		},
		{
			"accepted too late after the end", func(h *referee.History) {
				h.Dispatches[0].Time = h.Reviews[0].Expires.Add(-time.Second)
				h.Effects[0].Time = h.Reviews[0].Expires.Add(referee.MaxLateness + 1)
			}, "stale:expired",
			func(h *referee.History) {
				h.Dispatches[0].Time = h.Reviews[0].Expires.Add(-time.Second)
				h.Effects[0].Time = h.Reviews[0].Expires.Add(referee.MaxLateness)
			}, "",
		},
		{
			"the agent was disabled before", func(h *referee.History) { change(h, 15, 0, referee.AgentDisabled, "agent", "") }, "stale:agent_disabled",
			func(h *referee.History) { change(h, 15, 0, referee.AgentDisabled, "agent-2", "") }, "",
		},
		{
			"the approval was withdrawn before", func(h *referee.History) { change(h, 15, 0, referee.ApprovalRevoked, "sus-1", "") }, "stale:revoked",
			func(h *referee.History) { change(h, 15, 0, referee.ApprovalRevoked, "sus-2", "") }, "",
		},
		{
			"withdrawn after the dispatch came in, and the send was late", func(h *referee.History) {
				change(h, 25, time.Second, referee.ApprovalRevoked, "sus-1", "")
				h.Effects[0].Time = start.Add(time.Second + referee.MaxLateness + 1)
			}, "stale:revoked",
			func(h *referee.History) {
				change(h, 25, time.Second, referee.ApprovalRevoked, "sus-1", "")
				h.Effects[0].Time = start.Add(time.Second + referee.MaxLateness)
			}, "",
		},
		{
			"withdrawn before the effect, and not after it", func(h *referee.History) { change(h, 19, 0, referee.ApprovalRevoked, "sus-1", "") }, "stale:revoked",
			func(h *referee.History) { change(h, 31, time.Second, referee.ApprovalRevoked, "sus-1", "") }, "",
		},
		{
			"the agent for which the agent works was disabled before", func(h *referee.History) {
				h.People["agent"], h.People["boss"] = referee.Person{ActsFor: "boss"}, referee.Person{ActsFor: "asker"}
				change(h, 15, 0, referee.AgentDisabled, "boss", "")
			}, "stale:agent_disabled",
			func(h *referee.History) {
				h.People["helper-agent"] = referee.Person{ActsFor: "agent"}
				change(h, 15, 0, referee.AgentDisabled, "helper-agent", "")
			}, "",
		},
		{
			"the policy changed, and to another", func(h *referee.History) {
				change(h, 15, 0, referee.PolicyChanged, "", "policy-2")
				change(h, 16, 0, referee.PolicyChanged, "", "policy-3")
			}, "stale:policy",
			func(h *referee.History) { // and back
				change(h, 15, 0, referee.PolicyChanged, "", "policy-2")
				change(h, 16, 0, referee.PolicyChanged, "", "policy-1")
			}, "",
		},
		{
			"the policy changed and changed back long before the effect", func(h *referee.History) {
				change(h, 15, 0, referee.PolicyChanged, "", "policy-2")
				change(h, 21, time.Second, referee.PolicyChanged, "", "policy-1")
				change(h, 22, 2*time.Second, referee.PolicyChanged, "", "policy-2")
				h.Effects[0].Time = start.Add(8 * time.Second)
			}, "stale:policy",
			func(h *referee.History) {
				change(h, 15, 0, referee.PolicyChanged, "", "policy-2")
				change(h, 21, time.Second, referee.PolicyChanged, "", "policy-1")
				change(h, 22, 2*time.Second, referee.PolicyChanged, "", "policy-2")
				h.Effects[0].Time = start.Add(7 * time.Second)
			}, "",
		},
		{
			"the label rose, and fell when the policy changed", func(h *referee.History) {
				change(h, 15, 0, referee.RiskChanged, "bank/pay", "critical")
				change(h, 16, 0, referee.PolicyChanged, "", "policy-2")
				change(h, 17, 0, referee.RiskChanged, "bank/pay", "high")
			}, "stale:risk",
			func(h *referee.History) {
				change(h, 15, 0, referee.RiskChanged, "bank/pay", "critical")
				change(h, 17, 0, referee.RiskChanged, "bank/pay", "high")
			}, "",
		},
		{
			"the policy changed before", func(h *referee.History) { change(h, 15, 0, referee.PolicyChanged, "", "policy-2") }, "stale:policy",
			func(h *referee.History) { change(h, 5, 0, referee.PolicyChanged, "", "policy-2") }, "", // known at review
		},
		{
			"the risk label rose before", func(h *referee.History) { change(h, 15, 0, referee.RiskChanged, "bank/pay", "critical") }, "stale:risk",
			func(h *referee.History) { change(h, 15, 0, referee.RiskChanged, "bank/refund", "critical") }, "",
		},
		{
			"the approver's passkey was removed before", func(h *referee.History) { change(h, 15, 0, referee.CredentialRemoved, "approver", "") }, "stale:credential_removed",
			func(h *referee.History) { change(h, 15, 0, referee.CredentialRemoved, "deputy", "") }, "",
		},
		{
			"the store was down", func(h *referee.History) { change(h, 15, 0, referee.DependencyDown, "store", "") }, "unverifiable:store",
			func(h *referee.History) {
				change(h, 15, 0, referee.DependencyDown, "store", "")
				change(h, 25, 0, referee.DependencyUp, "store", "")
			}, "",
		},
		{
			"the log went down before the effect, and not after it", func(h *referee.History) { change(h, 29, 0, referee.DependencyDown, "audit", "") }, "unverifiable:audit",
			func(h *referee.History) { change(h, 31, 0, referee.DependencyDown, "audit", "") }, "",
		},
		{
			"the requester decided under another person's opt-out", func(h *referee.History) {
				h.Reviews[0].Approver = "asker"
				change(h, 5, 0, referee.SelfApprovalAllowed, "approver", "a team of one")
			}, "who:requester",
			func(h *referee.History) {
				h.Reviews[0].Approver = "asker"
				change(h, 5, 0, referee.SelfApprovalAllowed, "asker", "a team of one")
			}, "",
		},
		{
			"the requester decided before its opt-out", func(h *referee.History) {
				h.Reviews[0].Approver = "asker"
				change(h, 10, 0, referee.SelfApprovalAllowed, "asker", "a team of one")
			}, "who:requester",
			func(h *referee.History) { // for whom it acts is no matter then
				h.Reviews[0].Approver = "asker"
				h.People["asker"] = referee.Person{ActsFor: "agent", Approver: true}
				change(h, 9, 0, referee.SelfApprovalAllowed, "asker", "a team of one")
			}, "",
		},
		{
			"the requester decided after its opt-out was withdrawn", func(h *referee.History) {
				h.Reviews[0].Approver = "asker"
				change(h, 5, 0, referee.SelfApprovalAllowed, "asker", "a team of one")
				change(h, 6, 0, referee.SelfApprovalForbidden, "asker", "")
			}, "who:requester",
			func(h *referee.History) {
				h.Reviews[0].Approver = "asker"
				change(h, 5, 0, referee.SelfApprovalForbidden, "asker", "")
				change(h, 6, 0, referee.SelfApprovalAllowed, "asker", "a team of one")
				change(h, 7, 0, referee.SelfApprovalForbidden, "approver", "")
			}, "",
		},
		{
			"the opt-out was withdrawn before the dispatch", func(h *referee.History) {
				h.Reviews[0].Approver = "asker"
				change(h, 5, 0, referee.SelfApprovalAllowed, "asker", "a team of one")
				change(h, 15, 0, referee.SelfApprovalForbidden, "asker", "")
			}, "stale:self_approval_forbidden",
			func(h *referee.History) { // and is back
				h.Reviews[0].Approver = "asker"
				change(h, 5, 0, referee.SelfApprovalAllowed, "asker", "a team of one")
				change(h, 15, 0, referee.SelfApprovalForbidden, "asker", "")
				change(h, 16, 0, referee.SelfApprovalAllowed, "asker", "a team of one")
			}, "",
		},
		{
			"the opt-out was withdrawn before the dispatch, and another's is back", func(h *referee.History) {
				h.Reviews[0].Approver = "asker"
				change(h, 5, 0, referee.SelfApprovalAllowed, "asker", "a team of one")
				change(h, 15, 0, referee.SelfApprovalForbidden, "asker", "")
				change(h, 16, 0, referee.SelfApprovalAllowed, "approver", "a team of one")
			}, "stale:self_approval_forbidden",
			func(h *referee.History) { // somebody else decided
				change(h, 5, 0, referee.SelfApprovalAllowed, "asker", "a team of one")
				change(h, 15, 0, referee.SelfApprovalForbidden, "asker", "")
				change(h, 15, 0, referee.SelfApprovalForbidden, "approver", "")
			}, "",
		},
		{
			"an opted-out requester who is no approver", func(h *referee.History) {
				h.Reviews[0].Approver = "asker"
				h.People["asker"] = referee.Person{}
				change(h, 5, 0, referee.SelfApprovalAllowed, "asker", "a team of one")
			}, "who:not_approver",
			func(h *referee.History) {
				h.Reviews[0].Approver, h.Reviews[0].Requester = "approver", "guest"
			}, "",
		},
		{
			"a delegate of an opted-out requester", func(h *referee.History) {
				h.Reviews[0].Approver = "deputy"
				change(h, 5, 0, referee.SelfApprovalAllowed, "asker", "a team of one")
			}, "who:delegate",
			func(h *referee.History) {
				h.Reviews[0].Approver = "helper" // who acts for somebody else
				change(h, 5, 0, referee.SelfApprovalAllowed, "asker", "a team of one")
			}, "",
		},
		{
			"two people had to approve, and one did", func(h *referee.History) { change(h, 5, 0, referee.ApprovalsNeeded, "bank/pay", "2") }, "who:stage",
			func(h *referee.History) {
				change(h, 5, 0, referee.ApprovalsNeeded, "bank/pay", "2")
				also(h, "asker-2")
			}, "",
		},
		{
			"one person approved twice", func(h *referee.History) {
				change(h, 5, 0, referee.ApprovalsNeeded, "bank/pay", "2")
				also(h, "approver")
			}, "who:stage",
			func(h *referee.History) { also(h, "approver") }, "",
		},
		{
			"a person and its delegate approved", func(h *referee.History) {
				change(h, 5, 0, referee.ApprovalsNeeded, "bank/pay", "2")
				also(h, "helper")
			}, "who:stage",
			func(h *referee.History) { also(h, "helper") }, "",
		},
		{
			"the second approval is by the requester", func(h *referee.History) {
				change(h, 5, 0, referee.ApprovalsNeeded, "bank/pay", "2")
				also(h, "asker")
			}, "who:stage",
			func(h *referee.History) {
				change(h, 4, 0, referee.SelfApprovalAllowed, "asker", "a team of one")
				change(h, 5, 0, referee.ApprovalsNeeded, "bank/pay", "2")
				also(h, "asker")
			}, "",
		},
		{
			"the second approval is a no", func(h *referee.History) {
				change(h, 5, 0, referee.ApprovalsNeeded, "bank/pay", "2")
				also(h, "asker-2")
				h.Reviews[0].Verdict = api.Decline
			}, "who:stage",
			func(h *referee.History) {
				also(h, "asker-2")
				h.Reviews[0].Verdict = api.Decline
			}, "",
		},
		{
			"the second approval is for another suspension", func(h *referee.History) {
				change(h, 5, 0, referee.ApprovalsNeeded, "bank/pay", "2")
				also(h, "asker-2")
				h.Reviews[0].Suspension = "sus-2"
			}, "who:stage",
			func(h *referee.History) {
				change(h, 5, 0, referee.ApprovalsNeeded, "bank/refund", "2")
				change(h, 5, 0, referee.ApprovalsNeeded, "bank-test/pay", "2")
			}, "",
		},
		{
			"the second approval came after the effect", func(h *referee.History) {
				change(h, 5, 0, referee.ApprovalsNeeded, "bank/pay", "2")
				also(h, "asker-2")
				h.Reviews[0].Tick = 31
			}, "who:stage",
			func(h *referee.History) {
				change(h, 5, 0, referee.ApprovalsNeeded, "bank/pay", "2")
				also(h, "asker-2")
				h.Reviews[0].Tick = 30
			}, "",
		},
		{
			"one of two approvers lost its passkey before", func(h *referee.History) {
				change(h, 5, 0, referee.ApprovalsNeeded, "bank/pay", "2")
				also(h, "asker-2")
				change(h, 15, 0, referee.CredentialRemoved, "asker-2", "")
			}, "who:stage",
			func(h *referee.History) {
				also(h, "asker-2")
				change(h, 15, 0, referee.CredentialRemoved, "asker-2", "")
			}, "",
		},
		{
			"a second approval was asked for before the dispatch", func(h *referee.History) { change(h, 15, 0, referee.ApprovalsNeeded, "bank/pay", "2") }, "stale:approvals",
			func(h *referee.History) { // as many as there are, and another tool
				change(h, 15, 0, referee.ApprovalsNeeded, "bank/pay", "1")
				change(h, 15, 0, referee.ApprovalsNeeded, "bank/refund", "2")
			}, "",
		},
		{
			"three had to approve when two had, and then two", func(h *referee.History) {
				change(h, 5, 0, referee.ApprovalsNeeded, "bank/pay", "3")
				also(h, "asker-2")
				change(h, 15, 0, referee.ApprovalsNeeded, "bank/pay", "2")
			}, "who:stage",
			func(h *referee.History) {
				change(h, 5, 0, referee.ApprovalsNeeded, "bank/pay", "3")
				change(h, 6, 0, referee.ApprovalsNeeded, "bank/pay", "2")
				also(h, "asker-2")
				change(h, 15, 0, referee.ApprovalsNeeded, "bank/pay", "1")
			}, "",
		},
		{
			"nobody decided", func(h *referee.History) { h.Reviews = nil }, "none",
			func(h *referee.History) { h.Reviews[0].Tick = 29 }, "",
		},
		{
			"somebody declined", func(h *referee.History) { h.Reviews[0].Verdict = api.Decline }, "none",
			func(h *referee.History) {
				r := h.Reviews[0]
				r.Verdict = api.Decline
				h.Reviews = append([]referee.Review{r}, h.Reviews...)
			}, "",
		},
		{
			"it was approved after the effect", func(h *referee.History) { h.Reviews[0].Tick = 31 }, "none",
			func(h *referee.History) { h.Reviews[0].Tick = 30 }, "",
		},
		{
			"nobody decided while the policy was down", func(h *referee.History) {
				h.Reviews = nil
				change(h, 15, 0, referee.DependencyDown, "policy", "")
			}, "none unverifiable:policy",
			func(h *referee.History) { h.Effects[0].Tool = "balance"; h.Reviews = nil }, "", // reading needs no approval
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := judged(t, tt.with); got != tt.want {
				t.Errorf("the reasons are %q, want %q", got, tt.want)
			}
			if got := judged(t, tt.neighbour); got != tt.rests {
				t.Errorf("the neighbour's reasons are %q, want %q", got, tt.rests)
			}
		})
	}
}

// judged returns the reasons of the last effect, sorted.
func judged(t *testing.T, with func(*referee.History)) string {
	t.Helper()
	h := history()
	with(&h)
	verdicts, err := referee.Judge(h)
	if err != nil {
		t.Fatal(err)
	}
	if len(verdicts) == 0 {
		return ""
	}
	v := verdicts[len(verdicts)-1]
	var out []string
	for _, r := range v.Reasons {
		out = append(out, r.String())
	}
	slices.Sort(out)
	if v.Authorised() != (len(out) == 0) {
		t.Errorf("authorised is %t with the reasons %v", v.Authorised(), out)
	}
	return strings.Join(out, " ")
}

// TestTheBestApprovalCounts: an effect is held against the approval that leaves
// the fewest reasons, and each approval serves one effect.
func TestTheBestApprovalCounts(t *testing.T) {
	h := history()
	worse := h.Reviews[0]
	worse.Approver, worse.Suspension = "asker", "sus-0"
	h.Reviews = append([]referee.Review{worse}, h.Reviews...)
	again(&h)
	verdicts, err := referee.Judge(h)
	if err != nil {
		t.Fatal(err)
	}
	if len(verdicts) != 2 || verdicts[0].Review != 1 || !verdicts[0].Authorised() {
		t.Fatalf("the first effect is judged %+v, want it authorised by the second review", verdicts[0])
	}
	// Spent is one kind; the requester's approval of another suspension is two.
	if v := verdicts[1]; v.Review != 1 || len(v.Reasons) != 1 || v.Reasons[0].Kind != referee.Spent {
		t.Errorf("the second effect is judged %+v, want it held against the second review, spent", v)
	}
}

// TestKindsWeighMoreThanMembers: an approval with one kind of fault in three
// places is nearer than one with two kinds in one place each.
func TestKindsWeighMoreThanMembers(t *testing.T) {
	h := history()
	blind, other := h.Reviews[0], h.Reviews[0]
	blind.View.Fields = nil
	other.Approver, other.Suspension = "asker", "sus-0"
	h.Reviews = []referee.Review{other, blind}
	verdicts, err := referee.Judge(h)
	if err != nil {
		t.Fatal(err)
	}
	if v := verdicts[0]; v.Review != 1 || len(v.Reasons) != 3 {
		t.Errorf("judged %+v, want it held against the approval of an empty view", v)
	}
}

func TestWhatCannotBeJudgedIsAnError(t *testing.T) {
	for _, tt := range []struct {
		name string
		with func(*referee.History)
		want string
	}{
		{"an effect of a tool that is not in the table", func(h *referee.History) { h.Effects[0].Tool = "wire" }, "judging effect 1: tool bank/wire is not in the table"},
		{"an effect that no dispatch caused", func(h *referee.History) { h.Effects[0].RequestID = "req-0" }, `judging effect 1: no dispatch has request id "req-0"`},
		{"a number of people that is none", func(h *referee.History) { change(h, 5, 0, referee.ApprovalsNeeded, "bank/pay", "two") }, `judging: "two" people have to approve bank/pay`},
	} {
		h := history()
		tt.with(&h)
		if v, err := referee.Judge(h); err == nil || err.Error() != tt.want {
			t.Errorf("%s: %v, %v; want the error %q", tt.name, v, err, tt.want)
		}
	}
	if v, err := referee.Judge(referee.History{}); err != nil || len(v) != 0 {
		t.Errorf("an empty history is judged %v, %v", v, err)
	}
}

// TestJudgingChangesNothing: the same history gives the same verdicts.
func TestJudgingChangesNothing(t *testing.T) {
	h := history()
	again(&h)
	a, err := referee.Judge(h)
	if err != nil {
		t.Fatal(err)
	}
	b, err := referee.Judge(h)
	if err != nil {
		t.Fatal(err)
	}
	if x, y := reasonsOf(a), reasonsOf(b); x != y {
		t.Errorf("judged twice: %s and %s", x, y)
	}
}

func reasonsOf(vs []referee.Verdict) string {
	b, err := json.Marshal(vs)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
