package httpapi

import (
	"math"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"

	"countersign/gateway/api"
)

// maxLimited is for how many callers a limiter keeps count. The one that was quiet
// for longest is forgotten, and starts anew.
const maxLimited = 16384

// A Rate is how many calls are answered. The zero value is no limit.
type Rate struct {
	PerSecond float64
	Burst     int // at once, after a quiet time; 1 or more
}

// A limiter counts the calls of each caller. nil limits nothing.
type limiter struct {
	rate  Rate
	clock api.Clock

	mu     sync.Mutex
	of     *simplelru.LRU[string, *rate.Limiter]
	latest time.Time
}

func newLimiter(r Rate, clock api.Clock) *limiter {
	if r == (Rate{}) {
		return nil
	}
	of, err := simplelru.NewLRU[string, *rate.Limiter](maxLimited, nil)
	if err != nil { // for a size below one only
		panic(err)
	}
	return &limiter{rate: r, clock: clock, of: of}
}

// find returns a caller's bucket and the time. Where the time is not known it stands
// still: nothing is refilled, so that nobody gains by it.
func (l *limiter) find(caller string) (*rate.Limiter, time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now, err := l.clock.Now(); err == nil && now.After(l.latest) {
		l.latest = now
	}
	bucket, ok := l.of.Get(caller)
	if !ok {
		bucket = rate.NewLimiter(rate.Limit(l.rate.PerSecond), l.rate.Burst)
		l.of.Add(caller, bucket)
	}
	return bucket, l.latest
}

// allows says whether a call of the caller would be answered now, and counts none.
func (l *limiter) allows(caller string) (wait time.Duration, ok bool) {
	if l == nil {
		return 0, true
	}
	bucket, now := l.find(caller)
	return l.wait(bucket, now)
}

// take counts one call, or says how long there is to wait.
func (l *limiter) take(caller string) (wait time.Duration, ok bool) {
	if l == nil {
		return 0, true
	}
	bucket, now := l.find(caller)
	if bucket.AllowN(now, 1) {
		return 0, true
	}
	return l.wait(bucket, now)
}

func (l *limiter) wait(bucket *rate.Limiter, now time.Time) (time.Duration, bool) {
	missing := 1 - bucket.TokensAt(now)
	if missing <= 0 {
		return 0, true
	}
	return time.Duration(missing / l.rate.PerSecond * float64(time.Second)), false
}

// seconds is a wait as Retry-After has it (RFC 9110, section 10.2.3): whole, and
// never too short.
func seconds(wait time.Duration) int64 { return max(1, int64(math.Ceil(wait.Seconds()))) }

// remote is the address that a request comes from: of the connection or, where that
// is a proxy which is trusted to say so, the nearest one that is none. Of IPv6 it is
// the network of 64 bits, of which one caller has all addresses.
func remote(r *http.Request, proxies []netip.Prefix) string {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return "unknown"
	}
	trusted := func(a netip.Addr) bool {
		for _, p := range proxies {
			if p.Contains(a) {
				return true
			}
		}
		return false
	}
	a := at.Addr().Unmap()
	via := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(via) - 1; i >= 0 && trusted(a); i-- {
		before, err := netip.ParseAddr(strings.TrimSpace(via[i]))
		if err != nil {
			break
		}
		a = before.Unmap()
	}
	a = a.WithZone("")
	if a.Is6() {
		if network, err := a.Prefix(64); err == nil {
			return network.String()
		}
	}
	return a.String()
}
