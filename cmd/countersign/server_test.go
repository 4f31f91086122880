package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"countersign/gateway/api"
	"countersign/gateway/httpapi"
	"countersign/oracles/softkey"
	"countersign/scenarios/provider"
)

// A party are the people and the agent of a small tenant, at one gateway.
type party struct {
	t       *testing.T
	c       *httpapi.Client
	admin   api.Auth
	worker  worker
	person  api.Auth
	passkey *softkey.Key
	calls   int
}

func newParty(t *testing.T, c *httpapi.Client, adminToken string) *party {
	t.Helper()
	p := &party{t: t, c: c, admin: api.Auth{Token: adminToken}, worker: newWorker(t, "the-token-of-agent-a"), person: api.Auth{Token: "the-token-of-approver-p"}}
	for _, one := range []api.Principal{
		{ID: "agent-a", Role: api.RoleAgent, Tenant: "t", ActsFor: "requester-r", Token: p.worker.auth.Token, Key: p.worker.jwk},
		{ID: "requester-r", Role: api.RolePerson, Tenant: "t", Token: "the-token-of-requester-r"},
		{ID: "approver-p", Role: api.RolePerson, Tenant: "t", Approver: true, Token: p.person.Token},
	} {
		must(t, c.Admin(t.Context(), p.admin, api.Event{Kind: api.EventEnrol, Principal: &one}))
	}
	p.passkey = enrol(t, c, p.person)
	return p
}

// action is a payment that nobody has asked for yet.
func (p *party) action() api.Action {
	p.t.Helper()
	sc, err := scenario("payments")
	must(p.t, err)
	p.calls++
	in := sc.Instance(1, p.calls)
	return api.Action{Audience: sc.Audience, Tool: in.Tool, Arguments: in.Arguments, Run: "run-1", Step: "step-1", Call: fmt.Sprint("call-", p.calls)}
}

// approved proposes an action and has it approved.
func (p *party) approved(a api.Action) api.Dispatch {
	p.t.Helper()
	ctx := p.t.Context()
	pending, err := p.c.Propose(ctx, p.worker.auth, a)
	must(p.t, err)
	view, err := p.c.View(ctx, p.person, pending.Suspension)
	must(p.t, err)
	assertion, err := p.passkey.Assert(view.Assertion)
	must(p.t, err)
	must(p.t, p.c.Decide(ctx, p.person, api.Decision{Suspension: pending.Suspension, Verdict: api.Approve, Assertion: assertion}))
	status, err := p.c.Status(ctx, p.worker.auth, pending.Suspension)
	must(p.t, err)
	return api.Dispatch{Action: a, Carried: status.Carried, RequestID: "request-" + a.Call}
}

// prove makes a proof for a dispatch, as the gateway wants it.
func (p *party) prove(d api.Dispatch) api.Auth {
	p.t.Helper()
	about, err := p.c.Describe(p.t.Context())
	must(p.t, err)
	return p.worker.prove(p.t, about.DispatchURI, d.Carried.Permit)
}

func ledger(t *testing.T, at server) []provider.Effect {
	t.Helper()
	c, err := provider.NewClient(at.url, 0)
	must(t, err)
	l, err := c.Ledger(t.Context())
	must(t, err)
	return l
}

// certificate writes a certificate for this machine, or for a client, and its key.
func certificate(t *testing.T, dir, name string, key *ecdsa.PrivateKey, serial int64) (certFile, keyFile string) {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	certFile, keyFile = filepath.Join(dir, name+".pem"), filepath.Join(dir, name+".key")
	must(t, os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	must(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	return certFile, keyFile
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	return key
}

// trusting is a client that believes a certificate, and shows another if there is one.
func trusting(t *testing.T, certFile string, own ...tls.Certificate) *http.Client {
	t.Helper()
	text, err := os.ReadFile(certFile)
	must(t, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: own}, DisableKeepAlives: true}}
}

