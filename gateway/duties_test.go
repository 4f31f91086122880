package gateway_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"countersign/gateway/api"
	"countersign/gateway/store"
	"countersign/modes"
)

// optOut records that a person may approve its own requests; without a reason, that
// it may not.
func (w *world) optOut(person, reason string) {
	w.t.Helper()
	e := api.Event{Kind: api.EventAllowSelfApproval, Subject: person, Value: reason}
	if reason == "" {
		e.Kind = api.EventForbidSelfApproval
	}
	must(w.t, w.target.Admin(ctx, auth("admin"), e))
}

const oneTeam = "one-person\u202e team"

// TestOptOut: a requester with a recorded opt-out may approve its own request, which
// view, envelope, approval and log say. It has to stand from the proposal to the
// send.
func TestOptOut(t *testing.T) {
	for _, mode := range []string{"M8", "M9"} {
		s := store.NewMemory()
		w := newWorldOn(t, mode, s)
		before := w.pending(w.action("pay", 1))
		w.optOut("requester-r", oneTeam)
		if got := refusedBy(w.decide(before, "requester-r", api.Approve)); got != "duties/requester" {
			t.Errorf("%s: a request from before the opt-out: %s", mode, got)
		}
		a := w.action("pay", 2)
		id := w.pending(a)
		for _, other := range []string{"agent-a", "agent-b"} {
			err := w.target.Decide(ctx, auth(other), api.Decision{Suspension: id, Verdict: api.Approve, Assertion: nil})
			if got := refusedBy(err); !strings.Contains(got, "duties/") {
				t.Errorf("%s: %s decides under the opt-out of its person: %s", mode, other, got)
			}
		}
		must(t, w.decide(id, "requester-r", api.Approve))
		w.expect(mode+", own request", w.collect(a, id), api.Executed, "", 1)

		const said = "self-approval allowed by opt-out: one-person⟨U+202E⟩ team"
		v, err := w.target.View(ctx, auth("requester-r"), id)
		must(t, err)
		if want := []string{"requester-r asks for this and may approve it; " + said}; !slices.Equal(v.Notes, want) {
			t.Errorf("%s: the view has the notes %q, want %q", mode, v.Notes, want)
		}
		for medium, text := range v.Rendered {
			if !strings.Contains(text, "may approve it") {
				t.Errorf("%s: as %s the view does not say so:\n%s", mode, medium, text)
			}
		}
		var approval modes.Approval
		var e modes.Envelope
		w.stored(s, "approval", a.Run, &approval)
		must(t, json.Unmarshal(approval.EnvelopeText, &e))
		if approval.Approver != "requester-r" || approval.SelfApproval != oneTeam || e.SelfApproval != oneTeam {
			t.Errorf("%s: approved by %s, opt-out %q, in the envelope %q", mode, approval.Approver, approval.SelfApproval, e.SelfApproval)
		}
		if got := w.notes("admin:allow_self_approval:requester-r"); !slices.Equal(got, []string{oneTeam}) {
			t.Errorf("%s: the log notes of the opt-out %q", mode, got)
		}
		if got := w.notes("decide:approve"); got[len(got)-1] != said {
			t.Errorf("%s: the log notes of the decisions %q", mode, got)
		}
	}
}

// stored reads the newest row of a kind.
func (w *world) stored(s store.Store, kind, key string, into any) {
	w.t.Helper()
	rows, err := s.Find(ctx, kind, key)
	must(w.t, err)
	if len(rows) == 0 {
		w.t.Fatalf("there is no %s with the key %s", kind, key)
	}
	must(w.t, json.Unmarshal(rows[0].Body, into))
}

// notes are those of the log's entries of an event.
func (w *world) notes(event string) (out []string) {
	w.t.Helper()
	for _, e := range w.entries() {
		if e.Event == event {
			out = append(out, e.Note)
		}
	}
	return out
}

