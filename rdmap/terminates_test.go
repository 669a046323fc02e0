package rdmap

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// onConn connects a Conn with the settings of cfg to a Peer. It also returns an engine for the builders of violations, which
// has the regions of the Conn.
func onConn(t *testing.T, cfg engineConfig) (*halves, *Conn, *rdmaptest.Peer) {
	t.Helper()
	none := func(n int) int {
		if n == 0 {
			return -1
		}
		return n
	}
	if cfg.size == 0 {
		cfg.size = 1 << 16
	}
	a, b := rdmaptest.Pipe()
	x := Client(a, &Config{
		Plain: true, IRD: none(cfg.ird), ORD: none(cfg.ord), Recvs: none(cfg.recvs), RecvSize: cfg.size,
		Extensions: cfg.ext, Handler: newCollector(),
	})
	errs := make(chan error, 1)
	go func() { errs <- x.Handshake(t.Context()) }()
	p, _, err := rdmaptest.Respond(b, &mpa.Config{IRD: 64, ORD: 64}, nil)
	if err := errors.Join(err, <-errs); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Abort(nil); <-x.Done(); b.Close() })
	go x.Serve()
	e := newEngine(cfg)
	e.snd.Table, e.conn = x.Table(), x
	return e, x, p
}

// extensionViolations are those of RFC 7306 and the commit draft (rdmap.md Section 4.2).
var extensionViolations = func() []violationTest {
	const all7306 = verbs.Ext7306
	atomic := func(access region.Access, to uint64, op byte) func(*testing.T, *halves) []byte {
		return func(t *testing.T, e *halves) []byte {
			u := retarget(t, goldFetchAdd, 8, own(t, e, 16, access), 1)
			u[18+3] = op
			binary.BigEndian.PutUint64(u[18+12:], to)
			return u
		}
	}
	ranged := func(op verbs.Opcode, access region.Access, to uint64, rest ...byte) func(*testing.T, *halves) []byte {
		return func(t *testing.T, e *halves) []byte {
			u := patch(t, goldFetchAdd, 1, 0x40|byte(op))[:18]
			u[13] = 1
			g := engine.Target{STag: own(t, e, 128, access), N: 64, To: to}
			return append(g.Append(u), rest...)
		}
	}
	const every = region.ReadSink<<1 - 1
	return []violationTest{
		{"atomic: misaligned", engineConfig{ird: 1, ext: all7306}, 0x0207<<16 | withHdr, atomic(region.Atomic, 4, 0)},
		{"atomic: no right", engineConfig{ird: 1, ext: all7306}, 0x0102<<16 | withHdr, atomic(every&^region.Atomic, 0, 0)},
		{"atomic: past the end", engineConfig{ird: 1, ext: all7306}, 0x0101<<16 | withHdr, atomic(region.Atomic, 16, 0)},
		{"atomic: TO wraps", engineConfig{ird: 1, ext: all7306}, 0x0104<<16 | withHdr, atomic(region.Atomic, 1<<64-4, 0)},
		{"atomic: Swap", engineConfig{ird: 1, ext: all7306}, 0x0206<<16 | withHdr, atomic(region.Atomic, 0, 1)},
		{"atomic: unknown STag", engineConfig{ird: 1, ext: all7306}, 0x0100<<16 | withHdr, patched(goldFetchAdd, 10, 0, 0, 0, 1)},
		{"atomic: another stream's STag", engineConfig{ird: 1, ext: all7306}, 0x0103<<16 | withHdr, func(t *testing.T, e *halves) []byte {
			return retarget(t, goldFetchAdd, 8, foreign(t, e), 1)
		}},
		{"atomic of 51 octets", engineConfig{ird: 1, ext: all7306}, 0x0207<<16 | withHdr, func(t *testing.T, _ *halves) []byte {
			return patch(t, goldFetchAdd, 10, 0, 0, 0, 1)[:18+51]
		}},
		{"Immediate of 9 octets", engineConfig{recvs: 1, ext: all7306}, 0x0207<<16 | withHdr, func(t *testing.T, _ *halves) []byte {
			return append(patch(t, goldImm, 10, 0, 0, 0, 1), 9)
		}},
		{"Atomic Response, none due", engineConfig{ext: all7306}, 0x1202<<16 | withHdr, patched(goldAtomicResp, 10, 0, 0, 0, 1)},
		{"Atomic Response, MSN 2", engineConfig{ord: 2, ext: all7306}, 0x1203<<16 | withHdr, func(t *testing.T, e *halves) []byte {
			for range 2 {
				e.post(verbs.WR{Op: verbs.OpAtomicRequest, STag: 1, Atomic: &verbs.Atomic{}})
			}
			e.output()
			return patch(t, goldAtomicResp, 13, 2)
		}},
		{"Atomic Response, identifier", engineConfig{ord: 1, ext: all7306}, 0x02ff<<16 | withHdr, func(t *testing.T, e *halves) []byte {
			e.post(verbs.WR{Op: verbs.OpAtomicRequest, STag: 1, Atomic: &verbs.Atomic{}})
			e.output()
			return patch(t, goldAtomicResp, 10, 0, 0, 0, 1)
		}},
		{"Atomic Response to a Read", engineConfig{ord: 2, ext: all7306}, 0x02ff<<16 | withHdr, func(t *testing.T, e *halves) []byte {
			reading(t, e)
			e.post(verbs.WR{Op: verbs.OpAtomicRequest, STag: 1, Atomic: &verbs.Atomic{}})
			e.output()
			return patch(t, goldAtomicResp, 10, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1)
		}},
		{"Flush without commit", engineConfig{ird: 1, ext: all7306}, 0x0206<<16 | withHdr, ranged(verbs.OpFlushRequest, every, 0, 0, 0, 0, 1)},
		{"Atomic Write without commit", engineConfig{ird: 1, ext: all7306}, 0x0206<<16 | withHdr, ranged(verbs.OpAtomicWriteRequest, every, 0, make([]byte, 8)...)},
		{"flush: no right", engineConfig{ird: 1, ext: verbs.ExtCommit}, 0x0102<<16 | withHdr, ranged(verbs.OpFlushRequest, every&^region.FlushPersistent, 0, 0, 0, 0, 1)},
		{"flush: past the end", engineConfig{ird: 1, ext: verbs.ExtCommit}, 0x0101<<16 | withHdr, ranged(verbs.OpFlushRequest, every, 65, 0, 0, 0, 1)},
		{"flush of 19 octets", engineConfig{ird: 1, ext: verbs.ExtCommit}, 0x0207<<16 | withHdr, ranged(verbs.OpFlushRequest, every, 0, 0, 0, 0)},
		{"verify: no right", engineConfig{ird: 1, ext: verbs.ExtCommit}, 0x0102<<16 | withHdr, ranged(verbs.OpVerifyRequest, every&^region.Verify, 0)},
		{"verify: another hash", engineConfig{ird: 1, ext: verbs.ExtCommit}, 0x0207<<16 | withHdr, ranged(verbs.OpVerifyRequest, every, 0, 1, 2, 3, 4)},
		{"verify: hash of 5 octets", engineConfig{ird: 1, ext: verbs.ExtCommit}, 0x0207<<16 | withHdr, ranged(verbs.OpVerifyRequest, every, 0, 1, 2, 3, 4, 5)},
		{"atomic write of 64 octets", engineConfig{ird: 1, ext: verbs.ExtCommit}, 0x0207<<16 | withHdr, ranged(verbs.OpAtomicWriteRequest, every, 0, make([]byte, 8)...)},
	}
}()

