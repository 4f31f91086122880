package report_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"countersign/report"
	"countersign/results"
)

// names are the texts of a run that come from outside.
type names struct {
	target, weak, attack, scenario, other, summary, condition, reference, detail, story string
}

var plain = names{"M9", "M4", "AB1", "payments", "mail", "the amount is raised", "args & (record | signed)", "https://example.org/rfc", "it stopped", "the worker presents the call"}

// makeRun writes a run of two targets, two attacks and a twin in two scenarios, with a
// disagreement, an error and a race, and reads it for a report.
func makeRun(t *testing.T, n names) *report.Data {
	t.Helper()
	c := results.Catalogue{
		Targets: []results.TargetInfo{
			{ID: n.target, Name: "bound", Bindings: []string{"args", n.condition}, ModelledOn: n.summary},
			{ID: n.weak, Name: n.summary, Bindings: []string{"signed"}, Group: n.summary},
		},
		Scenarios: []results.ScenarioInfo{{ID: n.scenario, Title: n.summary, Fields: map[string]string{"text": n.summary}, Guarantee: n.condition}, {ID: n.other, Title: "x"}},
		Attacks: []results.AttackInfo{{ID: n.attack, Title: n.summary, MainBinding: "args", Variants: []results.VariantInfo{
			{Name: n.summary, Summary: n.summary, Condition: n.condition, Kind: results.Attack, References: []string{n.reference, "RFC 1"}, Capabilities: []string{"queue", n.condition}, Success: []string{n.condition}},
			{Name: "second", Summary: "the second", Condition: "args", Kind: results.Attack},
			{Name: n.summary, Summary: n.summary, Kind: results.Twin, Effects: 1},
		}}},
		NotApplicable: []results.Skip{{Attack: n.attack, Variant: "second", Scenario: n.other, Reason: n.detail}},
	}
	m := results.NewManifest([]string{"countersign", n.summary}, 1, time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC))
	m.Inputs[n.scenario] = strings.Repeat("0", 64)
	m.Family = results.Family{Reference: n.target}
	dir := filepath.Join(t.TempDir(), "run")
	w, err := results.Create(dir, m, c)
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{n.target, n.weak} {
		for _, sc := range []string{n.scenario, n.other} {
			for _, v := range c.Attacks[0].Variants {
				if v.Name == "second" && sc == n.other {
					continue
				}
				r := results.Record{Schema: results.Schema, Target: target, Attack: n.attack, Variant: v.Name, Kind: v.Kind, Twin: v.Kind == results.Twin,
					Scenario: sc, Approver: "faithful", Seed: 1, Pair: v.Name + sc, RefusedBy: []string{}, Reasons: []string{}, RefusedCodes: []string{}}
				switch {
				case v.Kind == results.Twin:
					r.Predicted, r.Observed, r.Effects = results.PredictCompleted, results.Completed, 1
				case target == n.weak && v.Name == "second":
					r.Predicted, r.Observed, r.Detail = results.PredictBlocked, results.Error, n.detail
				case target == n.weak:
					r.Predicted, r.Observed, r.Effects, r.Reasons = results.PredictExecuted, results.Executed, 1, []string{"content:" + n.detail}
				case v.Name == "second":
					r.Predicted, r.Observed, r.Effects, r.Reasons = results.PredictBlocked, results.Executed, 1, []string{n.detail}
				default:
					r.Predicted, r.Observed, r.RefusedBy = results.PredictBlocked, results.Refused, []string{"args", n.condition}
					r.Nondeterministic = sc == n.other
				}
				if err := w.Append(r); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	r, err := results.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	d, err := report.Read(r, n.scenario)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func extras(t *testing.T, d *report.Data, n names, choice report.Choice) report.Extras {
	t.Helper()
	x := report.Extras{Name: n.summary, Choice: choice, Stories: map[string]report.Telling{}, Figures: []report.Picture{{Name: n.summary, Title: n.summary, SVG: []byte(`<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>`), Width: 9, Height: 9}, {Name: "x", Title: n.summary, Missing: n.detail}}, Program: n.summary,
		Sums:    strings.Repeat("0", 64) + "  " + n.condition + "\n",
		Methods: []byte("# Methods\n\n## Intervals\n\n<script>alert(1)</script> ![picture](https://example.org/x.png) [bad](javascript:alert(1)) [local](../README.md) <ftp://x.example/> [good](https://example.org/)\n\n| a | b |\n| - | - |\n| 1 | 2 |\n\n## Intervals\n\n" + n.story + "\n"),
		Words:   report.Words{Bindings: map[string]string{"args": n.summary, n.condition: "x"}, Capabilities: map[string]string{"queue": n.detail}, Reasons: map[string]string{"content": "x"}}}
	told, err := d.Told(choice)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range told {
		b := func(of report.Scope, text string) report.Block {
			return report.Block{Of: of, Text: text + " " + n.story, Lines: []string{n.story, n.detail}}
		}
		step := b(report.OfTrial, "It ends as "+string(r.Observed))
		step.Step, step.Hostile = 1, true
		x.Stories[report.Key(r)] = report.Telling{Story: report.Story{Title: n.story, Sections: []report.Section{
			{Heading: "The design", Blocks: []report.Block{b(report.OfTarget, "design"), b(report.OfScenario, "scenario"), b(report.OfVariant, "variant"), b(report.OfForecast, "forecast")}},
			{Heading: "What happened", Blocks: []report.Block{step}},
		}}}
	}
	return x
}

func write(t *testing.T, d *report.Data, x report.Extras) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := d.Write(&b, x); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func text(n *html.Node) string {
	var b strings.Builder
	for c := range n.Descendants() {
		if c.Type == html.TextNode {
			b.WriteString(c.Data)
		}
	}
	return b.String()
}

func inside(n *html.Node, element, class string) *html.Node {
	for a := range n.Ancestors() {
		if a.Data == element && slices.Contains(strings.Fields(attr(a, "class")), class) {
			return a
		}
	}
	return nil
}

// A page is a parsed report.
type page struct {
	elements []*html.Node
	ids      map[string]*html.Node
}

// elementsAllowed is all that a report is made of.
var elementsAllowed = strings.Fields(`html head meta title style body a header p h1 h2 h3 h4 h5 h6 span dl div dt dd nav ul ol li main section form fieldset legend
	label input select option button output table caption colgroup thead tbody tr th td b wbr details summary figure img figcaption footer script em strong code pre`)

// parse checks what holds of every report: ids are unique and links lead somewhere,
// nothing comes from elsewhere, headings are in order, tables have scopes, and
// nothing runs but the page's own style and script.
func parse(t *testing.T, data []byte) page {
	t.Helper()
	doc, err := html.Parse(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	p := page{ids: map[string]*html.Node{}}
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode {
			p.elements = append(p.elements, n)
			if id := attr(n, "id"); id != "" {
				if p.ids[id] != nil {
					t.Errorf("the id %q is there twice", id)
				}
				p.ids[id] = n
			}
		}
	}
	level, scripts, styles, tables := 0, 0, 0, 0
	policy := ""
	for _, n := range p.elements {
		if !slices.Contains(elementsAllowed, n.Data) {
			t.Errorf("there is an element %s", n.Data)
		}
		for _, a := range n.Attr {
			switch {
			case strings.HasPrefix(a.Key, "on"), a.Key == "style", a.Key == "srcset", a.Key == "action":
				t.Errorf("%s has the attribute %s=%q", n.Data, a.Key, a.Val)
			case a.Key == "href" && strings.HasPrefix(a.Val, "#"), a.Key == "aria-labelledby", a.Key == "for":
				if p.ids[strings.TrimPrefix(a.Val, "#")] == nil {
					t.Errorf("%s leads to %q, which is not there", n.Data, a.Val)
				}
			case a.Key == "href" && (n.Data != "a" || !strings.HasPrefix(a.Val, "https://")):
				t.Errorf("%s has the address %q", n.Data, a.Val)
			case a.Key == "src" && (n.Data != "img" || !strings.HasPrefix(a.Val, "data:image/svg+xml;base64,")):
				t.Errorf("%s has the source %q", n.Data, a.Val)
			}
		}
		switch n.Data {
		case "script":
			scripts++
			if n.FirstChild == nil || !strings.Contains(policy, "script-src '"+hash(n.FirstChild.Data)+"'") {
				t.Errorf("a script is not the one of the policy %q", policy)
			}
		case "style":
			styles++
			if !strings.Contains(policy, "style-src '"+hash(n.FirstChild.Data)+"'") {
				t.Errorf("a style is not the one of the policy %q", policy)
			}
		case "meta":
			if attr(n, "http-equiv") == "Content-Security-Policy" {
				policy = attr(n, "content")
			}
		case "img":
			if attr(n, "alt") == "" {
				t.Error("a picture has no text in its place")
			}
		case "table":
			tables++
		case "th":
			if attr(n, "scope") == "" {
				t.Errorf("the heading %q of a table has no scope", text(n))
			}
		case "tr":
			first := n.FirstChild
			for first != nil && first.Type != html.ElementNode {
				first = first.NextSibling
			}
			if first != nil && first.Data != "th" && n.Parent.Data == "tbody" && inside(n, "div", "doc") == nil { // Markdown has none
				t.Errorf("a row without a heading: %s", text(n))
			}
		case "details":
			c := n.FirstChild
			for c != nil && c.Type != html.ElementNode {
				c = c.NextSibling
			}
			if c == nil || c.Data != "summary" || strings.TrimSpace(text(c)) == "" {
				t.Error("something folded has no summary")
			}
		case "h1", "h2", "h3", "h4", "h5", "h6":
			now := int(n.Data[1] - '0')
			if now > level+1 {
				t.Errorf("after a heading of level %d comes %q of level %d", level, text(n), now)
			}
			level = now
		}
	}
	if !strings.HasPrefix(policy, "default-src 'none'; ") || strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") {
		t.Errorf("the policy is %q", policy)
	}
	if scripts != 1 || styles != 1 || tables < 5 {
		t.Errorf("there are %d scripts, %d styles, %d tables", scripts, styles, tables)
	}
	return p
}

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// TestEveryCountLeadsToAStory: two clicks from any count of the matrix to what
// happened, and on the way the variant's row says what was predicted and observed.
func TestEveryCountLeadsToAStory(t *testing.T) {
	d := makeRun(t, plain)
	p := parse(t, write(t, d, extras(t, d, plain, report.All)))
	first, second := 0, 0
	for _, n := range p.elements {
		if n.Data != "a" || n.Parent.Data != "td" || inside(n, "table", "grid") == nil {
			continue
		}
		at := p.ids[strings.TrimPrefix(attr(n, "href"), "#")]
		if inside(n, "details", "family") == nil {
			first++
			if at.Data != "th" || attr(at, "class") != strings.Fields(attr(n.Parent, "class"))[0] || inside(at, "details", "family") == nil {
				t.Errorf("%s leads to %s %q", attr(n, "aria-label"), at.Data, text(at))
			}
			continue
		}
		second++
		if inside(at, "details", "story") == nil || !strings.Contains(text(at), "What happened") {
			t.Errorf("%s leads to %s %q", attr(n, "aria-label"), at.Data, text(at))
		}
	}
	if first != 2 || second != 6 {
		t.Errorf("%d counts in the matrix and %d in the family, want 2 and 6", first, second)
	}
	for label, want := range map[string]string{
		"M9 bound, AB1 the amount is raised: 1/2 attack variants executed": "1/2",
		"M9, the amount is raised: executed in 0/2 scenarios":              "0/2",
		"M9, second: executed in 1/1 scenarios":                            "1/1",
		"M4, second: executed in – scenarios":                              "–",
		"M9, the amount is raised: completed in 2/2 scenarios":             "2/2",
	} {
		i := slices.IndexFunc(p.elements, func(n *html.Node) bool { return attr(n, "aria-label") == label })
		if i < 0 || text(p.elements[i]) != want {
			t.Errorf("there is no %q that says %s", label, want)
		}
	}
	marks := ""
	for _, n := range p.elements {
		if attr(n, "class") == "mark" && n.Parent.Data == "td" && inside(n, "details", "family") == nil {
			marks += text(n) + "; "
		}
	}
	if marks != "≠1 ~1; ?1; ~1; ?1; " {
		t.Errorf("the marks of the matrix are %q", marks)
	}
	i := slices.IndexFunc(p.elements, func(n *html.Node) bool { return n.Data == "h2" })
	j := slices.IndexFunc(p.elements, func(n *html.Node) bool { return attr(n, "class") == "verdict alarm" })
	if text(p.elements[i]) != "Disagreements" || j < 0 || !strings.Contains(text(p.elements[j]), "1 of 9 trials contradict") {
		t.Error("the report does not begin with the disagreement")
	}
}

// TestChoices: which stories are told, and the page is whole with any of them.
func TestChoices(t *testing.T) {
	d := makeRun(t, plain)
	for choice, want := range map[report.Choice]string{
		report.All:       "M9 AB1/the amount is raised payments, M9 AB1/the amount is raised mail, M4 AB1/the amount is raised payments, M9 AB1/second payments, M4 AB1/second payments, M9 AB1/the amount is raised payments, M4 AB1/the amount is raised payments",
		report.Reference: "M9 AB1/the amount is raised payments, M9 AB1/the amount is raised mail, M9 AB1/second payments, M9 AB1/the amount is raised payments",
		report.None:      "",
	} {
		told, err := d.Told(choice)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range told {
			got = append(got, r.Name())
		}
		if s := strings.Join(got, ", "); s != want {
			t.Errorf("%s: %s\nwant %s", choice, s, want)
		}
		p := parse(t, write(t, d, extras(t, d, plain, choice)))
		stories := 0
		for _, n := range p.elements {
			if attr(n, "class") == "story" {
				stories++
			}
		}
		if (stories > 0) != (choice != report.None) {
			t.Errorf("%s: the page has %d stories", choice, stories)
		}
	}
	if _, err := d.Told("some"); err == nil {
		t.Error("a choice that is none is taken")
	}
}

// TestUntoldAndDifferent: a trial that cannot be told, and one that came out
// otherwise, are said to be.
func TestUntoldAndDifferent(t *testing.T) {
	d := makeRun(t, plain)
	x := extras(t, d, plain, report.All)
	keys := slices.Sorted(maps.Keys(x.Stories))
	x.Stories[keys[0]] = report.Telling{Missing: "nobody remembers"}
	s := x.Stories[keys[1]]
	s.Differs = "observed was refused and is executed"
	x.Stories[keys[1]] = s
	p := parse(t, write(t, d, x))
	all := text(p.ids["main"])
	for _, want := range []string{"Not told, because nobody remembers", "observed was refused and is executed. The program", "1 trial, made again for this report, came out differently"} {
		if !strings.Contains(all, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

// TestSameBytes: one run, one page.
func TestSameBytes(t *testing.T) {
	d := makeRun(t, plain)
	want := write(t, d, extras(t, d, plain, report.All))
	for range 5 {
		if !bytes.Equal(write(t, d, extras(t, d, plain, report.All)), want) {
			t.Fatal("the same run gives another page")
		}
	}
}

// TestHostileRun: whatever the names and texts of a run hold is text on the page, and
// bounded.
func TestHostileRun(t *testing.T) {
	const script, bidi = `</title></style></script><script>alert(1)</script><img src=x onerror="alert(1)">`, "a\u202Eb\u2066c\u200Bd\x1b[31m"
	n := names{`M9"><svg onload=alert(1)>`, "M4' onmouseover='alert(1)", "AB1" + script, "payments" + bidi, "mail" + script, script + bidi, "args & " + bidi + script,
		"https://example.org/\"><script>alert(1)</script>", strings.Repeat("W", 100_000), script + bidi + "\u2028"}
	d := makeRun(t, n)
	x := extras(t, d, n, report.All)
	data := write(t, d, x)
	p := parse(t, data)
	for _, r := range "\u202E\u2066\u200B\x1b\u2028" {
		if bytes.ContainsRune(data, r) {
			t.Errorf("the page holds the character %U", r)
		}
	}
	if bytes.Contains(data, []byte(strings.Repeat("W", 2001))) || !bytes.Contains(data, []byte("… and 98000 more characters")) {
		t.Error("a long text is not cut, or does not say so")
	}
	if all := text(p.ids["main"]); strings.Count(all, "<script>alert(1)</script>") < 20 || !strings.Contains(all, "⟨U+202E⟩") {
		t.Error("hostile texts are not shown as they are")
	}
	for _, n := range p.elements {
		if n.Data == "a" && strings.HasPrefix(attr(n, "href"), "https:") && attr(n, "rel") != "noreferrer noopener" && inside(n, "div", "doc") == nil {
			t.Errorf("the link %s tells where it comes from", attr(n, "href"))
		}
	}
	if len(data) > 2<<20 {
		t.Errorf("the page has %d bytes", len(data))
	}
}
