// Package stats holds the statistics of the lab: pure functions of counts and
// pairs that return their warnings with the numbers, so that a caller cannot
// print one without having the other.
//
//	intervals.go  proportions, and differences of independent ones
//	paired.go     two conditions on the same units: tests, differences, odds ratios
//	multiple.go   families of tests
//	agreement.go  agreement of approvers
//	bootstrap.go  observations in clusters, and crossed factors
//	size.go       how many observations are needed
//
// Proportions and p values are fractions of 1, counts are numbers of units. What
// the unit is, and whether a number is an inference or only a description of the
// cases at hand, is for the caller to say: the package knows nothing of records or
// targets. results/METHODS.md says what the lab answers, with formulas and sources.
// What a caller knows of the observations and counts cannot show goes into a
// [Design], which turns it into warnings.
//
// Every function checks its arguments and names the bad one in its error. Where a
// number is not defined (no discordant pairs, agreement where only one category
// was used) it is NaN with a warning, never a made-up value.
package stats

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"
)

// SmallN is the number of observations below which a result carries a warning. It
// is a rule of thumb: at n = 10 a Wilson interval for one half is still 0.53 wide.
const SmallN = 10

// fewForNormal is the number below which a normal approximation carries a warning,
// the usual rule for the chi-square form of McNemar's test.
const fewForNormal = 25

// An Interval is a confidence interval of a proportion.
type Interval struct {
	Method     string   `json:"method"`
	K          int      `json:"k"`          // successes
	N          int      `json:"n"`          // observations, > 0
	Estimate   float64  `json:"estimate"`   // K/N
	Lo         float64  `json:"lo"`         // lower limit, in [0, Estimate]
	Hi         float64  `json:"hi"`         // upper limit, in [Estimate, 1]
	Confidence float64  `json:"confidence"` // nominal two-sided coverage, such as 0.95
	Warnings   []string `json:"warnings"`
}

// An Estimate is any other number with its confidence limits: a difference, an
// odds ratio, an agreement, a mean over clusters.
type Estimate struct {
	Method     string
	N          int     // independent units it rests on; the function says which
	Value      float64 // NaN where it is not defined
	Lo, Hi     float64 // limits; NaN where there are none, infinite for an open odds ratio
	Confidence float64 // nominal two-sided coverage, such as 0.95
	Warnings   []string
}

