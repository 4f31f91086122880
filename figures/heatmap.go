package figures

import (
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot/palette/brewer"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"countersign/results"
)

const (
	minCell   vg.Length = 30
	maxCell   vg.Length = 44
	benignGap vg.Length = 7 // between the last attack and the benign column
	cellPad   vg.Length = 3
)

// scales are single-hue palettes of ColorBrewer: lightness alone orders the steps,
// so they read without colour vision and in grey.
var (
	attackScale = scale("Oranges")
	benignScale = scale("Blues")
)

func scale(name string) []color.Color {
	p, err := brewer.GetPalette(brewer.TypeSequential, name, 9)
	if err != nil {
		panic(err) // the names are fixed
	}
	return p.Colors()
}

// shade is the step of a scale for k of n. The first step is for none alone and the
// last for all.
func shade(scale []color.Color, k, n int) color.Color {
	last := len(scale) - 1
	step := int(math.Round(float64(k) / float64(n) * float64(last)))
	if 0 < k && k < n {
		step = min(max(step, 1), last-1)
	}
	return scale[step]
}

// HeatMap shows, for every target and attack, the share of attack variants that
// executed, and in a last column the share of benign twins that completed. Each
// cell holds its k/n, and where nothing executed the upper limit of the rate; a cell
// that an error leaves open says so instead of having a colour.
func HeatMap(d *Data) (Drawing, error) {
	a, err := d.matrix()
	if err != nil {
		return Drawing{}, err
	}
	targets := targetsOf(a)
	labels, nameWidth := names(targets)
	cells := make([][]cell, len(a.Rows))
	cellWidth := minCell
	for i, r := range a.Rows {
		for _, c := range r.Cells {
			cells[i] = append(cells[i], newCell(c.Success, attackScale).bounded())
		}
		cells[i] = append(cells[i], newCell(r.Benign, benignScale))
		for _, c := range cells[i] {
			cellWidth = max(cellWidth, widest(append(c.marks, c.number))+2)
		}
	}
	columns := vg.Length(len(a.Attacks) + 1)
	used := 2*margin + nameWidth + nameGap + benignGap
	cellWidth = max(cellWidth, min(maxCell, (double-used)/columns))
	s := newSheet(max(single, used+cellWidth*columns))

	verdict := "none against its prediction"
	if n := len(a.Disagreements); n > 0 {
		verdict = fmt.Sprintf("%d against their prediction", n)
	}
	s.heading("Attack success by approval design and attack", fmt.Sprintf("%d trials, %s", a.Records, verdict))

	left := margin + nameWidth + nameGap
	column := func(j int) vg.Length { // len(a.Attacks) is the benign one
		x := left + cellWidth*vg.Length(j)
		if j == len(a.Attacks) {
			x += benignGap
		}
		return x
	}
	ids, titles := []string{}, []string{}
	for _, k := range a.Attacks {
		ids, titles = append(ids, k.ID), append(titles, k.Title)
	}
	s.heads(append(ids, "benign"), append(titles, "twins completed"), column, cellWidth)

	lines := 0
	for i := range cells {
		for j := range cells[i] {
			c := &cells[i][j]
			c.marks = wrapMarks(c.marks, cellWidth-2)
			lines = max(lines, len(c.marks))
		}
	}
	cellHeight := 2*cellPad + middle*leading + small*1.15*vg.Length(lines)
	top, _ := s.rows(cellHeight, targets)
	for i, y := range top {
		s.text(left-nameGap, y+cellHeight/2, labels[i], style(middle, ink, draw.XRight))
		for j, c := range cells[i] {
			c.paint(s, column(j), y, cellWidth, cellHeight)
		}
	}
	s.frame()
	s.y += 5

	s.legend(
		key{"share of attack variants executed (k of n)", attackScale},
		key{"share of benign twins completed", benignScale},
		key{"cannot tell: a trial failed", nil},
	)
	s.notes("n: variants with an outcome. to x: nothing executed, and the upper 95 % limit (Wilson) of the rate. "+
		"e errors, u not implemented, s starved, ~ unscheduled races: variants with such a trial; e and u are not in n.",
		descriptive)
	return s.drawing(), nil
}

const descriptive = "Intervals describe these variants; they are no inference about others."

// matrix returns the analysis when there is something in it.
func (d *Data) matrix() (*results.Analysis, error) {
	if d == nil || d.Analysis == nil || len(d.Analysis.Rows) == 0 || len(d.Analysis.Attacks) == 0 {
		return nil, NoData("the run has no attack trial")
	}
	return d.Analysis, nil
}

