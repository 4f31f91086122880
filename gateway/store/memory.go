package store

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync"
)

// Memory is a Store in the memory of one process: what it holds is lost with
// the process, so it cannot keep a permit spent over a restart.
type Memory struct {
	mu       sync.RWMutex
	closed   bool
	made     int64 // rows created so far
	rows     map[name]*memoryRow
	index    map[name][]*memoryRow // by kind and key, in creation order
	counters map[string]int64
}

// name is a kind with an id or a key.
type name struct{ kind, of string }

type memoryRow struct {
	Row
	made int64 // position in creation order
}

// NewMemory returns an empty store.
func NewMemory() *Memory {
	return &Memory{
		rows:     map[name]*memoryRow{},
		index:    map[name][]*memoryRow{},
		counters: map[string]int64{},
	}
}

var _ Store = (*Memory)(nil)

func (m *Memory) ready(ctx context.Context) error {
	if m.closed || m.rows == nil {
		return errClosed
	}
	return ctx.Err()
}

// Create implements [Store].
func (m *Memory) Create(ctx context.Context, r Row) (Row, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := cmp.Or(m.ready(ctx), checkNames(r.Kind, r.ID)); err != nil {
		return Row{}, fail("creating", r.Kind, r.ID, err)
	}
	if _, ok := m.rows[name{r.Kind, r.ID}]; ok {
		return Row{}, fail("creating", r.Kind, r.ID, ErrExists)
	}
	m.made++
	r.Rev = 1
	row := &memoryRow{Row: copyOf(r), made: m.made}
	m.rows[name{r.Kind, r.ID}] = row
	m.link(row)
	return copyOf(r), nil
}

// Update implements [Store].
func (m *Memory) Update(ctx context.Context, r Row) (Row, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.ready(ctx); err != nil {
		return Row{}, fail("updating", r.Kind, r.ID, err)
	}
	row, ok := m.rows[name{r.Kind, r.ID}]
	if !ok {
		return Row{}, fail("updating", r.Kind, r.ID, ErrNotFound)
	}
	if row.Rev != r.Rev {
		return Row{}, fail("updating", r.Kind, r.ID, ErrStale)
	}
	r.Rev++
	if row.Key != r.Key {
		m.unlink(row)
		row.Row = copyOf(r)
		m.link(row)
	} else {
		row.Row = copyOf(r)
	}
	return copyOf(r), nil
}

// Get implements [Store].
func (m *Memory) Get(ctx context.Context, kind, id string) (Row, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := m.ready(ctx); err != nil {
		return Row{}, fail("reading", kind, id, err)
	}
	row, ok := m.rows[name{kind, id}]
	if !ok {
		return Row{}, fail("reading", kind, id, ErrNotFound)
	}
	return copyOf(row.Row), nil
}

// Find implements [Store].
func (m *Memory) Find(ctx context.Context, kind, key string) ([]Row, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := m.ready(ctx); err != nil {
		return nil, fail("finding", kind, key, err)
	}
	var found []Row
	for _, row := range slices.Backward(m.index[name{kind, key}]) {
		found = append(found, copyOf(row.Row))
	}
	return found, nil
}

// Next implements [Store].
func (m *Memory) Next(ctx context.Context, counter string) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.ready(ctx); err != nil {
		return 0, fail("counting", "counter", counter, err)
	}
	m.counters[counter]++
	return m.counters[counter], nil
}

// Close implements [Store].
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

func (m *Memory) link(row *memoryRow) {
	k := name{row.Kind, row.Key}
	i, _ := slices.BinarySearchFunc(m.index[k], row.made, byMade)
	m.index[k] = slices.Insert(m.index[k], i, row)
}

func (m *Memory) unlink(row *memoryRow) {
	k := name{row.Kind, row.Key}
	i, _ := slices.BinarySearchFunc(m.index[k], row.made, byMade)
	if m.index[k] = slices.Delete(m.index[k], i, i+1); len(m.index[k]) == 0 {
		delete(m.index, k)
	}
}

func byMade(r *memoryRow, made int64) int { return cmp.Compare(r.made, made) }

func copyOf(r Row) Row {
	r.Body = bytes.Clone(r.Body)
	return r
}
