package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestCohenKappaPublished(t *testing.T) {
	// Fleiss, Cohen and Everitt (1969), table 1: proportions of 200 cases, kappa 0.429
	// with variance 0.002885.
	e, err := CohenKappa([][]int{{106, 10, 4}, {22, 28, 10}, {2, 12, 6}}, 0.95)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "kappa", e.Value, 0.429, 5e-4)
	half := (e.Hi - e.Lo) / 2 / normalQuantile(0.95)
	near(t, "variance", half*half, 0.002885, 5e-7)
	if e.N != 200 || len(e.Warnings) != 0 {
		t.Errorf("N %d, warnings %v", e.N, e.Warnings)
	}
	// Output of SAS's FREQ procedure, as in the tests of statsmodels: kappa 0.4842,
	// limits 0.2137 and 0.7547.
	e, err = CohenKappa([][]int{{0, 4, 1}, {0, 8, 0}, {0, 1, 5}}, 0.95)
	limits(t, "SAS", e, err, 0.2137, 0.7547)
	near(t, "kappa", e.Value, 0.4842, 5e-5)
	if !warns(e.Warnings, "small sample: cases = 19") {
		t.Errorf("19 cases: warnings %v", e.Warnings)
	}
	// Two radiologists, 85 xeromammograms, Boyd et al. (1982): manual of Stata, kappa.
	e, err = CohenKappa([][]int{{21, 12, 0, 0}, {4, 17, 1, 0}, {3, 9, 15, 2}, {0, 0, 0, 1}}, 0.95)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "kappa", e.Value, 0.4728, 5e-5)
}

func TestCohenKappaEdges(t *testing.T) {
	e, err := CohenKappa([][]int{{30, 0}, {0, 0}}, 0.95)
	if err != nil || !math.IsNaN(e.Value) || !math.IsNaN(e.Lo) || !warns(e.Warnings, "degenerate table: only one category") {
		t.Errorf("one category: %+v, %v", e, err)
	}
	e, err = CohenKappa([][]int{{30, 0}, {0, 3}}, 0.95)
	if err != nil || e.Value != 1 || e.Hi != 1 || !warns(e.Warnings, "degenerate table: agreement is complete") {
		t.Errorf("complete agreement: %+v, %v", e, err)
	}
	e, err = CohenKappa([][]int{{0, 30}, {30, 0}}, 0.95)
	if err != nil || e.Value != -1 || e.Lo != -1 {
		t.Errorf("complete disagreement: %+v, %v", e, err)
	}
	e, err = CohenKappa([][]int{{0, 30}, {0, 0}}, 0.95)
	if err != nil || e.Value != 0 {
		t.Errorf("one says always this, the other always that: %+v, %v", e, err)
	}
	for _, c := range []struct {
		table    [][]int
		conf     float64
		argument string
	}{{nil, .9, "empty"}, {[][]int{{0, 0}, {0, 0}}, .9, "empty"}, {[][]int{{1, 2}}, .9, "row 0"}, {[][]int{{1, 2}, {3}}, .9, "row 1"},
		{[][]int{{1, -2}, {3, 4}}, .9, "column 1"}, {[][]int{{1}}, 0, "confidence"}} {
		_, err := CohenKappa(c.table, c.conf)
		refuses(t, err, c.argument)
	}
}

func tableOf(t *rapid.T) [][]int {
	size := rapid.IntRange(2, 5).Draw(t, "categories")
	return rapid.SliceOfN(rapid.SliceOfN(rapid.IntRange(0, 40), size, size), size, size).Draw(t, "table")
}

