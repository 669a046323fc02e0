package main

import (
	"bytes"
	"net"
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
	do := func(call *transport.Call, want xdr.AcceptStat) *transport.Reply {
		t.Helper()
		call.Prog, call.Vers = program, version
		r := new(transport.Reply)
		if err := c.Do(t.Context(), call, r); err != nil {
			t.Fatal(err)
		}
		if r.Header.Accept != want {
			t.Fatalf("%v, want %v", r.Header.Accept, want)
		}
		t.Cleanup(r.Release)
		return r
	}
	for _, n := range []int{0, 5, 300001} {
		value := bytes.Repeat([]byte{7}, n)
		args := xdr.AppendUint32(xdr.AppendString(nil, "key"), uint32(n))
		do(&transport.Call{Proc: procPut, Args: args, Item: value, ItemPos: len(args)}, xdr.Success)
		got := make([]byte, maxValue)
		r := do(&transport.Call{Proc: procGet, Args: xdr.AppendString(nil, "key"), Sink: got, MaxResults: 64}, xdr.Success)
		if r.Placed {
			got = got[:r.ItemLen]
		} else {
			d := xdr.NewDecoder(r.Results)
			got = d.Opaque(maxValue)
		}
		if !bytes.Equal(got, value) {
			t.Errorf("%d octets came back as %d", n, len(got))
		}
	}
	if st := s.Stats(); st.OctetsRead != 300001 || st.OctetsWritten < 300001 {
		t.Errorf("%d octets by RDMA Read, %d by RDMA Write", st.OctetsRead, st.OctetsWritten)
	}
	do(&transport.Call{Proc: procGet, Args: []byte{0, 0, 9, 9}}, xdr.GarbageArgs)
	do(&transport.Call{Proc: 9}, xdr.ProcUnavail)
}
