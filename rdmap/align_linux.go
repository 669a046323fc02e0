package rdmap

import "golang.org/x/sys/unix"

// flags returns those of sendmsg(2) for the next write. A segment ends with a batch that is aligned, so
// that at is right for the next one.
func (b *batch) flags() int {
	switch {
	case b.align.emss > 0:
		return unix.MSG_EOR
	case b.more:
		return unix.MSG_MORE
	}
	return 0
}
