// Package referee judges a trial from real side effects: the provider's ledger,
// and what approvers were shown and decided. It asks neither the gateway nor the
// attack, and knows no mode.
//
// An effect is authorised when some approver who may approve it approved a view
// that showed exactly this action, the approval served no earlier effect, and
// authority held when the dispatch came in. Where that view said that it is for so
// many calls of the run, until a time, the approval serves as many calls of that run,
// one effect each, until then. Otherwise the effect has reasons.
// The referee picks, for each effect in the order of the ledger, the approval
// that leaves the fewest.
package referee

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"countersign/gateway/api"
)

// A Kind is a class of reasons why an effect is not authorised.
type Kind string

const (
	Content      Kind = "content"      // differs from the action pending at review
	Shown        Kind = "shown"        // the view hid or misrepresented a material value
	Who          Kind = "who"          // the approver may not approve this
	Origin       Kind = "origin"       // another agent, run, step, call or suspension
	Spent        Kind = "spent"        // the approval served an earlier effect
	Stale        Kind = "stale"        // authority held at no time that counts
	Unverifiable Kind = "unverifiable" // a dependency was down when the effect was made
	None         Kind = "none"         // no approval at all
)

// A Reason is a kind, and what it is about: a path, a member, a dependency.
type Reason struct {
	Kind  Kind
	About string
}

func (r Reason) String() string {
	if r.About == "" {
		return string(r.Kind)
	}
	return string(r.Kind) + ":" + r.About
}

// MaxLateness is how long after the last instant of authority an effect may be
// accepted (Δ).
const MaxLateness = 5 * time.Second

// A Tick orders everything that happens in a trial; time alone does not, because
// the lab's clock stands still unless it is moved.
type Tick int64

// A Person is someone or something that may decide.
type Person struct {
	ActsFor  string `json:"acts_for,omitempty"`
	Approver bool   `json:"approver,omitempty"` // a person in the set of approvers
}

// A Review is one decision together with what was shown for it.
type Review struct {
	Tick       Tick        `json:"tick"`
	Time       time.Time   `json:"time"`
	Approver   string      `json:"approver"` // who really decided, as the approver's side knows it
	Verdict    api.Verdict `json:"verdict"`
	View       api.View    `json:"view"`
	Suspension string      `json:"suspension"`
	// The action that was pending, and what the provider would have acted on.
	Agent     string     `json:"agent"`
	Requester string     `json:"requester"`
	Run       string     `json:"run"`
	Step      string     `json:"step"`
	Call      string     `json:"call"`
	Audience  string     `json:"audience"`
	Tool      string     `json:"tool"`
	Values    api.Values `json:"values"`
	// Masks holds, by path, the text that stands for a secret among Values, as the
	// deployment tells whoever enters it (see api.SecretText).
	Masks   map[string]string `json:"masks,omitempty"`
	Expires time.Time         `json:"expires"`
	Policy  string            `json:"policy"`
	Risk    string            `json:"risk"`
}

// A Dispatch is one call of an enforcement point, or of the provider itself.
type Dispatch struct {
	RequestID string    `json:"request_id"`
	Entered   Tick      `json:"entered"`
	Time      time.Time `json:"time"`
	Agent     string    `json:"agent"`
	Run       string    `json:"run"`
	Step      string    `json:"step"`
	Call      string    `json:"call"`
	// Suspension is the newest one of (run, step, call) at that moment.
	Suspension string `json:"suspension"`
}

// An Effect is one line of the ledger with the moment it was made.
type Effect struct {
	Tick      Tick       `json:"tick"`
	Time      time.Time  `json:"time"`
	RequestID string     `json:"request_id"`
	Audience  string     `json:"audience"`
	Tool      string     `json:"tool"`
	Values    api.Values `json:"values"`
}

// A ChangeKind is something that gives or ends authority, or a dependency's fate.
type ChangeKind string

