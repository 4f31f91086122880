package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"countersign/gateway/api"
	"countersign/gateway/httpapi"
	"countersign/modes"
	"countersign/scenarios"
	"countersign/scenarios/provider"
)

const (
	// soakAddress is where the gateways are to callers, who know them as one: proofs name
	// it. Nobody connects to it.
	soakAddress = "http://localhost:8800"

	// callTimeout ends a request of a soak. A gateway waits 30 seconds for its provider.
	callTimeout = time.Minute
)

// gatewayServes is what a gateway says when it is ready.
var gatewayServes = regexp.MustCompile(`, on http://(\S+)\n`)

// A fleet is what a soak runs against: a provider in this process, and gateways in
// processes of their own over one store.
type fleet struct {
	world   *provider.World
	served  *http.Server
	gates   []*child
	logs    []string // their audit logs
	clients []*httpapi.Client
	about   api.Description
	admin   api.Auth
	drop    func() error // the store

	restarting sync.Mutex   // one at a time
	disturbed  atomic.Int64 // odd while a gateway is down; other numbers, other times

	mu       sync.Mutex // of what follows
	restarts int
	slowest  time.Duration
	peak     int64
}

func openFleet(ctx context.Context, o soakOptions, folder, store string, m modes.Mode, sc *scenarios.Scenario) (_ *fleet, err error) {
	f := &fleet{drop: func() error { return nil }}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.close())
		}
	}()
	dir, err := os.MkdirTemp(folder, "gateways-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for logs: %w", err)
	}
	at, err := f.ownStore(ctx, store, dir)
	if err != nil {
		return nil, err
	}
	f.world, err = provider.New(provider.Config{Tools: sc.ToolTable(), Records: sc.Records, Reader: provider.Reader(sc.Reader), Clock: wallClock{}})
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("serving the provider: %w", err)
	}
	f.served = provider.NewServer(f.world)
	go func() { _ = f.served.Serve(l) }() // until it is closed; gateways notice if it ends before
	f.admin = api.Auth{Token: rand.Text()}
	env := []string{adminEnv + "=" + f.admin.Token, auditorEnv + "=" + rand.Text()}
	for i := range o.instances {
		log := filepath.Join(dir, fmt.Sprintf("gateway-%d.jsonl", i))
		c := &child{
			ctx: ctx, env: env, serves: gatewayServes, flags: []string{"--listen"},
			args: []string{
				"gateway", "--mode", m.ID, "--scenario", sc.ID, "--provider", "http://" + l.Addr().String(), "--store", at,
				"--keys", filepath.Join(dir, "keys"), "--audit", log, "--origin", soakAddress, "--public-url", soakAddress,
				"--rate", "0", "--stranger-rate", "0", "--log-format", "none",
			},
		}
		if err := c.start(); err != nil {
			return nil, err
		}
		f.gates, f.logs = append(f.gates, c), append(f.logs, log)
		f.clients = append(f.clients, httpapi.NewClient("http://"+c.at(0), &http.Client{
			Timeout: callTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: 4 * o.workers},
		}))
	}
	if f.about, err = f.clients[0].Describe(ctx); err != nil {
		return nil, fmt.Errorf("asking the gateway what it is: %w", err)
	}
	return f, nil
}

// ownStore makes a store that nobody else has, as its address for a gateway.
func (f *fleet) ownStore(ctx context.Context, given, dir string) (string, error) {
	if given == "sqlite" {
		return "sqlite:" + filepath.Join(dir, "store.db"), nil
	}
	p, err := placeOf(given)
	switch {
	case err != nil:
		return "", err
	case p == (place{}):
		return "", hint(errors.New("--store memory does not outlive a process, so every approval is lost with it"), "use sqlite")
	case p.file != "":
		return "", hint(errors.New("--store names a file, and a soak needs a store of its own"), "say --store sqlite; the file is where temporary files are (TMPDIR)")
	}
	u, err := url.Parse(p.address)
	if err != nil {
		return "", errors.New("--store is no URL such as postgres://USER@HOST/DATABASE") // which may have a password in it
	}
	name := "countersign_soak_" + strings.ToLower(rand.Text())
	if err := onServer(ctx, p.address, "CREATE DATABASE "+name); err != nil {
		return "", hint(fmt.Errorf("making a database on the server: %w", err), "its user needs the right to do so: ALTER ROLE … CREATEDB")
	}
	f.drop = func() error {
		// Also when the soak was interrupted.
		if err := onServer(context.Background(), p.address, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			return fmt.Errorf("dropping the database %s: %w", name, err)
		}
		return nil
	}
	u.Path = "/" + name
	return u.String(), nil
}

func onServer(ctx context.Context, address, statement string) error {
	c, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	_, err = c.Exec(ctx, statement)
	return errors.Join(err, c.Close(context.WithoutCancel(ctx)))
}

// close ends what still runs.
func (f *fleet) close() error {
	var errs []error
	for _, g := range f.gates {
		errs = append(errs, g.kill())
	}
	if f.served != nil {
		_ = f.served.Close() // nobody asks any more
	}
	return errors.Join(append(errs, f.drop())...)
}

// silent says that no gateway answers, and what those have said that ended.
func (f *fleet) silent(err error) error {
	errs := []error{fmt.Errorf("no answer for %v: %w", patience, err)}
	for i, g := range f.gates {
		if said, over := g.over(); over {
			errs = append(errs, fmt.Errorf("gateway %d has ended: %s", i, said))
		}
	}
	return errors.Join(errs...)
}

// stop ends the gateways as an operator does.
func (f *fleet) stop() error {
	f.measure()
	var errs []error
	for _, g := range f.gates {
		errs = append(errs, g.stop())
	}
	return errors.Join(errs...)
}

// restart kills a gateway and starts it again, while the others go on.
func (f *fleet) restart(ctx context.Context, i int) error {
	f.restarting.Lock()
	defer f.restarting.Unlock()
	if said, over := f.gates[i].over(); over {
		return fmt.Errorf("gateway %d ended by itself: %s", i, said)
	}
	f.measure()
	f.disturbed.Add(1)
	defer f.disturbed.Add(1)
	if err := f.gates[i].kill(); err != nil {
		return fmt.Errorf("killing gateway %d: %w", i, err)
	}
	since := time.Now()
	if err := f.gates[i].again(ctx); err != nil {
		return fmt.Errorf("starting gateway %d again: %w", i, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.restarts++
	f.slowest = max(f.slowest, time.Since(since))
	return nil
}

// measure notes the most memory that any gateway had so far, and returns it; 0 where
// the system does not tell.
func (f *fleet) measure() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, g := range f.gates {
		f.peak = max(f.peak, peakMemory(g.pid()))
	}
	return f.peak
}

// peakMemory is the most resident memory that a process had, in bytes (proc_pid_status(5),
// VmHWM); 0 where that is not known.
func peakMemory(pid int) int64 {
	file, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	defer func() { _ = file.Close() }() // it was only read
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(text), " kB"), 10, 64)
			if err != nil || kib > math.MaxInt64>>10 {
				return 0
			}
			return kib << 10
		}
	}
	return 0
}
