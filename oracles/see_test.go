package oracles

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"countersign/gateway/api"
	"countersign/gateway/viewing"
)

func paid() api.View {
	return api.View{Suspension: "s-1", Title: "Pay", Fields: []api.ViewField{
		{Path: "/amount", Label: "Amount", Text: "1200"}, {Path: "/memo", Label: "Memo", Text: "Rent"}, {Path: "/to", Label: "Memo to", Text: "a@x.example"},
	}}
}

// printed puts a view together from strings, as some do.
func printed(v api.View, m api.Medium) string {
	head, format := v.Title+"\n", "%s: %s\n"
	switch m {
	case api.MediumMarkdown:
		head, format = "**"+v.Title+"**\n\n", "- **%s:** %s\n"
	case api.MediumPage:
		head, format = "<h1>"+v.Title+"</h1>", "<p><b>%s:</b> %s</p>"
	}
	var b strings.Builder
	b.WriteString(head)
	for _, f := range v.Fields {
		fmt.Fprintf(&b, format, f.Label, f.Text)
	}
	return b.String()
}

func TestSee(t *testing.T) {
	const honest, payload = "Rent", ", and all"
	for _, tt := range []struct {
		name   string
		medium api.Medium
		memo   string
		want   string // of the memo
	}{
		{"as it is", api.MediumText, honest, honest},
		{"markup is text in a message", api.MediumText, "<b>Rent</b> **x**", "<b>Rent</b> **x**"},
		{"a message goes on in the next line", api.MediumText, "Rent\nRoof", "Rent\nRoof"},
		{"controls are no matter of lines", api.MediumText, "Rent\x1b[8m", "Rent\x1b[8m"},

		{"concealed", api.MediumTerminal, honest + "\x1b[8m" + payload + "\x1b[m", honest + "         "},
		{"no longer concealed", api.MediumTerminal, "\x1b[8mx\x1b[28mRent", " Rent"},
		{"erased to the end of the line", api.MediumTerminal, honest + payload + "\x1b[11G\x1b[K", honest + strings.Repeat(" ", len(payload))},
		{"colour changes nothing", api.MediumTerminal, "\x1b[31mRent\x1b[0m", honest},
		{"row carried on", api.MediumTerminal, "Re\n    nt", honest},
		{"markup is text in a terminal", api.MediumTerminal, "<b>Rent</b>", "<b>Rent</b>"},

		{"emphasis", api.MediumMarkdown, "**Rent**", honest},
		{"link", api.MediumMarkdown, "[Rent](http://a.example)", honest},
		{"image", api.MediumMarkdown, "Rent![all](http://a.example)", honest},
		{"comment", api.MediumMarkdown, "Rent<!-- all -->", honest},
		{"hidden element", api.MediumMarkdown, "Rent<span hidden>all", honest},
		{"style", api.MediumMarkdown, `Rent<span style="Display : none">all</span>`, honest},
		{"style that hides nothing", api.MediumMarkdown, `Rent<span style="color:red"> all</span>`, "Rent all"},
		{"closed details", api.MediumMarkdown, "Rent<details>all</details>", honest},
		{"open details", api.MediumMarkdown, "Rent<details open>all</details>", "Rent\nall"},
		{"struck through is still read", api.MediumMarkdown, "~~Rent~~", honest},
		{"escaped", api.MediumMarkdown, `\*Rent\*`, "*Rent*"},
		{"soft break", api.MediumMarkdown, "Rent\n  Roof", "Rent Roof"},

		{"script", api.MediumPage, "Rent<script>all</script>", honest},
		{"comment on a page", api.MediumPage, "Rent<!-- all -->", honest},
		{"entity", api.MediumPage, "&lt;b&gt;Rent", "<b>Rent"},
		{"white space", api.MediumPage, "Rent \n\t Roof", "Rent Roof"},
		{"no-break spaces are no white space of HTML", api.MediumPage, "Rent&nbsp;&nbsp;Roof", "Rent\u00a0\u00a0Roof"},
		{"line break", api.MediumPage, "Rent<br>Roof", "Rent\nRoof"},
	} {
		v := paid()
		v.Fields[1].Text = tt.memo
		got, err := See(tt.medium, printed(v, tt.medium), v)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		want := paid()
		want.Fields[1].Text = tt.want
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: want -, seen +\n%s", tt.name, d)
		}
	}
	if _, err := See("smoke", "", paid()); err == nil {
		t.Error("smoke is a medium")
	}
}

