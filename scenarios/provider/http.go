package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"countersign/gateway/api"
)

// MaxBody is the most bytes of a request body that the handler reads: arguments of
// 1 MiB, escaped as a text.
const MaxBody = 2 << 20

type lookupAnswer struct {
	Result api.ProviderResult `json:"result"`
	Found  bool               `json:"found"`
}

type claimRequest struct {
	Credential string `json:"credential"`
}

type errorAnswer struct {
	Error struct {
		Code   string `json:"code"`
		Detail string `json:"detail,omitempty"`
	} `json:"error"`
}

// The codes of errors that are no *api.ProviderError.
const (
	codeNotSent  = "not_sent"
	codeNoLookup = "no_lookup"
	codeNotFound = "not_found"
	codeBadCall  = "bad_call"
	codeInternal = "internal"
)

// Handler serves a World over HTTP: POST /v1/execute, /v1/preview, /v1/lookup and
// /v1/claim and GET /v1/tools and /v1/resolve?kind=&id= are the service; GET /v1/ledger, PUT
// /v1/records/{kind}/{id} and POST /v1/faults are the lab's side, which has no
// access control: serve it on a loopback address only.
//
// An accepted call is answered with status 200 and an api.ProviderResult, whose
// own status may be 500. A lost answer is a connection closed without one.
func Handler(w *World) http.Handler {
	mux := http.NewServeMux()
	post(mux, "POST /v1/execute", func(r *http.Request, in api.ProviderRequest) (any, error) {
		// What has arrived is processed, even when the caller hangs up meanwhile.
		return w.execute(context.WithoutCancel(r.Context()), in, func(_ context.Context, d time.Duration) { time.Sleep(d) })
	})
	post(mux, "POST /v1/preview", func(r *http.Request, in api.ProviderRequest) (any, error) {
		return w.Preview(r.Context(), in)
	})
	post(mux, "POST /v1/lookup", func(r *http.Request, in api.LookupQuery) (any, error) {
		res, found, err := w.Lookup(r.Context(), in)
		return lookupAnswer{res, found}, err
	})
	post(mux, "POST /v1/claim", func(r *http.Request, in claimRequest) (any, error) {
		return struct{}{}, w.Claim(r.Context(), in.Credential)
	})
	post(mux, "POST /v1/faults", func(_ *http.Request, in []Fault) (any, error) {
		return struct{}{}, badCall(w.Inject(in...))
	})
	post(mux, "PUT /v1/records/{kind}/{id}", func(r *http.Request, in map[string]json.RawMessage) (any, error) {
		return struct{}{}, badCall(w.SetRecord(r.PathValue("kind"), r.PathValue("id"), in))
	})
	mux.HandleFunc("GET /v1/resolve", func(rw http.ResponseWriter, r *http.Request) {
		res, err := w.Resolve(r.Context(), r.URL.Query().Get("kind"), r.URL.Query().Get("id"))
		answer(rw, res, err)
	})
	mux.HandleFunc("GET /v1/tools", func(rw http.ResponseWriter, _ *http.Request) {
		answer(rw, w.Tools(), nil)
	})
	mux.HandleFunc("GET /v1/ledger", func(rw http.ResponseWriter, _ *http.Request) {
		answer(rw, append([]Effect{}, w.Ledger()...), nil)
	})
	return mux
}

// NewServer returns a server for [Handler] with time-outs set. The caller gives it
// an address or a listener.
func NewServer(w *World) *http.Server {
	return &http.Server{
		Handler:           Handler(w),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       15 * time.Second,
		WriteTimeout:      MaxDelay + 15*time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    1 << 16,
	}
}

func badCall(err error) error {
	if err == nil {
		return nil
	}
	return &api.ProviderError{Status: http.StatusBadRequest, Code: codeBadCall, Detail: err.Error()}
}

// post registers a call with a JSON body of type T.
func post[T any](mux *http.ServeMux, pattern string, call func(*http.Request, T) (any, error)) {
	mux.HandleFunc(pattern, func(rw http.ResponseWriter, r *http.Request) {
		var in T
		if err := decode(http.MaxBytesReader(rw, r.Body, MaxBody), &in); err != nil {
			var large *http.MaxBytesError
			if errors.As(err, &large) {
				answer(rw, nil, refuse(http.StatusRequestEntityTooLarge, codeBadCall, "the body is larger than %d bytes", MaxBody))
				return
			}
			answer(rw, nil, badCall(fmt.Errorf("decoding the call: %w", err)))
			return
		}
		out, err := call(r, in)
		answer(rw, out, err)
	})
}

// decode reads exactly one JSON value and refuses members it does not know.
func decode(r io.Reader, v any) error {
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		if err == nil {
			err = errors.New("text after the value")
		}
		return err
	}
	return nil
}

func answer(rw http.ResponseWriter, v any, err error) {
	status := http.StatusOK
	if err != nil {
		if errors.Is(err, api.ErrNoAnswer) {
			panic(http.ErrAbortHandler) // net/http closes the connection without an answer
		}
		var e errorAnswer
		status, e.Error.Code, e.Error.Detail = describe(err)
		v = e
	}
	body, err := json.Marshal(v)
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(`{"error":{"code":"`+codeInternal+`"}}`)
	}
	rw.Header().Set("Content-Type", "application/json")
	rw.Header().Set("X-Content-Type-Options", "nosniff")
	rw.WriteHeader(status)
	// A caller that is gone cannot be told so.
	_, _ = rw.Write(body)
}

func describe(err error) (status int, code, detail string) {
	var p *api.ProviderError
	switch {
	case errors.As(err, &p):
		return p.Status, p.Code, p.Detail
	case errors.Is(err, api.ErrNotSent):
		return http.StatusServiceUnavailable, codeNotSent, ""
	case errors.Is(err, api.ErrNoLookup):
		return http.StatusNotImplemented, codeNoLookup, ""
	case errors.Is(err, api.ErrNotFound):
		return http.StatusNotFound, codeNotFound, err.Error()
	}
	return http.StatusInternalServerError, codeInternal, ""
}
