package pushfile

import (
	"encoding/binary"
	"errors"
)

// RecordHead is the number of octets before the data in a record.
const RecordHead = 20

// recordMagic begins a record: "stf" and version 1.
const recordMagic = 0x73746601

// ErrRecord: this version does not write such records.
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

// ParseRecord decodes a record. Data aliases b. The error is ErrRecord, also for a record without data
// or lease, or whose end exceeds 64 bits.
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
