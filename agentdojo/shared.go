package agentdojo

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// SharedDir returns the folder of the shared data, which is no part of the module:
// the environment variable COUNTERSIGN_SHARED, or else the folder "shared" beside
// the root of the module that the working directory lies in. It is an error if
// there is no such folder.
func SharedDir() (string, error) {
	dir := os.Getenv("COUNTERSIGN_SHARED")
	if dir == "" {
		root, err := moduleRoot()
		if err != nil {
			return "", fmt.Errorf("finding the shared data: %w; set COUNTERSIGN_SHARED", err)
		}
		dir = filepath.Join(filepath.Dir(root), "shared")
	}
	info, err := os.Stat(dir)
	if err != nil {
		return "", fmt.Errorf("finding the shared data: %w; set COUNTERSIGN_SHARED", err)
	}
	if !info.IsDir() {
		return "", fmt.Errorf("finding the shared data: %s is not a folder; set COUNTERSIGN_SHARED", dir)
	}
	return dir, nil
}

func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod in the working directory or above it")
		}
		dir = parent
	}
}

// Required reports whether the environment variable COUNTERSIGN_REQUIRE, a list
// separated by commas, names something that tests must not do without.
func Required(name string) bool {
	for item := range strings.SplitSeq(os.Getenv("COUNTERSIGN_REQUIRE"), ",") {
		if strings.TrimSpace(item) == name {
			return true
		}
	}
	return false
}

// TB is the part of testing.TB that [Require] needs.
type TB interface {
	Helper()
	Skipf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Require returns the path of something in the shared data to a test, given its
// path there ("agentdojo", "runs"). Where it is missing the test is skipped, or fails
// if COUNTERSIGN_REQUIRE names "shared".
func Require(tb TB, elem ...string) string {
	tb.Helper()
	dir, err := SharedDir()
	if err == nil {
		dir = filepath.Join(slices.Concat([]string{dir}, elem)...)
		_, err = os.Stat(dir)
	}
	if err == nil {
		return dir
	}
	if Required("shared") {
		tb.Fatalf("shared data is required: %v", err)
	}
	tb.Skipf("shared data is missing: %v", err)
	return ""
}
