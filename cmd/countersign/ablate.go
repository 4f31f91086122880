package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"countersign/attacks"
	"countersign/attacks/harness"
	"countersign/gateway/api"
	"countersign/gateway/lab"
	"countersign/modes"
	"countersign/results"
	"countersign/results/export"
	"countersign/scenarios"
)

// composing are the flags that define further modes.
type composing struct {
	compose []string
	file    string
}

func (c *composing) flags(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&c.compose, "compose", nil, "a further mode as NAME=args,once,…, carried as M9 carries its approval (repeatable)")
	cmd.Flags().StringVar(&c.file, "modes-file", "",
		"YAML file of further modes: a list of {id, name, title, carrier, bindings, modelled_on}")
}

// table returns all modes, and the further ones apart.
func (c composing) table() (table modes.Table, further []modes.Mode, err error) {
	if c.file != "" {
		text, err := results.ReadRegular(c.file)
		if err != nil {
			return nil, nil, fmt.Errorf("reading modes: %w", err)
		}
		if further, err = modes.Parse(text); err != nil {
			return nil, nil, hint(fmt.Errorf("reading modes from %s: %w", c.file, err), "a file has entries such as - {id: mine, bindings: [record, args, once]}")
		}
	}
	for _, text := range c.compose {
		m, err := modes.ParseComposed(text)
		if err != nil {
			return nil, nil, hint(err, "say --compose NAME=args,once,…; countersign modes --markdown lists the bindings")
		}
		further = append(further, m)
	}
	table, err = modes.Named().With(further...)
	return table, further, err
}

// target deploys a mode; the harness does not learn what it is made of.
func target(m modes.Mode) harness.Target {
	return harness.Target{ID: m.ID, Name: m.Name, ModelledOn: m.ModelledOn, Group: string(m.Group), Deploy: lab.Deploy(m)}
}

// ablating are the flags of an ablation.
type ablating struct {
	ablate string
	json   bool
}

func (a *ablating) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.ablate, "ablate", "", "take this mode apart instead of trying --modes: without each binding, then by minimal cuts")
	cmd.Flags().BoolVar(&a.json, "json", false, "print the ablation as JSON")
	cmd.MarkFlagsMutuallyExclusive("ablate", "modes")
	cmd.MarkFlagsMutuallyExclusive("ablate", "beside")
	cmd.MarkFlagsMutuallyExclusive("json", "quiet")
}

// choose returns the modes to run: those named, those beside the main table if asked
// for, and all further ones, or a mode and what is left of it without each binding.
// further are the ids of the composed ones among them.
func (o runOptions) choose() (chosen []modes.Mode, further []string, err error) {
	if o.json && o.ablate == "" {
		return nil, nil, errors.New("--json is for --ablate; countersign analyze RUN --json has the results of other runs")
	}
	table, composed, err := o.table()
	if err != nil {
		return nil, nil, err
	}
	get := func(id string) error {
		m, err := table.Get(id)
		if err != nil {
			return hint(err, "countersign modes lists them with their bindings")
		}
		chosen = append(chosen, m)
		return nil
	}
	if o.ablate != "" {
		if err := get(o.ablate); err != nil {
			return nil, nil, err
		}
		whole := chosen[0]
		if len(whole.Bindings) == 0 {
			return nil, nil, fmt.Errorf("%s has no binding that could be left out", whole.ID)
		}
		for _, b := range whole.Bindings.List() {
			chosen = append(chosen, whole.Without(b))
		}
		return chosen, nil, nil
	}
	for _, id := range o.modes {
		if err := get(id); err != nil {
			return nil, nil, err
		}
	}
	more := composed
	if o.beside {
		more = append(modes.Beside(), composed...)
	}
	for _, m := range more {
		if !slices.ContainsFunc(chosen, func(c modes.Mode) bool { return c.ID == m.ID }) {
			chosen = append(chosen, m)
		}
	}
	return chosen, ids(composed, func(m modes.Mode) string { return m.ID }), nil
}

// requireDesign refuses a composed mode that is no design.
func requireDesign(ctx context.Context, p harness.Plan, id string) error {
	if err := p.CheckDesign(ctx, id); err != nil {
		return hint(err, "a mode has to let an approved call through and no other; add bindings that read the approval, such as record or signed")
	}
	return nil
}

