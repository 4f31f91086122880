package agentdojo

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// pack writes the traces that paths name into a trace file.
func pack(t *testing.T, paths ...string) string {
	t.Helper()
	var b bytes.Buffer
	w, err := NewTraceWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	logs, failed := Find(paths)
	for _, err := range failed {
		w.Fail("lost", err)
	}
	for _, l := range logs {
		tr, err := l.Read()
		if err != nil {
			w.Fail(l.Name, err)
		} else if err := w.Add(l.Name, tr); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if w.Close() == nil {
		t.Error("a trace file was ended twice")
	}
	file := filepath.Join(t.TempDir(), "all"+TraceFileEnd)
	if err := os.WriteFile(file, b.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	return file
}

// unpacked wants a trace file to give the very traces of the logs it was made of.
func unpacked(t *testing.T, paths ...string) {
	t.Helper()
	var packed []*Trace
	for tr, err := range Walk([]string{pack(t, paths...)}) {
		if err != nil {
			t.Fatal(err)
		}
		packed = append(packed, tr)
	}
	i := 0
	for tr, err := range Walk(paths) {
		if err != nil {
			t.Fatal(err)
		}
		if i >= len(packed) {
			t.Fatalf("%d traces in the file, and there are more", len(packed))
		}
		if diff := cmp.Diff(tr, packed[i], cmpopts.IgnoreFields(Trace{}, "Path")); diff != "" {
			t.Fatalf("%s (-log +packed):\n%s", tr.Path, diff)
		}
		if !strings.HasSuffix(packed[i].Path, strings.TrimPrefix(filepath.ToSlash(tr.Path), filepath.ToSlash(paths[0]))) {
			t.Errorf("%s is called %s", tr.Path, packed[i].Path)
		}
		i++
	}
	if i != len(packed) || i == 0 {
		t.Errorf("%d traces in the file of %d logs", len(packed), i)
	}
}

func TestTraceFile(t *testing.T) { unpacked(t, filepath.Join("testdata", "runs")) }

// Every published log survives.
func TestTraceFileOfPublished(t *testing.T) {
	for _, name := range []string{"gpt-4o-2024-05-13", "claude-3-opus-20240229", "command-r-plus", "meta-llama_Llama-3.3-70B-Instruct"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			unpacked(t, Require(t, "agentdojo", "runs", name))
		})
	}
}

