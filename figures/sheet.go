package figures

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/image/font/sfnt"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"countersign/results"
)

// Widths of a column and of a page with two, at which figures are printed, and
// sizes of text. None is below [small], which is still read in print.
const (
	single = 85 * vg.Millimeter
	double = 178 * vg.Millimeter

	large  vg.Length = 8.5
	middle vg.Length = 7
	small  vg.Length = 6

	margin  vg.Length = 5
	nameGap vg.Length = 5
	maxName vg.Length = 84 // of a target's name
	leading           = 1.25
)

var (
	ink      = color.NRGBA{0x22, 0x22, 0x22, 0xff}
	faint    = color.NRGBA{0x5c, 0x5c, 0x5c, 0xff}
	paper    = color.NRGBA{0xff, 0xff, 0xff, 0xff}
	rule     = color.NRGBA{0xc8, 0xc8, 0xc8, 0xff}
	unknown  = color.NRGBA{0xe4, 0xe4, 0xe4, 0xff}
	leader   = color.NRGBA{0x88, 0x88, 0x88, 0xff}
	hatching = color.NRGBA{0xa0, 0xa0, 0xa0, 0xff}
)

// hues are those of Okabe and Ito that stand out on white; readers with any
// colour vision tell them apart (Wong, Nature Methods 8:441, 2011).
var hues = []color.Color{
	color.NRGBA{0x00, 0x72, 0xb2, 0xff}, // blue
	color.NRGBA{0xd5, 0x5e, 0x00, 0xff}, // vermilion
	color.NRGBA{0x00, 0x9e, 0x73, 0xff}, // bluish green
	color.NRGBA{0xcc, 0x79, 0xa7, 0xff}, // reddish purple
	color.NRGBA{0xe6, 0x9f, 0x00, 0xff}, // orange
	color.NRGBA{0x56, 0xb4, 0xe9, 0xff}, // sky blue
	color.NRGBA{0x00, 0x00, 0x00, 0xff}, // black
}

var shapes = []draw.GlyphDrawer{
	draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, draw.CrossGlyph{},
	draw.RingGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.PlusGlyph{},
}

// mark is the i-th of 56 markers that differ in shape, in colour or in both.
func mark(i int) draw.GlyphStyle {
	return draw.GlyphStyle{Color: hues[i%len(hues)], Radius: 2.6, Shape: shapes[i%len(shapes)]}
}

// A sheet is a drawing that is made from the top down. Its coordinates are points
// to the right and down from the upper left corner.
type sheet struct {
	width vg.Length
	y     vg.Length // what is above is taken
	ops   []func(p pen)
	boxes [][4]vg.Length // that are to be framed: x, y, width, height
}

// A pen draws a sheet on a canvas.
type pen struct {
	draw.Canvas
}

func (p pen) at(x, y vg.Length) vg.Point { return vg.Point{X: p.Min.X + x, Y: p.Max.Y - y} }

func newSheet(width vg.Length) *sheet { return &sheet{width: width, y: margin} }

// inner is the width between the margins.
func (s *sheet) inner() vg.Length { return s.width - 2*margin }

func (s *sheet) do(op func(p pen)) { s.ops = append(s.ops, op) }

func (s *sheet) drawing() Drawing {
	return Drawing{Width: s.width, Height: s.y + margin, Paint: func(c draw.Canvas) {
		c.FillPolygon(color.White, corners(c.Rectangle))
		for _, op := range s.ops {
			op(pen{c})
		}
	}}
}

// style is text of one size, anchored at its left end, or where align says, and at
// half its height.
func style(size vg.Length, c color.Color, align ...draw.XAlignment) text.Style {
	sty := text.Style{
		Color:   c,
		Font:    font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, size),
		XAlign:  draw.XLeft,
		YAlign:  draw.YCenter,
		Handler: plot.DefaultTextHandler,
	}
	if len(align) > 0 {
		sty.XAlign = align[0]
	}
	return sty
}

// text writes one line; y is at half the height of its capitals and figures.
func (s *sheet) text(x, y vg.Length, line string, sty text.Style) {
	if line != "" {
		up := sty.Font.Size * 0.1 // centred is what the font says, with room for accents
		s.do(func(p pen) { p.FillText(sty, p.at(x, y-up), line) })
	}
}

