package attacks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"countersign/attacks/referee"
	"countersign/gateway/api"
	"countersign/oracles"
	"countersign/oracles/softkey"
	"countersign/scenarios"
	"countersign/scenarios/provider"
)

// ApprovalTTL is how long after its suspension an approval may be used, in every
// deployment of the lab.
const ApprovalTTL = 15 * time.Minute

// Start is when every trial begins on the lab's clock.
var Start = time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)

const (
	issuer             = "https://gateway.example"
	origin             = "https://approve.example"
	adminToken         = "token-of-the-admin"
	auditorToken       = "token-of-the-auditor"
	gatewayCredential  = "provider-credential-of-the-gateway"
	firstPolicy        = "policy-1"
	agentsOwn          = "provider-credential-of-an-agent"
	firstRun           = "run-1"
	crashedWhileAsking = "the gateway crashed"
	secretKey          = "key-for-secrets-shared-with-the-page-where-they-are-entered"
)

// An Answer is what a target said to one step, in the words of the records.
type Answer struct {
	Status   api.Status    `json:"status"`
	Refusals []api.Refusal `json:"refusals,omitempty"`
	// Approver says that the approver declined what it was shown.
	Approver bool `json:"approver,omitempty"`
	// Provider is what the service said, as a code, to what reached it past the gate.
	Provider string `json:"provider,omitempty"`
	// Hostile says that the step was the adversary's.
	Hostile bool `json:"hostile,omitempty"`
}

// A Call is one action on its way, with what the person behind it wants.
type Call struct {
	Agent       *Agent
	Action      api.Action
	Want        oracles.Want
	Intent      *oracles.Intent // what the person wants, where that is not Want alone
	State       api.PendingState
	Suspension  string
	SuspendedAt int64

	proposed time.Time
	under    *Call // at whose review the approval was given that this one is granted under
}

// masks returns what a page of the deployment tells people who enter the secrets
// among values, by path.
func masks(t api.Tool, values api.Values) map[string]string {
	var out map[string]string
	for _, f := range t.Fields {
		var secret string
		if f.Secret && json.Unmarshal(values["/"+f.Name], &secret) == nil {
			if out == nil {
				out = map[string]string{}
			}
			out["/"+f.Name] = api.SecretText([]byte(secretKey), secret)
		}
	}
	return out
}

func (c *Call) intent() oracles.Intent {
	if c.Intent != nil {
		return *c.Intent
	}
	return oracles.Intent{Wants: []oracles.Want{c.Want}}
}

// In returns a copy of the call in another place of the agent's work.
func (c Call) In(run, step, call string) *Call {
	c.Action.Run, c.Action.Step, c.Action.Call = run, step, call
	return &c
}

// By returns a copy of the call made by another agent.
func (c Call) By(a *Agent) *Call {
	c.Agent = a
	return &c
}

// Args returns the arguments of the call.
func (c *Call) Args() Arguments {
	a, err := ParseArguments(c.Action.Arguments)
	if err != nil {
		panic(stop{err})
	}
	return a
}

// A Message is what waits in the queue between approval and dispatch.
type Message struct {
	Agent    *Agent
	Dispatch api.Dispatch

	collected *Message // what the worker had before anything was done to it
}

// With returns a copy that was changed in the queue.
func (m Message) With(change func(*api.Dispatch)) Message {
	change(&m.Dispatch)
	return m
}

// stop ends a script. A nil error is an orderly end: a step was refused.
type stop struct{ err error }

// A Stage is one trial's world: a fresh target, provider and cast, and the
// history of what happened.
type Stage struct {
	Scenario *scenarios.Scenario
	Seed     uint64

	ctx    context.Context
	target api.Target
	lab    api.Lab
	// unscheduled: the lab cannot keep the order of a race; raced: there was one.
	unscheduled, raced bool
	about              api.Description
	world              *provider.World
	oracle             oracles.Approver
	agents             map[string]*Agent
	persons            map[string]*Person
	clock              *clock
	ticks              referee.Tick
	policy             string
	labels             map[string]string
	people             map[string]int // audience/tool → how many have to approve
	requests           int
	proofs             int
	newest             map[string]string // run, step, call → suspension
	tampered           bool
	asserted           json.RawMessage // the newest honest assertion
	network            network

	// History is what the referee judges from; Answers is what the target said;
	// Prompts and Characters are the approvers' work.
	// Events tell the same as a story.
	History    referee.History
	Answers    []Answer
	Events     []Event
	Prompts    int
	Characters int
}

