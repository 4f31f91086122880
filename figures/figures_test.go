package figures

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"

	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"countersign/results"
	"countersign/results/stats"
)

var (
	titles = []string{"argument substitution", "render mismatch", "reference drift", "replay", "cross-audience reuse", "stale authority",
		"retry duplication", "forged resume", "scope widening", "self-approval", "canonicalisation confusion", "fail-open"}
	designs = []string{"none", "flag", "session", "ticket", "bearer", "dpop", "stepup", "hash", "derived", "bound"}
	hostile = "<b> & \"x\" ]]> \u202ex\x1b[2J\u0336é字"
)

// sample is a run of the real size that has every kind of cell.
func sample(t testing.TB) *Data {
	t.Helper()
	c := results.Catalogue{Scenarios: []results.ScenarioInfo{{ID: "payments"}}}
	for i, name := range designs {
		c.Targets = append(c.Targets, results.TargetInfo{ID: fmt.Sprintf("M%d", i), Name: name})
	}
	c.Targets = append(c.Targets, results.TargetInfo{ID: "foreign", Name: hostile, Group: hostile})
	var records []results.Record
	for j, title := range titles {
		a := results.AttackInfo{ID: fmt.Sprintf("AB%d", j+1), Title: title}
		n := 6 + j%4*2
		for v := range n {
			name := fmt.Sprintf("v%d", v)
			a.Variants = append(a.Variants, results.VariantInfo{Name: name, Kind: results.Attack, Condition: "args"},
				results.VariantInfo{Name: name, Kind: results.Twin})
			for i, target := range c.Targets {
				r := results.Record{Schema: results.Schema, Target: target.ID, Attack: a.ID, Variant: name, Kind: results.Attack, Scenario: "payments",
					Approver: "faithful", Pair: a.ID + name, Predicted: results.PredictBlocked, Observed: results.Refused, RefusedBy: []string{"args"}}
				switch {
				case v*9 < (9-i)*n-j:
					r.Predicted, r.Observed = results.PredictExecuted, results.Executed
				case target.ID == "foreign" && j%5 == 1:
					r.Observed = results.Unimplemented
				case target.ID == "foreign" && j == 3 && v == 2:
					r.Observed, r.Detail = results.Error, "no answer"
				case target.ID == "foreign" && j == 5 && v < 2:
					r.Observed = results.Starved
				}
				records = append(records, r)
				if target.ID == "foreign" && j == 0 {
					continue
				}
				r.Kind, r.Twin, r.Predicted, r.Observed, r.Detail = results.Twin, true, results.PredictCompleted, results.Completed, ""
				r.Prompts = min(i, 1) + v%2*i/8
				if i == 7 && v%4 == 0 {
					r.Observed = results.Refused
				}
				records = append(records, r)
			}
		}
		c.Attacks = append(c.Attacks, a)
	}
	a, err := results.Analyse(results.Sequence(records), c, results.Family{})
	if err != nil {
		t.Fatal(err)
	}
	d := &Data{Analysis: a, Ablation: ablation(t), Replay: replay(a)}
	for i, r := range a.Rows {
		l := Latency{Target: r.Target}
		for k := range 200 {
			l.Took = append(l.Took, time.Duration(1+i)*100*time.Microsecond+time.Duration(k*k)*time.Microsecond)
		}
		d.Latency = append(d.Latency, l)
	}
	d.Approvers = deciding(a, "careful", "faithful", "rubber-stamp")
	return d
}

func ablation(t testing.TB) *Ablation {
	t.Helper()
	var a Ablation
	if err := readJSON(referenceRun("ablation"), ablationFile, &a); err != nil {
		t.Fatal(err)
	}
	return &a
}

// deciding has the same counts for all approvers but the last.
func deciding(a *results.Analysis, names ...string) (out []Approver) {
	for i, name := range names {
		p := Approver{Name: name}
		for j, r := range a.Rows {
			k := r.Success.K
			if i == len(names)-1 {
				k = max(k, r.Success.N*j/40)
			}
			p.Executed = append(p.Executed, Count{k, r.Success.N})
		}
		out = append(out, p)
	}
	return out
}

