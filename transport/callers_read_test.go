package transport_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

var pieceSeeds = flag.Int("pieces.seeds", 2, "seeds of TestRepliesInPieces")

// markedPair returns a client of record-marked RPC, over TCP or any other net.Conn, and the other end.
func markedPair(t testing.TB, tcp bool, cfg *transport.Config) (*transport.StreamClient, net.Conn) {
	t.Helper()
	var near, far net.Conn
	if tcp {
		l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
		defer l.Close()
		near = must(net.Dial("tcp", l.Addr().String()))(t)
		far = must(l.Accept())(t)
	} else {
		near, far = net.Pipe()
	}
	c := must(transport.NewStreamClient(context.Background(), near, cfg))(t)
	t.Cleanup(func() { c.Close(); far.Close() })
	return c, far
}

// readInto is a READ of NFSv3 into sink. Its arguments are not those of NFS: the server here reads the first word.
func readInto(word uint32, sink []byte) *rpc.Call {
	return &rpc.Call{Prog: 100003, Vers: 3, Proc: 6, Args: xdr.AppendUint32(nil, word), Sink: sink, MaxResults: 400}
}

// nfsReadReply is a reply to it with data, that says it has n octets of them, and tail behind them.
func nfsReadReply(xid uint32, data []byte, n int, tail []byte) []byte {
	b := xdr.AppendReply(nil, &xdr.ReplyHeader{XID: xid})
	for _, w := range []uint32{0, 0, uint32(n), 0, uint32(n)} { // status, no attributes, count, eof, length
		b = xdr.AppendUint32(b, w)
	}
	b = append(append(b, data...), make([]byte, xdr.Pad(len(data)))...)
	return append(b, tail...)
}

// dataOf is what call number word gets.
func dataOf(word uint32, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*int(word+3) + i>>8)
	}
	return b
}

// inFragments cuts a record into fragments of any size.
func inFragments(rnd *rand.Rand, msg []byte) (b []byte) {
	for empty := 0; ; {
		n := len(msg)
		switch rnd.IntN(4) {
		case 0:
			n = rnd.IntN(n + 1)
		case 1:
			n = rnd.IntN(min(n, 300) + 1)
		}
		if n == 0 && len(msg) > 0 {
			if empty++; empty > 10 {
				continue
			}
		}
		last := n == len(msg)
		b = append(xdr.AppendRecordMark(b, n, last), msg[:n]...)
		if msg = msg[n:]; last {
			return b
		}
	}
}

// TestRepliesInPieces: whatever the fragments of replies and the pieces in which they arrive, callers get what was sent,
// where it belongs: results that fit, do not fit, end early, or have something behind them. Some callers leave early.
func TestRepliesInPieces(t *testing.T) {
	for seed := range uint64(*pieceSeeds) {
		for _, tcp := range []bool{true, false} {
			t.Logf("seed %d, TCP %v", seed, tcp)
			repliesInPieces(t, seed, tcp)
		}
	}
}

const (
	pieceCallers = 6
	pieceCalls   = 25
)

func repliesInPieces(t *testing.T, seed uint64, tcp bool) {
	c, far := markedPair(t, tcp, nil)
	var served sync.WaitGroup
	served.Go(func() { answerInPieces(rand.New(rand.NewPCG(seed, 1)), far) })
	var wg sync.WaitGroup
	for k := range uint32(pieceCallers) {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(k)+2))
			for i := range uint32(pieceCalls) {
				pieceCall(t, c, rnd, k*pieceCalls+i)
			}
		})
	}
	wg.Wait()
	c.Close()
	served.Wait()
}

// pieceSizes returns what call number word gets: n octets that are said to be told, and a tail.
func pieceSizes(word uint32) (n, told, tail int) {
	rnd := rand.New(rand.NewPCG(77, uint64(word)))
	if n = rnd.IntN(1000); rnd.IntN(3) > 0 {
		n = rnd.IntN(200_000)
	}
	told = n
	switch rnd.IntN(8) {
	case 0:
		told = n + 4 + rnd.IntN(100_000) // the record ends before its data
	case 1:
		tail = 4 * rnd.IntN(80)
	}
	return n, told, tail
}

