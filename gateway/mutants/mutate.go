package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
)

// The kinds of mutants.
const (
	// Removed: a condition never holds; an operand of && or || says nothing; a
	// check never refuses.
	Removed = "removed"
	// Inverted: a condition holds when it did not; a check refuses what it let
	// through, and lets through what it refused.
	Inverted = "inverted"
)

// A Mutant is one change to the gate.
type Mutant struct {
	// ID is package.function/ordinal/kind, where the ordinal counts the conditions
	// of the function, those of a switch before what is inside of it, and 2.1 is the
	// first operand of the second. It does not change when lines move.
	ID       string `json:"id"`
	File     string `json:"file"` // from the module's root
	Line     int    `json:"line"`
	Kind     string `json:"kind"`
	Original string `json:"original"` // the condition as written, on one line
	// Number selects the mutant in the instrumented code, together with the kind.
	Number int `json:"-"`
}

// A place is one condition; it has a mutant of each kind.
type place struct {
	function, ordinal string
	node              ast.Node
	kinds             []string
}

// An edit replaces source[from:to].
type edit struct {
	from, to int
	text     string
	closing  bool
}

// An instrumenter puts the mutants of one file into its source, each of them
// switched off. Numbers go on from file to file.
type instrumenter struct {
	fset    *token.FileSet
	pkg     string
	name    string
	source  string
	next    int
	edits   []edit
	mutants []Mutant
	counts  map[string]int // conditions so far, by function
	tags    int
}

// instrument returns the source with every condition of the named functions
// (none: all) behind a switch, and the mutants. It wants gofmt's form of the
// language and nothing more. first is the number of the first mutant.
//
// Nothing else changes: conditions are still evaluated, in the same order, so a
// mutant loses the decision alone and never what computing it did, and all of
// them compile.
func instrument(name, source string, first int, functions []string) (string, []Mutant, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, source, parser.SkipObjectResolution)
	if err != nil {
		return "", nil, fmt.Errorf("reading %s: %w", name, err)
	}
	in := &instrumenter{fset: fset, pkg: path.Dir(name), name: name, source: source, next: first, counts: map[string]int{}}
	found := map[string]bool{}
	for _, decl := range file.Decls {
		for _, d := range parts(decl) {
			if len(functions) > 0 && !slices.Contains(functions, d.name) {
				continue
			}
			found[d.name] = true
			in.walk(d.name, d.node, false)
		}
	}
	for _, f := range functions {
		if !found[f] {
			return "", nil, fmt.Errorf("reading %s: there is no function %s any more: mend the list of what is mutated", name, f)
		}
	}
	return in.apply(), in.mutants, nil
}

type part struct {
	name string
	node ast.Node
}

// parts are what a declaration gives names to: a function, or variables whose
// values may hold functions.
func parts(decl ast.Decl) []part {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil {
			name = receiver(d.Recv.List[0].Type) + "." + name
		}
		return []part{{name, d}}
	case *ast.GenDecl:
		var out []part
		for _, s := range d.Specs {
			if v, ok := s.(*ast.ValueSpec); ok {
				out = append(out, part{v.Names[0].Name, v})
			}
		}
		return out
	}
	return nil
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}

// walk finds the conditions below a node. decides: the innermost function's
// result is one bool, so what it returns is a condition too.
func (in *instrumenter) walk(function string, root ast.Node, decides bool) {
	ast.Inspect(root, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			decides = yields(n.Type)
		case *ast.FuncLit:
			in.walk(function, n.Body, yields(n.Type))
			return false
		case *ast.IfStmt:
			in.condition(function, n.Cond)
		case *ast.SwitchStmt:
			in.choices(function, n)
		case *ast.ReturnStmt:
			if decides && len(n.Results) == 1 && !constant(n.Results[0]) {
				in.condition(function, n.Results[0])
			}
		case *ast.AssignStmt:
			if len(n.Rhs) == 1 && logical(n.Rhs[0]) {
				in.condition(function, n.Rhs[0])
			}
		case *ast.CompositeLit:
			if in.name == checksFile && function == checksTable && len(n.Elts) == 2 && n.Type == nil {
				in.check(function, n.Elts[1])
			}
		}
		return true
	})
}

func yields(t *ast.FuncType) bool {
	if t.Results == nil || t.Results.NumFields() != 1 {
		return false
	}
	id, ok := t.Results.List[0].Type.(*ast.Ident)
	return ok && id.Name == "bool"
}

func constant(e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	return ok && (id.Name == "true" || id.Name == "false")
}

// logical reports whether an expression's form alone makes it a bool.
func logical(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return logical(e.X)
	case *ast.UnaryExpr:
		return e.Op == token.NOT
	case *ast.BinaryExpr:
		switch e.Op {
		case token.LAND, token.LOR, token.EQL, token.NEQ, token.LSS, token.LEQ, token.GTR, token.GEQ:
			return true
		}
	}
	return false
}

func (in *instrumenter) condition(function string, e ast.Expr) {
	in.counts[function]++
	ordinal := strconv.Itoa(in.counts[function])
	in.wrap(place{function, ordinal, e, []string{Removed, Inverted}}, "false")
	in.operands(function, ordinal, e)
}

