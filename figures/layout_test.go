package figures

import (
	"fmt"
	"image"
	"image/color"
	"math"
	"slices"
	"testing"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"pgregory.net/rapid"
)

// A label is a text and the space that its glyphs may take.
type label struct {
	text string
	size vg.Length
	box  vg.Rectangle
}

// A segment is a straight line of a stroke.
type segment struct {
	a, b  vg.Point
	color color.Color
}

// A probe is a canvas that keeps where everything is drawn.
type probe struct {
	t        testing.TB
	size     vg.Point
	color    color.Color
	labels   []label
	segments []segment
	marks    []vg.Point // centres of round markers
}

func probed(t testing.TB, d Drawing) *probe {
	p := &probe{t: t, size: vg.Point{X: d.Width, Y: d.Height}}
	d.Paint(draw.NewCanvas(p, d.Width, d.Height))
	return p
}

func (p *probe) Size() (x, y vg.Length)              { return p.size.X, p.size.Y }
func (p *probe) SetLineWidth(vg.Length)              {}
func (p *probe) SetLineDash([]vg.Length, vg.Length)  {}
func (p *probe) SetColor(c color.Color)              { p.color = c }
func (p *probe) Rotate(float64)                      { p.t.Fatal("a figure is rotated; the probe cannot follow") }
func (p *probe) Translate(vg.Point)                  { p.t.Fatal("a figure is moved; the probe cannot follow") }
func (p *probe) Scale(float64, float64)              { p.t.Fatal("a figure is scaled; the probe cannot follow") }
func (p *probe) Push()                               {}
func (p *probe) Pop()                                {}
func (p *probe) DrawImage(vg.Rectangle, image.Image) { p.t.Fatal("a figure holds a picture") }
func (p *probe) Fill(path vg.Path)                   { p.path(path, false) }
func (p *probe) Stroke(path vg.Path)                 { p.path(path, true) }

func (p *probe) FillString(f font.Face, at vg.Point, text string) {
	size := f.Font.Size
	p.labels = append(p.labels, label{text, size, vg.Rectangle{
		Min: vg.Point{X: at.X, Y: at.Y - 0.21*size},
		Max: vg.Point{X: at.X + f.Width(text), Y: at.Y + 0.74*size},
	}})
}

func (p *probe) path(path vg.Path, stroke bool) {
	var first, last vg.Point
	for _, c := range path {
		r := c.Radius
		if x, y := c.Pos.X, c.Pos.Y; c.Type != vg.CloseComp &&
			(!(x-r >= 0 && x+r <= p.size.X && y-r >= 0 && y+r <= p.size.Y)) {
			p.t.Errorf("something is drawn at %v (radius %v), outside of %v", c.Pos, r, p.size)
		}
		to := c.Pos
		switch c.Type {
		case vg.MoveComp:
			first = to
		case vg.CloseComp:
			to = first
		case vg.ArcComp:
			if !stroke {
				p.marks = append(p.marks, c.Pos)
			}
			continue
		}
		if stroke && c.Type != vg.MoveComp {
			p.segments = append(p.segments, segment{last, to, p.color})
		}
		last = to
	}
}

// inset makes a box smaller on every side, or larger.
func inset(r vg.Rectangle, by vg.Length) vg.Rectangle {
	return vg.Rectangle{Min: vg.Point{X: r.Min.X + by, Y: r.Min.Y + by}, Max: vg.Point{X: r.Max.X - by, Y: r.Max.Y - by}}
}

func overlap(a, b vg.Rectangle) bool {
	return a.Min.X < b.Max.X && b.Min.X < a.Max.X && a.Min.Y < b.Max.Y && b.Min.Y < a.Max.Y
}

// crosses reports whether a segment goes through a box.
func crosses(s segment, r vg.Rectangle) bool {
	lo, hi := 0.0, 1.0
	for _, d := range [][3]vg.Length{{s.a.X, s.b.X - s.a.X, 0}, {s.a.Y, s.b.Y - s.a.Y, 1}} {
		from, to := r.Min.X, r.Max.X
		if d[2] == 1 {
			from, to = r.Min.Y, r.Max.Y
		}
		if d[1] == 0 {
			if d[0] <= from || d[0] >= to {
				return false
			}
			continue
		}
		a, b := float64((from-d[0])/d[1]), float64((to-d[0])/d[1])
		lo, hi = max(lo, min(a, b)), min(hi, max(a, b))
	}
	return lo < hi
}

