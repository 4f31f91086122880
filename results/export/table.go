package export

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/pkg/twwidth"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
)

// A Table is a title, rows of cells and notes. Its methods make the cells safe
// for the form they write.
type Table struct {
	Name   string // short, fit for a file name
	Group  string // likewise, of tables that have a name in common; empty for the main one
	Title  string
	Header []string
	Rows   [][]string
	Notes  []string
	// Names is how many leading columns hold names, which are set to the left.
	Names int
	// Fold is the width at which a name is continued on the next line of the text
	// form, in columns of the terminal; 0 for never.
	Fold int
	// Stack puts the words of a cell that is no name below each other in the text
	// form, which keeps many columns narrow.
	Stack bool
	// Most is how many rows the text form shows; 0 for all. The rest is counted.
	Most int
}

// ID is the table's name with that of its group.
func (t Table) ID() string { return strings.TrimSuffix(t.Name+"-"+t.Group, "-") }

// noteWidth is where notes are broken in the text form.
const noteWidth = 118

// Text writes the table for a terminal.
func (t Table) Text(w io.Writer) error {
	twwidth.SetEastAsian(false) // not by locale: the same analysis, the same bytes
	rows, notes := t.Rows, t.Notes
	if t.Most > 0 && len(rows) > t.Most {
		notes = append([]string{fmt.Sprintf("... and %d more; the JSON form has all", len(rows)-t.Most)}, notes...)
		rows = rows[:t.Most]
	}
	var b bytes.Buffer
	b.WriteString(clean(t.Title) + "\n")
	if len(rows) > 0 {
		err := t.render(&b, rows, t.textCell,
			tablewriter.WithRenderer(renderer.NewBlueprint()),
			tablewriter.WithRendition(tw.Rendition{
				Borders: tw.BorderNone,
				Symbols: tw.NewSymbols(tw.StyleASCII),
				Settings: tw.Settings{
					Separators: tw.Separators{BetweenColumns: tw.Off},
					Lines:      tw.Lines{ShowHeaderLine: tw.Off},
				},
			}),
			tablewriter.WithPadding(tw.Padding{Left: "", Right: "  ", Overwrite: true}))
		if err != nil {
			return err
		}
	}
	for _, n := range notes {
		b.WriteString(wrap(clean(n), noteWidth) + "\n")
	}
	for line := range strings.Lines(b.String()) {
		if _, err := io.WriteString(w, strings.TrimRight(line, " \n")+"\n"); err != nil {
			return err
		}
	}
	return nil
}

func (t Table) textCell(s string, column int) string {
	s = clean(s)
	if t.Stack && column >= t.Names {
		s = strings.ReplaceAll(s, " ", "\n")
	}
	if column < t.Names {
		s = fold(s, t.Fold)
	}
	return s
}

// Markdown writes the table with its title as a heading.
func (t Table) Markdown(w io.Writer) error {
	twwidth.SetEastAsian(false)
	var b bytes.Buffer
	b.WriteString("### " + escapeMarkdown(t.Title) + "\n\n")
	if len(t.Rows) > 0 {
		if err := t.render(&b, t.Rows, func(s string, _ int) string { return escapeMarkdown(s) }, tablewriter.WithRenderer(renderer.NewMarkdown())); err != nil {
			return err
		}
	}
	for i, n := range t.Notes {
		if i > 0 || len(t.Rows) > 0 {
			b.WriteString("\n")
		}
		b.WriteString(escapeMarkdown(n) + "\n")
	}
	_, err := w.Write(b.Bytes())
	return err
}

// CSV writes header and rows as of RFC 4180, without title and notes.
func (t Table) CSV(w io.Writer) error {
	c := csv.NewWriter(w)
	for _, row := range append([][]string{t.Header}, t.Rows...) {
		safe := make([]string, len(row))
		for i, s := range row {
			safe[i] = clean(s)
			// A spreadsheet would compute a cell that starts like a formula.
			if safe[i] != "" && strings.ContainsRune("=+-@", rune(safe[i][0])) {
				safe[i] = "'" + safe[i]
			}
		}
		if err := c.Write(safe); err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}

// LaTeXPreamble is what a document needs for the tables.
const LaTeXPreamble = `\usepackage[T1]{fontenc} \usepackage{array,booktabs,graphicx}`

// LaTeX writes the table for a paper, with the rules of booktabs, in a float of its own
// with the caption and the label tab:ID, and as wide as a line at the most. The
// preamble needs [LaTeXPreamble]. Columns of texts break their lines.
func (t Table) LaTeX(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "\\begin{table}\n\\centering\n\\caption{%s}\n\\label{tab:%s}\n", escapeLaTeX(t.Title), escapeLaTeX(t.ID()))
	if len(t.Rows) > 0 {
		b.WriteString("\\smallskip\n")
		fmt.Fprintf(&b, "\\sbox0{\\begin{tabular}{%s}\n\\toprule\n", t.columns())
		for i, row := range append([][]string{t.Header}, t.Rows...) {
			cells := make([]string, len(row))
			for j, c := range row {
				cells[j] = escapeLaTeX(c)
			}
			b.WriteString(strings.Join(cells, " & ") + " \\\\\n")
			if i == 0 {
				b.WriteString("\\midrule\n")
			}
		}
		b.WriteString("\\bottomrule\n\\end{tabular}}%\n\\ifdim\\wd0>\\linewidth\\resizebox{\\linewidth}{!}{\\usebox0}\\else\\usebox0\\fi\n")
	}
	for _, n := range t.Notes {
		fmt.Fprintf(&b, "\n\\smallskip\\footnotesize %s\n", escapeLaTeX(n))
	}
	b.WriteString("\\end{table}\n")
	_, err := w.Write(b.Bytes())
	return err
}

// columns is the specification of the columns of a LaTeX table.
func (t Table) columns() string {
	if t.Names <= 1 {
		return strings.Repeat("l", min(t.Names, len(t.Header))) + strings.Repeat("r", max(len(t.Header)-t.Names, 0))
	}
	texts := min(t.Names, len(t.Header))
	text := fmt.Sprintf(">{\\raggedright\\arraybackslash}p{%.2f\\linewidth}", 0.8/float64(len(t.Header)))
	return strings.Repeat(text, texts) + strings.Repeat("r", len(t.Header)-texts)
}

// render hands tablewriter cells that it shows as they are: no rewritten header,
// no wrapping, no trimming.
func (t Table) render(w io.Writer, rows [][]string, cell func(s string, column int) string, opts ...tablewriter.Option) error {
	align := make([]tw.Align, len(t.Header))
	for i := range align {
		align[i] = tw.AlignRight
		if i < t.Names {
			align[i] = tw.AlignLeft
		}
	}
	opts = append(opts,
		tablewriter.WithHeaderAutoFormat(tw.Off), tablewriter.WithRowAutoFormat(tw.Off),
		tablewriter.WithHeaderAutoWrap(tw.WrapNone), tablewriter.WithRowAutoWrap(tw.WrapNone),
		tablewriter.WithTrimSpace(tw.Off),
		tablewriter.WithHeaderAlignmentConfig(tw.CellAlignment{PerColumn: align}),
		tablewriter.WithRowAlignmentConfig(tw.CellAlignment{PerColumn: align}),
	)
	table := tablewriter.NewTable(w, opts...)
	safe := func(row []string) []string {
		out := make([]string, len(row))
		for i, s := range row {
			out[i] = cell(s, i)
		}
		return out
	}
	table.Header(safe(t.Header))
	for _, r := range rows {
		if err := table.Append(safe(r)); err != nil {
			return err
		}
	}
	return table.Render()
}
