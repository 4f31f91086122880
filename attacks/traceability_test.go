package attacks

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"countersign/gateway/api"
	"countersign/modes"
)

// someDesigns are the control and the reference: every attack goes through one and
// none through the other.
func someDesigns(t *testing.T) (out []Design) {
	t.Helper()
	for _, id := range []string{"M0", "M9"} {
		m, err := modes.Get(id)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, Design{m.ID, m.Bindings.List()})
	}
	return out
}

// TestTraceability: the table is whole, with nine cases, seven gaps, the seven items
// of the checklist and every incident, and its tests exist.
func TestTraceability(t *testing.T) {
	rows, err := Trace(All(), someDesigns(t))
	if err != nil {
		t.Fatal(err)
	}
	count := map[Kind]int{}
	items := map[string]bool{}
	tests := testNames(t)
	for _, r := range rows {
		count[r.Kind]++
		if r.Kind == KindItem {
			items[r.Name[:1]] = true
		}
		if r.Text == "" {
			t.Errorf("%s %q says nothing", r.Kind, r.Name)
		}
		for _, name := range r.Cells[ColTests] {
			if !tests[name] {
				t.Errorf("%s %q names the test %s, which does not exist", r.Kind, r.Name, name)
			}
		}
	}
	if count[KindCase] != 9 || count[KindGap] != 7 || len(items) != 7 || count[KindIncident] != len(incidents) {
		t.Errorf("the rows are %v, the items %v", count, slices.Sorted(maps.Keys(items)))
	}
}

// TestRemovingAVariant: the table fails exactly when a variant or twin is removed
// that alone fills a cell, or that a case, an alarm or a claim selects by name.
func TestRemovingAVariant(t *testing.T) {
	designs := someDesigns(t)
	rows, err := Trace(All(), designs)
	if err != nil {
		t.Fatal(err)
	}
	alone := map[string]string{} // variant: what it alone fills
	fills := func(where string, names []string) {
		if len(names) == 1 {
			alone[names[0]] = where
		}
	}
	for _, r := range rows {
		where := fmt.Sprintf("%s %s", r.Kind, r.Name)
		fills(where+", attacks", r.Cells[ColAttacks])
		if r.Kind != KindIncident || len(r.Cells[ColAttacks]) == 0 {
			fills(where+", twins", r.Cells[ColTwins])
		}
		// An incident is cited by variants that it has in common with a claim, and is
		// in some claim by all of them.
		var here []string
		for _, i := range Reproductions(All()) {
			inRow := slices.DeleteFunc(slices.Concat(i.Variants, i.Twins), func(name string) bool {
				return !slices.Contains(r.Cells[ColAttacks], name) && !slices.Contains(r.Cells[ColTwins], name)
			})
			here = append(here, inRow...)
			if overlap(i.Tests, r.Cells[ColTests]) { // whatever becomes of its variants
				here = append(here, "a test", "another")
			}
		}
		slices.Sort(here)
		if r.Kind != KindIncident {
			fills(where+", incidents", slices.Compact(here))
		}
	}
	for _, a := range alarms {
		for _, name := range slices.Concat(a.Attacks, a.Twins) {
			alone[name] = "alert " + string(a.Alert)
		}
	}
	for _, c := range Teardown() {
		for _, name := range slices.Concat(c.Attacks, c.Twins) {
			alone[name] = "case " + c.Name
		}
	}
	for _, c := range claims {
		for _, p := range c.picks {
			attacks, twins := tracing{All(), designs}.chosen(p)
			fills(fmt.Sprintf("%s %s, %s", c.kind, c.name, p.what), namesOf(slices.Concat(attacks, twins)))
		}
	}
	if len(alone) < 50 {
		t.Errorf("only %d variants and twins fill a cell alone", len(alone))
	}
	for _, f := range All() {
		for _, v := range slices.Concat(f.Variants, f.Twins) {
			name := f.ID + "/" + v.Name
			fs := copied()
			for i := range fs {
				is := func(x Variant) bool { return fs[i].ID+"/"+x.Name == name }
				fs[i].Variants, fs[i].Twins = slices.DeleteFunc(fs[i].Variants, is), slices.DeleteFunc(fs[i].Twins, is)
			}
			if _, err := Trace(fs, designs); (err != nil) != (alone[name] != "") {
				t.Errorf("without %s, which alone fills %q: %v", name, alone[name], err)
			}
		}
	}
}

