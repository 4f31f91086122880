package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"countersign/figures"
	"countersign/results"
)

func newFigures() *cobra.Command {
	var out, replay string
	var only []string
	var listed strings.Builder
	for _, f := range figures.All() {
		fmt.Fprintf(&listed, "\n  %-19s %s", f.Name, f.Title)
	}
	cmd := &cobra.Command{
		Use:   "figures [RUN]",
		Short: "Draw the figures of a run as SVG, PNG and PDF",
		Long: `Figures draws a run and prints the paths of the files. By default they go to
figures/out/NAME, where NAME is that of the run's folder, so that the figures of
one run do not take the place of another's.
` + runArgument + `

The figures are:` + listed.String() + `

A figure for which the run holds no data is left out, and standard error says why.
Sizes are those of print: a column of 85 mm or a page of 178 mm. The same run gives
the same bytes of SVG and PNG.

Exit codes: 0 drawn; 2 wrong usage, a run that cannot be read, or nothing to draw.`,
		Example: `  countersign figures
  countersign figures latest --only attack-success,paired-differences
  countersign figures results/runs/20260105T090000Z-0a1b2c --out paper/figures
  countersign figures latest --replay results/runs/replay`,
		Args: atMostOneRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := openRun(args)
			if err != nil {
				return err
			}
			d, err := loadFigures(r, replay)
			if err != nil {
				return err
			}
			if out == "" {
				name, err := nameOf(r)
				if err != nil {
					return err
				}
				out = picturesOf(name)
			}
			paths, left, err := figures.Write(out, d, only...)
			for _, l := range left {
				fmt.Fprintf(cmd.ErrOrStderr(), "left out: %s: %s\n", l.Name, oneLine(l.Reason))
			}
			if err != nil {
				return hint(err, "choose a place you can write to with --out, and with --only figures that countersign figures --help lists")
			}
			for _, p := range paths {
				if _, err := fmt.Fprintln(cmd.OutOrStdout(), p); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "folder for the files, made when needed (default figures/out/ and the name of the run)")
	cmd.Flags().StringSliceVar(&only, "only", nil, "figures by name (default all)")
	cmd.Flags().StringVar(&replay, "replay", "", "folder of a replay of AgentDojo traces, for the figure of these")
	return cmd
}

// loadFigures reads what is drawn of a run and, unless it is empty, of a replay.
func loadFigures(r *results.Run, replay string) (*figures.Data, error) {
	d, err := figures.Load(r)
	if err == nil && replay != "" {
		d.Replay, err = figures.LoadReplay(replay)
		err = hint(err, "--replay takes a folder that countersign agentdojo replay --out has made")
	}
	return d, err
}

// nameOf is the name of a run's folder.
func nameOf(r *results.Run) (string, error) {
	dir, err := filepath.Abs(r.Dir) // RUN may be "."
	return filepath.Base(dir), err
}

// picturesOf is where what is drawn of a run goes unless told otherwise.
func picturesOf(name string) string { return filepath.Join("figures", "out", name) }
