package crash

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/transport/replies"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// Kind is the kind of an operation.
type Kind string

// The operations. Those above Look must not run twice.
const (
	Mkdir     Kind = "mkdir"
	Create    Kind = "create"    // UNCHECKED
	Guarded   Kind = "guarded"   // CREATE of a name that must be free
	Exclusive Kind = "exclusive" // CREATE with a verifier
	Symlink   Kind = "symlink"
	Mkfifo    Kind = "mkfifo" // MKNOD
	Remove    Kind = "remove"
	Rmdir     Kind = "rmdir"
	Rename    Kind = "rename"
	Link      Kind = "link"
	Chmod     Kind = "chmod"    // SETATTR of the mode
	Truncate  Kind = "truncate" // SETATTR of the size
	Look      Kind = "look"     // LOOKUP
	GetAttr   Kind = "getattr"
	Read      Kind = "read"
	Write     Kind = "write"
	Commit    Kind = "commit"
)

// Op is one operation of a worker. It holds everything that its call contains, so that a killed
// worker can make the same call again.
type Op struct {
	N    uint32 // its number in the list, from 1
	XID  uint32 `json:",omitempty"` // 0: unknown
	Kind Kind
	Path string // below the export: the object that it makes or works on
	To   string `json:",omitempty"` // the new name of Rename and Link

	Dir  []byte `json:",omitempty"` // handle of the directory of Path
	Into []byte `json:",omitempty"` // handle of the directory of To
	File []byte `json:",omitempty"` // handle of the file at Path

	Mode   uint32         `json:",omitempty"` // permission bits
	Verf   uint64         `json:",omitempty"` // of Exclusive
	Target string         `json:",omitempty"` // of Symlink
	Guard  bool           `json:",omitempty"` // Chmod is guarded by Ctime
	Ctime  nfs3.Time      `json:",omitzero"`
	First  int            `json:",omitempty"` // first piece of Read and Write
	Pieces int            `json:",omitempty"` // how many; the size for Truncate
	Stable nfs3.StableHow `json:",omitempty"` // of Write
	Life   string         // of the server, when the operation was about to be sent
}

// String describes the operation for messages.
func (o *Op) String() string {
	s := fmt.Sprintf("operation %d, %s %s", o.N, o.Kind, o.Path)
	if o.To != "" {
		s += " to " + o.To
	}
	return s
}

// Once reports whether the operation must not run twice.
func (o *Op) Once() bool { return o.Kind.once() }

func (k Kind) once() bool {
	switch k {
	case Look, GetAttr, Read, Commit:
		return false
	default:
		return true
	}
}

// cut reports whether the server was killed while the call was on its way: it may have run, and, since a server
// forgets its replies with its life, have run again when it was sent again.
func (o *Op) cut(res *Result) bool { return res.Life != o.Life }

// looks reports whether the operation changes nothing, so that a new call can be made for it.
func (o *Op) looks() bool {
	switch o.Kind {
	case Look, GetAttr, Read:
		return true
	default:
		return false
	}
}

// Result is the answer to an operation.
type Result struct {
	Status nfs3.Status
	Raw    []byte     `json:",omitempty"` // the encoded results, of operations that must not run twice
	Handle []byte     `json:",omitempty"` // of a new object, or one that was looked up
	Attr   *nfs3.Attr `json:",omitempty"` // afterwards
	Stable bool       `json:",omitempty"` // the written data are durable
	Verf   uint64     `json:",omitempty"` // of Write and Commit
	Stamps []uint64   `json:",omitempty"` // of the pieces read
	Kept   uint64     `json:",omitempty"` // the record that holds it, with a kept caller
	Life   string     // of the server that answered; "": unknown
}

// Shared is the directory in which all workers have names, each with the worker's prefix.
const Shared = "shared"

// Model is what the names of one worker should be.
type Model struct {
	Worker uint16
	root   *node // holds Shared and the worker's directory
}

// node is a file, directory, link or FIFO.
type node struct {
	typ    nfs3.FileType
	handle []byte
	id     uint64 // 0: unknown
	mode   uint32
	moded  bool // mode is known
	target string
	names  map[string]*node // of a directory
	file
	ctime nfs3.Time
	fresh bool // ctime is the object's current one
}

