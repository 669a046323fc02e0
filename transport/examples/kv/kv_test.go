package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
)

// start serves an empty store on loopback.
func start(t testing.TB) (s *transport.Server, addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s = newServer()
	served := make(chan error, 1)
	go func() { served <- s.ServeShared(l) }()
	t.Cleanup(func() { s.Close(); <-served })
	return s, l.Addr().String()
}

// TestStore puts and gets values that travel inline and in chunks, over both transports.
func TestStore(t *testing.T) {
	s, addr := start(t)
	rdma, err := transport.Dial(t.Context(), "tcp", addr, config)
	if err != nil {
		t.Fatal(err)
	}
	defer rdma.Close()
	tcp, err := transport.DialStream(t.Context(), "tcp", addr, config)
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	for i, c := range []rpc.Caller{tcp, rdma} { // the server waits ten seconds for a first octet over TCP
		name := []string{"tcp", "rdma"}[i]
		for _, n := range []int{0, 5, 300001, maxValue} {
			value := bytes.Repeat([]byte{7}, n)
			if err := putValue(t.Context(), c, name, value); err != nil {
				t.Fatal(err)
			}
			if got, err := getValue(t.Context(), c, name); err != nil || !bytes.Equal(got, value) {
				t.Errorf("%s: %d octets came back as %d, %v", name, n, len(got), err)
			}
		}
		if _, err := getValue(t.Context(), c, "other"); !errors.Is(err, notFound) {
			t.Errorf("%s: a key that is not there: %v", name, err)
		}
	}
	if st := s.Stats(); st.OctetsRead != 300001+maxValue || st.OctetsWritten < 300001+maxValue {
		t.Errorf("%d octets by RDMA Read, %d by RDMA Write", st.OctetsRead, st.OctetsWritten)
	}
}

// TestCommand runs the commands.
func TestCommand(t *testing.T) {
	_, addr := start(t)
	var out bytes.Buffer
	for _, tt := range []struct {
		args []string
		ok   bool
	}{
		{nil, false},
		{[]string{"serve", "127.0.0.1:-1"}, false},
		{[]string{"get", addr, "key"}, false},
		{[]string{"put", addr, "key"}, true},
		{[]string{"get", addr, "key"}, true},
	} {
		if err := run(t.Context(), tt.args, bytes.NewReader([]byte("value")), &out); (err == nil) != tt.ok {
			t.Errorf("%q: %v", tt.args, err)
		}
	}
	if out.String() != "value" {
		t.Errorf("get printed %q", &out)
	}
}

// Example puts 16 MiB and gets them back.
func Example() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	s := newServer()
	defer s.Close()
	go s.ServeShared(l)
	ctx := context.Background()
	c, err := transport.Dial(ctx, "tcp", l.Addr().String(), config)
	if err != nil {
		panic(err)
	}
	defer c.Close()
	value := make([]byte, maxValue)
	fmt.Println(putValue(ctx, c, "key", value))
	got, err := getValue(ctx, c, "key")
	fmt.Println(bytes.Equal(got, value), err)
	fmt.Printf("the server moved %d octets by RDMA Read, %d by RDMA Write\n", s.Stats().OctetsRead, s.Stats().OctetsWritten)
	_, err = getValue(ctx, c, "other")
	fmt.Println(err)
	// Output:
	// <nil>
	// true <nil>
	// the server moved 16777216 octets by RDMA Read, 16777216 by RDMA Write
	// kv: status 2
}