func replay(a *results.Analysis) *Replay {
	r := &Replay{Label: "recorded traces " + hostile, Caveat: strings.Repeat("open loop ", 30), Catalogue: "v1.1.2", Approver: "faithful"}
	for _, name := range []string{"gpt", strings.Repeat("long-pipeline ", 30), hostile} {
		p := ReplayPipeline{Pipeline: name, Benign: 16, Attacked: 144}
		for i, row := range a.Rows {
			p.Targets = append(p.Targets, ReplayTarget{Target: row.Target.ID, Name: row.Target.Name, Traces: 160, Errors: i % 3,
				Harmed: Count{100 - 10*min(i, 10), 100}, Benign: Count{12 - min(i, 12), 12}, Prompts: 20 * i})
		}
		r.Pipelines = append(r.Pipelines, p)
	}
	return r
}

// referenceRun is where a run of the committed reference is.
func referenceRun(part string) string { return filepath.Join("..", "results", "reference", part) }

// reference is the committed reference run, with the ablation of another.
func reference(t testing.TB) *Data {
	t.Helper()
	r, err := results.Open(referenceRun("matrix"))
	if err != nil {
		t.Fatal(err)
	}
	d, err := Load(r)
	if err != nil {
		t.Fatal(err)
	}
	d.Ablation = ablation(t)
	return d
}

// extremes are data that no figure may be spoilt by.
func extremes(t testing.TB) map[string]*Data {
	t.Helper()
	one := sample(t)
	row := one.Analysis.Rows[0]
	row.Cells = row.Cells[:1]
	one.Analysis.Rows, one.Analysis.Attacks, one.Analysis.Comparisons = []results.Row{row}, one.Analysis.Attacks[:1], one.Analysis.Comparisons[:1]
	one.Approvers = deciding(one.Analysis, "a", "b")
	one.Latency = one.Latency[:1]
	one.Latency[0].Took = []time.Duration{0}
	one.Ablation.Bindings, one.Ablation.Variants = one.Ablation.Bindings[:1], one.Ablation.Variants[:1]
	one.Replay.Pipelines = one.Replay.Pipelines[:1]
	one.Replay.Pipelines[0].Targets = one.Replay.Pipelines[0].Targets[:1]

	thirty := sample(t)
	a := thirty.Analysis
	for i := range a.Attacks {
		a.Attacks[i].ID += strings.Repeat("W", i)
		a.Attacks[i].Title = strings.Repeat("Wwwww", 1+i) + " " + hostile
	}
	var rows []results.Row
	thirty.Latency = nil
	for i := range 30 {
		r := a.Rows[i%len(a.Rows)]
		r.Target.ID = fmt.Sprintf("%s-%d", strings.Repeat("WIDE", i%7*10), i)
		r.Target.Name = strings.Repeat("name ", i%50)
		r.Target.Group = []string{"", "with hygiene", strings.Repeat("published descriptions ", 40)}[i/10]
		r.Success.K, r.Success.N = 12345, 98765+i
		if i%10 == 3 {
			r.Success.K = 0
		}
		iv, err := stats.Wilson(r.Success.K, r.Success.N, results.Confidence)
		if err != nil {
			t.Fatal(err)
		}
		r.Success.Interval = &iv
		if i%4 == 1 {
			r.Success.Errors, r.Success.Unimplemented, r.Success.Starved, r.Success.Nondeterministic = 1234, 1234, 1234, 1234
		}
		r.Cells = slices.Clone(r.Cells)
		r.Cells[3].Success = r.Success
		r.Benign.Errors = i % 2 * 999
		rows = append(rows, r)
		c := results.Comparison{Reference: "M9", Target: r.Target.ID, Variants: 98765, Both: 98765 - 40000 - 200*i, B: 1500 * i, C: 40000 - 1300*i, Family: 30, HolmMidP: 0.5}
		difference, err := stats.NewcombePaired(stats.Pairs{Both: c.Both, B: c.C, C: c.B, Neither: c.Neither}, results.Confidence)
		if err != nil {
			t.Fatal(err)
		}
		c.Difference = &difference
		a.Comparisons = append(a.Comparisons, c)
		thirty.Latency = append(thirty.Latency, Latency{r.Target, []time.Duration{time.Duration(i), time.Hour * time.Duration(i)}})
	}
	a.Rows = rows
	thirty.Replay = replay(a)
	var people []string
	for i := range 30 {
		people = append(people, fmt.Sprintf("%s %d", strings.Repeat("Very careful", i), i))
	}
	thirty.Approvers = deciding(a, people...)
	for i := range thirty.Ablation.Bindings {
		thirty.Ablation.Bindings[i] = strings.Repeat("binding ", i*4)
	}
	thirty.Ablation.Essential = thirty.Ablation.Bindings[3:5]

	same := sample(t)
	for i := range same.Analysis.Rows {
		r := &same.Analysis.Rows[i]
		r.Success, r.Benign, r.Burden = same.Analysis.Rows[0].Success, same.Analysis.Rows[0].Benign, results.Burden{Trials: 1}
	}
	for i := range same.Analysis.Comparisons {
		c := &same.Analysis.Comparisons[i]
		c.B, c.C, c.Neither = 0, 0, c.Variants-c.Both
	}
	close := sample(t)
	for i := range close.Analysis.Rows {
		r := &close.Analysis.Rows[i]
		r.Success.N, r.Success.K = 1000, 1000-i%2
		r.Benign.N, r.Benign.K = 1000, 1000-i
		r.Burden = results.Burden{Prompts: 1000 + i, Trials: 1000}
	}
	return map[string]*Data{"sample": sample(t), "reference": reference(t), "one": one, "thirty": thirty, "same": same, "close": close}
}

