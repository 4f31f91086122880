package api

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
)

// SecretText is how a bound view shows a secret: a fingerprint of it, 96 bits of
// HMAC-SHA-256 (RFC 2104) under a key of the deployment. Who knows what it ought
// to be can compare; who does not have the key cannot try values. It never depends
// on the secret's length.
//
// Equal secrets have equal fingerprints, which tells whoever sees two views that
// they are equal.
func SecretText(key []byte, secret string) string {
	h := hmac.New(sha256.New, key)
	h.Write([]byte("countersign/secret/v1\x00" + secret))
	f := h.Sum(nil)
	return fmt.Sprintf("⟨secret %x-%x-%x⟩", f[0:4], f[4:8], f[8:12])
}
