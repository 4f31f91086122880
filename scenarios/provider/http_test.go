package provider

import (
	"errors"
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

// TestHandlerRefuses: what is no well-formed call gets a 4xx and changes nothing.
func TestHandlerRefuses(t *testing.T) {
	w := newWorld(t, testConfig(newClock()))
	h := Handler(w)
	for _, c := range []struct {
		method, target, body string
		status               int
	}{
		{"POST", "/v1/execute", ``, 400},
		{"POST", "/v1/execute", `[]`, 400},
		{"POST", "/v1/execute", `{"credential":"c","approved":true}`, 400},
		{"POST", "/v1/execute", `{"credential":"c"} {}`, 400},
		{"POST", "/v1/execute", `{"body":"` + strings.Repeat("A", MaxBody) + `"}`, 413},
		{"POST", "/v1/preview", `{"audience":1}`, 400},
		{"POST", "/v1/lookup", `{"key":"k"}`, 400},
		{"POST", "/v1/claim", `{"credential":""}`, 400},
		{"POST", "/v1/faults", `[{"kind":"nope"}]`, 400},
		{"PUT", "/v1/records/list/l", `{"a":1}`, 400},
		{"PUT", "/v1/records/supplier/s1", `{}`, 400},
		{"GET", "/v1/resolve", ``, 404},
		{"GET", "/v1/execute", ``, 405},
		{"POST", "/v1/ledger", `{}`, 405},
		{"GET", "/", ``, 404},
	} {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, httptest.NewRequest(c.method, c.target, strings.NewReader(c.body)))
		if rec.Code != c.status {
			t.Errorf("%s %s %.60s: status %d, want %d", c.method, c.target, c.body, rec.Code, c.status)
		}
	}
	if n := len(w.Ledger()); n != 0 {
		t.Errorf("%d effects", n)
	}
	if r, _ := w.Record("supplier", "s1"); r.Version != 1 {
		t.Error("a record changed")
	}
}

// TestNothingReadableMakesEffects: the credential that is claimed is in no answer
// of the service, and effects over different credentials are told apart.
func TestNothingReadableMakesEffects(t *testing.T) {
	const secret = "credential-of-the-gateway"
	w := newWorld(t, testConfig(newClock()))
	with := func(credential, key string) api.ProviderRequest {
		return call(withKey(key), func(r *api.ProviderRequest) { r.Credential = credential })
	}
	must(w.Execute(t.Context(), with("another", "k1")))(t)
	if err := w.Claim(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	must(w.Execute(t.Context(), with(secret, "k2")))(t)
	must(w.Execute(t.Context(), with(secret, "k3")))(t)
	for _, target := range []string{"/v1/ledger", "/v1/tools", "/v1/resolve?kind=supplier&id=s1"} {
		rec := httptest.NewRecorder()
		Handler(w).ServeHTTP(rec, httptest.NewRequest("GET", target, nil))
		if rec.Code != 200 || strings.Contains(rec.Body.String(), secret) {
			t.Errorf("%s: %d %s", target, rec.Code, rec.Body)
		}
	}
	e := w.Ledger()
	if e[0].CredentialDigest == e[1].CredentialDigest || e[1].CredentialDigest != e[2].CredentialDigest || e[1].CredentialDigest != CredentialDigest(secret) {
		t.Errorf("credentials are not told apart: %+v", e)
	}
}

// TestClientSendsOnce: a call whose answer is lost is not sent again, although an
// idempotency key and an earlier call on the same client would let net/http try.
func TestClientSendsOnce(t *testing.T) {
	var arrived atomic.Int32
	h := Handler(newWorld(t, testConfig(newClock())))
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/execute" {
			arrived.Add(1)
		}
		h.ServeHTTP(rw, r)
	}))
	defer srv.Close()
	c := must(NewClient(srv.URL, 0))(t)
	must(c.Execute(t.Context(), call(withKey("k0"))))(t)
	for _, k := range []FaultKind{FaultDropResponse, FaultDropRequest} {
		if err := c.Inject(t.Context(), Fault{Kind: k}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Execute(t.Context(), call()); !errors.Is(err, api.ErrNoAnswer) {
			t.Errorf("%s: %v", k, err)
		}
	}
	if n := arrived.Load(); n != 3 {
		t.Errorf("%d requests arrived, want 3", n)
	}
}

