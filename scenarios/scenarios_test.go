package scenarios_test

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"countersign/gateway/api"
	"countersign/scenarios"
	"countersign/scenarios/provider"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

type fixedClock struct{}

func (fixedClock) Now() (time.Time, error) { return time.Unix(1_800_000_000, 0).UTC(), nil }

func world(t interface{ Fatal(...any) }, s *scenarios.Scenario, r provider.Reader) *provider.World {
	w, err := provider.New(provider.Config{Tools: s.ToolTable(), Records: s.Records, Reader: r, Clock: fixedClock{}})
	if err != nil {
		t.Fatal(s.ID, err)
	}
	return w
}

// execute runs one call and returns the values of its effect as display text.
func execute(t interface{ Fatal(...any) }, w *provider.World, audience, tool string, args []byte) map[string]string {
	res, err := w.Execute(context.Background(), api.ProviderRequest{Credential: "c", Audience: audience, Tool: tool, Body: args, RequestID: "r"})
	if err != nil || res.Status != 200 {
		t.Fatal(tool, string(args), res, err)
	}
	ledger := w.Ledger()
	out := make(map[string]string)
	for path, text := range ledger[len(ledger)-1].Values {
		out[path] = shown(text)
	}
	return out
}

// shown is a second statement of what plain display text is.
func shown(text json.RawMessage) string {
	var list []string
	if json.Unmarshal(text, &list) == nil {
		return strings.Join(list, ", ")
	}
	var s string
	if json.Unmarshal(text, &s) == nil {
		return s
	}
	return string(text)
}

// TestHonest: what the person wants is exactly what the service acts on, whichever
// way it reads JSON, and the actions of a trial differ.
func TestHonest(t *testing.T) {
	for _, s := range scenarios.All() {
		t.Run(s.ID, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				seed := rapid.Uint64().Draw(t, "seed")
				n := rapid.IntRange(0, 1000).Draw(t, "n")
				in := s.Instance(seed, n)
				if d := cmp.Diff(in, s.Instance(seed, n)); d != "" {
					t.Fatal("not a pure function:", d)
				}
				if bytes.Equal(in.Arguments, s.Instance(seed, n+1).Arguments) {
					t.Fatalf("%d and %d are one action: %s", n, n+1, in.Arguments)
				}
				if strings.Contains(in.Task, "{") {
					t.Fatal("task:", in.Task)
				}
				for _, r := range []provider.Reader{provider.ReaderStruct, provider.ReaderFirst, provider.ReaderUnchecked} {
					got := execute(t, world(t, s, r), s.Audience, in.Tool, in.Arguments)
					for _, path := range in.Free {
						if got[path] == "" {
							t.Fatalf("free field %s has no value", path)
						}
						delete(got, path)
					}
					if d := cmp.Diff(in.Wants, got); d != "" {
						t.Fatalf("reader %s: wanted -, acted on +\n%s", r, d)
					}
				}
			})
		})
	}
}

// TestSecondPaymentDiffersInValue: the actions 0 and 1 of a trial differ in what
// matters, not only in a label.
func TestSecondPaymentDiffersInValue(t *testing.T) {
	for _, s := range scenarios.All() {
		for seed := range uint64(200) {
			if maps.Equal(s.Instance(seed, 0).Wants, s.Instance(seed, 1).Wants) {
				t.Errorf("%s, seed %d: both want %v", s.ID, seed, s.Instance(seed, 0).Wants)
			}
		}
	}
}

