package mpa

// Gather builds FPDUs for a vectored write (net.Buffers, writev): payloads stay
// where they are, and everything between two payloads lies in one entry,
//
//	[len 0|hdr 0] [payload 0] [pad 0|CRC 0|len 1|hdr 1] [payload 1] [pad 1|CRC 1]
//
// so that k FPDUs take 2k+1 entries. Short FPDUs can be copied in whole between
// them, see Stage. The zero value is empty; call Reset before use. Not safe for
// concurrent use. It allocates only if the slices given to Reset are too small for
// their purpose.
type Gather struct {
	arena []byte
	bufs  [][]byte
	open  int // arena[open:] is in no entry yet
	size  int
	crc   bool
	mark  *Inserter // nil: no markers
}

// GatherOverhead is how much of the arena one FPDU needs besides its header: length
// field, pad and CRC.
const GatherOverhead = HeaderLen + 3 + CRCLen

// Reset empties g. It takes arena[:0], whose capacity bounds how much fits (see
// Room), and bufs[:0] for the entries, until the entries have been written.
func (g *Gather) Reset(arena []byte, bufs [][]byte, crc bool) {
	*g = Gather{arena: arena[:0], bufs: bufs[:0], crc: crc}
}

// Room returns how many octets of the arena are left. FPDU takes len(hdr) +
// GatherOverhead of them, Stage len(payload) more, and markers what ResetMarked
// says. Callers check before they add:
// the arena cannot move, because entries point into it, so FPDU and Stage panic
// when it is full.
func (g *Gather) Room() int { return cap(g.arena) - len(g.arena) }

// Len returns the number of octets on the wire of everything added.
func (g *Gather) Len() int { return g.size }

// FPDU adds one FPDU whose ULPDU is hdr followed by payload. hdr is copied, payload
// is borrowed until the entries have been written: it must not change, or the CRC
// no longer fits.
func (g *Gather) FPDU(hdr, payload []byte) {
	if g.mark != nil {
		g.markedFPDU(hdr, payload, false)
		return
	}
	g.need(len(hdr) + GatherOverhead)
	n, sum := g.header(hdr, payload)
	if len(payload) > 0 {
		g.cut()
		g.bufs = append(g.bufs, payload)
	}
	g.arena = AppendTrailer(g.arena, n, sum, g.crc)
}

// Stage adds one FPDU like FPDU, but copies the payload too.
func (g *Gather) Stage(hdr, payload []byte) {
	if g.mark != nil {
		g.markedFPDU(hdr, payload, true)
		return
	}
	g.need(len(hdr) + len(payload) + GatherOverhead)
	n, sum := g.header(hdr, payload)
	g.arena = append(g.arena, payload...)
	g.arena = AppendTrailer(g.arena, n, sum, g.crc)
}

func (g *Gather) header(hdr, payload []byte) (n int, sum uint32) {
	n = len(hdr) + len(payload)
	at := len(g.arena)
	g.arena = AppendHeader(g.arena, n)
	g.arena = append(g.arena, hdr...)
	if g.crc {
		sum = UpdateCRC(UpdateCRC(0, g.arena[at:]), payload)
	}
	g.size += FPDULen(n)
	return n, sum
}

// Buffers closes the last entry and returns all of them in order. They stay valid
// until Reset; more can be added and Buffers called again.
func (g *Gather) Buffers() [][]byte {
	g.cut()
	return g.bufs
}

// cut makes an entry of the octets that are in none yet.
func (g *Gather) cut() {
	if end := len(g.arena); end > g.open {
		g.bufs = append(g.bufs, g.arena[g.open:end:end])
		g.open = end
	}
}

func (g *Gather) need(n int) {
	if g.Room() < n {
		panic("mpa: Gather: arena full")
	}
}
