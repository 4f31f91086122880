package main

import (
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"countersign/attacks"
	"countersign/modes"
	"countersign/results"
	"countersign/scenarios"
)

// reference is the folder of the committed reference.
var reference = filepath.Join("..", "..", "results", "reference")

// references are the runs of the matrix in the reference: of the main table, and of
// what is reported beside it. Of each a sample is measured again.
func references() map[string]struct {
	modes  []modes.Mode
	sample []string
} {
	return map[string]struct {
		modes  []modes.Mode
		sample []string
	}{
		"matrix": {modes.All(), []string{"--modes", "M1,M9", "--attacks", "AB1,AB7"}},
		"beside": {modes.Beside(), []string{"--modes", "M7+,PSD2.whole", "--attacks", "AB1,AB4"}},
	}
}

func readReference(t *testing.T, part string) *results.Baseline {
	t.Helper()
	b, err := results.ReadBaseline(filepath.Join(reference, part))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// howToUpdate says how the reference is made.
const howToUpdate = "make the reference with: ./run.sh paper --update"

// TestReferenceIsSmall: what is committed of runs is a megabyte at most.
func TestReferenceIsSmall(t *testing.T) {
	files, size := 0, int64(0)
	err := filepath.WalkDir(reference, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			files, size = files+1, size+info.Size()
		}
		return err
	})
	if err != nil || files == 0 || size > 1<<20 {
		t.Errorf("%d files of the reference hold %d bytes, want 1 MiB at most; %v", files, size, err)
	}
}

// TestReferenceBaseline: the reference has every mode with every variant and nothing
// else, in every scenario as the bindings of today predict, and a sample of it is what
// is measured today (.ci/run holds the whole matrix against it).
func TestReferenceBaseline(t *testing.T) {
	for part, of := range references() {
		t.Run(part, func(t *testing.T) {
			b := readReference(t, part)
			want := expected(of.modes)
			var wrong []string
			for _, e := range b.Entries {
				if e.Disagrees > 0 || e.Observed[results.Error] > 0 || e.WrongReason > 0 {
					t.Errorf("%s is no reference: %s", e.Name(), e.Outcomes())
				}
				if e.Kind == results.Honest {
					continue
				}
				if n, ok := want[e.Name()]; !ok || e.Kind == results.Attack && n != e.Observed[results.Executed] {
					wrong = append(wrong, e.Name())
				}
				delete(want, e.Name())
			}
			for entry := range want {
				wrong = append(wrong, entry)
			}
			if slices.Sort(wrong); len(wrong) > 0 {
				t.Errorf("%d entries are missing, too many, or not what the bindings predict, such as %s; %s", len(wrong), wrong[0], howToUpdate)
			}
			if raced {
				return
			}
			dir := filepath.Join(t.TempDir(), "run")
			if code, _, stderr := command(t, t.Context(), append([]string{"run", "--quiet", "--out", dir}, of.sample...)...); code != 0 {
				t.Fatalf("exit code %d: %s", code, stderr)
			}
			now, _, err := summarise([]string{dir})
			if err != nil {
				t.Fatal(err)
			}
			k, err := b.Against(now)
			if err != nil {
				t.Fatalf("%v; %s", err, howToUpdate)
			}
			for _, c := range k.Cases {
				if c.Change != results.Same && c.Change != results.Missing {
					t.Errorf("%s: %s: %s; %s", c.Entry().Name(), c.Change, c.Why, howToUpdate)
				}
			}
		})
	}
}

// TestReferenceOfTablesAndFigures: the tables and figures that the reference lists
// are, byte for byte, those that its runs give today.
func TestReferenceOfTablesAndFigures(t *testing.T) {
	if raced {
		t.Skip("it takes the race detector minutes; .ci/run runs this test without")
	}
	want, err := results.ReadSums(reference)
	if err != nil {
		t.Fatal(err)
	}
	held := partsOf(want)
	p := paper{reference, t.TempDir()}
	for _, part := range paperParts() {
		if !slices.Contains(held, part.name) {
			t.Errorf("the reference has no %s; %s", part.name, howToUpdate)
			continue
		}
		t.Run(part.name, func(t *testing.T) {
			t.Parallel()
			tables := t.TempDir()
			if err := part.derive(p.part(part.name), tables, p.drawings(part.name)); err != nil {
				t.Fatal(err)
			}
			got, err := p.sums(part.name, tables)
			if err != nil {
				t.Fatal(err)
			}
			for name, sum := range want {
				if partOfSum(name) == part.name && got[name] == "" {
					t.Errorf("%s is not made any more; %s", name, howToUpdate)
				} else if partOfSum(name) == part.name && got[name] != sum && comparable(name) {
					t.Errorf("%s is another; look at it, and %s", name, howToUpdate)
				}
			}
			for name := range got {
				if want[name] == "" {
					t.Errorf("%s is new; %s", name, howToUpdate)
				}
			}
		})
	}
}

// comparable says whether a file is promised to be the same on this processor: others
// round products otherwise.
func comparable(name string) bool {
	return runtime.GOARCH == "amd64" || !strings.HasPrefix(name, "figures/")
}

// expected has the name of each entry that a baseline of these modes needs, with the
// number of scenarios in which an attack is predicted to execute.
func expected(all []modes.Mode) map[string]int {
	out := map[string]int{}
	for _, m := range all {
		for _, f := range attacks.All() {
			for _, of := range []struct {
				kind results.Kind
				vs   []attacks.Variant
			}{{results.Attack, f.Variants}, {results.Twin, f.Twins}} {
				for _, v := range of.vs {
					n := 0
					for _, sc := range scenarios.All() {
						if v.NotApplicable(sc) == "" && !v.StoppedBy(m.Bindings.List(), sc) {
							n++
						}
					}
					out[results.BaselineEntry{Target: m.ID, Attack: f.ID, Variant: v.Name, Kind: of.kind}.Name()] = n
				}
			}
		}
	}
	return out
}

// TestReferenceOfHygiene: in what was measured, a design with hygiene, and the wider
// reading of a text, stop whatever is stopped without, in as many scenarios.
func TestReferenceOfHygiene(t *testing.T) {
	type key struct{ target, attack, variant string }
	executed := map[key]int{}
	for name := range references() {
		for _, e := range readReference(t, name).Entries {
			if e.Kind == results.Attack {
				executed[key{e.Target, e.Attack, e.Variant}] = e.Observed[results.Executed]
			}
		}
	}
	for _, m := range modes.Beside() {
		base, compared, fewer := strings.TrimSuffix(strings.TrimSuffix(m.ID, "+"), ".whole"), 0, 0
		for k, n := range executed {
			was, ok := executed[key{base, k.attack, k.variant}]
			switch {
			case k.target != m.ID || base == m.ID || !ok:
				continue
			case n > was:
				t.Errorf("%s/%s is executed by %s in %d scenarios and by %s in %d", k.attack, k.variant, m.ID, n, base, was)
			case n < was:
				fewer++
			}
			compared++
		}
		if base != m.ID && (compared < 100 || fewer == 0) {
			t.Errorf("%s: %d variants are compared with %s, and it stops %d more", m.ID, compared, base, fewer)
		}
	}
}
