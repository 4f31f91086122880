package oracles

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// control matches one control sequence, control string or escape sequence of
// ECMA-48 (sections 5.3 to 5.6) at the start of a text, also one that is cut off.
var control = regexp.MustCompile(
	`^(?:(?:\x1b\[|\x{9b})([0-?]*)[ -/]*([@-~]?)` + // CSI: parameters, final byte
		`|(?:\x1b[\]PX^_]|[\x{90}\x{98}\x{9d}-\x{9f}])[^\x07\x1b\x{9c}]*(?:\x07|\x1b\\|\x{9c})?` + // OSC, DCS, SOS, PM, APC
		`|\x1b[ -/]*[0-~]?)`) // other escape sequences

// furthest bounds the column a control sequence can move to.
const furthest = 10_000

// terminal returns what is left in each line once the text was written to a
// terminal: without control sequences and without what they concealed, erased or
// overwrote. Text that contains none of this is returned as it is.
func terminal(text string) string {
	if !strings.ContainsAny(text, "\x1b\u009b\u0090\u0098\u009d\u009e\u009f\b\r") {
		return text
	}
	var out strings.Builder
	var line []string // the cells of the line, each with the marks upon its character
	column, concealed, skip := 0, false, 0
	for i, r := range text {
		if i < skip {
			continue
		}
		if r == '\x1b' || r >= '\u0080' && r <= '\u009f' {
			if m := control.FindStringSubmatch(text[i:]); m != nil {
				skip = i + len(m[0])
				switch n, _ := strconv.Atoi(m[1]); m[2] {
				case "m": // select graphic rendition
					for p := range strings.SplitSeq(m[1], ";") {
						switch p {
						case "8":
							concealed = true
						case "", "0", "28":
							concealed = false
						}
					}
				case "K": // erase in line: to its end, to its start, all
					from, to := min(column, len(line)), len(line)
					if n > 0 {
						from = 0
					}
					if n == 1 {
						to = min(column+1, len(line))
					}
					for j := from; j < to; j++ {
						line[j] = " "
					}
				case "D": // cursor left
					column = max(0, column-max(1, n))
				case "G": // cursor to column
					column = min(max(0, n-1), furthest)
				}
				continue
			}
		}
		switch {
		case isParagraphSeparator(r):
			out.WriteString(strings.Join(line, ""))
			out.WriteRune(r)
			line, column = line[:0], 0
		case r == '\r':
			column = 0
		case r == '\b':
			column = max(0, column-1)
		case (isInvisible(r) || unicode.Is(unicode.M, r)) && column > 0 && column <= len(line):
			line[column-1] += string(r)
		default:
			if concealed {
				r = ' '
			}
			for len(line) <= column {
				line = append(line, " ")
			}
			line[column] = string(r)
			column++
		}
	}
	return out.String() + strings.Join(line, "")
}
