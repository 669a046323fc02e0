// Package ops is for the administrator of a server: it watches the calls, has the pages that say how the server does, and
// finds what keeps a mount from working.
package ops

import (
	"bytes"
	"cmp"
	"context"
	"math/bits"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stag-rdma/stag/internal/accept"
	"github.com/stag-rdma/stag/internal/peeraddr"
	"github.com/stag-rdma/stag/nfsdemo/mount3"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
	"go.uber.org/zap"
)

// Calls counts the calls of NFSv3 by procedure and transport, by export and by client. It is safe for concurrent use, and a
// prometheus.Collector.
//
// A call costs two readings of the clock, some atomic additions and two searches, but no memory.
type Calls struct {
	// ExportOf returns the path of the export that a handle belongs to, "" if there is none. If nil, exports are not counted.
	ExportOf func(nfs3.FileHandle) string

	tallies tallies
	series  [len(networks)][nfs3.ProcCount]series
	granted atomic.Uint64 // mounts
	refused atomic.Uint64
}

// networks are the transports, as in rpc.Request.
var networks = [...]string{"rdma", "tcp"}

// series counts the calls of one procedure over one transport.
type series struct {
	buckets [buckets + 1]atomic.Uint64 // by time; the last is for longer ones
	nanos   atomic.Uint64
	errors  [statuses]atomic.Uint64 // by status
}

// Bucket i holds calls below 8 us << i: from a call that memory answers to one that waits for disks.
const (
	buckets     = 20
	firstBucket = 8 // us
)

// Statuses lie in an array: those of RFC 1813 begin at 1 and at 10001.
const (
	lowStatuses  = 72
	highStatuses = 10001
	noStatus     = lowStatuses // the call was refused before its procedure: it has no status
	otherStatus  = statuses - 1
	statuses     = lowStatuses + 1 + 8 + 1
)

func statusIndex(s nfs3.Status) int {
	switch {
	case s < lowStatuses:
		return int(s)
	case s >= highStatuses && s < highStatuses+8:
		return lowStatuses + 1 + int(s-highStatuses)
	}
	return otherStatus
}

func statusName(i int) string {
	switch {
	case i == noStatus:
		return "refused"
	case i == otherStatus:
		return "other"
	case i > lowStatuses:
		return nfs3.Status(highStatuses + i - lowStatuses - 1).String()
	}
	return nfs3.Status(i).String()
}

// count counts a call that has been served. Of its results it reads only the status, and how much a READ or WRITE has moved.
func (c *Calls) count(req *rpc.Request, resp *rpc.Response, begun time.Time) {
	took, n := time.Since(begun), 0
	if req.Network != networks[0] {
		n = 1
	}
	if req.Proc >= nfs3.ProcCount {
		return // it has no name, and a client could make any number of them
	}
	s := &c.series[n][req.Proc]
	i := max(bits.Len64(uint64(took.Microseconds()))-bits.Len64(firstBucket-1), 0)
	s.buckets[min(i, buckets)].Add(1)
	s.nanos.Add(uint64(took))
	var read, written, ioErrors uint64
	d := xdr.NewDecoder(resp.Results)
	switch proc, st := nfs3.Proc(req.Proc), nfs3.Status(d.Uint32()); {
	case proc == nfs3.ProcNull:
	case d.Err() != nil || resp.Stat != xdr.Success:
		s.errors[noStatus].Add(1)
	case st != nfs3.OK:
		s.errors[statusIndex(st)].Add(1)
		if st == nfs3.ErrIO {
			ioErrors = 1
		}
	case proc == nfs3.ProcRead: // post_op_attr, count (RFC 1813 Section 3.3.6)
		if d.Bool() {
			d.Skip(attrLen)
		}
		read = uint64(d.Uint32())
	case proc == nfs3.ProcWrite: // wcc_data, count (Section 3.3.7)
		if d.Bool() {
			d.Skip(wccLen)
		}
		if d.Bool() {
			d.Skip(attrLen)
		}
		written = uint64(d.Uint32())
	}
	path := ""
	if c.ExportOf != nil {
		args := xdr.NewDecoder(req.Args)
		path = c.ExportOf(args.Opaque(nfs3.MaxHandle)) // the first one is that of what the call is about; nil if there is none
	}
	c.tallies.add(path, peeraddr.IP(req.RemoteAddr), begun, took, read, written, ioErrors)
}

