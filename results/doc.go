// Package results is what a run of the lab leaves behind, and the only thing
// that tables and figures are made from.
//
// A run is a folder:
//
//	manifest.json    how the run was made; holds the only clock readings
//	catalogue.json   the names of targets, attacks, variants and scenarios
//	records.jsonl    one [Record] a line, in a fixed order and without a clock
//	latency.jsonl    optional: how long decisions took
//	events/          optional: what each trial left behind, to be judged again
//	SHA256SUMS       digests of all of these, as of sha256sum(1)
//
// A [Writer] fills a hidden folder beside it and renames that when everything is
// on disk, so an interrupted run never looks complete; [Open] takes nothing else
// than a complete run. [Analyse] counts.
//
// A [Baseline] is the accepted outcome of a run in one reviewable file, against
// which a [Check] holds later runs.
//
// # What is counted
//
// The unit is the attack variant, not the trial: scenarios and seeds repeat one
// deterministic script, and repeating it is no further evidence. A variant counts
// as executed when it made an unauthorised effect in any scenario, and a twin as
// completed when it went through in every scenario. A trial that ended in an
// error, or that the target does not implement, leaves the denominator and is
// counted beside it; an error is never a blocked attack. Intervals and tests over
// variants describe these variants and are no inference about others, which is
// why they are marked descriptive.
package results
