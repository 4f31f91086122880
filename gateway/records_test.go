package gateway

import (
	"context"
	"errors"
	"slices"
	"testing"

	"countersign/gateway/api"
	"countersign/gateway/store"
	"countersign/modes"
)

// unread is a store that does not answer when a row is asked for.
type unread struct{ store.Store }

var errUnread = errors.New("the disk does not answer")

func (unread) Get(context.Context, string, string) (store.Row, error) {
	return store.Row{}, errUnread
}

func (unread) Find(context.Context, string, string) ([]store.Row, error) { return nil, errUnread }

// TestNoAnswerIsNoNo: where the store does not answer, nobody is told that there is
// nothing, or that something else is there.
func TestNoAnswerIsNoNo(t *testing.T) {
	ctx := t.Context()
	s := unread{store.NewMemory()}
	r, g := records{s}, registry{s}
	if err := g.takeName(ctx, "name"); err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]func() error{
		"ping":          func() error { return r.ping(ctx) },
		"Approval":      func() error { _, err := r.Approval(ctx, "p"); return err },
		"ApprovalOfRun": func() error { _, err := r.ApprovalOfRun(ctx, "r"); return err },
		"Window":        func() error { _, err := r.Window(ctx, "r"); return err },
		"Latest":        func() error { _, err := r.Latest(ctx, modes.Place{}); return err },
		"suspend":       func() error { return r.suspend(ctx, modes.Place{}, suspension{ID: suspensionID(1), At: 1}) },
		"Permit":        func() error { _, err := r.Permit(ctx, "s"); return err },
		"Spent":         func() error { _, err := r.Spent(ctx, "i", "a", "p"); return err },
		"Revoked":       func() error { _, err := r.Revoked(ctx, "p"); return err },
		"enrol": func() error {
			return g.enrol(ctx, api.Principal{ID: "agent", Role: api.RoleAgent, Token: "token"})
		},
		"takeName":    func() error { return g.takeName(ctx, "name") },
		"byToken":     func() error { _, err := g.byToken(ctx, "token"); return err },
		"Principal":   func() error { _, err := g.Principal(ctx, "id"); return err },
		"Disabled":    func() error { _, err := g.Disabled(ctx, "agent"); return err },
		"Approvers":   func() error { _, err := g.Approvers(ctx, "tenant"); return err },
		"OptOut":      func() error { _, err := g.OptOut(ctx, "tenant", "person"); return err },
		"setOptOut":   func() error { return g.setOptOut(ctx, "tenant", "person", optOut{}) },
		"Credentials": func() error { _, err := g.Credentials(ctx, "owner"); return err },
		"Unenrolled":  func() error { _, err := g.Unenrolled(ctx, "person"); return err },
		"Owner":       func() error { _, err := g.Owner(ctx, []byte("c")); return err },
		"Credential":  func() error { _, err := g.Credential(ctx, []byte("c")); return err },
		"policy":      func() error { _, err := g.policy(ctx); return err },
		"changePolicy": func() error {
			return g.changePolicy(ctx, func(*modes.Policy) {})
		},
	} {
		if err := call(); !errors.Is(err, api.ErrUnavailable) || errors.Is(err, api.ErrNotFound) || errors.Is(err, api.ErrConflict) {
			t.Errorf("%s: %v, want that it is unavailable", name, err)
		}
	}
	// What names nobody is asked of no store.
	for name, call := range map[string]func() (bool, error){
		"Revoked":    func() (bool, error) { return r.Revoked(ctx, "") },
		"Disabled":   func() (bool, error) { return g.Disabled(ctx, "") },
		"Unenrolled": func() (bool, error) { return g.Unenrolled(ctx, "") },
	} {
		if yes, err := call(); yes || err != nil {
			t.Errorf("%s of nobody: %t, %v", name, yes, err)
		}
	}
}

