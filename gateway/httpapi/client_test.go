package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"countersign/gateway/api"
)

// invoke makes the call of an operation on any target.
func invoke(t api.Target, operation string, auth api.Auth, in any) (any, error) {
	ctx := context.Background()
	switch operation {
	case "describe":
		return t.Describe(ctx)
	case "propose":
		return t.Propose(ctx, auth, in.(api.Action))
	case "preview":
		return t.Preview(ctx, auth, in.(api.Action))
	case "status":
		return t.Status(ctx, auth, in.(string))
	case "view":
		return t.View(ctx, auth, in.(string))
	case "runWideView":
		return t.RunWideView(ctx, auth, "s1", in.(api.RunWide))
	case "decide":
		return nil, t.Decide(ctx, auth, in.(api.Decision))
	case "dispatch":
		return t.Dispatch(ctx, auth, in.(api.Dispatch))
	case "beginEnrolment":
		return t.BeginEnrolment(ctx, auth)
	case "finishEnrolment":
		return nil, t.FinishEnrolment(ctx, auth, in.(json.RawMessage))
	case "admin":
		return nil, t.Admin(ctx, auth, in.(api.Event))
	case "audit":
		return t.Audit(ctx, auth, in.(int64))
	}
	panic("no operation " + operation)
}

// generator makes values of a type that can be on the wire: closed sets have one
// of their values (or none, where the member may be left out), raw messages are
// compact JSON.
func generator(t reflect.Type) *rapid.Generator[any] {
	anyOf := func(g *rapid.Generator[any]) *rapid.Generator[any] { return g }
	types := map[reflect.Type]*rapid.Generator[any]{
		typeRaw: rapid.Custom(func(t *rapid.T) any {
			v := rapid.OneOf(rapid.String().AsAny(), rapid.Float64Range(-1e300, 1e300).AsAny(), rapid.Just[any](nil),
				// No two names that differ in letter case alone, which a request may not have.
				rapid.MapOf(rapid.StringMatching(`[a-z<>&" ⟨]*`), rapid.SliceOf(rapid.String())).AsAny()).Draw(t, "json")
			b, err := encode(v)
			if err != nil {
				t.Fatal(err)
			}
			return json.RawMessage(b)
		}),
		typeTime: rapid.Custom(func(t *rapid.T) any {
			return time.Unix(rapid.Int64Range(0, 1<<37).Draw(t, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanoseconds")).UTC()
		}),
		// The type is recursive: two levels will do.
		reflect.TypeFor[[]api.Outcome](): rapid.Custom(func(t *rapid.T) any {
			return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) api.Outcome {
				return api.Outcome{Status: api.Refused, Suspension: rapid.String().Draw(t, "suspension"), Refusals: []api.Refusal{refusal}}
			}), 0, 2).Draw(t, "siblings")
		}),
	}
	for typ, values := range enums {
		types[typ] = anyOf(rapid.Custom(func(t *rapid.T) any {
			return reflect.ValueOf(rapid.SampledFrom(values).Draw(t, "value")).Convert(typ).Interface()
		}))
	}
	cfg := rapid.MakeConfig{Types: types}
	switch reflect.New(t).Interface().(type) {
	case *api.Description:
		return rapid.MakeCustom[api.Description](cfg).AsAny()
	case *api.Action:
		return rapid.MakeCustom[api.Action](cfg).AsAny()
	case *api.Pending:
		return rapid.MakeCustom[api.Pending](cfg).AsAny()
	case *api.Values:
		return rapid.MakeCustom[api.Values](cfg).AsAny()
	case *api.SuspensionStatus:
		return rapid.MakeCustom[api.SuspensionStatus](cfg).AsAny()
	case *api.View:
		return rapid.MakeCustom[api.View](cfg).AsAny()
	case *api.RunWide:
		return rapid.MakeCustom[api.RunWide](cfg).AsAny()
	case *api.Decision:
		return rapid.MakeCustom[api.Decision](cfg).AsAny()
	case *api.Dispatch:
		return rapid.MakeCustom[api.Dispatch](cfg).AsAny()
	case *api.Outcome:
		return rapid.MakeCustom[api.Outcome](cfg).AsAny()
	case *api.Event:
		return rapid.MakeCustom[api.Event](cfg).AsAny()
	case *[]api.AuditEntry:
		return rapid.SliceOfN(rapid.MakeCustom[api.AuditEntry](cfg), 0, 3).AsAny()
	case *json.RawMessage:
		return rapid.MakeCustom[json.RawMessage](cfg).AsAny()
	}
	panic(fmt.Sprint("no generator for ", t))
}