// clock is the lab's: true time, and what the deployment's clock shows.
type clock struct {
	now     time.Time
	skew    time.Duration
	missing bool
}

func (c *clock) Now() (time.Time, error) {
	if c.missing {
		return time.Time{}, errors.New("the clock is missing")
	}
	return c.now.Add(c.skew), nil
}

// trueClock shows the true time to the provider.
type trueClock struct{ c *clock }

func (t trueClock) Now() (time.Time, error) { return t.c.now, nil }

// NewStage deploys a target and prepares its world.
func NewStage(ctx context.Context, deploy api.Factory, sc *scenarios.Scenario, seed uint64, oracle oracles.Approver) (*Stage, error) {
	s, err := deployStage(ctx, deploy, settingOf(sc), oracle)
	if err != nil {
		return nil, err
	}
	s.Scenario, s.Seed = sc, seed
	return s, s.enrolCast()
}

// settingOf is the part of a scenario that the provider is made of.
func settingOf(sc *scenarios.Scenario) provider.Config {
	tools := sc.ToolTable()
	if t, ok := sc.Tool(sc.HonestTool); ok {
		t.Audience = staging(sc)
		tools = append(tools, t)
	}
	return provider.Config{Tools: tools, Records: sc.Records, Reader: provider.Reader(sc.Reader)}
}

// staging is the service with which a deployment tries things out, beside the one
// that counts. It has the honest tool.
func staging(sc *scenarios.Scenario) string { return "staging." + sc.Audience }

func deployStage(ctx context.Context, deploy api.Factory, setting provider.Config, oracle oracles.Approver) (*Stage, error) {
	s := &Stage{
		ctx: ctx, oracle: oracle, clock: &clock{now: Start}, policy: firstPolicy,
		agents: map[string]*Agent{}, persons: map[string]*Person{}, labels: map[string]string{}, people: map[string]int{}, newest: map[string]string{},
	}
	setting.Clock = trueClock{s.clock}
	setting.Delay = func(_ context.Context, d time.Duration) { s.clock.now = s.clock.now.Add(d) }
	world, err := provider.New(setting)
	if err != nil {
		return nil, fmt.Errorf("preparing the provider: %w", err)
	}
	s.world = world
	tools := setting.Tools
	s.History = referee.History{Tools: tools, People: people()}
	bench, err := deploy(ctx, api.Deployment{
		Issuer: issuer, Tools: tools, Provider: watched{world, s}, Directory: world, Clock: s.clock, ApprovalTTL: ApprovalTTL,
		AdminToken: adminToken, AuditorToken: auditorToken, Origin: origin, ProviderCredential: gatewayCredential,
		SecretKey: []byte(secretKey),
	})
	if err != nil {
		return nil, fmt.Errorf("deploying the target: %w", err)
	}
	s.target, s.lab, s.unscheduled = bench.Target, bench.Lab, bench.Unscheduled
	if s.about, err = s.target.Describe(ctx); err != nil {
		return nil, fmt.Errorf("asking the target what it is: %w", err)
	}
	return s, nil
}

func (s *Stage) enrolCast() error {
	for _, p := range cast {
		p.Token = token(p.ID)
		if p.Role == api.RoleAgent {
			a, err := NewAgent(p.ID)
			if err != nil {
				return err
			}
			s.agents[p.ID], p.Key = a, a.jwk
		}
		if err := s.target.Admin(s.ctx, api.Auth{Token: adminToken}, api.Event{Kind: api.EventEnrol, Principal: &p}); err != nil {
			return fmt.Errorf("enrolling %s: %w", p.ID, err)
		}
	}
	return nil
}

// person returns somebody of the cast with a passkey, which is enrolled when it
// is first needed.
func (s *Stage) person(id string) *Person {
	if p := s.persons[id]; p != nil {
		return p
	}
	p := &Person{ID: id, key: softkey.New(s.about.Origin)}
	options, err := s.target.BeginEnrolment(s.ctx, auth(id))
	var unimplemented *api.UnimplementedError
	if !errors.As(err, &unimplemented) { // a target without passkeys needs none
		s.must(err)
		response, err := p.key.Register(options)
		s.must(err)
		s.must(s.target.FinishEnrolment(s.ctx, auth(id), response))
	}
	s.persons[id] = p
	return p
}

