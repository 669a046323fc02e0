// Package crc32c computes CRC32C, the CRC of RFC 5044 Section 4.4, of commit logs and of calls that must not run twice.
// The results are those of hash/crc32 with the Castagnoli polynomial; it is faster on processors with carry-less
// multiplication of 512 bits at a time. With the build tag purego it only calls hash/crc32.
package crc32c

import "hash/crc32"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// update is Update without instructions of our own.
func update(crc uint32, p []byte) uint32 { return crc32.Update(crc, castagnoli, p) }

// FourMax is the length in octets up to which Four is faster than four calls of Update.
const FourMax = 192

// fourUpdates is Four without instructions of our own.
func fourUpdates(p []byte, stride, n int) (sums [4]uint32) {
	for i := range sums {
		sums[i] = update(0, p[i*stride : len(p) : len(p)][:n])
	}
	return sums
}
