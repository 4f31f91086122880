package attacks

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"countersign/gateway/api"
	"countersign/scenarios"
)

// A Kind says where a row of the traceability table comes from.
type Kind string

const (
	KindCase     Kind = "case"     // a case of the teardown
	KindGap      Kind = "gap"      // one of the seven gaps between approval and execution
	KindItem     Kind = "item"     // an item of the checklist for who builds a gate, or a part of one
	KindIncident Kind = "incident" // a public report
)

// A Column is what a row is traced to.
type Column string

const (
	ColAttacks   Column = "attacks"   // variants, as "AB1/name"
	ColTwins     Column = "twins"     // benign twins, as "AB1/name"
	ColBlocked   Column = "blocked"   // designs that are predicted to block all the attacks
	ColThrough   Column = "through"   // designs that are predicted to let some through, with how many
	ColIncidents Column = "incidents" // public reports that the attacks and twins cite
	ColTests     Column = "tests"     // Go tests, by name
	ColAlerts    Column = "alerts"    // alerts that some of the attacks must raise
	ColClaims    Column = "claims"    // of an incident: the other rows in which it is
)

// Columns returns the columns that rows of a kind have. None of their cells may be
// empty without a reason.
func (k Kind) Columns() []Column {
	if k == KindIncident {
		return []Column{ColAttacks, ColTwins, ColBlocked, ColThrough, ColTests, ColClaims}
	}
	return []Column{ColAttacks, ColTwins, ColBlocked, ColThrough, ColIncidents, ColTests, ColAlerts}
}

// A Row is one line of the traceability table.
type Row struct {
	Kind  Kind                `json:"kind"`
	Name  string              `json:"name"` // of its kind alone
	Text  string              `json:"text"`
	Cells map[Column][]string `json:"cells"`
	// None says why a cell is empty.
	None map[Column]string `json:"none_because,omitempty"`
}

// A Design is an approval design as a prediction knows it.
type Design struct {
	ID       string
	Bindings []api.Binding
}

// An Alarm says which attacks must raise an alert: [api.AlertTwice] in the designs
// that let them through, the others in the reference design, which refuses them.
// The twins are the honest calls most like them, and raise none.
type Alarm struct {
	Alert          api.Alert
	Attacks, Twins []string // as "AB1/name"
}

// Alarms returns what is known of each alert.
func Alarms() []Alarm { return slices.Clone(alarms) }

var alarms = []Alarm{
	{
		Alert: api.AlertHash,
		Attacks: []string{
			"AB1/quantity_raised_in_the_queue", "AB1/text_changed_and_the_permit_edited_to_match",
			"AB9/standing_approval_of_one_call_used_for_other_arguments", "AB9/sibling_call_rides_on_the_resume",
		},
		Twins: []string{"AB1/same_arguments_in_another_order_and_with_white_space"},
	},
	{
		Alert: api.AlertSpent,
		Attacks: []string{
			"AB4/presented_by_eight_workers_at_once", "AB7/gates_answer_lost_and_dispatched_again_with_a_fresh_request_id",
			"AB7/same_decision_sent_twice_and_dispatched_for_each",
		},
		Twins: []string{"AB4/second_call_with_an_approval_of_its_own"},
	},
	{
		Alert:   api.AlertAudience,
		Attacks: []string{"AB5/presented_at_a_sibling_service_with_the_same_key", "AB5/approval_for_staging_presented_in_production"},
		Twins:   []string{"AB5/presented_at_its_own_service_beside_a_sibling_call"},
	},
	{
		Alert:   api.AlertTwice,
		Attacks: []string{"AB4/presented_to_two_instances_over_one_store", "AB7/answer_lost_and_sent_again_below_the_gate"},
		Twins:   []string{"AB4/five_identical_calls_each_with_its_own_approval", "AB7/sent_again_after_a_lost_request"},
	},
}

// A claim is what a row is made from. Everything else in the row is derived: from
// the catalogue, the incidents, the designs and the alarms.
type claim struct {
	kind  Kind
	name  string
	text  string // of a case: its title
	picks []pick // of a case: what it names
	tests []string
	none  map[Column]string
}

// Why cells are empty where everything is honest, or nothing.
const (
	allowed     = "every design has to let it pass"
	refusedGood = "it is about an honest call that was refused"
	passedBad   = "it is about an attack that went through"
)

// A pick selects attacks and twins. One that selects nothing is an error.
type pick struct {
	what string
	has  func(f Family, v Variant) bool
}

