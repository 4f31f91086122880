package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"countersign/attacks"
	"countersign/gateway/api"
	"countersign/gateway/httpapi"
	"countersign/modes"
	"countersign/oracles/softkey"
	"countersign/scenarios"
	"countersign/scenarios/provider"
)

const (
	// patience is how long who gets no answer tries again. A gateway that is started
	// again reads its log first.
	patience = 3 * time.Minute
	// asksAtMost is how often one call is asked for, which the provider fails to make.
	asksAtMost = 6
	// heldSoon is how often a held call is presented again at once, before it waits.
	heldSoon = 5
	// heldAgain is how long a held call then waits between presentations.
	heldAgain = 5 * time.Second
)

// What is done to the calls, of so many each.
const (
	oneIn   = 1000
	crowded = 150 // presented two to four times at once
	altered = 60  // presented with another value, before
	moved   = 40  // presented to another service, before
	after   = 100 // presented again, when it is done
	faulty  = 40  // meets a fault of the provider
)

// A callState is what became of a call, as its worker was told.
type callState uint8

const (
	callOpen     callState = iota // no end was told
	callExecuted                  // executed, or absorbed: there is an effect
	callHeld
	callRefused
)

// A soaking is a soak in progress.
type soaking struct {
	o        soakOptions
	f        *fleet
	mode     modes.Mode
	sc       *scenarios.Scenario
	fail     context.CancelCauseFunc
	progress func(done, total int)
	judge    *soakJudge

	next     atomic.Int64
	restarts []int // after so many calls, rising

	// By call; of each the one worker that has it writes.
	states   []callState
	approved []bool

	mu       sync.Mutex // of what follows
	done     int
	started  time.Time
	loaded   time.Time // when the last call was made
	quarter  int64     // memory
	faults   map[string]int
	workers  []*soakWorker
	finished time.Time
}

func newSoaking(o soakOptions, f *fleet, m modes.Mode, sc *scenarios.Scenario, fail context.CancelCauseFunc, progress func(int, int)) *soaking {
	s := &soaking{
		o: o, f: f, mode: m, sc: sc, fail: fail, progress: progress, judge: newSoakJudge(sc, o.seed, f.world, o.approvals),
		states: make([]callState, o.approvals), approved: make([]bool, o.approvals), faults: map[string]int{},
	}
	rng := mathrand.New(mathrand.NewPCG(o.seed, 1<<63)) // no call has this number
	for i := range o.restarts {
		from, to := i*o.approvals/o.restarts, (i+1)*o.approvals/o.restarts
		s.restarts = append(s.restarts, max(1, from+rng.IntN(max(1, to-from))))
	}
	return s
}

// work makes all calls.
func (s *soaking) work(ctx context.Context) error {
	for i := range s.o.workers {
		w, err := s.hire(ctx, i)
		if err != nil {
			return fmt.Errorf("enrolling the people of worker %d: %w", i, err)
		}
		s.workers = append(s.workers, w)
	}
	s.started = time.Now()
	group, within := errgroup.WithContext(ctx)
	for _, w := range s.workers {
		group.Go(func() error { return w.run(within) })
	}
	err := group.Wait()
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	s.finished = time.Now()
	return err
}

// over counts a call whose worker goes on to the next, and restarts a gateway when it
// is time for that.
func (s *soaking) over(ctx context.Context) error {
	s.mu.Lock()
	s.done++
	done := s.done
	s.loaded = time.Now()
	if s.progress != nil {
		s.progress(done, len(s.states))
	}
	due := 0
	for len(s.restarts) > 0 && s.restarts[0] <= done {
		s.restarts = s.restarts[1:]
		due++
	}
	if done == (len(s.states)+3)/4 {
		s.quarter = s.f.measure()
	}
	s.mu.Unlock()
	if done%256 == 0 {
		s.judge.take() // so that the ledger is not copied as a whole
	}
	for range due {
		if err := s.f.restart(ctx, mathrand.New(mathrand.NewPCG(s.o.seed, 1<<62+uint64(done))).IntN(len(s.f.gates))); err != nil {
			return err
		}
	}
	return nil
}