// lines writes lines one below the other; y is the upper edge of the first.
func (s *sheet) lines(x, y vg.Length, lines []string, sty text.Style) {
	for i, line := range lines {
		s.text(x, y+sty.Font.Size*leading*(vg.Length(i)+0.5), line, sty)
	}
}

// paragraph writes text in the width of the sheet, below what is there.
func (s *sheet) paragraph(str string, sty text.Style) {
	lines := wrap(sty, str, s.inner())
	s.lines(margin, s.y, lines, sty)
	s.y += sty.Font.Size * leading * vg.Length(len(lines))
}

func (s *sheet) heading(title, below string) {
	s.paragraph(title, style(large, ink))
	s.paragraph(below, style(small, faint))
	s.y += 5
}

// notes writes what a reader needs to understand the figure, at its end.
func (s *sheet) notes(notes ...string) {
	s.y += 3
	for _, n := range notes {
		s.y++
		s.paragraph(n, style(small, faint))
	}
}

func (s *sheet) stroke(x0, y0, x1, y1 vg.Length, width vg.Length, c color.Color) {
	s.do(func(p pen) {
		a, b := p.at(x0, y0), p.at(x1, y1)
		p.StrokeLine2(draw.LineStyle{Color: c, Width: width}, a.X, a.Y, b.X, b.Y)
	})
}

// marker draws a glyph. What is below does not shine through an open one.
func (s *sheet) marker(x, y vg.Length, g draw.GlyphStyle) {
	s.do(func(p pen) {
		below := draw.GlyphStyle{Color: paper, Radius: g.Radius}
		switch g.Shape.(type) {
		case draw.RingGlyph:
			below.Shape = draw.CircleGlyph{}
		case draw.SquareGlyph:
			below.Shape = draw.BoxGlyph{}
		case draw.TriangleGlyph:
			below.Shape = draw.PyramidGlyph{}
		}
		if below.Shape != nil {
			p.DrawGlyphNoClip(below, p.at(x, y))
		}
		p.DrawGlyphNoClip(g, p.at(x, y))
	})
}

// fill fills a rectangle from its upper left corner.
func (s *sheet) fill(x, y, w, h vg.Length, c color.Color) {
	s.do(func(p pen) {
		p.FillPolygon(c, corners(vg.Rectangle{Min: p.at(x, y+h), Max: p.at(x+w, y)}))
	})
}

// box fills a rectangle from its upper left corner, if with anything, and has it
// framed.
func (s *sheet) box(x, y, w, h vg.Length, c color.Color) {
	if c != nil {
		s.fill(x, y, w, h, c)
	}
	s.boxes = append(s.boxes, [4]vg.Length{x, y, w, h})
}

// frame draws the frames of all boxes since the last one, as one path, which keeps
// files small.
func (s *sheet) frame() {
	boxes := s.boxes
	s.boxes = nil
	s.do(func(p pen) {
		p.SetLineStyle(draw.LineStyle{Color: rule, Width: 0.4})
		var path vg.Path
		for _, b := range boxes {
			path.Move(p.at(b[0], b[1]))
			for _, c := range [][2]vg.Length{{b[2], 0}, {b[2], b[3]}, {0, b[3]}} {
				path.Line(p.at(b[0]+c[0], b[1]+c[1]))
			}
			path.Close()
		}
		p.Stroke(path)
	})
}

// hatch fills a rectangle with slanted lines, which show without colour.
func (s *sheet) hatch(x, y, w, h vg.Length) {
	s.do(func(p pen) {
		r := vg.Rectangle{Min: p.at(x, y+h), Max: p.at(x+w, y)}
		p.FillPolygon(unknown, corners(r))
		const gap = vg.Length(4)
		for t := gap; t < w+h; t += gap {
			// The line x + y = t, cut at the edges.
			p.StrokeLine2(draw.LineStyle{Color: hatching, Width: 0.4},
				r.Min.X+max(0, t-h), r.Min.Y+min(t, h), r.Min.X+min(t, w), r.Min.Y+max(0, t-w))
		}
	})
	s.boxes = append(s.boxes, [4]vg.Length{x, y, w, h})
}

func corners(r vg.Rectangle) []vg.Point {
	return []vg.Point{r.Min, {X: r.Max.X, Y: r.Min.Y}, r.Max, {X: r.Min.X, Y: r.Max.Y}}
}

// An axis shows numbers from lo to hi.
type axis struct {
	lo, hi float64
	ticks  []float64
	label  string
	format func(v float64) string // of a tick; number when nil
}

