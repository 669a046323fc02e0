package judge_test

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/conformance/internal/judge"
	"github.com/stag-rdma/stag/conformance/internal/judge/internal/twin"
	"github.com/stag-rdma/stag/xdr"
)

// TestFlawedReplies: errors of a reply are found although it cannot be decoded.
func TestFlawedReplies(t *testing.T) {
	for _, tt := range []struct {
		name string
		kind func(*twin.RPC) *twin.Exchange
		make func(x *twin.Exchange)
		want string
	}{
		{"a segment of 2 GiB", readFile, func(x *twin.Exchange) { x.Reply.Header.Write[0][0].Length = 1 << 31 }, "RPCRDMA-032"},
		{"the same in a Reply chunk", readDir, func(x *twin.Exchange) { x.Reply.Header.Reply[0].Length = 1 << 31 }, "RPCRDMA-032"},
		{"a Read list of 2 GiB", null, func(x *twin.Exchange) {
			x.Reply.Header.Read = []chunks.ReadSegment{{Position: 4, Segment: chunks.Segment{Handle: 1, Length: 1 << 31}}}
		}, "RPCRDMA-044"},
		{"neither call nor reply", null, func(x *twin.Exchange) { x.Reply.Body[7] = 2 }, "RPC-001"},
		{"neither, in a WRITE", writeFile, func(x *twin.Exchange) { x.Reply.Body[7] = 2 }, "RPC-001"},
	} {
		r := twin.NewRPC()
		change(tt.kind, tt.make)(r)
		r.Do(r.Null())
		r.Trace.Close()
		got := judged(r.Trace, new(twinOf))
		if len(got) != 1 || got[0].Rule.ID != tt.want || got[0].Dir != twin.R {
			t.Errorf("%s: %v, want %s", tt.name, got, tt.want)
		}
	}
}

// TestCallTooLarge: a call that offers more than can be judged is not a violation, and the report says that
// it was not judged.
func TestCallTooLarge(t *testing.T) {
	r := twin.NewRPC()
	change(readFile, func(x *twin.Exchange) {
		x.Call.Header.Write[0][0].Length = 1 << 31
	})(r)
	b := judge.NewBuilder(nil)
	r.Trace.Play(nil, b.Event)
	rep := b.Report()
	said := strings.Join(rep.Connections[0].Unknown, "\n")
	if len(rep.Violations) > 0 || !strings.Contains(said, "too many octets") {
		t.Errorf("%v, unknown: %s", slices.Clone(rep.Violations), said)
	}
}

// TestCallWithoutHeader: an RPC header that does not decode may be answered by whatever refuses the call.
func TestCallWithoutHeader(t *testing.T) {
	for _, tt := range []struct {
		name  string
		reply xdr.ReplyHeader
		want  []string
	}{
		{"SUCCESS", xdr.ReplyHeader{}, []string{"RPC-003", "RPCRDMA-088"}},
		{"GARBAGE_ARGS", xdr.ReplyHeader{Accept: xdr.GarbageArgs}, []string{"RPC-003"}},
		{"AUTH_BADCRED", xdr.ReplyHeader{Denied: true, Reject: xdr.AuthError, AuthStat: xdr.AuthBadCred}, []string{"RPC-003"}},
	} {
		r := twin.NewRPC()
		change(null, func(x *twin.Exchange) {
			binary.BigEndian.PutUint32(x.Call.Body[28:], 404) // length of the credential
			tt.reply.XID = x.Call.Header.XID
			x.Reply.Body = xdr.AppendReply(nil, &tt.reply)
		})(r)
		r.Trace.Close()
		var got []string
		for _, v := range judged(r.Trace, new(twinOf)) {
			got = append(got, v.Rule.ID)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestProtectedByGSS: tokens in NULL, and bodies that are encrypted, are no violations, and the report says that it has
// judged only their headers.
func TestProtectedByGSS(t *testing.T) {
	r := twin.NewRPC()
	change(null, func(x *twin.Exchange) { // RPCSEC_GSS_INIT
		auth(x, xdr.Auth{Flavor: xdr.RPCSECGSS, Body: append(make12(1, 1, 0), make12(1, 0, 0)[:8]...)}, xdr.Auth{})
		x.Call.Body, x.Reply.Body = xdr.AppendOpaque(x.Call.Body, make([]byte, 700)), append(x.Reply.Body, make([]byte, 200)...)
	})(r)
	change((*twin.RPC).GetAttr, func(x *twin.Exchange) { gss(x, 3) })(r)
	r.Trace.Close()
	b := judge.NewBuilder(nil)
	r.Trace.Play(nil, b.Event)
	rep := b.Report()
	said := strings.Join(rep.Reasons(), "\n")
	if len(rep.Violations) > 0 || rep.Verdict() != judge.Inconclusive || !strings.Contains(said, "4 of 8 messages judged in part: RPCSEC_GSS encrypts them") {
		t.Errorf("%v, %v: %s", rep.Violations, rep.Verdict(), said)
	}
}
