package metrics

import (
	"context"
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"countersign/gateway/api"
	"countersign/gateway/httpapi"
)

type clock struct{ err error }

var now = time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)

func (c clock) Now() (time.Time, error) { return now, c.err }

type waiter struct {
	n      int
	oldest time.Time
	err    error
}

func (w waiter) Waiting(context.Context) (int, time.Time, error) { return w.n, w.oldest, w.err }

// read returns the series of this package, by name and labels.
func read(t *testing.T, m *Metrics) map[string]string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	text, err := io.ReadAll(w.Body)
	if err != nil || w.Code != 200 {
		t.Fatal(w.Code, err)
	}
	out := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && strings.HasPrefix(name, "countersign_") {
			out[name] = value
		}
	}
	return out
}

func TestObserve(t *testing.T) {
	m := New(clock{})
	m.Observe(httpapi.Observed{Operation: "propose", Status: 200, Latency: 3 * time.Millisecond})
	m.Observe(httpapi.Observed{Operation: "dispatch", Status: 200, Principal: "a", Results: []httpapi.Result{
		{Status: api.Executed}, {Status: api.Refused, Refused: []api.Binding{api.BindArgs, api.BindRecord}}, {Status: api.Refused, Refused: []api.Binding{api.BindArgs}},
	}})
	m.Observe(httpapi.Observed{Operation: "dispatch", Status: 503, Principal: "a"})
	m.Observe(httpapi.Observed{Operation: "dispatch", Status: 401}) // nobody's call
	m.Observe(httpapi.Observed{Operation: "decide", Status: 204, Verdict: api.Approve})
	m.Observe(httpapi.Observed{Operation: "decide", Status: 403, Verdict: api.Approve, Refused: []api.Binding{api.BindAttest}})
	m.Observe(httpapi.Observed{Operation: "decide", Status: 409, Verdict: api.Decline})
	m.Observe(httpapi.Observed{Operation: "audit", Status: 429, Limited: "principal"})
	got := read(t, m)
	for name, want := range map[string]string{
		`countersign_requests_total{operation="propose",status="200"}`:        "1",
		`countersign_request_seconds_count{operation="propose"}`:              "1",
		`countersign_request_seconds_bucket{operation="propose",le="0.0025"}`: "0",
		`countersign_request_seconds_bucket{operation="propose",le="0.005"}`:  "1",
		`countersign_dispatches_total{outcome="executed"}`:                    "1",
		`countersign_dispatches_total{outcome="refused"}`:                     "2",
		`countersign_dispatches_total{outcome="failed"}`:                      "1",
		`countersign_refusals_total{binding="args",operation="dispatch"}`:     "2",
		`countersign_refusals_total{binding="record",operation="dispatch"}`:   "1",
		`countersign_refusals_total{binding="attest",operation="decide"}`:     "1",
		`countersign_decisions_total{result="recorded",verdict="approve"}`:    "1",
		`countersign_decisions_total{result="refused",verdict="approve"}`:     "1",
		`countersign_decisions_total{result="failed",verdict="decline"}`:      "1",
		`countersign_rate_limited_total{by="principal"}`:                      "1",
		`countersign_requests_total{operation="audit",status="429"}`:          "1",
		`countersign_pending`:                "NaN",
		`countersign_oldest_pending_seconds`: "NaN",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	if _, there := got[`countersign_request_seconds_count{operation="dispatch"}`]; there {
		t.Error("a latency that is not known is counted")
	}
}

// What is no value of the contract's sets becomes one, however many of it there are.
func TestSeriesAreBounded(t *testing.T) {
	m := New(clock{})
	fill := func() int {
		for i := range 1000 {
			x := strings.Repeat("x", i)
			m.Observe(httpapi.Observed{Operation: "x" + x, Status: 200, Verdict: api.Verdict("x" + x), Limited: "x" + x, Principal: x, Suspension: x,
				Refused: []api.Binding{api.Binding("x" + x)}, Results: []httpapi.Result{{Status: api.Status("x" + x)}}, Latency: 1})
		}
		return len(read(t, m))
	}
	first := fill()
	if second := fill(); first != second || first > 40 {
		t.Errorf("%d series, then %d", first, second)
	}
	for name := range read(t, m) {
		if strings.Contains(name, "xx") {
			t.Errorf("%s: a label has a value from outside", name)
		}
	}
}

func TestCount(t *testing.T) {
	m := New(clock{})
	for _, tt := range []struct {
		w            waiter
		pending, age string
	}{
		{waiter{2, now.Add(-90 * time.Second), nil}, "2", "90"},
		{waiter{}, "0", "0"},
		{waiter{1, now.Add(time.Minute), nil}, "1", "0"}, // another instance's clock is ahead
		{waiter{3, now, errors.New("the store is down")}, "NaN", "NaN"},
	} {
		if err := m.Count(context.Background(), tt.w); !errors.Is(err, tt.w.err) {
			t.Error(err)
		}
		got := read(t, m)
		if got["countersign_pending"] != tt.pending || got["countersign_oldest_pending_seconds"] != tt.age {
			t.Errorf("%+v: %s waiting for %s s", tt.w, got["countersign_pending"], got["countersign_oldest_pending_seconds"])
		}
	}
	m.clock = clock{errors.New("no clock")}
	if err := m.Count(context.Background(), waiter{2, now, nil}); err != nil {
		t.Error(err)
	}
	if got := read(t, m); got["countersign_pending"] != "2" || got["countersign_oldest_pending_seconds"] != "NaN" {
		t.Errorf("without a clock: %v", got)
	}
}

func TestHandlerAnswersToOneAddress(t *testing.T) {
	for path, want := range map[string]int{"/metrics": 200, "/": 404, "/metrics/x": 404, "/debug/pprof/": 404} {
		w := httptest.NewRecorder()
		New(clock{}).Handler().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if w.Code != want {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	w := httptest.NewRecorder()
	New(clock{}).Handler().ServeHTTP(w, httptest.NewRequest("POST", "/metrics", nil))
	if w.Code != 405 {
		t.Errorf("POST: %d", w.Code)
	}
}
