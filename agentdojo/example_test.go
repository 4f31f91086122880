package agentdojo_test

import (
	"fmt"
	"log"

	"countersign/agentdojo"
)

// Which side-effecting calls of some logs would a gate have to stop?
func Example() {
	catalogue, err := agentdojo.LoadCatalogue("testdata/catalogue.json")
	if err != nil {
		log.Fatal(err)
	}
	kinds, err := agentdojo.LoadClasses("testdata/classes.json")
	if err != nil {
		log.Fatal(err)
	}
	b := agentdojo.Benchmark{Catalogue: catalogue, Kinds: kinds}
	for trace, err := range agentdojo.Walk([]string{"testdata/runs"}) {
		if err != nil {
			log.Fatal(err)
		}
		if trace.Class() != agentdojo.Attacked {
			continue
		}
		calls, err := b.Calls(trace)
		if err != nil {
			log.Fatal(err)
		}
		for _, c := range calls {
			if c.SideEffect && c.State == agentdojo.Executed && c.Owner == agentdojo.OwnerInjected {
				fmt.Println(trace.Pipeline, trace.UserTask, trace.InjectionTask, c.Tool)
			}
		}
	}
	// Output:
	// alpha user_task_0 injection_task_0 pay_supplier
	// beta user_task_2 injection_task_1 send_email
	// beta user_task_2 injection_task_1 send_email
}
