package figures

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"countersign/results"
)

var titles = []string{"argument substitution", "render mismatch", "reference drift", "replay", "cross-audience reuse", "stale authority",
	"retry duplication", "forged resume", "scope widening", "self-approval", "canonicalisation confusion", "fail-open"}

// sample is a matrix of the real size that has every kind of cell.
func sample(t testing.TB) *results.Analysis {
	c := results.Catalogue{Scenarios: []results.ScenarioInfo{{ID: "payments"}}}
	for i, name := range []string{"none", "flag", "session", "ticket", "bearer", "dpop", "stepup", "hash", "derived", "bound"} {
		c.Targets = append(c.Targets, results.TargetInfo{ID: fmt.Sprintf("M%d", i), Name: name})
	}
	c.Targets = append(c.Targets, results.TargetInfo{ID: "foreign", Name: "<b> & \u202ex\x1b[2J"})
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
	return a
}

func TestFiguresAreDeterministic(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	few := func() *results.Analysis { // rows enough for every kind of cell
		a := sample(t)
		a.Rows = a.Rows[9:]
		return a
	}
	paths, err := Write(first, few())
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) != 2*len(All()) {
		t.Fatalf("%d files of %d figures", len(paths), len(All()))
	}
	if _, err := Write(second, few()); err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		a, errA := os.ReadFile(p)
		b, errB := os.ReadFile(filepath.Join(second, filepath.Base(p)))
		if err := errors.Join(errA, errB); err != nil || !bytes.Equal(a, b) || len(a) == 0 {
			t.Errorf("%s: drawn twice, %d and %d bytes, not the same (%v)", filepath.Base(p), len(a), len(b), err)
		}
	}
}

func svg(t *testing.T, a *results.Analysis) string {
	t.Helper()
	d, err := HeatMap(a)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := d.SVG(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Every number and name of the table is in the figure, and a hostile name does
// not leave its label.
func TestHeatMapShowsTheNumbers(t *testing.T) {
	a := sample(t)
	s := svg(t, a)
	if err := wellFormed(s); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	d := xml.NewDecoder(strings.NewReader(s))
	for {
		tok, err := d.Token()
		if err != nil {
			break
		}
		if text, ok := tok.(xml.CharData); ok {
			all.WriteString(string(text) + "\n")
		}
	}
	want := []string{"AB12", "fail-open", "canonicalisation", "M9  bound", "<b> & ?x?[2J", "cannot tell", "not impl.", "u8"}
	for _, r := range a.Rows {
		for _, c := range append(r.Cells, results.Cell{Success: r.Benign}) {
			if c.Success.N > 0 {
				want = append(want, fmt.Sprintf("%d/%d", c.Success.K, c.Success.N))
			}
		}
	}
	for _, w := range want {
		if !strings.Contains(all.String(), w) {
			t.Errorf("%q is not in the figure", w)
		}
	}
	if strings.ContainsAny(s, "\x1b\u202e") {
		t.Error("control characters reached the figure")
	}
}

func wellFormed(s string) error {
	d := xml.NewDecoder(strings.NewReader(s))
	for {
		if _, err := d.Token(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func TestHeatMapDependsOnTheCounts(t *testing.T) {
	a, b := sample(t), sample(t)
	b.Rows[3].Cells[4].Success.K++
	if svg(t, a) == svg(t, b) {
		t.Error("another count gave the same figure")
	}
}

// Nothing is drawn across the edge: the outermost pixels stay white, for the full
// table and for the smallest one.
func TestHeatMapKeepsItsMargin(t *testing.T) {
	full := sample(t)
	small := *full
	small.Rows, small.Attacks = []results.Row{full.Rows[0]}, full.Attacks[:1]
	small.Rows[0].Cells = small.Rows[0].Cells[:1]
	for name, a := range map[string]*results.Analysis{"full": sample(t), "smallest": &small} {
		d, err := HeatMap(a)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := d.PNG(&b); err != nil {
			t.Fatal(err)
		}
		img, err := png.Decode(&b)
		if err != nil {
			t.Fatal(err)
		}
		r := img.Bounds()
		for x := r.Min.X; x < r.Max.X; x++ {
			white(t, name, img, x, r.Min.Y+2)
			white(t, name, img, x, r.Max.Y-3)
		}
		for y := r.Min.Y; y < r.Max.Y; y++ {
			white(t, name, img, r.Min.X+2, y)
			white(t, name, img, r.Max.X-3, y)
		}
	}
}

func white(t *testing.T, name string, img image.Image, x, y int) {
	t.Helper()
	if r, g, b, _ := img.At(x, y).RGBA(); r != 0xffff || g != 0xffff || b != 0xffff {
		t.Fatalf("%s: pixel %d,%d is not white", name, x, y)
	}
}

func TestNothingToDraw(t *testing.T) {
	for _, a := range []*results.Analysis{nil, {}} {
		if _, err := HeatMap(a); err == nil {
			t.Error("a figure of nothing")
		}
		if _, err := Write(t.TempDir(), a); err == nil {
			t.Error("files of nothing")
		}
	}
}