// TestHostile: every hostile value is one the service would act on, and none that
// the person wants; the steering tool really makes the drift.
func TestHostile(t *testing.T) {
	for _, s := range scenarios.All() {
		in := s.Instance(7, 0)
		for _, role := range scenarios.Roles() {
			f, ok := s.Field(role)
			if (s.Hostile(role) != nil) != ok {
				t.Errorf("%s: %s: field %v, hostile value %s", s.ID, role, ok, s.Hostile(role))
			}
			if !ok {
				continue
			}
			var args map[string]json.RawMessage
			if err := json.Unmarshal(in.Arguments, &args); err != nil {
				t.Fatal(err)
			}
			args[f.Name] = s.Hostile(role)
			body, err := json.Marshal(args)
			if err != nil {
				t.Fatal(err)
			}
			got := execute(t, world(t, s, provider.Reader(s.Reader)), s.Audience, in.Tool, body)
			if path := "/" + f.Name; got[path] == in.Wants[path] || got[path] != shown(s.Hostile(role)) {
				t.Errorf("%s: %s: acted on %q, wanted %q, hostile %s", s.ID, role, got[path], in.Wants[path], s.Hostile(role))
			}
			if role == scenarios.RoleDefaulted {
				delete(args, f.Name)
				if body, err = json.Marshal(args); err != nil {
					t.Fatal(err)
				}
				if got := execute(t, world(t, s, provider.Reader(s.Reader)), s.Audience, in.Tool, body); got["/"+f.Name] != shown(s.Hostile(role)) {
					t.Errorf("%s: dropping %s leaves %q", s.ID, f.Name, got["/"+f.Name])
				}
			}
		}

		tool, args := s.SteerTool()
		kind, id := s.Reference()
		if kind == "" {
			if tool.Name != "" || args != nil || s.Drift() != nil {
				t.Errorf("%s: a steering tool without a reference", s.ID)
			}
			continue
		}
		w := world(t, s, provider.Reader(s.Reader))
		execute(t, w, tool.Audience, tool.Name, args)
		want := maps.Clone(s.Records[kind][id])
		maps.Copy(want, s.Drift())
		if got, _ := w.Record(kind, id); cmp.Diff(want, got.Members) != "" || cmp.Diff(s.Records[kind][id], got.Members) == "" {
			t.Errorf("%s: after the drift %s, want %s", s.ID, got.Members, want)
		}
	}
}

// TestSibling: the sibling tool and the sibling service accept the honest
// arguments, so that only a gate tells them apart.
func TestSibling(t *testing.T) {
	for _, s := range scenarios.All() {
		in := s.Instance(7, 0)
		for _, c := range [][2]string{{s.Audience, s.SiblingTool}, {s.Sibling, s.HonestTool}, {s.Sibling, s.SiblingTool}} {
			execute(t, world(t, s, provider.Reader(s.Reader)), c[0], c[1], in.Arguments)
		}
	}
}

// families are the scenarios that the project promises; there may be more.
var families = []string{
	"calendar", "cloudiam", "dbwrite", "deploy", "dns", "fileshare", "mail",
	"payments", "payroll", "refunds", "runner", "secrets", "travel", "vendor",
}

// TestSpread: every family is there, and each guarantee, reader and role occurs
// in several, so that no finding about one of them hangs on a single service.
func TestSpread(t *testing.T) {
	guarantees, readers := make(map[api.Guarantee]int), make(map[string]int)
	roles, audiences := make(map[scenarios.Role]int), make(map[string]string)
	var ids []string
	for _, s := range scenarios.All() {
		ids = append(ids, s.ID)
		tool, ok := s.Tool(s.HonestTool)
		if !ok {
			t.Fatal(s.ID, "has no honest tool")
		}
		guarantees[tool.Guarantee]++
		readers[s.Reader]++
		for role := range s.Fields {
			roles[role]++
		}
		for _, a := range []string{s.Audience, s.Sibling} {
			if audiences[a] != "" {
				t.Errorf("%s: audience %s is taken by %s", s.ID, a, audiences[a])
			}
			audiences[a] = s.ID
		}
		if s.ID == "payments" && len(s.Fields) != len(scenarios.Roles()) {
			t.Errorf("payments lacks roles: %v", s.NotApplicable)
		}
	}
	for _, id := range families {
		if !slices.Contains(ids, id) {
			t.Errorf("there is no scenario %s", id)
		}
	}
	for _, r := range scenarios.Roles() {
		if 2*roles[r] <= len(ids) {
			t.Errorf("role %s occurs in %d of %d scenarios, want most", r, roles[r], len(ids))
		}
	}
	for _, g := range []api.Guarantee{api.GuaranteeIdempotent, api.GuaranteeLookup, api.GuaranteeNone} {
		if guarantees[g] < 3 {
			t.Errorf("guarantee %s occurs %d times, want 3", g, guarantees[g])
		}
	}
	for _, r := range []provider.Reader{provider.ReaderStruct, provider.ReaderFirst, provider.ReaderUnchecked} {
		if readers[string(r)] < 3 {
			t.Errorf("reader %s occurs %d times, want 3", r, readers[string(r)])
		}
	}
}

