package passkey

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/protocol/webauthncbor"
	"github.com/google/go-cmp/cmp"
)

const (
	testOrigin = "https://approve.example"
	testOwner  = "person-1"
)

var testChallenge = bytes.Repeat([]byte{0xA5}, 32)

// An authenticator makes one response, as honest as its members say, and signs at
// the last moment. newAuthenticator sets all of them to honest values.
type authenticator struct {
	key     *ecdsa.PrivateKey // signs
	id      []byte
	cose    []byte // the public key in the attested credential data
	typ     string
	chal    string
	client  map[string]any // further members of the client data
	rpID    string
	flags   byte
	counter uint32
	at      bool // attested credential data in the authenticator data
	tail    []byte
	outer   map[string]any // members of the response that replace the honest ones
	handle  []byte
	fmt     string
	stmt    map[string]any
	tamper  func(auth, client, sig []byte) // after signing
}

const (
	flagUP, flagUV, flagBE, flagBS, flagAT = 1 << 0, 1 << 2, 1 << 3, 1 << 4, 1 << 6
)

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// fixedKey is the same in every process, as the corpus of a fuzz target needs it.
func fixedKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), bytes.Repeat([]byte{3}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func coseKey(t testing.TB, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	point, err := key.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return coseMap(t, map[int]any{1: 2, 3: -7, -1: 1, -2: point[1:33], -3: point[33:]})
}

func coseMap(t testing.TB, m map[int]any) []byte {
	t.Helper()
	b, err := webauthncbor.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func newAuthenticator(t testing.TB, key *ecdsa.PrivateKey) *authenticator {
	return &authenticator{
		key: key, id: []byte("credential-1"), cose: coseKey(t, key),
		typ: "webauthn.get", chal: encode(testChallenge),
		client: map[string]any{"origin": testOrigin, "crossOrigin": false, "other_keys_may_come": "as they like"},
		rpID:   "approve.example", flags: flagUP | flagUV, counter: 7,
		handle: []byte(testOwner),
	}
}

// sign returns client data, authenticator data and the signature over both.
func (a *authenticator) sign(t testing.TB) (client, auth, sig []byte) {
	t.Helper()
	members := map[string]any{"type": a.typ, "challenge": a.chal}
	for k, v := range a.client {
		members[k] = v
	}
	client, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	hash := sha256.Sum256([]byte(a.rpID))
	flags := a.flags
	if a.at {
		flags |= flagAT
	}
	auth = append(hash[:], flags)
	auth = binary.BigEndian.AppendUint32(auth, a.counter)
	if a.at {
		auth = append(auth, make([]byte, 16)...) // AAGUID
		auth = binary.BigEndian.AppendUint16(auth, uint16(len(a.id)))
		auth = append(append(auth, a.id...), a.cose...)
	}
	auth = append(auth, a.tail...)
	clientHash := sha256.Sum256(client)
	digest := sha256.Sum256(append(bytes.Clone(auth), clientHash[:]...))
	if sig, err = ecdsa.SignASN1(rand.Reader, a.key, digest[:]); err != nil {
		t.Fatal(err)
	}
	if a.tamper != nil {
		a.tamper(auth, client, sig)
	}
	return client, auth, sig
}

func (a *authenticator) respond(t testing.TB, response map[string]any) json.RawMessage {
	t.Helper()
	out := map[string]any{"id": encode(a.id), "rawId": encode(a.id), "type": "public-key", "response": response}
	for k, v := range a.outer {
		out[k] = v
	}
	b, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (a *authenticator) assert(t testing.TB) json.RawMessage {
	client, auth, sig := a.sign(t)
	return a.respond(t, map[string]any{
		"clientDataJSON": encode(client), "authenticatorData": encode(auth),
		"signature": encode(sig), "userHandle": encode(a.handle),
	})
}

func (a *authenticator) register(t testing.TB) json.RawMessage {
	client, auth, sig := a.sign(t)
	stmt := a.stmt
	if a.fmt == "packed" {
		stmt = map[string]any{"alg": -7, "sig": sig}
		for k, v := range a.stmt {
			stmt[k] = v
		}
	}
	object, err := webauthncbor.Marshal(map[string]any{"fmt": a.fmt, "attStmt": stmt, "authData": auth})
	if err != nil {
		t.Fatal(err)
	}
	return a.respond(t, map[string]any{"clientDataJSON": encode(client), "attestationObject": encode(object)})
}

func testRP(t testing.TB) *RelyingParty {
	t.Helper()
	rp, err := New(testOrigin)
	if err != nil {
		t.Fatal(err)
	}
	return rp
}

// checkCode demands that err refuses with exactly this code ("" for none).
func checkCode(t *testing.T, err error, want Code) {
	t.Helper()
	var refusal *Error
	switch {
	case want == "" && err != nil:
		t.Errorf("refused: %v", err)
	case want == "":
	case !errors.As(err, &refusal):
		t.Errorf("got %v, want a refusal with code %q", err, want)
	case refusal.Code != want:
		t.Errorf("refused by %q (%s), want %q", refusal.Code, refusal.Detail, want)
	case refusal.Detail == "" || !strings.HasPrefix(err.Error(), "passkey: "+string(want)+": "):
		t.Errorf("the refusal %q does not say what is wrong", err)
	}
}

// Every row is valid and freshly signed except for one thing. The rows at the end
// break two things, and the earlier check must be the one that is reported.
func TestVerifyAssertion(t *testing.T) {
	key := newKey(t)
	ed25519 := coseMap(t, map[int]any{1: 1, 3: -8, -1: 6, -2: bytes.Repeat([]byte{9}, 32)})
	set := func(k string, v any) func(*authenticator, *Assertion) {
		return func(a *authenticator, _ *Assertion) { a.client[k] = v }
	}
	origin := func(o string) func(*authenticator, *Assertion) { return set("origin", o) }
	outer := func(k string, v any) func(*authenticator, *Assertion) {
		return func(a *authenticator, _ *Assertion) { a.outer = map[string]any{k: v} }
	}
	raw := func(edit func(json.RawMessage) json.RawMessage) func(*authenticator, *Assertion) {
		return func(a *authenticator, as *Assertion) { as.Response = edit(a.assert(t)) }
	}
	tests := []struct {
		name string
		edit func(*authenticator, *Assertion)
		want Code
	}{
		{"honest", nil, ""},
		{"no user handle", func(a *authenticator, _ *Assertion) { a.handle = nil }, ""},
		{"crossOrigin absent", func(a *authenticator, _ *Assertion) { delete(a.client, "crossOrigin") }, ""},
		{"a second credential is enrolled", func(_ *authenticator, as *Assertion) {
			as.Credentials = append(as.Credentials, Credential{ID: []byte("other"), Owner: "person-2"})
		}, ""},

		{"empty", raw(func(json.RawMessage) json.RawMessage { return nil }), CodeMalformed},
		{"not JSON", raw(func(json.RawMessage) json.RawMessage { return json.RawMessage("{") }), CodeMalformed},
		{"trailing JSON", raw(func(r json.RawMessage) json.RawMessage { return append(r, "{}"...) }), CodeMalformed},
		{"credential type", outer("type", "password"), CodeMalformed},
		{"id and rawId differ", outer("rawId", encode([]byte("credential-2"))), CodeMalformed},
		{"no response", outer("response", nil), CodeMalformed},
		{"client data is not an object", func(a *authenticator, as *Assertion) {
			a.outer = map[string]any{"response": map[string]any{"clientDataJSON": encode([]byte("[]")),
				"authenticatorData": encode(make([]byte, 37)), "signature": "AA"}}
		}, CodeMalformed},
		{"authenticator data cut short", func(a *authenticator, as *Assertion) {
			a.outer = map[string]any{"response": map[string]any{"clientDataJSON": encode([]byte("{}")),
				"authenticatorData": encode(make([]byte, 36)), "signature": "AA"}}
		}, CodeMalformed},
		{"trailing bytes in the authenticator data", func(a *authenticator, _ *Assertion) { a.tail = []byte{0} }, CodeMalformed},
		{"trailing bytes behind extensions", func(a *authenticator, _ *Assertion) { a.flags |= 1 << 7; a.tail = []byte{0xA0, 0} }, CodeMalformed},
		{"attested credential in an assertion", func(a *authenticator, _ *Assertion) { a.at = true }, CodeMalformed},
		{"challenge is not base64url", func(a *authenticator, _ *Assertion) { a.chal = "+/+/" }, CodeMalformed},
		{"challenge begins in base64url", func(a *authenticator, _ *Assertion) { a.chal = "AAAA+/+/" }, CodeMalformed},
		{"no challenge", func(a *authenticator, _ *Assertion) { a.chal = "" }, CodeMalformed},
		{"crossOrigin is a string", set("crossOrigin", "false"), CodeMalformed},

		{"unknown credential", func(a *authenticator, _ *Assertion) { a.id = []byte("credential-2") }, CodeCredential},
		{"nothing enrolled", func(_ *authenticator, as *Assertion) { as.Credentials = nil }, CodeCredential},
		{"enrolled for two", func(a *authenticator, as *Assertion) {
			a.handle = nil
			as.Credentials = append(as.Credentials, as.Credentials[0])
			as.Credentials[1].Owner = "person-2"
		}, CodeCredential},
		{"user handle of another", func(a *authenticator, _ *Assertion) { a.handle = []byte("person-2") }, CodeCredential},

		{"enrolled key is Ed25519", func(_ *authenticator, as *Assertion) { as.Credentials[0].PublicKey = ed25519 }, CodeAlgorithm},
		{"enrolled key says ES384", func(_ *authenticator, as *Assertion) {
			as.Credentials[0].PublicKey = bytes.Replace(as.Credentials[0].PublicKey, []byte{0x03, 0x26}, []byte{0x03, 0x38, 0x22}, 1)
		}, CodeAlgorithm},
		{"enrolled key says ESP256", func(_ *authenticator, as *Assertion) {
			as.Credentials[0].PublicKey = bytes.Replace(as.Credentials[0].PublicKey, []byte{0x03, 0x26}, []byte{0x03, 0x28}, 1)
		}, CodeAlgorithm},
		{"enrolled key is empty", func(_ *authenticator, as *Assertion) { as.Credentials[0].PublicKey = nil }, CodeAlgorithm},

		{"registration presented", func(a *authenticator, _ *Assertion) { a.typ = "webauthn.create" }, CodeType},
		{"payment presented", func(a *authenticator, _ *Assertion) { a.typ = "payment.get" }, CodeType},
		{"no type", func(a *authenticator, _ *Assertion) { a.typ = "" }, CodeType},

		{"other challenge", func(a *authenticator, _ *Assertion) { a.chal = encode(make([]byte, 32)) }, CodeChallenge},
		{"challenge cut short", func(a *authenticator, _ *Assertion) { a.chal = encode(testChallenge[:31]) }, CodeChallenge},
		{"challenge forgotten", func(_ *authenticator, as *Assertion) { as.Challenge = nil }, CodeChallenge},

		{"scheme", origin("http://approve.example"), CodeOrigin},
		{"port", origin("https://approve.example:8443"), CodeOrigin},
		{"default port", origin("https://approve.example:443"), CodeOrigin},
		{"user part", origin("https://user@approve.example"), CodeOrigin},
		{"host in the user part", origin("https://approve.example@evil.example"), CodeOrigin},
		{"subdomain", origin("https://www.approve.example"), CodeOrigin},
		{"parent domain", origin("https://example"), CodeOrigin},
		{"longer host", origin("https://approve.example.evil.example"), CodeOrigin},
		{"upper case", origin("https://APPROVE.example"), CodeOrigin},
		{"path", origin("https://approve.example/"), CodeOrigin},
		{"opaque", origin("null"), CodeOrigin},
		{"no origin", origin(""), CodeOrigin},

		{"cross origin", set("crossOrigin", true), CodeCrossOrigin},
		{"top origin", set("topOrigin", testOrigin), CodeCrossOrigin},

		{"other relying party", func(a *authenticator, _ *Assertion) { a.rpID = "example" }, CodeRPID},
		{"origin for relying party", func(a *authenticator, _ *Assertion) { a.rpID = testOrigin }, CodeRPID},
		{"UP clear", func(a *authenticator, _ *Assertion) { a.flags &^= flagUP }, CodeUP},
		{"UV clear", func(a *authenticator, _ *Assertion) { a.flags &^= flagUV }, CodeUV},
		{"backed up, not eligible", func(a *authenticator, _ *Assertion) { a.flags |= flagBS }, CodeBackup},
		{"eligible, enrolled as not", func(a *authenticator, _ *Assertion) { a.flags |= flagBE }, CodeBackup},
		{"not eligible, enrolled as eligible", func(_ *authenticator, as *Assertion) { as.Credentials[0].BackupEligible = true }, CodeBackup},
		{"eligible and backed up", func(a *authenticator, as *Assertion) {
			a.flags |= flagBE | flagBS
			as.Credentials[0].BackupEligible = true
		}, ""},

		{"signed by another key", func(a *authenticator, _ *Assertion) { a.key = newKey(t) }, CodeSignature},
		{"counter altered", func(a *authenticator, _ *Assertion) { a.tamper = func(auth, _, _ []byte) { auth[36]++ } }, CodeSignature},
		{"client data altered", func(a *authenticator, _ *Assertion) {
			a.tamper = func(_, client, _ []byte) { copy(client[bytes.Index(client, []byte("as they")):], "AS") }
		}, CodeSignature},
		{"signature altered", func(a *authenticator, _ *Assertion) { a.tamper = func(_, _, sig []byte) { sig[len(sig)-1] ^= 1 } }, CodeSignature},

		{"counter repeated", func(_ *authenticator, as *Assertion) { as.Credentials[0].SignCount = 7 }, CodeCounter},
		{"counter backwards", func(_ *authenticator, as *Assertion) { as.Credentials[0].SignCount = 8 }, CodeCounter},
		{"counter stopped", func(a *authenticator, as *Assertion) { a.counter = 0; as.Credentials[0].SignCount = 1 }, CodeCounter},
		{"no counter at all", func(a *authenticator, as *Assertion) { a.counter = 0; as.Credentials[0].SignCount = 0 }, ""},
		{"counter repeated, not to be checked", func(_ *authenticator, as *Assertion) {
			as.Credentials[0].SignCount = 7
			as.CheckCounter = false
		}, ""},
		{"any challenge", func(a *authenticator, as *Assertion) {
			a.chal = encode([]byte("something else altogether"))
			as.Challenge, as.AnyChallenge = nil, true
		}, ""},

		{"masking: unknown credential, bad type", func(a *authenticator, _ *Assertion) { a.id = []byte("x"); a.typ = "" }, CodeCredential},
		{"masking: type before challenge", func(a *authenticator, _ *Assertion) { a.typ = "webauthn.create"; a.chal = "AAAA" }, CodeType},
		{"masking: challenge before origin", func(a *authenticator, _ *Assertion) { a.chal = "AAAA"; a.client["origin"] = "" }, CodeChallenge},
		{"masking: origin before cross origin", func(a *authenticator, _ *Assertion) { a.client["origin"] = ""; a.client["crossOrigin"] = true }, CodeOrigin},
		{"masking: cross origin before relying party", func(a *authenticator, _ *Assertion) { a.client["crossOrigin"] = true; a.rpID = "" }, CodeCrossOrigin},
		{"masking: relying party before flags", func(a *authenticator, _ *Assertion) { a.rpID = ""; a.flags = 0 }, CodeRPID},
		{"masking: UP before UV", func(a *authenticator, _ *Assertion) { a.flags = 0 }, CodeUP},
		{"masking: UV before backup", func(a *authenticator, _ *Assertion) { a.flags = flagUP | flagBS }, CodeUV},
		{"masking: backup before signature", func(a *authenticator, _ *Assertion) { a.flags |= flagBS; a.key = newKey(t) }, CodeBackup},
		{"masking: signature before counter", func(a *authenticator, _ *Assertion) { a.counter = 1; a.key = newKey(t) }, CodeSignature},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			a := newAuthenticator(t, key)
			as := Assertion{
				Challenge:    testChallenge,
				Credentials:  []Credential{{ID: a.id, PublicKey: a.cose, Owner: testOwner, SignCount: 6}},
				CheckCounter: true,
			}
			const unset = "unset"
			as.Response = json.RawMessage(unset)
			if tc.edit != nil {
				tc.edit(a, &as)
			}
			if string(as.Response) == unset {
				as.Response = a.assert(t)
			}
			got, err := testRP(t).VerifyAssertion(as)
			checkCode(t, err, tc.want)
			if tc.want != "" {
				if !cmp.Equal(got, Verified{}) {
					t.Errorf("a refusal returned %+v", got)
				}
				return
			}
			signed, _ := base64.RawURLEncoding.DecodeString(a.chal)
			want := Verified{Credential: as.Credentials[0], SignCount: a.counter, Challenge: signed}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("result differs (-want +got):\n%s", diff)
			}
		})
	}
	seen := map[Code]bool{}
	for _, tc := range tests {
		seen[tc.want] = true
	}
	for _, c := range []Code{CodeMalformed, CodeCredential, CodeAlgorithm, CodeType, CodeChallenge, CodeOrigin, CodeCrossOrigin,
		CodeRPID, CodeUP, CodeUV, CodeBackup, CodeSignature, CodeCounter} {
		if !seen[c] {
			t.Errorf("no row is refused with code %q", c)
		}
	}
}

