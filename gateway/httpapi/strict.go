package httpapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"countersign/gateway/api"
)

// maxDepth bounds the nesting of a body, opaque values of an answer left out; the
// contract itself needs five levels, and WebAuthn responses three more.
const maxDepth = 32

func invalidf(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, api.ErrInvalid)...)
}

// enums holds the values of the contract's closed sets. Bindings are an open one:
// another target may name its own.
var enums = map[reflect.Type][]string{
	reflect.TypeFor[api.PendingState]():   names(api.StatePending, api.StateGranted, api.StateExempt, api.StateHeld),
	reflect.TypeFor[api.Verdict]():        names(api.Approve, api.Decline),
	reflect.TypeFor[api.Status]():         names(api.Executed, api.Refused, api.Held, api.Reasked, api.Absorbed),
	reflect.TypeFor[api.Reconciliation](): names(api.Reconciliations()...),
	reflect.TypeFor[api.Role]():           names(api.RoleAgent, api.RolePerson, api.RoleAdmin, api.RoleAuditor),
	reflect.TypeFor[api.EventKind](): names(api.EventEnrol, api.EventDisableAgent, api.EventRevoke,
		api.EventPolicyChange, api.EventRiskLabel, api.EventApprovals, api.EventRemoveCredential, api.EventAllowSelfApproval, api.EventForbidSelfApproval,
		api.EventAllowRunWide, api.EventForbidRunWide),
	reflect.TypeFor[errorCode](): names(codeInvalid, codeUnauthenticated, codeForbidden, codeRefused, codeNotFound,
		codeNoRoute, codeMethod, codeConflict, codeTooLarge, codeMediaType, codeInternal, codeUnimplemented, codeUnavailable, codeRateLimited),
	reflect.TypeFor[api.Dependency](): names(api.DepStore, api.DepPolicy, api.DepAudit, api.DepClock, api.DepIdentity),
}

func names[T ~string](vs ...T) []string {
	out := make([]string, len(vs))
	for i, v := range vs {
		out[i] = string(v)
	}
	return out
}

var (
	typeRaw  = reflect.TypeFor[json.RawMessage]()
	typeTime = reflect.TypeFor[time.Time]()
)

// decodeRequest reads a request body into *into. encoding/json alone would take
// members of any letter case and the last of several equal ones, so the tokens
// are compared with the type first.
func decodeRequest(data []byte, into any) error {
	if err := wellFormed(data); err != nil {
		return err
	}
	if err := loneSurrogate(data); err != nil {
		return err
	}
	return decode(data, into, true)
}

// decodeAnswer reads an answer into *into. Opaque values in it (a provider's
// result, a preview's values) are the target's to choose and are passed on as
// they are.
func decodeAnswer(data []byte, into any) error {
	if err := wellFormed(data); err != nil {
		return err
	}
	return decode(data, into, false)
}

func wellFormed(data []byte) error {
	if !utf8.Valid(data) {
		return errors.New("body is not UTF-8")
	}
	var raw json.RawMessage // refuses text after the value
	if err := json.Unmarshal(data, &raw); err != nil {
		return fmt.Errorf("body is not one JSON value: %w", err)
	}
	return nil
}

