package results

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
)

// Schema is the version of the files of a run.
const Schema = 1

// maxCount is more than any count of a trial or of a run, and small enough that
// sums of counts have a place.
const maxCount = 1_000_000_000

// A Kind says what a trial is.
type Kind string

const (
	Honest Kind = "honest" // the plain run of a scenario, no adversary
	Attack Kind = "attack" // a variant of an attack
	Twin   Kind = "twin"   // the benign counterpart of a variant, which must go through
)

// A Prediction is what the bindings a target claims let one expect.
type Prediction string

const (
	PredictExecuted  Prediction = "executed"  // the attack makes an unauthorised effect
	PredictBlocked   Prediction = "blocked"   // the attack makes none
	PredictCompleted Prediction = "completed" // the twin or honest run goes through
)

// An Observation is the outcome of a trial.
type Observation string

const (
	Executed      Observation = "executed"      // an unauthorised effect was made, or, by a twin, one that was not due
	Completed     Observation = "completed"     // a twin or honest run made its intended effects
	Refused       Observation = "refused"       // a binding refused
	Held          Observation = "held"          // waits for a dependency or for reconciliation
	Reasked       Observation = "reasked"       // a new suspension was opened
	Absorbed      Observation = "absorbed"      // an earlier result was returned, no new effect
	Starved       Observation = "starved"       // fewer effects than the variant states; not blocked
	Unimplemented Observation = "unimplemented" // the target says it has no such feature
	Error         Observation = "error"         // the trial could not be carried out
)

// Observations lists every observation in the order of the documentation.
func Observations() []Observation {
	return []Observation{Executed, Completed, Refused, Held, Reasked, Absorbed, Starved, Unimplemented, Error}
}

// A Record is one trial. It holds no clock reading and nothing that depends on
// key or signature bytes, so that equal seeds give equal bytes.
type Record struct {
	Schema   int    `json:"schema"` // [Schema]
	Target   string `json:"target"` // an id of the catalogue, as are the next two
	Attack   string `json:"attack"`
	Variant  string `json:"variant"`
	Kind     Kind   `json:"kind"`
	Twin     bool   `json:"twin"` // Kind == Twin, for simple filters
	Scenario string `json:"scenario"`
	Approver string `json:"approver"`
	Seed     uint64 `json:"seed"`
	// Pair is equal in the trials of different targets that are to be compared.
	Pair      string      `json:"pair"`
	Predicted Prediction  `json:"predicted"`
	Observed  Observation `json:"observed"`
	// RefusedBy names the bindings that failed; "approver" when a person declined,
	// "provider" when the service refused what reached it past the gate.
	RefusedBy []string `json:"refused_by"`
	// RefusedCodes are the same as "binding/code".
	RefusedCodes []string `json:"refused_codes"`
	// Reasons are what the referee found wrong with the effects.
	Reasons         []string `json:"reasons"`
	ExpectedEffects int      `json:"expected_effects"` // effects an undisturbed run makes
	Effects         int      `json:"effects"`          // effects in the provider's ledger
	Prompts         int      `json:"prompts"`          // how often an approver was asked
	// Nondeterministic marks a race that could not be scheduled.
	Nondeterministic bool `json:"nondeterministic"`
	// Detail is the text of an error, why something is unimplemented or went wrong, and
	// of a race that was run several times, how often it made how many effects.
	Detail string `json:"detail,omitempty"`
}

// Blocked reports whether the gate stopped the trial: refused, held, asked again
// or absorbed.
func (r Record) Blocked() bool {
	return r.Observed == Refused || r.Observed == Held || r.Observed == Reasked || r.Observed == Absorbed
}

// Uncertain reports whether the trial says nothing, because it ended in an error.
func (r Record) Uncertain() bool { return r.Observed == Error }

// Conclusive reports whether the trial has an outcome to count: it did not end in
// an error, and the target has the feature.
func (r Record) Conclusive() bool { return r.Observed != Error && r.Observed != Unimplemented }

// Agrees reports whether the observation is the predicted one: executed for
// executed, any way of being blocked for blocked, completed for completed.
func (r Record) Agrees() bool {
	switch r.Predicted {
	case PredictExecuted:
		return r.Observed == Executed
	case PredictBlocked:
		return r.Blocked()
	case PredictCompleted:
		return r.Observed == Completed
	}
	return false
}

// Disagrees reports whether the trial contradicts the prediction. That is
// narrower than not agreeing: an inconclusive trial contradicts nothing, and a
// race that nobody scheduled may go either way.
func (r Record) Disagrees() bool {
	return r.Conclusive() && !r.Nondeterministic && !r.Agrees()
}

