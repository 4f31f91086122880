package oracles

import (
	"strings"
	"testing"

	"golang.org/x/text/unicode/bidi"
	"pgregory.net/rapid"
)

func TestAppearance(t *testing.T) {
	const esc = "\x1b"
	same := []struct{ name, a, b string }{
		{"right-to-left override", "\u202e6543 21ED\u202c", "DE12 3456"},
		{"override inside", "pay \u202eyug dab\u202c now", "pay bad guy now"},
		{"override to the end", "file\u202efdp.exe", "fileexe.pdf"},
		{"brackets are mirrored", "\u202e(c)b", "b(c)"},
		{"nested overrides", "\u202eabc\u202ddef\u202cghi", "ihgdefcba"},
		{"isolate", "a\u2066b\u2069c", "abc"},
		{"isolates in an override", "\u202e\u2066cd\u2069\u2066ab\u2069", "abcd"},
		{"embedding of Latin letters", "\u202babc\u202c", "abc"},
		{"control closed twice", "abc\u202c\u2069", "abc"},
		{"control ends with the line", "\u202ecba\ndef", "abc def"},
		{"Hebrew stays Hebrew", "\u202aשלום\u202c", "שלום"},
		{"Hebrew with a number", "\u202bשלום 12.50 עולם\u202c", "שלום 12.50 עולם"},
		{"override keeps marks on their letters", "\u202ee\u0301b", "be\u0301"},

		{"zero-width space", "Bright\u200bwater", "Brightwater"},
		{"zero-width joiners, word joiner, BOM", "a\u200c\u200d\u2060\ufeffb", "ab"},
		{"soft hyphen", "ab\u00adcd", "abcd"},
		{"combining grapheme joiner", "a\u034fb", "ab"},
		{"variation selector", "a\ufe0f", "a"},
		{"variation selector 17 (U+E0100)", "a\U000e0100b", "ab"},
		{"tag characters", "ok\U000e0069\U000e0067\U000e007f", "ok"},
		{"control characters", "a\x00\x07\u0080b", "ab"},

		{"Cyrillic letters", "\u0440\u0430\u0443\u0440\u0430l", "paypal"},
		{"Greek letters", "\u039d\u0395W", "NEW"},
		{"digit one and letter l", "account l0", "account 1O"},
		{"rn and m", "rnail", "mail"},
		{"precomposed and decomposed", "\u00e9", "e\u0301"},
		{"typographic apostrophe", "it\u2019s", "it's"},

		{"padding", "a" + strings.Repeat(" ", 500) + "b", "a b"},
		{"line breaks and tabs", "a\r\n\t\nb", "a b"},
		{"no-break and em space", "a\u00a0\u2003b", "a b"},
		{"Braille blank and Hangul filler", "a\u2800\u3164b", "a b"},
		{"spaces at the ends", "  a ", "a"},

		{"colour", esc + "[31mred" + esc + "[0m", "red"},
		{"colour by C1 control", "\u009b31mred\u009bm", "red"},
		{"concealed", "pay 10" + esc + "[8m0000" + esc + "[28m EUR", "pay 10 EUR"},
		{"concealed over a line break", esc + "[8ma\nb" + esc + "[mc", "c"},
		{"erased line", "pay 9999" + esc + "[2K\rpay 1", "pay 1"},
		{"erased to the end", "pay 9999" + esc + "[4D" + esc + "[K1", "pay 1"},
		{"erased to the start", "pay 9999" + esc + "[1K ok", "ok"},
		{"cursor to column", "9999" + esc + "[Gpay1", "pay1"},
		{"carriage return", "9999\r1111", "1111"},
		{"backspace", "99\b\b11", "11"},
		{"hyperlink", esc + "]8;;https://evil.example" + esc + "\\bank" + esc + "]8;;\x07", "bank"},
		{"cut off sequence", "ok" + esc + "[31", "ok"},
		{"charset sequence", esc + "(Bok", "ok"},

		{"invalid UTF-8", "a\xff\xfeb", "a\ufffdb"},
	}
	for _, tc := range same {
		if a, b := Appearance(tc.a), Appearance(tc.b); a != b {
			t.Errorf("%s: %+q looks like %+q, and %+q like %+q", tc.name, tc.a, a, tc.b, b)
		}
	}
	differ := []struct{ name, a, b string }{
		{"digits", "100", "1000"},
		{"case of other letters", "Paypal", "paypal"},
		{"space", "ab", "a b"},
		{"accent", "e", "\u00e9"},
		{"markdown", "[bank](https://evil.example)", "bank"},
		{"HTML", "<b>bank</b>", "bank"},
		{"escape as text", `\u202e`, ""},
		{"marked character", "p⟨U+0430⟩ypal", "paypal"},
		{"order of Latin words in an embedding", "\u202bab, cd!\u202c", "ab, cd!"},
		{"left-to-right override of Hebrew", "\u202dשלום\u202c", "שלום"},
		{"full-width digits", "\uff11", "1"},
	}
	for _, tc := range differ {
		if a, b := Appearance(tc.a), Appearance(tc.b); a == b {
			t.Errorf("%s: %+q and %+q both look like %+q", tc.name, tc.a, tc.b, a)
		}
	}
}