// The standard error is that of the delta method with derivatives taken numerically,
// and nothing changes when the approvers or the categories change places.
func TestCohenKappaLaws(t *testing.T) {
	kappaOf := func(p [][]float64) float64 {
		n, observed, expected := 0.0, 0.0, 0.0
		for i := range p {
			for j := range p {
				n += p[i][j]
			}
			observed += p[i][i]
		}
		for i := range p {
			row, column := 0.0, 0.0
			for j := range p {
				row += p[i][j]
				column += p[j][i]
			}
			expected += row * column / n / n
		}
		return (observed/n - expected) / (1 - expected)
	}
	rapid.Check(t, func(t *rapid.T) {
		table := tableOf(t)
		e, err := CohenKappa(table, 0.95)
		if err != nil || math.IsNaN(e.Value) {
			t.Skip("empty, or one category")
		}
		if !(-1 <= e.Lo && e.Lo <= e.Value && e.Value <= e.Hi && e.Hi <= 1) {
			t.Fatalf("limits out of order: %+v", e)
		}
		size := len(table)
		p := make([][]float64, size)
		for i := range p {
			p[i] = make([]float64, size)
			for j := range p[i] {
				p[i][j] = float64(table[i][j]) / float64(e.N)
			}
		}
		if math.Abs(kappaOf(p)-e.Value) > 1e-9 {
			t.Fatalf("kappa %v, want %v", e.Value, kappaOf(p))
		}
		const h = 1e-6
		mean, squares := 0.0, 0.0
		for i := range p {
			for j := range p {
				was := p[i][j]
				p[i][j] = was + h
				up := kappaOf(p)
				p[i][j] = was - h
				down := kappaOf(p)
				p[i][j] = was
				gradient := (up - down) / (2 * h)
				mean += was * gradient
				squares += was * gradient * gradient
			}
		}
		half := normalQuantile(0.95) * math.Sqrt(max(0, squares-mean*mean)/float64(e.N))
		if lo, hi := max(-1, e.Value-half), min(1, e.Value+half); math.Abs(lo-e.Lo) > 1e-4 || math.Abs(hi-e.Hi) > 1e-4 {
			t.Fatalf("limits %v and %v, by numerical derivatives %v and %v", e.Lo, e.Hi, lo, hi)
		}
		turned, reversed := make([][]int, size), make([][]int, size)
		for i := range table {
			for j := range table {
				turned[j] = append(turned[j], table[i][j])
			}
			row := slices.Clone(table[i])
			slices.Reverse(row)
			reversed[size-1-i] = row
		}
		for _, other := range [][][]int{turned, reversed} {
			m, _ := CohenKappa(other, 0.95)
			if math.Abs(m.Value-e.Value) > 1e-9 || math.Abs(m.Lo-e.Lo) > 1e-9 {
				t.Fatalf("depends on the order of approvers or categories: %+v, %+v", e, m)
			}
		}
	})
}

var few = Resampling{Replicates: 100, Seed: 1, Confidence: 0.95}

// byUnit turns lines of one approver each, "." for nothing, into a line for each unit.
func byUnit(approvers ...string) [][]string {
	var units [][]string
	for _, a := range approvers {
		for u, category := range strings.Fields(a) {
			if u == len(units) {
				units = append(units, nil)
			}
			if category == "." {
				category = ""
			}
			units[u] = append(units[u], category)
		}
	}
	return units
}

func TestKrippendorffAlphaPublished(t *testing.T) {
	for _, c := range []struct {
		what    string
		ratings [][]string
		want    float64
		n       int
	}{
		// Krippendorff, Computing Krippendorff's Alpha-Reliability (2011), sections A to C.
		{"binary, two observers", byUnit(
			"0 1 0 0 0 0 0 0 1 0",
			"1 1 1 0 0 1 0 0 0 0"), 0.095, 10},
		{"nominal, two observers", byUnit(
			"a a b b d c c c e d d a",
			"b a b b b c c c e d d d"), 0.692, 12},
		{"nominal, missing data", byUnit(
			"1 2 3 3 2 1 4 1 2 . . .",
			"1 2 3 3 2 2 4 1 2 5 . 3",
			". 3 3 3 2 3 4 2 2 5 1 .",
			"1 2 3 3 2 4 4 1 2 5 1 ."), 0.743, 11},
		// The article on Krippendorff's alpha in Wikipedia, three coders.
		{"three coders", byUnit(
			". . . . . 3 4 1 2 1 1 3 3 . 3",
			"1 . 2 1 3 3 4 3 . . . . . . .",
			". . 2 1 3 4 4 . 2 1 1 3 3 . 4"), 0.691, 12},
	} {
		e, err := KrippendorffAlpha(c.ratings, few)
		if err != nil {
			t.Fatal(err)
		}
		near(t, c.what, e.Value, c.want, 5e-4)
		if e.N != c.n {
			t.Errorf("%s: N is %d, want %d units", c.what, e.N, c.n)
		}
		if left := len(c.ratings) - c.n; (left > 0) != slices.ContainsFunc(e.Warnings, func(w string) bool { return strings.Contains(w, "fewer than two ratings") }) {
			t.Errorf("%s: %d units left out, warnings %v", c.what, left, e.Warnings)
		}
		if !(e.Lo < e.Value && e.Value < e.Hi) {
			t.Errorf("%s: %+v", c.what, e)
		}
	}
}

