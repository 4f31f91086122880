package main

import (
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"countersign/results"
	"countersign/results/export"
)

// A likeness is how a file is beside that of the reference.
type likeness int

const (
	same likeness = iota
	changed
	missing // there is none, and the reference has one
	added   // the reference has none
)

var likenesses = [...]string{"the same", "different", "missing", "new"}

func likenessOf(was, is string) likeness {
	switch {
	case was == is:
		return same
	case was == "":
		return added
	case is == "":
		return missing
	}
	return changed
}

// compare prints how the parts of a paper are beside those of a reference, and says
// whether they are the same. Parts of the reference that were not made are named.
func compare(w io.Writer, p paper, is results.Sums, dir string, was results.Sums) (bool, error) {
	both := results.Sums{}
	both.Add(was)
	both.Add(is)
	made := partsOf(is)
	counts := map[string][len(likenesses)]int{}
	others := export.Table{Title: "Not as in the reference", Names: 2, Most: 40, Header: []string{"what", "how"}}
	for _, name := range both.Names() {
		part := partOfSum(name)
		if !slices.Contains(made, part) {
			continue
		}
		how, n := likenessOf(was[name], is[name]), counts[part]
		n[how]++
		counts[part] = n
		if how != same {
			others.Rows = append(others.Rows, []string{name, likenesses[how]})
		}
	}
	t := export.Table{Title: "Against " + dir, Names: 1, Header: append([]string{"part"}, likenesses[:]...)}
	for _, part := range made {
		row := []string{part}
		for _, n := range counts[part] {
			row = append(row, strconv.Itoa(n))
		}
		t.Rows = append(t.Rows, row)
	}
	if absent := slices.DeleteFunc(partsOf(was), func(part string) bool { return slices.Contains(made, part) }); len(absent) > 0 {
		t.Notes = append(t.Notes, "Not made, so not compared: "+strings.Join(absent, ", ")+".")
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return false, err
	}
	if err := t.Text(w); err != nil || len(others.Rows) == 0 {
		return err == nil, err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return false, err
	}
	if err := others.Text(w); err != nil {
		return false, err
	}
	for _, part := range made {
		records := "runs/" + part + "/records.jsonl"
		if is[records] == was[records] || was[records] == "" {
			continue
		}
		if err := firstDifference(w, part, filepath.Join(dir, part), p.part(part)); err != nil {
			return false, err
		}
	}
	return false, nil
}

// firstDifference prints the first record that is another in the run of a paper than
// in the reference.
func firstDifference(w io.Writer, part, before, now string) error {
	was, err := results.Open(before)
	if err != nil {
		return err
	}
	is, err := results.Open(now)
	if err != nil {
		return err
	}
	next, stop := iter.Pull2(was.Records())
	defer stop()
	said := func(r results.Record) error {
		_, err := fmt.Fprintf(w, "\nThe first record of %s that differs: %s, seed %d:\n", part, oneLine(r.Name()), r.Seed)
		return err
	}
	for r, err := range is.Records() {
		if err != nil {
			return err
		}
		old, err, ok := next()
		switch {
		case err != nil:
			return err
		case !ok:
			old = results.Record{}
		case reflect.DeepEqual(r, old):
			continue
		}
		if err := said(r); err != nil {
			return err
		}
		if !ok {
			_, err := fmt.Fprintln(w, "  the reference has no more records")
			return err
		}
		return printMembers(w, old, r, "the reference says", "this run says")
	}
	old, err, ok := next()
	if err != nil || !ok {
		return err
	}
	if err := said(old); err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, "  this run has no more records")
	return err
}
