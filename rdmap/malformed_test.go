package rdmap_test

import (
	"errors"
	"io"
	"testing"

	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
)

// TestEndInsideFPDU: the end of the stream between two FPDUs differs from one inside an FPDU.
func TestEndInsideFPDU(t *testing.T) {
	for cut := 0; cut <= len(rdmaptest.Gold.Send)/2; cut++ {
		a, b := rdmaptest.Pipe()
		x, p := RawResponder(t, a, b, nil)
		if _, err := p.Conn.Write(rdmaptest.Unhex(t, rdmaptest.Gold.Send)[:cut]); err != nil {
			t.Fatal(err)
		}
		b.Close()
		var err error
		for err == nil { // the whole FPDU is a message first
			_, err = x.Recv(t.Context())
		}
		inside := cut > 0 && cut < len(rdmaptest.Gold.Send)/2
		me, _ := errors.AsType[*mpa.Error](err)
		if inside != errors.Is(err, io.ErrUnexpectedEOF) || inside == errors.Is(err, io.EOF) || inside && (me == nil || me.Code != mpa.CodeClosed) {
			t.Errorf("cut after %d octets: %v", cut, err)
		}
	}
}
