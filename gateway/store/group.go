package store

import (
	"context"
	"sync"
)

// maxGroup bounds a group, and so how long its first caller waits for the others.
const maxGroup = 256

// A group is the changes of callers that came while the changes before them were
// being written. They are committed together: what costs is the synchronisation of
// the disk, and one is enough for all of them. Nobody waits for company.
type group[T any] struct {
	commit  func([]*job[T]) // writes changes and sets their errors
	mu      sync.Mutex
	queue   []*job[T]
	closed  bool
	wake    chan struct{}
	stopped chan struct{}
}

// A job is one caller's change.
type job[T any] struct {
	ctx    context.Context
	change T
	err    error // what the caller is told
	done   chan struct{}
}

func newGroup[T any](commit func([]*job[T])) *group[T] {
	g := &group[T]{commit: commit, wake: make(chan struct{}, 1), stopped: make(chan struct{})}
	go g.work()
	return g
}

// submit returns when the change is committed or has failed, or when the caller
// gives up; the change may then be written nonetheless.
func (g *group[T]) submit(ctx context.Context, change T) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	j := &job[T]{ctx: ctx, change: change, done: make(chan struct{})}
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return errClosed
	}
	g.queue = append(g.queue, j)
	g.mu.Unlock()
	g.wakeUp()
	select {
	case <-j.done:
		return j.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *group[T]) wakeUp() {
	select {
	case g.wake <- struct{}{}:
	default: // it will look at the queue anyway
	}
}

func (g *group[T]) work() {
	defer close(g.stopped)
	for range g.wake {
		for {
			g.mu.Lock()
			n := min(len(g.queue), maxGroup)
			jobs, closed := g.queue[:n:n], g.closed
			g.queue = g.queue[n:]
			g.mu.Unlock()
			if n == 0 && closed {
				return
			}
			if n == 0 {
				break
			}
			g.commit(jobs)
			for _, j := range jobs {
				close(j.done)
			}
		}
	}
}

// close lets the changes that were submitted finish; later ones fail.
func (g *group[T]) close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.wakeUp()
	<-g.stopped
}
