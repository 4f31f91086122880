package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// A suite is something that may notice a mutant: tests of a package, or a matrix.
type suite struct {
	name   string
	only   string // package of the mutants it is run for; empty: all
	build  []string
	dir    string   // where it runs, from the module's root
	args   []string // {out} is a folder that does not exist
	budget time.Duration
	once   sync.Once
	err    error
}

// testArgs: the first failure is enough, and with rapidArgs it is the same one
// every time. A test program without generated tests does not know the latter.
var (
	testArgs  = []string{"-test.short", "-test.failfast"}
	rapidArgs = []string{"-rapid.seed=1", "-rapid.nofailfile"}
)

// testsOf are the tests of a package, for the mutants of that package alone.
func testsOf(pkg string, budget time.Duration, args ...string) *suite {
	return &suite{
		name: path.Base(pkg), only: pkg, build: []string{"test", "-c", "./" + pkg}, dir: pkg,
		args: slices.Concat(testArgs, args), budget: budget,
	}
}

// matrixModes are the designs whose every binding counts: the reference design,
// the same without each binding that no other one doubles, and those that carry an
// approval in another way.
func matrixModes() string {
	out := []string{"M2", "M4", "M5", "M6", "M7", "M8", "M9"}
	for _, b := range []string{"mediated", "steer", "percall", "idem", "once", "strict", "closed", "online", "expiry", "refs", "record-signed-challenge"} {
		out = append(out, "M9-"+b)
	}
	return strings.Join(out, ",")
}

// suites are tried in this order, the quick ones first.
func suites() []*suite {
	return []*suite{
		testsOf("modes", 2*time.Minute, rapidArgs...),
		testsOf("modes/passkey", 20*time.Second),
		testsOf("gateway/canonical", 20*time.Second, rapidArgs...),
		testsOf("gateway/viewing", 30*time.Second, rapidArgs...),
		testsOf("gateway/httpapi", 2*time.Minute, rapidArgs...),
		testsOf("gateway/store", 3*time.Minute, rapidArgs...),
		{name: "gateway", build: []string{"test", "-c", "./gateway"}, dir: "gateway", args: slices.Concat(testArgs, rapidArgs), budget: 3 * time.Minute},
		{name: "matrix", build: []string{"build", "./cmd/countersign"}, dir: ".", args: []string{
			"run", "--quiet", "--out", "{out}", "--parallel", "1", "--scenarios", "payments", "--modes", matrixModes(),
		}, budget: 5 * time.Minute},
	}
}

// A bench is a folder with the instrumented gate and what was built of it.
type bench struct {
	root    string // of the module, absolute
	work    string
	overlay string
	suites  []*suite
	mutants []Mutant
}

// newBench instruments the gate below a work folder; the module is only read.
func newBench(root, work string) (*bench, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("finding the module: %w", err)
	}
	b := &bench{root: root, work: work, overlay: filepath.Join(work, "overlay.json"), suites: suites()}
	replace := map[string]string{}
	put := func(name, text string) error {
		to := filepath.Join(work, "src", filepath.FromSlash(name))
		replace[filepath.Join(root, filepath.FromSlash(name))] = to
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		return os.WriteFile(to, []byte(text), 0o644)
	}
	next := 1
	for _, s := range scope {
		source, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(s.file)))
		if err != nil {
			return nil, fmt.Errorf("reading the gate: %w", err)
		}
		text, mutants, err := instrument(s.file, string(source), next, s.functions)
		if err != nil {
			return nil, err
		}
		if len(mutants) > 0 {
			next = mutants[len(mutants)-1].Number + 1
		}
		b.mutants = append(b.mutants, mutants...)
		pkg := path.Dir(s.file)
		if err := errors.Join(put(s.file, text), put(pkg+"/mutants_switch.go", switches(path.Base(pkg)))); err != nil {
			return nil, fmt.Errorf("writing the instrumented gate: %w", err)
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, fmt.Errorf("writing the overlay: %w", err)
	}
	if err := os.WriteFile(b.overlay, text, 0o644); err != nil {
		return nil, fmt.Errorf("writing the overlay: %w", err)
	}
	return b, nil
}

