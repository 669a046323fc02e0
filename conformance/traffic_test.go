package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/nfsdemo/backend/mem"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/rdmap/capture"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
)

// session is one recorded NFS session of our own engine.
type session struct {
	name   string
	pcap   string // path of the recording
	crc    bool
	marked bool
}

// sessions records NFSv3 over RPC-over-RDMA between our own client and server over loopback TCP, once per
// setting. Between them stands a relay that records, so that both ends have the TCP connection
// they know how to use best.
func sessions(t *testing.T) []session {
	t.Helper()
	dir := t.TempDir()
	var all []session
	for _, tt := range []struct {
		name string
		cfg  transport.Config
		crc  bool
	}{
		{"crc", transport.Config{}, true},
		{"small-frames", transport.Config{Startup: transport.Startup{MULPDU: 1442}}, true},
		{"no-crc", transport.Config{Startup: transport.Startup{CRC: transport.CRCOff}, InlineSend: 1024, InlineRecv: 1024, NoRemoteInvalidate: true}, false},
		{"markers", transport.Config{Startup: transport.Startup{Markers: true}}, true},
		{"markers, small frames", transport.Config{Startup: transport.Startup{Markers: true, MULPDU: 1430, PeerToPeer: true}}, true},
		{"revision 1", transport.Config{Startup: transport.Startup{Revision: 1, Markers: true}}, true},
	} {
		s := session{tt.name, filepath.Join(dir, tt.name+".pcapng"), tt.crc, tt.cfg.Startup.Markers}
		t.Run("record "+tt.name, func(t *testing.T) { record(t, s.pcap, tt.cfg) })
		all = append(all, s)
	}
	return all
}

// record runs one session and writes what was said to a file.
func record(t *testing.T, file string, cfg transport.Config) {
	t.Helper()
	w := must(capture.Create(file))(t)
	t.Cleanup(func() { check(t, w.Close()) })

	fsys := mem.New(nil)
	h := must(server.New(&server.Config{Exports: []server.Export{{Path: "/mem", FS: fsys, Squash: 0}}}))(t)
	srvCfg := cfg
	srv := &transport.Server{Handler: h, Config: &srvCfg}
	back := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(back) }()

	t.Cleanup(func() {
		check(t, srv.Close())
		if err := <-served; !errors.Is(err, transport.ErrServerClosed) {
			t.Fatal(err)
		}
		check(t, fsys.Close())
	})
	talk(t, rdmaptest.Relayed(t, w, back.Addr().String()), &cfg)
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// must returns v, unless err ends the test.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		check(t, err)
		return v
	}
}