// A soakWorker makes one call after the other, with people of its own: a tenant with
// an agent, whom it works for, and an approver with a passkey.
type soakWorker struct {
	*soaking
	id      string
	agent   *attacks.Agent
	token   string // the agent's
	person  api.Auth
	passkey *softkey.Key
	held    []heldCall

	approvals, failed, noAnswers      int
	decides, dispatches               []time.Duration
	decidesLeftOut, dispatchesLeftOut int
	replays, changed, elsewhere       soakTally
	proves                            bool
}

// A heldCall waits to be presented again.
type heldCall struct {
	n, ask   int
	dispatch api.Dispatch
	due      time.Time
	why      string
}

func (s *soaking) hire(ctx context.Context, i int) (*soakWorker, error) {
	w := &soakWorker{soaking: s, id: fmt.Sprintf("worker-%d", i), proves: api.Enforces(s.f.about.Claims, api.BindSender)}
	var err error
	if w.agent, err = attacks.NewAgent("agent-of-" + w.id); err != nil {
		return nil, err
	}
	tenant, requester := "tenant-of-"+w.id, "requester-of-"+w.id
	agent := w.agent.Principal(tenant, requester)
	w.token, w.person = agent.Token, api.Auth{Token: rand.Text()}
	c := s.f.clients[i%len(s.f.clients)]
	for _, p := range []api.Principal{
		{ID: requester, Role: api.RolePerson, Tenant: tenant, Token: rand.Text()},
		{ID: "approver-of-" + w.id, Role: api.RolePerson, Tenant: tenant, Approver: true, Token: w.person.Token},
		agent,
	} {
		if err := c.Admin(ctx, s.f.admin, api.Event{Kind: api.EventEnrol, Principal: &p}); err != nil {
			return nil, err
		}
	}
	w.passkey = softkey.New(s.f.about.Origin)
	options, err := c.BeginEnrolment(ctx, w.person)
	if errors.As(err, new(*api.UnimplementedError)) { // a design without passkeys needs none
		return w, nil
	}
	if err != nil {
		return nil, err
	}
	response, err := w.passkey.Register(options)
	if err != nil {
		return nil, err
	}
	return w, c.FinishEnrolment(ctx, w.person, response)
}

func (w *soakWorker) run(ctx context.Context) error {
	for {
		n := int(w.next.Add(1) - 1)
		if n >= len(w.states) {
			break
		}
		if err := w.call(ctx, n); err != nil {
			return fmt.Errorf("call %d: %w", n, err)
		}
		if err := errors.Join(w.over(ctx), w.presentHeld(ctx)); err != nil {
			return err
		}
	}
	for end := time.Now().Add(w.o.settle); len(w.held) > 0 && time.Now().Before(end); {
		if err := w.presentHeld(ctx); err != nil {
			return err
		}
		if err := pause(ctx, heldAgain/10); err != nil {
			return err
		}
	}
	return nil
}

// A doing is what is done to a call beside what everybody does.
type doing struct {
	copies                     int // presented at once; one of them is the honest one
	sameProof                  bool
	changed, elsewhere, replay bool
	fault                      *provider.Fault
}

func (s *soaking) doingTo(n int) (d doing) {
	rng := mathrand.New(mathrand.NewPCG(s.o.seed, uint64(n)))
	is := func(share int) bool { return rng.IntN(oneIn) < share }
	d.copies = 1
	if is(crowded) {
		d.copies, d.sameProof = 2+rng.IntN(3), rng.IntN(2) == 0
	}
	d.changed, d.elsewhere, d.replay = is(altered), is(moved), is(after)
	if is(faulty) && s.o.faults {
		kinds := []provider.FaultKind{provider.FaultNotSent, provider.FaultDropRequest, provider.FaultDropResponse, provider.FaultDuplicate, provider.FaultError, provider.FaultDelay}
		d.fault = &provider.Fault{Kind: kinds[rng.IntN(len(kinds))]}
		if d.fault.Kind == provider.FaultDelay {
			d.fault.Delay = time.Duration(1+rng.IntN(50)) * time.Millisecond
		}
	}
	return d
}

// soakRequest names a dispatch of a call, so that the ledger says whose an effect is.
func soakRequest(n, ask int, rest string) string { return fmt.Sprintf("call-%d.%d%s", n, ask, rest) }

