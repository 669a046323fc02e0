package transport_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stag-rdma/stag/rdmap"
	"github.com/stag-rdma/stag/rdmap/rdmaptest"
	"github.com/stag-rdma/stag/rdmap/verbs"
	"github.com/stag-rdma/stag/transport"
	"github.com/stag-rdma/stag/transport/rpc"
)

// TestOverDevice runs tests of this package once more, over cards in place of TCP and the engine: served, dial and their
// likes look whether they run below it. A card has windows, which servers invalidate, or it has not.
func TestOverDevice(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"PreferReplyChunk": TestPreferReplyChunk,
		"GrantOrder":       TestGrantOrder, "FirstCall": TestFirstCall, "CreditPool": TestCreditPool,
		"ShutdownDrains": TestShutdownDrains, "ShutdownOutOfTime": TestShutdownOutOfTime,
		"CallTimeout": TestCallTimeout, "Lifetime": TestLifetime,
		"AllowNets": TestAllowNets, "ClientLimits": TestClientLimits, "Allow": TestAllow,
		"RecordConn": TestRecordConn, "ListenerClose": TestListenerClose,
		"Redial": TestRedial, "Silence": TestSilence, "SlowCall": TestSlowCall, "ShortConnections": TestShortConnections,
		"Backward": TestBackward, "BackwardRefused": TestBackwardRefused, "BackwardEnd": TestBackwardEnd,
		"Many": TestMany, "ManyMemory": TestManyMemory, "Memory": TestMemory, "MemoryInUse": TestMemoryInUse,
		"Room": TestRoom, "Trace": TestTrace, "Lazy": TestLazy, "LazyMemory": TestLazyMemory,
		"Replay": TestReplay, "PositionZero": TestPositionZero, "Mix": TestMix, "Ready": TestReady, "ServedEach": TestServedEach,
		"Clients": TestClients, "Fanout": TestFanout, "FanoutClose": TestFanoutClose,
		"ServeMessage": TestServeMessage, "Own": TestOwn,
	} {
		if name != "Trace" { // which tells of invalidations
			t.Run(name, test)
		}
		t.Run("windows/"+name, test)
	}
}

// card returns the cards that t runs over; ok is false if it runs over TCP.
func card(t testing.TB) (c rdmaptest.Card, ok bool) {
	ok = strings.HasPrefix(t.Name(), "TestOverDevice/")
	return rdmaptest.Card{Windows: strings.HasPrefix(t.Name(), "TestOverDevice/windows/")}, ok
}

// cardListeners are those of cardListener, by address.
var cardListeners sync.Map

// cardListener listens at the address of a TCP listener, if t runs over cards: clients over RDMA then come here.
func cardListener(t testing.TB, at net.Addr) net.Listener {
	c, ok := card(t)
	if !ok {
		return nil
	}
	l := c.Listen(at.(*net.TCPAddr))
	cardListeners.Store(at.String(), l)
	t.Cleanup(func() { cardListeners.Delete(at.String()) })
	return l
}

// listenAny is transport.Listen over what t runs over.
func listenAny(t testing.TB, cfg *transport.Config) net.Listener {
	t.Helper()
	tcp := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	if l := cardListener(t, tcp.Addr()); l != nil {
		tcp.Close() // only its address was wanted
		tcp = l
	}
	return must(transport.NewListener(tcp, cfg))(t)
}

// cardPort is the last port of a client over cards.
var cardPort atomic.Int32

// dialAddr is transport.Dial over what t runs over.
func dialAddr(ctx context.Context, t testing.TB, addr string, cfg *transport.Config) (*transport.Client, error) {
	t.Helper()
	l, ok := cardListeners.Load(addr)
	if !ok {
		return transport.Dial(ctx, "tcp", recorded(t, addr), cfg)
	}
	d, err := l.(*rdmaptest.DeviceListener).Dial(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(cardPort.Add(1))})
	if err != nil {
		return nil, rpc.AsOpError(rpc.OpDial, addr, err)
	}
	return transport.NewClient(ctx, d, cfg)
}

// pipe returns the two ends of a connection in memory, as t runs.
func pipe(t testing.TB) (a, b net.Conn) {
	if c, ok := card(t); ok {
		return c.Devices()
	}
	return rdmaptest.Pipe()
}