const (
	AgentDisabled     ChangeKind = "agent_disabled"     // Subject: agent
	ApprovalRevoked   ChangeKind = "revoked"            // Subject: suspension
	PolicyChanged     ChangeKind = "policy"             // Value: version
	RiskChanged       ChangeKind = "risk"               // Subject: audience/tool; Value: label
	CredentialRemoved ChangeKind = "credential_removed" // Subject: approver
	ApprovalsNeeded   ChangeKind = "approvals"          // Subject: audience/tool; Value: how many people, one after the other, have to approve
	// RunWideBounded: Value: how many calls of a run one approval may be for, and how
	// long from the decision on, as in "3 10m"; empty: for one call.
	RunWideBounded ChangeKind = "run_wide" // Subject: audience/tool
	// The requester may approve what it asks for itself, or may not any more.
	SelfApprovalAllowed   ChangeKind = "self_approval_allowed"   // Subject: person; Value: the reason
	SelfApprovalForbidden ChangeKind = "self_approval_forbidden" // Subject: person

	DependencyDown ChangeKind = "down" // Subject: dependency
	DependencyUp   ChangeKind = "up"
)

// A Change is an event of the environment.
type Change struct {
	Tick    Tick       `json:"tick"`
	Time    time.Time  `json:"time"`
	Kind    ChangeKind `json:"kind"`
	Subject string     `json:"subject"`
	Value   string     `json:"value,omitempty"`
}

// A History is everything the referee judges from.
type History struct {
	Tools      []api.Tool        `json:"tools"`
	People     map[string]Person `json:"people"`
	Reviews    []Review          `json:"reviews"`
	Dispatches []Dispatch        `json:"dispatches"`
	Effects    []Effect          `json:"effects"`
	Changes    []Change          `json:"changes"`
}

// A Verdict is the judgement on one effect.
type Verdict struct {
	Effect  int // index in History.Effects
	Review  int // index of the approval it was held against, -1 for none
	Reasons []Reason
}

// Authorised reports whether the effect has no reason.
func (v Verdict) Authorised() bool { return len(v.Reasons) == 0 }

// Judge judges every effect.
func Judge(h History) ([]Verdict, error) {
	for _, c := range h.Changes {
		if c.Kind == ApprovalsNeeded && c.number() < 1 {
			return nil, fmt.Errorf("judging: %q people have to approve %s", c.Value, c.Subject)
		}
		if _, _, err := c.bounds(); c.Kind == RunWideBounded && err != nil {
			return nil, fmt.Errorf("judging: the bounds of run-wide approvals of %s: %w", c.Subject, err)
		}
	}
	served := map[string][]call{} // by suspension: two decisions on one are one approval
	var out []Verdict
	for i, e := range h.Effects {
		t, ok := h.tool(e)
		if !ok {
			return nil, fmt.Errorf("judging effect %d: tool %s/%s is not in the table", i+1, e.Audience, e.Tool)
		}
		if t.Class == api.ClassRead {
			continue
		}
		d, ok := h.dispatch(e.RequestID)
		if !ok {
			return nil, fmt.Errorf("judging effect %d: no dispatch has request id %q", i+1, e.RequestID)
		}
		best := Verdict{Effect: i, Review: -1, Reasons: append([]Reason{{Kind: None}}, h.unverifiable(d, e)...)}
		cost := 1 << 30
		for j, r := range h.Reviews {
			if r.Verdict != api.Approve || r.Tick > e.Tick {
				continue
			}
			reasons := h.reasons(e, d, r, t, r.spent(served[r.Suspension], d))
			kinds := 2 * weight(reasons)
			if _, wide := r.runWide(); wide {
				kinds++ // of two that are as good, the one for this call alone
			}
			if kinds < cost {
				best, cost = Verdict{Effect: i, Review: j, Reasons: reasons}, kinds
			}
		}
		if best.Review >= 0 {
			id := h.Reviews[best.Review].Suspension
			served[id] = append(served[id], d.call())
		}
		out = append(out, best)
	}
	return out, nil
}

