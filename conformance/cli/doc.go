// Package cli holds the commands of conformance:
//
//	conformance decode FILE...      what the packets of a capture say, one line per frame
//	conformance judge FILE...       which rules of the RFCs the peers in a capture break
//	conformance tshark FILE...      what tshark finds wrong with a capture
//	conformance probe HOST:PORT     bad input for a live server, and whether it survives
//	conformance rping, perftest     either side of the RDMA world's own test programs
//	conformance bench               the engine and the transport against plain TCP
//	conformance coverage            the rules of the documents and the tests that prove them
//	conformance mutants             faults that are switched on, and whether tests notice
//
// Conventions, the same for all of them: results go to standard output, and as JSON with --json;
// everything else goes to standard error. An error is one line. The exit status is 0 when all went
// well and 2 when the command line was not understood; the help of each command says what else it
// means there.
//
// The commands are thin: what they do is in package conformance/decode and its neighbours.
package cli