// shares is the axis of a proportion.
func shares(label string) axis {
	return axis{lo: 0, hi: 1, ticks: []float64{0, 0.25, 0.5, 0.75, 1}, label: label}
}

// around is an axis with round ticks about all values and zero.
func around(label string, values ...float64) axis {
	lo, hi := min(0, slices.Min(values)), max(0, slices.Max(values))
	if lo == hi {
		hi = 1
	}
	step := math.Pow(10, math.Floor(math.Log10(hi-lo))-1)
	for _, f := range []float64{2, 2.5, 2, 2} { // 2, 5, 10, 20 times the first
		if step *= f; math.Ceil(hi/step)-math.Floor(lo/step) <= 5 {
			break
		}
	}
	a := axis{label: label}
	// A value that is a tick but for rounding needs no further one.
	first, last := math.Ceil(lo/step-1+1e-9), math.Floor(hi/step+1-1e-9)
	for i := first; i <= last; i++ {
		a.ticks = append(a.ticks, i*step)
	}
	a.lo, a.hi = first*step, last*step
	return a
}

// place is where a value is on an axis of this length.
func (a axis) place(v float64, length vg.Length) vg.Length {
	return vg.Length((v-a.lo)/(a.hi-a.lo)) * length
}

func (a axis) name(v float64) string {
	if a.format != nil {
		return a.format(v)
	}
	return number(v)
}

// below draws the axis at the lower edge of a plot from x on that is w wide, and
// grid lines through its parts, which are given by their upper and lower edges. It
// returns what it takes below the plot.
func (a axis) below(s *sheet, x, w vg.Length, parts ...[2]vg.Length) vg.Length {
	end := parts[len(parts)-1][1]
	for _, t := range a.ticks {
		tx := x + a.place(t, w)
		width := vg.Length(0.4)
		if t == 0 {
			width = 0.8
		}
		for _, p := range parts {
			s.stroke(tx, p[0], tx, p[1], width, rule)
		}
		s.stroke(tx, end, tx, end+2, width, rule)
		s.text(tx, end+6, a.name(t), style(small, faint, draw.XCenter))
	}
	lines := wrap(style(small, ink, draw.XCenter), a.label, w)
	s.lines(x+w/2, end+10, lines, style(small, ink, draw.XCenter))
	return 10 + small*leading*vg.Length(len(lines))
}

// number writes a value with four digits, or fewer when they say the same.
func number(v float64) string { return fmt.Sprintf("%.4g", v+0) } // + 0 makes -0 into 0

// share writes a proportion or a difference of two with some decimals, and what is
// too small for these with one digit: nothing but 0 is written 0.
func share(v float64, decimals int) string {
	if v == math.Trunc(v) {
		return fmt.Sprint(v + 0)
	}
	if s := fmt.Sprintf("%.*f", decimals, v); strings.Trim(s, "-0.") != "" {
		return s
	}
	return fmt.Sprintf("%.1g", v)
}

// title is what a target is called in a figure.
func title(t results.TargetInfo) string {
	if t.Name == t.ID || t.Name == "" {
		return t.ID
	}
	return t.ID + " " + t.Name
}

// names makes the titles of targets fit the column of names and returns its width.
func names(targets []results.TargetInfo) ([]string, vg.Length) {
	out, width := make([]string, len(targets)), vg.Length(0)
	for i, t := range targets {
		out[i] = fit(style(middle, ink), title(t), maxName)
		width = max(width, style(middle, ink).Width(out[i]))
	}
	return out, width
}

func targetsOf(a *results.Analysis) []results.TargetInfo {
	out := make([]results.TargetInfo, len(a.Rows))
	for i, r := range a.Rows {
		out[i] = r.Target
	}
	return out
}

// rows gives each target its upper edge, from s.y down, when rows are h high, and
// says from where to where rows are without a gap. A group of targets gets a heading.
// s.y is then the lower edge of the last row.
func (s *sheet) rows(h vg.Length, targets []results.TargetInfo) (top []vg.Length, parts [][2]vg.Length) {
	group, first := "", s.y
	for _, t := range targets {
		if t.Group != group {
			if s.y > first {
				parts = append(parts, [2]vg.Length{first, s.y})
			}
			if group = t.Group; group != "" {
				s.text(margin, s.y+8, fit(style(small, faint), group, s.inner()), style(small, faint))
				s.y += 13
			}
			first = s.y
		}
		top = append(top, s.y)
		s.y += h
	}
	return top, append(parts, [2]vg.Length{first, s.y})
}

