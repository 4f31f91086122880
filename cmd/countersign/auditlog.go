package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"countersign/audit"
)

const (
	// checkpointEvery and checkpointPeriod say when a gateway signs its audit log, beside
	// its start and its end: after so many entries, and after so long if there are any.
	checkpointEvery  = 1000
	checkpointPeriod = time.Minute

	// noValues as the file of values keeps none.
	noValues = "none"
)

// The files of an audit log are named after it.
func checkpointsOf(log string) string { return log + ".checkpoints" }
func auditKeyOf(log string) string    { return log + ".key" }
func valuesOf(log string) string      { return log + ".values.jsonl" }

// A gatewayAudit is the audit log of a gateway with what is beside it.
type gatewayAudit struct {
	audit.Log
	values audit.Keeper // nil where none are kept
	close  func() error
}

// openAudit opens the audit log of a gateway, signs what it holds, and goes on signing.
// Without a store's file and without one of its own the log is in memory, and nothing
// is signed or kept.
func (o gatewayOptions) openAudit(store string, out, warn io.Writer) (_ gatewayAudit, err error) {
	path := o.audit
	if path == "" && store != "" {
		path = store + ".audit.jsonl"
	}
	if path == "" {
		if o.auditKey != "" || o.auditValues != "" && o.auditValues != noValues {
			return gatewayAudit{}, hint(errors.New("--audit-key and --audit-values are for an audit log in a file"), "name one: --audit FILE")
		}
		return gatewayAudit{Log: audit.NewMemory(), close: func() error { return nil }}, nil
	}
	if o.auditKey == "" {
		o.auditKey = auditKeyOf(path)
	}
	if o.auditValues == "" {
		o.auditValues = valuesOf(path)
	}
	key, err := loadAuditKey(o.auditKey)
	if err != nil {
		return gatewayAudit{}, fmt.Errorf("reading the audit log's key %s: %w", o.auditKey, err)
	}
	log, err := audit.OpenFile(path)
	if err != nil {
		return gatewayAudit{}, hint(err, "each gateway needs an audit file of its own: --audit FILE")
	}
	closing := []func() error{log.Close}
	defer func() {
		if err != nil {
			err = errors.Join(err, closeAll(closing))
		}
	}()
	if cut := log.Truncated(); len(cut) > 0 {
		fmt.Fprintf(warn, "countersign: warning: the audit log %s ended in an unfinished line of %d bytes, which was never acknowledged and is removed\n", path, len(cut))
	}
	err = log.SignWith(audit.Signing{Path: checkpointsOf(path), Key: key, Every: checkpointEvery, Now: wallClock{}.Now, Warn: func(err error) {
		fmt.Fprintf(warn, "countersign: warning: %v\n", err)
	}})
	if err != nil {
		return gatewayAudit{}, hint(err, "keep all of it for inquiry, and start a new log with --audit FILE; countersign audit verify says more")
	}
	g := gatewayAudit{Log: log}
	if o.auditValues != noValues {
		values, err := audit.OpenValues(o.auditValues)
		if err != nil {
			return gatewayAudit{}, hint(err, "--audit-values names another file, or none")
		}
		g.values = values
		closing = append(closing, values.Close)
	}
	if _, err := fmt.Fprintf(out, "audit log %s, verifier key %s\n", path, key.Public()); err != nil {
		return gatewayAudit{}, err
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(checkpointPeriod)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				if err := log.Checkpoint(); err != nil {
					fmt.Fprintf(warn, "countersign: warning: %v\n", err)
				}
			}
		}
	}()
	g.close = func() error {
		close(stop)
		<-stopped
		return closeAll(closing)
	}
	return g, nil
}

func closeAll(closing []func() error) error {
	var errs []error
	for _, c := range closing {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}

// loadAuditKey reads a key, and makes it where there is none. Its name is random, so
// that no two logs have one: a checkpoint is of the log whose name it has.
func loadAuditKey(path string) (audit.Key, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		fresh, err := audit.NewKey(strings.TrimPrefix(issuer, "https://") + "/audit/" + hex.EncodeToString(secret()[:8]))
		if err != nil {
			return audit.Key{}, err
		}
		if err := createSecret(path, []byte(fresh.Secret()+"\n")); err != nil {
			return audit.Key{}, err
		}
	}
	text, err := readSecret(path)
	if err != nil {
		return audit.Key{}, err
	}
	return audit.ParseKey(strings.TrimSuffix(string(text), "\n"))
}
