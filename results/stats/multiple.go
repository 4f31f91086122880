package stats

import (
	"cmp"
	"fmt"
	"slices"
)

// Holm returns the p values adjusted for the size of their family by Holm,
// Scandinavian Journal of Statistics 6:65-70 (1979), in the order given. Rejecting
// those at or below alpha makes any false rejection at most that probable, whatever
// the dependence. The error names the position of a value that is not in [0, 1].
func Holm(p []float64) ([]float64, error) {
	order, err := ascending("holm adjustment", p)
	if err != nil {
		return nil, err
	}
	adjusted := make([]float64, len(p))
	largest := 0.0
	for rank, i := range order {
		largest = max(largest, min(1, float64(len(p)-rank)*p[i]))
		adjusted[i] = largest
	}
	return adjusted, nil
}

// BenjaminiHochberg returns the p values adjusted by Benjamini and Hochberg, Journal
// of the Royal Statistical Society B 57:289-300 (1995), in the order given. Rejecting
// those at or below q makes the expected share of false rejections at most q, for
// tests that are independent or positively dependent. It is no substitute for
// [Holm] where a single false claim matters. The error is that of [Holm].
func BenjaminiHochberg(p []float64) ([]float64, error) {
	order, err := ascending("benjamini-hochberg adjustment", p)
	if err != nil {
		return nil, err
	}
	adjusted := make([]float64, len(p))
	smallest := 1.0
	for rank, i := range slices.Backward(order) {
		// A ratio of at least 1 first, so that rounding takes nothing below p.
		smallest = min(smallest, float64(len(p))/float64(rank+1)*p[i])
		adjusted[i] = smallest
	}
	return adjusted, nil
}

// ascending returns the positions of p in the order of their values.
func ascending(method string, p []float64) ([]int, error) {
	order := make([]int, len(p))
	for i, v := range p {
		if !(v >= 0 && v <= 1) {
			return nil, fmt.Errorf("%s: value %d is %v, want 0 to 1", method, i, v)
		}
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p[a], p[b]) })
	return order, nil
}
