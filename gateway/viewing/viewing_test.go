package viewing_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	raw "github.com/yuin/goldmark/renderer/html"
	"golang.org/x/net/html"
	"golang.org/x/text/width"
	"pgregory.net/rapid"

	"countersign/gateway"
	"countersign/gateway/api"
	"countersign/gateway/viewing"
)

// A reader takes a rendering apart, by the rules of its medium and by nothing that
// the renderer says about itself.
type reader struct {
	name   string
	render func(api.View) string
	read   func(rendering string) ([]row, error)
}

// A row is a line that a person sees: the title, a note, or a field's.
type row struct {
	Head string // what is bold in it, or "!"; all of a title
	Text string
}

const columns = 40

func readers() []reader {
	return []reader{
		{"text", viewing.Text, readText},
		{"terminal", func(v api.View) string { return viewing.Terminal(v, columns) }, readTerminal},
		{"markdown", viewing.Markdown, readMarkdown},
		{"html", viewing.HTML, readHTML},
	}
}

// readText: lines end where any program could end them.
func readText(s string) ([]row, error) {
	lines := strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune("\n\r\v\f\u0085\u2028\u2029", r) })
	var out []row
	for i, l := range lines {
		head, text, _ := strings.Cut(l, " ")
		if head != "!" && i > 0 {
			var ok bool
			if head, text, ok = strings.Cut(l, ": "); !ok {
				return nil, fmt.Errorf("the line %q has no label", l)
			}
			head += ":"
		}
		if i == 0 {
			head, text = l, ""
		}
		out = append(out, row{head, text})
	}
	return out, nil
}

// readTerminal obeys the two sequences that a rendering may hold, and refuses all
// other controls.
func readTerminal(s string) ([]row, error) {
	var out []row
	for n, l := range strings.Split(strings.TrimSuffix(s, "\n"), "\n") {
		var plain, head string
		bold := false
		for l != "" {
			r, size := utf8.DecodeRuneInString(l)
			switch {
			case strings.HasPrefix(l, "\x1b[1m"):
				bold, size = true, 4
			case strings.HasPrefix(l, "\x1b[0m"):
				bold, size = false, 4
			case r < ' ' || r == 0x7F || r >= 0x80 && r < 0xA0:
				return nil, fmt.Errorf("line %d has the control %U", n, r)
			case bold:
				head += string(r)
			default:
				plain += string(r)
			}
			l = l[size:]
		}
		if w := cellsOf(plain + head); w > columns {
			return nil, fmt.Errorf("line %d is %d columns wide", n, w)
		}
		if rest, goesOn := strings.CutPrefix(plain, "    "); goesOn {
			if len(out) == 0 {
				return nil, fmt.Errorf("line %d carries on nothing", n)
			}
			last := &out[len(out)-1]
			last.Head, last.Text = last.Head+head, last.Text+rest
			continue
		}
		out = append(out, row{head, plain})
	}
	for i := 1; i < len(out); i++ {
		text, ok := strings.CutPrefix(out[i].Text, " ")
		if !ok {
			return nil, fmt.Errorf("%+v has no space behind the label", out[i])
		}
		out[i].Text = text
	}
	return out, nil
}

func cellsOf(s string) (n int) {
	for _, r := range s {
		n++
		if k := width.LookupRune(r).Kind(); k == width.EastAsianWide || k == width.EastAsianFullwidth {
			n++
		}
	}
	return n
}

var markdown = goldmark.New(goldmark.WithExtensions(extension.GFM, extension.Footnote, extension.DefinitionList, extension.Typographer),
	goldmark.WithRendererOptions(raw.WithUnsafe()))

