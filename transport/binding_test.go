package transport_test

import (
	"github.com/stag-rdma/stag/chunks"
	"github.com/stag-rdma/stag/xdr"
)

// testBinding makes the opaques of the test program DDP-eligible, and is NFSv3
// otherwise.
type testBinding struct{ chunks.Binding }

var echoBinding = testBinding{chunks.NFSv3}

func (b testBinding) Eligible(prog, vers, proc uint32) (arg, result bool) {
	if prog != testProg {
		return b.Binding.Eligible(prog, vers, proc)
	}
	return proc == procEcho || proc == procSum || proc == procTake, proc == procEcho || proc == procFill
}

func (b testBinding) FindArg(prog, vers, proc uint32, args []byte) (int, int, bool) {
	if prog != testProg {
		return b.Binding.FindArg(prog, vers, proc, args)
	}
	if arg, _ := b.Eligible(prog, vers, proc); !arg {
		return 0, 0, false
	}
	return firstOpaque(args)
}

func (b testBinding) FindResult(prog, vers, proc uint32, res []byte) (int, int, bool) {
	if prog != testProg {
		return b.Binding.FindResult(prog, vers, proc, res)
	}
	if _, r := b.Eligible(prog, vers, proc); !r {
		return 0, 0, false
	}
	return firstOpaque(res)
}

func firstOpaque(b []byte) (int, int, bool) {
	d := xdr.NewDecoder(b)
	n := d.Uint32()
	return 4, int(n), d.Err() == nil && n < 1<<31
}

// MaxResults knows the procedures of bounded results.
func (b testBinding) MaxResults(prog, vers, proc uint32, args []byte) (rest, item int, ok bool) {
	if prog != testProg {
		return b.Binding.MaxResults(prog, vers, proc, args)
	}
	if proc == procEcho {
		_, item, ok = firstOpaque(args)
		return 64, item, ok
	}
	return 64, 0, proc == procNull || proc == procBlock
}
