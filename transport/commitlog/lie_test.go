package commitlog_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/transport/commitlog"
)

var lies = flag.Int("lies", 40, "seeds of TestLogOfLiar and TestProducerOfLiar")

// capable is what a stag with the commit extension, and without Immediate Data, says of itself.
var capable = []byte{'s', 't', 'a', 'g', 1, 12, 0xfd, 0, 0, 0, 0, 1 | byte(verbs.ExtCommit)<<1}

// Opcodes of a producer.
const (
	opWrite       = byte(verbs.OpWrite)
	opRead        = byte(verbs.OpReadRequest)
	opFlush       = byte(verbs.OpFlushRequest)
	opAtomicWrite = byte(verbs.OpAtomicWriteRequest)
)

// opcode returns that of an untagged segment, with the fifth bit of the draft.
func opcode(s *ddp.Segment) byte { return s.Control & 0x1f }

// whole is a message in one segment.
func whole(n int) []rdmaptest.Piece { return []rdmaptest.Piece{{Len: n, Last: true}} }

// TestLogOfLiar: a producer whose Writes repeat, leave out, move, overlap and split pieces of a record, in a ring that is
// full of the octets of another producer, and which then moves the tail. The log hands out a record only if each of its
// octets was written, and otherwise calls it poisoned.
//
// spec: rdmap 7.5 liar
func TestLogOfLiar(t *testing.T) {
	handed, poisoned := 0, 0
	for seed := range *lies {
		rnd := rand.New(rand.NewPCG(uint64(seed), 185))
		l := newTestLog(t, sim(4096), commitlog.WAL)
		p := newTestProducer(t, nil)
		c, _ := session(t, l, p, pipes)
		for seq := range uint64(3) {
			must(p.Append(t.Context(), bytes.Repeat([]byte{0xcc}, 1200)))(t)
			must(l.Next(t.Context()))(t)
			noErr(t, l.Release(seq+1))
		}
		c.Close()
		a, b := pipes()
		s := rdmap.Server(b, commitlog.Config(nil))
		started := make(chan error, 1)
		go func() { started <- s.Handshake(t.Context()) }()
		peer, _, err := rdmaptest.Initiate(a, &mpa.Config{IRD: 8, ORD: 8, PrivateData: capable})
		noErr(t, errors.Join(err, <-started))
		ans := must(l.Advertise(t.Context(), s))(t)
		go s.Serve()
		payload := bytes.Repeat([]byte("what it says "), 150)[:rnd.IntN(1900)]
		record := commitlog.AppendRecord(nil, ans.Salt, ans.Epoch, ans.NextSeq, ans.Tail, payload)
		at := commitlog.RingAt(ans.Tail, ans.Capacity)
		if at+uint64(len(record)) > ans.Capacity {
			record = record[:0]
		}
		cuts := rdmaptest.Pieces(rnd, len(record), 1+rnd.IntN(900))
		if rnd.IntN(3) > 0 {
			cuts = rdmaptest.Lie(rnd, cuts)
		}
		covered := make([]bool, min(commitlog.RecordHeaderLen+len(payload), len(record))) // the pad does not count
		for _, k := range cuts {
			for i := k.Off; i < min(k.Off+k.Len, len(covered)); i++ {
				covered[i] = true
			}
		}
		all := !bytes.Contains(boolBytes(covered), []byte{0}) && len(record) > 0
		var word [8]byte
		binary.BigEndian.PutUint64(word[:], ans.Tail+commitlog.RecordSize(len(payload)))
		request := binary.BigEndian.AppendUint32(nil, ans.TailSTag)
		request = append(binary.BigEndian.AppendUint32(request, 8), make([]byte, 8)...)
		out := peer.Cut(peer.Tagged(opWrite, ddp.STag(ans.RingSTag), at), record, cuts)
		out = append(out, peer.Cut(peer.Untagged(opAtomicWrite, 1), append(request, word[:]...), whole(24))...)
		go a.Write(out)
		moved := false
		for !moved {
			got, _, err := peer.NextSegment()
			if err != nil || got.QN == 2 {
				break
			}
			moved = got.QN == 3
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if !moved {
			cancel() // there is no more to come
		}
		r, err := l.Next(ctx)
		cancel()
		switch poison := new(commitlog.PoisonError); {
		case err == nil && !(all && bytes.Equal(r.Payload, payload)):
			t.Fatalf("seed %d: a record that nobody wrote: %.20q, %v", seed, r.Payload, cuts)
		case err != nil && all && moved:
			t.Fatalf("seed %d: %v for a whole record", seed, err)
		case err == nil:
			handed++
		case errors.As(err, &poison):
			poisoned++
		}
		a.Close()
		<-s.Done()
	}
	if handed == 0 || poisoned == 0 {
		t.Errorf("%d records, %d poisoned ones: the test shows nothing", handed, poisoned)
	}
}

func boolBytes(b []bool) []byte {
	out := make([]byte, len(b))
	for i, v := range b {
		if v {
			out[i] = 1
		}
	}
	return out
}

// TestProducerOfLiar: a consumer that does so with its answer, and with the head that the producer reads. A session begins
// only with an answer that was sent, and the producer writes again only where a head that was sent allows it.
//
// spec: rdmap 7.5 liar
func TestProducerOfLiar(t *testing.T) {
	opened, went := 0, 0
	for seed := range *lies {
		rnd := rand.New(rand.NewPCG(uint64(seed), 186))
		a, b := pipes()
		p := newTestProducer(t, nil)
		c := rdmap.Client(a, p.Config(nil))
		started := make(chan error, 1)
		go func() { started <- c.Handshake(t.Context()) }()
		peer, _, err := rdmaptest.Respond(b, &mpa.Config{IRD: 8, ORD: 8}, capable)
		noErr(t, errors.Join(err, <-started))
		l := rdmaptest.NewLiar(peer, rnd)
		over := make(chan int)
		go func() {
			writes := consume(l)
			l.End()
			over <- writes
		}()
		ok := p.Attach(t.Context(), c) == nil
		var third error
		if ok {
			opened++
			for range 2 {
				must(p.Append(t.Context(), make([]byte, 100)))(t)
			}
			e := must(p.Begin(make([]byte, 100)))(t)
			ctx, cancel := context.WithCancel(t.Context())
			go func() { <-c.Done(); cancel() }() // nobody opens another session
			_, third = e.Wait(ctx)
		}
		c.Close()
		writes := <-over
		switch {
		case !ok && !l.Caught && !l.Short:
			t.Fatalf("seed %d: a whole answer was not taken", seed)
		case ok && l.Short:
			t.Fatalf("seed %d: half an answer was taken", seed)
		case ok && l.Caught && (third == nil || writes > 2):
			t.Fatalf("seed %d: the producer went on with a head that nobody sent: %d writes", seed, writes)
		case ok && !l.Caught && third != nil:
			t.Fatalf("seed %d: %v", seed, third)
		case ok && third == nil:
			went++
		}
		<-c.Done()
	}
	if opened == *lies || went == 0 || went == opened {
		t.Errorf("%d sessions, %d of them read the head: the test shows nothing", opened, went)
	}
}

// consume serves a producer: it answers everything, the head and the session with pieces that may be lies. It returns how
// many Writes came.
func consume(l *rdmaptest.Liar) (writes int) {
	if _, ok := l.Listen(nil); !ok {
		return 0
	}
	ans := commitlog.Answer{Epoch: 1, Capacity: 256, Mode: commitlog.WAL, Hash: commitlog.CRC32C, RingSTag: 1 << 8, TailSTag: 2 << 8, HeadSTag: 3 << 8, NextSeq: 1}
	if l.Say(ans.Append(nil)); l.Short {
		return 0
	}
	head := make([]byte, 8)
	for {
		s, payload, err := l.NextSegment()
		switch {
		case err != nil, !s.Tagged && s.QN == 2:
			return writes
		case s.Tagged:
			writes++
		case opcode(&s) == opRead:
			binary.BigEndian.PutUint64(head, 128) // two records of 128 octets each are there, one is released
			l.Tell(payload, head)
		case opcode(&s) == opFlush:
			l.Post(l.Cut(l.Untagged(byte(verbs.OpFlushResponse), 3), nil, whole(0)))
		case opcode(&s) == opAtomicWrite:
			l.Post(l.Cut(l.Untagged(byte(verbs.OpAtomicWriteResponse), 3), nil, whole(0)))
		}
	}
}
