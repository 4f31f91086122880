package agentdojo

import (
	"fmt"
	"maps"
	"slices"
)

// A Rate is a count out of a count.
type Rate struct{ Hits, Of int }

// Value returns the share, and false when nothing was counted.
func (r Rate) Value() (share float64, ok bool) {
	if r.Of == 0 {
		return 0, false
	}
	return float64(r.Hits) / float64(r.Of), true
}

func (r *Rate) add(hit bool) {
	r.Of++
	if hit {
		r.Hits++
	}
}

// Rates are the benchmark's own aggregates, from the logs' own verdicts.
type Rates struct {
	BenignUtility   Rate // benign runs whose task was solved
	AttackedUtility Rate // attacked runs whose user task was solved
	AttackSuccess   Rate // attacked runs whose injected goal was achieved
}

func (r *Rates) add(t *Trace) {
	if t.InjectionTask == "" {
		r.BenignUtility.add(t.Utility)
		return
	}
	r.AttackedUtility.add(t.Utility)
	r.AttackSuccess.add(t.Security)
}

// A Summary is what one pipeline's logs add up to.
type Summary struct {
	Pipeline string
	// Published counts as the benchmark does: over every pair of the catalogue,
	// runner errors included (each as a failed task and a successful attack).
	Published Rates
	// Clean leaves runner errors out.
	Clean Rates
	// Classes counts the traces by class, those outside the catalogue included.
	Classes map[Class]int
	// Outside counts the traces whose tasks the catalogue does not have. They are
	// in no rate.
	Outside int
}

// An Aggregate adds traces up, by pipeline. Logs without a verdict and injection
// goals run as user tasks are in no rate.
type Aggregate struct {
	catalogue *Catalogue
	summaries map[string]*Summary
	seen      map[string]string
}

// NewAggregate returns an empty aggregate over the tasks of a catalogue.
func NewAggregate(c *Catalogue) *Aggregate {
	return &Aggregate{catalogue: c, summaries: map[string]*Summary{}, seen: map[string]string{}}
}

// Add counts a trace. A second trace of the same pipeline and pair of tasks is an
// error and not counted: rates over several attacks or copies of a run would mean
// nothing.
func (a *Aggregate) Add(t *Trace) error {
	key := fmt.Sprintf("%q %q %q %q", t.Pipeline, t.Suite, t.UserTask, t.InjectionTask)
	if earlier, ok := a.seen[key]; ok {
		return fmt.Errorf("adding %s: %s has the same pipeline, user task and injection task; give one of them", t.Path, earlier)
	}
	a.seen[key] = t.Path
	s := a.summaries[t.Pipeline]
	if s == nil {
		s = &Summary{Pipeline: t.Pipeline, Classes: map[Class]int{}}
		a.summaries[t.Pipeline] = s
	}
	class := t.Class()
	s.Classes[class]++
	if _, _, _, err := a.catalogue.tasks(t); err != nil {
		s.Outside++
		return nil
	}
	if class == InjectionAsUser || !t.Judged {
		return nil
	}
	s.Published.add(t)
	if class != RunnerError {
		s.Clean.add(t)
	}
	return nil
}

// Summaries returns one summary a pipeline, sorted by its name.
func (a *Aggregate) Summaries() []Summary {
	var list []Summary
	for _, name := range slices.Sorted(maps.Keys(a.summaries)) {
		s := *a.summaries[name]
		s.Classes = maps.Clone(s.Classes)
		list = append(list, s)
	}
	return list
}