// spawn starts the command as a process of its own.
func spawn(t *testing.T, args ...string) (server, *os.Process) {
	t.Helper()
	s := server{t: t, out: &lockedBuffer{}}
	cmd := exec.Command("countersign", append(args, "--listen", "127.0.0.1:0")...)
	cmd.Stdout, cmd.Stderr = s.out, s.out
	must(t, cmd.Start())
	ended := make(chan struct{})
	var state *os.ProcessState
	go func() { _ = cmd.Wait(); state = cmd.ProcessState; close(ended) }()
	s.stop = sync.OnceValue(func() int {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
		return state.ExitCode()
	})
	t.Cleanup(func() { s.stop() })
	for range 1000 {
		if m := address.FindStringSubmatch(s.out.String()); m != nil {
			s.url = m[1]
			return s, cmd.Process
		}
		select {
		case <-ended:
			t.Fatalf("%v ended: %s", args, s.out)
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Fatalf("%v does not listen: %s", args, s.out)
	return s, nil
}

// The process itself: over TLS 1.3 and nothing less, an approval from the proposal to
// the ledger; another certificate after SIGHUP; and an end in good order.
func TestProcessServesTLS(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := certificate(t, dir, "server", newKey(t), 1)
	prov := start(t, "provider", "--scenario", "payments")
	gate, process := spawn(t, "gateway", "--scenario", "payments", "--provider", prov.url, "--store", "sqlite:"+filepath.Join(dir, "db"),
		"--tls-cert", certFile, "--tls-key", keyFile, "--log-format", "json")
	if !strings.HasPrefix(gate.url, "https://") {
		t.Fatalf("served on %s", gate.url)
	}
	hc := trusting(t, certFile)
	p := newParty(t, httpapi.NewClient(gate.url, hc), gate.token("administrator"))
	about, err := p.c.Describe(t.Context())
	must(t, err)
	if about.DispatchURI != gate.url+"/v1/dispatch" {
		t.Errorf("proofs are to name %s, it is served on %s", about.DispatchURI, gate.url)
	}
	d := p.approved(p.action())
	for _, want := range []api.Status{api.Executed, api.Absorbed} {
		if out, err := p.c.Dispatch(t.Context(), p.prove(d), d); err != nil || out.Status != want {
			t.Errorf("%+v, %v, want %s", out, err, want)
		}
	}
	// A proof for another address, though a request names that one as its host.
	other := p.approved(p.action())
	req, err := http.NewRequest("POST", gate.url+"/v1/dispatch", nil)
	must(t, err)
	body, err := json.Marshal(map[string]any{"action": other.Action, "carried": other.Carried, "request_id": "q"})
	must(t, err)
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	req.Host = "elsewhere.example"
	proven := p.worker.prove(t, "https://elsewhere.example/v1/dispatch", other.Carried.Permit)
	req.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"DPoP " + proven.Token}, "Dpop": {proven.Proof}}
	resp, err := hc.Do(req)
	must(t, err)
	answer, err := io.ReadAll(resp.Body)
	must(t, err)
	if !strings.Contains(string(answer), "the proof is for another address") {
		t.Errorf("a proof for the host that the request names: %d %s", resp.StatusCode, answer)
	}
	if n := len(ledger(t, prov)); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}

	host := strings.TrimPrefix(gate.url, "https://")
	if c, err := tls.Dial("tcp", host, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}); err == nil {
		c.Close()
		t.Error("TLS 1.2 is spoken")
	}
	if c, err := tls.Dial("tcp", host, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}}); err != nil || c.ConnectionState().NegotiatedProtocol != "http/1.1" {
		t.Errorf("HTTP/2 is spoken, or nothing: %v", err) // its streams are not bounded by the connections
	} else {
		c.Close()
	}
	if resp, err := http.Get("http://" + host + "/healthz"); err == nil && resp.StatusCode == 200 {
		t.Error("plain HTTP is answered on the port of TLS")
	}

	serial := func() int64 {
		c, err := tls.Dial("tcp", host, &tls.Config{InsecureSkipVerify: true})
		must(t, err)
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	certificate(t, dir, "server", newKey(t), 2)
	must(t, process.Signal(syscall.SIGHUP))
	for range 500 {
		if serial() == 2 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	must(t, os.WriteFile(keyFile, []byte("no key"), 0o600))
	must(t, process.Signal(syscall.SIGHUP))
	for range 500 {
		if strings.Contains(gate.out.String(), "the old one is kept") {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if !strings.Contains(gate.out.String(), "the old one is kept") || serial() != 2 {
		t.Errorf("serial %d after a certificate that cannot be read", serial())
	}
	if code := gate.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// With --agent-certificates an agent's token alone is nobody's.
func TestAgentsAreKnownByTheirCertificates(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := certificate(t, dir, "server", newKey(t), 1)
	prov := start(t, "provider", "--scenario", "payments")
	gate := start(t, "gateway", "--scenario", "payments", "--provider", prov.url, "--tls-cert", certFile, "--tls-key", keyFile, "--agent-certificates")
	p := newParty(t, httpapi.NewClient(gate.url, trusting(t, certFile)), gate.token("administrator"))
	with := func(name string, key *ecdsa.PrivateKey) error {
		c, k := certificate(t, dir, name, key, 7)
		own, err := tls.LoadX509KeyPair(c, k)
		must(t, err)
		p.c = httpapi.NewClient(gate.url, trusting(t, certFile, own))
		_, err = p.c.Propose(t.Context(), p.worker.auth, p.action())
		return err
	}
	if _, err := p.c.Propose(t.Context(), p.worker.auth, p.action()); !errors.Is(err, api.ErrUnauthenticated) {
		t.Errorf("without a certificate: %v", err)
	}
	if err := with("agent-a", newKey(t)); !errors.Is(err, api.ErrUnauthenticated) {
		t.Errorf("with another key's, of its own name: %v", err)
	}
	if err := with("whoever", p.worker.key); err != nil {
		t.Errorf("with its own key's: %v", err)
	}
	d := p.approved(p.action()) // the approver's connection proves another's key, and that is no matter
	if out, err := p.c.Dispatch(t.Context(), p.prove(d), d); err != nil || out.Status != api.Executed {
		t.Errorf("%+v, %v", out, err)
	}
}

// roundRobin is a proxy that takes its backends in turn, and says which had a request.
type roundRobin struct {
	mu       sync.Mutex
	backends []*httputil.ReverseProxy
	next     int
	had      []int
}

func (p *roundRobin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	i := p.next % len(p.backends)
	p.next++
	p.had = append(p.had, i)
	p.mu.Unlock()
	p.backends[i].ServeHTTP(w, r)
}

// Two gateways over one store behind one address are one: each step of an approval
// is made at the other instance than the one before, whichever comes first, and what
// one has spent, disabled or seen the other refuses.
func TestInstancesBehindOneAddress(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	proxy := &roundRobin{}
	front := httptest.NewServer(proxy)
	defer front.Close()
	prov := start(t, "provider", "--scenario", "payments")
	t.Setenv(adminEnv, "the-administrators-token")
	t.Setenv(auditorEnv, "the-auditors-own-token")
	var urls []string
	for i := range 2 {
		gate := start(t, "gateway", "--scenario", "payments", "--provider", prov.url, "--store", "sqlite:"+filepath.Join(dir, "db"),
			"--audit", filepath.Join(dir, fmt.Sprint("audit-", i)), "--public-url", front.URL, "--origin", "http://localhost:8800", "--trusted-proxy", "127.0.0.1/32")
		u, err := url.Parse(gate.url)
		must(t, err)
		urls = append(urls, gate.url)
		proxy.backends = append(proxy.backends, &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u); r.SetXForwarded() }})
	}
	p := newParty(t, httpapi.NewClient(front.URL, nil), "the-administrators-token")

	effects := 0
	for round := range 4 {
		if round%2 == 1 { // so that the other instance has the first step
			_, err := p.c.Describe(ctx)
			must(t, err)
		}
		first := proxy.next % 2
		d := p.approved(p.action()) // propose, view, decide, status
		proof := p.prove(d)
		var status []api.Status
		for range 4 { // one proof, twice at each instance
			out, err := p.c.Dispatch(ctx, proof, d)
			must(t, err)
			status = append(status, out.Status)
		}
		effects++
		if want := []api.Status{api.Executed, api.Refused, api.Refused, api.Refused}; !slices.Equal(status, want) {
			t.Errorf("round %d: %v, want %v", round, status, want)
		}
		had := proxy.had[len(proxy.had)-9:]
		for i, backend := range had {
			if backend != (first+i)%2 {
				t.Fatalf("the requests of a round went to %v", had)
			}
		}
		if n := len(ledger(t, prov)); n != effects {
			t.Errorf("round %d: %d effects, want %d", round, n, effects)
		}
	}

	// Eight workers at once, at both.
	d := p.approved(p.action())
	var executed atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		proof := p.prove(d)
		wg.Go(func() {
			if out, err := p.c.Dispatch(ctx, proof, d); err == nil && out.Status == api.Executed {
				executed.Add(1)
			}
		})
	}
	wg.Wait()
	effects++
	if n := len(ledger(t, prov)); executed.Load() != 1 || n != effects {
		t.Errorf("%d of eight are executed, %d effects, want 1 and %d", executed.Load(), n, effects)
	}

	// What one instance is told, the other acts upon.
	late := p.approved(p.action())
	at := func(i int) *httpapi.Client { return httpapi.NewClient(urls[i], nil) }
	must(t, at(0).Admin(ctx, p.admin, api.Event{Kind: api.EventDisableAgent, Subject: "agent-a"}))
	out, err := at(1).Dispatch(ctx, p.prove(late), late)
	if err != nil || out.Status != api.Refused || !slices.ContainsFunc(out.Refusals, func(r api.Refusal) bool { return r.Binding == api.BindOnline }) {
		t.Errorf("an agent that was disabled at the other instance: %+v, %v", out, err)
	}
	if n := len(ledger(t, prov)); n != effects {
		t.Errorf("%d effects, want %d", n, effects)
	}
}

