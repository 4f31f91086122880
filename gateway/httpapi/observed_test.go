package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"countersign/gateway/api"
)

// mark is what nothing that is written about a request may hold. Its words are found
// apart too, and some of its characters are written otherwise by some writers.
const mark = "Zq7marked\u202eZq7secret\"Zq7end"

var marks = []string{"Zq7marked", "Zq7secret", "Zq7end", "zq7", "Zq7"}

// marked is the body of a route with the mark in every string, those of closed sets
// apart, in the names of opaque members, and inside of arguments.
func marked(t *testing.T, r *route) string {
	t.Helper()
	var fill func(v reflect.Value)
	fill = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer:
			if !v.IsNil() {
				fill(v.Elem())
			}
		case reflect.String:
			if _, closed := enums[v.Type()]; !closed {
				v.SetString(mark)
			}
		case reflect.Slice:
			switch {
			case v.Type() == typeRaw:
				v.SetBytes([]byte(`{"Zq7marked":["Zq7secret",{"Zq7end":"Zq7marked"}]}`))
			case v.Type().Elem().Kind() == reflect.Uint8:
				text, err := json.Marshal(map[string]any{"to": mark, "amount": 1, mark: mark})
				must(t, err)
				v.SetBytes(text)
			default:
				for i := range v.Len() {
					fill(v.Index(i))
				}
			}
		case reflect.Struct:
			if v.Type() == typeTime {
				return
			}
			for i := range v.NumField() {
				fill(v.Field(i))
			}
		}
	}
	in := sample[r.operation].in
	if in == nil {
		return ""
	}
	// A copy by way of JSON, so that the samples stay what they are.
	text, err := encode(in)
	must(t, err)
	v := reflect.New(reflect.TypeOf(in))
	must(t, json.Unmarshal(text, v.Interface()))
	fill(v)
	text, err = encode(v.Elem().Interface())
	must(t, err)
	return string(text)
}

func unmarked(t *testing.T, what string, written ...string) {
	t.Helper()
	for _, text := range written {
		for _, m := range marks {
			if strings.Contains(text, m) {
				t.Errorf("%s: a caller's %q is written down: %s", what, m, text)
				return
			}
		}
	}
}

