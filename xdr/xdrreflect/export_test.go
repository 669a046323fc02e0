package xdrreflect

import "cmp"

// Limits are those of a call that are not the defaults.
type Limits struct{ MaxOctets, MaxMemory, MaxDepth int }

func (l Limits) limits() limits {
	return limits{cmp.Or(l.MaxOctets, defaults.octets), cmp.Or(l.MaxMemory, defaults.memory), cmp.Or(l.MaxDepth, defaults.depth)}
}

func (l Limits) Marshal(v any) ([]byte, error) { return l.limits().marshal(v) }
func (l Limits) Unmarshal(b []byte, v any) (rest []byte, err error) {
	return l.limits().unmarshal(b, v)
}
