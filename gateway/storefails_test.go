package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"countersign/gateway"
	"countersign/gateway/api"
	"countersign/gateway/lab"
	"countersign/gateway/store"
	"countersign/oracles/softkey"
)

// failing is a store one of whose operations fails, or reads a damaged row.
type failing struct {
	store.Store
	mu      sync.Mutex
	armed   bool
	damage  bool
	at, n   int    // the operation that fails, and how many there were
	what    string // it was
	touched bool
}

func (f *failing) arm(at int, damage bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed, f.at, f.damage, f.n, f.what, f.touched = true, at, damage, 0, "", false
}

func (f *failing) disarm() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = false
}

// hit counts an operation and says whether it is the one that fails.
func (f *failing) hit(read bool, what string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.armed || f.damage && !read {
		return false
	}
	f.n++
	if f.n != f.at {
		return false
	}
	f.what, f.touched = what, true
	return true
}

var errDisk = errors.New("the disk does not answer")

func (f *failing) Create(ctx context.Context, r store.Row) (store.Row, error) {
	if f.hit(false, "create "+r.Kind) {
		return store.Row{}, errDisk
	}
	return f.Store.Create(ctx, r)
}

func (f *failing) Update(ctx context.Context, r store.Row) (store.Row, error) {
	if f.hit(false, "update "+r.Kind) {
		return store.Row{}, errDisk
	}
	return f.Store.Update(ctx, r)
}

func (f *failing) Get(ctx context.Context, kind, id string) (store.Row, error) {
	r, err := f.Store.Get(ctx, kind, id)
	if f.damage && (err != nil || len(r.Body) == 0) || !f.hit(true, "get "+kind) {
		return r, err
	}
	if f.damage {
		r.Body = damaged(r.Body)
		return r, nil
	}
	return store.Row{}, errDisk
}

func (f *failing) Find(ctx context.Context, kind, key string) ([]store.Row, error) {
	rows, err := f.Store.Find(ctx, kind, key)
	if f.damage && (err != nil || len(rows) == 0) || !f.hit(true, "find "+kind) {
		return rows, err
	}
	if f.damage {
		for i := range rows {
			rows[i].Body = damaged(rows[i].Body)
		}
		return rows, nil
	}
	return nil, errDisk
}

// damaged is a body of which only the end is lost: all that it says can be read,
// and it must not be believed.
func damaged(body []byte) []byte { return body[:len(body)-1] }

func (f *failing) Next(ctx context.Context, name string) (int64, error) {
	if f.hit(false, "next "+name) {
		return 0, errDisk
	}
	return f.Store.Next(ctx, name)
}

// A storeCall is one call on a world in the state it needs.
type storeCall struct {
	name, mode string
	ready      func(w *world) func() (api.Status, error)
	// needless are the operations that the call can do without.
	needless []string
}

// needless is what every call can do without: the clock that other instances share
// (there is the machine's own), noting what came of a send (it is found out when that
// matters), and that a suspension waits no more (so is that).
var needless = []string{"get clock", "create clock", "update clock", "update use", "update suspension"}

// offered is what a view can do without: where the policy cannot be read, nothing
// wider is offered.
var offered = []string{"get policy"}

// unread are rows whose bodies nobody reads: that they are there says it all.
var unread = []string{"get clock", "find approver", "find suspension", "find window", "find run_wide", "find enrolment", "get use"}

