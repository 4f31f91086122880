package main

// Where the table of checks is.
const (
	checksFile  = "modes/checks.go"
	checksTable = "checks"
)

// scope is what is mutated: the files that refuse, hold or decide what is
// consequential; of the others, the functions that do.
var scope = []struct {
	file      string // from the module's root
	functions []string
}{
	{checksFile, nil},
	{"modes/situation.go", nil},
	{"modes/permit.go", nil},
	{"modes/dpop.go", nil},
	{"modes/carrier.go", nil},
	{"modes/envelope.go", nil},
	{"modes/passkey/passkey.go", nil},
	{"modes/passkey/verify.go", nil},
	{"gateway/dispatch.go", nil},
	{"gateway/execute.go", nil},
	{"gateway/review.go", nil},
	{"gateway/runwide.go", nil},
	{"gateway/kept.go", nil},
	{"gateway/admin.go", nil},
	{"gateway/instances.go", []string{"Gateway.shareProof"}},
	{"gateway/gateway.go", []string{
		"Gateway.authenticate", "Gateway.tool", "Gateway.gated", "Gateway.now", "Gateway.keepTime", "Gateway.situate", "Gateway.read",
		"Gateway.body", "Gateway.reach", "Gateway.hasSeen", "Gateway.hasSeenProof", "Gateway.markProof",
	}},
	{"gateway/records.go", nil},
	{"gateway/names.go", nil},
	{"gateway/view.go", nil},
	{"gateway/visible.go", nil},
	{"gateway/viewing/viewing.go", nil},
	{"gateway/canonical/canonical.go", []string{"Strict", "Canonical", "checkField", "checkType", "isNumber", "isStrings"}},
	{"gateway/canonical/parse.go", nil},
	{"gateway/canonical/scalar.go", nil},
	{"gateway/httpapi/server.go", []string{"authOf", "visible", "queryOf", "isJSON"}},
	{"gateway/httpapi/routes.go", []string{"route.match"}},
	{"gateway/httpapi/strict.go", nil},
	{"gateway/httpapi/intake.go", nil},
	{"gateway/store/memory.go", nil},
	{"gateway/store/within.go", nil},
	{"gateway/store/sum.go", nil},
}