// TestDeviceConfig: a client says by its name what a card cannot do, and a server turns its peers away for nothing.
func TestDeviceConfig(t *testing.T) {
	x, _ := rdmaptest.Card{}.Devices()
	cfg := testConfig()
	cfg.Startup.Markers = true
	_, err := transport.NewClient(testCtx(t), x, cfg)
	if !errors.Is(err, rpc.ErrConfig) || !strings.Contains(err.Error(), "Startup.Markers") {
		t.Errorf("markers: %v", err)
	}
	x, _ = rdmaptest.Card{}.Devices()
	cfg = testConfig()
	cfg.TLS = newWorld(t).clientConfig().TLS
	if _, err = transport.NewClient(testCtx(t), x, cfg); !errors.Is(err, rpc.ErrConfig) || !strings.Contains(err.Error(), "TLS") {
		t.Errorf("TLS: %v", err)
	}
	<-x.Over()

	for name, change := range map[string]func(*transport.Config){
		"Allow": func(c *transport.Config) { c.Limits.Allow = func(net.Addr) bool { return false } },
		"TLS":   func(c *transport.Config) { c.TLS = newWorld(t).serverConfig().TLS },
	} {
		cfg := testConfig()
		change(cfg)
		s := newServer(t, newEcho(), cfg)
		a, b := rdmaptest.Card{}.Devices()
		go s.ServeConn(refuseOnly{b, t})
		_, err := transport.NewClient(testCtx(t), a, testConfig())
		if _, ok := errors.AsType[*verbs.RejectError](err); !ok {
			t.Errorf("%s: %v", name, err)
		}
		<-b.Over()
	}
}

// refuseOnly is a Device that must not be started.
type refuseOnly struct {
	*rdmaptest.Device
	t *testing.T
}

func (r refuseOnly) Start(ctx context.Context, cfg *rdmap.DeviceConfig) (rdmap.ConnectionState, error) {
	r.t.Error("memory for one who is turned away")
	return r.Device.Start(ctx, cfg)
}

// TestDeviceSizes: over a card the receives are small, and replies invalidate where the cards can.
func TestDeviceSizes(t *testing.T) {
	for _, windows := range []bool{false, true} {
		s := newServer(t, newEcho(), &transport.Config{Binding: echoBinding})
		a, b := rdmaptest.Card{Windows: windows}.Devices()
		served := make(chan error, 1)
		go func() { served <- s.ServeConn(b) }()
		c := must(transport.NewClient(testCtx(t), a, &transport.Config{Binding: echoBinding}))(t)
		if send, recv := c.Inline(); send != transport.DefaultInlineSize || recv != transport.DefaultInlineSize {
			t.Errorf("Sends of %d and %d octets", send, recv)
		}
		call := wordCall(procFill, 100<<10)
		call.Sink = make([]byte, 100<<10)
		if mustDo(t, c, call); !bytes.Equal(call.Sink, filled(100<<10)) {
			t.Error("another file")
		}
		if got := c.Stats().Invalidated > 0; got != windows {
			t.Errorf("windows %v, invalidated %v", windows, got)
		}
		noErr(t, c.Close())
		noErr(t, <-served)
	}
}

// registrar counts the octets of payloads that a card has to register, as it may not copy them.
type registrar struct {
	*rdmaptest.Device
	octets atomic.Int64
}

func (r *registrar) Start(ctx context.Context, cfg *rdmap.DeviceConfig) (rdmap.ConnectionState, error) {
	own, completed := *cfg, cfg.Completed
	own.Completed = func(wr *verbs.WR, err error) {
		r.octets.Add(-int64(registered(wr)))
		completed(wr, err)
	}
	return r.Device.Start(ctx, &own)
}

func (r *registrar) Post(wrs []verbs.WR) error {
	for i := range wrs {
		r.octets.Add(int64(registered(&wrs[i])))
	}
	return r.Device.Post(wrs)
}

func registered(wr *verbs.WR) int {
	if n := len(wr.Head) + len(wr.Body) + int(wr.Len); n > verbs.CopyLimit {
		return n
	}
	return 0
}

// TestDevicePayloads: what a card has of payloads at a time, of both directions, is within the server's Limits.Memory.
func TestDevicePayloads(t *testing.T) {
	const size, limit, calls = 256 << 10, 2 << 20, 40
	for name, call := range map[string]func() *rpc.Call{
		"read": func() *rpc.Call {
			call := wordCall(procFill, size)
			call.Sink = make([]byte, size)
			return call
		},
		"write": func() *rpc.Call { return itemCall(procSum, filled(size)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				goes := make(chan struct{})
				a, b := rdmaptest.Card{Windows: true, Held: func() { <-goes }}.Devices()
				r := &registrar{Device: b}
				s := newServer(t, newEcho(), &transport.Config{Binding: echoBinding, Credits: calls, Limits: transport.Limits{Memory: limit}})
				served := make(chan error, 1)
				go func() { served <- s.ServeConn(r) }()
				c := must(transport.NewClient(t.Context(), a, &transport.Config{Binding: echoBinding, Credits: calls}))(t)
				var wg sync.WaitGroup
				for range calls {
					wg.Go(func() { mustDo(t, c, call()) })
				}
				synctest.Wait() // no card moves on, and the rest of the calls waits
				if n := r.octets.Load(); n < 2*size || n > limit {
					t.Errorf("%d octets are with the card, of %d", n, limit)
				}
				close(goes)
				wg.Wait()
				noErr(t, c.Close())
				noErr(t, <-served)
				if n := r.octets.Load(); n != 0 {
					t.Errorf("%d octets are left", n)
				}
			})
		})
	}
}
