//go:build linux || darwin

package gateway_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"countersign/audit"
	"countersign/gateway/api"
)

// TestDiskFull: with no room for a line of the log nothing is decided and nothing is
// sent; part of a line that got through is no entry. When there is room again, the
// same approval makes its one effect, and the log is whole.
func TestDiskFull(t *testing.T) {
	const alone = "COUNTERSIGN_TEST_DISK_FULL"
	if os.Getenv(alone) == "" {
		// The limit is the process's, and go test has this one write a file of its own.
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDiskFull$", "-test.v")
		cmd.Env = append(os.Environ(), alone+"=1")
		if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS: TestDiskFull")) {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	log, err := audit.OpenFile(path)
	must(t, err)
	defer log.Close()
	w := newWorldOf(t, "M9", log, nil)
	full := func(do func()) {
		t.Helper()
		info, err := os.Stat(path)
		must(t, err)
		var limit syscall.Rlimit
		must(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit))
		signal.Ignore(syscall.SIGXFSZ) // a write beyond the limit fails, with what got through
		defer signal.Reset(syscall.SIGXFSZ)
		small := limit
		small.Cur = uint64(info.Size()) + 100
		must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &small))
		defer func() { must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit)) }()
		do()
		if grown, err := os.Stat(path); err != nil || grown.Size() != info.Size()+100 {
			t.Errorf("%v: the file has %d bytes, want %d: no line was torn", err, grown.Size(), info.Size()+100)
		}
	}
	full(func() {
		if err := w.target.Admin(ctx, auth("admin"), api.Event{Kind: api.EventPolicyChange, Value: "policy-2"}); !errors.Is(err, api.ErrUnavailable) {
			t.Errorf("administered: %v", err)
		}
	})
	a := w.action("pay", 1)
	must(t, w.target.Admin(ctx, auth("admin"), api.Event{Kind: api.EventDisableAgent, Subject: "agent-b"}))
	full(func() {
		if _, err := w.target.Propose(ctx, auth("agent-a"), a); refusedBy(err) != "closed/unavailable" {
			t.Errorf("proposed: %v", err)
		}
	})
	id := w.pending(a)
	full(func() {
		if err := w.decide(id, "approver-p", api.Approve); refusedBy(err) != "closed/unavailable" {
			t.Errorf("decided: %v", err)
		}
	})
	must(t, w.decide(id, "approver-p", api.Approve))
	d := w.collect(a, id)
	full(func() { w.expect("dispatched", d, api.Held, "closed/unavailable", 0) })
	w.expect("with room again", d, api.Executed, "", 1)
	r, err := audit.Verify(path, path+".none", nil)
	must(t, err)
	if len(r.Tampering) != 0 || r.Unfinished != 0 || r.Entries != int64(len(w.entries())) {
		t.Errorf("the log: %+v", r)
	}
}
