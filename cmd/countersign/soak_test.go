package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/gateway/api"
	"countersign/gateway/store/pgtest"
	"countersign/modes"
	"countersign/scenarios/provider"
)

// soaks soaks designs and returns what it came to.
func soaks(t *testing.T, want int, args ...string) []soakReport {
	t.Helper()
	code, out, errs := command(t, t.Context(), append([]string{"soak", "--json", "--quiet"}, args...)...)
	if code != want {
		t.Fatalf("countersign soak %v ended with %d, want %d: %s%s", args, code, want, out, errs)
	}
	var reports []soakReport
	must(t, json.Unmarshal([]byte(out), &reports))
	return reports
}

// TestSoak: of approvals with concurrent replays, faults and kills, each has one effect,
// which is the one that was approved, over each store.
func TestSoak(t *testing.T) {
	for name, store := range map[string]func(*testing.T) string{
		"sqlite": func(*testing.T) string { return "sqlite" }, "postgres": func(t *testing.T) string { return pgtest.Database(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// A call that a killed gateway may have sent is held for longer than a test lasts.
			r := soaks(t, 0, "--store", store(t), "--approvals", "100", "--restarts", "2", "--settle", "0s")[0]
			if r.Effects+r.Held != r.Calls || r.Permits != r.Effects || len(r.Breaches) > 0 || r.Approvals != r.Calls+r.Failed || r.Held > 2*r.Workers {
				t.Errorf("%+v", r)
			}
			if r.Restarts != 2 || len(r.Faults) == 0 || r.Replays.Sent == 0 || r.Altered.Sent == 0 || r.Elsewhere.Sent == 0 || !r.Demanded || r.LogLines < 4*r.Calls {
				t.Errorf("not everything was tried: %+v", r)
			}
			for _, tally := range []soakTally{r.Altered, r.Elsewhere} {
				if tally.Refused+tally.NoAnswer != tally.Sent {
					t.Errorf("another call than the approved one was not refused: %+v", tally)
				}
			}
			if r.Decide.Calls+r.Decide.MetRestart < r.Approvals || r.Dispatch.P99 < r.Dispatch.P50 || r.Dispatch.Max < r.Dispatch.P99 || r.PerSecond <= 0 {
				t.Errorf("%+v, %+v, %v a second", r.Decide, r.Dispatch, r.PerSecond)
			}
			if r.Store != name {
				t.Errorf("the store is called %q", r.Store)
			}
		})
	}
}

// TestSoakIsSeen: of a design that spends nothing and sends no key the soak reports two
// effects of one call, and of one that does not compare arguments another effect.
func TestSoakIsSeen(t *testing.T) {
	args := []string{"--approvals", "50", "--instances", "1", "--restarts", "0", "--settle", "0s", "--seed", "3"}
	for mode, want := range map[string]string{"M9-seen-once-idem": breachDuplicated, "M4": breachAltered} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r := soaks(t, 0, append(args, "--mode", mode)...)[0]
			if r.Demanded || !slices.ContainsFunc(r.Breaches, func(b soakBreach) bool { return b.Kind == want && b.Count > 0 && b.Example != "" }) {
				t.Errorf("%+v, want %q", r.Breaches, want)
			}
			var out bytes.Buffer
			must(t, printSoak(&out, []soakReport{r}))
			if !strings.Contains(out.String(), "the design allows this") || !strings.Contains(out.String(), want) {
				t.Errorf("printed is %s", &out)
			}
		})
	}
}