func storeCalls() []storeCall {
	plain := func(f func(w *world) func() error) func(w *world) func() (api.Status, error) {
		return func(w *world) func() (api.Status, error) {
			call := f(w)
			return func() (api.Status, error) { return "", call() }
		}
	}
	dispatched := func(crash api.Step) func(w *world) func() (api.Status, error) {
		return func(w *world) func() (api.Status, error) {
			d := w.approved(w.action("wire", 1))
			if crash != "" {
				w.lab.At(crash, func(context.Context) error { return lab.ErrCrash })
				w.answer(w.target, d)
				w.clock.add(gateway.SendLease)
				must(w.t, w.lab.Restart(ctx))
			}
			return func() (api.Status, error) {
				o, err := w.present(w.target, "agent-a", d)
				return o.Status, err
			}
		}
	}
	event := func(e api.Event) func(w *world) func() (api.Status, error) {
		return plain(func(w *world) func() error {
			if e.Kind == api.EventRevoke {
				e.Subject = w.pending(w.action("pay", 1))
			}
			return func() error { return w.target.Admin(ctx, auth("admin"), e) }
		})
	}
	proposal := func(before func(w *world)) func(w *world) func() (api.Status, error) {
		return plain(func(w *world) func() error {
			before(w)
			a := w.action("wire", 1)
			return func() error {
				p, err := w.target.Propose(ctx, auth("agent-a"), a)
				if p.State == api.StateHeld {
					err = api.ErrUnavailable
				}
				return err
			}
		})
	}
	decision := func(v api.Verdict) func(w *world) func() (api.Status, error) {
		return plain(func(w *world) func() error {
			id := w.pending(w.action("pay", 1))
			d := api.Decision{Suspension: id, Verdict: v, Assertion: w.assertion(id, "approver-p")}
			return func() error { return w.target.Decide(ctx, auth("approver-p"), d) }
		})
	}
	staged := func(decided bool, ready func(w *world, id string) func() error) func(w *world) func() (api.Status, error) {
		return plain(func(w *world) func() error {
			w.needPeople("pay", 2)
			id := w.pending(w.action("pay", 1))
			if decided {
				must(w.t, w.decide(id, "approver-p", api.Approve))
			}
			return ready(w, id)
		})
	}
	approval := func(person string) func(w *world, id string) func() error {
		return func(w *world, id string) func() error {
			d := w.approval(id, person)
			return func() error { return w.target.Decide(ctx, auth(person), d) }
		}
	}
	// What is spent is reconciled whether or not authority still holds; before it is
	// sent again, this is read again.
	standing := []string{"get disabled", "get principal", "get revocation", "find credential"}
	return []storeCall{
		{name: "propose", mode: "M9", ready: proposal(func(*world) {})},
		{name: "propose what was sent", mode: "M9", ready: proposal(func(w *world) {
			d := w.approved(w.action("wire", 1))
			w.lab.At(api.StepSent, func(context.Context) error { return lab.ErrCrash })
			w.answer(w.target, d)
		})},
		{name: "propose in an open window", mode: "M6", ready: proposal(func(w *world) { w.approved(w.action("pay", 1)) }),
			// Without the window somebody is asked, which is always safe.
			needless: []string{"get principal", "get suspension", "get policy", "find window", "get approval", "find credential"}},
		{name: "view", mode: "M9", needless: offered, ready: plain(func(w *world) func() error {
			id := w.pending(w.action("pay", 1))
			return func() error { _, err := w.target.View(ctx, auth("approver-p"), id); return err }
		})},
		{name: "view where no approver has a passkey", mode: "M9", needless: offered, ready: plain(func(w *world) func() error {
			id := w.pending(w.action("pay", 1))
			for _, p := range people() {
				if p.Role == api.RolePerson && p.Tenant == "tenant-1" {
					w.removePasskeys(p.ID)
				}
			}
			// It is another person's passkey that the view asks for, then.
			w.enrol(api.Principal{ID: "person-q", Role: api.RolePerson, Tenant: "tenant-1"})
			return func() error { _, err := w.target.View(ctx, auth("person-q"), id); return err }
		})},
		{name: "approve", mode: "M9", ready: decision(api.Approve)},
		{name: "approve a window", mode: "M6", ready: decision(api.Approve), needless: []string{"get suspension", "get policy"}},
		{name: "decline", mode: "M9", ready: decision(api.Decline), needless: []string{"get suspension", "get policy"}},
		{name: "status", mode: "M9", ready: plain(func(w *world) func() error {
			id := w.pending(w.action("pay", 1))
			must(w.t, w.decide(id, "approver-p", api.Approve))
			return func() error { _, err := w.target.Status(ctx, auth("agent-a"), id); return err }
		})},
		{name: "dispatch", mode: "M9", ready: dispatched("")},
		{name: "dispatch again after a crash before the send", mode: "M9", ready: dispatched(api.StepConsumed), needless: standing},
		{name: "dispatch again after a crash behind it", mode: "M9", ready: dispatched(api.StepSent), needless: standing},
		{name: "dispatch, not once", mode: "M9-once", ready: dispatched("")},
		{name: "dispatch again, not once", mode: "M9-once", ready: dispatched(api.StepSent)},
		{name: "disable", mode: "M9", ready: event(api.Event{Kind: api.EventDisableAgent, Subject: "agent-a"})},
		{name: "revoke", mode: "M9", ready: event(api.Event{Kind: api.EventRevoke})},
		{name: "policy", mode: "M9", ready: event(api.Event{Kind: api.EventPolicyChange, Value: "policy-2"})},
		{name: "risk", mode: "M9", ready: event(api.Event{Kind: api.EventRiskLabel, Subject: "bank.example/pay", Value: "low"})},
		{name: "remove", mode: "M9", ready: event(api.Event{Kind: api.EventRemoveCredential, Subject: "approver-p"})},
		{name: "opt out", mode: "M9", ready: event(api.Event{Kind: api.EventAllowSelfApproval, Subject: "requester-r", Value: "one-person team"})},
		{name: "opt out again", mode: "M9", ready: plain(func(w *world) func() error {
			w.optOut("requester-r", "one-person team")
			return func() error {
				return w.target.Admin(ctx, auth("admin"), api.Event{Kind: api.EventForbidSelfApproval, Subject: "requester-r"})
			}
		})},
		{name: "approve one's own request", mode: "M9", ready: plain(func(w *world) func() error {
			w.optOut("requester-r", "one-person team")
			id := w.pending(w.action("pay", 1))
			d := api.Decision{Suspension: id, Verdict: api.Approve, Assertion: w.assertion(id, "requester-r")}
			return func() error { return w.target.Decide(ctx, auth("requester-r"), d) }
		})},
		{name: "people needed", mode: "M9", ready: event(api.Event{Kind: api.EventApprovals, Subject: "bank.example/pay", Value: "2"})},
		{name: "approve the first of two stages", mode: "M9", ready: staged(false, approval("approver-p"))},
		{name: "approve the second of two stages", mode: "M9", ready: staged(true, approval("approver-2"))},
		{name: "status between two stages", mode: "M9", ready: staged(true, func(w *world, id string) func() error {
			return func() error { _, err := w.target.Status(ctx, auth("agent-a"), id); return err }
		})},
		// The policy is read again before the send, for online.
		{name: "dispatch after two stages", mode: "M8", needless: []string{"get policy"}, ready: func(w *world) func() (api.Status, error) {
			w.needPeople("pay", 2)
			a := w.action("pay", 1)
			id := w.pending(a)
			must(w.t, w.decide(id, "approver-p", api.Approve))
			must(w.t, w.decide(id, "approver-2", api.Approve))
			d := w.collect(a, id)
			return func() (api.Status, error) {
				o, err := w.present(w.target, "agent-a", d)
				return o.Status, err
			}
		}},
		{name: "bound run-wide approvals", mode: "M9", ready: event(api.Event{Kind: api.EventAllowRunWide, Subject: "bank.example/pay", Value: "3 10m"})},
		{name: "forbid run-wide approvals", mode: "M9", ready: event(api.Event{Kind: api.EventForbidRunWide, Subject: "bank.example/pay"})},
		{name: "view for the run", mode: "M9", ready: plain(func(w *world) func() error {
			w.allowRunWide("pay", "3 15m")
			id, terms := w.pending(w.action("pay", 1)), w.terms(3, time.Minute)
			return func() error { _, err := w.target.RunWideView(ctx, auth("approver-p"), id, terms); return err }
		})},
		{name: "opt in for the run", mode: "M9", ready: plain(func(w *world) func() error {
			w.allowRunWide("pay", "3 15m")
			id := w.pending(w.action("pay", 1))
			d := w.optIn(id, "approver-p", w.terms(3, time.Minute))
			return func() error { return w.target.Decide(ctx, auth("approver-p"), d) }
		})},
		{name: "propose under a run-wide approval", mode: "M9", ready: plain(func(w *world) func() error {
			w.runWide("wire", 3)
			a := w.action("wire", 1)
			return func() error {
				p, err := w.target.Propose(ctx, auth("agent-a"), a)
				if p.State == api.StatePending { // what is not known to be covered is asked
					err = api.ErrUnavailable
				}
				return err
			}
		})},
		{name: "dispatch under a run-wide approval", mode: "M9", ready: func(w *world) func() (api.Status, error) {
			w.runWide("wire", 3)
			d := w.granted(w.action("wire", 1))
			return func() (api.Status, error) {
				o, err := w.present(w.target, "agent-a", d)
				return o.Status, err
			}
		}},
		{name: "present a use of a run-wide approval again", mode: "M9", needless: append(standing, "get use"), ready: func(w *world) func() (api.Status, error) {
			w.runWide("wire", 3)
			d := w.granted(w.action("wire", 1))
			w.dispatch(d)
			return func() (api.Status, error) {
				o, err := w.present(w.target, "agent-a", d)
				return o.Status, err
			}
		}},
		{name: "enrol", mode: "M9", ready: event(api.Event{Kind: api.EventEnrol, Principal: &api.Principal{ID: "new", Role: api.RolePerson, Token: "a-token-of-its-own", Approver: true}})},
		{name: "begin to enrol", mode: "M9", ready: plain(func(w *world) func() error {
			w.removePasskeys("approver-p")
			return func() error { _, err := w.target.BeginEnrolment(ctx, auth("approver-p")); return err }
		})},
		{name: "enrol a passkey", mode: "M9", ready: plain(func(w *world) func() error {
			w.removePasskeys("approver-p")
			options, err := w.target.BeginEnrolment(ctx, auth("approver-p"))
			must(w.t, err)
			response, err := softkey.New(origin).Register(options)
			must(w.t, err)
			return func() error { return w.target.FinishEnrolment(ctx, auth("approver-p"), json.RawMessage(response)) }
		})},
		{name: "read the log", mode: "M9", ready: plain(func(w *world) func() error {
			return func() error { _, err := w.target.Audit(ctx, auth("auditor"), 0); return err }
		})},
	}
}

