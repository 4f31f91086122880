// Command serve runs a PostgreSQL server of its own, or takes the one that
// COUNTERSIGN_POSTGRES names, prints its address, and waits until its standard input
// ends. It is for scripts, as package pgtest is for tests.
package main

import (
	"fmt"
	"io"
	"os"

	"countersign/gateway/store/pgtest"
)

func main() {
	address, err := pgtest.Shared()
	if err == nil {
		_, err = fmt.Println(address)
	}
	if err == nil {
		_, err = io.Copy(io.Discard, os.Stdin)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "serve: error:", err)
		os.Exit(2)
	}
}
