package referee

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"countersign/gateway"
	"countersign/gateway/api"
)

func quote(s string) json.RawMessage {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return b
}

// TestMasks: a secret is shown by the mask that stands for it, and by no other.
func TestMasks(t *testing.T) {
	for _, tt := range []struct {
		text, mask string
		want       bool
	}{
		{"⟨secret 1-2-3⟩", "⟨secret 1-2-3⟩", true},
		{"x", "⟨secret 1-2-3⟩", true},
		{"⟨secret 1-2-4⟩", "⟨secret 1-2-3⟩", false},
		{"⟨secret 1-2-3⟩", "", false},
		{"", "", false},
		{"•••• x", "⟨secret 1-2-3⟩", false},
	} {
		v := api.View{Fields: []api.ViewField{{Path: "/key", Text: tt.text}}}
		if got := shows(v, "/key", quote("x"), tt.mask); got != tt.want {
			t.Errorf("%q with the mask %q: %t", tt.text, tt.mask, got)
		}
	}
}

func TestReads(t *testing.T) {
	for _, tt := range []struct {
		name, text, value string
		want              bool
	}{
		{"plain", "Rent for May", `"Rent for May"`, true},
		{"another text", "Rent for May", `"Rent for June"`, false},
		{"number", "1200", `1200`, true},
		{"number written otherwise", "1,200", `1200`, false},
		{"number in another spelling of JSON", "1200.0", `1200`, false},
		{"boolean", "true", `true`, true},
		{"digits of a string", "1200", `"1200"`, true},
		{"accents", "Müller café ångström", `"Müller café ångström"`, true},
		{"currency signs", "€ 5 and £ 6", `"€ 5 and £ 6"`, true},
		{"one other script alone", "Москва", `"Москва"`, true},
		{"empty", "⟨empty⟩", `""`, true},
		{"an empty line shows nothing", "", `"x"`, false},
		{"list", "a@x.example, b@x.example", `["a@x.example","b@x.example"]`, true},
		{"list in another order", "b, a", `["a","b"]`, false},
		{"list cut short", "a, b and 3 more", `["a","b","c","d","e"]`, false},
		{"empty list", "⟨empty list⟩", `[]`, true},
		{"empty list not said", "", `[]`, false},
		{"one element that looks like two", "a, b", `["a, b"]`, false},
		{"the same with its comma marked", "a⟨U+002C⟩ b", `["a, b"]`, true},
		{"marked character", "a⟨U+200B⟩b", `"a\u200bb"`, true},
		{"beyond the basic plane", "x⟨U+E0100⟩", `"x\udb40\udd00"`, true},
		{"the mark itself", "⟨U+27E8⟩U+200B⟩", `"⟨U+200B⟩"`, false}, // ⟩ is no letter and not marked
		{"the mark itself, marked whole", "⟨U+27E8⟩U+200B⟨U+27E9⟩", `"⟨U+200B⟩"`, true},
		{"a value that imitates the notation", "a⟨U+200B⟩b", `"a⟨U+200B⟩b"`, false},

		{"cut", "Rent for May and …", `"Rent for May and for the Bahamas"`, false},
		{"ellipsis behind the whole", "Rent…", `"Rent"`, false},
		{"zero width, raw", "pay\u200bpal", `"pay\u200bpal"`, false},
		{"right-to-left override, raw", "\u202egnp", `"\u202egnp"`, false},
		{"variation selector, raw", "a\ufe0f", `"a\ufe0f"`, false},
		{"filler, raw", "\u3164", `"\u3164"`, false},
		{"filler beside letters of its script, raw", "서울\u115f", `"서울\u115f"`, false},
		{"tag character, raw", "a\U000E0061", `"a\udb40\udc61"`, false},
		{"combining mark, raw", "e\u0301", `"e\u0301"`, false},
		{"control, raw", "a\tb", `"a\tb"`, false},
		{"line break, raw", "a\nb", `"a\nb"`, false},
		{"escape sequence, raw", "\x1b[2Ka", `"\u001b[2Ka"`, false},
		{"delete, raw", "a\x7f", `"a\u007f"`, false},
		{"run of spaces", "a  b", `"a  b"`, false},
		{"space at the end", "a ", `"a "`, false},
		{"no-break space", "a\u00a0b", `"a\u00a0b"`, false},
		{"Cyrillic among Latin", "p\u0430ypal", `"p\u0430ypal"`, false},
		{"Cyrillic that passes for Latin as a whole", "\u0441\u043e\u0441\u043e", `"\u0441\u043e\u0441\u043e"`, false},
		{"the same beside letters that do not", "\u0441\u043e\u0432\u0435\u0442", `"\u0441\u043e\u0432\u0435\u0442"`, true},
		{"the same, marked", "⟨U+0441⟩⟨U+043E⟩", `"\u0441\u043e"`, true},
		{"Cyrillic that looks like nothing else, among Latin", "a\u0436", `"a\u0436"`, false},
		{"two other scripts", "\u0430\u03b2", `"\u0430\u03b2"`, false},
		{"Latin that imitates", "\u0131", `"\u0131"`, false},
		{"fullwidth Latin", "\uff41", `"\uff41"`, false},
		{"one-dot leader", "a\u2024b", `"a\u2024b"`, false},
		{"digits of another script", "\u0661\u0662", `"\u0661\u0662"`, false},
		{"fullwidth currency", "\uff045", `"\uff045"`, false},
		{"compatibility ideograph", "\uf90a", `"\uf90a"`, false},
		{"conjoining jamo", "\u1100\u1161", `"\u1100\u1161"`, false},
		{"ligature", "Di\u0133k", `"Di\u0133k"`, false},
		{"right-to-left letters", "\u05d0\u05d1", `"\u05d0\u05d1"`, true},
		{"a number before them", "12 \u05d0\u05d1", `"12 \u05d0\u05d1"`, true},
		{"a number behind them, which is seen before them", "\u05d0\u05d1 12", `"\u05d0\u05d1 12"`, false},
		{"the same, held in its place", "\u05d0\u05d1⟨U+0020⟩12", `"\u05d0\u05d1 12"`, true},
		{"a number in the next element", "\u05d0\u05d1, 12", `["\u05d0\u05d1","12"]`, false},
		{"Arabic, a number behind it", "\u0639 1", `"\u0639 1"`, false},
		{"not UTF-8", "a\xff", `"a\ufffd"`, false},
		{"replacement character, raw", "a\ufffd", `"a\ufffd"`, false},
		{"mark without an end", "a⟨U+200B", `"a\u200b"`, false},
		{"mark without a number", "a⟨U+⟩", `"a"`, false},
		{"mark that is none", "a⟨0xFF⟩", `"a\ufffd"`, false},
		{"mark of a surrogate", "a⟨U+D800⟩", `"a\ufffd"`, false},
		{"mark beyond Unicode", "a⟨U+110000⟩", `"a\ufffd"`, false},
		{"mark beyond everything", "a⟨U+FFFFFFFFF⟩", `"a\ufffd"`, false},
		{"null is no text", "", `null`, false},
		{"an object is shown as its text", `{"a":1}`, `{"a":1}`, true},
		{"list of other things", "1, 2", `[1,2]`, false},
	} {
		if got := reads(tt.text, json.RawMessage(tt.value)); got != tt.want {
			t.Errorf("%s: %q reads as %s: %t, want %t", tt.name, tt.text, tt.value, got, tt.want)
		}
	}
}

