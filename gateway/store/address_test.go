package store

import (
	"crypto/tls"
	"testing"
)

// A server on another machine has to prove its name, unless the address says
// otherwise, and is never tried without encryption instead.
func TestAddressOfAnotherMachine(t *testing.T) {
	t.Setenv("PGSSLMODE", "")
	for address, proves := range map[string]bool{
		"postgres://u@db.example/d":                   true,
		"postgres://u@db.example/d?sslmode=":          true,
		"postgres://u@localhost,db.example/d":         true,
		"postgres://u@192.0.2.1/d":                    true,
		"postgres:///d?host=db.example":               true,
		"postgres://u@db.example/d?sslmode=require":   false,
		"postgres://u@db.example/d?sslmode=disable":   false,
		"postgres://u@localhost/d":                    false,
		"postgres://u@127.0.0.1/d":                    false,
		"postgres://u@[::1]/d":                        false,
		"postgres:///d?host=/var/run/postgresql&user": false,
	} {
		config, err := new(Postgres).configure(address)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		all := []*tls.Config{config.ConnConfig.TLSConfig}
		for _, f := range config.ConnConfig.Fallbacks {
			all = append(all, f.TLSConfig)
		}
		for _, c := range all {
			if got := c != nil && !c.InsecureSkipVerify && c.ServerName != ""; got != proves {
				t.Errorf("%s: a server proves its name: %v, want %v", address, got, proves)
			}
		}
	}
}