// Perform runs a script to its end. The error says that the trial could not be
// carried out; a refusal is no error.
func (s *Stage) Perform(run func(*Stage)) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case stop:
			err = r.err
		default:
			panic(r)
		}
	}()
	run(s)
	return nil
}

func (s *Stage) must(err error) {
	if err != nil {
		panic(stop{err})
	}
}

func (s *Stage) tick() referee.Tick {
	s.ticks++
	return s.ticks
}

// now is the true time.
func (s *Stage) now() time.Time { return s.clock.now }

func (s *Stage) tool(a api.Action) api.Tool {
	for _, t := range s.History.Tools {
		if t.Audience == a.Audience && t.Name == a.Tool {
			return t
		}
	}
	panic(stop{fmt.Errorf("the scenario has no tool %s/%s", a.Audience, a.Tool)})
}

func (s *Stage) risk(t api.Tool) string {
	if l, ok := s.labels[t.Audience+"/"+t.Name]; ok {
		return l
	}
	return t.Risk
}

// needed is how many people have to approve a tool.
func (s *Stage) needed(t api.Tool) int { return max(1, s.people[t.Audience+"/"+t.Name]) }

// Field returns the name of the argument that plays a role.
func (s *Stage) Field(r scenarios.Role) string {
	f, ok := s.Scenario.Field(r)
	if !ok {
		panic(stop{fmt.Errorf("scenario %s has no field for the role %s", s.Scenario.ID, r)})
	}
	return f.Name
}

// Tamper announces the adversary's step: what is answered from here on answers
// the adversary.
func (s *Stage) Tamper() {
	if !s.tampered {
		s.event(Event{Kind: EventTampered, Who: theAdversary})
	}
	s.tampered = true
}

// Nondeterministic reports whether callers raced whose order nobody kept.
func (s *Stage) Nondeterministic() bool { return s.unscheduled && s.raced }

// Tampered reports whether the script reached the adversary's step.
func (s *Stage) Tampered() bool { return s.tampered }

func (s *Stage) answer(a Answer) {
	a.Hostile = s.tampered
	s.Answers = append(s.Answers, a)
	if !a.Approver { // that is in the story as a decision
		who := theTarget
		if a.Provider != "" {
			who = theService
		}
		s.event(Event{Kind: EventAnswered, Who: who, Text: a.Provider, Status: a.Status, Refusals: a.Refusals})
	}
}

// refused records a refusal and ends the script; any other error ends the trial.
func (s *Stage) refused(err error) {
	var r *api.RefusedError
	if errors.As(err, &r) {
		s.answer(Answer{Status: api.Refused, Refusals: r.Refusals})
		panic(stop{})
	}
	panic(stop{err})
}

// Call returns the n-th honest action of the trial, made by the first agent in
// its first run.
func (s *Stage) Call(n int) *Call {
	in := s.Scenario.Instance(s.Seed, n)
	id := strconv.Itoa(n + 1)
	c := &Call{
		Agent: s.agents[agentA],
		Action: api.Action{
			Audience: s.Scenario.Audience, Tool: in.Tool, Arguments: in.Arguments,
			Run: firstRun, Step: "step-" + id, Call: "call-" + id,
		},
		Want: oracles.Want{Audience: s.Scenario.Audience, Tool: in.Tool, Values: in.Wants, Free: map[string]bool{}},
	}
	c.Want.Title = s.tool(c.Action).Title
	wanted := api.Values{}
	for path, text := range in.Wants {
		wanted[path] = quoted(text)
	}
	c.Want.Masks = masks(s.tool(c.Action), wanted)
	for _, name := range in.Free {
		c.Want.Free[name] = true
	}
	return c
}

