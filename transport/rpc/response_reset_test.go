package rpc

import (
	"testing"

	"github.com/stag-rdma/stag/transport/internal/memory"
	"github.com/stag-rdma/stag/xdr"
)

// TestResponseReset: nothing that one handler has said is in the next one's reply.
func TestResponseReset(t *testing.T) {
	var r Response
	r.Reset()
	r.Deny(xdr.AuthTooWeak)
	r.ProgMismatch(2, 3)
	r.Verf = xdr.Auth{Flavor: xdr.AuthSys, Body: []byte{1, 2, 3, 4}}
	r.AppendItem([]byte("data"))
	r.OnSent(func() { t.Error("told twice") })
	r.refusal, r.refused = xdr.ReplyHeader{XID: 1, Denied: true}, true
	r.Lent = memory.Lent{}
	r.Reset()
	if got, want := string(r.AppendReply(nil, 7)), string(xdr.AppendReply(nil, &xdr.ReplyHeader{XID: 7})); got != want {
		t.Errorf("reply % x, want % x", got, want)
	}
	if r.refusal.XID != 0 || r.authStat != 0 || len(r.Lent.Items) != 0 {
		t.Errorf("%+v", &r)
	}
}
