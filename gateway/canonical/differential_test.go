package canonical_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/gowebpki/jcs"
	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"countersign/gateway/canonical"
)

// agreeAll checks what acceptance means to every reader at hand: encoding/json, its
// second version and gjson read the text, and the canonical form, as the same
// values, and gowebpki/jcs and jsontext canonicalise it to the same bytes.
func agreeAll(text, got []byte) error {
	if err := agree(text, got); err != nil { // encoding/json and jcs
		return err
	}
	rewritten := jsontext.Value(bytes.Clone(text))
	if err := rewritten.Canonicalize(); err != nil {
		return fmt.Errorf("jsontext refuses the text: %w", err)
	}
	if !bytes.Equal(rewritten, got) {
		return fmt.Errorf("canonical form %s, jsontext has %s", got, rewritten)
	}
	var v1 any
	if err := json.Unmarshal(text, &v1); err != nil {
		return fmt.Errorf("encoding/json refuses the text: %w", err)
	}
	for _, form := range [][]byte{text, got} {
		var v2 any
		if err := jsonv2.Unmarshal(form, &v2); err != nil {
			return fmt.Errorf("json v2 refuses %s: %w", form, err)
		}
		if !reflect.DeepEqual(v1, v2) {
			return fmt.Errorf("encoding/json reads %v, json v2 reads %v from %s", v1, v2, form)
		}
		if !gjson.ValidBytes(form) {
			return fmt.Errorf("gjson refuses %s", form)
		}
		if v := gjson.ParseBytes(form).Value(); !reflect.DeepEqual(v1, v) {
			return fmt.Errorf("encoding/json reads %v, gjson reads %v from %s", v1, v, form)
		}
	}
	return nil
}

// agreeOnStruct checks that the two struct decoders, one of which folds the case of
// keys and takes the last of several, have the same call.
func agreeOnStruct(text []byte) error {
	got, _, err := canonical.Strict(text, fields)
	if err != nil {
		return nil
	}
	for _, form := range [][]byte{text, got} {
		var v1, v2 lenientCall
		if err := json.Unmarshal(form, &v1); err != nil {
			return fmt.Errorf("encoding/json cannot hold %s: %w", form, err)
		}
		if err := jsonv2.Unmarshal(form, &v2, jsonv2.RejectUnknownMembers(true)); err != nil {
			return fmt.Errorf("json v2 cannot hold %s: %w", form, err)
		}
		if !reflect.DeepEqual(v1, v2) {
			return fmt.Errorf("encoding/json has %+v, json v2 %+v of %s", v1, v2, form)
		}
	}
	return nil
}

// A lenientCall takes an amount written in any way, as 1e2 is no int64 to Go.
type lenientCall struct {
	Amount float64  `json:"amount"`
	Rate   float64  `json:"rate"`
	To     string   `json:"to"`
	Urgent bool     `json:"urgent"`
	Tags   []string `json:"tags"`
}

// TestEveryReaderAgrees: whatever the strict reader accepts, all readers read alike
// and all canonicalisers write to the same bytes.
func TestEveryReaderAgrees(t *testing.T) {
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		text := []byte(rapid.OneOf(document(3), hostile, arguments).Draw(t, "text"))
		if got, err := canonical.StrictJSON(text); err == nil {
			accepted++
			if err := agreeAll(text, got); err != nil {
				t.Fatalf("StrictJSON(%s): %v", text, err)
			}
		}
		if err := agreeOnStruct(text); err != nil {
			t.Fatalf("Strict(%s): %v", text, err)
		}
	})
	if accepted < 10 {
		t.Errorf("only %d of the texts drawn were accepted: the law was hardly tested", accepted)
	}
}

// TestAcceptedTablesAgree holds the tables against every reader: what is accepted
// is read alike, and each disagreement known between readers is refused.
func TestAcceptedTablesAgree(t *testing.T) {
	for want, texts := range accepted {
		for _, text := range texts {
			if err := agreeAll([]byte(text), []byte(want)); err != nil {
				t.Errorf("%s: %v", text, err)
			}
			if err := agreeOnStruct([]byte(text)); err != nil {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
}

// FuzzEveryReaderAgrees is TestEveryReaderAgrees on texts that the fuzzer finds.
func FuzzEveryReaderAgrees(f *testing.F) {
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
			if err := agreeAll(text, got); err != nil {
				t.Fatalf("StrictJSON(%q): %v", text, err)
			}
		}
		if err := agreeOnStruct(text); err != nil {
			t.Fatalf("Strict(%q): %v", text, err)
		}
	})
}