// Propose asks for approval of a call.
func (s *Stage) Propose(c *Call) {
	c.proposed = s.now()
	s.event(Event{Kind: EventProposed, Who: c.Agent.ID, Call: sent(c.Action)})
	p, err := s.target.Propose(s.ctx, api.Auth{Token: c.Agent.token}, c.Action)
	if err != nil {
		s.refused(err)
	}
	c.State, c.Suspension, c.SuspendedAt = p.State, p.Suspension, p.SuspendedAt
	s.event(Event{Kind: EventSuspended, Who: theTarget, State: p.State, Suspension: p.Suspension})
	switch p.State {
	case api.StatePending, api.StateGranted:
		if p.Suspension != "" {
			s.newest[place(c.Action)] = p.Suspension
		}
	case api.StateHeld:
		s.answer(Answer{Status: api.Held, Refusals: []api.Refusal{{Binding: api.BindIdem, Code: "unreconciled"}}})
		panic(stop{})
	}
}

func place(a api.Action) string { return a.Run + "\x00" + a.Step + "\x00" + a.Call }

// Review lets the approver look at a pending call and decide.
func (s *Stage) Review(c *Call) { s.ReviewBy(c, approver) }

// ReviewIn lets the approver read the call in a medium and decide.
func (s *Stage) ReviewIn(c *Call, m api.Medium) { s.review(c, approver, m) }

// ReviewBy lets a person decide.
func (s *Stage) ReviewBy(c *Call, id string) { s.review(c, id, "") }

// review lets a person decide on the view's data, or on what there is to see of it
// in a medium.
func (s *Stage) review(c *Call, id string, m api.Medium) {
	if c.State != api.StatePending {
		return
	}
	o := s.look(c, id, m)
	s.decide(c, id, o.view, o.decision, o.why)
	s.goOnIf(o)
}

// An opinion is what a person makes of a view.
type opinion struct {
	view     api.View
	decision api.Decision
	why      string
}

// goOnIf ends the script where the approver declined.
func (s *Stage) goOnIf(o opinion) {
	if o.decision.Verdict != api.Approve {
		s.answer(Answer{Status: api.Refused, Approver: true})
		panic(stop{})
	}
}

// look lets a person read a pending call and make up their mind.
func (s *Stage) look(c *Call, id string, m api.Medium) opinion {
	view := s.view(c, id)
	if m != "" {
		rendering, ok := view.Rendered[m]
		if !ok {
			panic(stop{&api.UnimplementedError{Feature: "views as " + string(m), Reason: "the target renders none"}})
		}
		var err error
		view, err = oracles.See(m, rendering, view)
		s.must(err)
	}
	return s.consider(c, id, view, m, c.intent())
}

// view is what a person is shown of a pending call.
func (s *Stage) view(c *Call, id string) api.View {
	s.person(id)
	view, err := s.target.View(s.ctx, auth(id), c.Suspension)
	if err != nil {
		s.refused(err)
	}
	return view
}

// consider lets a person make up their mind about a view.
func (s *Stage) consider(c *Call, id string, view api.View, m api.Medium, in oracles.Intent) opinion {
	view.Rendered, view.Offer = nil, nil
	s.event(Event{Kind: EventShown, Who: id, Text: string(m), View: &view})
	reading := s.oracle.Decide(view, in)
	s.Prompts++
	s.Characters += reading.Characters
	d := api.Decision{Suspension: c.Suspension, Verdict: reading.Verdict, Stage: view.Stage, RunWide: view.RunWide}
	if len(view.Assertion) > 0 && d.Verdict == api.Approve {
		var err error
		d.Assertion, err = s.person(id).key.Assert(view.Assertion)
		s.must(err)
		s.asserted = d.Assertion
	}
	return opinion{view, d, reading.Why}
}

// ReviewTogether lets several people read the call before any of them decides; then
// each posts a decision. The target may tell all but the first that it is decided.
func (s *Stage) ReviewTogether(c *Call, ids ...string) {
	if c.State != api.StatePending {
		return
	}
	opinions := make([]opinion, len(ids))
	for i, id := range ids {
		opinions[i] = s.look(c, id, "")
	}
	for i, o := range opinions {
		if i == 0 {
			s.decide(c, ids[i], o.view, o.decision, o.why)
		} else {
			s.decideAgain(c, ids[i], o)
		}
		s.goOnIf(o)
	}
}

// ReviewTwice lets the approver decide, and posts that decision a second time, as
// a client does that got no answer.
func (s *Stage) ReviewTwice(c *Call) {
	if c.State != api.StatePending {
		return
	}
	o := s.look(c, approver, "")
	s.decide(c, approver, o.view, o.decision, o.why)
	s.decideAgain(c, approver, o)
	s.goOnIf(o)
}

