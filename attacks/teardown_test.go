package attacks

import (
	"slices"
	"strings"
	"testing"
)

// TestTeardownCases: there are nine, in order, each with a name of its own; every
// case has something that must complete but the one in which honest retries are
// the next case, and every name is in the catalogue, as an attack or as a twin.
func TestTeardownCases(t *testing.T) {
	cases := Teardown()
	if len(cases) != 9 {
		t.Errorf("%d cases, want nine", len(cases))
	}
	names := map[string]bool{}
	for i, c := range cases {
		if c.Number != i+1 || c.Name == "" || c.Title == "" || names[c.Name] || len(c.Attacks)+len(c.Twins) == 0 {
			t.Errorf("case %d: %+v", i+1, c)
		}
		names[c.Name] = true
		fs, err := Select([]Case{c}, All())
		if err != nil {
			t.Fatalf("case %d: %v", c.Number, err)
		}
		var attacks, twins []string
		for _, f := range fs {
			for _, v := range f.Variants {
				attacks = append(attacks, f.ID+"/"+v.Name)
			}
			for _, v := range f.Twins {
				twins = append(twins, f.ID+"/"+v.Name)
			}
		}
		for _, x := range []struct{ want, got []string }{{c.Attacks, attacks}, {c.Twins, twins}} {
			if !slices.Equal(slices.Sorted(slices.Values(x.want)), slices.Sorted(slices.Values(x.got))) {
				t.Errorf("case %d names %v, and of these the catalogue has %v in that kind", c.Number, x.want, x.got)
			}
		}
	}
	if len(cases[8].Attacks) != 0 {
		t.Error("the case of honest calls has an attack")
	}
	if _, err := Select([]Case{{Attacks: []string{"AB1/nothing"}}}, All()); err == nil || !strings.Contains(err.Error(), "AB1/nothing") {
		t.Errorf("a name that is nothing: %v", err)
	}
}
