package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"countersign/gateway/api"
	"countersign/gateway/httpapi"
)

// A Deployer makes the factory of one deployment, with the keys that another server
// made of the same deployment, or with new ones (keys nil). It returns what that
// other server needs, and what is to be closed when the deployment is taken down.
// Watch, unless nil, is to be called before and after each write.
type Deployer func(id string, keys json.RawMessage, watch func(point string)) (f api.Factory, made json.RawMessage, c io.Closer, err error)

// maxDeployments bounds what is deployed at a time: who asks for more has
// forgotten to take some down.
const maxDeployments = 1024

// A Server deploys targets for the lab.
type Server struct {
	deploy  Deployer
	about   About
	token   string
	address string // of [Server.Targets], such as "http://127.0.0.1:8800"

	mu    sync.Mutex
	stand map[string]*stand
}

// A stand is one deployment, with its instances.
type stand struct {
	mu        sync.Mutex
	world     caller
	lab       api.Lab
	instances []http.Handler
	closer    io.Closer
}

// NewServer returns a server whose control wants the token and whose targets are
// served at an address. Without a token nobody is let in.
func NewServer(about About, token, address string, deploy Deployer) *Server {
	return &Server{deploy: deploy, about: about, token: token, address: strings.TrimRight(address, "/"), stand: map[string]*stand{}}
}

// Control is the lab's side.
func (s *Server) Control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/about", handle(func(context.Context, *http.Request, struct{}) (About, error) { return s.about, nil }))
	mux.HandleFunc("POST /v1/deploy", handle(s.put))
	mux.HandleFunc("POST /v1/deployments/{id}/remove", handle(func(_ context.Context, r *http.Request, _ struct{}) (struct{}, error) {
		s.mu.Lock()
		st := s.stand[r.PathValue("id")]
		delete(s.stand, r.PathValue("id"))
		s.mu.Unlock()
		if st == nil {
			return struct{}{}, nil
		}
		return struct{}{}, st.closer.Close()
	}))
	mux.HandleFunc("POST /v1/deployments/{id}/fault", handle(with(s, func(_ context.Context, st *stand, in faultRequest) (struct{}, error) {
		st.lab.Fault(in.Dependency, in.Fault)
		return struct{}{}, nil
	})))
	mux.HandleFunc("POST /v1/deployments/{id}/restart", handle(with(s, func(ctx context.Context, st *stand, _ struct{}) (struct{}, error) {
		return struct{}{}, st.lab.Restart(ctx)
	})))
	mux.HandleFunc("POST /v1/deployments/{id}/second", handle(func(ctx context.Context, r *http.Request, _ struct{}) (deployed, error) {
		return with(s, func(ctx context.Context, st *stand, _ struct{}) (deployed, error) {
			t, err := st.lab.Second(ctx)
			if err != nil {
				return deployed{}, err
			}
			st.instances = append(st.instances, httpapi.NewHandler(t))
			return deployed{Address: s.addressOf(r.PathValue("id"), len(st.instances)-1), Lab: true}, nil
		})(ctx, r, struct{}{})
	}))
	mux.HandleFunc("POST /v1/deployments/{id}/at", handle(with(s, func(_ context.Context, st *stand, in stepRequest) (struct{}, error) {
		world := st.world
		st.lab.At(in.Step, func(ctx context.Context) error {
			var said reached
			if err := world.call(ctx, "/reached", in, &said); err != nil {
				return err
			}
			if said.Crash != "" {
				return errors.New(said.Crash)
			}
			return nil
		})
		return struct{}{}, nil
	})))
	return guarded(s.token, mux)
}

// with finds the deployment that a message is about. Those of one deployment follow
// each other.
func with[In, Out any](s *Server, f func(ctx context.Context, st *stand, in In) (Out, error)) func(context.Context, *http.Request, In) (Out, error) {
	return func(ctx context.Context, r *http.Request, in In) (out Out, err error) {
		s.mu.Lock()
		st := s.stand[r.PathValue("id")]
		s.mu.Unlock()
		if st == nil {
			return out, fmt.Errorf("nothing is deployed as %q", r.PathValue("id"))
		}
		st.mu.Lock()
		defer st.mu.Unlock()
		if st.lab == nil {
			return out, fmt.Errorf("the deployment %q offers the lab no control of it", r.PathValue("id"))
		}
		return f(ctx, st, in)
	}
}

