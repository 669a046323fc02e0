package decode_test

import (
	"testing"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

// TestProtected: a body that RPCSEC_GSS protects is not taken for arguments or results
// (RFC 2203 Section 5.3.2.2); one that it does not protect is.
func TestProtected(t *testing.T) {
	const xid = 77
	for service, gss := range []string{1: "none", 2: "integrity", 3: "privacy"} {
		if gss == "" {
			continue
		}
		protected := gss != "none"
		cred := xdr.AppendUint32(nil, 1) // version, then gss_proc, seq_num, service, handle
		for _, w := range []uint32{0, 5, uint32(service), 0} {
			cred = xdr.AppendUint32(cred, w)
		}
		header := func() []byte { return (&rpcrdma.Header{XID: xid, Vers: 1, Credit: 1}).Append(nil) }
		call := xdr.AppendCall(header(), &xdr.CallHeader{
			XID: xid, RPCVers: 2, Prog: nfs3.Program, Vers: nfs3.Version, Proc: uint32(nfs3.ProcWrite),
			Cred: xdr.Auth{Flavor: xdr.RPCSECGSS, Body: cred},
		})
		reply := xdr.AppendReply(header(), &xdr.ReplyHeader{XID: xid})
		sealed := octetsOf(64)
		got := rpcs(exchange([][]byte{append(call, sealed...), append(reply, sealed...)}))
		if len(got) != 2 {
			t.Fatalf("%d messages", len(got))
		}
		for _, r := range got {
			if (r.Err == nil) != protected || r.Message != nil || string(r.Body) != string(sealed) || r.Name != "NFSv3 WRITE" || r.GSS != gss {
				t.Errorf("service %d, reply %t: %q, %v, %v", service, r.IsReply, r.Name, r.Err, r.Message)
			}
		}
	}
}
