package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/service"
)

// TestStore puts and gets values that travel inline and in chunks.
func TestStore(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := newServer()
	go s.Serve(l)
	defer s.Close()
	c, err := transport.Dial(t.Context(), "tcp", l.Addr().String(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	room := make([]byte, 1<<20)
	for _, n := range []int{0, 5, 300001} {
		value := bytes.Repeat([]byte{7}, n)
		if err := service.Invoke(t.Context(), c, put, &putArgs{"key", value}, nil); err != nil {
			t.Fatal(err)
		}
		got := getRes{Value: room}
		if err := service.Invoke(t.Context(), c, get, &getArgs{"key"}, &got); err != nil || !bytes.Equal(got.Value, value) || &got.Value[:1][0] != &room[0] {
			t.Errorf("%d octets came back as %d, %v", n, len(got.Value), err)
		}
	}
	if st := s.Stats(); st.OctetsRead != 300001 || st.OctetsWritten < 300001 {
		t.Errorf("%d octets by RDMA Read, %d by RDMA Write", st.OctetsRead, st.OctetsWritten)
	}
	got := getRes{Value: room}
	if err := service.Invoke(t.Context(), c, get, &getArgs{"other"}, &got); !errors.Is(err, notFound) || len(got.Value) != 0 {
		t.Errorf("a key that is not there: %d octets, %v", len(got.Value), err)
	}
}

// Example shows the output of the command.
func Example() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Println(err)
	}
	// Output:
	// put 524288 octets, got the same back: true
	// the server moved 524288 by RDMA Read, 524288 by RDMA Write
}