// A call is one stop of one step of a run.
type call struct{ run, step, call, suspension string }

func (d Dispatch) call() call { return call{d.Run, d.Step, d.Call, d.Suspension} }

// terms are how many calls an approval is for, and until when.
type terms struct {
	uses  int
	until time.Time
}

// runWide reads off the view that was decided on whether it was for a whole run.
func (r Review) runWide() (terms, bool) {
	var lines []string
	for _, path := range []string{"#uses", "#until"} {
		for _, f := range r.View.Fields {
			if f.Path == path {
				lines = append(lines, f.Text)
			}
		}
	}
	if len(lines) != 2 {
		return terms{}, false
	}
	uses, err := strconv.Atoi(lines[0])
	until, timeErr := time.Parse(time.RFC3339, lines[1])
	return terms{uses, until}, err == nil && timeErr == nil
}

// spent says whether an approval has served what it is for: one call, or so many of
// the run. A call has one effect under it.
func (r Review) spent(served []call, d Dispatch) bool {
	if t, wide := r.runWide(); wide {
		return len(served) >= t.uses || slices.Contains(served, d.call())
	}
	return len(served) > 0
}

// weight counts kinds before members, so that one hidden field is not outweighed
// by an approval given by the wrong person.
func weight(rs []Reason) int {
	kinds := map[Kind]bool{}
	for _, r := range rs {
		kinds[r.Kind] = true
	}
	return len(kinds)*1000 + len(rs)
}

func (h History) tool(e Effect) (api.Tool, bool) {
	for _, t := range h.Tools {
		if t.Audience == e.Audience && t.Name == e.Tool {
			return t, true
		}
	}
	return api.Tool{}, false
}

func (h History) dispatch(id string) (Dispatch, bool) {
	for _, d := range h.Dispatches {
		if d.RequestID == id {
			return d, true
		}
	}
	return Dispatch{}, false
}

func (h History) reasons(e Effect, d Dispatch, r Review, t api.Tool, used bool) []Reason {
	var out []Reason
	add := func(k Kind, about string) { out = append(out, Reason{k, about}) }
	if e.Audience != r.Audience {
		add(Content, "audience")
	}
	if e.Tool != r.Tool {
		add(Content, "tool")
	}
	paths := map[string]bool{}
	for p := range e.Values {
		paths[p] = true
	}
	for p := range r.Values {
		paths[p] = true
	}
	for _, p := range slices.Sorted(maps.Keys(paths)) {
		if !material(t, p) {
			continue
		}
		v, acts := e.Values[p]
		if w, pending := r.Values[p]; acts != pending || !bytes.Equal(v, w) {
			add(Content, p)
		}
		mask := ""
		if acts && bytes.Equal(v, r.Values[p]) {
			mask = r.Masks[p]
		}
		if acts && !shows(r.View, p, v, mask) {
			add(Shown, p)
		}
	}
	_, wide := r.runWide()
	for _, x := range []struct {
		member      string
		called, was string
	}{
		{"agent", d.Agent, r.Agent}, {"run", d.Run, r.Run}, {"step", d.Step, r.Step}, {"call", d.Call, r.Call},
		{"suspension", d.Suspension, r.Suspension},
	} {
		ofOneCall := x.member != "agent" && x.member != "run"
		if x.called != x.was && !(wide && ofOneCall) {
			add(Origin, x.member)
		}
	}
	if why := h.who(r); why != "" {
		add(Who, why)
	}
	if n := h.needed(r); n > 1 && h.people(e, d, r.Suspension) < n {
		add(Who, "stage")
	}
	if used {
		add(Spent, "")
	}
	if why := h.stale(e, d, r); why != "" {
		add(Stale, why)
	}
	return append(out, h.unverifiable(d, e)...)
}

