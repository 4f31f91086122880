package results

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"time"
)

// A Status says how far a run came.
type Status string

const (
	StatusStarted  Status = "started"  // being written, or interrupted
	StatusComplete Status = "complete" // whole
	StatusFailed   Status = "failed"   // given up, with the reason in Error
)

// DefaultReference is the target others are compared with unless a [Family]
// names another.
const DefaultReference = "M9"

// A Family is the set of paired comparisons, fixed before the run: p values are
// adjusted for its size. The zero value compares every other target with
// [DefaultReference].
type Family struct {
	Reference string   `json:"reference"`
	Targets   []string `json:"targets"` // empty for every other target
}

// A Manifest says how a run was made. Its times and those of [LatencyFile] are the only
// clock readings of a run.
type Manifest struct {
	Schema    int               `json:"schema"`
	Status    Status            `json:"status"`
	Error     string            `json:"error,omitempty"` // why the run failed
	Argv      []string          `json:"argv"`
	Seed      uint64            `json:"seed"`
	GoVersion string            `json:"go_version"`
	OS        string            `json:"os"`
	Arch      string            `json:"arch"`
	Module    string            `json:"module_version"`
	Commit    string            `json:"commit"` // "unknown" outside version control
	Dirty     bool              `json:"dirty"`  // the tree differed from the commit, or nobody knows
	Started   time.Time         `json:"started"`
	Finished  time.Time         `json:"finished,omitzero"`
	Records   int               `json:"records"`
	Observed  map[string]int    `json:"by_observed"` // records by outcome
	Kinds     map[string]int    `json:"by_kind"`     // records by kind
	Inputs    map[string]string `json:"inputs"`      // SHA-256 in hex of each input, by name
	Family    Family            `json:"family"`
}

// NewManifest describes the running program. What the build does not tell stays
// "unknown", and an unknown commit counts as dirty.
func NewManifest(argv []string, seed uint64, started time.Time) Manifest {
	m := Manifest{
		Schema: Schema, Status: StatusStarted, Argv: slices.Clone(argv), Seed: seed,
		GoVersion: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH,
		Module: "unknown", Commit: "unknown", Dirty: true,
		Started: started.UTC(), Inputs: map[string]string{},
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return m
	}
	if info.Main.Version != "" {
		m.Module = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			m.Commit = s.Value
		case "vcs.modified":
			m.Dirty = s.Value != "false"
		}
	}
	return m
}

// validate is for manifests that come back from disk.
func (m Manifest) validate() error {
	switch {
	case m.Schema != Schema:
		return fmt.Errorf("schema is %d, this program reads %d", m.Schema, Schema)
	case m.Started.IsZero():
		return errors.New("started: no time")
	}
	switch m.Status {
	case StatusComplete:
		if m.Finished.IsZero() {
			return errors.New("finished: no time, though the run is complete")
		}
		return cmp.Or(m.counts("by_observed", m.Observed), m.counts("by_kind", m.Kinds))
	case StatusFailed:
		return fmt.Errorf("the run failed: %s", m.Error)
	case StatusStarted:
		return errors.New("the run is not complete: it was interrupted or is still going on")
	}
	return fmt.Errorf("status is %q, want %s", m.Status, StatusComplete)
}

// counts reports a member whose counts are not those of all records.
func (m Manifest) counts(member string, by map[string]int) error {
	left := m.Records
	for _, name := range slices.Sorted(maps.Keys(by)) {
		if by[name] < 0 || by[name] > left {
			left = -1
			break
		}
		left -= by[name]
	}
	if left != 0 {
		return fmt.Errorf("%s: the counts do not add up to %d records", member, m.Records)
	}
	return nil
}

// NewID returns the name of a run: its UTC time to the second and six hex digits,
// which keep runs of one second apart. Names sort by time.
func NewID(t time.Time, random [3]byte) string {
	return fmt.Sprintf("%s-%x", t.UTC().Format("20060102T150405Z"), random[:])
}
