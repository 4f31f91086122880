package modes

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// TestProof holds each rule of RFC 9449 section 4.3 against a proof that breaks
// it alone. Rule 1 (one header field) is the transport's, rule 10 (nonces) is
// not used here.
func TestProof(t *testing.T) {
	const permit = "permit"
	c := theCast()
	key := fixedKey(2)
	private := string(must(jose.JSONWebKey{Key: key}.MarshalJSON()))
	public := string(must(jose.JSONWebKey{Key: &key.PublicKey}.MarshalJSON()))
	secret := string(must(jose.JSONWebKey{Key: []byte(strings.Repeat("k", 32))}.MarshalJSON()))
	header := `{"alg":"ES256","typ":"dpop+jwt","jwk":` + public + `}`
	claims := func(change func(map[string]any)) []byte {
		m := map[string]any{"jti": "p-1", "htm": "POST", "htu": testURI, "iat": testNow.Unix(), "ath": AccessTokenHash(permit)}
		if change != nil {
			change(m)
		}
		return must(json.Marshal(m))
	}
	set := func(k string, v any) string {
		return jws(header, claims(func(m map[string]any) { m[k] = v }), es256(key))
	}
	drop := func(k string) string {
		return jws(header, claims(func(m map[string]any) { delete(m, k) }), es256(key))
	}
	good := jws(header, claims(nil), es256(key))
	tests := []struct {
		name, proof string
		want        string // part of the error; empty: accepted
	}{
		{"honest", good, ""},
		{"honest, more claims", set("nonce", "n"), ""},
		{"rule 2: no JWT", "proof", "not a JWS"},
		{"rule 2: nothing", "", "no proof"},
		{"rule 2: two proofs", good + "," + good, "not a JWS"},
		{"rule 3: no jti", drop("jti"), "no identifier"},
		{"rule 3: empty jti", set("jti", ""), "no identifier"},
		{"rule 3: jti of another type", set("jti", 7), "cannot be read"},
		{"rule 3: no htm", drop("htm"), "another method"},
		{"rule 3: no htu", drop("htu"), "another address"},
		{"rule 3: no iat", drop("iat"), "too old"},
		{"rule 3: iat of another type", set("iat", "now"), "cannot be read"},
		{"rule 3: claims no object", jws(header, []byte(`[]`), es256(key)), "cannot be read"},
		{"rule 4: typ JWT", jws(strings.Replace(header, "dpop+jwt", "JWT", 1), claims(nil), es256(key)), "type"},
		{"rule 4: typ of a permit", jws(strings.Replace(header, "dpop+jwt", permitType, 1), claims(nil), es256(key)), "type"},
		{"rule 4: no typ", jws(`{"alg":"ES256","jwk":`+public+`}`, claims(nil), es256(key)), "type"},
		{"rule 5: alg none", jws(strings.Replace(header, "ES256", "none", 1), claims(nil), nothingSigned), "not a JWS under ES256"},
		{"rule 5: symmetric", jws(`{"alg":"HS256","typ":"dpop+jwt","jwk":`+secret+`}`, claims(nil), hs256([]byte(strings.Repeat("k", 32)))), "not a JWS under ES256"},
		{"rule 5: unsupported", jws(strings.Replace(header, "ES256", "RS256", 1), claims(nil), es256(key)), "not a JWS under ES256"},
		{"rule 6: another key signed", jws(header, claims(nil), es256(fixedKey(3))), "signature"},
		{"rule 6: edited", edited(good, "jti", "p-2"), "signature"},
		{"rule 6: no key", jws(`{"alg":"ES256","typ":"dpop+jwt"}`, claims(nil), es256(key)), "no public key"},
		{"rule 7: private key", jws(`{"alg":"ES256","typ":"dpop+jwt","jwk":`+private+`}`, claims(nil), es256(key)), "not a JWS"},
		{"rule 7: symmetric key", jws(`{"alg":"ES256","typ":"dpop+jwt","jwk":`+secret+`}`, claims(nil), es256(key)), "not a JWS"},
		{"rule 8: another method", set("htm", "GET"), "another method"},
		{"rule 8: case", set("htm", "post"), "another method"},
		{"rule 9: another address", set("htu", "https://payroll.example.gateway.example/v1/dispatch"), "another address"},
		{"rule 9: another path", set("htu", testURI+"/more"), "another address"},
		{"rule 9: plain http", set("htu", strings.Replace(testURI, "https", "http", 1)), "another address"},
		{"rule 11: oldest", set("iat", testNow.Add(-ProofWindow).Unix()), ""},
		{"rule 11: too old", set("iat", testNow.Add(-ProofWindow-time.Second).Unix()), "too old"},
		{"rule 11: newest", set("iat", testNow.Add(ProofWindow).Unix()), ""},
		{"rule 11: from the future", set("iat", testNow.Add(ProofWindow+time.Second).Unix()), "too old"},
		{"rule 11: far beyond", set("iat", int64(1)<<62), "too old"},
		{"rule 11: far before", set("iat", -int64(1)<<62), "too old"},
		{"rule 12: no ath", drop("ath"), "another permit"},
		{"rule 12: another permit", set("ath", AccessTokenHash("another")), "another permit"},
	}
	for _, tt := range tests {
		p, err := VerifyProof(tt.proof, "POST", testURI, permit, testNow)
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case tt.want == "" && (p.ID != "p-1" || p.Thumbprint != c.agent.thumbprint):
			t.Errorf("%s: read as %+v", tt.name, p)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
	if _, err := VerifyProof(good, "POST", testURI, "", testNow); err == nil {
		t.Error("a proof for a permit passes where none is presented")
	}
	if _, err := VerifyProof(drop("ath"), "POST", testURI, "", testNow); err != nil {
		t.Errorf("without a permit no hash is needed: %v", err)
	}
	if a, b := AccessTokenHash("a"), AccessTokenHash("b"); a == b || a == "" || AccessTokenHash("") != "" {
		t.Error("the hash does not tell permits apart")
	}
}

// FuzzProof: only what the agent signed is accepted, and nothing panics.
func FuzzProof(f *testing.F) {
	c := theCast()
	claims := map[string]any{"jti": "p-1", "htm": "POST", "htu": testURI, "iat": testNow.Unix(), "ath": AccessTokenHash("permit")}
	good := c.agent.proof(claims)
	f.Add(good)
	f.Add(edited(good, "jti", "p-2"))
	claims["iat"] = 0
	f.Add(c.agent.proof(claims))
	f.Fuzz(func(t *testing.T, text string) {
		p, err := VerifyProof(text, "POST", testURI, "permit", testNow)
		if err != nil {
			return
		}
		// A fuzzer can make keys of its own, but no proof by the agent's.
		if p.ID == "" || p.Thumbprint == "" {
			t.Errorf("accepted without identity: %+v", p)
		}
		if p.Thumbprint == c.agent.thumbprint && p.ID != "p-1" {
			t.Errorf("a proof that the agent never made: %+v", p)
		}
	})
}