// A call in progress when the gateway is told to stop is answered, and what came of
// it is on record.
func TestStoppingWaitsForADispatch(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	prov := start(t, "provider", "--scenario", "payments")
	args := []string{"gateway", "--scenario", "payments", "--provider", prov.url, "--store", "sqlite:" + filepath.Join(dir, "db"), "--origin", "http://localhost:8800", "--public-url", "http://localhost:8800"}
	gate := start(t, args...)
	p := newParty(t, httpapi.NewClient(gate.url, nil), gate.token("administrator"))
	d := p.approved(p.action())
	proof := p.prove(d)
	faults, err := json.Marshal([]provider.Fault{{Kind: provider.FaultDelay, Delay: 1500 * time.Millisecond}})
	must(t, err)
	resp, err := http.Post(prov.url+"/v1/faults", "application/json", bytes.NewReader(faults))
	must(t, err)
	resp.Body.Close()
	type result struct {
		out api.Outcome
		err error
	}
	answered := make(chan result, 1)
	go func() {
		out, err := p.c.Dispatch(ctx, proof, d)
		answered <- result{out, err}
	}()
	log := filepath.Join(dir, "db.audit.jsonl")
	lines := func() string { text, _ := os.ReadFile(log); return string(text) }
	for range 1000 {
		if strings.Contains(lines(), `"event":"dispatch"`) {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if strings.Contains(lines(), `"event":"outcome"`) {
		t.Fatal("the call is over already")
	}
	if code := gate.stop(); code != 0 {
		t.Errorf("exit code %d: %s", code, gate.out)
	}
	if r := <-answered; r.err != nil || r.out.Status != api.Executed {
		t.Errorf("%+v, %v", r.out, r.err)
	}
	if !strings.Contains(lines(), `"event":"outcome"`) {
		t.Errorf("the log does not say what became of it: %s", lines())
	}
	gate = start(t, args...)
	p.c = httpapi.NewClient(gate.url, nil)
	if out, err := p.c.Dispatch(ctx, p.prove(d), d); err != nil || out.Status != api.Absorbed || len(out.Result) == 0 {
		t.Errorf("afterwards: %+v, %v", out, err)
	}
	if n := len(ledger(t, prov)); n != 1 {
		t.Errorf("%d effects", n)
	}
}

// The metrics of a served gateway are at an address of their own; neither they nor
// the log have anything that a caller sent.
func TestServedMetricsAndLog(t *testing.T) {
	const mark = "Zq7marked"
	ctx := t.Context()
	prov := start(t, "provider", "--scenario", "payments")
	gate := start(t, "gateway", "--scenario", "payments", "--provider", prov.url, "--log-format", "json", "--metrics-listen", "127.0.0.1:0")
	p := newParty(t, httpapi.NewClient(gate.url, nil), gate.token("administrator"))
	a := p.action()
	a.Run, a.Step, a.Call = mark, mark, mark
	d := p.approved(a)
	d.RequestID = mark
	if out, err := p.c.Dispatch(ctx, p.prove(d), d); err != nil || out.Status != api.Executed {
		t.Fatalf("%+v, %v", out, err)
	}
	altered := d
	altered.Action.Arguments = bytes.ReplaceAll(a.Arguments, []byte(`"`), []byte(`"`+mark))
	_, _ = p.c.Dispatch(ctx, p.prove(d), altered)
	_, _ = p.c.View(ctx, api.Auth{Token: mark + "-token-of-nobody"}, mark)
	_, _ = p.c.View(ctx, p.person, mark)
	if p.c.Admin(ctx, p.admin, api.Event{Kind: mark, Subject: mark, Value: mark}) == nil {
		t.Error("an event that is none is taken")
	}
	resp, err := http.Get(gate.url + "/metrics")
	must(t, err)
	resp.Body.Close()
	if resp.StatusCode != 404 {
		t.Errorf("the metrics are at the address of the calls too: %d", resp.StatusCode)
	}
	_, at, _ := strings.Cut(gate.out.String(), "metrics, without access control, on ")
	at, _, _ = strings.Cut(at, "\n")
	resp, err = http.Get(at)
	must(t, err)
	text, err := io.ReadAll(resp.Body)
	must(t, err)
	resp.Body.Close()
	for _, want := range []string{
		`countersign_dispatches_total{outcome="executed"} 1`, `countersign_decisions_total{result="recorded",verdict="approve"} 1`,
		`countersign_request_seconds_count{operation="dispatch"} 2`, "countersign_pending 0", "go_goroutines",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the metrics lack %s:\n%s", want, text)
		}
	}
	if strings.Contains(string(text), mark) || strings.Contains(gate.out.String(), mark) {
		t.Errorf("what a caller sent is in the metrics or the log:\n%s\n%s", text, gate.out)
	}
	if !strings.Contains(gate.out.String(), `"operation":"dispatch","status":200`) {
		t.Errorf("the log lacks the dispatch: %s", gate.out)
	}
}

// The rates are those that were asked for.
func TestServedRates(t *testing.T) {
	prov := start(t, "provider", "--scenario", "payments")
	for _, tt := range []struct {
		args             []string
		known, strangers bool // limited
	}{
		{nil, false, false},
		{[]string{"--rate", "0.5"}, true, false},
		{[]string{"--stranger-rate", "0.5"}, false, true},
		{[]string{"--rate", "0", "--stranger-rate", "0"}, false, false},
	} {
		gate := start(t, append([]string{"gateway", "--mode", "M1", "--scenario", "payments", "--provider", prov.url, "--log-format", "none"}, tt.args...)...)
		c := httpapi.NewClient(gate.url, nil)
		limited := func(token string) bool {
			var err error
			for range 5 {
				if _, err = c.Audit(t.Context(), api.Auth{Token: token}, 0); errors.Is(err, api.ErrRateLimited) {
					_, after := httpapi.RetryAfter(err)
					return after
				}
			}
			return false
		}
		if known := limited(gate.token("auditor")); known != tt.known {
			t.Errorf("%v: a principal is limited: %v", tt.args, known)
		}
		if strangers := limited("nobody-has-this-token"); strangers != tt.strangers {
			t.Errorf("%v: strangers are limited: %v", tt.args, strangers)
		}
		gate.stop()
		prov.stop()
		prov = start(t, "provider", "--scenario", "payments")
	}
}

func TestServerFlags(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := certificate(t, dir, "server", newKey(t), 1)
	_, otherKey := certificate(t, dir, "other", newKey(t), 1)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--tls-cert", certFile}, "go together"},
		{[]string{"--tls-key", keyFile}, "go together"},
		{[]string{"--tls-cert", certFile, "--tls-key", otherKey}, "private key does not match"},
		{[]string{"--tls-cert", filepath.Join(dir, "nowhere"), "--tls-key", keyFile}, "no such file"},
		{[]string{"--agent-certificates"}, "without TLS"},
		{[]string{"--listen", "0.0.0.0:0"}, "without TLS tokens would travel in the clear"},
		{[]string{"--listen", "0.0.0.0:0", "--tls-cert", certFile, "--tls-key", keyFile}, "names no address"},
		{[]string{"--metrics-listen", "0.0.0.0:0"}, "metrics have no access control"},
		{[]string{"--public-url", "approvals.example"}, "want https://HOST"},
		{[]string{"--public-url", "https://approvals.example/?x"}, "want https://HOST"},
		{[]string{"--public-url", "https://user@approvals.example"}, "want https://HOST"},
		{[]string{"--public-url", "http://approvals.example"}, "in the clear"},
		{[]string{"--rate", "-1"}, "--rate is -1"},
		{[]string{"--rate", "NaN"}, "--rate is NaN"},
		{[]string{"--stranger-rate", "1e9"}, "--stranger-rate is 1e+09"},
		{[]string{"--trusted-proxy", "10.0.0.1"}, "no network"},
		{[]string{"--log-format", "xml"}, "want text, json or none"},
	} {
		code, _, stderr := command(t, t.Context(), append([]string{"gateway", "--scenario", "payments", "--provider", "http://127.0.0.1:1", "--listen", "127.0.0.1:0"}, tt.args...)...)
		if code != 2 || !strings.Contains(stderr, tt.want) {
			t.Errorf("%v: exit code %d: %s", tt.args, code, stderr)
		}
	}
}

// A gateway that has what it needs is ready. What it says otherwise, gateway/httpapi tests.
func TestServedReadiness(t *testing.T) {
	dir := t.TempDir()
	prov := start(t, "provider", "--scenario", "payments")
	gate := start(t, "gateway", "--scenario", "payments", "--provider", prov.url, "--store", "sqlite:"+filepath.Join(dir, "db"))
	get := func(path string) string {
		resp, err := http.Get(gate.url + path)
		must(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		must(t, err)
		return fmt.Sprint(resp.StatusCode, " ", string(text))
	}
	if got := get("/readyz"); got != `200 {"status":"ok"}` {
		t.Errorf("%s", got)
	}
	if got := get("/healthz"); got != `200 {"status":"ok"}` {
		t.Errorf("%s", got)
	}
}