// What a caller sends, in whatever member, header or part of the address, is in no
// line of the log and in nothing that is observed, whatever becomes of the request.
func TestNothingOfARequestIsWrittenDown(t *testing.T) {
	type answer struct {
		name string
		err  error
		give func(r *route) any
	}
	answers := []answer{
		{"success", nil, func(r *route) any { return sample[r.operation].out }},
		{"panic", nil, nil},
		{"failure", fmt.Errorf("reading %s, %q and %#v: broken", mark, mark, mark), nil},
		{"unavailable", fmt.Errorf("%w: %s, %q", api.ErrUnavailable, mark, mark), nil},
		{"invalid", fmt.Errorf("%w: %s, %q", api.ErrInvalid, mark, mark), nil},
		{"not found", fmt.Errorf("%w: %s, %q", api.ErrNotFound, mark, mark), nil},
		{"refused", &api.RefusedError{Refusals: []api.Refusal{{Binding: api.BindArgs, Code: "differs", Detail: mark}}}, nil},
		{"unimplemented", &api.UnimplementedError{Feature: "f", Reason: mark}, nil},
	}
	lines := 0
	for i := range routes {
		r := &routes[i]
		for _, a := range answers {
			var logged bytes.Buffer
			var seen []Observed
			target := &door{fake: fake{err: a.err}, everybody: true}
			if a.give != nil {
				target.answer = a.give(r)
			}
			if a.name == "panic" {
				target.panics = mark
			}
			h := handlerOf(t, Config{Target: target, Clock: stopped{}, Log: slog.New(slog.NewJSONHandler(&logged, nil)), Observe: func(o Observed) { seen = append(seen, o) }})
			for _, body := range []string{marked(t, r), `{"` + mark + `":1}`, mark} {
				if r.in == nil {
					body = ""
				}
				req := r.request(t, body)
				if strings.Contains(r.path, "{id}") && a.name != "success" { // which says that there is such a suspension
					req = httptest.NewRequest(r.method, strings.Replace(r.path, "{id}", "Zq7marked%E2%80%AEZq7secret%22Zq7end", 1), strings.NewReader(body))
					req.Header.Set("Content-Type", "application/json")
				}
				req.Header.Set("Authorization", "Bearer Zq7marked-Zq7secret")
				req.Header.Set("DPoP", "Zq7marked.Zq7secret.Zq7end")
				req.Header.Set("User-Agent", mark)
				req.Header.Set("X-Forwarded-For", "Zq7marked")
				req.Header.Set("Request-Id", "Zq7marked")
				req.Host = "Zq7marked.example"
				serveOne(h, req)
				lines++
			}
			unmarked(t, r.operation+", "+a.name, logged.String(), fmt.Sprintf("%+v", seen))
			if n := strings.Count(logged.String(), "\n"); n != 3 || len(seen) != 3 {
				t.Errorf("%s, %s: %d lines and %d observations of 3 requests", r.operation, a.name, n, len(seen))
			}
		}
	}
	var logged bytes.Buffer
	h := handlerOf(t, Config{Target: &fake{}, Log: slog.New(slog.NewTextHandler(&logged, nil))})
	for _, req := range []*http.Request{
		httptest.NewRequest("ZQ7MARKED", "/v1/describe", nil),
		httptest.NewRequest("GET", "/Zq7marked?Zq7secret=Zq7end", nil),
		httptest.NewRequest("GET", "/v1/describe?Zq7secret=Zq7end", nil),
	} {
		serveOne(h, req)
	}
	unmarked(t, "addresses that are none", strings.ReplaceAll(logged.String(), "ZQ7MARKED", "Zq7marked"))
	if n := strings.Count(logged.String(), "\n"); n != 3 || lines < 300 {
		t.Errorf("%d lines of 3 requests, and %d before", n, lines)
	}
}

// The same at the reference gateway, which has stores and providers to quote from.
func TestNothingOfARequestIsWrittenDownAtTheGateway(t *testing.T) {
	s := newSite(t)
	for i := range routes {
		r := &routes[i]
		for _, who := range []string{"agent-a", "approver", "newcomer", "admin", "auditor"} {
			body := marked(t, r)
			for _, change := range []func(string) string{
				func(b string) string { return b },
				func(b string) string { return strings.ReplaceAll(b, `"agent"`, `"person"`) },
			} {
				req := httptest.NewRequest(r.method, strings.Replace(r.path, "{id}", "Zq7marked", 1), strings.NewReader(change(body)))
				if r.in != nil {
					req.Header.Set("Content-Type", "application/json")
				}
				req.Header.Set("Authorization", "Bearer "+tokenOf(who))
				serveOne(s.h, req)
			}
		}
	}
	// A call of a tool that there is, with arguments that are nobody's business.
	a := siteAction("Zq7marked")
	a.Run, a.Step, a.Arguments = "Zq7marked", "Zq7secret", []byte(`{"to":"Zq7secret","amount":77001}`)
	s.must(s.post("agent-a", "/v1/proposals", a))
	s.must(s.post("agent-a", "/v1/previews", a))
	s.must(s.post("agent-a", "/v1/dispatch", api.Dispatch{Action: a, RequestID: "Zq7end"}))
	unmarked(t, "the gateway", s.logged.String(), fmt.Sprintf("%+v", s.seen))
	if strings.Contains(s.logged.String(), "77001") || strings.Contains(s.logged.String(), tokenOf("agent-a")) {
		t.Error("a number of the arguments or a token is in the log")
	}
}