func TestShows(t *testing.T) {
	view := api.View{Fields: []api.ViewField{{Path: "/a", Text: "x"}, {Path: "/a", Text: "x"}, {Path: "/b", Text: "x"}, {Path: "/b", Text: "y"}}}
	for path, want := range map[string]bool{
		"/a": true,  // twice the same
		"/b": false, // one of two lines reads otherwise
		"/c": false, // not there
	} {
		if got := shows(view, path, quote("x"), ""); got != want {
			t.Errorf("%s is shown: %t, want %t", path, got, want)
		}
	}
}

// TestReadsWhatTheGatewayWrites: the reference renderer encodes and the referee
// decodes; the two were written apart, from the contract alone.
func TestReadsWhatTheGatewayWrites(t *testing.T) {
	awkward := rapid.SampledFrom([]rune{' ', ' ', ',', '⟨', '⟩', '…', 0, 0x1b, 0x7f, 0x85, 0xa0, 0x131, 0x149, 0x17f, 0x200b, 0x202e, 0x301, 0x430, 0x441, 0x412, 0x3bf, 0x3b2, 0x5d0, 0x661,
		0x1100, 0x1161, 0x133, 0xf90a, 0xff04, 0x5d1, 0x639, '1', '5', 0x2024, 0xfe0f, 0xff41, 0xfffd, 0xe0100, 'a', 'A', 'é', '€', '.', '漢', 0x4e00, 0xac00})
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.StringOf(awkward)).Draw(t, "value")
		if text := gateway.Visible(s); !reads(text, quote(s)) {
			t.Fatalf("%q is written as %q, which does not read as that", s, text)
		}
		other := rapid.OneOf(rapid.String(), rapid.StringOf(awkward)).Draw(t, "other")
		if other != s && reads(gateway.Visible(other), quote(s)) {
			t.Fatalf("%q reads as %q", gateway.Visible(other), s)
		}
	})
}

// FuzzDecode: any text is read or refused. What is read holds no character that is
// not seen, and displays one value only.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{"", "Rent for May", "⟨empty⟩", "a⟨U+200B⟩b", "⟨U+27E8⟩U+200B⟨U+27E9⟩", "x⟨U+E0100⟩", "Москва", "a⟨U+D800⟩", "⟨", "⟨U+", "a\u202eb", "…", "⟨empty list⟩"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := decode(text)
		if !ok {
			return
		}
		if !utf8.ValidString(got) {
			t.Fatalf("%q reads as %q, which is no text", text, got)
		}
		plain, _, marked := strings.Cut(text, "⟨")
		if !marked && got != text {
			t.Fatalf("%q without a mark reads as %q", text, got)
		}
		for _, r := range plain {
			if r < ' ' || r == 0x7f || r == '\u200b' || r == '\u202e' || r == '…' {
				t.Fatalf("%q is taken to show %U", text, r)
			}
		}
		if !reads(text, quote(got)) {
			t.Fatalf("%q reads as %q and does not show it", text, got)
		}
	})
}
