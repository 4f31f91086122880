package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"countersign/attacks"
	"countersign/attacks/harness"
	"countersign/figures"
	"countersign/modes"
	"countersign/report"
	"countersign/results"
	"countersign/scenarios"
)

// reportTooLarge is from which size on a report says how to be smaller, in bytes.
const reportTooLarge = 15 << 20

func newReport() *cobra.Command {
	var out, choice, replay string
	var quiet bool
	var c composing
	cmd := &cobra.Command{
		Use:   "report [RUN]",
		Short: "Write a run as one page of HTML, from the matrix down to single trials",
		Long: `Report writes one file that needs no network, no other file and, for reading, no
script: disagreements first, then the matrix, from each count to the variants it
is made of, and from these to the story of a trial as countersign explain tells
it; figures, tables, methods, provenance and warnings.
` + runArgument + `

Stories are no part of a run: their trials are made again, with the program at
hand, and a story whose trial does not come out as recorded says so. --stories
chooses whose there are: all for each outcome of every variant against every
design; reference for the reference design and the weakest one only, besides what
contradicts its prediction; none. A run with designs of your own needs the same
--compose or --modes-file again to have theirs.

By default the page goes to figures/out/NAME/report.html, beside the figures, where
NAME is that of the run's folder. The same run gives the same bytes. The file of
the whole matrix has some megabytes; the nine designs without each binding of
M9 are better read with --stories reference.`,
		Example: `  countersign report
  countersign report latest --stories none --out summary.html
  countersign report results/runs/20260105T090000Z-0a1b2c --out report.html
  countersign report mine --compose mine=record,args,once,mediated`,
		Args: atMostOneRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains(report.Choices(), report.Choice(choice)) {
				return fmt.Errorf("--stories is %q, want one of %s", choice, strings.Join(ids(report.Choices(), func(c report.Choice) string { return string(c) }), ", "))
			}
			table, _, err := c.table()
			if err != nil {
				return err
			}
			r, err := openRun(args)
			if err != nil {
				return err
			}
			name, err := nameOf(r)
			if err != nil {
				return err
			}
			if out == "" {
				out = filepath.Join(picturesOf(name), "report.html")
			}
			d, err := report.Read(r, usualScenario)
			if err != nil {
				return err
			}
			x := report.Extras{Name: name, Choice: report.Choice(choice), Words: glossary(), Methods: []byte(results.Methods)}
			if x.Figures, err = pictures(r, replay); err != nil {
				return err
			}
			if x.Tables, err = takenApart(r); err != nil {
				return err
			}
			sums, err := results.ReadRegular(filepath.Join(r.Dir, "SHA256SUMS"))
			if err != nil {
				return err
			}
			x.Sums = string(sums)
			about := results.NewManifest(nil, 0, time.Time{})
			x.Program = fmt.Sprintf("countersign %s, commit %s", about.Module, about.Commit)
			wanted, err := d.Told(x.Choice)
			if err != nil {
				return err
			}
			progress, done := reporter(cmd.ErrOrStderr(), quiet, "report", "stories")
			x.Stories, err = retell(cmd.Context(), r, wanted, table, progress)
			done()
			if err != nil {
				return err
			}
			var b bytes.Buffer
			if err := d.Write(&b, x); err != nil {
				return err
			}
			if err := replaceFile(out, b.Bytes()); err != nil {
				return hint(fmt.Errorf("writing the report: %w", err), "choose a place you can write to with --out")
			}
			if !quiet {
				note := ""
				if b.Len() > reportTooLarge {
					note = "; with --stories reference it is smaller"
				}
				fmt.Fprintf(cmd.ErrOrStderr(), "report: %.1f MB, %d stories%s\n", float64(b.Len())/1e6, len(x.Stories), note)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), out)
			return err
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "the file, in a folder that is made when needed (default report.html in figures/out/ and the name of the run)")
	cmd.Flags().StringVar(&choice, "stories", string(report.All), "whose trials are told: all, reference or none")
	cmd.Flags().StringVar(&replay, "replay", "", "folder of a replay of AgentDojo traces, for the figure of these")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print the path of the file and nothing else")
	c.flags(cmd)
	return cmd
}

// pictures draws every figure of a run, or says why it cannot be drawn.
func pictures(r *results.Run, replay string) ([]report.Picture, error) {
	data, err := loadFigures(r, replay)
	if err != nil {
		return nil, err
	}
	var out []report.Picture
	for _, f := range figures.All() {
		p := report.Picture{Name: f.Name, Title: f.Title}
		d, err := f.Draw(data)
		if none := figures.NoData(""); errors.As(err, &none) {
			p.Missing = err.Error()
			out = append(out, p)
			continue
		} else if err != nil {
			return nil, fmt.Errorf("drawing figure %s: %w", f.Name, err)
		}
		var svg bytes.Buffer
		if err := d.SVG(&svg); err != nil {
			return nil, fmt.Errorf("drawing figure %s: %w", f.Name, err)
		}
		p.SVG, p.Width, p.Height = svg.Bytes(), d.Width.Points(), d.Height.Points()
		out = append(out, p)
	}
	return out, nil
}