func pieceCall(t *testing.T, c rpc.Caller, rnd *rand.Rand, word uint32) {
	n, told, tail := pieceSizes(word)
	room := max(told, 1) + rnd.IntN(3)*rnd.IntN(50_000)
	if rnd.IntN(10) == 0 {
		room = max(1, told-1)
	}
	sink := make([]byte, room)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if rnd.IntN(5) == 0 {
		time.AfterFunc(time.Duration(rnd.IntN(2000))*time.Microsecond, cancel)
	}
	var r rpc.Reply
	err := c.Do(ctx, readInto(word, sink), &r)
	defer r.Release()
	if errors.Is(err, context.Canceled) {
		for i := range sink { // nobody writes to it any more, or the race detector tells
			sink[i] = 0xaa
		}
		time.Sleep(time.Duration(rnd.IntN(300)) * time.Microsecond)
		if k := bytes.IndexFunc(sink, func(r rune) bool { return r != 0xfffd }); k >= 0 {
			t.Errorf("call %d has left, and octet %d of its sink has changed", word, k)
		}
		return
	}
	room32 := new(rpc.RoomError)
	switch {
	case told > n: // what came is no result that can be found
		if err != nil && !errors.As(err, &room32) || r.Item != nil {
			t.Errorf("call %d, of %d octets where %d are told: %d, %v", word, n, told, len(r.Item), err)
		}
	case n > room:
		if !errors.As(err, &room32) {
			t.Errorf("call %d, of %d octets in room for %d: %v", word, n, room, err)
		}
	case err != nil || !bytes.Equal(r.Item, dataOf(word, n)) || len(r.Results) != 20+tail:
		t.Errorf("call %d, of %d octets in room for %d, with a tail of %d: %d and %d, %v", word, n, room, tail, len(r.Item), len(r.Results), err)
	}
}

// answerInPieces answers calls, out of order, until the connection ends.
func answerInPieces(rnd *rand.Rand, far net.Conn) {
	rr := xdr.NewRecordReader(far, 0)
	var buf []byte
	in := make(chan [2]uint32, 100)
	go func() {
		defer close(in)
		for {
			var err error
			if buf, err = rr.Next(buf); err != nil {
				return
			}
			in <- [2]uint32{binary.BigEndian.Uint32(buf), binary.BigEndian.Uint32(buf[len(buf)-4:])}
		}
	}()
	for first := range in {
		calls := [][2]uint32{first}
		for more := true; more && len(calls) < 5; {
			select {
			case x, ok := <-in:
				if more = ok; ok {
					calls = append(calls, x)
				}
			default:
				more = false
			}
		}
		rnd.Shuffle(len(calls), func(i, j int) { calls[i], calls[j] = calls[j], calls[i] })
		var out []byte
		for _, x := range calls {
			n, told, tail := pieceSizes(x[1])
			msg := nfsReadReply(x[0], dataOf(x[1], n), told, make([]byte, tail))
			if rnd.IntN(2) == 0 {
				out = append(out, inFragments(rnd, msg)...)
			} else {
				out = append(out, markedRecord(msg)...)
			}
		}
		for len(out) > 0 {
			k := len(out)
			if rnd.IntN(3) > 0 {
				k = 1 + rnd.IntN(min(k, 1+rnd.IntN(100_000)))
			}
			if _, err := far.Write(out[:k]); err != nil {
				for range in { // until the reader ends
				}
				return
			}
			out = out[k:]
		}
	}
}

// nextXID reads a call and returns its XID.
func nextXID(t testing.TB, far net.Conn) uint32 {
	t.Helper()
	var mark [4]byte
	_, err := io.ReadFull(far, mark[:])
	noErr(t, err)
	b := make([]byte, binary.BigEndian.Uint32(mark[:])&^(1<<31))
	_, err = io.ReadFull(far, b)
	noErr(t, err)
	return binary.BigEndian.Uint32(b)
}

// TestLeaveFilledSink: a caller that leaves while its sink is being filled, by itself or by another that reads for both,
// gets it back at once; the rest of the reply is dropped, and the connection goes on. If the same transmission comes again
// meanwhile, that reply is its reply.
func TestLeaveFilledSink(t *testing.T) {
	const size = 1 << 20
	for name, x := range map[string]struct{ other, again bool }{
		"alone": {}, "another reads": {other: true}, "sent again": {again: true}, "sent again, another reads": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			c, far := markedPair(t, true, nil)
			var wg sync.WaitGroup
			defer wg.Wait()
			var xidOther uint32
			if x.other {
				wg.Go(func() {
					if err := try(t, c, &nullCall); err != nil {
						t.Error("the other:", err)
					}
				})
				xidOther = nextXID(t, far)
			}
			sink := make([]byte, size)
			call := readInto(5, sink)
			call.Resend = &rpc.Transmission{XID: 99}
			ctx, cancel := context.WithCancel(context.Background())
			left := make(chan error)
			go func() { left <- tryCtx(ctx, c, call) }()
			nextXID(t, far)
			record := markedRecord(nfsReadReply(99, dataOf(5, size), size, nil))
			must(far.Write(record[:size/2]))(t)
			time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond) // wherever it is then
			cancel()
			if err := <-left; !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			for i := range sink {
				sink[i] = 0xaa
			}
			var again *rpc.Call
			done := make(chan error, 1)
			if x.again {
				again = readInto(5, make([]byte, size))
				again.Resend = &rpc.Transmission{XID: 99}
				go func() {
					var r rpc.Reply
					err := c.Do(testCtx(t), again, &r)
					if err == nil && !bytes.Equal(r.Item, dataOf(5, size)) {
						err = errors.New("it is not what was sent")
					}
					r.Release()
					done <- err
				}()
				nextXID(t, far)
			}
			must(far.Write(record[size/2:]))(t)
			if x.again {
				if err := <-done; err != nil {
					t.Error("the second one:", err)
				}
			}
			if x.other {
				must(far.Write(markedRecord(rpcReply(xidOther))))(t)
				wg.Wait()
			}
			go func() { _, _ = far.Write(markedRecord(rpcReply(nextXID(t, far)))) }()
			if err := try(t, c, &nullCall); err != nil { // everything before it was read
				t.Error("the next call:", err)
			}
			if k := bytes.IndexFunc(sink, func(r rune) bool { return r != 0xfffd }); k >= 0 {
				t.Errorf("octet %d of the sink has changed after its caller has left", k)
			}
		})
	}
}

