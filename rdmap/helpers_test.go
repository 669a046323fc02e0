package rdmap_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"io"
	"math/big"
	"net"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/region"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// IdleMemory fails the test if a pair of connections that is idle after traffic costs more than 16 KiB.
func IdleMemory(t *testing.T, markers bool) {
	const n = 100
	clients, conns := make([]net.Conn, n), make([]*rdmap.Conn, n)
	xs, hs := make([]*rdmap.Conn, n), make([]Caller, n)
	for i := range n {
		p, q := TcpPair(t)
		clients[i] = p
		xs[i], conns[i] = rdmaptest.Connect(t, p, q, &rdmap.Config{Handler: &hs[i], Startup: rdmap.Startup{Markers: markers}}, &rdmap.Config{Handler: Echoer{}, Startup: rdmap.Startup{Markers: markers}})
	}
	before := inUse()
	for i := range n {
		go conns[i].Serve()
		for range 20 {
			w := &hs[i].W
			w.Reset()
			noErr(t, xs[i].Post([]verbs.WR{{Op: verbs.OpSend, Body: make([]byte, 4000)}}))
			noErr(t, xs[i].Wait(t.Context(), w))
		}
	}
	grown := 0
	for range 50 { // ticks, which a busy machine delays
		time.Sleep(3 * Tick)
		if grown = (inUse() - before) / n; grown <= 16<<10 {
			break
		}
	}
	t.Logf("markers %v: %d octets for each pair of connections", markers, grown)
	if grown > 16<<10 {
		t.Errorf("an idle pair costs %d octets more than before its traffic", grown)
	}
}

func inUse() int {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc + m.StackInuse)
}

// Everything returns what arrives at c until its end.
func Everything(t *testing.T, c net.Conn) []byte {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(time.Minute))
	b, err := io.ReadAll(c)
	if err != nil {
		t.Errorf("waiting for the end of the stream: %v", err)
	}
	return b
}

// Echoer answers every Send with its payload.
type Echoer struct{}

// HandleRecv implements rdmap.Handler.
func (Echoer) HandleRecv(c *rdmap.Conn, m *verbs.Message) {
	c.PostRecv(1)
	_ = c.Post([]verbs.WR{{Op: verbs.OpSend, Head: m.Data}})
}

// HandleClose implements rdmap.Handler.
func (Echoer) HandleClose(*rdmap.Conn, error) {}

// Caller completes one Waiter per message.
type Caller struct{ W rdmap.Waiter }

// HandleRecv implements rdmap.Handler.
func (h *Caller) HandleRecv(c *rdmap.Conn, m *verbs.Message) {
	c.PostRecv(1)
	h.W.Complete(nil)
}

// HandleClose implements rdmap.Handler.
func (h *Caller) HandleClose(*rdmap.Conn, error) {}

// Wires are the byte streams on which every test of a Conn runs.
var Wires = map[string]func(t testing.TB) (net.Conn, net.Conn){
	"pipe": func(testing.TB) (net.Conn, net.Conn) { return rdmaptest.Pipe() },
	"tcp":  TcpPair,
	"tls":  tlsPair,
	"unix": unixPair,
}

// TcpPair returns a connection over TCP on loopback.
func TcpPair(t testing.TB) (net.Conn, net.Conn) {
	t.Helper()
	return dialPair(t, "tcp", "127.0.0.1:0")
}

// OnWires runs f as a subtest on each of Wires.
func OnWires(t *testing.T, f func(t *testing.T, a, b net.Conn)) {
	for name, wire := range Wires {
		t.Run(name, func(t *testing.T) {
			a, b := wire(t)
			f(t, a, b)
		})
	}
}

// TlsConfig is the server's side of tlsPair, with a self-signed certificate.
var TlsConfig = sync.OnceValues(func() (*tls.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	tmpl := x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, &tmpl, &tmpl, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, nil
})

// tlsPair returns a connection of crypto/tls over TCP; the first Read or Write at each end runs the TLS
// handshake.
func tlsPair(t testing.TB) (net.Conn, net.Conn) {
	t.Helper()
	cfg := must(TlsConfig())(t)
	a, b := TcpPair(t)
	return tls.Client(a, &tls.Config{InsecureSkipVerify: true}), tls.Server(b, cfg)
}

func unixPair(t testing.TB) (net.Conn, net.Conn) {
	t.Helper()
	return dialPair(t, "unix", filepath.Join(t.TempDir(), "s"))
}

// dialPair returns a connection of the given network within this host.
func dialPair(t testing.TB, network, addr string) (net.Conn, net.Conn) {
	t.Helper()
	l := must(net.Listen(network, addr))(t)
	defer l.Close()
	a := must(net.Dial(network, l.Addr().String()))(t)
	b := must(l.Accept())(t)
	return a, b
}

// Hanging is memory whose flushes wait until they are released.
type Hanging struct {
	*rdmaptest.Persisting
	Entered, Release chan struct{}
}

// NewHanging returns memory of 64 octets whose flushes tell Entered that they have begun, and wait for Release.
func NewHanging() *Hanging {
	return &Hanging{&rdmaptest.Persisting{Mem: make([]byte, 64)}, make(chan struct{}, 8), make(chan struct{})}
}

// Persist implements region.Memory.
func (m *Hanging) Persist(off, n int) error {
	m.Entered <- struct{}{}
	<-m.Release
	return m.Persisting.Persist(off, n)
}

// Within waits for ch at most a minute.
func Within(t *testing.T, what string, ch <-chan struct{}) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(time.Minute):
		t.Fatalf("%s did not arrive", what)
	}
}

