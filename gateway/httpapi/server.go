package httpapi

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"reflect"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
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

// A Config says how a target is served.
type Config struct {
	Target api.Target
	// Clock is that of the deployment, for rates and latencies. It may be nil where
	// there is neither rate.
	Clock api.Clock
	// Principals is the rate of one principal, if the target is an [api.Admitter].
	Principals Rate
	// Strangers is the rate of one address, of requests whose caller is not known: all
	// that name none or nobody, and all to a target that is no api.Admitter. One that
	// has used it up is not asked who it is.
	Strangers Rate
	// Proxies are the networks from which X-Forwarded-For is believed.
	Proxies []netip.Prefix
	// Log has one line for each request, without anything that its caller chose; nil
	// is the default logger of log/slog.
	Log *slog.Logger
	// Observe, optional, is told of each request that was answered. It may be called
	// concurrently.
	Observe func(Observed)
}

// NewHandler serves t without rates. See [Config.Handler].
func NewHandler(t api.Target) http.Handler { return newHandler(Config{Target: t}) }

// Handler serves the contract of the target at the addresses of [Document].
//
// A failure of the target that the contract has no error for, a panic included,
// is answered with 500 and no detail; the log has the detail, without the words of
// the request, and of a panic what its value was and where.
//
// Of a target that is an [api.Admitter], bodies of callers that it does not know
// are not read. Requests whose bodies would take more memory than is set aside
// for all of them, or for one caller, are answered with 503 at once, and those
// beyond a rate with 429.
func (c Config) Handler() (http.Handler, error) {
	switch {
	case c.Target == nil:
		return nil, errors.New("serving: no target is given")
	case c.Clock == nil && (c.Principals != Rate{} || c.Strangers != Rate{}):
		return nil, errors.New("serving: rates need a clock")
	}
	for _, r := range []Rate{c.Principals, c.Strangers} {
		if r != (Rate{}) && (!(r.PerSecond > 0) || math.IsInf(r.PerSecond, 0) || r.Burst < 1) {
			return nil, fmt.Errorf("serving: a rate of %v requests a second and %d at once: want more than none of both", r.PerSecond, r.Burst)
		}
	}
	return newHandler(c), nil
}

type handler struct {
	Config
	intake                *intake
	principals, strangers *limiter
}

func newHandler(c Config) *handler {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return &handler{c, &intake{of: map[string]int64{}}, newLimiter(c.Principals, c.Clock), newLimiter(c.Strangers, c.Clock)}
}

// An exchange is one request and its answer.
type exchange struct {
	*handler
	w     http.ResponseWriter
	r     *http.Request
	rt    *route
	id    string // the {id} of the path
	body  []byte // as far as it was read
	cause error  // of a failure inside
	stack string
	seen  Observed
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{handler: h, w: w, r: r, seen: Observed{Operation: "none", Request: requestID(), Remote: remote(r, h.Proxies)}}
	began := h.now()
	head := w.Header()
	head.Set("Cache-Control", "no-store")
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	head.Set("Request-Id", x.seen.Request)
	defer func() {
		// Nothing is written before serve returns, so a panic still gets an answer.
		if p := recover(); p != nil {
			x.cause, x.stack = panicked(p), string(debug.Stack())
			x.fail(http.StatusInternalServerError, answerError{Code: codeInternal, Detail: "internal error"})
		}
		if ended := h.now(); !began.IsZero() && !ended.IsZero() {
			x.seen.Latency = max(0, ended.Sub(began))
		}
		x.seen.write(h.Log, scrubbed(x.cause, r, x.body), x.stack)
		if h.Observe != nil {
			h.Observe(x.seen)
		}
	}()
	rt, id, allow := find(r.Method, r.URL.EscapedPath())
	x.rt, x.id = rt, id
	switch {
	case rt != nil:
		x.seen.Operation = rt.operation
		x.serve()
	case !x.charge():
	case allow == nil:
		x.fail(http.StatusNotFound, answerError{Code: codeNoRoute, Detail: "no such address"})
	default:
		head.Set("Allow", strings.Join(allow, ", "))
		x.fail(http.StatusMethodNotAllowed, answerError{Code: codeMethod, Detail: "this address answers to " + strings.Join(allow, ", ")})
	}
}

// now is zero where the time is not known.
func (h *handler) now() time.Time {
	if h.Clock == nil {
		return time.Time{}
	}
	now, err := h.Clock.Now()
	if err != nil {
		return time.Time{}
	}
	return now
}

func requestID() string {
	b := make([]byte, 8)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return hex.EncodeToString(b)
}

// charge counts a request of somebody who is not known. When it returns false it has
// answered.
func (x *exchange) charge() bool {
	wait, ok := x.strangers.take(x.seen.Remote)
	if !ok {
		x.limited("address", wait)
	}
	return ok
}

