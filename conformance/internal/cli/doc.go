// Package cli holds the commands of conformance:
//
//	conformance decode FILE...      what the packets of a capture say, one line per frame
//	conformance judge FILE...       which rules of the RFCs the peers in a capture break
//	conformance tshark FILE...      what tshark finds wrong with a capture
//	conformance probe HOST:PORT     bad input for a live server, and whether it survives
//	conformance rping               either side of the RDMA world's own ping
//
// All commands follow the same conventions. Results go to standard output, as JSON with --json; everything
// else goes to standard error. An error is one line. The exit status is 0 if all went well, and 2 if the
// command line was not understood; the help of each command lists the others.
//
// The commands are thin: the work is done in package conformance/internal/decode and its neighbours.
package cli
