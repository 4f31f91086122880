package gateway_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"pgregory.net/rapid"

	"countersign/gateway"
	"countersign/gateway/api"
	"countersign/gateway/canonical"
	"countersign/gateway/store"
)

func TestVisible(t *testing.T) {
	for in, want := range map[string]string{
		"":                      "⟨empty⟩",
		"Brightwater Ltd, 12%":  "Brightwater Ltd, 12%",
		"Zoë Müller — Łódź":     "Zoë Müller ⟨U+2014⟩ Łódź",
		"£5 €6":                 "£5 €6",
		" a":                    "⟨U+0020⟩a",
		"a ":                    "a⟨U+0020⟩",
		"a  b":                  "a ⟨U+0020⟩b",
		" ":                     "⟨U+0020⟩",
		"a\tb\n":                "a⟨U+0009⟩b⟨U+000A⟩",
		"a\u00a0b":              "a⟨U+00A0⟩b",
		"a\u200bb":              "a⟨U+200B⟩b",
		"\u202egnp":             "⟨U+202E⟩gnp",
		"\u2066x\u2069":         "⟨U+2066⟩x⟨U+2069⟩",
		"\ufeffx":               "⟨U+FEFF⟩x",
		"e\u0301":               "e⟨U+0301⟩",
		"é":                     "é",
		"\x7f":                  "⟨U+007F⟩",
		"\u0085":                "⟨U+0085⟩",
		"a…":                    "a⟨U+2026⟩",
		"⟨U+0041⟩":              "⟨U+27E8⟩U+0041⟨U+27E9⟩",
		"⟨empty⟩":               "⟨U+27E8⟩empty⟨U+27E9⟩",
		"\xff":                  "⟨0xFF⟩",
		"\ufffd":                "⟨U+FFFD⟩",
		"pаypal":                "p⟨U+0430⟩ypal", // Cyrillic а
		"раураl":                "⟨U+0440⟩⟨U+0430⟩⟨U+0443⟩⟨U+0440⟩⟨U+0430⟩l",
		"сосо":                  "⟨U+0441⟩⟨U+043E⟩⟨U+0441⟩⟨U+043E⟩", // whole-script
		"Москва":                "Москва",
		"東京":                    "東京",
		"Αθήνα Москва":          "⟨U+0391⟩⟨U+03B8⟩⟨U+03AE⟩⟨U+03BD⟩⟨U+03B1⟩ ⟨U+041C⟩⟨U+043E⟩⟨U+0441⟩⟨U+043A⟩⟨U+0432⟩⟨U+0430⟩",
		"１２":                    "⟨U+FF11⟩⟨U+FF12⟩", // full-width digits
		"٣":                     "⟨U+0663⟩",
		"ı":                     "⟨U+0131⟩", // dotless i
		"a⁄b":                   "a⟨U+2044⟩b",
		"\U000e0041":            "⟨U+E0041⟩",
		"\U0001f600":            "⟨U+1F600⟩",
		"a\u0000b":              "a⟨U+0000⟩b",
		"\u3164":                "⟨U+3164⟩", // a filler: a letter that nobody sees
		"서울\u115f":              "서울⟨U+115F⟩",
		"אב:":                   "אב:",
		"شارع 12":               "شارع⟨U+0020⟩12", // Arabic letters have a class of their own
		"Ж é€ 5":                "⟨U+0416⟩ é€ 5",  // what a foreign letter is mixed with stays
		"Café in Bern, 10 % m²": "Café in Bern, 10 % m⟨U+00B2⟩",
		"א \u200b1":             "א ⟨U+200B⟩1", // the mark keeps the digit in its place
	} {
		if got := gateway.Visible(in); got != want {
			t.Errorf("Visible(%+q) = %q, want %q", in, got, want)
		}
		if back, err := read(gateway.Visible(in)); err != nil || back != in {
			t.Errorf("Visible(%+q) reads back as %+q, %v", in, back, err)
		}
	}
}

