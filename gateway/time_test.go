package gateway_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"countersign/gateway/api"
	"countersign/gateway/store"
	"countersign/scenarios/provider"
)

// TestClockSetBack: a clock that was set back is noticed by a gateway that was
// restarted meanwhile, and by an instance that had not seen the later time; once
// the clock has caught up, work goes on.
func TestClockSetBack(t *testing.T) {
	for name, where := range map[string]func(w *world) api.Target{
		"a restart":         func(w *world) api.Target { must(w.t, w.lab.Restart(ctx)); return w.target },
		"another instance":  func(w *world) api.Target { other, err := w.lab.Second(ctx); must(w.t, err); return other },
		"the same instance": func(w *world) api.Target { return w.target },
	} {
		w := newWorld(t, "M9")
		early, err := w.lab.Second(ctx) // sees nothing before the clock is back
		must(t, err)
		d := w.approved(w.action("pay", 1))
		w.clock.add(ttl)
		next := w.action("pay", 2)
		id := w.pending(next) // the gate sees the time
		w.clock.add(-ttl)
		for what, target := range map[string]api.Target{name: where(w), "an early instance": early} {
			if got := w.answer(target, d); got != "held [expiry/clock]" {
				t.Errorf("%s: %s, want it held", what, got)
			}
		}
		if n := len(w.prov.Ledger()); n != 0 {
			t.Errorf("%s: %d effects", name, n)
		}
		w.clock.add(ttl)
		must(t, w.decide(id, "approver-p", api.Approve))
		w.expect(name+": caught up", w.collect(next, id), api.Executed, "", 1)
	}
}

// runningClock moves on with each reading, and whoever reads it may have to wait then.
type runningClock struct{ now atomic.Int64 }

func (c *runningClock) Now() (time.Time, error) {
	now := start.Add(time.Duration(c.now.Add(1)) * time.Microsecond)
	runtime.Gosched()
	return now, nil
}

