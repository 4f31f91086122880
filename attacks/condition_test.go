package attacks

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"countersign/gateway/api"
)

func TestConditionHolds(t *testing.T) {
	b := func(names string) []api.Binding {
		var out []api.Binding
		for name := range strings.FieldsSeq(names) {
			out = append(out, api.Binding(name))
		}
		return out
	}
	for _, tt := range []struct {
		condition, bindings, fact string
		want                      bool
	}{
		{"args", "args", "", true},
		{"args", "refs", "", false},
		{"args", "", "", false},
		{"args | refs", "refs", "", true},
		{"args & refs", "refs", "", false},
		{"args & refs", "refs args", "", true},
		// & binds more strongly than |.
		{"args | refs & render", "args", "", true},
		{"args | refs & render", "refs", "", false},
		{"refs & render | args", "args", "", true},
		{"(args | refs) & render", "args", "", false},
		{"(args | refs) & render", "args render", "", true},
		{"  ( (args) )&refs", "args refs", "", true},
		// A stronger binding does what the weaker one does, and not the reverse.
		{"seen", "once", "", true},
		{"once", "seen", "", false},
		{"run & call", "suspension", "", true},
		{"suspension", "run call", "", false},
		// Facts are about the provider and no bindings.
		{"idem & @idempotent", "idem", "idempotent", true},
		{"idem & @idempotent", "idem", "lookup-only", false},
		{"idem & @idempotent", "idem idempotent", "", false},
		{"@lookup-only | @none", "", "none", true},
	} {
		c, err := ParseCondition(tt.condition)
		if err != nil {
			t.Errorf("%q: %v", tt.condition, err)
			continue
		}
		if got := c.Holds(b(tt.bindings), tt.fact); got != tt.want {
			t.Errorf("%q holds for [%s] and fact %q: %t, want %t", tt.condition, tt.bindings, tt.fact, got, tt.want)
		}
		if c.String() != tt.condition {
			t.Errorf("%q prints as %q", tt.condition, c)
		}
	}
	if (Condition{}).Holds(api.Bindings(), "idempotent", "lookup-only", "none") {
		t.Error("the zero condition holds: a variant without a condition would be predicted blocked")
	}
}

func TestConditionErrors(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"", `"" is neither a binding nor a fact`},
		{"   ", `"" is neither`},
		{"arg", `"arg" is neither`},
		{"Args", `"Args" is neither`},
		{"@strict", `"@strict" is neither`},
		{"@", `"@" is neither`},
		{"!args", `"!args" is neither`}, // no negation: no binding can ever help an attack
		{"args refs", `unexpected "refs"`},
		{"args &", `"" is neither`},
		{"& args", `"&" is neither`},
		{"args || refs", `"|" is neither`},
		{"(args", `expected ) and found ""`},
		{"(args refs)", `expected ) and found "refs"`},
		{"args)", `unexpected ")"`},
		{"()", `")" is neither`},
		{"args\n| refs", `neither a binding nor a fact`},
	} {
		c, err := ParseCondition(tt.text)
		if err == nil {
			t.Errorf("%q was read as %q", tt.text, c)
		} else if !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), fmt.Sprintf("%q", tt.text)) {
			t.Errorf("%q: the error is %q, want the condition itself and %q", tt.text, err, tt.want)
		}
	}
}

func TestConditionBindings(t *testing.T) {
	c := stopped("once | (args & seen) | idem & @idempotent")
	want := []api.Binding{api.BindArgs, api.BindSeen, api.BindOnce, api.BindIdem}
	if got := c.Bindings(); !slices.Equal(got, want) {
		t.Errorf("it mentions %v, want %v in the order of the documentation", got, want)
	}
}

// expression is a condition drawn at random, with the meaning that the
// documentation gives it.
type expression struct {
	text string
	mean func(set map[api.Binding]bool, fact string) bool
}