// decideAgain posts one more decision on a call that was decided. The script goes
// on whatever the target says to that.
func (s *Stage) decideAgain(c *Call, id string, o opinion) {
	var r *api.RefusedError
	switch err := s.post(c, id, o.view, o.decision, o.why); {
	case err == nil:
	case errors.Is(err, api.ErrConflict), errors.As(err, &r):
		s.happened(theTarget, "does not take this decision beside the first")
	default:
		panic(stop{err})
	}
}

// Decide posts a decision as somebody, and notes it as that somebody's.
func (s *Stage) Decide(c *Call, id string, view api.View, d api.Decision) {
	s.decide(c, id, view, d, "")
}

func (s *Stage) decide(c *Call, id string, view api.View, d api.Decision, why string) {
	if err := s.post(c, id, view, d, why); err != nil {
		s.refused(err)
	}
}

// post posts a decision and, if the target takes it, notes it.
func (s *Stage) post(c *Call, id string, view api.View, d api.Decision, why string) error {
	s.event(Event{Kind: EventDecided, Who: id, Verdict: d.Verdict, Suspension: c.Suspension, Text: why})
	review := s.reviewOf(c, id, view, d)
	if err := s.target.Decide(s.ctx, auth(id), d); err != nil {
		return err
	}
	s.stands(review)
	return nil
}

// reviewOf is a decision as the referee is told of it.
func (s *Stage) reviewOf(c *Call, id string, view api.View, d api.Decision) referee.Review {
	review := referee.Review{
		Time: s.now(), Approver: id, Verdict: d.Verdict, View: view, Suspension: c.Suspension,
		Agent: c.Agent.ID, Requester: requesterOf(c.Agent.ID), Run: c.Action.Run, Step: c.Action.Step, Call: c.Action.Call,
		Audience: c.Action.Audience, Tool: c.Action.Tool, Expires: c.proposed.Add(ApprovalTTL),
		Policy: s.policy, Risk: s.risk(s.tool(c.Action)),
	}
	if v, err := s.world.Preview(s.ctx, api.ProviderRequest{Audience: c.Action.Audience, Tool: c.Action.Tool, Body: c.Action.Arguments}); err == nil {
		review.Values, review.Masks = v, masks(s.tool(c.Action), v)
	}
	return review
}

// stands notes a decision that the target has taken.
func (s *Stage) stands(r referee.Review) {
	r.Tick = s.tick()
	s.History.Reviews = append(s.History.Reviews, r)
}

// Collect returns what the worker then holds for a call.
func (s *Stage) Collect(c *Call) Message {
	m := Message{Agent: c.Agent, Dispatch: api.Dispatch{Action: c.Action}}
	if c.Suspension != "" {
		st, err := s.target.Status(s.ctx, api.Auth{Token: c.Agent.token}, c.Suspension)
		s.must(err)
		m.Dispatch.Carried = st.Carried
	}
	collected := m
	m.collected = &collected
	return m
}

// Ask is the honest way to a message: propose, have it reviewed, collect.
func (s *Stage) Ask(c *Call) Message {
	s.Propose(c)
	s.Review(c)
	return s.Collect(c)
}

// Dispatch presents a message at the enforcement point.
func (s *Stage) Dispatch(m Message) api.Outcome {
	return s.dispatch(s.ctx, s.target, m, s.nextRequest())
}

// DispatchAt presents a message at another instance.
func (s *Stage) DispatchAt(t api.Target, m Message) api.Outcome {
	return s.dispatch(s.ctx, t, m, s.nextRequest())
}

func (s *Stage) nextRequest() string {
	s.requests++
	return "req-" + strconv.Itoa(s.requests)
}

func (s *Stage) dispatch(ctx context.Context, t api.Target, m Message, id string) api.Outcome {
	o, err := s.present(ctx, t, m, id)
	if err != nil {
		s.refused(err)
	}
	s.outcome(o)
	return o
}

func (s *Stage) outcome(o api.Outcome) {
	s.answer(Answer{Status: o.Status, Refusals: o.Refusals})
	for _, sibling := range o.Siblings {
		s.answer(Answer{Status: sibling.Status, Refusals: sibling.Refusals})
	}
}

