// Package passkey verifies WebAuthn registrations and assertions for the
// gateway. Its functions are pure: they keep no state, read no clock and draw no
// random number. The wire formats and the signature are go-webauthn's work; the
// decisions are made here, one at a time, each with its own code.
//
// # What is verified
//
// For an assertion, in this order (WebAuthn Level 3, section 7.2); the first
// failure is the one reported:
//
//   - malformed: the response is one JSON value, its members decode, the
//     authenticator data has no byte too many and no attested credential;
//   - credential: the id is that of exactly one enrolled credential, and the user
//     handle, where present, is its owner;
//   - algorithm: the enrolled key is an ES256 key on P-256;
//   - type: "webauthn.get";
//   - challenge: the one given;
//   - origin: equal as a string to the relying party's (scheme, host and port);
//   - cross_origin: crossOrigin is not true and there is no topOrigin;
//   - rp_id: the hash is that of the relying party id;
//   - up, uv: a person was present, and was verified;
//   - backup: the backup flags agree with each other and with the enrolment;
//   - signature: over authenticator data and client data, by the enrolled key;
//   - counter: if stored or received count is not zero, it went up (where asked).
//
// A registration is checked alike, with type "webauthn.create", except that its
// key comes from the response and a self attestation, if any, is verified.
//
// # What is not verified
//
//   - Single use and expiry: the caller owns the state and the clock.
//   - That a credential id is not enrolled for another person: the caller knows
//     the others (section 7.1, step 26).
//   - Who made the authenticator: no attestation is asked for.
//   - That a person saw what the challenge stands for: a passkey shows nothing.
package passkey

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
)

// A Code names the check that refused a response.
type Code string

// The codes, one a check, in the order of the checks. The package comment says
// what each means.
const (
	CodeMalformed   Code = "malformed"
	CodeCredential  Code = "credential"
	CodeAlgorithm   Code = "algorithm"
	CodeType        Code = "type"
	CodeChallenge   Code = "challenge"
	CodeOrigin      Code = "origin"
	CodeCrossOrigin Code = "cross_origin"
	CodeRPID        Code = "rp_id"
	CodeUP          Code = "up"
	CodeUV          Code = "uv"
	CodeBackup      Code = "backup"
	CodeSignature   Code = "signature"
	CodeCounter     Code = "counter"
)

// An Error is the refusal of a registration or an assertion.
type Error struct {
	Code   Code
	Detail string // for people
}

func (e *Error) Error() string { return "passkey: " + string(e.Code) + ": " + e.Detail }

func refuse(c Code, format string, args ...any) error {
	return &Error{Code: c, Detail: fmt.Sprintf(format, args...)}
}

// A RelyingParty is the web site that asks for passkeys. [New] makes one; the
// zero value refuses everything.
type RelyingParty struct {
	ID     string // the host of the origin
	Origin string // as a browser writes it: scheme, host and, if not the default, port
	Name   string // shown when a passkey is created; New sets it to the host
}

// New returns the relying party of a web origin such as
// "https://approve.example". The origin must be written as a browser writes it,
// because it is compared as a string: lower-case, without path, user or default
// port. http is allowed for localhost alone, which browsers treat as secure.
func New(origin string) (*RelyingParty, error) {
	u, err := url.Parse(origin)
	if err != nil {
		return nil, fmt.Errorf("reading the origin of the relying party: %w", err)
	}
	host, port := u.Hostname(), u.Port()
	canonical := u.Scheme + "://" + host
	if port != "" {
		canonical += ":" + port
	}
	switch {
	case u.Scheme != "https" && (u.Scheme != "http" || host != "localhost"):
		return nil, fmt.Errorf("origin %q of the relying party: the scheme must be https (http for localhost alone)", origin)
	case !isDomain(host):
		return nil, fmt.Errorf("origin %q of the relying party: the host must be a domain in lower-case ASCII, no IP address", origin)
	case canonical != origin, u.Scheme == "https" && port == "443", u.Scheme == "http" && port == "80":
		return nil, fmt.Errorf("origin %q of the relying party: write scheme://host or scheme://host:port, without path, user or default port", origin)
	}
	return &RelyingParty{ID: host, Origin: origin, Name: host}, nil
}

func isDomain(host string) bool {
	if len(host) > 253 || net.ParseIP(host) != nil {
		return false
	}
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			return false
		}
	}
	return true
}

var errNoRelyingParty = errors.New("passkey: the relying party has no id or origin: make it with New")

func (rp *RelyingParty) check() error {
	if rp == nil || rp.ID == "" || rp.Origin == "" {
		return errNoRelyingParty
	}
	return nil
}

// A Credential is the record of an enrolled passkey.
type Credential struct {
	ID        []byte `json:"id"`
	PublicKey []byte `json:"public_key"` // COSE_Key (RFC 9052)
	Owner     string `json:"owner"`      // the person, also the WebAuthn user handle
	// SignCount is the newest signature counter seen; zero for an authenticator
	// that has none.
	SignCount uint32 `json:"sign_count"`
	// BackupEligible says that the passkey may be copied to other devices. It
	// never changes in the life of a credential.
	BackupEligible bool `json:"backup_eligible"`
}
