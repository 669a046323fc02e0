package ops

import (
	"math/bits"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
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

// count counts a call that has been served.
func (c *Calls) count(req *rpc.Request, resp *rpc.Response, begun time.Time) {
	took, n := time.Since(begun), 0
	if req.Network != networks[0] {
		n = 1
	}
	if req.Proc >= nfs3.ProcCount {
		return // it has no name, and a client could make any number of them
	}
	c.part(req, resp, begun, took)
	s := &c.series[n][req.Proc]
	i := max(bits.Len64(uint64(took.Microseconds()))-bits.Len64(firstBucket-1), 0)
	s.buckets[min(i, buckets)].Add(1)
	s.nanos.Add(uint64(took))
	if req.Proc == uint32(nfs3.ProcNull) {
		return
	}
	d := xdr.NewDecoder(resp.Results)
	switch st := nfs3.Status(d.Uint32()); {
	case d.Err() != nil || resp.Stat != xdr.Success:
		s.errors[noStatus].Add(1)
	case st != nfs3.OK:
		s.errors[statusIndex(st)].Add(1)
	}
}

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
