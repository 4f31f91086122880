package agentdojo

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"

	"countersign/gateway/api"
)

// A Catalogue is one version of the benchmark: per suite the tools with their
// schemas, and the tasks with their reference calls.
type Catalogue struct {
	Version string // such as "v1.1.2"
	suites  map[string]*suite
}

type suite struct {
	tools     []toolSpec
	fields    map[string][]api.Field // by tool
	user      map[string]*Task
	injection map[string]*Task
}

type toolSpec struct {
	name     string
	fields   []api.Field
	required []string
	notes    []string
}

// A Task is a user task or an injection task.
type Task struct {
	ID     string
	Prompt string // the user's request; for an injection task its goal
	// Calls are the reference calls that solve the task, in order.
	Calls []Reference
}

// A Reference is one reference call of a task.
type Reference struct {
	Tool string
	Args map[string]json.RawMessage
	// Computed names the arguments whose value the reference finds at run time.
	Computed map[string]bool
}

// LoadCatalogue reads a catalogue file. Errors name the file.
func LoadCatalogue(file string) (*Catalogue, error) {
	data, err := readFile(file)
	if err != nil {
		return nil, &FileError{Path: file, Err: err}
	}
	c, err := parseCatalogue(data)
	if err != nil {
		return nil, &FileError{Path: file, Err: fmt.Errorf("not a catalogue: %w", err)}
	}
	return c, nil
}

func parseCatalogue(data []byte) (*Catalogue, error) {
	type task struct {
		ID     string `json:"id"`
		Prompt string `json:"prompt"`
		Goal   string `json:"goal"`
		Calls  []struct {
			Function    string                     `json:"function"`
			Args        map[string]json.RawMessage `json:"args"`
			Placeholder map[string]json.RawMessage `json:"placeholder_args"`
		} `json:"ground_truth"`
	}
	var file struct {
		Version string `json:"benchmark_version"`
		Suites  map[string]struct {
			Tools []struct {
				Name   string          `json:"name"`
				Schema json.RawMessage `json:"json_schema"`
			} `json:"tools"`
			User      []task `json:"user_tasks"`
			Injection []task `json:"injection_tasks"`
		} `json:"suites"`
	}
	// Version 2 of package json matches names exactly and refuses one that is there
	// twice: of two suites of one name, a reader must not choose.
	if err := jsonv2.Unmarshal(data, &file); err != nil {
		return nil, err
	}
	if file.Version == "" || len(file.Suites) == 0 {
		return nil, errors.New("want the members benchmark_version and suites, neither empty")
	}
	c := &Catalogue{Version: file.Version, suites: map[string]*suite{}}
	for _, name := range slices.Sorted(maps.Keys(file.Suites)) {
		// The classes name a tool "suite/tool", which has to mean one.
		if name == "" || strings.Contains(name, "/") {
			return nil, fmt.Errorf("suite %q: want a name without a slash", name)
		}
		fs := file.Suites[name]
		s := &suite{fields: map[string][]api.Field{}}
		for _, t := range fs.Tools {
			if _, twice := s.fields[t.Name]; twice || t.Name == "" {
				return nil, fmt.Errorf("suite %s: tool name %q is empty or not unique", name, t.Name)
			}
			spec, err := parseSchema(t.Name, t.Schema)
			if err != nil {
				return nil, fmt.Errorf("suite %s: tool %s: json_schema: %w", name, t.Name, err)
			}
			s.tools = append(s.tools, spec)
			s.fields[t.Name] = spec.fields
		}
		tasks := func(list []task) (map[string]*Task, error) {
			m := map[string]*Task{}
			for _, ft := range list {
				if m[ft.ID] != nil || ft.ID == "" {
					return nil, fmt.Errorf("suite %s: task id %q is empty or not unique", name, ft.ID)
				}
				t := &Task{ID: ft.ID, Prompt: cmpOr(ft.Prompt, ft.Goal)}
				for _, fc := range ft.Calls {
					if _, ok := s.fields[fc.Function]; !ok {
						return nil, fmt.Errorf("suite %s: %s: ground truth calls %q, which is no tool of the suite", name, ft.ID, fc.Function)
					}
					r := Reference{Tool: fc.Function, Args: fc.Args, Computed: map[string]bool{}}
					for arg, p := range fc.Placeholder {
						if !sameJSON(p, fc.Args[arg]) {
							r.Computed[arg] = true
						}
					}
					t.Calls = append(t.Calls, r)
				}
				m[ft.ID] = t
			}
			return m, nil
		}
		var err error
		if s.user, err = tasks(fs.User); err != nil {
			return nil, err
		}
		if s.injection, err = tasks(fs.Injection); err != nil {
			return nil, err
		}
		if len(s.tools) == 0 || len(s.user) == 0 {
			return nil, fmt.Errorf("suite %s has no tools or no user tasks", name)
		}
		c.suites[name] = s
	}
	return c, nil
}

// Suites returns the names of the suites, sorted.
func (c *Catalogue) Suites() []string { return slices.Sorted(maps.Keys(c.suites)) }

// Pairs counts the pairs of a user task and an injection task, over all suites.
func (c *Catalogue) Pairs() int {
	n := 0
	for _, s := range c.suites {
		n += len(s.user) * len(s.injection)
	}
	return n
}

