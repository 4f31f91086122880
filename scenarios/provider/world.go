// Package provider is the service whose side effects the lab guards: a fixture
// with a ledger of every effect it made, the reference directory that steers
// those effects, and faults of the network between it and its caller.
//
// # Reading a request
//
// A [World] reads bodies with a real JSON library chosen by [Reader]. It ignores
// members it does not know, fills in defaults, and resolves every reference for
// itself inside the critical section that makes the effect. A caller that wants
// its own resolution to hold sends it along as a precondition
// (api.ProviderRequest.Resolved).
//
// # Idempotency
//
// For tools with api.GuaranteeIdempotent it behaves as Stripe documents its API
// (docs.stripe.com/api/idempotent_requests): status and body of the first request
// that began to execute are kept per key and returned on retries, failures with
// status 500 included; a request that failed validation is not kept; other
// parameters under the same key are an error; a key may be forgotten after 24
// hours. Forgetting a key ends the protection against a second effect, not the
// service's record of what it accepted, so a look-up still finds it.
//
// # Deadlines
//
// For tools whose guarantee is not "none", a request that would be accepted at its
// deadline (api.ProviderRequest.Deadline) or later is refused with the code "late",
// by this provider's clock. Over HTTP too: the deadline is a member of the request
// and needs no header, and the time at which the service accepts counts, not the time
// at which the connection was made.
//
// # What it is not
//
// It is no judge and no attacker: it executes whatever is well formed and holds
// the right credential. Its clock is its own; give it one that the lab's clock
// faults do not reach, or the fixture itself would block them.
package provider

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"countersign/gateway/api"
)

// Records is reference data: kind → id → member → JSON text.
type Records = map[string]map[string]map[string]json.RawMessage

// A Config describes a World. The zero value is refused.
type Config struct {
	Tools   []api.Tool
	Records Records
	Reader  Reader
	Clock   api.Clock
	// PruneAfter is how long idempotency keys are kept; 0 means 24 hours.
	PruneAfter time.Duration
	// Delay, if set, is called for a FaultDelay when Execute is called in process
	// (over HTTP the handler sleeps). A lab uses it to move its virtual clock.
	Delay func(ctx context.Context, d time.Duration)
}

// An Effect is one accepted change, as the service acted on it.
type Effect struct {
	Seq            int64      `json:"seq"` // 1, 2, …
	Time           time.Time  `json:"time"`
	Audience       string     `json:"audience"`
	Tool           string     `json:"tool"`
	Values         api.Values `json:"values"` // defaults applied, references resolved
	RequestID      string     `json:"request_id,omitempty"`
	IdempotencyKey string     `json:"idempotency_key,omitempty"`
	// CredentialDigest tells credentials apart. A ledger is read by more people than
	// may make effects, so it does not hold what would let them.
	CredentialDigest string `json:"credential_digest"`
}

// CredentialDigest is the hex SHA-256 of a credential as a ledger shows it.
func CredentialDigest(credential string) string {
	h := sha256.Sum256([]byte("countersign/credential/v1\x00" + credential))
	return hex.EncodeToString(h[:])
}

// A World is the provider. It implements api.Provider and api.Directory and is
// safe for concurrent use.
type World struct {
	tools      map[toolKey]tool
	clock      api.Clock
	pruneAfter time.Duration
	delay      func(context.Context, time.Duration)

	mu         sync.Mutex
	records    map[string]map[string]api.Resolution
	credential string // claimed; empty before
	ledger     []Effect
	accepted   []api.ProviderResult // what look-ups find
	found      map[lookupID][]int   // of accepted, in their order
	keys       map[string]saved     // idempotency keys
	faults     []Fault
}

var (
	_ api.Provider  = (*World)(nil)
	_ api.Directory = (*World)(nil)
)

type toolKey struct{ audience, name string }

type tool struct {
	api.Tool
	parse parser
}

// A lookupID is what a look-up asks for: the idempotency key, or else the request id.
type lookupID struct {
	toolKey
	byKey bool
	id    string
}

// saved is what is kept under an idempotency key.
type saved struct {
	toolKey
	arguments map[string]json.RawMessage
	result    api.ProviderResult
	at        time.Time
}

