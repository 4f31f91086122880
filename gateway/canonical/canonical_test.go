package canonical_test

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gowebpki/jcs"

	"countersign/gateway/api"
	"countersign/gateway/canonical"
)

var fields = []api.Field{
	{Name: "amount", Type: api.TypeInteger, Required: true},
	{Name: "rate", Type: api.TypeNumber},
	{Name: "to", Type: api.TypeString},
	{Name: "urgent", Type: api.TypeBoolean},
	{Name: "tags", Type: api.TypeStrings},
}

// accepted are texts by their canonical form: equal values, written differently.
var accepted = map[string][]string{
	`{"amount":100}`: {
		`{"amount":100}`, `{"amount":1e2}`, `{"amount":100.0}`, `{"amount":1.00E+2}`, `{"amount":1000e-1}`,
		" {\t\"amount\" :\r\n100 } ", `{"\u0061mount":100}`, `{"amount":0.1e3}`, `{"amount":100.` + strings.Repeat("0", 400) + `}`,
	},
	`{"amount":0}`:                              {`{"amount":0}`, `{"amount":-0}`, `{"amount":0.000}`, `{"amount":-0e9999}`},
	`{"amount":-9007199254740991}`:              {`{"amount":-9007199254740991}`, `{"amount":-9.007199254740991e15}`},
	`{"amount":9007199254740991}`:               {`{"amount":9007199254740991.0}`, `{"amount":90071992547409910e-1}`},
	`{"amount":1,"rate":0.1}`:                   {`{"rate":0.1,"amount":1}`, `{"amount":1,"rate":1e-1}`, `{"amount":1,"rate":0.10}`},
	`{"amount":1,"rate":1e-7}`:                  {`{"amount":1,"rate":0.0000001}`, `{"amount":1,"rate":1.0E-007}`},
	`{"amount":1,"rate":5e-324}`:                {`{"amount":1,"rate":5e-324}`},
	`{"amount":1,"to":"A/😀\n\u0001"}`:           {`{"to":"\u0041\/\ud83d\uDE00\u000a\u0001","amount":1}`, `{"amount":1,"to":"A/😀\n\u0001"}`},
	`{"amount":1,"to":"  Brightwater "}`:        {`{"amount":1,"to":"  Brightwater "}`},
	`{"amount":1,"to":"\"\\\b\f\n\r\t"}`:        {`{"amount":1,"to":"\u0022\u005C\b\f\n\u000D\t"}`},
	`{"amount":1,"to":""}`:                      {`{"amount":1,"to":""}`},
	`{"amount":1,"to":"` + "\u00e9" + `"}`:      {`{"amount":1,"to":"\u00e9"}`},
	`{"amount":1,"to":"` + "e\u0301" + `"}`:     {`{"amount":1,"to":"e\u0301"}`},
	`{"amount":1,"to":"` + "\u202e\x7f" + `"}`:  {`{"amount":1,"to":"\u202E\u007f"}`},
	`{"amount":1,"tags":["b","a\"]",""]}`:       {`{"tags":["b","a\"]",""],"amount":1}`},
	`{"amount":1,"tags":["a\"b"]}`:              {`{"amount":1,"tags":["a\"b"]}`},
	`{"amount":1,"tags":[],"urgent":true}`:      {`{"urgent":true,"tags":[ ],"amount":1}`},
	`{"amount":1,"urgent":false}`:               {`{"amount":1,"urgent":false}`},
	`{"amount":1,"to":"` + "\ufffd" + `"}`:      {`{"amount":1,"to":"\ufffd"}`}, // a character like any other
	`{"amount":1,"to":"` + "\U0010fffd" + `"}`:  {`{"amount":1,"to":"\udbff\udffd"}`},
	`{"amount":123456789012345,"rate":123.456}`: {`{"amount":123456789012345,"rate":0.123456e3}`},
}

