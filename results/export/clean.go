package export

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/olekukonko/tablewriter/pkg/twwidth"

	"countersign/results"
)

// clean writes ⟨U+XXXX⟩ for every character that could act on a terminal or that
// cannot be seen, a line break among them, and ⟨ itself so too. The result determines
// the text, but for bytes that are not UTF-8, which all become ⟨U+FFFD⟩.
func clean(s string) string {
	var b strings.Builder
	for i, r := range s {
		broken := r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD")
		if broken || r == '⟨' || results.Unseen(r) {
			fmt.Fprintf(&b, "⟨U+%04X⟩", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// markdownSyntax are the characters that CommonMark lets one escape and that do
// something inside a line or a table cell.
const markdownSyntax = "\\`*_[]<>|#~&!$"

// escapeMarkdown makes text inert.
func escapeMarkdown(s string) string {
	var b strings.Builder
	for _, r := range clean(s) {
		if strings.ContainsRune(markdownSyntax, r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// latexText is how LaTeX is told a character. What is no letter of Latin-1 or Latin
// Extended-A, for which every set of T1 fonts has a glyph, and not here, is written
// ⟨U+XXXX⟩.
var latexText = map[rune]string{
	'\\': `\textbackslash{}`, '{': `\{`, '}': `\}`, '$': `\$`, '&': `\&`, '#': `\#`, '%': `\%`, '_': `\_`, '^': `\textasciicircum{}`,
	'~': `\textasciitilde{}`, '<': `\textless{}`, '>': `\textgreater{}`, '|': `\textbar{}`, '"': `\textquotedbl{}`, '`': `\textasciigrave{}`,
	'\'': `\textquotesingle{}`, '[': `{[}`, ']': `{]}`, '*': `{*}`, '!': `{!}`, '?': `{?}`, '⟨': `$\langle$`, '⟩': `$\rangle$`,
	'–': `\textendash{}`, '—': `\textemdash{}`, '…': `\ldots{}`, '→': `$\rightarrow$`,
}

// escapeLaTeX makes text inert. Brackets and stars would be read as arguments at the start
// of a row; of two hyphens or commas a font would make one sign.
func escapeLaTeX(s string) string {
	var b strings.Builder
	prev := rune(0)
	for _, r := range clean(s) {
		text, ok := latexText[r]
		switch {
		case ok:
			b.WriteString(text)
		case r >= utf8.RuneSelf && !(r >= 'À' && r <= 'ž' && unicode.IsLetter(r)):
			fmt.Fprintf(&b, `$\langle$U+%04X$\rangle$`, r)
		case r == prev && (r == '-' || r == ','):
			b.WriteString("{}" + string(r))
		default:
			b.WriteRune(r)
		}
		prev = r
	}
	return b.String()
}

// fold continues each line after width columns on the next, without losing
// anything.
func fold(s string, width int) string {
	if width <= 0 {
		return s
	}
	var lines []string
	for line := range strings.SplitSeq(s, "\n") {
		at, joint := 0, 0 // the width so far, and the byte after the last place to break at
		for i := 0; i < len(line); {
			r, size := utf8.DecodeRuneInString(line[i:])
			w := twwidth.Width(string(r))
			if at+w > width && i > 0 && r != ' ' { // a blank at the end is not seen
				if joint == 0 {
					joint = i
				}
				lines = append(lines, line[:joint])
				line = line[joint:]
				at, joint, i = 0, 0, 0
				continue
			}
			at += w
			i += size
			if strings.ContainsRune(" _/,;", r) {
				joint = i
			}
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// wrap breaks text between words, and folds a word that is too long.
func wrap(s string, width int) string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(s) {
		switch {
		case line == "":
			line = word
		case twwidth.Width(line)+1+twwidth.Width(word) <= width:
			line += " " + word
		default:
			lines = append(lines, line)
			line = "  " + word
		}
	}
	return fold(strings.Join(append(lines, line), "\n"), width)
}