// TestStoreFails lets each operation of the store fail in turn, in each call: the
// caller is told that something is not available and nothing worse, and no
// approval makes two effects.
func TestStoreFails(t *testing.T) {
	for _, damage := range []bool{false, true} {
		for _, c := range storeCalls() {
			for at := 1; ; at++ {
				s := &failing{Store: store.NewMemory()}
				w := newWorldOn(t, c.mode, s)
				call := c.ready(w)
				s.arm(at, damage)
				status, err := call()
				s.disarm()
				if !s.touched {
					if err != nil || at == 1 {
						t.Errorf("%s: without a failure: %v, after %d operations", c.name, err, at-1)
					}
					break
				}
				what := fmt.Sprintf("%s: operation %d (%s, damaged %v)", c.name, at, s.what, damage)
				switch {
				case slices.Contains(needless, s.what), slices.Contains(c.needless, s.what), damage && slices.Contains(unread, s.what):
				case status == api.Refused, status == api.Held, errors.As(err, new(*api.RefusedError)):
				case err == nil:
					t.Errorf("%s: no error, %s", what, status)
				case !damage && !errors.Is(err, api.ErrUnavailable):
					t.Errorf("%s: %v", what, err)
				}
				if n := len(w.prov.Ledger()); n > 1 {
					t.Errorf("%s: %d effects", what, n)
				}
			}
		}
	}
}
