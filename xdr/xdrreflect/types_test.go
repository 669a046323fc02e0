package xdrreflect_test

import (
	"encoding/hex"
	"strings"
	"testing"
)

// Types of the tests.
type (
	// mnt is struct entry of MOUNT: a linked list.
	mnt struct {
		Host, Dir string
		Next      *mnt `xdr:"optional"`
	}

	// scalars has every form of a fixed size.
	scalars struct {
		B    bool
		I8   int8
		I16  int16
		I32  int32
		I    int
		I64  int64
		U8   uint8
		U16  uint16
		U32  uint32
		U    uint
		U64  uint64
		F32  float32
		F64  float64
		priv int
	}

	// lists has every form of a variable size.
	lists struct {
		S  string
		O  []byte
		F  [5]byte
		N  []uint32
		SS []string
		A  [2]int16
		P  *uint32
		B8 []byte `xdropaque:"false"`
	}

	// union is a discriminated union.
	union struct {
		Stat  uint32 `xdr:"union"`
		OK    []byte `xdr:"unioncase=0"`
		Errno uint64 `xdr:"unioncase=5"`
		Tail  uint32
	}

	flagged struct {
		Set  bool   `xdr:"union"`
		Size uint64 `xdr:"unioncase=1"`
	}

	// wide is large in memory and small on the wire.
	wide struct {
		Kind uint32     `xdr:"union"`
		Big  [4096]byte `xdr:"unioncase=1"`
	}
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func goldenMnt() *mnt { return &mnt{"h1", "/a", &mnt{"h2", "/bc", nil}} }

const goldenMntHex = "00000002 68310000 00000002 2f610000 00000001 00000002 68320000 00000003 2f626300 00000000"

func goldenScalars() scalars {
	return scalars{true, -1, -2, -3, -4, -5, 1, 2, 3, 4, 5, 1.5, -2, 0}
}

const goldenScalarsHex = "00000001 ffffffff fffffffe fffffffd fffffffc fffffffffffffffb 00000001 00000002 00000003" +
	"00000004 0000000000000005 3fc00000 c000000000000000"

func goldenLists() lists {
	return lists{
		"abc",
		[]byte{1, 2, 3, 4},
		[5]byte{9, 8, 7, 6, 5},
		[]uint32{7},
		[]string{"x", ""},
		[2]int16{-1, 1},
		new(uint32(6)),
		[]byte{255},
	}
}

const goldenListsHex = "00000003 61626300 00000004 01020304 0908070605000000 00000001 00000007" +
	"00000002 00000001 78000000 00000000 ffffffff 00000001 00000006 00000001 000000ff"
