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

// Open reads a run and verifies that it is complete, of this schema, and that
// its files are the ones SHA256SUMS lists, no more and no fewer.
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
	data, err := ReadRegular(filepath.Join(r.Dir, manifestFile))
	if err != nil {
		return fail(err)
	}
	if r.Manifest, err = parseManifest(data); err != nil {
		return fail(fmt.Errorf("%s: %w", manifestFile, err))
	}
	if err := VerifySums(r.Dir, manifestFile, catalogueFile, recordsFile); err != nil {
		return fail(err)
	}
	if data, err = ReadRegular(filepath.Join(r.Dir, catalogueFile)); err != nil {
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

// VerifySums reports when the files of a folder are not the ones its SHA256SUMS
// lists, no more and no fewer, or when one of these names is not among them.
func VerifySums(dir string, names ...string) error {
	data, err := ReadRegular(filepath.Join(dir, sumsFile))
	if err != nil {
		return err
	}
	want, err := parseSums(data)
	if err != nil {
		return err
	}
	got, err := digests(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if want[name] == "" {
			return fmt.Errorf("%s does not list %s", sumsFile, name)
		}
	}
	for _, name := range sortedKeys(want) {
		switch got[name] {
		case want[name]:
		case "":
			return fmt.Errorf("%s is missing", name)
		default:
			return fmt.Errorf("%s was changed after the run: its digest is not the one in %s", name, sumsFile)
		}
	}
	for _, name := range sortedKeys(got) {
		if want[name] == "" {
			return fmt.Errorf("%s is not part of the run: it is not listed in %s", name, sumsFile)
		}
	}
	return nil
}

var sumLine = regexp.MustCompile(`^([0-9a-f]{64})  (\S.*)$`)

func parseSums(data []byte) (map[string]string, error) {
	sums := map[string]string{}
	n := 0
	for line := range bytes.Lines(data) {
		n++
		m := sumLine.FindSubmatch(bytes.TrimSuffix(line, []byte("\n")))
		if m == nil {
			return nil, fmt.Errorf("%s line %d: want a SHA-256 in hex, two spaces and a name", sumsFile, n)
		}
		if name := string(m[2]); sums[name] != "" {
			return nil, fmt.Errorf("%s line %d: %s is listed twice", sumsFile, n, name)
		}
		sums[string(m[2])] = string(m[1])
	}
	return sums, nil
}

// Records reads the records one at a time, in the order in which they were
// written. An error, which names the line, ends the sequence. So does a number of
// records other than the manifest's.
func (r *Run) Records() iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		f, err := os.Open(filepath.Join(r.Dir, recordsFile))
		if err != nil {
			yield(Record{}, fmt.Errorf("reading records: %w", err))
			return
		}
		defer f.Close()
		n := 0
		for rec, err := range readRecords(f) {
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
		n := 0
		for s.Scan() {
			n++
			rec, err := decodeRecord(s.Bytes())
			if err != nil {
				yield(Record{}, fmt.Errorf("line %d: %w", n, err))
				return
			}
			if !yield(rec, nil) {
				return
			}
		}
		if err := s.Err(); err != nil {
			yield(Record{}, fmt.Errorf("line %d: %w", n+1, err))
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