func TestStrictAccepts(t *testing.T) {
	for want, texts := range accepted {
		for _, text := range texts {
			got, values, err := canonical.Strict([]byte(text), fields)
			if err != nil {
				t.Errorf("Strict(%s): %v", text, err)
				continue
			}
			if string(got) != want {
				t.Errorf("Strict(%s) = %s, want %s", text, got, want)
			}
			var members map[string]json.RawMessage
			if err := json.Unmarshal(got, &members); err != nil {
				t.Fatal(err)
			}
			if len(values) != len(members) {
				t.Errorf("Strict(%s): %d values, want %d", text, len(values), len(members))
			}
			for name, value := range members {
				if string(values[name]) != string(value) {
					t.Errorf("Strict(%s): value %q = %s, want %s", text, name, values[name], value)
				}
			}
		}
	}
}

// refused are texts by what is wrong with them; each is a valid call but for that.
var refused = []struct {
	name string
	code canonical.Code
	path string
	text string
}{
	{"same key", canonical.DuplicateKey, "/amount", `{"amount":1,"amount":1000000}`},
	{"same key, escaped", canonical.DuplicateKey, "/amount", `{"amount":1,"\u0061mount":2}`},
	{"same key, equal values", canonical.DuplicateKey, "/amount", `{"amount":1,"amount":1}`},
	{"same key deep down", canonical.DuplicateKey, "/to/0/b/x", `{"amount":1,"to":[{"b":{"x":1,"y":2,"x":3}}]}`},
	{"case variant of a field", canonical.CaseVariant, "/Amount", `{"Amount":1}`},
	{"case variant of a key", canonical.CaseVariant, "/amount", `{"amount":10,"Amount":1000000}`},
	{"case variant, Kelvin sign", canonical.CaseVariant, "/to/\\u212a", `{"amount":1,"to":{"k":1,"` + "\u212a" + `":2}}`},
	{"case variant, long s", canonical.CaseVariant, "/tag\\u017f", `{"amount":1,"tag` + "\u017f" + `":[]}`},
	{"case variant among many", canonical.CaseVariant, "/to/k9", `{"amount":1,"to":{"K9":0,"k0":0,"k1":0,"k2":0,"k3":0,"k4":0,"k5":0,"k6":0,"k7":0,"k8":0,"k9":0,"l0":0,"l1":0,"l2":0,"l3":0,"l4":0,"l5":0,"l6":0}}`},
	{"unknown", canonical.UnknownField, "/memo", `{"amount":1,"memo":"x"}`},
	{"unknown, hostile name", canonical.UnknownField, `/a~1b~0\n\x1b[2J`, `{"amount":1,"a/b~\n\u001b[2J":"x"}`},
	{"unknown, long name", canonical.UnknownField, "/" + strings.Repeat("x", 64) + `\u2026`, `{"amount":1,"` + strings.Repeat("x", 1000) + `":"x"}`},
	{"unknown, composed name", canonical.UnknownField, `/to\u0301`, `{"amount":1,"to\u0301":"x"}`},
	{"empty name", canonical.UnknownField, "/", `{"amount":1,"":"x"}`},
	{"missing", canonical.MissingField, "/amount", `{"to":"x"}`},
	{"string for integer", canonical.Type, "/amount", `{"amount":"1"}`},
	{"fraction for integer", canonical.Type, "/amount", `{"amount":1.5}`},
	{"tiny fraction for integer", canonical.Type, "/amount", `{"amount":1e-9}`},
	{"number for string", canonical.Type, "/to", `{"amount":1,"to":1}`},
	{"string for boolean", canonical.Type, "/urgent", `{"amount":1,"urgent":"true"}`},
	{"boolean for number", canonical.Type, "/rate", `{"amount":1,"rate":true}`},
	{"object for string", canonical.Type, "/to", `{"amount":1,"to":{}}`},
	{"string for strings", canonical.Type, "/tags", `{"amount":1,"tags":"a"}`},
	{"string for strings, as a list ends", canonical.Type, "/tags", `{"amount":1,"tags":"]"}`},
	{"number for strings", canonical.Type, "/tags", `{"amount":1,"tags":1}`},
	{"number in strings", canonical.Type, "/tags", `{"amount":1,"tags":["a",1]}`},
	{"null in strings", canonical.Type, "/tags", `{"amount":1,"tags":["a",null]}`},
	{"null", canonical.Null, "/to", `{"amount":1,"to":null}`},
	{"null for a required field", canonical.Null, "/amount", `{"amount":null}`},
	{"byte FF", canonical.InvalidUTF8, "/to", "{\"amount\":1,\"to\":\"\xff\"}"},
	{"overlong slash", canonical.InvalidUTF8, "/to", "{\"amount\":1,\"to\":\"\xc0\xaf\"}"},
	{"surrogate in UTF-8", canonical.InvalidUTF8, "/to", "{\"amount\":1,\"to\":\"\xed\xa0\x80\"}"},
	{"cut sequence", canonical.InvalidUTF8, "/to", "{\"amount\":1,\"to\":\"\xe2\x82\"}"},
	{"byte FF in a key", canonical.InvalidUTF8, "", "{\"amount\":1,\"\xff\":1}"},
	{"byte FF between tokens", canonical.InvalidUTF8, "", "{\"amount\":1\xff}"},
	{"byte FF at the end", canonical.InvalidUTF8, "", "{\"amount\":1}\xff"},
	{"high surrogate alone", canonical.LoneSurrogate, "/to", `{"amount":1,"to":"\ud800\u0041"}`},
	{"high surrogate last", canonical.LoneSurrogate, "/to", `{"amount":1,"to":"\ud800"}`},
	{"high surrogate twice", canonical.LoneSurrogate, "/to", `{"amount":1,"to":"\ud800\ud800"}`},
	{"low surrogate alone", canonical.LoneSurrogate, "/to", `{"amount":1,"to":"\udc00"}`},
	{"surrogates swapped", canonical.LoneSurrogate, "/to", `{"amount":1,"to":"\ude00\ud83d"}`},
	{"surrogate in a key", canonical.LoneSurrogate, "", `{"amount":1,"\ud800":"x"}`},
	{"2^53", canonical.NumberRange, "/amount", `{"amount":9007199254740992}`},
	{"2^53+1", canonical.NumberRange, "/amount", `{"amount":9007199254740993}`},
	{"−2^53", canonical.NumberRange, "/amount", `{"amount":-9007199254740992}`},
	{"2^53−1 and a half", canonical.NumberRange, "/rate", `{"amount":1,"rate":9007199254740991.5}`},
	{"2^63", canonical.NumberRange, "/amount", `{"amount":9223372036854775808}`},
	{"1e16", canonical.NumberRange, "/amount", `{"amount":1e16}`},
	{"1e400", canonical.NumberRange, "/amount", `{"amount":1e400}`},
	{"1e-400", canonical.NumberRange, "/rate", `{"amount":1,"rate":1e-400}`},
	{"not the shortest of a subnormal", canonical.NumberRange, "/rate", `{"amount":1,"rate":4.9e-324}`},
	{"exponent beyond counting", canonical.NumberRange, "/rate", `{"amount":1,"rate":0e99999999999999999999}`},
	{"1 to Go's strconv 0", canonical.NumberRange, "/amount", `{"amount":0.` + strings.Repeat("0", 100000) + `1e100001}`},
	{"what 0.1 is in binary", canonical.NumberRange, "/rate", `{"amount":1,"rate":0.1000000000000000055511151231257827}`},
	{"18 digits", canonical.NumberRange, "/rate", `{"amount":1,"rate":0.123456789012345678}`},
	{"one digit far behind", canonical.NumberRange, "/amount", `{"amount":1.` + strings.Repeat("0", 300) + `1}`},
	{"leading zero", canonical.NumberSyntax, "/amount", `{"amount":007}`},
	{"minus leading zero", canonical.NumberSyntax, "/amount", `{"amount":-01}`},
	{"plus", canonical.NumberSyntax, "/amount", `{"amount":+1}`},
	{"no integer part", canonical.NumberSyntax, "/amount", `{"amount":.5}`},
	{"no fraction", canonical.NumberSyntax, "/amount", `{"amount":1.}`},
	{"no exponent", canonical.NumberSyntax, "/amount", `{"amount":1e}`},
	{"signs only", canonical.NumberSyntax, "/amount", `{"amount":1e+}`},
	{"minus", canonical.NumberSyntax, "/amount", `{"amount":-}`},
	{"hexadecimal", canonical.NumberSyntax, "/amount", `{"amount":0x1p4}`},
	{"underscore", canonical.NumberSyntax, "/amount", `{"amount":1_000}`},
	{"two points", canonical.NumberSyntax, "/amount", `{"amount":1.2.3}`},
	{"NaN", canonical.NumberSyntax, "/rate", `{"amount":1,"rate":NaN}`},
	{"infinity", canonical.NumberSyntax, "/rate", `{"amount":1,"rate":Infinity}`},
	{"minus infinity", canonical.NumberSyntax, "/rate", `{"amount":1,"rate":-Infinity}`},
	{"split number", canonical.Syntax, "", `{"amount":1 2}`},
	{"split literal", canonical.Syntax, "/urgent", `{"amount":1,"urgent":t rue}`},
	{"cut literal", canonical.Syntax, "/urgent", `{"amount":1,"urgent":tru`},
	{"trailing comma", canonical.Syntax, "", `{"amount":1,}`},
	{"trailing comma in array", canonical.Syntax, "/tags/1", `{"amount":1,"tags":["a",]}`},
	{"leading comma", canonical.Syntax, "", `{,"amount":1}`},
	{"no colon", canonical.Syntax, "/amount", `{"amount" 1}`},
	{"equals sign for a colon", canonical.Syntax, "/amount", `{"amount"=1}`},
	{"letter for a colon", canonical.Syntax, "/amount", `{"amount"x1}`},
	{"semicolon for a comma", canonical.Syntax, "", `{"amount":1;"to":"x"}`},
	{"semicolon in an array", canonical.Syntax, "/tags", `{"amount":1,"tags":["a";"b"]}`},
	{"no value", canonical.Syntax, "/amount", `{"amount":}`},
	{"unquoted key", canonical.Syntax, "", `{amount:1}`},
	{"single quotes", canonical.Syntax, "", `{'amount':1}`},
	{"comment", canonical.Syntax, "", `{"amount":1/**/}`},
	{"bad escape in a later key", canonical.Syntax, "", `{"amount":1,"\q":2}`},
	{"cut in a later key", canonical.Syntax, "", `{"amount":1,"\q`},
	{"escape of three digits", canonical.Syntax, "/to", `{"amount":1,"to":"\u004"}`},
	{"escape of letters behind f", canonical.Syntax, "/to", `{"amount":1,"to":"\u00gg"}`},
	{"escape with g", canonical.Syntax, "/to", `{"amount":1,"to":"\u00g0"}`},
	{"escape with G", canonical.Syntax, "/to", `{"amount":1,"to":"\u00G0"}`},
	{"escape with a sign", canonical.Syntax, "/to", `{"amount":1,"to":"\u+041"}`},
	{"cut", canonical.Syntax, "", `{"amount":1`},
	{"cut string", canonical.Syntax, "/to", `{"amount":1,"to":"x`},
	{"cut escape", canonical.Syntax, "/to", `{"amount":1,"to":"x\`},
	{"byte order mark", canonical.Syntax, "", "\ufeff" + `{"amount":1}`},
	{"empty", canonical.Syntax, "", ``},
	{"white space", canonical.Syntax, "", "  \n"},
	{"NUL between tokens", canonical.Syntax, "", "{\"amount\":1\x00}"},
	{"replacement character between tokens", canonical.Syntax, "", "{\ufffd\"amount\":1}"},
	{"no-break space", canonical.Syntax, "", "{\u00a0\"amount\":1}"},
	{"second object", canonical.Trailing, "", `{"amount":1}{"amount":2}`},
	{"trailing brace", canonical.Trailing, "", `{"amount":1}}`},
	{"trailing NUL", canonical.Trailing, "", "{\"amount\":1}\x00"},
	{"array", canonical.NotObject, "", `[{"amount":1}]`},
	{"number", canonical.NotObject, "", `1`},
	{"no object at all", canonical.NotObject, "", `null`},
	{"escaped U+0000", canonical.Control, "/to", `{"amount":1,"to":"a\u0000b"}`},
	{"raw U+0000", canonical.Control, "/to", "{\"amount\":1,\"to\":\"a\x00b\"}"},
	{"raw line feed", canonical.Control, "/to", "{\"amount\":1,\"to\":\"a\nb\"}"},
	{"noncharacter", canonical.Control, "/to", "{\"amount\":1,\"to\":\"\uffff\"}"},
	{"escaped noncharacter", canonical.Control, "/to", `{"amount":1,"to":"\ufdd0"}`},
	{"astral noncharacter", canonical.Control, "/to", `{"amount":1,"to":"\udbff\udfff"}`},
	{"control in a key", canonical.Control, "", `{"amount":1,"to\u0000":"x"}`},
	{"deep", canonical.Depth, "/to" + strings.Repeat("/0", 31), `{"amount":1,"to":` + strings.Repeat("[", 32) + strings.Repeat("]", 32) + `}`},
	{"depth bomb", canonical.Depth, "/to" + strings.Repeat("/0", 31), `{"amount":1,"to":` + strings.Repeat("[", 1<<19)},
	{"long", canonical.Size, "", `{"amount":1` + strings.Repeat(" ", 1<<20) + `}`},
}

func TestStrictRefuses(t *testing.T) {
	seen := map[canonical.Code]bool{}
	for _, c := range refused {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := canonical.Strict([]byte(c.text), fields)
			var e *canonical.Error
			if !errors.As(err, &e) {
				t.Fatalf("Strict(%.80q) = %v, want an *Error", c.text, err)
			}
			if e.Code != c.code || e.Path != c.path {
				t.Errorf("Strict(%.80q) refused by %s at %q (%v), want %s at %q", c.text, e.Code, e.Path, e, c.code, c.path)
			}
			if strings.ContainsFunc(e.Error(), func(r rune) bool { return r < ' ' || 0x7f <= r && r < 0xa0 }) {
				t.Errorf("the error %q has control characters", e)
			}
			seen[c.code] = true
		})
	}
	if len(seen) != 16 {
		t.Errorf("%d codes were met, want all 16", len(seen))
	}
}

// TestStrictRefusesEveryPrefix: a text that was cut is refused wherever it was
// cut, and what stands behind it in memory is not read.
func TestStrictRefusesEveryPrefix(t *testing.T) {
	text := []byte(`{"amount":-1.5e+3,"to":"\u0041\ud83d\ude00é","tags":["a",null,true]}`)
	if _, err := canonical.StrictJSON(text); err != nil {
		t.Fatal(err)
	}
	for n := range text {
		for _, cut := range [][]byte{text[:n], slices.Clip(text[:n])} {
			if got, err := canonical.StrictJSON(cut); err == nil {
				t.Errorf("StrictJSON(%s) = %s, want a refusal", cut, got)
			}
		}
	}
}

func TestStrictZeroSchemaRefuses(t *testing.T) {
	for _, fields := range [][]api.Field{nil, {{}}, {{Name: "amount"}}, {{Name: "amount", Type: "int"}}} {
		if got, _, err := canonical.Strict([]byte(`{"amount":1}`), fields); err == nil {
			t.Errorf("Strict with the fields %+v = %s, want a refusal", fields, got)
		}
	}
}

// The arrays, literals and depths that arguments cannot have.
func TestStrictJSON(t *testing.T) {
	for text, want := range map[string]string{
		`null`: `null`, ` [ ] `: `[]`, `[null,{"b":[],"a":{}}]`: `[null,{"a":{},"b":[]}]`, `"a"`: `"a"`, `1.50`: `1.5`,
		strings.Repeat("[", 32) + strings.Repeat("]", 32): strings.Repeat("[", 32) + strings.Repeat("]", 32),
	} {
		if got, err := canonical.StrictJSON([]byte(text)); err != nil || string(got) != want {
			t.Errorf("StrictJSON(%s) = %s, %v, want %s", text, got, err, want)
		}
	}
	for text, want := range map[string]canonical.Code{
		`{"a":{"b":1,"B":2}}`: canonical.CaseVariant,
		`1 2`:                 canonical.Trailing,
		`t r u e`:             canonical.Syntax,
		strings.Repeat("[", 33) + strings.Repeat("]", 33): canonical.Depth,
	} {
		_, err := canonical.StrictJSON([]byte(text))
		if e := new(canonical.Error); !errors.As(err, &e) || e.Code != want {
			t.Errorf("StrictJSON(%s): %v, want %s", text, err, want)
		}
	}
}

// RFC 8785, Appendix B: doubles by their bits, and how they are written.
var numbers = []struct {
	bits uint64
	want string
}{
	{0x0000000000000000, "0"},
	{0x8000000000000000, "0"},
	{0x0000000000000001, "5e-324"},
	{0x8000000000000001, "-5e-324"},
	{0x7fefffffffffffff, "1.7976931348623157e+308"},
	{0xffefffffffffffff, "-1.7976931348623157e+308"},
	{0x4340000000000000, "9007199254740992"},
	{0xc340000000000000, "-9007199254740992"},
	{0x4430000000000000, "295147905179352830000"},
	{0x44b52d02c7e14af5, "9.999999999999997e+22"},
	{0x44b52d02c7e14af6, "1e+23"},
	{0x44b52d02c7e14af7, "1.0000000000000001e+23"},
	{0x444b1ae4d6e2ef4e, "999999999999999700000"},
	{0x444b1ae4d6e2ef4f, "999999999999999900000"},
	{0x444b1ae4d6e2ef50, "1e+21"},
	{0x3eb0c6f7a0b5ed8c, "9.999999999999997e-7"},
	{0x3eb0c6f7a0b5ed8d, "0.000001"},
	{0x41b3de4355555553, "333333333.3333332"},
	{0x41b3de4355555554, "333333333.33333325"},
	{0x41b3de4355555555, "333333333.3333333"},
	{0x41b3de4355555556, "333333333.3333334"},
	{0x41b3de4355555557, "333333333.33333343"},
	{0xbecbf647612f3696, "-0.0000033333333333333333"},
	{0x43143ff3c1cb0959, "1424953923781206.2"},
}

func TestNumbersOfRFC8785(t *testing.T) {
	for _, c := range numbers {
		f := math.Float64frombits(c.bits)
		got, err := canonical.Canonical(f)
		if err != nil || string(got) != c.want {
			t.Errorf("Canonical(%x) = %s, %v, want %s", c.bits, got, err, c.want)
		}
		for _, text := range []string{c.want, strconv.FormatFloat(f, 'e', -1, 64)} {
			if math.Abs(f) <= canonical.MaxInt {
				if got, err := canonical.StrictJSON([]byte(text)); err != nil || string(got) != c.want {
					t.Errorf("StrictJSON(%s) = %s, %v, want %s", text, got, err, c.want)
				}
			} else {
				refusedAt(t, text, canonical.NumberRange, "")
			}
		}
	}
	// The appendix's rows of what JSON has no number for, and the other infinity.
	for _, bits := range []uint64{0x7fffffffffffffff, 0x7ff0000000000000, 0xfff0000000000000} {
		if got, err := canonical.Canonical(math.Float64frombits(bits)); err == nil {
			t.Errorf("Canonical(%x) = %s, want an error", bits, got)
		}
	}
}

// refusedAt: the strict reader refuses a text by this rule, for what is at this place.
func refusedAt(t *testing.T, text string, code canonical.Code, path string) {
	t.Helper()
	got, err := canonical.StrictJSON([]byte(text))
	if e := new(canonical.Error); !errors.As(err, &e) || e.Code != code || e.Path != path {
		t.Errorf("StrictJSON(%s) = %s, %v, want %s at %q", text, got, err, code, path)
	}
}

// RFC 8785, section 3.2.2, as it stands there: input and canonical form (3.2.3).
const (
	primitives = `{
  "numbers": [333333333.33333329, 1E30, 4.50,
              2e-3, 0.000000000000000000000000001],
  "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
  "literals": [null, true, false]
}`
	primitivesWritten = `{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`
)

// TestPrimitivesOfRFC8785: the RFC's own sample is written as the RFC writes it. The
// strict reader refuses to read it: 333333333.33333329 has a digit that no double
// keeps, and 1E30 is beyond the integers that every reader has exactly; both are
// number_range. With the numbers that it lets through it reads the same sample.
func TestPrimitivesOfRFC8785(t *testing.T) {
	var v any
	if err := json.Unmarshal([]byte(primitives), &v); err != nil {
		t.Fatal(err)
	}
	if got, err := canonical.Canonical(v); err != nil || string(got) != primitivesWritten {
		t.Errorf("Canonical =\n%s, %v, want\n%s", got, err, primitivesWritten)
	}
	if got, _, err := canonical.Lenient([]byte(primitives)); err != nil || string(got) != primitivesWritten {
		t.Errorf("Lenient =\n%s, %v, want\n%s", got, err, primitivesWritten)
	}
	refusedAt(t, primitives, canonical.NumberRange, "/numbers/0")
	exact := strings.Replace(primitives, "333333333.33333329", "333333333.3333333", 1)
	refusedAt(t, exact, canonical.NumberRange, "/numbers/1")
	small := strings.Replace(exact, "1E30", "1E-30", 1)
	want := strings.Replace(primitivesWritten, "1e+30", "1e-30", 1)
	if got, err := canonical.StrictJSON([]byte(small)); err != nil || string(got) != want {
		t.Errorf("StrictJSON(%s) =\n%s, %v, want\n%s", small, got, err, want)
	}
}

// TestOrderOfRFC8785: the sample of section 3.2.3, of names that UTF-16 orders otherwise
// than UTF-8.
func TestOrderOfRFC8785(t *testing.T) {
	const text = `{
  "\u20ac": "Euro Sign",
  "\r": "Carriage Return",
  "\ufb33": "Hebrew Letter Dalet With Dagesh",
  "1": "One",
  "\ud83d\ude00": "Emoji: Grinning Face",
  "\u0080": "Control",
  "\u00f6": "Latin Small Letter O With Diaeresis"
}`
	const want = `{"\r":"Carriage Return","1":"One","` + "\u0080" + `":"Control","ö":"Latin Small Letter O With Diaeresis",` +
		`"€":"Euro Sign","😀":"Emoji: Grinning Face","` + "\ufb33" + `":"Hebrew Letter Dalet With Dagesh"}`
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	if got, err := canonical.Canonical(v); err != nil || string(got) != want {
		t.Errorf("Canonical =\n%s, %v, want\n%s", got, err, want)
	}
	if got, err := canonical.StrictJSON([]byte(text)); err != nil || string(got) != want {
		t.Errorf("StrictJSON =\n%s, %v, want\n%s", got, err, want)
	}
}

// TestCanonicalOfAnyValue: the limits of a strict text are none of what is written
// here, and what encoding/json cannot write has no form.
func TestCanonicalOfAnyValue(t *testing.T) {
	var deep any = "a"
	for range canonical.MaxDepth + 1 {
		deep = []any{deep}
	}
	for name, v := range map[string]any{
		"long": strings.Repeat("a", canonical.MaxSize+1), "deep": deep, "noncharacters": "\uffff\ufdd0",
		"case variants": map[string]int{"a": 1, "A": 2},
	} {
		want, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := canonical.Canonical(v); err != nil || string(got) != string(want) {
			t.Errorf("%s: %.40s, %v, want %.40s", name, got, err, want)
		}
	}
	var unsupported *json.UnsupportedTypeError
	if got, err := canonical.Canonical(make(chan int)); !errors.As(err, &unsupported) {
		t.Errorf("Canonical of a channel = %s, %v, want encoding/json's error", got, err)
	}
}

func TestCanonicalLosesNoNumber(t *testing.T) {
	for _, v := range []any{int64(1<<53 + 1), uint64(math.MaxUint64), json.Number("0.1000000000000000055511151231257827")} {
		if got, err := canonical.Canonical(v); err == nil {
			t.Errorf("Canonical(%v) = %s, want an error", v, got)
		}
	}
	for _, v := range []any{int64(1 << 53), 1e300, "\x00<&>\u2028", map[string]any{"A": 1, "a": []any{nil, 2.5}}} {
		got, err := canonical.Canonical(v)
		if err != nil {
			t.Errorf("Canonical(%v): %v", v, err)
			continue
		}
		text, _ := json.Marshal(v)
		if want, err := jcs.Transform(text); err != nil || string(got) != string(want) {
			t.Errorf("Canonical(%v) = %s, want %s, %v", v, got, want, err)
		}
	}
}

// Lenient is what its documentation says, the confusions included.
func TestLenient(t *testing.T) {
	for _, c := range []struct{ text, canonical, amount string }{
		{`{"to":"x", "amount":1}`, `{"amount":1,"to":"x"}`, `1`},
		{`{"amount":1,"amount":1000000}`, `{"amount":1000000}`, `1000000`},
		{`{"amount":9007199254740993}`, `{"amount":9007199254740992}`, `9007199254740992`},
		{`{"amount":"\ud800A"}`, `{"amount":"` + "\ufffdA" + `"}`, `"` + "\ufffdA" + `"`},
		{`{"amount":10,"Amount":7}`, `{"Amount":7,"amount":10}`, `10`},
		{`{"amount":"<&>"}`, `{"amount":"<&>"}`, `"<&>"`},
		{`{"amount":null}`, `{"amount":null}`, `null`},
	} {
		got, values, err := canonical.Lenient([]byte(c.text))
		if err != nil || string(got) != c.canonical || string(values["amount"]) != c.amount {
			t.Errorf("Lenient(%s) = %s, %s, %v, want %s, %s", c.text, got, values["amount"], err, c.canonical, c.amount)
		}
	}
	for _, text := range []string{``, `null`, `[]`, `{"amount":1e400}`, `{"amount":1}x`, `{"amount":1`} {
		if got, _, err := canonical.Lenient([]byte(text)); err == nil {
			t.Errorf("Lenient(%s) = %s, want an error", text, got)
		}
	}
}

func TestDigest(t *testing.T) {
	// FIPS 180-2, appendix B.1.
	const want = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	if got := canonical.Digest([]byte("abc")); got != want {
		t.Errorf("Digest(abc) = %s, want %s", got, want)
	}
}
