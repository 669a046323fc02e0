// Package crc32c computes CRC32C, the CRC of RFC 5044 Section 4.4, of commit logs and of calls that must not run twice.
// The results are those of hash/crc32 with the Castagnoli polynomial; it is faster on processors with carry-less
// multiplication of 512 bits at a time. With the build tag purego it only calls hash/crc32.
package crc32c
