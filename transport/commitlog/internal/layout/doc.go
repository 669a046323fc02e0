// Package layout holds the octets of a commit log, layout version 1: where things are,
// the header, the head slots and the records. docs/commitlog-format.md has it in prose.
// Octets in, values out: no memory is touched, nothing is kept.
//
// All numbers are big-endian. Positions are absolute counts of ring octets that never
// wrap; position p lies at RingOff + p mod capacity.
package layout
