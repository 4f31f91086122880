package modes

import (
	"crypto"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4"
	jsonv2 "github.com/go-json-experiment/json"
)

// ProofWindow is how far a DPoP proof's iat may lie from the gateway's clock
// (RFC 9449 section 11.1 leaves the figure to the server).
const ProofWindow = 60 * time.Second

// A Proof is a verified DPoP proof.
type Proof struct {
	ID         string // jti
	Thumbprint string // RFC 7638 SHA-256 thumbprint of the proving key, base64url
}

// VerifyProof checks a DPoP proof by the rules of RFC 9449 section 4.3: type,
// algorithm, embedded public key, signature, method, URI, age and the hash of
// the permit that it accompanies (empty for none). Whether the proof was used before is the caller's to say.
func VerifyProof(text, method, uri, permit string, now time.Time) (Proof, error) {
	if text == "" {
		return Proof{}, errors.New("no proof of possession is presented")
	}
	j, err := jose.ParseSignedCompact(text, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		return Proof{}, errors.New("the proof is not a JWS under ES256")
	}
	h := j.Signatures[0].Protected
	if h.ExtraHeaders[jose.HeaderType] != "dpop+jwt" {
		return Proof{}, errors.New("the proof's type is not dpop+jwt")
	}
	key := h.JSONWebKey
	if key == nil || !key.Valid() || !key.IsPublic() {
		return Proof{}, errors.New("the proof holds no public key")
	}
	payload, err := j.Verify(key)
	if err != nil {
		return Proof{}, errors.New("the proof's signature does not verify")
	}
	var c struct {
		ID     string `json:"jti"`
		Method string `json:"htm"`
		URI    string `json:"htu"`
		Issued int64  `json:"iat"`
		Hash   string `json:"ath"`
	}
	if err := jsonv2.Unmarshal(payload, &c); err != nil {
		return Proof{}, errors.New("the proof's claims cannot be read")
	}
	age := now.Sub(time.Unix(c.Issued, 0))
	switch {
	case c.ID == "":
		return Proof{}, errors.New("the proof has no identifier")
	case c.Method != method:
		return Proof{}, fmt.Errorf("the proof is for another method than %s", method)
	case c.URI != uri:
		return Proof{}, errors.New("the proof is for another address")
	case age > ProofWindow || age < -ProofWindow:
		return Proof{}, errors.New("the proof is too old or from the future")
	case c.Hash != AccessTokenHash(permit):
		return Proof{}, errors.New("the proof is for another permit")
	}
	tp, err := key.Thumbprint(crypto.SHA256)
	if err != nil {
		return Proof{}, errors.New("the proof's key has no thumbprint")
	}
	return Proof{ID: c.ID, Thumbprint: base64.RawURLEncoding.EncodeToString(tp)}, nil
}

// AccessTokenHash is the ath claim for a permit (RFC 9449 section 4.2), empty
// for no permit.
func AccessTokenHash(permit string) string {
	if permit == "" {
		return ""
	}
	h := sha256.Sum256([]byte(permit))
	return base64.RawURLEncoding.EncodeToString(h[:])
}
