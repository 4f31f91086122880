package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"countersign/gateway/api"
)

// maxAnswer is the largest answer that is read, in bytes. An audit log is long.
const maxAnswer = 256 << 20

// Client is a target at an HTTP address. Errors of the contract come back as on
// the other side of the wire: errors.Is and errors.As give the same answers. Any
// other error, among them every answer that is not the contract's, means that it
// is not known what happened.
type Client struct {
	base string
	http http.Client
}

var _ api.Target = (*Client)(nil)

// NewClient returns a client for the gateway at baseURL, such as
// "http://127.0.0.1:8080". hc nil means a client that gives up after a minute.
// Redirects are not followed, since they would carry a call elsewhere, and no POST
// is sent twice. A base URL that is none fails at the first call.
func NewClient(baseURL string, hc *http.Client) *Client {
	c := &Client{base: strings.TrimRight(baseURL, "/"), http: http.Client{Timeout: time.Minute}}
	if hc != nil {
		c.http = *hc
	}
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c
}

// Describe implements [api.Target].
func (c *Client) Describe(ctx context.Context) (out api.Description, err error) {
	err = c.do(ctx, "GET", "/v1/describe", nil, nil, &out)
	return out, err
}

// Propose implements [api.Target].
func (c *Client) Propose(ctx context.Context, auth api.Auth, a api.Action) (out api.Pending, err error) {
	err = c.do(ctx, "POST", "/v1/proposals", &auth, a, &out)
	return out, err
}

// Preview implements [api.Target].
func (c *Client) Preview(ctx context.Context, auth api.Auth, a api.Action) (out api.Values, err error) {
	err = c.do(ctx, "POST", "/v1/previews", &auth, a, &out)
	return out, err
}

// Status implements [api.Target].
func (c *Client) Status(ctx context.Context, auth api.Auth, suspension string) (out api.SuspensionStatus, err error) {
	err = c.suspension(ctx, "GET", suspension, "", &auth, nil, &out)
	return out, err
}

// Dispatch implements [api.Target].
func (c *Client) Dispatch(ctx context.Context, auth api.Auth, d api.Dispatch) (out api.Outcome, err error) {
	err = c.do(ctx, "POST", "/v1/dispatch", &auth, d, &out)
	return out, err
}

// View implements [api.Target].
func (c *Client) View(ctx context.Context, auth api.Auth, suspension string) (out api.View, err error) {
	err = c.suspension(ctx, "GET", suspension, "/view", &auth, nil, &out)
	return out, err
}

// RunWideView implements [api.Target].
func (c *Client) RunWideView(ctx context.Context, auth api.Auth, suspension string, terms api.RunWide) (out api.View, err error) {
	err = c.suspension(ctx, "POST", suspension, "/run-wide-view", &auth, terms, &out)
	return out, err
}

// Decide implements [api.Target].
func (c *Client) Decide(ctx context.Context, auth api.Auth, d api.Decision) error {
	return c.suspension(ctx, "POST", d.Suspension, "/decision", &auth, d, nil)
}

// BeginEnrolment implements [api.Target].
func (c *Client) BeginEnrolment(ctx context.Context, auth api.Auth) (out json.RawMessage, err error) {
	err = c.do(ctx, "POST", "/v1/enrolment/begin", &auth, nil, &out)
	return out, err
}

// FinishEnrolment implements [api.Target].
func (c *Client) FinishEnrolment(ctx context.Context, auth api.Auth, response json.RawMessage) error {
	return c.do(ctx, "POST", "/v1/enrolment/finish", &auth, response, nil)
}

// Admin implements [api.Target].
func (c *Client) Admin(ctx context.Context, auth api.Auth, e api.Event) error {
	return c.do(ctx, "POST", "/v1/admin/events", &auth, e, nil)
}

// Audit implements [api.Target].
func (c *Client) Audit(ctx context.Context, auth api.Auth, after int64) (out []api.AuditEntry, err error) {
	err = c.do(ctx, "GET", "/v1/audit?after="+strconv.FormatInt(after, 10), &auth, nil, &out)
	return out, err
}

// suspension calls an address below a suspension. No address names the empty
// identifier, and nothing has it.
func (c *Client) suspension(ctx context.Context, method, id, rest string, auth *api.Auth, in, out any) error {
	if id == "" {
		return fmt.Errorf("%s /v1/suspensions/{id}%s: the identifier is empty: %w", method, rest, api.ErrNotFound)
	}
	// Dots are escaped so that "." and ".." stay identifiers.
	escaped := strings.ReplaceAll(url.PathEscape(id), ".", "%2E")
	return c.do(ctx, method, "/v1/suspensions/"+escaped+rest, auth, in, out)
}

