package main

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/conformance/internal/decode"
)

// TestNFS4BindingOnTraces compares what chunks.NFS finds in every COMPOUND that the Linux kernel's client
// and server sent with what the decoder finds.
func TestNFS4BindingOnTraces(t *testing.T) {
	files, err := filepath.Glob("testdata/pcaps/c-nfs4*.pcap")
	if err != nil || len(files) == 0 {
		t.Fatalf("no traces: %v", err)
	}
	seen := map[string]int{}
	for _, name := range files {
		f := must(os.Open(name))(t)
		for ev, err := range decode.Events(f, nil) {
			check(t, err)
			if ev.RPC == nil || ev.RPC.Compound == nil || ev.RPC.Backward || len(ev.RPC.Compound.Ops) == 0 {
				continue
			}
			compareCompound(t, name, ev, seen)
		}
		f.Close()
	}
	for _, kind := range []string{"READ", "WRITE", "CREATE", "none in a call", "none in a reply"} {
		if seen[kind] == 0 {
			t.Errorf("the traces show no %s", kind)
		}
	}
}

func compareCompound(t *testing.T, name string, ev *decode.Event, seen map[string]int) {
	t.Helper()
	r := ev.RPC
	what, want := wantItem(r)
	find := chunks.NFS.FindArg
	if r.IsReply {
		find = chunks.NFS.FindResult
	}
	pos, n, ok := find(100003, 4, 1, r.Body)
	seen[what]++
	switch {
	case ok != (want >= 0):
		t.Errorf("%s, packet %d, %s: found %v", name, ev.Frame, what, ok)
	case ok && (n != want || binary.BigEndian.Uint32(r.Body[pos-4:]) != uint32(n)):
		t.Errorf("%s, packet %d, %s: %d octets at %d, want %d", name, ev.Frame, what, n, pos, want)
	}
	if !r.IsReply {
		_, item, known := chunks.NFS.MaxResults(100003, 4, 1, r.Body)
		for _, op := range r.Compound.Ops {
			if op.Name == "READ" && known && item != int(binary.BigEndian.Uint32(op.Body[24:])) {
				t.Errorf("%s, packet %d: largest item %d", name, ev.Frame, item)
			}
		}
	}
}

// wantItem returns the operation with the first eligible item and its count, according to the decoder; -1 if
// there is none.
func wantItem(r *decode.RPC) (what string, n int) {
	be := binary.BigEndian
	for _, op := range r.Compound.Ops {
		switch {
		case op.Name == "WRITE" && !r.IsReply:
			return op.Name, int(be.Uint32(op.Body[28:])) // after stateid4, offset4, stable_how4
		case op.Name == "CREATE" && !r.IsReply && be.Uint32(op.Body) == 5:
			return op.Name, int(be.Uint32(op.Body[4:]))
		case op.Name == "READ" && r.IsReply && op.Status == 0:
			return op.Name, int(be.Uint32(op.Body[4:])) // after eof
		case op.Name == "READLINK" && r.IsReply && op.Status == 0:
			return op.Name, int(be.Uint32(op.Body))
		}
	}
	if r.IsReply {
		return "none in a reply", -1
	}
	return "none in a call", -1
}
