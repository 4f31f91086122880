package results

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// maxLine is the longest record that is read, in bytes.
const maxLine = 1 << 20

// A Run is a complete run on disk whose digests were verified.
type Run struct {
	Dir       string
	Manifest  Manifest
	Catalogue Catalogue
}

// Open reads a run, packed ([Pack]) or not, and verifies that it is complete, of this
// schema, and that its files are the ones SHA256SUMS lists, no more and no fewer.
func Open(path string) (*Run, error) {
	r := &Run{Dir: filepath.Clean(path)}
	fail := func(err error) (*Run, error) { return nil, fmt.Errorf("opening run %s: %w", r.Dir, err) }
	info, err := os.Stat(r.Dir)
	if err != nil {
		return fail(err)
	}
	if !info.IsDir() {
		return fail(errors.New("not a folder"))
	}
	data, err := ReadRegular(filepath.Join(r.Dir, ManifestFile))
	if err != nil {
		return fail(err)
	}
	if r.Manifest, err = parseManifest(data); err != nil {
		return fail(fmt.Errorf("%s: %w", ManifestFile, err))
	}
	if err := VerifySums(r.Dir, ManifestFile, catalogueFile, recordsFile); err != nil {
		return fail(err)
	}
	if data, err = r.ReadFile(catalogueFile); err != nil {
		return fail(err)
	}
	if r.Catalogue, err = parseCatalogue(data); err != nil {
		return fail(fmt.Errorf("%s: %w", catalogueFile, err))
	}
	return r, nil
}

// parseManifest reads the manifest of a complete run.
func parseManifest(data []byte) (Manifest, error) {
	var m Manifest
	if err := decodeStrict(data, &m); err != nil {
		return Manifest{}, err
	}
	if err := m.validate(); err != nil {
		return Manifest{}, err
	}
	return m, nil
}

func parseCatalogue(data []byte) (Catalogue, error) {
	var c Catalogue
	if err := decodeStrict(data, &c); err != nil {
		return Catalogue{}, err
	}
	if err := c.Validate(); err != nil {
		return Catalogue{}, err
	}
	return c, nil
}

// ReadFile reads a file of the run by its name, such as "ablation.json". The error of
// one that the run does not have is [fs.ErrNotExist].
func (r *Run) ReadFile(name string) ([]byte, error) { return ReadPart(r.Dir, name) }

// WriteRecords writes the records as records.jsonl has them, also where the run is
// packed.
func (r *Run) WriteRecords(w io.Writer) error {
	p, err := locate(r.Dir, recordsFile)
	if err == nil {
		err = p.copyTo(w)
	}
	if err != nil {
		return fmt.Errorf("writing the records of %s: %w", r.Dir, err)
	}
	return nil
}

// Records reads the records one at a time, in the order in which they were
// written. An error, which names the line, ends the sequence. So does a number of
// records other than the manifest's.
func (r *Run) Records() iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		p, err := locate(r.Dir, recordsFile)
		var rd io.ReadCloser
		if err == nil {
			rd, err = p.open()
		}
		if err != nil {
			yield(Record{}, fmt.Errorf("reading records: %w", err))
			return
		}
		defer rd.Close()
		read := readRecords
		if p.delta {
			read = func(rd io.Reader) iter.Seq2[Record, error] { return unpackedRecords(readLinesDelta(rd)) }
		}
		n := 0
		for rec, err := range read(rd) {
			if err != nil {
				err = fmt.Errorf("reading records of %s: %w", r.Dir, err)
			}
			if !yield(rec, err) || err != nil {
				return
			}
			n++
		}
		if n != r.Manifest.Records {
			yield(Record{}, fmt.Errorf("reading records of %s: %d of them, the manifest says %d", r.Dir, n, r.Manifest.Records))
		}
	}
}

func readRecords(rd io.Reader) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		n := 0
		for line, err := range completeLines(rd) {
			n++
			var rec Record
			if err == nil {
				rec, err = decodeRecord(line)
			}
			if err != nil {
				yield(Record{}, fmt.Errorf("line %d: %w", n, err))
				return
			}
			if !yield(rec, nil) {
				return
			}
		}
	}
}

// completeLines are the lines of a text, without their ends. An error is the last.
func completeLines(rd io.Reader) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		s := bufio.NewScanner(rd)
		s.Buffer(make([]byte, 0, 1<<16), maxLine)
		// A last line without its newline was cut off, so it is kept in sight.
		s.Split(func(data []byte, atEOF bool) (int, []byte, error) {
			if i := bytes.IndexByte(data, '\n'); i >= 0 {
				return i + 1, data[:i], nil
			}
			if atEOF && len(data) > 0 {
				return 0, nil, errors.New("cut off: no newline at the end")
			}
			return 0, nil, nil
		})
		for s.Scan() {
			if !yield(s.Bytes(), nil) {
				return
			}
		}
		if err := s.Err(); err != nil {
			yield(nil, err)
		}
	}
}

// Sequence makes a slice readable the way [Run.Records] is.
func Sequence(records []Record) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for _, r := range records {
			if !yield(r, nil) {
				return
			}
		}
	}
}

var idPattern = regexp.MustCompile(`^[0-9]{8}T[0-9]{6}Z-[0-9a-f]{6}$`)

// Resolve finds the folder that a RUN argument means: "latest" for the newest
// run under root, an id under root, or a path. It does not open the run.
func Resolve(arg, root string) (string, error) {
	switch {
	case arg == "":
		return "", errors.New("finding the run: no name given, want a path, an id or latest")
	case arg == "latest":
		entries, err := os.ReadDir(root)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("finding the latest run: %w", err)
		}
		for i := len(entries) - 1; i >= 0; i-- { // sorted by name, and names sort by time
			if entries[i].IsDir() && idPattern.MatchString(entries[i].Name()) {
				return filepath.Join(root, entries[i].Name()), nil
			}
		}
		return "", fmt.Errorf("finding the latest run: there is none in %s", root)
	}
	tried := []string{arg}
	if !strings.ContainsAny(arg, `/\`) {
		tried = []string{filepath.Join(root, arg), arg}
	}
	for _, dir := range tried {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return filepath.Clean(dir), nil
		}
	}
	return "", fmt.Errorf("finding run %q: no such folder (tried %s)", arg, strings.Join(tried, ", "))
}
