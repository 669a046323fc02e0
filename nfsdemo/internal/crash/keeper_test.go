package crash

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/stag-rdma/stag/nfsdemo/backend/dir"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/replies"
)

// runKeeper is a server that pushes its replies.
func runKeeper(work string) error {
	export := filepath.Join(work, "export")
	files, err := dir.New(export, &dir.Config{Key: []byte("of a server that comes back often")})
	if err != nil {
		return err
	}
	nfs, err := server.New(&server.Config{Exports: []server.Export{{Path: export, FS: files, Squash: server.SquashNone}}})
	if err != nil {
		return err
	}
	var at [3]net.Listener
	for i := range at {
		if at[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return err
		}
	}
	p := &replies.Pusher{Handler: nfs, Addr: at[2].Addr().String()}
	ts := &transport.Server{Handler: p}
	errs := make(chan error, 3)
	go func() { errs <- ts.Serve(at[0]) }()
	go func() { errs <- ts.ServeStream(at[1]) }()
	go func() { errs <- p.Serve(at[2]) }()
	port := filepath.Join(work, "port")
	text := fmt.Sprintf("EXPORT=%s\nRDMA=%s\nTCP=%s\nPID=%d\n", export, at[0].Addr(), at[1].Addr(), os.Getpid())
	if err := errors.Join(os.WriteFile(port+".new", []byte(text), 0o600), os.Rename(port+".new", port)); err != nil {
		return err
	}
	return <-errs
}

// runKept runs the worker of client c that has its replies in a log. It continues with the list
// of its last life if the log knows what has become of the open operation, else with another.
func runKept(ctx context.Context, work string, c int) error {
	logs := filepath.Join(work, "client"+strconv.Itoa(c))
	if err := os.MkdirAll(logs, 0o700); err != nil {
		return err
	}
	id := uint16(1000*c + 501) // those before are of other workers
	var past []*History
	for ; ; id++ {
		h, err := LoadList(filepath.Join(work, "lists", strconv.Itoa(int(id))), id)
		if errors.Is(err, os.ErrNotExist) {
			break
		}
		if err != nil {
			return err
		}
		past = append(past, h)
	}
	addr := Addr(filepath.Join(work, "addr"))
	caller, err := NewKept(addr, id, logs)
	if err != nil {
		return err
	}
	defer caller.Close()
	if len(past) > 0 {
		last := past[len(past)-1]
		res, err := caller.(*kept).recall(past)
		if err != nil {
			return fmt.Errorf("worker %d: %w", last.Worker, err)
		}
		if o := last.Open(); o == nil || o.looks() || res != nil {
			id = last.Worker
			caller.(*kept).init(id)
			if err := settle(work, last, res); err != nil {
				return err
			}
		}
	}
	return run(ctx, work, id, caller)
}

// settle puts the result of the open operation on the list.
func settle(work string, h *History, res *Result) error {
	if res == nil {
		return nil // nothing is open, or it can be called anew
	}
	o := h.Open()
	l, _, err := OpenList(filepath.Join(work, "lists", strconv.Itoa(int(h.Worker))), h.Worker)
	if err != nil {
		return err
	}
	return errors.Join(l.Result(o.N, res), l.Close())
}
