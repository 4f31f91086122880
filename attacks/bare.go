package attacks

import (
	"context"
	"strconv"

	"countersign/gateway/api"
	"countersign/oracles"
	"countersign/scenarios/provider"
)

// NewBareStage deploys a target into a world without a scenario: the tools
// alone, no reference data, and a provider that reads as [provider.ReaderStruct].
// Verbs that need a scenario ([Stage.Call], [Stage.Field], [Stage.Drift]) are not
// for it; its calls come from [Stage.Recorded].
func NewBareStage(ctx context.Context, deploy api.Factory, tools []api.Tool, oracle oracles.Approver) (*Stage, error) {
	s, err := deployStage(ctx, deploy, provider.Config{Tools: tools, Reader: provider.ReaderStruct}, oracle)
	if err != nil {
		return nil, err
	}
	return s, s.enrolCast()
}

// Recorded returns a call as it stands in a recording, the n-th (from 0) of the
// first agent's only run, each in a step of its own. The person behind it
// approves what agrees with the intent.
func (s *Stage) Recorded(n int, audience, tool string, arguments []byte, intent oracles.Intent) *Call {
	id := strconv.Itoa(n + 1)
	return &Call{
		Agent:  s.agents[agentA],
		Action: api.Action{Audience: audience, Tool: tool, Arguments: arguments, Run: firstRun, Step: "step-" + id, Call: "call-" + id},
		Intent: &intent,
	}
}
