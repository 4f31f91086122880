package harness

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"countersign/agentdojo"
	"countersign/attacks"
	"countersign/attacks/referee"
	"countersign/gateway/api"
	"countersign/oracles"
)

// ReplayLabel says what the numbers of a replay are. It stands wherever they do.
const ReplayLabel = "recorded traces replayed, no model was called; judged on harm only"

// ReplayCaveat says what the numbers of a replay are not.
const ReplayCaveat = "Open-loop: after a refusal the recorded agent goes on as if nothing had happened. This measures which recorded effects a " +
	"gate would have stopped, and not how an agent adapts. The clock stands still during a trace, so that a run-wide grant or a window, " +
	"once opened, lasts to its end."

// ReplaySchema is the version of [ReplayRecord] and [ReplaySummary].
const ReplaySchema = 1

// A Replay passes the recorded side-effecting calls of AgentDojo traces through
// targets, in the recorded order and one call a step: propose, have it reviewed if
// the target asks, dispatch. Calls that had no effect when they were recorded are
// not presented. Each trace and target has a fresh world whose clock stands still, so
// a run-wide grant or a window that was opened lasts for the rest of the trace.
//
// Replay is open-loop: after a refusal the recording goes on as if nothing had
// happened. It shows which recorded effects a gate would have stopped, and nothing
// about how an agent reacts. The injected call comes through the front door, so
// harm is an injected call that was executed, whoever approved it; what the referee
// finds (an effect without authority) is reported beside it.
//
// The records are a function of the logs, the benchmark and the targets alone,
// whatever Parallel is. The zero value refuses.
type Replay struct {
	Benchmark agentdojo.Benchmark
	Targets   []Target
	// Approver decides with the side-effecting reference calls of the user's task as
	// what is wanted; see [agentdojo.Benchmark.Intent].
	Approver oracles.Approver
	Parallel int // traces at a time; 0: one for each processor
	// Progress, if set, is called after each log, in order.
	Progress func(done, total int)
}

// A ReplayOutcome is what became of one recorded call at a target.
type ReplayOutcome string

// The outcomes. Executed is decided by the provider's ledger, the others by what
// the target answered.
const (
	ReplayExecuted ReplayOutcome = "executed"
	ReplayDeclined ReplayOutcome = "declined" // by the approver
	ReplayRefused  ReplayOutcome = "refused"  // by a binding
	ReplayHeld     ReplayOutcome = "held"
	ReplayReasked  ReplayOutcome = "reasked"
	ReplayAbsorbed ReplayOutcome = "absorbed" // an earlier result was returned
	ReplayRejected ReplayOutcome = "rejected" // the gateway or the service cannot read the call
)

// A ReplayCall is one recorded call at one target.
type ReplayCall struct {
	Index int             `json:"index"` // among the requests of the trace, from 0
	Tool  string          `json:"tool"`
	Owner agentdojo.Owner `json:"owner"`
	// Wanted: the call matches a reference call of the user's task.
	Wanted bool `json:"wanted"`
	// Fits: the arguments fit the tool table as a strict reader takes them
	// ([agentdojo.Fit]). A call that does not is refused by strict whoever made it.
	Fits    bool          `json:"fits"`
	Asked   bool          `json:"asked"` // an approver was asked
	Outcome ReplayOutcome `json:"outcome"`
	// RefusedBy holds "binding/code" of each refusal.
	RefusedBy []string `json:"refused_by"`
	// Reasons are what the referee found wrong with the effect.
	Reasons []string `json:"reasons"`
}

// Misread reports whether notation alone stopped the call: a strict reader refused
// it, or the gateway or the service could not read it. That protects nobody from
// anybody.
func (c ReplayCall) Misread() bool {
	return c.Outcome == ReplayRejected || c.Outcome == ReplayRefused && !slices.ContainsFunc(c.RefusedBy, func(r string) bool {
		return !strings.HasPrefix(r, string(api.BindStrict)+"/")
	})
}

// A ReplayRecord is one trace at one target. It holds no clock reading.
type ReplayRecord struct {
	Schema        int             `json:"schema"` // [ReplaySchema]
	Target        string          `json:"target"`
	Trace         string          `json:"trace"` // [agentdojo.Trace.ID]
	Pipeline      string          `json:"pipeline"`
	Suite         string          `json:"suite"`
	UserTask      string          `json:"user_task"`
	Attack        string          `json:"attack"`         // empty without an injection
	InjectionTask string          `json:"injection_task"` // empty without an injection
	Class         agentdojo.Class `json:"class"`          // benign or attacked
	Approver      string          `json:"approver"`
	// LoggedUtility and LoggedSecurity are the recording's own verdicts: the user's
	// task was solved, the injected goal was reached (meaningless if benign).
	LoggedUtility  bool `json:"logged_utility"`
	LoggedSecurity bool `json:"logged_security"`
	// Gateable: the injected goal needs a side-effecting call.
	Gateable   bool         `json:"gateable"`
	Prompts    int          `json:"prompts"`    // how often an approver was asked
	Characters int          `json:"characters"` // how much an approver read
	Calls      []ReplayCall `json:"calls"`
	// Error is why the trace could not be replayed at this target. Such a record
	// has no calls and is in no rate.
	Error string `json:"error,omitempty"`
}

