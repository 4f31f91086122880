package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"countersign/agentdojo"
	"countersign/results"
)

// browsers are the names under which Chromium is installed.
var browsers = []string{"chromium", "chromium-browser", "google-chrome", "chrome"}

// browser starts headless Chromium. Without it the test is skipped, or fails if
// COUNTERSIGN_REQUIRE names "chromium"; with -short it is skipped. What a page
// complains of, and what it failed to load, is in complaints.
func browser(t *testing.T) (ctx context.Context, complaints func() []string) {
	t.Helper()
	if testing.Short() {
		t.Skip("no browser with -short")
	}
	var path string
	err := errors.New("it is not installed")
	for _, name := range browsers {
		if path, err = exec.LookPath(name); err == nil {
			break
		}
	}
	if err != nil {
		if agentdojo.Required("chromium") {
			t.Fatalf("Chromium is required: %v", err)
		}
		t.Skipf("Chromium is missing: %v", err)
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.WindowSize(1280, 1400), chromedp.WSURLReadTimeout(time.Minute),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND"), chromedp.ProxyServer("127.0.0.1:9")) // no network
	if os.Geteuid() == 0 { // it has no sandbox for root
		opts = append(opts, chromedp.NoSandbox)
	}
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(stop)
	ctx, stop = chromedp.NewExecAllocator(ctx, opts...)
	t.Cleanup(stop)
	ctx, stop = chromedp.NewContext(ctx)
	t.Cleanup(stop)
	var mu sync.Mutex
	var list []string
	add := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		list = append(list, fmt.Sprintf(format, args...))
	}
	err = chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventConsoleAPICalled:
			add("console: %s", e.Type)
		case *runtime.EventExceptionThrown:
			add("exception: %s", e.ExceptionDetails.Text)
		case *log.EventEntryAdded:
			add("%s: %s", e.Entry.Level, e.Entry.Text)
		case *network.EventLoadingFailed:
			add("failed to load: %s", e.ErrorText)
		case *network.EventRequestWillBeSent:
			if !strings.HasPrefix(e.Request.URL, "file:") && !strings.HasPrefix(e.Request.URL, "data:") {
				add("asked for %s", e.Request.URL)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	call(t, ctx, network.Enable, network.EnableParams{})
	call(t, ctx, log.Enable, cdp.Empty{})
	return ctx, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return list
	}
}

func perform(t *testing.T, ctx context.Context, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(ctx, steps...); err != nil {
		t.Fatal(err)
	}
}

