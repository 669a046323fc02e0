package lease

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

var steps = flag.Int("steps", 200000, "steps of TestModel")

// record is a record that a client has appended and the server has acknowledged.
type record struct {
	id   ID
	f    int
	good bool // its lease was live
}

// held is a lease that a client has.
type held struct {
	id ID
	f  int
}

// client is one log with the client that appends to it.
type client struct {
	log      Log
	open     bool
	records  []record // sequence numbers from 1
	applied  uint64
	held     []held
	recalled map[ID]bool // and not yet returned
	over     map[ID]bool
	given    record // of the lease given back last
	drained  uint64
	stuck    bool
	fence    bool // asked for
}

func (c *client) tail() uint64 { return uint64(len(c.records)) }

// last is the last record for file f that must be applied.
func (c *client) last(f int) uint64 {
	for i := len(c.records); i > 0; i-- {
		if r := c.records[i-1]; r.good && r.f == f {
			return uint64(i)
		}
	}
	return 0
}

// op is an operation that the model waits for, with the records that must be applied before it runs.
type op struct {
	k      *Ticket[int]
	files  []int
	change bool
	must   map[*client]uint64 // last record of one of its files, acknowledged when it began
	runs   bool
}

// model drives a Table with random events, and knows of each record where it belongs.
type model struct {
	t       *testing.T
	rnd     *rand.Rand
	table   *Table[int]
	now     time.Time
	clients []*client
	ops     []*op
	ran     map[string]int
}

const modelFiles = 5

var errFull = errors.New("disk full")

// TestModel: every operation runs, and none before what was acknowledged when it began has
// been applied; while a change runs nobody has a lease on its files and no record of them
// is left to apply; every record of a live lease is applied, none of another.
func TestModel(t *testing.T) {
	for seed := range uint64(4) {
		m := &model{t: t, rnd: rand.New(rand.NewPCG(seed, 0)), now: time.Unix(1000, 0), ran: make(map[string]int)}
		m.table = New[int](Config{RecallTime: time.Second, MaxPerLog: 3})
		for i := range 4 {
			c := &client{log: Log(i + 1)}
			m.clients = append(m.clients, c)
			m.open(c)
		}
		for i := 0; i < *steps/4 && !t.Failed(); i++ {
			m.step()
		}
		m.finish()
		if seed == 0 {
			t.Log(m.ran)
		}
		for _, what := range []string{"grant", "busy", "full", "return", "fence", "look", "change", "look waits", "change waits", "failed", "foreign", "late", "over"} {
			if m.ran[what] == 0 && !t.Failed() {
				t.Errorf("seed %d: no %q in %v", seed, what, m.ran)
			}
		}
		if n := len(m.table.files) + len(m.table.leases); n != 0 {
			t.Errorf("seed %d: %d files and leases left", seed, n)
		}
	}
}

// TestAdmitEnded: records may be looked at in advance, before those in front of them have
// been applied.
func TestAdmitEnded(t *testing.T) {
	x := New[int](Config{})
	x.Opened(1, 0)
	id, _, _ := x.Grant(1, 7, time.Time{})
	if _, err := x.Return(1, id, 2); err != nil {
		t.Fatal(err)
	}
	if f, err := x.Admit(1, id, 2); f != 7 || err != nil {
		t.Error("the last record:", f, err)
	}
	if _, err := x.Admit(1, id, 3); !errors.Is(err, ErrEnded) {
		t.Error("the record after it:", err)
	}
	if _, err := x.Return(2, id, 3); !errors.Is(err, ErrUnknown) {
		t.Error("a lease of another log is returned:", err)
	}
}

func (m *model) open(c *client) {
	m.table.Opened(c.log, c.applied)
	c.open, c.held, c.recalled = true, nil, make(map[ID]bool)
	if c.stuck {
		m.act(m.table.Failed(c.log, errFull)) // the table may have forgotten the log
	}
}

func (m *model) step() {
	c := m.clients[m.rnd.IntN(len(m.clients))]
	m.now = m.now.Add(time.Duration(m.rnd.IntN(20)) * time.Millisecond)
	switch n := m.rnd.IntN(100); {
	case n < 10:
		m.grant(c, m.rnd.IntN(modelFiles))
	case n < 35:
		m.appendTo(c)
	case n < 60:
		m.apply(c)
	case n < 65:
		m.giveBack(c)
	case n < 75 && len(m.ops) < 10:
		m.begin(false)
	case n < 82 && len(m.ops) < 10:
		m.begin(true)
	case n < 92:
		m.done()
	case n < 93:
		m.fail(c)
	case n < 94 && c.open: // a client that dies and comes again
		m.fenced(c)
		m.open(c)
	case n < 95 && !c.open:
		m.open(c)
	case n < 97 && c.fence:
		m.fenced(c)
	default:
		m.act(m.table.Tick(m.now))
	}
	m.check()
}