// replaceFile writes a file that is never there in part.
func replaceFile(path string, data []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".partial-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// glossary has the words that stories use.
func glossary() report.Words {
	return report.Words{Bindings: wordsOf(bindingText), Capabilities: wordsOf(capabilityText), Reasons: wordsOf(reasonText)}
}

func wordsOf[K ~string](of map[K]string) map[string]string {
	out := map[string]string{}
	for k, text := range of {
		out[string(k)] = text
	}
	return out
}

// A batch are trials of one design in one scenario with one seed.
type batch struct {
	mode     string
	scenario string
	seed     uint64
}

// retell makes the trials of records again and tells them. What cannot be made again
// has the reason instead.
func retell(ctx context.Context, r *results.Run, records []results.Record, table modes.Table, progress func(done, total int)) (map[string]report.Telling, error) {
	out := map[string]report.Telling{}
	batches := map[batch][]results.Record{}
	var order []batch
	for _, rec := range records {
		if why := untellable(r, rec, table); why != "" {
			out[report.Key(rec)] = report.Telling{Missing: why}
			continue
		}
		k := batch{rec.Target, rec.Scenario, rec.Seed}
		if batches[k] == nil {
			order = append(order, k)
		}
		batches[k] = append(batches[k], rec)
	}
	told := 0
	for _, k := range order {
		stories, err := tellBatch(ctx, k, batches[k], table)
		if err != nil {
			return nil, err
		}
		maps.Copy(out, stories)
		told += len(batches[k])
		if progress != nil {
			progress(told, len(records))
		}
	}
	return out, nil
}

// untellable says why a trial cannot be made again; empty if it can.
func untellable(r *results.Run, rec results.Record, table modes.Table) string {
	m, err := table.Get(rec.Target)
	if err != nil {
		return "this program has no design of that name (--compose and --modes-file add some)"
	}
	i := slices.IndexFunc(r.Catalogue.Targets, func(t results.TargetInfo) bool { return t.ID == rec.Target })
	if was := r.Catalogue.Targets[i].Bindings; !slices.Equal(was, bindingNames(m.Bindings.List())) {
		return "in this program the design has other bindings than in the run"
	}
	if rec.Approver != matrixApprover().Name() {
		return "stories are of the faithful reader"
	}
	_, v, ok := find(rec)
	if !ok {
		return "this program has no such variant"
	}
	sc, err := scenario(rec.Scenario)
	if err != nil {
		return "this program has no such scenario"
	}
	if v.NotApplicable(sc) != "" {
		return "in this program the variant does not apply to the scenario"
	}
	return ""
}

// find returns the variant or twin of a record, and its family.
func find(rec results.Record) (attacks.Family, attacks.Variant, bool) {
	for _, f := range attacks.All() {
		if f.ID != rec.Attack {
			continue
		}
		of := f.Variants
		if rec.Kind == results.Twin {
			of = f.Twins
		}
		if i := slices.IndexFunc(of, func(v attacks.Variant) bool { return v.Name == rec.Variant }); i >= 0 {
			return f, of[i], true
		}
	}
	return attacks.Family{}, attacks.Variant{}, false
}

func tellBatch(ctx context.Context, k batch, records []results.Record, table modes.Table) (map[string]report.Telling, error) {
	m, err := table.Get(k.mode)
	if err != nil {
		return nil, err
	}
	sc, err := scenario(k.scenario)
	if err != nil {
		return nil, err
	}
	type named struct {
		attack, variant string
		kind            results.Kind
	}
	wanted := map[named]results.Record{}
	p := harness.Plan{Targets: []harness.Target{target(m)}, Scenarios: []*scenarios.Scenario{sc}, Seeds: []uint64{k.seed}, Approver: matrixApprover()}
	for _, rec := range records {
		f, v, _ := find(rec)
		wanted[named{rec.Attack, rec.Variant, rec.Kind}] = rec
		i := slices.IndexFunc(p.Families, func(g attacks.Family) bool { return g.ID == f.ID })
		if i < 0 {
			i = len(p.Families)
			f.Variants, f.Twins = nil, nil
			p.Families = append(p.Families, f)
		}
		if rec.Kind == results.Twin {
			p.Families[i].Twins = append(p.Families[i].Twins, v)
		} else {
			p.Families[i].Variants = append(p.Families[i].Variants, v)
		}
	}
	if err := p.Prepare(ctx); err != nil {
		return nil, err
	}
	var last harness.Events
	p.Events = func(e harness.Events) error { last = e; return nil }
	var plain results.Record
	out := map[string]report.Telling{}
	err = p.Run(ctx, func(r results.Record) error {
		if r.Kind == results.Honest {
			plain = r
			return nil
		}
		rec, ok := wanted[named{r.Attack, r.Variant, r.Kind}]
		if !ok {
			return fmt.Errorf("%s was tried, and nobody wanted it", r.Name())
		}
		f, v, _ := find(rec)
		s, err := tell(m, f, v, sc, r, plain, last)
		if err != nil {
			return err
		}
		out[report.Key(rec)] = report.Telling{Story: report.Story(s), Differs: difference(rec, r)}
		return nil
	})
	if err == nil && len(out) != len(records) {
		err = fmt.Errorf("%d of %d trials were made again", len(out), len(records))
	}
	if err != nil {
		return nil, fmt.Errorf("telling %s in %s: %w", k.mode, k.scenario, err)
	}
	return out, nil
}

// difference says in which members a trial made again is not the recorded one.
func difference(was, is results.Record) string {
	var out []string
	a, b := reflect.ValueOf(was), reflect.ValueOf(is)
	for i := range a.NumField() {
		if !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
			name, _, _ := strings.Cut(a.Type().Field(i).Tag.Get("json"), ",")
			out = append(out, fmt.Sprintf("%s was %v and is %v", name, a.Field(i).Interface(), b.Field(i).Interface()))
		}
	}
	return strings.Join(out, "; ")
}
