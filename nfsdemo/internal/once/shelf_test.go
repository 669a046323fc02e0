package once_test

import (
	"context"
	"maps"
	"net"
	"sync"
	"testing"

	"github.com/stag-rdma/stag/internal/pmemsim"
	"github.com/stag-rdma/stag/internal/rdmaptest"
	"github.com/stag-rdma/stag/nfsdemo/internal/once"
	"github.com/stag-rdma/stag/transport/rpc"
	"github.com/stag-rdma/stag/xdr"
)

// TestMain fails the package if a test leaks a goroutine.
func TestMain(m *testing.M) { rdmaptest.Main(m) }

// Sizes in octets.
const (
	replyHeader = 24        // of a reply without a verifier
	maxArgs     = 16 << 10  // of a call that is recorded
	maxResults  = 1 << 10   // of its reply
	minCapacity = 256 << 10 // of a journal
)

// Procedures of a shelf. All answer a status and the id of a thing.
const (
	procLook = iota // changes nothing
	procMake        // a thing of a name: 1 if there is one
	procDrop        // 2 if there is none
	procMove        // to another name, which must be free
)

// shelf is a Service: things with names.
type shelf struct {
	mu      sync.Mutex
	things  map[string]uint32 // their ids, by name
	next    uint32
	effects map[uint32]int // changes made, by XID

	hook func(req *rpc.Request) // called before a call is executed, without mu
}

func newShelf() *shelf {
	return &shelf{things: make(map[string]uint32), next: 1, effects: make(map[uint32]int)}
}

// clone returns what a crash leaves. The caller holds mu.
func (s *shelf) clone() *shelf {
	return &shelf{things: maps.Clone(s.things), next: s.next, effects: maps.Clone(s.effects)}
}

// shelfArgs are one name, or two.
func shelfArgs(names ...string) (b []byte) {
	for _, n := range names {
		b = xdr.AppendString(b, n)
	}
	return b
}

func parseShelf(proc uint32, b []byte) (names []string) {
	d := xdr.NewDecoder(b)
	names = append(names, d.String(100))
	if proc == procMove {
		names = append(names, d.String(100))
	}
	return names
}

func (s *shelf) Names(req *rpc.Request) []string {
	if req.Proc == procLook {
		return nil
	}
	return parseShelf(req.Proc, req.Args)
}

func (s *shelf) Keep(req *rpc.Request) []byte { return req.Args }

func (s *shelf) NonIdempotent(_, _, proc uint32) bool { return proc != procLook }

func (s *shelf) ids(names []string) (ids [2]uint32) {
	for i, n := range names {
		ids[i] = s.things[n]
	}
	return ids
}

func (s *shelf) Before(_ context.Context, req *rpc.Request, resp *rpc.Response) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := parseShelf(req.Proc, req.Args)
	if names[0] == "unknowable" {
		resp.Results = appendResult(resp.Results, 7, 0)
		return nil, false
	}
	ids := s.ids(names)
	return xdr.AppendUint32(xdr.AppendUint32(nil, ids[0]), ids[1]), true
}

func appendResult(b []byte, status, id uint32) []byte {
	return xdr.AppendUint32(xdr.AppendUint32(b, status), id)
}

func (s *shelf) ServeRPC(_ context.Context, req *rpc.Request, resp *rpc.Response) {
	if s.hook != nil {
		s.hook(req)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	names := parseShelf(req.Proc, req.Args)
	ids := s.ids(names)
	var status uint32
	id := ids[0]
	switch {
	case req.Proc == procMake && id != 0, req.Proc == procMove && ids[1] != 0:
		status = 1
	case req.Proc != procMake && id == 0:
		status = 2
	case req.Proc == procMake:
		id = s.next
		s.next++
		s.things[names[0]] = id
	case req.Proc == procDrop:
		delete(s.things, names[0])
	case req.Proc == procMove:
		delete(s.things, names[0])
		s.things[names[1]] = id
	}
	if status == 0 && req.Proc != procLook {
		s.effects[req.XID]++
	}
	resp.Results = appendResult(resp.Results, status, id)
}

func (s *shelf) Settle(_ context.Context, in *once.Intent, results []byte) ([]byte, once.Outcome, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := xdr.NewDecoder(in.State)
	was := [2]uint32{d.Uint32(), d.Uint32()}
	is := s.ids(parseShelf(in.Proc, in.Args))
	switch {
	case in.Proc == procMake && was[0] == 0 && is[0] != 0:
		return appendResult(results, 0, is[0]), once.Done, nil
	case in.Proc == procDrop && was[0] != 0 && is[0] != was[0]:
		return appendResult(results, 0, was[0]), once.Done, nil
	case in.Proc == procMove && was[0] != 0 && was[1] == 0 && is[1] == was[0]:
		return appendResult(results, 0, was[0]), once.Done, nil
	}
	return results, once.NotDone, nil
}

func (s *shelf) Refuse(_ *once.Call, why once.Refusal, results []byte) []byte {
	return appendResult(results, 90+uint32(why), 0)
}

// from is the address of the caller; a later transmission has another port.
var from net.Addr = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 1023}

// send sends a call and returns the results.
func send(h rpc.Handler, xid, proc uint32, names ...string) []byte {
	msg := xdr.AppendCall(nil, &xdr.CallHeader{XID: xid, RPCVers: 2, Prog: 0x20000001, Vers: 1, Proc: proc})
	out, _ := rpc.ServeMessage(context.Background(), h, from, append(msg, shelfArgs(names...)...), nil)
	return out[min(len(out), replyHeader):]
}

// results returns the results of a call with status and id.
func results(status, id uint32) string { return string(appendResult(nil, status, id)) }

// simSize is a small journal.
const simSize = 16<<10 + 64<<10

// newImage returns an empty journal.
func newImage(t testing.TB, size int) []byte {
	t.Helper()
	sim := pmemsim.New(size, nil)
	if err := once.Create(sim); err != nil {
		t.Fatal(err)
	}
	return sim.Told().Durable()
}

// start starts a server with the content of a memory.
func start(t testing.TB, svc once.Service, sim *pmemsim.Sim, o *once.Options) (*once.Handler, *once.Journal) {
	t.Helper()
	j, err := once.Open(sim, o)
	if err != nil {
		t.Fatal(err)
	}
	h, err := once.New(context.Background(), j, svc, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return h, j
}
