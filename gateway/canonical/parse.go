package canonical

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"
)

// depthOfGoValues bounds the nesting of what Canonical writes. It only guards
// the stack.
const depthOfGoValues = 1000

// A parser reads one JSON text and appends its canonical form to dst as it
// goes. It is written by hand because encoding/json hides what matters here:
// duplicate keys, the digits of a number, surrogates.
type parser struct {
	text   []byte
	pos    int
	dst    []byte
	strict bool // apply the rules beyond RFC 8785
	depth  int

	members []member // of the objects being read, innermost last
	top     []member // of the outermost object, sorted
	unquote []byte   // a string value without its escapes
	sorted  []byte   // the members of an object in canonical order
}

// A member of an object; dst[start:end] is its canonical form, value included.
type member struct {
	key               []byte // without escapes
	start, value, end int
}

func parse(text []byte, strict bool) (*parser, error) {
	if strict && len(text) > MaxSize {
		return nil, &Error{Size, "", fmt.Sprintf("%d bytes, the limit is %d", len(text), MaxSize)}
	}
	p := &parser{text: text, strict: strict, dst: make([]byte, 0, len(text)), members: make([]member, 0, 16)}
	if err := p.value(); err != nil {
		return nil, err
	}
	if p.space(); p.pos < len(text) {
		if err := p.unexpected(); err.Code == InvalidUTF8 {
			return nil, err
		}
		return nil, p.refuse(Trailing, "text after the value")
	}
	return p, nil
}

func (p *parser) refuse(c Code, detail string) *Error {
	return &Error{c, "", fmt.Sprintf("%s (byte %d)", detail, p.pos)}
}

// in returns err as seen from the enclosing value.
func in(segment string, err *Error) *Error {
	err.Path = segment + err.Path
	return err
}

// segment is one step of a path: a name, cut and escaped.
func segment(name []byte) string {
	s := quote(name)
	s = s[1 : len(s)-1]
	out := make([]byte, 0, len(s)+1)
	out = append(out, '/')
	for _, c := range []byte(s) {
		switch c {
		case '~':
			out = append(out, '~', '0')
		case '/':
			out = append(out, '~', '1')
		default:
			out = append(out, c)
		}
	}
	return string(out)
}

// quote makes a name from the text fit for a log.
func quote(name []byte) string {
	const most = 64
	if len(name) > most {
		return strconv.QuoteToASCII(string(name[:most]) + "…")
	}
	return strconv.QuoteToASCII(string(name))
}

func (p *parser) space() {
	for p.pos < len(p.text) {
		switch p.text[p.pos] {
		case ' ', '\t', '\n', '\r':
			p.pos++
		default:
			return
		}
	}
}

// next skips white space and returns the next byte without reading it, 0 at the
// end of the text (and for a NUL, which fits nowhere either).
func (p *parser) next() byte {
	p.space()
	if p.pos < len(p.text) {
		return p.text[p.pos]
	}
	return 0
}

// unexpected refuses the byte at pos as not fitting the grammar.
func (p *parser) unexpected() *Error {
	if p.pos >= len(p.text) {
		return p.refuse(Syntax, "the text ends within a value")
	}
	if r, n := utf8.DecodeRune(p.text[p.pos:]); r == utf8.RuneError && n <= 1 {
		return p.refuse(InvalidUTF8, "not UTF-8")
	}
	return p.refuse(Syntax, "not JSON")
}

func (p *parser) value() *Error {
	switch c := p.next(); c {
	case '{':
		return p.nested((*parser).object)
	case '[':
		return p.nested((*parser).array)
	case '"':
		s, escaped, err := p.str(p.unquote[:0])
		if err != nil {
			return err
		}
		if escaped {
			p.unquote = s
		}
		p.quoted(s, escaped)
		return nil
	case 't':
		return p.literal("true")
	case 'f':
		return p.literal("false")
	case 'n':
		return p.literal("null")
	default:
		if isNumber(c) || c == '+' || c == '.' || c == 'N' || c == 'I' {
			return p.number()
		}
		return p.unexpected()
	}
}

