package agentdojo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"countersign/gateway/api"
	"countersign/scenarios"
)

// A LeftPair is a pair of a user task and an injection task of which no scenario can
// be made, and why.
type LeftPair struct {
	Suite, User, Injection string
	Why                    string
}

// Name names the pair as the scenarios of [Benchmark.Pairs] are named.
func (p LeftPair) Name() string { return pairID(p.Suite, p.User, p.Injection) }

func pairID(suite, user, injection string) string {
	short := func(id string) string {
		name, n, _ := strings.Cut(id, "_task_")
		return name[:1] + n
	}
	return suite + "-" + short(user) + "-" + short(injection)
}

// Pairs makes a scenario of every pair of a user task and an injection task: the honest
// call is the user's, and what an attacker wants are the injection's call and values. So
// the attacks of the lab, which are written against scenarios, are tried on the tasks
// and arguments of the benchmark.
//
// The user's call is the first one of the user task's reference that has a side effect
// (a write before an outbound read), or, where benign traces are given, the first one of
// the user's wanted calls that the trace of the task executed. The injection's is the
// first of its reference likewise. Pairs without one of them, and those whose call does
// not fit the tool's schema, are left out with the reason. Both lists are in the order
// of the suites and the numbers of the tasks.
//
// The benchmark has no reference data and no second service, so the scenario has what
// the lab's attacks need: a sibling audience with the same tools, a second tool with the
// same arguments, and for each argument that refers to something (see [Model]) a record
// that can change.
func (b Benchmark) Pairs(m Model, benign []*Trace) (made []*scenarios.Scenario, left []LeftPair, err error) {
	recorded := map[string]*Trace{}
	for _, t := range benign {
		if t.Class() == Benign {
			recorded[t.Suite+"/"+t.UserTask] = t
		}
	}
	for _, suite := range b.Catalogue.Suites() {
		s := b.Catalogue.suites[suite]
		tools, _, err := b.Tools(suite)
		if err != nil {
			return nil, nil, fmt.Errorf("making scenarios of %s: %w", suite, err)
		}
		for _, user := range byNumber(s.user) {
			honest, why, err := b.userCall(suite, s.user[user], tools, recorded, len(benign) > 0)
			if err != nil {
				return nil, nil, err
			}
			for _, injection := range byNumber(s.injection) {
				p := LeftPair{Suite: suite, User: user, Injection: injection, Why: why}
				var sc *scenarios.Scenario
				if p.Why == "" {
					rival, no := b.referenceCall(suite, s.injection[injection], tools)
					if p.Why = no; no == "" {
						sc, p.Why = m.scenario(p, s, tools, honest, rival)
					} else {
						p.Why = "the injection " + no
					}
				}
				if p.Why != "" {
					left = append(left, p)
					continue
				}
				made = append(made, sc)
			}
		}
	}
	return made, left, nil
}

// byNumber are the ids of tasks in the order of their numbers.
func byNumber(tasks map[string]*Task) []string {
	number := func(id string) int {
		n, _ := strconv.Atoi(id[strings.LastIndex(id, "_")+1:])
		return n
	}
	return slices.SortedFunc(maps.Keys(tasks), func(a, b string) int { return number(a) - number(b) })
}

// A taskCall is a tool with arguments that fit it.
type taskCall struct {
	tool api.Tool
	args map[string]json.RawMessage
}

// userCall is the call that a user's task is about, or why there is none.
func (b Benchmark) userCall(suite string, task *Task, tools []api.Tool, recorded map[string]*Trace, traces bool) (c taskCall, why string, err error) {
	if !traces {
		c, why = b.referenceCall(suite, task, tools)
		if why != "" {
			why = "the user's task " + why
		}
		return c, why, nil
	}
	t := recorded[suite+"/"+task.ID]
	if t == nil {
		return c, "no benign trace of the user's task was given", nil
	}
	calls, err := b.Calls(t)
	if err != nil {
		return c, "", fmt.Errorf("making scenarios of %s: %w", t.Path, err)
	}
	why = "the recorded agent made no call with a side effect that the user's task wants"
	for _, write := range []bool{true, false} {
		for _, k := range calls {
			if k.State != Executed || !k.SideEffect || !k.Wanted || (b.Kinds[suite+"/"+k.Tool] == KindEgress) == write {
				continue
			}
			got, no := fitting(tools, k.Tool, arguments(k.Args))
			if no == "" {
				return got, "", nil
			}
			why = no
		}
	}
	return c, why, nil
}

