package agentdojo

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"countersign/scenarios"
)

//go:embed model.yaml
var modelFile []byte

// A ToolModel says what a tool of the benchmark does, and why that is so.
type ToolModel struct {
	Class ToolKind `yaml:"class"`
	Why   string   `yaml:"why"`
	// Refers has the kind of thing that an argument names and that others keep.
	Refers map[string]string `yaml:"refers"`
	// Roles are the arguments that matter most, by what they are to an attack.
	Roles map[scenarios.Role][]string `yaml:"roles"`
}

// A Model has the tools by suite and "/" and tool. A tool that it lacks counts as
// side-effecting, see [Kinds].
type Model map[string]ToolModel

// Kinds are the classes of the model's tools.
func (m Model) Kinds() Kinds {
	out := Kinds{}
	for name, t := range m {
		out[name] = t.Class
	}
	return out
}

var embeddedModel = sync.OnceValues(func() (Model, error) { return parseModel(modelFile) })

// TheModel is the model of the benchmark's own suites. It panics when that is
// malformed, which a test rules out.
func TheModel() Model {
	m, err := embeddedModel()
	if err != nil {
		panic("agentdojo: " + err.Error())
	}
	return maps.Clone(m)
}

// LoadModel reads a model of other tools, in the form of model.yaml.
func LoadModel(file string) (Model, error) {
	data, err := readFile(file)
	if err != nil {
		return nil, &FileError{Path: file, Err: err}
	}
	m, err := parseModel(data)
	if err != nil {
		return nil, &FileError{Path: file, Err: err}
	}
	return m, nil
}

func parseModel(text []byte) (Model, error) {
	m := Model{}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&m); err != nil {
		return nil, fmt.Errorf("reading a model of tools: %w", err)
	}
	if len(m) == 0 {
		return nil, errors.New("reading a model of tools: it has none")
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if err := m[name].check(); err != nil {
			return nil, fmt.Errorf("reading a model of tools: %s: %w", name, err)
		}
		if suite, tool, _ := strings.Cut(name, "/"); suite == "" || tool == "" {
			return nil, fmt.Errorf("reading a model of tools: %s: want suite/tool", name)
		}
	}
	return m, nil
}

func (t ToolModel) check() error {
	writes := t.Class != KindRead && t.Class != KindMark
	switch {
	case !slices.Contains([]ToolKind{KindRead, KindMark, KindEgress, KindInside, KindReach}, t.Class):
		return fmt.Errorf("unknown class %q", t.Class)
	case strings.TrimSpace(t.Why) == "":
		return errors.New("no reason is given for its class")
	case writes != (len(t.Roles) > 0):
		return errors.New("roles are for a tool with a side effect, and each of these has some")
	}
	for role, names := range t.Roles {
		if !slices.Contains(scenarios.Roles(), role) || len(names) == 0 {
			return fmt.Errorf("role %q is unknown or has no argument", role)
		}
		for _, n := range names {
			if (role == scenarios.RoleReference) != (t.Refers[n] != "") {
				return fmt.Errorf("%s is a reference in roles or in refers, and not in both", n)
			}
		}
	}
	for n := range t.Refers {
		if !slices.Contains(t.Roles[scenarios.RoleReference], n) {
			return fmt.Errorf("%s refers to something and has not the role of a reference", n)
		}
	}
	return nil
}
