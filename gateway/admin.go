package gateway

import (
	"context"
	"crypto"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	jsonv2 "github.com/go-json-experiment/json"

	"countersign/gateway/api"
	"countersign/modes"
)

// Admin implements api.Target.
func (g *Gateway) Admin(ctx context.Context, auth api.Auth, e api.Event) error {
	caller, err := g.authenticate(ctx, auth, api.RoleAdmin)
	if err != nil {
		return err
	}
	subject := e.Subject
	if e.Kind == api.EventEnrol && e.Principal != nil {
		subject = e.Principal.ID
	}
	what := string(e.Kind) + ":" + subject
	if err := g.log(ctx, api.AuditEntry{Event: "admin:" + what, Principal: caller.ID, Note: e.Value}); err != nil && g.mode.Has(api.BindClosed) {
		return fmt.Errorf("%w: the audit log cannot be written", api.ErrUnavailable)
	}
	failed := g.apply(ctx, e, subject)
	outcome := "admin-applied:"
	if failed != nil {
		outcome = "admin-failed:"
	}
	// An event without this line is one of which it is not known what became.
	_ = g.log(ctx, api.AuditEntry{Event: outcome + what, Principal: caller.ID})
	return failed
}

// apply does what an event says; subject is the principal's where one is enrolled.
func (g *Gateway) apply(ctx context.Context, e api.Event, subject string) error {
	switch e.Kind {
	case api.EventEnrol:
		return g.enrol(ctx, e.Principal)
	case api.EventDisableAgent:
		if _, err := g.registry.Principal(ctx, subject); err != nil {
			return err
		}
		return once(create(ctx, g.registry.s, kindDisabled, subject, "", struct{}{}))
	case api.EventRevoke:
		sus, err := g.records.suspension(ctx, subject)
		if err != nil {
			return err
		}
		return once(create(ctx, g.records.s, kindRevocation, sus.Permit, "", struct{}{}))
	case api.EventPolicyChange:
		if e.Value == "" {
			return fmt.Errorf("%w: a policy change names the new version", api.ErrInvalid)
		}
		return g.registry.changePolicy(ctx, func(p *modes.Policy) { p.Version = e.Value })
	case api.EventRiskLabel:
		if e.Value == "" {
			return fmt.Errorf("%w: a risk label names the tool and the label", api.ErrInvalid)
		}
		if !g.hasTool(subject) {
			return fmt.Errorf("%w: there is no tool %q to label", api.ErrInvalid, subject)
		}
		return g.registry.changePolicy(ctx, func(p *modes.Policy) {
			if p.Risk == nil {
				p.Risk = map[string]string{}
			}
			p.Risk[subject] = e.Value
		})
	case api.EventApprovals:
		if len(e.Value) != 1 || e.Value[0] < '1' || e.Value[0] > '9' {
			return fmt.Errorf("%w: how many people have to approve names the tool and a number from 1 to 9", api.ErrInvalid)
		}
		if !g.hasTool(subject) {
			return fmt.Errorf("%w: there is no tool %q to approve", api.ErrInvalid, subject)
		}
		return g.registry.changePolicy(ctx, func(p *modes.Policy) {
			if p.Approvals == nil {
				p.Approvals = map[string]int{}
			}
			p.Approvals[subject] = int(e.Value[0] - '0')
		})
	case api.EventAllowRunWide:
		bounds, err := runWideBounds(e.Value)
		if err != nil {
			return err
		}
		return g.boundRunWide(ctx, subject, bounds)
	case api.EventForbidRunWide:
		return g.boundRunWide(ctx, subject, modes.RunWideBounds{})
	case api.EventRemoveCredential:
		return g.removeCredentials(ctx, subject)
	case api.EventAllowSelfApproval:
		if strings.TrimSpace(e.Value) == "" {
			return fmt.Errorf("%w: an opt-out from segregation of duties gives its reason", api.ErrInvalid)
		}
		return g.optOut(ctx, subject, e.Value)
	case api.EventForbidSelfApproval:
		return g.optOut(ctx, subject, "")
	}
	return fmt.Errorf("%w: there is no administrative event %q", api.ErrInvalid, e.Kind)
}

// runWideBounds reads bounds such as "3 10m".
func runWideBounds(value string) (modes.RunWideBounds, error) {
	number, duration, _ := strings.Cut(value, " ")
	n, _ := strconv.Atoi(number) // what is no number is zero or the largest one
	d, _ := time.ParseDuration(duration)
	if n < 2 || n > MaxRunWideUses || d < time.Second || d > MaxRunWideTime || d%time.Second != 0 {
		return modes.RunWideBounds{}, fmt.Errorf("%w: run-wide approvals are bounded by a number of calls from 2 to %d and whole seconds, up to %s, as in \"3 10m\"", api.ErrInvalid, MaxRunWideUses, MaxRunWideTime)
	}
	return modes.RunWideBounds{Uses: n, Seconds: int64(d / time.Second)}, nil
}

func (g *Gateway) boundRunWide(ctx context.Context, tool string, bounds modes.RunWideBounds) error {
	if !g.hasTool(tool) {
		return fmt.Errorf("%w: there is no tool %q to approve for a run", api.ErrInvalid, tool)
	}
	return g.registry.changePolicy(ctx, func(p *modes.Policy) {
		if p.RunWide == nil {
			p.RunWide = map[string]modes.RunWideBounds{}
		}
		p.RunWide[tool] = bounds
	})
}

