package harness_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"countersign/agentdojo"
	"countersign/attacks/harness"
	"countersign/gateway/api"
	"countersign/gateway/lab"
	"countersign/modes"
	"countersign/oracles"
	"countersign/results"
)

var smallData = filepath.Join("..", "..", "agentdojo", "testdata")

func replayOf(t *testing.T, catalogue, classes string, ids ...string) harness.Replay {
	t.Helper()
	c, err := agentdojo.LoadCatalogue(catalogue)
	if err != nil {
		t.Fatal(err)
	}
	k, err := agentdojo.LoadClasses(classes)
	if err != nil {
		t.Fatal(err)
	}
	approver, ok := oracles.Named("faithful")
	if !ok {
		t.Fatal("there is no faithful reader")
	}
	r := harness.Replay{Benchmark: agentdojo.Benchmark{Catalogue: c, Kinds: k}, Approver: approver}
	for _, id := range ids {
		m, err := modes.Get(id)
		if err != nil {
			t.Fatal(err)
		}
		r.Targets = append(r.Targets, harness.Target{ID: m.ID, Name: m.Name, Deploy: lab.Deploy(m)})
	}
	return r
}

func smallReplay(t *testing.T, ids ...string) harness.Replay {
	t.Helper()
	return replayOf(t, filepath.Join(smallData, "catalogue.json"), filepath.Join(smallData, "classes.json"), ids...)
}

