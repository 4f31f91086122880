package results

import (
	"bufio"
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
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// A packed folder is a run, or a replay, small enough to be kept under version
// control. It has the SHA256SUMS of the folder that it was made of, so they are those
// of the texts that it holds and not of its own files: NAME.gz (RFC 1952) holds NAME,
// and [deltaFile] the records. It is read wherever a run is.

// deltaFile holds records.jsonl as one JSON object a line, with the members of a record
// that are not those of the record before, compressed. An empty pair is the usual one.
const deltaFile = "records.delta.gz"

// usualPair is the pair that the harness gives to a trial.
func usualPair(r Record) string {
	return strings.Join([]string{r.Attack, r.Variant, r.Scenario, strconv.FormatUint(r.Seed, 10)}, "/")
}

// writeDelta writes what [readDelta] reads.
func writeDelta(w io.Writer, records iter.Seq2[Record, error]) error {
	out := bufio.NewWriter(w)
	before := map[string]string{}
	for r, err := range records {
		if err != nil {
			return err
		}
		if r.Pair == usualPair(r) {
			r.Pair = ""
		}
		line, err := r.encode()
		if err != nil {
			return err
		}
		names, values, err := members(line)
		if err != nil {
			return err
		}
		if _, had := before["detail"]; had && !slices.Contains(names, "detail") {
			names, values = append(names, "detail"), append(values, `""`)
		}
		separator := byte('{')
		for i, name := range names {
			if before[name] == values[i] {
				continue
			}
			fmt.Fprintf(out, "%c%q:%s", separator, name, values[i])
			separator = ','
		}
		if separator == '{' {
			out.WriteByte('{')
		}
		out.WriteString("}\n")
		clear(before)
		for i, name := range names {
			before[name] = values[i]
		}
	}
	return out.Flush()
}

// members takes a JSON object apart.
func members(object []byte) (names, values []string, err error) {
	d := jsontext.NewDecoder(bytes.NewReader(object))
	if _, err := d.ReadToken(); err != nil {
		return nil, nil, err
	}
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, nil, err
		}
		names = append(names, name.String())
		value, err := d.ReadValue()
		if err != nil {
			return nil, nil, err
		}
		values = append(values, string(value))
	}
	return names, values, nil
}

// readDelta reads records as [readRecords] does.
func readDelta(rd io.Reader) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		var packed Record
		n := 0
		for line, err := range completeLines(rd) {
			n++
			if err == nil {
				// What the line does not name stays; lists are not to be written into.
				packed.RefusedBy, packed.RefusedCodes, packed.Reasons = slices.Clone(packed.RefusedBy), slices.Clone(packed.RefusedCodes), slices.Clone(packed.Reasons)
				err = decodeStrict(line, &packed)
			}
			r := packed
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
	if listed[file] == "" && Compressed(file) {
		p.zipped, p.delta = true, file == deltaFile
		p.name = strings.TrimSuffix(file, ".gz")
	}
	if p.delta {
		p.name = recordsFile
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
	for r, err := range readDelta(rd) {
		line, bad := r.encode()
		if err = cmp.Or(err, bad); err == nil {
			_, err = w.Write(line)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// open reads the text, or what [readDelta] reads.
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
		file := name + ".gz"
		if name == recordsFile {
			file = deltaFile
		}
		p = partOf(dir, file, nil)
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
	file := name + ".gz"
	if name == recordsFile {
		file = deltaFile
		var lines bytes.Buffer
		if err := p.copyTo(&lines); err != nil {
			return err
		}
		err = writeDelta(&text, readRecords(&lines))
	} else {
		err = p.copyTo(&text)
	}
	if err != nil {
		return err
	}
	if name == ManifestFile {
		return put(name, text.Bytes())
	}
	packed, err := Compress(text.Bytes())
	if err != nil {
		return err
	}
	return put(file, packed)
}
