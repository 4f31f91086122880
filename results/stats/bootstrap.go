package stats

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// FewClusters is the number of clusters below which a bootstrap over them carries a
// warning: its intervals are then too narrow. It is a rule of thumb; Cameron, Gelbach
// and Miller, Review of Economics and Statistics 90:414-427 (2008) call 5 to 30 few.
const FewClusters = 20

// fewReplicates is the number below which the ends of a percentile interval are
// too uncertain to be printed without a word.
const fewReplicates = 1000

// A Resampling fixes a bootstrap: equal values give equal results.
type Resampling struct {
	Replicates int     // samples drawn, at least 1; 2000 is usual
	Seed       uint64  // of the generator (PCG)
	Confidence float64 // nominal two-sided coverage, such as 0.95
}

func (r Resampling) check(method string) error {
	if r.Replicates < 1 {
		return fmt.Errorf("%s: replicates is %d, want at least 1", method, r.Replicates)
	}
	return checkConfidence(method, r.Confidence)
}

func (r Resampling) source() *rand.Rand { return rand.New(rand.NewPCG(r.Seed, 0)) }

// replicates computes the statistic of samples of n out of n positions with
// replacement, and returns the values in ascending order, those that are NaN left out
// with a warning.
func (r Resampling) replicates(n int, statistic func(sample []int) float64) (values []float64, warnings []string) {
	random := r.source()
	sample := make([]int, n)
	return r.collect(func() float64 {
		for i := range sample {
			sample[i] = random.IntN(n)
		}
		return statistic(sample)
	})
}

func (r Resampling) collect(draw func() float64) (values []float64, warnings []string) {
	values = make([]float64, 0, r.Replicates)
	for range r.Replicates {
		if v := draw(); !math.IsNaN(v) {
			values = append(values, v)
		}
	}
	slices.Sort(values)
	if lost := r.Replicates - len(values); lost > 0 {
		warnings = append(warnings, fmt.Sprintf("degenerate samples: in %d of %d replicates the statistic is not defined, they are left out", lost, r.Replicates))
	}
	if r.Replicates < fewReplicates {
		warnings = append(warnings, fmt.Sprintf("few replicates: %d, fewer than %d", r.Replicates, fewReplicates))
	}
	if len(values) > 0 && values[0] == values[len(values)-1] {
		warnings = append(warnings, "degenerate samples: all replicates are equal, the interval has no width and says nothing about other cases")
	}
	return values, warnings
}

// percentiles returns the limits of ascending values that leave out half of
// 1 - confidence at each end.
func percentiles(values []float64, confidence float64) (lo, hi float64) {
	tail := (1 - confidence) / 2
	return stat.Quantile(tail, stat.Empirical, values, nil), stat.Quantile(1-tail, stat.Empirical, values, nil)
}

// A Cluster is the observations that belong together, such as the trials of one
// scenario.
type Cluster struct {
	Name   string // different for each cluster
	Values []float64
}

// Mean is the arithmetic mean, NaN of nothing. Over clusters it is the mean of all
// observations, so that a larger cluster weighs more.
func Mean(values []float64) float64 { return stat.Mean(values, nil) }

// ClusterPercentile returns the statistic of all observations with the percentile
// interval of a bootstrap that draws whole clusters with replacement: Efron and
// Tibshirani, An Introduction to the Bootstrap (1993), chapter 13; Davison and Hinkley,
// Bootstrap Methods and their Application (1997), section 3.8. N counts the clusters.
// For a rate the values are 0 and 1, for a difference of pairs -1, 0 and 1.
//
// The statistic must not keep its argument, nor depend on its order. The result
// depends neither on the order of the clusters nor on that within them. The error
// names a member of r, a missing statistic, fewer than two clusters, a cluster without
// values or with another's name, or a value that is not finite.
func ClusterPercentile(clusters []Cluster, statistic func(values []float64) float64, r Resampling) (Estimate, error) {
	const method = "percentile bootstrap over clusters"
	b, err := newClusterBootstrap(method, clusters, statistic, r)
	if err != nil {
		return Estimate{}, err
	}
	e, replicates := b.run(method, r)
	if len(replicates) > 0 {
		e.Lo, e.Hi = percentiles(replicates, r.Confidence)
	}
	return e, nil
}

