package agentdojo

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"countersign/gateway/api"

	"github.com/google/go-cmp/cmp"
)

// mini returns the small benchmark of testdata.
func mini(tb testing.TB) Benchmark {
	tb.Helper()
	c, err := LoadCatalogue("testdata/catalogue.json")
	if err != nil {
		tb.Fatal(err)
	}
	k, err := LoadClasses("testdata/classes.json")
	if err != nil {
		tb.Fatal(err)
	}
	return Benchmark{Catalogue: c, Kinds: k}
}

// full returns the benchmark of the shared data.
func full(tb testing.TB) Benchmark {
	tb.Helper()
	c, err := LoadCatalogue(Require(tb, "agentdojo", "catalogue_v1.1.2.json"))
	if err != nil {
		tb.Fatal(err)
	}
	k, err := LoadClasses(Require(tb, "agentdojo", "tool_classes.json"))
	if err != nil {
		tb.Fatal(err)
	}
	return Benchmark{Catalogue: c, Kinds: k}
}

func TestTools(t *testing.T) {
	tools, notes, err := mini(t).Tools("bakery")
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]api.Tool{}
	for _, tool := range tools {
		byName[tool.Name] = tool
	}
	want := api.Tool{
		Audience: "bakery", Name: "send_email", Title: "Send email", Class: api.ClassConsequential,
		Fields: []api.Field{
			{Name: "recipients", Label: "Recipients", Type: api.TypeStrings, Required: true, Material: true},
			{Name: "subject", Label: "Subject", Type: api.TypeString, Required: true, Material: true},
			{Name: "body", Label: "Body", Type: api.TypeString, Required: true, Material: true},
			{Name: "cc", Label: "Cc", Type: api.TypeStrings, Material: true},
			{Name: "attachments", Label: "Attachments", Type: api.TypeString, Material: true},
		},
		Summary: []string{"recipients", "subject"}, Risk: "write", Guarantee: api.GuaranteeLookup,
	}
	if diff := cmp.Diff(want, byName["send_email"]); diff != "" {
		t.Errorf("send_email (-want +got):\n%s", diff)
	}
	want = api.Tool{
		Audience: "bakery", Name: "order_flour", Title: "Order flour", Class: api.ClassConsequential,
		Fields: []api.Field{
			{Name: "kind", Label: "kind", Type: api.TypeString, Required: true, Material: true},
			{Name: "sacks", Label: "Sacks", Type: api.TypeInteger, Required: true, Material: true},
			{Name: "express", Label: "Express", Type: api.TypeBoolean, Default: "false", Material: true},
		},
		Summary: []string{"kind", "sacks"}, Risk: "write", Guarantee: api.GuaranteeLookup,
	}
	if diff := cmp.Diff(want, byName["order_flour"]); diff != "" {
		t.Errorf("order_flour (-want +got):\n%s", diff)
	}
	classes := map[string]api.ToolClass{
		"get_orders": api.ClassRead, "read_notice": api.ClassRead, "pay_supplier": api.ClassConsequential,
		"post_page": api.ClassConsequential, // a request to an address of the caller's choice
		// The file of classes does not know it.
		"change_greeting": api.ClassConsequential,
	}
	for name, class := range classes {
		if byName[name].Class != class {
			t.Errorf("%s has class %s, want %s", name, byName[name].Class, class)
		}
	}
	if got := byName["change_greeting"].Summary; !slices.Equal(got, []string{"title", "colour", "font"}) {
		t.Errorf("a tool without required fields has the summary %v", got)
	}
	if len(notes) != 1 || !strings.Contains(notes[0], "send_email.attachments: a list of objects") {
		t.Errorf("notes %q", notes)
	}
	if _, _, err := mini(t).Tools("bank"); !errors.Is(err, ErrNotInCatalogue) {
		t.Errorf("an unknown suite: %v", err)
	}
}

func TestKindsFailClosed(t *testing.T) {
	if !Kinds(nil).SideEffect("bakery", "get_orders") {
		t.Error("without classes a tool must count as side-effecting")
	}
	if mini(t).Kinds.SideEffect("bakery", "get_orders") || !mini(t).Kinds.SideEffect("bank", "get_orders") {
		t.Error("a class is for one suite")
	}
}

