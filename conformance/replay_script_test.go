package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stag-rdma/stag/conformance/internal/decode"
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// script is what the two ends of one recorded connection sent, message by message.
type script struct {
	file      string
	id        int // of the connection in its file
	initiator decode.Dir
	frames    [2][]byte // the startup frames as recorded: Request, Reply
	private   [2][]byte // private data of each
	wantsCRC  [2]bool   // C of each
	crc       bool
	rtr       *saying // the ready-to-receive message, if there was one
	said      []*saying
	skip      string // why it cannot be replayed
	handmade  bool   // one of the ends was a program of ours
}

// saying is one RDMAP message of a script.
type saying struct {
	from   decode.Dir
	op     verbs.Opcode
	stag   ddp.STag // tagged: the sink; Send with Invalidate: what to invalidate
	to     uint64   // tagged
	data   []byte   // the whole payload
	read   *decode.ReadRequest
	fpdus  [][]byte // as recorded
	life   *life    // the memory of the other side that it touches
	answer *saying  // of a Read Request that was answered: the Read Response
}

// life is a registration as far as the messages show it: an STag and the range that was touched. An STag
// that comes back with another upper half of TO, in which Linux puts the XID, is another life.
type life struct {
	stag   ddp.STag
	lo, hi uint64
}

// touch widens the life.
func (l *life) touch(to uint64, n int) {
	if n == 0 {
		return
	}
	if l.hi == 0 {
		l.lo, l.hi = to, to
	}
	l.lo, l.hi = min(l.lo, to), max(l.hi, to+uint64(n))
}

// scriptReader makes scripts from decoded events.
type scriptReader struct {
	*script
	open    [2][5]*saying // begun messages by direction: tagged, and the queues
	lives   [2]map[ddp.STag]*life
	asked   [2][]*saying // Read Requests of each direction that are not answered yet
	started bool
}

// readScripts returns the connections of a capture.
func readScripts(t *testing.T, file string) (all []*script) {
	t.Helper()
	f := must(os.Open(file))(t)
	defer f.Close()
	readers := make(map[int]*scriptReader)
	for ev, err := range decode.Events(f, &decode.Options{ULP: decode.ULPOpaque}) {
		check(t, err)
		r := readers[ev.Conn.ID]
		if r == nil {
			r = newScriptReader(file, ev.Conn.ID)
			readers[ev.Conn.ID] = r
			all = append(all, r.script)
		}
		r.event(ev)
	}
	for _, r := range readers {
		r.finish()
	}
	return all
}

func newScriptReader(file string, id int) *scriptReader {
	name := filepath.Base(file)
	r := &scriptReader{script: &script{file: name, id: id, handmade: name == "d-mpa-bad.pcap" || name == "g-mpareply.pcap"}}
	r.lives = [2]map[ddp.STag]*life{make(map[ddp.STag]*life), make(map[ddp.STag]*life)}
	return r
}

func (r *scriptReader) fail(format string, args ...any) {
	if r.skip == "" {
		r.skip = fmt.Sprintf(format, args...)
	}
}

func (r *scriptReader) event(ev *decode.Event) {
	switch {
	case r.skip != "":
	case ev.Err != nil:
		r.fail("%v", ev.Err)
	case ev.Startup != nil:
		r.startup(ev)
	case ev.FPDU != nil:
		r.segment(ev)
	}
}

func (r *scriptReader) startup(ev *decode.Event) {
	i := 0
	if ev.Startup.IsReply {
		i, r.started, r.crc = 1, true, ev.Conn.CRC
		if ev.Startup.Rejected {
			r.fail("rejected")
		}
	} else {
		r.initiator = ev.Dir
	}
	r.frames[i], r.private[i], r.wantsCRC[i] = bytes.Clone(ev.Raw), bytes.Clone(ev.Startup.PrivateData), ev.Startup.CRC
}

// segment adds a segment to the message it belongs to.
func (r *scriptReader) segment(ev *decode.Event) {
	if ev.RDMAP.Op == verbs.OpTerminate {
		r.fail("Terminate %v", ev.Message.Terminate)
		return
	}
	slot := &r.open[ev.Dir][0]
	if !ev.DDP.Tagged {
		slot = &r.open[ev.Dir][1+ev.DDP.QN]
	}
	if *slot == nil {
		*slot = &saying{from: ev.Dir, op: ev.RDMAP.Op, stag: ev.DDP.STag, to: ev.DDP.TO}
		if ev.RDMAP.Op.Invalidates() {
			(*slot).stag = ev.RDMAP.Invalidate
		}
	}
	m := *slot
	m.data = append(m.data, ev.DDP.Payload...)
	m.fpdus = append(m.fpdus, bytes.Clone(ev.Raw))
	if !ev.DDP.Last {
		return
	}
	*slot = nil
	if ev.Message != nil && ev.Message.Read != nil {
		read := *ev.Message.Read
		m.read = &read
	}
	r.message(m, ev)
}

// message ends a message.
func (r *scriptReader) message(m *saying, ev *decode.Event) {
	peerToPeer := ev.Conn.Request.Word.PeerToPeer && ev.Conn.Reply.Word.PeerToPeer
	if peerToPeer && r.rtr == nil && m.from == r.initiator && len(r.said) == 0 {
		r.rtr = m
		if ev.Conn.Reply.Word.RTR&r.rtrKind() == 0 {
			r.fail("a ready-to-receive message that the Reply does not offer")
		}
		if m.read != nil {
			r.asked[m.from] = append(r.asked[m.from], m)
		}
		return
	}
	other := 1 - m.from
	switch {
	case m.op == verbs.OpWrite:
		m.life = r.at(other, m.stag, m.to)
		m.life.touch(m.to, len(m.data))
	case m.op == verbs.OpReadRequest:
		m.life = r.at(other, m.read.SourceSTag, m.read.SourceTO)
		m.life.touch(m.read.SourceTO, int(m.read.Size))
		r.asked[m.from] = append(r.asked[m.from], m)
	case m.op == verbs.OpReadResponse:
		if len(r.asked[other]) == 0 {
			r.fail("a Read Response that nobody asked for")
			return
		}
		ask := r.asked[other][0]
		ask.answer, r.asked[other] = m, r.asked[other][1:]
		if ask == r.rtr {
			return // a part of the startup
		}
	case m.op.Invalidates():
		m.life = r.lives[other][m.stag]
		if m.life == nil {
			m.life = &life{stag: m.stag}
		}
		delete(r.lives[other], m.stag)
	}
	r.said = append(r.said, m)
}

// at returns the life of an STag of one side that a TO belongs to.
func (r *scriptReader) at(side decode.Dir, s ddp.STag, to uint64) *life {
	l := r.lives[side][s]
	if l == nil || l.hi > 0 && l.lo>>32 != to>>32 {
		l = &life{stag: s}
		r.lives[side][s] = l
	}
	return l
}

func (r *scriptReader) finish() {
	if !r.started {
		r.fail("no Reply")
	}
	if len(r.said) == 0 {
		r.fail("nothing said")
	}
	for _, m := range r.said {
		if m.life != nil && m.life.hi-m.life.lo > 16<<20 {
			r.fail("%v touches %d octets", m.op, m.life.hi-m.life.lo)
		}
	}
}

// rtrKind returns which ready-to-receive message was chosen.
func (s *script) rtrKind() mpa.RTR {
	switch s.rtr.op {
	case verbs.OpWrite:
		return mpa.RTRWrite
	case verbs.OpReadRequest:
		return mpa.RTRRead
	default:
		return mpa.RTRSend
	}
}
