package attacks

import (
	"slices"
	"testing"

	"countersign/scenarios"
)

// TestEveryKindOfReferenceDrifts: whatever resolves a name only when the call is
// executed, each such kind of name is in a scenario to which every drift applies:
// the account behind a supplier, the members of a list, what a tag or a key alias
// points to, the text of a saved statement, the files that a pattern covers.
func TestEveryKindOfReferenceDrifts(t *testing.T) {
	kinds := map[string]string{} // kind → id
	for _, sc := range scenarios.All() {
		kind, id := sc.Reference()
		if kind == "" {
			continue
		}
		kinds[kind] = id
		for _, v := range slices.Concat(All()[2].Variants, All()[2].Twins) {
			if why := v.NotApplicable(sc); why != "" {
				t.Errorf("%s is not tried on the %s of %s: %s", v.Name, kind, sc.ID, why)
			}
		}
	}
	for _, kind := range []string{"supplier", "list", "attendee_list", "tag", "alias", "statement", "pattern", "group", "role"} {
		if kinds[kind] == "" {
			t.Errorf("no honest call refers to a %s", kind)
		}
	}
	if kinds["tag"] != "checkout:latest" || kinds["pattern"] != "out/*.log" {
		t.Errorf("the tag is %s and the pattern %s, want one that moves and one with a wildcard", kinds["tag"], kinds["pattern"])
	}
}
