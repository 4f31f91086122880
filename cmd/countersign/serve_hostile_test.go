package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
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
