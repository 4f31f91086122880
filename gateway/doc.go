// Package gateway is the approval gateway: one state machine for every mode.
//
//	propose → resolve references → preview and view → suspend → decide
//	dispatch → verify every binding → consume once → execute → record, or reconcile
//
// What differs between designs is in package modes: which bindings are checked
// and how the approval is carried. The gateway assembles what the checks may
// read, and acts on their verdict. Checks never change anything; consumption is
// one compare-and-set after all of them have passed.
//
// Five bindings act here rather than in a check: render (the view), mediated and
// steer (what needs approval), percall (how often the gate is asked), idem (how
// the provider is called and an ambiguous outcome settled).
//
// What the gateway does not do: it does not protect the approver's browser (a
// passkey signs a digest and shows nothing), and it does not know whether an
// approval was wise.
package gateway
