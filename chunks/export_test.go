package chunks

// What the tests need of the inside.

const (
	NfsProgram   = nfsProgram
	NfsVersion   = nfsVersion
	NfsVersion4  = nfsVersion4
	OpRead       = opRead
	ProcCompound = procCompound
)