// drawn calls f with every figure of the data; those without data are skipped.
func drawn(t *testing.T, d *Data, f func(t *testing.T, name string, drawing Drawing)) {
	t.Helper()
	n := 0
	for _, fig := range All() {
		drawing, err := fig.Draw(d)
		if none := NoData(""); errors.As(err, &none) {
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", fig.Name, err)
			continue
		}
		n++
		t.Run(fig.Name, func(t *testing.T) { f(t, fig.Name, drawing) })
	}
	if n < 4 {
		t.Errorf("%d figures were drawn", n)
	}
}

func svg(t testing.TB, d Drawing) string {
	t.Helper()
	var b bytes.Buffer
	if err := d.SVG(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestFiguresAreDeterministic(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	paths, left, err := Write(first, sample(t))
	if err != nil || len(left) > 0 {
		t.Fatalf("left out: %v; %v", left, err)
	}
	if len(paths) != len(Forms())*len(All()) {
		t.Fatalf("%d files of %d figures", len(paths), len(All()))
	}
	if _, _, err := Write(second, sample(t)); err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		a, errA := os.ReadFile(p)
		b, errB := os.ReadFile(filepath.Join(second, filepath.Base(p)))
		if err := errors.Join(errA, errB); err != nil || len(a) == 0 || filepath.Ext(p) != ".pdf" && !bytes.Equal(a, b) {
			t.Errorf("%s: drawn twice, %d and %d bytes, not the same (%v)", filepath.Base(p), len(a), len(b), err)
		}
		if filepath.Ext(p) == ".pdf" && (!bytes.HasPrefix(a, []byte("%PDF-")) || bytes.Contains(a, []byte("(D:"+time.Now().UTC().Format("200601")))) {
			t.Errorf("%s is no PDF, or has the time at which it was drawn", filepath.Base(p))
		}
	}
}

// written gives what is written in a figure, and fails if it is not well-formed or
// holds anything but drawing.
func written(t *testing.T, svg string) string {
	t.Helper()
	var all strings.Builder
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		tok, err := d.Token()
		if err == io.EOF {
			return all.String()
		}
		if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
		switch tok := tok.(type) {
		case xml.CharData:
			all.WriteString(string(tok) + "\n")
		case xml.StartElement:
			if !slices.Contains([]string{"svg", "g", "path", "text"}, tok.Name.Local) {
				t.Fatalf("there is an element %s in the figure", tok.Name.Local)
			}
		}
	}
}

