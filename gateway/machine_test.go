package gateway_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"countersign/gateway/api"
)

// machine is the reference design beside a model of it that a person can check by
// eye: what was asked and decided, and what still holds.
type machine struct {
	w        *world
	calls    []*modelCall
	now      time.Time
	policy   int
	disabled bool
	effects  int
}

// A modelCall is one suspension.
type modelCall struct {
	action   api.Action
	id       string
	made     time.Time
	policy   int
	decided  api.Verdict
	revoked  bool
	spent    bool
	replaced bool // the call was suspended again
	dispatch api.Dispatch
}

// holds says whether authority to execute the call holds now.
func (m *machine) holds(c *modelCall) bool {
	return c.decided == api.Approve && !c.revoked && !c.spent && !c.replaced && !m.disabled &&
		c.policy == m.policy && m.now.Before(c.made.Add(ttl))
}

func (m *machine) pick(t *rapid.T) *modelCall {
	if len(m.calls) == 0 {
		t.Skip("nothing was asked yet")
	}
	return m.calls[rapid.IntRange(0, len(m.calls)-1).Draw(t, "call")]
}

func (m *machine) add(a api.Action, id string) {
	for _, c := range m.calls {
		if c.action.Step == a.Step {
			c.replaced = true
		}
	}
	m.calls = append(m.calls, &modelCall{action: a, id: id, made: m.now, policy: m.policy})
}

// owner returns the call that a permit was given for.
func (m *machine) owner(permit string) *modelCall {
	for _, c := range m.calls {
		if permit != "" && c.dispatch.Carried.Permit == permit {
			return c
		}
	}
	return nil
}

// present dispatches and holds the outcome against the model: it is executed if
// and only if the permit carried is for this very action of this agent, and holds.
func (m *machine) present(t *rapid.T, agent string, d api.Dispatch) {
	c := m.owner(d.Carried.Permit)
	held := c != nil && m.holds(c) && agent == "agent-a" && d.Action.Step == c.action.Step && string(d.Action.Arguments) == string(c.action.Arguments)
	o, err := m.w.present(m.w.target, agent, d)
	if err != nil {
		t.Fatal(err)
	}
	if (o.Status == api.Executed) != held {
		t.Fatalf("%s: %s [%s], but authority holds: %v", d.Action.Step, o.Status, codes(o.Refusals), held)
	}
	if held {
		c.spent = true
		m.effects++
	}
	if o.Status == api.Absorbed && !c.spent {
		t.Fatalf("%s: absorbed, although nothing was executed", d.Action.Step)
	}
	if o.Status == api.Reasked {
		m.add(d.Action, o.Suspension)
	}
}

// TestMachine: random histories never make more effects than approvals, and none
// after a decline, a withdrawal, an expiry, a new policy or a disabled agent.
func TestMachine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, "M9")
		m := &machine{w: w, now: start}
		decide := func(t *rapid.T, v api.Verdict) {
			c := m.pick(t)
			if v == api.Approve && !m.now.Before(c.made.Add(ttl)) || c.decided != "" {
				return // refused; TestDecide and TestOneDecision have it
			}
			err := w.decide(c.id, rapid.SampledFrom([]string{"approver-p", "approver-2"}).Draw(t, "approver"), v)
			if v == api.Approve && c.replaced {
				if refusedBy(err) != "suspension/differs" {
					t.Fatalf("approving a suspension that was replaced: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			c.decided = v
			c.dispatch = w.collect(c.action, c.id)
		}
		event := func(t *rapid.T, e api.Event) {
			if err := w.target.Admin(ctx, auth("admin"), e); err != nil {
				t.Fatal(err)
			}
		}
		propose := func(t *rapid.T, a api.Action) {
			if !m.disabled {
				m.add(a, w.pending(a))
			} else if _, err := w.target.Propose(ctx, auth("agent-a"), a); refusedBy(err) != "online/agent_disabled" {
				t.Fatalf("a disabled agent proposes: %v", err)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"propose": func(t *rapid.T) {
				propose(t, w.action("pay", rapid.IntRange(1, 3).Draw(t, "amount")))
			},
			"propose again": func(t *rapid.T) { propose(t, m.pick(t).action) },
			"approve":       func(t *rapid.T) { decide(t, api.Approve) },
			"decline":       func(t *rapid.T) { decide(t, api.Decline) },
			"approve and dispatch": func(t *rapid.T) {
				a := w.action("wire", 1)
				if propose(t, a); m.disabled {
					return
				}
				c := m.calls[len(m.calls)-1]
				if err := w.decide(c.id, "approver-p", api.Approve); err != nil {
					t.Fatal(err)
				}
				c.decided, c.dispatch = api.Approve, w.collect(a, c.id)
				m.present(t, "agent-a", c.dispatch)
			},
			"dispatch": func(t *rapid.T) {
				c := m.pick(t)
				d := c.dispatch
				d.Action = c.action
				m.present(t, "agent-a", d)
			},
			"another agent": func(t *rapid.T) {
				c := m.pick(t)
				d := c.dispatch
				d.Action = c.action
				m.present(t, "agent-b", d)
			},
			"another's permit": func(t *rapid.T) {
				c, other := m.pick(t), m.pick(t)
				m.present(t, "agent-a", api.Dispatch{Action: c.action, Carried: other.dispatch.Carried})
			},
			"other arguments": func(t *rapid.T) {
				c := m.pick(t)
				d := c.dispatch
				d.Action = c.action
				d.Action.Arguments = []byte(`{"supplier":"s-2","amount":1,"memo":"invoice"}`)
				m.present(t, "agent-a", d)
			},
			"restart": func(t *rapid.T) {
				if err := w.lab.Restart(ctx); err != nil {
					t.Fatal(err)
				}
			},
			"wait": func(t *rapid.T) {
				d := time.Duration(rapid.IntRange(1, 10).Draw(t, "minutes")) * time.Minute
				w.clock.add(d)
				m.now = m.now.Add(d)
			},
			"revoke": func(t *rapid.T) {
				c := m.pick(t)
				event(t, api.Event{Kind: api.EventRevoke, Subject: c.id})
				c.revoked = true
			},
			"change policy": func(t *rapid.T) {
				if rapid.IntRange(0, 3).Draw(t, "rarely") == 0 {
					m.policy++
					event(t, api.Event{Kind: api.EventPolicyChange, Value: fmt.Sprint("policy-", m.policy+1)})
				}
			},
			"disable": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "rarely") == 0 {
					m.disabled = true
					event(t, api.Event{Kind: api.EventDisableAgent, Subject: "agent-a"})
				}
			},
			"": func(t *rapid.T) {
				if n := len(w.prov.Ledger()); n != m.effects {
					t.Fatalf("%d effects, the model has %d", n, m.effects)
				}
				approvals := 0
				for _, c := range m.calls {
					if c.decided == api.Approve {
						approvals++
					}
				}
				if m.effects > approvals {
					t.Fatalf("%d effects, %d approvals", m.effects, approvals)
				}
			},
		})
	})
}
