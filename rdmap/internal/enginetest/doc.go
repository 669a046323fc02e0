// Package enginetest has what tests of the engine and of connections share: golden octets of messages, and memories that
// count, fail or are too large.
package enginetest
