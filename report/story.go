package report

// A Story tells one trial, step by step. Its texts are data: whoever writes them
// out makes them safe for the form.
type Story struct {
	Title    string
	Sections []Section
}

// A Section is a part of a story under a heading.
type Section struct {
	Heading string
	Blocks  []Block
}

// A Block is a paragraph, and lines below it that keep their form.
type Block struct {
	Step    int  // numbered from 1; 0 for none
	Hostile bool // the adversary's doing, or its consequence
	Text    string
	Lines   []string
	// Of says which other stories have the same block.
	Of Scope
}

// A Scope is what a block of a story is about. A page with many stories says once
// what is about more than one of them.
type Scope string

const (
	OfTrial    Scope = ""         // this trial
	OfScenario Scope = "scenario" // the scenario
	OfTarget   Scope = "target"   // the design
	OfVariant  Scope = "variant"  // the attack or the twin
	OfForecast Scope = "forecast" // what is predicted of this design for this variant, and why
)

// of returns the blocks with a scope, without empty sections.
func (s Story) of(scope Scope) []Section {
	var out []Section
	for _, sec := range s.Sections {
		var blocks []Block
		for _, b := range sec.Blocks {
			if b.Of == scope {
				blocks = append(blocks, b)
			}
		}
		if blocks != nil {
			out = append(out, Section{sec.Heading, blocks})
		}
	}
	return out
}
