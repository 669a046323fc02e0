package card

import (
	"fmt"
	"math/bits"
	"runtime"
	"sync"
	"unsafe"

	"github.com/stag-rdma/stag/rdmap/verbs"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

// Config holds the settings of connections on cards. Listeners and connections with one Config share its memory. It must
// not change once it has been passed. A nil Config is one with the defaults, which all that pass nil share.
type Config struct {
	// Memory is the number of octets that may be registered, and so locked, at a time: a quarter for receives, a quarter for
	// what is copied to be sent, and half for payloads that the card takes from where they are or puts where they belong. A
	// connection that finds no memory for its receives is refused; payloads wait for each other. The first half is of the
	// card alone: a server takes it out of the transport's Limits.Memory, which counts payloads itself. At least MinMemory; 0:
	// 128 MiB. The system must let the process lock as much (RLIMIT_MEMLOCK).
	Memory int64

	// Logger gets what concerns more than one connection; nil discards.
	Logger *zap.Logger

	mu      sync.Mutex
	devices map[any]*device
	receive account
	copied  account
	payload account
	waiting map[*Conn]struct{} // whose work waits for memory
}

var defaults Config

// MinMemory is the least Config.Memory, in octets.
const MinMemory = 8 << 20

const (
	defaultMemory = 128 << 20
	// chunkSize is what is registered at a time for slots. Choice: large enough to make registrations rare, and small
	// against MinMemory/4.
	chunkSize = 256 << 10
	smallSlot = verbs.CopyLimit
	// bounceLimit is the longest payload that is copied to a slot. Choice: registering costs a pair of system calls
	// whatever the length, and a copy of 16 KiB less than that.
	bounceLimit = 16 << 10
)

// account bounds octets. Config.mu guards it.
type account struct{ limit, used int64 }

func (a *account) take(n int64) bool {
	if a.used+n > a.limit {
		return false
	}
	a.used += n
	return true
}

// orDefault returns cfg, complete, if the system lets its memory be locked.
func (cfg *Config) orDefault() (*Config, error) {
	if cfg == nil {
		cfg = &defaults
	}
	cfg.mu.Lock()
	defer cfg.mu.Unlock()
	if cfg.devices != nil {
		return cfg, nil
	}
	most := cfg.Memory
	if most == 0 {
		most = defaultMemory
	}
	if most < MinMemory {
		return nil, fmt.Errorf("card: %w: Memory is %d, must be at least %d", verbs.ErrConfig, most, MinMemory)
	}
	if err := lockable(most); err != nil {
		return nil, err
	}
	cfg.receive.limit, cfg.copied.limit, cfg.payload.limit = most/4, most/4, most/2
	cfg.devices, cfg.waiting = make(map[any]*device), make(map[*Conn]struct{})
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	return cfg, nil
}

// lockable returns an error if the system does not let this process lock n octets.
func lockable(n int64) error {
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &lim); err != nil || lim.Cur >= uint64(n) {
		return nil //nolint:nilerr // then the registration says what is wrong
	}
	var caps [2]unix.CapUserData
	h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if unix.Capget(&h, &caps[0]) == nil && caps[0].Effective&(1<<unix.CAP_IPC_LOCK) != 0 {
		return nil
	}
	return fmt.Errorf("%w: %d octets are wanted and RLIMIT_MEMLOCK is %d", errMemlock, n, lim.Cur)
}

// device is a card, as the connections of one Config share it. It lasts as long as they do: nothing of an idle or removed
// device stays registered or open.
type device struct {
	cfg  *Config
	key  any
	dom  domain
	refs int // under cfg.mu

	// Under cfg.mu: slots that nobody has, by size, and all memory that is cut in slots.
	idle   map[slots][]slot
	chunks []*chunk
}

// domain is a protection domain.
type domain interface {
	// register registers mem, which stays where it is until the registration ends.
	register(mem []byte, access int) (*registration, error)
	close()
}

// registration is a memory region of the card.
type registration struct {
	lkey, rkey uint32
	base       uint64 // the address of its first octet, which is its TO too: siw ignores any other
	end        func() // returns when the card does not touch the memory any more
}

// slots names slots of one size and use.
type slots struct {
	size int
	of   *account
}

// slot is a piece of registered memory, from which or to which the card copies.
type slot struct {
	in  *chunk
	mem []byte
}

type chunk struct {
	mem []byte // not of the Go heap: all of it is locked, and the heap would keep it
	reg *registration
	of  *account
}

