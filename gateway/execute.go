package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"countersign/gateway/api"
	"countersign/gateway/canonical"
	"countersign/gateway/store"
	"countersign/modes"
)

type timestamp = time.Time

// A use is the consumption of an approval and what came of it. It is stored
// before anything is sent.
type use struct {
	RequestID string             `json:"request_id"`
	Key       string             `json:"key,omitempty"` // idempotency key
	State     string             `json:"state"`
	At        timestamp          `json:"at"` // of consumption, or of the newest send
	Digest    string             `json:"digest"`
	Audience  string             `json:"audience"`
	Tool      string             `json:"tool"`
	Result    api.ProviderResult `json:"result,omitzero"`
	row       store.Row
}

const (
	useSending = "sending" // sent or about to be: the outcome is not known
	useDone    = "done"
	useFailed  = "failed" // certainly not executed
)

// idempotencyKey derives the provider's key from what was spent, so that every
// retry has the same one and no caller can choose it.
func idempotencyKey(issuer, audience, permit string) string {
	h := sha256.Sum256([]byte("countersign/idempotency/v1\x00" + joined(issuer, audience, permit)))
	return hex.EncodeToString(h[:])
}

// actionDigest identifies equal actions: audience, tool, canonical arguments and
// what the references resolve to.
func (g *Gateway) actionDigest(s *modes.Situation) string {
	resolved, err := json.Marshal(s.Resolved) // members sorted by name
	if err != nil {
		return ""
	}
	return canonical.Digest([]byte(joined(s.Action.Audience, s.Action.Tool, s.ArgsDigest, string(resolved))))
}

func (g *Gateway) request(s *modes.Situation, requestID string) api.ProviderRequest {
	return api.ProviderRequest{
		Credential: g.d.ProviderCredential, Audience: s.Action.Audience, Tool: s.Action.Tool,
		Body: g.body(s), RequestID: requestID, Resolved: s.Resolved,
	}
}

// send executes a call that nothing is recorded for: an ungated one.
func (g *Gateway) send(ctx context.Context, s *modes.Situation, requestID string) (api.Outcome, error) {
	res, err := g.transmit(ctx, g.request(s, requestID), resends)
	return g.answer(res, err)
}

// resends is how often a request is sent again when no answer came, as ordinary
// HTTP clients with a retry policy do. Only idem reconciles instead.
const resends = 1

// transmit calls the provider. A request that certainly was not sent may always
// be sent again.
func (g *Gateway) transmit(ctx context.Context, r api.ProviderRequest, again int) (res api.ProviderResult, err error) {
	for unsent := 0; ; {
		res, err = g.d.Provider.Execute(ctx, r)
		switch {
		case errors.Is(err, api.ErrNotSent) && unsent < 2 && ctx.Err() == nil:
			unsent++
		case errors.Is(err, api.ErrNoAnswer) && again > 0 && ctx.Err() == nil:
			again--
		default:
			return res, err
		}
	}
}

// answer maps what the provider said to an outcome.
func (g *Gateway) answer(res api.ProviderResult, err error) (api.Outcome, error) {
	var pe *api.ProviderError
	switch {
	case err == nil && res.Status >= 400:
		return api.Outcome{}, fmt.Errorf("%w: the provider failed with status %d and made no effect", api.ErrUnavailable, res.Status)
	case err == nil && res.Replayed:
		return api.Outcome{Status: api.Absorbed, Result: res.Body}, nil
	case err == nil:
		return api.Outcome{Status: api.Executed, Result: res.Body}, nil
	case errors.As(err, &pe) && pe.Code == "precondition":
		return refusedBy(api.BindRefs, "precondition", "a reference changed on the way to the provider"), nil
	case errors.As(err, &pe) && pe.Code == "key_reuse":
		// The key is derived from the permit, so the permit was used for another call.
		return refusedBy(api.BindIdem, "key_reuse", "the provider knows the permit's key from another call"), nil
	case errors.As(err, &pe):
		return api.Outcome{}, fmt.Errorf("%w: the provider refused the call: %s", api.ErrInvalid, pe.Code)
	case errors.Is(err, api.ErrNotSent):
		return api.Outcome{}, fmt.Errorf("%w: the provider cannot be reached", api.ErrUnavailable)
	}
	return api.Outcome{}, fmt.Errorf("%w: the provider gave no answer; the effect may have been made", api.ErrUnavailable)
}

// execute sends a consumed call and records what came of it.
func (g *Gateway) execute(ctx context.Context, s *modes.Situation, requestID string, u use) (api.Outcome, error) {
	r := g.request(s, requestID)
	r.IdempotencyKey = u.Key
	again := resends
	if g.mode.Has(api.BindIdem) {
		again = 0
	}
	res, err := g.transmit(ctx, r, again)
	if stop := g.reach(ctx, api.StepSent); stop != nil {
		return api.Outcome{}, stop
	}
	if g.mode.Has(api.BindIdem) && errors.Is(err, api.ErrNoAnswer) {
		return g.reconcile(ctx, s, u, true)
	}
	g.record(ctx, &u, res, err)
	outcome, err := g.answer(res, err)
	if err == nil && outcome.Status == api.Refused && asksAgain(outcome.Refusals) {
		t, terr := g.tool(s.Action)
		if terr == nil {
			return g.reask(ctx, s, t, outcome.Refusals)
		}
	}
	return outcome, err
}