// eval evaluates JavaScript.
func eval[T any](t *testing.T, ctx context.Context, text string) T {
	t.Helper()
	out, err := chromedp.Run(ctx, chromedp.Evaluate[T](text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return out
}

// call performs a command of the browser's protocol.
func call[P, R any](t *testing.T, ctx context.Context, c cdp.Command[P, R], params P) {
	t.Helper()
	if _, err := chromedp.Call(ctx, c, params); err != nil {
		t.Fatal(err)
	}
}

// screenshot keeps a picture of what is seen, for people: go test -artifacts.
func screenshot(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(t.ArtifactDir(), name+".png"), png, 0o644); err != nil {
		t.Fatal(err)
	}
}

// openAll opens everything that is folded.
const openAll = `document.querySelectorAll("details").forEach(d => d.open = true)`

// overflow names what is wider than the screen and has no scroll bar of its own.
const overflow = `(() => {
	if (document.documentElement.scrollWidth <= innerWidth) return [];
	const wide = [...document.body.querySelectorAll("*")].filter(n => n.getBoundingClientRect().right > innerWidth + 1 && !n.closest(".scroll"));
	return ["the page is " + document.documentElement.scrollWidth + " wide"].concat(wide.slice(0, 5).map(n => n.tagName + "." + n.className + "#" + n.id));
})()`

// faint lists texts with less contrast than WCAG 2.2 AA wants, 4.5 to 1.
const faint = `(() => {
	const rgb = c => { const m = c.match(/[\d.]+/g).map(Number); return c.startsWith("color(") ? [m[0]*255, m[1]*255, m[2]*255, m[3]] : m; };
	const lum = c => { const [r, g, b] = c.slice(0, 3).map(v => { v /= 255; return v <= .04045 ? v/12.92 : ((v+.055)/1.055)**2.4; }); return .2126*r + .7152*g + .0722*b; };
	const back = n => { for (; n; n = n.parentElement) { const c = rgb(getComputedStyle(n).backgroundColor); if (c[3] === undefined || c[3] > 0) return c; } return [255, 255, 255]; };
	const seen = new Set(), out = [];
	for (const n of document.body.querySelectorAll("*")) {
		if (![...n.childNodes].some(c => c.nodeType === 3 && c.data.trim()) || !n.getClientRects().length) continue;
		const front = getComputedStyle(n).color, behind = back(n), key = front + behind;
		if (seen.has(key)) continue;
		seen.add(key);
		const [a, b] = [lum(rgb(front)), lum(behind)], ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
		if (ratio < 4.5) out.push(n.tagName + "." + n.className + " " + ratio.toFixed(2));
	}
	return out.concat(seen.size < 4 ? ["only " + seen.size + " pairs of colours were found"] : []);
})()`

// told says what is read where a link has led to, if that is in sight.
const toldHere = `(() => {
	const n = document.getElementById(decodeURIComponent(location.hash.slice(1)));
	if (!n) return "nothing has the id " + location.hash;
	const r = n.getBoundingClientRect();
	return r.height > 0 && r.top < innerHeight && r.bottom > 0 ? n.innerText : location.hash + " is not in sight";
})()`

// TestReportInABrowser opens a report without a network: it loads nothing, complains
// of nothing, leads from a count to a story in two clicks with and without scripts,
// is filtered by keyboard, fits a phone, and can be read in the light and in the dark.
func TestReportInABrowser(t *testing.T) {
	ctx, complaints := browser(t)
	dir := t.TempDir()
	t.Chdir(dir)
	for _, args := range [][]string{
		{"run", "--quiet", "--modes", "M1,M4,M9", "--attacks", "AB1,AB4", "--scenarios", "payments,mail", "--out", "run"},
		{"report", "run", "--quiet", "--out", "report.html"},
	} {
		if code, _, stderr := command(t, ctx, args...); code != 0 {
			t.Fatalf("%v: exit code %d: %s", args, code, stderr)
		}
	}
	address := "file://" + filepath.ToSlash(filepath.Join(dir, "report.html"))
	const cell, variant = chromedp.CSS(`#matrix ~ div td.m1 a[aria-label^="M4 bearer, AB1"]`), chromedp.CSS(`a[aria-label^="M4, quantity_raised_in_the_queue:"]`)
	twoClicks := func(how string) {
		perform(t, ctx, chromedp.Navigate(address), chromedp.Click(cell), chromedp.Sleep(100*time.Millisecond))
		if got := eval[string](t, ctx, toldHere); got != "M4" {
			t.Errorf("%s: the first click leads to %q, want the column M4", how, got)
		}
		screenshot(t, ctx, "variants-"+how)
		perform(t, ctx, chromedp.Click(variant), chromedp.Sleep(100*time.Millisecond))
		got := eval[string](t, ctx, toldHere)
		for _, want := range []string{"What happened", "\"amount\" is", "The attack has succeeded", "Why this was predicted", "has no args"} {
			if !strings.Contains(got, want) {
				t.Errorf("%s: two clicks lead to a story without %q:\n%s", how, want, got)
			}
		}
		screenshot(t, ctx, "story-"+how)
	}
	twoClicks("with-scripts")

	call(t, ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	twoClicks("without-scripts")
	call(t, ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{})

	perform(t, ctx, chromedp.Navigate(address))
	if got := eval[[]string](t, ctx, `[...document.images].filter(i => !i.complete || !i.naturalWidth).map(i => i.alt)`); len(got) > 0 || eval[int](t, ctx, `document.images.length`) == 0 {
		t.Errorf("pictures are missing: %v", got)
	}

	// By keyboard alone: to a box, off with it; to the list of outcomes, down it.
	tab := func(to string) {
		for range 60 {
			perform(t, ctx, chromedp.KeyEvent(kb.Tab))
			if eval[bool](t, ctx, fmt.Sprintf(`document.activeElement.matches(%q)`, to)) {
				if eval[string](t, ctx, `getComputedStyle(document.activeElement).outlineStyle`) != "solid" {
					t.Errorf("the focus on %s is not seen", to)
				}
				return
			}
		}
		t.Fatalf("the Tab key does not lead to %s", to)
	}
	shown := func(selector string) bool {
		return eval[bool](t, ctx, fmt.Sprintf(`%s; [...document.querySelectorAll(%q)].some(n => n.getClientRects().length > 0)`, openAll, selector))
	}
	perform(t, ctx, chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Enter))
	if got := eval[string](t, ctx, `location.hash`); got != "#main" {
		t.Errorf("the first link skips to %q, want #main", got)
	}
	tab(`input[data-m="0"]`)
	perform(t, ctx, chromedp.KeyEvent(" "))
	if shown(".m0") || !shown(".m1") {
		t.Error("a design that is switched off is still there, or others are gone")
	}
	tab(`input[data-f="f0"]`)
	perform(t, ctx, chromedp.KeyEvent(" "))
	if shown(".f0") || !shown(".f1") {
		t.Error("a family that is switched off is still there, or others are gone")
	}
	all := eval[string](t, ctx, `document.getElementById("f-shown").textContent`)
	tab(`#f-outcome`)
	perform(t, ctx, chromedp.KeyEvent("refused"), chromedp.Sleep(100*time.Millisecond))
	some := eval[string](t, ctx, `document.getElementById("f-shown").textContent`)
	if eval[string](t, ctx, `document.getElementById("f-outcome").value`) != "refused" || some == all || strings.HasPrefix(some, "0 ") {
		t.Errorf("with an outcome chosen the page shows %q, without %q", some, all)
	}
	if !shown(`.f1 tr[data-v]:not(.out)`) || shown(`tr.out, details.out`) {
		t.Error("variants without the chosen outcome are still there, or all are gone")
	}
	tab(`button[type=reset]`)
	perform(t, ctx, chromedp.KeyEvent(kb.Enter), chromedp.Sleep(100*time.Millisecond))
	if !shown(".m0") || !shown(".f0") {
		t.Error("showing all again does not")
	}

	for _, scheme := range []string{"light", "dark"} {
		call(t, ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		perform(t, ctx, chromedp.Navigate(address))
		screenshot(t, ctx, "desktop-"+scheme)
		eval[chromedp.Void](t, ctx, openAll)
		if got := eval[[]string](t, ctx, faint); len(got) > 0 {
			t.Errorf("%s: too little contrast: %v", scheme, got)
		}
	}
	call(t, ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{})
	perform(t, ctx, chromedp.EmulateViewport(375, 812, chromedp.EmulateScale(2), chromedp.EmulateMobile), chromedp.Navigate(address))
	screenshot(t, ctx, "phone")
	for _, state := range []string{"folded", "open"} {
		if got := eval[[]string](t, ctx, overflow); len(got) > 0 {
			t.Errorf("on a phone, %s: %v", state, got)
		}
		eval[chromedp.Void](t, ctx, openAll)
	}
	// Names of a run that nobody meant well with run nothing and widen nothing.
	writeHostileRun(t, "hostile")
	if code, _, stderr := command(t, ctx, "report", "hostile", "--quiet", "--out", "hostile.html"); code != 0 {
		t.Fatal(stderr)
	}
	perform(t, ctx, chromedp.Navigate("file://"+filepath.ToSlash(filepath.Join(dir, "hostile.html"))))
	eval[chromedp.Void](t, ctx, openAll)
	if got := eval[[]string](t, ctx, overflow); len(got) > 0 {
		t.Errorf("hostile names on a phone: %v", got)
	}
	if eval[bool](t, ctx, `window.ran === true`) || !strings.Contains(eval[string](t, ctx, `document.body.innerText`), "<script>ran = true</script>") {
		t.Error("a script in a name was run, or the name is not shown as it is")
	}
	if got := complaints(); len(got) > 0 {
		t.Errorf("the page is not content: %v", got)
	}
}

// writeHostileRun makes a run whose names are long, or HTML.
func writeHostileRun(t *testing.T, dir string) {
	t.Helper()
	long, script := strings.Repeat("W", 300), "</style><script>ran = true</script><img src=x onerror=ran=true>"
	c := results.Catalogue{
		Targets:   []results.TargetInfo{{ID: "M9" + long, Name: script}, {ID: script, Name: long, ModelledOn: long}},
		Scenarios: []results.ScenarioInfo{{ID: "payments" + long, Title: script, Fields: map[string]string{long: long}}},
		Attacks: []results.AttackInfo{{ID: "AB1" + long, Title: script + long, MainBinding: long, Variants: []results.VariantInfo{
			{Name: script + long, Summary: long, Condition: long, Kind: results.Attack, References: []string{"https://example.org/" + long, long}, Capabilities: []string{long}},
		}}},
	}
	w, err := results.Create(dir, results.NewManifest([]string{long, script}, 1, time.Now()), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range c.Targets {
		err := w.Append(results.Record{Schema: results.Schema, Target: target.ID, Attack: c.Attacks[0].ID, Variant: c.Attacks[0].Variants[0].Name, Kind: results.Attack,
			Scenario: c.Scenarios[0].ID, Approver: "faithful", Seed: 1, Pair: "x", Predicted: results.PredictBlocked, Observed: results.Executed, Reasons: []string{long}, Detail: script + long})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
}