func TestLoadRefuses(t *testing.T) {
	catalogue, err := os.ReadFile("testdata/catalogue.json")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, old, new, says string }{
		{"empty", "", "{}", "benchmark_version and suites"},
		{"not JSON", "", "", "unexpected EOF"},
		{"unknown tool in the ground truth", `"function": "pay_supplier"`, `"function": "pay"`, "no tool of the suite"},
		{"tool twice", `"name": "get_orders"`, `"name": "post_page"`, "not unique"},
		{"task twice", `"id": "user_task_1"`, `"id": "user_task_0"`, "not unique"},
		{"no schema", `"json_schema"`, `"schema"`, "json_schema"},
		{"suite twice", `"suites": {`, `"suites": {"bakery": {}, `, "duplicate"},
		{"suite with a slash", `"bakery"`, `"bak/ery"`, "without a slash"},
		{"required without a property", `"required": [`, `"required": ["none", `, "no property"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := tt.new
			if tt.old != "" {
				if text = strings.ReplaceAll(string(catalogue), tt.old, tt.new); text == string(catalogue) {
					t.Fatalf("the catalogue does not contain %s", tt.old)
				}
			}
			path := filepath.Join(t.TempDir(), "c.json")
			if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
			if _, err := LoadCatalogue(path); err == nil || !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), path) {
				t.Errorf("error %v, want the file and %q", err, tt.says)
			}
		})
	}
	if _, err := LoadCatalogue(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing catalogue: %v", err)
	}
	for text, says := range map[string]string{`{}`: "without a tool", `{"a/b":{"class":"X"}}`: "unknown class", `[]`: "not a file",
		`{"a":{"class":"R"}}`:                           "want suite/tool",
		`{"a/b":{"Class":"R"}}`:                         "unknown class",
		`{"a/b":{"class":"W-ext"},"a/b":{"class":"R"}}`: "duplicate",
		`{"a/b":{"class":"W-ext","class":"R"}}`:         "duplicate",
	} {
		path := filepath.Join(t.TempDir(), "k.json")
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadClasses(path); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("classes %s: error %v, want %q", text, err, says)
		}
	}
}

func TestFieldTypes(t *testing.T) {
	tests := []struct {
		schema   string
		typ      api.FieldType
		nullable bool
		odd      bool
	}{
		{`{"type":"string"}`, api.TypeString, false, false},
		{`{"type":"number"}`, api.TypeNumber, false, false},
		{`{"anyOf":[{"type":"integer"},{"type":"null"}]}`, api.TypeInteger, true, false},
		{`{"anyOf":[{"$ref":"#/$defs/K"},{"type":"null"}]}`, api.TypeString, true, false},
		{`{"anyOf":[{"type":"integer"},{"type":"string"}]}`, api.TypeString, false, true},
		{`{"type":"array","items":{"type":"string"}}`, api.TypeStrings, false, false},
		{`{"type":"array","items":{"type":"integer"}}`, api.TypeString, false, true},
		{`{"type":"object"}`, api.TypeString, false, true},
		{`{"$ref":"#/$defs/None"}`, api.TypeString, false, true},
		{`{"$ref":"#/$defs/Self"}`, api.TypeString, false, true},
		{`{"type":["string","null"]}`, api.TypeString, false, true},
	}
	for _, tt := range tests {
		defs := map[string]json.RawMessage{"K": []byte(`{"type":"string"}`), "Self": []byte(`{"$ref":"#/$defs/Self"}`)}
		typ, nullable, odd := fieldType(json.RawMessage(tt.schema), defs)
		if typ != tt.typ || nullable != tt.nullable || (odd != "") != tt.odd {
			t.Errorf("%s: %s, nullable %v, %q", tt.schema, typ, nullable, odd)
		}
	}
}

// The catalogues of both versions load, with the sizes their documentation states.
func TestFullCatalogue(t *testing.T) {
	b := full(t)
	if b.Catalogue.Pairs() != 629 || len(b.Kinds) != 74 {
		t.Errorf("%d pairs, %d tools; want 629 and 74", b.Catalogue.Pairs(), len(b.Kinds))
	}
	consequential, notes := 0, 0
	for _, suite := range b.Catalogue.Suites() {
		tools, n, err := b.Tools(suite)
		if err != nil {
			t.Fatal(err)
		}
		notes += len(n)
		for _, tool := range tools {
			if tool.Class == api.ClassConsequential {
				consequential++
			}
		}
	}
	// 27 writing tools and one outbound request; attachments of two send_email tools.
	if consequential != 28 || notes != 2 {
		t.Errorf("%d consequential tools, %d notes; want 28 and 2", consequential, notes)
	}
	newest, err := LoadCatalogue(Require(t, "agentdojo", "catalogue_v1.2.2.json"))
	if err != nil || newest.Pairs() != 949 {
		t.Errorf("newest catalogue: %v, error %v", newest, err)
	}
}

