package harness_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/attacks"
	"countersign/attacks/harness"
	"countersign/gateway/api"
	"countersign/results"
)

type dispatching = func(context.Context, api.Target, api.Auth, api.Dispatch) (api.Outcome, error)

// one is a family with one attack and one twin, both with a dispatch.
func one(t *testing.T) []attacks.Family {
	f := family(t, "AB1")
	f.Variants, f.Twins = f.Variants[:1], f.Twins[:1]
	return []attacks.Family{f}
}

// limit is long enough for everything before the call that does not return.
func limit() time.Duration {
	if raced {
		return 3 * time.Second
	}
	return 400 * time.Millisecond
}

// TestTargetsThatDoNotReturn: whatever a target does with a call, the run ends,
// and each trial is an error that names the call. An answer after the time is no
// answer.
func TestTargetsThatDoNotReturn(t *testing.T) {
	limit := limit()
	givenUp := fmt.Sprintf("given up after %s, in Dispatch (call ", limit)
	for name, x := range map[string]struct {
		dispatch dispatching
		want     string
	}{
		"it waits for its context": {func(ctx context.Context, _ api.Target, _ api.Auth, _ api.Dispatch) (api.Outcome, error) {
			<-ctx.Done()
			return api.Outcome{}, ctx.Err()
		}, givenUp},
		"it waits for its context, and then refuses": {func(ctx context.Context, _ api.Target, _ api.Auth, _ api.Dispatch) (api.Outcome, error) {
			<-ctx.Done()
			return api.Outcome{Status: api.Refused, Refusals: []api.Refusal{{Binding: api.BindArgs, Code: "differs"}}}, nil
		}, givenUp},
		"it waits for its context, and then executes": {func(ctx context.Context, in api.Target, auth api.Auth, d api.Dispatch) (api.Outcome, error) {
			<-ctx.Done()
			return in.Dispatch(context.WithoutCancel(ctx), auth, d)
		}, givenUp},
		"it hangs for good": {func(context.Context, api.Target, api.Auth, api.Dispatch) (api.Outcome, error) {
			select {}
		}, givenUp},
		"it ends its goroutine": {func(context.Context, api.Target, api.Auth, api.Dispatch) (api.Outcome, error) {
			runtime.Goexit()
			return api.Outcome{}, nil
		}, "ended the goroutine"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := plan(t, []harness.Target{{ID: "X", Deploy: over(mode(t, "M0"), hostile{dispatch: x.dispatch})}}, one(t), scenario(t, "payments"))
			p.TrialTimeout = limit
			rs, a := run(t, p)
			for _, r := range rs {
				if r.Observed != results.Error || !strings.Contains(r.Detail, x.want) || r.Effects != 0 {
					t.Errorf("want an error with %q: %s", x.want, describe(r))
				}
			}
			if code := results.ExitCode(a); len(rs) != 3 || code != 2 {
				t.Errorf("%d records, exit code %d, want 3 and 2", len(rs), code)
			}
		})
	}
}

// TestTargetsThatCannotBeAsked: a target that never says what it claims, and one
// that is never there, end the preparation with an error.
func TestTargetsThatCannotBeAsked(t *testing.T) {
	for want, deploy := range map[string]api.Factory{
		"in deployment (call 1 of the target)": func(context.Context, api.Deployment) (api.Bench, error) { select {} },
		"the factory deploys no target":        func(context.Context, api.Deployment) (api.Bench, error) { return api.Bench{}, nil },
		"panic: no":                            func(context.Context, api.Deployment) (api.Bench, error) { panic("no") },
	} {
		p := plan(t, []harness.Target{{ID: "X", Deploy: deploy}}, one(t), scenario(t, "payments"))
		p.TrialTimeout = limit()
		if err := p.Prepare(t.Context()); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "target X") {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
	p := plan(t, []harness.Target{target(mode(t, "M9"))}, one(t), scenario(t, "payments"))
	p.TrialTimeout = -time.Second
	if err := p.Prepare(t.Context()); err == nil || !strings.Contains(err.Error(), "-1s") {
		t.Errorf("a limit before the start: %v", err)
	}
}

// TestAnInterruptedRunEndsWhateverItsTarget: nobody has to wait for the limit.
func TestAnInterruptedRunEndsWhateverItsTarget(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p := plan(t, []harness.Target{{ID: "X", Claims: api.Bindings(), Deploy: over(mode(t, "M0"), hostile{
		dispatch: func(context.Context, api.Target, api.Auth, api.Dispatch) (api.Outcome, error) {
			cancel()
			select {}
		},
	})}}, one(t), scenario(t, "payments"))
	p.TrialTimeout = time.Hour
	if err := p.Prepare(ctx); err != nil {
		t.Fatal(err)
	}
	err := p.Run(ctx, func(r results.Record) error {
		t.Errorf("a trial that was interrupted is recorded: %s", describe(r))
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}

// TestNamesThatNoRecordCanHold: a target that gives a check or a code a name that
// would not fit a record spoils its own trials and not the run. The records quote
// it harmlessly, and are borne out by their events.
func TestNamesThatNoRecordCanHold(t *testing.T) {
	for name, r := range map[string]api.Refusal{
		"no binding":              {Code: "differs"},
		"no code":                 {Binding: "args"},
		"not UTF-8":               {Binding: "ar\xffgs", Code: "differs"},
		"code not UTF-8":          {Binding: "args", Code: "\xff"},
		"acts on a terminal":      {Binding: "\x1b[2Jargs", Code: "differs"},
		"turns text":              {Binding: "args", Code: "a\u202eb"},
		"two names":               {Binding: "args/x", Code: "differs"},
		"a sentence":              {Binding: "args", Code: "it differs"},
		"longer than any name is": {Binding: "args", Code: strings.Repeat("A", 1<<20)},
	} {
		t.Run(name, func(t *testing.T) {
			p := plan(t, []harness.Target{{ID: "X", Deploy: over(mode(t, "M0"), hostile{
				dispatch: func(context.Context, api.Target, api.Auth, api.Dispatch) (api.Outcome, error) {
					return api.Outcome{Status: api.Refused, Refusals: []api.Refusal{r, {Binding: api.BindOnce, Code: "spent"}}}, nil
				},
			})}, target(mode(t, "M9"))}, one(t), scenario(t, "payments"))
			_, run := stored(t, p, nil)
			for r, err := range run.Records() {
				switch {
				case err != nil:
					t.Fatal(err)
				case r.Target == "M9":
					if !r.Agrees() {
						t.Error(describe(r))
					}
				case r.Observed != results.Error || !strings.Contains(r.Detail, "no record can hold") || len(r.Detail) > 300 ||
					strings.ContainsFunc(r.Detail, func(r rune) bool { return r < ' ' || r == '\u202e' }):
					t.Errorf("want an error that quotes the name: %s", describe(r))
				case !slices.Equal(r.RefusedCodes, []string{"once/spent"}):
					t.Errorf("refused by %v", r.RefusedCodes)
				}
			}
			if _, err := harness.Rejudge(run, func(d harness.Difference) error {
				t.Errorf("the events say %s", describe(d.Judged))
				return nil
			}); err != nil {
				t.Error(err)
			}
		})
	}
}
