// Command kv is a key-value store over RPC-over-RDMA: a program of its own types in
// about 60 lines. Values are DDP-eligible: large ones travel by RDMA Read and Write.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/xdr"
)

// The program: put(string key, opaque value<>) and opaque<> get(string key). The number
// is from the range for private use (RFC 5531 Section 8.1).
const (
	program, version = 0x20000001, 1
	procPut, procGet = 1, 2
	maxKey, maxValue = 255, 1 << 20
)

// store is the service.
type store struct {
	mu     sync.RWMutex
	values map[string][]byte
}

// ServeRPC implements transport.Handler.
func (s *store) ServeRPC(_ context.Context, req *transport.Request, resp *transport.Response) {
	d := xdr.NewDecoder(req.Args)
	switch req.Proc {
	case 0:
	case procPut:
		key, value := d.String(maxKey), d.Opaque(maxValue)
		if d.Err() == nil {
			s.mu.Lock()
			s.values[key] = append([]byte(nil), value...) // Args are lent
			s.mu.Unlock()
		}
	case procGet:
		key := d.String(maxKey)
		s.mu.RLock()
		resp.AppendItem(s.values[key]) // leaves from here; put never changes a value in place
		s.mu.RUnlock()
	default:
		resp.Stat = xdr.ProcUnavail
	}
	if d.Err() != nil {
		resp.Stat = xdr.GarbageArgs
	}
}

// values is the upper-layer binding (RFC 8166 Section 6): which item may be reduced.
type values struct{ chunks.Binding }

func (values) Eligible(_, _, proc uint32) (arg, result bool) { return proc == procPut, proc == procGet }

func (values) FindArg(_, _, proc uint32, args []byte) (pos, n int, ok bool) {
	d := xdr.NewDecoder(args)
	d.Opaque(maxKey)
	n = int(d.Uint32())
	return d.Offset(), n, proc == procPut && d.Err() == nil && n <= maxValue
}

func (values) FindResult(_, _, proc uint32, results []byte) (pos, n int, ok bool) {
	d := xdr.NewDecoder(results)
	n = int(d.Uint32())
	return d.Offset(), n, proc == procGet && d.Err() == nil && n <= maxValue
}

func main() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		fmt.Println("key-value store on", l.Addr())
		s := &transport.Server{Handler: &store{values: map[string][]byte{}}, Config: &transport.Config{Binding: values{chunks.NFS}}}
		err = s.Serve(l)
	}
	fmt.Fprintln(os.Stderr, "kv:", err)
	os.Exit(1)
}
