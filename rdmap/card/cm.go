package card

// #include "shim.h"
import "C"

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

// Kinds of events.
const (
	eventAddress      = C.RDMA_CM_EVENT_ADDR_RESOLVED
	eventRoute        = C.RDMA_CM_EVENT_ROUTE_RESOLVED
	eventRequest      = C.RDMA_CM_EVENT_CONNECT_REQUEST
	eventRejected     = C.RDMA_CM_EVENT_REJECTED
	eventEstablished  = C.RDMA_CM_EVENT_ESTABLISHED
	eventDisconnected = C.RDMA_CM_EVENT_DISCONNECTED
	eventRemoval      = C.RDMA_CM_EVENT_DEVICE_REMOVAL
	eventTimewait     = C.RDMA_CM_EVENT_TIMEWAIT_EXIT
	eventAddrChange   = C.RDMA_CM_EVENT_ADDR_CHANGE
)

// event is a copy of an event of the connection manager.
type event struct {
	kind       int
	status     int
	id, listen *C.struct_rdma_cm_id
	asked, may int // Reads that the peer wants to have in flight, and that it permits us
	private    []byte
}

// manager reads the events of all ids of the process from one channel, in one goroutine.
type manager struct {
	ch *C.struct_rdma_event_channel

	mu sync.Mutex
	to map[*C.struct_rdma_cm_id]func(*event) // must not wait
}

var theManager struct {
	sync.Mutex
	*manager
}

// managed returns the manager, which lives as long as the process once there is RDMA.
func managed() (*manager, error) {
	theManager.Lock()
	defer theManager.Unlock()
	if theManager.manager != nil {
		return theManager.manager, nil
	}
	m := &manager{to: make(map[*C.struct_rdma_cm_id]func(*event))}
	var rc C.int
	pristine(func() { rc = C.card_channel(&m.ch) })
	if rc != 0 {
		errno := syscall.Errno(rc)
		if unix.Access("/dev/infiniband/rdma_cm", unix.R_OK|unix.W_OK) == syscall.EACCES {
			errno = syscall.EACCES // librdmacm reports that of another name of the file, which only udev makes
		}
		if errno != syscall.ENODEV {
			return nil, cmError(errno)
		}
		return nil, fmt.Errorf("%w (%w)", ErrNoRDMA, syscall.ENODEV)
	}
	file, raw, err := polled(int(m.ch.fd), "rdma_cm")
	if err != nil {
		C.rdma_destroy_event_channel(m.ch)
		return nil, err
	}
	theManager.manager = m
	go func() {
		defer file.Close()
		m.run(raw)
	}()
	return m, nil
}

func (m *manager) run(raw syscall.RawConn) {
	var e C.struct_card_event
	for {
		var rc C.int
		err := raw.Read(func(uintptr) bool {
			pristine(func() { rc = C.card_next(m.ch, &e) })
			return rc != C.EAGAIN
		})
		if err != nil {
			return
		}
		if rc != 0 {
			continue // of one event
		}
		ev := &event{
			kind: int(e._type), status: int(e.status), id: e.id, listen: e.listen, asked: int(e.asked), may: int(e.may),
			private: C.GoBytes(unsafe.Pointer(&e.priv[0]), C.int(e.len)),
		}
		id := ev.id
		if ev.kind == eventRequest {
			id = ev.listen
		}
		m.mu.Lock()
		f := m.to[id]
		m.mu.Unlock()
		if f != nil {
			f(ev)
		}
	}
}

// route has the events of id given to f; nil: to nobody.
func (m *manager) route(id *C.struct_rdma_cm_id, f func(*event)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f == nil {
		delete(m.to, id)
	} else {
		m.to[id] = f
	}
}

// destroy ends id.
func (m *manager) destroy(id *C.struct_rdma_cm_id) {
	m.route(id, nil)
	pristine(func() { C.rdma_destroy_id(id) })
}

// endpoint is the CM's end of a connection.
type endpoint interface {
	caps() (caps, error)
	device() any // equal for endpoints of one device
	open() (domain, error)
	pair(in domain, k caps) (queuePair, error)
	start(accept bool, private []byte, ird, ord int) error
	reject(private []byte)
	destroy()
}

// cmEnd is an endpoint of librdmacm.
type cmEnd struct {
	m  *manager
	id *C.struct_rdma_cm_id
}

