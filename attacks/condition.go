package attacks

import (
	"fmt"
	"slices"
	"strings"

	"countersign/gateway/api"
)

// A Condition is a monotone boolean expression over bindings, with & | and
// parentheses, and over facts about the provider, written @idempotent,
// @lookup-only and @none. It says what stops an attack: a mode blocks a variant
// iff its bindings satisfy the condition. There is no negation, so that no
// binding can ever help an attack.
type Condition struct {
	text string
	root node
}

type node struct {
	op       byte // '&', '|', or 0 for a leaf
	name     string
	children []node
}

// maxCondition bounds a condition, and so how deep its brackets go: stored runs
// may come from anybody.
const maxCondition = 2000

// ParseCondition reads a condition.
func ParseCondition(text string) (Condition, error) {
	if len(text) > maxCondition {
		return Condition{}, fmt.Errorf("condition of %d bytes, which is more than %d", len(text), maxCondition)
	}
	p := &conditionParser{rest: text}
	n, err := p.parse('|')
	if err == nil && p.peek() != "" {
		err = fmt.Errorf("unexpected %q", p.peek())
	}
	if err != nil {
		return Condition{}, fmt.Errorf("condition %q: %w", text, err)
	}
	return Condition{text, n}, nil
}

func stopped(text string) Condition {
	c, err := ParseCondition(text)
	if err != nil {
		panic("attacks: " + err.Error())
	}
	return c
}

func (c Condition) String() string { return c.text }

// Holds reports whether bindings and facts satisfy the condition. The zero
// condition never holds.
func (c Condition) Holds(bindings []api.Binding, facts ...string) bool {
	return c.root.holds(bindings, facts)
}

// Bindings returns the bindings that the condition mentions.
func (c Condition) Bindings() []api.Binding {
	var out []api.Binding
	for _, b := range api.Bindings() {
		if c.root.mentions(string(b)) {
			out = append(out, b)
		}
	}
	return out
}

func (n node) holds(bindings []api.Binding, facts []string) bool {
	switch n.op {
	case '&':
		return !slices.ContainsFunc(n.children, func(c node) bool { return !c.holds(bindings, facts) })
	case '|':
		return slices.ContainsFunc(n.children, func(c node) bool { return c.holds(bindings, facts) })
	}
	if fact, ok := strings.CutPrefix(n.name, "@"); ok {
		return slices.Contains(facts, fact)
	}
	return api.Enforces(bindings, api.Binding(n.name))
}

func (n node) mentions(name string) bool {
	return n.name == name || slices.ContainsFunc(n.children, func(c node) bool { return c.mentions(name) })
}

type conditionParser struct{ rest string }

// peek returns the next token without taking it.
func (p *conditionParser) peek() string {
	p.rest = strings.TrimLeft(p.rest, " ")
	if p.rest == "" {
		return ""
	}
	if end := strings.IndexAny(p.rest, " &|()"); end > 0 {
		return p.rest[:end]
	} else if end == 0 {
		return p.rest[:1]
	}
	return p.rest
}

func (p *conditionParser) take() string {
	t := p.peek()
	p.rest = p.rest[len(t):]
	return t
}

func (p *conditionParser) parse(op byte) (node, error) {
	operand := func() (node, error) {
		if op == '|' {
			return p.parse('&')
		}
		return p.leaf()
	}
	first, err := operand()
	if err != nil {
		return node{}, err
	}
	n := node{op: op, children: []node{first}}
	for p.peek() == string(op) {
		p.take()
		next, err := operand()
		if err != nil {
			return node{}, err
		}
		n.children = append(n.children, next)
	}
	if len(n.children) == 1 {
		return first, nil
	}
	return n, nil
}

func (p *conditionParser) leaf() (node, error) {
	t := p.take()
	switch {
	case t == "(":
		n, err := p.parse('|')
		if err != nil {
			return node{}, err
		}
		if closing := p.take(); closing != ")" {
			return node{}, fmt.Errorf("expected ) and found %q", closing)
		}
		return n, nil
	case slices.Contains(api.Bindings(), api.Binding(t)):
	case t == "@"+string(api.GuaranteeIdempotent), t == "@"+string(api.GuaranteeLookup), t == "@"+string(api.GuaranteeNone):
	default:
		return node{}, fmt.Errorf("%q is neither a binding nor a fact", t)
	}
	return node{name: t}, nil
}
