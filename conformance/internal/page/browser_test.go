package page

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stag-rdma/stag/conformance/internal/judge"
)

// browser drives a headless Chromium through its debugging pipe: JSON messages that end in a zero
// octet, commands on the child's descriptor 3 and answers on 4 (Chrome DevTools Protocol).
type browser struct {
	t       *testing.T
	in      io.WriteCloser
	out     *bufio.Reader
	session string
	last    int
	said    []string // what the page wrote to its console, and exceptions
}

// newBrowser starts Chromium, or skips the test where there is none.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	name := ""
	for _, n := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(n); err == nil {
			name = p
			break
		}
	}
	if name == "" {
		t.Skip("no chromium here (apt-get install chromium)")
	}
	// Not t.Context, which ends before Cleanup: the browser is asked to close, not killed unless go test's own limit is near.
	ctx := context.Background()
	if end, ok := t.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end.Add(-10*time.Second))
		t.Cleanup(cancel)
	}
	profile := profileDir(t)
	theirIn, in, err := os.Pipe()
	noErr(t, err)
	out, theirOut, err := os.Pipe()
	noErr(t, err)
	cmd := exec.CommandContext(ctx, name, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions",
		"--disable-background-networking", "--disable-dev-shm-usage", "--host-resolver-rules=MAP * ~NOTFOUND", "--remote-debugging-pipe",
		"--user-data-dir="+profile, "about:blank")
	cmd.ExtraFiles = []*os.File{theirIn, theirOut}
	noErr(t, cmd.Start())
	theirIn.Close()
	theirOut.Close()
	b := &browser{t: t, in: in, out: bufio.NewReader(out)}
	t.Cleanup(func() {
		_, _ = b.try("Browser.close", nil) // or it is gone already
		in.Close()
		_ = cmd.Wait() // its exit status says nothing about the page
		out.Close()
	})
	b.attach()
	return b
}

