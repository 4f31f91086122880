package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"countersign/results"
)

func newBaseline() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "baseline [RUN]",
		Short: "Write what a run observed, to hold later runs against",
		Long: `Baseline writes one line for each target and attack variant, benign twin and
plain run: how many scenarios ended how, and which bindings refused. The file is
sorted, has no clock and is fit for review and version control; countersign check
holds a run against it. ` + runArgument + `

A run with trials that could not be carried out makes no baseline: exit code 2.`,
		Example: `  countersign baseline latest -o baseline.json
  git diff baseline.json`,
		Args: atMostOneRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			b, _, err := summarise(args)
			if err != nil {
				return err
			}
			if err := fitBaseline(b); err != nil {
				return hint(err, "countersign analyze has the errors")
			}
			data, err := b.Encode()
			if err != nil {
				return err
			}
			if out == "" {
				_, err = cmd.OutOrStdout().Write(data)
				return err
			}
			if results.Compressed(out) {
				if data, err = results.Compress(data); err != nil {
					return fmt.Errorf("compressing the baseline: %w", err)
				}
			}
			if err := os.WriteFile(out, data, 0o644); err != nil {
				return hint(fmt.Errorf("writing the baseline: %w", err), "choose a file you can write to with --output")
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d entries over %d scenarios\n", out, len(b.Entries), len(b.Scenarios))
			return err
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "file to write, compressed if its name ends in .gz, replaced if it exists (default: standard output)")
	return cmd
}

// fitBaseline refuses a baseline with trials that could not be carried out.
func fitBaseline(b *results.Baseline) error {
	for _, e := range b.Entries {
		if n := e.Observed[results.Error]; n > 0 {
			return fmt.Errorf("%s: %d trials could not be carried out, and what nobody could tell is nothing to hold later runs against", e.Name(), n)
		}
	}
	return nil
}

// summarise reads the run that the arguments name and counts it.
func summarise(args []string) (*results.Baseline, *results.Run, error) {
	r, err := openRun(args)
	if err != nil {
		return nil, nil, err
	}
	b, err := results.BaselineOf(r.Records(), r.Catalogue)
	return b, r, err
}
