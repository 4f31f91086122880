package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"countersign/agentdojo"
	"countersign/results/export"
)

func newInspect() *cobra.Command {
	var catalogue, only string
	cmd := &cobra.Command{
		Use:   "inspect PATH…",
		Short: "Show recorded AgentDojo runs legibly",
		Long: `Inspect prints what an AgentDojo log holds: where it is from, the user's task, what
was injected, every call that the agent asked for, in order, whether it was executed,
whether it has a side effect, and whose it is by the documented rule (go doc
countersign/agentdojo), with its arguments; then the log's own verdicts and what they
are worth. PATH is a native log, a trace file of countersign agentdojo import, or a
folder of them.

Whose a call is needs the benchmark's tasks. Without them, or for a task that they
lack, that column says why it is empty.`,
		Example: `  countersign agentdojo inspect runs/gpt-4o-2024-05-13/banking/user_task_0/none/none.json
  countersign agentdojo inspect all.traces.jsonl --trace slack/user_task_3/none`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("no path is given, want an AgentDojo log or a trace file")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			b, missing, err := benchmarkOf(catalogue)
			if err != nil {
				return err
			}
			return inspectAll(cmd.OutOrStdout(), b, missing, args, only)
		},
	}
	cmd.Flags().StringVar(&catalogue, "catalogue", "", "tools and tasks of the benchmark (default catalogue_v1.1.2.json of the shared data, if there is one)")
	cmd.Flags().StringVar(&only, "trace", "", "only the traces whose name has this text in it (the name is pipeline/suite/task/attack/injection)")
	return cmd
}

func inspectAll(w io.Writer, b agentdojo.Benchmark, missing string, paths []string, only string) error {
	shown := 0
	for t, err := range agentdojo.Walk(paths) {
		if err != nil {
			return err
		}
		if !strings.Contains(t.ID(), only) {
			continue
		}
		if shown++; shown > 1 {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
		if err := inspect(w, b, missing, t); err != nil {
			return err
		}
	}
	if shown == 0 {
		return fmt.Errorf("no trace has %q in its name", only)
	}
	return nil
}

// benchmarkOf reads the benchmark's tasks, or says why they are missing. A file that
// was named and cannot be read is an error.
func benchmarkOf(catalogue string) (b agentdojo.Benchmark, missing string, err error) {
	named := catalogue != ""
	if err := findInputs(nil, catalogueInput(&catalogue)); err != nil {
		if named {
			return b, "", err
		}
		return b, "the benchmark's tasks are missing", nil
	}
	b.Kinds = agentdojo.TheModel().Kinds()
	if b.Catalogue, err = agentdojo.LoadCatalogue(catalogue); err != nil {
		return b, "", hint(err, "name the benchmark's catalogue with --catalogue FILE")
	}
	return b, "", nil
}

// inspect prints a trace.
func inspect(w io.Writer, b agentdojo.Benchmark, missing string, t *agentdojo.Trace) error {
	about := export.Table{Title: "Trace " + t.ID(), Names: 2, Fold: 90, Header: []string{"", ""}, Rows: [][]string{
		{"file", t.Path}, {"SHA-256", t.Digest}, {"format", string(t.Format) + " " + t.Version}, {"class", string(t.Class())}, {"task", oneSpaced(t.Prompt)},
	}}
	for _, vector := range slices.Sorted(maps.Keys(t.Injections)) {
		about.Rows = append(about.Rows, []string{"injected as " + vector, oneSpaced(t.Injections[vector])})
	}
	if t.Error != "" {
		about.Rows = append(about.Rows, []string{"runner's error", t.Error})
	}
	about.Rows = append(about.Rows, []string{"utility", verdictOf(t.Judged, t.Utility)}, []string{"security", verdictOf(t.Judged, t.Security)})
	switch t.Class() {
	case agentdojo.Benign:
		about.Notes = append(about.Notes, "Security is true by convention where nothing is injected.")
	case agentdojo.RunnerError:
		about.Notes = append(about.Notes, "Utility false and security true are conventions of the benchmark where its runner fails; such a run belongs in no rate.")
	case agentdojo.Attacked:
		about.Notes = append(about.Notes, "Security true says that the injected goal was reached, judged from what was asked for and not from what was executed.")
	}
	if err := about.Text(w); err != nil {
		return err
	}
	calls := export.Table{Title: fmt.Sprintf("Calls: %d in %d messages", len(t.Requests), t.Messages), Names: 6, Fold: 60,
		Header: []string{"", "tool", "side effect", "whose", "executed", "arguments"}}
	classified, err := classify(b, missing, t)
	if err != nil {
		calls.Notes = append(calls.Notes, "Whose a call is cannot be said: "+err.Error()+".")
	}
	for i, r := range t.Requests {
		row := []string{strconv.Itoa(r.Index + 1), cmp.Or(r.Tool, "none named"), "?", "?", string(r.State), compactJSON(r.Args)}
		if r.Error != "" {
			row[4] += ": " + r.Error
		}
		if err == nil {
			row[2], row[3] = "no", "-"
			if classified[i].SideEffect {
				row[2], row[3] = "yes", string(classified[i].Owner)
			}
		}
		calls.Rows = append(calls.Rows, row)
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return calls.Text(w)
}

// oneSpaced is a text without its line breaks.
func oneSpaced(s string) string { return strings.Join(strings.Fields(s), " ") }

func compactJSON(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}

func verdictOf(judged, v bool) string {
	if !judged {
		return "the log has none"
	}
	return strconv.FormatBool(v)
}

// classify says of each request whether it has a side effect and whose it is.
func classify(b agentdojo.Benchmark, missing string, t *agentdojo.Trace) ([]agentdojo.Call, error) {
	if missing != "" {
		return nil, errors.New(missing)
	}
	calls, err := b.Calls(t)
	if err != nil {
		return nil, err
	}
	if len(calls) != len(t.Requests) {
		return nil, fmt.Errorf("%d calls of %d requests", len(calls), len(t.Requests))
	}
	return calls, nil
}
