package cases

import (
	"slices"
	"strings"
	"testing"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/xdr"
)

var nfs = Target{Prog: 100003, Vers: 3, Inline: 4096, Grant: 32, XID: 0x5a000000}

// octets are all that t puts on the wire above TCP.
func (t *Try) octets() [][]byte {
	list := [][]byte{t.Request}
	for _, s := range t.Steps {
		list = append(list, s.ULPDU, s.Raw)
	}
	for _, m := range t.Memory {
		list = append(list, m.Data)
	}
	return list
}

// TestHarmless: nothing in the table, wherever a peer may look for a call, calls a
// procedure of the program that exists, but NULL.
func TestHarmless(t *testing.T) {
	calls := 0
	for _, c := range Table(nfs) {
		for _, try := range c.Tries {
			for _, b := range try.octets() {
				for at := range b {
					var h xdr.CallHeader
					d := xdr.NewDecoder(b[at:])
					_ = h.Parse(&d) // credentials may be bad: the words before are read
					if h.Prog != nfs.Prog || h.Vers > 4 || len(b)-at < 24 {
						continue
					}
					if calls++; h.Proc != 0 && h.Proc < 1000 {
						t.Errorf("%s %q calls procedure %d", c.Name, try.Name, h.Proc)
					}
				}
			}
		}
	}
	read := nfs
	read.Handle = "handle"
	if n := len(Table(read)) - len(Table(nfs)); n != 1 {
		t.Errorf("a handle makes %d cases more", n)
	}
	if calls < 500 {
		t.Errorf("only %d calls were looked at", calls)
	}
}

// TestTable: cases say what they are, and tries have something to want.
func TestTable(t *testing.T) {
	var names []string
	xids := make(map[uint32]string)
	for _, c := range Table(nfs) {
		names = append(names, c.Name)
		if c.Rule == "" || c.Sends == "" || len(c.Tries) == 0 || c.Wanted() == "" || !strings.Contains(c.Name, "/") {
			t.Errorf("%s: %+v", c.Name, c)
		}
		for _, try := range c.Tries {
			if len(c.Tries) > 1 && try.Name == "" && !try.Hold {
				t.Errorf("%s: a try without a name", c.Name)
			}
			for _, w := range try.Wants {
				if (w.Verdict == Tolerated) != (w.Why != "") {
					t.Errorf("%s %q: %v is %v because of %q", c.Name, try.Name, w, w.Verdict, w.Why)
				}
				for _, code := range w.Codes {
					if !code.Registered() {
						t.Errorf("%s %q wants %v, which is not registered", c.Name, try.Name, code)
					}
				}
			}
			for _, x := range append([]uint32{try.Hello, try.After}, try.Subjects...) {
				if other := xids[x]; x != 0 && other != "" && c.Name != "rpc/replay" {
					t.Errorf("%s and %s use XID %#x", other, c.Name, x)
				}
				xids[x] = c.Name + " " + try.Name
			}
		}
	}
	slices.Sort(names)
	if n := len(slices.Compact(names)); n != len(Table(nfs)) {
		t.Error("two cases have one name")
	}
}

// TestSendSize: no Send is longer than the peer takes, but where that is the point.
func TestSendSize(t *testing.T) {
	for _, c := range Table(nfs) {
		if c.Name == "ddp/send-too-long" || c.Name == "fpdu/longest" {
			continue
		}
		for _, try := range c.Tries {
			for _, s := range try.Steps {
				if n := len(s.ULPDU) - ddp.UntaggedLen; n > nfs.Inline {
					t.Errorf("%s %q: %d octets", c.Name, try.Name, n)
				}
			}
		}
	}
}

// TestJudge: what the steps of the verdict decide.
func TestJudge(t *testing.T) {
	good := Answer{XID: 1, Kind: KindAnswered, Credit: 1}
	after := Answer{XID: 3, Kind: KindAnswered, Credit: 1}
	siw := mustTerminate(t, []byte{0x20, 0x05, 0, 0}) // layer and type exchanged
	for _, tt := range []struct {
		name string
		try  Try
		seen Seen
		kind Kind
		want Verdict
	}{
		{"wanted", Try{Hello: 1, Wants: ok(KindClosed)}, Seen{Answers: []Answer{good}, Ended: true}, KindClosed, OK},
		{"not wanted", Try{Hello: 1, Wants: ok(KindClosed)}, Seen{Answers: []Answer{good}}, KindSilent, Fails},
		{"tolerated", Try{Wants: tolerate("x", KindClosed)}, Seen{Ended: true}, KindClosed, Tolerated},
		{"a breach", Try{Wants: ok(KindClosed)}, Seen{Ended: true, Breaches: []string{"x"}}, KindClosed, Fails},
		{"dropped", Try{Hello: 1, After: 3, Wants: ok(KindDropped)}, Seen{Answers: []Answer{good, after}}, KindDropped, OK},
		{"dropped, and no more", Try{Hello: 1, After: 3, Wants: ok(KindDropped)}, Seen{Answers: []Answer{good}}, KindSilent, Fails},
		{"refused, and no more", Try{After: 3, Wants: ok(KindErrChunk)}, Seen{Answers: []Answer{{XID: 2, Kind: KindErrChunk}}}, KindErrChunk, Fails},
		{"into bait, refused by us", Try{After: 3, Wants: ok(KindAnswered)}, Seen{Answers: []Answer{{XID: 2, Kind: KindAnswered}}, Refused: true}, KindAnswered, OK},
		{"refused, and closed", Try{After: 3, Wants: ok(KindErrChunk)}, Seen{Answers: []Answer{{XID: 2, Kind: KindErrChunk}}, Ended: true}, KindErrChunk, Tolerated},
		{"one of two", Try{Subjects: []uint32{5, 6}, Wants: ok(KindAnswered)}, Seen{Answers: []Answer{{XID: 5, Kind: KindAnswered}}}, KindSilent, Fails},
		{"two of two", Try{Subjects: []uint32{5, 6}, Wants: ok(KindAnswered)}, Seen{Answers: []Answer{{XID: 5, Kind: KindAnswered}, {XID: 6, Kind: KindAnswered}}}, KindAnswered, OK},
		{"as siw lays it out", Try{Wants: terminate(codesRDMAP(2, 5)...)}, Seen{Term: siw}, KindTerminated, OK},
		{"another code", Try{Wants: terminate(codesRDMAP(2, 6)...)}, Seen{Term: siw}, KindTerminated, Fails},
		{"executed before", Try{Hello: 1, Wants: terminate(codesRDMAP(2, 5)...)}, Seen{Term: siw, Answers: []Answer{good, {XID: 2, Kind: KindAnswered}}}, KindTerminated, Fails},
		{"a Read that nobody answers", Try{Responses: 1, After: 3, Wants: ok(KindDropped)}, Seen{Answers: []Answer{after}}, KindDropped, Fails},
	} {
		if f := tt.try.Judge(&tt.seen); f.Kind != tt.kind || f.Verdict != tt.want {
			t.Errorf("%s: %+v, want %v, %v", tt.name, f, tt.kind, tt.want)
		}
	}
}

func mustTerminate(t *testing.T, b []byte) *verbs.Terminate {
	t.Helper()
	term, err := verbs.ParseTerminate(b)
	if err != nil {
		t.Fatal(err)
	}
	return &term
}
