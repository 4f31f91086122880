package stats

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// A Size is a number of observations and what it gives.
type Size struct {
	Method     string   `json:"method"`
	N          int      `json:"n"`          // observations, or pairs, all of them independent
	Confidence float64  `json:"confidence"` // of the interval, or 1 - alpha of the test
	Width      float64  `json:"width"`      // of the interval with N; 0 for a test
	Power      float64  `json:"power"`      // of the test with N; 0 for an interval
	Warnings   []string `json:"warnings"`
}

// maxSize is more observations than anybody makes, and small enough for an int of
// 32 bits.
const maxSize = 1_000_000_000

// WilsonSize returns the smallest number of observations with which the [Wilson]
// interval around the proportion p is at most width wide, both as fractions of 1:
// Piegorsch, Computational Statistics & Data Analysis 46:309-316 (2004). The widest
// interval is that of p = 0.5.
//
// The error names p outside [0, 1], width outside (0, 1), the confidence, or says that
// more than a thousand million observations are needed.
func WilsonSize(p, width, confidence float64) (Size, error) {
	const method = "sample size for the width of a Wilson interval"
	if err := checkConfidence(method, confidence); err != nil {
		return Size{}, err
	}
	switch {
	case !(p >= 0 && p <= 1):
		return Size{}, fmt.Errorf("%s: p is %v, want 0 to 1", method, p)
	case !(width > 0 && width < 1):
		return Size{}, fmt.Errorf("%s: width is %v, want more than 0 and less than 1", method, width)
	}
	zz := normalQuantile(confidence) * normalQuantile(confidence)
	pq := p * (1 - p)
	widthOf := func(n float64) float64 {
		return 2 * math.Sqrt(zz*(pq*n+zz/4)) / (n + zz)
	}
	// The positive root of width²(n+z²)² = 4z²(pq n + z²/4).
	b := 2*zz*width*width - 4*zz*pq
	root := (-b + math.Sqrt(b*b+4*width*width*zz*zz*(1-width*width))) / (2 * width * width)
	if !(root <= maxSize) {
		return Size{}, fmt.Errorf("%s: width is %v, which takes more than %d observations", method, width, maxSize)
	}
	n := max(1, math.Ceil(root))
	for n > 1 && widthOf(n-1) <= width { // rounding of the root
		n--
	}
	for widthOf(n) > width {
		n++
	}
	s := Size{Method: method, N: int(n), Confidence: confidence, Width: widthOf(n), Warnings: smallSample("n", int(n))}
	return s, nil
}

// McNemarSize returns the number of pairs that gives McNemar's asymptotic test without
// correction the wanted power, by the formula of Connor, Biometrics 43:207-211 (1987), page
// 209, rounded up. pb and pc are the probabilities that only the first or only the second
// member of a pair is positive; alpha is two-sided. Power is the wanted one, as the
// formula is an approximation; [McNemarExactSize] computes.
//
// The error names pb or pc outside [0, 1], their sum above 1 or both equal, alpha or
// power outside (0, 1), or says that the pairs are too many.
func McNemarSize(pb, pc, alpha, power float64) (Size, error) {
	const method = "sample size for McNemar's test, Connor's formula"
	if err := checkPower(method, pb, pc, alpha, power); err != nil {
		return Size{}, err
	}
	discordant, difference := pb+pc, math.Abs(pb-pc)
	root := (normalQuantile(1-alpha)*math.Sqrt(discordant) +
		distuv.UnitNormal.Quantile(power)*math.Sqrt(max(0, discordant-difference*difference))) / difference
	// Power below alpha/2 or so needs no pairs at all by this formula.
	n := math.Ceil(max(0, root) * max(0, root))
	if !(n <= maxSize) {
		return Size{}, fmt.Errorf("%s: pb and pc are %v and %v, which takes more than %d pairs", method, pb, pc, maxSize)
	}
	s := Size{Method: method, N: max(1, int(n)), Confidence: 1 - alpha, Power: power, Warnings: []string{}}
	if expected := float64(s.N) * discordant; expected < fewForNormal {
		s.Warnings = append(s.Warnings, fmt.Sprintf("discordant pairs: %.1f expected, fewer than %d for a normal approximation", expected, fewForNormal))
	}
	return s, nil
}

// maxExactSize bounds the search of [McNemarExactSize], which computes the power of
// every smaller number, and maxExactPower what is computed for one number.
const (
	maxExactSize  = 2000
	maxExactPower = 100_000
)