// Lengths of fattr3 and wcc_attr in octets (RFC 1813 Section 2.6).
const (
	attrLen = 84
	wccLen  = 24
)

// mounted counts a MNT. c may be nil.
func (c *Calls) mounted(granted bool) {
	switch {
	case c == nil:
	case granted:
		c.granted.Add(1)
	default:
		c.refused.Add(1)
	}
}

// Row is what was counted of one procedure over one transport.
type Row struct {
	Procedure string        `json:"procedure"`
	Transport string        `json:"transport"`
	Calls     uint64        `json:"calls"`
	Errors    uint64        `json:"errors"` // answers other than NFS3_OK, among them usual ones such as NFS3ERR_NOENT
	Mean      time.Duration `json:"mean_ns"`
	P99       time.Duration `json:"p99_ns"` // 99 of 100 calls took less; 0: more than the longest bucket, 4 s
}

// Rows returns what was counted, without procedures that nobody has called.
func (c *Calls) Rows() (rows []Row) {
	for n := range c.series {
		for p := range c.series[n] {
			s := &c.series[n][p]
			r := Row{Procedure: nfs3.Proc(p).String(), Transport: networks[n]}
			var in [buckets + 1]uint64
			for i := range s.buckets {
				in[i] = s.buckets[i].Load()
				r.Calls += in[i]
			}
			if r.Calls == 0 {
				continue
			}
			for i := range s.errors {
				r.Errors += s.errors[i].Load()
			}
			r.Mean = time.Duration(s.nanos.Load() / r.Calls)
			sum := uint64(0)
			for i, k := range in {
				if sum += k; sum*100 >= r.Calls*99 && i < buckets {
					r.P99 = firstBucket * time.Microsecond << i
					break
				}
			}
			rows = append(rows, r)
		}
	}
	return rows
}

var (
	labels    = []string{"procedure", "transport"}
	descCalls = prometheus.NewDesc("nfsdemo_nfs_calls_total", "NFS calls served.", labels, nil)
	descTook  = prometheus.NewDesc("nfsdemo_nfs_call_duration_seconds", "Time that NFS calls took in the server, without the transfer of their results.", labels, nil)
	descBad   = prometheus.NewDesc("nfsdemo_nfs_errors_total", "NFS calls with another status than NFS3_OK, among them usual ones such as NFS3ERR_NOENT.", append(labels[:2:2], "status"), nil)
	descMount = prometheus.NewDesc("nfsdemo_mounts_total", "Calls of MNT, by outcome.", []string{"result"}, nil)
)

// Describe implements prometheus.Collector.
func (c *Calls) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range slices.Concat([]*prometheus.Desc{descCalls, descTook, descBad, descMount}, partDescs[0][:], partDescs[1][:]) {
		ch <- d
	}
}

// Collect implements prometheus.Collector. Procedures that nobody has called are left out.
func (c *Calls) Collect(ch chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	counter(descMount, c.granted.Load(), "granted")
	counter(descMount, c.refused.Load(), "refused")
	c.collectParts(ch)
	for n := range c.series {
		for p := range c.series[n] {
			s := &c.series[n][p]
			sum, upTo := uint64(0), make(map[float64]uint64, buckets)
			for i := range s.buckets {
				sum += s.buckets[i].Load()
				if i < buckets {
					upTo[float64(int64(firstBucket)<<i)/1e6] = sum
				}
			}
			if sum == 0 {
				continue
			}
			proc := nfs3.Proc(p).String()
			counter(descCalls, sum, proc, networks[n])
			ch <- prometheus.MustNewConstHistogram(descTook, sum, float64(s.nanos.Load())/1e9, upTo, proc, networks[n])
			for i := range s.errors {
				if k := s.errors[i].Load(); k > 0 {
					counter(descBad, k, proc, networks[n], statusName(i))
				}
			}
		}
	}
}

// Handler logs who mounts what, and counts and times the calls. It passes calls on to another handler, and watches them. It says about calls what that handler
// says, and is safe for concurrent use.
type Handler struct {
	next  rpc.Handler
	log   *zap.Logger // sampled, because anybody can ask for a mount
	calls *Calls      // nil: NFS calls are not counted
}

var _ rpc.Handler = (*Handler)(nil)

