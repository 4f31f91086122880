// Package audit keeps the decision log of an approval gateway: append-only,
// numbered without gaps, and tamper-evident, because a Merkle tree (RFC 6962,
// section 2.1) is grown over the very bytes of the entries. Who notes the root
// of the tree somewhere else can later prove that an entry is in the log, and
// that a longer log has not rewritten a shorter one.
//
// An entry is one line of JSON, whatever it names: line breaks, terminal escapes
// and invisible characters are written as \u escapes, so no name can forge a
// line or hide one.
//
// The tree shows that a log was changed; it cannot prevent it, nor does it show
// that a root noted by nobody was replaced. Roots are not signed here.
package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"unicode"
	"unicode/utf8"

	"countersign/gateway/api"
)

// A Log is an append-only list of entries. Its methods may be called
// concurrently.
type Log interface {
	// Append stores an entry, which is durable when it returns as far as the log
	// is. It gives the entry the next Seq (1, 2, …), whatever Seq it came with,
	// and returns it so. An error means that the entry may be missing from the
	// log.
	Append(ctx context.Context, e api.AuditEntry) (api.AuditEntry, error)
	// Read returns the entries with Seq > after, oldest first, and at most MaxRead of
	// them. Who wants more asks again, after the last one.
	Read(ctx context.Context, after int64) ([]api.AuditEntry, error)
}

// MaxRead is how many entries are read at once at most, so that what a reader takes of
// a gateway's memory does not grow with the log.
const MaxRead = 1000

// maxLine is the longest line of a log in bytes, the line feed not counted. It
// keeps a damaged file from being read as one endless line.
const maxLine = 1 << 20

// Encode returns the bytes of an entry: JSON without a line feed, in printable
// characters only. They are what the file holds and what the tree is built of.
func Encode(e api.AuditEntry) ([]byte, error) {
	// Round strips the monotonic reading, which is not part of the entry.
	e.Time = e.Time.UTC().Round(0)
	line, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encoding audit entry %d: %w", e.Seq, err)
	}
	line = escapeUnprintable(line)
	if len(line) > maxLine {
		return nil, fmt.Errorf("encoding audit entry %d: %d bytes, the limit is %d", e.Seq, len(line), maxLine)
	}
	return line, nil
}

// Decode reads the bytes of one entry. A member that entries do not have is an
// error.
func Decode(line []byte) (api.AuditEntry, error) {
	var e api.AuditEntry
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return api.AuditEntry{}, fmt.Errorf("decoding audit entry: %w", err)
	}
	if d.InputOffset() != int64(len(line)) {
		return api.AuditEntry{}, errors.New("decoding audit entry: text after the entry")
	}
	return e, nil
}

// escapeUnprintable writes as \u escapes what encoding/json leaves as it is: DEL,
// the C1 controls (a terminal takes U+009B for an escape sequence), bidirectional
// and other format characters, separators. Such characters occur in JSON text
// inside strings only.
func escapeUnprintable(line []byte) []byte {
	plain := true
	for _, c := range line {
		if c >= 0x7f {
			plain = false
			break
		}
	}
	if plain {
		return line
	}
	out := make([]byte, 0, len(line)+len(line)/2)
	for len(line) > 0 {
		r, n := utf8.DecodeRune(line)
		switch {
		case unicode.IsPrint(r):
			out = append(out, line[:n]...)
		case r > 0xffff:
			r -= 0x10000
			out = fmt.Appendf(out, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		line = line[n:]
	}
	return out
}
