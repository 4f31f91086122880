package main

import (
	"context"
	"fmt"
	"html/template"
	"io"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"countersign/attacks"
	"countersign/attacks/harness"
	"countersign/attacks/referee"
	"countersign/gateway/api"
	"countersign/gateway/viewing"
	"countersign/modes"
	"countersign/report"
	"countersign/results"
	"countersign/results/export"
	"countersign/scenarios"
)

func newExplain() *cobra.Command {
	var place string
	var seed uint64
	var html bool
	var c composing
	cmd := &cobra.Command{
		Use:   "explain MODE ATTACK[/VARIANT]",
		Short: "Tell the story of one trial, step by step",
		Long: `Explain makes one trial and tells what happened: what was asked for, what the
approver was shown and decided, what the adversary changed, what was presented,
which checks refused and why, what was executed, what the referee says, and why
that was predicted. ATTACK is a family (its first variant), a variant or benign
twin as AB1/NAME, or "honest" for the plain run of a scenario.

The exit code is that of the trial: 1 if it contradicts its prediction, 2 if it
could not be carried out, else 0.`,
		Example: `  countersign explain M1 AB1
  countersign explain M9 AB1/quantity_raised_in_the_queue --scenario refunds
  countersign explain M9-args AB1 --html > story.html
  countersign explain mine AB4 --compose mine=record,args,once,mediated`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return hint(fmt.Errorf("explain wants a mode and an attack, and was given %d arguments", len(args)), "such as: countersign explain M1 AB1")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			table, _, err := c.table()
			if err != nil {
				return err
			}
			m, err := table.Get(args[0])
			if err != nil {
				return hint(err, "countersign modes lists them with their bindings")
			}
			f, v, err := oneVariant(args[1])
			if err != nil {
				return err
			}
			sc, err := placeFor(v, place)
			if err != nil {
				return err
			}
			record, plain, events, err := oneTrial(cmd.Context(), m, f, v, sc, seed)
			if err != nil {
				return err
			}
			story, err := tell(m, f, v, sc, record, plain, events)
			if err != nil {
				return err
			}
			write := story.text
			if html {
				write = story.html
			}
			if err := write(cmd.OutOrStdout()); err != nil {
				return err
			}
			switch {
			case record.Disagrees():
				return exitCode(1)
			case record.Uncertain():
				return exitCode(2)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&place, "scenario", "", "the scenario (default: payments, or the first to which the variant applies)")
	cmd.Flags().Uint64Var(&seed, "seed", 1, "seed of the scenario's values")
	cmd.Flags().BoolVar(&html, "html", false, "print a page of HTML")
	c.flags(cmd)
	return cmd
}

// plainRun stands for the trial without an attack.
var plainRun = attacks.Variant{Name: harness.HonestVariant, Summary: "one call, approved and executed"}

// oneVariant finds the variant, or twin, that a name means.
func oneVariant(name string) (attacks.Family, attacks.Variant, error) {
	if strings.EqualFold(name, harness.HonestAttack) {
		return attacks.Family{ID: harness.HonestAttack}, plainRun, nil
	}
	fs, err := selectFamilies([]string{name})
	if err != nil {
		return attacks.Family{}, attacks.Variant{}, err
	}
	_, variant, single := strings.Cut(name, "/")
	for _, v := range slices.Concat(fs[0].Variants, fs[0].Twins) {
		if !single || v.Name == variant {
			return fs[0], v, nil
		}
	}
	panic("explain: a selected variant is not there: " + name)
}

// usualScenario is the one that is told of unless something speaks against it.
const usualScenario = "payments"

// placeFor finds a scenario to which a variant applies.
func placeFor(v attacks.Variant, name string) (*scenarios.Scenario, error) {
	if name != "" {
		sc, err := scenario(name)
		if err != nil {
			return nil, err
		}
		if why := v.NotApplicable(sc); why != "" {
			return nil, fmt.Errorf("%s does not apply to the scenario %s: %s", v.Name, sc.ID, why)
		}
		return sc, nil
	}
	all := scenarios.All()
	slices.SortStableFunc(all, func(a, b *scenarios.Scenario) int {
		return map[string]int{usualScenario: -1}[a.ID] - map[string]int{usualScenario: -1}[b.ID]
	})
	for _, sc := range all {
		if v.NotApplicable(sc) == "" {
			return sc, nil
		}
	}
	return nil, fmt.Errorf("%s applies to no scenario", v.Name)
}

// oneTrial makes a trial and returns its record, that of the plain run, and what
// the trial left behind.
func oneTrial(ctx context.Context, m modes.Mode, f attacks.Family, v attacks.Variant, sc *scenarios.Scenario, seed uint64) (record, plain results.Record, events harness.Events, err error) {
	only := func(all []attacks.Variant) []attacks.Variant {
		return slices.DeleteFunc(slices.Clone(all), func(x attacks.Variant) bool { return x.Name != v.Name })
	}
	f.Variants, f.Twins = only(f.Variants), only(f.Twins)
	p := harness.Plan{
		Targets:  []harness.Target{target(m)},
		Families: []attacks.Family{f}, Scenarios: []*scenarios.Scenario{sc}, Seeds: []uint64{seed}, Approver: matrixApprover(), Parallel: 1,
	}
	if err := p.Prepare(ctx); err != nil {
		return record, plain, events, err
	}
	var last harness.Events
	p.Events = func(e harness.Events) error { last = e; return nil }
	err = p.Run(ctx, func(r results.Record) error {
		if r.Kind == results.Honest {
			plain = r
		}
		if r.Attack == f.ID && r.Variant == v.Name {
			record, events = r, last
		}
		return nil
	})
	if err == nil && record.Variant == "" {
		err = fmt.Errorf("%s/%s was not tried", f.ID, v.Name)
	}
	return record, plain, events, err
}

// A story is what explain prints, in any form. Its texts are safe to print.
type (
	story   report.Story
	section = report.Section
	block   = report.Block
)

// tell makes a story of a trial.
func tell(m modes.Mode, f attacks.Family, v attacks.Variant, sc *scenarios.Scenario, r, plain results.Record, e harness.Events) (story, error) {
	s := story{Title: fmt.Sprintf("%s against %s/%s in the scenario %s, seed %d", label(m), f.ID, v.Name, sc.ID, r.Seed)}
	add := func(heading string, blocks ...block) {
		s.Sections = append(s.Sections, section{Heading: heading, Blocks: blocks})
	}

	add("The situation", block{Text: sentence(sc.Story), Of: report.OfScenario})
	about := label(m) + ": " + m.Title
	if m.ModelledOn != "" {
		about += ", modelled on " + m.ModelledOn
	}
	design := block{Of: report.OfTarget, Text: about + ". It makes these checks between an approval and what is executed:"}
	for _, b := range m.Bindings.List() {
		design.Lines = append(design.Lines, string(b)+": "+bindingText[b])
	}
	if design.Lines == nil {
		design.Text = fmt.Sprintf("%s: %s. It makes no check between an approval and what is executed.", label(m), m.Title)
	}
	add("The design", design)
	switch r.Kind {
	case results.Attack:
		add("The attack", append([]block{{Of: report.OfVariant, Text: fmt.Sprintf("%s, %s: %s.", f.ID, f.Title, v.Summary)}, abilities(v)}, prediction(m, v, sc)...)...)
	case results.Twin:
		add("The benign twin", block{Of: report.OfVariant, Text: fmt.Sprintf("Nobody attacks here. Like an attack of %s (%s), but honest throughout: %s. Every design has to let it through, or it would be safe by being useless.",
			f.ID, f.Title, v.Summary)})
	default:
		add("The plain run", block{Of: report.OfVariant, Text: "Nobody attacks here: " + v.Summary + "."})
	}

	var steps []block
	var executed attacks.Event
	decided := false
	for _, ev := range e.Steps {
		decided = decided || ev.Kind == attacks.EventDecided
		b := tellStep(ev, sc, decided)
		if ev.Kind == attacks.EventExecuted {
			if reflect.DeepEqual(ev.Values, executed.Values) && ev.Text == executed.Text {
				b.Text, b.Lines = "The service executes the same once more.", nil
			}
			executed = ev
		}
		if b.Text != "" {
			if ev.Kind != attacks.EventTampered {
				b.Step = 1 + len(slices.DeleteFunc(slices.Clone(steps), func(b block) bool { return b.Step == 0 }))
			}
			steps = append(steps, b)
		}
	}
	add("What happened", steps...)

	verdicts, err := e.Verdicts()
	if err != nil {
		return story{}, err
	}
	judged := judgement(e, verdicts)
	if r.Kind == results.Attack && len(verdicts) > 0 {
		judged = append(judged, block{Text: "This attack has succeeded if an effect has one of these reasons, whatever else is wrong with it: " +
			strings.Join(v.Successes(sc), ", ") + "."})
	}
	if text := uncounted(r, plain, v.Successes(sc)); text != "" {
		judged = append(judged, block{Text: text})
	}
	add("What the referee says", judged...)
	add("What came of it", block{Text: conclusion(r)})
	return s, nil
}

func abilities(v attacks.Variant) block {
	b := block{Of: report.OfVariant, Text: "For it the adversary can:"}
	for _, u := range v.Uses {
		text := capabilityText[u]
		if text == "" {
			text = string(u)
		}
		b.Lines = append(b.Lines, text)
	}
	return b
}

// prediction says what is expected, and why.
func prediction(m modes.Mode, v attacks.Variant, sc *scenarios.Scenario) []block {
	tool, _ := sc.Tool(sc.HonestTool)
	b := block{Of: report.OfForecast, Text: fmt.Sprintf("It is stopped by: %s. Of these, %s", v.Stopped, m.ID)}
	for _, x := range v.Stopped.Bindings() {
		line := "has no "
		if m.Has(x) {
			line = "has "
		}
		b.Lines = append(b.Lines, line+string(x)+": "+bindingText[x])
	}
	if strings.Contains(v.Stopped.String(), "@") {
		b.Lines = append(b.Lines, "and the service is @"+string(tool.Guarantee)+", as to duplicates")
	}
	if v.StoppedBy(m.Bindings.List(), sc) {
		return []block{b, {Of: report.OfForecast, Text: "That satisfies the condition. Predicted: blocked."}}
	}
	return []block{b, {Of: report.OfForecast, Text: "That does not satisfy the condition. Predicted: executed."}}
}

// tellStep tells one event; no text for what needs no telling.
func tellStep(e attacks.Event, sc *scenarios.Scenario, decided bool) block {
	b := block{Hostile: e.Hostile}
	say := func(format string, args ...any) { b.Text = fmt.Sprintf(format, args...) }
	switch e.Kind {
	case attacks.EventProposed:
		say("%s asks for approval of %s (run %s, step %s, call %s), with the arguments", e.Who, toolName(e.Call, sc), e.Call.Run, e.Call.Step, e.Call.Call)
		b.Lines = argumentLines(e.Call.Arguments)
	case attacks.EventSuspended:
		switch e.State {
		case api.StatePending:
			say("The gate holds the call until somebody decides.")
		case api.StateGranted:
			say("The gate asks nobody: an earlier approval covers the call.")
		case api.StateExempt:
			say("The gate asks nobody: in this design the call needs no approval.")
		case api.StateHeld:
			say("The gate holds the call: an equal one before it is not settled yet.")
		}
	case attacks.EventShown:
		where := ""
		if e.Text != "" {
			where = ", in a medium of the kind \"" + e.Text + "\","
		}
		say("%s reads%s", e.Who, where)
		b.Lines = strings.Split(strings.TrimSuffix(viewing.Text(*e.View), "\n"), "\n")
		b.Text = export.Visible(b.Text)
		return b // a rendered view is harmless, and its marks are part of it
	case attacks.EventDecided:
		what := "approves"
		if e.Verdict == api.Decline {
			what = "declines"
		}
		say("%s %s", e.Who, what)
		if e.Text != "" {
			b.Text += ": " + e.Text
		}
		b.Text += "."
	case attacks.EventTampered:
		say("Here the adversary comes in.")
	case attacks.EventDispatched:
		say("The worker of %s presents %s to the gate", e.Who, toolName(e.Call, sc))
		if e.Text != "" {
			say("%s calls %s, %s, with the arguments", e.Who, toolName(e.Call, sc), e.Text)
			b.Lines = argumentLines(e.Call.Arguments)
			break
		}
		collected := "collected after the decision"
		if !decided {
			collected = "proposed; nobody has decided on it"
		}
		if len(e.Changed) == 0 {
			b.Text += ", as it was " + collected + "."
			break
		}
		b.Text += ". This is not what was " + collected + ":"
		b.Lines = e.Changed
	case attacks.EventAnswered:
		status := string(e.Status)
		if e.Text != "" {
			status += " (" + e.Text + ")"
		}
		say("%s answers: %s.", capital(e.Who), status)
		for _, r := range e.Refusals {
			line := fmt.Sprintf("%s refuses (%s)", r.Binding, r.Code)
			if r.Detail != "" {
				line += ": " + r.Detail
			}
			if text := bindingText[r.Binding]; text != "" {
				line += ". " + string(r.Binding) + " is this check: " + text
			}
			b.Lines = append(b.Lines, line)
		}
	case attacks.EventExecuted:
		say("The service executes %s, with", e.Text)
		for _, path := range sortedPaths(e.Values) {
			b.Lines = append(b.Lines, strings.TrimPrefix(path, "/")+" = "+string(e.Values[path]))
		}
	default:
		say("%s %s.", capital(e.Who), e.Text)
	}
	b.Text = export.Visible(b.Text)
	for i := range b.Lines {
		b.Lines[i] = shortened(export.Visible(b.Lines[i]))
	}
	return b
}

// longest is how many characters of a value are told.
const longest = 2000

func shortened(s string) string {
	r := []rune(s)
	if len(r) <= longest {
		return s
	}
	return fmt.Sprintf("%s… and %d more characters", string(r[:longest]), len(r)-longest)
}

func sortedPaths(v api.Values) []string {
	var out []string
	for p := range v {
		out = append(out, p)
	}
	slices.Sort(out)
	return out
}

// toolName is "Pay a supplier (create_payment at payments.example)".
func toolName(c *attacks.Sent, sc *scenarios.Scenario) string {
	for _, t := range sc.ToolTable() {
		if t.Audience == c.Audience && t.Name == c.Tool {
			return fmt.Sprintf("%q (%s at %s)", t.Title, c.Tool, c.Audience)
		}
	}
	return c.Tool + " at " + c.Audience
}

// argumentLines writes members one below the other, and any other text as it is.
func argumentLines(text string) []string {
	args, err := attacks.ParseArguments([]byte(text))
	if err != nil || len(args) == 0 {
		return []string{text}
	}
	var out []string
	for _, m := range args {
		out = append(out, m.Name+" = "+string(m.Value))
	}
	return out
}

func judgement(e harness.Events, verdicts []referee.Verdict) []block {
	out := []block{{Text: "The referee compares the service's ledger with what the approver was shown and decided. It does not ask the gate."}}
	if len(verdicts) == 0 {
		return append(out, block{Text: "No effect was made, so there is nothing to object to."})
	}
	for i, v := range verdicts {
		effect := e.History.Effects[v.Effect]
		b := block{Text: fmt.Sprintf("Effect %d, %s at %s: ", i+1, effect.Tool, effect.Audience)}
		if v.Authorised() {
			b.Text += "authorised. An eligible person approved exactly this, on a view that showed it, for this call and for the first time, and authority still held."
		} else {
			b.Text += "not authorised, because"
		}
		var kinds []referee.Kind
		about := map[referee.Kind][]string{}
		for _, r := range v.Reasons {
			if !slices.Contains(kinds, r.Kind) {
				kinds = append(kinds, r.Kind)
			}
			if r.About != "" {
				about[r.Kind] = append(about[r.Kind], r.About)
			}
		}
		for _, k := range kinds {
			line := string(k) + ": " + reasonText[k]
			if about[k] != nil {
				line += ": " + strings.Join(about[k], ", ")
			}
			b.Lines = append(b.Lines, export.Visible(line))
		}
		b.Text = export.Visible(b.Text)
		out = append(out, b)
	}
	return out
}

// uncounted says why reasons that make an effect unauthorised do not decide the
// trial: the plain run has them too, or they are not what the variant tries.
func uncounted(r, plain results.Record, wanted []string) string {
	var usual, beside []string
	kindOf := func(reason string) string { kind, _, _ := strings.Cut(reason, ":"); return kind }
	for _, reason := range r.Reasons {
		kind := kindOf(reason)
		if r.Kind == results.Attack && (slices.Contains(wanted, kind) || slices.Contains(wanted, reason)) {
			continue
		}
		list := &beside
		if slices.ContainsFunc(plain.Reasons, func(p string) bool { return kindOf(p) == kind }) {
			list = &usual
		}
		if !slices.Contains(*list, kind) {
			*list = append(*list, kind)
		}
	}
	var out []string
	if len(usual) > 0 {
		out = append(out, fmt.Sprintf("Not counted: %s. The plain run of this design has it too, without any attack: a design that shows a summary, for example, always hides something.",
			strings.Join(usual, ", ")))
	}
	if len(beside) > 0 && r.Kind == results.Attack {
		out = append(out, fmt.Sprintf("Reported and not counted: %s. It is not what this variant tries; others do.", strings.Join(beside, ", ")))
	}
	return strings.Join(out, " ")
}

func conclusion(r results.Record) string {
	s := "The trial ends as " + string(r.Observed)
	if r.Detail != "" {
		s += " (" + export.Visible(r.Detail) + ")"
	}
	switch {
	case r.Observed == results.Error:
		s += ": it could not be carried out, and says nothing about the design"
	case r.Observed == results.Unimplemented:
		s += ": the target does not have what this trial needs"
	case r.Disagrees():
		s += ". Predicted was " + string(r.Predicted) + ": the prediction is wrong, or the design does not do what it says"
	case r.Blocked():
		s += ", which counts as blocked, as predicted"
	default:
		s += ", as predicted"
	}
	if r.Kind == results.Attack && r.Observed == results.Executed {
		s += ". The attack has succeeded: an effect was made that nobody had authorised as it was"
	}
	return s + "."
}

func sentence(s string) string {
	if s = strings.Join(strings.Fields(s), " "); s != "" && !strings.HasSuffix(s, ".") {
		s += "."
	}
	return s
}

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// storyWidth is where the text form breaks paragraphs, in characters.
const storyWidth = 100

func (s story) text(w io.Writer) error {
	var b strings.Builder
	b.WriteString(s.Title + "\n")
	for _, sec := range s.Sections {
		b.WriteString("\n" + strings.ToUpper(sec.Heading) + "\n")
		for _, k := range sec.Blocks {
			mark, indent := "", "  "
			if k.Step > 0 {
				mark, indent = fmt.Sprintf("%3d. ", k.Step), "     "
			}
			if k.Hostile && k.Step > 0 {
				mark, indent = fmt.Sprintf("%3d! ", k.Step), "     "
			}
			paragraph(&b, mark, indent, k.Text)
			for _, line := range k.Lines {
				paragraph(&b, indent+"  - ", indent+"    ", line)
			}
		}
	}
	if slices.ContainsFunc(s.Sections, func(sec section) bool {
		return slices.ContainsFunc(sec.Blocks, func(k block) bool { return k.Hostile && k.Step > 0 })
	}) {
		b.WriteString("\n  !: the adversary's doing, or an answer to it\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// paragraph breaks text between words. A word too long for a line stays whole.
func paragraph(b *strings.Builder, mark, indent, text string) {
	if mark == "" {
		mark = indent
	}
	line := mark
	for i, word := range strings.Split(text, " ") { // a run of spaces may be what it is about
		if i > 0 && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > storyWidth {
			b.WriteString(line + "\n")
			line = indent + word
			continue
		}
		if i > 0 {
			line += " "
		}
		line += word
	}
	b.WriteString(line + "\n")
}

var page = template.Must(template.New("story").Parse(`<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{{.Title}}</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 50em; margin: 2em auto; padding: 0 1em; color: #1a1a1a; background: #fff; }
h1 { font-size: 1.4em; } h2 { font-size: 1.1em; margin-top: 1.8em; }
ul { margin: .2em 0 .8em; } li.line { font-family: ui-monospace, monospace; font-size: .9em; overflow-wrap: anywhere; white-space: pre-wrap; }
.hostile { border-left: 4px solid #b00020; padding-left: .8em; }
</style>
<h1>{{.Title}}</h1>
{{range .Sections}}<h2>{{.Heading}}</h2>
{{range .Blocks}}<div{{if .Hostile}} class="hostile"{{end}}>
<p>{{if .Step}}<b>{{.Step}}.</b> {{end}}{{.Text}}</p>
{{if .Lines}}<ul>
{{range .Lines}}<li class="line">{{.}}</li>
{{end}}</ul>
{{end}}</div>
{{end}}{{end}}</html>
`))

func (s story) html(w io.Writer) error { return page.Execute(w, s) }

// bindingText says what each check compares, in a line.
var bindingText = map[api.Binding]string{
	api.BindArgs:       "the arguments sent are the arguments reviewed, by digest",
	api.BindRefs:       "what a name or id stands for is looked up before the review and must be the same when it is executed",
	api.BindRender:     "the person is shown all of the very data that are executed, with nothing hidden in it",
	api.BindStrict:     "only arguments that every program reads alike are taken",
	api.BindRecord:     "the decision is read from the approval store, not from the message",
	api.BindSigned:     "the permit has the gateway's signature",
	api.BindSender:     "the caller proves that it has the agent's key",
	api.BindAttest:     "an enrolled approver's passkey has signed",
	api.BindChallenge:  "what the passkey signed is this very approval",
	api.BindAgent:      "the agent that executes is the one that asked",
	api.BindDuties:     "the approver is neither the agent nor the person it acts for, and may approve; where several have to, they are as many people",
	api.BindAudience:   "the service called is the service approved",
	api.BindConnector:  "the tool called is the tool approved",
	api.BindRun:        "the approval is for this run of the agent",
	api.BindCall:       "the approval is for this call",
	api.BindSuspension: "the approval is for the newest request of this call",
	api.BindExpiry:     "the approval's time has come and is not over",
	api.BindOnline:     "agent, approver, policy and risk are still what they were, asked when it is executed",
	api.BindSeen:       "an approval that this instance has seen is not taken again",
	api.BindOnce:       "an approval is spent in shared state, once, by whoever comes first",
	api.BindClosed:     "when something that has to be asked does not answer, the call waits",
	api.BindMediated:   "the service takes calls from the gate alone, and the gate decides from its own table what needs approval",
	api.BindPerCall:    "every call is checked by itself, not a whole resumed step",
	api.BindSteer:      "changes of data that steer later calls need approval too",
	api.BindIdem:       "a call is sent again only under the same key, and what is unclear is looked up first",
}

var capabilityText = map[attacks.Capability]string{
	attacks.UseText:    "choose text that the agent acts on",
	attacks.UseDisplay: "choose free text that will be shown to the approver",
	attacks.UseQueue:   "read, change, copy and delay messages between the approval and its execution",
	attacks.UseRef:     "change the data that a name or id stands for, or profit from their change",
	attacks.UsePeer:    "run another service that shares keys with this one",
	attacks.UseClient:  "call every public address as an agent that is logged in",
	attacks.UseDelay:   "make calls wait",
	attacks.UseNet:     "lose, delay and repeat what the network carries between gate and service",
	attacks.UseFault:   "make the store, the policy or the audit log fail, or crash a process",
	attacks.UseClock:   "move or remove a clock",
	attacks.UsePerson:  "be a person who is enrolled, but may not approve this",
}

var reasonText = map[referee.Kind]string{
	referee.Content:      "it differs from the action that was under review",
	referee.Shown:        "what was executed is not what the approver could see",
	referee.Who:          "who approved may not approve this",
	referee.Origin:       "it was approved for another place of the work",
	referee.Spent:        "the approval had served an earlier effect",
	referee.Stale:        "authority no longer held",
	referee.Unverifiable: "something that had to be asked was down",
	referee.None:         "nobody had approved anything",
}
