package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"slices"
	"strings"
	"time"

	"countersign/gateway/api"
	"countersign/gateway/viewing"
	"countersign/modes"
)

const (
	// ListLimit is the number of elements of a list in a product's summary.
	ListLimit = 3
	// MaskTail is the number of characters that a product shows of a secret.
	MaskTail = 4
)

// render makes the view of a suspension. A design that binds the view shows
// every value that the provider would act on, from the provider's own dry run
// and from the canonical arguments, and both where they differ. Any other design
// shows what a product would: a title and the summary fields, shortened.
func (g *Gateway) render(ctx context.Context, s *modes.Situation, t toolRow, e modes.Envelope) (api.View, error) {
	_, values, readErr, _ := g.read(s.Action, t.Tool)
	if readErr != nil {
		return api.View{}, fmt.Errorf("%w: the arguments cannot be read: %w", api.ErrInvalid, readErr)
	}
	if !g.mode.Has(api.BindRender) {
		v := g.summary(s, t.Tool, values)
		v.Notes = optOutNote(e)
		return v, nil
	}
	preview, err := g.d.Provider.Preview(ctx, g.request(s, ""))
	if err != nil {
		return api.View{}, fmt.Errorf("%w: the provider gives no dry run: %w", api.ErrUnavailable, err)
	}
	v := api.View{Title: Visible(t.Title), Notes: optOutNote(e)}
	line := func(path, label, text string) {
		v.Fields = append(v.Fields, api.ViewField{Path: path, Label: label, Text: text})
	}
	line("#audience", "Service", Visible(t.Audience))
	line("#tool", "Tool", Visible(t.Name))
	rest := map[string]jsonText{}
	for name, value := range values {
		rest["/"+name] = value
	}
	shown := map[string]bool{}
	show := func(path, label string) {
		if shown[path] {
			return
		}
		shown[path] = true
		argument, given := rest[path]
		effect, acts := preview[path]
		text := func(v json.RawMessage) string { return g.bound(t.field(path), v) }
		switch {
		case given && acts && text(argument) != text(effect):
			line(path, label, text(argument))
			line(path, label+" (as the service reads it)", text(effect))
		case acts && !given && t.field(path) != nil:
			line(path, label+" (default)", text(effect))
		case acts:
			line(path, label, text(effect))
		case given:
			line(path, label, text(argument))
		}
	}
	for _, f := range t.Fields {
		show("/"+f.Name, f.Label)
		if f.Reference == "" {
			continue
		}
		for _, path := range slices.Sorted(maps.Keys(preview)) {
			if member, ok := memberOf(path, f.Name); ok {
				show(path, f.Label+" → "+member)
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(rest)) {
		show(path, Visible(path[1:]))
	}
	for _, path := range slices.Sorted(maps.Keys(preview)) {
		show(path, Visible(path))
	}
	line("#agent", "Asked by agent", Visible(e.Agent))
	line("#requester", "On behalf of", Visible(e.Requester))
	line("#run", "Run", Visible(e.Run))
	line("#step", "Step", Visible(e.Step))
	line("#call", "Call", Visible(e.Call))
	line("#risk", "Risk", Visible(e.Risk))
	line("#policy", "Policy", Visible(e.Policy))
	if e.ExpiresAt != 0 {
		line("#expires", "Valid until", time.Unix(e.ExpiresAt, 0).UTC().Format(time.RFC3339))
	}
	if e.Guarantee == api.GuaranteeNone {
		v.Notes = append(v.Notes, "The service offers no protection against duplicates: if its answer is lost, a person has to find out whether the call was executed.")
	}
	return v, nil
}

// optOutText is how views and the log speak of an opt-out.
func optOutText(reason string) string { return "self-approval allowed by opt-out: " + Visible(reason) }

// optOutNote tells whoever reads the view that the requester may decide it.
func optOutNote(e modes.Envelope) []string {
	if e.SelfApproval == "" {
		return nil
	}
	return []string{Visible(e.Requester) + " asks for this and may approve it; " + optOutText(e.SelfApproval)}
}

// staged says in a view which approval it is for, where several are needed.
func staged(v api.View, e modes.Envelope) api.View {
	if e.Stages == 1 {
		return v
	}
	const path = "#stage"
	text := fmt.Sprintf("%d of %d", e.Stage, e.Stages)
	if len(e.Earlier) > 0 {
		text += ", after " + Visible(strings.Join(e.Earlier, ", "))
	}
	v.Stage = int64(e.Stage)
	v.Fields = slices.DeleteFunc(slices.Clone(v.Fields), func(f api.ViewField) bool { return f.Path == path })
	v.Fields = append(v.Fields, api.ViewField{Path: path, Label: "Approval", Text: text})
	return v
}

func (t toolRow) field(path string) *api.Field {
	for i := range t.Fields {
		if "/"+t.Fields[i].Name == path {
			return &t.Fields[i]
		}
	}
	return nil
}

// memberOf splits "/name>member".
func memberOf(path, name string) (string, bool) {
	prefix := "/" + name + ">"
	if len(path) > len(prefix) && path[:len(prefix)] == prefix {
		return path[len(prefix):], true
	}
	return "", false
}

// bound is the text of a value in a bound view; f is its field, or nil.
func (g *Gateway) bound(f *api.Field, v json.RawMessage) string {
	var secret string
	if f != nil && f.Secret && len(g.d.SecretKey) > 0 && json.Unmarshal(v, &secret) == nil {
		return api.SecretText(g.d.SecretKey, secret)
	}
	return text(v, true)
}

// channels renders a view for the media of this design. One that binds the view
// escapes for each of them. Any other does what products do: the page is made by a
// template engine, which escapes; messages are put together from strings.
func (g *Gateway) channels(v api.View) map[api.Medium]string {
	if g.mode.Has(api.BindRender) {
		return viewing.All(v)
	}
	var page, message, markdown strings.Builder
	fmt.Fprintf(&page, "<h1>%s</h1>\n", html.EscapeString(v.Title))
	fmt.Fprintf(&message, "%s\n", v.Title)
	fmt.Fprintf(&markdown, "**%s**\n\n", v.Title)
	for _, f := range v.Fields {
		fmt.Fprintf(&page, "<p><b>%s:</b> %s</p>\n", html.EscapeString(f.Label), html.EscapeString(f.Text))
		fmt.Fprintf(&message, "%s: %s\n", f.Label, f.Text)
		fmt.Fprintf(&markdown, "- **%s:** %s\n", f.Label, f.Text)
	}
	for _, n := range v.Notes {
		fmt.Fprintf(&page, "<p>%s</p>\n", html.EscapeString(n))
		fmt.Fprintf(&message, "%s\n", n)
		fmt.Fprintf(&markdown, "\n%s\n", n)
	}
	return map[api.Medium]string{
		api.MediumPage: page.String(), api.MediumText: message.String(),
		api.MediumTerminal: message.String(), api.MediumMarkdown: markdown.String(),
	}
}

// summary shows a few fields, as products do: texts shortened, of a list the
// first elements, of a secret the end.
func (g *Gateway) summary(s *modes.Situation, t api.Tool, values fields) api.View {
	v := api.View{Title: t.Title}
	for _, name := range t.Summary {
		value, ok := values[name]
		if !ok {
			continue
		}
		f, _ := t.Field(name)
		short := shorten(value)
		var secret string
		if f.Secret && json.Unmarshal(value, &secret) == nil {
			short = masked(secret)
		}
		v.Fields = append(v.Fields, api.ViewField{Path: "/" + name, Label: f.Label, Text: short})
	}
	for _, r := range s.Resolved {
		for _, member := range slices.Sorted(maps.Keys(r.Members)) {
			v.Fields = append(v.Fields, api.ViewField{Path: r.Path + ">" + member, Label: member, Text: shorten(r.Members[member])})
		}
	}
	return v
}

// shorten is a value as a summary shows it.
func shorten(v json.RawMessage) string {
	var list []string
	if json.Unmarshal(v, &list) == nil && len(list) > ListLimit {
		return fmt.Sprintf("%s… and %d more", strings.Join(list[:ListLimit], ", "), len(list)-ListLimit)
	}
	r := []rune(text(v, false))
	if len(r) <= SummaryLimit {
		return string(r)
	}
	return string(r[:SummaryLimit]) + "…"
}

// masked hides all of a secret but its end, as card numbers are printed.
func masked(secret string) string {
	r := []rune(secret)
	if len(r) <= 2*MaskTail {
		return "••••"
	}
	return "•••• " + string(r[len(r)-MaskTail:])
}
