package audit

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	signednote "golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// A Checkpoint is what a log says of itself and signs: how many entries it has and
// the root over them. Its text is that of a C2SP tlog-checkpoint (origin, size,
// root) with two extension lines: the number of the checkpoint, without which
// nobody would miss one that was taken out of the middle of a file, and the time.
type Checkpoint struct {
	Origin string // names the log; it is the name of the key, too
	Size   int64
	Root   tlog.Hash
	Number int64     // 1, 2, …
	Time   time.Time // in whole seconds of the gateway's clock; zero where that was missing
}

// A SignedCheckpoint is a checkpoint with the signed note (C2SP signed-note) that it
// was read from. Reading verifies nothing; see [SignedCheckpoint.Verify].
type SignedCheckpoint struct {
	Checkpoint
	Note string
}

// maxCheckpoint is the longest note in bytes.
const maxCheckpoint = 4 << 10

// text is the body of the note. Nothing else is one with the same meaning.
func (c Checkpoint) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%d\n%s\nnumber %d\n", c.Origin, c.Size, c.Root, c.Number)
	if !c.Time.IsZero() {
		fmt.Fprintf(&b, "time %s\n", c.Time.UTC().Format(time.RFC3339))
	}
	return b.String()
}

func parseText(text string) (Checkpoint, error) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) != 4 && len(lines) != 5 {
		return Checkpoint{}, fmt.Errorf("it has %d lines, want origin, size, root, number and perhaps time", len(lines))
	}
	c := Checkpoint{Origin: lines[0]}
	var errs [4]error
	c.Size, errs[0] = strconv.ParseInt(lines[1], 10, 64)
	c.Root, errs[1] = tlog.ParseHash(lines[2])
	number, _ := strings.CutPrefix(lines[3], "number ")
	c.Number, errs[2] = strconv.ParseInt(number, 10, 64)
	if len(lines) == 5 {
		at, _ := strings.CutPrefix(lines[4], "time ")
		c.Time, errs[3] = time.Parse(time.RFC3339, at)
	}
	if err := errors.Join(errs[:]...); err != nil {
		return Checkpoint{}, errors.New("size, root, number or time is none")
	}
	if c.Origin == "" || c.Size < 0 || c.Number < 1 || c.text() != text {
		return Checkpoint{}, errors.New("it is not written as checkpoints are")
	}
	return c, nil
}

// ParseCheckpoint reads one signed note with one signature, by the key that has the
// name of the origin. A text that is written in any other way is an error.
func ParseCheckpoint(text string) (SignedCheckpoint, error) {
	fail := func(err error) (SignedCheckpoint, error) {
		return SignedCheckpoint{}, fmt.Errorf("reading a checkpoint: %w", err)
	}
	if len(text) > maxCheckpoint {
		return fail(fmt.Errorf("%d bytes, the limit is %d", len(text), maxCheckpoint))
	}
	body, signature, ok := strings.Cut(text, "\n\n")
	if !ok {
		return fail(errors.New("no blank line separates text and signature"))
	}
	c, err := parseText(body + "\n")
	if err != nil {
		return fail(err)
	}
	encoded, ok := strings.CutPrefix(signature, "— "+c.Origin+" ")
	encoded, ended := strings.CutSuffix(encoded, "\n")
	if raw, err := base64.StdEncoding.Strict().DecodeString(encoded); !ok || !ended || err != nil || strings.ContainsAny(encoded, "\r\n") || len(raw) <= 4 {
		return fail(fmt.Errorf("want one line with a signature named %s", c.Origin))
	}
	return SignedCheckpoint{c, text}, nil
}

// ErrUnsigned says that a checkpoint is not signed by a key that is known.
var ErrUnsigned = errors.New("the signature is by no key that is given")

// Verify holds the signature against the known keys.
func (c SignedCheckpoint) Verify(known signednote.Verifiers) error {
	n, err := signednote.Open([]byte(c.Note), known)
	var unknown *signednote.UnverifiedNoteError
	switch {
	case errors.As(err, &unknown):
		return fmt.Errorf("checkpoint %d of %s: %w", c.Number, c.Origin, ErrUnsigned)
	case err != nil:
		return fmt.Errorf("checkpoint %d of %s: %w", c.Number, c.Origin, err)
	case n.Text != c.text() || len(n.Sigs) != 1 || n.Sigs[0].Name != c.Origin:
		return fmt.Errorf("checkpoint %d of %s: the note says something else", c.Number, c.Origin)
	}
	return nil
}

