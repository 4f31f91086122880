package report

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"

	"countersign/results"
	"countersign/results/export"
	"countersign/results/stats"
)

const (
	mostTrials = 200 // rows of a list of trials
	mostNames  = 40  // names below a warning
)

// A builder makes a view.
type builder struct {
	d         *Data
	x         Extras
	ids       anchors
	v         *view
	targets   map[string]*target
	scenarios map[string]*scenario
	places    []string // ids of scenarios in the order of the catalogue
	stories   map[string]string
	about     map[*target][]Block
	situation map[string][]Block
	untold    map[string][]string
}

// statics are the ids that the template writes itself.
var statics = []string{"top", "main", "filters", "f-outcome", "f-shown", "disagreements", "errors", "matrix", "families", "figures", "statistics",
	"undrawn", "designs", "all-designs", "all-scenarios", "words", "methods", "provenance", "warnings"}

func (d *Data) view(x Extras) (*view, error) {
	b := &builder{d: d, x: x, ids: anchors{}, v: &view{Name: visible(x.Name), Observations: results.Observations()},
		targets: map[string]*target{}, scenarios: map[string]*scenario{}, stories: map[string]string{},
		about: map[*target][]Block{}, situation: map[string][]Block{}, untold: map[string][]string{}}
	for _, id := range statics {
		b.ids[id] = true
	}
	b.columns()
	b.scenes()
	b.families()
	b.totals()
	b.lists()
	b.summary()
	b.describe()
	b.draw()
	b.tables()
	b.words()
	b.provenance()
	b.warnings()
	if len(x.Methods) > 0 {
		var err error
		if b.v.Methods, err = methods(x.Methods, b.ids); err != nil {
			return nil, fmt.Errorf("methods: %w", err)
		}
	}
	return b.v, nil
}

func (b *builder) columns() {
	rows := slices.Clone(b.d.Analysis.Rows)
	slices.SortStableFunc(rows, func(x, y results.Row) int { return min(len(x.Target.Group), 1) - min(len(y.Target.Group), 1) })
	for i, r := range rows {
		t := &target{info: r.Target, Index: i, ModelledOn: visible(r.Target.ModelledOn), Class: "m" + strconv.Itoa(i), ID: visible(r.Target.ID), Name: visible(r.Target.Name)}
		t.Label = t.ID
		if t.Name != "" && t.Name != t.ID {
			t.Label += " " + t.Name
		} else {
			t.Name = ""
		}
		t.Anchor, t.Head = b.ids.id("design", r.Target.ID), b.ids.id("matrix", r.Target.ID)
		b.targets[r.Target.ID] = t
		b.v.Targets = append(b.v.Targets, t)
		if n := len(b.v.Groups); n > 0 && b.v.Groups[n-1].Heading == visible(r.Target.Group) {
			b.v.Groups[n-1].Columns++
		} else {
			b.v.Groups = append(b.v.Groups, group{visible(r.Target.Group), 1})
		}
	}
}

func (b *builder) scenes() {
	for _, s := range b.d.Run.Catalogue.Scenarios {
		v := &scenario{Anchor: b.ids.id("scenario", s.ID), ID: visible(s.ID), Title: visible(s.Title), Guarantee: visible(s.Guarantee)}
		for _, role := range sortedKeys(s.Fields) {
			v.Fields = append(v.Fields, word{visible(role), visible(s.Fields[role])})
		}
		b.scenarios[s.ID] = v
		b.places = append(b.places, s.ID)
	}
}

func href(id string) string { return "#" + id }

// heat is the class for a share: 0 for none, then four steps to all.
func heat(k, n int) string {
	switch {
	case n == 0 || k == 0:
		return ""
	case k == n:
		return "h4"
	}
	return "h" + strconv.Itoa(1+min(2, 3*k/n))
}