// operands makes a mutant of each operand of && and ||: the condition without it.
func (in *instrumenter) operands(function, ordinal string, e ast.Expr) {
	b, ok := ast.Unparen(e).(*ast.BinaryExpr)
	if !ok || b.Op != token.LAND && b.Op != token.LOR {
		return
	}
	neutral := "true"
	if b.Op == token.LOR {
		neutral = "false"
	}
	for i, operand := range chain(b, b.Op) {
		o := fmt.Sprintf("%s.%d", ordinal, i+1)
		in.wrap(place{function, o, operand, []string{Removed}}, neutral)
		in.operands(function, o, operand)
	}
}

// chain lists the operands of a && b && c.
func chain(e ast.Expr, op token.Token) []ast.Expr {
	if b, ok := e.(*ast.BinaryExpr); ok && b.Op == op {
		return append(chain(b.X, op), chain(b.Y, op)...)
	}
	return []ast.Expr{e}
}

// choices are the cases of a switch. One with a tag is rewritten as one without.
func (in *instrumenter) choices(function string, s *ast.SwitchStmt) {
	tag := ""
	if s.Tag != nil {
		if s.Init != nil {
			return // none in the gate; the count of conditions would show it
		}
		in.tags++
		tag = fmt.Sprintf("mutantTag%d", in.tags)
		in.insert(s.Tag, tag+" := ", "; true")
	}
	for _, c := range s.Body.List {
		for _, e := range c.(*ast.CaseClause).List {
			if tag == "" {
				in.condition(function, e)
				continue
			}
			in.counts[function]++
			n := in.add(place{function, strconv.Itoa(in.counts[function]), e, []string{Removed, Inverted}})
			in.insert(e, fmt.Sprintf("mutantCondition(%d, false, %s == (", n, tag), "))")
		}
	}
}

// check makes a mutant of a whole check of the table.
func (in *instrumenter) check(function string, e ast.Expr) {
	n := in.add(place{function, in.text(e), e, []string{Removed, Inverted}})
	in.insert(e, fmt.Sprintf("mutantCheck(%d, ", n), ")")
}

func (in *instrumenter) wrap(p place, neutral string) {
	n := in.add(p)
	in.insert(p.node, fmt.Sprintf("mutantCondition(%d, %s, ", n, neutral), ")")
}

func (in *instrumenter) add(p place) int {
	n := in.next
	in.next++
	for _, kind := range p.kinds {
		in.mutants = append(in.mutants, Mutant{
			ID:   fmt.Sprintf("%s.%s/%s/%s", path.Base(in.pkg), p.function, p.ordinal, kind),
			File: in.name, Line: in.fset.Position(p.node.Pos()).Line, Kind: kind,
			Original: in.text(p.node), Number: n,
		})
	}
	return n
}

func (in *instrumenter) offset(p token.Pos) int { return in.fset.Position(p).Offset }

func (in *instrumenter) text(n ast.Node) string {
	return strings.Join(strings.Fields(in.source[in.offset(n.Pos()):in.offset(n.End())]), " ")
}

func (in *instrumenter) insert(n ast.Node, before, after string) {
	from, to := in.offset(n.Pos()), in.offset(n.End())
	in.edits = append(in.edits, edit{from, from, before, false}, edit{to, to, after, true})
}

// apply makes the edits. At one place, what encloses opens first and closes last.
func (in *instrumenter) apply() string {
	var opening, closing []edit
	for _, e := range in.edits {
		if e.closing {
			closing = append(closing, e)
		} else {
			opening = append(opening, e)
		}
	}
	slices.Reverse(closing)
	all := append(closing, opening...)
	slices.SortStableFunc(all, func(a, b edit) int { return cmp.Compare(a.from, b.from) })
	var out strings.Builder
	done := 0
	for _, e := range all {
		out.WriteString(in.source[done:e.from])
		out.WriteString(e.text)
		done = e.to
	}
	out.WriteString(in.source[done:])
	return out.String()
}

// variable is the environment variable that switches a mutant on.
const variable = "COUNTERSIGN_MUTANT"

// selection is its value for a mutant.
func (m Mutant) selection() string { return fmt.Sprintf("%d/%s", m.Number, m.Kind) }

// switches is the source, beside the instrumented files of a package, of what
// they call.
func switches(pkg string) string {
	out := "package " + pkg + `

import (
	"os"
	"strconv"
	"strings"
)

var mutantNumber, mutantInverts = func() (int, bool) {
	number, kind, _ := strings.Cut(os.Getenv("` + variable + `"), "/")
	n, _ := strconv.Atoi(number)
	return n, kind == "` + Inverted + `"
}()

func mutantCondition(n int, neutral, holds bool) bool {
	switch {
	case n != mutantNumber:
		return holds
	case mutantInverts:
		return !holds
	}
	return neutral
}
`
	if pkg == path.Dir(checksFile) {
		out += `
func mutantCheck(n int, check func(*Situation) (string, string)) func(*Situation) (string, string) {
	return func(s *Situation) (string, string) {
		code, detail := check(s)
		switch {
		case n != mutantNumber:
			return code, detail
		case mutantInverts && code == "":
			return "inverted", "the check is inverted"
		}
		return "", ""
	}
}
`
	}
	return out
}
