package decode

import (
	"errors"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/xdr"
)

// TestOperations: one operation per row, its arguments or results built from letters: digits are
// words, V and S as in walker, "x" an opaque of five octets.
func TestOperations(t *testing.T) {
	build := func(items string) (b []byte) {
		for _, c := range items {
			switch {
			case c >= '0' && c <= '9':
				b = xdr.AppendUint32(b, uint32(c-'0'))
			case c == 'q', c == 'V':
				b = xdr.AppendUint64(b, 7)
			case c == 'S':
				b = append(b, make([]byte, 16)...)
			default:
				b = xdr.AppendOpaque(b, []byte("hello"))
			}
		}
		return b
	}
	for _, tt := range []struct {
		name     string
		callback bool
		op       uint32
		status   int64 // -1: arguments
		items    string
	}{
		{name: "LOCK of a new owner", op: 12, status: -1, items: "20qq11S1qx"},
		{name: "LOCK of a known owner", op: 12, status: -1, items: "20qq0S1"},
		{name: "LOCK denied", op: 12, status: 10010, items: "qq2qx"},
		{name: "LOCK failed", op: 12, status: 10012},
		{name: "LOCKT denied", op: 13, status: 10010, items: "qq2qx"},
		{name: "OPEN, create exclusive by name", op: 18, status: -1, items: "120qx12V0x"},
		{name: "OPEN, create exclusive with attributes", op: 18, status: -1, items: "120qx13V211x5S"},
		{name: "OPEN, no create, by handle", op: 18, status: -1, items: "120qx04"},
		{name: "OPEN with a delegation to write", op: 18, status: 0, items: "S0qq00" + "2S01q000x"},
		{name: "OPEN with none and why", op: 18, status: 0, items: "S0qq0217" + "311"},
		{name: "SETATTR refused", op: 34, status: 22, items: "217"},
		{name: "SETCLIENTID in use", op: 35, status: 10017, items: "xx"},
		{name: "EXCHANGE_ID with SSV", op: 42, status: -1, items: "Vx1" + "2" + "1110" + "1x1x" + "33" + "1xxq2"},
		{name: "EXCHANGE_ID with SSV, answered", op: 42, status: 0, items: "q11" + "2" + "1110" + "1111" + "1x" + "qxx" + "1xxq2"},
		{name: "BACKCHANNEL_CTL", op: 40, status: -1, items: "1" + "3" + "0" + "11x00211" + "61xx"},
		{name: "GETDEVICEINFO too small", op: 47, status: 10005, items: "9"},
		{name: "LAYOUTGET", op: 50, status: 0, items: "0S" + "2" + "qq12x" + "qq12x"},
		{name: "LAYOUTRETURN of a file", op: 51, status: -1, items: "0111qqSx"},
		{name: "READDIR", op: 26, status: 0, items: "V" + "1qx0x" + "1qx217x" + "01"},
		{name: "COPY", op: 60, status: 0, items: "1S" + "q2V" + "11"},
		{name: "COPY from servers", op: 60, status: -1, items: "SSqqq11" + "3" + "1x" + "2x" + "3xx"},
		{name: "READ_PLUS", op: 68, status: 0, items: "1" + "2" + "0qx" + "1qq"},
		{name: "SECINFO", op: 33, status: 0, items: "3" + "1" + "6x01" + "0"},
		{name: "LISTXATTRS", op: 74, status: 0, items: "q2xx1"},
		{name: "CB_SEQUENCE", callback: true, op: 11, status: -1, items: "S1111" + "1S2" + "1111"},
		{name: "CB_LAYOUTRECALL", callback: true, op: 5, status: -1, items: "1111xqqS"},
		{name: "CB_OFFLOAD", callback: true, op: 15, status: -1, items: "xS0" + "0q2V"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body := build(tt.items)
			var b []byte
			if tt.status >= 0 {
				b = xdr.AppendUint32(b, uint32(tt.status))
			}
			b = xdr.AppendOpaque(b, []byte("tag"))
			if tt.status < 0 {
				b = xdr.AppendUint32(b, 1)
				if tt.callback {
					b = xdr.AppendUint32(b, 0)
				}
			}
			b = xdr.AppendUint32(xdr.AppendUint32(b, 1), tt.op)
			if tt.status >= 0 {
				b = xdr.AppendUint32(b, uint32(tt.status))
			}
			b = append(b, body...)
			c := newCompound(b, tt.callback, tt.status >= 0, nil)
			if c.Err != nil || len(c.Ops) != 1 || len(c.Ops[0].Body) != len(body) || c.Tag != "tag" {
				t.Fatalf("%+v", c)
			}
			for n := range len(b) { // nothing is taken for more than it is
				if c := newCompound(b[:n], tt.callback, tt.status >= 0, nil); c.Err == nil {
					t.Fatalf("whole with %d of %d octets: %+v", n, len(b), c)
				}
			}
			c = newCompound(append(b, 0, 0, 0, 0), tt.callback, tt.status >= 0, nil)
			if !errors.Is(c.Err, ErrTrailing) {
				t.Errorf("with four octets more: %v", c.Err)
			}
		})
	}
}