var fieldName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// New checks a configuration and returns a World with an empty ledger. It keeps
// no part of the configuration that the caller could change later.
func New(c Config) (*World, error) {
	w := &World{
		tools:      make(map[toolKey]tool),
		clock:      c.Clock,
		pruneAfter: c.PruneAfter,
		delay:      c.Delay,
		records:    make(map[string]map[string]api.Resolution),
		found:      make(map[lookupID][]int),
		keys:       make(map[string]saved),
	}
	if c.Clock == nil {
		return nil, fmt.Errorf("configuring the provider: no clock")
	}
	if len(c.Tools) == 0 {
		return nil, fmt.Errorf("configuring the provider: no tools")
	}
	if c.PruneAfter < 0 {
		return nil, fmt.Errorf("configuring the provider: negative PruneAfter %v", c.PruneAfter)
	}
	if c.PruneAfter == 0 {
		w.pruneAfter = 24 * time.Hour
	}
	for kind, byID := range c.Records {
		w.records[kind] = make(map[string]api.Resolution)
		for id, members := range byID {
			m, err := canonicalMembers(members)
			if err != nil {
				return nil, fmt.Errorf("configuring the provider: record %s/%s: %w", kind, id, err)
			}
			w.records[kind][id] = api.Resolution{Members: m, Version: 1}
		}
	}
	for _, t := range c.Tools {
		key := toolKey{t.Audience, t.Name}
		if _, dup := w.tools[key]; dup {
			return nil, fmt.Errorf("configuring the provider: tool %s/%s is listed twice", t.Audience, t.Name)
		}
		t.Fields = slices.Clone(t.Fields)
		if err := w.checkTool(t); err != nil {
			return nil, fmt.Errorf("configuring the provider: tool %s/%s: %w", t.Audience, t.Name, err)
		}
		p, err := newParser(c.Reader, t)
		if err != nil {
			return nil, fmt.Errorf("configuring the provider: %w", err)
		}
		w.tools[key] = tool{t, p}
	}
	return w, nil
}

func (w *World) checkTool(t api.Tool) error {
	if t.Audience == "" || t.Name == "" {
		return fmt.Errorf("audience or name is empty")
	}
	switch t.Guarantee {
	case api.GuaranteeIdempotent, api.GuaranteeLookup, api.GuaranteeNone:
	default:
		return fmt.Errorf("guarantee %q is unknown", t.Guarantee)
	}
	seen := make(map[string]bool)
	for i, f := range t.Fields {
		if !fieldName.MatchString(f.Name) || seen[f.Name] {
			return fmt.Errorf("field name %q is empty, malformed or used twice", f.Name)
		}
		seen[f.Name] = true
		if _, ok := goTypes[f.Type]; !ok {
			return fmt.Errorf("field %q: type %q is unknown", f.Name, f.Type)
		}
		if f.Reference != "" && (f.Type != api.TypeString || w.records[f.Reference] == nil) {
			return fmt.Errorf("field %q: a reference must be a string and its kind %q must have records", f.Name, f.Reference)
		}
		if f.Default != "" {
			text, err := firstText(f, f.Default)
			if err != nil {
				return fmt.Errorf("field %q: default: %w", f.Name, err)
			}
			t.Fields[i].Default = string(text)
		}
	}
	switch t.Class {
	case api.ClassRead, api.ClassConsequential:
		if t.Changes != "" {
			return fmt.Errorf("only a tool of class %q changes reference data", api.ClassReference)
		}
	case api.ClassReference:
		id, ok := t.Field("id")
		if !ok || id.Type != api.TypeString || !id.Required {
			return fmt.Errorf("a tool of class %q needs a required string field \"id\"", t.Class)
		}
		if w.records[t.Changes] == nil {
			return fmt.Errorf("changes records of kind %q, of which there are none", t.Changes)
		}
	default:
		return fmt.Errorf("class %q is unknown", t.Class)
	}
	return nil
}

// firstText reads one JSON text as a value of the field.
func firstText(f api.Field, text string) (json.RawMessage, error) {
	t := api.Tool{Fields: []api.Field{f}}
	values, err := firstParser(t)([]byte(`{"` + f.Name + `":` + text + `}`))
	if err != nil {
		return nil, err
	}
	if values[f.Name] == nil {
		return nil, fmt.Errorf("%.40q is no value", text)
	}
	return values[f.Name], nil
}

// Execute implements api.Provider. A repeated call is a second effect unless the
// tool is idempotent and the key is the same.
func (w *World) Execute(ctx context.Context, r api.ProviderRequest) (api.ProviderResult, error) {
	return w.execute(ctx, r, w.delay)
}

