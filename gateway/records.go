package gateway

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"countersign/gateway/api"
	"countersign/gateway/store"
	"countersign/modes"
	"countersign/modes/passkey"
)

type jsonText = json.RawMessage

// Kinds of rows.
const (
	kindSuspension = "suspension" // key: whether it waits for a decision
	kindPlace      = "place"      // id: tenant, agent, run, step, call; its newest suspension
	kindStage      = "stage"      // id: suspension, stage. Created once: the approval before it, and what the stage is.
	kindApproval   = "approval"   // id: permit; key: run. Created once: the decision.
	kindWindow     = "window"     // id: permit; key: requester
	kindRevocation = "revocation" // id: permit
	kindClock      = "clock"      // id: latest; the latest time ever seen
	kindProof      = "proof"      // id: digest of agent and proof. Created once: the proof's use.
	kindUse        = "use"        // id: issuer, audience, permit, and of a run-wide one which use; key: while it is open, the action digest. Created once: the consumption.
	kindRunWide    = "run_wide"   // id: permit; key: tenant, agent, run, action digest

	kindPrincipal  = "principal" // key: token digest
	kindName       = "name"      // id: a principal's folded id
	kindApprover   = "approver"  // key: tenant
	kindDisabled   = "disabled"
	kindCredential = "credential" // key: owner
	kindEnrolment  = "enrolment"  // id: challenge; key: owner
	kindPolicy     = "policy"
	kindOptOut     = "self_approval" // id: tenant, person
)

// joined makes one identifier of several without ambiguity.
func joined(parts ...string) string {
	b, _ := json.Marshal(parts) // strings always marshal
	return string(b)
}

func get[T any](ctx context.Context, s store.Store, kind, id string) (v T, row store.Row, err error) {
	row, err = s.Get(ctx, kind, id)
	if err != nil {
		return v, row, answered(err)
	}
	return v, row, jsonv2.Unmarshal(row.Body, &v)
}

// answered keeps what the store said and makes everything else unavailable.
func answered(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrNotFound):
		return api.ErrNotFound
	case errors.Is(err, store.ErrExists), errors.Is(err, store.ErrStale):
		return fmt.Errorf("%w: %w", api.ErrConflict, err)
	}
	return fmt.Errorf("%w: %w", api.ErrUnavailable, err)
}

func create(ctx context.Context, s store.Store, kind, id, key string, v any) (store.Row, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return store.Row{}, fmt.Errorf("storing a %s: %w", kind, err)
	}
	row, err := s.Create(ctx, store.Row{Kind: kind, ID: id, Key: key, Body: body})
	return row, answered(err)
}

func update(ctx context.Context, s store.Store, row store.Row, v any) (store.Row, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return row, fmt.Errorf("storing a %s: %w", row.Kind, err)
	}
	row.Body = body
	row, err = s.Update(ctx, row)
	return row, answered(err)
}

// records is the approval store.
type records struct{ s store.Store }

var _ modes.Records = records{}

// A suspension is one stop of one step of one run.
type suspension struct {
	ID         string     `json:"id"`
	At         int64      `json:"at"`
	Since      time.Time  `json:"since,omitzero"` // zero where the time was not known
	Permit     string     `json:"permit"`
	Agent      string     `json:"agent"`
	Action     api.Action `json:"action"`
	Envelope   []byte     `json:"envelope"`
	View       api.View   `json:"view"`
	Challenge  []byte     `json:"challenge,omitempty"`
	ArgsDigest string     `json:"args_digest"`
	Digest     string     `json:"digest"`           // see actionDigest
	Policy     string     `json:"policy,omitempty"` // version in force when it was suspended
	row        store.Row  // of its first stage
}

func (r records) ping(ctx context.Context) error {
	_, err := r.s.Get(ctx, kindSuspension, "-")
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return answered(err)
}

