package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"countersign/audit"
	"countersign/gateway"
	"countersign/gateway/api"
	"countersign/modes"
	"countersign/scenarios"
	"countersign/scenarios/provider"
)

// What a gate is there to rule out.
const (
	breachDuplicated = "two effects of one call"
	breachAltered    = "an effect with other values than were approved"
	breachElsewhere  = "an effect at another service or of another tool"
	breachUnapproved = "an effect of a call that nobody approved"
	breachUnknown    = "an effect of no call of the soak"
	breachLost       = "an approved call that is neither executed nor held"
	breachPhantom    = "a call that was answered as executed, without an effect"
	breachHeld       = "a call that is still held, though its provider answers look-ups"
	breachTwice      = "two effects for one permit, by the logs"
	breachUnlogged   = "an effect that no log has a permit for"
	breachUnfounded  = "an effect of a permit whose approval is in no log"
	breachKey        = "two effects under one idempotency key"
	breachLog        = "a log that does not verify"
)

// A soakJudge holds what the provider did against what was approved. It knows what the
// workers asked for because that is a function of the seed, and not from them.
type soakJudge struct {
	sc    *scenarios.Scenario
	seed  uint64
	world *provider.World

	mu       sync.Mutex
	effects  []uint8 // by call, as many as there may be; it stops at 255
	ledger   []audit.Effect
	keys     map[string]bool
	breaches map[string]*soakBreach
}

func newSoakJudge(sc *scenarios.Scenario, seed uint64, w *provider.World, calls int) *soakJudge {
	return &soakJudge{sc: sc, seed: seed, world: w, effects: make([]uint8, calls), keys: map[string]bool{}, breaches: map[string]*soakBreach{}}
}

func (j *soakJudge) breach(kind, format string, args ...any) {
	b := j.breaches[kind]
	if b == nil {
		b = &soakBreach{Kind: kind, Example: fmt.Sprintf(format, args...)}
		j.breaches[kind] = b
	}
	b.Count++
}

// take judges the effects that were made since it was called last.
func (j *soakJudge) take() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, e := range j.world.Since(len(j.ledger)) {
		j.ledger = append(j.ledger, audit.Effect{Seq: e.Seq, Audience: e.Audience, Tool: e.Tool, RequestID: e.RequestID, IdempotencyKey: e.IdempotencyKey})
		j.effect(e)
	}
}

var soakRequests = regexp.MustCompile(`^call-(\d{1,9})\.`)

// effect judges one effect.
func (j *soakJudge) effect(e provider.Effect) {
	if e.IdempotencyKey != "" {
		if j.keys[e.IdempotencyKey] {
			j.breach(breachKey, "effect %d", e.Seq)
		}
		j.keys[e.IdempotencyKey] = true
	}
	m := soakRequests.FindStringSubmatch(e.RequestID)
	n := -1
	if m != nil {
		n, _ = strconv.Atoi(m[1]) // nine digits at most
	}
	if n < 0 || n >= len(j.effects) {
		j.breach(breachUnknown, "effect %d, request %q", e.Seq, e.RequestID)
		return
	}
	in := j.sc.Instance(j.seed, n)
	if e.Audience != j.sc.Audience || e.Tool != in.Tool {
		j.breach(breachElsewhere, "effect %d, request %q", e.Seq, e.RequestID)
		return
	}
	// What the provider would have done with the call as it was asked for.
	want, err := j.world.Preview(context.Background(), api.ProviderRequest{Audience: j.sc.Audience, Tool: in.Tool, Body: in.Arguments})
	if err != nil || !maps.EqualFunc(want, e.Values, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
		j.breach(breachAltered, "effect %d, request %q", e.Seq, e.RequestID)
		return
	}
	if j.effects[n] > 0 {
		j.breach(breachDuplicated, "effect %d, request %q", e.Seq, e.RequestID)
	}
	if j.effects[n] < 255 {
		j.effects[n]++
	}
}

// judgeCalls holds what the workers were told, by call, against the effects. Calls are
// held for too long where they were presented for longer than what was sent may take.
func (j *soakJudge) judgeCalls(states []callState, approved []bool, tooLong bool) (held int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for n, count := range j.effects {
		switch {
		case count > 0 && !approved[n]:
			j.breach(breachUnapproved, "call %d", n)
		case count > 0, !approved[n]:
		case states[n] == callHeld:
			held++
			if tooLong {
				j.breach(breachHeld, "call %d", n)
			}
		case states[n] == callExecuted:
			j.breach(breachPhantom, "call %d", n)
		default:
			j.breach(breachLost, "call %d", n)
		}
	}
	return held
}