// New makes a handler in front of next. log may be nil, for no lines, and calls too, for no counters.
func New(next rpc.Handler, log *zap.Logger, calls *Calls) *Handler {
	if log == nil {
		log = zap.NewNop()
	}
	return &Handler{next: next, log: accept.Sampled(log), calls: calls}
}

// ServeRPC implements rpc.Handler.
func (h *Handler) ServeRPC(ctx context.Context, req *rpc.Request, resp *rpc.Response) {
	if h.calls != nil && req.Prog == nfs3.Program && req.Vers == nfs3.Version {
		begun := time.Now()
		h.next.ServeRPC(ctx, req, resp)
		h.calls.count(req, resp, begun)
		return
	}
	h.next.ServeRPC(ctx, req, resp)
	if req.Prog == mount3.Program && req.Vers >= mount3.Version1 && req.Vers <= mount3.Version {
		h.mount(req, resp)
	}
}

// mount logs the outcome of MNT and UMNT.
func (h *Handler) mount(req *rpc.Request, resp *rpc.Response) {
	var args mount3.PathArgs
	d := xdr.NewDecoder(req.Args)
	proc := mount3.Proc(req.Proc)
	if proc != mount3.ProcMnt && proc != mount3.ProcUmnt || xdr.Decode(&d, &args).Err() != nil {
		return
	}
	log := h.log.With(zap.Stringer("client", req.RemoteAddr), zap.String("transport", req.Network), zap.String("path", args.Path))
	if cred, err := xdr.ParseSysCred(req.Cred.Body); err == nil && req.Cred.Flavor == xdr.AuthSys {
		log = log.With(zap.String("machine", cred.MachineName), zap.Uint32("uid", cred.UID))
	}
	if proc == mount3.ProcUmnt {
		log.Info("unmounted")
		return
	}
	var res mount3.MountRes
	d = xdr.NewDecoder(resp.Results)
	switch err := xdr.Decode(&d, &res).Err(); {
	case err != nil:
		h.calls.mounted(false)
		log.Warn("mount refused", zap.String("why", "the call was denied: wrong credentials"))
	case res.Status != mount3.OK && req.Vers < mount3.Version:
		h.calls.mounted(false)
		log.Warn("mount refused", zap.String("why", "there is no NFSv2 here: mount with vers=3"))
	case res.Status != mount3.OK:
		h.calls.mounted(false)
		log.Warn("mount refused", zap.String("why", why(res.Status)))
	default:
		h.calls.mounted(true)
		log.Info("mount granted")
	}
}

// why says what a refusal means.
func why(s mount3.Status) string {
	switch s {
	case mount3.ErrAcces, mount3.ErrPerm:
		return s.String() + ": the export does not admit this client"
	case mount3.ErrNoEnt:
		return s.String() + ": no such export, or no such directory in it"
	case mount3.ErrNotDir:
		return s.String() + ": not a directory"
	case mount3.ErrIO:
		return s.String() + ": the export cannot be used now"
	case mount3.OK, mount3.ErrInval, mount3.ErrNameTooLong, mount3.ErrNotSupp, mount3.ErrServerFault:
	}
	return s.String()
}

// Describe passes on what the next handler says, and so does Ready.
func (h *Handler) Describe(req *rpc.Request) rpc.Traits { return rpc.Describe(h.next, req) }

// Ready implements the optional method of a rpc.Handler.
func (h *Handler) Ready(ctx context.Context, req *rpc.Request) bool {
	return rpc.Ready(ctx, h.next, req)
}

// Of clients, so many are counted at a time, and the busiest are shown: a network has any number of addresses.
const (
	maxTallies = 128
	shown      = 32
)

// idle is how long after its last call a client may be replaced by another one, however many it has made.
const idle = 10 * time.Minute

// tally counts the calls of an export, or of a client.
type tally struct {
	calls, nanos, read, written, ioErrors atomic.Uint64
	last                                  atomic.Int64 // when the last one began, in ns since 1970
}

// tallies are those of all.
type tallies struct {
	mu      sync.RWMutex
	exports map[string]*tally // those of the configuration
	clients map[netip.Addr]*tally
}