// TestUnknownOperation: decoding stops where it must, and says so.
func TestUnknownOperation(t *testing.T) {
	b := xdr.AppendUint32(xdr.AppendOpaque(nil, nil), 2)
	for _, op := range []uint32{3, 24, 4711, 24} { // the count, then operations
		b = xdr.AppendUint32(b, op)
	}
	c := newCompound(b, false, false, nil)
	if len(c.Ops) != 2 || c.Ops[1].Name != "op-4711" || !errors.Is(c.Err, xdr.ErrRange) {
		t.Errorf("%+v", c)
	}
}

func TestNFS4Status(t *testing.T) {
	for code, want := range map[uint32]string{
		0: "NFS4_OK", 1: "NFS4ERR_PERM", 70: "NFS4ERR_STALE", 10001: "NFS4ERR_BADHANDLE", 10002: "nfsstat4(10002)",
		10018: "NFS4ERR_RESOURCE", 10044: "NFS4ERR_OP_ILLEGAL", 10063: "NFS4ERR_SEQ_MISORDERED",
		10073: "nfsstat4(10073)", 10087: "NFS4ERR_DELEG_REVOKED", 10096: "NFS4ERR_XATTR2BIG", 10097: "nfsstat4(10097)",
	} {
		if got := nfs4Status(code); got != want {
			t.Errorf("%d: %s, want %s", code, got, want)
		}
	}
}

// TestMoved: items that travel in chunks are skipped where they would be: arguments by the Positions in the
// unreduced call, results in the order of the Write chunks.
func TestMoved(t *testing.T) {
	const head = 40
	write := func(b []byte, n uint32) []byte { // WRITE without its data
		b = append(xdr.AppendUint32(b, 38), make([]byte, 16+8+4)...)
		return xdr.AppendUint32(b, n)
	}
	b := xdr.AppendUint32(xdr.AppendUint32(xdr.AppendOpaque(nil, nil), 1), 3)
	b = write(b, 5)
	first := head + len(b)
	b = write(b, 8)
	second := head + len(b) + 8 // the first data and their pad
	b = append(write(b, 4), "data"...)
	at := func(pos int) chunks.ReadSegment { return chunks.ReadSegment{Position: uint32(pos)} }
	c := newCompound(b, false, false, movedArguments([]chunks.ReadSegment{at(first), at(second)}, head))
	if c.Err != nil || len(c.Ops) != 3 || c.Ops[0].Moved != 5 || c.Ops[1].Moved != 8 || c.Ops[2].Moved != 0 {
		t.Errorf("%+v", c)
	}

	b = xdr.AppendUint32(xdr.AppendOpaque(xdr.AppendUint32(nil, 0), nil), 3)
	for i, data := range []string{"", "data", ""} { // of three READs the second has its data inline
		for _, w := range []uint32{25, 0, 1, uint32(4 + i)} {
			b = xdr.AppendUint32(b, w)
		}
		if b = append(b, data...); i == 1 {
			b = append(b, 'x', 0, 0, 0)
		}
	}
	chunk := func(n uint32) chunks.WriteChunk { return chunks.WriteChunk{{Length: n}} }
	c = newCompound(b, false, true, movedResults([]chunks.WriteChunk{chunk(4), chunk(0), chunk(8)}))
	if c.Err != nil || len(c.Ops) != 3 || c.Ops[0].Moved != 4 || c.Ops[1].Moved != 0 || c.Ops[2].Moved != 6 {
		t.Errorf("%+v", c)
	}
}
