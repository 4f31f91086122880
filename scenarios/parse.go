package scenarios

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"countersign/gateway/api"

	"go.yaml.in/yaml/v3"
)

// file is the YAML form. Every member is needed.
type file struct {
	ID              string                                     `yaml:"id"`
	Title           string                                     `yaml:"title"`
	Story           string                                     `yaml:"story"`
	Task            string                                     `yaml:"task"`
	Audience        string                                     `yaml:"audience"`
	SiblingAudience string                                     `yaml:"sibling_audience"`
	Reader          string                                     `yaml:"reader"`
	Tools           []api.Tool                                 `yaml:"tools"`
	SiblingTool     string                                     `yaml:"sibling_tool"`
	Records         map[string]map[string]map[string]yaml.Node `yaml:"records"`
	Honest          struct {
		Tool      string    `yaml:"tool"`
		Arguments yaml.Node `yaml:"arguments"`
	} `yaml:"honest"`
	Free          []string             `yaml:"free"`
	Roles         map[Role]string      `yaml:"roles"`
	Hostile       map[string]yaml.Node `yaml:"hostile"`
	NotApplicable map[Role]string      `yaml:"not_applicable"`
}

var topLevel = []string{
	"id", "title", "story", "task", "audience", "sibling_audience", "reader", "tools", "sibling_tool",
	"records", "honest", "free", "roles", "hostile", "not_applicable",
}

// Parse reads one scenario file and validates it. name is used in errors, and its
// last element must be the id with ".yaml". An error names the file and the
// member that is wrong, unknown or missing.
func Parse(name string, text []byte) (*Scenario, error) {
	s, err := parse(text)
	if err == nil {
		err = s.Validate()
	}
	if err == nil && path.Base(name) != s.ID+".yaml" {
		err = fmt.Errorf("id: %q does not fit the file's name", s.ID)
	}
	if err != nil {
		return nil, fmt.Errorf("scenario %s: %w", name, err)
	}
	s.digest = fmt.Sprintf("%x", sha256.Sum256(text))
	return s, nil
}

func parse(text []byte) (*Scenario, error) {
	present := make(map[string]yaml.Node)
	dec := yaml.NewDecoder(bytes.NewReader(text))
	if err := dec.Decode(&present); err != nil {
		return nil, err
	}
	var more yaml.Node
	if err := dec.Decode(&more); err != io.EOF {
		return nil, fmt.Errorf("there is more than one document")
	}
	for _, m := range slices.Sorted(maps.Keys(present)) {
		if !slices.Contains(topLevel, m) {
			return nil, fmt.Errorf("%s: unknown member", m)
		}
	}
	for _, m := range topLevel {
		if _, ok := present[m]; !ok {
			return nil, fmt.Errorf("%s: missing member", m)
		}
	}
	var f file
	dec = yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&f); err != nil {
		return nil, err
	}

	s := &Scenario{
		ID: f.ID, Title: f.Title, Story: strings.TrimSpace(f.Story), task: strings.TrimSpace(f.Task),
		Audience: f.Audience, Sibling: f.SiblingAudience, Reader: f.Reader,
		HonestTool: f.Honest.Tool, SiblingTool: f.SiblingTool,
		Fields: f.Roles, NotApplicable: f.NotApplicable,
		tools: f.Tools, free: f.Free,
		Records: make(map[string]map[string]map[string]json.RawMessage),
		hostile: make(map[Role]json.RawMessage),
	}
	for kind, byID := range f.Records {
		s.Records[kind] = make(map[string]map[string]json.RawMessage)
		for id, m := range byID {
			var err error
			if s.Records[kind][id], err = jsonMembers(m); err != nil {
				return nil, fmt.Errorf("records: %s/%s: %w", kind, id, err)
			}
		}
	}
	if err := s.parseArguments(&f.Honest.Arguments); err != nil {
		return nil, fmt.Errorf("honest: arguments: %w", err)
	}
	for name, node := range f.Hostile {
		if name == "drift" {
			var m map[string]yaml.Node
			err := node.Decode(&m)
			if err == nil {
				s.drift, err = jsonMembers(m)
			}
			if err != nil {
				return nil, fmt.Errorf("hostile: drift: %w", err)
			}
			continue
		}
		text, err := jsonText(&node)
		if err != nil {
			return nil, fmt.Errorf("hostile: %s: %w", name, err)
		}
		s.hostile[Role(name)] = text
	}
	return s, nil
}