func picks[T any](what string, list []T, has func(T, Family, Variant) bool) (out []pick) {
	for _, x := range list {
		out = append(out, pick{fmt.Sprintf("%s %v", what, x), func(f Family, v Variant) bool { return has(x, f, v) }})
	}
	return out
}

// in selects families.
func in(ids ...string) []pick {
	return picks("family", ids, func(id string, f Family, _ Variant) bool { return f.ID == id })
}

// needs selects the attacks in whose condition a binding is.
func needs(bs ...api.Binding) []pick {
	return picks("binding", bs, func(b api.Binding, _ Family, v Variant) bool { return slices.Contains(v.Stopped.Bindings(), b) })
}

// using selects the attacks with a capability.
func using(cs ...Capability) []pick {
	return picks("capability", cs, func(c Capability, _ Family, v Variant) bool { return slices.Contains(v.Uses, c) })
}

// called selects by regular expressions over names.
func called(patterns ...string) []pick {
	var list []*regexp.Regexp
	for _, p := range patterns {
		list = append(list, regexp.MustCompile(p))
	}
	return picks("name", list, func(p *regexp.Regexp, _ Family, v Variant) bool { return p.MatchString(v.Name) })
}

// named selects by name, as "AB1/name".
func named(names ...string) []pick {
	return picks("variant", names, func(n string, f Family, v Variant) bool { return f.ID+"/"+v.Name == n })
}

// Why an alert is not to be expected.
const (
	logged = "none of the alerts is about this: the line of the decision or the call names the binding that refused or held it"
	drifts = "records change honestly, too: the call is asked again, and the view shows what the reference means by then"
	unseen = "the gate cannot know what a person took a text for: the view shows it, and the person declines"
)

