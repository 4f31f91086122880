package httpapi

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"countersign/gateway/api"
)

// door is a target that knows tokens.
type door struct {
	fake
	err error
	// everybody: every token is somebody's
	everybody bool
	asked     atomic.Int64
}

func (d *door) Admit(_ context.Context, auth api.Auth) (api.Principal, error) {
	d.asked.Add(1)
	if auth.Token != "tok" && !d.everybody {
		return api.Principal{}, api.ErrUnauthenticated
	}
	return api.Principal{ID: digest([]byte(auth.Token))}, d.err
}

// Of a caller that the target does not know, or of whom it cannot tell, not one
// byte is read.
func TestStrangersBodiesAreNotRead(t *testing.T) {
	for i := range routes {
		r := &routes[i]
		if r.method != "POST" {
			continue
		}
		for _, tt := range []struct {
			token  string
			err    error
			status int
		}{
			{"nobody", nil, http.StatusUnauthorized},
			{"tok", api.ErrUnavailable, http.StatusServiceUnavailable},
			{"tok", errors.New("x"), http.StatusInternalServerError},
		} {
			for _, length := range []int64{MaxBody, -1} {
				z, target := &zeros{}, &door{err: tt.err}
				req := r.request(t)
				req.Header.Set("Authorization", "Bearer "+tt.token)
				req.Body, req.ContentLength = io.NopCloser(io.LimitReader(z, MaxBody)), length
				w := serveOne(NewHandler(target), req)
				if w.Code != tt.status || z.read.Load() != 0 || target.calls != 0 {
					t.Errorf("%s, token %s, %v: status %d, %d bytes were read, %d calls", r.operation, tt.token, tt.err, w.Code, z.read.Load(), target.calls)
				}
			}
		}
		target := &door{fake: fake{answer: sample[r.operation].out}}
		if w := serveOne(NewHandler(target), r.request(t)); w.Code >= 300 || target.calls != 1 || target.asked.Load() != 1 {
			t.Errorf("%s, a known caller: %d %s", r.operation, w.Code, w.Body)
		}
	}
}

// What is booked is booked until it is let go, and then nothing is kept of a
// caller: anyone can make up tokens.
func TestIntakeKeepsNoCallers(t *testing.T) {
	in := &intake{of: map[string]int64{}}
	free, ok := in.reserve("tok", maxPerCaller-1)
	other, also := in.reserve("tok", 1)
	if !ok || !also {
		t.Fatal("there is no room in an empty intake")
	}
	other()
	if _, ok := in.reserve("tok", 2); ok {
		t.Error("a caller has more than its part")
	}
	if _, ok := in.reserve("tok", -1); ok {
		t.Error("less than nothing was booked")
	}
	if free(); len(in.of) != 0 || in.total != 0 {
		t.Errorf("%v is kept, %d bytes", in.of, in.total)
	}
}

// half is a body that says when it is being read and ends in an error when it is
// let go.
type half struct {
	reading chan<- struct{}
	letGo   <-chan struct{}
}

func (h half) Read([]byte) (int, error) {
	h.reading <- struct{}{}
	<-h.letGo
	return 0, io.ErrUnexpectedEOF
}

// However many bodies are half sent, only so many bytes are set aside for them,
// and so many of one caller's; the others are told at once. What was set aside is
// free again afterwards.
func TestBodiesInFlightAreBounded(t *testing.T) {
	const n = 3 * maxInFlight / MaxBody
	for _, tt := range []struct {
		name   string
		token  func(i int) string
		length int64
		want   int
	}{
		{"one caller", func(int) string { return "tok" }, MaxBody, maxPerCaller / MaxBody},
		{"one caller, length unknown", func(int) string { return "tok" }, -1, maxPerCaller / MaxBody},
		{"many callers", func(i int) string { return "tok" + strconv.Itoa(i) }, MaxBody, maxInFlight / MaxBody},
		{"many callers with less each", func(i int) string { return "tok" + strconv.Itoa(i) }, MaxBody / 2, 2 * maxInFlight / MaxBody},
	} {
		t.Run(tt.name, func(t *testing.T) {
			handler := NewHandler(&fake{})
			reading, answered, letGo := make(chan struct{}), make(chan int), make(chan struct{})
			var wg sync.WaitGroup
			for i := range n {
				req := routeOf(t, "dispatch").request(t)
				req.Header.Set("Authorization", "Bearer "+tt.token(i))
				req.Body, req.ContentLength = io.NopCloser(half{reading, letGo}), tt.length
				wg.Go(func() { answered <- serveOne(handler, req).Code })
			}
			held := 0
			for range n {
				select {
				case <-reading:
					held++
				case status := <-answered:
					if status != http.StatusServiceUnavailable {
						t.Errorf("status %d", status)
					}
				}
			}
			if held != tt.want {
				t.Errorf("%d of %d bodies were read at a time, want %d", held, n, tt.want)
			}
			close(letGo)
			for range held {
				if status := <-answered; status != http.StatusBadRequest {
					t.Errorf("a body that ends early: status %d", status)
				}
			}
			wg.Wait()
			for i := range n { // one after the other there is room for all
				req := routeOf(t, "dispatch").request(t)
				req.Header.Set("Authorization", "Bearer "+tt.token(i))
				if w := serveOne(handler, req); w.Code != 200 {
					t.Fatalf("afterwards: %d %s", w.Code, w.Body)
				}
			}
		})
	}
}

// gauge counts the connections that are open.
type gauge struct {
	net.Listener
	mu        sync.Mutex
	open, max int
	full      chan struct{} // closed when as many are open as may be
}

func (g *gauge) Accept() (net.Conn, error) {
	c, err := g.Listener.Accept()
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open++; g.open > g.max {
		if g.max = g.open; g.max == maxConnections {
			close(g.full)
		}
	}
	return &counted{Conn: c, g: g}, nil
}

type counted struct {
	net.Conn
	g    *gauge
	once sync.Once
}

func (c *counted) Close() error {
	c.once.Do(func() { c.g.mu.Lock(); c.g.open--; c.g.mu.Unlock() })
	return c.Conn.Close()
}

func TestConnectionsAreBounded(t *testing.T) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &gauge{Listener: tcp, full: make(chan struct{})}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, l, NewHandler(&fake{})) }()
	var conns []net.Conn
	for range maxConnections + 20 {
		c, err := net.Dial("tcp", tcp.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		conns = append(conns, c)
	}
	<-l.full
	// Each that ends makes room for one that waits, so all are answered.
	for _, c := range conns {
		if _, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(c); err != nil || len(text) == 0 {
			t.Fatalf("%q, %v", text, err)
		}
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if l.max != maxConnections {
		t.Errorf("%d connections were open at a time, want %d", l.max, maxConnections)
	}
}
