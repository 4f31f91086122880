// Package figures draws an analysis as SVG and PNG.
//
// A figure is one entry of [All] and reads nothing but the analysis, so every
// name and number in it is one of the run. Equal analyses give equal bytes on one
// platform.
package figures

import (
	"bytes"
	"errors"
	"fmt"
	"image/color"
	"io"
	"os"
	"path/filepath"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"countersign/results"
)

// A Figure turns an analysis into a drawing.
type Figure struct {
	Name  string // of the files, without extension
	Title string
	// Draw prepares the drawing, and fails when the analysis has nothing to show.
	Draw func(a *results.Analysis) (Drawing, error)
}

// A Drawing is a picture of a fixed size.
type Drawing struct {
	Width, Height vg.Length
	Paint         func(c draw.Canvas)
}

// All lists every figure.
func All() []Figure {
	return []Figure{
		{"attack-success", heatMapTitle, HeatMap},
	}
}

// dpi of the PNG form.
const dpi = 144

// SVG writes the drawing as Scalable Vector Graphics. The text stays text, set in
// Liberation Sans or a font of the same widths.
func (d Drawing) SVG(w io.Writer) error {
	c := vgsvg.New(d.Width, d.Height)
	d.Paint(draw.New(c))
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return err
	}
	// Without alternatives a viewer that lacks the font would fall back to a serif.
	_, err := w.Write(bytes.ReplaceAll(b.Bytes(), []byte("font-family:Liberation Sans;"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;")))
	return err
}

// PNG writes the drawing as Portable Network Graphics.
func (d Drawing) PNG(w io.Writer) error {
	c := vgimg.NewWith(vgimg.UseWH(d.Width, d.Height), vgimg.UseDPI(dpi), vgimg.UseBackgroundColor(color.White))
	d.Paint(draw.New(c))
	_, err := vgimg.PngCanvas{Canvas: c}.WriteTo(w)
	return err
}

// Write draws every figure into dir, which it makes when needed, and returns the
// paths of the files. A file is written only when its figure is whole.
func Write(dir string, a *results.Analysis) ([]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("writing figures: %w", err)
	}
	var paths []string
	for _, f := range All() {
		d, err := f.Draw(a)
		if err != nil {
			return paths, fmt.Errorf("drawing figure %s: %w", f.Name, err)
		}
		for _, form := range []struct {
			ext   string
			write func(io.Writer) error
		}{{".svg", d.SVG}, {".png", d.PNG}} {
			var b bytes.Buffer
			path := filepath.Join(dir, f.Name+form.ext)
			if err := form.write(&b); err != nil {
				return paths, fmt.Errorf("drawing %s: %w", path, err)
			}
			if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
				return paths, fmt.Errorf("writing figures: %w", err)
			}
			paths = append(paths, path)
		}
	}
	return paths, nil
}

var errEmpty = errors.New("the analysis has no target or no attack")
