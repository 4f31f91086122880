package harness_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"countersign/attacks"
	"countersign/audit"
	"countersign/gateway/api"
	"countersign/gateway/lab"
	"countersign/modes"
	"countersign/scenarios"
)

// alertsOf performs a script against a mode and returns the alerts that an auditor
// finds: those of the log, and those that it shows beside the ledger.
func alertsOf(t *testing.T, m modes.Mode, v attacks.Variant, sc *scenarios.Scenario) map[api.Alert]bool {
	t.Helper()
	var bench api.Bench
	var auditor api.Auth
	s, err := attacks.NewStage(t.Context(), func(ctx context.Context, d api.Deployment) (_ api.Bench, err error) {
		auditor.Token = d.AuditorToken
		bench, err = lab.Deploy(m)(ctx, d)
		return bench, err
	}, sc, 1, faithful(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Perform(v.Run); err != nil {
		t.Errorf("%s %s in %s: %v", m.ID, v.Name, sc.ID, err)
	}
	bench.Lab.Fault(api.DepAudit, api.FaultNone)
	log, err := bench.Target.Audit(t.Context(), auditor, 0)
	if err != nil {
		t.Fatal(err)
	}
	out := map[api.Alert]bool{}
	for _, e := range log {
		out[e.Alert] = true
	}
	var ledger []audit.Effect
	for i, e := range s.History.Effects {
		ledger = append(ledger, audit.Effect{Seq: int64(i + 1), Audience: e.Audience, Tool: e.Tool, RequestID: e.RequestID})
	}
	for _, f := range audit.Compare(log, ledger) {
		out[f.Alert] = true
	}
	delete(out, "") // a line without one
	return out
}

// eachTrial calls f for each variant or twin of a selection and each scenario to
// which it applies; under the race detector for the first of them.
func eachTrial(pick func(attacks.Family) []attacks.Variant, f func(name string, v attacks.Variant, sc *scenarios.Scenario)) {
	for _, fam := range attacks.All() {
		for _, v := range pick(fam) {
			for _, sc := range scenarios.All() {
				if v.NotApplicable(sc) != "" {
					continue
				}
				f(fam.ID+"/"+v.Name, v, sc)
				if raced {
					break
				}
			}
		}
	}
}

func variantsOf(f attacks.Family) []attacks.Variant { return f.Variants }
func twinsOf(f attacks.Family) []attacks.Variant    { return f.Twins }

// TestAlarms: what the reference design refuses raises the alerts that the table of
// alarms says, in every scenario.
func TestAlarms(t *testing.T) {
	m9 := mode(t, "M9")
	eachTrial(variantsOf, func(name string, v attacks.Variant, sc *scenarios.Scenario) {
		var want []api.Alert
		for _, a := range attacks.Alarms() {
			if a.Alert != api.AlertTwice && slices.Contains(a.Attacks, name) {
				want = append(want, a.Alert)
			}
		}
		if len(want) == 0 {
			return
		}
		got := alertsOf(t, m9, v, sc)
		for _, a := range want {
			if !got[a] {
				t.Errorf("%s in %s does not raise %q", name, sc.ID, a)
			}
		}
	})
}

// TestTwoEffects: log and ledger show two effects for one permit exactly where a
// replay or a retry goes through, in designs whose permits are for one call and have
// a name, and that log each call.
func TestTwoEffects(t *testing.T) {
	alarms := attacks.Alarms()
	twice := alarms[slices.IndexFunc(alarms, func(a attacks.Alarm) bool { return a.Alert == api.AlertTwice })]
	raised := map[string]bool{}
	for _, m := range []modes.Mode{mode(t, "M4"), mode(t, "M8"), mode(t, "M9")} {
		eachTrial(variantsOf, func(name string, v attacks.Variant, sc *scenarios.Scenario) {
			if !strings.HasPrefix(name, "AB4/") && !strings.HasPrefix(name, "AB7/") {
				return
			}
			got, passes := alertsOf(t, m, v, sc)[api.AlertTwice], !v.StoppedBy(m.Bindings.List(), sc)
			if got != passes {
				t.Errorf("%s: %s in %s is predicted to go through: %v, and is found: %v", m.ID, name, sc.ID, passes, got)
			}
			raised[name] = raised[name] || got
		})
	}
	for _, name := range twice.Attacks {
		if !raised[name] {
			t.Errorf("%s raises %q in none of the designs", name, twice.Alert)
		}
	}
}

// TestNoTwinRaisesAnAlert: whoever is called for an alert is not called for nothing.
func TestNoTwinRaisesAnAlert(t *testing.T) {
	tried := map[string]bool{}
	for _, m := range []modes.Mode{mode(t, "M8"), mode(t, "M9")} {
		eachTrial(twinsOf, func(name string, v attacks.Variant, sc *scenarios.Scenario) {
			if m.ID != "M9" && !strings.HasPrefix(name, "AB4/") && !strings.HasPrefix(name, "AB7/") {
				return // it could raise what M9 does
			}
			tried[name] = true
			if got := alertsOf(t, m, v, sc); len(got) > 0 {
				t.Errorf("%s: %s in %s raises %v", m.ID, name, sc.ID, got)
			}
		})
	}
	for _, a := range attacks.Alarms() {
		for _, name := range a.Twins {
			if !tried[name] {
				t.Errorf("%q: %s is no twin", a.Alert, name)
			}
		}
	}
}
