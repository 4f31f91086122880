package results

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// A Catalogue holds the names a run was made with. It is stored with the run and
// is the only source of names for tables and figures, so that an old run keeps
// its own. Rows and columns appear in its order.
type Catalogue struct {
	Targets   []TargetInfo   `json:"targets"`
	Attacks   []AttackInfo   `json:"attacks"`
	Scenarios []ScenarioInfo `json:"scenarios"`
	// NotApplicable explains the trials that were not made.
	NotApplicable []Skip `json:"not_applicable"`
	// Implies lists, by binding, the weaker bindings it includes: a refusal by the
	// stronger one is the right reason where a condition names the weaker.
	Implies map[string][]string `json:"implies,omitempty"`
}

// A TargetInfo is one row of the tables.
type TargetInfo struct {
	ID         string   `json:"id"`
	Name       string   `json:"name"`
	Bindings   []string `json:"bindings"`    // claimed, in the order of the documentation
	ModelledOn string   `json:"modelled_on"` // the published design it follows; may be empty
	// Group is the heading of the table that the row is in; empty for the main table.
	Group string `json:"group,omitempty"`
}

// An AttackInfo is one column of the tables.
type AttackInfo struct {
	ID          string        `json:"id"`
	Title       string        `json:"title"`
	MainBinding string        `json:"main_binding"`
	Variants    []VariantInfo `json:"variants"`
}

// A VariantInfo is one failure of a family, or a benign twin.
type VariantInfo struct {
	Name    string `json:"name"`
	Summary string `json:"summary"`
	// Condition is the expression over bindings that stops the variant; empty for
	// a twin.
	Condition string `json:"condition"`
	// AlsoNamed are bindings outside the condition that may name the refusal,
	// because a design enforces the condition by a look-up.
	AlsoNamed    []string `json:"also_named,omitempty"`
	Capabilities []string `json:"capabilities"` // what the adversary uses
	References   []string `json:"references"`
	Kind         Kind     `json:"kind"` // Attack or Twin
	// Success lists the referee's reasons that make the attack a success, as
	// "kind" or "kind:about"; {role} stands for the path of a scenario's field.
	Success []string `json:"success,omitempty"`
	// SuccessOn is the class of tool whose effects count.
	SuccessOn string `json:"success_on,omitempty"`
	// Effects is how many authorised effects the honest part makes.
	Effects int `json:"effects,omitempty"`
}

// A ScenarioInfo names a scenario.
type ScenarioInfo struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	// Fields are the names of the fields that play a role, by role.
	Fields map[string]string `json:"fields,omitempty"`
	// Guarantee is what the service offers against duplicates, for conditions
	// that depend on it.
	Guarantee string `json:"guarantee,omitempty"`
}

// A Skip says why a variant is not tried in a scenario.
type Skip struct {
	Attack   string `json:"attack"`
	Variant  string `json:"variant"`
	Scenario string `json:"scenario"`
	Reason   string `json:"reason"`
}

// Validate reports an empty catalogue, an entry without its name, a name used
// twice, and a skip without a reason or of something unknown.
func (c Catalogue) Validate() error {
	if len(c.Targets) == 0 || len(c.Attacks) == 0 || len(c.Scenarios) == 0 {
		return errors.New("catalogue: no targets, no attacks or no scenarios")
	}
	type name struct{ what, id, of string }
	seen := map[name]bool{}
	add := func(what, id string) error {
		if id == "" {
			return fmt.Errorf("catalogue: a %s without a name", what)
		}
		if seen[name{what, id, ""}] {
			return fmt.Errorf("catalogue: %s %q is listed twice", what, id)
		}
		seen[name{what, id, ""}] = true
		return nil
	}
	for _, t := range c.Targets {
		if err := add("target", t.ID); err != nil {
			return err
		}
	}
	for _, s := range c.Scenarios {
		if err := add("scenario", s.ID); err != nil {
			return err
		}
	}
	for _, a := range c.Attacks {
		if err := add("attack", a.ID); err != nil {
			return err
		}
		if len(a.Variants) == 0 {
			return fmt.Errorf("catalogue: attack %q has no variants", a.ID)
		}
		for _, v := range a.Variants {
			if v.Kind != Attack && v.Kind != Twin {
				return fmt.Errorf("catalogue: variant %s/%s is of kind %q, want attack or twin", a.ID, v.Name, v.Kind)
			}
			if v.Name == "" {
				return fmt.Errorf("catalogue: a variant of %s without a name", a.ID)
			}
			// One name may stand for an attack and for its twin.
			if n := (name{string(v.Kind), v.Name, a.ID}); seen[n] {
				return fmt.Errorf("catalogue: variant %s/%s (%s) is listed twice", a.ID, v.Name, v.Kind)
			} else {
				seen[n] = true
			}
			if v.Effects < 0 || v.Effects > maxCount {
				return fmt.Errorf("catalogue: variant %s/%s makes %d effects, want 0 to %d", a.ID, v.Name, v.Effects, maxCount)
			}
			seen[name{"variant", v.Name, a.ID}] = true
		}
	}
	for _, s := range c.NotApplicable {
		if !seen[name{"variant", s.Variant, s.Attack}] || !seen[name{"scenario", s.Scenario, ""}] {
			return fmt.Errorf("catalogue: not applicable: %s/%s in %q is not in the catalogue", s.Attack, s.Variant, s.Scenario)
		}
		if s.Reason == "" {
			return fmt.Errorf("catalogue: not applicable: %s/%s in %q has no reason", s.Attack, s.Variant, s.Scenario)
		}
	}
	return nil
}

// Variant finds a variant of an attack.
func (c Catalogue) Variant(attack, name string, kind Kind) (VariantInfo, bool) {
	for _, a := range c.Attacks {
		if a.ID != attack {
			continue
		}
		i := slices.IndexFunc(a.Variants, func(v VariantInfo) bool { return v.Name == name && v.Kind == kind })
		if i >= 0 {
			return a.Variants[i], true
		}
	}
	return VariantInfo{}, false
}

// unfit groups what is not applicable by its reason.
func (c Catalogue) unfit() []Unfit {
	at, out := map[string]int{}, []Unfit{}
	for _, s := range c.NotApplicable {
		i, ok := at[s.Reason]
		if !ok {
			i = len(out)
			at[s.Reason] = i
			out = append(out, Unfit{Reason: s.Reason})
		}
		u := &out[i]
		u.Pairs++
		u.Variants = append(u.Variants, s.Attack+"/"+s.Variant)
		u.Scenarios = append(u.Scenarios, s.Scenario)
	}
	for i := range out {
		for _, l := range []*[]string{&out[i].Variants, &out[i].Scenarios} {
			slices.Sort(*l)
			*l = slices.Compact(*l)
		}
	}
	slices.SortFunc(out, func(a, b Unfit) int {
		return cmp.Or(cmp.Compare(b.Pairs, a.Pairs), cmp.Compare(a.Reason, b.Reason))
	})
	return out
}
