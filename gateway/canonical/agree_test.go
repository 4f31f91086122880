package canonical_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"strings"
	"testing"

	"github.com/gowebpki/jcs"
	"pgregory.net/rapid"

	"countersign/gateway/api"
	"countersign/gateway/canonical"
)

// agree checks what acceptance means: other readers take the text, and the
// canonical form, for the same value.
func agree(text, got []byte) error {
	want, err := jcs.Transform(text)
	if err != nil {
		return fmt.Errorf("jcs refuses the text: %w", err)
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("canonical form %s, jcs has %s", got, want)
	}
	before, after := decode(text), decode(got)
	if !reflect.DeepEqual(before, after) {
		return fmt.Errorf("encoding/json reads %v, and %v from the canonical form", before, after)
	}
	again, err := canonical.StrictJSON(got)
	if err != nil || !bytes.Equal(got, again) {
		return fmt.Errorf("the canonical form is not its own: %s, %v", again, err)
	}
	return nil
}

// decode reads JSON with numbers as exact rationals.
func decode(text []byte) any {
	var v any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return err
	}
	return exact(v)
}

func exact(v any) any {
	switch v := v.(type) {
	case json.Number:
		r, ok := new(big.Rat).SetString(v.String())
		if !ok {
			return fmt.Errorf("no rational: %s", v)
		}
		return r.RatString()
	case []any:
		for i := range v {
			v[i] = exact(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = exact(v[k])
		}
	}
	return v
}

// A call is what a Go service would decode arguments into.
type call struct {
	Amount int64    `json:"amount"`
	Rate   float64  `json:"rate"`
	To     string   `json:"to"`
	Urgent bool     `json:"urgent"`
	Tags   []string `json:"tags"`
}

// agreeOnCall checks, beyond agree, that a struct with case-insensitive keys and
// the lenient reader see the values that Strict reports.
func agreeOnCall(text []byte) error {
	got, values, err := canonical.Strict(text, fields)
	if err != nil {
		return nil
	}
	if err := agree(text, got); err != nil {
		return err
	}
	lenient, lenientValues, err := canonical.Lenient(text)
	if err != nil || !bytes.Equal(lenient, got) || !reflect.DeepEqual(lenientValues, values) {
		return fmt.Errorf("the lenient reader has %s %s, %v", lenient, lenientValues, err)
	}
	var whole, parts call
	if err := json.Unmarshal(got, &whole); err != nil {
		return fmt.Errorf("a struct cannot hold %s: %w", got, err)
	}
	to := reflect.ValueOf(&parts).Elem()
	for i, f := range fields {
		if value, ok := values[f.Name]; ok {
			if err := json.Unmarshal(value, to.Field(i).Addr().Interface()); err != nil {
				return fmt.Errorf("value %s: %w", value, err)
			}
		}
	}
	if !reflect.DeepEqual(whole, parts) {
		return fmt.Errorf("a struct has %+v, the values are %+v", whole, parts)
	}
	return nil
}

var (
	tokens = []string{
		`"amount"`, `"Amount"`, `"\u0061mount"`, `"to"`, `"tags"`, `"rate"`, `"urgent"`, `"k"`, "\"\u212a\"", `"tag\u017f"`, `""`,
		`"\ud83d\ude00"`, `"\ud800"`, `"\udc00\ud800"`, "\"\xff\"", "\"\uffff\"", `"\u0000"`, `"\q"`, `"\u00e9"`, `"e\u0301"`, `"a/b~\"\\"`,
		`1`, `-0`, `1e2`, `100.0`, `9007199254740993`, `9007199254740991`, `0.1`, `0.30000000000000004`, `1e-7`, `123456789012345678`,
		`1e400`, `4.9e-324`, `5e-324`, `007`, `+1`, `.5`, `1.`, `0x1p4`, `NaN`, `true`, `false`, `null`, `nul`,
		`{`, `}`, `[`, `]`, `:`, `,`, ` `, "\n", "\x00", "\ufeff",
	}
	hostile = rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom(tokens), 1, 24).Draw(t, "tokens"), "")
	})
	number = rapid.OneOf(
		rapid.StringMatching(`-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?`),
		rapid.Map(rapid.Float64(), func(f float64) string { text, _ := json.Marshal(f); return string(text) }),
		rapid.Map(rapid.Int64(), func(n int64) string { return fmt.Sprint(n) }),
	)
	str = rapid.OneOf(
		rapid.SampledFrom([]string{"amount", "rate", "to", "urgent", "tags"}),
		rapid.String(),
		rapid.StringOfN(rapid.RuneFrom([]rune("aAkK\u212as\u017f\u00df\U0001f600\ue000\ufb33\"\\/\n\x01\x7f\u2028")), 0, 4, -1),
	)
)

