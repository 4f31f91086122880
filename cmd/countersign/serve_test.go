package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"countersign/gateway/api"
	"countersign/gateway/httpapi"
	"countersign/oracles/softkey"
	"countersign/scenarios/provider"
)

// A server is a command that serves, running in this process.
type server struct {
	t    *testing.T
	url  string
	out  *lockedBuffer
	stop func() int
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

var address = regexp.MustCompile(`on (https?://127\.0\.0\.1:\d+)\n`)

// start runs a command until it says where it listens.
func start(t *testing.T, args ...string) server {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s := server{t: t, out: &lockedBuffer{}}
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, append(args, "--listen", "127.0.0.1:0"), strings.NewReader(""), s.out, s.out)
	}()
	s.stop = sync.OnceValue(func() int { cancel(); return <-code })
	t.Cleanup(func() { s.stop() })
	for range 1000 {
		if m := address.FindStringSubmatch(s.out.String()); m != nil {
			s.url = m[1]
			return s
		}
		select {
		case c := <-code:
			code <- c
			t.Fatalf("%v ended with %d: %s", args, c, s.out)
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Fatalf("%v does not listen: %s", args, s.out)
	return s
}

func (s server) token(who string) string {
	s.t.Helper()
	m := regexp.MustCompile(`token of the ` + who + ` \(shown once\): (\S+)\n`).FindStringSubmatch(s.out.String())
	if m == nil {
		s.t.Fatalf("no token of the %s is shown: %s", who, s.out)
	}
	return m[1]
}

// A worker is an agent's process with its token and key.
type worker struct {
	auth   api.Auth
	jwk    []byte
	key    *ecdsa.PrivateKey
	signer jose.Signer
}

func newWorker(t *testing.T, token string) worker {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	public := jose.JSONWebKey{Key: &key.PublicKey, Algorithm: string(jose.ES256), Use: "sig"}
	jwk, err := public.MarshalJSON()
	must(t, err)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, (&jose.SignerOptions{EmbedJWK: true}).WithType("dpop+jwt"))
	must(t, err)
	return worker{api.Auth{Token: token}, jwk, key, signer}
}

// prove makes a DPoP proof (RFC 9449, section 4.2).
func (w worker) prove(t *testing.T, uri, permit string) api.Auth {
	t.Helper()
	id := make([]byte, 16)
	_, _ = rand.Read(id)
	hash := sha256.Sum256([]byte(permit))
	claims, err := json.Marshal(map[string]any{
		"jti": base64.RawURLEncoding.EncodeToString(id), "htm": "POST", "htu": uri, "iat": time.Now().Unix(),
		"ath": base64.RawURLEncoding.EncodeToString(hash[:]),
	})
	must(t, err)
	j, err := w.signer.Sign(claims)
	must(t, err)
	proof, err := j.CompactSerialize()
	must(t, err)
	return api.Auth{Token: w.auth.Token, Proof: proof}
}

