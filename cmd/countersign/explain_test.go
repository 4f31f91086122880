package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"countersign/attacks"
	"countersign/attacks/referee"
	"countersign/gateway/api"
)

var update = flag.Bool("update", false, "write the golden stories and the reference baseline")

// TestStories holds the stories of three trials against what was read and found
// right: an attack that executes, the same refused, and a retry that pays twice.
func TestStories(t *testing.T) {
	for name, args := range map[string][]string{
		"m1-ab1.txt":  {"explain", "M1", "AB1"},
		"m9-ab1.txt":  {"explain", "M9", "ab1/quantity_raised_in_the_queue", "--scenario", "payments", "--seed", "1"},
		"m8-ab7.txt":  {"explain", "M8", "AB7"},
		"m8-ab7.html": {"explain", "M8", "AB7", "--html"},
	} {
		t.Run(name, func(t *testing.T) {
			code, got, stderr := command(t, t.Context(), args...)
			if code != 0 || stderr != "" {
				t.Fatalf("exit code %d: %s", code, stderr)
			}
			path := filepath.Join("testdata", "explain", name)
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s (write it with go test ./cmd/countersign -run Stories -update):\n%s", name, diff)
			}
		})
	}
}

// TestEveryTrialCanBeTold: every variant and twin has a story in the weakest and in
// the reference design, the same each time, harmless to a terminal, and the same
// steps as HTML.
func TestEveryTrialCanBeTold(t *testing.T) {
	names := []string{"honest"}
	for _, f := range attacks.All() {
		for _, v := range slices.Concat(f.Variants, f.Twins) {
			names = append(names, f.ID+"/"+v.Name)
		}
	}
	for i, name := range names {
		if raced && i%10 != 0 { // it takes the race detector a minute; .ci/run runs this test without
			continue
		}
		for _, mode := range []string{"M0", "M9"} {
			code, story, stderr := command(t, t.Context(), "explain", mode, name)
			if code != 0 || stderr != "" {
				t.Errorf("%s %s: exit code %d: %s", mode, name, code, stderr)
				continue
			}
			if i := strings.IndexFunc(story, func(r rune) bool { return r != '\n' && oneLine(string(r)) != string(r) && r != ' ' }); i >= 0 {
				t.Errorf("%s %s holds the character %+q", mode, name, story[i:min(i+4, len(story))])
			}
			if _, again, _ := command(t, t.Context(), "explain", mode, name); again != story {
				t.Errorf("%s %s is told differently the second time:\n%s", mode, name, cmp.Diff(story, again))
			}
			for _, want := range []string{"THE SITUATION", "WHAT HAPPENED", "\n  1", "as predicted."} {
				if !strings.Contains(story, want) {
					t.Errorf("%s %s has no %q:\n%s", mode, name, want, story)
				}
			}
		}
	}
}

// TestStoriesAsHTML: whatever a script puts into a story stays text.
func TestStoriesAsHTML(t *testing.T) {
	const hostile = `<script>alert(1)</script><img src=x onerror="y"> & "quoted"`
	s := story{Title: hostile, Sections: []section{{Heading: hostile, Blocks: []block{{Step: 1, Hostile: true, Text: hostile, Lines: []string{hostile}}}}}}
	var b bytes.Buffer
	if err := s.html(&b); err != nil {
		t.Fatal(err)
	}
	doc, err := html.Parse(&b)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode && (n.Data == "script" || n.Data == "img") {
			t.Errorf("the story has an element %s", n.Data)
		}
		if n.Type == html.TextNode && strings.TrimSpace(n.Data) == hostile {
			found++
		}
	}
	if found != 5 { // title, heading, section, paragraph, line
		t.Errorf("the text is there %d times, want 5", found)
	}
}

// TestExplainMistakes: each gets one clear line.
func TestExplainMistakes(t *testing.T) {
	for want, args := range map[string][]string{
		`there is no mode "M99"`:              {"M99", "AB1"},
		`there is no attack "AB13"`:           {"M9", "AB13"},
		`AB1 has no variant "nothing"`:        {"M9", "AB1/nothing"},
		`there is no scenario "moon"`:         {"M9", "AB1", "--scenario", "moon"},
		`explain wants a mode and an attack`:  {"M9"},
		`there is no binding "nonsense"`:      {"mine", "AB1", "--compose", "mine=nonsense"},
		"does not apply to the scenario mail": {"M9", "AB1/quantity_raised_in_the_queue", "--scenario", "mail"},
	} {
		code, stdout, stderr := command(t, t.Context(), append([]string{"explain"}, args...)...)
		if code != 2 || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit code %d, %q, want %q", args, code, stderr, want)
		}
	}
}

// TestExplainComposedModes: a mode of one's own has stories as the built-in ones.
func TestExplainComposedModes(t *testing.T) {
	code, story, stderr := command(t, t.Context(), "explain", "mine-args", "AB1", "--compose", "mine=record,args,once,mediated")
	if code != 0 || !strings.Contains(story, "mine-args against AB1/") {
		t.Errorf("exit code %d: %s\n%s", code, stderr, story)
	}
}

// TestStoriesSayWhatDoesNotCount: a story whose effect is not authorised, and whose
// trial is decided by something else, says why; one without a decision speaks of
// none.
func TestStoriesSayWhatDoesNotCount(t *testing.T) {
	for _, x := range []struct {
		mode, attack string
		want, not    []string
	}{
		{"M1", "AB1", []string{"Not counted: shown. The plain run"}, []string{"Reported and not counted"}},
		{"M1", "honest", []string{"Not counted: shown. The plain run"}, nil},
		{"M9", "honest", nil, []string{"ot counted"}},
		{"M0", "honest", []string{"proposed; nobody has decided on it."}, []string{"after the decision"}},
		{"M0", "AB1", []string{"This is not what was proposed; nobody has decided on it:"}, []string{"after the decision"}},
		{"M9", "AB1", []string{"This is not what was collected after the decision:"}, []string{"nobody has decided"}},
	} {
		_, story, _ := command(t, t.Context(), "explain", x.mode, x.attack)
		text := strings.Join(strings.Fields(story), " ")
		for _, want := range x.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s %s does not say %q:\n%s", x.mode, x.attack, want, story)
			}
		}
		for _, not := range x.not {
			if strings.Contains(text, not) {
				t.Errorf("%s %s says %q:\n%s", x.mode, x.attack, not, story)
			}
		}
	}
}

// TestGlossary: every binding, capability and reason has words for people.
func TestGlossary(t *testing.T) {
	for _, b := range api.Bindings() {
		if bindingText[b] == "" {
			t.Errorf("the binding %s has no explanation", b)
		}
	}
	for _, f := range attacks.All() {
		for _, v := range f.Variants {
			for _, u := range v.Uses {
				if capabilityText[u] == "" {
					t.Errorf("the capability %s has no explanation", u)
				}
			}
		}
	}
	for _, k := range []referee.Kind{referee.Content, referee.Shown, referee.Who, referee.Origin, referee.Spent, referee.Stale, referee.Unverifiable, referee.None} {
		if reasonText[k] == "" {
			t.Errorf("the reason %s has no explanation", k)
		}
	}
}
