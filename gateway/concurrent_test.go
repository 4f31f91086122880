package gateway_test

import (
	"bufio"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"countersign/audit"
	"countersign/gateway"
	"countersign/gateway/api"
	"countersign/gateway/store"
	"countersign/gateway/store/pgtest"
	"countersign/modes"
	"countersign/oracles/softkey"
	"countersign/scenarios/provider"
)

const workers = 8

// TestWorkers: eight workers present one permit at the same moment, a thousand
// times over; each time exactly one effect is made, at a provider that executes
// whatever arrives.
func TestWorkers(t *testing.T) {
	rounds := 1000
	if testing.Short() {
		rounds = 50
	}
	w := newWorld(t, "M9")
	for round := range rounds {
		d := w.approved(w.action("wire", round+1))
		var gate, done sync.WaitGroup
		gate.Add(1)
		statuses := make([]api.Status, workers)
		errs := make([]error, workers)
		for i := range workers {
			done.Go(func() {
				gate.Wait()
				var o api.Outcome
				o, errs[i] = w.present(w.target, "agent-a", d)
				statuses[i] = o.Status
			})
		}
		gate.Done()
		done.Wait()
		must(t, errors.Join(errs...))
		if err := oneExecuted(statuses); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if n := w.prov.effects.Load(); n != int64(round+1) {
			t.Fatalf("round %d: %d effects, want %d", round, n, round+1)
		}
	}
	if n := len(w.prov.Ledger()); n != rounds {
		t.Fatalf("%d effects in the ledger, want %d", n, rounds)
	}
}

// TestScheduledRace: two workers pass every check before either spends; the second
// finds the permit spent, or its proof used, at the last moment.
func TestScheduledRace(t *testing.T) {
	for _, tt := range []struct {
		mode      string
		sameProof bool
		want      string
	}{
		{"M9", false, "absorbed [once/spent]"},
		{"M9-idem", false, "refused [once/spent]"},
		{"M9", true, "refused [sender/proof_replayed]"},
		{"M5", true, "refused [sender/proof_replayed]"},
	} {
		w := newWorld(t, tt.mode)
		d := w.approved(w.action("wire", 1))
		d.RequestID = "req"
		var answers [2]string
		w.lab.Race(ctx, []int{0, 1}, func(ctx context.Context, i int) {
			n := int64(i)
			if tt.sameProof {
				n = 0
			}
			proof, err := w.proof(d, n)
			if err != nil {
				t.Error(err)
			}
			o, err := w.target.Dispatch(ctx, api.Auth{Token: token("agent-a"), Proof: proof}, d)
			if err != nil {
				t.Error(err)
			}
			answers[i] = string(o.Status) + " [" + codes(o.Refusals) + "]"
		})
		if answers != [2]string{"executed []", tt.want} || len(w.prov.Ledger()) != 1 {
			t.Errorf("%s, same proof %v: %q, %d effects; want the second %s", tt.mode, tt.sameProof, answers, len(w.prov.Ledger()), tt.want)
		}
	}
}

// oneExecuted wants one worker to have executed and the others to have been
// answered with its result, held while it was at it, or refused.
func oneExecuted(statuses []api.Status) error {
	n := 0
	for _, s := range statuses {
		switch s {
		case api.Executed:
			n++
		case api.Absorbed, api.Held, api.Refused:
		default:
			return fmt.Errorf("an outcome is %q", s)
		}
	}
	if n != 1 {
		return fmt.Errorf("%d executed: %v", n, statuses)
	}
	return nil
}

// A workOrder is what the parent tells a worker process.
type workOrder struct {
	Dispatch api.Dispatch
	Proof    string
}

// A workReport is what came of it.
type workReport struct {
	Status api.Status
	Err    string
}

const workerEnv = "COUNTERSIGN_TEST_WORKER"