// Among printable ASCII characters, only these look alike: a changed digit or sign
// is always seen.
func TestAppearanceOfASCII(t *testing.T) {
	alike := map[rune]rune{'0': 'O', '1': 'l', 'I': 'l', '|': 'l', '`': '\''}
	by := map[string]rune{}
	for r := rune(0x21); r < 0x7f; r++ {
		class := r
		if c, ok := alike[r]; ok {
			class = c
		}
		look := Appearance("x" + string(r) + "x")
		if other, taken := by[look]; taken && other != class {
			t.Errorf("%q looks like %q", r, other)
		}
		by[look] = class
	}
	if want := 0x7f - 0x21 - len(alike); len(by) != want {
		t.Errorf("%d different looks, want %d", len(by), want)
	}
}

// hostile draws texts in which every rule of the model meets every other.
var hostile = rapid.Custom(func(t *rapid.T) string {
	parts := []string{
		"a", "b", "m", "1", "0", ".", ",", "+", "%", " ", "\n", "\t", "(", ")", "…", "⟨", "\u0301", "\u0323", "\u0345", "\u05b0",
		"\u0430", "\u03bd", "ש", "ל", "ا", "٣", "漢", "가", "\u1112\u1161", "é", "ﬁ", "\u1e9b\u0323",
		"\u202a", "\u202b", "\u202c", "\u202d", "\u202e", "\u2066", "\u2067", "\u2068", "\u2069", "\u200b", "\u200e", "\u200f",
		"\ufe0f", "\U000e0100", "\U000e0041", "\u2028", "\u2029", "\u0085", "\u2800", "\u3164", "\u00a0",
		"\x1b[8m", "\x1b[m", "\x1b[2K", "\x1b[K", "\x1b[2D", "\x1b[3G", "\x1b]", "\x1b\\", "\x1b", "\u009b", "\r", "\b", "\a", "\x00", "\xff",
	}
	s := strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 0, 24).Draw(t, "parts"), "")
	return s + rapid.StringN(0, 4, -1).Draw(t, "rest")
})

func TestAppearanceLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := hostile.Draw(t, "text")
		a := Appearance(s)
		if again := Appearance(a); again != a {
			t.Fatalf("not idempotent: %+q, then %+q", a, again)
		}
		if a != strings.TrimSpace(a) || strings.Contains(a, "  ") || strings.ContainsAny(a, "\n\t\r\b\x1b\u200b\u202e\u2066") {
			t.Fatalf("the appearance %+q shows what cannot be seen", a)
		}
		if n := seen(s); n < 0 || n > len([]rune(s)) {
			t.Fatalf("%d characters seen of %d", n, len([]rune(s)))
		}
	})
}

func TestInvisibleCharactersChangeNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOf(rapid.StringMatching(`[A-Za-z0-9 ,.:/@-]{0,8}`)).Draw(t, "words")
		gap := rapid.SampledFrom([]string{"\u200b", "\u2060", "\ufeff", "\U000e0100", "\U000e0041", "\u00ad", "\x00", "\x1b[1m", "\u202a\u202c", "\u2066\u2069"}).Draw(t, "gap")
		if plain, padded := strings.Join(words, ""), strings.Join(words, gap); Appearance(plain) != Appearance(padded) {
			t.Fatalf("%+q looks like %+q, and %+q like %+q", plain, Appearance(plain), padded, Appearance(padded))
		}
	})
}

