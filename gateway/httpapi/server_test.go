package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"countersign/gateway/api"
)

func TestSafeMethodsChangeNothing(t *testing.T) {
	methods := []string{"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "PATCH", "DELETE", "post", "NONSENSE"}
	posts := 0
	for i := range routes {
		r := &routes[i]
		if r.method != "POST" {
			continue
		}
		posts++
		for _, m := range methods {
			target := &fake{}
			req := r.request(t)
			req.Method = m
			w := serveOne(NewHandler(target), req)
			if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "POST" || code(t, w) != "method" {
				t.Errorf("%s %s: %d, Allow %q, %s", m, r.path, w.Code, w.Header().Get("Allow"), w.Body)
			}
			if target.calls != 0 {
				t.Errorf("%s %s reached the target", m, r.path)
			}
		}
	}
	if posts != 8 {
		t.Errorf("%d POST routes", posts)
	}
}

func TestReadAddresses(t *testing.T) {
	for i := range routes {
		r := &routes[i]
		if r.method != "GET" {
			continue
		}
		req := r.request(t)
		req.Method = "POST"
		if w := serveOne(NewHandler(&fake{}), req); w.Code != 405 || w.Header().Get("Allow") != "GET, HEAD" {
			t.Errorf("POST %s: %d, Allow %q", r.path, w.Code, w.Header().Get("Allow"))
		}
		req = r.request(t)
		req.Method = "HEAD"
		if w := serveOne(NewHandler(&fake{answer: sample[r.operation].out}), req); w.Code != 200 {
			t.Errorf("HEAD %s: %d", r.path, w.Code)
		}
	}
}

// An address is exact: no form of it that another component might read
// differently is served or redirected.
func TestUnknownAddresses(t *testing.T) {
	for _, path := range []string{
		"/", "/v1", "/v1/dispatch/", "//v1/dispatch", "/v1//dispatch", "/v1/./dispatch", "/v1/x/../dispatch", "/V1/dispatch",
		"/v1/%64ispatch", "/v1%2Fdispatch", "/v1/dispatch;x", "/v1/suspensions/", "/v1/suspensions//view", "/v1/suspensions/a/b/decision",
	} {
		target := &fake{}
		req := httptest.NewRequest("POST", path, strings.NewReader("{}"))
		w := serveOne(NewHandler(target), req)
		if w.Code != http.StatusNotFound || code(t, w) != "no_route" || target.calls != 0 {
			t.Errorf("%s: %d %s, %d calls", path, w.Code, w.Body, target.calls)
		}
	}
}

// An identifier alone is no address.
func TestMatchWantsTheWholeAddress(t *testing.T) {
	if id, ok := routeOf(t, "status").match("s1"); ok {
		t.Errorf("s1 is the address of %q", id)
	}
}

// An answer of the target that is no JSON is a failure of the target.
func TestAnswersThatCannotBeWritten(t *testing.T) {
	target := &fake{answer: json.RawMessage("{")}
	if w := serveOne(NewHandler(target), routeOf(t, "beginEnrolment").request(t)); w.Code != http.StatusInternalServerError || code(t, w) != "internal" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestSecurityHeaders(t *testing.T) {
	for _, target := range []*fake{{answer: sample["describe"].out}, {err: errors.New("x")}} {
		h := serveOne(NewHandler(target), routes[0].request(t)).Header()
		if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") != "no-store" {
			t.Errorf("headers %v", h)
		}
	}
}

func TestAuthorization(t *testing.T) {
	r := routeOf(t, "propose")
	cases := []struct {
		name   string
		header http.Header
		want   *api.Auth // nil: 401 without a call
	}{
		{"bearer", http.Header{"Authorization": {"Bearer tok"}}, &api.Auth{Token: "tok"}},
		{"scheme in lower case", http.Header{"Authorization": {"bearer tok"}}, &api.Auth{Token: "tok"}},
		{"dpop", http.Header{"Authorization": {"DPoP tok"}, "Dpop": {"a.b.c"}}, &api.Auth{Token: "tok", Proof: "a.b.c"}},
		{"bearer with proof", http.Header{"Authorization": {"Bearer tok"}, "Dpop": {"a.b.c"}}, &api.Auth{Token: "tok", Proof: "a.b.c"}},
		{"none", http.Header{}, nil},
		{"twice the same", http.Header{"Authorization": {"Bearer tok", "Bearer tok"}}, nil},
		{"twice", http.Header{"Authorization": {"Bearer tok", "DPoP tok"}, "Dpop": {"a.b.c"}}, nil},
		{"dpop without proof", http.Header{"Authorization": {"DPoP tok"}}, nil},
		{"two proofs", http.Header{"Authorization": {"DPoP tok"}, "Dpop": {"a.b.c", "a.b.c"}}, nil},
		{"bearer with two proofs", http.Header{"Authorization": {"Bearer tok"}, "Dpop": {"a.b.c", "a.b.c"}}, nil},
		{"no token", http.Header{"Authorization": {"Bearer"}}, nil},
		{"empty token", http.Header{"Authorization": {"Bearer "}}, nil},
		{"two tokens", http.Header{"Authorization": {"Bearer a b"}}, nil},
		{"token beyond ASCII", http.Header{"Authorization": {"Bearer tök"}}, nil},
		{"basic", http.Header{"Authorization": {"Basic dG9rOg=="}}, nil},
		{"token alone", http.Header{"Authorization": {"tok"}}, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			target := &fake{answer: sample["propose"].out}
			req := r.request(t)
			req.Header.Del("Authorization")
			for name, values := range c.header {
				req.Header[name] = values
			}
			w := serveOne(NewHandler(target), req)
			if c.want == nil {
				if w.Code != http.StatusUnauthorized || target.calls != 0 || len(w.Header().Values("WWW-Authenticate")) != 2 {
					t.Errorf("%d %s, %d calls, %v", w.Code, w.Body, target.calls, w.Header())
				}
				return
			}
			if w.Code != 200 || target.auth != *c.want {
				t.Errorf("%d %s, target saw %+v", w.Code, w.Body, target.auth)
			}
		})
	}
}