// suspension returns a suspension in the stage that it has reached.
func (r records) suspension(ctx context.Context, id string) (suspension, error) {
	s, row, err := get[suspension](ctx, r.s, kindSuspension, id)
	for err == nil && s.View.Stage > 0 {
		next, _, nextErr := get[stage](ctx, r.s, kindStage, stageID(id, s.View.Stage+1))
		if errors.Is(nextErr, api.ErrNotFound) {
			break
		}
		s, err = next.Opened, nextErr
	}
	s.row = row
	return s, err
}

// A stage is one more approval that a suspension waits for, with the approval that
// opened it. It is one row, so that neither is there without the other. The permit
// stays the suspension's, so that withdrawing it, or a no, is for all stages.
type stage struct {
	After  modes.Approval `json:"after"`
	Opened suspension     `json:"opened"`
}

func stageID(suspension string, n int64) string { return joined(suspension, strconv.FormatInt(n, 10)) }

func (r records) Approval(ctx context.Context, permit string) (modes.Approval, error) {
	a, _, err := get[modes.Approval](ctx, r.s, kindApproval, permit)
	return a, err
}

func (r records) ApprovalOfRun(ctx context.Context, run string) (modes.Approval, error) {
	rows, err := r.s.Find(ctx, kindApproval, run)
	if err != nil {
		return modes.Approval{}, answered(err)
	}
	for _, row := range rows {
		var a modes.Approval
		if err := jsonv2.Unmarshal(row.Body, &a); err != nil {
			return modes.Approval{}, err
		}
		if a.Verdict == api.Approve {
			return a, nil
		}
	}
	return modes.Approval{}, api.ErrNotFound
}

func (r records) Window(ctx context.Context, requester string) (modes.Approval, error) {
	if requester == "" { // agents that act for nobody share no window
		return modes.Approval{}, api.ErrNotFound
	}
	rows, err := r.s.Find(ctx, kindWindow, requester)
	if err != nil {
		return modes.Approval{}, answered(err)
	}
	if len(rows) == 0 {
		return modes.Approval{}, api.ErrNotFound
	}
	return r.Approval(ctx, rows[0].ID)
}

func placeID(p modes.Place) string { return joined(p.Tenant, p.Agent, p.Run, p.Step, p.Call) }

// Latest reads one small row, however often and with however much a place was
// suspended.
func (r records) Latest(ctx context.Context, p modes.Place) (modes.Suspended, error) {
	id, _, err := get[string](ctx, r.s, kindPlace, placeID(p))
	if err != nil {
		return modes.Suspended{}, err
	}
	at, err := suspendedAt(id)
	return modes.Suspended{ID: id, At: at}, err
}

// suspend stores a suspension, and that it is the newest of its place unless a
// newer one was stored meanwhile.
func (r records) suspend(ctx context.Context, p modes.Place, sus suspension) error {
	if _, err := create(ctx, r.s, kindSuspension, sus.ID, keyWaiting, sus); err != nil {
		return err
	}
	for {
		id, row, err := get[string](ctx, r.s, kindPlace, placeID(p))
		switch {
		case errors.Is(err, api.ErrNotFound):
			_, err = create(ctx, r.s, kindPlace, placeID(p), "", sus.ID)
		case err != nil:
			return err
		default:
			newest, bad := suspendedAt(id)
			if bad != nil || newest > sus.At {
				return bad
			}
			_, err = update(ctx, r.s, row, sus.ID)
		}
		if !errors.Is(err, api.ErrConflict) { // another instance was first
			return err
		}
	}
}

// suspensionID names the suspension made at an instant of the store's counter.
func suspensionID(at int64) string { return fmt.Sprintf("s-%06d", at) }

func suspendedAt(id string) (int64, error) {
	// What is no number is read as one that has another text.
	if at, _ := strconv.ParseInt(strings.TrimPrefix(id, "s-"), 10, 64); suspensionID(at) == id {
		return at, nil
	}
	return 0, fmt.Errorf("%w: %q names no suspension", api.ErrUnavailable, id)
}

