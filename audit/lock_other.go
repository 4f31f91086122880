//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package audit

import (
	"errors"
	"os"
)

// lock refuses: without one, two processes could give one number twice.
func lock(*os.File) error { return errors.ErrUnsupported }
