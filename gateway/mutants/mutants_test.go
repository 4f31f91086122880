package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

const small = `package gate

var table = []func(int) bool{func(n int) bool { return n > 3 }}

func (g *Gate[T]) refuses(a, b int, s string) (string, bool) {
	if a == 1 || b == 2 && s != "" {
		return "first", true
	}
	switch n := a + b; {
	case n > 3:
		return "second", true
	}
	switch s {
	case "x", "y":
		return "third", true
	default:
	}
	open := a < b
	return "", open
}
`

func ids(ms []Mutant) []string {
	var out []string
	for _, m := range ms {
		out = append(out, m.ID+" "+m.Original)
	}
	return out
}

// TestInstrument: every condition is found and named, and the code behind the
// switches is the code.
func TestInstrument(t *testing.T) {
	got, mutants, err := instrument("gate/small.go", small, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"gate.table/1/removed n > 3", "gate.table/1/inverted n > 3",
		`gate.Gate.refuses/1/removed a == 1 || b == 2 && s != ""`, `gate.Gate.refuses/1/inverted a == 1 || b == 2 && s != ""`,
		"gate.Gate.refuses/1.1/removed a == 1", `gate.Gate.refuses/1.2/removed b == 2 && s != ""`,
		"gate.Gate.refuses/1.2.1/removed b == 2", `gate.Gate.refuses/1.2.2/removed s != ""`,
		"gate.Gate.refuses/2/removed n > 3", "gate.Gate.refuses/2/inverted n > 3",
		`gate.Gate.refuses/3/removed "x"`, `gate.Gate.refuses/3/inverted "x"`,
		`gate.Gate.refuses/4/removed "y"`, `gate.Gate.refuses/4/inverted "y"`,
		"gate.Gate.refuses/5/removed a < b", "gate.Gate.refuses/5/inverted a < b",
	}
	if diff := cmp.Diff(want, ids(mutants)); diff != "" {
		t.Errorf("mutants (-want +got):\n%s", diff)
	}
	for _, text := range []string{
		"func(n int) bool { return mutantCondition(1, false, n > 3) }",
		`if mutantCondition(2, false, mutantCondition(3, false, a == 1) || mutantCondition(4, false, mutantCondition(5, true, b == 2) && mutantCondition(6, true, s != ""))) {`,
		"case mutantCondition(7, false, n > 3):",
		"switch mutantTag1 := s; true {",
		`case mutantCondition(8, false, mutantTag1 == ("x")), mutantCondition(9, false, mutantTag1 == ("y")):`,
		"open := mutantCondition(10, false, a < b)",
	} {
		if !strings.Contains(got, text) {
			t.Errorf("the instrumented source lacks %s:\n%s", text, got)
		}
	}
	if strings.Count(got, "\n") != strings.Count(small, "\n") {
		t.Error("lines moved")
	}
}

