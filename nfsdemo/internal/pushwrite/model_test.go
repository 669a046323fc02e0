package pushwrite_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stag-rdma/stag/nfsdemo/internal/pushfile"
	"github.com/stag-rdma/stag/nfsdemo/internal/pushwrite"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/transport/push"
)

var steps = flag.Int("model.steps", 80, "steps of TestModel")

// model is a plain client and clients with logs, all on the same few files, one step after
// the other, and what the files must hold.
type model struct {
	*testing.T
	rnd     *rand.Rand
	w       *world
	p       *plain
	files   map[string][]byte
	handles map[string]nfs3.FileHandle
	clients []*modelClient
	ran     map[string]int
}

// modelClient has leases by the name of the file.
type modelClient struct {
	*pusher
	mu     sync.Mutex
	leases map[string]uint64
	deaf   bool // answers no recall
}

// recalled answers a recall.
func (c *modelClient) recalled(a *pushfile.RecallArgs) pushfile.Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.deaf {
		return pushfile.StatusBusy
	}
	for name, l := range c.leases {
		if l == a.Lease {
			delete(c.leases, name)
		}
	}
	return pushfile.StatusOK
}

var modelNames = []string{"a", "b", "c"}

// TestModel: whatever plain clients and clients with logs do, in whatever order, with cuts,
// restarts and clients that do not answer: a file holds the data of the last of them.
func TestModel(t *testing.T) {
	t.Parallel()
	m := &model{
		T: t, rnd: rand.New(rand.NewPCG(rand.Uint64(), 0)), files: make(map[string][]byte),
		handles: make(map[string]nfs3.FileHandle), ran: make(map[string]int),
	}
	m.w = newWorld(t, func(c *pushwrite.Config) { c.RecallTime = 5 * time.Millisecond })
	m.p = m.w.plain(0)
	for i := range 2 {
		c := &modelClient{pusher: m.w.pusher(fmt.Sprint("log", i), 0), leases: make(map[string]uint64)}
		c.answers(c.recalled)
		m.clients = append(m.clients, c)
	}
	for i := 0; i < *steps && !t.Failed(); i++ {
		m.step()
	}
	t.Log(m.ran)
}

func (m *model) step() {
	c := m.clients[m.rnd.IntN(len(m.clients))]
	name := modelNames[m.rnd.IntN(len(modelNames))]
	off, data := m.rnd.IntN(200), m.data()
	switch n := m.rnd.IntN(100); {
	case m.handles[name] == nil || n < 3:
		m.create(name)
	case n < 50:
		m.push(c, name, off, data)
	case n < 60:
		m.look(name)
	case n < 70:
		m.is("write", m.p.write(m.handles[name], uint64(off), data), nfs3.OK)
		m.files[name] = patch(m.files[name], off, data)
	case n < 75:
		m.is("truncate", m.p.truncate(m.handles[name], uint64(off)), nfs3.OK)
		m.files[name] = patch(m.files[name], off, "")[:off]
	case n < 80:
		m.is("remove", m.p.remove(name), nfs3.OK)
		delete(m.files, name)
		m.handles[name] = nil
	case n < 85:
		m.rename(name, modelNames[m.rnd.IntN(len(modelNames))])
	case n < 92:
		m.giveBack(c, name)
	case n < 95:
		c.cut()
		m.ran["cut"]++
	case n < 97:
		c.mu.Lock()
		c.deaf = !c.deaf
		c.mu.Unlock()
		m.ran["deaf"]++
	case n < 98:
		m.restart()
	default:
		m.is("commit", m.p.commit(m.handles[name]), nfs3.OK)
	}
}

func (m *model) data() string {
	return strings.Repeat(string(rune('a'+m.rnd.IntN(26))), 1+m.rnd.IntN(60))
}

// patch returns the content of a file after a write, with zeros where nothing was written.
func patch(f []byte, off int, data string) []byte {
	for len(f) < off+len(data) {
		f = append(f, 0)
	}
	copy(f[off:], data)
	return f
}

func (m *model) is(what string, got, want nfs3.Status) {
	m.Helper()
	m.ran[what]++
	if got != want {
		m.Errorf("%s: %v", what, got)
	}
}

func (m *model) create(name string) {
	r := nfs[nfs3.CreateRes](m.p, nfs3.ProcCreate, &nfs3.CreateArgs{
		Where: nfs3.DirOpArgs{Dir: m.p.root(), Name: name}, Mode: nfs3.Unchecked, Attr: nfs3.SetAttr{SetSize: true},
	})
	m.is("create", r.Status, nfs3.OK)
	m.handles[name], m.files[name] = r.Handle.Handle, nil
}

func (m *model) rename(from, to string) {
	m.is("rename", m.p.rename(from, to), nfs3.OK)
	if from == to {
		return
	}
	m.files[to], m.handles[to] = m.files[from], m.handles[from]
	delete(m.files, from)
	m.handles[from] = nil
	for _, c := range m.clients { // leases are on files, not on names
		c.mu.Lock()
		delete(c.leases, to)
		if l, ok := c.leases[from]; ok {
			c.leases[to] = l
			delete(c.leases, from)
		}
		c.mu.Unlock()
	}
}

