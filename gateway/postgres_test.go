package gateway_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"countersign/gateway"
	"countersign/gateway/api"
	"countersign/gateway/store"
	"countersign/gateway/store/pgtest"
)

// TestStoreGoesAway: the database ends, as at a power cut, and comes back twice
// while workers present what was approved. Without it nothing is executed; with it
// everything is, once, and each effect has its consumption in the store.
func TestStoreGoesAway(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server")
	}
	const permits, workers = 80, 4
	server := pgtest.Start(t)
	s, err := store.OpenPostgres(t.Context(), server.Database(t))
	must(t, err)
	defer s.Close()
	w := newWorldOn(t, "M9", s)
	var dispatches []api.Dispatch
	for i := range permits {
		dispatches = append(dispatches, w.approved(w.action([]string{"pay", "wire"}[i%2], i+1)))
	}
	var executed, absorbed, held, rounds [workers]atomic.Int64 // of each worker
	sum := func(of *[workers]atomic.Int64) (n int64) {
		for i := range of {
			n += of[i].Load()
		}
		return n
	}
	var failed atomic.Bool
	var done sync.WaitGroup
	// Every permit is presented by every worker until it is known to be executed.
	for i := range workers {
		done.Go(func() {
			for n := 0; n < permits && !failed.Load(); {
				o, err := w.present(w.target, "agent-a", dispatches[(n+i*permits/workers/2)%permits])
				switch {
				case errors.Is(err, api.ErrUnavailable), err == nil && (o.Status == api.Held || o.Status == api.Refused):
					held[i].Add(1)
					time.Sleep(time.Millisecond)
				case err != nil:
					t.Error(err)
					failed.Store(true)
				case o.Status == api.Executed:
					executed[i].Add(1)
					n++
				case o.Status == api.Absorbed:
					absorbed[i].Add(1)
					n++
				}
				rounds[i].Add(1)
			}
			rounds[i].Add(1 << 40) // it waits for nothing any more
		})
	}
	until := func(what string, ok func() bool) {
		t.Helper()
		for range 6000 {
			if ok() || failed.Load() {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Errorf("nothing comes of it: %s", what)
		failed.Store(true)
	}
	// anotherRound waits until each worker has made a whole call from now on.
	anotherRound := func() {
		t.Helper()
		var before [workers]int64
		for i := range before {
			before[i] = rounds[i].Load()
		}
		until("a round", func() bool {
			for i := range before {
				if rounds[i].Load() < before[i]+2 {
					return false
				}
			}
			return true
		})
	}
	for _, effects := range []int64{permits / 10, permits / 2} {
		until("executing", func() bool { return w.prov.effects.Load() >= effects })
		server.Stop(t)
		anotherRound() // what was consumed before may still be sent
		before, refused := w.prov.effects.Load(), sum(&held)
		if before == permits {
			t.Error("everything was executed before the store went away")
		}
		for range 3 {
			anotherRound()
		}
		if n := w.prov.effects.Load(); n != before {
			t.Errorf("%d effects while the store was away", n-before)
		}
		if sum(&held) == refused {
			t.Error("nothing was held while the store was away")
		}
		server.Again(t)
		// Whose send was under way is not known to have sent before its lease ends.
		w.clock.add(gateway.SendLease)
	}
	until("everything is executed", func() bool {
		for i := range rounds {
			if rounds[i].Load() < 1<<40 {
				return false
			}
		}
		return true
	})
	done.Wait()
	if n := len(w.prov.Ledger()); n != permits {
		t.Errorf("%d effects in the ledger, want %d", n, permits)
	}
	if n := sum(&executed); n > permits {
		t.Errorf("%d calls were told that they executed, want %d at most", n, permits)
	}
	consumed, err := s.Find(t.Context(), "use", "done")
	must(t, err)
	if len(consumed) != permits {
		t.Errorf("%d consumptions in the store, want %d", len(consumed), permits)
	}
	t.Logf("%d executed, %d absorbed, %d held", sum(&executed), sum(&absorbed), sum(&held))
}