func (r records) Permit(ctx context.Context, suspension string) (string, error) {
	s, err := r.suspension(ctx, suspension)
	return s.Permit, err
}

func (r records) Spent(ctx context.Context, issuer, audience, permit string) (bool, error) {
	return exists(ctx, r.s, kindUse, joined(issuer, audience, permit))
}

func (r records) Revoked(ctx context.Context, permit string) (bool, error) {
	if permit == "" {
		return false, nil
	}
	return exists(ctx, r.s, kindRevocation, permit)
}

func exists(ctx context.Context, s store.Store, kind, id string) (bool, error) {
	_, err := s.Get(ctx, kind, id)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil, answered(err)
}

// registry is the store of identities, credentials and policy.
type registry struct{ s store.Store }

var _ modes.Identities = registry{}

func (r registry) enrol(ctx context.Context, p api.Principal) error {
	if err := checkID(p.ID); err != nil {
		return err
	}
	if p.Token == "" {
		return fmt.Errorf("%w: a principal needs a token", api.ErrInvalid)
	}
	switch p.Role {
	case api.RoleAgent, api.RolePerson, api.RoleAdmin, api.RoleAuditor:
	default:
		return fmt.Errorf("%w: there is no role %q", api.ErrInvalid, p.Role)
	}
	digest := tokenDigest(p.Token)
	if other, err := r.s.Find(ctx, kindPrincipal, digest); err != nil {
		return answered(err)
	} else if len(other) > 0 {
		return fmt.Errorf("%w: the token or the principal is enrolled already", api.ErrConflict)
	}
	if err := r.takeName(ctx, p.ID); err != nil {
		return err
	}
	p.Token = ""
	if _, err := create(ctx, r.s, kindPrincipal, p.ID, digest, p); err != nil {
		return err
	}
	if p.Approver && p.Role == api.RolePerson {
		if _, err := create(ctx, r.s, kindApprover, p.ID, p.Tenant, struct{}{}); err != nil {
			return err
		}
	}
	return nil
}

// takeName keeps an id from being enrolled beside one that it could be taken for.
func (r registry) takeName(ctx context.Context, id string) error {
	_, err := create(ctx, r.s, kindName, foldedID(id), "", id)
	if !errors.Is(err, api.ErrConflict) {
		return err
	}
	taken, _, err := get[string](ctx, r.s, kindName, foldedID(id))
	if err == nil && taken != id {
		err = fmt.Errorf("%w: %q differs from the id %q in nothing that a reader would see as a difference", api.ErrConflict, id, taken)
	}
	return err
}

func (r registry) byToken(ctx context.Context, token string) (api.Principal, error) {
	if token == "" {
		return api.Principal{}, api.ErrUnauthenticated
	}
	rows, err := r.s.Find(ctx, kindPrincipal, tokenDigest(token))
	if err != nil {
		return api.Principal{}, answered(err)
	}
	if len(rows) != 1 {
		return api.Principal{}, api.ErrUnauthenticated
	}
	var p api.Principal
	return p, jsonv2.Unmarshal(rows[0].Body, &p)
}

func (r registry) Principal(ctx context.Context, id string) (api.Principal, error) {
	p, _, err := get[api.Principal](ctx, r.s, kindPrincipal, id)
	return p, err
}

func (r registry) Disabled(ctx context.Context, agent string) (bool, error) {
	if agent == "" {
		return false, nil
	}
	return exists(ctx, r.s, kindDisabled, agent)
}

func (r registry) Approvers(ctx context.Context, tenant string) ([]string, error) {
	rows, err := r.s.Find(ctx, kindApprover, tenant)
	if err != nil {
		return nil, answered(err)
	}
	ids := make([]string, len(rows))
	for i, row := range rows {
		ids[i] = row.ID
	}
	slices.Sort(ids)
	return ids, nil
}

