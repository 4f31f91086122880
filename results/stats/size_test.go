package stats

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// The size is the one at which the interval first has the width: with a whole number of
// successes, that of [Wilson] itself.
func TestWilsonSize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 20000).Draw(t, "n")
		k := rapid.IntRange(0, n).Draw(t, "k")
		conf := rapid.Float64Range(0.5, 0.999).Draw(t, "confidence")
		iv, err := Wilson(k, n, conf)
		if err != nil {
			t.Fatal(err)
		}
		s, err := WilsonSize(iv.Estimate, (iv.Hi-iv.Lo)*(1+1e-12), conf)
		if err != nil || s.N != n && s.N != n-1 {
			t.Fatalf("%+v, %v; want %d", s, err, n)
		}
		if math.Abs(s.Width-(iv.Hi-iv.Lo)) > (iv.Hi-iv.Lo)/float64(n) {
			t.Fatalf("width %v, want %v", s.Width, iv.Hi-iv.Lo)
		}
	})
	// By trial over n: the first even number that is narrow enough for one half, and the
	// first number for none.
	for _, width := range []float64{0.05, 0.1, 0.3, 0.9} {
		even, none := 2, 1
		for ; ; even += 2 {
			if iv, _ := Wilson(even/2, even, 0.95); iv.Hi-iv.Lo <= width {
				break
			}
		}
		for ; ; none++ {
			if iv, _ := Wilson(0, none, 0.95); iv.Hi-iv.Lo <= width {
				break
			}
		}
		if s, err := WilsonSize(0.5, width, 0.95); err != nil || s.N != even && s.N != even-1 || s.Width > width {
			t.Errorf("width %v around one half: %+v, %v; want %d or one less", width, s, err, even)
		}
		if s, err := WilsonSize(0, width, 0.95); err != nil || s.N != none || s.Width > width {
			t.Errorf("width %v around none: %+v, %v; want %d", width, s, err, none)
		}
	}
	if s, _ := WilsonSize(0.5, 0.9, 0.95); !warns(s.Warnings, "small sample") {
		t.Errorf("%+v warns of nothing", s)
	}
	for _, c := range []struct {
		p, width, conf float64
		argument       string
	}{{-0.1, .1, .95, "p is"}, {1.1, .1, .95, "p is"}, {math.NaN(), .1, .95, "p is"}, {.5, 0, .95, "width"}, {.5, 1, .95, "width"},
		{.5, math.NaN(), .95, "width"}, {.5, .1, 1, "confidence"}, {.5, 1e-6, .95, "more than 1000000000"}} {
		_, err := WilsonSize(c.p, c.width, c.conf)
		refuses(t, err, c.argument)
	}
}

// Worked examples of the formula of Connor (1987): the sample size calculator of
// HyLown Consulting (powerandsamplesize.com) prints 23 pairs for 0.05 and 0.45, Chow,
// Shao and Wang, Sample Size Calculations in Clinical Research, example 6.4.3, 59 pairs for
// 0.2 and 0.5.
func TestMcNemarSizePublished(t *testing.T) {
	for _, c := range []struct {
		pb, pc float64
		want   int
	}{{0.05, 0.45, 23}, {0.2, 0.5, 59}, {0.5, 0.2, 59}} {
		s, err := McNemarSize(c.pb, c.pc, 0.05, 0.8)
		if err != nil || s.N != c.want || s.Power != 0.8 || s.Confidence != 0.95 {
			t.Errorf("%v and %v: %+v, %v; want %d pairs", c.pb, c.pc, s, err, c.want)
		}
	}
	s, _ := McNemarSize(0.05, 0.45, 0.05, 0.8)
	if !warns(s.Warnings, "discordant pairs: 11.5 expected") {
		t.Errorf("23 pairs, half of them discordant, warn of %v", s.Warnings)
	}
}

// power adds the probabilities of all tables of n pairs that the exact test rejects.
func power(n int, pb, pc, alpha float64) float64 {
	sum := 0.0
	for b := 0; b <= n; b++ {
		for c := 0; c <= n-b; c++ {
			if test, err := McNemarExact(b, c); err == nil && test.P <= alpha {
				sum += binomial(b, n, pb) * binomial(c, n-b, min(1, pc/(1-pb)))
			}
		}
	}
	return sum
}

