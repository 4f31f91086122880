package harness

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"countersign/attacks"
	"countersign/attacks/referee"
	"countersign/gateway/api"
	"countersign/results"
	"countersign/scenarios"
)

// CrashSchema is the version of [CrashReport] as JSON.
const CrashSchema = 1

// A CrashResult is what became of an approved call whose gateway ended on the way.
type CrashResult string

const (
	CrashExecuted   CrashResult = "executed"     // one effect, which was approved
	CrashHeld       CrashResult = "held"         // at most one effect, and the call waits for a stated reason
	CrashLost       CrashResult = "lost"         // no effect, and nothing waits
	CrashDuplicated CrashResult = "duplicated"   // more than one effect
	CrashUnfounded  CrashResult = "unauthorised" // an effect that the referee finds something wrong with
	CrashCannotTell CrashResult = "cannot tell"  // the trial could not be carried out
)

// A CrashTrial is one moment at which a gateway ended.
type CrashTrial struct {
	Scenario  string        `json:"scenario"`
	Guarantee api.Guarantee `json:"guarantee"` // of the provider, for the tool that was called
	// Point is the write or question before or after which the process was killed,
	// such as "before create use"; of several of one name with its number, as
	// "after update use (2)". Empty: nothing was killed.
	Point   string      `json:"point"`
	Result  CrashResult `json:"result"`
	Effects int         `json:"effects"`
	Detail  string      `json:"detail,omitempty"` // what is being waited for, or what went wrong
}

// A CrashReport is what the crashes of one target came to.
type CrashReport struct {
	Schema int          `json:"schema"` // [CrashSchema]
	Target string       `json:"target"`
	Store  string       `json:"store"`
	Trials []CrashTrial `json:"trials"`
}

// Count says how many trials came to a result.
func (r CrashReport) Count(c CrashResult) (n int) {
	for _, t := range r.Trials {
		if t.Result == c {
			n++
		}
	}
	return n
}

// ExitCode is 1 if a call was lost, duplicated or made without authority, else 2 if a
// trial cannot be told, else 0.
func (r CrashReport) ExitCode() int {
	switch {
	case r.Count(CrashLost)+r.Count(CrashDuplicated)+r.Count(CrashUnfounded) > 0:
		return 1
	case r.Count(CrashCannotTell) > 0 || len(r.Trials) == 0:
		return 2
	}
	return 0
}

// A Killer ends a gateway's process at a point, and learns which points there are.
type Killer struct {
	// Kill ends the process. When it returns, nothing of the process runs any more.
	Kill func() error

	mu    sync.Mutex
	armed bool
	at    string
	seen  map[string]int
	all   []string
	err   error
	fired bool
}

// Reached is to be called at each point, and returns when the process may go on, or
// when there is none any more.
func (k *Killer) Reached(point string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.armed || k.fired {
		return
	}
	if k.seen[point]++; k.seen[point] > 1 {
		point = fmt.Sprintf("%s (%d)", point, k.seen[point])
	}
	k.all = append(k.all, point)
	if point == k.at {
		k.fired = true
		k.err = k.Kill()
	}
}

// arm prepares for one trial: the process ends at a point (empty: at none).
func (k *Killer) arm(point string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.armed, k.at, k.seen, k.all, k.err, k.fired = true, point, map[string]int{}, nil, nil, false
}

func (k *Killer) disarm() (points []string, fired bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.armed = false
	return k.all, k.fired, k.err
}

// Crash ends the gateway of the plan's one target at every point from the decision to
// the last answer, in every scenario of the plan, and has everybody try again
// ([attacks.Survive]). Which points there are, an undisturbed trial says, which is the
// first of its scenario in the report. Only those
// that choose wants are tried.
func (p Plan) Crash(ctx context.Context, k *Killer, choose func(point string) bool) (CrashReport, error) {
	if len(p.Targets) != 1 || len(p.Seeds) != 1 {
		return CrashReport{}, errors.New("crashes are those of one target, with one seed")
	}
	r := CrashReport{Schema: CrashSchema, Target: p.Targets[0].ID, Trials: []CrashTrial{}}
	type moment struct {
		sc    *scenarios.Scenario
		point string
		usual map[referee.Kind]bool
	}
	var plan []moment
	for _, sc := range p.Scenarios {
		undisturbed, points, usual := p.crash(ctx, k, sc, "", nil)
		if undisturbed.Result == CrashCannotTell {
			return r, fmt.Errorf("scenario %s, without any crash: %s", sc.ID, undisturbed.Detail)
		}
		r.Trials = append(r.Trials, undisturbed)
		for _, point := range points {
			if choose(point) {
				plan = append(plan, moment{sc, point, usual})
			}
		}
	}
	if len(plan) == 0 {
		return r, errors.New("none of the points of a call is chosen")
	}
	for i, m := range plan {
		if err := ctx.Err(); err != nil {
			return r, err
		}
		t, _, _ := p.crash(ctx, k, m.sc, m.point, m.usual)
		r.Trials = append(r.Trials, t)
		if p.Progress != nil {
			p.Progress(i+1, len(plan))
		}
	}
	return r, nil
}

// crash makes one trial, and returns the points that it came by and the kinds of
// reasons that its effects have. Those of an undisturbed trial are usual: what the
// design does without any crash is no matter here.
func (p Plan) crash(ctx context.Context, k *Killer, sc *scenarios.Scenario, point string, usual map[referee.Kind]bool) (CrashTrial, []string, map[referee.Kind]bool) {
	tool, _ := sc.Tool(sc.HonestTool)
	out := CrashTrial{Scenario: sc.ID, Guarantee: tool.Guarantee, Point: point}
	v := attacks.Variant{
		Name: "killed", Summary: "the gateway's process is killed", Effects: 1,
		Run: func(s *attacks.Stage) { attacks.Survive(s, func() { k.arm(point) }) },
	}
	o := p.play(ctx, p.Targets[0], trial{attack: "crash", variant: v, kind: results.Twin, scenario: sc, seed: p.Seeds[0]}).judge()
	points, fired, err := k.disarm()
	out.Effects = len(o.verdicts)
	waits, kinds := attacks.Waits(o.Answers), o.kinds()
	var unusual []string
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		if point != "" && !usual[kind] {
			unusual = append(unusual, string(kind))
		}
	}
	switch {
	case o.Error != "" || o.Unimplemented != "":
		out.Result, out.Detail = CrashCannotTell, o.Error+o.Unimplemented
	case err != nil:
		out.Result, out.Detail = CrashCannotTell, "killing the process: "+oneLine(err)
	case point != "" && !fired:
		out.Result, out.Detail = CrashCannotTell, "the point was not reached"
	case out.Effects > 1:
		out.Result, out.Detail = CrashDuplicated, fmt.Sprintf("%d effects", out.Effects)
	case unusual != nil:
		out.Result, out.Detail = CrashUnfounded, strings.Join(unusual, ", ")
	case waits != nil:
		out.Result, out.Detail = CrashHeld, strings.Join(waits, ", ")
	case out.Effects == 1:
		out.Result = CrashExecuted
	default:
		out.Result, out.Detail = CrashLost, o.last()
	}
	return out, points, kinds
}
