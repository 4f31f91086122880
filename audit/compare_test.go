package audit_test

import (
	"reflect"
	"testing"

	"countersign/audit"
	"countersign/gateway/api"
)

// TestCompare: two effects of one permit are found by its key or by the requests
// that it was dispatched with, and effects of two permits are not.
func TestCompare(t *testing.T) {
	line := func(permit, request, key string) api.AuditEntry {
		return api.AuditEntry{Audience: "bank", Tool: "pay", Permit: permit, RequestID: request, Key: key}
	}
	effect := func(seq int64, request, key string) audit.Effect {
		return audit.Effect{Seq: seq, Audience: "bank", Tool: "pay", RequestID: request, IdempotencyKey: key}
	}
	twice := func(permit string, effects ...int64) audit.Finding {
		return audit.Finding{Alert: api.AlertTwice, Permit: permit, Effects: effects}
	}
	several := func(uses int64) api.AuditEntry { return api.AuditEntry{Permit: "p", Uses: uses, Suspension: "s0"} }
	call := func(suspension, request string) api.AuditEntry {
		e := line("p", request, "")
		e.Suspension = suspension
		return e
	}
	named := line("p", "", "k1")
	named.Event, named.Suspension = "reconcile", "s1"
	elsewhere := effect(2, "r1", "")
	elsewhere.Audience = "payroll"
	for _, tt := range []struct {
		name   string
		log    []api.AuditEntry
		ledger []audit.Effect
		want   []audit.Finding
	}{
		{"nothing", nil, nil, nil},
		{"one each", []api.AuditEntry{line("p", "r1", ""), line("q", "r2", "")}, []audit.Effect{effect(1, "r1", ""), effect(2, "r2", "")}, nil},
		{"one request made two", []api.AuditEntry{line("p", "r1", "")}, []audit.Effect{effect(1, "r1", ""), effect(2, "r1", "")}, []audit.Finding{twice("p", 1, 2)}},
		{"two requests with one permit", []api.AuditEntry{line("p", "r1", ""), line("p", "r1", ""), line("p", "r2", "")},
			[]audit.Effect{effect(1, "r1", ""), effect(2, "r2", ""), effect(3, "r2", "")}, []audit.Finding{twice("p", 1, 2, 3)}},
		{"a key says more than a request id", []api.AuditEntry{line("p", "r1", "k1"), line("q", "r1", "k2")}, []audit.Effect{effect(1, "r1", "k1"), effect(2, "r1", "k2")}, nil},
		{"one key made two", []api.AuditEntry{line("p", "r1", "k1")}, []audit.Effect{effect(1, "r1", "k1"), effect(2, "r9", "k1")}, []audit.Finding{twice("p", 1, 2)}},
		{"a key that no line has", []api.AuditEntry{line("p", "r1", "")}, []audit.Effect{effect(1, "r1", "k1"), effect(2, "r1", "k1")}, []audit.Finding{twice("p", 1, 2)}},
		{"several permits with one request id", []api.AuditEntry{line("p", "r1", ""), line("q", "r1", "")}, []audit.Effect{effect(1, "r1", ""), effect(2, "r1", "")},
			[]audit.Finding{twice("p", 1, 2), twice("q", 1, 2)}},
		{"the same id at another service", []api.AuditEntry{line("p", "r1", "")}, []audit.Effect{effect(1, "r1", ""), elsewhere}, nil},
		{"what needs no permit", []api.AuditEntry{line("", "r1", "")}, []audit.Effect{effect(1, "r1", ""), effect(2, "r1", ""), effect(3, "", "")}, nil},
		{"a line that names the call beside one that does not", []api.AuditEntry{line("p", "r1", "k1"), named}, []audit.Effect{effect(1, "r1", "k1")}, nil},
		{"as many calls as it is for", []api.AuditEntry{several(2), call("s1", "r1"), call("s2", "r2")}, []audit.Effect{effect(1, "r1", ""), effect(2, "r2", "")}, nil},
		{"one call more than it is for", []api.AuditEntry{several(2), call("s1", "r1"), call("s2", "r2"), call("s3", "r3")},
			[]audit.Effect{effect(1, "r1", ""), effect(2, "r2", ""), effect(3, "r3", "")}, []audit.Finding{twice("p", 1, 2, 3)}},
		{"one call twice, and a use to spare", []api.AuditEntry{several(3), call("s1", "r1"), call("s2", "r2"), call("s2", "r3")},
			[]audit.Effect{effect(1, "r1", ""), effect(2, "r2", ""), effect(3, "r3", "")}, []audit.Finding{twice("p", 1, 2, 3)}},
		{"the order of the second effects", []api.AuditEntry{line("p", "r1", ""), line("q", "r2", "")},
			[]audit.Effect{effect(1, "r1", ""), effect(2, "r2", ""), effect(3, "r2", ""), effect(4, "r1", "")}, []audit.Finding{twice("q", 2, 3), twice("p", 1, 4)}},
	} {
		if got := audit.Compare(tt.log, tt.ledger); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}
