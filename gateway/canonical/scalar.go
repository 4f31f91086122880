package canonical

import (
	"bytes"
	"strconv"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// str reads a string at its quote and returns it without escapes: as part of the
// text if it has none (escaped is false), else appended to buf.
func (p *parser) str(buf []byte) (s []byte, escaped bool, err *Error) {
	p.pos++
	start := p.pos
	for p.pos < len(p.text) {
		c := p.text[p.pos]
		switch {
		case c == '"':
			if escaped {
				s = append(buf, p.text[start:p.pos]...)
			} else {
				s = p.text[start:p.pos]
			}
			p.pos++
			return s, escaped, nil
		case c == '\\':
			escaped = true
			buf = append(buf, p.text[start:p.pos]...)
			r, err := p.escape()
			if err != nil {
				return nil, false, err
			}
			buf = utf8.AppendRune(buf, r)
			start = p.pos
		case c < ' ':
			return nil, false, p.refuse(Control, "a control character in a string must be escaped")
		case c < utf8.RuneSelf:
			p.pos++
		default:
			r, n := utf8.DecodeRune(p.text[p.pos:])
			if n == 1 { // beyond ASCII, a sequence has more
				return nil, false, p.refuse(InvalidUTF8, "not UTF-8")
			}
			if p.strict && noncharacter(r) {
				return nil, false, p.refuse(Control, "a noncharacter")
			}
			p.pos += n
		}
	}
	return nil, false, p.refuse(Syntax, "the text ends within a string")
}

// escape reads an escape sequence, surrogate pairs included, at its backslash.
func (p *parser) escape() (rune, *Error) {
	if p.pos+1 >= len(p.text) {
		return 0, p.refuse(Syntax, "the text ends within a string")
	}
	c := p.text[p.pos+1]
	if c != 'u' {
		i := bytes.IndexByte([]byte(`"\/bfnrt`), c)
		if i < 0 {
			return 0, p.refuse(Syntax, "no such escape sequence")
		}
		p.pos += 2
		return rune("\"\\/\b\f\n\r\t"[i]), nil
	}
	r, ok := hex4(p.text[p.pos+2:])
	if !ok {
		return 0, p.refuse(Syntax, `\u needs four hexadecimal digits`)
	}
	n := 6
	if utf16.IsSurrogate(r) {
		low := rune(0) // no half of a pair
		if rest, ok := bytes.CutPrefix(p.text[p.pos+n:], []byte(`\u`)); ok {
			low, _ = hex4(rest)
		}
		if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
			return 0, p.refuse(LoneSurrogate, "half of a surrogate pair")
		}
		n = 12
	}
	if p.strict && (r == 0 || noncharacter(r)) {
		return 0, p.refuse(Control, "U+0000 or a noncharacter")
	}
	p.pos += n
	return r, nil
}

