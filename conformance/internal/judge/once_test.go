package judge_test

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/conformance/internal/judge"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/xdr"
)

// TestOnce: mistakes that show again later are one violation.
func TestOnce(t *testing.T) {
	mkdir := func(t *RPC, dir nfs3.FileType) {
		h := HandleArgs().Handle
		a := Attr(10)
		a.Type = dir
		t.Do(t.NFS(nfs3.ProcMkdir, &nfs3.MkdirArgs{Where: nfs3.DirOpArgs{Dir: h, Name: "d"}},
			&nfs3.NewRes{DirWcc: nfs3.Wcc{After: nfs3.OptAttr{Present: true, Attr: a}}}))
	}
	write := func(t *RPC, verf byte) {
		r := WriteRes(100)
		r.Verf[7] = verf
		t.Do(t.NFS(nfs3.ProcWrite, WriteArgs(100), r))
	}
	lateWrite := func(t *RPC, invalidate bool) {
		t.Do(t.Null())
		x := t.ReadFile(5001)
		last := x.Writes[len(x.Writes)-1]
		if invalidate {
			x.Reply.Invalidate = last.STag
		}
		x.Writes = x.Writes[:len(x.Writes)-1]
		t.Do(x)
		t.Write(R, last.STag, last.TO, last.Data)
		t.Do(t.Null())
	}
	for name, tt := range map[string]struct {
		talk func(*RPC)
		want []string
	}{
		"a directory is a file once": {func(t *RPC) {
			mkdir(t, nfs3.TypeDir)
			mkdir(t, nfs3.TypeReg)
			mkdir(t, nfs3.TypeDir)
		}, []string{"NFS-014"}},
		"a directory is a file, then another thing": {func(t *RPC) {
			mkdir(t, nfs3.TypeDir)
			mkdir(t, nfs3.TypeReg)
			mkdir(t, nfs3.TypeLnk)
		}, []string{"NFS-014", "NFS-014"}},
		"another write verifier once": {func(t *RPC) {
			for _, v := range []byte{1, 2, 1} {
				write(t, v)
			}
		}, []string{"NFS-013"}},
		"two calls with one XID, both answered": {func(t *RPC) {
			t.Do(t.Null())
			a, b := t.Null(), t.Null()
			for _, m := range []*Message{&b.Call, &b.Reply} {
				m.Header.XID = a.Call.Header.XID
				copy(m.Body, xdr.AppendUint32(nil, m.Header.XID))
			}
			t.Ask(a)
			t.Ask(b)
			t.Answer(a)
			t.Answer(b)
		}, []string{"RPCRDMA-082"}},
		"private data of version 2, whose R flag is unknown": {func(t *RPC) {
			t.Begin()
			t.Frames[0].Startup.PrivateData[4] = 2
			t.Do(t.Null())
			x := t.ReadFile(100)
			x.Reply.Invalidate = x.Writes[0].STag
			t.Do(x)
		}, []string{"RPCRDMA-071"}},
		"an RDMA Write after the reply":                         {func(t *RPC) { lateWrite(t, false) }, []string{"RPCRDMA-034"}},
		"an RDMA Write after a reply that invalidates its STag": {func(t *RPC) { lateWrite(t, true) }, []string{"RPCRDMA-034"}},
		"an invalidation that was not agreed on hides nothing else": {func(t *RPC) {
			t.Private[1].RemoteInvalidate = false
			x := t.ReadFile(5001)
			x.Reply.Invalidate = x.Writes[0].STag
			x.Writes[1].Data = x.Writes[1].Data[1:]
			t.Do(x)
		}, []string{"RPCRDMA-034", "RPCRDMA-073"}},
		"nor does a call that is too long": {func(t *RPC) {
			t.Private[1].RecvSize = 1024
			a := WriteArgs(1000)
			a.Count--
			t.Do(t.NFS(nfs3.ProcWrite, a, &nfs3.WriteRes{Status: nfs3.ErrInval}))
		}, []string{"RPCRDMA-070", "NFS-010"}},
		"a credential of AUTH_SYS that is no such": {ask(func(x *Exchange) {
			auth(x, xdr.Auth{Flavor: xdr.AuthSys, Body: octets(6)}, xdr.Auth{})
			accept(x, xdr.ReplyHeader{Denied: true, Reject: xdr.AuthError, AuthStat: xdr.AuthBadCred})
		}), []string{"RPC-008"}},
		"a machine name whose pad is not 0": {ask(func(x *Exchange) {
			b := sys.Append(nil) // stamp, length, host1
			b[13] = 1
			auth(x, xdr.Auth{Flavor: xdr.AuthSys, Body: b}, xdr.Auth{})
		}), []string{"RPC-014"}},
		"the result of another operation": {compound(0, "tag", 2, 24, 0, 10, 0, 0), []string{"NFS-050"}},
		"half a result":                   {compound(0, "tag", 2, 24, 0, 9, 0), []string{"NFS-002"}},
		"WRITE of fewer octets than it has": {func(t *RPC) {
			a := WriteArgs(100)
			a.Count = 99
			t.Do(t.NFS(nfs3.ProcWrite, a, WriteRes(100)))
		}, []string{"NFS-010"}},
		"the program is gone, for one call": {func(t *RPC) {
			t.Do(t.GetAttr())
			x := t.GetAttr()
			accept(x, xdr.ReplyHeader{Accept: xdr.ProgUnavail})
			t.Do(x)
			t.Do(t.GetAttr())
		}, []string{"RPC-018"}},
	} {
		conv := NewRPC()
		tt.talk(conv)
		var got []string
		for _, v := range judged(conv.Trace, new(twinOf)) {
			got = append(got, v.Rule.ID)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// TestSentAgain: a WRITE that is sent again over a new connection may be answered from a duplicate request cache, and
// its data need not be read again. Every other one is read before it is answered.
func TestSentAgain(t *testing.T) {
	cut := func(x *Exchange) *Trace {
		c := NewRPC()
		c.Ask(x)
		c.Frames = append(c.Frames, &Frame{Dir: R, End: RST})
		return c.Trace
	}
	unread := func(x *Exchange) *Trace {
		c := NewRPC()
		answered := *x
		answered.Pulls = nil
		c.Do(&answered)
		return c.Close()
	}
	call := func() *Exchange { return NewRPC().WriteFile(5001) }
	other := func() *Exchange { c := NewRPC(); c.Null(); return c.WriteFile(5001) } // another XID

	for _, tt := range []struct {
		name   string
		traces []*Trace
		want   int
	}{
		{"sent once", []*Trace{unread(call())}, 1},
		{"sent again", []*Trace{cut(call()), unread(call())}, 0},
		{"another call", []*Trace{cut(other()), unread(call())}, 1},
	} {
		var got []*judge.Violation
		j := judge.New(nil, func(v *judge.Violation) { got = append(got, v) })
		for _, c := range tt.traces {
			c.Play(&decode.Options{}, j.Event)
		}
		j.End()
		for _, v := range got {
			if v.Rule.ID != "RPCRDMA-053" {
				t.Errorf("%s: %v", tt.name, v)
			}
		}
		if len(got) != tt.want {
			t.Errorf("%s: %d violations, want %d", tt.name, len(got), tt.want)
		}
	}
}

// TestSTagLife: an STag is dead from its invalidation until its owner may have advertised it again.
func TestSTagLife(t *testing.T) {
	const tag = ddp.STag(0x3300)
	for _, tt := range []struct {
		name    string
		between func(*Trace)
		use     func(*Trace)
		want    string
	}{
		{"write", nil, func(t *Trace) { t.Write(R, tag, 0, octets(4)) }, "RDMAP-040"},
		{"write of nothing", nil, func(t *Trace) { t.Write(R, tag, 0, nil) }, ""},
		{"write to another", nil, func(t *Trace) { t.Write(R, tag+1, 0, octets(4)) }, ""},
		{"write by the owner", nil, func(t *Trace) { t.Write(I, tag, 0, octets(4)) }, ""},
		{"atomic", nil, func(t *Trace) { t.Atomic(R, verbs.AtomicFetchAdd, 1, tag, 0) }, "RDMAP-040"},
		{"flush", nil, func(t *Trace) { t.Flush(R, tag, 8, 0) }, "RDMAP-040"},
		{"flush of nothing", nil, func(t *Trace) { t.Flush(R, tag, 0, 0) }, ""},
		{"again", nil, func(t *Trace) { t.SendInvalidate(R, tag, nil) }, "RDMAP-041"},
		{"owner sent", func(t *Trace) { t.Send(I, octets(9)) }, func(t *Trace) { t.Write(R, tag, 0, octets(4)) }, ""},
		{"owner wrote", func(t *Trace) { t.Write(I, 1, 0, octets(9)) }, func(t *Trace) { t.Write(R, tag, 0, octets(4)) }, ""},
		{"peer sent", func(t *Trace) { t.Send(R, octets(9)) }, func(t *Trace) { t.Write(R, tag, 0, octets(4)) }, "RDMAP-040"},
		{
			"sink of a Read of the owner", func(t *Trace) { t.Read(I, read(uint32(tag-0x1100))) },
			func(t *Trace) { t.Write(R, tag, 0, octets(4)) }, "",
		},
		{"source of a Read", nil, func(t *Trace) {
			r := read(0)
			r.SourceSTag = tag
			t.ReadRequest(R, r)
		}, "RDMAP-040"},
	} {
		trace := New().Startup()
		trace.Send(I, octets(4))
		trace.SendInvalidate(R, tag, nil)
		if tt.between != nil {
			tt.between(trace)
		}
		tt.use(trace)
		got := ""
		for _, v := range judged(trace, new(twinOf)) {
			got += v.Rule.ID
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestResent: a frame with a wrong CRC that is sent again with the right octets is not known to be wrong,
// whether the second copy comes before the frame is whole or after it, and nobody is blamed for its delivery. If the
// second copy is wrong as well, it is.
func TestResent(t *testing.T) {
	good := listen(someNFS(true))
	const n = 4 // the first READ
	for _, tt := range []struct {
		name         string
		damaged, cut int
		again        byte // damages the second copy
		want         string
	}{
		{"after it", 30, 0, 0, ""},
		{"before it is whole", 30, 60, 0, ""},
		{"wrong again", 30, 0, 9, "MPA-030"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := judge.NewBuilder(nil)
			c := decode.NewConn(nil, b.Event)
			for i, f := range good {
				at := decode.Stamp{Frame: i + 1}
				switch {
				case f.kind == decode.KindClose:
					c.Close(f.dir, f.reset, at)
				case i == n:
					bad := flipped(&f, tt.damaged, 1, false)
					first := len(bad) - tt.cut
					c.Octets(f.dir, bad[:first], at)
					copied := append([]byte(nil), f.raw[:first]...)
					copied[tt.damaged] ^= tt.again
					c.Conflict(f.dir, 1, copied, first, at)
					c.Octets(f.dir, bad[first:], at)
				default:
					c.Octets(f.dir, f.raw, at)
				}
			}
			c.Finish()
			r := b.Report()
			var got []string
			for _, v := range r.Violations {
				if v.Dir == I {
					got = append(got, v.Rule.ID)
				}
			}
			if strings.Join(got, " ") != tt.want || tt.want == "" && (len(r.Violations) > 0 || !strings.Contains(strings.Join(r.Reasons(), " "), "sent again")) {
				t.Errorf("%v, want %q; %q", r.Violations, tt.want, r.Reasons())
			}
			if !strings.Contains(strings.Join(r.Reasons(), " "), "retransmitted with other contents") {
				t.Errorf("not said: octets came again with other contents; %q", r.Reasons())
			}
		})
	}
}

// TestFlawedReplies: errors of a reply are found although it cannot be decoded.
func TestFlawedReplies(t *testing.T) {
	for _, tt := range []struct {
		name string
		kind func(*RPC) *Exchange
		make func(x *Exchange)
		want string
	}{
		{"a segment of 2 GiB", readFile, func(x *Exchange) { x.Reply.Header.Write[0][0].Length = 1 << 31 }, "RPCRDMA-032"},
		{"the same in a Reply chunk", readDir, func(x *Exchange) { x.Reply.Header.Reply[0].Length = 1 << 31 }, "RPCRDMA-032"},
		{"a Read list of 2 GiB", null, func(x *Exchange) {
			x.Reply.Header.Read = []chunks.ReadSegment{{Position: 4, Segment: chunks.Segment{Handle: 1, Length: 1 << 31}}}
		}, "RPCRDMA-044"},
		{"neither call nor reply", null, func(x *Exchange) { x.Reply.Body[7] = 2 }, "RPC-001"},
		{"neither, in a WRITE", writeFile, func(x *Exchange) { x.Reply.Body[7] = 2 }, "RPC-001"},
	} {
		r := NewRPC()
		change(tt.kind, tt.make)(r)
		r.Do(r.Null())
		r.Trace.Close()
		got := judged(r.Trace, new(twinOf))
		if len(got) != 1 || got[0].Rule.ID != tt.want || got[0].Dir != R {
			t.Errorf("%s: %v, want %s", tt.name, got, tt.want)
		}
	}
}

// TestCallTooLarge: a call that offers more than can be judged is not a violation, and the report says that
// it was not judged.
func TestCallTooLarge(t *testing.T) {
	r := NewRPC()
	change(readFile, func(x *Exchange) {
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
		r := NewRPC()
		change(null, func(x *Exchange) {
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
	r := NewRPC()
	change(null, func(x *Exchange) { // RPCSEC_GSS_INIT
		auth(x, xdr.Auth{Flavor: xdr.RPCSECGSS, Body: append(make12(1, 1, 0), make12(1, 0, 0)[:8]...)}, xdr.Auth{})
		x.Call.Body, x.Reply.Body = xdr.AppendOpaque(x.Call.Body, make([]byte, 700)), append(x.Reply.Body, make([]byte, 200)...)
	})(r)
	change((*RPC).GetAttr, func(x *Exchange) { gss(x, 3) })(r)
	r.Trace.Close()
	b := judge.NewBuilder(nil)
	r.Trace.Play(nil, b.Event)
	rep := b.Report()
	said := strings.Join(rep.Reasons(), "\n")
	if len(rep.Violations) > 0 || rep.Verdict() != judge.Inconclusive || !strings.Contains(said, "4 of 8 messages judged in part: RPCSEC_GSS encrypts them") {
		t.Errorf("%v, %v: %s", rep.Violations, rep.Verdict(), said)
	}
}

// TestUnknownSTag: an RDMA Write whose call is not in the capture is counted as such.
func TestUnknownSTag(t *testing.T) {
	r := NewRPC()
	r.Do(r.Null())
	call := len(r.Frames)
	r.Do(r.ReadFile(5001))
	r.Frames[call] = &Frame{Dir: I, Lost: 100}
	b := judge.NewBuilder(nil)
	r.Play(nil, b.Event)
	m := b.Report().Connections[0].Messages
	if writes := len(frames(r.Trace, verbs.OpWrite)); m.Partly[judge.UnknownSTag] != writes || writes == 0 || m.Partly[judge.Lost] == 0 {
		t.Errorf("%+v, want %d with unknown STags, and the reply after the hole", m, writes)
	}
}
