package push_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/internal/rendezvous"
	"github.com/stag-rdma/stag/transport/push"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// The RPC program of docs/push.x as another implementation would write it: what the tests say to a
// server, and what they understand.
const (
	procNull = iota
	procOpen
	procClose
	procAppend
	procStatus
	procRead
	procRelease

	maxName    = 64
	maxRecords = 1024
)

type key [16]byte

func takeKey(d *xdr.Decoder) (k key) {
	copy(k[:], d.FixedOpaque(len(k)))
	return k
}

// counted is a key with the octets from n on.
func counted(n byte) (k key) {
	for i := range k {
		k[i] = n + byte(i)
	}
	return k
}

type openArgs struct {
	Name     string
	Secret   push.Secret
	Instance key
	Resume   bool
	Capacity uint64
	Native   bool
}

func (a *openArgs) append(b []byte) []byte {
	b = xdr.AppendString(b, a.Name)
	b = xdr.AppendFixedOpaque(b, a.Secret[:])
	b = xdr.AppendFixedOpaque(b, a.Instance[:])
	b = xdr.AppendBool(b, a.Resume)
	b = xdr.AppendUint64(b, a.Capacity)
	return xdr.AppendBool(b, a.Native)
}

func (a *openArgs) parse(d *xdr.Decoder) {
	a.Name, a.Secret = d.String(maxName), push.Secret(takeKey(d))
	a.Instance, a.Resume, a.Capacity, a.Native = takeKey(d), d.Bool(), d.Uint64(), d.Bool()
}

type openRes struct {
	Status push.Status
	Opened opened // of StatusOK
}

type opened struct {
	Session key
	Commit  *rendezvous.Place // nil: none
	Answer  commitlog.Answer
}

func (r *openRes) parse(d *xdr.Decoder) {
	if r.Status = push.Status(d.Uint32()); r.Status != push.StatusOK {
		return
	}
	o := &r.Opened
	if o.Session = takeKey(d); d.Bool() {
		o.Commit = new(rendezvous.Place)
		xdr.Decode(d, o.Commit)
	}
	a := &o.Answer
	a.ID, a.Capacity = takeKey(d), d.Uint64()
	a.Mode, a.Hash = commitlog.Mode(d.Uint32()), commitlog.Hash(d.Uint32())
	a.Persistent = commitlog.Level(d.Uint32()) == commitlog.Persistent
	a.Epoch, a.Head, a.Tail, a.NextSeq, a.LastEpoch = d.Uint32(), d.Uint64(), d.Uint64(), d.Uint64(), d.Uint32()
}

type appendArgs struct {
	Session key
	Seq     uint64
	Records [][]byte
}

func (a *appendArgs) append(b []byte) []byte {
	b = xdr.AppendFixedOpaque(b, a.Session[:])
	b = xdr.AppendUint64(b, a.Seq)
	b = xdr.AppendUint32(b, uint32(len(a.Records)))
	for _, r := range a.Records {
		b = xdr.AppendOpaque(b, r)
	}
	return b
}

type readArgs struct {
	Name                 string
	Secret               push.Secret
	From                 uint64
	Octets, Milliseconds uint32
}

func (a *readArgs) append(b []byte) []byte {
	b = xdr.AppendString(b, a.Name)
	b = xdr.AppendFixedOpaque(b, a.Secret[:])
	b = xdr.AppendUint64(b, a.From)
	return xdr.AppendUint32(xdr.AppendUint32(b, a.Octets), a.Milliseconds)
}

type releaseArgs struct {
	Name   string
	Secret push.Secret
	Seq    uint64
}

func (a *releaseArgs) append(b []byte) []byte {
	b = xdr.AppendString(b, a.Name)
	return xdr.AppendUint64(xdr.AppendFixedOpaque(b, a.Secret[:]), a.Seq)
}

// from is an address.
type from string

func (from) Network() string  { return "tcp" }
func (f from) String() string { return string(f) }

// called makes a call without a connection, and returns the results. It panics if there are none.
func called(ctx context.Context, h rpc.Handler, addr string, prog, proc uint32, args []byte) *xdr.Decoder {
	call := xdr.CallHeader{XID: 1, RPCVers: xdr.RPCVersion, Prog: prog, Vers: push.Version, Proc: proc}
	reply, ok := rpc.ServeMessage(ctx, h, from(addr), append(xdr.AppendCall(nil, &call), args...), nil)
	d := xdr.NewDecoder(reply)
	var r xdr.ReplyHeader
	if err := r.Parse(&d); !ok || err != nil || r.Err() != nil {
		panic(fmt.Sprint(err, r.Err()))
	}
	return &d
}

// ask makes an OPEN without a connection.
func ask(ps *push.Server, addr string, a openArgs) (r openRes) {
	r.parse(called(context.Background(), ps, addr, push.Program, procOpen, a.append(nil)))
	return r
}

// appendRecords makes an APPEND without a connection.
func appendRecords(ctx context.Context, ps *push.Server, a *appendArgs) push.Status {
	return push.Status(called(ctx, ps, "127.0.0.1:1", push.Program, procAppend, a.append(nil)).Uint32())
}

// listening is a Caller that knows the last OPEN that went through it, and its answer.
type listening struct {
	rpc.Caller

	mu   sync.Mutex
	args openArgs
	res  openRes
}

func (l *listening) Do(ctx context.Context, c *rpc.Call, reply *rpc.Reply) error {
	err := l.Caller.Do(ctx, c, reply)
	if err == nil && c.Prog == push.Program && c.Proc == procOpen {
		l.mu.Lock()
		defer l.mu.Unlock()
		args, res := xdr.NewDecoder(c.Args), xdr.NewDecoder(reply.Results)
		l.args.parse(&args)
		l.res = openRes{}
		l.res.parse(&res)
	}
	return err
}

func (l *listening) last() (openArgs, openRes) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.args, l.res
}
