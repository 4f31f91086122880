package stats

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// proportions are the intervals of one proportion.
var proportions = map[string]func(k, n int, confidence float64) (Interval, error){
	"Wilson": Wilson, "WilsonCorrected": WilsonCorrected,
	"ClopperPearson": ClopperPearson, "ClopperPearsonMidP": ClopperPearsonMidP,
}

// Table I of Newcombe, Statistics in Medicine 17:857-872 (1998), methods 3 to 6, to
// the four decimals printed there.
func TestProportionNewcombe(t *testing.T) {
	for _, c := range []struct {
		method string
		k, n   int
		lo, hi float64
	}{
		{"Wilson", 81, 263, 0.2553, 0.3662},
		{"Wilson", 15, 148, 0.0624, 0.1605},
		{"Wilson", 0, 20, 0.0000, 0.1611},
		{"Wilson", 1, 29, 0.0061, 0.1718},
		{"WilsonCorrected", 81, 263, 0.2535, 0.3682},
		{"WilsonCorrected", 15, 148, 0.0598, 0.1644},
		{"WilsonCorrected", 0, 20, 0.0000, 0.2005},
		{"WilsonCorrected", 1, 29, 0.0018, 0.1963},
		{"ClopperPearson", 81, 263, 0.2527, 0.3676},
		{"ClopperPearson", 15, 148, 0.0578, 0.1617},
		{"ClopperPearson", 0, 20, 0.0000, 0.1684},
		{"ClopperPearson", 1, 29, 0.0009, 0.1776},
		{"ClopperPearsonMidP", 81, 263, 0.2544, 0.3658},
		{"ClopperPearsonMidP", 15, 148, 0.0601, 0.1581},
		{"ClopperPearsonMidP", 0, 20, 0.0000, 0.1391},
		{"ClopperPearsonMidP", 1, 29, 0.0017, 0.1585},
		// 13 of 16, Ligaarden et al. (2010): Fagerland, Lydersen and Laake, Statistical
		// Analysis of Contingency Tables (2017), chapter 2.
		{"Wilson", 13, 16, 0.5699, 0.9341},
		{"WilsonCorrected", 13, 16, 0.5369, 0.9503},
		{"ClopperPearson", 13, 16, 0.5435, 0.9595},
		{"ClopperPearsonMidP", 13, 16, 0.5699, 0.9500},
	} {
		iv, err := proportions[c.method](c.k, c.n, 0.95)
		if err != nil {
			t.Fatal(err)
		}
		what := fmt.Sprintf("%s %d/%d", c.method, c.k, c.n)
		near(t, what+" lo", iv.Lo, c.lo, 5e-5)
		near(t, what+" hi", iv.Hi, c.hi, 5e-5)
		if len(iv.Warnings) != 0 || iv.Method == "" || iv.Confidence != 0.95 {
			t.Errorf("%s: method %q, confidence %v, warnings %v", what, iv.Method, iv.Confidence, iv.Warnings)
		}
	}
}

func TestProportionWarnsAndRefuses(t *testing.T) {
	for name, interval := range proportions {
		iv, err := interval(1, 3, 0.95)
		if err != nil || len(iv.Warnings) != 1 || !warns(iv.Warnings, "small sample") {
			t.Errorf("%s of 1/3: warnings %v, error %v; want one warning", name, iv.Warnings, err)
		}
		for _, c := range []struct {
			k, n     int
			conf     float64
			argument string
		}{{0, 0, .95, "n is"}, {1, -1, .95, "n is"}, {-1, 5, .95, "k is"}, {6, 5, .95, "k is"},
			{1, 5, 0, "confidence"}, {1, 5, 1, "confidence"}, {1, 5, math.NaN(), "confidence"}, {1, 5, math.Inf(1), "confidence"}} {
			_, err := interval(c.k, c.n, c.conf)
			refuses(t, err, c.argument)
		}
	}
}

