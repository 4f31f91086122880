package stats

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// exported lists what the package exports, and which of it are functions.
func exported(t *testing.T) (names []string, functions []string) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.IsExported() {
					names, functions = append(names, d.Name.Name), append(functions, d.Name.Name)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						names = append(names, s.Name.Name)
					case *ast.ValueSpec:
						for _, n := range s.Names {
							names = append(names, n.Name)
						}
					}
				}
			}
		}
	}
	names = slices.DeleteFunc(names, func(n string) bool { return !ast.IsExported(n) })
	if len(functions) < 15 || len(names) < 20 {
		t.Fatalf("found only %v", names)
	}
	return names, functions
}

var reference = regexp.MustCompile(`stats\.(\w+)`)

func referred(text string) map[string]bool {
	out := map[string]bool{}
	for _, m := range reference.FindAllStringSubmatch(text, -1) {
		out[m[1]] = true
	}
	return out
}

// TestMethodsPage: METHODS.md names everything that the package exports and nothing
// else, and its table says which packages call which function.
func TestMethodsPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "METHODS.md"))
	if err != nil {
		t.Fatal(err)
	}
	names, functions := exported(t)
	on := referred(string(page))
	for _, n := range names {
		if !on[n] {
			t.Errorf("METHODS.md does not name stats.%s", n)
		}
	}
	for n := range on {
		if !slices.Contains(names, n) {
			t.Errorf("METHODS.md names stats.%s, which the package does not export", n)
		}
	}

	// Who calls what, from the source.
	root := filepath.Join("..", "..")
	callers := map[string]map[string]bool{}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "runs" || path == filepath.Join(root, "results", "stats")):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), `"countersign/results/stats"`) {
			return err
		}
		pkg, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		for n := range referred(string(text)) {
			if callers[n] == nil {
				callers[n] = map[string]bool{}
			}
			callers[n][filepath.ToSlash(pkg)] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !callers["Wilson"]["results"] {
		t.Fatal("no caller of stats.Wilson was found")
	}

	_, table, _ := strings.Cut(string(page), "## Which function is used where")
	table, _, _ = strings.Cut(table, "\n## ")
	told := map[string]string{}
	for line := range strings.Lines(table) {
		columns := strings.Split(line, "|")
		if len(columns) != 5 {
			continue
		}
		for n := range referred(columns[1]) {
			if _, twice := told[n]; twice {
				t.Errorf("the table has stats.%s twice", n)
			}
			told[n] = strings.TrimSpace(columns[3])
		}
	}
	for _, n := range functions {
		want := "-"
		if packages := slices.Sorted(maps.Keys(callers[n])); len(packages) > 0 {
			want = "`" + strings.Join(packages, "`, `") + "`"
		}
		if got, ok := told[n]; !ok || got != want {
			t.Errorf("the table says that stats.%s is used by %q, want %q", n, got, want)
		}
	}
}
