package commitlog

import (
	"encoding/hex"
	"errors"
	"testing"
)

func answer() *Answer {
	return &Answer{ID: [16]byte{1}, Epoch: 3, Salt: 5, Capacity: 512, Mode: WAL, Hash: CRC32C, NextSeq: 1}
}

// opened returns a producer with a session and n appends of size octets.
func opened(t *testing.T, l limits, n, size int) (*sender, []*entry) {
	t.Helper()
	p := newSender(l, false)
	if _, err := p.Open(answer()); err != nil {
		t.Fatal(err)
	}
	var es []*entry
	for range n {
		e := &entry{Payload: make([]byte, size)}
		noErr(t, p.Add(e, false))
		es = append(es, e)
	}
	return p, es
}

func kinds(b *batch) (s string) {
	for _, op := range b.Ops {
		s += op.Op.String() + "; "
	}
	return s
}

// A group that crosses the end has two runs, each written, and flushed before the tail.
func TestBatchWrap(t *testing.T) {
	p := newSender(limits{1, 1 << 20}, true)
	a := answer()
	a.Head, a.Tail, a.NextSeq, a.LastEpoch = 512+320, 512+320, 9, 2
	if _, err := p.Open(a); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		_ = p.Add(&entry{Payload: make([]byte, 100)}, false) // 128 octets, a filler of 64, 128, 128
	}
	b := p.Next()
	if got := kinds(b); got != "RDMA Write; RDMA Write; Flush Request; Flush Request; Verify Request; Verify Request; Atomic Write Request; " {
		t.Fatal(got)
	}
	if o := b.Ops; o[0].TO != 320 || len(o[0].Body) != 192 || o[1].TO != 0 || len(o[1].Body) != 256 || string(o[6].Body) != "\x00\x00\x00\x00\x00\x00\x05\x00" {
		t.Errorf("%+v", b.Ops)
	}
	if f := parseRecord(b.Ops[0].Body[128:]); f.Filler != 64 || f.Seq != 10 {
		t.Errorf("filler %+v", f)
	}
}

// What is unanswered bounds batches; what queues meanwhile goes out as one.
func TestGroupCommit(t *testing.T) {
	p, es := opened(t, limits{1, 200}, 1, 10)
	first := p.Next()
	for range 4 {
		_ = p.Add(&entry{Payload: make([]byte, 10)}, false)
	}
	if p.Next() != nil {
		t.Fatal("more batches than permitted")
	}
	if over := p.Done(first); len(over) != 1 || over[0] != es[0] || !es[0].Over || es[0].Seq != 1 {
		t.Fatal(over)
	}
	if p.Done(first) != nil {
		t.Error("answered a batch twice")
	}
	if b := p.Next(); b.count != 3 { // 192 of 200 octets
		t.Errorf("%d appends in a group", b.count)
	}
}

// Add takes at once what fits with all that is queued, and a filler, as the ring is.
func TestAddNow(t *testing.T) {
	p := newSender(limits{1, 1 << 20}, false)
	try := func(n int, want error) {
		t.Helper()
		if err := p.Add(&entry{Payload: make([]byte, n)}, true); !errors.Is(err, want) {
			t.Errorf("%d octets: %v, want %v", n, err, want)
		}
	}
	try(1000, nil) // nobody knows yet
	if over, err := p.Open(answer()); err != nil || len(over) != 1 {
		t.Fatal(over, err)
	}
	try(300, ErrTooLarge)
	try(200, nil)
	try(100, nil) // 256 and 128 of 512
	try(200, ErrFull)
	b := p.Next()
	try(200, ErrFull)
	p.Done(b)
	try(200, ErrFull)
	p.Published(192)
	try(200, ErrFull) // with a filler of 128
	try(100, nil)
	p.Published(256)
	try(200, nil)
	try(100, ErrFull)
	p.Lost()
	try(100, ErrFull)
	p.Published(384) // of the session that is over
	try(100, ErrFull)
}