// TestOptOutIsNobodyElses: it changes nothing for anybody but the requester, and
// nothing is said of it where it was not used.
func TestOptOutIsNobodyElses(t *testing.T) {
	s := store.NewMemory()
	w := newWorldOn(t, "M9", s)
	w.optOut("approver-2", oneTeam)
	if got := refusedBy(w.decide(w.pending(w.action("pay", 1)), "requester-r", api.Approve)); got != "duties/requester" {
		t.Errorf("under another person's opt-out: %s", got)
	}
	w.optOut("requester-r", oneTeam)
	a := w.action("pay", 2)
	id := w.pending(a)
	must(t, w.decide(id, "approver-p", api.Approve))
	w.expect("decided by another", w.collect(a, id), api.Executed, "", 1)
	var approval modes.Approval
	w.stored(s, "approval", a.Run, &approval)
	if got := w.notes("decide:approve"); got[1] != "" || approval.SelfApproval != "" {
		t.Errorf("decided by another: the log notes %q, the approval %q", got, approval.SelfApproval)
	}
	must(t, w.decide(w.pending(w.action("pay", 3)), "requester-r", api.Decline))
	if got := w.notes("decide:decline"); !slices.Equal(got, []string{""}) {
		t.Errorf("declined by the requester: the log notes %q", got)
	}

	w = newWorld(t, "M9-duties")
	w.optOut("requester-r", oneTeam)
	id = w.pending(w.action("pay", 1))
	v, err := w.target.View(ctx, auth("requester-r"), id)
	must(t, err)
	must(t, w.decide(id, "requester-r", api.Approve))
	if got := w.notes("decide:approve"); len(v.Notes) != 0 || got[0] != "" {
		t.Errorf("without duties: the view notes %q, the log %q", v.Notes, got)
	}
}

// TestOptOutWithdrawn: it stands at the decision, at the dispatch and before the
// send, or nothing happens.
func TestOptOutWithdrawn(t *testing.T) {
	for _, mode := range []string{"M8", "M9"} {
		w := newWorld(t, mode)
		w.optOut("requester-r", oneTeam)
		a := w.action("pay", 1)
		id := w.pending(a)
		w.optOut("requester-r", "")
		if got := refusedBy(w.decide(id, "requester-r", api.Approve)); got != "duties/opt_out" {
			t.Errorf("%s: withdrawn before the decision: %s", mode, got)
		}
		w.optOut("requester-r", oneTeam)
		must(t, w.decide(id, "requester-r", api.Approve))
		d := w.collect(a, id)
		w.optOut("requester-r", "another reason")
		w.expect(mode+", replaced before the dispatch", d, api.Refused, "duties/opt_out", 0)
		w.optOut("requester-r", "")
		w.expect(mode+", withdrawn before the dispatch", d, api.Refused, "duties/opt_out", 0)
		w.optOut("requester-r", oneTeam)
		w.lab.At(api.StepConsumed, func(context.Context) error { w.optOut("requester-r", ""); return nil })
		w.expect(mode+", withdrawn before the send", d, api.Refused, "duties/opt_out", 0)
	}
	w := newWorld(t, "M9")
	for kind, value := range map[api.EventKind]string{api.EventAllowSelfApproval: oneTeam, api.EventForbidSelfApproval: ""} {
		if err := w.target.Admin(ctx, auth("admin"), api.Event{Kind: kind, Subject: "nobody", Value: value}); !errors.Is(err, api.ErrNotFound) {
			t.Errorf("%s for nobody: %v", kind, err)
		}
		if err := w.target.Admin(ctx, auth("requester-r"), api.Event{Kind: kind, Subject: "requester-r", Value: value}); !errors.Is(err, api.ErrForbidden) {
			t.Errorf("%s by the person itself: %v", kind, err)
		}
	}
}

// needPeople has the policy ask for so many people to approve a tool of the bank.
func (w *world) needPeople(tool string, n int) {
	w.t.Helper()
	must(w.t, w.target.Admin(ctx, auth("admin"), api.Event{Kind: api.EventApprovals, Subject: "bank.example/" + tool, Value: fmt.Sprint(n)}))
}

func (w *world) viewed(id, person string) api.View {
	w.t.Helper()
	v, err := w.target.View(ctx, auth(person), id)
	must(w.t, err)
	return v
}

// stageLine is what a view says of its stage.
func stageLine(v api.View) string {
	var lines []string
	for _, f := range v.Fields {
		if f.Path == "#stage" {
			lines = append(lines, f.Text)
		}
	}
	return fmt.Sprint(v.Stage, " ", strings.Join(lines, " | "))
}

