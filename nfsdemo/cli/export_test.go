package cli

// What the tests need of the inside.

type (
	ReadyJSON = readyJSON
)

const (
	LeastProcs = leastProcs
)

var (
	CgroupMemory  = cgroupMemory
	Duration      = duration
	ListTime      = listTime
	ModeString    = modeString
	MountLine     = mountLine
	Octets        = octets
	Reachable     = reachable
	SpareProcs    = spareProcs
	WritePortFile = writePortFile
)
