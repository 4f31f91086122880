package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"countersign/gateway/api"
)

// A Client is a World behind HTTP. It implements api.Provider and api.Directory.
//
// It never sends a call twice: connections are not reused (a connection that the
// server closed meanwhile would make the outcome of a call unknown for nothing),
// a body cannot be rewound by net/http, and redirects are not followed.
type Client struct {
	base string
	http *http.Client
}

var (
	_ api.Provider  = (*Client)(nil)
	_ api.Directory = (*Client)(nil)
)

// maxAnswer bounds an answer; a long ledger is the largest.
const maxAnswer = 256 << 20

// NewClient returns a client for the handler at baseURL ("http://127.0.0.1:8080").
// A call without an answer after timeout is given up; 0 means 30 seconds.
func NewClient(baseURL string, timeout time.Duration) (*Client, error) {
	u, err := url.Parse(baseURL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("provider client: %q is not an http address", baseURL)
	}
	if timeout < 0 {
		return nil, fmt.Errorf("provider client: negative time-out %v", timeout)
	}
	if timeout == 0 {
		timeout = 30 * time.Second
	}
	return &Client{
		base: strings.TrimSuffix(baseURL, "/"),
		http: &http.Client{
			Timeout:       timeout,
			Transport:     &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: 1 << 16},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// Execute implements api.Provider.
func (c *Client) Execute(ctx context.Context, r api.ProviderRequest) (res api.ProviderResult, err error) {
	err = c.call(ctx, http.MethodPost, "/v1/execute", r, &res)
	return res, err
}

// Preview implements api.Provider.
func (c *Client) Preview(ctx context.Context, r api.ProviderRequest) (v api.Values, err error) {
	err = c.call(ctx, http.MethodPost, "/v1/preview", r, &v)
	return v, err
}

// Lookup implements api.Provider.
func (c *Client) Lookup(ctx context.Context, q api.LookupQuery) (api.ProviderResult, bool, error) {
	var a lookupAnswer
	err := c.call(ctx, http.MethodPost, "/v1/lookup", q, &a)
	if err != nil || !a.Found {
		return api.ProviderResult{}, false, err
	}
	return a.Result, true, nil
}

// Claim implements api.Provider.
func (c *Client) Claim(ctx context.Context, credential string) error {
	return c.call(ctx, http.MethodPost, "/v1/claim", claimRequest{credential}, &struct{}{})
}

// Resolve implements api.Directory.
func (c *Client) Resolve(ctx context.Context, kind, id string) (res api.Resolution, err error) {
	q := url.Values{"kind": {kind}, "id": {id}}
	err = c.call(ctx, http.MethodGet, "/v1/resolve?"+q.Encode(), nil, &res)
	return res, err
}

// Tools is [World.Tools].
func (c *Client) Tools(ctx context.Context) (tools []api.Tool, err error) {
	err = c.call(ctx, http.MethodGet, "/v1/tools", nil, &tools)
	return tools, err
}

// Ledger is [World.Ledger].
func (c *Client) Ledger(ctx context.Context) (effects []Effect, err error) {
	err = c.call(ctx, http.MethodGet, "/v1/ledger", nil, &effects)
	return effects, err
}

// SetRecord is [World.SetRecord].
func (c *Client) SetRecord(ctx context.Context, kind, id string, members map[string]json.RawMessage) error {
	return c.call(ctx, http.MethodPut, "/v1/records/"+url.PathEscape(kind)+"/"+url.PathEscape(id), members, &struct{}{})
}

// Inject is [World.Inject].
func (c *Client) Inject(ctx context.Context, faults ...Fault) error {
	return c.call(ctx, http.MethodPost, "/v1/faults", faults, &struct{}{})
}

// call makes one request. api.ErrNotSent is returned only where no connection was
// made or the server said so; whatever cannot be understood is api.ErrNoAnswer.
func (c *Client) call(ctx context.Context, method, target string, in, out any) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", api.ErrNotSent, err)
	}
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("%w: encoding the call: %w", api.ErrNotSent, err)
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+target, body)
	if err != nil {
		return fmt.Errorf("%w: %w", api.ErrNotSent, err)
	}
	req.GetBody = nil // without it net/http cannot send the call again
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) && op.Op == "dial" {
			return fmt.Errorf("%w: %w", api.ErrNotSent, err)
		}
		return fmt.Errorf("%w: %w", api.ErrNoAnswer, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("%w: %w", api.ErrNoAnswer, err)
	}
	if resp.StatusCode == http.StatusOK {
		if err := decode(bytes.NewReader(text), out); err != nil {
			return fmt.Errorf("%w: decoding the answer: %w", api.ErrNoAnswer, err)
		}
		return nil
	}
	var e errorAnswer
	if err := decode(bytes.NewReader(text), &e); err != nil || e.Error.Code == "" || resp.StatusCode < 400 {
		return fmt.Errorf("%w: status %d", api.ErrNoAnswer, resp.StatusCode)
	}
	switch e.Error.Code {
	case codeNotSent:
		return api.ErrNotSent
	case codeNoLookup:
		return api.ErrNoLookup
	case codeNotFound:
		return fmt.Errorf("provider: %s: %w", e.Error.Detail, api.ErrNotFound)
	case codeInternal:
		return fmt.Errorf("%w: the provider failed", api.ErrNoAnswer)
	}
	return &api.ProviderError{Status: resp.StatusCode, Code: e.Error.Code, Detail: e.Error.Detail}
}