// NewModel returns the model of a worker that has done nothing.
func NewModel(worker uint16) *Model {
	root := &node{typ: nfs3.TypeDir, names: make(map[string]*node)}
	root.names[Shared] = &node{typ: nfs3.TypeDir, names: make(map[string]*node)}
	return &Model{Worker: worker, root: root}
}

// find returns what is at p, nil if nothing is.
func (m *Model) find(p string) *node {
	n := m.root
	if p == "." {
		return n
	}
	for name := range strings.SplitSeq(p, "/") {
		if n == nil {
			return nil
		}
		n = n.names[name]
	}
	return n
}

// dir returns the directory of p, which must exist, and the last name.
func (m *Model) dir(p string) (*node, string) {
	d, name := path.Split(p)
	return m.find(path.Clean(d)), name
}

// clone copies the model, hard links included.
func (m *Model) clone() *Model {
	seen := make(map[*node]*node)
	var dup func(n *node) *node
	dup = func(n *node) *node {
		if c := seen[n]; c != nil {
			return c
		}
		c := new(*n)
		seen[n] = c
		c.file = n.file.clone()
		c.names = maps.Clone(n.names)
		for name, child := range c.names {
			c.names[name] = dup(child)
		}
		return c
	}
	return &Model{Worker: m.Worker, root: dup(m.root)}
}

// links counts the names of n.
func (m *Model) links(n *node) int {
	count := 0
	m.walk(func(_ string, c *node) {
		if c == n {
			count++
		}
	})
	return count
}

// walk calls f for all objects of the worker in the order of names, directories before their
// contents.
func (m *Model) walk(f func(p string, n *node)) {
	var down func(p string, n *node)
	down = func(p string, n *node) {
		for _, name := range slices.Sorted(maps.Keys(n.names)) {
			at := path.Join(p, name)
			if at != Shared {
				f(at, n.names[name])
			}
			down(at, n.names[name])
		}
	}
	down("", m.root)
}

// Apply applies an operation and returns the only right status of its answer. res, if not nil, is
// the answer; Apply takes handles and attributes from it. If res is nil, the operation may have
// been done.
func (m *Model) Apply(o *Op, res *Result) nfs3.Status {
	s, n := m.apply(o, res)
	if s == nfs3.OK && res != nil && res.Status != nfs3.OK && o.cut(res) {
		// The call has run, and the answer can only be that of a second run.
		if n != nil {
			n.fresh = false // the first has changed it
		}
		s, _ = m.apply(o, nil)
		return s
	}
	if n == nil || s != nfs3.OK {
		return s
	}
	n.fresh = false
	if res == nil || res.Status != nfs3.OK {
		return s
	}
	if res.Handle != nil && n.handle == nil {
		n.handle = res.Handle
	}
	if res.Attr != nil {
		n.ctime, n.fresh = res.Attr.Ctime, o.Kind == GetAttr
		if n.id == 0 {
			n.id = res.Attr.FileID
		}
	}
	return s
}

// apply also returns the object concerned, nil if it is gone.
func (m *Model) apply(o *Op, res *Result) (nfs3.Status, *node) {
	switch o.Kind {
	case Mkdir:
		return m.make(o, &node{typ: nfs3.TypeDir, mode: o.Mode, moded: true, names: make(map[string]*node)})
	case Symlink:
		return m.make(o, &node{typ: nfs3.TypeLnk, target: o.Target})
	case Mkfifo:
		return m.make(o, &node{typ: nfs3.TypeFIFO, mode: o.Mode, moded: true})
	case Guarded:
		return m.make(o, &node{typ: nfs3.TypeReg, mode: o.Mode, moded: true})
	case Exclusive: // attributes are undefined until they are set (RFC 1813 Section 3.3.8)
		return m.make(o, &node{typ: nfs3.TypeReg})
	case Create:
		n := m.find(o.Path)
		if n == nil {
			return m.make(o, &node{typ: nfs3.TypeReg, mode: o.Mode, moded: true})
		}
		n.truncate(0) // the mode is only for a new file (RFC 1813 Section 3.3.8)
		return nfs3.OK, n
	case Remove, Rmdir:
		return m.remove(o), nil
	case Rename:
		return m.rename(o)
	case Link:
		return m.link(o)
	default:
		n := m.find(o.Path)
		if n == nil {
			return nfs3.ErrNoEnt, nil // only LOOKUP; the others have a handle
		}
		return m.change(o, n, res), n
	}
}

