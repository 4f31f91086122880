package provider

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"countersign/gateway/api"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"
)

// readBoth gives the value of the field "amount" for each reader; "-" when it is
// absent, "!" when the body is refused.
func readBoth(typ api.FieldType, body string) (viaStruct, viaFirst string) {
	read := func(p parser) string {
		values, err := p([]byte(body))
		if err != nil {
			return "!"
		}
		if values["amount"] == nil {
			return "-"
		}
		return string(values["amount"])
	}
	t := api.Tool{Fields: []api.Field{{Name: "amount", Type: typ}}}
	return read(structParser(t)), read(firstParser(t))
}

// TestReaders pins the readings in which the two libraries differ, and those in
// which they must not.
func TestReaders(t *testing.T) {
	for _, c := range []struct {
		typ            api.FieldType
		body           string
		structs, first string
	}{
		// The two readings of an ambiguous text.
		{api.TypeInteger, `{"amount":1,"amount":2}`, "2", "1"},
		{api.TypeInteger, `{"amount":1,"Amount":2}`, "2", "1"},
		{api.TypeInteger, `{"AMOUNT":2}`, "2", "-"},
		{api.TypeInteger, `{"amount":1,"amo\u0075nt":2}`, "2", "1"},
		{api.TypeInteger, `{"amount":1} {"amount":2}`, "1", "!"},
		{api.TypeInteger, `{"amount":null}`, "-", "-"},
		{api.TypeInteger, `null`, "-", "!"},

		{api.TypeInteger, `{"amount":9007199254740993}`, "9007199254740993", "9007199254740993"},
		{api.TypeInteger, `{"amount":-9223372036854775808}`, "-9223372036854775808", "-9223372036854775808"},
		{api.TypeInteger, `{"amount":9223372036854775808}`, "!", "!"},
		{api.TypeInteger, `{"amount":1e2}`, "100", "100"},
		{api.TypeInteger, `{"amount":100.0}`, "100", "100"},
		{api.TypeInteger, `{"amount":-0}`, "0", "0"},
		{api.TypeInteger, `{"amount":1.5}`, "!", "!"},
		{api.TypeInteger, `{"amount":1e-2}`, "!", "!"},
		{api.TypeInteger, `{"amount":1e999999999}`, "!", "!"},
		{api.TypeInteger, `{"amount":"1"}`, "!", "!"},
		{api.TypeInteger, `{"amount":NaN}`, "!", "!"},
		{api.TypeNumber, `{"amount":0.10}`, "0.1", "0.1"},
		{api.TypeNumber, `{"amount":1e21}`, "1e+21", "1e+21"},
		{api.TypeNumber, `{"amount":1e-7}`, "1e-7", "1e-7"},
		{api.TypeNumber, `{"amount":-0.0}`, "0", "0"},
		{api.TypeNumber, `{"amount":1e999}`, "!", "!"},
		{api.TypeNumber, `{"amount":9007199254740993}`, "9007199254740992", "9007199254740992"},
		{api.TypeBoolean, `{"amount":true}`, "true", "true"},
		{api.TypeBoolean, `{"amount":1}`, "!", "!"},
		{api.TypeString, `{"amount":"<\u2028é\u0007\n>"}`, "\"<\u2028é\\u0007\\n>\"", "\"<\u2028é\\u0007\\n>\""},
		{api.TypeString, `{"amount":"\ud800"}`, `"` + "\uFFFD" + `"`, `"` + "\uFFFD" + `"`},
		{api.TypeString, "{\"amount\":\"\xff\"}", `"` + "\uFFFD" + `"`, `"` + "\uFFFD" + `"`},
		{api.TypeString, `{"amount":["a"]}`, "!", "!"},
		{api.TypeStrings, `{"amount":[]}`, "[]", "[]"},
		{api.TypeStrings, `{"amount":["a","b"]}`, `["a","b"]`, `["a","b"]`},
		{api.TypeStrings, `{"amount":["a",1]}`, "!", "!"},
		{api.TypeStrings, `{"amount":"a"}`, "!", "!"},
		{api.TypeString, `{"amount":"a"`, "!", "!"},
		{api.TypeString, `"amount"`, "!", "!"},
	} {
		structs, first := readBoth(c.typ, c.body)
		if structs != c.structs || first != c.first {
			t.Errorf("%s %s: struct %s first %s, want %s %s", c.typ, c.body, structs, first, c.structs, c.first)
		}
	}
}

