package bench_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/backend/dir"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/nfsdemo/nfsclient"
	"github.com/stag-rdma/stag/nfsdemo/server"
	"github.com/stag-rdma/stag/transport"
)

var (
	libnfs   = flag.String("libnfs", "", "the `program` made of testdata/libnfs.c, for columns of its own")
	servers  = flag.String("servers", "", "further NFS servers on this machine: `NAME=PID=URL,...`; files bench.N stay in them")
	fileSize = flag.Int64("file-size", 64<<20, "octets of a file, for which a server needs room four times")
)

const exportPath = "/bench"

// column is an NFS server and how it is called.
type column struct {
	name, url string
	pid       int
	config    *transport.Config // of the client
	libnfs    bool              // is the client
}

func columns(b *testing.B) (cs []column) {
	p := thePeer(b)
	bare := &transport.Config{Startup: transport.Startup{CRC: transport.CRCOff}}
	small := &transport.Config{InlineSend: transport.DefaultInlineSize, InlineRecv: transport.DefaultInlineSize}
	cs = []column{
		{"RDMA", "nfs+rdma://" + p.Addr["nfs"] + exportPath, p.PID, nil, false},
		{"RDMA, no CRC", "nfs+rdma://" + p.Addr["nfs-bare"] + exportPath, p.PID, bare, false},
		{"RDMA, 4K inline", "nfs+rdma://" + p.Addr["nfs"] + exportPath, p.PID, small, false},
		{"TCP", "nfs://" + p.Addr["nfs-tcp"] + exportPath, p.PID, nil, false},
	}
	for s := range strings.SplitSeq(*servers, ",") {
		if name, rest, ok := strings.Cut(s, "="); ok {
			pid, at, _ := strings.Cut(rest, "=")
			id, err := strconv.Atoi(pid)
			check(b, err)
			cs = append(cs, column{name: name, url: at, pid: id})
		}
	}
	if *libnfs != "" { // with our server, and with one that users of it have today
		for _, c := range cs {
			switch c.name {
			case "TCP":
				cs = append(cs, column{"libnfs", c.url, c.pid, nil, true})
			case "ganesha":
				cs = append(cs, column{"libnfs, ganesha", c.url, c.pid, nil, true})
			}
		}
	}
	return cs
}

// op is a call: its name and octets of data.
type op struct {
	name string
	size int
}

// load is a row: calls of op in flight on each connection; or one, beside as many of a stream as bulkDepth.
type load struct {
	op          op
	depth       int
	connections int
	beside      op
}

func (l load) String() string {
	s := fmt.Sprintf("%s x %d", l.op.name, l.depth)
	if l.beside.name != "" {
		s = fmt.Sprintf("%s beside %s x %d", l.op.name, l.beside.name, bulkDepth)
	}
	if l.connections > 1 {
		s += fmt.Sprintf(", %d connections", l.connections)
	}
	return s
}

// BenchmarkNFS puts the same loads on every server.
func BenchmarkNFS(b *testing.B) {
	getattr, write4, write64, write1M := op{"GETATTR", 0}, op{"WRITE 4K", 4 << 10}, op{"WRITE 64K", 64 << 10}, op{"WRITE 1M", 1 << 20}
	read4, read64, read1M := op{"READ 4K", 4 << 10}, op{"READ 64K", 64 << 10}, op{"READ 1M", 1 << 20}
	for _, l := range []load{
		{write4, 8, 1, op{}},
		{write64, 1, 1, op{}},
		{write64, 8, 1, op{}},
		{write1M, 8, 1, op{}},
		{read4, 8, 1, op{}},
		{read64, 1, 1, op{}},
		{read64, 8, 1, op{}},
		{read1M, 8, 1, op{}},
		{getattr, 1, 1, op{}},
		{getattr, 32, 1, op{}},
		{getattr, 32, 4, op{}},
		{getattr, 1, 1, read1M},
		{getattr, 1, 1, write1M},
	} {
		b.Run(l.String(), func(b *testing.B) {
			for _, c := range columns(b) {
				var files []*file // made once, whatever b.N is
				var foreign *foreign
				b.Run(c.name, func(b *testing.B) {
					for i := len(files); i < l.connections; i++ {
						files = append(files, open(b, &c, i))
					}
					if !c.libnfs {
						l.run(b, &c, files)
						return
					}
					if foreign == nil {
						foreign = start(b, &c, l.connections)
					}
					foreign.run(b, &c, &l)
				})
				foreign.close()
				for _, f := range files {
					f.c.Close()
				}
			}
		})
	}
}

