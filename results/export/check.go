package export

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"countersign/results"
)

// Visible returns text with every character that could act on a terminal or that
// cannot be seen written ⟨U+XXXX⟩.
func Visible(s string) string { return clean(s) }

// WriteCheck writes a comparison with a baseline as text or Markdown (a table for
// each change that occurred, errors and wrong reasons, and a line of counts), or as
// JSON, which has every case that is not the same.
func WriteCheck(w io.Writer, k *results.Check, f Format, strict bool) error {
	write := Table.Text
	switch f {
	case Text:
	case Markdown:
		write = Table.Markdown
	case JSON:
		return checkJSON(w, k, strict)
	default:
		return fmt.Errorf("writing the check: format is %q, want %s, %s or %s", f, Text, Markdown, JSON)
	}
	for _, t := range checkTables(k, strict) {
		if err := write(t, w); err != nil {
			return fmt.Errorf("writing the check: %w", err)
		}
		if _, err := io.WriteString(w, "\n"); err != nil {
			return fmt.Errorf("writing the check: %w", err)
		}
	}
	if k.Elsewhere > 0 {
		separator := map[Format]string{Markdown: "\n"}[f]
		if _, err := fmt.Fprintf(w, "Not compared: %s of the baseline, of targets or attacks that this run does not have.\n%s", entries(k.Elsewhere), separator); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "%s\n", summary(k, strict))
	return err
}

func entries(n int) string {
	if n == 1 {
		return "1 entry"
	}
	return fmt.Sprintf("%d entries", n)
}

// A checkedCase is a case as JSON.
type checkedCase struct {
	Target  string                 `json:"target"`
	Attack  string                 `json:"attack"`
	Variant string                 `json:"variant"`
	Kind    results.Kind           `json:"kind"`
	Change  results.Change         `json:"change"`
	Why     string                 `json:"why,omitempty"`
	Before  *results.BaselineEntry `json:"before"` // null where new
	After   *results.BaselineEntry `json:"after"`  // null where missing
}

// checkJSON writes the counts, the exit code, and every case that changed, could
// not be carried out or was blocked for another reason than predicted.
func checkJSON(w io.Writer, k *results.Check, strict bool) error {
	out := struct {
		ExitCode    int                    `json:"exit_code"`
		Strict      bool                   `json:"strict_reason"`
		Counts      map[results.Change]int `json:"counts"`
		NotCompared int                    `json:"not_compared"`
		Cases       []checkedCase          `json:"cases"`
	}{k.ExitCode(strict), strict, map[results.Change]int{}, k.Elsewhere, []checkedCase{}}
	for _, c := range results.Changes() {
		out.Counts[c] = k.Count(c)
	}
	for _, c := range k.Cases {
		if c.Change != results.Same || c.Errors() > 0 || c.WrongReasons() > 0 {
			e := c.Entry()
			out.Cases = append(out.Cases, checkedCase{e.Target, e.Attack, e.Variant, e.Kind, c.Change, c.Why, c.Before, c.After})
		}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	if err := enc.Encode(out); err != nil {
		return fmt.Errorf("writing the check: %w", err)
	}
	_, err := io.WriteString(w, results.EscapeJSON(b.String()))
	return err
}

var changeTitles = map[results.Change]string{
	results.Regression:  "Regressions",
	results.Improvement: "Improvements: accept them with countersign baseline",
	results.Changed:     "Changed, neither better nor worse",
	results.Added:       "New: not in the baseline",
	results.Missing:     "Missing: in the baseline, not in this run",
}

func checkTables(k *results.Check, strict bool) []Table {
	var out []Table
	add := func(name, title string, why func(results.Case) string) {
		t := Table{Name: name, Names: 3, Fold: 52, Most: listed, Header: []string{"target", "variant", "what"}}
		for _, c := range k.Cases {
			if text := why(c); text != "" {
				e := c.Entry()
				t.Rows = append(t.Rows, []string{e.Target, strings.TrimPrefix(e.Name(), e.Target+" "), text})
			}
		}
		if name == string(results.Regression) {
			t.Most = 0 // what fails a build is read there, and nowhere else
		}
		if len(t.Rows) > 0 {
			t.Title = fmt.Sprintf("%s (%d)", title, len(t.Rows))
			out = append(out, t)
		}
	}
	for _, change := range results.Changes() {
		if change == results.Same {
			continue
		}
		add(string(change), changeTitles[change], func(c results.Case) string {
			if c.Change != change {
				return ""
			}
			return c.Why
		})
	}
	add("errors", "Cannot tell", func(c results.Case) string {
		if c.Errors() == 0 {
			return ""
		}
		return errorText(c)
	})
	if strict {
		add("wrong-reasons", "Blocked for another reason than predicted", func(c results.Case) string {
			if c.WrongReasons() == 0 {
				return ""
			}
			return wrongReasonText(c)
		})
	}
	return out
}

func errorText(c results.Case) string {
	return plural(c.Errors(), "trial") + " could not be carried out: " + c.After.Outcomes()
}

func wrongReasonText(c results.Case) string {
	return plural(c.WrongReasons(), "trial") + " blocked for another reason than predicted, refused by " + list(c.After.RefusedBy)
}

func summary(k *results.Check, strict bool) string {
	errors, wrong := 0, 0
	for _, c := range k.Cases {
		errors += min(c.Errors(), 1)
		wrong += min(c.WrongReasons(), 1)
	}
	s := fmt.Sprintf("Against the baseline: %s, %s, %d changed, %d new, %d missing, %d the same; %d with errors.",
		plural(k.Count(results.Regression), "regression"), plural(k.Count(results.Improvement), "improvement"), k.Count(results.Changed),
		k.Count(results.Added), k.Count(results.Missing), k.Count(results.Same), errors)
	if strict {
		s += fmt.Sprintf(" Blocked for another reason than predicted: %d.", wrong)
	}
	return s
}