// add counts a call of an export and of a client. A path "" is of no export, and an address may be none.
func (t *tallies) add(path string, client netip.Addr, begun time.Time, took time.Duration, read, written, ioErrors uint64) {
	t.mu.RLock()
	e, c := t.exports[path], t.clients[client]
	t.mu.RUnlock()
	if e == nil && path != "" || c == nil && client.IsValid() {
		e, c = t.begin(path, client, begun)
	}
	for _, x := range [...]*tally{e, c} {
		if x == nil {
			continue
		}
		x.calls.Add(1)
		x.nanos.Add(uint64(took))
		x.read.Add(read)
		x.written.Add(written)
		x.ioErrors.Add(ioErrors)
		x.last.Store(begun.UnixNano())
	}
}

// begin returns the tallies of an export and of a client, new if necessary. Where there is no room, the client goes that has
// been idle, or else the one with the fewest calls: of those that come and go none stays, and the busiest do.
func (t *tallies) begin(path string, client netip.Addr, now time.Time) (e, c *tally) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.exports == nil {
		t.exports, t.clients = make(map[string]*tally), make(map[netip.Addr]*tally)
	}
	if e = t.exports[path]; e == nil && path != "" {
		e = new(tally)
		t.exports[path] = e
	}
	if c = t.clients[client]; c != nil || !client.IsValid() {
		return e, c
	}
	if len(t.clients) >= maxTallies {
		var least netip.Addr
		fewest := ^uint64(0)
		for a, x := range t.clients {
			n := x.calls.Load()
			if now.UnixNano()-x.last.Load() > int64(idle) {
				n = 0
			}
			if n < fewest {
				least, fewest = a, n
			}
		}
		delete(t.clients, least)
	}
	c = new(tally)
	t.clients[client] = c
	return e, c
}

// Busy is what was counted of a client, or of an export.
type Busy struct {
	Name    string        `json:"name"` // its address, or path
	Calls   uint64        `json:"calls"`
	Read    uint64        `json:"read_octets"`
	Written uint64        `json:"written_octets"`
	Mean    time.Duration `json:"mean_ns"`
	Last    time.Time     `json:"last"` // when the last call began

	nanos, ioErrors uint64
}

func (t *tally) busy(name string) Busy {
	b := Busy{
		Name: name, Calls: t.calls.Load(), Read: t.read.Load(), Written: t.written.Load(), Last: time.Unix(0, t.last.Load()),
		nanos: t.nanos.Load(), ioErrors: t.ioErrors.Load(),
	}
	b.Mean = time.Duration(b.nanos / max(b.Calls, 1))
	return b
}

// Busiest returns what was counted of the clients with most calls, the busiest first, and of all exports that have had one.
func (c *Calls) Busiest() (clients, exports []Busy) {
	t := &c.tallies
	t.mu.RLock()
	defer t.mu.RUnlock()
	for a, x := range t.clients {
		clients = append(clients, x.busy(a.String()))
	}
	for path, x := range t.exports {
		exports = append(exports, x.busy(path))
	}
	slices.SortFunc(clients, func(a, b Busy) int { return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Name, b.Name)) })
	slices.SortFunc(exports, func(a, b Busy) int { return cmp.Compare(a.Name, b.Name) })
	return clients[:min(len(clients), shown)], exports
}

// partDescs are the metrics of each export, and of each of the busiest clients.
var partDescs = func() (all [2][5]*prometheus.Desc) {
	for i, of := range []string{"export", "client"} {
		for j, m := range [][2]string{
			{"calls_total", "NFS calls served"},
			{"call_seconds_total", "Time that NFS calls took in the server"},
			{"read_octets_total", "Octets that were read"},
			{"written_octets_total", "Octets that were written"},
			{"io_errors_total", "NFS calls with NFS3ERR_IO"},
		} {
			help := m[1] + ", by " + of + "."
			if of == "client" {
				help = m[1] + ", by client, of the busiest ones."
			}
			all[i][j] = prometheus.NewDesc("nfsdemo_"+of+"_"+m[0], help, []string{of}, nil)
		}
	}
	return all
}()

// collectParts sends the metrics of exports and clients.
func (c *Calls) collectParts(ch chan<- prometheus.Metric) {
	clients, exports := c.Busiest()
	for i, list := range [][]Busy{exports, clients} {
		for _, b := range list {
			for j, v := range []float64{float64(b.Calls), float64(b.nanos) / 1e9, float64(b.Read), float64(b.Written), float64(b.ioErrors)} {
				ch <- prometheus.MustNewConstMetric(partDescs[i][j], prometheus.CounterValue, v, b.Name)
			}
		}
	}
}

