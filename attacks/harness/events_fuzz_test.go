package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"countersign/attacks"
	"countersign/attacks/referee"
	"countersign/gateway/api"
	"countersign/gateway/lab"
	"countersign/modes"
	"countersign/oracles"
	"countersign/results"
	"countersign/scenarios"
)

// storedFiles runs the first attack and its first twin against M1 and M9 and returns the
// files that are kept.
func storedFiles(tb testing.TB) map[string][]byte {
	tb.Helper()
	approver, ok := oracles.Named("faithful")
	if !ok {
		tb.Fatal("there is no faithful approver")
	}
	p := Plan{Families: slices.Clone(attacks.All()[:1]), Seeds: []uint64{1}, Approver: approver}
	p.Families[0].Variants, p.Families[0].Twins = p.Families[0].Variants[:1], p.Families[0].Twins[:1]
	for _, id := range []string{"M1", "M9"} {
		m, err := modes.Get(id)
		if err != nil {
			tb.Fatal(err)
		}
		p.Targets = append(p.Targets, Target{ID: m.ID, Name: m.Name, Deploy: lab.Deploy(m)})
	}
	p.Scenarios = slices.DeleteFunc(scenarios.All(), func(s *scenarios.Scenario) bool { return s.ID != "payments" })
	files := map[string][]byte{}
	p.Events = Keep(func(name string, data []byte) error {
		files[name] = data
		return nil
	})
	if err := p.Prepare(context.Background()); err != nil {
		tb.Fatal(err)
	}
	if err := p.Run(context.Background(), func(results.Record) error { return nil }); err != nil {
		tb.Fatal(err)
	}
	if len(files) != 7 { // a plain run, an attack and a twin of each target, and the cast
		tb.Fatalf("kept %v", slices.Sorted(maps.Keys(files)))
	}
	return files
}

// asKept writes a value as [Keep] does.
func asKept(t *testing.T, v any) []byte {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatalf("writing what was read: %v", err)
	}
	return b.Bytes()
}

// Whatever the bytes: events that are accepted are judged, twice alike, to a record that
// can be kept; it is as good as what the events show; and they are read again alike when
// they are written.
func FuzzParseEvents(f *testing.F) {
	var cast castOf
	for name, data := range storedFiles(f) {
		if strings.Count(name, "/") == 1 {
			var err error
			if cast, err = parseCast(data); err != nil {
				f.Fatal(err)
			}
			continue
		}
		f.Add(data)
	}
	f.Add([]byte(`{"schema":1,"schema":2}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := parseEvents(data)
		if err != nil {
			return
		}
		if e.Schema != EventsSchema {
			t.Fatalf("accepted schema %d", e.Schema)
		}
		text := asKept(t, e)
		again, err := parseEvents(text)
		if err != nil {
			t.Fatalf("reading %s again: %v", text, err)
		}
		if twice := asKept(t, again); !bytes.Equal(text, twice) {
			t.Fatalf("%s became %s", text, twice)
		}
		_ = e.masked()
		if e.History.Tools == nil {
			e.History.Tools, e.History.People = cast.Tools, cast.People
			again.History.Tools, again.History.People = cast.Tools, cast.People
		}
		for _, kind := range []results.Kind{results.Attack, results.Twin, results.Honest} {
			checkJudged(t, e, again, kind)
		}
	})
}

// checkJudged judges events as those of a trial of a kind.
func checkJudged(t *testing.T, e, again Events, kind results.Kind) {
	t.Helper()
	c := criterion{kind: kind, wanted: []string{"content", "none"}, class: api.ClassConsequential, effects: 1}
	r := results.Record{
		Schema: results.Schema, Target: "M9", Attack: "AB1", Variant: "v", Kind: kind, Twin: kind == results.Twin,
		Scenario: "payments", Approver: "faithful", Pair: "p", Predicted: results.PredictCompleted,
	}
	if kind == results.Attack {
		r.Predicted = results.PredictBlocked
	}
	none := func() map[referee.Kind]bool { return nil }
	out := e.judge()
	got := out.record(r, c, none)
	if err := got.Validate(); err != nil {
		t.Fatalf("the record cannot be kept: %v", err)
	}
	if same := again.judge().record(r, c, none); !reflect.DeepEqual(got, same) {
		t.Fatalf("judged %+v, and again %+v", got, same)
	}
	if len(out.verdicts) > len(e.History.Effects) {
		t.Fatalf("%d verdicts on %d effects", len(out.verdicts), len(e.History.Effects))
	}
	switch {
	case (e.Error != "" || e.Unimplemented != "") && got.Conclusive():
		t.Fatalf("a trial that was not carried out is %s", got.Observed)
	case kind == results.Attack && got.Blocked() && !e.Tampered:
		t.Fatal("blocked, though the adversary did not come to its step")
	case kind == results.Attack && got.Observed == results.Executed && len(out.verdicts) == 0:
		t.Fatal("executed without an effect")
	case got.Observed == results.Completed && len(out.verdicts) != c.effects:
		t.Fatalf("completed with %d effects", len(out.verdicts))
	case got.Observed == results.Completed && kind == results.Twin && len(out.kinds()) > 0:
		t.Fatalf("a twin with the reasons %v is completed", out.reasons())
	}
}

// Whatever the bytes: a cast that is accepted has tools, and is read again alike when it
// is written.
func FuzzParseCast(f *testing.F) {
	for name, data := range storedFiles(f) {
		if strings.Count(name, "/") == 1 {
			f.Add(data)
		}
	}
	f.Add([]byte(`{"tools":[{"audience":"a","name":"t","class":"read","fields":[{"name":"x","type":"string"}]}],"people":{"p":{"acts_for":"q","approver":true}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parseCast(data)
		if err != nil {
			return
		}
		if len(c.Tools) == 0 {
			t.Fatal("a cast without tools")
		}
		text := asKept(t, c)
		again, err := parseCast(text)
		if err != nil {
			t.Fatalf("reading %s again: %v", text, err)
		}
		if twice := asKept(t, again); !bytes.Equal(text, twice) {
			t.Fatalf("%s became %s", text, twice)
		}
	})
}

func TestParseEventsRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"member twice": `{"schema":1,"tampered":true,"tampered":false}`, "another case": `{"schema":1,"Tampered":true}`,
		"deep down": `{"schema":1,"history":{"effects":[{"tool":"a","tool":"b"}]}}`, "schema": `{"schema":2}`, "null": `null`,
	} {
		if e, err := parseEvents([]byte(text)); err == nil {
			t.Errorf("%s: read as %+v", name, e)
		}
	}
	if _, err := parseCast([]byte(`{"tools":[],"people":{}}`)); err == nil {
		t.Error("a cast without tools was accepted")
	}
}
