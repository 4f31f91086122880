package main

import (
	"github.com/spf13/cobra"
)

func newRecords() *cobra.Command {
	return &cobra.Command{
		Use:   "records [RUN]",
		Short: "Print the records of a run as JSON lines",
		Long: `Records prints one JSON object a trial, as the run's records.jsonl has them, also of
a run that is packed. ` + runArgument,
		Example: `  countersign records results/reference/matrix | jq -r 'select(.observed == "held") | .variant'
  countersign records results/reference/matrix | diff - results/runs/20260105T090000Z-0a1b2c/records.jsonl`,
		Args: atMostOneRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := openRun(args)
			if err != nil {
				return err
			}
			return r.WriteRecords(cmd.OutOrStdout())
		},
	}
}