// What is written can be read in print: nothing is smaller than 6 points at the
// width at which the figure is printed, no label touches another one or the edge,
// and no line or marker goes through it.
func TestFiguresAreLegible(t *testing.T) {
	for name, d := range extremes(t) {
		t.Run(name, func(t *testing.T) {
			drawn(t, d, func(t *testing.T, _ string, drawing Drawing) {
				if name != "thirty" && drawing.Width > double+0.01 {
					t.Errorf("%v wide, a page has %v", drawing.Width, double)
				}
				p := probed(t, drawing)
				if len(p.labels) < 5 {
					t.Fatalf("%d labels", len(p.labels))
				}
				paper := vg.Rectangle{Max: p.size}
				for i, l := range p.labels {
					if l.size < 6 {
						t.Errorf("%q is set in %v points", l.text, l.size)
					}
					if r := inset(paper, 2); l.box.Min.X < r.Min.X || l.box.Min.Y < r.Min.Y || l.box.Max.X > r.Max.X || l.box.Max.Y > r.Max.Y {
						t.Errorf("%q at %v leaves the paper, which is %v", l.text, l.box, p.size)
					}
					for _, m := range p.labels[:i] {
						if overlap(inset(l.box, -0.2), m.box) {
							t.Errorf("%q and %q overlap: %v and %v", l.text, m.text, l.box, m.box)
						}
					}
					for _, s := range p.segments {
						// Hatching is pale and behind what is written on it.
						if s.color != hatching && crosses(s, inset(l.box, 0.3)) {
							t.Errorf("a line from %v to %v goes through %q at %v", s.a, s.b, l.text, l.box)
							break
						}
					}
					for _, m := range p.marks {
						if overlap(l.box, vg.Rectangle{Min: vg.Point{X: m.X - 1.5, Y: m.Y - 1.5}, Max: vg.Point{X: m.X + 1.5, Y: m.Y + 1.5}}) {
							t.Errorf("a marker at %v covers %q at %v", m, l.text, l.box)
						}
					}
				}
			})
		})
	}
}

// luminance is that of a colour in grey print, from 0 to 1.
func luminance(c color.Color) float64 {
	g := color.Gray16Model.Convert(c).(color.Gray16)
	return float64(g.Y) / math.MaxUint16
}

// Nothing is told by colour alone: scales get darker step by step, what is written
// on a step stands out, and markers of equal shape differ in more than their hue
// as long as there are not more than shapes.
func TestColoursAreForEverybody(t *testing.T) {
	for name, scale := range map[string][]color.Color{"attack": attackScale, "benign": benignScale} {
		for i := 1; i < len(scale); i++ {
			if luminance(scale[i]) > luminance(scale[i-1])-0.02 {
				t.Errorf("%s: step %d is not darker than the one before it", name, i)
			}
		}
	}
	seen := map[string]bool{}
	for i := range len(hues) * len(shapes) {
		m := mark(i)
		key := fmt.Sprintf("%T %v", m.Shape, m.Color)
		if seen[key] {
			t.Errorf("marker %d is that of another", i)
		}
		seen[key] = true
		for j := range i % len(shapes) {
			if fmt.Sprintf("%T", mark(i-j-1).Shape) == fmt.Sprintf("%T", m.Shape) {
				t.Errorf("markers %d and %d have one shape", i-j-1, i)
			}
		}
	}
	for i := range len(dashes) {
		for j := range i {
			if slices.Equal(dashes[i], dashes[j]) {
				t.Errorf("lines %d and %d have one pattern", i, j)
			}
		}
	}
}

// Labels that are moved apart keep order, distance and range, and stay where they
// are when they had all that.
func TestSpread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const distance, lo = 8.0, 10.0
		n := rapid.IntRange(1, 30).Draw(t, "n")
		hi := lo + distance*float64(n-1) + rapid.Float64Range(0, 300).Draw(t, "room")
		var want []vg.Length
		for range n {
			want = append(want, vg.Length(rapid.Float64Range(lo, hi).Draw(t, "place")))
		}
		slices.Sort(want)
		got := spread(want, distance, lo, vg.Length(hi))
		fine := true
		for i := range got {
			if got[i] < lo-1e-6 || float64(got[i]) > hi+1e-6 {
				t.Fatalf("%v is not from %v to %v", got, lo, hi)
			}
			if i > 0 && got[i]-got[i-1] < distance-1e-6 {
				t.Fatalf("%v are too close", got)
			}
			fine = fine && (i == 0 || want[i]-want[i-1] >= distance)
		}
		if fine && !slices.EqualFunc(got, want, func(a, b vg.Length) bool { return math.Abs(float64(a-b)) < 1e-6 }) {
			t.Fatalf("%v were moved to %v without need", want, got)
		}
	})
}

// An axis holds its values, with a few round ticks.
func TestAxesHoldTheirValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(-1, 1), 1, 5).Draw(t, "values")
		scale := rapid.SampledFrom([]float64{1e-6, 0.01, 1, 1e6}).Draw(t, "scale")
		for i := range values {
			values[i] *= scale
		}
		checkAxis(t, around("", values...), values)
		for i := range values {
			values[i] = min(1, math.Abs(values[i]))
		}
		checkAxis(t, between("", values), values)
	})
}

func checkAxis(t *rapid.T, a axis, values []float64) {
	if len(a.ticks) < 2 || len(a.ticks) > 8 || a.lo >= a.hi || a.ticks[0] < a.lo-1e-9 || a.ticks[len(a.ticks)-1] > a.hi*1.000001+1e-9 {
		t.Fatalf("ticks %v of an axis from %v to %v", a.ticks, a.lo, a.hi)
	}
	for _, v := range values {
		if slack := 1e-6 * (a.hi - a.lo); v < a.lo-slack || v > a.hi+slack {
			t.Fatalf("%v is not on the axis from %v to %v", v, a.lo, a.hi)
		}
	}
}
