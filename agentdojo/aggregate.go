package agentdojo

import (
	"cmp"
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

// A Summary is what one pipeline's logs add up to, under one attack.
type Summary struct {
	Pipeline string
	Attack   string // empty where nothing was injected in any log
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

func (s *Summary) plus(o Summary) {
	for _, r := range []struct {
		to   *Rates
		more Rates
	}{{&s.Published, o.Published}, {&s.Clean, o.Clean}} {
		r.to.BenignUtility.plus(r.more.BenignUtility)
		r.to.AttackedUtility.plus(r.more.AttackedUtility)
		r.to.AttackSuccess.plus(r.more.AttackSuccess)
	}
	for c, n := range o.Classes {
		s.Classes[c] += n
	}
	s.Outside += o.Outside
}

func (r *Rate) plus(o Rate) { r.Hits, r.Of = r.Hits+o.Hits, r.Of+o.Of }

// An Aggregate adds traces up, by pipeline and attack. Logs without a verdict and
// injection goals run as user tasks are in no rate.
type Aggregate struct {
	catalogue *Catalogue
	summaries map[aggregateKey]*Summary
	seen      map[string]string
}

type aggregateKey struct{ pipeline, attack string }

// NewAggregate returns an empty aggregate over the tasks of a catalogue.
func NewAggregate(c *Catalogue) *Aggregate {
	return &Aggregate{catalogue: c, summaries: map[aggregateKey]*Summary{}, seen: map[string]string{}}
}

// Add counts a trace. A second trace of the same run is an error and not counted:
// rates over copies of a run would mean nothing.
func (a *Aggregate) Add(t *Trace) error {
	id := t.ID()
	if earlier, ok := a.seen[id]; ok {
		return fmt.Errorf("adding %s: %s is a log of the same run, %s; give one of them", t.Path, earlier, id)
	}
	a.seen[id] = t.Path
	key := aggregateKey{t.Pipeline, t.Attack}
	s := a.summaries[key]
	if s == nil {
		s = &Summary{Pipeline: t.Pipeline, Attack: t.Attack, Classes: map[Class]int{}}
		a.summaries[key] = s
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

// Summaries returns one summary for each pipeline and attack, sorted by these. The
// runs without an injection belong to each attack of their pipeline.
func (a *Aggregate) Summaries() []Summary {
	keys := slices.SortedFunc(maps.Keys(a.summaries), func(a, b aggregateKey) int {
		return cmp.Or(cmp.Compare(a.pipeline, b.pipeline), cmp.Compare(a.attack, b.attack))
	})
	var list []Summary
	for i, k := range keys {
		benign := a.summaries[aggregateKey{k.pipeline, ""}]
		if k.attack == "" && i+1 < len(keys) && keys[i+1].pipeline == k.pipeline {
			continue // it is part of each that follows
		}
		s := Summary{Pipeline: k.pipeline, Attack: k.attack, Classes: map[Class]int{}}
		s.plus(*a.summaries[k])
		if k.attack != "" && benign != nil {
			s.plus(*benign)
		}
		list = append(list, s)
	}
	return list
}
