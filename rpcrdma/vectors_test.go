package rpcrdma_test

import (
	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/rpcrdma"
)

// vectors are whole Sends, hex, from the protocol's test vectors: XID 01020304,
// null authentication, a file handle of octets 00 to 1f.
var vectors = struct {
	null, nullReply, write, read, readReply, readStale      string
	longCall, longReply, msgp, done, errVers, errChunk      string
	ccpCall, ccpReply, msgpWrite, readListReply, longByRead string
}{
	null: `01020304 00000001 00000020 00000000 00000000 00000000 00000000
		01020304 00000000 00000002 000186a3 00000003 00000000 0000000000000000 0000000000000000`,
	nullReply: `01020304 00000001 00000010 00000000 00000000 00000000 00000000
		01020304 00000001 00000000 0000000000000000 00000000`,
	write: `01020304 00000001 00000020 00000000
		00000001 00000060 a1a1a1a1 00001000 0000000000010000
		00000001 00000060 a1a1a1a2 00000ffe 0000000000020000 00000000 00000000 00000000
		01020304 00000000 00000002 000186a3 00000003 00000007 0000000000000000 0000000000000000
		00000020 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f
		0000000000000000 00001ffe 00000002 00001ffe`,
	read: `01020304 00000001 00000020 00000000 00000000
		00000001 00000002 b1b1b1b1 00001000 0000000000030000 b1b1b1b2 00001000 0000000000040000
		00000000 00000000
		01020304 00000000 00000002 000186a3 00000003 00000006 0000000000000000 0000000000000000
		00000020 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f
		0000000000000000 00002000`,
	readReply: `01020304 00000001 00000020 00000000 00000000
		00000001 00000002 b1b1b1b1 00001000 0000000000030000 b1b1b1b2 00000388 0000000000040000
		00000000 00000000
		01020304 00000001 00000000 0000000000000000 00000000
		00000000 00000000 00001388 00000001 00001388`,
	readStale: `01020304 00000001 00000020 00000000 00000000
		00000001 00000002 b1b1b1b1 00000000 0000000000030000 b1b1b1b2 00000000 0000000000040000
		00000000 00000000
		01020304 00000001 00000000 0000000000000000 00000000 00000046 00000000`,
	longCall: `01020304 00000001 00000020 00000001
		00000001 00000000 c1c1c1c1 00000514 0000000000050000 00000000 00000000
		00000001 00000001 d1d1d1d1 00008000 0000000000060000`,
	longReply: `01020304 00000001 00000020 00000001 00000000 00000000
		00000001 00000001 d1d1d1d1 00005004 0000000000060000`,
	msgp: `01020304 00000001 00000020 00000002 00001000 00000400 00000000 00000000 00000000
		01020304 00000000 00000002 000186a3 00000003 00000000 0000000000000000 0000000000000000`,
	done:     `01020304 00000001 00000020 00000003`,
	errVers:  `01020304 00000002 00000020 00000004 00000001 00000001 00000001`,
	errChunk: `01020304 00000001 00000020 00000004 00000002`,
	ccpCall: `01020304 00000001 00000001 00000000 00000000 00000000 00000000
		01020304 00000000 00000002 00018841 00000001 00000001 0000000000000000 0000000000000000
		00001000 00001000 00000010`,
	ccpReply: `01020304 00000001 00000020 00000000 00000000 00000000 00000000
		01020304 00000001 00000000 0000000000000000 00000000 00001000 00000004 00000010`,
	msgpWrite: `01020304 00000001 00000020 00000002 00000010 00000028 00000000 00000000 00000000
		01020304 00000000 00000002 000186a3 00000003 00000007 0000000000000000 0000000000000000
		00000020 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f
		0000000000000000 00000028 00000002 00000028 000000000000000000000000
		000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f2021222324252627`,
	readListReply: `01020304 00000001 00000010 00000000
		00000001 0000002c e1e1e1e1 00001388 0000000000070000 00000000 00000000 00000000
		01020304 00000001 00000000 0000000000000000 00000000
		00000000 00000000 00001388 00000001 00001388`,
	longByRead: `01020304 00000001 00000010 00000001
		00000001 00000000 e2e2e2e2 00005004 0000000000080000 00000000 00000000 00000000`,
}

const vectorXID = 0x01020304

func segment(h uint32, n uint32, off uint64) chunks.Segment {
	return chunks.Segment{Handle: chunks.Handle(h), Length: n, Offset: off}
}

// readChunk is the write chunk of vectors.read, with the lengths given.
func readChunk(a, b uint32) chunks.WriteChunk {
	return chunks.WriteChunk{segment(0xb1b1b1b1, a, 0x30000), segment(0xb1b1b1b2, b, 0x40000)}
}

