package nfsclient_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/transport/rpcbind"
	"github.com/stag-rdma/stag/xdr"
)

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8") // those that say so wait more than they work
	rdmaptest.Main(m)
}

// noMount hides the MOUNT program of a handler, as kernel servers do on their NFS
// ports.
type noMount struct{ rpc.Handler }

// ServeRPC implements rpc.Handler.
func (h noMount) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	if req.Prog == mount3.Program {
		resp.Stat = xdr.ProgUnavail
		return
	}
	h.Handler.ServeRPC(ctx, req, resp)
}

// listen opens a listener on any port of loopback.
func listen(t testing.TB) net.Listener {
	t.Helper()
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	return l
}

// serve serves an empty file system in memory as /export in both ways and returns
// the URLs. With hidden, MOUNT is only answered on mountPort.
func serve(t testing.TB, hidden bool) (rdma, tcp string, mountPort int) {
	t.Helper()
	h, err := server.New(&server.Config{Exports: []server.Export{{Path: "/export", FS: mem.New(nil), Squash: server.SquashNone}}})
	noErr(t, err)
	s := &transport.Server{Handler: h}
	m := &transport.Server{Handler: h}
	if hidden {
		s.Handler = noMount{h}
	}
	lr, lt, lm := listen(t), listen(t), listen(t)
	done := make(chan error, 3)
	go func() { done <- s.Serve(lr) }()
	go func() { done <- s.ServeStream(lt) }()
	go func() { done <- m.ServeStream(lm) }()
	t.Cleanup(func() {
		for _, s := range []*transport.Server{s, m} {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		for range 3 {
			if err := <-done; !errors.Is(err, transport.ErrServerClosed) {
				t.Errorf("server ended with %v", err)
			}
		}
	})
	return "nfs+rdma://" + lr.Addr().String() + "/export", "nfs://" + lt.Addr().String() + "/export", lm.Addr().(*net.TCPAddr).Port
}

// dial connects to a URL.
func dial(t testing.TB, s string, cfg *nfsclient.Config) (*nfsclient.Client, error) {
	t.Helper()
	u := must(nfsclient.ParseURL(s))(t)
	return nfsclient.Dial(t.Context(), u, cfg)
}

// mustDial is dial for servers that work.
func mustDial(t testing.TB, s string, cfg *nfsclient.Config) *nfsclient.Client {
	t.Helper()
	c := must(dial(t, s, cfg))(t)
	t.Cleanup(func() { c.Close() })
	return c
}

// TestBothTransports uses a real server in both ways with the same code.
func TestBothTransports(t *testing.T) {
	rdma, tcp, _ := serve(t, false)
	for _, url := range []string{rdma, tcp} {
		t.Run(strings.SplitN(url, ":", 2)[0], func(t *testing.T) {
			c := mustDial(t, url, nil)
			data := testData(3<<20 + 5)
			dir, err := c.MkdirAll(t.Context(), "/export/"+strings.Split(url, ":")[0]+"/b", 0o755)
			noErr(t, err)
			n, err := c.Create(t.Context(), dir, "file", 0o640, true)
			noErr(t, err)
			if done, err := c.WriteFrom(t.Context(), n, data, 0, int64(len(data)), nil); err != nil || done != int64(len(data)) {
				t.Fatalf("WriteFrom = %d, %v", done, err)
			}
			if n, err = c.Child(t.Context(), dir, "file"); err != nil || n.Size() != int64(len(data)) {
				t.Fatalf("Child = %+v, %v", n, err)
			}
			back := make(nfsclient.Memory, len(data))
			if done, err := c.ReadTo(t.Context(), n, back, 0, nil); err != nil || !bytes.Equal(back, data) {
				t.Fatalf("ReadTo = %d, %v", done, err)
			}
			must(c.Symlink(t.Context(), dir, "link", "file"))(t)
			if l, err := c.Lookup(t.Context(), dir.Path+"/link"); err != nil || l.Attr.FileID != n.Attr.FileID {
				t.Errorf("through the link: %+v, %v", l, err)
			}
			if err := c.Link(t.Context(), n, dir, "hard"); err != nil {
				t.Error(err)
			}
			if err := c.SetAttr(t.Context(), n, &nfs3.SetAttr{SetSize: true, Size: 7}); err != nil || n.Size() != 7 {
				t.Errorf("SetAttr: %v, size %d", err, n.Size())
			}
			if got, err := c.Access(t.Context(), n, nfs3.AccessRead|nfs3.AccessModify); err != nil || got&nfs3.AccessRead == 0 {
				t.Errorf("Access = %#x, %v", got, err)
			}
			if res, err := c.StatFS(t.Context(), n); err != nil || res.TotalBytes == 0 {
				t.Errorf("StatFS = %+v, %v", res, err)
			}
			if list, err := c.ReadDir(t.Context(), dir); err != nil || len(list) != 3 {
				t.Errorf("ReadDir = %d names, %v", len(list), err)
			}
			if _, err := c.Create(t.Context(), dir, "file", 0o640, true); !errors.Is(err, fs.ErrExist) {
				t.Errorf("Create again = %v, want EXIST", err)
			}
			if n, err := c.Create(t.Context(), dir, "file", 0o640, false); err != nil || n.Size() != 0 {
				t.Errorf("Create of the existing file = %+v, %v, want it truncated", n, err)
			}
			if err := c.Null(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestDialMountPort(t *testing.T) {
	rdma, tcp, port := serve(t, true)
	for _, url := range []string{rdma, tcp} {
		c := mustDial(t, fmt.Sprintf("%s?mountport=%d", url, port), nil)
		if c.Export() != "/export" || c.Info().RTMax == 0 {
			t.Errorf("export %q, info %+v", c.Export(), c.Info())
		}
		mustDial(t, url, nfsclient.Config{}.WithRPCBind(portmap(t, port)))
		for _, rpcbind := range []string{"1", portmap(t, 0)} {
			_, err := dial(t, url, nfsclient.Config{}.WithRPCBind(rpcbind))
			if _, ok := errors.AsType[*nfsclient.MountServiceError](err); !ok {
				t.Errorf("without rpcbind: got %v, want a *MountServiceError", err)
			}
		}
	}
}

func TestDialErrors(t *testing.T) {
	rdma, tcp, _ := serve(t, false)
	if _, err := dial(t, strings.Replace(rdma, "/export", "/other", 1), nil); err == nil || !strings.Contains(err.Error(), "exported: /export") {
		t.Errorf("wrong export: %v", err)
	}
	for _, url := range []string{rdma, tcp} {
		if _, err := dial(t, url+"?mountport=1", nil); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("wrong mount port: %v", err)
		}
	}
	if _, err := dial(t, "nfs"+strings.TrimPrefix(rdma, "nfs+rdma"), nil); err == nil {
		t.Error("TCP to an RDMA port must fail")
	}
	if _, err := dial(t, "nfs+rdma"+strings.TrimPrefix(tcp, "nfs"), nil); err == nil {
		t.Error("RDMA to a TCP port must fail")
	}
	l := listen(t)
	defer l.Close()
	for _, scheme := range []string{"nfs+rdma", "nfs"} {
		if _, err := dial(t, scheme+"://"+l.Addr().String()+"/x", &nfsclient.Config{DialTimeout: 50 * time.Millisecond}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s to a silent port: %v", scheme, err)
		}
	}
}

// portmap starts an rpcbind that knows MOUNT at a port, 0 for none, and returns its own.
func portmap(t *testing.T, mount int) string {
	t.Helper()
	l, tab := listen(t), new(rpcbind.Table)
	if mount != 0 {
		at := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(mount))
		tab.Entries = []rpcbind.Entry{{Prog: mount3.Program, Vers: mount3.Version, Netid: rpcbind.NetTCP, Addr: rpcbind.Universal(at)}}
	}
	s := &transport.Server{Handler: tab}
	done := make(chan error, 1)
	go func() { done <- s.ServeStream(l) }()
	t.Cleanup(func() {
		noErr(t, s.Close())
		<-done
	})
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

func TestProcessCred(t *testing.T) {
	cred := nfsclient.ProcessCred()
	if len(cred.MachineName) > xdr.MaxMachineName || len(cred.GIDs) > xdr.MaxGIDs {
		t.Errorf("credential out of bounds: %+v", cred)
	}
	auth := cred.Auth()
	if _, err := xdr.ParseSysCred(auth.Body); err != nil {
		t.Error(err)
	}
}

// must returns v, unless err ends the test.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		noErr(t, err)
		return v
	}
}

// noErr ends the test if err is an error.
func noErr(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// quietHost is an address of this machine on which nobody listens.
const quietHost = "127.77.77.77"

// TestDialRegistered: a URL without a port finds the server through rpcbind when nobody
// listens on the well-known one; a URL with a port does not look further.
func TestDialRegistered(t *testing.T) {
	l, err := net.Listen("tcp", quietHost+":0")
	if err != nil {
		t.Skipf("no second loopback address here: %v", err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	rdma, tcp, _ := serve(t, false)
	tab := new(rpcbind.Table)
	for _, s := range [][2]string{{rdma, rpcbind.NetRDMA}, {tcp, rpcbind.NetTCP}} {
		u := must(url.Parse(s[0]))(t)
		tab.Entries = append(tab.Entries, rpcbind.Entry{
			Prog: nfs3.Program, Vers: nfs3.Version, Netid: s[1], Addr: rpcbind.Universal(netip.MustParseAddrPort(u.Host)),
		})
	}
	s := &transport.Server{Handler: tab}
	go s.ServeStream(l)
	t.Cleanup(func() { s.Close() })

	cfg := nfsclient.Config{}.WithRPCBind(port)
	for _, scheme := range []nfsclient.Scheme{nfsclient.SchemeRDMA, nfsclient.SchemeTCP} {
		if c := mustDial(t, string(scheme)+"://"+quietHost+"/export", cfg); c.Export() != "/export" {
			t.Errorf("%s: export %q", scheme, c.Export())
		}
		for _, bad := range []string{":20049/export", "/export?nfsport=20049"} {
			if _, err := dial(t, string(scheme)+"://"+quietHost+bad, cfg); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("%s%s: %v", scheme, bad, err)
			}
		}
	}
	if _, err := dial(t, "nfs+rdma://"+quietHost+"/export", nfsclient.Config{}.WithRPCBind("1")); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("without rpcbind: %v", err)
	}
}

// weakConn is a connection that ends after so many octets have come.
type weakConn struct {
	net.Conn
	left atomic.Int64
}

func (c *weakConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.left.Add(-int64(n)) < 0 {
		c.Conn.Close()
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// TestReconnect moves files and names over connections that end after some octets, until
// twenty have: all of it works as if nothing had happened, and without Reconnect fails.
func TestReconnect(t *testing.T) {
	t.Parallel()
	rdma, tcp, _ := serve(t, false)
	for _, u := range []string{rdma, tcp} {
		rnd := rand.New(rand.NewPCG(1, 2))
		conns := 0
		cfg := &nfsclient.Config{Reconnect: time.Minute, MaxBlock: 16 << 10, Tap: func(c net.Conn) net.Conn {
			w := &weakConn{Conn: c}
			w.left.Store(1 << 40)
			if conns++; conns <= 20 {
				w.left.Store(4000 + rnd.Int64N(300_000))
			}
			return w
		}}
		c, err := dial(t, u, cfg)
		noErr(t, err)
		data := make([]byte, 300_000)
		for i := range data {
			data[i] = byte(rnd.Uint32())
		}
		for i := 0; conns <= 20 || i < 3; i++ {
			if i == 200 {
				t.Fatalf("%d connections", conns)
			}
			d, err := c.MkdirAll(t.Context(), fmt.Sprintf("/export/d%d", i), 0o755)
			noErr(t, err)
			noErr(t, roundTrip(t, c, d, data))
			must(c.RemoveAll(t.Context(), c.Root(), d))(t)
		}
		if st := c.Stats(); st.Retransmits == 0 || st.Accepted <= 20 {
			t.Errorf("%+v", st)
		}
		conns, cfg.Reconnect = 0, 0
		if c, err = dial(t, u, cfg); err == nil {
			d := c.Root()
			for err == nil {
				err = roundTrip(t, c, d, data)
			}
		}
		if !errors.Is(err, net.ErrClosed) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("without Reconnect: %v", err)
		}
	}
}

// sinkAt is memory that a download fills.
type sinkAt []byte

func (s sinkAt) WriteAt(p []byte, off int64) (int, error) { return copy(s[off:], p), nil }

// roundTrip writes a new file and reads it back.
func roundTrip(t *testing.T, c *nfsclient.Client, dir *nfsclient.Node, data []byte) error {
	t.Helper()
	n, err := c.Create(t.Context(), dir, "f", 0o644, false)
	if err != nil {
		return err
	}
	if _, err := c.WriteFrom(t.Context(), n, bytes.NewReader(data), 0, int64(len(data)), nil); err != nil {
		return err
	}
	if n, err = c.Lookup(t.Context(), n.Path); err != nil {
		return err
	}
	got := make(sinkAt, len(data))
	if _, err := c.ReadTo(t.Context(), n, got, 0, nil); err != nil {
		return err
	}
	if !bytes.Equal(got, data) {
		t.Error("read back other data than were written")
	}
	return nil
}
