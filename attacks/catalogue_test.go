package attacks

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"countersign/gateway/api"
	"countersign/scenarios"
)

func TestCatalogueIsSound(t *testing.T) {
	if err := Check(All()); err != nil {
		t.Fatal(err)
	}
}

// TestCheckNoticesEveryRule breaks the catalogue in one way at a time.
func TestCheckNoticesEveryRule(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(fs []Family) []Family
		want  string
	}{
		{"a family is missing in the middle", func(fs []Family) []Family { return slices.Delete(fs, 4, 5) }, `the family after 4 others is "AB6", want AB5`},
		{"the last family is missing", func(fs []Family) []Family { return fs[:11] }, "11 families, want 12"},
		{"no family at all", func([]Family) []Family { return nil }, "0 families, want 12"},
		{"a family is there twice", func(fs []Family) []Family { return slices.Insert(fs, 1, fs[0]) }, `is "AB1", want AB2`},
		{"an id of another form", func(fs []Family) []Family { fs[0].ID = "AB01"; return fs }, `is "AB01", want AB1`},
		{"no title", func(fs []Family) []Family { fs[2].Title = ""; return fs }, "AB3 has no title or no main binding"},
		{"an unknown main binding", func(fs []Family) []Family { fs[2].Main = "reference"; return fs }, "AB3 has no title or no main binding"},
		{"one variant only", func(fs []Family) []Family { fs[4].Variants = fs[4].Variants[:1]; return fs }, "AB5 has fewer than two variants"},
		{"no twin", func(fs []Family) []Family { fs[3].Twins = nil; return fs }, "AB4 has no benign twin"},
		{"a name that is no identifier", variant(func(v *Variant) { v.Name = "Raised in the queue" }), "malformed or used twice"},
		{"an empty name", variant(func(v *Variant) { v.Name = "" }), "malformed or used twice"},
		{"a name used twice in a family", func(fs []Family) []Family { fs[0].Variants[1].Name = fs[0].Variants[0].Name; return fs }, "malformed or used twice"},
		{"a name used twice over all", func(fs []Family) []Family { fs[1].Variants[1].Name = fs[0].Variants[0].Name; return fs }, "malformed or used twice"},
		{"a twin named like a variant elsewhere", func(fs []Family) []Family { fs[1].Twins[0].Name = fs[0].Variants[0].Name; return fs }, "malformed or used twice"},
		{"no summary", variant(func(v *Variant) { v.Summary = "" }), "no summary or no script"},
		{"no script", variant(func(v *Variant) { v.Run = nil }), "no summary or no script"},
		{"no capability", variant(func(v *Variant) { v.Uses = nil }), "lacks capabilities"},
		{"no condition", variant(func(v *Variant) { v.Stopped = Condition{} }), "lacks capabilities, a condition"},
		{"a condition of facts only", variant(func(v *Variant) { v.Stopped = stopped("@idempotent") }), "lacks capabilities, a condition"},
		{"no measure of success", variant(func(v *Variant) { v.Success = nil }), "measure of success"},
		{"an effect without approval would not count", variant(func(v *Variant) { v.Success = []string{"content"} }), "would not count an effect that nobody approved"},
		{"a twin with a capability", twin(func(v *Variant) { v.Uses = []Capability{UseQueue} }), "is a twin and must use no capability"},
		{"a twin with a measure of success", twin(func(v *Variant) { v.Success = []string{"none"} }), "is a twin"},
		{"a twin with a condition", twin(func(v *Variant) { v.Stopped = stopped("args") }), "is a twin"},
		{"a twin that expects nothing", twin(func(v *Variant) { v.Effects = 0 }), "is a twin"},
		{"nothing is stopped by the main binding", func(fs []Family) []Family { fs[1].Main = api.BindIdem; return fs }, "no variant of AB2 is stopped by its main binding idem"},
	} {
		err := Check(tt.spoil(copied()))
		if err == nil {
			t.Errorf("%s: the check passes", tt.name)
		} else if !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: the error is %q, want %q in it", tt.name, err, tt.want)
		}
	}
	if err := Check(All()); err != nil {
		t.Errorf("the catalogue itself was changed: %v", err)
	}
}

func copied() []Family {
	fs := All()
	for i := range fs {
		fs[i].Variants, fs[i].Twins = slices.Clone(fs[i].Variants), slices.Clone(fs[i].Twins)
	}
	return fs
}

func variant(change func(*Variant)) func([]Family) []Family {
	return func(fs []Family) []Family { change(&fs[6].Variants[1]); return fs }
}

