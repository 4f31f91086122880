package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"countersign/attacks"
	"countersign/gateway/api"
)

// DefaultTrialTimeout is how long a trial may take unless a plan says otherwise.
// A trial of a built-in target takes milliseconds.
const DefaultTrialTimeout = time.Minute

// grace is how long a target whose context has ended may take to return, before
// it is left behind.
const grace = time.Second

// guard does work with a limit, whatever the target does in it. The limit is a
// wall clock of the harness and no part of any decision: it can only turn a trial
// into an error. What ignores its context is left behind, with a world that nobody
// else has; then guard returns the zero T.
func guard[T any](ctx context.Context, limit time.Duration, work func(ctx context.Context, note *note) T) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	n := &note{over: ctx.Done()}
	type end struct {
		out T
		err error
	}
	ended := make(chan end, 1)
	go func() {
		e := end{err: errors.New("the target ended the goroutine that called it")}
		defer func() {
			if r := recover(); r != nil {
				e.err = fmt.Errorf("panic: %v", r)
			}
			ended <- e
		}()
		e.out, e.err = work(ctx, n), nil
	}()
	overdue := func() error {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return fmt.Errorf("given up after %s, %s", limit, n)
		}
		return ctx.Err()
	}
	var zero T
	select {
	case e := <-ended:
		// Whatever it came to after its time was up is not what the target does.
		if err := overdue(); err != nil {
			return zero, err
		}
		return e.out, e.err
	case <-ctx.Done():
	}
	err := overdue() // before the target returns, which ends the call it was in
	select {
	case <-ended:
	case <-time.After(grace):
	}
	return zero, err
}

// A note keeps which calls of a target have not returned, or returned only when
// the time was over.
type note struct {
	over  <-chan struct{}
	mu    sync.Mutex
	calls int
	open  []openCall
	// timed, if set, is told how long each call took.
	timed func(name string, took time.Duration)
}

type openCall struct {
	number int
	name   string
}

// begin notes a call and returns what notes its end.
func (n *note) begin(name string) (end func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls++
	c := openCall{n.calls, name}
	n.open = append(n.open, c)
	began := time.Now()
	return func() {
		if n.timed != nil {
			n.timed(name, time.Since(began))
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		select {
		case <-n.over:
			return // it is what took the time
		default:
		}
		n.open = slices.DeleteFunc(n.open, func(o openCall) bool { return o == c })
	}
}

// String says which calls are open, as "in Dispatch (call 7 of the target)".
func (n *note) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var parts []string
	for _, c := range n.open {
		parts = append(parts, fmt.Sprintf("in %s (call %d of the target)", c.name, c.number))
	}
	if parts == nil {
		return fmt.Sprintf("between calls (after %d of the target)", n.calls)
	}
	return strings.Join(parts, " and ")
}

// noting deploys a target so that its calls are noted.
func (n *note) noting(deploy api.Factory) api.Factory {
	return func(ctx context.Context, d api.Deployment) (api.Bench, error) {
		end := n.begin("deployment")
		b, err := deploy(ctx, d)
		end()
		if err != nil {
			return b, err
		}
		if b.Target == nil {
			return b, errors.New("the factory deploys no target")
		}
		b.Target = notedTarget{b.Target, n}
		if b.Lab != nil {
			b.Lab = notedLab{b.Lab, n}
		}
		return b, nil
	}
}

// A notedTarget notes the calls of a target, and changes nothing about them.
type notedTarget struct {
	of api.Target
	n  *note
}

func (t notedTarget) Describe(ctx context.Context) (api.Description, error) {
	defer t.n.begin("Describe")()
	return t.of.Describe(ctx)
}

func (t notedTarget) Propose(ctx context.Context, auth api.Auth, a api.Action) (api.Pending, error) {
	defer t.n.begin("Propose")()
	return t.of.Propose(ctx, auth, a)
}

func (t notedTarget) Preview(ctx context.Context, auth api.Auth, a api.Action) (api.Values, error) {
	defer t.n.begin("Preview")()
	return t.of.Preview(ctx, auth, a)
}

func (t notedTarget) Status(ctx context.Context, auth api.Auth, suspension string) (api.SuspensionStatus, error) {
	defer t.n.begin("Status")()
	return t.of.Status(ctx, auth, suspension)
}

func (t notedTarget) Dispatch(ctx context.Context, auth api.Auth, d api.Dispatch) (api.Outcome, error) {
	defer t.n.begin("Dispatch")()
	return t.of.Dispatch(ctx, auth, d)
}

func (t notedTarget) View(ctx context.Context, auth api.Auth, suspension string) (api.View, error) {
	defer t.n.begin("View")()
	return t.of.View(ctx, auth, suspension)
}

func (t notedTarget) RunWideView(ctx context.Context, auth api.Auth, suspension string, terms api.RunWide) (api.View, error) {
	defer t.n.begin("RunWideView")()
	return t.of.RunWideView(ctx, auth, suspension, terms)
}

func (t notedTarget) Decide(ctx context.Context, auth api.Auth, d api.Decision) error {
	defer t.n.begin("Decide")()
	return t.of.Decide(ctx, auth, d)
}

func (t notedTarget) BeginEnrolment(ctx context.Context, auth api.Auth) (json.RawMessage, error) {
	defer t.n.begin("BeginEnrolment")()
	return t.of.BeginEnrolment(ctx, auth)
}

func (t notedTarget) FinishEnrolment(ctx context.Context, auth api.Auth, response json.RawMessage) error {
	defer t.n.begin("FinishEnrolment")()
	return t.of.FinishEnrolment(ctx, auth, response)
}

func (t notedTarget) Admin(ctx context.Context, auth api.Auth, e api.Event) error {
	defer t.n.begin("Admin")()
	return t.of.Admin(ctx, auth, e)
}

func (t notedTarget) Audit(ctx context.Context, auth api.Auth, after int64) ([]api.AuditEntry, error) {
	defer t.n.begin("Audit")()
	return t.of.Audit(ctx, auth, after)
}

// A notedLab notes the restart of a target and the calls of its second instance.
type notedLab struct {
	api.Lab
	n *note
}

func (l notedLab) Restart(ctx context.Context) error {
	defer l.n.begin("Restart")()
	return l.Lab.Restart(ctx)
}

func (l notedLab) Second(ctx context.Context) (api.Target, error) {
	defer l.n.begin("Second")()
	t, err := l.Lab.Second(ctx)
	if err != nil {
		return nil, err
	}
	return notedTarget{t, l.n}, nil
}

// maxName bounds what a target may call a binding or a code.
const maxName = 100

// goodName reports whether a name is fit for records: short, printable ASCII, and
// without the slash and the space that separate names there. What is not in a
// stored event as it was is not a good name there either.
func goodName(s string) bool {
	return s != "" && len(s) <= maxName && strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '/' }) < 0
}

// badName finds the first name in a target's answers that no record could hold.
func badName(answers []attacks.Answer) error {
	for i, a := range answers {
		for _, r := range a.Refusals {
			for _, x := range []struct{ what, name string }{{"binding", string(r.Binding)}, {"code", r.Code}} {
				if !goodName(x.name) {
					return fmt.Errorf("answer %d of the target names the %s %s, which no record can hold", i+1, x.what, quoted(x.name))
				}
			}
		}
	}
	return nil
}

// quoted writes a text of a target in ASCII, and no more of it than is needed to
// find it.
func quoted(s string) string {
	const most = 60
	if len(s) > most {
		return fmt.Sprintf("%+q… (%d bytes)", s[:most], len(s))
	}
	return fmt.Sprintf("%+q", s)
}
