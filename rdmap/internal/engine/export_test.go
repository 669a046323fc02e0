package engine

import (
	"github.com/stag-rdma/stag/rdmap/ddp"
	"github.com/stag-rdma/stag/rdmap/internal/buf"
	"github.com/stag-rdma/stag/rdmap/mpa"
	"github.com/stag-rdma/stag/rdmap/verbs"
)

// What the tests of this package reach below its seam: single segments, the requests that are held, limits, violations.

const (
	MaxBacklog    = maxBacklog
	ExtAll        = extAll
	MaxCoalesced  = maxCoalesced
	MaxTerminate  = maxTerminate
	ImmediateLen  = immediateLen
	InlineVerify  = inlineVerify
	StageLimit    = stageLimit
	VioAccess     = vioAccess
	VioVersion    = vioVersion
	VioMismatch   = vioMismatch
	NumViolations = numViolations
)

type (
	Backlog     = backlog
	ReadRequest = readRequest
	Request     = request
	Target      = target
	Violation   = violation
)

var Violations = violations

func ControlOctet(op verbs.Opcode) uint8                     { return controlOctet(op) }
func ProtocolError(err error, u []byte) *verbs.ProtocolError { return protocolError(err, u) }
func TermCode(layer, etype, code uint8) verbs.TermCode       { return termCode(layer, etype, code) }
func (v violation) Error(cause error) *verbs.ProtocolError   { return v.asError(cause) }
func (o *backlog) Next() []byte                              { return o.next() }
func (o *backlog) Pop(p *buf.Pool)                           { o.pop(p) }
func (r *readRequest) Append(b []byte) []byte                { return r.append(b) }
func (r *readRequest) Parse(b []byte)                        { r.parse(b) }
func (g *target) Append(b []byte) []byte                     { return g.append(b) }
func (r *request) Blocks() bool                              { return r.blocks() }
func (r *Receiver) Input(u []byte) (*Event, error)           { return r.input(u) }
func (r *Receiver) Accept(u []byte) (*Event, error)          { return r.accept(u) }
func (r *Receiver) Repeats(u []byte) bool                    { return r.repeats(u) }
func (r *Receiver) Repeat(payload []byte, m *verbs.Message)  { r.repeat(payload, m) }
func (r *Receiver) Continue(df *mpa.Deframer, b []byte) int  { return r.continueRun(df, b) }
func (r *Receiver) DDP() *ddp.Receiver                       { return r.ddp }
func (r *Receiver) Pool() *buf.Pool                          { return r.pool }
func (r *Receiver) SetKeep(keep bool)                        { r.keep = keep }
func (s *Sender) Open(initiator bool)                        { s.open(initiator) }
func (s *Sender) Release()                                   { s.release() }
func (s *Sender) Request(req *Request) bool                  { return s.hold(req) }
func (w *Work) StartMarking()                                { w.startMarking() }
func (w *Work) AddFPDUs(r buf.Room)                          { w.addFPDUs(r) }
func (w *Work) Add(octets uint32)                            { w.add().octets = octets }
func (w *Work) Align(emss int)                               { w.alignment = alignment{emss: emss} }
func (s *Sender) Requests() *buf.Ring[message]               { return &s.requests }
func (s *Sender) Responses() *buf.Ring[message]              { return &s.responses }
func (s *Sender) InFlight() int                              { return s.inFlight.Len() }
func (s *Sender) SetLastID(id uint32)                        { s.lastID = id }
func (s *Sender) Slots() int                                 { return int(s.slots.Load()) }
func (s *Sender) Set(ird int, interleave bool)               { s.ird, s.interleave = ird, interleave }
func (w *Work) Items() []message                             { return w.items }
func (w *Work) MSN() *[ddp.NumQueues]uint32                  { return &w.msn }
func (w *Work) Markers() *mpa.Inserter                       { return w.markers }
func (r *Receiver) AwaitRTR()                                { r.rtrSend = true }
func (it *message) Octets() uint32                           { return it.octets }
func (it *message) Req() *Request                            { return &it.req }
func (r *Receiver) Admit(ext verbs.Extensions)               { r.admit(ext) }
