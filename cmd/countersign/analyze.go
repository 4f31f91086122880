package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"countersign/figures"
	"countersign/results"
	"countersign/results/export"
)

const runArgument = `RUN is a folder, the id of a run in results/runs, or "latest" (the default).`

func newAnalyze() *cobra.Command {
	chosen := map[export.Format]*bool{}
	cmd := &cobra.Command{
		Use:     "analyze [RUN]",
		Aliases: []string{"analyse"},
		Short:   "Print every table of a run",
		Long: `Analyze counts the records of a run: disagreements with the prediction first,
then attack success, benign success, paired comparisons and intervals.
` + runArgument + `

The unit is the attack variant. Intervals and p values describe these variants
and infer nothing about others. The exit code is that of the run: 1 with a
disagreement, 2 with a trial that could not be carried out, else 0.`,
		Example: `  countersign analyze
  countersign analyze latest --markdown > tables.md
  countersign analyze 20260105T090000Z-0a1b2c --csv | column -s, -t`,
		Args: atMostOneRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := analysis(args)
			if err != nil {
				return err
			}
			format := export.Text
			for f, set := range chosen {
				if *set {
					format = f
				}
			}
			if err := export.Write(cmd.OutOrStdout(), a, format); err != nil {
				return err
			}
			return verdict(a)
		},
	}
	for f, usage := range map[export.Format]string{
		export.JSON:     "print the whole analysis as JSON",
		export.CSV:      "print every count, one line for each target, attack and kind",
		export.Markdown: "print the tables as Markdown",
	} {
		chosen[f] = cmd.Flags().Bool(string(f), false, usage)
	}
	cmd.MarkFlagsMutuallyExclusive(string(export.JSON), string(export.CSV), string(export.Markdown))
	return cmd
}

func newFigures() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "figures [RUN]",
		Short: "Draw the figures of a run as SVG and PNG",
		Long: `Figures draws every figure of a run and prints the paths of the files. By default
they go to figures/out/NAME, where NAME is that of the run's folder, so that the
figures of one run do not take the place of another's.
` + runArgument,
		Example: `  countersign figures
  countersign figures results/runs/20260105T090000Z-0a1b2c --out paper/figures`,
		Args: atMostOneRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := openRun(args)
			if err != nil {
				return err
			}
			a, err := results.AnalyseRun(r)
			if err != nil {
				return err
			}
			if out == "" {
				dir, err := filepath.Abs(r.Dir) // RUN may be "."
				if err != nil {
					return err
				}
				out = filepath.Join("figures", "out", filepath.Base(dir))
			}
			paths, err := figures.Write(out, a)
			if err != nil {
				return hint(err, "choose a place you can write to with --out")
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
	return cmd
}

// analysis analyses the run that the arguments name.
func analysis(args []string) (*results.Analysis, error) {
	r, err := openRun(args)
	if err != nil {
		return nil, err
	}
	return results.AnalyseRun(r)
}