// pieces returns small parts of a real file, because mutating and minimising a large
// seed takes all the time there is: whole files are read by the other tests. Without
// shared data there are none.
func pieces(f *testing.F, name string, split func(data []byte) ([][]byte, error)) [][]byte {
	f.Helper()
	dir, err := SharedDir()
	if err != nil {
		return nil
	}
	data, err := os.ReadFile(filepath.Join(dir, "agentdojo", name))
	if err != nil {
		f.Fatal(err)
	}
	out, err := split(data)
	if err != nil || len(out) == 0 {
		f.Fatalf("%d pieces of %s: %v", len(out), name, err)
	}
	return out
}

// smallestTasks makes of each suite a catalogue of the task with the shortest text and
// of the tools that it calls.
func smallestTasks(data []byte) ([][]byte, error) {
	type object = map[string]json.RawMessage
	var file struct {
		Version string `json:"benchmark_version"`
		Suites  map[string]struct {
			Tools []object          `json:"tools"`
			User  []json.RawMessage `json:"user_tasks"`
		} `json:"suites"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, err
	}
	var out [][]byte
	for _, name := range slices.Sorted(maps.Keys(file.Suites)) {
		s := file.Suites[name]
		task := slices.MinFunc(s.User, func(x, y json.RawMessage) int { return len(x) - len(y) })
		var members object
		if err := json.Unmarshal(task, &members); err != nil {
			return nil, err
		}
		var tools []object
		for _, tool := range s.Tools {
			if bytes.Contains(members["ground_truth"], tool["name"]) {
				tools = append(tools, object{"name": tool["name"], "json_schema": tool["json_schema"]})
			}
		}
		text, err := json.Marshal(map[string]any{"benchmark_version": file.Version, "suites": map[string]any{name: map[string]any{
			"tools": tools, "user_tasks": []object{{"id": members["id"], "prompt": members["prompt"], "ground_truth": members["ground_truth"]}},
		}}})
		if err != nil {
			return nil, err
		}
		out = append(out, text)
	}
	return out, nil
}

// classesByKind makes of each kind a file with its first tool.
func classesByKind(data []byte) ([][]byte, error) {
	kinds, err := parseClasses(data)
	if err != nil {
		return nil, err
	}
	var out [][]byte
	seen := map[ToolKind]bool{}
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		if seen[kinds[name]] {
			continue
		}
		seen[kinds[name]] = true
		text, err := json.Marshal(map[string]map[string]ToolKind{name: {"class": kinds[name]}})
		if err != nil {
			return nil, err
		}
		out = append(out, text)
	}
	return out, nil
}

// Whatever the bytes: a catalogue that is accepted is a benchmark that can be used. Each
// tool has a class of its own, is a table that a platform team could have written,
// and every pair of tasks can be attributed. White space means nothing.
func FuzzParseCatalogue(f *testing.F) {
	for _, data := range pieces(f, "catalogue_v1.1.2.json", smallestTasks) {
		if _, err := parseCatalogue(data); err != nil {
			f.Fatalf("%v: %s", err, data)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"benchmark_version":"v","suites":{"s":{"tools":[{"name":"t","json_schema":{"$defs":{"K":{"$ref":"#/$defs/K"}},` +
		`"properties":{"a":{"$ref":"#/$defs/K"},"b":{"anyOf":[{"type":"integer"},{"type":"null"}],"default":3}},"required":["b"]}}],` +
		`"user_tasks":[{"id":"u","prompt":"p","ground_truth":[{"function":"t","args":{"a":"x"},"placeholder_args":{"a":"y"}}]}]}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parseCatalogue(data)
		if err != nil {
			if c != nil {
				t.Error("a catalogue beside an error")
			}
			return
		}
		if c.Version == "" || len(c.Suites()) == 0 || c.Pairs() < 0 {
			t.Fatalf("accepted version %q with the suites %q", c.Version, c.Suites())
		}
		b := Benchmark{Catalogue: c}
		classes := map[string]bool{} // by the name that a file of classes has for it
		for _, name := range c.Suites() {
			tools, _, err := b.Tools(name)
			if err != nil || len(tools) == 0 {
				t.Fatalf("suite %q has %d tools: %v", name, len(tools), err)
			}
			for _, tool := range tools {
				if classes[name+"/"+tool.Name] {
					t.Fatalf("%s/%s means two tools", name, tool.Name)
				}
				classes[name+"/"+tool.Name] = true
				checkTool(t, tool)
			}
			checkTasks(t, b, name)
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, data); err != nil {
			t.Fatalf("accepted what is not JSON: %v", err)
		}
		again, err := parseCatalogue(compact.Bytes())
		if err != nil {
			t.Fatalf("refused without white space: %v", err)
		}
		sameText := cmp.Comparer(func(x, y json.RawMessage) bool { return len(x) == 0 && len(y) == 0 || sameJSON(x, y) })
		sameDefault := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Default" },
			cmp.Comparer(func(x, y string) bool { return x == y || sameJSON([]byte(x), []byte(y)) }))
		if diff := cmp.Diff(c, again, cmp.AllowUnexported(Catalogue{}, suite{}, toolSpec{}), sameText, sameDefault); diff != "" {
			t.Fatalf("another catalogue without white space:\n%s", diff)
		}
	})
}

// checkTool says what is wrong with a row of a tool table.
func checkTool(t *testing.T, tool api.Tool) {
	t.Helper()
	if tool.Name == "" || tool.Class != api.ClassConsequential {
		t.Errorf("tool %q is of class %s without a file of classes", tool.Name, tool.Class)
	}
	names := map[string]bool{}
	required := 0
	for _, f := range tool.Fields {
		switch f.Type {
		case api.TypeString, api.TypeInteger, api.TypeNumber, api.TypeBoolean, api.TypeStrings:
		default:
			t.Errorf("%s.%s is of type %q", tool.Name, f.Name, f.Type)
		}
		if names[f.Name] || !f.Material || f.Default != "" && !json.Valid([]byte(f.Default)) {
			t.Errorf("%s has the field %+v", tool.Name, f)
		}
		names[f.Name] = true
		if f.Required {
			required++
		}
	}
	for _, name := range tool.Summary {
		if !names[name] {
			t.Errorf("the summary of %s shows %q, which is no field", tool.Name, name)
		}
	}
	if len(tool.Fields) > 0 && len(tool.Summary) == 0 {
		t.Errorf("the summary of %s shows nothing of %d fields, %d of them required", tool.Name, len(tool.Fields), required)
	}
}

// checkTasks attributes the reference calls of each user task, under the first few
// injections.
func checkTasks(t *testing.T, b Benchmark, name string) {
	t.Helper()
	s := b.Catalogue.suites[name]
	injections := slices.Sorted(maps.Keys(s.injection))
	injections = append(injections[:min(len(injections), 2)], "")
	for id, user := range s.user {
		for _, injection := range injections {
			tr := &Trace{Suite: name, UserTask: id, InjectionTask: injection}
			for i, r := range user.Calls {
				args, err := json.Marshal(r.Args)
				if err != nil {
					t.Fatal(err)
				}
				tr.Requests = append(tr.Requests, Request{Index: i, Tool: r.Tool, Args: args, State: Executed})
			}
			calls, err := b.Calls(tr)
			if err != nil || len(calls) != len(user.Calls) {
				t.Fatalf("%s/%s: %d of %d calls attributed: %v", name, id, len(calls), len(user.Calls), err)
			}
			for _, c := range calls {
				if !c.SideEffect || !c.Wanted || c.Owner != OwnerUser && c.Owner != OwnerAmbiguous {
					t.Errorf("%s/%s: the task's own call of %s is taken for %+v", name, id, c.Tool, c)
				}
			}
		}
	}
}

// Whatever the bytes: classes that are accepted are one known kind for each of one
// tool or more, are read again alike from what they say, and gate what they do not
// name.
func FuzzParseClasses(f *testing.F) {
	for _, data := range pieces(f, "tool_classes.json", classesByKind) {
		f.Add(data)
	}
	f.Add([]byte(`{"a/b":{"class":"W-ext"},"a/b":{"class":"R"},"A/b":{"Class":"R"},"a/b/c":{"class":"R-egress"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		kinds, err := parseClasses(data)
		if err != nil {
			if kinds != nil {
				t.Error("classes beside an error")
			}
			return
		}
		if len(kinds) == 0 || !kinds.SideEffect("", "") {
			t.Fatalf("accepted %v", kinds)
		}
		rows := map[string]map[string]ToolKind{}
		for name, kind := range kinds {
			suite, tool, found := strings.Cut(name, "/")
			gated := map[ToolKind]bool{KindRead: false, KindMark: false, KindEgress: true, KindInside: true, KindReach: true}
			if want, known := gated[kind]; !found || !known || kinds.SideEffect(suite, tool) != want {
				t.Fatalf("%q is of kind %q", name, kind)
			}
			rows[name] = map[string]ToolKind{"class": kind}
		}
		text, err := json.Marshal(rows)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := parseClasses(text); err != nil || !maps.Equal(kinds, again) {
			t.Fatalf("%v became %v, %v", kinds, again, err)
		}
	})
}