// file is a connection, and the file that its calls are about.
type file struct {
	c    *nfsclient.Client
	n    *nfsclient.Node
	next atomic.Int64 // how many pieces were read or written
}

// open mounts the export and fills file number i. The sockets are the client's own, so bench-nfs.sh makes reno the
// default of its network namespace.
func open(b *testing.B, c *column, i int) *file {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	u, err := nfsclient.ParseURL(c.url)
	check(b, err)
	f := new(file)
	f.c, err = nfsclient.Dial(ctx, u, &nfsclient.Config{Transport: c.config, InFlight: bulkDepth})
	check(b, err)
	f.n, err = f.c.Create(ctx, f.c.Root(), fmt.Sprintf("bench.%d", i), 0o600, false)
	check(b, err)
	if f.n.Size() != *fileSize {
		_, err = f.c.WriteFrom(ctx, f.n, nfsclient.Memory(make([]byte, *fileSize)), 0, *fileSize, nil)
		check(b, err)
	}
	return f
}

// foreign is a running program of testdata/libnfs.c, which says what it does.
type foreign struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func start(b *testing.B, c *column, connections int) *foreign {
	u, err := nfsclient.ParseURL(c.url)
	check(b, err)
	f := &foreign{cmd: exec.Command(*libnfs, u.Host, strconv.Itoa(u.Port), strconv.Itoa(cmp.Or(u.MountPort, u.Port)), u.Path, strconv.Itoa(connections))}
	f.cmd.Stderr = os.Stderr
	f.in, err = f.cmd.StdinPipe()
	check(b, err)
	out, err := f.cmd.StdoutPipe()
	check(b, err)
	f.out = bufio.NewReader(out)
	check(b, f.cmd.Start())
	return f
}

// run is load.run.
func (f *foreign) run(b *testing.B, c *column, l *load) {
	line := func(o op, depth int) string {
		verb, _, _ := strings.Cut(o.name, " ")
		return fmt.Sprint(cmp.Or(verb, "-"), " ", o.size, " ", depth, " ")
	}
	depth := bulkDepth
	if l.beside.name == "" {
		depth = 0
	}
	b.SetBytes(int64(l.op.size))
	before := [2]time.Duration{cpu(b, c.pid), cpu(b, f.cmd.Process.Pid)}
	b.ResetTimer()
	_, err := fmt.Fprintln(f.in, line(l.op, l.depth), line(l.beside, depth), b.N)
	check(b, err)
	answer, err := f.out.ReadString('\n')
	b.StopTimer()
	check(b, err)
	if l.beside.name == "" {
		b.ReportMetric(float64((cpu(b, c.pid)-before[0]).Nanoseconds())/float64(b.N), "server-ns/op")
		b.ReportMetric(float64((cpu(b, f.cmd.Process.Pid)-before[1]).Nanoseconds())/float64(b.N), "client-ns/op")
		return
	}
	p99, err := strconv.ParseFloat(strings.TrimSpace(answer), 64)
	check(b, err)
	b.ReportMetric(p99, "p99-ns")
}

func (f *foreign) close() {
	if f != nil {
		f.in.Close()
		_ = f.cmd.Wait() // the figures are in
	}
}

// run makes b.N calls, and reports what each costs both ends; or the latency of most beside a stream, where the costs
// are those of both loads.
func (l *load) run(b *testing.B, c *column, files []*file) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	b.SetBytes(int64(l.op.size))
	if l.beside.name == "" {
		before := [2]time.Duration{cpu(b, c.pid), cpu(b, os.Getpid())}
		among(b, l.depth*len(files), caller(ctx, files, l.op, l.depth*len(files)))
		b.ReportMetric(float64((cpu(b, c.pid)-before[0]).Nanoseconds())/float64(b.N), "server-ns/op")
		b.ReportMetric(float64((cpu(b, os.Getpid())-before[1]).Nanoseconds())/float64(b.N), "client-ns/op")
		return
	}
	var stream sync.WaitGroup
	bulk, over := caller(ctx, files, l.beside, bulkDepth), make(chan struct{})
	errs := make([]error, bulkDepth)
	for i := range errs {
		stream.Go(func() {
			for errs[i] == nil {
				select {
				case <-over:
					return
				default:
					errs[i] = bulk(i)
				}
			}
		})
	}
	one, times := caller(ctx, files, l.op, 1), make([]time.Duration, 0, b.N)
	among(b, 1, func(i int) error {
		start := time.Now()
		err := one(i)
		times = append(times, time.Since(start))
		return err
	})
	close(over)
	stream.Wait()
	check(b, errors.Join(errs...))
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)*99/100].Nanoseconds()), "p99-ns")
}

