// Package modes holds the approval designs: the table of modes, the bindings as
// independent checks, and the carriers that take an approval from the decision
// to the dispatch.
//
// A mode is a row: a carrier and a set of bindings. A check enforces one binding
// in a [Situation] and can see neither the other checks nor the attack; what it
// needs and does not find makes it refuse. There is no code for a mode and none
// for the absence of a binding, apart from the carriers, which are written as a
// competent engineer who chose that design would write them.
//
// What is not checked here: how the view is rendered, what counts as
// consequential, how often the gate is asked and how the provider is called
// (render, mediated, steer, percall, idem). Those bindings act in package
// gateway at the step they name.
package modes
