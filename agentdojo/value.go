package agentdojo

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"countersign/gateway/api"
)

// freeText reports whether an argument is prose, which a task leaves to the agent
// and which therefore does not tell two calls apart.
func freeText(argument string) bool {
	switch argument {
	case "body", "content", "subject", "title", "description", "message":
		return true
	}
	return false
}

// decodeValue reads one JSON value; numbers stay as written.
func decodeValue(raw json.RawMessage) any {
	if len(raw) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil
	}
	return v
}

// stripScheme takes the scheme off an address of a page. The benchmark's pages have
// addresses without one, and it serves the same page for either notation.
func stripScheme(s string) string {
	for _, scheme := range schemes {
		if rest, ok := strings.CutPrefix(s, scheme); ok {
			return rest
		}
	}
	return s
}

var schemes = []string{"http://", "https://"}

// normal returns a text that two arguments of a field share if and only if the
// benchmark's executor would understand them alike, apart from case and white
// space. It is empty for an absent argument.
func normal(f api.Field, raw json.RawMessage) string {
	v := decodeValue(raw)
	if v == nil {
		v = decodeValue(json.RawMessage(f.Default))
	}
	switch f.Type {
	case api.TypeInteger, api.TypeNumber:
		if s, ok := v.(string); ok {
			return number(strings.TrimSpace(s))
		}
	case api.TypeStrings:
		if s, ok := v.(string); ok {
			v = listLiteral(s)
		}
		if list, ok := v.([]any); ok {
			set := make([]string, 0, len(list))
			for _, e := range list {
				set = append(set, generic(e))
			}
			slices.Sort(set)
			set = slices.Compact(set)
			if len(set) == 0 {
				return ""
			}
			return quoteAll(set)
		}
	}
	if f.Name == "url" {
		return stripScheme(generic(v))
	}
	return generic(v)
}

// quoteAll joins texts so that the result determines them.
func quoteAll(texts []string) string {
	data, _ := json.Marshal(texts) // strings always marshal
	return string(data)
}

// generic normalises a value without regard to its field.
func generic(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return fold(v)
	case json.Number:
		return number(v.String())
	case []any:
		if len(v) == 0 {
			return ""
		}
	}
	return fold(sorted(v))
}

// fold trims a text, folds its case and collapses its white space.
func fold(s string) string { return strings.ToLower(strings.Join(strings.Fields(s), " ")) }

// number writes a number in one form: 5, 5.0 and 5e0 are one value. A text that is
// no number stays a text.
func number(s string) string {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return fold(s)
	}
	if data, err := json.Marshal(f); err == nil {
		return string(data)
	}
	return fold(s) // infinite or not a number
}

// listLiteral reads a list that was passed as a string, as the executor does
// (ast.literal_eval); any other string is a list of one.
func listLiteral(s string) any {
	t := strings.TrimSpace(s)
	if strings.HasPrefix(t, "[") {
		for _, text := range []string{t, strings.ReplaceAll(t, "'", `"`)} {
			if list, ok := decodeValue(json.RawMessage(text)).([]any); ok {
				return list
			}
		}
	}
	return []any{s}
}

// Plain is the plain text of an argument, as a view shows it: a string as it is, a
// number or boolean in its shortest form, a list of strings joined by ", ", and
// anything else as JSON with sorted members.
func Plain(raw json.RawMessage) string {
	switch v := decodeValue(raw).(type) {
	case nil:
		return ""
	case string:
		return v
	case json.Number:
		if f, err := v.Float64(); err == nil {
			if data, err := json.Marshal(f); err == nil {
				return string(data)
			}
		}
		return v.String()
	case []any:
		texts := make([]string, 0, len(v))
		for _, e := range v {
			s, ok := e.(string)
			if !ok {
				return sorted(v)
			}
			texts = append(texts, s)
		}
		return strings.Join(texts, ", ")
	}
	return sorted(decodeValue(raw))
}

// sorted writes a value as JSON with the members of objects in the order of their
// names and numbers as they were written.
func sorted(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(v) != nil {
		return ""
	}
	return strings.TrimSuffix(b.String(), "\n")
}
