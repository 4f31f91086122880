package httpapi

import "sync"

const (
	// maxInFlight bounds the bodies of all requests in progress, in bytes.
	maxInFlight = 64 << 20
	// maxPerCaller is one caller's part of it, so that none keeps out the others.
	maxPerCaller = 16 << 20
	// maxConnections bounds the connections that are served at a time; headers
	// are read before anybody is known.
	maxConnections = 256
)

// An intake counts what the bodies of requests in progress may take.
type intake struct {
	mu    sync.Mutex
	total int64
	of    map[string]int64 // by token
}

// reserve books n bytes for a caller, or says that there is no room now.
func (i *intake) reserve(token string, n int64) (free func(), ok bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if n < 0 || i.total+n > maxInFlight || i.of[token]+n > maxPerCaller {
		return nil, false
	}
	i.total += n
	i.of[token] += n
	return func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.total -= n
		if i.of[token] -= n; i.of[token] == 0 {
			delete(i.of, token)
		}
	}, true
}
