package audit

import (
	"slices"

	"countersign/gateway/api"
)

// An Effect is a line of the provider's ledger, as far as it is compared.
type Effect struct {
	Seq            int64  `json:"seq"`
	Audience       string `json:"audience"`
	Tool           string `json:"tool"`
	RequestID      string `json:"request_id"`
	IdempotencyKey string `json:"idempotency_key"`
}

// A Finding is what log and ledger show together, and neither alone.
type Finding struct {
	Alert   api.Alert `json:"alert"`
	Permit  string    `json:"permit"`  // as the log names it
	Effects []int64   `json:"effects"` // their Seq in the ledger
}

// Compare returns an [api.AlertTwice] for each permit under which the ledger has
// two effects of one call, or more effects than the approval is for, in the order in
// which they became too many. The log holds the entries of every gateway that shares
// the approvals.
//
// An effect belongs to the permit from which its idempotency key was derived, or
// else to the one with which its request was dispatched. A worker that gives
// several permits one request id makes each of them answer for all the effects. A
// design that lets one permit cover many calls without saying how many, as a grant
// for a run does, is told of each permit that did.
func Compare(log []api.AuditEntry, ledger []Effect) []Finding {
	type request struct{ audience, tool, id string }
	byKey, byRequest, uses := map[string][]spend{}, map[request][]spend{}, map[string]int64{}
	for _, e := range log {
		if e.Permit != "" {
			uses[e.Permit] = max(uses[e.Permit], e.Uses, 1)
		}
	}
	for _, e := range log {
		if e.Permit == "" {
			continue
		}
		s := spend{permit: e.Permit}
		if uses[e.Permit] > 1 { // else all lines are of one call, whether or not they name it
			s.call = e.Suspension
		}
		if e.Key != "" {
			note(byKey, e.Key, s)
		}
		if e.RequestID != "" {
			note(byRequest, request{e.Audience, e.Tool, e.RequestID}, s)
		}
	}
	made, calls := map[string][]int64{}, map[spend]int{}
	var over []string
	for _, e := range ledger {
		spends := byKey[e.IdempotencyKey]
		if len(spends) == 0 {
			spends = byRequest[request{e.Audience, e.Tool, e.RequestID}]
		}
		for _, s := range spends {
			made[s.permit] = append(made[s.permit], e.Seq)
			calls[s]++
			if (calls[s] > 1 || int64(len(made[s.permit])) > uses[s.permit]) && !slices.Contains(over, s.permit) {
				over = append(over, s.permit)
			}
		}
	}
	var out []Finding
	for _, p := range over {
		out = append(out, Finding{api.AlertTwice, p, made[p]})
	}
	return out
}

// A spend is a permit, or of one for several calls what one of them spends.
type spend struct{ permit, call string }

func note[K comparable](to map[K][]spend, k K, s spend) {
	if !slices.Contains(to[k], s) {
		to[k] = append(to[k], s)
	}
}
