package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	signednote "golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"countersign/gateway/api"
)

// The types of the files in which proofs travel.
const (
	typeInclusion   = "countersign/audit-inclusion/v1"
	typeConsistency = "countersign/audit-consistency/v1"
)

// A ProofFile is everything that somebody without the log needs, beside the verifier
// key: that entries are in the log of a signed checkpoint, or that the log of one
// signed checkpoint starts with that of another.
type ProofFile struct {
	Type       string        `json:"type"`
	Checkpoint string        `json:"checkpoint"`        // a signed note; of a consistency proof the newer
	Older      string        `json:"older,omitempty"`   // of a consistency proof
	Entries    []ProvedEntry `json:"entries,omitempty"` // of an inclusion proof
	Tree       []tlog.Hash   `json:"tree,omitempty"`    // of a consistency proof (RFC 6962, section 2.1.2)
}

// A ProvedEntry is an entry with its audit path.
type ProvedEntry struct {
	Seq    int64       `json:"seq"`
	Line   string      `json:"line"`   // its very bytes, without the line feed
	Record []tlog.Hash `json:"record"` // RFC 6962, section 2.1.1
}

// ErrNotProved says that a proof was read and does not prove what it says.
var ErrNotProved = errors.New("not proved")

// ErrNotCovered says that there is no checkpoint that covers an entry.
var ErrNotCovered = errors.New("no checkpoint covers it")

// maxProved bounds the entries of one proof.
const maxProved = 1 << 16

// ProveEntries proves the entries that id names: one by its number, or all with that
// permit or suspension. They are proved against the last checkpoint. Nothing is
// verified: who checks the proof does that.
func ProveEntries(log, checkpoints, id string) (ProofFile, error) {
	cs, err := proving(checkpoints)
	if err != nil {
		return ProofFile{}, err
	}
	last := cs[len(cs)-1]
	p := ProofFile{Type: typeInclusion, Checkpoint: last.Note}
	number, _ := strconv.ParseInt(id, 10, 64)
	behind := int64(0)
	h, err := whole(log, func(line []byte, e api.AuditEntry) {
		switch {
		case !Names(e, id, number) || len(p.Entries) > maxProved:
		case e.Seq > last.Size:
			behind = e.Seq
		default:
			p.Entries = append(p.Entries, ProvedEntry{Seq: e.Seq, Line: string(line)})
		}
	})
	switch {
	case err != nil:
		return ProofFile{}, err
	case h.size < last.Size:
		return ProofFile{}, fmt.Errorf("proving %s: the log has %d entries, and checkpoint %d covers %d", id, h.size, last.Number, last.Size)
	case behind > 0:
		return ProofFile{}, fmt.Errorf("proving %s: entry %d is behind checkpoint %d, which is the last: %w", id, behind, last.Number, ErrNotCovered)
	case len(p.Entries) == 0:
		return ProofFile{}, fmt.Errorf("proving %s: the log has no such entry, permit or suspension", id)
	case len(p.Entries) > maxProved:
		return ProofFile{}, fmt.Errorf("proving %s: it has more than %d entries", id, maxProved)
	}
	for i := range p.Entries {
		one, err := h.prove(p.Entries[i].Seq, last.Size)
		if err != nil {
			return ProofFile{}, err
		}
		p.Entries[i].Record = one.path
	}
	return p, nil
}

// Names reports whether an entry is the one with a number, or is of a permit or
// suspension.
func Names(e api.AuditEntry, id string, number int64) bool {
	return id != "" && (e.Permit == id || e.Suspension == id) || number > 0 && e.Seq == number
}

// ProveConsistency proves that the log of checkpoint newer starts with that of the
// checkpoint older, by their numbers.
func ProveConsistency(log, checkpoints string, older, newer int64) (ProofFile, error) {
	cs, err := proving(checkpoints)
	if err != nil {
		return ProofFile{}, err
	}
	if older < 1 || older > newer || newer > int64(len(cs)) {
		return ProofFile{}, fmt.Errorf("proving checkpoint %d to start with checkpoint %d: there are checkpoints 1 to %d", newer, older, len(cs))
	}
	h, err := whole(log, nil)
	if err != nil {
		return ProofFile{}, err
	}
	from, to := cs[older-1], cs[newer-1]
	p := ProofFile{Type: typeConsistency, Checkpoint: to.Note, Older: from.Note}
	if from.Size == 0 {
		return p, nil // every log starts with the empty one
	}
	proof, err := h.provePrefix(from.Size, to.Size)
	p.Tree = proof.proof
	return p, err
}

