package oracles

import "countersign/gateway/api"

var _ = register(never{})

// never declines whatever it is shown, unread: the floor against which the cost
// of refusing is read.
type never struct{}

func (never) Name() string { return "never" }

func (never) Decide(api.View, Intent) Reading {
	return Reading{Verdict: api.Decline, Why: "declines everything"}
}
