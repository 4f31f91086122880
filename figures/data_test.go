package figures

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/results"
)

// onDisk writes a run of two targets and two approvers.
func onDisk(t *testing.T, more func(w *results.Writer) error) *results.Run {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	c := results.Catalogue{
		Targets:   []results.TargetInfo{{ID: "M0"}, {ID: "M9"}},
		Scenarios: []results.ScenarioInfo{{ID: "mail"}, {ID: "payments"}},
		Attacks:   []results.AttackInfo{{ID: "AB1", Title: "argument substitution"}},
	}
	for i := range 3 {
		c.Attacks[0].Variants = append(c.Attacks[0].Variants, results.VariantInfo{Name: fmt.Sprintf("v%d", i), Kind: results.Attack, Condition: "args"})
	}
	c.Attacks[0].Variants = append(c.Attacks[0].Variants, results.VariantInfo{Name: "twin", Kind: results.Twin})
	w, err := results.Create(dir, results.NewManifest([]string{"countersign", "run"}, 1, time.Unix(1, 0)), c)
	if err != nil {
		t.Fatal(err)
	}
	add := func(r results.Record) {
		r.Schema, r.Attack, r.Seed = results.Schema, "AB1", 1
		r.Pair = r.Attack + r.Variant + r.Scenario
		if err := w.Append(r); err != nil {
			t.Fatal(err)
		}
	}
	for _, target := range []string{"M0", "M9"} {
		for i, v := range []string{"v0", "v1", "v2"} {
			for _, approver := range []string{"careful", "hasty"} {
				for _, scenario := range []string{"mail", "payments"} {
					r := results.Record{Target: target, Variant: v, Kind: results.Attack, Scenario: scenario, Approver: approver,
						Predicted: results.PredictBlocked, Observed: results.Refused, RefusedBy: []string{"args"}, Prompts: 7}
					switch {
					case target == "M9" && i == 2 && scenario == "mail":
						r.Observed, r.Detail = results.Error, "no answer"
					case target == "M9" && i == 1 && approver == "hasty" && scenario == "mail", target == "M0" && i < 2:
						r.Predicted, r.Observed = results.PredictExecuted, results.Executed
					case target == "M0" && i == 2:
						r.Observed = results.Unimplemented
					}
					add(r)
				}
			}
		}
		add(results.Record{Target: target, Variant: "twin", Kind: results.Twin, Twin: true, Scenario: "mail", Approver: "careful",
			Predicted: results.PredictCompleted, Observed: results.Completed, Prompts: 2})
		add(results.Record{Target: target, Variant: "twin", Kind: results.Twin, Twin: true, Scenario: "payments", Approver: "careful",
			Predicted: results.PredictCompleted, Observed: results.Error, Detail: "no answer", Prompts: 5})
	}
	if err := more(w); err != nil {
		t.Fatal(err)
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	r, err := results.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// What a run holds for figures is read, and what it lacks is not made up.
func TestLoad(t *testing.T) {
	d, err := Load(onDisk(t, func(*results.Writer) error { return nil }))
	if err != nil {
		t.Fatal(err)
	}
	if d.Ablation != nil || d.Latency != nil || d.Replay != nil {
		t.Errorf("%+v of a run without all that", d)
	}
	want := []Approver{{"careful", []Count{{2, 2}, {0, 2}}}, {"hasty", []Count{{2, 2}, {1, 2}}}}
	if !slices.EqualFunc(d.Approvers, want, func(a, b Approver) bool { return a.Name == b.Name && slices.Equal(a.Executed, b.Executed) }) {
		t.Errorf("approvers %v, want %v", d.Approvers, want)
	}
	// A variant that an error leaves open counts for no approver, as in the analysis.
	if got := d.Analysis.Rows[1].Success; got.K != 1 || got.N != 2 {
		t.Errorf("M9 executes %d of %d", got.K, got.N)
	}
	if got := d.Analysis.Rows[1].Burden; got != (results.Burden{Prompts: 2, Trials: 1}) {
		t.Errorf("burden %+v: it is that of benign trials with an outcome", got)
	}

	d, err = Load(onDisk(t, func(w *results.Writer) error {
		for _, ns := range []int64{300, 100, 200} {
			if err := w.Latency("M9", ns); err != nil {
				return err
			}
		}
		return w.WriteFile("ablation.json", []byte(`{"target": "M9", "bindings": ["args"]}`))
	}))
	if err != nil {
		t.Fatal(err)
	}
	if d.Ablation == nil || d.Ablation.Target != "M9" || len(d.Latency) != 1 || d.Latency[0].Target.ID != "M9" ||
		!slices.Equal(d.Latency[0].Took, []time.Duration{100, 200, 300}) {
		t.Errorf("ablation %+v, latency %+v", d.Ablation, d.Latency)
	}
}

func TestLoadRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		more func(w *results.Writer) error
		want string
	}{
		"ablation":  {func(w *results.Writer) error { return w.WriteFile("ablation.json", []byte("{")) }, "ablation.json"},
		"a target":  {func(w *results.Writer) error { return w.Latency("M7", 5) }, `line 1: there is no target "M7"`},
		"a time":    {func(w *results.Writer) error { return w.Latency("M9", -5) }, "line 1: it took -5 ns"},
		"two lines": {func(w *results.Writer) error { return errors.Join(w.Latency("M9", 5), w.Latency("", 5)) }, "line 2: "},
	} {
		if _, err := Load(onDisk(t, c.more)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestLoadReplay(t *testing.T) {
	folder := func(summary string) string {
		dir := t.TempDir()
		var sums strings.Builder
		for name, text := range map[string]string{"manifest.json": "{}", "summary.json": summary} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256([]byte(text)), name)
		}
		if err := os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(sums.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	const good = `{"pipelines": [{"pipeline": "gpt", "targets": [{"target": "M9", "harmed": {"k": 1, "n": 4}, "benign_utility_kept": {"k": 2, "n": 3}}]}]}`
	r, err := LoadReplay(folder(good))
	if err != nil || len(r.Pipelines) != 1 || r.Pipelines[0].Targets[0].Harmed != (Count{1, 4}) || r.Pipelines[0].Targets[0].Benign != (Count{2, 3}) {
		t.Errorf("%+v, %v", r, err)
	}
	changed := folder(good)
	if err := os.WriteFile(filepath.Join(changed, "summary.json"), []byte(strings.Replace(good, "1", "0", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, dir := range map[string]string{
		"is missing": t.TempDir(), "changed after the run": changed, "4 of 3": folder(strings.Replace(good, `"k": 2`, `"k": 4`, 1)),
		"-1 of 4": folder(strings.Replace(good, `"k": 1`, `"k": -1`, 1)), "summary.json: ": folder("]"),
	} {
		if _, err := LoadReplay(dir); err == nil || name != "is missing" && !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
