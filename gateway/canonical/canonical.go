// Package canonical reads JSON in one way only, and writes it in one way only.
//
// Two programs that read the same text differently are how an approval is
// carried over to another action: the first key wins here and the last one
// there, "Amount" is a member of a Go struct and unknown to a hash, 2^53+1 is
// 2^53 for whoever counts in doubles. [Strict] refuses every text that two
// competent readers could take for two values, and returns the canonical form
// (RFC 8785) of the others, so that what is hashed, shown and sent is the same
// bytes. Values that are equal but written differently (1e2 and 100, "\u0041"
// and "A", any order of members) have the same canonical form.
//
// What it does not do: it makes no two different strings equal. Letters composed
// or decomposed (NFC, NFD), white space at either end and look-alike characters
// are different values with different digests; showing the difference is the
// view's work.
package canonical

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/gowebpki/jcs"

	"countersign/gateway/api"
)

// The limits of a strict text.
const (
	MaxSize  = 1 << 20   // bytes
	MaxDepth = 32        // arrays and objects around a value; the outermost is 1
	MaxInt   = 1<<53 - 1 // largest magnitude of a number (RFC 7493, section 2.2)
)

// A Code names the rule that a text broke.
type Code string

// The codes, in the order of a text's layers: bytes, grammar, values, schema.
const (
	Size          Code = "size"           // longer than MaxSize
	InvalidUTF8   Code = "invalid_utf8"   // bytes that are not UTF-8
	Syntax        Code = "syntax"         // not JSON (RFC 8259)
	Trailing      Code = "trailing"       // text after the value
	Depth         Code = "depth"          // nested deeper than MaxDepth
	NumberSyntax  Code = "number_syntax"  // 007, +1, .5, 0x1p4, NaN, …
	NumberRange   Code = "number_range"   // beyond ±MaxInt, or no double has this value
	LoneSurrogate Code = "lone_surrogate" // \ud800 without its other half
	Control       Code = "control"        // U+0000, an unescaped control character, a noncharacter
	DuplicateKey  Code = "duplicate_key"  // two equal keys in one object
	CaseVariant   Code = "case_variant"   // a key equal to another one, or to a field, but for case
	NotObject     Code = "not_object"     // the arguments are no JSON object
	UnknownField  Code = "unknown_field"  // a key that is no field
	MissingField  Code = "missing_field"  // no value for a required field
	Null          Code = "null"           // null as the value of a field
	Type          Code = "type"           // a value of another type than the field's
)

// An Error is the refusal of a text. It holds names that the text uses, cut and
// escaped, and never a value.
type Error struct {
	Code   Code
	Path   string // JSON Pointer (RFC 6901) of the place; empty for the whole text
	Detail string // for people
}

func (e *Error) Error() string {
	s := "reading JSON: " + string(e.Code)
	if e.Path != "" {
		s += " at " + e.Path
	}
	return s + ": " + e.Detail
}

// Strict reads the arguments of a call by the fields of its tool. It returns the
// canonical form and, by name, the canonical form of each member; the values
// share memory with canonical. The error is an *Error: the first one met in the
// text, else the first one of the schema.
func Strict(text []byte, fields []api.Field) (canonical []byte, values map[string]json.RawMessage, err error) {
	p, err := parse(text, true)
	if err != nil {
		return nil, nil, err
	}
	if p.dst[0] != '{' {
		return nil, nil, &Error{NotObject, "", "the arguments are not a JSON object"}
	}
	values = make(map[string]json.RawMessage, len(p.top))
	for _, m := range p.top {
		value := p.dst[m.value:m.end:m.end]
		name, err := checkField(fields, m.key, value)
		if err != nil {
			return nil, nil, err
		}
		values[name] = value
	}
	for _, f := range fields {
		if _, ok := values[f.Name]; f.Required && !ok {
			return nil, nil, &Error{MissingField, segment([]byte(f.Name)), "a required field has no value"}
		}
	}
	return p.dst, values, nil
}

