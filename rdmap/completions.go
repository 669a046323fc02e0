package rdmap

import (
	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/internal/mutant"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// completion is a Completer that is due, and the error to call it with. Completers are called with
// no lock held.
type completion struct {
	done verbs.Completer
	err  error
}

func fire(due []completion) {
	for i, c := range due {
		due[i] = completion{}
		c.done.Complete(c.err)
	}
}

// completions keeps the order of RFC 5040 Section 5.5: work requests complete in the order of their
// submission, so one posted after a Read waits for that Read. An entry is made when a work request
// is taken to be written. It completes when it has been written and, if it is a request, its
// response has arrived. The response may be noticed first.
type completions struct {
	q       buf.Ring[pendingCompletion]
	written int // entries at the front that have been written
	err     error
}

type pendingCompletion struct {
	done     verbs.Completer // may be nil
	read     bool            // it gets an answer
	answered bool
}

// taken makes an entry for it, if it needs one.
func (o *completions) taken(it *item) {
	if o.wants(it) {
		o.q.Push(pendingCompletion{
			done: it.done,
			read: asks(it.op) && !mutant.CompleteEarly || mutant.CompleteLate,
		})
	}
}

// wrote says that it, the oldest work request not yet known to be written, has been written.
func (o *completions) wrote(it *item, out []completion) []completion {
	if !o.wants(it) {
		return out
	}
	o.written++
	return o.flush(out)
}

func (o *completions) wants(it *item) bool {
	return it.done != nil || asks(it.op)
}

// answer says that the response to the oldest unanswered request is complete.
func (o *completions) answer(out []completion) []completion {
	for i := range o.q.Len() {
		if p := o.q.At(i); p.read && !p.answered {
			p.answered = true
			break
		}
	}
	return o.flush(out)
}

// flush appends what is due to out.
func (o *completions) flush(out []completion) []completion {
	for o.written > 0 {
		if p := o.q.At(0); p.read && !p.answered && o.err == nil {
			break
		}
		o.written--
		if p := o.q.Pop(); p.done != nil {
			out = append(out, completion{p.done, o.err})
		}
	}
	o.q.Trim()
	return out
}

// abort completes with err what has been written, and makes everything that follows complete with
// err too. What is being written is still being read from, so it completes afterwards.
func (o *completions) abort(out []completion, err error) []completion {
	o.err = err
	return o.flush(out)
}
