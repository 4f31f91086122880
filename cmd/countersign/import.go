package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"countersign/agentdojo"
	"countersign/results/export"
)

func newImport() *cobra.Command {
	var o importOptions
	cmd := &cobra.Command{
		Use:   "import PATH… --out FILE" + agentdojo.TraceFileEnd,
		Short: "Read AgentDojo logs once, into a compact file",
		Long: `Import reads native AgentDojo logs of every known form (files, or folders with all
*.json in them) and writes one trace a line: what a replay needs, with the name and
the SHA-256 of each log, and without the texts that tools returned. Every command that
takes logs takes such a file in their place, with the same results. Its last line has
the digest of the others, so that a file that was cut short or altered is refused.

A log that cannot be read is named with the reason, here, in the file, and whenever
the file is used. Nothing is dropped in silence.

The table gives each pipeline's numbers as the benchmark counts them, from the logs'
own verdicts on the pairs of the catalogue, and without the runs that ended with an
error of their runner, which the benchmark counts as failed tasks and as successful
attacks.

Exit codes: 0 every log was read; 2 a log could not be read (the file is written, and
names it), wrong usage, or nothing to read.`,
		Example: `  countersign agentdojo import runs/gpt-4o-2024-05-13 --out gpt-4o.traces.jsonl
  countersign agentdojo import runs --out all.traces.jsonl
  countersign agentdojo replay all.traces.jsonl --modes M0,M8,M9`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("no path is given, want AgentDojo logs or folders of them")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args) },
	}
	f := cmd.Flags()
	f.StringVar(&o.out, "out", "", "the file to write, which must not exist; its name ends with "+agentdojo.TraceFileEnd)
	f.StringVar(&o.catalogue, "catalogue", "", "tasks of the benchmark, for the table (default catalogue_v1.1.2.json of the shared data, if there is one)")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "show no progress")
	return cmd
}

// importOptions are the flags of agentdojo import.
type importOptions struct {
	out, catalogue string
	quiet          bool
}

func (o importOptions) run(cmd *cobra.Command, paths []string) error {
	switch _, err := os.Lstat(o.out); {
	case o.out == "":
		return errors.New("--out is missing: the file to write, such as all" + agentdojo.TraceFileEnd)
	case !strings.HasSuffix(o.out, agentdojo.TraceFileEnd):
		return fmt.Errorf("--out is %s, want a name that ends with %s, by which other commands know the file", o.out, agentdojo.TraceFileEnd)
	case err == nil:
		return hint(fmt.Errorf("%s exists already", o.out), "choose a new name with --out")
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	b, _, err := benchmarkOf(o.catalogue)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(o.out), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(o.out), "."+filepath.Base(o.out)+".partial-*")
	if err != nil {
		return hint(err, "choose a place you can write to with --out")
	}
	made, err := o.copy(cmd, paths, b, f)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = errors.Join(os.Chmod(f.Name(), 0o644), os.Rename(f.Name(), o.out))
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name())) // half a file is nothing
	}
	if err := made.tell(cmd.OutOrStdout(), o.out, b); err != nil {
		return err
	}
	if made.unread > 0 {
		return hint(fmt.Errorf("%d logs could not be read", made.unread), "they are named above, and in %s", o.out)
	}
	return nil
}

// copy writes the traces that paths name into f.
func (o importOptions) copy(cmd *cobra.Command, paths []string, b agentdojo.Benchmark, f *os.File) (m imported, err error) {
	logs, failed := agentdojo.Find(paths)
	buffered := bufio.NewWriterSize(f, 1<<16)
	w, err := agentdojo.NewTraceWriter(buffered)
	if err != nil {
		return m, err
	}
	lose := func(name string, err error) {
		m.unread++
		w.Fail(name, err)
		fmt.Fprintf(cmd.ErrOrStderr(), "countersign: not read: %s\n", oneLine(err.Error()))
	}
	for _, err := range failed {
		name := "?"
		if fe, ok := errors.AsType[*agentdojo.FileError](err); ok {
			name = filepath.Base(fe.Path)
		}
		lose(name, err)
	}
	if len(logs) == 0 {
		return m, hint(agentdojo.ErrNoLogs, "PATH is a native AgentDojo log or a folder of them")
	}
	if b.Catalogue != nil {
		m.sums = agentdojo.NewAggregate(b.Catalogue)
	}
	first := map[string]string{} // log of a run
	m.forms = map[agentdojo.Format]int{}
	m.suites = map[suiteClass]int{}
	progress, done := reporter(cmd.ErrOrStderr(), o.quiet, "import", "logs")
	defer done()
	for i, l := range logs {
		if cmd.Context().Err() != nil {
			return m, errors.New("interrupted")
		}
		t, err := l.Read()
		if err == nil {
			if f, twice := first[t.ID()]; twice {
				err = &agentdojo.FileError{Path: t.Path, Err: fmt.Errorf("is a second log of the run %s, which was read from %s; give one of them", t.ID(), f)}
			}
		}
		if err != nil {
			lose(l.Name, err)
		} else {
			first[t.ID()] = t.Path
			if err := errors.Join(w.Add(logName(l, t), t), m.add(t)); err != nil {
				return m, err
			}
		}
		if progress != nil {
			progress(i+1, len(logs))
		}
	}
	if m.read == 0 {
		return m, fmt.Errorf("none of %d logs could be read", len(logs))
	}
	return m, errors.Join(w.Close(), buffered.Flush(), f.Sync())
}

