package modes

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"countersign/gateway/api"
	"countersign/gateway/canonical"
	"countersign/modes/passkey"
	"countersign/oracles/softkey"
)

// rows of the reference design: each breaks one thing. Where the thing is one
// that several bindings rest on, all of them refuse, and no other.
func checkRows() []row {
	down := func(method string) func(*Situation, *fakeWorld) {
		return func(_ *Situation, w *fakeWorld) { w.down[method] = true }
	}
	without := func(bs ...api.Binding) Mode { return m9().Without(bs...) }
	otherDigest := strings.Repeat("0", 64)
	nothing := func(_ *cast, c *api.Carried) { *c = api.Carried{} }
	return []row{
		{name: "honest"},
		{name: "honest, every binding alone but those of the carrier", mode: without(api.BindRecord)},

		{name: "no approval, references", mode: only(api.BindRefs), carried: nothing, want: "refs/absent"},
		{name: "no approval, people", mode: only(api.BindDuties), carried: nothing, change: func(_ *Situation, w *fakeWorld) { w.approvers = nil }, want: "duties/absent"},
		{name: "an approval without an id, references", mode: macWith(api.BindRefs), want: "refs/drift"},
		{name: "no approval, policy", mode: only(api.BindOnline), carried: nothing, want: "online/absent"},
		{name: "no approval, agent disabled", mode: only(api.BindOnline), carried: nothing, change: func(_ *Situation, w *fakeWorld) { w.disabled = "agent-a" }, want: "online/agent_disabled"},
		{name: "no arguments approved", envelope: func(e *Envelope) { e.ArgsDigest = "" }, want: "args/absent"},
		{name: "other arguments", change: func(s *Situation, _ *fakeWorld) { s.ArgsDigest = otherDigest }, want: "args/differs"},
		{name: "unreadable arguments", change: func(s *Situation, _ *fakeWorld) { s.ReadErr = errors.New("no reading") }, want: "args/unreadable"},

		{name: "directory down", change: func(s *Situation, _ *fakeWorld) { s.ResolveErr = errDown }, want: "refs/unavailable"},
		{name: "reference gone", change: func(s *Situation, _ *fakeWorld) { s.ResolveErr = api.ErrNotFound }, want: "refs/drift"},
		{name: "reference not resolved", change: func(s *Situation, _ *fakeWorld) { s.Resolved = nil }, want: "refs/drift"},
		{name: "reference of another path", change: drifted(func(r *api.Resolved) { r.Path = "/other" }), want: "refs/drift"},
		{name: "reference of another kind", change: drifted(func(r *api.Resolved) { r.Kind = "list" }), want: "refs/drift"},
		{name: "another reference", change: drifted(func(r *api.Resolved) { r.ID = "s-2" }), want: "refs/drift"},
		{name: "another version", change: drifted(func(r *api.Resolved) { r.Version++ }), want: "refs/drift"},
		{name: "another value", change: drifted(func(r *api.Resolved) { r.Members["account"] = json.RawMessage(`"LT9"`) }), want: "refs/drift"},
		{name: "another member", change: drifted(func(r *api.Resolved) { r.Members["more"] = json.RawMessage(`1`) }), want: "refs/drift"},
		{name: "a member less", change: drifted(func(r *api.Resolved) { r.Members = nil }), want: "refs/drift"},
		{name: "an empty member for another", change: drifted(func(r *api.Resolved) {
			r.Members = map[string]json.RawMessage{"iban": nil}
		}), want: "refs/drift"},
		{name: "a member renamed", change: drifted(func(r *api.Resolved) {
			r.Members = map[string]json.RawMessage{"iban": r.Members["account"]}
		}), want: "refs/drift"},

		{name: "no view approved", envelope: func(e *Envelope) { e.ViewDigest = "" }, want: "render/absent"},
		{name: "another view kept", approval: func(a *Approval) { a.ViewDigest = otherDigest }, want: "render/differs"},

		{name: "two readings", change: func(s *Situation, _ *fakeWorld) {
			s.StrictErr = &canonical.Error{Code: canonical.DuplicateKey, Path: "/amount"}
		}, want: "strict/duplicate_key"},
		{name: "no reading", change: func(s *Situation, _ *fakeWorld) { s.StrictErr = errors.New("no reading") }, want: "strict/unreadable"},

		{name: "approval not in the store", mode: only(api.BindRecord), carried: func(_ *cast, c *api.Carried) { c.Approval = "another" }, want: "record/no_approval"},
		{name: "no approval carried", mode: only(api.BindRecord), carried: func(_ *cast, c *api.Carried) { c.Approval = "" }, want: "record/no_approval"},
		{name: "declined", mode: only(api.BindRecord), approval: func(a *Approval) { a.Verdict = api.Decline }, change: storeHolds(api.Decline), want: "record/no_approval"},
		{name: "no verdict", mode: only(api.BindRecord), change: storeHolds(""), want: "record/no_approval"},
		{name: "no approval carried, approval store down", mode: only(api.BindRecord), carried: func(_ *cast, c *api.Carried) { c.Approval = "" }, change: down("Approval"), want: "record/no_approval"},
		{name: "approval store down", mode: only(api.BindRecord), change: down("Approval"), want: "record/unavailable"},
		{name: "stored envelope damaged", mode: only(api.BindRecord), change: func(_ *Situation, w *fakeWorld) {
			for id, a := range w.approvals {
				a.EnvelopeText = []byte("{")
				w.approvals[id] = a
			}
		}, want: "record/unavailable"},

		{name: "no permit", carried: func(_ *cast, c *api.Carried) { c.Permit = "" }, want: "signed/absent challenge/differs"},
		{name: "no permit, alone", mode: without(api.BindChallenge), carried: func(_ *cast, c *api.Carried) { c.Permit = "" }, want: "signed/absent"},
		{name: "permit under another key", carried: func(c *cast, k *api.Carried) { k.Permit = resigned(c.otherKeys, k.Permit) }, want: "signed/signature"},
		{name: "permit under another algorithm", carried: func(c *cast, k *api.Carried) {
			k.Permit = must(compact(c.keys.hs256.Sign(must(UnverifiedPayload(k.Permit)))))
		}, want: "signed/alg"},
		{name: "permit of another approval", mode: without(api.BindChallenge), carried: func(c *cast, k *api.Carried) {
			k.Permit = permitFor(c, func(e *Envelope) { e.Permit = "another" })
		}, want: "signed/differs"},
		{name: "another issuer", envelope: func(e *Envelope) { e.Issuer = "https://sibling.example" }, want: "signed/issuer"},

		{name: "no clock for the proof", change: func(s *Situation, _ *fakeWorld) { s.NowErr = errDown }, want: "sender/clock expiry/clock closed/unavailable"},
		{name: "no clock for the proof, alone", mode: without(api.BindExpiry, api.BindClosed), change: func(s *Situation, _ *fakeWorld) { s.NowErr = errDown }, want: "sender/clock"},
		{name: "no proof", change: func(s *Situation, _ *fakeWorld) { s.Proof = "" }, want: "sender/proof"},
		{name: "proof for another address", claims: func(c map[string]any) { c["htu"] = "https://sibling.example" }, want: "sender/proof"},
		{name: "proof used before", change: func(s *Situation, _ *fakeWorld) { s.SeenProof = func(id string) bool { return id == "proof-1" } }, want: "sender/proof_replayed"},
		{name: "no key approved", envelope: func(e *Envelope) { e.AgentKey = "" }, want: "sender/absent"},
		{name: "proof by another key", prover: func(c *cast) holder { return c.stranger }, want: "sender/key"},

		{name: "no assertion", mode: without(api.BindChallenge), change: storedAssertion(nil), want: "attest/absent"},
		{name: "no assertion at all", change: storedAssertion(nil), want: "attest/absent challenge/absent"},
		{name: "register of credentials down", change: down("Credentials"), want: "attest/unavailable"},
		{name: "approver without passkey", change: func(_ *Situation, w *fakeWorld) { w.creds = nil }, want: "attest/credential"},
		{name: "unregistered passkey", forge: softkey.Forgery{UnregisteredKey: true}, want: "attest/credential"},
		{name: "unregistered passkey, owner unknown", mode: without(api.BindRecord, api.BindDuties), forge: softkey.Forgery{UnregisteredKey: true}, want: "attest/credential"},
		{name: "credential look-up down, owner unknown", mode: without(api.BindRecord, api.BindDuties), change: down("Credential"), want: "attest/unavailable"},
		{name: "enrolled key of another algorithm", change: func(_ *Situation, w *fakeWorld) {
			c := w.creds[0]
			c.PublicKey = []byte{0xa0}
			w.creds = []passkey.Credential{c}
		}, want: "attest/algorithm"},
		{name: "another ceremony", forge: softkey.Forgery{Type: "webauthn.create"}, want: "attest/type"},
		{name: "another page", forge: softkey.Forgery{Origin: "https://approve.example.evil.example"}, want: "attest/origin"},
		{name: "a frame", forge: softkey.Forgery{CrossOrigin: true}, want: "attest/cross_origin"},
		{name: "another relying party", forge: softkey.Forgery{RPID: "evil.example"}, want: "attest/rp_id"},
		{name: "nobody present", forge: softkey.Forgery{ClearUP: true}, want: "attest/up"},
		{name: "nobody verified", forge: softkey.Forgery{ClearUV: true}, want: "attest/uv"},
		{name: "backed up but not eligible", forge: softkey.Forgery{BackupState: true}, want: "attest/backup"},
		{name: "another person's handle", forge: softkey.Forgery{UserHandle: []byte("person-q")}, want: "attest/credential"},
		{name: "another key", forge: softkey.Forgery{OtherKey: true}, want: "attest/signature"},
		{name: "altered after signing", forge: softkey.Forgery{AlterAfterSigning: true}, want: "attest/signature"},
		{name: "assertion unreadable", mode: without(api.BindChallenge), change: storedAssertion([]byte("{")), want: "attest/malformed"},
		{name: "no relying party", change: func(s *Situation, _ *fakeWorld) { s.RP = &passkey.RelyingParty{} }, want: "attest/malformed"},
		{name: "not the challenge that was issued", mode: without(api.BindChallenge), forge: softkey.Forgery{Challenge: make([]byte, 31)}, want: "attest/challenge"},

		{name: "assertion over another envelope", forge: softkey.Forgery{Challenge: make([]byte, 32)}, want: "challenge/differs"},
		{name: "permit of another envelope", mode: without(api.BindSigned), carried: func(c *cast, k *api.Carried) {
			k.Permit = permitFor(c, func(e *Envelope) { e.Permit = "another" })
		}, want: "challenge/differs"},
		{name: "assertion missing, challenge alone", mode: without(api.BindAttest), change: storedAssertion(nil), want: "challenge/absent"},
		{name: "assertion over nothing, and no permit", mode: only(api.BindChallenge), forge: softkey.Forgery{Challenge: nothingHashed[:]},
			carried: func(_ *cast, c *api.Carried) { c.Permit = "" }, want: "challenge/absent"},
		{name: "assertion unreadable, challenge alone", mode: without(api.BindAttest), change: storedAssertion([]byte("{")), want: "challenge/malformed"},
		{name: "client data unreadable", mode: without(api.BindAttest), change: storedAssertion([]byte(`{"rawId":"AA","response":{"clientDataJSON":"e30x"}}`)), want: "challenge/malformed"},

		{name: "no agent approved", envelope: func(e *Envelope) { e.Agent = "" }, want: "agent/absent duties/no_requester"},
		{name: "another agent", change: func(s *Situation, _ *fakeWorld) { s.Caller.ID = "agent-b" }, want: "agent/differs"},

		{name: "set of approvers down", change: down("Approvers"), want: "duties/unavailable"},
		{name: "no approvers", change: func(_ *Situation, w *fakeWorld) { w.approvers = nil }, want: "duties/no_approvers"},
		{name: "approver unknown", change: func(_ *Situation, w *fakeWorld) { w.people = nil }, want: "duties/unknown"},
		{name: "the agent itself", envelope: func(e *Envelope) { e.Agent = testApprover }, change: func(s *Situation, w *fakeWorld) {
			s.Caller.ID, w.owner[1] = testApprover, testApprover
		}, want: "duties/self"},
		{name: "the requester", envelope: func(e *Envelope) { e.Requester = testApprover }, want: "duties/requester"},
		{name: "a delegate of the requester", change: actsFor("requester-r"), want: "duties/delegate"},
		{name: "a delegate of the agent", change: actsFor(testAgent), want: "duties/delegate"},
		{name: "a delegate of somebody else", change: actsFor("requester-2")},
		{name: "a delegate of a delegate", change: actsFor("deputy-r"), want: "duties/delegate"},
		{name: "two delegates of one person", envelope: func(e *Envelope) { e.Requester = "deputy-r" }, change: actsFor("requester-r"), want: "duties/delegate"},
		{name: "the person whose delegate asks", envelope: func(e *Envelope) { e.Requester = "deputy-r" }, change: acts("deputy-r", testApprover), want: "duties/delegate"},
		{name: "the person for whom the agent works, and the envelope names another", change: acts(testAgent, testApprover), want: "duties/delegate"},
		{name: "a delegate of somebody who is not known", change: actsFor("Requester-2"), want: "duties/unknown"},
		{name: "a delegate of itself", change: actsFor(testApprover), want: "duties/unknown"},
		{name: "no requester", envelope: func(e *Envelope) { e.Requester = "" }, want: "duties/no_requester"},
		{name: "a requester who is not known", envelope: func(e *Envelope) { e.Requester = "Requester-R" }, want: "duties/no_requester"},
		{name: "a requester who acts for itself", change: acts("requester-r", "requester-r"), want: "duties/no_requester"},
		{name: "an agent of nobody", change: acts(testAgent, ""), want: "duties/no_requester"},
		{name: "an agent of somebody who is not known", change: acts(testAgent, "nobody"), want: "duties/no_requester"},
		{name: "as many in between as may be", change: inBetween(MaxDelegation)},
		{name: "one in between too many", change: inBetween(MaxDelegation + 1), want: "duties/no_requester online/delegation"},
		{name: "not eligible when it was asked", envelope: func(e *Envelope) { e.Approvers = []string{"approver-2"} }, want: "duties/not_asked"},
		{name: "not eligible", change: func(_ *Situation, w *fakeWorld) { w.approvers = []string{"approver-2"} }, want: "duties/not_eligible"},
		{name: "the requester, opted out", envelope: ownRequest, change: optedOut("one-person team")},
		{name: "the requester, for whom an agent acts that it acts for, opted out", envelope: ownRequest, change: func(s *Situation, w *fakeWorld) {
			optedOut("one-person team")(s, w)
			actsFor(testAgent)(s, w)
		}},
		{name: "the requester, opted out, and the envelope does not say so", envelope: func(e *Envelope) { e.Requester = testApprover },
			change: optedOut("one-person team"), want: "duties/requester"},
		{name: "the requester, whose opt-out was withdrawn", envelope: ownRequest, want: "duties/opt_out"},
		{name: "the requester, opted out for another reason", envelope: ownRequest, change: optedOut("holidays"), want: "duties/opt_out"},
		{name: "the requester, opted out in another tenant", envelope: ownRequest, change: func(_ *Situation, w *fakeWorld) {
			w.optOuts = map[string]string{"tenant-2/" + testApprover: "one-person team"}
		}, want: "duties/opt_out"},
		{name: "opt-outs down", envelope: ownRequest, change: down("OptOut"), want: "duties/unavailable"},
		{name: "opt-outs down, another decided", envelope: func(e *Envelope) { e.SelfApproval = "one-person team" }, change: down("OptOut")},
		{name: "a delegate of the requester, who is opted out", envelope: func(e *Envelope) { e.SelfApproval = "one-person team" }, change: func(s *Situation, w *fakeWorld) {
			w.optOuts = map[string]string{"tenant-1/requester-r": "one-person team", "tenant-1/" + testApprover: "one-person team"}
			actsFor("requester-r")(s, w)
		}, want: "duties/delegate"},
		{name: "the requester, opted out and no approver", envelope: ownRequest, change: func(s *Situation, w *fakeWorld) {
			optedOut("one-person team")(s, w)
			w.approvers = []string{"approver-2"}
		}, want: "duties/not_eligible"},
		{name: "the requester, opted out and unknown", envelope: ownRequest, change: func(s *Situation, w *fakeWorld) {
			optedOut("one-person team")(s, w)
			w.people = nil
		}, want: "duties/unknown"},
		{name: "two people", envelope: twoStages, change: first(testFirst, "")},
		{name: "two people, and a third needed", envelope: func(e *Envelope) { twoStages(e); e.Stage, e.Stages = 3, 3 }, change: first(testFirst, ""), want: "duties/stage"},
		{name: "two people, one named", envelope: func(e *Envelope) { twoStages(e); e.Earlier = nil }, want: "duties/stage"},
		{name: "the first of two stages", envelope: func(e *Envelope) { twoStages(e); e.Stage = 1; e.Earlier = []string{testFirst} }, change: first(testFirst, ""), want: "duties/stage"},
		{name: "one person in both stages", envelope: func(e *Envelope) { twoStages(e); e.Earlier = []string{testApprover} }, want: "duties/same_person"},
		{name: "the second acts for the first", envelope: twoStages, change: func(s *Situation, w *fakeWorld) {
			first(testFirst, "")(s, w)
			actsFor(testFirst)(s, w)
		}, want: "duties/same_person"},
		{name: "the first acts for the second", envelope: twoStages, change: first(testFirst, testApprover), want: "duties/same_person"},
		{name: "both act for one person", envelope: twoStages, change: func(s *Situation, w *fakeWorld) {
			first("person-q", "")(s, w)
			first(testFirst, "person-q")(s, w)
			actsFor("person-q")(s, w)
		}, want: "duties/same_person"},
		{name: "the first is the requester", envelope: func(e *Envelope) { twoStages(e); e.Requester = testFirst }, change: first(testFirst, ""), want: "duties/requester"},
		{name: "the first acts for the requester", envelope: twoStages, change: first(testFirst, "requester-r"), want: "duties/delegate"},
		{name: "the first is no approver", envelope: func(e *Envelope) { twoStages(e); e.Earlier = []string{"person-q"} }, change: first("person-q", ""), want: "duties/not_eligible"},
		{name: "the first is unknown", envelope: twoStages, want: "duties/unknown"},

		{name: "no audience approved", envelope: func(e *Envelope) { e.Audience = "" }, want: "audience/absent"},
		{name: "another audience", change: func(s *Situation, _ *fakeWorld) { s.Action.Audience = "payroll.example" }, want: "audience/differs"},
		{name: "another tenant", change: func(s *Situation, _ *fakeWorld) { s.Caller.Tenant = "tenant-2" }, want: "audience/tenant"},

		{name: "no tool approved", envelope: func(e *Envelope) { e.Tool = "" }, want: "connector/absent"},
		{name: "another tool", change: func(s *Situation, _ *fakeWorld) { s.Action.Tool = "prepay" }, want: "connector/differs"},
		{name: "another schema", change: func(s *Situation, _ *fakeWorld) { s.ToolDigest = otherDigest }, want: "connector/schema"},

		{name: "no run approved", envelope: func(e *Envelope) { e.Run = "" }, want: "run/absent"},
		{name: "another run", change: place("run-2", "step-1", "call-1"), want: "run/differs"},
		{name: "no call approved", envelope: func(e *Envelope) { e.Call = "" }, want: "call/absent"},
		{name: "another call", change: place("run-1", "step-1", "call-2"), want: "call/differs"},

		{name: "suspensions down", change: down("Latest"), want: "suspension/unavailable"},
		{name: "never suspended", change: func(_ *Situation, w *fakeWorld) { w.place[1] = "step-2" }, want: "suspension/none"},
		{name: "only another agent's call of that name was suspended", change: func(_ *Situation, w *fakeWorld) { w.owner[1] = "agent-b" }, want: "suspension/none"},
		{name: "only another tenant's call of that name was suspended", change: func(_ *Situation, w *fakeWorld) { w.owner[0] = "tenant-2" }, want: "suspension/none"},
		{name: "no suspension approved", envelope: func(e *Envelope) { e.SuspendedAt = 0 }, want: "suspension/absent"},
		{name: "suspended again", change: func(_ *Situation, w *fakeWorld) { w.latest.At = 8 }, want: "suspension/differs"},

		{name: "no clock", mode: without(api.BindSender, api.BindClosed), change: func(s *Situation, _ *fakeWorld) { s.NowErr = errDown }, want: "expiry/clock"},
		{name: "clock ran back", change: func(s *Situation, _ *fakeWorld) { s.HighWater = testNow.Add(time.Nanosecond) }, want: "expiry/clock"},
		{name: "no end approved", envelope: func(e *Envelope) { e.ExpiresAt = 0 }, want: "expiry/absent"},
		{name: "one second before the begin", envelope: func(e *Envelope) { e.NotBefore = testNow.Unix() + 1 }, want: "expiry/not_yet"},
		{name: "at the begin", envelope: func(e *Envelope) { e.NotBefore = testNow.Unix() }},
		{name: "at the end", envelope: func(e *Envelope) { e.ExpiresAt = testNow.Unix() }, want: "expiry/expired"},
		{name: "one second before the end", envelope: func(e *Envelope) { e.ExpiresAt = testNow.Unix() + 1 }},

		{name: "policy down", mode: without(api.BindClosed), change: func(s *Situation, _ *fakeWorld) { s.PolicyErr = errDown }, want: "online/unavailable"},
		{name: "register of agents down", change: down("Disabled"), want: "online/unavailable"},
		{name: "agent disabled", change: func(_ *Situation, w *fakeWorld) { w.disabled = testAgent }, want: "online/agent_disabled"},
		{name: "the agent that the agent works for disabled", change: func(s *Situation, w *fakeWorld) {
			inBetween(3)(s, w)
			w.disabled = "agent-in-between-2"
		}, want: "online/agent_disabled"},
		{name: "register of names down", mode: without(api.BindDuties), change: down("Principal"), want: "online/unavailable"},
		{name: "agents that work for each other", mode: without(api.BindDuties), change: acts(testAgent, testAgent), want: "online/delegation"},
		{name: "caller disabled", mode: without(api.BindAgent), change: func(s *Situation, w *fakeWorld) { s.Caller.ID, w.disabled = "agent-b", "agent-b" }, want: "online/agent_disabled"},
		{name: "asking agent disabled, another calls", mode: without(api.BindAgent), change: func(s *Situation, w *fakeWorld) { s.Caller.ID, w.disabled = "agent-b", testAgent }, want: "online/agent_disabled"},
		{name: "withdrawals down", change: down("Revoked"), want: "online/unavailable"},
		{name: "withdrawn", change: func(_ *Situation, w *fakeWorld) { w.revoked = w.permit }, want: "online/revoked"},
		{name: "register of approvers down", change: down("Unenrolled"), want: "online/unavailable"},
		{name: "approver removed", change: func(_ *Situation, w *fakeWorld) { w.unenrolled = testApprover }, want: "online/approver_removed"},
		{name: "the first approver removed", envelope: twoStages, change: func(s *Situation, w *fakeWorld) {
			first(testFirst, "")(s, w)
			w.unenrolled = testFirst
		}, want: "online/approver_removed"},
		{name: "two people needed now", change: needed(2), want: "record/too_few online/approvals"},
		{name: "two people needed now, record alone", mode: only(api.BindRecord), change: needed(2), want: "record/too_few"},
		{name: "two people needed and there", envelope: twoStages, change: func(s *Situation, w *fakeWorld) {
			first(testFirst, "")(s, w)
			needed(2)(s, w)
		}},
		{name: "two people there and one needed", envelope: twoStages, change: first(testFirst, "")},
		{name: "two people needed for another tool", change: func(s *Situation, _ *fakeWorld) {
			s.Policy.Approvals = map[string]int{testAudience + "/other": 2}
		}},
		{name: "policy changed", change: func(s *Situation, _ *fakeWorld) { s.Policy.Version = "policy-2" }, want: "online/policy"},
		{name: "risk label changed", change: func(s *Situation, _ *fakeWorld) {
			s.Policy.Risk = map[string]string{testAudience + "/pay": "severe"}
		}, want: "online/risk"},
		{name: "another tool's label changed", change: func(s *Situation, _ *fakeWorld) {
			s.Policy.Risk = map[string]string{testAudience + "/other": "severe"}
		}},

		{name: "no identifier", envelope: func(e *Envelope) { e.Permit = "" }, want: "seen/absent once/absent"},
		{name: "seen by this instance", change: func(s *Situation, w *fakeWorld) { s.Seen = seen(w.permit, "") }, want: "seen/seen"},
		{name: "spent", change: func(_ *Situation, w *fakeWorld) { w.spent = w.permit }, want: "once/spent"},
		{name: "spent state down", change: down("Spent"), want: "once/unavailable"},

		{name: "store down", change: func(s *Situation, _ *fakeWorld) { s.StoreErr = errDown }, want: "closed/unavailable"},
		{name: "policy down, closed alone", mode: without(api.BindOnline), change: func(s *Situation, _ *fakeWorld) { s.PolicyErr = errDown }, want: "closed/unavailable"},
		{name: "audit down", change: func(s *Situation, _ *fakeWorld) { s.AuditErr = errDown }, want: "closed/unavailable"},
		{name: "clock down, closed alone", mode: without(api.BindSender, api.BindExpiry), change: func(s *Situation, _ *fakeWorld) { s.NowErr = errDown }, want: "closed/unavailable"},
	}
}

