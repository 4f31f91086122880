package oracles

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"countersign/gateway/api"
)

func payment() (api.View, Want) {
	v := api.View{
		Title: "Pay supplier",
		Fields: []api.ViewField{
			{Path: "#audience", Label: "Service", Text: "payments"},
			{Path: "#tool", Label: "Tool", Text: "pay"},
			{Path: "#agent", Label: "Agent", Text: "agent-1"},
			{Path: "/amount", Label: "Amount", Text: "125000"},
			{Path: "/memo", Label: "Memo", Text: "Invoice 42, Brightwater mains"},
			{Path: "/supplier_id>account", Label: "Account", Text: "DE12 3456"},
			{Path: "/note", Label: "Note", Text: "whatever"},
		},
	}
	w := Want{
		Title: "Pay supplier", Audience: "payments", Tool: "pay",
		Values: map[string]string{
			"/amount": "125000", "/memo": "Invoice 42, Brightwater mains", "/supplier_id>account": "DE12 3456",
			"/unseen": "not shown, so not missed",
		},
		Free: map[string]bool{"/note": true},
	}
	return v, w
}

func TestFaithful(t *testing.T) {
	set := func(path, text string) func(*api.View, *Want) {
		return func(v *api.View, _ *Want) {
			for i := range v.Fields {
				if v.Fields[i].Path == path {
					v.Fields[i].Text = text
				}
			}
		}
	}
	add := func(path, text string) func(*api.View, *Want) {
		return func(v *api.View, _ *Want) {
			v.Fields = append(v.Fields, api.ViewField{Path: path, Label: "Added", Text: text})
		}
	}
	want := func(path, value string) func(*api.View, *Want) {
		return func(_ *api.View, w *Want) { w.Values[path] = value }
	}
	both := func(fs ...func(*api.View, *Want)) func(*api.View, *Want) {
		return func(v *api.View, w *Want) {
			for _, f := range fs {
				f(v, w)
			}
		}
	}
	mask := func(path, text string) func(*api.View, *Want) {
		return func(_ *api.View, w *Want) { w.Masks = map[string]string{path: text} }
	}
	pad := strings.Repeat(" ", 60)
	tests := []struct {
		name string
		edit func(*api.View, *Want)
		why  string // in the reason for declining; empty to approve
	}{
		{"as wanted", func(*api.View, *Want) {}, ""},
		{"amount", set("/amount", "925000"), "Amount (/amount)"},
		{"account", set("/supplier_id>account", "DE12 3457"), "Account"},
		{"title", func(v *api.View, _ *Want) { v.Title = "Pay anyone" }, "title"},
		{"title not minded", func(v *api.View, w *Want) { v.Title, w.Title = "Pay anyone", "" }, ""},
		{"tool", set("#tool", "pay_all"), "#tool"},
		{"tool not minded", both(set("#tool", "pay_all"), func(_ *api.View, w *Want) { w.Tool = "" }), ""},
		{"service", set("#audience", "staging"), "#audience"},
		{"service not minded", both(set("#audience", "staging"), func(_ *api.View, w *Want) { w.Audience = "" }), ""},
		{"other line", set("#agent", "agent-2"), ""},
		{"line that the want has a value for", both(add("#until", "noon"), want("#until", "midnight")), "#until"},
		{"calls of the run, as asked for", both(add("#uses", "3"), want("#uses", "3")), ""},
		{"calls of the run, more than asked for", both(add("#uses", "30"), want("#uses", "3")), "#uses"},
		{"calls of the run, not asked for", add("#uses", "3"), "was not wanted"},
		{"free value", set("/note", "anything"), ""},
		{"unknown value", add("/urgent", "true"), "was not wanted"},
		{"path of no kind", add("urgent", "true"), "was not wanted"},
		{"value missing", func(v *api.View, _ *Want) { v.Fields = v.Fields[:4] }, ""},
		{"value shown twice, once wrong", add("/amount", "1"), "Added (/amount)"},
		{"empty view", func(v *api.View, _ *Want) { v.Fields = nil }, "no value"},
		{"note decides nothing", func(v *api.View, _ *Want) { v.Notes = []string{"beware"} }, ""},

		// What it cannot see.
		{"override", set("/supplier_id>account", "\u202e6543 21ED\u202c"), ""},
		{"zero width", set("/amount", "125\u200b000"), ""},
		{"variation selector", set("/amount", "125000\U000e0100"), ""},
		{"Cyrillic", set("/memo", "Inv\u043eice 42, Brightwater m\u0430ins"), ""},
		{"padding", set("/memo", "Invoice 42,"+pad+"Brightwater mains"), ""},
		{"concealed by the terminal", set("/amount", "125000\x1b[8m000\x1b[0m"), ""},

		{"masked, the same end", set("/supplier_id>account", "•••• 3456"), ""},
		{"list cut, the same beginning", both(set("/memo", "a, b… and 2 more"), want("/memo", "a, b, c, d")), ""},

		// What it can.
		{"payload in sight", set("/memo", "Invoice 42, Brightwater mains"+pad+"and all others"), "Memo"},
		{"override, marked", set("/supplier_id>account", "⟨U+202E⟩6543 21ED⟨U+202C⟩"), "Account"},
		{"zero width, marked", set("/amount", "125⟨U+200B⟩000"), "Amount"},
		{"variation selector, marked", set("/amount", "125000⟨U+E0100⟩"), "Amount"},
		{"Cyrillic, marked", set("/memo", "Inv⟨U+043E⟩ice 42, Brightwater mains"), "Memo"},
		{"markdown", set("/memo", "**Invoice 42, Brightwater mains**"), "Memo"},
		{"masked, another end", set("/supplier_id>account", "•••• 3457"), "Account"},
		{"fingerprint, nothing to compare", set("/supplier_id>account", "⟨secret 1-2-3⟩"), "Account"},
		{"another fingerprint than told", both(set("/memo", "⟨secret 1-2-4⟩"), mask("/memo", "⟨secret 1-2-3⟩")), "Memo"},
		{"list cut, another element", both(set("/memo", "a, x… and 2 more"), want("/memo", "a, b, c, d")), "Memo"},
		{"list cut, one more", both(set("/memo", "a, b… and 3 more"), want("/memo", "a, b, c, d")), "Memo"},
		{"list cut, one less", both(set("/memo", "a, b… and 1 more"), want("/memo", "a, b, c, d")), "Memo"},
		{"list cut, nothing wanted is shown", both(set("/memo", "a… and 9 more"), want("/memo", "a, b")), "Memo"},
		{"list that says more and is whole", both(set("/memo", "a, b and 2 more"), want("/memo", "a, b, c, d")), "Memo"},

		// Marked characters that are wanted.
		{"wanted line break, marked", both(set("/memo", "a⟨U+000A⟩b"), want("/memo", "a\nb")), ""},
		{"wanted mark, marked", both(set("/memo", "⟨U+27E8⟩U+0041⟨U+27E9⟩"), want("/memo", "⟨U+0041⟩")), ""},
		{"nothing wanted, marked empty", both(set("/memo", "⟨empty⟩"), want("/memo", "")), ""},
		{"no element wanted, marked empty", both(set("/memo", "⟨empty list⟩"), want("/memo", "")), ""},
		{"something wanted, marked empty", set("/memo", "⟨empty⟩"), "Memo"},
		{"nothing wanted, something shown", want("/memo", ""), "Memo"},
		{"other mark than wanted", both(set("/memo", "a⟨U+000B⟩b"), want("/memo", "a\nb")), "Memo"},
		{"mark of no character", both(set("/memo", "a⟨U+D800⟩"), want("/memo", "a\ufffd")), "Memo"},
		{"marked and cut", both(set("/memo", "a⟨U+000A⟩…"), want("/memo", "a\nbc")), ""},

		{"fingerprint as told", both(set("/memo", "⟨secret 1-2-3⟩"), mask("/memo", "⟨secret 1-2-3⟩")), ""},

		// Cut texts.
		{"cut", set("/memo", "Invoice 42, Bri…"), ""},
		{"cut at a space", set("/memo", "Invoice 42, …"), ""},
		{"cut, payload behind padding", set("/memo", "Invoice 42, Brightwater mains"+pad+"…"), ""},
		{"cut, beginning differs", set("/memo", "Invoice 43…"), "Memo"},
		{"cut, more than wanted", set("/memo", "Invoice 42, Brightwater mains and oth…"), "Memo"},
		{"nothing but the cut", set("/memo", " …"), "Memo"},
		{"ellipsis is wanted", both(set("/memo", "and so on…"), want("/memo", "and so on…")), ""},
		{"ellipsis in the middle is not a cut", set("/memo", "Invoice 42…mains"), "Memo"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			v, w := payment()
			tc.edit(&v, &w)
			r := faithful{}.Decide(v, Intent{Wants: []Want{w}})
			if (r.Verdict == api.Approve) != (tc.why == "") || !strings.Contains(r.Why, tc.why) || r.Why == "" {
				t.Errorf("%s: %s, want reason %q", r.Verdict, r.Why, tc.why)
			}
		})
	}
}

