package gateway

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mtibben/confusables"
)

// Visible writes a string so that what is seen determines what it is: each
// character that a reader could not see, or could take for another one, becomes
// ⟨U+XXXX⟩. That covers controls, format and bidi characters, white space other
// than single inner spaces, combining marks, non-ASCII digits and punctuation,
// the marks this notation and views use themselves (⟨ ⟩ …), and letters that
// imitate another script (compare Unicode TR39, mixed-script and whole-script
// confusables).
func Visible(s string) string { return visible(s, false) }

func visible(s string, comma bool) string {
	if s == "" {
		return "⟨empty⟩"
	}
	foreign := imitates(s)
	var b strings.Builder
	prev := ' ' // so that a leading space counts as a run
	for i, r := range s {
		_, size := utf8.DecodeRuneInString(s[i:])
		last := i+size == len(s)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, "⟨0x%02X⟩", s[i])
		case r == ' ' && prev != ' ' && !last, r == ',' && !comma, r != ' ' && r != ',' && plain(r, foreign):
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, "⟨U+%04X⟩", r)
		}
		prev = r
	}
	return b.String()
}

// plain reports whether a character is seen for what it is.
func plain(r rune, foreign bool) bool {
	switch {
	case r > ' ' && r < unicode.MaxASCII:
		return true
	case r < 0x80:
		return false
	case latin(r):
		return true
	case unicode.Is(unicode.Sc, r):
		return true
	}
	// Four fillers of Hangul count as letters, and nothing of them is seen.
	return !foreign && unicode.IsLetter(r) && !unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r)
}

// latin holds the letters of Latin-1 and Latin Extended-A that are not drawn
// like an ASCII letter.
func latin(r rune) bool {
	return r >= 0xC0 && r <= 0x17E && r != 0xD7 && r != 0xF7 && r != 0x131 && r != 0x138 && r != 0x149
}

// imitates reports whether the letters outside Latin could be mistaken: they
// stand beside Latin letters, come from several scripts, or look like an ASCII
// word as a whole.
func imitates(s string) bool {
	var ascii, other bool
	script := ""
	for _, r := range s {
		switch {
		case r < 0x80:
			ascii = ascii || unicode.IsLetter(r)
		case latin(r):
			ascii = true
		case unicode.IsLetter(r):
			other = true
			name := scriptOf(r)
			if script == "" {
				script = name
			}
			if name == "" || name != script {
				return true
			}
		}
	}
	if !other {
		return false
	}
	if ascii || script == "Latin" {
		return true
	}
	for _, r := range s {
		if r < 0x80 || !unicode.IsLetter(r) {
			continue // the skeleton of a currency sign may be a letter
		}
		for _, q := range confusables.Skeleton(string(r)) {
			if q >= 0x80 && unicode.IsLetter(q) {
				return false
			}
		}
	}
	return true
}

func scriptOf(r rune) string {
	for name, table := range unicode.Scripts {
		if name != "Common" && name != "Inherited" && unicode.Is(table, r) {
			return name
		}
	}
	return ""
}

// text returns the display text of a JSON value: a string without quotes, a
// number or boolean as it is, the elements of a list joined with commas.
func text(v json.RawMessage, bound bool) string {
	show := func(s string, comma bool) string {
		if bound {
			return visible(s, comma)
		}
		return s
	}
	var s string
	if json.Unmarshal(v, &s) == nil {
		return show(s, false)
	}
	var list []string
	if json.Unmarshal(v, &list) == nil && len(v) > 0 && v[0] == '[' {
		if len(list) == 0 && bound {
			return "⟨empty list⟩"
		}
		parts := make([]string, len(list))
		for i, e := range list {
			parts[i] = show(e, true)
		}
		return strings.Join(parts, ", ")
	}
	return show(string(v), false)
}