// device returns the device with that key, which open makes if no connection has it.
func (cfg *Config) device(key any, open func() (domain, error)) (*device, error) {
	cfg.mu.Lock()
	defer cfg.mu.Unlock()
	d := cfg.devices[key]
	if d == nil {
		dom, err := open()
		if err != nil {
			return nil, err
		}
		d = &device{cfg: cfg, key: key, dom: dom, idle: make(map[slots][]slot)}
		cfg.devices[key] = d
	}
	d.refs++
	return d, nil
}

// leave ends a connection's use of d. The connection has given back what it had.
func (d *device) leave(c *Conn) {
	d.cfg.mu.Lock()
	defer d.cfg.mu.Unlock()
	delete(d.cfg.waiting, c)
	if d.refs--; d.refs > 0 {
		return
	}
	delete(d.cfg.devices, d.key)
	for _, c := range d.chunks {
		c.reg.end()
		_ = unix.Munmap(c.mem)
		c.of.used -= int64(len(c.mem))
	}
	d.dom.close()
	d.cfg.wake()
}

// slotOf returns a slot for n octets, or ErrMemory if there will be none until another is given back: then wait, if not
// nil, is woken.
func (d *device) slotOf(of *account, n int, wait *Conn) (slot, error) {
	n = max(n, 1)
	k := slots{1 << max(bits.Len(uint(n-1)), 12), of}
	d.cfg.mu.Lock()
	defer d.cfg.mu.Unlock()
	if len(d.idle[k]) == 0 {
		if err := d.grow(k); err != nil {
			d.cfg.await(wait)
			return slot{}, err
		}
	}
	last := len(d.idle[k]) - 1
	s := d.idle[k][last]
	d.idle[k] = d.idle[k][:last]
	return s, nil
}

// grow registers memory for more slots. The caller holds cfg.mu.
func (d *device) grow(k slots) error {
	n := max(chunkSize, k.size)
	if !k.of.take(int64(n)) {
		return ErrMemory
	}
	mem, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err == nil {
		c := &chunk{mem: mem, of: k.of}
		if c.reg, err = d.dom.register(mem, localWrite); err == nil {
			d.chunks = append(d.chunks, c)
			for off := n - k.size; off >= 0; off -= k.size {
				d.idle[k] = append(d.idle[k], slot{c, mem[off : off+k.size : off+k.size]})
			}
			return nil
		}
		_ = unix.Munmap(mem)
	}
	k.of.used -= int64(n)
	return err
}

// give takes a slot back.
func (d *device) give(s slot) {
	k := slots{len(s.mem), s.in.of}
	d.cfg.mu.Lock()
	d.idle[k] = append(d.idle[k], s)
	d.cfg.wake()
	d.cfg.mu.Unlock()
}

// pin registers mem, of the caller, for one use. ErrMemory means that there will be room when another use has ended: then
// wait, if not nil, is woken.
func (d *device) pin(mem []byte, access int, wait *Conn) (*registration, error) {
	// Whole pages are locked, even if two registrations share one.
	pages := int64(len(mem)+int(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))%4096)+4095) &^ 4095
	if pages > d.cfg.payload.limit {
		return nil, &verbs.LocalError{Err: fmt.Errorf("card: a payload of %d octets: %w", len(mem), errMemlock)}
	}
	d.cfg.mu.Lock()
	ok := d.cfg.payload.take(pages)
	if !ok {
		d.cfg.await(wait)
	}
	d.cfg.mu.Unlock()
	if !ok {
		return nil, ErrMemory
	}
	// An object of the heap that nobody refers to would be replaced under the card. Memory outside the heap is not moved or
	// taken away either as long as it is lent.
	var pin runtime.Pinner
	pin.Pin(unsafe.SliceData(mem))
	r, err := d.dom.register(mem, access)
	if err != nil {
		d.unpin(pages, &pin)
		return nil, &verbs.LocalError{Err: err}
	}
	var once sync.Once
	deregister := r.end
	r.end = func() {
		once.Do(func() {
			deregister()
			d.unpin(pages, &pin)
		})
	}
	return r, nil
}

func (d *device) unpin(pages int64, pin *runtime.Pinner) {
	pin.Unpin()
	d.cfg.mu.Lock()
	d.cfg.payload.used -= pages
	d.cfg.wake()
	d.cfg.mu.Unlock()
}

// await has c woken when memory was given back. The caller holds cfg.mu.
func (cfg *Config) await(c *Conn) {
	if c != nil {
		cfg.waiting[c] = struct{}{}
	}
}

// wake wakes those that wait, who then do not any more. The caller holds cfg.mu.
func (cfg *Config) wake() {
	for c := range cfg.waiting {
		delete(cfg.waiting, c)
		c.wake()
	}
}
