package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	signednote "golang.org/x/mod/sumdb/note"

	"countersign/audit"
	"countersign/gateway/api"
	"countersign/results"
)

// verifierKeys reads what --key was given: verifier keys, or files with one a line. No
// argument: nil, which verifies nothing.
func verifierKeys(given []string) (known signednote.Verifiers, names []string, err error) {
	var all []signednote.Verifier
	for _, k := range given {
		v, err := signednote.NewVerifier(k)
		if err == nil {
			all = append(all, v)
			continue
		}
		text, unread := results.ReadRegular(k)
		if unread != nil {
			return nil, nil, hint(fmt.Errorf("--key %q is no verifier key, and no file with some: %w", k, unread),
				"the gateway prints its verifier key when it starts; it looks like gateway.example/audit/…+…+…")
		}
		for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
			v, err := signednote.NewVerifier(strings.TrimSpace(line))
			if err != nil {
				return nil, nil, fmt.Errorf("--key %s: line %d is no verifier key", k, i+1) // and may be a secret one
			}
			all = append(all, v)
		}
	}
	for _, v := range all {
		names = append(names, v.Name())
	}
	if len(all) == 0 {
		return nil, nil, nil
	}
	slices.Sort(names)
	return signednote.VerifierList(all...), slices.Compact(names), nil
}

func keyFlag(cmd *cobra.Command, keys *[]string) {
	cmd.Flags().StringArrayVar(keys, "key", nil, "verifier key, or a file with one a line (repeatable)")
}

func checkpointsFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "checkpoints", "", "file of the log's checkpoints (default: the log's name and .checkpoints)")
}

func newVerify() *cobra.Command {
	var checkpoints string
	var keys []string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify LOG…",
		Short: "Find out from files alone whether audit logs were tampered with",
		Long: `Verify reads each log and its checkpoints, and needs nothing else. Every entry has to be
written as entries are and numbered without a gap; every checkpoint has to be signed by
a key that is given, to follow the one before it, and to have the root of the log's
first entries. So what is altered, dropped, put in another order or added among entries
that a checkpoint covers is found, and between which checkpoints.

What nobody can tell from the files: whether entries behind the last checkpoint were
removed, and whether the last checkpoints were, with what they covered. Verify says how
many entries are covered. Compare that with a checkpoint that was kept elsewhere.

Give it the logs of all gateways that share a store, with the key of each. They may be
in use; nothing is locked or changed. Values that were erased are not missed.

Exit codes: 0 verified; 1 tampered with; 2 cannot tell, as without checkpoints or keys,
or wrong usage.`,
		Example: `  countersign audit verify approvals.db.audit.jsonl --key gateway.example/audit/7c01…+5d1f0e9a+AQ…
  countersign audit verify one.jsonl two.jsonl --key keys.txt --json`,
		Args: atLeastOne("LOG", "countersign audit verify approvals.db.audit.jsonl --key keys.txt"),
		RunE: func(cmd *cobra.Command, logs []string) error {
			if checkpoints != "" && len(logs) > 1 {
				return hint(errors.New("--checkpoints is for one log"), "the checkpoints of several have the names of the logs and .checkpoints")
			}
			known, names, err := verifierKeys(keys)
			if err != nil {
				return err
			}
			found := verification{Logs: []audit.Report{}, Unknown: []string{}}
			of := map[string]string{}
			for _, path := range logs {
				r, err := audit.Verify(path, cmp.Or(checkpoints, checkpointsOf(path)), known)
				if err != nil {
					return err
				}
				if other, ok := of[r.Origin]; ok && r.Origin != "" {
					found.Unknown = append(found.Unknown, fmt.Sprintf("%s and %s are both the log %s: one stands for another that is missing", other, path, r.Origin))
				}
				of[r.Origin] = path
				found.Logs = append(found.Logs, r)
			}
			for _, name := range names {
				if _, ok := of[name]; !ok {
					found.Unknown = append(found.Unknown, fmt.Sprintf("no log that is given is shown to be %s, whose key is given", name))
				}
			}
			if asJSON {
				err = printJSON(cmd.OutOrStdout(), found)
			} else {
				err = found.print(cmd.OutOrStdout())
			}
			if err == nil && found.exit() != 0 {
				err = found.exit()
			}
			return err
		},
	}
	checkpointsFlag(cmd, &checkpoints)
	keyFlag(cmd, &keys)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// A verification is what verify found out, as JSON.
