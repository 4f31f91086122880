package modes

import (
	"slices"
	"strings"
	"testing"

	"countersign/gateway/api"
)

// TestBeside: what is reported beside the main table leaves that table as it is, and
// every name is of one mode and finds it.
func TestBeside(t *testing.T) {
	for _, m := range All() {
		if m.Group != GroupDesigns {
			t.Errorf("%s is not in the main table but in %q", m.ID, m.Group)
		}
	}
	seen := map[string]string{}
	for _, m := range Named() {
		for _, key := range slices.Compact([]string{strings.ToLower(m.ID), strings.ToLower(m.Name)}) {
			if other, twice := seen[key]; twice && other != m.ID {
				t.Errorf("%q is %s and %s", key, other, m.ID)
			}
			seen[key] = m.ID
		}
		for _, key := range []string{m.ID, strings.ToLower(m.ID), m.Name} {
			if got, err := Get(key); err != nil || got.ID != m.ID {
				t.Errorf("Get(%q) is %q, %v", key, got.ID, err)
			}
		}
		if !slices.Contains(Groups(), m.Group) || m.Title == "" || m.ModelledOn == "" || strings.Contains(m.ID+m.Name, "-") {
			t.Errorf("%+v", m)
		}
		if _, ok := carriers[m.Carrier]; !ok {
			t.Errorf("%s has no carrier %q", m.ID, m.Carrier)
		}
	}
	order := Groups()
	if !slices.IsSortedFunc(Named(), func(a, b Mode) int { return slices.Index(order, a.Group) - slices.Index(order, b.Group) }) {
		t.Error("the modes of a group do not stand together")
	}
	if m, err := Get("m4+-once-idem"); err != nil || m.ID != "M4+-once-idem" || m.Has(api.BindOnce) || m.Group != GroupHygiene {
		t.Errorf("%+v, %v", m, err)
	}
	mine, err := ParseComposed("rar=record")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Named().With(mine); err == nil {
		t.Error("a name that is taken was given away")
	}
}

// TestHardened: a design with hygiene is the design and hygiene; what is not added is
// either there already or said, with the reason.
func TestHardened(t *testing.T) {
	var got []string
	for _, plus := range Beside() {
		if plus.Group != GroupHygiene {
			continue
		}
		got = append(got, plus.ID)
		m, err := Get(strings.TrimSuffix(plus.ID, "+"))
		if err != nil {
			t.Fatal(err)
		}
		if plus.Carrier != m.Carrier || plus.ModelledOn != m.ModelledOn {
			t.Errorf("%s is another design than %s: %+v", plus.ID, m.ID, plus)
		}
		for _, b := range api.Bindings() {
			switch is, was := plus.Bindings[b], m.Bindings[b]; {
			case was && !is:
				t.Errorf("%s has lost %s", plus.ID, b)
			case is && !was && !slices.Contains(hygiene(), b):
				t.Errorf("%s is no hygiene: %s", b, plus.ID)
			case is && !was && !strings.Contains(plus.Title, string(b)):
				t.Errorf("%s does not say that it has %s: %q", plus.ID, b, plus.Title)
			case !is && slices.Contains(hygiene(), b) && !strings.Contains(plus.Note, string(b)):
				t.Errorf("%s does not say why it is without %s: %q", plus.ID, b, plus.Note)
			}
		}
		if again := plus.Hardened(); again.Bindings.String() != plus.Bindings.String() {
			t.Errorf("%s can be hardened further: %s", plus.ID, again.Bindings)
		}
		if m.Bindings[api.BindIdem] {
			t.Errorf("hardening changed %s", m.ID)
		}
	}
	if want := "M1+ M2+ M3+ M4+ M5+ M6+ M7+ M8+"; strings.Join(got, " ") != want {
		t.Errorf("hygiene is added to %v, want %s", got, want)
	}
}

// TestPublished: each binding of a published text has one clause with a source, and
// the two readings hold what their clauses say.
func TestPublished(t *testing.T) {
	texts := 0
	for _, m := range Beside() {
		if m.Group != GroupPublished {
			continue
		}
		cited := map[api.Binding]bool{}
		whole := strings.HasSuffix(m.ID, ".whole")
		for _, c := range m.Clauses {
			if cited[c.Binding] || c.Source == "" || c.Says == "" || !strings.ContainsAny(c.Source, "0123456789,") {
				t.Errorf("%s: a clause without its place, or the second for its binding: %+v", m.ID, c)
			}
			cited[c.Binding] = true
			if want := whole || !c.Part; m.Bindings[c.Binding] != want {
				t.Errorf("%s has %s: %t, and its clause is %+v", m.ID, c.Binding, !want, c)
			}
		}
		for b := range m.Bindings {
			if !cited[b] || known(b) != nil {
				t.Errorf("%s has %q, for which it cites nothing", m.ID, b)
			}
		}
		if len(m.Bindings) == 0 || m.Note == "" {
			t.Errorf("%s binds nothing, or does not say what is open", m.ID)
		}
		if whole {
			continue
		}
		texts++
		other, err := Get(m.ID + ".whole")
		if err != nil {
			t.Fatal(err)
		}
		for b := range m.Bindings {
			if !other.Bindings[b] {
				t.Errorf("%s has %s, and %s has not", m.ID, b, other.ID)
			}
		}
	}
	if texts < 3 {
		t.Errorf("%d published texts, want three at least", texts)
	}
}
