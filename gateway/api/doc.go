// Package api is the public contract of an approval gateway: names and plain
// data, the interface a target implements, and the interfaces of the world a
// target is deployed into. It imports the standard library alone, and
// everything else in Countersign may import it.
//
// # The flow
//
//	agent    ── Propose ──▶ suspension (references resolved, view rendered)
//	approver ── View ─────▶ what is shown, and nothing else
//	approver ── Decide ───▶ approval, with a WebAuthn assertion where asked for
//	worker   ── Status ───▶ what the design transports ([Carried])
//	worker   ── Dispatch ─▶ the enforcement point: verify, consume, execute
//
// A dispatch carries the action as the worker now has it. Between approval and
// dispatch it sat in a queue, so nothing in it is to be believed.
//
// # Answers
//
// A gate's own answer to a dispatch is an [Outcome], never an error. The other
// calls answer with a [*RefusedError] when the gate refuses, and every call with
// an [*UnimplementedError] where the target has no such feature. Any other error
// means that the answer is not known: a caller must not take it for a refusal.
package api