// carrierRows are those of the other designs: what they carry, and where they
// look.
func carrierRows() []row {
	return []row{
		{name: "no mode", mode: Mode{ID: "zero"}, want: "record/no_mode"},
		{name: "M0", mode: mode("M0")},

		{name: "M1 approved", mode: mode("M1")},
		{name: "M1 says nothing", mode: mode("M1"), carried: func(_ *cast, c *api.Carried) { c.Approved = false }, want: "mediated/flag"},

		{name: "M2 run approved", mode: mode("M2")},
		{name: "M2 any call of the run", mode: mode("M2"), change: place("run-1", "step-9", "call-9")},
		{name: "M2 another run", mode: mode("M2"), change: place("run-2", "step-1", "call-1"), want: "record/no_approval run/absent"},
		{name: "M2 store down", mode: mode("M2"), change: func(_ *Situation, w *fakeWorld) { w.down["ApprovalOfRun"] = true }, want: "record/unavailable run/absent"},
		{name: "M2 two people needed now", mode: mode("M2"), change: needed(2), want: "record/too_few"},
		{name: "M3 two people needed now", mode: mode("M3"), change: needed(2), want: "record/too_few"},
		{name: "M6 two people needed now", mode: mode("M6"), change: needed(2), want: "record/too_few"},
		{name: "M8 two people needed now", mode: mode("M8"), change: needed(2), want: "record/too_few"},
		{name: "M2 declined", mode: mode("M2"), change: storeHolds(api.Decline), want: "record/no_approval run/absent"},

		{name: "M3 ticket", mode: mode("M3")},
		{name: "M3 no ticket", mode: mode("M3"), carried: func(_ *cast, c *api.Carried) { c.Approval = "" }, want: "record/no_approval expiry/absent seen/absent"},
		{name: "M3 no ticket, store down", mode: mode("M3"), carried: func(_ *cast, c *api.Carried) { c.Approval = "" }, change: func(_ *Situation, w *fakeWorld) { w.down["Approval"] = true }, want: "record/no_approval expiry/absent seen/absent"},
		{name: "M3 unknown ticket", mode: mode("M3"), carried: func(_ *cast, c *api.Carried) { c.Approval = "another" }, want: "record/no_approval expiry/absent seen/absent"},
		{name: "M3 declined", mode: mode("M3"), change: storeHolds(api.Decline), want: "record/no_approval expiry/absent seen/absent"},
		{name: "M3 expired", mode: mode("M3"), envelope: func(e *Envelope) { e.ExpiresAt = testNow.Unix() }, want: "expiry/expired"},
		{name: "M3 used", mode: mode("M3"), change: func(s *Situation, w *fakeWorld) { s.Seen = seen(w.permit, "") }, want: "seen/seen"},
		{name: "M3 without record, known by its id alone", mode: mode("M3-record-expiry")},
		{name: "M3 without record, the store is not read", mode: mode("M3-record"), want: "expiry/absent"},

		{name: "M4 permit", mode: mode("M4")},
		{name: "M4 no permit", mode: mode("M4"), carried: func(_ *cast, c *api.Carried) { c.Permit = "" }, want: "signed/absent audience/absent expiry/absent seen/absent"},
		{name: "M4 another audience", mode: mode("M4"), change: func(s *Situation, _ *fakeWorld) { s.Action.Audience = "payroll.example" }, want: "audience/differs"},
		{name: "M4 expired", mode: mode("M4"), envelope: func(e *Envelope) { e.ExpiresAt = testNow.Unix() }, want: "expiry/expired"},
		{name: "M4 edited", mode: mode("M4"), carried: func(_ *cast, c *api.Carried) { c.Permit = edited(c.Permit, "exp", 1<<40) }, want: "signed/signature"},
		{name: "M4 unsigned, claims readable in part", mode: mode("M4-signed"), carried: func(_ *cast, c *api.Carried) {
			text := must(UnverifiedPayload(c.Permit))
			c.Permit = "x." + encoded(append(text, " more"...)) + ".y"
		}, want: "audience/absent expiry/absent seen/absent"},
		{name: "M4 seen", mode: mode("M4"), change: func(s *Situation, w *fakeWorld) { s.Seen = seen(w.permit, "") }, want: "seen/seen"},
		{name: "M4 another issuer", mode: mode("M4"), envelope: func(e *Envelope) { e.Issuer = "https://sibling.example" }, want: "signed/issuer"},
		{name: "M4 needs no proof", mode: mode("M4"), change: func(s *Situation, _ *fakeWorld) { s.Proof = "" }},

		{name: "M5 permit and proof", mode: mode("M5")},
		{name: "M5 no proof", mode: mode("M5"), change: func(s *Situation, _ *fakeWorld) { s.Proof = "" }, want: "sender/proof"},
		{name: "M5 proof by another key", mode: mode("M5"), prover: func(c *cast) holder { return c.stranger }, want: "sender/key"},
		{name: "M5 proof for another permit", mode: mode("M5"), claims: func(c map[string]any) { c["ath"] = AccessTokenHash("another") }, want: "sender/proof"},
		{name: "M5 proof replayed", mode: mode("M5"), change: func(s *Situation, _ *fakeWorld) { s.SeenProof = func(string) bool { return true } }, want: "sender/proof_replayed"},
		{name: "M5 permit for no key", mode: mode("M5"), envelope: func(e *Envelope) { e.AgentKey = "" }, want: "sender/absent"},

		{name: "M6 open window", mode: mode("M6")},
		{name: "M6 another requester", mode: mode("M6"), change: func(s *Situation, _ *fakeWorld) { s.Caller.ActsFor = "requester-2" }, want: "record/no_approval attest/absent expiry/absent"},
		{name: "M6 another challenge", mode: mode("M6"), forge: softkey.Forgery{Challenge: make([]byte, 31)}, want: "attest/challenge"},
		{name: "M6 window over", mode: mode("M6"), envelope: func(e *Envelope) { e.ExpiresAt = testNow.Unix() }, want: "expiry/expired"},
		{name: "M6 store down", mode: mode("M6"), change: func(_ *Situation, w *fakeWorld) { w.down["Window"] = true }, want: "record/unavailable attest/absent expiry/absent"},
		{name: "M6 without record: nothing to look at", mode: mode("M6-record"), want: "attest/absent expiry/absent"},

		{name: "M7 permit", mode: mode("M7")},
		{name: "M7 other arguments", mode: mode("M7"), change: func(s *Situation, _ *fakeWorld) { s.ArgsDigest = "other" }, want: "args/differs"},
		{name: "M7 another tool", mode: mode("M7"), change: func(s *Situation, _ *fakeWorld) { s.Action.Tool = "prepay" }, want: "connector/differs"},
		{name: "M7 another agent", mode: mode("M7"), change: func(s *Situation, _ *fakeWorld) { s.Caller.ID = "agent-b" }, want: "agent/differs"},
		{name: "M7 another call", mode: mode("M7"), change: place("run-1", "step-1", "call-2"), want: "call/differs"},
		{name: "M7 the run is not bound", mode: mode("M7"), change: place("run-2", "step-1", "call-1")},
		{name: "M7 expired", mode: mode("M7"), envelope: func(e *Envelope) { e.ExpiresAt = testNow.Unix() }, want: "expiry/expired"},
		{name: "M7 another secret", mode: mode("M7"), carried: func(c *cast, k *api.Carried) {
			k.Permit = must(compact(c.otherKeys.hs256.Sign(must(UnverifiedPayload(k.Permit)))))
		}, want: "signed/signature"},
		{name: "M7 edited", mode: mode("M7"), carried: func(_ *cast, c *api.Carried) { c.Permit = edited(c.Permit, "exp", 1<<40) }, want: "signed/signature"},
		{name: "M7 under the signing key", mode: mode("M7"), carried: func(c *cast, k *api.Carried) {
			k.Permit = must(c.keys.signES256(must(UnverifiedPayload(k.Permit)), jwtType))
		}, want: "signed/alg"},

		{name: "M8 recomputed", mode: mode("M8")},
		{name: "M8 another call", mode: mode("M8"), change: place("run-1", "step-1", "call-2"),
			want: "record/no_approval duties/unknown audience/absent connector/absent run/absent call/absent suspension/none seen/absent once/absent"},
		{name: "M8 suspended again, not yet decided", mode: mode("M8"), change: func(_ *Situation, w *fakeWorld) { w.latest, w.permit = Suspended{ID: "s-2", At: 8}, "another" },
			want: "record/no_approval duties/unknown audience/absent connector/absent run/absent call/absent suspension/absent seen/absent once/absent"},
		{name: "M8 suspension unreadable", mode: mode("M8"), change: func(_ *Situation, w *fakeWorld) { w.down["Permit"] = true },
			want: "record/unavailable duties/unknown audience/absent connector/absent run/absent call/absent suspension/absent seen/absent once/absent"},
		{name: "M8 another audience", mode: mode("M8"), change: func(s *Situation, _ *fakeWorld) { s.Action.Audience = "payroll.example" }, want: "audience/differs"},
		{name: "M8 another tool", mode: mode("M8"), change: func(s *Situation, _ *fakeWorld) { s.Action.Tool = "prepay" }, want: "connector/differs"},
		{name: "M8 requester decided", mode: mode("M8"), envelope: func(e *Envelope) { e.Requester = testApprover }, want: "duties/requester"},
		{name: "M8 spent", mode: mode("M8"), change: func(_ *Situation, w *fakeWorld) { w.spent = w.permit }, want: "once/spent"},
		{name: "M8 store down", mode: mode("M8"), change: func(s *Situation, _ *fakeWorld) { s.StoreErr = errDown }, want: "closed/unavailable"},

		{name: "M9 without record reads what is carried", mode: mode("M9-record"), carried: func(_ *cast, c *api.Carried) { c.Approval = "" }},
		{name: "M9 without record, other permit of ours", mode: mode("M9-record"), carried: func(c *cast, k *api.Carried) {
			k.Permit = permitFor(c, func(e *Envelope) { e.Risk = "low" })
		}, want: "challenge/differs online/risk"},
		{name: "M9 without record, owner look-up down", mode: mode("M9-record"), change: func(_ *Situation, w *fakeWorld) { w.down["Owner"] = true }, want: "duties/unknown"},
		{name: "only record and what is carried", mode: only(api.BindRecord, api.BindSigned, api.BindChallenge)},
		{name: "declined envelope", mode: only(api.BindAgent), envelope: func(e *Envelope) { e.Decision = api.Decline }, want: "agent/absent"},
		{name: "envelope of another type", mode: only(api.BindAgent), envelope: func(e *Envelope) { e.Type = "countersign/other/v1" }, want: "agent/absent"},
	}
}

