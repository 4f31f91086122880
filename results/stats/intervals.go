package stats

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Wilson returns the score interval of Wilson, Journal of the American Statistical
// Association 22:209-212 (1927), without continuity correction: the proportions that
// a score test does not reject. It is method 3 of Newcombe, Statistics in Medicine
// 17:857-872 (1998). Coverage is near the nominal one on average over proportions,
// and below it for some.
//
// The error says which argument is outside 0 <= k <= n, n > 0 or
// 0 < confidence < 1: no observation gives no interval.
func Wilson(k, n int, confidence float64) (Interval, error) {
	return proportion("Wilson score", k, n, confidence, func(k, n float64) (float64, float64) {
		z := normalQuantile(confidence)
		p := k / n
		centre := (p + z*z/(2*n)) / (1 + z*z/n)
		half := z * math.Sqrt(p*(1-p)/n+z*z/(4*n*n)) / (1 + z*z/n)
		return centre - half, centre + half
	})
}

// WilsonCorrected returns the score interval with continuity correction, method 4 of
// Newcombe, Statistics in Medicine 17:857-872 (1998). It contains the [Wilson]
// interval and is close to [ClopperPearson]. Errors are those of [Wilson].
func WilsonCorrected(k, n int, confidence float64) (Interval, error) {
	return proportion("Wilson score, continuity corrected", k, n, confidence, func(k, n float64) (float64, float64) {
		z := normalQuantile(confidence)
		p, q := k/n, (n-k)/n
		lower := (2*k + z*z - 1 - z*math.Sqrt(z*z-2-1/n+4*p*(n*q+1))) / (2 * (n + z*z))
		upper := (2*k + z*z + 1 + z*math.Sqrt(z*z+2-1/n+4*p*(n*q-1))) / (2 * (n + z*z))
		return lower, upper
	})
}

// ClopperPearson returns the interval of Clopper and Pearson, Biometrika 26:404-413
// (1934), method 5 of Newcombe (1998): the proportions that neither tail of the
// binomial rejects at half of 1 - confidence. Coverage is never below the nominal
// one. Errors are those of [Wilson], and n above a million.
func ClopperPearson(k, n int, confidence float64) (Interval, error) {
	return exact("Clopper-Pearson exact", k, n, confidence, 1)
}

// ClopperPearsonMidP is [ClopperPearson] with the probability of the observed count
// counted half, method 6 of Newcombe (1998). Coverage is near the nominal one on
// average and can fall below it.
func ClopperPearsonMidP(k, n int, confidence float64) (Interval, error) {
	return exact("Clopper-Pearson mid-p", k, n, confidence, 0.5)
}

// exact solves for the proportions at which a tail, with that much of the probability
// of the observed count, is half of 1 - confidence. The tails are beta quantiles, but
// those of the library are wrong for some far ones.
func exact(method string, k, n int, confidence, observed float64) (Interval, error) {
	if err := checkBinomial(method, "n", n); err != nil {
		return Interval{}, err
	}
	tail := (1 - confidence) / 2
	return proportion(method, k, n, confidence, func(k, n float64) (float64, float64) {
		upper := bisect(0, 1, func(p float64) float64 { // falls with p
			d := distuv.Binomial{N: n, P: p}
			return d.CDF(k) - (1-observed)*d.Prob(k) - tail
		})
		if k == 0 {
			return 0, upper
		}
		lower := bisect(0, 1, func(p float64) float64 { // the other tail rises
			d := distuv.Binomial{N: n, P: 1 - p}
			return tail - d.CDF(n-k) + (1-observed)*d.Prob(n-k)
		})
		return lower, upper
	})
}

// proportion computes the half with k <= n/2 and mirrors it for the other, so that
// k and n-k agree exactly; limits is called with k <= n/2 only.
func proportion(method string, k, n int, confidence float64, limits func(k, n float64) (lo, hi float64)) (Interval, error) {
	if err := checkProportion(method, "", k, n); err != nil {
		return Interval{}, err
	}
	if err := checkConfidence(method, confidence); err != nil {
		return Interval{}, err
	}
	if k > n-k {
		m, err := proportion(method, n-k, n, confidence, limits)
		m.K, m.Estimate, m.Lo, m.Hi = k, float64(k)/float64(n), 1-m.Hi, 1-m.Lo
		return m, err
	}
	p := float64(k) / float64(n)
	lo, hi := limits(float64(k), float64(n))
	iv := Interval{
		Method: method, K: k, N: n, Estimate: p,
		// Rounding must not push a limit across the estimate or out of [0, 1].
		Lo: max(0, min(p, lo)), Hi: min(1, max(p, hi)),
		Confidence: confidence, Warnings: smallSample("n", n),
	}
	if k == 0 {
		iv.Lo = 0 // exactly: what the lower limits are by definition
	}
	return iv, nil
}

// NewcombeIndependent returns the difference k1/n1 - k2/n2 of two independent
// proportions with the hybrid score interval of Newcombe, Statistics in Medicine
// 17:873-890 (1998): method 10, made of two Wilson intervals, or method 11 of two
// continuity corrected ones. N is n1 + n2, the limits are in [-1, 1].
//
// The samples have to be independent: for two modes on the same variants use
// [NewcombePaired]. The error says which argument is out of its range.
func NewcombeIndependent(k1, n1, k2, n2 int, confidence float64, corrected bool) (Estimate, error) {
	method, interval := "Newcombe hybrid score, independent (method 10)", Wilson
	if corrected {
		method, interval = "Newcombe hybrid score, independent, continuity corrected (method 11)", WilsonCorrected
	}
	if err := checkProportion(method, "1", k1, n1); err != nil {
		return Estimate{}, err
	}
	if err := checkProportion(method, "2", k2, n2); err != nil {
		return Estimate{}, err
	}
	if err := checkConfidence(method, confidence); err != nil {
		return Estimate{}, err
	}
	a, err := interval(k1, n1, confidence)
	if err != nil {
		return Estimate{}, err
	}
	b, err := interval(k2, n2, confidence)
	if err != nil {
		return Estimate{}, err
	}
	e := hybrid(a, b, 0)
	e.Method, e.N = method, n1+n2
	e.Warnings = append(smallSample("n1", n1), smallSample("n2", n2)...)
	return e, nil
}

// hybrid squares and adds the distances from the estimates of two proportions to
// their limits; correlation is that of the two estimates.
func hybrid(a, b Interval, correlation float64) Estimate {
	value := a.Estimate - b.Estimate
	add := func(x, y float64) float64 {
		return math.Sqrt(max(0, x*x-2*correlation*x*y+y*y))
	}
	return Estimate{
		Value:      value,
		Lo:         max(-1, value-add(a.Estimate-a.Lo, b.Hi-b.Estimate)),
		Hi:         min(1, value+add(a.Hi-a.Estimate, b.Estimate-b.Lo)),
		Confidence: a.Confidence,
	}
}