// hex4 reads four hexadecimal digits, 0 where there are none.
func hex4(text []byte) (r rune, ok bool) {
	if len(text) < 4 {
		return 0, false
	}
	for _, c := range text[:4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// noncharacter says whether r is one of the 66 code points that never stand for
// a character (Unicode, section 23.7).
func noncharacter(r rune) bool {
	return r&0xfffe == 0xfffe || 0xfdd0 <= r && r <= 0xfdef
}

var shortEscapes = []byte("\"\\\b\f\n\r\t")

// quoted appends a string in canonical form (RFC 8785, section 3.2.2.2). Without
// escapes it is that already.
func (p *parser) quoted(s []byte, escaped bool) {
	p.dst = append(p.dst, '"')
	if !escaped {
		p.dst = append(p.dst, s...)
	} else {
		for _, c := range s {
			switch {
			case c >= ' ' && c != '"' && c != '\\':
				p.dst = append(p.dst, c)
			case bytes.IndexByte(shortEscapes, c) >= 0:
				p.dst = append(p.dst, '\\', `"\bfnrt`[bytes.IndexByte(shortEscapes, c)])
			default:
				p.dst = append(p.dst, '\\', 'u', '0', '0', '0'+c>>4, "0123456789abcdef"[c&15])
			}
		}
	}
	p.dst = append(p.dst, '"')
}

// compareKeys orders keys by UTF-16 code units (RFC 8785, section 3.2.3). Bytes
// of UTF-8 have that order, but for U+E000–U+FFFF (leading bytes EE and EF),
// which come after the surrogates of U+10000 and above (F0 and more).
func compareKeys(x, y member) int {
	a, b := x.key, y.key
	for i := range min(len(a), len(b)) {
		if a[i] == b[i] {
			continue
		}
		above := a[i] >= 0xf0
		if a[i] >= 0xee && b[i] >= 0xee && above != (b[i] >= 0xf0) {
			if above {
				return -1
			}
			return 1
		}
		return int(a[i]) - int(b[i])
	}
	return len(a) - len(b)
}

// fold returns the same string for all keys that are equal under simple folding,
// the relation of bytes.EqualFold.
func fold(key []byte) string {
	out := make([]byte, 0, len(key))
	for _, r := range string(key) {
		// The smallest rune of the orbit stands for all of it.
		for f := unicode.SimpleFold(r); ; f = unicode.SimpleFold(f) {
			if f <= r {
				r = f
				break
			}
		}
		out = utf8.AppendRune(out, r)
	}
	return string(out)
}

// number reads a number and appends it as ECMAScript writes it (RFC 8785,
// section 3.2.2.3). Only a number that a double has exactly, by its shortest
// digits, is let through: any other is one value to a reader with doubles and
// another one to a reader with decimals or 64-bit integers.
func (p *parser) number() *Error {
	start := p.pos
	for p.pos < len(p.text) && isToken(p.text[p.pos]) {
		p.pos++
	}
	token := p.text[start:p.pos]
	p.pos = start
	d, ok := decimalOf(token)
	if !ok {
		return p.refuse(NumberSyntax, "not a JSON number")
	}
	if !d.exact {
		return p.refuse(NumberRange, "no double has exactly this value")
	}
	// Up to 15 digits always survive the way through a double; a small integer
	// is by far the most frequent number.
	if d.n <= d.exp && d.exp <= 15 {
		if d.n == 0 {
			p.dst = append(p.dst, '0')
		} else {
			if d.negative {
				p.dst = append(p.dst, '-')
			}
			p.dst = append(p.dst, d.digits[:d.n]...)
			for range d.exp - d.n {
				p.dst = append(p.dst, '0')
			}
		}
		p.pos += len(token)
		return nil
	}
	var normal, shortest [40]byte
	text := d.append(normal[:0])
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return p.refuse(NumberRange, "no double has exactly this value")
	}
	if back, _ := decimalOf(strconv.AppendFloat(shortest[:0], f, 'e', -1, 64)); back != d {
		return p.refuse(NumberRange, "no double has exactly this value")
	}
	if p.strict && (f > MaxInt || f < -MaxInt) {
		return p.refuse(NumberRange, "beyond ±(2^53−1)")
	}
	if abs := max(f, -f); abs >= 1e-6 && abs < 1e21 {
		p.dst = strconv.AppendFloat(p.dst, f, 'f', -1, 64)
	} else {
		p.dst = strconv.AppendFloat(p.dst, f, 'e', -1, 64)
		// Go writes an exponent with two digits at least, ECMAScript does not.
		if i := len(p.dst) - 2; p.dst[i] == '0' && !isDigit(p.dst[i-1]) {
			p.dst = append(p.dst[:i], p.dst[i+1])
		}
	}
	p.pos += len(token)
	return nil
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isToken says whether c may belong to something meant as a number.
func isToken(c byte) bool {
	return isDigit(c) || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '+' || c == '-' || c == '.' || c == '_'
}

// A decimal is the exact value 0.d₁d₂…dₙ × 10^exp of a number's text. Leading and
// trailing zeros are stripped, so equal values are equal decimals; zero, without
// regard to its sign, is the zero decimal (exact set).
type decimal struct {
	negative bool
	exact    bool // false where no double can be meant: too many digits, absurd exponent
	digits   [17]byte
	n        int
	exp      int
}

// decimalOf reads a number by the grammar of RFC 8259, section 6.
func decimalOf(token []byte) (d decimal, ok bool) {
	i := 0
	peek := func() byte {
		if i < len(token) {
			return token[i]
		}
		return 0
	}
	d.exact = true
	if peek() == '-' {
		d.negative = true
		i++
	}
	zeros := 0 // read, and only of weight if a digit follows
	digit := func(c byte, fraction bool) {
		if !fraction {
			d.exp++
		}
		switch {
		case c == '0' && d.n == 0:
			d.exp-- // a leading zero
		case c == '0':
			zeros++
		case d.n+zeros >= len(d.digits):
			d.exact = false
		default:
			for ; zeros > 0; zeros-- {
				d.digits[d.n] = '0'
				d.n++
			}
			d.digits[d.n] = c
			d.n++
		}
	}
	if !isDigit(peek()) || peek() == '0' && i+1 < len(token) && isDigit(token[i+1]) {
		return d, false
	}
	for ; isDigit(peek()); i++ {
		digit(peek(), false)
	}
	if peek() == '.' {
		if i++; !isDigit(peek()) {
			return d, false
		}
		for ; isDigit(peek()); i++ {
			digit(peek(), true)
		}
	}
	if c := peek(); c == 'e' || c == 'E' {
		i++
		sign := 1
		if c := peek(); c == '+' || c == '-' {
			if c == '-' {
				sign = -1
			}
			i++
		}
		if !isDigit(peek()) {
			return d, false
		}
		e := 0
		for ; isDigit(peek()); i++ {
			// Beyond this, common parsers stop counting and disagree.
			if e = e*10 + int(peek()-'0'); e > 9999 {
				e, d.exact = 9999, false
			}
		}
		d.exp += sign * e
	}
	if i < len(token) {
		return d, false
	}
	if d.n == 0 {
		d = decimal{exact: d.exact}
	}
	return d, true
}

// append writes the decimal as a JSON number.
func (d decimal) append(dst []byte) []byte {
	if d.negative {
		dst = append(dst, '-')
	}
	dst = append(dst, '0', '.')
	dst = append(dst, d.digits[:d.n]...)
	dst = append(dst, 'e')
	return strconv.AppendInt(dst, int64(d.exp), 10)
}
