// Command kv is a key-value store over RPC-over-RDMA, a service with its own types. Large values travel by
// RDMA Read and Write. docs/service.md explains it.
//
//	kv serve 127.0.0.1:20100
//	kv put 127.0.0.1:20100 KEY <FILE
//	kv get 127.0.0.1:20100 KEY >FILE
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/transport/service"
)

type putArgs struct {
	Key   string
	Value []byte `xdr:"ddp"` // the bulk data of the message
}

type putRes struct {
	Status status `xdr:"union"` // 0: success
}

type getArgs struct{ Key string }

type getRes struct {
	Status status `xdr:"union"` // 0: success
	Value  []byte `xdr:"unioncase=0,ddp"`
}

// status is an error of the service.
type status uint32

const (
	notFound status = 2
	tooLarge status = 3
)

func (s status) Error() string { return fmt.Sprintf("kv: status %d", uint32(s)) }

const maxValue = 16 << 20

var (
	put    = service.Proc[putArgs, putRes]{Prog: 0x20000001, Vers: 1, Proc: 1}
	get    = service.Proc[getArgs, getRes]{Prog: 0x20000001, Vers: 1, Proc: 2}
	config = &transport.Config{Binding: service.Bind(put, get), MaxPayload: maxValue + 4096}
)

type store struct {
	mu     sync.RWMutex
	values map[string][]byte
}

func (s *store) put(_ context.Context, args *putArgs) (*putRes, error) {
	if len(args.Value) > maxValue {
		return nil, tooLarge // no client has room for it
	}
	value := bytes.Clone(args.Value) // it is lent
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values[args.Key] = value
	return new(putRes), nil
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

func newServer() *transport.Server {
	s, mux := &store{values: map[string][]byte{}}, new(service.Mux)
	service.Handle(mux, put, s.put)
	service.Handle(mux, get, s.get)
	return &transport.Server{Handler: mux, Config: config}
}

func serve(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	return newServer().ServeShared(l) // RDMA and record-marked TCP
}

func putValue(ctx context.Context, c rpc.Caller, key string, value []byte) error {
	return service.Invoke(ctx, c, put, &putArgs{key, value}, nil)
}

func getValue(ctx context.Context, c rpc.Caller, key string) ([]byte, error) {
	res := getRes{Value: make([]byte, maxValue)} // where it will arrive
	err := service.Invoke(ctx, c, get, &getArgs{key}, &res)
	return res.Value, err
}

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	if len(args) == 2 && args[0] == "serve" {
		return serve(args[1])
	}
	if len(args) != 3 {
		return errors.New("usage: kv serve ADDR | put ADDR KEY | get ADDR KEY")
	}
	c, err := transport.Dial(ctx, "tcp", args[1], config)
	if err != nil {
		return err
	}
	defer c.Close()
	if args[0] == "put" {
		value, err := io.ReadAll(in)
		if err != nil {
			return err
		}
		return putValue(ctx, c, args[2], value)
	}
	value, err := getValue(ctx, c, args[2])
	if err != nil {
		return err
	}
	_, err = out.Write(value)
	return err
}
