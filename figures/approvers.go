package figures

import (
	"fmt"
	"strings"

	"gonum.org/v1/plot/vg"

	"countersign/results"
)

// Curves shows how the attack success of each target depends on who decides.
func Curves(d *Data) (Drawing, error) {
	a, err := d.matrix()
	if err != nil {
		return Drawing{}, err
	}
	if len(d.Approvers) < 2 {
		return Drawing{}, NoData("all attack trials of the run have one approver")
	}
	last := len(d.Approvers) - 1
	q := plane{up: shares("share of attack variants executed"), across: axis{hi: float64(last), label: "approver"}}
	const slot = 40 // of an approver's name
	for i := range d.Approvers {
		q.across.ticks = append(q.across.ticks, float64(i))
	}
	q.across.format = func(v float64) string { return fit(style(small, ink), d.Approvers[int(v)].Name, slot-4) }
	var missing []string
	for i, r := range a.Rows {
		var curve []float64
		for _, p := range d.Approvers {
			if c := p.Executed[i]; c.N > 0 {
				curve = append(curve, float64(c.K)/float64(c.N))
			}
		}
		if len(curve) <= last {
			missing = append(missing, labelOf(r.Target))
			continue
		}
		q.names, q.curves = append(q.names, labelOf(r.Target)), append(q.curves, curve)
		q.x, q.y = append(q.x, float64(last)), append(q.y, curve[last])
	}
	if len(q.names) == 0 {
		return Drawing{}, NoData("no target of the run has an outcome with every approver")
	}
	s := newSheet(max(double, slot*vg.Length(last)+160))
	s.heading("Attack success by approver", fmt.Sprintf("%d trials; approvers by name", a.Records))
	s.text(margin, s.y+4, q.up.label, style(small, ink))
	s.y += 12
	height := planeHeight(len(q.names))
	below := q.paint(s, margin, s.inner(), height)
	s.y += height + below
	notes := []string{"Approvers are models; nothing is said about people. The shares describe these variants; they are no inference about others. " +
		"Targets at one bracket share the last point."}
	if len(missing) > 0 {
		notes = append(notes, "Left out, for want of an outcome with every approver: "+strings.Join(missing, ", ")+".")
	}
	s.notes(notes...)
	return s.drawing(), nil
}

func labelOf(t results.TargetInfo) string { return fit(style(small, ink), title(t), maxName) }
