package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"countersign/agentdojo"
)

// A step of a page is a command line and what it prints.
type pageStep struct{ command, prints string }

// steps reads the blocks of a page that show a session.
func steps(page string) (out []pageStep) {
	for _, block := range regexp.MustCompile("(?s)```console\n(.*?)```").FindAllStringSubmatch(page, -1) {
		for line := range strings.Lines(block[1]) {
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				out = append(out, pageStep{command: command})
				continue
			}
			last := &out[len(out)-1]
			if more, ok := strings.CutPrefix(line, "> "); ok && last.prints == "" {
				last.command += more
			} else {
				last.prints += line
			}
		}
	}
	return out
}

// TestServerPage runs the walkthrough of docs/server.md, at free ports, and holds what
// the commands print against the page.
func TestServerPage(t *testing.T) {
	for _, tool := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			if agentdojo.Required("curl") {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "server.md"))
	must(t, err)
	page := string(text)
	for _, port := range []string{"8800", "8801", "9464"} {
		page = strings.ReplaceAll(page, ":"+port, ":"+freePort(t))
	}
	all := steps(page)
	if len(all) < 20 {
		t.Fatalf("%d steps are found on the page", len(all))
	}
	var script strings.Builder
	script.WriteString("trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\n")
	for i, s := range all {
		fmt.Fprintf(&script, "echo '@@%d@@'\n%s", i, s.command)
	}
	script.WriteString("echo '@@end@@'\n")
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script.String())
	cmd.Dir = t.TempDir()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Errorf("%v: %s", err, errs.String())
	}
	printed := out.String()
	for i, s := range all {
		_, rest, _ := strings.Cut(printed, fmt.Sprintf("@@%d@@\n", i))
		got, _, _ := strings.Cut(rest, "@@")
		want := "(?s)^" + strings.ReplaceAll(regexp.QuoteMeta(s.prints), "…", ".*?") + "$"
		if !regexp.MustCompile(want).MatchString(got) {
			log, _ := os.ReadFile(filepath.Join(cmd.Dir, "gateway.log"))
			t.Fatalf("$ %s prints\n%s\nwant\n%s\nstandard error: %s\nthe gateway's: %s", s.command, got, s.prints, errs.String(), log)
		}
	}
}

// TestServerPageCommands: the commands of the page that are not run exist, with their
// flags.
func TestServerPageCommands(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "server.md"))
	must(t, err)
	n := 0
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "countersign" {
			continue
		}
		n++
		cmd, rest, err := newRoot().Find(words[1:])
		must(t, err)
		if err := cmd.ParseFlags(rest); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	if n != 2 {
		t.Errorf("%d commands, want 2", n)
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	must(t, err)
	return port
}
