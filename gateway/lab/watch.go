package lab

import (
	"context"

	"countersign/audit"
	"countersign/gateway/api"
	"countersign/gateway/store"
)

// watchedStore tells of each write before it is made and when it has been.
type watchedStore struct {
	store.Store
	watch func(point string)
}

func (w watchedStore) Create(ctx context.Context, r store.Row) (store.Row, error) {
	w.watch("before create " + r.Kind)
	defer w.watch("after create " + r.Kind)
	return w.Store.Create(ctx, r)
}

func (w watchedStore) Update(ctx context.Context, r store.Row) (store.Row, error) {
	w.watch("before update " + r.Kind)
	defer w.watch("after update " + r.Kind)
	return w.Store.Update(ctx, r)
}

func (w watchedStore) Next(ctx context.Context, name string) (int64, error) {
	w.watch("before next " + name)
	defer w.watch("after next " + name)
	return w.Store.Next(ctx, name)
}

// watchedLog tells of each line before it is written and when it has been.
type watchedLog struct {
	audit.Log
	watch func(point string)
}

func (w watchedLog) Append(ctx context.Context, e api.AuditEntry) (api.AuditEntry, error) {
	w.watch("before log " + e.Event)
	defer w.watch("after log " + e.Event)
	return w.Log.Append(ctx, e)
}