// TestClockReadAtOnce: of callers that read the clock at the same moment none is told
// that it ran back.
func TestClockReadAtOnce(t *testing.T) {
	w := newWorldWith(t, "M9", store.NewMemory(), func(d *api.Deployment) { d.Clock = &runningClock{} })
	var done sync.WaitGroup
	for i := range workers {
		for _, person := range []string{"approver-p", "approver-2"} {
			id := w.pending(w.action("pay", i))
			done.Go(func() {
				for range 50 {
					// It has no assertion, and is refused for that alone.
					err := w.target.Decide(ctx, auth(person), api.Decision{Suspension: id, Verdict: api.Approve})
					if err == nil || strings.Contains(err.Error(), "clock") {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	done.Wait()
}

// TestClocksDiffer: instances whose clocks differ by less than a second work as one,
// in either order, and one that is further behind is held.
func TestClocksDiffer(t *testing.T) {
	for behind, want := range map[time.Duration]string{900 * time.Millisecond: "executed []", 1100 * time.Millisecond: "held [expiry/clock]"} {
		w := newWorld(t, "M9")
		other, err := w.lab.Second(ctx)
		must(t, err)
		w.clock.add(behind)
		d := w.approved(w.action("pay", 1))
		w.pending(w.action("pay", 2)) // the time is stored
		w.clock.add(-behind)
		if got := w.answer(other, d); got != want {
			t.Errorf("%v behind: %s, want %s", behind, got, want)
		}
	}
}

// TestClockFails: what a clock says with an error is no time that was seen, neither
// in the instance nor in the store.
func TestClockFails(t *testing.T) {
	w := newWorld(t, "M9")
	d := w.approved(w.action("pay", 1))
	w.clock.stop(true)
	w.expect("the clock is down", d, api.Held, "sender/clock expiry/clock closed/unavailable", 0)
	w.clock.stop(false)
	w.expect("it is back", d, api.Executed, "", 1)
}

// TestLatestTimeUnreadable: a row that cannot be read may hold a later time, so that
// the time now does not take its place.
func TestLatestTimeUnreadable(t *testing.T) {
	s := store.NewMemory()
	w := newWorldOn(t, "M9", s)
	w.pending(w.action("pay", 1))
	row, err := s.Get(ctx, "clock", "latest")
	must(t, err)
	row.Body = damaged(row.Body)
	row, err = s.Update(ctx, row)
	must(t, err)
	w.clock.add(time.Minute)
	w.pending(w.action("pay", 2))
	if now, err := s.Get(ctx, "clock", "latest"); err != nil || now.Rev != row.Rev {
		t.Errorf("it was replaced by %s, %v", now.Body, err)
	}
}

// TestDecidedAtOnce: of many decisions on one suspension, by two people at the same
// moment, one counts, and everybody else is told so.
func TestDecidedAtOnce(t *testing.T) {
	for range 20 {
		w := newWorld(t, "M8")
		a := w.action("pay", 1)
		id := w.pending(a)
		people := []string{"approver-p", "approver-2"}
		errs := make([]error, 8)
		start := make(chan struct{})
		var done sync.WaitGroup
		for i := range errs {
			done.Go(func() {
				<-start
				errs[i] = w.target.Decide(ctx, auth(people[i%2]), api.Decision{Suspension: id, Verdict: api.Approve})
			})
		}
		close(start)
		done.Wait()
		won := 0
		for _, err := range errs {
			switch {
			case err == nil:
				won++
			case !errors.Is(err, api.ErrConflict):
				t.Errorf("a decision that came too late: %v", err)
			}
		}
		if won != 1 {
			t.Errorf("%d decisions count, want 1", won)
		}
		w.expect("the approved call", w.collect(a, id), api.Executed, "", 1)
	}
}

// TestRetryReturnsTheFirstResult: whoever presents a permit again gets what the
// first presentation got, whether or not it got anything, and with whatever request
// id; the effect is made once.
func TestRetryReturnsTheFirstResult(t *testing.T) {
	for name, tt := range map[string]struct {
		tool string
		lost bool // the provider's answer to the first
	}{
		"answered, idempotent": {"pay", false},
		"answered, look-up":    {"wire", false},
		"answered, none":       {"fax", false},
		"unanswered, idemp.":   {"pay", true},
		"unanswered, look-up":  {"wire", true},
	} {
		w := newWorld(t, "M9")
		d := w.approved(w.action(tt.tool, 1))
		if tt.lost {
			must(t, w.prov.Inject(provider.Fault{Kind: provider.FaultDropResponse}))
		}
		d.RequestID = "chosen-by-the-agent-1"
		first := w.dispatch(d)
		d.RequestID = "chosen-by-the-agent-2"
		second := w.dispatch(d)
		if second.Status != api.Absorbed || len(first.Result) == 0 || !bytes.Equal(first.Result, second.Result) {
			t.Errorf("%s: the retry is %s with %s, the first got %s", name, second.Status, second.Result, first.Result)
		}
		if n := len(w.prov.Ledger()); n != 1 {
			t.Errorf("%s: %d effects", name, n)
		}
	}
}

// TestClaimPrecedesTheEffect: when the provider is called, the approval is spent
// for every instance.
func TestClaimPrecedesTheEffect(t *testing.T) {
	w := newWorld(t, "M9")
	other, err := w.lab.Second(ctx)
	must(t, err)
	d := w.approved(w.action("fax", 1))
	var meanwhile string
	w.lab.At(api.StepConsumed, func(context.Context) error {
		w.clock.add(time.Second)
		meanwhile = w.answer(other, d)
		return nil
	})
	w.expect("the first", d, api.Executed, "", 1)
	if meanwhile != "held [idem/in_progress]" {
		t.Errorf("before the effect another instance answers %s, want held: the approval is spent", meanwhile)
	}
}
