package stats

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func near(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tol) {
		t.Errorf("%s = %v, want %v within %v", what, got, want, tol)
	}
}

// Table I of Newcombe (1998), method 3, to the four decimals printed there.
func TestWilsonNewcombe(t *testing.T) {
	for _, c := range []struct {
		k, n   int
		lo, hi float64
	}{
		{81, 263, 0.2553, 0.3662},
		{15, 148, 0.0624, 0.1605},
		{0, 20, 0.0000, 0.1611},
		{1, 29, 0.0061, 0.1718},
	} {
		iv, err := Wilson(c.k, c.n, 0.95)
		if err != nil {
			t.Fatal(err)
		}
		near(t, "lo", iv.Lo, c.lo, 5e-5)
		near(t, "hi", iv.Hi, c.hi, 5e-5)
		if len(iv.Warnings) != 0 {
			t.Errorf("%d/%d warns: %v", c.k, c.n, iv.Warnings)
		}
	}
}

func TestWilsonWarnsAndRefuses(t *testing.T) {
	iv, err := Wilson(1, 3, 0.95)
	if err != nil || len(iv.Warnings) != 1 {
		t.Errorf("1/3: warnings %v, error %v; want one warning", iv.Warnings, err)
	}
	for _, c := range []struct {
		k, n int
		conf float64
	}{{0, 0, .95}, {-1, 5, .95}, {6, 5, .95}, {1, -1, .95}, {1, 5, 0}, {1, 5, 1}, {1, 5, math.NaN()}} {
		if _, err := Wilson(c.k, c.n, c.conf); err == nil {
			t.Errorf("Wilson(%d, %d, %v) gave an interval", c.k, c.n, c.conf)
		}
	}
}

func TestWilsonLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5000).Draw(t, "n")
		k := rapid.IntRange(0, n).Draw(t, "k")
		conf := rapid.Float64Range(0.5, 0.999).Draw(t, "confidence")
		a, err := Wilson(k, n, conf)
		if err != nil {
			t.Fatal(err)
		}
		m, err := Wilson(n-k, n, conf)
		if err != nil {
			t.Fatal(err)
		}
		if !(0 <= a.Lo && a.Lo <= a.Estimate && a.Estimate <= a.Hi && a.Hi <= 1) {
			t.Fatalf("limits out of order: %+v", a)
		}
		if math.Abs(a.Lo-(1-m.Hi)) > 1e-12 || math.Abs(a.Hi-(1-m.Lo)) > 1e-12 {
			t.Fatalf("not symmetric under k and n-k: %+v, %+v", a, m)
		}
		if k < n {
			b, err := Wilson(k+1, n, conf)
			if err != nil || b.Lo <= a.Lo || b.Hi < a.Hi {
				t.Fatalf("not increasing in k: %+v then %+v", a, b)
			}
		}
	})
}

// Airway hyper-responsiveness (Bentur et al. 2009), 21 children, 1 and 7
// discordant: the worked example of Fagerland, Lydersen and Laake (2013).
func TestMcNemarFagerland(t *testing.T) {
	exact, _ := McNemarExact(1, 7)
	near(t, "exact", exact.P, 0.070, 5e-4)
	mid, _ := McNemarMidP(1, 7)
	near(t, "mid-p", mid.P, 0.039, 5e-4)
	plain, _ := McNemarChi2(1, 7, false)
	near(t, "chi-square", plain.Statistic, 4.5, 1e-12)
	near(t, "asymptotic p", plain.P, 0.034, 5e-4)
	corrected, _ := McNemarChi2(1, 7, true)
	near(t, "corrected p", corrected.P, 0.077, 5e-4)
	if len(plain.Warnings) != 1 {
		t.Errorf("8 discordant pairs give chi-square warnings %v, want one", plain.Warnings)
	}
}

// Approval ratings, Agresti, Categorical Data Analysis: 86 and 150 discordant.
func TestMcNemarAgresti(t *testing.T) {
	plain, _ := McNemarChi2(86, 150, false)
	near(t, "uncorrected", plain.Statistic, 17.36, 5e-3)
	corrected, _ := McNemarChi2(86, 150, true)
	near(t, "corrected", corrected.Statistic, 16.82, 5e-3)
	if len(plain.Warnings) != 0 {
		t.Errorf("236 discordant pairs warn: %v", plain.Warnings)
	}
}

func TestMcNemarEdges(t *testing.T) {
	all := []func(b, c int) (Test, error){McNemarExact, McNemarMidP,
		func(b, c int) (Test, error) { return McNemarChi2(b, c, false) },
		func(b, c int) (Test, error) { return McNemarChi2(b, c, true) }}
	for _, f := range all {
		if got, err := f(0, 0); err != nil || got.P != 1 || len(got.Warnings) != 1 {
			t.Errorf("%s of an empty table: %+v, %v; want p = 1 with a warning", got.Method, got, err)
		}
		if _, err := f(-1, 3); err == nil {
			t.Error("a negative count gave a result")
		}
	}
	// 2 * 0.5^5 and 2 * 0.5^6: the smallest p that five and six pairs can give.
	five, _ := McNemarExact(0, 5)
	near(t, "0:5", five.P, 0.0625, 1e-12)
	six, _ := McNemarExact(6, 0)
	near(t, "6:0", six.P, 0.03125, 1e-12)
	if len(five.Warnings) != 1 || len(six.Warnings) != 0 {
		t.Errorf("warnings %v and %v, want one and none", five.Warnings, six.Warnings)
	}
	// 1 - C(4,2)/2^4/2
	equal, _ := McNemarMidP(2, 2)
	near(t, "mid-p 2:2", equal.P, 0.8125, 1e-12)
}

func TestMcNemarLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.IntRange(0, 400).Draw(t, "b")
		c := rapid.IntRange(0, 400).Draw(t, "c")
		exact, _ := McNemarExact(b, c)
		mid, _ := McNemarMidP(b, c)
		chi, _ := McNemarChi2(b, c, false)
		corrected, _ := McNemarChi2(b, c, true)
		back := []Test{}
		for _, f := range []func(int, int) (Test, error){McNemarExact, McNemarMidP} {
			m, _ := f(c, b)
			back = append(back, m)
		}
		for _, x := range []Test{exact, mid, chi, corrected} {
			if !(x.P >= 0 && x.P <= 1) {
				t.Fatalf("p out of range: %+v", x)
			}
		}
		if exact.P != back[0].P || mid.P != back[1].P {
			t.Fatalf("not symmetric in b and c: %v %v, %v %v", exact.P, back[0].P, mid.P, back[1].P)
		}
		if mid.P > exact.P || corrected.Statistic > chi.Statistic {
			t.Fatalf("mid-p above exact or corrected above uncorrected: %+v %+v", exact, mid)
		}
		if b < c {
			if less, _ := McNemarExact(b, c+1); less.P > exact.P+1e-12 {
				t.Fatalf("a more uneven split has a larger p: %v after %v", less.P, exact.P)
			}
		}
	})
}

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