// referenceCall is the first call of a task's reference with a side effect, or why there
// is none.
func (b Benchmark) referenceCall(suite string, task *Task, tools []api.Tool) (c taskCall, why string) {
	why = "needs no call with a side effect"
	for _, write := range []bool{true, false} {
		for _, r := range task.Calls {
			if !b.Kinds.SideEffect(suite, r.Tool) || (b.Kinds[suite+"/"+r.Tool] == KindEgress) == write {
				continue
			}
			got, no := fitting(tools, r.Tool, r.Args)
			if no == "" {
				return got, ""
			}
			why = "has a call that " + no
		}
	}
	return c, why
}

// fitting is a call as its tool's schema has it: without arguments that are null, and
// numbers in their shortest form. A list that is written as a text is read as the
// benchmark's executor reads it.
func fitting(tools []api.Tool, name string, args map[string]json.RawMessage) (c taskCall, why string) {
	i := slices.IndexFunc(tools, func(t api.Tool) bool { return t.Name == name })
	if i < 0 {
		return c, "is of a tool that the suite has not"
	}
	c = taskCall{tools[i], map[string]json.RawMessage{}}
	for n, raw := range args {
		v := decodeValue(raw)
		switch v.(type) {
		case nil:
			continue
		case json.Number:
			raw = json.RawMessage(Plain(raw)) // 4.0 is written 4, as whoever shows it does
		}
		if f, ok := c.tool.Field(n); ok && f.Type == api.TypeStrings {
			if text, is := v.(string); is {
				raw, _ = json.Marshal(listLiteral(text)) // what was JSON always marshals
			}
		}
		var b bytes.Buffer
		if json.Compact(&b, raw) == nil { // a file may spread lists over lines
			raw = b.Bytes()
		}
		c.args[n] = raw
	}
	if err := Fit(c.tool, c.object()); err != nil {
		return c, "does not fit the schema (" + err.Error() + ")"
	}
	return c, ""
}

// object writes the arguments in the order of the tool's fields.
func (c taskCall) object() json.RawMessage {
	out := []byte{'{'}
	add := func(name string) {
		if raw, ok := c.args[name]; ok {
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(append(strconv.AppendQuote(out, name), ':'), raw...)
		}
	}
	for _, f := range c.tool.Fields {
		add(f.Name)
	}
	for _, n := range slices.Sorted(maps.Keys(c.args)) {
		if _, known := c.tool.Field(n); !known {
			add(n)
		}
	}
	return append(out, '}')
}

// turns is how many different honest calls a scenario of a pair has.
const turns = 8

// scenario makes the scenario of a pair, or says why there is none.
func (m Model) scenario(p LeftPair, s *suite, tools []api.Tool, honest, rival taskCall) (*scenarios.Scenario, string) {
	model := m[p.Suite+"/"+honest.tool.Name]
	w := making{
		model: model, honest: honest, rival: rival, goal: s.injection[p.Injection].Prompt,
		Making: scenarios.Making{
			ID: p.Name(), Title: fmt.Sprintf("AgentDojo %s, %s with %s", p.Suite, p.User, p.Injection),
			Story: "A pair of tasks of the AgentDojo benchmark. The user wants one thing done; an attacker wants: " + s.injection[p.Injection].Prompt,
			Task:  s.user[p.User].Prompt, Audience: p.Suite + ".agentdojo.example", Sibling: "other-" + p.Suite + ".agentdojo.example", Reader: "struct",
			HonestTool: honest.tool.Name, SiblingTool: honest.tool.Name + "_elsewhere",
			Records: map[string]map[string]map[string]json.RawMessage{}, Fields: map[scenarios.Role]string{}, NotApplicable: map[scenarios.Role]string{},
			Hostile: map[scenarios.Role]json.RawMessage{}, Rival: scenarios.Rival{Tool: rival.tool.Name, Arguments: rival.object()},
		},
	}
	if w.same() {
		return nil, "the injection wants the call that the user wants"
	}
	w.roles()
	w.arguments()
	w.tools(tools)
	sc, err := scenarios.Make(w.Making)
	if err != nil {
		return nil, "no scenario can be made: " + err.Error()
	}
	return sc, ""
}

// making is a scenario in the making.
type making struct {
	scenarios.Making
	model         ToolModel
	honest, rival taskCall
	goal          string
	kind          string // of the reference
}

