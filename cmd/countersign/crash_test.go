package main

import (
	"encoding/json"
	"strings"
	"testing"

	"countersign/attacks/harness"
	"countersign/gateway/store/pgtest"
)

// crashes kills gateways and returns what it came to.
func crashes(t *testing.T, want int, args ...string) harness.CrashReport {
	t.Helper()
	code, out, errs := command(t, t.Context(), append([]string{"crash", "--json", "--quiet"}, args...)...)
	if code != want {
		t.Fatalf("countersign crash %v ended with %d, want %d: %s%s", args, code, want, out, errs)
	}
	var reports []harness.CrashReport
	must(t, json.Unmarshal([]byte(out), &reports))
	if len(reports) != 1 || len(reports[0].Trials) == 0 {
		t.Fatalf("%d reports: %s", len(reports), out)
	}
	return reports[0]
}

// TestCrash: the process is killed when the send was recorded and nothing was sent.
// With a key or a look-up the call is executed once; with neither it is held.
func TestCrash(t *testing.T) {
	for name, store := range map[string]func(t *testing.T) string{
		"SQLite":     func(*testing.T) string { return "sqlite" },
		"PostgreSQL": func(t *testing.T) string { return pgtest.Database(t) },
	} {
		t.Run(name, func(t *testing.T) { crashIn(t, store(t)) })
	}
}

func crashIn(t *testing.T, store string) {
	r := crashes(t, 0, "--store", store, "--points", "^after update use$")
	if len(r.Trials) != 6 {
		t.Fatalf("%d trials, want two for each guarantee", len(r.Trials))
	}
	for _, c := range r.Trials {
		want := harness.CrashExecuted
		if c.Guarantee == "none" && c.Point != "" {
			want = harness.CrashHeld
		}
		if c.Result != want || c.Result == harness.CrashExecuted && c.Effects != 1 || c.Effects > 1 {
			t.Errorf("%s: %+v, want %s", r.Store, c, want)
		}
	}
}

// TestCrashIsSeen: a design that spends nothing and sends no key makes the effect
// again, and the command says so.
func TestCrashIsSeen(t *testing.T) {
	r := crashes(t, 1, "--mode", "M9-idem-once", "--scenarios", "payments", "--points", "^after execute$")
	if n := r.Count(harness.CrashDuplicated); n == 0 || r.Trials[1].Effects < 2 {
		t.Errorf("nothing is duplicated: %+v", r.Trials)
	}
}

func TestCrashUsage(t *testing.T) {
	for name, args := range map[string][]string{
		"an expression that is none": {"crash", "--points", "("},
		"no such scenario":           {"crash", "--scenarios", "nowhere"},
		"no such point":              {"crash", "--quiet", "--scenarios", "payments", "--points", "nowhere"},
		"no such design":             {"crash", "--mode", "M99"},
		"a store that forgets":       {"crash", "--store", "memory"},
		"no store":                   {"crash", "--store", "paper"},
	} {
		if code, out, errs := command(t, t.Context(), args...); code != 2 || !strings.Contains(errs, "error: ") {
			t.Errorf("%s: exit code %d: %s%s", name, code, out, errs)
		}
	}
}
