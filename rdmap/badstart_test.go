package rdmap

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

const (
	reqKey = "4d504120494420526571204672616d65" // RFC 5044 Section 7.1.1
	repKey = "4d504120494420526570204672616d65"
)

// everything returns what arrives at c until its end.
func everything(t *testing.T, c net.Conn) []byte {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(time.Minute))
	b, err := io.ReadAll(c)
	if err != nil {
		t.Errorf("waiting for the end of the stream: %v", err)
	}
	return b
}

// TestBadRequests gives a responder startup frames that break a rule: it closes the connection without
// an answer, or refuses in a Reply (RFC 5044 Section 7.1.2, RFC 6581 Section 6).
func TestBadRequests(t *testing.T) {
	for _, tt := range []struct {
		name, octets string
		reply        string // what follows the key
		cause        error
	}{
		{"not MPA at all", hex.EncodeToString([]byte("GET / HTTP/1.1\r\n\r\n")), "", mpa.ErrKey},
		{"a Reply", repKey + "50020004" + "00040004", "", mpa.ErrRole},
		{"revision 0", reqKey + "40000000", repKey + "60010000", mpa.ErrRevision},
		{"revision 0, markers, private data, R", reqKey + "e000000401020304", repKey + "60010000", mpa.ErrRevision},
		{"revision 0, too much private data", reqKey + "40000201" + strings.Repeat("00", 513), "", mpa.ErrPrivateData},
		{"revision 0, ends early", reqKey + "4000000401", "", io.ErrUnexpectedEOF},
		{"revision 3", reqKey + "50030004" + "00040004", "", mpa.ErrRevision},
		{"513 octets of private data", reqKey + "40020201" + strings.Repeat("00", 513), "", mpa.ErrPrivateData},
		{"65535 octets of private data", reqKey + "4002ffff", "", mpa.ErrPrivateData},
		{"no enhanced word", reqKey + "50020000", "", mpa.ErrEnhanced},
		{"half an enhanced word", reqKey + "50020002" + "0004", "", mpa.ErrEnhanced},
		{"an FPDU after it", reqKey + "40020000" + goldSend, "", mpa.ErrTrailing},
		{"one octet after it", reqKey + "50020004" + "00040004" + "00", "", mpa.ErrTrailing},
		{"ends inside the key", reqKey[:14], "", io.ErrUnexpectedEOF},
		{"ends inside the private data", reqKey + "40020008" + "0102", "", io.ErrUnexpectedEOF},
		{"nothing", "", "", io.ErrUnexpectedEOF},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, b := rdmaptest.Pipe()
			h := newCollector()
			y := Server(b, &Config{Handler: h, Recvs: 4})
			res := make(chan error, 1)
			go func() { res <- y.Handshake(t.Context()) }()
			if _, err := a.Write(unhex(t, tt.octets)); err != nil {
				t.Fatal(err)
			}
			if tt.cause == io.ErrUnexpectedEOF {
				a.CloseWrite()
			}
			if got := everything(t, a); hex.EncodeToString(got) != tt.reply {
				t.Errorf("answered with %x", got)
			}
			a.Close()
			err := <-res
			if ce, ok := errors.AsType[*verbs.ConnError](err); !ok || ce.Op != "handshake" || !errors.Is(err, tt.cause) {
				t.Errorf("Handshake: %v, want %v", err, tt.cause)
			}
			<-y.Done()
			if err := y.Serve(); err == nil || len(h.msgs) > 0 {
				t.Errorf("the connection is still open: %v, %d messages", err, len(h.msgs))
			}
		})
	}
}