type verification struct {
	Logs    []audit.Report `json:"logs"`
	Unknown []string       `json:"unknown"` // of the logs together
}

func (v verification) exit() exitCode {
	code := exitCode(0)
	if len(v.Unknown) > 0 {
		code = 2
	}
	for _, r := range v.Logs {
		switch {
		case len(r.Tampering) > 0:
			return 1
		case !r.OK():
			code = 2
		}
	}
	return code
}

func (v verification) print(w io.Writer) error {
	var b strings.Builder
	for _, r := range v.Logs {
		word := "verified"
		switch {
		case len(r.Tampering) > 0:
			word = "TAMPERED WITH"
		case !r.OK():
			word = "cannot tell"
		}
		fmt.Fprintf(&b, "%s: %s\n", oneLine(r.Log), word)
		for _, t := range r.Tampering {
			fmt.Fprintf(&b, "  tampering: %s\n", oneLine(t.String()))
		}
		for _, u := range r.Unknown {
			fmt.Fprintf(&b, "  cannot tell: %s\n", oneLine(u))
		}
		if r.Checkpoints > 0 {
			fmt.Fprintf(&b, "  log %s, %s of %s\n", r.Origin, number(r.Checkpoints, "good checkpoint"), number(r.Entries, "entry"))
			fmt.Fprintf(&b, "  covered: %d, by checkpoint %d%s\n", r.Covered, r.Checkpoints, since(r.Since))
		} else {
			fmt.Fprintf(&b, "  %s, none covered\n", number(r.Entries, "entry"))
		}
		if behind := max(r.Entries-r.Covered, 0); r.Checkpoints > 0 {
			fmt.Fprintf(&b, "  behind it: %d; were there others, nobody could tell\n", behind)
		}
		if r.Unfinished > 0 {
			fmt.Fprintf(&b, "  the last line is unfinished (%d bytes): it was never acknowledged\n", r.Unfinished)
		}
	}
	for _, u := range v.Unknown {
		fmt.Fprintf(&b, "cannot tell: %s\n", oneLine(u))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func since(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return " of " + at.UTC().Format(time.RFC3339)
}

func number(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if stem, ok := strings.CutSuffix(what, "y"); ok {
		what = stem + "ie"
	}
	return strconv.FormatInt(n, 10) + " " + what + "s"
}

func newProve() *cobra.Command {
	var checkpoints string
	var from, to int64
	cmd := &cobra.Command{
		Use:   "prove LOG [ID]",
		Short: "Prove that entries are in an audit log, to somebody who does not have it",
		Long: `Prove prints a proof as JSON, to be verified with countersign audit check.

With an ID it proves that entries are in the log of the newest checkpoint: the one
with that number, or all with that permit or suspension, as the log names them. The
proof has these entries in full, and nothing of the others but hashes.

With --from and --to it proves that nothing was changed between two checkpoints, by
their numbers: the log of the second starts with that of the first.

Exit codes: 0 done; 2 there is no such entry, no checkpoint covers it, or wrong usage.`,
		Example: `  countersign audit prove approvals.db.audit.jsonl 4 > proof.json
  countersign audit prove approvals.db.audit.jsonl --from 1 --to 3 > proof.json`,
		Args: func(cmd *cobra.Command, args []string) error {
			both := cmd.Flags().Changed("from") && cmd.Flags().Changed("to")
			either := cmd.Flags().Changed("from") || cmd.Flags().Changed("to")
			if len(args) == 2 && !either || len(args) == 1 && both {
				return nil
			}
			return hint(fmt.Errorf("%s wants a LOG with an ID, or a LOG with --from and --to", cmd.CommandPath()),
				"such as: countersign audit prove approvals.db.audit.jsonl 4")
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			path := cmp.Or(checkpoints, checkpointsOf(args[0]))
			var p audit.ProofFile
			var err error
			if len(args) == 2 {
				p, err = audit.ProveEntries(args[0], path, args[1])
			} else {
				p, err = audit.ProveConsistency(args[0], path, from, to)
			}
			if errors.Is(err, audit.ErrNotCovered) {
				return hint(err, "a running gateway signs within %v, and when it is stopped", checkpointPeriod)
			}
			if err != nil {
				return err
			}
			return printJSON(cmd.OutOrStdout(), p)
		},
	}
	checkpointsFlag(cmd, &checkpoints)
	cmd.Flags().Int64Var(&from, "from", 0, "number of the older checkpoint")
	cmd.Flags().Int64Var(&to, "to", 0, "number of the newer checkpoint")
	return cmd
}

// A checked is what a proof proves, as JSON.
type checked struct {
	Log     string           `json:"log"`
	Size    int64            `json:"size"` // entries of the log at the checkpoint
	Root    string           `json:"root"`
	Time    time.Time        `json:"time,omitzero"`
	From    int64            `json:"from,omitempty"` // entries of the log at the older checkpoint
	Entries []api.AuditEntry `json:"entries,omitempty"`
}

func newProofCheck() *cobra.Command {
	var keys []string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check PROOF",
		Short: "Verify what countersign audit prove printed, without the log",
		Long: `Check verifies a proof with nothing but the verifier key, and prints what it proves.
- as PROOF is standard input.

Exit codes: 0 proved; 1 not proved; 2 not readable, no key, or wrong usage.`,
		Example: `  countersign audit check proof.json --key gateway.example/audit/7c01…+5d1f0e9a+AQ…`,
		Args:    exactly("PROOF", 1, "countersign audit check proof.json --key keys.txt"),
		RunE: func(cmd *cobra.Command, args []string) error {
			known, _, err := verifierKeys(keys)
			if err != nil {
				return err
			}
			if known == nil {
				return hint(errors.New("no --key is given: anybody can make a proof by a key of their own"), "the gateway prints its verifier key when it starts")
			}
			read := func() ([]byte, error) { return results.ReadRegular(args[0]) }
			if args[0] == "-" {
				read = func() ([]byte, error) { return results.ReadBounded(cmd.InOrStdin()) }
			}
			text, err := read()
			if err != nil {
				return fmt.Errorf("reading the proof: %w", err)
			}
			p, err := audit.ParseProof(text)
			if err != nil {
				return err
			}
			proved, err := p.Check(known)
			w := cmd.OutOrStdout()
			if err != nil {
				if _, err := fmt.Fprintln(w, oneLine(err.Error())); err != nil {
					return err
				}
				return exitCode(1)
			}
			c := proved.Checkpoint
			if asJSON {
				out := checked{Log: c.Origin, Size: c.Size, Root: c.Root.String(), Time: c.Time, Entries: proved.Entries}
				if proved.Older != nil {
					out.From = proved.Older.Size
				}
				return printJSON(w, out)
			}
			var b strings.Builder
			fmt.Fprintf(&b, "proved: log %s, checkpoint %d%s, %s\n", c.Origin, c.Number, since(c.Time), number(c.Size, "entry"))
			if proved.Older != nil {
				fmt.Fprintf(&b, "  starts with checkpoint %d%s, %s\n", proved.Older.Number, since(proved.Older.Time), number(proved.Older.Size, "entry"))
			}
			for _, e := range proved.Entries {
				b.WriteString("  " + entryLine(e) + "\n")
			}
			_, err = io.WriteString(w, b.String())
			return err
		},
	}
	keyFlag(cmd, &keys)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// entryLine is an entry in short.
func entryLine(e api.AuditEntry) string {
	words := []string{fmt.Sprintf("entry %d", e.Seq), e.Time.UTC().Format(time.RFC3339), e.Event}
	for _, w := range []string{string(e.Status), e.Principal, e.Audience, e.Tool} {
		if w != "" {
			words = append(words, w)
		}
	}
	for _, r := range e.Refusals {
		words = append(words, string(r.Binding)+"/"+r.Code)
	}
	return oneLine(strings.Join(words, " "))
}

// exactly is for commands with a fixed number of arguments.
func exactly(what string, n int, such string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == n {
			return nil
		}
		return hint(fmt.Errorf("%s wants %s, and was given %d arguments", cmd.CommandPath(), what, len(args)), "such as: %s", such)
	}
}

// named returns the entries of a log that an id names.
func named(log, id string) ([]api.AuditEntry, error) {
	all, err := audit.ReadFile(log)
	if err != nil {
		return nil, err
	}
	n, _ := strconv.ParseInt(id, 10, 64)
	found := slices.DeleteFunc(all, func(e api.AuditEntry) bool { return !audit.Names(e, id, n) })
	if len(found) == 0 {
		return nil, fmt.Errorf("the audit log %s has no entry, permit or suspension %s", log, id)
	}
	return found, nil
}

// digestsOf are the digests of an entry, each with what it is of.
func digestsOf(e api.AuditEntry) (of [][2]string) {
	for _, d := range [][2]string{{"arguments", e.ArgsDigest}, {"action", e.ActionDigest}, {"view", e.ViewDigest}} {
		if d[1] != "" {
			of = append(of, d)
		}
	}
	return of
}

// A shown entry is one with what its digests stand for.
type shownEntry struct {
	api.AuditEntry
	Values map[string]string `json:"values"` // by digest; one that is not there was erased or never kept
}

func newShow() *cobra.Command {
	var path string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show LOG ID",
		Short: "Print entries of an audit log with the values that their digests stand for",
		Long: `Show prints the entry with a number, or all with a permit or suspension, as the log names
them, and beside each digest the value from the file of values, which is held against
the digest. A value that is not there was erased, or never kept.

The values are what people approved and agents sent, secrets among them: this is for
who may see them. Nothing is verified of the log; see countersign audit verify.

Exit codes: 0 done; 2 a file cannot be read, there is no such entry, or wrong usage.`,
		Example: `  countersign audit show approvals.db.audit.jsonl 4
  countersign audit show approvals.db.audit.jsonl 4 --values elsewhere.jsonl --json`,
		Args: exactly("a LOG and an ID", 2, "countersign audit show approvals.db.audit.jsonl 4"),
		RunE: func(cmd *cobra.Command, args []string) error {
			entries, err := named(args[0], args[1])
			if err != nil {
				return err
			}
			values, wanted := map[string]string{}, map[string]bool{}
			for _, e := range entries {
				for _, d := range digestsOf(e) {
					wanted[d[1]] = true
				}
			}
			err = audit.ReadValues(cmp.Or(path, valuesOf(args[0])), func(v audit.Value) error {
				if wanted[v.Digest] {
					values[v.Digest] = v.Text
				}
				return nil
			})
			if err != nil {
				return err
			}
			if asJSON {
				out := []shownEntry{}
				for _, e := range entries {
					one := shownEntry{e, map[string]string{}}
					for _, d := range digestsOf(e) {
						if text, ok := values[d[1]]; ok {
							one.Values[d[1]] = text
						}
					}
					out = append(out, one)
				}
				return printJSON(cmd.OutOrStdout(), out)
			}
			var b strings.Builder
			for _, e := range entries {
				b.WriteString(entryLine(e) + "\n")
				for _, d := range digestsOf(e) {
					text, ok := values[d[1]]
					if !ok {
						text = "(erased, or never kept)"
					}
					fmt.Fprintf(&b, "  %s %s\n    %s\n", d[0], d[1], oneLine(text))
				}
			}
			_, err = io.WriteString(cmd.OutOrStdout(), b.String())
			return err
		},
	}
	cmd.Flags().StringVar(&path, "values", "", "file of values (default: the log's name and .values.jsonl)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, where values are as they are")
	return cmd
}

