package harness

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"countersign/attacks"
	"countersign/gateway/api"
	"countersign/results"
)

// TeardownSchema is the version of [TeardownReport] as JSON.
const TeardownSchema = 1

// A CaseResult is what came of a case or of a variant in it.
type CaseResult string

const (
	CasePasses        CaseResult = "passes"        // attacks are blocked, twins complete, exactly the effects that are due
	CaseFails         CaseResult = "fails"         // an attack went through, a twin did not complete, or an effect that was due was not made
	CaseCannotTell    CaseResult = "cannot tell"   // a trial could not be carried out, and none failed
	CaseUnimplemented CaseResult = "unimplemented" // the target says that it lacks a feature that a trial needs, and nothing failed
)

// A TeardownReport is what the cases found out about one target.
type TeardownReport struct {
	Schema int           `json:"schema"` // [TeardownSchema]
	Target string        `json:"target"`
	Name   string        `json:"name,omitempty"`
	Cases  []CaseReport  `json:"cases"`
	Claims []api.Binding `json:"claims"`
}

// A CaseReport is one case.
type CaseReport struct {
	Number    int             `json:"case"`
	Name      string          `json:"name"`
	Title     string          `json:"title"`
	Predicted CaseResult      `json:"predicted"` // passes or fails, from what the target claims
	Result    CaseResult      `json:"result"`
	Variants  []VariantReport `json:"variants"`
}

// A VariantReport sets the gate's answers beside the provider's count of effects,
// over all scenarios.
type VariantReport struct {
	Attack  string       `json:"attack"`
	Variant string       `json:"variant"`
	Kind    results.Kind `json:"kind"`
	Trials  int          `json:"trials"`
	// Log counts what the gate answered, such as "refused by args": to the adversary,
	// or in a twin to anybody.
	Log map[string]int `json:"log"`
	// Due is how many effects were authorised, Made how many the ledger has of the
	// kind that counts.
	Due       int        `json:"due"`
	Made      int        `json:"made"`
	Predicted CaseResult `json:"predicted"`
	Result    CaseResult `json:"result"`
	// Why describes the first trial that did not pass.
	Why string `json:"why,omitempty"`
}

// A tornDown is one trial: its record, what was answered, and how many effects
// with consequences were made.
type tornDown struct {
	results.Record
	log  []string
	made int
}

// Passed counts the cases that pass.
func (r TeardownReport) Passed() (n int) {
	for _, c := range r.Cases {
		if c.Result == CasePasses {
			n++
		}
	}
	return n
}

// ExitCode is 1 if a case fails or comes out otherwise than predicted, else 2 if
// one cannot be told, else 0. What is unimplemented is no failure.
func (r TeardownReport) ExitCode() int {
	code := 0
	for _, c := range r.Cases {
		switch {
		case c.Result == CaseFails, c.Result == CasePasses && c.Predicted == CaseFails:
			return 1
		case c.Result == CaseCannotTell:
			code = 2
		}
	}
	return code
}

// Teardown asks every target of the plan the cases, whatever its families are.
func (p Plan) Teardown(ctx context.Context, cases []attacks.Case) ([]TeardownReport, error) {
	var err error
	if p.Families, err = attacks.Select(cases, p.Families); err != nil {
		return nil, err
	}
	var last Events
	p.Events = func(e Events) error { last = e; return nil }
	trials := map[string][]tornDown{}
	err = p.Run(ctx, func(r results.Record) error {
		if r.Kind != results.Honest {
			trials[r.Target] = append(trials[r.Target], tornDown{r, last.log(), last.made()})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var out []TeardownReport
	for _, t := range p.Targets {
		r := TeardownReport{Schema: TeardownSchema, Target: t.ID, Name: t.Name, Claims: t.Claims}
		for _, c := range cases {
			r.Cases = append(r.Cases, caseReport(c, trials[t.ID]))
		}
		out = append(out, r)
	}
	return out, nil
}

// log lists what the gate answered.
func (e Events) log() []string {
	var out []string
	for _, a := range e.Answers {
		if e.Tampered && !a.Hostile {
			continue
		}
		text := string(a.Status)
		switch {
		case a.Approver:
			text = "declined by the approver"
		case a.Provider != "":
			text += " by the service"
		}
		var by []string
		for _, r := range a.Refusals {
			if !slices.Contains(by, string(r.Binding)) {
				by = append(by, string(r.Binding))
			}
		}
		if len(by) > 0 {
			text += " by " + strings.Join(by, ", ")
		}
		out = append(out, text)
	}
	return out
}

// made counts the effects of the ledger that have consequences.
func (e Events) made() (n int) {
	o := outcome{Events: e}
	for i := range e.History.Effects {
		if o.class(i) == api.ClassConsequential {
			n++
		}
	}
	return n
}

func caseReport(c attacks.Case, trials []tornDown) CaseReport {
	r := CaseReport{Number: c.Number, Name: c.Name, Title: c.Title, Predicted: CasePasses, Result: CasePasses}
	for _, name := range slices.Concat(c.Attacks, c.Twins) {
		v := variantReport(name, trials)
		if v.Trials == 0 {
			continue // it applies to no scenario that was chosen
		}
		r.Variants = append(r.Variants, v)
		r.Predicted, r.Result = worse(r.Predicted, v.Predicted), worse(r.Result, v.Result)
	}
	if len(r.Variants) == 0 {
		r.Result = CaseCannotTell
	}
	return r
}

// worse orders results: a failure outranks what cannot be told, and that what was
// not tried. A case passes if everything in it does.
func worse(a, b CaseResult) CaseResult {
	rank := []CaseResult{CasePasses, CaseUnimplemented, CaseCannotTell, CaseFails}
	if slices.Index(rank, a) > slices.Index(rank, b) {
		return a
	}
	return b
}

func variantReport(name string, trials []tornDown) VariantReport {
	attack, variant, _ := strings.Cut(name, "/")
	v := VariantReport{Attack: attack, Variant: variant, Log: map[string]int{}, Predicted: CasePasses, Result: CasePasses}
	for _, t := range trials {
		if t.Attack != attack || t.Variant != variant {
			continue
		}
		result := CasePasses
		switch {
		case t.Observed == results.Unimplemented:
			result = CaseUnimplemented
		case t.Observed == results.Error:
			result = CaseCannotTell
		case t.Kind == results.Attack && !t.Blocked(), t.Kind == results.Twin && t.Observed != results.Completed:
			result = CaseFails
		}
		if v.Trials == 0 {
			v.Kind = t.Kind
		}
		v.Trials++
		v.Due, v.Made = v.Due+t.ExpectedEffects, v.Made+t.made
		for _, l := range t.log {
			v.Log[l]++
		}
		if result != CasePasses && v.Why == "" {
			v.Why = fmt.Sprintf("%s: %s", t.Scenario, t.Observed)
			if t.Detail != "" {
				v.Why += ": " + t.Detail
			}
			if len(t.Reasons) > 0 {
				v.Why += " (" + strings.Join(t.Reasons, ", ") + ")"
			}
		}
		v.Result = worse(v.Result, result)
		if t.Predicted == results.PredictExecuted {
			v.Predicted = CaseFails
		}
	}
	return v
}
