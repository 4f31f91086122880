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
// more than one effect, in the order of the second effects. The log holds the
// entries of every gateway that shares the approvals.
//
// An effect belongs to the permit from which its idempotency key was derived, or
// else to the one with which its request was dispatched. A worker that gives
// several permits one request id makes each of them answer for all the effects. A
// design that lets one permit cover many calls, as a grant for a run does, is told
// of each permit that did.
func Compare(log []api.AuditEntry, ledger []Effect) []Finding {
	type request struct{ audience, tool, id string }
	byKey, byRequest := map[string][]string{}, map[request][]string{}
	for _, e := range log {
		switch {
		case e.Permit == "":
			continue
		case e.Key != "":
			note(byKey, e.Key, e.Permit)
		}
		if e.RequestID != "" {
			note(byRequest, request{e.Audience, e.Tool, e.RequestID}, e.Permit)
		}
	}
	made := map[string][]int64{}
	var twice []string
	for _, e := range ledger {
		permits := byKey[e.IdempotencyKey]
		if len(permits) == 0 {
			permits = byRequest[request{e.Audience, e.Tool, e.RequestID}]
		}
		for _, p := range permits {
			made[p] = append(made[p], e.Seq)
			if len(made[p]) == 2 {
				twice = append(twice, p)
			}
		}
	}
	var out []Finding
	for _, p := range twice {
		out = append(out, Finding{api.AlertTwice, p, made[p]})
	}
	return out
}

func note[K comparable](to map[K][]string, k K, permit string) {
	if !slices.Contains(to[k], permit) {
		to[k] = append(to[k], permit)
	}
}