// ClusterBCa is [ClusterPercentile] with the bias-corrected and accelerated limits of
// Efron, Journal of the American Statistical Association 82:171-185 (1987); Efron and
// Tibshirani (1993), section 14.3. Replicates equal to the estimate count half for the
// bias, and the acceleration is that of leaving out one cluster at a time.
//
// Where the correction is not defined the limits are the percentiles, with a warning.
func ClusterBCa(clusters []Cluster, statistic func(values []float64) float64, r Resampling) (Estimate, error) {
	const method = "BCa bootstrap over clusters"
	b, err := newClusterBootstrap(method, clusters, statistic, r)
	if err != nil {
		return Estimate{}, err
	}
	e, replicates := b.run(method, r)
	if len(replicates) == 0 {
		return e, nil
	}
	e.Lo, e.Hi = percentiles(replicates, r.Confidence)
	if replicates[0] == replicates[len(replicates)-1] {
		return e, nil // nothing to correct
	}
	below, ok := b.levels(e.Value, replicates, r.Confidence)
	if !ok {
		e.Warnings = append(e.Warnings, "the correction for bias is not defined here, the limits are percentiles")
		return e, nil
	}
	e.Lo = stat.Quantile(below[0], stat.Empirical, replicates, nil)
	e.Hi = stat.Quantile(below[1], stat.Empirical, replicates, nil)
	return e, nil
}

// A clusterBootstrap is the clusters in the order of their names.
type clusterBootstrap struct {
	values    [][]float64
	statistic func([]float64) float64
	pool      []float64 // what a sample holds, reused
}

func newClusterBootstrap(method string, clusters []Cluster, statistic func([]float64) float64, r Resampling) (*clusterBootstrap, error) {
	if err := r.check(method); err != nil {
		return nil, err
	}
	if statistic == nil {
		return nil, fmt.Errorf("%s: statistic is nil, want a function such as Mean", method)
	}
	if len(clusters) < 2 {
		return nil, fmt.Errorf("%s: clusters are %d, want at least 2", method, len(clusters))
	}
	sorted := slices.SortedFunc(slices.Values(clusters), func(a, b Cluster) int { return cmp.Compare(a.Name, b.Name) })
	b := &clusterBootstrap{statistic: statistic}
	for i, c := range sorted {
		if i > 0 && c.Name == sorted[i-1].Name {
			return nil, fmt.Errorf("%s: there are two clusters %q", method, c.Name)
		}
		if len(c.Values) == 0 {
			return nil, fmt.Errorf("%s: cluster %q has no values", method, c.Name)
		}
		for j, v := range c.Values {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return nil, fmt.Errorf("%s: value %d of cluster %q is %v, want a finite number", method, j, c.Name, v)
			}
		}
		// Sums of the same numbers in another order differ in their last bits.
		b.values = append(b.values, slices.Sorted(slices.Values(c.Values)))
	}
	return b, nil
}

// of is the statistic of the clusters at these positions.
func (b *clusterBootstrap) of(sample []int) float64 {
	b.pool = b.pool[:0]
	for _, i := range sample {
		b.pool = append(b.pool, b.values[i]...)
	}
	return b.statistic(b.pool)
}

// run returns the estimate without limits, and the replicates in ascending order.
func (b *clusterBootstrap) run(method string, r Resampling) (Estimate, []float64) {
	all := make([]int, len(b.values))
	for i := range all {
		all[i] = i
	}
	e := Estimate{Method: method, N: len(all), Value: b.of(all), Lo: math.NaN(), Hi: math.NaN(), Confidence: r.Confidence, Warnings: []string{}}
	if math.IsNaN(e.Value) {
		e.Warnings = append(e.Warnings, "the statistic is not defined for these observations")
		return e, nil
	}
	if len(all) < FewClusters {
		e.Warnings = append(e.Warnings, fmt.Sprintf("few clusters: %d, fewer than %d; the interval is too narrow", len(all), FewClusters))
	}
	replicates, warnings := r.replicates(len(all), b.of)
	e.Warnings = append(e.Warnings, warnings...)
	return e, replicates
}

// levels returns the shares of replicates below the two BCa limits.
func (b *clusterBootstrap) levels(value float64, replicates []float64, confidence float64) (below [2]float64, ok bool) {
	less, _ := slices.BinarySearch(replicates, value)
	more := less
	for more < len(replicates) && replicates[more] == value {
		more++
	}
	bias := distuv.UnitNormal.Quantile(float64(less+more) / float64(2*len(replicates)))
	a := b.acceleration()
	if math.IsInf(bias, 0) || math.IsNaN(a) {
		return below, false
	}
	z := normalQuantile(confidence)
	for i, z := range []float64{-z, z} {
		scale := 1 - a*(bias+z)
		if scale <= 0 {
			return below, false
		}
		below[i] = distuv.UnitNormal.CDF(bias + (bias+z)/scale)
	}
	return below, true
}

