package harness

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"

	"countersign/attacks"
	"countersign/attacks/referee"
	"countersign/gateway/api"
	"countersign/results"
)

// EventsSchema is the version of the stored events.
const EventsSchema = 1

// Events is what one trial left behind: all that its verdict is made from, and
// its steps for people. Stored events hold no key, permit, assertion or digest,
// and nothing that a target draws at random, so that they repeat byte for byte.
type Events struct {
	Schema   int          `json:"schema"` // [EventsSchema]
	Target   string       `json:"target"`
	Attack   string       `json:"attack"`
	Variant  string       `json:"variant"`
	Kind     results.Kind `json:"kind"`
	Scenario string       `json:"scenario"`
	Approver string       `json:"approver"`
	Seed     uint64       `json:"seed"`
	// Tampered says that the script reached the adversary's step.
	Tampered      bool   `json:"tampered"`
	Prompts       int    `json:"prompts"` // how often an approver was asked
	Unimplemented string `json:"unimplemented,omitempty"`
	Error         string `json:"error,omitempty"` // why the trial could not be carried out
	// Nondeterministic says that callers raced whose order nobody kept.
	Nondeterministic bool             `json:"nondeterministic,omitempty"`
	Answers          []attacks.Answer `json:"answers"`
	Steps            []attacks.Event  `json:"steps"`
	// History is what the referee judges. Tools and people are stored once for
	// each scenario.
	History referee.History `json:"history"`
}

// Verdicts has the referee judge the history.
func (e Events) Verdicts() ([]referee.Verdict, error) { return referee.Judge(e.History) }

// eventsFolder is where a run keeps events.
const eventsFolder = "events"

// eventsFile is events/TARGET/ATTACK-VARIANT-SCENARIO-SEED.json. A target may have
// any name.
func eventsFile(target, attack, variant, scenario string, seed uint64) string {
	return path.Join(eventsFolder, url.PathEscape(target),
		url.PathEscape(strings.Join([]string{attack, variant, scenario, strconv.FormatUint(seed, 10)}, "-"))+".json")
}

func castFile(scenario string) string {
	return path.Join(eventsFolder, url.PathEscape(scenario)+".json")
}

// A castOf is what the referee knows in every trial of a scenario.
type castOf struct {
	Tools  []api.Tool                `json:"tools"`
	People map[string]referee.Person `json:"people"`
}

// Keep returns a function for [Plan.Events] that stores each trial in a file of
// its own, and for each scenario what its trials have in common. write is that of
// the run, such as the method WriteFile of a [results.Writer].
func Keep(write func(name string, data []byte) error) func(Events) error {
	casts := map[string]castOf{}
	store := func(name string, v any) error {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false) // values are stored as they are
		if err := enc.Encode(v); err != nil {
			return fmt.Errorf("storing %s: %w", name, err)
		}
		return write(name, b.Bytes())
	}
	return func(e Events) error {
		cast := castOf{e.History.Tools, e.History.People}
		known, ok := casts[e.Scenario]
		if !ok && cast.Tools != nil { // a trial that did not come to a stage has none
			casts[e.Scenario], known = cast, cast
			if err := store(castFile(e.Scenario), cast); err != nil {
				return err
			}
		}
		if reflect.DeepEqual(cast, known) {
			e.History.Tools, e.History.People = nil, nil
		}
		return store(eventsFile(e.Target, e.Attack, e.Variant, e.Scenario, e.Seed), e)
	}
}

// masked returns a copy without what differs from run to run. Identifiers of
// suspensions become suspension-1, suspension-2, … in the order in which they
// appear, so that equal ones stay equal.
func (e Events) masked() Events {
	m := masker{}
	e.Answers = slices.Clone(e.Answers)
	for i := range e.Answers {
		e.Answers[i].Refusals = m.refusals(e.Answers[i].Refusals)
	}
	e.Steps = slices.Clone(e.Steps)
	for i := range e.Steps {
		s := &e.Steps[i]
		s.Suspension = m.id(s.Suspension)
		if s.View != nil {
			v := m.view(*s.View)
			v.Rendered = nil // the history has it
			s.View = &v
		}
		s.Text, s.Refusals = m.text(s.Text), m.refusals(s.Refusals)
	}
	h := &e.History
	h.Reviews, h.Dispatches, h.Changes = slices.Clone(h.Reviews), slices.Clone(h.Dispatches), slices.Clone(h.Changes)
	for i := range h.Reviews {
		h.Reviews[i].Suspension, h.Reviews[i].View = m.id(h.Reviews[i].Suspension), m.view(h.Reviews[i].View)
	}
	for i := range h.Dispatches {
		h.Dispatches[i].Suspension = m.id(h.Dispatches[i].Suspension)
	}
	for i := range h.Changes {
		if h.Changes[i].Kind == referee.ApprovalRevoked {
			h.Changes[i].Subject = m.id(h.Changes[i].Subject)
		}
	}
	return e
}

