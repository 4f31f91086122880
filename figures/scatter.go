package figures

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"countersign/results"
)

// Cost shows security against what it costs, one point a target: attack variants
// that did not execute against benign twins that completed, and against how often
// an approver is asked in a benign trial.
func Cost(d *Data) (Drawing, error) {
	a, err := d.matrix()
	if err != nil {
		return Drawing{}, err
	}
	var rows []results.Row
	var missing []string
	for _, r := range a.Rows {
		if r.Success.N == 0 || r.Benign.N == 0 || r.Burden.Trials == 0 {
			missing = append(missing, labelOf(r.Target))
			continue
		}
		rows = append(rows, r)
	}
	if len(rows) == 0 {
		return Drawing{}, NoData("no target has both attack variants and benign twins with an outcome")
	}
	height := planeHeight(len(rows))
	var names []string
	var secure, kept, asked []float64
	for _, r := range rows {
		secure = append(secure, float64(r.Success.N-r.Success.K)/float64(r.Success.N))
		kept = append(kept, float64(r.Benign.K)/float64(r.Benign.N))
		asked = append(asked, r.Burden.PerTrial())
		name := fit(style(small, ink), title(r.Target), maxName-12)
		if r.Success.CannotTell() || r.Benign.CannotTell() {
			name += " (e)"
		}
		names = append(names, name)
	}

	s := newSheet(double)
	s.heading("Security against benign success and burden", fmt.Sprintf("one point a target; %d trials", a.Records))
	up := between("share of attack variants not executed", secure)
	width := s.inner()/2 - 8
	left, right := vg.Length(margin), s.width-margin-width
	for _, x := range []vg.Length{left, right} {
		s.text(x, s.y+4, up.label, style(small, ink))
	}
	s.y += 12
	below := max(
		plane{names: names, x: kept, y: secure, across: shares("share of benign twins completed"), up: up}.paint(s, left, width, height),
		plane{names: names, x: asked, y: secure, across: around("prompts per benign trial", asked...), up: up}.paint(s, right, width, height))
	s.y += height + below
	notes := []string{"Up: fewer attacks execute. Left panel, right: fewer benign twins are hindered. Right panel, left: people are asked less often. " +
		"Targets at one bracket share a point. (e): a trial failed, so the target cannot be judged."}
	if up.lo > 0 || up.hi < 1 {
		notes[0] += " The vertical axis shows a part of the range from 0 to 1."
	}
	if len(missing) > 0 {
		notes = append(notes, "Not placed, for want of an outcome: "+strings.Join(missing, ", ")+".")
	}
	s.notes(append(notes, "The shares describe these variants; they are no inference about others.")...)
	return s.drawing(), nil
}

// A plane holds a named point for each target.
type plane struct {
	names []string
	x, y  []float64
	// across and up are the axes.
	across, up axis
	// curves, if any, lead to the points through these values at the ticks of across.
	curves [][]float64
}

// distance is that of two names.
const distance = small*leading + 0.5

// planeHeight has room for n names.
func planeHeight(n int) vg.Length { return max(130, distance*vg.Length(n)) }

// paint draws the points in a plot with all names to its right, each tied to its
// point by a line, so that no two names touch wherever the points are. It returns
// what the axis takes below the plot.
func (q plane) paint(s *sheet, x, width, height vg.Length) vg.Length {
	const ticks, pad, gap = vg.Length(20), vg.Length(6), vg.Length(20)
	left, top := x+ticks, s.y
	w := width - ticks - gap - widest(q.names)
	s.box(left, top, w, height, nil)
	s.frame()
	for _, t := range q.up.ticks {
		y := top + height - pad - q.up.place(t, height-2*pad)
		s.stroke(left-2, y, left+w, y, 0.4, rule)
		s.text(left-4, y, q.up.name(t), style(small, faint, draw.XRight))
	}
	below := q.across.below(s, left+pad, w-2*pad, [2]vg.Length{top, top + height})
	across := func(v float64) vg.Length { return left + pad + q.across.place(v, w-2*pad) }
	up := func(v float64) vg.Length { return top + height - pad - q.up.place(v, height-2*pad) }
	for i, c := range q.curves {
		line := draw.LineStyle{Color: hues[i%len(hues)], Width: 0.8, Dashes: dashes[i%len(dashes)]}
		s.do(func(p pen) {
			var path []vg.Point
			for j, v := range c {
				path = append(path, p.at(across(q.across.ticks[j]), up(v)))
			}
			p.StrokeLines(line, path)
		})
		for j, v := range c {
			s.marker(across(q.across.ticks[j]), up(v), mark(i))
		}
	}

	// Equal points are one, with several names.
	type group struct {
		x, y  vg.Length
		mark  int // that of its first target, in every plot
		names []string
	}
	var groups []group
	for i := range q.names {
		p := group{across(q.x[i]), up(q.y[i]), i, q.names[i : i+1 : i+1]}
		if j := slices.IndexFunc(groups, func(g group) bool { return g.x == p.x && g.y == p.y }); j >= 0 {
			groups[j].names = append(groups[j].names, q.names[i])
		} else {
			groups = append(groups, p)
		}
	}
	slices.SortStableFunc(groups, func(a, b group) int { return cmp.Or(cmp.Compare(a.y, b.y), cmp.Compare(a.x, b.x)) })
	var want []vg.Length
	for _, g := range groups {
		for i := range g.names {
			want = append(want, g.y+distance*(vg.Length(i)-vg.Length(len(g.names)-1)/2))
		}
	}
	slices.Sort(want)
	at := spread(want, distance, top+distance/2, top+height-distance/2)
	end := left + w + gap - 10
	n := 0
	for _, g := range groups {
		first, last := at[n], at[n+len(g.names)-1]
		n += len(g.names)
		y := (first + last) / 2
		s.stroke(g.x, g.y, left+w+3, y, 0.4, leader)
		s.stroke(left+w+3, y, end, y, 0.4, leader)
		if len(g.names) > 1 {
			s.stroke(end+6, first-2.5, end+6, last+2.5, 0.6, leader)
		}
	}
	n = 0
	for _, g := range groups {
		first, last := at[n], at[n+len(g.names)-1]
		s.marker(g.x, g.y, mark(g.mark))
		s.marker(end, (first+last)/2, mark(g.mark))
		for _, name := range g.names {
			s.text(end+10, at[n], name, style(small, ink))
			n++
		}
	}
	return below
}
