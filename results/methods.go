package results

import _ "embed"

// Methods is METHODS.md: how the lab counts, and what it computes from the counts.
//
//go:embed METHODS.md
var Methods string