func (e cmEnd) caps() (caps, error)                       { return capsOf(e.id.verbs) }
func (e cmEnd) device() any                               { return e.id.verbs }
func (e cmEnd) open() (domain, error)                     { return openDomain(e.id.verbs) }
func (e cmEnd) pair(in domain, k caps) (queuePair, error) { return newPair(e.id, in, k) }
func (e cmEnd) destroy()                                  { e.m.destroy(e.id) }

func (e cmEnd) start(accept bool, private []byte, ird, ord int) error {
	p := C.CBytes(private)
	defer C.free(p)
	how := C.int(0)
	if accept {
		how = 1
	}
	var rc C.int
	pristine(func() { rc = C.card_start(e.id, how, p, C.int(len(private)), C.int(ird), C.int(ord)) })
	if rc != 0 {
		return cmError(syscall.Errno(rc))
	}
	return nil
}

func (e cmEnd) reject(private []byte) {
	p := C.CBytes(private)
	defer C.free(p)
	pristine(func() { C.card_reject(e.id, p, C.int(len(private))) })
}

// Listener accepts connections. Its net.Conns are rdmap.Devices. It outlives its device, and listens again when one has the
// address again: a card is removed when it is reset, or its driver is updated.
type Listener struct {
	cfg   *Config
	m     *manager
	queue chan *Conn
	over  chan struct{}

	mu     sync.Mutex
	addr   *net.TCPAddr
	id     *C.struct_rdma_cm_id // nil: the device was removed
	closed bool
}

// backlog is how many connections wait for Accept, beside those in the CM.
const backlog = 128

// Listen announces on an address of an RDMA device, or on all of IPv4 if addr has no host. Errors of the device and
// of cfg are *net.OpErrors, which wrap ErrNoDevice, ErrNoRDMA, ErrMemory, verbs.ErrConfig or an errno.
func Listen(addr string, cfg *Config) (*Listener, error) {
	a, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return nil, err
	}
	if cfg, err = cfg.orDefault(); err != nil {
		return nil, &net.OpError{Op: "listen", Net: "rdma", Addr: a, Err: err}
	}
	m, err := managed()
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: "rdma", Addr: a, Err: err}
	}
	l := &Listener{cfg: cfg, m: m, addr: a, queue: make(chan *Conn, backlog), over: make(chan struct{})}
	if err := l.listen(); err != nil {
		return nil, &net.OpError{Op: "listen", Net: "rdma", Addr: a, Err: err}
	}
	return l, nil
}

// listen listens at addr.
func (l *Listener) listen() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return net.ErrClosed
	}
	at := toC(l.addr)
	var rc C.int
	pristine(func() {
		if rc = C.card_listen(l.m.ch, &l.id, &at, backlog); rc == 0 {
			l.m.route(l.id, l.event)
		}
	})
	if rc != 0 {
		return cmError(syscall.Errno(rc))
	}
	l.addr = fromC(l.id, 0) // the port may have been 0
	return nil
}

// event runs in the goroutine of the manager.
func (l *Listener) event(ev *event) {
	switch ev.kind {
	case eventRequest:
		end := cmEnd{l.m, ev.id}
		c := newConn(l.cfg, end, fromC(ev.id, 0), fromC(ev.id, 1))
		c.request = ev
		l.m.route(ev.id, c.event)
		if !l.put(c) {
			c.Refuse(nil)
		}
	case eventRemoval:
		go l.again()
	}
}

// put has c accepted, if anybody will.
func (l *Listener) put(c *Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(l.queue) == backlog {
		return false
	}
	l.queue <- c
	return true
}

// againTime is how often the device is looked for.
const againTime = time.Second

// again gives the removed device up, which waits for that, and listens when it is back.
func (l *Listener) again() {
	log := l.cfg.Logger.With(zap.Stringer("address", l.Addr()))
	log.Error("card: the device of a listener was removed: it listens again when one has the address")
	l.drop()
	for {
		select {
		case <-l.over:
			return
		case <-time.After(againTime):
		}
		if l.listen() == nil {
			log.Info("card: listens again")
			return
		}
	}
}

// drop stops listening.
func (l *Listener) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.id != nil {
		l.m.destroy(l.id)
		l.id = nil
	}
}

// Accept returns the next connection. Nothing but the CM's id is taken for it until its Start. It may be from this
// machine, where anybody who may open the device can make one: no socket tells whose it is.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.queue:
		return c, nil
	case <-l.over:
		return nil, &net.OpError{Op: "accept", Net: "rdma", Addr: l.Addr(), Err: net.ErrClosed}
	}
}

