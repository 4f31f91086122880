package stats

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

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
	for _, f := range all[:2] {
		_, err := f(600_000, 500_000)
		refuses(t, err, "b + c is 1100000")
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

// Complete response before and after consolidation therapy, Cavo et al. (2012), 6 and
// 16 discordant: Fagerland, Lydersen and Laake, Statistical Analysis of Contingency
// Tables (2017), chapter 8.
func TestMcNemarCavo(t *testing.T) {
	exact, _ := McNemarExact(6, 16)
	near(t, "exact", exact.P, 0.052479, 5e-7)
	mid, _ := McNemarMidP(6, 16)
	near(t, "mid-p", mid.P, 0.034690, 5e-7)
	plain, _ := McNemarChi2(6, 16, false)
	near(t, "asymptotic p", plain.P, 0.033006, 5e-7)
	corrected, _ := McNemarChi2(6, 16, true)
	near(t, "corrected p", corrected.P, 0.055009, 5e-7)
}

// The exact test rejects a true null hypothesis at most as often as it says, for any
// number of pairs and any share of discordant ones; mid-p more often, and sometimes a
// little above the level. Computed, not simulated.
func TestMcNemarLevel(t *testing.T) {
	for alpha, above := range map[float64]float64{0.01: 1.5, 0.05: 1.15} {
		for _, n := range []int{10, 25, 60} {
			for _, share := range []float64{0.1, 0.3, 0.6, 1} {
				var exact, mid float64
				for m := 0; m <= n; m++ {
					for b := 0; b <= m; b++ {
						pr := binomial(m, n, share) * binomial(b, m, 0.5)
						if x, _ := McNemarExact(b, m-b); x.P <= alpha {
							exact += pr
						}
						if x, _ := McNemarMidP(b, m-b); x.P <= alpha {
							mid += pr
						}
					}
				}
				if exact > alpha || mid < exact || mid > above*alpha {
					t.Errorf("alpha %v, %d pairs, %v discordant: rejected with probability %.5f (exact), %.5f (mid-p)", alpha, n, share, exact, mid)
				}
			}
		}
	}
}

// Newcombe, Statistics in Medicine 17:2635-2650 (1998), method 10, and others who
// print its limits.
func TestNewcombePairedPublished(t *testing.T) {
	for _, c := range []struct {
		table  Pairs
		lo, hi float64
		tol    float64
	}{
		{Pairs{20, 12, 2, 16}, 0.0562, 0.3292, 5e-5}, // Newcombe's own
		// Fagerland, Lydersen and Laake (2014): Bentur et al. (2009); the book of 2017,
		// chapter 8: Cavo et al. (2012).
		{Pairs{1, 1, 7, 12}, -0.507, -0.026, 5e-4},
		{Pairs{59, 6, 16, 80}, -0.1186, -0.0046, 5e-5},
		{Pairs{8, 3, 1, 2}, -0.1574, 0.4136, 5e-5}, // Tang et al. (2010)
	} {
		e, err := NewcombePaired(c.table, 0.95)
		if err != nil {
			t.Fatal(err)
		}
		what := fmt.Sprintf("%+v", c.table)
		near(t, what+" lo", e.Lo, c.lo, c.tol)
		near(t, what+" hi", e.Hi, c.hi, c.tol)
		if n := c.table.Both + c.table.B + c.table.C + c.table.Neither; e.N != n {
			t.Errorf("%s: N is %d, want %d pairs", what, e.N, n)
		}
	}
}

func TestNewcombePairedWarnsAndRefuses(t *testing.T) {
	e, err := NewcombePaired(Pairs{Both: 3, Neither: 2}, 0.95)
	if err != nil || e.Value != 0 || !warns(e.Warnings, "degenerate table") || !warns(e.Warnings, "small sample: pairs = 5") {
		t.Errorf("no discordant pairs: %+v, %v", e, err)
	}
	for _, c := range []struct {
		table    Pairs
		conf     float64
		argument string
	}{{Pairs{}, .9, "table is empty"}, {Pairs{Both: -1, B: 3}, .9, "no negative"}, {Pairs{B: -1, C: 3}, .9, "no negative"},
		{Pairs{Both: 1}, 1, "confidence"}, {Pairs{Both: 1}, math.NaN(), "confidence"}} {
		_, err := NewcombePaired(c.table, c.conf)
		refuses(t, err, c.argument)
	}
}

func pairsOf(t *rapid.T, most int) Pairs {
	count := rapid.IntRange(0, most)
	return Pairs{Both: count.Draw(t, "both"), B: count.Draw(t, "b"), C: count.Draw(t, "c"), Neither: count.Draw(t, "neither")}
}

func TestNewcombePairedLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := pairsOf(t, 300)
		n := table.Both + table.B + table.C + table.Neither
		if n == 0 {
			t.Skip("empty")
		}
		get := func(p Pairs) Estimate {
			e, err := NewcombePaired(p, 0.95)
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		a := get(table)
		if !(-1 <= a.Lo && a.Lo <= a.Value && a.Value <= a.Hi && a.Hi <= 1) {
			t.Fatalf("limits out of order: %+v", a)
		}
		near := func(x, y float64) bool { return math.Abs(x-y) <= 1e-12 }
		// Exchanging the conditions, or positive for negative, turns the sign.
		for _, m := range []Estimate{
			get(Pairs{table.Both, table.C, table.B, table.Neither}), get(Pairs{table.Neither, table.C, table.B, table.Both}),
		} {
			if !near(a.Value, -m.Value) || !near(a.Lo, -m.Hi) || !near(a.Hi, -m.Lo) {
				t.Fatalf("not antisymmetric: %+v, %+v", a, m)
			}
		}
		// Agreement within pairs narrows the interval, disagreement widens it, and without
		// either it is that of independent samples.
		independent, err := NewcombeIndependent(table.Both+table.B, n, table.Both+table.C, n, 0.95, false)
		if err != nil {
			t.Fatal(err)
		}
		cross := float64(table.Both)*float64(table.Neither) - float64(table.B)*float64(table.C)
		width, other := a.Hi-a.Lo, independent.Hi-independent.Lo
		switch {
		case cross > float64(n)/2 && width > other+1e-12, cross < 0 && width < other-1e-12 && a.Lo > -1 && a.Hi < 1:
			t.Fatalf("%+v: width %v, of independent samples %v", table, width, other)
		case cross >= 0 && cross <= float64(n)/2 && !(near(a.Lo, independent.Lo) && near(a.Hi, independent.Hi)):
			t.Fatalf("%+v: %+v is not the interval of independent samples %+v", table, a, independent)
		}
	})
}

