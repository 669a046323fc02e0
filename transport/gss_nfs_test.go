package transport_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/internal/stream"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// neverWalk is the NFS binding, and fails the test when it is shown anything but the NULL that asks for the grant.
type neverWalk struct {
	chunks.Binding
	t testing.TB
}

func watched(t testing.TB) chunks.Binding {
	return neverWalk{chunks.NFS, t}
}

func (b neverWalk) shown(what string, proc uint32) {
	if proc != procNull {
		b.t.Errorf("protected %s of %d are looked at", what, proc)
	}
}

func (b neverWalk) FindArg(prog, vers, proc uint32, args []byte) (int, int, bool) {
	b.shown("arguments", proc)
	return b.Binding.FindArg(prog, vers, proc, args)
}

func (b neverWalk) FindResult(prog, vers, proc uint32, res []byte) (int, int, bool) {
	b.shown("results", proc)
	return b.Binding.FindResult(prog, vers, proc, res)
}

func (b neverWalk) MaxResults(prog, vers, proc uint32, args []byte) (int, int, bool) {
	b.shown("arguments", proc)
	return b.Binding.MaxResults(prog, vers, proc, args)
}

func (b neverWalk) Covers(prog, vers uint32) bool { return chunks.Covers(b.Binding, prog, vers) }

func (b neverWalk) WalkArgs(prog, vers, proc uint32, args []byte, v chunks.Visit) bool {
	b.shown("arguments", proc)
	return chunks.WalkerOf(b.Binding, prog, vers).WalkArgs(prog, vers, proc, args, v)
}

func (b neverWalk) WalkResults(prog, vers, proc uint32, res []byte, v chunks.Visit) bool {
	b.shown("results", proc)
	return chunks.WalkerOf(b.Binding, prog, vers).WalkResults(prog, vers, proc, res, v)
}

// gssCred is an RPCSEC_GSS credential of a service (RFC 2203 Section 5.3.1).
func gssCred(service uint32) xdr.Auth {
	return xdr.Auth{Flavor: xdr.RPCSECGSS, Body: append(words(1, 0, 7, service), words(0)...)}
}

// gssCase is a call of NFS under RPCSEC_GSS whose body could be taken for that of the
// procedure it names.
type gssCase struct {
	name       string
	cred       xdr.Auth
	vers, proc uint32
	args       []byte
	res        []byte
}

// gssCases returns protected calls and control messages, inline and long both ways.
func gssCases() (list []gssCase) {
	token := append(words(64), filled(64)...)
	for _, n := range []int{16, 3001, 70_001} {
		data := xdr.AppendOpaque(nil, filled(n))
		// WRITE3args and READ3resok (RFC 1813 Sections 3.3.7 and 3.3.6), of the same octets.
		write := append(append(token[:4:4], token[4:]...), words(0, 0, uint32(n), 2)...)
		write = append(write, data...)
		read := append(words(0, 0, uint32(n), 1), data...)
		small := append(token[:68:68], words(0, 0, uint32(n))...)
		for what, cred := range map[string]xdr.Auth{
			"integrity": gssCred(2), "privacy": gssCred(3),
			"init":     {Flavor: xdr.RPCSECGSS, Body: words(1, 1, 0, 1, 0)},
			"continue": {Flavor: xdr.RPCSECGSS, Body: words(1, 2, 0, 1, 0)},
			"destroy":  {Flavor: xdr.RPCSECGSS, Body: words(1, 3, 9, 1, 0)},
		} {
			list = append(
				list,
				gssCase{fmt.Sprintf("%s, WRITE of %d", what, n), cred, 3, 7, write, words(0, 0)},
				gssCase{fmt.Sprintf("%s, READ of %d", what, n), cred, 3, 6, small, read},
				gssCase{fmt.Sprintf("%s, COMPOUND of %d", what, n), cred, 4, 1, write, read},
			)
		}
	}
	return list
}