// A call through client and server is the call itself: argument, caller and
// answer arrive equal, but for nil against empty.
func TestRoundTrip(t *testing.T) {
	target := &fake{}
	server := httptest.NewServer(NewHandler(target))
	defer server.Close()
	client := NewClient(server.URL+"/", server.Client())
	for i := range routes {
		r := &routes[i]
		if r.call == nil || r.operation == "ready" { // of a process, and not of the contract
			continue
		}
		t.Run(r.operation, rapid.MakeCheck(func(t *rapid.T) {
			var in, out any
			switch {
			case r.in != nil:
				in = generator(reflect.TypeOf(r.in)).Draw(t, "in")
			case r.after:
				in = rapid.Int64().Draw(t, "after")
			case strings.Contains(r.path, "{id}"):
				in = rapid.OneOf(rapid.StringN(1, -1, -1), rapid.SampledFrom([]string{".", "..", "a/b", "%2F", "a?b#c", "view", " "})).Draw(t, "id")
			}
			if d, ok := in.(api.Decision); ok && d.Suspension == "" {
				d.Suspension = "s"
				in = d
			}
			if r.out != nil {
				out = generator(reflect.TypeOf(r.out)).Draw(t, "out")
			}
			auth := api.Auth{}
			if !r.open {
				auth = api.Auth{Token: rapid.StringMatching(`[!-~]{1,40}`).Draw(t, "token"), Proof: rapid.StringMatching(`([\w-]+\.[\w-]+\.[\w-]+)?`).Draw(t, "proof")}
			}
			target.answer = out
			got, err := invoke(client, r.operation, auth, in)
			if err != nil {
				t.Fatal(err)
			}
			for what, pair := range map[string][2]any{"answer": {out, got}, "argument": {in, target.got}, "caller": {auth, target.auth}, "method": {r.operation, target.method}} {
				if diff := cmp.Diff(pair[0], pair[1], cmpopts.EquateEmpty()); diff != "" {
					t.Fatalf("%s sent (-) and received (+):\n%s", what, diff)
				}
			}
		}))
	}
}

// The samples hold what a generator is unlikely to: arguments that are not
// UTF-8, numbers beyond double precision.
func TestRoundTripOfSamples(t *testing.T) {
	target := &fake{}
	server := httptest.NewServer(NewHandler(target))
	defer server.Close()
	client := NewClient(server.URL, nil)
	for operation, s := range sample {
		in := s.in
		switch operation {
		case "status", "view":
			in = "s1"
		case "audit":
			in = int64(math.MinInt64)
		}
		target.answer = s.out
		got, err := invoke(client, operation, api.Auth{Token: "tok"}, in)
		if err != nil {
			t.Fatalf("%s: %v", operation, err)
		}
		if diff := cmp.Diff([]any{in, s.out}, []any{target.got, got}); diff != "" {
			t.Errorf("%s: sent (-) and received (+):\n%s", operation, diff)
		}
	}
}

func TestErrorsMeanTheSameOnBothSides(t *testing.T) {
	target := &fake{}
	server := httptest.NewServer(NewHandler(target))
	defer server.Close()
	client := NewClient(server.URL, nil)
	kinds := []error{api.ErrUnauthenticated, api.ErrForbidden, api.ErrNotFound, api.ErrInvalid, api.ErrConflict, api.ErrUnavailable, api.ErrRateLimited}
	refused := &api.RefusedError{Refusals: []api.Refusal{refusal, {Binding: "their-own", Code: "x"}}}
	unimplemented := &api.UnimplementedError{Feature: "preview", Reason: "no dry run"}
	cases := []error{refused, fmt.Errorf("wrapped: %w", refused), unimplemented, fmt.Errorf("wrapped: %w", unimplemented),
		errors.New("other"), io.ErrUnexpectedEOF, api.ErrNoAnswer, context.DeadlineExceeded}
	for _, k := range kinds {
		cases = append(cases, k, fmt.Errorf("suspension %q: %w", "x", k))
	}
	for _, want := range cases {
		for operation, s := range sample {
			in := s.in
			switch operation {
			case "status", "view":
				in = "s1"
			case "audit":
				in = int64(0)
			}
			target.err = want
			_, got := invoke(client, operation, api.Auth{Token: "tok"}, in)
			if got == nil {
				t.Fatalf("%s: no error for %v", operation, want)
			}
			for _, k := range kinds {
				if errors.Is(want, k) != errors.Is(got, k) {
					t.Errorf("%s: %v arrived as %v", operation, want, got)
				}
			}
			var r1, r2 *api.RefusedError
			if errors.As(want, &r1) != errors.As(got, &r2) || !cmp.Equal(r1, r2) {
				t.Errorf("%s: %v arrived as %v", operation, want, got)
			}
			var u1, u2 *api.UnimplementedError
			if errors.As(want, &u1) != errors.As(got, &u2) || !cmp.Equal(u1, u2) {
				t.Errorf("%s: %v arrived as %v", operation, want, got)
			}
		}
	}
}