// Thirty patients, six psychiatrists, Fleiss, Psychological Bulletin 76:378-382 (1971):
// kappa 0.430. With all ratings there, alpha is 1 - (1 - kappa)(1 - 1/n), n ratings.
func TestKrippendorffAlphaFleiss(t *testing.T) {
	const patients = `444444 222555 233335 555555 222444 113333 333355 113334 114444 555555
		144444 124444 222333 144444 224445 333335 111455 111112 224444 133555
		555555 244444 224555 114444 144445 222224 111155 224444 133333 555555`
	var ratings [][]string
	for _, p := range strings.Fields(patients) {
		ratings = append(ratings, strings.Split(p, ""))
	}
	e, err := KrippendorffAlpha(ratings, few)
	if err != nil || e.N != 30 {
		t.Fatalf("%+v, %v", e, err)
	}
	kappa := 1 - (1-e.Value)/(1-1.0/180)
	near(t, "kappa", kappa, 0.430, 5e-4)
}

func TestKrippendorffAlphaEdges(t *testing.T) {
	e, err := KrippendorffAlpha([][]string{{"a", "a"}, {"a", "a"}}, few)
	if err != nil || !math.IsNaN(e.Value) || !math.IsNaN(e.Lo) || !warns(e.Warnings, "degenerate table: only one category") {
		t.Errorf("one category: %+v, %v", e, err)
	}
	e, err = KrippendorffAlpha([][]string{{"a", "a"}, {"b", "b"}, {"b", "b"}}, few)
	if err != nil || e.Value != 1 || e.Lo != 1 || e.Hi != 1 || !warns(e.Warnings, "degenerate table: agreement is complete") || !warns(e.Warnings, "degenerate samples: in") {
		t.Errorf("complete agreement: %+v, %v", e, err)
	}
	_, err = KrippendorffAlpha([][]string{{"a", ""}, {"b"}, nil}, few)
	refuses(t, err, "no unit has two ratings")
	_, err = KrippendorffAlpha([][]string{{"a", "b"}}, Resampling{Replicates: 0, Confidence: 0.95})
	refuses(t, err, "replicates")
	_, err = KrippendorffAlpha([][]string{{"a", "b"}}, Resampling{Replicates: 10, Confidence: 95})
	refuses(t, err, "confidence")
}

// For two approvers who use each category equally often, alpha is Cohen's kappa but for
// the correction for a small sample, 1/(2n), and so equal in the limit.
func TestKappaIsAlphaInTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := tableOf(t)
		for i := range table {
			for j := range i {
				table[i][j] = table[j][i]
			}
		}
		var ratings [][]string
		for i, row := range table {
			for j, n := range row {
				for range n {
					ratings = append(ratings, []string{string(rune('a' + i)), string(rune('a' + j))})
				}
			}
		}
		kappa, err := CohenKappa(table, 0.95)
		if err != nil || math.IsNaN(kappa.Value) {
			t.Skip("empty, or one category")
		}
		r := Resampling{Replicates: 1, Confidence: 0.95}
		alpha, err := KrippendorffAlpha(ratings, r)
		if err != nil {
			t.Fatal(err)
		}
		if want := 1 - (1-kappa.Value)*(1-1/float64(2*kappa.N)); math.Abs(alpha.Value-want) > 1e-9 {
			t.Fatalf("alpha %v, want %v from kappa %v", alpha.Value, want, kappa.Value)
		}
		rand.New(rand.NewPCG(1, 1)).Shuffle(len(ratings), func(i, j int) {
			ratings[i], ratings[j] = ratings[j], ratings[i]
			slices.Reverse(ratings[i])
		})
		again, err := KrippendorffAlpha(ratings, r)
		if err != nil || again.Value != alpha.Value || !(again.Lo == alpha.Lo || math.IsNaN(again.Lo) && math.IsNaN(alpha.Lo)) {
			t.Fatalf("depends on the order of units or approvers: %+v, %+v", alpha, again)
		}
	})
}
