package oracles

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mtibben/confusables"
)

// Appearance returns a form of text that is equal for two texts that look the
// same to a person. It models text put unchanged into a page or a terminal, in a
// typeface that draws confusable characters alike:
//
//   - bidirectional controls (U+202A–202E, U+2066–2069) reorder what follows
//     (Unicode Standard Annex #9, base direction left to right), and the result is
//     read each script in its direction;
//   - control, zero-width, tag and other default-ignorable characters and
//     variation selectors are not seen; neither are terminal control sequences
//     (ECMA-48), what they conceal (SGR 8) or erase, and what a moved cursor, a
//     backspace or a carriage return lets later text overwrite;
//   - a run of white space looks like one space, and none at the ends;
//   - a confusable character looks like its prototype (the skeleton of Unicode
//     Technical Standard #39, data of Unicode 13.0.0), which also makes "0" look
//     like "O", and "1" like "l" and "I";
//   - bytes that are no UTF-8 look like U+FFFD.
//
// It is idempotent. Not modelled: markup (see [See]), glyphs missing from a typeface, line breaks, colour, and texts
// without bidirectional controls whose right-to-left letters and digits fall in
// the same visual order.
func Appearance(text string) string {
	s := visible(text)
	// One pass nearly always does; a prototype's decomposition can itself have a
	// prototype.
	for range 8 {
		next := visible(confusables.Skeleton(s))
		if next == s {
			break
		}
		s = next
	}
	return s
}

// seen is the number of characters of text that a person sees.
func seen(text string) int { return utf8.RuneCountInString(visible(text)) }

// visible returns the characters of text in the order a person reads them.
func visible(text string) string {
	text = terminal(strings.ToValidUTF8(text, "\uFFFD"))
	var lines []string
	// A paragraph separator ends the effect of bidirectional controls (rule X8).
	for line := range strings.FieldsFuncSeq(text, isParagraphSeparator) {
		lines = append(lines, readingOrder(line))
	}
	var b strings.Builder
	space := false
	for _, r := range strings.Join(lines, " ") {
		switch {
		case looksBlank(r):
			space = true
		case isInvisible(r):
		default:
			if space && b.Len() > 0 {
				b.WriteByte(' ')
			}
			space = false
			b.WriteRune(r)
		}
	}
	return b.String()
}

func isParagraphSeparator(r rune) bool {
	return r == '\n' || r == '\u0085' || r == '\u2029' || r >= '\u001C' && r <= '\u001E'
}

// looksBlank also names the characters outside White_Space that are drawn as an
// empty space.
func looksBlank(r rune) bool {
	switch r {
	case '\u2800', '\u3164', '\uFFA0', '\u115F', '\u1160': // Braille blank, Hangul fillers
		return true
	}
	return unicode.IsSpace(r) || unicode.Is(unicode.Zs, r)
}

func isInvisible(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) ||
		r >= 0xE0000 && r <= 0xE0FFF // reserved as default-ignorable
}