// document draws JSON text written in one of many ways.
func document(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		space := rapid.SampledFrom([]string{"", "", " ", "\n\t"})
		quoted := func() string {
			var b strings.Builder
			for _, r := range str.Draw(t, "string") {
				text, _ := json.Marshal(string(r))
				if rapid.Bool().Draw(t, "escape") {
					if r >= 0x10000 {
						fmt.Fprintf(&b, `\u%04x\u%04X`, 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff)
					} else {
						fmt.Fprintf(&b, `\u%04x`, r)
					}
					continue
				}
				b.Write(text[1 : len(text)-1])
			}
			return `"` + b.String() + `"`
		}
		kinds := []string{"string", "number", "literal", "object", "array"}
		if depth == 0 {
			kinds = kinds[:3]
		}
		kind := rapid.SampledFrom(kinds).Draw(t, "kind")
		if depth == 3 {
			kind = "object"
		}
		between := func() string { return space.Draw(t, "space") }
		switch kind {
		case "string":
			return quoted()
		case "number":
			return number.Draw(t, "number")
		case "literal":
			return rapid.SampledFrom([]string{"true", "false", "null"}).Draw(t, "literal")
		case "array":
			elements := rapid.SliceOfN(document(depth-1), 0, 3).Draw(t, "elements")
			return "[" + between() + strings.Join(elements, between()+",") + "]"
		}
		var members []string
		for _, v := range rapid.SliceOfN(document(depth-1), 0, 5).Draw(t, "values") {
			members = append(members, quoted()+between()+":"+between()+v)
		}
		return between() + "{" + strings.Join(members, ","+between()) + "}" + between()
	})
}

// arguments draws calls that are mostly right for the schema.
var arguments = rapid.Custom(func(t *rapid.T) string {
	var members []string
	for _, f := range fields {
		var value string
		switch f.Type {
		case api.TypeInteger, api.TypeNumber:
			value = number.Draw(t, "number")
		case api.TypeBoolean:
			value = "true"
		case api.TypeString:
			value = string(quote(str.Draw(t, "string")))
		case api.TypeStrings:
			value = string(quote(rapid.SliceOfN(str, 0, 3).Draw(t, "strings")))
		}
		if f.Required || rapid.Bool().Draw(t, "given") {
			members = append(members, string(quote(f.Name))+":"+value)
		}
	}
	return "{" + strings.Join(rapid.Permutation(members).Draw(t, "order"), ",") + "}"
})

func quote(v any) []byte { text, _ := json.Marshal(v); return text }

func TestAcceptedReadsAlike(t *testing.T) {
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		text := []byte(rapid.OneOf(document(3), hostile, arguments).Draw(t, "text"))
		if got, err := canonical.StrictJSON(text); err == nil {
			accepted++
			if err := agree(text, got); err != nil {
				t.Fatalf("StrictJSON(%s): %v", text, err)
			}
		}
		if err := agreeOnCall(text); err != nil {
			t.Fatalf("Strict(%s): %v", text, err)
		}
	})
	if accepted < 10 {
		t.Errorf("only %d of the texts drawn were accepted: the law was hardly tested", accepted)
	}
}

// Canonical admits more than Strict and must still write what jcs writes.
func TestCanonicalIsRFC8785(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.MapOf(rapid.String(), rapid.SliceOf(rapid.Float64())).Draw(t, "map")
		got, err := canonical.Canonical(v)
		if err != nil {
			t.Fatalf("Canonical(%v): %v", v, err)
		}
		if want, err := jcs.Transform(quote(v)); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("Canonical(%v) = %s, want %s, %v", v, got, want, err)
		}
	})
}

func FuzzStrict(f *testing.F) {
	for _, texts := range accepted {
		for _, text := range texts {
			f.Add([]byte(text))
		}
	}
	for _, c := range refused {
		if len(c.text) < 1000 {
			f.Add([]byte(c.text))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if got, err := canonical.StrictJSON(text); err == nil {
			if err := agree(text, got); err != nil {
				t.Fatalf("StrictJSON(%q): %v", text, err)
			}
		}
		if err := agreeOnCall(text); err != nil {
			t.Fatalf("Strict(%q): %v", text, err)
		}
	})
}

func BenchmarkStrict(b *testing.B) {
	fields := []api.Field{
		{Name: "supplier_id", Type: api.TypeString, Required: true}, {Name: "amount", Type: api.TypeInteger, Required: true},
		{Name: "currency", Type: api.TypeString, Required: true}, {Name: "account", Type: api.TypeString},
		{Name: "memo", Type: api.TypeString}, {Name: "urgent", Type: api.TypeBoolean}, {Name: "rate", Type: api.TypeNumber},
		{Name: "tags", Type: api.TypeStrings},
	}
	text := []byte(`{"supplier_id": "sup_brightwater", "amount": 1250000, "currency": "GBP", "account": "GB29NWBK60161331926819",` +
		` "memo": "Invoice 2024-0117, pumps and fittings, \"net 30\", delivered to the Leith yard on 3 May; approved by purchasing",` +
		` "urgent": false, "rate": 1.17, "tags": ["invoice", "q2", "pumps"]}`)
	b.Run("strict", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			if _, _, err := canonical.Strict(text, fields); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("jcs", func(b *testing.B) {
		for b.Loop() {
			if _, err := jcs.Transform(text); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("lenient", func(b *testing.B) {
		for b.Loop() {
			if _, _, err := canonical.Lenient(text); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// The worst text within the limit must not cost more than its length.
func BenchmarkStrictHostile(b *testing.B) {
	var keys, nested strings.Builder
	keys.WriteString(`{"a":{`)
	for i := 99999; i >= 10000; i-- {
		fmt.Fprintf(&keys, `"%d":0,`, i)
	}
	keys.WriteString(`"z":0}}`)
	for i := range 28 {
		fmt.Fprintf(&nested, `{"b%d":`, i)
	}
	nested.WriteString(keys.String())
	for range 28 {
		nested.WriteString(`,"a":0}`)
	}
	for name, text := range map[string]string{"keys": keys.String(), "nested": nested.String(), "digits": `{"a":` + strings.Repeat("1", 1<<20-10) + `}`} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				_, _ = canonical.StrictJSON([]byte(text))
			}
		})
	}
}
