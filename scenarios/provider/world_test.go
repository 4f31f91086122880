package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"countersign/gateway/api"

	"github.com/google/go-cmp/cmp"
)

type manualClock struct {
	mu  sync.Mutex
	now time.Time
	err error
}

func (c *manualClock) Now() (time.Time, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now, c.err
}

func (c *manualClock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func newClock() *manualClock {
	return &manualClock{now: time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)}
}

func text(s string) json.RawMessage { return json.RawMessage(s) }

var payFields = []api.Field{
	{Name: "supplier", Type: api.TypeString, Required: true, Reference: "supplier"},
	{Name: "amount", Type: api.TypeInteger, Required: true},
	{Name: "rate", Type: api.TypeNumber},
	{Name: "urgent", Type: api.TypeBoolean},
	{Name: "cc", Type: api.TypeStrings},
	{Name: "speed", Type: api.TypeString, Default: `"slow"`},
}

func payTool(audience, name string, class api.ToolClass, g api.Guarantee) api.Tool {
	return api.Tool{Audience: audience, Name: name, Class: class, Guarantee: g, Fields: slices.Clone(payFields)}
}

func testConfig(c api.Clock) Config {
	return Config{
		Tools: []api.Tool{
			payTool("bank", "pay", api.ClassConsequential, api.GuaranteeIdempotent),
			payTool("sibling", "pay", api.ClassConsequential, api.GuaranteeIdempotent),
			payTool("bank", "wire", api.ClassConsequential, api.GuaranteeLookup),
			payTool("bank", "fire", api.ClassConsequential, api.GuaranteeNone),
			payTool("bank", "look", api.ClassRead, api.GuaranteeNone),
			{Audience: "bank", Name: "edit", Class: api.ClassReference, Guarantee: api.GuaranteeLookup, Changes: "supplier", Fields: []api.Field{
				{Name: "id", Type: api.TypeString, Required: true},
				{Name: "name", Type: api.TypeString},
				{Name: "account", Type: api.TypeString},
			}},
		},
		Records: Records{"supplier": {
			"s1": {"name": text(`"Brightwater"`), "account": text(`"A-1"`), "tags": text(`[ "x", 1e2 ]`)},
			"s2": {"name": text(`"Other"`), "account": text(`"A-2"`), "tags": text(`[]`)},
		}},
		Reader: ReaderStruct,
		Clock:  c,
	}
}

// A service is what the conformance test drives: a World, or a Client of one.
type service interface {
	api.Provider
	api.Directory
	ledger() []Effect
	set(kind, id string, members map[string]json.RawMessage) error
	inject(...Fault) error
}

type inProcess struct{ *World }

func (s inProcess) ledger() []Effect { return s.Ledger() }
func (s inProcess) set(kind, id string, m map[string]json.RawMessage) error {
	return s.SetRecord(kind, id, m)
}
func (s inProcess) inject(f ...Fault) error { return s.Inject(f...) }

type overHTTP struct {
	*Client
	t *testing.T
}

