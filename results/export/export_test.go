package export

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/olekukonko/tablewriter/pkg/twwidth"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
	"pgregory.net/rapid"

	"countersign/results"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// matrix makes twelve families of the given size against the targets, with an
// outcome chosen by position.
func matrix(targets []results.TargetInfo, variants int, observed func(target, family, variant int) results.Observation) (results.Catalogue, []results.Record) {
	c := results.Catalogue{Targets: targets, Scenarios: []results.ScenarioInfo{{ID: "payments"}}}
	for f := range 12 {
		a := results.AttackInfo{ID: fmt.Sprintf("AB%d", f+1), Title: "family number " + fmt.Sprint(f+1)}
		for v := range variants {
			a.Variants = append(a.Variants,
				results.VariantInfo{Name: fmt.Sprintf("v%d", v), Condition: "args", Kind: results.Attack},
				results.VariantInfo{Name: fmt.Sprintf("v%d", v), Kind: results.Twin})
		}
		c.Attacks = append(c.Attacks, a)
	}
	var records []results.Record
	for t, target := range targets {
		for f := range 12 {
			for v := range variants {
				r := results.Record{Schema: results.Schema, Target: target.ID, Attack: fmt.Sprintf("AB%d", f+1), Variant: fmt.Sprintf("v%d", v),
					Kind: results.Attack, Scenario: "payments", Approver: "faithful", Predicted: results.PredictBlocked, Observed: observed(t, f, v)}
				r.Pair = r.Attack + r.Variant
				switch r.Observed {
				case results.Executed:
					r.Predicted, r.Reasons = results.PredictExecuted, []string{"content"}
				case results.Refused:
					r.RefusedBy = []string{"args"}
				case results.Error:
					r.Detail = "dialling: connection refused"
				}
				records = append(records, r)
				r.Kind, r.Twin, r.Predicted, r.Observed, r.Detail, r.RefusedBy = results.Twin, true, results.PredictCompleted, results.Completed, "", nil
				records = append(records, r)
			}
		}
	}
	return c, records
}