// record is the call's message.
func (g *gssCase) record(xid uint32) []byte {
	h := xdr.CallHeader{
		XID: xid, RPCVers: 2, Prog: 100003, Vers: g.vers, Proc: g.proc, Cred: g.cred,
		Verf: xdr.Auth{Flavor: xdr.RPCSECGSS, Body: []byte("checksum")},
	}
	return append(xdr.AppendCall(nil, &h), g.args...)
}

// answer is the reply's message.
func (g *gssCase) answer(xid uint32) []byte {
	h := xdr.ReplyHeader{XID: xid, Verf: xdr.Auth{Flavor: xdr.RPCSECGSS, Body: []byte("its sum")}}
	return append(xdr.AppendReply(nil, &h), g.res...)
}

// gssHandler checks the call and answers as the case says.
type gssHandler struct {
	mu   sync.Mutex
	now  *gssCase
	seen []byte
}

func (h *gssHandler) ServeRPC(_ context.Context, req *rpc.Request, resp *rpc.Response) {
	if req.Cred.Flavor != xdr.RPCSECGSS { // a client asks for its grant
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen = append(xdr.AppendCall(nil, &req.CallHeader), req.Args...)
	resp.Verf = xdr.Auth{Flavor: xdr.RPCSECGSS, Body: []byte("its sum")}
	resp.Results = append(resp.Results, h.now.res...)
}

// TestGSSThroughServer: protected bodies and control messages that look like NFS pass our
// client and server octet for octet, unreduced, and the bindings are not asked about them
// (RFC 8166 Section 8.2.2.3, ADVERSARY row 29).
func TestGSSThroughServer(t *testing.T) {
	for _, profile := range []rpcrdma.Profile{rpcrdma.RFC8166, rpcrdma.RFC5666} {
		t.Run(profile.String(), func(t *testing.T) {
			cfg := configOf(profile, &transport.Config{AnyCred: true, Binding: watched(t)}, 0)
			h := new(gssHandler)
			s, c := pair(t, h, cfg, cfg)
			for _, g := range gssCases() {
				h.now = &g
				before := s.Stats()
				call := &rpc.Call{
					Prog: 100003, Vers: g.vers, Proc: g.proc, Args: g.args, Cred: g.cred,
					Verf: xdr.Auth{Flavor: xdr.RPCSECGSS, Body: []byte("checksum")}, MaxResults: len(g.res),
				}
				if g.proc == 6 {
					call.Sink = make([]byte, len(g.res)) // offered in vain
				}
				var r rpc.Reply
				if err := c.Do(testCtx(t), call, &r); err != nil {
					t.Fatalf("%s: %v", g.name, err)
				}
				xid := binary.BigEndian.Uint32(h.seen)
				if !bytes.Equal(h.seen, g.record(xid)) {
					t.Errorf("%s: wrong octets reached the handler", g.name)
				}
				got := append(xdr.AppendReply(nil, &r.Header), r.Results...)
				if !bytes.Equal(got, g.answer(xid)) || r.Placed {
					t.Errorf("%s: wrong octets came back, placed %v", g.name, r.Placed)
				}
				r.Release()
				n := s.Stats().OctetsRead - before.OctetsRead
				if whole := uint64(len(g.record(xid))); n != 0 && n != whole {
					t.Errorf("%s: %d octets by RDMA Read, want none or the whole call, %d", g.name, n, whole)
				}
			}
		})
	}
}

// TestGSSThroughRecords sends the same through DialConn and Listen to a server on
// TCP: client and server see each other's records unchanged.
func TestGSSThroughRecords(t *testing.T) {
	cfg := &transport.Config{Binding: watched(t)}
	back := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer back.Close()
	front, _ := startBehind(t, back.Addr().String(), cfg)
	reads := func() uint64 { return front.Stats().OctetsRead }
	client := dialConn(t, front.Addr().String(), cfg)
	server := must(back.Accept())(t)
	defer server.Close()
	for i, g := range gssCases() {
		xid := 0xfeed0000 + uint32(i)
		before := reads()
		want := markedRecord(g.record(xid))
		must(client.Write(want))(t)
		if i == 0 {
			answerNull(t, server)
		}
		got := make([]byte, len(want))
		if _, err := io.ReadFull(server, got); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%s: another record reached the server (%v)", g.name, err)
		}
		if n := reads() - before; n != 0 && n != uint64(len(want)-stream.MarkSize) {
			t.Errorf("%s: %d octets by RDMA Read", g.name, n)
		}
		want = markedRecord(g.answer(xid))
		must(server.Write(want))(t)
		got = make([]byte, len(want))
		if _, err := io.ReadFull(client, got); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%s: another record reached the client (%v)", g.name, err)
		}
	}
}