// TestFieldIncidents holds the smallest inputs of public reports against the strict
// reader. Each group of texts was one value to some reader or canonicaliser, and
// more than one to another.
func TestFieldIncidents(t *testing.T) {
	for _, c := range []struct {
		incident int
		codes    []canonical.Code // of the texts, in order
		texts    []string
	}{
		{45, []canonical.Code{canonical.Control, canonical.Control}, []string{`{"amount":1,"to":"a\u0000"}`, "{\"amount\":1,\"to\":\"a\x00\"}"}},
		{63, []canonical.Code{canonical.Syntax, canonical.Syntax}, []string{`{"amount":1,"\q`, `{"amount":1,"\q":2}`}},
		{63, []canonical.Code{canonical.Syntax}, []string{`{"z":{"amount":1,"\q,"b":2}`}},
		{64, []canonical.Code{canonical.Syntax, canonical.Syntax}, []string{`{"amount":1 2}`, `{"urgent":t r u e}`}},
		{64, []canonical.Code{canonical.NumberSyntax, canonical.NumberSyntax, canonical.NumberSyntax, canonical.NumberSyntax},
			[]string{`{"amount":+1}`, `{"amount":007}`, `{"amount":.5}`, `{"amount":0x1p4}`}},
		{65, []canonical.Code{canonical.LoneSurrogate, canonical.LoneSurrogate, canonical.LoneSurrogate},
			[]string{`{"amount":1,"to":"\ud800\u0041"}`, `{"amount":1,"to":"\ud800\u0042"}`, `{"amount":1,"to":"\udc00"}`}},
		{65, []canonical.Code{canonical.InvalidUTF8, canonical.InvalidUTF8, canonical.InvalidUTF8, canonical.InvalidUTF8},
			[]string{"{\"amount\":1,\"to\":\"\xff\"}", "{\"amount\":1,\"to\":\"\xfe\"}", "{\"amount\":1,\"to\":\"\xed\xa0\x80\"}", "{\"amount\":1,\"to\":\"\xc0\xaf\"}"}},
		{66, []canonical.Code{canonical.NumberRange, canonical.NumberRange}, []string{`{"amount":9007199254740992}`, `{"amount":9007199254740993}`}},
		{67, []canonical.Code{canonical.CaseVariant, canonical.CaseVariant, canonical.CaseVariant},
			[]string{`{"amount":10,"Amount":1000000}`, `{"amount":1,"to":"a","TO":"b"}`, `{"amount":1,"tag` + "\u017f" + `":[]}`}},
	} {
		for i, text := range c.texts {
			_, _, err := canonical.Strict([]byte(text), fields)
			var e *canonical.Error
			if !errors.As(err, &e) || e.Code != c.codes[i] {
				t.Errorf("incident %d: Strict(%q): %v, want %s", c.incident, text, err, c.codes[i])
			}
		}
	}
}

// TestCanonicallyEquivalentTextsDiffer: letters composed and decomposed, and texts
// that differ in white space at their ends, are values of their own.
func TestCanonicallyEquivalentTextsDiffer(t *testing.T) {
	for _, pair := range [][2]string{
		{"caf\u00e9", "cafe\u0301"}, {"\u212b", "\u00c5"}, {"\uac00", "\u1100\u1161"}, {"a", "a "}, {"a", "\ta"}, {"a b", "a\u00a0b"},
	} {
		var digests [2]string
		for i, to := range pair {
			text, _, err := canonical.Strict([]byte(`{"amount":1,"to":`+string(quote(to))+`}`), fields)
			if err != nil {
				t.Fatal(err)
			}
			digests[i] = canonical.Digest(text)
		}
		if digests[0] == digests[1] {
			t.Errorf("%+q and %+q have one digest", pair[0], pair[1])
		}
	}
}

// TestDepthBombIsCheap: a text as deep as the limit on its size allows is refused
// where it gets too deep, without a stack or memory that grows with it.
func TestDepthBombIsCheap(t *testing.T) {
	for _, unit := range []string{`[`, `{"a":`, `[{"a":[`} {
		text := []byte(`{"amount":1,"to":` + strings.Repeat(unit, (canonical.MaxSize-32)/len(unit)))
		if e := new(canonical.Error); !errors.As(second(canonical.StrictJSON(text)), &e) || e.Code != canonical.Depth {
			t.Errorf("%q repeated: %v, want %s", unit, e, canonical.Depth)
		}
		n := testing.AllocsPerRun(3, func() { _, _ = canonical.StrictJSON(text) })
		if n > 300 {
			t.Errorf("%q repeated: %.0f allocations", unit, n)
		}
	}
}

func second(_ []byte, err error) error { return err }

// TestVectorsOfRFC8785EverywhereAlike holds the numbers of Appendix B against the
// two other canonicalisers too, so that the vectors themselves are checked.
func TestVectorsOfRFC8785EverywhereAlike(t *testing.T) {
	for _, c := range numbers {
		text, err := jcs.Transform([]byte(`[` + c.want + `]`))
		if err != nil || string(text) != `[`+c.want+`]` {
			t.Errorf("jcs writes %s as %s, %v", c.want, text, err)
		}
		v := jsontext.Value(c.want)
		if err := v.Canonicalize(); err != nil || string(v) != c.want {
			t.Errorf("jsontext writes %s as %s, %v", c.want, v, err)
		}
	}
}
