package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"countersign/scenarios"
	"countersign/scenarios/provider"
)

// A stranger is told so before a body is asked for: the answer comes although the
// body does not.
func TestServedGatewayAnswersStrangersFirst(t *testing.T) {
	prov := start(t, "provider", "--scenario", "payments")
	gate := start(t, "gateway", "--scenario", "payments", "--provider", prov.url)
	host := strings.TrimPrefix(gate.url, "http://")
	for token, want := range map[string]int{"nobody-knows-this": 401, gate.token("auditor"): 415} {
		conn, err := net.Dial("tcp", host)
		must(t, err)
		defer conn.Close()
		_, err = fmt.Fprintf(conn, "POST /v1/proposals HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: text/plain\r\nContent-Length: 2000000\r\n\r\n", host, token)
		must(t, err)
		_, err = io.WriteString(conn, strings.Repeat("a", 1000))
		must(t, err)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		must(t, err)
		if resp.StatusCode != want {
			t.Errorf("status %d, want %d", resp.StatusCode, want)
		}
	}
}

// A gateway guards the provider of its own scenario, and leaves another's unclaimed.
func TestGatewayRefusesAnotherScenariosProvider(t *testing.T) {
	prov := start(t, "provider", "--scenario", "dns")
	code, _, stderr := command(t, t.Context(), "gateway", "--scenario", "payments", "--provider", prov.url, "--listen", "127.0.0.1:0")
	if code != 2 || !strings.Contains(stderr, "other tools") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	start(t, "gateway", "--scenario", "dns", "--provider", prov.url)
}

// A store stays that of the design and the scenario that it was made with.
func TestStoreBelongsToOneDeployment(t *testing.T) {
	db := "sqlite:" + filepath.Join(t.TempDir(), "g.db")
	prov, other := start(t, "provider", "--scenario", "payments"), start(t, "provider", "--scenario", "dns")
	gate := start(t, "gateway", "--mode", "M9", "--scenario", "payments", "--provider", prov.url, "--store", db)
	gate.stop()
	for _, args := range [][]string{
		{"--mode", "M4", "--scenario", "payments", "--provider", prov.url},
		{"--mode", "M9", "--scenario", "dns", "--provider", other.url},
	} {
		code, _, stderr := command(t, t.Context(), append([]string{"gateway", "--store", db, "--listen", "127.0.0.1:0"}, args...)...)
		if code != 2 || !strings.Contains(stderr, "the store is that of mode M9, scenario payments") {
			t.Errorf("%v: exit code %d: %s", args, code, stderr)
		}
	}
	start(t, "gateway", "--mode", "M9", "--scenario", "payments", "--provider", prov.url, "--store", db)
}

// Every scenario's provider has the tools that its gateway expects.
func TestProvidersHaveTheirTools(t *testing.T) {
	for _, sc := range scenarios.All() {
		w, err := provider.New(provider.Config{Tools: sc.ToolTable(), Records: sc.Records, Reader: provider.Reader(sc.Reader), Clock: wallClock{}})
		must(t, err)
		if !sameTools(w.Tools(), sc.ToolTable()) || sameTools(w.Tools()[1:], sc.ToolTable()) {
			t.Errorf("%s: tools are not compared", sc.ID)
		}
	}
}