// TestDamagedRecords: a row that cannot be read is no row that is not there, and is
// not written over.
func TestDamagedRecords(t *testing.T) {
	ctx := t.Context()
	place := modes.Place{Run: "r"}
	for name, tt := range map[string]struct {
		row  store.Row
		call func(records, registry) error
	}{
		"approval of a run": {store.Row{Kind: kindApproval, ID: "p", Key: "r", Body: []byte(`{"verdict":"decline"`)},
			func(r records, _ registry) error { _, err := r.ApprovalOfRun(ctx, "r"); return err }},
		"place": {store.Row{Kind: kindPlace, ID: placeID(place), Body: []byte(`"s-1"`)},
			func(r records, _ registry) error { _, err := r.Latest(ctx, place); return err }},
		"place of a new suspension": {store.Row{Kind: kindPlace, ID: placeID(place), Body: []byte(`"s-1"`)},
			func(r records, _ registry) error {
				return r.suspend(ctx, place, suspension{ID: suspensionID(2), At: 2})
			}},
		"removed credential": {store.Row{Kind: kindCredential, ID: credentialID([]byte("c")), Key: "owner", Body: []byte(`{"removed":true,"credential":{`)},
			func(_ records, g registry) error { _, err := g.Credential(ctx, []byte("c")); return err }},
		"credential": {store.Row{Kind: kindCredential, ID: "c", Key: "owner", Body: []byte(`{"removed":false`)},
			func(_ records, g registry) error { _, err := g.Credentials(ctx, "owner"); return err }},
	} {
		s := store.NewMemory()
		before, err := s.Create(ctx, tt.row)
		if err != nil {
			t.Fatal(err)
		}
		if err := tt.call(records{s}, registry{s}); err == nil || errors.Is(err, api.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
		if after, err := s.Get(ctx, tt.row.Kind, tt.row.ID); err != nil || after.Rev != before.Rev {
			t.Errorf("%s: the row is now %+v, %v", name, after, err)
		}
	}
}

// TestSuspensionIDs: the number of a suspension is read from ids that the gateway
// makes, and from nothing else.
func TestSuspensionIDs(t *testing.T) {
	for _, at := range []int64{1, 42, 999999, 1000000, 1<<63 - 1} {
		if got, err := suspendedAt(suspensionID(at)); got != at || err != nil {
			t.Errorf("%d: %d, %v", at, got, err)
		}
	}
	for _, id := range []string{"", "s-", "s-1", "s-0000001", "000001", "s-00000x", "s-s-000001", "s-+00001", "s-9223372036854775808"} {
		if at, err := suspendedAt(id); !errors.Is(err, api.ErrUnavailable) {
			t.Errorf("%q: %d, %v", id, at, err)
		}
	}
	if _, err := (records{store.NewMemory()}).Latest(t.Context(), modes.Place{}); !errors.Is(err, api.ErrNotFound) {
		t.Errorf("a place that was never suspended: %v", err)
	}
}

// TestEnrolNeedsAToken: nobody is enrolled without a token, and an agent that calls
// itself an approver is none.
func TestEnrolNeedsAToken(t *testing.T) {
	ctx := t.Context()
	g := registry{store.NewMemory()}
	if err := g.enrol(ctx, api.Principal{ID: "a", Role: api.RoleAgent}); !errors.Is(err, api.ErrInvalid) {
		t.Errorf("without a token: %v", err)
	}
	for id, role := range map[string]api.Role{"agent": api.RoleAgent, "person": api.RolePerson, "admin": api.RoleAdmin, "auditor": api.RoleAuditor} {
		if err := g.enrol(ctx, api.Principal{ID: id, Role: role, Approver: true, Token: "token of " + id, Tenant: "t"}); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := g.Approvers(ctx, "t"); err != nil || !slices.Equal(got, []string{"person"}) {
		t.Errorf("the approvers are %q, %v", got, err)
	}
}

// TestRowsThatCannotBeWritten: what has no JSON form is not stored.
func TestRowsThatCannotBeWritten(t *testing.T) {
	ctx := t.Context()
	s := store.NewMemory()
	if _, err := create(ctx, s, "kind", "a", "", make(chan int)); err == nil {
		t.Error("created")
	}
	if _, err := s.Get(ctx, "kind", "a"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("there is a row: %v", err)
	}
	row, err := create(ctx, s, "kind", "b", "", "text")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := update(ctx, s, row, make(chan int)); err == nil {
		t.Error("updated")
	}
	if got, err := s.Get(ctx, "kind", "b"); err != nil || got.Rev != row.Rev {
		t.Errorf("the row is now %+v, %v", got, err)
	}
}

// TestNobody: no name and no token is nobody's, whatever is in the store; an opt-out
// that was withdrawn is none.
func TestNobody(t *testing.T) {
	ctx := t.Context()
	s := store.NewMemory()
	g := registry{s}
	if _, err := create(ctx, s, kindPrincipal, "a", tokenDigest(""), api.Principal{ID: "a", Role: api.RoleAdmin}); err != nil {
		t.Fatal(err)
	}
	if p, err := g.byToken(ctx, ""); err == nil {
		t.Errorf("no token is that of %s", p.ID)
	}
	if _, err := g.Principal(ctx, ""); !errors.Is(err, api.ErrNotFound) {
		t.Errorf("no name: %v", err)
	}
	for _, reason := range []string{"alone at night", ""} {
		if err := g.setOptOut(ctx, "t", "p", optOut{reason}); err != nil {
			t.Fatal(err)
		}
		got, err := g.OptOut(ctx, "t", "p")
		if got != reason || (err == nil) != (reason != "") || err != nil && !errors.Is(err, api.ErrNotFound) {
			t.Errorf("after %q: %q, %v", reason, got, err)
		}
	}
}
