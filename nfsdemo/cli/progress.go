package cli

import (
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progressDelay is how long a transfer lasts before its bar appears.
const progressDelay = 300 * time.Millisecond

// progress draws a bar for long transfers. A nil *progress draws nothing. add is safe for
// concurrent use.
type progress struct {
	w     io.Writer
	start time.Time

	mu    sync.Mutex
	bar   *progressbar.ProgressBar
	name  string
	done  int64
	total int64
}

// newProgress returns nil if w is not a terminal, or if quiet is set.
func newProgress(w io.Writer, quiet bool) *progress {
	if quiet || !isTerminal(w) {
		return nil
	}
	return &progress{w: w, start: time.Now()}
}

// isTerminal reports whether w is a terminal.
func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// begin announces another file of n octets, -1 if unknown.
func (p *progress) begin(name string, n int64) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.name = name
	p.total += max(n, 0)
	if p.bar != nil {
		p.bar.ChangeMax64(max(p.total, 1))
		p.bar.Describe(name)
	}
}

// add counts n more octets.
func (p *progress) add(n int) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += int64(n)
	if p.bar == nil && time.Since(p.start) > progressDelay {
		p.bar = progressbar.NewOptions64(max(p.total, 1),
			progressbar.OptionSetWriter(p.w), progressbar.OptionShowBytes(true), progressbar.OptionUseIECUnits(true),
			progressbar.OptionSetDescription(p.name), progressbar.OptionSetWidth(24),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
	}
	if p.bar != nil {
		_ = p.bar.Set64(p.done) // if the terminal fails, only the bar is lost
	}
}

// counter returns add, or nil when nothing is drawn.
func (p *progress) counter() func(int) {
	if p == nil {
		return nil
	}
	return p.add
}

// end removes the bar.
func (p *progress) end() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}
