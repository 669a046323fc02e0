package crash

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/transport/replies"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// kept is a Caller over RPC-over-RDMA that logs its calls before it sends them, and whose replies
// are durable before the worker sees them: after a restart it knows its answers.
type kept struct {
	lasting
	c    *replies.Client
	seqs []uint64 // the last records, which are not released yet
	last uint64   // record of the last reply, 0: none
}

// The last keptReplies replies on the list must be in the log. More records stay there, because
// some replies have two.
const (
	keptReplies = 3
	keptRecords = 10
)

// memory is the size of each log of a kept caller, in octets.
const memory = 128 << 10

// NewKept returns a caller for a worker over NFS/RDMA that keeps its logs in dir.
func NewKept(addr Addr, worker uint16, dir string) (Caller, error) {
	mem, err := openMemory(filepath.Join(dir, "replies"))
	if err != nil {
		return nil, err
	}
	calls, err := openMemory(filepath.Join(dir, "calls"))
	if err != nil {
		return nil, errors.Join(err, mem.Close())
	}
	k := &kept{}
	k.init(worker)
	k.c, err = replies.Open(&replies.Config{
		Memory: mem, Calls: calls, Redial: *k.redial(addr),
		Choose: func(prog, _, proc uint32) bool { return prog == nfs3.Program && keeps(proc) },
	})
	if err != nil {
		return nil, errors.Join(err, mem.Close(), calls.Close())
	}
	k.r, k.send = k.c, k.call
	return k, nil
}

// keeps reports whether a procedure must not run twice.
func keeps(proc uint32) bool {
	switch p := nfs3.Proc(proc); p {
	case nfs3.ProcSetAttr, nfs3.ProcRemove, nfs3.ProcRmdir, nfs3.ProcRename, nfs3.ProcLink:
		return true
	default:
		return p >= nfs3.ProcCreate && p <= nfs3.ProcMknod
	}
}

// openMemory opens a log, and makes it if it does not exist.
func openMemory(name string) (*pmem.Memory, error) {
	mem, err := pmem.Open(pmem.File, name, nil)
	if !errors.Is(err, pmem.ErrOpen) {
		return mem, err
	}
	if err := makeLog(name + ".new"); err != nil {
		return nil, err
	}
	if err := os.Rename(name+".new", name); err != nil { // the process may be killed before
		return nil, err
	}
	return pmem.Open(pmem.File, name, nil)
}

func makeLog(name string) error {
	_ = os.Remove(name)
	if err := pmem.Create(name, memory, nil); err != nil {
		return err
	}
	mem, err := pmem.Open(pmem.File, name, nil)
	if err != nil {
		return err
	}
	return errors.Join(replies.Create(mem, nil), mem.Close())
}

// call makes a call and remembers the record of its reply.
func (k *kept) call(ctx context.Context, call *rpc.Call, reply *rpc.Reply) error {
	seq, err := k.c.Call(ctx, call, reply)
	if errors.Is(err, replies.ErrNotKept) { // the server was killed, but the reply has arrived
		seq, err = 0, nil
	}
	if k.last = seq; seq != 0 {
		k.seqs = append(k.seqs, seq)
	}
	return err
}

// listed is called when the result of the last call is on the list; it releases old records.
func (k *kept) listed() {
	for len(k.seqs) > keptRecords {
		k.c.Done(k.seqs[0])
		k.seqs = k.seqs[1:]
	}
}

// recall compares the logs with the lists of earlier lives, in order. It returns the result of the
// open operation of the last one, or nil if the log does not have it.
func (k *kept) recall(past []*History) (*Result, error) {
	calls := make(map[[sha256.Size]byte][]answered)
	for _, h := range past {
		for i, o := range h.Ops {
			if m, err := o.call(h.Worker); err == nil {
				d := replies.Digest(nfs3.Program, nfs3.Version, uint32(m.proc), m.whole())
				calls[d] = append(calls[d], answered{o, h.Results[i]})
			}
		}
	}
	have := make(map[uint64]bool)
	var open *Result
	for _, r := range k.c.Recovered() {
		have[r.Seq] = true
		k.seqs = append(k.seqs, r.Seq)
		res, err := match(calls[r.Digest], r)
		if err != nil {
			return nil, err
		}
		if res != nil {
			open = res
		}
	}
	for _, u := range k.c.Unanswered() {
		if calls[u.Digest] == nil {
			return nil, fmt.Errorf("call %d is in the log, but nobody made it", u.XID)
		}
		k.c.Settle(u)
	}
	return open, past[len(past)-1].missing(have)
}

// answered is an operation with its result, nil if it has none.
type answered struct {
	o   *Op
	res *Result
}

// match looks for the operation that the record r answers, and returns the reply if the list does
// not have it. A call has two records if the server was killed between record and reply.
func match(all []answered, r *replies.Record) (*Result, error) {
	var open *Result
	for _, a := range all {
		res, err := result(a.o, r)
		switch {
		case err != nil:
			return nil, err
		case a.res == nil:
			open = res // of two, the last
		case bytes.Equal(a.res.Raw, res.Raw), a.o.cut(a.res):
			return nil, nil //nolint:nilnil // the list has it, or the answer of a second run
		}
	}
	if open != nil {
		return open, nil
	}
	return nil, fmt.Errorf("record %d answers no call on the list", r.Seq)
}

// result reads the reply in a record.
func result(o *Op, r *replies.Record) (*Result, error) {
	var head xdr.ReplyHeader
	d := xdr.NewDecoder(r.Reply)
	err := head.Parse(&d)
	if err == nil {
		err = head.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("record %d: %w", r.Seq, err)
	}
	res, err := o.result(nfs3.Proc(r.Proc), d.Rest())
	if err == nil {
		res.Kept = r.Seq
	}
	return res, err
}

// missing returns an error if one of the last replies on the list is not in the log.
func (h *History) missing(have map[uint64]bool) error {
	n := 0
	for i := len(h.Ops) - 1; i >= 0 && n < keptReplies; i-- {
		res := h.Results[i]
		if res == nil || res.Kept == 0 {
			continue
		}
		if n++; !have[res.Kept] {
			return fmt.Errorf("%v was answered by record %d, which is not in the log", h.Ops[i], res.Kept)
		}
	}
	return nil
}
