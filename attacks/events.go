package attacks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"countersign/attacks/referee"
	"countersign/gateway/api"
	"countersign/scenarios/provider"
)

// An EventKind says what kind of thing happened in a trial.
type EventKind string

const (
	EventProposed   EventKind = "proposed"   // Who asked for Call
	EventSuspended  EventKind = "suspended"  // the target's answer: State, Suspension
	EventShown      EventKind = "shown"      // Who was shown View, in the medium Text if that is not empty
	EventDecided    EventKind = "decided"    // Who posted Verdict on Suspension, Text says why
	EventTampered   EventKind = "tampered"   // the adversary's step begins
	EventDispatched EventKind = "dispatched" // Who presented Call at an enforcement point
	EventAnswered   EventKind = "answered"   // the answer: Status, Refusals, of the service Text is its code
	EventExecuted   EventKind = "executed"   // the provider made an effect with Values
	EventHappened   EventKind = "happened"   // anything else, in Text
)

// An Event is one step of a trial as the stage saw it, for people who read the
// story of a trial. The referee does not use it.
type Event struct {
	Kind EventKind `json:"kind"`
	Who  string    `json:"who,omitempty"` // somebody of the cast, or of the environment
	// Hostile says that the adversary's step had begun.
	Hostile bool   `json:"hostile,omitempty"`
	Text    string `json:"text,omitempty"`
	Call    *Sent  `json:"call,omitempty"`
	// Changed says how what is dispatched differs from what the worker collected
	// after the approval.
	Changed    []string         `json:"changed,omitempty"`
	State      api.PendingState `json:"state,omitempty"`
	Suspension string           `json:"suspension,omitempty"`
	View       *api.View        `json:"view,omitempty"`
	Verdict    api.Verdict      `json:"verdict,omitempty"`
	Status     api.Status       `json:"status,omitempty"`
	Refusals   []api.Refusal    `json:"refusals,omitempty"`
	Values     api.Values       `json:"values,omitempty"`
}

// Sent is an action as it was sent. Bytes of the arguments that are no UTF-8 are
// written \xNN.
type Sent struct {
	Audience  string `json:"audience"`
	Tool      string `json:"tool"`
	Arguments string `json:"arguments"`
	Run       string `json:"run"`
	Step      string `json:"step"`
	Call      string `json:"call"`
}

func sent(a api.Action) *Sent {
	return &Sent{a.Audience, a.Tool, readable(a.Arguments), a.Run, a.Step, a.Call}
}

func readable(b []byte) string {
	var out strings.Builder
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			fmt.Fprintf(&out, `\x%02x`, b[0])
		} else {
			out.Write(b[:n])
		}
		b = b[n:]
	}
	return out.String()
}

func (s *Stage) event(e Event) {
	e.Hostile = s.tampered
	s.Events = append(s.Events, e)
}

func (s *Stage) happened(who, format string, args ...any) {
	s.event(Event{Kind: EventHappened, Who: who, Text: fmt.Sprintf(format, args...)})
}

// Who acts that is nobody of the cast.
const (
	theLab         = "the environment"
	theNetwork     = "the network"
	theWorker      = "the worker"
	theAdversary   = "the adversary"
	theTarget      = "the gate"
	theService     = "the service"
	notCollected   = "nothing was collected for it: the caller made this message up"
	permitChanged  = "the permit is another text than the one issued"
	witnessChanged = "the approver's assertion is another text than the one given"
)

// changes says how a message differs from what was collected, one sentence each.
func (m Message) changes() []string {
	if m.collected == nil {
		return []string{notCollected}
	}
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	was, is := m.collected.Dispatch, m.Dispatch
	for _, x := range []struct{ name, was, is string }{
		{"the caller", m.collected.Agent.ID, m.Agent.ID},
		{"the service", was.Action.Audience, is.Action.Audience}, {"the tool", was.Action.Tool, is.Action.Tool},
		{"the run", was.Action.Run, is.Action.Run}, {"the step", was.Action.Step, is.Action.Step}, {"the call", was.Action.Call, is.Action.Call},
	} {
		if x.was != x.is {
			add("%s is %s, and was %s", x.name, x.is, x.was)
		}
	}
	out = append(out, argumentChanges(was.Action.Arguments, is.Action.Arguments)...)
	if was.Carried.Approved != is.Carried.Approved {
		add("the flag \"approved\" is %t, and was %t", is.Carried.Approved, was.Carried.Approved)
	}
	if was.Carried.Approval != is.Carried.Approval {
		add("the approval id is another one than the one issued")
	}
	if was.Carried.Permit != is.Carried.Permit {
		add(permitChanged)
	}
	if !bytes.Equal(was.Carried.Assertion, is.Carried.Assertion) {
		add(witnessChanged)
	}
	if was.Action.Hints != is.Action.Hints {
		add("the call says of itself: read only %t, dry run %t", is.Action.Hints.ReadOnly, is.Action.Hints.DryRun)
	}
	for _, a := range is.Siblings[min(len(was.Siblings), len(is.Siblings)):] {
		add("it brings a further call along: %s at %s with %s", a.Tool, a.Audience, readable(a.Arguments))
	}
	return out
}