func analyse(t *testing.T, c results.Catalogue, records []results.Record) *results.Analysis {
	t.Helper()
	a, err := results.Analyse(results.Sequence(records), c, results.Family{})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// sample has each kind of cell at least once.
func sample(t *testing.T) *results.Analysis {
	c, records := matrix([]results.TargetInfo{{ID: "M0", Name: "none"}, {ID: "M4", Name: "bearer"}, {ID: "other", Name: "another system"}, {ID: "M9", Name: "bound"}}, 3,
		func(target, family, variant int) results.Observation {
			switch {
			case target == 0:
				return results.Executed
			case target == 1 && (family+variant)%3 == 0:
				return results.Executed
			case target == 2 && family%4 == 1:
				return results.Unimplemented
			case target == 2 && family == 2 && variant == 0:
				return results.Error
			case target == 2 && family == 3 && variant == 1:
				return results.Starved
			case target == 3 && family == 11:
				return results.Held
			}
			return results.Refused
		})
	for i := range records {
		r := &records[i]
		switch {
		case r.Target == "M9" && r.Attack == "AB5" && r.Kind == results.Attack && r.Variant == "v1":
			r.RefusedBy = []string{"audience"} // the wrong reason
		case r.Target == "M9" && r.Attack == "AB6" && r.Kind == results.Attack && r.Variant == "v2":
			r.Observed, r.Reasons = results.Executed, []string{"stale"} // a disagreement
		case r.Target == "M4" && r.Attack == "AB7" && r.Kind == results.Twin && r.Variant == "v0":
			r.Observed = results.Refused // another
		case r.Target == "other" && r.Attack == "AB4" && r.Kind == results.Attack && r.Variant == "v2":
			r.Observed, r.Nondeterministic = results.Executed, true // a race
		}
	}
	records = append(records, results.Record{Schema: results.Schema, Target: "M9", Kind: results.Honest, Scenario: "payments", Approver: "faithful",
		Pair: "honest", Predicted: results.PredictCompleted, Observed: results.Completed})
	c.NotApplicable = []results.Skip{{Attack: "AB1", Variant: "v0", Scenario: "payments", Reason: "a reason that is longer than the column it is written in"}}
	return analyse(t, c, records)
}

func TestGolden(t *testing.T) {
	a := sample(t)
	for _, f := range Formats() {
		var b bytes.Buffer
		if err := (Document{Analysis: a}).Write(&b, f); err != nil {
			t.Fatal(err)
		}
		name := filepath.Join("testdata", "sample."+string(f))
		if *update {
			if err := errors.Join(os.MkdirAll("testdata", 0o755), os.WriteFile(name, b.Bytes(), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), b.String()); d != "" {
			t.Errorf("%s (want -, got +; -update rewrites it):\n%s", name, d)
		}
	}
}

// The main table of eleven targets, with the largest counts there are, fits.
func TestTextFitsATerminal(t *testing.T) {
	var targets []results.TargetInfo
	for i := range 11 {
		targets = append(targets, results.TargetInfo{ID: fmt.Sprintf("M%d+", i), Name: "a name longer than the column"})
	}
	c, records := matrix(targets, 15, func(target, family, variant int) results.Observation {
		if target == 0 && variant == 0 {
			return results.Error
		}
		return results.Executed
	})
	a := analyse(t, c, records)
	for _, table := range Tables(a) {
		var b bytes.Buffer
		if err := table.Text(&b); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 120 {
				t.Errorf("%s: %d columns: %s", table.Name, n, line)
			}
		}
	}
}

func TestDisagreementsComeFirst(t *testing.T) {
	a := sample(t)
	if len(a.Disagreements) != 3 {
		t.Fatalf("%d disagreements", len(a.Disagreements))
	}
	if got := Tables(a)[0]; got.Name != "disagreements" || len(got.Rows) != 3 {
		t.Errorf("first table is %s with %d rows", got.Name, len(got.Rows))
	}
}

// Whatever a target calls itself, no form lets it act on the reader's terminal,
// start a row of its own, or break the table.
func TestHostileCells(t *testing.T) {
	hostile := "\x1b[2J\r\nM9 bound 0/3 | x |<b>`*\u202e\u200b\U000e0041\u00a0\xff\t=cmd"
	c, records := matrix([]results.TargetInfo{{ID: "=evil", Name: hostile}, {ID: "M9"}}, 1,
		func(target, _, _ int) results.Observation {
			return []results.Observation{results.Error, results.Refused}[target]
		})
	for i := range records {
		if records[i].Detail != "" {
			records[i].Detail = hostile
		}
	}
	a := analyse(t, c, records)
	for _, f := range Formats() {
		var b bytes.Buffer
		if err := (Document{Analysis: a}).Write(&b, f); err != nil {
			t.Fatal(err)
		}
		if f == JSON {
			var back results.Analysis
			if err := json.Unmarshal(b.Bytes(), &back); err != nil || back.Rows[0].Target.Name != strings.ToValidUTF8(hostile, "\uFFFD") {
				t.Errorf("JSON has the name %q, %v", back.Rows[0].Target.Name, err)
			}
		}
		for _, r := range b.String() {
			if r != '\n' && results.Unseen(r) {
				t.Errorf("%s holds %U", f, r)
			}
		}
	}
	var md bytes.Buffer
	if err := success(a, groups(a)[0]).Markdown(&md); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(md.String()) {
		bars := strings.Count(line, "|") - strings.Count(line, `\|`)
		if strings.HasPrefix(line, "|") && bars != 15 {
			t.Errorf("%d cell borders, want 15: %s", bars, line)
		}
	}
	var tex bytes.Buffer
	if err := success(a, groups(a)[0]).LaTeX(&tex); err != nil {
		t.Fatal(err)
	}
	if rows := readLaTeX(t, tex.String()); len(rows) != 3 || len(rows[1]) != 14 || rows[1][0] != clean("=evil "+hostile) {
		t.Errorf("LaTeX is read as %q", rows)
	}
	var csvText bytes.Buffer
	if err := Cells(a).CSV(&csvText); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&csvText).ReadAll()
	if err != nil || len(rows) != 1+2*12*2 || rows[1][0] != "'=evil" {
		t.Errorf("%d CSV rows, first cell %q, %v", len(rows), rows[1][0], err)
	}
}

