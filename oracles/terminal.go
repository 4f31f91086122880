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

// furthest bounds the row and the column a control sequence can move to.
const furthest = 1_000

// terminal returns what is left in each line once the text was written to an empty
// terminal: without control sequences and without what they concealed, erased or
// overwrote. Text that contains none of this is returned as it is. Lines do not
// wrap, and the screen does not scroll.
func terminal(text string) string {
	if !strings.ContainsAny(text, "\x1b\u009b\u0090\u0098\u009d\u009e\u009f\b\r") {
		return text
	}
	s := screen{rows: [][]string{nil}}
	skip := 0
	for i, r := range text {
		if i < skip {
			continue
		}
		if r == '\x1b' || r >= '\u0080' && r <= '\u009f' {
			if m := control.FindStringSubmatch(text[i:]); m != nil {
				skip = i + len(m[0])
				s.obey(m[2], m[1])
				continue
			}
		}
		s.write(r)
	}
	lines := make([]string, len(s.rows))
	for i, row := range s.rows {
		lines[i] = strings.Join(row, "")
	}
	return strings.Join(lines, "\n")
}

// A screen holds the cells of each row, each with the marks upon its character.
type screen struct {
	rows        [][]string
	row, column int
	saved       [2]int
	concealed   bool
}

// obey carries out a control sequence, as far as it changes what is read.
func (s *screen) obey(final, parameters string) {
	first, rest, _ := strings.Cut(parameters, ";")
	n, _ := strconv.Atoi(first)
	times := min(max(1, n), furthest)
	line := s.rows[s.row]
	switch final {
	case "m": // select graphic rendition
		for p := range strings.SplitSeq(parameters, ";") {
			switch p {
			case "8":
				s.concealed = true
			case "", "0", "28":
				s.concealed = false
			}
		}
	case "K": // erase in line: to its end, to its start, all
		from, to := min(s.column, len(line)), len(line)
		if n > 0 {
			from = 0
		}
		if n == 1 {
			to = min(s.column+1, len(line))
		}
		blank(line[from:to])
	case "J": // erase in page: to its end, to its start, all
		for i, l := range s.rows {
			switch {
			case i == s.row && n == 0:
				blank(l[min(s.column, len(l)):])
			case i == s.row && n == 1:
				blank(l[:min(s.column+1, len(l))])
			case n > 1, i > s.row && n == 0, i < s.row && n == 1:
				blank(l)
			}
		}
	case "A", "F": // cursor up; to the start of a line above
		s.move(s.row-times, s.column)
	case "B", "E": // cursor down; to the start of a line below
		s.move(s.row+times, s.column)
	case "C": // cursor right
		s.move(s.row, s.column+times)
	case "D": // cursor left
		s.move(s.row, s.column-times)
	case "G": // cursor to column
		s.move(s.row, n-1)
	case "d": // cursor to row
		s.move(n-1, s.column)
	case "s": // remember the cursor's place, as most terminals do
		s.saved = [2]int{s.row, s.column}
	case "u": // and return to it
		s.move(s.saved[0], s.saved[1])
	case "H", "f": // cursor to row and column
		column, _ := strconv.Atoi(rest)
		s.move(n-1, column-1)
	}
	if final == "E" || final == "F" {
		s.column = 0
	}
}

func blank(cells []string) {
	for i := range cells {
		cells[i] = " "
	}
}

func (s *screen) move(row, column int) {
	s.row, s.column = min(max(0, row), furthest), min(max(0, column), furthest)
	for len(s.rows) <= s.row {
		s.rows = append(s.rows, nil)
	}
}

func (s *screen) write(r rune) {
	line := s.rows[s.row]
	switch {
	case isParagraphSeparator(r):
		s.row, s.column = s.row+1, 0
		if s.row == len(s.rows) {
			s.rows = append(s.rows, nil)
		}
		return
	case r == '\r':
		s.column = 0
		return
	case r == '\b':
		s.column = max(0, s.column-1)
		return
	case (isInvisible(r) || unicode.Is(unicode.M, r)) && s.column > 0 && s.column <= len(line):
		line[s.column-1] += string(r)
		return
	}
	if s.concealed {
		r = ' '
	}
	for len(line) <= s.column {
		line = append(line, " ")
	}
	line[s.column] = string(r)
	s.rows[s.row] = line
	s.column++
}