func (m *model) grant(c *client, f int) {
	id, out, err := m.table.Grant(c.log, f, m.now)
	switch {
	case err == nil:
		if !c.open {
			m.t.Fatalf("log %d got a lease but is not open", c.log)
		}
		for _, o := range m.clients {
			for _, h := range o.held {
				if o != c && h.f == f {
					m.t.Fatalf("logs %d and %d both have leases on file %d", o.log, c.log, f)
				}
			}
			if o != c && o.last(f) > o.applied {
				m.t.Fatalf("log %d got a lease on file %d, but record %d of log %d has not been applied", c.log, f, o.last(f), o.log)
			}
		}
		for _, h := range c.held {
			if h.f == f && c.recalled[h.id] {
				m.t.Fatalf("log %d got a lease on file %d while it returns one", c.log, f)
			}
		}
		if h := (held{id, f}); !slices.Contains(c.held, h) {
			c.held = append(c.held, h)
		}
		m.ran["grant"]++
	case errors.Is(err, ErrBusy):
		m.ran["busy"]++
	case errors.Is(err, ErrTooMany):
		m.ran["full"]++
	case !c.open || c.fence:
	default:
		m.t.Fatal(err)
	}
	m.act(out)
}

// appendTo has a client append a record; sometimes one that is not allowed, in which case
// acknowledgment only means that a record is in the log.
func (m *model) appendTo(c *client) {
	if !c.open {
		return
	}
	if n := len(c.held); n > 0 && m.rnd.IntN(20) > 0 {
		h := c.held[m.rnd.IntN(n)]
		c.records = append(c.records, record{id: h.id, f: h.f, good: true})
		return
	}
	if c.given.id != 0 && m.rnd.IntN(3) == 0 {
		c.records = append(c.records, c.given)
		m.ran["late"]++
	}
	if o := m.clients[m.rnd.IntN(len(m.clients))]; o != c && m.rnd.IntN(50) == 0 {
		for _, h := range o.held {
			c.records = append(c.records, record{id: h.id, f: h.f})
			m.ran["foreign"]++
			return
		}
	}
}

// apply applies the next record, as the table lets it. A record that may not be applied is
// passed over here, so that the log continues; an operator would do that.
func (m *model) apply(c *client) {
	if c.applied == c.tail() || c.stuck && m.rnd.IntN(4) > 0 {
		return
	}
	r := c.records[c.applied]
	f, err := m.table.Admit(c.log, r.id, c.applied+1)
	switch {
	case r.good && (err != nil || f != r.f):
		m.t.Fatalf("record %d of log %d, of a live lease: file %d, %v; want file %d", c.applied+1, c.log, f, err, r.f)
	case !r.good && err == nil:
		m.t.Fatalf("record %d of log %d, of no live lease, is applied", c.applied+1, c.log)
	}
	if r.good {
		for _, o := range m.ops {
			if o.change && o.runs && o.touches(r.f) {
				m.t.Fatalf("record %d of log %d is applied to file %d while it is changed", c.applied+1, c.log, r.f)
			}
		}
	}
	c.applied++
	c.stuck = false
	m.act(m.table.Applied(c.log, c.applied))
}

func (o *op) touches(f int) bool { return slices.Contains(o.files, f) }

func (m *model) fail(c *client) {
	if c.applied < c.tail() {
		c.stuck = true
		m.ran["failed"]++
		m.act(m.table.Failed(c.log, errFull))
	}
}

// giveBack returns a lease, most often one that was recalled.
func (m *model) giveBack(c *client) {
	for i, h := range c.held {
		if !c.recalled[h.id] && m.rnd.IntN(4) > 0 {
			continue
		}
		c.given = record{id: h.id, f: h.f}
		c.held = slices.Delete(c.held, i, i+1)
		m.ran["return"]++
		out, err := m.table.Return(c.log, h.id, c.tail())
		if err != nil {
			m.t.Fatal(err)
		}
		m.act(out)
		return
	}
}

func (m *model) fenced(c *client) {
	c.open, c.held, c.fence, c.given = false, nil, false, record{}
	m.act(m.table.Fenced(c.log, c.tail()))
}

func (m *model) begin(change bool) {
	o := &op{change: change, must: make(map[*client]uint64)}
	for range 1 + m.rnd.IntN(2) {
		o.files = append(o.files, m.rnd.IntN(modelFiles))
	}
	for _, c := range m.clients {
		for _, f := range o.files {
			o.must[c] = max(o.must[c], c.last(f))
		}
	}
	tail := func(l Log) uint64 { return m.clients[l-1].tail() }
	m.ops = append(m.ops, o)
	var out []Action[int]
	if change {
		o.k, out = m.table.Change(tail, m.now, o.files...)
	} else {
		o.k, out = m.table.Look(tail, o.files...)
	}
	m.act(out)
	kind := map[bool]string{false: "look", true: "change"}[change]
	m.ran[kind]++
	if !o.runs {
		m.ran[kind+" waits"]++
	}
}

// done ends an operation; sometimes one that nobody waits for anymore.
func (m *model) done() {
	for i, o := range m.ops {
		if o.runs || m.rnd.IntN(50) == 0 {
			m.ops = append(m.ops[:i], m.ops[i+1:]...)
			m.act(m.table.Done(o.k))
			return
		}
	}
}

