package commitlog

// What the crash models and the liars need of the inside.

type (
	Memory   = memory
	Sender   = sender
	Limits   = limits
	Entry    = entry
	Batch    = batch
	Consumer = consumer
	Step     = step
	Header   = header
)

const (
	Align           = align
	BlockSize       = blockSize
	HeaderOff       = headerOff
	HeaderLen       = headerLen
	TailOff         = tailOff
	PublishedOff    = publishedOff
	RingOff         = ringOff
	RecordHeaderLen = recordHeaderLen
)

var (
	NewMemory    = newMemory
	NewSender    = newSender
	NewConsumer  = newConsumer
	Creation     = creation
	RecoverLog   = recoverLog
	AppendRecord = appendRecord
	ParseRecord  = parseRecord
	RecordSize   = recordSize
	RingAt       = ringAt
)

// Groups sets how many groups may be unanswered, and their octets.
func (p *Producer) Groups(inFlight, batch int) { p.m.limits = limits{inFlight, batch} }

func (m *memory) Tail() uint64 { return m.tail.Load() }

func (m *memory) Flushed() uint64 { return m.flushed.Load() }

func (m *memory) Step(st *step) error { return m.step(st) }

func (c *consumer) Header() header { return c.hdr }
