package crash

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// Worker is a client with a directory of its own, which does one operation at a time.
type Worker struct {
	ID     uint16
	Seed   uint64
	Caller Caller
	List   *List
	Past   *History // the list of earlier lives

	m    *Model
	c    *chooser
	late *Op     // the last call, if it may come again
	said *Result // its answer
	seen int     // connections
}

// mountXID is the first XID of calls that are not operations.
const mountXID = 1 << 31

// Run works until ctx ends or something is wrong. It continues where the list ends: if the last
// operation has no result, Run sends it again if the caller can, and otherwise returns.
func (w *Worker) Run(ctx context.Context, export string) error {
	fh, err := root(ctx, w.Caller, mountXID, export)
	if err != nil {
		return fmt.Errorf("worker %d: mount %s: %w", w.ID, export, err)
	}
	w.m = NewModel(w.ID)
	w.m.root.handle = fh
	w.c = &chooser{Rand: rand.New(rand.NewPCG(w.Seed, uint64(len(w.Past.Ops)))), m: w.m}
	if err := w.resume(ctx); err != nil {
		return fmt.Errorf("worker %d: %w", w.ID, err)
	}
	if len(w.Past.Ops) == 0 {
		w.seen = w.Caller.dials()
	}
	if err := w.repeat(ctx); err != nil {
		return fmt.Errorf("worker %d: %w", w.ID, err)
	}
	for n := uint32(len(w.Past.Ops)) + 1; ; n++ {
		o := w.c.next()
		o.N, o.Life = n, w.Caller.life()
		if w.Caller.names() {
			o.XID = n
		}
		if err := w.List.Issue(o); err != nil {
			return err
		}
		if err := w.do(ctx, o); err != nil {
			return fmt.Errorf("worker %d: %v: %w", w.ID, o, err)
		}
		if err := w.repeat(ctx); err != nil {
			return fmt.Errorf("worker %d: %w", w.ID, err)
		}
	}
}

// resume brings the model up to the end of the list.
func (w *Worker) resume(ctx context.Context) error {
	for i, o := range w.Past.Ops {
		res := w.Past.Results[i]
		if res == nil {
			if !w.Caller.names() && !o.looks() {
				return fmt.Errorf("%v is open, but its XID is unknown", o)
			}
			return w.do(ctx, o)
		}
		w.learn(o, res)
	}
	return nil
}

// do sends an operation, notes its result and learns from it.
func (w *Worker) do(ctx context.Context, o *Op) error {
	res, err := w.send(ctx, o)
	if err != nil {
		return err
	}
	res.Life = w.Caller.life()
	k, _ := w.Caller.(*kept)
	if k != nil && o.Once() {
		res.Kept = k.last
	}
	if err := w.List.Result(o.N, res); err != nil {
		return err
	}
	if k != nil {
		k.listed()
	}
	w.learn(o, res)
	if res.Status == nfs3.ErrJukebox {
		return pause(ctx)
	}
	return nil
}

func (w *Worker) send(ctx context.Context, o *Op) (*Result, error) {
	msg, err := o.call(w.ID)
	if err != nil {
		return nil, err
	}
	raw, err := w.Caller.do(ctx, o.XID, nfs3.Program, msg)
	if err != nil {
		return nil, err
	}
	return o.result(msg.proc, raw)
}

// learn applies a result to the model. It does not check the result: Check does.
func (w *Worker) learn(o *Op, res *Result) {
	if res.Status == nfs3.ErrJukebox {
		return
	}
	w.m.Apply(o, res)
	if w.late = nil; o.Once() {
		w.late, w.said = o, res
	}
}

// repeat sends the last call again on a new connection although it was answered, as if the network had delivered
// it late, unless the server has forgotten it. It must be the last: if the server is killed meanwhile, it runs again.
func (w *Worker) repeat(ctx context.Context) error {
	if w.Caller.dials() == w.seen || !w.Caller.names() {
		return nil
	}
	if o := w.late; o != nil && w.said.Life == w.Caller.life() {
		res, err := w.send(ctx, o)
		if err != nil {
			return fmt.Errorf("%v again: %w", o, err)
		}
		res.Life = w.Caller.life()
		if err := w.List.Again(o.N, res); err != nil {
			return err
		}
	}
	w.seen = w.Caller.dials()
	return nil
}

// file is what the content of a file may be.
type file struct {
	pieces []fate // the most pieces that it may have
	least  int    // the least number of pieces
	// The write verifier of data that were written and are not durable. A COMMIT that is
	// answered with the same one makes them durable (RFC 1813 Section 3.3.21).
	verf  uint64
	loose bool // there are such data
	mixed bool // their answers had different verifiers
}

// fate holds the stamps that a piece may have; the last was written last.
type fate []uint64

func (f *file) clone() file {
	c := *f
	c.pieces = slices.Clone(f.pieces)
	for i, p := range c.pieces {
		c.pieces[i] = slices.Clone(p)
	}
	return c
}

