package scenarios

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"countersign/gateway/api"
)

// MaxText is how many characters an honest text may have that is in the summary. A
// product's short summary shows that much, so that only an attack makes it cut a value off.
const MaxText = 60

// MinList is how many elements an honest list of [RoleList] has at least. A
// product's summary shows fewer.
const MinList = 5

// A secret of [RoleSecret] has at least MinSecret characters, of which a product
// shows the last MaskTail.
const (
	MinSecret = 12
	MaskTail  = 4
)

var (
	idForm       = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
	audienceForm = regexp.MustCompile(`^[a-z][a-z0-9.-]*$`)
	nameForm     = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
)

// Validate checks everything an attack or a referee relies on. The error names
// the member that is wrong.
func (s *Scenario) Validate() error {
	for _, c := range []struct {
		member string
		ok     bool
		rule   string
	}{
		{"id", idForm.MatchString(s.ID), "must be lower-case letters, digits and hyphens"},
		{"title", s.Title != "", "is empty"},
		{"story", s.Story != "", "is empty"},
		{"task", s.task != "", "is empty"},
		{"audience", audienceForm.MatchString(s.Audience), "must be a lower-case host name"},
		{"sibling_audience", audienceForm.MatchString(s.Sibling) && s.Sibling != s.Audience, "must be another lower-case host name"},
		{"reader", s.Reader == "struct" || s.Reader == "first" || s.Reader == "unchecked", `must be "struct", "first" or "unchecked"`},
	} {
		if !c.ok {
			return fmt.Errorf("%s: %s", c.member, c.rule)
		}
	}
	for _, check := range []struct {
		member string
		f      func() error
	}{
		{"records", s.checkRecords},
		{"tools", s.checkTools},
		{"honest", s.checkHonest},
		{"sibling_tool", s.checkSibling},
		{"free", s.checkFree},
		{"roles", s.checkRoles},
		{"hostile", s.checkHostile},
		{"task", s.checkTask},
		{"rival", s.checkRival},
	} {
		if err := check.f(); err != nil {
			return fmt.Errorf("%s: %w", check.member, err)
		}
	}
	return nil
}

func (s *Scenario) checkRecords() error {
	for kind, byID := range s.Records {
		if !nameForm.MatchString(kind) || len(byID) == 0 {
			return fmt.Errorf("%q: the kind is malformed or has no record", kind)
		}
		ids := slices.Sorted(maps.Keys(byID))
		first := byID[ids[0]]
		for _, id := range ids {
			m := byID[id]
			if id == "" || len(m) == 0 || len(m) != len(first) {
				return fmt.Errorf("%s/%s: records of one kind must have the same members", kind, id)
			}
			for name := range m {
				if _, ok := first[name]; !ok || !nameForm.MatchString(name) || name == "id" {
					return fmt.Errorf("%s/%s: member %q is malformed, reserved or missing in %s", kind, id, name, ids[0])
				}
			}
		}
	}
	return nil
}

func (s *Scenario) checkTools() error {
	seen := make(map[string]bool)
	reads := 0
	for _, t := range s.tools {
		if !nameForm.MatchString(t.Name) || seen[t.Name] {
			return fmt.Errorf("%q: the name is malformed or used twice", t.Name)
		}
		seen[t.Name] = true
		if err := s.checkTool(t); err != nil {
			return fmt.Errorf("%s: %w", t.Name, err)
		}
		if t.Class == api.ClassRead {
			reads++
		}
	}
	if reads == 0 {
		return fmt.Errorf("there is no tool of class %q", api.ClassRead)
	}
	return nil
}

