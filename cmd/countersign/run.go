package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"countersign/attacks"
	"countersign/attacks/harness"
	"countersign/modes"
	"countersign/oracles"
	"countersign/results"
	"countersign/results/export"
	"countersign/scenarios"
)

// runsDir is where runs go unless a command is told otherwise.
var runsDir = filepath.Join("results", "runs")

// maxSeeds bounds a plan, which is kept in memory.
const maxSeeds = 10_000

// runOptions are the flags of the command run.
type runOptions struct {
	modes, attacks, scenarios []string
	seed                      uint64
	seeds, timed              int
	parallel                  int
	trialTimeout              time.Duration
	out                       string
	quiet, events, beside     bool
	composing
	ablating
	wired
}

func newRun() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Try attacks against approval designs and keep what came of them",
		Long: `Run makes one trial for each mode, attack variant (or benign twin), scenario and
seed, compares it with what the mode's bindings predict, prints the table of
attack success, and leaves a folder with a manifest and one record a trial.

The same selection and seed give a byte-identical records.jsonl, whatever
--parallel is. Scripts are deterministic: further seeds vary the values of a
scenario and are no further evidence about a design.

With --ablate the modes are a design and the same without each of its bindings.
Then the smallest groups of bindings whose loss lets an attack through are found
by trials, for every variant in every scenario, compared with those that the
stopping conditions predict, and kept as ablation.json; so are the smallest
designs that still block everything. A binding in no such group is an error.

With --beside the designs with hygiene added (M4+ is M4 with single use, strict
reading, failing closed and idempotent sends, as far as it stays that design) and
modes made of published texts are tried too, and printed in tables of their own.

With --timed the dispatches of plain runs are timed by the wall clock, the provider's
work included, for the figure of latencies; the times are in latency.jsonl and differ
from run to run.

With --target the attacked gateway is another process (countersign gateway --lab).
The attacks, the provider, the clock and the referee stay here. Races over the wire
go as they go: each is run --races times and its record is marked.

An interrupted run stays in a hidden folder beside its place, marked as failed.`,
		Example: `  countersign run
  countersign run --modes M8,M9 --attacks AB1,AB4/presented_twice --scenarios payments
  countersign run --modes M9-args,M9-record-signed-attest    ablations of M9
  countersign run --ablate M9                                what each binding of M9 is for
  countersign run --modes M9 --compose mine=record,args,once,mediated
  countersign run --beside                                   the nine, the same with hygiene, published descriptions
  countersign run --modes M4,M4+,RAR                         some of these
  countersign run --target http://127.0.0.1:8899,http://127.0.0.1:8898    two gateways over one store
  countersign run --seeds 3 --out results/runs/three
  RUN=$(countersign run --quiet) && countersign analyze "$RUN" --csv`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.modes, "modes", ids(modes.All(), func(m modes.Mode) string { return m.ID }),
		"modes by id or name; M9-args is M9 without the binding args, M4+ is M4 with hygiene")
	f.StringSliceVar(&o.attacks, "attacks", ids(attacks.All(), func(f attacks.Family) string { return f.ID }),
		"attack families, or single variants as AB1/NAME, which bring the family's twins along")
	f.StringSliceVar(&o.scenarios, "scenarios", ids(scenarios.All(), func(s *scenarios.Scenario) string { return s.ID }), "scenarios")
	f.Uint64Var(&o.seed, "seed", 1, "first seed")
	f.IntVar(&o.seeds, "seeds", 1, "number of seeds, counting up from --seed")
	f.IntVar(&o.parallel, "parallel", 0, "trials at a time (0: one for each processor)")
	f.DurationVar(&o.trialTimeout, "trial-timeout", harness.DefaultTrialTimeout, "limit for a trial by the wall clock; one that takes longer is an error, and the run goes on")
	f.IntVar(&o.timed, "timed", 0, "also make each plain run this many times, one at a time, and keep how long the target took to dispatch the approved call")
	f.StringVar(&o.out, "out", "", "folder of the run, which must not exist (default results/runs/<id>)")
	f.BoolVar(&o.beside, "beside", false, "also the modes that have tables of their own: M1+ to M8+ with hygiene, and published descriptions (countersign modes lists them)")
	f.BoolVar(&o.events, "events", false, "keep what each trial left behind, a file for each, from which countersign referee judges again")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print the run folder and nothing else")
	o.composing.flags(cmd)
	o.ablating.flags(cmd)
	o.wired.flags(cmd)
	return cmd
}