// ready builds a suite, the first time it is needed, and wants it to pass with no
// mutant switched on: otherwise it would notice everything.
func (b *bench) ready(ctx context.Context, s *suite) error {
	s.once.Do(func() {
		args := append([]string{s.build[0], "-overlay", b.overlay, "-o", b.binary(s)}, s.build[1:]...)
		build := exec.CommandContext(ctx, "go", args...)
		build.Dir = b.root
		if out, err := build.CombinedOutput(); err != nil {
			s.err = fmt.Errorf("building the suite %s: %w\n%s", s.name, err, out)
			return
		}
		if verdict, out, err := b.attempt(ctx, s, ""); err != nil || verdict != survived {
			s.err = errors.Join(err, fmt.Errorf("the suite %s fails without any mutant (%s):\n%s", s.name, verdict, tail(out)))
		}
	})
	return s.err
}

func (b *bench) binary(s *suite) string { return filepath.Join(b.work, s.name+".bin") }

// What a suite said.
type verdict string

const (
	survived verdict = "survived"
	killed   verdict = "killed"
	timedOut verdict = "timed out" // counted as noticed, and listed
)

// limited runs a program with 2 GiB of memory at most, because a loop whose end was
// removed may fill it. Running out of it is noticed as any other failure is.
const limited = `ulimit -d 2097152; exec "$0" "$@"`

// attempt runs a suite with a mutant switched on (empty: none). An error means
// that it could not be run.
func (b *bench) attempt(ctx context.Context, s *suite, selection string) (verdict, []byte, error) {
	within, cancel := context.WithTimeout(ctx, s.budget)
	defer cancel()
	scratch, err := os.MkdirTemp(b.work, "run-")
	if err != nil {
		return "", nil, fmt.Errorf("making a folder for the suite %s: %w", s.name, err)
	}
	defer os.RemoveAll(scratch)
	args := make([]string, len(s.args))
	for i, a := range s.args {
		args[i] = strings.ReplaceAll(a, "{out}", filepath.Join(scratch, "out"))
	}
	cmd := exec.CommandContext(within, "sh", slices.Concat([]string{"-c", limited, b.binary(s)}, args)...)
	cmd.Dir = filepath.Join(b.root, s.dir)
	cmd.Env = append(os.Environ(), variable+"="+selection, "TMPDIR="+scratch)
	cmd.WaitDelay = 5 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return survived, out.Bytes(), nil
	case ctx.Err() != nil:
		return "", nil, ctx.Err()
	case within.Err() != nil:
		return timedOut, out.Bytes(), nil
	case errors.As(err, &exit):
		return killed, out.Bytes(), nil
	}
	return "", nil, fmt.Errorf("running the suite %s: %w", s.name, err)
}

// A Result is what became of a mutant.
type Result struct {
	Mutant
	Verdict verdict `json:"verdict"`
	By      string  `json:"by,omitempty"`     // the suite that noticed it
	Reason  string  `json:"reason,omitempty"` // of a survivor that is explained
}

// try gives a mutant to one suite after the other until one notices it.
func (b *bench) try(ctx context.Context, m Mutant) (Result, error) {
	for _, s := range b.suites {
		if s.only != "" && s.only != path.Dir(m.File) {
			continue
		}
		if err := b.ready(ctx, s); err != nil {
			return Result{}, err
		}
		v, _, err := b.attempt(ctx, s, m.selection())
		if err != nil {
			return Result{}, err
		}
		if v != survived {
			return Result{Mutant: m, Verdict: v, By: s.name}, nil
		}
	}
	return Result{Mutant: m, Verdict: survived}, nil
}

func tail(out []byte) []byte {
	const most = 4000
	return out[max(0, len(out)-most):]
}