func expressions(depth int) *rapid.Generator[expression] {
	return rapid.Custom(func(t *rapid.T) expression {
		kind := rapid.IntRange(0, 5).Draw(t, "kind")
		if depth == 0 || kind == 0 {
			if rapid.IntRange(0, 5).Draw(t, "fact") == 0 {
				g := rapid.SampledFrom([]string{"idempotent", "lookup-only", "none"}).Draw(t, "guarantee")
				return expression{"@" + g, func(_ map[api.Binding]bool, fact string) bool { return fact == g }}
			}
			b := rapid.SampledFrom(api.Bindings()).Draw(t, "binding")
			return expression{string(b), func(set map[api.Binding]bool, _ string) bool {
				switch b {
				case api.BindSeen:
					return set[b] || set[api.BindOnce]
				case api.BindRun, api.BindCall:
					return set[b] || set[api.BindSuspension]
				}
				return set[b]
			}}
		}
		x := expressions(depth-1).Draw(t, "left")
		y := expressions(depth-1).Draw(t, "right")
		if kind%2 == 0 {
			return expression{"(" + x.text + " & " + y.text + ")", func(s map[api.Binding]bool, f string) bool { return x.mean(s, f) && y.mean(s, f) }}
		}
		return expression{"(" + x.text + "|" + y.text + ")", func(s map[api.Binding]bool, f string) bool { return x.mean(s, f) || y.mean(s, f) }}
	})
}

func sets(t *rapid.T, name string) []api.Binding {
	return rapid.SliceOfDistinct(rapid.SampledFrom(api.Bindings()), rapid.ID[api.Binding]).Draw(t, name)
}

// TestConditionMeaning: what is read means what was written.
func TestConditionMeaning(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := expressions(4).Draw(t, "expression")
		c, err := ParseCondition(e.text)
		if err != nil {
			t.Fatal(err)
		}
		list := sets(t, "bindings")
		set := map[api.Binding]bool{}
		for _, b := range list {
			set[b] = true
		}
		fact := rapid.SampledFrom([]string{"idempotent", "lookup-only", "none"}).Draw(t, "fact")
		if got, want := c.Holds(list, fact), e.mean(set, fact); got != want {
			t.Fatalf("%s for %v and %s: %t, want %t", e.text, list, fact, got, want)
		}
	})
}

// TestConditionMonotone: adding a binding never turns a blocked attack into one
// that goes through. Without that, ablation would have no minimal cuts.
func TestConditionMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var conditions []Condition
		for _, f := range All() {
			for _, v := range f.Variants {
				conditions = append(conditions, v.Stopped)
			}
		}
		conditions = append(conditions, stopped(expressions(4).Draw(t, "expression").text))
		c := rapid.SampledFrom(conditions).Draw(t, "condition")
		list := sets(t, "bindings")
		fact := rapid.SampledFrom([]string{"idempotent", "lookup-only", "none"}).Draw(t, "fact")
		more := append(slices.Clone(list), rapid.SampledFrom(api.Bindings()).Draw(t, "added"))
		if c.Holds(list, fact) && !c.Holds(more, fact) {
			t.Fatalf("%q holds for %v and no longer for %v", c, list, more)
		}
	})
}

// FuzzParseCondition: any text is read or refused, and what is read prints as a
// text with the same meaning.
func FuzzParseCondition(f *testing.F) {
	for _, fam := range All() {
		for _, v := range fam.Variants {
			f.Add(v.Stopped.String())
		}
	}
	for _, s := range []string{"", "(", "args |", "((args))", "@none&@idempotent", "args & (record | signed) | seen"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseCondition(text)
		if err != nil {
			return
		}
		again, err := ParseCondition(c.String())
		if err != nil {
			t.Fatalf("%q prints as %q, which is refused: %v", text, c, err)
		}
		for _, set := range [][]api.Binding{nil, c.Bindings(), api.Bindings()} {
			if c.Holds(set, "idempotent") != again.Holds(set, "idempotent") {
				t.Fatalf("%q changes its meaning when it is printed", text)
			}
		}
		all := []string{"idempotent", "lookup-only", "none"}
		if !c.Holds(api.Bindings(), all...) {
			t.Fatalf("%q does not hold for every binding and fact", text)
		}
		if c.Holds(nil) {
			t.Fatalf("%q holds for nothing", text)
		}
	})
}

// TestConditionsAreBounded: a stored run may hold any text for a condition.
func TestConditionsAreBounded(t *testing.T) {
	deep := strings.Repeat("(", 200_000) + "args" + strings.Repeat(")", 200_000)
	if _, err := ParseCondition(deep); err == nil || len(err.Error()) > 200 {
		t.Errorf("a condition of %d bytes: the error is %.200v", len(deep), err)
	}
	if _, err := ParseCondition(strings.Repeat("(", 900) + "args" + strings.Repeat(")", 900)); err != nil {
		t.Error(err)
	}
}