var claims = []claim{
	{kind: KindCase, name: "argument_changed", tests: []string{"TestEachCheckRefusesAlone", "TestSendsCanonical"}},
	{
		kind: KindCase, name: "reference_changed", tests: []string{"TestEveryKindOfReferenceDrifts", "TestReask"},
		none: map[Column]string{ColAlerts: drifts},
	},
	{
		kind: KindCase, name: "view_misleads", tests: []string{"TestNothingLooksLikeAnotherValue", "TestViewShowsAll"},
		none: map[Column]string{ColAlerts: unseen},
	},
	{kind: KindCase, name: "presented_at_once", tests: []string{"TestWorkers", "TestProcesses", "TestScheduledRace"}},
	{
		kind: KindCase, name: "sibling_service", tests: []string{"TestForgedPermits", "TestAlerts"},
		none: map[Column]string{ColIncidents: "no report of the survey is about a permit that went to a service with the same key"},
	},
	{
		kind: KindCase, name: "authority_ended", tests: []string{"TestDisabledAgent", "TestPolicyChangedAndChangedBack", "TestAuthorityEndsBeforeTheSend"},
		none: map[Column]string{ColAlerts: logged},
	},
	{
		kind: KindCase, name: "store_unavailable", tests: []string{"TestStoreFails", "TestDependenciesDown"},
		none: map[Column]string{ColIncidents: "no report of the survey is about a store that was down", ColAlerts: logged},
	},
	{
		kind: KindCase, name: "answer_lost", tests: []string{"TestLostAnswers", "TestCrashes", "TestRetryReturnsTheFirstResult"},
		none: map[Column]string{ColTwins: "honest retries are the next case"},
	},
	{
		kind: KindCase, name: "honest_calls_pass", tests: []string{"TestHonestFlow", "TestNoTwinRaisesAnAlert"},
		none: map[Column]string{
			ColAttacks: "everything in it is honest", ColBlocked: allowed, ColThrough: allowed,
			ColIncidents: "no report of the survey is about a gate that refused these", ColAlerts: "none may be raised",
		},
	},

	{
		kind: KindGap, name: "argument substitution", text: "what is executed has other arguments than what was approved, or another reading of the same text",
		picks: in("AB1", "AB11"), tests: []string{"TestEachCheckRefusesAlone", "TestAcceptedReadsAlike", "TestFieldIncidents", "TestMachine"},
	},
	{
		kind: KindGap, name: "render mismatch", text: "what was shown is not what was approved", picks: in("AB2"),
		tests: []string{"TestViewShowsAll", "TestDifferentActionsHaveDifferentViews", "TestNoTwoValuesLookAlike", "TestExactlyTheFieldsAreSeen"},
		none:  map[Column]string{ColAlerts: unseen},
	},
	{
		kind: KindGap, name: "reference drift", text: "a name in the call means something else than at review", picks: in("AB3"),
		tests: []string{"TestEveryKindOfReferenceDrifts", "TestReask", "TestReaskShowsWhatIsNow"},
		none:  map[Column]string{ColAlerts: drifts},
	},
	{
		kind: KindGap, name: "replay", text: "one approval is presented more than once", picks: in("AB4"),
		tests: []string{"TestWorkers", "TestProcesses", "TestScheduledRace", "TestMachine"},
	},
	{
		kind: KindGap, name: "cross-audience reuse", text: "an approval for one service is presented at another", picks: in("AB5"),
		tests: []string{"TestEachCheckRefusesAlone", "TestOwnership", "TestAlerts"},
	},
	{
		kind: KindGap, name: "stale authority", text: "what authorised the call ended before it was executed", picks: in("AB6"),
		tests: []string{"TestAuthorityEndsBeforeTheSend", "TestDisabledAgent", "TestReconcilesOnlyWithAuthority", "TestMachine"},
		none:  map[Column]string{ColAlerts: logged},
	},
	{
		kind: KindGap, name: "retry duplication", text: "a retry repeats an effect whose outcome was not known", picks: in("AB7"),
		tests: []string{"TestLostAnswers", "TestCrashes", "TestRequestStillUnderWay", "TestRetryReturnsTheFirstResult"},
	},

	{
		kind: KindItem, name: "1 decision and authority", text: "decision and authority are separate objects: a yes or a no runs nothing, and several of them authorise no more than one",
		picks: called("same_decision", "never_decided", "nobody_decided", "late_decision", "decision_lost", "decided_again", "before_the_decision", "declined_and", "two_people", "first_stage"),
		tests: []string{"TestOneDecision", "TestDecidedAtOnce", "TestDeclined", "TestStages"},
	},
	{
		kind: KindItem, name: "2 from the store", text: "authority is derived from the store, never transported: what the worker brings along is compared and not believed",
		picks: slices.Concat(needs(api.BindRecord), called("^honest_resume", "rebuilt_from_its_known_members")),
		tests: []string{"TestForgedPermits", "TestDecisionIsStored", "TestEachCheckRefusesAlone"},
	},
	{
		kind: KindItem, name: "3 tool boundary", text: "authority is enforced for each call, where the tool is called",
		picks: slices.Concat(needs(api.BindPerCall, api.BindMediated), called("^three_parallel_calls")),
		tests: []string{"TestSiblings", "TestSiblingsAreChecked", "TestGating", "TestReadCoversNothing"},
	},
	{
		kind: KindItem, name: "4a exact suspension", text: "an approval is scoped to the exact suspension",
		picks: slices.Concat(in("AB9"), needs(api.BindRun, api.BindCall, api.BindSuspension)),
		tests: []string{"TestPlacesOfOthers", "TestTwoProposalsOfOneCall", "TestEachCheckRefusesAlone"},
	},
	{
		kind: KindItem, name: "4b spent once", text: "an approval is spent once, whoever presents it and wherever",
		picks: slices.Concat(in("AB4"), needs(api.BindSeen, api.BindOnce)),
		tests: []string{"TestWorkers", "TestProcesses", "TestClaimPrecedesTheEffect"},
	},
	{
		kind: KindItem, name: "4c run-wide", text: "an approval covers a run only where the approver has opted for that",
		picks: called("run_wide", "^standing_approval", "each_with_its_own_approval$"),
		tests: []string{"TestRunWideOnlyByOptIn", "TestRunWideIsForEqualCalls", "TestRunWideEnds", "TestRunWideWorkers", "TestCovered"},
	},
	{
		kind: KindItem, name: "5 fails closed", text: "what cannot be checked, read or written holds the call",
		picks: slices.Concat(in("AB12"), needs(api.BindClosed)),
		tests: []string{"TestDependenciesDown", "TestStoreFails", "TestLogFails", "TestCheckThatPanics"},
		none:  map[Column]string{ColAlerts: logged},
	},
	{
		kind: KindItem, name: "6a faithful preview", text: "a dry run shows faithfully what the call would do, references resolved",
		picks: slices.Concat(in("AB2"), needs(api.BindRender)),
		tests: []string{"TestViewIsBound", "TestViewShowsAll", "TestMedia", "TestReaskShowsWhatIsNow"},
		none:  map[Column]string{ColAlerts: unseen},
	},
	{
		kind: KindItem, name: "6b exempt dry run", text: "a dry run is exempt from the gate, and nothing that has an effect passes for one",
		picks: called("dry_run", "read_only", "beside_a_read", "never_decided", "^looked_at_many_times"),
		tests: []string{"TestGating", "TestReadCoversNothing", "TestSafeMethodsChangeNothing"},
		none:  map[Column]string{ColAlerts: logged},
	},
	{
		kind: KindItem, name: "7a self-approval", text: "who asks, or acts for whoever asks, does not decide",
		picks: slices.Concat(in("AB10"), needs(api.BindDuties)),
		tests: []string{"TestDuties", "TestSubagents", "TestOptOut", "TestOnePersonTwoStages", "TestApproverWhoCannotBeLookedUp"},
		none:  map[Column]string{ColAlerts: logged},
	},
	{
		kind: KindItem, name: "7b one clock", text: "one clock decides, and it does not run back",
		picks: slices.Concat(using(UseClock), needs(api.BindExpiry), called("just_before_the_end$")),
		tests: []string{"TestClockSetBack", "TestLatestTimeIsKept", "TestProvidersClockIsBehind"},
		none:  map[Column]string{ColAlerts: logged},
	},
}

