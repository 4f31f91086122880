package referee

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/bidi"
	"golang.org/x/text/unicode/norm"

	"countersign/gateway/api"
)

// shows reports whether a view shows a value for what it is: some line with this
// path reads as the value, in characters that a person sees and does not mistake
// or in the notation ⟨U+XXXX⟩ of api.ViewField, or is the mask that stands for it,
// and no line with this path reads otherwise.
//
// This is written from the contract, not from the gateway's renderer: it decodes
// what is shown and compares, where the renderer encodes.
func shows(v api.View, path string, value json.RawMessage, mask string) bool {
	shown := false
	for _, f := range v.Fields {
		if f.Path != path {
			continue
		}
		if !reads(f.Text, value) && (mask == "" || f.Text != mask) {
			return false
		}
		shown = true
	}
	return shown
}

func reads(text string, value json.RawMessage) bool {
	if !inOrder(text) {
		return false
	}
	var s string
	if len(value) > 0 && value[0] == '"' && json.Unmarshal(value, &s) == nil {
		got, ok := decode(text)
		return ok && got == s
	}
	var list []string
	if len(value) > 0 && value[0] == '[' && json.Unmarshal(value, &list) == nil {
		if len(list) == 0 {
			return text == "⟨empty list⟩"
		}
		parts := strings.Split(text, ", ")
		if len(parts) != len(list) {
			return false
		}
		for i, p := range parts {
			if got, ok := decode(p); !ok || got != list[i] {
				return false
			}
		}
		return true
	}
	return text == string(value)
}

// inOrder reports whether characters stand on the screen as they are stored: no
// digit follows a right-to-left letter without a letter between them that is read
// from the left, such as the U of a mark (Unicode UAX 9, rules W2 and W7).
func inOrder(text string) bool {
	fromRight := false
	for _, r := range text {
		switch p, _ := bidi.LookupRune(r); p.Class() {
		case bidi.R, bidi.AL:
			fromRight = true
		case bidi.L:
			fromRight = false
		case bidi.EN, bidi.AN:
			if fromRight {
				return false
			}
		}
	}
	return true
}

// decode reads displayed text back. It fails on text that holds a character which
// a reader could not see or could mistake.
func decode(text string) (string, bool) {
	if text == "⟨empty⟩" {
		return "", true
	}
	var b, raw strings.Builder
	for text != "" {
		before, rest, marked := strings.Cut(text, "⟨")
		b.WriteString(before)
		raw.WriteString(before)
		if !marked {
			break
		}
		hex, after, ok := strings.Cut(rest, "⟩")
		if !ok || !strings.HasPrefix(hex, "U+") {
			return "", false
		}
		n, err := strconv.ParseUint(hex[2:], 16, 32)
		if err != nil || !utf8.ValidRune(rune(n)) {
			return "", false
		}
		b.WriteRune(rune(n))
		raw.WriteByte('.')
		text = after
	}
	return b.String(), legible(raw.String())
}

// lookalikes are the Cyrillic and Greek letters that are drawn as Latin ones
// (Unicode TR39, confusables). Other scripts have a few more.
const lookalikes = "аеорсухіјѕАВЕКМНОРСТХІЈЅ" + "οΑΒΕΖΗΙΚΜΝΟΡΤΥΧ"

// legible reports whether every character is seen for what it is: printable
// ASCII with single inner spaces, Latin letters with marks, currency signs, or
// letters of one other script that stand alone and do not all pass for Latin; and
// no form of a character that is another one by its meaning (NFKC).
func legible(s string) bool {
	if strings.Contains(s, "  ") || strings.TrimSpace(s) != s || !norm.NFKC.IsNormalString(s) {
		return false
	}
	latin, script, passes := false, "", true
	for _, r := range s {
		switch {
		case r < 0x20 || r == 0x7F:
			return false
		case r < 0x80:
			latin = latin || unicode.IsLetter(r)
		case unicode.Is(unicode.Sc, r):
		case unicode.Is(unicode.Latin, r) && r <= 0x17E && r != 0x131 && r != 0x138 && r != 0x149:
			latin = true
		case unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r):
			return false // fillers of Hangul, which are letters
		case r >= 0x1100 && r <= 0x11FF, r >= 0xA960 && r <= 0xA97F, r >= 0xD7B0 && r <= 0xD7FF:
			return false // jamo, which join in a syllable
		case unicode.IsLetter(r):
			name := ""
			for n, table := range unicode.Scripts {
				if n != "Common" && n != "Inherited" && unicode.Is(table, r) {
					name = n
				}
			}
			if name == "" || name == "Latin" || script != "" && script != name {
				return false
			}
			script = name
			passes = passes && strings.ContainsRune(lookalikes, r)
		default:
			return false
		}
	}
	return script == "" || !latin && !passes
}