// talk says a bit of everything: inline, Write chunks, Read chunks, Reply chunks, a long call, errors, several
// calls at once.
func talk(t *testing.T, addr string, cfg *transport.Config) {
	t.Helper()
	ctx := t.Context()
	caller := must(transport.Dial(ctx, "tcp", addr, cfg))(t)
	cred := nfsclient.ProcessCred()
	root := must(nfsclient.NewMounter(caller, cred).Mount(ctx, "/mem"))(t)
	c := must(nfsclient.New(ctx, caller, root, "/mem", nil))(t)
	defer func() { check(t, c.Close()) }()

	rnd := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 1500, 4095, 4096, 4097, 65537, 1<<20 + 3} {
		data := make([]byte, n)
		for i := range data {
			data[i] = byte(rnd.Uint32())
		}
		roundTrip(t, c, fmt.Sprint("file-", n), data)
	}
	names(ctx, t, c)
	longCall(ctx, t, caller)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 20 {
				if err := c.Null(ctx); err != nil {
					t.Errorf("caller %d: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
}

// roundTrip writes a file and reads it back.
func roundTrip(t *testing.T, c *nfsclient.Client, name string, data []byte) {
	t.Helper()
	ctx := t.Context()
	n, err := c.Create(ctx, c.Root(), name, 0o644, true)
	check(t, err)
	_, err = c.WriteFrom(ctx, n, nfsclient.Memory(data), 0, int64(len(data)), nil)
	check(t, err)
	check(t, c.Refresh(ctx, n))
	got := make(nfsclient.Memory, len(data))
	_, err = c.ReadTo(ctx, n, got, 0, nil)
	check(t, err)
	if !bytes.Equal(got, data) {
		t.Fatalf("%s: what was read is not what was written", name)
	}
}

// names uses the procedures that deal with names; the listing needs a Reply chunk.
func names(ctx context.Context, t *testing.T, c *nfsclient.Client) {
	t.Helper()
	dir := must(c.Mkdir(ctx, c.Root(), "dir", 0o755))(t)
	for i := range 100 {
		_, err := c.Create(ctx, dir, fmt.Sprintf("%s-%d", strings.Repeat("n", 100), i), 0o600, true)
		check(t, err)
	}
	list := must(c.ReadDir(ctx, dir))(t)
	if len(list) != 100 {
		t.Fatalf("%d names", len(list))
	}
	link, err := c.Symlink(ctx, dir, "link", strings.Repeat("../target", 300))
	check(t, err)
	_, err = c.ReadLink(ctx, link)
	check(t, err)
	check(t, c.Rename(ctx, dir, "link", c.Root(), "moved"))
	check(t, c.Remove(ctx, c.Root(), "moved"))
	if _, err := c.Child(ctx, dir, "nobody"); err == nil {
		t.Fatal("found what is not there")
	}
	_, err = c.StatFS(ctx, c.Root())
	check(t, err)
}

// longCall has arguments that do not fit inline and may not be reduced: RDMA_NOMSG with a Position Zero chunk. The
// program does not exist, which is an answer too.
func longCall(ctx context.Context, t *testing.T, caller *transport.Client) {
	t.Helper()
	var reply rpc.Reply
	err := caller.Do(ctx, &rpc.Call{Prog: 0x20000000, Vers: 1, Proc: 1, Args: make([]byte, 10000)}, &reply)
	if err == nil {
		err = reply.Header.Err()
	}
	if err == nil {
		t.Fatal("a program that does not exist answered")
	}
	reply.Release()
}

// TestOwnTraffic: nobody finds anything wrong with what our engine says.
func TestOwnTraffic(t *testing.T) {
	t.Parallel()
	all := sessions(t)
	t.Run("decoder", func(t *testing.T) { testDecoder(t, all) })
	t.Run("judge", func(t *testing.T) {
		for _, s := range all {
			t.Run(s.name, func(t *testing.T) { judgedClean(t, s.pcap) })
		}
	})
	t.Run("tshark", func(t *testing.T) { testTshark(t, all) })
}

// testDecoder: our decoder understands all of it to the last octet.
func testDecoder(t *testing.T, all []session) {
	for _, s := range all {
		counts, rpcs := decodeOwn(t, s)
		if rpcs < 500 {
			t.Errorf("%s: only %d RPC messages", s.name, rpcs)
		}
		for _, k := range []string{"opcode.0x00", "opcode.0x01", "opcode.0x02", "chunk.read", "chunk.write", "chunk.reply", "msg_type.1"} {
			if counts[k] == 0 {
				t.Errorf("%s: no %s: the session does not say all it should", s.name, k)
			}
		}
		if (counts["markers"] > 100) != s.marked {
			t.Errorf("%s: %d FPDUs with markers", s.name, counts["markers"])
		}
		if counts["opcode.0x07"] != 0 || counts["msg_type.4"] != 0 {
			t.Errorf("%s: %v", s.name, counts)
		}
	}
}

// decodeOwn decodes a recording and fails on everything that is wrong.
func decodeOwn(t *testing.T, s session) (counts decode.Counts, rpcs int) {
	t.Helper()
	f := must(os.Open(s.pcap))(t)
	defer f.Close()
	counts = make(decode.Counts)
	for ev, err := range decode.Events(f, nil) {
		check(t, err)
		counts.Add(ev)
		if ev.Err != nil || ev.Kind == decode.KindUndecoded || ev.Reset {
			t.Errorf("%s: %v", s.name, ev)
		}
		if ev.FPDU != nil && s.crc != (ev.FPDU.CRCState == decode.CRCGood) {
			t.Errorf("%s: CRC %v: %v", s.name, ev.FPDU.CRCState, ev)
		}
		if ev.FPDU != nil && ev.FPDU.Markers > 0 {
			counts["markers"]++
		}
		if ev.FPDU != nil && strings.Trim(string(ev.FPDU.Pad), "\x00") != "" {
			t.Errorf("%s: pad %x: %v", s.name, ev.FPDU.Pad, ev)
		}
		if ev.RPC != nil {
			rpcs++
			if !ev.RPC.Whole && len(ev.Header.Read) == 0 {
				t.Errorf("%s: not whole: %v", s.name, ev)
			}
		}
	}
	return counts, rpcs
}

// testTshark: so does tshark, which shares no line with us.
func testTshark(t *testing.T, all []session) {
	for _, s := range all {
		if s.marked {
			continue // it loses its place there, see talkMarked
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			if r := judged(t, s); r.FPDUs < 500 {
				t.Errorf("only %d FPDUs", r.FPDUs)
			}
		})
	}
}

// judged fails when tshark finds anything malformed, a bad CRC, or one missing.
func judged(t *testing.T, s session) *tsharkReport {
	t.Helper()
	r, err := askTshark(t.Context(), s.pcap)
	if errors.Is(err, errNoTshark) {
		t.Skip(err, "(CI has it)")
	}
	check(t, err)
	if err := r.Err(); err != nil {
		t.Errorf("%s: %v", s.name, err)
	}
	if s.crc && r.GoodCRCs != r.FPDUs || !s.crc && r.GoodCRCs != 0 {
		t.Errorf("%s: %d FPDUs, %d good CRCs", s.name, r.FPDUs, r.GoodCRCs)
	}
	return r
}
