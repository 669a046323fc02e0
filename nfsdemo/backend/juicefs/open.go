package juicefs

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"time"

	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/juicedata/juicefs/pkg/vfs"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// Limits of open files.
const (
	maxOpen   = 4096
	idleTime  = 10 * time.Second
	flushTime = time.Minute // then a client has to ask again
)

// open is a file whose octets this process reads or writes.
type open struct {
	v   *Volume
	ino meta.Ino

	refs int       // guarded by openFiles.mu
	used time.Time // guarded by openFiles.mu

	mu   sync.RWMutex // held while w or r is used; exclusively, while they change and while the file is cut
	w    vfs.FileWriter
	r    vfs.FileReader
	seen stamp // of the file as r knows it

	state sync.Mutex // guards the rest
	seq   uint64     // of the latest Write
	end   uint64     // of unstable octets; 0: there are none
	wrote time.Time
}

// stamp changes when a file does.
type stamp struct {
	mtime, ctime         int64
	mtimensec, ctimensec uint32
	length               uint64
}

func stampOf(a *meta.Attr) stamp {
	return stamp{a.Mtime, a.Ctime, a.Mtimensec, a.Ctimensec, a.Length}
}

// openFiles are the files that are open, and for a while those that were. It is safe for concurrent use.
type openFiles struct {
	v    *Volume
	mu   sync.Mutex
	m    map[meta.Ino]*open
	stop chan struct{}
	done chan struct{}
}

func newOpenFiles(v *Volume) *openFiles {
	f := &openFiles{v: v, m: make(map[meta.Ino]*open), stop: make(chan struct{}), done: make(chan struct{})}
	go f.sweep()
	return f
}

// get opens a file; call put afterwards. If too many are open, it is ErrJukebox.
func (f *openFiles) get(ino meta.Ino) (*open, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	o := f.m[ino]
	if o == nil {
		if len(f.m) >= maxOpen && !f.evict() {
			return nil, nfs3.ErrJukebox
		}
		o = &open{v: f.v, ino: ino}
		f.m[ino] = o
	}
	o.refs++
	return o, nil
}

func (f *openFiles) put(o *open) {
	f.mu.Lock()
	defer f.mu.Unlock()
	o.refs--
	o.used = time.Now()
}

// evict drops a file that nobody uses and that has no unstable octets. The caller holds f.mu.
func (f *openFiles) evict() bool {
	for ino, o := range f.m {
		if o.refs == 0 && !o.dirty() {
			delete(f.m, ino)
			go o.close()
			return true
		}
	}
	return false
}

// add adds what is unstable to the attributes of a file.
func (f *openFiles) add(ino meta.Ino, a *nfs3.Attr) {
	f.mu.Lock()
	o := f.m[ino]
	f.mu.Unlock()
	if o == nil {
		return
	}
	o.state.Lock()
	defer o.state.Unlock()
	if o.end == 0 {
		return
	}
	a.Size = max(a.Size, o.end)
	if t := nfs3.TimeOf(o.wrote); t.Time().After(a.Mtime.Time()) {
		a.Mtime, a.Ctime = t, t
	}
}

// sweep closes files that have not been used for a while.
func (f *openFiles) sweep() {
	defer close(f.done)
	tick := time.NewTicker(idleTime / 2)
	defer tick.Stop()
	for {
		select {
		case <-f.stop:
			return
		case now := <-tick.C:
			for _, o := range f.idle(now) {
				if o.flush() == nil {
					f.drop(o)
				}
			}
		}
	}
}

func (f *openFiles) idle(now time.Time) (list []*open) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range f.m {
		if o.refs == 0 && now.Sub(o.used) > idleTime {
			list = append(list, o)
		}
	}
	return list
}

// drop closes a file if nobody has begun to use it.
func (f *openFiles) drop(o *open) {
	f.mu.Lock()
	mine := f.m[o.ino] == o && o.refs == 0 && !o.dirty()
	if mine {
		delete(f.m, o.ino)
	}
	f.mu.Unlock()
	if mine {
		o.close()
	}
}