func (x *exchange) limited(by string, wait time.Duration) {
	x.seen.Limited = by
	x.w.Header().Set("Retry-After", strconv.FormatInt(seconds(wait), 10))
	x.failWith(api.ErrRateLimited)
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

func (x *exchange) serve() {
	r, rt, c := x.r, x.rt, call{id: x.id}
	if rt.call == nil {
		if rt.free || x.charge() {
			x.answer(http.StatusOK, rt.media, rt.static)
		}
		return
	}
	if rt.open {
		if !x.charge() {
			return
		}
	} else if !x.admit(&c) {
		return
	}
	var err error
	if c.after, err = queryOf(r.URL.RawQuery, rt.after); err != nil {
		x.failWith(err)
		return
	}
	if rt.in != nil {
		size := r.ContentLength
		if size < 0 || size > MaxBody { // not known, or refused below
			size = MaxBody
		}
		// Held until the answer: what is made of a body lives as long.
		free, room := x.intake.reserve(c.auth.Token, size)
		if !room {
			x.failWith(fmt.Errorf("%w: too many bodies in flight", api.ErrUnavailable))
			return
		}
		defer free()
	}
	var ok bool
	if c.in, ok = x.read(); !ok {
		return
	}
	x.seen.asked(c.in)

	// A caller that hangs up does not choose where between checking, spending
	// and sending a call stops.
	ctx := r.Context()
	if rt.method == http.MethodPost {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	out, err := rt.call(ctx, x.Target, c)
	if err != nil {
		x.failWith(err)
		return
	}
	x.seen.answered(x.id, out)
	status := http.StatusOK
	if rt.out == nil {
		x.seen.Status = http.StatusNoContent
		x.w.WriteHeader(http.StatusNoContent)
		return
	}
	if r, ok := out.(Readiness); ok && r.Status != "ok" {
		status = http.StatusServiceUnavailable
	}
	body, err := encode(out)
	if err != nil {
		x.failWith(fmt.Errorf("encoding the answer: %w", err))
		return
	}
	x.answer(status, "application/json", bytes.ToValidUTF8(body, []byte("\uFFFD")))
}

// admit finds out who calls, and counts the call. When it returns false it has
// answered.
func (x *exchange) admit(c *call) bool {
	// Before anybody is asked, so that guessing costs the target no more than this.
	if wait, ok := x.strangers.allows(x.seen.Remote); !ok {
		x.limited("address", wait)
		return false
	}
	var ok bool
	if c.auth, ok = authOf(x.r); !ok {
		if x.charge() {
			x.failWith(api.ErrUnauthenticated)
		}
		return false
	}
	door, known := x.Target.(api.Admitter)
	if !known {
		return x.charge()
	}
	ctx, cancel := context.WithTimeout(x.r.Context(), callTimeout)
	defer cancel()
	p, err := door.Admit(ctx, c.auth)
	if err != nil {
		if !errors.Is(err, api.ErrUnauthenticated) || x.charge() {
			x.failWith(err)
		}
		return false
	}
	x.seen.Principal, x.seen.Role = p.ID, p.Role
	if wait, ok := x.principals.take(p.ID); !ok {
		x.limited("principal", wait)
		return false
	}
	return true
}

// authOf reads the one Authorization header, the DPoP proof, if any, and the key
// that the connection proved, if any.
func authOf(r *http.Request) (api.Auth, bool) {
	h := r.Header
	headers, proofs := h.Values("Authorization"), h.Values("DPoP")
	if len(headers) != 1 || len(proofs) > 1 {
		return api.Auth{}, false
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	token = strings.Trim(token, " ")
	if !visible(token) {
		return api.Auth{}, false
	}
	auth := api.Auth{Token: token, Key: provenKey(r.TLS)}
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

// provenKey is the thumbprint of the key of a client certificate. Who has issued the
// certificate means nothing (RFC 8705, section 2.2): the handshake proves the key.
func provenKey(c *tls.ConnectionState) string {
	if c == nil || !c.HandshakeComplete || len(c.PeerCertificates) == 0 {
		return ""
	}
	tp, err := (&jose.JSONWebKey{Key: c.PeerCertificates[0].PublicKey}).Thumbprint(crypto.SHA256)
	if err != nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(tp)
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

// read reads the body of a request into a new value of the route's type. When
// it returns false it has answered.
func (x *exchange) read() (any, bool) {
	r, rt := x.r, x.rt
	tooLarge := func() (any, bool) {
		x.fail(http.StatusRequestEntityTooLarge, answerError{Code: codeTooLarge, Detail: fmt.Sprintf("body is larger than %d bytes", MaxBody)})
		return nil, false
	}
	if rt.method != http.MethodPost {
		return nil, true // a body on a safe method means nothing (RFC 9110, section 9.3.1)
	}
	if rt.in != nil && !isJSON(r.Header) {
		x.fail(http.StatusUnsupportedMediaType, answerError{Code: codeMediaType, Detail: "body is to be application/json in UTF-8, not otherwise encoded"})
		return nil, false
	}
	if r.ContentLength > MaxBody {
		return tooLarge()
	}
	data, err := io.ReadAll(http.MaxBytesReader(x.w, r.Body, MaxBody))
	x.body = data
	var limit *http.MaxBytesError
	switch {
	case errors.As(err, &limit):
		return tooLarge()
	case err != nil:
		x.failWith(invalidf("reading the body"))
		return nil, false
	case rt.in == nil && len(data) > 0:
		x.failWith(invalidf("this address takes no body"))
		return nil, false
	case rt.in == nil:
		return nil, true
	}
	in := reflect.New(reflect.TypeOf(rt.in)).Interface()
	if err := decodeRequest(data, in); err != nil {
		x.failWith(invalidf("%v", err))
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
func (x *exchange) failWith(err error) {
	var refused *api.RefusedError
	var unimplemented *api.UnimplementedError
	switch {
	case errors.As(err, &refused) && len(refused.Refusals) > 0:
		x.seen.Refused = bindings(refused.Refusals)
		x.fail(http.StatusForbidden, answerError{Code: codeRefused, Detail: refused.Error(), Refused: refused.Refusals})
		return
	case errors.As(err, &refused):
		// A refusal by no binding is a fault of the target, and no refusal.
	case errors.As(err, &unimplemented):
		x.fail(http.StatusNotImplemented, answerError{Code: codeUnimplemented, Detail: unimplemented.Reason, Feature: unimplemented.Feature})
		return
	default:
		for _, s := range sentinels {
			if !errors.Is(err, s.err) {
				continue
			}
			if s.status == http.StatusUnauthorized {
				x.w.Header()["Www-Authenticate"] = []string{"Bearer", "DPoP"}
			}
			if s.status == http.StatusServiceUnavailable {
				x.cause = err
			}
			detail := err.Error()
			if s.plain {
				detail = s.err.Error()
			}
			x.fail(s.status, answerError{Code: s.code, Detail: detail})
			return
		}
	}
	x.cause = err
	x.fail(http.StatusInternalServerError, answerError{Code: codeInternal, Detail: "internal error"})
}

func (x *exchange) fail(status int, e answerError) {
	x.seen.Code = string(e.Code)
	body, err := encode(errorAnswer{e})
	if err != nil { // strings only: cannot fail
		panic(err)
	}
	x.answer(status, "application/json", body)
}

func (x *exchange) answer(status int, media string, body []byte) {
	x.seen.Status = status
	x.w.Header().Set("Content-Type", media)
	x.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	x.w.WriteHeader(status)
	_, _ = x.w.Write(body) // the caller is gone: nobody to tell
}

// Serve answers requests on l with h. See [Server.Serve].
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	return Server{Handler: h}.Serve(ctx, l)
}

// A Server answers requests.
type Server struct {
	Handler http.Handler
	TLS     *tls.Config // with its certificates; nil for plain HTTP
	// Log is told, at the level of debugging, of what net/http has to say: handshakes
	// that failed and the like. nil is the default logger of log/slog.
	Log *slog.Logger
}

// Serve answers requests on l until ctx ends. Then it takes no new requests, gives
// those in progress ten seconds, and returns nil when all were answered. It closes
// l. Of connections it serves so many at a time, and the others wait.
func (s Server) Serve(ctx context.Context, l net.Listener) error {
	if s.Handler == nil { // net/http would serve whatever the process has registered
		_ = l.Close()
		return errors.New("serving: no handler given")
	}
	if s.Log == nil {
		s.Log = slog.Default()
	}
	server := &http.Server{
		Handler:                      s.Handler,
		TLSConfig:                    s.TLS,
		ReadHeaderTimeout:            headerTimeout,
		ReadTimeout:                  readTimeout,
		WriteTimeout:                 writeTimeout,
		IdleTimeout:                  idleTimeout,
		MaxHeaderBytes:               maxHeader,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
		Protocols:                    new(http.Protocols),
	}
	// One request at a time on a connection, so that the connections bound what is in
	// progress; HTTP/2 has hundreds on each.
	server.Protocols.SetHTTP1(true)
	failed := make(chan error, 1)
	go func() {
		bounded := netutil.LimitListener(l, maxConnections)
		if s.TLS != nil {
			failed <- server.ServeTLS(bounded, "", "")
			return
		}
		failed <- server.Serve(bounded)
	}()
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
