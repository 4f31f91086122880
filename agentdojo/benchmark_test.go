package agentdojo

import (
	"encoding/json"
	"errors"
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
		{"not JSON", "", "", "unexpected end"},
		{"unknown tool in the ground truth", `"function": "pay_supplier"`, `"function": "pay"`, "no tool of the suite"},
		{"tool twice", `"name": "get_orders"`, `"name": "post_page"`, "not unique"},
		{"task twice", `"id": "user_task_1"`, `"id": "user_task_0"`, "not unique"},
		{"no schema", `"json_schema"`, `"schema"`, "json_schema"},
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
	for text, says := range map[string]string{`{}`: "without a tool", `{"a/b":{"class":"X"}}`: "unknown class", `[]`: "not a file"} {
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