func (s *Scenario) checkTool(t api.Tool) error {
	if t.Audience != "" {
		return fmt.Errorf("audience: belongs to the scenario, not to a tool")
	}
	if t.Title == "" || t.Risk == "" || len(t.Fields) == 0 || len(t.Summary) == 0 {
		return fmt.Errorf("title, risk, fields or summary is empty")
	}
	if !slices.Contains([]api.Guarantee{api.GuaranteeIdempotent, api.GuaranteeLookup, api.GuaranteeNone}, t.Guarantee) {
		return fmt.Errorf("guarantee: %q is unknown", t.Guarantee)
	}
	if !slices.Contains([]api.ToolClass{api.ClassRead, api.ClassConsequential, api.ClassReference}, t.Class) {
		return fmt.Errorf("class: %q is unknown", t.Class)
	}
	seen := make(map[string]bool)
	for _, f := range t.Fields {
		if !nameForm.MatchString(f.Name) || seen[f.Name] {
			return fmt.Errorf("fields: name %q is malformed or used twice", f.Name)
		}
		seen[f.Name] = true
		if f.Label == "" {
			return fmt.Errorf("fields: %s: label is empty", f.Name)
		}
		switch f.Type {
		case api.TypeString, api.TypeInteger, api.TypeNumber, api.TypeBoolean, api.TypeStrings:
		default:
			return fmt.Errorf("fields: %s: type %q is unknown", f.Name, f.Type)
		}
		if f.Reference != "" && (f.Type != api.TypeString || s.Records[f.Reference] == nil || !f.Material) {
			return fmt.Errorf("fields: %s: a reference is a material string, and kind %q needs records", f.Name, f.Reference)
		}
		if f.Secret && f.Type != api.TypeString {
			return fmt.Errorf("fields: %s: a secret is a string", f.Name)
		}
		if f.Default != "" && (f.Required || !fits(f, json.RawMessage(f.Default))) {
			return fmt.Errorf("fields: %s: default must be JSON text of type %s, in an optional field", f.Name, f.Type)
		}
	}
	for i, name := range t.Summary {
		if !seen[name] || slices.Contains(t.Summary[:i], name) {
			return fmt.Errorf("summary: %q is no field or is listed twice", name)
		}
	}
	if t.Class != api.ClassReference {
		if t.Changes != "" {
			return fmt.Errorf("changes: only for class %q", api.ClassReference)
		}
		return nil
	}
	if id, ok := t.Field("id"); !ok || id.Type != api.TypeString || !id.Required {
		return fmt.Errorf("fields: a tool of class %q needs a required string \"id\"", t.Class)
	}
	for _, record := range s.Records[t.Changes] {
		for _, f := range t.Fields {
			if f.Name != "id" && (f.Required || f.Default != "" || record[f.Name] == nil || !fits(f, record[f.Name])) {
				return fmt.Errorf("fields: %s must be an optional member of kind %q, of its type", f.Name, t.Changes)
			}
		}
		return nil
	}
	return fmt.Errorf("changes: kind %q has no records", t.Changes)
}

func (s *Scenario) checkHonest() error {
	t, ok := s.Tool(s.HonestTool)
	if !ok || t.Class != api.ClassConsequential {
		return fmt.Errorf("tool: %q is no tool of class %q", s.HonestTool, api.ClassConsequential)
	}
	for _, a := range s.arguments {
		f, ok := t.Field(a.name)
		if !ok {
			return fmt.Errorf("arguments: %s: no such field", a.name)
		}
		if f.Reference != "" && s.Records[f.Reference][display(a.literal)] == nil {
			return fmt.Errorf("arguments: %s: must be the literal id of a record", a.name)
		}
		for _, text := range a.extremes() {
			if !fits(f, text) {
				return fmt.Errorf("arguments: %s: %s is not of type %s", a.name, text, f.Type)
			}
			for _, part := range elements(text) {
				if slices.Contains(t.Summary, a.name) && utf8.RuneCountInString(part) > MaxText {
					return fmt.Errorf("arguments: %s: longer than %d characters", a.name, MaxText)
				}
			}
		}
	}
	for _, f := range t.Fields {
		if f.Required && !s.sets(f.Name) {
			return fmt.Errorf("arguments: %s: required and missing", f.Name)
		}
	}
	return nil
}

// elements returns those of a list, or the display text of anything else.
func elements(text json.RawMessage) []string {
	var list []string
	if json.Unmarshal(text, &list) == nil {
		return list
	}
	return []string{display(text)}
}

func (s *Scenario) sets(field string) bool {
	return slices.ContainsFunc(s.arguments, func(a argument) bool { return a.name == field })
}