// enrol gives a person a passkey for the gateway's origin.
func enrol(t *testing.T, c *httpapi.Client, person api.Auth) *softkey.Key {
	t.Helper()
	about, err := c.Describe(t.Context())
	must(t, err)
	passkey := softkey.New(about.Origin)
	options, err := c.BeginEnrolment(t.Context(), person)
	must(t, err)
	registration, err := passkey.Register(options)
	must(t, err)
	must(t, c.FinishEnrolment(t.Context(), person, registration))
	return passkey
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// One payment over HTTP, from the proposal to the ledger, with a passkey and a
// proof of possession. Neither a second presentation nor one after a restart of
// the gateway makes a second effect, and a permit that was approved before the
// restart is good after it.
func TestServedGatewayExecutesOnce(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	prov := start(t, "provider", "--scenario", "payments")
	args := []string{"gateway", "--mode", "M9", "--scenario", "payments", "--provider", prov.url,
		"--store", "sqlite:" + filepath.Join(dir, "approvals.db"), "--origin", "http://localhost:8800"}
	gate := start(t, args...)
	c := httpapi.NewClient(gate.url, nil)
	world, err := provider.NewClient(prov.url, 0)
	must(t, err)

	admin, w := api.Auth{Token: gate.token("administrator")}, newWorker(t, "the-token-of-agent-a")
	person := api.Auth{Token: "the-token-of-approver-p"}
	for _, p := range []api.Principal{
		{ID: "agent-a", Role: api.RoleAgent, Tenant: "t", ActsFor: "requester-r", Token: w.auth.Token, Key: w.jwk},
		{ID: "requester-r", Role: api.RolePerson, Tenant: "t", Token: "the-token-of-requester-r"},
		{ID: "approver-p", Role: api.RolePerson, Tenant: "t", Approver: true, Token: person.Token},
	} {
		must(t, c.Admin(ctx, admin, api.Event{Kind: api.EventEnrol, Principal: &p}))
	}
	about, err := c.Describe(ctx)
	must(t, err)
	passkey := enrol(t, c, person)

	sc, err := scenario("payments")
	must(t, err)
	// ask proposes the n-th payment and has it approved.
	ask := func(n int) api.Dispatch {
		t.Helper()
		in := sc.Instance(1, n)
		action := api.Action{Audience: sc.Audience, Tool: in.Tool, Arguments: in.Arguments, Run: "run-1", Step: "step-1", Call: "call-" + string(rune('a'+n))}
		pending, err := c.Propose(ctx, w.auth, action)
		must(t, err)
		view, err := c.View(ctx, person, pending.Suspension)
		must(t, err)
		assertion, err := passkey.Assert(view.Assertion)
		must(t, err)
		must(t, c.Decide(ctx, person, api.Decision{Suspension: pending.Suspension, Verdict: api.Approve, Assertion: assertion}))
		status, err := c.Status(ctx, w.auth, pending.Suspension)
		must(t, err)
		return api.Dispatch{Action: action, Carried: status.Carried, RequestID: "request-" + action.Call}
	}
	present := func(d api.Dispatch) api.Outcome {
		t.Helper()
		uri := strings.ReplaceAll(about.DispatchURI, "{audience}", d.Action.Audience)
		out, err := c.Dispatch(ctx, w.prove(t, uri, d.Carried.Permit), d)
		must(t, err)
		return out
	}
	effects := func(want int) {
		t.Helper()
		ledger, err := world.Ledger(ctx)
		must(t, err)
		if len(ledger) != want {
			t.Fatalf("%d effects in the ledger, want %d", len(ledger), want)
		}
	}

	first, second := ask(0), ask(1)
	if out := present(first); out.Status != api.Executed {
		t.Fatalf("the approved payment: %+v", out)
	}
	effects(1)
	if out := present(first); out.Status != api.Absorbed {
		t.Errorf("the same message again: %+v", out)
	}
	effects(1)
	altered := second
	altered.Action.Arguments = sc.Instance(1, 2).Arguments
	if out := present(altered); out.Status == api.Executed {
		t.Errorf("arguments that nobody approved: %+v", out)
	}
	effects(1)

	if code := gate.stop(); code != 0 {
		t.Fatalf("the gateway stopped with %d: %s", code, gate.out)
	}
	gate = start(t, args...)
	if strings.Contains(gate.out.String(), "shown once") {
		t.Errorf("a store that has its operators was given others: %s", gate.out)
	}
	c = httpapi.NewClient(gate.url, nil)
	about, err = c.Describe(ctx) // at another port now, which proofs name
	must(t, err)
	if out := present(first); out.Status != api.Absorbed {
		t.Errorf("the spent message after a restart: %+v", out)
	}
	effects(1)
	if out := present(second); out.Status != api.Executed {
		t.Errorf("the payment approved before the restart: %+v", out)
	}
	effects(2)

	// What was tried is in the log, which is in use, and the ledger has nothing more.
	ledger, err := world.Ledger(ctx)
	must(t, err)
	text, err := json.Marshal(ledger)
	must(t, err)
	file := filepath.Join(dir, "ledger.json")
	must(t, os.WriteFile(file, text, 0o600))
	code, out, stderr := command(t, ctx, "audit", "alerts", filepath.Join(dir, "approvals.db.audit.jsonl"), "--ledger", file, "--json")
	var found alerts
	must(t, json.Unmarshal([]byte(out), &found))
	var names []api.Alert
	for _, a := range found.Log {
		names = append(names, a.Alert)
	}
	if want := []api.Alert{api.AlertSpent, api.AlertHash, api.AlertSpent}; code != 1 || !slices.Equal(names, want) || len(found.Effects) != 0 {
		t.Errorf("exit code %d, %s: alerts %v and %v, want %v and none", code, stderr, names, found.Effects, want)
	}
	if code := gate.stop(); code != 0 {
		t.Errorf("the gateway stopped with %d: %s", code, gate.out)
	}
	if code := prov.stop(); code != 0 {
		t.Errorf("the provider stopped with %d: %s", code, prov.out)
	}

	// All of it is signed, and the values are beside it and not in it.
	log := filepath.Join(dir, "approvals.db.audit.jsonl")
	key := regexp.MustCompile(`verifier key (\S+)\n`).FindStringSubmatch(gate.out.String())[1]
	code, out, stderr = command(t, ctx, "audit", "verify", log, "--key", key)
	if lines, err := os.ReadFile(log); err != nil || code != 0 || !strings.Contains(out, fmt.Sprintf("covered: %d, by checkpoint", bytes.Count(lines, []byte("\n")))) {
		t.Errorf("exit code %d: %s%s, %v", code, out, stderr, err)
	}
	code, out, stderr = command(t, ctx, "audit", "show", log, "s-000001", "--json")
	var shown []shownEntry
	must(t, json.Unmarshal([]byte(out), &shown))
	if code != 0 || len(shown) != 2 || len(shown[0].Values) != 3 {
		t.Errorf("exit code %d: %s%s: nothing is shown", code, out, stderr)
	}
	for _, file := range []string{log + ".key", valuesOf(log), log} {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, %v", file, info.Mode(), err)
		}
	}
}

