package gateway

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

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
		alert             api.Alert
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

// TestUncertain: which answers say for certain what became of the call.
func TestUncertain(t *testing.T) {
	for status, want := range map[int]bool{
		0: true, 103: true, 199: true, 200: false, 201: false, 299: false, 300: true, 307: true, 399: true,
		400: false, 404: false, 407: false, 408: true, 409: false, 422: false, 424: false, 425: true, 426: false, 428: false,
		429: true, 431: false, 498: false, 499: true, 500: true, 502: true, 503: true, 504: true, 599: true, 600: true,
	} {
		if got := uncertain(api.ProviderResult{Status: status}, nil); got != want {
			t.Errorf("status %d: uncertain %v, want %v", status, got, want)
		}
	}
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{api.ErrNotSent, false}, {api.ErrNoAnswer, true}, {errors.New("anything else"), true},
		{&api.ProviderError{Status: 503, Code: "clock"}, false}, {&api.ProviderError{Status: 412, Code: "precondition"}, false},
		{&api.ProviderError{Status: 412, Code: "late"}, true},
	} {
		if got := uncertain(api.ProviderResult{Status: 200}, tt.err); got != tt.want {
			t.Errorf("%v: uncertain %v, want %v", tt.err, got, tt.want)
		}
	}
}

// TestAnswer: what the provider says, in the words of an outcome or an error.
func TestAnswer(t *testing.T) {
	refused := func(code string) error { return &api.ProviderError{Status: 409, Code: code} }
	for _, tt := range []struct {
		res      api.ProviderResult
		err      error
		status   api.Status
		refusals string
		fails    error
		words    string
	}{
		{api.ProviderResult{Status: 200}, nil, api.Executed, "", nil, ""},
		{api.ProviderResult{Status: 200, Replayed: true}, nil, api.Absorbed, "", nil, ""},
		{api.ProviderResult{Status: 400}, nil, "", "", api.ErrInvalid, "status 400"},
		{api.ProviderResult{Status: 408}, nil, "", "", api.ErrUnavailable, "may have been made"},
		{api.ProviderResult{Status: 500, Replayed: true}, nil, "", "", api.ErrUnavailable, "may have been made"},
		{api.ProviderResult{Status: 500}, api.ErrNoAnswer, "", "", api.ErrUnavailable, "may have been made"},
		{api.ProviderResult{Replayed: true}, api.ErrNoAnswer, "", "", api.ErrUnavailable, "may have been made"},
		{api.ProviderResult{}, api.ErrNotSent, "", "", api.ErrUnavailable, "cannot be reached"},
		{api.ProviderResult{}, errors.New("anything else"), "", "", api.ErrUnavailable, "may have been made"},
		{api.ProviderResult{}, refused("precondition"), api.Refused, "refs/precondition", nil, ""},
		{api.ProviderResult{}, refused("key_reuse"), api.Refused, "idem/key_reuse", nil, ""},
		{api.ProviderResult{}, refused("credential"), "", "", api.ErrInvalid, "credential"},
	} {
		o, err := new(Gateway).answer(tt.res, tt.err)
		got := ""
		for _, r := range o.Refusals {
			got += string(r.Binding) + "/" + r.Code
		}
		if o.Status != tt.status || got != tt.refusals || !errors.Is(err, tt.fails) || err != nil && !strings.Contains(err.Error(), tt.words) {
			t.Errorf("%+v, %v: %+v, %v", tt.res, tt.err, o, err)
		}
	}
}

// TestProofsAreRemembered for as long as they would be accepted, and not for ever.
func TestProofsAreRemembered(t *testing.T) {
	start := time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)
	g := &Gateway{proofs: [2]map[string]bool{{}, {}}}
	if g.hasSeenProof("p") || !g.markProof("p", start) {
		t.Error("a fresh proof is not")
	}
	at := func(after time.Duration, want bool) {
		t.Helper()
		// Another proof lets the periods pass.
		if !g.markProof(after.String(), start.Add(after)) {
			t.Errorf("after %s, another proof is not fresh", after)
		}
		if got := g.hasSeenProof("p"); got != want {
			t.Errorf("after %s, remembered: %v, want %v", after, got, want)
		}
		if want && g.markProof("p", start.Add(after)) {
			t.Errorf("after %s it is fresh", after)
		}
	}
	at(time.Second, true)
	at(2*modes.ProofWindow, true)
	at(2*modes.ProofWindow+time.Second, true) // the next period
	at(4*modes.ProofWindow, true)
	at(4*modes.ProofWindow+2*time.Second, false)
}

// TestSightingsAreRemembered for as long as expiry lets a permit pass, and where it has
// an end not for ever: a gateway that goes on for months keeps those of the last while.
func TestSightingsAreRemembered(t *testing.T) {
	start := time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)
	const lasts, many = 900, 50 * firstSweep
	for _, mode := range []string{"M9", "M9-expiry"} {
		m, err := modes.Get(mode)
		if err != nil {
			t.Fatal(err)
		}
		g, most := &Gateway{mode: m, seen: map[string]sighting{}, sweepSeen: firstSweep}, 0
		see := func(n int, call string) {
			g.highWater = start.Add(time.Duration(n) * time.Second)
			g.markSeen(&modes.Situation{Call: call, Evidence: modes.Evidence{Envelope: modes.Envelope{Permit: strconv.Itoa(n), ExpiresAt: g.highWater.Unix() + lasts}}})
		}
		for n := range many {
			see(n, "call")
			see(n, "call") // again
			see(n, "another")
			most = max(most, len(g.seen))
			if old := max(0, n-lasts+1); n%100 == 0 && !slices.Equal(g.hasSeen(strconv.Itoa(old)), []string{"call", "another"}) {
				t.Fatalf("%s: permit %d is forgotten at %d", mode, old, n)
			}
		}
		if bounded := most <= firstSweep; bounded != m.Has(api.BindExpiry) || !bounded && most != many {
			t.Errorf("%s: %d of %d permits are remembered", mode, most, many)
		}
	}
}

func TestThumbprint(t *testing.T) {
	seed := make([]byte, 32)
	seed[0] = 1
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), seed)
	if err != nil {
		t.Fatal(err)
	}
	text := func(k any) []byte {
		b, err := jose.JSONWebKey{Key: k}.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	public := text(&key.PublicKey)
	if thumbprint(public) == "" {
		t.Error("a public key has none")
	}
	for name, k := range map[string][]byte{
		"nothing": nil, "no JSON": []byte("x"), "no key": []byte("{}"), "a private key": text(key), "a secret": text(seed),
		"a key with the digest of no certificate": bytes.Replace(public, []byte("{"), []byte(`{"x5t":"AA",`), 1),
	} {
		if got := thumbprint(k); got != "" {
			t.Errorf("%s has one: %s", name, got)
		}
	}
}
