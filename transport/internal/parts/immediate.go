package parts

// immediateBits is how many bits of Immediate Data are the handler's number; the credits come before it.
const immediateBits = 48

// ToImmediate returns the Immediate Data that stand for reply n, below 2^48, and grant so many credits, or 65535.
func ToImmediate(grant uint32, n uint64) uint64 {
	return uint64(min(grant, 1<<16-1))<<immediateBits | n
}

// Immediate is the reverse of ToImmediate.
func Immediate(v uint64) (grant uint32, n uint64) {
	return uint32(v >> immediateBits), v & (1<<immediateBits - 1)
}
