// Package rdmaptest is a kit for tests of rdmap, of what is built on it, and of other
// iWARP code. It has four parts, which combine as they are all net.Conns or made of one:
//
//   - [Pipe]: a connection in memory, buffered like TCP, with deadlines and half-close.
//   - [Wrap]: a connection that moves octets in odd pieces, late, spoiled, or only so far.
//   - [Record]: a connection that remembers what went through it, and when.
//   - [Peer]: a peer that says what a test tells it to. It is built on the encoder of the
//     engine, so what is not spoiled on purpose is right.
//
// A peer that cuts the wire inside a frame, seen by a recorder:
//
//	a, b := rdmaptest.Pipe()
//	bad := rdmaptest.Wrap(b, rdmaptest.Faults{
//		In: rdmaptest.Fault{MaxPiece: 3, Cut: rdmaptest.CutReset, CutAt: 100},
//	})
//	rec := &rdmaptest.Record{Conn: bad}
//	server := rdmap.Server(rec, nil)
//	peer, _, err := rdmaptest.Initiate(a, &mpa.Config{IRD: 1, ORD: 1})
//
// [Main] is the TestMain of packages whose tests may leave no goroutine behind, [Hex]
// reads golden octets.
//
// Nothing here touches the network. Everything that waits does so on channels and timers,
// so the kit works inside testing/synctest bubbles, where delays cost no time. What
// looks random follows from a seed. For a file that Wireshark opens see package
// github.com/stag-rdma/stag/rdmap/capture, and capturetest below it.
package rdmaptest