// TestFormsAgree: each form of a table has the same cells in the same places, and the
// notes.
func TestFormsAgree(t *testing.T) {
	a := sample(t)
	md := goldmark.New(goldmark.WithExtensions(extension.Table))
	for _, table := range append(Tables(a), Cells(a)) {
		want := append([][]string{table.Header}, table.Rows...)
		if len(table.Rows) == 0 {
			want = nil
		}
		written := map[Format]string{}
		for _, f := range []Format{Text, Markdown, CSV, LaTeX} {
			var b bytes.Buffer
			if err := f.write(&b, table); err != nil {
				t.Fatal(err)
			}
			written[f] = b.String()
		}
		rows, err := csv.NewReader(strings.NewReader(written[CSV])).ReadAll()
		for _, row := range rows {
			for i := range row {
				row[i] = strings.TrimPrefix(row[i], "'") // against formulas
			}
		}
		if err != nil || len(table.Rows) > 0 && !reflect.DeepEqual(rows, want) {
			t.Errorf("%s: CSV is read as %q, %v, want %q", table.Name, rows, err, want)
		}
		if got := readLaTeX(t, written[LaTeX]); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: LaTeX is read as %q, want %q", table.Name, got, want)
		}
		source := []byte(written[Markdown])
		var got [][]string
		err = ast.Walk(md.Parser().Parse(text.NewReader(source)), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
			if row, ok := n.(*east.TableRow); ok && entering {
				got = append(got, cellsOf(row, source))
			} else if row, ok := n.(*east.TableHeader); ok && entering {
				got = append(got, cellsOf(row, source))
			}
			return ast.WalkContinue, nil
		})
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: Markdown is read as %q, %v, want %q", table.Name, got, err, want)
		}
		// The text form folds names, so that its words are compared.
		words := func(s string) string { return strings.Join(strings.Fields(s), "") }
		for _, n := range append([]string{table.Title}, table.Notes...) {
			if !strings.Contains(words(written[Text]), words(n)) {
				t.Errorf("%s: the text form lacks %q", table.Name, n)
			}
		}
		if !table.Stack && table.Names <= 1 {
			for _, row := range want {
				if len(row[0]) <= table.Fold && !strings.Contains(words(written[Text]), words(strings.Join(row, ""))) {
					t.Errorf("%s: the text form lacks the row %q", table.Name, row)
				}
			}
		}
	}
}

// cellsOf are the texts of a row of a Markdown table.
func cellsOf(row ast.Node, source []byte) (cells []string) {
	for c := row.FirstChild(); c != nil; c = c.NextSibling() {
		var b strings.Builder
		_ = ast.Walk(c, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
			if x, ok := n.(*ast.Text); ok && entering {
				b.Write(util.UnescapePunctuations(x.Value(source)))
			}
			return ast.WalkContinue, nil
		})
		cells = append(cells, b.String())
	}
	return cells
}

// readLaTeX reads the cells of a table back.
func readLaTeX(t *testing.T, source string) (rows [][]string) {
	t.Helper()
	_, body, ok := strings.Cut(source, "\\toprule\n")
	if !ok {
		return nil
	}
	body, _, _ = strings.Cut(body, "\\bottomrule")
	body = strings.Replace(body, "\\midrule\n", "", 1)
	undo := []string{"{}-", "-", "{},", ","}
	for r, command := range latexText {
		undo = append(undo, command, string(r))
	}
	for line := range strings.Lines(body) {
		line, ok := strings.CutSuffix(line, " \\\\\n")
		if !ok {
			t.Errorf("a row without an end: %q", line)
		}
		row := strings.Split(line, " & ")
		for i := range row {
			row[i] = strings.NewReplacer(undo...).Replace(row[i])
		}
		rows = append(rows, row)
	}
	return rows
}

