package figures

import (
	"fmt"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"countersign/results"
)

// Forest shows each paired comparison with the reference: the difference of the
// shares of attack variants executed, target minus reference.
func Forest(d *Data) (Drawing, error) {
	a, err := d.matrix()
	if err != nil {
		return Drawing{}, err
	}
	var of []results.Comparison
	for _, c := range a.Comparisons {
		if c.Difference != nil {
			of = append(of, c)
		}
	}
	if len(of) == 0 {
		return Drawing{}, NoData("the run has no two targets with attack trials in common, of which one is the reference of its comparisons")
	}
	reference := d.of(of[0].Reference)
	var targets []results.TargetInfo
	var differences, discordant, ps []string
	var at []float64
	var limits [][2]float64
	for _, c := range of {
		targets = append(targets, d.of(c.Target))
		diff, lo, hi := c.Difference.Value, c.Difference.Lo, c.Difference.Hi
		limits = append(limits, [2]float64{lo, hi})
		at = append(at, diff, lo, hi)
		differences = append(differences, fmt.Sprintf("%s (%s to %s)", share(diff, 3), share(lo, 3), share(hi, 3)))
		discordant = append(discordant, fmt.Sprintf("%d : %d of %d", c.C, c.B, c.Variants))
		ps = append(ps, pValue(c.HolmMidP))
	}
	labels, nameWidth := names(targets)
	heads := []string{"difference (95 % interval)", "only target : only " + fit(style(small, ink), reference.ID, 60), "p (Holm)"}
	columns := [][]string{append(differences, heads[0]), append(discordant, heads[1]), append(ps, heads[2])}

	left := margin + nameWidth + nameGap + 4
	right := margin
	for _, c := range columns {
		right += nameGap + 4 + widest(c)
	}
	s := newSheet(max(double, left+120+right))
	w := s.width - left - right
	name := fit(style(large, ink), title(reference), 120)
	s.heading("Paired differences in attack success, target minus "+name,
		fmt.Sprintf("each target beside %s on the same attack variants; family of %d comparisons", name, of[0].Family))
	n := len(of)
	x := left + w
	ends := make([]vg.Length, len(columns))
	for i, c := range columns {
		x += nameGap + 4 + widest(c)
		ends[i] = x
		s.text(x, s.y+4, c[n], style(small, faint, draw.XRight))
	}
	s.y += 10

	scale := around("difference in the share of attack variants executed", at...)
	top, parts := s.rows(rowHeight, targets)
	below := scale.below(s, left, w, parts...)
	for i, c := range of {
		y := top[i] + rowHeight/2
		s.text(left-nameGap-4, y, labels[i], style(middle, ink, draw.XRight))
		for j := range columns {
			s.text(ends[j], y, columns[j][i], style(small, ink, draw.XRight))
		}
		g := draw.GlyphStyle{Color: hues[0], Radius: 1.8, Shape: draw.BoxGlyph{}}
		if c.B+c.C == 0 {
			g.Shape = draw.RingGlyph{}
		}
		place := left + scale.place(c.Difference.Value, w)
		s.bar(left+scale.place(limits[i][0], w), left+scale.place(limits[i][1], w), place, y, g)
	}
	s.y += below
	s.notes("Right of zero: more variants executed than with " + name + ". Open marker: no variant tells the two apart. " +
		"Bars: 95 % interval for paired differences (Newcombe 1998, method 10), each for itself. p: McNemar mid-p, adjusted by Holm over the family. " +
		"Intervals and p describe these variants; they are no inference about others.")
	return s.drawing(), nil
}

func pValue(p float64) string {
	if p < 0.001 {
		return "< 0.001"
	}
	return share(p, 3)
}
