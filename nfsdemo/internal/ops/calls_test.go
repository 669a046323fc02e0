package ops_test

import (
	"context"
	"net"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stag-rdma/stag/nfsdemo/internal/ops"
	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// nfsCall is a call to NFS over a transport.
func nfsCall(p nfs3.Proc, network string) *rpc.Request {
	return &rpc.Request{CallHeader: xdr.CallHeader{Prog: nfs3.Program, Vers: nfs3.Version, Proc: uint32(p)}, Network: network}
}

// TestCalls: calls, errors and times are counted by procedure and transport, each where it belongs.
func TestCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls ops.Calls
		var took time.Duration
		var answer func(*rpc.Response)
		h := ops.New(rpc.HandlerFunc(func(_ context.Context, _ *rpc.Request, resp *rpc.Response) {
			time.Sleep(took)
			answer(resp)
		}), nil, &calls)
		status := func(s nfs3.Status) func(*rpc.Response) {
			return func(r *rpc.Response) { r.Results = xdr.AppendUint32(r.Results, uint32(s)) }
		}
		for _, c := range []struct {
			proc    nfs3.Proc
			network string
			took    time.Duration
			answer  func(*rpc.Response)
		}{
			{nfs3.ProcNull, "rdma", 0, func(*rpc.Response) {}},
			{nfs3.ProcRead, "rdma", 7 * time.Microsecond, status(nfs3.OK)},
			{nfs3.ProcRead, "rdma", 8 * time.Microsecond, status(nfs3.OK)},
			{nfs3.ProcRead, "rdma", time.Hour, status(nfs3.ErrIO)},
			{nfs3.ProcRead, "tcp", 3 * time.Millisecond, status(nfs3.ErrBadHandle)},
			{nfs3.ProcRead, "tcp", 3 * time.Millisecond, status(12345)},
			{nfs3.ProcWrite, "tcp", time.Second, func(r *rpc.Response) { r.Stat = xdr.GarbageArgs }},
			{nfs3.ProcWrite, "tcp", time.Second, func(r *rpc.Response) { r.Deny(xdr.AuthTooWeak) }},
			{99, "tcp", time.Second, func(r *rpc.Response) { r.Stat = xdr.ProcUnavail }},
		} {
			took, answer = c.took, c.answer
			h.ServeRPC(t.Context(), nfsCall(c.proc, c.network), new(rpc.Response))
		}
		answer = func(r *rpc.Response) {
			r.Results = xdr.Encode(r.Results, &mount3.MountRes{Status: mount3.ErrAcces})
		}
		mnt := call(mount3.ProcMnt, xdr.Auth{})
		mnt.Args = xdr.Encode(nil, &mount3.PathArgs{Path: "/x"})
		h.ServeRPC(t.Context(), &mnt, new(rpc.Response))

		err := testutil.CollectAndCompare(&calls, strings.NewReader(`
# HELP nfsdemo_nfs_calls_total NFS calls served.
# TYPE nfsdemo_nfs_calls_total counter
nfsdemo_nfs_calls_total{procedure="NULL",transport="rdma"} 1
nfsdemo_nfs_calls_total{procedure="READ",transport="rdma"} 3
nfsdemo_nfs_calls_total{procedure="READ",transport="tcp"} 2
nfsdemo_nfs_calls_total{procedure="WRITE",transport="tcp"} 2
# HELP nfsdemo_nfs_errors_total NFS calls with another status than NFS3_OK, among them usual ones such as NFS3ERR_NOENT.
# TYPE nfsdemo_nfs_errors_total counter
nfsdemo_nfs_errors_total{procedure="READ",status="NFS3ERR_BADHANDLE",transport="tcp"} 1
nfsdemo_nfs_errors_total{procedure="READ",status="NFS3ERR_IO",transport="rdma"} 1
nfsdemo_nfs_errors_total{procedure="READ",status="other",transport="tcp"} 1
nfsdemo_nfs_errors_total{procedure="WRITE",status="refused",transport="tcp"} 2
# HELP nfsdemo_mounts_total Calls of MNT, by outcome.
# TYPE nfsdemo_mounts_total counter
nfsdemo_mounts_total{result="granted"} 0
nfsdemo_mounts_total{result="refused"} 1
`), "nfsdemo_nfs_calls_total", "nfsdemo_nfs_errors_total", "nfsdemo_mounts_total")
		if err != nil {
			t.Error(err)
		}
		rows := calls.Rows()
		if len(rows) != 4 || rows[1].Procedure != "READ" || rows[1].Calls != 3 || rows[1].Errors != 1 || rows[2].P99 != 4096*time.Microsecond {
			t.Errorf("%+v", rows)
		}
		r, w := prometheus.NewRegistry(), httptest.NewRecorder()
		r.MustRegister(&calls)
		promhttp.HandlerFor(r, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		text := w.Body.String()
		for _, want := range []string{
			`{procedure="READ",transport="rdma",le="8e-06"} 1`, `{procedure="READ",transport="rdma",le="1.6e-05"} 2`,
			`{procedure="READ",transport="rdma",le="4.194304"} 2`, `{procedure="READ",transport="rdma",le="+Inf"} 3`,
			`_sum{procedure="READ",transport="tcp"} 0.006`, `_count{procedure="READ",transport="tcp"} 2`,
		} {
			if !strings.Contains(text, want+"\n") {
				t.Errorf("no %s in %s", want, text)
			}
		}
		if problems, err := testutil.CollectAndLint(&calls); err != nil || len(problems) > 0 {
			t.Error(problems, err)
		}
	})
}

