package attacks

import (
	"errors"
	"slices"
	"time"

	"countersign/gateway/api"
)

// tries bounds how often a step of [Survive] is made, and how often a call that is
// held is presented. A gateway that ends once needs two of each.
const tries = 4

// Survive is one honest call whose gateway may end at any moment after armed was
// called, which is before the approver decides. Everybody then does what people and
// programs do: the gateway is started again, the approver looks whether the decision
// stands and otherwise reads the call and decides again, and the worker presents the
// call until it is executed or refused. Last, another worker presents it once more.
func Survive(s *Stage, armed func()) {
	c := s.Call(0)
	s.Propose(c)
	o := s.look(c, approver, "")
	armed()
	read := true
	if !s.again(func() {
		st, err := s.target.Status(s.ctx, api.Auth{Token: c.Agent.token}, c.Suspension)
		s.must(err)
		switch {
		case !st.Decided:
			if !read { // an authenticator signs anew: a counter may have been taken
				o = s.look(c, approver, "")
			}
			read = false
			s.decide(c, approver, o.view, o.decision, o.why)
		case len(s.History.Reviews) == 0: // taken, and not answered
			s.stands(s.reviewOf(c, approver, o.view, o.decision))
		}
	}) {
		return
	}
	for range tries {
		var last api.Outcome
		if !s.again(func() { last = s.Dispatch(s.Collect(c)) }) {
			return
		}
		if last.Status != api.Held {
			break
		}
		s.Wait(time.Minute) // what another process has begun is left to it for some time
	}
	s.again(func() { s.Dispatch(s.Collect(c)) })
}

// again makes a step until it comes to its end, and starts the gateway again each
// time that there was no answer. It reports false where the step was refused.
func (s *Stage) again(step func()) bool {
	for range tries {
		done := false
		err := s.Perform(func(*Stage) { step(); done = true })
		if err == nil {
			return done
		}
		if c := (*api.UnimplementedError)(nil); errors.As(err, &c) {
			panic(stop{err})
		}
		s.happened(theWorker, "gets no answer")
		s.Restart()
	}
	panic(stop{errors.New("the gateway gives no answer, however often it is started again")})
}

// Waits lists the codes for which the last of some answers holds the call; nil if it
// does not.
func Waits(answers []Answer) []string {
	if len(answers) == 0 || answers[len(answers)-1].Status != api.Held {
		return nil
	}
	out := []string{}
	for _, r := range answers[len(answers)-1].Refusals {
		if code := string(r.Binding) + "/" + r.Code; !slices.Contains(out, code) {
			out = append(out, code)
		}
	}
	return out
}