// TestStages: where two people have to approve, the approval of the first opens a
// second stage of the same suspension, with a view, an envelope and a challenge of
// its own, and authorises nothing, however the design carries approvals.
func TestStages(t *testing.T) {
	for _, mode := range []string{"M1", "M2", "M3", "M4", "M5", "M6", "M7", "M8", "M9", "M9-record"} {
		s := store.NewMemory()
		w := newWorldOn(t, mode, s)
		w.needPeople("pay", 2)
		a := w.action("pay", 1)
		id := w.pending(a)
		one := w.viewed(id, "approver-p")
		must(t, w.decide(id, "approver-p", api.Approve))
		if st, err := w.target.Status(ctx, auth("agent-a"), id); err != nil || st.Decided || !reflect.DeepEqual(st.Carried, api.Carried{}) {
			t.Errorf("%s: after one approval: %+v, %v", mode, st, err)
		}
		if o := w.dispatch(w.collect(a, id)); o.Status != api.Refused || len(w.prov.Ledger()) != 0 {
			t.Errorf("%s: after one approval: %s [%s], %d effects", mode, o.Status, codes(o.Refusals), len(w.prov.Ledger()))
		}
		if p, err := w.target.Propose(ctx, auth("agent-a"), w.action("wire", 1)); err != nil || p.State != api.StatePending {
			t.Errorf("%s: after one approval another call is %s, %v", mode, p.State, err)
		}
		two := w.viewed(id, "approver-2")
		if got, want := stageLine(one)+", "+stageLine(two), "1 1 of 2, 2 2 of 2, after approver-p"; got != want {
			t.Errorf("%s: the views say %q, want %q", mode, got, want)
		}
		if len(one.Fields) != len(two.Fields) || one.Digest != "" && one.Digest == two.Digest || one.Assertion != nil && string(one.Assertion) == string(two.Assertion) {
			t.Errorf("%s: the views of the stages are\n%+v\n%+v", mode, one, two)
		}
		must(t, w.decide(id, "approver-2", api.Approve))
		w.expect(mode+", after two approvals", w.collect(a, id), api.Executed, "", 1)

		var last modes.Approval
		var e modes.Envelope
		w.stored(s, "approval", a.Run, &last)
		must(t, json.Unmarshal(last.EnvelopeText, &e))
		if last.Approver != "approver-2" || e.Stage != 2 || e.Stages != 2 || !slices.Equal(e.Earlier, []string{"approver-p"}) {
			t.Errorf("%s: approved by %s, stage %d of %d after %v", mode, last.Approver, e.Stage, e.Stages, e.Earlier)
		}
		var opened struct{ After modes.Approval }
		w.stored(s, "stage", "", &opened)
		if opened.After.Approver != "approver-p" || opened.After.Verdict != api.Approve || opened.After.DecidedAt.IsZero() {
			t.Errorf("%s: the stage was opened by %+v", mode, opened.After)
		}
		if got, want := w.notes("decide:approve"), []string{"approval 1 of 2", "approval 2 of 2"}; !slices.Equal(got, want) {
			t.Errorf("%s: the log notes %q, want %q", mode, got, want)
		}
	}
	w := newWorld(t, "M9")
	w.enrol(api.Principal{ID: "approver-3", Role: api.RolePerson, Tenant: "tenant-1", Approver: true})
	w.needPeople("pay", 3)
	a := w.action("pay", 1)
	id := w.pending(a)
	for i, person := range []string{"approver-p", "approver-3", "approver-2"} {
		if st, err := w.target.Status(ctx, auth("agent-a"), id); err != nil || st.Decided {
			t.Errorf("after %d of three approvals: %+v, %v", i, st, err)
		}
		must(t, w.decide(id, person, api.Approve))
	}
	if got, want := stageLine(w.viewed(id, "approver-p")), "3 3 of 3, after approver-p, approver-3"; got != want {
		t.Errorf("the third view says %q, want %q", got, want)
	}
	w.expect("after three approvals", w.collect(a, id), api.Executed, "", 1)
	if v := w.viewed(w.pending(w.action("wire", 1)), "approver-p"); stageLine(v) != "0 " {
		t.Errorf("where one has to approve: %q", stageLine(v))
	}
}

