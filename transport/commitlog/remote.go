package commitlog

import (
	"context"
	"encoding/binary"
	"sync"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/transport/commitlog/internal/machine"
)

// pollHead is how long a producer that is not told the head waits before it reads the head.
const pollHead = 2 * time.Millisecond

// remote is a session over a connection.
type remote struct {
	p                *Producer
	c                *rdmap.Conn
	ring, tail, head region.STag
	flags            verbs.FlushFlags
	told             bool // the consumer tells the head by Immediate Data
	wrs              []verbs.WR

	mu      sync.Mutex
	reading bool // the head is being read, or will be
	looked  bool // it was read in this session
	sink    region.Region
	word    []byte
}

func newRemote(p *Producer, c *rdmap.Conn, a *Answer) *remote {
	r := &remote{
		p: p, c: c, ring: region.STag(a.RingSTag), tail: region.STag(a.TailSTag), head: region.STag(a.HeadSTag),
		flags: verbs.FlushVisible, told: c.ConnectionState().Extensions&verbs.Ext7306 != 0,
	}
	if a.Persistent {
		r.flags = verbs.FlushPersistent
	}
	return r
}

// post implements link. It is called by one goroutine at a time.
func (r *remote) post(f *flight) error {
	r.wrs = r.wrs[:0]
	for _, op := range f.b.Ops {
		wr := verbs.WR{STag: r.ring, TO: op.Off}
		switch op.Kind {
		case machine.WireWrite:
			wr.Op, wr.Body = verbs.OpWrite, op.Data
		case machine.WireFlush:
			wr.Op, wr.Len, wr.Flags = verbs.OpFlushRequest, uint32(op.N), r.flags
		case machine.WireVerify:
			wr.Op, wr.Len, wr.Body = verbs.OpVerifyRequest, uint32(op.N), op.Data
		case machine.WireSetTail:
			wr.Op, wr.STag, wr.Body = verbs.OpAtomicWriteRequest, r.tail, op.Data
		case machine.WireFlushTail:
			wr.Op, wr.STag, wr.Len, wr.Flags = verbs.OpFlushRequest, r.tail, uint32(op.N), r.flags
		}
		r.wrs = append(r.wrs, wr)
	}
	r.wrs[len(r.wrs)-1].Done = f
	err := r.c.Post(r.wrs)
	if err != nil {
		go r.c.Close() // the session is over: end the connection too, so that whoever waits for that connects again
	}
	return err
}

// wait implements link: the caller may become the goroutine that reads the socket.
func (r *remote) wait(ctx context.Context, e *Pending) error { return r.c.Wait(ctx, &e.w) }

// blocked implements link. Without Immediate Data it reads the head from time to time; with it only
// once, because nobody was told about releases while the session was being opened.
func (r *remote) blocked() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reading || r.told && r.looked {
		return
	}
	r.reading, r.looked = true, true
	time.AfterFunc(pollHead, r.read)
}

// probe implements link: whoever answers a Read lives.
func (r *remote) probe() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.reading {
		r.reading = true
		go r.read() // in a goroutine: the caller holds p.mu
	}
}

// silent implements link.
func (r *remote) silent() { r.c.Abort(ErrSilent) }

// read reads the published head. It must hold no lock, because other operations may complete here.
func (r *remote) read() {
	sink, ok := r.place()
	if !ok {
		return
	}
	// An error ends the connection, and HandleClose the session.
	_ = r.c.Post([]verbs.WR{{Op: verbs.OpReadRequest, STag: r.head, Len: 8, Sink: sink, Done: (*headRead)(r)}})
}

// place returns the memory for the head; false means that the connection is over.
func (r *remote) place() (region.STag, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.word == nil {
		word := make([]byte, 8)
		reg, err := r.c.Register(word, region.ReadSink)
		if err != nil {
			return 0, false
		}
		r.word, r.sink = word, reg
	}
	return r.sink.STag(), true
}

// headRead is the Completer for the read of the head.
type headRead remote

// Complete implements verbs.Completer.
func (h *headRead) Complete(err error) {
	r := (*remote)(h)
	r.mu.Lock()
	r.reading = false
	var head uint64
	if err == nil {
		head = binary.BigEndian.Uint64(r.word)
	}
	r.mu.Unlock()
	if err == nil {
		r.p.publishedBy(r, head)
	}
}
