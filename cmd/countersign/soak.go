package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"countersign/gateway"
	"countersign/gateway/api"
	"countersign/modes"
	"countersign/results"
	"countersign/results/export"
	"countersign/scenarios"
)

// soakSchema is the version of [soakReport] as JSON.
const soakSchema = 1

type soakOptions struct {
	modes, stores                           []string
	scenario                                string
	approvals, workers, instances, restarts int
	faults                                  bool
	settle                                  time.Duration
	seed                                    uint64
	json, quiet                             bool
}

func newSoak() *cobra.Command {
	var o soakOptions
	cmd := &cobra.Command{
		Use:   "soak",
		Short: "Take many approvals through served gateways, with replays, faults and kills",
		Long: `Soak serves a provider over HTTP and puts real gateways in front of it, each a
process of its own (countersign gateway), all over one store. Workers take approvals
through them, each with its own agent, requester and approver with a passkey. Of
the calls, some are presented several times at once at all gateways, with another
value, to another service, or once more when they are done. Meanwhile the provider
loses requests and answers, fails, delays and processes twice, and gateways are
killed with SIGKILL and started again. Who gets no answer tries again.

At the end the provider's ledger is held against what was approved and against the
audit logs of all gateways: every effect is one approved call with exactly its
values, no call has two, no permit has two, no approved call is lost. Designs that
claim args, audience, once and idem have to keep this; of others it is reported what
they let through.

Latencies are by the wall clock, of calls that met no restart. Of each call this
process keeps two bytes, two durations and what its ledger has, which is as long as
there are effects.

With --store postgres://USER@HOST/DATABASE a database of its own is made on that
server, and dropped at the end; the user needs the right to do so.

Exit codes: 1 a design does what its bindings rule out; 2 it cannot be told, or
wrong usage; else 0.`,
		Example: `  countersign soak
  countersign soak --approvals 100000 --workers 16 --restarts 20
  countersign soak --store sqlite,postgres://postgres@127.0.0.1/postgres
  countersign soak --mode M4,M8,M9 --json`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.modes, "mode", []string{results.DefaultReference}, "approval designs, by id or name")
	f.StringSliceVar(&o.stores, "store", []string{"sqlite"}, "where approvals are kept: sqlite (a file that is deleted afterwards), or postgres://USER@HOST/DATABASE")
	f.StringVar(&o.scenario, "scenario", "payments", "scenario whose honest call is made")
	f.IntVar(&o.approvals, "approvals", 1000, "calls to take through approval")
	f.IntVar(&o.workers, "workers", 8, "workers at a time")
	f.IntVar(&o.instances, "instances", 2, "gateways over one store")
	f.IntVar(&o.restarts, "restarts", 4, "how often a gateway is killed and started again, spread evenly")
	f.BoolVar(&o.faults, "faults", true, "the provider loses, delays, repeats and fails some requests")
	f.DurationVar(&o.settle, "settle", gateway.SendLease+time.Minute, "how long at the end calls that are held are presented again; what a killed gateway may have sent is held for "+gateway.SendLease.String())
	f.Uint64Var(&o.seed, "seed", 1, "seed of the calls' values and of what is done to them")
	f.BoolVar(&o.json, "json", false, "print JSON, an array with one report for each design and store")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "show no progress")
	return cmd
}

// maxSoak bounds the calls, of which some bytes each are kept in memory.
const maxSoak = 10_000_000

