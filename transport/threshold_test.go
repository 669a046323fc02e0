package transport_test

import (
	"testing"

	"github.com/stag-rdma/stag/xdr"
)

// TestInline: Inline returns the sizes agreed in the start-up.
func TestInline(t *testing.T) {
	sc, cc := testConfig(), testConfig()
	sc.InlineSend, sc.InlineRecv = 8192, 2048
	cc.InlineSend, cc.InlineRecv = 3000, 65536
	_, c := pair(t, newEcho(), sc, cc)
	if send, recv := c.Inline(); send != 2048 || recv != 8192 {
		t.Errorf("inline %d and %d octets, want 2048 and 8192", send, recv)
	}
	for _, n := range []int{1900, 2100, 3000, 8100, 8300} {
		p := filled(n)
		call := echoCall(p)
		call.MaxResults = xdr.Pad(n) + n + 8
		checkEcho(t, mustDo(t, c, call), p, nil)
	}
}
