//go:build !amd64 || purego

package crc32c

// Update returns the CRC32C of the octets that crc covers followed by p.
func Update(crc uint32, p []byte) uint32 { return update(crc, p) }

// Four returns the CRC32C of four pieces of p, n octets each, which begin at 0, stride, 2*stride and
// 3*stride.
func Four(p []byte, stride, n int) (sums [4]uint32) { return fourUpdates(p, stride, n) }
