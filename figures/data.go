package figures

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"time"

	"countersign/results"
)

// Data are what figures are made from, and nothing else.
type Data struct {
	Analysis  *results.Analysis
	Approvers []Approver // by name
	Ablation  *Ablation  // nil when the run took nothing apart
	Latency   []Latency  // of targets, in the order of the analysis; empty when nothing was timed
	Replay    *Replay    // nil when none was named
}

// An Approver has what executed while it decided.
type Approver struct {
	Name     string
	Executed []Count // attack variants, for each row of the analysis
}

// NoData is the error of a figure for which there is nothing to draw. It says
// what is missing.
type NoData string

func (e NoData) Error() string { return string(e) }

// An Ablation says what the loss of bindings lets through, as a run keeps it in
// ablation.json.
type Ablation struct {
	Target   string   `json:"target"`
	Bindings []string `json:"bindings"`
	Whole    bool     `json:"whole"` // the whole catalogue was tried
	Singles  []struct {
		Binding string   `json:"binding"`
		Opened  []string `json:"opened"` // variants, as AB1/NAME
	} `json:"singles"`
	Variants []struct {
		Attack  string          `json:"attack"`
		Variant string          `json:"variant"`
		Places  []AblationPlace `json:"places"`
	} `json:"variants"`
	Essential []string `json:"essential"` // without these there is no design
}

// An AblationPlace has the minimal cuts of a variant in some scenarios.
type AblationPlace struct {
	Cuts [][]string `json:"cuts"`
}

// A Latency holds how long dispatches of one target took, in ascending order.
type Latency struct {
	Target results.TargetInfo
	Took   []time.Duration
}

// A Replay is the summary of recorded AgentDojo traces that were passed through
// targets.
type Replay struct {
	Label     string           `json:"label"`
	Caveat    string           `json:"caveat"`
	Catalogue string           `json:"catalogue"` // version of the benchmark's
	Approver  string           `json:"approver"`
	Pipelines []ReplayPipeline `json:"pipelines"`
}

// A ReplayPipeline are the traces of one recorded agent.
type ReplayPipeline struct {
	Pipeline string         `json:"pipeline"`
	Benign   int            `json:"benign"` // traces
	Attacked int            `json:"attacked"`
	Targets  []ReplayTarget `json:"targets"`
}

// A ReplayTarget is what a target made of a pipeline's calls.
type ReplayTarget struct {
	Target  string `json:"target"`
	Name    string `json:"name"`
	Traces  int    `json:"traces"`
	Errors  int    `json:"errors"` // traces that failed, in no count
	Harmed  Count  `json:"harmed"` // attacked traces with an injected call executed
	Benign  Count  `json:"benign_utility_kept"`
	Prompts int    `json:"prompts"`
}

// A Count is K of N.
type Count struct {
	K int `json:"k"`
	N int `json:"n"`
}

// The further files of a run and of a replay.
const (
	ablationFile = "ablation.json"
	summaryFile  = "summary.json"
)