// extremes returns values that have the type and the greatest length of all.
func (a argument) extremes() []json.RawMessage {
	switch {
	case a.literal != nil:
		return []json.RawMessage{a.literal}
	case a.turns != nil:
		return a.turns
	case a.choice != nil:
		return a.choice
	case a.text != nil:
		var out []json.RawMessage
		for _, t := range a.text {
			// "{1..99}" is at least as long as any number it stands for.
			out = append(out, quote(span.ReplaceAllStringFunc(t, func(m string) string {
				return m[strings.Index(m, "..")+2 : len(m)-1]
			})))
		}
		return out
	}
	return []json.RawMessage{fmt.Appendf(nil, "%d", a.lo), fmt.Appendf(nil, "%d", a.hi)}
}

// yields says whether an honest call can have this value.
func (a argument) yields(text json.RawMessage) bool {
	same := func(o json.RawMessage) bool { return bytes.Equal(o, text) }
	switch {
	case a.literal != nil:
		return same(a.literal)
	case a.turns != nil:
		return slices.ContainsFunc(a.turns, same)
	case a.choice != nil:
		return slices.ContainsFunc(a.choice, same)
	case a.text != nil:
		for _, t := range a.text {
			parts := span.Split(t, -1)
			for i := range parts {
				parts[i] = regexp.QuoteMeta(parts[i])
			}
			if regexp.MustCompile(`^` + strings.Join(parts, `\d+`) + `$`).MatchString(display(text)) {
				return true
			}
		}
		return false
	}
	var f float64
	return json.Unmarshal(text, &f) == nil && f >= float64(a.lo) && f <= float64(a.hi)
}

func (s *Scenario) checkSibling() error {
	honest, _ := s.Tool(s.HonestTool)
	t, ok := s.Tool(s.SiblingTool)
	if !ok || t.Name == honest.Name || t.Title == honest.Title || t.Class != api.ClassConsequential || !slices.Equal(t.Fields, honest.Fields) {
		return fmt.Errorf("%q must be another consequential tool with exactly the fields of %s", s.SiblingTool, honest.Name)
	}
	// A gate may compare the approved risk label with the tool's. Were the labels
	// different, that would stop a swap which only a check of the tool should stop.
	if t.Risk != honest.Risk {
		return fmt.Errorf("%s has risk %q, must have %q as %s", t.Name, t.Risk, honest.Risk, honest.Name)
	}
	return nil
}

func (s *Scenario) checkFree() error {
	t, _ := s.Tool(s.HonestTool)
	for i, name := range s.free {
		if f, ok := t.Field(name); !ok || f.Material || !s.sets(name) || slices.Contains(s.free[:i], name) {
			return fmt.Errorf("%q must be a field that honest arguments set and that is not material, once", name)
		}
	}
	return nil
}

func (s *Scenario) checkRoles() error {
	t, _ := s.Tool(s.HonestTool)
	for _, role := range Roles() {
		name, has := s.Fields[role]
		reason, not := s.NotApplicable[role]
		if has == not || (not && strings.TrimSpace(reason) == "") {
			return fmt.Errorf("%s: give a field, or a reason in not_applicable, not both", role)
		}
		if !has {
			continue
		}
		f, ok := t.Field(name)
		shown, set := slices.Contains(t.Summary, name), s.sets(name)
		plain := f.Material && shown && set && f.Reference == ""
		switch role {
		case RoleQuantity:
			ok = ok && plain && (f.Type == api.TypeInteger || f.Type == api.TypeNumber)
		case RoleUnit, RoleDestination, RoleText:
			ok = ok && plain && f.Type == api.TypeString
		case RoleList:
			ok = ok && plain && f.Type == api.TypeStrings && len(elements(s.argument(name).literal)) >= MinList &&
				!slices.ContainsFunc(elements(s.argument(name).literal), func(e string) bool { return e == "" || strings.Contains(e, ",") })
		case RoleSecret:
			ok = ok && plain && f.Secret && len(display(s.argument(name).literal)) >= MinSecret
		case RoleReference:
			ok = ok && f.Reference != "" && shown && set
		case RoleHidden:
			ok = ok && f.Material && !shown && !set && !f.Required && f.Default == "" && f.Reference == ""
		case RoleDefaulted:
			ok = ok && f.Material && set && f.Default != "" && f.Reference == "" && !s.argument(name).yields(json.RawMessage(f.Default))
		}
		if !ok {
			return fmt.Errorf("%s: field %q does not meet the conditions of this role (see README.md)", role, name)
		}
	}
	if extra := len(s.Fields) + len(s.NotApplicable) - len(Roles()); extra != 0 {
		return fmt.Errorf("%d roles in roles or not_applicable are unknown", extra)
	}
	if _, has := s.Fields[RoleReference]; has {
		if _, ok := s.steerTool(); !ok {
			return fmt.Errorf("reference: there is no tool of class %q for its kind", api.ClassReference)
		}
	}
	return nil
}

