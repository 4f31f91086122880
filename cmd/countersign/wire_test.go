package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"countersign/gateway/store/pgtest"
	"countersign/results"
)

const labToken = "token-of-the-lab-in-these-tests"

// labGateway runs a gateway for the lab in a process of its own, and returns the address
// of its control.
func labGateway(t *testing.T, args ...string) string {
	t.Helper()
	c := &child{
		ctx: t.Context(), args: append([]string{"gateway"}, args...), env: []string{labEnv + "=" + labToken},
		serves: labServes, flags: []string{"--listen", "--lab"},
	}
	must(t, c.start())
	t.Cleanup(func() { must(t, c.kill()) })
	return "http://" + c.at(1)
}

// records runs a selection and reads what it leaves.
func records(t *testing.T, args ...string) []results.Record {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	var out bytes.Buffer
	code := run(t.Context(), append([]string{"run", "--quiet", "--out", dir}, args...), strings.NewReader(""), &out, &out)
	if code != 0 {
		t.Fatalf("countersign run %v ended with %d: %s", args, code, out.String())
	}
	r, err := results.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []results.Record
	for rec, err := range r.Records() {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, rec)
	}
	return all
}

// TestWire: against gateways in other processes the attacks come to what they come to
// in one process, race by race apart, whose order nobody keeps there: the reference
// design lets none of those through either.
func TestWire(t *testing.T) {
	t.Setenv(labEnv, labToken)
	selection := []string{"--scenarios", "payments", "--attacks", "AB4,AB7,AB12", "--races", "3"}
	for _, mode := range []string{"M9", "M4"} {
		want := records(t, append(selection, "--modes", mode)...)
		for name, place := range map[string]func(t *testing.T) string{
			"memory, one process":       nil,
			"SQLite, two processes":     func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "lab.db") },
			"PostgreSQL, two processes": func(t *testing.T) string { return pgtest.Database(t) },
		} {
			if mode == "M4" && place != nil {
				continue // what two processes share, the reference design shows
			}
			t.Run(mode+", "+name, func(t *testing.T) {
				stores := []string{"memory"}
				if place != nil {
					stores = slices.Repeat([]string{place(t)}, 2)
				}
				var controls []string
				for _, s := range stores {
					controls = append(controls, labGateway(t, "--mode", mode, "--store", s))
				}
				got := records(t, append(selection, "--target", strings.Join(controls, ","))...)
				if len(got) != len(want) || len(got) == 0 {
					t.Fatalf("%d records, want %d", len(got), len(want))
				}
				raced := 0
				for i, g := range got {
					w := want[i]
					if g.Nondeterministic {
						raced++
						if !strings.Contains(g.Detail, "3 races: ") {
							t.Errorf("%s/%s: the record does not count its races: %q", g.Attack, g.Variant, g.Detail)
						}
						if mode == "M9" && g.Observed == results.Executed {
							t.Errorf("%s/%s: a race made an effect: %+v", g.Attack, g.Variant, g)
						}
						continue
					}
					if a, b := line(t, g), line(t, w); a != b {
						t.Errorf("over the wire\n%s\nin one process\n%s", a, b)
					}
				}
				if raced == 0 {
					t.Error("nothing raced")
				}
			})
		}
	}
}

func line(t *testing.T, r results.Record) string {
	t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestLabControl: the control answers who has its token, on a loopback address, and is
// not there unless it was asked for.
func TestLabControl(t *testing.T) {
	t.Setenv(labEnv, labToken)
	lab := start(t, "gateway", "--lab", "127.0.0.1:0")
	targets := strings.Split(lab.out.String(), ", control on")[0]
	targets = targets[strings.LastIndex(targets, "http://"):]
	provider := start(t, "provider", "--scenario", "payments")
	plain := start(t, "gateway", "--scenario", "payments", "--provider", provider.url)
	for _, path := range []string{
		"/v1/about", "/v1/deploy", "/v1/deployments/a/remove", "/v1/deployments/a/fault", "/v1/deployments/a/restart",
		"/v1/deployments/a/second", "/v1/deployments/a/at",
	} {
		for name, tt := range map[string]struct {
			base, header string
			want         int
		}{
			"without a token":               {lab.url, "", http.StatusUnauthorized},
			"with another":                  {lab.url, "Bearer " + labToken + "x", http.StatusUnauthorized},
			"with an empty one":             {lab.url, "Bearer ", http.StatusUnauthorized},
			"with the token":                {lab.url, "Bearer " + labToken, http.StatusOK},
			"at the address of targets":     {targets, "Bearer " + labToken, http.StatusNotFound},
			"at a gateway that is no lab's": {plain.url, "Bearer " + labToken, http.StatusNotFound},
		} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, tt.base+path, strings.NewReader("{}"))
			must(t, err)
			req.Header.Set("Content-Type", "application/json")
			if tt.header != "" {
				req.Header.Set("Authorization", tt.header)
			}
			resp, err := http.DefaultClient.Do(req)
			must(t, err)
			resp.Body.Close()
			if resp.StatusCode != tt.want {
				t.Errorf("%s %s: status %d, want %d", path, name, resp.StatusCode, tt.want)
			}
		}
	}
	for name, args := range map[string][]string{
		"an address that others reach": {"gateway", "--lab", "0.0.0.0:0"},
		"a provider of its own":        {"gateway", "--lab", "127.0.0.1:0", "--scenario", "payments", "--provider", provider.url},
		"two memories":                 {"run", "--target", lab.url + "," + lab.url},
		"nobody there":                 {"run", "--target", "http://127.0.0.1:1"},
		"modes of this process":        {"run", "--target", lab.url, "--modes", "M9"},
		"races that are not run":       {"run", "--target", lab.url, "--races", "0"},
		"neither a lab nor a scenario": {"gateway"},
	} {
		code, _, stderr := command(t, t.Context(), args...)
		if code != 2 {
			t.Errorf("%s: exit code %d: %s", name, code, stderr)
		}
	}
	t.Setenv(labEnv, "")
	os.Unsetenv(labEnv)
	if code, _, stderr := command(t, t.Context(), "run", "--target", lab.url); code != 2 || !strings.Contains(stderr, labEnv) {
		t.Errorf("without a token: %d, %s", code, stderr)
	}
}