// TestLaTeXIsInert: whatever the text is, what is written of it has no command but
// those that write a character, and is read as the text.
func TestLaTeXIsInert(t *testing.T) {
	commands := make([]string, 0, len(latexText))
	for _, c := range latexText {
		commands = append(commands, regexp.QuoteMeta(c))
	}
	inert := regexp.MustCompile(`^(?:` + strings.Join(commands, "|") + `|\{\}[-,]|[^\\{}$&#%_^~<>|"` + "`" + `'\[\]*!?⟨⟩\x00-\x1f\x7f-\x{bf}\x{17f}-\x{10ffff}])*$`)
	hostile := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.SampledFrom([]rune("\\{}$&#%_^~-,<>\"'`[]*!?⟨é漢\x00\n a"))))
	rapid.Check(t, func(t *rapid.T) {
		s := hostile.Draw(t, "s")
		got := escapeLaTeX(s)
		if !inert.MatchString(got) || strings.Contains(got, "--") || strings.Contains(got, ",,") {
			t.Fatalf("%q is written %q", s, got)
		}
	})
}

// TestFiles: every table is there in every form, and no file is anything else.
func TestFiles(t *testing.T) {
	a := sample(t)
	dir := filepath.Join(t.TempDir(), "new", "tables")
	paths, err := Document{Analysis: a}.WriteFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	if want := 4*(len(Tables(a))+1) + 1; len(paths) != want {
		t.Errorf("%d files, want %d", len(paths), want)
	}
	for _, p := range paths {
		name, ext, _ := strings.Cut(filepath.Base(p), ".")
		f := map[string]Format{"txt": Text, "md": Markdown, "csv": CSV, "tex": LaTeX, "json": JSON}[ext]
		var b bytes.Buffer
		var err error
		if f == JSON {
			err = Document{Analysis: a}.Write(&b, f)
		} else {
			err = Document{Analysis: a}.Write(&b, f, name)
		}
		got, readErr := os.ReadFile(p)
		if err := errors.Join(err, readErr); err != nil || !bytes.Equal(got, b.Bytes()) {
			t.Errorf("%s, %v:\n%s\nwant\n%s", p, err, got, b.Bytes())
		}
	}
	if _, err := (Document{Analysis: a}).WriteFiles(paths[0]); err == nil {
		t.Error("a file was taken for a folder")
	}
}

// TestGroups: rows of another group are in tables of their own, with their sources,
// and the main tables are what they are without them.
func TestGroups(t *testing.T) {
	main := []results.TargetInfo{{ID: "M4", Name: "bearer", ModelledOn: "a text"}, {ID: "M9", Name: "bound"}}
	beside := []results.TargetInfo{{ID: "M4+", ModelledOn: "a text", Group: "with care"}, {ID: "X", ModelledOn: "another text", Group: "of texts"}, {ID: "M5+", Group: "with care"}}
	observed := func(int, int, int) results.Observation { return results.Refused }
	written := func(targets []results.TargetInfo) map[string]string {
		c, records := matrix(targets, 2, observed)
		out := map[string]string{}
		for _, table := range Tables(analyse(t, c, records)) {
			var b bytes.Buffer
			if err := table.Text(&b); err != nil {
				t.Fatal(err)
			}
			title, rest, _ := strings.Cut(b.String(), "\n")
			out[title] = rest
		}
		return out
	}
	alone, all := written(main), written(append(append([]results.TargetInfo{beside[0]}, main...), beside[1:]...))
	for _, title := range []string{"Attack success: variants executed in at least one scenario", "Benign success: twins completed in every scenario", "Over all families"} {
		if alone[title] == "" || alone[title] != all[title] {
			t.Errorf("%s: alone\n%s\nwith others beside it\n%s", title, alone[title], all[title])
		}
	}
	care := all["Attack success, with care: variants executed in at least one scenario"]
	for _, want := range []string{"M4+ ", "M5+ ", "M4+: a text."} {
		if !strings.Contains(care, want) || strings.Contains(care, "another text") {
			t.Errorf("want %q in\n%s", want, care)
		}
	}
	if all["Over all families, of texts"] == "" || len(all) != len(alone)+6 {
		t.Errorf("%d tables, and %d without the others", len(all), len(alone))
	}
}

