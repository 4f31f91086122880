package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"countersign/attacks/harness"
	"countersign/audit"
	"countersign/gateway/api"
	"countersign/gateway/lab"
	"countersign/gateway/lab/wire"
	"countersign/gateway/store"
	"countersign/modes"
)

// labEnv holds the token that the control of gateway --lab wants.
const labEnv = "COUNTERSIGN_LAB_TOKEN"

// serveLab serves targets for the lab: what is deployed, and how it fails, is said
// over a control of its own. Nothing that it holds outlives the process but the rows
// of the store, which are kept apart by deployment.
func (o gatewayOptions) serveLab(cmd *cobra.Command) (err error) {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	mode, err := modes.Get(o.mode)
	if err != nil {
		return hint(err, "countersign modes lists them with their bindings")
	}
	secret, err := operatorToken("lab", o.labFile, labEnv)
	if err != nil {
		return err
	}
	shared, err := o.labStore(ctx)
	if err != nil {
		return err
	}
	about := wire.About{ID: mode.ID, Name: mode.Name, ModelledOn: mode.ModelledOn}
	if shared != nil {
		defer func() { err = errors.Join(err, shared.Close()) }()
		if about.Store, err = nameStore(ctx, shared); err != nil {
			return err
		}
	}
	targets, err := listener("listen", o.server.listen, false, "a lab's gateway is nobody else's")
	if err != nil {
		return err
	}
	defer func() { _ = targets.Close() }() // closed by then, unless something failed
	control, err := listener("lab", o.lab, false, "whoever reaches the control can do anything to the gateway")
	if err != nil {
		return err
	}
	defer func() { _ = control.Close() }()
	s := wire.NewServer(about, secret.text, "http://"+targets.Addr().String(), labDeployer(mode, shared, o.audit))
	if secret.made {
		if _, err := fmt.Fprintf(out, "token of the lab (shown once): %s\n", secret.text); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintf(out, "gateway %s %s for the lab, store %s, targets on http://%s, control on http://%s\n", mode.ID, mode.Name, o.store, targets.Addr(), control.Addr()); err != nil {
		return err
	}
	both, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 2)
	go func() { ended <- serve(both, control, labServer(s.Control())) }()
	go func() { ended <- serve(both, targets, labServer(s.Targets())) }()
	first := <-ended
	cancel()
	return errors.Join(first, <-ended)
}

func labServer(h http.Handler) *http.Server {
	return &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 20 * time.Second, WriteTimeout: 2 * time.Minute, IdleTimeout: time.Minute}
}

// labStore opens the store that deployments share; nil where each has memory of its
// own.
func (o gatewayOptions) labStore(ctx context.Context) (store.Store, error) {
	p, err := placeOf(o.store)
	if err != nil || p == (place{}) {
		return nil, err
	}
	return p.open(ctx)
}

// labDeployer makes the factory of a deployment over its part of a store, with its log
// in a folder (empty: in memory). Keys are those of another process with the same
// deployment, which needs a store to share.
func labDeployer(m modes.Mode, shared store.Store, logs string) wire.Deployer {
	return func(id string, keys json.RawMessage, watch func(string)) (_ api.Factory, made json.RawMessage, _ io.Closer, err error) {
		set, err := newKeySet()
		if err != nil {
			return nil, nil, nil, err
		}
		if keys != nil {
			if shared == nil {
				return nil, nil, nil, errors.New("a deployment that goes on, or that two processes have, needs a store that outlives them: --store sqlite:FILE or postgres://USER@HOST/DATABASE")
			}
			if set, err = parseKeySet(keys); err != nil {
				return nil, nil, nil, fmt.Errorf("reading the keys of the deployment: %w", err)
			}
		}
		if made, err = json.Marshal(set); err != nil {
			return nil, nil, nil, fmt.Errorf("writing the keys of the deployment: %w", err)
		}
		p := lab.Parts{Store: store.NewMemory(), Log: audit.NewMemory(), Watch: watch}
		if shared != nil {
			if p.Store, err = store.Within(shared, id); err != nil {
				return nil, nil, nil, err
			}
		}
		var closer io.Closer = p.Store
		if logs != "" {
			f, err := audit.OpenFile(filepath.Join(logs, id+".jsonl"))
			if err != nil {
				return nil, nil, nil, err
			}
			p.Log, closer = f, f
		}
		return func(ctx context.Context, d api.Deployment) (api.Bench, error) {
			use, err := useKeySet(d.Issuer, set)
			if err != nil {
				return api.Bench{}, err
			}
			p.Keys = use.keys
			return lab.DeployWith(m, p)(ctx, d)
		}, made, closer, nil
	}
}

