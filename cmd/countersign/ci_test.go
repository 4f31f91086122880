package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestWorkflowInTheDocumentation: the page for continuous integration holds one
// workflow that is YAML, and every command on the page exists with its flags.
func TestWorkflowInTheDocumentation(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "ci.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) != 1 {
		t.Fatalf("%d workflows, want 1", len(blocks))
	}
	var workflow struct {
		Permissions map[string]string
		Jobs        map[string]struct {
			Steps []struct{ Run, Uses string }
		}
	}
	if err := yaml.Unmarshal([]byte(blocks[0][1]), &workflow); err != nil {
		t.Fatal(err)
	}
	if workflow.Permissions["contents"] != "read" {
		t.Error("the workflow can write to the repository")
	}
	var lines []string
	for _, s := range workflow.Jobs["approval-binding"].Steps {
		lines = append(lines, s.Run)
	}
	plain := regexp.MustCompile("(?s)```\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	for _, b := range plain {
		lines = append(lines, strings.Split(b[1], "\n")...)
	}
	commands := 0
	for _, line := range lines {
		line, _, _ = strings.Cut(strings.TrimPrefix(line, "bin/"), " >>")
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != "countersign" {
			continue
		}
		commands++
		cmd, rest, err := newRoot().Find(words[1:])
		if err != nil || cmd.Name() != words[1] {
			t.Errorf("%s: there is no such command", line)
			continue
		}
		if err := cmd.ParseFlags(rest); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	if commands != 6 {
		t.Errorf("%d commands were found on the page, want 6", commands)
	}
}
