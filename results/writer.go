package results

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// The files of a run.
const (
	ManifestFile  = "manifest.json"
	catalogueFile = "catalogue.json"
	recordsFile   = "records.jsonl" // of [Record]
	LatencyFile   = "latency.jsonl" // what differs from run to run, in a file of its own
)

// A Writer writes one run. Its methods may be called concurrently, but records
// are kept in the order of the calls, and that order is part of the result.
type Writer struct {
	mu       sync.Mutex
	dir      string // where the run will be
	partial  string // where it is until it is whole
	manifest Manifest
	records  *lines
	latency  *lines // nil until the first latency
	err      error  // the first failure, or that the run is closed
}

// Create begins a run that [Writer.Finish] will put at dir. Until then it grows
// in a hidden folder beside dir. Errors: dir exists, its parent cannot be
// written, or manifest or catalogue are incomplete.
func Create(dir string, m Manifest, c Catalogue) (*Writer, error) {
	dir = filepath.Clean(dir)
	if _, err := os.Lstat(dir); err == nil {
		return nil, fmt.Errorf("creating run folder %s: it exists already, choose another", dir)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("creating run folder: %w", err)
	}
	m.Schema, m.Status, m.Error, m.Finished = Schema, StatusStarted, "", time.Time{}
	m.Records, m.Observed, m.Kinds = 0, map[string]int{}, map[string]int{}
	if m.Started.IsZero() {
		return nil, fmt.Errorf("creating run folder %s: the manifest has no start time", dir)
	}
	m.Started = m.Started.UTC()
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("creating run folder %s: %w", dir, err)
	}
	parent, base := filepath.Split(dir)
	parent = cmp.Or(parent, ".")
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return nil, fmt.Errorf("creating run folder %s: %w", dir, err)
	}
	partial, err := os.MkdirTemp(parent, "."+base+".partial-*")
	if err != nil {
		return nil, fmt.Errorf("creating run folder %s: %w", dir, err)
	}
	w := &Writer{dir: dir, partial: partial, manifest: m}
	err = errors.Join(os.Chmod(partial, 0o755), w.writeManifest(), w.writeJSON(catalogueFile, c))
	if err == nil {
		w.records, err = createLines(filepath.Join(partial, recordsFile))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("creating run folder %s: %w", dir, err), os.RemoveAll(partial))
	}
	return w, nil
}

// Append adds one record. An error is final: every later call returns it.
func (w *Writer) Append(r Record) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	line, err := r.encode()
	if err = cmp.Or(r.Validate(), err); err == nil {
		err = w.records.write(line)
	}
	if err != nil {
		return w.fail("appending a record", err)
	}
	w.manifest.Records++
	w.manifest.Observed[string(r.Observed)]++
	w.manifest.Kinds[string(r.Kind)]++
	return nil
}

// Latency notes how long a dispatch of a target took, in nanoseconds. It goes to
// a file of its own, because times differ from run to run and records must not.
func (w *Writer) Latency(target string, ns int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	line, err := encodeLine(struct {
		Target string `json:"target"`
		NS     int64  `json:"ns"`
	}{target, ns})
	if err == nil && w.latency == nil {
		w.latency, err = createLines(filepath.Join(w.partial, LatencyFile))
	}
	if err == nil {
		err = w.latency.write(line)
	}
	if err != nil {
		return w.fail("noting a latency", err)
	}
	return nil
}

// WriteFile stores a further file of the run, such as "events/0001.json". The
// name is relative, with slashes and without spaces; the names of the run's own
// files are refused.
func (w *Writer) WriteFile(name string, data []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	if !fs.ValidPath(name) || name == "." || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == '\\' }) ||
		slices.Contains([]string{ManifestFile, catalogueFile, recordsFile, LatencyFile, SumsFile}, name) {
		return fmt.Errorf("writing %q into the run: not a usable name", name)
	}
	path := filepath.Join(w.partial, filepath.FromSlash(name))
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o644)); err != nil {
		return w.fail("writing "+name, err)
	}
	return nil
}

// Finish marks the run complete, writes the digests, brings everything to disk
// and moves it to its place. A run without records is refused: an empty
// selection must not pass for a result. On an error the partial folder stays;
// call [Writer.Abort] to mark it.
func (w *Writer) Finish() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	if w.manifest.Records == 0 {
		return w.fail("finishing the run", errors.New("it has no records: nothing was selected"))
	}
	if err := w.close(); err != nil {
		return w.fail("finishing the run", err)
	}
	w.manifest.Status, w.manifest.Finished = StatusComplete, time.Now().UTC()
	if err := w.settle(); err != nil {
		return w.fail("finishing the run", err)
	}
	w.err = fmt.Errorf("the run %s is finished", w.dir)
	return nil
}

// settle writes what is written last, in an order in which a crash leaves either
// a partial folder or a whole run.
func (w *Writer) settle() error {
	if err := w.writeManifest(); err != nil {
		return err
	}
	sums, err := digests(w.partial, nil)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(w.partial, SumsFile), []byte(sums.String()), 0o644); err != nil {
		return err
	}
	err = filepath.WalkDir(w.partial, func(path string, _ fs.DirEntry, err error) error {
		return cmp.Or(err, syncPath(path))
	})
	if err != nil {
		return err
	}
	if err := os.Rename(w.partial, w.dir); err != nil {
		return err
	}
	return syncPath(filepath.Dir(w.dir))
}

// Abort gives the run up. What was written stays in the partial folder, marked
// failed. The error returned wraps cause and says where that is; after
// [Writer.Finish] it is cause alone, since the run is whole.
func (w *Writer) Abort(cause error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if cause == nil {
		cause = errors.New("the run was aborted")
	}
	if w.manifest.Status == StatusFailed {
		return cause
	}
	if _, err := os.Lstat(w.partial); err != nil {
		return cause
	}
	err := w.close()
	w.manifest.Status, w.manifest.Error, w.manifest.Finished = StatusFailed, cause.Error(), time.Now().UTC()
	err = errors.Join(err, w.writeManifest())
	w.err = fmt.Errorf("the run was aborted: %w", cause)
	if err != nil {
		return fmt.Errorf("%w (unfinished run left in %s, and marking it failed: %w)", cause, w.partial, err)
	}
	return fmt.Errorf("%w (unfinished run left in %s)", cause, w.partial)
}

func (w *Writer) fail(doing string, err error) error {
	w.err = fmt.Errorf("%s for %s: %w", doing, w.dir, err)
	return w.err
}

func (w *Writer) close() error {
	var errs []error
	for _, l := range []*lines{w.records, w.latency} {
		if l != nil {
			errs = append(errs, l.close())
		}
	}
	w.records, w.latency = nil, nil
	return errors.Join(errs...)
}

func (w *Writer) writeManifest() error { return w.writeJSON(ManifestFile, w.manifest) }

func (w *Writer) writeJSON(name string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(w.partial, name), append(data, '\n'), 0o644)
}

// lines is a buffered file.
type lines struct {
	f *os.File
	b *bufio.Writer
}

func createLines(path string) (*lines, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, err
	}
	return &lines{f, bufio.NewWriterSize(f, 1<<16)}, nil
}

func (l *lines) write(line []byte) error {
	_, err := l.b.Write(line)
	return err
}

func (l *lines) close() error { return errors.Join(l.b.Flush(), l.f.Close()) }

func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
