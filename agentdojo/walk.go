package agentdojo

import (
	"errors"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ErrNoLogs: the paths name no log at all.
var ErrNoLogs = errors.New("no AgentDojo log (*.json) under the given paths")

// A Log is where a trace is to be read: a native log, or a line of a trace file (see
// [TraceFileEnd]).
type Log struct {
	Path string
	Name string // of a native log: its path below the one that was asked for, and that one's last element
	// Where it is in a trace file; no line for a native log.
	line   int
	offset int64
	size   int // bytes
}

// Read reads the trace. Every error is a [*FileError].
func (l Log) Read() (*Trace, error) {
	if l.line > 0 {
		return l.readTrace()
	}
	return Read(l.Path)
}

// Walk reads the traces that the paths name, one after the other, in the order of
// their names. A path is a native log, a trace file, or a folder; of a folder all
// files called *.json and *.traces.jsonl count, at any depth. A file or folder that
// cannot be read yields a nil trace and a [*FileError], and the walk goes on. When
// there is nothing to read, the walk yields [ErrNoLogs], so that nothing found never
// looks like success.
func Walk(paths []string) iter.Seq2[*Trace, error] {
	return func(yield func(*Trace, error) bool) {
		logs, failed := Find(paths)
		for _, err := range failed {
			if !yield(nil, err) {
				return
			}
		}
		if len(logs) == 0 {
			yield(nil, ErrNoLogs)
			return
		}
		for _, l := range logs {
			if !yield(l.Read()) {
				return
			}
		}
	}
}

// Find lists the traces that the paths name without reading them, each once, in the
// order of their files' names, and a [*FileError] for each path that cannot be looked
// at, for each trace file that is not whole, and for each log that could not be read
// when a trace file was made. See [Walk] for what counts.
func Find(paths []string) (logs []Log, failed []error) {
	names := map[string]string{} // of files, by path
	fail := func(path string, err error) { failed = append(failed, &FileError{Path: path, Err: cause(err)}) }
	for _, root := range paths {
		root = filepath.Clean(root)
		info, err := os.Stat(root)
		if err != nil {
			fail(root, err)
			continue
		}
		base := "."
		if abs, err := filepath.Abs(root); err == nil {
			base = filepath.Base(abs)
		}
		if !info.IsDir() {
			names[root] = base
			continue
		}
		// WalkDir does not follow a symbolic link, not even as its root; the
		// trailing separator makes the system follow that one.
		err = filepath.WalkDir(root+string(filepath.Separator), func(path string, d fs.DirEntry, err error) error {
			path = filepath.Clean(path)
			if err != nil {
				fail(path, err)
				return nil
			}
			if d.Type()&fs.ModeSymlink != 0 {
				if info, err := os.Stat(path); err == nil && info.IsDir() {
					fail(path, errors.New("a symbolic link to a folder is not followed; name the folder itself"))
					return nil
				}
			}
			if !d.IsDir() && (strings.HasSuffix(path, ".json") || strings.HasSuffix(path, TraceFileEnd)) {
				below, err := filepath.Rel(root, path)
				if err != nil {
					fail(path, err)
					return nil
				}
				names[path] = filepath.ToSlash(filepath.Join(base, below))
			}
			return nil
		})
		if err != nil {
			fail(root, err)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(names)) {
		if !strings.HasSuffix(path, TraceFileEnd) {
			logs = append(logs, Log{Path: path, Name: names[path]})
			continue
		}
		inside, lost, err := traceLogs(path)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		logs, failed = append(logs, inside...), append(failed, lost...)
	}
	return logs, failed
}
