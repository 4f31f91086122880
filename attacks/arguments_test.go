package attacks

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// objects draws an object with distinct member names, as an agent may write it.
var objects = rapid.Custom(func(t *rapid.T) Arguments {
	names := rapid.SliceOfNDistinct(rapid.StringN(0, 6, -1), 0, 6, rapid.ID[string]).Draw(t, "names")
	var out Arguments
	for _, n := range names {
		out = append(out, member{n, values.Draw(t, "value")})
	}
	return out
})

var values = rapid.Custom(func(t *rapid.T) json.RawMessage {
	switch rapid.IntRange(0, 4).Draw(t, "type") {
	case 0:
		return quoted(rapid.String().Draw(t, "string"))
	case 1:
		return strconv.AppendInt(nil, rapid.Int64Range(-1<<53+1, 1<<53-1).Draw(t, "integer"), 10)
	case 2:
		return json.RawMessage(rapid.SampledFrom([]string{"true", "false", "null", "1.5", "-0.25", "2e3", "{}", "[]"}).Draw(t, "literal"))
	case 3:
		return quoted(rapid.SampledFrom([]string{"", `"`, `\`, "a", "\u2028", "<b>", "\x00", "é"}).Draw(t, "awkward"))
	}
	list, err := json.Marshal(rapid.SliceOfN(rapid.StringN(0, 4, -1), 0, 3).Draw(t, "list"))
	if err != nil {
		t.Fatal(err)
	}
	return list
})

// TestRewritingKeepsTheValues: what the twins do to a text changes its bytes and
// not its canonical form.
func TestRewritingKeepsTheValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := objects.Draw(t, "object")
		want, err := canonicalText(a.Text())
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string][]byte{"reordered": a.Reordered(), "respelled": a.Respelled()} {
			got, err := canonicalText(text)
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%s: %s became %s (%v), want the values of %s", name, a.Text(), text, err, want)
			}
			if len(a) > 0 && bytes.Equal(text, a.Text()) {
				t.Fatalf("%s: %s stayed as it was", name, text)
			}
		}
	})
}

func TestArgumentLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := objects.Draw(t, "object")
		before := string(a.Text())
		back, err := ParseArguments(a.Text())
		if err != nil || !bytes.Equal(back.Text(), a.Text()) {
			t.Fatalf("%s reads back as %s (%v)", a.Text(), back.Text(), err)
		}
		name := rapid.StringN(0, 6, -1).Draw(t, "name")
		if len(a) > 0 && rapid.Bool().Draw(t, "there") {
			name = rapid.SampledFrom(a).Draw(t, "member").Name
		}
		v := values.Draw(t, "new")
		there := a.Get(name) != nil

		with := a.With(name, v)
		if !bytes.Equal(with.Get(name), v) {
			t.Fatalf("With(%q) holds %s, want %s", name, with.Get(name), v)
		}
		if there && len(with) != len(a) || !there && len(with) != len(a)+1 {
			t.Fatalf("With(%q) on %s has %d members", name, before, len(with))
		}
		for i, m := range a { // the others stay, in their places
			if m.Name != name && (with[i].Name != m.Name || !bytes.Equal(with[i].Value, m.Value)) {
				t.Fatalf("With(%q) moved or changed member %q", name, m.Name)
			}
		}
		without := a.Without(name)
		if without.Get(name) != nil || !bytes.Equal(with.Without(name).Text(), without.Text()) {
			t.Fatalf("Without(%q) gives %s, and %s after With", name, without.Text(), with.Without(name).Text())
		}
		if !there && !bytes.Equal(without.Text(), a.Text()) {
			t.Fatalf("Without(%q) changed %s, which has no such member", name, before)
		}
		// Before and After add, whatever is there.
		if b := a.Before(name, v); len(b) != len(a)+1 || b[0].Name != name || !bytes.Equal(Arguments(b[1:]).Text(), a.Text()) {
			t.Fatalf("Before(%q) gives %s", name, b.Text())
		}
		if b := a.After(name, v); len(b) != len(a)+1 || b[len(a)].Name != name || !bytes.Equal(b[:len(a)].Text(), a.Text()) {
			t.Fatalf("After(%q) gives %s", name, b.Text())
		}
		if string(a.Text()) != before {
			t.Fatalf("the object itself changed from %s to %s", before, a.Text())
		}
	})
}

func FuzzParseArguments(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"amount":1200,"memo":"rent"}`, "{\n\t\"to\": [\"a\", \"b\"],\n\t\"cc\": null}", `{"a":1,"a":2}`,
		`[]`, ``, `{"a"`, `{"a":1`, `{"a":1} {}`, `{1:2}`, `"text"`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		a, err := ParseArguments(text)
		if err != nil {
			return
		}
		if !json.Valid(text) {
			t.Fatalf("%q was read and is no JSON", text)
		}
		again, err := ParseArguments(a.Text())
		if err != nil || !slices.EqualFunc(a, again, func(x, y member) bool {
			return x.Name == y.Name && bytes.Equal(x.Value, y.Value)
		}) {
			t.Fatalf("%q reads back as %q (%v)", text, again.Text(), err)
		}
	})
}