func (o runOptions) run(cmd *cobra.Command) (err error) {
	ctx, started := cmd.Context(), time.Now()
	remote, hangUp, err := o.dial(ctx)
	if err != nil {
		return err
	}
	defer hangUp()
	plan, err := o.plan(ctx, remote)
	if err != nil {
		return err
	}
	if o.out == "" {
		o.out = newRunDir(started)
	}
	m := results.NewManifest(argv(ctx), o.seed, started)
	for _, s := range plan.Scenarios {
		m.Inputs["scenarios/data/"+s.ID+".yaml"] = s.Digest()
	}
	m.Family = family(plan.Targets)
	w, err := results.Create(o.out, m, plan.Catalogue())
	if err != nil {
		return hint(err, "choose a new folder in a place you can write to with --out")
	}
	progress, done := reporter(cmd.ErrOrStderr(), o.quiet, "run", "trials")
	plan.Progress = progress
	if o.events {
		plan.Events = harness.Keep(w.WriteFile)
	}
	err = plan.Run(ctx, w.Append)
	done()
	var ablation *harness.AblationReport
	if err == nil && o.timed > 0 {
		plan.Progress, done = reporter(cmd.ErrOrStderr(), o.quiet, "timing", "runs")
		err = plan.Time(ctx, o.timed, func(target string, d time.Duration) error { return w.Latency(target, d.Nanoseconds()) })
		done()
	}
	if err == nil && o.ablate != "" {
		if ablation, err = o.ablating.run(ctx, cmd, o, plan); err == nil {
			err = writeAblation(w, ablation)
		}
	}
	if err == nil {
		err = w.Finish()
	} else if ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	if err != nil {
		return hint(w.Abort(err), "an unfinished run is not a result; delete the folder or keep it for diagnosis")
	}
	if ablation != nil {
		return o.ablating.report(cmd.OutOrStdout(), o, ablation)
	}
	return printRun(cmd.OutOrStdout(), o.out, o.quiet)
}

// newRunDir is where what begins now goes unless told otherwise.
func newRunDir(started time.Time) string {
	var random [3]byte
	_, _ = rand.Read(random[:]) // never fails (crypto/rand)
	return filepath.Join(runsDir, results.NewID(started, random))
}

// plan turns the flags into a plan that selects something, against the remote
// targets if there are any.
func (o runOptions) plan(ctx context.Context, remote []harness.Target) (harness.Plan, error) {
	none := harness.Plan{}
	switch {
	case o.seeds < 1 || o.seeds > maxSeeds:
		return none, fmt.Errorf("--seeds is %d, want a number from 1 to %d", o.seeds, maxSeeds)
	case o.seed > math.MaxUint64-uint64(o.seeds-1):
		return none, fmt.Errorf("--seed %d leaves no room for %d seeds", o.seed, o.seeds)
	case o.timed < 0 || o.timed > maxSeeds:
		return none, fmt.Errorf("--timed is %d, want a number from 0 to %d", o.timed, maxSeeds)
	case o.parallel < 0:
		return none, fmt.Errorf("--parallel is %d, want 0 or more", o.parallel)
	case o.races < 1:
		return none, fmt.Errorf("--races is %d, want 1 or more", o.races)
	case o.trialTimeout <= 0:
		return none, hint(fmt.Errorf("--trial-timeout is %s, want more than nothing", o.trialTimeout), "a run without a limit never gets past a target that hangs")
	}
	p := harness.Plan{Parallel: o.parallel, Races: o.races, TrialTimeout: o.trialTimeout, Approver: matrixApprover()}
	for i := range uint64(o.seeds) {
		p.Seeds = append(p.Seeds, o.seed+i)
	}
	if err := attacks.Check(attacks.All()); err != nil {
		return none, err
	}
	p.Targets = remote
	var composed []string
	if len(remote) == 0 {
		chosen, further, err := o.choose()
		if err != nil {
			return none, err
		}
		for _, m := range chosen {
			p.Targets = append(p.Targets, target(m))
		}
		composed = further
	}
	var err error
	if p.Families, err = selectFamilies(o.attacks); err != nil {
		return none, err
	}
	if p.Scenarios, err = selectScenarios(o.scenarios); err != nil {
		return none, err
	}
	if err := p.Prepare(ctx); err != nil {
		return none, err
	}
	if err := o.checkDesigns(ctx, &p, composed); err != nil {
		return none, err
	}
	if honest := len(p.Targets) * len(p.Scenarios) * len(p.Seeds); p.Total() == honest {
		skip := p.Catalogue().NotApplicable[0]
		return none, fmt.Errorf("nothing is selected: no chosen attack applies to a chosen scenario (%s/%s in %s: %s)",
			skip.Attack, skip.Variant, skip.Scenario, skip.Reason)
	}
	return p, nil
}

