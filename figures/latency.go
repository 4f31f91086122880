package figures

import (
	"fmt"
	"math"
	"sort"
	"time"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// dashes tell lines apart without colour.
var dashes = [][]vg.Length{nil, {5, 2}, {1.2, 1.8}, {6, 2, 1.2, 2}, {3, 1.5}}

// ECDF shows for each target which share of its dispatches took at most how long.
func ECDF(d *Data) (Drawing, error) {
	if d == nil || len(d.Latency) == 0 {
		return Drawing{}, NoData("nothing was timed in the run (run --timed does)")
	}
	lo, hi := math.Inf(1), 0.0
	for _, l := range d.Latency {
		lo, hi = min(lo, logNS(l.Took[0])), max(hi, logNS(l.Took[len(l.Took)-1]))
	}
	x := axis{lo: math.Floor(lo), hi: max(math.Ceil(hi), math.Floor(lo)+1), label: "time for a dispatch (logarithmic)",
		format: func(v float64) string { return duration("%.3g", time.Duration(math.Round(math.Pow(10, v)))) }}
	step := math.Ceil((x.hi - x.lo) / 5) // decades; more ticks than six would touch
	for t := x.lo; t < x.hi+step; t += step {
		x.ticks = append(x.ticks, t)
	}
	x.hi = x.ticks[len(x.ticks)-1]

	s := newSheet(single)
	s.heading("Latency of dispatches", "from the approved call to its answer; times are of the machine that ran them")
	s.text(margin, s.y+4, "share of dispatches", style(small, ink))
	s.y += 12
	const ticks, height = vg.Length(18), vg.Length(110)
	left, w, up := margin+ticks, s.inner()-ticks-14, shares("")
	for _, t := range up.ticks {
		y := s.y + height - up.place(t, height)
		s.stroke(left-2, y, left+w, y, 0.4, rule)
		s.text(left-4, y, up.name(t), style(small, faint, draw.XRight))
	}
	top := s.y
	below := x.below(s, left, w, [2]vg.Length{top, top + height})
	for i, l := range d.Latency {
		line := draw.LineStyle{Color: hues[i%len(hues)], Width: 1, Dashes: dashes[i%len(dashes)]}
		// A step for each place where the line is seen to rise.
		var path []vg.Point
		const step = vg.Length(0.5)
		for px := vg.Length(0); px <= w; px += step {
			at := x.lo + float64(px/w)*(x.hi-x.lo)
			n := sort.Search(len(l.Took), func(j int) bool { return logNS(l.Took[j]) > at })
			path = append(path, vg.Point{X: left + px, Y: top + height - up.place(float64(n)/float64(len(l.Took)), height)})
		}
		s.do(func(p pen) {
			on := make([]vg.Point, len(path))
			for j, q := range path {
				on[j] = p.at(q.X, q.Y)
			}
			p.StrokeLines(line, on)
		})
	}
	s.y += height + below + 6
	const row = small*leading + 1
	columns := []vg.Length{s.width - margin - 76, s.width - margin - 36, s.width - margin}
	for j, head := range []string{"dispatches", "median", "99 %"} {
		s.text(columns[j], s.y+row/2, head, style(small, faint, draw.XRight))
	}
	s.y += row
	for i, l := range d.Latency {
		y := s.y + row/2
		line := draw.LineStyle{Color: hues[i%len(hues)], Width: 1, Dashes: dashes[i%len(dashes)]}
		s.do(func(p pen) {
			a, b := p.at(margin, y), p.at(margin+22, y)
			p.StrokeLine2(line, a.X, a.Y, b.X, b.Y)
		})
		s.text(margin+26, y, fit(style(small, ink), title(l.Target), maxName), style(small, ink))
		for j, value := range []string{fmt.Sprint(len(l.Took)), duration("%#.3g", quantile(l.Took, 0.5)), duration("%#.3g", quantile(l.Took, 0.99))} {
			s.text(columns[j], y, value, style(small, ink, draw.XRight))
		}
		s.y += row
	}
	s.notes("Quantile: the smallest time that at least this share of the dispatches did not exceed.")
	return s.drawing(), nil
}

func logNS(t time.Duration) float64 { return math.Log10(max(1, float64(t))) }

// quantile is of times in ascending order.
func quantile(took []time.Duration, q float64) time.Duration {
	return took[max(0, int(math.Ceil(q*float64(len(took))))-1)]
}

// duration writes a time with three digits, in a format for numbers below 100.
func duration(format string, t time.Duration) string {
	for _, u := range []struct {
		of   time.Duration
		name string
	}{{time.Second, "s"}, {time.Millisecond, "ms"}, {time.Microsecond, "µs"}} {
		if v := float64(t) / float64(u.of); v >= 100 {
			return fmt.Sprintf("%.0f %s", v, u.name)
		} else if v >= 1 {
			return fmt.Sprintf(format+" %s", v, u.name)
		}
	}
	return fmt.Sprintf("%d ns", t)
}
