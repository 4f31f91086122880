// Package metrics counts what a gateway answers, in the text format of Prometheus.
//
// No label has a value that a caller chooses: operations, statuses, outcomes,
// verdicts and bindings are sets of the contract, and whatever is none of them is
// "other". So the number of time series is bounded, and none of them says what was
// asked for. There is no access control here: the address that serves this is for
// the operator's network alone.
package metrics

import (
	"context"
	"math"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"countersign/gateway/api"
	"countersign/gateway/httpapi"
)

const other = "other"

// A Waiter can tell what waits for a decision: how many suspensions, and since when
// the oldest of them.
type Waiter interface {
	Waiting(ctx context.Context) (n int, oldest time.Time, err error)
}

// Metrics are those of one process.
type Metrics struct {
	registry   *prometheus.Registry
	operations map[string]bool
	clock      api.Clock

	requests   *prometheus.CounterVec
	seconds    *prometheus.HistogramVec
	limited    *prometheus.CounterVec
	dispatches *prometheus.CounterVec
	refusals   *prometheus.CounterVec
	decisions  *prometheus.CounterVec

	mu     sync.Mutex
	known  bool
	n      int
	oldest time.Time
}

// New returns metrics at zero. The clock is the gateway's.
func New(clock api.Clock) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), operations: map[string]bool{"none": true}, clock: clock}
	for _, o := range httpapi.Operations() {
		m.operations[o] = true
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "countersign_" + name, Help: help}, labels)
	}
	gauge := func(name, help string, f func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "countersign_" + name, Help: help}, f)
	}
	m.requests = counter("requests_total", "HTTP requests answered.", "operation", "status")
	m.seconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "countersign_request_seconds", Help: "Time from a request's headers to its answer. Of the operation dispatch it has the decision and the provider's answer in it.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
	}, []string{"operation"})
	m.limited = counter("rate_limited_total", "Requests answered with 429, by whose rate was exceeded.", "by")
	m.dispatches = counter("dispatches_total", "Calls presented for execution, by what became of them; failed: the request was answered with an error.", "outcome")
	m.refusals = counter("refusals_total", "Bindings that refused or held a call. One call may be refused by several.", "operation", "binding")
	m.decisions = counter("decisions_total", "Decisions posted, by verdict and by what became of them.", "verdict", "result")
	m.registry.MustRegister(m.requests, m.seconds, m.limited, m.dispatches, m.refusals, m.decisions,
		gauge("pending", "Suspensions that wait for a decision, of all gateways that share the store; NaN while that is not known.", func() float64 {
			n, _ := m.waiting()
			return n
		}),
		gauge("oldest_pending_seconds", "For how long the oldest of them has waited; NaN while that is not known.", func() float64 {
			_, age := m.waiting()
			return age
		}),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

// Observe counts one request.
func (m *Metrics) Observe(o httpapi.Observed) {
	operation := o.Operation
	if !m.operations[operation] {
		operation = other
	}
	m.requests.WithLabelValues(operation, strconv.Itoa(o.Status)).Inc()
	if o.Latency > 0 {
		m.seconds.WithLabelValues(operation).Observe(o.Latency.Seconds())
	}
	if o.Limited != "" {
		m.limited.WithLabelValues(one(o.Limited, "principal", "address")).Inc()
	}
	refused := o.Refused
	for _, r := range o.Results {
		m.dispatches.WithLabelValues(one(string(r.Status), string(api.Executed), string(api.Refused), string(api.Held), string(api.Reasked), string(api.Absorbed))).Inc()
		refused = append(slices.Clone(refused), r.Refused...)
	}
	if o.Operation == "dispatch" && len(o.Results) == 0 && o.Principal != "" {
		m.dispatches.WithLabelValues("failed").Inc()
	}
	for _, b := range refused {
		binding := other
		if slices.Contains(api.Bindings(), b) {
			binding = string(b)
		}
		m.refusals.WithLabelValues(operation, binding).Inc()
	}
	if o.Verdict != "" {
		result := "failed"
		switch {
		case o.Status < 300:
			result = "recorded"
		case len(o.Refused) > 0:
			result = "refused"
		}
		m.decisions.WithLabelValues(one(string(o.Verdict), string(api.Approve), string(api.Decline)), result).Inc()
	}
}

// one is a value of a set, or "other".
func one(value string, of ...string) string {
	if slices.Contains(of, value) {
		return value
	}
	return other
}

// Count asks for what waits, so that reading the metrics asks for nothing. It is
// called from time to time.
func (m *Metrics) Count(ctx context.Context, w Waiter) error {
	n, oldest, err := w.Waiting(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known, m.n, m.oldest = err == nil, n, oldest
	return err
}

func (m *Metrics) waiting() (n, seconds float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, err := m.clock.Now()
	switch {
	case !m.known:
		return math.NaN(), math.NaN()
	case m.n == 0:
		return 0, 0
	case err != nil:
		return float64(m.n), math.NaN()
	}
	return float64(m.n), max(0, now.Sub(m.oldest).Seconds())
}

// Handler answers GET /metrics and nothing else.
func (m *Metrics) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	return mux
}
