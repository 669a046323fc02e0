package ops_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
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
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// TestNames: without TLS, a page of elsewhere whose name leads here reads nothing.
func TestNames(t *testing.T) {
	s := &ops.Server{Ready: func() string { return "" }, Names: []string{"fileserver", ""}}
	for host, want := range map[string]int{
		"evil.example": http.StatusMisdirectedRequest, "evil.example:9049": http.StatusMisdirectedRequest, "fileserver.evil.example": http.StatusMisdirectedRequest,
		"127.0.0.1.evil.example": http.StatusMisdirectedRequest, "localhost.evil.example": http.StatusMisdirectedRequest, "127.1": http.StatusMisdirectedRequest,
		"FileServer:9049": http.StatusOK, "localhost:9049": http.StatusOK, "localhost.": http.StatusOK, "192.0.2.1:9049": http.StatusOK, "[::1]:9049": http.StatusOK,
		"[2001:db8::1]": http.StatusOK, "": http.StatusOK,
	} {
		for _, names := range [][]string{s.Names, nil} {
			if s.Names = names; names == nil {
				want = http.StatusOK
			}
			r := httptest.NewRequest(http.MethodGet, "/healthz", http.NoBody)
			r.Host = host
			w := httptest.NewRecorder()
			if s.HTTP().Handler.ServeHTTP(w, r); w.Code != want {
				t.Errorf("%q, names %q: %d, want %d", host, names, w.Code, want)
			}
		}
		s.Names = []string{"fileserver", ""}
	}
}

// TestProfileEnds: whoever asks for a profile of a year does not keep one of the few connections for a year.
func TestProfileEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := (&ops.Server{Ready: func() string { return "" }}).Handler()
		start := time.Now()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/debug/pprof/goroutine?seconds=31536000", nil))
		if d := time.Since(start); d > time.Hour || w.Code == http.StatusOK {
			t.Errorf("%d after %v", w.Code, d)
		}
	})
}

// TestMounts: every outcome of MNT is one line, with who, what and why.
func TestMounts(t *testing.T) {
	path := mount3.PathArgs{Path: "/srv/a b"}
	sys := xdr.Auth{Flavor: xdr.AuthSys, Body: (&xdr.SysCred{MachineName: "host", UID: 7}).Append(nil)}
	for _, tt := range []struct {
		name string
		req  rpc.Request
		res  mount3.MountRes
		deny bool
		want string
	}{
		{
			"granted", call(mount3.ProcMnt, sys),
			mount3.MountRes{Handle: []byte("h")},
			false,
			`level=INFO msg="mount granted" client=192.0.2.1:700 transport=rdma path="/srv/a b" machine=host uid=7` + "\n",
		},
		{
			"refused", call(mount3.ProcMnt, xdr.Auth{}),
			mount3.MountRes{Status: mount3.ErrAcces},
			false,
			`level=WARN msg="mount refused" client=192.0.2.1:700 transport=rdma path="/srv/a b" why="MNT3ERR_ACCES: the export does not admit this client"` + "\n",
		},
		{
			"none", call(mount3.ProcMnt, xdr.Auth{}),
			mount3.MountRes{Status: mount3.ErrNoEnt},
			false,
			`why="MNT3ERR_NOENT: no such export, or no such directory in it"` + "\n",
		},
		{"a file", call(mount3.ProcMnt, xdr.Auth{}), mount3.MountRes{Status: mount3.ErrNotDir}, false, `why="MNT3ERR_NOTDIR: not a directory"` + "\n"},
		{"broken", call(mount3.ProcMnt, xdr.Auth{}), mount3.MountRes{Status: mount3.ErrIO}, false, `why="MNT3ERR_IO: the export cannot be used now"` + "\n"},
		{"denied", call(mount3.ProcMnt, xdr.Auth{}), mount3.MountRes{}, true, `why="the call was denied: wrong credentials"` + "\n"},
		{"unmounted", call(mount3.ProcUmnt, sys), mount3.MountRes{}, true, `level=INFO msg=unmounted client=192.0.2.1:700`},
		{"other procedures", call(mount3.ProcExport, sys), mount3.MountRes{}, true, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.req.Args = xdr.Encode(nil, &path)
			var out bytes.Buffer
			h := ops.New(rpc.HandlerFunc(func(_ context.Context, _ *rpc.Request, resp *rpc.Response) {
				if tt.deny {
					resp.Deny(xdr.AuthTooWeak)
					return
				}
				resp.Results = xdr.Encode(resp.Results, &tt.res)
			}), transport.SlogLogger(slog.NewTextHandler(&out, nil)), nil)
			h.ServeRPC(t.Context(), &tt.req, new(rpc.Response))
			if got := out.String(); !strings.Contains(got, tt.want) || strings.Count(got, "\n") > 1 || tt.want == "" && got != "" {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// call is a call to MOUNT.
func call(p mount3.Proc, cred xdr.Auth) rpc.Request {
	return rpc.Request{
		CallHeader: xdr.CallHeader{Prog: mount3.Program, Vers: mount3.Version, Proc: uint32(p), Cred: cred},
		RemoteAddr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 700}, Network: "rdma",
	}
}

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

func TestOctets(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0", 10239: "10239", 10240: "10.0 KiB", 1 << 20: "1.00 MiB", 1<<20 - 1: "1.00 MiB",
		64 << 20: "64.0 MiB", 300 << 30: "300 GiB", 1 << 63: "8 EiB", 1 << 50: "1.00 PiB",
	} {
		if got := ops.Octets(n); got != want {
			t.Errorf("Octets(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestTook(t *testing.T) {
	for d, want := range map[time.Duration]string{
		40 * time.Microsecond: "40 us", 2500 * time.Microsecond: "2.5 ms",
		320 * time.Millisecond: "320 ms", 1500 * time.Millisecond: "1.50 s",
	} {
		if got := ops.Took(d); got != want {
			t.Errorf("Took(%v) = %q, want %q", d, got, want)
		}
	}
}
