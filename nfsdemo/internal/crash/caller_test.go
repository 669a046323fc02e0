package crash

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/redial"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// Addr says where a server is: it names a file like that of serve --port-file, which exists only
// while clients may use the server.
type Addr string

// get returns the value of a key, and the whole text.
func (a Addr) get(key string) (value, text string, err error) {
	b, err := os.ReadFile(string(a))
	if err != nil {
		return "", "", err
	}
	for line := range strings.Lines(string(b)) {
		if k, v, _ := strings.Cut(strings.TrimSpace(line), "="); k == key {
			return v, string(b), nil
		}
	}
	return "", "", fmt.Errorf("%s has no line for %s", string(a), key)
}

// Export returns the path of the export; it waits for the server.
func (a Addr) Export(ctx context.Context) (string, error) {
	for {
		if v, _, err := a.get("EXPORT"); err == nil {
			return v, nil
		}
		if err := pause(ctx); err != nil {
			return "", err
		}
	}
}

// dial connects to the address with the key, and returns which life of the server is there. It reads the file
// again afterwards, because another process may have got the port meanwhile.
func (a Addr) dial(ctx context.Context, key string) (conn net.Conn, life string, err error) {
	at, text, err := a.get(key)
	if err != nil {
		return nil, "", err
	}
	if life, _, err = a.get("PID"); err != nil {
		return nil, "", err
	}
	if conn, err = new(net.Dialer).DialContext(ctx, "tcp", at); err != nil {
		return nil, "", err
	}
	if _, now, err := a.get(key); err != nil || now != text {
		conn.Close()
		return nil, "", fmt.Errorf("%s has changed", string(a))
	}
	return conn, life, nil
}