// read decodes a text by the rules of api.ViewField.
func read(text string) (string, error) {
	if text == "⟨empty⟩" {
		return "", nil
	}
	var out strings.Builder
	for text != "" {
		r := []rune(text)[0]
		switch r {
		case '⟨':
			end := strings.IndexRune(text, '⟩')
			if end < 0 {
				return "", fmt.Errorf("no end of a mark in %q", text)
			}
			mark := text[len("⟨"):end]
			text = text[end+len("⟩"):]
			if hex, ok := strings.CutPrefix(mark, "U+"); ok {
				n, err := strconv.ParseUint(hex, 16, 32)
				if err != nil {
					return "", err
				}
				out.WriteRune(rune(n))
			} else if hex, ok := strings.CutPrefix(mark, "0x"); ok {
				n, err := strconv.ParseUint(hex, 16, 8)
				if err != nil {
					return "", err
				}
				out.WriteByte(byte(n))
			} else {
				return "", fmt.Errorf("mark %q", mark)
			}
		case '⟩', '…':
			return "", fmt.Errorf("%q stands for itself", r)
		default:
			out.WriteRune(r)
			text = text[len(string(r)):]
		}
	}
	return out.String(), nil
}

// hostile draws strings of the characters that make trouble.
func hostile() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.String(),
		rapid.StringOf(rapid.SampledFrom([]rune("aA1 ,…⟨⟩U+0041\t\n\u00a0\u200b\u200d\u202e\u2066\u0301\u0430\u0435\u03bf東é\ufeff\U000e0041\U0001f600\ufffd\u2028"))),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 12), func(b []byte) string { return string(b) }),
	)
}

// TestVisibleLaws: the text determines the string, and shows no character that a
// reader cannot see.
func TestVisibleLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := hostile().Draw(t, "s")
		text := gateway.Visible(s)
		if back, err := read(text); err != nil || back != s {
			t.Fatalf("%+q is shown as %q and read as %+q, %v", s, text, back, err)
		}
		for _, r := range text {
			if !unicode.IsPrint(r) || unicode.IsMark(r) || unicode.Is(unicode.Bidi_Control, r) || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) {
				t.Fatalf("%+q is shown as %+q, with %U in it", s, text, r)
			}
		}
		if strings.HasPrefix(text, " ") || strings.HasSuffix(text, " ") || strings.Contains(text, "  ") {
			t.Fatalf("%+q is shown as %q: spaces that cannot be counted", s, text)
		}
	})
}

// TestViewShowsAll: a bound view has a line for each value that is acted on, and
// each reads back as that value; a list's elements can be told apart.
func TestViewShowsAll(t *testing.T) {
	w := newWorld(t, "M9")
	rapid.Check(t, func(rt *rapid.T) {
		text := hostile().Filter(valid).Draw(rt, "memo")
		tags := rapid.SliceOfN(hostile().Filter(valid), 0, 3).Draw(rt, "tags")
		amount := rapid.Int64Range(-canonical.MaxInt, canonical.MaxInt).Draw(rt, "amount")
		args, err := json.Marshal(map[string]any{"supplier": "s-1", "amount": amount, "memo": text, "tags": tags})
		if err != nil {
			rt.Fatal(err)
		}
		a := w.action("pay", 1)
		a.Arguments = args
		p, err := w.target.Propose(ctx, auth("agent-a"), a)
		if strings.HasPrefix(fmt.Sprint(err), "refused by strict/") {
			rt.Skip("not a strict text")
		}
		if err != nil {
			rt.Fatal(err)
		}
		v, err := w.target.View(ctx, auth("approver-p"), p.Suspension)
		if err != nil {
			rt.Fatal(err)
		}
		lines := map[string][]string{}
		for _, f := range v.Fields {
			lines[f.Path] = append(lines[f.Path], f.Text)
		}
		for path, want := range map[string]string{
			"/supplier": "s-1", "/supplier>account": "GB33BUKB20201555555555", "/supplier>name": "Brightwater", "/amount": strconv.FormatInt(amount, 10),
			"/memo": text, "/check": "skip", "#audience": "bank.example", "#tool": "pay", "#agent": "agent-a", "#requester": "requester-r",
		} {
			if len(lines[path]) != 1 {
				rt.Fatalf("%s has lines %q", path, lines[path])
			}
			if got, err := read(lines[path][0]); err != nil || got != want {
				rt.Fatalf("%s is shown as %q and read as %q, %v; want %q", path, lines[path][0], got, err, want)
			}
		}
		got := []string{}
		if list := lines["/tags"][0]; list != "⟨empty list⟩" {
			for _, part := range strings.Split(list, ", ") {
				e, err := read(part)
				if err != nil {
					rt.Fatal(err)
				}
				got = append(got, e)
			}
		}
		if !slices.Equal(got, tags) {
			rt.Fatalf("tags %q are shown as %q", tags, lines["/tags"])
		}
	})
}

