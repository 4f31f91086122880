package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"countersign/results"
	"countersign/results/export"
)

const runArgument = `RUN is a folder, the id of a run in results/runs, or "latest" (the default).`

func newAnalyze() *cobra.Command {
	chosen := map[export.Format]*bool{}
	var tables []string
	var out string
	cmd := &cobra.Command{
		Use:     "analyze [RUN]",
		Aliases: []string{"analyse"},
		Short:   "Print every table of a run",
		Long: `Analyze counts the records of a run: disagreements with the prediction first,
then attack success, benign success, paired comparisons and intervals; of a run
with --ablate also the cuts.
` + runArgument + `

The unit is the attack variant. Intervals and p values describe these variants
and infer nothing about others. The exit code is that of the run: 1 with a
disagreement, 2 with a trial that could not be carried out, else 0.

Every form has the same numbers. --table picks tables by name, which are those of
the files that --out writes: one for each table and form, and analysis.json.
success is those of every group, success-with-hygiene that of one.
LaTeX needs ` + export.LaTeXPreamble + `.`,
		Example: `  countersign analyze
  countersign analyze latest --markdown > tables.md
  countersign analyze --latex --table success,totals > tables.tex
  countersign analyze --out paper/tables
  countersign analyze 20260105T090000Z-0a1b2c --csv | column -s, -t`,
		Args: atMostOneRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := document(args)
			if err != nil {
				return err
			}
			if out != "" {
				paths, err := d.WriteFiles(out)
				for _, p := range paths {
					if _, err := fmt.Fprintln(cmd.OutOrStdout(), p); err != nil {
						return err
					}
				}
				if err != nil {
					return hint(err, "choose a place you can write to with --out")
				}
				return verdict(d.Analysis)
			}
			format := export.Text
			for f, set := range chosen {
				if *set {
					format = f
				}
			}
			if err := d.Write(cmd.OutOrStdout(), format, tables...); err != nil {
				return err
			}
			return verdict(d.Analysis)
		},
	}
	for f, usage := range map[export.Format]string{
		export.JSON:     "print the whole analysis as JSON",
		export.CSV:      "print one table as CSV; every count, one line for each target, attack and kind, unless --table names another",
		export.Markdown: "print the tables as Markdown",
		export.LaTeX:    "print the tables as LaTeX",
	} {
		chosen[f] = cmd.Flags().Bool(string(f), false, usage)
	}
	cmd.Flags().StringSliceVar(&tables, "table", nil, "the `names` of the tables to print (default all)")
	cmd.Flags().StringVar(&out, "out", "", "write every table in every form into this `folder`, and print nothing else")
	cmd.MarkFlagsMutuallyExclusive(string(export.JSON), string(export.CSV), string(export.Markdown), string(export.LaTeX), "out")
	cmd.MarkFlagsMutuallyExclusive("out", "table")
	cmd.MarkFlagsMutuallyExclusive(string(export.JSON), "table")
	return cmd
}

// document is what there is to write of the run that the arguments name.
func document(args []string) (export.Document, error) {
	r, err := openRun(args)
	if err != nil {
		return export.Document{}, err
	}
	return documentOf(r)
}

func documentOf(r *results.Run) (d export.Document, err error) {
	if d.Analysis, err = results.AnalyseRun(r); err != nil {
		return d, err
	}
	for _, more := range []func(*results.Run) ([]export.Table, error){takenApart, overlayTables} {
		tables, err := more(r)
		if err != nil {
			return d, err
		}
		d.More = append(d.More, tables...)
	}
	return d, nil
}
