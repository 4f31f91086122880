package results

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func entry(kind Kind, observed map[Observation]int) BaselineEntry {
	return BaselineEntry{Target: "M9", Attack: "AB1", Variant: "amount", Kind: kind, Observed: observed, RefusedBy: []string{}}
}

func baseline(entries ...BaselineEntry) *Baseline {
	return &Baseline{Schema: BaselineSchema, Scenarios: []string{"mail", "payments"}, Seeds: []uint64{1}, Approvers: []string{"faithful"}, Entries: entries}
}

// TestCheckOfEveryOutcome: what an attack or a benign flow turns from and into
// decides what is said and the exit code.
func TestCheckOfEveryOutcome(t *testing.T) {
	blocked := []Observation{Refused, Held, Reasked, Absorbed}
	rank := func(kind Kind, o Observation) int { // more is better
		switch {
		case kind == Attack && slices.Contains(blocked, o), kind != Attack && o == Completed:
			return 2
		case o == Executed:
			return 0
		}
		return 1
	}
	for _, kind := range []Kind{Attack, Twin, Honest} {
		for _, from := range Observations() {
			for _, to := range Observations() {
				if kind == Attack && (from == Completed || to == Completed) {
					continue
				}
				k, err := baseline(entry(kind, map[Observation]int{from: 2})).Against(baseline(entry(kind, map[Observation]int{from: 1, to: 1})))
				if from == to {
					k, err = baseline(entry(kind, map[Observation]int{from: 2})).Against(baseline(entry(kind, map[Observation]int{from: 2})))
				}
				if err != nil {
					t.Fatal(err)
				}
				was, is := rank(kind, from), rank(kind, to)
				want := Changed
				switch {
				case from == to:
					want = Same
				case is < was:
					want = Regression
				case is > was && is == 2:
					want = Improvement
				}
				code := map[bool]int{true: 2}[from == Error || to == Error] // one trial still is what it was
				if want == Regression {
					code = 1
				}
				c := k.Cases[0]
				if c.Change != want || k.ExitCode(false) != code || (c.Why == "") != (want == Same) || c.Line != 7 {
					t.Errorf("%s from %s to %s: %s (%s), exit code %d, line %d; want %s and %d", kind, from, to, c.Change, c.Why, k.ExitCode(false), c.Line, want, code)
				}
			}
		}
	}
}

// TestCheckOfEntries are the cases that are no change of outcomes of one entry.
func TestCheckOfEntries(t *testing.T) {
	with := func(e BaselineEntry, edit func(*BaselineEntry)) BaselineEntry {
		e.Observed, e.RefusedBy = maps.Clone(e.Observed), slices.Clone(e.RefusedBy)
		edit(&e)
		return e
	}
	refused, executed := entry(Attack, map[Observation]int{Refused: 2}), entry(Attack, map[Observation]int{Executed: 2})
	other := with(refused, func(e *BaselineEntry) { e.Variant = "other" })
	race := with(entry(Attack, map[Observation]int{Refused: 1, Executed: 1}), func(e *BaselineEntry) { e.Nondeterministic = 2 })
	for name, c := range map[string]struct {
		before, after []BaselineEntry
		want          Change // of the last case
		code, strict  int
	}{
		"another binding refused": {[]BaselineEntry{refused}, []BaselineEntry{with(refused, func(e *BaselineEntry) { e.RefusedBy = []string{"args"} })}, Changed, 0, 0},
		"blocked for another reason": {[]BaselineEntry{refused}, []BaselineEntry{with(refused, func(e *BaselineEntry) { e.WrongReason = 1 })},
			Changed, 0, 1},
		"accepted as blocked for another reason": {[]BaselineEntry{with(refused, func(e *BaselineEntry) { e.WrongReason = 1 })},
			[]BaselineEntry{with(refused, func(e *BaselineEntry) { e.WrongReason = 1 })}, Same, 0, 1},
		"prediction contradicted":         {[]BaselineEntry{executed}, []BaselineEntry{with(executed, func(e *BaselineEntry) { e.Disagrees = 1 })}, Regression, 1, 1},
		"prediction contradicted as ever": {[]BaselineEntry{with(executed, func(e *BaselineEntry) { e.Disagrees = 1 })}, []BaselineEntry{with(executed, func(e *BaselineEntry) { e.Disagrees = 1 })}, Same, 0, 0},
		"blocked against the prediction":  {[]BaselineEntry{executed}, []BaselineEntry{with(refused, func(e *BaselineEntry) { e.Disagrees = 2 })}, Regression, 1, 1},
		"new":                             {[]BaselineEntry{other}, []BaselineEntry{other, executed}, Added, 0, 0},
		"new and unpredicted":             {[]BaselineEntry{other}, []BaselineEntry{other, with(executed, func(e *BaselineEntry) { e.Disagrees = 1 })}, Regression, 1, 1},
		"new and in error":                {[]BaselineEntry{other}, []BaselineEntry{other, entry(Attack, map[Observation]int{Error: 2})}, Added, 2, 2},
		"missing":                         {[]BaselineEntry{refused, other}, []BaselineEntry{refused}, Missing, 0, 0},
		"a scenario less":                 {[]BaselineEntry{refused}, []BaselineEntry{entry(Attack, map[Observation]int{Refused: 1})}, Changed, 0, 0},
		"a scenario more, executed":       {[]BaselineEntry{refused}, []BaselineEntry{entry(Attack, map[Observation]int{Refused: 2, Executed: 1})}, Regression, 1, 1},
		"a race lost more often":          {[]BaselineEntry{race}, []BaselineEntry{with(race, func(e *BaselineEntry) { e.Observed = map[Observation]int{Executed: 1, Refused: 1, Held: 1} })}, Improvement, 0, 0},
		"a race won as never before": {[]BaselineEntry{with(race, func(e *BaselineEntry) { e.Observed = map[Observation]int{Refused: 2} })},
			[]BaselineEntry{race}, Regression, 1, 1},
		"a race won more often": {[]BaselineEntry{with(race, func(e *BaselineEntry) { e.Observed = map[Observation]int{Refused: 3, Executed: 1} })},
			[]BaselineEntry{with(race, func(e *BaselineEntry) { e.Observed = map[Observation]int{Refused: 1, Executed: 3} })}, Changed, 0, 0},
	} {
		k, err := baseline(c.before...).Against(baseline(c.after...))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		last := k.Cases[len(k.Cases)-1]
		if last.Change != c.want || k.ExitCode(false) != c.code || k.ExitCode(true) != c.strict {
			t.Errorf("%s: %s (%s), exit codes %d and %d, want %s, %d and %d", name, last.Change, last.Why, k.ExitCode(false), k.ExitCode(true), c.want, c.code, c.strict)
		}
	}
}

