package passkey

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/protocol/webauthncose"
)

// CreationOptions returns the PublicKeyCredentialCreationOptions (WebAuthn Level
// 3, section 5.4), wrapped in a member publicKey, with which owner's browser
// makes a passkey. The challenge is the caller's: random, at least 16 bytes, and
// good for one registration.
func (rp *RelyingParty) CreationOptions(owner string, challenge []byte) (json.RawMessage, error) {
	if err := rp.check(); err != nil {
		return nil, err
	}
	// A user handle has 1 to 64 bytes (section 5.4.3).
	if n := len(owner); n == 0 || n > 64 {
		return nil, fmt.Errorf("passkey: owner has %d bytes, a user handle has 1 to 64", n)
	}
	if err := checkLength(challenge); err != nil {
		return nil, err
	}
	return json.Marshal(protocol.CredentialCreation{Response: protocol.PublicKeyCredentialCreationOptions{
		RelyingParty: protocol.RelyingPartyEntity{ID: rp.ID, CredentialEntity: protocol.CredentialEntity{Name: rp.Name}},
		User: protocol.UserEntity{
			ID:               protocol.URLEncodedBase64(owner),
			CredentialEntity: protocol.CredentialEntity{Name: owner},
			DisplayName:      owner,
		},
		Challenge:  challenge,
		Parameters: es256,
		AuthenticatorSelection: protocol.AuthenticatorSelection{
			UserVerification: protocol.VerificationRequired,
		},
		Attestation: protocol.PreferNoAttestation,
	}})
}

// RequestOptions returns the PublicKeyCredentialRequestOptions (section 5.5),
// wrapped in a member publicKey, with which an owner of one of the allowed
// credentials asserts the challenge. Nobody can be asked if none is allowed, so
// that is an error.
func (rp *RelyingParty) RequestOptions(challenge []byte, allowed []Credential) (json.RawMessage, error) {
	if err := rp.check(); err != nil {
		return nil, err
	}
	if err := checkLength(challenge); err != nil {
		return nil, err
	}
	if len(allowed) == 0 {
		return nil, errors.New("passkey: no credential is allowed: enrol an approver's passkey first")
	}
	list := make([]protocol.CredentialDescriptor, len(allowed))
	for i, c := range allowed {
		list[i] = protocol.CredentialDescriptor{Type: protocol.PublicKeyCredentialType, CredentialID: c.ID}
	}
	return json.Marshal(protocol.CredentialAssertion{Response: protocol.PublicKeyCredentialRequestOptions{
		Challenge:          challenge,
		RelyingPartyID:     rp.ID,
		AllowedCredentials: list,
		UserVerification:   protocol.VerificationRequired,
	}})
}

var es256 = []protocol.CredentialParameter{{Type: protocol.PublicKeyCredentialType, Algorithm: webauthncose.AlgES256}}

// checkLength applies section 13.4.3: a challenge of at least 16 bytes.
func checkLength(challenge []byte) error {
	if len(challenge) < 16 {
		return fmt.Errorf("passkey: challenge has %d bytes, at least 16 are needed", len(challenge))
	}
	return nil
}