var nothingHashed = sha256.Sum256(nil)

func drifted(f func(*api.Resolved)) func(*Situation, *fakeWorld) {
	return func(s *Situation, _ *fakeWorld) { f(&s.Resolved[0]) }
}

func acts(who, id string) func(*Situation, *fakeWorld) {
	return func(_ *Situation, w *fakeWorld) {
		p := w.people[who]
		p.ActsFor = id
		w.people[who] = p
	}
}

// inBetween puts n agents between the agent and its requester.
func inBetween(n int) func(*Situation, *fakeWorld) {
	return func(_ *Situation, w *fakeWorld) {
		last := w.people[testAgent]
		for i := range n {
			next := last
			next.ID = fmt.Sprint("agent-in-between-", i)
			last.ActsFor = next.ID
			w.people[last.ID] = last
			last = next
		}
		w.people[last.ID] = last
	}
}

// ownRequest is an envelope of what the approver requested, made under an opt-out.
func ownRequest(e *Envelope) { e.Requester, e.SelfApproval = testApprover, "one-person team" }

// twoStages is an envelope that testFirst approved before.
func twoStages(e *Envelope) {
	e.Stage, e.Stages, e.Earlier, e.Approvers = 2, 2, []string{testFirst}, []string{testFirst, testApprover}
}

