package decode

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"strings"
	"time"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

// String renders the event in one line, with Wireshark's names for the fields. The line begins
// with packet, connection and direction: "   28 c1 > ".
func (e *Event) String() string { return e.Line(time.Time{}) }

// Line is String with the seconds since t0 after the packet number, unless t0 is zero.
func (e *Event) Line(t0 time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%5d ", e.Frame)
	if !t0.IsZero() {
		fmt.Fprintf(&b, "%10.6f ", e.Time.Sub(t0).Seconds())
	}
	fmt.Fprintf(&b, "c%d %v ", e.Conn.ID, e.Dir)
	e.body(&b)
	if e.Err != nil {
		fmt.Fprintf(&b, " !! %v", e.Err)
	}
	return b.String()
}

func (e *Event) body(b *strings.Builder) {
	switch e.Kind {
	case KindOpen:
		fmt.Fprintf(b, "open %v to %v", e.Conn.Opener, e.Conn.Accepter)
	case KindStartup:
		e.Startup.text(b, e.Manager)
	case KindPacket:
		e.packet(b)
	case KindFPDU:
		e.layers(b)
	case KindUndecoded:
		fmt.Fprintf(b, "%d octets not decoded", e.Len)
	case KindRecord:
		fmt.Fprintf(b, "RPC over TCP xid=%#08x", e.RPC.XID)
		e.RPC.text(b)
	case KindClose:
		switch {
		case e.Manager != "":
			b.WriteString("CM " + e.Manager)
		case e.Reset:
			b.WriteString("FIN by RST")
		default:
			b.WriteString("FIN")
		}
	}
}

// text renders a startup frame, or the message of a connection manager in its place.
func (s *Startup) text(b *strings.Builder, manager string) {
	name, private := "Request", s.PrivateData
	if s.IsReply {
		name = "Reply"
	}
	if manager != "" {
		b.WriteString("CM " + manager)
		private = bytes.TrimRight(private, "\x00") // nobody knows how long they were
	} else {
		fmt.Fprintf(b, "MPA %s rev=%d flags=%#02x(%s) pdlength=%d", name, s.Rev, s.Flags, flagNames(s.Flags), s.PDLength)
	}
	if s.Enhanced {
		fmt.Fprintf(b, " ird=%d ord=%d", s.Word.IRD, s.Word.ORD)
		if s.Word.PeerToPeer {
			fmt.Fprintf(b, " peer-to-peer rtr=%v", s.Word.RTR)
		}
	}
	switch {
	case s.CM != nil:
		fmt.Fprintf(b, " rpcrdma(send=%d recv=%d remote-invalidate=%t)", s.CM.SendSize, s.CM.RecvSize, s.CM.RemoteInvalidate)
	case s.Stag == nil && len(private) > 0:
		fmt.Fprintf(b, " private=%x", private)
	}
	if s.Stag != nil {
		fmt.Fprintf(b, " stag(mulpdu=%d interleave=%t extensions=%v)", s.Stag.MULPDU, s.Stag.Interleave, s.Stag.Extensions)
	}
}

// flagNames spells the flags of a startup frame: "M", "C", "R", "S".
func flagNames(f byte) string {
	var names []string
	for i, n := range []string{"M", "C", "R", "S"} {
		if f&(0x80>>i) != 0 {
			names = append(names, n)
		}
	}
	return strings.Join(names, ",")
}

// layers renders an FPDU, lowest layer first.
func (e *Event) layers(b *strings.Builder) {
	fmt.Fprintf(b, "FPDU ulpdulength=%d crc=%v", len(e.FPDU.ULPDU), e.FPDU.CRCState)
	if e.FPDU.Markers > 0 {
		fmt.Fprintf(b, " markers=%d", e.FPDU.Markers)
	}
	if e.DDP == nil {
		return
	}
	fmt.Fprintf(b, " %v", e.RDMAP.Op)
	if e.DDP.Tagged {
		fmt.Fprintf(b, " stag=%v to=%#x", e.DDP.STag, e.DDP.TO)
	} else {
		fmt.Fprintf(b, " qn=%d msn=%d mo=%d", e.DDP.QN, e.DDP.MSN, e.DDP.MO)
	}
	if e.RDMAP.Op.Invalidates() {
		fmt.Fprintf(b, " inval_stag=%v", e.RDMAP.Invalidate)
	}
	fmt.Fprintf(b, " len=%d", len(e.DDP.Payload))
	if e.DDP.Last {
		b.WriteString(" last")
	}
	e.Message.text(b)
	e.upper(b)
}

// upper renders the layers above RDMAP.
func (e *Event) upper(b *strings.Builder) {
	if e.Header != nil {
		headerText(b, e.Header)
	}
	e.RPC.text(b)
	e.Commit.text(b)
}