// VerifyRegistration checks the response to [RelyingParty.CreationOptions] and
// returns the credential to be enrolled. A refusal is an [*Error]. The caller
// makes sure that the challenge is used once and that nobody else has enrolled
// the credential id.
func (rp *RelyingParty) VerifyRegistration(owner string, challenge []byte, response json.RawMessage) (Credential, error) {
	if err := rp.check(); err != nil {
		return Credential{}, err
	}
	if owner == "" {
		return Credential{}, errors.New("passkey: the registration has no owner")
	}
	parsed, err := protocol.ParseCredentialCreationResponseBytes(response)
	if err != nil {
		return Credential{}, refuse(CodeMalformed, "reading the registration: %s", describe(err))
	}
	att := parsed.Response.AttestationObject
	// No attestation was asked for. A browser then removes it or leaves a self
	// attestation; the other formats are parsers that nobody needs to reach.
	_, chain := att.AttStatement["x5c"]
	if f := protocol.AttestationFormat(att.Format); f != protocol.AttestationFormatNone && (f != protocol.AttestationFormatPacked || chain) {
		return Credential{}, refuse(CodeMalformed, "attestation %q was not asked for", att.Format)
	}
	id := att.AuthData.AttData.CredentialID
	if !bytes.Equal(parsed.RawID, id) {
		return Credential{}, refuse(CodeCredential, "the response names another credential than the authenticator data")
	}
	if _, err := parseKey(att.AuthData.AttData.CredentialPublicKey); err != nil {
		return Credential{}, err
	}
	if err := rp.checkCeremony(protocol.CreateCeremony, challenge, parsed.Response.CollectedClientData, att.AuthData); err != nil {
		return Credential{}, err
	}
	if _, err := parsed.Verify(encode(challenge), rp.ID, []string{rp.Origin}, nil, nil, protocol.TopOriginExplicitVerificationMode,
		false, true, true, nil, es256, protocol.AttestationPolicy{}, protocol.SignaturePolicy{}); err != nil {
		return Credential{}, refuse(CodeSignature, "verifying the attestation: %s", describe(err))
	}
	return Credential{
		ID:             bytes.Clone(id),
		PublicKey:      bytes.Clone(att.AuthData.AttData.CredentialPublicKey),
		Owner:          owner,
		SignCount:      att.AuthData.Counter,
		BackupEligible: att.AuthData.Flags.HasBackupEligible(),
	}, nil
}

// An Assertion is a response together with what it is compared with.
type Assertion struct {
	Response json.RawMessage
	// Challenge is what must have been signed. An empty one matches nothing.
	Challenge []byte
	// AnyChallenge accepts whatever challenge was signed, for designs that no
	// longer know it. What is lost: an old assertion is as good as a new one.
	AnyChallenge bool
	// Credentials are the enrolled credentials of everyone who may assert.
	Credentials []Credential
	// CheckCounter wants the signature counter to have gone up since
	// Credential.SignCount. Leave it out when verifying an assertion again whose
	// count is stored already.
	CheckCounter bool
}

// Verified is the result of an assertion.
type Verified struct {
	Credential Credential // the enrolled record, unchanged
	SignCount  uint32     // to be stored as Credential.SignCount, by compare-and-set
	Challenge  []byte     // what was signed
}

// VerifyAssertion checks an assertion. A refusal is an [*Error].
func (rp *RelyingParty) VerifyAssertion(a Assertion) (Verified, error) {
	if err := rp.check(); err != nil {
		return Verified{}, err
	}
	parsed, err := protocol.ParseCredentialRequestResponseBytes(a.Response)
	if err != nil {
		return Verified{}, refuse(CodeMalformed, "reading the assertion: %s", describe(err))
	}
	data, client := parsed.Response.AuthenticatorData, parsed.Response.CollectedClientData
	if data.Flags.HasAttestedCredentialData() {
		return Verified{}, refuse(CodeMalformed, "the authenticator data of an assertion contains a new credential")
	}
	cred, err := find(a.Credentials, parsed.RawID)
	if err != nil {
		return Verified{}, err
	}
	if h := parsed.Response.UserHandle; len(h) > 0 && string(h) != cred.Owner {
		return Verified{}, refuse(CodeCredential, "the user handle is not the owner of the credential")
	}
	key, err := parseKey(cred.PublicKey)
	if err != nil {
		return Verified{}, err
	}
	signed, err := base64.RawURLEncoding.DecodeString(client.Challenge)
	if err != nil || len(signed) == 0 {
		return Verified{}, refuse(CodeMalformed, "the challenge of the client data is not base64url")
	}
	want := a.Challenge
	if a.AnyChallenge {
		want = signed
	}
	if err := rp.checkCeremony(protocol.AssertCeremony, want, client, data); err != nil {
		return Verified{}, err
	}
	if data.Flags.HasBackupEligible() != cred.BackupEligible {
		return Verified{}, refuse(CodeBackup, "the credential is backup eligible: enrolled as %t, now %t", cred.BackupEligible, !cred.BackupEligible)
	}
	// Steps 19 and 20. The library's Verify would parse and check the key again.
	raw := parsed.Raw.AssertionResponse
	hash := sha256.Sum256(raw.ClientDataJSON)
	if !verifies(key, slices.Concat(raw.AuthenticatorData, hash[:]), parsed.Response.Signature) {
		return Verified{}, refuse(CodeSignature, "the signature is not the credential's over this authenticator and client data")
	}
	// Section 6.1.1: a counter that does not go up may mean a cloned authenticator.
	if a.CheckCounter && cred.SignCount > 0 && data.Counter <= cred.SignCount {
		return Verified{}, refuse(CodeCounter, "signature counter %d after %d: the authenticator may have been cloned", data.Counter, cred.SignCount)
	}
	return Verified{Credential: cred, SignCount: data.Counter, Challenge: signed}, nil
}