// MarshalJSON writes the members in lower case. JSON has no number for the values
// that are not finite: they are the strings "NaN", "Infinity" and "-Infinity", as in
// the JSON form of protocol buffers.
func (e Estimate) MarshalJSON() ([]byte, error) {
	number := func(x float64) any {
		switch {
		case math.IsNaN(x):
			return "NaN"
		case math.IsInf(x, 1):
			return "Infinity"
		case math.IsInf(x, -1):
			return "-Infinity"
		}
		return x
	}
	warnings := e.Warnings
	if warnings == nil {
		warnings = []string{} // never null
	}
	return json.Marshal(struct {
		Method     string   `json:"method"`
		N          int      `json:"n"`
		Value      any      `json:"value"`
		Lo         any      `json:"lo"`
		Hi         any      `json:"hi"`
		Confidence float64  `json:"confidence"`
		Warnings   []string `json:"warnings"`
	}{e.Method, e.N, number(e.Value), number(e.Lo), number(e.Hi), e.Confidence, warnings})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (e *Estimate) UnmarshalJSON(text []byte) error {
	var in struct {
		Method     string          `json:"method"`
		N          int             `json:"n"`
		Value      json.RawMessage `json:"value"`
		Lo         json.RawMessage `json:"lo"`
		Hi         json.RawMessage `json:"hi"`
		Confidence float64         `json:"confidence"`
		Warnings   []string        `json:"warnings"`
	}
	if err := json.Unmarshal(text, &in); err != nil {
		return fmt.Errorf("reading an estimate: %w", err)
	}
	*e = Estimate{Method: in.Method, N: in.N, Confidence: in.Confidence, Warnings: in.Warnings}
	for _, m := range []struct {
		text json.RawMessage
		to   *float64
	}{{in.Value, &e.Value}, {in.Lo, &e.Lo}, {in.Hi, &e.Hi}} {
		switch string(m.text) {
		case `"NaN"`:
			*m.to = math.NaN()
		case `"Infinity"`:
			*m.to = math.Inf(1)
		case `"-Infinity"`:
			*m.to = math.Inf(-1)
		default:
			if err := json.Unmarshal(m.text, m.to); err != nil {
				return fmt.Errorf("reading an estimate: %w", err)
			}
		}
	}
	return nil
}

// A Design is what the caller knows of how observations came about and counts
// cannot show. The zero value says that they are independent and alike.
type Design struct {
	// Repeats is the number of observations that repeat another one: the same
	// deterministic script under another seed.
	Repeats int
	// Clusters is the number of groups whose members are not independent of one
	// another, such as scenarios; 0 when there are none.
	Clusters int
	// Hidden names what differs between the observations without being shown, such
	// as the approver.
	Hidden []string
}

// Warnings says what of the design a result that takes n observations as
// independent ignores. The error reports a count that is negative or above n.
func (d Design) Warnings(n int) ([]string, error) {
	switch {
	case n < 0:
		return nil, fmt.Errorf("design: n is %d, want none negative", n)
	case d.Repeats < 0 || d.Repeats > n:
		return nil, fmt.Errorf("design: repeats is %d, want 0 to n = %d", d.Repeats, n)
	case d.Clusters < 0 || d.Clusters > n:
		return nil, fmt.Errorf("design: clusters is %d, want 0 to n = %d", d.Clusters, n)
	}
	w := []string{}
	if d.Repeats > 0 {
		w = append(w, fmt.Sprintf("dependent repeats: %d of %d observations repeat another one and are no further evidence", d.Repeats, n))
	}
	if d.Clusters > 0 && d.Clusters < n {
		w = append(w, fmt.Sprintf("clustered observations: %d in %d clusters are taken as independent, which makes the interval too narrow", n, d.Clusters))
	}
	if len(d.Hidden) > 0 {
		w = append(w, fmt.Sprintf("hidden dimension: the observations differ in %s", strings.Join(d.Hidden, ", ")))
	}
	return w, nil
}

// checkConfidence refuses anything but a number between 0 and 1.
func checkConfidence(method string, confidence float64) error {
	if !(confidence > 0 && confidence < 1) {
		return fmt.Errorf("%s: confidence is %v, want more than 0 and less than 1", method, confidence)
	}
	return nil
}

// checkProportion refuses counts that are no k of n; suffix tells two samples apart.
func checkProportion(method, suffix string, k, n int) error {
	switch {
	case n <= 0:
		return fmt.Errorf("%s: n%s is %d, want at least one observation", method, suffix, n)
	case k < 0 || k > n:
		return fmt.Errorf("%s: k%s is %d, want 0 to n%s = %d", method, suffix, k, suffix, n)
	}
	return nil
}

// normalQuantile returns z with a standard normal probability of confidence
// between -z and z.
func normalQuantile(confidence float64) float64 {
	return -distuv.UnitNormal.Quantile((1 - confidence) / 2)
}

// maxBinomial is the largest number of binomial trials whose tails the library
// computes to eight digits; with ten times as many it has three.
const maxBinomial = 1_000_000

// checkBinomial refuses a number of trials whose tails would be wrong.
func checkBinomial(method, what string, n int) error {
	if n > maxBinomial {
		return fmt.Errorf("%s: %s is %d, want at most %d: beyond that the binomial tails are not accurate", method, what, n, maxBinomial)
	}
	return nil
}

// smallSample warns below [SmallN]; what names the unit.
func smallSample(what string, n int) []string {
	if n < SmallN {
		return []string{fmt.Sprintf("small sample: %s = %d is below %d", what, n, SmallN)}
	}
	return []string{}
}

// bisect returns the point in [lo, hi] where f, which decreases, passes 0, to the
// last bit.
func bisect(lo, hi float64, f func(float64) float64) float64 {
	for {
		mid := lo + (hi-lo)/2
		if mid <= lo || mid >= hi {
			return mid
		}
		if f(mid) > 0 {
			lo = mid
		} else {
			hi = mid
		}
	}
}