// A line says who called what, and what came of it.
func TestLinesOfTheLog(t *testing.T) {
	s := newSite(t)
	lines := func() (out []map[string]any) {
		for _, text := range strings.Split(strings.TrimSpace(s.logged.String()), "\n") {
			var line map[string]any
			must(t, json.Unmarshal([]byte(text), &line))
			out = append(out, line)
		}
		s.logged.Reset()
		return out
	}
	lines()
	a := siteAction("approved")
	present := func() {
		w := serveOne(s.h, s.request("POST", "/v1/dispatch", api.Dispatch{Action: a, Carried: s.permit, RequestID: "q"}, func(r *http.Request) {
			r.Header.Set("Authorization", "DPoP "+tokenOf("agent-a"))
			r.Header.Set("DPoP", s.proof(s.permit.Permit))
		}))
		if id := w.Header().Get("Request-Id"); len(id) != 16 || id != s.seen[len(s.seen)-1].Request {
			t.Errorf("the answer's Request-Id is %q", id)
		}
	}
	present()
	present()
	s.decide("person", s.waits)
	s.decide("approver", s.waits)
	s.send("GET", "nobody", "/v1/audit", nil)
	got := lines()
	want := []string{
		"INFO dispatch 200 agent-a agent - - executed - " + digest(a.Arguments),
		"INFO dispatch 200 agent-a agent - - absorbed seen once " + digest(a.Arguments),
		"INFO view 200 approver person s-000001 - - - -",
		"INFO decide 403 person person - approve - attest duties -",
		"INFO view 200 approver person s-000001 - - - -",
		"INFO decide 204 approver person s-000001 approve - - -",
		"INFO audit 401 - - - - - - -",
	}
	var have []string
	for _, l := range got {
		parts := []string{}
		for _, name := range []string{"level", "operation", "status", "principal", "role", "suspension", "verdict", "outcome", "refused_by", "arguments_sha256"} {
			if v, ok := l[name]; ok {
				parts = append(parts, fmt.Sprint(v))
			} else {
				parts = append(parts, "-")
			}
		}
		have = append(have, strings.Join(parts, " "))
		if l["remote"] != "192.0.2.1" || l["request"] == "" {
			t.Errorf("%v", l)
		}
	}
	if !slices.Equal(have, want) {
		t.Errorf("lines:\n%s\nwant:\n%s", strings.Join(have, "\n"), strings.Join(want, "\n"))
	}
}

// An operator learns what failed, in words that are not the caller's.
func TestCausesAreLogged(t *testing.T) {
	var logged bytes.Buffer
	target := &fake{err: fmt.Errorf("%w: updating %q: disk I/O error (10)", api.ErrUnavailable, "s1")}
	h := handlerOf(t, Config{Target: target, Log: slog.New(slog.NewJSONHandler(&logged, nil))})
	serveOne(h, routeOf(t, "status").request(t))
	target.err = errors.New("assertion of type float64")
	serveOne(h, routeOf(t, "view").request(t))
	for _, want := range []string{`"level":"WARN"`, `updating \"…\": disk I/O error (10)`, `"level":"ERROR"`, `assertion of type float64`} {
		if !strings.Contains(logged.String(), want) {
			t.Errorf("%s is not in the log: %s", want, logged.String())
		}
	}
}

// Strangers who exceed their rate cannot fill the log.
func TestStrangersDoNotFillTheLog(t *testing.T) {
	var logged bytes.Buffer
	n := 0
	h := handlerOf(t, Config{Target: &fake{}, Clock: stopped{}, Strangers: Rate{PerSecond: 1, Burst: 5}, Log: slog.New(slog.NewJSONHandler(&logged, nil)), Observe: func(Observed) { n++ }})
	for range 100 {
		serveOne(h, httptest.NewRequest("GET", "/nowhere", nil))
	}
	if lines := strings.Count(logged.String(), "\n"); lines != 5 || n != 100 {
		t.Errorf("%d lines and %d observations of 100 requests", lines, n)
	}
}
