package engine_test

import (
	"bytes"
	"testing"

	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/internal/engine"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// halves is the two halves of a Conn without socket, clock, lock or goroutine, driven by hand: octets
// in, octets out.
type halves struct {
	snd  engine.Sender
	wk   engine.Work
	rcv  *engine.Receiver
	df   mpa.Deframer
	in   []byte // received, not yet parsed
	due  []engine.Completion
	err  error
	got  []verbs.Message // delivered, Data copied
	read int             // Reads of ours completed

	hung     bool // requests that may block are not carried out
	singly   bool // every segment is passed to input by itself; see follow and repeat
	followed int  // octets that follow has used
	repeated int  // Sends that repeat has delivered
}

type engineConfig struct {
	mulpdu, ird, ord, recvs, size int
	nocrc, interleave             bool
	ext                           verbs.Extensions
	pool                          *buf.Pool
}

func newEngine(cfg engineConfig) *halves {
	e := &halves{}
	t := region.NewTable()
	if cfg.pool == nil {
		cfg.pool = buf.NewPool(1 << 30)
	}
	if cfg.mulpdu == 0 {
		cfg.mulpdu = 1442
	}
	if cfg.size == 0 {
		cfg.size = 1 << 16
	}
	s := &e.snd
	s.MULPDU, s.CRC, s.ORD = cfg.mulpdu, !cfg.nocrc, cfg.ord
	s.Set(cfg.ird, cfg.interleave)
	s.Limit, s.Table, s.Ext = 1<<30, t, cfg.ext
	s.Open(true)
	e.rcv = engine.NewReceiver(engine.ReceiverConfig{
		Table: t, Lock: noLock{}, Sender: s, Size: cfg.size, Recvs: cfg.recvs, Pool: cfg.pool,
	})
	e.rcv.Admit(cfg.ext)
	e.df.CRC = !cfg.nocrc
	return e
}

// noLock is the lock of engines that are used by one goroutine.
type noLock struct{}

func (noLock) Lock() {}

func (noLock) Unlock() {}

// post queues work requests.
func (e *halves) post(wrs ...verbs.WR) {
	e.snd.PostAll(wrs)
}

// fail is Conn.end without the connection.
func (e *halves) fail(err error) {
	if e.err != nil {
		return
	}
	e.err = err
	e.due = e.snd.Fail(err, false, false, e.due)
}

// output returns everything that may be sent now.
func (e *halves) output() (out []byte) {
	for {
		if e.snd.State().Ended() {
			e.due = e.snd.Prune(&e.wk, e.due)
		}
		var t engine.Task
		for more := !e.hung && e.snd.Begin(&t); more; more = e.snd.Next(&t) {
			if err := t.Run(e.snd.Table); err != nil {
				e.fail(err)
			}
			e.snd.Finish(&t)
		}
		if !e.snd.Take(&e.wk) {
			break
		}
		err := e.wk.Build(e.snd.MULPDU, e.snd.CRC, e.snd.Table)
		e.wk.Batch.Begin(false)
		for _, p := range e.wk.Batch.Unwritten() {
			out = append(out, p...)
		}
		if err != nil {
			e.fail(err)
		}
		e.due = e.snd.Wrote(&e.wk, false, e.due)
	}
	engine.Fire(e.due)
	e.due = e.due[:0]
	return out
}

// input handles octets from the peer. After an error it drops them.
func (e *halves) input(b []byte) {
	e.in = append(e.in, b...)
	for e.err == nil {
		u, n, err := e.df.Next(e.in)
		if err != nil {
			e.fail(engine.ProtocolError(err, nil))
			break
		}
		if n == 0 {
			break
		}
		if !e.singly && e.rcv.Repeats(u) {
			e.repeated++
			ev := &engine.Event{Kind: engine.EvMessage}
			e.rcv.Repeat(u[ddp.UntaggedLen:], &ev.Msg)
			e.event(ev)
			e.in = e.in[n:]
			continue
		}
		ev, err := e.rcv.Input(u)
		if err != nil {
			e.fail(err)
			break
		}
		e.event(ev)
		e.in = e.in[n:]
		if ev.Kind == engine.EvNone && !e.singly {
			n := e.rcv.Continue(&e.df, e.in)
			e.in = e.in[n:]
			e.followed += n
		}
	}
	engine.Fire(e.due)
	e.due = e.due[:0]
	engine.Fire(e.rcv.Due)
	e.rcv.Due = e.rcv.Due[:0]
}

func (e *halves) event(ev *engine.Event) {
	switch ev.Kind {
	case engine.EvMessage:
		m := ev.Msg
		m.Data = bytes.Clone(m.Data)
		e.got = append(e.got, m)
		e.rcv.Pool().Put(ev.Buf)
	case engine.EvReadDone:
		e.read++
	case engine.EvTerminate:
		e.fail(ev.Term)
	}
}

// exchange moves octets until both sides are silent.
func exchange(a, b *halves) {
	for {
		x, y := a.output(), b.output()
		if len(x)+len(y) == 0 {
			return
		}
		b.input(x)
		a.input(y)
	}
}

func (e *halves) register(t testing.TB, n int, access region.Access) ([]byte, region.Region) {
	t.Helper()
	mem := make([]byte, n)
	reg := must(e.snd.Table.Register(mem, access))(t)
	return mem, reg
}
