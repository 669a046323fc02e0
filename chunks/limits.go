package chunks

// Defaults of [Limits].
const (
	defaultMaxReadSegments = 256
	DefaultMaxWriteChunks  = 8
	defaultMaxSegments     = 256
	DefaultMaxOctets       = 4<<20 + 64<<10
)

// maxOctets is the largest MaxOctets, so that sizes fit an int everywhere.
const maxOctets = 1 << 30

// Limits bounds what one header may carry. nil and zero fields mean the
// defaults. A Limits must not be changed while in use.
type Limits struct {
	// MaxReadSegments is the most entries of a read list. If zero, 256.
	MaxReadSegments int
	// MaxWriteChunks is the most chunks of a write list. If zero, 8.
	MaxWriteChunks int
	// MaxSegments is the most segments of one write or reply chunk. If zero, 256.
	MaxSegments int
	// MaxOctets is the largest sum of all segment lengths of one header, read,
	// write and reply together, in octets. If zero, 4 MiB + 64 KiB; values above
	// 1 GiB mean 1 GiB.
	MaxOctets uint64
}

// orDefault returns l with the defaults filled in.
func (l *Limits) orDefault() Limits {
	var v Limits
	if l != nil {
		v = *l
	}
	if v.MaxReadSegments == 0 {
		v.MaxReadSegments = defaultMaxReadSegments
	}
	if v.MaxWriteChunks == 0 {
		v.MaxWriteChunks = DefaultMaxWriteChunks
	}
	if v.MaxSegments == 0 {
		v.MaxSegments = defaultMaxSegments
	}
	if v.MaxOctets == 0 {
		v.MaxOctets = DefaultMaxOctets
	}
	v.MaxOctets = min(v.MaxOctets, maxOctets)
	return v
}