// A served gateway shows a secret as its fingerprint, and never the secret.
func TestServedViewHidesSecrets(t *testing.T) {
	ctx := t.Context()
	prov := start(t, "provider", "--scenario", "secrets")
	gate := start(t, "gateway", "--scenario", "secrets", "--provider", prov.url)
	c, w := httpapi.NewClient(gate.url, nil), newWorker(t, "the-token-of-agent-a")
	admin, person := api.Auth{Token: gate.token("administrator")}, api.Auth{Token: "the-token-of-approver-p"}
	for _, p := range []api.Principal{
		{ID: "agent-a", Role: api.RoleAgent, Tenant: "t", ActsFor: "requester-r", Token: w.auth.Token, Key: w.jwk},
		{ID: "requester-r", Role: api.RolePerson, Tenant: "t", Token: "the-token-of-requester-r"},
		{ID: "approver-p", Role: api.RolePerson, Tenant: "t", Approver: true, Token: person.Token},
	} {
		must(t, c.Admin(ctx, admin, api.Event{Kind: api.EventEnrol, Principal: &p}))
	}
	enrol(t, c, person)
	sc, err := scenario("secrets")
	must(t, err)
	in := sc.Instance(1, 0)
	pending, err := c.Propose(ctx, w.auth, api.Action{Audience: sc.Audience, Tool: in.Tool, Arguments: in.Arguments, Run: "r", Step: "s", Call: "c"})
	must(t, err)
	view, err := c.View(ctx, person, pending.Suspension)
	must(t, err)
	text, err := json.Marshal(view)
	must(t, err)
	if !strings.Contains(string(text), "⟨secret ") || strings.Contains(string(text), "K7PM") {
		t.Errorf("the view shows %s", text)
	}
}

