// Package scenarios holds the everyday actions on which the lab tries its
// attacks: who wants what, over which tools, with which reference data, and which
// values would hurt. A scenario is one YAML file in data; README.md says how to
// add one.
//
// A scenario names fields of its honest tool by [Role], so that one attack, which
// says "change the quantity", runs on every scenario that has one. It says
// nothing about gates or attacks.
package scenarios

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"

	"countersign/gateway/api"
)

// A Role is what a field of the honest tool is to an attack.
type Role string

const (
	RoleQuantity    Role = "quantity"    // how much: an integer or number, in the summary
	RoleUnit        Role = "unit"        // of what: one of few strings, in the summary
	RoleDestination Role = "destination" // where to: a plain string, in the summary
	RoleText        Role = "text"        // free text that matters, in the summary
	RoleReference   Role = "reference"   // points into reference data
	RoleList        Role = "list"        // strings that matter, more than a summary shows, in the summary
	RoleSecret      Role = "secret"      // a string that products mask, in the summary
	RoleHidden      Role = "hidden"      // optional, not in the summary, absent from honest calls
	RoleDefaulted   Role = "defaulted"   // has a default, which honest calls override
)

// Roles returns every role.
func Roles() []Role {
	return []Role{RoleQuantity, RoleUnit, RoleDestination, RoleText, RoleReference, RoleList, RoleSecret, RoleHidden, RoleDefaulted}
}

// A Scenario is one validated data file. Treat it as read-only: [All] hands out
// the same values to everyone.
type Scenario struct {
	ID    string // lower case, as in the file's name
	Title string
	Story string // the situation, for people
	// Audience is the service; Sibling offers the same tools under other names of
	// its own and shares key material with it.
	Audience, Sibling string
	// Reader says how the service reads JSON; see the readers of package provider.
	Reader string
	// Records is the reference data: kind → id → member → JSON text.
	Records map[string]map[string]map[string]json.RawMessage
	// HonestTool is the tool the agent is meant to call; SiblingTool has exactly
	// its fields and another meaning.
	HonestTool, SiblingTool string
	// Fields maps a role to a field of the honest tool. Every other role is in
	// NotApplicable with the reason.
	Fields        map[Role]string
	NotApplicable map[Role]string

	task      string
	tools     []api.Tool // without audience
	arguments []argument
	free      []string
	hostile   map[Role]json.RawMessage
	drift     map[string]json.RawMessage
	rival     Rival
	digest    string
}

// Digest is the SHA-256 of the scenario's file, in hex. Results name what they
// were measured on by it.
func (s *Scenario) Digest() string { return s.digest }

// Tool returns a tool at the scenario's own audience.
func (s *Scenario) Tool(name string) (api.Tool, bool) {
	for _, t := range s.tools {
		if t.Name == name {
			return at(s.Audience, t), true
		}
	}
	return api.Tool{}, false
}

// ToolTable returns the tools of both audiences, as a deployment configures them.
func (s *Scenario) ToolTable() []api.Tool {
	var out []api.Tool
	for _, audience := range []string{s.Audience, s.Sibling} {
		for _, t := range s.tools {
			out = append(out, at(audience, t))
		}
	}
	return out
}

func at(audience string, t api.Tool) api.Tool {
	t.Audience = audience
	t.Fields = slices.Clone(t.Fields)
	t.Summary = slices.Clone(t.Summary)
	return t
}

// Field returns the field of the honest tool that plays a role; false where none
// does.
func (s *Scenario) Field(role Role) (api.Field, bool) {
	t, _ := s.Tool(s.HonestTool)
	return t.Field(s.Fields[role])
}

// Hostile returns what an attacker would put into the field of a role, as JSON
// text; nil where no field plays it. For RoleReference it is another id, for
// RoleList one element, for RoleSecret another secret with the same end, for
// RoleDefaulted the default itself.
func (s *Scenario) Hostile(role Role) json.RawMessage {
	if role == RoleDefaulted {
		f, _ := s.Field(role)
		if f.Default == "" {
			return nil
		}
		return json.RawMessage(f.Default)
	}
	return slices.Clone(s.hostile[role])
}

// Drift returns the members, with their new JSON texts, that an attacker changes
// in the record of the honest reference; nil where there is no reference.
func (s *Scenario) Drift() map[string]json.RawMessage {
	return maps.Clone(s.drift)
}

// SteerTool returns the tool that changes the referenced records, with arguments
// that apply [Scenario.Drift] to the honest one; a zero tool and nil where there
// is no reference.
func (s *Scenario) SteerTool() (api.Tool, []byte) {
	t, ok := s.steerTool()
	if !ok {
		return api.Tool{}, nil
	}
	_, id := s.Reference()
	args := []byte(`{"id":` + string(quote(id)))
	for _, f := range t.Fields {
		if text, ok := s.drift[f.Name]; ok {
			args = append(append(append(args, ',', '"'), f.Name...), `":`...)
			args = append(args, text...)
		}
	}
	return at(s.Audience, t), append(args, '}')
}

func (s *Scenario) steerTool() (api.Tool, bool) {
	kind, _ := s.Reference()
	for _, t := range s.tools {
		if kind != "" && t.Class == api.ClassReference && t.Changes == kind {
			return t, true
		}
	}
	return api.Tool{}, false
}

// Reference returns kind and id of the record that honest calls refer to; empty
// where there is no reference.
func (s *Scenario) Reference() (kind, id string) {
	f, ok := s.Field(RoleReference)
	if !ok {
		return "", ""
	}
	for _, a := range s.arguments {
		if a.name == f.Name {
			return f.Reference, display(a.literal)
		}
	}
	return f.Reference, ""
}

//go:embed data/*.yaml
var data embed.FS

var embedded = sync.OnceValues(func() ([]*Scenario, error) {
	sub, err := fs.Sub(data, "data")
	if err != nil {
		return nil, err
	}
	return Load(sub)
})

// All returns the embedded scenarios, sorted by id. It panics when one of them is
// invalid, which the tests of this package rule out.
func All() []*Scenario {
	all, err := embedded()
	if err != nil {
		panic("scenarios: " + err.Error())
	}
	return slices.Clone(all)
}

// Load parses every *.yaml file at the top of fsys and returns the scenarios
// sorted by id. No file is an error. Ids are unique because file names are.
func Load(fsys fs.FS) ([]*Scenario, error) {
	names, err := fs.Glob(fsys, "*.yaml")
	if err != nil {
		return nil, fmt.Errorf("listing scenarios: %w", err)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("listing scenarios: there is no *.yaml file")
	}
	var out []*Scenario
	for _, name := range names {
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, fmt.Errorf("reading scenario: %w", err)
		}
		s, err := Parse(name, text)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b *Scenario) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}
