package gateway

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("update", false, "write the list of plain characters")

// TestPlainCharacters: the characters beyond ASCII that can be plain, by script, and
// the skeletons of ASCII, are those of a list that somebody has read. A new version of
// Unicode or of the table of confusables changes it; so does a rule that is lost.
func TestPlainCharacters(t *testing.T) {
	table := looks()
	scripts := map[string][]rune{}
	names := slices.Sorted(maps.Keys(unicode.Scripts))
	for r, x := range table.script {
		name := "signs"
		switch {
		case x == latin:
			name = "Latin"
		case x >= others:
			name = names[x-others]
		}
		scripts[name] = append(scripts[name], r)
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(scripts)) {
		fmt.Fprintf(&b, "%s %s\n", name, ranges(scripts[name]))
	}
	for _, of := range []struct {
		name string
		is   bool
	}{{"letters", false}, {"no letters", true}} {
		var skeletons []string
		for k, is := range table.ascii {
			if is == of.is {
				skeletons = append(skeletons, k)
			}
		}
		slices.Sort(skeletons)
		fmt.Fprintf(&b, "skeletons of ASCII, %s: %+q\n", of.name, skeletons)
	}
	fmt.Fprintf(&b, "longest skeleton: %d bytes\n", table.longest)
	golden(t, "plain.txt", b.String())
}

// golden holds a text against a file that somebody has read.
func golden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text); diff != "" {
		t.Errorf("%s is another; read it, and write it with go test ./gateway -run Plain -update:\n%s", path, diff)
	}
}

// TestShownPlain: what is shown of strings of one, two and three parts, of scripts and
// look-alikes in all orders, neither more nor fewer marks than a list has that somebody
// has read.
func TestShownPlain(t *testing.T) {
	parts := []string{"a", "rn", "I", "10", "5", "-", " ", ",", "(", "$", "é", "ß", "ø", "æ", "€", "₩", "×", "Ж", "о", "ы", "Мо", "λ", "ο", "א", "ב", "ع", "ي", "م",
		"東", "へ", "ー", "김", "ᄀ", "ก", "ॐ", "՝", "Ⴀ", "ɑ", "ⅼ", "\u0301", "\u200b", "٣", "m", "%", "\t", "ѹ"}
	var b strings.Builder
	for i, x := range parts {
		fmt.Fprintf(&b, "%s\t%s\n", x, Visible(x))
		for j, y := range parts {
			fmt.Fprintf(&b, "%s%s\t%s\n", x, y, Visible(x+y))
			// Each pair with a third part, which is another for each.
			z := parts[(7*i+11*j+3)%len(parts)]
			fmt.Fprintf(&b, "%s%s%s\t%s\n", x, y, z, Visible(x+y+z))
		}
	}
	for _, x := range []string{"Ы\t", "Ы€", "Ы%", "ё", "ёо", "ёЖ", "ё\tЖ", "Ю\tЖ", "Ы€Ж", "װ% א", "וװ% א", "Ы ё", "Ы é", "е\t", "е€", "ӕ\t", "ӕ€", "ք\t", "ք€"} {
		fmt.Fprintf(&b, "%s\t%s\n", x, Visible(x))
	}
	golden(t, "shown.txt", b.String())
}

// TestStaysPlain: of all short strings over letters of one script that look alike, those
// that are shown as they are.
func TestStaysPlain(t *testing.T) {
	var b strings.Builder
	for _, alphabet := range []string{"abé m", "rné%", "оасхЖ", "ыьіб ", "ѹоуѸ1", "οντλ ", "סםוןא", "اهعم1", "ոօսա", "口田東 ", "김가1 ", "ГПФж", "€$é\t", "ЮЫжб", "װײאב", "װוי א", "เแก", "оꚙЖ ", "ЫЮ% ", "ёоЖ", "װ% א"} {
		letters := []rune(alphabet)
		var plain []string
		var extend func(s string, n int)
		extend = func(s string, n int) {
			if s != "" && Visible(s) == s {
				plain = append(plain, s)
			}
			for _, r := range letters {
				if n > 0 {
					extend(s+string(r), n-1)
				}
			}
		}
		extend("", 4)
		fmt.Fprintf(&b, "%+q %d: %q\n", alphabet, len(plain), plain[:min(len(plain), 60)])
	}
	golden(t, "stays.txt", b.String())
}

// A list is shown by its elements, where all of them are texts.
func TestTextOfLists(t *testing.T) {
	for value, want := range map[string]string{"[]": "⟨empty list⟩", `""`: "⟨empty⟩", `["a","b"]`: "a, b", "[1]": "[1]"} {
		if got := text([]byte(value), true); got != want {
			t.Errorf("%s is shown as %q, want %q", value, got, want)
		}
	}
}

// ranges writes characters as U+XXXX-YYYY, in order.
func ranges(rs []rune) string {
	slices.Sort(rs)
	var out []string
	for i := 0; i < len(rs); {
		j := i
		for j+1 < len(rs) && rs[j+1] == rs[j]+1 {
			j++
		}
		if i == j {
			out = append(out, fmt.Sprintf("%04X", rs[i]))
		} else {
			out = append(out, fmt.Sprintf("%04X-%04X", rs[i], rs[j]))
		}
		i = j + 1
	}
	return strings.Join(out, " ")
}