// TestTools: attacks find in every scenario a tool that only reads, a tool that
// steers each kind of reference data, and a sibling that differs from the honest
// tool in name and meaning alone.
func TestTools(t *testing.T) {
	for _, s := range scenarios.All() {
		honest, _ := s.Tool(s.HonestTool)
		sibling, ok := s.Tool(s.SiblingTool)
		if !ok || sibling.Title == honest.Title {
			t.Errorf("%s: sibling %q", s.ID, sibling.Title)
		}
		sibling.Name, sibling.Title = honest.Name, honest.Title
		if d := cmp.Diff(honest, sibling); d != "" {
			t.Errorf("%s: honest -, sibling +\n%s", s.ID, d)
		}
		reads, steers := 0, make(map[string]bool)
		for _, tool := range s.ToolTable() {
			if tool.Class == api.ClassRead {
				reads++
			}
			steers[tool.Changes] = true
		}
		if reads == 0 {
			t.Errorf("%s: no tool of class %s", s.ID, api.ClassRead)
		}
		for kind := range s.Records {
			if !steers[kind] {
				t.Errorf("%s: nothing changes %s", s.ID, kind)
			}
		}
	}
}

var (
	mailHost = regexp.MustCompile(`@([A-Za-z0-9.-]+)`)
	urlHost  = regexp.MustCompile(`[a-z]+://([A-Za-z0-9.-]+)`)
	ipv4     = regexp.MustCompile(`\b\d{1,3}(?:\.\d{1,3}){3}\b`)
)

// TestInvented: no value names a host or an address that somebody may own
// (RFC 2606 and RFC 5737 set some aside).
func TestInvented(t *testing.T) {
	docs := regexp.MustCompile(`^(192\.0\.2|198\.51\.100|203\.0\.113)\.`)
	for _, s := range scenarios.All() {
		text := dataFile(t, s.ID+".yaml")
		hosts := []string{s.Audience, s.Sibling}
		for _, form := range []*regexp.Regexp{mailHost, urlHost} {
			for _, m := range form.FindAllStringSubmatch(text, -1) {
				hosts = append(hosts, strings.TrimSuffix(m[1], "."))
			}
		}
		for _, h := range hosts {
			if !strings.HasSuffix(h, ".example") {
				t.Errorf("%s: host %s", s.ID, h)
			}
		}
		for _, ip := range ipv4.FindAllString(text, -1) {
			if !docs.MatchString(ip) {
				t.Errorf("%s: address %s", s.ID, ip)
			}
		}
	}
}

