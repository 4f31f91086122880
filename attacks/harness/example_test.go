package harness_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"countersign/attacks"
	"countersign/attacks/harness"
	"countersign/gateway/api"
	"countersign/oracles"
	"countersign/results"
	"countersign/scenarios"
)

// A desk is an approval system of somebody else's: a ticket for each request,
// which an approver stamps, and which is torn up when it is used. It says that it
// reads decisions from its own record, uses each once, and is the only way to the
// service.
type desk struct {
	world   api.Deployment
	mu      sync.Mutex
	people  map[string]api.Principal // by token
	tickets map[string]*ticket
}

type ticket struct {
	action  api.Action
	stamped bool
}

// deployDesk is the factory that a plan asks for: a fresh desk for each trial.
func deployDesk(ctx context.Context, world api.Deployment) (api.Bench, error) {
	// From here on the service takes calls from the desk alone.
	if err := world.Provider.Claim(ctx, world.ProviderCredential); err != nil {
		return api.Bench{}, err
	}
	return api.Bench{Target: &desk{world: world, people: map[string]api.Principal{}, tickets: map[string]*ticket{}}}, nil
}

func (d *desk) Describe(context.Context) (api.Description, error) {
	return api.Description{
		Name: "desk", Version: "1", Origin: d.world.Origin, DispatchURI: "https://desk.example/{audience}",
		Claims: []api.Binding{api.BindRecord, api.BindSeen, api.BindMediated},
	}, nil
}

func (d *desk) caller(auth api.Auth) (api.Principal, error) {
	p, ok := d.people[auth.Token]
	if !ok {
		return p, api.ErrUnauthenticated
	}
	return p, nil
}

func (d *desk) Propose(_ context.Context, auth api.Auth, a api.Action) (api.Pending, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.caller(auth); err != nil {
		return api.Pending{}, err
	}
	id := fmt.Sprintf("ticket-%d", len(d.tickets)+1)
	d.tickets[id] = &ticket{action: a}
	return api.Pending{Suspension: id, State: api.StatePending, SuspendedAt: int64(len(d.tickets))}, nil
}

func (d *desk) View(_ context.Context, _ api.Auth, id string) (api.View, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.tickets[id]
	if t == nil {
		return api.View{}, api.ErrNotFound
	}
	v := api.View{Suspension: id}
	for _, tool := range d.world.Tools {
		if tool.Audience == t.action.Audience && tool.Name == t.action.Tool {
			v.Title = tool.Title
			v.Fields = append(v.Fields, api.ViewField{Path: "#tool", Label: "Tool", Text: tool.Name})
		}
	}
	return v, nil
}

func (d *desk) RunWideView(context.Context, api.Auth, string, api.RunWide) (api.View, error) {
	return api.View{}, &api.UnimplementedError{Feature: "run-wide approvals", Reason: "a ticket is for one request"}
}

func (d *desk) Decide(_ context.Context, auth api.Auth, decision api.Decision) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.tickets[decision.Suspension]
	switch p, err := d.caller(auth); {
	case err != nil:
		return err
	case p.Role != api.RolePerson:
		return api.ErrForbidden
	case t == nil:
		return api.ErrNotFound
	}
	t.stamped = decision.Verdict == api.Approve
	return nil
}

func (d *desk) Status(_ context.Context, _ api.Auth, id string) (api.SuspensionStatus, error) {
	return api.SuspensionStatus{Suspension: id, Decided: true, Carried: api.Carried{Approval: id}}, nil
}

func (d *desk) Dispatch(ctx context.Context, auth api.Auth, call api.Dispatch) (api.Outcome, error) {
	d.mu.Lock()
	_, err := d.caller(auth)
	t := d.tickets[call.Carried.Approval]
	delete(d.tickets, call.Carried.Approval)
	d.mu.Unlock()
	switch {
	case err != nil:
		return api.Outcome{}, err
	case t == nil:
		return api.Outcome{Status: api.Refused, Refusals: []api.Refusal{{Binding: api.BindSeen, Code: "unknown"}}}, nil
	case !t.stamped:
		return api.Outcome{Status: api.Refused, Refusals: []api.Refusal{{Binding: api.BindRecord, Code: "undecided"}}}, nil
	}
	r, err := d.world.Provider.Execute(ctx, api.ProviderRequest{
		Credential: d.world.ProviderCredential, Audience: call.Action.Audience, Tool: call.Action.Tool, Body: call.Action.Arguments, RequestID: call.RequestID,
	})
	return api.Outcome{Status: api.Executed, Result: r.Body}, err
}

func (d *desk) Admin(_ context.Context, _ api.Auth, e api.Event) error {
	if e.Kind != api.EventEnrol {
		return &api.UnimplementedError{Feature: string(e.Kind), Reason: "a desk has no such event"}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.people[e.Principal.Token] = *e.Principal
	return nil
}

func (d *desk) Preview(context.Context, api.Auth, api.Action) (api.Values, error) {
	return nil, &api.UnimplementedError{Feature: "preview", Reason: "a desk shows what was asked"}
}

func (d *desk) BeginEnrolment(context.Context, api.Auth) (json.RawMessage, error) {
	return nil, &api.UnimplementedError{Feature: "passkeys", Reason: "a desk has none"}
}

func (d *desk) FinishEnrolment(context.Context, api.Auth, json.RawMessage) error {
	return &api.UnimplementedError{Feature: "passkeys", Reason: "a desk has none"}
}

func (d *desk) Audit(context.Context, api.Auth, int64) ([]api.AuditEntry, error) {
	return nil, &api.UnimplementedError{Feature: "audit", Reason: "a desk keeps no log"}
}

// A target of your own stands in the same matrix as the built-in designs. What it
// claims is the prediction, what it does is the measurement. What needs control
// of a target's clockwork (a schedule, a crash) is unimplemented for one that
// offers none, and counted apart.
func Example() {
	approver, ok := oracles.Named("faithful")
	if !ok {
		panic("there is no faithful reader")
	}
	var chosen []attacks.Family
	for _, f := range attacks.All() {
		if f.ID == "AB1" || f.ID == "AB4" {
			f.Variants, f.Twins = f.Variants[:4], nil
			chosen = append(chosen, f)
		}
	}
	plan := harness.Plan{
		Targets:  []harness.Target{{ID: "desk", Name: "tickets", Deploy: deployDesk}},
		Families: chosen, Scenarios: scenarios.All()[7:8], Seeds: []uint64{1}, Approver: approver,
	}
	ctx := context.Background()
	err := plan.Prepare(ctx)
	if err == nil {
		err = plan.Run(ctx, func(r results.Record) error {
			_, err := fmt.Printf("%s/%s: predicted %s, observed %s\n", r.Attack, r.Variant, r.Predicted, r.Observed)
			return err
		})
	}
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// honest/plain: predicted completed, observed completed
	// AB1/quantity_raised_in_the_queue: predicted executed, observed executed
	// AB1/unit_changed_in_the_queue: predicted executed, observed executed
	// AB1/destination_changed_in_the_queue: predicted executed, observed executed
	// AB1/text_changed_in_the_queue: predicted executed, observed executed
	// AB4/presented_twice_in_a_row: predicted blocked, observed refused
	// AB4/presented_by_eight_workers_at_once: predicted executed, observed unimplemented
	// AB4/presented_to_two_instances_over_one_store: predicted executed, observed unimplemented
	// AB4/presented_again_after_a_restart: predicted executed, observed unimplemented
}