func TestProportionLaws(t *testing.T) {
	for name, interval := range proportions {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				n := rapid.IntRange(1, 5000).Draw(t, "n")
				k := rapid.IntRange(0, n).Draw(t, "k")
				conf := rapid.Float64Range(0.5, 0.999).Draw(t, "confidence")
				get := func(k int, conf float64) Interval {
					iv, err := interval(k, n, conf)
					if err != nil {
						t.Fatal(err)
					}
					return iv
				}
				a, m := get(k, conf), get(n-k, conf)
				if !(0 <= a.Lo && a.Lo <= a.Estimate && a.Estimate <= a.Hi && a.Hi <= 1) {
					t.Fatalf("limits out of order: %+v", a)
				}
				if math.Abs(a.Lo-(1-m.Hi)) > 1e-12 || math.Abs(a.Hi-(1-m.Lo)) > 1e-12 {
					t.Fatalf("not symmetric under k and n-k: %+v, %+v", a, m)
				}
				if wide := get(k, conf+(1-conf)/2); wide.Lo > a.Lo+1e-12 || wide.Hi < a.Hi-1e-12 {
					t.Fatalf("more confidence gives less: %+v then %+v", a, wide)
				}
				if k < n {
					if b := get(k+1, conf); b.Lo <= a.Lo || b.Hi < a.Hi {
						t.Fatalf("not increasing in k: %+v then %+v", a, b)
					}
				}
			})
		})
	}
}

// The limits solve the equations that define them: the score equation, with half a
// unit of correction or without, and the tails of the binomial.
func TestProportionEquations(t *testing.T) {
	const conf = 0.95
	const z = 1.959963984540054
	// above and below are tails without the observed count.
	tails := func(k, n int, p float64) (below, at, above float64) {
		for i := 0; i <= n; i++ {
			switch pr := binomial(i, n, p); {
			case i < k:
				below += pr
			case i == k:
				at = pr
			default:
				above += pr
			}
		}
		return below, at, above
	}
	for _, n := range []int{1, 2, 7, 20, 63} {
		for k := 0; k <= n; k++ {
			for name, interval := range proportions {
				iv, err := interval(k, n, conf)
				if err != nil {
					t.Fatal(err)
				}
				for side, p := range map[string]float64{"lower": iv.Lo, "upper": iv.Hi} {
					if p == 0 || p == 1 {
						if (side == "lower") != (k == 0) && (side == "upper") != (k == n) {
							t.Errorf("%s %d/%d: %s limit is %v", name, k, n, side, p)
						}
						continue
					}
					what := fmt.Sprintf("%s %d/%d, %s limit %v", name, k, n, side, p)
					distance := math.Abs(float64(k)/float64(n) - p)
					below, at, above := tails(k, n, p)
					tail := above
					if side == "upper" {
						tail = below
					}
					switch name {
					case "Wilson":
						near(t, what, distance, z*math.Sqrt(p*(1-p)/float64(n)), 1e-9)
					case "WilsonCorrected":
						near(t, what, distance-0.5/float64(n), z*math.Sqrt(p*(1-p)/float64(n)), 1e-9)
					case "ClopperPearson":
						near(t, what, tail+at, (1-conf)/2, 1e-9)
					case "ClopperPearsonMidP":
						near(t, what, tail+at/2, (1-conf)/2, 1e-9)
					}
				}
			}
		}
	}
}

// Without successes the exact limit is known, however far the tail; the library's
// quantile of the beta distribution misses it here.
func TestClopperPearsonOfNone(t *testing.T) {
	for _, n := range []int{1, 20, 100, 5000, 1_000_000} {
		for _, conf := range []float64{0.01, 0.5, 0.95, 0.999999, 1 - 1e-12, math.Nextafter(1, 0)} {
			tail := (1 - conf) / 2
			for name, from := range map[string]float64{"ClopperPearson": tail, "ClopperPearsonMidP": 2 * tail} {
				iv, err := proportions[name](0, n, conf)
				if err != nil {
					t.Fatal(err)
				}
				want := -math.Expm1(math.Log(from) / float64(n))
				near(t, fmt.Sprintf("%s 0/%d at %v", name, n, conf), iv.Hi, want, 1e-6*want)
			}
		}
	}
	for _, name := range []string{"ClopperPearson", "ClopperPearsonMidP"} {
		_, err := proportions[name](5, 1_000_001, 0.95)
		refuses(t, err, "n is 1000001")
	}
}