func TestRefusedRequests(t *testing.T) {
	const proposal = `{"audience":"b","tool":"t","arguments":"e30=","run":"r","step":"s","call":"c"}`
	with := func(name string, values ...string) func(*http.Request) {
		return func(r *http.Request) { r.Header[name] = values }
	}
	cases := []struct {
		name, operation, body string
		change                func(*http.Request)
		status                int
	}{
		{"good", "propose", proposal, nil, 200},
		{"charset", "propose", proposal, with("Content-Type", "application/json; charset=UTF-8"), 200},
		{"other charset", "propose", proposal, with("Content-Type", "application/json; charset=utf-16"), 415},
		{"form", "propose", proposal, with("Content-Type", "application/x-www-form-urlencoded"), 415},
		{"no media type", "propose", proposal, with("Content-Type"), 415},
		{"two media types", "propose", proposal, with("Content-Type", "application/json", "text/plain"), 415},
		{"broken parameter", "propose", proposal, with("Content-Type", "application/json; charset"), 415},
		{"another parameter", "propose", proposal, with("Content-Type", "application/json; version=utf-8"), 415},
		{"compressed", "propose", proposal, with("Content-Encoding", "gzip"), 415},
		{"empty", "propose", "", nil, 400},
		{"not JSON", "propose", "amount=1", nil, 400},
		{"as large as allowed", "propose", proposal + strings.Repeat(" ", MaxBody-len(proposal)), nil, 200},
		{"one byte more", "propose", proposal + strings.Repeat(" ", MaxBody-len(proposal)+1), nil, 413},
		{"one byte more, length unknown", "propose", proposal + strings.Repeat(" ", MaxBody-len(proposal)+1),
			func(r *http.Request) { r.ContentLength = -1 }, 413},
		{"query", "propose", proposal, func(r *http.Request) { r.URL.RawQuery = "approved=1" }, 400},
		{"parameter of another address", "propose", proposal, func(r *http.Request) { r.URL.RawQuery = "after=1" }, 400},
		{"unknown parameter", "audit", "", func(r *http.Request) { r.URL.RawQuery = "before=1" }, 400},
		{"broken query", "audit", "", func(r *http.Request) { r.URL.RawQuery = "after=1;after=2" }, 400},
		{"after", "audit", "", func(r *http.Request) { r.URL.RawQuery = "after=9223372036854775807" }, 200},
		{"after, twice", "audit", "", func(r *http.Request) { r.URL.RawQuery = "after=1&after=2" }, 400},
		{"after, too large", "audit", "", func(r *http.Request) { r.URL.RawQuery = "after=9223372036854775808" }, 400},
		{"after, empty", "audit", "", func(r *http.Request) { r.URL.RawQuery = "after=" }, 400},
		{"decision", "decide", `{"suspension":"s1","verdict":"approve"}`, nil, 204},
		{"decision for another", "decide", `{"suspension":"s2","verdict":"approve"}`, nil, 400},
		{"decision for none", "decide", `{"suspension":"","verdict":"approve"}`, nil, 400},
		{"neither verdict", "decide", `{"suspension":"s1","verdict":"Approve"}`, nil, 400},
		{"no verdict", "decide", `{"suspension":"s1"}`, nil, 400},
		{"body where none is taken", "beginEnrolment", "{}", nil, 400},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := routeOf(t, c.operation)
			req := r.request(t, c.body)
			if c.change != nil {
				c.change(req)
			}
			target := &fake{answer: sample[c.operation].out}
			w := serveOne(NewHandler(target), req)
			if w.Code != c.status {
				t.Errorf("%d %s, want %d", w.Code, w.Body, c.status)
			}
			if good := c.status < 300; (target.calls > 0) != good {
				t.Errorf("the target was called %d times", target.calls)
			}
			if c.status >= 300 {
				code(t, w)
			}
		})
	}
}

