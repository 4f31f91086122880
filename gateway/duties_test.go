package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
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
