package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"slices"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
)

// inode is what a file system says about a file beside its mode, size and time; uid and gid are -1 if it does not.
type inode struct {
	fsid, id uint64 // id 0: unknown
	links    uint64
	uid, gid int64
	ctime    time.Time // zero: unknown
	sparse   bool      // it takes less room than its size
}

// attrs are what cp -p keeps of a file or a directory.
type attrs struct {
	mode     fs.FileMode // of modeBits
	mtime    time.Time   // zero: leave it
	uid, gid int64       // -1: unknown, or leave them
}

// setter gives a file attributes, and returns those that it has then: a server may round, squash or leave out without an error.
type setter func(ctx context.Context, want attrs) (got attrs, err error)

// modeBits are the twelve of Unix.
const modeBits = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

// unixMode returns them as Unix and NFS have them.
func unixMode(m fs.FileMode) uint32 {
	bits := uint32(m.Perm())
	for i, b := range [...]fs.FileMode{fs.ModeSticky, fs.ModeSetgid, fs.ModeSetuid} {
		if m&b != 0 {
			bits |= 0o1000 << i
		}
	}
	return bits
}

// owns reports whether a copy has the owner that it should have, as far as that is known.
func (a attrs) owns(got attrs) bool {
	return a.uid < 0 || got.uid < 0 || a.uid == got.uid && a.gid == got.gid
}

// modeFor returns the mode of a copy. Whose owner is another must not run as him.
func (a attrs) modeFor(got attrs) fs.FileMode {
	if a.owns(got) {
		return a.mode
	}
	return a.mode &^ (fs.ModeSetuid | fs.ModeSetgid)
}

// setLocal gives f, name in root, attributes, and returns those that it has then. The owner is first: a change of
// it clears set-id bits.
func setLocal(f *os.File, root *os.Root, name string, want attrs) (got attrs, err error) {
	if got, err = localAttrs(f.Stat()); err != nil {
		return got, err
	}
	if !want.owns(got) {
		if err := f.Chown(int(want.uid), int(want.gid)); err != nil && !errors.Is(err, fs.ErrPermission) {
			return got, err
		}
		if got, err = localAttrs(f.Stat()); err != nil {
			return got, err
		}
	}
	if err := f.Chmod(want.modeFor(got)); err != nil {
		return got, err
	}
	if !want.mtime.IsZero() {
		if err := setTime(root, name, want.mtime); err != nil {
			return got, err
		}
	}
	return localAttrs(f.Stat())
}

// setLocalLink is setLocal for a symbolic link, whose mode nobody looks at.
func setLocalLink(root *os.Root, name string, want attrs) (attrs, error) {
	got, err := localAttrs(root.Lstat(name))
	if err != nil {
		return got, err
	}
	if !want.owns(got) {
		if err := root.Lchown(name, int(want.uid), int(want.gid)); err != nil && !errors.Is(err, fs.ErrPermission) {
			return got, err
		}
	}
	if err := setTime(root, name, want.mtime); err != nil {
		return got, err
	}
	return localAttrs(root.Lstat(name))
}

func localAttrs(st fs.FileInfo, err error) (attrs, error) {
	if err != nil {
		return attrs{}, err
	}
	in := inodeOf(st)
	return attrs{st.Mode() & modeBits, st.ModTime(), in.uid, in.gid}, nil
}

// set is setLocal for a file on a server. Linux clears set-id bits when one SETATTR changes owner and mode, so there are two.
func (r *remoteFile) set(ctx context.Context, want attrs) (attrs, error) {
	c, n := r.c, r.n
	if !want.owns(remoteAttrs(n)) {
		change := nfs3.SetAttr{SetUID: true, UID: uint32(want.uid), SetGID: true, GID: uint32(want.gid)}
		if err := c.SetAttr(ctx, n, &change); err != nil && !errors.Is(err, fs.ErrPermission) {
			return attrs{}, err
		}
	}
	mode := want.modeFor(remoteAttrs(n))
	if n.IsSymlink() { // nobody looks at its mode, and Linux cannot set it
		mode = remoteAttrs(n).mode
	}
	change := nfs3.SetAttr{SetMode: !n.IsSymlink(), Mode: unixMode(mode)}
	if want.mtime.IsZero() && mode == remoteAttrs(n).mode {
		return remoteAttrs(n), nil
	}
	if !want.mtime.IsZero() {
		change.MtimeHow, change.Mtime = nfs3.ClientTime, nfs3.TimeOf(want.mtime)
	}
	// Some systems have no call for the time of a link: that is a loss, and no failure.
	if err := c.SetAttr(ctx, n, &change); err != nil && !(n.IsSymlink() && errors.Is(err, nfs3.ErrNotSupp)) {
		return attrs{}, err
	}
	if got := remoteAttrs(n); got.mode == mode && want.sameTime(got) {
		return got, nil
	}
	err := c.Refresh(ctx, n) // the answer may have been without attributes
	return remoteAttrs(n), err
}

