// Command kv is a key-value store over RPC-over-RDMA, a program with its own types: its service
// and its binding take about 60 lines. Values are DDP-eligible: large ones travel by RDMA Read
// and Write. The command serves on loopback, puts a value and gets it back:
//
//	go run ./transport/examples/kv
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/xdr"
)

// The program: put(string key, opaque value<>) and opaque<> get(string key). The number
// is from the range for private use (RFC 5531 Section 8.3).
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
		resp.AppendItem(s.values[key]) // sent from here; put never changes a value in place
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
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "kv:", err)
		os.Exit(1)
	}
}

// run serves a store on loopback, puts a value into it and gets it back.
func run(ctx context.Context, out io.Writer) error {
	cfg := &transport.Config{Binding: values{chunks.NFS}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := &transport.Server{Handler: &store{values: map[string][]byte{}}, Config: cfg}
	defer s.Close()
	go s.Serve(l) //nolint:errcheck // ends with Close
	c, err := transport.Dial(ctx, "tcp", l.Addr().String(), cfg)
	if err != nil {
		return err
	}
	defer c.Close()
	value := bytes.Repeat([]byte("stag"), 128<<10)
	if err := put(ctx, c, "key", value); err != nil {
		return err
	}
	got, err := get(ctx, c, "key")
	if err != nil {
		return err
	}
	st := s.Stats()
	fmt.Fprintf(out, "put %d octets, got the same back: %v\n", len(value), bytes.Equal(got, value))
	fmt.Fprintf(out, "the server moved %d by RDMA Read, %d by RDMA Write\n", st.OctetsRead, st.OctetsWritten)
	return nil
}

// put stores a value, which it borrows: the server reads one that does not fit a Send by RDMA Read.
func put(ctx context.Context, c transport.Caller, key string, value []byte) error {
	args := xdr.AppendUint32(xdr.AppendString(nil, key), uint32(len(value)))
	var r transport.Reply
	defer r.Release()
	call := &transport.Call{Prog: program, Vers: version, Proc: procPut, Args: args, Item: value, ItemPos: len(args)}
	if err := c.Do(ctx, call, &r); err != nil {
		return err
	}
	return r.Header.Err()
}

// get returns a value, empty if there is none. The server writes a large one by RDMA Write.
func get(ctx context.Context, c transport.Caller, key string) ([]byte, error) {
	sink := make([]byte, maxValue)
	var r transport.Reply
	defer r.Release()
	call := &transport.Call{Prog: program, Vers: version, Proc: procGet, Args: xdr.AppendString(nil, key), Sink: sink, MaxResults: 64}
	if err := c.Do(ctx, call, &r); err != nil {
		return nil, err
	}
	if err := r.Header.Err(); err != nil {
		return nil, err
	}
	if r.Placed {
		return sink[:r.ItemLen], nil
	}
	d := xdr.NewDecoder(r.Results)
	return bytes.Clone(d.Opaque(maxValue)), d.Err() // Results are lent
}
