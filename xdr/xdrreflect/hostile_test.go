package xdrreflect_test

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stag-rdma/stag/xdr"
	"github.com/stag-rdma/stag/xdr/xdrreflect"
)

// chain is a list whose entries have items of their own. That of the type is the first entry's.
type chain struct {
	Kind uint32 `xdr:"union"`
	Data []byte `xdr:"unioncase=0,ddp"`
	Next *chain `xdr:"optional"`
}

// TestSplitItemBehindPointer: an item behind a pointer is never taken for the one of the type, which is absent.
func TestSplitItemBehindPointer(t *testing.T) {
	s := splitOf(t, &chain{})
	for _, in := range []chain{
		{Kind: 1, Next: &chain{Data: []byte("abcd")}},
		{Data: []byte("first"), Next: &chain{Data: []byte("abcd")}},
	} {
		whole, err := xdrreflect.Marshal(&in)
		if err != nil {
			t.Fatal(err)
		}
		var out chain
		if err := s.Unmarshal(whole, nil, &out); err != nil || !cmp.Equal(in, out) {
			t.Errorf("%v\n%s", err, cmp.Diff(in, out))
		}
		b, pos, item, err := s.Marshal(&in)
		if err != nil || string(item) != string(in.Data) || (pos > 0) != (in.Kind == 0) {
			t.Errorf("item %q at %d, %v", item, pos, err)
		}
		if pos == 0 && !cmp.Equal(b, whole) {
			t.Errorf("%x, want %x", b, whole)
		}
	}
}

// TestSplitItemWithoutPlace: data that came apart, for a value that has no place for them, are an error.
func TestSplitItemWithoutPlace(t *testing.T) {
	for _, tt := range []struct {
		v any
		b string
	}{
		{new(outcome), "00000001"},
		{new(struct{ A uint32 }), "00000001"},
	} {
		s := splitOf(t, tt.v)
		if err := s.Unmarshal(unhex(t, tt.b), []byte{}, tt.v); err != nil {
			t.Errorf("%T with no data: %v", tt.v, err)
		}
		err := s.Unmarshal(unhex(t, tt.b), []byte("data"), tt.v)
		if _, ok := errors.AsType[*xdr.DecodeError](err); !ok || !errors.Is(err, xdr.ErrTrailing) {
			t.Errorf("%T with data: %v, want ErrTrailing", tt.v, err)
		}
	}
}

// TestAbsentArm: go-xdr makes the target of a pointer in an arm that is absent. It counts as memory.
func TestAbsentArm(t *testing.T) {
	type arm struct {
		Kind uint32            `xdr:"union"`
		Big  **[1 << 17]uint64 `xdr:"unioncase=1"`
	}
	b := append(xdr.AppendUint32(nil, 100), make([]byte, 400)...)
	var v []arm
	var err error
	if n := allocated(func() { _, err = xdrreflect.Unmarshal(b, &v) }); !errors.Is(err, xdr.ErrRange) || n > 1<<20 {
		t.Errorf("%d octets became %d, %v", len(b), n, err)
	}
	if _, err := xdrreflect.Unmarshal(b[:0:0], &v); !errors.Is(err, xdr.ErrShort) {
		t.Error(err)
	}
	b[3] = 10
	if _, err := xdrreflect.Unmarshal(b, &v); err != nil || len(v) != 10 {
		t.Error(len(v), err)
	}
}

// TestNegativeArm: an unsigned discriminant has no negative arm, which go-xdr would see where int has 32 bits.
func TestNegativeArm(t *testing.T) {
	type arm struct {
		Kind uint32 `xdr:"union"`
		N    uint32 `xdr:"unioncase=-1"`
	}
	if b, err := xdrreflect.Marshal(&arm{Kind: 1<<32 - 1, N: 7}); !errors.Is(err, xdrreflect.ErrType) {
		t.Errorf("%x, %v", b, err)
	}
	type signed struct {
		Kind int32  `xdr:"union"`
		N    uint32 `xdr:"unioncase=-1"`
	}
	if b, err := xdrreflect.Marshal(&signed{-1, 7}); err != nil || len(b) != 8 {
		t.Errorf("%x, %v", b, err)
	}
}

// TestDeepStack: a value that is nested as deeply as it may be leaves no large stack to who reads and writes it,
// and may go on for long: a handler does.
func TestDeepStack(t *testing.T) {
	type entry struct {
		List *mnt   `xdr:"optional"`
		Data []byte `xdr:"ddp"`
	}
	list := unhex(t, "00000001")
	for i := range 4_990 {
		list = append(list, unhex(t, "00000000 00000000 00000001")...)
		if i == 4_989 {
			list[len(list)-1] = 0
		}
	}
	list = append(list, unhex(t, "00000004 01020304")...)
	s := splitOf(t, &entry{})
	var before, after runtime.MemStats
	runtime.GC() // which shrinks the stacks of earlier tests
	runtime.ReadMemStats(&before)
	const readers = 20
	done, end := make(chan error), make(chan struct{})
	for range readers {
		go func() {
			var v entry
			err := s.Unmarshal(list, nil, &v)
			if len(v.Data) != 4 {
				err = errors.Join(err, errors.New("no data"))
			}
			if b, pos, _, merr := s.Marshal(&v); len(b) != len(list)-4 || pos != len(b) {
				err = errors.Join(err, merr, fmt.Errorf("%d octets, item at %d", len(b), pos))
			}
			done <- err
			<-end
		}()
	}
	for range readers {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	defer close(end)
	more := int64(1 << 62)
	for deadline := time.Now().Add(2 * time.Second); more > readers*128<<10; time.Sleep(time.Millisecond) { // the last deep ones may not have ended
		if time.Now().After(deadline) {
			t.Fatalf("%d octets of stack for %d readers of %d octets each", more, readers, len(list))
		}
		runtime.ReadMemStats(&after)
		more = int64(after.StackInuse) - int64(before.StackInuse)
	}
}

// TestSplitCopiesNothingTooLong: what is refused for its length is not copied first.
func TestSplitCopiesNothingTooLong(t *testing.T) {
	s := splitOf(t, &record{})
	b := append(unhex(t, "00000000 00000004 01020304"), make([]byte, 16<<20)...)
	var err error
	if n := allocated(func() { err = s.Unmarshal(b, nil, new(record)) }); !errors.Is(err, xdr.ErrRange) || n > 1<<20 {
		t.Errorf("%d octets for a refusal, %v", n, err)
	}
	b = append(unhex(t, "00000000 00800000"), make([]byte, 8<<20)...)
	if err := s.Unmarshal(append(b, unhex(t, "00000007")...), nil, new(record)); err != nil { // an item has no limit here
		t.Error(err)
	}
}