// change applies an operation on an existing file.
func (m *Model) change(o *Op, n *node, res *Result) nfs3.Status {
	switch o.Kind {
	case Chmod:
		if o.Guard && (o.Ctime != n.ctime || !n.fresh) {
			return nfs3.ErrNotSync
		}
		n.mode, n.moded = o.Mode, true
	case Truncate:
		n.truncate(o.Pieces)
	case Write:
		n.write(m.Worker, o, res)
	case Commit:
		n.commit(res)
	default: // changes nothing
	}
	return nfs3.OK
}

func (m *Model) make(o *Op, n *node) (nfs3.Status, *node) {
	d, name := m.dir(o.Path)
	if d.names[name] != nil {
		return nfs3.ErrExist, nil
	}
	d.names[name], d.fresh = n, false
	return nfs3.OK, n
}

func (m *Model) remove(o *Op) nfs3.Status {
	d, name := m.dir(o.Path)
	n := d.names[name]
	switch {
	case n == nil:
		return nfs3.ErrNoEnt
	case o.Kind == Rmdir && len(n.names) > 0:
		return nfs3.ErrNotEmpty
	}
	n.fresh, d.fresh = false, false
	delete(d.names, name)
	return nfs3.OK
}

func (m *Model) rename(o *Op) (nfs3.Status, *node) {
	from, name := m.dir(o.Path)
	to, newName := m.dir(o.To)
	n := from.names[name]
	if n == nil {
		return nfs3.ErrNoEnt, nil
	}
	if old := to.names[newName]; old != nil {
		old.fresh = false
	}
	delete(from.names, name)
	to.names[newName] = n
	from.fresh, to.fresh = false, false
	return nfs3.OK, n
}

func (m *Model) link(o *Op) (nfs3.Status, *node) {
	n := m.find(o.Path)
	to, name := m.dir(o.To)
	if to.names[name] != nil {
		return nfs3.ErrExist, nil
	}
	to.names[name], to.fresh = n, false
	return nfs3.OK, n
}

// List is where a worker notes its operations and their results. Each line is a JSON object and is
// written at once.
type List struct{ f *os.File }

// line is one of: an operation that is about to be sent; its result; another result, because the
// operation was sent again although it had one.
type line struct {
	Op    *Op     `json:",omitempty"`
	N     uint32  `json:",omitempty"`
	Res   *Result `json:",omitempty"`
	Again *Result `json:",omitempty"`
}

// OpenList opens the list in the file name, makes it if it does not exist, and returns its
// content.
func OpenList(name string, worker uint16) (*List, *History, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, nil, err
	}
	h, whole, err := load(name, worker)
	if err == nil {
		err = f.Truncate(whole) // remove a line that was being written when the worker was killed
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return &List{f}, h, nil
}

func (l *List) write(v line) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = l.f.Write(append(b, '\n'))
	return err
}

// Issue notes an operation that is about to be sent.
func (l *List) Issue(o *Op) error { return l.write(line{Op: o}) }

// Result notes the answer to operation n.
func (l *List) Result(n uint32, r *Result) error { return l.write(line{N: n, Res: r}) }

// Again notes another answer to operation n, which has one already.
func (l *List) Again(n uint32, r *Result) error { return l.write(line{N: n, Again: r}) }

// Close closes the file.
func (l *List) Close() error { return l.f.Close() }

// History is the content of a list.
type History struct {
	Worker  uint16
	Ops     []*Op
	Results []*Result // of the same length; nil: no answer yet
	Again   []Repeat
}

// Repeat is another answer to operation N.
type Repeat struct {
	N   uint32
	Res *Result
}

// LoadList reads the list in the file name.
func LoadList(name string, worker uint16) (*History, error) {
	h, _, err := load(name, worker)
	return h, err
}