func readMarkdown(s string) ([]row, error) {
	var page bytes.Buffer
	if err := markdown.Convert([]byte(s), &page); err != nil {
		return nil, err
	}
	var out []row
	err := walk(page.String(), map[string]bool{"p": true, "strong": true, "ul": true, "li": true, "blockquote": true}, func(path []string, n *html.Node) error {
		switch strings.Join(path, ">") {
		case "p":
			if len(out) > 0 {
				return fmt.Errorf("a second title %q", flat(n))
			}
			out = append(out, row{Head: flat(n)})
		case "ul>li":
			head := n.FirstChild
			if head == nil || head.Data != "strong" || head.NextSibling == nil || head.NextSibling.NextSibling != nil {
				return fmt.Errorf("an item is not a label and a text: %q", flat(n))
			}
			out = append(out, row{flat(head), strings.TrimPrefix(flat(head.NextSibling), " ")})
		case "blockquote>p":
			head, text, _ := strings.Cut(flat(n), " ")
			out = append(out, row{head, text})
		}
		return nil
	})
	return out, err
}

func readHTML(s string) ([]row, error) {
	var out []row
	err := walk(s, map[string]bool{"section": true, "h1": true, "p": true, "b": true, "bdi": true}, func(path []string, n *html.Node) error {
		switch strings.Join(path, ">") {
		case "section>h1":
			out = append(out, row{Head: flat(n)})
		case "section>p":
			head := n.FirstChild
			if head == nil || head.Data != "b" || head.NextSibling == nil || head.NextSibling.Data != " " ||
				head.NextSibling.NextSibling == nil || head.NextSibling.NextSibling.Data != "bdi" || n.LastChild != head.NextSibling.NextSibling {
				return fmt.Errorf("a line is not a label and a text: %q", flat(n))
			}
			out = append(out, row{flat(head), flat(n.LastChild)})
		}
		return nil
	})
	return out, err
}

// walk parses a fragment, refuses every element and attribute that a rendering
// has no use for, and visits the others.
func walk(s string, elements map[string]bool, visit func(path []string, n *html.Node) error) error {
	root, err := html.Parse(strings.NewReader(s))
	if err != nil {
		return err
	}
	body := root.FirstChild.LastChild
	var down func(path []string, n *html.Node) error
	down = func(path []string, n *html.Node) error {
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			switch {
			case c.Type == html.TextNode:
				continue
			case c.Type != html.ElementNode || !elements[c.Data]:
				return fmt.Errorf("%v holds %q", path, c.Data)
			case c.Data == "bdi" && !slices.Equal(c.Attr, []html.Attribute{{Key: "dir", Val: "ltr"}}):
				return fmt.Errorf("bdi has attributes %v", c.Attr)
			case c.Data != "bdi" && len(c.Attr) > 0 && (c.Data != "section" || c.Attr[0] != (html.Attribute{Key: "class", Val: "countersign-view"})):
				return fmt.Errorf("%s has attributes %v", c.Data, c.Attr)
			}
			p := append(path, c.Data)
			if err := visit(p, c); err != nil {
				return err
			}
			if err := down(p, c); err != nil {
				return err
			}
		}
		return nil
	}
	return down(nil, body)
}

func flat(n *html.Node) string {
	if n.Type == html.TextNode {
		return n.Data
	}
	var b strings.Builder
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		b.WriteString(flat(c))
	}
	return b.String()
}

// decode reads a displayed text by the rules of api.ViewField.
func decode(text string) (string, error) {
	if text == "⟨empty⟩" {
		return "", nil
	}
	var out strings.Builder
	for text != "" {
		before, rest, marked := strings.Cut(text, "⟨")
		out.WriteString(before)
		if !marked {
			break
		}
		mark, after, ok := strings.Cut(rest, "⟩")
		if !ok {
			return "", fmt.Errorf("a mark in %q has no end", text)
		}
		text = after
		if n, err := strconv.ParseUint(strings.TrimPrefix(mark, "U+"), 16, 32); err == nil && strings.HasPrefix(mark, "U+") {
			out.WriteRune(rune(n))
		} else if n, err := strconv.ParseUint(strings.TrimPrefix(mark, "0x"), 16, 8); err == nil && strings.HasPrefix(mark, "0x") {
			out.WriteByte(byte(n))
		} else {
			return "", fmt.Errorf("⟨%s⟩ is no mark", mark)
		}
	}
	return out.String(), nil
}

