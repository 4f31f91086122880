package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"countersign/audit"
	"countersign/scenarios/provider"
)

// A fixed key set, so that a finding can be repeated: the keys of RFC 7515, appendix
// A.3, and RFC 7517, appendix A.3, beside two that count.
const fixedKeys = `{"keys":[
{"kid":"permits","kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0","d":"jpsQnnGQmL-YBIffH1136cspYG6-0iY7X1fCE9-E9LI"},
{"kid":"mac","kty":"oct","k":"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"},
{"kid":"provider","kty":"oct","k":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"},
{"kid":"secrets","kty":"oct","k":"ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8"}]}`

// Whatever the bytes: keys that are accepted are usable (what the private half signs
// the public half verifies; three different secrets that are long enough) and are
// read again alike; and no refusal holds a key.
func FuzzParseKeys(f *testing.F) {
	f.Add([]byte(fixedKeys))
	for _, change := range [][2]string{
		{`"kid":"secrets"`, `"kid":"mac"`}, {`"keys"`, `"Keys"`}, {`"kty":"oct","k":"ICEi`, `"k":"ICEi`}, {`,"d":`, `,"D":`},
		{`{"keys":[`, `{"keys":[],"keys":[`}, {`"P-256"`, `"P-384"`}, {`"d":"jps`, `"d":"kps`}, {"ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"},
	} {
		f.Add([]byte(strings.Replace(fixedKeys, change[0], change[1], 1)))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		set, err := parseKeySet(text)
		var k gatewayKeys
		if err == nil {
			k, err = useKeySet(issuer, set)
		}
		if err != nil {
			if k.keys != nil || k.credential != "" || k.secrets != nil {
				t.Error("keys beside an error")
			}
			for _, secret := range secretMembers(text) {
				if strings.Contains(err.Error(), secret) {
					t.Fatalf("the refusal %q holds a key", err)
				}
			}
			return
		}
		priv, ok := set.Key(kidPermits)[0].Key.(*ecdsa.PrivateKey)
		if !ok {
			t.Fatalf("accepted a signing key of type %T", set.Key(kidPermits)[0].Key)
		}
		digest := sha256.Sum256(text)
		sig, err := ecdsa.SignASN1(nil, priv, digest[:])
		if err != nil || !ecdsa.VerifyASN1(&priv.PublicKey, digest[:], sig) {
			t.Fatalf("what the key signs does not verify: %v", err)
		}
		mac, _ := set.Key(kidMAC)[0].Key.([]byte)
		credential, err := base64.RawURLEncoding.DecodeString(k.credential)
		if err != nil || len(mac) < 32 || len(credential) < 16 || len(k.secrets) < 16 ||
			bytes.Equal(mac, credential) || bytes.Equal(mac, k.secrets) || bytes.Equal(credential, k.secrets) {
			t.Fatalf("accepted secrets of %d, %d and %d bytes, or twice the same: %v", len(mac), len(credential), len(k.secrets), err)
		}
		written, err := json.Marshal(set)
		if err != nil {
			t.Fatalf("writing what was read: %v", err)
		}
		again, err := parseKeySet(written)
		if err != nil {
			t.Fatalf("reading what was written: %v", err)
		}
		same, err := useKeySet(issuer, again)
		if err != nil || same.credential != k.credential || !bytes.Equal(same.secrets, k.secrets) || same.keys.PublicPEM() != k.keys.PublicPEM() ||
			!priv.Equal(again.Key(kidPermits)[0].Key) {
			t.Fatalf("other keys when read again: %v", err)
		}
	})
}

// secretMembers finds the secret members of keys (RFC 7518, sections 6.2.2 and 6.4)
// in what is JSON, as far as they are long enough to be no coincidence.
func secretMembers(text []byte) []string {
	var set struct {
		Keys []struct{ D, K any }
	}
	if json.Unmarshal(text, &set) != nil {
		return nil
	}
	var out []string
	for _, key := range set.Keys {
		for _, v := range []any{key.D, key.K} {
			if s, ok := v.(string); ok && len(s) >= 16 {
				out = append(out, s)
			}
		}
	}
	return out
}

func TestKeySetRefuses(t *testing.T) {
	parse := func(text string) error {
		set, err := parseKeySet([]byte(text))
		if err == nil {
			_, err = useKeySet(issuer, set)
		}
		return err
	}
	must(t, parse(fixedKeys))
	for name, c := range map[string]struct{ old, new, says string }{
		"lists twice":           {`{"keys":[`, `{"keys":[],"keys":[`, "duplicate"},
		"another's public half": {`"d":"jpsQ`, `"d":"jpsR`, "do not belong together"},
		"one secret twice":      {"ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8", "are the same"},
		"a list in other case":  {`"keys"`, `"Keys"`, "want a JWK Set"},
	} {
		text := strings.Replace(fixedKeys, c.old, c.new, 1)
		if err := parse(text); text == fixedKeys || err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

// Whatever the bytes: a ledger that is accepted is a list of effects in the order of
// their numbers, is read again alike from what was read, and can be compared. Against
// a log that holds nothing it holds nothing to look at.
func FuzzParseLedger(f *testing.F) {
	row, err := json.Marshal([]provider.Effect{
		{Seq: 1, Audience: "payments", Tool: "create_payment", RequestID: "r1", IdempotencyKey: "k1"},
		{Seq: 3, Audience: "payments", Tool: "create_payment", RequestID: "r2"},
	})
	if err != nil {
		f.Fatal(err)
	}
	for _, text := range []string{string(row), `[]`, `null`, `[null]`, `[{"seq":1,"seq":2,"audience":"a","tool":"t"}]`,
		`[{"seq":1,"audience":"a","tool":"t"},{"seq":1,"audience":"a","tool":"t"}]`, `[{"Seq":1,"Audience":"a","Tool":"t"}]`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		effects, err := parseLedger(text)
		if err != nil {
			if effects != nil {
				t.Error("effects beside an error")
			}
			return
		}
		last := int64(0)
		for _, e := range effects {
			if e.Seq <= last || e.Audience == "" || e.Tool == "" {
				t.Fatalf("accepted %+v after number %d", e, last)
			}
			last = e.Seq
		}
		if found := audit.Compare(nil, effects); len(found) > 0 {
			t.Fatalf("an empty log and %d effects show %+v", len(effects), found)
		}
		written, err := json.Marshal(effects)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := parseLedger(written); err != nil || !slices.Equal(again, effects) {
			t.Fatalf("%+v became %+v, %v", effects, again, err)
		}
	})
}

func TestLedgerRefuses(t *testing.T) {
	for text, says := range map[string]string{
		`null`:                                   "null",
		`{}`:                                     "", // the library varies its words
		`[{"seq":1,"audience":"a"}]`:             "element 1 is no effect",
		`[{"seq":-1,"audience":"a","tool":"t"}]`: "element 1 is no effect",
		`[{"SEQ":1,"audience":"a","tool":"t"}]`:  "element 1 is no effect",
		`[{"seq":2,"audience":"a","tool":"t"},{"seq":2,"audience":"a","tool":"t"}]`: "number 2 after 2",
		`[{"seq":1,"audience":"a","tool":"t","request_id":"x","request_id":"y"}]`:   "duplicate",
	} {
		if _, err := parseLedger([]byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
}