// TestParts: calls are counted by export, and by client, of which the busiest stay however many come by.
func TestParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := ops.Calls{ExportOf: func(h nfs3.FileHandle) string { return map[string]string{"a": "/a", "b": "/b"}[string(h)] }}
		var answer xdr.Message
		h := ops.New(rpc.HandlerFunc(func(_ context.Context, _ *rpc.Request, resp *rpc.Response) {
			time.Sleep(time.Millisecond)
			resp.Results = xdr.Encode(nil, answer)
		}), nil, &calls)
		from := func(n int, p nfs3.Proc, handle string, results xdr.Message) {
			req := nfsCall(p, "tcp")
			req.Args = xdr.AppendOpaque(nil, []byte(handle))
			req.RemoteAddr = &net.TCPAddr{IP: net.IPv4(192, 0, byte(n>>8), byte(n)), Port: 700 + n%3}
			answer = results
			h.ServeRPC(t.Context(), req, new(rpc.Response))
		}
		attr := nfs3.SomeAttr(&nfs3.Attr{Size: 9})
		from(1, nfs3.ProcRead, "a", &nfs3.ReadRes{Attr: attr, Count: 3, Data: []byte("abc")})
		from(1, nfs3.ProcRead, "a", &nfs3.ReadRes{Count: 2, Data: []byte("ab")})
		from(1, nfs3.ProcWrite, "b", &nfs3.WriteRes{Wcc: nfs3.Wcc{Before: nfs3.OptWcc{Present: true}, After: attr}, Count: 7})
		from(1, nfs3.ProcGetAttr, "b", &nfs3.GetAttrRes{Status: nfs3.ErrIO})
		from(1, nfs3.ProcGetAttr, "?", &nfs3.GetAttrRes{Status: nfs3.ErrStale})
		clients, exports := calls.Busiest()
		for i, want := range []ops.Busy{
			{Name: "192.0.0.1", Calls: 5, Read: 5, Written: 7}, {Name: "/a", Calls: 2, Read: 5}, {Name: "/b", Calls: 2, Written: 7},
		} {
			got := slices.Concat(clients, exports)[i]
			if got.Name != want.Name || got.Calls != want.Calls || got.Read != want.Read || got.Written != want.Written || got.Mean != time.Millisecond || !got.Last.Equal(time.Now().Add(-time.Millisecond)) && i == 0 {
				t.Errorf("%+v, want %+v", got, want)
			}
		}
		err := testutil.CollectAndCompare(&calls, strings.NewReader(`
# HELP nfsdemo_export_io_errors_total NFS calls with NFS3ERR_IO, by export.
# TYPE nfsdemo_export_io_errors_total counter
nfsdemo_export_io_errors_total{export="/a"} 0
nfsdemo_export_io_errors_total{export="/b"} 1
# HELP nfsdemo_client_call_seconds_total Time that NFS calls took in the server, by client, of the busiest ones.
# TYPE nfsdemo_client_call_seconds_total counter
nfsdemo_client_call_seconds_total{client="192.0.0.1"} 0.005
`), "nfsdemo_export_io_errors_total", "nfsdemo_client_call_seconds_total")
		if err != nil {
			t.Error(err)
		}
		for n := range 2000 { // who calls once each
			from(n+2, nfs3.ProcGetAttr, "a", &nfs3.GetAttrRes{Status: nfs3.ErrStale})
		}
		if clients, exports = calls.Busiest(); len(clients) != 32 || clients[0].Calls != 5 || len(exports) != 2 {
			t.Errorf("%d clients, %+v first; %d exports", len(clients), clients[0], len(exports))
		}
		time.Sleep(time.Hour) // it is gone
		for n := range 128 {
			from(n+3000, nfs3.ProcGetAttr, "a", &nfs3.GetAttrRes{Status: nfs3.ErrStale})
		}
		if clients, _ = calls.Busiest(); clients[0].Calls != 1 {
			t.Errorf("who has been idle stays: %+v", clients[0])
		}
	})
}

// TestCallsAllocs: to count costs no memory.
func TestCallsAllocs(t *testing.T) {
	answer := []byte{0, 0, 0, 2}
	h := ops.New(rpc.HandlerFunc(func(_ context.Context, _ *rpc.Request, resp *rpc.Response) {
		resp.Results = answer
	}), nil, &ops.Calls{ExportOf: func(nfs3.FileHandle) string { return "/a" }})
	req, resp := nfsCall(nfs3.ProcGetAttr, "rdma"), new(rpc.Response)
	req.RemoteAddr, req.Args = &net.TCPAddr{IP: net.IPv6loopback, Port: 1}, xdr.AppendOpaque(nil, []byte("handle"))
	if n := testing.AllocsPerRun(100, func() { h.ServeRPC(t.Context(), req, resp) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
