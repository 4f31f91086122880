package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"countersign/attacks"
	"countersign/attacks/harness"
	"countersign/gateway/api"
	"countersign/modes"
	"countersign/results"
	"countersign/results/export"
)

// listing is how modes and attacks are printed.
type listing struct{ json, markdown bool }

func (l *listing) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&l.json, "json", false, "print JSON")
	cmd.Flags().BoolVar(&l.markdown, "markdown", false, "print Markdown, as in the documentation")
	cmd.MarkFlagsMutuallyExclusive("json", "markdown")
}

// A modeRow is a mode as JSON.
type modeRow struct {
	ID         string        `json:"id"`
	Name       string        `json:"name"`
	Title      string        `json:"title"`
	ModelledOn string        `json:"modelled_on"`
	Carrier    string        `json:"carrier"`
	Bindings   []api.Binding `json:"bindings"`
	Note       string        `json:"note,omitempty"`
	Group      modes.Group   `json:"group,omitempty"` // heading of the table that reports it; empty for the main one
	// Clauses are of modes that are made of a published text.
	Clauses []modes.Clause `json:"clauses,omitempty"`
}

func newModes() *cobra.Command {
	var l listing
	var c composing
	cmd := &cobra.Command{
		Use:   "modes [MODE…]",
		Short: "List the approval designs and their bindings",
		Long: `Modes lists the control M0 and the approval designs: what each models, how
its approval travels, and which bindings it checks. Tables of their own have M1 to
M8 with hygiene (M4+) and published descriptions, whose sources are named binding
for binding when one is asked for. It also describes ablations, such as M9-args,
the reference design without the binding args.`,
		Example: `  countersign modes
  countersign modes M9-args-once
  countersign modes M4 M4+ RAR
  countersign modes --compose mine=record,args,once mine-once
  countersign modes --markdown    the grid of modes and bindings`,
		RunE: func(cmd *cobra.Command, args []string) error {
			all, _, err := c.table()
			if err != nil {
				return err
			}
			table := all
			if len(args) > 0 {
				all = nil
			}
			for _, id := range args {
				m, err := table.Get(id)
				if err != nil {
					return hint(err, "countersign modes lists them with their bindings")
				}
				all = append(all, m)
			}
			w := cmd.OutOrStdout()
			if l.json {
				rows := []modeRow{}
				for _, m := range all {
					rows = append(rows, modeRow{m.ID, m.Name, m.Title, m.ModelledOn, string(m.Carrier), append([]api.Binding{}, m.Bindings.List()...), m.Note, m.Group, m.Clauses})
				}
				return printJSON(w, rows)
			}
			var tables []export.Table
			for _, g := range modes.Groups() {
				in := slices.DeleteFunc(slices.Clone(all), func(m modes.Mode) bool { return m.Group != g })
				switch {
				case len(in) == 0:
				case l.markdown:
					tables = append(tables, modeGrid(in))
				default:
					tables = append(tables, modeTable(in))
				}
			}
			for _, m := range all {
				if len(args) > 0 && m.Clauses != nil {
					tables = append(tables, clauseTable(m))
				}
			}
			for i, t := range tables {
				write := t.Text
				if l.markdown {
					write = t.Markdown
				}
				if i > 0 {
					if _, err := fmt.Fprintln(w); err != nil {
						return err
					}
				}
				if err := write(w); err != nil {
					return err
				}
			}
			return nil
		},
	}
	l.flags(cmd)
	c.flags(cmd)
	return cmd
}

// inGroup adds the group's heading to the subject of a table of its modes.
func inGroup(subject string, all []modes.Mode) string {
	if g := all[0].Group; g != modes.GroupDesigns {
		return subject + ", " + string(g)
	}
	return subject
}

// clauseTable says where a published text requires the bindings of a mode.
func clauseTable(m modes.Mode) export.Table {
	t := export.Table{Name: "clauses", Title: "What the text of " + m.ID + " says", Names: 3, Header: []string{"binding", "required", "source"}}
	for _, c := range m.Clauses {
		required := "whole"
		if c.Part {
			required = "in part"
		}
		t.Rows = append(t.Rows, []string{string(c.Binding), required, c.Source})
		t.Notes = append(t.Notes, string(c.Binding)+": "+c.Says+".")
	}
	t.Notes = append(t.Notes, sentence(m.Note))
	return t
}

