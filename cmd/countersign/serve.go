package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"countersign/gateway"
	"countersign/gateway/api"
	"countersign/gateway/store"
	"countersign/modes"
	"countersign/modes/passkey"
	"countersign/results"
	"countersign/scenarios/provider"
)

const (
	// issuer is the gateway's name in permits, wherever it listens.
	issuer = "https://gateway.example"

	adminEnv   = "COUNTERSIGN_ADMIN_TOKEN"
	auditorEnv = "COUNTERSIGN_AUDITOR_TOKEN"

	// shutdownGrace is how long calls in progress may take after a signal.
	shutdownGrace = 10 * time.Second
)

// wallClock is the real time, for servers.
type wallClock struct{}

func (wallClock) Now() (time.Time, error) { return time.Now().UTC(), nil }

// listener opens the TCP port that a flag names. An address that others can reach is refused unless it is
// protected, or the caller insists.
func listener(flag, address string, insecure bool, why string) (net.Listener, error) {
	addr, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--%s %q: want HOST:PORT, such as 127.0.0.1:8800: %w", flag, address, err)
	}
	if !addr.IP.IsLoopback() && !insecure {
		return nil, hint(fmt.Errorf("--%s %q: %s, so only a loopback address is served", flag, address, why),
			"use 127.0.0.1, or say --insecure-listen if the network is yours alone")
	}
	l, err := net.ListenTCP("tcp", addr)
	if err != nil {
		return nil, hint(fmt.Errorf("listening: %w", err), "choose another port with --%s; port 0 takes a free one", flag)
	}
	return l, nil
}

func newProvider() *cobra.Command {
	var id, listen string
	var insecure bool
	cmd := &cobra.Command{
		Use:   "provider",
		Short: "Serve a scenario's provider over HTTP",
		Long: `Provider serves the fixture service of a scenario: the effects a gateway guards,
the reference data behind them, and a ledger. GET /v1/ledger, PUT /v1/records and
POST /v1/faults are the lab's side and have no access control. Everything is in
memory and ends with the process.`,
		Example: `  countersign provider --scenario payments
  curl http://127.0.0.1:8801/v1/ledger`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			sc, err := scenario(id)
			if err != nil {
				return err
			}
			w, err := provider.New(provider.Config{Tools: sc.ToolTable(), Records: sc.Records, Reader: provider.Reader(sc.Reader), Clock: wallClock{}})
			if err != nil {
				return err
			}
			l, err := listener("listen", listen, insecure, "the ledger and the faults have no access control")
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(cmd.OutOrStdout(), "provider of scenario %s on http://%s\n", sc.ID, l.Addr()); err != nil {
				return errors.Join(err, l.Close())
			}
			return serve(cmd.Context(), l, provider.NewServer(w))
		},
	}
	cmd.Flags().StringVar(&id, "scenario", "", "scenario whose tools and reference data are served (required)")
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:8801", "address to listen on")
	cmd.Flags().BoolVar(&insecure, "insecure-listen", false, "serve on an address that others can reach, without access control")
	_ = cmd.MarkFlagRequired("scenario") // fails for an unknown flag only
	return cmd
}