// argumentChanges compares member by member where both texts are objects without
// a name that occurs twice, and as texts otherwise.
func argumentChanges(was, is []byte) []string {
	if bytes.Equal(was, is) {
		return nil
	}
	rewritten := []string{"the text of the arguments is another one: " + readable(is)}
	a, errA := ParseArguments(was)
	b, errB := ParseArguments(is)
	if errA != nil || errB != nil || a.repeats() || b.repeats() {
		return rewritten
	}
	var out []string
	for _, m := range b {
		switch old := a.Get(m.Name); {
		case old == nil:
			out = append(out, fmt.Sprintf("%q is there with %s, and was not", m.Name, readable(m.Value)))
		case !bytes.Equal(old, m.Value):
			out = append(out, fmt.Sprintf("%q is %s, and was %s", m.Name, readable(m.Value), readable(old)))
		}
	}
	for _, m := range a {
		if b.Get(m.Name) == nil {
			out = append(out, fmt.Sprintf("%q is missing, and was %s", m.Name, readable(m.Value)))
		}
	}
	if out == nil { // the same members, written differently
		return rewritten
	}
	return out
}

func (a Arguments) repeats() bool {
	for i, m := range a {
		if slices.ContainsFunc(a[:i], func(n member) bool { return n.Name == m.Name }) {
			return true
		}
	}
	return false
}

// faultText says what the network does to a call of the service.
func faultText(k provider.FaultKind) string {
	switch k {
	case provider.FaultPass:
		return "will let the next call through"
	case provider.FaultNotSent:
		return "will refuse the connection of the next call"
	case provider.FaultDropRequest:
		return "will lose the next request on its way to the service"
	case provider.FaultDropResponse:
		return "will lose the service's next answer"
	case provider.FaultDuplicate:
		return "will deliver the next request twice"
	case provider.FaultDelay:
		return "will delay the next call"
	}
	return "will disturb the next call: " + string(k)
}

func duration(d time.Duration) string {
	t := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if cut, ok := strings.CutSuffix(t, zero); ok {
			t = cut + zero[:1]
		}
	}
	return t
}

// stepText says where in the handling of a dispatch a gate is.
func stepText(step api.Step) string {
	switch step {
	case api.StepChecked:
		return "has passed all checks and spent nothing"
	case api.StepConsumed:
		return "has spent the approval and sent nothing"
	case api.StepSent:
		return "has called the service and recorded nothing"
	}
	return "is at the step " + string(step)
}

func changeText(kind referee.ChangeKind, subject, value string) string {
	if subject == string(api.DepIdentity) {
		subject = "look-up of identities"
	}
	switch kind {
	case referee.AgentDisabled:
		return "disables " + subject
	case referee.ApprovalRevoked:
		return "revokes the approval"
	case referee.PolicyChanged:
		return "puts the policy " + value + " into force"
	case referee.RiskChanged:
		return "labels " + subject + " with the risk " + value
	case referee.CredentialRemoved:
		return "removes the passkeys of " + subject
	case referee.ApprovalsNeeded:
		return "has the policy ask for " + value + " people to approve " + subject
	case referee.RunWideBounded:
		return "has the policy allow an approval of " + subject + " for a run: calls and time, at most, " + value
	case referee.SelfApprovalAllowed:
		return "records that " + subject + " may approve its own requests: " + value
	case referee.SelfApprovalForbidden:
		return "withdraws that " + subject + " may approve its own requests"
	case referee.DependencyDown:
		switch api.Fault(value) {
		case api.FaultPanic:
			return "has the client of the " + subject + " panic"
		case api.FaultTimeout:
			return "has calls of the " + subject + " hang until they are given up"
		case api.FaultPartial:
			return "has the " + subject + " take what is written and answer with an error"
		}
		return "makes the " + subject + " fail"
	case referee.DependencyUp:
		return "lets the " + subject + " work again"
	}
	return string(kind) + " " + subject + " " + value
}

func membersText(m map[string]json.RawMessage) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		out = append(out, name+" becomes "+readable(m[name]))
	}
	return strings.Join(out, ", ")
}