// Load analyses a run and reads what else it holds for figures.
func Load(r *results.Run) (*Data, error) {
	tried := trials{}
	a, err := results.Analyse(tried.watch(r.Records()), r.Catalogue, r.Manifest.Family)
	if err != nil {
		return nil, err
	}
	d := &Data{Analysis: a, Approvers: tried.approvers(a)}
	var ablation Ablation
	switch err := readJSON(r.Dir, ablationFile, &ablation); {
	case err == nil:
		d.Ablation = &ablation
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	if d.Latency, err = readLatency(r, a); err != nil {
		return nil, err
	}
	return d, nil
}

// LoadReplay reads the folder of a replay, whose digests it verifies.
func LoadReplay(dir string) (*Replay, error) {
	if err := results.VerifySums(dir, results.ManifestFile, summaryFile); err != nil {
		return nil, fmt.Errorf("opening replay %s: %w", dir, err)
	}
	var r Replay
	if err := readJSON(dir, summaryFile, &r); err != nil {
		return nil, fmt.Errorf("opening replay %s: %w", dir, err)
	}
	for _, p := range r.Pipelines {
		for _, t := range p.Targets {
			for _, c := range []Count{t.Harmed, t.Benign} {
				if c.K < 0 || c.K > c.N {
					return nil, fmt.Errorf("opening replay %s: %s: %d of %d", dir, t.Target, c.K, c.N)
				}
			}
		}
	}
	return &r, nil
}

func readJSON(dir, name string, v any) error {
	data, err := results.ReadPart(dir, name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	return nil
}

// readLatency returns nothing for a file that is not there.
func readLatency(r *results.Run, a *results.Analysis) ([]Latency, error) {
	data, err := r.ReadFile(results.LatencyFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	took := map[string][]time.Duration{}
	n := 0
	for line := range bytes.Lines(data) {
		n++
		var l struct {
			Target string `json:"target"`
			NS     int64  `json:"ns"`
		}
		err := json.Unmarshal(line, &l)
		if err == nil {
			switch {
			case l.NS < 0:
				err = fmt.Errorf("it took %d ns", l.NS)
			case !slices.ContainsFunc(a.Rows, func(r results.Row) bool { return r.Target.ID == l.Target }):
				err = fmt.Errorf("there is no target %q in the run", l.Target)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s: line %d: %w", results.LatencyFile, n, err)
		}
		took[l.Target] = append(took[l.Target], time.Duration(l.NS))
	}
	var out []Latency
	for _, r := range a.Rows {
		if t := took[r.Target.ID]; len(t) > 0 {
			slices.Sort(t)
			out = append(out, Latency{r.Target, t})
		}
	}
	return out, nil
}

// A trial is one attack variant at one target with one approver.
type trial struct{ approver, target, attack, variant string }

// trials holds what was observed: an execution, another outcome, an error.
type trials map[trial][3]bool

// watch notes the attacks in a sequence of records.
func (t trials) watch(records iter.Seq2[results.Record, error]) iter.Seq2[results.Record, error] {
	return func(yield func(results.Record, error) bool) {
		for r, err := range records {
			if err == nil && r.Kind == results.Attack {
				k := trial{r.Approver, r.Target, r.Attack, r.Variant}
				o := t[k]
				t[k] = [3]bool{o[0] || r.Observed == results.Executed, o[1] || r.Conclusive() && r.Observed != results.Executed, o[2] || r.Uncertain()}
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// approvers counts as [results.Analyse] does: executed in any trial is executed, and
// an error leaves open what is not.
func (t trials) approvers(a *results.Analysis) []Approver {
	counts := map[string][]Count{}
	for k, o := range t {
		if counts[k.approver] == nil {
			counts[k.approver] = make([]Count, len(a.Rows))
		}
		c := &counts[k.approver][slices.IndexFunc(a.Rows, func(r results.Row) bool { return r.Target.ID == k.target })]
		switch {
		case o[0]:
			c.K, c.N = c.K+1, c.N+1
		case o[1] && !o[2]:
			c.N++
		}
	}
	var out []Approver
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, Approver{name, counts[name]})
	}
	return out
}

// opened counts, for a binding and a family, the variants that its loss alone lets
// through, and those for which another has to be lost with it.
func (a *Ablation) opened(binding, attack string) (alone, together int) {
	var opened []string
	for _, s := range a.Singles {
		if s.Binding == binding {
			opened = s.Opened
		}
	}
	for _, v := range a.Variants {
		switch {
		case v.Attack != attack:
		case slices.Contains(opened, v.Attack+"/"+v.Variant):
			alone++
		case slices.ContainsFunc(v.Places, func(p AblationPlace) bool {
			return slices.ContainsFunc(p.Cuts, func(cut []string) bool { return len(cut) > 1 && slices.Contains(cut, binding) })
		}):
			together++
		}
	}
	return alone, together
}

// attacks are the families that were tried, in the order of the report.
func (a *Ablation) attacks() []string {
	var out []string
	for _, v := range a.Variants {
		if !slices.Contains(out, v.Attack) {
			out = append(out, v.Attack)
		}
	}
	return out
}

// of returns the row of a target.
func (d *Data) of(target string) results.TargetInfo {
	for _, r := range d.Analysis.Rows {
		if r.Target.ID == target {
			return r.Target
		}
	}
	return results.TargetInfo{ID: cmp.Or(target, "?")}
}
