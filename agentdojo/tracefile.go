package agentdojo

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
)

// TraceFileEnd is how the name of a trace file ends.
//
// A trace file holds traces without the texts that no replay reads: what was asked
// of the model and what its tools returned. It is JSON lines: a head, one trace a
// line in the order in which they were read, and an end with the number of traces,
// the logs that could not be read, and the SHA-256 of all lines before it, so that
// a file that was cut short or altered is refused as a whole. Each trace has the
// name and the SHA-256 of the native log that it is from.
const TraceFileEnd = ".traces.jsonl"

// TraceSchema is the version of trace files.
const TraceSchema = 1

const traceFormat = "countersign-agentdojo-traces"

// maxLine bounds a line of a trace file.
const maxLine = maxFile

type traceHead struct {
	Format string `json:"format"`
	Schema int    `json:"schema"`
}

type traceEnd struct {
	Traces     int             `json:"traces"`
	Unreadable []traceNotThere `json:"unreadable"`
	SHA256     string          `json:"sha256"`
}

type traceNotThere struct {
	Log    string `json:"log"`
	Member string `json:"member"`
	Why    string `json:"why"`
}

// A traceLine is a trace in a trace file.
type traceLine struct {
	Log        string            `json:"log"`
	SHA256     string            `json:"sha256"`
	Format     Format            `json:"format"`
	Pipeline   string            `json:"pipeline"`
	Suite      string            `json:"suite"`
	UserTask   string            `json:"user_task"`
	Injection  string            `json:"injection_task"`
	Attack     string            `json:"attack"`
	Injections map[string]string `json:"injections"`
	Version    string            `json:"version"`
	Error      string            `json:"error"`
	Duration   float64           `json:"duration"`
	Prompt     string            `json:"prompt"`
	Messages   int               `json:"messages"`
	Judged     bool              `json:"judged"`
	Utility    bool              `json:"utility"`
	Security   bool              `json:"security"`
	Requests   []requestLine     `json:"requests"`
}

type requestLine struct {
	Turn  int    `json:"turn"`
	ID    string `json:"id"`
	Tool  string `json:"tool"`
	Args  string `json:"args"` // byte for byte
	State State  `json:"state"`
	Error string `json:"error"`
}

// A TraceWriter writes a trace file.
type TraceWriter struct {
	w    io.Writer
	sum  hash.Hash
	end  traceEnd
	done bool
}

// NewTraceWriter begins a trace file.
func NewTraceWriter(w io.Writer) (*TraceWriter, error) {
	t := &TraceWriter{w: w, sum: sha256.New(), end: traceEnd{Unreadable: []traceNotThere{}}}
	return t, t.line(traceHead{traceFormat, TraceSchema})
}

// Add adds a trace that was read from the log of this name.
func (w *TraceWriter) Add(log string, t *Trace) error {
	l := traceLine{
		Log: log, SHA256: t.Digest, Format: t.Format, Pipeline: t.Pipeline, Suite: t.Suite, UserTask: t.UserTask, Injection: t.InjectionTask,
		Attack: t.Attack, Injections: t.Injections, Version: t.Version, Error: t.Error, Duration: t.Duration, Prompt: t.Prompt,
		Messages: t.Messages, Judged: t.Judged, Utility: t.Utility, Security: t.Security, Requests: []requestLine{},
	}
	for _, r := range t.Requests {
		l.Requests = append(l.Requests, requestLine{r.Turn, r.ID, r.Tool, string(r.Args), r.State, r.Error})
	}
	w.end.Traces++
	return w.line(l)
}

// Fail notes a log of this name that could not be read.
func (w *TraceWriter) Fail(log string, err error) {
	n := traceNotThere{Log: log, Why: err.Error()}
	if fe, ok := errors.AsType[*FileError](err); ok {
		n.Member, n.Why = fe.Member, fe.Err.Error()
	}
	w.end.Unreadable = append(w.end.Unreadable, n)
}

// Close writes the end. It closes nothing.
func (w *TraceWriter) Close() error {
	if w.done {
		return errors.New("ending a trace file: it is ended already")
	}
	w.done = true
	w.end.SHA256 = hex.EncodeToString(w.sum.Sum(nil))
	return w.line(w.end)
}

func (w *TraceWriter) line(v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("writing a trace file: %w", err)
	}
	w.sum.Write(b.Bytes()) // a hash never fails to be written
	if _, err := w.w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("writing a trace file: %w", err)
	}
	return nil
}

// traceLogs lists what a trace file holds, once it is known to be whole, and an
// error for each log that could not be read when it was made. name is the file's.
func traceLogs(name string) (logs []Log, failed []error, err error) {
	refuse := func(line int, err error) ([]Log, []error, error) {
		if line > 0 {
			err = fmt.Errorf("line %d: %w", line, err)
		}
		return nil, nil, &FileError{Path: name, Err: err}
	}
	f, err := openRegular(name)
	if err != nil {
		return refuse(0, err)
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 1<<16)
	sum := sha256.New()
	var end *traceEnd
	offset := int64(0)
	for n := 1; ; n++ {
		text, err := readLine(in)
		switch {
		case err == io.EOF && end != nil:
			return logs, failed, nil
		case err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF):
			return refuse(n, errors.New("the file ends here without its end: it was cut short"))
		case err != nil:
			return refuse(n, cause(err))
		case end != nil:
			return refuse(n, errors.New("follows the end of the file"))
		}
		if n == 1 {
			var head traceHead
			if err := strict(text, &head); err != nil || head.Format != traceFormat {
				return refuse(n, errors.New("is not the head of a trace file; countersign agentdojo import makes one"))
			}
			if head.Schema != TraceSchema {
				return refuse(n, fmt.Errorf("the file has schema %d, want %d; make it again with countersign agentdojo import", head.Schema, TraceSchema))
			}
		} else if bytes.HasPrefix(text, []byte(`{"traces":`)) {
			end = new(traceEnd)
			if err := strict(text, end); err != nil {
				return refuse(n, err)
			}
			if got := hex.EncodeToString(sum.Sum(nil)); got != end.SHA256 || end.Traces != len(logs) {
				return refuse(n, fmt.Errorf("the end is of %d traces with SHA-256 %s, but there are %d with %s: the file was altered",
					end.Traces, end.SHA256, len(logs), got))
			}
			for _, u := range end.Unreadable {
				failed = append(failed, &FileError{Path: name + ":" + u.Log, Member: u.Member, Err: errors.New(u.Why)})
			}
		} else {
			logs = append(logs, Log{Path: name, line: n, offset: offset, size: len(text)})
		}
		sum.Write(text) // a hash never fails to be written
		offset += int64(len(text))
	}
}