func valid(s string) bool { return strings.ToValidUTF8(s, "") == s }

// TestViewIsBound: what is shown is what the digest, the envelope and so the
// passkey's signature stand for.
func TestViewIsBound(t *testing.T) {
	w := newWorld(t, "M9")
	a := w.action("pay", 1)
	id := w.pending(a)
	v, err := w.target.View(ctx, auth("approver-p"), id)
	must(t, err)
	bare := v
	bare.Digest, bare.Assertion, bare.Rendered = "", nil, nil
	text, err := canonical.Canonical(bare)
	must(t, err)
	if v.Digest == "" || v.Digest != canonical.Digest(text) {
		t.Errorf("digest %s of a view that digests to %s", v.Digest, canonical.Digest(text))
	}
	must(t, w.decide(id, "approver-p", api.Approve))
	var e struct {
		View string `json:"view_sha256"`
		Args string `json:"args_sha256"`
		Text string `json:"arguments"`
	}
	d := w.collect(a, id)
	payload := strings.Split(d.Carried.Permit, ".")[1]
	must(t, json.Unmarshal(unbase64(t, payload), &e))
	if e.View != v.Digest || e.Args != canonical.Digest([]byte(e.Text)) || e.Text != `{"amount":1,"memo":"invoice","supplier":"s-1"}` {
		t.Errorf("the envelope stands for %+v", e)
	}
	if again, err := w.target.View(ctx, auth("approver-2"), id); err != nil || again.Digest != v.Digest || !slices.Equal(again.Fields, v.Fields) {
		t.Errorf("another approver sees %+v, %v", again, err)
	}
	// A design that does not bind the view shows a summary, shortened.
	w = newWorld(t, "M3")
	long := w.action("pay", 1)
	long.Arguments = []byte(`{"supplier":"` + strings.Repeat("x", gateway.SummaryLimit+1) + `","amount":7}`)
	v, err = w.target.View(ctx, auth("approver-p"), w.pending(long))
	must(t, err)
	if v.Digest != "" || len(v.Fields) != 2 || v.Fields[0].Text != strings.Repeat("x", gateway.SummaryLimit)+"…" || v.Fields[1].Text != "7" {
		t.Errorf("the summary is %+v", v)
	}
}

// TestViewNotes: where duplicates cannot be excluded the view says so.
func TestViewNotes(t *testing.T) {
	w := newWorld(t, "M9")
	for tool, want := range map[string]int{"pay": 0, "wire": 0, "fax": 1} {
		v, err := w.target.View(ctx, auth("approver-p"), w.pending(w.action(tool, 1)))
		must(t, err)
		if len(v.Notes) != want {
			t.Errorf("%s: %q", tool, v.Notes)
		}
	}
}