// checkDesigns refuses composed modes that are no designs, and drops the parts of
// an ablated one that are none.
func (o runOptions) checkDesigns(ctx context.Context, p *harness.Plan, composed []string) error {
	for _, id := range composed {
		if err := requireDesign(ctx, *p, id); err != nil {
			return err
		}
	}
	if o.ablate == "" {
		return nil
	}
	all := p.Targets
	p.Targets = nil
	for i, t := range all {
		err := harness.Plan{Targets: all, Scenarios: p.Scenarios, Seeds: p.Seeds, Approver: p.Approver, TrialTimeout: p.TrialTimeout}.CheckDesign(ctx, t.ID)
		if errors.Is(err, harness.ErrNoDesign) && i > 0 {
			continue // the report names it as essential
		}
		if err != nil {
			return err
		}
		p.Targets = append(p.Targets, t)
	}
	return nil
}

// run takes the mode apart. The harness is given a way to deploy parts of it and
// does not learn what it is.
func (a ablating) run(ctx context.Context, cmd *cobra.Command, o runOptions, p harness.Plan) (*harness.AblationReport, error) {
	table, _, err := o.table()
	if err != nil {
		return nil, err
	}
	m, err := table.Get(a.ablate)
	if err != nil {
		return nil, err
	}
	progress, done := reporter(cmd.ErrOrStderr(), o.quiet, "ablation", "variants")
	defer done()
	return harness.Ablation{
		ID: m.ID, Bindings: m.Bindings.List(), Families: p.Families, Scenarios: p.Scenarios,
		Seed: p.Seeds[0], Approver: p.Approver, Parallel: o.parallel, TrialTimeout: o.trialTimeout, Whole: wholeCatalogue(p), Progress: progress,
		Deploy: func(bs []api.Binding) api.Factory {
			part := m
			part.Bindings = modes.NewSet(bs...)
			return lab.Deploy(part)
		},
	}.Run(ctx)
}

func wholeCatalogue(p harness.Plan) bool {
	count := func(fs []attacks.Family) (n int) {
		for _, f := range fs {
			n += len(f.Variants)
		}
		return n
	}
	return len(p.Scenarios) == len(scenarios.All()) && count(p.Families) == count(attacks.All())
}

// ablationFile is what a run with --ablate has besides its records.
const ablationFile = "ablation.json"

func writeAblation(w *results.Writer, r *harness.AblationReport) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the ablation: %w", err)
	}
	return w.WriteFile(ablationFile, append(data, '\n'))
}

