// Package stats holds the statistics of the lab: pure functions of counts that
// return their warnings with the numbers, so that a caller cannot print one
// without having the other.
//
// It knows nothing of records or targets. Whether a number is an inference or
// only a description of the cases at hand is for the caller to say.
package stats

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// SmallN is the sample size below which an interval carries a warning. It is a
// rule of thumb: at n = 10 a Wilson interval for one half is still 0.53 wide.
const SmallN = 10

// An Interval is a confidence interval of a proportion.
type Interval struct {
	K          int      `json:"k"`          // successes
	N          int      `json:"n"`          // observations, > 0
	Estimate   float64  `json:"estimate"`   // K/N
	Lo         float64  `json:"lo"`         // lower limit, in [0, Estimate]
	Hi         float64  `json:"hi"`         // upper limit, in [Estimate, 1]
	Confidence float64  `json:"confidence"` // nominal two-sided coverage, such as 0.95
	Warnings   []string `json:"warnings"`
}

// Wilson returns the score interval of Wilson (1927) without continuity
// correction, method 3 of Newcombe, Statistics in Medicine 17:857-872 (1998).
//
// The error says which argument is outside 0 <= k <= n, n > 0 or
// 0 < confidence < 1: no observation gives no interval.
func Wilson(k, n int, confidence float64) (Interval, error) {
	switch {
	case n <= 0:
		return Interval{}, fmt.Errorf("wilson interval: n is %d, want at least one observation", n)
	case k < 0 || k > n:
		return Interval{}, fmt.Errorf("wilson interval: k is %d, want 0 to n = %d", k, n)
	case !(confidence > 0 && confidence < 1):
		return Interval{}, fmt.Errorf("wilson interval: confidence is %v, want more than 0 and less than 1", confidence)
	}
	if 2*k > n {
		// One half is computed, the other mirrored, so that the two agree exactly.
		m, err := Wilson(n-k, n, confidence)
		m.K, m.Estimate, m.Lo, m.Hi = k, float64(k)/float64(n), 1-m.Hi, 1-m.Lo
		return m, err
	}
	z := distuv.UnitNormal.Quantile(1 - (1-confidence)/2)
	nf, p := float64(n), float64(k)/float64(n)
	centre := (p + z*z/(2*nf)) / (1 + z*z/nf)
	half := z * math.Sqrt(p*(1-p)/nf+z*z/(4*nf*nf)) / (1 + z*z/nf)
	iv := Interval{
		K: k, N: n, Estimate: p,
		// Rounding must not push a limit across the estimate or out of [0, 1].
		Lo: max(0, min(p, centre-half)), Hi: min(1, max(p, centre+half)),
		Confidence: confidence, Warnings: []string{},
	}
	if k == 0 {
		iv.Lo = 0 // exactly: both terms of the limit are equal
	}
	if n < SmallN {
		iv.Warnings = append(iv.Warnings, fmt.Sprintf("small sample: n = %d is below %d", n, SmallN))
	}
	return iv, nil
}

// A Test is the result of McNemar's test of a paired 2x2 table.
type Test struct {
	Method    string   `json:"method"`
	B         int      `json:"b"` // pairs with only the first member positive
	C         int      `json:"c"` // pairs with only the second member positive
	Statistic float64  `json:"statistic"`
	P         float64  `json:"p"` // two-sided
	Warnings  []string `json:"warnings"`
}

// McNemarExact returns the exact conditional test: the two-sided binomial
// probability of a split at least as uneven as b : c. The statistic is
// min(b, c). The error reports a negative count.
func McNemarExact(b, c int) (Test, error) {
	t, err := newTest("McNemar exact conditional", b, c)
	if err != nil || b+c == 0 {
		return t, err
	}
	t.Statistic = float64(min(b, c))
	t.P = min(1, 2*half(b+c).CDF(t.Statistic))
	if b+c < 6 {
		// 2 * 0.5^5 = 0.0625: not even b = 0 gets below 0.05.
		t.Warnings = append(t.Warnings, fmt.Sprintf("discordant pairs: %d, too few for an exact p below 0.05", b+c))
	}
	return t, nil
}

// McNemarMidP returns the mid-p version of [McNemarExact], which Fagerland,
// Lydersen and Laake, BMC Medical Research Methodology 13:91 (2013) recommend
// over it: the probability of the observed split counts half. With b = c it is
// 1 - f/2, with f the probability of that split.
func McNemarMidP(b, c int) (Test, error) {
	t, err := newTest("McNemar mid-p", b, c)
	if err != nil || b+c == 0 {
		return t, err
	}
	t.Statistic = float64(min(b, c))
	d := half(b + c)
	if b == c {
		t.P = 1 - d.Prob(t.Statistic)/2
	} else {
		t.P = min(1, 2*d.CDF(t.Statistic)) - d.Prob(t.Statistic)
	}
	return t, nil
}

// McNemarChi2 returns the asymptotic test with the statistic (b-c)²/(b+c), or
// (|b-c|-1)²/(b+c) with Edwards's continuity correction, on one degree of
// freedom.
func McNemarChi2(b, c int, corrected bool) (Test, error) {
	name := "McNemar chi-square, uncorrected"
	if corrected {
		name = "McNemar chi-square, continuity corrected"
	}
	t, err := newTest(name, b, c)
	if err != nil || b+c == 0 {
		return t, err
	}
	diff := math.Abs(float64(b) - float64(c))
	if corrected {
		diff = max(0, diff-1)
	}
	t.Statistic = diff * diff / (float64(b) + float64(c))
	t.P = distuv.ChiSquared{K: 1}.Survival(t.Statistic)
	if b+c < 25 {
		t.Warnings = append(t.Warnings, fmt.Sprintf("discordant pairs: %d, fewer than 25 for a chi-square approximation", b+c))
	}
	return t, nil
}

func newTest(method string, b, c int) (Test, error) {
	if b < 0 || c < 0 {
		return Test{}, fmt.Errorf("%s: discordant counts are %d and %d, want none negative", method, b, c)
	}
	t := Test{Method: method, B: b, C: c, P: 1, Warnings: []string{}}
	if b+c == 0 {
		t.Warnings = append(t.Warnings, "degenerate table: no discordant pairs, p is 1 by convention")
	}
	return t, nil
}

func half(n int) distuv.Binomial { return distuv.Binomial{N: float64(n), P: 0.5} }

// Holm returns the p values adjusted for the size of their family by Holm,
// Scandinavian Journal of Statistics 6:65-70 (1979), in the order given. The
// error names the position of a value that is not in [0, 1].
func Holm(p []float64) ([]float64, error) {
	order := make([]int, len(p))
	for i, v := range p {
		if !(v >= 0 && v <= 1) {
			return nil, fmt.Errorf("holm adjustment: value %d is %v, want 0 to 1", i, v)
		}
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case p[a] < p[b]:
			return -1
		case p[a] > p[b]:
			return 1
		}
		return 0
	})
	adjusted := make([]float64, len(p))
	largest := 0.0
	for rank, i := range order {
		largest = max(largest, min(1, float64(len(p)-rank)*p[i]))
		adjusted[i] = largest
	}
	return adjusted, nil
}