// TestCheckRefusesWhatCannotBeCompared: a gate must not pass because it compared
// nothing.
func TestCheckRefusesWhatCannotBeCompared(t *testing.T) {
	e := entry(Attack, map[Observation]int{Refused: 2})
	for name, edit := range map[string]func(*Baseline){
		"another scenario":  func(b *Baseline) { b.Scenarios = []string{"mail"} },
		"another seed":      func(b *Baseline) { b.Seeds = []uint64{2} },
		"another approver":  func(b *Baseline) { b.Approvers = []string{"never"} },
		"nothing in common": func(b *Baseline) { b.Entries = []BaselineEntry{{Target: "M8"}} },
		"nothing at all":    func(b *Baseline) { b.Entries = nil },
	} {
		run := baseline(e)
		edit(run)
		if _, err := baseline(e).Against(run); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestBaselineOf counts records, and refuses none.
func TestBaselineOf(t *testing.T) {
	c := Catalogue{
		Targets: []TargetInfo{{ID: "T"}}, Scenarios: []ScenarioInfo{{ID: "mail"}, {ID: "payments"}},
		Attacks: []AttackInfo{{ID: "AB1", Variants: []VariantInfo{{Name: "v", Kind: Attack, Condition: "args"}, {Name: "t", Kind: Twin}}}},
	}
	record := func(kind Kind, variant, scenario string, p Prediction, o Observation, by ...string) Record {
		return Record{Schema: Schema, Target: "T", Attack: "AB1", Variant: variant, Kind: kind, Twin: kind == Twin, Scenario: scenario, Approver: "faithful",
			Seed: 1, Pair: variant + scenario, Predicted: p, Observed: o, RefusedBy: by, Detail: "x"}
	}
	b, err := BaselineOf(Sequence([]Record{
		record(Attack, "v", "mail", PredictBlocked, Refused, "once"),
		record(Attack, "v", "payments", PredictBlocked, Executed),
		record(Twin, "t", "mail", PredictCompleted, Completed),
		record(Twin, "t", "payments", PredictCompleted, Refused, "strict", "args"),
	}), c)
	if err != nil {
		t.Fatal(err)
	}
	data, err := b.Encode()
	if err != nil {
		t.Fatal(err)
	}
	const want = `{
  "schema": 1,
  "scenarios": ["mail","payments"],
  "seeds": [1],
  "approvers": ["faithful"],
  "entries": [
    {"target":"T","attack":"AB1","variant":"v","kind":"attack","observed":{"executed":1,"refused":1},"refused_by":["once"],"disagrees":1,"wrong_reason":1},
    {"target":"T","attack":"AB1","variant":"t","kind":"twin","observed":{"completed":1,"refused":1},"refused_by":["args","strict"],"disagrees":1}
  ]
}
`
	if string(data) != want {
		t.Errorf("the baseline is\n%s\nwant\n%s", data, want)
	}
	if _, err := BaselineOf(Sequence(nil), c); err == nil {
		t.Error("a baseline of nothing: no error")
	}
	if _, err := BaselineOf(Sequence([]Record{record(Attack, "w", "mail", PredictBlocked, Refused)}), c); err == nil {
		t.Error("a record that is not in the catalogue: no error")
	}
	crlf := bytes.ReplaceAll(data, []byte("\n"), []byte("\r\n"))
	if again, err := ParseBaseline(crlf); err != nil || len(again.Entries) != 2 {
		t.Errorf("with CR LF: %v", err)
	}
	for name, change := range map[string][2]string{
		"another schema":      {`"schema": 1`, `"schema": 2`},
		"unknown member":      {`"kind":"twin"`, `"kind":"twin","more":1`},
		"unknown outcome":     {`"completed":1`, `"fine":1`},
		"unknown kind":        {`"kind":"twin"`, `"kind":"other"`},
		"a count too large":   {`"completed":1`, `"completed":9223372036854775807`},
		"another too large":   {`"refused_by":["once"]`, `"refused_by":["once"],"disagrees":9223372036854775807`},
		"negative count":      {`"completed":1`, `"completed":-1`},
		"no trials":           {`{"completed":1,"refused":1}`, `{}`},
		"no target":           {`"target":"T"`, `"target":""`},
		"out of order":        {`"target":"T"`, `"target":"U"`},
		"spaces":              {`"kind":"twin"`, `"kind": "twin"`},
		"a member left out":   {`,"refused_by":["once"]`, ``},
		"no scenarios":        {`["mail","payments"]`, `[]`},
		"a member said twice": {`"schema": 1,`, `"schema": 1, "schema": 1,`},
		"cut off":             {"  ]\n}\n", ""},
		"text after it":       {"  ]\n}\n", "  ]\n}\n{}"},
	} {
		changed := strings.Replace(want, change[0], change[1], 1)
		if changed == want {
			t.Fatalf("%s changes nothing", name)
		}
		if _, err := ParseBaseline([]byte(changed)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestBaselineLaws: a baseline reads back as itself, agrees with itself, and every
// entry is on the line that a check says.
func TestBaselineLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := baseline(drawEntries(t)...)
		data, err := b.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseBaseline(data)
		if err != nil {
			t.Fatalf("%v\n%s", err, data)
		}
		k, err := again.Against(b)
		if err != nil || k.Count(Same) != len(b.Entries) {
			t.Fatalf("%d of %d entries are the same: %v", k.Count(Same), len(b.Entries), err)
		}
		lines := strings.Split(string(data), "\n")
		for _, c := range k.Cases {
			if line := lines[c.Line-1]; !strings.Contains(line, `"variant":"`+c.Before.Variant+`"`) || !strings.Contains(line, `"target":"`+c.Before.Target+`"`) {
				t.Fatalf("%s is not on line %d: %s", c.Before.Name(), c.Line, line)
			}
		}
	})
}

func drawEntries(t *rapid.T) []BaselineEntry {
	var out []BaselineEntry
	for _, target := range []string{"M1", "M9"} {
		for _, attack := range []string{"AB1", "AB2", "AB10"} {
			for _, variant := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), 1, 3, rapid.ID).Draw(t, "variants") {
				observed := map[Observation]int{}
				for _, o := range rapid.SliceOfNDistinct(rapid.SampledFrom(Observations()), 1, 3, rapid.ID).Draw(t, "observed") {
					observed[o] = rapid.IntRange(1, 9).Draw(t, "n")
				}
				out = append(out, BaselineEntry{Target: target, Attack: attack, Variant: variant, Kind: Attack, Observed: observed,
					RefusedBy: []string{"args"}, Disagrees: rapid.IntRange(0, 2).Draw(t, "disagrees")})
			}
		}
	}
	slices.SortFunc(out, func(a, b BaselineEntry) int {
		return slices.Compare([]string{a.Target, string(rune(len(a.Attack))), a.Attack, a.Variant}, []string{b.Target, string(rune(len(b.Attack))), b.Attack, b.Variant})
	})
	return out
}

func FuzzParseBaseline(f *testing.F) {
	data, err := baseline(entry(Attack, map[Observation]int{Refused: 2}), entry(Twin, map[Observation]int{Completed: 2})).Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add(bytes.ReplaceAll(data, []byte("\n"), []byte("\r\n")))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := ParseBaseline(data)
		if err != nil {
			return
		}
		again, err := b.Encode()
		if err != nil || !bytes.Equal(again, bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))) {
			t.Errorf("accepted and written differently: %v\n%s", err, again)
		}
	})
}
