package countersign_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "countersign"

// allowed says which packages of this module each package may import outside its
// tests. It is the design, not a description of the code:
//
//	DO NOT EDIT THIS TABLE TO FIX A BUILD.
//
// If the test fails, the import is wrong until the design says otherwise. What it
// guards above all: who attacks and who judges never sees the gate. Attacks and
// referee know the public contract (gateway/api) alone, the harness drives targets
// and is not told what they are made of, and only the command line brings a gate
// and a harness together.
//
// A package that is not in the table fails. "*" allows everything.
var allowed = map[string][]string{
	".": {},

	// The contract. Everything may import it, and it imports nothing.
	"gateway/api": {},

	// The gate.
	"gateway/canonical":          {"gateway/api"},
	"gateway/viewing":            {"gateway/api"},
	"gateway/store":              {},
	"gateway/store/storetest":    {"gateway/store"},
	"gateway/store/pgtest":       {},
	"gateway/store/pgtest/serve": {"gateway/store/pgtest"},
	"audit":                      {"gateway/api"},
	"modes/passkey":              {"gateway/api"},
	"modes":                      {"gateway/api", "gateway/canonical", "modes/passkey"},
	"gateway":                    {"gateway/api", "gateway/canonical", "gateway/store", "gateway/viewing", "modes", "modes/passkey", "audit"},
	"gateway/lab":                {"gateway", "gateway/api", "gateway/store", "modes", "audit"},
	"gateway/httpapi":            {"gateway/api"},
	"gateway/lab/wire":           {"gateway/api", "gateway/httpapi"},
	"gateway/metrics":            {"gateway/api", "gateway/httpapi"},
	"gateway/mutants":            {}, // reads the gate's source and builds it; imports none of it

	// The world, the people and the adversary.
	"scenarios":          {"gateway/api"},
	"scenarios/provider": {"gateway/api"},
	"oracles":            {"gateway/api"},
	"oracles/softkey":    {},
	"agentdojo":          {"gateway/api", "scenarios"},
	"attacks": {"gateway/api", "scenarios", "scenarios/provider", "oracles", "oracles/softkey",
		"attacks/referee"},

	// Who judges, and who counts.
	"attacks/referee": {"gateway/api"},
	"attacks/harness": {"gateway/api", "attacks", "attacks/referee", "agentdojo", "oracles", "scenarios",
		"results"},
	"results/stats":  {},
	"results":        {"results/stats"},
	"results/export": {"results", "results/stats"},
	"figures":        {"results", "results/stats"},
	"report":         {"results", "results/stats", "results/export"},

	// The one place where harness and gateway meet.
	"cmd/countersign": {"*"},
}

// A source is one file of the module that is not a test.
type source struct {
	pkg  string // folder from the module's root, "." for the root
	name string // path from the module's root
	file *ast.File
}

// sources reads every such file, whatever its build constraints say.
func sources(t *testing.T) []source {
	t.Helper()
	var out []source
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || strings.HasPrefix(d.Name(), "_") || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		out = append(out, source{path.Dir(name), name, f})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 50 {
		t.Fatalf("found %d source files: is this test run outside the module's root?", len(out))
	}
	return out
}

func (s source) imports() []string {
	var out []string
	for _, i := range s.file.Imports {
		if name, err := strconv.Unquote(i.Path.Value); err == nil {
			out = append(out, name)
		}
	}
	return out
}

// violations lists what a set of files does that a table does not allow.
func violations(files []source, table map[string][]string) []string {
	var out []string
	unlisted := map[string]bool{}
	for _, s := range files {
		may, listed := table[s.pkg]
		if !listed {
			if !unlisted[s.pkg] {
				out = append(out, fmt.Sprintf("%s: the package is not in the table of allowed imports", s.pkg))
			}
			unlisted[s.pkg] = true
			continue
		}
		for _, name := range s.imports() {
			internal, ok := strings.CutPrefix(name, module+"/")
			if ok && !slices.Contains(may, internal) && !slices.Contains(may, "*") {
				out = append(out, fmt.Sprintf("%s: %s may not import %s", s.name, s.pkg, internal))
			}
		}
	}
	return out
}

// TestImportDirections holds every import of the module against the design.
func TestImportDirections(t *testing.T) {
	files := sources(t)
	for _, v := range violations(files, allowed) {
		t.Error(v)
	}
	for pkg := range allowed {
		there := slices.ContainsFunc(files, func(s source) bool { return s.pkg == pkg })
		if !there && pkg != "." && pkg != "cmd/countersign" {
			t.Errorf("%s: the table has a row for it, and there is no such package", pkg)
		}
	}
}