// Trace makes the table: cases, gaps and items in the order of the claims, then the
// incidents. The error names whatever is amiss: a cell that is empty without a
// reason, or has both; a selection of nothing; and each variant, twin, incident, case
// and alert that is in no row.
func Trace(fs []Family, designs []Design) ([]Row, error) {
	return tracing{fs, designs}.table(claims, Teardown(), Reproductions(fs), alarms)
}

// A tracing is what cells are derived from.
type tracing struct {
	families []Family
	designs  []Design
}

func (t tracing) table(claims []claim, cases []Case, incidents []Reproduction, alarms []Alarm) ([]Row, error) {
	var rows []Row
	var amiss []error
	wrong := func(format string, args ...any) { amiss = append(amiss, fmt.Errorf("traceability: "+format, args...)) }
	for _, c := range claims {
		if c.kind == KindCase {
			i := slices.IndexFunc(cases, func(x Case) bool { return x.Name == c.name })
			if i < 0 {
				wrong("the teardown has no case %s", c.name)
				continue
			}
			c.text, c.picks = cases[i].Title, named(slices.Concat(cases[i].Attacks, cases[i].Twins)...)
		}
		for _, p := range c.picks {
			if attacks, twins := t.chosen(p); len(attacks)+len(twins) == 0 {
				wrong("%s %q: there is no %s", c.kind, c.name, p.what)
			}
		}
		r := t.row(c)
		for _, a := range alarms {
			if overlap(a.Attacks, r.Cells[ColAttacks]) {
				r.Cells[ColAlerts] = append(r.Cells[ColAlerts], string(a.Alert))
			}
		}
		for _, i := range incidents {
			if overlap(i.Variants, r.Cells[ColAttacks]) || overlap(i.Twins, r.Cells[ColTwins]) || overlap(i.Tests, r.Cells[ColTests]) {
				r.Cells[ColIncidents] = append(r.Cells[ColIncidents], strconv.Itoa(i.Number))
			}
		}
		rows = append(rows, r)
	}
	attacks, twins := t.chosen(pick{has: func(Family, Variant) bool { return true }})
	for _, x := range []struct {
		column Column
		want   []string
	}{{ColAttacks, namesOf(attacks)}, {ColTwins, namesOf(twins)}, {ColAlerts, alertNames()}} {
		for _, name := range x.want {
			if !slices.ContainsFunc(rows, func(r Row) bool { return slices.Contains(r.Cells[x.column], name) }) {
				wrong("no row has %s among its %s", name, x.column)
			}
		}
	}
	for _, c := range cases {
		if !slices.ContainsFunc(rows, func(r Row) bool { return r.Kind == KindCase && r.Name == c.Name }) {
			wrong("no row is the case %s", c.Name)
		}
	}
	for _, a := range alarms {
		for _, name := range slices.Concat(a.Attacks, a.Twins) {
			if attacks, twins := t.chosen(named(name)...); len(attacks)+len(twins) == 0 {
				wrong("alert %q: there is no variant %s", a.Alert, name)
			}
		}
	}
	for _, i := range incidents {
		rows = append(rows, t.incident(i, rows))
	}
	for i, r := range rows {
		if slices.ContainsFunc(rows[:i], func(x Row) bool { return x.Kind == r.Kind && x.Name == r.Name }) {
			wrong("%s %q is there twice", r.Kind, r.Name)
		}
		for _, c := range r.Kind.Columns() {
			switch n, why := len(r.Cells[c]), r.None[c]; {
			case n == 0 && why == "":
				wrong("%s %q: nothing under %s", r.Kind, r.Name, c)
			case n > 0 && why != "":
				wrong("%s %q: %v under %s, and a reason for nothing: %s", r.Kind, r.Name, r.Cells[c], c, why)
			}
		}
	}
	return rows, errors.Join(amiss...)
}