func (s overHTTP) ledger() []Effect {
	l, err := s.Ledger(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return l
}
func (s overHTTP) set(kind, id string, m map[string]json.RawMessage) error {
	return s.SetRecord(s.t.Context(), kind, id, m)
}
func (s overHTTP) inject(f ...Fault) error { return s.Inject(s.t.Context(), f...) }

func newWorld(t testing.TB, c Config) *World {
	t.Helper()
	w, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

const honest = `{"supplier":"s1","amount":100}`

// call is an honest request for bank/pay under key "k1", changed by edits.
func call(edits ...func(*api.ProviderRequest)) api.ProviderRequest {
	r := api.ProviderRequest{Credential: "c", Audience: "bank", Tool: "pay", Body: []byte(honest), IdempotencyKey: "k1", RequestID: "r1"}
	for _, e := range edits {
		e(&r)
	}
	return r
}

func withTool(name string) func(*api.ProviderRequest) {
	return func(r *api.ProviderRequest) { r.Tool = name }
}
func withBody(body string) func(*api.ProviderRequest) {
	return func(r *api.ProviderRequest) { r.Body = []byte(body) }
}
func withKey(key string) func(*api.ProviderRequest) {
	return func(r *api.ProviderRequest) { r.IdempotencyKey = key }
}
func withResolved(x ...api.Resolved) func(*api.ProviderRequest) {
	return func(r *api.ProviderRequest) { r.Resolved = x }
}

func wantCode(t *testing.T, err error, status int, code string) {
	t.Helper()
	var p *api.ProviderError
	if !errors.As(err, &p) || p.Status != status || p.Code != code {
		t.Errorf("error %v, want provider error %d %s", err, status, code)
	}
}

// TestConformance states what the service does, once for both ways to reach it.
func TestConformance(t *testing.T) {
	cases := []struct {
		name string
		run  func(t *testing.T, s service, c *manualClock)
	}{
		{"a request is refused from its deadline on, where the service promises that", func(t *testing.T, s service, c *manualClock) {
			until := func(d time.Duration) func(*api.ProviderRequest) {
				return func(r *api.ProviderRequest) { r.Deadline = c.now.Add(d) }
			}
			must(s.Execute(t.Context(), call(until(1))))(t)
			for _, d := range []time.Duration{0, -1, -time.Hour} {
				_, err := s.Execute(t.Context(), call(until(d), withKey("k2")))
				wantCode(t, err, 412, "late")
				// What was accepted in time is still answered.
				if res := must(s.Execute(t.Context(), call(until(d))))(t); !res.Replayed {
					t.Errorf("a deadline %v from now: the first result is not returned", d)
				}
			}
			if n := len(s.ledger()); n != 1 {
				t.Errorf("%d effects, want 1", n)
			}
		}},
		{"an effect holds defaults and resolved members, and nothing absent", func(t *testing.T, s service, c *manualClock) {
			res := must(s.Execute(t.Context(), call(withBody(`{"supplier":"s1","amount":1e2,"rate":1.50,"cc":["a","b"],"ghost":1}`))))(t)
			if res.Status != 200 || res.Replayed || string(res.Body) != `{"effect":1}` {
				t.Errorf("result %+v", res)
			}
			want := []Effect{{
				Seq: 1, Time: c.now, Audience: "bank", Tool: "pay", RequestID: "r1", IdempotencyKey: "k1", CredentialDigest: CredentialDigest("c"),
				Values: api.Values{
					"/supplier": text(`"s1"`), "/supplier>name": text(`"Brightwater"`), "/supplier>account": text(`"A-1"`),
					"/supplier>tags": text(`["x",100]`), "/amount": text(`100`), "/rate": text(`1.5`), "/cc": text(`["a","b"]`), "/speed": text(`"slow"`),
				},
			}}
			if d := cmp.Diff(want, s.ledger()); d != "" {
				t.Error(d)
			}
		}},
		{"bad calls make no effect", func(t *testing.T, s service, _ *manualClock) {
			for _, b := range []struct {
				r      api.ProviderRequest
				status int
				code   string
			}{
				{call(withTool("nope")), 404, "unknown_tool"},
				{call(func(r *api.ProviderRequest) { r.Audience = "nowhere" }), 404, "unknown_tool"},
				{call(withBody(`{"supplier":"s1"}`)), 400, "invalid"},
				{call(withBody(`{"supplier":"s1","amount":null}`)), 400, "invalid"},
				{call(withBody(`{"supplier":"s1","amount":"100"}`)), 400, "invalid"},
				{call(withBody(`[1]`)), 400, "invalid"},
				{call(withBody(``)), 400, "invalid"},
				{call(withBody(`{"supplier":"s9","amount":1}`)), 422, "unknown_reference"},
				{call(func(r *api.ProviderRequest) { r.Credential = "" }), 403, "credential"},
				{call(withTool("edit"), withBody(`{"id":"s9","name":"x"}`)), 422, "unknown_reference"},
			} {
				_, err := s.Execute(t.Context(), b.r)
				wantCode(t, err, b.status, b.code)
			}
			if n := len(s.ledger()); n != 0 {
				t.Errorf("%d effects", n)
			}
		}},
		{"after a claim only its credential works", func(t *testing.T, s service, _ *manualClock) {
			ctx := t.Context()
			must(s.Execute(ctx, call(withTool("wire"))))(t)
			wantCode(t, s.Claim(ctx, ""), 400, "invalid")
			for range 2 { // a restarted gateway claims again
				if err := s.Claim(ctx, "gate"); err != nil {
					t.Fatal(err)
				}
			}
			wantCode(t, s.Claim(ctx, "thief"), 403, "credential")
			_, err := s.Execute(ctx, call(withTool("wire")))
			wantCode(t, err, 403, "credential")
			if _, err := s.Preview(ctx, call()); err != nil {
				t.Errorf("a preview needs no credential: %v", err)
			}
			must(s.Execute(ctx, call(withTool("wire"), func(r *api.ProviderRequest) { r.Credential = "gate" })))(t)
			if n := len(s.ledger()); n != 2 {
				t.Errorf("%d effects, want 2", n)
			}
		}},
		{"preconditions hold at the effect", func(t *testing.T, s service, _ *manualClock) {
			ctx := t.Context()
			now := must(s.Resolve(ctx, "supplier", "s1"))(t)
			exp := api.Resolved{Path: "/supplier", Kind: "supplier", ID: "s1", Members: now.Members, Version: now.Version}
			must(s.Execute(ctx, call(withKey("k1"), withResolved(exp))))(t)
			rewritten := exp
			rewritten.Members = map[string]json.RawMessage{"name": text(`"\u0042rightwater"`), "account": now.Members["account"], "tags": text(`["x",1.0e2]`)}
			must(s.Execute(ctx, call(withKey("k2"), withResolved(rewritten))))(t)
			for i, edit := range []func(*api.Resolved){
				func(r *api.Resolved) { r.ID = "s2" },
				func(r *api.Resolved) { r.Kind = "list" },
				func(r *api.Resolved) { r.Path = "/amount" },
				func(r *api.Resolved) { r.Path = "supplier" },
				func(r *api.Resolved) { r.Path = "" },
				func(r *api.Resolved) { r.Members = nil },
				func(r *api.Resolved) { r.Members = map[string]json.RawMessage{"account": text(`"A-1"`)} },
			} {
				bad := exp
				edit(&bad)
				_, err := s.Execute(ctx, call(withKey(fmt.Sprint("bad", i)), withResolved(bad)))
				wantCode(t, err, 412, "precondition")
			}
			if err := s.set("supplier", "s1", map[string]json.RawMessage{"account": text(`"A-9"`)}); err != nil {
				t.Fatal(err)
			}
			_, err := s.Execute(ctx, call(withKey("k3"), withResolved(exp)))
			wantCode(t, err, 412, "precondition")
			must(s.Execute(ctx, call(withKey("k3"))))(t) // the refusal is not kept under the key
			// A retry of what was accepted is answered from the key, whatever changed since.
			if res := must(s.Execute(ctx, call(withKey("k1"), withResolved(exp))))(t); !res.Replayed {
				t.Error("the retry was not replayed")
			}
			if n := len(s.ledger()); n != 3 {
				t.Errorf("%d effects, want 3", n)
			}
		}},
		{"idempotency keys", func(t *testing.T, s service, c *manualClock) {
			ctx := t.Context()
			first := must(s.Execute(ctx, call()))(t)
			again := must(s.Execute(ctx, call(withBody(`{ "amount":100.0, "supplier":"s1", "speed":"slow" }`))))(t)
			if !again.Replayed || again.Status != first.Status || string(again.Body) != string(first.Body) {
				t.Errorf("retry %+v, first %+v", again, first)
			}
			_, err := s.Execute(ctx, call(withBody(`{"supplier":"s1","amount":101}`)))
			wantCode(t, err, 409, "key_reuse")
			_, err = s.Execute(ctx, call(func(r *api.ProviderRequest) { r.Audience = "sibling" }))
			wantCode(t, err, 409, "key_reuse")
			c.add(24*time.Hour - time.Nanosecond)
			if !must(s.Execute(ctx, call()))(t).Replayed {
				t.Error("forgotten too early")
			}
			c.add(time.Nanosecond)
			if must(s.Execute(ctx, call()))(t).Replayed {
				t.Error("remembered after 24 hours")
			}
			for range 2 {
				must(s.Execute(ctx, call(withKey(""))))(t)
				must(s.Execute(ctx, call(withTool("wire"))))(t) // keys mean nothing here
			}
			if n := len(s.ledger()); n != 6 {
				t.Errorf("%d effects, want 6", n)
			}
		}},
		{"a failure with status 500 has no effect and is kept with its key", func(t *testing.T, s service, _ *manualClock) {
			ctx := t.Context()
			inject(t, s, FaultError, FaultPass, FaultError)
			first := must(s.Execute(ctx, call()))(t)
			again := must(s.Execute(ctx, call()))(t)
			if first.Status != 500 || first.Replayed || again.Status != 500 || !again.Replayed {
				t.Errorf("first %+v, again %+v", first, again)
			}
			if res, found, err := s.Lookup(ctx, api.LookupQuery{Audience: "bank", Tool: "pay", IdempotencyKey: "k1"}); err != nil || !found || res.Status != 500 {
				t.Errorf("look-up: %+v %v %v", res, found, err)
			}
			if res := must(s.Execute(ctx, call(withTool("wire"))))(t); res.Status != 500 {
				t.Errorf("wire: %+v", res)
			}
			if _, found, err := s.Lookup(ctx, api.LookupQuery{Audience: "bank", Tool: "wire", IdempotencyKey: "k1"}); err != nil || found {
				t.Errorf("look-up of a request that was not accepted: %v %v", found, err)
			}
			if n := len(s.ledger()); n != 0 {
				t.Errorf("%d effects, want 0", n)
			}
		}},
		{"look-ups", func(t *testing.T, s service, c *manualClock) {
			ctx := t.Context()
			for _, name := range []string{"pay", "wire", "fire"} {
				must(s.Execute(ctx, call(withTool(name))))(t)
			}
			c.add(48 * time.Hour) // a forgotten key still finds what was accepted
			for _, q := range []struct {
				q     api.LookupQuery
				found string
			}{
				{api.LookupQuery{Audience: "bank", Tool: "pay", IdempotencyKey: "k1"}, `{"effect":1}`},
				{api.LookupQuery{Audience: "bank", Tool: "pay", RequestID: "r1"}, `{"effect":1}`},
				{api.LookupQuery{Audience: "bank", Tool: "wire", IdempotencyKey: "k1", RequestID: "other"}, `{"effect":2}`},
				{api.LookupQuery{Audience: "bank", Tool: "wire", RequestID: "r2"}, ""},
				{api.LookupQuery{Audience: "sibling", Tool: "pay", IdempotencyKey: "k1"}, ""},
			} {
				res, found, err := s.Lookup(ctx, q.q)
				if err != nil || found != (q.found != "") || string(res.Body) != q.found {
					t.Errorf("%+v: %s %v %v", q.q, res.Body, found, err)
				}
			}
			if _, _, err := s.Lookup(ctx, api.LookupQuery{Audience: "bank", Tool: "fire", IdempotencyKey: "k1"}); !errors.Is(err, api.ErrNoLookup) {
				t.Errorf("fire: %v", err)
			}
			_, _, err := s.Lookup(ctx, api.LookupQuery{Audience: "bank", Tool: "pay"})
			wantCode(t, err, 400, "invalid")
			_, _, err = s.Lookup(ctx, api.LookupQuery{Audience: "bank", Tool: "nope", RequestID: "r1"})
			wantCode(t, err, 404, "unknown_tool")
		}},
		{"faults are used up in order, one a call", func(t *testing.T, s service, _ *manualClock) {
			ctx := t.Context()
			inject(t, s, FaultNotSent, FaultDropRequest, FaultDropResponse, FaultDuplicate)
			for i, want := range []struct {
				err     error
				effects int
			}{{api.ErrNotSent, 0}, {api.ErrNoAnswer, 0}, {api.ErrNoAnswer, 1}, {nil, 3}, {nil, 4}} {
				_, err := s.Execute(ctx, call(withTool("wire"), withKey("")))
				if !errors.Is(err, want.err) || len(s.ledger()) != want.effects {
					t.Errorf("call %d: error %v, %d effects; want %v, %d", i, err, len(s.ledger()), want.err, want.effects)
				}
			}
			inject(t, s, FaultDuplicate)
			if res := must(s.Execute(ctx, call()))(t); !res.Replayed || len(s.ledger()) != 5 {
				t.Errorf("duplicate under a key: %+v, %d effects", res, len(s.ledger()))
			}
			for _, bad := range []Fault{{}, {Kind: "nope"}, {Kind: FaultDelay}, {Kind: FaultDelay, Delay: 2 * MaxDelay}, {Kind: FaultPass, Delay: 1}} {
				if s.inject(Fault{Kind: FaultNotSent}, bad) == nil {
					t.Errorf("%+v was accepted", bad)
				}
			}
			if _, err := s.Execute(ctx, call()); err != nil {
				t.Errorf("a fault of a refused list was queued: %v", err)
			}
		}},
		{"a reference tool changes the directory and is an effect", func(t *testing.T, s service, _ *manualClock) {
			ctx := t.Context()
			must(s.Execute(ctx, call(withTool("edit"), withBody(`{"id":"s1","account":"A-9"}`))))(t)
			got := must(s.Resolve(ctx, "supplier", "s1"))(t)
			want := api.Resolution{Version: 2, Members: map[string]json.RawMessage{"name": text(`"Brightwater"`), "account": text(`"A-9"`), "tags": text(`["x",100]`)}}
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
			l := s.ledger()
			if len(l) != 1 || cmp.Diff(api.Values{"/id": text(`"s1"`), "/account": text(`"A-9"`)}, l[0].Values) != "" {
				t.Errorf("ledger %+v", l)
			}
		}},
		{"records change by outside events", func(t *testing.T, s service, _ *manualClock) {
			ctx := t.Context()
			for _, id := range []string{"s1", "new/id ?"} {
				if err := s.set("supplier", id, map[string]json.RawMessage{"account": text(` "B" `)}); err != nil {
					t.Fatal(err)
				}
				if got := must(s.Resolve(ctx, "supplier", id))(t); string(got.Members["account"]) != `"B"` {
					t.Errorf("%s: %+v", id, got)
				}
			}
			if s.set("list", "l", map[string]json.RawMessage{"a": text(`1`)}) == nil || s.set("supplier", "s1", nil) == nil {
				t.Error("an unknown kind or no member was accepted")
			}
			if _, err := s.Resolve(ctx, "supplier", "s9"); !errors.Is(err, api.ErrNotFound) {
				t.Errorf("unknown id: %v", err)
			}
			if len(s.ledger()) != 0 {
				t.Error("an outside event is no effect")
			}
		}},
		{"reads and previews change nothing", func(t *testing.T, s service, _ *manualClock) {
			ctx := t.Context()
			inject(t, s, FaultNotSent)
			got := must(s.Preview(ctx, call()))(t)
			want := api.Values{
				"/supplier": text(`"s1"`), "/supplier>name": text(`"Brightwater"`), "/supplier>account": text(`"A-1"`),
				"/supplier>tags": text(`["x",100]`), "/amount": text(`100`), "/speed": text(`"slow"`),
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
			must(s.Preview(ctx, call(withTool("edit"), withBody(`{"id":"s1","account":"A-9"}`))))(t)
			if _, err := s.Execute(ctx, call(withTool("look"))); !errors.Is(err, api.ErrNotSent) {
				t.Errorf("the preview took the fault: %v", err)
			}
			if res := must(s.Execute(ctx, call(withTool("look"))))(t); res.Status != 200 {
				t.Errorf("read: %+v", res)
			}
			if n := len(s.ledger()); n != 0 || must(s.Resolve(ctx, "supplier", "s1"))(t).Version != 1 {
				t.Errorf("%d effects, or a record changed", n)
			}
		}},
		{"a call that is cancelled before it starts was not sent", func(t *testing.T, s service, _ *manualClock) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := s.Execute(ctx, call()); !errors.Is(err, api.ErrNotSent) || len(s.ledger()) != 0 {
				t.Errorf("error %v, %d effects", err, len(s.ledger()))
			}
		}},
		{"a clock that fails makes no effect", func(t *testing.T, s service, c *manualClock) {
			c.err = errors.New("no time")
			_, err := s.Execute(t.Context(), call())
			wantCode(t, err, 503, "clock")
			if len(s.ledger()) != 0 {
				t.Error("an effect without a time")
			}
		}},
		{"one key, many workers, one effect", func(t *testing.T, s service, _ *manualClock) {
			var wg sync.WaitGroup
			for range 16 {
				wg.Go(func() {
					if _, err := s.Execute(t.Context(), call()); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if n := len(s.ledger()); n != 1 {
				t.Errorf("%d effects, want 1", n)
			}
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Run("in process", func(t *testing.T) {
				clock := newClock()
				c.run(t, inProcess{newWorld(t, testConfig(clock))}, clock)
			})
			t.Run("over http", func(t *testing.T) {
				clock := newClock()
				srv := httptest.NewServer(Handler(newWorld(t, testConfig(clock))))
				defer srv.Close()
				client, err := NewClient(srv.URL, 0)
				if err != nil {
					t.Fatal(err)
				}
				c.run(t, overHTTP{client, t}, clock)
			})
		})
	}
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func inject(t *testing.T, s service, kinds ...FaultKind) {
	t.Helper()
	for _, k := range kinds {
		if err := s.inject(Fault{Kind: k}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDelayHook(t *testing.T) {
	clock := newClock()
	c := testConfig(clock)
	c.Delay = func(_ context.Context, d time.Duration) { clock.add(d) }
	w := newWorld(t, c)
	if err := w.Inject(Fault{Kind: FaultDelay, Delay: time.Second}); err != nil {
		t.Fatal(err)
	}
	start := clock.now
	must(w.Execute(t.Context(), call()))(t)
	if got := w.Ledger()[0].Time.Sub(start); got != time.Second {
		t.Errorf("the effect came %v late, want 1s", got)
	}
}

// TestCopies: what a World hands out or was given does not alias its state.
func TestCopies(t *testing.T) {
	c := testConfig(newClock())
	w := newWorld(t, c)
	c.Records["supplier"]["s1"]["account"][1] = 'X'
	c.Tools[0].Fields[0].Name = "changed"
	res := must(w.Execute(t.Context(), call()))(t)
	res.Body[2] = 'X'
	if n := len(w.Ledger()); len(w.Since(n-1)) != 1 || w.Since(n - 1)[0].RequestID != w.Ledger()[n-1].RequestID || len(w.Since(n)) != 0 || len(w.Since(n+1)) != 0 {
		t.Errorf("after all but one of %d effects there are %v", n, w.Since(n-1))
	}
	w.Since(0)[0].Values["/amount"][0] = '9'
	w.Ledger()[0].Values["/amount"][0] = '9'
	r, _ := w.Record("supplier", "s1")
	r.Members["account"][1] = 'X'
	if got := w.Ledger()[0].Values; string(got["/amount"]) != "100" || string(got["/supplier>account"]) != `"A-1"` {
		t.Errorf("the ledger was changed: %s", got)
	}
	if got := must(w.Execute(t.Context(), call()))(t); string(got.Body) != `{"effect":1}` {
		t.Errorf("the kept result was changed: %s", got.Body)
	}
	if r, _ := w.Record("supplier", "s1"); string(r.Members["account"]) != `"A-1"` {
		t.Errorf("the record was changed: %s", r.Members["account"])
	}
}

func TestNewRefuses(t *testing.T) {
	if _, err := New(Config{}); err == nil {
		t.Error("the zero configuration was accepted")
	}
	field := func(f api.Field) func(*Config) {
		return func(c *Config) { c.Tools[0].Fields = []api.Field{f} }
	}
	for name, edit := range map[string]func(*Config){
		"no clock":            func(c *Config) { c.Clock = nil },
		"no tools":            func(c *Config) { c.Tools = nil },
		"no reader":           func(c *Config) { c.Reader = "" },
		"negative time":       func(c *Config) { c.PruneAfter = -1 },
		"malformed record":    func(c *Config) { c.Records["supplier"]["s1"]["name"] = text(`{`) },
		"two tools, one name": func(c *Config) { c.Tools = append(c.Tools, c.Tools[0]) },
		"no audience":         func(c *Config) { c.Tools[0].Audience = "" },
		"no guarantee":        func(c *Config) { c.Tools[0].Guarantee = "" },
		"no class":            func(c *Config) { c.Tools[0].Class = "" },
		"changes of a call":   func(c *Config) { c.Tools[0].Changes = "supplier" },
		"changes of nothing":  func(c *Config) { c.Tools[5].Changes = "list" },
		"edit without an id":  func(c *Config) { c.Tools[5].Fields = payFields },
		"field without type":  field(api.Field{Name: "a"}),
		"field with a quote":  field(api.Field{Name: `a"b`, Type: api.TypeString}),
		"unknown kind":        field(api.Field{Name: "a", Type: api.TypeString, Reference: "list"}),
		"reference integer":   field(api.Field{Name: "a", Type: api.TypeInteger, Reference: "supplier"}),
		"default of no type":  field(api.Field{Name: "a", Type: api.TypeInteger, Default: `"1"`}),
		"default null":        field(api.Field{Name: "a", Type: api.TypeInteger, Default: `null`}),
	} {
		c := testConfig(newClock())
		edit(&c)
		if _, err := New(c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
