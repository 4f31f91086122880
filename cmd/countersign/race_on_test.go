//go:build race

package main

// raced: the race detector makes a trial about ten times as slow, so the tests
// then take fewer scenarios.
const raced = true