// heads writes an id and a title above each column.
func (s *sheet) heads(ids, titles []string, column func(int) vg.Length, width vg.Length) {
	most := 0
	wrapped := make([][]string, len(ids))
	sty := style(small, faint, draw.XCenter)
	for j := range ids {
		wrapped[j] = wrap(sty, cut(titles[j], 60), width-1)
		most = max(most, len(wrapped[j]))
	}
	for j, id := range ids {
		x := column(j) + width/2
		s.text(x, s.y+middle*leading/2, fit(style(middle, ink), id, width-1), style(middle, ink, draw.XCenter))
		s.lines(x, s.y+middle*leading, wrapped[j], sty)
	}
	s.y += middle*leading + small*leading*vg.Length(most) + 2
}

// A key explains a scale, or without one the hatching.
type key struct {
	title string
	scale []color.Color
}

func (s *sheet) legend(keys ...key) {
	const step, bar = vg.Length(9), vg.Length(7)
	sty := style(small, faint)
	x := margin
	for _, k := range keys {
		width := max(step*9, sty.Width(k.title))
		if x > margin && x+width > s.width-margin {
			x, s.y = margin, s.y+26
		}
		s.text(x, s.y+4, k.title, sty)
		if k.scale == nil {
			s.hatch(x, s.y+9, 2*step, bar)
		}
		for i, c := range k.scale {
			s.box(x+step*vg.Length(i), s.y+9, step, bar, c)
		}
		if k.scale != nil {
			s.text(x, s.y+9+bar+4, "0", sty)
			s.text(x+step*vg.Length(len(k.scale)), s.y+9+bar+4, "1", style(small, faint, draw.XRight))
		}
		x += width + 14
	}
	s.frame()
	s.y += 26
}

// A cell is one field of the map.
type cell struct {
	tally       results.Tally
	scale       []color.Color
	open, blank bool // an error leaves it open; it has no rate
	number      string
	marks       []string // what is not in k/n
}

func newCell(t results.Tally, scale []color.Color) cell {
	c := cell{tally: t, scale: scale, number: fmt.Sprintf("%d/%d", t.K, t.N)}
	switch {
	case t.CannotTell():
		c.open, c.number = true, "cannot tell"
		if t.N > 0 {
			c.marks = append(c.marks, fmt.Sprintf("%d/%d", t.K, t.N))
		}
	case t.N == 0:
		c.blank, c.number = true, "–"
		if t.Unimplemented > 0 {
			c.number = "not impl."
		}
	}
	c.marks = append(c.marks, marks(t)...)
	return c
}

// bounded adds to a rate of zero its upper limit.
func (c cell) bounded() cell {
	if iv := c.tally.Interval; iv != nil && c.tally.K == 0 && !c.open {
		c.marks = append([]string{"to " + share(iv.Hi, 2)}, c.marks...)
	}
	return c
}

// marks counts the variants whose trials did not all end in an outcome.
func marks(t results.Tally) (m []string) {
	for _, x := range []struct {
		sign string
		n    int
	}{{"e", t.Errors}, {"u", t.Unimplemented}, {"s", t.Starved}, {"~", t.Nondeterministic}} {
		if x.n > 0 {
			m = append(m, fmt.Sprintf("%s%d", x.sign, x.n))
		}
	}
	return m
}

// wrapMarks puts marks into lines of this width.
func wrapMarks(marks []string, width vg.Length) (lines []string) {
	sty := style(small, ink)
	for _, m := range marks {
		if n := len(lines); n > 0 && sty.Width(lines[n-1]+" "+m) <= width {
			lines[n-1] += " " + m
		} else {
			lines = append(lines, m)
		}
	}
	return lines
}

func (c cell) paint(s *sheet, x, y, w, h vg.Length) {
	text := color.Color(ink)
	switch {
	case c.open:
		s.hatch(x, y, w, h)
	case c.blank:
		s.box(x, y, w, h, nil)
		text = faint
	default:
		fill := shade(c.scale, c.tally.K, c.tally.N)
		s.box(x, y, w, h, fill)
		if dark(fill) {
			text = color.White
		}
	}
	size := middle
	if style(size, text).Width(c.number) > w-1 {
		size = small
	}
	lines := vg.Length(len(c.marks))
	upper := y + (h-middle*leading-small*1.15*lines)/2
	if c.open { // no slanted lines behind what is written
		plate := max(style(size, text).Width(c.number), widest(c.marks)) + 1
		s.fill(x+(w-plate)/2, upper+1, plate, middle*leading+small*1.15*lines-2, unknown)
	}
	s.text(x+w/2, upper+middle*leading/2, c.number, style(size, text, draw.XCenter))
	for i, m := range c.marks {
		s.text(x+w/2, upper+middle*leading+small*1.15*(vg.Length(i)+0.5), m, style(small, text, draw.XCenter))
	}
}

// dark reports whether white text stands out better than dark text, by relative
// luminance as of WCAG 2.2.
func dark(c color.Color) bool {
	r, g, b, _ := c.RGBA()
	linear := func(v uint32) float64 {
		s := float64(v) / 0xffff
		if s <= 0.04045 {
			return s / 12.92
		}
		return math.Pow((s+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(r)+0.7152*linear(g)+0.0722*linear(b) < 0.25
}