func TestMcNemarExactPower(t *testing.T) {
	for _, c := range []struct {
		n             int
		pb, pc, alpha float64
	}{{1, .2, .3, .05}, {5, .4, .6, .05}, {6, 0, .9, .05}, {12, .3, .7, .05}, {17, .05, .45, .05}, {40, .1, .25, .01}, {40, .5, .5 - 1e-9, .2}, {30, 0, 1, .05}} {
		s, err := McNemarExactPower(c.n, c.pb, c.pc, c.alpha)
		if err != nil {
			t.Fatal(err)
		}
		near(t, "power", s.Power, power(c.n, c.pb, c.pc, c.alpha), 1e-9)
		if other, _ := McNemarExactPower(c.n, c.pc, c.pb, c.alpha); math.Abs(other.Power-s.Power) > 1e-9 {
			t.Errorf("%+v: power %v, with the conditions exchanged %v", c, s.Power, other.Power)
		}
		if none := s.Power == 0; none != warns(s.Warnings, "too few pairs") {
			t.Errorf("%+v: %+v", c, s)
		}
	}
}

func TestMcNemarExactSize(t *testing.T) {
	for _, c := range []struct{ pb, pc, power float64 }{{.05, .45, .8}, {.2, .5, .8}, {.1, .25, .9}, {0, .2, .95}} {
		s, err := McNemarExactSize(c.pb, c.pc, 0.05, c.power)
		if err != nil {
			t.Fatal(err)
		}
		at, _ := McNemarExactPower(s.N, c.pb, c.pc, 0.05)
		before, _ := McNemarExactPower(s.N-1, c.pb, c.pc, 0.05)
		if s.Power != at.Power || at.Power < c.power || before.Power >= c.power {
			t.Errorf("%+v: %+v, power %v, with one pair less %v", c, s, at.Power, before.Power)
		}
		formula, err := McNemarSize(c.pb, c.pc, 0.05, c.power)
		if err != nil || math.Abs(float64(s.N-formula.N)) > 25 {
			t.Errorf("%+v: exact %d pairs, formula %d, %v", c, s.N, formula.N, err)
		}
	}
}

func TestMcNemarSizesRefuse(t *testing.T) {
	for _, c := range []struct {
		pb, pc, alpha, power float64
		argument             string
	}{{-.1, .2, .05, .8, "pb is"}, {math.NaN(), .2, .05, .8, "pb is"}, {.1, 1.2, .05, .8, "pc is"}, {.6, .5, .05, .8, "pb + pc"}, {.2, .2, .05, .8, "both"},
		{.1, .2, 0, .8, "alpha"}, {.1, .2, 1, .8, "alpha"}, {.1, .2, .05, 0, "power"}, {.1, .2, .05, 1, "power"}, {.1, .2, .05, math.NaN(), "power"}} {
		_, err := McNemarSize(c.pb, c.pc, c.alpha, c.power)
		refuses(t, err, c.argument)
		_, err = McNemarExactSize(c.pb, c.pc, c.alpha, c.power)
		refuses(t, err, c.argument)
		if c.argument != "power" {
			_, err = McNemarExactPower(10, c.pb, c.pc, c.alpha)
			refuses(t, err, c.argument)
		}
	}
	_, err := McNemarExactPower(0, .1, .2, .05)
	refuses(t, err, "n is 0")
	_, err = McNemarExactPower(1_000_000, .1, .2, .05)
	refuses(t, err, "n is 1000000")
	_, err = McNemarSize(.1, .1+1e-9, .05, .8)
	refuses(t, err, "takes more than")
	_, err = McNemarExactSize(.0001, .0002, .05, .8)
	refuses(t, err, "takes more than 2000")
}

// Each function of size is monotone where it has to be.
func TestSizesLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pb := rapid.Float64Range(0, 0.4).Draw(t, "pb")
		pc := rapid.Float64Range(0.01, 0.5).Draw(t, "pc")
		alpha := rapid.Float64Range(0.001, 0.2).Draw(t, "alpha")
		wanted := rapid.Float64Range(0.5, 0.99).Draw(t, "power")
		if math.Abs(pb-pc) < 0.01 {
			t.Skip("hardly a difference")
		}
		a, err := McNemarSize(pb, pc, alpha, wanted)
		if err != nil {
			t.Fatal(err)
		}
		for _, more := range []struct{ alpha, power float64 }{{alpha / 2, wanted}, {alpha, wanted + (1-wanted)/2}} {
			if b, err := McNemarSize(pb, pc, more.alpha, more.power); err != nil || b.N < a.N {
				t.Fatalf("%+v, then for more %+v, %v", a, b, err)
			}
		}
		p := rapid.Float64Range(0, 1).Draw(t, "p")
		width := rapid.Float64Range(0.01, 0.9).Draw(t, "width")
		w, err := WilsonSize(p, width, 1-alpha)
		if err != nil {
			t.Fatal(err)
		}
		worst, err := WilsonSize(0.5, width, 1-alpha)
		if err != nil || worst.N < w.N {
			t.Fatalf("one half takes %+v, %v takes %+v, %v", worst, p, w, err)
		}
		if b, err := WilsonSize(1-p, width, 1-alpha); err != nil || b.N != w.N {
			t.Fatalf("%v takes %d, %v takes %d, %v", p, w.N, 1-p, b.N, err)
		}
	})
}
