package audit

import (
	"crypto/sha256"
	"errors"
	"math/bits"
	"slices"
	"testing"

	"golang.org/x/mod/sumdb/tlog"
	"pgregory.net/rapid"
)

// merkle is the Merkle tree hash as RFC 6962, section 2.1 defines it.
func merkle(lines [][]byte) tlog.Hash {
	switch len(lines) {
	case 0:
		return sha256.Sum256(nil)
	case 1:
		return sha256.Sum256(append([]byte{0}, lines[0]...))
	}
	k := 1
	for 2*k < len(lines) {
		k *= 2
	}
	left, right := merkle(lines[:k]), merkle(lines[k:])
	return sha256.Sum256(slices.Concat([]byte{1}, left[:], right[:]))
}

// The law of the log: the root is that of RFC 6962, whether the whole tree is kept or its
// frontier alone; every entry is provable, a longer log starts with every shorter one,
// and no proof fits anything else.
func TestTree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(rapid.SliceOf(rapid.Byte()), 1, 40).Draw(t, "lines")
		for i := range lines {
			lines[i] = append(lines[i], byte(i)) // entries have their numbers in them
		}
		var whole tree
		var edge frontier
		roots := []tlog.Hash{merkle(nil)}
		if whole.root(0) != roots[0] || edge.root() != roots[0] {
			t.Fatal("the root of no entries is not the hash of the empty string")
		}
		for i, line := range lines {
			if err := errors.Join(whole.add(line), edge.add(line)); err != nil {
				t.Fatal(err)
			}
			root := merkle(lines[:i+1])
			if got := whole.root(int64(i + 1)); got != root || whole.size != int64(i+1) {
				t.Fatalf("the root of %d entries is %v, want %v", i+1, got, root)
			}
			if got := edge.root(); got != root || edge.size != int64(i+1) || len(edge.whole) != bits.OnesCount(uint(i+1)) {
				t.Fatalf("the root of the frontier of %d entries, with %d hashes, is %v, want %v", i+1, len(edge.whole), got, root)
			}
			roots = append(roots, root)
		}
		size := rapid.Int64Range(1, whole.size).Draw(t, "size")
		seq := rapid.Int64Range(1, size).Draw(t, "seq")
		p, err := whole.prove(seq, size)
		if err != nil {
			t.Fatal(err)
		}
		if p.root != roots[size] || p.size != size || p.seq != seq {
			t.Fatalf("the proof of entry %d is for %d of %d entries with the root %v", seq, p.seq, p.size, p.root)
		}
		if err := p.check(lines[seq-1]); err != nil {
			t.Fatal(err)
		}
		other := p
		other.seq = seq%size + 1
		if size > 1 && other.check(lines[seq-1]) == nil {
			t.Fatalf("entry %d is proved to be entry %d", seq, other.seq)
		}
		if p.check(append([]byte(" "), lines[seq-1]...)) == nil {
			t.Fatal("an altered entry is proved")
		}
		prefix := rapid.Int64Range(1, size).Draw(t, "prefix")
		pp, err := whole.provePrefix(prefix, size)
		if err != nil {
			t.Fatal(err)
		}
		if pp.prefixRoot != roots[prefix] || pp.root != roots[size] || pp.prefix != prefix || pp.size != size {
			t.Fatalf("the proof of the first %d of %d entries has other roots than those noted", prefix, size)
		}
		if err := pp.check(); err != nil {
			t.Fatal(err)
		}
		// A log that rewrote an entry has a root that no proof leads to.
		i := rapid.Int64Range(0, prefix-1).Draw(t, "rewritten")
		lines[i] = append([]byte(" "), lines[i]...)
		pp.prefixRoot = merkle(lines[:prefix])
		if pp.check() == nil {
			t.Fatal("a rewritten log is proved to be the same")
		}
	})
}

func TestProofsOfNothing(t *testing.T) {
	var whole tree
	for range 3 {
		if err := whole.add([]byte("entry")); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range []int64{-1, 0, 4, 1 << 62} {
		if p, err := whole.prove(n, 3); err == nil {
			t.Errorf("prove(%d) = %+v", n, p)
		}
		if p, err := whole.provePrefix(n, 3); err == nil {
			t.Errorf("provePrefix(%d) = %+v", n, p)
		}
	}
	for _, size := range []int64{-1, 0, 4} {
		if p, err := whole.prove(1, size); err == nil {
			t.Errorf("proved among %d of 3 entries: %+v", size, p)
		}
		if p, err := whole.provePrefix(1, size); err == nil {
			t.Errorf("proved to be the start of %d of 3 entries: %+v", size, p)
		}
	}
	if (inclusion{}).check(nil) == nil || (consistency{}).check() == nil {
		t.Error("an empty proof is accepted")
	}
}

// A frontier that lost a hash says so; it does not go on with another tree.
func TestFrontierWithoutAHash(t *testing.T) {
	var f frontier
	for range 3 {
		if err := f.add([]byte("entry")); err != nil {
			t.Fatal(err)
		}
	}
	f.stored[0]++
	if err := f.add([]byte("entry")); err == nil || f.size != 3 {
		t.Errorf("%v, and %d entries", err, f.size)
	}
}