// check renders a view for every medium and takes each rendering apart: it must
// have exactly the rows of the view, and they must say what it says.
func check(v api.View) error {
	want := []row{{Head: v.Title}}
	for _, f := range v.Fields {
		want = append(want, row{f.Label + ":", f.Text})
	}
	for _, n := range v.Notes {
		want = append(want, row{"!", n})
	}
	for _, r := range readers() {
		got, err := r.read(r.render(v))
		if err != nil {
			return fmt.Errorf("%s: %w in\n%s", r.name, err, r.render(v))
		}
		for i := range got {
			if i == 0 {
				got[i].Head, err = decode(got[i].Head)
			} else {
				label := strings.TrimSuffix(got[i].Head, ":")
				if i <= len(v.Fields) {
					if label, err = decode(label); err == nil {
						label += ":"
					}
				}
				if err == nil {
					got[i].Head = label
					got[i].Text, err = decode(got[i].Text)
				}
			}
			if err != nil {
				return fmt.Errorf("%s: %w in\n%s", r.name, err, r.render(v))
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			return fmt.Errorf("%s: shown -, seen +\n%s\nin\n%s", r.name, d, r.render(v))
		}
	}
	return nil
}

// corpus are texts that have changed what is seen somewhere.
var corpus = []string{
	"", " ", "  ", "a ", " a", "a  b", "-", "- x", "1. x", "# x", "> x", "| a | b |", "---", "***", "===", "`x`", "``` x", "~~~", "~~x~~", "**x**", "__x__", "_x_",
	"[x](http://a.example)", "![x](http://a.example/p.png)", "[x]: http://a.example", "[^1]", "http://a.example", "www.a.example", "a@b.example", "<http://a.example>",
	"a\\", "\\", "\\*", "&amp;", "&lt;b&gt;", "&#8238;", "<b>x</b>", "<!-- x -->", "<!--", "-->", "<script>alert(1)</script>", "</bdi></p></section><h1>x</h1>", "<span hidden>", "\"'><img src=x>",
	"x\n- **Amount:** 1", "x\nAmount: 1", "x\r\nAmount: 1", "x\n\n# y", "x\u2028y", "x\u2029y", "x\u0085y", "x\vy\fz", "a\tb", "a\rb", "a\bb", "\x00", "\x7f",
	"\x1b[2J", "\x1b[1A\x1b[2Kx", "\x1b]8;;http://a.example\x07x\x1b]8;;\x07", "\x1b[8mx\x1b[0m", "\u009b31mx", "\x1b[1mAmount:\x1b[0m 1", "\x1bP1;2|x\x1b\\",
	"\u202egnp.exe", "\u2066x\u2069", "\u200b", "\u200dx", "\ufeff", "\u00ad", "\u034f", "\u3164", "\u2800", "\u00a0", "\u3000", "e\u0301", "Z\u0351\u036b\u0343", "\ufe0f", "\U000e0041", "\U000e0100",
	"⟨U+0041⟩", "⟨empty⟩", "⟨", "⟩", "⟨0xFF⟩", "\xff", "\xed\xa0\x80", "\ufffd", "…", "Amount: 1", "!", "! x", ":", ": x", "a: b", "(c)", "\"x\" -- y...", ":smile:", "@all", "#1", "$x$",
	"東京", "שלום 12", "مرحبا", "日本語の長い文字列が折り返されるところでも一つの行である", "ＡＢＣＤＥＦＧＨＩＪＫＬＭＮＯＰＱＲＳＴＵＶＷＸＹＺ", strings.Repeat("long ", 40), strings.Repeat("x", 200), "\U0001f600", "\ud7ff", "\ue000", "\U0010ffff", "\u0378",
}

func texts() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.SampledFrom(corpus),
		rapid.String(),
		rapid.Map(rapid.SliceOfN(rapid.SampledFrom(corpus), 0, 4), func(s []string) string { return strings.Join(s, "") }),
		rapid.StringOf(rapid.SampledFrom([]rune("aA1 \t\n\r\x1b[]()<>!*_`~#-+.|\\&;:@/\"'⟨⟩U+…\u00a0\u200b\u202e\u0301\u05d0東\u3164"))),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 12), func(b []byte) string { return string(b) }),
	)
}