// record stores what came of a use. If the store does not take it, because it is
// down or another instance has taken the send over, the use stays "sending" and
// is reconciled when it is presented again.
func (g *Gateway) record(ctx context.Context, u *use, res api.ProviderResult, err error) {
	if u.row.ID == "" {
		return
	}
	next := *u
	var pe *api.ProviderError
	switch {
	case err == nil && res.Status < 400:
		next.State, next.Result = useDone, res
	case err == nil:
		next.State, next.Result = useFailed, res
	case errors.As(err, &pe), errors.Is(err, api.ErrNotSent):
		next.State = useFailed
	default:
		return
	}
	// Only open sends are found by their action: a settled one holds nothing back.
	row := u.row
	row.Key = next.State
	if row, err := update(ctx, g.records.s, row, next); err == nil {
		next.row = row
		*u = next
	}
}

func (g *Gateway) earlierUse(ctx context.Context, s *modes.Situation) (use, error) {
	e := s.Evidence.Envelope
	u, row, err := get[use](ctx, g.records.s, kindUse, joined(g.d.Issuer, e.Audience, e.Permit))
	u.row = row
	return u, err
}

// absorb answers a permit that is presented after consumption: it starts
// nothing. The recorded result is returned, or the open send is reconciled.
func (g *Gateway) absorb(ctx context.Context, s *modes.Situation, refusals []api.Refusal) (api.Outcome, error) {
	u, err := g.earlierUse(ctx, s)
	switch {
	case err != nil:
		return api.Outcome{Status: api.Refused, Refusals: refusals}, nil
	case u.State == useDone:
		return api.Outcome{Status: api.Absorbed, Refusals: refusals, Result: u.Result.Body}, nil
	case u.State == useSending:
		return g.reconcile(ctx, s, u, false)
	}
	return api.Outcome{Status: api.Refused, Refusals: refusals}, nil
}

// reconcile finds out what became of a send whose answer is missing. Only when
// the provider says that nothing was executed, and nobody else can still be
// sending, is the call sent again, under the same key and only while authority
// still holds. owner: this very dispatch consumed the approval and sent the call.
func (g *Gateway) reconcile(ctx context.Context, s *modes.Situation, u use, owner bool) (api.Outcome, error) {
	q := api.LookupQuery{Audience: s.Action.Audience, Tool: s.Action.Tool, IdempotencyKey: u.Key, RequestID: u.RequestID}
	res, found, err := g.d.Provider.Lookup(ctx, q)
	switch {
	case errors.Is(err, api.ErrNoLookup):
		return heldBy(api.BindIdem, "unreconciled", "the provider has no look-up: a person has to find out whether the call was executed"), nil
	case err != nil:
		return heldBy(api.BindIdem, modes.CodeUnavailable, "the provider does not answer look-ups now"), nil
	case found:
		g.record(ctx, &u, res, nil)
		res.Replayed = true
		return g.answer(res, nil)
	}
	now, _, err := g.now()
	if err != nil || !owner && now.Sub(u.At) < SendLease {
		return heldBy(api.BindIdem, "in_progress", "the call may still be on its way"), nil
	}
	if refusals := g.standing(ctx, s); len(refusals) > 0 {
		return api.Outcome{Status: api.Held, Refusals: refusals}, nil
	}
	// Taking the send over is a compare-and-set, so that only one instance does.
	u.At = now
	if u.row, err = update(ctx, g.records.s, u.row, u); err != nil {
		return heldBy(api.BindIdem, "in_progress", "another instance is reconciling the call"), nil
	}
	r := g.request(s, u.RequestID)
	r.IdempotencyKey = u.Key
	res, err = g.transmit(ctx, r, 0)
	if errors.Is(err, api.ErrNoAnswer) {
		return heldBy(api.BindIdem, "unreconciled", "the provider gave no answer again"), nil
	}
	g.record(ctx, &u, res, err)
	return g.answer(res, err)
}

// unreconciled reports whether an equal action was sent and its outcome is not
// known even after asking the provider.
func (g *Gateway) unreconciled(ctx context.Context, digest string) (bool, error) {
	rows, err := g.records.s.Find(ctx, kindUse, digest)
	if err != nil {
		return false, answered(err)
	}
	for _, row := range rows {
		var u use
		if err := jsonv2.Unmarshal(row.Body, &u); err != nil {
			return false, err
		}
		u.row = row
		if u.State == useSending && !g.settle(ctx, u) {
			return true, nil
		}
	}
	return false, nil
}

// settle asks the provider about an open send and records the answer. It reports
// whether the outcome is known now.
func (g *Gateway) settle(ctx context.Context, u use) bool {
	res, found, err := g.d.Provider.Lookup(ctx, api.LookupQuery{Audience: u.Audience, Tool: u.Tool, IdempotencyKey: u.Key, RequestID: u.RequestID})
	switch now, _, clockErr := g.now(); {
	case err != nil:
		return false
	case found:
		g.record(ctx, &u, res, nil)
	case clockErr != nil || now.Sub(u.At) < SendLease:
		return false
	default:
		g.record(ctx, &u, api.ProviderResult{}, api.ErrNotSent)
	}
	return u.State != useSending
}