func (s *Server) addressOf(id string, instance int) string {
	return s.address + "/d/" + id + "/" + strconv.Itoa(instance)
}

// put deploys.
func (s *Server) put(ctx context.Context, _ *http.Request, in deployment) (_ deployed, err error) {
	if in.ID == "" || strings.ContainsAny(in.ID, "/?#% ") {
		return deployed{}, fmt.Errorf("%q names no deployment", in.ID)
	}
	w := newCaller(in.World, in.WorldToken)
	var watch func(point string)
	if in.Watched {
		watch = func(point string) {
			// Who watches may end this process here; who does not answer ends nothing.
			_ = w.call(context.Background(), "/point", pointRequest{point}, nil)
		}
	}
	f, keys, closer, err := s.deploy(in.ID, in.Keys, watch)
	if err != nil {
		return deployed{}, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, closer.Close())
		}
	}()
	bench, err := f(ctx, api.Deployment{
		Issuer: in.Issuer, Tools: in.Tools, Provider: world{w}, Directory: world{w}, Clock: world{w}, ApprovalTTL: in.ApprovalTTL,
		AdminToken: in.AdminToken, AuditorToken: in.AuditorToken, Origin: in.Origin, ProviderCredential: in.ProviderCredential,
		SecretKey: in.SecretKey,
	})
	if err != nil {
		return deployed{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.stand[in.ID] != nil:
		return deployed{}, fmt.Errorf("%q is deployed already", in.ID)
	case len(s.stand) >= maxDeployments:
		return deployed{}, fmt.Errorf("there are %d deployments, and none more is taken", maxDeployments)
	}
	s.stand[in.ID] = &stand{world: w, lab: bench.Lab, instances: []http.Handler{httpapi.NewHandler(bench.Target)}, closer: closer}
	return deployed{Address: s.addressOf(in.ID, 0), Keys: keys, Lab: bench.Lab != nil}, nil
}

// Targets serves the contract of each deployed target below its address.
func (s *Server) Targets() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rest, ok := strings.CutPrefix(r.URL.EscapedPath(), "/d/")
		id, rest, ok2 := strings.Cut(rest, "/")
		number, _, ok3 := strings.Cut(rest, "/")
		n, err := strconv.Atoi(number)
		var h http.Handler
		if ok && ok2 && ok3 && err == nil {
			h = s.instance(id, n)
		}
		if h == nil {
			http.NotFound(w, r)
			return
		}
		http.StripPrefix("/d/"+id+"/"+number, h).ServeHTTP(w, r)
	})
}

func (s *Server) instance(id string, n int) http.Handler {
	s.mu.Lock()
	st := s.stand[id]
	s.mu.Unlock()
	if st == nil {
		return nil
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if n < 0 || n >= len(st.instances) {
		return nil
	}
	return st.instances[n]
}

// world is the provider, the register and the clock of the other side.
type world struct{ c caller }

// effect says of a call that may have made an effect what is known when the other
// side did not say it.
func effect(err error) error {
	switch {
	case errors.Is(err, errNotReached):
		return fmt.Errorf("%w: %w", api.ErrNotSent, err)
	case errors.Is(err, errUnclear):
		return fmt.Errorf("%w: %w", api.ErrNoAnswer, err)
	}
	return err
}

func (w world) Execute(ctx context.Context, r api.ProviderRequest) (out api.ProviderResult, err error) {
	err = w.c.call(ctx, "/execute", r, &out)
	return out, effect(err)
}

func (w world) Preview(ctx context.Context, r api.ProviderRequest) (out api.Values, err error) {
	err = w.c.call(ctx, "/preview", r, &out)
	return out, effect(err)
}

func (w world) Lookup(ctx context.Context, q api.LookupQuery) (api.ProviderResult, bool, error) {
	var out lookedUp
	err := w.c.call(ctx, "/lookup", q, &out)
	return out.Result, out.Found, effect(err)
}

func (w world) Claim(ctx context.Context, credential string) error {
	return effect(w.c.call(ctx, "/claim", claimRequest{credential}, nil))
}

func (w world) Resolve(ctx context.Context, kind, id string) (out api.Resolution, err error) {
	err = w.c.call(ctx, "/resolve", nameRequest{kind, id}, &out)
	return out, err
}

func (w world) Now() (now time.Time, err error) {
	err = w.c.call(context.Background(), "/now", struct{}{}, &now)
	return now, err
}
