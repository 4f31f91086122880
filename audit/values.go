package audit

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// A Value is what a digest in a log stands for.
type Value struct {
	Digest string `json:"digest"` // hex SHA-256 of Text
	Kind   string `json:"kind"`   // such as arguments, action, view
	Text   string `json:"text"`
}

// check says that a value is what its digest stands for.
func (v Value) check() error {
	if v.Kind == "" || !utf8.ValidString(v.Text) {
		return errors.New("a value has a kind, and a text in UTF-8")
	}
	if sum := sha256.Sum256([]byte(v.Text)); hex.EncodeToString(sum[:]) != v.Digest {
		return fmt.Errorf("the digest of the text is not %q", v.Digest)
	}
	return nil
}

// A Keeper keeps values, durably when Keep returns. An error means that the value may
// be missing.
type Keeper interface {
	Keep(ctx context.Context, v Value) error
}

var _ Keeper = (*Values)(nil)

// maxValue is the longest line of a file of values in bytes.
const maxValue = 16 << 20

// encodeValue returns the line of a value, in printable characters only.
func encodeValue(v Value) ([]byte, error) {
	if err := v.check(); err != nil {
		return nil, err
	}
	line, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	if line = escapeUnprintable(line); len(line) > maxValue {
		return nil, fmt.Errorf("%d bytes, the limit is %d", len(line), maxValue)
	}
	return line, nil
}

// decodeValue reads a line. A member that values do not have is an error, and so is a
// text that has another digest.
func decodeValue(line []byte) (Value, error) {
	var v Value
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		return Value{}, err
	}
	if d.InputOffset() != int64(len(line)) {
		return Value{}, errors.New("text after the value")
	}
	return v, v.check()
}

// maxRecent is how many digests of values are remembered.
const maxRecent = 1 << 14

// Values is a file of the values that a log has digests of. It is apart from the log,
// so that fewer people may read it, and so that values can be erased while the log
// stays whole. It is only appended to; one process at a time may have it open. The
// digests of those that were kept last are in memory, so that one that comes often is
// not stored each time.
type Values struct {
	mu   sync.Mutex
	f    *os.File
	path string
	end  int64
	torn bool
	have *simplelru.LRU[[sha256.Size]byte, struct{}]
}

// OpenValues opens the file at path, which nobody but its owner may read, and makes it
// when there is none. A line that a crash cut off is removed; any other damage is an
// error.
func OpenValues(path string) (*Values, error) {
	f, err := openAppend(path, "the audit values")
	if err != nil {
		return nil, err
	}
	have, err := simplelru.NewLRU[[sha256.Size]byte, struct{}](maxRecent, nil)
	if err != nil { // for a size below one only
		panic(err)
	}
	v := &Values{f: f, path: path, have: have}
	if err := v.load(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return v, nil
}

func (v *Values) load() error {
	there, err := os.Stat(v.path)
	if err != nil {
		return fmt.Errorf("opening the audit values: %w", err)
	}
	mine, err := v.f.Stat()
	switch {
	case err != nil:
		return fmt.Errorf("opening the audit values: %w", err)
	case !os.SameFile(there, mine):
		return fmt.Errorf("opening the audit values %s: it was replaced meanwhile", v.path)
	case runtime.GOOS != "windows" && mine.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("opening the audit values %s: others may read it (mode %04o): chmod 600 it", v.path, mine.Mode().Perm())
	}
	whole, err := scanValues(v.f, v.path, func(one Value) error {
		v.have.Add(sha256.Sum256([]byte(one.Text)), struct{}{})
		return nil
	})
	v.end, v.torn = whole, err == nil && whole < mine.Size()
	return err
}

// scanValues calls each for every whole line, and returns the length of these.
func scanValues(f io.Reader, path string, each func(Value) error) (whole int64, err error) {
	r := bufio.NewReader(f)
	for number := 1; ; number++ {
		line, err := readLine(r, maxValue)
		switch {
		case errors.Is(err, io.EOF):
			return whole, nil
		case err != nil:
			return whole, fmt.Errorf("reading the audit values %s: line %d: %w", path, number, err)
		}
		v, err := decodeValue(line)
		if err == nil {
			err = each(v)
		}
		if err != nil {
			return whole, fmt.Errorf("the audit values %s are damaged: line %d: %w", path, number, err)
		}
		whole += int64(len(line)) + 1
	}
}

// readLine reads a line without its line feed; a line that has none is io.EOF.
func readLine(r *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > limit+1 {
			return nil, fmt.Errorf("more than %d bytes", limit)
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return line[:len(line)-1], nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// Keep implements [Keeper]. What was kept lately is not stored again.
func (v *Values) Keep(ctx context.Context, one Value) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	fail := func(err error) error { return fmt.Errorf("keeping the value of %s: %w", one.Digest, err) }
	if err := ctx.Err(); err != nil {
		return fail(err)
	}
	if v.f == nil {
		return fail(errors.New("the file is closed"))
	}
	line, err := encodeValue(one)
	if err != nil {
		return fail(err)
	}
	sum := sha256.Sum256([]byte(one.Text))
	if _, ok := v.have.Get(sum); ok {
		return nil
	}
	if v.torn {
		if err := errors.Join(v.f.Truncate(v.end), v.f.Sync()); err != nil {
			return fail(err)
		}
	}
	v.torn = true
	if _, err := v.f.Write(append(line, '\n')); err != nil {
		return fail(err)
	}
	if err := v.f.Sync(); err != nil {
		return fail(err)
	}
	v.torn = false
	v.have.Add(sum, struct{}{})
	v.end += int64(len(line)) + 1
	return nil
}

// Close closes the file; later calls of Keep fail.
func (v *Values) Close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.f == nil {
		return nil
	}
	err := v.f.Close()
	v.f = nil
	if err != nil {
		return fmt.Errorf("closing the audit values %s: %w", v.path, err)
	}
	return nil
}

// ReadValues calls each for every value of the file at path, and changes nothing, so
// that it may be called while a gateway appends. A line that is not finished is left
// out; one whose text has another digest is an error.
func ReadValues(path string, each func(Value) error) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("opening the audit values: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	_, err = scanValues(f, path, each)
	return err
}

// Erase removes the values with the given digests and returns how many there were. The
// file is written anew beside the old one, which it then replaces; no gateway may have
// it open. What a disk or a copy keeps of the old one is not its business.
func Erase(path string, digests []string) (erased int, err error) {
	if _, err := os.Stat(path); err != nil { // a mistaken name makes no file
		return 0, fmt.Errorf("opening the audit values: %w", err)
	}
	v, err := OpenValues(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, v.Close()) }()
	fail := func(err error) (int, error) { return 0, fmt.Errorf("erasing from the audit values %s: %w", path, err) }
	f, err := os.CreateTemp(filepath.Dir(path), ".values-*") // mode 0600
	if err != nil {
		return fail(err)
	}
	defer func() { _ = os.Remove(f.Name()) }() // gone, where all went well
	w := bufio.NewWriter(f)
	gone := map[string]bool{} // a value may be there more than once
	_, err = scanValues(io.NewSectionReader(v.f, 0, v.end), path, func(one Value) error {
		if slices.Contains(digests, one.Digest) {
			gone[one.Digest] = true
			return nil
		}
		line, err := encodeValue(one)
		if err == nil {
			_, err = w.Write(append(line, '\n'))
		}
		return err
	})
	if err = errors.Join(err, w.Flush(), f.Sync(), f.Close()); err != nil {
		return fail(err)
	}
	if len(gone) == 0 {
		return 0, nil
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fail(err)
	}
	return len(gone), syncFolder(path)
}
