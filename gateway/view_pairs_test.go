package gateway_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"countersign/gateway"
	"countersign/gateway/api"
	"countersign/gateway/canonical"
	"countersign/gateway/store"
	"countersign/gateway/viewing"
	"countersign/scenarios"
	"countersign/scenarios/provider"
)

// secretly puts a world into a scenario, with a key for secrets or without.
func secretly(t tb, mode string, sc *scenarios.Scenario, key []byte) *world {
	return newWorldWith(t, mode, store.NewMemory(), func(d *api.Deployment) {
		p, err := provider.New(provider.Config{Tools: sc.ToolTable(), Records: sc.Records, Reader: provider.Reader(sc.Reader), Clock: d.Clock})
		must(t, err)
		d.Tools, d.Provider, d.Directory, d.SecretKey = sc.ToolTable(), p, p, key
	})
}

// lookalikes are values of which some could be taken for others, by a person or by
// a renderer that escapes too little.
var lookalikes = []string{
	"אב 12", "12 אב", "김", "\u1100\u1175\u11b7", "\u91d1", "\uf90a", "Đ", "Ð", "æ", "ae", "ГПФ", "ΓΠΦ", "$5", "＄5", "ţ", "ț", "", " ", "a", "a ", " a", "A", "\u0430", "\u00e0", "a\u0300", "a\u200b", "a\u3164", "a\u2800", "a\x7f", "a,b", "a, b", "a, b… and 1 more", "a…",
	"⟨empty⟩", "⟨empty list⟩", "⟨U+0430⟩", "⟨U+27E8⟩", "•••• 6819", "aaaaaaaaaaaa6819", "baaaaaaaaaaa6819", "1", "1.0", "true", "null", `"a"`, `["a"]`,
	"<b>a</b>", "**a**", "a\n- b", "\x1b[8ma", strings.Repeat("a", 70), strings.Repeat("a", 70) + "b",
}

// lists are lists of which some could be taken for others.
var lists = [][]string{
	{}, {""}, {"⟨empty list⟩"}, {"a"}, {"a", ""}, {"a", "b"}, {"b", "a"}, {"a, b"}, {"a,b"}, {"a,", "b"}, {"a", "b", "c", "d"}, {"a", "b", "c", "x"}, {"a", "b", "c… and 1 more"},
}