// flush makes everything stable.
func (f *openFiles) flush() error {
	f.mu.Lock()
	var list []*open
	for _, o := range f.m {
		list = append(list, o)
	}
	f.mu.Unlock()
	var errs []error
	for _, o := range list {
		if err := o.flush(); err != nil && !errors.Is(err, nfs3.ErrStale) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// close ends the sweep, and makes everything stable.
func (f *openFiles) close() error {
	close(f.stop)
	<-f.done
	return f.flush()
}

func (o *open) dirty() bool {
	o.state.Lock()
	defer o.state.Unlock()
	return o.end != 0
}

func (o *open) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closeReader()
	if o.w != nil {
		o.w.Close(o.v.ctx)
		o.w = nil
	}
}

func (o *open) closeReader() {
	if o.r != nil {
		o.r.Close(o.v.ctx)
		o.r = nil
	}
}

// write accepts octets; a are the attributes of the file.
func (o *open) write(p []byte, off uint64, a *meta.Attr) error {
	if err := o.lockWriter(a); err != nil {
		return err
	}
	st := o.w.Write(o.v.ctx, off, p)
	if st == 0 {
		o.state.Lock()
		o.seq++
		o.end = max(o.end, off+uint64(len(p)))
		o.wrote = time.Now()
		o.state.Unlock()
	}
	o.mu.RUnlock()
	if st != 0 {
		return o.fail(st)
	}
	return nil
}

// lockWriter holds o.mu for reading, with a writer.
func (o *open) lockWriter(a *meta.Attr) error {
	for {
		o.mu.RLock()
		if o.w != nil {
			if !o.dirty() && o.w.GetLength() > a.Length {
				o.w.Truncate(a.Length) // another server has cut the file
			}
			return nil
		}
		o.mu.RUnlock()
		o.mu.Lock()
		if o.w == nil {
			o.w = o.v.writer.Open(o.ino, a.Length, a.Tier)
		}
		o.mu.Unlock()
	}
}

// flush makes all octets stable that were written before.
func (o *open) flush() error {
	o.mu.RLock()
	w := o.w
	if w == nil {
		o.mu.RUnlock()
		return nil
	}
	o.state.Lock()
	seq := o.seq
	o.state.Unlock()
	full, done := o.v.blob.next(), make(chan syscall.Errno, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), flushTime)
		defer cancel()
		done <- w.Flush(meta.WrapWithoutCancel(ctx, 0, 0, o.v.ctx.Gids()))
	}()
	var st syscall.Errno
	select {
	case st = <-done:
	case <-full: // JuiceFS goes on trying; the client hears of it now
		st = syscall.ENOSPC
	}
	if st == 0 {
		o.state.Lock()
		if o.seq == seq {
			o.end = 0
		}
		o.state.Unlock()
	}
	o.mu.RUnlock()
	if st != 0 && st != syscall.EINTR {
		return o.fail(st)
	}
	return gone(st)
}

// fail drops a writer that has lost octets, after the verifier has changed: who reads the new one with a COMMIT or a WRITE
// knows that they have to be sent again. If it is the object store that has failed, the error says to try later, so that
// this happens. Octets of a file that is gone nobody misses.
func (o *open) fail(st syscall.Errno) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if st != syscall.ENOENT {
		o.v.newVerf()
	}
	if o.w != nil {
		go o.w.Close(o.v.ctx) // it waits for what JuiceFS still tries; later octets go to the same writer, behind those
		o.w = nil
	}
	o.state.Lock()
	o.end = 0
	o.state.Unlock()
	return gone(st)
}

// read reads octets of a file that n knows.
func (o *open) read(n *file, p []byte, off uint64) (int, error) {
	if o.dirty() {
		if err := o.flush(); err != nil && !errors.Is(err, nfs3.ErrNoSpc) { // else they are given up
			return 0, err
		}
	}
	a, err := n.stat()
	if err == nil {
		err = n.mayRead(&a)
	}
	if err != nil || off >= a.Length || len(p) == 0 {
		return 0, err
	}
	o.lockReader(&a)
	defer o.mu.RUnlock()
	got, st := o.r.Read(o.v.ctx, off, p)
	for st == syscall.EAGAIN {
		got, st = o.r.Read(o.v.ctx, off, p)
	}
	return got, lost(st)
}

// lockReader holds o.mu for reading, with a reader that knows no older file than a.
func (o *open) lockReader(a *meta.Attr) {
	want := stampOf(a)
	for {
		o.mu.RLock()
		if o.r != nil && o.seen == want {
			return
		}
		o.mu.RUnlock()
		o.mu.Lock()
		if o.r == nil || o.seen != want {
			o.closeReader()
			o.r, o.seen = o.v.reader.Open(o.ino, a.Length), want
		}
		o.mu.Unlock()
	}
}

// cut sets the size. The caller may do so.
func (o *open) cut(size uint64) error {
	if err := o.flush(); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.w != nil { // for what was written in between
		if st := o.w.Flush(o.v.ctx); st != 0 {
			return gone(st)
		}
	}
	var a meta.Attr
	if st := o.v.m.Truncate(o.v.ctx, o.ino, 0, size, &a, true); st != 0 {
		return gone(st)
	}
	o.v.writer.Truncate(o.ino, size)
	o.closeReader()
	o.state.Lock()
	o.end = 0
	o.state.Unlock()
	return nil
}
