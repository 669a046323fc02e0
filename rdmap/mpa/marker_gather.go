package mpa

// ResetMarked is Reset for a direction with markers, which m inserts. A payload that
// is not copied then takes an entry per marker in it and one per piece between them,
// and an FPDU needs MarkerRoom octets more of the arena: len(hdr) + GatherOverhead +
// MarkerRoom(len(hdr)+len(payload)), with Stage len(payload) on top.
func (g *Gather) ResetMarked(arena []byte, bufs [][]byte, crc bool, m *Inserter) {
	g.Reset(arena, bufs, crc)
	g.mark = m
}

// markedFPDU is FPDU and Stage with markers.
func (g *Gather) markedFPDU(hdr, payload []byte, stage bool) {
	n := len(hdr) + len(payload)
	room := len(hdr) + GatherOverhead + MarkerRoom(n)
	if stage {
		room += len(payload)
	}
	g.need(room)
	m := g.mark
	g.size += m.FPDULen(n)
	var sum uint32
	from := len(g.arena) // where the octets begin that are not in sum
	g.arena = m.header(g.arena, n)
	g.arena = m.copy(g.arena, hdr)
	if stage {
		g.arena = m.copy(g.arena, payload)
	} else {
		sum, from = g.lend(payload, sum, from)
	}
	g.arena = m.copy(g.arena, zeroPad[:PadLen(n)])
	g.arena = m.due(g.arena)
	if g.crc {
		sum = UpdateCRC(sum, g.arena[from:])
	}
	g.arena = AppendCRC(g.arena, sum)
	m.end()
}

// lend makes entries of the pieces of payload between the markers.
func (g *Gather) lend(payload []byte, sum uint32, from int) (uint32, int) {
	for len(payload) > 0 {
		g.arena = g.mark.due(g.arena)
		k := g.mark.run(len(payload))
		if g.crc {
			sum = UpdateCRC(UpdateCRC(sum, g.arena[from:]), payload[:k])
		}
		g.cut()
		g.bufs = append(g.bufs, payload[:k:k])
		payload, from = payload[k:], len(g.arena)
	}
	return sum, from
}