func routeOf(t testing.TB, operation string) *route {
	t.Helper()
	for i := range routes {
		if routes[i].operation == operation {
			return &routes[i]
		}
	}
	t.Fatalf("no operation %q", operation)
	return nil
}

// zeros is an endless body that counts what is taken of it.
type zeros struct{ read atomic.Int64 }

func (z *zeros) Read(p []byte) (int, error) { z.read.Add(int64(len(p))); return len(p), nil }

func TestHugeBodies(t *testing.T) {
	const size = 100 << 20
	target := &fake{}
	server := httptest.NewServer(NewHandler(target))
	defer server.Close()
	for _, length := range []int64{size, -1} {
		z := &zeros{}
		req, err := http.NewRequest("POST", server.URL+"/v1/dispatch", io.LimitReader(z, size))
		if err != nil {
			t.Fatal(err)
		}
		req.ContentLength = length
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer tok")
		resp, err := server.Client().Do(req)
		if err != nil {
			t.Fatalf("length %d: %v", length, err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusRequestEntityTooLarge || target.calls != 0 {
			t.Errorf("length %d: status %d, %d calls", length, resp.StatusCode, target.calls)
		}
		if n := z.read.Load(); n > size/2 {
			t.Errorf("length %d: %d bytes were taken from the caller", length, n)
		}
	}
}

// A body whose length is said to be too large is not read at all.
func TestDeclaredLength(t *testing.T) {
	z := &zeros{}
	req := routeOf(t, "dispatch").request(t)
	req.Body, req.ContentLength = io.NopCloser(z), MaxBody+1
	if w := serveOne(NewHandler(&fake{}), req); w.Code != http.StatusRequestEntityTooLarge || z.read.Load() != 0 {
		t.Errorf("status %d, %d bytes were read", w.Code, z.read.Load())
	}
}

func TestFailuresTellNothingAndDoNotEndTheConnection(t *testing.T) {
	const secret = "password in /etc/gate"
	target := &fake{}
	server := httptest.NewServer(NewHandler(target))
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	reader := bufio.NewReader(conn)
	ask := func() (int, string) {
		t.Helper()
		if _, err := io.WriteString(conn, "GET /v1/describe HTTP/1.1\r\nHost: gate\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	const want = `{"error":{"code":"internal","detail":"internal error"}}`
	target.during = func(context.Context) { panic(secret) }
	if status, body := ask(); status != 500 || body != want {
		t.Errorf("panic: %d %s", status, body)
	}
	target.during = nil
	for _, err := range []error{errors.New(secret), &api.RefusedError{}, api.ErrNoAnswer} {
		target.err = err
		if status, body := ask(); status != 500 || body != want {
			t.Errorf("%v: %d %s", err, status, body)
		}
	}
	target.err = fmt.Errorf("%s: %w", secret, api.ErrUnavailable)
	if status, body := ask(); status != 503 || strings.Contains(body, secret) {
		t.Errorf("unavailable: %d %s", status, body)
	}
	target.err, target.answer = nil, sample["describe"].out
	if status, body := ask(); status != 200 {
		t.Errorf("afterwards: %d %s", status, body)
	}
}

// A caller that hangs up must not be able to stop the target between spending an
// approval and sending the call.
func TestHangingUpDoesNotCancelADispatch(t *testing.T) {
	entered, gone := make(chan struct{}), make(chan struct{})
	cause := make(chan error, 1)
	target := &fake{during: func(ctx context.Context) {
		close(entered)
		<-gone
		select {
		case <-ctx.Done():
			cause <- ctx.Err()
		case <-time.After(50 * time.Millisecond):
			cause <- nil
		}
	}}
	handler := NewHandler(target)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		go func() { <-r.Context().Done(); close(gone) }()
		handler.ServeHTTP(w, r)
	}))
	defer server.Close()
	ctx, cancel := context.WithCancel(context.Background())
	go func() { <-entered; cancel() }()
	_, err := NewClient(server.URL, nil).Dispatch(ctx, api.Auth{Token: "tok"}, api.Dispatch{RequestID: "q"})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the caller got %v", err)
	}
	if err := <-cause; err != nil {
		t.Errorf("the target's context ended: %v", err)
	}
}