// judgeLogs holds the ledger against the logs of all gateways: each effect has one
// permit, which somebody approved, and no permit has two.
func (j *soakJudge) judgeLogs(paths []string) (permits, lines int, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var entries []api.AuditEntry // as far as they are compared
	byKey, byRequest, decided := map[string]string{}, map[string]string{}, map[string]bool{}
	for _, path := range paths {
		err := audit.EachEntry(path, func(e api.AuditEntry) {
			lines++
			switch {
			case e.Permit == "":
			case e.Event == "posted:approve", e.Event == "decide:approve":
				decided[e.Permit] = true
			case e.Key != "" || e.RequestID != "":
				entries = append(entries, api.AuditEntry{
					Permit: e.Permit, Key: e.Key, RequestID: e.RequestID, Audience: e.Audience, Tool: e.Tool, Suspension: e.Suspension, Uses: e.Uses,
				})
				if e.Key != "" {
					byKey[e.Key] = e.Permit
				}
				byRequest[e.RequestID] = e.Permit
			}
		})
		if err == nil {
			err = j.verify(path)
		}
		if err != nil {
			return 0, 0, err
		}
	}
	for _, f := range audit.Compare(entries, j.ledger) {
		j.breach(breachTwice, "effects %v", f.Effects)
	}
	distinct := map[string]bool{}
	for _, e := range j.ledger {
		permit, ok := byKey[e.IdempotencyKey]
		if !ok {
			permit, ok = byRequest[e.RequestID]
		}
		switch {
		case !ok:
			j.breach(breachUnlogged, "effect %d, request %q", e.Seq, e.RequestID)
		case !decided[permit]:
			j.breach(breachUnfounded, "effect %d, request %q", e.Seq, e.RequestID)
		}
		if ok {
			distinct[permit] = true
		}
	}
	return len(distinct), lines, nil
}

// verify holds a log against its checkpoints, signed by the gateway's own key.
func (j *soakJudge) verify(path string) error {
	key, err := loadAuditKey(auditKeyOf(path))
	if err != nil {
		return err
	}
	known, _, err := verifierKeys([]string{key.Public()})
	if err != nil {
		return err
	}
	r, err := audit.Verify(path, checkpointsOf(path), known)
	switch {
	case err != nil:
		return err
	case len(r.Unknown) > 0:
		return errors.New(strings.Join(r.Unknown, "; "))
	case len(r.Tampering) > 0:
		j.breach(breachLog, "%s", r.Tampering[0].String())
	case r.Covered != r.Entries: // the gateway has signed what there was when it ended
		j.breach(breachLog, "of %d entries the checkpoints cover %d", r.Entries, r.Covered)
	}
	return nil
}

// found lists the breaches, by kind.
func (j *soakJudge) found() []soakBreach {
	out := []soakBreach{}
	for _, kind := range slices.Sorted(maps.Keys(j.breaches)) {
		out = append(out, *j.breaches[kind])
	}
	return out
}

// demanded says that a design claims what rules out every breach.
func demanded(m modes.Mode) bool {
	for _, b := range []api.Binding{api.BindArgs, api.BindAudience, api.BindOnce, api.BindIdem} {
		if !m.Has(b) {
			return false
		}
	}
	return true
}

// report ends the gateways and says what it came to.
func (s *soaking) report(ctx context.Context) (soakReport, error) {
	tool, _ := s.sc.Tool(s.sc.HonestTool)
	r := soakReport{
		Schema: soakSchema, Target: s.mode.ID, Scenario: s.sc.ID, Guarantee: tool.Guarantee, Seed: s.o.seed, Workers: s.o.workers, Instances: s.o.instances,
		Demanded: demanded(s.mode), Calls: s.o.approvals, Restarts: s.f.restarts, Faults: s.faults,
	}
	if err := s.f.stop(); err != nil {
		return r, err
	}
	var decides, dispatches []time.Duration
	decidesOut, dispatchesOut := 0, 0
	for _, w := range s.workers {
		r.Approvals += w.approvals
		r.Failed += w.failed
		r.NoAnswers += w.noAnswers
		r.Replays.add(w.replays)
		r.Altered.add(w.changed)
		r.Elsewhere.add(w.elsewhere)
		decides, dispatches = append(decides, w.decides...), append(dispatches, w.dispatches...)
		decidesOut, dispatchesOut = decidesOut+w.decidesLeftOut, dispatchesOut+w.dispatchesLeftOut
	}
	r.Decide, r.Dispatch = latencyOf(decides, decidesOut), latencyOf(dispatches, dispatchesOut)
	r.Seconds, r.Waited = s.loaded.Sub(s.started).Seconds(), s.finished.Sub(s.loaded).Seconds()
	r.PerSecond = float64(r.Approvals) / r.Seconds
	r.Slowest = milliseconds(s.f.slowest)
	if s.f.peak > 0 {
		r.Memory = &soakMemory{Quarter: s.quarter, Peak: s.f.peak}
	}

	s.judge.take()
	r.Effects = len(s.judge.ledger)
	r.Held = s.judge.judgeCalls(s.states, s.approved, tool.Guarantee != api.GuaranteeNone && s.o.settle > gateway.SendLease)
	var err error
	if r.Permits, r.LogLines, err = s.judge.judgeLogs(s.f.logs); err != nil {
		return r, fmt.Errorf("the logs at the end: %w", err)
	}
	r.Breaches = s.judge.found()
	return r, ctx.Err()
}

func (t *soakTally) add(o soakTally) {
	t.Sent += o.Sent
	t.Refused += o.Refused
	t.Absorbed += o.Absorbed
	t.Held += o.Held
	t.Executed += o.Executed
	t.NoAnswer += o.NoAnswer
}
