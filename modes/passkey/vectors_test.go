package passkey

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/c2sp/wycheproof"
	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/protocol/webauthncbor"
)

//go:embed testdata/webauthn-3-section-16.txt
var specificationVectors []byte

// specified says what becomes of each example of the specification: accepted, or
// refused by choice, for the one thing named. This relying party wants the person
// verified, takes ES256 alone, does not run in a frame of another origin and has
// not asked for an attestation.
var specified = map[string]struct{ create, get Code }{
	"none-es256":                    {CodeUV, CodeUV},
	"packed-self-es256":             {"", CodeUV},
	"none-es256-crossOrigin":        {CodeCrossOrigin, CodeCrossOrigin},
	"none-es256-topOrigin":          {CodeCrossOrigin, CodeCrossOrigin},
	"none-es256-long-credential-id": {CodeUV, ""},
	"packed-es256":                  {CodeMalformed, ""},
	"packed-es384":                  {CodeMalformed, CodeAlgorithm},
	"packed-es512":                  {CodeMalformed, CodeAlgorithm},
	"packed-rs256":                  {CodeMalformed, CodeAlgorithm},
	"packed-eddsa":                  {CodeMalformed, CodeAlgorithm},
	"packed-ed448":                  {CodeMalformed, CodeAlgorithm},
	"tpm-es256":                     {CodeMalformed, ""},
	"android-key-es256":             {CodeMalformed, CodeUV},
	"apple-es256":                   {CodeMalformed, CodeUV},
	"fido-u2f-es256":                {CodeMalformed, CodeUV},
}