// TestViewIsTheServicesReading: where the service acts on another value than the one
// that was given, both are shown; what it adds of its own is told from what it takes
// for an argument that was left out, and what it does not act on is shown as given.
func TestViewIsTheServicesReading(t *testing.T) {
	w, s := newScripted(t, "M9")
	s.values = api.Values{
		"/supplier": json.RawMessage(`"s-1"`), "/amount": json.RawMessage(`7`), // the agent asks for 1
		"/check": json.RawMessage(`"skip"`), // left out
		"/fee":   json.RawMessage(`5`),      // no argument of the tool
		"total":  json.RawMessage(`12`),     // no argument at all
		// What a reference means is named after it, and nothing else is.
		"/supplier>account": json.RawMessage(`"GB33"`), "/memo>account": json.RawMessage(`"GB94"`),
	}
	v, err := w.target.View(ctx, auth("approver-p"), w.pending(w.action("pay", 1)))
	must(t, err)
	got := map[string][]string{}
	for _, f := range v.Fields {
		if f.Path[0] != '#' {
			got[f.Path] = append(got[f.Path], f.Label+": "+f.Text)
		}
	}
	want := map[string][]string{
		"/supplier": {"Supplier: s-1"},
		"/amount":   {"Amount: 1", "Amount (as the service reads it): 7"},
		"/check":    {"Name check (default): skip"},
		"/memo":     {"Statement text: invoice"},
		"/fee":      {"/fee: 5"},
		"total":     {"total: 12"},

		"/supplier>account": {"Supplier → account: GB33"},
		"/memo>account":     {"/memo>account: GB94"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the view has\n%q, want\n%q", got, want)
	}
}

// TestListsOfTwoDirections: a number does not change places with words of the element
// before it, and nothing else is marked.
func TestListsOfTwoDirections(t *testing.T) {
	w := newWorld(t, "M9")
	for _, tt := range []struct{ tags, want string }{
		{`["אב","1"]`, "אב, ⟨U+0031⟩"},
		{`["אב","(","1"]`, "אב, (, ⟨U+0031⟩"},
		{`["אב","a1"]`, "אב, a1"},
		{`["אב","a","1"]`, "אב, a, 1"},
		{`["אב","","1"]`, "אב, ⟨empty⟩, 1"},
		{`["ab","1"]`, "ab, 1"},
		{`["1","אב"]`, "1, אב"},
	} {
		a := w.action("pay", 1)
		a.Arguments = []byte(`{"supplier":"s-1","amount":1,"tags":` + tt.tags + `}`)
		if got := w.lines(a)["/tags"]; got != tt.want {
			t.Errorf("%s is shown as %q, want %q", tt.tags, got, tt.want)
		}
	}
}

// TestViewSaysHowLong: an approval whose end is known says when that is, and one that was
// asked for while there was no clock makes none up.
func TestViewSaysHowLong(t *testing.T) {
	w := newWorld(t, "M9")
	if got, want := w.lines(w.action("pay", 1))["#expires"], start.Add(ttl).Format(time.RFC3339); got != want {
		t.Errorf("valid until %q, want %q", got, want)
	}
	w = newWorld(t, "M9-closed") // the others ask for nothing without a clock
	w.clock.stop(true)
	if got, ok := w.lines(w.action("pay", 1))["#expires"]; ok {
		t.Errorf("valid until %q, and there is no clock", got)
	}
}

// TestSecretsThatAreNoText: what a service reads for a secret may be anything. A text is
// masked; of anything else no text is made up.
func TestSecretsThatAreNoText(t *testing.T) {
	key := []byte("key")
	for value, want := range map[string]string{`"GB33"`: api.SecretText(key, "GB33"), `33`: "33", `["GB33"]`: "GB33"} {
		s := &scripted{}
		w := newWorldWith(t, "M9", store.NewMemory(), func(d *api.Deployment) {
			s.Provider, s.Directory = d.Provider, d.Directory
			d.Provider, d.Directory, d.SecretKey = s, s, key
			d.Tools = secretMemo(d.Tools)
		})
		s.values = api.Values{"/memo": json.RawMessage(value)}
		a := w.action("pay", 1)
		a.Arguments = []byte(`{"supplier":"s-1","amount":1}`)
		if got := w.lines(a)["/memo"]; got != want {
			t.Errorf("%s is shown as %q, want %q", value, got, want)
		}
	}
}