// Computed coverage over all tables of 20 pairs, for proportions that are not extreme
// and conditions that agree by chance or more.
func TestNewcombePairedCoverage(t *testing.T) {
	const n = 20
	type entry struct {
		table Pairs
		e     Estimate
	}
	var all []entry
	for both := 0; both <= n; both++ {
		for b := 0; b <= n-both; b++ {
			for c := 0; c <= n-both-b; c++ {
				table := Pairs{both, b, c, n - both - b - c}
				e, err := NewcombePaired(table, 0.95)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, entry{table, e})
			}
		}
	}
	least, sum, points := 1.0, 0.0, 0
	for p1 := 0.1; p1 < 0.95; p1 += 0.1 {
		for p2 := 0.1; p2 < 0.95; p2 += 0.1 {
			for _, correlation := range []float64{0, 0.25, 0.5} {
				both := p1*p2 + correlation*math.Sqrt(p1*(1-p1)*p2*(1-p2))
				b, c := p1-both, p2-both
				neither := 1 - both - b - c
				if min(both, b, c, neither) < 1e-9 {
					continue // no such pair of conditions
				}
				coverage := 0.0
				for _, x := range all {
					if x.e.Lo <= p1-p2 && p1-p2 <= x.e.Hi {
						left := n - x.table.Both
						coverage += binomial(x.table.Both, n, both) *
							binomial(x.table.B, left, b/(1-both)) *
							binomial(x.table.C, left-x.table.B, min(1, c/(1-both-b)))
					}
				}
				least, sum, points = min(least, coverage), sum+coverage, points+1
			}
		}
	}
	if mean := sum / float64(points); points < 100 || least < 0.90 || mean < 0.945 || mean > 0.975 {
		t.Errorf("%d points: least coverage %.4f, mean %.4f; want at least 0.90, and 0.945 to 0.975", points, least, mean)
	}
}

