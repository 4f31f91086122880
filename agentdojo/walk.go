package agentdojo

import (
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ErrNoLogs: the paths name no log at all.
var ErrNoLogs = errors.New("no AgentDojo log (*.json) under the given paths")

// Walk reads the logs that the paths name, one after the other, in the order of
// their names. A path is a log or a folder; of a folder all files called *.json
// count, at any depth. A file or folder that cannot be read yields a nil trace
// and a [*FileError], and the walk goes on. When there is nothing to read,
// the walk yields [ErrNoLogs], so that nothing found never looks like success.
func Walk(paths []string) iter.Seq2[*Trace, error] {
	return func(yield func(*Trace, error) bool) {
		files, failed := Find(paths)
		for _, err := range failed {
			if !yield(nil, err) {
				return
			}
		}
		if len(files) == 0 {
			yield(nil, ErrNoLogs)
			return
		}
		for _, f := range files {
			if !yield(Read(f)) {
				return
			}
		}
	}
}

// Find lists the logs that the paths name without reading them, each once, in the
// order of their names, and a [*FileError] for each path that cannot be looked at.
// See [Walk] for what counts.
func Find(paths []string) (files []string, failed []error) {
	fail := func(path string, err error) { failed = append(failed, &FileError{Path: path, Err: cause(err)}) }
	for _, root := range paths {
		root = filepath.Clean(root)
		info, err := os.Stat(root)
		if err != nil {
			fail(root, err)
			continue
		}
		if !info.IsDir() {
			files = append(files, root)
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
			if !d.IsDir() && strings.HasSuffix(path, ".json") {
				files = append(files, path)
			}
			return nil
		})
		if err != nil {
			fail(root, err)
		}
	}
	slices.Sort(files)
	return slices.Compact(files), failed
}
