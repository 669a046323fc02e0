package rdmap

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// engine is the two halves of a Conn without socket, clock, lock or goroutine, driven by hand: octets
// in, octets out.
type engine struct {
	snd  sender
	wk   work
	rcv  *receiver
	df   mpa.Deframer
	in   []byte // received, not yet parsed
	due  []completion
	err  error
	got  []verbs.Message // delivered, Data copied
	conn *Conn           // with wire: everything is done to this connection
	wire []byte          // what its peer sends
	read int             // Reads of ours completed

	singly   bool // every segment is passed to input by itself; see follow and repeat
	followed int  // octets that follow has used
	repeated int  // Sends that repeat has delivered
}

type engineConfig struct {
	mulpdu, ird, ord, recvs, size int
	nocrc, interleave             bool
	ext                           verbs.Extensions
	pool                          *Pool
	queue                         *RecvQueue
	quota                         int
}

func newEngine(cfg engineConfig) *engine {
	e := &engine{}
	t := region.NewTable()
	if cfg.pool == nil {
		cfg.pool = NewPool(1 << 30)
	}
	if cfg.mulpdu == 0 {
		cfg.mulpdu = 1442
	}
	if cfg.size == 0 {
		cfg.size = 1 << 16
	}
	s := &e.snd
	s.mulpdu, s.crc, s.ord, s.ird = cfg.mulpdu, !cfg.nocrc, cfg.ord, cfg.ird
	s.limit, s.table, s.interleave, s.ext = 1<<30, t, cfg.interleave, cfg.ext
	e.rcv = newReceiver(receiverConfig{
		ext: cfg.ext, table: t, up: inFlight{noLock{}, s}, size: cfg.size, recvs: cfg.recvs, pool: cfg.pool.mem,
		queue: cfg.queue.shared(), quota: cfg.quota,
	})
	e.df.CRC = !cfg.nocrc
	return e
}

// noLock is the lock of engines that are used by one goroutine.
type noLock struct{}

func (noLock) Lock()   {}
func (noLock) Unlock() {}

// post queues work requests.
func (e *engine) post(wrs ...verbs.WR) {
	if e.conn == nil {
		e.snd.postAll(wrs)
		return
	}
	for i := range wrs {
		if err := e.conn.Post(wrs[i : i+1]); err != nil {
			panic(err)
		}
	}
}

// fail is Conn.end without the connection.
func (e *engine) fail(err error) {
	if e.err != nil {
		return
	}
	e.err = err
	if t := terminateFor(err); t != nil {
		e.due = e.snd.terminate(t.Append(nil), e.due, err, false)
	} else {
		e.due = e.snd.abort(e.due, err, false)
	}
}

// output returns everything that may be sent now.
func (e *engine) output() (out []byte) {
	if e.conn != nil {
		return nil
	}
	for {
		if e.snd.aborted {
			e.due = e.snd.prune(&e.wk, e.due)
		}
		var t task
		for more := e.snd.begin(&t); more; more = e.snd.next(&t) {
			if err := t.run(e.snd.table); err != nil {
				e.fail(err)
			}
			e.snd.finish(&t)
		}
		if !e.snd.take(&e.wk) {
			break
		}
		err := e.wk.fill(e.snd.mulpdu, e.snd.crc, e.snd.table)
		e.wk.b.Begin(false)
		for _, p := range e.wk.b.Unwritten() {
			out = append(out, p...)
		}
		if err != nil {
			e.fail(err)
		}
		e.due = e.snd.settle(&e.wk, false, e.due)
	}
	fire(e.due)
	e.due = e.due[:0]
	return out
}

// input handles octets from the peer. After an error it drops them.
func (e *engine) input(b []byte) {
	if e.conn != nil {
		e.wire = append(e.wire, b...)
		return
	}
	e.in = append(e.in, b...)
	for e.err == nil {
		u, n, err := e.df.Next(e.in)
		if err != nil {
			e.fail(protocolError(err, nil))
			break
		}
		if n == 0 {
			break
		}
		if !e.singly && e.rcv.repeats(u) {
			e.repeated++
			ev := &event{kind: evMessage}
			e.rcv.repeat(u[ddp.UntaggedLen:], &ev.msg)
			e.event(ev)
			e.in = e.in[n:]
			continue
		}
		ev, err := e.rcv.input(u)
		if err != nil {
			e.fail(err)
			break
		}
		e.event(ev)
		e.in = e.in[n:]
		if ev.kind == evNone && !e.singly {
			n := e.rcv.follow(&e.df, e.in)
			e.in = e.in[n:]
			e.followed += n
		}
	}
	fire(e.due)
	e.due = e.due[:0]
	fire(e.rcv.due)
	e.rcv.due = e.rcv.due[:0]
}

func (e *engine) event(ev *event) {
	switch ev.kind {
	case evMessage:
		m := ev.msg
		m.Data = bytes.Clone(m.Data)
		e.got = append(e.got, m)
		e.rcv.pool.Put(ev.buf)
	case evReadDone:
		e.read++
	case evTerminate:
		e.fail(ev.term)
	}
}

// exchange moves octets until both sides are silent.
func exchange(a, b *engine) {
	for {
		x, y := a.output(), b.output()
		if len(x)+len(y) == 0 {
			return
		}
		b.input(x)
		a.input(y)
	}
}

func (e *engine) register(t testing.TB, n int, access region.Access) ([]byte, region.Region) {
	t.Helper()
	mem := make([]byte, n)
	reg, err := e.snd.table.Register(mem, access)
	if err != nil {
		t.Fatal(err)
	}
	return mem, reg
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// done is a Completer for tests.
type done struct {
	n   int
	err error
}

func (d *done) Complete(err error) { d.n++; d.err = err }

var errTest = errors.New("test")