func (w *World) execute(ctx context.Context, r api.ProviderRequest, delay func(context.Context, time.Duration)) (api.ProviderResult, error) {
	if err := ctx.Err(); err != nil {
		return api.ProviderResult{}, fmt.Errorf("%w: %w", api.ErrNotSent, err)
	}
	f := w.nextFault()
	switch f.Kind {
	case FaultNotSent:
		return api.ProviderResult{}, api.ErrNotSent
	case FaultDropRequest:
		return api.ProviderResult{}, api.ErrNoAnswer
	case FaultDelay:
		if delay != nil {
			delay(ctx, f.Delay)
		}
	case FaultDuplicate:
		// Whatever the first arrival is answered, only the second answer arrives.
		_, _ = w.process(r, false)
	}
	res, err := w.process(r, f.Kind == FaultError)
	if f.Kind == FaultDropResponse {
		return api.ProviderResult{}, api.ErrNoAnswer
	}
	return res, err
}

func (w *World) nextFault() Fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.faults) == 0 {
		return Fault{Kind: FaultPass}
	}
	f := w.faults[0]
	w.faults = w.faults[1:]
	return f
}

func refuse(status int, code, format string, args ...any) error {
	return &api.ProviderError{Status: status, Code: code, Detail: fmt.Sprintf(format, args...)}
}

// process is one arrival of a request: everything in one critical section, so
// that no record changes between the precondition and the effect.
func (w *World) process(r api.ProviderRequest, fail bool) (api.ProviderResult, error) {
	w.mu.Lock()
	defer w.mu.Unlock()

	if r.Credential == "" || (w.credential != "" && r.Credential != w.credential) {
		return api.ProviderResult{}, refuse(http.StatusForbidden, "credential", "effects are not accepted over this credential")
	}
	t, arguments, err := w.read(r.Audience, r.Tool, r.Body)
	if err != nil {
		return api.ProviderResult{}, err
	}
	now, err := w.clock.Now()
	if err != nil {
		return api.ProviderResult{}, refuse(http.StatusServiceUnavailable, "clock", "the provider's clock: %v", err)
	}

	key := toolKey{r.Audience, r.Tool}
	keyed := t.Guarantee == api.GuaranteeIdempotent && r.IdempotencyKey != ""
	if keyed {
		first, ok := w.keys[r.IdempotencyKey]
		if ok && now.Sub(first.at) >= w.pruneAfter {
			delete(w.keys, r.IdempotencyKey)
			ok = false
		}
		if ok && (first.toolKey != key || !sameMembers(first.arguments, arguments)) {
			return api.ProviderResult{}, refuse(http.StatusConflict, "key_reuse", "the idempotency key was used with other parameters")
		}
		if ok {
			res := cloneResult(first.result)
			res.Replayed = true
			return res, nil
		}
	}

	if t.Guarantee != api.GuaranteeNone && !r.Deadline.IsZero() && !now.Before(r.Deadline) {
		return api.ProviderResult{}, refuse(http.StatusPreconditionFailed, "late", "the request arrived after its deadline")
	}

	values, err := w.resolveAll(t, arguments)
	if err != nil {
		return api.ProviderResult{}, err
	}
	if err := w.checkResolved(t, values, r.Resolved); err != nil {
		return api.ProviderResult{}, err
	}

	var res api.ProviderResult
	switch {
	case fail:
		res = api.ProviderResult{Status: http.StatusInternalServerError, Body: json.RawMessage(`{"error":"internal"}`)}
	case t.Class == api.ClassRead:
		body, err := json.Marshal(values)
		if err != nil {
			return api.ProviderResult{}, fmt.Errorf("encoding the answer: %w", err)
		}
		return api.ProviderResult{Status: http.StatusOK, Body: body}, nil
	default:
		if t.Class == api.ClassReference {
			if err := w.change(t, arguments); err != nil {
				return api.ProviderResult{}, err
			}
		}
		seq := int64(len(w.ledger)) + 1
		w.ledger = append(w.ledger, Effect{
			Seq: seq, Time: now, Audience: r.Audience, Tool: r.Tool, Values: values,
			RequestID: r.RequestID, IdempotencyKey: r.IdempotencyKey, CredentialDigest: CredentialDigest(r.Credential),
		})
		res = api.ProviderResult{Status: http.StatusOK, Body: json.RawMessage(`{"effect":` + strconv.FormatInt(seq, 10) + `}`)}
	}
	if keyed {
		w.keys[r.IdempotencyKey] = saved{key, arguments, res, now}
	}
	if keyed || !fail {
		for _, id := range []lookupID{{key, true, r.IdempotencyKey}, {key, false, r.RequestID}} {
			if id.id != "" { // nobody asks for none
				w.found[id] = append(w.found[id], len(w.accepted))
			}
		}
		w.accepted = append(w.accepted, res)
	}
	return cloneResult(res), nil
}

