package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestWorkflows: the page for continuous integration and the README hold one
// workflow each that is YAML, and every command in it, and on the page, exists
// with its flags.
func TestWorkflows(t *testing.T) {
	for _, page := range []struct {
		name     string
		commands int
	}{{filepath.Join("docs", "ci.md"), 6}, {"README.md", 2}} {
		text, err := os.ReadFile(filepath.Join("..", "..", page.name))
		if err != nil {
			t.Fatal(err)
		}
		blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1)
		if len(blocks) != 1 {
			t.Fatalf("%s: %d workflows, want 1", page.name, len(blocks))
		}
		var workflow struct {
			Permissions map[string]string
			Jobs        map[string]struct {
				Steps []struct{ Run, Uses string }
			}
		}
		if err := yaml.Unmarshal([]byte(blocks[0][1]), &workflow); err != nil {
			t.Fatalf("%s: %v", page.name, err)
		}
		if workflow.Permissions["contents"] != "read" {
			t.Errorf("%s: the workflow can write to the repository", page.name)
		}
		var lines []string
		for _, s := range workflow.Jobs["approval-binding"].Steps {
			lines = append(lines, s.Run)
		}
		if page.name != "README.md" { // its lists of commands have remarks
			for _, b := range regexp.MustCompile("(?s)```\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
				lines = append(lines, strings.Split(b[1], "\n")...)
			}
		}
		commands := 0
		for _, line := range lines {
			line, _, _ = strings.Cut(strings.TrimPrefix(strings.TrimPrefix(line, "countersign/"), "bin/"), " >>")
			words := strings.Fields(line)
			if len(words) == 0 || words[0] != "countersign" {
				continue
			}
			commands++
			cmd, rest, err := newRoot().Find(words[1:])
			if err != nil || cmd.Name() != words[1] {
				t.Errorf("%s: %s: there is no such command", page.name, line)
				continue
			}
			if err := cmd.ParseFlags(rest); err != nil {
				t.Errorf("%s: %s: %v", page.name, line, err)
			}
			if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
				t.Errorf("%s: %s: %v", page.name, line, err)
			}
		}
		if commands != page.commands {
			t.Errorf("%s: %d commands were found, want %d", page.name, commands, page.commands)
		}
	}
}
