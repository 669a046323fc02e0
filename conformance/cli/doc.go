// Package cli holds the commands of conformance:
//
//	conformance decode FILE...    what the packets of a capture say, one line per frame
//	conformance rping server      answers rping clients
//	conformance rping client      pings an rping server
//	conformance coverage          the rules of the documents and the tests that prove them
//	conformance mutants           faults that are switched on, and whether tests notice
//
// Conventions, the same for all of them: results go to standard output, and as JSON with --json;
// everything else goes to standard error. An error is one line. The exit status is
//
//	0  done
//	1  a file could not be read, or is damaged
//	2  the command line was not understood
//	3  with --strict: frames that are not well formed, or octets that were not decoded
//
// The commands are thin: what they do is in package conformance/decode and its neighbours.
package cli
