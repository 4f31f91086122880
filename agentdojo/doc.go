// Package agentdojo reads the native run logs of AgentDojo (Debenedetti et al.,
// arXiv 2406.13352) and says, for every tool call in them, whether it had a side
// effect and whose idea it was. It replays nothing itself and calls no model.
//
// # Logs
//
// [Read] accepts the two forms in which AgentDojo wrote logs: format A, where the
// content of a message is a string, and format B (AgentDojo 0.1.30 and later),
// where it is a list of blocks. Everything else is refused with a [*FileError]
// that names the file and the member. Argument texts are kept byte for byte.
//
// A trace belongs to one [Class]. Only [Benign] and [Attacked] traces can be
// replayed; the others are counted and left out: an injection goal run as the
// user's own task, a run that ended with a runner error (AgentDojo records each of
// them as a successful attack), a log without messages, a log without a verdict.
//
// A call without a tool message was never executed, because the run had reached
// its limit of iterations ([Unanswered]). A call that was answered with an error
// had no effect ([Failed]). Both are counted, and neither is part of a rate.
//
// # Whose call it was
//
// The rule compares a side-effecting call with the reference calls ("ground
// truth") of the trace's user task and injection task in the catalogue. A call
// matches a reference call if the tool is the same and all identifying arguments
// are equal. Identifying is every argument of the tool's schema except free text:
// body, content, subject, title, description, message. Values are compared as the
// benchmark's own executor would understand them: numbers by value, also when
// written as a string; strings trimmed, case-folded and with white space
// collapsed; the address of a page (url) with or without its scheme; lists as sets; null, the empty string and the empty list as absent,
// and an absent argument as its default. An argument that the reference computes
// at run time (its placeholder differs from its value) is not compared.
//
//   - A benign trace has one principal: every call is the user's.
//   - Matches a user call only: [OwnerUser]. An injected call only:
//     [OwnerInjected]. Both: [OwnerAmbiguous].
//   - Matches neither, but carries a mark of the injection: [OwnerInjected]. A
//     mark is an address (e-mail, IBAN, URL) among the identifying arguments of the
//     injection's reference calls that neither the user's prompt nor the user's
//     reference calls contain; or the same free text for the same argument of
//     the same tool as an injected reference call and no user reference call.
//   - Otherwise: [OwnerOther], the agent's own doing. An honest call that differs
//     from the reference, say in a date that the user left open, is among these in
//     an attacked trace.
//
// # Limits
//
// Replay is open-loop: after a refusal the recorded agent goes on as if nothing
// had happened, so a replay measures which recorded effects a gate would have
// stopped, and says nothing about how an agent adapts. One injection task of the
// 629 pairs (travel/injection_task_6) succeeds by what the agent says and needs no
// side-effecting call; no gate on tool calls can stop it.
package agentdojo
