package pushfile

import (
	"encoding/binary"
	"errors"
)

// RecordHead is how many octets of a record stand in front of the data.
const RecordHead = 20

// recordMagic begins a record: "stf" and version 1.
const recordMagic = 0x73746601

// ErrRecord is a record that nothing of this version has written.
var ErrRecord = errors.New("pushfile: malformed record (is the client of another version?)")

// Record is a WRITE in a log.
type Record struct {
	Lease  uint64
	Offset uint64 // in the file, octets
	Data   []byte // at least one octet
}

// Append appends the record. It copies Data.
func (r *Record) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, recordMagic)
	b = binary.BigEndian.AppendUint64(b, r.Lease)
	b = binary.BigEndian.AppendUint64(b, r.Offset)
	return append(b, r.Data...)
}

// ParseRecord reads what Append has written. Data aliases b. Error: ErrRecord, also for one
// without data, without a lease, or that wraps around the end of 64 bits.
func ParseRecord(b []byte) (r Record, err error) {
	if len(b) <= RecordHead || binary.BigEndian.Uint32(b) != recordMagic {
		return r, ErrRecord
	}
	r = Record{
		Lease:  binary.BigEndian.Uint64(b[4:]),
		Offset: binary.BigEndian.Uint64(b[12:]),
		Data:   b[RecordHead:],
	}
	if r.Lease == 0 || r.Offset+uint64(len(r.Data)) < r.Offset {
		return Record{}, ErrRecord
	}
	return r, nil
}
