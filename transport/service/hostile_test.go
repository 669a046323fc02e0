package service_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/transport/service"
	"github.com/stag-rdma/stag/xdr"
	"github.com/stag-rdma/stag/xdr/xdrreflect"
	"go.uber.org/zap"
)

// The types that hostile peers are tried on: one of each form that a peer chooses something in.
type (
	listed struct {
		Name  string
		Names []string
		Lists [][]uint32
		Flag  bool
		Small int8
		Tiny  uint16
		Next  *listed `xdr:"optional"`
	}
	// armed has its item in an arm of a union in a structure, behind a list.
	armed struct {
		Names []string
		In    struct {
			Kind uint32 `xdr:"union"`
			Data []byte `xdr:"unioncase=0,ddp"`
			Code uint32 `xdr:"unioncase=1"`
		}
		Tail uint32
	}
)

var (
	list = service.Proc[listed, listed]{Prog: prog, Vers: 7, Proc: 1}
	arm  = service.Proc[armed, armed]{Prog: prog, Vers: 7, Proc: 2}
)

// hostileServer serves list and arm, and notes the arguments of the last call. runs counts calls.
func hostileServer(t *testing.T) (addr string, last *atomic.Value, runs *atomic.Int64) {
	t.Helper()
	last, runs = new(atomic.Value), new(atomic.Int64)
	m := new(service.Mux)
	service.Handle(m, list, func(_ context.Context, a *listed) (*listed, error) {
		runs.Add(1)
		b, err := xdrreflect.Marshal(a)
		last.Store(b)
		return nil, err
	})
	service.Handle(m, arm, func(_ context.Context, a *armed) (*armed, error) {
		runs.Add(1)
		b, err := xdrreflect.Marshal(a)
		last.Store(b)
		return a, err
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &transport.Server{Handler: m, Config: &transport.Config{Binding: service.Bind(list, arm), Logger: zap.NewNop()}}
	served := make(chan error, 1)
	go func() { served <- s.ServeShared(l) }()
	t.Cleanup(func() { s.Close(); <-served })
	return l.Addr().String(), last, runs
}

// raw is an end of an RDMA connection whose Sends are made by hand.
type raw struct {
	t    *testing.T
	conn *rdmap.Conn
}

func rawConfig() *rdmap.Config {
	priv := rpcrdma.PrivateData{SendSize: 4096, RecvSize: 4096}.Append(nil)
	return &rdmap.Config{
		Startup:  rdmap.Startup{PrivateData: priv, Accept: func(*mpa.Request) ([]byte, error) { return priv, nil }, IRD: 8, ORD: 8},
		Receives: rdmap.Receives{Size: 4096, Count: 64},
		Timeouts: rdmap.Timeouts{Close: time.Second},
	}
}

func rawClient(t *testing.T, addr string) *raw {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	p := &raw{t, rdmap.Client(nc, rawConfig())}
	if err := p.conn.Handshake(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.conn.Abort(nil); <-p.conn.Done() })
	return p
}

func (p *raw) offer(mem []byte, access region.Access) chunks.Segment {
	r, err := p.conn.Register(mem, access)
	if err != nil {
		p.t.Fatal(err)
	}
	return chunks.Segment{Handle: chunks.Handle(r.STag()), Length: uint32(len(mem))}
}

func (p *raw) send(h rpcrdma.Header, payload []byte) {
	h.Vers, h.Credit = 1, 8
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := p.conn.Send(ctx, append(h.Append(nil), payload...)); err != nil && !errors.Is(err, net.ErrClosed) {
		p.t.Error(err)
	}
}

func (p *raw) recv() (h rpcrdma.Header, payload []byte, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	m, err := p.conn.Recv(ctx)
	if err != nil {
		return h, nil, err
	}
	n, err := h.Decode(m.Data, nil)
	return h, m.Data[n:], err
}

func (p *raw) call(xid uint32, proc service.Proc[armed, armed], read []chunks.ReadSegment, args []byte) (rpcrdma.Header, xdr.ReplyHeader, []byte) {
	p.t.Helper()
	msg := xdr.AppendCall(nil, &xdr.CallHeader{XID: xid, RPCVers: 2, Prog: proc.Prog, Vers: proc.Vers, Proc: proc.Proc})
	p.send(rpcrdma.Header{XID: xid, Lists: chunks.Lists{Read: read}}, append(msg, args...))
	h, payload, err := p.recv()
	if err != nil || h.XID != xid {
		p.t.Fatalf("answer to %d instead of %d, %v", h.XID, xid, err)
	}
	var r xdr.ReplyHeader
	d := xdr.NewDecoder(payload)
	if h.Type == rpcrdma.MsgTypeMsg {
		if err := r.Parse(&d); err != nil {
			p.t.Fatal(err)
		}
	}
	return h, r, d.Rest()
}

func octets(v ...uint32) (b []byte) {
	for _, w := range v {
		b = binary.BigEndian.AppendUint32(b, w)
	}
	return b
}

// TestHostileArguments sends arguments that break their type, over both transports: GARBAGE_ARGS, the handler does not
// run, and the connection lives on.
func TestHostileArguments(t *testing.T) {
	const most = 1<<32 - 1
	addr, last, runs := hostileServer(t)
	good := octets(0, 0, 0, 0, 0, 0, 0)
	rdma, err := transport.Dial(t.Context(), "tcp", addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer rdma.Close()
	tcp, err := transport.DialStream(t.Context(), "tcp", addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	nest := bytes.Repeat(octets(0, 0, 0, 0, 0, 0, 1), 20_000)
	for name, c := range map[string]rpc.Caller{"rdma": rdma, "tcp": tcp} {
		for _, tt := range []struct {
			name string
			proc uint32
			args []byte
			ok   bool
		}{
			{"legal", 1, good, true},
			{"name of 2^32-1", 1, octets(most, 0, 0, 0, 0, 0, 0), false},
			{"name of 2^32-4", 1, octets(most-3, 0, 0, 0, 0, 0, 0), false},
			{"name of 2^31", 1, octets(1<<31, 0, 0, 0, 0, 0, 0), false},
			{"huge name that is there", 1, append(octets(900_000), make([]byte, 900_000+24)...), true},
			{"names of 2^32-1", 1, octets(0, most, 0, 0, 0, 0, 0), false},
			{"names of 2^30", 1, octets(0, 1<<30, 0, 0, 0, 0, 0), false},
			{"lists of 2^32-1", 1, octets(0, 0, most, 0, 0, 0, 0), false},
			{"list in lists of 2^32-1", 1, octets(0, 0, 2, 0, most, 0, 0, 0, 0), false},
			{"nested lists", 1, append(octets(0, 0, 200_000), make([]byte, 800_000+16)...), true},
			{"bool of 2", 1, octets(0, 0, 0, 2, 0, 0, 0), false},
			{"bool of 2^32-1", 1, octets(0, 0, 0, most, 0, 0, 0), false},
			{"int8 of 128", 1, octets(0, 0, 0, 0, 128, 0, 0), false},
			{"int8 of -129", 1, octets(0, 0, 0, 0, most-128, 0, 0), false},
			{"int8 of -128", 1, octets(0, 0, 0, 0, most-127, 0, 0), true},
			{"uint16 of 2^16", 1, octets(0, 0, 0, 0, 0, 1<<16, 0), false},
			{"optional of 2", 1, octets(0, 0, 0, 0, 0, 0, 2), false},
			{"optional that is cut", 1, octets(0, 0, 0, 0, 0, 0, 1), false},
			{"recursion", 1, append(slices.Clip(nest), good...), false},
			{"deep", 1, append(nest[:28*4000:28*4000], good...), true},
			{"trailing octets", 1, octets(0, 0, 0, 0, 0, 0, 0, 0), false},
			{"nothing", 1, nil, false},
			{"item of 2^32-1", 2, octets(0, 0, most, 0), false},
			{"item of 2^31-1", 2, octets(0, 0, 1<<31-1, 0), false},
			{"item over the tail", 2, octets(0, 0, 4, 0), false},
			{"item and trailing octets", 2, octets(0, 0, 4, 0, 0, 0), false},
			{"another arm", 2, octets(0, 1, 9, 0), true},
			{"another arm with an item", 2, octets(0, 1, 9, 4, 0, 0), false},
			{"no arm", 2, octets(0, 77, 9), true},
			{"names of 2^32-1 before the item", 2, octets(most, 0, 0, 0), false},
		} {
			runs.Store(0)
			begun := time.Now()
			var reply rpc.Reply
			err := c.Do(t.Context(), &rpc.Call{Prog: prog, Vers: 7, Proc: tt.proc, Args: tt.args, MaxResults: 1 << 20}, &reply)
			want, ran := xdr.GarbageArgs, int64(0)
			if tt.ok {
				want, ran = xdr.Success, 1
			}
			if err != nil || reply.Header.Accept != want || runs.Load() != ran {
				t.Errorf("%s, %s: %v, %v after %d runs, want %v", name, tt.name, reply.Header.Accept, err, runs.Load(), want)
			} else if tt.ok && !bytes.Equal(last.Load().([]byte), tt.args) {
				t.Errorf("%s, %s: the handler saw others", name, tt.name)
			}
			if d := time.Since(begun); d > 5*time.Second {
				t.Errorf("%s, %s: took %v", name, tt.name, d)
			}
			reply.Release()
		}
	}
}

// TestHostileChunks sends read chunks where none belong, or of another length than they should have.
func TestHostileChunks(t *testing.T) {
	addr, last, runs := hostileServer(t)
	p := rawClient(t, addr)
	mem := bytes.Repeat([]byte{7}, 64)
	seg := p.offer(mem, region.RemoteRead)
	at := func(pos, n uint32) []chunks.ReadSegment {
		s := seg
		s.Length = n
		return []chunks.ReadSegment{{Position: pos, Segment: s}}
	}
	other := arm
	other.Proc = 1
	none := arm
	none.Proc = 0
	const chunk, garbage, success = -1, int(xdr.GarbageArgs), int(xdr.Success)
	// The arguments begin at octet 40: names 40, kind 44, count 48, data 52.
	for i, tt := range []struct {
		name string
		proc service.Proc[armed, armed]
		read []chunks.ReadSegment
		args []byte
		want int
	}{
		{"legal", arm, at(52, 64), octets(0, 0, 64, 5), success},
		{"padded", arm, at(52, 64), octets(0, 0, 62, 5), success},
		{"empty", arm, at(52, 0), octets(0, 0, 0, 5), success},
		{"shorter than its count", arm, at(52, 60), octets(0, 0, 64, 5), garbage},
		{"longer than its count", arm, at(52, 64), octets(0, 0, 60, 5), garbage},
		{"count of 2^32-1", arm, at(52, 64), octets(0, 0, 1<<32-1, 5), garbage},
		{"count of 2^32-64", arm, at(52, 64), octets(0, 0, 1<<32-64, 5), garbage},
		{"no tail", arm, at(52, 64), octets(0, 0, 64), garbage},
		{"trailing octets", arm, at(52, 64), octets(0, 0, 64, 5, 6), garbage},
		{"data inline as well", arm, at(52, 4), octets(0, 0, 4, 9, 5), garbage},
		{"another arm", arm, at(52, 64), octets(0, 1, 64, 5), garbage},
		{"no arm", arm, at(48, 64), octets(0, 9, 5), garbage},
		{"at the kind", arm, at(48, 64), octets(0, 0, 64, 5), chunk},
		{"at the tail", arm, at(56, 64), octets(0, 0, 64, 5), chunk},
		{"in the names", arm, at(48, 64), octets(1, 64, 0, 0, 5), garbage},
		{"names of 2^32-1", arm, at(52, 64), octets(1<<32-1, 0, 64, 5), garbage},
		{"two", arm, append(at(52, 32), at(84, 32)...), octets(0, 0, 64, 5), chunk},
		{"in two segments", arm, append(at(52, 32), at(52, 32)...), octets(0, 0, 64, 5), success},
		{"a procedure without an item", other, at(44, 64), octets(64, 0, 0, 0, 0, 0, 0), chunk},
		{"NULL", none, at(40, 64), nil, chunk},
	} {
		runs.Store(0)
		h, r, _ := p.call(uint32(i+1), tt.proc, tt.read, tt.args)
		switch {
		case tt.want == chunk && (h.Type != rpcrdma.MsgTypeError || h.Err != rpcrdma.ErrChunk):
			t.Errorf("%s: %+v, %v, want ERR_CHUNK", tt.name, h, r.Err())
		case tt.want != chunk && (h.Type != rpcrdma.MsgTypeMsg || r.Denied || int(r.Accept) != tt.want):
			t.Errorf("%s: %+v, %v, want status %d", tt.name, h, r.Err(), tt.want)
		}
		if got := runs.Load(); (got == 1) != (tt.want == success) {
			t.Errorf("%s: %d runs", tt.name, got)
		}
		if tt.want == success {
			n := binary.BigEndian.Uint32(tt.args[8:])
			want := append(append(octets(0, 0, n), mem[:n]...), make([]byte, xdr.Pad(int(n)))...)
			if got := last.Load().([]byte); !bytes.Equal(got, append(want, octets(5)...)) {
				t.Errorf("%s: the handler saw %x", tt.name, got)
			}
		}
	}
}

// TestItemForNothing: data that a Caller has received apart, for results that have no place for them, are not results.
func TestItemForNothing(t *testing.T) {
	for _, results := range [][]byte{octets(0, 1, 7, 5), octets(0, 77, 5)} {
		c := caller(func(call *rpc.Call, reply *rpc.Reply) {
			reply.Results, reply.Item = results, call.Sink[:8]
		})
		var res armed
		res.In.Data = make([]byte, 16)
		err := service.Invoke(t.Context(), c, arm, nil, &res)
		if _, ok := errors.AsType[*xdr.DecodeError](err); !ok || !errors.Is(err, xdr.ErrTrailing) {
			t.Errorf("%x: %v, want ErrTrailing", results, err)
		}
	}
}