// modeGrid crosses bindings with modes of a group.
func modeGrid(all []modes.Mode) export.Table {
	t := export.Table{Name: "modes", Title: inGroup("Bindings of each mode", all), Names: 1, Header: []string{"binding"}}
	for _, m := range all {
		t.Header = append(t.Header, label(m))
	}
	for _, b := range api.Bindings() {
		row := []string{string(b)}
		for _, m := range all {
			mark := ""
			switch {
			case m.Bindings[b]:
				mark = "x"
			case m.Has(b):
				mark = "(x)"
			}
			row = append(row, mark)
		}
		t.Rows = append(t.Rows, row)
	}
	for _, m := range all {
		text := fmt.Sprintf("%s: %s.", label(m), m.Title)
		if m.ModelledOn != "" {
			text += fmt.Sprintf(" Modelled on %s.", m.ModelledOn)
		}
		if m.Note != "" {
			text += " Note: " + m.Note + "."
		}
		t.Notes = append(t.Notes, text)
	}
	t.Notes = append(t.Notes, "(x): implied by a stronger binding of the mode.")
	return t
}

// label names a mode; an ablation has its id for a name.
func label(m modes.Mode) string {
	if m.Name == m.ID {
		return m.ID
	}
	return m.ID + " " + m.Name
}

func modeTable(all []modes.Mode) export.Table {
	t := export.Table{Name: "modes", Title: inGroup("Approval designs", all), Names: 4, Fold: 80, Header: []string{"id", "name", "carried as", "bindings"}}
	for _, m := range all {
		bindings := strings.Join(bindingNames(m.Bindings.List()), " ")
		switch len(m.Bindings.List()) {
		case 0:
			bindings = "-"
		case len(api.Bindings()):
			bindings = fmt.Sprintf("all %d", len(api.Bindings()))
		}
		t.Rows = append(t.Rows, []string{m.ID, m.Name, string(m.Carrier), bindings})
		note := label(m) + ": " + m.Title
		if m.ModelledOn != "" {
			note += "; modelled on " + m.ModelledOn
		}
		if m.Group == modes.GroupHygiene && m.Note != "" {
			note += "; " + m.Note
		}
		t.Notes = append(t.Notes, note+".")
	}
	return t
}

func bindingNames(bs []api.Binding) []string {
	return ids(bs, func(b api.Binding) string { return string(b) })
}

