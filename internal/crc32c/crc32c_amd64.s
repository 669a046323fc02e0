//go:build !purego

#include "textflag.h"

// Folding: a remainder stays the same when the front of a message is replaced by
// shorter factors further back (Gopal et al., "Fast CRC Computation for Generic
// Polynomials Using PCLMULQDQ Instruction"). Four registers of 64 octets are carried
// over the message 256 octets at a time, then one by 64, and the last 16 octets go
// through the CRC32 instruction, which divides.

// FOLD carries acc on by the distance of key and adds what lies there.
#define FOLD(key, there, acc, tmp) \
	VPCLMULQDQ $0x00, key, acc, tmp \
	VPCLMULQDQ $0x11, key, acc, acc \
	VPTERNLOGQ $0x96, there, tmp, acc

// func fold(reg uint32, p []byte, k *foldKeys) uint32
TEXT ·fold(SB), NOSPLIT, $0-44
	MOVL reg+0(FP), AX
	MOVQ p_base+8(FP), SI
	MOVQ p_len+16(FP), CX
	CMPQ CX, $128 // below that CRC32 is as fast
	JLT  words

	MOVQ            k+32(FP), DI
	VBROADCASTI32X4 48(DI), Z9
	VMOVD           AX, X8
	VPXORQ          (SI), Z8, Z0
	CMPQ            CX, $512
	JLT             one

	VBROADCASTI32X4 (DI), Z8
	VMOVDQU64       64(SI), Z1
	VMOVDQU64       128(SI), Z2
	VMOVDQU64       192(SI), Z3
	ADDQ            $256, SI
	SUBQ            $256, CX

four:
	FOLD(Z8, (SI), Z0, Z4)
	FOLD(Z8, 64(SI), Z1, Z5)
	FOLD(Z8, 128(SI), Z2, Z6)
	FOLD(Z8, 192(SI), Z3, Z7)
	ADDQ $256, SI
	SUBQ $256, CX
	CMPQ CX, $256
	JGE  four

	VBROADCASTI32X4 16(DI), Z4
	VBROADCASTI32X4 32(DI), Z5
	FOLD(Z4, Z3, Z0, Z6)
	FOLD(Z5, Z0, Z1, Z7)
	FOLD(Z9, Z1, Z2, Z6)
	VMOVDQA64       Z2, Z0
	SUBQ            $64, SI
	ADDQ            $64, CX

one:
	SUBQ $128, CX
	JLT  lanes

next:
	ADDQ $64, SI
	FOLD(Z9, (SI), Z0, Z1)
	SUBQ $64, CX
	JGE  next

lanes: // by 48, 32, 16 and 0 octets
	ADDQ          $64, SI
	ADDQ          $64, CX
	VMOVDQU64     64(DI), Z8
	VEXTRACTI32X4 $3, Z0, X2
	VPCLMULQDQ    $0x00, Z8, Z0, Z1
	VPCLMULQDQ    $0x11, Z8, Z0, Z0
	VPXORQ        Z1, Z0, Z0
	VEXTRACTI64X4 $1, Z0, Y1
	VPXOR         Y1, Y0, Y0
	VEXTRACTI128  $1, Y0, X1
	VPXOR         X1, X0, X0
	VPXOR         X2, X0, X0
	VMOVQ         X0, R8
	VPEXTRQ       $1, X0, R9
	VZEROUPPER
	XORL          AX, AX
	CRC32Q        R8, AX
	CRC32Q        R9, AX

words:
	SUBQ $8, CX
	JLT  rest

word:
	CRC32Q (SI), AX
	ADDQ   $8, SI
	SUBQ   $8, CX
	JGE    word

rest: // CX has the right last three bits
	TESTQ  $4, CX
	JZ     two
	CRC32L (SI), AX
	ADDQ   $4, SI

two:
	TESTQ  $2, CX
	JZ     last
	CRC32W (SI), AX
	ADDQ   $2, SI

last:
	TESTQ  $1, CX
	JZ     done
	CRC32B (SI), AX

done:
	MOVL AX, ret+40(FP)
	RET

// STEP carries the four sums on by the octets that crc takes.
#define STEP(crc) \
	crc (SI), AX \
	crc (SI)(R8*1), BX \
	crc (SI)(R8*2), DX \
	crc (SI)(R9*1), DI

// func four(p []byte, stride, n int, sums *[4]uint32)
TEXT ·four(SB), NOSPLIT, $0-48
	MOVQ p_base+0(FP), SI
	MOVQ stride+24(FP), R8
	MOVQ n+32(FP), CX
	LEAQ (R8)(R8*2), R9
	MOVL $-1, AX
	MOVL AX, BX
	MOVL AX, DX
	MOVL AX, DI
	SUBQ $8, CX
	JLT  fourrest

fourword:
	STEP(CRC32Q)
	ADDQ $8, SI
	SUBQ $8, CX
	JGE  fourword

fourrest: // CX has the right last three bits
	TESTQ $4, CX
	JZ    fourtwo
	STEP(CRC32L)
	ADDQ  $4, SI

fourtwo:
	TESTQ $2, CX
	JZ    fourlast
	STEP(CRC32W)
	ADDQ  $2, SI

fourlast:
	TESTQ $1, CX
	JZ    fourdone
	STEP(CRC32B)

fourdone:
	NOTL AX
	NOTL BX
	NOTL DX
	NOTL DI
	MOVQ sums+40(FP), SI
	MOVL AX, (SI)
	MOVL BX, 4(SI)
	MOVL DX, 8(SI)
	MOVL DI, 12(SI)
	RET

// func cpuid(leaf, sub uint32) (a, b, c, d uint32)
TEXT ·cpuid(SB), NOSPLIT, $0-24
	MOVL leaf+0(FP), AX
	MOVL sub+4(FP), CX
	CPUID
	MOVL AX, a+8(FP)
	MOVL BX, b+12(FP)
	MOVL CX, c+16(FP)
	MOVL DX, d+20(FP)
	RET

// func xgetbv() uint32
TEXT ·xgetbv(SB), NOSPLIT, $0-4
	XORL CX, CX
	XGETBV
	MOVL AX, ret+0(FP)
	RET