// leftOut stands for the digest of a bound view, which holds the identifier of its
// suspension.
const leftOut = "(left out)"

// A masker names identifiers.
type masker map[string]string

func (m masker) id(id string) string {
	if id == "" {
		return ""
	}
	if m[id] == "" {
		m[id] = "suspension-" + strconv.Itoa(len(m)+1)
	}
	return m[id]
}

// text replaces identifiers in running text, where they are too long to be there
// by chance.
func (m masker) text(s string) string {
	for id, name := range m {
		if len(id) >= 16 {
			s = strings.ReplaceAll(s, id, name)
		}
	}
	return s
}

func (m masker) refusals(rs []api.Refusal) []api.Refusal {
	rs = slices.Clone(rs)
	for i := range rs {
		rs[i].Detail = m.text(rs[i].Detail)
	}
	return rs
}

func (m masker) view(v api.View) api.View {
	v.Suspension, v.Title, v.Assertion = m.id(v.Suspension), m.text(v.Title), nil
	if v.Digest != "" {
		v.Digest = leftOut
	}
	v.Fields, v.Notes = slices.Clone(v.Fields), slices.Clone(v.Notes)
	for i := range v.Fields {
		v.Fields[i].Text = m.text(v.Fields[i].Text)
	}
	for i := range v.Notes {
		v.Notes[i] = m.text(v.Notes[i])
	}
	v.Rendered = maps.Clone(v.Rendered)
	for medium, text := range v.Rendered {
		v.Rendered[medium] = m.text(text)
	}
	return v
}

// A Difference is a record that its stored events do not bear out.
type Difference struct {
	Stored, Judged results.Record
}

// Rejudge judges every trial of a run again, from its stored events and its
// catalogue alone, and reports each record that comes out differently. It returns
// how many trials it judged. Errors: the run has no events, or not exactly those of
// its records; a file is malformed or of another trial.
func Rejudge(run *results.Run, report func(Difference) error) (trials int, err error) {
	j := judging{run: run, casts: map[string]castOf{}, baselines: map[string]map[referee.Kind]bool{}}
	root := filepath.Join(run.Dir, eventsFolder)
	if _, err := os.Stat(root); errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("judging run %s: it has no events", run.Dir)
	}
	for r, err := range run.Records() {
		if err != nil {
			return trials, err
		}
		again, err := j.judge(r)
		if err != nil {
			return trials, fmt.Errorf("judging record %q (seed %d): %w", r.Name(), r.Seed, err)
		}
		trials++
		if reflect.DeepEqual(again, r) {
			continue
		}
		if err := report(Difference{r, again}); err != nil {
			return trials, err
		}
	}
	stored := 0
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Dir(name) != root { // those of the scenarios are not in a folder
			stored++
		}
		return err
	})
	switch {
	case err != nil:
		return trials, fmt.Errorf("judging run %s: %w", run.Dir, err)
	case stored != trials:
		return trials, fmt.Errorf("judging run %s: events of %d trials for %d records", run.Dir, stored, trials)
	}
	return trials, nil
}

type judging struct {
	run       *results.Run
	casts     map[string]castOf
	baselines map[string]map[referee.Kind]bool // target, scenario, seed → kinds of the plain run
}

// judge makes a record of stored events.
func (j *judging) judge(r results.Record) (results.Record, error) {
	c, predicted, err := j.criterion(r)
	if err != nil {
		return r, err
	}
	e, err := j.read(r.Target, r.Attack, r.Variant, r.Scenario, r.Seed)
	if err != nil {
		return r, err
	}
	if e.Kind != r.Kind || e.Approver != r.Approver {
		return r, fmt.Errorf("the events are of kind %s with the approver %s", e.Kind, e.Approver)
	}
	key := strings.Join([]string{r.Target, r.Scenario, strconv.FormatUint(r.Seed, 10)}, "\x00")
	out := e.judge()
	if r.Kind == results.Honest {
		j.baselines[key] = out.kinds()
	}
	var failed error
	again := out.record(r, c, func() map[referee.Kind]bool {
		if j.baselines[key] == nil {
			plain, err := j.read(r.Target, HonestAttack, HonestVariant, r.Scenario, r.Seed)
			failed = err
			j.baselines[key] = plain.judge().kinds()
		}
		return j.baselines[key]
	})
	again.Predicted = predicted
	return again, failed
}