func decode(data []byte, into any, request bool) error {
	w := walker{dec: json.NewDecoder(bytes.NewReader(data)), request: request}
	w.dec.UseNumber()
	if err := w.value(reflect.TypeOf(into).Elem(), "", 0); err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// walker compares well-formed JSON with the Go type it is meant for.
type walker struct {
	dec     *json.Decoder
	request bool // look into opaque values too
}

func (w *walker) value(t reflect.Type, at string, depth int) error {
	if t == typeRaw && !w.request {
		var skip json.RawMessage
		return w.dec.Decode(&skip)
	}
	if depth > maxDepth {
		return fmt.Errorf("body is nested more than %d deep", maxDepth)
	}
	token, err := w.dec.Token()
	if err != nil {
		return err
	}
	if t == typeRaw {
		switch token {
		case json.Delim('{'):
			return w.object(nil, t, at, depth)
		case json.Delim('['):
			return w.array(t, at, depth)
		}
		return nil
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	want := ""
	switch {
	case t.Kind() == reflect.Struct && t != typeTime:
		if token == json.Delim('{') {
			return w.object(members(t), nil, at, depth)
		}
		want = "an object"
	case t.Kind() == reflect.Map:
		if token == json.Delim('{') {
			return w.object(nil, t.Elem(), at, depth)
		}
		want = "an object"
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		if token == json.Delim('[') {
			return w.array(t.Elem(), at, depth)
		}
		want = "an array"
	case t.Kind() == reflect.Bool:
		if _, ok := token.(bool); ok {
			return nil
		}
		want = "true or false"
	case t.Kind() == reflect.Int64:
		if n, ok := token.(json.Number); ok {
			if _, err := strconv.ParseInt(n.String(), 10, 64); err == nil {
				return nil
			}
		}
		want = "a whole number of 64 bits"
	case t.Kind() == reflect.Slice: // bytes
		s, ok := token.(string)
		// The encoding must be the only one: no line breaks, no stray bits.
		if raw, err := base64.StdEncoding.DecodeString(s); ok && err == nil && base64.StdEncoding.EncodeToString(raw) == s {
			return nil
		}
		want = "padded base64 (RFC 4648, section 4)"
	case t == typeTime:
		s, _ := token.(string)
		if _, err := time.Parse(time.RFC3339Nano, s); err == nil {
			return nil
		}
		want = "a time (RFC 3339)"
	case t.Kind() == reflect.String:
		s, ok := token.(string)
		allowed, closed := enums[t]
		if ok && (!closed || slices.Contains(allowed, s)) {
			return nil
		}
		if want = "a string"; closed {
			want = "one of " + strings.Join(allowed, ", ")
		}
	default:
		return fmt.Errorf("at %q: the contract has no form for %v", at, t)
	}
	return fmt.Errorf("at %q: want %s", at, want)
}

// object reads the members of an object whose brace was read: those of a struct
// when fields is set, else any, with values of type elem.
func (w *walker) object(fields []member, elem reflect.Type, at string, depth int) error {
	seen := map[string]bool{}
	for w.dec.More() {
		token, err := w.dec.Token()
		if err != nil {
			return err
		}
		name := token.(string)
		// Whoever reads an opaque object later may ignore letter case, as
		// encoding/json does.
		key := name
		if elem == typeRaw && w.request {
			key = strings.ToLower(strings.ToUpper(name))
		}
		if seen[key] {
			return fmt.Errorf("at %q: member %q appears twice", at, name)
		}
		seen[key] = true
		t := elem
		if fields != nil {
			i := slices.IndexFunc(fields, func(m member) bool { return m.name == name })
			if i < 0 {
				return fmt.Errorf("at %q: unknown member %q (names are matched exactly)", at, name)
			}
			t = fields[i].typ
		}
		if err := w.value(t, at+"/"+name, depth+1); err != nil {
			return err
		}
	}
	for _, m := range fields {
		if m.required && !seen[m.name] {
			return fmt.Errorf("at %q: member %q is missing", at, m.name)
		}
	}
	_, err := w.dec.Token()
	return err
}

func (w *walker) array(elem reflect.Type, at string, depth int) error {
	for i := 0; w.dec.More(); i++ {
		if err := w.value(elem, at+"/"+strconv.Itoa(i), depth+1); err != nil {
			return err
		}
	}
	_, err := w.dec.Token()
	return err
}

// member is a struct field as it appears in JSON.
type member struct {
	name     string
	typ      reflect.Type
	required bool // always written, hence always expected
}

// members are those of a type of the contract, every field of which is written.
func members(t reflect.Type) []member {
	ms := []member{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		ms = append(ms, member{name, f.Type, !strings.Contains(opts, "omit")})
	}
	return ms
}

// loneSurrogate refuses an escape \uD800…\uDFFF outside a pair: encoding/json
// would read U+FFFD, another reader something else. The data is well-formed JSON.
func loneSurrogate(data []byte) error {
	// unit is that of the escape at i, 0 where there is none. In a string there is
	// a byte at i, and more where an escape begins.
	unit := func(i int) uint64 {
		if data[i] != '\\' || data[i+1] != 'u' {
			return 0
		}
		u, _ := strconv.ParseUint(string(data[i+2:i+6]), 16, 16)
		return u
	}
	for i := 0; i < len(data); i++ {
		if data[i] != '\\' {
			continue
		}
		switch u := unit(i); {
		case u < 0xD800 || u > 0xDFFF:
			i++ // the escaped character, which may be a backslash
		case u <= 0xDBFF && unit(i+6) >= 0xDC00 && unit(i+6) <= 0xDFFF:
			i += 11
		default:
			return fmt.Errorf("body has a lone surrogate at byte %d", i)
		}
	}
	return nil
}

// encode writes v as JSON, raw messages unchanged but for white space.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // would rewrite raw messages
	if err := enc.Encode(filled(v)); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// filled returns v with empty slices and maps for nil ones that JSON would show
// as null, for which the document has no place.
func filled(v any) any {
	switch v := v.(type) {
	case api.Action:
		v.Arguments = append([]byte{}, v.Arguments...)
		return v
	case api.Dispatch:
		v.Action = filled(v.Action).(api.Action)
		v.Siblings = slices.Clone(v.Siblings)
		for i, a := range v.Siblings {
			v.Siblings[i] = filled(a).(api.Action)
		}
		return v
	case api.Description:
		v.Claims = append([]api.Binding{}, v.Claims...)
		return v
	case api.View:
		v.Fields = append([]api.ViewField{}, v.Fields...)
		return v
	case []api.AuditEntry:
		return append([]api.AuditEntry{}, v...)
	case api.Values:
		if v == nil {
			return api.Values{}
		}
	}
	return v
}

// checkText reports the first string or raw message below v that is not UTF-8,
// which JSON cannot carry unchanged.
func checkText(v reflect.Value, at string) error {
	switch {
	case v.Type() == typeRaw:
		if !utf8.Valid(v.Bytes()) {
			return fmt.Errorf("at %q: not UTF-8", at)
		}
	case v.Kind() == reflect.String:
		if !utf8.ValidString(v.String()) {
			return fmt.Errorf("at %q: not UTF-8", at)
		}
	case v.Kind() == reflect.Pointer && !v.IsNil():
		return checkText(v.Elem(), at)
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() != reflect.Uint8:
		for i := range v.Len() {
			if err := checkText(v.Index(i), at+"/"+strconv.Itoa(i)); err != nil {
				return err
			}
		}
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if err := checkText(v.Field(i), at+"/"+f.Name); err != nil {
				return err
			}
		}
	}
	return nil
}
