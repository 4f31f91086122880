package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"countersign/gateway/api"
)

// Observed is what is said of a request once it is answered. It holds nothing that
// its caller chose: no argument, no token, no identifier that the target does not
// know.
type Observed struct {
	Operation string // of the document; "none" for an address or a method that is none
	Status    int    // of HTTP
	Code      string // of an error, as the document has them; empty for none
	Request   string // the identifier made for this request, which the answer has in Request-Id
	Remote    string // the address that it came from, as the rates count it
	Principal string // who called; empty where that is not known
	Role      api.Role
	// Suspension is the one that a call was about, if it succeeded.
	Suspension string
	// ArgumentsDigest is the hex SHA-256 of the arguments of an action as they were
	// sent. The audit log has that of the canonical arguments.
	ArgumentsDigest string
	// CallerRequest is a digest of the identifier that the caller gave to a dispatch.
	CallerRequest string
	Verdict       api.Verdict   // of a decision that was posted
	Results       []Result      // of a dispatch, those of its siblings included
	Refused       []api.Binding // the bindings that refused a call other than a dispatch
	Limited       string        // "principal" or "address" where a rate was exceeded, and whose
	// Latency is zero where the time is not known.
	Latency time.Duration
}

// A Result is what became of one call of a dispatch.
type Result struct {
	Status  api.Status
	Refused []api.Binding
}

func bindings(refusals []api.Refusal) []api.Binding {
	var out []api.Binding
	for _, r := range refusals {
		out = append(out, r.Binding)
	}
	return out
}

// asked notes what a request is about before it is answered.
func (o *Observed) asked(in any) {
	switch in := in.(type) {
	case *api.Action:
		o.ArgumentsDigest = digest(in.Arguments)
	case *api.Dispatch:
		o.ArgumentsDigest = digest(in.Action.Arguments)
		o.CallerRequest = digest([]byte(in.RequestID))[:16]
	case *api.Decision:
		o.Verdict = in.Verdict
	}
}

// answered notes what a target answered. id is that of the address.
func (o *Observed) answered(id string, out any) {
	o.Suspension = id
	switch out := out.(type) {
	case api.Pending:
		o.Suspension = out.Suspension
	case api.SuspensionStatus:
		o.Suspension = out.Suspension
	case api.View:
		o.Suspension = out.Suspension
	case api.Outcome:
		o.Suspension = out.Suspension
		for _, one := range append([]api.Outcome{out}, out.Siblings...) {
			o.Results = append(o.Results, Result{one.Status, bindings(one.Refusals)})
		}
	}
}

func digest(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// write logs a request. cause is what went wrong inside, stack where it panicked.
func (o *Observed) write(log *slog.Logger, cause, stack string) {
	if o.Limited == "address" {
		return // a stranger must not fill the log; metrics count it
	}
	level := slog.LevelInfo
	switch {
	case o.Status == http.StatusServiceUnavailable:
		level = slog.LevelWarn
	case o.Status >= 500:
		level = slog.LevelError
	}
	attrs := []slog.Attr{slog.String("operation", o.Operation), slog.Int("status", o.Status), slog.String("request", o.Request), slog.String("remote", o.Remote)}
	text := func(name, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(name, value))
		}
	}
	text("code", o.Code)
	text("principal", o.Principal)
	text("role", string(o.Role))
	text("suspension", o.Suspension)
	text("arguments_sha256", o.ArgumentsDigest)
	text("caller_request", o.CallerRequest)
	text("verdict", string(o.Verdict))
	text("limited", o.Limited)
	refused := o.Refused
	var became []string
	for _, r := range o.Results {
		became = append(became, string(r.Status))
		refused = append(refused, r.Refused...)
	}
	text("outcome", strings.Join(became, " "))
	var by []string
	for _, b := range refused {
		by = append(by, string(b))
	}
	text("refused_by", strings.Join(by, " "))
	text("cause", cause)
	text("stack", stack)
	if o.Latency > 0 {
		attrs = append(attrs, slog.Float64("ms", float64(o.Latency.Microseconds())/1000))
	}
	log.LogAttrs(context.Background(), level, "request", attrs...)
}

// scrubbed is the text of an error without the words of the request, which the
// error may quote: what a caller sent is not for the log.
func scrubbed(err error, r *http.Request, body []byte) string {
	if err == nil {
		return ""
	}
	text := strings.ToValidUTF8(err.Error(), "\uFFFD")
	var values []string
	for _, hs := range r.Header {
		values = append(values, hs...)
	}
	values = append(values, r.URL.Path, r.URL.RawQuery)
	values = said(values, body)
	words := map[string]bool{}
	for _, v := range values {
		// As strconv.Quote writes it, where that is not the same.
		if quoted := strings.Trim(strconv.Quote(v), `"`); quoted != v {
			text = strings.ReplaceAll(text, quoted, "…")
		}
		for _, w := range word.FindAllString(v, -1) {
			words[w] = true
		}
	}
	return word.ReplaceAllStringFunc(text, func(w string) string {
		if words[w] {
			return "…"
		}
		return w
	})
}

var word = regexp.MustCompile(`[\p{L}\p{Nd}]+`)

// said collects the strings, names and numbers of a JSON text. A string that is the
// base64 of something, as the arguments of an action are, counts as what it holds
// too. What is no JSON is taken whole.
func said(values []string, text []byte) []string {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	for {
		t, err := d.Token()
		switch {
		case errors.Is(err, io.EOF):
			return values
		case err != nil:
			return append(values, string(text))
		}
		switch t := t.(type) {
		case string:
			values = append(values, t)
			if held, err := base64.StdEncoding.DecodeString(t); err == nil && len(held) > 0 {
				values = said(values, held)
			}
		case json.Number:
			values = append(values, t.String())
		}
	}
}

// panicked says what kind of value a panic had. The value itself may quote a request.
func panicked(p any) error { return fmt.Errorf("panic with a value of type %T", p) }