// TestBadReplies gives an initiator Replies that break a rule. A malformed one is not
// answered (RFC 5044 Section 8, code 4); one that is well-formed but cannot be used
// gets the Terminate of RFC 6581 Section 8.
func TestBadReplies(t *testing.T) {
	terminate := func(word string) string {
		return hex.EncodeToString(fpduOf(unhex(t, "414700000000000000020000000100000000"+word)))
	}
	for _, tt := range []struct {
		name, octets string
		answer       string
		cause        error
		code         verbs.TermCode
	}{
		{"a Request", reqKey + "50020004" + "00040004", "", mpa.ErrRole, verbs.TermCode{}},
		{"not MPA at all", hex.EncodeToString([]byte("HTTP/1.1 400 Bad Request")), "", mpa.ErrKey, verbs.TermCode{}},
		{"revision 3", repKey + "50030004" + "00040004", "", mpa.ErrRevision, verbs.TermCode{}},
		{"S missing", repKey + "40020000", "", mpa.ErrEnhanced, verbs.TermCode{}},
		{"no enhanced word", repKey + "50020000", "", mpa.ErrEnhanced, verbs.TermCode{}},
		{"513 octets", repKey + "50020201" + strings.Repeat("00", 513), "", mpa.ErrPrivateData, verbs.TermCode{}},
		{"an FPDU after it", repKey + "50020004" + "00040004" + goldSend, "", mpa.ErrTrailing, verbs.TermCode{}},
		{"ends early", repKey + "5002", "", io.ErrUnexpectedEOF, verbs.TermCode{}},
		{"needs more reads than we serve", repKey + "50020004" + "00040005", terminate("20060000"), nil, verbs.TermCode{Layer: 2, EType: 0, Code: 6}},
	} {
		for _, crc := range []CRCMode{CRCOn, CRCOff} {
			t.Run(tt.name, func(t *testing.T) {
				a, b := rdmaptest.Pipe()
				x := Client(a, &Config{IRD: 4, ORD: 4, CRC: crc})
				res := make(chan error, 1)
				go func() { res <- x.Handshake(t.Context()) }()
				m, _ := mpa.NewResponder(&mpa.Config{IRD: 4, ORD: 4})
				var req []byte
				for n := 0; n == 0; {
					var buf [600]byte
					k, err := b.Read(buf[:])
					if err != nil {
						t.Fatal(err)
					}
					req = append(req, buf[:k]...)
					if n, err = m.Input(req); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := b.Write(unhex(t, tt.octets)); err != nil {
					t.Fatal(err)
				}
				if tt.cause == io.ErrUnexpectedEOF {
					b.CloseWrite()
				}
				// C of the Reply alone turns the CRC on; generating one is always legal.
				if got := everything(t, b); hex.EncodeToString(got) != tt.answer {
					t.Errorf("answered with %x, want %s", got, tt.answer)
				}
				b.Close()
				err := <-res
				if tt.cause != nil {
					if _, ok := errors.AsType[*verbs.ConnError](err); !ok || !errors.Is(err, tt.cause) {
						t.Errorf("Handshake: %v, want %v", err, tt.cause)
					}
				} else if pe, ok := errors.AsType[*verbs.ProtocolError](err); !ok || pe.Code != tt.code {
					t.Errorf("Handshake: %v, want code %v", err, tt.code)
				}
				<-x.Done()
			})
		}
	}
}

// TestBadTerminates: a Terminate that breaks rules itself is a local error. It is never answered with
// another one (RFC 5040 Section 5.4).
func TestBadTerminates(t *testing.T) {
	good := ulpduOf(t, unhex(t, goldTermSTag))
	whole := func(c verbs.TermCode) *verbs.Terminate {
		return &verbs.Terminate{Code: c, HasLength: true, SegLen: 30, DDP: bytes.Clone(good[24:38])}
	}
	for _, tt := range []struct {
		name string
		u    []byte
		told *verbs.Terminate // what the upper layer is told; nil if the Terminate is refused
	}{
		{"no payload", good[:18], nil},
		{"three octets", good[:21], nil},
		{"header announced and missing", good[:24], &verbs.Terminate{Code: verbs.TermCode{Layer: 1, EType: 1, Code: 0}, HasLength: true, SegLen: 30}},
		{"MSN 2", patch(t, goldTermSTag, 13, 2), nil},
		{"MO 4", patch(t, goldTermSTag, 17, 4), nil},
		{"as long as may be", append(bytes.Clone(good), make([]byte, 18+engine.MaxTerminate-len(good))...), whole(verbs.TermCode{Layer: 1, EType: 1, Code: 0})},
		{"longer than any", append(bytes.Clone(good), make([]byte, 400)...), nil},
		{"unregistered code", patch(t, goldTermSTag, 18, 0xff, 0xff), whole(verbs.TermCode{Layer: 15, EType: 15, Code: 255})},
	} {
		e := newEngine(engineConfig{recvs: 1, ord: 1})
		var d done
		sink := own(t, e, 8, allRights)
		e.post(verbs.WR{Op: verbs.OpReadRequest, Sink: sink, Len: 8, Done: &d})
		e.output()
		u := bytes.Clone(tt.u)
		if ev, err := e.rcv.Input(u); err != nil {
			e.fail(err)
		} else {
			e.event(ev)
		}
		clear(u) // it was borrowed
		if out := e.output(); len(out) > 0 {
			t.Errorf("%s: answered with %x", tt.name, out)
		}
		if e.err == nil || d.n != 1 || d.err == nil {
			t.Errorf("%s: error %v, work completed %d times with %v", tt.name, e.err, d.n, d.err)
		}
		te, ok := errors.AsType[*verbs.TerminateError](e.err)
		if ok != (tt.told != nil) || ok && (te.Terminate.Code != tt.told.Code || !bytes.Equal(te.Terminate.Append(nil), tt.told.Append(nil))) {
			t.Errorf("%s: told %v", tt.name, e.err)
		}
	}
}

// TestBehindTerminate: what comes before the peer's Terminate counts, what comes after it does not,
// although all of it is in one read (RFC 5040 Section 5.4).
func TestBehindTerminate(t *testing.T) {
	e := newEngine(engineConfig{recvs: 3})
	mem, reg := e.register(t, 16, allRights)
	in := append(unhex(t, goldSend), unhex(t, goldTermOp)...)
	in = append(in, fpduOf(patch(t, goldSend, 13, 2))...)
	in = append(in, fpduOf(writeOf(t, reg.STag(), 0))...)
	e.input(in)
	if te, ok := errors.AsType[*verbs.TerminateError](e.err); !ok || te.Terminate.Code != (verbs.TermCode{Layer: 0, EType: 2, Code: 6}) {
		t.Errorf("ended with %v", e.err)
	}
	if len(e.got) != 1 || !bytes.Equal(mem, make([]byte, 16)) || len(e.output()) > 0 {
		t.Errorf("%d messages, memory %x", len(e.got), mem)
	}
}

// TestEveryShortULPDU: a ULPDU that is too short for its DDP header, whatever its length and bits,
// causes DDP's local catastrophic error; nothing beyond it is read.
func TestEveryShortULPDU(t *testing.T) {
	want := wantTerminate(0x1000<<16, nil, false)
	for _, v := range []string{goldWrite, goldSend, goldReadReq, goldTermSTag} {
		u := ulpduOf(t, unhex(t, v))
		hdr := 18
		if u[0]&0x80 != 0 {
			hdr = 14
		}
		for n := range hdr {
			e := newEngine(engineConfig{recvs: 1, ird: 1})
			e.input(fpduOf(u[:n]))
			if out := e.output(); !bytes.Equal(out, want) {
				t.Errorf("%d octets of %x: answered with %x", n, u[:hdr], out)
			}
		}
	}
}

// TestViolationsOnWires sends some violations over a whole connection, a pipe and TCP, each in one
// write and octet by octet. The answer is the Terminate, then the end of the stream.
func TestViolationsOnWires(t *testing.T) {
	for _, tt := range []struct {
		name string
		u    []byte
		word uint32
		hdr  bool
	}{
		{"empty ULPDU", nil, 0x1000 << 16, false},
		{"13 octets", patch(t, goldWrite, 0)[:13], 0x1000 << 16, false},
		{"unknown STag", patch(t, goldWrite, 0), 0x1100<<16 | withHdr, true},
		{"queue 9", patch(t, goldSend, 9, 9), 0x1201<<16 | withHdr, true},
		{"opcode", patch(t, goldSend, 1, 0x4c), 0x0206<<16 | withHdr, true},
	} {
		for _, whole := range []bool{true, false} {
			onWires(t, func(t *testing.T, a, b net.Conn) {
				x, p := rawResponder(t, a, b, nil)
				go x.Serve() // otherwise it is read only when the watcher notices it
				f := fpduOf(tt.u)
				for step := max(1, len(f)*btoi(whole)); len(f) > 0; f = f[step:] {
					if _, err := b.Write(f[:step]); err != nil {
						t.Fatal(err)
					}
				}
				var quoted []byte
				if tt.hdr {
					quoted = tt.u
				}
				got, err := p.Next()
				if want := ulpduOf(t, wantTerminate(tt.word, quoted, false)); err != nil || !bytes.Equal(got, want) {
					t.Errorf("%s: got %x, %v, want %x", tt.name, got, err, want)
				}
				if u, err := p.Next(); err != io.EOF {
					t.Errorf("%s: then %x, %v", tt.name, u, err)
				}
				b.Close() // the engine drains until then
			})
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestLongULPDU: 64768 octets are the most that MPA allows, and 65535 the most that the length field can
// express. Even longer ones than MPA allows are framed correctly, and judged by their contents.
func TestLongULPDU(t *testing.T) {
	for _, n := range []int{64768, 64769, 65535} {
		e := newEngine(engineConfig{recvs: 2, size: 1 << 16})
		u := append(ulpduOf(t, unhex(t, goldSendZero)), make([]byte, n-18)...)
		u[13] = 1 // MSN
		next := patch(t, goldSend, 13, 2)
		e.input(append(fpduOf(u), fpduOf(next)...))
		if e.err != nil || len(e.got) != 2 || len(e.got[0].Data) != n-18 || string(e.got[1].Data) != "HELLO" {
			t.Errorf("%d octets: error %v, %d messages", n, e.err, len(e.got))
		}
	}
}

// TestReadResponseTooLong answers a Read with more octets than requested, in one segment and in
// several, and a Read of no octets with some: nothing is placed beyond the end.
func TestReadResponseTooLong(t *testing.T) {
	for _, tt := range []struct {
		name string
		size uint32
		segs []int
	}{
		{"one segment", 16, []int{17}},
		{"the second segment", 16, []int{16, 1}},
		{"across the end", 16, []int{10, 10}},
		{"a Read of nothing", 0, []int{1}},
	} {
		e := newEngine(engineConfig{ord: 1})
		mem, reg := e.register(t, 64, allRights|region.ReadSink)
		var d done
		e.post(verbs.WR{Op: verbs.OpReadRequest, Sink: reg.STag(), Len: tt.size, Done: &d})
		e.output()
		to := 0
		for i, n := range tt.segs {
			u := responseOf(t, reg.STag(), uint64(to))[:14]
			if i < len(tt.segs)-1 {
				u[0] &^= 0x40
			}
			e.input(fpduOf(append(u, bytes.Repeat([]byte{0xff}, n)...)))
			to += n
		}
		if pe, ok := e.err.(*verbs.ProtocolError); !ok || pe.Code != (verbs.TermCode{Layer: 1, EType: 1, Code: 1}) || d.n > 0 && d.err == nil {
			t.Errorf("%s: %v, completed %d times with %v", tt.name, e.err, d.n, d.err)
		}
		if n := bytes.Count(mem[tt.size:], []byte{0xff}); n > 0 {
			t.Errorf("%s: %d octets placed beyond the end", tt.name, n)
		}
	}
}

// TestReadResponseOfAnother answers the oldest of two Reads with the sink of the other one: that
// memory is valid and a response may write it, but not yet.
func TestReadResponseOfAnother(t *testing.T) {
	e := newEngine(engineConfig{ord: 2})
	var mem [2][]byte
	var sink [2]region.STag
	for i := range mem {
		m, reg := e.register(t, 16, region.ReadSink)
		mem[i], sink[i] = m, reg.STag()
		e.post(verbs.WR{Op: verbs.OpReadRequest, Sink: sink[i], Len: 16})
	}
	e.output()
	e.input(fpduOf(responseOf(t, sink[1], 0)))
	if pe, ok := e.err.(*verbs.ProtocolError); !ok || pe.Code != (verbs.TermCode{Layer: 1, EType: 1, Code: 0}) || e.read != 0 {
		t.Errorf("%v, %d Reads completed", e.err, e.read)
	}
	if !bytes.Equal(mem[1], make([]byte, 16)) {
		t.Error("the other Read's memory was written")
	}
}

// TestEndInsideFPDU: the end of the stream between two FPDUs differs from one inside an FPDU.
func TestEndInsideFPDU(t *testing.T) {
	for cut := 0; cut <= len(goldSend)/2; cut++ {
		a, b := rdmaptest.Pipe()
		x, p := rawResponder(t, a, b, nil)
		if _, err := p.Conn.Write(unhex(t, goldSend)[:cut]); err != nil {
			t.Fatal(err)
		}
		b.Close()
		var err error
		for err == nil { // the whole FPDU is a message first
			_, err = x.Recv(t.Context())
		}
		inside := cut > 0 && cut < len(goldSend)/2
		me, _ := errors.AsType[*mpa.Error](err)
		if inside != errors.Is(err, io.ErrUnexpectedEOF) || inside == errors.Is(err, io.EOF) || inside && (me == nil || me.Code != mpa.CodeClosed) {
			t.Errorf("cut after %d octets: %v", cut, err)
		}
	}
}
