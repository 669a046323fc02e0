package chunks_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/chunks"
)

// files is a program whose procedure 1 takes (string, hyper, opaque) and returns a union with an opaque in
// its arm 0, and whose procedure 2 returns an opaque.
var files = chunks.Table{
	{Prog: 0x20000001, Vers: 1, Proc: 1, Arg: chunks.After(chunks.Opaque, chunks.Octets(8)), Result: chunks.After(chunks.Case(0))},
	{Prog: 0x20000001, Vers: 1, Proc: 2, Result: chunks.After()},
	{Prog: 0x20000001, Vers: 3, Proc: 2, Arg: chunks.After()},
}

func TestTable(t *testing.T) {
	const prog = 0x20000001
	for _, tt := range []struct {
		name             string
		prog, vers, proc uint32
		hex              string
		arg, result      [2]int // pos and n; {0, 0}: none
	}{
		{"the data are there", prog, 1, 1, "00000002 61620000 0000000000000009 00000005 3132333435000000", [2]int{20, 5}, [2]int{}},
		{"the data are elsewhere", prog, 1, 1, "00000000 0000000000000009 00100000", [2]int{16, 1 << 20}, [2]int{8, 0}},
		{"cut before the count", prog, 1, 1, "00000000 0000000000000009", [2]int{}, [2]int{8, 0}},
		{"cut in the hyper", prog, 1, 1, "00000000 00000000", [2]int{}, [2]int{8, 0}},
		{"a string that is cut", prog, 1, 1, "00000100 00000000", [2]int{}, [2]int{}},
		{"a count above 2^31-1", prog, 1, 2, "80000000", [2]int{}, [2]int{}},
		{"result first", prog, 1, 2, "00000003", [2]int{}, [2]int{4, 3}},
		{"another version", prog, 3, 2, "00000003", [2]int{4, 3}, [2]int{}},
		{"no such version", prog, 2, 2, "00000003", [2]int{}, [2]int{}},
		{"no such procedure", prog, 1, 3, "00000003", [2]int{}, [2]int{}},
		{"no such program", 7, 1, 2, "00000003", [2]int{}, [2]int{}},
		{"nothing", prog, 1, 2, "", [2]int{}, [2]int{}},
	} {
		b, err := hex.DecodeString(strings.ReplaceAll(tt.hex, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		check := func(what string, want [2]int, pos, n int, ok bool) {
			if got := [2]int{pos, n}; ok != (want != [2]int{}) || ok && got != want {
				t.Errorf("%s: %s at %v, %v; want %v", tt.name, what, got, ok, want)
			}
		}
		pos, n, ok := files.FindArg(tt.prog, tt.vers, tt.proc, b)
		check("argument", tt.arg, pos, n, ok)
		pos, n, ok = files.FindResult(tt.prog, tt.vers, tt.proc, b)
		check("result", tt.result, pos, n, ok)
	}
	if _, _, ok := files.MaxResults(prog, 1, 2, nil); ok {
		t.Error("a table knows how large results are")
	}
}

func TestTableScope(t *testing.T) {
	for _, tt := range []struct {
		prog, vers, proc    uint32
		covers, arg, result bool
	}{
		{0x20000001, 1, 1, true, true, true},
		{0x20000001, 1, 2, true, false, true},
		{0x20000001, 3, 2, true, true, false},
		{0x20000001, 3, 1, true, false, false},
		{0x20000001, 2, 1, false, false, false},
		{100003, 3, 6, false, false, false},
	} {
		arg, result := files.Eligible(tt.prog, tt.vers, tt.proc)
		if c := chunks.Covers(files, tt.prog, tt.vers); c != tt.covers || arg != tt.arg || result != tt.result {
			t.Errorf("%+v: %v %v %v", tt, c, arg, result)
		}
	}
}

// everything is a binding without a scope.
type everything struct{ chunks.Table }

func (everything) Eligible(_, _, _ uint32) (arg, result bool) { return true, true }

// TestJoin: each program has the binding that covers it, with the optional halves of that one only.
func TestJoin(t *testing.T) {
	b := chunks.Join(chunks.Join(files), chunks.NFS)
	for _, tt := range []struct {
		name                       string
		prog, vers, proc           uint32
		covers, arg, walker, lists bool
	}{
		{"the table", 0x20000001, 1, 1, true, true, false, false},
		{"NFSv3 WRITE", 100003, 3, 7, true, true, true, false},
		{"NFSv4 COMPOUND", 100003, 4, 1, true, true, true, true},
		{"neither", 100005, 3, 1, false, false, false, false},
	} {
		arg, _ := b.Eligible(tt.prog, tt.vers, tt.proc)
		covers := chunks.Covers(b, tt.prog, tt.vers)
		walker, lister := chunks.WalkerOf(b, tt.prog, tt.vers), chunks.ListerOf(b, tt.prog, tt.vers)
		if covers != tt.covers || arg != tt.arg || (walker != nil) != tt.walker || (lister != nil) != tt.lists {
			t.Errorf("%s: covers %v, argument %v, walker %v, lister %v", tt.name, covers, arg, walker, lister)
		}
	}
	read := "00000000 00000000 00000005 00000001 00000005 3132333435000000" // READ: status, no attributes, count, eof, data
	octets, err := hex.DecodeString(strings.ReplaceAll(read, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	if items := chunks.EligibleResults(b, 100003, 3, 6, octets, nil); len(items) != 1 || string(items[0].Data) != "12345" {
		t.Errorf("READ: %v", items)
	}
	if items := chunks.EligibleResults(b, 0x20000001, 1, 2, octets[16:], nil); len(items) != 1 || string(items[0].Data) != "12345" {
		t.Errorf("the table: %v", items)
	}
	if arg, _ := chunks.Join(chunks.NFS, everything{}).Eligible(7, 7, 7); arg {
		t.Error("a table in a structure has lost its scope") // Covers is promoted
	}
}

func TestTableAllocates(t *testing.T) {
	b, args := chunks.Join(chunks.NFS, files), make([]byte, 16)
	if n := testing.AllocsPerRun(100, func() {
		if _, _, ok := b.FindArg(0x20000001, 1, 1, args); !ok {
			t.Fatal("not found")
		}
		if _, _, ok := b.FindResult(0x20000001, 1, 1, args); !ok {
			t.Fatal("not found")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
