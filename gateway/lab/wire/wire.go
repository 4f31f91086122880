// Package wire puts a deployment of a target, and the lab's handles on it, between
// two processes: a [Server] beside the gateway deploys what it is asked for and
// disturbs it, and a [Remote] beside the attacks is the api.Factory that asks.
//
// What stays with the attacks is the world: the provider, the register of names and
// the clock are called back over HTTP, so that a trial over the wire has the same
// effects, the same ledger and the same time as one in a single process.
//
// Whoever can call the server's control can do anything to the gateway. It is for
// the lab, has a token and a listener of its own, and is not there unless asked for.
package wire

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"countersign/gateway/api"
)

// maxBody bounds a message between the two sides, in bytes.
const maxBody = 4 << 20

// callTimeout bounds one message, by the wall clock.
const callTimeout = 60 * time.Second

// About says which targets a server deploys.
type About struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	ModelledOn string `json:"modelled_on,omitempty"`
	// Store is the id of the store that deployments are kept in; empty: each has a
	// memory of its own, which no other server shares.
	Store string `json:"store,omitempty"`
}

// deployment is what the attacks' side asks for.
type deployment struct {
	ID string `json:"id"`
	// Keys are what another server made of the same deployment; empty: make some.
	Keys               json.RawMessage `json:"keys,omitempty"`
	Issuer             string          `json:"issuer"`
	Tools              []api.Tool      `json:"tools"`
	ApprovalTTL        time.Duration   `json:"approval_ttl"` // nanoseconds
	AdminToken         string          `json:"admin_token"`
	AuditorToken       string          `json:"auditor_token"`
	Origin             string          `json:"origin"`
	ProviderCredential string          `json:"provider_credential"`
	SecretKey          []byte          `json:"secret_key"`
	// World is the address at which provider, register and clock answer to WorldToken.
	World      string `json:"world"`
	WorldToken string `json:"world_token"`
	// Watched asks to be told of each write before it is made and when it has been.
	Watched bool `json:"watched,omitempty"`
}

// deployed says where a target is.
type deployed struct {
	Address string          `json:"address"`
	Keys    json.RawMessage `json:"keys,omitempty"`
	Lab     bool            `json:"lab"`
}

type faultRequest struct {
	Dependency api.Dependency `json:"dependency"`
	Fault      api.Fault      `json:"fault"`
}

type stepRequest struct {
	Step api.Step `json:"step"`
}

// reached answers that a step was reached; Crash is why the gateway ends there.
type reached struct {
	Crash string `json:"crash,omitempty"`
}

type lookedUp struct {
	Result api.ProviderResult `json:"result"`
	Found  bool               `json:"found"`
}

type pointRequest struct {
	Point string `json:"point"`
}

type nameRequest struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
}

type claimRequest struct {
	Credential string `json:"credential"`
}

// failure is an error of the contract on its way.
type failure struct {
	Kind   string `json:"kind"`
	Detail string `json:"detail,omitempty"`
	Status int    `json:"status,omitempty"` // of a provider's refusal, as its code
	Code   string `json:"code,omitempty"`
}

type answer struct {
	Value json.RawMessage `json:"value,omitempty"`
	Error *failure        `json:"error,omitempty"`
}

// kinds are the errors that mean something to the other side.
var kinds = map[string]error{
	"not_sent": api.ErrNotSent, "no_answer": api.ErrNoAnswer, "no_lookup": api.ErrNoLookup, "not_found": api.ErrNotFound,
}

func failed(err error) *failure {
	var p *api.ProviderError
	if errors.As(err, &p) {
		return &failure{Kind: "provider", Status: p.Status, Code: p.Code, Detail: p.Detail}
	}
	for kind, is := range kinds {
		if errors.Is(err, is) {
			return &failure{Kind: kind, Detail: err.Error()}
		}
	}
	return &failure{Kind: "other", Detail: err.Error()}
}

func (f failure) err() error {
	if f.Kind == "provider" {
		return &api.ProviderError{Status: f.Status, Code: f.Code, Detail: f.Detail}
	}
	if is, ok := kinds[f.Kind]; ok {
		return fmt.Errorf("%w: %s", is, f.Detail)
	}
	return errors.New(f.Detail)
}

// encode writes JSON as it is, so that a result has the same bytes on both sides.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return b.Bytes(), err
}

// decode reads one JSON value and refuses members that it does not know.
func decode(r io.Reader, into any) error {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more than one value")
	}
	return nil
}

// handle serves one kind of message. What cannot be read is answered as an error.
func handle[In, Out any](f func(ctx context.Context, r *http.Request, in In) (Out, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in In
		var out any
		err := decode(http.MaxBytesReader(w, r.Body, maxBody), &in)
		if err != nil {
			err = fmt.Errorf("reading the message: %w", err)
		} else {
			out, err = f(r.Context(), r, in)
		}
		var a answer
		if err == nil {
			a.Value, err = encode(out)
		}
		if err != nil {
			a = answer{Error: failed(err)}
		}
		body, err := encode(a)
		if err != nil { // a failure is made of texts and a number
			body = []byte(`{"error":{"kind":"other","detail":"the answer cannot be written"}}`)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_, _ = w.Write(body) // the caller is gone: nobody to tell
	}
}

// guarded lets through who has the token.
func guarded(token string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok || token == "" || subtle.ConstantTimeCompare([]byte(given), []byte(token)) != 1 {
			http.Error(w, "the lab's token is missing or another one", http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// A caller sends messages to one address.
type caller struct {
	base, token string
	http        *http.Client
}

func newCaller(base, token string) caller {
	return caller{strings.TrimRight(base, "/"), token, &http.Client{
		Timeout:       callTimeout,
		Transport:     &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// call sends a message and reads the answer into out. What the other side said is
// returned as it was; anything else wraps errNotReached or errUnclear.
func (c caller) call(ctx context.Context, path string, in, out any) error {
	body, err := encode(in)
	if err != nil {
		return fmt.Errorf("%w: %w", errNotReached, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%w: %w", errNotReached, err)
	}
	req.GetBody = nil // net/http is not to send a message twice
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+c.token)
	resp, err := c.http.Do(req)
	if err != nil {
		if op := (*net.OpError)(nil); errors.As(err, &op) && op.Op == "dial" {
			return fmt.Errorf("%w: %w", errNotReached, err)
		}
		return fmt.Errorf("%w: %w", errUnclear, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 200))
		return fmt.Errorf("%w: status %d: %s", errUnclear, resp.StatusCode, strings.TrimSpace(string(text)))
	}
	var a answer
	if err := decode(io.LimitReader(resp.Body, maxBody), &a); err != nil {
		return fmt.Errorf("%w: reading the answer: %w", errUnclear, err)
	}
	if a.Error != nil {
		return a.Error.err()
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(a.Value, out); err != nil {
		return fmt.Errorf("%w: reading the answer: %w", errUnclear, err)
	}
	return nil
}

var (
	errNotReached = errors.New("the other side of the lab was not reached")
	errUnclear    = errors.New("the other side of the lab gave no clear answer")
)