// A hostile name does not leave its label, in any figure.
func TestHostileNamesAreHarmless(t *testing.T) {
	d := sample(t)
	for i := range d.Analysis.Rows {
		d.Analysis.Rows[i].Target.Name = hostile
		d.Latency[i].Target.Name = hostile
	}
	for i := range d.Approvers {
		d.Approvers[i].Name = hostile
	}
	for i := range d.Analysis.Attacks {
		d.Analysis.Attacks[i].Title, d.Analysis.Attacks[i].ID = hostile, hostile
	}
	for i := range d.Ablation.Bindings {
		d.Ablation.Bindings[i] = hostile
	}
	drawn(t, d, func(t *testing.T, _ string, drawing Drawing) {
		s := svg(t, drawing)
		if n := strings.Count(s, "<text "); n == 0 || n != strings.Count(s, " textLength=") {
			t.Errorf("not all of %d texts say how wide they are", n)
		}
		if !strings.Contains(written(t, s), "<b> &") {
			t.Error("the name is not in the figure")
		}
		if strings.ContainsAny(s, "\x1b\u202e\u0336字") {
			t.Error("characters that cannot be drawn reached the figure")
		}
		var b bytes.Buffer
		if err := drawing.PDF(&b); err != nil {
			t.Error(err)
		}
	})
}

// Every count of the table is in the heat map.
func TestHeatMapShowsTheNumbers(t *testing.T) {
	d := sample(t)
	drawing, err := HeatMap(d)
	if err != nil {
		t.Fatal(err)
	}
	all := written(t, svg(t, drawing))
	want := []string{"AB12", "fail-open", "M9 bound", "cannot tell", "not impl.", "u8"}
	for _, r := range d.Analysis.Rows {
		for _, c := range append(r.Cells, results.Cell{Success: r.Benign}) {
			if c.Success.N > 0 {
				want = append(want, fmt.Sprintf("%d/%d", c.Success.K, c.Success.N))
			}
		}
	}
	for _, w := range want {
		if !strings.Contains(all, w) {
			t.Errorf("%q is not in the figure", w)
		}
	}
}

func TestFiguresDependOnTheData(t *testing.T) {
	for _, f := range All() {
		first, err := f.Draw(sample(t))
		if err != nil {
			t.Fatal(err)
		}
		other := sample(t)
		r := &other.Analysis.Rows[4]
		r.Success.K--
		r.Success.Interval.Lo /= 2
		r.Cells[4].Success.K++
		other.Analysis.Comparisons[3].C--
		other.Analysis.Comparisons[3].Neither++
		other.Ablation.Singles[0].Opened = other.Ablation.Singles[0].Opened[1:]
		other.Latency[2].Took[199] = time.Minute
		other.Approvers[0].Executed[2].K--
		other.Replay.Pipelines[0].Targets[1].Harmed.K--
		second, err := f.Draw(other)
		if err != nil {
			t.Fatal(err)
		}
		if svg(t, first) == svg(t, second) {
			t.Errorf("%s: other data gave the same figure", f.Name)
		}
	}
}

// A rate of zero is drawn with its upper limit, and no zero passes for certain.
func TestZeroRatesHaveAnUpperBound(t *testing.T) {
	d := reference(t)
	bound := d.Analysis.Rows[9]
	if bound.Success.K != 0 {
		t.Fatalf("%s executes %d variants; take another for this test", bound.Target.ID, bound.Success.K)
	}
	intervals, err := Intervals(d)
	if err != nil {
		t.Fatal(err)
	}
	if want := "0 to " + share(bound.Success.Interval.Hi, 3); !strings.Contains(written(t, svg(t, intervals)), want) {
		t.Errorf("%q is not in the figure", want)
	}
	heat, err := HeatMap(d)
	if err != nil {
		t.Fatal(err)
	}
	all := written(t, svg(t, heat))
	for _, c := range bound.Cells {
		if want := "to " + share(c.Success.Interval.Hi, 2); !strings.Contains(all, want) {
			t.Errorf("%q of %s is not in the heat map", want, c.Attack)
		}
	}
	// What is not quite zero or one is not written so.
	for v, want := range map[float64]string{0: "0", 1: "1", 0.00012: "0.0001", -0.00012: "-0.0001", 4e-9: "4e-09", 0.9999: "1.000", 0.5: "0.500", -1: "-1"} {
		if got := share(v, 3); got != want {
			t.Errorf("share(%v) = %q, want %q", v, got, want)
		}
	}
}