// packet renders a packet of a reliable connection, in the words of InfiniBand.
func (e *Event) packet(b *strings.Builder) {
	fmt.Fprintf(b, "%v psn=%d qp=%#06x", e.RC, e.RC.PSN, e.RC.QP)
	if e.RC.Syndrome != 0 {
		fmt.Fprintf(b, " %s", nakName(e.RC.Syndrome))
	}
	if e.RC.Immediate != nil {
		fmt.Fprintf(b, " immediate=%#08x", *e.RC.Immediate)
	}
	if e.DDP == nil {
		return
	}
	switch m := e.Message; {
	case e.RDMAP.Op == verbs.OpWrite:
		fmt.Fprintf(b, " rkey=%v va=%#x", e.DDP.STag, e.DDP.TO)
	case e.RDMAP.Op.Invalidates():
		fmt.Fprintf(b, " inval_rkey=%v", e.RDMAP.Invalidate)
	case m != nil && m.Read != nil:
		fmt.Fprintf(b, " rkey=%v va=%#x dmalen=%d", m.Read.SourceSTag, m.Read.SourceTO, m.Read.Size)
		return
	case m != nil && m.Extension != nil:
		m.Extension.text(b, m.Op)
		return
	}
	fmt.Fprintf(b, " len=%d", len(e.DDP.Payload))
	if e.Message != nil && e.Message.Segments > 1 {
		e.Message.text(b)
	}
	e.upper(b)
}

// nakName names a NAK that ends a connection (InfiniBand Architecture Specification, Volume 1, Section 9.7.5.2.3).
func nakName(syndrome uint8) string {
	if n := syndrome & 31; n <= 4 {
		return [...]string{"NAK PSN sequence error", "NAK invalid request", "NAK remote access error", "NAK remote operational error", "NAK invalid RD request"}[n]
	}
	return fmt.Sprintf("NAK %d", syndrome&31)
}

func (m *Message) text(b *strings.Builder) {
	switch {
	case m == nil:
	case m.Read != nil:
		r := m.Read
		fmt.Fprintf(b, " | sinkstag=%v sinkto=%#x rdmardsz=%d srcstag=%v srcto=%#x", r.SinkSTag, r.SinkTO, r.Size, r.SourceSTag, r.SourceTO)
	case m.Terminate != nil:
		fmt.Fprintf(b, " | Terminate %v", m.Terminate)
	case m.Extension != nil:
		m.Extension.text(b, m.Op)
	case m.Segments > 1:
		fmt.Fprintf(b, " | %d octets in %d segments", len(m.Payload), m.Segments)
	}
}

func headerText(b *strings.Builder, h *rpcrdma.Header) {
	fmt.Fprintf(b, " | %v xid=%#08x", h.Type, h.XID)
	if h.Vers != rpcrdma.Version {
		fmt.Fprintf(b, " version=%d", h.Vers)
	}
	fmt.Fprintf(b, " credits=%d", h.Credit)
	for _, s := range h.Read {
		fmt.Fprintf(b, " read{position=%d %s}", s.Position, segmentText(s.Segment))
	}
	for _, w := range h.Write {
		fmt.Fprintf(b, " write{%s}", chunkText(w))
	}
	if h.HasReply {
		fmt.Fprintf(b, " reply{%s}", chunkText(h.Reply))
	}
	if h.Type == rpcrdma.MsgTypeError {
		fmt.Fprintf(b, " %v", h.Err)
		if h.Err == rpcrdma.ErrVers {
			fmt.Fprintf(b, " low=%d high=%d", h.Low, h.High)
		}
	}
}

func chunkText(w chunks.WriteChunk) string {
	segs := make([]string, len(w))
	for i, s := range w {
		segs[i] = segmentText(s)
	}
	return strings.Join(segs, "; ")
}

func segmentText(s chunks.Segment) string {
	return fmt.Sprintf("%v %d@%#x", s.Handle, s.Length, s.Offset)
}

func (r *RPC) text(b *strings.Builder) {
	if r == nil {
		return
	}
	switch {
	case r.Pulled:
		fmt.Fprintf(b, " | Read chunks of xid=%#08x complete: call", r.XID)
	case r.IsReply:
		b.WriteString(" | reply")
	default:
		b.WriteString(" | call")
	}
	if r.Backward {
		b.WriteString(" (backward)")
	}
	if r.Name != "" {
		b.WriteString(" " + r.Name)
	}
	if r.GSS != "" {
		b.WriteString(" gss=" + r.GSS)
	}
	if r.Reply != nil {
		if err := r.Reply.Err(); err != nil {
			fmt.Fprintf(b, " %v", err)
		}
	}
	if r.Status != "" {
		b.WriteString(" " + r.Status)
	}
	if k := keys(r.Message); k != "" {
		b.WriteString(" " + k)
	}
	r.CCP.text(b, r.IsReply)
	r.Compound.text(b)
	if r.CallFrame > 0 {
		fmt.Fprintf(b, " (call in %d)", r.CallFrame)
	}
}

func (c *CCP) text(b *strings.Builder, reply bool) {
	if c == nil {
		return
	}
	fmt.Fprintf(b, " maxcall_sendsize=%d", c.MaxCallSend)
	if reply {
		fmt.Fprintf(b, " align=%d", c.Align)
	} else {
		fmt.Fprintf(b, " maxreply_sendsize=%d", c.MaxReplySend)
	}
	fmt.Fprintf(b, " maxrdmaread=%d", c.MaxRDMARead)
}