// who says why the approver may not approve, or nothing. A requester may where an
// opt-out that is recorded stood at the decision.
func (h History) who(r Review) string {
	p, known := h.People[r.Approver]
	own := r.Approver == r.Requester
	switch {
	case !known:
		return "unknown"
	case r.Approver == r.Agent:
		return "agent"
	case own && !h.optedOut(r.Approver, r.Tick):
		return "requester"
	case !own && (h.end(r.Approver) == h.end(r.Requester) || h.end(r.Approver) == h.end(r.Agent)):
		return "delegate"
	case !p.Approver:
		return "not_approver"
	}
	return ""
}

// end follows those who act for one another to the one at the end. Of those who
// act for each other in a circle, none is.
func (h History) end(id string) string {
	for range len(h.People) {
		p := h.People[id]
		if p.ActsFor == "" {
			break
		}
		id = p.ActsFor
	}
	return id
}

// bounds reads how many calls one approval may be for at most, and how long.
func (c Change) bounds() (uses int, lasts time.Duration, err error) {
	if c.Value == "" {
		return 0, 0, nil
	}
	number, duration, _ := strings.Cut(c.Value, " ")
	if uses, err = strconv.Atoi(number); err != nil {
		return 0, 0, err
	}
	lasts, err = time.ParseDuration(duration)
	return uses, lasts, err
}

// beyond reports whether the view that was decided on was for more calls of the run,
// or for longer, than one approval could be for at that moment.
func (h History) beyond(r Review) (out bool) {
	t, wide := r.runWide()
	out = wide
	for _, c := range h.Changes {
		if wide && c.Kind == RunWideBounded && c.Subject == r.Audience+"/"+r.Tool && c.Tick < r.Tick {
			uses, lasts, _ := c.bounds()
			out = t.uses > uses || t.until.After(r.Time.Add(lasts))
		}
	}
	return out
}

func (c Change) number() int {
	n, _ := strconv.Atoi(c.Value)
	return n
}

// needed is how many people had to approve what a review is about, when it was
// decided.
func (h History) needed(r Review) int {
	n := 1
	for _, c := range h.Changes {
		if c.Kind == ApprovalsNeeded && c.Subject == r.Audience+"/"+r.Tool && c.Tick < r.Tick {
			n = c.number()
		}
	}
	return n
}

// people counts those who approved a suspension, could, and whose approvals held
// for an effect. Whoever acts for a person counts as that person.
func (h History) people(e Effect, d Dispatch, suspension string) int {
	who := map[string]bool{}
	for _, r := range h.Reviews {
		if r.Suspension == suspension && r.Verdict == api.Approve && r.Tick <= e.Tick && h.who(r) == "" && h.stale(e, d, r) == "" {
			who[h.end(r.Approver)] = true
		}
	}
	return len(who)
}

// optedOut reports whether somebody could approve its own requests at some moment.
func (h History) optedOut(person string, at Tick) (out bool) {
	for _, c := range h.Changes {
		if c.Tick < at && c.Subject == person && (c.Kind == SelfApprovalAllowed || c.Kind == SelfApprovalForbidden) {
			out = c.Kind == SelfApprovalAllowed
		}
	}
	return out
}

// stale says why authority did not hold, or nothing: there must be an instant
// between the dispatch's coming in and the effect at which it holds, and the
// effect may follow the last one by MaxLateness at most. Authority under a policy,
// a risk label or an opt-out is back when they are, and when no more people have
// to approve than had to, and one approval may be for as many calls as it is.
func (h History) stale(e Effect, d Dispatch, r Review) string {
	end := r.Expires
	if t, wide := r.runWide(); wide {
		end = t.until
	}
	if !d.Time.Before(end) {
		return "expired"
	}
	if e.Time.Sub(end) > MaxLateness {
		return "expired"
	}
	var (
		now    = authority{policy: r.Policy, risk: r.Risk}
		held   = false // at some instant since the dispatch came in
		ended  time.Time
		ending string
	)
	if h.beyond(r) { // it never held
		return string(RunWideBounded)
	}
	for _, c := range h.Changes {
		if c.Tick < r.Tick || c.Tick > e.Tick {
			continue
		}
		before := now.missing(r)
		held = held || c.Tick >= d.Entered && before == ""
		h.apply(c, r, &now)
		if after := now.missing(r); before == "" && after != "" {
			ended, ending = c.Time, after
		}
	}
	switch {
	case now.missing(r) == "", held && e.Time.Sub(ended) <= MaxLateness:
		return ""
	}
	return ending
}