// MustRegister registers n octets at c.
func MustRegister(t testing.TB, c *rdmap.Conn, n int, a region.Access) region.Region {
	t.Helper()
	reg := must(c.Register(make([]byte, n), a))(t)
	return reg
}

// RawResponder connects an engine, as initiator, to a Peer.
func RawResponder(t *testing.T, a, b net.Conn, cfg *rdmap.Config) (*rdmap.Conn, *rdmaptest.Peer) {
	t.Helper()
	x := rdmap.Client(a, cfg)
	ch := make(chan error, 1)
	go func() { ch <- x.Handshake(t.Context()) }()
	p, _, err := rdmaptest.Respond(b, &mpa.Config{IRD: 8, ORD: 8}, nil)
	noErr(t, err)
	noErr(t, <-ch)
	t.Cleanup(func() { x.Abort(nil); <-x.Done(); b.Close() })
	return x, p
}

// Tick is the period at which active connections are looked at.
const Tick = 40 * time.Millisecond

// PoolMemory reports memory of the default pool that is still taken.
func PoolMemory() error {
	if n := rdmap.DefaultPool.Used(); n != 0 {
		return fmt.Errorf("pool memory: %d octets", n)
	}
	return nil
}

// Background is for calls inside a synctest bubble, which the context of a test may outlive.
var Background = context.Background()

// Cancellable returns a context of the test, and what ends it.
func Cancellable(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithCancel(t.Context())
}

// Calls is a small RPC protocol: every Send carries a number, and the answer carries it too. The reading role is designed
// for such a use. It counts what goes wrong.
type Calls struct {
	Mu      sync.Mutex
	Pending map[uint64]*rdmap.Waiter
	strays  int // answers nobody waits for: those of cancelled calls
	Closed  atomic.Bool
}

// HandleRecv implements rdmap.Handler.
func (h *Calls) HandleRecv(c *rdmap.Conn, m *verbs.Message) {
	c.PostRecv(1)
	id := binary.BigEndian.Uint64(m.Data)
	h.Mu.Lock()
	w := h.Pending[id]
	delete(h.Pending, id)
	if w == nil {
		h.strays++
	}
	h.Mu.Unlock()
	if w != nil {
		w.Complete(nil)
	}
}

// HandleClose implements rdmap.Handler.
func (h *Calls) HandleClose(_ *rdmap.Conn, err error) {
	h.Closed.Store(true)
	h.Mu.Lock()
	defer h.Mu.Unlock()
	for id, w := range h.Pending {
		w.Complete(err)
		delete(h.Pending, id)
	}
}

// Call makes the call with that number, of size octets, and returns when it is answered.
func (h *Calls) Call(ctx context.Context, c *rdmap.Conn, id uint64, size int) error {
	w := new(rdmap.Waiter)
	w.Reset()
	h.Mu.Lock()
	h.Pending[id] = w
	h.Mu.Unlock()
	msg := make([]byte, max(size, 8))
	binary.BigEndian.PutUint64(msg, id)
	err := c.Post([]verbs.WR{{Op: verbs.OpSend, Head: msg}})
	if err == nil {
		err = c.Wait(ctx, w)
	}
	h.Mu.Lock()
	delete(h.Pending, id)
	h.Mu.Unlock()
	return err
}

// Shuffler answers out of order, and now and then from another goroutine.
type Shuffler struct {
	Wg   sync.WaitGroup
	late [][]byte
	n    int
}

// HandleRecv implements rdmap.Handler.
func (h *Shuffler) HandleRecv(c *rdmap.Conn, m *verbs.Message) {
	c.PostRecv(1)
	h.n++
	switch {
	case h.n%7 == 0:
		msg := bytes.Clone(m.Data)
		h.Wg.Go(func() { _ = c.Post([]verbs.WR{{Op: verbs.OpSend, Head: msg}}) })
	case h.n%3 == 0:
		h.late = append(h.late, bytes.Clone(m.Data))
	default:
		_ = c.Post([]verbs.WR{{Op: verbs.OpSend, Head: m.Data}})
	}
}

// HandleIdle sends the delayed answers, the last one first.
func (h *Shuffler) HandleIdle(c *rdmap.Conn) {
	for len(h.late) > 0 {
		_ = c.Post([]verbs.WR{{Op: verbs.OpSend, Body: h.late[len(h.late)-1]}})
		h.late = h.late[:len(h.late)-1]
	}
}

// HandleClose implements rdmap.Handler.
func (h *Shuffler) HandleClose(*rdmap.Conn, error) {}

// Blocker echoes messages. It blocks on those that begin with 'b' until it is released, after HandOff if the test asks for
// that.
type Blocker struct {
	HandOff bool
	Release chan struct{}
	Handed  atomic.Int32
	Damaged atomic.Bool
}

// HandleRecv implements rdmap.Handler.
func (h *Blocker) HandleRecv(c *rdmap.Conn, m *verbs.Message) {
	c.PostRecv(1)
	before := bytes.Clone(m.Data)
	if len(m.Data) > 0 && m.Data[0] == 'b' {
		if h.HandOff && c.HandOff() {
			h.Handed.Add(1)
		}
		<-h.Release
	}
	if !bytes.Equal(before, m.Data) {
		h.Damaged.Store(true) // the loan ended too early
	}
	_ = c.Post([]verbs.WR{{Op: verbs.OpSend, Head: m.Data}})
}

// HandleClose implements rdmap.Handler.
func (h *Blocker) HandleClose(*rdmap.Conn, error) {}

// waitIdle waits until no call of c has begun for a tick.
func waitIdle(t *testing.T, c *rdmap.Conn) {
	t.Helper()
	for end := time.Now().Add(time.Minute); c.Role().Active(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the connection does not become idle")
		}
	}
}
