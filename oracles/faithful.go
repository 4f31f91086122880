package oracles

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"countersign/gateway/api"
)

var _ = register(faithful{})

// faithful reads everything shown, compares it with the intent and never errs on
// what it sees. What it sees are glyphs and not code points (see [Appearance]).
//
// It approves iff some want agrees with the view: the title, if the want has one;
// every shown value, unless the person does not care about it; the service and
// the tool, if shown and wanted. A shown value that the want does not know is a
// disagreement, and so is "#uses", which makes of one call several. Other lines
// ("#agent", notes) are read and decide nothing, unless the want has a value for
// them. A view without any line is declined.
//
// Its limits are the point of the model. It cannot miss what is not shown. Of a
// text that ends with "…" it sees the beginning only, and agrees if the wanted
// value begins so; it takes an ellipsis behind the whole wanted value for the edge
// of the box. Of a list that ends with "… and 2 more" it sees the first elements and
// counts the rest; of a masked secret ("•••• 1234") it sees the end. A fingerprint it
// compares with the one it was told. Where a view writes a character as ⟨U+XXXX⟩, it looks the number up:
// that agrees only with a wanted value that has precisely this character there.
type faithful struct{}

func (faithful) Name() string { return "faithful" }

func (faithful) Decide(v api.View, in Intent) Reading {
	r := Reading{Verdict: api.Decline, Characters: length(v)}
	switch {
	case len(v.Fields) == 0:
		r.Why = "the view shows no value"
		return r
	case len(in.Wants) == 0:
		r.Why = "nothing is wanted"
		return r
	}
	best := -1
	for _, w := range in.Wants {
		agreed, why := compare(v, w)
		if why == "" {
			return Reading{Verdict: api.Approve, Characters: r.Characters, Why: "everything shown is as wanted"}
		}
		// Of several wants, the reason is given for the one that came closest.
		if agreed > best {
			best, r.Why = agreed, why
		}
	}
	return r
}

// compare returns how many lines agree before the first that does not, and why
// that one does not; an empty reason if all agree.
func compare(v api.View, w Want) (agreed int, why string) {
	if w.Title != "" && !agrees(v.Title, w.Title) {
		return 0, fmt.Sprintf("the title reads %q and not %q", v.Title, w.Title)
	}
	for i, f := range v.Fields {
		want, known := w.Values[f.Path]
		switch {
		case f.Path == "#tool" && w.Tool != "":
			want = w.Tool
		case f.Path == "#audience" && w.Audience != "":
			want = w.Audience
		case strings.HasPrefix(f.Path, "#") && !known && f.Path != "#uses", w.Free[f.Path]:
			continue
		case !known:
			return i, fmt.Sprintf("%s (%s) is shown and was not wanted", f.Label, f.Path)
		}
		if mask := w.Masks[f.Path]; mask != "" && f.Text == mask {
			continue
		}
		if !agrees(f.Text, want) {
			return i, fmt.Sprintf("%s (%s) reads %q and not %q", f.Label, f.Path, f.Text, want)
		}
	}
	return len(v.Fields), ""
}

// agrees reports whether a shown text looks like the wanted value, as far as it
// is shown.
func agrees(text, want string) bool {
	if matches(text, want, Appearance) || beginsAs(text, want) || endsAs(text, want) {
		return true
	}
	// A text with a mark is exact about what it stands for, so it is compared
	// exactly.
	plain, marked := unmark(text)
	return marked && matches(plain, want, func(s string) string { return s })
}

func matches(text, want string, form func(string) string) bool {
	if form(text) == form(want) {
		return true
	}
	head, cut := strings.CutSuffix(text, "…")
	if !cut {
		return false
	}
	head = form(head)
	return head != "" && strings.HasPrefix(form(want), head)
}

var more = regexp.MustCompile(`^(.+)… and (\d{1,6}) more$`)

// beginsAs reports whether a list that is cut short has the wanted elements as far
// as they are shown, and the wanted number.
func beginsAs(text, want string) bool {
	m := more.FindStringSubmatch(text)
	if m == nil {
		return false
	}
	hidden, _ := strconv.Atoi(m[2]) // digits, six at most
	elements := strings.Split(want, ", ")
	shown := len(elements) - hidden
	return shown > 0 && Appearance(m[1]) == Appearance(strings.Join(elements[:shown], ", "))
}

// endsAs reports whether a masked secret ends as the wanted one, as far as it is
// shown.
func endsAs(text, want string) bool {
	end, masked := strings.CutPrefix(text, "••••")
	return masked && strings.HasSuffix(Appearance(want), Appearance(end))
}

var mark = regexp.MustCompile(`⟨U\+([0-9A-F]{4,6})⟩`)

// unmark replaces each ⟨U+XXXX⟩ by the character it stands for, and the marks of an
// empty text and an empty list by nothing, and reports whether there was one.
func unmark(text string) (string, bool) {
	if text == "⟨empty⟩" || text == "⟨empty list⟩" {
		return "", true
	}
	marked := false
	plain := mark.ReplaceAllStringFunc(text, func(m string) string {
		n, err := strconv.ParseUint(mark.FindStringSubmatch(m)[1], 16, 32)
		if err != nil || !utf8.ValidRune(rune(n)) {
			return m
		}
		marked = true
		return string(rune(n))
	})
	return plain, marked
}