func (b *builder) families() {
	at := 0
	for i, f := range b.d.Analysis.Attacks {
		fam := &family{Class: "f" + strconv.Itoa(i), ID: visible(f.ID), Title: visible(f.Title), Main: visible(f.MainBinding), Anchor: b.ids.id(f.ID)}
		for range b.v.Targets {
			fam.Heads = append(fam.Heads, b.ids.id(f.ID, b.v.Targets[len(fam.Heads)].info.ID))
		}
		var attacks, twins grid
		attacks.Heading, twins.Heading = "Attack variants", "Benign twins"
		for _, v := range f.Variants {
			w := b.variant(f, v, at)
			at++
			fam.Variants = append(fam.Variants, w)
			row := gridRow{Index: w.Index, Name: w.Name, Href: href(w.Anchor)}
			for _, t := range b.v.Targets {
				row.Counts = append(row.Counts, b.count(f, v, w, t))
			}
			if v.Kind == results.Attack {
				fam.Attacks++
				attacks.Rows = append(attacks.Rows, row)
			} else {
				fam.Twins++
				twins.Rows = append(twins.Rows, row)
			}
		}
		for _, g := range []grid{attacks, twins} {
			if len(g.Rows) > 0 {
				fam.Grids = append(fam.Grids, g)
			}
		}
		for j, t := range b.v.Targets {
			r := b.row(t)
			c := r.Cells[slices.IndexFunc(r.Cells, func(c results.Cell) bool { return c.Attack == f.ID })]
			n := tally(c.Success, true)
			n.Class, n.Href = t.Class, href(fam.Heads[j])
			against := 0
			for _, v := range f.Variants {
				if c := b.d.cells[cellKey{t.info.ID, f.ID, v.Name, v.Kind}]; c != nil && v.Kind == results.Attack && c.gravest().disagrees {
					against++
				}
			}
			if against > 0 {
				n.Marks = strings.TrimSpace(fmt.Sprintf("≠%d %s", against, n.Marks))
			}
			n.Label = fmt.Sprintf("%s, %s %s: %s attack variants executed", t.Label, fam.ID, fam.Title, n.Text)
			fam.Counts = append(fam.Counts, n)
		}
		b.v.Families = append(b.v.Families, fam)
	}
}

func (b *builder) row(t *target) results.Row {
	return b.d.Analysis.Rows[slices.IndexFunc(b.d.Analysis.Rows, func(r results.Row) bool { return r.Target.ID == t.info.ID })]
}

// tally writes a count of variants, and beside it what is not in it.
func tally(y results.Tally, bad bool) count {
	c := count{Text: fmt.Sprintf("%d/%d", y.K, y.N), Heat: heat(y.K, y.N)}
	if !bad {
		c.Heat = heat(y.N-y.K, y.N)
	}
	if y.N == 0 {
		c.Text = "–"
	}
	var marks []string
	for _, m := range []struct {
		sign string
		n    int
	}{{"?", y.Errors}, {"u", y.Unimplemented}, {"s", y.Starved}, {"~", y.Nondeterministic}} {
		if m.n > 0 {
			marks = append(marks, m.sign+strconv.Itoa(m.n))
		}
	}
	c.Marks = strings.Join(marks, " ")
	return c
}

func (b *builder) totals() {
	rows := []countRow{{Name: "All attacks", Title: "variants executed"}, {Name: "Benign twins", Title: "completed everywhere"}, {Name: "Plain runs", Title: "scenarios completed"}}
	for _, t := range b.v.Targets {
		r := b.row(t)
		for i, c := range []count{tally(r.Success, true), tally(r.Benign, false), tally(r.Honest, false)} {
			c.Class = t.Class
			rows[i].Counts = append(rows[i].Counts, c)
		}
	}
	b.v.Totals = rows
}