// logName is the name of the log that a trace is from, which may have gone through
// another trace file before.
func logName(l agentdojo.Log, t *agentdojo.Trace) string {
	if l.Name != "" {
		return l.Name
	}
	return strings.TrimPrefix(t.Path, l.Path+":")
}

type suiteClass struct {
	pipeline, suite string
	class           agentdojo.Class
}

// imported is what an import came to.
type imported struct {
	read, unread int
	forms        map[agentdojo.Format]int
	suites       map[suiteClass]int
	sums         *agentdojo.Aggregate // nil without a catalogue
}

func (m *imported) add(t *agentdojo.Trace) error {
	m.read++
	m.forms[t.Format]++
	m.suites[suiteClass{t.Pipeline, t.Suite, t.Class()}]++
	if m.sums == nil {
		return nil
	}
	return m.sums.Add(t)
}

func (m imported) tell(w io.Writer, file string, b agentdojo.Benchmark) error {
	for _, t := range m.tables(b) {
		if err := t.Text(w); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
	}
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "Traces: %s: %d traces (%d of format A, %d of format B), %d logs not read, %.1f MB.\n",
		file, m.read, m.forms[agentdojo.FormatA], m.forms[agentdojo.FormatB], m.unread, float64(info.Size())/1e6)
	return err
}

// tables are the counts by suite and, with the tasks of the benchmark, its own rates.
func (m imported) tables(b agentdojo.Benchmark) (out []export.Table) {
	counts := export.Table{Name: "logs", Title: "Logs read, by class", Names: 2, Stack: true, Header: []string{"pipeline", "suite"}}
	for _, c := range agentdojo.Classes() {
		counts.Header = append(counts.Header, string(c))
	}
	var rows []suiteClass
	for k := range m.suites {
		k.class = ""
		if !slices.Contains(rows, k) {
			rows = append(rows, k)
		}
	}
	slices.SortFunc(rows, func(a, b suiteClass) int {
		return strings.Compare(a.pipeline+"/"+a.suite, b.pipeline+"/"+b.suite)
	})
	for _, k := range rows {
		row := []string{k.pipeline, k.suite}
		for _, c := range agentdojo.Classes() {
			row = append(row, strconv.Itoa(m.suites[suiteClass{k.pipeline, k.suite, c}]))
		}
		counts.Rows = append(counts.Rows, row)
	}
	out = append(out, counts)
	if m.sums == nil {
		out[0].Notes = append(out[0].Notes, "The benchmark's tasks are missing (--catalogue FILE), so its rates are not given.")
		return out
	}
	rates := export.Table{Name: "native", Title: fmt.Sprintf("The benchmark's own verdicts, %s, %d pairs of tasks", b.Catalogue.Version, b.Catalogue.Pairs()),
		Names: 2, Stack: true, Header: []string{"pipeline", "attack", "benign utility", "utility under attack", "attack success", "runner errors",
			"benign utility without them", "utility under attack without them", "attack success without them", "outside the catalogue"}}
	for _, s := range m.sums.Summaries() {
		rates.Rows = append(rates.Rows, []string{s.Pipeline, cmp.Or(s.Attack, "none"), ratio(s.Published.BenignUtility), ratio(s.Published.AttackedUtility), ratio(s.Published.AttackSuccess),
			strconv.Itoa(s.Classes[agentdojo.RunnerError]), ratio(s.Clean.BenignUtility), ratio(s.Clean.AttackedUtility), ratio(s.Clean.AttackSuccess), strconv.Itoa(s.Outside)})
	}
	rates.Notes = []string{"From the logs' own fields, calls requested and not only executed. A run that ended with an error of its runner is recorded as a failed task " +
		"and a successful attack whatever it did; so it is in the first rates, as published, and in no rate behind them."}
	return append(out, rates)
}

func ratio(r agentdojo.Rate) string {
	v, ok := r.Value()
	if !ok {
		return "-"
	}
	return fmt.Sprintf("%d/%d %.4f", r.Hits, r.Of, v)
}
