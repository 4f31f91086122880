// Package httpapi speaks the contract of gateway/api over HTTP: [NewHandler]
// puts any [api.Target] on the wire, [NewClient] is a target at an HTTP address,
// and openapi.yaml (see [Document]) describes what passes between them.
//
// # What is checked here
//
// A request names its caller once, in the Authorization header (schemes Bearer
// and DPoP; a DPoP proof travels in the DPoP header, RFC 9449). Bodies are JSON
// and have one reading: members carry their exact names and appear once, unknown
// and missing members, null in place of a value, lone surrogates, text that is
// not UTF-8, base64 that is not canonical, more than one JSON value, more than
// [MaxBody] bytes and deep nesting are refused before the target sees anything.
// Safe methods change nothing: what changes state answers to POST alone.
//
// # What is not checked here
//
// Who a token belongs to, what a caller may do, and every binding: that is the
// target's. A target that is an [api.Admitter] is asked whether it knows a caller
// before a body is read. The arguments of an action are bytes to this package.
// Memory is bounded: connections, the bodies in progress and the callers whose rate
// is known are counted. A process counts for itself: behind one address, several of
// them answer as many calls more.
//
// # What is told of a request
//
// Each has a line in the log and an [Observed], of which none holds anything that a
// caller chose; digests stand for it.
//
// # What changes on the way
//
// A json.RawMessage arrives as compact JSON text. A nil slice or map arrives
// empty. Text in an answer that is not UTF-8 arrives with U+FFFD in the place of
// the bytes in question, since JSON cannot carry it; in a call the client refuses it.
package httpapi

import (
	"context"
	_ "embed"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"countersign/gateway/api"
)

//go:embed openapi.yaml
var document []byte

// Document returns the OpenAPI 3.0.3 document, in YAML, of what [NewHandler] serves.
func Document() []byte { return slices.Clone(document) }

// call is one request, decoded.
type call struct {
	auth  api.Auth
	id    string // the {id} of the path
	after int64  // the query parameter of the same name
	in    any    // pointer to the decoded body; nil where the route has none
}

// route is one operation. The table below drives the server, and the test that
// compares the server with the document.
type route struct {
	method, path, operation string
	in, out                 any  // zero values of the bodies' types; nil for no body
	open                    bool // does not name its caller
	after                   bool // takes the query parameter "after"
	call                    func(ctx context.Context, t api.Target, c call) (any, error)
	media                   string // media type of static
	static                  []byte // the answer where no target is asked
	free                    bool   // of rates
}

var routes = []route{
	{method: "GET", path: "/v1/describe", operation: "describe", open: true, out: api.Description{},
		call: func(ctx context.Context, t api.Target, _ call) (any, error) { return t.Describe(ctx) }},
	{method: "POST", path: "/v1/proposals", operation: "propose", in: api.Action{}, out: api.Pending{},
		call: func(ctx context.Context, t api.Target, c call) (any, error) {
			return t.Propose(ctx, c.auth, *c.in.(*api.Action))
		}},
	{method: "POST", path: "/v1/previews", operation: "preview", in: api.Action{}, out: api.Values{},
		call: func(ctx context.Context, t api.Target, c call) (any, error) {
			return t.Preview(ctx, c.auth, *c.in.(*api.Action))
		}},
	{method: "GET", path: "/v1/suspensions/{id}", operation: "status", out: api.SuspensionStatus{},
		call: func(ctx context.Context, t api.Target, c call) (any, error) { return t.Status(ctx, c.auth, c.id) }},
	{method: "GET", path: "/v1/suspensions/{id}/view", operation: "view", out: api.View{},
		call: func(ctx context.Context, t api.Target, c call) (any, error) { return t.View(ctx, c.auth, c.id) }},
	{method: "POST", path: "/v1/suspensions/{id}/run-wide-view", operation: "runWideView", in: api.RunWide{}, out: api.View{},
		call: func(ctx context.Context, t api.Target, c call) (any, error) {
			return t.RunWideView(ctx, c.auth, c.id, *c.in.(*api.RunWide))
		}},
	{method: "POST", path: "/v1/suspensions/{id}/decision", operation: "decide", in: api.Decision{},
		call: func(ctx context.Context, t api.Target, c call) (any, error) {
			d := *c.in.(*api.Decision)
			if d.Suspension != c.id {
				return nil, invalidf("decision in the body is for suspension %q, the address names %q", d.Suspension, c.id)
			}
			return nil, t.Decide(ctx, c.auth, d)
		}},
	{method: "POST", path: "/v1/dispatch", operation: "dispatch", in: api.Dispatch{}, out: api.Outcome{},
		call: func(ctx context.Context, t api.Target, c call) (any, error) {
			return t.Dispatch(ctx, c.auth, *c.in.(*api.Dispatch))
		}},
	{method: "POST", path: "/v1/enrolment/begin", operation: "beginEnrolment", out: json.RawMessage{},
		call: func(ctx context.Context, t api.Target, c call) (any, error) { return t.BeginEnrolment(ctx, c.auth) }},
	{method: "POST", path: "/v1/enrolment/finish", operation: "finishEnrolment", in: json.RawMessage{},
		call: func(ctx context.Context, t api.Target, c call) (any, error) {
			return nil, t.FinishEnrolment(ctx, c.auth, *c.in.(*json.RawMessage))
		}},
	{method: "POST", path: "/v1/admin/events", operation: "admin", in: api.Event{},
		call: func(ctx context.Context, t api.Target, c call) (any, error) {
			return nil, t.Admin(ctx, c.auth, *c.in.(*api.Event))
		}},
	{method: "GET", path: "/v1/audit", operation: "audit", after: true, out: []api.AuditEntry{},
		call: func(ctx context.Context, t api.Target, c call) (any, error) { return t.Audit(ctx, c.auth, c.after) }},
	{method: "GET", path: "/healthz", operation: "health", open: true,
		media: "application/json", static: []byte(`{"status":"ok"}`), free: true},
	{method: "GET", path: "/readyz", operation: "ready", open: true, out: Readiness{},
		call: func(ctx context.Context, t api.Target, _ call) (any, error) { return ready(ctx, t) }},
	{method: "GET", path: "/v1/openapi.yaml", operation: "document", open: true,
		media: "application/yaml", static: document},
}