func (p *parser) literal(word string) *Error {
	if !bytes.HasPrefix(p.text[p.pos:], []byte(word)) {
		return p.unexpected()
	}
	p.pos += len(word)
	p.dst = append(p.dst, word...)
	return nil
}

func (p *parser) nested(read func(*parser) *Error) *Error {
	limit := depthOfGoValues
	if p.strict {
		limit = MaxDepth
	}
	if p.depth >= limit {
		return p.refuse(Depth, fmt.Sprintf("nested deeper than %d", limit))
	}
	p.depth++
	err := read(p)
	p.depth--
	return err
}

func (p *parser) array() *Error {
	p.pos++
	p.dst = append(p.dst, '[')
	for i := 0; p.next() != ']'; i++ {
		if i > 0 {
			if p.next() != ',' {
				return p.unexpected()
			}
			p.pos++
			p.dst = append(p.dst, ',')
		}
		if err := p.value(); err != nil {
			return in("/"+strconv.Itoa(i), err)
		}
	}
	p.pos++
	p.dst = append(p.dst, ']')
	return nil
}

func (p *parser) object() *Error {
	p.pos++
	p.dst = append(p.dst, '{')
	first := len(p.members)
	for p.next() != '}' {
		if len(p.members) > first {
			if p.next() != ',' {
				return p.unexpected()
			}
			p.pos++
			p.dst = append(p.dst, ',')
		}
		if p.next() != '"' {
			return p.unexpected()
		}
		m := member{start: len(p.dst)}
		key, escaped, err := p.str(nil)
		if err != nil {
			return err
		}
		m.key = key
		p.quoted(key, escaped)
		if p.next() != ':' {
			return in(segment(key), p.unexpected())
		}
		p.pos++
		p.dst = append(p.dst, ':')
		m.value = len(p.dst)
		if err := p.value(); err != nil {
			return in(segment(key), err)
		}
		m.end = len(p.dst)
		p.members = append(p.members, m)
	}
	p.pos++
	members := p.members[first:]
	if err := p.sort(members); err != nil {
		return err
	}
	if p.depth == 1 {
		p.top = members // stays as it is: no member follows
	}
	p.members = p.members[:first]
	p.dst = append(p.dst, '}')
	return nil
}

// sort brings the members of an object into canonical order, in dst as well, and
// refuses keys that are equal or, strictly, equal but for case.
func (p *parser) sort(members []member) *Error {
	if len(members) == 0 {
		return nil
	}
	if !slices.IsSortedFunc(members, compareKeys) {
		start := members[0].start
		slices.SortFunc(members, compareKeys)
		p.sorted = p.sorted[:0]
		for i := range members {
			m := &members[i]
			if i > 0 {
				p.sorted = append(p.sorted, ',')
			}
			at := start + len(p.sorted)
			p.sorted = append(p.sorted, p.dst[m.start:m.end]...)
			*m = member{m.key, at, at + m.value - m.start, at + m.end - m.start}
		}
		copy(p.dst[start:], p.sorted)
	}
	for i := range members[1:] {
		if bytes.Equal(members[i].key, members[i+1].key) {
			return &Error{DuplicateKey, segment(members[i].key), "the key occurs twice"}
		}
	}
	if !p.strict {
		return nil
	}
	const few = 16 // up to here comparing all pairs is faster than folding
	if len(members) <= few {
		for i := range members {
			for k := range i {
				if bytes.EqualFold(members[i].key, members[k].key) {
					return caseVariant(members[i].key)
				}
			}
		}
		return nil
	}
	seen := make(map[string]struct{}, len(members))
	for _, m := range members {
		folded := fold(m.key)
		if _, ok := seen[folded]; ok {
			return caseVariant(m.key)
		}
		seen[folded] = struct{}{}
	}
	return nil
}

func caseVariant(key []byte) *Error {
	return &Error{CaseVariant, segment(key), "the key differs from another one in case only"}
}