// profileDir is t.TempDir for a browser, whose helpers may still write there when it has ended.
func profileDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "chromium") //nolint:usetesting // TempDir fails the test for files that are late
	noErr(t, err)
	t.Cleanup(func() {
		for range 100 {
			if os.RemoveAll(dir) == nil {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
	})
	return dir
}

// attach opens a tab.
func (b *browser) attach() {
	b.t.Helper()
	var target struct{ TargetID string }
	b.into(&target, "Target.createTarget", map[string]any{"url": "about:blank"})
	var session struct{ SessionID string }
	b.into(&session, "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true})
	b.session = session.SessionID
	b.do("Page.enable", nil)
	b.do("Runtime.enable", nil)
	b.do("Log.enable", nil)
	b.size(1440, 900)
}

type message struct {
	ID     int             `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  json.RawMessage `json:"error,omitempty"`
}

// try sends a command and waits for its result.
func (b *browser) try(method string, params any) (json.RawMessage, error) {
	b.last++
	m := map[string]any{"id": b.last, "method": method}
	if params != nil {
		m["params"] = params
	}
	if b.session != "" {
		m["sessionId"] = b.session
	}
	j, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	if _, err := b.in.Write(append(j, 0)); err != nil {
		return nil, err
	}
	for {
		m, err := b.next()
		switch {
		case err != nil:
			return nil, err
		case m.ID != b.last:
			continue
		case m.Error != nil:
			return nil, fmt.Errorf("%s: %s", method, m.Error)
		}
		return m.Result, nil
	}
}

// next reads a message, and keeps what the page complains about.
func (b *browser) next() (*message, error) {
	j, err := b.out.ReadBytes(0)
	if err != nil {
		return nil, fmt.Errorf("chromium went away: %w", err)
	}
	m := new(message)
	if err := json.Unmarshal(j[:len(j)-1], m); err != nil {
		return nil, err
	}
	switch m.Method {
	case "Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded", "Page.javascriptDialogOpening":
		b.said = append(b.said, m.Method+" "+string(m.Params))
	}
	return m, nil
}

func (b *browser) do(method string, params any) json.RawMessage {
	b.t.Helper()
	r, err := b.try(method, params)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

func (b *browser) into(v any, method string, params any) {
	b.t.Helper()
	if err := json.Unmarshal(b.do(method, params), v); err != nil {
		b.t.Fatal(err)
	}
}

// size sets the size of the window.
func (b *browser) size(width, height int) {
	b.t.Helper()
	b.do("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false})
}

// load writes a page to a file and opens it, without a network.
func (b *browser) load(p *Builder, found ...*judge.Violation) {
	b.t.Helper()
	b.loadReport(p, reportOf(found))
}

func (b *browser) loadReport(p *Builder, rep *judge.Report) {
	b.t.Helper()
	name := filepath.Join(b.t.TempDir(), "page.html")
	f, err := os.Create(name)
	if err != nil {
		b.t.Fatal(err)
	}
	defer f.Close()
	if err := p.Write(f, rep); err != nil {
		b.t.Fatal(err)
	}
	b.do("Page.navigate", map[string]any{"url": "file://" + name})
	b.wait("document.readyState === 'complete' && document.querySelector('[role=option], #empty:not([hidden])') !== null")
}

// eval returns the value of an expression.
func (b *browser) eval(expression string) any {
	b.t.Helper()
	var r struct {
		Result           struct{ Value any }
		ExceptionDetails json.RawMessage
	}
	b.into(&r, "Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true})
	if r.ExceptionDetails != nil {
		b.t.Fatalf("%s: %s", expression, r.ExceptionDetails)
	}
	return r.Result.Value
}

// wait waits until an expression is true; the browser's own clock of frames paces it.
func (b *browser) wait(expression string) {
	b.t.Helper()
	for b.t.Context().Err() == nil {
		if b.eval("new Promise((r) => requestAnimationFrame(() => r(Boolean("+expression+"))))") == true {
			return
		}
	}
}

// want fails the test unless the expression has the value.
func (b *browser) want(why, expression string, value any) {
	b.t.Helper()
	if got := b.eval(expression); got != value {
		b.t.Errorf("%s: %s is %v, want %v", why, expression, got, value)
	}
}

// keys types: single characters, and names such as Enter.
func (b *browser) keys(names ...string) {
	b.t.Helper()
	for _, k := range names {
		down := map[string]any{"type": "keyDown", "key": k}
		if len(k) == 1 {
			down["text"] = k
		}
		switch k { // what the browser itself listens to, it knows by number
		case "Enter":
			down["text"], down["windowsVirtualKeyCode"] = "\r", 13
		case "Escape":
			down["windowsVirtualKeyCode"] = 27
		}
		b.do("Input.dispatchKeyEvent", down)
		b.do("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": k})
	}
}

// click presses the mouse in the middle of the first element that matches.
func (b *browser) click(selector string) {
	b.t.Helper()
	at, ok := b.eval(fmt.Sprintf(`(() => { const e = document.querySelector(%q); if (!e) return null; e.scrollIntoView({block: 'nearest'});
		const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2] })()`, selector)).([]any)
	if !ok {
		b.t.Fatalf("nothing to click on: %s", selector)
	}
	for _, typ := range []string{"mousePressed", "mouseReleased"} {
		b.do("Input.dispatchMouseEvent", map[string]any{"type": typ, "x": at[0], "y": at[1], "button": "left", "clickCount": 1})
	}
}

// screenshot writes what is seen to a file, PNG.
func (b *browser) screenshot(name string) {
	b.t.Helper()
	var shot struct{ Data string }
	b.into(&shot, "Page.captureScreenshot", map[string]any{"format": "png"})
	png, err := base64.StdEncoding.DecodeString(shot.Data)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(name, png, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// quote returns s as a literal of JavaScript.
func quote(s string) string {
	j, _ := json.Marshal(s) // a string can always be marshalled
	return string(j)
}
