package cli

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// meterDelay is how long a file is read before its bar appears.
const meterDelay = 500 * time.Millisecond

// meter draws a progress bar for a file that takes long to read. A nil *meter draws nothing.
type meter struct {
	w     io.Writer
	name  string
	size  int64 // -1 if it is not known
	done  int64
	start time.Time
	bar   *progressbar.ProgressBar
}

// newMeter returns nil if w is not a terminal.
func newMeter(w io.Writer, name string, in any) *meter {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	p := &meter{w: w, name: name, size: -1, start: time.Now()}
	if f, ok := in.(*os.File); ok {
		if st, err := f.Stat(); err == nil && st.Mode().IsRegular() {
			p.size = st.Size()
		}
	}
	return p
}

// reader returns r, and counts what is read from it.
func (p *meter) reader(r io.Reader) io.Reader {
	if p == nil {
		return r
	}
	return io.TeeReader(r, p)
}

// Write counts octets.
func (p *meter) Write(b []byte) (int, error) {
	p.done += int64(len(b))
	if p.bar == nil && time.Since(p.start) > meterDelay {
		p.bar = progressbar.NewOptions64(p.size,
			progressbar.OptionSetWriter(p.w), progressbar.OptionShowBytes(true), progressbar.OptionUseIECUnits(true),
			progressbar.OptionSetDescription(p.name), progressbar.OptionSetWidth(24),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
	}
	if p.bar != nil {
		_ = p.bar.Set64(p.done) // a terminal that cannot be written to does not matter
	}
	return len(b), nil
}

// end removes the bar.
func (p *meter) end() {
	if p != nil && p.bar != nil {
		_ = p.bar.Clear()
	}
}
