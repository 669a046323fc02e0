package rpcrdma

import (
	"encoding/binary"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/xdr"
)

// ForRequester reports whether a Send is for the [Requester] of the end that received it, or for
// its [Responder], on a connection with both directions (RFC 8167). The message decides, not the
// role of the end:
//
//	RDMA_MSG    msg_type of the RPC message: REPLY or CALL
//	RDMA_NOMSG  a read list is a call, else a reply chunk is a reply
//	RDMA_ERROR  answers a call
//	RDMA_DONE   follows a reply
//
// If the Send does not tell, and so neither machine can use it, ForRequester returns byDefault:
// true at the end that opened the connection. It borrows send, checks its lengths and allocates
// nothing.
func ForRequester(send []byte, byDefault bool) bool {
	if len(send) < FixedSize {
		return byDefault
	}
	switch typ := MsgType(binary.BigEndian.Uint32(send[12:])); {
	case typ == MsgTypeError:
		return true
	case binary.BigEndian.Uint32(send[4:]) != Version:
		return byDefault
	case typ == MsgTypeDone:
		return false
	case typ > MsgTypeNoMsg:
		return byDefault
	}
	l := peekLists(send[FixedSize:])
	switch {
	case !l.ok:
		return byDefault
	case MsgType(binary.BigEndian.Uint32(send[12:])) == MsgTypeMsg:
		_, typ, ok := xdr.PeekXID(l.rest)
		if !ok || typ > xdr.MsgReply {
			return byDefault
		}
		return typ == xdr.MsgReply
	case l.read:
		return false
	case l.reply:
		return true
	}
	return byDefault
}

// peeked is what peekLists finds.
type peeked struct {
	read, reply bool   // there is a read list, a reply chunk
	rest        []byte // after the lists
	ok          bool   // the lists end within the Send
}

// peekLists walks over the lists of a header without taking anything out of them.
func peekLists(b []byte) (l peeked) {
	w := walk{b}
	for w.more() { // read list
		l.read = true
		w.skip(chunks.ReadSegmentSize)
	}
	for w.more() { // write list
		w.skipChunk()
	}
	if w.more() {
		l.reply = true
		w.skipChunk()
	}
	l.rest, l.ok = w.b, w.b != nil
	return l
}

// walk is the octets not walked over, nil when there were too few.
type walk struct{ b []byte }

// more reads the word that says whether something follows. Choice: here any word but 0 says
// so; the decoder of the header refuses those other than 1.
func (w *walk) more() bool { return w.word() != 0 }

func (w *walk) word() uint32 {
	if len(w.b) < 4 {
		w.b = nil
		return 0
	}
	v := binary.BigEndian.Uint32(w.b)
	w.b = w.b[4:]
	return v
}

func (w *walk) skip(n int) {
	if len(w.b) < n {
		w.b = nil
		return
	}
	w.b = w.b[n:]
}

func (w *walk) skipChunk() {
	n := uint64(w.word()) * chunks.SegmentSize
	if n > uint64(len(w.b)) {
		w.b = nil
		return
	}
	w.b = w.b[n:]
}