// caller returns a function that makes a call of o, for k goroutines which share the connections.
func caller(ctx context.Context, files []*file, o op, k int) func(i int) error {
	nodes, bufs := make([]nfsclient.Node, k), make([][]byte, k)
	for i := range k {
		nodes[i], bufs[i] = *files[i%len(files)].n, make([]byte, o.size)
	}
	return func(i int) (err error) {
		f, n, buf := files[i%len(files)], &nodes[i], bufs[i]
		var off int64
		if o.size > 0 {
			off = f.next.Add(1) % (*fileSize / int64(o.size)) * int64(o.size)
		}
		switch verb, _, _ := strings.Cut(o.name, " "); verb {
		case "READ":
			_, err = f.c.ReadAt(ctx, n, buf, off)
		case "WRITE":
			_, _, err = f.c.WriteAt(ctx, n, buf, off, nfs3.Unstable)
		default:
			err = f.c.Refresh(ctx, n)
		}
		return err
	}
}

// cpu returns the processor time of the threads of a process. Only schedstat counts it in nanoseconds.
func cpu(b *testing.B, pid int) (sum time.Duration) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	check(b, err)
	for _, t := range tasks {
		stat, err := os.ReadFile(t)
		if errors.Is(err, fs.ErrNotExist) { // the thread has ended
			continue
		}
		check(b, err)
		ns, _, _ := bytes.Cut(stat, []byte(" "))
		n, err := strconv.ParseInt(string(ns), 10, 64)
		check(b, err)
		sum += time.Duration(n)
	}
	return sum
}

// services are those of the other process, with files in the directory at.
func services(at string) (map[string]func(net.Listener), error) {
	export := filepath.Join(at, "export")
	if err := os.Mkdir(export, 0o700); err != nil {
		return nil, err
	}
	fsys, err := dir.New(export, nil)
	if err != nil {
		return nil, err
	}
	h, err := server.New(&server.Config{Exports: []server.Export{{Path: exportPath, FS: fsys, Squash: server.SquashNone}}})
	if err != nil {
		return nil, err
	}
	nfs, bare := &transport.Server{Handler: h}, &transport.Server{Handler: h, Config: &transport.Config{Startup: transport.Startup{CRC: transport.CRCOff}}}
	calls := func(cfg *transport.Config) func(net.Listener) {
		s := &transport.Server{Handler: program{}, Config: cfg}
		return func(l net.Listener) { _ = s.Serve(l) } // until this process ends
	}
	log := func(dir string) func(net.Listener) {
		return each(func(c net.Conn) {
			if err := serveLog(c, dir); err != nil {
				fmt.Fprintln(os.Stderr, "bench: consumer:", err)
			}
		})
	}
	return map[string]func(net.Listener){
		"echo":        each(serveEcho(nullCall, nullReply)),
		"ping":        each(serveEcho(sendFPDU, sendFPDU)),
		"commit-echo": each(serveEcho(record, answer)),
		"pong":        each(servePong),
		"records":     each(serveRecords),
		"bulk":        each(serveBulkRecords),
		"rdma":        calls(nil),
		"chunks":      calls(echoConfig(transport.CRCOn)),
		"chunks-bare": calls(echoConfig(transport.CRCOff)),
		"log-memory":  log(""),
		"log-file":    log(at),
		"nfs":         func(l net.Listener) { _ = nfs.Serve(l) },
		"nfs-bare":    func(l net.Listener) { _ = bare.Serve(l) },
		"nfs-tcp":     func(l net.Listener) { _ = nfs.ServeStream(l) },
	}, nil
}
