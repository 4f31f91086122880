package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"countersign/attacks"
	"countersign/modes"
	"countersign/results"
)

// reference is the baseline of the whole matrix, against which run.sh and every
// user can hold a run.
var reference = filepath.Join("..", "..", "results", "reference", "baseline.json")

// TestReferenceBaseline: the committed baseline has every mode with every variant,
// all as predicted, and a sample of it is what is measured today (./run.sh holds
// the whole matrix against it). With -update it is written from a run of the whole
// matrix.
func TestReferenceBaseline(t *testing.T) {
	const advice = "write it with: go test ./cmd/countersign -run ReferenceBaseline -update"
	if *update {
		dir := filepath.Join(t.TempDir(), "run")
		if code, _, stderr := command(t, t.Context(), "run", "--quiet", "--out", dir); code != 0 {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
		if code, _, stderr := command(t, t.Context(), "baseline", dir, "-o", reference); code != 0 {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
	}
	data, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > 1<<20 {
		t.Errorf("the baseline has %d bytes, want 1 MiB at most", len(data))
	}
	b, err := results.ParseBaseline(data)
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, e := range b.Entries {
		there[e.Name()] = true
		if e.Disagrees > 0 || e.Observed[results.Error] > 0 || e.WrongReason > 0 {
			t.Errorf("%s is no reference: %s", e.Name(), e.Outcomes())
		}
	}
	var absent []string
	for _, m := range modes.All() {
		for _, f := range attacks.All() {
			for _, v := range slices.Concat(f.Variants, f.Twins) {
				kind := results.Attack
				if len(v.Stopped.Bindings()) == 0 {
					kind = results.Twin
				}
				e := results.BaselineEntry{Target: m.ID, Attack: f.ID, Variant: v.Name, Kind: kind}
				if !there[e.Name()] {
					absent = append(absent, e.Name())
				}
			}
		}
	}
	if len(absent) > 0 {
		t.Errorf("%d entries are not in the baseline, such as %s; %s", len(absent), absent[0], advice)
	}
	if raced {
		return
	}
	dir := filepath.Join(t.TempDir(), "run")
	if code, _, stderr := command(t, t.Context(), "run", "--modes", "M1,M9", "--attacks", "AB1,AB7", "--quiet", "--out", dir); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	now, _, err := summarise([]string{dir})
	if err != nil {
		t.Fatal(err)
	}
	k, err := b.Against(now)
	if err != nil {
		t.Fatalf("%v; %s", err, advice)
	}
	for _, c := range k.Cases {
		if c.Change != results.Same && c.Change != results.Missing {
			t.Errorf("%s: %s: %s; %s", c.Entry().Name(), c.Change, c.Why, advice)
		}
	}
}
