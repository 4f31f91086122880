package referee_test

import (
	"strings"
	"testing"
	"time"

	"countersign/attacks/referee"
	"countersign/gateway/api"
)

// forTheRun makes the view that was decided on one for so many calls of the run
// within ten minutes, and the effect one of another call than the one that waited.
func forTheRun(h *referee.History, uses string) {
	change(h, 5, 0, referee.RunWideBounded, "bank/pay", "9 15m")
	h.Reviews[0].View.Fields = append(h.Reviews[0].View.Fields,
		api.ViewField{Path: "#uses", Text: uses}, api.ViewField{Path: "#until", Text: start.Add(10 * time.Minute).Format(time.RFC3339)})
	elsewhere(&h.Dispatches[0], "2")
}

func elsewhere(d *referee.Dispatch, n string) {
	d.Step, d.Call, d.Suspension = "step-"+n, "call-"+n, "sus-"+n
}

// another adds an equal effect of one more call of the run.
func another(h *referee.History, n string) {
	d, e := h.Dispatches[0], h.Effects[len(h.Effects)-1]
	d.RequestID, d.Entered = "req-"+n, e.Tick+10
	elsewhere(&d, n)
	e.RequestID, e.Tick = d.RequestID, e.Tick+20
	h.Dispatches, h.Effects = append(h.Dispatches, d), append(h.Effects, e)
}

// at moves the dispatch and the effect.
func at(h *referee.History, after time.Duration) {
	h.Dispatches[0].Time, h.Effects[0].Time = start.Add(after), start.Add(after)
}

// line replaces a line of the view that was decided on; no text: removes it.
func line(h *referee.History, path, text string) {
	fields := h.Reviews[0].View.Fields
	h.Reviews[0].View.Fields = nil
	for _, f := range fields {
		if f.Path == path {
			f.Text = text
		}
		if f.Text != "" {
			h.Reviews[0].View.Fields = append(h.Reviews[0].View.Fields, f)
		}
	}
}

