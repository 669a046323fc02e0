package buildbarn

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"net"
	"sync"
	"testing"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"
	"github.com/buildbarn/go-xdr/pkg/rpcserver"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// oneFile is as much of an NFSv3 server as READ and WRITE of one file need.
type oneFile struct {
	nfsv3.NfsProgram // nil: the other procedures are not called
	mu               sync.Mutex
	data             []byte
}

func (f *oneFile) NfsV3Nfsproc3Null(context.Context) error { return nil }

func (f *oneFile) NfsV3Nfsproc3Read(_ context.Context, a *nfsv3.Read3args) (nfsv3.Read3res, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.data[min(a.Offset, uint64(len(f.data))):]
	d = d[:min(len(d), int(a.Count))]
	return &nfsv3.Read3res_NFS3_OK{Resok: nfsv3.Read3resok{
		FileAttributes: &nfsv3.PostOpAttr_FALSE{}, Count: uint32(len(d)), Eof: true, Data: d,
	}}, nil
}

func (f *oneFile) NfsV3Nfsproc3Write(_ context.Context, a *nfsv3.Write3args) (nfsv3.Write3res, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.data = bytes.Clone(a.Data)
	return &nfsv3.Write3res_NFS3_OK{Resok: nfsv3.Write3resok{
		FileWcc: nfsv3.WccData{Before: &nfsv3.PreOpAttr_FALSE{}, After: &nfsv3.PostOpAttr_FALSE{}}, Count: a.Count,
	}}, nil
}

func services() map[uint32]rpcserver.Service {
	return map[uint32]rpcserver.Service{100003: nfsv3.NewNfsProgramService(new(oneFile))}
}

// starts are the two ways, each returning its address and counters.
var starts = map[string]func(t testing.TB) (string, func() rpc.Stats){
	"rpcserver under Listen": func(t testing.TB) (string, func() rpc.Stats) {
		l, err := transport.Listen("tcp", "127.0.0.1:0", &transport.Config{Fanout: 2})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go Serve(l, rpcserver.NewServer(services(), rpcserver.AllowAuthenticator))
		return l.Addr().String(), l.(*transport.Listener).Stats
	},
	"Handler": func(t testing.TB) (string, func() rpc.Stats) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := &transport.Server{Handler: &Handler{Services: services(), Authenticator: rpcserver.AllowAuthenticator}}
		t.Cleanup(func() { s.Close() })
		go s.Serve(l)
		return l.Addr().String(), s.Stats
	},
}

// TestData writes and reads a file both ways: the data travel in chunks.
func TestData(t *testing.T) {
	for name, start := range starts {
		t.Run(name, func(t *testing.T) {
			addr, stats := start(t)
			c, err := transport.Dial(t.Context(), "tcp", addr, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			want := bytes.Repeat([]byte("stag "), 60001)
			fh, n := xdr.AppendOpaque(nil, []byte("fh")), uint32(len(want))
			args := xdr.AppendUint32(xdr.AppendUint64(fh, 0), n)
			args = xdr.AppendUint32(xdr.AppendUint32(args, 2), n)
			var r rpc.Reply
			defer r.Release()
			if err := c.Do(t.Context(), &rpc.Call{Prog: 100003, Vers: 3, Proc: 7, Args: args, Item: want, ItemPos: len(args), MaxResults: 136}, &r); err != nil || r.Header.Err() != nil {
				t.Fatal(err, r.Header.Err())
			}
			got := make([]byte, n)
			args = xdr.AppendUint32(xdr.AppendUint64(xdr.AppendOpaque(nil, []byte("fh")), 0), n)
			if err := c.Do(t.Context(), &rpc.Call{Prog: 100003, Vers: 3, Proc: 6, Args: args, Sink: got, MaxResults: 104}, &r); err != nil || r.Header.Err() != nil {
				t.Fatal(err, r.Header.Err())
			}
			if !r.Placed || !bytes.Equal(got, want) {
				t.Errorf("placed %v, equal %v", r.Placed, bytes.Equal(got, want))
			}
			if st := stats(); st.OctetsRead != uint64(n) || st.OctetsWritten != uint64(n) {
				t.Errorf("%d octets by RDMA Read, %d by RDMA Write, want %d each", st.OctetsRead, st.OctetsWritten, n)
			}
			for _, tt := range []struct {
				call rpc.Call
				want xdr.AcceptStat
			}{
				{rpc.Call{Prog: 100003, Vers: 3}, xdr.Success},
				{rpc.Call{Prog: 100003, Vers: 4}, xdr.ProgMismatch},
				{rpc.Call{Prog: 100003, Vers: 3, Proc: 99}, xdr.ProcUnavail},
				{rpc.Call{Prog: 1}, xdr.ProgUnavail},
			} {
				if err := c.Do(t.Context(), &tt.call, &r); err != nil || r.Header.Accept != tt.want {
					t.Errorf("%d.%d.%d: %v, %v", tt.call.Prog, tt.call.Vers, tt.call.Proc, r.Header.Accept, err)
				}
			}
		})
	}
}

func ExampleHandler() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	s := &transport.Server{Handler: &Handler{Services: services(), Authenticator: rpcserver.AllowAuthenticator}}
	go s.Serve(l)
	defer s.Close()
	c, err := transport.Dial(context.Background(), "tcp", l.Addr().String(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	var r rpc.Reply
	defer r.Release()
	fmt.Println(c.Do(context.Background(), &rpc.Call{Prog: 100003, Vers: 3}, &r), r.Header.Accept)
	// Output: <nil> SUCCESS
}