// TestMain turns the test binary into a worker process when it is asked to be one.
func TestMain(m *testing.M) {
	if os.Getenv(workerEnv) != "" {
		if err := work(os.Stdin, os.Stdout, os.Args[len(os.Args)-3:]); err != nil {
			fmt.Fprintln(os.Stderr, "worker:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// sharedGateway makes an M9 gateway as every process does: over one database, in a
// file or at an address, one provider and the same keys.
func sharedGateway(place, keyFile, providerURL string) (*gateway.Gateway, store.Store, error) {
	m, err := modes.Get("M9")
	if err != nil {
		return nil, nil, err
	}
	der, err := os.ReadFile(keyFile)
	if err != nil {
		return nil, nil, err
	}
	priv, err := x509.ParseECPrivateKey(der)
	if err != nil {
		return nil, nil, err
	}
	keys, err := modes.KeysFrom(issuer, priv, []byte(strings.Repeat("s", 32)))
	if err != nil {
		return nil, nil, err
	}
	client, err := provider.NewClient(providerURL, 0)
	if err != nil {
		return nil, nil, err
	}
	var s store.Store
	if strings.HasPrefix(place, "postgres:") {
		s, err = store.OpenPostgres(ctx, place)
	} else {
		s, err = store.OpenSQLite(place)
	}
	if err != nil {
		return nil, nil, err
	}
	g, err := gateway.New(ctx, gateway.Config{
		Mode: m, Approvals: s, Registry: s, Audit: audit.NewMemory(), Keys: keys,
		Deployment: api.Deployment{
			Issuer: issuer, Tools: tools(), Provider: client, Directory: client, Clock: &testClock{now: start}, ApprovalTTL: ttl,
			AdminToken: adminToken, AuditorToken: auditToken, Origin: origin, ProviderCredential: credential,
		},
	})
	return g, s, err
}

// work is the life of a worker process: it says that it is ready, then answers
// each order, a line of JSON, with a report.
func work(in io.Reader, out io.Writer, args []string) error {
	g, s, err := sharedGateway(args[0], args[1], args[2])
	if err != nil {
		return err
	}
	defer s.Close()
	reports := json.NewEncoder(out)
	if err := reports.Encode(workReport{}); err != nil {
		return err
	}
	for orders := json.NewDecoder(in); ; {
		var o workOrder
		if err := orders.Decode(&o); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		outcome, err := g.Dispatch(ctx, api.Auth{Token: token("agent-a"), Proof: o.Proof}, o.Dispatch)
		r := workReport{Status: outcome.Status}
		if err != nil {
			r.Err = err.Error()
		}
		if err := reports.Encode(r); err != nil {
			return err
		}
	}
}

// TestProcesses: eight processes over one store present one permit at the same
// moment; each time exactly one effect is made. Fifty permits keep it short;
// COUNTERSIGN_TEST_PERMITS sets another number.
func TestProcesses(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) { presentInProcesses(t, filepath.Join(t.TempDir(), "approvals.db")) })
	t.Run("postgres", func(t *testing.T) {
		if testing.Short() {
			t.Skip("starts a server")
		}
		presentInProcesses(t, pgtest.Database(t))
	})
}

func presentInProcesses(t *testing.T, place string) {
	permits := 50
	if text := os.Getenv("COUNTERSIGN_TEST_PERMITS"); text != "" {
		_, err := fmt.Sscan(text, &permits)
		must(t, err)
	}
	if testing.Short() {
		permits = 5
	}
	keyFile := filepath.Join(t.TempDir(), "key")
	der, err := x509.MarshalECPrivateKey(agentKey())
	must(t, err)
	must(t, os.WriteFile(keyFile, der, 0o600))
	prov, err := provider.New(provider.Config{Tools: tools(), Records: records(), Reader: "struct", Clock: &testClock{now: start}})
	must(t, err)
	server := httptest.NewServer(provider.Handler(prov))
	defer server.Close()

	g, s, err := sharedGateway(place, keyFile, server.URL)
	must(t, err)
	defer s.Close()
	w := &world{t: t, clock: &testClock{now: start}, target: g, keys: map[string]*softkey.Key{}}
	for _, p := range people() {
		w.enrol(p)
	}

	type process struct {
		orders  *json.Encoder
		reports *json.Decoder
	}
	var processes []process
	for range workers {
		cmd := exec.Command(os.Args[0], place, keyFile, server.URL)
		cmd.Env = append(os.Environ(), workerEnv+"=1")
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		must(t, err)
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		t.Cleanup(func() {
			in.Close()
			if err := cmd.Wait(); err != nil {
				t.Errorf("a worker process: %v", err)
			}
		})
		processes = append(processes, process{json.NewEncoder(in), json.NewDecoder(bufio.NewReader(out))})
	}
	for _, p := range processes {
		must(t, p.reports.Decode(&workReport{}))
	}
	for round := range permits {
		d := w.approved(w.action("wire", round+1))
		orders := make([]workOrder, workers)
		for i := range orders {
			d.RequestID = fmt.Sprintf("req-%d-%d", round, i)
			proof, err := proofAt(d, fmt.Sprintf("proof-%d-%d", round, i), start)
			must(t, err)
			orders[i] = workOrder{d, proof}
		}
		for i, p := range processes {
			must(t, p.orders.Encode(orders[i]))
		}
		statuses := make([]api.Status, workers)
		for i, p := range processes {
			var r workReport
			must(t, p.reports.Decode(&r))
			if r.Err != "" {
				t.Errorf("round %d: process %d: %s", round, i, r.Err)
			}
			statuses[i] = r.Status
		}
		if err := oneExecuted(statuses); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if n := len(prov.Ledger()); n != round+1 {
			t.Fatalf("round %d: %d effects, want %d", round, n, round+1)
		}
	}
}
