package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/xdr"
)

// TestStore puts and gets values that travel inline and in chunks.
func TestStore(t *testing.T) {
	cfg := &transport.Config{Binding: values{chunks.NFS}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &transport.Server{Handler: &store{values: map[string][]byte{}}, Config: cfg}
	go s.Serve(l)
	defer s.Close()
	c, err := transport.Dial(t.Context(), "tcp", l.Addr().String(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, n := range []int{0, 5, 300001} {
		value := bytes.Repeat([]byte{7}, n)
		if err := put(t.Context(), c, "key", value); err != nil {
			t.Fatal(err)
		}
		if got, err := get(t.Context(), c, "key"); err != nil || !bytes.Equal(got, value) {
			t.Errorf("%d octets came back as %d, %v", n, len(got), err)
		}
	}
	if st := s.Stats(); st.OctetsRead != 300001 || st.OctetsWritten < 300001 {
		t.Errorf("%d octets by RDMA Read, %d by RDMA Write", st.OctetsRead, st.OctetsWritten)
	}
	for _, tt := range []struct {
		proc uint32
		args []byte
		want xdr.AcceptStat
	}{
		{procGet, []byte{0, 0, 9, 9}, xdr.GarbageArgs},
		{9, nil, xdr.ProcUnavail},
	} {
		var r transport.Reply
		err := c.Do(t.Context(), &transport.Call{Prog: program, Vers: version, Proc: tt.proc, Args: tt.args}, &r)
		if err != nil || r.Header.Accept != tt.want {
			t.Errorf("procedure %d: %v, %v; want %v", tt.proc, r.Header.Accept, err, tt.want)
		}
		r.Release()
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
