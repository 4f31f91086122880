// Package softkey is an approver's passkey in software: an authenticator
// together with the part of a browser that stands between it and a web page.
//
// [Key.Register] and [Key.Assert] are honest. [Key.Forge] is for negative cases:
// an assertion that is honest and freshly signed in everything except what the
// [Forgery] names, so that one check alone has a reason to refuse it.
//
// Keys and signatures come from the system's random source and differ from run
// to run.
package softkey

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/descope/virtualwebauthn"
)

// A Key holds the passkeys of one person, used from pages of one web origin.
// Its methods may be called concurrently.
type Key struct {
	origin string

	mu    sync.Mutex
	creds []*credential // oldest first
}

type credential struct {
	virtualwebauthn.Credential
	rpID       string
	userHandle []byte
}

// New returns an empty key whose browser shows pages of the origin, such as
// "https://approve.example".
func New(origin string) *Key { return &Key{origin: origin} }

// options are the members of PublicKeyCredentialCreationOptions and
// PublicKeyCredentialRequestOptions (WebAuthn Level 3, sections 5.4 and 5.5) that
// the key acts on.
type options struct {
	Challenge string `json:"challenge"`
	RPID      string `json:"rpId"`
	RP        struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	} `json:"rp"`
	User struct {
		ID string `json:"id"`
	} `json:"user"`
	Parameters []struct {
		Type string `json:"type"`
		Alg  int    `json:"alg"`
	} `json:"pubKeyCredParams"`
	Exclude []descriptor `json:"excludeCredentials"`
	Allow   []descriptor `json:"allowCredentials"`

	challenge []byte
}

type descriptor struct {
	ID string `json:"id"`
}

func parseOptions(raw json.RawMessage) (options, error) {
	var wrapped struct {
		PublicKey *options `json:"publicKey"`
	}
	if err := json.Unmarshal(raw, &wrapped); err != nil {
		return options{}, fmt.Errorf("reading the options: %w", err)
	}
	if wrapped.PublicKey == nil {
		return options{}, errors.New("reading the options: no member publicKey")
	}
	o := *wrapped.PublicKey
	var err error
	if o.challenge, err = base64.RawURLEncoding.DecodeString(o.Challenge); err != nil {
		return options{}, fmt.Errorf("reading the challenge: %w", err)
	}
	if len(o.challenge) == 0 {
		return options{}, errors.New("reading the options: no challenge")
	}
	return o, nil
}

// relyingParty returns the relying party id for a request by a page of the key's
// origin, or an error where a browser would raise a SecurityError (section 5.1.4.1,
// step 7): the id must be the page's host or a registrable suffix of it. Lacking a
// list of public suffixes, a suffix counts as registrable if it has a dot.
func (k *Key) relyingParty(id string) (string, error) {
	u, err := url.Parse(k.origin)
	if err != nil {
		return "", fmt.Errorf("reading the key's origin: %w", err)
	}
	host := u.Hostname()
	if host == "" || u.Scheme != "https" && (u.Scheme != "http" || host != "localhost") {
		return "", fmt.Errorf("origin %q of the key is not a secure web origin", k.origin)
	}
	if id == "" || id == host || strings.HasSuffix(host, "."+id) && strings.Contains(id, ".") {
		if id == "" {
			id = host
		}
		return id, nil
	}
	return "", fmt.Errorf("relying party %q does not belong to origin %q", id, k.origin)
}

// Register answers PublicKeyCredentialCreationOptions, wrapped in a member
// publicKey, with a new ES256 credential and a RegistrationResponseJSON.
func (k *Key) Register(creationOptions json.RawMessage) (response json.RawMessage, err error) {
	o, err := parseOptions(creationOptions)
	if err != nil {
		return nil, err
	}
	rpID, err := k.relyingParty(o.RP.ID)
	if err != nil {
		return nil, err
	}
	handle, err := base64.RawURLEncoding.DecodeString(o.User.ID)
	if err != nil || len(handle) == 0 || len(handle) > 64 {
		return nil, errors.New("reading the options: user.id is not 1 to 64 bytes in base64url")
	}
	const es256 = -7 // RFC 9053, section 2.1
	supported := len(o.Parameters) == 0
	for _, p := range o.Parameters {
		supported = supported || p.Type == "public-key" && p.Alg == es256
	}
	if !supported {
		return nil, errors.New("the options allow no ES256 key, and this key makes no other")
	}

	k.mu.Lock()
	defer k.mu.Unlock()
	if slices.ContainsFunc(k.creds, func(c *credential) bool { return c.rpID == rpID && listed(o.Exclude, c) }) {
		return nil, errors.New("this key is registered already (excludeCredentials)")
	}
	c := &credential{virtualwebauthn.NewCredential(virtualwebauthn.KeyTypeEC2), rpID, handle}
	out := virtualwebauthn.CreateAttestationResponse(k.site(rpID), virtualwebauthn.NewAuthenticator(), c.Credential,
		virtualwebauthn.AttestationOptions{Challenge: o.challenge})
	k.creds = append(k.creds, c)
	return json.RawMessage(out), nil
}

