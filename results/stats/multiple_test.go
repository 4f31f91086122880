package stats

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestHolm(t *testing.T) {
	got, err := Holm([]float64{0.01, 0.04, 0.03, 0.005})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{0.03, 0.06, 0.06, 0.02} {
		near(t, "adjusted", got[i], want, 1e-12)
	}
	for _, bad := range []float64{-0.1, 1.1, math.NaN()} {
		if _, err := Holm([]float64{0.5, bad}); err == nil {
			t.Errorf("Holm accepted %v", bad)
		}
	}
}

func TestHolmLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SliceOfN(rapid.Float64Range(0, 1), 0, 20).Draw(t, "p")
		got, err := Holm(p)
		if err != nil {
			t.Fatal(err)
		}
		for i := range p {
			if got[i] < p[i] || got[i] > min(1, float64(len(p))*p[i]) {
				t.Fatalf("adjusted %v of %v is outside p and Bonferroni", got[i], p[i])
			}
			for j := range p {
				if p[i] < p[j] && got[i] > got[j] {
					t.Fatalf("order is not kept: %v, %v", p, got)
				}
			}
		}
		reversed := slices.Clone(p)
		slices.Reverse(reversed)
		again, _ := Holm(reversed)
		slices.Reverse(again)
		for i := range p {
			if math.Abs(got[i]-again[i]) > 1e-12 {
				t.Fatalf("depends on the order given: %v, %v", got, again)
			}
		}
	})
}

// The worked example of Benjamini and Hochberg (1995), p values of Neuhaus et al. (1992): at
// 0.05 the false discovery rate rejects four hypotheses, Bonferroni three; Holm
// rejects the same three (0.0095 * 12 = 0.114).
func TestBenjaminiHochberg1995(t *testing.T) {
	p := []float64{0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.000}
	rejected := func(adjusted []float64, err error) int {
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, v := range adjusted {
			if v <= 0.05 {
				n++
			}
		}
		return n
	}
	if n := rejected(BenjaminiHochberg(p)); n != 4 {
		t.Errorf("Benjamini-Hochberg rejects %d, want 4", n)
	}
	if n := rejected(Holm(p)); n != 3 {
		t.Errorf("Holm rejects %d, want 3", n)
	}
	got, _ := BenjaminiHochberg(p)
	near(t, "fourth", got[3], 0.0095*15/4, 1e-12)
	for _, bad := range []float64{-0.1, 1.1, math.NaN()} {
		_, err := BenjaminiHochberg([]float64{0.5, bad})
		refuses(t, err, "value 1")
	}
}

// Both adjustments reject what the procedures reject by their definitions, step down
// and step up, whatever the level.
func TestAdjustmentsRejectByDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SliceOfN(rapid.Float64Range(0, 1), 1, 20).Draw(t, "p")
		level := rapid.Float64Range(0.001, 0.5).Draw(t, "level")
		holm, err := Holm(p)
		if err != nil {
			t.Fatal(err)
		}
		bh, err := BenjaminiHochberg(p)
		if err != nil {
			t.Fatal(err)
		}
		sorted := slices.Sorted(slices.Values(p))
		m := float64(len(p))
		down := 0
		for down < len(p) && sorted[down] <= level/(m-float64(down)) {
			down++
		}
		up := 0
		for k := len(p); k > 0; k-- {
			if sorted[k-1] <= float64(k)*level/m {
				up = k
				break
			}
		}
		for i, v := range p {
			if math.Abs(holm[i]-level) < 1e-12 || math.Abs(bh[i]-level) < 1e-12 {
				t.Skip("rounding decides")
			}
			if got, want := holm[i] <= level, down > 0 && v <= sorted[down-1]; got != want {
				t.Fatalf("Holm rejects %v of %v at %v: %t, want %t", v, p, level, got, want)
			}
			if got, want := bh[i] <= level, up > 0 && v <= sorted[up-1]; got != want {
				t.Fatalf("Benjamini-Hochberg rejects %v of %v at %v: %t, want %t", v, p, level, got, want)
			}
			if !(v <= bh[i] && bh[i] <= holm[i] && holm[i] <= 1) {
				t.Fatalf("raw %v, Benjamini-Hochberg %v, Holm %v are not in this order", v, bh[i], holm[i])
			}
		}
	})
}