func TestVerifyRegistration(t *testing.T) {
	key := newKey(t)
	says := func(alg int) []byte { // the same key for another algorithm
		point, err := key.PublicKey.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		return coseMap(t, map[int]any{1: 2, 3: alg, -1: 1, -2: point[1:33], -3: point[33:]})
	}
	ed25519 := coseMap(t, map[int]any{1: 1, 3: -8, -1: 6, -2: bytes.Repeat([]byte{9}, 32)})
	tests := []struct {
		name      string
		edit      func(*authenticator)
		challenge []byte
		want      Code
	}{
		{"honest", func(*authenticator) {}, testChallenge, ""},
		{"self attestation", func(a *authenticator) { a.fmt = "packed" }, testChallenge, ""},
		{"backup eligible", func(a *authenticator) { a.flags |= flagBE }, testChallenge, ""},
		{"no attested credential", func(a *authenticator) { a.at = false }, testChallenge, CodeMalformed},
		{"trailing bytes", func(a *authenticator) { a.tail = []byte{0} }, testChallenge, CodeMalformed},
		{"other attestation format", func(a *authenticator) { a.fmt = "fido-u2f" }, testChallenge, CodeMalformed},
		{"attestation with certificates", func(a *authenticator) {
			a.fmt, a.stmt = "packed", map[string]any{"x5c": []any{[]byte{1}}}
		}, testChallenge, CodeMalformed},
		{"other id outside", func(a *authenticator) {
			a.outer = map[string]any{"id": encode([]byte("other")), "rawId": encode([]byte("other"))}
		}, testChallenge, CodeCredential},
		{"Ed25519 key", func(a *authenticator) { a.cose = ed25519 }, testChallenge, CodeAlgorithm},
		{"ES384 on P-256", func(a *authenticator) { a.cose = says(-35) }, testChallenge, CodeAlgorithm},
		{"ESP256 on P-256", func(a *authenticator) { a.cose = says(-9) }, testChallenge, CodeAlgorithm}, // not asked for
		{"point not on the curve", func(a *authenticator) {
			a.cose = coseMap(t, map[int]any{1: 2, 3: -7, -1: 1, -2: bytes.Repeat([]byte{1}, 32), -3: bytes.Repeat([]byte{1}, 32)})
		}, testChallenge, CodeAlgorithm},
		{"assertion presented", func(a *authenticator) { a.typ = "webauthn.get" }, testChallenge, CodeType},
		{"other challenge", func(*authenticator) {}, make([]byte, 32), CodeChallenge},
		{"challenge forgotten", func(*authenticator) {}, nil, CodeChallenge},
		{"challenge forgotten, and none signed", func(a *authenticator) { a.chal = "" }, nil, CodeChallenge},
		{"challenge empty, and none signed", func(a *authenticator) { a.chal = "" }, []byte{}, CodeChallenge},
		{"origin", func(a *authenticator) { a.client["origin"] = "https://approve.example:8443" }, testChallenge, CodeOrigin},
		{"cross origin", func(a *authenticator) { a.client["crossOrigin"] = true }, testChallenge, CodeCrossOrigin},
		{"top origin", func(a *authenticator) { a.client["topOrigin"] = testOrigin }, testChallenge, CodeCrossOrigin},
		{"other relying party", func(a *authenticator) { a.rpID = "evil.example" }, testChallenge, CodeRPID},
		{"UP clear", func(a *authenticator) { a.flags &^= flagUP }, testChallenge, CodeUP},
		{"UV clear", func(a *authenticator) { a.flags &^= flagUV }, testChallenge, CodeUV},
		{"backed up, not eligible", func(a *authenticator) { a.flags |= flagBS }, testChallenge, CodeBackup},
		{"self attestation by another key", func(a *authenticator) { a.fmt = "packed"; a.key = newKey(t) }, testChallenge, CodeSignature},
		{"attestation none with a statement", func(a *authenticator) { a.stmt = map[string]any{"sig": []byte{1}} }, testChallenge, CodeSignature},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			a := newAuthenticator(t, key)
			a.typ, a.at, a.fmt, a.stmt = "webauthn.create", true, "none", map[string]any{}
			tc.edit(a)
			got, err := testRP(t).VerifyRegistration(testOwner, tc.challenge, a.register(t))
			checkCode(t, err, tc.want)
			if tc.want != "" {
				if !cmp.Equal(got, Credential{}) {
					t.Errorf("a refusal returned %+v", got)
				}
				return
			}
			want := Credential{ID: a.id, PublicKey: a.cose, Owner: testOwner, SignCount: 7, BackupEligible: a.flags&flagBE != 0}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("credential differs (-want +got):\n%s", diff)
			}
			text, err := json.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			var back Credential
			if err := json.Unmarshal(text, &back); err != nil || !cmp.Equal(got, back) {
				t.Errorf("credential does not survive JSON: %s, %v", text, err)
			}
		})
	}
}

