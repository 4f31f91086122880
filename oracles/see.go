package oracles

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	raw "github.com/yuin/goldmark/renderer/html"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"countersign/gateway/api"
)

// See returns a view as a person reads it off a medium, from the rendering of it:
//
//   - text is read line by line;
//   - a terminal obeys control sequences, and rows that begin with four spaces
//     carry on the one above;
//   - Markdown is CommonMark with the extensions of GitHub, in which HTML stands
//     for itself;
//   - of a page, comments, scripts, styles, and what is hidden by an attribute or
//     by its style are not seen.
//
// The first line is the title. A line that begins with the label of a field and a
// colon is that field; one that begins with "! " is a note; any other carries on
// the field above it. What is not found is not in the view that is returned.
func See(m api.Medium, rendering string, v api.View) (api.View, error) {
	var lines []string
	switch m {
	case api.MediumText:
		lines = strings.FieldsFunc(strings.ToValidUTF8(rendering, "\uFFFD"), isLineEnd)
	case api.MediumTerminal:
		for _, row := range strings.Split(terminal(strings.ToValidUTF8(rendering, "\uFFFD")), "\n") {
			if rest, ok := strings.CutPrefix(row, "    "); ok && len(lines) > 0 {
				lines[len(lines)-1] += rest
			} else if strings.TrimSpace(row) != "" {
				lines = append(lines, row)
			}
		}
	case api.MediumMarkdown:
		var page bytes.Buffer
		if err := markdown.Convert([]byte(rendering), &page); err != nil {
			return api.View{}, fmt.Errorf("reading Markdown: %w", err)
		}
		return See(api.MediumPage, page.String(), v)
	case api.MediumPage:
		root, err := html.Parse(strings.NewReader(rendering))
		if err != nil {
			return api.View{}, fmt.Errorf("reading HTML: %w", err)
		}
		var b strings.Builder
		write(&b, root)
		for line := range strings.SplitSeq(b.String(), "\n") {
			if line = strings.Trim(line, " "); line != "" {
				lines = append(lines, line)
			}
		}
	default:
		return api.View{}, fmt.Errorf("reading a view: %q is no medium", m)
	}

	seen := v
	seen.Title, seen.Fields, seen.Notes, seen.Rendered = "", nil, nil, nil
	found := map[string]int{} // how often a label was met
	for i, line := range lines {
		note, isNote := strings.CutPrefix(line, "! ")
		f, isField := fieldOf(v, line, found)
		switch {
		case i == 0:
			seen.Title = line
		case isField:
			seen.Fields = append(seen.Fields, f)
		case isNote:
			seen.Notes = append(seen.Notes, note)
		case len(seen.Fields) == 0:
			seen.Title += "\n" + line
		default:
			seen.Fields[len(seen.Fields)-1].Text += "\n" + line
		}
	}
	return seen, nil
}

// markdown renders as services do that allow HTML in comments.
var markdown = goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithRendererOptions(raw.WithUnsafe()))

func isLineEnd(r rune) bool {
	return isParagraphSeparator(r) || r == '\r' || r == '\v' || r == '\f' || r == '\u2028'
}

// fieldOf returns the field that a line is labelled as. Of several fields with one
// label, the first is the one that comes first.
func fieldOf(v api.View, line string, found map[string]int) (api.ViewField, bool) {
	var out api.ViewField
	longest, of := -1, 0
	for _, f := range v.Fields {
		text, ok := strings.CutPrefix(line, f.Label+":")
		if !ok || text != "" && text[0] != ' ' {
			continue
		}
		if len(f.Label) > longest {
			longest, of = len(f.Label), 0
		} else if f.Label != out.Label {
			continue
		}
		if of <= found[f.Label] {
			out = api.ViewField{Path: f.Path, Label: f.Label, Text: strings.TrimPrefix(text, " ")}
		}
		of++
	}
	if longest < 0 {
		return out, false
	}
	found[out.Label]++
	return out, true
}

// unseen are elements that show nothing of their content.
var unseen = []atom.Atom{atom.Head, atom.Script, atom.Style, atom.Template, atom.Noscript, atom.Iframe, atom.Object,
	atom.Audio, atom.Video, atom.Canvas, atom.Datalist, atom.Select, atom.Textarea, atom.Svg, atom.Math}

// inline are elements that begin no line.
var inline = []atom.Atom{atom.A, atom.Abbr, atom.B, atom.Bdi, atom.Bdo, atom.Cite, atom.Code, atom.Del, atom.Dfn, atom.Em, atom.Font, atom.I,
	atom.Img, atom.Input, atom.Ins, atom.Kbd, atom.Label, atom.Mark, atom.Q, atom.S, atom.Samp, atom.Small, atom.Span, atom.Strike,
	atom.Strong, atom.Sub, atom.Sup, atom.Time, atom.Tt, atom.U, atom.Var, atom.Wbr}

// write appends what is seen of a node, its white space as in HTML: a run of it is
// one space, and lines come from elements.
func write(b *strings.Builder, n *html.Node) {
	switch {
	case n.Type == html.TextNode:
		for _, r := range n.Data {
			switch {
			case !strings.ContainsRune(" \t\n\r\f", r):
				b.WriteRune(r)
			case !strings.HasSuffix(b.String(), " ") && !strings.HasSuffix(b.String(), "\n"):
				b.WriteByte(' ')
			}
		}
		return
	case n.Type == html.ElementNode && (slices.Contains(unseen, n.DataAtom) || hidden(n)):
		return
	case n.Type != html.ElementNode && n.Type != html.DocumentNode:
		return
	}
	block := n.Type == html.ElementNode && !slices.Contains(inline, n.DataAtom)
	if block {
		b.WriteByte('\n')
	}
	closed := n.DataAtom == atom.Details && !slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "open" })
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if !closed || c.DataAtom == atom.Summary {
			write(b, c)
		}
	}
	if block {
		b.WriteByte('\n')
	}
}

func hidden(n *html.Node) bool {
	for _, a := range n.Attr {
		style := strings.Join(strings.Fields(strings.ToLower(a.Val)), "")
		switch {
		case a.Key == "hidden":
			return true
		case a.Key == "style" && (strings.Contains(style, "display:none") || strings.Contains(style, "visibility:hidden") ||
			strings.Contains(style, "font-size:0") || strings.Contains(style, "opacity:0")):
			return true
		}
	}
	return false
}