const testFirst = "approver-1"

// first enrols an approver beside the one who decides last.
func first(id, actsFor string) func(*Situation, *fakeWorld) {
	return func(_ *Situation, w *fakeWorld) {
		w.people[id] = api.Principal{ID: id, Role: api.RolePerson, Tenant: "tenant-1", ActsFor: actsFor}
		w.approvers = []string{testFirst, testApprover}
	}
}

func needed(n int) func(*Situation, *fakeWorld) {
	return func(s *Situation, _ *fakeWorld) { s.Policy.Approvals = map[string]int{testAudience + "/pay": n} }
}

func optedOut(reason string) func(*Situation, *fakeWorld) {
	return func(_ *Situation, w *fakeWorld) { w.optOuts = map[string]string{"tenant-1/" + testApprover: reason} }
}

func actsFor(id string) func(*Situation, *fakeWorld) {
	return func(_ *Situation, w *fakeWorld) {
		p := w.people[testApprover]
		p.ActsFor = id
		w.people[testApprover] = p
	}
}

func place(run, step, call string) func(*Situation, *fakeWorld) {
	return func(s *Situation, w *fakeWorld) {
		s.Action.Run, s.Action.Step, s.Action.Call = run, step, call
		if s.Mode.Carrier == CarryBound {
			w.place = [3]string{run, step, call} // the other place was suspended at the same instant
		}
	}
}

