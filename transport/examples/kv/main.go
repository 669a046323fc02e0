// Command kv is a key-value store over RPC-over-RDMA, a service with its own types. Large values travel by
// RDMA Read and Write. The command serves on loopback, puts a value and gets it back:
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

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/service"
)

// The types of the service. Values are the bulk data of their messages.
type (
	putArgs struct {
		Key   string
		Value []byte `xdr:"ddp"`
	}
	getArgs struct{ Key string }
	getRes  struct {
		Status status `xdr:"union"`
		Value  []byte `xdr:"unioncase=0,ddp"`
	}
)

// status is the error of the service.
type status uint32

const notFound status = 2

func (s status) Error() string { return fmt.Sprintf("kv: status %d", uint32(s)) }

// The procedures. The number of the program is from the range for private use (RFC 5531 Section 8.3).
var (
	put    = service.Proc[putArgs, service.Void]{Prog: 0x20000001, Vers: 1, Proc: 1}
	get    = service.Proc[getArgs, getRes]{Prog: 0x20000001, Vers: 1, Proc: 2}
	config = &transport.Config{Binding: service.Bind(put, get)}
)

// store is the service.
type store struct {
	mu     sync.RWMutex
	values map[string][]byte
}

func (s *store) put(_ context.Context, args *putArgs) (*service.Void, error) {
	value := bytes.Clone(args.Value) // it is lent
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values[args.Key] = value
	return nil, nil
}

func (s *store) get(_ context.Context, args *getArgs) (*getRes, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	value, ok := s.values[args.Key]
	if !ok {
		return nil, notFound
	}
	return &getRes{Value: value}, nil // sent from here; put never changes a value in place
}

// newServer returns a server of an empty store.
func newServer() *transport.Server {
	s, mux := &store{values: map[string][]byte{}}, new(service.Mux)
	service.Handle(mux, put, s.put)
	service.Handle(mux, get, s.get)
	return &transport.Server{Handler: mux, Config: config}
}

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "kv:", err)
		os.Exit(1)
	}
}

// run serves a store on loopback, puts a value into it and gets it back.
func run(ctx context.Context, out io.Writer) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := newServer()
	defer s.Close()
	go s.Serve(l) //nolint:errcheck // ends with Close
	c, err := transport.Dial(ctx, "tcp", l.Addr().String(), config)
	if err != nil {
		return err
	}
	defer c.Close()
	value := bytes.Repeat([]byte("stag"), 128<<10)
	if err := service.Invoke(ctx, c, put, &putArgs{"key", value}, nil); err != nil {
		return err
	}
	got := getRes{Value: make([]byte, 1<<20)} // room
	if err := service.Invoke(ctx, c, get, &getArgs{"key"}, &got); err != nil {
		return err
	}
	st := s.Stats()
	fmt.Fprintf(out, "put %d octets, got the same back: %v\n", len(value), bytes.Equal(got.Value, value))
	fmt.Fprintf(out, "the server moved %d by RDMA Read, %d by RDMA Write\n", st.OctetsRead, st.OctetsWritten)
	return nil
}
