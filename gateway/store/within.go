package store

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
)

// Within is the part of a store that has a name, as a store of its own: its rows
// and counters are kept apart from those of every other part. Closing it leaves the
// whole store open. The name is not empty and has no slash.
func Within(s Store, name string) (Store, error) {
	if s == nil || name == "" || strings.Contains(name, "/") {
		return nil, errors.New("a part of a store needs a store, and a name without a slash")
	}
	return &part{s: s, prefix: name + "/"}, nil
}

type part struct {
	s      Store
	prefix string
	closed atomic.Bool
}

// in returns the store, if the part is open.
func (p *part) in(doing, kind, id string) (Store, error) {
	if p.closed.Load() {
		return nil, fail(doing, kind, id, errClosed)
	}
	return p.s, nil
}

func (p *part) Create(ctx context.Context, r Row) (Row, error) {
	s, err := p.in("creating", r.Kind, r.ID)
	if err != nil {
		return Row{}, err
	}
	return p.change(ctx, r, "creating", s.Create)
}

func (p *part) Update(ctx context.Context, r Row) (Row, error) {
	s, err := p.in("updating", r.Kind, r.ID)
	if err != nil {
		return Row{}, err
	}
	return p.change(ctx, r, "updating", s.Update)
}

func (p *part) change(ctx context.Context, r Row, doing string, f func(context.Context, Row) (Row, error)) (Row, error) {
	kind := r.Kind
	if kind == "" {
		return Row{}, fail(doing, kind, r.ID, checkNames(kind, r.ID))
	}
	r.Kind = p.prefix + kind
	r, err := f(ctx, r)
	if err != nil {
		return Row{}, err
	}
	r.Kind = kind
	return r, nil
}

func (p *part) Get(ctx context.Context, kind, id string) (Row, error) {
	s, err := p.in("reading", kind, id)
	if err != nil {
		return Row{}, err
	}
	r, err := s.Get(ctx, p.prefix+kind, id)
	if err != nil {
		return Row{}, err
	}
	r.Kind = kind
	return r, nil
}

func (p *part) Find(ctx context.Context, kind, key string) ([]Row, error) {
	s, err := p.in("finding", kind, key)
	if err != nil {
		return nil, err
	}
	rows, err := s.Find(ctx, p.prefix+kind, key)
	for i := range rows {
		rows[i].Kind = kind
	}
	return rows, err
}

func (p *part) Next(ctx context.Context, name string) (int64, error) {
	s, err := p.in("counting", "counter", name)
	if err != nil {
		return 0, err
	}
	return s.Next(ctx, p.prefix+name)
}

func (p *part) Close() error {
	p.closed.Store(true)
	return nil
}
