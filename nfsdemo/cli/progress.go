package cli

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progressDelay is how long a run lasts before its bar appears.
const progressDelay = 300 * time.Millisecond

// progress draws one bar for all files of a run: how many there are, octets, rate and time left. What is still
// to come is counted while files are copied, so the total grows at first. A nil *progress draws nothing. It is
// safe for concurrent use.
type progress struct {
	w     io.Writer
	start time.Time

	mu     sync.Mutex
	bar    *progressbar.ProgressBar
	files  int // that are done
	all    int // that were found
	whole  bool
	done   int64  // octets
	total  int64  // octets that were found
	shown  string // the last text
	hidden bool   // it has ended
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

// change changes p by f and draws the bar.
func (p *progress) change(f func()) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	if p.hidden || p.bar == nil && time.Since(p.start) < progressDelay {
		return
	}
	if p.bar == nil {
		p.bar = progressbar.NewOptions64(p.most(),
			progressbar.OptionSetWriter(p.w), progressbar.OptionShowBytes(true), progressbar.OptionUseIECUnits(true),
			progressbar.OptionShowCount(), progressbar.OptionSetWidth(16),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionSetDescription(p.text()))
	}
	if t := p.text(); t != p.shown {
		p.shown = t
		p.bar.Describe(t)
	}
	if most := p.most(); most != p.bar.GetMax64() {
		p.bar.ChangeMax64(most)
	}
	_ = p.bar.Set64(p.done) // if the terminal fails, only the bar is lost
}

// most is the total: more than what is done until the end, because a bar that is full disappears.
func (p *progress) most() int64 { return max(p.total, p.done+1) }

// text counts the files.
func (p *progress) text() string {
	if !p.whole {
		return fmt.Sprintf("%d of %d+ files", p.files, max(p.all, p.files))
	}
	return fmt.Sprintf("%d of %s", p.files, plural(max(p.all, p.files), "file"))
}

// found announces another file of n octets, -1 if unknown.
func (p *progress) found(n int64) {
	p.change(func() { p.all, p.total = p.all+1, p.total+max(n, 0) })
}

// counted says that all files were found.
func (p *progress) counted() { p.change(func() { p.whole = true }) }

// skip says that a file of n octets is not copied.
func (p *progress) skip(n int64) {
	p.change(func() { p.all, p.total = p.all-1, p.total-max(n, 0) })
}

// skipped says that n octets of a file are not copied.
func (p *progress) skipped(n int64) {
	if n > 0 {
		p.change(func() { p.total -= n })
	}
}

// copied says that a file is done.
func (p *progress) copied() { p.change(func() { p.files++ }) }

// add counts n more octets.
func (p *progress) add(n int) { p.change(func() { p.done += int64(n) }) }

// counter returns add, or nil when nothing is drawn.
func (p *progress) counter() func(int) {
	if p == nil {
		return nil
	}
	return p.add
}

// above runs f, which prints lines, without the bar between them.
func (p *progress) above(f func()) {
	if p == nil {
		f()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		_ = p.bar.Clear()
	}
	f()
}

// end removes the bar.
func (p *progress) end() {
	if p == nil {
		return
	}
	p.above(func() {})
	p.change(func() { p.hidden = true })
}
