package oracles

import (
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/bidi"
)

const bidiControls = "\u202A\u202B\u202C\u202D\u202E\u2066\u2067\u2068\u2069"

// readingOrder returns the characters of a line in the order in which they are
// read off the screen. Without a bidirectional control that is the order in which
// they are stored. With one, the line is laid out, and then each sequence of
// right-to-left letters is read from its right end.
//
// The layout is here because golang.org/x/text keeps the nesting levels to itself
// and gives no visual order.
func readingOrder(line string) string {
	if !strings.ContainsAny(line, bidiControls) {
		return line
	}
	us := layOut([]rune(line), 0)
	for i := 0; i < len(us); i++ {
		if us[i].class != bidi.R {
			continue
		}
		end := i + 1
		for j := end; j < len(us) && us[j].class != bidi.L; j++ {
			if us[j].class == bidi.R {
				end = j + 1
			}
		}
		slices.Reverse(us[i:end])
		for j := i; j < end; j++ {
			us[j] = us[j].mirrored()
			// Numbers are read from the left in every script.
			n := j
			for n < end && (us[n].isNumber() || n > j && us[n].isSeparator() && n+1 < end && us[n+1].isNumber()) {
				n++
			}
			slices.Reverse(us[j:n])
			j = max(j, n-1)
		}
		i = end - 1
	}
	return join(us)
}

// A unit is what the layout moves as a whole: a character with the marks upon it,
// or an isolate.
type unit struct {
	text    string
	class   bidi.Class // as stored: L, R, EN, AN, ES, ET, CS, WS or ON
	isolate []unit     // from left to right
	level   int        // of the embedding
}

func (u unit) isNumber() bool { return u.class == bidi.EN || u.class == bidi.AN }

func (u unit) isSeparator() bool { return u.class == bidi.CS || u.class == bidi.ES }

// mirrored is the unit as seen in right-to-left text (rule L4).
func (u unit) mirrored() unit {
	_, size := utf8.DecodeRuneInString(u.text)
	u.text = bidi.ReverseString(u.text[:size]) + u.text[size:] // of one character: its mirror image, if a bracket
	return u
}

func join(us []unit) string {
	var b strings.Builder
	for _, u := range us {
		b.WriteString(u.text)
	}
	return b.String()
}

// maxLevel bounds nesting (definition BD2).
const maxLevel = 125

// layOut returns the units of a line, or of an isolate in it, from left to right,
// by the rules of Unicode Standard Annex #9 without W2 (Arabic digits) and N0 (paired
// brackets). The base level is even for left-to-right text.
func layOut(line []rune, base int) []unit {
	us, levels := embed(line, base)
	var out []unit
	for _, i := range reorder(levels) {
		switch {
		case us[i].isolate != nil:
			out = append(out, us[i].isolate...)
		case levels[i]%2 == 1:
			out = append(out, us[i].mirrored())
		default:
			out = append(out, us[i])
		}
	}
	return out
}

// embed returns the units of a line as stored, and the resolved level of each.
func embed(line []rune, base int) (us []unit, levels []int) {
	type embedding struct {
		level    int
		override bidi.Class // ON for none
	}
	stack := []embedding{{base, bidi.ON}} // X1
	overflow := 0
	var classes []bidi.Class // of the units, to be resolved
	for i := 0; i < len(line); i++ {
		r, top := line[i], stack[len(stack)-1]
		u := unit{text: string(r), class: classOf(r), level: top.level}
		switch u.class {
		case bidi.RLE, bidi.LRE, bidi.RLO, bidi.LRO: // X2 to X5
			next := embedding{nextLevel(top.level, u.class == bidi.RLE || u.class == bidi.RLO), bidi.ON}
			switch u.class {
			case bidi.RLO:
				next.override = bidi.R
			case bidi.LRO:
				next.override = bidi.L
			}
			if overflow > 0 || next.level > maxLevel {
				overflow++
			} else {
				stack = append(stack, next)
			}
			continue
		case bidi.PDF: // X7
			if overflow > 0 {
				overflow--
			} else if len(stack) > 1 {
				stack = stack[:len(stack)-1]
			}
			continue
		case bidi.RLI, bidi.LRI, bidi.FSI: // X5a to X5c
			if top.level+2 > maxLevel {
				continue
			}
			end := matchingPDI(line, i)
			content := line[i+1 : end]
			level := nextLevel(top.level, u.class == bidi.RLI || u.class == bidi.FSI && startsRightToLeft(content))
			// An isolate is laid out by itself, and is one neutral to what is
			// around it.
			u = unit{class: bidi.ON, isolate: layOut(content, level), level: top.level}
			i = end
		case bidi.PDI, bidi.BN:
			continue // closes nothing; is not seen
		case bidi.NSM: // W1
			if n := len(us); n > 0 && us[n-1].isolate == nil && us[n-1].level == top.level {
				us[n-1].text += u.text
				continue
			}
			u.class = bidi.ON
		}
		us = append(us, u)
		if top.override != bidi.ON {
			u.class = top.override
		}
		classes = append(classes, u.class)
	}

	levels = make([]int, len(us))
	for i := range us {
		levels[i] = us[i].level
	}
	for start, end := 0, 0; start < len(us); start = end { // X10
		level, before, after := us[start].level, base, base
		for end < len(us) && us[end].level == level {
			end++
		}
		if start > 0 {
			before = us[start-1].level
		}
		if end < len(us) {
			after = us[end].level
		}
		resolve(classes[start:end], level, direction(max(level, before)), direction(max(level, after)))
		for i := start; i < end; i++ { // I1, I2
			switch c := classes[i]; {
			case level%2 == 0 && c == bidi.R, level%2 == 1 && c != bidi.R:
				levels[i]++
			case level%2 == 0 && c != bidi.L:
				levels[i] += 2
			}
		}
	}
	for i := len(us) - 1; i >= 0 && us[i].class == bidi.WS; i-- { // L1
		levels[i] = base
	}
	return us, levels
}