// count is a cell of a family's grid: in how many scenarios an attack executed, or
// a twin completed.
func (b *builder) count(f results.AttackInfo, v results.VariantInfo, w *variant, t *target) count {
	c := b.d.cells[cellKey{t.info.ID, f.ID, v.Name, v.Kind}]
	out := count{Class: t.Class, Text: "–"}
	if c == nil {
		return out
	}
	k, n := c.count(v.Kind)
	done, bad := "executed", k
	if v.Kind != results.Attack {
		done, bad = "completed", n-k
	}
	if n > 0 {
		out.Text, out.Heat = fmt.Sprintf("%d/%d", k, n), heat(bad, n)
	}
	var codes, marks []string
	note := func(list *[]string, s string) {
		if !slices.Contains(*list, s) {
			*list = append(*list, s)
		}
	}
	for _, o := range c.outcomes {
		note(&codes, string(o.first.Observed))
		if o.disagrees {
			note(&codes, "disagreement")
			note(&marks, "≠")
		}
		if o.first.Nondeterministic {
			note(&marks, "~")
		}
		if o.first.Observed == results.Unimplemented {
			note(&marks, "u")
		}
		if o.first.Observed == results.Starved {
			note(&marks, "s")
		}
		if o.first.Uncertain() {
			note(&marks, "?")
		}
	}
	out.Codes, out.Marks = strings.Join(codes, " "), strings.Join(marks, "")
	out.Href = b.stories[storyKey(c.gravest().first)]
	if out.Href == "" {
		out.Href = b.stories["row\x00"+storyKey(c.gravest().first)]
	}
	out.Label = fmt.Sprintf("%s, %s: %s in %s scenarios", t.ID, w.Name, done, out.Text)
	return out
}

func (b *builder) variant(f results.AttackInfo, v results.VariantInfo, index int) *variant {
	name := []string{f.ID, v.Name}
	if v.Kind == results.Twin {
		name = []string{f.ID, "twin", v.Name}
	}
	w := &variant{Index: index, Anchor: b.ids.id(name...), Name: visible(v.Name), Twin: v.Kind == results.Twin, Summary: visible(v.Summary),
		Condition: visible(v.Condition), AlsoNamed: allVisible(v.AlsoNamed), Success: allVisible(v.Success), Effects: v.Effects}
	for _, u := range v.Capabilities {
		w.Capabilities = append(w.Capabilities, word{visible(u), visible(b.x.Words.Capabilities[u])})
	}
	for _, r := range v.References {
		w.References = append(w.References, reference{visible(r), web(r)})
	}
	b.applies(f, v, w)
	for _, t := range b.v.Targets {
		c := b.d.cells[cellKey{t.info.ID, f.ID, v.Name, v.Kind}]
		if c == nil {
			continue
		}
		for i, o := range c.outcomes {
			b.tell(w, t, o, name)
			row := outcomeRowOf(t, c, o)
			if i == 0 {
				row.Anchor = b.ids.id(append(slices.Clone(name), t.info.ID)...)
			} else {
				row.Anchor = b.ids.id(append(slices.Clone(name), t.info.ID, string(o.first.Observed))...)
			}
			b.stories["row\x00"+storyKey(o.first)] = href(row.Anchor)
			w.Rows = append(w.Rows, row)
		}
	}
	for i, l := range w.Tellings {
		for _, t := range l.targets {
			if !slices.Contains(l.Targets, t.ID) {
				l.Targets = append(l.Targets, t.ID)
			}
			l.Indexes = strings.TrimSpace(l.Indexes + " " + strconv.Itoa(t.Index))
		}
		w.Tellings[i].Sections = cleaned(l.own)
	}
	// Where a telling stands is known only now that its targets are.
	for i := range w.Rows {
		w.Rows[i].Story = b.stories[w.Rows[i].Story]
	}
	return w
}

