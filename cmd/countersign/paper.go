package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"countersign/agentdojo"
	"countersign/attacks/harness"
	"countersign/figures"
	"countersign/modes"
	"countersign/results"
	"countersign/results/export"
)

// A paperPart is a run, or a replay, that tables and figures of the paper are made of.
type paperPart struct {
	name, title string
	// args are the command that makes it, but for --out.
	args []string
	// unable says why it cannot be made here; empty where it can.
	unable string
	// read reads its folder.
	read func(dir string) (material, error)
}

// material is what there is to write and to draw of a part.
type material struct {
	tables  func(dir string) (paths []string, err error)
	data    *figures.Data
	figures []string // by name; empty for all
}

// paperParts are all parts, in the order in which they are made. A further one is a
// further entry.
func paperParts() []paperPart {
	traces, why := recordedTraces()
	return []paperPart{
		{"matrix", "the nine designs, every attack", []string{"run", "--timed", "20"}, "", readRun},
		{"beside", "designs with hygiene and published descriptions", []string{"run", "--modes",
			strings.Join(ids(modes.Beside(), func(m modes.Mode) string { return m.ID }), ",")}, "", readRun},
		{"ablation", "the reference design without each binding, and its cuts", []string{"run", "--ablate", results.DefaultReference}, "", readRun},
		{"overlay", "attacks on approvals of AgentDojo's tasks", []string{"agentdojo", "overlay"}, why, readRun},
		{"agentdojo", "recorded AgentDojo traces through the nine designs", append([]string{"agentdojo", "replay"}, traces...), why, readReplay},
	}
}

// recordedTraces are the folders of recorded AgentDojo runs in the shared data, or why
// there are none.
func recordedTraces() (folders []string, missing string) {
	dir, err := agentdojo.SharedDir()
	if err == nil {
		folders, err = filepath.Glob(filepath.Join(dir, "agentdojo", "runs", "*"))
	}
	switch {
	case err != nil:
		return nil, err.Error()
	case len(folders) == 0:
		return nil, "there are no AgentDojo logs in agentdojo/runs of the shared data"
	}
	return folders, ""
}

func readRun(dir string) (m material, err error) {
	r, err := results.Open(dir)
	if err != nil {
		return m, err
	}
	d, err := documentOf(r)
	if err != nil {
		return m, err
	}
	m.tables = d.WriteFiles
	m.data, err = loadFigures(r, "")
	return m, err
}

func readReplay(dir string) (m material, err error) {
	m = material{data: &figures.Data{}, figures: []string{"agentdojo"}}
	if m.data.Replay, err = figures.LoadReplay(dir); err != nil { // and its digests are verified
		return m, err
	}
	data, err := results.ReadPart(dir, "summary.json")
	if err != nil {
		return m, err
	}
	var sum harness.ReplaySummary
	if err := json.Unmarshal(data, &sum); err != nil {
		return m, fmt.Errorf("reading the replay %s: %w", dir, err)
	}
	m.tables = func(to string) ([]string, error) { return export.WriteTables(to, replayTables(&sum)...) }
	return m, nil
}

// derive writes the tables and the figures of a part.
func (p paperPart) derive(dir, tables, pictures string) error {
	m, err := p.read(dir)
	if err != nil {
		return err
	}
	if _, err := m.tables(tables); err != nil {
		return err
	}
	_, _, err = figures.Write(pictures, m.data, m.figures...)
	return err
}

// A paper is where everything of one is.
type paper struct{ dir, pictures string }

func (p paper) part(name string) string     { return filepath.Join(p.dir, name) }
func (p paper) tables(part string) string   { return filepath.Join(p.dir, "tables", part) }
func (p paper) drawings(part string) string { return filepath.Join(p.pictures, part) }

// sums are the digests of what a part, whose tables are in a folder, makes everywhere
// alike, by kind, part and name: no manifest and no
// latencies, which are times, and no PDF.
func (p paper) sums(part, tables string) (results.Sums, error) {
	out := results.Sums{}
	own, err := results.ReadSums(p.part(part))
	if err != nil {
		return nil, err
	}
	for name, sum := range own {
		if name != results.ManifestFile && name != results.LatencyFile {
			out["runs/"+part+"/"+name] = sum
		}
	}
	for kind, dir := range map[string]string{"tables": tables, "figures": p.drawings(part)} {
		sums, err := results.SumsOf(dir)
		if err != nil {
			return nil, err
		}
		for name, sum := range sums {
			if filepath.Ext(name) != ".pdf" && !strings.HasPrefix(name, "latency.") {
				out[kind+"/"+part+"/"+name] = sum
			}
		}
	}
	return out, nil
}

