package attacks

import (
	"fmt"
	"slices"
	"strings"
)

// An Incident is a public report of an approval gate that failed in the field.
// Variants and twins cite it as "incident N" among their references.
type Incident struct {
	Number int
	Source string // the public report: repository and number, or advisory
	Title  string // what went wrong, in our own words
	// Honest says that the gate refused what was honest, so that twins reproduce it.
	Honest bool
	// Tests name the tests that reproduce what no trial can, because it lies below
	// the public interface: in the transport, or in a store that answers half.
	Tests []string
	// Why says why nothing reproduces it; empty where something does.
	Why string
}

// A Reproduction is an incident with what reproduces it.
type Reproduction struct {
	Incident
	Variants []string // attacks, as "AB8/name"
	Twins    []string // honest flows that a gate refused in the incident, as "AB8/name"
}

// Cite is how a variant's references name the incident.
func (i Incident) Cite() string { return fmt.Sprintf("incident %d", i.Number) }

// Reproductions returns every incident, by number, with the variants and twins
// of the given families that cite it.
func Reproductions(fs []Family) []Reproduction {
	var out []Reproduction
	for _, i := range incidents {
		r := Reproduction{Incident: i}
		for _, f := range fs {
			for _, v := range f.Variants {
				if slices.Contains(v.References, i.Cite()) {
					r.Variants = append(r.Variants, f.ID+"/"+v.Name)
				}
			}
			for _, v := range f.Twins {
				if slices.Contains(v.References, i.Cite()) {
					r.Twins = append(r.Twins, f.ID+"/"+v.Name)
				}
			}
		}
		out = append(out, r)
	}
	return out
}

// Found reports whether anything reproduces the incident.
func (r Reproduction) Found() bool { return len(r.Variants)+len(r.Twins)+len(r.Tests) > 0 }

// checkIncidents verifies that the list is in order and that every citation in the
// catalogue names an incident of the list.
func checkIncidents(list []Incident, fs []Family) error {
	known := map[string]bool{}
	for n, i := range list {
		switch {
		case i.Title == "":
			return fmt.Errorf("catalogue: %s has no title", i.Cite())
		case i.Source == "":
			return fmt.Errorf("catalogue: %s has no source", i.Cite())
		case n > 0 && i.Number <= list[n-1].Number:
			return fmt.Errorf("catalogue: %s comes after incident %d", i.Cite(), list[n-1].Number)
		}
		known[i.Cite()] = true
	}
	for _, f := range fs {
		for _, v := range slices.Concat(f.Variants, f.Twins) {
			for _, ref := range v.References {
				if strings.HasPrefix(ref, "incident ") && !known[ref] {
					return fmt.Errorf("catalogue: %s/%s cites %q, which is not in the list of incidents", f.ID, v.Name, ref)
				}
			}
		}
	}
	return nil
}

