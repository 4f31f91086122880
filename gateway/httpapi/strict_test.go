package httpapi

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"countersign/gateway/api"
)

func TestOneReading(t *testing.T) {
	const head = `{"suspension":"s","verdict":"approve"`
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	cases := []struct{ name, body, want string }{ // want: part of the error; empty for none
		{"plain", head + `}`, ""},
		{"white space and order", " {\"verdict\" : \"approve\" ,\n\"suspension\":\"s\" }\t", ""},
		{"escaped name", `{"\u0073uspension":"s","verdict":"approve"}`, ""},
		{"opaque value", head + `,"assertion":{"id":"a","x":[null,true,1e999,{"id":""}]}}`, ""},
		{"surrogate pair", head + `,"assertion":"\ud83d\ude00"}`, ""},
		{"character behind the surrogates", head + `,"assertion":"\ufffd"}`, ""},
		{"another escape before what a surrogate has", head + `,"assertion":"\nd800"}`, ""},
		{"backslash before u", head + `,"assertion":"\\ud800"}`, ""},
		{"duplicate", `{"suspension":"s","verdict":"decline","verdict":"approve"}`, `member "verdict" appears twice`},
		{"duplicate by escape", head + `,"\u0076erdict":"decline"}`, "appears twice"},
		{"letter case", `{"suspension":"s","Verdict":"approve"}`, `unknown member "Verdict"`},
		{"letter case beside", head + `,"VERDICT":"decline"}`, "unknown member"},
		{"Kelvin sign", head + `,"Kind":1}`, "unknown member"},
		{"unknown", head + `,"approver":"me"}`, "unknown member"},
		{"missing", `{"suspension":"s"}`, `member "verdict" is missing`},
		{"null", `{"suspension":"s","verdict":null}`, `at "/verdict": want one of approve, decline`},
		{"another type", `{"suspension":1,"verdict":"approve"}`, `at "/suspension": want a string`},
		{"array", `[]`, "want an object"},
		{"null alone", `null`, "want an object"},
		{"duplicate in an opaque value", head + `,"assertion":{"a":{"b":1,"b":2}}}`, "appears twice"},
		{"letter case in an opaque value", head + `,"assertion":[{"type":1,"Type":2}]}`, "appears twice"},
		{"long s in an opaque value", head + `,"assertion":{"s":1,"ſ":2}}`, "appears twice"},
		{"text after", head + `}{}`, "not one JSON value"},
		{"text after, letters", head + `} x`, "not one JSON value"},
		{"cut", head, "not one JSON value"},
		{"two values", head + `} null`, "not one JSON value"},
		{"comma", head + `,}`, "not one JSON value"},
		{"NaN", head + `,"assertion":NaN}`, "not one JSON value"},
		{"byte order mark", "\ufeff" + head + `}`, "not one JSON value"},
		{"not UTF-8", head + ",\"assertion\":\"\xff\"}", "not UTF-8"},
		{"high surrogate alone", head + `,"assertion":"\ud800x"}`, "lone surrogate"},
		{"low surrogate first", head + `,"assertion":"\udc00\ud800"}`, "lone surrogate"},
		{"two high surrogates", head + `,"assertion":"\uD800\uD800"}`, "lone surrogate"},
		{"two low surrogates", head + `,"assertion":"\udc00\udc00"}`, "lone surrogate"},
		{"high surrogate and a character behind the surrogates", head + `,"assertion":"\ud800\ue000"}`, "lone surrogate"},
		{"high surrogate and no backslash", head + `,"assertion":"\ud800xudc00"}`, "lone surrogate"},
		{"high surrogate and another escape", head + `,"assertion":"\ud800\ndc00"}`, "lone surrogate"},
		{"high surrogate last", `"\ud800"`, "lone surrogate"},
		{"surrogate in a name", `{"\ud800":1}`, "lone surrogate"},
		{"depth allowed", head + `,"assertion":` + nested(maxDepth) + `}`, ""},
		{"depth", head + `,"assertion":` + nested(maxDepth+1) + `}`, "nested more than"},
		{"depth bomb", head + `,"assertion":` + nested(1<<20) + `}`, "not one JSON value"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var d api.Decision
			err := decodeRequest([]byte(c.body), &d)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			if err == nil && (d.Suspension != "s" || d.Verdict != api.Approve) {
				t.Errorf("read %+v", d)
			}
		})
	}
}