// find returns the one credential with the id. Two with the same id would make
// the owner a matter of order.
func find(creds []Credential, id []byte) (Credential, error) {
	found := -1
	for i := range creds {
		if !bytes.Equal(creds[i].ID, id) {
			continue
		}
		if found >= 0 {
			return Credential{}, refuse(CodeCredential, "the credential id is enrolled twice")
		}
		found = i
	}
	if found < 0 {
		return Credential{}, refuse(CodeCredential, "the credential is not enrolled")
	}
	return creds[found], nil
}

// verifies reports whether a signature is the key's over a message: ES256, which
// WebAuthn writes in ASN.1 DER (section 6.5.5).
func verifies(key *ecdsa.PublicKey, message, signature []byte) bool {
	digest := sha256.Sum256(message)
	return ecdsa.VerifyASN1(key, digest[:], signature)
}

// parseKey reads a COSE_Key, which must be an ES256 key on P-256.
func parseKey(cose []byte) (*ecdsa.PublicKey, error) {
	key, err := webauthncose.ParsePublicKey(cose)
	if err != nil {
		return nil, refuse(CodeAlgorithm, "reading the public key: %s", describe(err))
	}
	ec, _ := key.(webauthncose.EC2PublicKeyData) // a key of another kind leaves this without an algorithm
	if ec.Algorithm != int64(webauthncose.AlgES256) || ec.Curve != int64(webauthncose.P256) {
		return nil, refuse(CodeAlgorithm, "the key is not an ES256 key on P-256")
	}
	const uncompressed = 4 // SEC 1, section 2.3.3
	public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), slices.Concat([]byte{uncompressed}, ec.XCoord, ec.YCoord))
	if err != nil {
		return nil, refuse(CodeAlgorithm, "the key is no point of P-256")
	}
	return public, nil
}

// checkCeremony makes the checks that a registration and an assertion share,
// from the ceremony type to the backup flags.
func (rp *RelyingParty) checkCeremony(ceremony protocol.CeremonyType, challenge []byte, client protocol.CollectedClientData, data protocol.AuthenticatorData) error {
	if client.Type != ceremony {
		return refuse(CodeType, "ceremony %q, want %q", client.Type, ceremony)
	}
	if len(challenge) == 0 || subtle.ConstantTimeCompare([]byte(client.Challenge), []byte(encode(challenge))) != 1 {
		return refuse(CodeChallenge, "another challenge was signed")
	}
	// As strings: go-webauthn's own comparison folds case and drops a user part.
	if client.Origin != rp.Origin {
		return refuse(CodeOrigin, "origin %q, want %q", client.Origin, rp.Origin)
	}
	if client.CrossOrigin || client.TopOrigin != "" {
		return refuse(CodeCrossOrigin, "the ceremony ran in a frame of another origin (top origin %q)", client.TopOrigin)
	}
	if want := sha256.Sum256([]byte(rp.ID)); !bytes.Equal(data.RPIDHash, want[:]) {
		return refuse(CodeRPID, "the relying party id hash is not that of %q", rp.ID)
	}
	if !data.Flags.HasUserPresent() {
		return refuse(CodeUP, "no person was present")
	}
	if !data.Flags.HasUserVerified() {
		return refuse(CodeUV, "the person was not verified")
	}
	if data.Flags.HasBackupState() && !data.Flags.HasBackupEligible() {
		return refuse(CodeBackup, "the credential is backed up without being backup eligible")
	}
	return nil
}

func encode(challenge []byte) string { return base64.RawURLEncoding.EncodeToString(challenge) }

// describe adds go-webauthn's developer information, without which its errors
// say little.
func describe(err error) string {
	var e *protocol.Error
	if errors.As(err, &e) && e.DevInfo != "" {
		return e.Details + " (" + e.DevInfo + ")"
	}
	return err.Error()
}
