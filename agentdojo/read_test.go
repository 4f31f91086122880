package agentdojo

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	benignLog   = "testdata/runs/alpha/bakery/user_task_0/none/none.json"
	attackedLog = "testdata/runs/alpha/bakery/user_task_0/important_instructions/injection_task_0.json"
	asUserLog   = "testdata/runs/alpha/bakery/injection_task_0/none/none.json"
	errorLog    = "testdata/runs/alpha/bakery/user_task_1/important_instructions/injection_task_1.json"
	formatBLog  = "testdata/runs/beta/bakery/user_task_2/important_instructions/injection_task_1.json"
)

func TestRead(t *testing.T) {
	tests := []struct {
		path     string
		class    Class
		format   Format
		pipeline string
		states   string // first letters
	}{
		{benignLog, Benign, FormatA, "alpha", "eee"},
		{attackedLog, Attacked, FormatA, "alpha", "eeefeu"},
		{asUserLog, InjectionAsUser, FormatA, "alpha", "e"},
		{errorLog, RunnerError, FormatA, "alpha", "e"},
		// The log itself says "local"; the path knows better.
		{formatBLog, Attacked, FormatB, "beta", "eeeee"},
	}
	for _, tt := range tests {
		t.Run(filepath.ToSlash(tt.path), func(t *testing.T) {
			tr, err := Read(tt.path)
			if err != nil {
				t.Fatal(err)
			}
			var states strings.Builder
			for i, r := range tr.Requests {
				states.WriteByte(r.State[0])
				if r.Index != i {
					t.Errorf("request %d has index %d", i, r.Index)
				}
			}
			if tr.Class() != tt.class || tr.Format != tt.format || tr.Pipeline != tt.pipeline || states.String() != tt.states {
				t.Errorf("read class %s, format %s, pipeline %s, states %s; want %s, %s, %s, %s",
					tr.Class(), tr.Format, tr.Pipeline, &states, tt.class, tt.format, tt.pipeline, tt.states)
			}
			if tr.Suite != "bakery" || tr.Prompt == "" || tr.Duration != 2.5 || tr.Path != tt.path || !tr.Judged {
				t.Errorf("read %+v", tr)
			}
		})
	}
}

// The argument texts are those of the file, byte for byte, whatever a decoder
// would have made of them.
func TestReadKeepsArguments(t *testing.T) {
	log := minimal
	exact := `{"b" : 1.50e1,  "a":"\u2013\u0041<\ud800", "n": 9007199254740993 }`
	log = strings.ReplaceAll(log, `{"x":1}`, exact)
	tr, err := parse([]byte(log), "")
	if err != nil {
		t.Fatal(err)
	}
	if got := string(tr.Requests[0].Args); got != exact {
		t.Errorf("arguments %s, want %s", got, exact)
	}
	file, err := os.ReadFile(attackedLog)
	if err != nil {
		t.Fatal(err)
	}
	tr, err = Read(attackedLog)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range tr.Requests {
		if !bytes.Contains(file, r.Args) {
			t.Errorf("request %d: %s is not in the file", r.Index, r.Args)
		}
	}
}

// minimal is a complete log of format A on one line.
const minimal = `{"suite_name":"s","pipeline_name":"p","user_task_id":"user_task_0","injection_task_id":null,"attack_type":null,` +
	`"injections":{},"messages":[{"role":"system","content":"be good"},{"role":"user","content":"do it"},` +
	`{"role":"assistant","content":null,"tool_calls":[{"function":"f","args":{"x":1},"id":"1"}]},` +
	`{"role":"tool","content":"ok","tool_call_id":"1","tool_call":{"function":"f","args":{"x":1},"id":"1"},"error":null},` +
	`{"role":"assistant","content":"done","tool_calls":[]}],"error":null,"utility":true,"security":true,"duration":1.5}`