func newErase() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "erase LOG ID",
		Short: "Erase the values that entries of an audit log stand for; the log stays",
		Long: `Erase removes from the file of values what the entries with that number, permit or
suspension have digests of. Other entries with the same digests lose their values too.
The log stays as it is and verifies as before. The gateway must be stopped.

A digest that is left says whether a guess of the value is right, so values that can be
guessed, as small numbers can, are not gone as long as the log is there. What disks,
snapshots and backups keep of the file is not this command's business.

Exit codes: 0 done; 2 a file cannot be read or is in use, there is no such entry, or
wrong usage.`,
		Example: `  countersign audit erase approvals.db.audit.jsonl 4`,
		Args:    exactly("a LOG and an ID", 2, "countersign audit erase approvals.db.audit.jsonl 4"),
		RunE: func(cmd *cobra.Command, args []string) error {
			entries, err := named(args[0], args[1])
			if err != nil {
				return err
			}
			var digests []string
			for _, e := range entries {
				for _, d := range digestsOf(e) {
					digests = append(digests, d[1])
				}
			}
			n, err := audit.Erase(cmp.Or(path, valuesOf(args[0])), digests)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "erased %s\n", number(int64(n), "value"))
			return err
		},
	}
	cmd.Flags().StringVar(&path, "values", "", "file of values (default: the log's name and .values.jsonl)")
	return cmd
}
