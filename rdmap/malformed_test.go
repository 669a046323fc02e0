package rdmap_test

import (
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/rdmap"
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
		{"an FPDU after it", reqKey + "40020000" + rdmaptest.GoldSend, "", mpa.ErrTrailing},
		{"one octet after it", reqKey + "50020004" + "00040004" + "00", "", mpa.ErrTrailing},
		{"ends inside the key", reqKey[:14], "", io.ErrUnexpectedEOF},
		{"ends inside the private data", reqKey + "40020008" + "0102", "", io.ErrUnexpectedEOF},
		{"nothing", "", "", io.ErrUnexpectedEOF},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, b := rdmaptest.Pipe()
			h := rdmaptest.NewCollector()
			y := rdmap.Server(b, &rdmap.Config{Handler: h, Receives: rdmap.Receives{Count: 4}})
			res := make(chan error, 1)
			go func() { res <- y.Handshake(t.Context()) }()
			if _, err := a.Write(rdmaptest.Unhex(t, tt.octets)); err != nil {
				t.Fatal(err)
			}
			if tt.cause == io.ErrUnexpectedEOF {
				a.CloseWrite()
			}
			if got := Everything(t, a); hex.EncodeToString(got) != tt.reply {
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

// TestEndInsideFPDU: the end of the stream between two FPDUs differs from one inside an FPDU.
func TestEndInsideFPDU(t *testing.T) {
	for cut := 0; cut <= len(rdmaptest.GoldSend)/2; cut++ {
		a, b := rdmaptest.Pipe()
		x, p := RawResponder(t, a, b, nil)
		if _, err := p.Conn.Write(rdmaptest.Unhex(t, rdmaptest.GoldSend)[:cut]); err != nil {
			t.Fatal(err)
		}
		b.Close()
		var err error
		for err == nil { // the whole FPDU is a message first
			_, err = x.Recv(t.Context())
		}
		inside := cut > 0 && cut < len(rdmaptest.GoldSend)/2
		me, _ := errors.AsType[*mpa.Error](err)
		if inside != errors.Is(err, io.ErrUnexpectedEOF) || inside == errors.Is(err, io.EOF) || inside && (me == nil || me.Code != mpa.CodeClosed) {
			t.Errorf("cut after %d octets: %v", cut, err)
		}
	}
}