func TestNew(t *testing.T) {
	for origin, id := range map[string]string{
		"https://approve.example":                    "approve.example",
		"https://approve.example:8443":               "approve.example",
		"https://xn--bcher-kva.example":              "xn--bcher-kva.example",
		"http://localhost:8080":                      "localhost",
		"https://localhost":                          "localhost",
		"http://localhost:443":                       "localhost",
		"https://approve.example:80":                 "approve.example",
		"https://" + strings.Repeat("a.", 126) + "a": strings.Repeat("a.", 126) + "a",
	} {
		rp, err := New(origin)
		if err != nil {
			t.Errorf("New(%q): %v", origin, err)
		} else if rp.ID != id || rp.Origin != origin || rp.Name == "" {
			t.Errorf("New(%q) = %+v, want id %q", origin, *rp, id)
		}
	}
	for _, origin := range []string{
		"", "approve.example", "http://approve.example", "http://localhost.example", "ftp://approve.example",
		"https://", "https://approve.example/", "https://approve.example/x", "https://approve.example?q",
		"https://approve.example?", "https://approve.example#f", "https://user@approve.example", "https://approve.example:443",
		"http://localhost:80", "https://approve.example:", "https://Approve.example", "HTTPS://approve.example",
		"https://bücher.example", "https://127.0.0.1", "https://[::1]", "https://approve..example", "https://approve.example.",
		"https:approve.example", "https://approve.example:port", " https://approve.example", "https://ap%70rove.example",
		"ftp://localhost", "https://" + strings.Repeat("a.", 126) + "aa", // 254 bytes: no name of the DNS
	} {
		if rp, err := New(origin); err == nil {
			t.Errorf("New(%q) = %+v, want an error", origin, *rp)
		}
	}
}

