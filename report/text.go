package report

import (
	"fmt"
	"html/template"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"

	"countersign/results"
	"countersign/results/export"
)

// longest is how many characters of a text are shown.
const longest = 2000

// visible makes a text of the run harmless and bounded: what acts on the direction of
// writing or cannot be seen is spelled out.
func visible(s string) string { return shortened(export.Visible(s)) }

func allVisible(list []string) []string {
	var out []string
	for _, s := range list {
		out = append(out, visible(s))
	}
	return out
}

// told is visible for texts of stories, which have such characters spelled out
// already and may quote how that is written.
func told(s string) string { return shortened(spelled(s, "")) }

// spelled spells out what cannot be seen, but for some characters.
func spelled(s, except string) string {
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(s, "\uFFFD") {
		if results.Unseen(r) && !strings.ContainsRune(except, r) {
			fmt.Fprintf(&b, "⟨U+%04X⟩", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func shortened(s string) string {
	if len(s) <= longest {
		return s
	}
	r := []rune(s)
	if len(r) <= longest {
		return s
	}
	return fmt.Sprintf("%s… and %d more characters", string(r[:longest]), len(r)-longest)
}

// anchors makes ids that are unique on the page and need no escaping.
type anchors map[string]bool

func (a anchors) id(parts ...string) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("._-", r):
			return r
		}
		return '-'
	}, strings.Join(parts, "."))
	if len(clean) > 120 {
		clean = clean[:120]
	}
	if clean == "" || clean[0] < 'A' { // an id starts with a letter
		clean = "x" + clean
	}
	id := clean
	for n := 2; a[id]; n++ {
		id = clean + "-" + strconv.Itoa(n)
	}
	a[id] = true
	return id
}

// web returns the address if a reference is one.
func web(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return ""
	}
	return u.String()
}

// thousands groups the digits of a count.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func plural(n int, noun string) string {
	switch stem, y := strings.CutSuffix(noun, "y"); {
	case n == 1:
	case y:
		noun = stem + "ies"
	default:
		noun += "s"
	}
	return thousands(n) + " " + noun
}

// methods renders Markdown as part of a page: without raw HTML, pictures and
// relative links, with ids of the page and headings below the page's own.
func methods(source []byte, ids anchors) (template.HTML, error) {
	source = []byte(spelled(string(source), "\t\r\n"))
	md := goldmark.New(goldmark.WithExtensions(extension.Table))
	doc := md.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(markdownIDs{ids}))))
	least := 6
	var headings []*ast.Heading
	var drop []ast.Node
	err := ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			headings = append(headings, n)
			least = min(least, n.Level)
		case *extast.TableCell:
			if n.Parent().Kind() == extast.KindTableHeader {
				n.SetAttributeString("scope", []byte("col"))
			}
		case *ast.Image:
			drop = append(drop, n)
		case *ast.Link:
			if web(string(n.Destination)) == "" {
				drop = append(drop, n)
			}
		case *ast.AutoLink:
			if web(string(n.URL(source))) == "" {
				drop = append(drop, n)
			}
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return "", err
	}
	for _, h := range headings {
		h.Level = min(6, h.Level-least+3)
	}
	for _, n := range drop { // what it says stays
		parent := n.Parent()
		if auto, ok := n.(*ast.AutoLink); ok {
			parent.InsertBefore(parent, n, ast.NewString(auto.Label(source)))
		}
		for c := n.FirstChild(); c != nil; {
			next := c.NextSibling()
			parent.InsertBefore(parent, n, c)
			c = next
		}
		parent.RemoveChild(parent, n)
	}
	var b strings.Builder
	if err := md.Renderer().Render(&b, source, doc); err != nil {
		return "", err
	}
	// The renderer writes no raw HTML unless told to.
	return template.HTML(b.String()), nil
}

// markdownIDs gives headings ids that nothing else of the page has.
type markdownIDs struct{ anchors }

func (m markdownIDs) Generate(value []byte, _ ast.NodeKind) []byte {
	return []byte(m.id("methods", strings.ToLower(string(value))))
}

func (m markdownIDs) Put(value []byte) { m.anchors[string(value)] = true }

// capital writes the first letter large.
func capital(s string) string {
	r, size := utf8.DecodeRuneInString(s)
	if size == 0 {
		return s
	}
	return string(unicode.ToUpper(r)) + s[size:]
}