// TestOnePersonTwoStages: with duties the stages are for as many people; an opt-out
// changes nothing of that.
func TestOnePersonTwoStages(t *testing.T) {
	for _, mode := range []string{"M8", "M9", "M9-record"} {
		w := newWorld(t, mode)
		w.enrol(api.Principal{ID: "deputy-p", Role: api.RolePerson, Tenant: "tenant-1", Approver: true, ActsFor: "approver-p"})
		w.optOut("requester-r", oneTeam)
		w.needPeople("pay", 2)
		a := w.action("pay", 1)
		id := w.pending(a)
		must(t, w.decide(id, "approver-p", api.Approve))
		for _, person := range []string{"approver-p", "deputy-p"} {
			if got := refusedBy(w.decide(id, person, api.Approve)); got != "duties/same_person" {
				t.Errorf("%s: approver-p, then %s: %s", mode, person, got)
			}
		}
		must(t, w.decide(id, "requester-r", api.Approve))
		w.expect(mode+", another and the opted-out requester", w.collect(a, id), api.Executed, "", 1)
		if got := w.notes("decide:approve"); !strings.HasPrefix(got[len(got)-1], "approval 2 of 2; self-approval allowed") {
			t.Errorf("%s: the log notes %q", mode, got)
		}
		id = w.pending(w.action("pay", 2))
		must(t, w.decide(id, "requester-r", api.Approve))
		if got := refusedBy(w.decide(id, "requester-r", api.Approve)); got != "duties/same_person" {
			t.Errorf("%s: the opted-out requester twice: %s", mode, got)
		}
	}
	w := newWorld(t, "M9-duties")
	w.needPeople("pay", 2)
	a := w.action("pay", 1)
	id := w.pending(a)
	must(t, w.decide(id, "approver-p", api.Approve))
	must(t, w.decide(id, "approver-p", api.Approve))
	w.expect("without duties", w.collect(a, id), api.Executed, "", 1)
}

// TestStageDecisions: a decision is for the stage whose view it was made on, a no
// and a withdrawal are for all of them.
func TestStageDecisions(t *testing.T) {
	w := newWorld(t, "M3") // asks for no assertion, so that the number alone tells stages apart
	w.needPeople("pay", 2)
	a := w.action("pay", 1)
	id := w.pending(a)
	post := func(person string, stage int64, v api.Verdict) error {
		return w.target.Decide(ctx, auth(person), api.Decision{Suspension: id, Verdict: v, Stage: stage})
	}
	conflict := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, api.ErrConflict) {
			t.Errorf("%s: %v, want a conflict", what, err)
		}
	}
	conflict("no stage", post("approver-p", 0, api.Approve))
	conflict("the second stage, which is not open", post("approver-p", 2, api.Approve))
	must(t, post("approver-p", 1, api.Approve))
	conflict("the first stage, posted again", post("approver-p", 1, api.Approve))
	conflict("the first stage, by another", post("approver-2", 1, api.Approve))
	must(t, post("approver-2", 0, api.Decline)) // a no needs no stage
	conflict("the second stage, after a no", post("approver-2", 2, api.Approve))
	if st, err := w.target.Status(ctx, auth("agent-a"), id); err != nil || st.Verdict != api.Decline {
		t.Errorf("after a no in the second stage: %+v, %v", st, err)
	}
	w.expect("after a no", w.collect(a, id), api.Refused, "record/no_approval expiry/absent seen/absent", 0)

	id = w.pending(w.action("pay", 2))
	must(t, post("approver-p", 1, api.Decline))
	conflict("the first stage, after a no", post("approver-2", 1, api.Approve))
	if v := w.viewed(id, "approver-2"); v.Stage != 1 {
		t.Errorf("after a no in the first stage the stage is %d", v.Stage)
	}
	id = w.pending(w.action("wire", 1))
	conflict("a stage where one has to approve", post("approver-p", 1, api.Approve))

	w = newWorld(t, "M9")
	w.needPeople("pay", 2)
	a = w.action("pay", 1)
	id = w.pending(a)
	early := w.assertion(id, "approver-2")
	must(t, w.decide(id, "approver-p", api.Approve))
	err := w.target.Decide(ctx, auth("approver-2"), api.Decision{Suspension: id, Verdict: api.Approve, Stage: 2, Assertion: early})
	if got := refusedBy(err); got != "attest/challenge" {
		t.Errorf("an assertion of the first stage in the second: %s", got)
	}
	must(t, w.target.Admin(ctx, auth("admin"), api.Event{Kind: api.EventRevoke, Subject: id}))
	must(t, w.decide(id, "approver-2", api.Approve))
	w.expect("withdrawn between the stages", w.collect(a, id), api.Refused, "online/revoked", 0)

	a = w.action("pay", 2)
	id = w.pending(a)
	must(t, w.decide(id, "approver-p", api.Approve))
	must(t, w.decide(id, "approver-2", api.Approve))
	w.removePasskeys("approver-p")
	w.expect("the first approver removed", w.collect(a, id), api.Refused, "online/approver_removed", 0)
}

