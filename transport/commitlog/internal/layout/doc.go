// Package layout encodes and decodes a commit log, layout version 1: where things are, the header,
// the head slots and the records. docs/commitlog-format.md describes it in prose. Octets go in,
// values come out: the package touches no memory and keeps nothing.
//
// All numbers are big-endian. Positions count ring octets and never wrap; position p is at RingOff
// + p mod capacity.
package layout
