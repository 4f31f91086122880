package gateway_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/mtibben/confusables"
	"golang.org/x/text/unicode/bidi"
	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"

	"countersign/gateway"
	"countersign/gateway/api"
)

// layOut is a line as it is seen from left to right (Unicode UAX 9 for letters,
// ASCII and no control, in a left-to-right paragraph).
func layOut(s string) []rune {
	rs := []rune(s)
	class, level := make([]rune, len(rs)), make([]int, len(rs))
	strong := 'L'
	for i, r := range rs {
		p, _ := bidi.LookupRune(r)
		switch {
		case p.Class() == bidi.R || p.Class() == bidi.AL:
			strong, class[i], level[i] = 'R', 'R', 1
		case unicode.IsLetter(r):
			strong, class[i] = 'L', 'L'
		case unicode.IsDigit(r) && strong == 'R':
			class[i], level[i] = 'R', 2
		case unicode.IsDigit(r):
			class[i] = 'L'
		}
	}
	for i := range rs { // a neutral between two of one direction has it
		before, after := 'L', 'L'
		for j := i; j >= 0 && class[i] == 0; j-- {
			if class[j] != 0 {
				before = class[j]
				break
			}
		}
		for j := i; j < len(rs) && class[i] == 0; j++ {
			if class[j] != 0 {
				after = class[j]
				break
			}
		}
		if before == 'R' && after == 'R' {
			level[i] = 1
		}
	}
	for l := 2; l >= 1; l-- {
		for i := 0; i < len(rs); i++ {
			j := i
			for j < len(rs) && level[j] >= l {
				j++
			}
			for x, y := i, j-1; x < y; x, y = x+1, y-1 {
				rs[x], rs[y] = rs[y], rs[x]
				level[x], level[y] = level[y], level[x]
			}
			i = j
		}
	}
	return rs
}

// seen is what is seen of a text, by compatibility form and skeleton. Syllables of
// Hangul stay whole.
func seen(text string) string {
	var b strings.Builder
	for _, r := range layOut(norm.NFKC.String(text)) {
		if unicode.Is(unicode.Hangul, r) {
			b.WriteRune(r)
		} else {
			b.WriteString(confusables.Skeleton(string(r)))
		}
	}
	return norm.NFD.String(b.String())
}

