//go:build !amd64 || purego

package crc32c

// Update returns the CRC32C of the octets summed up in crc followed by p.
func Update(crc uint32, p []byte) uint32 { return update(crc, p) }