// parseVectors reads the examples: section → "create.challenge" and the like.
func parseVectors(t *testing.T) map[string]map[string][]byte {
	t.Helper()
	out := map[string]map[string][]byte{}
	var section map[string][]byte
	lines := bufio.NewScanner(bytes.NewReader(specificationVectors))
	lines.Buffer(nil, 1<<16)
	for lines.Scan() {
		line := lines.Text()
		name, value, member := strings.Cut(line, " ")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "["):
			section = map[string][]byte{}
			out[strings.Trim(line, "[]")] = section
		case !member || section == nil:
			t.Fatalf("the line %q is no member of an example", line)
		default:
			b, err := hex.DecodeString(value)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			section[name] = b
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestSpecificationVectors runs the examples of WebAuthn Level 3, section 16.
func TestSpecificationVectors(t *testing.T) {
	rp, err := New("https://example.org")
	if err != nil {
		t.Fatal(err)
	}
	response := func(id []byte, members map[string][]byte) json.RawMessage {
		encoded := map[string]string{}
		for name, b := range members {
			encoded[name] = encode(b)
		}
		b, err := json.Marshal(map[string]any{"id": encode(id), "rawId": encode(id), "type": "public-key", "response": encoded})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	all := parseVectors(t)
	if len(all) == 0 || len(all) != len(specified) {
		t.Fatalf("%d examples, %d are expected: %v", len(all), len(specified), slices.Sorted(maps.Keys(all)))
	}
	count := map[Code]int{}
	signatures := 0
	for name, v := range all {
		t.Run(name, func(t *testing.T) {
			want, ok := specified[name]
			if !ok {
				t.Fatal("what becomes of it is not stated")
			}
			count[want.create]++
			count[want.get]++
			id := v["create.credential_id"]
			created, err := rp.VerifyRegistration(testOwner, v["create.challenge"], response(id, map[string][]byte{
				"attestationObject": v["create.attestationObject"], "clientDataJSON": v["create.clientDataJSON"],
			}))
			checkCode(t, err, want.create)
			cred := enrolled(t, v["create.attestationObject"])
			if !bytes.Equal(cred.ID, id) {
				t.Errorf("the authenticator data have the credential %x, want %x", cred.ID, id)
			}
			if want.create == "" && (!bytes.Equal(created.ID, cred.ID) || !bytes.Equal(created.PublicKey, cred.PublicKey) || created.BackupEligible != cred.BackupEligible) {
				t.Errorf("registered %+v, want %+v", created, cred)
			}
			a := Assertion{
				Response: response(id, map[string][]byte{
					"authenticatorData": v["get.authenticatorData"], "clientDataJSON": v["get.clientDataJSON"], "signature": v["get.signature"],
				}),
				Challenge: v["get.challenge"], Credentials: []Credential{cred}, CheckCounter: true,
			}
			_, err = rp.VerifyAssertion(a)
			checkCode(t, err, want.get)
			if want.get == CodeAlgorithm {
				return
			}
			// The signature is good also where the assertion is refused by choice.
			key, err := parseKey(cred.PublicKey)
			if err != nil {
				t.Fatal(err)
			}
			hash := sha256.Sum256(v["get.clientDataJSON"])
			signed := slices.Concat(v["get.authenticatorData"], hash[:])
			if !verifies(key, signed, v["get.signature"]) {
				t.Error("the signature does not verify")
			}
			signed[0] ^= 1
			if verifies(key, signed, v["get.signature"]) {
				t.Error("the signature verifies over other data")
			}
			signatures++
		})
	}
	t.Logf("%d examples: %d ceremonies accepted, refused by choice: %v; %d signatures verified", len(all), count[""], count, signatures)
}

// enrolled is the credential of a registration, whether or not this relying party
// would accept it.
func enrolled(t *testing.T, attestationObject []byte) Credential {
	t.Helper()
	var o struct {
		AuthData []byte `json:"authData"`
	}
	if err := webauthncbor.Unmarshal(attestationObject, &o); err != nil {
		t.Fatal(err)
	}
	var d protocol.AuthenticatorData
	if err := d.Unmarshal(o.AuthData); err != nil {
		t.Fatal(err)
	}
	return Credential{
		ID: d.AttData.CredentialID, PublicKey: d.AttData.CredentialPublicKey, Owner: testOwner,
		SignCount: d.Counter, BackupEligible: d.Flags.HasBackupEligible(),
	}
}

// A suite is a file of Project Wycheproof.
type suite struct {
	NumberOfTests int `json:"numberOfTests"`
	TestGroups    []struct {
		PublicKey struct {
			Uncompressed string `json:"uncompressed"`
		} `json:"publicKey"`
		Tests []struct {
			ID      int      `json:"tcId"`
			Comment string   `json:"comment"`
			Flags   []string `json:"flags"`
			Message string   `json:"msg"`
			Sig     string   `json:"sig"`
			Public  string   `json:"public"`
			Result  string   `json:"result"`
		} `json:"tests"`
	} `json:"testGroups"`
}

func wycheproofSuite(t *testing.T, name string) suite {
	t.Helper()
	text, err := fs.ReadFile(wycheproof.TestVectors, name)
	if err != nil {
		t.Fatal(err)
	}
	var s suite
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func fromHex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// coseOfPoint writes an uncompressed point (SEC 1, section 2.3.3) as the ES256 key
// that an authenticator would register.
func coseOfPoint(t *testing.T, point []byte) []byte {
	t.Helper()
	if len(point) != 65 {
		t.Fatalf("a point of %d bytes, want 65", len(point))
	}
	b, err := webauthncbor.Marshal(map[int]any{1: 2, 3: -7, -1: 1, -2: point[1:33], -3: point[33:]})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestWycheproofSignatures: the verification of an assertion's signature, from the
// enrolled COSE_Key on, accepts and refuses as Project Wycheproof states.
func TestWycheproofSignatures(t *testing.T) {
	s := wycheproofSuite(t, "ecdsa_secp256r1_sha256_test.json")
	count := map[string]int{}
	for _, g := range s.TestGroups {
		key, err := parseKey(coseOfPoint(t, fromHex(t, g.PublicKey.Uncompressed)))
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range g.Tests {
			count[v.Result]++
			if got := verifies(key, fromHex(t, v.Message), fromHex(t, v.Sig)); got != (v.Result == "valid") {
				t.Errorf("vector %d (%s): accepted: %t, stated: %s", v.ID, v.Comment, got, v.Result)
			}
		}
	}
	if total := count["valid"] + count["invalid"]; total == 0 || total != s.NumberOfTests || count["valid"] == 0 || count["invalid"] == 0 {
		t.Errorf("%v of %d vectors were run", count, s.NumberOfTests)
	}
	t.Logf("%d signatures: %v", s.NumberOfTests, count)
}

// TestWycheproofOtherEncoding: the same signatures as two numbers side by side
// (IEEE P1363), as JWS and WebCrypto write them, are none in WebAuthn.
func TestWycheproofOtherEncoding(t *testing.T) {
	count := 0
	for _, g := range wycheproofSuite(t, "ecdsa_secp256r1_sha256_p1363_test.json").TestGroups {
		key, err := parseKey(coseOfPoint(t, fromHex(t, g.PublicKey.Uncompressed)))
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range g.Tests {
			count++
			if verifies(key, fromHex(t, v.Message), fromHex(t, v.Sig)) {
				t.Errorf("vector %d (%s) is accepted", v.ID, v.Comment)
			}
		}
	}
	if count == 0 {
		t.Error("no vector was run")
	}
	t.Logf("%d signatures in the other encoding", count)
}

// TestWycheproofPoints: a public key is a point of the curve, or it is not
// enrolled. Compressed points have no place in a COSE_Key of ES256 and are left out.
func TestWycheproofPoints(t *testing.T) {
	count := map[string]int{}
	for _, g := range wycheproofSuite(t, "ecdh_secp256r1_ecpoint_test.json").TestGroups {
		for _, v := range g.Tests {
			point := fromHex(t, v.Public)
			if len(point) != 65 {
				count["left out"]++
				continue
			}
			count[v.Result]++
			if _, err := parseKey(coseOfPoint(t, point)); (err == nil) != (v.Result == "valid") {
				t.Errorf("vector %d (%s): %v, stated: %s", v.ID, v.Comment, err, v.Result)
			}
		}
	}
	if count["valid"] == 0 || count["invalid"] == 0 {
		t.Errorf("too few vectors were run: %v", count)
	}
	t.Logf("points: %v", count)
}