// present makes the agent's proof and calls the enforcement point.
func (s *Stage) present(ctx context.Context, t api.Target, m Message, id string) (api.Outcome, error) {
	m.Dispatch.RequestID = id
	for i, a := range append([]api.Action{m.Dispatch.Action}, m.Dispatch.Siblings...) {
		rid := id
		if i > 0 {
			rid = fmt.Sprintf("%s/%d", id, i)
		}
		s.note(rid, m.Agent.ID, a)
	}
	s.event(Event{Kind: EventDispatched, Who: m.Agent.ID, Call: sent(m.Dispatch.Action), Changed: m.changes()})
	// The worker reads the time where the gate does, as from a Date header.
	at := s.clock.now.Add(s.clock.skew)
	s.proofs++
	proof, err := m.Agent.Proof("POST", DispatchURI(s.about.DispatchURI, m.Dispatch.Action.Audience),
		m.Dispatch.Carried.Permit, fmt.Sprintf("proof-%d", s.proofs), at)
	if err != nil {
		return api.Outcome{}, err
	}
	return t.Dispatch(ctx, api.Auth{Token: m.Agent.token, Proof: proof}, m.Dispatch)
}

func (s *Stage) note(requestID, agent string, a api.Action) {
	s.History.Dispatches = append(s.History.Dispatches, referee.Dispatch{
		RequestID: requestID, Entered: s.tick(), Time: s.now(), Agent: agent,
		Run: a.Run, Step: a.Step, Call: a.Call, Suspension: s.newest[place(a)],
	})
}

// Race presents a message from n workers at once: all of them pass the checks
// before any of them consumes, and they go on in an order drawn from the seed.
func (s *Stage) Race(m Message, n int) { s.RaceOf(slices.Repeat([]Message{m}, n)...) }

// RaceOf is Race for workers that have a message each.
func (s *Stage) RaceOf(ms ...Message) {
	n := len(ms)
	s.needLab("racing callers")
	s.raced = true
	s.happened(theWorker, "runs %d copies of itself, and each presents its message: all pass the checks before any of them spends the approval", n)
	ids := make([]string, n)
	order := make([]int, n)
	for i := range n {
		ids[i], order[i] = s.nextRequest(), i
	}
	shuffle(order, s.Seed)
	type result struct {
		o   api.Outcome
		err error
	}
	results := make([]result, n)
	s.lab.Race(s.ctx, order, func(ctx context.Context, i int) {
		defer func() { // a caller is a goroutine of its own, where a panic would end the whole run
			if r := recover(); r != nil {
				results[i].err = fmt.Errorf("panic: %v", r)
			}
		}()
		results[i].o, results[i].err = s.present(ctx, s.target, ms[i], ids[i])
	})
	for _, r := range results {
		if r.err != nil {
			s.refused(r.err)
		}
		s.outcome(r.o)
	}
}

// shuffle is Fisher and Yates with a small generator (SplitMix64), so that the
// order is the seed's alone.
func shuffle(order []int, seed uint64) {
	for i := len(order) - 1; i > 0; i-- {
		seed += 0x9E3779B97F4A7C15
		z := seed
		z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
		z = (z ^ z>>27) * 0x94D049BB133111EB
		j := int((z ^ z>>31) % uint64(i+1))
		order[i], order[j] = order[j], order[i]
	}
}

// Direct calls the provider itself, with the credential that agents hold.
func (s *Stage) Direct(c *Call) {
	id := s.nextRequest()
	s.note(id, c.Agent.ID, c.Action)
	s.event(Event{Kind: EventDispatched, Who: c.Agent.ID, Call: sent(c.Action), Text: "past the gate, at the service itself"})
	_, err := watched{s.world, s}.Execute(s.ctx, api.ProviderRequest{
		Credential: agentsOwn, Audience: c.Action.Audience, Tool: c.Action.Tool, Body: c.Action.Arguments, RequestID: id,
	})
	var pe *api.ProviderError
	switch {
	case err == nil:
		s.answer(Answer{Status: api.Executed})
	case errors.As(err, &pe) && pe.Code == "credential":
		s.answer(Answer{Status: api.Refused, Refusals: []api.Refusal{{Binding: api.BindMediated, Code: "credential"}}})
	default:
		panic(stop{err})
	}
}

