package audit

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/mod/sumdb/tlog"

	"countersign/gateway/api"
)

// File is a Log in one file of lines (JSONL), which it only ever appends to.
// Every entry is synchronised to the disk before Append returns. One process at
// a time may have it open. Of the tree only what it takes to grow it is kept in memory,
// and of the entries one offset for each markEvery of them.
type File struct {
	mu        sync.RWMutex
	tree      frontier
	f         *os.File
	path      string
	marks     []int64 // offsets of the entries 1, 1+markEvery, 1+2*markEvery, …
	end       int64   // length of the file as far as it is known to be good
	truncated []byte
	torn      bool     // the file may hold part of an entry behind the last end
	signing   *signing // nil where no checkpoints are kept
}

var _ Log = (*File)(nil)

// markEvery is a compromise between what is kept in memory and what is read in vain.
const markEvery = 1024

// OpenFile opens the log at path, and creates it if there is none. It reads it
// whole and refuses a line that is no entry or that has another number than the
// one that follows, naming the line. An entry that a crash cut off, which only
// the last line can be and which has no line feed, is removed; see
// [File.Truncated].
func OpenFile(path string) (*File, error) {
	f, err := openAppend(path, "the audit log")
	if err != nil {
		return nil, err
	}
	l := &File{f: f, path: path}
	if err := l.load(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return l, nil
}

// openAppend opens a file that is only appended to, and makes it, for the owner's eyes,
// when there is none. One process at a time has it.
func openAppend(path, what string) (*os.File, error) {
	created := false
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	if errors.Is(err, os.ErrNotExist) {
		created = true
		f, err = os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", what, err)
	}
	if err = lock(f); err != nil {
		err = fmt.Errorf("opening %s %s: cannot lock it, another process may have it open: %w", what, path, err)
	} else if created {
		err = syncFolder(path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// syncFolder makes the name of a new file durable.
func syncFolder(path string) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("creating %s: %w", path, err)
	}
	if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
		return fmt.Errorf("creating %s: %w", path, err)
	}
	return nil
}

func (l *File) load() error {
	cut, err := scan(l.f, l.path, func(line []byte, _ api.AuditEntry) error { return l.add(line) })
	if err != nil || cut == nil {
		return err
	}
	l.truncated = cut
	return l.repair()
}

// ReadFile returns the entries of the log at path and changes nothing, so that it
// may be called while a gateway appends. An unfinished last line is left out. Errors
// are those of [OpenFile], but for the lock.
func ReadFile(path string) ([]api.AuditEntry, error) {
	var entries []api.AuditEntry
	if err := EachEntry(path, func(e api.AuditEntry) { entries = append(entries, e) }); err != nil {
		return nil, err
	}
	return entries, nil
}

// A Damage is a line of a log that no gateway wrote there.
type Damage struct {
	Path string
	Line int64 // which is the number that the entry should have
	What string
}

func (d *Damage) Error() string {
	return fmt.Sprintf("the audit log %s is damaged: line %d%s", d.Path, d.Line, d.What)
}

// EachEntry calls each for the entries that [ReadFile] returns, one after the other, for
// logs that are too long to be kept in memory.
func EachEntry(path string, each func(api.AuditEntry)) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("opening the audit log: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	_, err = scan(f, path, func(_ []byte, e api.AuditEntry) error {
		each(e)
		return nil
	})
	return err
}

// scan calls each for every whole line of a log, without its line feed, and returns
// the last line if that was cut off. What is wrong with the log is a *Damage.
func scan(f io.Reader, path string, each func(line []byte, e api.AuditEntry) error) (cut []byte, err error) {
	r := bufio.NewReaderSize(f, maxLine+1)
	for number := int64(1); ; number++ {
		damaged := func(format string, args ...any) ([]byte, error) {
			return nil, &Damage{path, number, fmt.Sprintf(format, args...)}
		}
		line, err := r.ReadSlice('\n')
		switch {
		case err == nil:
			line = line[:len(line)-1]
		case errors.Is(err, io.EOF) && len(line) == 0:
			return nil, nil
		case errors.Is(err, io.EOF) && isCut(line, number):
			return bytes.Clone(line), nil
		case errors.Is(err, io.EOF):
			return damaged(" has no line feed and is not the start of entry %d", number)
		case errors.Is(err, bufio.ErrBufferFull):
			return damaged(" has more than %d bytes", maxLine)
		default:
			return nil, fmt.Errorf("reading the audit log %s: line %d: %w", path, number, err)
		}
		e, err := Decode(line)
		if err != nil {
			return damaged(": %v", err)
		}
		if e.Seq != number {
			return damaged(" holds entry %d", e.Seq)
		}
		if err := each(line, e); err != nil {
			return nil, err
		}
	}
}

