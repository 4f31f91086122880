package gateway

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/mtibben/confusables"
	"golang.org/x/text/unicode/bidi"
	"golang.org/x/text/unicode/norm"
)

// Visible writes a string so that what is seen determines what it is: each
// character that a reader could not see, or could take for another one, becomes
// ⟨U+XXXX⟩. Two different strings differ to the eye, under NFKC, the skeletons of
// Unicode TR39 and the bidirectional algorithm in a left-to-right line. The rules:
//
//   - Plain are printable ASCII, single inner spaces, letters of Latin-1 and Latin
//     Extended-A, currency signs, and the letters of one other script where no Latin
//     letter stands beside them. The marks that this notation and views use
//     themselves (⟨ ⟩ …) are not.
//   - A character that NFKC changes is not plain, nor is a conjoining jamo, nor one
//     whose skeleton an earlier letter of its script has.
//   - A string whose plain characters could be spelt otherwise, in its own script, in
//     Latin or in a third one, shows nothing but ASCII plain.
//   - Between a right-to-left letter and a digit behind it, one character is a mark:
//     numbers would change places with words otherwise.
//
// ASCII is taken as it is (I, l and 1 depend on the font), and a syllable of Hangul
// as a whole.
func Visible(s string) string { return new(writer).visible(s) }

// A writer writes the strings of one line.
type writer struct {
	comma bool // commas separate, so those inside are marked
	rtl   bool // the last letter so far is a right-to-left one
}

func (w *writer) visible(s string) string {
	if s == "" {
		w.rtl = false // this mark holds letters, too
		return "⟨empty⟩"
	}
	type char struct {
		r    rune
		text string // of a mark
	}
	var chars []char
	foreign, ambiguous := imitates(s)
	prev := ' ' // so that a leading space counts as a run
	for i, r := range s {
		_, size := utf8.DecodeRuneInString(s[i:])
		last := i+size == len(s)
		c := char{r: r}
		switch {
		case r == utf8.RuneError && size == 1:
			c.text = fmt.Sprintf("⟨0x%02X⟩", s[i])
		case r == ' ' && prev != ' ' && !last, r == ',' && !w.comma, r != ',' && plain(r, foreign, ambiguous):
		default:
			c.text = mark(r)
		}
		prev = r
		chars = append(chars, c)
	}
	// A mark holds letters that are read from the left, so what follows it keeps
	// its place.
	gap := -1 // where the last right-to-left letter has ended
	if w.rtl {
		gap = 0
	}
	for i, c := range chars {
		switch {
		case c.text != "":
			gap = -1
		case rightToLeft(c.r):
			gap = i + 1
		case unicode.IsLetter(c.r):
			gap = -1
		case gap >= 0 && c.r >= '0' && c.r <= '9':
			chars[gap].text = mark(chars[gap].r)
			gap = -1
		}
	}
	w.rtl = gap >= 0
	var b strings.Builder
	for _, c := range chars {
		if c.text != "" {
			b.WriteString(c.text)
		} else {
			b.WriteRune(c.r)
		}
	}
	return b.String()
}

func mark(r rune) string { return fmt.Sprintf("⟨U+%04X⟩", r) }

func rightToLeft(r rune) bool {
	p, _ := bidi.LookupRune(r)
	return p.Class() == bidi.R || p.Class() == bidi.AL
}

// plain reports whether a character is seen for what it is.
func plain(r rune, foreign, ambiguous bool) bool {
	if r < 0x80 {
		return r > ' ' && r < unicode.MaxASCII
	}
	script, ok := looks().script[r]
	return ok && !ambiguous && (!foreign || script == common || script == latin)
}

// A script is one that letters belong to.
type script uint8

const (
	common script = iota // digits, punctuation, currency signs
	latin
	others
)

// A set of scripts.
type set [4]uint64

func (s set) has(x script) bool { return s[x/64]>>(x%64)&1 == 1 }
func (s *set) add(x script)     { s[x/64] |= 1 << (x % 64) }

// lookTable says which characters can be plain, and what they look like.
type lookTable struct {
	script  map[rune]script
	letters map[string]set  // by skeleton: the scripts with such a letter
	signs   map[string]bool // by skeleton: currency signs
	ascii   map[string]bool // by skeleton: whether one is no letter
	longest int             // of the skeletons, in bytes
}

