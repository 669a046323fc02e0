package commitlog_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/region/pmem"
	"github.com/stag-rdma/stag/transport/commitlog"
)

// The processes that TestKill kills are this test binary, told by the environment what
// to be.
const (
	childRole   = "STAG_COMMITLOG_CHILD"       // consumer or producer; create or check
	childDir    = "STAG_COMMITLOG_DIR"         // where log, applied and addr are
	childRun    = "STAG_COMMITLOG_INCARNATION" // of a producer
	childListen = "STAG_COMMITLOG_LISTEN"      // address of a consumer
)

// runChild is a process to be killed. It ends by itself only when something is wrong.
func runChild(role string) int {
	go func() { // a parent that is gone leaves nobody behind
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
	dir := os.Getenv(childDir)
	var err error
	switch role {
	case "consumer":
		err = childConsumer(dir)
	case "create": // the next two are for conformance/linux/power.sh
		if err = createFile(filepath.Join(dir, "log"), commitlog.WAL, 1<<20); err == nil {
			return 0
		}
	case "check":
		if err = checkDir(dir); err == nil {
			return 0
		}
	case "producer":
		n, _ := strconv.ParseUint(os.Getenv(childRun), 10, 32)
		err = childProducer(dir, uint32(n))
	default:
		err = fmt.Errorf("no role %q", role)
	}
	fmt.Fprintln(os.Stderr, role, "ends:", err)
	return 3
}

// killPayload makes the payload of append k of a producer: whoever has it can tell
// whether it is whole, and whose it is.
func killPayload(run, k uint32) []byte {
	r := rand.New(rand.NewPCG(uint64(run), uint64(k)))
	b := make([]byte, 8+r.IntN(3000))
	binary.BigEndian.PutUint32(b, run)
	binary.BigEndian.PutUint32(b[4:], k)
	for i := 8; i < len(b); i++ {
		b[i] = byte(r.Uint32())
	}
	return b
}

// killID returns "run k" for a payload that is whole.
func killID(b []byte) (string, error) {
	if len(b) < 8 {
		return "", fmt.Errorf("payload of %d octets", len(b))
	}
	run, k := binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
	if string(killPayload(run, k)) != string(b) {
		return "", fmt.Errorf("payload of append %d of producer %d is torn", k, run)
	}
	return fmt.Sprintf("%d %d", run, k), nil
}

// childConsumer serves the log in dir and applies what it hands out to the file applied.
func childConsumer(dir string) error {
	mem, err := pmem.Open(pmem.File, filepath.Join(dir, "log"), nil)
	if err != nil {
		return err
	}
	l, err := commitlog.Open(mem)
	if err != nil {
		return err
	}
	addr := os.Getenv(childListen)
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	tmp := filepath.Join(dir, "addr.new")
	if err := os.WriteFile(tmp, []byte(ln.Addr().String()), 0o600); err != nil {
		return err
	}
	if err := os.Rename(tmp, filepath.Join(dir, "addr")); err != nil {
		return err
	}
	applied := make(chan error, 1)
	go func() { applied <- childApply(l, filepath.Join(dir, "applied")) }()
	go func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			go childServe(l, nc)
		}
	}()
	return <-applied
}

// createFile makes the log in a new file.
func createFile(path string, mode commitlog.Mode, capacity uint64) error {
	size, err := commitlog.MemorySize(capacity)
	if err != nil {
		return err
	}
	if err := pmem.Create(path, size, nil); err != nil {
		return err
	}
	mem, err := pmem.Open(pmem.File, path, nil)
	if err != nil {
		return err
	}
	return errors.Join(commitlog.Create(mem, &commitlog.Options{Mode: mode}), mem.Close())
}

// checkDir compares log and applied in dir with what the producers printed to acked.
func checkDir(dir string) error {
	k := &killer{dir: dir, acked: make(map[uint64]string), news: make(chan struct{}, 1)}
	f, err := os.Open(filepath.Join(dir, "acked"))
	if err != nil {
		return err
	}
	defer f.Close()
	k.read(f)
	if err := k.check(); err != nil {
		return err
	}
	fmt.Printf("%d acknowledged, all there\n", len(k.acked))
	return nil
}

func childServe(l *commitlog.Log, nc net.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c := rdmap.Server(nc, commitlog.Config(nil))
	defer c.Close()
	if c.Handshake(ctx) == nil {
		_ = l.Serve(ctx, c) // the producer is killed, or comes back
	}
}

// childApply writes a line for each record, and releases some at once.
func childApply(l *commitlog.Log, path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	for {
		r, err := l.Next(context.Background())
		if err != nil {
			return err
		}
		id, err := killID(r.Payload)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(f, "%d %s\n", r.Seq, id); err != nil {
			return err
		}
		if r.Seq%8 == 0 {
			if err := f.Sync(); err != nil { // first the effects, then the head
				return err
			}
			if err := l.Release(r.Seq); err != nil {
				return err
			}
		}
	}
}

// childProducer appends over whatever connections it gets, and prints what is
// acknowledged.
func childProducer(dir string, run uint32) error {
	p := commitlog.NewProducer(&commitlog.ProducerOptions{Verify: run%2 == 0})
	p.Groups(2, 8<<10)
	var mu sync.Mutex
	next := uint32(0)
	for range 4 {
		go func() {
			for {
				mu.Lock()
				next++
				k := next
				mu.Unlock()
				r, err := p.Append(context.Background(), killPayload(run, k))
				if err != nil {
					fmt.Fprintln(os.Stderr, "append:", err)
					os.Exit(3)
				}
				mu.Lock()
				fmt.Printf("%d %d %d\n", r.Seq, run, k)
				mu.Unlock()
			}
		}()
	}
	for {
		if err := childConnect(dir, p); err != nil {
			time.Sleep(2 * time.Millisecond)
		}
	}
}

func childConnect(dir string, p *commitlog.Producer) error {
	addr, err := os.ReadFile(filepath.Join(dir, "addr"))
	if err != nil {
		return err
	}
	nc, err := net.Dial("tcp", string(addr))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c := rdmap.Client(nc, p.Config(nil))
	defer c.Close()
	if err := c.Handshake(ctx); err != nil {
		return err
	}
	if err := p.Attach(ctx, c); err != nil {
		return err
	}
	<-c.Done()
	return c.Err()
}
