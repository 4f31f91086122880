package results

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf16"
)

// maxFile bounds a file that is read as a whole: the largest known are below 2 MiB.
const maxFile = 64 << 20

var errTooLarge = fmt.Errorf("it is larger than %d MiB", maxFile>>20)

// ReadRegular reads a file of another's choosing: a pipe or a device, which may
// never end, and what is larger than any file of the lab are errors.
func ReadRegular(path string) ([]byte, error) {
	// Before it is opened: opening a pipe waits for somebody to write.
	if err := regular(os.Stat(path)); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := regular(f.Stat()); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	data, err := ReadBounded(f)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return data, nil
}

// ReadBounded reads everything, such as standard input, with the limit of
// [ReadRegular].
func ReadBounded(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFile {
		return nil, errTooLarge
	}
	return data, nil
}

// readText is ReadRegular for a file that may be compressed, as its name then says
// with .gz at its end.
func readText(path string) ([]byte, error) {
	data, err := ReadRegular(path)
	if err != nil || !Compressed(path) {
		return data, err
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if data, err = ReadBounded(z); err != nil {
		return nil, fmt.Errorf("reading %s: what it holds: %w", path, err)
	}
	return data, nil
}

// Compressed reports whether a file of this name is compressed.
func Compressed(path string) bool { return strings.HasSuffix(path, ".gz") }

// Compress makes what a compressed file of this text holds (RFC 1952).
func Compress(data []byte) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(data); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func regular(info os.FileInfo, err error) error {
	var pe *os.PathError
	switch {
	case errors.As(err, &pe):
		return pe.Err
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return errors.New("not a regular file")
	}
	return nil
}

// Unseen reports whether a character could act on a terminal or cannot be seen.
func Unseen(r rune) bool {
	return !unicode.IsPrint(r) || unicode.Is(unicode.Variation_Selector, r) || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r)
}

// EscapeJSON escapes in JSON text, without white space but blanks and line breaks,
// what is [Unseen]. Beyond ASCII only strings have characters, so this changes no
// value.
func EscapeJSON(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r < 0x7f || !Unseen(r):
			b.WriteRune(r)
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, hi, lo)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
