package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"countersign/attacks"
	"countersign/attacks/harness"
	"countersign/results"
	"countersign/results/export"
	"countersign/scenarios"
)

type teardownOptions struct {
	targets, scenarios []string
	seed               uint64
	parallel           int
	json, quiet        bool
	junit              string
	composing
}

func newTeardown() *cobra.Command {
	var o teardownOptions
	cmd := &cobra.Command{
		Use:   "teardown",
		Short: "Ask an approval design nine questions, and count what was executed",
		Long: `Teardown tries nine named cases against approval designs: an argument changed,
a reference changed, a misleading view, one permit presented at once, a sibling
service, authority that ended, a store that is down, an answer that is lost, and
honest calls that have to pass. Beside what the gate answered it prints how many
effects were due and how many the provider made.

Exit codes: 1 a case fails, or comes out otherwise than predicted; else 2 a case
cannot be told, or wrong usage; else 0. A feature that a target declares
unimplemented fails nothing.`,
		Example: `  countersign teardown
  countersign teardown --target M4,M8
  countersign teardown --target M9-refs --scenarios payments,mail
  countersign teardown --target mine --compose mine=record,args,once --junit teardown.xml`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.targets, "target", []string{results.DefaultReference}, "modes by id or name, ablations such as M9-args, or composed ones")
	f.StringSliceVar(&o.scenarios, "scenarios", ids(scenarios.All(), func(s *scenarios.Scenario) string { return s.ID }), "scenarios by id")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the scenarios' values")
	f.IntVar(&o.parallel, "parallel", 0, "trials at a time (0: one for each processor)")
	f.BoolVar(&o.json, "json", false, "print JSON, an array with one report for each target")
	f.StringVar(&o.junit, "junit", "", "file for the cases as JUnit XML")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "show no progress")
	o.composing.flags(cmd)
	return cmd
}

func (o teardownOptions) run(cmd *cobra.Command) error {
	ctx := cmd.Context()
	p, err := o.plan(ctx)
	if err != nil {
		return err
	}
	progress, done := reporter(cmd.ErrOrStderr(), o.quiet, "teardown", "trials")
	p.Progress = progress
	reports, err := p.Teardown(ctx, attacks.Teardown())
	done()
	if err != nil {
		return err
	}
	if o.junit != "" {
		var b bytes.Buffer
		if err := export.JUnitSuites(&b, teardownSuites(reports)); err != nil {
			return err
		}
		if err := os.WriteFile(o.junit, b.Bytes(), 0o644); err != nil {
			return fmt.Errorf("writing a report: %w", err)
		}
	}
	w := cmd.OutOrStdout()
	if o.json {
		err = printJSON(w, reports)
	} else {
		err = printTeardown(w, reports)
	}
	if err != nil {
		return err
	}
	code := 0
	for _, r := range reports {
		switch c := r.ExitCode(); {
		case c == 1:
			return exitCode(1)
		case c == 2:
			code = 2
		}
	}
	if code != 0 {
		return exitCode(code)
	}
	return nil
}

func (o teardownOptions) plan(ctx context.Context) (harness.Plan, error) {
	none := harness.Plan{}
	if o.parallel < 0 {
		return none, fmt.Errorf("--parallel is %d, want 0 or more", o.parallel)
	}
	table, further, err := o.table()
	if err != nil {
		return none, err
	}
	p := harness.Plan{Families: attacks.All(), Seeds: []uint64{o.seed}, Parallel: o.parallel, Approver: matrixApprover()}
	if p.Scenarios, err = selectScenarios(o.scenarios); err != nil {
		return none, err
	}
	for _, id := range o.targets {
		m, err := table.Get(id)
		if err != nil {
			return none, hint(err, "countersign modes lists them; --compose and --modes-file define others")
		}
		p.Targets = append(p.Targets, target(m))
	}
	if err := p.Prepare(ctx); err != nil {
		return none, err
	}
	for _, m := range further {
		if !slices.ContainsFunc(p.Targets, func(t harness.Target) bool { return t.ID == m.ID }) {
			continue
		}
		if err := requireDesign(ctx, p, m.ID); err != nil {
			return none, err
		}
	}
	return p, nil
}

func printTeardown(w io.Writer, reports []harness.TeardownReport) error {
	for _, r := range reports {
		for _, t := range teardownTables(r) {
			if err := t.Text(w); err != nil {
				return err
			}
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
	}
	return nil
}

func teardownTables(r harness.TeardownReport) []export.Table {
	name := strings.TrimSpace(r.Target + " " + r.Name)
	cases := export.Table{
		Name: "teardown", Title: fmt.Sprintf("%s: %d of %d cases pass", name, r.Passed(), len(r.Cases)), Names: 4, Fold: 100,
		Header: []string{"case", "question", "result", "predicted", "effects due", "made"},
	}
	log := export.Table{
		Name: "teardown-log", Title: "What the gate answered, and what the provider made", Names: 4, Fold: 70,
		Header: []string{"case", "variant", "the gate answered", "result", "trials", "effects due", "made"},
	}
	for _, c := range r.Cases {
		due, made := 0, 0
		for _, v := range c.Variants {
			due, made = due+v.Due, made+v.Made
			var answers []string
			for _, text := range slices.Sorted(maps.Keys(v.Log)) {
				answers = append(answers, fmt.Sprintf("%s ×%d", text, v.Log[text]))
			}
			log.Rows = append(log.Rows, []string{strconv.Itoa(c.Number), v.Attack + "/" + v.Variant, orDash(strings.Join(answers, "; ")), string(v.Result),
				strconv.Itoa(v.Trials), strconv.Itoa(v.Due), strconv.Itoa(v.Made)})
			if v.Why != "" {
				log.Notes = append(log.Notes, fmt.Sprintf("%s/%s: %s.", v.Attack, v.Variant, v.Why))
			}
		}
		cases.Rows = append(cases.Rows, []string{strconv.Itoa(c.Number), c.Title, string(c.Result), string(c.Predicted), strconv.Itoa(due), strconv.Itoa(made)})
	}
	cases.Notes = []string{"Due: effects that somebody had approved. Made: effects with consequences in the provider's ledger, over all trials of the case."}
	return []export.Table{cases, log}
}

// teardownSuites has a suite for each target and a test case for each variant of
// each case.
func teardownSuites(reports []harness.TeardownReport) []export.Suite {
	var out []export.Suite
	for _, r := range reports {
		s := export.Suite{Name: r.Target}
		for _, c := range r.Cases {
			for _, v := range c.Variants {
				t := export.SuiteCase{Class: fmt.Sprintf("%s.%d-%s", r.Target, c.Number, c.Name), Name: v.Attack + "/" + v.Variant, Detail: v.Why}
				switch v.Result {
				case harness.CaseFails:
					t.Outcome = export.Failed
				case harness.CaseCannotTell:
					t.Outcome = export.Errored
				case harness.CaseUnimplemented:
					t.Outcome = export.Skipped
				}
				s.Cases = append(s.Cases, t)
			}
		}
		out = append(out, s)
	}
	return out
}
