// Package mounttest mounts file systems for tests, as root on Linux.
package mounttest
