package gateway_test

import (
	"context"
	"crypto"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"countersign/audit"
	"countersign/gateway"
	"countersign/gateway/api"
	"countersign/gateway/store"
	"countersign/modes"
	"countersign/oracles/softkey"
)

// gates are instances of one design over one store and in one world.
func gates(t tb, n int, mode string, change func(*gateway.Config)) (*world, []*gateway.Gateway) {
	t.Helper()
	m, err := modes.Get(mode)
	must(t, err)
	keys, err := modes.NewKeys(issuer)
	must(t, err)
	w := &world{t: t, keys: map[string]*softkey.Key{}}
	w.deployment, w.clock, w.prov = deployment(t)
	rows := store.NewMemory()
	var out []*gateway.Gateway
	for range n {
		c := gateway.Config{Mode: m, Approvals: rows, Registry: rows, Audit: audit.NewMemory(), Keys: keys, Deployment: w.deployment}
		if change != nil {
			change(&c)
		}
		g, err := gateway.New(ctx, c)
		must(t, err)
		out = append(out, g)
	}
	w.target = out[0]
	for _, p := range people() {
		w.enrol(p)
	}
	return w, out
}

// waiting is what a gateway counts: how many, and for how long the oldest.
func (w *world) waiting(g *gateway.Gateway) string {
	w.t.Helper()
	n, oldest, err := g.Waiting(ctx)
	must(w.t, err)
	if n == 0 {
		return fmt.Sprint(n, " ", oldest.IsZero())
	}
	now, _ := w.clock.Now()
	return fmt.Sprint(n, " ", now.Sub(oldest))
}

// Every instance counts what waits at all of them, until it is decided, wherever
// that is, or too late.
func TestWaiting(t *testing.T) {
	for _, mode := range []string{"M1", "M4", "M6", "M9"} {
		w, g := gates(t, 2, mode, nil)
		expect := func(what, want string) {
			t.Helper()
			for i := range g {
				if got := w.waiting(g[i]); got != want {
					t.Errorf("%s, %s: instance %d counts %s, want %s", mode, what, i, got, want)
				}
			}
		}
		expect("nothing", "0 true")
		first := w.pending(w.action("pay", 1))
		w.clock.add(time.Minute)
		w.pending(w.action("pay", 2))
		w.clock.add(time.Minute)
		third := w.pending(w.action("pay", 3))
		expect("three", "3 2m0s")
		must(t, w.decide(first, "approver-p", api.Approve))
		expect("one approved", "2 1m0s")
		w.target = g[1]
		must(t, w.decide(third, "approver-p", api.Decline))
		expect("one declined at the other", "1 1m0s")
		w.clock.add(ttl - time.Minute - time.Second)
		expect("a second before the end", "1 14m59s")
		w.clock.add(time.Second)
		expect("too late", "0 true")
	}
}

// Where two people have to approve, it waits until both have.
func TestWaitingForTheSecondStage(t *testing.T) {
	w, g := gates(t, 1, "M9", nil)
	w.needPeople("pay", 2)
	id := w.pending(w.action("pay", 1))
	for i, want := range []string{"1 0s", "1 0s", "0 true"} {
		if got := w.waiting(g[0]); got != want {
			t.Errorf("after %d approvals: %s, want %s", i, got, want)
		}
		if i < 2 {
			must(t, w.decide(id, []string{"approver-p", "approver-2"}[i], api.Approve))
		}
	}
}

// A decision stands although the store then fails, and the count finds out.
func TestWaitingAfterAFailure(t *testing.T) {
	for _, fault := range []api.Fault{api.FaultDown, api.FaultPanic} {
		rows := &stubborn{}
		w, g := gates(t, 1, "M9", func(c *gateway.Config) { rows.Store, c.Approvals = c.Approvals, rows })
		id := w.pending(w.action("pay", 1))
		d := w.approval(id, "approver-p")
		rows.on = func(r store.Row) error {
			if r.Kind == "suspension" && r.Key == "over" {
				if fault == api.FaultPanic {
					panic("the client breaks down")
				}
				return errors.New("the store is down")
			}
			return nil
		}
		if err := w.target.Decide(ctx, auth("approver-p"), d); err != nil {
			t.Errorf("%s: %v", fault, err)
		}
		if got := w.waiting(g[0]); got != "0 true" {
			t.Errorf("%s: %s", fault, got)
		}
		rows.on = nil
		if rows, err := rows.Find(ctx, "suspension", "over"); err != nil || len(rows) != 0 {
			t.Errorf("%s: %d rows, %v", fault, len(rows), err)
		}
		w.waiting(g[0])
		if rows, err := rows.Find(ctx, "suspension", "over"); err != nil || len(rows) != 1 {
			t.Errorf("%s: afterwards %d rows, %v", fault, len(rows), err)
		}
	}
}

