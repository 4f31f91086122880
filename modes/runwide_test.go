package modes

import (
	"bytes"
	"context"
	"testing"
	"time"

	"countersign/gateway/api"
)

// forTheRun is an envelope for three calls of the run, made as the approver's side
// asks for it.
func forTheRun(e *Envelope) {
	*e = e.On(api.RunWide{Uses: 3, Until: testNow.Add(time.Minute)})
}

// allowed has the policy allow run-wide approvals of so many calls of a tool.
func allowed(tool string, uses int) func(*Situation, *fakeWorld) {
	return func(s *Situation, _ *fakeWorld) {
		s.Policy.RunWide = map[string]RunWideBounds{testAudience + "/" + tool: {Uses: uses, Seconds: 60}}
	}
}

func both(changes ...func(*Situation, *fakeWorld)) func(*Situation, *fakeWorld) {
	return func(s *Situation, w *fakeWorld) {
		for _, change := range changes {
			change(s, w)
		}
	}
}

// runWideRows: under a run-wide approval step and call may be any, and everything
// else is compared as ever. Its uses are counted by call.
func runWideRows() []row {
	without := func(bs ...api.Binding) Mode { return m9().Without(bs...) }
	down := func(method string) func(*Situation, *fakeWorld) {
		return func(_ *Situation, w *fakeWorld) { w.down[method] = true }
	}
	used := func(calls ...string) func(*Situation, *fakeWorld) {
		return func(_ *Situation, w *fakeWorld) { w.uses = calls }
	}
	saw := func(calls ...string) func(*Situation, *fakeWorld) {
		return func(s *Situation, w *fakeWorld) { s.Seen = seen(w.permit, calls...) }
	}
	neverSuspended := func(_ *Situation, w *fakeWorld) { w.place[1] = "step-2" }
	ok := allowed("pay", 3)
	rows := []row{
		{name: "the call that waited", change: ok},
		{name: "another step and call", change: both(ok, place("run-1", "step-9", "call-9"))},
		{name: "suspended at another instant", change: both(ok, func(_ *Situation, w *fakeWorld) { w.latest = Suspended{ID: "s-9", At: 9} })},
		{name: "another run", change: both(ok, place("run-2", "step-1", "call-1")), want: "run/differs"},
		{name: "other arguments", change: both(ok, func(s *Situation, _ *fakeWorld) { s.ArgsDigest = "other" }), want: "args/differs"},
		{name: "another agent", change: both(ok, func(s *Situation, _ *fakeWorld) { s.Caller.ID = "agent-b" }), want: "agent/differs"},
		{name: "another tool", change: both(ok, allowed("prepay", 3), func(s *Situation, _ *fakeWorld) { s.Action.Tool = "prepay" }), want: "connector/differs online/run_wide"},
		{name: "another version of a reference", change: both(ok, drifted(func(r *api.Resolved) { r.Version++ })), want: "refs/drift"},
		{name: "its own end", change: both(ok, func(s *Situation, _ *fakeWorld) {
			s.Now, s.HighWater = testNow.Add(time.Minute), testNow.Add(time.Minute)
		}), want: "expiry/expired"},
		{name: "withdrawn", change: both(ok, func(_ *Situation, w *fakeWorld) { w.revoked = w.permit }), want: "online/revoked"},
		{name: "no bounds now", want: "online/run_wide"},
		{name: "fewer allowed now", change: allowed("pay", 2), want: "online/run_wide"},
		{name: "allowed for another tool", change: allowed("other", 3), want: "online/run_wide"},
		{name: "more allowed now", change: allowed("pay", 4)},
		{name: "two people needed now", mode: without(api.BindRecord), change: both(ok, needed(2)), want: "online/approvals"},

		{name: "bound to another approval", mode: without(api.BindSeen, api.BindOnce), change: both(ok, func(_ *Situation, w *fakeWorld) { w.permit = "another" }), want: "suspension/differs"},
		{name: "never suspended", change: both(ok, neverSuspended), want: "suspension/none"},
		{name: "never suspended, and a call of that name has spent a use", mode: without(api.BindSuspension), change: both(ok, neverSuspended, used("step-1\x00call-1")), want: "once/spent"},
		{name: "what it is bound to is not known", change: both(ok, down("Permit")), want: "suspension/unavailable"},
		{name: "suspensions down", change: both(ok, down("Latest")), want: "suspension/unavailable seen/unavailable once/unavailable"},

		{name: "other calls seen", change: both(ok, saw("s-8", "s-9"))},
		{name: "this call seen", change: both(ok, saw("s-9", "s-1")), want: "seen/seen"},
		{name: "as many calls seen", change: both(ok, saw("s-7", "s-8", "s-9")), want: "seen/seen"},
		{name: "other calls spent uses", change: both(ok, used("s-8", "s-9"))},
		{name: "this call spent a use", change: both(ok, used("s-9", "s-1")), want: "once/spent"},
		{name: "every use spent", change: both(ok, used("s-7", "s-8", "s-9")), want: "once/spent"},
		{name: "an approval of that id spent for one call", change: both(ok, func(_ *Situation, w *fakeWorld) { w.spent = w.permit })},
		{name: "uses down", change: both(ok, down("Use")), want: "once/unavailable"},
	}
	for i := range rows {
		rows[i].name, rows[i].envelope = "run-wide: "+rows[i].name, forTheRun
	}
	return append(rows,
		row{name: "a scope of another name", envelope: func(e *Envelope) { e.Scope = "tenant" }, change: both(ok, place("run-1", "step-1", "call-2")), want: "call/differs"},
		row{name: "three uses without the scope", envelope: func(e *Envelope) { e.Uses = 3 }, change: func(_ *Situation, w *fakeWorld) { w.spent = w.permit }, want: "once/spent"},
	)
}

