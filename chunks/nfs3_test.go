package chunks_test

import (
	"testing"

	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/xdr"
)

// nfsHandle is a file handle of n octets as XDR.
func nfsHandle(n int) []byte { return xdr.AppendOpaque(nil, ramp(n, 1)) }

// words appends 32-bit words.
func words(b []byte, w ...uint32) []byte {
	for _, v := range w {
		b = xdr.AppendUint32(b, v)
	}
	return b
}

func writeArgs(fh, count int) []byte {
	return words(nfsHandle(fh), 0, 0, uint32(count), 2, uint32(count))
}

func symlinkArgs(name string, sattr []uint32, count int) []byte {
	return words(words(xdr.AppendString(nfsHandle(32), name), sattr...), uint32(count))
}

func attrs(b []byte) []byte { return append(words(b, 1), make([]byte, 84)...) }

func TestNFS3FindArg(t *testing.T) {
	none := []uint32{0, 0, 0, 0, 0, 0}
	all := []uint32{1, 0o777, 1, 1000, 1, 1000, 1, 0, 42, 2, 5, 6, 2, 7, 8}
	server := []uint32{0, 0, 0, 0, 1, 1}
	for _, c := range []struct {
		name string
		proc uint32
		args []byte
		pos  int
		n    int
	}{
		{"WRITE", 7, writeArgs(32, 8190), 36 + 20, 8190},
		{"WRITE, odd handle", 7, writeArgs(5, 7), 12 + 20, 7},
		{"WRITE of nothing", 7, writeArgs(32, 0), 56, 0},
		{"SYMLINK, no attributes", 10, symlinkArgs("ab", none, 9), 36 + 8 + 24 + 4, 9},
		{"SYMLINK, server times", 10, symlinkArgs("abcd", server, 9), 36 + 8 + 24 + 4, 9},
		{"SYMLINK, all attributes", 10, symlinkArgs("abcde", all, 4096), 36 + 12 + 60 + 4, 4096},
	} {
		pos, n, ok := chunks.NFSv3.FindArg(100003, 3, c.proc, c.args)
		if pos != c.pos || n != c.n || !ok {
			t.Errorf("%s: found %d octets at %d, %v; want %d at %d", c.name, n, pos, ok, c.n, c.pos)
		}
		if pos2, n2, ok := chunks.NFSv3.FindArg(100003, 3, c.proc, append(c.args, "data"...)); pos2 != pos || n2 != n || !ok {
			t.Errorf("%s: octets behind the count change the answer", c.name)
		}
		for i := range c.args {
			if _, _, ok := chunks.NFSv3.FindArg(100003, 3, c.proc, c.args[:i]); ok {
				t.Errorf("%s: found in the first %d octets of %d", c.name, i, len(c.args))
			}
		}
	}
}

func TestNFS3FindArgRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		prog, vers, proc uint32
		args             []byte
	}{
		"another program":     {100005, 3, 7, writeArgs(32, 8)},
		"another version":     {100003, 4, 7, writeArgs(32, 8)},
		"GETATTR":             {100003, 3, 1, nfsHandle(32)},
		"READ":                {100003, 3, 6, writeArgs(32, 8)},
		"handle too long":     {100003, 3, 7, writeArgs(68, 8)},
		"count above 2^31":    {100003, 3, 7, words(nfsHandle(32), 0, 0, 0, 0, 0x80000000)},
		"bad boolean":         {100003, 3, 10, symlinkArgs("a", []uint32{2, 0, 0, 0, 0, 0}, 1)},
		"bad time_how":        {100003, 3, 10, symlinkArgs("a", []uint32{0, 0, 0, 0, 3, 0}, 1)},
		"name beyond the end": {100003, 3, 10, words(nfsHandle(32), 0xfffffff0)},
	} {
		if pos, n, ok := chunks.NFSv3.FindArg(c.prog, c.vers, c.proc, c.args); ok || pos != 0 || n != 0 {
			t.Errorf("%s: found %d octets at %d", name, n, pos)
		}
	}
}

