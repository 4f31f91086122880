package gateway_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/audit"
	"countersign/gateway"
	"countersign/gateway/api"
	"countersign/gateway/canonical"
	"countersign/gateway/store"
	"countersign/modes"
	"countersign/oracles/softkey"
	"countersign/scenarios/provider"
)

// instant is a provider that takes no time, so that a dispatch is the decision:
// authenticate, read, verify every binding, spend, log and record.
type instant struct{ *provider.World }

func (instant) Execute(context.Context, api.ProviderRequest) (api.ProviderResult, error) {
	return api.ProviderResult{Status: 200, Body: json.RawMessage(`{"effect":1}`)}, nil
}

// A decision is one approved dispatch that was not made yet, with its proof.
type decision struct {
	auth api.Auth
	d    api.Dispatch
}

// decisions makes n of them.
func decisions(w *world, n int) []decision {
	out := make([]decision, n)
	for i := range out {
		d := w.approved(w.action("pay", w.calls))
		p := w.proofs.Add(1)
		d.RequestID = fmt.Sprint("req-", p)
		proof, err := w.proof(d, p)
		must(w.t, err)
		out[i] = decision{api.Auth{Token: token("agent-a"), Proof: proof}, d}
	}
	return out
}

// errSpent ends a dispatch once the approval is spent.
var errSpent = errors.New("spent")

// decide dispatches: to the point where every binding is verified and the approval
// is spent, or to the end, with a provider that takes no time.
func (w *benchWorld) decide(b *testing.B, ds []decision, whole bool) {
	w.whole = whole
	for _, d := range ds {
		o, err := w.target.Dispatch(ctx, d.auth, d.d)
		if whole && (err != nil || o.Status != api.Executed) || !whole && !errors.Is(err, errSpent) {
			b.Fatalf("%+v, %v", o, err)
		}
	}
}

// verifications is how many P-256 signatures the path verifies: the permit's, the
// agent's proof and the approver's assertion.
const verifications = 3

// primitives is what a decision cannot do without: one canonicalisation of the
// arguments, one digest of the envelope, and the signatures.
type primitives struct {
	arguments, envelope []byte
	fields              []api.Field
	key                 *ecdsa.PrivateKey
	digest              [32]byte
	signature           []byte
}

func newPrimitives(b *testing.B, w *world) primitives {
	a := w.action("pay", 1)
	d := w.approved(a)
	key := agentKey()
	p := primitives{arguments: a.Arguments, fields: tools()[0].Fields, envelope: unbase64(b, strings.Split(d.Carried.Permit, ".")[1]), key: key}
	p.digest = sha256.Sum256(p.envelope)
	var err error
	p.signature, err = ecdsa.SignASN1(nil, key, p.digest[:])
	must(b, err)
	return p
}

func (p primitives) run(b *testing.B, n int) {
	for range n {
		if _, _, err := canonical.Strict(p.arguments, p.fields); err != nil {
			b.Fatal(err)
		}
		if sha256.Sum256(p.envelope) != p.digest {
			b.Fatal("another digest")
		}
		for range verifications {
			if !ecdsa.VerifyASN1(&p.key.PublicKey, p.digest[:], p.signature) {
				b.Fatal("the signature does not verify")
			}
		}
	}
}

// A benchWorld is an M9 gateway in memory.
type benchWorld struct {
	*world
	whole bool
}

func newBenchWorld(b *testing.B) *benchWorld {
	w := &benchWorld{world: &world{t: b, keys: map[string]*softkey.Key{}}}
	w.deployment, w.clock, w.prov = deployment(b)
	w.deployment.Provider = instant{w.prov.World}
	m, err := modes.Get("M9")
	must(b, err)
	keys, err := modes.NewKeys(issuer)
	must(b, err)
	s := store.NewMemory()
	w.target, err = gateway.New(ctx, gateway.Config{
		Mode: m, Deployment: w.deployment, Approvals: s, Registry: s, Audit: audit.NewMemory(), Keys: keys,
		Reach: func(_ context.Context, step api.Step) error {
			if step == api.StepConsumed && !w.whole {
				return errSpent
			}
			return nil
		},
	})
	must(b, err)
	for _, p := range people() {
		w.enrol(p)
	}
	return w
}

const batch = 64

func (w *benchWorld) bench(b *testing.B, whole bool) {
	b.ReportAllocs()
	b.ResetTimer()
	for n := b.N; n > 0; n -= batch {
		b.StopTimer()
		ds := decisions(w.world, min(n, batch))
		b.StartTimer()
		w.decide(b, ds, whole)
	}
}

// BenchmarkDecision is the M9 decision in memory: who calls, what is asked, the
// intent in the log, every binding, and the approval spent.
func BenchmarkDecision(b *testing.B) { newBenchWorld(b).bench(b, false) }

// BenchmarkDispatch adds what follows: authority again, the provider (which takes
// no time here), the result stored and the outcome in the log.
func BenchmarkDispatch(b *testing.B) { newBenchWorld(b).bench(b, true) }

// BenchmarkPrimitives is what both are measured against.
func BenchmarkPrimitives(b *testing.B) {
	p := newPrimitives(b, newBenchWorld(b).world)
	b.ReportAllocs()
	b.ResetTimer()
	p.run(b, b.N)
}

// BenchmarkRatio runs all three in turns and reports their ratios, from the median
// of each, because other work on the machine slows down all.
func BenchmarkRatio(b *testing.B) {
	w := newBenchWorld(b)
	p := newPrimitives(b, w.world)
	p.run(b, batch)
	var decision, dispatch, bare []time.Duration
	since := func(t time.Time, out *[]time.Duration) time.Time {
		now := time.Now()
		*out = append(*out, now.Sub(t))
		return now
	}
	for range b.N {
		b.StopTimer()
		some, others := decisions(w.world, batch), decisions(w.world, batch)
		b.StartTimer()
		t := time.Now()
		w.decide(b, some, false)
		t = since(t, &decision)
		w.decide(b, others, true)
		t = since(t, &dispatch)
		p.run(b, batch)
		since(t, &bare)
	}
	median := func(d []time.Duration) float64 { slices.Sort(d); return float64(d[len(d)/2]) / batch }
	b.ReportMetric(median(bare), "primitives-ns")
	b.ReportMetric(median(decision), "decision-ns")
	b.ReportMetric(median(decision)/median(bare), "ratio")
	b.ReportMetric(median(dispatch)/median(bare), "dispatch-ratio")
}
