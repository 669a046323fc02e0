package commitlog

// What the crash models need of the inside.

type Memory = memory

var NewMemory = newMemory