// TestClientOutcomes: only what certainly did not happen is ErrNotSent.
func TestClientOutcomes(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := "http://" + l.Addr().String()
	l.Close()
	if _, err := must(NewClient(refused, 0))(t).Execute(t.Context(), call()); !errors.Is(err, api.ErrNotSent) || errors.Is(err, api.ErrNoAnswer) {
		t.Errorf("connection refused: %v", err)
	}

	for name, answer := range map[string]http.HandlerFunc{
		"not JSON":       func(rw http.ResponseWriter, _ *http.Request) { io.WriteString(rw, "<html>") },
		"unknown member": func(rw http.ResponseWriter, _ *http.Request) { io.WriteString(rw, `{"status":200,"body":{},"x":1}`) },
		"bare 502":       func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(502) },
		"redirect": func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, "/v1/execute", http.StatusTemporaryRedirect)
		},
		"failure": func(rw http.ResponseWriter, _ *http.Request) { http.Error(rw, `{"error":{"code":"internal"}}`, 500) },
		"half an answer": func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Length", "99")
			io.WriteString(rw, `{"st`)
		},
		"error with status": func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(204) },
	} {
		srv := httptest.NewServer(answer)
		_, err := must(NewClient(srv.URL, 0))(t).Execute(t.Context(), call())
		var p *api.ProviderError
		if !errors.Is(err, api.ErrNoAnswer) || errors.Is(err, api.ErrNotSent) || errors.As(err, &p) {
			t.Errorf("%s: %v", name, err)
		}
		srv.Close()
	}

	// A time-out after sending: the caller does not know, and the effect happens.
	w := newWorld(t, testConfig(newClock()))
	srv := httptest.NewServer(Handler(w))
	if err := w.Inject(Fault{Kind: FaultDelay, Delay: 300 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	_, err = must(NewClient(srv.URL, 50*time.Millisecond))(t).Execute(t.Context(), call())
	if !errors.Is(err, api.ErrNoAnswer) || len(w.Ledger()) != 0 {
		t.Errorf("time-out: %v, %d effects", err, len(w.Ledger()))
	}
	srv.Close() // waits for the handler
	if n := len(w.Ledger()); n != 1 {
		t.Errorf("%d effects after the delay, want 1", n)
	}
}

func TestNewClientRefuses(t *testing.T) {
	for _, url := range []string{"", "127.0.0.1:80", "ftp://host", "http://", "http://h?x=1", "http://h#f"} {
		if _, err := NewClient(url, 0); err == nil {
			t.Errorf("%q was accepted", url)
		}
	}
	if _, err := NewClient("http://h", -1); err == nil {
		t.Error("a negative time-out was accepted")
	}
}

func TestServerHasTimeouts(t *testing.T) {
	s := NewServer(newWorld(t, testConfig(newClock())))
	if s.ReadHeaderTimeout == 0 || s.ReadTimeout == 0 || s.IdleTimeout == 0 || s.WriteTimeout <= MaxDelay {
		t.Errorf("%+v", s)
	}
}

// FuzzHandler: no body to any address makes the handler fail or panic, apart from
// answers that faults take away.
func FuzzHandler(f *testing.F) {
	f.Add(uint8(0), []byte(`{"credential":"c","audience":"bank","tool":"pay","body":"eyJzdXBwbGllciI6InMxIiwiYW1vdW50IjoxMDB9","request_id":"r"}`))
	f.Add(uint8(1), []byte(`{"credential":"","audience":"bank","tool":"pay","body":"eyJzdXBwbGllciI6InMxIiwiYW1vdW50IjoxMDB9","request_id":"r"}`))
	f.Add(uint8(2), []byte(`{"audience":"bank","tool":"wire","request_id":"r"}`))
	f.Add(uint8(3), []byte(`{"credential":"c"}`))
	f.Add(uint8(4), []byte(`{"account":"A-7"}`))
	routes := []string{"POST /v1/execute", "POST /v1/preview", "POST /v1/lookup", "POST /v1/claim", "PUT /v1/records/supplier/s1"}
	f.Fuzz(func(t *testing.T, route uint8, body []byte) {
		h := Handler(newWorld(t, testConfig(newClock())))
		method, target, _ := strings.Cut(routes[int(route)%len(routes)], " ")
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, httptest.NewRequest(method, target, strings.NewReader(string(body))))
		if rec.Code >= 500 && rec.Code != http.StatusNotImplemented {
			t.Errorf("%s: status %d: %s", target, rec.Code, rec.Body)
		}
	})
}