// applies says where a variant was tried and why not elsewhere.
func (b *builder) applies(f results.AttackInfo, v results.VariantInfo, w *variant) {
	tried := map[string]bool{}
	for _, t := range b.v.Targets {
		if c := b.d.cells[cellKey{t.info.ID, f.ID, v.Name, v.Kind}]; c != nil {
			for s := range c.scenarios {
				tried[s] = true
			}
		}
	}
	var names []string
	for _, s := range b.places {
		if tried[s] {
			names = append(names, visible(s))
		}
	}
	w.Tried = fmt.Sprintf("%d of %s", len(names), plural(len(b.places), "scenario"))
	if len(names) > 0 && len(names) < len(b.places) {
		w.Tried += ": " + strings.Join(names, ", ")
	}
	for _, s := range b.d.Run.Catalogue.NotApplicable {
		if s.Attack != f.ID || s.Variant != v.Name || tried[s.Scenario] {
			continue
		}
		reason := visible(s.Reason)
		i := slices.IndexFunc(w.Skips, func(k skip) bool { return k.Reason == reason })
		if i < 0 {
			w.Skips = append(w.Skips, skip{reason, visible(s.Scenario)})
		} else if !slices.Contains(strings.Split(w.Skips[i].Scenarios, ", "), visible(s.Scenario)) {
			w.Skips[i].Scenarios += ", " + visible(s.Scenario)
		}
	}
}

func outcomeRowOf(t *target, c *cell, o *outcome) outcomeRow {
	r := o.first
	row := outcomeRow{Class: t.Class, Target: t.Label, TargetHref: href(t.Anchor), Predicted: string(r.Predicted), Observed: string(r.Observed),
		Disagrees: o.disagrees, RefusedBy: strings.Join(allVisible(r.RefusedBy), ", "), Reasons: strings.Join(allVisible(sortedKeys(o.reasons)), ", "), Story: storyKey(r)}
	if o.gravity() > 0 {
		row.Bad = "bad"
	}
	if len(o.scenarios) == len(c.scenarios) {
		row.Scenarios = "all " + strconv.Itoa(len(o.scenarios))
		if len(o.scenarios) == 1 {
			row.Scenarios = visible(o.scenarios[0])
		}
	} else {
		row.Scenarios = strings.Join(allVisible(o.scenarios), ", ")
	}
	if o.trials != len(o.scenarios) {
		row.Scenarios += fmt.Sprintf(" (%s)", plural(o.trials, "trial"))
	}
	row.Effects = strconv.Itoa(o.effects[0])
	if o.effects[1] != o.effects[0] {
		row.Effects += "–" + strconv.Itoa(o.effects[1])
	}
	row.Detail = visible(r.Detail)
	if r.Nondeterministic {
		row.Observed += " ~"
	}
	return row
}

// tell adds the story of a trial to those of its variant, once for all targets that
// it is the same for.
func (b *builder) tell(w *variant, t *target, o *outcome, name []string) {
	r := o.first
	s, ok := b.x.Stories[storyKey(r)]
	if !ok {
		return
	}
	if s.Missing != "" {
		b.untold[s.Missing] = append(b.untold[s.Missing], r.Name())
		return
	}
	if b.about[t] == nil {
		b.about[t] = blocks(s.Story.of(OfTarget))
	}
	if b.situation[r.Scenario] == nil {
		b.situation[r.Scenario] = blocks(s.Story.of(OfScenario))
	}
	own := s.Story.of(OfTrial)
	text, err := json.Marshal(own)
	if err != nil {
		panic(err) // strings and numbers
	}
	key := fmt.Sprintf("%s\x00%d\x00%s\x00%s", r.Scenario, r.Seed, s.Differs, text)
	i := slices.IndexFunc(w.Tellings, func(l *telling) bool { return l.key == key })
	if i < 0 {
		i = len(w.Tellings)
		l := &telling{key: key, own: own, Scenario: visible(r.Scenario), Seed: r.Seed, Observed: r.Observed, Bad: o.gravity() > 0,
			Anchor: b.ids.id(append(slices.Clone(name), t.info.ID, r.Scenario)...)}
		if p := b.scenarios[r.Scenario]; p != nil {
			l.Place = href(p.Anchor)
		}
		if s.Differs != "" {
			l.Notes = append(l.Notes, "Made again for this report, the trial is not the one recorded: "+visible(s.Differs)+". The program or a scenario is not that of the run.")
		}
		w.Tellings = append(w.Tellings, l)
	}
	l := w.Tellings[i]
	l.targets = append(l.targets, t)
	if why := blocks(s.Story.of(OfForecast)); why != nil {
		l.Forecasts = append(l.Forecasts, forecast{t.Label, href(t.Anchor), why})
	}
	b.stories[storyKey(r)] = href(l.Anchor)
}

