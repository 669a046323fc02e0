//go:build race

package vec

import "syscall"

// read and writeOnce are those of package syscall, which tell the race detector the same as
// package net does.
func read(fd int, p []byte) (int, error)      { return syscall.Read(fd, p) }
func writeOnce(fd int, p []byte) (int, error) { return syscall.Write(fd, p) }

// writev writes piece by piece under the race detector. Package syscall then tells it, as package
// net does, that what happens before the call happens before what the receiver of the octets does.
func (w *Writer) writev(fd int, vec [][]byte, _ int) (n int, err error) {
	return pieces(vec, func(p []byte) (int, error) { return write(fd, p) })
}

// readv reads piece by piece for the same reason.
func (r *Reader) readv(fd int, vec [][]byte) (n int, err error) {
	return pieces(vec, func(p []byte) (int, error) { return Read(fd, p) })
}

// pieces moves the pieces of vec until one is moved only in part. err is nil if anything was moved.
func pieces(vec [][]byte, move func(p []byte) (int, error)) (n int, err error) {
	for _, p := range vec {
		if len(p) == 0 {
			continue
		}
		k, err := move(p)
		n += k
		if k < len(p) {
			if n > 0 {
				err = nil
			}
			return n, err
		}
	}
	return n, nil
}