// markedRecord is msg as a record.
func markedRecord(msg []byte) []byte {
	return append(xdr.AppendRecordMark(nil, len(msg), true), msg...)
}

// startBehind joins one RDMA client and a TCP server, and says how that ends.
func startBehind(t testing.TB, to string, cfg *transport.Config) (*transport.Listener, chan error) {
	t.Helper()
	l := must(transport.Listen("tcp", "127.0.0.1:0", cfg))(t)
	over := make(chan error, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		a, err := l.Accept()
		if err != nil {
			return
		}
		b, err := net.Dial("tcp", to)
		if err != nil {
			t.Error(err)
			return
		}
		over <- join(a, b)
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.(*transport.Listener), over
}

// join copies what arrives on each of two connections to the other, until one of them ends.
func join(a, b net.Conn) error {
	over := make(chan error, 2)
	for _, c := range [][2]net.Conn{{a, b}, {b, a}} {
		go func() {
			_, err := io.Copy(c[0], c[1])
			over <- err
		}()
	}
	err := <-over
	a.Close()
	b.Close()
	<-over
	return err
}

// TestGSSReplyNotReduced: a client that offers a write chunk all the same, with a protected
// call, gets it back unused, and the results octet for octet beside it.
func TestGSSReplyNotReduced(t *testing.T) {
	cfg := testConfig()
	cfg.AnyCred = true
	_, addr := startServer(t, newEcho(), cfg)
	for service, placed := range map[uint32]uint64{1: 500, 2: 0, 3: 0} {
		p := rawClient(t, addr, nil)
		mem := make([]byte, 5000)
		h := rpcrdma.Header{XID: 1, Lists: chunks.Lists{Write: []chunks.WriteChunk{{p.offer(mem, region.RemoteWrite)}}}}
		call := xdr.CallHeader{XID: 1, RPCVers: 2, Prog: testProg, Vers: testVers, Proc: procFill, Cred: gssCred(service)}
		p.send(header(h), xdr.AppendCall(nil, &call), words(500))
		got, payload := p.recv()
		if len(got.Write) != 1 || got.Write[0].Room() != placed {
			t.Errorf("service %d: %+v, want %d octets placed", service, got.Lists, placed)
		}
		if inline := bytes.HasSuffix(payload, filled(500)); inline != (placed == 0) || bytes.Equal(mem[:500], filled(500)) == inline {
			t.Errorf("service %d: %d octets inline", service, len(payload))
		}
	}
}

// TestGSSNotReplayed: two users of RPCSEC_GSS behind one address do not get each other's
// replies from the duplicate request cache, whose key does not tell them apart.
func TestGSSNotReplayed(t *testing.T) {
	cfg := testConfig()
	cfg.AnyCred = true
	h := newOnce()
	s, addr := startServer(t, h, cfg)
	c := dial(t, addr, nil)
	for _, handle := range []string{"user", "peer"} {
		call := wordCall(procList, 3)
		call.Cred = xdr.Auth{Flavor: xdr.RPCSECGSS, Body: xdr.AppendOpaque(words(1, 0, 7, 1), []byte(handle))}
		mustDo(t, c, withXID(0xabcd, call))
	}
	if n := h.times(0xabcd); n != 2 || s.Stats().Replayed != 0 {
		t.Errorf("%d calls ran, %d were replayed", n, s.Stats().Replayed)
	}
}
