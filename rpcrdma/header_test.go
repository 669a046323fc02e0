package rpcrdma_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rpcrdma"
	"github.com/stag-rdma/stag/xdr"
)

func action(t *testing.T, err error) rpcrdma.Action {
	t.Helper()
	he, ok := errors.AsType[*rpcrdma.HeaderError](err)
	if !ok {
		t.Fatalf("error %v is a %T, want *HeaderError", err, err)
	}
	return he.Action
}

func TestHeaderVectors(t *testing.T) {
	var h rpcrdma.Header // reused: leftovers of one vector must not show in the next
	for _, v := range wireTable {
		t.Run(v.name, func(t *testing.T) {
			send := unhex(t, v.hex)
			if len(send) != v.size {
				t.Fatalf("vector of %d octets, want %d", len(send), v.size)
			}
			wire := send[:len(send)-v.payload]
			if got := v.want.Append(bytes.Repeat([]byte{0xa5}, 3))[3:]; !bytes.Equal(got, wire) {
				t.Errorf("append\n got %x\nwant %x", got, wire)
			}
			if got := v.want.Size(); got != len(wire) {
				t.Errorf("size = %d, want %d", got, len(wire))
			}
			n, err := h.Decode(send, nil)
			if err != nil || n != len(wire) {
				t.Fatalf("decode = %d, %v; want %d", n, err, len(wire))
			}
			if got := h.Append(nil); !bytes.Equal(got, wire) {
				t.Errorf("decoded %+v\nwant    %+v", h, v.want)
			}
			if h.Align != v.want.Align || h.Err != v.want.Err || h.Low != v.want.Low || h.HasReply != v.want.HasReply {
				t.Errorf("decoded %+v\nwant    %+v", h, v.want)
			}
		})
	}
}

// TestHeaderTruncated: every prefix of every header, with what becomes of it
// (RFC 8166 Section 4.5 and its conflict with its own short messages).
func TestHeaderTruncated(t *testing.T) {
	var h rpcrdma.Header
	for _, v := range wireTable {
		send := unhex(t, v.hex)
		least := v.min
		if least == 0 {
			least = 28
		}
		for n := range len(send) - v.payload {
			_, err := h.Decode(send[:n], nil)
			want := rpcrdma.ActErrChunk
			if n < least {
				want = rpcrdma.ActDrop
			}
			if err == nil || action(t, err) != want {
				t.Errorf("%s, first %d octets: %v, want %v", v.name, n, err, want)
			}
			if n >= rpcrdma.FixedSize && (h.XID != vectorXID || h.Credit != v.want.Credit || h.Type != v.want.Type) {
				t.Errorf("%s, first %d octets: fixed words lost: %+v", v.name, n, h)
			}
			if !h.Empty() {
				t.Errorf("%s, first %d octets: lists left behind", v.name, n)
			}
		}
	}
}

func TestHeaderErrors(t *testing.T) {
	const vers, proc, body = 4, 12, 16
	type words map[int]uint32 // by offset
	for _, c := range []struct {
		name   string
		hex    string
		set    words
		cut    int // octets kept; 0: all
		action rpcrdma.Action
		cause  error
	}{
		{"version 2", vectors.null, words{vers: 2}, 0, rpcrdma.ActErrVers, rpcrdma.ErrVersion},
		{"version 0", vectors.null, words{vers: 0}, 0, rpcrdma.ActErrVers, rpcrdma.ErrVersion},
		{"version 2, unknown type", vectors.null, words{vers: 2, proc: 9}, 28, rpcrdma.ActErrVers, rpcrdma.ErrVersion},
		{"version 2, unknown type, 27 octets", vectors.null, words{vers: 2, proc: 9}, 27, rpcrdma.ActDrop, rpcrdma.ErrRunt},
		{"version 2, 24 octets", vectors.null, words{vers: 2}, 24, rpcrdma.ActDrop, rpcrdma.ErrRunt},
		{"version 2 with RDMA_DONE", vectors.done, words{vers: 2}, 0, rpcrdma.ActDrop, rpcrdma.ErrRunt},
		{"24 octets", vectors.null, nil, 24, rpcrdma.ActDrop, rpcrdma.ErrRunt},
		{"type 9", vectors.null, words{proc: 9}, 0, rpcrdma.ActErrChunk, rpcrdma.ErrProc},
		{"type 2^32-1", vectors.null, words{proc: 0xffffffff}, 0, rpcrdma.ActErrChunk, rpcrdma.ErrProc},
		{"type 9, 24 octets", vectors.null, words{proc: 9}, 24, rpcrdma.ActDrop, rpcrdma.ErrRunt},
		{"error code 0", vectors.errVers, words{body: 0}, 0, rpcrdma.ActDrop, rpcrdma.ErrCodeUnknown},
		{"error code 3", vectors.errVers, words{body: 3}, 0, rpcrdma.ActDrop, rpcrdma.ErrCodeUnknown},
		{"ERR_VERS of 24 octets", vectors.errVers, words{vers: 1}, 24, rpcrdma.ActDrop, rpcrdma.ErrRunt},
		{"ERR_CHUNK for version 2, 20 octets", vectors.errChunk, words{vers: 2}, 0, rpcrdma.ActDrop, rpcrdma.ErrRunt},
		{"ERR_CHUNK of 16 octets", vectors.errChunk, nil, 16, rpcrdma.ActDrop, rpcrdma.ErrRunt},
		{"MSGP of 28 octets", vectors.msgp, nil, 28, rpcrdma.ActErrChunk, xdr.ErrShort},
		{"MSGP of 32 octets", vectors.msgp, nil, 32, rpcrdma.ActErrChunk, xdr.ErrShort},
		{"read list boolean", vectors.write, words{body: 2}, 0, rpcrdma.ActErrChunk, xdr.ErrRange},
		{"read list goes on in the payload", vectors.write, words{64: 1}, 0, rpcrdma.ActErrChunk, nil},
		{"write list boolean", vectors.read, words{20: 0x80000001}, 0, rpcrdma.ActErrChunk, xdr.ErrRange},
		{"segment count over 2^31", vectors.read, words{24: 0xffffffff}, 0, rpcrdma.ActErrChunk, xdr.ErrRange},
		{"segment count 2^31-1", vectors.read, words{24: 0x7fffffff}, 0, rpcrdma.ActErrChunk, xdr.ErrShort},
		{"segment length 2^32-1", vectors.write, words{28: 0xffffffff}, 0, rpcrdma.ActErrChunk, chunks.ErrTooLarge},
		{"segment wraps", vectors.write, words{32: 0xffffffff, 36: 0xfffffff0}, 0, rpcrdma.ActErrChunk, chunks.ErrWrap},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := unhex(t, c.hex)
			for off, w := range c.set {
				binary.BigEndian.PutUint32(b[off:], w)
			}
			if c.cut > 0 {
				b = b[:c.cut]
			}
			var h rpcrdma.Header
			n, err := h.Decode(b, nil)
			if err == nil {
				t.Fatalf("decoded %d octets: %+v", n, h)
			}
			if got := action(t, err); got != c.action || c.cause != nil && !errors.Is(err, c.cause) {
				t.Errorf("error %v, want %v because of %v", err, c.action, c.cause)
			}
		})
	}
}