func storeHolds(v api.Verdict) func(*Situation, *fakeWorld) {
	return storedAs(func(a *Approval) { a.Verdict = v })
}

func storedAssertion(text []byte) func(*Situation, *fakeWorld) {
	return storedAs(func(a *Approval) { a.Assertion = text })
}

func storedAs(f func(*Approval)) func(*Situation, *fakeWorld) {
	return func(_ *Situation, w *fakeWorld) {
		for _, m := range []map[string]Approval{w.approvals, w.ofRun, w.windows} {
			for k, a := range m {
				f(&a)
				m[k] = a
			}
		}
	}
}

// permitFor is a permit by the gateway's own key for an envelope that differs.
func permitFor(c *cast, f func(*Envelope)) string {
	e := c.envelope()
	f(&e)
	return must(c.keys.signES256(must(e.Text()), permitType))
}

// resigned is the same permit under other keys.
func resigned(k *Keys, permit string) string {
	return must(k.signES256(must(UnverifiedPayload(permit)), permitType))
}

// edited changes a claim and keeps header and signature.
func edited(permit, claim string, value any) string {
	var claims map[string]any
	if err := json.Unmarshal(must(UnverifiedPayload(permit)), &claims); err != nil {
		panic(err)
	}
	claims[claim] = value
	parts := strings.Split(permit, ".")
	parts[1] = encoded(must(json.Marshal(claims)))
	return strings.Join(parts, ".")
}

