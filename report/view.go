package report

import (
	"html/template"

	"countersign/results"
)

// A view holds what the template writes. Its texts are visible, not escaped.
type view struct {
	Name    string
	CSP     string
	CSS     template.CSS
	JS      template.JS
	Verdict []string
	Alarm   bool // something disagrees or cannot be told
	Facts   []fact

	Disagreements, Errors trials

	Targets  []*target
	Groups   []group // of columns; one entry when there is nothing beside the main table
	Families []*family
	Totals   []countRow
	Told     string // which stories there are

	Observations []results.Observation
	Figures      []figure
	Undrawn      []string
	Tables       []table
	Designs      []design
	Scenarios    []scenario
	Words        []glossary
	Methods      template.HTML
	Provenance   []fact
	Inputs, Sums []digest
	Warnings     []warning
	Unfit        []unfit
}

type unfit struct {
	Reason              string
	Pairs               int
	Scenarios, Variants string
}

type fact struct {
	Name, Value string
	Mono        bool
}

type digest struct{ Name, SHA256 string }

// A warning is a sentence, and what it is about.
type warning struct {
	Text  string
	About []string
	More  string // counted and not listed
}

type trials struct {
	Rows []trialRow
	More int // not listed
}

type trialRow struct {
	Target, Variant, Scenario, Kind, Predicted, Observed, RefusedBy, Reasons, Detail, Href string
}

// A target is a column.
type target struct {
	info         results.TargetInfo
	Index        int
	Class        string // on everything about it
	ModelledOn   string
	ID, Name     string
	Label        string // both
	Anchor, Head string // of its description, and of its column in the matrix
}

type group struct {
	Heading string
	Columns int
}

// A count is a link that says k of n.
type count struct {
	Class string // the target's
	Text  string
	Marks string
	Heat  string // class for the share that went wrong
	Href  string
	Label string // for those who do not see row and column
	Codes string // observations, for the filter
}

type countRow struct {
	Name, Title, Href string
	Counts            []count
}

type family struct {
	Class, Anchor, ID, Title, Main string
	Attacks, Twins                 int
	Counts                         []count // in the matrix, linked to Heads
	Heads                          []string
	Grids                          []grid
	Variants                       []*variant
}

type grid struct {
	Heading string
	Rows    []gridRow
}

type gridRow struct {
	Index  int // of the variant on the page
	Name   string
	Href   string
	Counts []count
}

type variant struct {
	Index        int
	Anchor       string
	Name         string
	Twin         bool
	Summary      string
	Condition    string
	AlsoNamed    []string
	Capabilities []word
	References   []reference
	Success      []string
	Effects      int
	Tried        string
	Skips        []skip
	Rows         []outcomeRow
	Tellings     []*telling
}

type word struct{ Name, Means string }

type glossary struct {
	Title  string
	Anchor string
	Words  []word
}

type reference struct{ Text, URL string }

type skip struct{ Reason, Scenarios string }

type outcomeRow struct {
	Class, Anchor, Target, TargetHref      string
	Predicted, Observed, Bad               string
	Disagrees                              bool
	Scenarios, RefusedBy, Reasons, Effects string
	Detail                                 string
	Story                                  string // href
}

// A telling is a story that one target or several have in common.
type telling struct {
	Anchor    string
	Targets   []string
	Indexes   string // of the targets, for the filter
	Scenario  string
	Place     string // href of the scenario
	Seed      uint64
	Observed  results.Observation
	Bad       bool
	Sections  []Section
	Forecasts []forecast
	Notes     []string
	key       string
	own       []Section
	targets   []*target
}

type forecast struct {
	Target, Href string
	Blocks       []Block
}

type figure struct {
	Anchor, Title string
	URL           template.URL
	Width, Height int // in CSS pixels
}

// enlarged is how much larger than in print a figure is on the screen: its smallest
// letters, of 6 points, are then as large as the smallest of the page.
const enlarged = 1.6

type table struct {
	Anchor, Title string
	Header        []string
	Rows          [][]string
	Names         int
	Notes         []string
}

type design struct {
	*target
	Blocks []Block
}

type scenario struct {
	Anchor, ID, Title, Guarantee string
	Fields                       []word
	Blocks                       []Block
}