// pause waits between two attempts.
func pause(ctx context.Context) error {
	select {
	case <-time.After(3 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// cred returns the identity of a worker: machines with different names at the same address.
func cred(machine uint16) xdr.Auth {
	c := xdr.SysCred{MachineName: fmt.Sprintf("m%d", machine), UID: uint32(max(os.Getuid(), 0)), GID: uint32(max(os.Getgid(), 0))}
	return c.Auth()
}

// Caller sends the calls of one worker until they are answered.
type Caller interface {
	// do sends a call and returns the results, including the data, whatever happens to the
	// connection meanwhile. With an XID of 0 the Caller chooses one.
	do(ctx context.Context, xid, prog uint32, m *message) ([]byte, error)
	// dials returns how many connections were made.
	dials() int
	// life is that of the server at the other end of the last connection.
	life() string
	// names reports whether the Caller uses the XIDs that it is given.
	names() bool
	// Close ends the connection.
	Close() error
}

// root mounts the export.
func root(ctx context.Context, c Caller, xid uint32, export string) ([]byte, error) {
	args := mount3.PathArgs{Path: export}
	raw, err := c.do(ctx, xid, mount3.Program, &message{proc: nfs3.Proc(mount3.ProcMnt), args: xdr.Encode(nil, &args)})
	if err != nil {
		return nil, err
	}
	var res mount3.MountRes
	d := xdr.NewDecoder(raw)
	if err := xdr.Decode(&d, &res).Err(); err != nil {
		return nil, err
	}
	if res.Status != mount3.OK {
		return nil, res.Status
	}
	return append([]byte(nil), res.Handle...), nil
}

// message is the call of an operation.
type message struct {
	vers uint32 // 0: version 3, of NFS and MOUNT
	proc nfs3.Proc
	args []byte // without the item and its pad
	item []byte // of WRITE
	sink int    // most octets of data in the results of READ
}

// whole returns the arguments with nothing reduced.
func (m *message) whole() []byte {
	return xdr.AppendPad(append(bytes.Clone(m.args), m.item...), len(m.item))
}

// call returns the call of o.
func (o *Op) call(worker uint16) (*message, error) {
	if o.Kind == Write {
		w := &nfs3.WriteArgs{
			Handle: o.File, Offset: uint64(o.First * Piece),
			Count: uint32(o.Pieces * Piece), Stable: o.Stable,
		}
		return &message{proc: nfs3.ProcWrite, args: xdr.AppendUint32(xdr.Encode(nil, w.Head()), w.Count), item: o.data(worker)}, nil
	}
	proc, args := o.args()
	if args == nil {
		return nil, fmt.Errorf("%v is not a call", o)
	}
	m := &message{proc: proc, args: xdr.Encode(nil, args)}
	if o.Kind == Read {
		m.sink = o.Pieces * Piece
	}
	return m, nil
}

// args returns the arguments of all but Write.
func (o *Op) args() (nfs3.Proc, xdr.Message) {
	at := nfs3.DirOpArgs{Dir: o.Dir, Name: base(o.Path)}
	to := nfs3.DirOpArgs{Dir: o.Into, Name: base(o.To)}
	mode := nfs3.SetAttr{SetMode: true, Mode: o.Mode}
	switch o.Kind {
	case Mkdir:
		return nfs3.ProcMkdir, &nfs3.MkdirArgs{Where: at, Attr: mode}
	case Create:
		mode.SetSize = true
		return nfs3.ProcCreate, &nfs3.CreateArgs{Where: at, Mode: nfs3.Unchecked, Attr: mode}
	case Guarded:
		return nfs3.ProcCreate, &nfs3.CreateArgs{Where: at, Mode: nfs3.Guarded, Attr: mode}
	case Exclusive:
		a := &nfs3.CreateArgs{Where: at, Mode: nfs3.Exclusive}
		binary.BigEndian.PutUint64(a.Verf[:], o.Verf)
		return nfs3.ProcCreate, a
	case Symlink:
		return nfs3.ProcSymlink, &nfs3.SymlinkArgs{Where: at, Path: o.Target}
	case Mkfifo:
		return nfs3.ProcMknod, &nfs3.MknodArgs{Where: at, Type: nfs3.TypeFIFO, Attr: mode}
	case Remove:
		return nfs3.ProcRemove, &at
	case Rmdir:
		return nfs3.ProcRmdir, &at
	case Rename:
		return nfs3.ProcRename, &nfs3.RenameArgs{From: at, To: to}
	case Link:
		return nfs3.ProcLink, &nfs3.LinkArgs{Handle: o.File, Link: to}
	case Chmod:
		return nfs3.ProcSetAttr, &nfs3.SetAttrArgs{Handle: o.File, Attr: mode, Guard: o.Guard, Ctime: o.Ctime}
	case Truncate:
		size := nfs3.SetAttr{SetSize: true, Size: uint64(o.Pieces * Piece)}
		return nfs3.ProcSetAttr, &nfs3.SetAttrArgs{Handle: o.File, Attr: size}
	case Look:
		return nfs3.ProcLookup, &at
	case GetAttr:
		return nfs3.ProcGetAttr, &nfs3.GetAttrArgs{Handle: o.File}
	case Read:
		return nfs3.ProcRead, &nfs3.ReadArgs{Handle: o.File, Offset: uint64(o.First * Piece), Count: uint32(o.Pieces * Piece)}
	case Commit:
		return nfs3.ProcCommit, &nfs3.CommitArgs{Handle: o.File}
	default:
		return 0, nil
	}
}

// base returns the last name of a path.
func base(p string) string {
	for i := len(p) - 1; i >= 0; i-- {
		if p[i] == '/' {
			return p[i+1:]
		}
	}
	return p
}

// result decodes the results of a call, including the data.
func (o *Op) result(proc nfs3.Proc, raw []byte) (*Result, error) {
	msg, ok := proc.NewRes().(nfs3.Result)
	if !ok {
		return nil, fmt.Errorf("%v has no results", proc)
	}
	d := xdr.NewDecoder(raw)
	if err := xdr.Decode(&d, msg).Err(); err != nil {
		return nil, err
	}
	if err := d.End(); err != nil {
		return nil, err
	}
	r := &Result{Status: *msg.Stat()}
	if o.Once() {
		r.Raw = bytes.Clone(raw)
	}
	if r.Status == nfs3.OK {
		r.take(o, msg)
	}
	return r, nil
}

// take copies the fields of msg that matter for o.
func (r *Result) take(o *Op, msg nfs3.Result) {
	attr := func(a nfs3.OptAttr) {
		if a.Present {
			r.Attr = &a.Attr
		}
	}
	switch m := msg.(type) {
	case *nfs3.NewRes:
		attr(m.Attr)
		r.Handle = bytes.Clone(m.Handle.Handle)
	case *nfs3.LookupRes:
		attr(m.Attr)
		r.Handle = bytes.Clone(m.Handle)
	case *nfs3.GetAttrRes:
		r.Attr = &m.Attr
	case *nfs3.LinkRes:
		attr(m.Attr)
	case *nfs3.WccRes:
		if o.Kind == Chmod || o.Kind == Truncate {
			attr(m.Wcc.After)
		}
	case *nfs3.ReadRes:
		attr(m.Attr)
		r.Stamps = stamps(m.Data)
	case *nfs3.WriteRes:
		attr(m.Wcc.After)
		r.Stable = m.Committed != nfs3.Unstable
		r.Verf = binary.BigEndian.Uint64(m.Verf[:])
		if int(m.Count) != o.Pieces*Piece {
			r.Status = nfs3.ErrIO // Choice: no server has a reason to write only a part of so little
		}
	case *nfs3.CommitRes:
		attr(m.Wcc.After)
		r.Verf = binary.BigEndian.Uint64(m.Verf[:])
	}
}

// lasting is a Caller over RPC-over-RDMA that keeps the XIDs of its calls as long as its process
// lives, but not longer.
type lasting struct {
	r    rpc.Caller
	send func(ctx context.Context, call *rpc.Call, reply *rpc.Reply) error
	cred xdr.Auth
	made atomic.Int64
	peer atomic.Value // string: the life of the server
}

// NewRDMA returns a caller for a worker over NFS/RDMA. Workers that run one after the other may
// be the same machine: a server divides its cache among the machines that it has seen, and with
// hundreds of them a share would be smaller than what workers send again.
func NewRDMA(addr Addr, worker, machine uint16) (Caller, error) {
	l := new(lasting)
	l.init(worker)
	l.cred = cred(machine)
	r, err := redial.New(l.redial(addr))
	if err != nil {
		return nil, err
	}
	l.r, l.send = r, r.Do
	return l, nil
}

func (l *lasting) init(worker uint16) {
	l.cred = cred(worker)
}

// redial returns the configuration for making connections.
func (l *lasting) redial(addr Addr) *redial.Config {
	return &redial.Config{
		Dial: func(ctx context.Context) (redial.Conn, error) {
			conn, life, err := addr.dial(ctx, "RDMA")
			if err != nil {
				return nil, err
			}
			l.peer.Store(life)
			return transport.NewClient(ctx, conn, nil)
		},
		MinDelay: 2 * time.Millisecond, MaxDelay: 20 * time.Millisecond, Transmissions: -1, Silence: answerTime,
		Trace: redial.Trace{Connected: func(n int) { l.made.Store(int64(n)) }},
	}
}

func (l *lasting) dials() int  { return int(l.made.Load()) }
func (l *lasting) names() bool { return false }

func (l *lasting) life() string {
	life, _ := l.peer.Load().(string)
	return life
}

// Close implements Caller.
func (l *lasting) Close() error { return l.r.Close() }

// do implements Caller. It inserts placed data where they belong in the results.
func (l *lasting) do(ctx context.Context, _, prog uint32, m *message) ([]byte, error) {
	call := rpc.Call{
		Prog: prog, Vers: m.vers, Proc: uint32(m.proc), Cred: l.cred,
		Args: m.args, Item: m.item, ItemPos: len(m.args), MaxResults: 1024, Repeatable: true,
	}
	if m.item == nil {
		call.ItemPos = 0
	}
	if m.sink > 0 {
		call.Sink = make([]byte, m.sink)
	}
	if m.vers == 0 {
		call.Vers = nfs3.Version
	}
	var reply rpc.Reply
	if err := l.send(ctx, &call, &reply); err != nil {
		return nil, err
	}
	defer reply.Release()
	if err := reply.Header.Err(); err != nil {
		return nil, &refusedError{err}
	}
	raw := append([]byte(nil), reply.Results...)
	return xdr.AppendPad(append(raw, reply.Item...), len(reply.Item)), nil
}

// stream is a Caller over NFS/TCP that sends each call with the XID that it is given, so also
// after a restart of the client.
type stream struct {
	addr   Addr
	worker uint16
	cred   xdr.Auth

	conn net.Conn // nil: none
	r    *xdr.RecordReader
	made int
	peer string // the life of the server
}

// answerTime is how long to wait for an answer before sending the call again.
const answerTime = 20 * time.Second

// NewStream returns a caller for a worker, of a server that also listens for TCP.
func NewStream(addr Addr, worker uint16) Caller {
	return &stream{addr: addr, worker: worker, cred: cred(worker)}
}

func (s *stream) dials() int   { return s.made }
func (s *stream) names() bool  { return true }
func (s *stream) life() string { return s.peer }

// Close implements Caller.
func (s *stream) Close() error {
	if s.conn == nil {
		return nil
	}
	err := s.conn.Close()
	s.conn = nil
	return err
}

// do implements Caller.
func (s *stream) do(ctx context.Context, xid, prog uint32, m *message) ([]byte, error) {
	h := xdr.CallHeader{XID: xid, RPCVers: 2, Prog: prog, Vers: nfs3.Version, Proc: uint32(m.proc), Cred: s.cred}
	call := append(xdr.AppendCall(nil, &h), m.whole()...)
	rec := append(xdr.AppendRecordMark(nil, len(call), true), call...)
	for {
		raw, err := s.try(ctx, xid, rec)
		if err == nil {
			return raw, nil
		}
		if refused, ok := errors.AsType[*refusedError](err); ok {
			return nil, refused
		}
		_ = s.Close() // the next call makes another connection
		if err := pause(ctx); err != nil {
			return nil, err
		}
	}
}

// refusedError is a reply without results of the procedure.
type refusedError struct{ err error }

func (e *refusedError) Error() string { return "the call is refused: " + e.err.Error() }
func (e *refusedError) Unwrap() error { return e.err }

// try sends the record on the current connection and waits for the reply.
func (s *stream) try(ctx context.Context, xid uint32, rec []byte) ([]byte, error) {
	if s.conn == nil {
		conn, life, err := s.addr.dial(ctx, "TCP")
		if err != nil {
			return nil, err
		}
		s.conn, s.r = conn, xdr.NewRecordReader(conn, 1<<20)
		s.made++
		s.peer = life
	}
	if err := s.conn.SetDeadline(time.Now().Add(answerTime)); err != nil {
		return nil, err
	}
	if _, err := s.conn.Write(rec); err != nil {
		return nil, err
	}
	for {
		b, err := s.r.Next(nil)
		if err != nil {
			return nil, err
		}
		var h xdr.ReplyHeader
		d := xdr.NewDecoder(b)
		if err := h.Parse(&d); err != nil {
			return nil, err
		}
		if h.XID != xid {
			continue // the reply to a call that was sent twice
		}
		if err := h.Err(); err != nil {
			return nil, &refusedError{fmt.Errorf("XID %d: %w", xid, err)}
		}
		return d.Rest(), nil
	}
}