func cloneResult(r api.ProviderResult) api.ProviderResult {
	r.Body = slices.Clone(r.Body)
	return r
}

// read parses a body and applies defaults.
func (w *World) read(audience, name string, body []byte) (tool, map[string]json.RawMessage, error) {
	t, ok := w.tools[toolKey{audience, name}]
	if !ok {
		return tool{}, nil, refuse(http.StatusNotFound, "unknown_tool", "service %q has no tool %q", audience, name)
	}
	arguments, err := t.parse(body)
	if err != nil {
		return tool{}, nil, refuse(http.StatusBadRequest, "invalid", "%v", err)
	}
	for _, f := range t.Fields {
		if arguments[f.Name] != nil {
			continue
		}
		if f.Default != "" {
			arguments[f.Name] = json.RawMessage(f.Default)
		} else if f.Required {
			return tool{}, nil, refuse(http.StatusBadRequest, "invalid", "field %q is missing", f.Name)
		}
	}
	return t, arguments, nil
}

// resolveAll gives the values an effect would act on, references resolved now.
func (w *World) resolveAll(t tool, arguments map[string]json.RawMessage) (api.Values, error) {
	values := make(api.Values)
	for _, f := range t.Fields {
		text, ok := arguments[f.Name]
		if !ok {
			continue
		}
		values["/"+f.Name] = slices.Clone(text)
		if f.Reference == "" {
			continue
		}
		id, err := plain(text)
		if err != nil {
			return nil, err
		}
		record, ok := w.records[f.Reference][id]
		if !ok {
			return nil, refuse(http.StatusUnprocessableEntity, "unknown_reference", "field %q: no %s has this id", f.Name, f.Reference)
		}
		for member, text := range record.Members {
			values["/"+f.Name+">"+member] = slices.Clone(text)
		}
	}
	return values, nil
}

func plain(text json.RawMessage) (string, error) {
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return "", fmt.Errorf("reading a reference: %w", err)
	}
	return s, nil
}

// checkResolved enforces the caller's preconditions on what was resolved here.
func (w *World) checkResolved(t tool, values api.Values, want []api.Resolved) error {
	for _, p := range want {
		f, ok := t.Field(strings.TrimPrefix(p.Path, "/"))
		if !ok || !strings.HasPrefix(p.Path, "/") || f.Reference == "" || f.Reference != p.Kind || !bytes.Equal(values[p.Path], quote(p.ID)) {
			return refuse(http.StatusPreconditionFailed, "precondition", "%q is not a reference to this record here", p.Path)
		}
		members, err := canonicalMembers(p.Members)
		if err != nil {
			return refuse(http.StatusBadRequest, "invalid", "precondition %q: %v", p.Path, err)
		}
		if !sameMembers(members, w.records[f.Reference][p.ID].Members) {
			return refuse(http.StatusPreconditionFailed, "precondition", "%q resolves to something else now", p.Path)
		}
	}
	return nil
}

// change applies a ClassReference tool: "id" names the record, every other field
// that is present replaces the member of its name.
func (w *World) change(t tool, arguments map[string]json.RawMessage) error {
	id, err := plain(arguments["id"])
	if err != nil {
		return err
	}
	record, ok := w.records[t.Changes][id]
	if !ok {
		return refuse(http.StatusUnprocessableEntity, "unknown_reference", "field \"id\": no %s has this id", t.Changes)
	}
	members := maps.Clone(arguments)
	delete(members, "id")
	w.replace(t.Changes, id, record, members)
	return nil
}

func (w *World) replace(kind, id string, old api.Resolution, members map[string]json.RawMessage) {
	next := api.Resolution{Members: cloneMembers(old.Members), Version: old.Version + 1}
	maps.Copy(next.Members, cloneMembers(members))
	w.records[kind][id] = next
}

// Preview implements api.Provider: what Execute would act on now. It needs no
// credential and takes no fault.
func (w *World) Preview(ctx context.Context, r api.ProviderRequest) (api.Values, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", api.ErrNotSent, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	t, arguments, err := w.read(r.Audience, r.Tool, r.Body)
	if err != nil {
		return nil, err
	}
	return w.resolveAll(t, arguments)
}

