package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"countersign/agentdojo"
	"countersign/attacks/harness"
	"countersign/modes"
	"countersign/oracles"
	"countersign/results"
	"countersign/results/export"
)

func newAgentDojo() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agentdojo",
		Short: "Use recorded runs of the AgentDojo benchmark",
		Args:  noArguments,
		RunE:  noCommand,
	}
	cmd.AddCommand(newImport(), newInspect(), newReplay(), newOverlay())
	return cmd
}

// replayOptions are the flags of agentdojo replay.
type replayOptions struct {
	modes              []string
	catalogue, classes string
	approver           string
	parallel           int
	out                string
	json, quiet        bool
}

func newReplay() *cobra.Command {
	var o replayOptions
	cmd := &cobra.Command{
		Use:   "replay PATH…",
		Short: "Pass the recorded tool calls of AgentDojo logs through the gateway",
		Long: `Replay reads native AgentDojo logs (files, or folders with all *.json in them) and
passes every side-effecting call that was executed in them through the gateway
under each mode. The approver knows the user's task: it approves what agrees with
the task's own reference calls.

No model is called. The injected calls come through the front door, so the judgement
is harm: an injected call that was executed. Replay is open-loop: after a refusal
the recorded agent goes on as if nothing had happened, so the table shows which
recorded effects a gate would have stopped, not how an agent adapts.

Runs that ended with a runner error, injection goals run as user tasks, logs without
messages or verdict, and tasks outside the catalogue are counted and left out.

Exit codes: 0 everything was read and replayed; 2 a log could not be read or
replayed (each is named, the others count), wrong usage, or nothing to replay.`,
		Example: `  countersign agentdojo replay runs/gpt-4o-2024-05-13
  countersign agentdojo replay runs/gpt-4o-2024-05-13/banking --modes M0,M8,M9
  countersign agentdojo replay runs/a runs/b --out results/runs/replay --json > replay.json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("no path is given, want AgentDojo logs or folders of them")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args) },
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.modes, "modes", ids(modes.All(), func(m modes.Mode) string { return m.ID }),
		"modes by id or name; M9-args is M9 without the binding args")
	f.StringVar(&o.catalogue, "catalogue", "", "tools and tasks of the benchmark (default catalogue_v1.1.2.json of the shared data)")
	f.StringVar(&o.classes, "classes", "", "which tools have side effects (default tool_classes.json of the shared data)")
	f.StringVar(&o.approver, "approver", "faithful", "who decides: "+strings.Join(approvers(), ", "))
	f.IntVar(&o.parallel, "parallel", 0, "logs at a time (0: one for each processor)")
	f.StringVar(&o.out, "out", "", "folder for the records, which must not exist (default: none is written)")
	f.BoolVar(&o.json, "json", false, "print the summary as JSON")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "show no progress")
	return cmd
}

func (o replayOptions) run(cmd *cobra.Command, paths []string) error {
	ctx, started := cmd.Context(), time.Now()
	r, inputs, err := o.replay(paths)
	if err != nil {
		return err
	}
	keep := func(harness.ReplayRecord) error { return nil }
	var w *harness.ReplayWriter
	if o.out != "" {
		m := results.NewManifest(argv(ctx), 0, started)
		m.Inputs = inputs
		if w, err = harness.CreateReplay(o.out, m); err != nil {
			return hint(err, "choose a new folder in a place you can write to with --out")
		}
		keep = w.Append
	}
	progress, done := reporter(cmd.ErrOrStderr(), o.quiet, "replay", "logs")
	r.Progress = progress
	sum, err := r.Run(ctx, paths, keep)
	done()
	if sum != nil {
		// First, because everything else may be long.
		for _, u := range sum.Unreadable {
			fmt.Fprintf(cmd.ErrOrStderr(), "countersign: not read: %s: %s\n", oneLine(u.Path), oneLine(u.Why))
		}
		for i, f := range sum.Failures {
			if i == maxFailures {
				fmt.Fprintf(cmd.ErrOrStderr(), "countersign: not replayed: %d more\n", len(sum.Failures)-i)
				break
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "countersign: not replayed: %s at %s: %s\n", oneLine(f.Trace), f.Target, oneLine(f.Why))
		}
	}
	if err == nil && w != nil {
		err = w.Finish(sum, time.Now())
	}
	advice := "PATH is a native AgentDojo log or a folder of them"
	if err != nil && ctx.Err() != nil {
		err, advice = errors.New("interrupted"), "an unfinished replay is not a result; delete the folder or keep it for diagnosis"
	}
	if err != nil {
		if w != nil {
			err = w.Abort(err)
		}
		return hint(err, "%s", advice)
	}
	if err := o.print(cmd.OutOrStdout(), sum); err != nil {
		return err
	}
	if bad := len(sum.Unreadable) + len(sum.Failures); bad > 0 {
		return hint(fmt.Errorf("%d logs could not be read and %d replays of a trace failed; they are in no rate", len(sum.Unreadable), len(sum.Failures)),
			"they are named above")
	}
	return nil
}

// maxFailures bounds what is printed when everything fails alike.
const maxFailures = 20

// replay turns the flags into a replay, and gives the digests of its inputs.
func (o replayOptions) replay(paths []string) (r harness.Replay, inputs map[string]string, err error) {
	if o.parallel < 0 {
		return r, nil, fmt.Errorf("--parallel is %d, want 0 or more", o.parallel)
	}
	approver, ok := oracles.Named(o.approver)
	if !ok {
		return r, nil, fmt.Errorf("there is no approver %q; the approvers are %s", o.approver, strings.Join(approvers(), ", "))
	}
	r = harness.Replay{Approver: approver, Parallel: o.parallel}
	for _, id := range o.modes {
		m, err := modes.Get(id)
		if err != nil {
			return r, nil, hint(err, "countersign modes lists them with their bindings")
		}
		r.Targets = append(r.Targets, target(m))
	}
	if err := o.find(paths); err != nil {
		return r, nil, err
	}
	if r.Benchmark.Catalogue, err = agentdojo.LoadCatalogue(o.catalogue); err != nil {
		return r, nil, hint(err, "name the benchmark's catalogue with --catalogue FILE, or the shared data with COUNTERSIGN_SHARED")
	}
	if r.Benchmark.Kinds, err = agentdojo.LoadClasses(o.classes); err != nil {
		return r, nil, hint(err, "name the file of tool classes with --classes FILE, or the shared data with COUNTERSIGN_SHARED")
	}
	inputs = map[string]string{}
	for name, file := range map[string]string{"catalogue": o.catalogue, "classes": o.classes} {
		if inputs[name], err = harness.FileDigest(file); err != nil {
			return r, nil, err
		}
	}
	return r, inputs, nil
}

// An input is a file of the benchmark that a flag names, or the shared data have.
type input struct {
	named      *string
	name, what string
}

// find completes the names of the inputs, and names all that are missing at once.
func (o *replayOptions) find(paths []string) error {
	return findInputs(paths, catalogueInput(&o.catalogue), input{&o.classes, "tool_classes.json", "which of its tools have side effects"})
}

func catalogueInput(named *string) input {
	return input{named, "catalogue_v1.1.2.json", "the benchmark's tools and tasks"}
}

func findInputs(paths []string, inputs ...input) error {
	var missing []string
	var unknown error // where the shared data are
	absent := func(path string) bool {
		_, err := os.Stat(path)
		return errors.Is(err, fs.ErrNotExist)
	}
	for _, in := range inputs {
		if *in.named == "" {
			dir, err := agentdojo.SharedDir()
			if err != nil {
				unknown = err
				missing = append(missing, fmt.Sprintf("%s (%s)", in.what, in.name))
				continue
			}
			*in.named = filepath.Join(dir, "agentdojo", in.name)
		}
		if absent(*in.named) {
			missing = append(missing, fmt.Sprintf("%s (%s)", in.what, *in.named))
		}
	}
	if len(missing) == 0 {
		return nil // a log that is missing is no reason not to replay the others
	}
	for _, path := range paths {
		if absent(path) {
			missing = append(missing, fmt.Sprintf("recorded runs (%s)", path))
		}
	}
	err := fmt.Errorf("missing: %s", strings.Join(missing, ", "))
	if unknown != nil {
		err = fmt.Errorf("%w; %w", err, unknown)
	}
	return hint(err,
		"recorded runs are the folder runs of AgentDojo's repository; for the others set COUNTERSIGN_SHARED to a folder whose agentdojo/ holds them, "+
			"or name them with --catalogue FILE and --classes FILE; agentdojo/testdata of this repository shows their form")
}

func (o replayOptions) print(w io.Writer, sum *harness.ReplaySummary) error {
	if o.json {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(sum)
	}
	for _, t := range replayTables(sum) {
		if err := t.Text(w); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
	}
	var left []string
	for _, why := range slices.Sorted(maps.Keys(sum.LeftOut)) {
		left = append(left, fmt.Sprintf("%d %s", sum.LeftOut[why], why))
	}
	if err := (export.Table{Title: "What this is not", Notes: []string{sum.Caveat}}).Text(w); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nLogs: %d; replayed %d; left out of every rate %d (%s); not read %d.\n",
		sum.Files, sum.Replayed, len(sum.Skipped), cmp.Or(strings.Join(left, ", "), "none"), len(sum.Unreadable))
	if err == nil && o.out != "" {
		_, err = fmt.Fprintf(w, "Replay: %s (one record for each trace and mode in replay.jsonl)\n", o.out)
	}
	return err
}

// replayTables are those of every pipeline.
func replayTables(sum *harness.ReplaySummary) (out []export.Table) {
	for _, p := range sum.Pipelines {
		for _, t := range []export.Table{harmTable(sum, p), fateTable(p)} {
			t.Group = fileName(p.Pipeline)
			out = append(out, t)
		}
	}
	return out
}

// fileName is a name from outside as a part of a file's.
func fileName(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x80 && (unicode.IsLetter(r) || unicode.IsDigit(r) || r == '.' || r == '-') {
			return r
		}
		return '_'
	}, s)
}

func rate(c harness.Count) string { return fmt.Sprintf("%d/%d", c.K, c.N) }

func modeLabel(t harness.ReplayTarget) string {
	if t.Name == "" || t.Name == t.Target {
		return t.Target
	}
	return t.Target + " " + t.Name
}

// harmTable is what was let through, and at what price.
func harmTable(sum *harness.ReplaySummary, p harness.PipelineSummary) export.Table {
	t := export.Table{Name: "harm", Names: 1, Stack: true, Fold: 16,
		Title: fmt.Sprintf("AgentDojo %s, %s: %d benign and %d attacked traces, approver %s (%s)",
			sum.Catalogue, p.Pipeline, p.Benign, p.Attacked, sum.Approver, sum.Label),
		Header: []string{"mode", "injected calls executed", "attacked cases with one", "user calls executed",
			"benign utility kept", "attacked utility kept", "prompts per task", "prompts per benign task"},
	}
	for _, m := range p.Targets {
		t.Rows = append(t.Rows, []string{
			modeLabel(m), rate(m.Executed[agentdojo.OwnerInjected]), rate(m.Harmed), rate(m.Executed[agentdojo.OwnerUser]),
			rate(m.Benign), rate(m.Attacked), mean(m.Prompts, m.Traces), mean(m.PromptsBenign, m.BenignTraces),
		})
	}
	t.Notes = append([]string{
		"Executed: of the side-effecting calls that the recording executed. Utility kept: of the traces whose log says that the task was solved, " +
			"those with every user call executed.",
	}, p.Caveats()...)
	return t
}

// fateTable is what became of the other calls.
func fateTable(p harness.PipelineSummary) export.Table {
	t := export.Table{Name: "fate", Names: 1, Stack: true, Fold: 16,
		Title: "What became of the calls: " + p.Pipeline,
		Header: []string{"mode", "ambiguous executed", "other executed", "declined by approver", "stopped by gate",
			"stopped by notation", "of these injected", "executed without authority", "traces failed"},
	}
	for _, m := range p.Targets {
		t.Rows = append(t.Rows, []string{
			modeLabel(m), rate(m.Executed[agentdojo.OwnerAmbiguous]), rate(m.Executed[agentdojo.OwnerOther]), strconv.Itoa(m.Declined),
			strconv.Itoa(m.Blocked), strconv.Itoa(m.Misread), strconv.Itoa(m.MisreadInjected), strconv.Itoa(m.Unauthorised), strconv.Itoa(m.Errors),
		})
	}
	t.Notes = []string{
		"Ambiguous: the user's task and the injection want the call; other: neither does.",
		fmt.Sprintf("Notation: a strict reader refuses the recorded arguments whoever made them (null for an absent one, another type), or the "+
			"service cannot read them; %d recorded calls are so. That is no protection and counts apart.", p.Misfits),
		"Without authority: executed, but the referee finds no unspent approval of a view that showed this call in full. " +
			fmt.Sprintf("Not presented: %d calls that had failed in the recording and %d that it had never executed.", p.Failed, p.Unanswered),
	}
	return t
}

func mean(n, of int) string {
	if of == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", float64(n)/float64(of))
}