// proving reads the checkpoints, of which there is one at least.
func proving(path string) ([]SignedCheckpoint, error) {
	cs, _, err := ReadCheckpoints(path)
	if err == nil && len(cs) == 0 {
		err = fmt.Errorf("the checkpoints %s: there is none yet", path)
	}
	return cs, err
}

// whole reads a log that is not damaged.
func whole(path string, each func(line []byte, e api.AuditEntry)) (*history, error) {
	h, err := read(path, each)
	if err == nil && h.bad != nil {
		err = h.bad
	}
	return h, err
}

// ParseProof reads a proof. A member that proofs do not have is an error, and nothing
// is verified.
func ParseProof(text []byte) (ProofFile, error) {
	fail := func(format string, args ...any) (ProofFile, error) {
		return ProofFile{}, fmt.Errorf("reading a proof: "+format, args...)
	}
	var p ProofFile
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return fail("%w", err)
	}
	if len(bytes.TrimSpace(text[d.InputOffset():])) > 0 {
		return fail("text after the proof")
	}
	switch {
	case p.Type == typeInclusion && (len(p.Entries) == 0 || p.Older != "" || p.Tree != nil):
		return fail("want entries, and nothing of a consistency proof")
	case p.Type == typeConsistency && (p.Older == "" || p.Entries != nil):
		return fail("want two checkpoints, and nothing of an inclusion proof")
	case p.Type != typeInclusion && p.Type != typeConsistency:
		return fail("its type is %q, want %s or %s", p.Type, typeInclusion, typeConsistency)
	}
	return p, nil
}

// A Proved is what a proof proves.
type Proved struct {
	Checkpoint Checkpoint
	Older      *Checkpoint      // whose log the one of Checkpoint starts with; nil where entries are proved
	Entries    []api.AuditEntry // that are in the log of Checkpoint
}

// Check verifies the proof with nothing but the known keys. An error is
// [ErrNotProved].
func (p ProofFile) Check(known signednote.Verifiers) (Proved, error) {
	fail := func(err error) (Proved, error) { return Proved{}, fmt.Errorf("%w: %w", ErrNotProved, err) }
	open := func(text string) (Checkpoint, error) {
		c, err := ParseCheckpoint(text)
		if err == nil {
			err = c.Verify(known)
		}
		return c.Checkpoint, err
	}
	c, err := open(p.Checkpoint)
	if err != nil {
		return fail(err)
	}
	out := Proved{Checkpoint: c}
	switch p.Type {
	case typeInclusion:
		for _, one := range p.Entries {
			line := []byte(one.Line)
			e, err := Decode(line)
			if err == nil && e.Seq != one.Seq {
				err = fmt.Errorf("entry %d is said to be entry %d", e.Seq, one.Seq)
			}
			if err == nil {
				err = inclusion{seq: one.Seq, size: c.Size, root: c.Root, path: one.Record}.check(line)
			}
			if err != nil {
				return fail(err)
			}
			out.Entries = append(out.Entries, e)
		}
		if len(out.Entries) == 0 {
			return fail(errors.New("it has no entry"))
		}
		return out, nil
	case typeConsistency:
		older, err := open(p.Older)
		switch {
		case err != nil:
			return fail(err)
		case older.Origin != c.Origin:
			return fail(fmt.Errorf("the checkpoints are of two logs, %s and %s", older.Origin, c.Origin))
		case older.Size == 0 && older.Root == emptyRoot && len(p.Tree) == 0:
		default:
			err = consistency{prefix: older.Size, prefixRoot: older.Root, size: c.Size, root: c.Root, proof: slices.Clone(p.Tree)}.check()
		}
		if err != nil {
			return fail(err)
		}
		out.Older = &older
		return out, nil
	}
	return fail(fmt.Errorf("a proof of type %q", p.Type))
}

// emptyRoot is the root of no entries.
var emptyRoot = new(tree).root(0)