// incidents are numbered as in the project's survey of public reports; numbers
// that are missing were no failures of an approval gate.
var incidents = []Incident{
	{Number: 1, Source: "vercel/ai PR #15947, #16068 (VULN-6698)", Title: "an approved call is rebuilt from the client's messages, which hold an approval that the server never asked for"},
	{Number: 2, Source: "vercel/ai #19979, #19964", Title: "one path into the executor verifies the approval and another does not"},
	{Number: 3, Honest: true, Source: "vercel/ai #17358", Title: "a client that copies the members it knows drops the signature, and every honest approval is refused"},
	{Number: 4, Source: "mastra #19633", Title: "a late decision is applied to whatever is suspended now"},
	{Number: 5, Source: "mastra PR #19266", Title: "an identifier is read only in part, so that approving one call runs another"},
	{Number: 6, Source: "mastra PR #19435", Title: "a resumed call gets the saved payload of its first sibling"},
	{Number: 7, Source: "mastra #20470", Title: "declining executes the tool"},
	{Number: 8, Source: "mastra #22575", Title: "any authenticated user can decide what waits in another user's run"},
	{Number: 9, Source: "mastra #15776", Title: "a tool loses its need of approval when it is reached through a wrapper"},
	{Number: 10, Honest: true, Source: "mastra #22413", Title: "an honest approval of a large state is refused because a check runs out of time"},
	{Number: 11, Source: "langgraph #6626", Title: "calls that wait in parallel share one identifier"},
	{Number: 13, Source: "langgraph #2870", Title: "one answer resumes a later interruption as well"},
	{Number: 14, Source: "langgraph #6792", Title: "resuming runs what was finished before the gate again"},
	{Number: 15, Source: "langchain #40166", Title: "the approver's edit may name another tool, whose own gate is skipped"},
	{Number: 19, Source: "openai-agents-python #4896", Title: "a stored approval outlives a change of the policy"},
	{Number: 21, Source: "agent-framework #7458", Title: "after a failure behind the effect a retry cannot tell that the tool has run"},
	{Number: 23, Source: "agent-framework PR #6966", Title: "the approval does not cover the risk that was disclosed, which rises afterwards"},
	{Number: 24, Source: "agent-framework PR #7089", Title: "an approval by the tool's name is inherited by a tool of the same name elsewhere"},
	{Number: 25, Source: "inspect_ai PR #4944", Title: "the executor can be reached without the approved call"},
	{Number: 26, Source: "mcp-hangar PR #673", Title: "hash and expiry are stored and shown and never compared"},
	{Number: 28, Source: "cadis #852", Title: "two approvals at the same moment both execute"},
	{Number: 29, Source: "cadis #2586", Title: "the executor asks the policy again, and not whether the grant still stands"},
	{Number: 30, Source: "e-commerce-agents #28", Title: "the call is executed first and claimed afterwards"},
	{Number: 32, Source: "paperclip #499", Title: "a decision sent twice takes effect twice"},
	{Number: 37, Source: "continue #13289, agent-core #963", Title: "an agent's own agent runs without any gate"},
	{Number: 38, Source: "activepieces PR #14026, #14252", Title: "a scanner that follows links decides what waits behind them", Tests: []string{"TestSafeMethodsChangeNothing"}},
	{Number: 40, Source: "ai-memory-mcp #1787", Title: "who approves is a parameter that the agent supplies"},
	{Number: 41, Source: "Yuzu #4128", Title: "an approver who cannot be looked up passes for somebody other than the requester", Tests: []string{"TestApproverWhoCannotBeLookedUp"}},
	{Number: 42, Source: "claude-code #83611 (server behind it)", Title: "the server believes an argument that says a human approved"},
	{Number: 43, Source: "OpenClaw GHSA-xww8-gqvh-92x9", Title: "a shortened command is shown and the whole one runs"},
	{Number: 44, Source: "OpenClaw CVE-2026-26320", Title: "a dialog of limited length shows the harmless beginning"},
	{Number: 45, Source: "OpenClaw CVE-2026-32065", Title: "an approval is for the trimmed text and the raw one runs"},
	{Number: 46, Source: "OpenClaw GHSA-hjvp-qhm6-wrh2", Title: "an approval is good in another environment"},
	{Number: 47, Source: "OpenClaw GHSA-796m-2973-wc5q, CVE-2026-28463", Title: "what checks and what executes read the same text differently"},
	{Number: 49, Source: "OpenClaw GHSA-49cg-279w-m73x", Title: "an empty list of approvers means everybody"},
	{Number: 51, Source: "OpenClaw CVE-2026-29607 (account, CVE record not read); PR #112946", Title: "a standing approval covers the program and not its arguments"},
	{Number: 52, Source: "OpenClaw #103418", Title: "a name is looked up again when the call is executed"},
	{Number: 54, Source: "OpenClaw PR #43687 (GHSA-pcqg-f7rg-xfvv)", Title: "invisible characters hide in what is shown"},
	{Number: 55, Source: "OpenClaw PR #63680 (closed)", Title: "one connection may ask and approve"},
	{Number: 56, Source: "hermes-agent PR #81403", Title: "a sanitiser knows some invisible characters, and one channel has none"},
	{Number: 58, Source: "Cursor CVE-2025-54136 (MCPoison); same class in Claude Code, closed as informative (write-up)", Title: "an approval is for a server's name, and the command behind the name is changed"},
	{Number: 62, Source: "codex #22181", Title: "a standing approval has no scope and no end"},
	{Number: 63, Source: "gowebpki/jcs ≤ v1.0.1 (fixed v1.0.2, 2026-09-21)", Title: "a canonicaliser swallows a broken member without an error"},
	{Number: 64, Source: "gowebpki/jcs ≤ v1.0.1 (fixed v1.0.2, 2026-09-21)", Title: "a canonicaliser accepts numbers and words that are no JSON"},
	{Number: 65, Source: "gowebpki/jcs ≤ v1.0.1; cyberphone #36", Title: "different lone surrogates become the same character"},
	{Number: 66, Source: "cyberphone #20; JCS by design with v1.0.2", Title: "two integers beyond double precision have one canonical form"},
	{Number: 67, Source: "Go encoding/json (Trail of Bits, CVE-2020-16250)", Title: "a decoder matches members whatever their case, and the last one wins"},
	{Number: 72, Source: "CVE-2026-30964 web-auth/webauthn-lib", Title: "an origin is reduced to its host, so that scheme and port do not count"},
	{Number: 73, Source: "BossConsole #35", Title: "the challenge is taken from the request and not from what was signed"},
	{Number: 75, Source: "ezauth #169 (Go, go-webauthn)", Title: "a passkey's counter is stored and never compared"},
	{Number: 76, Source: "enclavr #46 (Go)", Title: "what the passkey signed is decoded and thrown away"},
	{Number: 77, Source: "go-webauthn v0.18.2 used with defaults", Title: "a library's defaults accept an assertion twice, late, unverified, and with a counter that fell"},
	{Number: 78, Source: "square-mcp-server #31", Title: "the model is told to make a new idempotency key for each request"},
	{Number: 80, Source: "composio #3654, crewAI #5802, stripe/ai #402", Title: "a retry above the tool repeats an effect whose answer was lost"},
}
