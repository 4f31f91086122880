package wire

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"countersign/gateway/api"
	"countersign/gateway/httpapi"
)

// A Remote deploys targets at servers: at the first address, and second instances
// at the next one, which shares its store.
type Remote struct {
	// Watch, if set before anything is deployed, is told of each write that a gateway
	// makes and of each question that it asks the provider, before and after, such as
	// "before create approval" and "after execute". The gateway waits meanwhile.
	Watch func(point string)
	// Respawn, if set, starts the first server's process again at its address: a
	// restart is then that of a process.
	Respawn func(ctx context.Context) error

	about   About
	servers []caller
	world   string // where the worlds of all deployments answer
	serve   *http.Server
	leaving sync.WaitGroup

	mu     sync.Mutex
	worlds map[string]*stage
}

// A stage is a deployment as the attacks' side sees it.
type stage struct {
	r       *Remote
	id      string
	asked   deployment
	d       api.Deployment
	token   string
	targets []api.Target // one for each server that was asked

	// turn belongs to whoever uses the world or, in a race, the script: of all racers
	// and calls from the gateway one at a time.
	turn sync.Mutex

	mu    sync.Mutex
	steps map[api.Step]func(context.Context) error
}

// Dial makes ready to deploy at servers, whose controls have these addresses and
// one token. Two servers have to deploy the same over one store. It listens on a
// loopback address for what they ask of the world.
func Dial(ctx context.Context, addresses []string, token string) (*Remote, error) {
	if len(addresses) == 0 || len(addresses) > 2 {
		return nil, fmt.Errorf("%d addresses of gateways, want one, or two that share a store", len(addresses))
	}
	r := &Remote{worlds: map[string]*stage{}}
	for i, a := range addresses {
		c := newCaller(a, token)
		var about About
		if err := c.call(ctx, "/v1/about", struct{}{}, &about); err != nil {
			return nil, fmt.Errorf("asking %s what it deploys: %w", a, err)
		}
		switch {
		case i == 0:
			r.about = about
		case about.Store == "":
			return nil, fmt.Errorf("%s keeps each deployment in a memory of its own, so no second gateway can share it", a)
		case about != r.about:
			return nil, fmt.Errorf("%s deploys %s over the store %q, and %s deploys %s over the store %q: want the same",
				addresses[0], r.about.ID, r.about.Store, a, about.ID, about.Store)
		}
		r.servers = append(r.servers, c)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for what the gateways ask of the world: %w", err)
	}
	r.world = "http://" + l.Addr().String()
	r.serve = &http.Server{Handler: r.handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	go func() { _ = r.serve.Serve(l) }() // ends with Close
	return r, nil
}

// About says what the servers deploy.
func (r *Remote) About() About { return r.about }

// Close takes down what is still deployed and stops listening.
func (r *Remote) Close() {
	r.leaving.Wait()
	_ = r.serve.Close() // nobody is asking any more
}

// Deploy implements api.Factory. The deployment is taken down when ctx ends.
func (r *Remote) Deploy(ctx context.Context, d api.Deployment) (api.Bench, error) {
	if d.Provider == nil || d.Directory == nil || d.Clock == nil {
		return api.Bench{}, errors.New("a deployment needs a provider, a directory and a clock")
	}
	s := &stage{r: r, id: rand.Text(), d: d, token: rand.Text(), steps: map[api.Step]func(context.Context) error{}}
	s.asked = deployment{
		ID: s.id, Issuer: d.Issuer, Tools: d.Tools, ApprovalTTL: d.ApprovalTTL, AdminToken: d.AdminToken, AuditorToken: d.AuditorToken,
		Origin: d.Origin, ProviderCredential: d.ProviderCredential, SecretKey: d.SecretKey, World: r.world + "/" + s.id, WorldToken: s.token,
		Watched: r.Watch != nil,
	}
	r.mu.Lock()
	r.worlds[s.id] = s
	r.mu.Unlock()
	r.leaving.Add(1)
	context.AfterFunc(ctx, s.leave)
	lab, err := s.join(ctx)
	if err != nil {
		return api.Bench{}, err
	}
	b := api.Bench{Target: front{s.targets[0], s}}
	if lab {
		b.Lab, b.Unscheduled = s, true
	}
	return b, nil
}

// join deploys at the next server.
func (s *stage) join(ctx context.Context) (lab bool, err error) {
	var got deployed
	if err := s.r.servers[len(s.targets)].call(ctx, "/v1/deploy", s.asked, &got); err != nil {
		return false, fmt.Errorf("deploying at %s: %w", s.r.servers[len(s.targets)].base, err)
	}
	s.asked.Keys = got.Keys
	s.targets = append(s.targets, httpapi.NewClient(got.Address, nil))
	return got.Lab, nil
}

// leave takes the deployment down.
func (s *stage) leave() {
	defer s.r.leaving.Done()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, c := range s.r.servers {
		_ = c.call(ctx, s.at("remove"), struct{}{}, nil) // a server that is gone has nothing deployed
	}
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	delete(s.r.worlds, s.id)
}

func (s *stage) at(what string) string { return "/v1/deployments/" + s.id + "/" + what }

// tell sends the first server a message that has no answer. The lab's interface has
// no place for an error, and a trial that goes on without what it asked for shows
// something else: the trial ends here, as an error.
func (s *stage) tell(what string, in any) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if err := s.r.servers[0].call(ctx, s.at(what), in, nil); err != nil {
		panic(fmt.Sprintf("the gateway's lab does not answer: %v", err))
	}
}