func remoteAttrs(n *nfsclient.Node) attrs {
	return attrs{n.Mode() & modeBits, n.ModTime(), int64(n.Attr.UID), int64(n.Attr.GID)}
}

func (a attrs) sameTime(b attrs) bool {
	return sameTime(stamp{a.mtime, a.mtime}, stamp{b.mtime, b.mtime})
}

// stamp has the time of the last change of a file and one that the file system itself gave it, which may be the same.
type stamp struct{ mtime, clock time.Time }

// ticks reports whether the clock of the file system may have this tick.
func (s stamp) ticks(tick time.Duration) bool {
	return s.mtime.Truncate(tick).Equal(s.mtime) && s.clock.Truncate(tick).Equal(s.clock)
}

// sameTime reports whether a and b have one time by the coarser of their clocks, which shows in times that are all
// multiples of its tick: no file system rounds to less than one. A whole second that a user has set shows nothing, but
// the clock does.
func sameTime(a, b stamp) bool {
	for _, tick := range [...]time.Duration{1, 100, time.Microsecond, time.Millisecond, time.Second} {
		if a.mtime.Truncate(tick).Equal(b.mtime.Truncate(tick)) && (a.ticks(tick) || b.ticks(tick)) {
			return true
		}
	}
	return false
}

// keepAll gives a copy the attributes of src, and notes what it has not got then.
func (c *copier) keepAll(ctx context.Context, src *source, set setter) error {
	c.linked(src)
	want := attrs{src.mode & modeBits, src.mtime, src.uid, src.gid}
	got, err := set(ctx, want)
	if err != nil {
		return err
	}
	if src.local != "" && hasXattrs(src.local, isLink(src.mode)) {
		c.lose("extended attributes", src)
	}
	if !want.owns(got) && (c.archive || c.root) { // others may not give files away, and do not expect it
		c.lose("owner", src)
	}
	if want.mode != got.mode && !isLink(src.mode) {
		c.lose("mode", src)
	}
	if !want.sameTime(got) {
		c.lose("time", src)
	} else if src.node != nil && (src.node.Attr.Mtime == nfs3.Time{} || src.node.Attr.Mtime == nfs3.UnixTime(math.MaxInt64, 0)) {
		c.lose("time before 1970 or after 2106", src) // the first and the last time of NFS stand for all others
	}
	return nil
}

// linked notes a file with several names, of which this is not the first one: its copy is another file.
func (c *copier) linked(src *source) {
	if src.links < 2 || src.id == 0 || src.mode.IsDir() {
		return
	}
	type name struct {
		c        *nfsclient.Client
		fsid, id uint64
	}
	if _, seen := c.names.LoadOrStore(name{src.client, src.fsid, src.id}, nil); seen {
		c.lose("hard link", src)
	}
}

// loss is what could not be kept of some files.
type loss struct {
	n     int
	first string
}

func (c *copier) lose(what string, src *source) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.losses == nil {
		c.losses = map[string]loss{}
	}
	l := c.losses[what]
	if l.n++; l.n == 1 {
		l.first = src.show
	}
	c.losses[what] = l
}

// tellLosses says what was not kept. With -a that is a failure.
func (c *copier) tellLosses() {
	for _, what := range slices.Sorted(maps.Keys(c.losses)) {
		l := c.losses[what]
		fmt.Fprintf(c.a.stderr, "nfsdemo: %s not kept: of %s, the first is %s\n", what, plural(l.n, "name"), l.first)
		c.partial = c.partial || c.archive
	}
}