// Assert answers PublicKeyCredentialRequestOptions, wrapped in a member publicKey,
// with an AuthenticationResponseJSON by the newest allowed credential, whose
// counter goes up by one.
func (k *Key) Assert(requestOptions json.RawMessage) (response json.RawMessage, err error) {
	o, err := parseOptions(requestOptions)
	if err != nil {
		return nil, err
	}
	rpID, err := k.relyingParty(o.RPID)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	c, err := k.pick(rpID, o.Allow)
	if err != nil {
		return nil, err
	}
	c.Counter++
	auth := virtualwebauthn.NewAuthenticatorWithOptions(virtualwebauthn.AuthenticatorOptions{UserHandle: c.userHandle})
	out := virtualwebauthn.CreateAssertionResponse(k.site(rpID), auth, c.Credential,
		virtualwebauthn.AssertionOptions{Challenge: o.challenge})
	return json.RawMessage(out), nil
}

func (k *Key) site(rpID string) virtualwebauthn.RelyingParty {
	return virtualwebauthn.RelyingParty{ID: rpID, Origin: k.origin}
}

// pick returns the newest credential for the relying party that is in the list;
// an empty list allows all.
func (k *Key) pick(rpID string, allow []descriptor) (*credential, error) {
	for _, c := range slices.Backward(k.creds) {
		if c.rpID == rpID && (len(allow) == 0 || listed(allow, c)) {
			return c, nil
		}
	}
	return nil, fmt.Errorf("no passkey of this key is allowed for %q", rpID)
}

func listed(list []descriptor, c *credential) bool {
	id := encode(c.ID)
	return slices.ContainsFunc(list, func(d descriptor) bool { return strings.TrimRight(d.ID, "=") == id })
}

// A Forgery says in what an assertion differs from an honest one. The zero value
// changes nothing.
type Forgery struct {
	Type            string // client data type, instead of "webauthn.get"
	Challenge       []byte // signed instead of the one asked for
	Origin          string // instead of the key's
	CrossOrigin     bool   // the page was framed by one of another origin
	TopOrigin       string // that page's origin
	RPID            string // whose hash goes into the authenticator data
	ClearUP         bool   // nobody was present
	ClearUV         bool   // the person was not verified
	BackupState     bool   // backed up, although not eligible
	Counter         *uint32
	UserHandle      []byte // instead of the owner
	ExtraAuthData   []byte // appended to the authenticator data, and signed
	OtherKey        bool   // signed with a key that is not the credential's
	UnregisteredKey bool   // a new credential that was never registered
	// AlterAfterSigning changes the counter in the authenticator data once the
	// signature is made.
	AlterAfterSigning bool
}

// Forge answers like [Key.Assert], except for what f names, and with no regard to
// whether the relying party belongs to the key's origin.
func (k *Key) Forge(requestOptions json.RawMessage, f Forgery) (json.RawMessage, error) {
	o, err := parseOptions(requestOptions)
	if err != nil {
		return nil, err
	}
	rpID := o.RPID
	if rpID == "" {
		if rpID, err = k.relyingParty(""); err != nil {
			return nil, err
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	cred, err := k.pick(rpID, o.Allow)
	if err != nil {
		return nil, err
	}
	cred.Counter++
	c := *cred
	switch {
	case f.UnregisteredKey:
		c.Credential = virtualwebauthn.NewCredential(virtualwebauthn.KeyTypeEC2)
		c.Counter = cred.Counter
	case f.OtherKey:
		c.Key = virtualwebauthn.NewCredential(virtualwebauthn.KeyTypeEC2).Key
	}
	if f.Counter != nil {
		c.Counter = *f.Counter
	}
	if f.UserHandle != nil {
		c.userHandle = f.UserHandle
	}

	// The order of members is that of section 5.8.1.1.
	client := struct {
		Type        string `json:"type"`
		Challenge   string `json:"challenge"`
		Origin      string `json:"origin"`
		CrossOrigin bool   `json:"crossOrigin"`
		TopOrigin   string `json:"topOrigin,omitempty"`
	}{"webauthn.get", o.Challenge, k.origin, f.CrossOrigin, f.TopOrigin}
	if f.Type != "" {
		client.Type = f.Type
	}
	if f.Challenge != nil {
		client.Challenge = encode(f.Challenge)
	}
	if f.Origin != "" {
		client.Origin = f.Origin
	}
	clientJSON, err := json.Marshal(client)
	if err != nil {
		return nil, fmt.Errorf("writing the client data: %w", err)
	}

	// Section 6.1: relying party id hash, flags, signature counter.
	if f.RPID != "" {
		rpID = f.RPID
	}
	const up, uv, bs = 1 << 0, 1 << 2, 1 << 4
	flags := byte(up | uv)
	if f.ClearUP {
		flags &^= up
	}
	if f.ClearUV {
		flags &^= uv
	}
	if f.BackupState {
		flags |= bs
	}
	hash := sha256.Sum256([]byte(rpID))
	auth := append(hash[:], flags)
	auth = binary.BigEndian.AppendUint32(auth, c.Counter)
	auth = append(auth, f.ExtraAuthData...)

	// Section 6.3.3, step 11: the signature is over both.
	clientHash := sha256.Sum256(clientJSON)
	digest := sha256.Sum256(slices.Concat(auth, clientHash[:]))
	sig, err := c.Key.Sign(digest[:])
	if err != nil {
		return nil, fmt.Errorf("signing the assertion: %w", err)
	}
	if f.AlterAfterSigning {
		binary.BigEndian.PutUint32(auth[33:37], c.Counter+1)
	}

	id := encode(c.ID)
	return json.Marshal(map[string]any{
		"type": "public-key", "id": id, "rawId": id,
		"clientExtensionResults": struct{}{},
		"response": map[string]string{
			"clientDataJSON":    encode(clientJSON),
			"authenticatorData": encode(auth),
			"signature":         encode(sig),
			"userHandle":        encode(c.userHandle),
		},
	})
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }
