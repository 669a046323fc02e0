package ops

import (
	"cmp"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stag-rdma/stag/internal/peeraddr"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

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
func (t *tallies) add(path string, client netip.Addr, begun time.Time, took time.Duration, req *rpc.Request, resp *rpc.Response) {
	read, written, ioErrors := moved(req, resp)
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

// moved returns the octets that a READ or WRITE has moved, and 1 if a call has failed with NFS3ERR_IO.
func moved(req *rpc.Request, resp *rpc.Response) (read, written, ioErrors uint64) {
	d := xdr.NewDecoder(resp.Results)
	switch st := nfs3.Status(d.Uint32()); {
	case nfs3.Proc(req.Proc) == nfs3.ProcNull || resp.Stat != xdr.Success:
	case st == nfs3.ErrIO:
		return 0, 0, 1
	case st != nfs3.OK:
	case nfs3.Proc(req.Proc) == nfs3.ProcRead: // post_op_attr, count (RFC 1813 Section 3.3.6)
		if d.Bool() {
			d.Skip(attrLen)
		}
		read = uint64(d.Uint32())
	case nfs3.Proc(req.Proc) == nfs3.ProcWrite: // wcc_data, count (Section 3.3.7)
		if d.Bool() {
			d.Skip(wccLen)
		}
		if d.Bool() {
			d.Skip(attrLen)
		}
		written = uint64(d.Uint32())
	}
	return read, written, 0
}

// Lengths of fattr3 and wcc_attr in octets (RFC 1813 Section 2.6).
const (
	attrLen = 84
	wccLen  = 24
)

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

// handleOf returns the first handle of a call, which is that of what it is about.
func handleOf(req *rpc.Request) nfs3.FileHandle {
	d := xdr.NewDecoder(req.Args)
	return d.Opaque(nfs3.MaxHandle) // nil if there is none
}

// part counts a call where it belongs.
func (c *Calls) part(req *rpc.Request, resp *rpc.Response, begun time.Time, took time.Duration) {
	path := ""
	if c.ExportOf != nil {
		path = c.ExportOf(handleOf(req))
	}
	c.tallies.add(path, peeraddr.IP(req.RemoteAddr), begun, took, req, resp)
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
