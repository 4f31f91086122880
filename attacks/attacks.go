package attacks

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"countersign/gateway/api"
	"countersign/scenarios"
)

// A Capability is something the adversary can do. A variant declares those it
// uses and uses no other.
type Capability string

const (
	UseText    Capability = "text"    // steer what the agent proposes
	UseDisplay Capability = "display" // choose free text that will be shown
	UseQueue   Capability = "queue"   // read, change, duplicate, reorder, delay messages between approval and dispatch
	UseRef     Capability = "ref"     // change reference data, or profit from its change
	UsePeer    Capability = "peer"    // run a sibling service that shares key material
	UseClient  Capability = "client"  // call every public address as an authenticated agent
	UseDelay   Capability = "delay"   // make calls wait
	UseNet     Capability = "net"     // drop, delay, duplicate provider responses
	UseFault   Capability = "fault"   // make store, policy or audit unavailable, crash a process
	UseClock   Capability = "clock"   // move or remove a clock
	UsePerson  Capability = "person"  // be a person who is enrolled, but may not approve this
)

// A Family is one of AB1 … AB12.
type Family struct {
	ID       string
	Title    string
	Main     api.Binding // the binding that mainly stops it
	Variants []Variant
	Twins    []Variant // benign: the same kind of flow, honest throughout
}

// A Variant is one failure, or a benign twin.
type Variant struct {
	Name    string // long, literal, stable
	Summary string // one sentence
	Uses    []Capability
	// Stopped says which bindings stop it. Twins have none.
	Stopped Condition
	// AlsoNamed are bindings outside the condition that may name the refusal,
	// because a design enforces the condition by looking something up.
	AlsoNamed []api.Binding
	// Success lists the referee's reasons that make the attack a success: a kind
	// ("spent"), or a kind and what it is about, where {role} stands for the path
	// of a scenario's field ("shown:{hidden}").
	Success []string
	// SuccessOn is the class of tool whose effects count; zero: consequential.
	SuccessOn api.ToolClass
	// Effects is how many authorised effects the honest part of the script makes.
	// Fewer is starved.
	Effects int
	// Needs lists the roles that a scenario must have; Unless says why a scenario
	// does not apply, or nothing.
	Needs      []scenarios.Role
	Unless     func(*scenarios.Scenario) string
	References []string
	Run        func(*Stage)
}

// NotApplicable says why the variant makes no sense in a scenario, or nothing.
func (v Variant) NotApplicable(s *scenarios.Scenario) string {
	for _, role := range v.Needs {
		if _, ok := s.Field(role); !ok {
			return fmt.Sprintf("no field plays the role %s: %s", role, s.NotApplicable[role])
		}
	}
	if v.Unless != nil {
		return v.Unless(s)
	}
	return ""
}

// StoppedBy reports whether a design with these bindings is predicted to block the
// variant in a scenario.
func (v Variant) StoppedBy(bs []api.Binding, sc *scenarios.Scenario) bool {
	t, _ := sc.Tool(sc.HonestTool)
	return v.Stopped.Holds(bs, string(t.Guarantee))
}

// Successes returns the reasons that make the attack a success in a scenario.
func (v Variant) Successes(s *scenarios.Scenario) []string {
	var out []string
	for _, text := range v.Success {
		for _, role := range scenarios.Roles() {
			if f, ok := s.Field(role); ok {
				text = strings.ReplaceAll(text, "{"+string(role)+"}", "/"+f.Name)
			}
		}
		out = append(out, text)
	}
	return out
}

var families []Family

// family enters a family, from the file that holds it.
func family(f Family) struct{} {
	families = append(families, f)
	return struct{}{}
}

// All returns the families in order.
func All() []Family {
	out := slices.Clone(families)
	slices.SortFunc(out, func(a, b Family) int { return number(a) - number(b) })
	return out
}

func number(f Family) (n int) {
	_, _ = fmt.Sscanf(f.ID, "AB%d", &n) // Check reports an id of another form
	return n
}

var variantName = regexp.MustCompile(`^[a-z0-9]+(_[a-z0-9]+)*$`)

// Check verifies the catalogue before any run: complete, unambiguous, with a
// condition and a measure of success for every variant.
func Check(fs []Family) error {
	seen := map[string]bool{}
	for i, f := range fs {
		if want := fmt.Sprintf("AB%d", i+1); f.ID != want {
			return fmt.Errorf("catalogue: the family after %d others is %q, want %s", i, f.ID, want)
		}
		switch {
		case f.Title == "" || !slices.Contains(api.Bindings(), f.Main):
			return fmt.Errorf("catalogue: %s has no title or no main binding", f.ID)
		case len(f.Variants) < 2:
			return fmt.Errorf("catalogue: %s has fewer than two variants", f.ID)
		case len(f.Twins) == 0:
			return fmt.Errorf("catalogue: %s has no benign twin", f.ID)
		}
		main := false
		for _, v := range slices.Concat(f.Variants, f.Twins) {
			twin := slices.ContainsFunc(f.Twins, func(t Variant) bool { return t.Name == v.Name })
			main = main || slices.Contains(v.Stopped.Bindings(), f.Main)
			switch {
			case !variantName.MatchString(v.Name) || seen[v.Name]:
				return fmt.Errorf("catalogue: %s: the name %q is malformed or used twice", f.ID, v.Name)
			case v.Summary == "" || v.Run == nil:
				return fmt.Errorf("catalogue: %s/%s has no summary or no script", f.ID, v.Name)
			case twin && (len(v.Uses) > 0 || len(v.Success) > 0 || v.Stopped.text != "" || v.Effects < 1):
				return fmt.Errorf("catalogue: %s/%s is a twin and must use no capability, have no condition and expect an effect", f.ID, v.Name)
			case !twin && (len(v.Uses) == 0 || len(v.Success) == 0 || len(v.Stopped.Bindings()) == 0):
				return fmt.Errorf("catalogue: %s/%s lacks capabilities, a condition or a measure of success", f.ID, v.Name)
			case !twin && !slices.Contains(v.Success, "none"):
				return fmt.Errorf("catalogue: %s/%s would not count an effect that nobody approved", f.ID, v.Name)
			}
			seen[v.Name] = true
		}
		if !main {
			return fmt.Errorf("catalogue: no variant of %s is stopped by its main binding %s", f.ID, f.Main)
		}
	}
	if len(fs) != 12 {
		return fmt.Errorf("catalogue: %d families, want 12", len(fs))
	}
	return nil
}
