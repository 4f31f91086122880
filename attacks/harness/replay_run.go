package harness

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"countersign/results"
)

// The files of a replay's folder besides its list of digests.
const (
	replayRecordsFile = "replay.jsonl"
	replaySummaryFile = "summary.json"
)

// A ReplayWriter writes the folder of one replay: manifest.json, which alone holds
// times, replay.jsonl with one [ReplayRecord] a line, summary.json with the
// [ReplaySummary], and SHA256SUMS. It is a folder of its own kind, because a
// replay has no predictions for [results.Analyse] to compare with. As there, it
// grows in a hidden folder beside its place and is moved when everything is on
// disk, so that an interrupted replay never looks complete.
type ReplayWriter struct {
	dir, partial string
	manifest     results.Manifest
	file         *os.File
	records      *bufio.Writer
}

// CreateReplay begins a folder that [ReplayWriter.Finish] will put at dir, which
// must not exist.
func CreateReplay(dir string, m results.Manifest) (*ReplayWriter, error) {
	fail := func(err error) (*ReplayWriter, error) {
		return nil, fmt.Errorf("creating replay folder %s: %w", dir, err)
	}
	dir = filepath.Clean(dir)
	switch _, err := os.Lstat(dir); {
	case err == nil:
		return fail(errors.New("it exists already, choose another"))
	case !errors.Is(err, fs.ErrNotExist):
		return fail(err)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return fail(err)
	}
	partial, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+".partial-*")
	if err != nil {
		return fail(err)
	}
	m.Status, m.Observed, m.Kinds = results.StatusStarted, map[string]int{}, map[string]int{}
	w := &ReplayWriter{dir: dir, partial: partial, manifest: m}
	err = errors.Join(os.Chmod(partial, 0o755), w.writeJSON(results.ManifestFile, w.manifest))
	if err == nil {
		w.file, err = os.Create(filepath.Join(partial, replayRecordsFile))
	}
	if err != nil {
		return fail(errors.Join(err, os.RemoveAll(partial)))
	}
	w.records = bufio.NewWriterSize(w.file, 1<<16)
	return w, nil
}

// Append adds a record.
func (w *ReplayWriter) Append(r ReplayRecord) error {
	e := json.NewEncoder(w.records)
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil {
		return fmt.Errorf("appending a record for %s: %w", w.dir, err)
	}
	w.manifest.Records++
	w.manifest.Kinds[string(r.Class)]++
	for _, c := range r.Calls {
		w.manifest.Observed[string(c.Outcome)]++
	}
	if r.Error != "" {
		w.manifest.Observed[string(results.Error)]++
	}
	return nil
}

// Finish adds the summary, marks the replay complete and moves it to its place. at
// is the time. A replay without records is refused: an empty selection must not
// pass for a result.
func (w *ReplayWriter) Finish(s *ReplaySummary, at time.Time) error {
	err := w.settle(s, at)
	if err != nil {
		return fmt.Errorf("finishing %s: %w", w.dir, err)
	}
	return nil
}

func (w *ReplayWriter) settle(s *ReplaySummary, at time.Time) error {
	if w.manifest.Records == 0 {
		return errors.New("it has no records: no trace was replayed")
	}
	if err := errors.Join(w.records.Flush(), w.file.Close()); err != nil {
		return err
	}
	w.manifest.Status, w.manifest.Finished = results.StatusComplete, at.UTC()
	if w.manifest.Inputs == nil {
		w.manifest.Inputs = map[string]string{}
	}
	w.manifest.Inputs["logs"] = s.Logs
	if err := errors.Join(w.writeJSON(replaySummaryFile, s), w.writeJSON(results.ManifestFile, w.manifest)); err != nil {
		return err
	}
	sums, err := results.SumsOf(w.partial)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(w.partial, results.SumsFile), []byte(sums.String()), 0o644); err != nil {
		return err
	}
	for _, name := range []string{results.ManifestFile, replayRecordsFile, replaySummaryFile, results.SumsFile, "."} {
		if err := syncFile(filepath.Join(w.partial, name)); err != nil {
			return err
		}
	}
	if err := os.Rename(w.partial, w.dir); err != nil {
		return err
	}
	return syncFile(filepath.Dir(w.dir))
}

// Abort gives the replay up. What was written stays in the hidden folder, marked
// failed; the error returned wraps cause and says where that is.
func (w *ReplayWriter) Abort(cause error) error {
	// Closing again after a Finish that failed tells nothing new.
	_ = w.records.Flush()
	_ = w.file.Close()
	w.manifest.Status, w.manifest.Error = results.StatusFailed, cause.Error()
	if err := w.writeJSON(results.ManifestFile, w.manifest); err != nil {
		return fmt.Errorf("%w (unfinished replay left in %s, and marking it failed: %w)", cause, w.partial, err)
	}
	return fmt.Errorf("%w (unfinished replay left in %s)", cause, w.partial)
}

func (w *ReplayWriter) writeJSON(name string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(w.partial, name), append(data, '\n'), 0o644)
}

// FileDigest is the SHA-256 of a file, in hex.
func FileDigest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("digesting %s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
