package harness_test

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/attacks"
	"countersign/attacks/harness"
	"countersign/attacks/referee"
	"countersign/gateway/api"
	"countersign/results"
)

// stored runs a plan with events and returns the files and the run.
func stored(t *testing.T, p harness.Plan, spoil func(name string, data []byte) []byte) (map[string][]byte, *results.Run) {
	t.Helper()
	if err := p.Prepare(context.Background()); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "run")
	w, err := results.Create(dir, results.NewManifest([]string{"test"}, 1, time.Unix(0, 0)), p.Catalogue())
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	p.Events = harness.Keep(func(name string, data []byte) error {
		if files[name] != nil {
			t.Errorf("%s is written twice", name)
		}
		files[name] = data
		if spoil != nil {
			if data = spoil(name, data); data == nil {
				return nil
			}
		}
		return w.WriteFile(name, data)
	})
	if err := p.Run(context.Background(), w.Append); err != nil {
		t.Fatal(err)
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	run, err := results.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return files, run
}

func eventsPlan(t *testing.T) harness.Plan {
	modes := []string{"M0", "M1", "M5", "M8", "M9"}
	if raced {
		modes = []string{"M1", "M9"}
	}
	var targets []harness.Target
	for _, id := range modes {
		targets = append(targets, target(mode(t, id)))
	}
	return plan(t, targets, attacks.All(), scenario(t, "payments"))
}

// TestEventsBearOutTheRecords: from stored events and the catalogue alone, every
// record of the catalogue comes out as it was; and stored events repeat byte for
// byte whatever the keys, identifiers and the parallelism.
func TestEventsBearOutTheRecords(t *testing.T) {
	p := eventsPlan(t)
	files, run := stored(t, p, nil)
	trials, err := harness.Rejudge(run, func(d harness.Difference) error {
		t.Errorf("stored %s\njudged %s", describe(d.Stored), describe(d.Judged))
		return nil
	})
	if err != nil || trials != run.Manifest.Records {
		t.Fatalf("judged %d of %d records: %v", trials, run.Manifest.Records, err)
	}
	if len(files) != trials+1 {
		t.Errorf("%d files for %d trials of one scenario", len(files), trials)
	}
	p.Parallel = 1
	again, _ := stored(t, p, nil)
	for name, data := range files {
		if !bytes.Equal(data, again[name]) {
			t.Errorf("%s differs from run to run:\n%s\n%s", name, data, again[name])
		}
		if !json.Valid(data) || bytes.Contains(data, []byte("eyJ")) || bytes.Contains(data, []byte("clientDataJSON")) {
			t.Errorf("%s is no JSON, or holds a token or an assertion", name)
		}
	}
	var e harness.Events
	if err := json.Unmarshal(files["events/M9/AB1-quantity_raised_in_the_queue-payments-1.json"], &e); err != nil {
		t.Fatal(err)
	}
	var kinds []attacks.EventKind
	for _, s := range e.Steps {
		kinds = append(kinds, s.Kind)
	}
	if want := []attacks.EventKind{attacks.EventProposed, attacks.EventSuspended, attacks.EventShown, attacks.EventDecided,
		attacks.EventTampered, attacks.EventDispatched, attacks.EventAnswered}; !slices.Equal(kinds, want) {
		t.Errorf("the steps are %v, want %v", kinds, want)
	}
	if changed := e.Steps[5].Changed; len(changed) != 1 || !strings.HasPrefix(changed[0], `"amount" is 9480000, and was `) {
		t.Errorf("what was changed in the queue reads %q", changed)
	}
}

