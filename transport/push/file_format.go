package push

import (
	"bufio"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math"

	"github.com/stag-rdma/stag/transport/commitlog"
)

// A file of the last rung:
//
//	off 0, 8 octets: magic "STAGPUSH"
//	off 8, 4: version, 1
//	off 12, 16: ID, random
//	off 28, 4: CRC32C of octets 0 to 27
//	off 32: records, one after the other
//
// A record:
//
//	off 0, 4 octets: length of the payload; 2^31: no payload, an epoch begins
//	off 4, 4: epoch
//	off 8, 8: sequence number, 1 for the first record; for an epoch that of the next record
//	off 16, 4: CRC32C of ID, octets 0 to 15, payload
//	off 20: payload
//
// The log ends at the first octets that are not a record with the next number: a write that was not
// acknowledged and will be overwritten.
const (
	fileMagic     = "STAGPUSH"
	fileVersion   = 1
	fileHeaderLen = 32
	fileRecordLen = 20
	// fileEpoch is the length that begins an epoch.
	fileEpoch = 1 << 31
	// maxFilePayload is the largest payload of a producer.
	maxFilePayload = fileRing / 2
)

// errNoFile: the file is empty, or its header was never committed.
var errNoFile = errors.New("push: no log in the file")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// fileState is what a file holds.
type fileState struct {
	id    [16]byte
	end   int64  // end of the last record
	next  uint64 // number of the next record
	epoch uint32 // the last epoch that has begun
	last  uint32 // epoch of the last record, 0 if there is none
}

func newFileState() *fileState {
	st := &fileState{end: fileHeaderLen, next: 1}
	_, _ = rand.Read(st.id[:]) // never fails, by its documentation
	return st
}

func (st *fileState) header() []byte {
	b := binary.BigEndian.AppendUint32([]byte(fileMagic), fileVersion)
	b = append(b, st.id[:]...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func fileSum(id *[16]byte, head, payload []byte) uint32 {
	sum := crc32.Checksum(id[:], castagnoli)
	sum = crc32.Update(sum, castagnoli, head)
	return crc32.Update(sum, castagnoli, payload)
}

func appendFileRecord(b []byte, id *[16]byte, epoch uint32, seq uint64, payload []byte) []byte {
	return appendFile(b, id, uint32(len(payload)), epoch, seq, payload)
}

func appendFileEpoch(b []byte, id *[16]byte, epoch uint32, seq uint64) []byte {
	return appendFile(b, id, fileEpoch, epoch, seq, nil)
}

func appendFile(b []byte, id *[16]byte, n, epoch uint32, seq uint64, payload []byte) []byte {
	at := len(b)
	b = binary.BigEndian.AppendUint32(b, n)
	b = binary.BigEndian.AppendUint32(b, epoch)
	b = binary.BigEndian.AppendUint64(b, seq)
	b = binary.BigEndian.AppendUint32(b, fileSum(id, b[at:at+16], payload))
	return append(b, payload...)
}

// ReadFile reads a file written on the rung InFile, and calls visit with each record, in order.
// The payload belongs to visit. An error of visit ends ReadFile, which returns it; other errors
// are ErrFile, and those of r. A file without a header has no records.
func ReadFile(r io.ReaderAt, visit func(*commitlog.Record) error) error {
	_, err := readFile(r, visit)
	if errors.Is(err, errNoFile) {
		return nil
	}
	return err
}

func readFile(r io.ReaderAt, visit func(*commitlog.Record) error) (*fileState, error) {
	in := bufio.NewReaderSize(io.NewSectionReader(r, 0, math.MaxInt64), 64<<10)
	st := &fileState{end: fileHeaderLen, next: 1}
	var h [fileHeaderLen]byte
	switch _, err := io.ReadFull(in, h[:]); {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, errNoFile
	case err != nil:
		return nil, err
	case h == [fileHeaderLen]byte{}:
		return nil, errNoFile
	case string(h[:8]) != fileMagic || binary.BigEndian.Uint32(h[8:]) != fileVersion ||
		binary.BigEndian.Uint32(h[28:]) != crc32.Checksum(h[:28], castagnoli):
		return nil, ErrFile
	}
	copy(st.id[:], h[12:])
	return st, st.walk(in, visit)
}

// walk reads records up to the end.
func (st *fileState) walk(in *bufio.Reader, visit func(*commitlog.Record) error) error {
	for {
		var h [fileRecordLen]byte
		if _, err := io.ReadFull(in, h[:]); err != nil {
			return noEnd(err)
		}
		n, ok := st.length(&h)
		if !ok {
			return nil
		}
		payload, err := readSome(in, n)
		if err != nil {
			return noEnd(err)
		}
		if binary.BigEndian.Uint32(h[16:]) != fileSum(&st.id, h[:16], payload) {
			return nil
		}
		rec := st.took(&h, payload)
		if rec == nil || visit == nil {
			continue
		}
		if err := visit(rec); err != nil {
			return err
		}
	}
}

// length returns how many octets of payload follow a record's head; false means that the log has ended.
func (st *fileState) length(h *[fileRecordLen]byte) (n int, ok bool) {
	word, epoch, seq := binary.BigEndian.Uint32(h[:]), binary.BigEndian.Uint32(h[4:]), binary.BigEndian.Uint64(h[8:])
	switch {
	case seq != st.next:
		return 0, false
	case word == fileEpoch:
		return 0, epoch > st.epoch
	}
	return int(word), word <= maxFilePayload && epoch == st.epoch
}

// took counts a record and returns it, or nil if it only begins an epoch.
func (st *fileState) took(h *[fileRecordLen]byte, payload []byte) *commitlog.Record {
	st.end += fileRecordLen + int64(len(payload))
	st.epoch = binary.BigEndian.Uint32(h[4:])
	if binary.BigEndian.Uint32(h[:]) == fileEpoch {
		return nil
	}
	st.next, st.last = st.next+1, st.epoch
	return &commitlog.Record{Seq: st.next - 1, Epoch: st.epoch, Payload: payload}
}

// noEnd returns err, or nil if err is the end of the file.
func noEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// readSome reads n octets, and allocates at most twice as many octets as there are.
func readSome(in io.Reader, n int) ([]byte, error) {
	const step = 1 << 20
	var b []byte
	for len(b) < n {
		more := min(n-len(b), max(step, len(b)))
		at := len(b)
		b = append(b, make([]byte, more)...)
		if _, err := io.ReadFull(in, b[at:]); err != nil {
			return nil, err
		}
	}
	return b, nil
}
