package modes

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"countersign/gateway/api"

	"go.yaml.in/yaml/v3"
)

// A Table is a set of modes to choose from.
type Table []Mode

// composedID is what a composed mode may be called. A dash would be read as an
// ablation.
var composedID = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.+]{0,99}$`)

// Compose returns a mode of the given bindings, carried as the reference design
// carries its approval.
func Compose(id string, bs ...api.Binding) (Mode, error) {
	for _, b := range bs {
		if err := known(b); err != nil {
			return Mode{}, fmt.Errorf("composing mode %s: %w", id, err)
		}
	}
	return Mode{ID: id, Name: id, Title: "composed of named bindings", Carrier: CarryBound, Bindings: NewSet(bs...)}, nil
}

func known(b api.Binding) error {
	if !slices.Contains(api.Bindings(), b) {
		return fmt.Errorf("there is no binding %q; the bindings are %s", b, NewSet(api.Bindings()...))
	}
	return nil
}

// ParseComposed reads "NAME=args,once". Without a name the bindings, joined by
// plus signs, are the name.
func ParseComposed(text string) (Mode, error) {
	id, list, named := strings.Cut(text, "=")
	if !named {
		list = text
		id = strings.ReplaceAll(list, ",", "+")
	}
	var bs []api.Binding
	for name := range strings.SplitSeq(list, ",") {
		b := api.Binding(strings.TrimSpace(name))
		if slices.Contains(bs, b) {
			return Mode{}, fmt.Errorf("composing mode %q: the binding %s is named twice", text, b)
		}
		bs = append(bs, b)
	}
	if named {
		id = strings.TrimSpace(id)
	} else {
		id = strings.ReplaceAll(id, " ", "") // blanks of the list
	}
	m, err := Compose(id, bs...)
	if err == nil {
		err = m.checkComposed()
	}
	if err != nil {
		return Mode{}, err
	}
	return m, nil
}

// checkComposed reports what a mode that somebody composes must not be.
func (m Mode) checkComposed() error {
	_, carried := carriers[m.Carrier]
	switch {
	case !composedID.MatchString(m.ID):
		return fmt.Errorf("composing mode %q: its id must begin with a letter and hold letters, digits and _ . + only", m.ID)
	case !carried || m.Carrier == CarryNothing:
		return fmt.Errorf("composing mode %s: there is no carrier %q; the carriers are %s", m.ID, m.Carrier, strings.Join(carrierNames(), ", "))
	case len(m.Bindings) == 0:
		return fmt.Errorf("composing mode %s: it has no bindings, so it would check nothing", m.ID)
	}
	return nil
}

// carrierNames lists the carriers that transport an approval or find one.
func carrierNames() []string {
	var out []string
	for name := range carriers {
		if name != CarryNothing {
			out = append(out, string(name))
		}
	}
	slices.Sort(out)
	return out
}

// maxModes bounds a text of modes, in bytes.
const maxModes = 1 << 20

// tableRow is a mode in YAML form.
type tableRow struct {
	ID         text      `yaml:"id"`
	Name       string    `yaml:"name"`
	Title      string    `yaml:"title"`
	Carrier    *text     `yaml:"carrier"`
	Bindings   []binding `yaml:"bindings"`
	ModelledOn string    `yaml:"modelled_on"`
}

// text is a string that knows its line.
type text struct {
	value string
	line  int
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (t *text) UnmarshalYAML(n *yaml.Node) error {
	t.line = n.Line
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
		return fmt.Errorf("line %d: want a text", n.Line)
	}
	t.value = n.Value
	return nil
}

// binding is the name of one that exists.
type binding struct{ text }

// UnmarshalYAML implements yaml.Unmarshaler.
func (b *binding) UnmarshalYAML(n *yaml.Node) error {
	err := b.text.UnmarshalYAML(n)
	if err == nil {
		if err = known(api.Binding(b.value)); err != nil {
			err = fmt.Errorf("line %d: %w", n.Line, err)
		}
	}
	return err
}

// Parse reads further modes from a YAML text: a list of
//
//   - id: mine                # letters, digits and _ . +
//     name: my design         # optional, as are title and modelled_on
//     title: what it does
//     carrier: bound          # optional; how the approval travels
//     bindings: [record, args, once]
//     modelled_on: where it is described
//
// An error names the line.
func Parse(data []byte) ([]Mode, error) {
	if len(data) > maxModes {
		return nil, fmt.Errorf("it is larger than %d MiB", maxModes>>20)
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	var rows []tableRow
	if err := dec.Decode(&rows); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("the file is empty")
		}
		return nil, err
	}
	var more yaml.Node
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one document")
	}
	if len(rows) == 0 {
		return nil, errors.New("there is no mode in it")
	}
	var out []Mode
	for i, r := range rows {
		if r.ID.value == "" {
			return nil, fmt.Errorf("mode %d of the list has no id", i+1)
		}
		m := Mode{ID: r.ID.value, Name: r.Name, Title: r.Title, ModelledOn: r.ModelledOn, Carrier: CarryBound, Bindings: Set{}}
		line := r.ID.line
		if m.Name == "" {
			m.Name = m.ID
		}
		if m.Title == "" {
			m.Title = "composed of named bindings"
		}
		if r.Carrier != nil {
			m.Carrier, line = CarrierName(r.Carrier.value), r.Carrier.line
		}
		for _, b := range r.Bindings {
			if m.Bindings[api.Binding(b.value)] {
				return nil, fmt.Errorf("line %d: mode %s has the binding %s already", b.line, m.ID, b.value)
			}
			m.Bindings[api.Binding(b.value)] = true
		}
		if err := m.checkComposed(); err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		out = append(out, m)
	}
	return out, nil
}

// With returns the table with further modes, whose ids and names must be new.
func (t Table) With(more ...Mode) (Table, error) {
	out := slices.Clone(t)
	for _, m := range more {
		for _, old := range out {
			for _, key := range []string{m.ID, m.Name} {
				if strings.EqualFold(old.ID, key) || strings.EqualFold(old.Name, key) {
					return nil, fmt.Errorf("composing mode %s: there is a mode %s already", m.ID, key)
				}
			}
		}
		out = append(out, m)
	}
	return out, nil
}

// Get returns the mode with the given id or name, and accepts the ablation form
// "M9-args-once".
func (t Table) Get(id string) (Mode, error) {
	base, rest, ablated := strings.Cut(id, "-")
	for _, m := range t {
		if !strings.EqualFold(m.ID, base) && m.Name != base {
			continue
		}
		if !ablated {
			return m, nil
		}
		var bs []api.Binding
		for name := range strings.SplitSeq(rest, "-") {
			b := api.Binding(name)
			if !m.Bindings[b] {
				return Mode{}, fmt.Errorf("mode %s: %s has no binding %q to leave out; it has %s", id, m.ID, name, m.Bindings)
			}
			if slices.Contains(bs, b) {
				return Mode{}, fmt.Errorf("mode %s: the binding %s is left out twice", id, b)
			}
			bs = append(bs, b)
		}
		return m.Without(bs...), nil
	}
	var ids []string
	for _, m := range t {
		ids = append(ids, m.ID)
	}
	return Mode{}, fmt.Errorf("there is no mode %q; the modes are %s, and M9-args is M9 without args", id, strings.Join(ids, ", "))
}