// McNemarExactPower returns the power of [McNemarExact] with n pairs: the probability
// of a p value of at most alpha, summed over the binomial distributions of the number
// of discordant pairs and of their split; Duffy, Biometrics 40:1005-1015 (1984). No
// number in it is simulated or approximated. n is 1 to 100,000; the other arguments and
// the errors are those of [McNemarSize].
func McNemarExactPower(n int, pb, pc, alpha float64) (Size, error) {
	const method = "power of McNemar's exact conditional test"
	if n < 1 || n > maxExactPower {
		return Size{}, fmt.Errorf("%s: n is %d, want 1 to %d pairs", method, n, maxExactPower)
	}
	if err := checkPower(method, pb, pc, alpha, 0.5); err != nil {
		return Size{}, err
	}
	e := exactPower{pb: pb, pc: pc, alpha: alpha}
	s := Size{Method: method, N: n, Confidence: 1 - alpha, Power: e.of(n), Warnings: []string{}}
	if s.Power == 0 {
		s.Warnings = append(s.Warnings, fmt.Sprintf("too few pairs: no split of %d discordant pairs has an exact p of at most %v", n, alpha))
	}
	return s, nil
}

// McNemarExactSize returns the smallest number of pairs with which
// [McNemarExactPower] is at least power. As the test is discrete, a slightly larger
// number can have slightly less. Arguments and errors are those of [McNemarSize]; it
// gives up above 2000 pairs, where the two hardly differ.
func McNemarExactSize(pb, pc, alpha, power float64) (Size, error) {
	const method = "sample size for McNemar's exact conditional test"
	if err := checkPower(method, pb, pc, alpha, power); err != nil {
		return Size{}, err
	}
	e := exactPower{pb: pb, pc: pc, alpha: alpha}
	for n := 1; n <= maxExactSize; n++ {
		if reached := e.of(n); reached >= power {
			return Size{Method: method, N: n, Confidence: 1 - alpha, Power: reached, Warnings: []string{}}, nil
		}
	}
	return Size{}, fmt.Errorf("%s: pb and pc are %v and %v, which takes more than %d pairs; use the formula", method, pb, pc, maxExactSize)
}

func checkPower(method string, pb, pc, alpha, power float64) error {
	switch {
	case !(pb >= 0 && pb <= 1):
		return fmt.Errorf("%s: pb is %v, want 0 to 1", method, pb)
	case !(pc >= 0 && pc <= 1):
		return fmt.Errorf("%s: pc is %v, want 0 to 1", method, pc)
	case pb+pc > 1:
		return fmt.Errorf("%s: pb + pc is %v, want at most 1", method, pb+pc)
	case pb == pc:
		return fmt.Errorf("%s: pb and pc are both %v, want a difference to find", method, pb)
	case !(alpha > 0 && alpha < 1):
		return fmt.Errorf("%s: alpha is %v, want more than 0 and less than 1", method, alpha)
	case !(power > 0 && power < 1):
		return fmt.Errorf("%s: power is %v, want more than 0 and less than 1", method, power)
	}
	return nil
}

type exactPower struct {
	pb, pc, alpha float64
	critical      []int // by the number of discordant pairs: the largest min(b, c) that is rejected, or -1
}

func (e *exactPower) of(n int) float64 {
	discordant := e.pb + e.pc
	split := e.pb / discordant
	for m := len(e.critical); m <= n; m++ {
		c := -1
		if m > 0 {
			// One more pair moves it by one at most.
			c = e.critical[m-1]
			for 2*half(m).CDF(float64(c+1)) <= e.alpha {
				c++
			}
		}
		e.critical = append(e.critical, c)
	}
	power := 0.0
	for m := n; m > 0; m-- {
		c := float64(e.critical[m])
		if c < 0 {
			break // nor is anything rejected with fewer
		}
		weight := 1.0 // all pairs are discordant
		if discordant < 1 {
			weight = distuv.Binomial{N: float64(n), P: discordant}.Prob(float64(m))
		} else if m < n {
			break
		}
		if weight == 0 {
			continue
		}
		pairs := float64(m)
		power += weight * (distuv.Binomial{N: pairs, P: split}.CDF(c) + distuv.Binomial{N: pairs, P: 1 - split}.CDF(c))
	}
	return min(1, power)
}