// parseCheckpoints reads a file of notes with a blank line between them. rest is what
// follows the last whole note and is no note yet.
func parseCheckpoints(text []byte) (cs []SignedCheckpoint, rest []byte, err error) {
	for len(text) > 0 {
		head := text
		if len(cs) > 0 {
			var ok bool
			if head, ok = bytes.CutPrefix(text, []byte("\n")); !ok {
				return cs, nil, fmt.Errorf("checkpoint %d: no blank line is before it", len(cs)+1)
			}
		}
		// The signature is the line after the blank one.
		n := bytes.Index(head, []byte("\n\n"))
		end := -1
		if n >= 0 {
			end = bytes.IndexByte(head[n+2:], '\n')
		}
		if end < 0 {
			return cs, text, nil
		}
		end += n + 3
		c, err := ParseCheckpoint(string(head[:end]))
		if err != nil {
			return cs, nil, fmt.Errorf("checkpoint %d: %w", len(cs)+1, err)
		}
		cs, text = append(cs, c), head[end:]
	}
	return cs, nil, nil
}

// A Key signs the checkpoints of one log. The zero value signs nothing.
type Key struct {
	secret   string
	signer   signednote.Signer
	verifier signednote.Verifier
	public   string
}

// NewKey makes an Ed25519 key for a log of that name, which should look like a URL
// without its scheme, has neither white space nor plus signs, and is nobody else's.
func NewKey(origin string) (Key, error) {
	secret, _, err := signednote.GenerateKey(rand.Reader, origin)
	if err != nil {
		return Key{}, fmt.Errorf("making the key of the audit log: %w", err)
	}
	return ParseKey(secret)
}

// ParseKey reads what [Key.Secret] returned.
func ParseKey(secret string) (Key, error) {
	k := Key{secret: secret}
	var err error
	if k.signer, err = signednote.NewSigner(secret); err != nil {
		return Key{}, fmt.Errorf("reading the key of the audit log: %w", err) // without the key in it
	}
	// PRIVATE+KEY+name+hash+algorithm and seed; NewSigner has seen that it is so.
	parts := strings.SplitN(secret, "+", 5)
	raw, err := base64.StdEncoding.DecodeString(parts[len(parts)-1])
	if err != nil || len(raw) != 1+ed25519.SeedSize {
		return Key{}, errors.New("reading the key of the audit log: it is no Ed25519 key")
	}
	public := ed25519.NewKeyFromSeed(raw[1:]).Public().(ed25519.PublicKey)
	if k.public, err = signednote.NewEd25519VerifierKey(k.signer.Name(), public); err == nil {
		k.verifier, err = signednote.NewVerifier(k.public)
	}
	if err != nil {
		return Key{}, fmt.Errorf("reading the key of the audit log: %w", err)
	}
	return k, nil
}

// Secret is the key as a text, which whoever has it can sign with.
func (k Key) Secret() string { return k.secret }

// Public is the verifier key: what an auditor needs, from a hand that the log's
// keeper cannot guide.
func (k Key) Public() string { return k.public }

// Origin is the name of the log.
func (k Key) Origin() string {
	if k.signer == nil {
		return ""
	}
	return k.signer.Name()
}

// Sign makes a checkpoint. The origin is the key's.
func (k Key) Sign(c Checkpoint) (SignedCheckpoint, error) {
	if k.signer == nil {
		return SignedCheckpoint{}, errors.New("signing a checkpoint: no key is given")
	}
	c.Origin, c.Time = k.signer.Name(), c.Time.UTC().Truncate(time.Second)
	text, err := signednote.Sign(&signednote.Note{Text: c.text()}, k.signer)
	if err != nil {
		return SignedCheckpoint{}, fmt.Errorf("signing checkpoint %d: %w", c.Number, err)
	}
	signed, err := ParseCheckpoint(string(text)) // no file gets what nobody could read
	if err != nil {
		return SignedCheckpoint{}, fmt.Errorf("signing checkpoint %d: %w", c.Number, err)
	}
	return signed, signed.Verify(signednote.VerifierList(k.verifier))
}