// The producer writes only below the published durable head.
func TestBackPressure(t *testing.T) {
	p, _ := opened(t, limits{8, 1}, 5, 100)
	sent := 0
	for p.Next() != nil {
		sent++
	}
	if sent != 4 || !p.Blocked() {
		t.Fatalf("%d records of 128 octets in a ring of 512", sent)
	}
	for _, head := range []uint64{1024, 129} { // never written, unaligned
		if p.Published(head); !p.Blocked() {
			t.Errorf("head %d is believed", head)
		}
	}
	p.Published(128)
	p.Published(64) // late
	if p.Next() == nil {
		t.Error("no room below the head")
	}
}

// TestAnswerGolden: the octets of docs/commitlog-format.md, made by another program.
func TestAnswerGolden(t *testing.T) {
	const want = "73636c32" + "00000002" + "000102030405060708090a0b0c0d0e0f" + "ee6e64bd81f7bc7f" + "0000000000000400" +
		"00000002" + "00000001" + "00000001" + "00000100" + "00000200" + "00000300" +
		"00000000000000c0" + "0000000000000100" + "0000000000000005" + "00000001"
	a := Answer{
		Epoch: 2, Salt: 0xee6e64bd81f7bc7f, Capacity: 1024, Mode: WAL, Hash: CRC32C, Persistent: true,
		RingSTag: 0x100, TailSTag: 0x200, HeadSTag: 0x300, Head: 192, Tail: 256, NextSeq: 5, LastEpoch: 1,
	}
	for i := range a.ID {
		a.ID[i] = byte(i)
	}
	b := a.Append(nil)
	if got := hex.EncodeToString(b); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	if back, err := ParseAnswer(b); err != nil || *back != a {
		t.Error(back, err)
	}
	for i := range b {
		if back, err := ParseAnswer(b[:i]); err == nil {
			t.Errorf("%d octets were decoded as an answer: %+v", i, back)
		}
	}
}

