package api

import (
	"errors"
	"strings"
)

// A Refusal says which binding refused and why.
type Refusal struct {
	Binding Binding `json:"binding"`
	Code    string  `json:"code"`             // stable, for machines: "expired", "alg", …
	Detail  string  `json:"detail,omitempty"` // for people; never an argument value
}

func (r Refusal) String() string {
	s := string(r.Binding) + "/" + r.Code
	if r.Detail != "" {
		s += ": " + r.Detail
	}
	return s
}

// A RefusedError is the gate's refusal of a call other than Dispatch.
type RefusedError struct {
	Refusals []Refusal `json:"refusals"`
}

func (e *RefusedError) Error() string {
	parts := make([]string, len(e.Refusals))
	for i, r := range e.Refusals {
		parts[i] = r.String()
	}
	return "refused by " + strings.Join(parts, "; ")
}

// Refuse returns a *RefusedError with one refusal.
func Refuse(b Binding, code, detail string) error {
	return &RefusedError{Refusals: []Refusal{{Binding: b, Code: code, Detail: detail}}}
}

// An UnimplementedError says that the target has no such feature. It is counted
// apart and never as a blocked attack.
type UnimplementedError struct {
	Feature string `json:"feature"`
	Reason  string `json:"reason"`
}

func (e *UnimplementedError) Error() string {
	return "unimplemented: " + e.Feature + ": " + e.Reason
}

// Errors that are no refusal by a binding.
var (
	// ErrUnauthenticated: the token belongs to nobody.
	ErrUnauthenticated = errors.New("unauthenticated")
	// ErrForbidden: the caller's role does not allow this call.
	ErrForbidden = errors.New("forbidden")
	// ErrNotFound: nothing has that identifier.
	ErrNotFound = errors.New("not found")
	// ErrInvalid: the call is malformed.
	ErrInvalid = errors.New("invalid")
	// ErrConflict: the state does not allow this call (decided already, …).
	ErrConflict = errors.New("conflict")
	// ErrUnavailable: a dependency did not answer; the outcome of this call is
	// that nothing happened.
	ErrUnavailable = errors.New("unavailable")
	// ErrRateLimited: the caller makes too many calls; nothing happened, and the same
	// call may be made later.
	ErrRateLimited = errors.New("too many calls")
)
