package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
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
	RequestID  string             `json:"request_id"`
	Key        string             `json:"key,omitempty"` // idempotency key
	State      string             `json:"state"`
	At         timestamp          `json:"at"` // of consumption, or of the newest send
	ConsumedAt timestamp          `json:"consumed_at,omitzero"`
	Permit     string             `json:"permit,omitempty"`  // as the log names it
	Deadline   timestamp          `json:"deadline,omitzero"` // of the newest send; zero where the time was not known
	Waits      bool               `json:"waits,omitempty"`   // spent, and whoever spent it has given up sending
	Digest     string             `json:"digest"`
	Audience   string             `json:"audience"`
	Tool       string             `json:"tool"`
	Suspension string             `json:"suspension,omitempty"`
	Proof      string             `json:"proof,omitempty"` // by which it was spent; see proofRow
	Result     api.ProviderResult `json:"result,omitzero"`
	row        store.Row
}

// The states of a use. Each step is a compare-and-set on its row, so that of
// several instances one takes it.
const (
	useSpent   = "spent"   // consumed, and nothing was sent
	useSending = "sending" // sent or about to be: the outcome is not known
	useDone    = "done"
	useFailed  = "failed" // certainly not executed
)

func (u use) open() bool { return u.State == useSpent || u.State == useSending }

// sentAs is the id of the request that the provider may have an effect of.
func (u use) sentAs() string {
	if u.State == useSending || u.State == useDone {
		return u.RequestID
	}
	return ""
}

// idempotencyKey derives the provider's key from the use that was spent, so that
// every retry has the same one and no caller can choose it.
func idempotencyKey(useID string) string {
	h := sha256.Sum256([]byte("countersign/idempotency/v1\x00" + useID))
	return hex.EncodeToString(h[:])
}

// actionDigest identifies equal actions of a tenant: audience, tool, canonical
// arguments and what the references resolve to.
func (g *Gateway) actionDigest(s *modes.Situation) string {
	// Members are sorted by name. What cannot be written is in no envelope either, so
	// that it is neither asked for nor consumed.
	return canonical.Digest([]byte(actionText(s)))
}

