package figures

import (
	"fmt"
	"image/color"
	"slices"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"countersign/results"
)

// Matrix shows what each binding of a design keeps out: for every family of
// attacks, the variants that go through when it alone is lost, and those that need
// the loss of another too.
func Matrix(d *Data) (Drawing, error) {
	if d == nil || d.Analysis == nil {
		return Drawing{}, NoData("the run has no attack trial")
	}
	b := d.Ablation
	if b == nil {
		return Drawing{}, NoData("the run takes no design apart (countersign run --ablate MODE does)")
	}
	attacks := b.attacks()
	if len(b.Bindings) == 0 || len(attacks) == 0 {
		return Drawing{}, NoData("the ablation of the run has no binding or no attack")
	}
	const height = middle*leading + 2.5
	labels, nameWidth := make([]string, len(b.Bindings)), widest([]string{"variants"})
	starred := false
	for i, name := range b.Bindings {
		labels[i] = fit(style(middle, ink), name, maxName)
		if slices.Contains(b.Essential, name) {
			labels[i] = "* " + labels[i]
			starred = true
		}
		nameWidth = max(nameWidth, style(middle, ink).Width(labels[i]))
	}
	columns := vg.Length(len(attacks) + 1)
	used := 2*margin + nameWidth + nameGap + benignGap
	cellWidth := min(maxCell, max(minCell, (double-used)/columns))
	s := newSheet(max(single, used+cellWidth*columns))
	scope := ""
	if !b.Whole {
		scope = "; a part of the catalogue, which says nothing about the whole"
	}
	name := fit(style(large, ink), title(d.of(b.Target)), 100)
	s.heading("What each binding of "+name+" keeps out", fmt.Sprintf("attack variants that go through without it, by family%s", scope))

	left := margin + nameWidth + nameGap
	column := func(j int) vg.Length {
		x := left + cellWidth*vg.Length(j)
		if j == len(attacks) {
			x += benignGap
		}
		return x
	}
	ids, titles := slices.Clone(attacks), []string{}
	variants, all := []int{}, 0
	for _, id := range attacks {
		n := 0
		for _, v := range b.Variants {
			if v.Attack == id {
				n++
			}
		}
		variants, all = append(variants, n), all+n
		name := ""
		if i := slices.IndexFunc(d.Analysis.Attacks, func(a results.AttackInfo) bool { return a.ID == id }); i >= 0 {
			name = d.Analysis.Attacks[i].Title
		}
		titles = append(titles, name)
	}
	s.heads(append(ids, "all"), append(titles, "families"), column, cellWidth)
	s.text(left-nameGap, s.y+4, "variants", style(small, faint, draw.XRight))
	for j, n := range append(variants, all) {
		s.text(column(j)+cellWidth/2, s.y+4, fmt.Sprint(n), style(small, faint, draw.XCenter))
	}
	s.y += 10
	for i, binding := range b.Bindings {
		y := s.y + height*vg.Length(i)
		s.text(left-nameGap, y+height/2, labels[i], style(middle, ink, draw.XRight))
		sumAlone, sumTogether := 0, 0
		for j, id := range attacks {
			alone, together := b.opened(binding, id)
			sumAlone, sumTogether = sumAlone+alone, sumTogether+together
			s.loss(column(j), y, cellWidth, height, alone, together, variants[j])
		}
		s.loss(column(len(attacks)), y, cellWidth, height, sumAlone, sumTogether, all)
	}
	s.frame()
	s.y += height*vg.Length(len(b.Bindings)) + 5
	s.legend(key{"share of the variants opened by this loss alone", attackScale})
	notes := "k: opened by the loss of this binding alone. +k: further ones, opened only when another binding is lost with it (a minimal cut of two or more)."
	if starred {
		notes += " * without it the rest is no design."
	}
	s.notes(notes)
	return s.drawing(), nil
}

// loss is one field: what goes through of n variants.
func (s *sheet) loss(x, y, w, h vg.Length, alone, together, n int) {
	var fill color.Color
	text := style(small, ink, draw.XCenter)
	if alone > 0 {
		fill = shade(attackScale, alone, n)
		text = style(middle, ink, draw.XCenter)
		if dark(fill) {
			text.Color = paper
		}
	}
	s.box(x, y, w, h, fill)
	var parts []string
	if alone > 0 {
		parts = append(parts, fmt.Sprint(alone))
	}
	if together > 0 {
		parts = append(parts, fmt.Sprintf("+%d", together))
	}
	line := strings.Join(parts, " ")
	if text.Width(line) > w-1 {
		text.Font.Size = small
	}
	s.text(x+w/2, y+h/2, line, text)
}