// stubborn is a store in which an update may fail.
type stubborn struct {
	store.Store
	on func(store.Row) error
}

func (f *stubborn) Update(c context.Context, r store.Row) (store.Row, error) {
	if f.on != nil {
		if err := f.on(r); err != nil {
			return store.Row{}, err
		}
	}
	return f.Store.Update(c, r)
}

// In the reference design nothing that an instance has in memory matters: what was
// presented to one is known to the other, with the same answer.
func TestNoInstanceRemembersMore(t *testing.T) {
	w, g := gates(t, 2, "M9", nil)
	d := w.approved(w.action("pay", 1))
	for i, want := range []api.Status{api.Executed, api.Absorbed, api.Absorbed} {
		o, err := w.present(g[i%2], "agent-a", d)
		if err != nil || o.Status != want {
			t.Errorf("presentation %d: %+v, %v, want %s", i, o, err, want)
		}
	}

	// The proof that spent an approval is good at no instance again, not even for its
	// result, and it does not hold back another.
	d = w.approved(w.action("pay", 2))
	used, err := w.proof(d, 2000)
	must(t, err)
	for i, want := range []string{"executed", "refused sender/proof_replayed", "refused sender/proof_replayed"} {
		o, err := g[i%2].Dispatch(ctx, api.Auth{Token: token("agent-a"), Proof: used}, d)
		must(t, err)
		if i == 2 { // the instance that was first finds out by itself, and says what else is amiss
			o.Refusals = slices.DeleteFunc(o.Refusals, func(r api.Refusal) bool { return r.Binding != api.BindSender })
		}
		if got := strings.TrimSpace(string(o.Status) + " " + codes(o.Refusals)); got != want {
			t.Errorf("presentation %d of one proof: %s, want %s", i, got, want)
		}
	}
	if o, err := w.present(g[1], "agent-a", d); err != nil || o.Status != api.Absorbed {
		t.Errorf("another proof: %+v, %v", o, err)
	}

	// A proof is good for one call, also where the approval is for several.
	first := w.runWide("wire", 3)
	proof, err := w.proof(first, 1000)
	must(t, err)
	o, err := g[0].Dispatch(ctx, api.Auth{Token: token("agent-a"), Proof: proof}, first)
	if err != nil || o.Status != api.Executed {
		t.Fatalf("the first call: %+v, %v", o, err)
	}
	second := w.granted(w.action("wire", 1))
	second.Carried = first.Carried // the same permit, which the proof is made for
	for i := range g {
		o, err = g[i].Dispatch(ctx, api.Auth{Token: token("agent-a"), Proof: proof}, second)
		if err != nil || o.Status != api.Refused || codes(o.Refusals) != "sender/proof_replayed" {
			t.Errorf("instance %d, the next call with the proof of the first: %s [%s], %v", i, o.Status, codes(o.Refusals), err)
		}
	}
	if o, err = w.present(g[1], "agent-a", second); err != nil || o.Status != api.Executed {
		t.Errorf("the next call with its own proof: %+v, %v", o, err)
	}
}

// A design without once keeps nothing for other instances, proofs included.
func TestProofsWithoutOnce(t *testing.T) {
	w, g := gates(t, 2, "M9", func(c *gateway.Config) { c.Mode = c.Mode.Without(api.BindOnce) })
	first := w.runWide("wire", 3)
	proof, err := w.proof(first, 1000)
	must(t, err)
	second := w.granted(w.action("wire", 1))
	second.Carried = first.Carried
	for _, tt := range []struct {
		g    *gateway.Gateway
		d    api.Dispatch
		want api.Status
	}{{g[0], first, api.Executed}, {g[0], second, api.Refused}, {g[1], second, api.Executed}} {
		if o, err := tt.g.Dispatch(ctx, api.Auth{Token: token("agent-a"), Proof: proof}, tt.d); err != nil || o.Status != tt.want {
			t.Errorf("%s: %s [%s], %v, want %s", tt.d.Action.Call, o.Status, codes(o.Refusals), err, tt.want)
		}
	}
}