func TestServe(t *testing.T) {
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	t.Run("stops after the calls in progress", func(t *testing.T) {
		l := listen()
		ctx, stop := context.WithCancel(context.Background())
		target := &fake{answer: sample["describe"].out, during: func(context.Context) { stop(); time.Sleep(50 * time.Millisecond) }}
		served := make(chan error, 1)
		go func() { served <- Serve(ctx, l, NewHandler(target)) }()
		client := NewClient("http://"+l.Addr().String(), &http.Client{})
		if _, err := client.Describe(context.Background()); err != nil {
			t.Errorf("call in progress: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		if _, err := client.Describe(context.Background()); err == nil {
			t.Error("a call after the end was answered")
		}
	})
	t.Run("malformed HTTP", func(t *testing.T) {
		l := listen()
		ctx, stop := context.WithCancel(context.Background())
		served := make(chan error, 1)
		go func() { served <- Serve(ctx, l, NewHandler(&fake{})) }()
		for _, text := range []string{
			"nonsense\r\n\r\n",
			"GET /healthz HTTP/1.1\r\n\r\n", // no Host
			"POST /v1/dispatch HTTP/1.1\r\nHost: g\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
			"GET /healthz HTTP/1.1\r\nHost: g\r\nX: " + strings.Repeat("x", maxHeader+8<<10) + "\r\n\r\n",
			"POST /v1/dispatch HTTP/1.1\r\nHost: g\r\nAuthorization: Bearer t\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
			"OPTIONS * HTTP/1.1\r\nHost: g\r\n\r\n",
		} {
			conn, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(conn, text) // the server may close before it has read all
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil || resp.StatusCode < 400 || resp.StatusCode > 499 {
				t.Errorf("%.40q: %v, %v", text, resp, err)
			}
			conn.Close()
		}
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	t.Run("closed listener", func(t *testing.T) {
		l := listen()
		l.Close()
		if err := Serve(context.Background(), l, NewHandler(&fake{})); err == nil {
			t.Error("no error")
		}
	})
	t.Run("no handler", func(t *testing.T) {
		ctx, stop := context.WithCancel(context.Background())
		stop()
		if err := Serve(ctx, listen(), nil); err == nil {
			t.Error("no error")
		}
	})
}