// blocks are those of all sections, with their texts visible.
func blocks(sections []Section) (out []Block) {
	for _, s := range cleaned(sections) {
		out = append(out, s.Blocks...)
	}
	return out
}

// cleaned makes the texts of sections visible.
func cleaned(sections []Section) []Section {
	out := make([]Section, 0, len(sections))
	for _, s := range sections {
		n := Section{Heading: told(s.Heading)}
		for _, k := range s.Blocks {
			k.Text = told(k.Text)
			lines := k.Lines
			k.Lines = nil
			for _, line := range lines {
				k.Lines = append(k.Lines, told(line))
			}
			n.Blocks = append(n.Blocks, k)
		}
		out = append(out, n)
	}
	return out
}

func (b *builder) lists() {
	list := func(records []results.Record) (out trials) {
		for i, r := range records {
			if i == mostTrials {
				out.More = len(records) - mostTrials
				break
			}
			row := trialRow{Target: visible(r.Target), Variant: visible(r.Attack + "/" + r.Variant), Scenario: visible(r.Scenario), Kind: string(r.Kind),
				Predicted: string(r.Predicted), Observed: string(r.Observed), RefusedBy: strings.Join(allVisible(r.RefusedBy), ", "),
				Reasons: strings.Join(allVisible(r.Reasons), ", "), Detail: visible(r.Detail)}
			row.Href = b.stories[storyKey(r)]
			if row.Href == "" { // another trial of the same outcome is told
				if c := b.d.cells[keyOf(r)]; c != nil {
					row.Href = b.stories["row\x00"+storyKey(c.gravest().first)]
				}
			}
			out.Rows = append(out.Rows, row)
		}
		return out
	}
	b.v.Disagreements, b.v.Errors = list(b.d.Analysis.Disagreements), list(b.d.Analysis.Errors)
}

func (b *builder) summary() {
	a := b.d.Analysis
	attacks, twins := 0, 0
	for _, f := range b.v.Families {
		attacks, twins = attacks+f.Attacks, twins+f.Twins
	}
	say := func(format string, args ...any) { b.v.Verdict = append(b.v.Verdict, fmt.Sprintf(format, args...)) }
	conclusive := a.Records - len(a.Errors) - b.d.Run.Manifest.Observed[string(results.Unimplemented)]
	b.v.Alarm = len(a.Disagreements)+len(a.Errors) > 0
	if len(a.Disagreements) == 0 {
		say("In all %s with an outcome, what was measured is what the bindings of the design predict.", plural(conclusive, "trial"))
	} else {
		say("%s of %s contradict what the bindings of the design predict.", thousands(len(a.Disagreements)), plural(conclusive, "trial"))
	}
	if n := len(a.Errors); n > 0 {
		say("%s could not be carried out and say nothing.", plural(n, "trial"))
	}
	add := func(name string, n int) { b.v.Facts = append(b.v.Facts, fact{Name: name, Value: thousands(n)}) }
	add("trials", a.Records)
	add("designs", len(b.v.Targets))
	add("attack families", len(b.v.Families))
	add("attack variants", attacks)
	add("benign twins", twins)
	add("scenarios", len(b.places))
	add("disagreements", len(a.Disagreements))
	add("cannot tell", len(a.Errors))

	tellings, of := 0, 0
	for _, f := range b.v.Families {
		for _, w := range f.Variants {
			tellings += len(w.Tellings)
			for _, l := range w.Tellings {
				of += len(l.targets)
			}
		}
	}
	switch {
	case of == 0:
		b.v.Told = "This report has no stories of trials; countersign explain MODE ATTACK/VARIANT tells one."
	default:
		b.v.Told = fmt.Sprintf("Of each outcome of a variant against a design one trial is told: %s, in %s where designs behave alike.",
			plural(of, "trial"), plural(tellings, "story"))
		if b.x.Choice == Reference {
			b.v.Told = fmt.Sprintf("Of each outcome of a variant against %s one trial is told (%s), and so is what contradicts its prediction.",
				strings.Join(allVisible(b.d.contrast()), " and "), plural(of, "trial"))
		}
	}
}

