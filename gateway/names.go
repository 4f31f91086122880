package gateway

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"countersign/gateway/api"
)

const (
	maxIDBytes    = 128
	minTokenBytes = 16
)

// checkID refuses an id that looks like another, or like nothing, where a person
// reads it: in a view, in the log, in the list of approvers.
func checkID(id string) error {
	switch {
	case id == "":
		return fmt.Errorf("%w: a principal needs an id", api.ErrInvalid)
	case len(id) > maxIDBytes:
		return fmt.Errorf("%w: a principal's id has at most %d bytes", api.ErrInvalid, maxIDBytes)
	case !utf8.ValidString(id) || strings.ContainsFunc(id, unseen):
		return fmt.Errorf("%w: a principal's id holds what cannot be seen", api.ErrInvalid)
	case strings.TrimSpace(id) != id:
		return fmt.Errorf("%w: a principal's id begins or ends with a blank", api.ErrInvalid)
	}
	return nil
}

func unseen(r rune) bool {
	return !unicode.IsPrint(r) || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// foldedID is the same for ids that differ in case or in compatible characters
// only (NFKC and case folding; the second NFKC is for what folding took apart).
func foldedID(id string) string {
	return norm.NFKC.String(cases.Fold().String(norm.NFKC.String(id)))
}
