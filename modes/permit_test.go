package modes

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"countersign/gateway/api"
	"countersign/gateway/canonical"
)

func encoded(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// jws writes a compact JWS by hand, as a forger would who is bound by no library.
func jws(header string, payload []byte, sign func(input []byte) []byte) string {
	input := encoded([]byte(header)) + "." + encoded(payload)
	return input + "." + encoded(sign([]byte(input)))
}

func hs256(secret []byte) func([]byte) []byte {
	return func(input []byte) []byte {
		h := hmac.New(sha256.New, secret)
		h.Write(input)
		return h.Sum(nil)
	}
}

func es256(key *ecdsa.PrivateKey) func([]byte) []byte {
	return func(input []byte) []byte {
		hash := sha256.Sum256(input)
		r, v, err := ecdsa.Sign(nil, key, hash[:])
		if err != nil {
			panic(err)
		}
		if v.Cmp(halfOrder) > 0 {
			v.Sub(elliptic.P256().Params().N, v)
		}
		return append(r.FillBytes(make([]byte, 32)), v.FillBytes(make([]byte, 32))...)
	}
}

// twin is the other signature (r, n-s) that verifies where (r, s) does.
func twin(permit string) string {
	dot := strings.LastIndexByte(permit, '.')
	sig := must(base64.RawURLEncoding.DecodeString(permit[dot+1:]))
	v := new(big.Int).SetBytes(sig[32:])
	v.Sub(elliptic.P256().Params().N, v).FillBytes(sig[32:])
	return permit[:dot+1] + encoded(sig)
}

// TestIssuedPermitsHaveOneText: signatures are random, and all of them are the ones
// that verify.
func TestIssuedPermitsHaveOneText(t *testing.T) {
	c := theCast()
	payload := must(c.envelope().Text())
	for range 40 {
		permit := must(c.keys.signES256(payload, permitType))
		if _, err := c.keys.verifyPermit(CarryBound, permit); err != nil {
			t.Fatalf("%s: %v", permit, err)
		}
		if _, err := c.keys.verifyPermit(CarryBound, twin(permit)); !errors.Is(err, errSignature) {
			t.Fatalf("%s: a second text of %s: %v", twin(permit), permit, err)
		}
	}
}

// TestLowS: what is no signature of P-256 becomes none.
func TestLowS(t *testing.T) {
	for _, text := range []string{"", "a.b.", "a.b." + encoded(make([]byte, 63)), "a.b." + encoded(make([]byte, 64)) + "!", "a.b." + encoded(make([]byte, 65))} {
		if got, err := lowS(text); err == nil || got != "" {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
}

func nothingSigned([]byte) []byte { return nil }

// TestForgedPermits holds what RFC 8725 warns of against each carrier of permits.
func TestForgedPermits(t *testing.T) {
	c := theCast()
	payload := must(c.envelope().Text())
	public := must(x509.MarshalPKIXPublicKey(&c.priv.PublicKey))
	point := must(c.priv.PublicKey.Bytes())
	jwk := string(must(jose.JSONWebKey{Key: &fixedKey(9).PublicKey}.MarshalJSON()))
	const bound = `{"alg":"ES256","kid":"gateway-1","typ":"countersign+jwt"}`
	good := jws(bound, payload, es256(c.priv))
	signedInput := func(input string) string { return input + "." + encoded(es256(c.priv)([]byte(input))) }
	last := func(s string) string { // another signature of the same length
		b := byte('A')
		if s[len(s)-2] == b {
			b = 'B'
		}
		return s[:len(s)-2] + string(b) + s[len(s)-1:]
	}
	tests := []struct {
		name    string
		carrier CarrierName
		permit  string
		want    string // permitCode; empty: accepted
	}{
		{"honest", CarryBound, good, ""},
		{"honest, by the library", CarryBound, must(c.keys.signES256(payload, permitType)), ""},
		{"honest JWT", CarryJWT, jws(`{"alg":"ES256","kid":"gateway-1","typ":"JWT"}`, payload, es256(c.priv)), ""},
		{"honest MAC", CarryMAC, jws(`{"alg":"HS256","kid":"gateway-1","typ":"JWT"}`, payload, hs256(c.secret)), ""},

		{"the other signature", CarryBound, twin(good), "signature"},
		{"line feed in the signature", CarryBound, good[:len(good)-4] + "\n" + good[len(good)-4:], "signature"},
		{"carriage return in the signature", CarryBound, good[:len(good)-4] + "\r" + good[len(good)-4:], "signature"},
		{"line break behind it", CarryBound, good + "\r\n", "signature"},
		{"line break in a signed payload", CarryBound, signedInput(encoded([]byte(bound)) + "." + encoded(payload)[:8] + "\n" + encoded(payload)[8:]), "signature"},
		{"line break in a MAC", CarryMAC, jws(`{"alg":"HS256","kid":"gateway-1","typ":"JWT"}`, payload, hs256(c.secret)) + "\n", "signature"},

		{"nothing", CarryBound, "", "absent"},
		{"alg none", CarryBound, jws(`{"alg":"none","kid":"gateway-1","typ":"countersign+jwt"}`, payload, nothingSigned), "alg"},
		{"alg None", CarryBound, jws(`{"alg":"None","kid":"gateway-1","typ":"countersign+jwt"}`, payload, nothingSigned), "alg"},
		{"alg none, signed", CarryBound, jws(`{"alg":"none","kid":"gateway-1","typ":"countersign+jwt"}`, payload, es256(c.priv)), "alg"},
		{"alg missing", CarryBound, jws(`{"kid":"gateway-1","typ":"countersign+jwt"}`, payload, es256(c.priv)), "alg"},
		{"alg ES384", CarryBound, jws(`{"alg":"ES384","kid":"gateway-1","typ":"countersign+jwt"}`, payload, es256(c.priv)), "alg"},
		{"key confusion, DER", CarryBound, jws(`{"alg":"HS256","kid":"gateway-1","typ":"countersign+jwt"}`, payload, hs256(public)), "alg"},
		{"key confusion, PEM", CarryBound, jws(`{"alg":"HS256","kid":"gateway-1","typ":"countersign+jwt"}`, payload,
			hs256(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}))), "alg"},
		{"key confusion, point", CarryJWT, jws(`{"alg":"HS256","kid":"gateway-1","typ":"JWT"}`, payload, hs256(point)), "alg"},
		{"key confusion against the MAC", CarryMAC, jws(`{"alg":"HS256","kid":"gateway-1","typ":"JWT"}`, payload, hs256(public)), "signature"},
		{"another key", CarryBound, jws(bound, payload, es256(fixedKey(9))), "signature"},
		{"another secret", CarryMAC, jws(`{"alg":"HS256","kid":"gateway-1","typ":"JWT"}`, payload, hs256([]byte(strings.Repeat("x", 32)))), "signature"},
		{"empty secret", CarryMAC, jws(`{"alg":"HS256","kid":"gateway-1","typ":"JWT"}`, payload, hs256(nil)), "signature"},
		{"embedded key", CarryBound, jws(`{"alg":"ES256","kid":"gateway-1","typ":"countersign+jwt","jwk":`+jwk+`}`, payload, es256(fixedKey(9))), "alg"},
		{"another kid", CarryBound, jws(`{"alg":"ES256","kid":"gateway-2","typ":"countersign+jwt"}`, payload, es256(c.priv)), "alg"},
		{"no kid", CarryBound, jws(`{"alg":"ES256","typ":"countersign+jwt"}`, payload, es256(c.priv)), "alg"},
		{"a JWT as a bound permit", CarryBound, jws(`{"alg":"ES256","kid":"gateway-1","typ":"JWT"}`, payload, es256(c.priv)), "alg"},
		{"a bound permit as a JWT", CarryJWT, good, "alg"},
		{"a proof as a permit", CarryBound, jws(`{"alg":"ES256","kid":"gateway-1","typ":"dpop+jwt"}`, payload, es256(c.priv)), "alg"},
		{"no typ", CarryBound, jws(`{"alg":"ES256","kid":"gateway-1"}`, payload, es256(c.priv)), "alg"},
		{"typ of another JSON type", CarryBound, jws(`{"alg":"ES256","kid":"gateway-1","typ":["countersign+jwt"]}`, payload, es256(c.priv)), "alg"},
		{"unknown critical header", CarryBound, jws(`{"alg":"ES256","kid":"gateway-1","typ":"countersign+jwt","crit":["exp"],"exp":1}`, payload, es256(c.priv)), "alg"},
		{"header in another order", CarryBound, jws(`{"kid":"gateway-1","alg":"ES256","typ":"countersign+jwt"}`, payload, es256(c.priv)), "alg"},
		{"signature in padded base64", CarryBound, good + "==", "signature"},
		{"signature with spare bits", CarryBound, good[:len(good)-1] + string(good[len(good)-1]+1), "signature"},
		{"edited payload", CarryBound, edited(good, "args_sha256", "another"), "signature"},
		{"edited signature", CarryBound, last(good), "signature"},
		{"no signature", CarryBound, jws(bound, payload, nothingSigned), "signature"},
		{"short signature", CarryBound, jws(bound, payload, func(b []byte) []byte { return es256(c.priv)(b)[:63] }), "signature"},
		{"zero signature", CarryBound, jws(bound, payload, func([]byte) []byte { return make([]byte, 64) }), "signature"},
		{"four parts", CarryBound, good + ".AA", "alg"},
		{"two parts", CarryBound, good[:strings.LastIndexByte(good, '.')], "alg"},
		{"two other parts", CarryBound, "AA.AA", "alg"},
		{"signed, payload not in base64url", CarryBound, signedInput(encoded([]byte(bound)) + ".e30!"), "signature"},
		{"JSON serialisation", CarryBound, `{"payload":"` + encoded(payload) + `","protected":"` + encoded([]byte(bound)) + `","signature":"` + good[strings.LastIndexByte(good, '.')+1:] + `"}`, "alg"},
		{"MAC as a signature", CarryBound, jws(`{"alg":"HS256","kid":"gateway-1","typ":"countersign+jwt"}`, payload, hs256(c.secret)), "alg"},
		{"signature as a MAC", CarryMAC, jws(`{"alg":"ES256","kid":"gateway-1","typ":"JWT"}`, payload, es256(c.priv)), "alg"},
	}
	for _, tt := range tests {
		got, err := c.keys.verifyPermit(tt.carrier, tt.permit)
		switch {
		case tt.want == "" && (err != nil || string(got) != string(payload)):
			t.Errorf("%s: %v", tt.name, err)
		case tt.want != "" && err == nil:
			t.Errorf("%s: accepted", tt.name)
		case tt.want != "" && permitCode(err) != tt.want:
			t.Errorf("%s: refused with %s, want %s", tt.name, permitCode(err), tt.want)
		}
	}
}

func TestKeysFrom(t *testing.T) {
	secret := make([]byte, 32)
	p384 := must(ecdsa.GenerateKey(elliptic.P384(), nil))
	offCurve := *fixedKey(1)
	//lint:ignore SA1019 an invalid key is what is wanted
	offCurve.PublicKey.Y = offCurve.PublicKey.X
	for name, err := range map[string]error{
		"no issuer":     errOf(KeysFrom("", fixedKey(1), secret)),
		"no key":        errOf(KeysFrom(testIssuer, nil, secret)),
		"another curve": errOf(KeysFrom(testIssuer, p384, secret)),
		"off the curve": errOf(KeysFrom(testIssuer, &offCurve, secret)),
		"short secret":  errOf(KeysFrom(testIssuer, fixedKey(1), secret[1:])),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), "gateway keys: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	k, other := must(NewKeys(testIssuer)), must(NewKeys(testIssuer))
	permit := must(k.signES256([]byte("{}"), permitType))
	if _, err := k.verifyPermit(CarryBound, permit); err != nil {
		t.Error(err)
	}
	if _, err := other.verifyPermit(CarryBound, permit); !errors.Is(err, errSignature) {
		t.Errorf("other keys: %v", err)
	}
}

func errOf[T any](_ T, err error) error { return err }

func TestUnverifiedPayload(t *testing.T) {
	for _, bad := range []string{"", "a", "a.b", "a.b.c.d", "a.=.c", "a.b!.c", "a.QQ==.c", "a.QR.c"} {
		if _, err := UnverifiedPayload(bad); !errors.Is(err, api.ErrInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if got, err := UnverifiedPayload("x.e30.y"); err != nil || string(got) != "{}" {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestBound: an envelope of a mode holds what the mode compares and nothing that
// it would carry and never compare.
func TestBound(t *testing.T) {
	full := theCast().envelope()
	if got := must(full.Bound(m9()).Text()); string(got) != string(must(full.Text())) {
		t.Errorf("M9 leaves something out: %s", got)
	}
	members := map[api.Binding][]string{
		api.BindArgs: {"arguments", "args_sha256"}, api.BindRefs: {"resolved"}, api.BindAudience: {"aud"}, api.BindConnector: {"tool", "tool_sha256"},
		api.BindSuspension: {"suspended_at"}, api.BindExpiry: {"nbf", "exp"}, api.BindOnline: {"policy", "risk"}, api.BindSender: {"jkt"},
		api.BindRun: {"run"}, api.BindCall: {"call"},
	}
	for b, names := range members {
		m := m9().Without(b)
		if b == api.BindRun || b == api.BindCall {
			m = m.Without(api.BindSuspension) // which implies them
		}
		before, after := asMap(t, full.Bound(m9())), asMap(t, full.Bound(m))
		for _, name := range names {
			if before[name] == after[name] {
				t.Errorf("without %s the envelope still holds %s: %s", b, name, after[name])
			}
		}
	}
}

func asMap(t *testing.T, e Envelope) map[string]string {
	t.Helper()
	var m map[string]json.RawMessage
	if err := json.Unmarshal(must(e.Text()), &m); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for k, v := range m {
		out[k] = string(v)
	}
	return out
}

func TestParseEnvelope(t *testing.T) {
	good := string(must(theCast().envelope().Text()))
	if e, err := ParseEnvelope([]byte(good)); err != nil || string(must(e.Text())) != good {
		t.Errorf("an honest envelope: %v", err)
	}
	for name, text := range map[string]string{
		"empty": "", "no object": "[]", "null": "null", "truncated": good[:len(good)-1], "trailing": good + "{}",
		"unknown member":       strings.Replace(good, `{`, `{"more":1,`, 1),
		"member twice":         strings.Replace(good, `{`, `{"iss":"x",`, 1),
		"member in other case": strings.Replace(good, `"iss"`, `"ISS"`, 1),
		"member missing":       strings.Replace(good, `"stage":1,`, ``, 1),
		"member null":          strings.Replace(good, `"stage":1`, `"stage":null`, 1),
		"wrong type":           strings.Replace(good, `"stage":1`, `"stage":"1"`, 1),
		"fraction":             strings.Replace(good, `"stage":1`, `"stage":1.5`, 1),
	} {
		if text == good {
			t.Fatalf("%s: nothing was changed", name)
		}
		if e, err := ParseEnvelope([]byte(text)); err == nil {
			t.Errorf("%s: read as %+v", name, e)
		}
	}
}

func TestIssue(t *testing.T) {
	c := theCast()
	a := Approval{ID: "id", Verdict: api.Approve, EnvelopeText: must(c.envelope().Text()), Assertion: []byte(`{}`)}
	for id, want := range map[string]string{"M0": "", "M1": "approved", "M2": "", "M3": "approval", "M4": "permit", "M5": "permit", "M6": "", "M7": "permit", "M8": "", "M9": "approval permit assertion"} {
		got, err := Issue(mode(id), c.keys, a)
		if err != nil {
			t.Fatal(err)
		}
		var parts []string
		for _, p := range []struct {
			name  string
			there bool
		}{{"approved", got.Approved}, {"approval", got.Approval != ""}, {"permit", got.Permit != ""}, {"assertion", got.Assertion != nil}} {
			if p.there {
				parts = append(parts, p.name)
			}
		}
		if s := strings.Join(parts, " "); s != want {
			t.Errorf("%s transports %q, want %q", id, s, want)
		}
	}
	if _, err := Issue(Mode{}, c.keys, a); err == nil {
		t.Error("the zero mode issues something")
	}
	a.EnvelopeText = []byte("{")
	if _, err := Issue(m9(), c.keys, a); err == nil {
		t.Error("an unreadable envelope is issued")
	}
}

// TestIssueIdentifier: a permit has an identifier where something looks it up, and
// only there.
func TestIssueIdentifier(t *testing.T) {
	c := theCast()
	a := Approval{ID: "id", Verdict: api.Approve, EnvelopeText: must(c.envelope().Text())}
	withdrawn := mode("M7")
	withdrawn.Bindings = NewSet(append(withdrawn.Bindings.List(), api.BindOnline)...)
	for _, tt := range []struct {
		m    Mode
		want bool
	}{{mode("M4"), true}, {mode("M7"), false}, {mode("M7+").Without(api.BindIdem), true}, {mode("M7+").Without(api.BindOnce), true},
		{mode("M7+").Without(api.BindOnce, api.BindIdem), false}, {withdrawn, true}} {
		got, err := Issue(tt.m, c.keys, a)
		if err != nil {
			t.Fatal(err)
		}
		if payload := string(must(UnverifiedPayload(got.Permit))); strings.Contains(payload, `"jti"`) != tt.want {
			t.Errorf("%s with %s issues %s", tt.m.ID, tt.m.Bindings, payload)
		}
	}
}

// FuzzPermit: nothing that was not signed is accepted, and nothing panics.
func FuzzPermit(f *testing.F) {
	c := theCast()
	payloads := map[string]bool{}
	for _, p := range [][]byte{must(c.envelope().Text()), []byte("{}")} {
		payloads[string(p)] = true
		f.Add(jws(`{"alg":"ES256","kid":"gateway-1","typ":"countersign+jwt"}`, p, es256(c.priv)))
		f.Add(jws(`{"alg":"ES256","kid":"gateway-1","typ":"JWT"}`, p, es256(c.priv)))
		f.Add(jws(`{"alg":"HS256","kid":"gateway-1","typ":"JWT"}`, p, hs256(c.secret)))
		f.Add(jws(`{"alg":"none","kid":"gateway-1","typ":"JWT"}`, p, nothingSigned))
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, _ = UnverifiedPayload(text)
		for _, carrier := range []CarrierName{CarryBound, CarryJWT, CarryMAC, CarryFlag, ""} {
			if got, err := c.keys.verifyPermit(carrier, text); err == nil && !payloads[string(got)] {
				t.Errorf("%s accepts a payload that nobody signed: %q", carrier, got)
			}
		}
	})
}

// FuzzParseEnvelope: what is accepted has one reading, which is its canonical form.
func FuzzParseEnvelope(f *testing.F) {
	e := theCast().envelope()
	f.Add(must(e.Text()))
	f.Add(must(json.MarshalIndent(e, "", " ")))
	f.Add(must(Envelope{}.Text()))
	f.Add(must(e.On(api.RunWide{Uses: 3, Until: testNow}).Text()))
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := ParseEnvelope(text)
		if err != nil {
			return
		}
		given, err := canonical.StrictJSON(text)
		if err != nil {
			t.Fatalf("%q is accepted and has two readings: %v", text, err)
		}
		if own, err := e.Text(); err != nil || !bytes.Equal(own, given) {
			t.Fatalf("%q is accepted as %q, %v", given, own, err)
		}
	})
}