// Name returns "target attack/variant scenario", for messages.
func (r Record) Name() string {
	return r.Target + " " + r.Attack + "/" + r.Variant + " " + r.Scenario
}

// Validate reports the first member that is missing, unknown or at odds with
// another.
func (r Record) Validate() error {
	bad := func(member, format string, args ...any) error {
		return fmt.Errorf("record %q: %s: %s", r.Name(), member, fmt.Sprintf(format, args...))
	}
	if r.Schema != Schema {
		return bad("schema", "is %d, want %d", r.Schema, Schema)
	}
	for _, m := range []struct{ name, value string }{
		{"target", r.Target}, {"attack", r.Attack}, {"variant", r.Variant},
		{"scenario", r.Scenario}, {"approver", r.Approver}, {"pair", r.Pair},
	} {
		// An honest run belongs to no attack.
		if m.value == "" && (r.Kind != Honest || m.name != "attack" && m.name != "variant") {
			return bad(m.name, "is empty")
		}
		if !utf8.ValidString(m.value) {
			return bad(m.name, "is not UTF-8")
		}
	}
	switch r.Kind {
	case Attack:
		if r.Predicted != PredictExecuted && r.Predicted != PredictBlocked {
			return bad("predicted", "is %q, want executed or blocked for an attack", r.Predicted)
		}
		if r.Observed == Completed {
			return bad("observed", "is completed, which is for twins and honest runs")
		}
	case Twin, Honest:
		if r.Predicted != PredictCompleted {
			return bad("predicted", "is %q, want completed for kind %s", r.Predicted, r.Kind)
		}
	default:
		return bad("kind", "is %q, want honest, attack or twin", r.Kind)
	}
	if r.Twin != (r.Kind == Twin) {
		return bad("twin", "is %t for kind %s", r.Twin, r.Kind)
	}
	if !slices.Contains(Observations(), r.Observed) {
		return bad("observed", "is %q, want one of %v", r.Observed, Observations())
	}
	for _, l := range []struct {
		name string
		list []string
	}{{"refused_by", r.RefusedBy}, {"refused_codes", r.RefusedCodes}, {"reasons", r.Reasons}} {
		for _, e := range l.list {
			if e == "" || !utf8.ValidString(e) {
				return bad(l.name, "has the entry %q, want a name", e)
			}
		}
	}
	for _, c := range r.RefusedCodes {
		if binding, code, ok := strings.Cut(c, "/"); !ok || binding == "" || code == "" {
			return bad("refused_codes", "has %q, want binding/code", c)
		}
	}
	for _, n := range []struct {
		name  string
		value int
	}{{"expected_effects", r.ExpectedEffects}, {"effects", r.Effects}, {"prompts", r.Prompts}} {
		if n.value < 0 || n.value > maxCount {
			return bad(n.name, "is %d, want 0 to %d", n.value, maxCount)
		}
	}
	if r.Observed == Error && r.Detail == "" {
		return bad("detail", "is empty, want the error's text")
	}
	return nil
}

// encode returns the one JSON line that stands for r, newline included.
func (r Record) encode() ([]byte, error) {
	for _, l := range []*[]string{&r.RefusedBy, &r.RefusedCodes, &r.Reasons} {
		if *l == nil {
			*l = []string{} // never null
		}
	}
	// An error's text may quote bytes of a hostile message.
	r.Detail = strings.ToValidUTF8(r.Detail, "\uFFFD")
	return encodeLine(r)
}

func encodeLine(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// decodeRecord is strict: a line is accepted only if it is exactly what encode
// writes, which leaves no room for unknown, missing, repeated or reordered members.
func decodeRecord(line []byte) (Record, error) {
	var r Record
	if err := decodeStrict(line, &r); err != nil {
		return Record{}, err
	}
	if err := r.Validate(); err != nil {
		return Record{}, err
	}
	want, err := r.encode()
	if err != nil {
		return Record{}, err
	}
	if !bytes.Equal(bytes.TrimSuffix(want, []byte("\n")), line) {
		return Record{}, fmt.Errorf("record %q is not written in the form of schema %d (members missing, repeated, null or in another order)", r.Name(), Schema)
	}
	return r, nil
}

// decodeStrict refuses unknown members, one that is there twice or in another case,
// and anything after the value.
func decodeStrict(data []byte, v any) error {
	return jsonv2.Unmarshal(data, v, jsonv2.RejectUnknownMembers(true))
}