// isCut says whether line can be what a crash left of the entry with a number:
// its first bytes, or zeros where the file grew before its content was written.
// Anything else is not ours to remove.
func isCut(line []byte, number int64) bool {
	start := fmt.Appendf(nil, `{"seq":%d,"time":"`, number)
	n := min(len(line), len(start))
	return bytes.Equal(line[:n], start[:n]) || len(bytes.Trim(line, "\x00")) == 0
}

// add takes note of an entry that is in the file.
func (l *File) add(line []byte) error {
	if err := l.tree.add(line); err != nil {
		return err
	}
	if (l.tree.size-1)%markEvery == 0 {
		l.marks = append(l.marks, l.end)
	}
	l.end += int64(len(line)) + 1
	return nil
}

// Root returns the number of entries and the root hash over them. The root of no
// entries is the hash of the empty string.
func (l *File) Root() (size int64, root tlog.Hash) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.tree.size, l.tree.root()
}

// past returns a function that tells the root over the first n entries, from the file.
// It is asked for one n after the other, each greater than the one before.
func (l *File) past() func(n int64) (tlog.Hash, error) {
	r := bufio.NewReaderSize(io.NewSectionReader(l.f, 0, l.end), 64<<10)
	var then frontier
	return func(n int64) (tlog.Hash, error) {
		for then.size < n {
			line, err := readLine(r, maxLine)
			if err == nil {
				err = then.add(line)
			}
			if err != nil {
				return tlog.Hash{}, fmt.Errorf("reading audit entry %d from %s: %w", then.size+1, l.path, err)
			}
		}
		return then.root(), nil
	}
}

// repair cuts off what is behind the last whole entry.
func (l *File) repair() error {
	l.torn = true
	if err := errors.Join(l.f.Truncate(l.end), l.f.Sync()); err != nil {
		return fmt.Errorf("removing the unfinished entry %d of the audit log %s: %w", l.tree.size+1, l.path, err)
	}
	l.torn = false
	return nil
}

// Truncated returns the unfinished last line that OpenFile removed, nil for
// none. It was never acknowledged: the Append that wrote it did not return.
func (l *File) Truncated() []byte { return bytes.Clone(l.truncated) }

// Append implements [Log]. After a failure the file is brought back to its last
// whole entry first, so that a disk that was full for a while tears no line.
func (l *File) Append(ctx context.Context, e api.AuditEntry) (api.AuditEntry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := errors.Join(l.ready(ctx), l.signing.admit(l.tree.size)); err != nil {
		return api.AuditEntry{}, fmt.Errorf("appending audit entry %d: %w", l.tree.size+1, err)
	}
	e.Seq = l.tree.size + 1
	line, err := Encode(e)
	if err != nil {
		return api.AuditEntry{}, err
	}
	if l.torn {
		if err := l.repair(); err != nil {
			return api.AuditEntry{}, err
		}
	}
	l.torn = true
	if _, err := l.f.Write(append(line, '\n')); err != nil {
		return api.AuditEntry{}, fmt.Errorf("appending audit entry %d: %w", e.Seq, err)
	}
	if err := l.f.Sync(); err != nil {
		return api.AuditEntry{}, fmt.Errorf("appending audit entry %d: %w", e.Seq, err)
	}
	l.torn = false
	if err := l.add(line); err != nil {
		return api.AuditEntry{}, err
	}
	l.signing.grown(l.tree.size)
	e.Time = e.Time.UTC().Round(0)
	return e, nil
}

func (l *File) ready(ctx context.Context) error {
	if l.f == nil {
		return errors.New("the log is closed")
	}
	return ctx.Err()
}

// Read implements [Log].
func (l *File) Read(ctx context.Context, after int64) ([]api.AuditEntry, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if err := l.ready(ctx); err != nil {
		return nil, fmt.Errorf("reading audit entries after %d: %w", after, err)
	}
	after = min(max(after, 0), l.tree.size)
	last := min(l.tree.size, after+MaxRead)
	entries := make([]api.AuditEntry, 0, last-after)
	if after == last {
		return entries, nil
	}
	start := l.marks[after/markEvery]
	r := bufio.NewReaderSize(io.NewSectionReader(l.f, start, l.end-start), 64<<10)
	for seq := after/markEvery*markEvery + 1; seq <= last; seq++ {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("reading audit entries after %d: %w", after, err)
		}
		line, err := readLine(r, maxLine)
		if err != nil {
			return nil, fmt.Errorf("reading audit entry %d from %s: %w", seq, l.path, err)
		}
		if seq <= after {
			continue
		}
		e, err := Decode(line)
		if err != nil {
			return nil, fmt.Errorf("reading audit entry %d from %s: %w", seq, l.path, err)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// Close signs what is not signed yet, where the log signs, and closes the files; later
// calls of Append and Read fail.
func (l *File) Close() error {
	l.mu.Lock()
	f := l.f
	l.f = nil
	l.mu.Unlock()
	if f == nil {
		return nil
	}
	if err := errors.Join(l.stopSigning(), f.Close()); err != nil {
		return fmt.Errorf("closing the audit log %s: %w", l.path, err)
	}
	return nil
}