// TestTraceNoticesEveryRule spoils the table in one way at a time.
func TestTraceNoticesEveryRule(t *testing.T) {
	type source struct {
		claims    []claim
		cases     []Case
		incidents []Reproduction
		alarms    []Alarm
		designs   []Design
	}
	at := func(s *source, name string) *claim {
		return &s.claims[slices.IndexFunc(s.claims, func(c claim) bool { return c.name == name })]
	}
	for _, tt := range []struct {
		name  string
		spoil func(*source)
		want  string
	}{
		{"nothing", func(*source) {}, ""},
		{"a case without a row", func(s *source) { s.claims = s.claims[1:] }, "no row is the case argument_changed"},
		{"a row without a case", func(s *source) { s.cases = s.cases[1:] }, "the teardown has no case argument_changed"},
		{"a case that names nothing", func(s *source) { s.cases[0].Attacks = []string{"AB1/nothing"} }, `case "argument_changed": there is no variant AB1/nothing`},
		{"a family that is none", func(s *source) { at(s, "replay").picks = in("AB4", "AB13") }, `gap "replay": there is no family AB13`},
		{"a pattern that fits nothing", func(s *source) { at(s, "replay").picks = slices.Concat(in("AB4"), called("xyz")) }, `gap "replay": there is no name xyz`},
		{"a capability that nothing uses", func(s *source) { at(s, "replay").picks = slices.Concat(in("AB4"), using("magic")) }, `there is no capability magic`},
		{"a binding that is in no condition", func(s *source) { at(s, "replay").picks = slices.Concat(in("AB4"), needs("luck")) }, `there is no binding luck`},
		{"an attack in no row", func(s *source) {
			at(s, "render mismatch").picks, at(s, "6a faithful preview").picks = in("AB1"), in("AB1")
		},
			"no row has AB2/material_field_missing_from_the_summary among its attacks"},
		{"a twin in no row", func(s *source) { at(s, "cross-audience reuse").picks = needs(api.BindAudience, api.BindDuties) },
			"no row has AB5/tried_out_in_staging_then_done_in_production among its twins"},
		{"no tests", func(s *source) { at(s, "replay").tests = nil }, `gap "replay": nothing under tests`},
		{"no twins", func(s *source) { at(s, "1 decision and authority").picks = named("AB8/looked_at_and_never_decided") }, `nothing under twins`},
		{"no alerts, and no reason", func(s *source) { at(s, "render mismatch").none = nil }, `gap "render mismatch": nothing under alerts`},
		{"alerts, and a reason why not", func(s *source) { at(s, "replay").none = map[Column]string{ColAlerts: "because"} }, `under alerts, and a reason for nothing: because`},
		{"no design blocks it", func(s *source) { s.designs = s.designs[:1] }, `gap "replay": nothing under blocked`},
		{"no design lets it through", func(s *source) { s.designs = s.designs[1:] }, `gap "replay": nothing under through`},
		{"no incidents", func(s *source) { s.incidents = nil }, `gap "replay": nothing under incidents`},
		{"an incident in no row", func(s *source) {
			s.incidents = append(s.incidents, Reproduction{Incident: Incident{Number: 99, Title: "x"}})
		},
			`incident "99": nothing under claims`},
		{"an incident whose honest calls are attacks", func(s *source) { s.incidents[0].Honest = true }, `incident "1": [AB8/`},
		{"an alert in no row", func(s *source) { s.alarms = s.alarms[1:] }, "no row has hash differs among its alerts"},
		{"an alarm that names nothing", func(s *source) { s.alarms[0].Twins = []string{"AB1/nothing"} }, `alert "hash differs": there is no variant AB1/nothing`},
		{"a row twice", func(s *source) { s.claims = append(s.claims, *at(s, "replay")) }, `gap "replay" is there twice`},
	} {
		s := source{slices.Clone(claims), Teardown(), Reproductions(All()), Alarms(), someDesigns(t)}
		tt.spoil(&s)
		_, err := tracing{All(), s.designs}.table(s.claims, s.cases, s.incidents, s.alarms)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q in it", tt.name, err, tt.want)
		}
	}
}
