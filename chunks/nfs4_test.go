package chunks_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/xdr"
)

// The parts that the compounds of the tests are made of, as XDR.
var (
	stateid  = make([]byte, 16)
	fattr    = append(words(nil, 2, 0x18, 0x20), xdr.AppendOpaque(nil, ramp(9, 1))...) // bitmap, values
	sequence = words(words(nil, 53), 1, 2, 3, 4, 5, 6, 7, 8)
	putfh    = append(words(nil, 22), nfsHandle(21)...)
	openArgs = cat(words(nil, 18, 1, 3, 0, 7, 8), xdr.AppendOpaque(nil, ramp(5, 2)), // owner
		words(nil, 1, 0), fattr, words(nil, 0), xdr.AppendString(nil, "name"))
	read4   = cat(words(nil, 25), stateid, words(nil, 0, 0, 70001))
	write4  = cat(words(nil, 38), stateid, words(nil, 0, 0, 2, 5))
	getattr = words(nil, 9, 2, 1, 2)
)

func cat(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// call4 and reply4 are COMPOUNDs of n operations.
func call4(n uint32, ops ...[]byte) []byte {
	return cat(xdr.AppendString(nil, "tag"), words(nil, 1, n), cat(ops...))
}

func reply4(status, n uint32, ops ...[]byte) []byte {
	return cat(words(nil, status), xdr.AppendString(nil, ""), words(nil, n), cat(ops...))
}

var (
	sequenceRes = words(nil, 53, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	putfhRes    = words(nil, 22, 0)
)

func TestNFS4FindArg(t *testing.T) {
	lnk := cat(words(nil, 6, 5, 4), []byte("path"), xdr.AppendString(nil, "l"), fattr)
	for _, tt := range []struct {
		name   string
		before []byte // up to the count
		n      int    // -1: not found
	}{
		{"WRITE of 4.0", call4(2, putfh, write4), 5},
		{"WRITE of 4.1", call4(4, sequence, putfh, write4), 5},
		{"behind OPEN", call4(5, sequence, putfh, openArgs, write4), 5},
		{"behind OPEN by handle", call4(3, cat(words(nil, 18, 1, 3, 0, 7, 8, 0, 0, 4)), write4), 5},
		{"behind OPEN exclusive", call4(3, cat(words(nil, 18, 1, 3, 0, 7, 8, 0, 1, 3, 1, 2), fattr, words(nil, 5), stateid), write4), 5},
		{"behind a symbolic link", call4(3, lnk, write4)[:len(call4(3, lnk[:12]))], 4},
		{"behind a device", call4(2, cat(words(nil, 6, 3, 1, 2), xdr.AppendString(nil, "d"), fattr), write4), 5},
		{"behind a directory", call4(2, cat(words(nil, 6, 2), xdr.AppendString(nil, "d"), fattr), write4), 5},
		{"behind SETATTR, LOOKUP, RENAME, READDIR", call4(5, cat(words(nil, 34), stateid, fattr),
			cat(words(nil, 15), xdr.AppendString(nil, "x")), cat(words(nil, 29), xdr.AppendString(nil, "x"), xdr.AppendString(nil, "yy")),
			words(nil, 26, 0, 0, 0, 0, 100, 200, 1, 3), write4), 5},
		{"READ alone", call4(3, sequence, putfh, read4), -1},
		{"behind LOCK", call4(3, words(nil, 12, 0, 0), write4), -1},
		{"behind what does not exist", call4(3, words(nil, 2), write4), -1},
		{"behind what does not exist yet", call4(3, words(nil, 9999), write4), -1},
		{"more operations than announced", call4(1, putfh, write4), -1},
		{"no operation", call4(0), -1},
		{"far too many", call4(1<<31, putfh, write4), -1},
		{"OPEN of an unknown claim", call4(2, words(nil, 18, 1, 3, 0, 7, 8, 0, 0, 7), write4), -1},
	} {
		pos, n, ok := chunks.NFS.FindArg(100003, 4, 1, tt.before)
		if ok != (tt.n >= 0) || ok && (n != tt.n || pos != len(tt.before)) {
			t.Errorf("%s: %d octets at %d of %d, %v; want %d", tt.name, n, pos, len(tt.before), ok, tt.n)
		}
		for i := range tt.before {
			if _, _, ok := chunks.NFS.FindArg(100003, 4, 1, tt.before[:i]); ok {
				t.Errorf("%s: found in the first %d octets of %d", tt.name, i, len(tt.before))
			}
		}
	}
	w := call4(2, putfh, write4)
	for _, other := range [][3]uint32{{100003, 3, 1}, {100003, 4, 0}, {100003, 4, 2}, {100005, 4, 1}} {
		if _, _, ok := chunks.NFS.FindArg(other[0], other[1], other[2], w); ok {
			t.Errorf("found in program %d", other)
		}
		if a, r := chunks.NFS.Eligible(other[0], other[1], other[2]); a || r {
			t.Errorf("eligible in program %d", other)
		}
	}
}

func TestNFS4Results(t *testing.T) {
	data, link := ramp(7, 3), ramp(4, 9)
	readRes := cat(words(nil, 25, 0, 1), xdr.AppendOpaque(nil, data))
	linkRes := cat(words(nil, 27, 0), xdr.AppendOpaque(nil, link))
	openRes := cat(words(nil, 18, 0), stateid, words(nil, 1, 2, 3, 4, 5, 0, 1, 7), words(nil, 1), stateid, words(nil, 0, 1, 2, 3), xdr.AppendString(nil, "who"))
	writeDeleg := cat(words(nil, 18, 0), stateid, words(nil, 1, 2, 3, 4, 5, 0, 0), words(nil, 2), stateid, words(nil, 0, 1, 5, 5, 1, 2, 3), xdr.AppendString(nil, "w"))
	noDeleg := cat(words(nil, 18, 0), stateid, words(nil, 1, 2, 3, 4, 5, 0, 0), words(nil, 3, 2, 1))
	for _, tt := range []struct {
		name string
		res  []byte
		want [][]byte
	}{
		{"READ", reply4(0, 3, sequenceRes, putfhRes, readRes), [][]byte{data}},
		{"READLINK", reply4(0, 2, putfhRes, linkRes), [][]byte{link}},
		{"two READs around a link", reply4(0, 5, putfhRes, readRes, putfhRes, linkRes, readRes), [][]byte{data, link, data}},
		{"behind OPEN, delegated", reply4(0, 2, openRes, readRes), [][]byte{data}},
		{"behind OPEN, delegated for writing", reply4(0, 2, writeDeleg, readRes), [][]byte{data}},
		{"behind OPEN, not delegated", reply4(0, 2, noDeleg, readRes), [][]byte{data}},
		{"behind GETATTR", reply4(0, 2, cat(words(nil, 9, 0), fattr), readRes), [][]byte{data}},
		{"a READ that failed", reply4(5, 2, putfhRes, words(nil, 25, 5)), nil},
		{"and one before it", reply4(5, 3, putfhRes, readRes, words(nil, 25, 5)), [][]byte{data}},
		{"behind READDIR", reply4(0, 2, words(nil, 26, 0, 0, 0, 0, 1), readRes), nil},
		{"a WRITE", reply4(0, 2, putfhRes, words(nil, 38, 0, 5, 2, 0, 0)), nil},
		{"cut short", reply4(0, 3, sequenceRes, putfhRes, readRes)[:len(reply4(0, 3, sequenceRes, putfhRes, readRes))-1], nil},
	} {
		var got [][]byte
		for _, it := range chunks.EligibleResults(chunks.NFS, 100003, 4, 1, tt.res, nil) {
			got = append(got, it.Data)
			if !bytes.Equal(tt.res[it.Pos:it.Pos+len(it.Data)], it.Data) {
				t.Errorf("%s: position %d", tt.name, it.Pos)
			}
		}
		if !slices.EqualFunc(got, tt.want, bytes.Equal) {
			t.Errorf("%s: %x, want %x", tt.name, got, tt.want)
		}
		pos, n, ok := chunks.NFS.FindResult(100003, 4, 1, tt.res)
		if len(tt.want) > 0 && (!ok || n != len(tt.want[0]) || !bytes.Equal(tt.res[pos:pos+n], tt.want[0])) {
			t.Errorf("%s: the first one: %d octets at %d, %v", tt.name, n, pos, ok)
		}
	}
}

func TestNFS4MaxResults(t *testing.T) {
	// What the results of a COMPOUND take at most, beside what its operations ask for, and the
	// longest link.
	const maxRest, maxPath = 64 << 10, 4096
	readdir := words(nil, 26, 0, 0, 0, 0, 100, 32768, 1, 3)
	for _, tt := range []struct {
		name       string
		args       []byte
		rest, item int // rest -1: not known
	}{
		{"GETATTR", call4(3, sequence, putfh, getattr), maxRest, 0},
		{"READ", call4(3, sequence, putfh, read4), maxRest, 70001},
		{"two READs", call4(3, putfh, read4, read4), maxRest + 70001, 70001},
		{"READLINK", call4(2, putfh, words(nil, 27)), maxRest, maxPath},
		{"READDIR", call4(2, putfh, readdir), maxRest + 32768, 0},
		{"WRITE", call4(3, putfh, cat(write4, []byte("12345\x00\x00\x00")), getattr), maxRest, 0},
		{"LOCK", call4(2, putfh, words(nil, 12, 0)), -1, 0},
		{"READ of too much", call4(1, cat(words(nil, 25), stateid, words(nil, 0, 0, 1<<31))), -1, 0},
		{"cut short", call4(3, sequence, putfh), -1, 0},
	} {
		rest, item, ok := chunks.NFS.MaxResults(100003, 4, 1, tt.args)
		if ok != (tt.rest >= 0) || ok && (rest != tt.rest || item != tt.item) {
			t.Errorf("%s: %d and %d, %v; want %d and %d", tt.name, rest, item, ok, tt.rest, tt.item)
		}
	}
	if rest, item, ok := chunks.NFS.MaxResults(100003, 4, 0, nil); ok && (item != 0 || rest < 0) {
		t.Errorf("NULL: %d, %d", rest, item)
	}
	if _, _, ok := chunks.NFS.MaxResults(100003, 4, 2, nil); ok {
		t.Error("a procedure that does not exist")
	}
}

// TestNFS4Walk visits every variable-length item in its place.
func TestNFS4Walk(t *testing.T) {
	args := call4(3, putfh, cat(write4, []byte("12345\x00\x00\x00")), cat(words(nil, 15), xdr.AppendString(nil, "x")))
	walker4 := chunks.WalkerOf(chunks.NFS, 100003, 4)
	var got []int
	ok := walker4.WalkArgs(100003, 4, 1, args, func(_, n int) int {
		got = append(got, n)
		return n + xdr.Pad(n)
	})
	if !ok || !slices.Equal(got, []int{3, 21, 5, 1}) {
		t.Errorf("%v, %v", got, ok)
	}
	if walker4.WalkArgs(100003, 4, 1, args, func(int, int) int { return -1 }) {
		t.Error("a walk that was ended")
	}
	if walker4.WalkResults(100003, 4, 1, reply4(0, 1, words(nil, 12, 0)), func(_, n int) int { return n + xdr.Pad(n) }) {
		t.Error("walked through LOCK")
	}
	if !walker4.WalkArgs(100003, 4, 0, nil, nil) || !chunks.Covers(chunks.NFS, 100003, 4) || chunks.Covers(chunks.NFS, 100003, 2) {
		t.Error("NULL, or what is covered")
	}
}

func FuzzNFS4(f *testing.F) {
	f.Add(call4(5, sequence, putfh, openArgs, write4), false)
	f.Add(reply4(0, 2, putfhRes, cat(words(nil, 25, 0, 1), xdr.AppendOpaque(nil, ramp(7, 3)))), true)
	f.Fuzz(func(t *testing.T, b []byte, reply bool) {
		pos, n, ok := chunks.NFS.FindArg(100003, 4, 1, b)
		if reply {
			pos, n, ok = chunks.NFS.FindResult(100003, 4, 1, b)
		}
		if ok && (pos > len(b) || pos%4 != 0 || n < 0) {
			t.Errorf("%d octets at %d of %d", n, pos, len(b))
		}
		for _, it := range chunks.EligibleResults(chunks.NFS, 100003, 4, 1, b, nil) {
			if it.Pos%4 != 0 || it.Pos+len(it.Data) > len(b) {
				t.Errorf("item at %d of %d", it.Pos, len(b))
			}
		}
		if rest, item, ok := chunks.NFS.MaxResults(100003, 4, 1, b); ok && (rest < 0 || item < 0) {
			t.Errorf("%d, %d", rest, item)
		}
	})
}
