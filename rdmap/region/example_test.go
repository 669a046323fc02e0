package region_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"strings"

	"github.com/stag-rdma/stag/rdmap/region"
	"golang.org/x/crypto/blake2b"
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

// Two streams in one protection domain.
func ExampleDomain_NewTable() {
	d := region.NewDomain()
	a, b := d.NewTable(), d.NewTable()
	private, _ := a.Register(make([]byte, 8), region.RemoteRead)
	shared, _ := d.RegisterShared(make(region.Bytes, 8), region.Options{Access: region.RemoteRead})

	_, err := b.Lookup(private.STag(), 0, 8, region.RemoteRead)
	fmt.Println(err)
	v, err := b.Lookup(shared.STag(), 0, 8, region.RemoteRead)
	fmt.Println(err)
	v.Release()
	// Output:
	// region: STag not associated with this stream
	// <nil>
}

// A deadline for getting back memory that is in use.
// Adjacent octets need only one lookup.
func ExampleView_Forward() {
	t := region.NewTable()
	reg, _ := t.Register([]byte("placed in a run"), region.RemoteRead)

	v, _ := t.Lookup(reg.STag(), 0, 7, region.RemoteRead)
	defer v.Release()
	fmt.Printf("%q %v\n", v.Bytes(), v.WrittenThrough())
	fmt.Println(v.Forward(8), v.Offset())
	fmt.Printf("%q\n", v.Bytes())
	reg.Revoke()
	fmt.Println(v.Forward(0))
	// Output:
	// "placed " false
	// true 7
	// "in a run"
	// false
}

func ExampleRegion_Invalidate() {
	t := region.NewTable()
	r, _ := t.Register(make([]byte, 8), region.RemoteWrite)
	v, _ := t.Lookup(r.STag(), 0, 8, region.RemoteWrite)

	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	fmt.Println(r.Invalidate(ctx))
	v.Release()
	fmt.Println(r.Invalidate(ctx))
	// Output:
	// region: still in use at the deadline
	// <nil>
}

// A Send with Invalidate from the peer.
func ExampleTable_RemoteInvalidate() {
	t := region.NewTable()
	r, _ := t.Register(make([]byte, 8), region.RemoteWrite|region.RemoteInvalidate)
	fmt.Println(t.RemoteInvalidate(r.STag()), r.Valid())
	// Output: <nil> false
}

// The end of a stream.
func ExampleTable_Close() {
	t := region.NewTable()
	_, _ = t.Register(make([]byte, 8), region.RemoteWrite)
	fmt.Println(t.Live(), t.Close(context.Background()), t.Live())
	_, err := t.Register(make([]byte, 8), region.RemoteWrite)
	fmt.Println(err)
	// Output:
	// 1 <nil> 0
	// region: table closed
}

// A hash with a key, so that only those who know the key can have octets compared.
func ExampleHash() {
	key := []byte("known to both upper layers")
	sum := &region.Hash{Size: blake2b.Size256, New: func() hash.Hash {
		h, _ := blake2b.New256(key) // fails only if the key has more than 64 octets
		return h
	}}
	t := region.NewTable()
	r, err := t.RegisterMemory(region.Bytes("octets"), region.Options{Access: region.Verify, Hash: sum})
	if err != nil {
		fmt.Println(err)
		return
	}
	v, _ := t.Lookup(r.STag(), 0, 6, region.Verify)
	defer v.Release()
	got, err := v.AppendSum(nil)
	fmt.Printf("%d octets, %x..., %v\n", len(got), got[:4], err)
	// Output: 32 octets, 27c64104..., <nil>
}

// Memory that is registered once and opened for one operation at a time.
func ExampleTable_Window() {
	t := region.NewTable()
	w, err := t.Window(make([]byte, 1<<20))
	if err != nil {
		fmt.Println(err)
		return
	}
	a, _ := w.Open(0, 4096, region.RemoteRead)
	fmt.Println(a.Invalidate(context.Background()), t.Live())
	b, _ := w.Open(4096, 100, region.RemoteWrite)
	fmt.Println(a.Valid(), b.Valid(), a.STag() == b.STag())
	_ = b.Invalidate(context.Background())
	fmt.Println(w.Close(), t.Live())
	// Output:
	// <nil> 1
	// false true false
	// <nil> 0
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
