package results

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// A node is a JSON value whose parts can be compared with those of another.
type node struct {
	kind  jsontext.Kind // '{', '[' or 0 for what has no parts
	raw   []byte        // of what has none
	names []string      // of an object's members
	parts []node        // members of an object, elements of an array
}

func parseNode(d *jsontext.Decoder) (n node, err error) {
	switch n.kind = d.PeekKind(); n.kind {
	case '{', '[':
	default:
		n.kind = 0
		raw, err := d.ReadValue()
		n.raw = slices.Clone(raw)
		return n, err
	}
	if _, err := d.ReadToken(); err != nil {
		return n, err
	}
	for d.PeekKind() != '}' && d.PeekKind() != ']' {
		if n.kind == '{' {
			name, err := d.ReadToken()
			if err != nil {
				return n, err
			}
			n.names = append(n.names, name.String())
		}
		part, err := parseNode(d)
		if err != nil {
			return n, err
		}
		n.parts = append(n.parts, part)
	}
	_, err = d.ReadToken()
	return n, err
}

// parseLine reads the one value of a line.
func parseLine(line []byte) (node, error) {
	d := jsontext.NewDecoder(bytes.NewReader(line))
	n, err := parseNode(d)
	if err != nil {
		return n, err
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return n, errors.New("there is more than one value in the line")
	}
	return n, nil
}

// write writes the value without white space.
func (n node) write(b *bytes.Buffer) {
	if n.kind == 0 {
		b.Write(n.raw)
		return
	}
	b.WriteByte(byte(n.kind))
	for i, p := range n.parts {
		if i > 0 {
			b.WriteByte(',')
		}
		if n.kind == '{' {
			writeName(b, n.names[i])
		}
		p.write(b)
	}
	b.WriteByte(byte(n.kind) + 2) // the bracket that ends it, in ASCII
}

func writeName(b *bytes.Buffer, name string) {
	quoted, _ := jsontext.AppendQuote(nil, name) // what a decoder gave is UTF-8
	b.Write(quoted)
	b.WriteByte(':')
}

func (n node) equal(o node) bool {
	return n.kind == o.kind && bytes.Equal(n.raw, o.raw) && slices.Equal(n.names, o.names) && slices.EqualFunc(n.parts, o.parts, node.equal)
}

// objects: an array of nothing but objects, and of at least one.
func (n node) objects() bool {
	return n.kind == '[' && len(n.parts) > 0 && !slices.ContainsFunc(n.parts, func(p node) bool { return p.kind != '{' })
}

// alike reports whether a delta of two values goes into their parts.
func alike(before, n node) bool {
	if n.kind == '{' {
		return before.kind == '{' && slices.Equal(before.names, n.names) && !slices.Contains(n.names, "")
	}
	return n.objects() && before.objects() && len(before.parts) == len(n.parts)
}

// delta writes what differs from the value before. Of an object with the same members
// that is an object of those that differ, of an array of as many objects an array of
// their deltas, and of anything else the value, which for an object stands in a member
// without a name.
func (n node) delta(b *bytes.Buffer, before node) {
	same := alike(before, n)
	switch {
	case n.kind == '{' && !same:
		b.WriteString(`{"":`)
		n.write(b)
		b.WriteByte('}')
	case n.kind == '{':
		b.WriteByte('{')
		first := true
		for i, p := range n.parts {
			if p.equal(before.parts[i]) {
				continue
			}
			if !first {
				b.WriteByte(',')
			}
			first = false
			writeName(b, n.names[i])
			p.delta(b, before.parts[i])
		}
		b.WriteByte('}')
	case same:
		b.WriteByte('[')
		for i, p := range n.parts {
			if i > 0 {
				b.WriteByte(',')
			}
			p.delta(b, before.parts[i])
		}
		b.WriteByte(']')
	default:
		n.write(b)
	}
}

// apply is the value of which d is the delta.
func (d node) apply(before node) (node, error) {
	switch {
	case d.kind == '{' && len(d.names) == 1 && d.names[0] == "":
		return d.parts[0], nil
	case d.kind == '{':
		if before.kind != '{' {
			return d, errors.New("members of what is no object before")
		}
		n := node{kind: '{', names: before.names, parts: slices.Clone(before.parts)}
		for i, name := range d.names {
			at := slices.Index(n.names, name)
			if at < 0 {
				return d, fmt.Errorf("the member %q is not there before", name)
			}
			var err error
			if n.parts[at], err = d.parts[i].apply(before.parts[at]); err != nil {
				return d, err
			}
		}
		return n, nil
	case d.objects() && before.objects() && len(d.parts) == len(before.parts):
		n := node{kind: '['}
		for i, p := range d.parts {
			part, err := p.apply(before.parts[i])
			if err != nil {
				return d, err
			}
			n.parts = append(n.parts, part)
		}
		return n, nil
	}
	return d, nil
}

// linesDelta writes JSON lines, each as its delta from the one before. Lines of one
// shape that have much in common become short. Their white space is lost.
func linesDelta(w io.Writer, lines iter.Seq2[[]byte, error]) error {
	out := bufio.NewWriter(w)
	var before node
	for line, err := range lines {
		if err != nil {
			return err
		}
		n, err := parseLine(line)
		if err != nil {
			return err
		}
		var b bytes.Buffer
		n.delta(&b, before)
		b.WriteByte('\n')
		if _, err := out.Write(b.Bytes()); err != nil {
			return err
		}
		before = n
	}
	return out.Flush()
}

// readLinesDelta reads what [linesDelta] writes, and gives the lines with their ends.
func readLinesDelta(rd io.Reader) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		var before node
		n := 0
		for line, err := range completeLines(rd) {
			n++
			var d, value node
			if err == nil {
				d, err = parseLine(line)
			}
			if err == nil {
				value, err = d.apply(before)
			}
			if err != nil {
				yield(nil, fmt.Errorf("line %d of the delta: %w", n, err))
				return
			}
			var b bytes.Buffer
			value.write(&b)
			b.WriteByte('\n')
			if !yield(b.Bytes(), nil) {
				return
			}
			before = value
		}
	}
}