// An answer that is not the contract's is an error of no kind: it is never taken
// for a refusal, for "nothing happened", or for success.
func TestAnswersThatAreNotUnderstood(t *testing.T) {
	const (
		isJSON  = "application/json"
		refused = `{"error":{"code":"refused","detail":"d","refusals":[{"binding":"args","code":"c"}]}}`
	)
	cases := []struct {
		name   string
		status int
		media  string
		body   string
	}{
		{"proxy's page", 403, "text/html", "<h1>Forbidden</h1>"},
		{"refusal in another media type", 403, "text/plain", refused},
		{"refusal under another status", 500, isJSON, refused},
		{"refusal as success", 200, isJSON, refused},
		{"refusal by no binding", 403, isJSON, `{"error":{"code":"refused","detail":"d"}}`},
		{"refusal by an empty list", 403, isJSON, `{"error":{"code":"refused","detail":"d","refusals":[]}}`},
		{"refusal with more text", 403, isJSON, refused + "x"},
		{"unknown code", 403, isJSON, `{"error":{"code":"denied","detail":"d"}}`},
		{"code without detail", 404, isJSON, `{"error":{"code":"not_found"}}`},
		{"no such address", 404, isJSON, `{"error":{"code":"no_route","detail":"d"}}`},
		{"unavailable under another status", 502, isJSON, `{"error":{"code":"unavailable","detail":"d"}}`},
		{"empty error", 403, isJSON, ""},
		{"no status", 200, isJSON, `{}`},
		{"unknown status", 200, isJSON, `{"status":"blocked"}`},
		{"unknown member", 200, isJSON, `{"status":"executed","note":"x"}`},
		{"duplicate member", 200, isJSON, `{"status":"refused","status":"executed"}`},
		{"null", 200, isJSON, "null"},
		{"cut", 200, isJSON, `{"status":"exec`},
		{"other success", 202, isJSON, `{"status":"executed"}`},
		{"no content", 204, "", ""},
		{"not modified", 304, "", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", c.media)
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			}))
			defer server.Close()
			out, err := NewClient(server.URL, nil).Dispatch(context.Background(), api.Auth{Token: "tok"}, api.Dispatch{})
			ordinary(t, err)
			if !cmp.Equal(out, api.Outcome{}) {
				t.Errorf("an outcome beside the error: %+v", out)
			}
		})
	}
	t.Run("success with a body where there is none", func(t *testing.T) {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", isJSON)
			_, _ = io.WriteString(w, `{"ok":false}`)
		}))
		defer server.Close()
		ordinary(t, NewClient(server.URL, nil).Decide(context.Background(), api.Auth{Token: "tok"}, api.Decision{Suspension: "s", Verdict: api.Approve}))
	})
	t.Run("redirect", func(t *testing.T) {
		target := &fake{answer: sample["dispatch"].out}
		other := httptest.NewServer(NewHandler(target))
		defer other.Close()
		server := httptest.NewServer(http.RedirectHandler(other.URL+"/v1/dispatch", http.StatusTemporaryRedirect))
		defer server.Close()
		_, err := NewClient(server.URL, &http.Client{}).Dispatch(context.Background(), api.Auth{Token: "tok"}, api.Dispatch{})
		ordinary(t, err)
		if target.calls != 0 {
			t.Error("the call went elsewhere")
		}
	})
	t.Run("nobody there", func(t *testing.T) {
		server := httptest.NewServer(nil)
		server.Close()
		for _, base := range []string{server.URL, "", "127.0.0.1", "file:///etc"} {
			_, err := NewClient(base, nil).Describe(context.Background())
			ordinary(t, err)
		}
	})
}

func ordinary(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, s := range sentinels {
		if errors.Is(err, s.err) {
			t.Errorf("taken for %v: %v", s.err, err)
		}
	}
	var refused *api.RefusedError
	var unimplemented *api.UnimplementedError
	if errors.As(err, &refused) || errors.As(err, &unimplemented) {
		t.Errorf("taken for %T: %v", err, err)
	}
}

