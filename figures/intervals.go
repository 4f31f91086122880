package figures

import (
	"fmt"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

const rowHeight vg.Length = 11

// Intervals shows the share of all attack variants that executed, for every target,
// with the Wilson interval. A share of nothing is an open marker with its upper
// limit.
func Intervals(d *Data) (Drawing, error) {
	a, err := d.matrix()
	if err != nil {
		return Drawing{}, err
	}
	targets := targetsOf(a)
	labels, nameWidth := names(targets)
	counts, limits := make([]string, len(a.Rows)), make([]string, len(a.Rows))
	ends := []float64{0}
	for i, r := range a.Rows {
		counts[i] = strings.Join(append([]string{fmt.Sprintf("%d/%d", r.Success.K, r.Success.N)}, marks(r.Success)...), " ")
		limits[i] = "–"
		if iv := r.Success.Interval; iv != nil {
			limits[i] = share(iv.Lo, 3) + " to " + share(iv.Hi, 3)
			ends = append(ends, iv.Hi)
		}
	}
	counts, limits = append(counts, "executed"), append(limits, "95 % interval")
	countWidth, limitWidth := widest(counts), widest(limits)

	left := margin + nameWidth + nameGap
	right := nameGap + 3 + countWidth + nameGap + limitWidth + margin
	s := newSheet(max(single, left+80+right))
	w := s.width - left - right
	s.heading("Attack success with 95 % Wilson intervals", fmt.Sprintf("all families; %d trials; the unit is the attack variant", a.Records))
	countX := left + w + nameGap + 3 + countWidth
	s.text(countX, s.y+4, counts[len(a.Rows)], style(small, faint, draw.XRight))
	s.text(s.width-margin, s.y+4, limits[len(a.Rows)], style(small, faint, draw.XRight))
	s.y += 10

	x := around("share of attack variants executed", ends...)
	top, parts := s.rows(rowHeight, targets)
	below := x.below(s, left, w, parts...)
	for i, r := range a.Rows {
		y := top[i] + rowHeight/2
		s.text(left-nameGap, y, labels[i], style(middle, ink, draw.XRight))
		s.text(countX, y, counts[i], style(small, ink, draw.XRight))
		s.text(s.width-margin, y, limits[i], style(small, ink, draw.XRight))
		iv := r.Success.Interval
		if r.Success.CannotTell() {
			s.hatch(left, top[i]+1.5, w, rowHeight-3)
		}
		if iv == nil {
			continue
		}
		g := draw.GlyphStyle{Color: hues[0], Radius: 1.8, Shape: draw.CircleGlyph{}}
		if r.Success.K == 0 {
			g.Shape = draw.RingGlyph{}
		}
		s.bar(left+x.place(iv.Lo, w), left+x.place(iv.Hi, w), left+x.place(iv.Estimate, w), y, g)
	}
	s.frame()
	s.y += below
	s.notes("Open marker: nothing executed; the bar ends at the upper limit. Hatched: a trial failed, so the target cannot be judged. "+
		"e errors, u not implemented, s starved, ~ unscheduled races: variants with such a trial; e and u are not counted.",
		descriptive)
	return s.drawing(), nil
}

// bar draws an interval with its ends and the estimate on it.
func (s *sheet) bar(lo, hi, estimate, y vg.Length, g draw.GlyphStyle) {
	s.whisker(lo, hi, y)
	s.marker(estimate, y, g)
}

func (s *sheet) whisker(lo, hi, y vg.Length) {
	s.stroke(lo, y, hi, y, 1, ink)
	for _, x := range []vg.Length{lo, hi} {
		s.stroke(x, y-3, x, y+3, 0.8, ink)
	}
}

func widest(texts []string) (w vg.Length) {
	for _, t := range texts {
		w = max(w, style(small, ink).Width(t))
	}
	return w
}
