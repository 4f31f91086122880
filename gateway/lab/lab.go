// Package lab puts the built-in gateway into a world that can be disturbed: a
// store, a policy, an audit log and a register of names that fail on demand,
// crashes at named steps, restarts, second instances, and concurrent callers with
// a fixed schedule. It implements api.Lab; nothing in it reaches into a decision.
package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"countersign/audit"
	"countersign/gateway"
	"countersign/gateway/api"
	"countersign/gateway/store"
	"countersign/modes"
)

// Version is reported as the target's version.
const Version = "1"

// ErrCrash is what a step hook returns to stop the gateway there.
var ErrCrash = errors.New("the gateway process crashed")

// Deploy returns a factory of built-in targets for a mode, each over a fresh
// store in memory.
func Deploy(m modes.Mode) api.Factory {
	return func(ctx context.Context, d api.Deployment) (api.Bench, error) {
		return DeployOn(m, store.NewMemory())(ctx, d)
	}
}

// DeployOn is Deploy over a given store.
func DeployOn(m modes.Mode, s store.Store) api.Factory {
	return func(ctx context.Context, d api.Deployment) (api.Bench, error) {
		keys, err := modes.NewKeys(d.Issuer)
		if err != nil {
			return api.Bench{}, err
		}
		return deploy(ctx, m, d, Parts{Store: s, Keys: keys, Log: audit.NewMemory()})
	}
}

// Parts are what a gateway is put together from, for one that is to go on where
// another process ended, or beside another that shares the store.
type Parts struct {
	Store store.Store
	Keys  *modes.Keys
	Log   audit.Log
	// Watch, if set, is called before and after each write to the store and to the
	// log with its name, such as "before create approval". What it waits for, the
	// write waits for.
	Watch func(point string)
}

// DeployWith is Deploy of given parts.
func DeployWith(m modes.Mode, p Parts) api.Factory {
	return func(ctx context.Context, d api.Deployment) (api.Bench, error) { return deploy(ctx, m, d, p) }
}

func deploy(ctx context.Context, m modes.Mode, d api.Deployment, p Parts) (api.Bench, error) {
	s, log := p.Store, p.Log
	if p.Watch != nil {
		s, log = watchedStore{s, p.Watch}, watchedLog{log, p.Watch}
	}
	l := &lab{faults: &faults{as: map[api.Dependency]api.Fault{}}, hooks: map[api.Step]func(context.Context) error{}}
	l.config = gateway.Config{
		Mode: m, Deployment: d, Keys: p.Keys, Version: Version, Reach: l.reach,
		Approvals: faultyStore{s, func(string) api.Dependency { return api.DepStore }, l.faults},
		Registry: byName{faultyStore{s, func(kind string) api.Dependency {
			if kind == "policy" {
				return api.DepPolicy
			}
			return ""
		}, l.faults}},
		Audit: faultyLog{log, l.faults},
	}
	l.front = &front{}
	if err := l.Restart(ctx); err != nil {
		return api.Bench{}, err
	}
	return api.Bench{Target: l.front, Lab: l}, nil
}

// front is the address of the gateway: it stays while processes behind it come
// and go.
type front struct{ api.Target }

type lab struct {
	config gateway.Config
	front  *front
	faults *faults
	hooks  map[api.Step]func(context.Context) error
}

var _ api.Lab = (*lab)(nil)

func (l *lab) Fault(dep api.Dependency, f api.Fault) { l.faults.set(dep, f) }

func (l *lab) Restart(ctx context.Context) error {
	g, err := gateway.New(ctx, l.config)
	if err != nil {
		return fmt.Errorf("starting the gateway: %w", err)
	}
	l.front.Target = g
	return nil
}

func (l *lab) Second(ctx context.Context) (api.Target, error) { return gateway.New(ctx, l.config) }

func (l *lab) At(step api.Step, f func(ctx context.Context) error) { l.hooks[step] = f }

// reach is called by the gateway at each step. A racing caller gives way before
// it consumes; a hook runs once.
func (l *lab) reach(ctx context.Context, step api.Step) error {
	if r, ok := ctx.Value(racerKey{}).(*racer); ok {
		if step == api.StepChecked {
			r.giveWay()
		}
		return nil
	}
	if f := l.hooks[step]; f != nil {
		delete(l.hooks, step)
		return f(ctx)
	}
	return nil
}

type racerKey struct{}