// hasTool reports whether the table has a tool of this name: audience/tool.
func (g *Gateway) hasTool(name string) bool {
	for n := range g.tools {
		if n.audience+"/"+n.name == name {
			return true
		}
	}
	return false
}

// optOut says whether a person may approve its own requests in its own tenant:
// for a reason, or, without one, not.
func (g *Gateway) optOut(ctx context.Context, person, reason string) error {
	p, err := g.registry.Principal(ctx, person)
	switch {
	case err != nil:
		return err
	case p.Role != api.RolePerson:
		return fmt.Errorf("%w: %s is no person, and approves nothing of its own", api.ErrInvalid, person)
	}
	return g.registry.setOptOut(ctx, p.Tenant, person, optOut{reason})
}

// once makes a repeated event harmless.
func once[T any](_ T, err error) error {
	if errors.Is(err, api.ErrConflict) {
		return nil
	}
	return err
}

func (g *Gateway) enrol(ctx context.Context, p *api.Principal) error {
	if p == nil {
		return fmt.Errorf("%w: no principal is given", api.ErrInvalid)
	}
	if len(p.Token) < minTokenBytes {
		return fmt.Errorf("%w: the token of %q has fewer than %d bytes, so that it could be guessed", api.ErrInvalid, p.ID, minTokenBytes)
	}
	if len(p.Key) > 0 && thumbprint(p.Key) == "" {
		return fmt.Errorf("%w: the key of %q is not a public JWK", api.ErrInvalid, p.ID)
	}
	err := g.registry.enrol(ctx, *p)
	if errors.Is(err, api.ErrConflict) { // without what the store says of its rows
		err = fmt.Errorf("%w: the token or the principal is enrolled already", api.ErrConflict)
	}
	return err
}

func (g *Gateway) removeCredentials(ctx context.Context, owner string) error {
	rows, err := g.registry.s.Find(ctx, kindCredential, owner)
	if err != nil {
		return answered(err)
	}
	for _, row := range rows {
		var c credentialRow
		if err := jsonv2.Unmarshal(row.Body, &c); err != nil {
			return err
		}
		c.Removed = true
		if _, err := update(ctx, g.registry.s, row, c); err != nil {
			return err
		}
	}
	return nil
}

// thumbprint is the RFC 7638 SHA-256 thumbprint of a public JWK, base64url;
// empty for anything else.
func thumbprint(jwk []byte) string {
	var k jose.JSONWebKey
	if json.Unmarshal(jwk, &k) != nil || !k.IsPublic() {
		return ""
	}
	t, _ := k.Thumbprint(crypto.SHA256) // empty with an error
	return base64.RawURLEncoding.EncodeToString(t)
}

// BeginEnrolment implements api.Target.
func (g *Gateway) BeginEnrolment(ctx context.Context, auth api.Auth) (json.RawMessage, error) {
	caller, err := g.authenticate(ctx, auth, api.RolePerson)
	if err != nil {
		return nil, err
	}
	if err := g.withoutPasskey(ctx, caller.ID); err != nil {
		return nil, err
	}
	challenge := randomBytes(challengeBytes)
	id := base64.RawURLEncoding.EncodeToString(challenge)
	if _, err := create(ctx, g.registry.s, kindEnrolment, id, caller.ID, struct{}{}); err != nil {
		return nil, err
	}
	return g.rp.CreationOptions(caller.ID, challenge)
}

// withoutPasskey refuses a person who has one: a stolen token alone must not add
// a passkey beside the owner's.
func (g *Gateway) withoutPasskey(ctx context.Context, person string) error {
	creds, err := g.registry.Credentials(ctx, person)
	if len(creds) > 0 {
		err = fmt.Errorf("%w: %s has a passkey; an administrator removes it before another is enrolled", api.ErrForbidden, person)
	}
	return err
}

// FinishEnrolment implements api.Target. The newest challenge of the caller
// counts, once.
func (g *Gateway) FinishEnrolment(ctx context.Context, auth api.Auth, response json.RawMessage) error {
	caller, err := g.authenticate(ctx, auth, api.RolePerson)
	if err != nil {
		return err
	}
	// Again, because an enrolment may have been begun before another was finished.
	if err := g.withoutPasskey(ctx, caller.ID); err != nil {
		return err
	}
	rows, err := g.registry.s.Find(ctx, kindEnrolment, caller.ID)
	if err != nil {
		return answered(err)
	}
	if len(rows) == 0 {
		return fmt.Errorf("%w: no enrolment was begun", api.ErrConflict)
	}
	challenge, err := base64.RawURLEncoding.DecodeString(rows[0].ID)
	if err != nil {
		return fmt.Errorf("reading the enrolment of %s: %w", caller.ID, err)
	}
	cred, err := g.rp.VerifyRegistration(caller.ID, challenge, response)
	if err != nil {
		return fmt.Errorf("%w: %w", api.ErrInvalid, err)
	}
	spent := rows[0]
	spent.Key = caller.ID + "/spent"
	if _, err := g.registry.s.Update(ctx, spent); err != nil {
		return answered(err)
	}
	_, err = create(ctx, g.registry.s, kindCredential, credentialID(cred.ID), caller.ID, credentialRow{Credential: cred})
	return err
}

// Audit implements api.Target.
func (g *Gateway) Audit(ctx context.Context, auth api.Auth, after int64) ([]api.AuditEntry, error) {
	if _, err := g.authenticate(ctx, auth, api.RoleAuditor); err != nil {
		return nil, err
	}
	return g.audit.Read(ctx, after)
}
