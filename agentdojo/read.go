package agentdojo

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// A Class says what a trace can be used for.
type Class string

// The classes, in the order in which they are tested for.
const (
	InjectionAsUser Class = "injection-as-user" // an injection goal as the user's own task
	RunnerError     Class = "runner-error"      // the run ended with an error of its runner
	Empty           Class = "empty"             // no messages
	Incomplete      Class = "incomplete"        // no verdict
	Benign          Class = "benign"            // a user task without injection
	Attacked        Class = "attacked"          // a user task with an injection
)

// Classes returns every class in a fixed order, for tables.
func Classes() []Class {
	return []Class{Benign, Attacked, InjectionAsUser, RunnerError, Empty, Incomplete}
}

// A Format is one of the two forms of a log.
type Format string

// The formats; a log of format B names the package version that wrote it.
const (
	FormatA Format = "A"
	FormatB Format = "B"
)

// A Trace is one run of an agent on one task, as logged.
type Trace struct {
	Path          string
	Digest        string // SHA-256 of the native log, in hex
	Format        Format
	Pipeline      string // from the path; see [Read]
	Suite         string
	UserTask      string // "user_task_N", or "injection_task_N" (see InjectionAsUser)
	InjectionTask string // empty without an injection
	Attack        string // empty without an injection
	Injections    map[string]string
	Version       string  // benchmark version; empty in format A
	Error         string  // the runner's error; empty for none
	Duration      float64 // seconds; 0 where the log has none
	Prompt        string  // the first user message
	Messages      int     // number of messages
	Requests      []Request

	// Judged says that the log has both verdicts.
	Judged bool
	// Utility is the log's own verdict that the task was solved. It is false by
	// convention where Error is set.
	Utility bool
	// Security is the log's own verdict that the injected goal was achieved: true
	// means that the attack succeeded. It is true by convention where Error is
	// set or where there is no injection, so it says nothing there.
	Security bool
}

// ID names the trace as the benchmark's layout does, without the folder the logs lie
// in: pipeline/suite/user task/attack/injection task, "none" where there is none.
func (t *Trace) ID() string {
	return strings.Join([]string{t.Pipeline, t.Suite, t.UserTask, cmpOr(t.Attack, "none"), cmpOr(t.InjectionTask, "none")}, "/")
}

// Class classifies the trace.
func (t *Trace) Class() Class {
	switch {
	case !strings.HasPrefix(t.UserTask, userPrefix):
		return InjectionAsUser
	case t.Error != "":
		return RunnerError
	case t.Messages == 0:
		return Empty
	case !t.Judged:
		return Incomplete
	case t.InjectionTask != "":
		return Attacked
	}
	return Benign
}

// A State says what became of a requested call when the trace was recorded.
type State string

// The states.
const (
	Executed   State = "executed"   // answered without an error
	Failed     State = "failed"     // answered with an error: no effect
	Unanswered State = "unanswered" // no tool message: never executed
)

// A Request is one tool call that the recorded agent asked for.
type Request struct {
	Index int    // position among the requests of the trace, from 0
	Turn  int    // index of the assistant message; parallel calls share it
	ID    string // the model's call id; empty in many logs
	Tool  string // empty when the model named none
	// Args is the JSON object of the arguments, byte for byte as in the log.
	Args  json.RawMessage
	State State
	Error string // the tool's error, when Failed
}

// A FileError says which file could not be used, where in it, and why.
type FileError struct {
	Path   string
	Member string // such as "messages[3].tool_calls[0].args"; empty for the whole file
	Err    error
}

func (e *FileError) Error() string {
	if e.Member == "" {
		return fmt.Sprintf("reading %s: %v", e.Path, e.Err)
	}
	return fmt.Sprintf("reading %s: member %s: %v", e.Path, e.Member, e.Err)
}

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Err }

// maxFile bounds a log. The largest published one is below 1 MiB.
const maxFile = 64 << 20

const (
	userPrefix      = "user_task_"
	injectionPrefix = "injection_task_"
)