func TestReadVariants(t *testing.T) {
	tests := []struct {
		name     string
		old, new string
		class    Class
		state    State
	}{
		{"as it is", "", "", Benign, Executed},
		{"no call", `"tool_calls":[]`, `"tool_calls":null`, Benign, Executed},
		{"calls without ids", `,"id":"1"`, ``, Benign, Executed},
		{"null ids and placeholders", `"id":"1"`, `"id":null,"placeholder_args":null`, Benign, Executed},
		{"no tool_call_id", `"tool_call_id":"1",`, ``, Benign, Executed},
		{"text blocks", `"content":"do it"`, `"content":[{"type":"text","content":"do"},{"type":"text","content":"it"}]`, Benign, Executed},
		{"thinking blocks", `"content":"done"`, `"content":[{"type":"thinking","content":"hm","id":null},{"type":"redacted_thinking","content":"x"}]`, Benign, Executed},
		{"a null message", `"content":"done"`, `"content":null`, Benign, Executed},
		{"no tool named", `"function":"f"`, `"function":""`, Benign, Executed},
		{"failed", `"id":"1"},"error":null`, `"id":"1"},"error":"ValueError: no"`, Benign, Failed},
		{"failed without a text", `"id":"1"},"error":null`, `"id":"1"},"error":""`, Benign, Failed},
		{"attacked", `"injection_task_id":null,"attack_type":null`, `"injection_task_id":"injection_task_3","attack_type":"a"`, Attacked, Executed},
		{"injection as user", `"user_task_0"`, `"injection_task_0"`, InjectionAsUser, Executed},
		{"runner error", `"error":null,"utility"`, `"error":"500","utility"`, RunnerError, Executed},
		{"no verdict", `"utility":true,"security":true,"duration":1.5`, `"duration":null`, Incomplete, Executed},
		{"half a verdict", `"utility":true,`, `"utility":null,`, Incomplete, Executed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if !strings.Contains(minimal, tt.old) {
				t.Fatalf("the log does not contain %s", tt.old)
			}
			tr, err := parse([]byte(strings.ReplaceAll(minimal, tt.old, tt.new)), "")
			if tt.old == "" {
				tr, err = parse([]byte(minimal), "")
			}
			if err != nil {
				t.Fatal(err)
			}
			if tr.Class() != tt.class || tr.Requests[0].State != tt.state {
				t.Errorf("class %s, state %s; want %s, %s", tr.Class(), tr.Requests[0].State, tt.class, tt.state)
			}
			if tr.Prompt != "do it" && tr.Prompt != "do\nit" {
				t.Errorf("prompt %q", tr.Prompt)
			}
		})
	}
	before, _, _ := strings.Cut(minimal, `"messages":`)
	_, after, _ := strings.Cut(minimal, `],"error":null,"utility"`)
	without := func(messages string) []byte {
		return []byte(before + `"messages":` + messages + `,"error":null,"utility"` + after)
	}
	if tr, err := parse(without(`[]`), ""); err != nil || tr.Class() != Empty {
		t.Errorf("no messages: %v, error %v", tr, err)
	}
	if tr, err := parse(without(`null`), ""); err == nil {
		t.Errorf("null for the messages was read as %v", tr)
	}
}