// call takes one call through approval to its end, or until it is held.
func (w *soakWorker) call(ctx context.Context, n int) error {
	return w.ask(ctx, n, 1, w.doingTo(n))
}

func (w *soakWorker) ask(ctx context.Context, n, ask int, do doing) error {
	in := w.sc.Instance(w.o.seed, n)
	a := api.Action{
		Audience: w.sc.Audience, Tool: in.Tool, Arguments: in.Arguments,
		Run: fmt.Sprintf("run-%d", n), Step: "step", Call: fmt.Sprintf("call-%d", ask),
	}
	carried, err := w.approve(ctx, n, a)
	if err != nil {
		return err
	}
	d := api.Dispatch{Action: a, Carried: carried, RequestID: soakRequest(n, ask, "")}
	if do.changed {
		if other, ok := w.alter(a); ok {
			w.try(ctx, n, api.Dispatch{Action: other, Carried: carried, RequestID: soakRequest(n, ask, "-altered")}, &w.changed)
		}
	}
	if do.elsewhere && w.sc.Sibling != "" {
		other := a
		other.Audience = w.sc.Sibling
		w.try(ctx, n, api.Dispatch{Action: other, Carried: carried, RequestID: soakRequest(n, ask, "-elsewhere")}, &w.elsewhere)
	}
	if do.fault != nil {
		if err := w.f.world.Inject(*do.fault); err != nil {
			return err
		}
		w.mu.Lock()
		w.faults[string(do.fault.Kind)]++
		w.mu.Unlock()
	}
	return w.carryOut(ctx, n, ask, d, do)
}