// TestTerminatesOnWire breaks every rule as the peer of a whole connection, and compares the answer octet by octet: one
// Terminate, and the end of the stream. The upper layer is told the same. ADVERSARY 17.
func TestTerminatesOnWire(t *testing.T) {
	for _, tt := range slices.Concat(extensionViolations, violationTests) {
		t.Run(tt.name, func(t *testing.T) {
			e, x, p := onConn(t, tt.cfg)
			u := tt.build(t, e)
			if _, err := p.Conn.Write(append(e.wire, fpduOf(u)...)); err != nil {
				t.Fatal(err)
			}
			var quoted []byte
			if tt.word&0xffff != noParts {
				quoted = u
			}
			want := ulpduOf(t, wantTerminate(tt.word, quoted, tt.word&0x2000 != 0))
			got, err := p.Next()
			for ; err == nil && got[1] != 0x47; got, err = p.Next() { // requests of x, answers to what was good
			}
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%v\n got %x, %v\nwant %x", x.Err(), got, err, want)
			}
			if u, err := p.Next(); err != io.EOF {
				t.Fatalf("then %x, %v", u, err)
			}
			p.Conn.Close()
			<-x.Done()
			h, _ := x.cfg.Handler.(*collector)
			<-h.over
			pe, ok := errors.AsType[*verbs.ProtocolError](h.closed)
			if !ok {
				t.Fatalf("closed with %v", h.closed)
			}
			if told := pe.Terminate; !bytes.Equal(told.Append(nil), want[18:]) || told.Code != pe.Code {
				t.Errorf("the upper layer is told %x, the peer %x", told.Append(nil), want[18:])
			}
		})
	}
}