// truncate sets the size, durably.
func (f *file) truncate(n int) {
	f.grow(n)
	f.pieces, f.least = f.pieces[:n], n
}

// grow makes room for n pieces.
func (f *file) grow(n int) {
	for len(f.pieces) < n {
		f.pieces = append(f.pieces, fate{hole})
	}
}

// write applies a Write. Without a result, each piece may have been written or not.
func (f *file) write(worker uint16, o *Op, res *Result) {
	end := o.First + o.Pieces
	f.grow(end)
	sure := res != nil && res.Stable
	for i := range o.Pieces {
		p := &f.pieces[o.First+i]
		if sure {
			*p = nil
		}
		*p = append(*p, stamp(worker, o.N, i))
	}
	switch {
	case sure:
		f.least = max(f.least, end)
		if _, some := f.unsure(1); some == 0 {
			f.loose, f.mixed = false, false
		}
	case res != nil:
		f.mixed = f.loose && (f.mixed || f.verf != res.Verf)
		f.loose, f.verf = true, res.Verf
	}
}

// commit makes the written data durable, unless the server has lost them meanwhile.
func (f *file) commit(res *Result) {
	if res == nil || f.mixed || f.loose && f.verf != res.Verf {
		return
	}
	for i, p := range f.pieces {
		f.pieces[i] = p[len(p)-1:]
	}
	f.least, f.loose = len(f.pieces), false
}

// unsure returns the first run of pieces that a client must write again, because a COMMIT said
// that they may be lost.
func (f *file) unsure(most int) (first, n int) {
	open := func(p fate) bool { return len(p) > 1 }
	first = slices.IndexFunc(f.pieces, open)
	if first < 0 {
		if f.least < len(f.pieces) {
			return len(f.pieces) - 1, 1
		}
		return 0, 0
	}
	for n = 1; n < most && first+n < len(f.pieces) && open(f.pieces[first+n]); n++ {
	}
	return first, n
}

// Piece is the unit in which files are written, in octets. A disk writes it atomically.
const Piece = 512

// Stamps that no operation writes.
const (
	hole uint64 = 0     // zeros
	torn        = ^hole // not what anybody wrote
)

// stamp identifies piece i of the data that operation n of a worker writes.
func stamp(worker uint16, n uint32, i int) uint64 {
	return uint64(worker)<<48 | uint64(n)<<16 | uint64(i)&0xffff
}

// stampText says who wrote a piece.
func stampText(s uint64) string {
	switch s {
	case hole:
		return "zeros"
	case torn:
		return "octets that nobody wrote"
	}
	return fmt.Sprintf("piece %[3]d of operation %[1]d of worker %[2]d", uint32(s>>16), s>>48, s&0xffff)
}

// appendPiece appends the octets of a piece: its stamp, and numbers derived from it.
func appendPiece(b []byte, s uint64) []byte {
	x := s
	for range Piece / 8 {
		b = binary.BigEndian.AppendUint64(b, x)
		x = x*6364136223846793005 + 1442695040888963407 // Knuth's MMIX
		if s == hole {
			x = 0
		}
	}
	return b
}

// stamps returns the stamps of the pieces in b. A short last piece is torn.
func stamps(b []byte) []uint64 {
	var out []uint64
	for len(b) > 0 {
		n := min(len(b), Piece)
		s := torn
		if n == Piece {
			s = binary.BigEndian.Uint64(b)
			if string(appendPiece(nil, s)) != string(b[:n]) {
				s = torn
			}
		}
		out, b = append(out, s), b[n:]
	}
	return out
}

// data returns the octets that a Write writes.
func (o *Op) data(worker uint16) []byte {
	b := make([]byte, 0, o.Pieces*Piece)
	for i := range o.Pieces {
		b = appendPiece(b, stamp(worker, o.N, i))
	}
	return b
}

// chooser chooses what a worker does next.
type chooser struct {
	*rand.Rand
	m *Model
}

// Limits: few names, so that each is used again and again, and small files.
const (
	ownNames    = 6
	sharedNames = 3
	innerNames  = 2
	maxPieces   = 48
	maxWrite    = 8
)

// kinds are the operations, each as often as it is to be chosen.
var kinds = []Kind{
	Create, Guarded, Guarded, Exclusive, Mkdir, Symlink, Mkfifo, Remove, Remove, Remove, Rmdir, Rename, Rename, Rename,
	Link, Link, Chmod, Chmod, Truncate, Read, Look, GetAttr, GetAttr,
	Write, Write, Write, Write, Write, Write, Write, Write, Write, Write, Commit, Commit, Commit, Commit, // few files exist
}

// next returns the next operation, without a number.
func (c *chooser) next() *Op {
	dir := own(c.m.Worker)
	if n := c.m.find(Shared); n.handle == nil {
		return c.ready(&Op{Kind: Look, Path: Shared})
	}
	if c.m.find(dir) == nil {
		return c.ready(&Op{Kind: Mkdir, Path: dir, Mode: 0o755})
	}
	for {
		o := &Op{Kind: kinds[c.IntN(len(kinds))]}
		if c.fill(o, c.IntN(10) == 0) {
			return c.ready(o)
		}
	}
}