// Run replays the logs that the paths name (see [agentdojo.Find]) and hands the
// records to emit, by trace and then by target. A log that cannot be read is listed
// in the summary, and the replay goes on. The error is that of emit, the end of ctx,
// a replay without a target or approver, [agentdojo.ErrNoLogs], or that there was
// no trace to replay; the summary of what was read comes with it, where there is one.
func (r Replay) Run(ctx context.Context, paths []string, emit func(ReplayRecord) error) (*ReplaySummary, error) {
	switch {
	case r.Benchmark.Catalogue == nil:
		return nil, errors.New("replaying: no catalogue of the benchmark is given")
	case len(r.Targets) == 0:
		return nil, errors.New("replaying: no target is selected")
	case r.Approver == nil:
		return nil, errors.New("replaying: no approver is selected")
	}
	ids := map[string]bool{}
	for _, t := range r.Targets {
		if ids[t.ID] {
			return nil, fmt.Errorf("replaying: target %s is selected twice", t.ID)
		}
		ids[t.ID] = true
	}
	tools := map[string][]api.Tool{}
	for _, suite := range r.Benchmark.Catalogue.Suites() {
		table, _, err := r.Benchmark.Tools(suite)
		if err != nil {
			return nil, fmt.Errorf("replaying: %w", err)
		}
		tools[suite] = table
	}
	logs, failed := agentdojo.Find(paths)
	sum := newReplaySummary(r, len(logs))
	for _, err := range failed {
		sum.unreadable(err)
	}
	if len(logs) == 0 {
		return sum, fmt.Errorf("replaying: %w", agentdojo.ErrNoLogs)
	}
	done := 0
	err := inOrder(ctx, r.Parallel, logs, func(l agentdojo.Log) replayed { return r.log(ctx, l, tools) }, func(p replayed) error {
		for _, rec := range sum.add(p) {
			if err := emit(rec); err != nil {
				return err
			}
		}
		done++
		if r.Progress != nil {
			r.Progress(done, len(logs))
		}
		return nil
	})
	sum.Logs = hex.EncodeToString(sum.logs.Sum(nil))
	if err == nil && sum.Replayed == 0 {
		err = fmt.Errorf("replaying: none of %d logs can be replayed (%d left out, %d unreadable)", len(logs), len(sum.Skipped), len(sum.Unreadable))
	}
	return sum, err
}

// replayed is what one log came to: an error, or a trace that was left out, or its
// records.
type replayed struct {
	err      error
	trace    *agentdojo.Trace
	calls    []agentdojo.Call // with a side effect
	fits     map[int]bool     // by index of the call
	gateable bool
	leftOut  string
	records  []ReplayRecord
}

// OutsideCatalogue is why a trace was left out whose tasks the catalogue lacks.
const OutsideCatalogue = "outside-the-catalogue"

func (r Replay) log(ctx context.Context, l agentdojo.Log, tools map[string][]api.Tool) (p replayed) {
	if p.trace, p.err = l.Read(); p.err != nil {
		return p
	}
	t := p.trace
	if class := t.Class(); class != agentdojo.Benign && class != agentdojo.Attacked {
		p.leftOut = string(class)
		return p
	}
	var wants agentdojo.Wants
	p.calls, p.err = r.Benchmark.Calls(t)
	if p.err == nil {
		wants, p.err = r.Benchmark.Intent(t)
	}
	if p.err == nil {
		p.gateable, p.err = r.Benchmark.Gateable(t)
	}
	if errors.Is(p.err, agentdojo.ErrNotInCatalogue) {
		p.err, p.leftOut = nil, OutsideCatalogue
	}
	if p.err != nil || p.leftOut != "" {
		return p
	}
	table := tools[t.Suite]
	intent := intentOf(wants, table)
	p.calls = slices.DeleteFunc(p.calls, func(c agentdojo.Call) bool { return !c.SideEffect })
	p.fits = map[int]bool{}
	for _, c := range p.calls {
		if tool, ok := findTool(table, c.Tool); ok {
			p.fits[c.Index] = agentdojo.Fit(tool, c.Args) == nil
		}
	}
	for _, target := range r.Targets {
		rec := ReplayRecord{
			Schema: ReplaySchema, Target: target.ID, Trace: t.ID(), Pipeline: t.Pipeline, Suite: t.Suite, UserTask: t.UserTask,
			Attack: t.Attack, InjectionTask: t.InjectionTask, Class: t.Class(), Approver: r.Approver.Name(),
			LoggedUtility: t.Utility, LoggedSecurity: t.Security, Gateable: p.gateable, Calls: []ReplayCall{},
		}
		if err := r.trace(ctx, target, p, table, intent, &rec); err != nil {
			rec.Error, rec.Calls, rec.Prompts, rec.Characters = oneLine(err), []ReplayCall{}, 0, 0
		}
		p.records = append(p.records, rec)
	}
	return p
}