// TestSeeOtherLines: a text can reach out of its line where nothing escapes it.
func TestSeeOtherLines(t *testing.T) {
	for _, tt := range []struct {
		name   string
		medium api.Medium
		memo   string
		want   []string // texts in the order of the lines, with their paths
	}{
		{"line of another field", api.MediumText, "Rent\nAmount: 5", []string{"/amount=1200", "/memo=Rent", "/amount=5", "/to=a@x.example"}},
		{"line of no field", api.MediumText, "Rent\nTotal: 5", []string{"/amount=1200", "/memo=Rent\nTotal: 5", "/to=a@x.example"}},
		{"note", api.MediumText, "Rent\n! Checked", []string{"/amount=1200", "/memo=Rent", "/to=a@x.example"}},
		{"cursor up and back", api.MediumTerminal, "Rent\x1b[s\x1b[1A\x1b[9G5\x1b[K\x1b[u", []string{"/amount=5   ", "/memo=Rent", "/to=a@x.example"}},
		{"cursor to a place", api.MediumTerminal, "Rent\x1b[2;9H77\x1b[3;11H", []string{"/amount=7700", "/memo=Rent", "/to=a@x.example"}},
		{"lines above and back", api.MediumTerminal, "Rent\x1b[1FAmount: 9\x1b[2d\x1b[3d\x1b[11G", []string{"/amount=9200", "/memo=Rent", "/to=a@x.example"}},
		{"what is below is written again", api.MediumTerminal, "Rent\x1b[1Bxx\x1b[1A", []string{"/amount=1200", "/memo=Rent", "/to=a@x.example"}},
		{"screen erased", api.MediumTerminal, "Rent\x1b[2J\x1b[HPay\x1b[2EMemo: x", []string{"/memo=x   ", "/to=a@x.example"}},
		{"erased above", api.MediumTerminal, "Rent\x1b[1A\x1b[1J\x1b[1B\x1b[11G", []string{"/memo=Rent", "/to=a@x.example"}},
		{"list item", api.MediumMarkdown, "Rent\n- **Amount:** 5", []string{"/amount=1200", "/memo=Rent", "/amount=5", "/to=a@x.example"}},
		{"end of the paragraph", api.MediumPage, "Rent</p><p><b>Amount:</b> 5", []string{"/amount=1200", "/memo=Rent", "/amount=5", "/to=a@x.example"}},
		{"comment over the rest", api.MediumPage, "Rent<!--", []string{"/amount=1200", "/memo=Rent"}},
	} {
		v := paid()
		v.Fields[1].Text = tt.memo
		seen, err := See(tt.medium, printed(v, tt.medium), v)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		var got []string
		for _, f := range seen.Fields {
			got = append(got, f.Path+"="+f.Text)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: seen are %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestSeeSameLabels: of two fields with one label, the first line is the first's.
func TestSeeSameLabels(t *testing.T) {
	v := api.View{Title: "Pay", Fields: []api.ViewField{{Path: "/a", Label: "Name", Text: "1"}, {Path: "/b", Label: "Name", Text: "2"}}}
	for _, m := range []api.Medium{api.MediumText, api.MediumTerminal, api.MediumMarkdown, api.MediumPage} {
		got, err := See(m, printed(v, m), v)
		if d := cmp.Diff(v, got); err != nil || d != "" {
			t.Errorf("%s: %v\n%s", m, err, d)
		}
	}
}

// TestSeeWhatWasEscaped: of a rendering that escapes, exactly the view is seen, in
// every medium, for any texts that a bound view can hold.
func TestSeeWhatWasEscaped(t *testing.T) {
	label := rapid.StringMatching(`[A-Z][a-z]{0,8}( [a-z]{1,8})?`)
	text := rapid.OneOf(rapid.StringMatching(`[!-~]{1,30}( [!-~]{1,30}){0,6}`), rapid.SampledFrom([]string{"⟨empty⟩", "⟨U+001B⟩[2J", "<!--", "[x](y)", "東京", "a: b"}))
	rapid.Check(t, func(t *rapid.T) {
		v := api.View{Title: text.Draw(t, "title"), Digest: "00"}
		used := map[string]bool{}
		for i := range rapid.IntRange(1, 5).Draw(t, "fields") {
			l := label.Draw(t, "label")
			if used[l] {
				continue
			}
			used[l] = true
			v.Fields = append(v.Fields, api.ViewField{Path: fmt.Sprint("/", i), Label: l, Text: text.Draw(t, "text")})
		}
		v.Notes = rapid.SliceOfN(text, 0, 2).Draw(t, "notes")
		for m, rendering := range viewing.All(v) {
			got, err := See(m, rendering, v)
			if err != nil {
				t.Fatal(err)
			}
			if len(v.Notes) == 0 {
				v.Notes = nil
			}
			if d := cmp.Diff(v, got); d != "" {
				t.Fatalf("%s: shown -, seen +\n%s\nin\n%s", m, d, rendering)
			}
		}
	})
}

func FuzzSee(f *testing.F) {
	for _, m := range []api.Medium{api.MediumText, api.MediumTerminal, api.MediumMarkdown, api.MediumPage} {
		f.Add(string(m), printed(paid(), m))
		f.Add(string(m), viewing.All(paid())[m])
	}
	f.Add("terminal", "Pay\nAmount: 1\x1b[s\x1b[99999999A\x1b[9999;9999H\x1b[1J\x1b[2Kx\x1b[u")
	f.Add("page", "<table><td><details><p>Amount: <b>1")
	f.Fuzz(func(t *testing.T, medium, rendering string) {
		v := paid()
		got, err := See(api.Medium(medium), rendering, v)
		if err != nil {
			return
		}
		for _, seen := range got.Fields {
			if !slices.ContainsFunc(v.Fields, func(f api.ViewField) bool { return f.Path == seen.Path && f.Label == seen.Label }) {
				t.Fatalf("%+v is no field of the view", seen)
			}
		}
	})
}