func TestAnswerRefusals(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(a *Answer)
		want   error
	}{
		"capacity":        {func(a *Answer) { a.Capacity = 100 }, ErrBadAnswer},
		"other capacity":  {func(a *Answer) { a.Capacity = 1024 }, ErrBadAnswer},
		"mode":            {func(a *Answer) { a.Mode = 0 }, ErrBadAnswer},
		"hash":            {func(a *Answer) { a.Hash = 2 }, ErrBadAnswer},
		"tail":            {func(a *Answer) { a.Head = 192 }, ErrBadAnswer},
		"unaligned":       {func(a *Answer) { a.Tail = 65 }, ErrBadAnswer},
		"too much":        {func(a *Answer) { a.Tail = 1024 }, ErrBadAnswer},
		"no number":       {func(a *Answer) { a.NextSeq = 0 }, ErrBadAnswer},
		"other log":       {func(a *Answer) { a.ID[0]++ }, ErrLostRecords},
		"old epoch":       {func(a *Answer) { a.Epoch, a.LastEpoch = 3, 2 }, ErrLostRecords},
		"records lost":    {func(a *Answer) { a.NextSeq = 1 }, ErrLostRecords},
		"records foreign": {func(a *Answer) { a.NextSeq = 4 }, ErrLostRecords},
		"record foreign":  {func(a *Answer) { a.Epoch, a.NextSeq, a.LastEpoch = 5, 3, 4 }, ErrLostRecords},
		"epoch to come":   {func(a *Answer) { a.LastEpoch = 4 }, ErrBadAnswer},
		"of no epoch":     {func(a *Answer) { a.LastEpoch = 0 }, ErrBadAnswer},
	} {
		p, _ := opened(t, limits{8, 1}, 2, 10)
		p.Done(p.Next())
		p.Next()
		p.Lost()
		a := answer()
		a.Epoch, a.Tail, a.NextSeq, a.LastEpoch = 4, 128, 2, 3
		tt.change(a)
		if _, err := p.Open(a); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAbandonAndFail(t *testing.T) {
	p, es := opened(t, limits{1, 1}, 3, 10)
	p.Next()
	if p.Abandon(es[0]) || !p.Abandon(es[1]) {
		t.Error("one had been sent, one had not")
	}
	oops := errors.New("oops")
	if over := p.Fail(oops); len(over) != 2 || !errors.Is(es[2].Err, oops) || es[1].Over {
		t.Error(over)
	}
}

// What was given up and may have been sent is sent again, from a copy, if it has not survived.
func TestAbandonBetweenSessions(t *testing.T) {
	p, es := opened(t, limits{1, 1}, 3, 10)
	es[0].Payload[0], es[1].Payload[0] = 1, 2
	p.Next()
	lent := es[0].Payload
	p.Abandon(es[0])
	clear(lent)
	p.Lost()
	a := answer()
	a.Epoch = 4
	if _, err := p.Open(a); err != nil {
		t.Fatal(err)
	}
	if got := p.Next().Ops[0].Body[recordHeaderLen]; got != 1 {
		t.Errorf("sent again: %d", got)
	}
	// It can be given up for good until then.
	p.Lost()
	a.Epoch = 5
	if _, err := p.Open(a); err != nil {
		t.Fatal(err)
	}
	if !p.Abandon(es[0]) || len(p.queue) != 2 {
		t.Errorf("not taken out: %d queued", len(p.queue))
	}
	p.Next()
	if p.Abandon(es[1]) {
		t.Error("it had been sent")
	}
}

func TestTooLarge(t *testing.T) {
	p := newSender(limits{1, 1}, false)
	early := &entry{Payload: make([]byte, 229)}
	noErr(t, p.Add(early, false))
	if over, err := p.Open(answer()); err != nil || len(over) != 1 || !errors.Is(early.Err, ErrTooLarge) {
		t.Error(over, err)
	}
	if err := p.Add(&entry{Payload: make([]byte, 229)}, false); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	if err := p.Add(&entry{Payload: make([]byte, 228)}, false); err != nil || p.Next() == nil {
		t.Error("a record of half the ring does not fit", err)
	}
}

// A batch costs no allocation once there is one to use again.
func TestBatchAllocates(t *testing.T) {
	p, _ := opened(t, limits{1, 1}, 0, 0)
	e := &entry{Payload: make([]byte, 20)}
	if n := testing.AllocsPerRun(100, func() {
		*e = entry{Payload: e.Payload}
		_ = p.Add(e, false)
		p.Published(p.tail)
		if len(p.Done(p.Next())) != 1 {
			t.Fatal("not over")
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// Behind a batch that is unanswered goes a larger one, or a large one; a smaller one waits
// for those that the answer will bring along.
func TestBatchBehindAnother(t *testing.T) {
	for _, tt := range []struct {
		batch, first, queued, want int // want: appends in the second batch; 0: there is none
	}{
		{1 << 20, 1, 1, 0},
		{1 << 20, 1, 2, 2},
		{64, 1, 1, 1},
		{1 << 20, 8, 8, 0},
		{1 << 20, 8, 9, 9},
		{20000, 4, 4, 0},
		{16640, 4, 4, 4},
		{1 << 20, 32, 15, 0},
		{1 << 20, 32, 16, 16},
	} {
		p := newSender(limits{2, tt.batch}, false)
		a := answer()
		a.Capacity = 1 << 20
		if _, err := p.Open(a); err != nil {
			t.Fatal(err)
		}
		add := func(n int) {
			for range n {
				noErr(t, p.Add(&entry{Payload: make([]byte, 4096)}, false))
			}
		}
		add(tt.first)
		first := p.Next()
		add(tt.queued)
		got := 0
		if b := p.Next(); b != nil {
			got = b.count
		}
		if got != tt.want {
			t.Errorf("%+v: %d appends", tt, got)
		}
		if over := p.Done(first); len(over) != tt.first {
			t.Error(over)
		}
		if b := p.Next(); (b != nil) != (tt.want == 0) || len(p.queue) > 0 {
			t.Errorf("%+v: after the answer %v, queued %v", tt, b, len(p.queue))
		}
	}
}

// noErr ends the test if err is an error.
func noErr(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
