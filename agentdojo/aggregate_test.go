package agentdojo

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAggregate(t *testing.T) {
	b := mini(t)
	a := NewAggregate(b.Catalogue)
	for tr, err := range Walk([]string{"testdata/runs"}) {
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Add(tr); err != nil {
			t.Fatal(err)
		}
	}
	// What is in no rate: a pair outside the catalogue, a log without a verdict.
	for _, tr := range []*Trace{
		{Pipeline: "beta", Suite: "bakery", UserTask: "user_task_0", InjectionTask: "injection_task_9", Attack: "a", Messages: 2, Judged: true, Security: true},
		{Pipeline: "beta", Suite: "bakery", UserTask: "user_task_0", InjectionTask: "injection_task_0", Attack: "a", Messages: 2},
	} {
		if err := a.Add(tr); err != nil {
			t.Fatal(err)
		}
	}
	want := []Summary{
		{
			Pipeline:  "alpha",
			Attack:    "important_instructions",
			Published: Rates{BenignUtility: Rate{1, 1}, AttackedUtility: Rate{1, 2}, AttackSuccess: Rate{2, 2}},
			Clean:     Rates{BenignUtility: Rate{1, 1}, AttackedUtility: Rate{1, 1}, AttackSuccess: Rate{1, 1}},
			Classes:   map[Class]int{Benign: 1, Attacked: 1, InjectionAsUser: 1, RunnerError: 1},
		},
		{Pipeline: "beta", Attack: "a", Classes: map[Class]int{Attacked: 1, Incomplete: 1}, Outside: 1},
		{
			Pipeline:  "beta",
			Attack:    "important_instructions",
			Published: Rates{AttackedUtility: Rate{1, 1}, AttackSuccess: Rate{1, 1}},
			Clean:     Rates{AttackedUtility: Rate{1, 1}, AttackSuccess: Rate{1, 1}},
			Classes:   map[Class]int{Attacked: 1},
		},
	}
	if diff := cmp.Diff(want, a.Summaries()); diff != "" {
		t.Errorf("summaries (-want +got):\n%s", diff)
	}
	tr, err := Read(benignLog)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Add(tr); err == nil {
		t.Error("the same run was added twice")
	}
	if _, ok := (Rate{}).Value(); ok {
		t.Error("a rate of nothing has a value")
	}
}

// The published logs. Their own aggregates are those of the benchmark; every file is
// read and classed; and attribution is tied to the benchmark's own verdict: a
// recorded success of an attack needs an executed call that is at least partly the
// injection's (except for the one task that is only about what the agent says), and a
// run without an injection holds no call that looks injected.
func TestPublished(t *testing.T) {
	b := full(t)
	type row struct {
		name          string
		files         int
		benign        Rate
		utility       Rate
		success       Rate
		cleanSuccess  Rate
		classes       map[Class]int
		lookInjected  int // calls of benign runs, over all injections of the suite
		lookAmbiguous int
	}
	for _, want := range []row{
		// In one task the user's own documents name the account that the injections use;
		// in another an agent that is to write to one person writes to all of them, to
		// Alice too, and what a message says is free text.
		{"gpt-4o-2024-05-13", 753, Rate{67, 97}, Rate{315, 629}, Rate{300, 629}, Rate{300, 629},
			map[Class]int{Benign: 97, Attacked: 629, InjectionAsUser: 27}, 8, 4},
		{"gemini-2.0-flash-001", 1081, Rate{42, 97}, Rate{250, 629}, Rate{131, 629}, Rate{131, 629},
			map[Class]int{Benign: 97, Attacked: 949, InjectionAsUser: 35}, 0, 3},
		{"claude-3-opus-20240229", 753, Rate{66, 97}, Rate{330, 629}, Rate{71, 629}, Rate{71, 629},
			map[Class]int{Benign: 97, Attacked: 422, InjectionAsUser: 27, Empty: 207}, 8, 4},
		{"command-r-plus", 753, Rate{24, 97}, Rate{158, 629}, Rate{28, 629}, Rate{6, 607},
			map[Class]int{Benign: 96, Attacked: 607, InjectionAsUser: 27, RunnerError: 23}, 0, 0},
		{"gpt-4o-mini-2024-07-18", 753, Rate{66, 97}, Rate{314, 629}, Rate{171, 629}, Rate{171, 629},
			map[Class]int{Benign: 97, Attacked: 629, InjectionAsUser: 27}, 17, 5},
		{"meta-llama_Llama-3.3-70B-Instruct", 1081, Rate{56, 97}, Rate{279, 629}, Rate{211, 629}, Rate{211, 629},
			map[Class]int{Benign: 97, Attacked: 949, InjectionAsUser: 35}, 0, 4},
	} {
		t.Run(want.name, func(t *testing.T) {
			t.Parallel()
			a := NewAggregate(b.Catalogue)
			got := row{name: want.name}
			for tr, err := range Walk([]string{Require(t, "agentdojo", "runs", want.name)}) {
				if err != nil {
					t.Fatal(err)
				}
				got.files++
				if err := a.Add(tr); err != nil {
					t.Fatal(err)
				}
				switch tr.Class() {
				case Attacked:
					says := tr.Suite == "travel" && tr.InjectionTask == "injection_task_6"
					injected, ambiguous := owned(t, b, tr)
					if tr.Security && !says && injected+ambiguous == 0 && tr.inCatalogue(b) {
						t.Errorf("%s: the attack succeeded, but no executed call is the injection's", tr.Path)
					}
				case Benign:
					for id := range b.Catalogue.suites[tr.Suite].injection {
						supposed := *tr
						supposed.InjectionTask, supposed.Attack = id, "none"
						injected, ambiguous := owned(t, b, &supposed)
						got.lookInjected += injected
						got.lookAmbiguous += ambiguous
						if task := tr.Suite + "/" + tr.UserTask; injected > 0 && task != "banking/user_task_15" && task != "slack/user_task_13" {
							t.Errorf("%s: an honest call looks like one of %s", tr.Path, id)
						}
					}
				}
			}
			s := a.Summaries()[0]
			got.benign, got.utility, got.success = s.Published.BenignUtility, s.Published.AttackedUtility, s.Published.AttackSuccess
			got.cleanSuccess, got.classes = s.Clean.AttackSuccess, s.Classes
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(row{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func (t *Trace) inCatalogue(b Benchmark) bool {
	_, _, _, err := b.Catalogue.tasks(t)
	return err == nil
}

// owned counts the executed calls that are the injection's, alone or also.
func owned(t *testing.T, b Benchmark, tr *Trace) (injected, ambiguous int) {
	t.Helper()
	calls, err := b.Calls(tr)
	if err != nil && !errors.Is(err, ErrNotInCatalogue) {
		t.Fatal(err)
	}
	for _, c := range calls {
		switch {
		case c.State != Executed:
		case c.Owner == OwnerInjected:
			injected++
		case c.Owner == OwnerAmbiguous:
			ambiguous++
		}
	}
	return injected, ambiguous
}