func TestWithoutDataAFigureIsLeftOut(t *testing.T) {
	for _, d := range []*Data{nil, {}, {Analysis: &results.Analysis{}}} {
		for _, f := range All() {
			_, err := f.Draw(d)
			if none := NoData(""); !errors.As(err, &none) || none == "" {
				t.Errorf("%s of nothing: %v, want the reason why it is left out", f.Name, err)
			}
		}
		dir := filepath.Join(t.TempDir(), "out")
		if paths, _, err := Write(dir, d); err == nil || len(paths) > 0 {
			t.Errorf("files of nothing: %v, %v", paths, err)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Error("a folder was made for nothing")
		}
	}
	d := reference(t)
	d.Ablation = nil
	dir := t.TempDir()
	paths, left, err := Write(dir, d, "ablation", "paired-differences")
	if err != nil || len(paths) != len(Forms()) || len(left) != 1 || left[0].Name != "ablation" || !strings.Contains(left[0].Reason, "--ablate") {
		t.Errorf("%v, left out %v, %v", paths, left, err)
	}
	if _, _, err := Write(dir, d, "no-such"); err == nil || !strings.Contains(err.Error(), `no figure "no-such"`) {
		t.Errorf("an unknown figure: %v", err)
	}
}

// The matrix counts what the report of the ablation says.
func TestMatrixCounts(t *testing.T) {
	var a Ablation
	err := json.Unmarshal([]byte(`{"target": "M9", "bindings": ["args", "once", "seen"],
		"singles": [{"binding": "args", "opened": ["AB1/a", "AB11/a"]}, {"binding": "once", "opened": []}],
		"variants": [
			{"attack": "AB1", "variant": "a", "places": [{"cuts": [["args"], ["once", "seen"]]}]},
			{"attack": "AB1", "variant": "b", "places": [{"cuts": []}, {"cuts": [["args", "once"], ["once", "seen"]]}]},
			{"attack": "AB11", "variant": "a", "places": [{"cuts": [["args"]]}]}]}`), &a)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		binding, attack string
		alone, together int
	}{
		{"args", "AB1", 1, 1}, {"args", "AB11", 1, 0}, {"once", "AB1", 0, 2}, {"seen", "AB1", 0, 2}, {"seen", "AB11", 0, 0},
	} {
		if alone, together := a.opened(c.binding, c.attack); alone != c.alone || together != c.together {
			t.Errorf("%s opens of %s: %d alone and %d together, want %d and %d", c.binding, c.attack, alone, together, c.alone, c.together)
		}
	}
	if got := a.attacks(); !slices.Equal(got, []string{"AB1", "AB11"}) {
		t.Errorf("families %v", got)
	}
}

func TestQuantile(t *testing.T) {
	took := []time.Duration{1, 2, 3, 4}
	if got := duration("%#.3g", 10*time.Millisecond); got != "10.0 ms" {
		t.Errorf("10 ms are written %q", got)
	}
	for q, want := range map[float64]time.Duration{0: 1, 0.25: 1, 0.5: 2, 0.51: 3, 0.99: 4, 1: 4} {
		if got := quantile(took, q); got != want {
			t.Errorf("quantile %v is %d, want %d", q, got, want)
		}
	}
	for d, want := range map[time.Duration]string{7: "7 ns", 1500: "1.5 µs", 36 * time.Millisecond: "36 ms", 90 * time.Second: "90 s"} {
		if got := duration("%.3g", d); got != want {
			t.Errorf("%d ns is written %q, want %q", d, got, want)
		}
	}
}