// TestStageThatCannotBeSealed: an envelope that says more than can be signed opens no
// stage, and the suspension waits for the first one still.
func TestStageThatCannotBeSealed(t *testing.T) {
	s := store.NewMemory()
	w := newWorldOn(t, "M3", s)
	w.needPeople("pay", 2)
	id := w.pending(w.action("pay", 1))
	d := w.approval(id, "approver-p")
	altered(t, s, "suspension", "waiting", func(body map[string]any) {
		text, err := base64.StdEncoding.DecodeString(body["envelope"].(string))
		must(t, err)
		// No double has this value, so that it has no canonical form.
		body["envelope"] = regexp.MustCompile(`"exp":\d+`).ReplaceAll(text, []byte(`"exp":9007199254740993`))
	})
	if err := w.target.Decide(ctx, auth("approver-p"), d); err == nil {
		t.Error("the first stage is approved")
	}
	if v := w.viewed(id, "approver-2"); v.Stage != 1 {
		t.Errorf("the stage is %d", v.Stage)
	}
}

// TestPeopleNeeded: an approval by fewer people than the policy asks for now is
// asked for again, in as many stages; an approval by more is good.
func TestPeopleNeeded(t *testing.T) {
	for mode, refused := range map[string]string{"M3": "record/too_few", "M8": "record/too_few", "M9": "record/too_few online/approvals", "M9-record": "online/approvals"} {
		w := newWorld(t, mode)
		a := w.action("pay", 1)
		d := w.approved(a)
		w.needPeople("wire", 3)
		w.needPeople("pay", 2)
		o := w.dispatch(d)
		if o.Status != api.Reasked || codes(o.Refusals) != refused {
			t.Fatalf("%s: %s [%s], want it asked again for %s", mode, o.Status, codes(o.Refusals), refused)
		}
		must(t, w.decide(o.Suspension, "approver-p", api.Approve))
		must(t, w.decide(o.Suspension, "approver-2", api.Approve))
		w.needPeople("pay", 1)
		w.expect(mode+", approved by two", w.collect(a, o.Suspension), api.Executed, "", 1)
	}
	for _, mode := range []string{"M2", "M6"} {
		w := newWorld(t, mode)
		w.dispatch(w.approved(w.action("pay", 1)))
		w.needPeople("wire", 2)
		for tool, want := range map[string]api.PendingState{"pay": api.StateGranted, "wire": api.StatePending} {
			if p, err := w.target.Propose(ctx, auth("agent-a"), w.action(tool, 1)); err != nil || p.State != want {
				t.Errorf("%s: %s after one approval of pay: %s, %v", mode, tool, p.State, err)
			}
		}
		w.expect(mode+", not asked", api.Dispatch{Action: w.action("wire", 2)}, api.Reasked, "record/too_few", 1)
	}
	for _, mode := range []string{"M1", "M3", "M9-closed"} {
		w := newWorld(t, mode)
		w.lab.Fault(api.DepPolicy, api.FaultDown)
		if p, err := w.target.Propose(ctx, auth("agent-a"), w.action("pay", 1)); !errors.Is(err, api.ErrUnavailable) {
			t.Errorf("%s: a proposal without a policy: %+v, %v", mode, p, err)
		}
	}
}