func twin(change func(*Variant)) func([]Family) []Family {
	return func(fs []Family) []Family { change(&fs[6].Twins[0]); return fs }
}

// TestOneFileAFamily: abNN_slug.go holds family ABNN, and slug is its title.
func TestOneFileAFamily(t *testing.T) {
	files, err := filepath.Glob("ab[0-9][0-9]_*.go")
	if err != nil {
		t.Fatal(err)
	}
	files = slices.DeleteFunc(files, func(f string) bool { return strings.HasSuffix(f, "_test.go") })
	var want []string
	for i, f := range All() {
		slug := regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(f.Title), "_")
		name := fmt.Sprintf("ab%02d_%s.go", i+1, slug)
		want = append(want, name)
		text, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
			continue
		}
		if n := strings.Count(string(text), "= family(Family{"); n != 1 || !strings.Contains(string(text), fmt.Sprintf("ID: %q,", f.ID)) {
			t.Errorf("%s has %d families, want the one called %s", name, n, f.ID)
		}
	}
	if !slices.Equal(files, want) {
		t.Errorf("the files are\n%v, want\n%v", files, want)
	}
}

var capabilities = []Capability{UseText, UseDisplay, UseQueue, UseRef, UsePeer, UseClient, UseDelay, UseNet, UseFault, UseClock, UsePerson}

// TestEveryVariantIsTriedAndCounts: it applies to some scenario, its roles and
// capabilities exist, and what counts as success can be written out for each
// scenario without a placeholder left over.
func TestEveryVariantIsTriedAndCounts(t *testing.T) {
	used := map[Capability]bool{}
	kinds := []string{"content", "shown", "who", "origin", "spent", "stale", "unverifiable", "none"}
	for _, f := range All() {
		for _, v := range slices.Concat(f.Variants, f.Twins) {
			applies := 0
			for _, sc := range scenarios.All() {
				if v.NotApplicable(sc) != "" {
					continue
				}
				applies++
				for _, s := range v.Successes(sc) {
					kind, _, _ := strings.Cut(s, ":")
					if strings.ContainsAny(s, "{}") || !slices.Contains(kinds, kind) {
						t.Errorf("%s/%s: success %q in scenario %s is no reason of the referee", f.ID, v.Name, s, sc.ID)
					}
				}
			}
			if applies == 0 {
				t.Errorf("%s/%s applies to no scenario", f.ID, v.Name)
			}
			for _, u := range v.Uses {
				used[u] = true
				if !slices.Contains(capabilities, u) {
					t.Errorf("%s/%s uses the unknown capability %q", f.ID, v.Name, u)
				}
			}
			for _, role := range v.Needs {
				if !slices.Contains(scenarios.Roles(), role) {
					t.Errorf("%s/%s needs the unknown role %q", f.ID, v.Name, role)
				}
			}
			for _, b := range v.AlsoNamed {
				if !slices.Contains(api.Bindings(), b) || slices.Contains(v.Stopped.Bindings(), b) {
					t.Errorf("%s/%s: AlsoNamed has %s, which is unknown or in the condition already", f.ID, v.Name, b)
				}
			}
		}
	}
	for _, c := range capabilities {
		if !used[c] {
			t.Errorf("no variant uses the capability %s", c)
		}
	}
}

// TestNotApplicableSaysWhy: a scenario without a role is left out with its own
// reason.
func TestNotApplicableSaysWhy(t *testing.T) {
	for _, f := range All() {
		for _, v := range f.Variants {
			for _, sc := range scenarios.All() {
				for _, role := range v.Needs {
					if _, ok := sc.Field(role); !ok && !strings.Contains(v.NotApplicable(sc), sc.NotApplicable[role]) {
						t.Errorf("%s/%s in %s: %q does not give the scenario's reason", f.ID, v.Name, sc.ID, v.NotApplicable(sc))
					}
				}
			}
		}
	}
}

// TestEveryBindingStopsSomething: a binding that no condition mentions would be
// claimed without ever being tried.
func TestEveryBindingStopsSomething(t *testing.T) {
	mentioned := map[api.Binding]bool{}
	for _, f := range All() {
		for _, v := range f.Variants {
			for _, b := range v.Stopped.Bindings() {
				mentioned[b] = true
			}
		}
	}
	for _, b := range api.Bindings() {
		if !mentioned[b] {
			t.Errorf("no condition mentions %s", b)
		}
	}
}
