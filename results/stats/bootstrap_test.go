package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
	"pgregory.net/rapid"
)

// spatial are the scores A of 26 children in two tests of spatial perception, Efron and
// Tibshirani (1993), table 14.1, and spatialVariance the statistic used there.
var spatial = []float64{48, 36, 20, 29, 42, 42, 20, 42, 22, 41, 45, 14, 6, 0, 33, 28, 34, 4, 32, 24, 47, 41, 24, 26, 30, 41}

func spatialVariance(values []float64) float64 {
	mean, squares := Mean(values), 0.0
	for _, v := range values {
		squares += (v - mean) * (v - mean)
	}
	return squares / float64(len(values))
}

// alone puts each value into a cluster of its own.
func alone(values []float64) []Cluster {
	var out []Cluster
	for i, v := range values {
		out = append(out, Cluster{Name: fmt.Sprint(i), Values: []float64{v}})
	}
	return out
}

// Efron and Tibshirani (1993), chapter 14: variance 171.5, acceleration 0.061, and
// with 2000 replicates 90 % limits of 100.8 and 233.9 (percentile), 115.8 and 259.6 (BCa).
// The limits depend on their random numbers, with a standard error of about 2 for the
// lower one: only the first two figures have to agree to the digits printed.
func TestBootstrapSpatial(t *testing.T) {
	r := Resampling{Replicates: 20000, Seed: 1, Confidence: 0.90}
	b, err := newClusterBootstrap("test", alone(spatial), spatialVariance, r)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "acceleration", b.acceleration(), 0.061, 5e-4)
	p, err := ClusterPercentile(alone(spatial), spatialVariance, r)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "variance", p.Value, 171.5, 0.05)
	near(t, "percentile lo", p.Lo, 100.8, 5)
	near(t, "percentile hi", p.Hi, 233.9, 5)
	c, err := ClusterBCa(alone(spatial), spatialVariance, r)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "BCa lo", c.Lo, 115.8, 5)
	near(t, "BCa hi", c.Hi, 259.6, 5)
	if p.N != 26 || len(p.Warnings) != 0 || len(c.Warnings) != 0 || c.Value != p.Value {
		t.Errorf("%+v, %+v", p, c)
	}
}

// Half ones, half noughts: nothing is skewed, and many replicates equal the estimate.
// Counting them half leaves the percentiles where they are.
func TestBCaOfTies(t *testing.T) {
	r := Resampling{Replicates: 20000, Seed: 1, Confidence: 0.95}
	b, err := newClusterBootstrap("test", alone(append(slices.Repeat([]float64{0}, 10), slices.Repeat([]float64{1}, 10)...)), Mean, r)
	if err != nil {
		t.Fatal(err)
	}
	_, replicates := b.run("test", r)
	below, ok := b.levels(0.5, replicates, r.Confidence)
	if !ok {
		t.Fatal("no levels")
	}
	near(t, "lower level", below[0], 0.025, 0.002)
	near(t, "upper level", below[1], 0.975, 0.002)
}

// The replicates follow the ideal bootstrap distribution, which for four clusters is
// 256 equally likely samples.
func TestClusterBootstrapIsTheIdealOne(t *testing.T) {
	clusters := []Cluster{{"a", []float64{0, 0, 1}}, {"b", []float64{1, 1}}, {"c", []float64{0, 1, 1, 1}}, {"d", []float64{0}}}
	r := Resampling{Replicates: 40000, Seed: 5, Confidence: 0.9}
	b, err := newClusterBootstrap("test", clusters, Mean, r)
	if err != nil {
		t.Fatal(err)
	}
	var ideal []float64
	for i := range 256 {
		ideal = append(ideal, b.of([]int{i & 3, i >> 2 & 3, i >> 4 & 3, i >> 6}))
	}
	slices.Sort(ideal)
	drawn, warnings := r.replicates(4, b.of)
	if len(drawn) != r.Replicates || len(warnings) != 0 {
		t.Fatalf("%d replicates, warnings %v", len(drawn), warnings)
	}
	for _, x := range slices.Compact(slices.Clone(ideal)) {
		want := stat.CDF(x, stat.Empirical, ideal, nil)
		near(t, fmt.Sprintf("share up to %.3f", x), stat.CDF(x, stat.Empirical, drawn, nil), want, 0.01)
	}
}

