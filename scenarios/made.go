package scenarios

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"countersign/gateway/api"
)

// A Making describes a scenario around a call that stands in somebody's records, such
// as a reference call of a benchmark, in place of a file. Its members are those of
// [Scenario] and of the files.
type Making struct {
	ID, Title, Story  string
	Task              string // what the person asked for, as it stands
	Audience, Sibling string
	Reader            string
	Tools             []api.Tool // without audience
	HonestTool        string
	SiblingTool       string
	Arguments         []Given // of the honest call, in order
	Records           map[string]map[string]map[string]json.RawMessage
	Fields            map[Role]string
	NotApplicable     map[Role]string
	Hostile           map[Role]json.RawMessage
	Drift             map[string]json.RawMessage
	Rival             Rival
}

// A Given is an argument and its values as JSON texts: the n-th honest call has the
// n-th, and begins again behind the last.
type Given struct {
	Name   string
	Values []json.RawMessage
}

// A Rival is a call that an attacker wants made in the place of the honest one.
type Rival struct {
	Tool      string
	Arguments json.RawMessage // an object
}

// Make validates a scenario that is no file. Its digest is that of what it was made of.
func Make(m Making) (*Scenario, error) {
	s := &Scenario{
		ID: m.ID, Title: m.Title, Story: m.Story, task: m.Task, Audience: m.Audience, Sibling: m.Sibling, Reader: m.Reader,
		HonestTool: m.HonestTool, SiblingTool: m.SiblingTool, Records: m.Records, Fields: m.Fields, NotApplicable: m.NotApplicable,
		tools: m.Tools, hostile: m.Hostile, drift: m.Drift, rival: m.Rival,
	}
	fail := func(err error) (*Scenario, error) { return nil, fmt.Errorf("making scenario %s: %w", m.ID, err) }
	for _, g := range m.Arguments {
		switch {
		case len(g.Values) == 0:
			return fail(fmt.Errorf("arguments: %s: no value", g.Name))
		case s.sets(g.Name):
			return fail(fmt.Errorf("arguments: %s: given twice", g.Name))
		case len(g.Values) == 1:
			s.arguments = append(s.arguments, argument{name: g.Name, literal: g.Values[0]})
		default:
			s.arguments = append(s.arguments, argument{name: g.Name, turns: g.Values})
		}
	}
	if err := s.Validate(); err != nil {
		return fail(err)
	}
	text, err := json.Marshal(m)
	if err != nil {
		return fail(err)
	}
	s.digest = fmt.Sprintf("%x", sha256.Sum256(text))
	return s, nil
}

// Rival returns a call of the scenario's service that an attacker wants made; false
// where it names none.
func (s *Scenario) Rival() (tool string, arguments []byte, ok bool) {
	return s.rival.Tool, s.rival.Arguments, s.rival.Tool != ""
}

func (s *Scenario) checkRival() error {
	if s.rival.Tool == "" {
		return nil
	}
	t, ok := s.Tool(s.rival.Tool)
	if !ok || t.Class == api.ClassRead {
		return fmt.Errorf("tool: %q is none, or reads only", s.rival.Tool)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(s.rival.Arguments, &members); err != nil || members == nil {
		return fmt.Errorf("arguments: not an object")
	}
	for name, text := range members {
		if f, ok := t.Field(name); !ok || !fits(f, text) {
			return fmt.Errorf("arguments: %s: no field of %s, or of another type", name, t.Name)
		}
	}
	return nil
}
