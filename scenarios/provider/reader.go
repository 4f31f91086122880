package provider

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	"countersign/gateway/api"

	"github.com/tidwall/gjson"
)

// A Reader is the way in which a service reads the JSON of a request. All are
// real libraries used as their documentation shows; where a text has two
// readings, they differ.
type Reader string

const (
	// ReaderStruct decodes into a Go struct with encoding/json, as an HTTP handler
	// does with json.NewDecoder: member names match without regard to case, the
	// last of several wins, text after the object is not looked at.
	ReaderStruct Reader = "struct"
	// ReaderFirst asks github.com/tidwall/gjson for each member: names match
	// exactly and the first of several wins.
	ReaderFirst Reader = "first"
	// ReaderUnchecked is ReaderFirst without gjson's check of the whole text, which
	// that library leaves to its caller ("bad json will not panic, but it may return
	// back unexpected results"): numbers as Go's strconv takes them, a text that
	// ends early and text behind the object are read for what there is.
	ReaderUnchecked Reader = "unchecked"
)

// A parser turns a request body into the values of the fields that are present.
// null counts as absent. Members that are no field are ignored, as services do.
type parser func(body []byte) (map[string]json.RawMessage, error)

func newParser(r Reader, t api.Tool) (parser, error) {
	switch r {
	case ReaderStruct:
		return structParser(t), nil
	case ReaderFirst:
		return firstParser(t), nil
	case ReaderUnchecked:
		return uncheckedParser(t), nil
	}
	return nil, fmt.Errorf("reader %q is not one of %q, %q, %q", string(r), ReaderStruct, ReaderFirst, ReaderUnchecked)
}

// exactInteger is an int64 field that also takes 1e2 and 100.0, which are
// integers in JSON though encoding/json refuses them for an int64.
type exactInteger struct{ text json.RawMessage }

func (n *exactInteger) UnmarshalJSON(literal []byte) error {
	text, err := integerText(string(literal))
	n.text = text
	return err
}

var goTypes = map[api.FieldType]reflect.Type{
	api.TypeString:  reflect.TypeFor[*string](),
	api.TypeInteger: reflect.TypeFor[*exactInteger](),
	api.TypeNumber:  reflect.TypeFor[*float64](),
	api.TypeBoolean: reflect.TypeFor[*bool](),
	api.TypeStrings: reflect.TypeFor[*[]string](),
}

func structParser(t api.Tool) parser {
	fields := make([]reflect.StructField, len(t.Fields))
	for i, f := range t.Fields {
		fields[i] = reflect.StructField{
			Name: fmt.Sprintf("F%d", i),
			Type: goTypes[f.Type],
			Tag:  reflect.StructTag(fmt.Sprintf(`json:"%s"`, f.Name)),
		}
	}
	typ := reflect.StructOf(fields)
	return func(body []byte) (map[string]json.RawMessage, error) {
		v := reflect.New(typ)
		if err := json.NewDecoder(bytes.NewReader(body)).Decode(v.Interface()); err != nil {
			// encoding/json would name our generated struct.
			return nil, fmt.Errorf("decoding the body: %s", strings.ReplaceAll(err.Error(), typ.String(), "request"))
		}
		out := make(map[string]json.RawMessage)
		for i, f := range t.Fields {
			p := v.Elem().Field(i)
			if p.IsNil() {
				continue
			}
			var text json.RawMessage
			var err error
			switch x := p.Interface().(type) {
			case *string:
				text = quote(*x)
			case *exactInteger:
				text = x.text
			case *float64:
				text, err = double(*x)
			case *bool:
				text, err = json.Marshal(*x)
			case *[]string:
				text = quoteList(*x)
			}
			if err != nil {
				return nil, fmt.Errorf("field %q: %w", f.Name, err)
			}
			out[f.Name] = text
		}
		return out, nil
	}
}

func firstParser(t api.Tool) parser {
	unchecked := uncheckedParser(t)
	return func(body []byte) (map[string]json.RawMessage, error) {
		if !gjson.ValidBytes(body) || !gjson.ParseBytes(body).IsObject() {
			return nil, fmt.Errorf("the body is not a JSON object")
		}
		return unchecked(body)
	}
}

func uncheckedParser(t api.Tool) parser {
	return func(body []byte) (map[string]json.RawMessage, error) {
		out := make(map[string]json.RawMessage)
		for _, f := range t.Fields {
			v := gjson.GetBytes(body, gjson.Escape(f.Name))
			if !v.Exists() || v.Type == gjson.Null {
				continue
			}
			text, err := firstValue(f.Type, v)
			if err != nil {
				return nil, fmt.Errorf("field %q: %w", f.Name, err)
			}
			out[f.Name] = text
		}
		return out, nil
	}
}

func firstValue(typ api.FieldType, v gjson.Result) (json.RawMessage, error) {
	switch {
	case typ == api.TypeString && v.Type == gjson.String:
		return quote(v.Str), nil
	case typ == api.TypeInteger && v.Type == gjson.Number && gjson.Valid(v.Raw):
		return integerText(v.Raw)
	case typ == api.TypeInteger && v.Type == gjson.Number:
		if math.Trunc(v.Num) != v.Num || math.Abs(v.Num) > 1<<53 {
			return nil, fmt.Errorf("number %.40q is no integer", v.Raw)
		}
		return strconv.AppendInt(nil, v.Int(), 10), nil
	case typ == api.TypeNumber && v.Type == gjson.Number:
		return double(v.Num)
	case typ == api.TypeBoolean && v.IsBool():
		return json.Marshal(v.Bool())
	case typ == api.TypeStrings && v.IsArray():
		list := []string{}
		for _, e := range v.Array() {
			if e.Type != gjson.String {
				return nil, fmt.Errorf("an element is not a string")
			}
			list = append(list, e.Str)
		}
		return quoteList(list), nil
	}
	return nil, fmt.Errorf("value is not of type %s", typ)
}
