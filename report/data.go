package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"countersign/results"
)

// A Choice says of which trials a report has the stories.
type Choice string

const (
	// All has, for every variant and target, one trial of each outcome.
	All Choice = "all"
	// Reference has the same of two targets only: the reference of the run's
	// comparisons, and the one most attacks succeed against. Whatever contradicts its
	// prediction is told besides.
	Reference Choice = "reference"
	// None has no story.
	None Choice = "none"
)

// Choices lists every choice.
func Choices() []Choice { return []Choice{All, Reference, None} }

// Data is a run, counted and sorted for a report.
type Data struct {
	Run      *results.Run
	Analysis *results.Analysis

	cells map[cellKey]*cell
	usual string // scenario
}

// A cellKey is one variant against one target.
type cellKey struct {
	target, attack, variant string
	kind                    results.Kind
}

// A cell holds the trials of one variant against one target.
type cell struct {
	outcomes  []*outcome // in the order of the records
	scenarios map[string]*tried
}

// tried counts the trials of a scenario in which an attack executed or a twin
// completed, and the other ones with an outcome.
type tried struct{ hit, miss int }

// An outcome is what several trials of a cell have in common.
type outcome struct {
	first     results.Record // the trial that is told
	scenarios []string
	trials    int
	seeds     map[uint64]bool
	reasons   map[string]bool // kinds of reasons, without what they are about
	effects   [2]int          // fewest and most
	disagrees bool
}

// Read reads and analyses a run. It keeps every outcome of every cell, and not the
// records. Where trials of several scenarios came out alike, the one of the usual
// scenario is told.
func Read(r *results.Run, usual string) (*Data, error) {
	a, err := results.AnalyseRun(r)
	if err != nil {
		return nil, err
	}
	d := &Data{Run: r, Analysis: a, cells: map[cellKey]*cell{}, usual: usual}
	for rec, err := range r.Records() {
		if err != nil {
			return nil, err
		}
		if rec.Kind != results.Honest {
			d.add(rec)
		}
	}
	return d, nil
}

func keyOf(r results.Record) cellKey { return cellKey{r.Target, r.Attack, r.Variant, r.Kind} }

func (d *Data) add(r results.Record) {
	c := d.cells[keyOf(r)]
	if c == nil {
		c = &cell{scenarios: map[string]*tried{}}
		d.cells[keyOf(r)] = c
	}
	s := c.scenarios[r.Scenario]
	if s == nil {
		s = &tried{}
		c.scenarios[r.Scenario] = s
	}
	switch {
	case !r.Conclusive():
	case r.Kind == results.Attack && r.Observed == results.Executed, r.Kind == results.Twin && r.Observed == results.Completed:
		s.hit++
	default:
		s.miss++
	}
	i := slices.IndexFunc(c.outcomes, func(o *outcome) bool {
		return o.first.Predicted == r.Predicted && o.first.Observed == r.Observed && slices.Equal(o.first.RefusedBy, r.RefusedBy) &&
			o.first.Nondeterministic == r.Nondeterministic && o.first.Approver == r.Approver && o.disagrees == r.Disagrees()
	})
	if i < 0 {
		i = len(c.outcomes)
		c.outcomes = append(c.outcomes, &outcome{first: r, seeds: map[uint64]bool{}, reasons: map[string]bool{}, effects: [2]int{r.Effects, r.Effects}, disagrees: r.Disagrees()})
	}
	o := c.outcomes[i]
	if r.Scenario == d.usual && o.first.Scenario != d.usual {
		o.first = r
	}
	o.trials++
	o.seeds[r.Seed] = true
	o.effects = [2]int{min(o.effects[0], r.Effects), max(o.effects[1], r.Effects)}
	if !slices.Contains(o.scenarios, r.Scenario) {
		o.scenarios = append(o.scenarios, r.Scenario)
	}
	for _, reason := range r.Reasons {
		kind, _, _ := strings.Cut(reason, ":")
		o.reasons[kind] = true
	}
}

// count says in how many scenarios an attack executed with any seed, or a twin
// completed with all, of how many with a conclusive trial.
func (c *cell) count(kind results.Kind) (k, n int) {
	for _, s := range c.scenarios {
		if s.hit+s.miss == 0 {
			continue
		}
		n++
		if kind == results.Attack && s.hit > 0 || kind != results.Attack && s.miss == 0 {
			k++
		}
	}
	return k, n
}

// gravest returns the outcome that a reader looks for first: one that contradicts
// the prediction, then success of an attack or failure of a twin.
func (c *cell) gravest() *outcome {
	return slices.MaxFunc(c.outcomes, func(a, b *outcome) int { return a.gravity() - b.gravity() })
}

func (o *outcome) gravity() int {
	switch {
	case o.disagrees:
		return 3
	case o.first.Uncertain():
		return 2
	case o.first.Observed == results.Executed, o.first.Kind == results.Twin && o.first.Observed != results.Completed:
		return 1
	}
	return 0
}

// Told returns the trials whose stories a report of this choice has, in the order
// of the catalogue.
func (d *Data) Told(choice Choice) ([]results.Record, error) {
	if !slices.Contains(Choices(), choice) {
		return nil, fmt.Errorf("choosing stories: %q, want one of %v", choice, Choices())
	}
	only := d.contrast()
	var out []results.Record
	for _, f := range d.Analysis.Attacks {
		for _, v := range f.Variants {
			for _, row := range d.Analysis.Rows {
				c := d.cells[cellKey{row.Target.ID, f.ID, v.Name, v.Kind}]
				if c == nil || choice == None {
					continue
				}
				for _, o := range c.outcomes {
					if choice == All || o.disagrees || slices.Contains(only, row.Target.ID) {
						out = append(out, o.first)
					}
				}
			}
		}
	}
	return out, nil
}

// contrast names the reference, and the target that most attacks succeed against.
func (d *Data) contrast() []string {
	out := []string{d.Run.Manifest.Family.Reference}
	if rows := d.Analysis.Rows; len(rows) > 0 {
		weakest := slices.MaxFunc(rows, func(a, b results.Row) int { return a.Success.K - b.Success.K })
		out = append(out, weakest.Target.ID)
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