// nameStore returns the random id of a store, which it is given at its first use, so
// that two gateways can be told to share it.
func nameStore(ctx context.Context, s store.Store) (string, error) {
	row := store.Row{Kind: "lab", ID: "store", Body: []byte(rand.Text())}
	if _, err := s.Create(ctx, row); err != nil && !errors.Is(err, store.ErrExists) {
		return "", err
	}
	row, err := s.Get(ctx, row.Kind, row.ID)
	return string(row.Body), err
}

// labFlags are the flags with which a gateway is the lab's.
func (o *gatewayOptions) labFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.lab, "lab", "", "serve targets for the lab instead, and their control (provider, clock, faults, crashes) on this loopback address; countersign run --target attacks them")
	cmd.Flags().StringVar(&o.labFile, "lab-token-file", "", "file that holds the token of the control (default: "+labEnv+", else one is made and printed)")
	cmd.MarkFlagsOneRequired("lab", "scenario")
	cmd.MarkFlagsOneRequired("lab", "provider")
	for _, other := range []string{"scenario", "provider", "keys", "admin-token-file", "auditor-token-file", "origin", "ttl",
		"insecure-listen", "tls-cert", "tls-key", "agent-certificates", "public-url", "rate", "stranger-rate", "trusted-proxy", "metrics-listen", "log-format",
	} {
		cmd.MarkFlagsMutuallyExclusive("lab", other)
	}
}

// wired are the flags of a run against gateways in other processes.
type wired struct {
	targets   []string
	tokenFile string
	races     int
}

func (w *wired) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&w.targets, "target", nil, "control of a gateway in another process (countersign gateway --lab), such as http://127.0.0.1:8899; of two that share a store: both, with a comma")
	f.StringVar(&w.tokenFile, "target-token-file", "", "file that holds the token of the control (default: "+labEnv+")")
	f.IntVar(&w.races, "races", harness.DefaultRaces, "how often a race over the wire is run, whose order nobody can keep; the record says how often there was no effect, one, or more, and is of the first that went wrong")
	for _, other := range []string{"modes", "ablate", "beside", "compose", "modes-file"} {
		cmd.MarkFlagsMutuallyExclusive("target", other)
	}
}

// dial makes a target of the gateways, or none where no --target is given. It has the
// id of the mode that they are of, so that its records can be held against those of
// a run in one process.
func (w wired) dial(ctx context.Context) (targets []harness.Target, hangUp func(), err error) {
	if len(w.targets) == 0 {
		return nil, func() {}, nil
	}
	t, err := operatorToken("lab", w.tokenFile, labEnv)
	switch {
	case err != nil:
		return nil, nil, err
	case t.made:
		return nil, nil, hint(errors.New("--target needs the token of the gateway's control"),
			"set "+labEnv+" or --target-token-file to what countersign gateway --lab printed or was given")
	}
	r, err := wire.Dial(ctx, w.targets, t.text)
	if err != nil {
		return nil, nil, hint(fmt.Errorf("--target: %w", err), "countersign gateway --lab 127.0.0.1:8899 serves one")
	}
	a := r.About()
	return []harness.Target{{ID: a.ID, Name: a.Name, ModelledOn: a.ModelledOn, Deploy: r.Deploy}}, r.Close, nil
}