// do makes one call: in is the body (nil for none), *out takes the answer (nil
// for none), auth names the caller (nil for nobody).
func (c *Client) do(ctx context.Context, method, path string, auth *api.Auth, in, out any) error {
	wrap := func(err error) error { return fmt.Errorf("%s %s: %w", method, path, err) }
	var body []byte
	if in != nil {
		if err := checkText(reflect.ValueOf(in), ""); err != nil {
			return wrap(invalidf("encoding the call: %v", err))
		}
		var err error
		if body, err = encode(in); err != nil {
			return wrap(invalidf("encoding the call: %v", err))
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return wrap(err)
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", "application/json")
	if auth != nil {
		if err := authorize(req.Header, *auth); err != nil {
			return wrap(err)
		}
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return wrap(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return wrap(fmt.Errorf("reading the answer: %w", err))
	}
	if len(data) > maxAnswer {
		return wrap(fmt.Errorf("answer is larger than %d bytes", maxAnswer))
	}
	if err := understand(resp, data, out); err != nil {
		return wrap(err)
	}
	return nil
}

func authorize(h http.Header, auth api.Auth) error {
	if !visible(auth.Token) {
		return fmt.Errorf("token is empty or cannot stand in a header: %w", api.ErrUnauthenticated)
	}
	if auth.Proof == "" {
		h.Set("Authorization", "Bearer "+auth.Token)
		return nil
	}
	h.Set("Authorization", "DPoP "+auth.Token)
	h.Set("DPoP", auth.Proof)
	return nil
}

// understand reads an answer. It gives an error of the contract only where
// status, media type, body and code all say so.
func understand(resp *http.Response, data []byte, out any) error {
	unclear := func(why string) error {
		return fmt.Errorf("answer not understood: status %d, %d bytes: %s", resp.StatusCode, len(data), why)
	}
	if out == nil && resp.StatusCode == http.StatusNoContent {
		return nil
	}
	media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil || media != "application/json" {
		return unclear("it is not application/json")
	}
	if resp.StatusCode < 300 {
		if out == nil || resp.StatusCode != http.StatusOK {
			return unclear("this call has another answer")
		}
		// Into a copy, so that a caller never sees half an answer.
		into := reflect.New(reflect.TypeOf(out).Elem())
		if err := decodeAnswer(data, into.Interface()); err != nil {
			return unclear(err.Error())
		}
		reflect.ValueOf(out).Elem().Set(into.Elem())
		return nil
	}
	var answer errorAnswer
	if err := decodeAnswer(data, &answer); err != nil {
		return unclear(err.Error())
	}
	e := answer.Error
	is := func(status int, code errorCode) bool { return resp.StatusCode == status && e.Code == code }
	switch {
	case is(http.StatusForbidden, codeRefused) && len(e.Refused) > 0:
		return &api.RefusedError{Refusals: e.Refused}
	case is(http.StatusNotImplemented, codeUnimplemented):
		return &api.UnimplementedError{Feature: e.Feature, Reason: e.Detail}
	case is(http.StatusRequestEntityTooLarge, codeTooLarge):
		return &remoteError{e.Detail, api.ErrInvalid, 0}
	}
	for _, s := range sentinels {
		if is(s.status, s.code) {
			return &remoteError{e.Detail, s.err, retryAfter(resp.Header)}
		}
	}
	if is(http.StatusInternalServerError, codeInternal) {
		return errors.New("the gateway failed (status 500); its log says why")
	}
	return unclear(fmt.Sprintf("code %q: %s", e.Code, e.Detail))
}

// remoteError has the text that was sent, and is what its code says.
type remoteError struct {
	detail string
	kind   error
	after  time.Duration
}

func (e *remoteError) Error() string { return e.detail }
func (e *remoteError) Unwrap() error { return e.kind }

// RetryAfter is how long the gateway asks to wait before an error's call is made
// again; false where it asks for nothing.
func RetryAfter(err error) (time.Duration, bool) {
	var e *remoteError
	if !errors.As(err, &e) || e.after <= 0 {
		return 0, false
	}
	return e.after, true
}

// retryAfter reads the header of this name in its form of seconds, the one that is
// sent here; an hour at most is believed.
func retryAfter(h http.Header) time.Duration {
	n, err := strconv.ParseInt(h.Get("Retry-After"), 10, 64)
	if err != nil || n < 0 || n > 3600 {
		return 0
	}
	return time.Duration(n) * time.Second
}