// Fault implements api.Lab.
func (s *stage) Fault(dep api.Dependency, f api.Fault) { s.tell("fault", faultRequest{dep, f}) }

// Restart implements api.Lab.
func (s *stage) Restart(ctx context.Context) error {
	if s.r.Respawn != nil {
		if err := s.r.Respawn(ctx); err != nil {
			return err
		}
		return s.r.servers[0].call(ctx, "/v1/deploy", s.asked, nil)
	}
	return s.r.servers[0].call(ctx, s.at("restart"), struct{}{}, nil)
}

// Second implements api.Lab: the instance at the other server, or another one in the
// same process where there is one server only.
func (s *stage) Second(ctx context.Context) (api.Target, error) {
	if len(s.r.servers) == 1 {
		var got deployed
		if err := s.r.servers[0].call(ctx, s.at("second"), struct{}{}, &got); err != nil {
			return nil, err
		}
		return httpapi.NewClient(got.Address, nil), nil
	}
	if len(s.targets) < len(s.r.servers) {
		if _, err := s.join(ctx); err != nil {
			return nil, err
		}
	}
	return s.targets[1], nil
}

// At implements api.Lab.
func (s *stage) At(step api.Step, f func(ctx context.Context) error) {
	s.mu.Lock()
	s.steps[step] = f
	s.mu.Unlock()
	s.tell("at", stepRequest{step})
}

// Race implements api.Lab as far as it can be: the callers set out at the same
// moment, to each of the servers in turn, and nobody says who arrives first.
func (s *stage) Race(ctx context.Context, order []int, work func(ctx context.Context, i int)) {
	if len(s.r.servers) > len(s.targets) {
		if _, err := s.join(ctx); err != nil {
			panic(fmt.Sprintf("the second gateway is not there for a race: %v", err))
		}
	}
	ready := make(chan struct{})
	var waiting, done sync.WaitGroup
	waiting.Add(len(order))
	for i := range order {
		done.Go(func() {
			arrive := sync.OnceFunc(waiting.Done)
			defer arrive()
			s.turn.Lock()
			defer s.turn.Unlock()
			work(context.WithValue(ctx, racerKey{}, racer{s.targets[i%len(s.targets)], func() { arrive(); <-ready }}), i)
		})
	}
	waiting.Wait()
	close(ready)
	done.Wait()
}

type racerKey struct{}

// A racer is one caller in a race.
type racer struct {
	target api.Target
	wait   func() // until all are there
}

