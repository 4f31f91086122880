package main

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/spf13/cobra"

	"countersign/attacks/harness"
	"countersign/results"
)

func newReferee() *cobra.Command {
	return &cobra.Command{
		Use:   "referee [RUN]",
		Short: "Judge a run again from its stored events",
		Long: `Referee judges every trial of a run again, from its stored events and its
catalogue alone, and compares the outcome with the record. The run must have been
made with --events. ` + runArgument + `

Exit codes: 0 every record is borne out; 1 some record is not, both sides are
printed; 2 the events cannot be judged.`,
		Example: `  countersign run --modes M8,M9 --events --out results/runs/kept
  countersign referee results/runs/kept`,
		Args: atMostOneRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := openRun(args)
			if err != nil {
				return err
			}
			w, differences := cmd.OutOrStdout(), 0
			trials, err := harness.Rejudge(r, func(d harness.Difference) error {
				differences++
				return printDifference(w, d)
			})
			if err != nil {
				return hint(err, "countersign run --events makes a run with events")
			}
			if _, err := fmt.Fprintf(w, "%d trials judged again from their events: %d differ from the records\n", trials, differences); err != nil {
				return err
			}
			if differences > 0 {
				return exitCode(1)
			}
			return nil
		},
	}
}

// openRun opens the run that the arguments name; none: the latest.
func openRun(args []string) (*results.Run, error) {
	name := "latest"
	if len(args) > 0 {
		name = args[0]
	}
	dir, err := results.Resolve(name, runsDir)
	if err != nil {
		return nil, hint(err, "countersign run makes one")
	}
	r, err := results.Open(dir)
	return r, hint(err, "only a complete run whose files were not changed can be used; countersign run makes one")
}

// printDifference prints the members in which two records differ.
func printDifference(w io.Writer, d harness.Difference) error {
	if _, err := fmt.Fprintf(w, "%s, seed %d:\n", oneLine(d.Stored.Name()), d.Stored.Seed); err != nil {
		return err
	}
	return printMembers(w, d.Stored, d.Judged, "the record says", "the events say")
}

// printMembers prints what two records say in the members in which they differ.
func printMembers(w io.Writer, one, other results.Record, oneSays, otherSays string) error {
	a, b := reflect.ValueOf(one), reflect.ValueOf(other)
	for i := range a.NumField() {
		if reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
			continue
		}
		was, err := json.Marshal(a.Field(i).Interface())
		if err != nil {
			return err
		}
		is, err := json.Marshal(b.Field(i).Interface())
		if err != nil {
			return err
		}
		name, _, _ := strings.Cut(a.Type().Field(i).Tag.Get("json"), ",")
		if _, err := fmt.Fprintf(w, "  %s: %s %s, %s %s\n", name, oneSays, oneLine(string(was)), otherSays, oneLine(string(is))); err != nil {
			return err
		}
	}
	return nil
}
