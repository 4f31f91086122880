package audit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	signednote "golang.org/x/mod/sumdb/note"
)

// Signing says how a log signs checkpoints. Every member is required, but for Warn.
type Signing struct {
	Path  string // of the file of checkpoints, which is made when absent
	Key   Key
	Every int64                     // a checkpoint is due after so many entries
	Now   func() (time.Time, error) // the gateway's clock
	Warn  func(error)               // told when a checkpoint cannot be written
}

// tooFar is how many times Every entries may be behind the last checkpoint while none
// can be written: then the log takes no more.
const tooFar = 10

// signing is the state of a log that signs. The mutex of the log is not held while a
// checkpoint is signed and written, so that no entry waits for it.
type signing struct {
	Signing
	f      *os.File
	end    int64 // offset behind the last whole checkpoint
	last   SignedCheckpoint
	torn   bool
	due    chan struct{} // asks the writer for a checkpoint
	done   chan struct{} // closed when the writer has ended
	turn   chan struct{} // whose is the file: holds one token
	behind int64         // size at which Append refuses, guarded by the log's mutex; 0 for none
}

// SignWith makes the log sign checkpoints from now on: at once, at each entry whose
// number is a multiple of Every, when [File.Checkpoint] is called, and when it is closed. It
// refuses where a checkpoint of the file does not verify or is not of this log, so that
// no log is signed that contradicts one which was signed before. An unfinished last
// checkpoint is removed. Call it once, before the first Append.
func (l *File) SignWith(o Signing) (err error) {
	switch {
	case o.Path == "", o.Key.signer == nil, o.Every < 1, o.Now == nil:
		return errors.New("signing the audit log: want a file, a key, a number of entries and a clock")
	case l.signing != nil:
		return errors.New("signing the audit log: it is signed already")
	case o.Warn == nil:
		o.Warn = func(error) {}
	}
	s := &signing{Signing: o, due: make(chan struct{}, 1), done: make(chan struct{}), turn: make(chan struct{}, 1)}
	if s.f, err = openAppend(o.Path, "the checkpoints"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			l.signing = nil
			err = errors.Join(err, s.f.Close())
		}
	}()
	// What is longer than this is damaged at its end, and refused.
	text, err := io.ReadAll(io.NewSectionReader(s.f, 0, maxCheckpoints))
	if err != nil {
		return fmt.Errorf("reading the checkpoints %s: %w", o.Path, err)
	}
	cs, rest, err := parseCheckpoints(text)
	if err != nil {
		return fmt.Errorf("the checkpoints %s are damaged: %w", o.Path, err)
	}
	if len(rest) > 0 && !startsNote(rest, o.Key.Origin(), len(cs) > 0) {
		return fmt.Errorf("the checkpoints %s are damaged: what follows checkpoint %d is none", o.Path, len(cs))
	}
	_, found, err := against(cs, signednote.VerifierList(o.Key.verifier), l.tree.size, l.past())
	switch {
	case err != nil:
		return err
	case found != nil:
		return fmt.Errorf("the audit log %s and its checkpoints %s contradict each other: %s", l.path, o.Path, found)
	}
	s.end, s.torn = int64(len(text)-len(rest)), len(rest) > 0
	if len(cs) > 0 {
		s.last = cs[len(cs)-1]
	}
	s.turn <- struct{}{}
	l.signing = s
	if err := l.Checkpoint(); err != nil {
		return err
	}
	go l.write()
	return nil
}

// maxCheckpoints bounds a file of checkpoints, in bytes.
const maxCheckpoints = 256 << 20

// startsNote says whether rest can be what a crash left of a checkpoint.
func startsNote(rest []byte, origin string, follows bool) bool {
	start := origin + "\n"
	if follows {
		start = "\n" + start
	}
	n := min(len(rest), len(start))
	return string(rest[:n]) == start[:n] || strings.Trim(string(rest), "\x00") == ""
}

// write signs whenever it is asked to.
func (l *File) write() {
	defer close(l.signing.done)
	for range l.signing.due {
		if err := l.Checkpoint(); err != nil {
			l.signing.Warn(err)
		}
	}
}

// Checkpoint signs the log as it is now and appends the checkpoint to its file, unless
// the last one says the same. It does nothing in a log that does not sign.
func (l *File) Checkpoint() error {
	s := l.signing
	if s == nil {
		return nil
	}
	<-s.turn
	defer func() { s.turn <- struct{}{} }()
	size, root := l.Root()
	if s.last.Number > 0 && s.last.Size == size {
		return nil
	}
	c := Checkpoint{Size: size, Root: root, Number: s.last.Number + 1}
	if now, err := s.Now(); err == nil {
		c.Time = now
	}
	signed, err := s.Key.Sign(c)
	if err == nil {
		err = s.append(signed)
	}
	limit := int64(0)
	if err != nil {
		limit = s.last.Size + tooFar*s.Every
		err = fmt.Errorf("checkpoint %d of the audit log: %w", c.Number, err)
	}
	l.mu.Lock()
	s.behind = limit
	l.mu.Unlock()
	return err
}

func (s *signing) append(c SignedCheckpoint) error {
	if s.torn {
		if err := errors.Join(s.f.Truncate(s.end), s.f.Sync()); err != nil {
			return fmt.Errorf("removing what is unfinished from %s: %w", s.Path, err)
		}
	}
	text := c.Note
	if s.end > 0 {
		text = "\n" + text
	}
	s.torn = true
	_, err := s.f.WriteString(text)
	if err == nil {
		err = s.f.Sync()
	}
	if err != nil {
		return err
	}
	s.torn, s.last = false, c
	s.end += int64(len(text))
	return nil
}

// admit is asked before an entry is appended; the log's mutex is held.
func (s *signing) admit(size int64) error {
	if s != nil && s.behind > 0 && size >= s.behind {
		return fmt.Errorf("%d entries are behind the last checkpoint, and none can be written to %s", size-s.behind+tooFar*s.Every, s.Path)
	}
	return nil
}

// grown is told how many entries there are; the log's mutex is held. It waits for
// nothing.
func (s *signing) grown(size int64) {
	if s == nil || size%s.Every != 0 && s.behind == 0 {
		return
	}
	select {
	case s.due <- struct{}{}:
	default: // it is asked for already
	}
}

// stopSigning writes the last checkpoint. Nothing is appended any more.
func (l *File) stopSigning() error {
	s := l.signing
	if s == nil {
		return nil
	}
	close(s.due)
	<-s.done
	return errors.Join(l.Checkpoint(), s.f.Close())
}