func TestFaithfulSeveralWants(t *testing.T) {
	v, w := payment()
	_, other := payment()
	other.Values["/amount"] = "1"
	if r := (faithful{}).Decide(v, Intent{Wants: []Want{other, w}}); r.Verdict != api.Approve {
		t.Errorf("declined although one want agrees: %s", r.Why)
	}
	// Values of two wants do not add up to one.
	v.Fields[3].Text = "1"
	w.Values["/memo"], other.Values["/memo"] = v.Fields[4].Text, "something else"
	r := faithful{}.Decide(v, Intent{Wants: []Want{w, other}})
	if r.Verdict != api.Decline || !strings.Contains(r.Why, "Memo") {
		t.Errorf("%s: %s, want a decline that names the memo, where the nearest want differs", r.Verdict, r.Why)
	}
	if r := (faithful{}).Decide(v, Intent{}); r.Verdict != api.Decline || r.Why == "" {
		t.Errorf("%+v without any want, want a decline and a reason", r)
	}
	if r := (faithful{}).Decide(v, Intent{Wants: []Want{{}}}); r.Verdict != api.Decline {
		t.Error("approved for a want without values")
	}
}

// A view that shows a wanted action whole is approved, and one in which any shown
// value looks different is declined.
func TestFaithfulLaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.MapOfN(rapid.StringMatching(`/[a-z]{1,3}`), hostile, 1, 5).Draw(t, "values")
		var v api.View
		var paths []string
		for path, text := range values {
			v.Fields = append(v.Fields, api.ViewField{Path: path, Label: path, Text: text})
			paths = append(paths, path)
		}
		in := Intent{Wants: []Want{{Values: values}}}
		if r := (faithful{}).Decide(v, in); r.Verdict != api.Approve {
			t.Fatalf("declined what is wanted: %s", r.Why)
		}
		i := rapid.IntRange(0, len(paths)-1).Draw(t, "changed")
		text := hostile.Draw(t, "text")
		if Appearance(text) == Appearance(v.Fields[i].Text) || strings.HasSuffix(text, "…") || strings.Contains(text, "⟨") {
			t.Skip("looks the same, or shows a part only")
		}
		v.Fields[i].Text = text
		if r := (faithful{}).Decide(v, in); r.Verdict != api.Decline {
			t.Fatalf("approved %+q, wanted %+q", text, values[v.Fields[i].Path])
		}
	})
}

