// Package figures draws a run as SVG, PNG and PDF.
//
// A figure is one entry of [All] and reads nothing but [Data], so every name and
// number in it is one of the run. Equal data give equal bytes of SVG and PNG on one
// platform. A figure is as wide as a column or a page of a journal, or wider where
// a table has more columns than a page; its text is not smaller than 6 points at that
// size. Nothing is told by colour alone.
package figures

import (
	"bytes"
	"fmt"
	"image/color"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgpdf"
	"gonum.org/v1/plot/vg/vgsvg"
)

// A Figure turns the data of a run into a drawing.
type Figure struct {
	Name  string // of the files, without extension
	Title string
	// Draw prepares the drawing. Its error is a [NoData] when the data have nothing
	// for this figure.
	Draw func(d *Data) (Drawing, error)
}

// A Drawing is a picture of a fixed size.
type Drawing struct {
	Width, Height vg.Length
	Paint         func(c draw.Canvas)
}

// All lists every figure.
func All() []Figure {
	return []Figure{
		{"attack-success", "attack success, a cell for each design and family", HeatMap},
		{"success-intervals", "attack success of each design with Wilson intervals", Intervals},
		{"security-cost", "security against benign success and burden, a point for each design", Cost},
		{"paired-differences", "each design beside the reference on the same variants", Forest},
		{"ablation", "what each binding keeps out (of a run with --ablate)", Matrix},
		{"approvers", "attack success by approver (of a run with several)", Curves},
		{"latency", "distribution of the time for a dispatch (of a run with --timed)", ECDF},
		{"agentdojo", "AgentDojo traces through each design (with --replay)", Bars},
	}
}

// A Form is a kind of file.
type Form struct {
	Extension string
	Write     func(d Drawing, w io.Writer) error
}

// Forms lists every form in which a figure is written.
func Forms() []Form {
	return []Form{{".svg", Drawing.SVG}, {".png", Drawing.PNG}, {".pdf", Drawing.PDF}}
}

// dpi of the PNG form.
const dpi = 300

// SVG writes the drawing as Scalable Vector Graphics. The text stays text, set in
// Liberation Sans or what the reader has; it says how wide it is, so that it does not
// touch other text in a wider font.
func (d Drawing) SVG(w io.Writer) error {
	c := &measured{Canvas: vgsvg.New(d.Width, d.Height)}
	d.Paint(draw.New(c))
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return err
	}
	const (
		text   = "<text "
		font   = "font-family:Liberation Sans;font-variant:normal;font-weight:normal;font-style:normal;"
		family = `<g style="font-family:Liberation Sans,Arial,Helvetica,sans-serif" `
	)
	out := bytes.ReplaceAll(b.Bytes(), []byte(font), nil) // once for all
	out = bytes.Replace(out, []byte("<g "), []byte(family), 1)
	pieces := bytes.SplitAfter(out, []byte(text))
	if len(pieces) != len(c.widths)+1 {
		return fmt.Errorf("writing SVG: %d texts, want %d", len(pieces)-1, len(c.widths))
	}
	for i, width := range c.widths {
		pieces[i] = fmt.Appendf(pieces[i], `textLength="%.5g" lengthAdjust="spacingAndGlyphs" `, width.Points())
	}
	_, err := w.Write(bytes.Join(pieces, nil))
	return err
}

// measured keeps how wide each text is.
type measured struct {
	*vgsvg.Canvas
	widths []vg.Length
}

func (m *measured) FillString(f font.Face, at vg.Point, s string) {
	m.widths = append(m.widths, f.Width(s))
	m.Canvas.FillString(f, at, s)
}

// PNG writes the drawing as Portable Network Graphics.
func (d Drawing) PNG(w io.Writer) error {
	c := vgimg.NewWith(vgimg.UseWH(d.Width, d.Height), vgimg.UseDPI(dpi), vgimg.UseBackgroundColor(color.White))
	d.Paint(draw.New(c))
	_, err := vgimg.PngCanvas{Canvas: c}.WriteTo(w)
	return err
}

// pdfDate is the one thing in a PDF that is not of the drawing.
var pdfDate = regexp.MustCompile(`\((D:)\d{14}`)

// PDF writes the drawing as Portable Document Format, with its font. A name with
// characters outside Windows-1252 has question marks for them. The dates in the
// file are of no day: a figure does not depend on when it was drawn.
func (d Drawing) PDF(w io.Writer) error {
	c := vgpdf.New(d.Width, d.Height)
	d.Paint(draw.New(latin{c}))
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return err
	}
	_, err := w.Write(pdfDate.ReplaceAll(b.Bytes(), []byte("(${1}20000101000000")))
	return err
}

// latin passes text on in the encoding that vgpdf declares for its fonts but
// leaves to its callers.
type latin struct {
	*vgpdf.Canvas
}

func (l latin) FillString(f font.Face, at vg.Point, s string) {
	out, err := encoding.ReplaceUnsupported(charmap.Windows1252.NewEncoder()).String(s)
	if err != nil {
		out = strings.Repeat("?", len([]rune(s)))
	}
	l.Canvas.FillString(f, at, strings.ReplaceAll(out, "\x1a", "?"))
}

// A LeftOut is a figure for which there was nothing to draw.
type LeftOut struct {
	Name, Reason string
}

// Write draws figures into dir, which it makes when needed, and returns the paths
// of the files and what is left out for want of data. only names figures; none
// means all. A file is written only when its figure is whole. It is an error when
// every figure is left out.
func Write(dir string, d *Data, only ...string) (paths []string, left []LeftOut, err error) {
	all := All()
	if len(only) > 0 {
		for _, name := range only {
			if !slices.ContainsFunc(all, func(f Figure) bool { return f.Name == name }) {
				return nil, nil, fmt.Errorf("drawing figures: there is no figure %q", name)
			}
		}
		all = slices.DeleteFunc(all, func(f Figure) bool { return !slices.Contains(only, f.Name) })
	}
	for _, f := range all {
		drawing, err := f.Draw(d)
		if none, ok := err.(NoData); ok {
			left = append(left, LeftOut{f.Name, none.Error()})
			continue
		}
		if err != nil {
			return paths, left, fmt.Errorf("drawing figure %s: %w", f.Name, err)
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return paths, left, fmt.Errorf("writing figures: %w", err)
		}
		for _, form := range Forms() {
			var b bytes.Buffer
			path := filepath.Join(dir, f.Name+form.Extension)
			if err := form.Write(drawing, &b); err != nil {
				return paths, left, fmt.Errorf("drawing %s: %w", path, err)
			}
			if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
				return paths, left, fmt.Errorf("writing figures: %w", err)
			}
			paths = append(paths, path)
		}
	}
	if len(paths) == 0 {
		return nil, left, fmt.Errorf("drawing figures: there is nothing to draw: %s: %s", left[0].Name, left[0].Reason)
	}
	return paths, left, nil
}