// selectFamilies reads names of families (AB1) and variants (AB1/amount_changed).
// A single attack variant brings its family's twins along, because blocking says
// nothing without letting through.
func selectFamilies(names []string) ([]attacks.Family, error) {
	all := attacks.All()
	picked := map[string]func(name string) bool{} // by family
	for _, name := range names {
		id, variant, single := strings.Cut(name, "/")
		i := slices.IndexFunc(all, func(f attacks.Family) bool { return strings.EqualFold(f.ID, id) })
		if i < 0 {
			return nil, hint(fmt.Errorf("there is no attack %q; the families are %s", name,
				strings.Join(ids(all, func(f attacks.Family) string { return f.ID }), ", ")), "countersign attacks lists them")
		}
		f, before := all[i], picked[all[i].ID]
		match := func(string) bool { return true }
		if single {
			named := func(v attacks.Variant) bool { return v.Name == variant }
			attack := slices.ContainsFunc(f.Variants, named)
			if !attack && !slices.ContainsFunc(f.Twins, named) {
				return nil, hint(fmt.Errorf("%s has no variant %q", f.ID, variant), "countersign attacks %s lists its variants", f.ID)
			}
			match = func(n string) bool {
				return n == variant || attack && slices.ContainsFunc(f.Twins, func(v attacks.Variant) bool { return v.Name == n })
			}
		}
		picked[f.ID] = func(n string) bool { return match(n) || before != nil && before(n) }
	}
	var out []attacks.Family
	for _, f := range all {
		if match := picked[f.ID]; match != nil {
			other := func(v attacks.Variant) bool { return !match(v.Name) }
			f.Variants = slices.DeleteFunc(slices.Clone(f.Variants), other)
			f.Twins = slices.DeleteFunc(slices.Clone(f.Twins), other)
			out = append(out, f)
		}
	}
	return out, nil
}

func selectScenarios(names []string) ([]*scenarios.Scenario, error) {
	all := scenarios.All()
	picked := map[string]bool{}
	for _, name := range names {
		sc, err := scenario(name)
		if err != nil {
			return nil, err
		}
		picked[sc.ID] = true
	}
	return slices.DeleteFunc(all, func(s *scenarios.Scenario) bool { return !picked[s.ID] }), nil
}

func scenario(id string) (*scenarios.Scenario, error) {
	all := scenarios.All()
	if i := slices.IndexFunc(all, func(s *scenarios.Scenario) bool { return strings.EqualFold(s.ID, id) }); i >= 0 {
		return all[i], nil
	}
	return nil, fmt.Errorf("there is no scenario %q; the scenarios are %s", id,
		strings.Join(ids(all, func(s *scenarios.Scenario) string { return s.ID }), ", "))
}

// matrixApprover decides in the matrix, which is defined for the faithful reader:
// what somebody else waves through, no binding is there to stop.
func matrixApprover() oracles.Approver {
	a, ok := oracles.Named("faithful")
	if !ok {
		panic("there is no faithful reader")
	}
	return a
}

func approvers() []string { return ids(oracles.All(), oracles.Approver.Name) }

func ids[T any](all []T, id func(T) string) []string {
	var out []string
	for _, x := range all {
		out = append(out, id(x))
	}
	return out
}

// family fixes the comparisons before the run: the reference design against every
// other target of the main table, whatever is tried beside it, or against all if
// there are none. Without the reference there are no comparisons.
func family(targets []harness.Target) results.Family {
	f := results.Family{Reference: results.DefaultReference}
	for _, t := range targets {
		if t.ID != f.Reference && t.Group == "" {
			f.Targets = append(f.Targets, t.ID)
		}
	}
	return f // empty: every other target
}

// reporter shows progress on w: a bar on a terminal, otherwise a line for each
// tenth. It counts what noun says.
func reporter(w io.Writer, quiet bool, doing, noun string) (progress func(done, total int), finish func()) {
	if quiet {
		return nil, func() {}
	}
	if file, ok := w.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		var bar *progressbar.ProgressBar
		return func(done, total int) {
				if bar == nil {
					bar = progressbar.NewOptions(total, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(noun),
						progressbar.OptionShowCount(), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
				}
				_ = bar.Set(done) // a terminal that is gone is no reason to stop
			}, func() {
				if bar != nil {
					_ = bar.Finish()
				}
			}
	}
	shown := 0
	return func(done, total int) {
		if tenth := 10 * done / total; tenth > shown {
			shown = tenth
			fmt.Fprintf(w, "%s: %3d %% (%d of %d %s)\n", doing, 10*tenth, done, total, noun)
		}
	}, func() {}
}

// mainTables are the tables that a run ends with; analyze has them all.
var mainTables = []string{"disagreements", "errors", "success", "wrong-reasons", "remarks"}

// printRun reads a run back from the disk, prints its main tables and returns its
// exit code.
func printRun(w io.Writer, dir string, quiet bool) error {
	r, err := results.Open(dir)
	if err != nil {
		return err
	}
	a, err := results.AnalyseRun(r)
	if err != nil {
		return err
	}
	if quiet {
		if _, err := fmt.Fprintln(w, r.Dir); err != nil {
			return err
		}
		return verdict(a)
	}
	for _, t := range export.Tables(a) {
		if !slices.Contains(mainTables, t.Name) {
			continue
		}
		if err := t.Text(w); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(w, "Not applicable: %d pairs of variant and scenario (countersign analyze lists the reasons).\n"+
		"Run: %s (%d records; countersign analyze %s has intervals and comparisons)\n",
		len(r.Catalogue.NotApplicable), r.Dir, r.Manifest.Records, r.Dir)
	if err != nil {
		return err
	}
	return verdict(a)
}

// verdict turns the exit code of an analysis into the command's.
func verdict(a *results.Analysis) error {
	if code := results.ExitCode(a); code != 0 {
		return exitCode(code)
	}
	return nil
}
