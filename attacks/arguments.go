package attacks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/gowebpki/jcs"
)

// Arguments is a JSON object as text that keeps the order of its members, so
// that a script changes what it means to change and nothing else.
type Arguments []member

type member struct {
	Name  string
	Value json.RawMessage
}

// ParseArguments reads the members of a JSON object in order.
func ParseArguments(text []byte) (Arguments, error) {
	if !json.Valid(text) {
		return nil, errors.New("reading arguments: not a JSON text")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("reading arguments: not a JSON object")
	}
	var out Arguments
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("reading arguments: %w", err)
		}
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return nil, fmt.Errorf("reading arguments: %w", err)
		}
		out = append(out, member{t.(string), v})
	}
	return out, nil
}

// Get returns the value of a member, nil when there is none.
func (a Arguments) Get(name string) json.RawMessage {
	for _, m := range a {
		if m.Name == name {
			return m.Value
		}
	}
	return nil
}

// With returns a copy with the member set, in place or at the end.
func (a Arguments) With(name string, value json.RawMessage) Arguments {
	out := append(Arguments(nil), a...)
	for i := range out {
		if out[i].Name == name {
			out[i].Value = value
			return out
		}
	}
	return append(out, member{name, value})
}

// Without returns a copy without the member.
func (a Arguments) Without(name string) Arguments {
	var out Arguments
	for _, m := range a {
		if m.Name != name {
			out = append(out, m)
		}
	}
	return out
}

// Before returns a copy with one more member at the front, even if there is one
// of that name.
func (a Arguments) Before(name string, value json.RawMessage) Arguments {
	return append(Arguments{{name, value}}, a...)
}

// After returns a copy with one more member at the end, even if there is one of
// that name.
func (a Arguments) After(name string, value json.RawMessage) Arguments {
	return append(append(Arguments(nil), a...), member{name, value})
}

// Text writes the object compactly.
func (a Arguments) Text() []byte { return a.spaced("", "") }

// Respelled writes the same values differently: members in reverse, white space,
// letters as escapes, integers with a fraction of zero.
func (a Arguments) Respelled() []byte {
	var out Arguments
	for i := len(a) - 1; i >= 0; i-- {
		v := a[i].Value
		var s string
		switch {
		case json.Unmarshal(v, &s) == nil && s != "" && s[0] < 0x80:
			rest, _ := json.Marshal(s[1:])
			v = fmt.Appendf(nil, `"\u%04x%s`, s[0], rest[1:])
		case len(v) > 0 && strings.IndexByte("-0123456789", v[0]) >= 0 && !bytes.ContainsAny(v, ".eE"):
			v = fmt.Appendf(nil, "%s.0", v)
		}
		out = append(out, member{a[i].Name, v})
	}
	return out.spaced("\n\t", " ")
}

// Reordered writes the same members in reverse, with white space.
func (a Arguments) Reordered() []byte {
	var out Arguments
	for i := len(a) - 1; i >= 0; i-- {
		out = append(out, a[i])
	}
	return out.spaced("\n  ", " ")
}

func (a Arguments) spaced(before, between string) []byte {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range a {
		if i > 0 {
			b.WriteByte(',')
		}
		name, _ := json.Marshal(m.Name)
		fmt.Fprintf(&b, "%s%s:%s%s", before, name, between, m.Value)
	}
	b.WriteString(before + "}")
	return b.Bytes()
}

// canonicalText is the RFC 8785 form, as anyone who reads the standard can make it.
func canonicalText(text []byte) ([]byte, error) { return jcs.Transform(text) }

// quoted is a string as JSON text, without HTML escapes.
func quoted(s string) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // strings always encode
	return bytes.TrimSpace(b.Bytes())
}
