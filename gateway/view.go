package gateway

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"countersign/gateway/api"
	"countersign/modes"
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
		return g.summary(s, t.Tool, values), nil
	}
	preview, err := g.d.Provider.Preview(ctx, g.request(s, ""))
	if err != nil {
		return api.View{}, fmt.Errorf("%w: the provider gives no dry run: %w", api.ErrUnavailable, err)
	}
	v := api.View{Title: Visible(t.Title)}
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
		switch {
		case given && acts && text(argument, true) != text(effect, true):
			line(path, label, text(argument, true))
			line(path, label+" (as the service reads it)", text(effect, true))
		case acts && !given && path[0] == '/' && t.field(path) != nil:
			line(path, label+" (default)", text(effect, true))
		case acts:
			line(path, label, text(effect, true))
		case given:
			line(path, label, text(argument, true))
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
	line("#run", "Run, step, call", Visible(e.Run+" / "+e.Step+" / "+e.Call))
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

func (g *Gateway) summary(s *modes.Situation, t api.Tool, values fields) api.View {
	v := api.View{Title: t.Title}
	for _, name := range t.Summary {
		value, ok := values[name]
		if !ok {
			continue
		}
		f, _ := t.Field(name)
		v.Fields = append(v.Fields, api.ViewField{Path: "/" + name, Label: f.Label, Text: shorten(text(value, false))})
	}
	for _, r := range s.Resolved {
		for _, member := range slices.Sorted(maps.Keys(r.Members)) {
			v.Fields = append(v.Fields, api.ViewField{Path: r.Path + ">" + member, Label: member, Text: shorten(text(r.Members[member], false))})
		}
	}
	return v
}

func shorten(s string) string {
	r := []rune(s)
	if len(r) <= SummaryLimit {
		return s
	}
	return string(r[:SummaryLimit]) + "…"
}