// load reads a list; whole is how many octets are whole lines.
func load(name string, worker uint16) (h *History, whole int64, err error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, 0, err
	}
	b = b[:bytes.LastIndexByte(b, '\n')+1]
	h = &History{Worker: worker}
	i := 0
	for text := range bytes.Lines(b) {
		i++
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return nil, 0, fmt.Errorf("%s:%d: %w", name, i, err)
		}
		if !h.add(&l) {
			return nil, 0, fmt.Errorf("%s:%d: is out of order", name, i)
		}
	}
	return h, int64(len(b)), nil
}

// add reports whether l can be the next line.
func (h *History) add(l *line) bool {
	last := uint32(len(h.Ops))
	switch {
	case l.Op != nil:
		if l.Op.N != last+1 || last > 0 && h.Results[last-1] == nil {
			return false
		}
		h.Ops, h.Results = append(h.Ops, l.Op), append(h.Results, nil)
	case l.Res != nil:
		if l.N != last || last == 0 || h.Results[last-1] != nil {
			return false
		}
		h.Results[last-1] = l.Res
	case l.Again != nil:
		if l.N == 0 || l.N > last || h.Results[l.N-1] == nil {
			return false
		}
		h.Again = append(h.Again, Repeat{l.N, l.Again})
	default:
		return false
	}
	return true
}

// Open returns the operation that has no result, nil if all have one.
func (h *History) Open() *Op {
	if n := len(h.Ops); n > 0 && h.Results[n-1] == nil {
		return h.Ops[n-1]
	}
	return nil
}

// Tree holds the files below a directory, by slash-separated path.
type Tree map[string]*Entry

// Entry is one name of a Tree.
type Entry struct {
	Type   nfs3.FileType
	Mode   uint32 // permission bits
	ID     any    // equal for all names of the same object
	Target string
	Stamps []uint64 // of the pieces of a regular file
}

// ReadTree reads the files below dir.
func ReadTree(dir string) (Tree, error) {
	t := make(Tree)
	var infos []fs.FileInfo // one of each object
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		id := slices.IndexFunc(infos, func(o fs.FileInfo) bool { return os.SameFile(o, fi) })
		if id < 0 {
			id, infos = len(infos), append(infos, fi)
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		e := &Entry{Mode: uint32(fi.Mode().Perm()), ID: id}
		t[filepath.ToSlash(rel)] = e
		return e.read(name, fi)
	})
	return t, err
}

// read reads the content of the file, or the target of the link.
func (e *Entry) read(name string, fi fs.FileInfo) (err error) {
	switch fi.Mode().Type() {
	case 0:
		e.Type = nfs3.TypeReg
		b, err := os.ReadFile(name)
		e.Stamps = stamps(b)
		return err
	case fs.ModeDir:
		e.Type = nfs3.TypeDir
	case fs.ModeSymlink:
		e.Type = nfs3.TypeLnk
		e.Target, err = os.Readlink(name)
	case fs.ModeNamedPipe:
		e.Type = nfs3.TypeFIFO
	default: // no operation makes such a file
	}
	return err
}

// kept is a Caller over RPC-over-RDMA that logs its calls before it sends them, and whose replies
// are durable before the worker sees them: after a restart it knows its answers.
type kept struct {
	lasting
	c    *replies.Client
	seqs []uint64 // the last records, which are not released yet
	last uint64   // record of the last reply, 0: none
}

// The last keptReplies replies on the list must be in the log. More records stay there, because
// some replies have two.
const (
	keptReplies = 3
	keptRecords = 10
)

// memory is the size of each log of a kept caller, in octets.
const memory = 128 << 10

// NewKept returns a caller for a worker over NFS/RDMA that keeps its logs in dir.
func NewKept(addr Addr, worker uint16, dir string) (Caller, error) {
	mem, err := openMemory(filepath.Join(dir, "replies"))
	if err != nil {
		return nil, err
	}
	calls, err := openMemory(filepath.Join(dir, "calls"))
	if err != nil {
		return nil, errors.Join(err, mem.Close())
	}
	k := &kept{}
	k.init(worker)
	k.c, err = replies.Open(&replies.Config{
		Memory: mem, Calls: calls, Redial: *k.redial(addr),
		Choose: func(prog, _, proc uint32) bool { return prog == nfs3.Program && keeps(proc) },
	})
	if err != nil {
		return nil, errors.Join(err, mem.Close(), calls.Close())
	}
	k.r, k.send = k.c, k.call
	return k, nil
}