// A gateway without a durable store forgets, so nothing approved before may be
// good afterwards: its keys are fresh, and the provider that it claimed refuses
// its successor.
func TestMemoryGatewayDoesNotComeBack(t *testing.T) {
	prov := start(t, "provider", "--scenario", "payments")
	args := []string{"gateway", "--scenario", "payments", "--provider", prov.url}
	gate := start(t, args...)
	if !strings.Contains(gate.out.String(), "warning: --store memory") {
		t.Errorf("no warning: %s", gate.out)
	}
	if code := gate.stop(); code != 0 {
		t.Fatalf("stopped with %d", code)
	}
	code, _, stderr := command(t, t.Context(), append(args, "--listen", "127.0.0.1:0")...)
	if code != 2 || !strings.Contains(stderr, "another gateway claimed this provider") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// The operators' tokens belong to the store: others are refused at the start, not
// at the first use.
func TestOperatorTokens(t *testing.T) {
	dir := t.TempDir()
	prov := start(t, "provider", "--scenario", "payments")
	args := []string{"gateway", "--mode", "M8", "--scenario", "payments", "--provider", prov.url, "--store", "sqlite:" + filepath.Join(dir, "db")}
	t.Setenv(adminEnv, "the-administrators-token")
	file := filepath.Join(dir, "auditor")
	must(t, os.WriteFile(file, []byte("the-auditors-own-token\n"), 0o600))
	gate := start(t, append(args, "--auditor-token-file", file)...)
	if strings.Contains(gate.out.String(), "shown once") || strings.Contains(gate.out.String(), "token") {
		t.Errorf("tokens that were given are shown: %s", gate.out)
	}
	if _, err := httpapi.NewClient(gate.url, nil).Audit(t.Context(), api.Auth{Token: "the-auditors-own-token"}, 0); err != nil {
		t.Errorf("the auditor's token: %v", err)
	}
	gate.stop()
	for value, want := range map[string]string{
		"another-administrators-token": "not the one that this store was made with",
		"short":                        "no usable token",
		"the-auditors-own-token":       "the same token",
	} {
		t.Setenv(adminEnv, value)
		code, _, stderr := command(t, t.Context(), append(args, "--listen", "127.0.0.1:0", "--auditor-token-file", file)...)
		if code != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit code %d: %s", value, code, stderr)
		}
	}
}

func TestKeyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	made, err := loadKeys(issuer, path)
	must(t, err)
	info, err := os.Stat(path)
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the key file has mode %04o", info.Mode().Perm())
	}
	again, err := loadKeys(issuer, path)
	must(t, err)
	other, err := loadKeys(issuer, "")
	must(t, err)
	if again.credential != made.credential || other.credential == made.credential {
		t.Error("the provider credential is not kept, or is the same for everybody")
	}
	shown := func(k gatewayKeys) string { return api.SecretText(k.secrets, "hunter2") }
	if shown(again) != shown(made) || shown(other) == shown(made) {
		t.Error("the key for the fingerprints of secrets is not kept, or is the same for everybody")
	}
	must(t, os.Chmod(path, 0o644))
	if _, err := loadKeys(issuer, path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a key file that others may read: %v", err)
	}
	must(t, os.Chmod(path, 0o600))
	whole, err := os.ReadFile(path)
	must(t, err)
	for name, text := range map[string]string{
		"empty": "", "no JSON": "keys", "no keys": `{"keys":[]}`, "cut": string(whole[:len(whole)/2]),
		"a public key": strings.Replace(string(whole), `"d":`, `"x-d":`, 1),
		"one missing":  strings.Replace(string(whole), `"kid": "secrets"`, `"kid": "other"`, 1),
		"twice":        strings.Replace(string(whole), `"kid": "mac"`, `"kid": "permits"`, 1),
	} {
		must(t, os.WriteFile(path, []byte(text), 0o600))
		if _, err := loadKeys(issuer, path); err == nil {
			t.Errorf("%s: taken for keys", name)
		}
	}
}

// Of gateways that start together, all use the keys that one of them made.
func TestKeyFileRace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	var wg sync.WaitGroup
	got := make([]string, 8)
	for i := range got {
		wg.Go(func() {
			if k, err := loadKeys(issuer, path); err == nil {
				got[i] = k.credential
			}
		})
	}
	wg.Wait()
	for _, c := range got {
		if c == "" || c != got[0] {
			t.Fatal("gateways that started together have different keys, or none")
		}
	}
}

func TestListenerIsLoopback(t *testing.T) {
	for address, ok := range map[string]bool{
		"127.0.0.1:0": true, "[::1]:0": true, "localhost:0": true,
		":0": false, "0.0.0.0:0": false, "[::]:0": false, "192.0.2.1:0": false, "127.0.0.1": false, "nonsense": false,
	} {
		l, err := listener("listen", address, false, "no TLS")
		if err == nil {
			l.Close()
		} else if ok && address == "[::1]:0" && !strings.Contains(err.Error(), "loopback") {
			continue // a machine without IPv6
		}
		if (err == nil) != ok {
			t.Errorf("%s: %v", address, err)
		}
	}
}