func dataFile(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("data", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestParseRefuses: each case is a good file with one thing wrong, and the error
// names the file and the member.
func TestParseRefuses(t *testing.T) {
	good := dataFile(t, "payments.yaml")
	if _, err := scenarios.Parse("payments.yaml", []byte(good)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ member, old, new string }{
		{"colour", "id: payments", "colour: red\nid: payments"},
		{"title", "title: Supplier payment\n", ""},
		{"not_applicable", "not_applicable: {}\n", ""},
		{"id", "id: payments", "id: Payments"},
		{"id", "id: payments", "id: other"},
		{"story", "story: >-", "story: ''\nx-story: >-"},
		{"audience", "audience: payments.example", "audience: https://payments.example/"},
		{"sibling_audience", "payroll.example", "payments.example"},
		{"reader", "reader: struct", "reader: last"},
		{"shade", "risk: high", "risk: high\n    shade: blue"},
		{"audience", "risk: high", "risk: high\n    audience: x"},
		{"guarantee", "guarantee: idempotent", "guarantee: maybe"},
		{"class", "class: consequential", "class: harmless"},
		{"class", "class: read", "class: consequential"},
		{"default", `'"skip"'`, `'skip'`},
		{"default", `'"skip"'`, `'1'`},
		{"summary", "summary: [supplier_id, amount", "summary: [supplier_id, amount, amount"},
		{"summary", "summary: [supplier_id, amount", "summary: [supplier_id, total"},
		{"reference", "reference: supplier}", "reference: client}"},
		{"type", "label: Amount, type: integer", "label: Amount, type: int"},
		{"label", "label: Amount, ", "label: '', "},
		{"changes", "changes: supplier", "changes: client"},
		{"sibling_tool", "sibling_tool: create_prepayment", "sibling_tool: create_payment"},
		{"sibling_tool", "sibling_tool: create_prepayment", "sibling_tool: get_supplier"},
		{"sibling_tool", "fields: *payment\n    summary: [supplier_id, amount, currency, memo, advice_email, invoices, from_account]", "fields: [{name: x, label: X, type: string}]\n    summary: [x]"},
		{"sibling_tool", "risk: high\n    fields: *payment", "risk: medium\n    fields: *payment"},
		{"records", "sup-northgate: {name: Northgate Stationery, ", "sup-northgate: {"},
		{"records", "name: Northgate Stationery", "name: 2026-01-01"},
		{"tool", "  tool: create_payment\n", "  tool: get_supplier\n"},
		{"arguments", "    amount: {int: [80000, 480000]}\n", ""},
		{"arguments: amount", "{int: [80000, 480000]}", "{int: [480000, 80000]}"},
		{"arguments: amount", "{int: [80000, 480000]}", "{int: [1, 9007199254740993]}"},
		{"arguments: amount", "{int: [80000, 480000]}", "many"},
		{"arguments: amount", "{int: [80000, 480000]}", "{dice: [1, 6]}"},
		{"arguments: supplier_id", "amount: {int", "supplier_id: x\n    amount: {int"},
		{"arguments: total", "    amount: {int", "    total: 1\n    amount: {int"},
		{"arguments: memo", `"Invoice BW-{1000..9999}"`, `"Invoice {number}"`},
		{"arguments: memo", `"Invoice BW-{1000..9999}"`, `"Invoice {9..9}"`},
		{"arguments: memo", `"Invoice BW-{1000..9999}"`, `"` + strings.Repeat("long ", 13) + `"`},
		{"arguments: supplier_id", "supplier_id: sup-brightwater\n", "supplier_id: sup-nobody\n"},
		{"arguments: supplier_id", "supplier_id: sup-brightwater\n", "supplier_id: {choice: [sup-brightwater]}\n"},
		{"free", "free: [batch_label]", "free: [amount]"},
		{"free", "free: [batch_label]", "free: [nothing]"},
		{"roles: quantity", "quantity: amount", "quantity: memo"},
		{"roles: quantity", "  quantity: amount\n", ""},
		{"roles: unit", "not_applicable: {}", "not_applicable: {unit: none}"},
		{"roles: unit", "unit: currency", "unit: supplier_id"},
		{"roles: list", "list: invoices", "list: memo"},
		{"roles: list", "BW-2204, BW-2205]", "BW-2204]"},
		{"roles: list", "BW-2204, BW-2205]", "'BW-2204, BW-2205', BW-2206]"},
		{"roles: list", "advice_email, invoices, from_account", "advice_email, from_account"},
		{"roles: secret", "secret: from_account", "secret: memo"},
		{"roles: secret", "from_account: GB29NWBK60161331926819", "from_account: GB926819"},
		{"roles: secret", "material: true, secret: true}", "material: true}"},
		{"a secret is a string", "type: strings, required: true, material: true}", "type: strings, required: true, material: true, secret: true}"},
		{"roles: hidden", "hidden: payout_account", "hidden: memo"},
		{"roles: defaulted", "name_check: required", "name_check: skip"},
		{"roles", "not_applicable: {}", "not_applicable: {colour: none}"},
		{"hostile: quantity", "quantity: 9480000", "quantity: 90000"},
		{"hostile: quantity", "quantity: 9480000", "quantity: lots"},
		{"hostile: quantity", "  quantity: 9480000\n", ""},
		{"hostile: text", "text: Settlement in full of all present and future claims", "text: Invoice BW-1234"},
		{"hostile: list", "list: [NG-0999]", "list: [NG-0999, NG-0998]"},
		{"hostile: list", "list: [NG-0999]", "list: [BW-2201]"},
		{"hostile: list", "list: [NG-0999]", "list: NG-0999"},
		{"hostile: secret", "secret: GB82WEST12345698766819", "secret: GB82WEST12345698765432"},
		{"hostile: secret", "secret: GB82WEST12345698766819", "secret: '6819'"},
		{"hostile: unit", "unit: KWD", "unit: EUR"},
		{"hostile: reference", "reference: sup-brightwater-2", "reference: sup-nobody"},
		{"hostile: drift", "drift: {account: LT121000011101001000}", "drift: {account: GB33BUKB20201555555555}"},
		{"hostile: drift", "drift: {account: LT121000011101001000}", "drift: {colour: red}"},
		{"hostile: drift", "  drift: {account: LT121000011101001000}\n", ""},
		{"hostile: defaulted", "hostile:\n", "hostile:\n  defaulted: skip\n"},
		{"task", "{/amount}", "{/payout_account}"},
		{"document", "not_applicable: {}\n", "not_applicable: {}\n---\nid: x\n"},
	} {
		bad := strings.Replace(good, c.old, c.new, 1)
		if bad == good {
			t.Errorf("%q is not in the file", c.old)
			continue
		}
		_, err := scenarios.Parse("payments.yaml", []byte(bad))
		if err == nil || !strings.Contains(err.Error(), "payments.yaml") || !strings.Contains(err.Error(), c.member) {
			t.Errorf("%q for %q: error %v, want one that names %s", c.new, c.old, err, c.member)
		}
	}
}

func TestLoad(t *testing.T) {
	if _, err := scenarios.Load(fstest.MapFS{"readme.txt": {}}); err == nil {
		t.Error("an empty set was accepted")
	}
	if _, err := scenarios.Load(fstest.MapFS{"payments.yaml": {Data: []byte("id: payments")}}); err == nil {
		t.Error("a broken file was accepted")
	}
	all, err := scenarios.Load(fstest.MapFS{"mail.yaml": {Data: []byte(dataFile(t, "mail.yaml"))}, "dns.yaml": {Data: []byte(dataFile(t, "dns.yaml"))}})
	if err != nil || len(all) != 2 || all[0].ID != "dns" || all[1].ID != "mail" {
		t.Errorf("%v %v", all, err)
	}
	if err := new(scenarios.Scenario).Validate(); err == nil {
		t.Error("the zero scenario is valid")
	}
}

var idLine = regexp.MustCompile(`(?m)^id: (\S+)$`)

// FuzzParse: whatever the text, Parse returns; and what it accepts works. Use it
// with -fuzzminimizetime=1x: the seeds are long, and Go shrinks each find for a minute.
func FuzzParse(f *testing.F) {
	for _, s := range scenarios.All() {
		f.Add([]byte(dataFile(f, s.ID+".yaml")))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		name := "x.yaml"
		if m := idLine.FindSubmatch(text); m != nil {
			name = string(m[1]) + ".yaml"
		}
		s, err := scenarios.Parse(name, text)
		if err != nil {
			return
		}
		w := world(t, s, provider.Reader(s.Reader))
		in := s.Instance(1, 1)
		execute(t, w, s.Audience, in.Tool, in.Arguments)
		if tool, args := s.SteerTool(); args != nil {
			execute(t, w, tool.Audience, tool.Name, args)
		}
	})
}
