//go:build !amd64 || purego

package crc32c

// Update returns the CRC32C of the octets summed up in crc followed by p.
func Update(crc uint32, p []byte) uint32 { return update(crc, p) }

// Four returns the CRC32C of four pieces of n octets of p, which begin stride octets behind
// each other, the first at the front.
func Four(p []byte, stride, n int) (sums [4]uint32) { return fourUpdates(p, stride, n) }