// Readiness says whether calls can be served.
type Readiness struct {
	Status  string           `json:"status"`            // ok, or unavailable
	Failing []api.Dependency `json:"failing,omitempty"` // what does not answer
}

// ready asks a target for its dependencies, and one that is no [api.Readier] for its
// description.
func ready(ctx context.Context, t api.Target) (Readiness, error) {
	r, ok := t.(api.Readier)
	if !ok {
		if _, err := t.Describe(ctx); err != nil {
			return Readiness{Status: "unavailable"}, nil
		}
		return Readiness{Status: "ok"}, nil
	}
	if failing := r.Ready(ctx); len(failing) > 0 {
		return Readiness{Status: "unavailable", Failing: failing}, nil
	}
	return Readiness{Status: "ok"}, nil
}

// match says whether an escaped request path is this route's, and what its {id}
// is. It is exact: "//", "..", a trailing slash or an escaped letter of a fixed
// segment is another address, and nothing is redirected.
func (r *route) match(escaped string) (id string, ok bool) {
	prefix, suffix, hasID := strings.Cut(r.path, "{id}")
	if !hasID {
		return "", escaped == r.path
	}
	rest, ok := strings.CutPrefix(escaped, prefix)
	if !ok {
		return "", false
	}
	rest, ok = strings.CutSuffix(rest, suffix)
	if !ok || rest == "" || strings.Contains(rest, "/") {
		return "", false
	}
	id, err := url.PathUnescape(rest)
	return id, err == nil
}

// answerError is the error object of the document.
type answerError struct {
	Code    errorCode     `json:"code"`
	Detail  string        `json:"detail"`            // for people; the reason of an unimplemented feature
	Feature string        `json:"feature,omitempty"` // where the code is "unimplemented"
	Refused []api.Refusal `json:"refusals,omitempty"`
}

type errorAnswer struct {
	Error answerError `json:"error"`
}

// errorCode says which error it is.
type errorCode string

const (
	codeInvalid         errorCode = "invalid"
	codeUnauthenticated errorCode = "unauthenticated"
	codeForbidden       errorCode = "forbidden"
	codeRefused         errorCode = "refused"
	codeNotFound        errorCode = "not_found"
	codeNoRoute         errorCode = "no_route"
	codeMethod          errorCode = "method"
	codeConflict        errorCode = "conflict"
	codeTooLarge        errorCode = "too_large"
	codeMediaType       errorCode = "media_type"
	codeInternal        errorCode = "internal"
	codeUnimplemented   errorCode = "unimplemented"
	codeUnavailable     errorCode = "unavailable"
	codeRateLimited     errorCode = "rate_limited"
)

// sentinels ties the errors of the contract to their form on the wire, in both
// directions.
var sentinels = []struct {
	err    error
	code   errorCode
	status int
	// plain sends the error's name only: its cause is the operator's business,
	// or would help to guess tokens.
	plain bool
}{
	{api.ErrUnauthenticated, codeUnauthenticated, http.StatusUnauthorized, true},
	{api.ErrForbidden, codeForbidden, http.StatusForbidden, false},
	{api.ErrNotFound, codeNotFound, http.StatusNotFound, false},
	{api.ErrInvalid, codeInvalid, http.StatusBadRequest, false},
	{api.ErrConflict, codeConflict, http.StatusConflict, false},
	{api.ErrUnavailable, codeUnavailable, http.StatusServiceUnavailable, true},
	{api.ErrRateLimited, codeRateLimited, http.StatusTooManyRequests, true},
}

// Operations lists the operations of [Document], in the order of the table.
func Operations() []string {
	out := make([]string, len(routes))
	for i, r := range routes {
		out[i] = r.operation
	}
	return out
}