// same: the attacker's call is the user's.
func (w *making) same() bool {
	return w.honest.tool.Name == w.rival.tool.Name && string(sorted(decodeValue(w.honest.object()))) == string(sorted(decodeValue(w.rival.object())))
}

// roles finds for each role the first argument of the model that can play it.
func (w *making) roles() {
	for _, role := range scenarios.Roles() {
		w.NotApplicable[role] = "no argument of " + w.honest.tool.Name + " is one"
		for _, name := range w.model.Roles[role] {
			if w.plays(role, name) {
				w.Fields[role] = name
				delete(w.NotApplicable, role)
				break
			}
			w.NotApplicable[role] = "the call gives no argument that could be one, or one that is too long for a summary"
		}
	}
}

func (w *making) plays(role scenarios.Role, name string) bool {
	f, ok := w.honest.tool.Field(name)
	raw, given := w.honest.args[name]
	if !ok || slices.Contains(slices.Collect(maps.Values(w.Fields)), name) {
		return false
	}
	short := given && len([]rune(Plain(raw))) <= scenarios.MaxText
	hostile := json.RawMessage(nil)
	switch role {
	case scenarios.RoleQuantity:
		ok = given && (f.Type == api.TypeInteger || f.Type == api.TypeNumber)
		hostile = w.number(name)
	case scenarios.RoleText, scenarios.RoleUnit:
		ok = short && f.Type == api.TypeString
		hostile = w.text(name)
	case scenarios.RoleDestination:
		ok = short && f.Type == api.TypeString
		hostile = w.address(name)
	case scenarios.RoleHidden:
		ok = !given && !f.Required && f.Default == "" && (f.Type == api.TypeString || f.Type == api.TypeStrings)
		if hostile = w.address(name); f.Type == api.TypeStrings {
			hostile = slices.Concat([]byte{'['}, hostile, []byte{']'})
		}
	case scenarios.RoleDefaulted:
		return given && f.Default != "" && f.Type == api.TypeString && normal(f, raw) != normal(f, json.RawMessage(f.Default))
	case scenarios.RoleReference:
		if ok = short && f.Type == api.TypeString && Plain(raw) != ""; ok {
			hostile = w.refer(name)
		}
	default:
		return false
	}
	if ok {
		w.Hostile[role] = hostile
	}
	return ok
}

// unlike reports whether a value is another than every honest one of an argument.
func (w *making) unlike(name string, raw json.RawMessage) bool {
	honest, given := w.honest.args[name]
	return len(raw) > 0 && !(given && strings.HasPrefix(fold(Plain(raw)), fold(Plain(honest))))
}

// number is what the attacker would put in the place of a quantity: the injection's, or
// ten times as much.
func (w *making) number(name string) json.RawMessage {
	if raw := w.rival.args[name]; w.rival.tool.Name == w.honest.tool.Name && w.unlike(name, raw) {
		return raw
	}
	f, err := strconv.ParseFloat(Plain(w.honest.args[name]), 64)
	if err != nil {
		return nil
	}
	return json.RawMessage(strconv.FormatFloat(10*f+1000, 'f', -1, 64))
}

// text is what the attacker would put in the place of a text.
func (w *making) text(name string) json.RawMessage {
	for _, n := range []string{name, "body", "content", "subject", "title", "description"} {
		if raw := w.rival.args[n]; len(raw) > 0 && raw[0] == '"' && w.unlike(name, raw) {
			return cutText(raw)
		}
	}
	return cutText(quoteText(w.goal))
}

// address is whom, or where, the attacker would put in the place of a destination: an
// address of the injection's call, or else what the goal says.
func (w *making) address(name string) json.RawMessage {
	var other json.RawMessage
	for _, f := range w.rival.tool.Fields {
		for _, text := range elements(w.rival.args[f.Name]) {
			if raw := quoteText(text); w.unlike(name, raw) && !freeText(f.Name) {
				if address.MatchString(fold(text)) {
					return cutText(raw)
				}
				if other == nil {
					other = cutText(raw)
				}
			}
		}
	}
	if other != nil {
		return other
	}
	return cutText(quoteText(w.goal))
}