// serve answers until the context ends, and lets calls in progress finish.
func serve(ctx context.Context, l net.Listener, s *http.Server) error {
	failed := make(chan error, 1)
	go func() { failed <- s.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serving on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer cancel()
	if err := s.Shutdown(grace); err != nil {
		return errors.Join(fmt.Errorf("shutting down: calls were still in progress after %v: %w", shutdownGrace, err), s.Close())
	}
	return nil
}

// gatewayOptions are the flags of the command gateway.
type gatewayOptions struct {
	mode, store, provider, scenario string
	adminFile, auditorFile          string
	origin                          string
	ttl                             time.Duration
	keys, audit                     string
	auditKey, auditValues           string
	server                          serverOptions
	lab, labFile                    string
}

func newGateway() *cobra.Command {
	var o gatewayOptions
	cmd := &cobra.Command{
		Use:   "gateway",
		Short: "Serve an approval gateway over HTTP",
		Long: `Gateway serves one approval design over the HTTP contract (GET /v1/openapi.yaml), on
the real clock, in front of a provider.

With --store sqlite:FILE several gateways on one machine may share the file; give
each its own --audit file and all the same keys. Keys are kept in FILE.keys, with
mode 0600, unless --keys names another file, so permits survive a restart.

Every decision is in the audit log before it has an effect, and checkpoints of the log
are signed: see countersign audit --help.

With --store postgres://USER@HOST/DATABASE gateways on several machines share the
schema countersign of a PostgreSQL database (14 or newer), which the first one
makes. Give every one a copy of the same --keys file, which the first one makes
too, its own --audit file, and the same --origin. The password comes from
PGPASSWORD or a password file (~/.pgpass), never from the command line; to
another machine the connection is encrypted and the server has to prove its name,
unless sslmode says otherwise. A server that may forget commits is refused (fsync,
full_page_writes). So is a restored backup or a promoted standby, which may lack
what was spent last, until the address says accept_history=…, as the error tells.

With --store memory everything is forgotten at the end: keys are fresh each time,
so whatever was approved before is refused afterwards, and a provider that an
earlier gateway claimed has to be started anew.

Others than this machine are served over TLS (--tls-cert, --tls-key), or behind a
proxy that ends TLS and is named by --public-url, as which DPoP proofs know this
gateway. Each request is logged without anything that its caller chose, and is
counted at --metrics-listen. docs/server.md goes through a first approval.

The operators' tokens are read from files or from the environment
(` + adminEnv + `, ` + auditorEnv + `). Where neither is given, they
are made and printed once; the store keeps their digests only. With the first the
administrator enrols agents and people (POST /v1/admin/events), with the second the
auditor reads the decision log (GET /v1/audit).

With --lab the gateway is there to be attacked by countersign run --target: the lab
deploys it, holds the provider and the clock, and makes it fail and crash. Whoever
reaches the control can do all that; it is never served without --lab.`,
		Example: `  countersign provider --scenario payments &
  countersign gateway --scenario payments --provider http://127.0.0.1:8801 --store sqlite:approvals.db
  countersign gateway --scenario payments --provider http://127.0.0.1:8801 --store postgres://gateway@db.example/approvals \
      --keys gateway.keys --audit gateway-1.audit.jsonl --origin https://approve.example
  countersign gateway --mode M4 --scenario payments --provider http://127.0.0.1:8801 --listen 127.0.0.1:0
  countersign gateway --lab 127.0.0.1:8899 --store sqlite:lab.db
  countersign gateway --scenario payments --provider http://127.0.0.1:8801 --store sqlite:approvals.db \
    --listen :8443 --tls-cert cert.pem --tls-key key.pem --public-url https://approvals.example:8443 --metrics-listen 127.0.0.1:9464`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.lab != "" {
				return o.serveLab(cmd)
			}
			return o.serve(cmd)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.mode, "mode", "M9", "approval design, by id or name; countersign modes lists them")
	f.StringVar(&o.scenario, "scenario", "", "scenario whose tool table is guarded (required)")
	f.StringVar(&o.provider, "provider", "", "address of the provider, such as http://127.0.0.1:8801 (required)")
	f.StringVar(&o.store, "store", "memory", "where approvals are kept: memory, sqlite:FILE, or postgres://USER@HOST/DATABASE")
	f.StringVar(&o.keys, "keys", "", "JWK Set with the gateway's keys, made when absent (default: FILE.keys beside the SQLite file; needed with PostgreSQL)")
	f.StringVar(&o.audit, "audit", "", "append-only audit log, made when absent (default: FILE.audit.jsonl beside the SQLite file; needed with PostgreSQL); with --lab a folder, for a log of each deployment")
	f.StringVar(&o.auditKey, "audit-key", "", "Ed25519 key that signs the checkpoints of the audit log, made when absent (default: the log's name and .key)")
	f.StringVar(&o.auditValues, "audit-values", "", "what the digests in the audit log stand for, kept apart; none for no file (default: the log's name and .values.jsonl)")
	f.StringVar(&o.adminFile, "admin-token-file", "", "file that holds the administrator's token")
	f.StringVar(&o.auditorFile, "auditor-token-file", "", "file that holds the auditor's token")
	f.StringVar(&o.origin, "origin", "", "web origin of the approver's page, which is not served here (default: http://localhost and the port)")
	f.DurationVar(&o.ttl, "ttl", 15*time.Minute, "how long after its suspension an approval may be used")
	o.server.flags(f)
	o.labFlags(cmd)
	return cmd
}

func (o gatewayOptions) serve(cmd *cobra.Command) (err error) {
	ctx, out, warn := cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	mode, err := modes.Get(o.mode)
	if err != nil {
		return hint(err, "countersign modes lists them with their bindings")
	}
	sc, err := scenario(o.scenario)
	if err != nil {
		return err
	}
	if o.ttl < time.Second {
		return fmt.Errorf("--ttl is %v, want at least a second", o.ttl)
	}
	admin, err := operatorToken("administrator", o.adminFile, adminEnv)
	if err != nil {
		return err
	}
	auditor, err := operatorToken("auditor", o.auditorFile, auditorEnv)
	if err != nil {
		return err
	}
	if admin.text == auditor.text {
		return errors.New("administrator and auditor have the same token: give each their own")
	}
	place, err := o.place()
	if err != nil {
		return err
	}

	server, err := o.server.open(warn)
	if err != nil {
		return err
	}
	defer server.close()
	if o.origin == "" {
		o.origin = "http://localhost:" + strconv.Itoa(server.l.Addr().(*net.TCPAddr).Port)
	}
	if _, err := passkey.New(o.origin); err != nil { // before the provider is asked
		return fmt.Errorf("--origin: %w", err)
	}
	client, err := provider.NewClient(o.provider, 0)
	if err != nil {
		return fmt.Errorf("--provider: %w", err)
	}
	if place.file == "" && place.address == "" {
		fmt.Fprintln(warn, "countersign: warning: --store memory serves one process and forgets everything at its end; what was approved before is then refused")
	}
	rows, err := place.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	log, err := o.openAudit(place.file, out, warn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.close()) }()
	if o.keys == "" && place.file != "" {
		o.keys = place.file + ".keys"
	}
	if err := o.keysOfStore(ctx, place, rows); err != nil {
		return err
	}
	keys, err := loadKeys(issuer, o.keys)
	if err != nil {
		return err
	}
	// Before the claim, which nobody can take back.
	tools, err := client.Tools(ctx)
	if err != nil {
		return startHint(fmt.Errorf("reading the provider's tools: %w", err), o)
	}
	if !sameTools(tools, sc.ToolTable()) {
		return hint(fmt.Errorf("the provider at %s has other tools than scenario %s", o.provider, sc.ID), "start both with one --scenario")
	}
	if err := belongs(ctx, rows, mode.ID, sc.ID); err != nil {
		return err
	}
	g, err := gateway.New(ctx, gateway.Config{
		Mode: mode, Approvals: rows, Registry: rows, Audit: log.Log, Values: log.values, Keys: keys.keys, Version: results.NewManifest(nil, 0, time.Time{}).Module,
		ProvenKeys: o.server.agentCertificates,
		Deployment: api.Deployment{
			Issuer: issuer, Tools: sc.ToolTable(), Provider: client, Directory: client, Clock: wallClock{}, ApprovalTTL: o.ttl,
			AdminToken: admin.text, AuditorToken: auditor.text, Origin: o.origin, ProviderCredential: keys.credential, SecretKey: keys.secrets,
			DispatchURI: server.dispatchURI(),
		},
	})
	if err != nil {
		return startHint(err, o)
	}
	if err := announce(ctx, out, g, admin, auditor); err != nil {
		return err
	}
	if server.metricsL != nil {
		if _, err := fmt.Fprintf(out, "metrics, without access control, on http://%s/metrics\n", server.metricsL.Addr()); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(out, "gateway %s %s, scenario %s, store %s, origin of the approver's page (not served here) %s, public address %s, on %s\n",
		mode.ID, mode.Name, sc.ID, o.store, o.origin, server.public, server.address())
	if err != nil {
		return err
	}
	return server.serve(ctx, g, wallClock{})
}

// sameTools compares tool tables, in whatever order.
func sameTools(a, b []api.Tool) bool {
	texts := func(tools []api.Tool) []string {
		var out []string
		for _, t := range tools {
			text, err := json.Marshal(t)
			if err != nil {
				return []string{err.Error()}
			}
			out = append(out, string(text))
		}
		slices.Sort(out)
		return out
	}
	return slices.Equal(texts(a), texts(b))
}

// deployment names the row that every store in use has.
var deployment = store.Row{Kind: "deployment", ID: "served"}

// belongs makes a store that of one design, scenario and issuer at its first use:
// what one design has approved must not be executed by the rules of another.
func belongs(ctx context.Context, rows store.Store, mode, scenario string) error {
	want := fmt.Sprintf("mode %s, scenario %s, issuer %s", mode, scenario, issuer)
	_, err := rows.Create(ctx, store.Row{Kind: deployment.Kind, ID: deployment.ID, Body: []byte(want)})
	if !errors.Is(err, store.ErrExists) {
		return err
	}
	row, err := rows.Get(ctx, deployment.Kind, deployment.ID)
	if err != nil {
		return err
	}
	if string(row.Body) != want {
		return hint(fmt.Errorf("the store is that of %s, not of %s", row.Body, want), "give each its own --store")
	}
	return nil
}

func startHint(err error, o gatewayOptions) error {
	var refused *api.ProviderError
	switch {
	case errors.As(err, &refused) && refused.Code == "credential":
		return hint(err, "another gateway claimed this provider: give this one the same --keys, or start the provider anew")
	case errors.Is(err, api.ErrNotSent), errors.Is(err, api.ErrNoAnswer):
		return hint(err, "is the provider running? countersign provider --scenario %s", o.scenario)
	}
	return err
}

// A place is where a store is: in a file, at an address, or in memory.
type place struct{ file, address string }

// place reads --store and refuses what does not go with it.
func (o gatewayOptions) place() (place, error) {
	p, err := placeOf(o.store)
	switch {
	case err != nil:
		return place{}, err
	case p == place{} && o.keys != "":
		return place{}, hint(errors.New("--keys with --store memory: permits would outlive the memory of what is spent, and could be spent again"),
			"use --store sqlite:FILE")
	case p.address != "" && (o.keys == "" || o.audit == ""):
		return place{}, hint(errors.New("--store postgres: needs --keys and --audit"), "give every gateway a copy of one key file, and an audit file of its own")
	}
	return p, nil
}

// placeOf reads --store. Errors do not repeat what may be a password.
func placeOf(given string) (place, error) {
	file, isFile := strings.CutPrefix(given, "sqlite:")
	scheme, _, _ := strings.Cut(given, ":")
	switch {
	case given == "memory":
		return place{}, nil
	case isFile && file != "":
		return place{file: file}, nil
	case scheme != "postgres" && scheme != "postgresql":
		if strings.Contains(given, "@") {
			given = scheme + ":…"
		}
		return place{}, fmt.Errorf("--store is %q, want memory, sqlite:FILE or postgres://USER@HOST/DATABASE", given)
	}
	// What cannot be parsed is refused by the store, without being repeated.
	if u, err := url.Parse(given); err == nil {
		if _, has := u.User.Password(); has {
			return place{}, hint(errors.New("--store has a password in it, where every user of this machine can read it"), "take it out, and set PGPASSWORD or use a password file (~/.pgpass)")
		}
	}
	return place{address: given}, nil
}

// open opens the store, in memory if it is nowhere else.
func (p place) open(ctx context.Context) (store.Store, error) {
	switch {
	case p.address != "":
		return store.OpenPostgres(ctx, p.address)
	case p.file != "":
		return store.OpenSQLite(p.file)
	}
	return store.NewMemory(), nil
}

// keysOfStore keeps a gateway that joins others on several machines from making
// keys that the others do not have.
func (o gatewayOptions) keysOfStore(ctx context.Context, p place, rows store.Store) error {
	if p.address == "" {
		return nil
	}
	if _, err := os.Stat(o.keys); !errors.Is(err, fs.ErrNotExist) {
		return nil // loading them says what is wrong
	}
	switch _, err := rows.Get(ctx, deployment.Kind, deployment.ID); {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err != nil:
		return err
	}
	return hint(fmt.Errorf("the store is in use, and there is no key file %s", o.keys), "copy the key file of the gateway that made the store; fresh keys would refuse what was approved")
}

// A token is an operator's, given or made.
type token struct {
	who, text string
	made      bool
}

// minToken is the length of the shortest token that is accepted, in characters.
const minToken = 16

// operatorToken reads a token from a file or the environment, or makes one.
func operatorToken(who, file, env string) (token, error) {
	t := token{who: who}
	from := "the file " + file
	if file != "" {
		text, err := results.ReadRegular(file)
		if err != nil {
			return t, fmt.Errorf("reading the %s's token: %w", who, err)
		}
		t.text = strings.TrimRight(string(text), "\r\n")
	} else if text, ok := os.LookupEnv(env); ok {
		t.text, from = text, "the variable "+env
	} else {
		t.text, t.made = base64.RawURLEncoding.EncodeToString(secret()), true
		return t, nil
	}
	if len(t.text) < minToken || strings.ContainsFunc(t.text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return t, fmt.Errorf("%s holds no usable token for the %s: want at least %d printable ASCII characters without spaces", from, who, minToken)
	}
	return t, nil
}

// announce prints the tokens that were made. A store that has been used keeps the
// operators it has, so a token that was given and does not fit is an error.
func announce(ctx context.Context, w io.Writer, g *gateway.Gateway, admin, auditor token) error {
	for _, t := range []token{admin, auditor} {
		// A call that no operator may make tells a known token from an unknown one
		// and changes nothing.
		_, err := g.Preview(ctx, api.Auth{Token: t.text}, api.Action{})
		known := errors.Is(err, api.ErrForbidden)
		switch {
		case !known && !errors.Is(err, api.ErrUnauthenticated):
			return fmt.Errorf("checking the %s's token: %w", t.who, err)
		case known && t.made:
			_, err = fmt.Fprintf(w, "token of the %s (shown once): %s\n", t.who, t.text)
		case !known && t.made:
			_, err = fmt.Fprintf(w, "the %s's token is the one that was given or printed when this store was made\n", t.who)
		case !known:
			return fmt.Errorf("the %s's token is not the one that this store was made with", t.who)
		default:
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}