func views(text *rapid.Generator[string]) *rapid.Generator[api.View] {
	return rapid.Custom(func(t *rapid.T) api.View {
		v := api.View{Title: text.Draw(t, "title"), Notes: rapid.SliceOfN(text, 0, 2).Draw(t, "notes")}
		for range rapid.IntRange(0, 4).Draw(t, "fields") {
			v.Fields = append(v.Fields, api.ViewField{Path: "/x", Label: text.Draw(t, "label"), Text: text.Draw(t, "text")})
		}
		return v
	})
}

// TestExactlyTheFieldsAreSeen: whatever the texts hold, each medium shows one row
// for each line of the view and what that line says, and nothing else.
func TestExactlyTheFieldsAreSeen(t *testing.T) {
	for _, s := range corpus {
		v := api.View{Title: s, Fields: []api.ViewField{{Label: s, Text: s}, {Label: "Amount", Text: s}, {Label: s, Text: "12"}}, Notes: []string{s}}
		if err := check(v); err != nil {
			t.Errorf("%+q: %v", s, err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		if err := check(views(texts()).Draw(t, "view")); err != nil {
			t.Fatal(err)
		}
	})
}

// TestNoTextChangesAnotherLine: changing a text changes the row of that text, in
// every medium, and no other.
func TestNoTextChangesAnotherLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := views(texts()).Filter(func(v api.View) bool { return len(v.Fields) > 0 }).Draw(t, "view")
		i := rapid.IntRange(0, len(v.Fields)-1).Draw(t, "i")
		w := v
		w.Fields = append([]api.ViewField(nil), v.Fields...)
		w.Fields[i].Text = texts().Draw(t, "other")
		for _, r := range readers() {
			a, err := r.read(r.render(v))
			if err != nil {
				t.Fatal(err)
			}
			b, err := r.read(r.render(w))
			if err != nil {
				t.Fatal(err)
			}
			if (a[i+1] == b[i+1]) != (v.Fields[i].Text == w.Fields[i].Text) {
				t.Fatalf("%s: %+q and %+q read %+v and %+v", r.name, v.Fields[i].Text, w.Fields[i].Text, a[i+1], b[i+1])
			}
			a[i+1] = b[i+1]
			if d := cmp.Diff(a, b); d != "" {
				t.Fatalf("%s: field %d changes other rows\n%s", r.name, i, d)
			}
		}
	})
}

// TestBoundTextsStayAsTheyAre: what the gate has marked is not marked again.
func TestBoundTextsStayAsTheyAre(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bound := rapid.Map(texts(), gateway.Visible)
		v := views(bound).Draw(t, "view")
		v.Digest = "00"
		for _, r := range readers() {
			got, err := r.read(r.render(v))
			if err != nil {
				t.Fatal(err)
			}
			for i, f := range v.Fields {
				if got[i+1].Text != f.Text {
					t.Fatalf("%s: %+q is seen as %+q", r.name, f.Text, got[i+1].Text)
				}
			}
			if got[0].Head != v.Title || len(got) != 1+len(v.Fields)+len(v.Notes) {
				t.Fatalf("%s: %+v is seen as %+v", r.name, v, got)
			}
		}
	})
}

// TestMarksOfABoundViewDoNotHideControls: a view with a digest whose texts are not
// marked, as no gate makes one, is still harmless.
func TestMarksOfABoundViewDoNotHideControls(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := views(texts()).Draw(t, "view")
		v.Digest = "00"
		for _, r := range readers() {
			if got, err := r.read(r.render(v)); err != nil || len(got) != 1+len(v.Fields)+len(v.Notes) {
				t.Fatalf("%s: %d rows of %#v, %v", r.name, len(got), v, err)
			}
		}
	})
}

// TestEveryCharacterIsSeen: no rendering has a mark that stacks on its neighbours,
// a character that is not seen, or one that reorders others.
func TestEveryCharacterIsSeen(t *testing.T) {
	var known []api.ViewField
	for _, s := range corpus {
		known = append(known, api.ViewField{Label: s, Text: s})
	}
	rapid.Check(t, func(t *rapid.T) {
		v := views(texts()).Draw(t, "view")
		v.Fields = append(v.Fields, known...)
		for _, r := range readers() {
			for _, c := range strings.NewReplacer("\x1b[1m", "", "\x1b[0m", "", "\n", "").Replace(r.render(v)) {
				if !unicode.IsGraphic(c) || unicode.IsMark(c) || c == '\u2800' || c != ' ' && unicode.IsSpace(c) ||
					unicode.In(c, unicode.Bidi_Control, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) {
					t.Fatalf("%s: %U in a rendering of %#v", r.name, c, v)
				}
			}
		}
	})
}

