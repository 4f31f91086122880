package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"countersign/audit"
	"countersign/gateway/api"
	"countersign/results"
	"countersign/results/export"
)

func newAudit() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Look through the audit logs of gateways, and verify and prove what is in them",
		Long: `A gateway writes every decision to its audit log before it has an effect; what cannot
be written is held. Beside FILE, the log, are

  FILE.checkpoints     signed notes of how long the log was and of the root over it
  FILE.key             the key that signs them, for the gateway alone
  FILE.values.jsonl    what the digests in the log stand for, for who may see it

The gateway prints the verifier key when it starts. Keep it, and a copy of the newest
checkpoint now and then, where the gateway's operators cannot change them: whoever has
the key and the files can make others.`,
		Args: noArguments,
		RunE: noCommand,
	}
	cmd.AddCommand(newAlerts(), newVerify(), newProve(), newProofCheck(), newShow(), newErase())
	return cmd
}

// alerts are what an operator has to look at, as JSON.
type alerts struct {
	Log     []logAlert      `json:"log"`
	Effects []audit.Finding `json:"effects"`
}

// A logAlert is a line of a log that has an alert.
type logAlert struct {
	File string `json:"file"`
	api.AuditEntry
}

func newAlerts() *cobra.Command {
	var ledger string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "alerts LOG…",
		Short: "List what in audit logs an operator has to look at",
		Long: `Alerts lists the calls for which other arguments or another service were approved,
and the approvals that were presented after they were spent. Given the provider's
ledger too, it finds the approvals under which more than one effect was made, which
no gateway can see by itself.

Give it the logs of all gateways that share a store. They may be in use; nothing is
locked or changed.

Exit codes: 1 there is an alert; 2 a file cannot be read, or wrong usage; else 0.`,
		Example: `  countersign audit alerts approvals.db.audit.jsonl
  curl -s http://127.0.0.1:8801/v1/ledger | countersign audit alerts one.jsonl two.jsonl --ledger -`,
		Args: atLeastOne("LOG", "countersign audit alerts approvals.db.audit.jsonl"),
		RunE: func(cmd *cobra.Command, args []string) error {
			found := alerts{Log: []logAlert{}, Effects: []audit.Finding{}}
			var all []api.AuditEntry
			for _, path := range args {
				entries, err := audit.ReadFile(path)
				if err != nil {
					return err
				}
				for _, e := range entries {
					if e.Alert != "" {
						found.Log = append(found.Log, logAlert{path, e})
					}
				}
				all = append(all, entries...)
			}
			if ledger != "" {
				effects, err := readLedger(cmd.InOrStdin(), ledger)
				if err != nil {
					return err
				}
				found.Effects = append(found.Effects, audit.Compare(all, effects)...)
			}
			w := cmd.OutOrStdout()
			var err error
			if asJSON {
				err = printJSON(w, found)
			} else {
				err = alertTable(found, len(all), ledger != "").Text(w)
			}
			if err == nil && len(found.Log)+len(found.Effects) > 0 {
				err = exitCode(1)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&ledger, "ledger", "", "file with the provider's ledger, as GET /v1/ledger answers it; - for standard input")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// readLedger reads the provider's ledger from a file, or standard input.
func readLedger(stdin io.Reader, path string) ([]audit.Effect, error) {
	read := func() ([]byte, error) { return results.ReadRegular(path) }
	if path == "-" {
		read = func() ([]byte, error) { return results.ReadBounded(stdin) }
	}
	text, err := read()
	if err != nil {
		return nil, fmt.Errorf("reading the ledger: %w", err)
	}
	effects, err := parseLedger(text)
	if err != nil {
		return nil, hint(fmt.Errorf("reading the ledger %s: %w", path, err), "want what GET /v1/ledger of the provider answers")
	}
	return effects, nil
}

// parseLedger reads a JSON array of effects, of which it needs some members only. A
// part that is there twice would be found to be a second effect, so the numbers must
// rise.
func parseLedger(text []byte) ([]audit.Effect, error) {
	var effects []audit.Effect
	if err := jsonv2.Unmarshal(text, &effects); err != nil {
		return nil, err
	}
	if effects == nil {
		return nil, errors.New("it is null, not a list of effects")
	}
	last := int64(0)
	for i, e := range effects {
		if e.Seq < 1 || e.Audience == "" || e.Tool == "" {
			return nil, fmt.Errorf("its element %d is no effect", i+1)
		}
		if e.Seq <= last {
			return nil, fmt.Errorf("its element %d has the number %d after %d: a part is missing its place, or is there twice", i+1, e.Seq, last)
		}
		last = e.Seq
	}
	return effects, nil
}

func alertTable(found alerts, lines int, compared bool) export.Table {
	t := export.Table{
		Name: "alerts", Title: fmt.Sprintf("Alerts: %d", len(found.Log)+len(found.Effects)), Names: 7, Fold: 40,
		Header: []string{"alert", "permit", "where", "time", "caller", "service", "tool"},
	}
	for _, a := range found.Log {
		t.Rows = append(t.Rows, []string{string(a.Alert), orDash(a.Permit), fmt.Sprintf("%s:%d", a.File, a.Seq), a.Time.UTC().Format(time.RFC3339),
			orDash(a.Principal), orDash(a.Audience), orDash(a.Tool)})
	}
	for _, f := range found.Effects {
		t.Rows = append(t.Rows, []string{string(f.Alert), f.Permit, "ledger:" + strings.Trim(fmt.Sprint(f.Effects), "[]"), "-", "-", "-", "-"})
	}
	t.Notes = []string{fmt.Sprintf("%d lines of the logs were read.", lines)}
	if !compared {
		t.Notes = append(t.Notes, fmt.Sprintf("Without --ledger nobody can see %q.", api.AlertTwice))
	}
	return t
}
