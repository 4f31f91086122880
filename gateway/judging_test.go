package gateway

import (
	"testing"

	"countersign/gateway/api"
	"countersign/modes"
)

// refusals writes them as binding, code, binding, code, …
func refusals(words ...string) []api.Refusal {
	var out []api.Refusal
	for i := 0; i < len(words); i += 2 {
		out = append(out, api.Refusal{Binding: api.Binding(words[i]), Code: words[i+1]})
	}
	return out
}

// TestJudging: what an outcome is made of, for every word that counts and for the
// same word of another binding.
func TestJudging(t *testing.T) {
	for _, tt := range []struct {
		refusals          []api.Refusal
		spent, wait, asks bool
		alert             string
	}{
		{refusals("once", "spent"), true, false, false, "presented after consumption"},
		{refusals("seen", "seen"), true, false, false, "presented after consumption"},
		{refusals("once", "absent"), false, false, false, ""},
		{refusals("seen", "absent"), false, false, false, ""},
		{refusals("call", "spent"), false, false, false, ""},
		{refusals("call", "seen"), false, false, false, ""},
		{refusals("once", "absent", "seen", "seen"), true, false, false, "presented after consumption"},
		{refusals("args", "differs"), false, false, false, "hash differs"},
		{refusals("args", "absent"), false, false, false, ""},
		{refusals("audience", "differs"), false, false, false, "audience mismatch"},
		{refusals("audience", "absent"), false, false, false, ""},
		{refusals("call", "differs"), false, false, false, ""},
		{refusals("once", modes.CodeUnavailable), false, true, false, ""},
		{refusals("expiry", modes.CodeClock), false, true, false, ""},
		{refusals("expiry", modes.CodeClock, "call", "differs"), false, false, false, ""},
		{refusals("refs", "drift"), false, false, true, ""},
		{refusals("refs", "precondition"), false, false, true, ""},
		{refusals("refs", "absent"), false, false, false, ""},
		{refusals("call", "drift"), false, false, false, ""},
		{refusals("call", "precondition"), false, false, false, ""},
		{refusals("online", "policy"), false, false, true, ""},
		{refusals("online", "risk"), false, false, true, ""},
		{refusals("online", "revoked"), false, false, false, ""},
		{refusals("call", "policy"), false, false, false, ""},
		{refusals("call", "risk"), false, false, false, ""},
		{refusals("refs", "drift", "online", "risk"), false, false, true, ""},
		{refusals("refs", "drift", "call", "differs"), false, false, false, ""},
	} {
		rs := tt.refusals
		if got := spent(rs); got != tt.spent {
			t.Errorf("%v: spent %v", rs, got)
		}
		if got := allWait(rs); got != tt.wait {
			t.Errorf("%v: waits %v", rs, got)
		}
		if got := asksAgain(rs); got != tt.asks {
			t.Errorf("%v: asks again %v", rs, got)
		}
		if got := alert(api.Outcome{Status: api.Refused, Refusals: rs}); got != tt.alert {
			t.Errorf("%v: alert %q, want %q", rs, got, tt.alert)
		}
	}
	if got := alert(api.Outcome{Status: api.Absorbed}); got != "presented after consumption" {
		t.Errorf("absorbed: alert %q", got)
	}
	if got := alert(api.Outcome{Status: api.Executed}); got != "" {
		t.Errorf("executed: alert %q", got)
	}
	if !only(refusals("once", "x", "seen", "y"), api.BindOnce, api.BindSeen) || only(refusals("once", "x", "call", "y"), api.BindOnce) {
		t.Error("only does not say whether other bindings refuse")
	}
}