func clustersOf(t *rapid.T) []Cluster {
	n := rapid.IntRange(2, 8).Draw(t, "clusters")
	var out []Cluster
	for i := range n {
		out = append(out, Cluster{
			Name:   fmt.Sprint("c", i),
			Values: rapid.SliceOfN(rapid.Float64Range(-1, 1), 1, 6).Draw(t, "values"),
		})
	}
	return out
}

// One seed gives one result, however clusters and values are ordered; names only order.
func TestClusterBootstrapIsDeterministic(t *testing.T) {
	same := func(a, b Estimate) bool {
		return a.Value == b.Value && a.Lo == b.Lo && a.Hi == b.Hi && slices.Equal(a.Warnings, b.Warnings)
	}
	rapid.Check(t, func(t *rapid.T) {
		clusters := clustersOf(t)
		r := Resampling{Replicates: 200, Seed: rapid.Uint64().Draw(t, "seed"), Confidence: 0.9}
		for _, f := range []func([]Cluster, func([]float64) float64, Resampling) (Estimate, error){ClusterPercentile, ClusterBCa} {
			a, err := f(clusters, Mean, r)
			if err != nil {
				t.Fatal(err)
			}
			if !(a.Lo <= a.Hi) {
				t.Fatalf("limits out of order: %+v", a)
			}
			shuffled := slices.Clone(clusters)
			for i := range shuffled {
				shuffled[i].Values = slices.Clone(shuffled[i].Values)
				slices.Reverse(shuffled[i].Values)
			}
			rand.New(rand.NewPCG(r.Seed, 9)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
			b, err := f(shuffled, Mean, r)
			if err != nil || !same(a, b) {
				t.Fatalf("depends on the order: %+v, %+v, %v", a, b, err)
			}
			lowest, highest := math.Inf(1), math.Inf(-1)
			for _, c := range clusters {
				lowest, highest = min(lowest, slices.Min(c.Values)), max(highest, slices.Max(c.Values))
			}
			if a.Lo < lowest-1e-12 || a.Hi > highest+1e-12 {
				t.Fatalf("limits of a mean outside its values: %+v", a)
			}
		}
	})
	a, _ := ClusterPercentile(alone(spatial), Mean, Resampling{Replicates: 1000, Seed: 1, Confidence: 0.95})
	b, _ := ClusterPercentile(alone(spatial), Mean, Resampling{Replicates: 1000, Seed: 2, Confidence: 0.95})
	if same(a, b) {
		t.Error("the seed changes nothing")
	}
}

func TestClusterBootstrapWarns(t *testing.T) {
	some := []Cluster{{"a", []float64{0, 1}}, {"b", []float64{1}}, {"c", []float64{0}}}
	none := []Cluster{{"a", []float64{0, 0}}, {"b", []float64{0}}}
	r := Resampling{Replicates: 2000, Seed: 1, Confidence: 0.95}
	for _, f := range []func([]Cluster, func([]float64) float64, Resampling) (Estimate, error){ClusterPercentile, ClusterBCa} {
		e, err := f(some, Mean, r)
		if err != nil || !warns(e.Warnings, "few clusters: 3") || warns(e.Warnings, "few replicates") {
			t.Errorf("%+v, %v", e, err)
		}
		e, err = f(some, Mean, Resampling{Replicates: 50, Confidence: 0.95})
		if err != nil || !warns(e.Warnings, "few replicates: 50") {
			t.Errorf("%+v, %v", e, err)
		}
		e, err = f(none, Mean, r)
		if err != nil || e.Lo != 0 || e.Hi != 0 || !warns(e.Warnings, "degenerate samples: all replicates are equal") {
			t.Errorf("nothing but failures: %+v, %v", e, err)
		}
		nowhere := func([]float64) float64 { return math.NaN() }
		e, err = f(some, nowhere, r)
		if err != nil || !math.IsNaN(e.Value) || !math.IsNaN(e.Lo) || !warns(e.Warnings, "the statistic is not defined") {
			t.Errorf("a statistic without a value: %+v, %v", e, err)
		}
		// Defined for the observations but not for every sample of them.
		whole := func(v []float64) float64 {
			if slices.Max(v) == 0 {
				return math.NaN()
			}
			return Mean(v)
		}
		e, err = f(some, whole, r)
		if err != nil || !warns(e.Warnings, "degenerate samples: in ") || math.IsNaN(e.Lo) {
			t.Errorf("a statistic that is not always defined: %+v, %v", e, err)
		}
	}
	// Every sample repeats some of the ten values, so all replicates are above the estimate
	// and the correction for bias would be infinite.
	var ten []float64
	for i := range 10 {
		ten = append(ten, float64(i))
	}
	repeated := func(v []float64) float64 { return -float64(len(slices.Compact(slices.Sorted(slices.Values(v))))) }
	r.Replicates = 100
	e, err := ClusterBCa(alone(ten), repeated, r)
	p, _ := ClusterPercentile(alone(ten), repeated, r)
	if err != nil || !warns(e.Warnings, "the correction for bias is not defined") || e.Lo != p.Lo || e.Hi != p.Hi {
		t.Errorf("%+v, %v; want the percentiles %+v", e, err, p)
	}
	// So can skewness be too much for the correction.
	b, err := newClusterBootstrap("test", alone(append(make([]float64, 99), 1)), Mean, r)
	if err != nil {
		t.Fatal(err)
	}
	var rising []float64
	for i := range 10000 {
		rising = append(rising, float64(i))
	}
	if below, ok := b.levels(9999, rising, 0.9999); ok {
		t.Errorf("levels %v from an acceleration of %v", below, b.acceleration())
	}
}

func TestClusterBootstrapRefuses(t *testing.T) {
	good := []Cluster{{"a", []float64{0}}, {"b", []float64{1}}}
	r := Resampling{Replicates: 10, Confidence: 0.95}
	for _, f := range []func([]Cluster, func([]float64) float64, Resampling) (Estimate, error){ClusterPercentile, ClusterBCa} {
		for _, c := range []struct {
			clusters []Cluster
			r        Resampling
			argument string
		}{
			{good, Resampling{Replicates: 0, Confidence: 0.95}, "replicates"},
			{good, Resampling{Replicates: -5, Confidence: 0.95}, "replicates"},
			{good, Resampling{Replicates: 10}, "confidence"},
			{good, Resampling{Replicates: 10, Confidence: math.NaN()}, "confidence"},
			{nil, r, "clusters are 0"},
			{good[:1], r, "clusters are 1"},
			{[]Cluster{good[0], good[0]}, r, `two clusters "a"`},
			{[]Cluster{good[0], {Name: "empty"}}, r, `cluster "empty" has no values`},
			{[]Cluster{good[0], {"b", []float64{1, math.NaN()}}}, r, `value 1 of cluster "b"`},
			{[]Cluster{good[0], {"b", []float64{math.Inf(1)}}}, r, `value 0 of cluster "b"`},
		} {
			_, err := f(c.clusters, Mean, c.r)
			refuses(t, err, c.argument)
		}
		_, err := f(good, nil, r)
		refuses(t, err, "statistic")
	}
}

// Trials of one scenario go alike. Wilson's interval of all trials then misses the rate
// far more often than it says, the bootstrap over scenarios does not. The random numbers
// are seeded.
func TestClusterBootstrapCoversDependentTrials(t *testing.T) {
	const scenarios, trials, runs, confidence = 30, 20, 400, 0.95
	random := rand.New(rand.NewPCG(2026, 1))
	rates := distuv.Beta{Alpha: 2, Beta: 2, Src: random} // of a scenario; one half on average
	var naive, percentile, bca int
	for run := range runs {
		var clusters []Cluster
		k := 0
		for s := range scenarios {
			rate := rates.Rand()
			values := make([]float64, trials)
			for i := range values {
				if random.Float64() < rate {
					values[i] = 1
					k++
				}
			}
			clusters = append(clusters, Cluster{fmt.Sprint(s), values})
		}
		covers := func(lo, hi float64) int {
			if lo <= 0.5 && 0.5 <= hi {
				return 1
			}
			return 0
		}
		w, err := Wilson(k, scenarios*trials, confidence)
		if err != nil {
			t.Fatal(err)
		}
		naive += covers(w.Lo, w.Hi)
		r := Resampling{Replicates: 300, Seed: uint64(run), Confidence: confidence}
		p, err := ClusterPercentile(clusters, Mean, r)
		if err != nil {
			t.Fatal(err)
		}
		percentile += covers(p.Lo, p.Hi)
		b, err := ClusterBCa(clusters, Mean, r)
		if err != nil {
			t.Fatal(err)
		}
		bca += covers(b.Lo, b.Hi)
	}
	share := func(n int) float64 { return float64(n) / runs }
	if share(naive) > 0.75 || share(percentile) < 0.90 || share(bca) < 0.90 {
		t.Errorf("coverage of %v: Wilson %.3f, percentile %.3f, BCa %.3f; want at most 0.75, and at least 0.90", confidence, share(naive), share(percentile), share(bca))
	}
}

// crossed is a table of r rows and c columns whose value is given by f.
func crossed(r, c int, f func(i, j int) float64) []Cell {
	var out []Cell
	for i := range r {
		for j := range c {
			out = append(out, Cell{"s", fmt.Sprint("r", i), fmt.Sprint("c", j), f(i, j)})
		}
	}
	return out
}

// For a full table the variance of the replicates is known: with multinomial counts W of
// rows and V of columns, E[W W'] = 1 - 1/n, and one more on the diagonal.
func TestPigeonholeVariance(t *testing.T) {
	const rows, columns = 24, 40
	random := rand.New(rand.NewPCG(7, 7))
	row, column := make([]float64, rows), make([]float64, columns)
	for i := range row {
		row[i] = random.NormFloat64()
	}
	for j := range column {
		column[j] = random.NormFloat64()
	}
	var x [rows][columns]float64
	cells := crossed(rows, columns, func(i, j int) float64 {
		x[i][j] = row[i] + column[j] + random.NormFloat64()
		return x[i][j]
	})
	var all, sameRow, sameColumn, same float64 // sums of products of two cells
	rowSums, columnSums := make([]float64, rows), make([]float64, columns)
	for i := range x {
		for j, v := range x[i] {
			rowSums[i] += v
			columnSums[j] += v
			all += v
			same += v * v
		}
	}
	for _, s := range rowSums {
		sameRow += s * s
	}
	for _, s := range columnSums {
		sameColumn += s * s
	}
	all *= all
	const n = rows * columns
	second := (1-1.0/rows)*(1-1.0/columns)*all + (1-1.0/columns)*sameRow + (1-1.0/rows)*sameColumn + same
	variance := (second - all) / n / n

	e, err := Pigeonhole(cells, Resampling{Replicates: 20000, Seed: 3, Confidence: 0.95})
	if err != nil || e.N != n || len(e.Warnings) != 0 {
		t.Fatalf("%+v, %v", e, err)
	}
	near(t, "standard deviation", (e.Hi-e.Lo)/2/normalQuantile(0.95), math.Sqrt(variance), 0.03*math.Sqrt(variance))
	// As if the cells were independent the interval would be a fraction of that.
	if naive := math.Sqrt((same/n - all/n/n) / n); naive > 0.4*math.Sqrt(variance) {
		t.Errorf("naive standard deviation %v, of the bootstrap %v: the example shows nothing", naive, math.Sqrt(variance))
	}
}

// Where only the row matters it is the bootstrap over rows.
func TestPigeonholeOfRowsIsClusterBootstrap(t *testing.T) {
	const rows, columns = 30, 25
	values := func(i int) float64 { return float64((i * i) % 7) }
	var clusters []Cluster
	for i := range rows {
		clusters = append(clusters, Cluster{fmt.Sprint(i), slices.Repeat([]float64{values(i)}, columns)})
	}
	r := Resampling{Replicates: 20000, Seed: 11, Confidence: 0.9}
	a, err := Pigeonhole(crossed(rows, columns, func(i, j int) float64 { return values(i) }), r)
	if err != nil {
		t.Fatal(err)
	}
	b, err := ClusterPercentile(clusters, Mean, r)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "value", a.Value, b.Value, 1e-12)
	near(t, "lo", a.Lo, b.Lo, 0.05)
	near(t, "hi", a.Hi, b.Hi, 0.05)
}

func TestPigeonholeIsDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.IntRange(0, 2) // so that many cells share a crossing
		var cells []Cell
		for s := range rapid.IntRange(1, 3).Draw(t, "strata") {
			// Two levels of each factor, then what comes.
			stratum := fmt.Sprint("s", s)
			cells = append(cells, Cell{stratum, "0", "0", 1}, Cell{stratum, "1", "1", 0})
			for range rapid.IntRange(0, 25).Draw(t, "more") {
				cells = append(cells, Cell{stratum, fmt.Sprint(name.Draw(t, "row")), fmt.Sprint(name.Draw(t, "column")), rapid.Float64Range(0, 1).Draw(t, "value")})
			}
		}
		r := Resampling{Replicates: 100, Seed: rapid.Uint64().Draw(t, "seed"), Confidence: 0.9}
		a, err := Pigeonhole(cells, r)
		if err != nil {
			t.Fatal(err)
		}
		if !(0 <= a.Lo && a.Lo <= a.Hi && a.Hi <= 1) {
			t.Fatalf("limits out of order: %+v", a)
		}
		random := rand.New(rand.NewPCG(r.Seed, 9))
		random.Shuffle(len(cells), func(i, j int) { cells[i], cells[j] = cells[j], cells[i] })
		b, err := Pigeonhole(cells, r)
		if err != nil || a.Value != b.Value || a.Lo != b.Lo || a.Hi != b.Hi || !slices.Equal(a.Warnings, b.Warnings) {
			t.Fatalf("depends on the order: %+v, %+v, %v", a, b, err)
		}
	})
}

