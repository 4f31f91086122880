package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
)

// errSum is no answer: nothing may be concluded from a row that has changed by
// itself.
var errSum = errors.New("the row is damaged: its checksum differs")

// rowSum is the checksum of a row, or of a counter as a row without a kind.
func rowSum(r Row) []byte {
	return digest([]byte(r.Kind), []byte(r.ID), []byte(r.Key), binary.BigEndian.AppendUint64(nil, uint64(r.Rev)), r.Body)
}

// digest is the SHA-256 of parts, each behind its length in eight bytes.
func digest(parts ...[]byte) []byte {
	h := sha256.New()
	for _, part := range parts {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write(part)
	}
	return h.Sum(nil)
}

func checkSum(r Row, sum []byte) error {
	if !bytes.Equal(sum, rowSum(r)) {
		return errSum
	}
	return nil
}
