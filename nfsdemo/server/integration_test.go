package server_test

import (
	"bytes"
	"context"
	"net"
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// TestTransports serves a directory over both transports on loopback: data go in by one and
// come out by the other.
func TestTransports(t *testing.T) {
	s := &transport.Server{Handler: newServer(t, newDir(t, nil))}
	serve := func(f func(net.Listener) error) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go f(l)
		return l.Addr().String()
	}
	tcpAddr, rdmaAddr := serve(s.ServeStream), serve(s.Serve)
	t.Cleanup(func() { _ = s.Close() })

	tcp, err := transport.DialStream(t.Context(), "tcp", tcpAddr, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	rdma, err := transport.Dial(t.Context(), "tcp", rdmaAddr, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer rdma.Close()

	a, b := wire{t, tcp}, wire{t, rdma}
	for i, w := range []wire{a, b} {
		root := w.mount("/export")
		other := []wire{b, a}[i]
		for _, size := range []int{0, 1, 4095, 4096, 65537, 1 << 20} {
			data := bytes.Repeat([]byte{byte(i + 1), byte(size), 3, 4, 5}, size/5+1)[:size]
			var c nfs3.CreateRes
			w.call(nfs3.Program, uint32(nfs3.ProcCreate), &nfs3.CreateArgs{Where: at(root, name(2*size+i))}, &c)
			h := c.Handle.Handle
			w.write(h, data)
			if got := other.read(h, size+10); !bytes.Equal(got, data) {
				t.Errorf("%d octets: the data differ", size)
			}
		}
	}
	if st := rdma.Stats(); st.OctetsRead == 0 && st.OctetsWritten == 0 {
		t.Logf("client stats: %+v", st)
	}
	if st := s.Stats(); st.OctetsRead < 1<<20 || st.OctetsWritten < 1<<20 {
		t.Errorf("the data did not go by RDMA: %+v", st)
	}
}

// wire is a client over a real transport.
type wire struct {
	t *testing.T
	c rpc.Caller
}

// do does a call and returns its results, which it copies.
func (w wire) do(call *rpc.Call) ([]byte, rpc.Reply) {
	w.t.Helper()
	call.Cred = sys(0, 0)
	call.Vers = 3
	var r rpc.Reply
	if err := w.c.Do(context.Background(), call, &r); err != nil {
		w.t.Fatal(err)
	}
	if err := r.Header.Err(); err != nil {
		w.t.Fatal(err)
	}
	return bytes.Clone(r.Results), r
}

func (w wire) call(prog, proc uint32, args, res nfs3.Message) {
	w.t.Helper()
	body, r := w.do(&rpc.Call{Prog: prog, Proc: proc, Args: args.Append(nil), MaxResults: 4096})
	defer r.Release()
	d := xdr.NewDecoder(body)
	if err := res.Parse(&d); err != nil {
		w.t.Fatal(err)
	}
}

func (w wire) mount(path string) nfs3.FileHandle {
	w.t.Helper()
	var res mount3.MountRes
	w.call(mount3.Program, uint32(mount3.ProcMnt), &mount3.PathArgs{Path: path}, &res)
	if res.Status != mount3.OK {
		w.t.Fatal(res.Status)
	}
	return res.Handle
}

func (w wire) write(h nfs3.FileHandle, data []byte) {
	w.t.Helper()
	args := nfs3.WriteArgs{Handle: h, Count: uint32(len(data)), Stable: nfs3.FileSync}
	head := args.AppendHead(nil)
	call := &rpc.Call{Prog: nfs3.Program, Proc: uint32(nfs3.ProcWrite), Args: head, Item: data, ItemPos: len(head)}
	if len(data) == 0 {
		call.Item = nil
	}
	body, r := w.do(call)
	defer r.Release()
	var res nfs3.WriteRes
	d := xdr.NewDecoder(body)
	if err := res.Parse(&d); err != nil || res.Status != nfs3.OK || int(res.Count) != len(data) {
		w.t.Fatalf("WRITE: %v, %v, %d octets", err, res.Status, res.Count)
	}
}

func (w wire) read(h nfs3.FileHandle, n int) []byte {
	w.t.Helper()
	sink := make([]byte, n)
	body, r := w.do(&rpc.Call{
		Prog: nfs3.Program, Proc: uint32(nfs3.ProcRead), Sink: sink, MaxResults: nfs3.ProcRead.MaxRes(),
		Args: (&nfs3.ReadArgs{Handle: h, Count: uint32(n)}).Append(nil),
	})
	defer r.Release()
	var res nfs3.ReadRes
	d := xdr.NewDecoder(body)
	if err := res.ParseHead(&d); err != nil || res.Status != nfs3.OK || !res.EOF {
		w.t.Fatalf("READ: %v, %v, eof %v", err, res.Status, res.EOF)
	}
	return bytes.Clone(r.Item)
}
