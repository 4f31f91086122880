package attacks

import (
	"testing"

	"countersign/scenarios"
)

// An overlay has an attack and a twin of every family, those of the catalogue but for
// two, which no scenario of the lab names a call for.
func TestOverlay(t *testing.T) {
	fs, err := Overlay()
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(fs); err == nil {
		t.Error("an overlay passes for the catalogue, which has two variants a family")
	}
	known := map[string]bool{}
	for _, f := range All() {
		for _, v := range append(f.Variants, f.Twins...) {
			known[f.ID+"/"+v.Name] = true
		}
	}
	var own []string
	for i, f := range fs {
		if f.ID != All()[i].ID || len(f.Variants) == 0 || len(f.Twins) == 0 {
			t.Errorf("%s has %d attacks and %d twins", f.ID, len(f.Variants), len(f.Twins))
		}
		for _, v := range append(f.Variants, f.Twins...) {
			if known[f.ID+"/"+v.Name] {
				continue
			}
			own = append(own, v.Name)
			for _, s := range scenarios.All() {
				if v.NotApplicable(s) == "" {
					t.Errorf("%s applies to %s", v.Name, s.ID)
				}
			}
		}
	}
	if len(own) != 2 {
		t.Errorf("of its own it has %v", own)
	}
	// All is what it was: an overlay is a copy.
	for _, f := range All() {
		for _, v := range f.Variants {
			if v.Name == rivalOfSameTool {
				t.Error("the overlay's variant is in the catalogue")
			}
		}
	}
}
