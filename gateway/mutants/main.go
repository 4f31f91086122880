// Command mutants asks whether anything would notice if the gate lost one of its
// decisions. Every condition of the enforcement point is removed and inverted, one
// at a time, every operand of && and || is removed, and every check of the table
// as a whole; then tests and a small matrix run until one of them fails.
//
// The mutants are made of the source as it is: one overlay (go build -overlay)
// holds all of them, switched off, and an environment variable switches one on.
// So the gate is built once, all mutants compile, and none is kept by hand.
//
//	mutants [-list] [-sample FILE] [-json FILE] [REGEXP]
//
// It runs at the module's root. The exit code is 0 when every mutant was noticed
// or is explained in explained.yaml, 1 when one was not, 2 when it cannot tell.
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"unicode"

	"golang.org/x/sync/errgroup"
)

//go:embed explained.yaml
var explainedText []byte

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "mutants: error: %v\n", err)
		code = 2
	}
	os.Exit(code)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (code int, err error) {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.SetOutput(stderr)
	list := flags.Bool("list", false, "print the mutants and try none")
	sample := flags.String("sample", "", "try the mutants of this file: an id a line, and its condition")
	to := flags.String("json", "", "write the results to this file")
	parallel := flags.Int("parallel", 2, "mutants at a time")
	if err := flags.Parse(args); err != nil {
		return 2, err
	}
	if flags.NArg() > 1 || *parallel < 1 {
		return 2, errors.New("want at most one regular expression, and at least one mutant at a time")
	}
	work, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return 2, fmt.Errorf("making a work folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	b, err := newBench(".", work)
	if err != nil {
		return 2, err
	}
	reasons, err := explanations(explainedText, b.mutants)
	if err != nil {
		return 2, err
	}
	chosen, err := choose(b.mutants, flags.Arg(0), *sample)
	if err != nil {
		return 2, err
	}
	if *list {
		for _, m := range chosen {
			fmt.Fprintf(stdout, "%s\t%s:%d\t%s\n", m.ID, m.File, m.Line, m.Original)
		}
		return 0, nil
	}
	results, err := tryAll(ctx, b, chosen, *parallel, stderr)
	if err != nil {
		return 2, err
	}
	for i, r := range results {
		if e := explained(reasons, r.Mutant); e != nil && r.Verdict == survived {
			results[i].Reason = e.Reason
		}
	}
	if *to != "" {
		text, err := json.MarshalIndent(results, "", "  ")
		if err == nil {
			err = os.WriteFile(*to, append(text, '\n'), 0o644)
		}
		if err != nil {
			return 2, fmt.Errorf("writing the results: %w", err)
		}
	}
	return report(stdout, results, reasons), nil
}

// choose selects mutants by a regular expression (empty: all) or by a file of ids
// and conditions. The conditions show when an ordinal has come to mean another one.
func choose(all []Mutant, expression, sample string) ([]Mutant, error) {
	re, err := regexp.Compile(expression)
	if err != nil {
		return nil, fmt.Errorf("selecting mutants: %w", err)
	}
	wanted := map[string]string{}
	if sample != "" {
		text, err := os.ReadFile(sample)
		if err != nil {
			return nil, fmt.Errorf("reading the sample: %w", err)
		}
		if wanted, err = parseSample(text); err != nil {
			return nil, fmt.Errorf("reading the sample %s: %w", sample, err)
		}
	}
	var out []Mutant
	for _, m := range all {
		original, named := wanted[m.ID]
		if re.MatchString(m.ID) && (sample == "" || named && original == m.Original) {
			out = append(out, m)
			delete(wanted, m.ID)
		}
	}
	if len(wanted) > 0 {
		id := slices.Min(slices.Collect(maps.Keys(wanted)))
		return nil, fmt.Errorf("%s: there is no mutant %s of the condition %q: see -list", sample, id, wanted[id])
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no mutant matches %q: see -list", expression)
	}
	return out, nil
}

// parseSample reads ids, each with its condition behind white space, one a line. Lines
// that begin with # are comments.
func parseSample(text []byte) (map[string]string, error) {
	wanted := map[string]string{}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		id, original := line, ""
		if i := strings.IndexFunc(line, unicode.IsSpace); i >= 0 {
			id, original = line[:i], strings.TrimSpace(line[i:])
		}
		if original == "" {
			return nil, fmt.Errorf("line %d: %s has no condition", n, id)
		}
		if _, twice := wanted[id]; twice {
			return nil, fmt.Errorf("line %d: %s is there twice", n, id)
		}
		wanted[id] = original
	}
	if len(wanted) == 0 {
		return nil, errors.New("it names no mutant")
	}
	return wanted, nil
}

// tryAll tries mutants, several at a time. The results are in their order.
func tryAll(ctx context.Context, b *bench, chosen []Mutant, parallel int, progress io.Writer) ([]Result, error) {
	results := make([]Result, len(chosen))
	var mu sync.Mutex
	done, alive := 0, 0
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i, m := range chosen {
		group.Go(func() error {
			r, err := b.try(ctx, m)
			if err != nil {
				return err
			}
			results[i] = r
			mu.Lock()
			defer mu.Unlock()
			done++
			if r.Verdict != killed {
				alive++
				fmt.Fprintf(progress, "%s: %s (%s:%d %s)\n", r.Verdict, m.ID, m.File, m.Line, m.Original)
			}
			if done%25 == 0 || done == len(chosen) {
				fmt.Fprintf(progress, "%d of %d mutants tried, %d not killed\n", done, len(chosen), alive)
			}
			return nil
		})
	}
	return results, group.Wait()
}

// report prints the score and says what the exit code is.
func report(w io.Writer, results []Result, reasons []Explanation) int {
	by := map[string]int{}
	var late, excused, alive []Result
	for _, r := range results {
		switch {
		case r.Verdict == survived && r.Reason != "":
			excused = append(excused, r)
		case r.Verdict == survived:
			alive = append(alive, r)
		case r.Verdict == timedOut:
			late = append(late, r)
			fallthrough
		default:
			by[r.By]++
			if explained(reasons, r.Mutant) != nil {
				fmt.Fprintf(w, "note: %s is explained, and was noticed by %s\n", r.ID, r.By)
			}
		}
	}
	section := func(title string, rs []Result) {
		for i, r := range rs {
			if i == 0 {
				fmt.Fprintf(w, "\n%s:\n", title)
			}
			fmt.Fprintf(w, "  %-60s %s:%d  %s\n", r.ID, r.File, r.Line, r.Original)
			if r.Reason != "" {
				fmt.Fprintf(w, "      %s\n", strings.Join(strings.Fields(r.Reason), " "))
			}
		}
	}
	section("Noticed by a time-out", late)
	section("Survived, explained", excused)
	section("Survived, NOT explained", alive)
	noticed := len(results) - len(excused) - len(alive)
	fmt.Fprintf(w, "\nmutation score %.1f %%: %d of %d mutants noticed", 100*float64(noticed)/float64(len(results)), noticed, len(results))
	for _, s := range suites() {
		fmt.Fprintf(w, ", %d by %s", by[s.name], s.name)
	}
	fmt.Fprintf(w, "; %d survivors explained, %d not\n", len(excused), len(alive))
	if len(alive) > 0 {
		return 1
	}
	return 0
}
