package results

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A packed folder is a run, or a replay, small enough to be kept under version
// control. It has the SHA256SUMS of the folder that it was made of, so they are those
// of the texts that it holds and not of its own files: NAME.gz (RFC 1952) holds NAME,
// and NAME.delta.gz the JSON lines of NAME as [linesDelta] writes them. It is read
// wherever a run is.

const (
	zipEnding   = ".gz"
	deltaEnding = ".delta.gz"
)

// packedName is the file of a packed folder that holds a text.
func packedName(name string) string {
	switch {
	case name == ManifestFile: // it stays legible
		return name
	case strings.HasSuffix(name, ".jsonl"):
		return name + deltaEnding
	}
	return name + zipEnding
}

// usualPair is the pair that the harness gives to a trial. A packed run has an empty one
// in its place.
func usualPair(r Record) string {
	return strings.Join([]string{r.Attack, r.Variant, r.Scenario, strconv.FormatUint(r.Seed, 10)}, "/")
}

// packedRecords are the lines of records with the usual pair left out.
func packedRecords(records iter.Seq2[Record, error]) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for r, err := range records {
			var line []byte
			if err == nil {
				if r.Pair == usualPair(r) {
					r.Pair = ""
				}
				line, err = r.encode()
			}
			if !yield(line, err) || err != nil {
				return
			}
		}
	}
}

// unpackedRecords reads what [packedRecords] gives.
func unpackedRecords(lines iter.Seq2[[]byte, error]) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		n := 0
		for line, err := range lines {
			n++
			var r Record
			if err == nil {
				err = decodeStrict(line, &r)
			}
			if r.Pair == "" {
				r.Pair = usualPair(r)
			}
			if err = cmp.Or(err, r.Validate()); err != nil {
				yield(Record{}, fmt.Errorf("line %d: %w", n, err))
				return
			}
			if !yield(r, nil) {
				return
			}
		}
	}
}

// A part is a file of a run's folder: the name of its text, and where and in what
// form that is.
type part struct {
	name, path    string
	zipped, delta bool
}

// partOf says what a file of a folder holds. listed has the names that the folder's
// list of digests has; a name on it is the text itself.
func partOf(dir, file string, listed Sums) part {
	p := part{name: file, path: filepath.Join(dir, filepath.FromSlash(file))}
	if listed[file] != "" {
		return p
	}
	if name, ok := strings.CutSuffix(file, deltaEnding); ok {
		p.name, p.zipped, p.delta = name, true, true
	} else if name, ok := strings.CutSuffix(file, zipEnding); ok {
		p.name, p.zipped = name, true
	}
	return p
}

// digest is the SHA-256, in hex, of the text.
func (p part) digest() (string, error) {
	h := sha256.New()
	if err := p.copyTo(h); err != nil {
		return "", fmt.Errorf("reading %s: %w", p.path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func (p part) copyTo(w io.Writer) error {
	rd, err := p.open()
	if err != nil {
		return err
	}
	defer rd.Close()
	if !p.delta {
		_, err := io.Copy(w, rd)
		return err
	}
	put := func(line []byte, err error) error {
		if err == nil {
			_, err = w.Write(line)
		}
		return err
	}
	lines := readLinesDelta(rd)
	if p.name == recordsFile {
		for r, err := range unpackedRecords(lines) {
			line, bad := r.encode()
			if err := put(line, cmp.Or(err, bad)); err != nil {
				return err
			}
		}
		return nil
	}
	for line, err := range lines {
		if err := put(line, err); err != nil {
			return err
		}
	}
	return nil
}

// open reads the text, or what [readLinesDelta] reads.
func (p part) open() (io.ReadCloser, error) {
	if err := regular(os.Stat(p.path)); err != nil {
		return nil, err
	}
	f, err := os.Open(p.path)
	if err != nil {
		return nil, err
	}
	if !p.zipped {
		return f, nil
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return unpacking{z, f}, nil
}

// unpacking is a decompressed file.
type unpacking struct {
	*gzip.Reader
	file *os.File
}

func (u unpacking) Close() error { return errors.Join(u.Reader.Close(), u.file.Close()) }

// locate finds the file of a folder that holds a text of this name.
func locate(dir, name string) (part, error) {
	p := part{name: name, path: filepath.Join(dir, filepath.FromSlash(name))}
	_, err := os.Lstat(p.path)
	if errors.Is(err, fs.ErrNotExist) {
		p = partOf(dir, packedName(name), nil)
		_, err = os.Lstat(p.path)
	}
	if err != nil {
		return part{}, fmt.Errorf("reading %s: %w", name, err)
	}
	return p, nil
}

// ReadPart reads a text of a run's or a replay's folder, packed or not, with the limit
// of [ReadRegular]. It does not verify the folder.
func ReadPart(dir, name string) ([]byte, error) {
	p, err := locate(dir, name)
	if err != nil {
		return nil, err
	}
	var text bounded
	if err := p.copyTo(&text); err != nil {
		return nil, fmt.Errorf("reading %s: %w", p.path, err)
	}
	return text.text.Bytes(), nil
}

// bounded keeps a text of at most [maxFile] bytes.
type bounded struct{ text bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if b.text.Len()+len(p) > maxFile {
		return 0, errTooLarge
	}
	return b.text.Write(p)
}

// Pack makes a packed folder at to of a run or a replay at dir. The folder at to, if
// there is one, is replaced when the new one is whole. The manifest stays legible.
func Pack(dir, to string) error {
	fail := func(err error) error { return fmt.Errorf("packing %s into %s: %w", dir, to, err) }
	if err := VerifySums(dir, ManifestFile); err != nil {
		return fail(err)
	}
	sums, err := ReadSums(dir)
	if err != nil {
		return fail(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return fail(err)
	}
	partial, err := os.MkdirTemp(filepath.Dir(to), "."+filepath.Base(to)+".partial-*")
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(partial)
	put := func(name string, text []byte) error {
		path := filepath.Join(partial, filepath.FromSlash(name))
		return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, text, 0o644))
	}
	for _, name := range sums.Names() {
		if err := packPart(dir, name, put); err != nil {
			return fail(err)
		}
	}
	err = errors.Join(put(SumsFile, []byte(sums.String())), os.Chmod(partial, 0o755))
	// What was written is read again: a reference that cannot be read is none.
	if err = cmp.Or(err, VerifySums(partial, ManifestFile)); err == nil {
		err = os.RemoveAll(to)
	}
	if err == nil {
		err = os.Rename(partial, to)
	}
	if err != nil {
		return fail(err)
	}
	return nil
}

func packPart(dir, name string, put func(name string, text []byte) error) error {
	p, err := locate(dir, name)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := p.copyTo(&text); err != nil {
		return err
	}
	file := packedName(name)
	if strings.HasSuffix(file, deltaEnding) {
		lines := completeLines(bytes.NewReader(text.Bytes()))
		if name == recordsFile {
			lines = packedRecords(readRecords(bytes.NewReader(text.Bytes())))
		}
		var delta bytes.Buffer
		if err := linesDelta(&delta, lines); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		text = delta
	}
	if !Compressed(file) {
		return put(file, text.Bytes())
	}
	packed, err := Compress(text.Bytes())
	if err != nil {
		return err
	}
	return put(file, packed)
}
