package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"countersign/attacks/harness"
	"countersign/audit"
	"countersign/gateway/lab/wire"
	"countersign/results"
	"countersign/results/export"
	"countersign/scenarios"
)

type crashOptions struct {
	mode              string
	stores, scenarios []string
	points            string
	seed              uint64
	json, quiet       bool
}

func newCrash() *cobra.Command {
	o := crashOptions{scenarios: oneOfEach()}
	cmd := &cobra.Command{
		Use:   "crash",
		Short: "Kill a gateway's process at every step of an approved call, and count effects",
		Long: `Crash serves a design by a process of its own (countersign gateway --lab), over a
store that outlives it, and kills that process with SIGKILL before and after each
write to the store and to the log, and before and after each question to the
provider, from the decision to the last answer. Then it is started again, the
approver looks whether the decision stands, or decides again, and the worker presents the call again.
What arrived at the provider when the process ended is processed.

Each row of the table is one moment, each column a scenario with the guarantee of
its provider. A call that was approved has to be executed once, or be held for a
reason that is stated: where the provider takes no idempotency key and answers no
look-up, nobody can know what became of it.

Exit codes: 1 a call was lost, or executed twice or without authority; 2 a trial
cannot be told, or wrong usage; else 0.`,
		Example: `  countersign crash
  countersign crash --store sqlite --scenarios payments --points 'use|execute'
  countersign crash --mode M4 --json`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	f := cmd.Flags()
	f.StringVar(&o.mode, "mode", results.DefaultReference, "approval design, by id or name")
	f.StringSliceVar(&o.stores, "store", []string{"sqlite"}, "where approvals are kept: sqlite (a file that is deleted afterwards), or what countersign gateway --store takes")
	f.StringSliceVar(&o.scenarios, "scenarios", o.scenarios, "scenarios by id")
	f.StringVar(&o.points, "points", "", "regular expression of the points to try, such as 'create use' (default: all)")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the scenarios' values")
	f.BoolVar(&o.json, "json", false, "print JSON, an array with one report for each store")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "show no progress")
	return cmd
}

// oneOfEach is the first scenario for each guarantee that a provider gives.
func oneOfEach() (out []string) {
	var seen []string
	for _, s := range scenarios.All() {
		t, ok := s.Tool(s.HonestTool)
		if g := string(t.Guarantee); ok && !slices.Contains(seen, g) {
			seen, out = append(seen, g), append(out, s.ID)
		}
	}
	return out
}

func (o crashOptions) run(cmd *cobra.Command) error {
	ctx := cmd.Context()
	if slices.Contains(o.stores, "memory") {
		return hint(errors.New("--store memory does not outlive a process, so every approval is lost with it"), "use sqlite")
	}
	points, err := regexp.Compile(o.points)
	if err != nil {
		return fmt.Errorf("--points: %w", err)
	}
	chosen, err := selectScenarios(o.scenarios)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "countersign-crash-")
	if err != nil {
		return fmt.Errorf("making a folder for stores and logs: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }() // it is in the folder for temporary files
	var reports []harness.CrashReport
	for i, s := range o.stores {
		at := s
		if s == "sqlite" {
			at = "sqlite:" + filepath.Join(folder, fmt.Sprintf("crash-%d.db", i))
		}
		r, err := o.against(ctx, cmd.ErrOrStderr(), folder, at, chosen, points)
		if err != nil {
			return fmt.Errorf("store %s: %w", s, err)
		}
		r.Store, _, _ = strings.Cut(s, ":")
		reports = append(reports, r)
	}
	w := cmd.OutOrStdout()
	if o.json {
		err = printJSON(w, reports)
	} else {
		err = printCrashes(w, reports)
	}
	if err != nil {
		return err
	}
	code := 0
	for _, r := range reports {
		if c := r.ExitCode(); c == 1 || code == 0 {
			code = c
		}
	}
	if code != 0 {
		return exitCode(code)
	}
	return nil
}

// against kills a gateway over one store.
func (o crashOptions) against(ctx context.Context, errs io.Writer, folder, at string, chosen []*scenarios.Scenario, points *regexp.Regexp) (r harness.CrashReport, err error) {
	logs, err := os.MkdirTemp(folder, "logs-")
	if err != nil {
		return r, fmt.Errorf("making a folder for logs: %w", err)
	}
	token := rand.Text()
	child := &child{
		ctx: ctx, args: []string{"gateway", "--mode", o.mode, "--store", at, "--audit", logs}, env: []string{labEnv + "=" + token},
		serves: labServes, flags: []string{"--listen", "--lab"},
	}
	if err := child.start(); err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, child.kill()) }()
	remote, err := wire.Dial(ctx, []string{"http://" + child.at(1)}, token)
	if err != nil {
		return r, err
	}
	defer remote.Close()
	k := &harness.Killer{Kill: child.kill}
	remote.Watch, remote.Respawn = k.Reached, child.again
	a := remote.About()
	progress, done := reporter(errs, o.quiet, "crash", "trials")
	defer done()
	p := harness.Plan{
		Targets: []harness.Target{{ID: a.ID, Name: a.Name, Deploy: remote.Deploy}}, Scenarios: chosen, Seeds: []uint64{o.seed},
		Approver: matrixApprover(), Progress: progress,
	}
	if r, err = p.Crash(ctx, k, points.MatchString); err != nil {
		return r, err
	}
	return r, readLogs(logs)
}

