package softkey_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"countersign/modes/passkey"
	"countersign/oracles/softkey"
)

const origin = "https://approve.example"

var challenge = bytes.Repeat([]byte{0x5A}, 32)

func relyingParty(t *testing.T, origin string) *passkey.RelyingParty {
	t.Helper()
	rp, err := passkey.New(origin)
	if err != nil {
		t.Fatal(err)
	}
	return rp
}

func register(t *testing.T, rp *passkey.RelyingParty, k *softkey.Key, owner string) passkey.Credential {
	t.Helper()
	options, err := rp.CreationOptions(owner, challenge)
	if err != nil {
		t.Fatal(err)
	}
	response, err := k.Register(options)
	if err != nil {
		t.Fatal(err)
	}
	c, err := rp.VerifyRegistration(owner, challenge, response)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func request(t *testing.T, rp *passkey.RelyingParty, allowed ...passkey.Credential) json.RawMessage {
	t.Helper()
	options, err := rp.RequestOptions(challenge, allowed)
	if err != nil {
		t.Fatal(err)
	}
	return options
}

// The honest key satisfies the gateway's verifier, many keys over: a coordinate
// with a leading zero byte turns up about once in 128 keys.
func TestHonest(t *testing.T) {
	for _, o := range []string{origin, "https://approve.example:8443", "http://localhost:8080"} {
		rp := relyingParty(t, o)
		for range 100 {
			k := softkey.New(o)
			c := register(t, rp, k, "person-1")
			for want := uint32(1); want <= 2; want++ {
				response, err := k.Assert(request(t, rp, c))
				if err != nil {
					t.Fatal(err)
				}
				v, err := rp.VerifyAssertion(passkey.Assertion{
					Response: response, Challenge: challenge, Credentials: []passkey.Credential{c}, CheckCounter: true,
				})
				if err != nil {
					t.Fatal(err)
				}
				if v.SignCount != want || v.Credential.Owner != "person-1" {
					t.Fatalf("verified %+v, want count %d", v, want)
				}
				c.SignCount = v.SignCount
			}
		}
	}
}

// Each forgery is refused by the check it is aimed at; an empty one by none.
func TestForge(t *testing.T) {
	counter := uint32(1)
	tests := []struct {
		name string
		f    softkey.Forgery
		want passkey.Code
	}{
		{"nothing", softkey.Forgery{}, ""},
		{"type", softkey.Forgery{Type: "webauthn.create"}, passkey.CodeType},
		{"challenge", softkey.Forgery{Challenge: []byte("another challenge")}, passkey.CodeChallenge},
		{"origin", softkey.Forgery{Origin: "https://approve.example:8443"}, passkey.CodeOrigin},
		{"cross origin", softkey.Forgery{CrossOrigin: true}, passkey.CodeCrossOrigin},
		{"top origin", softkey.Forgery{TopOrigin: origin}, passkey.CodeCrossOrigin},
		{"relying party", softkey.Forgery{RPID: "evil.example"}, passkey.CodeRPID},
		{"not present", softkey.Forgery{ClearUP: true}, passkey.CodeUP},
		{"not verified", softkey.Forgery{ClearUV: true}, passkey.CodeUV},
		{"backup state", softkey.Forgery{BackupState: true}, passkey.CodeBackup},
		{"counter", softkey.Forgery{Counter: &counter}, passkey.CodeCounter},
		{"altered", softkey.Forgery{AlterAfterSigning: true}, passkey.CodeSignature},
		{"other key", softkey.Forgery{OtherKey: true}, passkey.CodeSignature},
		{"unregistered", softkey.Forgery{UnregisteredKey: true}, passkey.CodeCredential},
		{"user handle", softkey.Forgery{UserHandle: []byte("person-2")}, passkey.CodeCredential},
		{"extra bytes", softkey.Forgery{ExtraAuthData: []byte{0}}, passkey.CodeMalformed},
	}
	rp := relyingParty(t, origin)
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			k := softkey.New(origin)
			c := register(t, rp, k, "person-1")
			for range 2 { // the next count is 3
				if _, err := k.Assert(request(t, rp, c)); err != nil {
					t.Fatal(err)
				}
			}
			c.SignCount = 2
			response, err := k.Forge(request(t, rp, c), tc.f)
			if err != nil {
				t.Fatal(err)
			}
			_, err = rp.VerifyAssertion(passkey.Assertion{
				Response: response, Challenge: challenge, Credentials: []passkey.Credential{c}, CheckCounter: true,
			})
			var refusal *passkey.Error
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tc.want != "" && (!errors.As(err, &refusal) || refusal.Code != tc.want):
				t.Errorf("got %v, want code %q", err, tc.want)
			}
			// A forgery does not spoil the key.
			response, err = k.Assert(request(t, rp, c))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := rp.VerifyAssertion(passkey.Assertion{
				Response: response, Challenge: challenge, Credentials: []passkey.Credential{c}, CheckCounter: true,
			}); err != nil {
				t.Errorf("the honest assertion after the forgery is refused: %v", err)
			}
		})
	}
}

