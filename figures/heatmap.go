package figures

import (
	"fmt"
	"image/color"
	"math"
	"strings"
	"unicode"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/palette/brewer"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"countersign/results"
)

const (
	cellWidth   vg.Length = 54
	cellHeight  vg.Length = 27
	benignGap   vg.Length = 16 // between the last attack and the benign column
	nameGap     vg.Length = 7
	titleSpace  vg.Length = 44
	legendSpace vg.Length = 66
	headLine    vg.Length = 8.5 // of a title in the column heads
	margin      vg.Length = 12

	heatMapTitle = "Attack success by approval design and attack"
	heatMapNote  = "n: variants with an outcome.  e errors, u not implemented, s starved, ~ unscheduled races: variants with such a trial; e and u are not in n."
)

var (
	ink      = color.NRGBA{0x22, 0x22, 0x22, 0xff}
	faint    = color.NRGBA{0x70, 0x70, 0x70, 0xff}
	unknown  = color.NRGBA{0xe4, 0xe4, 0xe4, 0xff}
	hatching = color.NRGBA{0xb8, 0xb8, 0xb8, 0xff}
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

// HeatMap shows, for every target and attack, the share of attack variants that
// executed, and in a last column the share of benign twins that completed. Each
// cell holds its k/n; a cell that an error leaves open says so instead of having a
// colour.
func HeatMap(a *results.Analysis) (Drawing, error) {
	if a == nil || len(a.Rows) == 0 || len(a.Attacks) == 0 {
		return Drawing{}, errEmpty
	}
	var cells []cell
	names, longest := make([]string, len(a.Rows)), vg.Length(0)
	benignX := cellWidth*vg.Length(len(a.Attacks)) + benignGap
	for i, r := range a.Rows {
		y := cellHeight * vg.Length(i)
		name := r.Target.ID
		if r.Target.Name != name {
			name += "  " + r.Target.Name
		}
		names[i] = plain(name, 30)
		longest = max(longest, style(10, ink).Width(names[i]))
		for j, c := range r.Cells {
			cells = append(cells, cell{cellWidth * vg.Length(j), y, c.Success, attackScale})
		}
		cells = append(cells, cell{benignX, y, r.Benign, benignScale})
	}
	var heads []head
	lines := 0
	for j, k := range a.Attacks {
		heads = append(heads, newHead(cellWidth*vg.Length(j), k.ID, k.Title))
	}
	heads = append(heads, newHead(benignX, "benign", "twins completed"))
	for _, h := range heads {
		lines = max(lines, len(h.title))
	}

	left := longest + nameGap
	top := titleSpace + 14 + headLine*vg.Length(lines) + 2
	// A small table is narrower than its legend.
	width := max(left+benignX+cellWidth, style(8, faint).Width(heatMapNote))
	d := Drawing{Width: 2*margin + width, Height: 2*margin + top + cellHeight*vg.Length(len(a.Rows)) + legendSpace}
	d.Paint = func(c draw.Canvas) {
		c.FillPolygon(color.White, corners(c.Rectangle))
		c = draw.Crop(c, margin, -margin, margin, -margin)
		heading(c, a)
		legend(c)
		origin := vg.Point{X: c.Min.X + left, Y: c.Max.Y - top} // the upper left corner of the cells
		for _, h := range heads {
			h.paint(c, vg.Point{X: origin.X + h.x, Y: origin.Y}, lines)
		}
		sty := style(10, ink)
		sty.XAlign = draw.XRight
		for i, name := range names {
			c.FillText(sty, vg.Point{X: origin.X - nameGap, Y: origin.Y - cellHeight*(vg.Length(i)+0.5)}, name)
		}
		for _, k := range cells {
			corner := vg.Point{X: origin.X + k.x, Y: origin.Y - k.y}
			k.paint(c, vg.Rectangle{Min: vg.Point{X: corner.X, Y: corner.Y - cellHeight}, Max: vg.Point{X: corner.X + cellWidth, Y: corner.Y}})
		}
	}
	return d, nil
}

// head is the head of a column: an id, and a title broken to fit.
type head struct {
	x     vg.Length
	id    string
	title []string
}

func newHead(x vg.Length, id, title string) head {
	h := head{x: x, id: plain(id, 9)}
	sty := style(7, faint)
	for word := range strings.FieldsSeq(plain(title, 60)) {
		last := len(h.title) - 1
		if last >= 0 && sty.Width(h.title[last]+" "+word) < cellWidth {
			h.title[last] += " " + word
			continue
		}
		for n := 15; sty.Width(word) > cellWidth-1; n-- {
			word = plain(word, n)
		}
		h.title = append(h.title, word)
	}
	return h
}

func (h head) paint(c draw.Canvas, corner vg.Point, lines int) {
	x := corner.X + cellWidth/2
	sty := style(10, ink)
	sty.XAlign = draw.XCenter
	c.FillText(sty, vg.Point{X: x, Y: corner.Y + 9 + headLine*vg.Length(lines)}, h.id)
	sty = style(7, faint)
	sty.XAlign = draw.XCenter
	for i, line := range h.title {
		c.FillText(sty, vg.Point{X: x, Y: corner.Y + 6 + headLine*vg.Length(lines-1-i)}, line)
	}
}

func style(size vg.Length, c color.Color) text.Style {
	return text.Style{
		Color:   c,
		Font:    font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, size),
		XAlign:  draw.XLeft,
		YAlign:  draw.YCenter,
		Handler: plot.DefaultTextHandler,
	}
}

