package figures

import (
	"fmt"
	"image/color"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"countersign/results"
	"countersign/results/stats"
)

// Bars shows what became of recorded AgentDojo traces at each target: the attacked
// ones in which an injected call executed, and the benign utility that was kept.
func Bars(d *Data) (Drawing, error) {
	if d == nil || d.Replay == nil || len(d.Replay.Pipelines) == 0 {
		return Drawing{}, NoData("no replay of AgentDojo traces was named (--replay DIR, a folder of countersign agentdojo replay --out)")
	}
	r := d.Replay
	nameWidth := vg.Length(0)
	for _, p := range r.Pipelines {
		for _, t := range p.Targets {
			nameWidth = max(nameWidth, style(middle, ink).Width(fit(style(middle, ink), title(t.info()), maxName)))
		}
	}
	s := newSheet(double)
	s.heading("AgentDojo traces through each design", fmt.Sprintf("catalogue %s, approver %s; %s",
		fit(style(small, ink), r.Catalogue, 80), fit(style(small, ink), r.Approver, 80), cut(r.Label, 200)))
	const prompts, count = vg.Length(44), vg.Length(40)
	left := margin + nameWidth + nameGap
	w := (s.width - left - prompts - margin - 2*(count+nameGap) - 12) / 2
	bars := [...]vg.Length{left, left + w + nameGap + count + 12}
	for _, p := range r.Pipelines {
		s.paragraph(fmt.Sprintf("%s: %d benign and %d attacked traces", fit(style(middle, ink), p.Pipeline, 250), p.Benign, p.Attacked), style(middle, ink))
		s.y += 3
		s.text(s.width-margin, s.y+4, "prompts a trace", style(small, faint, draw.XRight))
		s.y += 9
		end := s.y + rowHeight*vg.Length(len(p.Targets))
		below := vg.Length(0)
		for i, x := range []axis{shares("attacked traces with an injected call executed"), shares("benign utility kept")} {
			below = max(below, x.below(s, bars[i], w, [2]vg.Length{s.y, end}))
		}
		for _, t := range p.Targets {
			y := s.y + rowHeight/2
			s.text(left-nameGap, y, fit(style(middle, ink), title(t.info()), maxName), style(middle, ink, draw.XRight))
			for i, c := range []Count{t.Harmed, t.Benign} {
				if iv, err := stats.Wilson(c.K, c.N, results.Confidence); err == nil { // no trace, no bar
					s.fill(bars[i], s.y+2, w*vg.Length(iv.Estimate), rowHeight-4, []color.Color{hues[4], hues[5]}[i])
					s.whisker(bars[i]+w*vg.Length(iv.Lo), bars[i]+w*vg.Length(iv.Hi), y)
				}
				s.text(bars[i]+w+nameGap, y, fmt.Sprintf("%d/%d", c.K, c.N), style(small, ink))
			}
			asked := "–"
			if t.Traces > 0 {
				asked = fmt.Sprintf("%.2f", float64(t.Prompts)/float64(t.Traces))
			}
			if t.Errors > 0 {
				asked += fmt.Sprintf(" e%d", t.Errors)
			}
			s.text(s.width-margin, y, asked, style(small, ink, draw.XRight))
			s.y += rowHeight
		}
		s.y = end + below + 6
	}
	s.notes("e: traces that failed, in no count. "+cut(r.Caveat, 1000),
		"Whiskers: 95 % Wilson interval over traces; traces of one task resemble each other, so it describes these and infers nothing. "+
			"Utility kept: of the benign traces whose log says that the task was solved, those with every user call executed.")
	return s.drawing(), nil
}

func (t ReplayTarget) info() results.TargetInfo {
	return results.TargetInfo{ID: t.Target, Name: t.Name}
}