// ErrNotInCatalogue: the trace's suite or one of its tasks is not in this version
// of the benchmark, so nothing can be said about whose calls it holds.
var ErrNotInCatalogue = errors.New("not in the catalogue")

// tasks looks the trace's tasks up; injection is nil without an injection. An
// injection goal that was run as the user's own task is the user task.
func (c *Catalogue) tasks(t *Trace) (s *suite, user, injection *Task, err error) {
	missing := func(what string) error {
		return fmt.Errorf("%s/%s of %s: %w %s", t.Suite, what, t.Path, ErrNotInCatalogue, c.Version)
	}
	s = c.suites[t.Suite]
	if s == nil {
		return nil, nil, nil, missing("*")
	}
	if user = s.user[t.UserTask]; user == nil {
		user = s.injection[t.UserTask]
	}
	if user == nil {
		return nil, nil, nil, missing(t.UserTask)
	}
	if t.InjectionTask != "" {
		if injection = s.injection[t.InjectionTask]; injection == nil {
			return nil, nil, nil, missing(t.InjectionTask)
		}
	}
	return s, user, injection, nil
}

// parseSchema reads the JSON schema of a tool's parameters. The order of the
// properties is the order of the fields.
func parseSchema(tool string, schema json.RawMessage) (toolSpec, error) {
	spec := toolSpec{name: tool}
	o, err := object(schema)
	if err != nil {
		return spec, err
	}
	var defs map[string]json.RawMessage
	if raw, ok := o["$defs"]; ok {
		if err := jsonv2.Unmarshal(raw, &defs); err != nil {
			return spec, err
		}
	}
	if raw, ok := o["required"]; ok {
		if err := jsonv2.Unmarshal(raw, &spec.required); err != nil {
			return spec, err
		}
	}
	properties := []member(nil)
	if raw, ok := o["properties"]; ok {
		if properties, err = members(raw); err != nil {
			return spec, err
		}
	}
	for _, p := range properties {
		var prop struct {
			Title   string          `json:"title"`
			Default json.RawMessage `json:"default"`
		}
		if err := jsonv2.Unmarshal(p.raw, &prop); err != nil {
			return spec, fmt.Errorf("property %s: %w", p.name, err)
		}
		typ, nullable, odd := fieldType(p.raw, defs)
		if odd != "" {
			spec.notes = append(spec.notes, fmt.Sprintf("%s.%s: %s is described as a string", tool, p.name, odd))
		}
		f := api.Field{
			Name: p.name, Label: cmpOr(prop.Title, p.name), Type: typ, Material: true,
			Required: slices.Contains(spec.required, p.name) && !nullable,
		}
		if len(prop.Default) > 0 && string(prop.Default) != "null" {
			f.Default = string(prop.Default)
		}
		spec.fields = append(spec.fields, f)
	}
	for _, name := range spec.required {
		if !slices.ContainsFunc(spec.fields, func(f api.Field) bool { return f.Name == name }) {
			return spec, fmt.Errorf("required names %q, which is no property", name)
		}
	}
	return spec, nil
}

// fieldType maps a property to a field type. nullable says that null is allowed;
// odd describes a type that fields cannot express.
func fieldType(raw json.RawMessage, defs map[string]json.RawMessage) (typ api.FieldType, nullable bool, odd string) {
	var p struct {
		Type  string            `json:"type"`
		Ref   string            `json:"$ref"`
		AnyOf []json.RawMessage `json:"anyOf"`
		Items struct {
			Type string `json:"type"`
		} `json:"items"`
	}
	if err := jsonv2.Unmarshal(raw, &p); err != nil {
		return api.TypeString, false, "a property that is not an object or has no single type"
	}
	switch {
	case p.Ref != "":
		name, _ := strings.CutPrefix(p.Ref, "#/$defs/")
		def, ok := defs[name]
		if !ok {
			return api.TypeString, false, "the unknown definition " + p.Ref
		}
		delete(defs, name) // a definition that refers to itself ends here
		typ, nullable, odd = fieldType(def, defs)
		defs[name] = def
		return typ, nullable, odd
	case len(p.AnyOf) > 0:
		var rest []json.RawMessage
		for _, alternative := range p.AnyOf {
			var a struct {
				Type string `json:"type"`
			}
			if jsonv2.Unmarshal(alternative, &a) == nil && a.Type == "null" {
				nullable = true
				continue
			}
			rest = append(rest, alternative)
		}
		if len(rest) != 1 {
			return api.TypeString, nullable, fmt.Sprintf("a choice of %d types", len(rest))
		}
		typ, _, odd = fieldType(rest[0], defs)
		return typ, nullable, odd
	case p.Type == "array" && p.Items.Type == "string":
		return api.TypeStrings, false, ""
	case p.Type == "array":
		return api.TypeString, false, "a list of " + cmpOr(p.Items.Type, "unknown") + "s"
	case p.Type == "string" || p.Type == "integer" || p.Type == "number" || p.Type == "boolean":
		return api.FieldType(p.Type), false, ""
	}
	return api.TypeString, false, "a value of type " + cmpOr(p.Type, "unknown")
}
