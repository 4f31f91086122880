package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"countersign/gateway/api"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil))) // failures are provoked on purpose
	os.Exit(m.Run())
}

// fake is a scripted target: it remembers its last call and gives the answer or
// the error it was told to give.
type fake struct {
	mu     sync.Mutex
	calls  int
	method string // of api.Target
	auth   api.Auth
	got    any // the argument beside auth

	answer any
	err    error
	during func(ctx context.Context)
	panics any
}

func (f *fake) record(ctx context.Context, method string, auth api.Auth, got any) (any, error) {
	f.mu.Lock()
	f.calls++
	f.method, f.auth, f.got = method, auth, got
	answer, err, during := f.answer, f.err, f.during
	f.mu.Unlock()
	if during != nil {
		during(ctx)
	}
	if f.panics != nil {
		panic(f.panics)
	}
	return answer, err
}

func as[T any](v any, err error) (T, error) {
	t, _ := v.(T)
	return t, err
}

func (f *fake) Describe(ctx context.Context) (api.Description, error) {
	return as[api.Description](f.record(ctx, "describe", api.Auth{}, nil))
}
func (f *fake) Propose(ctx context.Context, auth api.Auth, a api.Action) (api.Pending, error) {
	return as[api.Pending](f.record(ctx, "propose", auth, a))
}
func (f *fake) Preview(ctx context.Context, auth api.Auth, a api.Action) (api.Values, error) {
	return as[api.Values](f.record(ctx, "preview", auth, a))
}
func (f *fake) Status(ctx context.Context, auth api.Auth, id string) (api.SuspensionStatus, error) {
	return as[api.SuspensionStatus](f.record(ctx, "status", auth, id))
}
func (f *fake) Dispatch(ctx context.Context, auth api.Auth, d api.Dispatch) (api.Outcome, error) {
	return as[api.Outcome](f.record(ctx, "dispatch", auth, d))
}
func (f *fake) View(ctx context.Context, auth api.Auth, id string) (api.View, error) {
	return as[api.View](f.record(ctx, "view", auth, id))
}
func (f *fake) RunWideView(ctx context.Context, auth api.Auth, id string, terms api.RunWide) (api.View, error) {
	if id != "s1" {
		return api.View{}, errors.New("another suspension than the one that was named: " + id)
	}
	return as[api.View](f.record(ctx, "runWideView", auth, terms))
}
func (f *fake) Decide(ctx context.Context, auth api.Auth, d api.Decision) error {
	_, err := f.record(ctx, "decide", auth, d)
	return err
}
func (f *fake) BeginEnrolment(ctx context.Context, auth api.Auth) (json.RawMessage, error) {
	return as[json.RawMessage](f.record(ctx, "beginEnrolment", auth, nil))
}
func (f *fake) FinishEnrolment(ctx context.Context, auth api.Auth, response json.RawMessage) error {
	_, err := f.record(ctx, "finishEnrolment", auth, response)
	return err
}
func (f *fake) Admin(ctx context.Context, auth api.Auth, e api.Event) error {
	_, err := f.record(ctx, "admin", auth, e)
	return err
}
func (f *fake) Audit(ctx context.Context, auth api.Auth, after int64) ([]api.AuditEntry, error) {
	return as[[]api.AuditEntry](f.record(ctx, "audit", auth, after))
}

var (
	raw     = json.RawMessage(`{"a":[1e400,"<&>"],"b":null}`)
	refusal = api.Refusal{Binding: api.BindArgs, Code: "differs", Detail: "at dispatch"}
	action  = api.Action{Audience: "bank", Tool: "pay", Arguments: []byte("{\"amount\": 1, \"to\":\"\xff\"}"),
		Run: "r", Step: "s", Call: "c", Hints: api.Hints{DryRun: true}}
	terms   = api.RunWide{Uses: 3, Until: time.Date(2026, 1, 5, 9, 10, 0, 0, time.UTC)}
	carried = api.Carried{Approved: true, Approval: "ap", Permit: "a.b.c", Assertion: raw}
)

// sample has, for every operation that a target answers, one full request body
// and one full answer.
var sample = map[string]struct{ in, out any }{
	"describe": {nil, api.Description{Name: "n", Version: "v", Claims: []api.Binding{api.BindArgs},
		Origin: "https://approve.example", DispatchURI: "https://gate.example/{audience}", PermitKey: "-----BEGIN PUBLIC KEY-----\n"}},
	"propose": {action, api.Pending{Suspension: "s1", State: api.StatePending, SuspendedAt: 1<<63 - 1}},
	"preview": {action, api.Values{"/amount": json.RawMessage("1"), "/to>account": json.RawMessage(`"x"`), "/n": json.RawMessage("null")}},
	"status":  {nil, api.SuspensionStatus{Suspension: "s1", Decided: true, Verdict: api.Approve, Carried: carried}},
	"view": {nil, api.View{Suspension: "s1", Title: "t", Fields: []api.ViewField{{Path: "/amount", Label: "Amount", Text: "1"}},
		Notes: []string{"n"}, Offer: &terms, Digest: "00", Assertion: raw}},
	"runWideView": {terms, api.View{Suspension: "s1", Title: "t", Fields: []api.ViewField{}, RunWide: &terms}},
	"decide":      {api.Decision{Suspension: "s1", Verdict: api.Decline, RunWide: &terms, Assertion: raw}, nil},
	"dispatch": {api.Dispatch{Action: action, Carried: carried, Siblings: []api.Action{action}, RequestID: "q"},
		api.Outcome{Status: api.Reasked, Refusals: []api.Refusal{refusal}, Suspension: "s2", Result: raw,
			Siblings: []api.Outcome{{Status: api.Absorbed, Result: raw}, {Status: api.Held}}}},
	"beginEnrolment":  {nil, raw},
	"finishEnrolment": {raw, nil},
	"admin": {api.Event{Kind: api.EventEnrol, Principal: &api.Principal{ID: "i", Role: api.RoleAgent, Tenant: "t",
		ActsFor: "p", Approver: true, Token: "tok", Key: []byte{0xff}}, Subject: "s", Value: "v"}, nil},
	"audit": {nil, []api.AuditEntry{{Seq: 1, Time: time.Unix(0, 1).UTC(), Event: "e", Suspension: "s", Permit: "p",
		Principal: "w", Audience: "a", Tool: "t", ArgsDigest: "00", ViewDigest: "11", Policy: "2", RequestID: "q",
		Key: "k", Status: api.Held, Refusals: []api.Refusal{refusal}, Alert: "al"}}},
}

// address is the path of a route, for the suspension s1.
func (r *route) address() string { return strings.Replace(r.path, "{id}", "s1", 1) }

// request returns a good request for a route, with the given body in place of
// the sample's when one is given.
func (r *route) request(t testing.TB, body ...string) *http.Request {
	t.Helper()
	text := strings.Join(body, "")
	if in := sample[r.operation].in; in != nil && body == nil {
		b, err := encode(in)
		if err != nil {
			t.Fatal(err)
		}
		text = string(b)
	}
	req := httptest.NewRequest(r.method, r.address(), strings.NewReader(text))
	if r.in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if !r.open {
		req.Header.Set("Authorization", "Bearer tok")
	}
	return req
}

func serveOne(h http.Handler, req *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w
}

// code returns the code of an error answer.
func code(t testing.TB, w *httptest.ResponseRecorder) string {
	t.Helper()
	var e errorAnswer
	if err := decodeAnswer(w.Body.Bytes(), &e); err != nil {
		t.Fatalf("status %d, error body %q: %v", w.Code, w.Body, err)
	}
	return string(e.Error.Code)
}