func (m *model) act(out []Action[int]) {
	for _, a := range append([]Action[int](nil), out...) { // the table reuses out
		switch a.Kind {
		case Recall:
			c := m.clients[a.Log-1]
			has := func(h held) bool { return h.id == a.Lease }
			if !slices.ContainsFunc(c.held, has) || c.recalled[a.Lease] {
				m.t.Fatalf("Recall for lease %d of log %d, which is not held or was recalled before", a.Lease, a.Log)
			}
			c.recalled[a.Lease] = true
		case Fence:
			m.ran["fence"]++
			c := m.clients[a.Log-1]
			if c.fence || !c.open {
				m.t.Fatalf("log %d is fenced again, or not open", a.Log)
			}
			c.fence = true
		case Drain:
			c := m.clients[a.Log-1]
			if a.Upto > c.tail() || a.Upto <= c.drained {
				m.t.Fatalf("log %d is drained to %d, its tail is %d; before, it was drained to %d", a.Log, a.Upto, c.tail(), c.drained)
			}
			c.drained = a.Upto
		case Over:
			m.over(m.clients[a.Log-1], a.Lease)
		case Run:
			m.runs(a.Ticket)
		default:
			m.t.Fatal(a.Kind)
		}
	}
}

// over: a lease is over once, when it is not held and its records have been applied.
func (m *model) over(c *client, id ID) {
	if c.over == nil {
		c.over = make(map[ID]bool)
	}
	if c.over[id] || slices.ContainsFunc(c.held, func(h held) bool { return h.id == id }) {
		m.t.Fatalf("Over for lease %d of log %d, which is still held or was over before", id, c.log)
	}
	c.over[id] = true
	for i := c.applied; i < c.tail(); i++ {
		if r := c.records[i]; r.id == id && r.good {
			m.t.Fatalf("lease %d of log %d is over, but its record %d has not been applied", id, c.log, i+1)
		}
	}
	m.ran["over"]++
}

func (m *model) runs(k *Ticket[int]) {
	for _, o := range m.ops {
		if o.k != k && o.k != nil {
			continue
		}
		if o.runs {
			m.t.Fatal("an operation runs twice")
		}
		o.runs = true
		for c, upto := range o.must {
			if c.applied < upto && k.Err == nil {
				m.t.Fatalf("change %v of files %v runs; log %d is applied to %d, of %d acknowledged", o.change, o.files, c.log, c.applied, upto)
			}
		}
		if k.Err != nil {
			o.change = false // it fails
			stuck := func(c *client) bool { return c.stuck }
			if !slices.ContainsFunc(m.clients, stuck) {
				m.t.Fatal("an operation fails, all records can be applied:", k.Err)
			}
		}
		return
	}
	m.t.Fatal("ran an operation that nobody waits for")
}

// check checks the invariants that hold between any two events.
func (m *model) check() {
	for _, o := range m.ops {
		for _, c := range m.clients {
			if o.runs && o.change {
				m.checkAlone(o, c)
			} else if !o.runs {
				m.checkHelped(o, c)
			}
		}
	}
}

// checkAlone: nobody has a lease on a file that is being changed.
func (m *model) checkAlone(o *op, c *client) {
	for _, h := range c.held {
		if o.touches(h.f) {
			m.t.Fatalf("log %d has lease %d on file %d, which is being changed", c.log, h.id, h.f)
		}
	}
}

// checkHelped: everything that o waits for has been asked for, and none of it fails.
func (m *model) checkHelped(o *op, c *client) {
	if c.stuck && o.must[c] > c.applied {
		m.t.Fatalf("an operation waits for record %d of log %d, which cannot be applied", o.must[c], c.log)
	}
	upto := o.must[c]
	for _, f := range o.files {
		has := false
		for _, h := range c.held {
			has = has || f == h.f
			if o.change && f == h.f && !c.recalled[h.id] && !c.fence {
				m.t.Fatalf("lease %d of log %d on file %d is not recalled, although a change waits for it", h.id, c.log, f)
			}
		}
		if o.change && !has {
			upto = max(upto, c.last(f))
		}
	}
	if upto > c.applied && c.drained < upto {
		m.t.Fatalf("an operation waits for record %d of log %d, which is drained to %d", upto, c.log, c.drained)
	}
}

// finish: clients answer no more, time passes, and all that was begun runs.
func (m *model) finish() {
	for range 1000 {
		m.now = m.now.Add(time.Second)
		m.act(m.table.Tick(m.now))
		for _, c := range m.clients {
			m.apply(c)
			if c.fence {
				m.fenced(c)
			}
		}
		if m.table.Deadline().IsZero() {
			m.done()
		}
	}
	for _, c := range m.clients {
		m.fenced(c)
		for c.applied < c.tail() {
			m.apply(c)
		}
	}
	if len(m.ops) > 0 {
		m.t.Fatal("operations left: ", fmt.Sprintf("%+v", m.ops[0]))
	}
}