// text lists the operations: "{SEQUENCE PUTFH LOOKUP=NFS4ERR_NOENT}".
func (c *Compound) text(b *strings.Builder) {
	if c == nil {
		return
	}
	b.WriteString(" {")
	for i, op := range c.Ops {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(op.Name)
		if op.Status != 0 {
			b.WriteString("=" + nfs4Status(op.Status))
		}
	}
	b.WriteByte('}')
}

// maxName bounds what is shown of a name, in octets.
const maxName = 64

// keys returns what matters most in a message of NFSv3 or MOUNT: handles as a digest (CRC-32, as in
// Wireshark), names, offsets, counts. It returns "" if there is nothing of the kind.
func keys(m xdr.Message) string {
	switch a := m.(type) {
	case *nfs3.HandleArgs:
		return digest(a.Handle)
	case *nfs3.DirOpArgs:
		return dirOp(a)
	case *nfs3.AccessArgs:
		return fmt.Sprintf("%s access=%#x", digest(a.Handle), uint32(a.Access))
	case *nfs3.ReadArgs:
		return fmt.Sprintf("%s offset=%d count=%d", digest(a.Handle), a.Offset, a.Count)
	case *nfs3.WriteArgs:
		return fmt.Sprintf("%s offset=%d count=%d stable=%d", digest(a.Handle), a.Offset, a.Count, uint32(a.Stable))
	case *nfs3.CommitArgs:
		return fmt.Sprintf("%s offset=%d count=%d", digest(a.Handle), a.Offset, a.Count)
	case *nfs3.SetAttrArgs:
		guard := ""
		if a.Guard {
			guard = fmt.Sprintf(" guard=%d.%09d", a.Ctime.Sec, a.Ctime.Nsec)
		}
		return digest(a.Handle) + settings(&a.Attr) + guard
	case *nfs3.CreateArgs:
		return dirOp(&a.Where) + settings(&a.Attr)
	case *nfs3.MkdirArgs:
		return dirOp(&a.Where) + settings(&a.Attr)
	case *nfs3.MknodArgs:
		return dirOp(&a.Where) + settings(&a.Attr)
	case *nfs3.SymlinkArgs:
		return dirOp(&a.Where) + " path=" + quote(a.Path) + settings(&a.Attr)
	case *nfs3.RenameArgs:
		return dirOp(&a.From) + " to " + dirOp(&a.To)
	case *nfs3.LinkArgs:
		return digest(a.Handle) + " to " + dirOp(&a.Link)
	case *nfs3.ReadDirArgs:
		return fmt.Sprintf("%s cookie=%d count=%d", digest(a.Dir), a.Cookie, a.Count)
	case *nfs3.ReadDirPlusArgs:
		return fmt.Sprintf("%s cookie=%d dircount=%d maxcount=%d", digest(a.Dir), a.Cookie, a.DirCount, a.MaxCount)
	case *mount3.PathArgs:
		return "path=" + quote(a.Path)
	}
	return resultKeys(m)
}

// resultKeys does the same for results.
func resultKeys(m xdr.Message) string {
	switch r := m.(type) {
	case *nfs3.ReadRes:
		if r.Status == nfs3.OK {
			return fmt.Sprintf("count=%d eof=%t", r.Count, r.EOF)
		}
	case *nfs3.WriteRes:
		if r.Status == nfs3.OK {
			return fmt.Sprintf("count=%d committed=%d", r.Count, uint32(r.Committed))
		}
	case *mount3.MountRes:
		if r.Status == mount3.OK {
			return digest(r.Handle)
		}
	}
	return ""
}

// settings returns what a call sets, each with a space in front.
func settings(a *nfs3.SetAttr) (s string) {
	for _, f := range []struct {
		set  bool
		text string
	}{
		{a.SetMode, fmt.Sprintf("mode=%#o", a.Mode)},
		{a.SetUID, fmt.Sprintf("uid=%d", a.UID)},
		{a.SetGID, fmt.Sprintf("gid=%d", a.GID)},
		{a.SetSize, fmt.Sprintf("size=%d", a.Size)},
		{a.AtimeHow == nfs3.ServerTime, "atime=now"},
		{a.AtimeHow == nfs3.ClientTime, fmt.Sprintf("atime=%d.%09d", a.Atime.Sec, a.Atime.Nsec)},
		{a.MtimeHow == nfs3.ServerTime, "mtime=now"},
		{a.MtimeHow == nfs3.ClientTime, fmt.Sprintf("mtime=%d.%09d", a.Mtime.Sec, a.Mtime.Nsec)},
	} {
		if f.set {
			s += " " + f.text
		}
	}
	return s
}

func digest(h nfs3.FileHandle) string { return fmt.Sprintf("fh=%#08x", crc32.ChecksumIEEE(h)) }

func dirOp(a *nfs3.DirOpArgs) string { return digest(a.Dir) + " name=" + quote(a.Name) }

// quote returns a name on one line, whatever is in it.
func quote(s string) string {
	if len(s) > maxName {
		return fmt.Sprintf("%q... (%d octets)", s[:maxName], len(s))
	}
	return fmt.Sprintf("%q", s)
}