// TestDescribe: what go-webauthn has to say for developers is in a refusal.
func TestDescribe(t *testing.T) {
	details := protocol.ErrBadRequest.WithDetails("details")
	for want, err := range map[string]error{"other": errors.New("other"), "details": details, "details (info)": details.WithInfo("info")} {
		if got := describe(err); got != want {
			t.Errorf("describe(%#v) = %q, want %q", err, got, want)
		}
	}
}

func TestZeroRelyingPartyRefuses(t *testing.T) {
	a := newAuthenticator(t, newKey(t))
	response := a.assert(t)
	cred := Credential{ID: a.id, PublicKey: a.cose, Owner: testOwner}
	for _, rp := range []*RelyingParty{nil, {}, {ID: "approve.example"}, {Origin: testOrigin}} {
		if _, err := rp.CreationOptions(testOwner, testChallenge); err == nil {
			t.Errorf("%+v gave creation options", rp)
		}
		if _, err := rp.RequestOptions(testChallenge, []Credential{cred}); err == nil {
			t.Errorf("%+v gave request options", rp)
		}
		if _, err := rp.VerifyAssertion(Assertion{Response: response, Challenge: testChallenge, Credentials: []Credential{cred}}); err == nil {
			t.Errorf("%+v accepted an assertion", rp)
		}
		a.typ, a.at, a.fmt = "webauthn.create", true, "none"
		if _, err := rp.VerifyRegistration(testOwner, testChallenge, a.register(t)); err == nil {
			t.Errorf("%+v accepted a registration", rp)
		}
	}
}

