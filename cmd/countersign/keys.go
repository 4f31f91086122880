package main

import (
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
	keys, err := modes.KeysFrom(issuer, priv, mac)
	if err != nil {
		return gatewayKeys{}, err
	}
	return gatewayKeys{keys, base64.RawURLEncoding.EncodeToString(credential), secrets}, nil
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
		if err := createKeyFile(path, fresh); err != nil && !errors.Is(err, fs.ErrExist) {
			return set, err
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		return set, err
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return set, fmt.Errorf("others may read it (mode %04o): chmod 600 it, or make new keys if they have", info.Mode().Perm())
	}
	text, err := results.ReadRegular(path)
	if err != nil {
		return set, err
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return set, fmt.Errorf("not a JWK Set: %w", err)
	}
	return set, nil
}

// createKeyFile writes a whole file before it gets its name, so that of two
// gateways that start together neither reads half of the other's.
func createKeyFile(path string, set jose.JSONWebKeySet) error {
	text, err := json.MarshalIndent(set, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".keys-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Link(f.Name(), path) // fails where the file exists by now
}