func (b *builder) describe() {
	for _, t := range b.v.Targets {
		d := design{target: t, Blocks: b.about[t]}
		if d.Blocks == nil {
			k := Block{Text: t.Label}
			k.Text += " claims these bindings:"
			for _, x := range t.info.Bindings {
				line := visible(x)
				if m := b.x.Words.Bindings[x]; m != "" {
					line += ": " + visible(m)
				}
				k.Lines = append(k.Lines, line)
			}
			if k.Lines == nil {
				k.Text = t.Label + " claims no binding."
			}
			d.Blocks = []Block{k}
		}
		b.v.Designs = append(b.v.Designs, d)
	}
	for _, id := range b.places {
		s := *b.scenarios[id]
		s.Blocks = b.situation[id]
		b.v.Scenarios = append(b.v.Scenarios, s)
	}
}

func (b *builder) draw() {
	for _, f := range b.x.Figures {
		if f.Missing != "" {
			b.v.Undrawn = append(b.v.Undrawn, capital(visible(f.Title))+": "+visible(f.Missing))
			continue
		}
		// As a picture of its own, so that its styles need no leave of the page's policy.
		const pixels = enlarged * 96 / 72 // a point
		b.v.Figures = append(b.v.Figures, figure{b.ids.id("figure", f.Name), capital(visible(f.Title)),
			template.URL("data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString(f.SVG)), int(f.Width * pixels), int(f.Height * pixels)})
	}
}

// shownElsewhere are the tables of the analysis that the report has in its own form.
var shownElsewhere = []string{"disagreements", "errors", "success", "benign", "not-applicable", "remarks"}

func (b *builder) tables() {
	for _, t := range (export.Document{Analysis: b.d.Analysis, More: b.x.Tables}).Tables() {
		if slices.Contains(shownElsewhere, t.Name) {
			continue
		}
		n := table{Anchor: b.ids.id("table", t.Name), Title: visible(t.Title), Header: allVisible(t.Header), Names: t.Names, Notes: allVisible(t.Notes)}
		for _, r := range t.Rows {
			n.Rows = append(n.Rows, allVisible(r))
		}
		b.v.Tables = append(b.v.Tables, n)
	}
}

func (b *builder) words() {
	for _, g := range []struct {
		title string
		words map[string]string
	}{{"Bindings", b.x.Words.Bindings}, {"What the adversary can do", b.x.Words.Capabilities}, {"What the referee finds", b.x.Words.Reasons}} {
		n := glossary{Title: g.title, Anchor: b.ids.id("words", g.title)}
		for _, k := range sortedKeys(g.words) {
			n.Words = append(n.Words, word{visible(k), visible(g.words[k])})
		}
		if n.Words != nil {
			b.v.Words = append(b.v.Words, n)
		}
	}
}

func (b *builder) provenance() {
	m := b.d.Run.Manifest
	add := func(name, value string) {
		b.v.Provenance = append(b.v.Provenance, fact{Name: name, Value: visible(value), Mono: true})
	}
	add("run", b.x.Name)
	add("command", strings.Join(m.Argv, " "))
	add("first seed", strconv.FormatUint(m.Seed, 10))
	commit := m.Commit
	if m.Dirty {
		commit += " (the tree had changes, or nobody knows)"
	}
	add("commit", commit)
	add("version", m.Module)
	add("built with", fmt.Sprintf("%s for %s/%s", m.GoVersion, m.OS, m.Arch))
	add("started", m.Started.UTC().Format("2006-01-02 15:04:05 UTC"))
	add("finished", m.Finished.UTC().Format("2006-01-02 15:04:05 UTC"))
	counts := func(of map[string]int) string {
		var out []string
		for _, k := range sortedKeys(of) {
			out = append(out, fmt.Sprintf("%s %s", k, thousands(of[k])))
		}
		return strings.Join(out, ", ")
	}
	add("trials by kind", counts(m.Kinds))
	add("trials by outcome", counts(m.Observed))
	against := strings.Join(m.Family.Targets, ", ")
	if against == "" {
		against = "every other target"
	}
	add("comparisons, fixed before the run", fmt.Sprintf("%s with %s", against, m.Family.Reference))
	if b.x.Program != "" {
		add("this page made by", b.x.Program)
	}
	for _, name := range sortedKeys(m.Inputs) {
		b.v.Inputs = append(b.v.Inputs, digest{visible(name), visible(m.Inputs[name])})
	}
	for line := range strings.Lines(b.x.Sums) {
		if sum, name, ok := strings.Cut(strings.TrimSpace(line), "  "); ok {
			b.v.Sums = append(b.v.Sums, digest{visible(name), visible(sum)})
		}
	}
}

func (b *builder) warnings() {
	a := b.d.Analysis
	warn := func(text string, about ...string) {
		w := warning{Text: text}
		if len(about) > mostNames {
			w.More = fmt.Sprintf("and %s more", thousands(len(about)-mostNames))
			about = about[:mostNames]
		}
		w.About = allVisible(about)
		b.v.Warnings = append(b.v.Warnings, w)
	}
	if m := b.d.Run.Manifest; m.Dirty || m.Commit == "unknown" {
		warn("The program that made the run was not built from a clean commit, so its source is not known for certain.")
	}
	for _, w := range a.Warnings {
		warn(capital(visible(w)) + ".")
	}
	if n := len(a.WrongReasons); n > 0 {
		warn(fmt.Sprintf("%s blocked for another reason than the variant's condition names; the table is under Statistics.", plural(n, "trial")))
	}
	var small []string
	for _, r := range a.Rows {
		for _, c := range r.Cells {
			if c.Success.N > 0 && c.Success.N < stats.SmallN && !slices.Contains(small, fmt.Sprintf("%s (%d)", c.Attack, c.Success.N)) {
				small = append(small, fmt.Sprintf("%s (%d)", c.Attack, c.Success.N))
			}
		}
	}
	if small != nil {
		warn(fmt.Sprintf("Small n: these families have fewer than %d variants, so that a share of them says little.", stats.SmallN), small...)
	}
	warn("Counts, intervals and p values describe these variants. They infer nothing about others, and further seeds are no further evidence.")
	for _, group := range a.Identical {
		warn("The same outcome in every attack variant:", group...)
	}
	races := 0
	for _, c := range b.d.cells {
		for _, o := range c.outcomes {
			if o.first.Nondeterministic {
				races += o.trials
			}
		}
	}
	if races > 0 {
		warn(fmt.Sprintf("%s were races that nobody scheduled (marked ~). They may go either way and contradict no prediction.", plural(races, "trial")))
	}
	pairs := 0
	for _, u := range a.NotApplicable {
		pairs += u.Pairs
		b.v.Unfit = append(b.v.Unfit, unfit{visible(u.Reason), u.Pairs, strings.Join(allVisible(u.Scenarios), ", "), strings.Join(allVisible(u.Variants), ", ")})
	}
	if pairs > 0 {
		warn(fmt.Sprintf("%s of variant and scenario were not tried because they do not fit, so variants are tried in different numbers of scenarios; the reasons are below.", plural(pairs, "pair")))
	}
	for _, why := range sortedKeys(b.untold) {
		warn("Not told, because "+visible(why)+":", b.untold[why]...)
	}
	differs := 0
	for _, s := range b.x.Stories {
		if s.Differs != "" {
			differs++
		}
	}
	if differs > 0 {
		warn(fmt.Sprintf("%s, made again for this report, came out differently from the record: the program or a scenario is not that of the run. The stories say so.", plural(differs, "trial")))
	}
}