// authority is what an approval depends on, at an instant.
type authority struct {
	policy, risk string
	more         bool   // people have to approve than had to
	beyond       bool   // what one approval may be for
	forbidden    bool   // the requester decided, and may not any more
	gone         string // the change that ended it for good
}

// missing names the kind of change because of which the authority of an approval
// does not hold, or nothing.
func (a authority) missing(r Review) string {
	switch {
	case a.gone != "":
		return a.gone
	case a.policy != r.Policy:
		return string(PolicyChanged)
	case a.risk != r.Risk:
		return string(RiskChanged)
	case a.more:
		return string(ApprovalsNeeded)
	case a.beyond:
		return string(RunWideBounded)
	case a.forbidden:
		return string(SelfApprovalForbidden)
	}
	return ""
}

// apply makes a change to the authority of an approval.
func (h History) apply(c Change, r Review, a *authority) {
	switch c.Kind {
	case PolicyChanged:
		a.policy = c.Value
	case RiskChanged:
		if c.Subject == r.Audience+"/"+r.Tool {
			a.risk = c.Value
		}
	case AgentDisabled:
		if h.worksFor(r.Agent, c.Subject) {
			a.gone = string(c.Kind)
		}
	case ApprovalRevoked:
		if c.Subject == r.Suspension {
			a.gone = string(c.Kind)
		}
	case CredentialRemoved:
		if c.Subject == r.Approver {
			a.gone = string(c.Kind)
		}
	case ApprovalsNeeded:
		if c.Subject == r.Audience+"/"+r.Tool {
			a.more = c.number() > h.needed(r)
		}
	case RunWideBounded: // a shorter time is for approvals to come
		if t, wide := r.runWide(); wide && c.Subject == r.Audience+"/"+r.Tool {
			uses, _, _ := c.bounds()
			a.beyond = t.uses > uses
		}
	case SelfApprovalAllowed, SelfApprovalForbidden:
		if c.Subject == r.Approver && r.Approver == r.Requester {
			a.forbidden = c.Kind == SelfApprovalForbidden
		}
	}
}

// worksFor reports whether an agent is another, or works for it in the end.
func (h History) worksFor(id, other string) bool {
	for range len(h.People) + 1 {
		if id == other {
			return true
		}
		if id = h.People[id].ActsFor; id == "" {
			break
		}
	}
	return false
}

// unverifiable names the dependencies that were down when the effect was made.
func (h History) unverifiable(d Dispatch, e Effect) []Reason {
	down := map[string]bool{}
	for _, c := range h.Changes {
		if c.Tick > e.Tick {
			continue
		}
		switch c.Kind {
		case DependencyDown:
			down[c.Subject] = true
		case DependencyUp:
			delete(down, c.Subject)
		}
	}
	var out []Reason
	for _, dep := range slices.Sorted(maps.Keys(down)) {
		out = append(out, Reason{Unverifiable, dep})
	}
	return out
}

// material reports whether a path counts: an argument that is marked so, or a
// member of a reference that is.
func material(t api.Tool, path string) bool {
	for _, f := range t.Fields {
		if path == "/"+f.Name {
			return f.Material
		}
		if f.Reference != "" && len(path) > len(f.Name)+2 && path[:len(f.Name)+2] == "/"+f.Name+">" {
			return f.Material
		}
	}
	return false
}