// A text in which every character is marked agrees with its own value alone.
func TestMarkedTextIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value, other := rapid.StringN(1, 8, -1).Draw(t, "value"), rapid.StringN(1, 8, -1).Draw(t, "other")
		var b strings.Builder
		for _, r := range value {
			fmt.Fprintf(&b, "⟨U+%04X⟩", r)
		}
		if !agrees(b.String(), value) {
			t.Fatalf("%+q does not agree with %s", value, &b)
		}
		if value != other && agrees(b.String(), other) {
			t.Fatalf("%+q agrees with %s", other, &b)
		}
	})
}

func TestCharacters(t *testing.T) {
	v := api.View{
		Title:  "Pay\u200b",                                                        // 3
		Fields: []api.ViewField{{Path: "/m", Label: "Memo", Text: "a \u202e \nb"}}, // 4 + 3
		Notes:  []string{"note"},                                                   // 4
	}
	for name, want := range map[string]int{"faithful": 14, "never": 0, "rubber-stamp": 0} {
		a, ok := Named(name)
		if !ok {
			t.Fatalf("no approver is called %q", name)
		}
		if got := a.Decide(v, Intent{Wants: []Want{{}}}).Characters; got != want {
			t.Errorf("%s read %d characters, want %d", name, got, want)
		}
	}
}

func TestConstantApprovers(t *testing.T) {
	v, w := payment()
	v.Fields[3].Text = "999"
	in := Intent{Wants: []Want{w}}
	for name, want := range map[string]api.Verdict{"never": api.Decline, "rubber-stamp": api.Approve} {
		a, _ := Named(name)
		if r := a.Decide(v, in); r.Verdict != want || r.Why == "" {
			t.Errorf("%s: %+v, want %s and a reason", name, r, want)
		}
	}
}

func TestRegistry(t *testing.T) {
	all := All()
	if len(all) < 3 {
		t.Fatalf("%d approvers, want at least 3", len(all))
	}
	for i, a := range all {
		if i > 0 && all[i-1].Name() >= a.Name() {
			t.Errorf("%q is listed before %q", all[i-1].Name(), a.Name())
		}
		if got, ok := Named(a.Name()); !ok || got != a {
			t.Errorf("Named(%q) = %v, %t", a.Name(), got, ok)
		}
		if file := strings.ReplaceAll(a.Name(), "-", "_") + ".go"; !exists(file) {
			t.Errorf("approver %q has no file %s", a.Name(), file)
		}
	}
	if _, ok := Named("nobody"); ok {
		t.Error("found an approver called nobody")
	}
	defer func() {
		if recover() == nil {
			t.Error("a name was registered twice")
		}
	}()
	register(never{})
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