// built holds the situations of all rows, which are made once: a check reads only.
type built struct {
	row
	s *Situation
}

func build(t testing.TB) []built {
	t.Helper()
	var out []built
	for _, r := range slices.Concat(checkRows(), carrierRows(), runWideRows()) {
		s, err := r.situation()
		if err != nil {
			t.Fatalf("%s: %v", r.name, err)
		}
		out = append(out, built{r, s})
	}
	return out
}

// failures runs the table and says which rows come out otherwise than expected.
// With stop it ends at the first of them.
func failures(rows []built, stop bool) (out []string) {
	for _, r := range rows {
		s := *r.s
		if got := printed(Verify(context.Background(), &s)); got != r.want {
			out = append(out, fmt.Sprintf("%s (%s): refused by [%s], want [%s]", r.name, s.Mode.ID, got, r.want))
			if stop {
				break
			}
		}
	}
	return out
}

func TestEachCheckRefusesAlone(t *testing.T) {
	rows := build(t)
	for _, f := range failures(rows, false) {
		t.Error(f)
	}
	// A check changes nothing: the same situations give the same answers again.
	for _, f := range failures(rows, false) {
		t.Error("again:", f)
	}
}

// TestEveryCheckIsLoadBearing replaces each check in turn: a gate without it, and
// one that has it the wrong way round, must fail the table.
func TestEveryCheckIsLoadBearing(t *testing.T) {
	rows := build(t)
	for i := range checks {
		honest := checks[i].check
		for name, mutant := range map[string]func(*Situation) (string, string){
			"removed": func(*Situation) (string, string) { return "", "" },
			"inverted": func(s *Situation) (string, string) {
				if code, _ := honest(s); code != "" {
					return "", ""
				}
				return "inverted", ""
			},
			"always refuses": func(*Situation) (string, string) { return "always", "" },
		} {
			checks[i].check = mutant
			survived := len(failures(rows, true)) == 0
			checks[i].check = honest
			if survived {
				t.Errorf("the table does not notice that the check of %s is %s", checks[i].binding, name)
			}
		}
	}
}