// TestSoakJudge: each thing that a gate is there to rule out is found, by its own name
// and by no other, and is the exit code of a design that claims to rule it out.
func TestSoakJudge(t *testing.T) {
	sc, err := scenario("payments")
	must(t, err)
	honest := func(n int) api.ProviderRequest {
		in := sc.Instance(1, n)
		return api.ProviderRequest{Credential: "c", Audience: sc.Audience, Tool: in.Tool, Body: in.Arguments,
			RequestID: soakRequest(n, 1, ""), IdempotencyKey: fmt.Sprint("key-", n)}
	}
	type world struct {
		requests []api.ProviderRequest
		states   []callState
		approved []bool
		log      []api.AuditEntry
	}
	for _, c := range []struct {
		want string // empty: nothing
		make func(w *world)
	}{
		{"", func(*world) {}},
		{"", func(w *world) { w.requests, w.states[1] = w.requests[:1], callHeld }},
		{breachHeld, func(w *world) { w.requests, w.states[1] = w.requests[:1], callHeld }},
		{breachDuplicated, func(w *world) {
			again := honest(0)
			again.IdempotencyKey, again.RequestID = "key-2", soakRequest(0, 2, "")
			w.requests = append(w.requests, again)
			w.log = append(w.log, api.AuditEntry{Event: "decide:approve", Permit: "permit-2"}, api.AuditEntry{Event: "outcome", Permit: "permit-2", Key: "key-2", RequestID: again.RequestID})
		}},
		{breachAltered, func(w *world) {
			w.requests[1].Body = bytes.Replace(w.requests[1].Body, []byte(`"currency":"`), []byte(`"currency":"X`), 1)
			w.approved[1] = false // so that it is not missed beside
		}},
		{breachElsewhere, func(w *world) { w.requests[1].Audience, w.approved[1] = sc.Sibling, false }},
		{breachUnapproved, func(w *world) { w.approved[1] = false }},
		{breachUnknown, func(w *world) { w.requests[1].RequestID, w.approved[1] = "call-2.1", false }},
		{breachLost, func(w *world) { w.requests, w.states[1] = w.requests[:1], callRefused }},
		{breachPhantom, func(w *world) { w.requests = w.requests[:1] }},
		{breachTwice, func(w *world) { w.log[3].Permit = "permit-0" }},
		{breachUnlogged, func(w *world) { w.log = w.log[:3] }},
		{breachUnfounded, func(w *world) { w.log[2].Event = "posted:decline" }},
	} {
		t.Run(c.want, func(t *testing.T) {
			w := world{requests: []api.ProviderRequest{honest(0), honest(1)}, states: []callState{callExecuted, callExecuted}, approved: []bool{true, true}}
			for n := range 2 {
				permit := fmt.Sprint("permit-", n)
				w.log = append(w.log, api.AuditEntry{Event: "decide:approve", Permit: permit},
					api.AuditEntry{Event: "outcome", Permit: permit, Key: fmt.Sprint("key-", n), RequestID: soakRequest(n, 1, "")})
			}
			c.make(&w)
			p, err := provider.New(provider.Config{Tools: sc.ToolTable(), Records: sc.Records, Reader: provider.Reader(sc.Reader), Clock: wallClock{}})
			must(t, err)
			for _, r := range w.requests {
				_, err := p.Execute(t.Context(), r)
				must(t, err)
			}
			path := filepath.Join(t.TempDir(), "log.jsonl")
			log, err := gatewayOptions{audit: path}.openAudit("", io.Discard, io.Discard)
			must(t, err)
			for _, e := range w.log {
				_, err := log.Append(t.Context(), e)
				must(t, err)
			}
			must(t, log.close())

			j := newSoakJudge(sc, 1, p, 2)
			j.take()
			held := j.judgeCalls(w.states, w.approved, c.want == breachHeld)
			_, lines, err := j.judgeLogs([]string{path})
			must(t, err)
			if lines != len(w.log) || held > 1 {
				t.Errorf("%d lines of %d, %d held", lines, len(w.log), held)
			}
			var kinds []string
			for _, b := range j.found() {
				kinds = append(kinds, b.Kind)
			}
			if got := strings.Join(kinds, ", "); got != c.want {
				t.Errorf("found %q, want %q", got, c.want)
			}
			code := soakReport{Demanded: true, Breaches: j.found()}.exitCode()
			if (code == 1) != (c.want != "") || (soakReport{Breaches: j.found()}).exitCode() != 0 {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

// TestSoakLogs: a log that was altered is a breach, and one that is not signed cannot
// be told.
func TestSoakLogs(t *testing.T) {
	sc, err := scenario("payments")
	must(t, err)
	p, err := provider.New(provider.Config{Tools: sc.ToolTable(), Records: sc.Records, Reader: provider.Reader(sc.Reader), Clock: wallClock{}})
	must(t, err)
	path := filepath.Join(t.TempDir(), "log.jsonl")
	log, err := gatewayOptions{audit: path}.openAudit("", io.Discard, io.Discard)
	must(t, err)
	_, err = log.Append(t.Context(), api.AuditEntry{Event: "propose", Principal: "agent-1"})
	must(t, err)
	must(t, log.close())
	text, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path, bytes.Replace(text, []byte("agent-1"), []byte("agent-2"), 1), 0o600))
	j := newSoakJudge(sc, 1, p, 0)
	if _, _, err := j.judgeLogs([]string{path}); err != nil || len(j.found()) != 1 || j.found()[0].Kind != breachLog {
		t.Errorf("%v, %+v", err, j.found())
	}
	must(t, os.Remove(checkpointsOf(path)))
	if _, _, err := j.judgeLogs([]string{path}); err == nil {
		t.Error("a log without checkpoints was taken for verified")
	}
}

// TestDemanded: the rule is asked of the reference and not of designs without what makes
// it hold.
func TestDemanded(t *testing.T) {
	for _, m := range modes.All() {
		if demanded(m) != (m.ID == "M9") {
			t.Errorf("%s: %v", m.ID, demanded(m))
		}
	}
}

func TestLatency(t *testing.T) {
	var all []time.Duration
	for i := range 200 {
		all = append(all, time.Duration(200-i)*time.Millisecond)
	}
	if l := latencyOf(all, 3); l.P50 != 100 || l.P99 != 198 || l.Max != 200 || l.Calls != 200 || l.MetRestart != 3 {
		t.Errorf("%+v", l)
	}
	if l := latencyOf([]time.Duration{time.Millisecond}, 0); l.P50 != 1 || l.P99 != 1 {
		t.Errorf("%+v", l)
	}
	if l := latencyOf(nil, 2); l.Calls != 0 || l.MetRestart != 2 {
		t.Errorf("%+v", l)
	}
}

func TestSoakUsage(t *testing.T) {
	for name, args := range map[string][]string{
		"no calls":              {"soak", "--approvals", "0"},
		"more kills than calls": {"soak", "--approvals", "5", "--restarts", "6"},
		"no workers":            {"soak", "--workers", "0"},
		"no such scenario":      {"soak", "--scenario", "nowhere"},
		"no such design":        {"soak", "--mode", "M99"},
		"no design":             {"soak", "--mode", ""},
		"a store that forgets":  {"soak", "--store", "memory"},
		"a file":                {"soak", "--store", "sqlite:approvals.db"},
		"no store":              {"soak", "--store", "paper"},
		"no server":             {"soak", "--store", "postgres://u@127.0.0.1:1/db"},
		"a negative time":       {"soak", "--settle", "-1s"},
	} {
		if code, out, errs := command(t, t.Context(), args...); code != 2 || !strings.Contains(errs, "error: ") {
			t.Errorf("%s: exit code %d: %s%s", name, code, out, errs)
		}
	}
}
