package harness

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func subsets(n int) *rapid.Generator[[]subset] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) subset {
		return subset(rapid.Uint64Range(0, uint64(all(n))).Draw(t, "set"))
	}), 0, 6)
}

// TestDualiseLearnsAnyMonotoneFunction: whatever the cuts, and whatever the hints,
// they are found with few questions, and so are the smallest sets that block.
func TestDualiseLearnsAnyMonotoneFunction(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "bindings")
		want := minimal(subsets(n).Draw(t, "cuts"))
		hints := append(subsets(n).Draw(t, "hints"), want[:rapid.IntRange(0, len(want)).Draw(t, "right hints")]...)
		value := func(s subset) bool { // a set blocks if it meets every cut
			return !slices.ContainsFunc(want, func(c subset) bool { return s&c == 0 })
		}
		questions := 0
		cuts, sufficient, err := dualise(n, func(s subset) (bool, error) { questions++; return value(s), nil }, hints)
		if err != nil || !slices.Equal(cuts, want) {
			t.Fatalf("the cuts are %b, want %b, %v", cuts, want, err)
		}
		var blocking []subset
		for s := subset(0); s <= all(n); s++ {
			if value(s) {
				blocking = append(blocking, s)
			}
		}
		if !slices.Equal(sufficient, minimal(blocking)) {
			t.Fatalf("the sufficient sets are %b, want %b", sufficient, minimal(blocking))
		}
		// Sets that block are asked once; each cut found costs a question for the
		// open set and one for each binding.
		if most := len(hints) + 1<<min(n, 5) + (n+1)*(len(cuts)+len(hints)) + len(sufficient); questions > most {
			t.Fatalf("%d questions, want at most %d", questions, most)
		}
	})
}

// TestDualiseAsksLittle: the number of questions follows the answer and not the
// number of subsets.
func TestDualiseAsksLittle(t *testing.T) {
	const n = 25
	cut := subset(0).with(3).with(11).with(24)
	for _, hints := range [][]subset{nil, {cut}} {
		questions := 0
		cuts, sufficient, err := dualise(n, func(s subset) (bool, error) { questions++; return s&cut != 0, nil }, hints)
		if err != nil || !slices.Equal(cuts, []subset{cut}) || len(sufficient) != 3 {
			t.Fatalf("%b, %b, %v", cuts, sufficient, err)
		}
		if most := 1 + n + 3; questions > most || hints != nil && questions > 4 {
			t.Errorf("%d questions with %d hints", questions, len(hints))
		}
	}
}

func TestDualiseExtremes(t *testing.T) {
	always := func(b bool) func(subset) (bool, error) { return func(subset) (bool, error) { return b, nil } }
	if cuts, sufficient, err := dualise(3, always(false), nil); err != nil || !slices.Equal(cuts, []subset{0}) || len(sufficient) != 0 {
		t.Errorf("open with everything: %b, %b, %v", cuts, sufficient, err)
	}
	if cuts, sufficient, err := dualise(3, always(true), nil); err != nil || len(cuts) != 0 || !slices.Equal(sufficient, []subset{0}) {
		t.Errorf("blocked with nothing: %b, %b, %v", cuts, sufficient, err)
	}
	broken := errors.New("no answer")
	for after := range 5 {
		asked := 0
		_, _, err := dualise(3, func(s subset) (bool, error) {
			if asked++; asked > after {
				return false, broken
			}
			return s.has(1), nil
		}, []subset{1})
		if !errors.Is(err, broken) {
			t.Errorf("no answer to question %d: %v", after+1, err)
		}
	}
}

// TestTransversals: they are the minimal sets that meet every set, and doing it
// twice gives the minimal sets back.
func TestTransversals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sets := subsets(8).Draw(t, "sets")
		if got, want := transversals(transversals(sets)), minimal(sets); !slices.Equal(got, want) {
			t.Fatalf("%b, want %b", got, want)
		}
	})
}

func TestChoose(t *testing.T) {
	from := all(6) &^ subset(0).with(2)
	for k, want := range []int{1, 5, 10, 10, 5, 1, 0} {
		got := choose(from, k)
		if len(got) != want || len(minimal(got)) != want {
			t.Errorf("%d sets of %d, want %d different ones", len(got), k, want)
		}
		for _, s := range got {
			if s.size() != k || !s.in(from) {
				t.Errorf("%b is no choice of %d from %b", s, k, from)
			}
		}
	}
}