// DispatchInto presents a message to a gateway that is about to crash; the worker
// learns nothing.
func (s *Stage) DispatchInto(m Message) {
	id := s.nextRequest()
	_, _ = s.present(s.ctx, s.target, m, id)
	s.happened(theWorker, "gets no answer")
}

// Crash presents a message to a gateway that crashes when it reaches a step, and
// starts it again.
func (s *Stage) Crash(step api.Step, m Message) {
	s.needLab("crash points")
	s.lab.At(step, func(context.Context) error {
		s.happened(theTarget, "crashes when it %s", stepText(step))
		return errors.New(crashedWhileAsking)
	})
	s.DispatchInto(m)
	s.Restart()
}

// During does something when the next dispatch reaches a step.
func (s *Stage) During(step api.Step, f func()) {
	s.needLab("steps of a dispatch")
	s.lab.At(step, func(context.Context) error {
		s.happened(theTarget, "%s; in this very moment something else happens", stepText(step))
		f()
		return nil
	})
}

// Restart replaces the gateway's process.
func (s *Stage) Restart() {
	s.needLab("a restart")
	s.happened(theTarget, "is restarted: what it had in memory only is gone, its store is kept")
	s.must(s.lab.Restart(s.ctx))
}

// Second starts another instance over the same store.
func (s *Stage) Second() api.Target {
	s.needLab("a second instance")
	t, err := s.lab.Second(s.ctx)
	s.must(err)
	s.happened(theTarget, "has a second instance over the same store")
	return t
}

func (s *Stage) needLab(feature string) {
	if s.lab == nil {
		panic(stop{&api.UnimplementedError{Feature: feature, Reason: "the target offers the lab no control of it"}})
	}
}

// Wait lets time pass.
func (s *Stage) Wait(d time.Duration) {
	s.clock.now = s.clock.now.Add(d)
	s.happened(theLab, "lets %s pass", duration(d))
}

// ClockBack sets the deployment's clock back.
func (s *Stage) ClockBack(d time.Duration) {
	s.clock.skew -= d
	s.happened(theAdversary, "sets the deployment's clock back by %s", duration(d))
}

// Down makes a dependency fail; Up makes it work again.
func (s *Stage) Down(dep api.Dependency) { s.Break(dep, api.FaultDown) }

// Up makes a dependency work again.
func (s *Stage) Up(dep api.Dependency) { s.Break(dep, api.FaultNone) }

// Break makes a dependency fail in a certain way.
func (s *Stage) Break(dep api.Dependency, f api.Fault) {
	if dep == api.DepClock {
		s.clock.missing = f != api.FaultNone
	} else {
		s.needLab("an outage of the " + string(dep))
		s.lab.Fault(dep, f)
	}
	kind := referee.DependencyUp
	if f != api.FaultNone {
		kind = referee.DependencyDown
	}
	s.change(kind, string(dep), string(f))
}

func (s *Stage) change(kind referee.ChangeKind, subject, value string) {
	s.History.Changes = append(s.History.Changes, referee.Change{Tick: s.tick(), Time: s.now(), Kind: kind, Subject: subject, Value: value})
	s.happened(theLab, "%s", changeText(kind, subject, value))
}

// admin applies an administrative event, as the environment does.
func (s *Stage) admin(e api.Event) {
	s.must(s.target.Admin(s.ctx, api.Auth{Token: adminToken}, e))
}

// Disable disables an agent.
func (s *Stage) Disable(a *Agent) {
	s.admin(api.Event{Kind: api.EventDisableAgent, Subject: a.ID})
	s.change(referee.AgentDisabled, a.ID, "")
}

// Revoke withdraws the approval of a call.
func (s *Stage) Revoke(c *Call) {
	if c.Suspension == "" {
		return // nothing was approved
	}
	s.admin(api.Event{Kind: api.EventRevoke, Subject: c.Suspension})
	if c.under != nil {
		c = c.under
	}
	s.change(referee.ApprovalRevoked, c.Suspension, "")
}

// ChangePolicy puts another version of the policy into force.
func (s *Stage) ChangePolicy(version string) {
	s.policy = version
	s.admin(api.Event{Kind: api.EventPolicyChange, Value: version})
	s.change(referee.PolicyChanged, "", version)
}