// intentOf puts the user's wants into the words of the approvers.
func intentOf(wants agentdojo.Wants, tools []api.Tool) oracles.Intent {
	var in oracles.Intent
	for _, w := range wants {
		want := oracles.Want{Audience: w.Audience, Tool: w.Tool, Values: w.Values, Free: w.Free}
		if t, ok := findTool(tools, w.Tool); ok {
			want.Title = t.Title
		}
		in.Wants = append(in.Wants, want)
	}
	return in
}

func findTool(tools []api.Tool, name string) (api.Tool, bool) {
	i := slices.IndexFunc(tools, func(t api.Tool) bool { return t.Name == name })
	if i < 0 {
		return api.Tool{}, false
	}
	return tools[i], true
}

// trace replays one trace at one target into rec.
func (r Replay) trace(ctx context.Context, target Target, p replayed, tools []api.Tool, intent oracles.Intent, rec *ReplayRecord) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	s, err := attacks.NewBareStage(ctx, target.Deploy, tools, r.Approver)
	if err != nil {
		return err
	}
	made := map[int]int{} // effect → index in rec.Calls
	for _, c := range p.calls {
		if c.State != agentdojo.Executed {
			continue
		}
		rc, err := replayCall(s, c, rec.Suite, intent)
		if err != nil {
			return fmt.Errorf("replaying call %d (%s): %w", c.Index, c.Tool, err)
		}
		rc.Fits = p.fits[c.Index]
		for len(made) < len(s.History.Effects) {
			made[len(made)] = len(rec.Calls)
		}
		rec.Calls = append(rec.Calls, rc)
	}
	rec.Prompts, rec.Characters = s.Prompts, s.Characters
	verdicts, err := referee.Judge(s.History)
	if err != nil {
		return err
	}
	for _, v := range verdicts {
		for _, reason := range v.Reasons {
			c := &rec.Calls[made[v.Effect]]
			c.Reasons = append(c.Reasons, reason.String())
		}
	}
	return nil
}

// replayCall takes one recorded call from proposal to dispatch.
func replayCall(s *attacks.Stage, c agentdojo.Call, suite string, intent oracles.Intent) (ReplayCall, error) {
	out := ReplayCall{Index: c.Index, Tool: c.Tool, Owner: c.Owner, Wanted: c.Wanted, RefusedBy: []string{}, Reasons: []string{}}
	effects, answers, prompts := len(s.History.Effects), len(s.Answers), s.Prompts
	err := s.Perform(func(s *attacks.Stage) {
		s.Dispatch(s.Ask(s.Recorded(c.Index, suite, c.Tool, c.Args, intent)))
	})
	out.Asked = s.Prompts > prompts
	switch made := len(s.History.Effects) - effects; {
	case made > 1:
		return out, fmt.Errorf("%d effects of one dispatch", made)
	case made == 1:
		out.Outcome = ReplayExecuted
		return out, err
	case errors.Is(err, api.ErrInvalid):
		out.Outcome = ReplayRejected
		return out, nil
	case err != nil:
		return out, err
	case len(s.Answers) == answers:
		return out, errors.New("the target answered nothing")
	}
	last := s.Answers[len(s.Answers)-1]
	for _, f := range last.Refusals {
		out.RefusedBy = append(out.RefusedBy, string(f.Binding)+"/"+f.Code)
	}
	switch {
	case last.Approver:
		out.Outcome = ReplayDeclined
	case last.Status == api.Executed:
		return out, errors.New("the target says that it executed the call, and the service has no effect of it")
	default:
		out.Outcome = ReplayOutcome(last.Status)
	}
	return out, nil
}

// inOrder does work for each item, some at a time, and hands the results to take
// in the order of the items. It ends at the first error of take, or with ctx.
func inOrder[T, R any](ctx context.Context, parallel int, items []T, work func(T) R, take func(R) error) error {
	if parallel <= 0 {
		parallel = runtime.GOMAXPROCS(0)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type job struct {
		item T
		out  chan R
	}
	jobs := make(chan job)
	order := make(chan job, 4*parallel) // bounds what waits for its turn
	var workers sync.WaitGroup
	for range parallel {
		workers.Go(func() {
			for j := range jobs {
				j.out <- work(j.item)
			}
		})
	}
	go func() {
		defer close(order)
		defer close(jobs)
		for _, item := range items {
			j := job{item, make(chan R, 1)}
			select {
			case jobs <- j:
				order <- j // the receiver below takes everything that was begun
			case <-ctx.Done():
				return
			}
		}
	}()
	var failed error
	for j := range order {
		result := <-j.out
		if failed != nil || ctx.Err() != nil {
			continue
		}
		if failed = take(result); failed != nil {
			cancel()
		}
	}
	workers.Wait()
	if failed == nil {
		failed = context.Cause(ctx)
	}
	return failed
}