// actionText is what the digest of an action is of.
func actionText(s *modes.Situation) string {
	resolved, _ := json.Marshal(s.Resolved)
	return joined(s.Caller.Tenant, s.Action.Audience, s.Action.Tool, s.ArgsDigest, string(resolved))
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

// uncertain says that an answer leaves open whether the effect was made. A 5xx
// says that the server, or a gateway on the way to it, failed (RFC 9110, section
// 15.6), and 408 that it stopped waiting: both are also sent for requests that
// were acted upon. 425, 429 and 499 ask for another attempt, which is what an
// uncertain call gets once that is safe. Any other 4xx refuses the request as such,
// and a *api.ProviderError is the provider's own word, but for "late": that one may
// answer the copy of a request that was accepted before.
func uncertain(res api.ProviderResult, err error) bool {
	var pe *api.ProviderError
	switch {
	case errors.As(err, &pe):
		return pe.Code == "late"
	case err != nil:
		return !errors.Is(err, api.ErrNotSent)
	}
	switch s := res.Status; s {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests, 499:
		return true
	default:
		return !(s >= 200 && s < 300 || s >= 400 && s < 500)
	}
}

// answer maps what the provider said to an outcome.
func (g *Gateway) answer(res api.ProviderResult, err error) (api.Outcome, error) {
	var pe *api.ProviderError
	switch {
	case err == nil && uncertain(res, nil):
		return api.Outcome{}, fmt.Errorf("%w: the provider answered with status %d; the effect may have been made", api.ErrUnavailable, res.Status)
	case err == nil && res.Status >= 400:
		return api.Outcome{}, fmt.Errorf("%w: the provider refused the call with status %d", api.ErrInvalid, res.Status)
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
	s.Line.ProviderRequest = requestID
	r.IdempotencyKey = u.Key
	again := resends
	if g.mode.Has(api.BindIdem) {
		again = 0
		if outcome, ok := g.begin(ctx, s, &u); !ok {
			return outcome, nil
		}
		r.Deadline = u.Deadline
	}
	res, err := g.transmit(ctx, r, again)
	if stop := g.reach(ctx, api.StepSent); stop != nil {
		return api.Outcome{}, stop
	}
	if g.mode.Has(api.BindIdem) && uncertain(res, err) {
		return g.reconcile(ctx, s, u, true)
	}
	g.record(ctx, &u, res, err)
	outcome, err := g.answer(res, err)
	if outcome.Status == api.Refused && asksAgain(outcome.Refusals) {
		return g.reask(ctx, s, toolRow{s.Tool, s.ToolDigest}, outcome.Refusals)
	}
	return outcome, err
}

// begin takes the send: no equal action is open that was consumed before, and this
// is still the use that was read. After it, whoever wants to send for this use
// finds the request under way until its deadline; before it, whoever took the use
// over has made this step fail.
func (g *Gateway) begin(ctx context.Context, s *modes.Situation, u *use) (api.Outcome, bool) {
	first, open, err := g.unreconciled(ctx, u.Digest, u.row.ID)
	if err != nil {
		return heldBy(api.BindIdem, modes.CodeUnavailable, "whether an equal call is open cannot be read"), false
	}
	if open {
		g.wait(ctx, *u)
		return heldBy(api.BindIdem, "unreconciled", "an equal call, "+first.Suspension+", was sent before and its outcome is not known"), false
	}
	next := *u
	next.State, next.At, next.Deadline, next.Waits = useSending, s.Now, g.deadline(s), false
	row := u.row
	row.Key = u.Digest
	if next.row, err = update(ctx, g.records.s, row, next); err == nil {
		*u = next
		return api.Outcome{}, true
	}
	if !errors.Is(err, api.ErrConflict) {
		return heldBy(api.BindIdem, modes.CodeUnavailable, "the send cannot be recorded now"), false
	}
	switch now, err := g.earlierUse(ctx, s); {
	case err == nil && now.State == useDone:
		return api.Outcome{Status: api.Absorbed, Result: now.Result.Body}, false
	case err == nil && now.State == useFailed:
		return refusedBy(api.BindOnce, "spent", "the call was recorded as not executed meanwhile"), false
	}
	return heldBy(api.BindIdem, "in_progress", "another instance has taken the call over"), false
}

// deadline is when the provider shall refuse the request that is sent now: before
// the lease ends, by any clock that differs from this one by less than ClockSkew,
// and when authority ends.
func (g *Gateway) deadline(s *modes.Situation) timestamp {
	if s.NowErr != nil {
		return timestamp{}
	}
	d := s.Now.Add(SendLease - ClockSkew)
	if end := time.Unix(s.Evidence.Envelope.ExpiresAt, 0); g.mode.Has(api.BindExpiry) && end.Before(d) {
		d = end.UTC()
	}
	return d
}

// underWay reports whether somebody may still send for an open use, or the provider
// may still accept what was sent.
func (g *Gateway) underWay(u use) bool {
	now, _, err := g.now()
	switch {
	case err != nil:
		return true
	case u.State == useSending && u.Deadline.IsZero():
		return true // it was sent without an end
	}
	return now.Sub(u.At) < SendLease
}

// wait says that a use is not being sent, so that it may be as soon as what it
// waits for is there. If that cannot be stored, it waits for the end of the lease.
func (g *Gateway) wait(ctx context.Context, u use) {
	if u.State == useSpent && !u.Waits {
		u.Waits = true
		_, _ = update(ctx, g.records.s, u.row, u)
	}
}

// record stores what came of a use, if that is known. If the store does not take it,
// because it is down or another instance has taken the send over, the use stays open
// and is reconciled when it is presented again.
func (g *Gateway) record(ctx context.Context, u *use, res api.ProviderResult, err error) {
	switch {
	case uncertain(res, err):
	case err != nil:
		g.settled(ctx, u, useFailed, res)
	default:
		g.settled(ctx, u, became(res), res)
	}
}

// became is the state of a use that the provider has an answer for on record.
func became(res api.ProviderResult) string {
	if res.Status >= 400 {
		return useFailed
	}
	return useDone
}

// settled stores the end of a use, and reports whether it did.
func (g *Gateway) settled(ctx context.Context, u *use, state string, res api.ProviderResult) bool {
	if u.row.ID == "" {
		return false
	}
	next := *u
	next.State, next.Result, next.Waits = state, res, false
	// Only open sends are found by their action: a settled one holds nothing back.
	row := u.row
	row.Key = next.State
	row, err := update(ctx, g.records.s, row, next)
	if err != nil {
		return false
	}
	next.row = row
	*u = next
	return true
}

// earlierUse reads what the call has spent, and says in its line when and as what it
// was sent.
func (g *Gateway) earlierUse(ctx context.Context, s *modes.Situation) (u use, err error) {
	if e := s.Evidence.Envelope; e.RunWide() {
		s.Use, u, err = g.records.useOf(ctx, g.d.Issuer, e, s.Call)
		if u.Suspension != s.Call { // every use is another call's
			return u, err
		}
	} else {
		u, u.row, err = get[use](ctx, g.records.s, kindUse, g.useRow(s))
	}
	s.Line.ConsumedAt, s.Line.ProviderRequest = u.ConsumedAt, u.sentAs()
	return u, err
}

// absorb answers a permit that is presented after consumption: it starts
// nothing. The recorded result is returned, or the open send is reconciled.
func (g *Gateway) absorb(ctx context.Context, s *modes.Situation, refusals []api.Refusal) (api.Outcome, error) {
	u, err := g.earlierUse(ctx, s)
	switch {
	case err != nil, s.Evidence.Envelope.RunWide() && u.Suspension != s.Call: // no use is left
		return api.Outcome{Status: api.Refused, Refusals: refusals}, nil
	case u.Proof == proofRow(s): // at another instance, or before a restart
		return proofReplayed(), nil
	case u.State == useDone:
		return api.Outcome{Status: api.Absorbed, Refusals: refusals, Result: u.Result.Body}, nil
	case u.open():
		return g.reconcile(ctx, s, u, false)
	}
	for i, r := range refusals { // it failed: nobody is to take it for executed
		if r.Binding == api.BindOnce {
			refusals[i].Detail += ", and the call was certainly not executed: it has to be proposed again"
		}
	}
	return api.Outcome{Status: api.Refused, Refusals: refusals}, nil
}

// reconcile finds out what became of an open use. Only when nothing was executed
// and nothing can be any more, because nothing was sent or the provider says so
// after the deadline, is the call sent again, under the same key and only while
// authority still holds. owner: this very dispatch sent the call.
func (g *Gateway) reconcile(ctx context.Context, s *modes.Situation, u use, owner bool) (api.Outcome, error) {
	found := &s.Line.Reconciled
	if u.State == useSpent {
		if !u.Waits && g.underWay(u) {
			*found = api.StillOpen
			return heldBy(api.BindIdem, "in_progress", "the call may be about to be sent"), nil
		}
		*found = api.FoundNotSent
		return g.resume(ctx, s, u)
	}
	res, accepted, err := g.d.Provider.Lookup(ctx, lookup(u))
	switch {
	case errors.Is(err, api.ErrNoLookup):
		*found = api.NoLookup
		return heldBy(api.BindIdem, "unreconciled", "the provider has no look-up: a person has to find out whether the call was executed"), nil
	case err != nil:
		*found = api.LookupFailed
		return heldBy(api.BindIdem, modes.CodeUnavailable, "the provider does not answer look-ups now"), nil
	case accepted:
		*found = reconciled(became(res))
		g.settled(ctx, &u, became(res), res)
		if res.Status >= 400 {
			return api.Outcome{}, fmt.Errorf("%w: the provider failed with status %d and made no effect", api.ErrUnavailable, res.Status)
		}
		res.Replayed = true
		return g.answer(res, nil)
	case owner && s.Tool.Guarantee == api.GuaranteeIdempotent:
		*found = api.FoundNothing
		return g.sendAgain(ctx, s, u)
	case g.underWay(u):
		*found = api.StillOpen
		return heldBy(api.BindIdem, "in_progress", "the call may still be on its way"), nil
	}
	*found = api.FoundNotExecuted
	return g.resume(ctx, s, u)
}

// reconciled says what the end of a use is that was found out.
func reconciled(state string) api.Reconciliation {
	if state == useDone {
		return api.FoundExecuted
	}
	return api.FoundFailed
}

func lookup(u use) api.LookupQuery {
	return api.LookupQuery{Audience: u.Audience, Tool: u.Tool, IdempotencyKey: u.Key, RequestID: u.RequestID}
}

// sendAgain repeats a request that may still be on its way, which is harmless only
// where the provider makes one effect for a key, whichever of them arrives first.
func (g *Gateway) sendAgain(ctx context.Context, s *modes.Situation, u use) (api.Outcome, error) {
	if refusals := g.standing(ctx, s); len(refusals) > 0 {
		return api.Outcome{Status: api.Held, Refusals: refusals}, nil
	}
	r := g.request(s, u.RequestID)
	r.IdempotencyKey, r.Deadline = u.Key, u.Deadline
	res, err := g.transmit(ctx, r, 0)
	if uncertain(res, err) {
		return heldBy(api.BindIdem, "unreconciled", "the provider gave no answer again"), nil
	}
	g.record(ctx, &u, res, err)
	return g.answer(res, err)
}

// resume sends a call of which it is certain that it was not executed.
func (g *Gateway) resume(ctx context.Context, s *modes.Situation, u use) (api.Outcome, error) {
	if refusals := g.standing(ctx, s); len(refusals) > 0 {
		return g.withhold(ctx, u, refusals), nil
	}
	return g.execute(ctx, s, u.RequestID, u)
}

// withhold answers a spent call that is not sent because authority does not hold.
// What only cannot be checked now leaves the use open, so that the call proceeds
// later; what has ended leaves nothing to reconcile.
func (g *Gateway) withhold(ctx context.Context, u use, refusals []api.Refusal) api.Outcome {
	switch {
	case allWait(refusals) && (g.mode.Has(api.BindIdem) || !g.mode.Has(api.BindOnce)):
		g.wait(ctx, u)
		return api.Outcome{Status: api.Held, Refusals: refusals}
	case u.open() && u.row.ID != "" && !g.settled(ctx, &u, useFailed, api.ProviderResult{}):
		return api.Outcome{Status: api.Held, Refusals: refusals} // it stays open, or is another instance's
	}
	return api.Outcome{Status: api.Refused, Refusals: refusals}
}

// unreconciled finds an equal action that was consumed, before the use with the
// given id if that is not empty, and whose outcome is not known even after asking
// the provider.
func (g *Gateway) unreconciled(ctx context.Context, digest, before string) (use, bool, error) {
	rows, err := g.records.s.Find(ctx, kindUse, digest)
	if err != nil {
		return use{}, false, answered(err)
	}
	// The one created last comes first. Of two uses each yields to the older, so
	// that never both wait and never both go.
	from := 1 + slices.IndexFunc(rows, func(r store.Row) bool { return r.ID == before })
	for i, row := range rows {
		var u use
		if err := jsonv2.Unmarshal(row.Body, &u); err != nil {
			return use{}, false, err
		}
		u.row = row
		if i >= from && !g.settle(ctx, u) { // by their action only open ones are found
			return u, true, nil
		}
	}
	return use{}, false, nil
}

// settle finds out what became of an open use without sending anything, logs it and
// records it. It reports whether the outcome is known now.
func (g *Gateway) settle(ctx context.Context, u use) bool {
	what := api.FoundNotSent
	if u.State == useSending {
		res, found, err := g.d.Provider.Lookup(ctx, lookup(u))
		if err != nil {
			return false
		}
		if found {
			return g.found(ctx, u, reconciled(became(res))) && g.settled(ctx, &u, became(res), res)
		}
		what = api.FoundNotExecuted
	}
	// That it was not executed is true once nobody can send it any more.
	return !g.underWay(u) && g.settled(ctx, &u, useFailed, api.ProviderResult{}) && g.found(ctx, u, what)
}