func TestNFS3FindResult(t *testing.T) {
	for _, c := range []struct {
		name    string
		proc    uint32
		results []byte
		pos, n  int
	}{
		{"READ, no attributes", 6, words(nil, 0, 0, 5000, 1, 5000), 20, 5000},
		{"READ, attributes", 6, words(attrs(words(nil, 0)), 6, 0, 6), 104, 6},
		{"READLINK, no attributes", 5, words(nil, 0, 0, 3), 12, 3},
		{"READLINK, attributes", 5, words(attrs(words(nil, 0)), 7), 96, 7},
	} {
		pos, n, ok := chunks.NFSv3.FindResult(100003, 3, c.proc, c.results)
		if pos != c.pos || n != c.n || !ok {
			t.Errorf("%s: found %d octets at %d, %v; want %d at %d", c.name, n, pos, ok, c.n, c.pos)
		}
		for i := range c.results {
			if _, _, ok := chunks.NFSv3.FindResult(100003, 3, c.proc, c.results[:i]); ok {
				t.Errorf("%s: found in the first %d octets of %d", c.name, i, len(c.results))
			}
		}
	}
	for name, c := range map[string]struct {
		vers, proc uint32
		results    []byte
	}{
		"STALE":           {3, 6, words(nil, 70, 0, 8, 1, 8)},
		"bad boolean":     {3, 6, words(nil, 0, 2, 8, 1, 8)},
		"WRITE":           {3, 7, words(nil, 0, 0, 8, 1, 8)},
		"another version": {4, 6, words(nil, 0, 0, 8, 1, 8)},
	} {
		if pos, n, ok := chunks.NFSv3.FindResult(100003, c.vers, c.proc, c.results); ok {
			t.Errorf("%s: found %d octets at %d", name, n, pos)
		}
	}
}

func TestNFS3Eligible(t *testing.T) {
	for proc := range uint32(30) {
		arg, res := chunks.NFSv3.Eligible(100003, 3, proc)
		if arg != (proc == 7 || proc == 10) || res != (proc == 5 || proc == 6) {
			t.Errorf("procedure %d: %v, %v", proc, arg, res)
		}
		for _, v := range [][2]uint32{{100003, 4}, {100003, 2}, {100005, 3}, {0, 0}} {
			if arg, res := chunks.NFSv3.Eligible(v[0], v[1], proc); arg || res {
				t.Errorf("program %d version %d procedure %d is eligible", v[0], v[1], proc)
			}
		}
	}
}

// TestNFS3MaxResults against the table computed in the protocol notes.
func TestNFS3MaxResults(t *testing.T) {
	fixed := map[uint32]int{
		0: 0, 1: 88, 2: 120, 3: 248, 4: 96, 7: 136, 8: 280, 9: 280, 10: 280, 11: 280,
		12: 120, 13: 120, 14: 236, 15: 208, 18: 144, 19: 140, 20: 116, 21: 128,
	}
	for proc, want := range fixed {
		if n, item, ok := chunks.NFSv3.MaxResults(100003, 3, proc, nil); n != want || item != 0 || !ok {
			t.Errorf("procedure %d: %d, %d, %v; want %d, 0", proc, n, item, ok, want)
		}
	}
	read := words(nfsHandle(32), 0, 0, 65536)
	readdir := words(nfsHandle(32), 0, 0, 0, 0, 8192)
	readdirplus := words(nfsHandle(32), 0, 0, 0, 0, 512, 65536)
	for _, c := range []struct {
		name         string
		proc         uint32
		args         []byte
		n, item      int
		usesItsCount bool
	}{
		{"READLINK", 5, nfsHandle(32), 96, 4096, false},
		{"READ", 6, read, 104, 65536, true},
		{"READDIR", 16, readdir, 4 + 8192 + 1024, 0, true},
		{"READDIRPLUS", 17, readdirplus, 4 + 65536 + 1024, 0, true},
	} {
		if n, item, ok := chunks.NFSv3.MaxResults(100003, 3, c.proc, c.args); n != c.n || item != c.item || !ok {
			t.Errorf("%s: %d, %d, %v; want %d, %d", c.name, n, item, ok, c.n, c.item)
		}
		for i := range c.args {
			if _, _, ok := chunks.NFSv3.MaxResults(100003, 3, c.proc, c.args[:i]); ok && c.usesItsCount {
				t.Errorf("%s: an answer from the first %d octets", c.name, i)
			}
		}
	}
	huge := words(nfsHandle(32), 0, 0, 0x7fffffff)
	if n, item, ok := chunks.NFSv3.MaxResults(100003, 3, 6, huge); ok {
		t.Errorf("READ of 2^31-1: %d, %d", n, item)
	}
	for _, v := range [][3]uint32{{100003, 3, 22}, {100003, 3, 0xffffffff}, {100003, 4, 1}, {100005, 3, 1}} {
		if _, _, ok := chunks.NFSv3.MaxResults(v[0], v[1], v[2], nil); ok {
			t.Errorf("%v is known", v)
		}
	}
}