func TestOptions(t *testing.T) {
	rp := testRP(t)
	creation, err := rp.CreationOptions(testOwner, testChallenge)
	if err != nil {
		t.Fatal(err)
	}
	request, err := rp.RequestOptions(testChallenge, []Credential{{ID: []byte("credential-1")}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		got  json.RawMessage
		want string
	}{
		{"creation", creation, `{"publicKey":{
			"rp":{"id":"approve.example","name":"approve.example"},
			"user":{"id":"cGVyc29uLTE","name":"person-1","displayName":"person-1"},
			"challenge":"` + encode(testChallenge) + `",
			"pubKeyCredParams":[{"type":"public-key","alg":-7}],
			"authenticatorSelection":{"userVerification":"required"},
			"attestation":"none"}}`},
		{"request", request, `{"publicKey":{
			"challenge":"` + encode(testChallenge) + `",
			"rpId":"approve.example",
			"allowCredentials":[{"type":"public-key","id":"Y3JlZGVudGlhbC0x"}],
			"userVerification":"required"}}`},
	} {
		var got, want any
		if err := json.Unmarshal(tc.got, &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(tc.want), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s options differ (-want +got):\n%s", tc.name, diff)
		}
	}
	for name, call := range map[string]func() error{
		"short challenge":    func() error { _, err := rp.RequestOptions(testChallenge[:15], []Credential{{}}); return err },
		"nobody allowed":     func() error { _, err := rp.RequestOptions(testChallenge, nil); return err },
		"no owner":           func() error { _, err := rp.CreationOptions("", testChallenge); return err },
		"long owner":         func() error { _, err := rp.CreationOptions(strings.Repeat("x", 65), testChallenge); return err },
		"creation challenge": func() error { _, err := rp.CreationOptions(testOwner, nil); return err },
		"registration owner": func() error {
			a := newAuthenticator(t, newKey(t))
			a.typ, a.at, a.fmt = "webauthn.create", true, "none"
			_, err := rp.VerifyRegistration("", testChallenge, a.register(t))
			return err
		},
	} {
		if call() == nil {
			t.Errorf("%s: want an error", name)
		}
	}
}

// FuzzVerifyAssertion: whatever arrives is refused with a code, or carries exactly
// what was signed.
func FuzzVerifyAssertion(f *testing.F) {
	a := newAuthenticator(f, fixedKey(f))
	client, _, _ := a.sign(f)
	valid := a.assert(f)
	f.Add([]byte(valid))
	f.Add([]byte(strings.Replace(string(valid), `"type"`, `"Type"`, 1)))
	a.flags |= 1 << 7
	a.tail = []byte{0xA0}
	f.Add([]byte(a.assert(f)))
	rp := testRP(f)
	creds := []Credential{{ID: a.id, PublicKey: a.cose, Owner: testOwner}}
	f.Fuzz(func(t *testing.T, response []byte) {
		_, err := rp.VerifyAssertion(Assertion{Response: response, Challenge: testChallenge, Credentials: creds})
		if err != nil {
			var refusal *Error
			if !errors.As(err, &refusal) || refusal.Code == "" {
				t.Fatalf("refused without a code: %v", err)
			}
			return
		}
		var got struct {
			Response struct {
				ClientDataJSON string `json:"clientDataJSON"`
			} `json:"response"`
		}
		if err := json.Unmarshal(response, &got); err != nil {
			t.Fatalf("accepted what is not JSON: %v", err)
		}
		text, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(got.Response.ClientDataJSON, "="))
		if err != nil || !bytes.Equal(text, client) {
			t.Fatalf("accepted client data that was not signed: %q", text)
		}
	})
}