// The corrected and the exact interval are the wider ones of their kind.
func TestProportionNested(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 2000).Draw(t, "n")
		k := rapid.IntRange(0, n).Draw(t, "k")
		conf := rapid.Float64Range(0.5, 0.999).Draw(t, "confidence")
		for _, pair := range [][2]string{{"Wilson", "WilsonCorrected"}, {"ClopperPearsonMidP", "ClopperPearson"}} {
			inner, _ := proportions[pair[0]](k, n, conf)
			outer, _ := proportions[pair[1]](k, n, conf)
			if outer.Lo > inner.Lo+1e-12 || outer.Hi < inner.Hi-1e-12 {
				t.Fatalf("%s %+v is not within %s %+v", pair[0], inner, pair[1], outer)
			}
		}
	})
}

// Coverage is computed, not simulated: the probability of the counts whose interval
// contains the proportion, for proportions from 0.005 to 0.995.
func TestProportionCoverage(t *testing.T) {
	for _, c := range []struct {
		method             string
		least, mean, above float64 // least of all proportions, range of the mean
	}{
		// Only the exact interval keeps the nominal level for every proportion.
		{"Wilson", 0.83, 0.945, 0.960},
		{"WilsonCorrected", 0.94, 0.955, 0.990},
		{"ClopperPearson", 0.95, 0.955, 0.990},
		{"ClopperPearsonMidP", 0.90, 0.950, 0.980},
	} {
		for _, n := range []int{10, 20, 50, 100} {
			covers := make([]Interval, n+1)
			for k := range covers {
				iv, err := proportions[c.method](k, n, 0.95)
				if err != nil {
					t.Fatal(err)
				}
				covers[k] = iv
			}
			least, sum, points := 1.0, 0.0, 0
			for p := 0.005; p < 1; p += 0.005 {
				coverage := 0.0
				for k, iv := range covers {
					if iv.Lo <= p && p <= iv.Hi {
						coverage += binomial(k, n, p)
					}
				}
				least, sum, points = min(least, coverage), sum+coverage, points+1
			}
			if mean := sum / float64(points); least < c.least || mean < c.mean || mean > c.above {
				t.Errorf("%s, n = %d: least coverage %.4f, mean %.4f; want at least %v, and %v to %v", c.method, n, least, mean, c.least, c.mean, c.above)
			}
		}
	}
}

// Table II of Newcombe, Statistics in Medicine 17:873-890 (1998), methods 10 and 11.
func TestNewcombeIndependentPublished(t *testing.T) {
	for _, c := range []struct {
		k1, n1, k2, n2         int
		lo, hi, loCorr, hiCorr float64
	}{
		{56, 70, 48, 80, 0.0524, 0.3339, 0.0428, 0.3422},
		{9, 10, 3, 10, 0.1705, 0.8090, 0.1013, 0.8387},
		{6, 7, 2, 7, 0.0582, 0.8062, -0.0290, 0.8423},
		{5, 56, 0, 29, -0.0381, 0.1926, -0.0667, 0.2037},
		{0, 10, 0, 20, -0.1611, 0.2775, -0.2005, 0.3445},
		{0, 10, 0, 10, -0.2775, 0.2775, -0.3445, 0.3445},
		{10, 10, 0, 20, 0.6791, 1.0000, 0.6014, 1.0000},
		{10, 10, 0, 10, 0.6075, 1.0000, 0.5128, 1.0000},
	} {
		what := fmt.Sprintf("%d/%d - %d/%d", c.k1, c.n1, c.k2, c.n2)
		e, err := NewcombeIndependent(c.k1, c.n1, c.k2, c.n2, 0.95, false)
		limits(t, what, e, err, c.lo, c.hi)
		e, err = NewcombeIndependent(c.k1, c.n1, c.k2, c.n2, 0.95, true)
		limits(t, what+" corrected", e, err, c.loCorr, c.hiCorr)
		if e.N != c.n1+c.n2 || e.Confidence != 0.95 {
			t.Errorf("%s: %+v", what, e)
		}
	}
	// High against standard dose of epinephrine, Perondi et al. (2004): Fagerland, Lydersen
	// and Laake, Statistical Analysis of Contingency Tables (2017), chapter 4.
	e, err := NewcombeIndependent(7, 34, 1, 34, 0.95, false)
	limits(t, "7/34 - 1/34", e, err, 0.0189, 0.3404)
}

