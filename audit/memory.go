package audit

import (
	"context"
	"fmt"
	"sync"

	"countersign/gateway/api"
)

// Memory is a Log in the memory of one process, which grows with it and which nothing
// is signed of. The zero value is empty and ready.
type Memory struct {
	mu    sync.RWMutex
	lines [][]byte
}

// NewMemory returns an empty log.
func NewMemory() *Memory { return new(Memory) }

var _ Log = (*Memory)(nil)

// Append implements [Log].
func (m *Memory) Append(ctx context.Context, e api.AuditEntry) (api.AuditEntry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return api.AuditEntry{}, fmt.Errorf("appending audit entry %d: %w", len(m.lines)+1, err)
	}
	e.Seq = int64(len(m.lines)) + 1
	line, err := Encode(e)
	if err != nil {
		return api.AuditEntry{}, err
	}
	m.lines = append(m.lines, line)
	e.Time = e.Time.UTC().Round(0)
	return e, nil
}

// Read implements [Log].
func (m *Memory) Read(ctx context.Context, after int64) ([]api.AuditEntry, error) {
	m.mu.RLock()
	size := int64(len(m.lines))
	after = min(max(after, 0), size)
	lines := m.lines[after:min(size, after+MaxRead)]
	m.mu.RUnlock()
	entries := make([]api.AuditEntry, 0, len(lines))
	for _, line := range lines {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("reading audit entries after %d: %w", after, err)
		}
		e, err := Decode(line)
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}