// TestHeaderWords sets every word of every vector to values at the edges.
func TestHeaderWords(t *testing.T) {
	var h rpcrdma.Header
	for _, v := range wireTable {
		send := unhex(t, v.hex)
		for off := 0; off < len(send); off += 4 {
			for _, word := range edgeWords {
				b := bytes.Clone(send)
				binary.BigEndian.PutUint32(b[off:], word)
				n, err := h.Decode(b, nil)
				if err != nil {
					action(t, err)
					continue
				}
				if got := h.Append(nil); !bytes.Equal(got, b[:n]) || h.Size() != n {
					t.Errorf("%s, word at %d = %#x: encodes again as %x, was %x", v.name, off, word, got, b[:n])
				}
			}
		}
	}
}

var edgeWords = []uint32{0, 1, 2, 3, 4, 5, 0x61, 0x7fffffff, 0x80000000, 0xfffff000, 0xfffffffc, 0xffffffff}

func TestStrings(t *testing.T) {
	for got, want := range map[string]string{
		rpcrdma.MsgTypeMsg.String():    "RDMA_MSG",
		rpcrdma.MsgTypeError.String():  "RDMA_ERROR",
		rpcrdma.MsgType(0x2a).String(): "MsgType(0x2a)",
		rpcrdma.ErrVers.String():       "ERR_VERS",
		rpcrdma.ErrChunk.String():      "ERR_CHUNK",
		rpcrdma.ErrCode(0x2a).String(): "ErrCode(0x2a)",
		rpcrdma.ActDrop.String():       "drop",
		rpcrdma.ActErrVers.String():    "ERR_VERS",
		rpcrdma.ActErrChunk.String():   "ERR_CHUNK",
		rpcrdma.FormLong.String():      "long",
		rpcrdma.FormError.String():     "error",
		rpcrdma.Drop.String():          "drop",
		rpcrdma.Pull.String():          "pull",
		(&rpcrdma.HeaderError{rpcrdma.ActErrChunk, rpcrdma.ErrProc}).Error(): "rpcrdma: header: unknown rdma_proc (ERR_CHUNK)",
		(&rpcrdma.RemoteError{Code: rpcrdma.ErrChunk}).Error():               "rpcrdma: peer answered ERR_CHUNK",
		(&rpcrdma.RemoteError{rpcrdma.ErrVers, 2, 3}).Error():                "rpcrdma: peer answered ERR_VERS, serves versions 2 to 3",
		(&rpcrdma.ProtocolError{0x2a, rpcrdma.ErrReadList}).Error(): "rpcrdma: bad reply to XID 0x0000002a: " +
			"rpcrdma: reply has a read list",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if err := error(&rpcrdma.ProtocolError{1, chunks.ErrReturned}); !errors.Is(err, chunks.ErrReturned) {
		t.Error("ProtocolError hides its cause")
	}
}