// labServes is what a gateway for the lab says when it is ready.
var labServes = regexp.MustCompile(`targets on http://(\S+), control on http://(\S+)\n`)

// readLogs reports a log that cannot be read after a crash. What the crash cut off of
// the last line of one is no damage.
func readLogs(folder string) error {
	files, err := filepath.Glob(filepath.Join(folder, "*.jsonl"))
	if err == nil && len(files) == 0 {
		err = errors.New("there is none")
	}
	for _, f := range files {
		_, damage := audit.ReadFile(f)
		err = errors.Join(err, damage)
	}
	if err != nil {
		return fmt.Errorf("the logs after the crashes: %w", err)
	}
	return nil
}

func printCrashes(w io.Writer, reports []harness.CrashReport) error {
	for _, r := range reports {
		if err := crashTable(r).Text(w); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "%d trials: %d executed once, %d held for a stated reason, %d lost, %d duplicated, %d unauthorised, %d cannot tell\n\n",
			len(r.Trials), r.Count(harness.CrashExecuted), r.Count(harness.CrashHeld), r.Count(harness.CrashLost),
			r.Count(harness.CrashDuplicated), r.Count(harness.CrashUnfounded), r.Count(harness.CrashCannotTell)); err != nil {
			return err
		}
	}
	return nil
}

// crashTable has a row for each point, in the order of the first scenario that has
// it, and a column for each scenario.
func crashTable(r harness.CrashReport) export.Table {
	t := export.Table{Name: "crashes", Title: fmt.Sprintf("Crashes of %s over %s: what became of an approved call", r.Target, r.Store), Header: []string{"killed"}, Names: 9, Fold: 60}
	var points, columns []string
	cells := map[[2]string]string{}
	for _, c := range r.Trials {
		column := fmt.Sprintf("%s (%s)", c.Scenario, c.Guarantee)
		if !slices.Contains(columns, column) {
			columns = append(columns, column)
		}
		c.Point = cmp.Or(c.Point, "(nothing)")
		if !slices.Contains(points, c.Point) {
			points = append(points, c.Point)
		}
		text := string(c.Result)
		if c.Detail != "" {
			text += ": " + c.Detail
		}
		cells[[2]string{c.Point, column}] = text
	}
	t.Header = append(t.Header, columns...)
	for _, p := range points {
		row := []string{p}
		for _, c := range columns {
			text, ok := cells[[2]string{p, c}]
			if !ok {
				text = "-"
			}
			row = append(row, text)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
