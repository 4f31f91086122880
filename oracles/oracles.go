// Package oracles holds simulated approvers. Each is a small model of a person,
// in a file of its own, with its limits stated there. A model sees a
// [countersign/gateway/api.View] and what the person wants, and nothing else of
// the action.
//
// What an approver misses is a property of the model. Results are conditional on
// it and are no rates for people.
package oracles

import (
	"slices"
	"strings"

	"countersign/gateway/api"
)

// An Intent is what the person wants: any one of these actions.
type Intent struct {
	Wants []Want
}

// A Want is one action the person wants. Empty strings say that the person has no
// expectation of that member.
type Want struct {
	Title          string // of the view
	Audience, Tool string
	// Values holds the plain display text of every value, by path as in
	// [api.Values]: a string without quotes, a number or truth value as JSON, a
	// list joined with ", ". It may hold that of a line such as "#uses", too.
	Values map[string]string
	// Free marks the paths whose value the person does not care about.
	Free map[string]bool
	// Masks holds the text that stands for a secret in a bound view, by path, as
	// the person was told when entering it (see [api.SecretText]).
	Masks map[string]string
}

// A Reading is an approver's answer to a view.
type Reading struct {
	Verdict api.Verdict
	// Characters is how many characters the approver read, as seen: invisible
	// ones do not count and a run of white space counts as one.
	Characters int
	Why        string // one sentence
}

// An Approver is a model of a person who is asked. Decide is a pure function, or
// says in its documentation on what else it depends.
type Approver interface {
	// Name is the stable name of the model in records and on the command line.
	Name() string
	Decide(v api.View, in Intent) Reading
}

var registered = map[string]Approver{}

// register enters a model, from the file that defines it.
func register(a Approver) struct{} {
	if _, taken := registered[a.Name()]; taken {
		panic("oracles: two approvers are called " + a.Name())
	}
	registered[a.Name()] = a
	return struct{}{}
}

// All returns every approver, sorted by name.
func All() []Approver {
	all := make([]Approver, 0, len(registered))
	for _, a := range registered {
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b Approver) int { return strings.Compare(a.Name(), b.Name()) })
	return all
}

// Named returns the approver called name.
func Named(name string) (Approver, bool) {
	a, ok := registered[name]
	return a, ok
}

// length is the number of characters of a view as seen.
func length(v api.View) int {
	n := seen(v.Title)
	for _, f := range v.Fields {
		n += seen(f.Label) + seen(f.Text)
	}
	for _, note := range v.Notes {
		n += seen(note)
	}
	return n
}