// keeps reports whether a procedure must not run twice.
func keeps(proc uint32) bool {
	switch p := nfs3.Proc(proc); p {
	case nfs3.ProcSetAttr, nfs3.ProcRemove, nfs3.ProcRmdir, nfs3.ProcRename, nfs3.ProcLink:
		return true
	default:
		return p >= nfs3.ProcCreate && p <= nfs3.ProcMknod
	}
}

// openMemory opens a log, and makes it if it does not exist.
func openMemory(name string) (*pmem.Memory, error) {
	mem, err := pmem.Open(pmem.File, name, nil)
	if !errors.Is(err, pmem.ErrOpen) {
		return mem, err
	}
	if err := makeLog(name + ".new"); err != nil {
		return nil, err
	}
	if err := os.Rename(name+".new", name); err != nil { // the process may be killed before
		return nil, err
	}
	return pmem.Open(pmem.File, name, nil)
}

func makeLog(name string) error {
	_ = os.Remove(name)
	if err := pmem.Create(name, memory, nil); err != nil {
		return err
	}
	mem, err := pmem.Open(pmem.File, name, nil)
	if err != nil {
		return err
	}
	return errors.Join(replies.Create(mem, nil), mem.Close())
}

// call makes a call and remembers the record of its reply.
func (k *kept) call(ctx context.Context, call *rpc.Call, reply *rpc.Reply) error {
	seq, err := k.c.Call(ctx, call, reply)
	if errors.Is(err, replies.ErrNotKept) { // the server was killed, but the reply has arrived
		seq, err = 0, nil
	}
	if k.last = seq; seq != 0 {
		k.seqs = append(k.seqs, seq)
	}
	return err
}

// listed is called when the result of the last call is on the list; it releases old records.
func (k *kept) listed() {
	for len(k.seqs) > keptRecords {
		k.c.Done(k.seqs[0])
		k.seqs = k.seqs[1:]
	}
}

// recall compares the logs with the lists of earlier lives, in order. It returns the result of the
// open operation of the last one, or nil if the log does not have it.
func (k *kept) recall(past []*History) (*Result, error) {
	calls := make(map[[sha256.Size]byte][]answered)
	for _, h := range past {
		for i, o := range h.Ops {
			if m, err := o.call(h.Worker); err == nil {
				d := replies.Digest(nfs3.Program, nfs3.Version, uint32(m.proc), m.whole())
				calls[d] = append(calls[d], answered{o, h.Results[i]})
			}
		}
	}
	have := make(map[uint64]bool)
	var open *Result
	for _, r := range k.c.Recovered() {
		have[r.Seq] = true
		k.seqs = append(k.seqs, r.Seq)
		res, err := match(calls[r.Digest], r)
		if err != nil {
			return nil, err
		}
		if res != nil {
			open = res
		}
	}
	for _, u := range k.c.Unanswered() {
		if calls[u.Digest] == nil {
			return nil, fmt.Errorf("call %d is in the log, but nobody made it", u.XID)
		}
		k.c.Settle(u)
	}
	return open, past[len(past)-1].missing(have)
}

// answered is an operation with its result, nil if it has none.
type answered struct {
	o   *Op
	res *Result
}

// match looks for the operation that the record r answers, and returns the reply if the list does
// not have it. A call has two records if the server was killed between record and reply.
func match(all []answered, r *replies.Record) (*Result, error) {
	var open *Result
	for _, a := range all {
		res, err := result(a.o, r)
		switch {
		case err != nil:
			return nil, err
		case a.res == nil:
			open = res // of two, the last
		case bytes.Equal(a.res.Raw, res.Raw), a.o.cut(a.res):
			return nil, nil //nolint:nilnil // the list has it, or the answer of a second run
		}
	}
	if open != nil {
		return open, nil
	}
	return nil, fmt.Errorf("record %d answers no call on the list", r.Seq)
}

