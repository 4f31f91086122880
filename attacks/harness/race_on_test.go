//go:build race

package harness_test

// raced: the race detector makes a trial about ten times as slow, so the tests
// then take fewer scenarios.
const raced = true