func TestReadRefuses(t *testing.T) {
	tests := []struct{ name, old, new, member, says string }{
		{"not an object", minimal, `[]`, "", "want an object, have a list"},
		{"nothing", minimal, ``, "", "ends early"},
		{"cut off", `"duration":1.5}`, ``, "", "ends early"},
		{"text behind", `"duration":1.5}`, `"duration":1.5} {}`, "", "after the object"},
		{"not UTF-8", `"do it"`, "\"\xff\"", "", "UTF-8"},
		{"a number Python alone can read", `"duration":1.5`, `"duration":NaN`, "", "not JSON"},
		{"missing member", `"pipeline_name":"p",`, ``, "pipeline_name", "is missing"},
		{"member twice", `"utility":true`, `"utility":true,"utility":false`, "utility", "twice"},
		{"other letter case", `"utility":true`, `"Utility":true`, "Utility", "not a member"},
		{"unknown member", `"utility":true`, `"utility":true,"colour":1`, "colour", "not a member"},
		{"wrong type", `"utility":true`, `"utility":"yes"`, "utility", "want bool, have a string"},
		{"null for a string", `"suite_name":"s"`, `"suite_name":null`, "suite_name", "want a string, have null"},
		{"no suite", `"suite_name":"s"`, `"suite_name":""`, "suite_name", "is empty"},
		{"strange task", `"user_task_0"`, `"task 0"`, "user_task_id", "neither"},
		{"injection without attack", `"injection_task_id":null`, `"injection_task_id":"injection_task_0"`, "attack_type", "must be null exactly"},
		{"strange injection", `"injection_task_id":null,"attack_type":null`, `"injection_task_id":"x","attack_type":"a"`, "injection_task_id", "names no injection"},
		{"unknown role", `"role":"system"`, `"role":"developer"`, "messages[0].role", "unknown role"},
		{"unknown block", `"content":"do it"`, `"content":[{"type":"image","content":""}]`, "messages[1].content", "unknown type"},
		{"block with the wrong key", `"content":"do it"`, `"content":[{"type":"text","text":"do it"}]`, "messages[1].content", "content is missing"},
		{"content of another type", `"content":"do it"`, `"content":7`, "messages[1].content", "want a string, null or a list"},
		{"arguments as a string", `"tool_calls":[{"function":"f","args":{"x":1}`, `"tool_calls":[{"function":"f","args":"{}"`, "messages[2].tool_calls[0].args", "want an object, have a string"},
		{"argument twice", `{"x":1}`, `{"x":1,"x":2}`, "messages[2].tool_calls[0].args.x", "twice"},
		{"no tool", `"tool_calls":[{"function":"f",`, `"tool_calls":[{`, "messages[2].tool_calls[0].function", "is missing"},
		{"answer to another call", `"tool_call":{"function":"f"`, `"tool_call":{"function":"g"`, "messages[3].tool_call", "not the call"},
		{"answer with other arguments", `"tool_call":{"function":"f","args":{"x":1}`, `"tool_call":{"function":"f","args":{"x":2}`, "messages[3].tool_call", "not the call"},
		{"answer without a call", `"tool_calls":[{"function":"f","args":{"x":1},"id":"1"}]`, `"tool_calls":null`, "messages[3]", "without a call"},
		{"conversation goes on without an answer", `"role":"tool","content":"ok","tool_call_id":"1","tool_call":{"function":"f","args":{"x":1},"id":"1"},"error":null`, `"role":"user","content":"again"`, "messages[3]", "no tool message"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if !strings.Contains(minimal, tt.old) {
				t.Fatalf("the log does not contain %s", tt.old)
			}
			path := filepath.Join(t.TempDir(), "log.json")
			if err := os.WriteFile(path, []byte(strings.ReplaceAll(minimal, tt.old, tt.new)), 0o666); err != nil {
				t.Fatal(err)
			}
			_, err := Read(path)
			fe, ok := errors.AsType[*FileError](err)
			if !ok || fe.Path != path || fe.Member != tt.member || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %v, want member %q and %q", err, tt.member, tt.says)
			}
		})
	}
}

func TestReadPipeline(t *testing.T) {
	put := func(t *testing.T, rel string) string {
		path := filepath.Join(t.TempDir(), filepath.FromSlash(rel))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(minimal), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for rel, want := range map[string]string{
		"model/s/user_task_0/none/none.json": "model",
		"log.json":                           "p",
		"s/elsewhere/none/none.json":         "p",
	} {
		tr, err := Read(put(t, rel))
		if err != nil || tr.Pipeline != want {
			t.Errorf("%s: pipeline %v, error %v, want %s", rel, tr, err, want)
		}
	}
	for rel, member := range map[string]string{
		"model/t/user_task_0/none/none.json":             "suite_name",
		"model/s/user_task_1/none/none.json":             "user_task_id",
		"model/s/user_task_0/dos/none.json":              "attack_type",
		"model/s/user_task_0/none/injection_task_1.json": "injection_task_id",
	} {
		_, err := Read(put(t, rel))
		if fe, ok := errors.AsType[*FileError](err); !ok || fe.Member != member {
			t.Errorf("%s: error %v, want one about %s", rel, err, member)
		}
	}
}

// Whatever the bytes: no panic, what is accepted is whole, its argument texts are
// those of the file, and its calls can be attributed.
func FuzzParse(f *testing.F) {
	f.Add([]byte(minimal))
	for _, path := range []string{benignLog, attackedLog, asUserLog, errorLog, formatBLog} {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	b := mini(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		tr, err := parse(data, "")
		if err != nil {
			if tr != nil {
				t.Error("a trace beside an error")
			}
			return
		}
		if tr.Suite == "" || tr.Pipeline == "" || (tr.Attack == "") != (tr.InjectionTask == "") {
			t.Errorf("accepted %+v", tr)
		}
		for i, r := range tr.Requests {
			if !json.Valid(r.Args) || !bytes.Contains(data, r.Args) || r.Index != i || r.State == "" {
				t.Errorf("request %d: %+v", i, r)
			}
		}
		if _, err := b.Calls(tr); err != nil && !errors.Is(err, ErrNotInCatalogue) {
			t.Error(err)
		}
	})
}