func newAttacks() *cobra.Command {
	var l listing
	var incidents, trace bool
	cmd := &cobra.Command{
		Use:   "attacks [AB…]",
		Short: "List the attacks, what stops them, and their benign twins",
		Long: `Attacks lists the families AB1 to AB12 with their variants: the condition over
bindings that stops each, the capabilities the adversary uses, and the source it
is taken from. A benign twin is the same kind of flow, honest throughout: a gate
that refuses everything fails its twins. With --incidents it lists the public
reports of gates that failed, and what reproduces each. With --trace it lists what
is to be shown (the cases of the teardown, the gaps, the checklist, the incidents),
and which variants, designs, tests and alerts show it; --json has them by name.`,
		Example: `  countersign attacks AB4
  countersign attacks --incidents
  countersign attacks --trace
  countersign attacks --json | jq '.[].variants[].name'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			plan := harness.Plan{Families: attacks.All()}
			if len(args) > 0 {
				var err error
				if plan.Families, err = selectFamilies(args); err != nil {
					return err
				}
			}
			all, w := plan.Catalogue().Attacks, cmd.OutOrStdout()
			print := export.Table.Text
			if l.markdown {
				print = export.Table.Markdown
			}
			switch {
			case trace:
				rows, err := traceability(plan.Families)
				if err != nil {
					return err
				}
				if l.json {
					return printJSON(w, rows)
				}
				return print(traceTable(rows), w)
			case incidents:
				found := reproductions(plan.Families, len(args) > 0)
				if l.json {
					return printJSON(w, found)
				}
				return print(incidentTable(found), w)
			case l.json:
				return printJSON(w, all)
			}
			for i, a := range all {
				if i > 0 {
					if _, err := fmt.Fprintln(w); err != nil {
						return err
					}
				}
				if err := print(attackTable(a), w); err != nil {
					return err
				}
			}
			return nil
		},
	}
	l.flags(cmd)
	cmd.Flags().BoolVar(&incidents, "incidents", false, "list public incidents and what reproduces them")
	cmd.Flags().BoolVar(&trace, "trace", false, "list claims and what shows them")
	cmd.MarkFlagsMutuallyExclusive("incidents", "trace")
	return cmd
}

// An incidentRow is an incident as JSON.
type incidentRow struct {
	Number   int      `json:"incident"`
	Source   string   `json:"source"`
	Title    string   `json:"title"`
	Variants []string `json:"variants,omitempty"`
	Twins    []string `json:"twins,omitempty"`
	Tests    []string `json:"tests,omitempty"`
	Why      string   `json:"not_reproduced_because,omitempty"`
}

// reproductions lists every incident, or those that some of the families reproduce.
func reproductions(fs []attacks.Family, some bool) []incidentRow {
	rows := []incidentRow{}
	for _, r := range attacks.Reproductions(fs) {
		if !some || len(r.Variants)+len(r.Twins) > 0 {
			rows = append(rows, incidentRow{r.Number, r.Source, r.Title, r.Variants, r.Twins, r.Tests, r.Why})
		}
	}
	return rows
}

func incidentTable(rows []incidentRow) export.Table {
	t := export.Table{
		Name: "incidents", Title: "Public incidents and what reproduces them", Names: 3,
		Header: []string{"incident", "reproduced by", "kind"},
	}
	missing := 0
	for _, r := range rows {
		number := fmt.Sprint(r.Number)
		for _, x := range []struct {
			kind string
			by   []string
		}{{string(results.Attack), r.Variants}, {string(results.Twin), r.Twins}, {"test", r.Tests}} {
			for _, name := range x.by {
				t.Rows = append(t.Rows, []string{number, name, x.kind})
			}
		}
		if len(r.Variants)+len(r.Twins)+len(r.Tests) == 0 {
			missing++
			t.Rows = append(t.Rows, []string{number, "nothing: " + r.Why, "-"})
		}
		t.Notes = append(t.Notes, fmt.Sprintf("%d: %s (%s).", r.Number, r.Title, r.Source))
	}
	t.Notes = append(t.Notes,
		fmt.Sprintf("%d incidents, %d of them not reproduced.", len(rows), missing),
		"twin: the gate of the incident refused what was honest. test: it lies below the public interface, and a test of that name shows it.")
	return t
}

// traceability returns the rows in which some variant or twin of the families is.
func traceability(fs []attacks.Family) ([]attacks.Row, error) {
	var designs []attacks.Design
	for _, m := range modes.All() {
		designs = append(designs, attacks.Design{ID: m.ID, Bindings: m.Bindings.List()})
	}
	rows, err := attacks.Trace(attacks.All(), designs)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(rows, func(r attacks.Row) bool {
		return !slices.ContainsFunc(slices.Concat(r.Cells[attacks.ColAttacks], r.Cells[attacks.ColTwins]), func(name string) bool {
			id, _, _ := strings.Cut(name, "/")
			return slices.ContainsFunc(fs, func(f attacks.Family) bool { return f.ID == id })
		})
	}), nil
}

func traceTable(rows []attacks.Row) export.Table {
	t := export.Table{
		Name: "traceability", Title: "Claims and what shows them", Names: 6, Fold: 72,
		Header: []string{"claim", "attacks", "twins", "blocked by", "let through by", "alerts"},
	}
	for _, r := range rows {
		name := fmt.Sprintf("%s %s", r.Kind, r.Name)
		join := func(c attacks.Column) string { return orDash(strings.Join(r.Cells[c], ", ")) }
		designs := func(c attacks.Column) string {
			return orDash(strings.Join(ids(r.Cells[c], func(cell string) string { id, _, _ := strings.Cut(cell, " "); return id }), " "))
		}
		t.Rows = append(t.Rows, []string{name, fmt.Sprint(len(r.Cells[attacks.ColAttacks])), fmt.Sprint(len(r.Cells[attacks.ColTwins])),
			designs(attacks.ColBlocked), designs(attacks.ColThrough), join(attacks.ColAlerts)})
		note := fmt.Sprintf("%s: %s. Tests: %s.", name, r.Text, join(attacks.ColTests))
		for _, c := range r.Kind.Columns() {
			if why := r.None[c]; why != "" {
				note += fmt.Sprintf(" No %s: %s.", c, why)
			}
		}
		t.Notes = append(t.Notes, note)
	}
	t.Notes = append(t.Notes, "Blocked by: all the attacks, in every scenario. Let through by: some attack, in some scenario. Both are predicted from the designs' bindings.")
	return t
}

func attackTable(a results.AttackInfo) export.Table {
	t := export.Table{
		Name: a.ID, Title: fmt.Sprintf("%s %s (main binding: %s)", a.ID, a.Title, a.MainBinding), Names: 5, Fold: 36,
		Header: []string{"variant", "kind", "stopped by", "uses", "source"},
	}
	for _, v := range a.Variants {
		t.Rows = append(t.Rows, []string{v.Name, string(v.Kind), orDash(v.Condition), orDash(strings.Join(v.Capabilities, ", ")), orDash(strings.Join(v.References, "; "))})
		t.Notes = append(t.Notes, v.Name+": "+v.Summary+".")
	}
	return t
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print version, commit and the Go version of this build",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m := results.NewManifest(nil, 0, time.Time{})
			state := "clean"
			if m.Dirty {
				state = "changed or unknown"
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "countersign %s\ncommit %s (tree: %s)\n%s %s/%s\n", m.Module, m.Commit, state, m.GoVersion, m.OS, m.Arch)
			return err
		},
	}
}