// Fagerland, Lydersen and Laake (2014) for 1 : 7, and their book of 2017, chapter 8, for
// Ezra et al. (2010), 25 : 2.
func TestOddsRatioPublished(t *testing.T) {
	for _, c := range []struct {
		b, c                       int
		exactLo, exactHi, tolExact float64
		midLo, midHi, tolMid       float64
	}{
		{1, 7, 0.003, 1.112, 5e-4, 0.006, 0.924, 5e-4},
		{25, 2, 3.1169, 108.8892, 6e-5, 3.4681, 78.2972, 6e-5},
	} {
		e, err := OddsRatioExact(c.b, c.c, 0.95)
		if err != nil {
			t.Fatal(err)
		}
		near(t, "ratio", e.Value, float64(c.b)/float64(c.c), 1e-12)
		near(t, "exact lo", e.Lo, c.exactLo, c.tolExact)
		near(t, "exact hi", e.Hi, c.exactHi, c.tolExact)
		e, err = OddsRatioMidP(c.b, c.c, 0.95)
		if err != nil {
			t.Fatal(err)
		}
		near(t, "mid-p lo", e.Lo, c.midLo, c.tolMid)
		near(t, "mid-p hi", e.Hi, c.midHi, c.tolMid)
	}
}

func TestOddsRatioEdges(t *testing.T) {
	for _, f := range []func(b, c int, confidence float64) (Estimate, error){OddsRatioExact, OddsRatioMidP} {
		e, err := f(0, 0, 0.95)
		if err != nil || !math.IsNaN(e.Value) || e.Lo != 0 || !math.IsInf(e.Hi, 1) || !warns(e.Warnings, "degenerate table") {
			t.Errorf("no discordant pairs: %+v, %v", e, err)
		}
		e, err = f(12, 0, 0.95)
		if err != nil || !math.IsInf(e.Value, 1) || !math.IsInf(e.Hi, 1) || !(e.Lo > 1) || !warns(e.Warnings, "degenerate cell") {
			t.Errorf("12:0: %+v, %v", e, err)
		}
		e, err = f(0, 12, 0.95)
		if err != nil || e.Value != 0 || e.Lo != 0 || !(e.Hi < 1) || !warns(e.Warnings, "degenerate cell") {
			t.Errorf("0:12: %+v, %v", e, err)
		}
		_, err = f(-1, 2, 0.95)
		refuses(t, err, "discordant counts")
		_, err = f(1, 2, 1.5)
		refuses(t, err, "confidence")
		_, err = f(0, 0, 1.5)
		refuses(t, err, "confidence")
	}
}

// The interval leaves out 1 exactly where the test of the same kind rejects, and
// exchanging the conditions turns the ratio over.
func TestOddsRatioAndMcNemarAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.IntRange(0, 200).Draw(t, "b")
		c := rapid.IntRange(0, 200).Draw(t, "c")
		conf := rapid.Float64Range(0.5, 0.999).Draw(t, "confidence")
		if b+c == 0 {
			t.Skip("no discordant pairs")
		}
		for name, k := range map[string]struct {
			ratio func(b, c int, confidence float64) (Estimate, error)
			test  func(b, c int) (Test, error)
		}{"exact": {OddsRatioExact, McNemarExact}, "mid-p": {OddsRatioMidP, McNemarMidP}} {
			e, err := k.ratio(b, c, conf)
			if err != nil {
				t.Fatal(err)
			}
			test, err := k.test(b, c)
			if err != nil {
				t.Fatal(err)
			}
			if !(0 <= e.Lo && e.Lo <= e.Value && e.Value <= e.Hi) {
				t.Fatalf("%s: limits out of order: %+v", name, e)
			}
			if alpha := 1 - conf; math.Abs(test.P-alpha) > 1e-9 && (e.Lo > 1 || e.Hi < 1) != (test.P < alpha) {
				t.Fatalf("%s %d:%d at %v: p %v, interval %v to %v", name, b, c, conf, test.P, e.Lo, e.Hi)
			}
			m, err := k.ratio(c, b, conf)
			if err != nil {
				t.Fatal(err)
			}
			if math.Abs(m.Lo*e.Hi-1) > 1e-9 && b > 0 && c > 0 {
				t.Fatalf("%s: %+v turned over is %+v", name, e, m)
			}
		}
	})
}
