package rdmap_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/internal/conntest"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

const (
	reqKey = "4d504120494420526571204672616d65" // RFC 5044 Section 7.1.1
	repKey = "4d504120494420526570204672616d65"
)

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
		{"an FPDU after it", reqKey + "40020000" + conntest.GoldSend, "", mpa.ErrTrailing},
		{"one octet after it", reqKey + "50020004" + "00040004" + "00", "", mpa.ErrTrailing},
		{"ends inside the key", reqKey[:14], "", io.ErrUnexpectedEOF},
		{"ends inside the private data", reqKey + "40020008" + "0102", "", io.ErrUnexpectedEOF},
		{"nothing", "", "", io.ErrUnexpectedEOF},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, b := rdmaptest.Pipe()
			h := conntest.NewCollector()
			y := rdmap.Server(b, &rdmap.Config{Handler: h, Receives: rdmap.Receives{Count: 4}})
			res := make(chan error, 1)
			go func() { res <- y.Handshake(t.Context()) }()
			if _, err := a.Write(conntest.Unhex(t, tt.octets)); err != nil {
				t.Fatal(err)
			}
			if tt.cause == io.ErrUnexpectedEOF {
				a.CloseWrite()
			}
			if got := conntest.Everything(t, a); hex.EncodeToString(got) != tt.reply {
				t.Errorf("answered with %x", got)
			}
			a.Close()
			err := <-res
			if ce, ok := errors.AsType[*verbs.ConnError](err); !ok || ce.Op != "handshake" || !errors.Is(err, tt.cause) {
				t.Errorf("Handshake: %v, want %v", err, tt.cause)
			}
			<-y.Done()
			if err := y.Serve(); err == nil || len(h.Msgs) > 0 {
				t.Errorf("the connection is still open: %v, %d messages", err, len(h.Msgs))
			}
		})
	}
}

// TestBadReplies gives an initiator Replies that break a rule. A malformed one is not
// answered (RFC 5044 Section 8, code 4); one that is well-formed but cannot be used
// gets the Terminate of RFC 6581 Section 8.
func TestBadReplies(t *testing.T) {
	terminate := func(word string) string {
		return hex.EncodeToString(conntest.FPDU(conntest.Unhex(t, "414700000000000000020000000100000000"+word)))
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
		{"an FPDU after it", repKey + "50020004" + "00040004" + conntest.GoldSend, "", mpa.ErrTrailing, verbs.TermCode{}},
		{"ends early", repKey + "5002", "", io.ErrUnexpectedEOF, verbs.TermCode{}},
		{"needs more reads than we serve", repKey + "50020004" + "00040005", terminate("20060000"), nil, verbs.TermCode{Layer: 2, EType: 0, Code: 6}},
	} {
		for _, crc := range []rdmap.CRCMode{rdmap.CRCOn, rdmap.CRCOff} {
			t.Run(tt.name, func(t *testing.T) {
				a, b := rdmaptest.Pipe()
				x := rdmap.Client(a, &rdmap.Config{Startup: rdmap.Startup{IRD: 4, ORD: 4, CRC: crc}})
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
				if _, err := b.Write(conntest.Unhex(t, tt.octets)); err != nil {
					t.Fatal(err)
				}
				if tt.cause == io.ErrUnexpectedEOF {
					b.CloseWrite()
				}
				// C of the Reply alone turns the CRC on; generating one is always legal.
				if got := conntest.Everything(t, b); hex.EncodeToString(got) != tt.answer {
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
		{"13 octets", conntest.Patch(t, conntest.GoldWrite, 0)[:13], 0x1000 << 16, false},
		{"unknown STag", conntest.Patch(t, conntest.GoldWrite, 0), 0x1100<<16 | conntest.WithHdr, true},
		{"queue 9", conntest.Patch(t, conntest.GoldSend, 9, 9), 0x1201<<16 | conntest.WithHdr, true},
		{"opcode", conntest.Patch(t, conntest.GoldSend, 1, 0x4c), 0x0206<<16 | conntest.WithHdr, true},
	} {
		for _, whole := range []bool{true, false} {
			conntest.OnWires(t, func(t *testing.T, a, b net.Conn) {
				x, p := conntest.RawResponder(t, a, b, nil)
				go x.Serve() // otherwise it is read only when the watcher notices it
				f := conntest.FPDU(tt.u)
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
				if want := conntest.ULPDU(t, conntest.WantTerminate(tt.word, quoted, false)); err != nil || !bytes.Equal(got, want) {
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

// TestEndInsideFPDU: the end of the stream between two FPDUs differs from one inside an FPDU.
func TestEndInsideFPDU(t *testing.T) {
	for cut := 0; cut <= len(conntest.GoldSend)/2; cut++ {
		a, b := rdmaptest.Pipe()
		x, p := conntest.RawResponder(t, a, b, nil)
		if _, err := p.Conn.Write(conntest.Unhex(t, conntest.GoldSend)[:cut]); err != nil {
			t.Fatal(err)
		}
		b.Close()
		var err error
		for err == nil { // the whole FPDU is a message first
			_, err = x.Recv(t.Context())
		}
		inside := cut > 0 && cut < len(conntest.GoldSend)/2
		me, _ := errors.AsType[*mpa.Error](err)
		if inside != errors.Is(err, io.ErrUnexpectedEOF) || inside == errors.Is(err, io.EOF) || inside && (me == nil || me.Code != mpa.CodeClosed) {
			t.Errorf("cut after %d octets: %v", cut, err)
		}
	}
}