// TestUncheckedReader: what is no JSON is read for what there is, as gjson does it
// for a caller who does not check, and what is JSON as by the reader that does.
func TestUncheckedReader(t *testing.T) {
	for _, c := range []struct {
		typ        api.FieldType
		body, want string
	}{
		{api.TypeInteger, `{"amount":+5}`, "5"},
		{api.TypeInteger, `{"amount":007}`, "7"},
		{api.TypeInteger, `{"amount":0x1ep0}`, "30"},
		{api.TypeInteger, `{"amount":0x1p-1}`, "!"},
		{api.TypeInteger, `{"amount":1 2}`, "1"},
		{api.TypeInteger, `{"amount":nan}`, "!"},
		{api.TypeInteger, `{"amount":inf}`, "!"},
		{api.TypeInteger, `{"amount":+9007199254740994}`, "!"},
		{api.TypeInteger, `{"amount":9007199254740993}`, "9007199254740993"},
		{api.TypeNumber, `{"amount":nan}`, "!"},
		{api.TypeBoolean, `{"amount":t r u e}`, "true"},
		{api.TypeString, `{"amount":"a","\q`, `"a"`},
		{api.TypeString, `{"amount":"a"`, `"a"`},
		{api.TypeString, `{"amount":"a"}{"amount":"b"}`, `"a"`},
		{api.TypeString, `{"amount":"a","amount":"b"}`, `"a"`},
		{api.TypeString, `{"amount":null}`, "-"},
		{api.TypeString, `{"Amount":"a"}`, "-"},
		{api.TypeString, `{"amount":1}`, "!"},
		{api.TypeString, ``, "-"},
	} {
		got := "!"
		if values, err := uncheckedParser(api.Tool{Fields: []api.Field{{Name: "amount", Type: c.typ}}})([]byte(c.body)); err == nil {
			if got = "-"; values["amount"] != nil {
				got = string(values["amount"])
			}
		}
		if got != c.want {
			t.Errorf("%s %s: %s, want %s", c.typ, c.body, got, c.want)
		}
		if gjson.Valid(c.body) {
			if _, first := readBoth(c.typ, c.body); first != got {
				t.Errorf("%s %s: %s unchecked, %s checked", c.typ, c.body, got, first)
			}
		}
	}
}

// TestReadersAgree: on a text with one reading both readers give the same values,
// and those are the values that were written.
func TestReadersAgree(t *testing.T) {
	tool := api.Tool{Fields: payFields}
	rapid.Check(t, func(t *rapid.T) {
		in := map[string]any{
			"supplier": rapid.String().Draw(t, "supplier"),
			"amount":   rapid.Int64().Draw(t, "amount"),
			"rate":     rapid.Float64Range(-1e300, 1e300).Draw(t, "rate"),
			"urgent":   rapid.Bool().Draw(t, "urgent"),
			"cc":       rapid.SliceOf(rapid.String()).Draw(t, "cc"),
		}
		if in["cc"].([]string) == nil {
			in["cc"] = []string{}
		}
		for name := range in {
			if rapid.IntRange(0, 3).Draw(t, "drop") == 0 {
				delete(in, name)
			}
		}
		body, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		a, err := structParser(tool)(body)
		if err != nil {
			t.Fatal(err)
		}
		b, err := firstParser(tool)(body)
		if err != nil {
			t.Fatal(err)
		}
		if !sameMembers(a, b) || len(a) != len(in) {
			t.Fatalf("%s: struct %s, first %s", body, a, b)
		}
		for name, v := range in {
			text, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			if c, err := canonical(text); err != nil || !bytes.Equal(c, a[name]) {
				t.Fatalf("%s: read as %s, want %s (%v)", name, a[name], c, err)
			}
		}
	})
}

// TestQuote: quote writes JSON that reads back as the same string.
func TestQuote(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s")
		var back string
		if err := json.Unmarshal(quote(s), &back); err != nil || back != s {
			t.Fatalf("%q became %q: %v", s, back, err)
		}
	})
}

// TestIntegerForms: every way of writing an integer gives the same text.
func TestIntegerForms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(-1<<40, 1<<40).Draw(t, "n")
		plain := strconv.FormatInt(n, 10)
		zeros := rapid.IntRange(1, 5).Draw(t, "zeros")
		for _, form := range []string{
			plain, plain + "." + strings.Repeat("0", zeros), plain + "e0",
			plain + strings.Repeat("0", zeros) + "e-" + strconv.Itoa(zeros),
		} {
			if got, err := integerText(form); err != nil || string(got) != strconv.FormatInt(n, 10) {
				t.Fatalf("%s: %s %v", form, got, err)
			}
		}
	})
}

// FuzzReaders: no body makes a reader panic, and every value it gives is in the
// canonical form that the ledger promises.
func FuzzReaders(f *testing.F) {
	f.Add([]byte(honest))
	f.Add([]byte(`{"supplier":"s1","amount":1e2,"rate":1.5,"urgent":true,"cc":["a","b"],"speed":"fast"}`))
	f.Add([]byte(`{"amount":1,"Amount":2,"amo\u0075nt":3,"supplier":"\ud83d\ude00"}`))
	tool := api.Tool{Fields: payFields}
	readers := []parser{structParser(tool), firstParser(tool)}
	f.Fuzz(func(t *testing.T, body []byte) {
		for i, read := range readers {
			values, err := read(body)
			if err != nil {
				continue
			}
			for name, v := range values {
				if c, err := canonical(v); err != nil || !bytes.Equal(c, v) {
					t.Errorf("reader %d: %s is %s, canonical %s (%v)", i, name, v, c, err)
				}
			}
		}
	})
}

func BenchmarkExecute(b *testing.B) {
	w := newWorld(b, testConfig(newClock()))
	r := call(withTool("wire"))
	for b.Loop() {
		if _, err := w.Execute(b.Context(), r); err != nil {
			b.Fatal(err)
		}
	}
}