// TestTermMap: every violation of the three layers has a code that the documents register, and every registered code that
// we send has a test that provokes it. The exceptions are listed here.
func TestTermMap(t *testing.T) {
	sent := map[verbs.TermCode]bool{
		engine.TermCode(2, 0, 2): true, // TestBadCRC
		engine.TermCode(2, 0, 3): true, // TestBadMarker
		engine.TermCode(2, 0, 6): true, // TestBadReplies
		engine.TermCode(2, 0, 7): true, // TestNoMatchingRTR
		engine.TermCode(0, 0, 0): true, // TestSinkLost
	}
	for _, v := range slices.Concat(extensionViolations, violationTests) {
		sent[verbs.TermCode{Layer: uint8(v.word >> 28), EType: uint8(v.word>>24) & 15, Code: uint8(v.word >> 16)}] = true
	}
	never := map[verbs.TermCode]string{
		engine.TermCode(0, 1, 0xff): "every protection error has a better code",
		engine.TermCode(0, 2, 0x08): "no error here reaches beyond its stream",
		engine.TermCode(0, 2, 0x09): "the same as 0x0/0x1/0x09, which is sent",
		engine.TermCode(2, 0, 0x01): "there is no connection to send it on",
		engine.TermCode(2, 0, 0x04): "there is no full operation to send it in",
		engine.TermCode(2, 0, 0x05): "a startup that fails here is refused, or closed",
	}
	for n := range 3 << 12 {
		code := engine.TermCode(uint8(n>>12), uint8(n>>8)&15, uint8(n))
		anyCode := code.Layer == verbs.LayerRDMAP && code.EType == 0 || code.Layer == verbs.LayerDDP && code.EType == 3
		if _, ok := never[code]; code.Registered() && !anyCode && ok == sent[code] {
			t.Errorf("%v: sent %v, and never sent %v", code, sent[code], ok)
		}
	}
	for code := range sent {
		if !code.Registered() {
			t.Errorf("%v is sent and not registered", code)
		}
	}
	for v := range engine.NumViolations {
		if c := engine.Violations[v].Code; !sent[c] {
			t.Errorf("%q: %v is provoked by no test", engine.Violations[v].Text, c)
		}
	}
	for v := ddp.LocalCatastrophic; v <= ddp.Interleaved; v++ {
		err := &ddp.Error{Violation: v}
		err.Layer, err.EType, err.Code = v.Code()
		if p := engine.ProtocolError(err, nil); !sent[p.Code] || p.Section == "" || p.Terminate == nil || !errors.Is(p, err) {
			t.Errorf("%v: %+v", v, p)
		}
	}
	for c := mpa.CodeClosed; c <= mpa.CodeRTR; c++ {
		p := engine.ProtocolError(&mpa.Error{Code: c}, nil)
		if _, unsent := never[p.Code]; unsent != (p.Terminate == nil) && c != mpa.CodeLocal || !p.Code.Registered() {
			t.Errorf("%v: %+v", c, p)
		}
	}
	if p := engine.ProtocolError(errTest, nil); p.Code != (verbs.TermCode{}) || p.Terminate == nil {
		t.Errorf("an error of no layer: %+v", p)
	}
}

