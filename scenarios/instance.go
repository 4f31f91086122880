package scenarios

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
)

// An Instance is one honest action of a trial together with what the person who
// asked for it wants.
type Instance struct {
	Tool      string
	Arguments []byte // JSON text, members in the order of the file
	// Task is what the person asked for, in a sentence.
	Task string
	// Wants holds every value the person relies on, by path as in api.Values,
	// members of references and defaults included, as plain display text: a string
	// without quotes, a list joined with ", ", anything else as JSON.
	Wants map[string]string
	// Free lists the paths whose value the person does not care about; they are
	// not in Wants.
	Free []string
}

// An argument is a field of the honest call: a literal (JSON text) or a generator.
type argument struct {
	name    string
	literal json.RawMessage
	lo, hi  int64             // {int: [lo, hi]}, both included
	choice  []json.RawMessage // {choice: […]}
	text    []string          // {text: […]} with {lo..hi} for an integer
	turns   []json.RawMessage // one after the other; see [Given]
}

// Instance returns the n-th honest action of a trial (0 is the first). It is a
// pure function of the scenario's id, the seed and n. Two actions of one trial
// differ in every generated field until that field's values are used up.
func (s *Scenario) Instance(seed uint64, n int) Instance {
	in := Instance{Tool: s.HonestTool, Wants: make(map[string]string)}
	body := []byte{'{'}
	values := make(map[string]json.RawMessage)
	for i, a := range s.arguments {
		text := a.value(s.stream(seed, a.name), n)
		values[a.name] = text
		if i > 0 {
			body = append(body, ',')
		}
		body = append(append(body, quote(a.name)...), ':')
		body = append(body, text...)
	}
	in.Arguments = append(body, '}')

	free := make(map[string]bool)
	for _, name := range s.free {
		free[name] = true
		in.Free = append(in.Free, "/"+name)
	}
	t, _ := s.Tool(s.HonestTool)
	for _, f := range t.Fields {
		text := values[f.Name]
		if text == nil {
			text = json.RawMessage(f.Default)
		}
		if len(text) == 0 || free[f.Name] {
			continue
		}
		in.Wants["/"+f.Name] = display(text)
		if f.Reference != "" {
			for member, text := range s.Records[f.Reference][display(text)] {
				in.Wants["/"+f.Name+">"+member] = display(text)
			}
		}
	}
	in.Task = placeholder.ReplaceAllStringFunc(s.task, func(p string) string { return in.Wants[p[1:len(p)-1]] })
	return in
}

// stream is a source of its own for each field: what one field draws never moves
// another.
func (s *Scenario) stream(seed uint64, field string) *rand.Rand {
	label := binary.BigEndian.AppendUint64([]byte("countersign scenario "+s.ID+"/"+field+"\x00"), seed)
	return rand.New(rand.NewChaCha8(sha256.Sum256(label)))
}

func (a argument) value(rng *rand.Rand, n int) json.RawMessage {
	switch {
	case a.literal != nil:
		return a.literal
	case a.turns != nil:
		return a.turns[n%len(a.turns)]
	case a.choice != nil:
		return a.choice[pick(rng, n, len(a.choice))]
	case a.text != nil:
		template := a.text[pick(rng, n, len(a.text))]
		return quote(span.ReplaceAllStringFunc(template, func(m string) string {
			lo, hi := spanOf(m)
			return strconv.FormatInt(lo+int64(pick(rng, n, int(hi-lo+1))), 10)
		}))
	}
	return strconv.AppendInt(nil, a.lo+int64(pick(rng, n, int(a.hi-a.lo+1))), 10)
}

// pick walks through 0 … size-1 with a step that shares no factor with size, so
// that size consecutive n give size different values.
func pick(rng *rand.Rand, n, size int) int {
	start, step := rng.IntN(size), 1+rng.IntN(size)
	for gcd(step, size) != 1 {
		step++
	}
	return int((uint64(start) + uint64(n)%uint64(size)*uint64(step)) % uint64(size))
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

var (
	span        = regexp.MustCompile(`\{\d{1,9}\.\.\d{1,9}\}`)
	placeholder = regexp.MustCompile(`\{/[^{}]*\}`)
)

// spanOf reads the bounds of "{lo..hi}"; the expression above keeps them small.
func spanOf(m string) (lo, hi int64) {
	a, b, _ := strings.Cut(m[1:len(m)-1], "..")
	lo, _ = strconv.ParseInt(a, 10, 64)
	hi, _ = strconv.ParseInt(b, 10, 64)
	return lo, hi
}

// display is the plain display text of a JSON text.
func display(text json.RawMessage) string {
	var v any
	if json.Unmarshal(text, &v) != nil {
		return string(text)
	}
	switch v := v.(type) {
	case string:
		return v
	case []any:
		parts := make([]string, len(v))
		for i, e := range v {
			parts[i] = fmt.Sprint(e)
		}
		return strings.Join(parts, ", ")
	}
	return string(text)
}