// What could not be read when the file was made is said whenever it is read.
func TestTraceFileNamesWhatIsNotInIt(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.json": "{", "b.json": minimal} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	logs, failed := Find([]string{pack(t, dir)})
	if len(logs) != 1 || len(failed) != 1 || !strings.Contains(failed[0].Error(), "/a.json") || !strings.Contains(failed[0].Error(), "ends early") {
		t.Errorf("%d traces, lost %v", len(logs), failed)
	}
}

// A file that is not exactly what was written is refused as a whole.
func TestTraceFileDamaged(t *testing.T) {
	file := pack(t, filepath.Join("testdata", "runs"))
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(good, []byte("\n"))
	n := len(lines) - 2 // without what is behind the last line break
	join := func(l ...[]byte) []byte { return bytes.Join(l, nil) }
	for name, bad := range map[string][]byte{
		"empty":               nil,
		"cut in a line":       good[:len(good)/2],
		"cut after a line":    join(lines[:n]...),
		"without its break":   good[:len(good)-1],
		"a trace is missing":  join(append(append([][]byte{}, lines[:2]...), lines[3:]...)...),
		"a trace twice":       join(append(append([][]byte{}, lines[:2]...), lines[1:]...)...),
		"a verdict":           bytes.Replace(good, []byte(`"security":true`), []byte(`"security":false`), 1),
		"something after it":  join(good, lines[1]),
		"another schema":      bytes.Replace(good, []byte(`"schema":1`), []byte(`"schema":2`), 1),
		"no head":             join(lines[1:]...),
		"an end of its own":   join(lines[0], []byte(`{"traces":0,"unreadable":[],"sha256":""}`+"\n")),
		"an unknown member":   bytes.Replace(good, []byte(`"unreadable"`), []byte(`"unreadible"`), 1),
		"a native log":        []byte(minimal),
		"an end behind a gap": join(lines[0], []byte("\n"), lines[n]),
	} {
		if err := os.WriteFile(file, bad, 0o666); err != nil {
			t.Fatal(err)
		}
		if logs, failed := Find([]string{file}); len(logs) != 0 || len(failed) != 1 || !strings.Contains(failed[0].Error(), file) {
			t.Errorf("%s: %d traces, %v", name, len(logs), failed)
		}
	}
}

// A line that could not have been written is refused with what is wrong in it.
func FuzzTraceLine(f *testing.F) {
	file := filepath.Join("testdata", "runs")
	for tr, err := range Walk([]string{file}) {
		if err != nil {
			f.Fatal(err)
		}
		var b bytes.Buffer
		w, err := NewTraceWriter(&b)
		if err != nil {
			f.Fatal(err)
		}
		if err := w.Add("log.json", tr); err != nil {
			f.Fatal(err)
		}
		f.Add(bytes.SplitAfter(b.Bytes(), []byte("\n"))[1])
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		fail := func(_ string, err error) (*Trace, error) { return nil, err }
		tr, err := parseTraceLine(text, "file", fail)
		if err != nil {
			return
		}
		// What is read can be written, and is then read as the same.
		var b bytes.Buffer
		w, err := NewTraceWriter(&b)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Add(strings.TrimPrefix(tr.Path, "file:"), tr); err != nil {
			t.Fatal(err)
		}
		again, err := parseTraceLine(bytes.SplitAfterN(b.Bytes(), []byte("\n"), 2)[1], "file", fail)
		if err != nil {
			t.Fatalf("%s\nis read and not read again: %v", text, err)
		}
		if diff := cmp.Diff(tr, again, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s\n(-first +again):\n%s", text, diff)
		}
	})
}

// A line says who is who; one that contradicts itself is refused.
func TestTraceLineRefuses(t *testing.T) {
	tr, err := Read(attackedLog)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w, err := NewTraceWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Add("log.json", tr); err != nil {
		t.Fatal(err)
	}
	line := string(bytes.SplitAfter(b.Bytes(), []byte("\n"))[1])
	for _, c := range []struct{ old, new, member string }{
		{`"log":"log.json"`, `"log":""`, "log"},
		{`"log":"log.json"`, `"log":"../log.json/"`, "log"},
		{tr.Digest, tr.Digest[2:], "sha256"},
		{`"format":"A"`, `"format":"C"`, "format"},
		{`"pipeline":"alpha"`, `"pipeline":""`, "pipeline"},
		{`"suite":"bakery"`, `"suite":""`, "suite_name"},
		{`"user_task":"user_task_0"`, `"user_task":"0"`, "user_task_id"},
		{`"injection_task":"injection_task_0"`, `"injection_task":"x"`, "injection_task_id"},
		{`"injection_task":"injection_task_0"`, `"injection_task":""`, "attack_type"},
		{`"judged":true`, `"judged":false`, "judged"},
		{`"messages":`, `"messages":-`, "messages"},
		{`"state":"executed"`, `"state":"done"`, "requests"},
		{`"state":"executed"`, `"state":"failed"`, "requests"},
		{`"turn":`, `"turn":9`, "requests"},
		{`"args":"{`, `"args":"[{`, "args"},
	} {
		bad := strings.Replace(line, c.old, c.new, 1)
		if bad == line {
			t.Errorf("the line has no %s", c.old)
			continue
		}
		_, err := parseTraceLine([]byte(bad), "file", func(member string, err error) (*Trace, error) {
			return nil, &FileError{Path: "file", Member: member, Err: err}
		})
		if err == nil || !strings.Contains(err.Error(), c.member) {
			t.Errorf("%s: %v, want an error about %s", c.new, err, c.member)
		}
	}
}
