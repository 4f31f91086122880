package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/go-jose/go-jose/v4"
	jsonv2 "github.com/go-json-experiment/json"

	"countersign/modes"
	"countersign/results"
)

// The members of a key file, which is a JWK Set (RFC 7517, section 5).
const (
	kidPermits  = "permits"  // ES256, signs permits
	kidMAC      = "mac"      // HS256, the secret of MAC permits
	kidProvider = "provider" // what the gateway presents to the provider
	kidSecrets  = "secrets"  // HS256, fingerprints of secrets in views (api.SecretText)
)

// gatewayKeys are the secrets of a gateway that a restart must not change.
type gatewayKeys struct {
	keys       *modes.Keys
	credential string
	secrets    []byte
}

// newKeySet makes fresh keys.
func newKeySet() (jose.JSONWebKeySet, error) {
	priv, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return jose.JSONWebKeySet{}, fmt.Errorf("making the gateway's keys: %w", err)
	}
	return jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: priv, KeyID: kidPermits, Algorithm: string(jose.ES256), Use: "sig"},
		{Key: secret(), KeyID: kidMAC, Algorithm: string(jose.HS256), Use: "sig"},
		{Key: secret(), KeyID: kidProvider},
		{Key: secret(), KeyID: kidSecrets, Algorithm: string(jose.HS256), Use: "sig"},
	}}, nil
}

func secret() []byte {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return b
}

// useKeySet takes the gateway's keys out of a set.
func useKeySet(issuer string, set jose.JSONWebKeySet) (gatewayKeys, error) {
	find := func(kid string) any {
		if found := set.Key(kid); len(found) == 1 {
			return found[0].Key
		}
		return nil
	}
	priv, _ := find(kidPermits).(*ecdsa.PrivateKey)
	mac, _ := find(kidMAC).([]byte)
	credential, _ := find(kidProvider).([]byte)
	secrets, _ := find(kidSecrets).([]byte)
	if priv == nil || len(mac) == 0 || len(credential) < 16 || len(secrets) < 16 {
		return gatewayKeys{}, fmt.Errorf("want a JWK Set with the keys %s (EC, private), %s, %s and %s (oct, 16 bytes or more)",
			kidPermits, kidMAC, kidProvider, kidSecrets)
	}
	if err := matching(priv); err != nil {
		return gatewayKeys{}, err
	}
	// The provider knows its secret, and must not be able to make permits of it.
	if bytes.Equal(mac, credential) || bytes.Equal(mac, secrets) || bytes.Equal(credential, secrets) {
		return gatewayKeys{}, fmt.Errorf("two of the keys %s, %s and %s are the same: each must be of its own", kidMAC, kidProvider, kidSecrets)
	}
	keys, err := modes.KeysFrom(issuer, priv, mac)
	if err != nil {
		return gatewayKeys{}, err
	}
	return gatewayKeys{keys, base64.RawURLEncoding.EncodeToString(credential), secrets}, nil
}

// matching reports a private key with the public half of another, which nothing else
// notices: what it signs, the gateway itself would refuse.
func matching(priv *ecdsa.PrivateKey) error {
	raw, err := priv.Bytes()
	if err == nil {
		var derived *ecdsa.PrivateKey
		if derived, err = ecdsa.ParseRawPrivateKey(priv.Curve, raw); err == nil && derived.PublicKey.Equal(&priv.PublicKey) {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("the private half of the key %s: %w", kidPermits, err)
	}
	return fmt.Errorf("the private and the public half of the key %s do not belong together", kidPermits)
}

// loadKeys reads a key file, and makes it, for the owner's eyes alone, when there
// is none. No path: fresh keys that are not kept.
func loadKeys(issuer, path string) (gatewayKeys, error) {
	set, err := newKeySet()
	if err != nil {
		return gatewayKeys{}, err
	}
	if path != "" {
		if set, err = keySetAt(path, set); err != nil {
			return gatewayKeys{}, fmt.Errorf("reading the key file %s: %w", path, err)
		}
	}
	k, err := useKeySet(issuer, set)
	if err != nil {
		return gatewayKeys{}, fmt.Errorf("reading the key file %s: %w", path, err)
	}
	return k, nil
}

// keySetAt reads the set at path; where there is no file, it puts fresh there.
func keySetAt(path string, fresh jose.JSONWebKeySet) (jose.JSONWebKeySet, error) {
	set := jose.JSONWebKeySet{}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		text, err := json.MarshalIndent(fresh, "", "  ")
		if err != nil {
			return set, err
		}
		if err := createSecret(path, append(text, '\n')); err != nil {
			return set, err
		}
	}
	text, err := readSecret(path)
	if err != nil {
		return set, err
	}
	return parseKeySet(text)
}

// readSecret reads a file of keys that nobody but its owner may read.
func readSecret(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("others may read it (mode %04o): chmod 600 it, or make new keys if they have", info.Mode().Perm())
	}
	return results.ReadRegular(path)
}

// parseKeySet reads a JWK Set. Of two lists of keys none is the set's.
func parseKeySet(text []byte) (jose.JSONWebKeySet, error) {
	var set jose.JSONWebKeySet
	if err := jsonv2.Unmarshal(text, &set); err != nil {
		return jose.JSONWebKeySet{}, fmt.Errorf("not a JWK Set: %w", err)
	}
	return set, nil
}

// createSecret writes a whole file before it gets its name, so that of two gateways
// that start together neither reads half of the other's. A file that is there by then
// stays.
func createSecret(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".keys-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
