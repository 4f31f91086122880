package results

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"strings"
)

// SumsFile is the name of a folder's list of digests.
const SumsFile = "SHA256SUMS"

// Sums are the SHA-256 of files, in hex, by their names with slashes.
type Sums map[string]string

// Names are the names in order.
func (s Sums) Names() []string { return sortedKeys(s) }

// Add takes over what others has.
func (s Sums) Add(others Sums) { maps.Copy(s, others) }

// String writes the digests as sha256sum(1) does.
func (s Sums) String() string {
	var b strings.Builder
	for _, name := range s.Names() {
		fmt.Fprintf(&b, "%s  %s\n", s[name], name)
	}
	return b.String()
}

// ReadSums reads the list of digests of a folder.
func ReadSums(dir string) (Sums, error) {
	data, err := ReadRegular(filepath.Join(dir, SumsFile))
	if err != nil {
		return nil, err
	}
	return parseSums(data)
}

// SumsOf computes the digests of the files in a folder, whatever it lists.
func SumsOf(dir string) (Sums, error) { return digests(dir, nil) }

// VerifySums reports when the files of a folder are not the ones its SHA256SUMS
// lists, no more and no fewer, or when one of these names is not among them.
func VerifySums(dir string, names ...string) error {
	want, err := ReadSums(dir)
	if err != nil {
		return err
	}
	got, err := digests(dir, want)
	if err != nil {
		return err
	}
	for _, name := range names {
		if want[name] == "" {
			return fmt.Errorf("%s does not list %s", SumsFile, name)
		}
	}
	for _, name := range want.Names() {
		switch got[name] {
		case want[name]:
		case "":
			return fmt.Errorf("%s is missing", name)
		default:
			return fmt.Errorf("%s was changed after the run: its digest is not the one in %s", name, SumsFile)
		}
	}
	for _, name := range got.Names() {
		if want[name] == "" {
			return fmt.Errorf("%s is not part of the run: it is not listed in %s", name, SumsFile)
		}
	}
	return nil
}

var sumLine = regexp.MustCompile(`^([0-9a-f]{64})  (\S.*)$`)

func parseSums(data []byte) (Sums, error) {
	sums := Sums{}
	n := 0
	for line := range bytes.Lines(data) {
		n++
		m := sumLine.FindSubmatch(bytes.TrimSuffix(line, []byte("\n")))
		if m == nil {
			return nil, fmt.Errorf("%s line %d: want a SHA-256 in hex, two spaces and a name", SumsFile, n)
		}
		if name := string(m[2]); sums[name] != "" {
			return nil, fmt.Errorf("%s line %d: %s is listed twice", SumsFile, n, name)
		}
		sums[string(m[2])] = string(m[1])
	}
	return sums, nil
}

// digests returns the SHA-256 of what every file under dir holds but the list of
// digests, by slash-separated name. listed are the digests of a folder that may be
// packed, nil for one that is not.
func digests(dir string, listed Sums) (Sums, error) {
	sums := Sums{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		if name == SumsFile {
			return nil
		}
		if !d.Type().IsRegular() {
			return fmt.Errorf("%s is not a regular file", name)
		}
		p := part{name: name, path: path}
		if listed != nil {
			p = partOf(dir, name, listed)
		}
		if sums[p.name] != "" {
			return fmt.Errorf("%s is there twice, packed and as it is", p.name)
		}
		sums[p.name], err = p.digest()
		return err
	})
	return sums, err
}