// RaiseRisk gives the tool of a call another risk label.
func (s *Stage) RaiseRisk(c *Call, label string) {
	name := c.Action.Audience + "/" + c.Action.Tool
	s.labels[name] = label
	s.admin(api.Event{Kind: api.EventRiskLabel, Subject: name, Value: label})
	s.change(referee.RiskChanged, name, label)
}

// NeedPeople has the policy ask for so many people, one after the other, to approve
// the tool of a call.
func (s *Stage) NeedPeople(c *Call, n int) {
	name := c.Action.Audience + "/" + c.Action.Tool
	s.people[name] = n
	s.admin(api.Event{Kind: api.EventApprovals, Subject: name, Value: strconv.Itoa(n)})
	s.change(referee.ApprovalsNeeded, name, strconv.Itoa(n))
}

// RemoveCredentials removes a person's passkeys.
func (s *Stage) RemoveCredentials(id string) {
	s.admin(api.Event{Kind: api.EventRemoveCredential, Subject: id})
	s.change(referee.CredentialRemoved, id, "")
}

// AllowSelfApproval records that a person may approve what it requests itself.
func (s *Stage) AllowSelfApproval(id, reason string) {
	s.admin(api.Event{Kind: api.EventAllowSelfApproval, Subject: id, Value: reason})
	s.change(referee.SelfApprovalAllowed, id, reason)
}

// ForbidSelfApproval withdraws that.
func (s *Stage) ForbidSelfApproval(id string) {
	s.admin(api.Event{Kind: api.EventForbidSelfApproval, Subject: id})
	s.change(referee.SelfApprovalForbidden, id, "")
}

// Drift changes the referenced record, by a legitimate event outside.
func (s *Stage) Drift() {
	kind, id := s.Scenario.Reference()
	s.must(s.world.SetRecord(kind, id, s.Scenario.Drift()))
	s.happened(theLab, "changes the %s %s, outside of the gate: %s", kind, id, membersText(s.Scenario.Drift()))
}

// Lose queues what the network does to the next calls of the provider.
func (s *Stage) Lose(kinds ...provider.FaultKind) {
	for _, k := range kinds {
		s.must(s.world.Inject(provider.Fault{Kind: k}))
		s.happened(theNetwork, "%s", faultText(k))
	}
}

// watched notes when effects are made.
type watched struct {
	*provider.World
	s *Stage
}

func (w watched) Execute(ctx context.Context, r api.ProviderRequest) (api.ProviderResult, error) {
	if w.s.network.keeps(r) {
		return api.ProviderResult{}, api.ErrNoAnswer
	}
	res, err := w.World.Execute(ctx, r)
	for _, e := range w.Since(len(w.s.History.Effects)) {
		w.s.History.Effects = append(w.s.History.Effects, referee.Effect{
			Tick: w.s.tick(), Time: e.Time, RequestID: e.RequestID, Audience: e.Audience, Tool: e.Tool, Values: e.Values,
		})
		w.s.event(Event{Kind: EventExecuted, Who: theService, Text: e.Tool + " at " + e.Audience, Values: e.Values})
	}
	return res, err
}

// Honest is the plain run of a scenario: one call, approved and executed.
func Honest(s *Stage) { s.Dispatch(s.Ask(s.Call(0))) }

// Undecided is the plain run without its approval: the call is presented although
// nobody has decided on it. What executes that is no gate.
func Undecided(s *Stage) {
	c := s.Call(0)
	s.Propose(c)
	s.Tamper()
	s.Dispatch(s.Collect(c))
}

// textOf returns a string argument.
func textOf(v json.RawMessage) string {
	var t string
	if err := json.Unmarshal(v, &t); err != nil {
		panic(stop{fmt.Errorf("%s is not a string: %w", v, err)})
	}
	return t
}

// ClaimsOf deploys a target and returns the bindings it claims.
func ClaimsOf(ctx context.Context, deploy api.Factory, sc *scenarios.Scenario) ([]api.Binding, error) {
	s, err := deployStage(ctx, deploy, settingOf(sc), nil)
	if err != nil {
		return nil, err
	}
	return s.about.Claims, nil
}
