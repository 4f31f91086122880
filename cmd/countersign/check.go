package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"countersign/results"
	"countersign/results/export"
)

// checkOptions are the flags of the command check.
type checkOptions struct {
	baseline, junit, sarif string
	strict, markdown, json bool
}

func newCheck() *cobra.Command {
	var o checkOptions
	cmd := &cobra.Command{
		Use:   "check [RUN] --baseline FILE|RUN",
		Short: "Hold a run against a baseline: a gate for continuous integration",
		Long: `Check compares a run with a baseline, or with another run, target by target and variant by variant,
and lists regressions, improvements, other changes, and what is new or missing.
` + runArgument + `

A regression is a variant of which less is blocked, or more executes, than the
baseline has; a benign twin or plain run that completes less often; or a trial that
contradicts its prediction and did not before. Run and baseline must be over the
same scenarios, seeds and approver, because a baseline keeps no counts for each of
them; for a part, make a baseline of its own with countersign baseline. Targets and
attacks may be a part: others are counted and not compared, and a variant that is
missing is listed and fails nothing.

Exit codes: 2 wrong usage, or nothing in common; else 1 a regression; else 2 some
trial could not be carried out; else 0.`,
		Example: `  countersign check latest --baseline results/reference/matrix
  countersign check --baseline baseline.json --junit junit.xml --sarif countersign.sarif
  countersign check --baseline baseline.json --strict-reason --markdown >> "$GITHUB_STEP_SUMMARY"`,
		Args: atMostOneRun,
		RunE: func(cmd *cobra.Command, args []string) error { return o.check(cmd.OutOrStdout(), args) },
	}
	f := cmd.Flags()
	f.StringVar(&o.baseline, "baseline", "", "the file of a baseline, or the folder of a run that has no errors (required)")
	f.StringVar(&o.junit, "junit", "", "file for the comparison as JUnit XML")
	f.StringVar(&o.sarif, "sarif", "", "file for the comparison as SARIF 2.1.0")
	f.BoolVar(&o.strict, "strict-reason", false, "fail too when an attack was blocked by another binding than its condition names")
	f.BoolVar(&o.markdown, "markdown", false, "print Markdown")
	f.BoolVar(&o.json, "json", false, "print JSON, with every case that is not the same")
	cmd.MarkFlagsMutuallyExclusive("json", "markdown")
	return cmd
}

func (o checkOptions) check(w io.Writer, args []string) error {
	if o.baseline == "" {
		return hint(errors.New("no baseline is given"), "name the file with --baseline; countersign baseline writes one")
	}
	before, err := results.ReadBaseline(o.baseline)
	if err == nil {
		err = fitBaseline(before)
	}
	if err != nil {
		return hint(err, "countersign baseline writes one")
	}
	accepted := o.baseline // where a result would be accepted
	if info, err := os.Stat(accepted); err == nil && info.IsDir() {
		accepted = filepath.Join(accepted, results.ManifestFile)
	}
	now, r, err := summarise(args)
	if err != nil {
		return err
	}
	k, err := before.Against(now)
	if err != nil {
		return hint(err, "a baseline keeps no counts for each scenario or seed, so run the same ones; or make a baseline for these, from a run that you accept: countersign baseline RUN -o FILE")
	}
	// Reports first: they are wanted most when something is wrong.
	for _, report := range []struct {
		file  string
		write func(io.Writer) error
	}{
		{o.junit, func(w io.Writer) error { return export.JUnit(w, k, o.strict) }},
		{o.sarif, func(w io.Writer) error { return export.SARIF(w, k, r.Catalogue, fromRoot(accepted), o.strict) }},
	} {
		if report.file == "" {
			continue
		}
		var b bytes.Buffer
		if err := report.write(&b); err != nil {
			return err
		}
		if err := os.WriteFile(report.file, b.Bytes(), 0o644); err != nil {
			return fmt.Errorf("writing a report: %w", err)
		}
	}
	format := export.Text
	switch {
	case o.markdown:
		format = export.Markdown
	case o.json:
		format = export.JSON
	}
	if err := export.WriteCheck(w, k, format, o.strict); err != nil {
		return err
	}
	if code := k.ExitCode(o.strict); code != 0 {
		return exitCode(code)
	}
	return nil
}

// fromRoot is a path as seen from the current folder, which in continuous
// integration is the repository's root. A file outside of it keeps its base name:
// its folders are the machine's.
func fromRoot(path string) string {
	full, err := filepath.Abs(path)
	if err != nil {
		return filepath.Base(path)
	}
	here, err := os.Getwd()
	if err != nil {
		return filepath.Base(path)
	}
	relative, err := filepath.Rel(here, full)
	if err != nil || relative == ".." || strings.HasPrefix(relative, ".."+string(filepath.Separator)) {
		return filepath.Base(path)
	}
	return filepath.ToSlash(relative)
}
