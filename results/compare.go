package results

import (
	"fmt"

	"countersign/results/stats"
)

// A Comparison is a paired comparison of two targets over attack variants. Only
// pair keys with a conclusive trial of both count; a variant is executed when it
// was in any of them.
type Comparison struct {
	Reference string `json:"reference"`
	Target    string `json:"target"`
	Pairs     int    `json:"pairs"`    // pair keys used, counted for each approver
	Unpaired  int    `json:"unpaired"` // pair keys of either side left out
	Variants  int    `json:"variants"` // the unit
	Both      int    `json:"both"`     // executed against both
	B         int    `json:"b"`        // executed against the reference only
	C         int    `json:"c"`        // executed against the target only
	Neither   int    `json:"neither"`
	// Exact and MidP are McNemar's p values, Holm… the same adjusted for the family.
	Exact     float64 `json:"exact_p"`
	MidP      float64 `json:"mid_p"`
	HolmExact float64 `json:"holm_exact_p"`
	HolmMidP  float64 `json:"holm_mid_p"`
	// Difference is the share executed against the target less that against the
	// reference, with the interval of [stats.NewcombePaired], and Odds the ratio of C to B,
	// with that of [stats.OddsRatioExact].
	Difference  *stats.Estimate `json:"difference"` // nil without variants
	Odds        stats.Estimate  `json:"odds_ratio"`
	Family      int             `json:"family"`      // number of comparisons adjusted for
	Descriptive bool            `json:"descriptive"` // as in [Rate]
	Warnings    []string        `json:"warnings"`
}

func (k *collector) compare(f Family) error {
	ref := k.pairs[f.Reference]
	if ref == nil {
		k.a.Warnings = append(k.a.Warnings, fmt.Sprintf("no comparisons: the reference %s has no attack trials here", f.Reference))
		return nil
	}
	targets := f.Targets
	if len(targets) == 0 {
		for _, r := range k.a.Rows {
			targets = append(targets, r.Target.ID)
		}
	}
	// A planned comparison that cannot be made stays in the family with p = 1: the
	// adjustment is for what was planned, not for what worked out.
	var exact, midp []float64
	var place []int
	for _, t := range targets {
		if t == f.Reference {
			continue
		}
		if k.pairs[t] == nil {
			if len(f.Targets) > 0 {
				k.a.Warnings = append(k.a.Warnings, fmt.Sprintf("no comparison of %s with %s: it has no attack trials here", t, f.Reference))
				exact, midp = append(exact, 1), append(midp, 1)
			}
			continue
		}
		c, err := pair(ref, k.pairs[t])
		if err != nil {
			return err
		}
		c.Reference, c.Target = f.Reference, t
		place = append(place, len(exact))
		k.a.Comparisons = append(k.a.Comparisons, c)
		exact, midp = append(exact, c.Exact), append(midp, c.MidP)
	}
	adjustedExact, err := stats.Holm(exact)
	if err != nil {
		return err
	}
	adjustedMidP, err := stats.Holm(midp)
	if err != nil {
		return err
	}
	for i := range k.a.Comparisons {
		c := &k.a.Comparisons[i]
		c.HolmExact, c.HolmMidP, c.Family = adjustedExact[place[i]], adjustedMidP[place[i]], len(exact)
	}
	return nil
}

// pair compares two targets over the pair keys that both have.
func pair(ref, other map[unit]*outcomes) (Comparison, error) {
	c := Comparison{Descriptive: true, Warnings: []string{}}
	conclusive := func(o *outcomes) bool { return o != nil && o.yes+o.no > 0 && o.errors == 0 }
	type sides struct{ ref, other bool }
	variants := map[unit]sides{}
	for u, o := range ref {
		p := other[u]
		if !conclusive(o) || !conclusive(p) {
			c.Unpaired++
			continue
		}
		c.Pairs++
		u.pair = ""
		s := variants[u]
		variants[u] = sides{s.ref || o.yes > 0, s.other || p.yes > 0}
	}
	for u := range other {
		if ref[u] == nil {
			c.Unpaired++
		}
	}
	for _, s := range variants {
		c.Variants++
		switch {
		case s.ref && s.other:
			c.Both++
		case s.ref:
			c.B++
		case s.other:
			c.C++
		default:
			c.Neither++
		}
	}
	exact, err := stats.McNemarExact(c.B, c.C)
	if err != nil {
		return c, err
	}
	midp, err := stats.McNemarMidP(c.B, c.C)
	if err != nil {
		return c, err
	}
	c.Exact, c.MidP = exact.P, midp.P
	c.Warnings = append(c.Warnings, exact.Warnings...)
	if c.Variants > 0 {
		d, err := stats.NewcombePaired(stats.Pairs{Both: c.Both, B: c.C, C: c.B, Neither: c.Neither}, Confidence)
		if err != nil {
			return c, err
		}
		c.Difference = &d
	}
	if c.Odds, err = stats.OddsRatioExact(c.C, c.B, Confidence); err != nil {
		return c, err
	}
	if c.Variants < stats.SmallN {
		c.Warnings = append(c.Warnings, fmt.Sprintf("small sample: %d variants, fewer than %d", c.Variants, stats.SmallN))
	}
	if c.Unpaired > 0 {
		c.Warnings = append(c.Warnings, fmt.Sprintf("%d pair keys have no conclusive counterpart and are left out", c.Unpaired))
	}
	c.Warnings = append(c.Warnings, "p describes these variants, it is no inference about others")
	return c, nil
}