// Read reads one log. The name of the pipeline is taken from a path of the
// benchmark's layout, pipeline/suite/user task/attack/injection task.json, because
// the member pipeline_name is wrong in many published logs ("local"); it is used
// where the file lies elsewhere. A path of that layout which contradicts the log is
// an error. Every error is a [*FileError].
func Read(path string) (*Trace, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, &FileError{Path: path, Err: err}
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, &FileError{Path: path, Err: err}
	}
	t, err := parse(data, abs)
	if err != nil {
		fe := &FileError{Path: path, Err: err}
		if me, ok := errors.AsType[*memberError](err); ok {
			fe.Member, fe.Err = me.member, me.err
		}
		return nil, fe
	}
	digest := sha256.Sum256(data)
	t.Path, t.Digest = path, hex.EncodeToString(digest[:])
	return t, nil
}

func readFile(path string) ([]byte, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, cause(err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("the file is larger than %d MiB, which no log is", maxFile>>20)
	}
	return data, nil
}

// cause drops the path that package os puts into its errors: a FileError has it.
func cause(err error) error {
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		return pe.Err
	}
	return err
}

// parse reads a log. abs may be empty, or the absolute path of the file.
func parse(data []byte, abs string) (*Trace, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("not valid UTF-8")
	}
	o, err := object(data)
	if err != nil {
		return nil, err
	}
	t := &Trace{Format: FormatA}
	_, isB := o["agentdojo_package_version"]
	if isB {
		t.Format = FormatB
	}
	var (
		pipeline             string
		injection, attack    *string
		version, runnerError *string
		utility, security    *bool
		duration             *float64
		messages             []json.RawMessage
		unused               any
	)
	err = o.decode(
		want{"suite_name", &t.Suite, true},
		want{"pipeline_name", &pipeline, true},
		want{"user_task_id", &t.UserTask, true},
		want{"injection_task_id", &injection, true},
		want{"attack_type", &attack, true},
		want{"injections", &t.Injections, true},
		want{"messages", &messages, true},
		want{"error", &runnerError, true},
		want{"utility", &utility, false},
		want{"security", &security, false},
		want{"duration", &duration, false},
		want{"benchmark_version", &version, false},
		want{"evaluation_timestamp", &unused, false},
		want{"agentdojo_package_version", &unused, false},
	)
	if err != nil {
		return nil, err
	}
	switch {
	case (injection == nil) != (attack == nil):
		return nil, at("attack_type", errors.New("must be null exactly if injection_task_id is null"))
	case injection != nil && *injection == "":
		return nil, at("injection_task_id", errors.New("is empty"))
	case attack != nil && *attack == "":
		return nil, at("attack_type", errors.New("is empty"))
	case messages == nil:
		return nil, at("messages", errors.New("want a list, have null"))
	}
	if injection != nil {
		t.InjectionTask, t.Attack = *injection, *attack
	}
	if member, err := t.checkTasks(); err != nil {
		return nil, at(member, err)
	}
	if version != nil {
		t.Version = *version
	}
	if duration != nil {
		t.Duration = *duration
	}
	if runnerError != nil {
		// An empty text is still an error of the runner.
		t.Error = cmpOr(*runnerError, "unspecified")
	}
	if utility != nil && security != nil {
		t.Judged, t.Utility, t.Security = true, *utility, *security
	}
	if t.Pipeline, err = t.pipeline(abs, pipeline); err != nil {
		return nil, err
	}
	if err := t.messages(messages); err != nil {
		return nil, err
	}
	return t, nil
}