// Close stops listening, and refuses what was not accepted.
func (l *Listener) Close() error {
	l.mu.Lock()
	first := !l.closed
	l.closed = true
	l.mu.Unlock()
	if !first {
		return nil
	}
	l.drop()
	close(l.over)
	for {
		select {
		case c := <-l.queue:
			c.Refuse(nil)
		default:
			return nil
		}
	}
}

// Addr returns the address.
func (l *Listener) Addr() net.Addr {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.addr
}

// resolveTime bounds each of the two steps of Dial in the CM.
const resolveTime = 5 * time.Second

// Dial finds the device that leads to addr. The connection is made by Start, that is, by the Handshake of rdmap.Client.
// Errors are as those of Listen.
func Dial(ctx context.Context, addr string, cfg *Config) (*Conn, error) {
	cfg, err := cfg.orDefault()
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "rdma", Err: err}
	}
	host, service, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	port, err := net.DefaultResolver.LookupPort(ctx, "tcp", service)
	if err != nil {
		return nil, err
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	var first error
	for _, ip := range ips { // that has addresses which no device reaches too
		a := net.TCPAddrFromAddrPort(netip.AddrPortFrom(ip.Unmap(), uint16(port)))
		c, err := dial(ctx, a, cfg)
		if err == nil {
			return c, nil
		}
		if first == nil {
			first = &net.OpError{Op: "dial", Net: "rdma", Addr: a, Err: err}
		}
	}
	return nil, first
}

func dial(ctx context.Context, a *net.TCPAddr, cfg *Config) (*Conn, error) {
	m, err := managed()
	if err != nil {
		return nil, err
	}
	at := toC(a)
	events := make(chan *event, 8) // more than come before the connection has its own
	var id *C.struct_rdma_cm_id
	var rc C.int
	pristine(func() { // the manager cannot read the answer before the route is there
		if rc = C.card_resolve(m.ch, &id, &at, C.int(resolveTime.Milliseconds())); rc == 0 {
			m.route(id, func(ev *event) { events <- ev })
		}
	})
	if rc != 0 {
		return nil, cmError(syscall.Errno(rc))
	}
	if err = expect(ctx, events, eventAddress); err == nil {
		pristine(func() { rc = C.card_route(id, C.int(resolveTime.Milliseconds())) })
		if rc != 0 {
			err = cmError(syscall.Errno(rc))
		} else {
			err = expect(ctx, events, eventRoute)
		}
	}
	if err != nil {
		m.destroy(id)
		return nil, err
	}
	c := newConn(cfg, cmEnd{m, id}, fromC(id, 0), fromC(id, 1))
	m.route(id, c.event)
	return c, nil
}

// expect waits for an event. The CM has a time limit of its own.
func expect(ctx context.Context, events <-chan *event, kind int) error {
	select {
	case ev := <-events:
		if ev.kind != kind {
			return ev.err()
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// err says what an event means that is not the one that was hoped for.
func (ev *event) err() error {
	name := C.GoString(C.rdma_event_str(C.enum_rdma_cm_event_type(ev.kind)))
	if ev.status < 0 {
		return fmt.Errorf("%s: %w", name, cmError(syscall.Errno(-ev.status)))
	}
	return fmt.Errorf("%s, status %d", name, ev.status)
}

func toC(a *net.TCPAddr) (c C.struct_card_addr) {
	c.port = C.uint16_t(a.Port)
	if ip := a.IP.To4(); ip != nil || len(a.IP) == 0 {
		for i, b := range ip {
			c.ip[i] = C.uint8_t(b)
		}
		return c
	}
	c.v6 = 1
	for i, b := range a.IP {
		c.ip[i] = C.uint8_t(b)
	}
	if i, err := net.InterfaceByName(a.Zone); err == nil {
		c.scope = C.uint32_t(i.Index)
	} else if n, err := strconv.ParseUint(a.Zone, 10, 32); err == nil {
		c.scope = C.uint32_t(n)
	}
	return c
}

func fromC(id *C.struct_rdma_cm_id, peer C.int) *net.TCPAddr {
	var c C.struct_card_addr
	C.card_address(id, peer, &c)
	a := &net.TCPAddr{Port: int(c.port), IP: C.GoBytes(unsafe.Pointer(&c.ip[0]), 4)}
	if c.v6 != 0 {
		a.IP = C.GoBytes(unsafe.Pointer(&c.ip[0]), 16)
		if i, err := net.InterfaceByIndex(int(c.scope)); err == nil {
			a.Zone = i.Name
		}
	}
	return a
}
