package agentdojo

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"

	"countersign/gateway/api"
)

// A ToolKind says what a tool of the benchmark does.
type ToolKind string

// The kinds, as the files write them.
const (
	KindRead   ToolKind = "R"        // reads only
	KindMark   ToolKind = "R-mark"   // reads, and marks what was read
	KindEgress ToolKind = "R-egress" // reads by a request to an address of the caller's choice
	KindInside ToolKind = "W-int"    // writes inside the user's own account
	KindReach  ToolKind = "W-ext"    // reaches other people, or money
)

// Kinds holds the kind of each tool, by suite and "/" and tool. A tool that is not
// listed counts as side-effecting, so the zero value makes every tool so.
type Kinds map[string]ToolKind

// SideEffect reports whether calls of a tool must be gated. An outbound request
// to an address of the caller's choice is one; marking as read is not.
func (k Kinds) SideEffect(suite, tool string) bool {
	kind := k[suite+"/"+tool]
	return kind != KindRead && kind != KindMark
}

// LoadClasses reads a file of tool classes: an object with a member
// "suite/tool": {"class": kind} for each tool.
func LoadClasses(file string) (Kinds, error) {
	data, err := readFile(file)
	if err != nil {
		return nil, &FileError{Path: file, Err: err}
	}
	kinds, err := parseClasses(data)
	if err != nil {
		fe := &FileError{Path: file, Err: err}
		if me, ok := errors.AsType[*memberError](err); ok {
			fe.Member, fe.Err = me.member, me.err
		}
		return nil, fe
	}
	return kinds, nil
}

func parseClasses(data []byte) (Kinds, error) {
	var rows map[string]struct {
		Class ToolKind `json:"class"`
	}
	// Version 2 of package json matches names exactly and refuses one that is there
	// twice: of two classes of one tool, the last must not win.
	if err := jsonv2.Unmarshal(data, &rows); err != nil {
		return nil, fmt.Errorf("not a file of tool classes: %w", err)
	}
	if len(rows) == 0 {
		return nil, errors.New("a file of tool classes without a tool")
	}
	kinds := Kinds{}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		if suite, tool, _ := strings.Cut(name, "/"); suite == "" || tool == "" {
			return nil, at(name, errors.New("is no tool, want suite/tool"))
		}
		switch k := rows[name].Class; k {
		case KindRead, KindMark, KindEgress, KindInside, KindReach:
			kinds[name] = k
		default:
			return nil, at(name+".class", fmt.Errorf("unknown class %q", k))
		}
	}
	return kinds, nil
}

// A Benchmark is a catalogue together with what its tools do.
type Benchmark struct {
	Catalogue *Catalogue
	Kinds     Kinds
}

// Tools returns the tool table of a suite, in the order of the catalogue: what the
// platform team of a deployment would configure. The audience is the suite. A
// tool is consequential if it has a side effect; all fields are material. The
// short summary shows the first two required fields, as a product's summary would,
// and all fields of a tool that requires none. notes lists the fields whose
// type [api.FieldType] cannot express and which are described as strings.
func (b Benchmark) Tools(suite string) (tools []api.Tool, notes []string, err error) {
	s := b.Catalogue.suites[suite]
	if s == nil {
		return nil, nil, fmt.Errorf("listing the tools of suite %q: %w %s, which has %s", suite,
			ErrNotInCatalogue, b.Catalogue.Version, strings.Join(b.Catalogue.Suites(), ", "))
	}
	for _, spec := range s.tools {
		t := api.Tool{
			Audience: suite, Name: spec.name, Title: title(spec.name), Class: api.ClassRead,
			Fields: slices.Clone(spec.fields), Risk: "read", Guarantee: api.GuaranteeLookup,
		}
		if b.Kinds.SideEffect(suite, spec.name) {
			t.Class, t.Risk = api.ClassConsequential, "write"
		}
		for _, f := range spec.fields {
			if len(spec.required) == 0 || len(t.Summary) < 2 && slices.Contains(spec.required, f.Name) {
				t.Summary = append(t.Summary, f.Name)
			}
		}
		tools = append(tools, t)
		notes = append(notes, spec.notes...)
	}
	return tools, notes, nil
}

// title makes a caption of a function name: "send_money" is "Send money".
func title(name string) string {
	_, n := utf8.DecodeRuneInString(name)
	return strings.ToUpper(name[:n]) + strings.ReplaceAll(name[n:], "_", " ")
}
