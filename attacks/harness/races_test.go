package harness

import (
	"strings"
	"testing"

	"countersign/results"
)

// TestWorstRace: of a race that was run several times the record is that which went
// most wrong, and one that could not be carried out is not taken for a good end.
func TestWorstRace(t *testing.T) {
	for name, tt := range map[string]struct {
		kind results.Kind
		seen []results.Observation
		want results.Observation
		text string
	}{
		"all refused":            {results.Attack, []results.Observation{results.Refused, results.Refused}, results.Refused, "2 races: no effect in 2, one in 0, more in 0"},
		"one got through":        {results.Attack, []results.Observation{results.Refused, results.Executed, results.Error}, results.Executed, "3 races: no effect in 1, one in 1, more in 0, 1 that cannot be told"},
		"one cannot be told":     {results.Attack, []results.Observation{results.Refused, results.Error}, results.Error, "2 races: no effect in 1, one in 0, more in 0, 1 that cannot be told"},
		"an honest use starved":  {results.Twin, []results.Observation{results.Completed, results.Starved}, results.Starved, "2 races: no effect in 1, one in 1, more in 0"},
		"an honest use is fine":  {results.Twin, []results.Observation{results.Completed, results.Completed}, results.Completed, "2 races: no effect in 0, one in 2, more in 0"},
		"an honest use is error": {results.Twin, []results.Observation{results.Completed, results.Error}, results.Error, "2 races: no effect in 0, one in 1, more in 0, 1 that cannot be told"},
	} {
		next := 0
		again := func() made {
			r := results.Record{Kind: tt.kind, Observed: tt.seen[next], Nondeterministic: true}
			if r.Observed == results.Executed || r.Observed == results.Completed {
				r.Effects = 1
			}
			next++
			return made{record: r}
		}
		got := worst(again(), len(tt.seen), again).record
		if got.Observed != tt.want || !strings.HasSuffix(got.Detail, tt.text) || next != len(tt.seen) {
			t.Errorf("%s: %s, %q after %d, want %s, %q", name, got.Observed, got.Detail, next, tt.want, tt.text)
		}
	}
}