// criterion finds in the catalogue what a trial is measured by and what is
// predicted for it.
func (j *judging) criterion(r results.Record) (criterion, results.Prediction, error) {
	if r.Kind == results.Honest {
		return criterion{kind: r.Kind, effects: honest.Effects}, results.PredictCompleted, nil
	}
	v, ok := j.run.Catalogue.Variant(r.Attack, r.Variant, r.Kind)
	sc := slices.IndexFunc(j.run.Catalogue.Scenarios, func(s results.ScenarioInfo) bool { return s.ID == r.Scenario })
	target := slices.IndexFunc(j.run.Catalogue.Targets, func(t results.TargetInfo) bool { return t.ID == r.Target })
	if !ok || sc < 0 || target < 0 {
		return criterion{}, "", errors.New("its target, variant or scenario is not in the catalogue")
	}
	scenario := j.run.Catalogue.Scenarios[sc]
	c := criterion{kind: r.Kind, class: api.ToolClass(v.SuccessOn), effects: v.Effects}
	if r.Kind == results.Twin {
		return c, results.PredictCompleted, nil
	}
	if len(v.Success) == 0 || v.SuccessOn == "" {
		return criterion{}, "", errors.New("the catalogue does not say what counts as success: the run was made by an earlier version")
	}
	for _, text := range v.Success {
		for _, role := range slices.Sorted(maps.Keys(scenario.Fields)) {
			text = strings.ReplaceAll(text, "{"+role+"}", "/"+scenario.Fields[role])
		}
		c.wanted = append(c.wanted, text)
	}
	condition, err := attacks.ParseCondition(v.Condition)
	if err != nil {
		return criterion{}, "", err
	}
	var claims []api.Binding
	for _, b := range j.run.Catalogue.Targets[target].Bindings {
		claims = append(claims, api.Binding(b))
	}
	if condition.Holds(claims, scenario.Guarantee) {
		return c, results.PredictBlocked, nil
	}
	return c, results.PredictExecuted, nil
}

// read reads the events of a trial, with the cast of its scenario.
func (j *judging) read(target, attack, variant, scenario string, seed uint64) (Events, error) {
	e, err := decodeFile(j.run.Dir, eventsFile(target, attack, variant, scenario, seed), parseEvents)
	if err != nil {
		return e, err
	}
	if e.Target != target || e.Attack != attack || e.Variant != variant || e.Scenario != scenario || e.Seed != seed {
		return e, fmt.Errorf("the events are of %s %s/%s %s, seed %d", e.Target, e.Attack, e.Variant, e.Scenario, e.Seed)
	}
	if e.History.Tools == nil && len(e.History.Effects) > 0 {
		cast, ok := j.casts[scenario]
		if !ok {
			if cast, err = decodeFile(j.run.Dir, castFile(scenario), parseCast); err != nil {
				return e, err
			}
			j.casts[scenario] = cast
		}
		e.History.Tools, e.History.People = cast.Tools, cast.People
	}
	return e, nil
}

func decodeFile[T any](dir, name string, parse func([]byte) (T, error)) (v T, err error) {
	data, err := results.ReadPart(dir, name)
	if err != nil {
		return v, err
	}
	if v, err = parse(data); err != nil {
		return v, fmt.Errorf("reading %s: %w", name, err)
	}
	return v, nil
}

// parseEvents reads the events of one trial. A verdict is made from them, so a member
// that is unknown, there twice or in another case is an error.
func parseEvents(data []byte) (Events, error) {
	var e Events
	if err := jsonv2.Unmarshal(data, &e, jsonv2.RejectUnknownMembers(true)); err != nil {
		return Events{}, err
	}
	if e.Schema != EventsSchema {
		return Events{}, fmt.Errorf("the events are of schema %d, this program reads %d", e.Schema, EventsSchema)
	}
	return e, nil
}

// parseCast reads what the trials of a scenario have in common.
func parseCast(data []byte) (castOf, error) {
	var c castOf
	if err := jsonv2.Unmarshal(data, &c, jsonv2.RejectUnknownMembers(true)); err != nil {
		return castOf{}, err
	}
	if len(c.Tools) == 0 {
		return castOf{}, errors.New("a cast without tools")
	}
	return c, nil
}
