package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"countersign/gateway/api"
	"countersign/gateway/canonical"
	"countersign/gateway/store"
	"countersign/modes"
)

// The keys of suspensions.
const (
	keyWaiting = "waiting" // for a decision
	keyOver    = "over"    // decided, or too late for it
)

// proofRow names a proof by a digest, because callers choose how long identifiers are.
func proofRow(s *modes.Situation) string {
	return canonical.Digest([]byte(joined(s.Caller.ID, s.ProofID)))
}

func proofReplayed() api.Outcome {
	return refusedBy(api.BindSender, "proof_replayed", "the proof was used before")
}

// shareProof makes a proof used for every instance that shares the store. Where an
// approval is for one call, the row of its use does that.
func (g *Gateway) shareProof(ctx context.Context, s *modes.Situation) (api.Outcome, bool) {
	if !g.mode.Has(api.BindOnce) || !s.Evidence.Envelope.RunWide() {
		return api.Outcome{}, true
	}
	switch _, err := create(ctx, g.records.s, kindProof, proofRow(s), "", struct{}{}); {
	case err == nil:
		return api.Outcome{}, true
	case errors.Is(err, api.ErrConflict):
		return proofReplayed(), false
	}
	return heldBy(api.BindSender, modes.CodeUnavailable, "whether the proof was used cannot be stored now"), false
}

// waitsNoMore takes a suspension from among those that [Gateway.Waiting] counts. If
// that fails, the count finds out that it is decided.
func (r records) waitsNoMore(ctx context.Context, row store.Row) {
	row.Key = keyOver
	_, _, _ = unbroken(func() (struct{}, store.Row, error) {
		_, err := r.s.Update(ctx, row)
		return struct{}{}, row, err
	})
}

// Waiting counts the suspensions that wait for a decision which could still be used,
// of all instances that share the store, and says when the oldest of them was made;
// the zero time where none waits. Those for which it is too late are not looked at
// again.
func (g *Gateway) Waiting(ctx context.Context) (n int, oldest time.Time, err error) {
	now, _, err := g.now()
	if err != nil {
		return 0, time.Time{}, err
	}
	rows, err := g.records.s.Find(ctx, kindSuspension, keyWaiting)
	if err != nil {
		return 0, time.Time{}, answered(err)
	}
	for _, row := range rows {
		var sus suspension
		if err := json.Unmarshal(row.Body, &sus); err != nil {
			return 0, time.Time{}, fmt.Errorf("reading suspension %q: %w", row.ID, err)
		}
		decided, err := exists(ctx, g.records.s, kindApproval, sus.Permit)
		switch {
		case err != nil:
			return 0, time.Time{}, err
		case decided, !now.Before(sus.Since.Add(g.d.ApprovalTTL)):
			g.records.waitsNoMore(ctx, row)
			continue
		}
		if n++; oldest.IsZero() || sus.Since.Before(oldest) {
			oldest = sus.Since
		}
	}
	return n, oldest, nil
}

// Ready implements api.Readier. Whether the audit log could be written is known only
// once something is.
func (g *Gateway) Ready(ctx context.Context) (failing []api.Dependency) {
	ask := func(dep api.Dependency, f func() error) {
		_, _, err := unbroken(func() (struct{}, store.Row, error) { return struct{}{}, store.Row{}, f() })
		if err != nil {
			failing = append(failing, dep)
		}
	}
	ask(api.DepStore, func() error { return g.records.ping(ctx) })
	ask(api.DepPolicy, func() error { _, err := g.registry.policy(ctx); return err })
	ask(api.DepAudit, func() error { _, err := g.audit.Read(ctx, math.MaxInt64); return err })
	ask(api.DepClock, func() error { _, err := g.d.Clock.Now(); return err })
	return failing
}
