package provider

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The texts below are those of RFC 8785, except that an integer keeps all the
// digits of an int64, so that 2^53 and 2^53+1 stay two values.

// quote writes a string as RFC 8785 section 3.2.2.2 does. encoding/json is not
// used because it escapes U+2028 and U+2029. Invalid UTF-8 becomes U+FFFD, as in
// any store that holds text.
func quote(s string) json.RawMessage {
	b := make([]byte, 0, len(s)+2)
	b = append(b, '"')
	for _, r := range s {
		switch r {
		case '"', '\\':
			b = append(b, '\\', byte(r))
		case '\b':
			b = append(b, `\b`...)
		case '\f':
			b = append(b, `\f`...)
		case '\n':
			b = append(b, `\n`...)
		case '\r':
			b = append(b, `\r`...)
		case '\t':
			b = append(b, `\t`...)
		default:
			if r < 0x20 {
				b = fmt.Appendf(b, `\u%04x`, r)
			} else {
				b = utf8.AppendRune(b, r)
			}
		}
	}
	return append(b, '"')
}

func quoteList(list []string) json.RawMessage {
	b := []byte{'['}
	for i, s := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, quote(s)...)
	}
	return append(b, ']')
}

// double writes a number as RFC 8785 section 3.2.2.3 does; encoding/json follows
// the same ECMAScript rule but for negative zero.
func double(f float64) (json.RawMessage, error) {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return nil, fmt.Errorf("number is beyond double precision")
	}
	if f == 0 {
		return json.RawMessage("0"), nil // negative zero has no sign in RFC 8785
	}
	return json.Marshal(f)
}

// integerText reads a JSON number exactly: 100, 1e2 and 100.0 are one value.
func integerText(literal string) (json.RawMessage, error) {
	n, err := strconv.ParseInt(literal, 10, 64)
	if err == nil {
		return strconv.AppendInt(nil, n, 10), nil
	}
	// The exponent is bounded first, because a big number takes memory in
	// proportion to its value and not to its text.
	if i := strings.IndexAny(literal, "eE"); i >= 0 {
		if e, err := strconv.Atoi(literal[i+1:]); err != nil || e < -400 || e > 400 {
			return nil, fmt.Errorf("number %.40q is not a 64-bit integer", literal)
		}
	}
	r, ok := new(big.Rat).SetString(literal)
	if !ok || len(literal) > 800 || !r.IsInt() || !r.Num().IsInt64() {
		return nil, fmt.Errorf("number %.40q is not a 64-bit integer", literal)
	}
	return strconv.AppendInt(nil, r.Num().Int64(), 10), nil
}

// canonical rewrites any JSON text into the form above, members sorted, so that
// two texts of one value become equal bytes.
func canonical(text []byte) (json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, fmt.Errorf("text after the value")
	}
	return canonicalValue(v)
}

func canonicalValue(v any) (json.RawMessage, error) {
	switch v := v.(type) {
	case nil:
		return json.RawMessage("null"), nil
	case bool:
		return strconv.AppendBool(nil, v), nil
	case string:
		return quote(v), nil
	case json.Number:
		if text, err := integerText(v.String()); err == nil {
			return text, nil
		}
		f, err := v.Float64()
		if err != nil {
			return nil, err
		}
		return double(f)
	case []any:
		b := []byte{'['}
		for i, e := range v {
			text, err := canonicalValue(e)
			if err != nil {
				return nil, err
			}
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, text...)
		}
		return append(b, ']'), nil
	case map[string]any:
		b := []byte{'{'}
		for i, k := range slices.Sorted(maps.Keys(v)) {
			text, err := canonicalValue(v[k])
			if err != nil {
				return nil, err
			}
			if i > 0 {
				b = append(b, ',')
			}
			b = append(append(append(b, quote(k)...), ':'), text...)
		}
		return append(b, '}'), nil
	}
	return nil, fmt.Errorf("%T is no JSON value", v)
}

// canonicalMembers rewrites every member; the result shares nothing with m.
func canonicalMembers(m map[string]json.RawMessage) (map[string]json.RawMessage, error) {
	out := make(map[string]json.RawMessage, len(m))
	for name, text := range m {
		c, err := canonical(text)
		if err != nil {
			return nil, fmt.Errorf("member %q: %w", name, err)
		}
		out[name] = c
	}
	return out, nil
}

func sameMembers(a, b map[string]json.RawMessage) bool {
	return maps.EqualFunc(a, b, func(x, y json.RawMessage) bool { return bytes.Equal(x, y) })
}

func cloneMembers(m map[string]json.RawMessage) map[string]json.RawMessage {
	out := make(map[string]json.RawMessage, len(m))
	for k, v := range m {
		out[k] = slices.Clone(v)
	}
	return out
}