// Whether a proof was used is not known while that cannot be stored, and then
// nothing is sent.
func TestProofThatCannotBeShared(t *testing.T) {
	w, g := gates(t, 1, "M9", func(c *gateway.Config) { c.Approvals = &uncreated{c.Approvals, "proof"} })
	o, err := w.present(g[0], "agent-a", w.runWide("wire", 3))
	if err != nil || o.Status != api.Held || codes(o.Refusals) != "sender/unavailable" || len(w.prov.Ledger()) != 0 {
		t.Errorf("%s [%s], %v, %d effects", o.Status, codes(o.Refusals), err, len(w.prov.Ledger()))
	}
}

// uncreated is a store in which no row of a kind can be created.
type uncreated struct {
	store.Store
	kind string
}

func (u *uncreated) Create(c context.Context, r store.Row) (store.Row, error) {
	if r.Kind == u.kind {
		return store.Row{}, errors.New("the store is down")
	}
	return u.Store.Create(c, r)
}

// An agent with a key is known only over a connection that proved this key, where
// the deployment wants that; people and operators are known by their tokens.
func TestProvenKeys(t *testing.T) {
	w, g := gates(t, 1, "M9", func(c *gateway.Config) { c.ProvenKeys = true })
	tp, err := (&jose.JSONWebKey{Key: &agentKey().PublicKey}).Thumbprint(crypto.SHA256)
	must(t, err)
	key := base64.RawURLEncoding.EncodeToString(tp)
	a := w.action("pay", 1)
	for name, tt := range map[string]struct {
		auth api.Auth
		want error
	}{
		"its key":          {api.Auth{Token: token("agent-a"), Key: key}, nil},
		"no key":           {api.Auth{Token: token("agent-a")}, api.ErrUnauthenticated},
		"another key":      {api.Auth{Token: token("agent-a"), Key: key[1:] + "A"}, api.ErrUnauthenticated},
		"key without name": {api.Auth{Key: key}, api.ErrUnauthenticated},
	} {
		if _, err := g[0].Admit(ctx, tt.auth); !errors.Is(err, tt.want) {
			t.Errorf("%s: admitted with %v", name, err)
		}
		if _, err := g[0].Preview(ctx, tt.auth, a); !errors.Is(err, tt.want) {
			t.Errorf("%s: previews with %v", name, err)
		}
	}
	for _, id := range []string{"approver-p", "admin", "auditor"} {
		for _, proven := range []string{"", key} { // whatever their connections prove
			if _, err := g[0].Admit(ctx, api.Auth{Token: auth(id).Token, Key: proven}); err != nil {
				t.Errorf("%s, key %q: %v", id, proven, err)
			}
		}
	}
}

// Ready names what does not answer, and nothing else.
func TestReady(t *testing.T) {
	w := newWorld(t, "M9")
	r := w.lab
	second, err := r.Second(ctx)
	must(t, err)
	ready := func() []api.Dependency { return second.(api.Readier).Ready(ctx) }
	if got := ready(); len(got) != 0 {
		t.Errorf("failing: %v", got)
	}
	for _, dep := range []api.Dependency{api.DepStore, api.DepPolicy} {
		for _, fault := range []api.Fault{api.FaultDown, api.FaultPanic} {
			r.Fault(dep, fault)
			if got := ready(); !slices.Equal(got, []api.Dependency{dep}) {
				t.Errorf("%s %s: failing are %v", dep, fault, got)
			}
			r.Fault(dep, api.FaultNone)
		}
	}
	w.clock.stop(true)
	if got := ready(); !slices.Equal(got, []api.Dependency{api.DepClock}) {
		t.Errorf("without a clock: failing are %v", got)
	}
}
