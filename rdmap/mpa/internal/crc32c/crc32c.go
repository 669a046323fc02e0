// Package crc32c computes CRC32C, the CRC of RFC 5044 Section 4.4, as hash/crc32 does
// with the Castagnoli polynomial, and faster where the processor multiplies without
// carry 512 bits at a time. The build tag purego leaves hash/crc32 alone.
package crc32c

import "hash/crc32"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// update is Update without instructions of our own.
func update(crc uint32, p []byte) uint32 { return crc32.Update(crc, castagnoli, p) }

// FourMax is the length, octets, up to which Four is quicker than four times Update.
const FourMax = 192

// fourUpdates is Four without instructions of our own.
func fourUpdates(p []byte, stride, n int) (sums [4]uint32) {
	for i := range sums {
		sums[i] = update(0, p[i*stride : len(p) : len(p)][:n])
	}
	return sums
}