// partOfSum is the part that a name of [paper.sums] belongs to.
func partOfSum(name string) string { return strings.Split(name+"//", "/")[1] }

// paperOptions are the flags of the command paper.
type paperOptions struct {
	out, reference string
	only           []string
	update         bool
	parts          []paperPart
}

func newPaper() *cobra.Command {
	o := paperOptions{parts: paperParts()}
	var listed strings.Builder
	for _, p := range o.parts {
		fmt.Fprintf(&listed, "\n  %-11s %s", p.name, p.title)
	}
	cmd := &cobra.Command{
		Use:   "paper",
		Short: "Make everything that is published: runs, tables, figures; and compare it with the reference",
		Long: `Paper makes each part of what is published, its tables in every form and its
figures, and compares all of it, byte for byte, with the reference run. It takes
about ten minutes on two processors. The parts are:
` + listed.String() + `

Runs and tables go to results/runs/<id>, figures and the report of the matrix to
figures/out/<id>. What this machine cannot make is left out, and said; the rest is
compared. Manifests, which have times, the report, and PDF are not compared.

The reference holds the runs themselves, compressed, and SHA256SUMS of what is made
of them; each of its folders is a RUN for analyze, figures, report and check. With
--update what was made becomes the reference, and a part that was not made stays.

Exit codes: 1 a measurement contradicts its prediction, or something is not as in
the reference; else 2 a part could not be made, or wrong usage; else 0.`,
		Example: `  countersign paper
  countersign paper --only matrix,ablation
  countersign paper --update && git diff --stat results/reference
  countersign analyze results/reference/matrix --latex --table success`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	f := cmd.Flags()
	f.StringVar(&o.out, "out", "", "folder for runs and tables, which must not exist (default results/runs/<id>)")
	f.StringVar(&o.reference, "reference", filepath.Join("results", "reference"), "folder of the reference; empty to compare with nothing")
	f.StringSliceVar(&o.only, "only", nil, "parts by name (default all)")
	f.BoolVar(&o.update, "update", false, "make the reference of what was made, instead of comparing")
	return cmd
}

func (o paperOptions) run(cmd *cobra.Command) error {
	parts, err := o.choose()
	if err != nil {
		return err
	}
	var reference results.Sums
	if o.reference != "" && !o.update {
		if reference, err = results.ReadSums(o.reference); err != nil {
			return hint(err, `name the folder of a reference with --reference, make one with --update, or compare with nothing: --reference ""`)
		}
	}
	if o.update && o.reference == "" {
		return errors.New("--update needs the folder of a reference, and --reference is empty")
	}
	if o.out == "" {
		o.out = newRunDir(time.Now())
	}
	switch _, err := os.Lstat(o.out); {
	case err == nil:
		return hint(fmt.Errorf("%s exists already", o.out), "choose a new folder with --out")
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	full, err := filepath.Abs(o.out)
	if err != nil {
		return err
	}
	made := making{paper{o.out, picturesOf(filepath.Base(full))}, cmd.ErrOrStderr(), results.Sums{}, nil, 0}
	if err := made.all(cmd.Context(), parts); err != nil {
		return err
	}
	if err := made.report(cmd.Context()); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(o.out, results.SumsFile), []byte(made.sums.String()), 0o644); err != nil {
		return err
	}
	w := cmd.OutOrStdout()
	if err := made.tell(w); err != nil {
		return err
	}
	switch {
	case o.update:
		if made.code != 0 {
			return hint(fmt.Errorf("the reference stays as it is: a part ended with exit code %d", made.code), "its tables say why")
		}
		return made.becomes(w, o.reference)
	case reference != nil:
		same, err := compare(w, made.paper, made.sums, o.reference, reference)
		if err != nil {
			return err
		}
		if !same {
			made.code = 1
		}
	}
	if made.code != 0 {
		return exitCode(made.code)
	}
	return nil
}

// choose returns the parts to make.
func (o paperOptions) choose() ([]paperPart, error) {
	for _, name := range o.only {
		if !slices.ContainsFunc(o.parts, func(p paperPart) bool { return p.name == name }) {
			return nil, fmt.Errorf("there is no part %q, want some of %s", name, strings.Join(ids(o.parts, func(p paperPart) string { return p.name }), ", "))
		}
	}
	return slices.DeleteFunc(slices.Clone(o.parts), func(p paperPart) bool { return len(o.only) > 0 && !slices.Contains(o.only, p.name) }), nil
}

// making is a paper in the making.
type making struct {
	paper
	log  io.Writer
	sums results.Sums
	left []paperPart // what could not be made here
	code int         // the worst exit code of a part
}

// partsOf are the parts that sums of [paper.sums] are of.
func partsOf(sums results.Sums) (out []string) {
	for _, name := range sums.Names() {
		if p := partOfSum(name); !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

func (m *making) all(ctx context.Context, parts []paperPart) error {
	for _, p := range parts {
		if p.unable != "" {
			fmt.Fprintf(m.log, "== %s: left out: %s\n", p.name, oneLine(p.unable))
			m.left = append(m.left, p)
			continue
		}
		fmt.Fprintf(m.log, "== %s: %s\n", p.name, p.title)
		dir := m.part(p.name)
		// What the manifest tells is what anybody can repeat, whose folders ever.
		told := context.WithValue(ctx, commandLine{}, []string{"paper", "--only", p.name})
		code := run(told, append(slices.Clone(p.args), "--out", dir), strings.NewReader(""), io.Discard, m.log)
		if ctx.Err() != nil {
			return hint(errors.New("interrupted"), "what was made so far is in %s", m.dir)
		}
		if _, err := os.Stat(dir); err != nil {
			return hint(fmt.Errorf("making %s: exit code %d", p.name, code), "the reason is above; --only makes other parts")
		}
		if m.code != 1 && code != 0 { // a contradiction outranks what cannot be told
			m.code = code
		}
		if err := p.derive(dir, m.tables(p.name), m.drawings(p.name)); err != nil {
			return err
		}
		sums, err := m.paper.sums(p.name, m.tables(p.name))
		if err != nil {
			return err
		}
		m.sums.Add(sums)
	}
	if len(m.sums) == 0 {
		return fmt.Errorf("nothing could be made: %s", m.left[0].unable)
	}
	return nil
}

// report writes the report of the matrix, with the replay if there is one.
func (m *making) report(ctx context.Context) error {
	parts := partsOf(m.sums)
	if !slices.Contains(parts, "matrix") {
		return nil
	}
	fmt.Fprintln(m.log, "== report")
	args := []string{"report", m.part("matrix"), "--out", filepath.Join(m.pictures, "report.html")}
	if slices.Contains(parts, "agentdojo") {
		args = append(args, "--replay", m.part("agentdojo"))
	}
	if code := run(ctx, args, strings.NewReader(""), io.Discard, m.log); code != 0 {
		return fmt.Errorf("writing the report: exit code %d", code)
	}
	return nil
}

// tell says what there is.
func (m *making) tell(w io.Writer) error {
	t := export.Table{Title: "Made", Names: 3, Header: []string{"part", "run", "figures", "files"}}
	files := map[string]int{}
	for name := range m.sums {
		files[partOfSum(name)]++
	}
	for _, part := range partsOf(m.sums) {
		t.Rows = append(t.Rows, []string{part, m.part(part), m.drawings(part), strconv.Itoa(files[part])})
	}
	t.Notes = []string{"Tables: " + m.tables("PART") + "."}
	for _, p := range m.left {
		t.Notes = append(t.Notes, fmt.Sprintf("Left out: %s: %s.", p.name, p.unable))
	}
	return t.Text(w)
}

// becomes makes the reference of what was made.
func (m *making) becomes(w io.Writer, reference string) error {
	before, err := results.ReadSums(reference)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	sums := results.Sums{}
	parts := partsOf(m.sums)
	for name, sum := range before {
		if !slices.Contains(parts, partOfSum(name)) {
			sums[name] = sum
		}
	}
	sums.Add(m.sums)
	for _, name := range parts {
		if err := results.Pack(m.part(name), filepath.Join(reference, name)); err != nil {
			return err
		}
	}
	if err := replaceFile(filepath.Join(reference, results.SumsFile), []byte(sums.String())); err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "\n%s holds %s now.\n", reference, strings.Join(parts, ", "))
	return err
}