// TestEveryRefusalHasARow reads checks.go: every return of a code, with its words
// where they are literal, is seen in the table.
func TestEveryRefusalHasARow(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range build(t) {
		s := *r.s
		for _, refusal := range Verify(context.Background(), &s) {
			seen[refusal.Code+": "+refusal.Detail] = true
			seen[refusal.Code] = true
		}
	}
	consts := map[string]string{"CodeUnavailable": CodeUnavailable, "CodeClock": CodeClock}
	n := 0
	for _, file := range []string{"checks.go", "situation.go", "permit.go"} {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range parsed.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(f.Name.Name, "check") && f.Name.Name != "Duties" && f.Name.Name != "Disabled" && !strings.HasSuffix(f.Name.Name, "Code") && f.Name.Name != "passkeyRefusal" {
				continue
			}
			ast.Inspect(f, func(node ast.Node) bool {
				r, ok := node.(*ast.ReturnStmt)
				if !ok || len(r.Results) == 0 {
					return true
				}
				code := literal(r.Results[0], consts)
				if code == "" {
					return true
				}
				n++
				want := code
				if len(r.Results) == 2 {
					if detail := literal(r.Results[1], nil); detail != "" {
						want += ": " + detail
					}
				}
				if !seen[want] {
					t.Errorf("%s: no row is refused with %q", f.Name.Name, want)
				}
				return true
			})
		}
	}
	if n < 60 {
		t.Errorf("found %d refusals in the source: the scan does not see them", n)
	}
	codes := []passkey.Code{
		passkey.CodeMalformed, passkey.CodeCredential, passkey.CodeAlgorithm, passkey.CodeType, passkey.CodeChallenge, passkey.CodeOrigin,
		passkey.CodeCrossOrigin, passkey.CodeRPID, passkey.CodeUP, passkey.CodeUV, passkey.CodeBackup, passkey.CodeSignature,
	}
	for _, c := range codes {
		if !seen[string(c)] {
			t.Errorf("attest: no row is refused with %q", c)
		}
	}
}