// FuzzVerifyRegistration: nothing that arrives makes it panic or return a
// credential without an owner and a key.
func FuzzVerifyRegistration(f *testing.F) {
	a := newAuthenticator(f, fixedKey(f))
	a.typ, a.at, a.fmt, a.stmt = "webauthn.create", true, "none", map[string]any{}
	f.Add([]byte(a.register(f)))
	a.fmt = "packed"
	f.Add([]byte(a.register(f)))
	rp := testRP(f)
	f.Fuzz(func(t *testing.T, response []byte) {
		c, err := rp.VerifyRegistration(testOwner, testChallenge, response)
		if err != nil {
			var refusal *Error
			if !errors.As(err, &refusal) || refusal.Code == "" {
				t.Fatalf("refused without a code: %v", err)
			}
			return
		}
		if _, err := parseKey(c.PublicKey); err != nil || c.Owner != testOwner || len(c.ID) == 0 {
			t.Fatalf("registered an unusable credential: %+v", c)
		}
	})
}

// BenchmarkVerifyAssertion against BenchmarkBareSignature shows what is spent
// beside the signature.
func BenchmarkVerifyAssertion(b *testing.B) {
	a := newAuthenticator(b, newKey(b))
	rp := testRP(b)
	as := Assertion{
		Response: a.assert(b), Challenge: testChallenge, CheckCounter: true,
		Credentials: []Credential{{ID: a.id, PublicKey: a.cose, Owner: testOwner}},
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := rp.VerifyAssertion(as); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBareSignature(b *testing.B) {
	key := newKey(b)
	digest := sha256.Sum256([]byte("message"))
	sig, err := ecdsa.SignASN1(rand.Reader, key, digest[:])
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if !ecdsa.VerifyASN1(&key.PublicKey, digest[:], sig) {
			b.Fatal("not verified")
		}
	}
}
