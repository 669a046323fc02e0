package push_test

import (
	"context"
	"testing"
	"time"

	"github.com/stag-rdma/stag/transport/push"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// Any octets as arguments: an answer, GARBAGE_ARGS, and no more logs than a host may have.
func FuzzServe(f *testing.F) {
	secret := push.Secret(counted(0xa0))
	for proc, args := range [][]byte{
		procNull: nil,
		procOpen: push.Octets(&openArgs{Name: "log", Secret: secret, Native: true}),
		procClose: append([]byte(nil),
			make([]byte, 16)...),
		procAppend: push.Octets(&appendArgs{Seq: 1, Records: [][]byte{[]byte("one")}}),
		procStatus: make([]byte, 16),
		procRead:   push.Octets(&readArgs{Name: "log", Secret: secret, From: 1}),
	} {
		f.Add(uint32(proc), args)
	}
	f.Add(uint32(procOpen), push.Octets(&openArgs{Name: "log", Secret: push.Secret{1}, Resume: true}))
	f.Add(uint32(procRelease), push.Octets(&releaseArgs{Name: "log", Secret: secret, Seq: 1}))
	// Small rings: the crash model keeps several copies of each, in every worker.
	ps := &push.Server{Store: newMemStore(), Limits: push.Limits{MaxCapacity: 8192}}
	f.Cleanup(func() { _ = ps.Close(context.Background()) })
	f.Fuzz(func(t *testing.T, proc uint32, args []byte) {
		h := xdr.CallHeader{XID: 1, RPCVers: xdr.RPCVersion, Prog: push.Program, Vers: push.Version, Proc: proc}
		// A READ may wait for 10 s: longer than the fuzzer waits for an input. While it varies READs that wait, this millisecond
		// is what an input takes.
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		reply, ok := rpc.ServeMessage(ctx, ps, from("192.0.2.1:1"), append(xdr.AppendCall(nil, &h), args...), nil)
		if !ok {
			t.Fatal("no reply")
		}
		d := xdr.NewDecoder(reply)
		var r xdr.ReplyHeader
		if err := r.Parse(&d); err != nil || r.Denied {
			t.Fatalf("%+v %v", r, err)
		}
		if st := ps.Stats(); st.Logs > 1024/8 {
			t.Errorf("%+v", st) // the share of a host
		}
	})
}
