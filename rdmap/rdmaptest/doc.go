// Package rdmaptest is a kit for tests of rdmap, of what is built on it, and of other
// iWARP code. It has four parts. They can be combined, since each is a net.Conn or uses one:
//
//   - [Pipe]: a connection in memory, buffered like TCP, with deadlines and half-close.
//   - [Wrap]: a connection that moves octets in odd pieces, late or damaged, or that ends early.
//   - [Record]: a connection that remembers what passed through it, and when.
//   - [Peer]: a peer that sends what a test tells it to send. It uses the encoder of the
//     engine, so everything that is not damaged on purpose is right.
//
// A connection that is cut inside a frame, with a recording:
//
//	a, b := rdmaptest.Pipe()
//	bad := rdmaptest.Wrap(b, rdmaptest.Faults{
//		In: rdmaptest.Fault{MaxPiece: 3, Cut: rdmaptest.CutReset, CutAt: 100},
//	})
//	rec := &rdmaptest.Record{Conn: bad}
//	server := rdmap.Server(rec, nil)
//	peer, _, err := rdmaptest.Initiate(a, &mpa.Config{IRD: 1, ORD: 1})
//
// [Main] is the TestMain of packages whose tests must not leave goroutines behind, and [Hex]
// reads golden octets.
//
// Nothing here touches the network. Everything that waits does so on channels and timers,
// so the kit works inside testing/synctest bubbles, where delays cost no time. What looks
// random is determined by a seed. To record a file for Wireshark, see package
// github.com/stag-rdma/stag/rdmap/capture, and capturetest below it.
package rdmaptest
