package scenarios_test

import (
	"testing"

	"countersign/scenarios"
)

func TestEmbedded(t *testing.T) {
	for _, s := range scenarios.All() {
		in := s.Instance(1, 0)
		t.Logf("%s\n%s\n%v", in.Task, in.Arguments, in.Wants)
		in = s.Instance(1, 1)
		t.Logf("%s\n%s", in.Task, in.Arguments)
		tool, args := s.SteerTool()
		t.Logf("%s %s", tool.Name, args)
	}
}
