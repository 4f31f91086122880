package export

import (
	"fmt"
	"io"
	"strings"

	"github.com/jstemmer/go-junit-report/v2/junit"

	"countersign/results"
)

// JUnit writes a comparison with a baseline as JUnit XML: a suite for each target
// and a test case for each variant. A regression is a failure, and so is, if
// strict, a trial blocked for another reason than predicted; trials that could not
// be carried out are an error; what is missing from the run, or what the target
// does not implement at all, is skipped. The time of everything is 0, since a run
// has no clock.
func JUnit(w io.Writer, k *results.Check, strict bool) error {
	suites := junit.Testsuites{Name: "countersign"}
	byTarget := map[string]*junit.Testsuite{}
	var order []string
	for _, c := range k.Cases {
		e := c.Entry()
		suite := byTarget[e.Target]
		if suite == nil {
			suite = &junit.Testsuite{Name: clean(e.Target), ID: len(order), Time: "0.000"}
			byTarget[e.Target] = suite
			order = append(order, e.Target)
		}
		suite.AddTestcase(testcase(c, strict))
	}
	for _, target := range order {
		suites.AddSuite(*byTarget[target])
	}
	return writeXML(w, suites)
}

func writeXML(w io.Writer, suites junit.Testsuites) error {
	if _, err := io.WriteString(w, `<?xml version="1.0" encoding="UTF-8"?>`+"\n"); err != nil {
		return fmt.Errorf("writing JUnit XML: %w", err)
	}
	if err := suites.WriteXML(w); err != nil {
		return fmt.Errorf("writing JUnit XML: %w", err)
	}
	return nil
}

// A Suite is a group of test cases for [JUnitSuites].
type Suite struct {
	Name  string
	Cases []SuiteCase
}

// A SuiteCase is one test case.
type SuiteCase struct {
	Class, Name string
	Outcome     SuiteOutcome
	Detail      string // of anything but a pass
}

// A SuiteOutcome says how a test case ended.
type SuiteOutcome int

const (
	Passed SuiteOutcome = iota
	Failed
	Errored
	Skipped
)

// JUnitSuites writes test cases as JUnit XML, without times.
func JUnitSuites(w io.Writer, list []Suite) error {
	suites := junit.Testsuites{Name: "countersign"}
	for i, s := range list {
		suite := junit.Testsuite{Name: clean(s.Name), ID: i, Time: "0.000"}
		for _, c := range s.Cases {
			t := junit.Testcase{Name: clean(c.Name), Classname: clean(c.Class), Time: "0.000"}
			result := &junit.Result{Message: clean(c.Detail)}
			switch c.Outcome {
			case Passed:
			case Failed:
				t.Failure = result
			case Skipped:
				t.Skipped = result
			default:
				t.Error = result
			}
			suite.AddTestcase(t)
		}
		suites.AddSuite(suite)
	}
	return writeXML(w, suites)
}

func testcase(c results.Case, strict bool) junit.Testcase {
	e := c.Entry()
	t := junit.Testcase{
		Name: clean(strings.TrimPrefix(e.Name(), e.Target+" ")), Classname: clean(e.Target + "." + e.Attack), Time: "0.000",
	}
	result := func(kind, message string) *junit.Result {
		return &junit.Result{Type: kind, Message: clean(message), Data: clean(details(c))}
	}
	switch {
	case c.Change == results.Regression:
		t.Failure = result("regression", c.Why)
	case strict && c.WrongReasons() > 0:
		t.Failure = result("wrong-reason", wrongReasonText(c))
	case c.Errors() > 0:
		t.Error = result("cannot-tell", errorText(c))
	case c.Change == results.Missing:
		t.Skipped = result("missing", c.Why)
	case onlyUnimplemented(e):
		t.Skipped = result("unimplemented", "the target does not implement what this needs")
	case c.Why != "":
		t.SystemOut = &junit.Output{Data: clean(string(c.Change) + ": " + c.Why)}
	}
	return t
}

func onlyUnimplemented(e results.BaselineEntry) bool {
	return len(e.Observed) == 1 && e.Observed[results.Unimplemented] > 0
}

// details puts the two sides of a case on one line.
func details(c results.Case) string {
	side := func(e *results.BaselineEntry) string {
		if e == nil {
			return "nothing"
		}
		return e.Outcomes() + " (refused by " + list(e.RefusedBy) + ")"
	}
	return "baseline: " + side(c.Before) + "; run: " + side(c.After)
}