func TestLongListsAreCut(t *testing.T) {
	c, records := matrix([]results.TargetInfo{{ID: "M9"}}, 5, func(int, int, int) results.Observation { return results.Starved })
	a := analyse(t, c, records)
	var b bytes.Buffer
	if err := Tables(a)[0].Text(&b); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), "starved"); n != listed || !strings.Contains(b.String(), "... and 20 more") {
		t.Errorf("%d rows shown:\n%s", n, b.String())
	}
}

func TestWriteRefuses(t *testing.T) {
	var b bytes.Buffer
	a := sample(t)
	for name, err := range map[string]error{
		"no analysis": Document{}.Write(&b, Text), "no format": Document{Analysis: a}.Write(&b, ""), "no such table": Document{Analysis: a}.Write(&b, Text, "totals", "nothing"),
		"two tables in CSV": Document{Analysis: a}.Write(&b, CSV, "totals", "success"), "a table of JSON": Document{Analysis: a}.Write(&b, JSON, "totals"),
	} {
		if err == nil || b.Len() > 0 {
			t.Errorf("%s: written, %d bytes", name, b.Len())
		}
	}
}

func TestCleanIsNotImitated(t *testing.T) {
	if got := clean("\x1b⟨U+001B⟩"); got != "⟨U+001B⟩⟨U+27E8⟩U+001B⟩" {
		t.Errorf("got %q", got)
	}
}

// clean is injective and leaves nothing unseen; folding and wrapping lose no
// visible character.
func TestCleanLaws(t *testing.T) {
	hostile := rapid.StringOf(rapid.OneOf(rapid.Rune(), rapid.SampledFrom([]rune("⟨⟩U+\x1b\u200d\ufe0f\u3164 \u2028a"))))
	rapid.Check(t, func(t *rapid.T) {
		x, y := hostile.Draw(t, "x"), hostile.Draw(t, "y")
		cx := clean(x)
		if x != y && cx == clean(y) {
			t.Fatalf("%q and %q both become %q", x, y, cx)
		}
		for _, r := range cx {
			if !unicode.IsPrint(r) {
				t.Fatalf("%U is left in %q", r, cx)
			}
		}
		width := rapid.IntRange(2, 40).Draw(t, "width")
		if got := strings.ReplaceAll(fold(cx, width), "\n", ""); got != cx {
			t.Fatalf("fold made %q of %q", got, cx)
		}
		lines := strings.Split(fold(cx, width), "\n")
		for i, line := range lines {
			if w := twwidth.Width(strings.TrimRight(line, " ")); w > width {
				t.Fatalf("fold to %d made a line of %d: %q", width, w, line)
			}
			if joints := " _/,;"; i < len(lines)-1 && strings.ContainsAny(line, joints) && !strings.ContainsAny(line[len(line)-1:], joints) {
				t.Fatalf("fold to %d broke %q within a word, before %q", width, line, lines[i+1])
			}
		}
		if got := strings.Join(strings.Fields(wrap(cx, 200)), " "); got != strings.Join(strings.Fields(cx), " ") && len(cx) < 200 {
			t.Fatalf("wrap made %q of %q", got, cx)
		}
	})
}