// TestImportTable says what the table must never come to allow, whoever edits it.
func TestImportTable(t *testing.T) {
	gate := []string{"gateway", "gateway/canonical", "gateway/viewing", "gateway/store", "gateway/lab", "gateway/httpapi", "gateway/metrics", "modes", "modes/passkey", "audit"}
	for _, pkg := range []string{"attacks", "attacks/referee", "attacks/harness", "scenarios", "scenarios/provider", "oracles", "oracles/softkey", "agentdojo", "results", "figures", "report"} {
		for reached := range closure(pkg) {
			if slices.Contains(gate, reached) {
				t.Errorf("%s could reach %s: who attacks, judges or counts must not know the gate", pkg, reached)
			}
		}
	}
	for _, pkg := range gate {
		for reached := range closure(pkg) {
			if strings.HasPrefix(reached, "attacks") || strings.HasPrefix(reached, "oracles") || strings.HasPrefix(reached, "scenarios") || strings.HasPrefix(reached, "results") {
				t.Errorf("%s could reach %s: a gate must not know that it is being tried", pkg, reached)
			}
		}
	}
	if got := slices.Sorted(maps.Keys(closure("attacks/referee"))); !slices.Equal(got, []string{"gateway/api"}) {
		t.Errorf("the referee could reach %v, want the contract alone", got)
	}
	// Signer and verifier share no ceremony code.
	for _, library := range []struct{ pkg, not string }{
		{"modes/passkey", "github.com/descope/virtualwebauthn"},
		{"oracles/softkey", "github.com/go-webauthn/webauthn"},
	} {
		for _, s := range sources(t) {
			for _, name := range s.imports() {
				if s.pkg == library.pkg && strings.HasPrefix(name, library.not) {
					t.Errorf("%s imports %s: signer and verifier of passkeys must share no code", s.name, name)
				}
			}
		}
	}
}

// closure is everything that a package may come to import.
func closure(pkg string) map[string]bool {
	out := map[string]bool{}
	var visit func(string)
	visit = func(p string) {
		for _, q := range allowed[p] {
			if !out[q] {
				out[q] = true
				visit(q)
			}
		}
	}
	visit(pkg)
	return out
}

// TestImportDirectionsNoticesViolations shows that the test can fail.
func TestImportDirectionsNoticesViolations(t *testing.T) {
	for _, tt := range []struct{ pkg, imports, want string }{
		{"attacks/referee", "countersign/gateway", "attacks/referee/x.go: attacks/referee may not import gateway"},
		{"attacks/harness", "countersign/modes", "attacks/harness/x.go: attacks/harness may not import modes"},
		{"gateway/api", "countersign/gateway/canonical", "gateway/api/x.go: gateway/api may not import gateway/canonical"},
		{"helpers", "fmt", "helpers: the package is not in the table of allowed imports"},
		{"cmd/countersign", "countersign/gateway", ""},
		{"attacks", "github.com/gowebpki/jcs", ""},
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "x.go", fmt.Sprintf("package x\nimport _ %q\n", tt.imports), 0)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(violations([]source{{tt.pkg, tt.pkg + "/x.go", f}}, allowed), "; ")
		if got != tt.want {
			t.Errorf("%s importing %s: %q, want %q", tt.pkg, tt.imports, got, tt.want)
		}
	}
}

// clocks lists the files that may ask the machine for the time or let it pass,
// and why that decides nothing. Everything else takes its clock from outside, or
// runs could not be repeated and a gate would have two clocks.
//
// Not covered: cmd, which is where clocks and seeds come from.
var clocks = map[string]string{
	"attacks/harness/guard.go":   "leaves a target behind that does not return; a trial so ended is an error",
	"gateway/store/sqlite.go":    "waits for a lock of another process; the time is not read",
	"scenarios/provider/http.go": "delays an answer over the network, as it was told to",
	"results/writer.go":          "stamps the manifest, which is outside the records",
}

// TestNoAmbientTimeOrChance: no decision depends on the machine's clock or on
// random numbers that a seed does not fix. (crypto/rand, for keys and identifiers
// that the records leave out, is another matter.)
func TestNoAmbientTimeOrChance(t *testing.T) {
	used := map[string]bool{}
	for _, s := range sources(t) {
		if s.pkg == "cmd/countersign" || strings.HasPrefix(s.pkg, "cmd/") {
			continue
		}
		for _, use := range ambient(s.file) {
			if clocks[s.name] != "" && strings.HasPrefix(use, "time.") {
				used[s.name] = true
				continue
			}
			t.Errorf("%s uses %s: take the clock or the seeded source from the caller, or add the file with its reason to the list", s.name, use)
		}
	}
	for name := range clocks {
		if !used[name] {
			t.Errorf("%s is excused and needs no excuse any more", name)
		}
	}
}

// ambient lists the uses of the wall clock and of the global random source.
func ambient(f *ast.File) []string {
	names := map[string]string{} // local name → package path
	for _, i := range f.Imports {
		p, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			continue
		}
		local := path.Base(p)
		if p == "math/rand/v2" {
			local = "rand"
		}
		if i.Name != nil {
			local = i.Name.Name
		}
		names[local] = p
	}
	seeded := []string{"New", "NewPCG", "NewChaCha8", "NewZipf", "NewSource", "Rand", "PCG", "ChaCha8", "Source", "Source64", "Zipf"}
	wall := []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}
	var out []string
	ast.Inspect(f, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, ok := sel.X.(*ast.Ident)
		if !ok {
			return true
		}
		switch p := names[x.Name]; p {
		case "time":
			if slices.Contains(wall, sel.Sel.Name) {
				out = append(out, "time."+sel.Sel.Name)
			}
		case "math/rand", "math/rand/v2":
			if !slices.Contains(seeded, sel.Sel.Name) {
				out = append(out, p+"."+sel.Sel.Name)
			}
		}
		return true
	})
	return out
}

// TestAmbientNotices shows that the scan can fail.
func TestAmbientNotices(t *testing.T) {
	const text = `package x
import ("time"; mr "math/rand"; "math/rand/v2")
var _ = time.Now()
var _ = time.Second
var _ = mr.Intn(3)
var _ = rand.New(rand.NewPCG(1, 2))
var _ = rand.IntN(3)
`
	f, err := parser.ParseFile(token.NewFileSet(), "x.go", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"time.Now", "math/rand.Intn", "math/rand/v2.IntN"}
	if got := ambient(f); !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
}