func example() api.View {
	return api.View{
		Suspension: "s-1", Title: "Pay a supplier", Digest: "00",
		Fields: []api.ViewField{
			{Path: "#audience", Label: "Service", Text: "payments.example"},
			{Path: "/supplier_id", Label: "Supplier", Text: "sup-brightwater"},
			{Path: "/supplier_id>name", Label: "Supplier → name", Text: "Brightwater Facilities Ltd"},
			{Path: "/amount", Label: "Amount", Text: "1200"},
			{Path: "/memo", Label: "Statement text", Text: "Cleaning *May* <b>&amp; June</b>, _as agreed_⟨U+000A⟩Amount⟨U+FF1A⟩ 1, and so on for the whole of the year until further notice"},
			{Path: "/from", Label: "From account", Text: api.SecretText([]byte("key"), "GB29NWBK60161331926819")},
		},
		Notes: []string{"The service offers no protection against duplicates."},
	}
}

// TestGolden: set UPDATE=1 to write the files again.
func TestGolden(t *testing.T) {
	for name, got := range map[string]string{
		"view.txt": viewing.Text(example()), "view.ansi": viewing.Terminal(example(), 60), "view.md": viewing.Markdown(example()), "view.html": viewing.HTML(example()),
	} {
		file := filepath.Join("testdata", name)
		if os.Getenv("UPDATE") != "" {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), got); d != "" {
			t.Errorf("%s: file -, rendered +\n%s", name, d)
		}
	}
	all := viewing.All(example())
	for m, want := range map[api.Medium]string{
		api.MediumText: viewing.Text(example()), api.MediumTerminal: viewing.Terminal(example(), 80),
		api.MediumMarkdown: viewing.Markdown(example()), api.MediumPage: viewing.HTML(example()),
	} {
		if all[m] != want || len(all) != 4 {
			t.Errorf("%s is rendered as\n%s", m, all[m])
		}
	}
}

// TestNarrowTerminal: too few columns are as many as a line needs.
func TestNarrowTerminal(t *testing.T) {
	for _, n := range []int{-1, 0, 1, 19} {
		if got := viewing.Terminal(example(), n); got != viewing.Terminal(example(), 20) {
			t.Errorf("%d columns:\n%s", n, got)
		}
	}
}

// TestWrap: a row ends behind a space where that leaves more than half of it, and
// else where it is full.
func TestWrap(t *testing.T) {
	for text, want := range map[string]string{
		"the last space of many is far": "the last space of \n    many is far\n",
		"an " + strings.Repeat("x", 30): "an xxxxxxxxxxxxxxxxx\n    xxxxxxxxxxxxx\n",
	} {
		got := strings.NewReplacer("\x1b[1m", "", "\x1b[0m", "").Replace(viewing.Terminal(api.View{Title: text}, 20))
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestPlainTextIsReadable: marks are for what needs them, in a view that is not
// bound as well.
func TestPlainTextIsReadable(t *testing.T) {
	if got, want := viewing.Text(api.View{Title: "Pay a supplier", Notes: []string{"⟨Soon⟩"}}), "Pay a supplier\n! ⟨U+27E8⟩Soon⟩\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func FuzzRender(f *testing.F) {
	for i, s := range corpus {
		f.Add("Pay", s, corpus[len(corpus)-1-i], s)
	}
	f.Fuzz(func(t *testing.T, title, label, text, note string) {
		v := api.View{Title: title, Fields: []api.ViewField{{Label: label, Text: text}, {Label: "Amount", Text: "12"}, {Label: text, Text: label}}, Notes: []string{note}}
		if err := check(v); err != nil {
			t.Fatal(err)
		}
	})
}
