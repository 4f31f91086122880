package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"sync"
	"testing"
	"time"

	"countersign/gateway/api"
)

// stopped is a clock at which no time passes.
type stopped struct{}

func (stopped) Now() (time.Time, error) { return time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC), nil }

// handClock is moved by hand, and may be missing.
type handClock struct {
	mu      sync.Mutex
	passed  time.Duration
	missing bool
}

func (c *handClock) Now() (time.Time, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.missing {
		return time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), errors.New("no clock")
	}
	now, err := stopped{}.Now()
	return now.Add(c.passed), err
}

func (c *handClock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.passed += d
}

func handlerOf(t testing.TB, c Config) http.Handler {
	t.Helper()
	h, err := c.Handler()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// A principal has its own rate, at whatever address, and at every route that asks
// who calls; beyond it nothing reaches the target, and the answer says when to come
// again.
func TestRateOfAPrincipal(t *testing.T) {
	for i := range routes {
		r := &routes[i]
		if r.open {
			continue
		}
		t.Run(r.operation, func(t *testing.T) {
			clock := &handClock{}
			target := &door{fake: fake{answer: sample[r.operation].out}, everybody: true}
			h := handlerOf(t, Config{Target: target, Clock: clock, Principals: Rate{PerSecond: 0.5, Burst: 3}})
			n := 0
			ask := func(token string) *httptest.ResponseRecorder {
				n++
				req := r.request(t)
				req.RemoteAddr = fmt.Sprintf("192.0.2.%d:%d", n, n)
				req.Header.Set("Authorization", "Bearer "+token)
				return serveOne(h, req)
			}
			for range 3 {
				if w := ask("tok"); w.Code >= 300 {
					t.Fatalf("%d %s", w.Code, w.Body)
				}
			}
			if w := ask("tok"); w.Code != http.StatusTooManyRequests || code(t, w) != "rate_limited" || w.Header().Get("Retry-After") != "2" || target.calls != 3 {
				t.Errorf("%d %s, Retry-After %q, %d calls", w.Code, w.Body, w.Header().Get("Retry-After"), target.calls)
			}
			if w := ask("other"); w.Code >= 300 {
				t.Errorf("another principal: %d", w.Code)
			}
			clock.add(2 * time.Second)
			if w := ask("tok"); w.Code >= 300 {
				t.Errorf("later: %d", w.Code)
			}
			if w := ask("tok"); w.Code != http.StatusTooManyRequests {
				t.Errorf("one more: %d", w.Code)
			}
		})
	}
}

// Who is not known is counted by address, and once that is used up, nobody at this
// address is looked up, while known callers elsewhere are answered.
func TestRateOfStrangers(t *testing.T) {
	clock := &handClock{}
	target := &door{fake: fake{answer: sample["propose"].out}}
	h := handlerOf(t, Config{Target: target, Clock: clock, Strangers: Rate{PerSecond: 1, Burst: 4}})
	ask := func(address string, change func(*http.Request)) int {
		req := routeOf(t, "propose").request(t)
		req.RemoteAddr = address + ":4000"
		if change != nil {
			change(req)
		}
		return serveOne(h, req).Code
	}
	for range 20 { // one who is known takes nothing from its address
		if got := ask("192.0.2.1", nil); got != 200 {
			t.Fatalf("a known caller: %d", got)
		}
	}
	for i, s := range []struct {
		change func(*http.Request)
		want   int
	}{
		{func(r *http.Request) { r.Header.Set("Authorization", "Bearer nobody") }, 401},
		{func(r *http.Request) { r.Header.Del("Authorization") }, 401},
		{func(r *http.Request) { r.URL.Path = "/nowhere" }, 404},
		{func(r *http.Request) { r.Method = "PUT" }, 405},
		{func(r *http.Request) { r.Header.Set("Authorization", "Bearer nobody") }, 429},
		{func(r *http.Request) { r.URL.Path = "/nowhere" }, 429},
		{nil, 429}, // a known caller at this address has to wait too
	} {
		if got := ask("192.0.2.1", s.change); got != s.want {
			t.Errorf("request %d: %d, want %d", i, got, s.want)
		}
	}
	asked := target.asked.Load()
	if got := ask("192.0.2.1", nil); got != 429 || target.asked.Load() != asked {
		t.Errorf("%d, and the target was asked %d times", got, target.asked.Load()-asked)
	}
	if got := ask("192.0.2.2", nil); got != 200 {
		t.Errorf("another address: %d", got)
	}
	clock.add(time.Second)
	if got := ask("192.0.2.1", nil); got != 200 {
		t.Errorf("later: %d", got)
	}
	req := routeOf(t, "health").request(t)
	for range 10 {
		if w := serveOne(h, req); w.Code != 200 {
			t.Errorf("liveness: %d", w.Code)
		}
	}
}

// Without a clock nothing is refilled, and what comes with the error is no time.
func TestRatesWithoutAClock(t *testing.T) {
	clock := &handClock{}
	h := handlerOf(t, Config{Target: &door{fake: fake{answer: sample["propose"].out}}, Clock: clock, Principals: Rate{PerSecond: 1000, Burst: 2}})
	ask := func() int { return serveOne(h, routeOf(t, "propose").request(t)).Code }
	if got := ask(); got != 200 {
		t.Fatal(got)
	}
	clock.missing = true
	if one, two := ask(), ask(); one != 200 || two != 429 {
		t.Errorf("%d, %d", one, two)
	}
}

// However many callers there are, so many are remembered.
func TestRatesAreBounded(t *testing.T) {
	l := newLimiter(Rate{PerSecond: 1, Burst: 1}, stopped{})
	for i := range 2 * maxLimited {
		l.take(strconv.Itoa(i))
	}
	if n := l.of.Len(); n != maxLimited {
		t.Errorf("%d callers are remembered", n)
	}
	if _, ok := l.take(strconv.Itoa(2*maxLimited - 1)); ok {
		t.Error("the newest caller is forgotten")
	}
}

func TestRemote(t *testing.T) {
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	for _, tt := range []struct{ from, forwarded, want string }{
		{"192.0.2.1:80", "", "192.0.2.1"},
		{"192.0.2.1:80", "198.51.100.1", "192.0.2.1"}, // says so itself
		{"10.0.0.1:80", "198.51.100.1", "198.51.100.1"},
		{"10.0.0.1:80", "203.0.113.9, 198.51.100.1", "198.51.100.1"}, // the left one is the caller's word
		{"10.0.0.1:80", "198.51.100.1, 10.0.0.2", "198.51.100.1"},
		{"10.0.0.1:80", "", "10.0.0.1"},
		{"10.0.0.1:80", "nonsense", "10.0.0.1"},
		{"10.0.0.1:80", "198.51.100.1, nonsense", "10.0.0.1"},
		{"[::1]:80", "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"},
		{"[::ffff:192.0.2.1]:80", "", "192.0.2.1"},
		{"[fe80::1%eth0]:80", "", "fe80::/64"},
		{"@", "", "unknown"},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = tt.from
		if tt.forwarded != "" {
			r.Header.Set("X-Forwarded-For", tt.forwarded)
		}
		if got := remote(r, proxies); got != tt.want {
			t.Errorf("from %s, forwarded for %q: %q, want %q", tt.from, tt.forwarded, got, tt.want)
		}
	}
}

// The client knows a limit for what it is, and for how long.
func TestClientKnowsLimits(t *testing.T) {
	server := httptest.NewServer(handlerOf(t, Config{Target: &fake{answer: sample["describe"].out}, Clock: stopped{}, Strangers: Rate{PerSecond: 0.1, Burst: 1}}))
	defer server.Close()
	c := NewClient(server.URL, nil)
	if _, err := c.Describe(context.Background()); err != nil {
		t.Fatal(err)
	}
	_, err := c.Describe(context.Background())
	if after, ok := RetryAfter(err); !errors.Is(err, api.ErrRateLimited) || !ok || after != 10*time.Second {
		t.Errorf("%v, after %v", err, after)
	}
	if _, ok := RetryAfter(api.ErrRateLimited); ok {
		t.Error("a wait that nobody asked for")
	}
}

func TestConfigIsChecked(t *testing.T) {
	good := Config{Target: &fake{}, Clock: stopped{}, Principals: Rate{1, 1}, Strangers: Rate{1, 1}}
	handlerOf(t, good)
	for name, change := range map[string]func(*Config){
		"no target":      func(c *Config) { c.Target = nil },
		"no clock":       func(c *Config) { c.Clock = nil },
		"no burst":       func(c *Config) { c.Principals.Burst = 0 },
		"negative rate":  func(c *Config) { c.Strangers.PerSecond = -1 },
		"rate of no end": func(c *Config) { c.Principals.PerSecond = inf },
	} {
		c := good
		change(&c)
		if _, err := c.Handler(); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

var inf = func() float64 { f, _ := strconv.ParseFloat("Inf", 64); return f }()
