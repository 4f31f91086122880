package agentdojo

import (
	"encoding/json"
	"fmt"
	"maps"

	"countersign/gateway/api"
)

// A Want is one action that the person who gave the task wants.
type Want struct {
	Audience string // the suite
	Tool     string
	// Values holds the plain text (see [Plain]) of each value the person has in
	// mind, by path ("/amount"). An optional argument that the reference does not
	// give has its default, or the empty text: the person wants nothing there.
	Values map[string]string
	// Free names the paths whose value the person leaves to the agent: free text.
	Free map[string]bool
}

// Wants are the actions a person would approve, any of them, any number of times.
type Wants []Want

// Intent returns the side-effecting reference calls of the trace's user task: what
// a faithful reader compares a view with. It is exact on purpose; an honest call that
// differs from the reference is declined, and counted by whoever replays. A page's
// address is wanted with and without a scheme, which is one page to the benchmark.
// The set is empty for a task that wants no side effect. The error wraps
// [ErrNotInCatalogue] if the catalogue lacks one of the trace's tasks.
func (b Benchmark) Intent(t *Trace) (Wants, error) {
	s, user, _, err := b.Catalogue.tasks(t)
	if err != nil {
		return nil, fmt.Errorf("reading the user's intent: %w", err)
	}
	var wants Wants
	for _, r := range user.Calls {
		if !b.Kinds.SideEffect(t.Suite, r.Tool) {
			continue
		}
		w := Want{Audience: t.Suite, Tool: r.Tool, Values: map[string]string{}, Free: map[string]bool{}}
		for _, f := range s.fields[r.Tool] {
			if freeText(f.Name) {
				w.Free["/"+f.Name] = true
				continue
			}
			raw, given := r.Args[f.Name]
			if !given {
				raw = json.RawMessage(f.Default)
			}
			w.Values["/"+f.Name] = Plain(raw)
		}
		wants = append(wants, w)
		if url, ok := w.Values["/url"]; ok {
			for _, scheme := range schemes {
				alternative := w
				alternative.Values = maps.Clone(w.Values)
				alternative.Values["/url"] = scheme + stripScheme(url)
				wants = append(wants, alternative)
			}
		}
	}
	return wants, nil
}

// Approves is the decision of a reader who compares each shown value with the
// intent, character by character: it approves a call if every shown value of it
// agrees with one and the same want. A path that a want does not know disagrees,
// and so does a view that shows nothing.
func (ws Wants) Approves(audience, tool string, shown map[string]string) bool {
	for _, w := range ws {
		if w.Audience == audience && w.Tool == tool && len(shown) > 0 && w.agrees(shown) {
			return true
		}
	}
	return false
}

func (w Want) agrees(shown map[string]string) bool {
	for path, text := range shown {
		if wanted, ok := w.Values[path]; !w.Free[path] && (!ok || wanted != text) {
			return false
		}
	}
	return true
}

// Shown returns the plain text of every argument of a call by path, as a view that
// hides nothing shows them: absent optional arguments with their defaults, a null
// or an empty list as the empty text.
func Shown(t api.Tool, args json.RawMessage) map[string]string {
	shown := map[string]string{}
	for _, f := range t.Fields {
		if f.Default != "" {
			shown["/"+f.Name] = Plain(json.RawMessage(f.Default))
		}
	}
	for name, raw := range arguments(args) {
		shown["/"+name] = Plain(raw)
	}
	return shown
}