// What JSON cannot carry is not sent in another form.
func TestCallsThatCannotBeSent(t *testing.T) {
	target := &fake{}
	server := httptest.NewServer(NewHandler(target))
	defer server.Close()
	client := NewClient(server.URL, nil)
	good := api.Auth{Token: "tok"}
	ctx := context.Background()
	cases := []struct {
		name string
		call func() error
		want error
	}{
		{"tool that is not UTF-8", func() error { _, err := client.Propose(ctx, good, api.Action{Tool: "\xff"}); return err }, api.ErrInvalid},
		{"sibling that is not UTF-8", func() error {
			_, err := client.Dispatch(ctx, good, api.Dispatch{Siblings: []api.Action{{Run: "\xff"}}})
			return err
		}, api.ErrInvalid},
		{"principal that is not UTF-8", func() error {
			return client.Admin(ctx, good, api.Event{Kind: api.EventEnrol, Principal: &api.Principal{ID: "\xff", Role: api.RoleAgent}})
		}, api.ErrInvalid},
		{"assertion that is not JSON", func() error {
			return client.Decide(ctx, good, api.Decision{Suspension: "s", Verdict: api.Approve, Assertion: json.RawMessage("{")})
		}, api.ErrInvalid},
		{"assertion that is not UTF-8", func() error {
			return client.Decide(ctx, good, api.Decision{Suspension: "s", Verdict: api.Approve, Assertion: json.RawMessage("\"\xff\"")})
		}, api.ErrInvalid},
		{"too large", func() error {
			_, err := client.Propose(ctx, good, api.Action{Arguments: make([]byte, MaxBody)})
			return err
		}, api.ErrInvalid},
		{"no verdict", func() error { return client.Decide(ctx, good, api.Decision{Suspension: "s"}) }, api.ErrInvalid},
		{"empty identifier", func() error { _, err := client.View(ctx, good, ""); return err }, api.ErrNotFound},
		{"no token", func() error { _, err := client.View(ctx, api.Auth{}, "s"); return err }, api.ErrUnauthenticated},
		{"token over two lines", func() error { _, err := client.View(ctx, api.Auth{Token: "a\r\nX: b"}, "s"); return err }, api.ErrUnauthenticated},
	}
	for _, c := range cases {
		if err := c.call(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if target.calls != 0 {
		t.Errorf("the target was called %d times", target.calls)
	}
}

// An identifier stays one path segment, whatever stands between client and server.
func TestIdentifiersInAddresses(t *testing.T) {
	var uri string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { uri = r.RequestURI }))
	defer server.Close()
	for id, want := range map[string]string{"..": "%2E%2E", ".": "%2E", "../x": "%2E%2E%2Fx", "a?b#c%": "a%3Fb%23c%25", "s-1": "s-1"} {
		if _, err := NewClient(server.URL, nil).View(context.Background(), api.Auth{Token: "tok"}, id); err == nil {
			t.Error("an empty answer was understood")
		}
		if want = "/v1/suspensions/" + want + "/view"; uri != want {
			t.Errorf("%q: asked for %s, want %s", id, uri, want)
		}
	}
}

// Text of an answer that is not UTF-8 does not turn an effect into an error.
func TestAnswersThatAreNotUTF8Arrive(t *testing.T) {
	target := &fake{answer: api.Outcome{Status: api.Executed, Suspension: "a\xffb", Result: json.RawMessage("\"\xff\"")}}
	server := httptest.NewServer(NewHandler(target))
	defer server.Close()
	got, err := NewClient(server.URL, nil).Dispatch(context.Background(), api.Auth{Token: "tok"}, api.Dispatch{})
	if diff := cmp.Diff(api.Outcome{Status: api.Executed, Suspension: "a\uFFFDb", Result: json.RawMessage(`"` + "\uFFFD" + `"`)}, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

func checkAnswer(t *testing.T, status int, body []byte) {
	resp := &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}}
	var out api.Outcome
	err := understand(resp, body, &out)
	if err == nil && (status != http.StatusOK || out.Status == "") {
		t.Fatalf("%d %q is taken for success: %+v", status, body, out)
	}
	if err != nil && !cmp.Equal(out, api.Outcome{}) {
		t.Fatalf("%d %q: an outcome beside the error", status, body)
	}
	var refused *api.RefusedError
	if errors.As(err, &refused) && (status != http.StatusForbidden || len(refused.Refusals) == 0) {
		t.Fatalf("%d %q is taken for a refusal", status, body)
	}
}
