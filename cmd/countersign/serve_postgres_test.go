package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"countersign/gateway/api"
	"countersign/gateway/httpapi"
	"countersign/gateway/store/pgtest"
	"countersign/scenarios/provider"
)

// Two gateways over one PostgreSQL behave as one: what is proposed at either can be
// decided and presented at the other, and eight presentations at both at once make
// one effect.
func TestGatewaysShareAStore(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	address := pgtest.Database(t)
	prov := start(t, "provider", "--scenario", "payments")
	args := []string{"gateway", "--mode", "M9", "--scenario", "payments", "--provider", prov.url, "--origin", "http://localhost:8800", "--store", address}
	gateway := func(n int) server {
		return start(t, append(args, "--keys", filepath.Join(dir, "keys"), "--audit", filepath.Join(dir, fmt.Sprint(n, ".jsonl")))...)
	}
	gates := []server{gateway(0)}
	admin := api.Auth{Token: gates[0].token("administrator")}
	gates = append(gates, gateway(1))
	if strings.Contains(gates[1].out.String(), "shown once") {
		t.Errorf("a store that has its operators was given others: %s", gates[1].out)
	}
	clients := []*httpapi.Client{httpapi.NewClient(gates[0].url, nil), httpapi.NewClient(gates[1].url, nil)}
	world, err := provider.NewClient(prov.url, 0)
	must(t, err)
	w, person := newWorker(t, "the-token-of-agent-a"), api.Auth{Token: "the-token-of-approver-p"}
	for i, p := range []api.Principal{
		{ID: "agent-a", Role: api.RoleAgent, Tenant: "t", ActsFor: "requester-r", Token: w.auth.Token, Key: w.jwk},
		{ID: "requester-r", Role: api.RolePerson, Tenant: "t", Token: "the-token-of-requester-r"},
		{ID: "approver-p", Role: api.RolePerson, Tenant: "t", Approver: true, Token: person.Token},
	} {
		must(t, clients[i%2].Admin(ctx, admin, api.Event{Kind: api.EventEnrol, Principal: &p}))
	}
	passkey := enrol(t, clients[1], person)
	about, err := clients[0].Describe(ctx)
	must(t, err)
	sc, err := scenario("payments")
	must(t, err)
	for n := range 4 {
		in := sc.Instance(1, n)
		here, there := clients[n%2], clients[(n+1)%2]
		action := api.Action{Audience: sc.Audience, Tool: in.Tool, Arguments: in.Arguments, Run: "run", Step: "step", Call: fmt.Sprint("call-", n)}
		pending, err := here.Propose(ctx, w.auth, action)
		must(t, err)
		view, err := there.View(ctx, person, pending.Suspension)
		must(t, err)
		assertion, err := passkey.Assert(view.Assertion)
		must(t, err)
		must(t, there.Decide(ctx, person, api.Decision{Suspension: pending.Suspension, Verdict: api.Approve, Assertion: assertion}))
		status, err := here.Status(ctx, w.auth, pending.Suspension)
		must(t, err)
		executed := make(chan api.Status, 8)
		var all sync.WaitGroup
		for i := range cap(executed) {
			d := api.Dispatch{Action: action, Carried: status.Carried, RequestID: fmt.Sprint("request-", n, "-", i)}
			proof := w.prove(t, strings.ReplaceAll(about.DispatchURI, "{audience}", action.Audience), d.Carried.Permit)
			all.Go(func() {
				out, err := clients[i%2].Dispatch(ctx, proof, d)
				if err != nil {
					t.Error(err)
				}
				executed <- out.Status
			})
		}
		all.Wait()
		close(executed)
		count := 0
		for s := range executed {
			if s == api.Executed {
				count++
			}
		}
		ledger, err := world.Ledger(ctx)
		must(t, err)
		if count != 1 || len(ledger) != n+1 {
			t.Errorf("payment %d: %d executed, and %d effects so far, want 1 and %d", n, count, len(ledger), n+1)
		}
	}

	// A gateway that joins without the keys does not make its own.
	for _, g := range gates {
		if code := g.stop(); code != 0 {
			t.Errorf("stopped with %d: %s", code, g.out)
		}
	}
	other := filepath.Join(dir, "other-keys")
	code, _, stderr := command(t, ctx, append(args, "--listen", "127.0.0.1:0", "--keys", other, "--audit", filepath.Join(dir, "2.jsonl"))...)
	if code != 2 || !strings.Contains(stderr, "copy the key file") {
		t.Errorf("without the keys: exit code %d: %s", code, stderr)
	}
	if _, err := os.Stat(other); err == nil {
		t.Error("keys were made")
	}
	for n := range 2 {
		text, err := os.ReadFile(filepath.Join(dir, fmt.Sprint(n, ".jsonl")))
		must(t, err)
		if len(text) == 0 || !json.Valid([]byte(strings.SplitN(string(text), "\n", 2)[0])) {
			t.Errorf("gateway %d has no audit log of its own", n)
		}
	}
}

// The password of a database is in nothing that a gateway prints.
func TestGatewayKeepsTheDatabasesPassword(t *testing.T) {
	dir := t.TempDir()
	prov := start(t, "provider", "--scenario", "payments")
	for address, want := range map[string]string{
		"postgres://u:s3cret@127.0.0.1:1/db":          "password in it",
		"postgres://u@127.0.0.1:1/db?password=s3cret": "PGPASSWORD",
		"postgres://u:s3cret@[::1/db":                 "no URL",
		"postgress://u:s3cret@127.0.0.1/db":           "want memory",
		"postgres://u@127.0.0.1:1/db":                 "opening the store",
	} {
		t.Setenv("PGPASSWORD", "s3cret")
		for _, args := range [][]string{
			{"--scenario", "payments", "--provider", prov.url, "--keys", filepath.Join(dir, "keys"), "--audit", filepath.Join(dir, "audit")},
			{"--lab", "127.0.0.1:0"},
		} {
			code, out, stderr := command(t, t.Context(), append([]string{"gateway", "--listen", "127.0.0.1:0", "--store", address}, args...)...)
			if code != 2 || !strings.Contains(stderr, want) {
				t.Errorf("%s: exit code %d: %s", address, code, stderr)
			}
			if strings.Contains(out+stderr, "s3cret") {
				t.Errorf("%s: the password is printed: %s%s", address, out, stderr)
			}
		}
	}
}
