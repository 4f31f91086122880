package api

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// A Provider is the service whose side effects are being guarded.
type Provider interface {
	// Execute performs the call. ErrNotSent means that it certainly did not
	// happen, ErrNoAnswer that it may have; a *ProviderError is an answer.
	Execute(ctx context.Context, r ProviderRequest) (ProviderResult, error)
	// Preview says what Execute would act on, and changes nothing.
	Preview(ctx context.Context, r ProviderRequest) (Values, error)
	// Lookup finds an accepted request by idempotency key (or by request id when
	// key is empty). found is false where nothing was accepted under it; the error
	// is ErrNoLookup where the provider offers no look-up for this tool. It speaks
	// of what is on record: a status of 400 or more is a request that failed and made
	// no effect.
	Lookup(ctx context.Context, q LookupQuery) (res ProviderResult, found bool, err error)
	// Claim makes the provider accept effects over this credential alone, as a
	// deployment does when it rotates the credential away from the agents.
	Claim(ctx context.Context, credential string) error
}

// A ProviderRequest is one call as sent to the provider.
type ProviderRequest struct {
	Credential     string `json:"credential"`
	Audience       string `json:"audience"`
	Tool           string `json:"tool"`
	Body           []byte `json:"body"` // JSON text of the arguments
	IdempotencyKey string `json:"idempotency_key,omitempty"`
	RequestID      string `json:"request_id"`
	// Resolved are the reference values the caller expects. The provider refuses
	// (code "precondition") when one of them is not what it resolves itself.
	Resolved []Resolved `json:"resolved,omitempty"`
	// Deadline, if not zero, is when the request ends. A provider that offers
	// idempotency or a look-up refuses (code "late") a request that it would
	// accept at this instant or later, by its own clock; an earlier result under the
	// same key it still returns. So a look-up that finds nothing after the deadline
	// is the last word, however long the network kept the request.
	Deadline time.Time `json:"deadline,omitzero"`
}

// A LookupQuery asks a provider for an accepted request.
type LookupQuery struct {
	Audience       string `json:"audience"`
	Tool           string `json:"tool"`
	IdempotencyKey string `json:"idempotency_key,omitempty"`
	RequestID      string `json:"request_id,omitempty"`
}

// A ProviderResult is the provider's answer to an accepted call.
type ProviderResult struct {
	Status int             `json:"status"` // as of HTTP
	Body   json.RawMessage `json:"body"`
	// Replayed says that an earlier result was returned for the same key.
	Replayed bool `json:"replayed,omitempty"`
}

// A ProviderError is a provider's definite refusal: no effect was made.
type ProviderError struct {
	Status int    `json:"status"`
	Code   string `json:"code"` // "credential", "precondition", "key_reuse", "late", "invalid", "unknown_tool", …
	Detail string `json:"detail,omitempty"`
}

func (e *ProviderError) Error() string { return "provider: " + e.Code + ": " + e.Detail }

var (
	// ErrNotSent: the request certainly did not reach the provider.
	ErrNotSent = errors.New("provider: request not sent")
	// ErrNoAnswer: no response arrived; the effect may have been made.
	ErrNoAnswer = errors.New("provider: no answer")
	// ErrNoLookup: the provider offers no look-up.
	ErrNoLookup = errors.New("provider: no look-up")
)

// A Directory resolves references.
type Directory interface {
	// Resolve returns what id means now. ErrNotFound for an unknown id.
	Resolve(ctx context.Context, kind, id string) (Resolution, error)
}

// A Resolution is the current meaning of a reference.
type Resolution struct {
	// Members are the material members of the referenced record, as JSON text by
	// name: account, name, digest, members, …
	Members map[string]json.RawMessage `json:"members"`
	Version int                        `json:"version"`
}

// Resolved is one reference of an action together with what it resolved to.
type Resolved struct {
	Path    string                     `json:"path"` // "/supplier_id"
	Kind    string                     `json:"kind"`
	ID      string                     `json:"id"`
	Members map[string]json.RawMessage `json:"members"`
	Version int                        `json:"version"`
}