// resolve turns the classes of a sequence at one level into L, R, EN and AN.
func resolve(classes []bidi.Class, level int, before, after bidi.Class) {
	at := func(i int) bidi.Class {
		switch {
		case i < 0:
			return before
		case i >= len(classes):
			return after
		}
		return classes[i]
	}
	for i := 1; i < len(classes)-1; i++ { // W4
		if c, prev := classes[i], classes[i-1]; (c == bidi.ES || c == bidi.CS) && prev == classes[i+1] &&
			(prev == bidi.EN || c == bidi.CS && prev == bidi.AN) {
			classes[i] = prev
		}
	}
	runs(classes, func(c bidi.Class) bool { return c == bidi.ET }, func(start, end int) { // W5
		if at(start-1) == bidi.EN || at(end) == bidi.EN {
			fill(classes[start:end], bidi.EN)
		}
	})
	strong := before
	for i, c := range classes { // W7
		switch {
		case c == bidi.L || c == bidi.R:
			strong = c
		case c == bidi.EN && strong == bidi.L:
			classes[i] = bidi.L
		}
	}
	side := func(i int) bidi.Class {
		if c := at(i); c == bidi.L {
			return bidi.L
		}
		return bidi.R // numbers too
	}
	runs(classes, isNeutral, func(start, end int) { // W6, N1, N2
		c := direction(level)
		if s := side(start - 1); s == side(end) {
			c = s
		}
		fill(classes[start:end], c)
	})
}

func isNeutral(c bidi.Class) bool {
	return c != bidi.L && c != bidi.R && c != bidi.EN && c != bidi.AN
}

// runs calls f for each longest sequence of classes that are in the set.
func runs(classes []bidi.Class, in func(bidi.Class) bool, f func(start, end int)) {
	for i := 0; i < len(classes); i++ {
		if !in(classes[i]) {
			continue
		}
		start := i
		for i < len(classes) && in(classes[i]) {
			i++
		}
		f(start, i)
	}
}

func fill(classes []bidi.Class, c bidi.Class) {
	for i := range classes {
		classes[i] = c
	}
}

// reorder returns the indexes of the levels from left to right (L2).
func reorder(levels []int) []int {
	order := make([]int, len(levels))
	for i := range order {
		order[i] = i
	}
	if len(levels) == 0 {
		return order
	}
	for level := slices.Max(levels); level > 0; level-- {
		for i := 0; i < len(levels); i++ {
			start := i
			for i < len(levels) && levels[i] >= level {
				i++
			}
			slices.Reverse(order[start:i])
		}
	}
	return order
}

// classOf returns the bidirectional class of a character; AL counts as R, and a
// separator as white space.
func classOf(r rune) bidi.Class {
	p, _ := bidi.LookupRune(r)
	switch c := p.Class(); c {
	case bidi.AL:
		return bidi.R
	case bidi.B, bidi.S:
		return bidi.WS
	default:
		return c
	}
}

// nextLevel is the least greater level of the direction.
func nextLevel(level int, rightToLeft bool) int {
	if rightToLeft {
		return (level + 1) | 1
	}
	return (level + 2) &^ 1
}

func direction(level int) bidi.Class {
	if level%2 == 1 {
		return bidi.R
	}
	return bidi.L
}

// matchingPDI returns the index of the PDI that closes the isolate opened at i,
// or the length of the line (definition BD9).
func matchingPDI(line []rune, i int) int {
	depth := 0
	for j := i; j < len(line); j++ {
		switch classOf(line[j]) {
		case bidi.RLI, bidi.LRI, bidi.FSI:
			depth++
		case bidi.PDI:
			if depth--; depth == 0 {
				return j
			}
		}
	}
	return len(line)
}

// startsRightToLeft applies rules P2 and P3 to the content of an isolate.
func startsRightToLeft(content []rune) bool {
	for i := 0; i < len(content); i++ {
		switch classOf(content[i]) {
		case bidi.L:
			return false
		case bidi.R:
			return true
		case bidi.RLI, bidi.LRI, bidi.FSI:
			i = matchingPDI(content, i)
		}
	}
	return false
}