func TestBase64HasOneForm(t *testing.T) {
	for text, want := range map[string]string{"": "", "YQ==": "a", "YWI=": "ab"} {
		var a struct {
			Arguments []byte `json:"arguments"`
		}
		if err := decodeRequest([]byte(`{"arguments":"`+text+`"}`), &a); err != nil || string(a.Arguments) != want {
			t.Errorf("%q: %q, %v", text, a.Arguments, err)
		}
	}
	for _, text := range []string{`"YR=="`, `"YQ"`, `"YQ==\n"`, `"Y\nQ=="`, `"_-=="`, `"YQ== "`, `[97]`, `null`} {
		var a struct {
			Arguments []byte `json:"arguments"`
		}
		if err := decodeRequest([]byte(`{"arguments":`+text+`}`), &a); err == nil {
			t.Errorf("%s: read as %q", text, a.Arguments)
		}
	}
}

// Opaque values of an answer are the target's to choose: a preview of hostile
// arguments shows them as they are.
func TestAnswersKeepOpaqueValues(t *testing.T) {
	text := `{"/a":{"x":1,"x":2,"X":3},"/b":"\ud800","/c":` + strings.Repeat("[", 500) + strings.Repeat("]", 500) + `}`
	var v api.Values
	if err := decodeAnswer([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	if got := string(v["/a"]); got != `{"x":1,"x":2,"X":3}` {
		t.Errorf("got %s", got)
	}
	if err := decodeAnswer([]byte(`{"/a":1,"/A":2}`), &v); err != nil {
		t.Errorf("two paths: %v", err)
	}
	for _, text := range []string{`{"/a":1,"/a":2}`, "{\"/a\":\"\xff\"}", `{"/a":1}{}`} {
		if err := decodeAnswer([]byte(text), &v); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}

// TestAnswersAreNoDeeper: what an answer may hold of itself has a bound.
func TestAnswersAreNoDeeper(t *testing.T) {
	nested := func(n int) []byte {
		return []byte(strings.Repeat(`{"status":"held","siblings":[`, n) + strings.Repeat(`]}`, n))
	}
	var o api.Outcome
	if err := decodeAnswer(nested(maxDepth/2), &o); err != nil {
		t.Error(err)
	}
	if err := decodeAnswer(nested(maxDepth), &o); err == nil || !strings.Contains(err.Error(), "nested more than") {
		t.Errorf("got %v", err)
	}
}

// TestCheckText: what is not UTF-8 is found wherever it is.
func TestCheckText(t *testing.T) {
	for _, v := range []any{
		"\xff", json.RawMessage("\"\xff\""), api.Decision{Assertion: json.RawMessage("\"\xff\"")}, []api.Action{{}, {Tool: "\xff"}}, &api.Action{Run: "\xff"},
	} {
		if err := checkText(reflect.ValueOf(v), ""); err == nil {
			t.Errorf("%+q is taken for UTF-8", v)
		}
	}
	if err := checkText(reflect.ValueOf(api.Action{Tool: "é", Arguments: []byte{0xff}}), ""); err != nil {
		t.Errorf("arguments are bytes: %v", err)
	}
}

func TestEncodeLeavesTheCallersValueAlone(t *testing.T) {
	d := api.Dispatch{Siblings: []api.Action{{}}}
	b, err := encode(d)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(b), "null") || d.Siblings[0].Arguments != nil {
		t.Errorf("wrote %s, left %+v", b, d)
	}
	b, err = encode(api.Outcome{Status: api.Executed, Result: json.RawMessage("{ \"a\" : \"<\u2028>\" }")})
	if diff := cmp.Diff("{\"status\":\"executed\",\"result\":{\"a\":\"<\u2028>\"}}", string(b)); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
}
