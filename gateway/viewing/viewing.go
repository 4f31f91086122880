// Package viewing writes a view for the media in which approvers read it: plain
// text, a terminal, Markdown and HTML.
//
// A rendering has one line for the title, one "Label: text" for each field, and
// one "! note" for each note. Whatever a label or a text holds, it adds no line,
// hides none and changes the look of none: characters that a medium would act on
// are escaped by its rules, and characters that act in all of them (controls,
// line ends, format and bidi characters, combining marks, blanks other than
// single inner spaces, what is not assigned) are written ⟨U+XXXX⟩, as in
// [countersign/gateway/api.ViewField]; a byte that is no UTF-8 is ⟨0xXX⟩, an empty
// text ⟨empty⟩.
//
// So what a person reads determines the text. In a view that is not bound, ⟨
// itself is ⟨U+27E8⟩. A bound view (one with a digest) uses the notation already,
// and its marks stay as they are.
//
// Not covered: letters that look like others, which are the business of who makes
// the view; and what a program does to text after rendering, as a chat service
// that turns "@name" into a mention.
package viewing

import (
	"fmt"
	"html/template"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"

	"countersign/gateway/api"
)

// All renders a view for every medium, a terminal of 80 columns among them.
func All(v api.View) map[api.Medium]string {
	return map[api.Medium]string{
		api.MediumText: Text(v), api.MediumTerminal: Terminal(v, 80), api.MediumMarkdown: Markdown(v), api.MediumPage: HTML(v),
	}
}

// Text renders a view as lines of plain text, each ended by a line feed.
func Text(v api.View) string {
	title, lines := prepare(v)
	var b strings.Builder
	b.WriteString(title + "\n")
	for _, l := range lines {
		b.WriteString(l.head + " " + l.text + "\n")
	}
	return b.String()
}

const (
	bold, regular = "\x1b[1m", "\x1b[0m"
	indent        = "    "
	// minWidth leaves room for the indent and a wide character.
	minWidth = 20
)

// Terminal renders a view for a terminal of so many columns, 20 at least. Title
// and labels are bold (ECMA-48 SGR 1). A line that does not fit goes on in lines
// indented by four columns; no other line begins with a space.
func Terminal(v api.View, columns int) string {
	columns = max(columns, minWidth)
	title, lines := prepare(v)
	var b strings.Builder
	wrap(&b, title, "", columns)
	for _, l := range lines {
		wrap(&b, l.head, " "+l.text, columns)
	}
	return b.String()
}

// wrap writes a bold head and a text behind it as rows, broken behind the last
// space of a row if there is one in its second half.
func wrap(b *strings.Builder, head, text string, columns int) {
	rest, boldBytes, room := head+text, len(head), columns
	for {
		end, used, space := 0, 0, 0
		for i, r := range rest {
			w := cells(r)
			if used+w > room {
				break
			}
			used, end = used+w, i+utf8.RuneLen(r)
			if r == ' ' && used > room/2 {
				space = end
			}
		}
		if end < len(rest) && space > 0 {
			end = space
		}
		row := rest[:end]
		if n := min(boldBytes, len(row)); n > 0 {
			b.WriteString(bold + row[:n] + regular)
			row, boldBytes = row[n:], boldBytes-n
		}
		b.WriteString(row + "\n")
		if rest = rest[end:]; rest == "" {
			return
		}
		b.WriteString(indent)
		room = columns - len(indent)
	}
}

func cells(r rune) int {
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// Markdown renders a view as CommonMark. Every ASCII punctuation character of a
// label or a text has a backslash before it (CommonMark 0.31.2, section 2.4), so
// the usual extensions do not see it either.
func Markdown(v api.View) string {
	title, lines := prepare(v)
	var b strings.Builder
	b.WriteString("**" + escaped(title) + "**\n\n")
	for _, l := range lines {
		if l.note {
			b.WriteString("\n> " + escaped(l.head+" "+l.text) + "\n")
			continue
		}
		b.WriteString("- **" + escaped(l.head) + "** " + escaped(l.text) + "\n")
	}
	return b.String()
}

func escaped(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r < utf8.RuneSelf && (unicode.IsPunct(r) || unicode.IsSymbol(r)) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// page isolates each text, so that right-to-left letters reorder nothing around
// them, and lays it out from the left as other media do: a first letter that chose
// the direction would make two texts look alike.
var page = template.Must(template.New("view").Parse(`<section class="countersign-view">
<h1>{{.Title}}</h1>
{{range .Lines}}<p><b>{{.Head}}</b> <bdi dir="ltr">{{.Text}}</bdi></p>
{{end}}</section>
`))

// HTML renders a view as a fragment of HTML without scripts, styles, links or
// references to anything outside.
func HTML(v api.View) string {
	type row struct{ Head, Text string }
	title, lines := prepare(v)
	data := struct {
		Title string
		Lines []row
	}{Title: title}
	for _, l := range lines {
		data.Lines = append(data.Lines, row{l.head, l.text})
	}
	var b strings.Builder
	if err := page.Execute(&b, data); err != nil {
		panic("viewing: " + err.Error()) // strings into a string
	}
	return b.String()
}

// A line is a head ("Label:" or "!") and a text, both safe in a line of text.
type line struct {
	head, text string
	note       bool
}

func prepare(v api.View) (title string, lines []line) {
	bound := v.Digest != ""
	for _, f := range v.Fields {
		// A colon ends the label, and "!" begins a note.
		label := strings.ReplaceAll(marked(f.Label, bound), ":", mark(':'))
		if strings.HasPrefix(label, "!") {
			label = mark('!') + label[1:]
		}
		lines = append(lines, line{head: label + ":", text: marked(f.Text, bound)})
	}
	for _, n := range v.Notes {
		lines = append(lines, line{head: "!", text: marked(n, bound), note: true})
	}
	return marked(v.Title, bound), lines
}

func mark(r rune) string { return fmt.Sprintf("⟨U+%04X⟩", r) }

// marked writes the characters that act in every medium as ⟨U+XXXX⟩.
func marked(s string, bound bool) string {
	if s == "" {
		return "⟨empty⟩"
	}
	var b strings.Builder
	prev := ' ' // so that a leading space counts as a run
	for i, r := range s {
		_, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, "⟨0x%02X⟩", s[i])
		case r == ' ' && (prev == ' ' || i+1 == len(s)), r == '⟨' && !bound, acts(r):
			b.WriteString(mark(r))
		default:
			b.WriteRune(r)
		}
		prev = r
	}
	return b.String()
}

// acts reports whether a character does more than to be seen in its own place.
func acts(r rune) bool {
	return !unicode.IsPrint(r) || unicode.IsMark(r) || r == '\u2800' || // Braille blank
		unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}