// A browser lets a page use passkeys of its own host and of registrable suffixes
// of it, and no others.
func TestRelyingPartyBelongsToOrigin(t *testing.T) {
	creation := func(id string) json.RawMessage {
		return json.RawMessage(`{"publicKey":{"rp":{"id":"` + id + `","name":"x"},"user":{"id":"AQ","name":"x","displayName":"x"},
			"challenge":"` + base64.RawURLEncoding.EncodeToString(challenge) + `","pubKeyCredParams":[{"type":"public-key","alg":-7}]}}`)
	}
	assertion := func(id string) json.RawMessage {
		return json.RawMessage(`{"publicKey":{"rpId":"` + id + `","challenge":"AAAA"}}`)
	}
	for _, tc := range []struct {
		origin, id string
		ok         bool
	}{
		{"https://www.approve.example", "www.approve.example", true},
		{"https://www.approve.example", "approve.example", true},
		{"https://www.approve.example", "", true},
		{"http://localhost:8080", "localhost", true},
		{"https://www.approve.example", "example", false},
		{"https://www.approve.example", "evil.example", false},
		{"https://www.approve.example", "a.www.approve.example", false},
		{"https://evilapprove.example", "approve.example", false},
		{"https://approve.example", "approve.example:443", false},
		{"http://approve.example", "approve.example", false},
		{"approve.example", "approve.example", false},
		{"", "", false},
	} {
		k := softkey.New(tc.origin)
		if _, err := k.Register(creation(tc.id)); (err == nil) != tc.ok || err != nil && !strings.Contains(err.Error(), "origin") {
			t.Errorf("registering %q from %q: %v", tc.id, tc.origin, err)
		}
		if _, err := k.Assert(assertion(tc.id)); (err == nil) != tc.ok || err != nil && !strings.Contains(err.Error(), "origin") {
			t.Errorf("asserting for %q from %q: %v", tc.id, tc.origin, err)
		}
	}
}

func TestCredentialsAreKeptApart(t *testing.T) {
	rp := relyingParty(t, origin)
	k, other := softkey.New(origin), softkey.New(origin)
	first, second := register(t, rp, k, "person-1"), register(t, rp, k, "person-1")
	foreign := register(t, rp, other, "person-2")

	ids := func(raw json.RawMessage) string {
		var r struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(raw, &r); err != nil {
			t.Fatal(err)
		}
		return r.ID
	}
	for _, tc := range []struct {
		name    string
		allowed []passkey.Credential
		want    []byte
	}{
		{"newest of two", []passkey.Credential{first, second}, second.ID},
		{"the allowed one", []passkey.Credential{foreign, first}, first.ID},
	} {
		response, err := k.Assert(request(t, rp, tc.allowed...))
		if err != nil {
			t.Fatal(err)
		}
		if want := base64.RawURLEncoding.EncodeToString(tc.want); ids(response) != want {
			t.Errorf("%s: asserted by %s, want %s", tc.name, ids(response), want)
		}
	}
	if _, err := k.Assert(request(t, rp, foreign)); err == nil {
		t.Error("asserted although none of its credentials is allowed")
	}
	if _, err := k.Forge(request(t, rp, foreign), softkey.Forgery{}); err == nil {
		t.Error("forged for a credential it does not have")
	}
	if _, err := softkey.New(origin).Assert(request(t, rp, first)); err == nil {
		t.Error("an empty key asserted")
	}
}

func TestBadOptions(t *testing.T) {
	good := `{"publicKey":{"rp":{"id":"approve.example"},"user":{"id":"AQ"},"challenge":"AAAA","pubKeyCredParams":[{"type":"public-key","alg":-7}]}}`
	k := softkey.New(origin)
	response, err := k.Register(json.RawMessage(good))
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(response, &r); err != nil {
		t.Fatal(err)
	}
	for name, options := range map[string]string{
		"empty":              ``,
		"no publicKey":       `{"challenge":"AAAA"}`,
		"no challenge":       strings.Replace(good, `"AAAA"`, `""`, 1),
		"bad challenge":      strings.Replace(good, `"AAAA"`, `"AAAA+"`, 1),
		"no user":            strings.Replace(good, `"AQ"`, `""`, 1),
		"no common key type": strings.Replace(good, `-7`, `-8`, 1),
		"excluded":           strings.Replace(good, `"rp"`, `"excludeCredentials":[{"type":"public-key","id":"`+r.ID+`"}],"rp"`, 1),
	} {
		if _, err := k.Register([]byte(options)); err == nil {
			t.Errorf("%s: registered", name)
		}
	}
	for name, options := range map[string]string{
		"empty": ``, "no publicKey": `{"challenge":"AAAA"}`, "no challenge": `{"publicKey":{"rpId":"approve.example"}}`,
	} {
		if _, err := k.Assert([]byte(options)); err == nil {
			t.Errorf("%s: asserted", name)
		}
		if _, err := k.Forge([]byte(options), softkey.Forgery{}); err == nil {
			t.Errorf("%s: forged", name)
		}
	}
}