// result reads the reply in a record.
func result(o *Op, r *replies.Record) (*Result, error) {
	var head xdr.ReplyHeader
	d := xdr.NewDecoder(r.Reply)
	err := head.Parse(&d)
	if err == nil {
		err = head.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("record %d: %w", r.Seq, err)
	}
	res, err := o.result(nfs3.Proc(r.Proc), d.Rest())
	if err == nil {
		res.Kept = r.Seq
	}
	return res, err
}

// missing returns an error if one of the last replies on the list is not in the log.
func (h *History) missing(have map[uint64]bool) error {
	n := 0
	for i := len(h.Ops) - 1; i >= 0 && n < keptReplies; i-- {
		res := h.Results[i]
		if res == nil || res.Kept == 0 {
			continue
		}
		if n++; !have[res.Kept] {
			return fmt.Errorf("%v was answered by record %d, which is not in the log", h.Ops[i], res.Kept)
		}
	}
	return nil
}

// own is the directory of a worker, and the prefix of its names in Shared.
func own(worker uint16) string { return fmt.Sprintf("w%d", worker) }

// isOwn reports whether the name p is the worker's.
func isOwn(worker uint16, p string) bool {
	o := own(worker)
	return p == o || strings.HasPrefix(p, o+"/") || strings.HasPrefix(p, Shared+"/"+o+".")
}

// Check checks that the answers to a worker are consistent, and, if tree is not nil, that they
// agree with the tree. The error says which operation was lost, ran twice or was made up.
func Check(h *History, tree Tree) error {
	m := NewModel(h.Worker)
	err := h.replay(m)
	if err == nil {
		err = h.repeats()
	}
	if err == nil && tree != nil {
		err = h.compare(m, tree)
	}
	if err != nil {
		return fmt.Errorf("worker %d: %w", h.Worker, err)
	}
	return nil
}

// CheckAll checks the lists of all workers, and that the tree contains nothing else.
func CheckAll(all []*History, tree Tree) error {
	var workers []uint16
	for _, h := range all {
		if err := Check(h, tree); err != nil {
			return err
		}
		workers = append(workers, h.Worker)
	}
	for _, p := range slices.Sorted(maps.Keys(tree)) {
		known := func(w uint16) bool { return isOwn(w, p) }
		if p != Shared && !slices.ContainsFunc(workers, known) {
			return fmt.Errorf("%s exists, but nobody made it", p)
		}
	}
	return nil
}

// replay applies all operations that have a result, and checks the results.
func (h *History) replay(m *Model) error {
	for i, o := range h.Ops {
		res := h.Results[i]
		if res == nil || res.Status == nfs3.ErrJukebox { // later: the worker asks again
			continue
		}
		if want := m.Apply(o, res); res.Status != want {
			return fmt.Errorf("%v was answered %v, but the only right answer is %v%s", o, res.Status.String(), want.String(), hint(res.Status))
		}
		if res.Status != nfs3.OK {
			continue
		}
		if err := m.verify(o, res); err != nil {
			return fmt.Errorf("%v: %w", o, err)
		}
	}
	return nil
}

// hint says what a wrong answer usually means.
func hint(s nfs3.Status) string {
	switch s {
	case nfs3.ErrNoEnt, nfs3.ErrExist, nfs3.ErrNotSync:
		return ": it has run twice, or another operation was lost"
	default:
		return ""
	}
}

// verify checks the rest of a result with status OK.
func (m *Model) verify(o *Op, res *Result) error {
	n := m.find(o.Path)
	if o.Kind == Rename || o.Kind == Link {
		n = m.find(o.To)
	}
	if n == nil {
		return nil
	}
	if o.Kind == Read {
		if err := n.readable(o, res.Stamps); err != nil {
			return err
		}
	}
	a := res.Attr
	if a == nil {
		return nil
	}
	size := int(a.Size / Piece)
	switch {
	case a.Type != n.typ:
		return fmt.Errorf("it is a %v, but must be a %v", a.Type, n.typ)
	case a.FileID != n.id:
		return fmt.Errorf("it is file %d, but was file %d: it was made again", a.FileID, n.id)
	case n.moded && a.Mode != n.mode:
		return fmt.Errorf("its mode is %#o, but must be %#o", a.Mode, n.mode)
	case n.typ == nfs3.TypeReg && (a.Size%Piece != 0 || size < n.least || size > len(n.pieces)):
		return fmt.Errorf("it has %d octets, but must have %d to %d", a.Size, n.least*Piece, len(n.pieces)*Piece)
	case n.typ != nfs3.TypeDir && int(a.Nlink) != m.links(n):
		return fmt.Errorf("it has %d names, but must have %d", a.Nlink, m.links(n))
	}
	return nil
}

