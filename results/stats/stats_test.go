package stats

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func near(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tol) {
		t.Errorf("%s = %v, want %v within %v", what, got, want, tol)
	}
}

// limits compares an estimate with what a publication prints to four decimals.
func limits(t *testing.T, what string, e Estimate, err error, lo, hi float64) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	near(t, what+": lower limit", e.Lo, lo, 5e-5)
	near(t, what+": upper limit", e.Hi, hi, 5e-5)
}

// warns reports whether a warning begins so.
func warns(warnings []string, beginning string) bool {
	for _, w := range warnings {
		if strings.HasPrefix(w, beginning) {
			return true
		}
	}
	return false
}

// refuses wants an error that names the argument.
func refuses(t *testing.T, err error, argument string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), argument) {
		t.Errorf("error is %v, want one that names %q", err, argument)
	}
}

// binomial is the probability of k successes of n, computed without the library
// that the package uses.
func binomial(k, n int, p float64) float64 {
	lg := func(x int) float64 { v, _ := math.Lgamma(float64(x) + 1); return v }
	power := func(p float64, n int) float64 {
		if n == 0 {
			return 0
		}
		return float64(n) * math.Log(p)
	}
	return math.Exp(lg(n) - lg(k) - lg(n-k) + power(p, k) + power(1-p, n-k))
}

func TestBinomialOfTheTests(t *testing.T) {
	near(t, "2 of 4", binomial(2, 4, 0.5), 0.375, 1e-12)
	near(t, "3 of 3", binomial(3, 3, 1), 1, 1e-12)
	near(t, "0 of 3", binomial(0, 3, 1), 0, 1e-12)
}

func TestDesignWarns(t *testing.T) {
	if w, err := (Design{}).Warnings(5); err != nil || len(w) != 0 {
		t.Errorf("independent observations: %v, %v", w, err)
	}
	w, err := Design{Repeats: 3, Clusters: 2, Hidden: []string{"approver", "seed"}}.Warnings(6)
	if err != nil || len(w) != 3 || !warns(w, "dependent repeats: 3 of 6") || !warns(w, "clustered observations: 6 in 2") || !warns(w, "hidden dimension: the observations differ in approver, seed") {
		t.Errorf("warnings %q, %v", w, err)
	}
	if w, _ := (Design{Clusters: 6}).Warnings(6); len(w) != 0 {
		t.Errorf("one observation a cluster warns: %q", w)
	}
	for _, c := range []struct {
		d    Design
		n    int
		name string
	}{{Design{}, -1, "n is -1"}, {Design{Repeats: -1}, 3, "repeats"}, {Design{Repeats: 4}, 3, "repeats"},
		{Design{Clusters: -1}, 3, "clusters"}, {Design{Clusters: 4}, 3, "clusters"}} {
		_, err := c.d.Warnings(c.n)
		refuses(t, err, c.name)
	}
}

// A result that JSON has no number for is still written, and no list is null.
func TestEstimateJSON(t *testing.T) {
	got, err := json.Marshal(Estimate{Method: "m", N: 1, Value: math.NaN(), Lo: math.Inf(-1), Hi: math.Inf(1), Confidence: 0.95})
	want := `{"method":"m","n":1,"value":"NaN","lo":"-Infinity","hi":"Infinity","confidence":0.95,"warnings":[]}`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	got, err = json.Marshal(&Estimate{Value: 0.5, Warnings: []string{"w"}})
	want = `{"method":"","n":0,"value":0.5,"lo":0,"hi":0,"confidence":0,"warnings":["w"]}`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}

// What is written is read back, and nothing is read that is no number.
func TestEstimateIsReadBack(t *testing.T) {
	for _, e := range []Estimate{
		{Method: "m", N: 3, Value: 0.5, Lo: math.Inf(-1), Hi: math.Inf(1), Confidence: 0.95, Warnings: []string{"w"}},
		{Value: -0.25, Lo: 1e-300, Hi: 2, Warnings: []string{}},
	} {
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var back Estimate
		if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back, e) {
			t.Errorf("%s is read as %+v, %v", text, back, err)
		}
	}
	var back Estimate
	if err := json.Unmarshal([]byte(`{"value":"NaN","lo":0,"hi":1}`), &back); err != nil || !math.IsNaN(back.Value) {
		t.Errorf("no number is read as %v, %v", back.Value, err)
	}
	for _, text := range []string{`{"value":"much","lo":0,"hi":1}`, `{"value":1,"lo":0}`, `{"value":1,"lo":0,"hi":[]}`, `[]`} {
		if err := json.Unmarshal([]byte(text), &back); err == nil {
			t.Errorf("%s was read", text)
		}
	}
}

func TestBisect(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		root := rapid.Float64Range(1e-9, 1-1e-9).Draw(t, "root")
		if got := bisect(0, 1, func(x float64) float64 { return root - x }); math.Abs(got-root) > 1e-15 {
			t.Fatalf("bisect found %v, want %v", got, root)
		}
	})
}
