package crash

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
)

// Worker is a client with a directory of its own, which does one operation at a time.
type Worker struct {
	ID     uint16
	Seed   uint64
	Caller Caller
	List   *List
	Past   *History // the list of earlier lives

	m    *Model
	c    *chooser
	late *Op     // the last call, if it may come again
	said *Result // its answer
	seen int     // connections
}

// mountXID is the first XID of calls that are not operations.
const mountXID = 1 << 31

// Run works until ctx ends or something is wrong. It continues where the list ends: if the last
// operation has no result, Run sends it again if the caller can, and otherwise returns.
func (w *Worker) Run(ctx context.Context, export string) error {
	fh, err := root(ctx, w.Caller, mountXID, export)
	if err != nil {
		return fmt.Errorf("worker %d: mount %s: %w", w.ID, export, err)
	}
	w.m = NewModel(w.ID)
	w.m.root.handle = fh
	w.c = &chooser{Rand: rand.New(rand.NewPCG(w.Seed, uint64(len(w.Past.Ops)))), m: w.m}
	if err := w.resume(ctx); err != nil {
		return fmt.Errorf("worker %d: %w", w.ID, err)
	}
	if len(w.Past.Ops) == 0 {
		w.seen = w.Caller.dials()
	}
	if err := w.repeat(ctx); err != nil {
		return fmt.Errorf("worker %d: %w", w.ID, err)
	}
	for n := uint32(len(w.Past.Ops)) + 1; ; n++ {
		o := w.c.next()
		o.N, o.Life = n, w.Caller.life()
		if w.Caller.names() {
			o.XID = n
		}
		if err := w.List.Issue(o); err != nil {
			return err
		}
		if err := w.do(ctx, o); err != nil {
			return fmt.Errorf("worker %d: %v: %w", w.ID, o, err)
		}
		if err := w.repeat(ctx); err != nil {
			return fmt.Errorf("worker %d: %w", w.ID, err)
		}
	}
}

// resume brings the model up to the end of the list.
func (w *Worker) resume(ctx context.Context) error {
	for i, o := range w.Past.Ops {
		res := w.Past.Results[i]
		if res == nil {
			if !w.Caller.names() && !o.looks() {
				return fmt.Errorf("%v is open, but its XID is unknown", o)
			}
			return w.do(ctx, o)
		}
		w.learn(o, res)
	}
	return nil
}

// do sends an operation, notes its result and learns from it.
func (w *Worker) do(ctx context.Context, o *Op) error {
	res, err := w.send(ctx, o)
	if err != nil {
		return err
	}
	res.Life = w.Caller.life()
	k, _ := w.Caller.(*kept)
	if k != nil && o.Once() {
		res.Kept = k.last
	}
	if err := w.List.Result(o.N, res); err != nil {
		return err
	}
	if k != nil {
		k.listed()
	}
	w.learn(o, res)
	if res.Status == nfs3.ErrJukebox {
		return pause(ctx)
	}
	return nil
}

func (w *Worker) send(ctx context.Context, o *Op) (*Result, error) {
	msg, err := o.call(w.ID)
	if err != nil {
		return nil, err
	}
	raw, err := w.Caller.do(ctx, o.XID, nfs3.Program, msg)
	if err != nil {
		return nil, err
	}
	return o.result(msg.proc, raw)
}

// learn applies a result to the model. It does not check the result: Check does.
func (w *Worker) learn(o *Op, res *Result) {
	if res.Status == nfs3.ErrJukebox {
		return
	}
	w.m.Apply(o, res)
	if w.late = nil; o.Once() {
		w.late, w.said = o, res
	}
}

// repeat sends the last call again on a new connection although it was answered, as if the network had delivered
// it late, unless the server has forgotten it. It must be the last: if the server is killed meanwhile, it runs again.
func (w *Worker) repeat(ctx context.Context) error {
	if w.Caller.dials() == w.seen || !w.Caller.names() {
		return nil
	}
	if o := w.late; o != nil && w.said.Life == w.Caller.life() {
		res, err := w.send(ctx, o)
		if err != nil {
			return fmt.Errorf("%v again: %w", o, err)
		}
		res.Life = w.Caller.life()
		if err := w.List.Again(o.N, res); err != nil {
			return err
		}
	}
	w.seen = w.Caller.dials()
	return nil
}
