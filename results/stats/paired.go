package stats

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

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
// min(b, c). The error reports a negative count, or more than a million pairs.
func McNemarExact(b, c int) (Test, error) {
	t, err := newExactTest("McNemar exact conditional", b, c)
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
	t, err := newExactTest("McNemar mid-p", b, c)
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
// freedom. Sources: McNemar, Psychometrika 12:153-157 (1947); Edwards,
// Psychometrika 13:185-187 (1948).
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
	if b+c < fewForNormal {
		t.Warnings = append(t.Warnings, fmt.Sprintf("discordant pairs: %d, fewer than %d for a chi-square approximation", b+c, fewForNormal))
	}
	return t, nil
}

func newExactTest(method string, b, c int) (Test, error) {
	t, err := newTest(method, b, c)
	if err == nil {
		err = checkBinomial(method, "b + c", b+c)
	}
	return t, err
}

func newTest(method string, b, c int) (Test, error) {
	if err := checkDiscordant(method, b, c); err != nil {
		return Test{}, err
	}
	t := Test{Method: method, B: b, C: c, P: 1, Warnings: []string{}}
	if b+c == 0 {
		t.Warnings = append(t.Warnings, "degenerate table: no discordant pairs, p is 1 by convention")
	}
	return t, nil
}

func checkDiscordant(method string, b, c int) error {
	if b < 0 || c < 0 {
		return fmt.Errorf("%s: discordant counts are %d and %d, want none negative", method, b, c)
	}
	return nil
}

func half(n int) distuv.Binomial { return distuv.Binomial{N: float64(n), P: 0.5} }

// Pairs is a paired 2x2 table: how often two conditions on the same unit were both
// positive, only the first (B), only the second (C) or neither.
type Pairs struct {
	Both, B, C, Neither int
}

// NewcombePaired returns the difference of two paired proportions, first minus
// second, which is (B-C)/N, with the score interval of Newcombe, Statistics in
// Medicine 17:2635-2650 (1998), method 10: two Wilson intervals combined with the
// correlation of the two conditions, continuity corrected. N counts the pairs, the
// limits are in [-1, 1].
//
// The error reports a negative count, no pairs, or the confidence.
func NewcombePaired(t Pairs, confidence float64) (Estimate, error) {
	const method = "Newcombe hybrid score, paired (method 10)"
	n := t.Both + t.B + t.C + t.Neither
	switch {
	case t.Both < 0 || t.B < 0 || t.C < 0 || t.Neither < 0:
		return Estimate{}, fmt.Errorf("%s: table is %+v, want no negative count", method, t)
	case n == 0:
		return Estimate{}, fmt.Errorf("%s: table is empty, want at least one pair", method)
	}
	if err := checkConfidence(method, confidence); err != nil {
		return Estimate{}, err
	}
	first, err := Wilson(t.Both+t.B, n, confidence)
	if err != nil {
		return Estimate{}, err
	}
	second, err := Wilson(t.Both+t.C, n, confidence)
	if err != nil {
		return Estimate{}, err
	}
	e := hybrid(first, second, t.correlation())
	e.Method, e.N, e.Warnings = method, n, smallSample("pairs", n)
	if t.B+t.C == 0 {
		e.Warnings = append(e.Warnings, "degenerate table: no discordant pairs, the limits rest on the number of pairs alone")
	}
	return e, nil
}

// correlation is the phi coefficient with Newcombe's continuity correction, 0 where
// a condition is the same in all pairs.
func (t Pairs) correlation() float64 {
	e, f, g, h := float64(t.Both), float64(t.B), float64(t.C), float64(t.Neither)
	margins := math.Sqrt((e+f)*(g+h)) * math.Sqrt((e+g)*(f+h))
	if margins == 0 {
		return 0
	}
	cross := e*h - f*g
	if cross > 0 {
		cross = max(0, cross-(e+f+g+h)/2)
	}
	return cross / margins
}

// OddsRatioExact returns the conditional odds ratio b/c of discordant pairs, the odds
// that it is the first member of a pair that is positive, with the exact conditional
// interval: [ClopperPearson] limits of b of b+c, p, transformed to p/(1-p). See
// Fagerland, Lydersen and Laake, Statistics in Medicine 33:2850-2875 (2014). N is
// b + c; a count of 0 gives a limit of 0 or infinity.
//
// Without discordant pairs the ratio is NaN, the limits are 0 and infinity. The error
// reports a negative count, more than a million pairs, or the confidence.
func OddsRatioExact(b, c int, confidence float64) (Estimate, error) {
	return oddsRatio("odds ratio of discordant pairs, Clopper-Pearson exact", b, c, confidence, ClopperPearson)
}

// OddsRatioMidP is [OddsRatioExact] with [ClopperPearsonMidP] limits: narrower, with
// coverage near the nominal one on average.
func OddsRatioMidP(b, c int, confidence float64) (Estimate, error) {
	return oddsRatio("odds ratio of discordant pairs, Clopper-Pearson mid-p", b, c, confidence, ClopperPearsonMidP)
}

func oddsRatio(method string, b, c int, confidence float64, interval func(k, n int, confidence float64) (Interval, error)) (Estimate, error) {
	if err := checkDiscordant(method, b, c); err != nil {
		return Estimate{}, err
	}
	if err := checkConfidence(method, confidence); err != nil {
		return Estimate{}, err
	}
	e := Estimate{Method: method, N: b + c, Confidence: confidence}
	if b+c == 0 {
		e.Value, e.Lo, e.Hi = math.NaN(), 0, math.Inf(1)
		e.Warnings = []string{"degenerate table: no discordant pairs, the odds ratio is not defined"}
		return e, nil
	}
	iv, err := interval(b, b+c, confidence)
	if err != nil {
		return Estimate{}, err
	}
	e.Value = float64(b) / float64(c) // infinite for c = 0
	e.Lo, e.Hi = iv.Lo/(1-iv.Lo), iv.Hi/(1-iv.Hi)
	e.Warnings = smallSample("discordant pairs", b+c)
	if b == 0 || c == 0 {
		e.Warnings = append(e.Warnings, "degenerate cell: all discordant pairs go one way, one limit is open")
	}
	return e, nil
}