// readLine returns the next line with its end.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxLine:
			return nil, fmt.Errorf("the line is longer than %d MiB", maxLine>>20)
		case errors.Is(err, bufio.ErrBufferFull):
		case err == io.EOF && len(line) > 0:
			return nil, io.ErrUnexpectedEOF
		default:
			return line, err
		}
	}
}

// strict reads one JSON object with exactly the members of a struct.
func strict(text []byte, into any) error {
	return jsonv2.Unmarshal(text, into, jsonv2.RejectUnknownMembers(true))
}

// readTrace reads one trace of a trace file.
func (l Log) readTrace() (*Trace, error) {
	fail := func(member string, err error) (*Trace, error) {
		return nil, &FileError{Path: l.Path, Member: member, Err: fmt.Errorf("line %d: %w", l.line, err)}
	}
	f, err := openRegular(l.Path)
	if err != nil {
		return fail("", err)
	}
	defer f.Close()
	text := make([]byte, l.size)
	if _, err := f.ReadAt(text, l.offset); err != nil {
		return fail("", cause(err))
	}
	return parseTraceLine(text, l.Path, fail)
}

func parseTraceLine(text []byte, file string, fail func(member string, err error) (*Trace, error)) (*Trace, error) {
	var in traceLine
	if err := strict(text, &in); err != nil {
		return fail("", err)
	}
	t := &Trace{
		Path: file + ":" + in.Log, Digest: in.SHA256, Format: in.Format, Pipeline: in.Pipeline, Suite: in.Suite, UserTask: in.UserTask,
		InjectionTask: in.Injection, Attack: in.Attack, Injections: in.Injections, Version: in.Version, Error: in.Error, Duration: in.Duration,
		Prompt: in.Prompt, Messages: in.Messages, Judged: in.Judged, Utility: in.Utility, Security: in.Security,
	}
	digest, err := hex.DecodeString(in.SHA256)
	switch {
	case in.Log == "" || path.Clean(in.Log) != in.Log:
		return fail("log", fmt.Errorf("%q names no log", in.Log))
	case err != nil || len(digest) != sha256.Size:
		return fail("sha256", fmt.Errorf("%q is no SHA-256", in.SHA256))
	case in.Format != FormatA && in.Format != FormatB:
		return fail("format", fmt.Errorf("unknown format %q", in.Format))
	case in.Pipeline == "":
		return fail("pipeline", errors.New("is empty"))
	case in.Messages < 0 || in.Messages == 0 && len(in.Requests) > 0:
		return fail("messages", fmt.Errorf("%d messages with %d requests", in.Messages, len(in.Requests)))
	case !in.Judged && (in.Utility || in.Security):
		return fail("judged", errors.New("is false, and there is a verdict"))
	}
	if member, err := t.checkTasks(); err != nil {
		return fail(member, err)
	}
	turn := 0
	for i, r := range in.Requests {
		where := fmt.Sprintf("requests[%d]", i)
		if r.State != Executed && r.State != Failed && r.State != Unanswered || (r.State == Failed) != (r.Error != "") {
			return fail(where, fmt.Errorf("state %q with error %q", r.State, r.Error))
		}
		if r.Turn < turn || r.Turn >= in.Messages {
			return fail(where, fmt.Errorf("turn %d of %d messages, after turn %d", r.Turn, in.Messages, turn))
		}
		turn = r.Turn
		if _, err := object([]byte(r.Args)); err != nil {
			return fail(where+".args", err)
		}
		t.Requests = append(t.Requests, Request{Index: i, Turn: r.Turn, ID: r.ID, Tool: r.Tool, Args: json.RawMessage(r.Args), State: r.State, Error: r.Error})
	}
	return t, nil
}

// checkTasks checks the names that say what a trace is of, and says which of them is
// wrong.
func (t *Trace) checkTasks() (member string, err error) {
	switch {
	case t.Suite == "":
		return "suite_name", errors.New("is empty")
	case !strings.HasPrefix(t.UserTask, userPrefix) && !strings.HasPrefix(t.UserTask, injectionPrefix):
		return "user_task_id", fmt.Errorf("%q names neither a user task nor an injection task", t.UserTask)
	case (t.InjectionTask == "") != (t.Attack == ""):
		return "attack_type", errors.New("must be there exactly if there is an injection task")
	case t.InjectionTask != "" && !strings.HasPrefix(t.InjectionTask, injectionPrefix):
		return "injection_task_id", fmt.Errorf("%q names no injection task", t.InjectionTask)
	}
	return "", nil
}

// openRegular opens a file that is no pipe or device, which would wait.
func openRegular(name string) (*os.File, error) {
	if info, err := os.Stat(name); err != nil {
		return nil, cause(err)
	} else if !info.IsDir() && !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, cause(err)
	}
	return f, nil
}