// ready sets the handles of the operation, or returns a Look for the first unknown one.
func (c *chooser) ready(o *Op) *Op {
	need := []struct {
		path string
		to   *[]byte
	}{{path.Dir(o.Path), &o.Dir}}
	if o.To != "" {
		need = append(need, struct {
			path string
			to   *[]byte
		}{path.Dir(o.To), &o.Into})
	}
	if !o.Kind.once() && o.Kind != Look || o.Kind == Write || o.Kind == Chmod || o.Kind == Truncate || o.Kind == Link {
		need = append(need, struct {
			path string
			to   *[]byte
		}{o.Path, &o.File})
	}
	for _, n := range need {
		if *n.to = c.m.find(n.path).handle; *n.to == nil {
			return c.ready(&Op{Kind: Look, Path: n.path})
		}
	}
	return o
}

// path returns one of the paths of the worker.
func (c *chooser) path() string {
	dir := own(c.m.Worker)
	i := c.IntN(ownNames + sharedNames)
	if i >= ownNames {
		return fmt.Sprintf("%s/%s.%d", Shared, dir, i)
	}
	p := fmt.Sprintf("%s/n%d", dir, i)
	if n := c.m.find(p); n != nil && n.typ == nfs3.TypeDir && c.IntN(2) == 0 {
		p += fmt.Sprintf("/n%d", c.IntN(innerNames))
	}
	return p
}

// fill chooses the names and the other fields; with fails, so that the operation is refused. It
// reports whether that was possible.
func (c *chooser) fill(o *Op, fails bool) bool {
	o.Path = c.path()
	o.Mode = 0o600 + uint32(c.IntN(8)*8+c.IntN(8))
	n := c.m.find(o.Path)
	switch o.Kind {
	case Mkdir: // one level only, so that paths do not grow
		return (n != nil) == fails && path.Dir(o.Path) == own(c.m.Worker)
	case Guarded, Exclusive, Mkfifo:
		o.Verf = c.Uint64() >> 8
		return (n != nil) == fails
	case Symlink:
		o.Target = fmt.Sprintf("to/%d", c.Uint32())
		return (n != nil) == fails
	case Create:
		return n == nil || n.typ == nfs3.TypeReg
	case Remove:
		return (n == nil) == fails && (n == nil || n.typ != nfs3.TypeDir)
	case Rmdir:
		return (n == nil) == fails && (n == nil || n.typ == nfs3.TypeDir)
	case Rename:
		return c.fillRename(o, n, fails)
	case Link:
		o.To = c.path()
		return n != nil && n.typ == nfs3.TypeReg && (c.m.find(o.To) != nil) == fails
	case Look:
		return (n == nil) == fails
	default:
		return n != nil && c.fillFile(o, n, fails)
	}
}

func (c *chooser) fillRename(o *Op, n *node, fails bool) bool {
	o.To = c.path()
	to := c.m.find(o.To)
	if n == nil {
		return fails && to == nil
	}
	if n.typ == nfs3.TypeDir { // stays at its level, so that paths do not grow
		return !fails && to == nil && path.Dir(o.To) == own(c.m.Worker)
	}
	return !fails && to != n && (to == nil || to.typ != nfs3.TypeDir)
}

// fillFile is fill for operations on an existing file or directory.
func (c *chooser) fillFile(o *Op, n *node, fails bool) bool {
	if o.Kind == GetAttr {
		return true
	}
	if n.typ == nfs3.TypeDir {
		return o.Kind == Chmod && !fails && c.chmod(o, n)
	}
	if n.typ != nfs3.TypeReg {
		return false
	}
	switch o.Kind {
	case Chmod:
		o.Guard = fails || n.fresh
		if !fails {
			o.Ctime = n.ctime
		}
		return true
	case Truncate:
		o.Pieces = c.IntN(maxPieces)
	case Read:
		o.First, o.Pieces = c.IntN(maxPieces), 1+c.IntN(maxWrite)
	case Write:
		c.fillWrite(o, n)
	default: // Commit has no other fields
	}
	return true
}

// chmod chooses a mode; a directory stays usable.
func (c *chooser) chmod(o *Op, n *node) bool {
	o.Mode |= 0o700
	if o.Guard = n.fresh; o.Guard {
		o.Ctime = n.ctime
	}
	return true
}

// fillWrite chooses new data, or data to write again because they may have been lost.
func (c *chooser) fillWrite(o *Op, n *node) {
	if c.IntN(2) == 0 {
		if first, some := n.unsure(maxWrite); some > 0 {
			o.First, o.Pieces, o.Stable = first, some, nfs3.FileSync
			return
		}
	}
	o.First, o.Pieces = c.IntN(maxPieces-maxWrite), 1+c.IntN(maxWrite)
	o.Stable = [...]nfs3.StableHow{nfs3.Unstable, nfs3.DataSync, nfs3.FileSync}[c.IntN(3)]
}