func TestNewcombeIndependentWarnsAndRefuses(t *testing.T) {
	e, err := NewcombeIndependent(1, 9, 3, 5, 0.95, false)
	if err != nil || !warns(e.Warnings, "small sample: n1 = 9") || !warns(e.Warnings, "small sample: n2 = 5") {
		t.Errorf("warnings %v, error %v", e.Warnings, err)
	}
	for _, c := range []struct {
		k1, n1, k2, n2 int
		conf           float64
		argument       string
	}{{0, 0, 1, 5, .9, "n1"}, {6, 5, 1, 5, .9, "k1"}, {1, 5, 1, 0, .9, "n2"}, {1, 5, -1, 5, .9, "k2"}, {1, 5, 1, 5, math.NaN(), "confidence"}} {
		_, err := NewcombeIndependent(c.k1, c.n1, c.k2, c.n2, c.conf, true)
		refuses(t, err, c.argument)
	}
}

func TestNewcombeIndependentLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n1, n2 := rapid.IntRange(1, 500).Draw(t, "n1"), rapid.IntRange(1, 500).Draw(t, "n2")
		k1, k2 := rapid.IntRange(0, n1).Draw(t, "k1"), rapid.IntRange(0, n2).Draw(t, "k2")
		corrected := rapid.Bool().Draw(t, "corrected")
		get := func(k1, n1, k2, n2 int) Estimate {
			e, err := NewcombeIndependent(k1, n1, k2, n2, 0.95, corrected)
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		a := get(k1, n1, k2, n2)
		if !(-1 <= a.Lo && a.Lo <= a.Value && a.Value <= a.Hi && a.Hi <= 1) {
			t.Fatalf("limits out of order: %+v", a)
		}
		// Exchanging the samples, or successes for failures, turns the sign.
		for _, m := range []Estimate{get(k2, n2, k1, n1), get(n1-k1, n1, n2-k2, n2)} {
			if math.Abs(a.Lo+m.Hi) > 1e-12 || math.Abs(a.Hi+m.Lo) > 1e-12 {
				t.Fatalf("not antisymmetric: %+v, %+v", a, m)
			}
		}
		if k1 < n1 {
			if b := get(k1+1, n1, k2, n2); b.Value <= a.Value || b.Hi < a.Hi-1e-9 {
				t.Fatalf("not increasing in k1: %+v then %+v", a, b)
			}
		}
	})
}

// Computed coverage, as in [TestProportionCoverage].
func TestNewcombeIndependentCoverage(t *testing.T) {
	const n1, n2 = 15, 20
	for _, corrected := range []bool{false, true} {
		var table [n1 + 1][n2 + 1]Estimate
		for k1 := range table {
			for k2 := range table[k1] {
				e, err := NewcombeIndependent(k1, n1, k2, n2, 0.95, corrected)
				if err != nil {
					t.Fatal(err)
				}
				table[k1][k2] = e
			}
		}
		least, sum, points := 1.0, 0.0, 0
		for p1 := 0.05; p1 < 1; p1 += 0.05 {
			for p2 := 0.05; p2 < 1; p2 += 0.05 {
				coverage := 0.0
				for k1 := range table {
					for k2, e := range table[k1] {
						if e.Lo <= p1-p2 && p1-p2 <= e.Hi {
							coverage += binomial(k1, n1, p1) * binomial(k2, n2, p2)
						}
					}
				}
				least, sum, points = min(least, coverage), sum+coverage, points+1
			}
		}
		floor, from, to := 0.91, 0.945, 0.970
		if corrected {
			floor, from, to = 0.95, 0.960, 0.990
		}
		if mean := sum / float64(points); least < floor || mean < from || mean > to {
			t.Errorf("corrected %t: least coverage %.4f, mean %.4f; want at least %v, and %v to %v", corrected, least, mean, floor, from, to)
		}
	}
}
