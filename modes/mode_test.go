package modes

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"countersign/gateway/api"
)

func TestTable(t *testing.T) {
	ids, names := map[string]bool{}, map[string]bool{}
	for i, m := range All() {
		if m.ID != "M"+strconv.Itoa(i) || ids[m.ID] || names[m.Name] || m.Title == "" || m.ModelledOn == "" {
			t.Errorf("row %d: %+v", i, m)
		}
		ids[m.ID], names[m.Name] = true, true
		if _, ok := carriers[m.Carrier]; !ok {
			t.Errorf("%s has no carrier %q", m.ID, m.Carrier)
		}
		for b := range m.Bindings {
			if !slices.Contains(api.Bindings(), b) {
				t.Errorf("%s claims %q, which is no binding", m.ID, b)
			}
		}
		for _, key := range []string{m.ID, strings.ToLower(m.ID), m.Name} {
			if got, err := Get(key); err != nil || got.ID != m.ID {
				t.Errorf("Get(%q) = %q, %v", key, got.ID, err)
			}
		}
	}
	if len(ids) < 10 {
		t.Errorf("%d modes, want M0 to M9 at least", len(ids))
	}
	if m := m9(); len(m.Bindings) != len(api.Bindings()) {
		t.Error("M9 does not have every binding")
	}
	if len(All()[0].Bindings) != 0 || All()[0].Gated() {
		t.Error("M0 binds something")
	}
}

func TestGetErrors(t *testing.T) {
	for id, want := range map[string]string{
		"": "no mode", "M99": "no mode", "m": "no mode", "M9-": "no binding", "M9-nonsense": "no binding",
		"M1-args": "no binding", "M9-args-args-x": "left out twice", "M9 ": "no mode",
	} {
		if m, err := Get(id); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Get(%q) = %q, %v", id, m.ID, err)
		}
	}
	if m, err := Get("M9-args-once"); err != nil || m.Has(api.BindArgs) || m.Has(api.BindOnce) || !m.Has(api.BindSeen) || m.ID != "M9-args-once" {
		t.Errorf("M9-args-once: %+v, %v", m, err)
	}
	if _, err := Compose("x", api.BindArgs, "nonsense"); err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("composing of nonsense: %v", err)
	}
	if got := printed(Verify(context.Background(), &Situation{})); got != "record/no_mode" {
		t.Errorf("the zero mode: %q", got)
	}
}

// TestSetLaws: leaving bindings out never adds one, a set enforces what api says
// it does, and neither operation touches the mode it starts from.
func TestSetLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.SampledFrom(All()).Draw(t, "mode")
		out := rapid.SliceOfDistinct(rapid.SampledFrom(api.Bindings()), rapid.ID[api.Binding]).Draw(t, "left out")
		before := m.Bindings.String()
		less := m.Without(out...)
		if m.Bindings.String() != before {
			t.Fatalf("Without changed the mode: %s", m.Bindings)
		}
		for _, b := range api.Bindings() {
			if less.Has(b) && !m.Has(b) {
				t.Fatalf("without %v the mode enforces %s", out, b)
			}
			if less.Bindings[b] != (m.Bindings[b] && !slices.Contains(out, b)) {
				t.Fatalf("without %v: %s", out, b)
			}
			if m.Has(b) != api.Enforces(m.Bindings.List(), b) {
				t.Fatalf("%s: Has and api.Enforces differ on %s", m.ID, b)
			}
		}
		composed, err := Compose("c", less.Bindings.List()...)
		if err != nil || composed.Bindings.String() != less.Bindings.String() {
			t.Fatalf("composed %s, %v", composed.Bindings, err)
		}
	})
}

// TestFewerBindingsRefuseLess: in one situation, a mode with fewer bindings of
// the same carrier refuses a subset, unless the evidence itself changes (record
// says where it is read).
func TestFewerBindingsRefuseLess(t *testing.T) {
	rows := build(t)
	rapid.Check(t, func(t *rapid.T) {
		r := rapid.SampledFrom(rows).Draw(t, "row")
		out := rapid.SliceOfDistinct(rapid.SampledFrom(api.Bindings()), rapid.ID[api.Binding]).Draw(t, "left out")
		out = slices.DeleteFunc(out, func(b api.Binding) bool { return b == api.BindRecord || b == api.BindChallenge })
		full, less := *r.s, *r.s
		less.Mode = less.Mode.Without(out...)
		all := Verify(context.Background(), &full)
		for _, refusal := range Verify(context.Background(), &less) {
			if !slices.Contains(all, refusal) {
				t.Fatalf("%s: without %v it is refused by %s, which did not refuse before", r.name, out, refusal)
			}
		}
	})
}