// StrictJSON reads a text without a schema. Any JSON value may be outermost, and
// null may be anywhere. The error is an *Error.
func StrictJSON(text []byte) (canonical []byte, err error) {
	p, err := parse(text, true)
	if err != nil {
		return nil, err
	}
	return p.dst, nil
}

// Lenient reads arguments as is commonly done: encoding/json into a map, so the
// last of equal keys wins, numbers become the nearest double and ill-formed
// characters U+FFFD; then RFC 8785. It is for designs that do not bind the
// reading, and no safe replacement for [Strict].
func Lenient(text []byte) (canonical []byte, values map[string]json.RawMessage, err error) {
	var members map[string]any
	if err := json.Unmarshal(text, &members); err != nil {
		return nil, nil, fmt.Errorf("reading JSON arguments: %w", err)
	}
	if members == nil {
		return nil, nil, errors.New("reading JSON arguments: null is not an object")
	}
	transform := func(v any) ([]byte, error) {
		text, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("writing JSON arguments: %w", err)
		}
		return jcs.Transform(text)
	}
	values = make(map[string]json.RawMessage, len(members))
	for name, v := range members {
		if values[name], err = transform(v); err != nil {
			return nil, nil, fmt.Errorf("writing the canonical form of an argument: %w", err)
		}
	}
	if canonical, err = transform(members); err != nil {
		return nil, nil, fmt.Errorf("writing the canonical form of the arguments: %w", err)
	}
	return canonical, values, nil
}

// Canonical returns the canonical form of what encoding/json makes of v. RFC 8785
// counts in doubles; a number that is not exactly one is an error here (an int64
// beyond 2^53, say), because two such numbers would share a digest. Keys that
// occur twice and nesting beyond 1,000 are errors too.
func Canonical(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("writing canonical JSON: %w", err)
	}
	p, err := parse(text, false)
	if err != nil {
		return nil, fmt.Errorf("writing canonical JSON: %w", err)
	}
	return p.dst, nil
}

// Digest returns the SHA-256 of canonical in lower-case hex.
func Digest(canonical []byte) string {
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:])
}

// checkField compares one member, in canonical form, with the schema and returns
// the name of its field.
func checkField(fields []api.Field, key, value []byte) (string, error) {
	for i := range fields {
		if f := &fields[i]; f.Name == string(key) {
			return f.Name, checkType(f, value)
		}
	}
	for _, f := range fields {
		if strings.EqualFold(f.Name, string(key)) {
			return "", &Error{CaseVariant, segment(key), "the key differs from the field " + quote([]byte(f.Name)) + " in case only"}
		}
	}
	return "", &Error{UnknownField, segment(key), "the tool has no such field"}
}

func checkType(f *api.Field, value []byte) error {
	var ok bool
	switch c := value[0]; f.Type {
	case api.TypeString:
		ok = c == '"'
	case api.TypeBoolean:
		ok = c == 't' || c == 'f'
	case api.TypeNumber:
		ok = isNumber(c)
	case api.TypeInteger:
		// In canonical form an integral number within ±MaxInt has neither.
		ok = isNumber(c) && bytes.IndexByte(value, '.') < 0 && bytes.IndexByte(value, 'e') < 0
	case api.TypeStrings:
		ok = isStrings(value)
	}
	switch {
	case ok:
		return nil
	case value[0] == 'n':
		return &Error{Null, segment([]byte(f.Name)), "null is no value; leave an optional field out"}
	}
	return &Error{Type, segment([]byte(f.Name)), "the value is not of type " + quote([]byte(f.Type))}
}

func isNumber(first byte) bool { return first == '-' || '0' <= first && first <= '9' }

// isStrings says whether canonical JSON is an array of strings.
func isStrings(value []byte) bool {
	if value[0] != '[' {
		return false
	}
	for value = value[1:]; value[0] != ']'; {
		if value[0] == ',' {
			value = value[1:]
		}
		if value[0] != '"' {
			return false
		}
		i := 1
		for ; value[i] != '"'; i++ {
			if value[i] == '\\' {
				i++
			}
		}
		value = value[i+1:]
	}
	return true
}
