package attacks

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"countersign/gateway/lab"
	"countersign/modes"
	"countersign/oracles"
	"countersign/scenarios"
)

// stageOf is a stage over a built-in mode, with what its worker holds after an
// honest approval.
func stageOf(t *testing.T, mode string) (s *Stage, c *Call, m Message) {
	t.Helper()
	built, err := modes.Get(mode)
	if err != nil {
		t.Fatal(err)
	}
	oracle, ok := oracles.Named("faithful")
	if !ok {
		t.Fatal("there is no faithful approver")
	}
	s, err = NewStage(context.Background(), lab.Deploy(built), scenarios.All()[0], 1, oracle)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Perform(func(s *Stage) {
		c = s.Call(0)
		m = s.Ask(c)
	}); err != nil {
		t.Fatal(err)
	}
	return s, c, m
}

func payloadOf(t *testing.T, permit string) map[string]json.RawMessage {
	t.Helper()
	text, err := base64.RawURLEncoding.DecodeString(strings.Split(permit, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]json.RawMessage
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestEditPermit: only named members that are there change; header and signature
// stay, so that a gate which verifies the signature must notice.
func TestEditPermit(t *testing.T) {
	for _, mode := range []string{"M4", "M5", "M7", "M9"} {
		_, _, m := stageOf(t, mode)
		permit := m.Dispatch.Carried.Permit
		got, err := editPermit(permit, map[string]any{"exp": 4102444800, "no_such_claim": "x"})
		if err != nil {
			t.Fatalf("%s: %v", mode, err)
		}
		was, is := strings.Split(permit, "."), strings.Split(got, ".")
		if was[0] != is[0] || was[2] != is[2] {
			t.Errorf("%s: header or signature changed", mode)
		}
		old, edited := payloadOf(t, permit), payloadOf(t, got)
		if string(edited["exp"]) != "4102444800" {
			t.Errorf("%s: exp is %s", mode, edited["exp"])
		}
		if !slices.Equal(slices.Sorted(maps.Keys(old)), slices.Sorted(maps.Keys(edited))) {
			t.Errorf("%s: members were added or lost: %v", mode, slices.Sorted(maps.Keys(edited)))
		}
		for name, v := range old {
			if name != "exp" && !equalJSON(t, v, edited[name]) {
				t.Errorf("%s: %s changed from %s to %s", mode, name, v, edited[name])
			}
		}
	}
}

func equalJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	x, err := canonicalText(wrap(a))
	if err != nil {
		t.Fatal(err)
	}
	y, err := canonicalText(wrap(b))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Equal(x, y)
}

func wrap(v []byte) []byte { return append(append([]byte(`{"v":`), v...), '}') }

func TestEditPermitLeavesAloneWhatItCannotEdit(t *testing.T) {
	encoded := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	for _, permit := range []string{
		"", "an id", "a.b", "a.b.c.d",
		encoded(`{}`) + ".not base64.c",
		encoded(`{}`) + "." + encoded("no JSON") + ".c",
		encoded(`{}`) + "." + encoded(`["exp"]`) + ".c",
		encoded(`{}`) + "." + encoded(`{"aud":"x"}`) + ".c",         // no such member
		encoded(`{}`) + "." + encoded(`{"exp":0,"aud":"x"}`) + ".c", // carried and not used
		encoded(`{}`) + "." + encoded(`{"exp":""}`) + ".c",
	} {
		if got, err := editPermit(permit, map[string]any{"exp": 1}); err != nil || got != permit {
			t.Errorf("%q became %q (%v)", permit, got, err)
		}
	}
	// A number that no double holds survives an edit of another member.
	big := encoded(`{}`) + "." + encoded(`{"exp":1,"jti":"x"}`) + ".c"
	if got, err := editPermit(big, map[string]any{"exp": int64(1767604500)}); err != nil || string(payloadOf(t, got)["exp"]) != "1767604500" {
		t.Errorf("exp became %s (%v)", payloadOf(t, got)["exp"], err)
	}
}

// TestEditAssertion: the challenge becomes the digest of the edited permit, and
// nothing else changes, the signature included.
func TestEditAssertion(t *testing.T) {
	_, _, m := stageOf(t, "M9")
	permit, err := editPermit(m.Dispatch.Carried.Permit, map[string]any{"exp": 4102444800})
	if err != nil {
		t.Fatal(err)
	}
	got, err := editAssertion(m.Dispatch.Carried.Assertion, permit)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(permit, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256(payload)
	was, wasClient := assertionOf(t, m.Dispatch.Carried.Assertion)
	is, isClient := assertionOf(t, got)
	if want := base64.RawURLEncoding.EncodeToString(digest[:]); isClient["challenge"] != want {
		t.Errorf("the challenge is %v, want %s", isClient["challenge"], want)
	}
	if isClient["challenge"] == wasClient["challenge"] {
		t.Error("the challenge was this one before: the test shows nothing")
	}
	delete(wasClient, "challenge")
	delete(isClient, "challenge")
	if !maps.Equal(wasClient, isClient) {
		t.Errorf("client data changed from %v to %v", wasClient, isClient)
	}
	delete(was, "clientDataJSON")
	delete(is, "clientDataJSON")
	if !maps.Equal(was, is) {
		t.Errorf("the response changed from %v to %v", was, is)
	}
	for _, a := range []json.RawMessage{nil, {}} {
		if got, err := editAssertion(a, permit); err != nil || len(got) != 0 {
			t.Errorf("where no assertion is carried, %s is made (%v)", got, err)
		}
	}
	if _, err := editAssertion(json.RawMessage("no JSON"), permit); err == nil {
		t.Error("an assertion that cannot be read was edited")
	}
}

func assertionOf(t *testing.T, text []byte) (response map[string]string, client map[string]any) {
	t.Helper()
	var a struct {
		Response map[string]json.RawMessage `json:"response"`
	}
	if err := json.Unmarshal(text, &a); err != nil {
		t.Fatal(err)
	}
	response = map[string]string{}
	for k, v := range a.Response {
		response[k] = string(v)
	}
	var encoded string
	if err := json.Unmarshal(a.Response["clientDataJSON"], &encoded); err != nil {
		t.Fatal(err)
	}
	data, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &client); err != nil {
		t.Fatal(err)
	}
	return response, client
}

// TestForgedPermitIsCompleteAndUnauthentic: a forgery must fail for its signature
// and for nothing that the forger forgot. It has every member that a genuine
// permit has, with the same value wherever the forger can know it.
func TestForgedPermitIsCompleteAndUnauthentic(t *testing.T) {
	for _, mode := range []string{"M4", "M7", "M9"} {
		s, c, m := stageOf(t, mode)
		genuine := payloadOf(t, m.Dispatch.Carried.Permit)
		for forgery, alg := range map[forgery]string{unsigned: "none", forgersKey: "ES256", embeddedKey: "ES256", knownSecret: "HS256", confusedKey: "HS256"} {
			permit := s.forgedPermit(c, forgery)
			forged := payloadOf(t, permit)
			for name, v := range genuine {
				switch name {
				case "cnf": // of M4 and M5; the envelope of M9 has no such member and would be unreadable with it
				case "jti", "view_sha256": // random, and of a view that the agent does not see
					if forged[name] == nil {
						t.Errorf("%s: the forgery lacks %s", mode, name)
					}
				default:
					if forged[name] == nil || !equalJSON(t, v, forged[name]) {
						t.Errorf("%s: %s is %s in the forgery and %s in the genuine permit", mode, name, forged[name], v)
					}
				}
			}
			header, err := base64.RawURLEncoding.DecodeString(strings.Split(permit, ".")[0])
			if err != nil {
				t.Fatal(err)
			}
			var h struct {
				Alg, Kid, Typ string
				JWK           json.RawMessage
			}
			if err := json.Unmarshal(header, &h); err != nil {
				t.Fatal(err)
			}
			if h.Alg != alg || h.Kid == "" || h.Typ == "" || (h.JWK != nil) != (forgery == embeddedKey) {
				t.Errorf("%s: the header is %s, want algorithm %s", mode, header, alg)
			}
			if _, err := jose.ParseSignedCompact(permit, []jose.SignatureAlgorithm{jose.ES256}); (err == nil) != (alg == "ES256") {
				t.Errorf("%s: reading a permit under %s as ES256: %v", mode, alg, err)
			}
		}
	}
}

// TestShuffle: the order of a race is a permutation and a function of the seed.
func TestShuffle(t *testing.T) {
	orders := map[string]bool{}
	for seed := range uint64(50) {
		a, b := []int{0, 1, 2, 3, 4, 5, 6, 7}, []int{0, 1, 2, 3, 4, 5, 6, 7}
		shuffle(a, seed)
		shuffle(b, seed)
		if !slices.Equal(a, b) {
			t.Fatalf("seed %d gives %v and %v", seed, a, b)
		}
		text, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		orders[string(text)] = true
		slices.Sort(a)
		if !slices.Equal(a, []int{0, 1, 2, 3, 4, 5, 6, 7}) {
			t.Fatalf("seed %d gives %s, which is no permutation", seed, text)
		}
	}
	if len(orders) < 40 {
		t.Errorf("50 seeds give %d orders", len(orders))
	}
}