// parseArguments keeps the order of the file, which is the order of the JSON text.
func (s *Scenario) parseArguments(n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("not a mapping of field names")
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i].Value
		if slices.ContainsFunc(s.arguments, func(a argument) bool { return a.name == name }) {
			return fmt.Errorf("%s: given twice", name)
		}
		a, err := parseArgument(n.Content[i+1])
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		a.name = name
		s.arguments = append(s.arguments, a)
	}
	return nil
}

func parseArgument(n *yaml.Node) (argument, error) {
	if n.Kind != yaml.MappingNode {
		text, err := jsonText(n)
		return argument{literal: text}, err
	}
	if len(n.Content) != 2 || n.Content[1].Kind != yaml.SequenceNode || len(n.Content[1].Content) == 0 {
		return argument{}, fmt.Errorf("a generator is one of {int: [lo, hi]}, {choice: [values]}, {text: [templates]}")
	}
	var a argument
	kind, list := n.Content[0].Value, n.Content[1]
	switch kind {
	case "int":
		var bounds []int64
		if err := list.Decode(&bounds); err != nil {
			return a, err
		}
		if len(bounds) != 2 || bounds[0] >= bounds[1] || bounds[0] < -maxBound || bounds[1] > maxBound {
			return a, fmt.Errorf("int: bounds must be two integers, lo < hi, within ±%d", maxBound)
		}
		a.lo, a.hi = bounds[0], bounds[1]
	case "choice":
		for _, c := range list.Content {
			text, err := jsonText(c)
			if err != nil {
				return a, err
			}
			a.choice = append(a.choice, text)
		}
	case "text":
		if err := list.Decode(&a.text); err != nil {
			return a, err
		}
		for _, t := range a.text {
			for _, m := range span.FindAllString(t, -1) {
				if lo, hi := spanOf(m); lo >= hi {
					return a, fmt.Errorf("text: %s is an empty range", m)
				}
			}
			if strings.ContainsAny(span.ReplaceAllString(t, ""), "{}") {
				return a, fmt.Errorf("text: %q has a brace that is no {lo..hi}", t)
			}
		}
	default:
		return a, fmt.Errorf("%s: unknown generator", kind)
	}
	return a, nil
}

// maxBound keeps generated integers far inside 2^53, so that an honest value has
// one reading everywhere.
const maxBound = 1_000_000_000_000

func jsonMembers(m map[string]yaml.Node) (map[string]json.RawMessage, error) {
	out := make(map[string]json.RawMessage)
	for name, node := range m {
		text, err := jsonText(&node)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out[name] = text
	}
	return out, nil
}

// jsonText turns a YAML string, integer, number, boolean or list of strings into
// JSON text.
func jsonText(n *yaml.Node) (json.RawMessage, error) {
	if n.Kind == yaml.SequenceNode {
		list := []json.RawMessage{}
		for _, e := range n.Content {
			if e.Kind != yaml.ScalarNode || e.ShortTag() != "!!str" {
				return nil, fmt.Errorf("line %d: a list holds strings only", e.Line)
			}
			list = append(list, quote(e.Value))
		}
		return json.Marshal(list)
	}
	if n.Kind == yaml.ScalarNode {
		switch n.ShortTag() {
		case "!!str":
			return quote(n.Value), nil
		case "!!int":
			var i int64
			if err := n.Decode(&i); err != nil {
				return nil, err
			}
			return strconv.AppendInt(nil, i, 10), nil
		case "!!float":
			var f float64
			if err := n.Decode(&f); err != nil {
				return nil, err
			}
			if !math.IsInf(f, 0) && !math.IsNaN(f) {
				return json.Marshal(f)
			}
		case "!!bool":
			var b bool
			if err := n.Decode(&b); err != nil {
				return nil, err
			}
			return json.Marshal(b)
		}
	}
	return nil, fmt.Errorf("line %d: not a string, number, boolean or list of strings (quote it if it is text)", n.Line)
}

// quote writes a string as JSON without the escapes for HTML.
func quote(s string) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic("scenarios: encoding a string: " + err.Error()) // no string fails
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}
