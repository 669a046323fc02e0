package cases

import (
	"encoding/binary"
	"fmt"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

// message is a Send of the peer.
func (w *Watcher) message(send []byte) {
	var h rpcrdma.Header
	n, err := h.Decode(send, nil)
	if err != nil && len(send) >= 20 && h.Type == rpcrdma.MsgTypeError && binary.BigEndian.Uint32(send[16:]) == uint32(rpcrdma.ErrChunk) {
		h.Err, err = rpcrdma.ErrChunk, nil // of an RDMA version that does not exist
	}
	if err != nil {
		w.answer(Answer{XID: h.XID, Kind: KindNonsense, Text: fmt.Sprintf("a Send of %d octets that does not decode: %v", len(send), err)})
		return
	}
	a := Answer{XID: h.XID, Credit: h.Credit}
	switch h.Type {
	case rpcrdma.MsgTypeError:
		w.rdmaError(&h, &a)
	case rpcrdma.MsgTypeMsg:
		w.rpcReply(&h, &a, send[n:])
	case rpcrdma.MsgTypeNoMsg:
		if msg, there := w.replyChunk(&h); there {
			w.rpcReply(&h, &a, msg)
		} else {
			a.Kind, a.Text = KindAnswered, "answered, into memory that does not exist"
		}
	default:
		a.Kind, a.Text = KindNonsense, h.Type.String()
	}
	w.answer(a)
}

// answer keeps a.
func (w *Watcher) answer(a Answer) {
	if a.Credit == 0 && a.Kind != KindNonsense {
		w.breach("a reply grants no credit (RFC 8166 Section 3.3.1)")
	}
	if w.Seen.Answer(a.XID) != nil && !w.try.Again {
		w.breach("a second answer to XID %#x", a.XID)
	}
	if len(w.Seen.Answers) < 1<<16 {
		w.Seen.Answers = append(w.Seen.Answers, a)
	}
}

func (w *Watcher) rdmaError(h *rpcrdma.Header, a *Answer) {
	switch h.Err {
	case rpcrdma.ErrVers:
		a.Kind, a.Text = KindErrVers, fmt.Sprintf("ERR_VERS %d to %d", h.Low, h.High)
		if h.Low > h.High || h.Low > rpcrdma.Version || h.High < rpcrdma.Version {
			w.breach("ERR_VERS says versions %d to %d, but this peer speaks 1", h.Low, h.High)
		}
	case rpcrdma.ErrChunk:
		a.Kind, a.Text = KindErrChunk, "ERR_CHUNK"
	}
}

// rpcReply reads an RPC reply. Those to NULL have no results.
func (w *Watcher) rpcReply(h *rpcrdma.Header, a *Answer, msg []byte) {
	var r xdr.ReplyHeader
	d := xdr.NewDecoder(msg)
	if err := r.Parse(&d); err != nil {
		a.Kind, a.Text = KindNonsense, fmt.Sprintf("an RPC reply that does not decode: %v", err)
		return
	}
	if r.XID != h.XID && !w.try.TwoXIDs {
		w.breach("rdma_xid is %#x, the XID of the reply %#x", h.XID, r.XID)
	}
	if len(h.Read) > 0 {
		w.breach("a reply with a read list (RFC 8166 Section 4.3.1)")
	}
	a.Kind, a.Text = replyKind(&r)
	if about := w.try.about(); about != 0 && h.XID == about {
		w.returned(h)
	}
}

// about is the XID of the call whose lists are Lists.
func (t *Try) about() uint32 {
	if len(t.Subjects) != 1 {
		return 0
	}
	return t.Subjects[0]
}

// returned compares the chunk lists of a reply with those of the call (RFC 8166 Section 4.3): unless the try is about
// READ, there is no result that could be in a write chunk.
func (w *Watcher) returned(h *rpcrdma.Header) {
	sent := &w.try.Lists
	if len(h.Write) != len(sent.Write) {
		w.breach("%d write chunks came back of %d", len(h.Write), len(sent.Write))
		return
	}
	n := uint64(0)
	for i, c := range h.Write {
		w.same("write chunk", c, sent.Write[i], w.try.Fills)
		for _, s := range c {
			n += uint64(s.Length)
		}
	}
	if w.try.Fills && n == 0 {
		w.breach("no data came: is the handle that of a file with 5 octets, which anybody may read?")
	}
	if h.HasReply && !sent.HasReply {
		w.breach("a reply chunk came back that was not offered")
	} else if h.HasReply {
		w.same("reply chunk", h.Reply, sent.Reply, true)
	}
}

func (w *Watcher) same(what string, got, sent chunks.WriteChunk, used bool) {
	if len(got) != len(sent) {
		w.breach("a %s of %d segments came back with %d", what, len(sent), len(got))
		return
	}
	for i, g := range got {
		s := sent[i]
		if g.Handle != s.Handle || g.Offset != s.Offset {
			w.breach("a segment of a %s came back as another one", what)
		}
		if g.Length > s.Length || g.Length > 0 && !used {
			w.breach("a segment of a %s, %d octets, came back with %d", what, s.Length, g.Length)
		}
	}
}

// replyChunk returns what the peer has written into the reply chunk, and nothing if the header offered
// memory that does not exist.
func (w *Watcher) replyChunk(h *rpcrdma.Header) (msg []byte, there bool) {
	for _, s := range h.Reply {
		found := s.Length == 0
		for i, m := range w.try.Memory {
			if m.Data == nil && within(m.Segment, ddp.STag(s.Handle), s.Offset, int(s.Length)) {
				at := s.Offset - m.Segment.Offset
				msg, found = append(msg, w.mem[i][at:at+uint64(s.Length)]...), true
			}
		}
		if !found {
			return msg, false
		}
	}
	return msg, true
}

func replyKind(r *xdr.ReplyHeader) (Kind, string) {
	if r.Denied {
		if r.Reject == xdr.RPCMismatch {
			return KindRPCMismatch, fmt.Sprintf("RPC_MISMATCH %d to %d", r.Low, r.High)
		}
		return KindAuthError, "AUTH_ERROR " + r.AuthStat.String()
	}
	switch r.Accept {
	case xdr.Success:
		return KindAnswered, "answered SUCCESS"
	case xdr.ProgUnavail:
		return KindProgUnavail, "PROG_UNAVAIL"
	case xdr.ProgMismatch:
		return KindProgMismatch, fmt.Sprintf("PROG_MISMATCH %d to %d", r.Low, r.High)
	case xdr.ProcUnavail:
		return KindProcUnavail, "PROC_UNAVAIL"
	case xdr.GarbageArgs:
		return KindGarbageArgs, "GARBAGE_ARGS"
	case xdr.SystemErr:
		return KindSystemErr, "SYSTEM_ERR"
	}
	return KindNonsense, "accept_stat " + r.Accept.String()
}