// alter changes how much of what is called for, or another value.
func (w *soakWorker) alter(a api.Action) (api.Action, bool) {
	for _, role := range []scenarios.Role{scenarios.RoleQuantity, scenarios.RoleDestination, scenarios.RoleText, scenarios.RoleUnit} {
		f, ok := w.sc.Field(role)
		if !ok {
			continue
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(a.Arguments, &members); err != nil {
			return a, false
		}
		members[f.Name] = w.sc.Hostile(role)
		text, err := json.Marshal(members)
		a.Arguments = text
		return a, err == nil
	}
	return a, false
}

// approve has a call suspended, shown and approved, and returns what is carried.
func (w *soakWorker) approve(ctx context.Context, n int, a api.Action) (api.Carried, error) {
	var pending api.Pending
	for end := time.Now().Add(patience); ; {
		err := w.insist(ctx, n, func(c *httpapi.Client) (err error) {
			pending, err = c.Propose(ctx, api.Auth{Token: w.token}, a)
			return err
		})
		if err != nil {
			return api.Carried{}, fmt.Errorf("proposing: %w", err)
		}
		if pending.State != api.StateHeld {
			break
		}
		if time.Now().After(end) {
			return api.Carried{}, errors.New("proposing: held, for an equal call that nobody makes")
		}
		if err := pause(ctx, heldAgain/10); err != nil {
			return api.Carried{}, err
		}
	}
	if pending.State != api.StatePending { // nobody is asked
		return api.Carried{}, nil
	}
	for try := range asksAtMost {
		if err := w.decide(ctx, n, try, pending.Suspension); err != nil && !errors.Is(err, api.ErrConflict) {
			return api.Carried{}, fmt.Errorf("deciding: %w", err)
		}
		var st api.SuspensionStatus
		err := w.insist(ctx, n, func(c *httpapi.Client) (err error) {
			st, err = c.Status(ctx, api.Auth{Token: w.token}, pending.Suspension)
			return err
		})
		if err != nil {
			return api.Carried{}, fmt.Errorf("asking whether it is decided: %w", err)
		}
		if st.Decided && st.Verdict == api.Approve {
			w.approvals++
			w.approved[n] = true
			return st.Carried, nil
		}
	}
	return api.Carried{}, errors.New("deciding: however often it is decided, it is not on record")
}

// decide reads the view and approves it, once. No answer is no error: whether it is
// decided is asked for afterwards.
func (w *soakWorker) decide(ctx context.Context, n, try int, suspension string) error {
	var view api.View
	err := w.insist(ctx, n, func(c *httpapi.Client) (err error) {
		view, err = c.View(ctx, w.person, suspension)
		return err
	})
	if err != nil {
		return fmt.Errorf("reading the view: %w", err)
	}
	d := api.Decision{Suspension: suspension, Verdict: api.Approve, Stage: view.Stage}
	if view.Assertion != nil {
		if d.Assertion, err = w.passkey.Assert(view.Assertion); err != nil {
			return err
		}
	}
	err = timed(w, &w.decides, &w.decidesLeftOut, func() error { return w.client(n+try).Decide(ctx, w.person, d) })
	if !answered(err) {
		w.noAnswers++
		return pause(ctx, 50*time.Millisecond)
	}
	return err
}

func (w *soakWorker) client(i int) *httpapi.Client { return w.f.clients[i%len(w.f.clients)] }

// timed notes how long a call takes that is answered and meets no restart.
func timed(w *soakWorker, into *[]time.Duration, leftOut *int, call func() error) error {
	before, since := w.f.disturbed.Load(), time.Now()
	err := call()
	took := time.Since(since)
	if err != nil || before%2 == 1 || w.f.disturbed.Load() != before {
		*leftOut++
	} else {
		*into = append(*into, took)
	}
	return err
}

// answered says that an error, or none, is a gateway's word, which stands.
func answered(err error) bool {
	if err == nil || errors.As(err, new(*api.RefusedError)) || errors.As(err, new(*api.UnimplementedError)) {
		return true
	}
	return slices.ContainsFunc([]error{api.ErrUnauthenticated, api.ErrForbidden, api.ErrNotFound, api.ErrInvalid, api.ErrConflict},
		func(word error) bool { return errors.Is(err, word) })
}

// insist makes a request until it is answered, at one gateway after the other.
func (w *soakWorker) insist(ctx context.Context, n int, request func(*httpapi.Client) error) error {
	for end, try := time.Now().Add(patience), 0; ; try++ {
		err := request(w.client(n + try))
		if answered(err) {
			return err
		}
		w.noAnswers++
		if time.Now().After(end) {
			return w.f.silent(err)
		}
		if err := pause(ctx, min(time.Second, time.Duration(try+1)*20*time.Millisecond)); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// prove makes the agent's proof for a dispatch, where the design asks for one.
func (w *soakWorker) prove(d api.Dispatch) (auth api.Auth, err error) {
	auth = api.Auth{Token: w.token}
	if w.proves {
		auth.Proof, err = w.agent.Proof("POST", attacks.DispatchURI(w.f.about.DispatchURI, d.Action.Audience), d.Carried.Permit, rand.Text(), time.Now())
	}
	return auth, err
}

// An answer is what a presentation was answered.
type answer struct {
	outcome api.Outcome
	err     error
}

func (a answer) executed() bool {
	return a.err == nil && (a.outcome.Status == api.Executed || a.outcome.Status == api.Absorbed)
}

// present presents a call once, at a gateway, with a proof that is given or fresh.
func (w *soakWorker) present(ctx context.Context, at int, d api.Dispatch, auth api.Auth) (out answer) {
	if auth == (api.Auth{}) {
		if auth, out.err = w.prove(d); out.err != nil {
			return out
		}
	}
	out.outcome, out.err = w.client(at).Dispatch(ctx, auth, d)
	return out
}

// count adds what a presentation came to that should make no effect.
func (t *soakTally) count(a answer) {
	t.Sent++
	switch {
	case !answered(a.err):
		t.NoAnswer++
	case a.err != nil:
		t.Refused++
	default:
		switch a.outcome.Status {
		case api.Executed:
			t.Executed++
		case api.Absorbed:
			t.Absorbed++
		case api.Held:
			t.Held++
		default:
			t.Refused++
		}
	}
}

// try presents a call that must not be executed.
func (w *soakWorker) try(ctx context.Context, n int, d api.Dispatch, t *soakTally) {
	a := w.present(ctx, n, d, api.Auth{})
	t.count(a)
}

// carryOut presents a call until it is executed, refused, or held for longer.
func (w *soakWorker) carryOut(ctx context.Context, n, ask int, d api.Dispatch, do doing) error {
	last, err := w.crowd(ctx, n, d, do)
	if err != nil {
		return err
	}
	why := ""
	for end, try := time.Now().Add(patience), 1; ; try++ {
		switch {
		case last.executed():
			w.states[n] = callExecuted
			if do.replay {
				w.try(ctx, n+1, d, &w.replays)
			}
			return nil
		case last.err == nil && last.outcome.Status == api.Held:
			if why = waitsFor(last.outcome); try > heldSoon {
				w.states[n] = callHeld
				w.held = append(w.held, heldCall{n, ask, d, time.Now().Add(heldAgain), why})
				return nil
			}
		case last.err == nil && w.failedAtProvider(last.outcome) && ask < asksAtMost:
			w.failed++
			return w.ask(ctx, n, ask+1, doing{copies: 1})
		case answered(last.err):
			w.states[n] = callRefused
			return nil
		default:
			w.noAnswers++
			if time.Now().After(end) {
				return w.f.silent(last.err)
			}
		}
		if err := pause(ctx, time.Duration(min(try, 10))*20*time.Millisecond); err != nil {
			return err
		}
		last = w.present(ctx, n+try, d, api.Auth{})
	}
}

// crowd presents a call as often at once as it should be. The answer is the honest
// one's: of several, one that says that the call is executed, or else one that leaves
// it open.
func (w *soakWorker) crowd(ctx context.Context, n int, d api.Dispatch, do doing) (answer, error) {
	if do.copies < 2 {
		auth, err := w.prove(d)
		if err != nil {
			return answer{}, err
		}
		var a answer
		_ = timed(w, &w.dispatches, &w.dispatchesLeftOut, func() error { a = w.present(ctx, n, d, auth); return a.err })
		return a, nil
	}
	var same api.Auth
	if do.sameProof {
		var err error
		if same, err = w.prove(d); err != nil {
			return answer{}, err
		}
	}
	answers := make([]answer, do.copies)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() { answers[i] = w.present(ctx, n+i, d, same) })
	}
	all.Wait()
	// The honest one first: executed, absorbed, anything.
	rank := func(a answer) int {
		switch {
		case a.err == nil && a.outcome.Status == api.Executed:
			return 0
		case a.executed():
			return 1
		}
		return 2
	}
	slices.SortStableFunc(answers, func(a, b answer) int { return rank(a) - rank(b) })
	for _, a := range answers[1:] {
		w.replays.count(a)
	}
	if !answers[0].executed() { // one of the others may have spent the approval
		return w.present(ctx, n, d, api.Auth{}), nil
	}
	return answers[0], nil
}

// failedAtProvider says that the approval was spent for a call that was not made and
// cannot be any more. Only a design that finds out what became of a call says so: it
// would have returned the result.
func (w *soakWorker) failedAtProvider(o api.Outcome) bool {
	return o.Status == api.Refused && w.mode.Has(api.BindIdem) && len(o.Refusals) > 0 &&
		!slices.ContainsFunc(o.Refusals, func(r api.Refusal) bool { return r.Binding != api.BindOnce && r.Binding != api.BindSeen })
}

func waitsFor(o api.Outcome) string {
	if len(o.Refusals) == 0 {
		return ""
	}
	return o.Refusals[0].String()
}

// presentHeld presents those held calls again for which it is time.
func (w *soakWorker) presentHeld(ctx context.Context) error {
	now := time.Now()
	var due []heldCall
	w.held = slices.DeleteFunc(w.held, func(h heldCall) bool {
		is := !now.Before(h.due)
		if is {
			due = append(due, h)
		}
		return is
	})
	for _, h := range due {
		w.states[h.n] = callOpen
		last := w.present(ctx, h.n, h.dispatch, api.Auth{})
		if !answered(last.err) || last.err == nil && last.outcome.Status == api.Held {
			h.due = now.Add(heldAgain)
			if last.err == nil {
				h.why = waitsFor(last.outcome)
			}
			w.states[h.n] = callHeld
			w.held = append(w.held, h)
			continue
		}
		switch {
		case last.executed():
			w.states[h.n] = callExecuted
		case last.err == nil && w.failedAtProvider(last.outcome) && h.ask < asksAtMost:
			w.failed++
			if err := w.ask(ctx, h.n, h.ask+1, doing{copies: 1}); err != nil {
				return err
			}
		default:
			w.states[h.n] = callRefused
		}
	}
	return nil
}