// front is the target of a deployment. Racers let go of the script while their call
// is on its way.
type front struct {
	api.Target
	s *stage
}

func (f front) Dispatch(ctx context.Context, auth api.Auth, d api.Dispatch) (api.Outcome, error) {
	r, ok := ctx.Value(racerKey{}).(racer)
	if !ok {
		o, err := f.Target.Dispatch(ctx, auth, d)
		if err != nil {
			// Who asked the world may have ended meanwhile: what arrived is processed first.
			f.s.turn.Lock()
			defer f.s.turn.Unlock()
		}
		return o, err
	}
	f.s.turn.Unlock()
	defer f.s.turn.Lock()
	r.wait()
	return r.target.Dispatch(ctx, auth, d)
}

// handler answers what the gateways ask of the worlds.
func (r *Remote) handler() http.Handler {
	mux := http.NewServeMux()
	point := func(p string) {
		if r.Watch != nil {
			r.Watch(p)
		}
	}
	question(r, mux, "point", func(_ context.Context, _ *stage, in pointRequest) (struct{}, error) {
		point(in.Point)
		return struct{}{}, nil
	})
	ask(r, mux, "execute", func(ctx context.Context, s *stage, in api.ProviderRequest) (api.ProviderResult, error) {
		point("before execute")
		defer point("after execute")
		// What has arrived is processed, also when the gateway hangs up.
		return s.d.Provider.Execute(context.WithoutCancel(ctx), in)
	})
	ask(r, mux, "preview", func(ctx context.Context, s *stage, in api.ProviderRequest) (api.Values, error) {
		return s.d.Provider.Preview(ctx, in)
	})
	ask(r, mux, "lookup", func(ctx context.Context, s *stage, in api.LookupQuery) (lookedUp, error) {
		point("before look-up")
		defer point("after look-up")
		res, found, err := s.d.Provider.Lookup(ctx, in)
		return lookedUp{res, found}, err
	})
	ask(r, mux, "claim", func(ctx context.Context, s *stage, in claimRequest) (struct{}, error) {
		return struct{}{}, s.d.Provider.Claim(ctx, in.Credential)
	})
	ask(r, mux, "resolve", func(ctx context.Context, s *stage, in nameRequest) (api.Resolution, error) {
		return s.d.Directory.Resolve(ctx, in.Kind, in.ID)
	})
	ask(r, mux, "now", func(_ context.Context, s *stage, _ struct{}) (time.Time, error) { return s.d.Clock.Now() })
	question(r, mux, "reached", func(ctx context.Context, s *stage, in stepRequest) (reached, error) {
		s.mu.Lock()
		f := s.steps[in.Step]
		delete(s.steps, in.Step)
		s.mu.Unlock()
		if f == nil {
			return reached{}, fmt.Errorf("nothing is to happen at the step %q", in.Step)
		}
		if err := f(context.WithoutCancel(ctx)); err != nil {
			return reached{Crash: err.Error()}, nil
		}
		return reached{}, nil
	})
	return mux
}

// ask serves a question about the world, one at a time.
func ask[In, Out any](r *Remote, mux *http.ServeMux, what string, f func(ctx context.Context, s *stage, in In) (Out, error)) {
	question(r, mux, what, func(ctx context.Context, s *stage, in In) (Out, error) {
		s.turn.Lock()
		defer s.turn.Unlock()
		return f(ctx, s, in)
	})
}

// question serves who asks about a world that is there, with its token.
func question[In, Out any](r *Remote, mux *http.ServeMux, what string, f func(ctx context.Context, s *stage, in In) (Out, error)) {
	mux.HandleFunc("POST /{id}/"+what, func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		s := r.worlds[req.PathValue("id")]
		r.mu.Unlock()
		if s == nil {
			http.NotFound(w, req)
			return
		}
		guarded(s.token, handle(func(ctx context.Context, _ *http.Request, in In) (Out, error) { return f(ctx, s, in) })).ServeHTTP(w, req)
	})
}