// An entry is a variant with its name in the catalogue.
type entry struct {
	name string // "AB1/name"
	Variant
}

func namesOf(es []entry) (out []string) {
	for _, e := range es {
		out = append(out, e.name)
	}
	return out
}

// chosen returns what any of the picks selects, in the order of the catalogue.
func (t tracing) chosen(ps ...pick) (attacks, twins []entry) {
	for _, f := range t.families {
		for _, x := range []struct {
			from []Variant
			to   *[]entry
		}{{f.Variants, &attacks}, {f.Twins, &twins}} {
			for _, v := range x.from {
				if slices.ContainsFunc(ps, func(p pick) bool { return p.has(f, v) }) {
					*x.to = append(*x.to, entry{f.ID + "/" + v.Name, v})
				}
			}
		}
	}
	return attacks, twins
}

// row fills in what follows from a claim's picks and the designs.
func (t tracing) row(c claim) Row {
	attacks, twins := t.chosen(c.picks...)
	r := Row{Kind: c.kind, Name: c.name, Text: c.text, None: c.none, Cells: map[Column][]string{}}
	for column, cell := range map[Column][]string{ColAttacks: namesOf(attacks), ColTwins: namesOf(twins), ColTests: c.tests} {
		if len(cell) > 0 {
			r.Cells[column] = cell
		}
	}
	for _, d := range t.designs {
		through := 0
		for _, a := range attacks {
			if a.passes(d) {
				through++
			}
		}
		switch {
		case len(attacks) == 0:
		case through == 0:
			r.Cells[ColBlocked] = append(r.Cells[ColBlocked], d.ID)
		default:
			r.Cells[ColThrough] = append(r.Cells[ColThrough], fmt.Sprintf("%s %d/%d", d.ID, through, len(attacks)))
		}
	}
	return r
}

// passes reports whether a design is predicted to let the attack through in some
// scenario.
func (e entry) passes(d Design) bool {
	return slices.ContainsFunc(scenarios.All(), func(sc *scenarios.Scenario) bool {
		return e.NotApplicable(sc) == "" && !e.StoppedBy(d.Bindings, sc)
	})
}

// matrixTest is the test that tries every variant and twin.
const matrixTest = "TestMatrix"

// incident makes the row of an incident from its reproductions and the rows of the
// claims.
func (t tracing) incident(i Reproduction, rows []Row) Row {
	c := claim{
		kind: KindIncident, name: strconv.Itoa(i.Number), text: i.Title, tests: slices.Clone(i.Tests), none: map[Column]string{},
		picks: []pick{{has: func(_ Family, v Variant) bool { return slices.Contains(v.References, i.Cite()) }}},
	}
	if len(i.Variants)+len(i.Twins) > 0 {
		c.tests = append(c.tests, matrixTest)
	}
	switch {
	case i.Why != "":
		for _, column := range c.kind.Columns() {
			c.none[column] = i.Why
		}
	case i.Honest:
		c.none[ColAttacks], c.none[ColBlocked], c.none[ColThrough] = refusedGood, allowed, allowed
	case len(i.Twins) == 0:
		c.none[ColTwins] = passedBad
	}
	r := t.row(c)
	for _, x := range rows {
		if slices.Contains(x.Cells[ColIncidents], c.name) {
			r.Cells[ColClaims] = append(r.Cells[ColClaims], fmt.Sprintf("%s %s", x.Kind, x.Name))
		}
	}
	return r
}

func overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(x string) bool { return slices.Contains(b, x) })
}

func alertNames() (out []string) {
	for _, a := range api.Alerts() {
		out = append(out, string(a))
	}
	return out
}
