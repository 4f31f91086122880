package agentdojo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// memberError places an error inside a file.
type memberError struct {
	member string
	err    error
}

func (e *memberError) Error() string { return "member " + e.member + ": " + e.err.Error() }
func (e *memberError) Unwrap() error { return e.err }

// at places err at a member, in front of the place it already has.
func at(member string, err error) error {
	if inner, ok := err.(*memberError); ok {
		return &memberError{member + "." + inner.member, inner.err}
	}
	return &memberError{member, err}
}

// A member is one member of a JSON object.
type member struct {
	name string
	raw  json.RawMessage
}

// members splits a JSON object without touching its values. Package json alone
// would match names by case-folding and take the last of two equal names.
func members(data []byte) ([]member, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	tok, err := d.Token()
	if err != nil {
		return nil, syntax(err, d.InputOffset())
	}
	if tok != json.Delim('{') {
		return nil, fmt.Errorf("want an object, have %s", kind(data))
	}
	var list []member
	seen := map[string]bool{}
	for d.More() {
		tok, err := d.Token()
		if err != nil {
			return nil, syntax(err, d.InputOffset())
		}
		name, ok := tok.(string)
		if !ok {
			return nil, fmt.Errorf("not JSON: want a member name at byte %d", d.InputOffset())
		}
		if seen[name] {
			return nil, at(name, errors.New("is there twice"))
		}
		seen[name] = true
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, syntax(err, d.InputOffset())
		}
		list = append(list, member{name, raw})
	}
	if _, err := d.Token(); err != nil {
		return nil, syntax(err, d.InputOffset())
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("not JSON: text after the object at byte %d", d.InputOffset())
	}
	return list, nil
}

func syntax(err error, offset int64) error {
	if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("not JSON: the text ends early at byte %d", offset)
	}
	return fmt.Errorf("not JSON: %w at byte %d", err, offset)
}

// kind names what a JSON text is, for messages.
func kind(data []byte) string {
	data = bytes.TrimSpace(data)
	if len(data) == 0 {
		return "nothing"
	}
	switch data[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

type jsonObject map[string]json.RawMessage

func object(data []byte) (jsonObject, error) {
	list, err := members(data)
	if err != nil {
		return nil, err
	}
	o := make(jsonObject, len(list))
	for _, m := range list {
		o[m.name] = m.raw
	}
	return o, nil
}

// A want is a member that may occur, and where to put it.
type want struct {
	name     string
	into     any
	required bool
}

// decode reads all members of the object; one that is not wanted is an error.
func (o jsonObject) decode(wants ...want) error {
	known := 0
	for _, w := range wants {
		if _, ok := o[w.name]; !ok {
			if w.required {
				return at(w.name, errors.New("is missing"))
			}
			continue
		}
		known++
		if err := o.decodeOne(w.name, w.into); err != nil {
			return err
		}
	}
	if known == len(o) {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(o)) {
		if !slices.ContainsFunc(wants, func(w want) bool { return w.name == name }) {
			return at(name, errors.New("is not a member of any known log format"))
		}
	}
	return nil
}

func (o jsonObject) decodeOne(name string, into any) error {
	raw, ok := o[name]
	if !ok {
		return at(name, errors.New("is missing"))
	}
	// Package json would take null for a string and leave the string alone.
	if _, ok := into.(*string); ok && kind(raw) != "a string" {
		return at(name, fmt.Errorf("want a string, have %s", kind(raw)))
	}
	if err := json.Unmarshal(raw, into); err != nil {
		if te, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return at(name, fmt.Errorf("want %s, have a %s", strings.TrimPrefix(te.Type.String(), "*"), te.Value))
		}
		return at(name, err)
	}
	return nil
}
