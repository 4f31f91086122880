package modes

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/go-jose/go-jose/v4"
	jsonv2 "github.com/go-json-experiment/json"

	"countersign/gateway/api"
)

// Keys are the gateway's signing keys. Sibling services of one platform often
// share them, which is why a permit has to name its audience.
type Keys struct {
	Issuer string
	public *ecdsa.PublicKey
	secret []byte
	es256  map[jose.ContentType]jose.Signer // by typ
	hs256  jose.Signer
	pem    string
}

const (
	permitType = "countersign+jwt" // typ of a bound permit, so that no other token passes for one
	jwtType    = "JWT"
	keyID      = "gateway-1"
)

// The headers of permits, as they are written, in base64url.
var (
	headerBound = header(jose.ES256, permitType)
	headerJWT   = header(jose.ES256, jwtType)
	headerMAC   = header(jose.HS256, jwtType)
)

func header(alg jose.SignatureAlgorithm, typ string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"` + string(alg) + `","kid":"` + keyID + `","typ":"` + typ + `"}`))
}

// NewKeys makes fresh keys for an issuer.
func NewKeys(issuer string) (*Keys, error) {
	priv, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the gateway's keys: %w", err)
	}
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		return nil, fmt.Errorf("making the gateway's keys: %w", err)
	}
	return KeysFrom(issuer, priv, secret)
}

// PublicPEM is the public half of the signing key (RFC 7468, section 13).
func (k *Keys) PublicPEM() string { return k.pem }

// KeysFrom uses existing keys: an ES256 private key and a secret of at least 32 bytes.
func KeysFrom(issuer string, priv *ecdsa.PrivateKey, secret []byte) (*Keys, error) {
	switch {
	case issuer == "":
		return nil, errors.New("gateway keys: the issuer is empty")
	case priv == nil || priv.Curve != elliptic.P256():
		return nil, errors.New("gateway keys: the signing key is not on P-256")
	case len(secret) < 32:
		return nil, errors.New("gateway keys: the secret is shorter than 32 bytes (RFC 7518 section 3.2)")
	}
	der, err := x509.MarshalPKIXPublicKey(&priv.PublicKey)
	if err != nil {
		return nil, fmt.Errorf("gateway keys: %w", err)
	}
	k := &Keys{
		Issuer: issuer, public: &priv.PublicKey, secret: secret, es256: map[jose.ContentType]jose.Signer{},
		pem: string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})),
	}
	for _, typ := range []jose.ContentType{permitType, jwtType} {
		s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: priv}, signerOptions(typ))
		if err != nil {
			return nil, fmt.Errorf("gateway keys: %w", err)
		}
		k.es256[typ] = s
	}
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: secret}, signerOptions(jwtType))
	if err != nil {
		return nil, fmt.Errorf("gateway keys: %w", err)
	}
	k.hs256 = s
	return k, nil
}

func signerOptions(typ jose.ContentType) *jose.SignerOptions {
	return (&jose.SignerOptions{}).WithType(typ).WithHeader("kid", keyID)
}

// claims are the members of the permits of M4, M5 and M7.
type claims struct {
	Issuer    string   `json:"iss"`
	Subject   string   `json:"sub"` // the agent
	Audience  string   `json:"aud,omitempty"`
	Tenant    string   `json:"tenant,omitempty"` // M4, M5: several tenants have services of one name
	NotBefore int64    `json:"nbf"`
	Expiry    int64    `json:"exp"`
	ID        string   `json:"jti,omitempty"`
	Confirm   *confirm `json:"cnf,omitempty"`         // RFC 7800
	Call      string   `json:"call,omitempty"`        // M7
	Tool      string   `json:"tool,omitempty"`        // M7
	Args      string   `json:"args_sha256,omitempty"` // M7
}

type confirm struct {
	Thumbprint string `json:"jkt"` // RFC 9449 section 6
}

func (k *Keys) issueJWT(_ Mode, e Envelope) (string, error) {
	c := claims{Issuer: e.Issuer, Subject: e.Agent, Audience: e.Audience, Tenant: e.Tenant, NotBefore: e.NotBefore, Expiry: e.ExpiresAt, ID: e.Permit}
	if e.AgentKey != "" {
		c.Confirm = &confirm{e.AgentKey}
	}
	text, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("issuing a permit: %w", err)
	}
	return k.signES256(text, jwtType)
}

func (k *Keys) issueMAC(m Mode, e Envelope) (string, error) {
	c := claims{
		Issuer: e.Issuer, Subject: e.Agent, NotBefore: e.NotBefore, Expiry: e.ExpiresAt,
		Call: e.Call, Tool: e.Tool, Args: e.ArgsDigest,
	}
	if m.Has(api.BindSeen) || m.Has(api.BindIdem) || m.Has(api.BindOnline) { // what is looked up needs an identifier
		c.ID = e.Permit
	}
	text, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("issuing a permit: %w", err)
	}
	return compact(k.hs256.Sign(text))
}

func (k *Keys) signES256(payload []byte, typ jose.ContentType) (string, error) {
	text, err := compact(k.es256[typ].Sign(payload))
	if err == nil {
		text, err = lowS(text)
	}
	return text, err
}

func compact(j *jose.JSONWebSignature, err error) (string, error) {
	if err != nil {
		return "", fmt.Errorf("issuing a permit: %w", err)
	}
	return j.CompactSerialize()
}

var (
	errNoPermit  = errors.New("no permit is carried")
	errAlgorithm = errors.New("the permit is not a JWS under the expected algorithm, key and type")
	errSignature = errors.New("the permit's signature does not verify")
)

func permitCode(err error) string {
	switch {
	case errors.Is(err, errNoPermit):
		return "absent"
	case errors.Is(err, errAlgorithm):
		return "alg"
	}
	return "signature"
}

// verifyPermit returns the payload of a permit whose algorithm, key, type and
// signature are the ones that the carrier uses (RFC 8725 section 3.1). Permits
// are the gateway's own, so the header is not parsed: it is the one text that
// issuing writes, and chooses nothing.
func (k *Keys) verifyPermit(c CarrierName, text string) ([]byte, error) {
	if text == "" {
		return nil, errNoPermit
	}
	header := headerJWT
	switch c {
	case CarryMAC:
		header = headerMAC
	case CarryBound:
		header = headerBound
	}
	rest, ok := strings.CutPrefix(text, header+".")
	payload, signature, two := strings.Cut(rest, ".")
	if !ok || !two || strings.Contains(signature, ".") {
		return nil, errAlgorithm
	}
	// Line breaks are skipped in decoding, and a permit has one text.
	if strings.ContainsAny(rest, "\r\n") {
		return nil, errSignature
	}
	sig, err := base64.RawURLEncoding.Strict().DecodeString(signature)
	if err != nil || !k.verifies(c, text[:len(header)+1+len(payload)], sig) {
		return nil, errSignature
	}
	out, err := base64.RawURLEncoding.Strict().DecodeString(payload)
	if err != nil {
		return nil, errSignature
	}
	return out, nil
}

// verifies checks a JWS signature (RFC 7518 sections 3.2 and 3.4).
func (k *Keys) verifies(c CarrierName, input string, sig []byte) bool {
	if c == CarryMAC {
		mac := hmac.New(sha256.New, k.secret)
		mac.Write([]byte(input))
		return hmac.Equal(sig, mac.Sum(nil))
	}
	digest := sha256.Sum256([]byte(input))
	if len(sig) != 2*half {
		return false
	}
	r, s := new(big.Int).SetBytes(sig[:half]), new(big.Int).SetBytes(sig[half:])
	return s.Cmp(halfOrder) <= 0 && ecdsa.Verify(k.public, digest[:], r, s)
}

// half is the length of r and of s, that of the order of P-256.
const half = 32

// Of the two values of s with which a signature verifies, the smaller one is used,
// so that nobody makes a second permit of one.
var halfOrder = new(big.Int).Rsh(elliptic.P256().Params().N, 1)

// lowS gives a signature of a compact JWS the smaller s.
func lowS(text string) (string, error) {
	dot := strings.LastIndexByte(text, '.')
	// With an error come whole groups of three bytes, which two halves are not.
	sig, _ := base64.RawURLEncoding.DecodeString(text[dot+1:])
	if len(sig) != 2*half {
		return "", errors.New("issuing a permit: the signature is malformed")
	}
	if s := new(big.Int).SetBytes(sig[half:]); s.Cmp(halfOrder) > 0 {
		s.Sub(elliptic.P256().Params().N, s).FillBytes(sig[half:])
	}
	return text[:dot+1] + base64.RawURLEncoding.EncodeToString(sig), nil
}

// UnverifiedPayload returns the payload of a compact JWS without verifying
// anything.
func UnverifiedPayload(text string) ([]byte, error) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return nil, fmt.Errorf("%w: not a compact JWS", api.ErrInvalid)
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(parts[1])
	if err != nil {
		return nil, fmt.Errorf("%w: a permit's payload is not base64url", api.ErrInvalid)
	}
	return b, nil
}

// base64url is a JSON string in unpadded base64url.
type base64url []byte

func (b *base64url) UnmarshalJSON(text []byte) error {
	var s string
	if err := jsonv2.Unmarshal(text, &s); err != nil {
		return err
	}
	out, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(s, "="))
	*b = out
	return err
}

func decodeExact(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("%w: %w", api.ErrInvalid, err)
	}
	return nil
}
