package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"countersign/gateway"
	"countersign/gateway/api"
	"countersign/gateway/httpapi"
	"countersign/gateway/metrics"
)

// countEvery is how often what waits for a decision is counted for the metrics.
const countEvery = 15 * time.Second

// serverOptions are the flags of a server's address and of how it answers there.
type serverOptions struct {
	listen, metricsListen string
	insecure              bool
	certFile, keyFile     string
	agentCertificates     bool
	publicURL             string
	rate, strangerRate    float64
	proxies               []string
	logFormat             string
}

func (o *serverOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.listen, "listen", "127.0.0.1:8800", "address to listen on")
	f.BoolVar(&o.insecure, "insecure-listen", false, "serve plain HTTP on an address that others can reach, and metrics too")
	f.StringVar(&o.certFile, "tls-cert", "", "PEM file with the server's certificate chain: serve TLS 1.3 (read again on SIGHUP)")
	f.StringVar(&o.keyFile, "tls-key", "", "PEM file with the certificate's private key")
	f.BoolVar(&o.agentCertificates, "agent-certificates", false, "an agent enrolled with a key is known only over TLS with a client certificate of this key, beside its token")
	f.StringVar(&o.publicURL, "public-url", "", "address at which callers reach the gateway, which DPoP proofs have to name (default: the address listened on)")
	f.Float64Var(&o.rate, "rate", 100, "requests a second of one principal, and twice as many at once; 0 for no limit")
	f.Float64Var(&o.strangerRate, "stranger-rate", 20, "requests a second from one address by callers who are not known, and twice as many at once; 0 for no limit")
	f.StringSliceVar(&o.proxies, "trusted-proxy", nil, "network (CIDR) whose X-Forwarded-For says where a request comes from; may be repeated")
	f.StringVar(&o.metricsListen, "metrics-listen", "", "address for GET /metrics, without access control (default: none is served)")
	f.StringVar(&o.logFormat, "log-format", "text", "one line a request on standard error: text, json or none")
}

// A gateServer is a gateway's address, open but not served yet.
type gateServer struct {
	serverOptions
	l, metricsL net.Listener
	tls         *tls.Config
	certificate *atomic.Pointer[tls.Certificate]
	public      string // URL without a slash at its end
	trusted     []netip.Prefix
	log         *slog.Logger
}

// open checks the flags and opens the ports. Close the server when it is not served.
func (o serverOptions) open(stderr io.Writer) (*gateServer, error) {
	s := &gateServer{serverOptions: o, certificate: &atomic.Pointer[tls.Certificate]{}}
	var err error
	if s.log, err = newLog(o.logFormat, stderr); err != nil {
		return nil, err
	}
	for name, r := range map[string]float64{"rate": o.rate, "stranger-rate": o.strangerRate} {
		if !(r == 0 || r >= 0.001 && r <= 1e6) {
			return nil, fmt.Errorf("--%s is %v, want requests a second from 0.001 to 1000000, or 0 for no limit", name, r)
		}
	}
	for _, text := range o.proxies {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, hint(fmt.Errorf("--trusted-proxy %q is no network", text), "write it as 10.0.0.0/8, and one address as 10.1.2.3/32")
		}
		s.trusted = append(s.trusted, p)
	}
	switch {
	case (o.certFile == "") != (o.keyFile == ""):
		return nil, errors.New("--tls-cert and --tls-key go together: give both or neither")
	case o.agentCertificates && o.certFile == "":
		return nil, hint(errors.New("--agent-certificates without TLS: there is no connection that could prove a key"), "give --tls-cert and --tls-key")
	case o.certFile != "":
		if err := s.loadCertificate(); err != nil {
			return nil, err
		}
		s.tls = &tls.Config{
			MinVersion:     tls.VersionTLS13,
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.certificate.Load(), nil },
		}
		if o.agentCertificates {
			// Whoever has issued the certificate: the handshake proves its key, and the
			// key is what is enrolled.
			s.tls.ClientAuth = tls.RequestClientCert
		}
	}
	if s.l, err = listener("listen", o.listen, o.insecure || s.tls != nil, "without TLS tokens would travel in the clear"); err != nil {
		return nil, err
	}
	if s.public, err = s.publicAddress(); err == nil && o.metricsListen != "" {
		s.metricsL, err = listener("metrics-listen", o.metricsListen, o.insecure, "metrics have no access control")
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *gateServer) close() { // closed by then, unless something failed
	_ = s.l.Close()
	if s.metricsL != nil {
		_ = s.metricsL.Close()
	}
}