// favoured are letters that are kept plain in the place of the first one with
// their skeleton, which is rarer.
const favoured = "ي"

var looks = sync.OnceValue(func() *lookTable {
	t := &lookTable{script: map[rune]script{}, letters: map[string]set{}, signs: map[string]bool{}, ascii: map[string]bool{}}
	for r := rune(' '); r < unicode.MaxASCII; r++ {
		if k := look(r); len(k) == 1 || !isASCII(k) { // others are spelt by their parts
			t.ascii[k] = t.ascii[k] || !unicode.IsLetter(r)
			t.longest = max(t.longest, len(k))
		}
	}
	names := slices.Sorted(maps.Keys(unicode.Scripts))
	take := func(r rune, x script) {
		k := look(r)
		switch {
		case !norm.NFKC.IsNormalString(string(r)), jamo(r), unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r):
			return // four fillers of Hangul count as letters, and nothing of them is seen
		case norm.NFD.PropertiesString(k).CCC() != 0: // would hang on to what stands before it
			return
		case x <= latin && isASCII(k):
			return
		case x == common && t.signs[k], t.letters[k].has(x): // no letter is a common one
			return
		}
		t.script[r] = x
		t.longest = max(t.longest, len(k))
		if x == common {
			t.signs[k] = true
			return
		}
		scripts := t.letters[k]
		scripts.add(x)
		t.letters[k] = scripts
	}
	for _, r := range favoured {
		take(r, others+script(slices.Index(names, "Arabic")))
	}
	each(unicode.Sc, func(r rune) { take(r, common) })
	for i, name := range names {
		switch name {
		case "Common": // and nothing that is inherited is a letter
		case "Latin":
			for r := rune(0xC0); r <= 0x17E; r++ {
				// Not multiplication, division, and letters drawn like ASCII ones.
				if !strings.ContainsRune("×÷ıĸŉ", r) {
					take(r, latin)
				}
			}
		default:
			each(unicode.Scripts[name], func(r rune) {
				if unicode.IsLetter(r) {
					take(r, others+script(i))
				}
			})
		}
	}
	return t
})

func each(table *unicode.RangeTable, f func(rune)) {
	for _, x := range table.R16 {
		for r := rune(x.Lo); r <= rune(x.Hi); r += rune(x.Stride) {
			if r >= 0x80 {
				f(r)
			}
		}
	}
	for _, x := range table.R32 {
		for r := rune(x.Lo); r <= rune(x.Hi); r += rune(x.Stride) {
			f(r)
		}
	}
}

// look is the skeleton of a character (Unicode TR39, section 4).
func look(r rune) string {
	if unicode.Is(unicode.Hangul, r) {
		return string(r) // a skeleton takes syllables apart, which stand in one block
	}
	return confusables.Skeleton(string(r))
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= 0x80 }) < 0
}

// jamo reports whether a letter joins others in a syllable.
func jamo(r rune) bool {
	return r >= 0x1100 && r <= 0x11FF || r >= 0xA960 && r <= 0xA97F || r >= 0xD7B0 && r <= 0xD7FF
}

// imitates reports whether the letters outside Latin are mixed with others, so that
// they may not be plain, and whether what is plain then could be spelt otherwise.
func imitates(s string) (foreign, ambiguous bool) {
	if isASCII(s) {
		return false, false
	}
	t, own := looks(), common
	for _, r := range s {
		x, ok := t.script[r]
		if r < 0x80 {
			x, ok = latin, unicode.IsLetter(r)
		}
		if ok && x != common {
			foreign = foreign || own != common && own != x
			own = x
		}
	}
	if foreign || own == common {
		own = latin
	}
	return foreign, t.ambiguous(s, own, foreign)
}

// A spelling sums up how a part of a skeleton can be spelt.
type spelling struct {
	best  effort // in the own script
	ways  int    // with that effort, ASCII for ASCII not counted; 2 for more
	free  bool   // in the own script without a letter, in Latin in ASCII
	latin bool
	in    set // in these scripts
}