// acceleration is the jackknife estimate (14.15) of Efron and Tibshirani (1993).
func (b *clusterBootstrap) acceleration() float64 {
	without := make([]float64, len(b.values))
	for i := range without {
		rest := make([]int, 0, len(without)-1)
		for j := range without {
			if j != i {
				rest = append(rest, j)
			}
		}
		without[i] = b.of(rest)
	}
	mean := Mean(without)
	var squares, cubes float64
	for _, v := range without {
		d := mean - v
		squares += d * d
		cubes += d * d * d
	}
	if squares == 0 {
		return 0 // leaving one out changes nothing
	}
	return cubes / (6 * math.Pow(squares, 1.5))
}

// A Cell is an observation at the crossing of two factors, such as user task and
// injection task, within a stratum, such as a suite.
type Cell struct {
	Stratum, Row, Column string
	Value                float64
}

// Pigeonhole returns the mean of all cells with the percentile interval of the
// pigeonhole bootstrap, Owen, Annals of Applied Statistics 1:386-411 (2007): rows and
// columns are drawn with replacement, independently of each other, and a cell counts as
// often as its row was drawn times its column. It is done within each stratum; strata
// are not drawn. N counts the cells. Rows and columns need not all be crossed, and a
// crossing may have several cells. It is for outcomes that share a row or a column and
// are therefore not independent, and somewhat conservative.
//
// The result does not depend on the order of the cells. The error names a member of r,
// that there are no cells, a stratum with one row or one column, or a value that is not
// finite.
func Pigeonhole(cells []Cell, r Resampling) (Estimate, error) {
	const method = "pigeonhole bootstrap of rows and columns within strata"
	if err := r.check(method); err != nil {
		return Estimate{}, err
	}
	if len(cells) == 0 {
		return Estimate{}, fmt.Errorf("%s: there are no cells", method)
	}
	sorted := slices.SortedFunc(slices.Values(cells), func(a, b Cell) int {
		return cmp.Or(cmp.Compare(a.Stratum, b.Stratum), cmp.Compare(a.Row, b.Row), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Value, b.Value))
	})
	type crossing struct {
		row, column int
		value       float64
	}
	type stratum struct {
		rows, columns int
		cells         []crossing
	}
	var strata []stratum
	fewest, sum := math.MaxInt, 0.0
	for start := 0; start < len(sorted); {
		name := sorted[start].Stratum
		rows, columns := map[string]int{}, map[string]int{}
		s := stratum{}
		for ; start < len(sorted) && sorted[start].Stratum == name; start++ {
			c := sorted[start]
			if math.IsNaN(c.Value) || math.IsInf(c.Value, 0) {
				return Estimate{}, fmt.Errorf("%s: the value at %q, %q, %q is %v, want a finite number", method, name, c.Row, c.Column, c.Value)
			}
			for _, f := range []struct {
				levels map[string]int
				name   string
			}{{rows, c.Row}, {columns, c.Column}} {
				if _, ok := f.levels[f.name]; !ok {
					f.levels[f.name] = len(f.levels)
				}
			}
			s.cells = append(s.cells, crossing{rows[c.Row], columns[c.Column], c.Value})
			sum += c.Value
		}
		s.rows, s.columns = len(rows), len(columns)
		if s.rows < 2 || s.columns < 2 {
			return Estimate{}, fmt.Errorf("%s: stratum %q has %d rows and %d columns, want at least 2 of each", method, name, s.rows, s.columns)
		}
		fewest = min(fewest, s.rows, s.columns)
		strata = append(strata, s)
	}
	e := Estimate{Method: method, N: len(cells), Value: sum / float64(len(cells)), Lo: math.NaN(), Hi: math.NaN(), Confidence: r.Confidence, Warnings: []string{}}
	if fewest < FewClusters {
		e.Warnings = append(e.Warnings, fmt.Sprintf("few levels: %d rows or columns in a stratum, fewer than %d", fewest, FewClusters))
	}
	random := r.source()
	draw := func(n int) []int {
		times := make([]int, n)
		for range n {
			times[random.IntN(n)]++
		}
		return times
	}
	replicates, warnings := r.collect(func() float64 {
		n, sum := 0, 0.0
		for _, s := range strata {
			rows, columns := draw(s.rows), draw(s.columns)
			for _, c := range s.cells {
				times := rows[c.row] * columns[c.column]
				n += times
				sum += float64(times) * c.value
			}
		}
		return sum / float64(n) // NaN when no crossing was drawn
	})
	e.Warnings = append(e.Warnings, warnings...)
	if len(replicates) > 0 {
		e.Lo, e.Hi = percentiles(replicates, r.Confidence)
	}
	return e, nil
}
