#include "textflag.h"

// func writeBack(addr uintptr, lines, how int)
TEXT ·writeBack(SB), NOSPLIT, $0-24
	MOVQ addr+0(FP), AX
	MOVQ lines+8(FP), CX
	MOVQ how+16(FP), DX
	CMPQ DX, $3
	JEQ  wb
	CMPQ DX, $2
	JEQ  opt

flush:
	CLFLUSH (AX)
	ADDQ $64, AX
	DECQ CX
	JNZ  flush
	SFENCE
	RET

opt:
	CLFLUSHOPT (AX)
	ADDQ $64, AX
	DECQ CX
	JNZ  opt
	SFENCE
	RET

wb:
	CLWB (AX)
	ADDQ $64, AX
	DECQ CX
	JNZ  wb
	SFENCE
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
