package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/backend"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/transport/commitlog"
	"github.com/stag-rdma/stag/transport/push"
)

// ringSize is the ring of a log, octets, and how much of a file is written again and again;
// tests make it smaller.
var ringSize = 4 << 20

const (
	// applyEvery is when the applier looks at a log: one that is woken by every record
	// would take a processor away from the answers.
	applyEvery = 50 * time.Millisecond
	// offsetLen is what stands before the data of a record: where they go.
	offsetLen = 8
)

// applier writes what the records of a log say into the file of its name.
type applier struct {
	root    backend.Node
	applied atomic.Int64 // records, of all logs
}

// consume implements push.Server.Consume.
func (a *applier) consume(ctx context.Context, l *push.Log) {
	f, _, err := a.root.Create(l.Name(), &backend.Init{})
	for err == nil {
		var r *commitlog.Record
		if r, err = l.Next(ctx); err == nil {
			time.Sleep(applyEvery)
			err = a.apply(l, f, r)
		}
	}
	if ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "bench: apply:", err)
	}
}

// apply writes r and what has come behind it, makes that durable, and only then gives the
// room back.
func (a *applier) apply(l *push.Log, f backend.Node, r *commitlog.Record) error {
	last, n := uint64(0), int64(0)
	for r != nil {
		if len(r.Payload) < offsetLen {
			return errors.New("bench: a record without an offset")
		}
		off := binary.BigEndian.Uint64(r.Payload)
		if _, err := f.Write(r.Payload[offsetLen:], off, nfs3.Unstable); err != nil {
			return err
		}
		last, n = r.Seq, n+1
		var err error
		if r, err = l.TryNext(); err != nil {
			return err
		}
	}
	if _, err := f.Commit(0, 0); err != nil {
		return err
	}
	a.applied.Add(n)
	return l.Release(last)
}