func valueOf(t *rapid.T, f api.Field, honest json.RawMessage) json.RawMessage {
	if f.Default != "" && rapid.Bool().Draw(t, "default") {
		return json.RawMessage(f.Default)
	}
	texts := rapid.SampledFrom(append(slices.Clone(lookalikes), api.SecretText([]byte("key"), "a")))
	var v any
	switch f.Type {
	case api.TypeString:
		v = texts.Draw(t, f.Name)
	case api.TypeStrings:
		v = rapid.OneOf(rapid.SampledFrom(lists), rapid.SliceOfN(texts, 0, 5)).Draw(t, f.Name)
	case api.TypeInteger:
		v = rapid.Int64Range(-canonical.MaxInt, canonical.MaxInt).Draw(t, f.Name)
	case api.TypeNumber:
		v = rapid.Float64Range(-1e9, 1e9).Draw(t, f.Name)
	case api.TypeBoolean:
		v = rapid.Bool().Draw(t, f.Name)
	}
	if f.Reference != "" {
		return honest // an id of no record is refused
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// drawn is an action of a scenario that differs from the honest one in a field or
// in a few.
func drawn(t *rapid.T, sc *scenarios.Scenario, among []api.Field) api.Action {
	in := sc.Instance(uint64(rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(t, "seed")), 0)
	var args map[string]json.RawMessage
	if err := json.Unmarshal(in.Arguments, &args); err != nil {
		t.Fatal(err)
	}
	for _, f := range among {
		if rapid.IntRange(0, 3).Draw(t, "drop") == 0 && !f.Required {
			delete(args, f.Name)
		} else {
			args[f.Name] = valueOf(t, f, args[f.Name])
		}
	}
	body, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	return api.Action{
		Audience: rapid.SampledFrom([]string{sc.Audience, sc.Audience, sc.Audience, sc.Sibling}).Draw(t, "audience"),
		Tool:     rapid.SampledFrom([]string{in.Tool, in.Tool, in.Tool, sc.SiblingTool}).Draw(t, "tool"), Arguments: body,
		Run: "run-1", Step: "step-1", Call: "call-1",
	}
}

// TestDifferentActionsHaveDifferentViews: of two actions of a scenario that differ
// in service, tool, arguments or in what a reference means, the bound views differ,
// in their data, digest and in every medium, whether secrets are masked or not; of
// equal ones they are equal.
func TestDifferentActionsHaveDifferentViews(t *testing.T) {
	all := scenarios.All()
	type key struct {
		i      int
		masked bool
	}
	worlds := map[key]*world{}
	rapid.Check(t, func(rt *rapid.T) {
		k := key{rapid.IntRange(0, len(all)-1).Draw(rt, "scenario"), rapid.Bool().Draw(rt, "masked")}
		sc := all[k.i]
		if worlds[k] == nil {
			var secret []byte
			if k.masked {
				secret = []byte("key")
			}
			worlds[k] = secretly(t, "M9", sc, secret)
		}
		w := worlds[k]
		p := w.deployment.Provider.(*provider.World)
		kind, id := sc.Reference()
		// Both actions are drawn in the same fields, one mostly, so that little else
		// tells them apart.
		tool, _ := sc.Tool(sc.HonestTool)
		among := rapid.SliceOfN(rapid.SampledFrom(tool.Fields), 1, 2).Draw(rt, "among")
		see := func(name string) (string, api.View) {
			a := drawn(rt, sc, among)
			record := map[string]json.RawMessage{}
			if kind != "" {
				record = maps.Clone(sc.Records[kind][id])
				if rapid.IntRange(0, 3).Draw(rt, "drift") == 0 {
					maps.Copy(record, sc.Drift())
				}
				must(rt, p.SetRecord(kind, id, record))
			}
			pending, err := w.target.Propose(ctx, auth("agent-a"), a)
			var refused *api.RefusedError
			if errors.As(err, &refused) || errors.Is(err, api.ErrInvalid) || errors.Is(err, api.ErrNotFound) {
				rt.Skip("no action of this service")
			}
			must(rt, err)
			v, err := w.target.View(ctx, auth("approver-p"), pending.Suspension)
			must(rt, err)
			text, err := canonical.Canonical(json.RawMessage(a.Arguments))
			must(rt, err)
			meant, err := json.Marshal(record)
			must(rt, err)
			return fmt.Sprintf("%s %s %s %s", a.Audience, a.Tool, text, meant), v
		}
		a, v := see("first")
		b, u := see("second")
		same := a == b
		if got := cmp.Equal(v.Fields, u.Fields) && v.Title == u.Title; got != same {
			rt.Fatalf("%s\n%s\nviews are equal: %t\n%+v\n%+v", a, b, got, v.Fields, u.Fields)
		}
		if !same && v.Digest == u.Digest {
			rt.Fatalf("%s\n%s\nhave one digest", a, b)
		}
		for m := range v.Rendered {
			if got := v.Rendered[m] == u.Rendered[m]; got != same {
				rt.Fatalf("%s\n%s\nare rendered alike as %s: %t\n%s\n%s", a, b, m, got, v.Rendered[m], u.Rendered[m])
			}
		}
	})
}

// TestNoTwoValuesLookAlike holds every pair of values that could be taken for each
// other against each other: no two have one text in a bound view.
func TestNoTwoValuesLookAlike(t *testing.T) {
	w := newWorld(t, "M9")
	seen := map[string]string{}
	show := func(member string, value any) {
		args := map[string]any{"supplier": "s-1", "amount": 1, member: value}
		text, err := json.Marshal(args)
		must(t, err)
		a := w.action("pay", 1)
		a.Arguments = text
		v, err := w.target.View(ctx, auth("approver-p"), w.pending(a))
		must(t, err)
		shown := member + ": " + lines(v)["/"+member]
		if other, taken := seen[shown]; taken {
			t.Errorf("%s and %s are both shown as %s", text, other, shown)
		}
		seen[shown] = string(text)
	}
	for _, s := range lookalikes {
		show("memo", s)
	}
	for _, l := range lists {
		show("tags", l)
	}
}

func scenarioCalled(t tb, id string) *scenarios.Scenario {
	for _, sc := range scenarios.All() {
		if sc.ID == id {
			return sc
		}
	}
	t.Fatalf("there is no scenario %s", id)
	return nil
}

// lines maps the paths of a view to their texts.
func lines(v api.View) map[string]string {
	out := map[string]string{}
	for _, f := range v.Fields {
		out[f.Path] = f.Text
	}
	return out
}

// lines are the lines of a call's view.
func (w *world) lines(a api.Action) map[string]string {
	w.t.Helper()
	v, err := w.target.View(ctx, auth("approver-p"), w.pending(a))
	must(w.t, err)
	return lines(v)
}

// TestSecrets: a bound view shows a secret as its fingerprint, or whole where the
// deployment has no key; a summary shows the end of it.
func TestSecrets(t *testing.T) {
	const secret = "GB29NWBK60161331926819"
	sc := scenarioCalled(t, "payments")
	for _, tt := range []struct {
		mode string
		key  []byte
		want string
	}{
		{"M9", []byte("key"), api.SecretText([]byte("key"), secret)},
		{"M9", []byte("other"), api.SecretText([]byte("other"), secret)},
		{"M9", nil, secret},
		{"M3", []byte("key"), "•••• 6819"},
	} {
		w := secretly(t, tt.mode, sc, tt.key)
		id := w.pending(api.Action{Audience: sc.Audience, Tool: sc.HonestTool, Arguments: sc.Instance(1, 0).Arguments, Run: "r", Step: "s", Call: "c"})
		v, err := w.target.View(ctx, auth("approver-p"), id)
		must(t, err)
		if got := lines(v)["/memo"]; !strings.Contains(got, "BW-") {
			t.Errorf("%s masks what is no secret as %q", tt.mode, got)
		}
		if got := lines(v)["/from_account"]; got != tt.want {
			t.Errorf("%s with the key %q shows %q, want %q", tt.mode, tt.key, got, tt.want)
		}
		for m, rendering := range v.Rendered {
			if tt.key != nil && strings.Contains(rendering, "NWBK") {
				t.Errorf("%s: the secret is in the rendering as %s:\n%s", tt.mode, m, rendering)
			}
		}
	}
}

// TestSummaryOfListsAndSecrets: what products show of them.
func TestSummaryOfListsAndSecrets(t *testing.T) {
	w := newWorldWith(t, "M3", store.NewMemory(), func(d *api.Deployment) { d.Tools = secretMemo(d.Tools, "amount", "memo", "tags") })
	for _, tt := range []struct{ memo, tags, wantMemo, wantTags string }{
		{"123456789", `["a","b","c"]`, "•••• 6789", "a, b, c"},
		{"12345678", `["a","b","c","d"]`, "••••", "a, b, c… and 1 more"},
		{"", `[]`, "••••", ""},
		{"ключ-от-двери", `["a, b","c","d","e","f"]`, "•••• вери", "a, b, c, d… and 2 more"},
	} {
		a := w.action("pay", 1)
		a.Arguments = fmt.Appendf(nil, `{"supplier":"s-1","amount":1,"memo":%q,"tags":%s}`, tt.memo, tt.tags)
		if got := w.lines(a); got["/memo"] != tt.wantMemo || got["/tags"] != tt.wantTags {
			t.Errorf("%q and %s are shown as %q and %q", tt.memo, tt.tags, got["/memo"], got["/tags"])
		}
	}
}

// secretMemo makes the memo a secret, and puts fields into the summary.
func secretMemo(tools []api.Tool, summary ...string) []api.Tool {
	tools = slices.Clone(tools)
	for i := range tools {
		tools[i].Fields = slices.Clone(tools[i].Fields)
		for j := range tools[i].Fields {
			tools[i].Fields[j].Secret = tools[i].Fields[j].Name == "memo"
		}
		if tools[i].Class != api.ClassReference {
			tools[i].Summary = summary
		}
	}
	return tools
}

// TestSummaryOfWhatIsNotThere: a summary has no line for a value that was not given, and
// shows what is not of its type as it is.
func TestSummaryOfWhatIsNotThere(t *testing.T) {
	w := newWorldWith(t, "M3", store.NewMemory(), func(d *api.Deployment) { d.Tools = secretMemo(d.Tools, "memo", "tags") })
	for args, want := range map[string]map[string]string{
		`"amount":1`:                        {},
		`"amount":1,"memo":"GB33BUKB2020"`:  {"/memo": "•••• 2020"},
		`"amount":1,"memo":33442020`:        {"/memo": "33442020"},
		`"amount":1,"tags":["a","b","c",4]`: {"/tags": `["a","b","c",4]`},
	} {
		a := w.action("pay", 1)
		a.Arguments = []byte(`{"supplier":"s-1",` + args + `}`)
		if got := w.lines(a); !maps.Equal(got, want) {
			t.Errorf("%s is shown as %q, want %q", args, got, want)
		}
	}
}

// TestMedia: a design that binds the view escapes for each medium; another escapes
// on its page, and puts messages together from strings.
func TestMedia(t *testing.T) {
	const memo = "<i>**x**</i>\x1b[8m"
	for mode, want := range map[string]map[api.Medium]string{
		"M3": {
			api.MediumPage: "<p><b>Statement text:</b> &lt;i&gt;**x**&lt;/i&gt;\x1b[8m</p>\n", api.MediumText: "Statement text: " + memo + "\n",
			api.MediumTerminal: "Statement text: " + memo + "\n", api.MediumMarkdown: "- **Statement text:** " + memo + "\n",
		},
		"M9": {
			api.MediumPage: "<bdi dir=\"ltr\">&lt;i&gt;**x**&lt;/i&gt;⟨U&#43;001B⟩[8m</bdi>", api.MediumText: "Statement text: <i>**x**</i>⟨U+001B⟩[8m\n",
			api.MediumTerminal: "Statement text:\x1b[0m <i>**x**</i>⟨U+001B⟩[8m\n", api.MediumMarkdown: `- **Statement text\:** \<i\>\*\*x\*\*\<\/i\>⟨U\+001B⟩\[8m` + "\n",
		},
	} {
		w := newWorldWith(t, mode, store.NewMemory(), func(d *api.Deployment) {
			for i := range d.Tools {
				if d.Tools[i].Class != api.ClassReference {
					d.Tools[i].Summary = []string{"supplier", "amount", "memo"}
				}
			}
		})
		a := w.action("pay", 1)
		text, err := json.Marshal(map[string]any{"supplier": "s-1", "amount": 1, "memo": memo})
		must(t, err)
		a.Arguments = text
		v, err := w.target.View(ctx, auth("approver-p"), w.pending(a))
		must(t, err)
		if len(v.Rendered) != len(want) {
			t.Errorf("%s renders %d media, want %d", mode, len(v.Rendered), len(want))
		}
		for m, line := range want {
			if !strings.Contains(v.Rendered[m], line) {
				t.Errorf("%s as %s: %q is not in\n%q", mode, m, line, v.Rendered[m])
			}
		}
		if bare := v; mode == "M9" {
			bare.Assertion, bare.Rendered = nil, nil
			if d := cmp.Diff(viewing.All(bare), v.Rendered); d != "" {
				t.Error(d)
			}
		}
	}
}

// TestSecretText: of equal secrets and keys equal, of others not, and nothing of
// the secret is in it.
func TestSecretText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k1, k2 := rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(t, "k1"), rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(t, "k2")
		a, b := hostile().Draw(t, "a"), hostile().Draw(t, "b")
		x := api.SecretText(k1, a)
		// HMAC pads short keys with zeros: those are one key.
		sameKey := bytes.Equal(bytes.TrimRight(k1, "\x00"), bytes.TrimRight(k2, "\x00"))
		if (x == api.SecretText(k1, b)) != (a == b) || (x == api.SecretText(k2, a)) != sameKey {
			t.Fatalf("%+q %+q %x %x: %s %s %s", a, b, k1, k2, x, api.SecretText(k1, b), api.SecretText(k2, a))
		}
		if got := len("⟨secret 00000000-00000000-00000000⟩"); len(x) != got {
			t.Fatalf("%s has %d bytes, want %d", x, len(x), got)
		}
	})
	if x := api.SecretText([]byte("key"), "secret"); gateway.Visible(x) == x {
		t.Error("a value could be shown as the fingerprint of another")
	}
}