// readable checks the pieces that a Read returned.
func (n *node) readable(o *Op, got []uint64) error {
	if len(got) > o.Pieces || o.First+len(got) < min(o.First+o.Pieces, n.least) {
		return fmt.Errorf("read %d pieces from piece %d on, but the file has at least %d", len(got), o.First, n.least)
	}
	for i, s := range got {
		if err := n.may(o.First+i, s); err != nil {
			return err
		}
	}
	return nil
}

// may returns an error unless piece i may be s.
func (f *file) may(i int, s uint64) error {
	if i >= len(f.pieces) {
		return fmt.Errorf("piece %d exists, but was never written", i)
	}
	if p := f.pieces[i]; !slices.Contains(p, s) {
		return fmt.Errorf("piece %d holds %s, but must hold %s", i, stampText(s), stampText(p[len(p)-1]))
	}
	return nil
}

// repeats checks that every repeated call got the same answer from the same life of the server.
func (h *History) repeats() error {
	for _, r := range h.Again {
		first := h.Results[r.N-1]
		if r.Res.Life == first.Life && !bytes.Equal(first.Raw, r.Res.Raw) {
			return fmt.Errorf("%v was answered %v, but %v when it was sent again with the same XID; both must be identical: %x, %x",
				h.Ops[r.N-1], first.Status.String(), r.Res.Status.String(), first.Raw, r.Res.Raw)
		}
	}
	return nil
}

// compare compares the tree with the model, with and without the effect of the open operation.
func (h *History) compare(m *Model, tree Tree) error {
	before := m.compare(tree)
	o := h.Open()
	if before == nil || o == nil {
		return before
	}
	after := m.clone()
	after.Apply(o, nil)
	err := after.compare(tree)
	if err == nil {
		return nil
	}
	return fmt.Errorf("%v is open: if it was done: %w; if not: %w", o, err, before)
}

// compare checks that the worker's names in the tree are those of the model.
func (m *Model) compare(tree Tree) error {
	var errs []error
	want := make(map[string]bool)
	ids := make(map[*node]any)
	nodes := make(map[any]*node)
	m.walk(func(p string, n *node) {
		want[p] = true
		e := tree[p]
		if e == nil {
			errs = append(errs, fmt.Errorf("%s is missing", p))
			return
		}
		if err := n.matches(e); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p, err))
		}
		if id, ok := ids[n]; ok && id != e.ID {
			errs = append(errs, fmt.Errorf("%s is not the same object as its other name", p))
		}
		if o := nodes[e.ID]; o != nil && o != n {
			errs = append(errs, fmt.Errorf("%s is the same object as another name", p))
		}
		ids[n], nodes[e.ID] = e.ID, n
	})
	for p := range tree {
		if isOwn(m.Worker, p) && !want[path.Clean(p)] {
			errs = append(errs, fmt.Errorf("%s exists, but must not", p))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// matches checks one object.
func (n *node) matches(e *Entry) error {
	switch {
	case e.Type != n.typ:
		return fmt.Errorf("is a %v, but must be a %v", e.Type, n.typ)
	case n.moded && e.Mode != n.mode:
		return fmt.Errorf("its mode is %#o, but must be %#o", e.Mode, n.mode)
	case e.Target != n.target:
		return fmt.Errorf("points to %q, but must point to %q", e.Target, n.target)
	case n.typ == nfs3.TypeReg && len(e.Stamps) < n.least:
		return fmt.Errorf("has %d pieces, but must have %d", len(e.Stamps), n.least)
	}
	for i, s := range e.Stamps {
		if err := n.may(i, s); err != nil {
			return err
		}
	}
	return nil
}
