// Package callid says when two calls are the same call: what a client keeps when it sends one
// again, and what two calls of a client that has forgotten which XIDs it has used differ in. The
// duplicate request cache and the journal of package once share it. It performs no I/O.
package callid
