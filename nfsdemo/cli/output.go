package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/schollz/progressbar/v3"
	"github.com/stag-rdma/stag/nfsdemo/internal/ops"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/transport/rpc"
	"golang.org/x/term"
)

// printColumns prints columns with gap between them. The first left columns are aligned to the left, the others to the right,
// but for the last one if it is ragged: that is not aligned.
func printColumns(w io.Writer, rows [][]string, left int, ragged bool, gap string) {
	var width []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(width) {
				width = append(width, 0)
			}
			width[i] = max(width[i], len(cell))
		}
	}
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			switch pad := strings.Repeat(" ", width[i]-len(cell)); {
			case ragged && i == len(row)-1:
				cells[i] = cell
			case i < left:
				cells[i] = cell + pad
			default:
				cells[i] = pad + cell
			}
		}
		fmt.Fprintln(w, strings.Join(cells, gap))
	}
}

// urlPath encodes a path for a URL.
func urlPath(p string) string { return (&url.URL{Path: p}).EscapedPath() }

// modeString formats mode bits as ls -l does.
func modeString(m fs.FileMode) string {
	b := []byte("-rwxrwxrwx")
	for i, bit := 0, fs.FileMode(0o400); i < 9; i, bit = i+1, bit>>1 {
		if m&bit == 0 {
			b[i+1] = '-'
		}
	}
	special := func(i int, set fs.FileMode, with, without byte) {
		switch {
		case m&set == 0:
		case b[i] == 'x':
			b[i] = with
		default:
			b[i] = without
		}
	}
	special(3, fs.ModeSetuid, 's', 'S')
	special(6, fs.ModeSetgid, 's', 'S')
	special(9, fs.ModeSticky, 't', 'T')
	b[0] = typeOf(m).letter
	return string(b)
}

// fileType is what ls and stat call a type of files.
type fileType struct {
	bits   fs.FileMode // of fs.ModeType
	letter byte        // of ls -l
	name   string
}

var fileTypes = []fileType{
	{fs.ModeDir, 'd', "directory"},
	{fs.ModeSymlink, 'l', "symbolic link"},
	{fs.ModeNamedPipe, 'p', "named pipe"},
	{fs.ModeSocket, 's', "socket"},
	{fs.ModeDevice | fs.ModeCharDevice, 'c', "character device"},
	{fs.ModeDevice, 'b', "block device"},
}

// typeOf returns the type of a file.
func typeOf(m fs.FileMode) fileType {
	for _, t := range fileTypes {
		if m.Type() == t.bits {
			return t
		}
	}
	return fileType{0, '-', "regular file"}
}

// listTime formats a time as ls -l does: with the year instead of the hour if it is more than
// half a year from now.
func listTime(t, now time.Time) string {
	const halfYear = 182 * 24 * time.Hour
	if d := now.Sub(t); d > halfYear || d < -halfYear {
		return t.Format("Jan _2  2006")
	}
	return t.Format("Jan _2 15:04")
}

// plural returns "1 file", "2 files".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// fileJSON is a file in the output of ls --json and stat --json.
type fileJSON struct {
	Path   string    `json:"path"` // as in the URL, with the export
	Type   string    `json:"type"`
	Mode   string    `json:"mode"` // octal permission bits
	Links  uint32    `json:"links"`
	UID    uint32    `json:"uid"`
	GID    uint32    `json:"gid"`
	Size   uint64    `json:"size"` // octets
	Used   uint64    `json:"used"` // octets on disk
	FSID   uint64    `json:"fsid"`
	FileID uint64    `json:"fileid"`
	Atime  time.Time `json:"atime"`
	Mtime  time.Time `json:"mtime"`
	Ctime  time.Time `json:"ctime"`
	Target string    `json:"target,omitempty"` // of a symbolic link
	Handle string    `json:"handle,omitempty"` // hexadecimal; stat only
	// The octets of path and target if these are not UTF-8, which JSON cannot represent.
	PathOctets   []byte `json:"path_base64,omitempty"`
	TargetOctets []byte `json:"target_base64,omitempty"`
}

// newFileJSON describes a file.
func newFileJSON(n *nfsclient.Node, target string) *fileJSON {
	at := &n.Attr
	return &fileJSON{
		Path: n.Path, Type: typeOf(n.Mode()).name, Mode: permissions(n), Links: at.Nlink, UID: at.UID, GID: at.GID,
		Size: at.Size, Used: at.Used, FSID: at.FSID, FileID: at.FileID,
		Atime: at.Atime.Time().UTC(), Mtime: at.Mtime.Time().UTC(), Ctime: at.Ctime.Time().UTC(), Target: target,
		PathOctets: foreign(n.Path), TargetOctets: foreign(target),
	}
}

// foreign returns the octets of a name that is not UTF-8, and nil for other names.
func foreign(name string) []byte {
	if utf8.ValidString(name) {
		return nil
	}
	return []byte(name)
}

// printJSON prints v on one line of standard output.
func (a *app) printJSON(v any) error { return json.NewEncoder(a.stdout).Encode(v) }

// printStats prints the counters of a connection or a server.
func printStats(w io.Writer, who string, s rpc.Stats) {
	fmt.Fprintf(w, "%s: %d calls, %s by RDMA Read, %s by RDMA Write, %s inline, %d credits\n",
		who, s.Calls, ops.Octets(s.OctetsRead), ops.Octets(s.OctetsWritten), ops.Octets(s.OctetsInline), s.Credits)
	if s.ReadSegments+s.WriteSegments+s.ReplySegments > 0 {
		fmt.Fprintf(w, "%s: %d read, %d write and %d reply chunk segments, %d long calls\n",
			who, s.ReadSegments, s.WriteSegments, s.ReplySegments, s.LongCalls)
	}
	if n := s.Replayed + s.Joined; n > 0 {
		fmt.Fprintf(w, "%s: %d repeated calls were not run again\n", who, n)
	}
	if s.NotAllowed+s.TooMany+s.SlowPeers > 0 {
		fmt.Fprintf(w, "%s: refused %d connections of clients that are not allowed and %d beyond the limits; closed %d that were too slow\n",
			who, s.NotAllowed, s.TooMany, s.SlowPeers)
	}
	if s.Retransmits > 0 {
		fmt.Fprintf(w, "%s: %d connections, %d calls sent again\n", who, s.Accepted, s.Retransmits)
	}
}

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
	if f, ok := w.(*os.File); quiet || !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return &progress{w: w, start: time.Now()}
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

// quoteName makes a name safe to print: control characters would act on the terminal, and a
// newline would make one name look like two.
func quoteName(name string) string {
	clean := func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '?'
		}
		return r
	}
	return strings.Map(clean, name)
}
