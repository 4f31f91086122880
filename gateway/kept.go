package gateway

import (
	"context"
	"errors"

	"countersign/audit"
	"countersign/gateway/api"
	"countersign/gateway/canonical"
	"countersign/modes"
)

// The kinds of values that digests in the log stand for.
const (
	keptArguments = "arguments"
	keptAction    = "action"
	keptView      = "view"
)

// keepAction returns the digest of an action for the log, empty where its arguments
// have no reading, and keeps what it stands for. As with the log, the caller decides
// what a failure means: a design that fails closed holds the call.
func (g *Gateway) keepAction(ctx context.Context, s *modes.Situation) (digest string, err error) {
	if s.ArgsDigest == "" {
		return "", nil
	}
	digest = g.actionDigest(s)
	return digest, errors.Join(
		g.keep(ctx, audit.Value{Digest: s.ArgsDigest, Kind: keptArguments, Text: string(s.Canonical)}),
		g.keep(ctx, audit.Value{Digest: digest, Kind: keptAction, Text: actionText(s)}))
}

// keepView does the same for what an approver was shown, in every design: where the
// view is not bound, the log says all the same which it was.
func (g *Gateway) keepView(ctx context.Context, v api.View) (digest string, err error) {
	text, err := viewText(v)
	if err != nil {
		return "", err
	}
	digest = canonical.Digest(text)
	return digest, g.keep(ctx, audit.Value{Digest: digest, Kind: keptView, Text: string(text)})
}

func (g *Gateway) keep(ctx context.Context, v audit.Value) error {
	if g.values == nil {
		return nil
	}
	return g.values.Keep(ctx, v)
}

// found logs what became of a use that nobody presented: it was in the way of an equal
// action. Where that cannot be logged, a design that fails closed does not go on.
func (g *Gateway) found(ctx context.Context, u use, what api.Reconciliation) bool {
	err := g.log(ctx, api.AuditEntry{
		Event: "reconcile", Suspension: u.Suspension, Permit: u.Permit, Audience: u.Audience, Tool: u.Tool, ActionDigest: u.Digest,
		ConsumedAt: u.ConsumedAt, ProviderRequest: u.sentAs(), Key: u.Key, Reconciled: what,
	})
	return err == nil || !g.mode.Has(api.BindClosed)
}
