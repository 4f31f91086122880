package gateway_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/gateway/api"
	"countersign/gateway/canonical"
	"countersign/gateway/store"
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

func decide(b *testing.B, w *world, ds []decision) {
	for _, d := range ds {
		o, err := w.target.Dispatch(ctx, d.auth, d.d)
		if err != nil || o.Status != api.Executed {
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

func benchWorld(b *testing.B) *world {
	return newWorldWith(b, "M9", store.NewMemory(), func(d *api.Deployment) {
		d.Provider = instant{d.Provider.(*hooked).World}
	})
}

const batch = 64

// BenchmarkDecision is the M9 decision path, in memory and without the provider.
func BenchmarkDecision(b *testing.B) {
	w := benchWorld(b)
	b.ReportAllocs()
	b.ResetTimer()
	for n := b.N; n > 0; n -= batch {
		b.StopTimer()
		ds := decisions(w, min(n, batch))
		b.StartTimer()
		decide(b, w, ds)
	}
}

// BenchmarkPrimitives is what that path is measured against.
func BenchmarkPrimitives(b *testing.B) {
	p := newPrimitives(b, benchWorld(b))
	b.ReportAllocs()
	b.ResetTimer()
	p.run(b, b.N)
}

// BenchmarkRatio runs both in turns and reports decision / primitives, from the
// median of each, because other work on the machine slows down both.
func BenchmarkRatio(b *testing.B) {
	w := benchWorld(b)
	p := newPrimitives(b, w)
	p.run(b, batch)
	var path, bare []time.Duration
	b.ResetTimer()
	for range b.N {
		b.StopTimer()
		ds := decisions(w, batch)
		b.StartTimer()
		t0 := time.Now()
		decide(b, w, ds)
		t1 := time.Now()
		p.run(b, batch)
		path, bare = append(path, t1.Sub(t0)), append(bare, time.Since(t1))
	}
	median := func(d []time.Duration) float64 { slices.Sort(d); return float64(d[len(d)/2]) / batch }
	b.ReportMetric(median(path), "decision-ns")
	b.ReportMetric(median(bare), "primitives-ns")
	b.ReportMetric(median(path)/median(bare), "ratio")
}