func (m *model) look(name string) {
	m.ran["look"]++
	switch m.rnd.IntN(3) {
	case 0:
		m.p.has(m.handles[name], string(m.files[name]))
	case 1:
		if n, st := m.p.size(m.handles[name]); st != nfs3.OK || n != uint64(len(m.files[name])) {
			m.Errorf("%s has %d octets, %v; want %d", name, n, st, len(m.files[name]))
		}
	default:
		r := nfs[nfs3.ReadDirPlusRes](m.p, nfs3.ProcReadDirPlus, &nfs3.ReadDirPlusArgs{Dir: m.p.root(), DirCount: 8192, MaxCount: 8192})
		for _, e := range r.Entries {
			if f, ok := m.files[e.Name]; ok && e.Attr.Attr.Size != uint64(len(f)) {
				m.Errorf("%s has %d octets in the list, want %d", e.Name, e.Attr.Attr.Size, len(f))
			}
		}
	}
}

// push writes by a record, as a client does that keeps to docs/pushfile.md.
func (m *model) push(c *modelClient, name string, off int, data string) {
	for tries := 0; ; tries++ {
		l, ok := m.lease(c, name)
		if !ok {
			return
		}
		err := c.write(l, uint64(off), data)
		switch {
		case err == nil:
			m.ran["push"]++
			m.files[name] = patch(m.files[name], off, data)
			return
		case !errors.Is(err, push.StatusFenced) || tries > 2:
			m.Error("push:", err)
			return
		}
		m.again(c)
	}
}

// again opens another session.
func (m *model) again(c *modelClient) {
	m.ran["again"]++
	c.mu.Lock()
	c.leases, c.deaf = make(map[string]uint64), false
	c.mu.Unlock()
	c.dial(m.w)
}

// lease returns a lease; false: it cannot be had now.
func (m *model) lease(c *modelClient, name string) (uint64, bool) {
	c.mu.Lock()
	l, ok := c.leases[name]
	c.mu.Unlock()
	for tries := 0; !ok && tries < 1000; tries++ {
		r := c.open(m.handles[name], 0)
		switch r.Status {
		case pushfile.StatusOK:
			l, ok = r.Lease, true
			c.mu.Lock()
			c.leases[name] = l
			c.mu.Unlock()
		case pushfile.StatusBusy:
			m.ran["busy"]++
			time.Sleep(time.Millisecond)
		case pushfile.StatusStaleSession:
			m.again(c)
		default:
			m.Error("open:", r.Status)
			return 0, false
		}
	}
	return l, ok
}

func (m *model) giveBack(c *modelClient, name string) {
	c.mu.Lock()
	l, ok := c.leases[name]
	delete(c.leases, name)
	c.mu.Unlock()
	if ok {
		m.ran["return"]++
		if st := c.giveBack(l); st != pushfile.StatusOK && st != pushfile.StatusStaleSession {
			m.Error("return:", st)
		}
	}
}

func (m *model) restart() {
	m.ran["restart"]++
	m.w.restart(nil)
	for _, c := range m.clients {
		m.again(c)
	}
}

// TestConcurrent: a client with a log, one that writes by calls, and one that reads, at the
// same time: no read misses what was acknowledged before it began, and no write is lost.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *pushwrite.Config) { c.RecallTime = 10 * time.Second })
	p, c := w.plain(0), w.pusher("log", 0)
	h := p.create("f", 0o644)
	var pushed, written atomic.Uint64
	var mu sync.Mutex // of the lease: a recall waits for the record under way
	var lease uint64
	c.answers(func(a *pushfile.RecallArgs) pushfile.Status {
		mu.Lock()
		defer mu.Unlock()
		if lease == a.Lease {
			lease = 0
		}
		return pushfile.StatusOK
	})
	const rounds = 150
	push := func(i uint64) bool {
		mu.Lock()
		defer mu.Unlock()
		if lease == 0 {
			r := c.open(h, 0)
			if r.Status != pushfile.StatusOK {
				return r.Status != pushfile.StatusBusy && t.Failed()
			}
			lease = r.Lease
		}
		c.wrote(lease, 0, fmt.Sprintf("%08d", i))
		pushed.Store(i)
		return true
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := uint64(1); i <= rounds && !t.Failed(); i++ {
			for !push(i) {
				time.Sleep(50 * time.Microsecond)
			}
		}
	})
	wg.Go(func() {
		for i := uint64(1); i <= rounds/5 && !t.Failed(); i++ {
			if st := p.write(h, 8, fmt.Sprintf("%08d", i)); st != nfs3.OK {
				t.Error("write:", st)
			}
			written.Store(i)
			time.Sleep(time.Millisecond)
		}
	})
	wg.Go(func() {
		for pushed.Load() < rounds || written.Load() < rounds/5 {
			if t.Failed() {
				return
			}
			a, b := pushed.Load(), written.Load()
			got, st := p.read(h)
			var x, y uint64
			if len(got) >= 8 {
				_, _ = fmt.Sscanf(got[:8], "%d", &x)
			}
			if len(got) >= 16 {
				_, _ = fmt.Sscanf(got[8:16], "%d", &y)
			}
			if st != nfs3.OK || x < a || y < b {
				t.Errorf("read %q, %v; %d was pushed, %d written before", got, st, a, b)
			}
		}
	})
	wg.Wait()
	if st := w.pw.Stats(); st.Fences+st.Condemned != 0 || st.Recalls == 0 {
		t.Errorf("%+v", st)
	}
	p.has(h, fmt.Sprintf("%08d%08d", rounds, rounds/5))
}
