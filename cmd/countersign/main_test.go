package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"countersign/attacks"
	"countersign/results"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"countersign": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			env.Defer(func() { _ = l.Close() })
			env.Setenv("TAKEN", l.Addr().String())
			folder, err := filepath.Abs(filepath.Join("testdata", "audit"))
			env.Setenv("AUDIT", folder)
			return err
		},
	})
}

// command runs one command line in process, with a limit on its time.
func command(t *testing.T, ctx context.Context, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(ctx, args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

// small selects few trials.
func small(args ...string) []string {
	return append([]string{"run", "--modes", "M8,M9", "--attacks", "AB5", "--scenarios", "payments"}, args...)
}

func TestExitCodes(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, c := range map[string]struct {
		args []string
		want int
	}{
		"as predicted":     {small("--out", "run"), 0},
		"listing":          {[]string{"modes"}, 0},
		"help":             {[]string{"run", "--help"}, 0},
		"no command":       {nil, 2},
		"unknown command":  {[]string{"rnu"}, 2},
		"unknown flag":     {[]string{"run", "--mode", "M9"}, 2},
		"unknown mode":     {[]string{"run", "--modes", "M9-nothing"}, 2},
		"nothing selected": {[]string{"run", "--attacks="}, 2},
		"no such run":      {[]string{"analyze", "nowhere"}, 2},
		"no help":          {[]string{"help", "nothing"}, 2},
	} {
		code, _, stderr := command(t, t.Context(), c.args...)
		if code != c.want {
			t.Errorf("%s: exit code %d, want %d: %s", name, code, c.want, stderr)
		}
		if lines := strings.Count(stderr, "countersign: error: "); lines != map[bool]int{true: 1}[c.want != 0] {
			t.Errorf("%s: %d error lines, want one exactly on failure:\n%s", name, lines, stderr)
		}
	}
}

// A disagreement outranks a trial that could not be carried out, and both outrank
// success.
func TestExitCodeOfRecords(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		name     string
		observed []results.Observation
		want     int
	}{
		{"blocked", []results.Observation{results.Refused, results.Held}, 0},
		{"unimplemented", []results.Observation{results.Refused, results.Unimplemented}, 0},
		{"error", []results.Observation{results.Refused, results.Error}, 2},
		{"disagreement", []results.Observation{results.Refused, results.Executed}, 1},
		{"both", []results.Observation{results.Error, results.Executed}, 1},
	} {
		path := filepath.Join(dir, c.name)
		writeRun(t, path, c.observed)
		for _, format := range []string{"", "--json", "--csv", "--markdown"} {
			args := slices.DeleteFunc([]string{"analyze", path, format}, func(s string) bool { return s == "" })
			if code, stdout, stderr := command(t, t.Context(), args...); code != c.want || stdout == "" || stderr != "" {
				t.Errorf("%s %s: exit code %d, want %d; %d bytes out; %s", c.name, format, code, c.want, len(stdout), stderr)
			}
		}
	}
}

// writeRun makes a run with one blocked prediction for each observation.
func writeRun(t *testing.T, dir string, observed []results.Observation) {
	t.Helper()
	c := results.Catalogue{
		Targets:   []results.TargetInfo{{ID: "M9", Name: "bound"}},
		Scenarios: []results.ScenarioInfo{{ID: "payments", Title: "payments"}},
		Attacks:   []results.AttackInfo{{ID: "AB1", Title: "argument substitution"}},
	}
	names := []string{"first", "second"}
	for _, n := range names {
		c.Attacks[0].Variants = append(c.Attacks[0].Variants, results.VariantInfo{Name: n, Kind: results.Attack, Condition: "args"})
	}
	w, err := results.Create(dir, results.NewManifest([]string{"test"}, 1, time.Now()), c)
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range observed {
		r := results.Record{
			Schema: results.Schema, Target: "M9", Attack: "AB1", Variant: names[i], Kind: results.Attack, Scenario: "payments",
			Approver: "faithful", Seed: 1, Pair: names[i], Predicted: results.PredictBlocked, Observed: o,
			RefusedBy: []string{"args"}, RefusedCodes: []string{}, Reasons: []string{},
		}
		if o == results.Error || o == results.Unimplemented {
			r.Detail = "a reason"
		}
		if o == results.Executed {
			r.Effects, r.Reasons = 1, []string{"content"}
		}
		if err := w.Append(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
}

// cancelOnWrite cancels a context as soon as something is printed.
type cancelOnWrite struct {
	w      io.Writer
	cancel context.CancelFunc
}

func (c cancelOnWrite) Write(p []byte) (int, error) {
	c.cancel()
	return c.w.Write(p)
}

func TestInterruptedRunIsNoResult(t *testing.T) {
	t.Chdir(t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stdout, stderr bytes.Buffer
	code := run(ctx, small("--seeds", "5"), strings.NewReader(""), &stdout, cancelOnWrite{&stderr, cancel})
	if code != 2 || stdout.Len() > 0 || !strings.Contains(stderr.String(), "error: interrupted (unfinished run left in ") {
		t.Fatalf("exit code %d, out %q, err %q", code, &stdout, &stderr)
	}
	partial, err := filepath.Glob(filepath.Join(runsDir, ".*.partial-*", "records.jsonl"))
	if err != nil || len(partial) != 1 {
		t.Fatalf("want one unfinished run with its records, have %v, %v", partial, err)
	}
	if info, err := os.Stat(partial[0]); err != nil || info.Size() == 0 {
		t.Errorf("the records made before the interruption are lost: %v, %v", info, err)
	}
	for _, args := range [][]string{{"analyze"}, {"analyze", filepath.Dir(partial[0])}, {"figures", filepath.Dir(partial[0])}} {
		if code, stdout, _ := command(t, t.Context(), args...); code != 2 || stdout != "" {
			t.Errorf("%v took an interrupted run for a result: exit code %d, %q", args, code, stdout)
		}
	}
}

func TestFullDiskIsAnError(t *testing.T) {
	for _, args := range [][]string{{"modes"}, {"modes", "--json"}, {"attacks"}, {"attacks", "--markdown"}, {"version"}} {
		var stderr bytes.Buffer
		if code := run(t.Context(), args, strings.NewReader(""), failingWriter{}, &stderr); code != 2 {
			t.Errorf("%v succeeded although nothing could be printed: exit code %d", args, code)
		}
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestSelectFamilies(t *testing.T) {
	all := attacks.All()
	first := all[0]
	attack, twin := first.Variants[1].Name, first.Twins[0].Name
	for _, c := range []struct {
		names           []string
		families        int
		variants, twins int // of the first family
	}{
		{[]string{"AB1"}, 1, len(first.Variants), len(first.Twins)},
		{[]string{"ab1"}, 1, len(first.Variants), len(first.Twins)},
		{[]string{"AB1/" + attack}, 1, 1, len(first.Twins)},
		{[]string{"AB1/" + twin}, 1, 0, 1},
		{[]string{"AB1/" + twin, "AB1/" + attack, "AB2"}, 2, 1, len(first.Twins)},
		{[]string{"AB1/" + attack, "AB1"}, 1, len(first.Variants), len(first.Twins)},
	} {
		got, err := selectFamilies(c.names)
		if err != nil || len(got) != c.families || len(got[0].Variants) != c.variants || len(got[0].Twins) != c.twins {
			t.Errorf("%v: %d families, %v", c.names, len(got), err)
		}
	}
	for _, name := range []string{"", "AB", "AB13", "AB1/", "AB1/no_such", "AB1/" + attack + "/x"} {
		if _, err := selectFamilies([]string{name}); err == nil {
			t.Errorf("%q selects something", name)
		}
	}
	if len(attacks.All()[0].Variants) != len(first.Variants) {
		t.Error("selecting changed the catalogue")
	}
}

// TestScenariosByAnyCase: as modes and attacks are.
func TestScenariosByAnyCase(t *testing.T) {
	got, err := selectScenarios([]string{"PAYMENTS"})
	if err != nil || len(got) != 1 || got[0].ID != "payments" {
		t.Errorf("%v, %v", got, err)
	}
}

func TestOneLine(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                  "plain",
		"two\nlines\n":           "two; lines",
		"\x1b[2Jcleared \u202e!": "\ufffd[2Jcleared \ufffd!",
	} {
		if got := oneLine(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}