func heading(c draw.Canvas, a *results.Analysis) {
	top := style(13, ink)
	top.YAlign = draw.YTop
	c.FillText(top, vg.Point{X: c.Min.X, Y: c.Max.Y}, heatMapTitle)
	sub := style(9, faint)
	sub.YAlign = draw.YTop
	verdict := "none against its prediction"
	if n := len(a.Disagreements); n > 0 {
		verdict = fmt.Sprintf("%d against their prediction", n)
	}
	c.FillText(sub, vg.Point{X: c.Min.X, Y: c.Max.Y - 18}, fmt.Sprintf("%d trials, %s", a.Records, verdict))
}

// legend explains both scales and the marks, below the plot.
func legend(c draw.Canvas) {
	const step, bar = vg.Length(13), vg.Length(9)
	small := style(8, faint)
	x := c.Min.X
	for _, s := range []struct {
		colors []color.Color
		title  string
	}{
		{attackScale, "share of attack variants executed (k of n)"},
		{benignScale, "share of benign twins completed"},
	} {
		y := c.Min.Y + 34
		for i, col := range s.colors {
			box := vg.Rectangle{Min: vg.Point{X: x + step*vg.Length(i), Y: y}, Max: vg.Point{X: x + step*vg.Length(i+1), Y: y + bar}}
			c.FillPolygon(col, corners(box))
			outline(c, box)
		}
		width := step * vg.Length(len(s.colors))
		end := small
		end.XAlign = draw.XRight
		c.FillText(small, vg.Point{X: x, Y: y - 6}, "0")
		c.FillText(end, vg.Point{X: x + width, Y: y - 6}, "1")
		c.FillText(small, vg.Point{X: x, Y: y + bar + 7}, s.title)
		x += max(width, small.Width(s.title)) + 28
	}
	box := vg.Rectangle{Min: vg.Point{X: x, Y: c.Min.Y + 34}, Max: vg.Point{X: x + 2*step, Y: c.Min.Y + 34 + bar}}
	hatch(c, box)
	c.FillText(small, vg.Point{X: x, Y: c.Min.Y + 34 + bar + 7}, "cannot tell: a trial failed")
	c.FillText(small, vg.Point{X: c.Min.X, Y: c.Min.Y + 10},
		heatMapNote)
}

// cell is one field of the map, placed from its upper left corner.
type cell struct {
	x, y  vg.Length
	tally results.Tally
	scale []color.Color
}

func (k cell) paint(c draw.Canvas, box vg.Rectangle) {
	number, shade := fmt.Sprintf("%d/%d", k.tally.K, k.tally.N), ink
	switch {
	case k.tally.CannotTell():
		hatch(c, box)
		number = "cannot tell"
	case k.tally.N == 0:
		outline(c, box)
		number, shade = "–", faint
		if k.tally.Unimplemented > 0 {
			number = "not impl."
		}
	default:
		fill := k.scale[int(math.Round(float64(k.tally.K)/float64(k.tally.N)*float64(len(k.scale)-1)))]
		c.FillPolygon(fill, corners(box))
		outline(c, box)
		if dark(fill) {
			shade = color.NRGBA{0xff, 0xff, 0xff, 0xff}
		}
	}
	centre := vg.Point{X: (box.Min.X + box.Max.X) / 2, Y: (box.Min.Y + box.Max.Y) / 2}
	sty := style(10, shade)
	if len(number) > 5 {
		sty = style(8, shade)
	}
	sty.XAlign = draw.XCenter
	marks := k.marks()
	if marks != "" {
		centre.Y += 5
	}
	c.FillText(sty, centre, number)
	if marks != "" {
		sub := style(7, shade)
		sub.XAlign = draw.XCenter
		c.FillText(sub, vg.Point{X: centre.X, Y: centre.Y - 11}, marks)
	}
}

// marks counts what is not in k/n.
func (k cell) marks() string {
	var m []string
	if k.tally.CannotTell() && k.tally.N > 0 {
		m = append(m, fmt.Sprintf("%d/%d", k.tally.K, k.tally.N))
	}
	for _, x := range []struct {
		sign string
		n    int
	}{{"e", k.tally.Errors}, {"u", k.tally.Unimplemented}, {"s", k.tally.Starved}, {"~", k.tally.Nondeterministic}} {
		if x.n > 0 {
			m = append(m, fmt.Sprintf("%s%d", x.sign, x.n))
		}
	}
	return strings.Join(m, " ")
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

func corners(r vg.Rectangle) []vg.Point {
	return []vg.Point{r.Min, {X: r.Max.X, Y: r.Min.Y}, r.Max, {X: r.Min.X, Y: r.Max.Y}}
}

func outline(c draw.Canvas, r vg.Rectangle) {
	c.StrokeLines(draw.LineStyle{Color: color.NRGBA{0xc8, 0xc8, 0xc8, 0xff}, Width: 0.5}, append(corners(r), r.Min))
}

// hatch fills a rectangle with slanted lines, which show without colour.
func hatch(c draw.Canvas, r vg.Rectangle) {
	c.FillPolygon(unknown, corners(r))
	const gap = vg.Length(5)
	w, h := r.Max.X-r.Min.X, r.Max.Y-r.Min.Y
	for s := gap; s < w+h; s += gap {
		// The line x + y = s, cut at the edges.
		c.StrokeLine2(draw.LineStyle{Color: hatching, Width: 0.5},
			r.Min.X+max(0, s-h), r.Min.Y+min(s, h), r.Min.X+min(s, w), r.Min.Y+max(0, s-w))
	}
	outline(c, r)
}

// plain makes a name fit for a label: what cannot be seen is replaced, and what
// is longer than n characters is cut.
func plain(s string, n int) string {
	runes := []rune(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?' // the font draws nothing for U+FFFD
		}
		return r
	}, strings.TrimSpace(s)))
	if len(runes) > n {
		runes = append(runes[:n-1], '…')
	}
	return string(runes)
}
