package oracles

import "countersign/gateway/api"

var _ = register(rubberStamp{})

// rubberStamp approves whatever it is shown, unread: the model of a person for
// whom the prompt is in the way. What stops an attack under this approver does
// not rest on attention.
type rubberStamp struct{}

func (rubberStamp) Name() string { return "rubber-stamp" }

func (rubberStamp) Decide(api.View, Intent) Reading {
	return Reading{Verdict: api.Approve, Why: "approves everything"}
}
