package harness

import (
	"cmp"
	"math/bits"
	"slices"
)

// A subset is a set of the bindings of a design, by their index.
type subset uint64

// maxBindings is how many a design may have for a subset to hold them.
const maxBindings = 63

func (s subset) size() int            { return bits.OnesCount64(uint64(s)) }
func (s subset) has(i int) bool       { return s>>i&1 == 1 }
func (s subset) with(i int) subset    { return s | 1<<i }
func (s subset) in(other subset) bool { return s&^other == 0 }

// all is the set of n bindings.
func all(n int) subset { return 1<<n - 1 }

// dualise learns a monotone function over the subsets of n bindings by asking for
// its value, and returns all there is to know about it: the minimal cuts, which
// are the smallest sets whose loss opens, and the minimal sufficient sets, which
// are the smallest that block. Both are in order of size.
//
// It is dualize and advance (Gunopulos, Khardon, Mannila, Toivonen 1997). A set
// that blocks meets every cut. So the smallest sets that meet every cut known so
// far are asked: if all of them block, they are the minimal sufficient sets, and
// the cuts are all cuts; if one is open, it is enlarged while it stays open, and
// what it then lacks is a further minimal cut. That asks about n times for each
// cut and once for each sufficient set, however many subsets there are.
//
// Hints are sets that may be cuts. They save questions and decide nothing: each
// is asked about first, and one that is open but not minimal gives way to the
// cuts within it.
//
// A design that is open with everything has the empty cut and no sufficient set;
// one that blocks with nothing has the empty sufficient set and no cut.
func dualise(n int, blocked func(subset) (bool, error), hints []subset) (cuts, sufficient []subset, err error) {
	full := all(n)
	for _, h := range hints {
		b, err := blocked(full &^ h)
		if err != nil {
			return nil, nil, err
		}
		if !b {
			cuts = append(cuts, h)
		}
	}
	known := map[subset]bool{} // sets that block
next:
	for {
		cuts = minimal(cuts)
		sufficient = transversals(cuts)
		for _, t := range sufficient {
			if known[t] {
				continue
			}
			b, err := blocked(t)
			if err != nil {
				return nil, nil, err
			}
			if b {
				known[t] = true
				continue
			}
			for i := range n {
				if t.has(i) {
					continue
				}
				b, err := blocked(t.with(i))
				if err != nil {
					return nil, nil, err
				}
				if !b {
					t = t.with(i)
				}
			}
			cuts = append(cuts, full&^t)
			continue next
		}
		return cuts, sufficient, nil
	}
}

// minimal drops every set that has another one within it, and sorts by size.
func minimal(sets []subset) []subset {
	sets = slices.Clone(sets)
	slices.SortFunc(sets, func(a, b subset) int { return cmp.Or(cmp.Compare(a.size(), b.size()), cmp.Compare(a, b)) })
	var out []subset
	for _, s := range sets {
		if !slices.ContainsFunc(out, func(o subset) bool { return o.in(s) }) {
			out = append(out, s)
		}
	}
	return out
}

// transversals are the minimal sets that meet every one of the given sets
// (Berge's algorithm: one set after the other).
func transversals(sets []subset) []subset {
	out := []subset{0}
	for _, s := range sets {
		var next []subset
		for _, t := range out {
			if t&s != 0 {
				next = append(next, t)
				continue
			}
			for i := range maxBindings {
				if s.has(i) {
					next = append(next, t.with(i))
				}
			}
		}
		out = minimal(next)
	}
	return out
}