// TestSinkLost: the sink of a Read that waits for its turn is invalidated. The Read Request is not sent, the peer gets the
// Terminate of a local catastrophic error, and everybody on this side is told why (RFC 5040 Section 7.1).
func TestSinkLost(t *testing.T) {
	for _, tt := range []struct {
		name string
		wr   func(t *testing.T, x *Conn) verbs.WR
	}{
		{"invalidated", func(t *testing.T, x *Conn) verbs.WR {
			reg := mustRegister(t, x, 8, region.ReadSink)
			if err := reg.Invalidate(t.Context()); err != nil {
				t.Fatal(err)
			}
			return verbs.WR{Sink: reg.STag(), Len: 8}
		}},
		{"never there", func(*testing.T, *Conn) verbs.WR { return verbs.WR{Sink: 0x100, Len: 1} }},
		{"no right", func(t *testing.T, x *Conn) verbs.WR {
			return verbs.WR{Sink: mustRegister(t, x, 8, region.RemoteWrite).STag(), Len: 8}
		}},
		{"too short", func(t *testing.T, x *Conn) verbs.WR {
			return verbs.WR{Sink: mustRegister(t, x, 8, region.ReadSink).STag(), SinkTO: 1, Len: 8}
		}},
	} {
		onWires(t, func(t *testing.T, a, b net.Conn) {
			x, p := rawResponder(t, a, b, &Config{ORD: 1})
			go x.Serve()
			first := mustRegister(t, x, 8, region.ReadSink)
			late := tt.wr(t, x)
			late.Op = verbs.OpReadRequest
			var w, ahead Waiter
			w.Reset()
			ahead.Reset()
			late.Done = &w
			err := x.Post([]verbs.WR{
				{Op: verbs.OpReadRequest, Sink: first.STag(), Len: 8},
				{Op: verbs.OpSend, Head: []byte("ahead"), Done: &ahead},
				late,
				{Op: verbs.OpSend, Head: []byte("behind")},
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, op := range []byte{0x41, 0x43} {
				if u, err := p.Next(); err != nil || u[1] != op {
					t.Fatalf("%x, %v", u, err)
				}
			}
			if err := p.Send(responseOf(t, first.STag(), 0)[:14+8]); err != nil {
				t.Fatal(err)
			}
			if u, err := p.Next(); err != nil || !bytes.Equal(fpduOf(u), unhex(t, goldTermLocal)) {
				t.Fatalf("%s: got %x, %v", tt.name, u, err)
			}
			if u, err := p.Next(); err != io.EOF {
				t.Fatalf("%s: then %x, %v", tt.name, u, err)
			}
			b.Close()
			<-x.Done()
			for i, err := range []error{x.Err(), x.Wait(t.Context(), &w)} {
				le, ok := errors.AsType[*verbs.LocalError](err)
				if !ok || le.Code != (verbs.TermCode{}) || !errors.Is(err, verbs.ErrSinkLost) {
					t.Errorf("%s, %d: %v", tt.name, i, err)
				}
			}
			if err := x.Wait(t.Context(), &ahead); err != nil {
				t.Errorf("%s: the work request before it: %v", tt.name, err)
			}
		})
	}
}

// TestCancelledSink: a Read that was cancelled while it waited, and whose sink was then invalidated, has no effect.
func TestCancelledSink(t *testing.T) {
	onWires(t, func(t *testing.T, a, b net.Conn) {
		x, p := rawResponder(t, a, b, &Config{ORD: 1})
		first := mustRegister(t, x, 8, region.ReadSink)
		if err := x.Post([]verbs.WR{{Op: verbs.OpReadRequest, Sink: first.STag(), Len: 8}}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := testContext(t)
		errs := make(chan error, 1)
		go func() { errs <- x.Read(ctx, make([]byte, 8), 1, 0) }()
		queued := func() bool {
			x.mu.Lock()
			defer x.mu.Unlock()
			return x.snd.Requests.Len() > 0
		}
		for !queued() {
			yield()
		}
		cancel()
		if err := <-errs; !errors.Is(err, ctx.Err()) {
			t.Fatal(err)
		}
		if _, err := p.Next(); err != nil {
			t.Fatal(err)
		}
		if err := p.Send(responseOf(t, first.STag(), 0)[:14+8]); err != nil {
			t.Fatal(err)
		}
		if err := x.Send(t.Context(), []byte("alive")); err != nil {
			t.Fatal(err)
		}
		if u, err := p.Next(); err != nil || u[1] != 0x43 {
			t.Fatalf("%x, %v", u, err)
		}
	})
}

// TestTerminateSurvivesClose: the Terminate of a side that gives up and closes at once arrives, although octets of the peer
// are unread and more are in flight: that side half-closes and drains, where a plain close would reset the connection.
func TestTerminateSurvivesClose(t *testing.T) {
	code := verbs.TermCode{Layer: 0, EType: 2, Code: 8}
	onWires(t, func(t *testing.T, a, b net.Conn) {
		x, p := rawResponder(t, a, b, &Config{Recvs: 1000})
		var flood sync.WaitGroup
		started := make(chan struct{})
		flood.Go(func() {
			u := append(patch(t, goldSendZero, 13, 1), make([]byte, 3000)...)
			for msn := byte(1); msn < 200; msn++ {
				u[13] = msn
				if p.Send(u) != nil {
					return
				}
				if msn == 5 {
					close(started)
				}
			}
		})
		<-started
		closed := make(chan error, 1)
		go func() {
			x.Terminate(code, errTest)
			closed <- x.Close()
		}()
		u, err := p.Next()
		if want := ulpduOf(t, wantTerminate(0x0208<<16, nil, false)); err != nil || !bytes.Equal(u, want) {
			t.Errorf("got %x, %v", u, err)
		}
		if u, err := p.Next(); err != io.EOF {
			t.Errorf("then %x, %v", u, err)
		}
		flood.Wait()
		b.Close()
		if le, ok := errors.AsType[*verbs.LocalError](<-closed); !ok || le.Code != code || !errors.Is(le, errTest) {
			t.Errorf("Close: %v", le)
		}
	})
}

// TestBothSidesTold: the same code and headers reach the upper layers of both ends.
func TestBothSidesTold(t *testing.T) {
	onWires(t, func(t *testing.T, a, b net.Conn) {
		hx, hy := newCollector(), newCollector()
		x, y := connect(t, a, b, &Config{Handler: hx}, &Config{Handler: hy})
		go y.Serve()
		if err := x.Send(t.Context(), nil); err != nil { // a bad first FPDU is not answered
			t.Fatal(err)
		}
		reg := mustRegister(t, y, 8, region.RemoteRead)
		err := x.Read(t.Context(), make([]byte, 9), reg.STag(), 3)
		within(t, "the end", hx.over)
		within(t, "the other end", hy.over)
		pe, ok := errors.AsType[*verbs.ProtocolError](hy.closed)
		if !ok {
			t.Fatalf("the side that found the error: %v", hy.closed)
		}
		for i, err := range []error{err, hx.closed} {
			te, ok := errors.AsType[*verbs.TerminateError](err)
			if !ok {
				t.Fatalf("the side at fault, %d: %v", i, err)
			}
			told, got := pe.Terminate, te.Terminate
			if !bytes.Equal(got.Raw, told.Append(nil)) || got.Code != (verbs.TermCode{Layer: 0, EType: 1, Code: 1}) || got.SegLen != 46 ||
				!bytes.Equal(got.DDP, told.DDP) || len(got.DDP) != 18 || !bytes.Equal(got.Read, told.Read) || len(got.Read) != 28 {
				t.Errorf("%d: %+v\ntold %+v", i, got, told)
			}
		}
	})
}

// TestSiwTerminateLogged: if a Terminate may come from siw, the log has both readings, and the connection ends whatever they
// are.
func TestSiwTerminateLogged(t *testing.T) {
	for _, s := range siwTerminates {
		core, logs := observer.New(zap.DebugLevel)
		a, b := rdmaptest.Pipe()
		x, p := rawResponder(t, a, b, &Config{Logger: zap.New(core)})
		go x.Serve()
		u := append(ulpduOf(t, unhex(t, goldTermLocal))[:18], unhex(t, s.octets)...)
		if err := p.Send(u); err != nil {
			t.Fatal(err)
		}
		b.Close()
		<-x.Done()
		var line string
		for _, l := range logs.FilterMessage("connection ends").All() {
			line, _ = l.ContextMap()["error"].(string)
		}
		te, ok := errors.AsType[*verbs.TerminateError](x.Err())
		if !ok || !strings.Contains(line, te.Terminate.Code.String()) || !strings.Contains(line, s.want.String()) {
			t.Errorf("%s: %v\nlog %q", s.octets, x.Err(), line)
		}
	}
}
