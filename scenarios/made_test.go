package scenarios

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"countersign/gateway/api"
)

func makingOf(change func(*Making)) Making {
	fields := []api.Field{
		{Name: "to", Label: "To", Type: api.TypeString, Required: true, Material: true},
		{Name: "note", Label: "Note", Type: api.TypeString, Material: true},
	}
	m := Making{
		ID: "made", Title: "Made", Story: "Somebody wants a letter sent.", Task: "Send it.", Audience: "post.example", Sibling: "other.example", Reader: "struct",
		HonestTool: "send", SiblingTool: "send_elsewhere",
		Arguments: []Given{{"to", []json.RawMessage{[]byte(`"ada"`)}}, {"note", []json.RawMessage{[]byte(`"one"`), []byte(`"two"`), []byte(`"three"`)}}},
		Fields:    map[Role]string{RoleDestination: "to"}, NotApplicable: map[Role]string{}, Hostile: map[Role]json.RawMessage{RoleDestination: []byte(`"eve"`)},
		Rival: Rival{Tool: "send", Arguments: []byte(`{"to":"eve","note":"mine"}`)},
	}
	for _, t := range []api.Tool{
		{Name: "send", Title: "Send", Class: api.ClassConsequential, Summary: []string{"to"}},
		{Name: "send_elsewhere", Title: "Send elsewhere", Class: api.ClassConsequential, Summary: []string{"to"}},
		{Name: "look", Title: "Look", Class: api.ClassRead, Summary: []string{"to"}},
	} {
		t.Fields, t.Risk, t.Guarantee = fields, "write", api.GuaranteeLookup
		m.Tools = append(m.Tools, t)
	}
	for _, role := range Roles() {
		if _, ok := m.Fields[role]; !ok {
			m.NotApplicable[role] = "the letter has none"
		}
	}
	if change != nil {
		change(&m)
	}
	return m
}

// A made scenario takes its honest calls in turn, and has what it was made of in its
// digest.
func TestMake(t *testing.T) {
	s, err := Make(makingOf(nil))
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range []string{"one", "two", "three", "one"} {
		in := s.Instance(uint64(n), n)
		if string(in.Arguments) != `{"to":"ada","note":"`+want+`"}` || in.Wants["/note"] != want || in.Task != "Send it." {
			t.Errorf("call %d is %s, wanted %v: %s", n, in.Arguments, in.Wants, in.Task)
		}
	}
	if tool, args, ok := s.Rival(); !ok || tool != "send" || string(args) != `{"to":"eve","note":"mine"}` {
		t.Errorf("the attacker's call is %s %s, %t", tool, args, ok)
	}
	other, err := Make(makingOf(func(m *Making) { m.Rival.Arguments = []byte(`{"to":"mallory"}`) }))
	if err != nil || other.Digest() == s.Digest() || s.Digest() == "" {
		t.Errorf("another attacker's call, and the digests %q and %q; %v", s.Digest(), other.Digest(), err)
	}
	for _, s := range All() {
		if _, _, ok := s.Rival(); ok {
			t.Errorf("%s, which is a file, names an attacker's call", s.ID)
		}
	}
}

func TestMakeRefuses(t *testing.T) {
	long := json.RawMessage(`"` + strings.Repeat("x", MaxText+1) + `"`)
	for want, change := range map[string]func(*Making){
		"arguments: to: given twice":               func(m *Making) { m.Arguments = append(m.Arguments, m.Arguments[0]) },
		"arguments: to: no value":                  func(m *Making) { m.Arguments[0].Values = nil },
		"arguments: to: longer than 60 characters": func(m *Making) { m.Arguments[0].Values[0] = long },
		"arguments: note: 7 is not of type":        func(m *Making) { m.Arguments[1].Values = append(m.Arguments[1].Values, []byte("7")) },
		"an honest call can have this value": func(m *Making) {
			m.Arguments[0].Values = append(m.Arguments[0].Values, m.Hostile[RoleDestination])
		},
		`rival: tool: "burn" is none`: func(m *Making) { m.Rival.Tool = "burn" },
		`rival: tool: "look"`:         func(m *Making) { m.Rival.Tool = "look" },
		"rival: arguments: by":        func(m *Making) { m.Rival.Arguments = []byte(`{"by":"eve"}`) },
		"rival: arguments: to":        func(m *Making) { m.Rival.Arguments = []byte(`{"to":7}`) },
		"rival: arguments: not":       func(m *Making) { m.Rival.Arguments = []byte(`null`) },
		"roles: text":                 func(m *Making) { m.NotApplicable = maps.Clone(m.NotApplicable); delete(m.NotApplicable, RoleText) },
	} {
		if _, err := Make(makingOf(change)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	// What no summary shows may be long.
	if _, err := Make(makingOf(func(m *Making) { m.Arguments[1].Values = []json.RawMessage{long} })); err != nil {
		t.Error(err)
	}
}
