package modes

import (
	"slices"
	"strings"

	"countersign/gateway/api"
)

// A Group is the table in which a mode is reported.
type Group string

const (
	GroupDesigns   Group = ""                       // the control, the nine designs, and what somebody composes: the main table
	GroupHygiene   Group = "with hygiene"           // M1 to M8, each with what a careful deployment of the same design adds
	GroupPublished Group = "published descriptions" // what published texts require, each in two readings
)

// Groups lists the groups in the order of their tables.
func Groups() []Group { return []Group{GroupDesigns, GroupHygiene, GroupPublished} }

// A Clause is what a published text says about one binding.
type Clause struct {
	Binding api.Binding `json:"binding"`
	Part    bool        `json:"part"`   // the text requires a part of the binding, and Says names the part
	Source  string      `json:"source"` // document and section
	Says    string      `json:"says"`
}

// Named returns the modes that have a name of their own: those of [All], and
// those of [Beside].
func Named() Table { return append(All(), Beside()...) }

// Beside returns the modes that are reported beside the main table, in the order
// of [Groups]. All are derived: from the rows of All, and from published texts.
func Beside() []Mode {
	var out []Mode
	for _, m := range All() {
		if plus := m.Hardened(); m.Gated() && len(plus.Bindings) > len(m.Bindings) {
			out = append(out, plus)
		}
	}
	for _, m := range published() {
		out = append(out, m.reading(false), m.reading(true))
	}
	return out
}

// hygiene are the bindings that a careful deployment can add to a design and still
// have that design.
func hygiene() []api.Binding {
	return []api.Binding{api.BindStrict, api.BindOnce, api.BindClosed, api.BindIdem}
}

// lasting says of carriers whose approvals are not one thing for one call why once
// and idem, which spend it by a call and derive a key from it, would leave no such
// design.
var lasting = map[CarrierName]string{
	CarryFlag:   "the flag names no approval that could be spent, or that a key could be derived from",
	CarryGrant:  "the approval is for every call of the run by intention, so that one call must not spend it and several must not share its key",
	CarryWindow: "the approval is for every call within the window by intention, so that one call must not spend it and several must not share its key",
}

// Hardened returns the mode with strict, once, closed and idem as far as it stays
// the same design: M4+ for M4. Its title says what was added, and its note what was
// not and why.
func (m Mode) Hardened() Mode {
	out := m
	out.Bindings = NewSet(m.Bindings.List()...)
	var added, left []string
	for _, b := range hygiene() {
		switch {
		case m.Has(b):
		case lasting[m.Carrier] != "" && (b == api.BindOnce || b == api.BindIdem):
			left = append(left, string(b))
		default:
			out.Bindings[b] = true
			added = append(added, string(b))
		}
	}
	out.ID, out.Group = m.ID+"+", GroupHygiene
	out.Name = out.ID
	out.Title, out.Note = m.Title+"; with "+and(added), ""
	if len(left) > 0 {
		out.Note = "without " + and(left) + ": " + lasting[m.Carrier]
	}
	return out
}

// reading returns the mode of a published text with the bindings that the text
// requires whole, or also, as if it required them whole, those of which it requires
// a part. Conditions are monotone, so whatever the text stops is at least what the
// first one stops and at most what the second one does.
func (m Mode) reading(whole bool) Mode {
	m.Group, m.Bindings, m.Clauses = GroupPublished, Set{}, slices.Clone(m.Clauses)
	for _, c := range m.Clauses {
		if whole || !c.Part {
			m.Bindings[c.Binding] = true
		}
	}
	if whole {
		m.ModelledOn = "as " + m.ID + " (what is required in part read as required whole: the text stops at most this)"
		m.ID += ".whole"
		m.Name = m.ID
	} else {
		m.ModelledOn += " (read for what is required whole: the text stops at least this)"
	}
	return m
}