// A racer is one concurrent caller. Only one of them runs at any moment, so the
// interleaving is the schedule and nothing else.
type racer struct {
	parked chan bool // true: waits before consuming; false: returned
	resume chan struct{}
	waits  bool
}

func (r *racer) giveWay() {
	r.parked <- true
	<-r.resume
}

// Race implements api.Lab.
func (l *lab) Race(ctx context.Context, order []int, work func(ctx context.Context, i int)) {
	racers := make([]*racer, len(order))
	for i := range racers {
		r := &racer{parked: make(chan bool), resume: make(chan struct{})}
		racers[i] = r
		go func() {
			defer func() { r.parked <- false }()
			work(context.WithValue(ctx, racerKey{}, r), i)
		}()
		r.waits = <-r.parked
	}
	order = slices.Clone(order)
	for len(order) > 0 {
		next := order[0]
		order = order[1:]
		if r := racers[next]; r.waits {
			r.resume <- struct{}{}
			r.waits = <-r.parked
			if r.waits {
				order = append(order, next)
			}
		}
	}
}

// faults says how each dependency fails.
type faults struct {
	mu sync.Mutex
	as map[api.Dependency]api.Fault
}

func (f *faults) set(dep api.Dependency, fault api.Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.as[dep] = fault
}

func (f *faults) of(dep api.Dependency) api.Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.as[dep]
}

var errFault = errors.New("the dependency fails")

// check is asked before a call. It lets through what is only answered wrongly.
func (f *faults) check(dep api.Dependency) error {
	switch f.of(dep) {
	case api.FaultDown:
		return fmt.Errorf("%s: %w", dep, errFault)
	case api.FaultTimeout:
		return fmt.Errorf("%s: %w", dep, context.DeadlineExceeded)
	case api.FaultPanic:
		panic(fmt.Sprintf("%s: the client broke down", dep))
	}
	return nil
}

// answer is asked after a write.
func (f *faults) answer(dep api.Dependency, err error) error {
	if err == nil && f.of(dep) == api.FaultPartial {
		return fmt.Errorf("%s: %w after the write", dep, errFault)
	}
	return err
}

// faultyStore fails the rows of a dependency while it is down.
type faultyStore struct {
	s      store.Store
	dep    func(kind string) api.Dependency
	faults *faults
}

func (f faultyStore) Create(ctx context.Context, r store.Row) (store.Row, error) {
	if err := f.faults.check(f.dep(r.Kind)); err != nil {
		return store.Row{}, err
	}
	row, err := f.s.Create(ctx, r)
	return row, f.faults.answer(f.dep(r.Kind), err)
}

func (f faultyStore) Update(ctx context.Context, r store.Row) (store.Row, error) {
	if err := f.faults.check(f.dep(r.Kind)); err != nil {
		return store.Row{}, err
	}
	row, err := f.s.Update(ctx, r)
	return row, f.faults.answer(f.dep(r.Kind), err)
}

func (f faultyStore) Get(ctx context.Context, kind, id string) (store.Row, error) {
	if err := f.faults.check(f.dep(kind)); err != nil {
		return store.Row{}, err
	}
	return f.s.Get(ctx, kind, id)
}

func (f faultyStore) Find(ctx context.Context, kind, key string) ([]store.Row, error) {
	if err := f.faults.check(f.dep(kind)); err != nil {
		return nil, err
	}
	return f.s.Find(ctx, kind, key)
}

func (f faultyStore) Next(ctx context.Context, name string) (int64, error) {
	if err := f.faults.check(f.dep("")); err != nil {
		return 0, err
	}
	return f.s.Next(ctx, name)
}

func (f faultyStore) Close() error { return f.s.Close() }

// byName fails the look-up of people and agents by name as well. A caller is
// found by its token, with Find.
type byName struct{ faultyStore }

func (b byName) Get(ctx context.Context, kind, id string) (store.Row, error) {
	if kind == "principal" {
		if err := b.faults.check(api.DepIdentity); err != nil {
			return store.Row{}, err
		}
	}
	return b.faultyStore.Get(ctx, kind, id)
}

type faultyLog struct {
	audit.Log
	faults *faults
}

func (f faultyLog) Append(ctx context.Context, e api.AuditEntry) (api.AuditEntry, error) {
	if err := f.faults.check(api.DepAudit); err != nil {
		return api.AuditEntry{}, err
	}
	logged, err := f.Log.Append(ctx, e)
	return logged, f.faults.answer(api.DepAudit, err)
}
