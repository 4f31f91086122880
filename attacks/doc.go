// Package attacks holds the twelve families of attack on the binding between an
// approval and what executes, one file a family, over a small kit of honest verbs
// ([Stage]).
//
// A script is honest except for one step, which it announces with Tamper; what
// follows is the adversary's. Scripts know the public contract and nothing of
// modes: the same script runs against every target. They act and do not judge:
// package referee reads the history that the stage records.
package attacks