// byFont is a text with ASCII characters for which only a font has two looks as one.
func byFont(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r < 0x80 {
			b.WriteString(confusables.Skeleton(string(r)))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// alike are characters and parts of texts with others that look like them.
var alike = func() [][]string {
	groups := map[string][]string{}
	for r := rune(0x21); r < 0x32000; r++ {
		if unicode.IsPrint(r) && !unicode.Is(unicode.Han, r) {
			k := confusables.Skeleton(norm.NFKC.String(string(r)))
			groups[k] = append(groups[k], string(r))
		}
	}
	var out [][]string
	for r := rune(0x21); r < 0x32000; r++ { // in an order that is always the same
		k := confusables.Skeleton(norm.NFKC.String(string(r)))
		if g := groups[k]; len(g) > 1 {
			out, groups[k] = append(out, g), nil
		}
	}
	return append(out, []string{"æ", "ae"}, []string{"ы", "ьі", "ƅi"}, []string{"ŀ", "l·"}, []string{"김", norm.NFD.String("김")}, []string{"é", "e\u0301"},
		[]string{"12 אבג 34", "12 34 אבג"}, []string{"אב 1", "1 אב"}, []string{"(אב)", "אב()"}, []string{"ГПФ", "ΓΠΦ"}, []string{"", " "})
}()

// TestNothingLooksLikeAnotherValue: two different values are never shown alike, by
// compatibility forms, by skeletons (TR39) and after the bidirectional layout, as
// texts and as lists.
func TestNothingLooksLikeAnotherValue(t *testing.T) {
	plain := []string{"a", "1", " ", "-", "Ж", "λ", "ß", "é", "€", "א", "ב", "ع", "東", "へ", "김", "5", "(", "I", "m"}
	shown := 0
	check := func(t tb, a, b string) {
		t.Helper()
		x, y := gateway.Visible(a), gateway.Visible(b)
		if x == a && strings.ContainsFunc(a, func(r rune) bool { return r >= 0x80 }) {
			shown++
		}
		if seen(x) == seen(y) && byFont(a) != byFont(b) {
			t.Fatalf("%+q and %+q look alike: %q and %q", a, b, x, y)
		}
		if back, err := read(x); err != nil || back != a {
			t.Fatalf("%+q is shown as %q and read as %+q, %v", a, x, back, err)
		}
	}
	for _, g := range alike { // each with each
		for i, a := range g {
			for _, b := range g[i+1:] {
				check(t, a, b)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		var a, b []string
		for range rapid.IntRange(1, 6).Draw(t, "parts") {
			if rapid.Bool().Draw(t, "plain") {
				p := rapid.SampledFrom(plain).Draw(t, "part")
				a, b = append(a, p), append(b, p)
				continue
			}
			one := rapid.SampledFrom(rapid.SampledFrom(alike).Draw(t, "group"))
			a, b = append(a, one.Draw(t, "one")), append(b, one.Draw(t, "other"))
		}
		if rapid.Bool().Draw(t, "reorder") {
			b = rapid.Permutation(a).Draw(t, "order")
		}
		check(t, strings.Join(a, ""), strings.Join(b, ""))
	})
	if shown == 0 {
		t.Error("everything is marked, so nothing is compared")
	}
}

// TestListsAreReadInOrder: elements do not change places on the screen.
func TestListsAreReadInOrder(t *testing.T) {
	w := newWorld(t, "M9")
	show := func(list ...string) string {
		a := w.action("pay", 1)
		text, err := json.Marshal(map[string]any{"supplier": "s-1", "amount": 1, "tags": list})
		must(t, err)
		a.Arguments = text
		v, err := w.target.View(ctx, auth("approver-p"), w.pending(a))
		must(t, err)
		return lines(v)["/tags"]
	}
	elements := []string{"אב", "12", "ab", "", "-", "גד 3", "(1)"}
	seenBy := map[string][]string{}
	for _, a := range elements {
		for _, b := range elements {
			for _, c := range elements {
				k := string(layOut(show(a, b, c)))
				if other := seenBy[k]; other != nil {
					t.Fatalf("%q and %q are both seen as %q", []string{a, b, c}, other, k)
				}
				seenBy[k] = []string{a, b, c}
			}
		}
	}
}

// TestPlainText: what people write in one script stays readable.
func TestPlainText(t *testing.T) {
	for _, s := range []string{
		"Jürgen Müller, Łódź", "Guðrún Þórsdóttir", "İstanbul", "Straße 5", "£5 €6", "Оплата за май", "Съешь ещё этих мягких булок", "Київ", "Ελληνική Τράπεζα",
		"東京", "カタカナ", "дом 10, кв. 5", "ひらがな", "서울 가까", "תשלום עבור מאי", "سلام عليكم", "يوم",
	} {
		if got := gateway.Visible(s); got != s {
			t.Errorf("%s is shown as %s", s, got)
		}
	}
	for in, want := range map[string]string{
		"אב 12":  "אב⟨U+0020⟩12",
		"אב25":   "אב⟨U+0032⟩5",
		"12 אב":  "12 אב",
		"אב $12": "אב⟨U+0020⟩$12",
		"Ærø":    "⟨U+00C6⟩rø",
		"ĐORIC":  "⟨U+0110⟩ORIC",
		"کتاب":   "⟨U+06A9⟩تاب",
		"ьі":     "⟨U+044C⟩⟨U+0456⟩",
		"ΓΠΦ":    "⟨U+0393⟩⟨U+03A0⟩⟨U+03A6⟩",
		"ГПФ":    "⟨U+0413⟩⟨U+041F⟩⟨U+0424⟩",
		"ヘ":      "⟨U+30D8⟩",
		"＄5":     "⟨U+FF04⟩5",
		"\uf90a": "⟨U+F90A⟩",
		"\ufeb1": "⟨U+FEB1⟩",
	} {
		if got := gateway.Visible(in); got != want {
			t.Errorf("%s is shown as %s, want %s", in, got, want)
		}
	}
}

// TestRunStepAndCall: no two triples are shown alike.
func TestRunStepAndCall(t *testing.T) {
	w := newWorld(t, "M9")
	parts := []string{"a", "a / b", "b", "b / c", "c"}
	taken := map[string][3]string{}
	for _, run := range parts {
		for _, step := range parts {
			for _, call := range parts {
				a := w.action("pay", 1)
				a.Run, a.Step, a.Call = run, step, call
				v, err := w.target.View(ctx, auth("approver-p"), w.pending(a))
				must(t, err)
				k := v.Rendered[api.MediumText]
				k = k[strings.Index(k, "Run:"):strings.Index(k, "Risk:")]
				if other, ok := taken[k]; ok {
					t.Fatalf("%q and %q are both shown as %s", [3]string{run, step, call}, other, k)
				}
				taken[k] = [3]string{run, step, call}
			}
		}
	}
}
