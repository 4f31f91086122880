package provider

import (
	"fmt"
	"time"
)

// A FaultKind is what goes wrong with one call of Execute.
type FaultKind string

const (
	// FaultPass: nothing goes wrong. It lets a later call of a sequence fail.
	FaultPass FaultKind = "pass"
	// FaultNotSent: the request never leaves, and the caller knows (api.ErrNotSent).
	FaultNotSent FaultKind = "not_sent"
	// FaultDropRequest: the request is lost on its way (api.ErrNoAnswer, no effect).
	FaultDropRequest FaultKind = "drop_request"
	// FaultDropResponse: the request is processed and the answer is lost
	// (api.ErrNoAnswer).
	FaultDropResponse FaultKind = "drop_response"
	// FaultDuplicate: the network delivers the request twice. Both are processed
	// and the second answer is returned.
	FaultDuplicate FaultKind = "duplicate"
	// FaultError: the service fails before its effect and answers with status 500.
	// Where it keeps idempotency keys, it keeps that answer too.
	FaultError FaultKind = "error"
	// FaultDelay: the request arrives late by Delay.
	FaultDelay FaultKind = "delay"
)

// MaxDelay bounds a FaultDelay.
const MaxDelay = time.Minute

// A Fault is queued with [World.Inject] and used up by one call of Execute.
type Fault struct {
	Kind  FaultKind     `json:"kind"`
	Delay time.Duration `json:"delay,omitempty"` // for FaultDelay only; nanoseconds in JSON
}

func (f Fault) validate() error {
	switch f.Kind {
	case FaultPass, FaultNotSent, FaultDropRequest, FaultDropResponse, FaultDuplicate, FaultError:
		if f.Delay != 0 {
			return fmt.Errorf("fault %q takes no delay", f.Kind)
		}
		return nil
	case FaultDelay:
		if f.Delay <= 0 || f.Delay > MaxDelay {
			return fmt.Errorf("fault %q: delay %v is not in (0, %v]", f.Kind, f.Delay, MaxDelay)
		}
		return nil
	}
	return fmt.Errorf("fault %q is unknown", f.Kind)
}