// TestCallersTimeOut: Timeouts.Call ends calls, whether they read for themselves, wait for who does, or wait for their
// turn to be written; and those that come later are answered.
func TestCallersTimeOut(t *testing.T) {
	for _, tcp := range []bool{true, false} {
		c, far := markedPair(t, tcp, &transport.Config{Timeouts: transport.Timeouts{Call: 50 * time.Millisecond}})
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if err := tryCtx(context.Background(), c, &nullCall); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("TCP %v: %v", tcp, err)
				}
			})
		}
		if tcp { // else nothing is read: two wait for their turn, and the connection ends with what is half written
			for range 3 {
				nextXID(t, far)
			}
		}
		wg.Wait()
		if !tcp {
			continue
		}
		go func() { _, _ = far.Write(markedRecord(rpcReply(nextXID(t, far)))) }()
		if err := tryCtx(t.Context(), c, &nullCall); err != nil {
			t.Error(err)
		}
	}
}

// TestWriterReads: a server that takes no more calls before its replies are taken is not waited for in vain by those who
// write to it, although callers come all the time, and none of them gets to read.
func TestWriterReads(t *testing.T) {
	const long = 24 << 20
	c, far := markedPair(t, true, &transport.Config{MaxPayload: 16 << 20})
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error)
	go func() { first <- tryCtx(ctx, c, &nullCall) }()
	xid := nextXID(t, far)
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		var b []byte
		for len(b) < long { // replies to nobody
			b = append(b, markedRecord(append(rpcReply(xid), make([]byte, 1<<20)...))...)
		}
		if _, err := far.Write(b); err != nil {
			t.Error(err)
			return
		}
		rr := xdr.NewRecordReader(far, 32<<20)
		var call []byte
		for {
			var err error
			if call, err = rr.Next(call); err != nil {
				return
			}
			if _, err := far.Write(markedRecord(rpcReply(binary.BigEndian.Uint32(call)))); err != nil {
				return
			}
		}
	})
	big := &rpc.Call{Prog: testProg, Vers: testVers, Args: make([]byte, 12<<20)}
	done := make(chan error, 1)
	go func() { done <- tryCtx(testCtx(t), c, big) }()
	for range 8 { // a number, not a pace, which a busy machine would not keep up with
		wg.Go(func() {
			for more := true; more; {
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				more = !errors.Is(tryCtx(ctx, c, &nullCall), net.ErrClosed)
				cancel()
			}
		})
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	c.Close()
}

// TestStreamAllocs: a call over TCP costs its client no allocation, nor does a READ, with a time limit and without.
func TestStreamAllocs(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for _, limit := range []time.Duration{0, time.Minute} {
		for _, size := range []int{0, 300_000} {
			c, far := markedPair(t, true, &transport.Config{Timeouts: transport.Timeouts{Call: limit}})
			call := &nullCall
			reply := markedRecord(rpcReply(0))
			if size > 0 {
				call = readInto(1, make([]byte, size))
				reply = markedRecord(nfsReadReply(0, dataOf(1, size), size, nil))
			}
			go func() {
				b := make([]byte, 4096)
				for {
					if _, err := far.Read(b); err != nil { // small calls come whole
						return
					}
					copy(reply[4:8], b[4:8])
					if _, err := far.Write(reply); err != nil {
						return
					}
				}
			}()
			var r rpc.Reply
			do := func() {
				noErr(t, c.Do(context.Background(), call, &r))
				r.Release()
			}
			for range 50 {
				do()
			}
			if n := testing.AllocsPerRun(200, do); n != 0 {
				t.Errorf("limit %v, %d octets: %v allocations per call", limit, size, n)
			}
		}
	}
}