// wireTable pairs every vector with the header it stands for, its size and the
// payload behind.
var wireTable = []struct {
	name    string
	hex     string
	size    int // of the Send
	want    rpcrdma.Header
	payload int
	min     int // shortest prefix that is not dropped; 0: 28
}{
	{"6.1 NULL", vectors.null, 68, rpcrdma.Header{XID: vectorXID, Vers: 1, Credit: 32}, 40, 0},
	{"6.2 NULL reply", vectors.nullReply, 52, rpcrdma.Header{XID: vectorXID, Vers: 1, Credit: 16}, 24, 0},
	{"6.3 WRITE", vectors.write, 172, rpcrdma.Header{XID: vectorXID, Vers: 1, Credit: 32, Lists: chunks.Lists{Read: []chunks.ReadSegment{
		{Position: 96, Segment: segment(0xa1a1a1a1, 4096, 0x10000)},
		{Position: 96, Segment: segment(0xa1a1a1a2, 4094, 0x20000)},
	}}}, 96, 0},
	{"6.4 READ", vectors.read, 156, rpcrdma.Header{XID: vectorXID, Vers: 1, Credit: 32, Lists: chunks.Lists{
		Write: []chunks.WriteChunk{readChunk(4096, 4096)},
	}}, 88, 0},
	{"6.5 READ reply", vectors.readReply, 112, rpcrdma.Header{XID: vectorXID, Vers: 1, Credit: 32, Lists: chunks.Lists{
		Write: []chunks.WriteChunk{readChunk(4096, 904)},
	}}, 44, 0},
	{"6.6 STALE", vectors.readStale, 100, rpcrdma.Header{XID: vectorXID, Vers: 1, Credit: 32, Lists: chunks.Lists{
		Write: []chunks.WriteChunk{readChunk(0, 0)},
	}}, 32, 0},
	{"6.7 long call", vectors.longCall, 72, rpcrdma.Header{XID: vectorXID, Vers: 1, Credit: 32, Type: rpcrdma.MsgTypeNoMsg, Lists: chunks.Lists{
		Read:     []chunks.ReadSegment{{Segment: segment(0xc1c1c1c1, 1300, 0x50000)}},
		HasReply: true, Reply: chunks.WriteChunk{segment(0xd1d1d1d1, 32768, 0x60000)},
	}}, 0, 0},
	{"6.8 long reply", vectors.longReply, 48, rpcrdma.Header{XID: vectorXID, Vers: 1, Credit: 32, Type: rpcrdma.MsgTypeNoMsg, Lists: chunks.Lists{
		HasReply: true, Reply: chunks.WriteChunk{segment(0xd1d1d1d1, 20484, 0x60000)},
	}}, 0, 0},
	{"6.9 MSGP", vectors.msgp, 76, rpcrdma.Header{XID: vectorXID, Vers: 1, Credit: 32, Type: rpcrdma.MsgTypeMsgP, Align: 4096, Thresh: 1024}, 40, 0},
	{"6.10 DONE", vectors.done, 16, rpcrdma.Header{XID: vectorXID, Vers: 1, Credit: 32, Type: rpcrdma.MsgTypeDone}, 0, 16},
	{"6.11 ERR_VERS", vectors.errVers, 28, rpcrdma.Header{XID: vectorXID, Vers: 2, Credit: 32, Type: rpcrdma.MsgTypeError, Err: rpcrdma.ErrVers, Low: 1, High: 1}, 0, 28},
	{"6.12 ERR_CHUNK", vectors.errChunk, 20, rpcrdma.Header{XID: vectorXID, Vers: 1, Credit: 32, Type: rpcrdma.MsgTypeError, Err: rpcrdma.ErrChunk}, 0, 20},
	{"6.13 CCP call", vectors.ccpCall, 80, rpcrdma.Header{XID: vectorXID, Vers: 1, Credit: 1}, 52, 0},
	{"6.14 CCP reply", vectors.ccpReply, 64, rpcrdma.Header{XID: vectorXID, Vers: 1, Credit: 32}, 36, 0},
	{"6.16 MSGP WRITE", vectors.msgpWrite, 184, rpcrdma.Header{XID: vectorXID, Vers: 1, Credit: 32, Type: rpcrdma.MsgTypeMsgP, Align: 16, Thresh: 40}, 148, 0},
	{"6.17 reply with a read list", vectors.readListReply, 96, rpcrdma.Header{XID: vectorXID, Vers: 1, Credit: 16, Lists: chunks.Lists{
		Read: []chunks.ReadSegment{{Position: 44, Segment: segment(0xe1e1e1e1, 5000, 0x70000)}},
	}}, 44, 0},
	{"6.18 long reply by read", vectors.longByRead, 52, rpcrdma.Header{XID: vectorXID, Vers: 1, Credit: 16, Type: rpcrdma.MsgTypeNoMsg, Lists: chunks.Lists{
		Read: []chunks.ReadSegment{{Segment: segment(0xe2e2e2e2, 20484, 0x80000)}},
	}}, 0, 0},
}
