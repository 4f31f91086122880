package export

import (
	"fmt"
	"io"
	"strings"

	"countersign/results"
)

// Visible returns text with every character that could act on a terminal or that
// cannot be seen written ⟨U+XXXX⟩.
func Visible(s string) string { return clean(s) }

// WriteCheck writes a comparison with a baseline as text or Markdown: a table for
// each change that occurred, errors and wrong reasons, and a line of counts.
func WriteCheck(w io.Writer, k *results.Check, f Format, strict bool) error {
	write := Table.Text
	switch f {
	case Text:
	case Markdown:
		write = Table.Markdown
	default:
		return fmt.Errorf("writing the check: format is %q, want %s or %s", f, Text, Markdown)
	}
	for _, t := range checkTables(k, strict) {
		if err := write(t, w); err != nil {
			return fmt.Errorf("writing the check: %w", err)
		}
		if _, err := io.WriteString(w, "\n"); err != nil {
			return fmt.Errorf("writing the check: %w", err)
		}
	}
	_, err := fmt.Fprintf(w, "%s\n", summary(k, strict))
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
