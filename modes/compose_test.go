package modes

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"countersign/gateway/api"
)

func TestParseComposed(t *testing.T) {
	for text, want := range map[string]struct{ id, bindings string }{
		"mine=args,once":    {"mine", "args,once"},
		"once,args":         {"once+args", "args,once"},
		"record":            {"record", "record"},
		"a.b=record, seen ": {"a.b", "record,seen"},
	} {
		m, err := ParseComposed(text)
		if err != nil || m.ID != want.id || m.Bindings.String() != want.bindings || m.Carrier != CarryBound {
			t.Errorf("%q: %s with %s over %s, %v", text, m.ID, m.Bindings, m.Carrier, err)
		}
	}
	for text, want := range map[string]string{
		"":                 `no binding ""`,
		"mine=":            `no binding ""`,
		"mine=args,":       `no binding ""`,
		"mine=argz":        `no binding "argz"`,
		"mine=args,args":   "named twice",
		"=args":            "must begin with a letter",
		"my-mode=args":     "must begin with a letter",
		"../mine=args":     "must begin with a letter",
		"mine=args=record": "no binding",
	} {
		if m, err := ParseComposed(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v, want an error with %q", text, m, err, want)
		}
	}
}

const twoModes = `
- id: rar
  name: rich requests
  title: a signed request that names the call
  modelled_on: RFC 9396
  carrier: jwt
  bindings: [signed, args, audience]
- id: plain
  bindings: [record]
`

func TestParseModes(t *testing.T) {
	ms, err := Parse([]byte(twoModes))
	if err != nil || len(ms) != 2 {
		t.Fatal(ms, err)
	}
	if m := ms[0]; m.ID != "rar" || m.Name != "rich requests" || m.ModelledOn != "RFC 9396" || m.Carrier != CarryJWT || m.Bindings.String() != "args,signed,audience" {
		t.Errorf("%+v", m)
	}
	if m := ms[1]; m.Name != "plain" || m.Carrier != CarryBound || m.Title == "" || m.Bindings.String() != "record" {
		t.Errorf("%+v", m)
	}
}

func TestParseModesErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "empty",
		"[]":                         "no mode",
		"- bindings: [args]":         "mode 1 of the list has no id",
		"- id: a\n  bindings: []":    "line 1: composing mode a: it has no bindings",
		"- id: a":                    "line 1: composing mode a: it has no bindings",
		"- id: a\n  bindngs: [args]": "line 2: field bindngs not found",
		"- id: a\n  bindings:\n  - args\n  - argz":        `line 4: there is no binding "argz"`,
		"- id: a\n  bindings: [args, args]":               "line 2: mode a has the binding args already",
		"- id: a\n  bindings: args":                       "line 2: ",
		"- id: a\n  bindings: [[args]]":                   "line 2: want a text",
		"- id: a\n  id: b\n  bindings: [args]":            "already defined at line 1",
		"- id: 7\n  bindings: [args]":                     "line 1: want a text",
		"- id: a-b\n  bindings: [args]":                   "line 1: composing mode \"a-b\"",
		"- id: a\n  bindings: [args]\n  carrier: pigeon":  `line 3: composing mode a: there is no carrier "pigeon"`,
		"- id: a\n  bindings: [args]\n  carrier: nothing": `line 3: composing mode a: there is no carrier "nothing"`,
		"- id: a\n  bindings: [args]\n  carrier: ''":      `line 3: composing mode a: there is no carrier ""`,
		"- id: a\n  bindings: [args]\n---\n- id: b\n":     "more than one document",
		"id: a\nbindings: [args]":                         "line 1: ",
	} {
		if ms, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v, want an error with %q", text, ms, err, want)
		}
	}
}

// FuzzParseModes: whatever is read is a mode that can be deployed and found again.
func FuzzParseModes(f *testing.F) {
	f.Add([]byte(twoModes))
	f.Add([]byte("- id: a\n  bindings: [args]\n  carrier: mac\n"))
	f.Add([]byte("- &x {id: a, bindings: [args]}\n- *x\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		ms, err := Parse(data)
		if err != nil {
			return
		}
		for _, m := range ms {
			if _, ok := carriers[m.Carrier]; !ok || m.ID == "" || m.Name == "" || len(m.Bindings) == 0 || len(m.Bindings.List()) != len(m.Bindings) {
				t.Fatalf("%q was read as %+v", data, m)
			}
			if strings.Contains(m.ID, "-") {
				t.Fatalf("%q cannot be told from an ablation", m.ID)
			}
		}
		if table, err := (Table{}).With(ms...); err == nil {
			for _, m := range ms {
				if got, err := table.Get(m.ID); err != nil || got.ID != m.ID {
					t.Fatalf("%q is not found: %v", m.ID, err)
				}
			}
		}
	})
}

func TestTableWith(t *testing.T) {
	mine, err := ParseComposed("mine=args,record")
	if err != nil {
		t.Fatal(err)
	}
	table, err := Table(All()).With(mine)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := table.Get("mine-args"); err != nil || m.ID != "mine-args" || m.Bindings.String() != "record" {
		t.Errorf("%+v, %v", m, err)
	}
	for _, text := range []string{"m9=args", "bound=args", "MINE=record"} {
		m, err := ParseComposed(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := table.With(m); err == nil || !strings.Contains(err.Error(), "already") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestComposedIsAblated: leaving bindings out and composing of the rest are the
// same set.
func TestComposedIsAblated(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kept := rapid.SliceOfNDistinct(rapid.SampledFrom(api.Bindings()), 1, -1, rapid.ID[api.Binding]).Draw(t, "kept")
		m, err := ParseComposed("x=" + strings.Join(names(kept), ","))
		if err != nil {
			t.Fatal(err)
		}
		lost := slices.DeleteFunc(api.Bindings(), func(b api.Binding) bool { return slices.Contains(kept, b) })
		if want := m9().Without(lost...).Bindings.String(); m.Bindings.String() != want {
			t.Fatalf("%s, want %s", m.Bindings, want)
		}
	})
}

func names(bs []api.Binding) []string {
	var out []string
	for _, b := range bs {
		out = append(out, string(b))
	}
	return out
}