// TestRejudgeNoticesWhatWasChanged: each edit of a trial's events that matters
// makes another record.
func TestRejudgeNoticesWhatWasChanged(t *testing.T) {
	const executed, refused, twin, plain = "events/M1/AB1-quantity_raised_in_the_queue-payments-1.json",
		"events/M9/AB1-quantity_raised_in_the_queue-payments-1.json",
		"events/M9/AB1-same_arguments_in_another_order_and_with_white_space-payments-1.json",
		"events/M9/honest-plain-payments-1.json"
	first := attacks.All()[:1]
	for name, c := range map[string]struct {
		file string
		edit func(*harness.Events)
		want results.Observation
	}{
		"effect removed": {executed, func(e *harness.Events) { e.History.Effects = nil; e.Answers = nil }, results.Error},
		"effect made the approved one": {executed, func(e *harness.Events) {
			e.History.Effects[0].Values = e.History.Reviews[0].Values
		}, results.Error},
		"approval removed": {refused, func(e *harness.Events) {
			e.History.Effects = []referee.Effect{{Tick: 9, RequestID: "req-1", Audience: "payments.example", Tool: "create_payment"}}
			e.History.Reviews = nil
		}, results.Executed},
		"refusal by another binding":  {refused, func(e *harness.Events) { e.Answers[0].Refusals[0].Binding = api.BindOnce }, results.Refused},
		"answer changed":              {refused, func(e *harness.Events) { e.Answers[0].Status = api.Held }, results.Held},
		"declared unimplemented":      {refused, func(e *harness.Events) { e.Unimplemented = "unimplemented: x" }, results.Unimplemented},
		"twin's effect removed":       {twin, func(e *harness.Events) { e.History.Effects = nil }, results.Starved},
		"twin's effect at the wrong":  {twin, func(e *harness.Events) { e.History.Dispatches[0].Agent = "agent-b" }, results.Executed},
		"plain run's effect removed":  {plain, func(e *harness.Events) { e.History.Effects = nil }, results.Starved},
		"prompts counted differently": {plain, func(e *harness.Events) { e.Prompts = 3 }, results.Completed},
	} {
		t.Run(name, func(t *testing.T) {
			_, run := stored(t, plan(t, []harness.Target{target(mode(t, "M1")), target(mode(t, "M9"))}, first, scenario(t, "payments")),
				func(file string, data []byte) []byte {
					if file != c.file {
						return data
					}
					var e harness.Events
					if err := json.Unmarshal(data, &e); err != nil {
						t.Fatal(err)
					}
					c.edit(&e)
					out, err := json.Marshal(e)
					if err != nil {
						t.Fatal(err)
					}
					return out
				})
			var got []harness.Difference
			if _, err := harness.Rejudge(run, func(d harness.Difference) error { got = append(got, d); return nil }); err != nil {
				t.Fatal(err)
			}
			if len(got) != 1 || got[0].Judged.Observed != c.want {
				t.Errorf("%d differences, %+v", len(got), got)
			}
		})
	}
}

// TestRejudgeRefusesEventsThatAreNotTheRuns: what is missing, malformed, of
// another trial or too much is an error, not agreement.
func TestRejudgeRefusesEventsThatAreNotTheRuns(t *testing.T) {
	p := plan(t, []harness.Target{target(mode(t, "M9"))}, attacks.All()[:1], scenario(t, "payments"))
	const file = "events/M9/AB1-quantity_raised_in_the_queue-payments-1.json"
	files, whole := stored(t, p, nil)
	other := slices.DeleteFunc(slices.Sorted(maps.Keys(files)), func(n string) bool { return n == file || !strings.Contains(n, "AB1-") })[0]
	for name, edit := range map[string]func(data []byte) []byte{
		"no file":        func([]byte) []byte { return nil },
		"empty":          func([]byte) []byte { return []byte{} },
		"cut off":        func(d []byte) []byte { return d[:len(d)/2] },
		"something else": func([]byte) []byte { return files[other] },
		"further member": func(d []byte) []byte { return append([]byte(`{"more":1,`), d[1:]...) },
		"further text":   func(d []byte) []byte { return append(bytes.TrimSpace(d), "{}"...) },
		"another schema": func(d []byte) []byte { return bytes.Replace(d, []byte(`"schema":1`), []byte(`"schema":2`), 1) },
	} {
		_, run := stored(t, p, func(n string, data []byte) []byte {
			if n == file {
				return edit(slices.Clone(data))
			}
			return data
		})
		if _, err := harness.Rejudge(run, func(harness.Difference) error { return nil }); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := os.WriteFile(filepath.Join(whole.Dir, "events", "M9", "more.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := harness.Rejudge(whole, func(harness.Difference) error { return nil }); err == nil {
		t.Error("events without a record: no error")
	}
	if err := os.RemoveAll(filepath.Join(whole.Dir, "events")); err != nil {
		t.Fatal(err)
	}
	if _, err := harness.Rejudge(whole, func(harness.Difference) error { return nil }); err == nil || !strings.Contains(err.Error(), "no events") {
		t.Errorf("a run without events: %v", err)
	}
}
