package decode

import (
	"fmt"
	"maps"
	"slices"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/rpcrdma"
)

// Counts holds how often things occur in a capture. The keys are those of the table that
// testdata/tshark-counts.sh makes with tshark:
//
//	mpa.req mpa.rep mpa.fpdu   MPA Requests, Replies, FPDUs
//	opcode.0x03                RDMAP opcodes, per FPDU
//	rc.0x04                    opcodes of reliable connections, per packet
//	msg_type.0                 RPC-over-RDMA message types by number
//	errcode.1                  error codes in RDMA_ERROR
//	chunk.read                 segments in Read lists
//	chunk.write chunk.reply    Write chunks, Reply chunks
//	handle                     RDMA segments of all three kinds
//	rpc.0 rpc.1                RPC calls, replies
//	nfs3.6                     NFSv3 calls and replies by procedure number
//
// and these, which tshark does not count:
//
//	crc.bad                    FPDUs with a wrong CRC
//	error                      frames with something wrong
//	undecoded                  octets that were not decoded
type Counts map[string]int

// Add counts one event.
func (c Counts) Add(e *Event) {
	if e.Err != nil && e.Kind != KindUndecoded {
		c["error"]++
	}
	switch e.Kind {
	case KindOpen, KindClose:
	case KindRecord:
		c["rpc.tcp"]++
	case KindStartup:
		switch {
		case e.Manager != "":
		case e.Startup.IsReply:
			c["mpa.rep"]++
		default:
			c["mpa.req"]++
		}
	case KindPacket:
		c[fmt.Sprintf("rc.0x%02x", e.RC.Opcode)]++
		c.upper(e)
	case KindUndecoded:
		c["undecoded"] += e.Len
	case KindFPDU:
		c["mpa.fpdu"]++
		c.fpdu(e)
	}
}

func (c Counts) fpdu(e *Event) {
	if e.FPDU.CRCState == CRCBad {
		c["crc.bad"]++
	}
	if e.RDMAP != nil {
		c[fmt.Sprintf("opcode.0x%02x", uint8(e.RDMAP.Op))]++
	}
	c.upper(e)
}

func (c Counts) upper(e *Event) {
	if e.Header != nil {
		c.header(e.Header)
	}
	if r := e.RPC; r != nil && !r.Again {
		if r.IsReply {
			c["rpc.1"]++
		} else {
			c["rpc.0"]++
		}
		if r.Prog == nfs3.Program && r.Vers == nfs3.Version {
			c[fmt.Sprintf("nfs3.%d", r.Proc)]++
		}
	}
}

func (c Counts) header(h *rpcrdma.Header) {
	c[fmt.Sprintf("msg_type.%d", uint32(h.Type))]++
	if h.Err != 0 {
		c[fmt.Sprintf("errcode.%d", uint32(h.Err))]++
	}
	n := len(h.Read)
	c.plus("chunk.read", n)
	c.plus("chunk.write", len(h.Write))
	for _, w := range h.Write {
		n += len(w)
	}
	if h.HasReply {
		c["chunk.reply"]++
		n += len(h.Reply)
	}
	c.plus("handle", n)
}

// plus adds n, but makes no key for 0.
func (c Counts) plus(key string, n int) {
	if n > 0 {
		c[key] += n
	}
}

// Keys returns the keys in order.
func (c Counts) Keys() []string { return slices.Sorted(maps.Keys(c)) }