// TestIDsAreStable: neither lines nor the functions around a function change the
// names of its mutants.
func TestIDsAreStable(t *testing.T) {
	_, before, err := instrument("gate/small.go", small, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	moved := strings.Replace(small, "\nfunc", "\n\n// A comment.\nfunc earlier(n int) bool { return n == 0 }\n\nfunc", 1)
	_, after, err := instrument("gate/small.go", moved, 70, nil)
	if err != nil {
		t.Fatal(err)
	}
	after = slices.DeleteFunc(after, func(m Mutant) bool { return strings.Contains(m.ID, "earlier") })
	if diff := cmp.Diff(ids(before), ids(after)); diff != "" {
		t.Errorf("ids (-before +after):\n%s", diff)
	}
}

// TestSwitch: the function behind every condition says what the selected mutant's
// kind says, and nothing else for any other.
func TestSwitch(t *testing.T) {
	if strings.Contains(switches("gateway"), "mutantCheck") || !strings.Contains(switches("modes"), "mutantCheck") {
		t.Error("the switch of checks belongs to the package with the table, and there alone")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":    "module m\n",
		"switch.go": strings.Replace(switches("modes"), "package modes", "package main", 1),
		"main.go": `package main

import "fmt"

type Situation struct{ refused bool }

func check(s *Situation) (string, string) {
	if s.refused {
		return "code", ""
	}
	return "", ""
}

func main() {
	fmt.Print(mutantCondition(7, false, true), mutantCondition(7, false, false), mutantCondition(7, true, false), mutantCondition(8, false, true))
	for _, n := range []int{7, 8} {
		for _, refused := range []bool{false, true} {
			code, _ := mutantCheck(n, check)(&Situation{refused})
			fmt.Printf(" %q", code)
		}
	}
}
`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-o", "m", ".")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for selection, want := range map[string]string{
		"":           `true false false true "" "code" "" "code"`,
		"7/removed":  `false false true true "" "" "" "code"`,
		"7/inverted": `false true true true "inverted" "" "" "code"`,
	} {
		cmd := exec.Command(filepath.Join(dir, "m"))
		cmd.Env = append(os.Environ(), variable+"="+selection)
		out, err := cmd.Output()
		if err != nil || string(out) != want {
			t.Errorf("%q: %s, %v, want %s", selection, out, err, want)
		}
	}
}

// TestGate: the gate as it is has a mutant for each condition of each function in
// scope, no two with one name or switch, and two for each check of the table.
func TestGate(t *testing.T) {
	b, err := newBench(filepath.Join("..", ".."), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	seen, switched := map[string]bool{}, map[string]bool{}
	checks := 0
	for _, m := range b.mutants {
		if seen[m.ID] || switched[m.selection()] {
			t.Errorf("%s (%s): there are two", m.ID, m.selection())
		}
		seen[m.ID], switched[m.selection()] = true, true
		if strings.HasPrefix(m.ID, "modes."+checksTable+"/check") {
			checks++
		}
	}
	if want := 2 * 21; checks != want {
		t.Errorf("%d mutants of whole checks, want %d: two for each of the table", checks, want)
	}
	for _, id := range []string{"modes.checkOnce/3/removed", "gateway.Gateway.gated/5/inverted", "gateway.Gateway.markProof/1.2/removed"} {
		if !seen[id] {
			t.Errorf("there is no mutant %s", id)
		}
	}
	// Counted another way: the ifs of the files that are mutated whole.
	for _, s := range scope {
		if s.functions != nil {
			continue
		}
		source, err := os.ReadFile(filepath.Join("..", "..", s.file))
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(token.NewFileSet(), s.file, source, 0)
		if err != nil {
			t.Fatal(err)
		}
		ifs := 0
		ast.Inspect(file, func(n ast.Node) bool {
			if _, ok := n.(*ast.IfStmt); ok {
				ifs++
			}
			return true
		})
		lost := 0
		for _, m := range b.mutants {
			if m.File == s.file && m.Kind == Inverted {
				lost++
			}
		}
		if lost < ifs {
			t.Errorf("%s: %d conditions are inverted, and there are %d ifs", s.file, lost, ifs)
		}
	}
}

func TestExplanations(t *testing.T) {
	b, err := newBench(filepath.Join("..", ".."), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := explanations(explainedText, b.mutants); err != nil {
		t.Errorf("explained.yaml: %v", err)
	}
	if _, err := choose(b.mutants, "", "sample.txt"); err != nil {
		t.Error(err)
	}
	all := []Mutant{{ID: "gate.f/1/removed", Original: "a == b"}, {ID: "gate.f/1.2/removed", Original: "c"}}
	for _, tt := range []struct{ name, text, wrong string }{
		{"nothing", "", ""},
		{"one", "- {mutants: gate.f/1/removed, original: a == b, reason: the same}", ""},
		{"several", "- {mutants: gate.f/*/removed, original: c, reason: the same}", ""},
		{"no such mutant", "- {mutants: gate.g/1/removed, original: a == b, reason: the same}", "no mutant"},
		{"another condition", "- {mutants: gate.f/1/removed, original: c, reason: the same}", "no mutant"},
		{"no reason", "- {mutants: gate.f/1/removed, original: a == b}", "a reason"},
		{"another member", "- {mutants: gate.f/1/removed, original: a == b, reason: x, because: y}", "because"},
		{"no pattern", "- {mutants: 'gate.f/[', original: a == b, reason: x}", "a pattern"},
		{"no condition", "- {mutants: gate.f/1/removed, reason: x}", "the original condition"},
		{"two documents", "- {mutants: gate.f/1/removed, original: a == b, reason: x}\n---\n- {}", "more than one document"},
	} {
		_, err := explanations([]byte(tt.text), all)
		if (err == nil) != (tt.wrong == "") || err != nil && !strings.Contains(err.Error(), tt.wrong) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.wrong)
		}
	}
}

func TestChoose(t *testing.T) {
	all := []Mutant{
		{ID: "gate.f/1/removed", Original: "a == b"}, {ID: "gate.f/1/inverted", Original: "a == b"}, {ID: "gate.g/1/removed", Original: "c"},
	}
	sample := filepath.Join(t.TempDir(), "sample")
	for _, tt := range []struct {
		expression, sample string
		want               int
	}{
		{"", "", 3}, {"gate.f/", "", 2}, {"nothing", "", 0}, {"(", "", 0},
		{"", "# two\ngate.f/1/removed  a == b\n\ngate.g/1/removed c\n", 2},
		{"", "gate.f/1/removed a == b\ngate.h/1/removed c\n", 0},
		{"", "gate.f/1/removed c\n", 0},
		{"", "# none\n", 0},
		{"", "gate.f/1/removed\n", 0},
		{"", "gate.g/1/removed a == b\ngate.g/1/removed c\n", 0},
	} {
		name := ""
		if tt.sample != "" {
			name = sample
			if err := os.WriteFile(sample, []byte(tt.sample), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := choose(all, tt.expression, name)
		if len(got) != tt.want || (err == nil) != (tt.want > 0) {
			t.Errorf("%q, %q: %d mutants, %v, want %d", tt.expression, tt.sample, len(got), err, tt.want)
		}
	}
	if _, err := choose(all, "", filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a sample that is not there is no error")
	}
}

// TestReport: a survivor without an explanation fails, anything else passes.
// Whatever the bytes: of explanations that are accepted each has a reason and a pattern
// that can be matched, which covers no mutant of another condition; and they are read
// again alike when they are written.
func FuzzParseExplanations(f *testing.F) {
	entries, err := parseExplanations(explainedText)
	if err != nil {
		f.Fatal(err)
	}
	for _, e := range entries[:min(len(entries), 3)] { // small seeds, of each of which much can be tried
		text, err := yaml.Marshal([]Explanation{e})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("- {mutants: 'a/[', original: c, reason: r}\n---\n- {}\n"))
	f.Add([]byte("- &x {mutants: a*, original: c, reason: r, reason: s}\n- *x\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		entries, err := parseExplanations(text)
		if err != nil {
			if entries != nil {
				t.Error("explanations beside an error")
			}
			return
		}
		for _, e := range entries {
			if _, err := path.Match(e.Mutants, "gate.f/1/removed"); err != nil || e.Mutants == "" || e.Original == "" || strings.TrimSpace(e.Reason) == "" {
				t.Fatalf("accepted %+v: %v", e, err)
			}
			if e.covers(Mutant{ID: e.Mutants, Original: e.Original + "!"}) {
				t.Fatalf("%+v covers another condition", e)
			}
		}
	})
}

// Whatever the bytes: a sample that is accepted names mutants, each once and with its
// condition, and chooses them and no others; it is read again alike when it is written.
func FuzzParseSample(f *testing.F) {
	text, err := os.ReadFile("sample.txt")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte("#\r\n\tgate.f/1/removed\ta == b\r\n gate.f/1/removed c"))
	f.Fuzz(func(t *testing.T, text []byte) {
		wanted, err := parseSample(text)
		if err != nil {
			return
		}
		var written strings.Builder
		for id, original := range wanted {
			if id == "" || original == "" || strings.ContainsFunc(id, unicode.IsSpace) || id[0] == '#' || strings.TrimSpace(original) != original {
				t.Fatalf("accepted %q of the condition %q", id, original)
			}
			written.WriteString(id + "  " + original + "\n")
		}
		if again, err := parseSample([]byte(written.String())); err != nil || !maps.Equal(again, wanted) {
			t.Fatalf("%q became %q, %v", wanted, again, err)
		}
	})
}

func TestReport(t *testing.T) {
	m := Mutant{ID: "gate.f/1/removed", File: "gate/f.go", Line: 3, Original: "a == b"}
	reasons := []Explanation{{Mutants: m.ID, Original: m.Original, Reason: "the same"}}
	for _, tt := range []struct {
		name string
		r    Result
		code int
		says string
	}{
		{"noticed", Result{Mutant: m, Verdict: killed, By: "modes"}, 0, "score 100.0 %: 1 of 1 mutants noticed, 1 by modes"},
		{"noticed though explained", Result{Mutant: m, Verdict: killed, By: "modes"}, 0, "is explained, and was noticed by modes"},
		{"too slow", Result{Mutant: m, Verdict: timedOut, By: "gateway"}, 0, "Noticed by a time-out"},
		{"explained", Result{Mutant: m, Verdict: survived, Reason: "the same"}, 0, "1 survivors explained, 0 not"},
		{"unexplained", Result{Mutant: m, Verdict: survived}, 1, "Survived, NOT explained:\n  gate.f/1/removed"},
	} {
		var out strings.Builder
		if code := report(&out, []Result{tt.r}, reasons); code != tt.code || !strings.Contains(out.String(), tt.says) {
			t.Errorf("%s: exit code %d, want %d and %q in:\n%s", tt.name, code, tt.code, tt.says, out.String())
		}
	}
}