func and(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

// published returns one row for each text, whose bindings are those of its clauses.
// What a text does not say is no clause. All carry id, signed token and assertion,
// of which a mode looks at what it binds.
func published() []Mode {
	const (
		verifying = "SPC, Verifying an Authentication Assertion"
		linking   = "RTS art. 5(1)(b) to (d)"
	)
	return []Mode{
		{
			ID: "RAR", Name: "ciba", Carrier: CarryBound,
			Title: "an access token with the details that the user approved on a device of its own",
			ModelledOn: "OAuth Rich Authorization Requests (RFC 9396) over backchannel authentication with a binding message (OpenID CIBA Core 1.0); " +
				"the token is a JWT by RFC 9068",
			Clauses: []Clause{
				{api.BindMediated, false, "RFC 6749, 7", "a resource is reached by presenting a token, which the resource server validates"},
				{api.BindPerCall, false, "RFC 6749, 7", "what the server validates is the token that comes with the request"},
				{api.BindSigned, false, "RFC 9068, 2.1 and 4", "the token is signed, alg none is refused, and type, issuer and signature are verified"},
				{api.BindAudience, false, "RFC 9068, 2.2 and 4", "aud is required, and a token for another resource is refused"},
				{api.BindExpiry, false, "RFC 9068, 2.2 and 4", "exp is required, and the time must be before it"},
				{api.BindArgs, true, "RFC 9396, 2.1, 6.1 and 9", "the details reach the resource server, so that it can enforce them as approved; which arguments are in them is decided by their type, and how they are compared by the API"},
				{api.BindConnector, true, "RFC 9396, 2 and 2.1", "every object of the details has a type; whether a type is one tool is decided by the API"},
				{api.BindRender, true, "RFC 9396, 3.1 and 11.1; CIBA, 7.1", "the merged requirements are presented to the user, in a way that is left to the deployment; the binding message is a short text by the client that ties two screens together, and is made of nothing that is bound"},
				{api.BindStrict, true, "RFC 9396, 5", "unknown types and fields, wrong types, invalid values and missing fields are refused; names that are there twice, and numbers and texts with more than one reading, are not spoken of"},
				{api.BindAttest, true, "CIBA, 7.1 and 8", "the user is authenticated before its consent counts, by means at the discretion of the provider"},
			},
			Note: "open: how often a token is used and who presents it (it is a bearer token), who may approve, withdrawal, retries. " +
				"The authorization server decides by its own record when the token is fetched; nobody reads that record when the token is used",
		},
		{
			ID: "PSD2", Name: "linking", Carrier: CarryBound,
			Title:      "an authentication code that is specific to the amount and the payee",
			ModelledOn: "dynamic linking: Delegated Regulation (EU) 2018/389 (RTS) art. 4 and 5, under Directive (EU) 2015/2366 (PSD2)",
			Clauses: []Clause{
				{api.BindMediated, false, "PSD2 art. 64(1) and 97(1)(b)", "the payer's provider makes payments that the payer consented to, and authenticates the payer when one is initiated"},
				{api.BindPerCall, false, "PSD2 art. 97(1)(b), RTS art. 5(1)(b)", "a code is for the transaction that is being initiated"},
				{api.BindSigned, false, "RTS art. 4(2)(c)", "the code cannot be forged"},
				{api.BindOnce, false, "RTS art. 4(1)", "the code is accepted once only"},
				{api.BindArgs, true, linking, "the code is specific to amount and payee, and any change of them invalidates it; the account that is debited, the date and the reference text are not named"},
				{api.BindRender, true, "RTS art. 5(1)(a) and 5(2)(b)", "the payer is made aware of amount and payee, and what is displayed keeps its integrity; the rest of the payment, and how values are written, is not named"},
				{api.BindAttest, true, "PSD2 art. 4(30), RTS art. 4(1) and 24", "the code comes of two independent elements that are the payer's; a passkey with user verification is one way, and its origin and relying party are not named"},
				{api.BindChallenge, true, linking, "what the payer's elements make is specific to amount and payee, and not to run, tool or policy"},
				{api.BindOnline, true, "PSD2 art. 64(3), RTS art. 27", "consent can be withdrawn until the payment is irrevocable, and credentials are deactivated or revoked; agents, policies and risk labels are not named"},
			},
			Note: "open: tool, run and call, an end of the code, retries, and anybody who approves beside the payer. " +
				"The text speaks of payments; in the other scenarios the rows show what the same rules would do",
		},
		{
			ID: "SPC", Name: "confirmation", Carrier: CarryBound,
			Title:      "a passkey signs a challenge and the payment details that the browser shows",
			ModelledOn: "W3C Secure Payment Confirmation (SPC, Editor's Draft of July 2026, by titles of sections) over WebAuthn Level 3",
			Clauses: []Clause{
				{api.BindRecord, false, verifying, "the challenge equals the one that the relying party gave out for the transaction, and so has to have kept"},
				{api.BindAttest, false, verifying, "the steps of WebAuthn 7.2, with the type payment.get and the origins that the relying party expects"},
				{api.BindPerCall, false, verifying, "an assertion is verified for the transaction whose total and payee it signs"},
				{api.BindChallenge, true, "SPC, CollectedClientAdditionalPaymentData", "beside the challenge the passkey signs total, payee, instrument and origins, and no more of what is approved"},
				{api.BindArgs, true, verifying, "total, payee and instrument match those that should have been displayed; other arguments are not named"},
				{api.BindRender, true, "SPC, Information presented to the user", "payee, total and instrument are communicated; they come from the caller, and no way to show them is required"},
				{api.BindSeen, true, "WebAuthn, 13.4.3", "a challenge should be kept until its ceremony is over; that an assertion counts once is not required"},
				{api.BindMediated, true, "SPC, Payment Attack", "an assertion that nobody waits for is refused; whether there is a way to pay without one is left to the payment system"},
			},
			Note: "open: an end, single use, withdrawal, retries, who may approve, tool, service and call. " +
				"What a counter that fell means is left to the relying party (WebAuthn, 7.2); the gate refuses it",
		},
	}
}
