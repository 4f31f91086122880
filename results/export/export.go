// Package export writes an analysis as text for a terminal, as Markdown, CSV, LaTeX
// or JSON.
//
// Names and error texts may come from the systems under test, so they are taken
// for hostile: characters that control a terminal or that nobody can see are
// written ⟨U+XXXX⟩, Markdown, LaTeX and spreadsheet syntax is made inert. JSON holds the
// values themselves, with the same characters as escapes.
package export

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"countersign/results"
)

// A Format is a way to write an analysis.
type Format string

const (
	Text     Format = "text"     // tables for a terminal, the main one within 120 columns
	Markdown Format = "markdown" // the same tables
	CSV      Format = "csv"      // one line a target and attack, every count
	LaTeX    Format = "latex"    // the same tables, with booktabs
	JSON     Format = "json"     // the whole analysis
)

// Formats lists every format.
func Formats() []Format { return []Format{Text, Markdown, CSV, LaTeX, JSON} }

// ext is the ending of a file's name.
func (f Format) ext() string {
	return map[Format]string{Text: "txt", Markdown: "md", CSV: "csv", LaTeX: "tex", JSON: "json"}[f]
}

// write writes one table.
func (f Format) write(w io.Writer, t Table) error {
	switch f {
	case Text:
		return t.Text(w)
	case Markdown:
		return t.Markdown(w)
	case CSV:
		return t.CSV(w)
	case LaTeX:
		return t.LaTeX(w)
	}
	return fmt.Errorf("a table cannot be written as %s", f)
}

// A Document is what is written of a run. The zero value cannot be.
type Document struct {
	Analysis *results.Analysis
	More     []Table // behind those of the analysis; such as what the run took apart
}

// Tables are all of a document, but for [Cells].
func (d Document) Tables() []Table { return append(Tables(d.Analysis), d.More...) }

// Write writes the document in a format: all its tables, or those with the names or ids,
// in the order of [Document.Tables]. CSV holds one table, which is [Cells] where none is
// named, and JSON the analysis. An unknown format or name is an error.
func (d Document) Write(w io.Writer, f Format, names ...string) error {
	fail := func(err error) error { return fmt.Errorf("writing results as %s: %w", f, err) }
	switch {
	case !slices.Contains(Formats(), f):
		return fmt.Errorf("writing results: format is %q, want one of %v", f, Formats())
	case d.Analysis == nil:
		return fail(errors.New("there is no analysis"))
	case f == JSON && len(names) > 0:
		return fail(errors.New("JSON is the whole analysis and has no tables"))
	case f == CSV && len(names) == 0:
		names = []string{cellsName}
	}
	var b bytes.Buffer
	if f == JSON {
		data, err := json.MarshalIndent(d.Analysis, "", "  ")
		if err != nil {
			return fail(err)
		}
		b.WriteString(results.EscapeJSON(string(data)) + "\n")
	} else {
		tables, err := d.choose(names)
		if err != nil {
			return fail(err)
		}
		if f == CSV && len(tables) > 1 {
			return fail(fmt.Errorf("CSV holds one table, not %d", len(tables)))
		}
		for i, t := range tables {
			if i > 0 {
				b.WriteByte('\n')
			}
			if err := f.write(&b, t); err != nil {
				return fail(err)
			}
		}
	}
	if _, err := w.Write(b.Bytes()); err != nil {
		return fail(err)
	}
	return nil
}

// choose returns the tables with the names; all where none is named.
func (d Document) choose(names []string) ([]Table, error) {
	tables := d.Tables()
	if len(names) == 0 {
		return tables, nil
	}
	tables = append(tables, Cells(d.Analysis))
	have := make([]string, len(tables))
	for i, t := range tables {
		have[i] = t.ID()
	}
	named := func(t Table, n string) bool { return n == t.Name || n == t.ID() }
	for _, n := range names {
		if !slices.ContainsFunc(tables, func(t Table) bool { return named(t, n) }) {
			return nil, fmt.Errorf("there is no table %q, want one of %s", n, strings.Join(have, ", "))
		}
	}
	return slices.DeleteFunc(tables, func(t Table) bool {
		return !slices.ContainsFunc(names, func(n string) bool { return named(t, n) })
	}), nil
}

// WriteFiles writes every table into a folder, as [WriteTables] does, and the analysis
// as analysis.json. It returns the paths.
func (d Document) WriteFiles(dir string) (paths []string, err error) {
	if d.Analysis == nil {
		return nil, errors.New("writing tables: there is no analysis")
	}
	if paths, err = WriteTables(dir, append(d.Tables(), Cells(d.Analysis))...); err != nil {
		return paths, err
	}
	path := filepath.Join(dir, "analysis."+JSON.ext())
	if err := writeFile(path, func(w io.Writer) error { return d.Write(w, JSON) }); err != nil {
		return paths, err
	}
	return append(paths, path), nil
}

// WriteTables writes tables into a folder, which it makes when needed, once for each
// form: ID.txt, ID.md, ID.csv and ID.tex. It returns the paths.
func WriteTables(dir string, tables ...Table) (paths []string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("writing tables: %w", err)
	}
	for _, t := range tables {
		for _, f := range Formats() {
			if f == JSON {
				continue
			}
			path := filepath.Join(dir, t.ID()+"."+f.ext())
			if slices.Contains(paths, path) {
				return paths, fmt.Errorf("writing tables: two have the name %s", t.ID())
			}
			if err := writeFile(path, func(w io.Writer) error { return f.write(w, t) }); err != nil {
				return paths, err
			}
			paths = append(paths, path)
		}
	}
	return paths, nil
}

// writeFile writes a file when its text is whole.
func writeFile(path string, write func(io.Writer) error) error {
	var b bytes.Buffer
	err := write(&b)
	if err == nil {
		err = os.WriteFile(path, b.Bytes(), 0o644)
	}
	if err != nil {
		return fmt.Errorf("writing table %s: %w", path, err)
	}
	return nil
}
