package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/netutil"

	"countersign/gateway/api"
)

// MaxBody is the largest request body that is read, in bytes: a dispatch has the
// arguments, of 1 MiB at most, and may bring an envelope with the same once more,
// both escaped as texts.
const MaxBody = 4 << 20

const (
	// callTimeout bounds one call of the target. It is shorter than writeTimeout,
	// so that the caller learns of it.
	callTimeout   = 30 * time.Second
	headerTimeout = 5 * time.Second  // headers of one request
	readTimeout   = 20 * time.Second // headers and body of one request
	writeTimeout  = 60 * time.Second // from the end of the headers to the end of the answer
	idleTimeout   = 30 * time.Second // between the requests of one connection
	maxHeader     = 64 << 10         // bytes
	shutdownGrace = 10 * time.Second // for calls in progress
)

// NewHandler serves the contract of t at the addresses of [Document].
//
// A failure of the target that the contract has no error for, a panic included,
// is answered with 500 and no detail; the detail goes to the default logger of
// log/slog.
//
// Of a target that is an [api.Admitter], bodies of callers that it does not know
// are not read. Requests whose bodies would take more memory than is set aside
// for all of them, or for one caller, are answered with 503 at once.
func NewHandler(t api.Target) http.Handler {
	in := &intake{of: map[string]int64{}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		rt, id, allow := find(r.Method, r.URL.EscapedPath())
		if rt == nil {
			if allow == nil {
				fail(w, http.StatusNotFound, answerError{Code: codeNoRoute, Detail: "no such address"})
				return
			}
			h.Set("Allow", strings.Join(allow, ", "))
			fail(w, http.StatusMethodNotAllowed, answerError{Code: codeMethod, Detail: "this address answers to " + strings.Join(allow, ", ")})
			return
		}
		// Nothing is written before serve returns, so a panic still gets an answer.
		defer func() {
			if p := recover(); p != nil {
				slog.Error("target panicked", "operation", rt.operation, "panic", p, "stack", string(debug.Stack()))
				fail(w, http.StatusInternalServerError, answerError{Code: codeInternal, Detail: "internal error"})
			}
		}()
		serve(w, r, t, rt, id, in)
	})
}

// find returns the route for a request, or the methods that its address allows
// (none: there is no such address).
func find(method, escaped string) (rt *route, id string, allow []string) {
	for i := range routes {
		id, ok := routes[i].match(escaped)
		if !ok {
			continue
		}
		if m := routes[i].method; method == m || m == http.MethodGet && method == http.MethodHead {
			return &routes[i], id, nil
		}
		if allow = append(allow, routes[i].method); routes[i].method == http.MethodGet {
			allow = append(allow, http.MethodHead)
		}
	}
	return nil, "", allow
}