func (s *Scenario) argument(field string) argument {
	i := slices.IndexFunc(s.arguments, func(a argument) bool { return a.name == field })
	return s.arguments[i]
}

// argumentText is the literal of an honest argument, empty for any other field.
func (s *Scenario) argumentText(field string) json.RawMessage {
	if !s.sets(field) {
		return nil
	}
	return s.argument(field).literal
}

func (s *Scenario) checkHostile() error {
	for role := range s.hostile {
		if _, ok := s.Fields[role]; !ok || role == RoleDefaulted {
			return fmt.Errorf("%s: no role that takes a hostile value here", role)
		}
	}
	for role := range s.Fields {
		if role == RoleDefaulted {
			continue
		}
		f, _ := s.Field(role)
		text, ok := s.hostile[role]
		if !ok || !fits(f, text) {
			return fmt.Errorf("%s: missing, or not of type %s", role, f.Type)
		}
		if s.sets(f.Name) && s.argument(f.Name).yields(text) {
			return fmt.Errorf("%s: an honest call can have this value", role)
		}
		switch hostile, honest := elements(text), elements(s.argumentText(f.Name)); role {
		case RoleList:
			if len(hostile) != 1 || slices.Contains(honest, hostile[0]) {
				return fmt.Errorf("%s: must be one element that the honest list lacks", role)
			}
		case RoleSecret:
			if len(hostile[0]) < MinSecret || hostile[0][len(hostile[0])-MaskTail:] != honest[0][len(honest[0])-MaskTail:] {
				return fmt.Errorf("%s: must end with the honest one's last %d characters", role, MaskTail)
			}
		}
	}
	kind, id := s.Reference()
	if kind == "" {
		if s.drift != nil {
			return fmt.Errorf("drift: there is no reference")
		}
		return nil
	}
	honest, other := s.Records[kind][id], s.Records[kind][display(s.hostile[RoleReference])]
	if other == nil || maps.EqualFunc(honest, other, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
		return fmt.Errorf("reference: must be the id of a record with other members")
	}
	steer, _ := s.steerTool()
	if len(s.drift) == 0 {
		return fmt.Errorf("drift: missing")
	}
	for member, text := range s.drift {
		f, ok := steer.Field(member)
		if !ok || !fits(f, text) || honest[member] == nil || bytes.Equal(honest[member], text) {
			return fmt.Errorf("drift: %s must be another value for a member that %s changes", member, steer.Name)
		}
	}
	return nil
}

func (s *Scenario) checkTask() error {
	wants := s.Instance(0, 0).Wants
	for _, p := range placeholder.FindAllString(s.task, -1) {
		if _, ok := wants[p[1:len(p)-1]]; !ok {
			return fmt.Errorf("%s is no value that the person relies on", p)
		}
	}
	return nil
}

// fits says whether a JSON text is a value of the field's type.
func fits(f api.Field, text json.RawMessage) bool {
	var v any
	switch f.Type {
	case api.TypeString:
		v = new(string)
	case api.TypeInteger:
		v = new(int64)
	case api.TypeNumber:
		v = new(float64)
	case api.TypeBoolean:
		v = new(bool)
	case api.TypeStrings:
		v = new([]string)
	default:
		return false
	}
	return string(text) != "null" && json.Unmarshal(text, v) == nil
}
