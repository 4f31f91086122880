package attacks

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestIncidentsAreReproduced: every incident is a variant, a twin or a test that
// exists, or says why not.
func TestIncidentsAreReproduced(t *testing.T) {
	if err := checkIncidents(incidents, All()); err != nil {
		t.Fatal(err)
	}
	tests := testNames(t)
	for _, r := range Reproductions(All()) {
		if r.Found() == (r.Why != "") {
			t.Errorf("%s (%s): reproduced by %v %v %v, and the reason why not is %q", r.Cite(), r.Title, r.Variants, r.Twins, r.Tests, r.Why)
		}
		for _, name := range r.Tests {
			if !tests[name] {
				t.Errorf("%s names the test %s, which does not exist", r.Cite(), name)
			}
		}
	}
}

// testNames are the tests of the module.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	out := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, e fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if os.IsNotExist(err) { // removed meanwhile
			return nil
		}
		for _, m := range declared.FindAllSubmatch(text, -1) {
			out[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) == 0 {
		t.Fatal("the module has no test")
	}
	return out
}

// TestIncidentsAreComplete compares the list with the survey, where it is at hand.
func TestIncidentsAreComplete(t *testing.T) {
	folder := os.Getenv("COUNTERSIGN_SHARED")
	if folder == "" {
		folder = filepath.Join("..", "..", "shared")
	}
	text, err := os.ReadFile(filepath.Join(folder, "incidents.md"))
	if err != nil {
		if slices.Contains(strings.Split(os.Getenv("COUNTERSIGN_REQUIRE"), ","), "shared") {
			t.Fatal(err)
		}
		t.Skip("the survey of incidents is not here: set COUNTERSIGN_SHARED to the folder that holds incidents.md")
	}
	var survey, ours []string
	for _, m := range regexp.MustCompile(`(?m)^\| (\d+) \|`).FindAllStringSubmatch(string(text), -1) {
		survey = append(survey, m[1])
	}
	for _, i := range incidents {
		ours = append(ours, fmt.Sprint(i.Number))
	}
	if len(survey) == 0 || !slices.Equal(ours, survey) {
		t.Errorf("the list has the incidents %v\nand the survey %v", ours, survey)
	}
}

func TestCheckIncidentsNoticesEveryRule(t *testing.T) {
	cites := func(ref string) []Family {
		return []Family{{ID: "AB1", Twins: []Variant{{Name: "v", References: []string{ref}}}}}
	}
	one := []Incident{{Number: 1, Source: "report 1", Title: "one"}}
	for _, tt := range []struct {
		list []Incident
		fs   []Family
		want string
	}{
		{one, cites("incident 1"), "<nil>"},
		{one, cites("incident 2"), `catalogue: AB1/v cites "incident 2", which is not in the list of incidents`},
		{[]Incident{{Number: 1}}, nil, "catalogue: incident 1 has no title"},
		{[]Incident{{Number: 1, Title: "one"}}, nil, "catalogue: incident 1 has no source"},
		{append(one, one...), nil, "catalogue: incident 1 comes after incident 1"},
	} {
		if got := fmt.Sprint(checkIncidents(tt.list, tt.fs)); got != tt.want {
			t.Errorf("%s, want %s", got, tt.want)
		}
	}
}