// TestRunWide: what the view said that was decided on, the calls of the run, so many
// of them, until then, is authorised, and nothing beside it.
func TestRunWide(t *testing.T) {
	wide := func(more ...func(*referee.History)) func(*referee.History) {
		return func(h *referee.History) {
			forTheRun(h, "2")
			for _, f := range more {
				f(h)
			}
		}
	}
	for _, tt := range []struct {
		name string
		with func(*referee.History)
		want string // reasons of the last effect
	}{
		{"another step and call", wide(), ""},
		{"the call that waited", wide(func(h *referee.History) { elsewhere(&h.Dispatches[0], "1") }), ""},
		{"two calls of two", wide(func(h *referee.History) { another(h, "3") }), ""},
		{"three calls of two", wide(func(h *referee.History) { another(h, "3"); another(h, "4") }), "spent"},
		{"one call twice", wide(func(h *referee.History) { another(h, "2") }), "spent"},
		{"a call of that name that was suspended again", wide(func(h *referee.History) { another(h, "2"); h.Dispatches[1].Suspension = "sus-9" }), ""},
		{"three calls, and the third approved for itself", wide(func(h *referee.History) {
			another(h, "3")
			another(h, "4")
			r := history().Reviews[0]
			r.Tick, r.Step, r.Call, r.Suspension = 60, "step-4", "call-4", "sus-4"
			h.Reviews = append(h.Reviews, r)
		}), ""},
		// Of two approvals that are as good, the one for the call alone is used up.
		{"two calls of two beside one that was approved for itself", wide(func(h *referee.History) {
			another(h, "3")
			another(h, "4")
			r := history().Reviews[0]
			r.Step, r.Call, r.Suspension = "step-2", "call-2", "sus-2"
			h.Reviews = append(h.Reviews, r)
		}), ""},
		{"another run", wide(func(h *referee.History) { h.Dispatches[0].Run = "run-2" }), "origin:run"},
		{"another agent", wide(func(h *referee.History) { h.Dispatches[0].Agent = "agent-2" }), "origin:agent"},
		{"another amount", wide(func(h *referee.History) { h.Effects[0].Values["/amount"] = raw("9900") }), "content:/amount shown:/amount"},
		{"another tool", wide(func(h *referee.History) { h.Effects[0].Tool = "refund" }), "content:tool"},
		{"a second before its end", wide(func(h *referee.History) { at(h, 10*time.Minute-time.Second) }), ""},
		{"its end, which is before that of one call", wide(func(h *referee.History) { at(h, 10*time.Minute) }), "stale:expired"},
		{"an end after that of one call", wide(func(h *referee.History) {
			line(h, "#until", start.Add(14*time.Minute).Format(time.RFC3339))
			h.Reviews[0].Expires = start.Add(time.Minute)
			at(h, 13*time.Minute)
		}), ""},
		{"withdrawn", wide(func(h *referee.History) { change(h, 15, 0, referee.ApprovalRevoked, "sus-1", "") }), "stale:revoked"},
		{"policy changed", wide(func(h *referee.History) { change(h, 15, 0, referee.PolicyChanged, "", "policy-2") }), "stale:policy"},
		{"approved by the requester", wide(func(h *referee.History) { h.Reviews[0].Approver = "asker" }), "who:requester"},

		{"no bounds", wide(func(h *referee.History) { h.Changes = nil }), "stale:run_wide"},
		{"bounds of another tool", wide(func(h *referee.History) { h.Changes[0].Subject = "bank/refund" }), "stale:run_wide"},
		{"bounds that came after the decision", wide(func(h *referee.History) { h.Changes[0].Tick = 10 }), "stale:run_wide"},
		{"forbidden before the decision", wide(func(h *referee.History) { change(h, 6, 0, referee.RunWideBounded, "bank/pay", "") }), "stale:run_wide"},
		{"more calls than were allowed", wide(func(h *referee.History) { h.Changes[0].Value = "1 15m" }), "stale:run_wide"},
		{"longer than was allowed", wide(func(h *referee.History) { h.Changes[0].Value = "9 9m" }), "stale:run_wide"},
		{"forbidden before the dispatch", wide(func(h *referee.History) { change(h, 15, 0, referee.RunWideBounded, "bank/pay", "") }), "stale:run_wide"},
		{"fewer allowed before the dispatch", wide(func(h *referee.History) { change(h, 15, 0, referee.RunWideBounded, "bank/pay", "1 15m") }), "stale:run_wide"},
		{"fewer allowed of another tool", wide(func(h *referee.History) { change(h, 15, 0, referee.RunWideBounded, "bank/refund", "") }), ""},
		{"a shorter time allowed before the dispatch", wide(func(h *referee.History) { change(h, 15, 0, referee.RunWideBounded, "bank/pay", "9 1s") }), ""},
		{"forbidden and allowed again", wide(func(h *referee.History) {
			change(h, 15, 0, referee.RunWideBounded, "bank/pay", "")
			change(h, 16, 0, referee.RunWideBounded, "bank/pay", "2 15m")
		}), ""},
		{"forbidden for one call", func(h *referee.History) { change(h, 15, 0, referee.RunWideBounded, "bank/pay", "") }, ""},

		{"the view names no number", wide(func(h *referee.History) { line(h, "#uses", "") }), "origin:call origin:step origin:suspension"},
		{"the view names no end", wide(func(h *referee.History) { line(h, "#until", "") }), "origin:call origin:step origin:suspension"},
		{"a number that is none", wide(func(h *referee.History) { line(h, "#uses", "many") }), "origin:call origin:step origin:suspension"},
		{"an end that is none", wide(func(h *referee.History) { line(h, "#until", "soon") }), "origin:call origin:step origin:suspension"},
		{"two numbers and no end", wide(func(h *referee.History) {
			line(h, "#until", "")
			h.Reviews[0].View.Fields = append(h.Reviews[0].View.Fields, api.ViewField{Path: "#uses", Text: "2"})
		}), "origin:call origin:step origin:suspension"},
	} {
		if got := judged(t, tt.with); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	for _, bounds := range []string{"many", "2", "2 soon", "two 1m"} {
		h := history()
		change(&h, 5, 0, referee.RunWideBounded, "bank/pay", bounds)
		if _, err := referee.Judge(h); err == nil || !strings.Contains(err.Error(), "bank/pay") {
			t.Errorf("bounds %q: %v", bounds, err)
		}
	}
}
