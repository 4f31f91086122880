package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// An Explanation says why nothing can notice some mutants.
type Explanation struct {
	Mutants  string `yaml:"mutants"`  // their ids, as path.Match has it
	Original string `yaml:"original"` // the condition, so that it is not taken for another when ordinals move
	Reason   string `yaml:"reason"`
}

func (e Explanation) covers(m Mutant) bool {
	ok, err := path.Match(e.Mutants, m.ID)
	return err == nil && ok && e.Original == m.Original
}

// parseExplanations reads the file: a list in one YAML document, each entry with all
// its members.
func parseExplanations(text []byte) ([]Explanation, error) {
	var out []Explanation
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&out); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("reading the explanations: %w", err)
	}
	var more yaml.Node
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("reading the explanations: there is more than one document")
	}
	for i, e := range out {
		if _, err := path.Match(e.Mutants, ""); err != nil || e.Mutants == "" || e.Original == "" || strings.TrimSpace(e.Reason) == "" {
			return nil, fmt.Errorf("explanation %d (%q): want a pattern of ids, the original condition and a reason", i+1, e.Mutants)
		}
	}
	return out, nil
}

// explanations reads the file and holds it against all mutants that there are:
// one that matches none is an error.
func explanations(text []byte, all []Mutant) ([]Explanation, error) {
	out, err := parseExplanations(text)
	if err != nil {
		return nil, err
	}
	for i, e := range out {
		if !slices.ContainsFunc(all, e.covers) {
			return nil, fmt.Errorf("explanation %d: no mutant %s is of the condition %q: correct it or take it out", i+1, e.Mutants, e.Original)
		}
	}
	return out, nil
}

// explained finds the explanation of a mutant, nil for none.
func explained(es []Explanation, m Mutant) *Explanation {
	for i := range es {
		if es[i].covers(m) {
			return &es[i]
		}
	}
	return nil
}