func TestPigeonholeWarnsAndRefuses(t *testing.T) {
	r := Resampling{Replicates: 1000, Seed: 1, Confidence: 0.95}
	diagonal := []Cell{{"s", "r0", "c0", 1}, {"s", "r1", "c1", 0}, {"s", "r2", "c2", 1}}
	e, err := Pigeonhole(diagonal, r)
	if err != nil || !warns(e.Warnings, "few levels: 3") || !warns(e.Warnings, "degenerate samples: in ") {
		t.Errorf("three crossings of nine: %+v, %v", e, err)
	}
	e, err = Pigeonhole(crossed(3, 3, func(i, j int) float64 { return 1 }), r)
	if err != nil || e.Lo != 1 || e.Hi != 1 || !warns(e.Warnings, "degenerate samples: all") {
		t.Errorf("nothing but successes: %+v, %v", e, err)
	}
	for _, c := range []struct {
		cells    []Cell
		r        Resampling
		argument string
	}{
		{nil, r, "no cells"},
		{diagonal, Resampling{Confidence: 0.95}, "replicates"},
		{diagonal, Resampling{Replicates: 1, Confidence: 2}, "confidence"},
		{diagonal[:1], r, `stratum "s" has 1 rows and 1 columns`},
		{append(slices.Clone(diagonal), Cell{"t", "r0", "c0", 1}, Cell{"t", "r0", "c1", 1}), r, `stratum "t" has 1 rows and 2 columns`},
		{append(slices.Clone(diagonal), Cell{"t", "r0", "c0", 1}, Cell{"t", "r1", "c0", 1}), r, `stratum "t" has 2 rows and 1 columns`},
		{append(slices.Clone(diagonal), Cell{"s", "r0", "c1", math.NaN()}), r, `"s", "r0", "c1" is NaN`},
	} {
		_, err := Pigeonhole(c.cells, c.r)
		refuses(t, err, c.argument)
	}
}