// Lookup implements api.Provider. Of several requests under one key or id it
// returns the newest that had an effect, and a kept failure only when none had.
func (w *World) Lookup(ctx context.Context, q api.LookupQuery) (api.ProviderResult, bool, error) {
	if err := ctx.Err(); err != nil {
		return api.ProviderResult{}, false, fmt.Errorf("%w: %w", api.ErrNotSent, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	key := toolKey{q.Audience, q.Tool}
	t, ok := w.tools[key]
	if !ok {
		return api.ProviderResult{}, false, refuse(http.StatusNotFound, "unknown_tool", "service %q has no tool %q", q.Audience, q.Tool)
	}
	if t.Guarantee == api.GuaranteeNone {
		return api.ProviderResult{}, false, api.ErrNoLookup
	}
	if q.IdempotencyKey == "" && q.RequestID == "" {
		return api.ProviderResult{}, false, refuse(http.StatusBadRequest, "invalid", "a look-up needs an idempotency key or a request id")
	}
	id := lookupID{key, true, q.IdempotencyKey}
	if q.IdempotencyKey == "" {
		id = lookupID{key, false, q.RequestID}
	}
	var best *api.ProviderResult
	for _, i := range w.found[id] {
		if a := &w.accepted[i]; best == nil || a.Status < 500 || best.Status >= 500 {
			best = a
		}
	}
	if best == nil {
		return api.ProviderResult{}, false, nil
	}
	return cloneResult(*best), true, nil
}

// Tools returns the tool table, in order of audience and name. A gateway compares
// it with its own before it guards this provider.
func (w *World) Tools() []api.Tool {
	out := make([]api.Tool, 0, len(w.tools))
	for _, t := range w.tools {
		t.Fields = slices.Clone(t.Fields)
		out = append(out, t.Tool)
	}
	slices.SortFunc(out, func(a, b api.Tool) int {
		return cmp.Or(strings.Compare(a.Audience, b.Audience), strings.Compare(a.Name, b.Name))
	})
	return out
}

// Claim implements api.Provider. A claim can be repeated but not taken over.
func (w *World) Claim(ctx context.Context, credential string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", api.ErrNotSent, err)
	}
	if credential == "" {
		return refuse(http.StatusBadRequest, "invalid", "a claim needs a credential")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.credential != "" && w.credential != credential {
		return refuse(http.StatusForbidden, "credential", "the provider is claimed by another credential")
	}
	w.credential = credential
	return nil
}

// Resolve implements api.Directory.
func (w *World) Resolve(ctx context.Context, kind, id string) (api.Resolution, error) {
	if err := ctx.Err(); err != nil {
		return api.Resolution{}, err
	}
	r, ok := w.Record(kind, id)
	if !ok {
		return api.Resolution{}, fmt.Errorf("resolving %s %q: %w", kind, id, api.ErrNotFound)
	}
	return r, nil
}

// Record returns a record as it is now.
func (w *World) Record(kind, id string) (api.Resolution, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, ok := w.records[kind][id]
	r.Members = cloneMembers(r.Members)
	return r, ok
}

// SetRecord is a legitimate outside event: the given members of a record change
// and its version rises by one. An unknown id is created; an unknown kind is an
// error, as no field points into it.
func (w *World) SetRecord(kind, id string, members map[string]json.RawMessage) error {
	m, err := canonicalMembers(members)
	if err != nil {
		return fmt.Errorf("setting record %s/%s: %w", kind, id, err)
	}
	if id == "" || len(m) == 0 {
		return fmt.Errorf("setting record %s/%s: id or members are empty", kind, id)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.records[kind] == nil {
		return fmt.Errorf("setting record %s/%s: no such kind", kind, id)
	}
	w.replace(kind, id, w.records[kind][id], m)
	return nil
}

// Inject queues faults; each is used up by one call of Execute, first in first
// out. Either all are queued or, with an error, none.
func (w *World) Inject(faults ...Fault) error {
	for _, f := range faults {
		if err := f.validate(); err != nil {
			return fmt.Errorf("injecting: %w", err)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, faults...)
	return nil
}

// Ledger returns every effect so far, oldest first. The copy is the caller's.
func (w *World) Ledger() []Effect { return w.Since(0) }

// Since returns the effects after the first n, as [World.Ledger] does.
func (w *World) Since(n int) []Effect {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := slices.Clone(w.ledger[min(n, len(w.ledger)):])
	for i := range out {
		out[i].Values = cloneMembers(out[i].Values)
	}
	return out
}
