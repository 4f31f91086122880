package stats

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// CohenKappa returns the agreement of two approvers beyond chance, Cohen, Educational
// and Psychological Measurement 20:37-46 (1960), with the normal interval from the
// standard error of Fleiss, Cohen and Everitt, Psychological Bulletin 72:323-327
// (1969), cut at -1 and 1. table[i][j] counts the cases that the first put into
// category i and the second into category j; N counts the cases.
//
// Where both used one and the same category only, chance agreement is complete and
// kappa is NaN. The error reports a table that is not square, empty or negative
// somewhere, or the confidence.
func CohenKappa(table [][]int, confidence float64) (Estimate, error) {
	const method = "Cohen's kappa"
	n, agreed, used := 0, 0, 0
	for i, row := range table {
		if len(row) != len(table) {
			return Estimate{}, fmt.Errorf("%s: row %d of the table has %d columns, want %d", method, i, len(row), len(table))
		}
		for j, c := range row {
			if c < 0 {
				return Estimate{}, fmt.Errorf("%s: the table has %d in row %d, column %d, want none negative", method, c, i, j)
			}
			n += c
			if i == j {
				agreed += c
			}
			if c > 0 {
				used++
			}
		}
	}
	if n == 0 {
		return Estimate{}, fmt.Errorf("%s: the table is empty, want at least one case", method)
	}
	if err := checkConfidence(method, confidence); err != nil {
		return Estimate{}, err
	}
	e := Estimate{Method: method, N: n, Value: math.NaN(), Lo: math.NaN(), Hi: math.NaN(), Confidence: confidence, Warnings: []string{}}
	if agreed == n && used == 1 {
		e.Warnings = append(e.Warnings, "degenerate table: only one category was used, kappa is not defined")
		return e, nil
	}

	first, second := make([]float64, len(table)), make([]float64, len(table))
	for i, row := range table {
		for j, c := range row {
			p := float64(c) / float64(n)
			first[i] += p
			second[j] += p
		}
	}
	observed, expected := float64(agreed)/float64(n), 0.0
	for i := range first {
		expected += first[i] * second[i]
	}
	kappa := (observed - expected) / (1 - expected)

	// The delta method: what each cell adds, squared, less the mean squared.
	var diagonal, rest float64
	for i, row := range table {
		for j, c := range row {
			p := float64(c) / float64(n)
			if i == j {
				d := 1 - (first[i]+second[i])*(1-kappa)
				diagonal += p * d * d
			} else {
				s := second[i] + first[j]
				rest += p * s * s
			}
		}
	}
	mean := kappa - expected*(1-kappa)
	variance := (diagonal + (1-kappa)*(1-kappa)*rest - mean*mean) / ((1 - expected) * (1 - expected) * float64(n))
	half := normalQuantile(confidence) * math.Sqrt(max(0, variance))
	e.Value, e.Lo, e.Hi = kappa, max(-1, kappa-half), min(1, kappa+half)
	if n < fewForNormal {
		e.Warnings = append(e.Warnings, fmt.Sprintf("small sample: cases = %d, fewer than %d for a normal interval", n, fewForNormal))
	}
	if agreed == n {
		e.Warnings = append(e.Warnings, "degenerate table: agreement is complete, the interval has no width and says nothing about other cases")
	}
	return e, nil
}

// KrippendorffAlpha returns the agreement of any number of approvers on nominal
// categories, 1 - observed/expected disagreement, as in Krippendorff, Content Analysis
// (2nd edition 2004), chapter 11, and Hayes and Krippendorff, Communication Methods and
// Measures 1:77-89 (2007). ratings[u][r] is what approver r said of unit u, "" where
// it said nothing; rows may be of different length. Units with fewer than two ratings
// cannot be compared and are left out with a warning; N counts the others.
//
// The limits are the percentiles of a bootstrap over units, Zapf, Castell, Morawietz
// and Karch, BMC Medical Research Methodology 16:93 (2016). They do not depend on the
// order of units or approvers. Where only one category was used alpha is NaN. The
// error reports that no unit has two ratings, or a member of r.
func KrippendorffAlpha(ratings [][]string, r Resampling) (Estimate, error) {
	const method = "Krippendorff's alpha, nominal, percentile bootstrap over units"
	if err := r.check(method); err != nil {
		return Estimate{}, err
	}
	seen := map[string]int{}
	for _, unit := range ratings {
		for _, category := range unit {
			seen[category] = 0
		}
	}
	delete(seen, "")
	for i, category := range slices.Sorted(maps.Keys(seen)) {
		seen[category] = i
	}
	var units [][]int // how often each category was used, a unit a row
	single := 0
	for _, unit := range ratings {
		counts, rated := make([]int, len(seen)), 0
		for _, category := range unit {
			if category != "" {
				counts[seen[category]]++
				rated++
			}
		}
		if rated >= 2 {
			units = append(units, counts)
		} else {
			single++
		}
	}
	if len(units) == 0 {
		return Estimate{}, fmt.Errorf("%s: no unit has two ratings", method)
	}
	slices.SortFunc(units, slices.Compare)

	e := Estimate{Method: method, N: len(units), Lo: math.NaN(), Hi: math.NaN(), Confidence: r.Confidence, Warnings: []string{}}
	all := make([]int, len(units))
	for i := range all {
		all[i] = i
	}
	e.Value = alpha(units, all)
	if single > 0 {
		e.Warnings = append(e.Warnings, fmt.Sprintf("%d units have fewer than two ratings and are left out", single))
	}
	e.Warnings = append(e.Warnings, smallSample("units", len(units))...)
	if math.IsNaN(e.Value) {
		e.Warnings = append(e.Warnings, "degenerate table: only one category was used, alpha is not defined")
		return e, nil
	}
	if e.Value == 1 {
		e.Warnings = append(e.Warnings, "degenerate table: agreement is complete, the interval has no width and says nothing about other cases")
	}
	replicates, warnings := r.replicates(len(units), func(sample []int) float64 { return alpha(units, sample) })
	e.Warnings = append(e.Warnings, warnings...)
	if len(replicates) > 0 {
		e.Lo, e.Hi = percentiles(replicates, r.Confidence)
	}
	return e, nil
}

// alpha is Krippendorff's coefficient of the units in the sample, NaN where all
// ratings are the same.
func alpha(units [][]int, sample []int) float64 {
	totals := make([]int, len(units[0]))
	n, disagreement := 0, 0.0
	for _, u := range sample {
		m, same := 0, 0
		for c, count := range units[u] {
			totals[c] += count
			m += count
			same += count * count
		}
		n += m
		disagreement += float64(m*m-same) / float64(m-1)
	}
	expected := n * n
	for _, t := range totals {
		expected -= t * t
	}
	if expected == 0 {
		return math.NaN()
	}
	return 1 - float64(n-1)*disagreement/float64(expected)
}