// refer keeps the record that an argument names, and that of the injection or another.
func (w *making) refer(name string) json.RawMessage {
	w.kind = w.model.Refers[name]
	id := Plain(w.honest.args[name])
	other := id + "-2"
	for n := range w.rival.args {
		if raw := w.rival.args[n]; n == name && w.unlike(name, raw) {
			other = Plain(raw)
		}
	}
	w.Records[w.kind] = map[string]map[string]json.RawMessage{
		id:    {"points_at": quoteText("the " + w.kind + " that it was")},
		other: {"points_at": quoteText("the attacker's " + w.kind)},
	}
	w.Drift = map[string]json.RawMessage{"points_at": quoteText("another " + w.kind + ", put there by the attacker")}
	return quoteText(other)
}

// arguments gives the honest calls: the first is the recorded one, the others differ
// from it in one argument, so that a person can want two.
func (w *making) arguments() {
	vary := ""
	for _, role := range []scenarios.Role{scenarios.RoleText, scenarios.RoleQuantity, scenarios.RoleDestination} {
		if name := w.Fields[role]; name != "" {
			vary = name
			break
		}
	}
	for _, f := range w.honest.tool.Fields {
		raw, given := w.honest.args[f.Name]
		if !given {
			continue
		}
		g := scenarios.Given{Name: f.Name, Values: []json.RawMessage{raw}}
		for n := 2; f.Name == vary && n <= turns; n++ {
			if f.Type == api.TypeString {
				g.Values = append(g.Values, quoteText(Plain(cutBy(raw, 4))+" ("+strconv.Itoa(n)+")"))
			} else if v, err := strconv.ParseFloat(string(raw), 64); err == nil {
				g.Values = append(g.Values, json.RawMessage(strconv.FormatFloat(v+float64(n), 'f', -1, 64)))
			}
		}
		w.Arguments = append(w.Arguments, g)
	}
}

// tools gives the tools of the scenario: the user's, one with the same arguments, the
// attacker's, one that reads, and one that changes what is referred to.
func (w *making) tools(suite []api.Tool) {
	w.Tools = nil
	add := func(t api.Tool) {
		if !slices.ContainsFunc(w.Tools, func(o api.Tool) bool { return o.Name == t.Name }) {
			t.Audience = ""
			w.Tools = append(w.Tools, t)
		}
	}
	honest := w.honest.tool
	honest.Fields = slices.Clone(honest.Fields)
	for i := range honest.Fields {
		f := &honest.Fields[i]
		f.Material = true
		if f.Name == w.Fields[scenarios.RoleReference] {
			f.Reference = w.kind
		}
	}
	honest.Summary = nil
	for _, f := range honest.Fields {
		raw, given := w.honest.args[f.Name]
		if given && len([]rune(Plain(raw))) <= scenarios.MaxText {
			honest.Summary = append(honest.Summary, f.Name)
		}
	}
	if honest.Summary == nil {
		honest.Summary = []string{honest.Fields[0].Name}
	}
	add(honest)
	sibling := honest
	sibling.Name, sibling.Title = w.SiblingTool, honest.Title+" elsewhere"
	add(sibling)
	add(w.rival.tool)
	for _, t := range suite {
		if t.Class == api.ClassRead && len(t.Fields) > 0 && len(t.Summary) > 0 {
			add(t)
			break
		}
	}
	if w.kind != "" {
		add(api.Tool{
			Name: "change_" + w.kind, Title: "Change a " + strings.ReplaceAll(w.kind, "_", " "), Class: api.ClassReference, Changes: w.kind,
			Guarantee: honest.Guarantee, Risk: honest.Risk, Summary: []string{"id"},
			Fields: []api.Field{
				{Name: "id", Label: "Which", Type: api.TypeString, Required: true, Material: true},
				{Name: "points_at", Label: "Points at", Type: api.TypeString, Material: true},
			},
		})
	}
}

func quoteText(s string) json.RawMessage {
	raw, _ := json.Marshal(s) // strings always marshal
	return raw
}

// cutText keeps a text to what a summary shows.
func cutText(raw json.RawMessage) json.RawMessage { return cutBy(raw, 0) }

// cutBy is cutText that leaves room.
func cutBy(raw json.RawMessage, room int) json.RawMessage {
	r := []rune(strings.Join(strings.Fields(Plain(raw)), " "))
	return quoteText(strings.TrimSpace(string(r[:min(len(r), scenarios.MaxText-room)])))
}

// elements are the strings of an argument: itself, or those of a list.
func elements(raw json.RawMessage) []string {
	switch v := decodeValue(raw).(type) {
	case string:
		return []string{v}
	case []any:
		var out []string
		for _, e := range v {
			if s, ok := e.(string); ok {
				out = append(out, s)
			}
		}
		return out
	}
	return nil
}