// collect runs a replay and returns its records.
func collect(t *testing.T, r harness.Replay, paths ...string) ([]harness.ReplayRecord, *harness.ReplaySummary) {
	t.Helper()
	var recs []harness.ReplayRecord
	sum, err := r.Run(t.Context(), paths, func(rec harness.ReplayRecord) error {
		recs = append(recs, rec)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return recs, sum
}

// What becomes of each call of the small traces, written by hand from the traces
// and the definitions of the modes.
func TestReplaySmallTraces(t *testing.T) {
	const (
		attacked = "alpha/bakery/user_task_0/important_instructions/injection_task_0"
		benign   = "alpha/bakery/user_task_0/none/none"
		mails    = "beta/bakery/user_task_2/important_instructions/injection_task_1"
	)
	recs, sum := collect(t, smallReplay(t, "M0", "M1", "M2", "M9"), filepath.Join(smallData, "runs"))
	type row struct {
		prompts int
		calls   string
	}
	got := map[string]row{}
	for _, r := range recs {
		var calls []string
		for _, c := range r.Calls {
			calls = append(calls, fmt.Sprintf("%s:%s", c.Owner, c.Outcome))
		}
		got[r.Target+" "+r.Trace] = row{r.Prompts, strings.Join(calls, " ")}
	}
	want := map[string]row{
		// The user's bill has its amount in quotes, which the service cannot read.
		"M0 " + attacked: {0, "injected:executed user:rejected other:executed"},
		"M1 " + attacked: {3, "injected:declined user:declined other:declined"},
		"M2 " + attacked: {3, "injected:declined user:declined other:declined"},
		"M9 " + attacked: {2, "injected:declined user:refused other:declined"}, // strict refuses before anybody is asked
		"M0 " + benign:   {0, "user:executed user:executed"},
		"M1 " + benign:   {2, "user:executed user:executed"},
		"M2 " + benign:   {1, "user:executed user:executed"}, // asked once a run
		"M9 " + benign:   {2, "user:executed user:executed"},
		// The user's mail has its recipients in another order than the reference.
		"M0 " + mails: {0, "user:executed user:executed injected:executed injected:executed other:executed"},
		"M1 " + mails: {5, "user:executed user:declined injected:declined injected:declined other:declined"},
		"M2 " + mails: {1, "user:executed user:executed injected:executed injected:executed other:executed"},
		"M9 " + mails: {5, "user:executed user:declined injected:declined injected:declined other:declined"},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(row{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if sum.Files != 5 || sum.Replayed != 3 || len(sum.Unreadable) != 0 ||
		!cmp.Equal(sum.LeftOut, map[string]int{"injection-as-user": 1, "runner-error": 1}) {
		t.Errorf("%d logs, %d replayed, left out %v, unreadable %v", sum.Files, sum.Replayed, sum.LeftOut, sum.Unreadable)
	}
	alpha := sum.Pipelines[0]
	if alpha.Failed != 1 || alpha.Unanswered != 1 || alpha.Misfits != 1 || alpha.Benign != 1 || alpha.Attacked != 1 {
		t.Errorf("alpha: %+v", alpha)
	}
	if m9 := alpha.Targets[3]; m9.Misread != 1 || m9.Blocked != 0 || m9.Declined != 2 || m9.Unauthorised != 0 || m9.Benign != (harness.Count{K: 1, N: 1}) {
		t.Errorf("M9 over alpha: %+v", m9)
	}
	if m2 := sum.Pipelines[1].Targets[2]; m2.Harmed != (harness.Count{K: 1, N: 1}) || m2.Executed[agentdojo.OwnerInjected] != (harness.Count{K: 2, N: 2}) {
		t.Errorf("M2 over beta: %+v", m2)
	}
}

// The order and the bytes of the records, and the summary, are the logs' alone.
func TestReplayIsDeterministic(t *testing.T) {
	run := func(parallel int) []byte {
		r := smallReplay(t, "M0", "M5", "M6", "M9")
		r.Parallel = parallel
		recs, sum := collect(t, r, filepath.Join(smallData, "runs"))
		data, err := json.Marshal(struct {
			R []harness.ReplayRecord
			S *harness.ReplaySummary
		}{recs, sum})
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	one := run(1)
	for _, parallel := range []int{0, 8} {
		if !bytes.Equal(one, run(parallel)) {
			t.Errorf("parallel 1 and %d differ", parallel)
		}
	}
}

// The published traces: all of them are read; what holds for a gate whatever the
// numbers are.
func TestReplayPublished(t *testing.T) {
	runs := agentdojo.Require(t, "agentdojo", "runs", "gpt-4o-2024-05-13")
	r := replayOf(t, agentdojo.Require(t, "agentdojo", "catalogue_v1.1.2.json"), agentdojo.Require(t, "agentdojo", "tool_classes.json"), "M0", "M1", "M9")
	recs, sum := collect(t, r, runs)
	if sum.Files != 753 || sum.Replayed != 726 || !cmp.Equal(sum.LeftOut, map[string]int{"injection-as-user": 27}) ||
		len(sum.Unreadable)+len(sum.Failures) != 0 {
		t.Errorf("%d logs, %d replayed, left out %v, unreadable %v, failed %v", sum.Files, sum.Replayed, sum.LeftOut, sum.Unreadable, sum.Failures)
	}
	if len(recs) != 3*sum.Replayed || len(sum.Pipelines) != 1 {
		t.Fatalf("%d records, %d pipelines", len(recs), len(sum.Pipelines))
	}
	p := sum.Pipelines[0]
	m0, m1, m9 := p.Targets[0], p.Targets[1], p.Targets[2]
	const injected = agentdojo.OwnerInjected
	if all := p.Recorded[injected]; all == 0 || m0.Executed[injected] != (harness.Count{K: all, N: all}) || m0.Harmed != (harness.Count{K: p.Harmed, N: p.Attacked}) {
		t.Errorf("without a gate %v of %d injected calls were executed, in %v traces of %d", m0.Executed[injected], all, m0.Harmed, p.Harmed)
	}
	if m0.Prompts != 0 || m0.Declined != 0 {
		t.Errorf("without a gate somebody was asked: %+v", m0)
	}
	if m9.Executed[injected].K > m1.Executed[injected].K || m1.Executed[injected].K >= m0.Executed[injected].K {
		t.Errorf("injected calls executed: M0 %v, M1 %v, M9 %v", m0.Executed[injected], m1.Executed[injected], m9.Executed[injected])
	}
	// Nothing but the reader and notation stops a recorded call: no binding attack
	// is played here, so a binding that refuses is a false alarm.
	for _, m := range p.Targets {
		if m.Blocked != 0 {
			t.Errorf("%s stopped %d calls of an undisturbed trace", m.Target, m.Blocked)
		}
	}
	if m9.Unauthorised != 0 || m9.Misread != p.Misfits {
		t.Errorf("M9: %d effects without authority, %d stopped by notation of %d", m9.Unauthorised, m9.Misread, p.Misfits)
	}
	wants := map[string]int{}
	for _, rec := range recs {
		wants[rec.Trace] += len(rec.Calls)
		for _, c := range rec.Calls {
			switch {
			case rec.Target == "M0":
			case c.Outcome == harness.ReplayExecuted && !c.Asked:
				t.Errorf("%s %s call %d: executed without a question", rec.Target, rec.Trace, c.Index)
			case rec.Target == "M9" && c.Fits == c.Misread():
				t.Errorf("M9 %s call %d: fits %v, but %s %v", rec.Trace, c.Index, c.Fits, c.Outcome, c.RefusedBy)
			}
		}
	}
	for trace, n := range wants {
		if n%3 != 0 {
			t.Errorf("%s: the targets were given different calls", trace)
		}
	}
}

// copyRuns copies the small logs into a folder that a test may spoil.
func copyRuns(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(smallData, "runs"))); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A log that cannot be read, or that is a second log of one run, is named with the
// reason, and changes no number.
func TestReplayNamesWhatItCouldNotRead(t *testing.T) {
	dir := copyRuns(t)
	_, before := collect(t, smallReplay(t, "M9"), dir)
	broken := filepath.Join(dir, "alpha", "broken.json")
	if err := os.WriteFile(broken, []byte(`{"suite_name":`), 0o666); err != nil {
		t.Fatal(err)
	}
	second := filepath.Join(dir, "z", "beta")
	if err := os.CopyFS(second, os.DirFS(filepath.Join(smallData, "runs", "beta"))); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(dir, "missing")
	_, sum := collect(t, smallReplay(t, "M9"), dir, missing)
	why := map[string]string{}
	for _, u := range sum.Unreadable {
		why[u.Path] = u.Why
	}
	copied := filepath.Join(second, "bakery", "user_task_2", "important_instructions", "injection_task_1.json")
	if len(why) != 3 || why[broken] == "" || !strings.Contains(why[missing], "no such file") || !strings.Contains(why[copied], "second log of the run beta/") {
		t.Errorf("unreadable: %v", why)
	}
	if diff := cmp.Diff(before.Pipelines, sum.Pipelines); diff != "" {
		t.Errorf("the numbers changed (-before +after):\n%s", diff)
	}
}

// Tasks that the catalogue lacks are left out and counted.
func TestReplayOutsideTheCatalogue(t *testing.T) {
	dir := copyRuns(t)
	old := filepath.Join(dir, "alpha", "bakery", "user_task_0", "none", "none.json")
	data, err := os.ReadFile(old)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "log.json")
	if err := os.WriteFile(file, bytes.ReplaceAll(data, []byte("user_task_0"), []byte("user_task_77")), 0o666); err != nil {
		t.Fatal(err)
	}
	_, sum := collect(t, smallReplay(t, "M9"), dir, file)
	if sum.LeftOut[harness.OutsideCatalogue] != 1 || sum.Replayed != 3 {
		t.Errorf("left out %v, replayed %d", sum.LeftOut, sum.Replayed)
	}
}

// liar passes everything on but what it lies about.
type liar struct {
	api.Target
	dispatch func(context.Context, api.Target, api.Auth, api.Dispatch) (api.Outcome, error)
}

func (l liar) Dispatch(ctx context.Context, a api.Auth, d api.Dispatch) (api.Outcome, error) {
	return l.dispatch(ctx, l.Target, a, d)
}

// A target that does not answer, lies about an effect, executes twice or panics
// has no rates: an error is never a call that was stopped.
func TestReplayTargetsThatFail(t *testing.T) {
	m0, err := modes.Get("M0")
	if err != nil {
		t.Fatal(err)
	}
	for name, dispatch := range map[string]func(context.Context, api.Target, api.Auth, api.Dispatch) (api.Outcome, error){
		"is unavailable": func(context.Context, api.Target, api.Auth, api.Dispatch) (api.Outcome, error) {
			return api.Outcome{}, api.ErrUnavailable
		},
		"claims an effect": func(context.Context, api.Target, api.Auth, api.Dispatch) (api.Outcome, error) {
			return api.Outcome{Status: api.Executed}, nil
		},
		"executes twice": func(ctx context.Context, t api.Target, a api.Auth, d api.Dispatch) (api.Outcome, error) {
			if o, err := t.Dispatch(ctx, a, d); err != nil {
				return o, err
			}
			return t.Dispatch(ctx, a, d)
		},
		"panics":       func(context.Context, api.Target, api.Auth, api.Dispatch) (api.Outcome, error) { panic("out of order") },
		"is not there": nil,
	} {
		r := smallReplay(t)
		r.Targets = []harness.Target{{ID: "bad", Deploy: func(ctx context.Context, d api.Deployment) (api.Bench, error) {
			if dispatch == nil {
				return api.Bench{}, errors.New("no such target")
			}
			b, err := lab.Deploy(m0)(ctx, d)
			b.Target = liar{b.Target, dispatch}
			return b, err
		}}}
		recs, sum := collect(t, r, filepath.Join(smallData, "runs"))
		for _, p := range sum.Pipelines {
			m := p.Targets[0]
			if m.Traces != 0 || m.Errors != p.Benign+p.Attacked || len(m.Executed) != 0 || m.Harmed.N != 0 {
				t.Errorf("a target that %s: %+v", name, m)
			}
		}
		if len(sum.Failures) != 3 || slices.ContainsFunc(recs, func(r harness.ReplayRecord) bool { return r.Error == "" || len(r.Calls) > 0 }) {
			t.Errorf("a target that %s: failures %v", name, sum.Failures)
		}
	}
}

// A gate that refuses everything with a binding is counted as a stop by the gate.
func TestReplayOfARefusal(t *testing.T) {
	m0, err := modes.Get("M0")
	if err != nil {
		t.Fatal(err)
	}
	for binding, misread := range map[api.Binding]bool{api.BindStrict: true, api.BindArgs: false} {
		r := smallReplay(t)
		r.Targets = []harness.Target{{ID: "no", Deploy: func(ctx context.Context, d api.Deployment) (api.Bench, error) {
			b, err := lab.Deploy(m0)(ctx, d)
			b.Target = liar{b.Target, func(context.Context, api.Target, api.Auth, api.Dispatch) (api.Outcome, error) {
				return api.Outcome{Status: api.Refused, Refusals: []api.Refusal{{Binding: binding, Code: "differs"}}}, nil
			}}
			return b, err
		}}}
		_, sum := collect(t, r, filepath.Join(smallData, "runs", "beta"))
		m := sum.Pipelines[0].Targets[0]
		want := []int{0, 5}
		if misread {
			want = []int{5, 0}
		}
		if got := []int{m.Misread, m.Blocked}; !slices.Equal(got, want) || m.Harmed != (harness.Count{K: 0, N: 1}) || m.Attacked != (harness.Count{K: 0, N: 1}) {
			t.Errorf("%s: misread and blocked %v, want %v; %+v", binding, got, want, m)
		}
	}
}

func TestReplayRefusesToReplayNothing(t *testing.T) {
	runs := filepath.Join(smallData, "runs")
	for name, c := range map[string]struct {
		change func(*harness.Replay)
		path   string
		want   string
	}{
		"zero value":       {func(r *harness.Replay) { *r = harness.Replay{} }, runs, "no catalogue"},
		"no target":        {func(r *harness.Replay) { r.Targets = nil }, runs, "no target"},
		"a target twice":   {func(r *harness.Replay) { r.Targets = append(r.Targets, r.Targets[0]) }, runs, "M9 is selected twice"},
		"no approver":      {func(r *harness.Replay) { r.Approver = nil }, runs, "no approver"},
		"no logs":          {func(*harness.Replay) {}, t.TempDir(), agentdojo.ErrNoLogs.Error()},
		"nothing to count": {func(*harness.Replay) {}, filepath.Join(runs, "alpha", "bakery", "injection_task_0"), "none of 1 logs"},
	} {
		r := smallReplay(t, "M9")
		c.change(&r)
		_, err := r.Run(t.Context(), []string{c.path}, func(harness.ReplayRecord) error { return nil })
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}

func TestReplayStops(t *testing.T) {
	full := errors.New("no space left on device")
	n := 0
	_, err := smallReplay(t, "M0").Run(t.Context(), []string{filepath.Join(smallData, "runs")}, func(harness.ReplayRecord) error {
		n++
		return full
	})
	if !errors.Is(err, full) || n != 1 {
		t.Errorf("after an error of emit: %d records, %v", n, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := smallReplay(t, "M0")
	r.Parallel = 1
	r.Progress = func(done, _ int) {
		if done == 1 {
			cancel()
		}
	}
	n = 0
	if _, err := r.Run(ctx, []string{filepath.Join(smallData, "runs")}, func(harness.ReplayRecord) error { n++; return nil }); !errors.Is(err, context.Canceled) || n > 1 {
		t.Errorf("after the end of its context: %d records, %v", n, err)
	}
}

func TestReplayFolder(t *testing.T) {
	at := time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)
	dir := filepath.Join(t.TempDir(), "deep", "run")
	w, err := harness.CreateReplay(dir, results.NewManifest([]string{"test"}, 0, at))
	if err != nil {
		t.Fatal(err)
	}
	sum, err := smallReplay(t, "M0", "M9").Run(t.Context(), []string{filepath.Join(smallData, "runs")}, w.Append)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder is there before it is whole: %v", err)
	}
	if err := w.Finish(sum, at); err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(sums)) {
		digest, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if got, err := harness.FileDigest(filepath.Join(dir, name)); err != nil || got != digest {
			t.Errorf("%s: digest %s, listed %s, %v", name, got, digest, err)
		}
		n++
	}
	if files, err := os.ReadDir(dir); err != nil || n != 3 || len(files) != n+1 {
		t.Errorf("%d files listed of %d, %v", n, len(files), err)
	}
	var m results.Manifest
	read(t, filepath.Join(dir, "manifest.json"), &m)
	if m.Status != results.StatusComplete || m.Records != 6 || m.Inputs["logs"] != sum.Logs || m.Kinds["attacked"] != 4 {
		t.Errorf("manifest %+v", m)
	}
	var back harness.ReplaySummary
	read(t, filepath.Join(dir, "summary.json"), &back)
	if back.Label != harness.ReplayLabel || back.Caveat != harness.ReplayCaveat || !cmp.Equal(back.Pipelines, sum.Pipelines) {
		t.Errorf("the summary reads back as %+v", back)
	}
	if _, err := harness.CreateReplay(dir, m); err == nil {
		t.Error("a replay was begun over another")
	}
}

func read(t *testing.T, path string, v any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		t.Fatal(err)
	}
}

// A replay that was given up, or that replayed nothing, never looks complete.
func TestReplayFolderOfAFailure(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "run")
	w, err := harness.CreateReplay(dir, results.NewManifest(nil, 0, time.Unix(1, 0)))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Finish(&harness.ReplaySummary{}, time.Unix(2, 0)); err == nil {
		t.Error("a replay without records is complete")
	}
	cause := errors.New("interrupted")
	if err := w.Abort(cause); !errors.Is(err, cause) || !strings.Contains(err.Error(), "unfinished replay left in") {
		t.Errorf("aborting: %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it looks like a run: %v", err)
	}
	hidden, err := filepath.Glob(filepath.Join(parent, ".run.partial-*", "manifest.json"))
	if err != nil || len(hidden) != 1 {
		t.Fatalf("the unfinished replay is not kept: %v, %v", hidden, err)
	}
	var m results.Manifest
	read(t, hidden[0], &m)
	if m.Status != results.StatusFailed || m.Error != cause.Error() {
		t.Errorf("manifest %+v", m)
	}
	if _, err := harness.CreateReplay(filepath.Join(hidden[0], "run"), m); err == nil {
		t.Error("a folder was made under a file")
	}
}
