package machine

// Create returns the operations that make a new log in memory that holds durable zeros. The magic
// comes last: after a crash before it there is no log instead of a damaged one.
func Create(h Header) ([]Op, error) {
	if err := h.Check(h.Slot()); err != nil {
		return nil, err
	}
	b := h.Append(nil)
	head := Head{Seq: 1}
	return []Op{
		{Kind: OpStore, Off: HeadOff, Data: head.Append(nil, &h.ID)},
		{Kind: OpStore, Off: HeadOff + HeadSlotGap, Data: head.Append(nil, &h.ID)},
		{Kind: OpStore, Off: h.Slot() + 8, Data: b[8:]},
		persist(Range{HeadOff, HeadLen}, Range{HeadOff + HeadSlotGap, HeadLen}, Range{h.Slot() + 8, HeaderLen - 8}),
		{Kind: OpStore, Off: h.Slot(), Data: b[:8]},
		persist(Range{h.Slot(), 8}),
	}, nil
}
