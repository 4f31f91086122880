package audit

import (
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/tlog"
)

// tree is the whole Merkle tree over the entries of a log, for proofs. Hashes are kept
// in the order of tlog.StoredHashIndex, about two per entry.
type tree struct {
	size   int64 // entries
	hashes []tlog.Hash
}

// read is the tlog.HashReader of the tree.
func (t *tree) read(indexes []int64) ([]tlog.Hash, error) {
	hashes := make([]tlog.Hash, len(indexes))
	for i, x := range indexes {
		if x < 0 || x >= int64(len(t.hashes)) {
			return nil, fmt.Errorf("audit tree of %d entries has no hash %d", t.size, x)
		}
		hashes[i] = t.hashes[x]
	}
	return hashes, nil
}

// add appends an entry.
func (t *tree) add(line []byte) error {
	more, err := tlog.StoredHashes(t.size, line, tlog.HashReaderFunc(t.read))
	if err != nil {
		return fmt.Errorf("adding audit entry %d to the tree: %w", t.size+1, err)
	}
	t.hashes = append(t.hashes, more...)
	t.size++
	return nil
}

// root is the root over the first size entries. The root of no entries is the hash of
// the empty string.
func (t *tree) root(size int64) tlog.Hash {
	h, err := tlog.TreeHash(size, tlog.HashReaderFunc(t.read))
	if err != nil {
		// Every hash below size was stored by add: only a bug comes here.
		panic(err)
	}
	return h
}

// An inclusion shows that an entry is in the log of the given size and root.
type inclusion struct {
	seq, size int64
	root      tlog.Hash
	path      tlog.RecordProof // the audit path of RFC 6962, section 2.1.1
}

// prove shows that an entry is among the first size ones.
func (t *tree) prove(seq, size int64) (inclusion, error) {
	if seq < 1 || seq > size || size > t.size {
		return inclusion{}, fmt.Errorf("proving audit entry %d: the log has entries 1 to %d", seq, min(size, t.size))
	}
	p, err := tlog.ProveRecord(size, seq-1, tlog.HashReaderFunc(t.read))
	if err != nil {
		return inclusion{}, fmt.Errorf("proving audit entry %d: %w", seq, err)
	}
	return inclusion{seq: seq, size: size, root: t.root(size), path: p}, nil
}

// check verifies that line is the entry p.seq of the log with p.size and p.root. A proof
// is only as good as its root: the caller has it from somebody to be trusted.
func (p inclusion) check(line []byte) error {
	if err := tlog.CheckRecord(p.path, p.size, p.root, p.seq-1, tlog.RecordHash(line)); err != nil {
		return fmt.Errorf("checking audit entry %d against the root of %d entries: %w", p.seq, p.size, err)
	}
	return nil
}

// A consistency shows that the log of size entries starts with the log of the first
// prefix ones.
type consistency struct {
	prefix, size     int64
	prefixRoot, root tlog.Hash
	proof            tlog.TreeProof // of RFC 6962, section 2.1.2
}

// provePrefix shows that the first size entries start with the first prefix ones.
func (t *tree) provePrefix(prefix, size int64) (consistency, error) {
	if prefix < 1 || prefix > size || size > t.size {
		return consistency{}, fmt.Errorf("proving the first %d audit entries: the log has %d", prefix, min(size, t.size))
	}
	p, err := tlog.ProveTree(size, prefix, tlog.HashReaderFunc(t.read))
	if err != nil {
		return consistency{}, fmt.Errorf("proving the first %d audit entries: %w", prefix, err)
	}
	return consistency{prefix: prefix, prefixRoot: t.root(prefix), size: size, root: t.root(size), proof: p}, nil
}

// check verifies p. As with [inclusion.check], sizes and roots are somebody's to vouch for.
func (p consistency) check() error {
	if err := tlog.CheckTree(p.proof, p.size, p.root, p.prefix, p.prefixRoot); err != nil {
		return fmt.Errorf("checking the first %d audit entries against the root of %d: %w", p.prefix, p.size, err)
	}
	return nil
}

// A frontier is what is needed of a Merkle tree to go on growing it and to know its
// root: the hashes of its largest whole subtrees, from the left, of which there is one
// for each bit that is set in the number of entries.
type frontier struct {
	size   int64 // entries
	whole  []tlog.Hash
	stored []int64 // tlog.StoredHashIndex of each
}

// read is the tlog.HashReader of the frontier.
func (f *frontier) read(indexes []int64) ([]tlog.Hash, error) {
	hashes := make([]tlog.Hash, len(indexes))
	for i, x := range indexes {
		n := slices.Index(f.stored, x)
		if n < 0 {
			return nil, fmt.Errorf("the frontier of %d audit entries has no hash %d", f.size, x)
		}
		hashes[i] = f.whole[n]
	}
	return hashes, nil
}

// add appends an entry.
func (f *frontier) add(line []byte) error {
	more, err := tlog.StoredHashes(f.size, line, tlog.HashReaderFunc(f.read))
	if err != nil {
		return fmt.Errorf("adding audit entry %d to the tree: %w", f.size+1, err)
	}
	// Each hash behind that of the entry joins the last subtree with what grew beside it.
	joined := len(more) - 1
	kept := len(f.whole) - joined
	f.whole = append(f.whole[:kept], more[joined])
	f.stored = append(f.stored[:kept], tlog.StoredHashIndex(0, f.size)+int64(joined))
	f.size++
	return nil
}

func (f *frontier) root() tlog.Hash {
	h, err := tlog.TreeHash(f.size, tlog.HashReaderFunc(f.read))
	if err != nil {
		// Every hash that it is made of was kept by add: only a bug comes here.
		panic(err)
	}
	return h
}