func (o soakOptions) run(cmd *cobra.Command) error {
	ctx := cmd.Context()
	for _, n := range []struct {
		flag        string
		is, lo, max int
	}{
		{"approvals", o.approvals, 1, maxSoak}, {"workers", o.workers, 1, 200}, {"instances", o.instances, 1, 16}, {"restarts", o.restarts, 0, o.approvals},
	} {
		if n.is < n.lo || n.is > n.max {
			return fmt.Errorf("--%s is %d, want %d to %d", n.flag, n.is, n.lo, n.max)
		}
	}
	if o.settle < 0 {
		return fmt.Errorf("--settle is %v, want no time or some", o.settle)
	}
	sc, err := scenario(o.scenario)
	if err != nil {
		return err
	}
	chosen := make([]modes.Mode, len(o.modes))
	for i, id := range o.modes {
		if chosen[i], err = modes.Get(id); err != nil {
			return hint(err, "countersign modes lists them")
		}
	}
	if len(chosen) == 0 || len(o.stores) == 0 {
		return errors.New("no design, or no store, is selected")
	}
	if o.instances > 1 {
		for _, m := range chosen {
			if m.Has(api.BindSeen) && !m.Has(api.BindOnce) && !o.quiet {
				fmt.Fprintf(cmd.ErrOrStderr(), "countersign: note: %s remembers in a process what it has seen, and %d gateways know nothing of each other's\n", m.ID, o.instances)
			}
		}
	}
	folder, err := os.MkdirTemp("", "countersign-soak-")
	if err != nil {
		return fmt.Errorf("making a folder for stores and logs: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }() // it is in the folder for temporary files
	var reports []soakReport
	for _, s := range o.stores {
		for _, m := range chosen {
			name, _, _ := strings.Cut(s, ":")
			r, err := o.against(ctx, cmd.ErrOrStderr(), folder, s, m, sc)
			switch {
			case ctx.Err() != nil:
				return errors.New("interrupted")
			case err != nil:
				return fmt.Errorf("%s over %s: %w", m.ID, name, err)
			}
			r.Store = name
			reports = append(reports, r)
		}
	}
	w := cmd.OutOrStdout()
	if o.json {
		err = printJSON(w, reports)
	} else {
		err = printSoak(w, reports)
	}
	if err != nil {
		return err
	}
	code := 0
	for _, r := range reports {
		if c := r.exitCode(); c == 1 || code == 0 {
			code = c
		}
	}
	if code != 0 {
		return exitCode(code)
	}
	return nil
}

// against soaks one design over one store.
func (o soakOptions) against(ctx context.Context, errs io.Writer, folder, at string, m modes.Mode, sc *scenarios.Scenario) (r soakReport, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	f, err := openFleet(ctx, o, folder, at, m, sc)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	progress, finish := reporter(errs, o.quiet, fmt.Sprintf("soak of %s", m.ID), "calls")
	defer finish()
	s := newSoaking(o, f, m, sc, cancel, progress)
	if err := s.work(ctx); err != nil {
		return r, err
	}
	return s.report(ctx)
}

// A soakReport is what a soak of one design over one store came to.
type soakReport struct {
	Schema    int           `json:"schema"` // [soakSchema]
	Target    string        `json:"target"`
	Store     string        `json:"store"`
	Scenario  string        `json:"scenario"`
	Guarantee api.Guarantee `json:"guarantee"` // of the provider, for the tool that is called
	Seed      uint64        `json:"seed"`
	Workers   int           `json:"workers"`
	Instances int           `json:"instances"`
	// Demanded: the design claims the bindings that rule breaches out.
	Demanded bool `json:"demanded"`

	Calls     int `json:"calls"`     // that were to be made
	Approvals int `json:"approvals"` // decisions that stand; more than calls where some had to be asked again
	Effects   int `json:"effects"`   // in the ledger
	Permits   int `json:"permits"`   // distinct ones that the logs have for these effects
	Held      int `json:"held"`      // calls without an effect that wait for a stated reason
	Failed    int `json:"failed"`    // approvals that were spent for a call which the provider failed to make, and said so

	Replays   soakTally      `json:"replays"`   // presentations of a message that was presented already
	Altered   soakTally      `json:"altered"`   // with another value than was approved
	Elsewhere soakTally      `json:"elsewhere"` // to another service
	Restarts  int            `json:"restarts"`
	Slowest   float64        `json:"slowest_restart_ms"` // until it serves again
	Faults    map[string]int `json:"faults"`             // by kind
	NoAnswers int            `json:"no_answers"`         // to requests, which were made again
	Breaches  []soakBreach   `json:"breaches"`

	Seconds   float64     `json:"seconds"` // without the wait for held calls at the end
	PerSecond float64     `json:"approvals_per_second"`
	Waited    float64     `json:"waited_seconds"` // for held calls, at the end
	Decide    soakLatency `json:"decide"`
	Dispatch  soakLatency `json:"dispatch"`
	Memory    *soakMemory `json:"memory,omitempty"` // nil where the system does not tell
	LogLines  int         `json:"log_lines"`        // of all gateways
}

// A soakTally counts what presentations that should make no effect were answered.
type soakTally struct {
	Sent     int `json:"sent"`
	Refused  int `json:"refused"`
	Absorbed int `json:"absorbed"`
	Held     int `json:"held"`
	Executed int `json:"executed"`
	NoAnswer int `json:"no_answer"`
}

// A soakLatency is of calls that were answered and met no restart, in milliseconds.
type soakLatency struct {
	Calls      int     `json:"calls"`
	MetRestart int     `json:"met_restart"` // or got no answer: left out
	P50        float64 `json:"p50_ms"`
	P99        float64 `json:"p99_ms"`
	Max        float64 `json:"max_ms"`
}

// A soakMemory is the most resident memory that any one gateway process had, in bytes.
type soakMemory struct {
	Quarter int64 `json:"quarter_bytes"` // while the first quarter of the calls was made
	Peak    int64 `json:"peak_bytes"`
}

// A soakBreach is something that a gate is there to rule out.
type soakBreach struct {
	Kind    string `json:"kind"`
	Count   int    `json:"count"`
	Example string `json:"example"`
}

// exitCode is 1 if a design broke what it claims, else 0.
func (r soakReport) exitCode() int {
	if r.Demanded && len(r.Breaches) > 0 {
		return 1
	}
	return 0
}

func printSoak(w io.Writer, reports []soakReport) error {
	if err := soakTable(reports).Text(w); err != nil {
		return err
	}
	for _, r := range reports {
		verdict := "as it claims"
		switch {
		case len(r.Breaches) == 0 && !r.Demanded:
			verdict = "nothing was let through, and it does not claim to rule that out"
		case !r.Demanded:
			verdict = "the design allows this"
		case len(r.Breaches) > 0:
			verdict = "AGAINST WHAT IT CLAIMS"
		}
		if _, err := fmt.Fprintf(w, "\n%s over %s: %d effects of %d permits, %d calls held: %s\n", r.Target, r.Store, r.Effects, r.Permits, r.Held, verdict); err != nil {
			return err
		}
		for _, b := range r.Breaches {
			if _, err := fmt.Fprintf(w, "  %d × %s, such as %s\n", b.Count, b.Kind, oneLine(b.Example)); err != nil {
				return err
			}
		}
	}
	return nil
}

// soakTable has a column for each soak.
func soakTable(reports []soakReport) export.Table {
	t := export.Table{Name: "soak", Title: "Soak of served gateways", Header: []string{""}, Names: 1}
	row := func(name string, cell func(soakReport) string) {
		cells := []string{name}
		for _, r := range reports {
			cells = append(cells, cell(r))
		}
		t.Rows = append(t.Rows, cells)
	}
	count := func(name string, of func(soakReport) int) {
		row(name, func(r soakReport) string { return strconv.Itoa(of(r)) })
	}
	for _, r := range reports {
		t.Header = append(t.Header, r.Target+" "+r.Store)
	}
	count("calls", func(r soakReport) int { return r.Calls })
	count("approvals", func(r soakReport) int { return r.Approvals })
	count("effects", func(r soakReport) int { return r.Effects })
	count("permits of these effects", func(r soakReport) int { return r.Permits })
	count("held", func(r soakReport) int { return r.Held })
	count("failed at the provider, asked again", func(r soakReport) int { return r.Failed })
	for _, tally := range []struct {
		name string
		of   func(soakReport) soakTally
	}{
		{"replays", func(r soakReport) soakTally { return r.Replays }},
		{"with another value", func(r soakReport) soakTally { return r.Altered }},
		{"to another service", func(r soakReport) soakTally { return r.Elsewhere }},
	} {
		row(tally.name, func(r soakReport) string {
			c := tally.of(r)
			text := fmt.Sprintf("%d: %d refused, %d absorbed, %d held", c.Sent, c.Refused, c.Absorbed, c.Held)
			if c.Executed > 0 {
				text += fmt.Sprintf(", %d EXECUTED", c.Executed)
			}
			if c.NoAnswer > 0 {
				text += fmt.Sprintf(", %d no answer", c.NoAnswer)
			}
			return text
		})
	}
	row("provider faults", func(r soakReport) string {
		n := 0
		for _, c := range r.Faults {
			n += c
		}
		return strconv.Itoa(n)
	})
	row("gateways killed", func(r soakReport) string { return fmt.Sprintf("%d, back after %.0f ms at most", r.Restarts, r.Slowest) })
	count("requests without an answer", func(r soakReport) int { return r.NoAnswers })
	row("breaches", func(r soakReport) string {
		n := 0
		for _, b := range r.Breaches {
			n += b.Count
		}
		return strconv.Itoa(n)
	})
	row("seconds", func(r soakReport) string { return fmt.Sprintf("%.1f, and %.1f for held calls", r.Seconds, r.Waited) })
	row("approvals a second", func(r soakReport) string { return fmt.Sprintf("%.1f", r.PerSecond) })
	for _, l := range []struct {
		name string
		of   func(soakReport) soakLatency
	}{
		{"decide", func(r soakReport) soakLatency { return r.Decide }}, {"dispatch", func(r soakReport) soakLatency { return r.Dispatch }},
	} {
		row(l.name+" p50, p99, max (ms)", func(r soakReport) string {
			c := l.of(r)
			return fmt.Sprintf("%.1f, %.1f, %.0f (%d left out)", c.P50, c.P99, c.Max, c.MetRestart)
		})
	}
	row("memory of a gateway, 25 %, peak (MiB)", func(r soakReport) string {
		if r.Memory == nil {
			return "-"
		}
		return fmt.Sprintf("%d, %d", r.Memory.Quarter>>20, r.Memory.Peak>>20)
	})
	count("lines of audit logs", func(r soakReport) int { return r.LogLines })
	return t
}

// latencyOf summarises durations, which it sorts. A quantile is the smallest duration
// that so much of them do not exceed.
func latencyOf(all []time.Duration, metRestart int) soakLatency {
	l := soakLatency{Calls: len(all), MetRestart: metRestart}
	if len(all) == 0 {
		return l
	}
	slices.Sort(all)
	at := func(percent int) float64 { return milliseconds(all[(len(all)*percent+99)/100-1]) }
	l.P50, l.P99, l.Max = at(50), at(99), at(100)
	return l
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