// Every assertion has its own count, however many callers there are.
func TestConcurrentUse(t *testing.T) {
	rp := relyingParty(t, origin)
	k := softkey.New(origin)
	c := register(t, rp, k, "person-1")
	options := request(t, rp, c)
	counts := make([]uint32, 32)
	var wg sync.WaitGroup
	for i := range counts {
		wg.Go(func() {
			use := k.Assert
			if i%2 == 1 {
				use = func(o json.RawMessage) (json.RawMessage, error) { return k.Forge(o, softkey.Forgery{}) }
			}
			response, err := use(options)
			if err != nil {
				t.Error(err)
				return
			}
			v, err := rp.VerifyAssertion(passkey.Assertion{Response: response, Challenge: challenge, Credentials: []passkey.Credential{c}})
			if err != nil {
				t.Error(err)
			}
			counts[i] = v.SignCount
		})
	}
	wg.Wait()
	seen := map[uint32]bool{}
	for _, n := range counts {
		if seen[n] {
			t.Errorf("count %d was used twice", n)
		}
		seen[n] = true
	}
}

// Whatever a target asks for: a passkey answers with JSON or refuses, keeps a new
// credential only when it says so, signs the challenge that was asked for, and never
// for a relying party that its page does not belong to.
func FuzzOptions(f *testing.F) {
	rp, err := passkey.New(origin)
	if err != nil {
		f.Fatal(err)
	}
	creation, err := rp.CreationOptions("p-anna", challenge)
	if err != nil {
		f.Fatal(err)
	}
	requested := json.RawMessage(`{"publicKey":{"challenge":"` + base64.RawURLEncoding.EncodeToString(challenge) + `","rpId":"approve.example"}}`)
	for _, text := range []string{string(creation), string(requested), `{"publicKey":{}}`, `{"publicKey":null}`,
		`{"publicKey":{"challenge":"AAAA","rpId":"example","rp":{"id":"other.example"},"user":{"id":"YQ"},"pubKeyCredParams":[{"type":"public-key","alg":-257}]}}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		k := softkey.New(origin)
		_, before := k.Assert(requested)
		if before == nil {
			t.Fatal("a key without a passkey asserts")
		}
		made, err := k.Register(text)
		if _, after := k.Assert(requested); (err == nil) != (made != nil) || err != nil && after == nil {
			t.Fatalf("registered %q: %v; asserting: %v", made, err, after)
		}
		if err == nil {
			checkAnswer(t, text, made, "webauthn.create")
		}
		if _, err := k.Register(creation); err != nil {
			t.Fatal(err)
		}
		if asserted, err := k.Assert(text); err == nil {
			checkAnswer(t, text, asserted, "webauthn.get")
		} else if asserted != nil {
			t.Error("an assertion beside an error")
		}
		if forged, err := k.Forge(text, softkey.Forgery{ClearUV: true}); err == nil && !json.Valid(forged) {
			t.Errorf("forged %q", forged)
		}
	})
}

// checkAnswer says what is wrong with an answer to options.
func checkAnswer(t *testing.T, options, answer []byte, typ string) {
	t.Helper()
	var asked struct {
		PublicKey struct {
			Challenge string
			RPID      string
			RP        struct{ ID string }
		}
	}
	var got struct {
		Response struct{ ClientDataJSON string }
	}
	if err := errors.Join(json.Unmarshal(options, &asked), json.Unmarshal(answer, &got)); err != nil {
		t.Fatal(err)
	}
	id := asked.PublicKey.RPID
	if typ == "webauthn.create" {
		id = asked.PublicKey.RP.ID
	}
	if id != "" && id != "approve.example" {
		t.Fatalf("answered for the relying party %q from a page of %s", id, origin)
	}
	text, err := base64.RawURLEncoding.DecodeString(got.Response.ClientDataJSON)
	if err != nil {
		t.Fatal(err)
	}
	var client struct{ Type, Challenge, Origin string }
	if err := json.Unmarshal(text, &client); err != nil {
		t.Fatal(err)
	}
	want, _ := base64.RawURLEncoding.DecodeString(asked.PublicKey.Challenge)
	signed, err := base64.RawURLEncoding.DecodeString(client.Challenge)
	if err != nil || client.Type != typ || client.Origin != origin || len(want) == 0 || !bytes.Equal(signed, want) {
		t.Fatalf("asked for %q, and signed %s", asked.PublicKey.Challenge, text)
	}
}
