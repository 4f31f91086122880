package audit

import (
	"fmt"
	"sync"

	"golang.org/x/mod/sumdb/tlog"
)

// tree is the Merkle tree over the entries of a log. Hashes are kept in the
// order of tlog.StoredHashIndex, about two per entry.
type tree struct {
	mu     sync.RWMutex
	size   int64 // entries
	hashes []tlog.Hash
}

// read is the tlog.HashReader of the tree; the lock must be held.
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

// add appends an entry; the lock must be held for writing.
func (t *tree) add(line []byte) error {
	more, err := tlog.StoredHashes(t.size, line, tlog.HashReaderFunc(t.read))
	if err != nil {
		return fmt.Errorf("adding audit entry %d to the tree: %w", t.size+1, err)
	}
	t.hashes = append(t.hashes, more...)
	t.size++
	return nil
}

// Root returns the number of entries and the root hash over them. The root of no
// entries is the hash of the empty string.
func (t *tree) Root() (size int64, root tlog.Hash) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.size, t.root(t.size)
}

func (t *tree) root(size int64) tlog.Hash {
	h, err := tlog.TreeHash(size, tlog.HashReaderFunc(t.read))
	if err != nil {
		// Every hash below size was stored by add: only a bug comes here.
		panic(err)
	}
	return h
}

// A Proof shows that an entry is in the log of the given size and root.
type Proof struct {
	Seq    int64            `json:"seq"`
	Size   int64            `json:"size"`
	Root   tlog.Hash        `json:"root"`
	Record tlog.RecordProof `json:"record"` // the audit path of RFC 6962, section 2.1.1
}

// Prove shows that entry seq is in the log as it is now.
func (t *tree) Prove(seq int64) (Proof, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.prove(seq, t.size)
}

// prove shows that an entry is among the first size ones.
func (t *tree) prove(seq, size int64) (Proof, error) {
	if seq < 1 || seq > size || size > t.size {
		return Proof{}, fmt.Errorf("proving audit entry %d: the log has entries 1 to %d", seq, min(size, t.size))
	}
	p, err := tlog.ProveRecord(size, seq-1, tlog.HashReaderFunc(t.read))
	if err != nil {
		return Proof{}, fmt.Errorf("proving audit entry %d: %w", seq, err)
	}
	return Proof{Seq: seq, Size: size, Root: t.root(size), Record: p}, nil
}

// Check verifies that line is the entry p.Seq of the log with p.Size and p.Root.
// Compare these two with a size and root that were noted by someone you trust:
// a proof is only as good as its root.
func Check(p Proof, line []byte) error {
	if err := tlog.CheckRecord(p.Record, p.Size, p.Root, p.Seq-1, tlog.RecordHash(line)); err != nil {
		return fmt.Errorf("checking audit entry %d against the root of %d entries: %w", p.Seq, p.Size, err)
	}
	return nil
}

// A PrefixProof shows that the log of Size entries starts with the log of the
// first Prefix ones.
type PrefixProof struct {
	Prefix     int64          `json:"prefix"`
	PrefixRoot tlog.Hash      `json:"prefix_root"`
	Size       int64          `json:"size"`
	Root       tlog.Hash      `json:"root"`
	Tree       tlog.TreeProof `json:"tree"` // the consistency proof of RFC 6962, section 2.1.2
}

// ProvePrefix shows that the log as it is now starts with its first entries,
// prefix of them and at least one.
func (t *tree) ProvePrefix(prefix int64) (PrefixProof, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.provePrefix(prefix, t.size)
}

// provePrefix shows that the first size entries start with the first prefix ones.
func (t *tree) provePrefix(prefix, size int64) (PrefixProof, error) {
	if prefix < 1 || prefix > size || size > t.size {
		return PrefixProof{}, fmt.Errorf("proving the first %d audit entries: the log has %d", prefix, min(size, t.size))
	}
	p, err := tlog.ProveTree(size, prefix, tlog.HashReaderFunc(t.read))
	if err != nil {
		return PrefixProof{}, fmt.Errorf("proving the first %d audit entries: %w", prefix, err)
	}
	return PrefixProof{Prefix: prefix, PrefixRoot: t.root(prefix), Size: size, Root: t.root(size), Tree: p}, nil
}

// CheckPrefix verifies p. As with [Check], compare both sizes and roots with
// what was noted elsewhere.
func CheckPrefix(p PrefixProof) error {
	if err := tlog.CheckTree(p.Tree, p.Size, p.Root, p.Prefix, p.PrefixRoot); err != nil {
		return fmt.Errorf("checking the first %d audit entries against the root of %d: %w", p.Prefix, p.Size, err)
	}
	return nil
}