// An effort is a number of characters, and how many of them are free.
type effort struct{ all, free int }

func (e effort) compare(f effort) int {
	return cmp.Or(cmp.Compare(e.all, f.all), cmp.Compare(e.free, f.free))
}

var everywhere = set{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}

// ambiguous reports whether the plain characters of a string, which are letters of
// its own script and common ones, look like other plain ones. It spells the
// skeleton of each word in all ways. Of several in one script one is good: numbers
// and the like, then what takes the fewest characters, then the fewest that are no
// letters. So neither "10" nor a letter that looks like a naught suffers.
func (t *lookTable) ambiguous(s string, own script, foreign bool) bool {
	asLatin, in := own != latin, everywhere
	in[own/64] &^= 1 << (own % 64)
	for word := range strings.SplitSeq(s, " ") {
		var skeleton strings.Builder
		var effort effort
		for _, r := range word {
			x, ok := t.script[r]
			part := marked
			switch {
			case r >= ' ' && r < unicode.MaxASCII:
				part = look(r)
			case ok && (!foreign || x <= latin):
				part = look(r)
			}
			n := 1
			if isASCII(part) && r < 0x80 {
				n = len(part)
			}
			effort.all += n
			if part == marked || x == common { // ASCII has no entry, so it is common
				effort.free += n
			}
			skeleton.WriteString(part)
		}
		end := t.spell(skeleton.String(), own)
		if effort.free < effort.all && (end.free || end.best != effort || end.ways != 1) {
			return true
		}
		asLatin = asLatin && end.latin
		for i := range in {
			in[i] &= end.in[i]
		}
	}
	return asLatin || own != latin && in != set{}
}

// marked stands for a mark in a skeleton.
const marked = "\x00"

func (t *lookTable) spell(skeleton string, own script) spelling {
	cells := make([]spelling, t.longest+1) // a ring: parts are no longer
	cells[0] = spelling{ways: 1, free: true, latin: true, in: everywhere}
	for i := range skeleton {
		c := cells[i%len(cells)]
		cells[i%len(cells)] = spelling{}
		for j := i + 1; j <= min(len(skeleton), i+t.longest); j++ {
			if j == len(skeleton) || utf8.RuneStart(skeleton[j]) {
				c.extend(&cells[j%len(cells)], t, skeleton[i:j], own)
			}
		}
	}
	return cells[len(skeleton)%len(cells)]
}

// extend adds a part of the skeleton as one character.
func (c spelling) extend(to *spelling, t *lookTable, part string, own script) {
	noLetter, ascii := t.ascii[part]
	sign, letters := t.signs[part], t.letters[part]
	free := part == marked || sign || noLetter || ascii && own == latin
	add := func(e effort) {
		switch order := e.compare(to.best); {
		case c.ways == 0:
		case to.ways == 0 || order < 0:
			to.best, to.ways = e, c.ways
		case order == 0:
			to.ways = min(to.ways+c.ways, 2)
		}
	}
	if free {
		add(effort{c.best.all + 1, c.best.free + 1})
	}
	if letters.has(own) {
		add(effort{c.best.all + 1, c.best.free})
	}
	to.free = to.free || c.free && free
	to.latin = to.latin || c.latin && (part == marked || ascii || sign || letters.has(latin))
	for i := range to.in {
		if part == marked || noLetter || sign {
			to.in[i] |= c.in[i]
		}
		to.in[i] |= c.in[i] & letters[i]
	}
}

// text returns the display text of a JSON value: a string without quotes, a
// number or boolean as it is, the elements of a list joined with commas.
func text(v json.RawMessage, bound bool) string {
	w := new(writer)
	show := func(s string) string {
		if bound {
			return w.visible(s)
		}
		return s
	}
	var s string
	if json.Unmarshal(v, &s) == nil {
		return show(s)
	}
	var list []string
	if json.Unmarshal(v, &list) == nil {
		if len(list) == 0 && bound {
			return "⟨empty list⟩"
		}
		w.comma = true
		parts := make([]string, len(list))
		for i, e := range list {
			parts[i] = show(e)
		}
		return strings.Join(parts, ", ")
	}
	return show(string(v))
}