// TestScopeOfOneCallIsNotWritten: the envelope of one call is the text that it was
// before there were others, and one text means each.
func TestScopeOfOneCallIsNotWritten(t *testing.T) {
	one := theCast().envelope()
	text := must(one.Text())
	if bytes.Contains(text, []byte(`"scope"`)) {
		t.Errorf("the envelope of one call has a scope: %s", text)
	}
	if _, err := ParseEnvelope(bytes.Replace(text, []byte(`"run":`), []byte(`"scope":"","run":`), 1)); err == nil {
		t.Error("an empty scope was read")
	}
	run := one.On(api.RunWide{Uses: 3, Until: testNow})
	back, err := ParseEnvelope(must(run.Text()))
	if err != nil || !back.RunWide() || back.Uses != 3 || back.ExpiresAt != testNow.Unix() || back.Step != "" || back.Call != "" || back.Run != one.Run {
		t.Errorf("%+v, %v", back, err)
	}
}

// TestCovers: a proposal is granted under a run-wide approval that is for it and in
// force, whatever is carried, and under no other.
func TestCovers(t *testing.T) {
	terms := &api.RunWide{Uses: 3, Until: testNow.Add(time.Minute)}
	nothingCarried := func(_ *cast, c *api.Carried) { *c = api.Carried{} }
	for _, r := range []row{
		{name: "equal", change: both(allowed("pay", 3), place("run-1", "step-9", "call-9"))},
		{name: "never suspended, no proof", change: both(allowed("pay", 3), func(s *Situation, w *fakeWorld) { s.Proof, w.place[1] = "", "step-9" })},
		{name: "two of three used", change: both(allowed("pay", 3), func(_ *Situation, w *fakeWorld) { w.uses = []string{"s-1", "s-2"} })},
		{name: "all used", change: both(allowed("pay", 3), func(_ *Situation, w *fakeWorld) { w.uses = []string{"s-1", "s-2", "s-3"} }), want: "once/spent"},
		{name: "all seen", change: both(allowed("pay", 3), func(s *Situation, w *fakeWorld) { s.Seen = seen(w.permit, "s-1", "s-2", "s-3") }), want: "seen/seen"},
		{name: "not allowed any more", want: "online/run_wide"},
		{name: "over", change: both(allowed("pay", 3), func(s *Situation, _ *fakeWorld) { s.Now, s.HighWater = terms.Until, terms.Until }), want: "expiry/expired"},
		{name: "another run", change: both(allowed("pay", 3), place("run-2", "step-1", "call-1")), want: "run/differs"},
		{name: "another agent", change: both(allowed("pay", 3), func(s *Situation, _ *fakeWorld) { s.Caller.ID = "agent-b" }), want: "agent/differs"},
		{name: "another tenant", change: both(allowed("pay", 3), func(s *Situation, _ *fakeWorld) { s.Caller.Tenant = "tenant-2" }), want: "audience/tenant"},
		{name: "other arguments", change: both(allowed("pay", 3), func(s *Situation, _ *fakeWorld) { s.ArgsDigest = "other" }), want: "args/differs"},
		{name: "references gone", change: both(allowed("pay", 3), func(s *Situation, _ *fakeWorld) { s.Resolved = nil }), want: "refs/drift"},
		{name: "another schema", change: both(allowed("pay", 3), func(s *Situation, _ *fakeWorld) { s.ToolDigest = "other" }), want: "connector/schema"},
		{name: "the approver is one no more", change: both(allowed("pay", 3), func(_ *Situation, w *fakeWorld) { w.approvers = []string{"approver-9"} }), want: "duties/not_eligible"},
		{name: "two people needed", change: both(allowed("pay", 3), needed(2)), want: "record/too_few online/approvals"},
		{name: "uses not known", change: both(allowed("pay", 3), func(_ *Situation, w *fakeWorld) { w.down["Use"] = true }), want: "once/unavailable"},
	} {
		r.envelope, r.carried = forTheRun, nothingCarried
		s, err := r.situation()
		if err != nil {
			t.Fatal(err)
		}
		var a Approval
		for _, stored := range s.Records.(*fakeWorld).approvals {
			a = stored
		}
		a.RunWide = terms
		c := *s
		if got := printed(Covers(context.Background(), &c, a)); got != r.want {
			t.Errorf("%s: refused by [%s], want [%s]", r.name, got, r.want)
		}
		a.RunWide = nil
		if got := printed(Covers(context.Background(), &c, a)); got != "record/no_approval" {
			t.Errorf("%s, without terms on record: refused by [%s]", r.name, got)
		}
		a.RunWide, a.Verdict = terms, api.Decline
		if got := printed(Covers(context.Background(), &c, a)); got != "record/no_approval" {
			t.Errorf("%s, declined: refused by [%s]", r.name, got)
		}
	}
	s, err := row{change: allowed("pay", 3)}.situation()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range s.Records.(*fakeWorld).approvals {
		a.RunWide = terms
		if got := printed(Covers(context.Background(), s, a)); got != "record/no_approval" {
			t.Errorf("the approval of one call with terms beside it: refused by [%s]", got)
		}
	}
}