// An optOut is what was last said about a person's approving its own requests.
type optOut struct {
	Reason string `json:"reason"` // empty: it may not
}

func (r registry) OptOut(ctx context.Context, tenant, person string) (string, error) {
	o, _, err := get[optOut](ctx, r.s, kindOptOut, joined(tenant, person))
	if err == nil && o.Reason == "" {
		err = api.ErrNotFound
	}
	return o.Reason, err
}

func (r registry) setOptOut(ctx context.Context, tenant, person string, o optOut) error {
	_, row, err := get[optOut](ctx, r.s, kindOptOut, joined(tenant, person))
	switch {
	case err == nil:
		_, err = update(ctx, r.s, row, o)
	case errors.Is(err, api.ErrNotFound):
		_, err = create(ctx, r.s, kindOptOut, joined(tenant, person), "", o)
	}
	return err
}

// A credentialRow keeps a removed credential as a row, so that its id cannot be
// enrolled again.
type credentialRow struct {
	Credential passkey.Credential `json:"credential"`
	Removed    bool               `json:"removed,omitempty"`
}

func credentialID(id []byte) string { return "c-" + base64.RawURLEncoding.EncodeToString(id) }

func (r registry) credentialRows(ctx context.Context, owner string) (active, removed []passkey.Credential, err error) {
	rows, err := r.s.Find(ctx, kindCredential, owner)
	if err != nil {
		return nil, nil, answered(err)
	}
	for _, row := range rows {
		var c credentialRow
		if err := jsonv2.Unmarshal(row.Body, &c); err != nil {
			return nil, nil, err
		}
		if c.Removed {
			removed = append(removed, c.Credential)
		} else {
			active = append(active, c.Credential)
		}
	}
	return active, removed, nil
}

func (r registry) Credentials(ctx context.Context, owner string) ([]passkey.Credential, error) {
	active, _, err := r.credentialRows(ctx, owner)
	return active, err
}

func (r registry) Unenrolled(ctx context.Context, person string) (bool, error) {
	if person == "" {
		return false, nil
	}
	active, removed, err := r.credentialRows(ctx, person)
	return len(active) == 0 && len(removed) > 0, err
}

func (r registry) Owner(ctx context.Context, id []byte) (string, error) {
	c, _, err := get[credentialRow](ctx, r.s, kindCredential, credentialID(id))
	return c.Credential.Owner, err
}

func (r registry) Credential(ctx context.Context, id []byte) (passkey.Credential, error) {
	c, _, err := get[credentialRow](ctx, r.s, kindCredential, credentialID(id))
	if err == nil && c.Removed {
		err = api.ErrNotFound
	}
	return c.Credential, err
}

// firstPolicy is the version in force before any change.
const firstPolicy = "policy-1"

func (r registry) policy(ctx context.Context) (modes.Policy, error) {
	p, _, err := unbroken(func() (modes.Policy, store.Row, error) { return get[modes.Policy](ctx, r.s, kindPolicy, "current") })
	if errors.Is(err, api.ErrNotFound) {
		return modes.Policy{Version: firstPolicy}, nil
	}
	return p, err
}

// unbroken turns a panic in a client into an answer that did not come, so that the
// design decides what that means.
func unbroken[T any](ask func() (T, store.Row, error)) (v T, row store.Row, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", api.ErrUnavailable, r)
		}
	}()
	return ask()
}

func (r registry) changePolicy(ctx context.Context, change func(*modes.Policy)) error {
	p, row, err := get[modes.Policy](ctx, r.s, kindPolicy, "current")
	if errors.Is(err, api.ErrNotFound) {
		p = modes.Policy{Version: firstPolicy}
		change(&p)
		_, err = create(ctx, r.s, kindPolicy, "current", "", p)
		return err
	}
	if err != nil {
		return err
	}
	change(&p)
	_, err = update(ctx, r.s, row, p)
	return err
}
