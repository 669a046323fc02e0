//go:build !race

package region

// RaceDetector says that this build has the race detector.
const RaceDetector = false

// CopyUnseen copies len(src) octets to dst, which must have as many, between memory that peers may read and write at
// once and memory of our own: Store and Load of a Guarded memory use it. The protocol allows peers that, and leaves the
// content undefined; nothing in this process depends on it. So builds with the race detector hide the access from it,
// because its report would be about the peers. In all others CopyUnseen is copy.
func CopyUnseen(dst, src []byte) { copy(dst, src) }

// readUnseen returns *p.
func readUnseen(p *bool) bool { return *p }

// setUnseen makes *p true.
func setUnseen(p *bool) { *p = true }