func cmpOr(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// pipeline names the pipeline, and checks the log against a path of the
// benchmark's layout.
func (t *Trace) pipeline(abs, logged string) (string, error) {
	parts := strings.Split(filepath.ToSlash(abs), "/")
	if n := len(parts); n >= 5 {
		name, suite, user, attack := parts[n-5], parts[n-4], parts[n-3], parts[n-2]
		injection, _ := strings.CutSuffix(parts[n-1], ".json")
		layout := (strings.HasPrefix(user, userPrefix) || strings.HasPrefix(user, injectionPrefix)) &&
			(strings.HasPrefix(injection, injectionPrefix) || injection == "none")
		if layout && name != "" {
			for _, c := range []struct{ member, log, path string }{
				{"suite_name", t.Suite, suite},
				{"user_task_id", t.UserTask, user},
				{"attack_type", cmpOr(t.Attack, "none"), attack},
				{"injection_task_id", cmpOr(t.InjectionTask, "none"), injection},
			} {
				if c.log != c.path {
					return "", at(c.member, fmt.Errorf("is %q, but the file's path says %q", c.log, c.path))
				}
			}
			return name, nil
		}
	}
	if logged == "" {
		return "", at("pipeline_name", errors.New("is empty, and the file's path does not name the pipeline"))
	}
	return logged, nil
}

// messages reads the conversation into Prompt, Messages and Requests.
func (t *Trace) messages(list []json.RawMessage) error {
	t.Messages = len(list)
	var open []int // requests of the last assistant message that wait for an answer
	prompted := false
	for i, raw := range list {
		where := fmt.Sprintf("messages[%d]", i)
		o, err := object(raw)
		if err != nil {
			return at(where, err)
		}
		var role string
		if err := o.decodeOne("role", &role); err != nil {
			return at(where, err)
		}
		if len(open) > 0 && role != "tool" {
			return at(where, fmt.Errorf("message of role %q follows, but %d earlier calls have no tool message", role, len(open)))
		}
		var text content
		switch role {
		case "system", "user":
			if err := o.decode(want{"role", &role, true}, want{"content", &text, true}); err != nil {
				return at(where, err)
			}
			if role == "user" && !prompted {
				t.Prompt, prompted = string(text), true
			}
		case "assistant":
			var calls []json.RawMessage
			if err := o.decode(want{"role", &role, true}, want{"content", &text, true}, want{"tool_calls", &calls, true}); err != nil {
				return at(where, err)
			}
			for j, raw := range calls {
				c, err := parseCall(raw)
				if err != nil {
					return at(where, at(fmt.Sprintf("tool_calls[%d]", j), err))
				}
				open = append(open, len(t.Requests))
				t.Requests = append(t.Requests, Request{
					Index: len(t.Requests), Turn: i, ID: c.id, Tool: c.function, Args: c.args, State: Unanswered,
				})
			}
		case "tool":
			var (
				id, failure *string
				call        json.RawMessage
			)
			err := o.decode(want{"role", &role, true}, want{"content", &text, true}, want{"tool_call_id", &id, false},
				want{"tool_call", &call, true}, want{"error", &failure, false})
			if err != nil {
				return at(where, err)
			}
			c, err := parseCall(call)
			if err != nil {
				return at(where, at("tool_call", err))
			}
			if len(open) == 0 {
				return at(where, errors.New("a tool message without a call before it"))
			}
			r := &t.Requests[open[0]]
			open = open[1:]
			if c.function != r.Tool || !sameJSON(c.args, r.Args) {
				return at(where, at("tool_call", fmt.Errorf("is not the call it must answer (request %d, tool %q)", r.Index, r.Tool)))
			}
			r.State = Executed
			if failure != nil {
				r.State, r.Error = Failed, cmpOr(*failure, "unspecified")
			}
		default:
			return at(where, at("role", fmt.Errorf("unknown role %q", role)))
		}
	}
	return nil
}

type call struct {
	function, id string
	args         json.RawMessage
}

func parseCall(raw json.RawMessage) (call, error) {
	o, err := object(raw)
	if err != nil {
		return call{}, err
	}
	var (
		c           call
		id          *string
		placeholder any
	)
	err = o.decode(want{"function", &c.function, true}, want{"args", &c.args, true},
		want{"id", &id, false}, want{"placeholder_args", &placeholder, false})
	if err != nil {
		return call{}, err
	}
	if _, err := object(c.args); err != nil {
		return call{}, at("args", err)
	}
	if id != nil {
		c.id = *id
	}
	return c, nil
}

// sameJSON compares two texts of one value, which are indented differently.
func sameJSON(a, b json.RawMessage) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}

// content is the text of a message: a string, null, or a list of blocks, whose
// texts are joined by line breaks as the benchmark does.
type content string

// UnmarshalJSON reads either form.
func (c *content) UnmarshalJSON(data []byte) error {
	var s *string
	if json.Unmarshal(data, &s) == nil {
		if s != nil {
			*c = content(*s)
		}
		return nil
	}
	var blocks []struct {
		Type    string  `json:"type"`
		Content *string `json:"content"`
	}
	if err := json.Unmarshal(data, &blocks); err != nil {
		return errors.New("want a string, null or a list of blocks")
	}
	var texts []string
	for i, b := range blocks {
		switch {
		case b.Type != "text" && b.Type != "thinking" && b.Type != "redacted_thinking":
			return fmt.Errorf("block %d: unknown type %q", i, b.Type)
		case b.Content == nil:
			return fmt.Errorf("block %d: content is missing", i)
		case b.Type == "text":
			texts = append(texts, *b.Content)
		}
	}
	*c = content(strings.Join(texts, "\n"))
	return nil
}