func (s *gateServer) loadCertificate() error {
	c, err := tls.LoadX509KeyPair(s.certFile, s.keyFile)
	if err != nil {
		return fmt.Errorf("reading the certificate of --tls-cert and its --tls-key: %w", err)
	}
	s.certificate.Store(&c)
	return nil
}

// address is that of the listener, as a URL.
func (s *gateServer) address() string {
	scheme := "http"
	if s.tls != nil {
		scheme = "https"
	}
	return scheme + "://" + s.l.Addr().String()
}

// publicAddress is the URL by which callers know this gateway. It is never taken from
// a request, whose Host header is the caller's word (RFC 9449, section 4.3, wants the
// proof's htu to be the address of the request).
func (s *gateServer) publicAddress() (string, error) {
	if s.publicURL == "" {
		if s.l.Addr().(*net.TCPAddr).IP.IsUnspecified() {
			return "", hint(fmt.Errorf("--listen %q names no address that proofs could name", s.listen), "say --public-url https://HOST")
		}
		return s.address(), nil
	}
	u, err := url.Parse(s.publicURL)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http" {
		return "", fmt.Errorf("--public-url %q: want https://HOST, with a port or a path if there is one", s.publicURL)
	}
	if ip := net.ParseIP(u.Hostname()); u.Scheme == "http" && u.Hostname() != "localhost" && !ip.IsLoopback() && !s.insecure {
		return "", hint(fmt.Errorf("--public-url %q: tokens would travel in the clear", s.publicURL), "use https, or say --insecure-listen if the network is yours alone")
	}
	return strings.TrimRight(s.publicURL, "/"), nil
}

func (s *gateServer) dispatchURI() string { return s.public + "/v1/dispatch" }

// serve answers for a gateway until the context ends.
func (s *gateServer) serve(ctx context.Context, g *gateway.Gateway, clock api.Clock) error {
	counted := metrics.New(clock)
	handler, err := httpapi.Config{
		Target: g, Clock: clock, Principals: rateOf(s.rate), Strangers: rateOf(s.strangerRate), Proxies: s.trusted, Log: s.log, Observe: counted.Observe,
	}.Handler()
	if err != nil {
		return err
	}
	hup := make(chan os.Signal, 1)
	if s.tls != nil { // otherwise it ends the process, as ever
		signal.Notify(hup, syscall.SIGHUP)
		defer signal.Stop(hup)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return httpapi.Server{Handler: handler, TLS: s.tls, Log: s.log}.Serve(ctx, s.l) })
	if s.metricsL != nil {
		group.Go(func() error { return httpapi.Server{Handler: counted.Handler(), Log: s.log}.Serve(ctx, s.metricsL) })
	}
	group.Go(func() error {
		s.tend(ctx, hup, counted, g)
		return nil
	})
	return group.Wait()
}

// tend does what is due from time to time.
func (s *gateServer) tend(ctx context.Context, hup <-chan os.Signal, counted *metrics.Metrics, g *gateway.Gateway) {
	tick := time.NewTicker(countEvery)
	defer tick.Stop()
	count := func() {
		if s.metricsL == nil {
			return // nobody asks
		}
		within, cancel := context.WithTimeout(ctx, countEvery)
		defer cancel()
		if err := counted.Count(within, g); err != nil && ctx.Err() == nil {
			s.log.Warn("what waits for a decision cannot be counted")
		}
	}
	count()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			count()
		case <-hup:
			if err := s.loadCertificate(); err != nil {
				s.log.Error("the certificate is not read again, and the old one is kept", "error", err)
			} else {
				s.log.Info("the certificate is read again")
			}
		}
	}
}

func rateOf(perSecond float64) httpapi.Rate {
	if perSecond == 0 {
		return httpapi.Rate{}
	}
	return httpapi.Rate{PerSecond: perSecond, Burst: max(1, int(2*perSecond))}
}

func newLog(format string, w io.Writer) (*slog.Logger, error) {
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, nil)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, nil)), nil
	case "none":
		return slog.New(slog.DiscardHandler), nil
	}
	return nil, fmt.Errorf("--log-format is %q, want text, json or none", format)
}
