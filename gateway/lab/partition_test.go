package lab_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"countersign/audit"
	"countersign/gateway/api"
	"countersign/gateway/lab"
	"countersign/gateway/store"
	"countersign/modes"
)

// TestPartitions: two instances over one store, each of which is cut off from the
// store, or from its log, again and again, in every way and at any moment. A call is
// executed at most once, an instance that is cut off executes nothing, and when both
// are back, every approved call comes to its one effect.
func TestPartitions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := deploy(t, "M8+")
		m, err := modes.Get("M8+")
		must(t, err)
		keys, err := modes.NewKeys(w.deployment.Issuer)
		must(t, err)
		rows := store.NewMemory()
		var instances [2]api.Bench
		for i := range instances {
			instances[i], err = lab.DeployWith(m, lab.Parts{Store: rows, Keys: keys, Log: audit.NewMemory()})(ctx, w.deployment)
			must(t, err)
		}
		w.Bench = instances[0]
		w.enrol(t)
		var calls []api.Dispatch
		for range rapid.IntRange(1, 4).Draw(t, "calls") {
			calls = append(calls, w.approved(t))
		}
		var cut [2]map[api.Dependency]api.Fault
		for i := range cut {
			cut[i] = map[api.Dependency]api.Fault{}
		}
		effects := func() map[string]int {
			out := map[string]int{}
			for _, e := range w.prov.Ledger() {
				out[e.IdempotencyKey]++
			}
			return out
		}
		some := rapid.IntRange(0, 1)
		deps := rapid.SampledFrom([]api.Dependency{api.DepStore, api.DepAudit, api.DepPolicy})
		t.Repeat(map[string]func(*rapid.T){
			"cut off": func(t *rapid.T) {
				i, dep := some.Draw(t, "instance"), deps.Draw(t, "dependency")
				fault := rapid.SampledFrom([]api.Fault{api.FaultDown, api.FaultPanic, api.FaultPartial, api.FaultTimeout}).Draw(t, "fault")
				cut[i][dep] = fault
				instances[i].Lab.Fault(dep, fault)
			},
			"back": func(t *rapid.T) {
				i := some.Draw(t, "instance")
				for dep := range cut[i] {
					instances[i].Lab.Fault(dep, api.FaultNone)
				}
				clear(cut[i])
			},
			"restart": func(t *rapid.T) {
				i := some.Draw(t, "instance")
				_ = instances[i].Lab.Restart(ctx) // one that is cut off may not start, and the old one goes on
			},
			"dispatch": func(t *rapid.T) {
				i := some.Draw(t, "instance")
				before := len(w.prov.Ledger())
				d := rapid.SampledFrom(calls).Draw(t, "call")
				func() {
					// A server lets go of a call whose handler breaks down, as net/http does.
					defer func() { _ = recover() }()
					_, _ = dispatch(ctx, instances[i].Target, d)
				}()
				if made := len(w.prov.Ledger()) - before; made > 0 && cut[i][api.DepStore] != "" {
					t.Fatalf("an instance without its store (%s) made an effect", cut[i][api.DepStore])
				}
			},
			"time passes": func(*rapid.T) { w.clock.now = w.clock.now.Add(time.Second) },
			"": func(t *rapid.T) {
				for key, n := range effects() {
					if n > 1 {
						t.Fatalf("%d effects with the key %s", n, key)
					}
				}
				if n := len(w.prov.Ledger()); n > len(calls) {
					t.Fatalf("%d effects of %d calls", n, len(calls))
				}
			},
		})
		for i := range instances {
			for _, dep := range []api.Dependency{api.DepStore, api.DepAudit, api.DepPolicy} {
				instances[i].Lab.Fault(dep, api.FaultNone)
			}
		}
		for n, d := range calls {
			last := ""
			for try := range 6 {
				w.clock.now = w.clock.now.Add(time.Minute) // what an instance has begun is left to it for some time
				o, err := instances[(n+try)%2].Target.Dispatch(ctx, api.Auth{Token: "token-of-the-agent"}, d)
				if last = fmt.Sprint(o.Status, o.Refusals, err); err == nil && o.Status != api.Held {
					break
				}
			}
			if got := len(w.prov.Ledger()); n == len(calls)-1 && got != len(calls) {
				t.Fatalf("%d calls were approved, and %d were executed; the last answer is %s", len(calls), got, last)
			}
		}
	})
}
