package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"time"
)

// A child is a gateway in a process of its own, which comes back at its addresses.
type child struct {
	ctx    context.Context // the process ends with it
	args   []string
	env    []string
	serves *regexp.Regexp // what it says when it is ready, with a group for each address
	flags  []string       // of the addresses, in the order of the groups

	mu        sync.Mutex
	addresses []string // nil before the first start
	cmd       *exec.Cmd
	ended     chan struct{}
	out       *watchedOutput
}

const (
	startTimeout = 2 * time.Minute // it reads its whole audit log first
	startAgain   = 5               // attempts, where a port is not free yet
	stopTimeout  = 30 * time.Second
)

// start starts the process and waits until it serves.
func (c *child) start() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	out := &watchedOutput{wanted: c.serves, found: make(chan []string, 1)}
	cmd := exec.CommandContext(c.ctx, self)
	cmd.Args = append([]string{"countersign"}, c.args...)
	for i, flag := range c.flags {
		address := "127.0.0.1:0"
		if c.addresses != nil {
			address = c.addresses[i]
		}
		cmd.Args = append(cmd.Args, flag, address)
	}
	cmd.Env = append(os.Environ(), c.env...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the gateway: %w", err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	c.cmd, c.ended, c.out = cmd, ended, out
	select {
	case m := <-out.found:
		c.addresses = m[1:]
		return nil
	case <-ended:
		return fmt.Errorf("the gateway ended at once: %s", out.text())
	case <-time.After(startTimeout):
		return fmt.Errorf("the gateway does not serve after %v: %s", startTimeout, out.text())
	}
}

// at is the address of one of the flags, of a process that has served.
func (c *child) at(flag int) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.addresses[flag]
}

func (c *child) pid() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cmd.Process.Pid
}

// over reports whether the process has ended, and what it said last.
func (c *child) over() (said string, over bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.ended:
		return c.out.text(), true
	default:
		return "", false
	}
}

// again starts the process once more, when it has ended.
func (c *child) again(context.Context) (err error) {
	if _, over := c.over(); !over {
		return errors.New("the gateway gives no answer, and its process has not ended")
	}
	for range startAgain {
		if err = c.start(); err == nil {
			return nil
		}
	}
	return err
}

// kill ends the process as kill -9 does, and waits until it is gone.
func (c *child) kill() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-c.ended
	return nil
}

// stop asks the process to end, as an operator does, and waits until it has.
func (c *child) stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.cmd.Process.Signal(os.Interrupt); err != nil {
		return fmt.Errorf("stopping the gateway: %w: %s", err, c.out.text())
	}
	select {
	case <-c.ended:
	case <-time.After(stopTimeout):
		return fmt.Errorf("the gateway does not end %v after it was asked to: %s", stopTimeout, c.out.text())
	}
	if code := c.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("the gateway ended with %d: %s", code, c.out.text())
	}
	return nil
}

// watchedOutput looks in what a process writes for what it says when it serves, and
// keeps the end of it.
type watchedOutput struct {
	wanted *regexp.Regexp
	found  chan []string

	mu    sync.Mutex
	ready bool
	last  []byte
}

// maxOutput is how much is kept of what a process writes, in bytes.
const maxOutput = 16 << 10

func (o *watchedOutput) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last = append(o.last, p...)
	if m := o.wanted.FindStringSubmatch(string(o.last)); m != nil && !o.ready {
		o.ready = true
		o.found <- m
	}
	if n := len(o.last) - maxOutput; n > 0 {
		o.last = bytes.Clone(o.last[n:])
	}
	return len(p), nil
}

func (o *watchedOutput) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.TrimSpace(string(o.last))
}