// The directions are those that golang.org/x/text finds, which keeps nothing but
// the direction of each character.
func TestDirectionsAgreeWithReference(t *testing.T) {
	parts := []string{"a", "b", "ש", "ל", "1", "2", "٣", ".", "+", "%", " ", "!", "\u202a", "\u202b", "\u202c", "\u202d", "\u202e"}
	rapid.Check(t, func(t *rapid.T) {
		// The first letter makes the base direction left to right for both; the
		// last keeps rule L1 out of it, which puts trailing controls to the end.
		s := "x" + strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 0, 16).Draw(t, "parts"), "") + "\u202c\u202c\u202c\u202c\u202c\u202c\u202c\u202c\u202c\u202c\u202c\u202c\u202c\u202c\u202c\u202cx"
		var p bidi.Paragraph
		if _, err := p.SetString(s); err != nil {
			t.Fatal(err)
		}
		order, err := p.Order()
		if err != nil {
			t.Fatal(err)
		}
		var want []bool // right to left, for each character that is no control
		for i := range order.NumRuns() {
			run := order.Run(i)
			for _, r := range run.String() {
				if !strings.ContainsRune(bidiControls, r) {
					want = append(want, run.Direction() == bidi.RightToLeft)
				}
			}
		}
		us, levels := embed([]rune(s), 0)
		if len(levels) != len(want) {
			t.Fatalf("%d units, want %d", len(levels), len(want))
		}
		for i, level := range levels {
			if (level%2 == 1) != want[i] {
				t.Fatalf("%+q: unit %d (%+q) has level %d, want right to left %t", s, i, us[i].text, level, want[i])
			}
		}
	})
}

// The examples of Unicode Standard Annex #9, section 3.4, where capitals stand for
// right-to-left letters.
func TestLayOut(t *testing.T) {
	swap := func(s string, to bool) string {
		return strings.Map(func(r rune) rune {
			switch {
			case to && r >= 'A' && r <= 'Z':
				return '\u05d0' + r - 'A'
			case !to && r >= '\u05d0' && r <= '\u05ea':
				return 'A' + r - '\u05d0'
			}
			return r
		}, s)
	}
	for _, tc := range []struct {
		base        int
		stored, out string
	}{
		{0, "car means CAR.", "car means RAC."},
		{0, "\u2067car MEANS CAR.\u2069", ".RAC SNAEM car"},
		{0, "he said “\u2067car MEANS CAR\u2069.” “\u2067IT DOES\u2069,” she agreed.", "he said “RAC SNAEM car.” “SEOD TI,” she agreed."},
		{1, "DID YOU SAY ’\u2066he said “\u2067car MEANS CAR\u2069”\u2069‘?", "?‘he said “RAC SNAEM car”’ YAS UOY DID"},
		{0, "\u202bA\u202c\u202bB\u202c", "BA"},               // adjacent embeddings are one run
		{0, "\u2067A\u2069\u2067B\u2069", "AB"},               // isolates are not
		{0, "a\u2068B c\u2069\u2068d E\u2069", "ac Bd E"},     // first strong isolate
		{0, strings.Repeat("\u202e", 200) + "ab", "ba"},       // nesting overflows
		{0, strings.Repeat("\u2067\u2066", 100) + "ab", "ab"}, // isolates overflow
	} {
		if got := swap(join(layOut([]rune(swap(tc.stored, true)), tc.base)), false); got != tc.out {
			t.Errorf("%+q is laid out %q, want %q", tc.stored, got, tc.out)
		}
	}
}

func FuzzAppearance(f *testing.F) {
	for _, s := range []string{"plain", "\u202e6543 21ED\u202c", "\x1b[8mx\x1b[0m", "a\U000e0100", "раураl", "\u2067\u2066"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if a := Appearance(s); Appearance(a) != a {
			t.Errorf("not idempotent: %+q, then %+q", a, Appearance(a))
		}
	})
}
