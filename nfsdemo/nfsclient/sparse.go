package nfsclient

import (
	"bytes"
	"io"
)

// SparseSource is a source of [Client.WriteRange] whose blocks of zeros are not sent where the file has no octets yet:
// they become holes.
type SparseSource struct{ io.ReaderAt }

// SparseSink is a destination of [Client.ReadRange] that leaves out blocks of zeros from octet From on, where the file
// has none yet. Whoever uses it sets the size of the file afterwards.
type SparseSink struct {
	io.WriterAt
	From int64
}

// WriteAt implements io.WriterAt.
func (s *SparseSink) WriteAt(p []byte, off int64) (int, error) {
	for done := 0; done < len(p); {
		n, zeros := span(p[done:])
		if at := off + int64(done); !zeros || at < s.From {
			if err := writeAt(s.WriterAt, p[done:done+n], at); err != nil {
				return done, err
			}
		}
		done += n
	}
	return len(p), nil
}

// zeros is the smallest hole. Choice: file systems have blocks of 4 KiB.
var zeros [4096]byte

// span returns how many octets data begins with that are zeros in whole blocks, or that are none.
func span(data []byte) (n int, hole bool) {
	for n < len(data) {
		b := data[n:min(n+len(zeros), len(data))]
		z := bytes.Equal(b, zeros[:len(b)])
		if n > 0 && z != hole {
			break
		}
		hole = z
		n += len(b)
	}
	return n, hole
}
