package region_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"

	"github.com/stag-rdma/stag/rdmap/region"
)

// Memory lent to a peer for reading, and taken back.
func Example() {
	t := region.NewTable()
	mem := []byte("what the peer may read")
	r, err := t.Register(mem, region.RemoteRead)
	if err != nil {
		fmt.Println(err)
		return
	}

	// The engine, on an RDMA Read of 4 octets at TO 5.
	v, err := t.Lookup(r.STag(), 5, 4, region.RemoteRead)
	fmt.Printf("%s %v\n", v.Bytes(), err)
	v.Release()

	_, err = t.Lookup(r.STag(), 5, 4, region.RemoteWrite)
	fmt.Println(errors.Is(err, region.ErrAccess))
	_, err = t.Lookup(r.STag(), 20, 4, region.RemoteRead)
	fmt.Println(errors.Is(err, region.ErrBounds))

	fmt.Println(r.Invalidate(context.Background()), t.Live())
	_, err = t.Lookup(r.STag(), 5, 4, region.RemoteRead)
	fmt.Println(errors.Is(err, region.ErrInvalidSTag))
	// Output:
	// the  <nil>
	// true
	// true
	// <nil> 0
	// true
}

// diskette is a memory with a medium below it, which a fault has changed.
type diskette struct {
	region.Memory
	medium []byte
}

func (d *diskette) ReadBack(w io.Writer, off, n int) error {
	_, err := w.Write(d.medium[off : off+n])
	return err
}

func (d *diskette) Verifiable() error { return nil }

// A Verify hashes what the medium holds, not the copy of it in memory.
func ExampleReadBacker() {
	t := region.NewTable()
	d := &diskette{region.Bytes("octets"), []byte("0ctets")}
	r, _ := t.RegisterMemory(d, region.Options{Access: region.Verify})
	v, _ := t.Lookup(r.STag(), 0, 6, region.Verify)
	defer v.Release()
	got, err := v.AppendSum(nil)
	fmt.Println(binary.BigEndian.Uint32(got) == crc32.Checksum(d.medium, crc32.MakeTable(crc32.Castagnoli)), err)
	fmt.Println(t.ReadsBack(r.STag()))
	// Output:
	// true <nil>
	// true
}

// A memory that wraps another one passes on what it can.
func ExampleReadBack() {
	d := &diskette{region.Bytes("octets"), []byte("0ctets")}
	var b strings.Builder
	fmt.Println(region.Verifiable(d), region.ReadBack(d, &b, 0, 6), b.String())
	b.Reset()
	fmt.Println(region.Verifiable(d.Memory), region.ReadBack(d.Memory, &b, 0, 6), b.String())
	// Output:
	// <nil> <nil> 0ctets
	// <nil> <nil> octets
}