func serve(w http.ResponseWriter, r *http.Request, t api.Target, rt *route, id string, intake *intake) {
	if rt.call == nil {
		answer(w, http.StatusOK, rt.media, rt.static)
		return
	}
	c := call{id: id}
	var ok bool
	if !rt.open {
		if c.auth, ok = authOf(r.Header); !ok {
			failWith(w, rt, api.ErrUnauthenticated)
			return
		}
	}
	var err error
	if c.after, err = queryOf(r.URL.RawQuery, rt.after); err != nil {
		failWith(w, rt, err)
		return
	}
	if door, known := t.(api.Admitter); known && rt.method == http.MethodPost && !rt.open {
		ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
		err := door.Admit(ctx, c.auth)
		cancel()
		if err != nil {
			failWith(w, rt, err)
			return
		}
	}
	if rt.in != nil {
		size := r.ContentLength
		if size < 0 || size > MaxBody { // not known, or refused below
			size = MaxBody
		}
		// Held until the answer: what is made of a body lives as long.
		free, room := intake.reserve(c.auth.Token, size)
		if !room {
			failWith(w, rt, fmt.Errorf("%w: too many bodies in flight", api.ErrUnavailable))
			return
		}
		defer free()
	}
	if c.in, ok = bodyOf(w, r, rt); !ok {
		return
	}

	// A caller that hangs up does not choose where between checking, spending
	// and sending a call stops.
	ctx := r.Context()
	if rt.method == http.MethodPost {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	out, err := rt.call(ctx, t, c)
	if err != nil {
		failWith(w, rt, err)
		return
	}
	if rt.out == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	body, err := encode(out)
	if err != nil {
		failWith(w, rt, fmt.Errorf("encoding the answer: %w", err))
		return
	}
	answer(w, http.StatusOK, "application/json", bytes.ToValidUTF8(body, []byte("\uFFFD")))
}

// authOf reads the one Authorization header and the DPoP proof, if any.
func authOf(h http.Header) (api.Auth, bool) {
	headers, proofs := h.Values("Authorization"), h.Values("DPoP")
	if len(headers) != 1 || len(proofs) > 1 {
		return api.Auth{}, false
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	token = strings.Trim(token, " ")
	if !visible(token) {
		return api.Auth{}, false
	}
	auth := api.Auth{Token: token}
	if len(proofs) == 1 {
		auth.Proof = proofs[0]
	}
	switch {
	case strings.EqualFold(scheme, "Bearer"):
		return auth, true
	case strings.EqualFold(scheme, "DPoP"):
		return auth, auth.Proof != ""
	}
	return api.Auth{}, false
}

// visible says whether a token can stand in a header as it is.
func visible(token string) bool {
	return token != "" && strings.IndexFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}

// queryOf reads the query; a route without parameters has none.
func queryOf(raw string, after bool) (int64, error) {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return 0, invalidf("reading the query")
	}
	var n int64
	for name, values := range query {
		if name != "after" || !after {
			return 0, invalidf("unknown query parameter %q", name)
		}
		if n, err = strconv.ParseInt(values[0], 10, 64); err != nil || len(values) != 1 {
			return 0, invalidf("query parameter %q is to be one whole number", name)
		}
	}
	return n, nil
}

// bodyOf reads the body of a request into a new value of the route's type. When
// it returns false it has answered.
func bodyOf(w http.ResponseWriter, r *http.Request, rt *route) (any, bool) {
	tooLarge := func() (any, bool) {
		fail(w, http.StatusRequestEntityTooLarge, answerError{Code: codeTooLarge, Detail: fmt.Sprintf("body is larger than %d bytes", MaxBody)})
		return nil, false
	}
	if rt.method != http.MethodPost {
		return nil, true // a body on a safe method means nothing (RFC 9110, section 9.3.1)
	}
	if rt.in != nil && !isJSON(r.Header) {
		fail(w, http.StatusUnsupportedMediaType, answerError{Code: codeMediaType, Detail: "body is to be application/json in UTF-8, not otherwise encoded"})
		return nil, false
	}
	if r.ContentLength > MaxBody {
		return tooLarge()
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	var limit *http.MaxBytesError
	switch {
	case errors.As(err, &limit):
		return tooLarge()
	case err != nil:
		failWith(w, rt, invalidf("reading the body"))
		return nil, false
	case rt.in == nil && len(data) > 0:
		failWith(w, rt, invalidf("this address takes no body"))
		return nil, false
	case rt.in == nil:
		return nil, true
	}
	in := reflect.New(reflect.TypeOf(rt.in)).Interface()
	if err := decodeRequest(data, in); err != nil {
		failWith(w, rt, invalidf("%v", err))
		return nil, false
	}
	return in, true
}

func isJSON(h http.Header) bool {
	types := h.Values("Content-Type")
	if len(types) != 1 || len(h.Values("Content-Encoding")) > 0 {
		return false
	}
	media, params, err := mime.ParseMediaType(types[0])
	if err != nil || media != "application/json" {
		return false
	}
	for name, value := range params {
		if name != "charset" || !strings.EqualFold(value, "utf-8") {
			return false
		}
	}
	return true
}

// failWith answers with an error of the target or of reading the request.
func failWith(w http.ResponseWriter, rt *route, err error) {
	var refused *api.RefusedError
	var unimplemented *api.UnimplementedError
	switch {
	case errors.As(err, &refused) && len(refused.Refusals) > 0:
		fail(w, http.StatusForbidden, answerError{Code: codeRefused, Detail: refused.Error(), Refused: refused.Refusals})
		return
	case errors.As(err, &refused):
		// A refusal by no binding is a fault of the target, and no refusal.
	case errors.As(err, &unimplemented):
		fail(w, http.StatusNotImplemented, answerError{Code: codeUnimplemented, Detail: unimplemented.Reason, Feature: unimplemented.Feature})
		return
	default:
		for _, s := range sentinels {
			if !errors.Is(err, s.err) {
				continue
			}
			if s.status == http.StatusUnauthorized {
				w.Header()["Www-Authenticate"] = []string{"Bearer", "DPoP"}
			}
			detail := err.Error()
			if s.plain {
				detail = s.err.Error()
			}
			fail(w, s.status, answerError{Code: s.code, Detail: detail})
			return
		}
	}
	slog.Error("target failed", "operation", rt.operation, "error", err)
	fail(w, http.StatusInternalServerError, answerError{Code: codeInternal, Detail: "internal error"})
}

func fail(w http.ResponseWriter, status int, e answerError) {
	body, err := encode(errorAnswer{e})
	if err != nil { // strings only: cannot fail
		panic(err)
	}
	answer(w, status, "application/json", body)
}

func answer(w http.ResponseWriter, status int, media string, body []byte) {
	w.Header().Set("Content-Type", media)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the caller is gone: nobody to tell
}

// Serve answers requests on l with h until ctx ends. Then it takes no new
// requests, gives those in progress ten seconds, and returns nil when all were
// answered. It closes l. Of connections it serves so many at a time, and the
// others wait.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	if h == nil { // net/http would serve whatever the process has registered
		_ = l.Close()
		return errors.New("serving: no handler given")
	}
	server := &http.Server{
		Handler:                      h,
		ReadHeaderTimeout:            headerTimeout,
		ReadTimeout:                  readTimeout,
		WriteTimeout:                 writeTimeout,
		IdleTimeout:                  idleTimeout,
		MaxHeaderBytes:               maxHeader,
		DisableGeneralOptionsHandler: true,
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(netutil.LimitListener(l, maxConnections)) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serving on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer cancel()
	err := server.Shutdown(grace)
	if err != nil {
		_ = server.Close()
		err = fmt.Errorf("shutting down: calls were still in progress after %v: %w", shutdownGrace, err)
	}
	<-failed
	return err
}