// readAblation reads the ablation of a run, nil if it made none.
func readAblation(r *results.Run) (*harness.AblationReport, error) {
	data, err := r.ReadFile(ablationFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	report := &harness.AblationReport{}
	if err == nil {
		err = jsonv2.Unmarshal(data, report, jsonv2.RejectUnknownMembers(true))
	}
	if err != nil {
		return nil, fmt.Errorf("reading the ablation of %s: %w", r.Dir, err)
	}
	return report, nil
}

// takenApart are the tables of a run's ablation, if it made one.
func takenApart(r *results.Run) ([]export.Table, error) {
	report, err := readAblation(r)
	if report == nil || err != nil {
		return nil, err
	}
	return ablationTables(report), nil
}

// report prints what the run and the ablation found. The exit code is the worse
// of both: 1 for a contradiction outranks 2 for what cannot be told.
func (a ablating) report(w io.Writer, o runOptions, r *harness.AblationReport) error {
	print := w
	if a.json {
		print = io.Discard
	}
	var codes []int
	err := printRun(print, o.out, o.quiet)
	var code exitCode
	switch {
	case errors.As(err, &code):
		codes = append(codes, int(code))
	case err != nil:
		return err
	}
	codes = append(codes, r.ExitCode())
	switch {
	case a.json:
		err = printJSON(w, r)
	case !o.quiet:
		for _, t := range ablationTables(r) {
			if _, err = fmt.Fprintln(w); err == nil {
				err = t.Text(w)
			}
			if err != nil {
				break
			}
		}
	default:
		err = nil
	}
	if err != nil {
		return err
	}
	for _, c := range []int{1, 2} {
		if slices.Contains(codes, c) {
			return exitCode(c)
		}
	}
	return nil
}

// ablationTables are what an ablation prints, findings first.
func ablationTables(r *harness.AblationReport) []export.Table {
	var out []export.Table
	findings := func(name, title string, fs []harness.AblationFinding) {
		t := export.Table{Name: name, Title: fmt.Sprintf("%s: %d", title, len(fs)), Names: 3, Fold: 60, Most: 40}
		if len(fs) > 0 {
			t.Header = []string{"variant", "scenario", "finding"}
		}
		for _, f := range fs {
			t.Rows = append(t.Rows, []string{orDash(strings.Trim(f.Attack+"/"+f.Variant, "/")), orDash(f.Scenario), f.Detail})
		}
		out = append(out, t)
	}
	findings("ablation-disagreements", "Disagreements between the cuts measured and predicted for "+r.Target, r.Disagreements)
	if len(r.Errors) > 0 {
		findings("ablation-errors", "What the ablation cannot tell", r.Errors)
	}

	singles := export.Table{
		Name: "ablation-singles", Title: "Attacks that go through when " + r.Target + " loses one binding", Names: 3, Fold: 70,
		Header: []string{"without", "variants", "which"},
	}
	for _, s := range r.Singles {
		singles.Rows = append(singles.Rows, []string{string(s.Binding), strconv.Itoa(len(s.Opened)), orDash(strings.Join(s.Opened, " "))})
	}
	singles.Notes = []string{"0: others double it; the next table says which."}

	cuts := export.Table{
		Name: "ablation-cuts", Title: "Minimal cuts: the smallest losses of " + r.Target + " that let an attack through", Names: 4, Fold: 52,
		Header: []string{"variant", "where", "cuts", fmt.Sprintf("cuts of more than %d", r.MaxCut)},
	}
	for _, v := range r.Variants {
		for _, p := range v.Places {
			small, large := []string{}, []string{}
			for _, c := range p.Cuts {
				if text := plus(c); len(c) > r.MaxCut {
					large = append(large, text)
				} else {
					small = append(small, text)
				}
			}
			text := strings.Join(small, ", ")
			switch {
			case p.Open:
				text = "open already"
			case len(p.Cuts) == 0:
				text = "never open"
			}
			cuts.Rows = append(cuts.Rows, []string{v.Attack + "/" + v.Variant, where(v, p), orDash(text), orDash(strings.Join(large, ", "))})
		}
	}
	cuts.Notes = []string{"a+b: a and b both lost; losing either alone opens nothing."}

	sufficient := export.Table{
		Name: "ablation-sufficient", Title: fmt.Sprintf("Minimal sufficient sets: %d smallest designs that block what %s blocks and complete every twin", len(r.Sufficient), r.Target),
		Names: 2, Fold: 90, Header: []string{"bindings", "left out of " + r.Target},
	}
	for _, set := range r.Sufficient {
		lost := slices.DeleteFunc(slices.Clone(r.Bindings), func(b api.Binding) bool { return slices.Contains(set, b) })
		sufficient.Rows = append(sufficient.Rows, []string{strconv.Itoa(len(set)), orDash(strings.Join(bindingNames(lost), " "))})
	}
	scope := "in the whole catalogue"
	if !r.Whole {
		scope = "in this selection, which says nothing about the whole catalogue"
	}
	sufficient.Notes = []string{
		fmt.Sprintf("Bindings in no cut of at most %d %s: %s.", r.MaxCut, scope, orNone(r.Idle)),
		fmt.Sprintf("Bindings without which the rest is no design: %s.", orNone(r.Essential)),
		fmt.Sprintf("%d trials; the assumption that bindings are monotone was tried on sets that did not need it.", r.Trials),
	}
	return append(out, singles, cuts, sufficient)
}

func plus(bs []api.Binding) string { return strings.Join(bindingNames(bs), "+") }

func orNone(bs []api.Binding) string {
	if len(bs) == 0 {
		return "none"
	}
	return strings.Join(bindingNames(bs), ", ")
}

// where names a group of scenarios: by what the provider guarantees, if that is
// what tells the groups of a variant apart.
func where(v harness.AblationVariant, p harness.AblationPlace) string {
	if len(v.Places) == 1 {
		return "everywhere"
	}
	for _, other := range v.Places {
		for _, g := range p.Guarantees {
			if !slices.Equal(other.Scenarios, p.Scenarios) && slices.Contains(other.Guarantees, g) {
				return strings.Join(p.Scenarios, " ")
			}
		}
	}
	var out []string
	for _, g := range p.Guarantees {
		out = append(out, "@"+string(g))
	}
	return strings.Join(out, " ")
}
