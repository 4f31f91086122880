// Package report writes a run as one page of HTML that needs nothing else: no
// network, no further file, and no script for reading.
//
// The page goes from disagreements to the matrix of attack families and targets,
// from each count to the variants it is made of, and from each of these to the
// story of a trial. [Read] counts a run, [Data.Told] says whose stories are
// wanted, and [Data.Write] writes the page. It tells no story itself: who knows
// the harness does.
//
// Every name and text may come from a system under test, so it is taken for
// hostile. What acts on the direction of writing or cannot be seen is written
// ⟨U+XXXX⟩, long texts are cut with a count, html/template escapes the rest, and
// the page's policy allows no source but its own style and script. Equal inputs
// give equal bytes.
package report

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strconv"
	"strings"

	"countersign/results"
	"countersign/results/export"
)

// Extras is what a report shows besides the run.
type Extras struct {
	// Name of the run, for the title.
	Name    string
	Choice  Choice
	Stories map[string]Telling // by [Key]
	Figures []Picture
	Tables  []export.Table // behind those of the analysis
	// Methods is Markdown; empty for none.
	Methods []byte
	// Sums are the digests of the run's files, as of sha256sum(1).
	Sums    string
	Program string // that makes the report
	Words   Words
}

// A Picture is a figure of the run, or why there is none.
type Picture struct {
	Name, Title   string
	SVG           []byte
	Width, Height float64 // in points
	Missing       string
}

// A Telling is the story of a trial, or why there is none.
type Telling struct {
	Story   Story
	Missing string // why the trial cannot be told
	// Differs says in what the trial, made again for its story, is not the one of the
	// record; empty if it is.
	Differs string
}

// Words explain names, by name.
type Words struct{ Bindings, Capabilities, Reasons map[string]string }

// Key names the trial of a record.
func Key(r results.Record) string { return storyKey(r) }

func storyKey(r results.Record) string {
	return strings.Join([]string{r.Target, string(r.Kind), r.Attack, r.Variant, r.Scenario, r.Approver, strconv.FormatUint(r.Seed, 10), r.Pair}, "\x00")
}

//go:embed style.css
var style string

//go:embed script.js
var script string

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"parts": func(name string) []string { return strings.SplitAfter(name, "_") },
	"join":  strings.Join,
}).Parse(pageText))

// Write writes the page.
func (d *Data) Write(w io.Writer, x Extras) error {
	v, err := d.view(x)
	if err != nil {
		return fmt.Errorf("writing a report: %w", err)
	}
	css := style
	for _, t := range v.Targets {
		// The column that was chosen in the matrix, and one that the filter leaves out.
		css += fmt.Sprintf(".grid:has(th.%[1]s:target) .%[1]s{box-shadow:inset 2px 0 var(--ink),inset -2px 0 var(--ink)}.no-%[1]s .%[1]s{display:none}\n", t.Class)
	}
	for _, f := range v.Families {
		css += fmt.Sprintf(".no-%[1]s .%[1]s{display:none}\n", f.Class)
	}
	v.CSS, v.JS = template.CSS(css), template.JS(script)
	v.CSP = fmt.Sprintf("default-src 'none'; style-src '%s'; script-src '%s'; img-src data:; base-uri 'none'; form-action 'none'", source(css), source(script))
	var b bytes.Buffer
	if err := page.Execute(&b, v); err != nil {
		return fmt.Errorf("writing a report: %w", err)
	}
	_, err = w.Write(b.Bytes())
	return err
}

// source names a text in a content security policy.
func source(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}