// maxConns is how many connections there are at a time. net/http holds some 20 KiB for one that waits for a request,
// which no budget counts.
const maxConns = 64

// crowd are the connections. Nobody waits for a place, since a supervisor that gets no answer restarts the server: a
// connection that is one too many takes the place of another.
type crowd struct {
	mu      sync.Mutex
	guests  []*guest // in the order in which they came, or began to wait for another request
	removed atomic.Uint64
}

// guest is a connection.
type guest struct {
	kind
	conn net.Conn
}

// kind is what guests have in common.
type kind struct {
	host   string
	served bool // a request was read, and is being answered
}

// state is a [http.Server.ConnState].
func (c *crowd) state(conn net.Conn, s http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := 0
	for i < len(c.guests) && c.guests[i].conn != conn {
		i++
	}
	g := &guest{kind{host: peeraddr.Share(conn.RemoteAddr())}, conn}
	if i < len(c.guests) {
		g = c.guests[i]
	}
	remove := func() {
		if i < len(c.guests) {
			c.guests = append(c.guests[:i], c.guests[i+1:]...)
		}
	}
	switch s {
	case http.StateNew:
		if len(c.guests) >= maxConns {
			c.makeRoom()
		}
		c.guests = append(c.guests, g)
	case http.StateActive:
		g.served = true
	case http.StateIdle:
		g.served = false
		if i < len(c.guests) { // else its place is taken
			remove()
			c.guests = append(c.guests, g)
		}
	case http.StateClosed, http.StateHijacked:
		remove()
	}
}

// makeRoom closes a connection: the oldest of the host that has most, and one that waits for a request if there is any.
func (c *crowd) makeRoom() {
	n := make(map[kind]int)
	idle := false
	for _, g := range c.guests {
		n[g.kind]++
		idle = idle || !g.served
	}
	worst := -1
	for i, g := range c.guests {
		if idle && g.served {
			continue
		}
		if worst < 0 || n[g.kind] > n[c.guests[worst].kind] {
			worst = i
		}
	}
	g := c.guests[worst]
	c.guests = append(c.guests[:worst], c.guests[worst+1:]...)
	c.removed.Add(1)
	_ = g.conn.Close() // whoever serves it sees that
}

// places are for answers that take memory: one that the client does not read holds all that it has built.
type places struct {
	room chan struct{}

	mu   sync.Mutex
	held []*place // the oldest first
}

// place is of one answer.
type place struct {
	http.ResponseWriter
	p       *places
	answer  bytes.Buffer // whole before any of it is written: what takes us long on a busy machine is no fault of the client
	began   time.Time    // to be written
	hurried bool
}

// patience is how long a client may take to read an answer while others wait.
const patience = time.Second

// enter takes a place, of which the answer is written to the result. While there is none, it hurries one of those who have
// had theirs for longest.
func (p *places) enter(w http.ResponseWriter, r *http.Request) (_ *place, ok bool) {
	select {
	case p.room <- struct{}{}:
	default:
		p.hurry()
		select {
		case p.room <- struct{}{}:
		case <-r.Context().Done():
			return nil, false
		}
	}
	x := &place{ResponseWriter: w, p: p}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = append(p.held, x)
	return x, true
}

// Write implements [http.ResponseWriter].
func (x *place) Write(b []byte) (int, error) { return x.answer.Write(b) }

// write writes the answer.
func (x *place) write() {
	x.p.mu.Lock()
	x.began = time.Now()
	x.limit()
	x.p.mu.Unlock()
	_, _ = x.ResponseWriter.Write(x.answer.Bytes()) // the client has gone, or is slow
}

func (x *place) leave() {
	x.p.forget(x)
	<-x.p.room
}

// limit sets an end to an answer that is hurried and being written, with p.mu held.
func (x *place) limit() {
	if x.hurried && !x.began.IsZero() {
		_ = http.NewResponseController(x.ResponseWriter).SetWriteDeadline(x.began.Add(patience)) // only recorders have none
	}
}

// hurry gives the oldest that was not hurried yet what is left of its patience.
func (p *places) hurry() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.held) == 0 {
		return
	}
	x := p.held[0]
	p.held = p.held[1:]
	x.hurried = true
	x.limit()
}

func (p *places) forget(x *place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.held {
		if p.held[i] == x {
			p.held = append(p.held[:i], p.held[i+1:]...)
			return
		}
	}
}