func literal(e ast.Expr, consts map[string]string) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if s, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return s
		}
	case *ast.Ident:
		return consts[e.Name]
	}
	return ""
}

// TestUnverifiedAssertion: what cannot be read as a whole is not read in part.
func TestUnverifiedAssertion(t *testing.T) {
	const good = `{"rawId":"AQ","response":{"clientDataJSON":"eyJjaGFsbGVuZ2UiOiJBZyJ9"}}`
	if id, challenge, err := unverifiedAssertion([]byte(good)); err != nil || string(id) != "\x01" || string(challenge) != "\x02" {
		t.Errorf("id %x, challenge %x, %v", id, challenge, err)
	}
	for name, text := range map[string]string{
		"more after it":     good + "x",
		"id no text":        strings.Replace(good, `"AQ"`, "7", 1),
		"id no base64url":   strings.Replace(good, `"AQ"`, `"A+"`, 1),
		"challenge no text": strings.Replace(good, "eyJjaGFsbGVuZ2UiOiJBZyJ9", encoded([]byte(`{"challenge":7}`)), 1),
		"no client data":    `{"rawId":"AQ"}`,
	} {
		if id, challenge, err := unverifiedAssertion([]byte(text)); err == nil || id != nil || challenge != nil {
			t.Errorf("%s: id %x, challenge %x, %v", name, id, challenge, err)
		}
	}
}

// TestChecksAreInOrder: refusals come in the order of api.Bindings, and every
// binding has a check but those that act elsewhere.
func TestChecksAreInOrder(t *testing.T) {
	elsewhere := NewSet(api.BindMediated, api.BindPerCall, api.BindSteer, api.BindIdem)
	var want []api.Binding
	for _, b := range api.Bindings() {
		if !elsewhere[b] {
			want = append(want, b)
		}
	}
	if len(checks) != len(want) {
		t.Fatalf("%d checks, want %d", len(checks), len(want))
	}
	for i, c := range checks {
		if c.binding != want[i] {
			t.Errorf("check %d is of %s, want %s", i, c.binding, want[i])
		}
	}
}

func TestRecheck(t *testing.T) {
	s, err := row{change: func(_ *Situation, w *fakeWorld) { w.disabled = testAgent }}.situation()
	if err != nil {
		t.Fatal(err)
	}
	verify(t, s)
	Verify(context.Background(), s)
	if r, ok := Recheck(s, api.BindOnline); ok || r.Code != "agent_disabled" {
		t.Errorf("online again: %v, %v", r, ok)
	}
	if r, ok := Recheck(s, api.BindArgs); !ok {
		t.Errorf("args again: %v", r)
	}
	s.Mode = s.Mode.Without(api.BindOnline)
	if r, ok := Recheck(s, api.BindOnline); !ok {
		t.Errorf("a binding that the mode lacks: %v", r)
	}
}

// TestCovered: only a run grant and a window cover a later proposal.
func TestCovered(t *testing.T) {
	for _, m := range All() {
		s, err := row{mode: m}.situation()
		if err != nil {
			t.Fatal(err)
		}
		want := m.ID == "M2" || m.ID == "M6"
		if got := m.Covered(context.Background(), s); got != want {
			t.Errorf("%s covers a later proposal: %v, want %v", m.ID, got, want)
		}
	}
	s, err := row{mode: mode("M2"), change: place("run-2", "s", "c")}.situation()
	if err != nil {
		t.Fatal(err)
	}
	if s.Mode.Covered(context.Background(), s) {
		t.Error("M2 covers another run")
	}
}