// plain makes a name fit for a label: what cannot be seen, what would be set
// upon another character, and what the font lacks is replaced.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if results.Unseen(r) || unicode.Is(unicode.M, r) || !drawable(r) {
			return '?'
		}
		return r
	}, strings.TrimSpace(s))
}

// drawable reports whether the font has the character.
func drawable(r rune) bool {
	var b sfnt.Buffer
	i, err := font.DefaultCache.Lookup(style(small, ink).Font, small).Face.GlyphIndex(&b, r)
	return err == nil && i != 0
}

// fit makes a name a label that is not wider. What is too long lacks its middle:
// names that differ often do so at their end.
func fit(sty text.Style, s string, width vg.Length) string {
	runes := []rune(plain(s))
	if len(runes) < 400 && sty.Width(string(runes)) <= width {
		return string(runes)
	}
	// No label holds as many characters as this.
	n := min(len(runes)-1, 400)
	for {
		head, tail := string(runes[:(n+1)/2]), string(runes[len(runes)-n/2:])
		out := strings.TrimRight(head, " ") + "…" + strings.TrimLeft(tail, " ")
		if n <= 1 || sty.Width(out) <= width {
			return out
		}
		n--
	}
}

// cut shortens to n characters.
func cut(s string, n int) string {
	if runes := []rune(s); len(runes) > n {
		return string(runes[:n-1]) + "…"
	}
	return s
}

// wrap breaks text into lines that are not wider: at white space, behind hyphens,
// and where a word alone is wider, within it.
func wrap(sty text.Style, s string, width vg.Length) []string {
	var out []string
	line := ""
	for word := range strings.FieldsSeq(plain(s)) {
		sep := " "
		for part := range strings.SplitAfterSeq(word, "-") {
			if part == "" {
				continue
			}
			if line != "" && sty.Width(line+sep+part) <= width {
				line += sep + part
				sep = ""
				continue
			}
			if line != "" {
				out = append(out, line)
			}
			sep = ""
			for line = part; sty.Width(line) > width && len([]rune(line)) > 2; {
				runes := []rune(line)
				n := max(len(runes)-3, 2) // no letter stays alone
				for n > 1 && sty.Width(string(runes[:n])+"-") > width {
					n--
				}
				out = append(out, string(runes[:n])+"-")
				line = string(runes[n:])
			}
		}
	}
	if line != "" {
		out = append(out, line)
	}
	return out
}

// between is an axis about shares that leaves out what is far from all of them. It
// does not show less than a tenth of the whole.
func between(label string, values []float64) axis {
	lo, hi := slices.Min(values), slices.Max(values)
	const steps = 5
	for _, step := range []float64{0.02, 0.05, 0.1} {
		first := min(math.Floor(lo/step+1e-9), math.Round(1/step)-steps)
		if hi > (first+steps)*step+1e-9 {
			continue
		}
		a := axis{lo: first * step, hi: (first + steps) * step, label: label}
		for i := range steps + 1 {
			a.ticks = append(a.ticks, (first+float64(i))*step)
		}
		return a
	}
	return shares(label)
}

// spread moves labels, which want to be centred at these places, apart until they
// have this distance, and keeps them between lo and hi. It moves them as little as
// the sum of squares can be. Places are given in ascending order.
func spread(want []vg.Length, distance, lo, hi vg.Length) []vg.Length {
	// Without the distances they only have to stay in order: isotonic regression.
	type pool struct {
		sum vg.Length
		n   int
	}
	mean := func(p pool) vg.Length { return p.sum / vg.Length(p.n) }
	var pools []pool
	for i, w := range want {
		pools = append(pools, pool{w - distance*vg.Length(i), 1})
		for n := len(pools); n > 1 && mean(pools[n-2]) > mean(pools[n-1]); n-- {
			pools[n-2].sum += pools[n-1].sum
			pools[n-2].n += pools[n-1].n
			pools = pools[:n-1]
		}
	}
	out := make([]vg.Length, 0, len(want))
	for _, p := range pools {
		for range p.n {
			i := len(out)
			y := min(max(mean(p), lo), hi-distance*vg.Length(len(want)-1))
			out = append(out, y+distance*vg.Length(i))
		}
	}
	return out
}
